//! The system variables of MariaDB 10.11: names, types, values, and their effect in Keel.
//!
//! `table.tsv` lists every variable with its scope, type, default, range and words. It also says whether the variable
//! *acts*, is *automatic* (Keel chooses the value; for some only until a value is given) or has *no effect*, and why.
//! [`Globals`] holds the global values as an array that is replaced at each change. A session ([`SessionSettings`]) keeps
//! the array of its start, as MariaDB copies global values into new sessions, and a list of its own changes.
//!
//! [`accept`] checks the values of SET, [`apply`] copies a session's values into the typed fields that statements read.

pub mod accept;
pub mod apply;
pub mod counters;
pub mod key_caches;
pub mod value;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hashbrown::HashMap;
use keel_base::{SqlError, errors};
use parking_lot::RwLock;

pub use value::Setting;

/// Position of a variable in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarId(u16);

/// Which values a variable has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One for the server.
    Global,
    /// One for the server and one for each session.
    Session,
    /// One for each session.
    SessionOnly,
}

/// What a variable holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ON or OFF.
    Bool,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    UInt,
    /// A number with six decimals.
    Double,
    /// One of its words.
    Enum,
    /// Some of its words.
    Set,
    /// Each of its words with `on` or `off`.
    Flags,
    /// Text.
    Text,
}

/// The effect of setting a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It acts as MariaDB documents it.
    Acts,
    /// A given value acts as MariaDB documents it; without one Keel chooses, by this rule. DEFAULT returns to the rule.
    Chosen(&'static str),
    /// The value cannot change, for this reason; given values are ignored.
    Fixed(&'static str),
    /// Values other than the default are refused, for this reason: they ask for behaviour that Keel does not have.
    Refused(&'static str),
    /// Keel chooses by this rule; given values are shown, and not used.
    Automatic(&'static str),
    /// None, for this reason.
    None(&'static str),
}

/// Whether an option of that name takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// There is no such option.
    NoOption,
    /// `--name` or `--name=value`.
    Optional,
    /// As [`Argument::Optional`]; the manual writes it without a value: boolean options of InnoDB.
    Flag,
    /// `--name=value`.
    Required,
}

/// One system variable.
#[derive(Debug)]
pub struct Variable {
    /// Name in lower case.
    pub name: &'static str,
    /// Which values it has.
    pub scope: Scope,
    /// What it holds.
    pub kind: Kind,
    /// MariaDB's name of the type: VARIABLE_TYPE.
    pub declared: &'static str,
    /// The default value.
    pub default: Setting,
    /// DEFAULT_VALUE: what is compiled in, which the start may change; None where nothing is.
    pub compiled_in: Option<String>,
    /// Least value of integers.
    pub min: i64,
    /// Greatest value of integers.
    pub max: u64,
    /// Least and greatest value of numbers with a fraction.
    pub range: (f64, f64),
    /// Least and greatest value as they are shown.
    pub range_shown: (&'static str, &'static str),
    /// Integers are rounded down to a multiple of it, where it is not 0.
    pub block: u64,
    /// Words of enums, sets and flags.
    pub words: Vec<&'static str>,
    /// Whether SET refuses it.
    pub read_only: bool,
    /// Whether it is an option of the command line.
    pub argument: Argument,
    /// Its effect in Keel.
    pub effect: Effect,
}

/// Pairs of names of the same variable.
pub const ALIASES: &[(&str, &str)] = &[
    ("default_storage_engine", "storage_engine"),
    ("identity", "last_insert_id"),
    ("log_slow_min_examined_row_limit", "min_examined_row_limit"),
    ("log_slow_query", "slow_query_log"),
    ("log_slow_query_file", "slow_query_log_file"),
    ("log_slow_query_time", "long_query_time"),
    ("tmp_memory_table_size", "tmp_table_size"),
];

/// Deprecated variables, each with its replacement; empty if there is none.
const DEPRECATED: &[(&str, &str)] = &[
    ("big_tables", ""),
    ("innodb_change_buffering", ""),
    ("innodb_log_spin_wait_delay", ""),
    ("innodb_lru_flush_size", ""),
    ("innodb_prefix_index_cluster_optimization", ""),
    ("innodb_purge_rseg_truncate_frequency", ""),
    ("max_tmp_tables", ""),
    ("old", "@@old_mode"),
    ("old_alter_table", "@@alter_algorithm"),
    ("secure_auth", ""),
    ("storage_engine", "@@default_storage_engine"),
    ("wsrep_causal_reads", "@@wsrep_sync_wait=1"),
    ("wsrep_load_data_splitting", ""),
    ("wsrep_slave_fk_checks", ""),
];

/// The warning of SET for a deprecated variable.
pub fn deprecation(variable: &Variable) -> Option<SqlError> {
    let (name, instead) = DEPRECATED.iter().find(|(name, _)| *name == variable.name)?;
    let instead =
        if instead.is_empty() { String::new() } else { format!(". Please use '{instead}' instead") };
    Some(errors::warn_deprecated(format_args!("@@{name}"), instead))
}

/// The other name of a variable, if it has one.
pub fn alias(name: &str) -> Option<&'static str> {
    ALIASES.iter().find_map(|(a, b)| match name {
        _ if name == *a => Some(*b),
        _ if name == *b => Some(*a),
        _ => None,
    })
}

/// Variables that are on where a word is among another one's, or (false) where it is not.
pub const OF_WORDS: &[(&str, &str, &str, bool)] = &[
    ("log_queries_not_using_indexes", "log_slow_filter", "not_using_index", true),
    ("log_slow_admin_statements", "log_slow_disabled_statements", "admin", false),
    ("log_slow_slave_statements", "log_slow_disabled_statements", "slave", false),
];

/// The words of `old`, in the order of the variable's, with or without one of them.
pub fn with_word(variable: &Variable, old: &str, word: &str, is_in: bool) -> Setting {
    let had = |known: &str| old.split(',').any(|own| own == known);
    let kept = variable.words.iter().filter(|known| if **known == word { is_in } else { had(known) });
    Setting::Text(kept.copied().collect::<Vec<_>>().join(",").into())
}

/// All variables, in order of their names.
pub struct Table {
    variables: Vec<Variable>,
    by_name: HashMap<&'static str, VarId>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("table.tsv")));

/// The table of all variables.
pub fn table() -> &'static Table {
    &TABLE
}

/// Reasons of options of replication and clustering: a given value is not shown, because it would promise copies.
const NOT_COPIED: &[&str] =
    &["there is no replication yet", "there is no binary log yet", "there is no Galera"];

impl Variable {
    /// Whether its value is the default, whatever is given.
    pub fn is_fixed(&self) -> bool {
        matches!(self.effect, Effect::Fixed(_))
    }

    /// Whether a value that the start is given is shown.
    pub fn keeps_given(&self) -> bool {
        match self.effect {
            Effect::Fixed(_) => false,
            Effect::None(why) => !NOT_COPIED.contains(&why),
            _ => true,
        }
    }

    /// Why a value is refused, where it promises what the server does not do.
    pub fn refusal(&self, setting: &Setting) -> Option<&'static str> {
        match self.effect {
            Effect::Refused(why) if !setting.as_text().is_empty() || setting.is_on() => {
                (*setting != self.default).then_some(why)
            }
            _ => None,
        }
    }
}

impl Table {
    fn read(text: &'static str) -> Table {
        let variables: Vec<Variable> = text.lines().map(read_line).collect();
        let by_name = variables.iter().enumerate().map(|(i, v)| (v.name, VarId(i as u16))).collect();
        Table { variables, by_name }
    }

    /// The variable of that name, whatever its case.
    pub fn find(&self, name: &str) -> Option<VarId> {
        if let Some(id) = self.by_name.get(name) {
            return Some(*id);
        }
        self.by_name.get(name.to_ascii_lowercase().as_str()).copied()
    }

    /// The variable of that name, which the table must have.
    pub fn id(&self, name: &str) -> VarId {
        self.find(name).unwrap_or_else(|| panic!("no variable {name} in the table"))
    }

    /// What is known of a variable.
    pub fn get(&self, id: VarId) -> &Variable {
        &self.variables[usize::from(id.0)]
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (VarId, &Variable)> {
        self.variables.iter().enumerate().map(|(i, v)| (VarId(i as u16), v))
    }
}

/// Fields of a line of `table.tsv`: name, scope, kind, default, min, max, block, words, access, argument, effect. The default is
/// `compiled in=>at the start` where the two are not the same. Kinds with a 4 are of 32 bits.
const FIELDS: usize = 11;

fn read_line(line: &'static str) -> Variable {
    let fields: Vec<&'static str> = line.split('\t').collect();
    assert_eq!(fields.len(), FIELDS, "{line}");
    let (kind, declared) = match fields[2] {
        "b" => (Kind::Bool, "BOOLEAN"),
        "i" => (Kind::Int, "BIGINT"),
        "i4" => (Kind::Int, "INT"),
        "u" => (Kind::UInt, "BIGINT UNSIGNED"),
        "u4" => (Kind::UInt, "INT UNSIGNED"),
        "d" => (Kind::Double, "DOUBLE"),
        // Names of character sets and the like: words that other tables list.
        "e" if fields[7].is_empty() => (Kind::Text, "ENUM"),
        "e" => (Kind::Enum, "ENUM"),
        "s" => (Kind::Set, "SET"),
        "f" => (Kind::Flags, "FLAGSET"),
        _ => (Kind::Text, "VARCHAR"),
    };
    let (compiled_in, at_start) = match fields[3].split_once("=>") {
        Some((compiled_in, at_start)) => (Some(compiled_in.to_string()), at_start),
        None => (None, fields[3]),
    };
    let default = default_of(kind, at_start);
    let effect = match fields[10].split_at(1) {
        ("+", _) => Effect::Acts,
        ("*", how) => Effect::Chosen(how),
        ("=", why) => Effect::Fixed(why),
        ("~", why) => Effect::Automatic(why),
        ("!", why) => Effect::Refused(why),
        (_, why) => Effect::None(why),
    };
    Variable {
        name: fields[0],
        scope: match fields[1] {
            "G" => Scope::Global,
            "S" => Scope::Session,
            _ => Scope::SessionOnly,
        },
        kind,
        declared,
        compiled_in: match fields[9] {
            "n" => None,
            _ => compiled_in.or_else(|| Some(default.show())),
        },
        default,
        range: (fields[4].parse().unwrap_or(f64::MIN), fields[5].parse().unwrap_or(f64::MAX)),
        range_shown: (fields[4], fields[5]),
        min: fields[4].parse().unwrap_or(0),
        max: fields[5].parse().unwrap_or(u64::MAX),
        block: fields[6].parse().unwrap_or(0),
        words: if fields[7].is_empty() { Vec::new() } else { fields[7].split(',').collect() },
        read_only: fields[8] == "r",
        argument: match fields[9] {
            "O" => Argument::Optional,
            "F" => Argument::Flag,
            "R" => Argument::Required,
            _ => Argument::NoOption,
        },
        effect,
    }
}

fn default_of(kind: Kind, text: &'static str) -> Setting {
    match kind {
        Kind::Bool => Setting::Bool(text == "ON"),
        Kind::Int => Setting::Int(text.parse().unwrap_or(0)),
        Kind::UInt => Setting::UInt(text.parse().unwrap_or(0)),
        Kind::Double => Setting::Double(text.parse().unwrap_or(0.0)),
        _ if text == "\\N" => Setting::Null,
        _ => Setting::text(text),
    }
}

/// The values of all variables at one moment.
pub type Settings = Arc<[Setting]>;

/// Who gave a global value: GLOBAL_VALUE_ORIGIN.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// The table.
    #[default]
    CompiledIn,
    /// The start, by what it found.
    Auto,
    /// The command line.
    CommandLine,
    /// An option file: its path.
    File(Arc<str>),
    /// SET GLOBAL.
    Sql,
}

impl Origin {
    /// MariaDB's word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Origin::CompiledIn => "COMPILE-TIME",
            Origin::Auto => "AUTO",
            Origin::CommandLine => "COMMAND-LINE",
            Origin::File(_) => "CONFIG",
            Origin::Sql => "SQL",
        }
    }

    /// The option file.
    pub fn path(&self) -> Option<&str> {
        match self {
            Origin::File(path) => Some(path),
            _ => None,
        }
    }
}

/// The global values.
pub struct Globals {
    values: RwLock<Settings>,
    /// The values at the start.
    started: Settings,
    /// The values of SET GLOBAL x = DEFAULT.
    defaults: Settings,
    /// The source of each value.
    origins: RwLock<Vec<Origin>>,
    /// Whether each value was given by a user.
    chosen: RwLock<Vec<bool>>,
}

impl Globals {
    /// The defaults of the table, with the values that the server was started with.
    pub fn new(changed: impl IntoIterator<Item = (VarId, Setting)>) -> Globals {
        Globals::with_defaults(changed, [], [])
    }

    /// As [`Globals::new`]; `defaults` override the defaults of the table, `origins` has the source of each value that is not
    /// a default.
    pub fn with_defaults(
        changed: impl IntoIterator<Item = (VarId, Setting)>,
        defaults: impl IntoIterator<Item = (VarId, Setting)>,
        origins: impl IntoIterator<Item = (VarId, Origin)>,
    ) -> Globals {
        let of = |changed: &mut dyn Iterator<Item = (VarId, Setting)>| {
            let mut values: Vec<Setting> = table().variables.iter().map(|v| v.default.clone()).collect();
            for (id, setting) in changed {
                values[usize::from(id.0)] = setting;
            }
            Settings::from(values)
        };
        let mut all_origins = vec![Origin::CompiledIn; table().variables.len()];
        origins.into_iter().for_each(|(id, origin)| all_origins[usize::from(id.0)] = origin);
        let chosen = all_origins.iter().map(|origin| !matches!(origin, Origin::CompiledIn | Origin::Auto));
        let started = of(&mut changed.into_iter());
        Globals {
            values: RwLock::new(started.clone()),
            started,
            defaults: of(&mut defaults.into_iter()),
            chosen: RwLock::new(chosen.collect()),
            origins: RwLock::new(all_origins),
        }
    }

    /// Whether a user gave the value.
    pub fn is_chosen(&self, id: VarId) -> bool {
        self.chosen.read()[usize::from(id.0)]
    }

    /// Notes that SET GLOBAL gave the value, and whether it was chosen or DEFAULT.
    pub fn set_chosen(&self, id: VarId, chosen: bool) {
        self.origins.write()[usize::from(id.0)] = Origin::Sql;
        self.chosen.write()[usize::from(id.0)] = chosen;
    }

    /// All values now.
    pub fn all(&self) -> Settings {
        self.values.read().clone()
    }

    /// One value.
    pub fn get(&self, id: VarId) -> Setting {
        self.values.read()[usize::from(id.0)].clone()
    }

    /// One value by its name, which the table must have.
    pub fn named(&self, name: &str) -> Setting {
        self.get(table().id(name))
    }

    /// The value of the start.
    pub fn start_of(&self, id: VarId) -> &Setting {
        &self.started[usize::from(id.0)]
    }

    /// What it becomes by SET GLOBAL x = DEFAULT.
    pub fn default_of(&self, id: VarId) -> Setting {
        self.defaults[usize::from(id.0)].clone()
    }

    /// Changes one value.
    pub fn set(&self, id: VarId, setting: Setting) {
        let mut values = self.values.write();
        let mut copy = values.to_vec();
        copy[usize::from(id.0)] = setting;
        *values = copy.into();
    }

    /// Who gave the value.
    pub fn origin(&self, id: VarId) -> Origin {
        self.origins.read()[usize::from(id.0)].clone()
    }
}

/// One session's values.
#[derive(Clone)]
pub struct SessionSettings {
    base: Settings,
    changed: Vec<(VarId, Setting)>,
}

impl SessionSettings {
    /// The values of a new session.
    pub fn new(base: Settings) -> SessionSettings {
        SessionSettings { base, changed: Vec::new() }
    }

    /// One value.
    pub fn get(&self, id: VarId) -> &Setting {
        match self.changed.iter().find(|(changed, _)| *changed == id) {
            Some((_, setting)) => setting,
            None => &self.base[usize::from(id.0)],
        }
    }

    /// One value by its name, which the table must have.
    pub fn named(&self, name: &str) -> &Setting {
        self.get(table().id(name))
    }

    /// How long the session may be idle: `interactive_timeout` or `wait_timeout`.
    pub fn idle_timeout(&self, interactive: bool) -> Duration {
        let name = if interactive { "interactive_timeout" } else { "wait_timeout" };
        Duration::from_secs(self.named(name).as_u64().max(1))
    }

    /// Changes one value; the number of variables bounds what is kept.
    pub fn set(&mut self, id: VarId, setting: Setting) {
        match self.changed.iter_mut().find(|(changed, _)| *changed == id) {
            Some(slot) => slot.1 = setting,
            None => self.changed.push((id, setting)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_line_reads() {
        let names: Vec<&str> = table().iter().map(|(_, v)| v.name).collect();
        assert!(names.len() > 650);
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
        for (_, variable) in table().iter() {
            if let (Kind::Enum, Setting::Text(text)) = (variable.kind, &variable.default) {
                assert!(variable.words.contains(&&**text), "{}: {text}", variable.name);
            }
        }
    }

    #[test]
    fn sessions_keep_the_globals_of_their_start() {
        let globals = Globals::new([]);
        let id = table().id("wait_timeout");
        let mut old = SessionSettings::new(globals.all());
        globals.set(id, Setting::UInt(7));
        assert_eq!(old.get(id), &Setting::UInt(28_800));
        assert_eq!(SessionSettings::new(globals.all()).get(id), &Setting::UInt(7));
        old.set(id, Setting::UInt(9));
        assert_eq!((old.get(id), globals.get(id)), (&Setting::UInt(9), Setting::UInt(7)));
        assert_eq!(globals.default_of(id), Setting::UInt(28_800));
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(table().find("MAX_Connections"), Some(table().id("max_connections")));
        assert_eq!(table().find("no_such"), None);
    }
}

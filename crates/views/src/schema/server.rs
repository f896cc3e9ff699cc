//! Tables about the server: engines, character sets, variables, status, processes, plugins, privileges.

use keel_base::SqlResult;
use keel_catalog::account::Privileges;
use keel_expr::rights as see;
use keel_logs::secrets::hidden;
use keel_settings::variables::{Kind, Scope, Setting, VarId, Variable, table};
use keel_value::collation::{self, Charset};
use keel_value::{CollationId, Value};

use super::{RowMaker, View, maybe, number, text, yes_no};
use crate::session_variables;
use crate::show::status;

/// Makes the rows of one of these tables; others stay empty.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) -> SqlResult<()> {
    match rows.table() {
        "ENGINES" => engines(rows),
        "CHARACTER_SETS" => character_sets(rows),
        "COLLATIONS" => collations(rows),
        "COLLATION_CHARACTER_SET_APPLICABILITY" => applicability(rows),
        "PROCESSLIST" => processes(view, rows),
        "GLOBAL_VARIABLES" => variables(view, true, rows),
        "SESSION_VARIABLES" => variables(view, false, rows),
        "SYSTEM_VARIABLES" => system_variables(view, rows),
        table @ ("GLOBAL_STATUS" | "SESSION_STATUS") => {
            let client = view.served.registry.get(view.session.id);
            for (name, value) in status::all(view.served, client.as_deref(), table == "SESSION_STATUS") {
                rows.row([("VARIABLE_NAME", text(name.to_uppercase())), ("VARIABLE_VALUE", text(value))]);
            }
        }
        "PLUGINS" | "ALL_PLUGINS" => plugins(rows),
        "OPEN_TABLES" => open_tables(view, rows),
        "KEY_CACHES" => key_cache(rows),
        "KEYWORDS" => KEYWORDS.split_whitespace().for_each(|word| rows.row([("WORD", text(word))])),
        "SQL_FUNCTIONS" => {
            let has = |name: &&str| !keel_expr::func::is_missing(&name.to_lowercase());
            let all = FUNCTIONS.split_whitespace().filter(has);
            all.for_each(|name| rows.row([("FUNCTION", text(name))]));
        }
        _ => {}
    }
    Ok(())
}

/// The one key cache that MariaDB has, which nothing uses here either.
fn key_cache(rows: &mut RowMaker<'_>) {
    const BYTES: u64 = 128 << 20;
    const BLOCK_BYTES: u64 = 1024;
    const BLOCKS: u64 = 107_163;
    rows.row([
        ("KEY_CACHE_NAME", text("default")),
        ("FULL_SIZE", number(BYTES)),
        ("BLOCK_SIZE", number(BLOCK_BYTES)),
        ("UNUSED_BLOCKS", number(BLOCKS)),
    ]);
}

/// Words and operators of the grammar, in MariaDB's order.
const KEYWORDS: &str = include_str!("keywords.txt");
/// Functions with a syntax of their own, then the others, in MariaDB's order.
const FUNCTIONS: &str = include_str!("functions.txt");

/// What the one engine is called, and what it can do.
pub const ENGINE_COMMENT: &str = "Supports transactions, row-level locking, foreign keys and crash recovery";

fn engines(rows: &mut RowMaker<'_>) {
    rows.row([
        ("ENGINE", text("InnoDB")),
        ("SUPPORT", text("DEFAULT")),
        ("COMMENT", text(ENGINE_COMMENT)),
        ("TRANSACTIONS", text("YES")),
        ("XA", text("YES")),
        ("SAVEPOINTS", text("YES")),
    ]);
}

fn character_sets(rows: &mut RowMaker<'_>) {
    for charset in Charset::all() {
        rows.row([
            ("CHARACTER_SET_NAME", text(charset.name())),
            ("DEFAULT_COLLATE_NAME", text(charset.default_collation().name())),
            ("DESCRIPTION", text(charset.description())),
            ("MAXLEN", number(u64::from(charset.max_bytes()))),
        ]);
    }
}

fn sorted_collations() -> Vec<CollationId> {
    let mut all = collation::all().to_vec();
    all.sort_by_key(|c| (c.charset().default_collation(), c.0));
    all
}

/// The names that collations of several sets share stand before those of `binary`.
fn collations(rows: &mut RowMaker<'_>) {
    let of_one = |id: &CollationId| id.shared_name().is_none();
    let (binary, others): (Vec<_>, Vec<_>) =
        sorted_collations().into_iter().filter(of_one).partition(|id| id.charset() == Charset::Binary);
    let of_utf8 = collation::all().iter().copied().filter(|id| id.charset() == Charset::Utf8mb4);
    let shared = of_utf8.filter(|id| !of_one(id));
    for id in others.into_iter().chain(shared).chain(binary) {
        let shared = id.shared_name();
        let own = |value: Value| if shared.is_some() { Value::Null } else { value };
        rows.row([
            ("COLLATION_NAME", text(shared.unwrap_or(id.name()))),
            ("CHARACTER_SET_NAME", own(text(id.charset().name()))),
            ("ID", own(number(u64::from(id.0)))),
            ("IS_DEFAULT", own(text(if id.is_default() { "Yes" } else { "" }))),
            ("IS_COMPILED", text("Yes")),
            ("SORTLEN", number(id.sort_length())),
        ]);
    }
}

fn applicability(rows: &mut RowMaker<'_>) {
    for id in sorted_collations() {
        rows.row([
            ("COLLATION_NAME", text(id.shared_name().unwrap_or(id.name()))),
            ("CHARACTER_SET_NAME", text(id.charset().name())),
            ("FULL_COLLATION_NAME", text(id.name())),
            ("ID", number(u64::from(id.0))),
            ("IS_DEFAULT", text(if id.is_default() { "Yes" } else { "" })),
        ]);
    }
}

/// A statement as MariaDB shows it: without what stands behind its end.
fn shown(statement: &[u8]) -> String {
    String::from_utf8_lossy(statement).trim_end_matches([';', ' ', '\t', '\r', '\n']).to_string()
}

fn processes(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let sees_all = view.session.access.global.has(Privileges::PROCESS);
    for client in view.served.registry.all() {
        let mut activity = client.activity.lock();
        if !sees_all
            && client.id != view.session.id
            && activity.account.as_ref() != Some(&view.session.access.user)
        {
            continue;
        }
        let elapsed = activity.since.elapsed();
        let own = client.id == view.session.id;
        let running = !activity.text.is_empty();
        let info = running.then(|| shown(&hidden(&activity.text)));
        rows.row([
            ("ID", number(client.id)),
            ("USER", text(&activity.user)),
            ("HOST", text(&client.host)),
            ("DB", maybe(activity.database.as_deref())),
            ("COMMAND", text(activity.command)),
            ("TIME", number(elapsed.as_secs())),
            (
                "STATE",
                text(if own { "Filling schema table" } else { crate::show::admin::state_of(&activity) }),
            ),
            ("INFO", maybe(info.as_ref())),
            ("TIME_MS", Value::Double(elapsed.as_micros() as f64 / 1000.0)),
            ("INFO_BINARY", maybe(info)),
            ("QUERY_ID", number(activity.number(|| view.served.next_query()))),
        ]);
    }
}

/// Every variable with the value that a session (or all of them) sees.
pub fn values(view: &View<'_>, global: bool) -> Vec<(&'static str, Setting)> {
    let mut found = Vec::new();
    let client = view.served.registry.get(view.session.id);
    for (id, variable) in table().iter() {
        let value = match (&client, variable.scope) {
            (_, Scope::SessionOnly) if global => continue,
            (Some(client), scope) if !global && scope != Scope::Global => {
                session_variables::read(client.id, view.session, &client.settings.lock(), id)
            }
            _ => view.served.globals.get(id),
        };
        found.push((variable.name, value));
    }
    found
}

fn variables(view: &View<'_>, global: bool, rows: &mut RowMaker<'_>) {
    for (name, value) in values(view, global) {
        rows.row([("VARIABLE_NAME", text(name.to_uppercase())), ("VARIABLE_VALUE", text(value.show()))]);
    }
}

fn system_variables(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let session: Vec<(&str, Setting)> = values(view, false);
    for (id, variable) in table().iter() {
        let here = session.iter().find(|(name, _)| *name == variable.name).map(|(_, value)| value.show());
        system_variable(view, id, variable, here, rows);
    }
}

fn system_variable(
    view: &View<'_>,
    id: VarId,
    variable: &Variable,
    here: Option<String>,
    rows: &mut RowMaker<'_>,
) {
    let is_number = matches!(variable.kind, Kind::Int | Kind::UInt | Kind::Double);
    let is_integer = matches!(variable.kind, Kind::Int | Kind::UInt);
    let global = view.served.globals.get(id);
    let words = match variable.kind {
        Kind::Bool => Some("OFF,ON".to_string()),
        _ if variable.words.is_empty() => None,
        _ => Some(variable.words.join(",")),
    };
    let origin = view.served.globals.origin(id);
    // The default of a character set or a collation is that of the start.
    let is_charset = variable.name.starts_with("character_set_") || variable.name.starts_with("collation_");
    let default = match variable.compiled_in.is_some() && is_charset {
        true => Some(view.served.globals.default_of(id).show()),
        false => variable.compiled_in.clone(),
    };
    rows.row([
        ("VARIABLE_NAME", text(variable.name.to_uppercase())),
        ("SESSION_VALUE", maybe(here.filter(|_| variable.scope != Scope::Global))),
        ("GLOBAL_VALUE", maybe((variable.scope != Scope::SessionOnly).then(|| global.show()))),
        ("GLOBAL_VALUE_ORIGIN", text(origin.name())),
        ("GLOBAL_VALUE_PATH", maybe(origin.path())),
        ("DEFAULT_VALUE", maybe(default)),
        ("VARIABLE_SCOPE", text(scope_name(variable.scope))),
        ("VARIABLE_TYPE", text(variable.declared)),
        ("VARIABLE_COMMENT", text(comment(variable))),
        ("NUMERIC_MIN_VALUE", maybe(is_number.then_some(variable.range_shown.0))),
        ("NUMERIC_MAX_VALUE", maybe(is_number.then_some(variable.range_shown.1))),
        ("NUMERIC_BLOCK_SIZE", maybe(is_integer.then(|| variable.block.to_string()))),
        ("ENUM_VALUE_LIST", maybe(words)),
        ("READ_ONLY", yes_no(variable.read_only)),
        ("COMMAND_LINE_ARGUMENT", maybe(argument_name(variable.argument))),
    ]);
}

/// What comes of the variable on this server.
fn comment(variable: &Variable) -> String {
    use keel_settings::variables::Effect;
    match variable.effect {
        Effect::Acts => "Acts as in MariaDB".into(),
        Effect::Chosen(how) => format!("Acts as in MariaDB; without a value automatic: {how}"),
        Effect::Automatic(how) => format!("Automatic: {how}"),
        Effect::None(why) | Effect::Fixed(why) | Effect::Refused(why) => format!("No effect: {why}"),
    }
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Global => "GLOBAL",
        Scope::Session => "SESSION",
        Scope::SessionOnly => "SESSION ONLY",
    }
}

fn argument_name(argument: keel_settings::variables::Argument) -> Option<&'static str> {
    use keel_settings::variables::Argument;
    match argument {
        Argument::NoOption => None,
        Argument::Optional => Some("OPTIONAL"),
        Argument::Flag => Some("NONE"),
        Argument::Required => Some("REQUIRED"),
    }
}

fn plugins(rows: &mut RowMaker<'_>) {
    for (name, kind, description) in [
        ("mysql_native_password", "AUTHENTICATION", "Native MySQL authentication"),
        ("ed25519", "AUTHENTICATION", "Elliptic curve ED25519 based authentication"),
        ("caching_sha2_password", "AUTHENTICATION", "Caching SHA-256 authentication of MySQL 8"),
        ("unix_socket", "AUTHENTICATION", "Unix Socket based authentication"),
        ("InnoDB", "STORAGE ENGINE", ENGINE_COMMENT),
    ] {
        rows.row([
            ("PLUGIN_NAME", text(name)),
            ("PLUGIN_VERSION", text("1.0")),
            ("PLUGIN_STATUS", text("ACTIVE")),
            ("PLUGIN_TYPE", text(kind)),
            ("PLUGIN_TYPE_VERSION", text("1.0")),
            ("PLUGIN_AUTHOR", text("Keel")),
            ("PLUGIN_DESCRIPTION", text(description)),
            ("PLUGIN_LICENSE", text("Apache-2.0")),
            ("LOAD_OPTION", text("FORCE")),
            ("PLUGIN_MATURITY", text("Beta")),
            ("PLUGIN_AUTH_VERSION", text("1.0")),
        ]);
    }
}

fn open_tables(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let catalog = view.served.database().catalog();
    for schema in catalog.schemas() {
        for table in schema.tables() {
            let have = see::on_table(view.session, &catalog.accounts, &table.schema, &table.name);
            if !have.has_any(Privileges::SELECT) {
                continue;
            }
            rows.row([("Database", text(&table.schema)), ("Table", text(&table.name))]);
        }
    }
}

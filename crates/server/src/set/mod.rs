//! SET: all values of a statement are checked before the first one changes.

use std::time::Duration;

use keel_base::{Level, SqlResult, Warning, errors};
use keel_logs::can_be_log;
use keel_settings::variables::accept::{
    self, check_names, check_scope, is_fixed_in_sessions, refuse_promise, variable_of,
};
use keel_settings::variables::value::{self, Accepted, merge_flags, shown};
use keel_settings::variables::{
    Effect, Kind, OF_WORDS, Scope, Setting, VarId, Variable, alias, apply, counters, deprecation, key_caches,
    table, with_word,
};
use keel_sql::ast::{self, Expr, SetItem, VarScope};
use keel_storage::Isolation;
use keel_value::collation::{self, Charset};
use keel_value::types::Class;
use keel_value::{CollationId, Decimal, Value, convert};

use crate::core::{Core, Evaluated};
use crate::privileges;

mod pace;
mod size;

pub use pace::apply as apply_pace;

/// A change that has been checked.
enum Change {
    System {
        id: VarId,
        global: bool,
        setting: Setting,
    },
    /// A setting of a key cache that has a name.
    KeyCache {
        instance: String,
        id: VarId,
        setting: Setting,
    },
    User {
        name: String,
        value: Evaluated,
    },
    /// SET NAMES ... COLLATE: what columns are described with.
    Results(CollationId),
    /// The buffer pool's size is again the server's choice.
    AutomaticPool,
    /// The value of this variable is the default again, not given by a user.
    Unchosen(VarId),
    /// SET named this variable: a note says so where it has no effect.
    Note(VarId),
    /// What SET TRANSACTION says without a scope, and `SET @@tx_isolation` likewise.
    NextTransaction {
        isolation: Option<Isolation>,
        read_only: Option<bool>,
    },
}

/// Runs SET.
pub fn run(core: &mut Core, items: &[SetItem], params: &[Value]) -> SqlResult<()> {
    check_names(items)?;
    let mut changes = Vec::new();
    for item in items {
        check(core, item, params, &mut changes)?;
    }
    changes.into_iter().try_for_each(|change| perform(core, change))
}

fn check(core: &mut Core, item: &SetItem, params: &[Value], changes: &mut Vec<Change>) -> SqlResult<()> {
    match item {
        SetItem::SysVar { scope, instance, name, value } => {
            let id = variable_of(instance.as_deref(), name)?;
            if let Some(warning) = deprecation(table().get(id)) {
                core.sql.warn(warning);
            }
            let global = check_scope(table().get(id), *scope)?;
            privileges::check_variable(core, table().get(id), global)?;
            if value.is_none() && table().get(id).name == "innodb_buffer_pool_size" {
                changes.push(Change::AutomaticPool);
                changes.push(Change::Unchosen(id));
                return Ok(());
            }
            let accepted = match value {
                Some(expr) => {
                    let value = evaluate(core, table().get(id), expr, params)?;
                    let value = text_of_nothing(core, table().get(id), value);
                    let value = whole_number(core, table().get(id), value);
                    check_value(core, id, global, &value)?
                }
                None if !global && is_fixed_in_sessions(table().get(id).name) => {
                    return Err(errors::variable_is_readonly("SESSION", table().get(id).name, "GLOBAL"));
                }
                None => Accepted::exactly(default_value(core, id, global)?),
            };
            check_limit_of_start(core, table().get(id), global)?;
            refuse_promise(table().get(id), &accepted.setting)?;
            report_truncation(core, table().get(id), accepted.truncated_from)?;
            if let Some(instance) = instance.as_deref().filter(|name| !key_caches::is_default(name)) {
                let instance = instance.to_owned();
                changes.push(Change::KeyCache { instance, id, setting: accepted.setting });
                return Ok(());
            }
            key_caches::check_default(table().get(id), &accepted.setting)?;
            if table().get(id).name == "sql_log_bin" && !global && core.sql.in_transaction() {
                return Err(errors::inside_transaction_prevents_switch_sql_log_bin());
            }
            if *scope == VarScope::Default
                && let Some(change) = for_next_transaction(table().get(id), &accepted.setting)
            {
                refuse_in_transaction(core)?;
                changes.push(change);
                return Ok(());
            }
            push_system(core, id, global, accepted.setting, changes)?;
            if value.is_some() {
                changes.push(Change::Note(id));
            } else if global {
                changes.push(Change::Unchosen(id));
            }
            Ok(())
        }
        SetItem::UserVar { name, value } => {
            let value = core.evaluate_in("SET", value, params)?;
            changes.push(Change::User { name: name.clone(), value });
            Ok(())
        }
        SetItem::Names { charset, collation } => {
            names(core, charset.as_deref(), collation.as_deref(), changes)
        }
        SetItem::Charset(charset) => character_set(core, charset.as_deref(), changes),
        SetItem::Transaction { scope, isolation, read_only } => {
            transaction(core, *scope, *isolation, *read_only, changes)
        }
        SetItem::Role(role) => {
            let database = core.state.database().clone();
            database.definer().set_role(&mut core.sql, role)
        }
        SetItem::DefaultRole { role, user } => {
            let database = core.state.database().clone();
            database.definer().set_default_role(&mut core.sql, role, user.as_ref())
        }
        SetItem::Password { user, password } => {
            let database = core.state.database().clone();
            database.definer().set_password(&mut core.sql, user.as_ref(), password)
        }
    }
}

/// 1290 for a limit of connections where the start chose that there is none.
fn check_limit_of_start(core: &Core, variable: &Variable, global: bool) -> SqlResult<()> {
    let name = "max_user_connections";
    let chose_none = || core.state.globals.start_of(table().id(name)).as_u64() == 0;
    match global && variable.name == name && chose_none() {
        true => Err(errors::option_prevents_statement("--max-user-connections=0")),
        false => Ok(()),
    }
}

/// A bare word is its own text; 1232 for one with a table.
fn evaluate(core: &mut Core, variable: &Variable, expr: &Expr, params: &[Value]) -> SqlResult<Value> {
    match expr {
        Expr::Column(column) if column.table.is_none() => Ok(Value::bytes(column.column.as_bytes())),
        Expr::Column(_) => Err(errors::wrong_type_for_var(variable.name)),
        _ => core.evaluate_in("SET", expr, params).map(|evaluated| by_type(variable, evaluated)),
    }
}

/// Whether NULL of an integer's type stays NULL for a variable.
fn tells_null(variable: &Variable) -> bool {
    let name = variable.name;
    name.starts_with("lc_")
        || name == "log_output"
        || (name.starts_with("innodb_") && variable.kind == Kind::Enum)
}

/// The value as its type has variables see it: a date is text, and NULL of a numeric type is zero.
fn by_type(variable: &Variable, evaluated: Evaluated) -> Value {
    let Evaluated { value, ty } = evaluated;
    match (&value, ty.class()) {
        (Value::Null, Class::Int) if !tells_null(variable) => Value::Int(0),
        (Value::Null, Class::Decimal) if ty.decimals == 0 => Value::Decimal(Decimal::ZERO),
        (Value::Null, Class::Decimal | Class::Real) => Value::Double(0.0),
        (Value::Date(_) | Value::Time(_) | Value::DateTime(_), _) => {
            let mut text = Vec::new();
            convert::to_text(value.as_ref(), &ty, &mut text);
            Value::bytes(&text)
        }
        _ => value,
    }
}

/// Under EMPTY_STRING_IS_NULL `''` stays an empty text for variables that hold text.
fn text_of_nothing(core: &Core, variable: &Variable, value: Value) -> Value {
    let mode = keel_value::SqlMode::EMPTY_STRING_IS_NULL;
    let holds_text =
        matches!(variable.kind, Kind::Text | Kind::Set | Kind::Flags) && variable.name != "time_zone";
    match value.is_null() && holds_text && core.sql.vars.sql_mode.has(mode) {
        true => Value::bytes(b""),
        false => value,
    }
}

/// A decimal without a fraction as the integer next to it, for a variable that holds one.
fn whole_number(core: &mut Core, variable: &Variable, value: Value) -> Value {
    match &value {
        Value::Decimal(number) if number.scale() == 0 && matches!(variable.kind, Kind::Int | Kind::UInt) => {
            Value::Int(number.to_i64().unwrap_or_else(|nearest| {
                core.sql.warn(errors::data_overflow(shown(&value), "INT"));
                nearest
            }))
        }
        _ => value,
    }
}

fn default_value(core: &Core, id: VarId, global: bool) -> SqlResult<Setting> {
    let variable = table().get(id);
    if matches!(variable.name, "identity" | "last_insert_id" | "rand_seed1" | "rand_seed2") {
        return Err(errors::no_default(variable.name));
    }
    if global {
        return Ok(core.state.globals.default_of(id));
    }
    match variable.scope {
        Scope::SessionOnly if variable.name == "sql_log_bin" => Ok(Setting::Bool(true)),
        Scope::SessionOnly => Ok(variable.default.clone()),
        _ => Ok(core.state.globals.get(id)),
    }
}

fn report_truncation(core: &mut Core, variable: &Variable, from: Option<String>) -> SqlResult<()> {
    let Some(from) = from else { return Ok(()) };
    if core.sql.vars.sql_mode.has(keel_value::SqlMode::STRICT_ALL_TABLES) {
        return Err(errors::wrong_value_for_var(variable.name, from));
    }
    // MariaDB's message has room for so much of the name.
    const SHOWN_MAX: usize = 32;
    let name = match variable.name.get(..SHOWN_MAX - 3) {
        Some(begin) if variable.name.len() > SHOWN_MAX => format!("{begin}..."),
        _ => variable.name.to_string(),
    };
    core.sql.warn(errors::truncated_wrong_value(name, from));
    Ok(())
}

/// The value that the variable would take.
fn check_value(core: &Core, id: VarId, global: bool, value: &Value) -> SqlResult<Accepted> {
    let variable = table().get(id);
    let name = variable.name;
    match name {
        _ if !global && is_fixed_in_sessions(name) => {
            value::accept(variable, value)?;
            Err(errors::variable_is_readonly("SESSION", name, "GLOBAL"))
        }
        "general_log_file" | "slow_query_log_file" | "log_slow_query_file" => {
            let folder = core.state.globals.named("datadir").show();
            match value {
                Value::Bytes(_) if can_be_log(std::path::Path::new(&folder), &shown(value)) => {
                    value::accept(variable, value)
                }
                Value::Bytes(_) | Value::Null => Err(errors::wrong_value_for_var(name, shown(value))),
                _ => Err(errors::wrong_type_for_var(name)),
            }
        }
        "read_only" => {
            let accepted = value::accept(variable, value)?;
            core.state.database().check_set_read_only(&core.sql)?;
            Ok(accepted)
        }
        "query_cache_type" if !global => {
            let accepted = value::accept(variable, value)?;
            let is_off = |setting: &Setting| setting.as_text() == "OFF";
            match is_off(&core.state.globals.get(id)) && !is_off(&accepted.setting) {
                true => Err(errors::query_cache_is_globally_disabled()),
                false => Ok(accepted),
            }
        }
        _ if counters::are_named_by(name) => {
            counters::accept(variable, value, core.state.globals.get(id).clone())
        }
        _ if variable.kind == Kind::Flags => {
            let accepted = value::accept(variable, value)?;
            let old =
                if global { core.state.globals.get(id) } else { core.client.settings.lock().get(id).clone() };
            let merged = merge_flags(variable, old.as_text(), accepted.setting.as_text())?;
            let is_on = |flag: &str| merged.as_text().split(',').any(|own| own == flag);
            if name == "optimizer_switch" && !is_on("in_to_exists=on") && !is_on("materialization=on") {
                return Err(errors::illegal_subquery_optimizer_switches());
            }
            Ok(Accepted::exactly(merged))
        }
        _ => accept::accept(variable, value),
    }
}

/// Variables that change together: a character set and its collation, a name and its alias.
fn push_system(
    core: &Core,
    id: VarId,
    global: bool,
    setting: Setting,
    changes: &mut Vec<Change>,
) -> SqlResult<()> {
    let name = table().get(id).name;
    let mut push = |name: &str, setting: Setting| {
        changes.push(Change::System { id: table().id(name), global, setting });
    };
    for (charset, collation) in [
        ("character_set_connection", "collation_connection"),
        ("character_set_server", "collation_server"),
        ("character_set_database", "collation_database"),
    ] {
        if name == charset {
            let default = Charset::by_name(setting.as_text()).map(|c| c.default_collation().name());
            push(collation, Setting::text(default.unwrap_or("binary")));
        } else if name == collation {
            let of = collation::by_name(setting.as_text()).map(|c| c.charset().name());
            push(charset, Setting::text(of.unwrap_or("binary")));
        }
    }
    if name == "max_join_size" {
        push("sql_big_selects", Setting::Bool(setting.as_u64() == u64::MAX));
    }
    if let Some(other) = alias(name) {
        push(other, setting.clone());
    }
    for (switch, list, word, when_in) in OF_WORDS {
        if name == *switch {
            let old = match global {
                true => core.state.globals.named(list),
                false => core.setting(list),
            };
            let is_in = setting.is_on() == *when_in;
            push(list, with_word(table().get(table().id(list)), old.as_text(), word, is_in));
        } else if name == *list {
            let has = setting.as_text().split(',').any(|own| own == *word);
            push(switch, Setting::Bool(has == *when_in));
        }
    }
    changes.push(Change::System { id, global, setting });
    Ok(())
}

fn names(
    core: &Core,
    charset: Option<&str>,
    collation: Option<&str>,
    changes: &mut Vec<Change>,
) -> SqlResult<()> {
    let charset = match charset {
        Some(name) => name.to_string(),
        None => core.state.globals.named("character_set_client").show(),
    };
    let found = Charset::by_name(&charset).ok_or_else(|| errors::unknown_character_set(&charset))?;
    let chosen = match collation {
        Some(name) => collation::named_of(name, found)?,
        None => found.default_collation(),
    };
    let mut push = |name: &str, text: &str| {
        changes.push(Change::System { id: table().id(name), global: false, setting: Setting::text(text) });
    };
    push("character_set_client", found.name());
    push("character_set_connection", found.name());
    push("character_set_results", found.name());
    push("collation_connection", chosen.name());
    changes.push(Change::Results(chosen.for_results()));
    Ok(())
}

fn character_set(core: &Core, charset: Option<&str>, changes: &mut Vec<Change>) -> SqlResult<()> {
    let name = match charset {
        Some(name) => name.to_string(),
        None => core.state.globals.named("character_set_client").show(),
    };
    let found = Charset::by_name(&name).ok_or_else(|| errors::unknown_character_set(&name))?;
    let database = core.sql.vars.database_collation;
    for (name, text) in [
        ("character_set_client", found.name()),
        ("character_set_results", found.name()),
        ("character_set_connection", database.charset().name()),
        ("collation_connection", database.name()),
    ] {
        changes.push(Change::System { id: table().id(name), global: false, setting: Setting::text(text) });
    }
    Ok(())
}

fn transaction(
    core: &Core,
    scope: VarScope,
    isolation: Option<ast::Isolation>,
    read_only: Option<bool>,
    changes: &mut Vec<Change>,
) -> SqlResult<()> {
    if scope == VarScope::Default {
        refuse_in_transaction(core)?;
        let isolation = isolation.map(|level| apply::isolation(isolation_word(level)));
        changes.push(Change::NextTransaction { isolation, read_only });
        return Ok(());
    }
    let global = scope == VarScope::Global;
    for name in ["tx_isolation", "tx_read_only"] {
        privileges::check_variable(core, table().get(table().id(name)), global)?;
    }
    if let Some(level) = isolation {
        let setting = Setting::text(isolation_word(level));
        changes.push(Change::System { id: table().id("tx_isolation"), global, setting });
    }
    if let Some(read_only) = read_only {
        let setting = Setting::Bool(read_only);
        changes.push(Change::System { id: table().id("tx_read_only"), global, setting });
    }
    Ok(())
}

/// The change of a variable whose value, where `@@` stands without a scope, is the next transaction's alone.
fn for_next_transaction(variable: &Variable, setting: &Setting) -> Option<Change> {
    match variable.name {
        "tx_isolation" => {
            let isolation = Some(apply::isolation(setting.as_text()));
            Some(Change::NextTransaction { isolation, read_only: None })
        }
        "tx_read_only" => Some(Change::NextTransaction { isolation: None, read_only: Some(setting.is_on()) }),
        _ => None,
    }
}

/// 1568: what is said of the next transaction is not said within one.
fn refuse_in_transaction(core: &Core) -> SqlResult<()> {
    match core.sql.in_transaction() {
        true => Err(errors::cant_change_tx_characteristics()),
        false => Ok(()),
    }
}

fn isolation_word(level: ast::Isolation) -> &'static str {
    match level {
        ast::Isolation::ReadUncommitted => "READ-UNCOMMITTED",
        ast::Isolation::ReadCommitted => "READ-COMMITTED",
        ast::Isolation::RepeatableRead => "REPEATABLE-READ",
        ast::Isolation::Serializable => "SERIALIZABLE",
    }
}

fn perform(core: &mut Core, change: Change) -> SqlResult<()> {
    match change {
        Change::KeyCache { instance, id, setting } => {
            let (state, name) = (&core.state, table().get(id).name);
            state.key_caches.set(&state.globals, &instance, name, setting.as_u64())?;
        }
        Change::User { name, value } => {
            core.set_user_variable(&name, value)?;
            core.track_state();
        }
        Change::AutomaticPool => {
            let _sizing = core.state.keeper.sizing.lock();
            core.state.keeper.change(&core.state, None, Some(false));
        }
        Change::Unchosen(id) => {
            if counters::are_named_by(table().get(id).name) {
                core.sql.push_warning(counters::no_default());
            }
            choose(core, id, false);
        }
        Change::NextTransaction { isolation, read_only } => {
            if isolation.is_some() {
                core.sql.vars.next_isolation = isolation;
            }
            if read_only.is_some() {
                core.sql.vars.next_read_only = read_only;
            }
        }
        Change::Results(collation) => core.sql.vars.results_collation = collation,
        Change::Note(id) => note_without_effect(core, table().get(id)),
        Change::System { id, .. } if table().get(id).is_fixed() => {}
        Change::System { id, global: true, setting } => {
            let variable = table().get(id);
            let state = core.state.clone();
            let in_order = match variable.name {
                "innodb_buffer_pool_size" | "keel_memory_limit" => Some(&state.keeper.sizing),
                name if name.contains("log") => Some(&state.logs.changing),
                _ => None,
            };
            if variable.name == "read_only" {
                state.database().set_read_only(&mut core.sql, setting.is_on())?;
            }
            let _in_order = in_order.map(|lock| lock.lock());
            let setting = apply_global(core, variable.name, setting)?;
            core.state.globals.set(id, setting);
            choose(core, id, true);
        }
        Change::System { id, global: false, setting } => perform_session(core, id, setting)?,
    }
    Ok(())
}

/// What changing a global value does beyond being kept for later sessions; gives the value that came of it.
fn apply_global(core: &Core, name: &str, setting: Setting) -> SqlResult<Setting> {
    let engine = &core.state.engine;
    match name {
        "innodb_deadlock_detect" => engine.set_deadlock_search(setting.is_on()),
        "innodb_flush_log_at_trx_commit" => engine
            .set_durability(apply::durability(setting.as_u64()))
            .map_err(|error| errors::get_errno(168, error, "InnoDB"))?,
        "innodb_force_primary_key" => core.state.database().set_force_primary_key(setting.is_on()),
        "innodb_lock_wait_timeout" => engine.set_lock_wait_timeout(Duration::from_secs(setting.as_u64())),
        "innodb_online_alter_log_max_size" => core.state.database().set_online_log_max(setting.as_u64()),
        "innodb_buffer_pool_size" => size::pool(core, setting.as_u64())?,
        "keel_memory_limit" => return size::limit(core, setting.as_u64()),
        "thread_pool_size" => {
            return Err(errors::not_supported_yet("changing thread_pool_size while the server runs"));
        }
        "innodb_log_file_size" => size::redo(core, setting.as_u64())?,
        name => core.state.logs.changed(name, &setting),
    }
    Ok(setting)
}

/// Notes whether a global value is given by a user, and applies the consequences.
fn choose(core: &mut Core, id: VarId, chosen: bool) {
    core.state.globals.set_chosen(id, chosen);
    pace::changed(core, table().get(id).name);
    if table().get(id).name == "host_cache_size" {
        core.state.failed_hosts.clear();
    }
}

/// Says so where a changed variable has no effect here.
fn note_without_effect(core: &mut Core, variable: &Variable) {
    if let Effect::None(why) | Effect::Fixed(why) | Effect::Refused(why) = variable.effect {
        let message = format!("'{}' has no effect on this server: {why}", variable.name);
        if core.sql.vars.takes_notes() && core.state.globals.named("keel_note_without_effect").is_on() {
            core.sql.push_warning(Warning { level: Level::Note, code: 1105, message: message.into() });
        }
    }
}

fn perform_session(core: &mut Core, id: VarId, setting: Setting) -> SqlResult<()> {
    let name = table().get(id).name;
    match name {
        "autocommit" if setting.is_on() && !core.sql.vars.autocommit => {
            core.sql.refuse_in_branch()?;
            let database = core.state.database().clone();
            database.commit(&mut core.sql)?;
        }
        // What was said of the next transaction alone is overruled.
        "tx_isolation" if !core.sql.in_transaction() => core.sql.vars.next_isolation = None,
        "tx_read_only" if !core.sql.in_transaction() => core.sql.vars.next_read_only = None,
        "timestamp" => {
            let micros = (setting.as_f64() * 1e6) as i64;
            core.sql.vars.timestamp = (micros != 0).then_some(micros);
        }
        "insert_id" => core.sql.vars.insert_id = Some(setting.as_u64()).filter(|v| *v != 0),
        "last_insert_id" => core.sql.last_insert_id = setting.as_u64(),
        "rand_seed1" => core.sql.rand.0 = setting.as_u64() as u32,
        "rand_seed2" => core.sql.rand.1 = setting.as_u64() as u32,
        _ => {}
    }
    apply::session(&mut core.sql.vars, name, &setting);
    let shown = setting.show();
    core.client.settings.lock().set(id, setting);
    core.track_variable(name, &shown);
    core.track_state();
    Ok(())
}

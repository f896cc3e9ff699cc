//! What SET may say of variables: their names, scopes and values, before a session or the server is asked.
//!
//! [`accept`] has the variables whose values name something (character sets, collations, zones, engines, locales) or have a
//! form of their own; all others go by their line of the table ([`value::accept`]).

use keel_base::{SqlError, SqlResult, errors};
use keel_context::Locale;
use keel_sql::ast::{SetItem, VarScope};
use keel_value::Value;
use keel_value::collation::{self, Charset};
use keel_value::temporal::named;

use super::value::{self, Accepted, shown};
use super::{Scope, Setting, VarId, Variable, key_caches, table};
use crate::budget;

/// Variables that SET STATEMENT does not set.
const NOT_FOR_STATEMENTS: &[&str] = &[
    "autocommit",
    "character_set_client",
    "character_set_connection",
    "character_set_filesystem",
    "collation_connection",
    "interactive_timeout",
    "profiling",
    "profiling_history_size",
    "query_cache_type",
    "skip_replication",
    "sql_log_off",
    "tx_isolation",
    "wait_timeout",
];

/// The variable that an item of SET names.
pub fn variable_of(instance: Option<&str>, name: &str) -> SqlResult<VarId> {
    match instance {
        Some(instance) => key_caches::find(instance, name),
        None => table().find(name).ok_or_else(|| errors::unknown_system_variable(name)),
    }
}

/// Checks the names of variables, character sets and collations, before any value is worked out.
pub fn check_names(items: &[SetItem]) -> SqlResult<()> {
    let charset = |name: &str| Charset::by_name(name).ok_or_else(|| errors::unknown_character_set(name));
    items.iter().try_for_each(|item| match item {
        SetItem::SysVar { instance, name, .. } => variable_of(instance.as_deref(), name).map(|_| ()),
        SetItem::Charset(Some(name)) => charset(name).map(|_| ()),
        SetItem::Names { charset: Some(name), collation } => match (charset(name)?, collation) {
            (found, Some(collation)) => collation::named_of(collation, found).map(|_| ()),
            _ => Ok(()),
        },
        _ => Ok(()),
    })
}

/// Checks that the items may set their variables as they ask, globally or in the session.
pub fn check_scopes(items: &[SetItem]) -> SqlResult<()> {
    items.iter().try_for_each(|item| match item {
        SetItem::SysVar { scope, instance, name, .. } => {
            check_scope(table().get(variable_of(instance.as_deref(), name)?), *scope).map(|_| ())
        }
        _ => Ok(()),
    })
}

/// Refuses what SET STATEMENT does not take: unknown variables (1193), values that read tables (1970), and some variables
/// (1971).
pub fn check_for_statement(items: &[SetItem]) -> SqlResult<()> {
    check_names(items)?;
    let reads = |item: &SetItem| match item {
        SetItem::SysVar { value: Some(value), .. } => value.reads_tables() || value.has_sequence(),
        _ => false,
    };
    if items.iter().any(reads) {
        return Err(errors::subqueries_not_supported("SET STATEMENT"));
    }
    let refused = items.iter().find_map(|item| match item {
        SetItem::SysVar { name, .. } => NOT_FOR_STATEMENTS.iter().find(|n| n.eq_ignore_ascii_case(name)),
        _ => None,
    });
    refused.map_or(Ok(()), |name| Err(errors::set_statement_not_supported(*name)))
}

/// Whether the global value is meant.
pub fn check_scope(variable: &Variable, scope: VarScope) -> SqlResult<bool> {
    if variable.read_only {
        return Err(errors::incorrect_global_local_var(variable.name, "read only"));
    }
    match (variable.scope, scope) {
        (Scope::Global, VarScope::Global) | (Scope::Session, VarScope::Global) => Ok(true),
        (Scope::SessionOnly, VarScope::Global) => Err(errors::local_variable(variable.name)),
        (Scope::Global, _) => Err(errors::global_variable(variable.name)),
        (Scope::Session | Scope::SessionOnly, _) => Ok(false),
    }
}

/// 1235 for a value that promises what the server does not do.
pub fn refuse_promise(variable: &Variable, setting: &Setting) -> SqlResult<()> {
    match variable.refusal(setting) {
        Some(why) => {
            let what = format!("{}={}: {why}", variable.name, setting.show());
            Err(errors::not_supported_yet(what))
        }
        None => Ok(()),
    }
}

/// Variables of which a session keeps the value that it began with.
pub fn is_fixed_in_sessions(name: &str) -> bool {
    ["max_allowed_packet", "net_buffer_length", "max_user_connections"].contains(&name)
}

/// The value that a variable takes by SET; errors are MariaDB's. Variables whose answer depends on the session or on a
/// global value are checked by the caller first.
pub fn accept(variable: &Variable, value: &Value) -> SqlResult<Accepted> {
    let name = variable.name;
    match name {
        _ if name.starts_with("character_set_") => charset_setting(variable, value).map(Accepted::exactly),
        _ if name.starts_with("collation_") => collation_setting(variable, value).map(Accepted::exactly),
        "time_zone" => zone_setting(variable, value).map(Accepted::exactly),
        "default_storage_engine"
        | "storage_engine"
        | "default_tmp_storage_engine"
        | "enforce_storage_engine" => engine_setting(variable, value).map(Accepted::exactly),
        "sql_mode" => {
            let accepted = value::accept(variable, value)?;
            let mode = keel_value::SqlMode::parse(accepted.setting.as_text())
                .map_err(|word| errors::wrong_value_for_var(name, word))?;
            Ok(Accepted::exactly(Setting::text(&mode.to_text())))
        }
        "lc_messages" | "lc_time_names" => locale_setting(variable, value).map(Accepted::exactly),
        "log_output" if matches!(value, Value::Int(0) | Value::UInt(0)) => {
            Err(errors::wrong_value_for_var(name, "0"))
        }
        "log_output" | "ft_boolean_syntax" if matches!(value, Value::Bytes(text) if text.is_empty()) => {
            Err(errors::wrong_value_for_var(name, ""))
        }
        "default_master_connection" | "ft_boolean_syntax" if value.is_null() => {
            Err(errors::wrong_value_for_var(name, "NULL"))
        }
        // Columns and pages are compressed by zlib alone, and nothing is encrypted.
        "innodb_compression_algorithm" => {
            let accepted = value::accept(variable, value)?;
            match accepted.setting.as_text() {
                "none" | "zlib" => Ok(accepted),
                other => Err(errors::wrong_value_for_var(name, other)),
            }
        }
        "innodb_encrypt_tables" => {
            let accepted = value::accept(variable, value)?;
            match accepted.setting.as_text() {
                "OFF" => Ok(accepted),
                _ => Err(errors::wrong_value_for_var(name, shown(value))),
            }
        }
        // What they ask for is over when SET ends.
        "innodb_buffer_pool_dump_now" | "innodb_buffer_pool_load_now" | "innodb_buffer_pool_load_abort" => {
            value::accept(variable, value)?;
            Ok(Accepted::exactly(Setting::Bool(false)))
        }
        "replicate_do_table"
        | "replicate_ignore_table"
        | "replicate_wild_do_table"
        | "replicate_wild_ignore_table"
        | "replicate_rewrite_db" => {
            let accepted = value::accept(variable, value)?;
            let mark = if name == "replicate_rewrite_db" { "->" } else { "." };
            let mut rules = accepted.setting.as_text().split(',').filter(|rule| !rule.trim().is_empty());
            match rules.all(|rule| rule.contains(mark)) {
                true => Ok(accepted),
                false => Err(errors::wrong_arguments("SET")),
            }
        }
        "innodb_buffer_pool_size" => accept_pool(variable, value),
        "keel_memory_limit" => accept_limit(variable, value),
        "session_track_system_variables" => tracked_setting(variable, value).map(Accepted::exactly),
        _ => value::accept(variable, value),
    }
}

fn charset_of(value: &Value) -> SqlResult<Charset> {
    let found = match value {
        Value::Int(id) => by_number(u64::try_from(*id).unwrap_or(0)),
        Value::UInt(id) => by_number(*id),
        Value::Bytes(bytes) => Charset::by_name(&String::from_utf8_lossy(bytes)),
        _ => None,
    };
    found.ok_or_else(|| errors::unknown_character_set(shown(value)))
}

fn by_number(id: u64) -> Option<Charset> {
    collation::all().iter().find(|c| u64::from(c.0) == id).map(|c| c.charset())
}

/// Character sets that no client can use, since their characters have zero bytes.
const NOT_FOR_CLIENTS: &[&[u8]] = &[b"ucs2", b"utf16", b"utf16le", b"utf32"];

fn charset_setting(variable: &Variable, value: &Value) -> SqlResult<Setting> {
    match value {
        Value::Null if variable.name == "character_set_results" => return Ok(Setting::Null),
        Value::Null => return Err(errors::wrong_value_for_var(variable.name, "NULL")),
        // It encodes names of files alone.
        Value::Bytes(name) if name.eq_ignore_ascii_case(b"filename") => match variable.name {
            "character_set_filesystem" => return Ok(Setting::text("filename")),
            "character_set_client" => return Err(errors::wrong_value_for_var(variable.name, shown(value))),
            _ => {}
        },
        Value::Bytes(name) if NOT_FOR_CLIENTS.contains(&name.to_ascii_lowercase().as_slice()) => {
            return Err(errors::wrong_value_for_var(variable.name, shown(value)));
        }
        Value::Int(_) | Value::UInt(_) | Value::Bytes(_) => {}
        _ => return Err(errors::wrong_type_for_var(variable.name)),
    }
    Ok(Setting::text(charset_of(value)?.name()))
}

fn collation_setting(variable: &Variable, value: &Value) -> SqlResult<Setting> {
    let found = match value {
        Value::Null => return Err(errors::wrong_value_for_var(variable.name, "NULL")),
        Value::Int(id) => collation::all().iter().find(|c| i64::from(c.0) == *id).copied(),
        Value::UInt(id) => collation::all().iter().find(|c| u64::from(c.0) == *id).copied(),
        Value::Bytes(bytes) => collation::by_name(&String::from_utf8_lossy(bytes)),
        _ => return Err(errors::wrong_type_for_var(variable.name)),
    };
    let found = found.ok_or_else(|| errors::unknown_collation(shown(value)))?;
    Ok(Setting::text(found.name()))
}

/// Names of variables with commas between, or `*`.
fn tracked_setting(variable: &Variable, value: &Value) -> SqlResult<Setting> {
    let Value::Bytes(_) = value else { return Err(no_text(variable, value)) };
    let text = shown(value);
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let mut found = Vec::new();
    if text.trim() == "*" {
        return Ok(Setting::text("*"));
    }
    for name in names {
        let id = table().find(name).ok_or_else(|| errors::unknown_system_variable(name))?;
        found.push(table().get(id).name);
    }
    // Each variable once, in the order of their names.
    found.sort_unstable();
    found.dedup();
    Ok(Setting::text(&found.join(",")))
}

/// 1231 for NULL, 1232 for what is no text either.
fn no_text(variable: &Variable, value: &Value) -> SqlError {
    match value {
        Value::Null => errors::wrong_value_for_var(variable.name, "NULL"),
        _ => errors::wrong_type_for_var(variable.name),
    }
}

fn zone_setting(variable: &Variable, value: &Value) -> SqlResult<Setting> {
    let Value::Bytes(_) = value else { return Err(no_text(variable, value)) };
    let text = shown(value);
    let (name, _) = named::find(&text).ok_or_else(|| errors::unknown_time_zone(&text))?;
    Ok(Setting::text(&name))
}

fn engine_setting(variable: &Variable, value: &Value) -> SqlResult<Setting> {
    const OTHERS: &[&str] = &["MyISAM", "Aria", "MEMORY", "CSV", "MRG_MyISAM"];
    match value {
        Value::Null if variable.name == "default_storage_engine" || variable.name == "storage_engine" => {
            return Err(errors::wrong_value_for_var(variable.name, "NULL"));
        }
        Value::Null => return Ok(Setting::Null),
        Value::Bytes(_) => {}
        _ => return Err(errors::wrong_type_for_var(variable.name)),
    }
    let name = shown(value);
    if name.eq_ignore_ascii_case("innodb") {
        return Ok(Setting::text("InnoDB"));
    }
    match OTHERS.iter().find(|known| known.eq_ignore_ascii_case(&name)) {
        Some(_) if variable.name == "enforce_storage_engine" => Err(errors::unknown_storage_engine(name)),
        Some(known) => Ok(Setting::text(known)),
        None => Err(errors::unknown_storage_engine(name)),
    }
}

/// Messages are English whatever is asked for; names that have the form of a locale are kept.
fn locale_setting(variable: &Variable, value: &Value) -> SqlResult<Setting> {
    let found = match value {
        Value::Bytes(_) => Locale::by_name(&shown(value)),
        Value::Int(number) => u64::try_from(*number).ok().and_then(Locale::by_number),
        Value::UInt(number) => Locale::by_number(*number),
        Value::Null => return Err(errors::wrong_value_for_var(variable.name, "NULL")),
        _ => return Err(errors::wrong_type_for_var(variable.name)),
    };
    found.map(|locale| Setting::text(locale.name)).ok_or_else(|| errors::unknown_locale(shown(value)))
}

/// The least pool that SET takes, as in MariaDB with pages of 16 KiB.
const POOL_BYTES_MIN: u64 = 6 << 20;

/// The size that a pool is asked to have: whole mebibytes.
fn accept_pool(variable: &Variable, value: &Value) -> SqlResult<Accepted> {
    let mut accepted = value::accept(variable, value)?;
    if accepted.setting.as_u64() < POOL_BYTES_MIN {
        accepted =
            Accepted { setting: Setting::UInt(POOL_BYTES_MIN), truncated_from: Some(value::shown(value)) };
    }
    Ok(accepted)
}

/// The memory that the server is asked to make do with: 0 for its share, or no more than there is.
fn accept_limit(variable: &Variable, value: &Value) -> SqlResult<Accepted> {
    let accepted = value::accept(variable, value)?;
    let asked = accepted.setting.as_u64();
    if matches!(value, Value::Int(0) | Value::UInt(0)) || budget::possible_limit(asked) == asked {
        return Ok(accepted);
    }
    let setting = Setting::UInt(budget::possible_limit(asked));
    Ok(Accepted { setting, truncated_from: Some(value::shown(value)) })
}

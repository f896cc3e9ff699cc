//! What `innodb_monitor_enable` and its like may name: a module, all, or counters by name or pattern.
//!
//! The counters that the engine has are always on. As in MariaDB a variable keeps what it named last if that was a module or all.

use keel_base::error::code::NO_DEFAULT;
use keel_base::{Level, SqlResult, Warning, errors};
use keel_value::collation::like_match;
use keel_value::{CollationId, Value};

use super::value::{Accepted, shown};
use super::{Setting, Variable, value};

/// MariaDB 10.11's counters, those of its INNODB_METRICS.
const COUNTERS: &str = include_str!("counters.txt");

/// And its groups of counters.
const MODULES: &[&str] = &[
    "all",
    "module_adaptive_hash",
    "module_buffer",
    "module_buffer_page",
    "module_compress",
    "module_ddl",
    "module_file",
    "module_ibuf_system",
    "module_icp",
    "module_index",
    "module_innodb",
    "module_lock",
    "module_log",
    "module_metadata",
    "module_os",
    "module_purge",
    "module_trx",
];

/// Whether the variable is one of these.
pub fn are_named_by(variable: &str) -> bool {
    variable.starts_with("innodb_monitor_")
}

/// What `SET ... = DEFAULT` says: they name nothing then.
pub fn no_default() -> Warning {
    let message =
        "Default value is not defined for this set option. Please specify correct counter or module name.";
    Warning { level: Level::Warning, code: NO_DEFAULT, message: message.into() }
}

/// The value that the variable takes, which had another before; 1231 for what names nothing.
pub fn accept(variable: &Variable, value: &Value, before: Setting) -> SqlResult<Accepted> {
    let accepted = value::accept(variable, value)?;
    let word = accepted.setting.as_text();
    if MODULES.iter().any(|module| module.eq_ignore_ascii_case(word)) {
        return Ok(Accepted::exactly(Setting::text(&word.to_ascii_lowercase())));
    }
    let pattern = word.contains('%');
    let is_named = |counter: &str| match pattern {
        true => like_match(CollationId::UTF8MB4_GENERAL_CI, counter.as_bytes(), word.as_bytes(), Some('\\')),
        false => counter.eq_ignore_ascii_case(word),
    };
    match COUNTERS.lines().any(is_named) {
        true => Ok(Accepted::exactly(before)),
        false => Err(errors::wrong_value_for_var(variable.name, shown(value))),
    }
}

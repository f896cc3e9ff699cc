//! What changing a variable does: typed copies in the session that statements read, and switches of the engine.

use std::sync::Arc;

use keel_context::{AlterAlgorithm, Locale, NoteVerbosity, SessionVars};
use keel_storage::{Durability, Isolation};
use keel_value::collation::{self, Charset};
use keel_value::temporal::Utc;
use keel_value::temporal::named::{self, SharedZone};
use keel_value::{CollationId, SqlMode};

use super::{SessionSettings, Setting};

/// Variables whose typed copies a new session gets; all names are in the table.
const COPIED: &[&str] = &[
    "alter_algorithm",
    "auto_increment_increment",
    "auto_increment_offset",
    "autocommit",
    "character_set_client",
    "character_set_results",
    "check_constraint_checks",
    "collation_connection",
    "collation_database",
    "collation_server",
    "completion_type",
    "default_week_format",
    "default_regex_flags",
    "div_precision_increment",
    "explicit_defaults_for_timestamp",
    "foreign_key_checks",
    "group_concat_max_len",
    "max_join_size",
    "max_recursive_iterations",
    "max_session_mem_used",
    "idle_readonly_transaction_timeout",
    "idle_transaction_timeout",
    "idle_write_transaction_timeout",
    "innodb_autoinc_lock_mode",
    "innodb_lock_wait_timeout",
    "innodb_rollback_on_timeout",
    "innodb_snapshot_isolation",
    "innodb_strict_mode",
    "join_buffer_size",
    "lc_time_names",
    "lock_wait_timeout",
    "long_query_time",
    "max_allowed_packet",
    "max_error_count",
    "max_statement_time",
    "note_verbosity",
    "old_mode",
    "optimizer_search_depth",
    "sort_buffer_size",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_mode",
    "sql_notes",
    "sql_quote_show_create",
    "sql_safe_updates",
    "standard_compliant_cte",
    "sql_select_limit",
    "time_zone",
    "tmp_disk_table_size",
    "tmp_memory_table_size",
    "tx_isolation",
    "tx_read_only",
    "unique_checks",
];

/// Variables that SET GLOBAL ... = DEFAULT leaves as the server was started, as in MariaDB.
pub const KEPT_BY_DEFAULT: &[&str] = &[
    "character_set_client",
    "character_set_connection",
    "character_set_database",
    "character_set_filesystem",
    "character_set_results",
    "character_set_server",
    "collation_connection",
    "collation_database",
    "collation_server",
    "default_storage_engine",
    "default_tmp_storage_engine",
    "storage_engine",
    "time_zone",
];

/// Gives a session the typed copies of all its settings.
pub fn all(vars: &mut SessionVars, settings: &SessionSettings) {
    for name in COPIED {
        session(vars, name, settings.named(name));
    }
}

/// Gives a session the typed copy of one setting; names without one are passed over.
pub fn session(vars: &mut SessionVars, name: &str, setting: &Setting) {
    match name {
        "alter_algorithm" => {
            vars.alter_algorithm = AlterAlgorithm::from_word(setting.as_text()).unwrap_or_default();
        }
        "auto_increment_increment" => vars.auto_increment_increment = setting.as_u64(),
        "auto_increment_offset" => vars.auto_increment_offset = setting.as_u64(),
        "autocommit" => vars.autocommit = setting.is_on(),
        "check_constraint_checks" => vars.check_constraint_checks = setting.is_on(),
        "completion_type" => vars.completion_type = completion_type(setting.as_text()),
        "default_week_format" => vars.default_week_format = setting.as_u64() as u8,
        "default_regex_flags" => vars.regex_flags = regex_flags(setting.as_text()).into(),
        "div_precision_increment" => vars.div_precision_increment = setting.as_u64() as u8,
        "explicit_defaults_for_timestamp" => vars.explicit_timestamps = setting.is_on(),
        "foreign_key_checks" => vars.foreign_key_checks = setting.is_on(),
        "max_recursive_iterations" => vars.max_recursive_iterations = setting.as_u64(),
        "group_concat_max_len" => vars.group_concat_max_len = setting.as_u64(),
        "idle_transaction_timeout" => vars.idle_transaction_timeouts[0] = setting.as_u64(),
        "idle_readonly_transaction_timeout" => vars.idle_transaction_timeouts[1] = setting.as_u64(),
        "idle_write_transaction_timeout" => vars.idle_transaction_timeouts[2] = setting.as_u64(),
        "innodb_lock_wait_timeout" => vars.row_lock_wait_timeout = setting.as_u64(),
        "innodb_autoinc_lock_mode" => vars.auto_increment_lock_mode = setting.as_u64() as u8,
        "innodb_rollback_on_timeout" => vars.rollback_on_timeout = setting.is_on(),
        "innodb_strict_mode" => vars.innodb_strict = setting.is_on(),
        "innodb_snapshot_isolation" => vars.snapshot_isolation = setting.is_on(),
        "join_buffer_size" => vars.join_buffer_bytes = setting.as_u64(),
        "lc_time_names" => {
            vars.time_names = Locale::by_name(setting.as_text()).unwrap_or_else(Locale::english);
        }
        "lock_wait_timeout" => vars.lock_wait_timeout = setting.as_u64(),
        "long_query_time" => vars.long_query_micros = (setting.as_f64() * 1e6) as u64,
        "max_allowed_packet" => vars.max_allowed_packet = setting.as_u64(),
        "max_error_count" => vars.max_error_count = setting.as_u64() as usize,
        "max_join_size" => vars.max_join_size = setting.as_u64(),
        "max_session_mem_used" => vars.session_bytes_max = setting.as_u64(),
        "max_sort_length" => vars.max_sort_length = setting.as_u64() as u32,
        "max_statement_time" => vars.max_statement_time = (setting.as_f64() * 1e6) as u64,
        "note_verbosity" => vars.note_verbosity = NoteVerbosity::parse(setting.as_text()),
        "old_mode" => {
            let mut words = setting.as_text().split(',');
            vars.zero_date_time_cast = words.any(|word| word.eq_ignore_ascii_case("ZERO_DATE_TIME_CAST"));
        }
        "optimizer_search_depth" => vars.optimizer_search_depth = setting.as_u64() as u32,
        "sort_buffer_size" => vars.sort_buffer_bytes = setting.as_u64(),
        "sql_auto_is_null" => vars.sql_auto_is_null = setting.is_on(),
        "sql_big_selects" => vars.big_selects = setting.is_on(),
        "sql_mode" => vars.sql_mode = SqlMode::parse(setting.as_text()).unwrap_or(SqlMode::DEFAULT),
        "sql_notes" => vars.sql_notes = setting.is_on(),
        "sql_quote_show_create" => vars.quote_show_create = setting.is_on(),
        "sql_safe_updates" => vars.safe_updates = setting.is_on(),
        "standard_compliant_cte" => vars.standard_compliant_cte = setting.is_on(),
        "sql_select_limit" => vars.select_limit = setting.as_u64(),
        "time_zone" => vars.time_zone = zone_of(setting.as_text()),
        "tmp_disk_table_size" => vars.tmp_disk_bytes = setting.as_u64(),
        "tmp_memory_table_size" | "tmp_table_size" => vars.tmp_memory_bytes = setting.as_u64(),
        "tx_isolation" => vars.isolation = isolation(setting.as_text()),
        "tx_read_only" => vars.read_only = setting.is_on(),
        "unique_checks" => vars.unique_checks = setting.is_on(),
        _ => character_set(vars, name, setting),
    }
}

fn character_set(vars: &mut SessionVars, name: &str, setting: &Setting) {
    let text = setting.as_text();
    match name {
        "character_set_client" => vars.client_collation = default_collation(text),
        "character_set_results" => vars.results_collation = default_collation(text),
        "collation_connection" => vars.connection_collation = collation_or_binary(text),
        "collation_database" => vars.database_collation = collation_or_binary(text),
        "collation_server" => vars.server_collation = collation_or_binary(text),
        _ => {}
    }
}

fn default_collation(charset: &str) -> CollationId {
    Charset::by_name(charset).map_or(CollationId::BINARY, Charset::default_collation)
}

fn collation_or_binary(name: &str) -> CollationId {
    collation::by_name(name).unwrap_or(CollationId::BINARY)
}

fn completion_type(word: &str) -> u8 {
    match word {
        "CHAIN" => 1,
        "RELEASE" => 2,
        _ => 0,
    }
}

/// The isolation level of its word in `tx_isolation`.
pub fn isolation(word: &str) -> Isolation {
    match word {
        "READ-UNCOMMITTED" => Isolation::ReadUncommitted,
        "READ-COMMITTED" => Isolation::ReadCommitted,
        "SERIALIZABLE" => Isolation::Serializable,
        _ => Isolation::RepeatableRead,
    }
}

/// The durability that `innodb_flush_log_at_trx_commit` asks for; 3 is as durable as 1.
pub fn durability(flush_log_at_commit: u64) -> Durability {
    match flush_log_at_commit {
        0 => Durability::Lazy,
        2 => Durability::WriteEachCommit,
        _ => Durability::Commit,
    }
}

/// The words of `default_regex_flags`, and how a pattern says the same. PCRE2 has nothing left that EXTRA would change.
const REGEX_FLAGS: &[(&str, &str)] = &[
    ("DOTALL", "(?s)"),
    ("DUPNAMES", "(?J)"),
    ("EXTENDED", "(?x)"),
    ("EXTENDED_MORE", "(?xx)"),
    ("MULTILINE", "(?m)"),
    ("UNGREEDY", "(?U)"),
];

/// The flags of a value of `default_regex_flags` as the beginning of patterns.
fn regex_flags(words: &str) -> String {
    let said = words
        .split(',')
        .filter_map(|word| REGEX_FLAGS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)));
    said.map(|(_, flag)| *flag).collect()
}

/// The zone of an accepted value of `time_zone`.
fn zone_of(name: &str) -> SharedZone {
    named::find(name).map_or_else(|| Arc::new(Utc) as SharedZone, |(_, zone)| zone)
}

#[cfg(test)]
mod tests {
    use super::super::{Globals, table};
    use super::*;

    #[test]
    fn a_new_session_has_mariadbs_defaults() {
        let settings = SessionSettings::new(Globals::new([]).all());
        let mut vars = SessionVars { autocommit: false, ..SessionVars::default() };
        all(&mut vars, &settings);
        assert!(vars.autocommit && vars.unique_checks && vars.foreign_key_checks && vars.sql_notes);
        assert_eq!(vars.isolation, Isolation::RepeatableRead);
        assert_eq!(vars.select_limit, u64::MAX);
        assert_eq!((vars.row_lock_wait_timeout, vars.max_allowed_packet), (50, 16 << 20));
        assert_eq!(vars.server_collation, CollationId::UTF8MB4_GENERAL_CI);
        assert_eq!(vars.sql_mode, SqlMode::DEFAULT);
    }

    #[test]
    fn copied_variables_are_in_the_table() {
        assert!(COPIED.iter().all(|name| table().find(name).is_some()));
    }
}

//! The variables of a session that statements read.

use std::sync::Arc;

use keel_value::temporal::{Utc, Zone};
use keel_value::{CollationId, SqlMode};

use crate::locale::Locale;
use crate::memory::Room;

/// ALGORITHM of ALTER TABLE and CREATE INDEX: the most that a change may cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AlterAlgorithm {
    /// Whatever it costs.
    #[default]
    Default,
    /// The rows are copied.
    Copy,
    /// The engine may rewrite the rows.
    Inplace,
    /// Only indexes may be made.
    NoCopy,
    /// Only the definition may change.
    Instant,
}

impl AlterAlgorithm {
    /// The algorithm of that word, in any case.
    pub fn from_word(word: &str) -> Option<AlterAlgorithm> {
        Some(match word.to_ascii_uppercase().as_str() {
            "DEFAULT" => AlterAlgorithm::Default,
            "COPY" => AlterAlgorithm::Copy,
            "INPLACE" => AlterAlgorithm::Inplace,
            "NOCOPY" => AlterAlgorithm::NoCopy,
            "INSTANT" => AlterAlgorithm::Instant,
            _ => return None,
        })
    }

    /// As errors name it.
    pub fn words(self) -> &'static str {
        match self {
            AlterAlgorithm::Default => "ALGORITHM=DEFAULT",
            AlterAlgorithm::Copy => "ALGORITHM=COPY",
            AlterAlgorithm::Inplace => "ALGORITHM=INPLACE",
            AlterAlgorithm::NoCopy => "ALGORITHM=NOCOPY",
            AlterAlgorithm::Instant => "ALGORITHM=INSTANT",
        }
    }
}

/// Typed copies of the variables that statements need on their way.
#[derive(Clone)]
pub struct SessionVars {
    /// `sql_mode`.
    pub sql_mode: SqlMode,
    /// `autocommit`.
    pub autocommit: bool,
    /// `tx_isolation`.
    pub isolation: keel_storage::Isolation,
    /// `tx_read_only`.
    pub read_only: bool,
    /// SET TRANSACTION without scope: for the next transaction only.
    pub next_isolation: Option<keel_storage::Isolation>,
    /// The same for READ ONLY.
    pub next_read_only: Option<bool>,
    /// `completion_type`: 1 chains, 2 releases.
    pub completion_type: u8,
    /// `character_set_client`'s default collation.
    pub client_collation: CollationId,
    /// `collation_connection`: of literals.
    pub connection_collation: CollationId,
    /// `character_set_results`; `binary` where none is wanted.
    pub results_collation: CollationId,
    /// `collation_database`.
    pub database_collation: CollationId,
    /// `collation_server`.
    pub server_collation: CollationId,
    /// `time_zone`.
    pub time_zone: Arc<dyn Zone + Send + Sync>,
    /// SET timestamp: the statement clock in microseconds since 1970.
    pub timestamp: Option<i64>,
    /// `sql_select_limit`.
    pub select_limit: u64,
    /// `innodb_lock_wait_timeout`, seconds.
    pub row_lock_wait_timeout: u64,
    /// `innodb_snapshot_isolation`.
    pub snapshot_isolation: bool,
    /// `innodb_rollback_on_timeout`.
    pub rollback_on_timeout: bool,
    /// `lock_wait_timeout`, seconds: metadata locks.
    pub lock_wait_timeout: u64,
    /// `foreign_key_checks`.
    pub foreign_key_checks: bool,
    /// `check_constraint_checks`.
    pub check_constraint_checks: bool,
    /// `unique_checks`.
    pub unique_checks: bool,
    /// `div_precision_increment`.
    pub div_precision_increment: u8,
    /// `lc_time_names`.
    pub time_names: &'static Locale,
    /// `default_regex_flags`, as the beginning of patterns.
    pub regex_flags: Arc<str>,
    /// `max_recursive_iterations`: rounds of a recursive table.
    pub max_recursive_iterations: u64,
    /// `group_concat_max_len`, bytes.
    pub group_concat_max_len: u64,
    /// `max_statement_time`, microseconds; 0 is none.
    pub max_statement_time: u64,
    /// `long_query_time`, microseconds: what takes longer is slow.
    pub long_query_micros: u64,
    /// `idle_transaction_timeout`, `idle_readonly_transaction_timeout`, `idle_write_transaction_timeout`, seconds; 0 is none.
    pub idle_transaction_timeouts: [u64; 3],
    /// `max_allowed_packet`, bytes.
    pub max_allowed_packet: u64,
    /// `auto_increment_increment`.
    pub auto_increment_increment: u64,
    /// `auto_increment_offset`.
    pub auto_increment_offset: u64,
    /// `innodb_autoinc_lock_mode`: which INSERTs lock the counter to their end. 0 all, 1 those of unknown length, 2 none.
    pub auto_increment_lock_mode: u8,
    /// SET insert_id: for the next INSERT only.
    pub insert_id: Option<u64>,
    /// `sort_buffer_size`, bytes.
    pub sort_buffer_bytes: u64,
    /// `max_sort_length`: bytes of a value that ORDER BY compares.
    pub max_sort_length: u32,
    /// `tmp_memory_table_size`, bytes: hash aggregation and joins.
    pub tmp_memory_bytes: u64,
    /// `tmp_disk_table_size`, bytes: what such a table may take in a file.
    pub tmp_disk_bytes: u64,
    /// `max_session_mem_used`, bytes.
    pub session_bytes_max: u64,
    /// `max_join_size`: what a query may examine.
    pub max_join_size: u64,
    /// `sql_big_selects`: queries may examine more.
    pub big_selects: bool,
    /// `join_buffer_size`, bytes.
    pub join_buffer_bytes: u64,
    /// `max_error_count`: warnings kept.
    pub max_error_count: usize,
    /// `optimizer_search_depth`.
    pub optimizer_search_depth: u32,
    /// `explicit_defaults_for_timestamp`: TIMESTAMP columns are what they say, no more.
    pub explicit_timestamps: bool,
    /// `innodb_strict_mode`: row formats that there are not are refused.
    pub innodb_strict: bool,
    /// `sql_notes`: notes are kept.
    pub sql_notes: bool,
    /// `note_verbosity`.
    pub note_verbosity: NoteVerbosity,
    /// `sql_safe_updates`.
    pub safe_updates: bool,
    /// `standard_compliant_cte`.
    pub standard_compliant_cte: bool,
    /// `sql_quote_show_create`: SHOW CREATE quotes all names.
    pub quote_show_create: bool,
    /// `old_mode` has ZERO_DATE_TIME_CAST: a time becomes a date of the zero day.
    pub zero_date_time_cast: bool,
    /// `alter_algorithm`: where a statement does not say ALGORITHM.
    pub alter_algorithm: AlterAlgorithm,
    /// `sql_auto_is_null`.
    pub sql_auto_is_null: bool,
    /// `default_week_format`.
    pub default_week_format: u8,
    /// CLIENT_FOUND_ROWS: affected rows count matches.
    pub found_rows_flag: bool,
}

/// `note_verbosity`: which notes a session gets. Without any word it gets none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoteVerbosity {
    /// Every note of a kind without a word of its own.
    pub basic: bool,
    /// EXPLAIN names key parts that conditions cannot use.
    pub explain: bool,
    /// All statements name them.
    pub unusable_keys: bool,
}

impl Default for NoteVerbosity {
    fn default() -> NoteVerbosity {
        NoteVerbosity { basic: true, explain: true, unusable_keys: false }
    }
}

impl NoteVerbosity {
    /// From the words of the variable.
    pub fn parse(text: &str) -> NoteVerbosity {
        let has = |word: &str| text.split(',').any(|part| part.eq_ignore_ascii_case(word));
        NoteVerbosity { basic: has("basic"), explain: has("explain"), unusable_keys: has("unusable_keys") }
    }
}

impl Default for SessionVars {
    /// MariaDB's defaults.
    fn default() -> Self {
        SessionVars {
            sql_mode: SqlMode::DEFAULT,
            autocommit: true,
            isolation: keel_storage::Isolation::RepeatableRead,
            read_only: false,
            next_isolation: None,
            next_read_only: None,
            completion_type: 0,
            client_collation: CollationId::UTF8MB4_GENERAL_CI,
            connection_collation: CollationId::UTF8MB4_GENERAL_CI,
            results_collation: CollationId::UTF8MB4_GENERAL_CI,
            database_collation: CollationId::UTF8MB4_GENERAL_CI,
            server_collation: CollationId::UTF8MB4_GENERAL_CI,
            time_zone: Arc::new(Utc),
            timestamp: None,
            select_limit: u64::MAX,
            row_lock_wait_timeout: 50,
            snapshot_isolation: false,
            rollback_on_timeout: false,
            lock_wait_timeout: 86_400,
            foreign_key_checks: true,
            check_constraint_checks: true,
            unique_checks: true,
            div_precision_increment: 4,
            time_names: Locale::english(),
            regex_flags: "".into(),
            max_recursive_iterations: 1000,
            group_concat_max_len: 1 << 20,
            long_query_micros: 10_000_000,
            idle_transaction_timeouts: [0; 3],
            max_statement_time: 0,
            max_allowed_packet: 16 << 20,
            auto_increment_increment: 1,
            auto_increment_offset: 1,
            auto_increment_lock_mode: 1,
            insert_id: None,
            sort_buffer_bytes: 2 << 20,
            max_sort_length: 1024,
            tmp_memory_bytes: 16 << 20,
            tmp_disk_bytes: u64::MAX,
            session_bytes_max: i64::MAX as u64,
            max_join_size: u64::MAX,
            big_selects: true,
            join_buffer_bytes: 256 << 10,
            max_error_count: 64,
            optimizer_search_depth: 62,
            explicit_timestamps: true,
            innodb_strict: true,
            sql_notes: true,
            note_verbosity: NoteVerbosity::default(),
            safe_updates: false,
            standard_compliant_cte: true,
            quote_show_create: true,
            zero_date_time_cast: false,
            alter_algorithm: AlterAlgorithm::Default,
            sql_auto_is_null: false,
            default_week_format: 0,
            found_rows_flag: false,
        }
    }
}

impl SessionVars {
    /// Whether notes become warnings.
    pub fn takes_notes(&self) -> bool {
        self.sql_notes
            && self.note_verbosity != NoteVerbosity { basic: false, explain: false, unusable_keys: false }
    }

    /// What a temporary table may take.
    pub fn tmp_room(&self) -> Room {
        let session = self.session_bytes_max;
        Room { memory: self.tmp_memory_bytes, file: self.tmp_disk_bytes, session }
    }

    /// What a sort may take.
    pub fn sort_room(&self) -> Room {
        Room { memory: self.sort_buffer_bytes, session: self.session_bytes_max, ..Room::from(0) }
    }
}

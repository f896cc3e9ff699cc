//! One connection's state as far as statements see it.
//!
//! The server owns a [`Session`] per connection, fills `vars` when SET changes a variable, and lends it to the
//! [`Database`](crate::Database) for each statement. Nothing here is shared between sessions but the `Arc`s.

use std::sync::Arc;

use hashbrown::HashMap;
use keel_base::{Level, SqlError, SqlResult, Warning, code, errors};
use keel_storage::runtime::fiber;
use keel_storage::{Owner, Txn};
use keel_value::convert::{self, StoreContext};
use keel_value::temporal::{Utc, Zone};
use keel_value::{CollationId, Date, DateTime, SqlMode, SqlType, Value, decimal};

use crate::account::Access;
use crate::admission::{LongValues, Operators};
use crate::aggregate::AggregateCall;
use crate::func::locale::Locale;
use crate::host::Host;
use crate::interrupt::{Interrupt, InterruptState, interrupted};
use crate::lock_tables::NamedLocks;
use crate::mdl::{Kind, TableLock};
use crate::memory::{Allowance, Room, Work};
use crate::read_lock::{Pass, ReadLock};
use crate::running::Running;
use crate::temporary::TemporaryTables;
use crate::txn::TransactionState;
use crate::user_locks::HeldLocks;
use crate::waits::{Contender, Stake, Waits};

/// ALGORITHM of ALTER TABLE and CREATE INDEX: the most that a change may cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AlterAlgorithm {
    /// Whatever it costs.
    #[default]
    Default,
    /// The rows are copied.
    Copy,
    /// The engine may write them anew.
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

/// What SHOW WARNINGS shows: bounded, counts go on.
#[derive(Debug, Clone, Default)]
pub struct Diagnostics {
    /// The first `max_error_count`.
    pub warnings: Vec<Warning>,
    /// `@@warning_count`: all of them, errors too.
    pub warning_count: u64,
    /// `@@error_count`.
    pub error_count: u64,
    /// All this is an earlier statement's: it stays to be asked for until the running one has something to say itself.
    pub stale: bool,
}

/// How many entries there were.
#[derive(Clone, Copy, Default)]
struct Mark {
    kept: usize,
    warnings: u64,
    errors: u64,
}

/// Work that may begin again, such as where a page has no room for what it made: its warnings are those of the last time.
#[derive(Default)]
pub(crate) struct Attempts(Option<Mark>);

impl Attempts {
    /// It begins, perhaps not for the first time.
    #[inline]
    pub fn begin(&mut self, diagnostics: &mut Diagnostics) {
        match self.0 {
            Some(before) => diagnostics.back_to(before),
            None => self.0 = Some(diagnostics.mark()),
        }
    }
}

impl Diagnostics {
    /// Forgets everything, as each statement with tables does at its start.
    pub fn clear(&mut self) {
        if self.warning_count != 0 {
            *self = Diagnostics::default();
        }
        self.stale = false;
    }

    fn mark(&self) -> Mark {
        match self.stale {
            true => Mark::default(),
            false => {
                Mark { kept: self.warnings.len(), warnings: self.warning_count, errors: self.error_count }
            }
        }
    }

    /// Forgets what was added since.
    fn back_to(&mut self, mark: Mark) {
        if !self.stale {
            self.warnings.truncate(mark.kept);
            (self.warning_count, self.error_count) = (mark.warnings, mark.errors);
        }
    }

    /// Adds one entry before all others.
    pub fn push_first(&mut self, warning: Warning, max: usize) {
        if self.stale {
            self.clear();
        }
        self.warning_count += 1;
        self.warnings.insert(0, warning);
        self.warnings.truncate(max);
    }

    /// Adds one entry, keeping at most `max`.
    pub fn push(&mut self, warning: Warning, max: usize) {
        if self.stale {
            self.clear();
        }
        self.warning_count += 1;
        self.error_count += u64::from(warning.level == Level::Error);
        if self.warnings.len() < max {
            self.warnings.push(warning);
        }
    }
}

/// What statements did with rows since the server last took the counts, under MariaDB's names (`Handler_...`).
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandlerCounts {
    pub commit: u64,
    pub rollback: u64,
    pub read_first: u64,
    pub read_key: u64,
    pub read_last: u64,
    pub read_next: u64,
    pub read_prev: u64,
    /// `Handler_icp_attempts`: entries of an index of which conditions were asked.
    pub icp_attempts: u64,
    /// `Handler_icp_match`: those that fulfilled them.
    pub icp_match: u64,
    pub read_rnd_next: u64,
    pub write: u64,
    pub update: u64,
    pub delete: u64,
    /// Rows that tables gave (`Rows_read`).
    pub rows_read: u64,
}

impl HandlerCounts {
    /// Steps of readers: of rows that were found, and of ends that were met.
    pub(crate) fn reads(&self) -> u64 {
        let by_key = self.read_first + self.read_key + self.read_last;
        by_key + self.read_next + self.read_prev + self.read_rnd_next
    }
}

/// How statements went about their rows since the server last took the counts, under MariaDB's names.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanCounts {
    /// Whether there is anything but zeros: most statements find one row by its key.
    pub any: bool,
    pub select_scan: u64,
    pub select_full_join: u64,
    pub select_range: u64,
    pub select_full_range_join: u64,
    pub sort_scan: u64,
    pub sort_range: u64,
    pub sort_rows: u64,
    pub sort_merge_passes: u64,
    pub sort_priority_queue_sorts: u64,
    /// `Created_tmp_tables`.
    pub tmp_tables: u64,
    /// `Created_tmp_disk_tables`: those of them that did not fit into memory.
    pub tmp_disk_tables: u64,
    /// `Handler_tmp_write`.
    pub tmp_write: u64,
}

impl PlanCounts {
    /// Counts something.
    #[inline]
    pub(crate) fn add(&mut self, count: impl FnOnce(&mut PlanCounts)) {
        self.any = true;
        count(self);
    }

    /// Counts a temporary table, the rows written into it, and whether it went to disk.
    pub(crate) fn table(&mut self, rows: u64, is_on_disk: bool) {
        self.add(|counts| {
            counts.tmp_tables += 1;
            counts.tmp_disk_tables += u64::from(is_on_disk);
            counts.tmp_write += rows;
        });
    }

    /// Counts the rows of a sort, and how it was done.
    pub(crate) fn sort(&mut self, done: crate::sort::Done) {
        self.add(|counts| {
            counts.sort_rows += done.rows;
            counts.sort_merge_passes += done.merges;
            counts.sort_priority_queue_sorts += u64::from(done.kept_best);
        });
    }
}

/// Bounds what a statement examines (LIMIT ROWS EXAMINED).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Examined {
    /// The most; none where nothing is said.
    pub most: Option<u64>,
    count: u64,
}

impl Examined {
    /// Counts what was examined, for the next look at it.
    pub fn count(&mut self, count: u64) {
        self.count = self.count.saturating_add(count);
    }

    /// Counts what was examined; 1931 where that is too much.
    pub fn add(&mut self, count: u64) -> SqlResult<()> {
        self.count(count);
        match self.most {
            Some(most) if self.count > most => {
                Err(errors::query_result_incomplete(format_args!("LIMIT ROWS EXAMINED {most}")))
            }
            _ => Ok(()),
        }
    }

    /// Whether the statement ends because of that, which is none of its errors.
    pub fn ends(&self, error: &SqlError) -> bool {
        self.most.is_some() && error.code == code::QUERY_RESULT_INCOMPLETE
    }
}

/// A user variable.
#[derive(Debug, Clone)]
pub struct UserVariable {
    /// Its value.
    pub value: Value,
    /// The type that it had when it was set.
    pub ty: SqlType,
}

impl UserVariable {
    /// A variable as it is kept: times and members of ENUM and SET are text from here on, and quotients have all their digits.
    pub fn new(value: Value, ty: &SqlType) -> UserVariable {
        let is_text = ty.has_members()
            || matches!(value, Value::Date(_) | Value::Time(_) | Value::DateTime(_) | Value::Fixed(_));
        if let Value::Decimal(digits) = &value
            && digits.scale() > ty.decimals
        {
            let scale = digits.scale().min(decimal::MAX_SCALE);
            return UserVariable { ty: SqlType::decimal(65, scale), value };
        }
        if value.is_null() || !is_text {
            return UserVariable { value, ty: ty.clone() };
        }
        let mut text = Vec::new();
        convert::to_text(value.as_ref(), ty, &mut text);
        let collation = if ty.has_members() { ty.collation } else { CollationId::UTF8MB4_GENERAL_CI };
        UserVariable { ty: SqlType::varchar(text.len() as u32, collation), value: Value::Bytes(text.into()) }
    }
}

/// The user variables of a session, names in lower case. What they take is bounded for all sessions together.
pub struct UserVariables {
    map: HashMap<String, UserVariable>,
    bytes: usize,
    memory: Allowance,
}

/// Sequences whose last value a session keeps; beyond that it forgets all and begins anew.
const LAST_VALUES_MAX: usize = 16_384;

/// What a variable takes beside name and text.
const VARIABLE_BYTES: usize = 128;

impl UserVariables {
    /// None.
    pub fn new(host: Arc<dyn Host>) -> UserVariables {
        UserVariables {
            map: HashMap::new(),
            bytes: 0,
            memory: Allowance::new(u64::MAX, Work::new(host, None)),
        }
    }

    /// The variable of that name.
    pub fn get(&self, name: &str) -> Option<&UserVariable> {
        self.map.get(name)
    }

    /// All of them with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &UserVariable)> {
        self.map.iter().map(|(name, variable)| (name.as_str(), variable))
    }

    /// Sets a variable; 1037 where there is no memory for it.
    pub fn set(&mut self, name: &str, variable: UserVariable) -> SqlResult<()> {
        let size = |v: &UserVariable| v.value.as_ref().as_bytes().map_or(0, <[u8]>::len);
        let known = self.map.get(name);
        let before = known.map_or(0, |v| size(v) + name.len() + VARIABLE_BYTES);
        let bytes = self.bytes - before + size(&variable) + name.len() + VARIABLE_BYTES;
        if bytes > self.bytes && !self.memory.allows(bytes) {
            return Err(errors::outofmemory(size(&variable)));
        }
        self.bytes = bytes;
        self.map.insert(name.into(), variable);
        Ok(())
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.map.clear();
        self.bytes = 0;
        self.memory.shrink();
    }
}

/// One connection's state.
pub struct Session {
    /// Connection id.
    pub id: u64,
    /// Account name.
    pub user: Arc<str>,
    /// Where the client comes from.
    pub client_host: Arc<str>,
    /// What it may do.
    pub access: Access,
    /// The default database.
    pub database: Option<Arc<str>>,
    /// Variables.
    pub vars: SessionVars,
    /// The engine's transaction, from the first statement that needs one to its commit or rollback.
    pub txn: Option<Txn>,
    /// What SQL knows of the transaction: BEGIN, savepoints, metadata locks.
    pub transaction: TransactionState,
    /// Temporary tables.
    pub(crate) temporary: TemporaryTables,
    /// What LOCK TABLES has locked.
    pub(crate) named_locks: NamedLocks,
    /// FLUSH TABLES WITH READ LOCK.
    pub(crate) read_lock: ReadLock,
    /// Gates of the global read lock that the running statement is within.
    pub(crate) passes: Vec<Pass>,
    /// Tables that the running definition owns while a query fills the new one.
    pub(crate) filling: Vec<Arc<TableLock>>,
    /// What GET_LOCK() has locked.
    pub user_locks: HeldLocks,
    /// Warnings of the last statement.
    pub diagnostics: Diagnostics,
    /// `ROW_COUNT()`.
    pub row_count: i64,
    /// What recursive tables read in the rounds that run, innermost last.
    pub(crate) working: Vec<crate::select::Working>,
    /// Rows of derived tables within subqueries, until the statement ends.
    pub(crate) kept_rows: crate::join::KeptRows,
    /// `FOUND_ROWS()`.
    pub found_rows: u64,
    /// `LAST_INSERT_ID()`.
    pub last_insert_id: u64,
    /// The first AUTO_INCREMENT value of the running statement; 0 is none.
    pub statement_insert_id: u64,
    /// `LASTVAL()` of each sequence, by whether it is temporary and its number.
    pub(crate) last_values: HashMap<(bool, u64), i64>,
    /// `@name`, names in lower case.
    pub user_variables: UserVariables,
    /// What statements did with rows.
    pub handler: HandlerCounts,
    /// How they went about them.
    pub plan_counts: PlanCounts,
    /// State of RAND().
    pub rand: (u32, u32),
    /// KILL QUERY and KILL CONNECTION.
    pub interrupt: Arc<Interrupt>,
    /// What others may ask about its running statement.
    pub running: Arc<Running>,
    /// What its transactions know it by.
    pub owner: Option<Arc<Owner>>,
    /// How many it has begun.
    pub txns_begun: u64,
    /// Room for its long values; none in a session without a server.
    pub long_values: Option<Arc<LongValues>>,
    /// Room for its operators; likewise.
    pub operators: Option<Arc<Operators>>,
    /// The client sends its files where it is asked for them.
    pub sends_files: bool,
    /// The server around.
    pub host: Arc<dyn Host>,
    /// Row of the running INSERT or UPDATE, from 1, for warnings.
    pub current_row: u64,
    /// Rows of its batch before those of the running INSERT.
    pub rows_before: u64,
    /// The running statement turns warnings into errors: it changes rows in strict mode, without IGNORE.
    pub abort_on_warning: bool,
    /// The running statement says IGNORE: a scalar subquery of several rows is NULL, with a warning.
    pub ignores: bool,
    /// The collation of literals of the running prepared statement.
    pub(crate) literal_collation: Option<CollationId>,
    /// The running statement is INSERT IGNORE or CREATE TABLE IGNORE with a query: a value that a column of a recursive table cannot
    /// hold is adjusted, with a warning.
    pub(crate) ignores_in_query: bool,
    /// Rows that GROUP_CONCAT and its like have joined in this statement, all groups together, by the address of the call in
    /// its plan: warnings tell rows by that count.
    pub(crate) joined_rows: Vec<(usize, u64)>,
    /// The plain reads of the running statement lock what they read: it changes rows by it.
    pub(crate) locks_reads: bool,
    /// SET works out a value by a query: it locks what it reads, as a statement that changes rows does.
    pub sets: bool,
    /// EXECUTE runs the statement: a negative number of rows is an error.
    pub by_execute: bool,
    /// LIMIT ROWS EXAMINED of the running statement.
    pub(crate) examined: Examined,
    /// The last statement read a table without the help of an index; the status flags of its answer say so.
    pub no_index_used: bool,
    /// The rows of the running INSERT came as a batch: AUTO_INCREMENT values are taken as if nobody knew how many there are.
    pub rows_come_in_batch: bool,
    /// When the running statement began, microseconds since 1970; read from the clock when first asked.
    statement_clock: Option<i64>,
    /// Scratch that statements reuse, so that the point path allocates nothing.
    pub(crate) scratch: Scratch,
}

/// Buffers reused from statement to statement.
#[derive(Default)]
pub(crate) struct Scratch {
    /// An encoded key.
    pub key: Vec<u8>,
    /// A row.
    pub row: Vec<u8>,
    /// What writing rows needs.
    pub write: crate::dml::WriteScratch,
}

impl Session {
    /// A session in the state of a new connection.
    pub fn new(id: u64, user: &str, client_host: &str, host: Arc<dyn Host>) -> Session {
        Session {
            id,
            user: user.into(),
            client_host: client_host.into(),
            access: Access::unlimited(user, client_host),
            database: None,
            vars: SessionVars::default(),
            txn: None,
            txns_begun: 0,
            transaction: TransactionState::default(),
            temporary: TemporaryTables::new(host.clone()),
            named_locks: NamedLocks::default(),
            read_lock: ReadLock::default(),
            passes: Vec::new(),
            filling: Vec::new(),
            user_locks: HeldLocks::new(host.user_locks()),
            diagnostics: Diagnostics::default(),
            row_count: 0,
            working: Vec::new(),
            kept_rows: Default::default(),
            found_rows: 0,
            last_insert_id: 0,
            statement_insert_id: 0,
            last_values: HashMap::new(),
            user_variables: UserVariables::new(host.clone()),
            handler: HandlerCounts::default(),
            plan_counts: PlanCounts::default(),
            rand: (id as u32, (id >> 8) as u32 ^ 0x5555),
            interrupt: Arc::default(),
            running: Arc::default(),
            owner: None,
            long_values: None,
            operators: None,
            sends_files: false,
            host,
            current_row: 1,
            rows_before: 0,
            abort_on_warning: false,
            ignores: false,
            literal_collation: None,
            ignores_in_query: false,
            joined_rows: Vec::new(),
            locks_reads: false,
            sets: false,
            by_execute: false,
            examined: Examined::default(),
            no_index_used: false,
            rows_come_in_batch: false,
            statement_clock: None,
            scratch: Scratch::default(),
        }
    }

    /// Keeps what a sequence gave it last.
    pub(crate) fn keep_last_value(&mut self, sequence: (bool, u64), value: i64) {
        if self.last_values.len() >= LAST_VALUES_MAX && !self.last_values.contains_key(&sequence) {
            self.last_values.clear();
        }
        self.last_values.insert(sequence, value);
    }

    /// Forgets what sequences gave it, as a session that begins anew does.
    pub fn forget_last_values(&mut self) {
        self.last_values.clear();
    }

    /// User and host of the account.
    pub(crate) fn account(&self) -> (String, String) {
        (self.access.user.to_string(), self.access.host.to_string())
    }

    /// The collation of literals without an introducer: that of the connection when the statement was prepared.
    pub(crate) fn literal_collation(&self) -> CollationId {
        self.literal_collation.unwrap_or(self.vars.connection_collation)
    }

    /// Begins a statement: the clock stands still from its first use to the statement's end.
    pub fn start_statement(&mut self) {
        self.statement_clock = None;
        self.current_row = self.rows_before + 1;
        self.statement_insert_id = 0;
        self.abort_on_warning = false;
        self.ignores = false;
        self.ignores_in_query = false;
        self.joined_rows.clear();
        self.locks_reads = false;
        self.examined = Examined::default();
        self.no_index_used = false;
    }

    /// The statement's time in microseconds since 1970: `NOW()` is the same all through a statement.
    pub fn now_micros(&mut self) -> i64 {
        match (self.vars.timestamp, self.statement_clock) {
            (Some(fixed), _) => fixed,
            (None, Some(now)) => now,
            (None, None) => {
                let now = keel_storage::runtime::time::unix_micros();
                self.statement_clock = Some(now);
                now
            }
        }
    }

    /// The statement's time in the session's zone.
    pub fn now_local(&mut self) -> DateTime {
        self.now_timestamp().shown()
    }

    /// The statement's time as a TIMESTAMP, which is an instant.
    pub fn now_timestamp(&mut self) -> DateTime {
        let utc = self.now_utc();
        keel_value::convert::timestamp_to_local(utc, &*self.vars.time_zone)
    }

    /// The day that a time is counted from where it becomes a date: today, or the zero day under ZERO_DATE_TIME_CAST.
    pub fn base_day(&mut self) -> Date {
        if self.vars.zero_date_time_cast { Date::ZERO } else { self.now_local().date }
    }

    /// What the clock shows while the statement runs, in the session's zone.
    pub fn clock_local(&mut self) -> DateTime {
        // What NOW() says must not come later.
        self.now_micros();
        let utc = from_micros(keel_storage::runtime::time::unix_micros());
        keel_value::convert::timestamp_to_local(utc, &*self.vars.time_zone).shown()
    }

    /// The statement's time in UTC.
    pub fn now_utc(&mut self) -> DateTime {
        from_micros(self.now_micros())
    }
    /// Counts rows that a call has joined, and gives those of it so far.
    pub(crate) fn count_joined(&mut self, call: &AggregateCall, rows: u64) -> u64 {
        let address = std::ptr::from_ref(call).addr();
        match self.joined_rows.iter_mut().find(|(of, _)| *of == address) {
            Some((_, count)) => {
                *count += rows;
                *count
            }
            None => {
                self.joined_rows.push((address, rows));
                rows
            }
        }
    }

    /// Adds a warning; in a strict statement that writes it is an error.
    pub(crate) fn warn_or_fail(&mut self, error: SqlError) -> SqlResult<()> {
        if self.abort_on_warning {
            return Err(error);
        }
        self.warn(error);
        Ok(())
    }

    /// Adds a warning.
    pub fn warn(&mut self, error: SqlError) {
        self.push_warning(Warning::from(error));
    }

    /// Adds a note.
    pub fn note(&mut self, error: SqlError) {
        if self.vars.sql_notes {
            self.push_warning(Warning { level: Level::Note, ..Warning::from(error) });
        }
    }

    /// What a COMMIT says that was rolled back because of `error`; SHOW WARNINGS shows both.
    pub(crate) fn failed_commit(&mut self, error: SqlError) -> SqlError {
        for shown in [&error, &errors::error_during_commit(1, "Operation not permitted")] {
            self.push_error(shown);
        }
        error
    }

    /// Adds an error to the diagnostics, once.
    pub fn push_error(&mut self, error: &SqlError) {
        if let Some(cause) = &error.cause {
            self.push_error(cause);
        }
        let same =
            |w: &Warning| w.level == Level::Error && w.code == error.code && w.message == error.message;
        if self.diagnostics.stale || !self.diagnostics.warnings.iter().any(same) {
            let warning = Warning { level: Level::Error, code: error.code, message: error.message.clone() };
            self.push_warning(warning);
        }
    }

    /// Adds an entry of any level.
    pub fn push_warning(&mut self, warning: Warning) {
        self.diagnostics.push(warning, self.vars.max_error_count);
    }

    /// Whether bad values are errors for a statement without IGNORE.
    pub fn is_strict(&self) -> bool {
        self.vars.sql_mode.is_strict()
    }

    /// What conversions into columns depend on.
    pub fn store_context(&self, strict: bool, today: Date) -> StoreContext<'_> {
        StoreContext { mode: self.vars.sql_mode, strict, zone: &*self.vars.time_zone, today }
    }

    /// 1317 or 1927 where somebody killed the query or the connection.
    #[inline]
    pub fn check_interrupt(&self) -> SqlResult<()> {
        match self.interrupt.state() {
            InterruptState::None => Ok(()),
            state => Err(interrupted(state)),
        }
    }

    /// The same in work that goes on for long without reading rows: others run meanwhile. No latch may be held.
    #[inline]
    pub fn let_others_run(&self) -> SqlResult<()> {
        fiber::tick();
        self.check_interrupt()
    }

    /// A session that has this one's variables and does nothing else: what is worked out in it has no effects here.
    pub(crate) fn aside(&self) -> Session {
        let mut aside = Session::new(self.id, &self.user, &self.client_host, self.host.clone());
        aside.vars = self.vars.clone();
        aside.database = self.database.clone();
        aside
    }

    /// 1100 under LOCK TABLES, which locks no table of the server itself.
    pub fn refuse_unlocked(&self, table: &str) -> SqlResult<()> {
        match self.named_locks.is_in_force() {
            true => Err(errors::table_not_locked(table)),
            false => Ok(()),
        }
    }

    /// The default database, or 1046.
    pub fn require_database(&self) -> SqlResult<&Arc<str>> {
        self.database.as_ref().ok_or_else(errors::no_db)
    }

    /// Whether metadata locks outlive the statement.
    pub(crate) fn keeps_locks(&self) -> bool {
        self.in_transaction() || !self.vars.autocommit || self.named_locks.is_in_force()
    }

    /// Whether others may be waiting for what it has: rows, tables or names.
    pub fn holds_locks(&self) -> bool {
        !self.transaction.locks.is_empty()
            || self.named_locks.is_in_force()
            || self.read_lock.is_held()
            || !self.user_locks.is_empty()
            || !self.filling.is_empty()
            || self.txn.as_ref().is_some_and(Txn::holds_locks)
    }

    /// For whom its operators work.
    pub(crate) fn work(&self) -> Work {
        Work::new(self.host.clone(), self.operators.clone())
    }

    /// Gives back the room that the ended statement had; the next one takes its own in haste if others may wait for locks of this
    /// session.
    pub fn end_rooms(&self) {
        if let Some(owner) = &self.owner {
            owner.set_has_locks(self.holds_locks());
        }
        if let Some(values) = &self.long_values {
            values.end();
        }
        if let Some(operators) = &self.operators {
            operators.end();
        }
    }

    /// Waits for room for a value of so many octets, where that is long. Asked before memory is taken for it.
    pub(crate) fn hold_long(&self, bytes: u64) -> SqlResult<()> {
        let urgent = || self.holds_locks() || self.owner.as_ref().is_some_and(|owner| owner.is_locking());
        let admitted = |values: &Arc<LongValues>| values.admit(bytes, urgent);
        match self.long_values.as_ref().is_none_or(admitted) {
            true => Ok(()),
            false => self.check_interrupt().and(Err(errors::query_interrupted())),
        }
    }

    /// Whether the open transaction, or else the next one, may not write.
    pub fn is_read_only(&self) -> bool {
        if self.in_transaction() {
            return self.transaction.read_only;
        }
        self.vars.next_read_only.unwrap_or(self.vars.read_only)
    }

    /// Whether a transaction is open: BEGIN, or work done under `autocommit=0`.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_open()
    }
}

impl Contender for Session {
    fn waits(&self) -> &Waits {
        self.user_locks.registry().waits()
    }

    fn stake(&self) -> Stake {
        let mut kept = self.user_locks.kept();
        let of_transaction = self.transaction.locks.iter();
        kept.extend(of_transaction.map(|(lock, writes)| (lock.clone(), Kind::of_share(*writes))));
        // A statement without a transaction shares its tables while it runs.
        let runs = self.running.plan().filter(|_| !self.keeps_locks());
        let of_statement = runs.iter().flat_map(|plan| plan.locks());
        kept.extend(of_statement.map(|(lock, writes)| (lock.clone(), Kind::of_share(writes))));
        kept.extend(self.named_locks.kept());
        kept.extend(self.read_lock.kept());
        kept.extend(self.passes.iter().map(|pass| (pass.gate().clone(), Kind::Write)));
        kept.extend(self.filling.iter().map(|lock| (lock.clone(), Kind::Own)));
        Stake { owner: self.owner.clone(), kept, firm: false }
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    fn owner(&self) -> Option<&Arc<Owner>> {
        self.owner.as_ref()
    }
}

/// A time in UTC from microseconds since 1970.
fn from_micros(micros: i64) -> DateTime {
    DateTime::from_unix(micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) as u32)
}

//! One connection's state as far as statements see it.
//!
//! The server owns a [`Session`] per connection, fills `vars` when SET changes a variable, and lends it to the
//! [`Database`](crate::Database) for each statement. Nothing here is shared between sessions but the `Arc`s.

use std::sync::Arc;

use hashbrown::HashMap;
use keel_base::{Level, SqlError, SqlResult, Warning, errors};
use keel_context::diagnostics::Diagnostics;
use keel_context::statement_counts::{Examined, HandlerCounts, PlanCounts};
use keel_context::user_variables::UserVariables;
use keel_context::vars::SessionVars;
use keel_storage::runtime::fiber;
use keel_storage::{Owner, Txn};
use keel_value::convert::StoreContext;
use keel_value::{CollationId, Date, DateTime};

use crate::account::Access;
use crate::admission::{LongValues, Operators};
use crate::aggregate::AggregateCall;
use crate::host::Host;
use crate::interrupt::{Interrupt, InterruptState, interrupted};
use crate::lock_tables::NamedLocks;
use crate::mdl::{Kind, TableLock};
use crate::memory::Work;
use crate::read_lock::{Pass, ReadLock};
use crate::running::Running;
use crate::temporary::TemporaryTables;
use crate::txn::TransactionState;
use crate::user_locks::HeldLocks;
use crate::waits::{Contender, Stake, Waits};

/// Sequences whose last value a session keeps; beyond that it forgets all and begins anew.
const LAST_VALUES_MAX: usize = 16_384;

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

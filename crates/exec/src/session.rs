//! One connection's state as far as statements see it.
//!
//! The server owns a [`Session`] per connection, fills `vars` when SET changes a variable, and lends it to the
//! `Database` for each statement. Nothing here is shared between sessions but the `Arc`s.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use hashbrown::HashMap;
use keel_base::{SqlError, SqlResult, errors};
use keel_context::statement_counts::{Examined, HandlerCounts, PlanCounts};
use keel_sql::ast;
use keel_storage::{Owner, Txn};

use crate::admission::{LongValues, Operators};
use crate::catalog::{TableDef, View};
use crate::expr::{Env, EvalContext, Executor};
use crate::host::Host;
use crate::interrupt::Interrupt;
use crate::mdl::{Kind, TableLock};
use crate::memory::Work;
use crate::named_locks::NamedLocks;
use crate::read_lock::{Pass, ReadLock};
use crate::running::Running;
use crate::scratch::Scratch;
use crate::temporary::TemporaryTables;
use crate::transaction::TransactionState;
use crate::waits::{Contender, Stake, Waits};

/// Sequences whose last value a session keeps; beyond that it forgets all and starts over.
const LAST_VALUES_MAX: usize = 16_384;

/// One connection's state.
pub struct Session {
    /// What expressions see of it.
    pub env: Env,
    /// The engine's transaction, from the first statement that needs one to its commit or rollback.
    pub txn: Option<Txn>,
    /// What SQL knows of the transaction: BEGIN, savepoints, metadata locks.
    pub transaction: TransactionState,
    /// Temporary tables.
    pub temporary: TemporaryTables,
    /// What LOCK TABLES has locked.
    pub named_locks: NamedLocks,
    /// FLUSH TABLES WITH READ LOCK.
    pub read_lock: ReadLock,
    /// Gates of the global read lock that the running statement is within.
    pub passes: Vec<Pass>,
    /// Tables that the running definition owns while a query fills the new one.
    pub filling: Vec<Arc<TableLock>>,
    /// What recursive tables read in the rounds that run, innermost last.
    pub(crate) working: Vec<crate::kept::Working>,
    /// Rows of derived tables within subqueries, until the statement ends.
    pub kept_rows: crate::kept::KeptRows,
    /// `LASTVAL()` of each sequence, by whether it is temporary and its number.
    pub(crate) last_values: HashMap<(bool, u64), i64>,
    /// What statements did with rows.
    pub handler: HandlerCounts,
    /// How they went about them.
    pub plan_counts: PlanCounts,
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
    /// Rows of its batch before those of the running INSERT.
    pub rows_before: u64,
    /// The running statement is INSERT IGNORE or CREATE TABLE IGNORE with a query: a value that a column of a recursive table cannot
    /// hold is adjusted, with a warning.
    pub ignores_in_query: bool,
    /// Rows that GROUP_CONCAT and its like have joined in this statement, all groups together, by the address of the call in
    /// its plan: warnings tell rows by that count.
    pub(crate) joined_rows: Vec<(usize, u64)>,
    /// The plain reads of the running statement lock what they read: it changes rows by it.
    pub locks_reads: bool,
    /// SET works out a value by a query: it locks what it reads, as a statement that changes rows does.
    pub sets: bool,
    /// LIMIT ROWS EXAMINED of the running statement.
    pub examined: Examined,
    /// The last statement read a table without the help of an index; the status flags of its answer say so.
    pub no_index_used: bool,
    /// The rows of the running INSERT came as a batch: AUTO_INCREMENT values are taken as if nobody knew how many there are.
    pub rows_come_in_batch: bool,
    /// Scratch that statements reuse, so that the point path allocates nothing.
    pub scratch: Scratch,
}

/// The session that evaluates, as operators see it.
pub trait OfSession {
    /// The session.
    fn session(&mut self) -> &mut Session;
}

impl OfSession for EvalContext<'_, '_> {
    fn session(&mut self) -> &mut Session {
        self.executor.as_any_mut().downcast_mut().expect("a session runs queries")
    }
}

impl Session {
    /// A session in the state of a new connection.
    pub fn new(id: u64, user: &str, client_host: &str, host: Arc<dyn Host>) -> Session {
        Session {
            env: Env::new(id, user, client_host, host.clone()),
            txn: None,
            txns_begun: 0,
            transaction: TransactionState::default(),
            temporary: TemporaryTables::new(host.clone()),
            named_locks: NamedLocks::default(),
            read_lock: ReadLock::default(),
            passes: Vec::new(),
            filling: Vec::new(),
            working: Vec::new(),
            kept_rows: Default::default(),
            last_values: HashMap::new(),
            handler: HandlerCounts::default(),
            plan_counts: PlanCounts::default(),
            running: Arc::default(),
            owner: None,
            long_values: None,
            operators: None,
            sends_files: false,
            host,
            rows_before: 0,
            ignores_in_query: false,
            joined_rows: Vec::new(),
            locks_reads: false,
            sets: false,
            examined: Examined::default(),
            no_index_used: false,
            rows_come_in_batch: false,
            scratch: Scratch::default(),
        }
    }

    /// Keeps what a sequence gave it last.
    pub fn keep_last_value(&mut self, sequence: (bool, u64), value: i64) {
        if self.last_values.len() >= LAST_VALUES_MAX && !self.last_values.contains_key(&sequence) {
            self.last_values.clear();
        }
        self.last_values.insert(sequence, value);
    }

    /// Forgets what sequences gave it, as a session that starts over does.
    pub fn forget_last_values(&mut self) {
        self.last_values.clear();
    }

    /// Begins a statement: the clock stands still from its first use to the statement's end.
    pub fn start_statement(&mut self) {
        self.env.start_statement();
        self.current_row = self.rows_before + 1;
        self.ignores_in_query = false;
        self.joined_rows.clear();
        self.locks_reads = false;
        self.examined = Examined::default();
        self.no_index_used = false;
    }

    /// Counts rows that the call at an address has joined, and gives those of it so far.
    pub fn count_joined(&mut self, address: usize, rows: u64) -> u64 {
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

    /// What a COMMIT says that was rolled back because of `error`; SHOW WARNINGS shows both.
    pub fn failed_commit(&mut self, error: SqlError) -> SqlError {
        for shown in [&error, &errors::error_during_commit(1, "Operation not permitted")] {
            self.push_error(shown);
        }
        error
    }

    /// A session with the variables of this one alone: what is evaluated in it has no effect here.
    pub fn aside(&self) -> Session {
        let mut aside = Session::new(self.id, &self.user, &self.client_host, self.host.clone());
        aside.env = self.env.aside();
        aside
    }

    /// Whether a name means a temporary table of the session's own.
    pub fn has_temporary(&self, schema: &str, name: &str) -> bool {
        self.temporary.get(schema, name).is_some()
    }

    /// 1100 under LOCK TABLES, which locks no table of the server itself.
    pub fn refuse_unlocked(&self, table: &str) -> SqlResult<()> {
        match self.named_locks.is_in_force() {
            true => Err(errors::table_not_locked(table)),
            false => Ok(()),
        }
    }

    /// Whether metadata locks outlive the statement.
    pub fn keeps_locks(&self) -> bool {
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
    pub fn work(&self) -> Work {
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

    /// Waits for room for a value of so many bytes, where that is long. Asked before memory is taken for it.
    pub fn hold_long(&self, bytes: u64) -> SqlResult<()> {
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

impl Session {
    /// 1100 where LOCK TABLES lets the session not read a table, as SHOW CREATE TABLE does.
    pub fn refuse_unlocked_table(&self, table: &TableDef) -> SqlResult<()> {
        match self.named_locks.is_in_force() && !table.is_temporary() && !table.is_virtual() {
            true => self.named_locks.check(table, false),
            false => Ok(()),
        }
    }

    /// The same of a view.
    pub fn refuse_unlocked_view(&self, view: &View) -> SqlResult<()> {
        if self.named_locks.is_in_force() { self.named_locks.check_view(view) } else { Ok(()) }
    }

    /// 1066 where two tables of a statement have one name. The statement says so by itself: it has no effect then, and the
    /// transaction stays open.
    pub fn refuse_same_name<'t>(
        &self,
        tables: impl Iterator<Item = (&'t ast::ObjectName, Option<&'t str>)>,
    ) -> SqlResult<()> {
        let mut seen: Vec<(&str, &str)> = Vec::with_capacity(tables.size_hint().0);
        for (table, alias) in tables {
            let name = (crate::expr::env::schema_of(self, table)?, alias.unwrap_or(&table.name));
            if seen.contains(&name) {
                return Err(errors::nonuniq_table(name.1));
            }
            seen.push(name);
        }
        Ok(())
    }
}

impl Deref for Session {
    type Target = Env;

    #[inline]
    fn deref(&self) -> &Env {
        &self.env
    }
}

impl DerefMut for Session {
    #[inline]
    fn deref_mut(&mut self) -> &mut Env {
        &mut self.env
    }
}

impl Executor for Session {
    fn env(&self) -> &Env {
        &self.env
    }

    fn env_mut(&mut self) -> &mut Env {
        &mut self.env
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn in_transaction(&self) -> bool {
        self.transaction.is_open()
    }

    fn stake(&self) -> Stake {
        Contender::stake(self)
    }

    fn hold_long(&self, bytes: u64) -> SqlResult<()> {
        Session::hold_long(self, bytes)
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
        let of_statement = runs.iter().flat_map(|plan| plan.shared_locks());
        kept.extend(of_statement.map(|(lock, writes)| (lock, Kind::of_share(writes))));
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

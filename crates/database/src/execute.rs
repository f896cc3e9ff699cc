//! Running a plan: locks, transaction, the body, and what becomes of the transaction after it.
//!
//! 1. A statement holds its tables' metadata locks from before it looks at their trees; then the plan is compared with the
//!    catalog once more, and bound again if a definition came between.
//! 2. Under autocommit a statement is a transaction; else it is a part of one, and if it fails only it is undone. A deadlock
//!    ends the whole transaction.
//! 3. Definitions commit what is open before they begin.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keel_base::{Level, SqlError, SqlResult, Warning, code, errors};
use keel_catalog::{Catalog, TableDef};
use keel_context::mdl::{Kind, TableLock};
use keel_context::result::{Completion, ResultColumns, RowSink, RowView};
use keel_context::waits::Contender;
use keel_definitions::maintain;
use keel_dml::{delete, explain, insert, multi, update};
use keel_exec::select;
use keel_exec::session::Session;
use keel_expr::{Env, EvalContext, Expr, Frame, rights as see};
use keel_planner::check;
use keel_sql::ast::{LockWait, Statement};
use keel_storage::runtime::time;
use keel_value::Value;

use crate::database::Database;
use crate::plan::{Body, Plan, StatementKind};

/// Times that a plan is bound again because definitions keep coming between.
const REBIND_MAX: usize = 32;

/// No room on the disk is the table's, to the client.
fn full(table: &TableDef) -> impl Fn(SqlError) -> SqlError {
    |error| match error.code {
        code::DISK_FULL => errors::record_file_full(&table.name),
        _ => error,
    }
}

impl Database {
    /// Runs a plan. Rows go to `sink`; warnings to the session. On error the statement left nothing behind.
    pub fn execute(
        &self,
        session: &mut Session,
        plan: &Arc<Plan>,
        params: &[Value],
        sink: &mut dyn RowSink,
    ) -> SqlResult<Completion> {
        session.interrupt.clear_query();
        if plan.uses_tables() {
            session.diagnostics.clear();
        } else {
            session.diagnostics.stale = true;
        }
        self.execute_next(session, plan, params, sink)
    }

    /// The same for one of several executions of a command: a kill that came between them ends it, and warnings of those
    /// before it stay. The caller has cleared both once.
    pub fn execute_next(
        &self,
        session: &mut Session,
        plan: &Arc<Plan>,
        params: &[Value],
        sink: &mut dyn RowSink,
    ) -> SqlResult<Completion> {
        session.start_statement();
        session.literal_collation = Some(plan.literal_collation);
        let result = session.check_interrupt().and_then(|()| self.dispatch(session, plan, params, sink));
        session.literal_collation = None;
        match result {
            Ok(completion) => {
                session.row_count = if completion.had_rows { -1 } else { completion.affected_rows as i64 };
                Ok(completion)
            }
            Err(error) => {
                let error = if error.code == code::QUERY_INTERRUPTED {
                    session.check_interrupt().err().unwrap_or(error)
                } else {
                    error
                };
                session.row_count = -1;
                session.push_error(&error);
                Err(error)
            }
        }
    }

    fn dispatch(
        &self,
        session: &mut Session,
        plan: &Arc<Plan>,
        params: &[Value],
        sink: &mut dyn RowSink,
    ) -> SqlResult<Completion> {
        if matches!(plan.body, Body::Direct) {
            return self.direct(session, plan, params, sink);
        }
        self.refuse_early(session, plan)?;
        self.check_access(session, plan)?;
        if plan.has_stored_tables() {
            session.refuse_in_closed_branch()?;
        }
        // Which tables are temporary is the session's own affair: nothing comes between.
        let own = match session.temporary.is_empty() && !plan.uses_temporary() {
            true => None,
            false => Some(self.current(session, plan, params)?),
        };
        let plan = own.as_ref().unwrap_or(plan);
        let writes = plan.writes_lasting();
        self.within_gate(session, writes, |session| self.dispatch_within(session, plan, params, sink))
    }

    /// Whether the session may run a plan.
    #[inline]
    fn check_access(&self, session: &mut Session, plan: &Plan) -> SqlResult<()> {
        if session.access.global.has(plan.wanted) && !session.access.expired {
            return Ok(());
        }
        plan.check_access(session, &self.catalog_now())
    }

    /// The same for a statement that the global read lock has let pass.
    fn dispatch_within(
        &self,
        session: &mut Session,
        plan: &Arc<Plan>,
        params: &[Value],
        sink: &mut dyn RowSink,
    ) -> SqlResult<Completion> {
        self.refuse_write(session, plan)?;
        let before = session.transaction.locks.len();
        let plan = match self.lock_tables(session, plan, params) {
            Err(error) if error.code == code::LOCK_DEADLOCK => return Err(self.undo(session, error)),
            Err(error) => {
                session.transaction.release_from(before);
                return Err(error);
            }
            Ok(plan) => plan,
        };
        let kept = session.keeps_locks();
        if let Err(error) = self.check_access(session, &plan) {
            session.transaction.release_from(before);
            if !kept {
                release(&plan);
            }
            return Err(error);
        }
        plan.warn(session);
        if let Body::Explain(explain) = &plan.body {
            explain.note_names(session);
        }
        if !plan.unusable.is_empty() {
            plan.note_unusable_keys(session, params);
        }
        let shown = plan.shown(params);
        let shows = shown.is_some();
        shown.into_iter().for_each(|execution| session.running.begin(execution));
        let result = catch_unwind(AssertUnwindSafe(|| self.transact(session, &plan, params, sink)));
        if shows {
            session.running.end();
        }
        match result {
            Ok(result) => {
                if !kept {
                    release(&plan);
                }
                result
            }
            Err(panic) => {
                // What the statement did goes with the session, and so do the locks, behind it.
                if !kept {
                    plan.locks().for_each(|(lock, writes)| session.transaction.keep(lock, writes));
                }
                resume_unwind(panic)
            }
        }
    }

    /// Runs a plan without parameters and rows as a part of another statement, in a transaction of its own.
    pub(crate) fn run_plan_within(
        &self,
        session: &mut Session,
        plan: &Arc<Plan>,
        params: &[Value],
    ) -> SqlResult<Completion> {
        // What fills a temporary table has not passed yet, and may lock rows that last.
        let writes = session.passes.is_empty() && plan.writes_lasting();
        self.within_gate(session, writes, |session| {
            self.dispatch_within(session, plan, params, &mut keel_context::result::Collect::default())
        })
    }

    /// Shares the plan's tables and makes sure that it still fits. Locks of a transaction are kept by the session; others
    /// end with the statement, by [`release`].
    fn lock_tables(&self, session: &mut Session, plan: &Arc<Plan>, params: &[Value]) -> SqlResult<Arc<Plan>> {
        for _ in 0..REBIND_MAX {
            let current = self.current(session, plan, params)?;
            self.share(session, &current)?;
            if self.with_catalog_of(session, |catalog| current.is_current(catalog)) {
                return Ok(current);
            }
            // Under the locks no definition can come between; most often the tables are the same, and so are their locks.
            let next = self.current(session, plan, params);
            if let Ok(next) = &next
                && same_locks(&current, next)
                && self.with_catalog_of(session, |catalog| next.is_current(catalog))
            {
                return Ok(next.clone());
            }
            if !session.keeps_locks() {
                release(&current);
            }
            next?;
        }
        Err(errors::table_def_changed())
    }

    /// Shares the locks of a plan's tables; those that the session keeps anyway are not taken again. Waits.
    fn share(&self, session: &mut Session, plan: &Plan) -> SqlResult<()> {
        if session.named_locks.is_in_force() {
            session.named_locks.check_uses(&plan.uses)?;
        }
        let keeps = session.keeps_locks();
        let timeout = match plan.body.lock().and_then(|lock| lock.wait.as_ref()) {
            Some(LockWait::NoWait) => Duration::ZERO,
            Some(LockWait::Wait(seconds)) => Duration::from_secs(*seconds),
            Some(LockWait::SkipLocked) | None => Duration::from_secs(session.vars.lock_wait_timeout),
        };
        for (place, (lock, writes)) in plan.locks().enumerate() {
            // What LOCK TABLES has not locked are tables that foreign keys lead to.
            if session.named_locks.keeps(lock) {
                continue;
            }
            if keeps && let Some(as_writer) = session.transaction.holds(lock) {
                if writes && !*as_writer {
                    if !lock.try_become_writer() {
                        session.wait_for(lock, Kind::Upgrade, timeout)?;
                    }
                    session.transaction.holds(lock).into_iter().for_each(|as_writer| *as_writer = true);
                }
                continue;
            }
            if !lock.try_share(writes) {
                let before = || plan.locks().take(if keeps { 0 } else { place });
                let of_statement = before().map(|(lock, writes)| (lock.clone(), Kind::of_share(writes)));
                let stake = || {
                    let mut stake = session.stake();
                    stake.kept.extend(of_statement);
                    stake
                };
                let waits = session.user_locks.registry().waits();
                let waited = waits.take(lock, Kind::of_share(writes), stake, &session.interrupt, timeout);
                if let Err(error) = waited {
                    before().for_each(|(lock, writes)| lock.unshare(writes));
                    return Err(error);
                }
            }
            if keeps {
                session.transaction.keep(lock, writes);
            }
        }
        Ok(())
    }

    fn transact(
        &self,
        session: &mut Session,
        plan: &Plan,
        params: &[Value],
        sink: &mut dyn RowSink,
    ) -> SqlResult<Completion> {
        // Bound again it may write where it did not.
        self.refuse_write(session, plan)?;
        if plan.has_stored_tables() {
            self.open_if_needed(session);
        }
        if !session.in_transaction() && plan.has_stored_tables() {
            // It is the transaction that SET TRANSACTION READ ONLY spoke of.
            session.vars.next_read_only = None;
        }
        let sets = session.sets;
        let waits = Duration::from_secs(session.vars.row_lock_wait_timeout);
        let by_snapshot = session.vars.snapshot_isolation;
        let txn = self.ensure_txn(session);
        txn.set_waits(waits, by_snapshot);
        txn.start_statement();
        let locks_reads = plan.kind.locks_reads(txn.isolation()) || sets;
        if session.vars.next_isolation.is_some() && !session.in_transaction() && plan.has_stored_tables() {
            session.vars.next_isolation = None;
        }
        session.locks_reads = locks_reads;
        session.transaction.writes_lasting |= plan.changes_lasting();
        if let Some(most) = &plan.rows_examined {
            session.examined.most = rows_examined(session, plan, most, params)?;
        }
        let result = self.run(session, plan, params, sink);
        session.locks_reads = false;
        match result {
            Ok(completion) => {
                session.handler.commit += u64::from(plan.has_stored_tables());
                if !session.in_transaction() {
                    self.commit_within(session)?;
                }
                Ok(completion)
            }
            Err(error) => {
                session.handler.rollback += u64::from(plan.has_stored_tables());
                let error = match error.code {
                    code::CHECKREAD => errors::checkread(changed_table(plan)),
                    _ => error,
                };
                let strict = plan.is_strict(session);
                let error = explain(session, strict, error);
                Err(self.undo(session, error))
            }
        }
    }

    fn run(
        &self,
        session: &mut Session,
        plan: &Plan,
        params: &[Value],
        sink: &mut dyn RowSink,
    ) -> SqlResult<Completion> {
        let result = self.run_body(session, &plan.body, params, sink);
        session.kept_rows.clear();
        result
    }

    fn run_body(
        &self,
        session: &mut Session,
        body: &Body,
        params: &[Value],
        sink: &mut dyn RowSink,
    ) -> SqlResult<Completion> {
        match body {
            Body::PointSelect(point) => {
                let sent = match point.run(session, params, sink)? {
                    Some(sent) => sent,
                    None => select::run(&point.general, session, params, sink)?,
                };
                session.found_rows = sent;
                Ok(Completion { affected_rows: sent, had_rows: true, ..Completion::default() })
            }
            Body::Select(select) => {
                let sent = select::run(select, session, params, sink)?;
                // ROW_COUNT() does not count rows of a file.
                let had_rows = !select.is_into() || select.export.is_some();
                Ok(Completion { affected_rows: sent, had_rows, ..Completion::default() })
            }
            Body::Insert(plan) => insert::run(plan, session, params, sink).map_err(full(&plan.table)),
            Body::Update(plan) => update::run(plan, session, params).map_err(full(&plan.targets.table)),
            Body::Delete(plan) => delete::run(plan, session, params, sink).map_err(full(&plan.targets.table)),
            Body::Multi(plan) => multi::run(plan, session, params),
            Body::Do(list) => {
                for expr in list {
                    let frame = Frame { params, ..Frame::EMPTY };
                    let evaluated = expr.eval(&mut EvalContext::new(session, frame)).map(drop);
                    evaluated.or_else(|error| take_lightly(session, error))?;
                }
                Ok(Completion::default())
            }
            Body::Explain(plan) => {
                let began = time::now();
                if let Some(analyzed) = plan.analyzed() {
                    analyzed.clear();
                    match &analyzed.body {
                        // Its general plan counts.
                        Body::PointSelect(point) => {
                            select::run(&point.general, session, params, &mut Nothing)?;
                        }
                        other => drop(self.run_body(session, other, params, &mut Nothing)?),
                    }
                }
                let nanos = time::now().since(began).as_nanos() as u64;
                let sent = plan.run(session, params, nanos, sink)?;
                session.found_rows = 0;
                Ok(Completion { affected_rows: sent, had_rows: true, ..Completion::default() })
            }
            Body::PassedOver(note) => {
                let info = match note {
                    Some(note) => {
                        session.warn(note.clone());
                        None
                    }
                    None => Some("Rows matched: 0  Changed: 0  Warnings: 0".to_string()),
                };
                Ok(Completion { info, ..Completion::default() })
            }
            Body::Direct => Err(errors::not_supported_yet("this statement")),
        }
    }

    fn direct(
        &self,
        session: &mut Session,
        plan: &Plan,
        params: &[Value],
        sink: &mut dyn RowSink,
    ) -> SqlResult<Completion> {
        let listed = match &*plan.statement {
            Statement::Maintain(what) => &what.tables[..],
            Statement::DropTable(drop) => &drop.tables[..],
            Statement::DropView { names, .. } => &names[..],
            _ => &[],
        };
        self.refuse_by_names(session, &plan.statement)?;
        session.refuse_same_name(listed.iter().map(|name| (name, None)))?;
        if plan.kind.defines_temporary() {
            session.refuse_in_closed_branch()?;
            if matches!(&*plan.statement, Statement::CreateTable(create) if create.sequence.is_some()) {
                // The first row of a sequence is committed, and with it what is open.
                session.refuse_in_branch()?;
                self.commit_implicitly(session)?;
            }
            if session.is_read_only() {
                return Err(errors::cant_execute_in_read_only_transaction());
            }
            check::definition(session, &self.catalog_now(), &plan.statement)?;
            let params = if plan.literals.is_some() { &[] } else { params };
            let done = self.definer().define(session, &plan.statement, params)?;
            session.transaction.note_temporary(session.vars.autocommit);
            return Ok(done);
        }
        if plan.kind.ends_transaction() {
            session.refuse_in_branch()?;
        }
        if plan.kind.commits_implicitly() {
            self.commit_implicitly(session)?;
            // What was READ ONLY has ended, unless the session is.
            if plan.kind.changes_tables() && session.is_read_only() {
                return Err(errors::cant_execute_in_read_only_transaction());
            }
        }
        check::definition(session, &self.catalog_now(), &plan.statement)?;
        let writes = plan.kind.defines() && !self.definer().concerns_temporary(session, &plan.statement)
            || matches!(plan.kind, StatementKind::Analyze | StatementKind::Optimize);
        self.within_gate(session, writes, |session| {
            // The switch to read_only=1 may have held it back at the gate.
            if writes {
                self.refuse_by_names(session, &plan.statement)?;
            }
            self.direct_within(session, plan, params, sink)
        })
    }

    /// The same for a statement that the global read lock has let pass.
    fn direct_within(
        &self,
        session: &mut Session,
        plan: &Plan,
        params: &[Value],
        sink: &mut dyn RowSink,
    ) -> SqlResult<Completion> {
        match &*plan.statement {
            Statement::StartTransaction(how) => {
                if how.read_only == Some(false) && self.refuses_writes(session) {
                    self.commit(session)?;
                    session.named_locks.release();
                    self.refuse_writes(session)?;
                }
                self.begin(session, *how)?
            }
            Statement::Commit(completion) => self.end_transaction(session, *completion, true)?,
            Statement::Rollback(completion) => self.end_transaction(session, *completion, false)?,
            Statement::Savepoint(name) => self.savepoint(session, name)?,
            Statement::RollbackTo(name) => self.rollback_to_savepoint(session, name)?,
            Statement::ReleaseSavepoint(name) => self.release_savepoint(session, name)?,
            Statement::Maintain(what) => return maintain::run(self.definer(), session, what, sink),
            definition if self.definer().passes_over(session, definition) => {}
            definition => {
                let locks = self.check_named(session, definition)?;
                // Of a text the parameters are its literals, which a definition reads in its tree.
                let params = if plan.literals.is_some() { &[] } else { params };
                let done = self.definer().define(session, definition, params);
                match definition {
                    Statement::DropTable(_) if done.is_ok() => Database::forget_dropped(session, &locks),
                    Statement::CreateTable(create) if create.or_replace => {
                        self.forget_replaced(session, &create.name, &locks);
                    }
                    _ => {}
                }
                return done;
            }
        }
        Ok(Completion::default())
    }
}

impl Plan {
    /// Whether the session may run the plan: nothing but a comparison where the account may do that everywhere, or was found to
    /// have it before.
    #[inline]
    fn check_access(&self, session: &mut Session, catalog: &Catalog) -> SqlResult<()> {
        see::expired(session)?;
        if session.access.global.has(self.wanted) {
            return Ok(());
        }
        let Env { access, database, .. } = &mut session.env;
        let stamp = access.stamp(&catalog.accounts, database.as_deref());
        if self.checked.load(Ordering::Relaxed) == stamp {
            return Ok(());
        }
        check::needs(session, &catalog.accounts, &self.needs)?;
        self.checked.store(stamp, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses to prepare, in a READ ONLY transaction, what must not run there.
    pub fn check_prepare(&self, session: &Session) -> SqlResult<()> {
        if session.is_read_only() && self.kind.changes_tables() {
            return Err(errors::cant_execute_in_read_only_transaction());
        }
        refuse_read_only(session, self)
    }
}

/// What is wrong with a statement that could not be bound: in READ ONLY transactions that it writes, before what it names.
pub(crate) fn before_names(session: &Session, statement: &Statement, error: SqlError) -> SqlError {
    let writes = match statement {
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Load(_) => true,
        Statement::Query(query) => query.lock.as_ref().is_some_and(|lock| lock.update),
        _ => false,
    };
    let of_names = matches!(error.code, code::NO_SUCH_TABLE | code::BAD_FIELD | code::BAD_DB);
    // A temporary table may be what it writes.
    if writes && of_names && session.is_read_only() && session.temporary.is_empty() {
        return errors::cant_execute_in_read_only_transaction();
    }
    error
}

impl Database {
    /// Tables that last are written neither in READ ONLY transactions nor by accounts that `read_only` concerns.
    fn refuse_write(&self, session: &Session, plan: &Plan) -> SqlResult<()> {
        refuse_read_only(session, plan)?;
        match self.refuses_writes(session) && (plan.needs_writes() || plan.locks_view) {
            true => self.refuse_writes(session),
            false => Ok(()),
        }
    }
}

/// READ ONLY transactions write no tables that last.
fn refuse_read_only(session: &Session, plan: &Plan) -> SqlResult<()> {
    match session.is_read_only() && (plan.writes_lasting() || plan.locks_view) {
        true => Err(errors::cant_execute_in_read_only_transaction()),
        false => Ok(()),
    }
}

/// LIMIT ROWS EXAMINED of a statement, where it counts.
fn rows_examined(
    session: &mut Session,
    plan: &Plan,
    most: &Expr,
    params: &[Value],
) -> SqlResult<Option<u64>> {
    use StatementKind as K;
    if !matches!(plan.kind, K::Select | K::InsertSelect | K::ReplaceSelect) {
        return Ok(None);
    }
    most.row_number(&mut EvalContext::new(session, Frame { params, ..Frame::EMPTY })).map(Some)
}

/// Whether two plans need the same metadata locks.
fn same_locks(a: &Plan, b: &Plan) -> bool {
    let lock = |(lock, writes): (&Arc<TableLock>, bool)| (Arc::as_ptr(lock), writes);
    a.locks().map(lock).eq(b.locks().map(lock))
}

/// The table that a plan changes, or the first that it reads.
fn changed_table(plan: &Plan) -> &str {
    let changed = plan.dependencies.iter().find(|d| d.written).or(plan.dependencies.first());
    changed.map_or("?", |d| &d.table.name)
}

/// Gives back what [`Database::lock_tables`] took for one statement.
fn release(plan: &Plan) {
    plan.locks().for_each(|(lock, writes)| lock.unshare(writes));
}

/// Takes the rows of a statement that is only counted.
struct Nothing;

impl RowSink for Nothing {
    fn columns(&mut self, _: &Arc<ResultColumns>) -> SqlResult<()> {
        Ok(())
    }

    fn row(&mut self, _: RowView<'_>) -> SqlResult<()> {
        Ok(())
    }
}

/// An error while DO computes something: SHOW WARNINGS alone shows it, as is the end that KILL QUERY makes of it. What has
/// ended the transaction is an error.
fn take_lightly(session: &mut Session, error: SqlError) -> SqlResult<()> {
    match error.code {
        code::LOCK_DEADLOCK | code::LOCK_WAIT_TIMEOUT | code::CHECKREAD | code::CONNECTION_KILLED => {
            Err(error)
        }
        code::QUERY_INTERRUPTED => Ok(()),
        _ => {
            session.push_warning(Warning { level: Level::Error, ..Warning::from(error) });
            Ok(())
        }
    }
}

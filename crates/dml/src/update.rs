//! UPDATE of one table.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::counter::Step;
use keel_catalog::{TableDef, View};
use keel_context::diagnostics::Attempts;
use keel_context::engine_error;
use keel_context::result::Completion;
use keel_context::sort::Sorter;
use keel_exec::access::{Point, encode_point};
use keel_exec::session::Session;
use keel_expr::frame::once_cells;
use keel_expr::{Frame, RowSlot};
use keel_planner::bind::{BindContext, Binder, Clause, Notes};
use keel_planner::select::check_hints;
use keel_sql::ast;
use keel_storage::runtime::fiber;
use keel_storage::{Change, Changed};
use keel_value::Value;
use keel_value::row::RowRef;

use super::assign::{Assignments, write_row};
use super::check::{Checks, is_ignorable};
use super::convert::Strictness;
use super::filter::{Targets, row_bytes, single_table};
use super::foreign::{Doing, Family, Ties, is_of_foreign_key};
use super::rows::{self, Touched, Written};
use super::{WriteScratch, through};

/// A planned UPDATE.
pub struct UpdatePlan {
    /// How its rows are found.
    pub targets: Targets,
    assignments: Assignments,
    touched: Touched,
    checks: Checks,
    ignore: bool,
    /// Rows are collected before they change.
    collect: bool,
    /// A query within the statement reads the table too: all new rows are worked out before the first one changes.
    reads_target: bool,
    /// By clustered key, in one descent of the tree.
    direct: bool,
    /// The tables that foreign keys tie to it.
    pub family: Option<Arc<Family>>,
    /// The view through which rows change.
    pub through: Option<Arc<View>>,
}

/// Binds an UPDATE of one table.
pub fn plan(
    cx: BindContext<'_>,
    update: &ast::Update,
    find: super::Find<'_>,
    notes: &mut Notes,
) -> SqlResult<UpdatePlan> {
    let Some((name, alias, hints)) = single_table(&update.tables) else {
        return Err(errors::not_supported_yet("UPDATE of several tables"));
    };
    if update.with.is_some() {
        return Err(errors::not_supported_yet("WITH in UPDATE"));
    }
    let mut binder = Binder::new(cx);
    let changed = through::bind(&mut binder, name, alias, find, "UPDATE")?;
    let table = changed.table;
    // Foreign keys may change rows of other tables meanwhile.
    binder.rows_change = !cx.catalog.references_to(&table.schema, &table.name).is_empty();
    check_hints(hints, &table, alias.unwrap_or(&name.name))?;
    let hints = if hints.is_empty() { &changed.hints[..] } else { hints };
    let mut assignments =
        Assignments::bind(&mut binder, &table, 0, &update.assignments, (Clause::Set, Clause::Set))?;
    let (filter, order, limit) = (update.filter.as_ref(), &update.order_by, update.limit.as_ref());
    let mut targets = Targets::bind(&mut binder, &table, filter, order, limit, hints, changed.conditions)?;
    targets.semi_consistent = true;
    notes.take(&binder);
    let touched = Touched::of(&table, |c| assignments.changes(c));
    let reads_target = binder.reads_table(&table);
    if reads_target {
        // As MariaDB's UPDATE of several tables, which it makes of this.
        assignments.read_old_values();
    } else {
        assignments.read_worked_out(0);
    }
    let collect = !reads_target && targets.moves(|c| assignments.changes(c));
    let checks = Checks::bind(cx.catalog, cx.session, &table)?;
    let checks = checks.through(changed.through.as_ref(), changed.checks, binder.once_count());
    let first = assignments.comes_first() || targets.comes_first() || checks.comes_first();
    let direct = targets.point().is_some() && !touched.clustered && !first;
    let changes = |column| assignments.changes(column);
    let family = Family::of(
        cx.catalog,
        cx.session,
        &table,
        Doing { inserts: false, deletes: false, changes: &changes },
    )?;
    Ok(UpdatePlan {
        targets,
        assignments,
        touched,
        checks,
        ignore: update.ignore,
        collect,
        reads_target,
        direct,
        family,
        through: changed.through,
    })
}

impl UpdatePlan {
    /// Whether one descent by the clustered key does all.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// The columns that it assigns to.
    pub fn assigned(&self) -> impl Iterator<Item = u16> {
        self.assignments.assigned()
    }

    /// Whether a new row may be written; with IGNORE one that may not leaves the old one as it is.
    fn passes_checks(&self, session: &mut Session, row: &mut Vec<u8>) -> SqlResult<bool> {
        match self.checks.test_bytes(session, &self.targets.table, row) {
            Ok(()) => Ok(true),
            Err(error) if self.ignore && is_ignorable(&error) => {
                session.warn(error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Counts of a running UPDATE.
#[derive(Default)]
struct Counts {
    matched: u64,
    changed: u64,
}

/// Runs an UPDATE.
pub fn run(plan: &UpdatePlan, session: &mut Session, params: &[Value]) -> SqlResult<Completion> {
    plan.targets.check_safe(session)?;
    let strictness = Strictness::of(session, plan.ignore, false);
    session.abort_on_warning = strictness.strict;
    session.ignores = plan.ignore;
    let mut work = Work {
        plan,
        strictness,
        counts: Counts::default(),
        scratch: std::mem::take(&mut session.scratch.write),
        ties: Family::ties(&plan.family, session),
    };
    let result = work.all(session, params);
    session.scratch.write = std::mem::take(&mut work.scratch).cleared();
    session.handler.update += work.counts.changed;
    result?;
    let Counts { matched, changed } = work.counts;
    let affected_rows = if session.vars.found_rows_flag { matched } else { changed };
    let warnings = session.diagnostics.warning_count;
    // MariaDB says nothing where it saw beforehand that there is nothing to do.
    let is_never = matched == 0 && plan.targets.is_never(session, params)?;
    let info =
        (!is_never).then(|| format!("Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}"));
    let last_insert_id = session.statement_insert_id;
    Ok(Completion { affected_rows, last_insert_id, info, ..Completion::default() })
}

struct Work<'p> {
    plan: &'p UpdatePlan,
    strictness: Strictness,
    counts: Counts,
    scratch: WriteScratch,
    ties: Option<Ties<'p>>,
}

impl Work<'_> {
    fn all(&mut self, session: &mut Session, params: &[Value]) -> SqlResult<()> {
        let plan = self.plan;
        if plan.direct && self.direct(session, params)? {
            return Ok(());
        }
        if plan.reads_target {
            return self.values_first(session, params);
        }
        plan.targets.for_each(session, params, plan.collect, &mut |session, frame, primary| {
            if self.works_out(session, frame)? {
                self.put(session, primary, row_bytes(&frame))?;
            }
            Ok(true)
        })
    }

    /// Works out all new rows before the first one is written. The rows found stay locked meanwhile.
    fn values_first(&mut self, session: &mut Session, params: &[Value]) -> SqlResult<()> {
        let plan = self.plan;
        // All sort keys are equal: rows stay in the order in which they were found.
        let mut kept = Sorter::new(None, session.vars.sort_room(), session.work());
        plan.targets.for_each(session, params, false, &mut |session, frame, primary| {
            if !self.works_out(session, frame)? {
                return Ok(true);
            }
            let (number, row) = (self.counts.matched, &self.scratch.row);
            kept.push(
                |_| Ok(()),
                |out| {
                    out.extend_from_slice(&number.to_le_bytes());
                    out.extend_from_slice(&(primary.len() as u32).to_le_bytes());
                    out.extend_from_slice(primary);
                    out.extend_from_slice(row);
                    Ok(())
                },
            )?;
            Ok(true)
        })?;
        let mut kept = kept.finish()?;
        let mut old = Vec::new();
        while let Some((_, record)) = kept.next_entry()? {
            fiber::tick();
            session.check_interrupt()?;
            let (number, rest) = record.split_at(8);
            let (length, rest) = rest.split_at(4);
            session.current_row = u64::from_le_bytes(number.try_into().expect("eight octets"));
            let length = u32::from_le_bytes(length.try_into().expect("four octets")) as usize;
            let (primary, row) = rest.split_at(length);
            let txn = session.txn.as_mut().expect("a plan runs within a transaction of the engine");
            if rows::lock_row(self.table(), txn, primary, &mut old)? {
                self.scratch.row.clear();
                self.scratch.row.extend_from_slice(row);
                self.put(session, primary, &old)?;
            }
        }
        Ok(())
    }

    fn table(&self) -> &Arc<TableDef> {
        &self.plan.targets.table
    }

    /// The row at one clustered key, in one descent. False if the key cannot be encoded.
    fn direct(&mut self, session: &mut Session, params: &[Value]) -> SqlResult<bool> {
        let plan = self.plan;
        let table = &plan.targets.table;
        let (Some(index), Some(key)) = (table.clustered_index(), plan.targets.point()) else {
            return Ok(false);
        };
        let mut primary = std::mem::take(&mut session.scratch.key);
        let frame = Frame { params, ..Frame::EMPTY };
        match encode_point(index, key, session, frame, &mut primary)? {
            Point::Unknown | Point::Near => return Ok(false),
            Point::Nothing => {
                session.scratch.key = primary;
                return Ok(true);
            }
            Point::At => {}
        }
        let once = once_cells(plan.targets.once);
        let bytes = std::mem::take(&mut session.scratch.row);
        let mut slots = [RowSlot::Stored { layout: table.layout.clone(), map: None, bytes }];
        let mut matched = false;
        let mut attempts = Attempts::default();
        session.handler.read_key += 1;
        let txn = session.txn.as_ref().expect("a plan runs within a transaction of the engine");
        txn.check_current(table.rows()).map_err(engine_error)?;
        let mut txn = session.txn.take().expect("just seen");
        let outcome = txn.update_by(table.rows(), &primary, |old, out| -> SqlResult<Change> {
            attempts.begin(&mut session.diagnostics);
            if let RowSlot::Stored { bytes, .. } = &mut slots[0] {
                bytes.clear();
                bytes.extend_from_slice(old);
            }
            let frame = Frame { slots: &slots, params, once: &once, outer: None };
            matched = plan.targets.accepts(session, frame, true)?;
            if !matched {
                return Ok(Change::Keep);
            }
            let view = RowRef::new(&table.layout, old);
            plan.assignments.changed(session, table, frame, &view, self.strictness, &mut self.scratch.new)?;
            if self.scratch.new.is_empty() {
                return Ok(Change::Hold);
            }
            write_row(table, &view, &self.scratch.new, out);
            if !plan.passes_checks(session, out)? {
                matched = false;
                return Ok(Change::Hold);
            }
            if !plan.touched.indexes.is_empty() {
                self.scratch.row.clone_from(out);
            }
            Ok(Change::Update)
        });
        self.counts.matched = u64::from(matched);
        session.handler.rows_read += self.counts.matched;
        let result = outcome.map_err(engine_error).and_then(|r| r).and_then(|changed| {
            if changed != Changed::Updated {
                return Ok(());
            }
            self.counts.changed = 1;
            self.raise_auto_increment()?;
            if plan.touched.indexes.is_empty() {
                return Ok(());
            }
            let frame = Frame { slots: &slots, ..Frame::EMPTY };
            let old = row_bytes(&frame);
            self.scratch.buffers.key.clone_from(&primary);
            let touched = &plan.touched;
            let written = rows::update_entries(
                table,
                touched,
                &mut txn,
                &primary,
                old,
                &self.scratch.row,
                &mut self.scratch.buffers,
                self.ties.as_ref(),
            )?;
            match written {
                Written::Done => Ok(()),
                Written::Duplicate(position) => {
                    let zone = &*session.vars.time_zone;
                    Err(rows::duplicate_error(table, position, &self.scratch.row, zone))
                }
            }
        });
        session.txn = Some(txn);
        session.scratch.key = primary;
        if let RowSlot::Stored { bytes, .. } = std::mem::replace(&mut slots[0], RowSlot::Null) {
            session.scratch.row = bytes;
        }
        match result {
            Err(error) if plan.ignore && is_ignored(&error) => {
                // The row itself was written before its entry met a duplicate: the caller's savepoint is the statement.
                self.counts.changed = 0;
                let txn = session.txn.as_mut().expect("put back above");
                txn.rollback_statement().map_err(engine_error)?;
                Ok(true)
            }
            other => other.map(|()| true),
        }
    }

    /// Keeps the AUTO_INCREMENT counter above a value that was assigned.
    fn raise_auto_increment(&self) -> SqlResult<()> {
        let table = self.table();
        let Some(auto) = table.auto_increment else { return Ok(()) };
        if !self.plan.assignments.changes(auto.column) {
            return Ok(());
        }
        let value = RowRef::new(&table.layout, &self.scratch.row).get(auto.column);
        rows::raise_auto_increment(table, value, Step::ONE).map(|_| ())
    }

    /// Works out what the row in slot 0 becomes; false where it stays as it is.
    fn works_out(&mut self, session: &mut Session, frame: Frame<'_>) -> SqlResult<bool> {
        let table = &self.plan.targets.table;
        self.counts.matched += 1;
        let view = RowRef::new(&table.layout, row_bytes(&frame));
        let new = &mut self.scratch.new;
        self.plan.assignments.changed(session, table, frame, &view, self.strictness, new)?;
        if new.is_empty() {
            return Ok(false);
        }
        write_row(table, &view, new, &mut self.scratch.row);
        let passes = self.plan.passes_checks(session, &mut self.scratch.row)?;
        // One that IGNORE passes over does not count as found.
        self.counts.matched -= u64::from(!passes);
        Ok(passes)
    }

    /// Puts the row that was worked out in the place of the old one.
    fn put(&mut self, session: &mut Session, primary: &[u8], old: &[u8]) -> SqlResult<()> {
        let table = self.table().clone();
        match self.write(session, &table, primary, old) {
            Ok(()) => {
                self.counts.changed += 1;
                self.raise_auto_increment()
            }
            Err(error) if self.plan.ignore && is_ignored(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn write(
        &mut self,
        session: &mut Session,
        table: &TableDef,
        primary: &[u8],
        old: &[u8],
    ) -> Result<(), SqlError> {
        let txn = session.txn.as_mut().expect("a plan runs within a transaction of the engine");
        let savepoint = self.plan.ignore.then(|| txn.savepoint());
        let (touched, ties) = (&self.plan.touched, self.ties.as_ref());
        let WriteScratch { row, buffers, .. } = &mut self.scratch;
        let error = match rows::update(table, touched, txn, primary, old, row, buffers, ties) {
            Ok(Written::Done) => return Ok(()),
            Ok(Written::Duplicate(position)) => {
                rows::duplicate_error(table, position, row, &*session.env.vars.time_zone)
            }
            Err(error) => error,
        };
        if let Some(savepoint) = savepoint.filter(|_| is_ignored(&error)) {
            txn.rollback_to(savepoint).map_err(engine_error)?;
        }
        Err(error)
    }
}

/// Whether UPDATE IGNORE passes over a row for it, without a word.
pub(super) fn is_ignored(error: &SqlError) -> bool {
    error.code == code::DUP_ENTRY || is_of_foreign_key(error)
}

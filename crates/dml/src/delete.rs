//! DELETE from one table.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::{TableDef, View};
use keel_context::diagnostics::Attempts;
use keel_context::engine_error;
use keel_context::result::{Completion, RowSink};
use keel_exec::access::{Point, encode_point};
use keel_exec::scratch::RowBuffers;
use keel_exec::session::Session;
use keel_expr::frame::once_cells;
use keel_expr::{Frame, RowSlot};
use keel_planner::bind::{BindContext, Binder, NamedTable, Notes};
use keel_planner::select::check_hints;
use keel_sql::ast;
use keel_storage::{Change, Changed};
use keel_value::Value;

use super::filter::{Single, Targets, row_bytes, single_table};
use super::foreign::{Doing, Family, passes_over};
use super::returning::{self, Returning, Sender};
use super::{rows, through};

/// A planned DELETE.
pub struct DeletePlan {
    /// How its rows are found.
    pub targets: Targets,
    /// Rows are found before they go: a query within the statement reads the table too.
    collect: bool,
    /// By clustered key, in one descent of the tree.
    direct: bool,
    ignore: bool,
    /// The tables that foreign keys tie to it.
    pub family: Option<Arc<Family>>,
    /// RETURNING.
    pub returning: Option<Returning>,
    /// The view through which rows go.
    pub through: Option<Arc<View>>,
}

impl DeletePlan {
    /// Whether one descent by the clustered key does all.
    pub fn is_direct(&self) -> bool {
        self.direct
    }
}

/// Binds a DELETE from one table.
pub fn plan(
    cx: BindContext<'_>,
    delete: &ast::Delete,
    find: super::Find<'_>,
    notes: &mut Notes,
) -> SqlResult<DeletePlan> {
    let Some((name, alias, hints)) = only_table(delete) else {
        return Err(errors::not_supported_yet("DELETE from several tables"));
    };
    if delete.with.is_some() {
        return Err(errors::not_supported_yet("WITH in DELETE"));
    }
    let mut binder = Binder::new(cx);
    let mut changed = through::bind(&mut binder, name, alias, find, "DELETE")?;
    let table = changed.table.clone();
    let returning = returning::bind(cx, &delete.returning, &changed, alias, false, notes)?;
    // Foreign keys may change rows of other tables meanwhile.
    binder.rows_change = !cx.catalog.references_to(&table.schema, &table.name).is_empty();
    check_hints(hints, &table, alias.unwrap_or(&name.name))?;
    let hints = if hints.is_empty() { &changed.hints[..] } else { hints };
    let (filter, order, limit) = (delete.filter.as_ref(), &delete.order_by, delete.limit.as_ref());
    let mut targets = Targets::bind(
        &mut binder,
        &table,
        filter,
        order,
        limit,
        hints,
        std::mem::take(&mut changed.conditions),
    )?;
    notes.take(&binder);
    if !delete.targets.is_empty() {
        refuse_reading(&binder, &table, alias)?;
    }
    let returns_target = returning.as_ref().is_some_and(|returning| returning.reads_target);
    let collect = binder.reads_table(&table) || returns_target;
    let family = Family::of(
        cx.catalog,
        cx.session,
        &table,
        Doing { inserts: false, deletes: true, changes: &|_| false },
    )?;
    let direct =
        targets.point().is_some() && !targets.comes_first() && family.is_none() && returning.is_none();
    let (ignore, through) = (delete.ignore, changed.through);
    targets.passes_over = ignore && family.is_some();
    Ok(DeletePlan { targets, collect, direct, ignore, family, returning, through })
}

/// 1093 where a subquery reads a table that a DELETE with a list of tables changes; derived tables may.
pub(super) fn refuse_reading(
    binder: &Binder<'_>,
    table: &Arc<TableDef>,
    alias: Option<&str>,
) -> SqlResult<()> {
    let reads =
        |named: &NamedTable| named.in_subquery && !named.in_derived && Arc::ptr_eq(&named.table, table);
    if binder.named.iter().any(reads) {
        return Err(errors::update_table_used(alias.unwrap_or(&table.name), "DELETE"));
    }
    Ok(())
}

/// The table of a DELETE that reads and changes no other, in whichever form it is written.
pub fn only_table(delete: &ast::Delete) -> Option<Single<'_>> {
    let single = single_table(&delete.from)?;
    match delete.targets.as_slice() {
        [] => Some(single),
        [target] => {
            let (name, alias, _) = single;
            let same_db = target.db.is_none() || target.db == name.db;
            (target.name == alias.unwrap_or(&name.name) && same_db).then_some(single)
        }
        _ => None,
    }
}

/// Runs a DELETE.
pub fn run(
    plan: &DeletePlan,
    session: &mut Session,
    params: &[Value],
    sink: &mut dyn RowSink,
) -> SqlResult<Completion> {
    if session.vars.safe_updates && !plan.targets.has_filter() {
        return Err(errors::update_without_key_in_safe_mode());
    }
    plan.targets.check_safe(session)?;
    session.ignores = plan.ignore;
    let mut scratch = std::mem::take(&mut session.scratch.write);
    let mut returning = Sender::begin(plan.returning.as_ref(), sink, params)?;
    let result = all(plan, session, params, &mut scratch.buffers, returning.as_mut());
    session.scratch.write = scratch.cleared();
    let affected_rows = result?;
    session.handler.delete += affected_rows;
    if let Some(returning) = returning {
        return Ok(Completion { affected_rows: returning.sent, had_rows: true, ..Completion::default() });
    }
    Ok(Completion { affected_rows, ..Completion::default() })
}

fn all(
    plan: &DeletePlan,
    session: &mut Session,
    params: &[Value],
    buffers: &mut RowBuffers,
    mut returning: Option<&mut Sender<'_>>,
) -> SqlResult<u64> {
    let mut affected_rows = 0;
    if plan.direct
        && let Some(count) = direct(plan, session, params, buffers)?
    {
        return Ok(count);
    }
    let table = &plan.targets.table;
    let ties = Family::ties(&plan.family, session);
    plan.targets.for_each(session, params, plan.collect, &mut |session, frame, primary| {
        if let Some(returning) = &mut returning {
            returning.row(session, frame.slots)?;
        }
        let txn = session.txn.as_mut().expect("a plan runs within a transaction of the engine");
        let savepoint = (plan.ignore && ties.is_some()).then(|| txn.savepoint());
        match (rows::delete(table, txn, primary, row_bytes(&frame), buffers, ties.as_ref()), savepoint) {
            (Ok(()), _) => {
                affected_rows += 1;
                Ok(true)
            }
            (Err(error), Some(savepoint)) => {
                txn.rollback_to(savepoint).map_err(engine_error)?;
                if passes_over(session, &error) { Ok(false) } else { Err(error) }
            }
            (Err(error), None) => Err(error),
        }
    })?;
    Ok(affected_rows)
}

/// The row at one clustered key, in one descent; none if the key cannot be encoded.
fn direct(
    plan: &DeletePlan,
    session: &mut Session,
    params: &[Value],
    buffers: &mut RowBuffers,
) -> SqlResult<Option<u64>> {
    let table = &plan.targets.table;
    let (Some(index), Some(key)) = (table.clustered_index(), plan.targets.point()) else { return Ok(None) };
    let mut primary = std::mem::take(&mut session.scratch.key);
    match encode_point(index, key, session, Frame { params, ..Frame::EMPTY }, &mut primary)? {
        Point::Unknown | Point::Near => return Ok(None),
        Point::Nothing => return Ok(Some(0)),
        Point::At => {}
    }
    let once = once_cells(plan.targets.once);
    let mut slots = [RowSlot::Stored { layout: table.layout.clone(), map: None, bytes: Vec::new() }];
    let mut attempts = Attempts::default();
    session.handler.read_key += 1;
    let txn = session.txn.as_ref().expect("a plan runs within a transaction of the engine");
    txn.check_current(table.rows()).map_err(engine_error)?;
    let mut txn = session.txn.take().expect("just seen");
    let outcome = txn.update_by(table.rows(), &primary, |old, _| -> SqlResult<Change> {
        attempts.begin(&mut session.diagnostics);
        if let RowSlot::Stored { bytes, .. } = &mut slots[0] {
            bytes.clear();
            bytes.extend_from_slice(old);
        }
        let frame = Frame { slots: &slots, params, once: &once, outer: None };
        Ok(if plan.targets.accepts(session, frame, true)? { Change::Delete } else { Change::Keep })
    });
    let result = outcome.map_err(engine_error).and_then(|r| r).and_then(|changed| {
        if changed != Changed::Deleted {
            return Ok(0);
        }
        let frame = Frame { slots: &slots, ..Frame::EMPTY };
        rows::delete_entries(table, &mut txn, &primary, row_bytes(&frame), buffers, None)?;
        Ok(1)
    });
    session.txn = Some(txn);
    session.scratch.key = primary;
    session.handler.rows_read += result.as_ref().copied().unwrap_or(0);
    result.map(Some)
}

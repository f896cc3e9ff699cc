//! RETURNING: what INSERT, REPLACE and DELETE give back of the rows that they change.
//!
//! Its expressions see one row, the new one of an INSERT or the old one of a DELETE, and are worked out as each row is written:
//! before it goes, after it has come. Aggregates and window functions have no place here.

use std::cell::OnceCell;
use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_context::result::{ResultColumns, RowSink, RowView};
use keel_exec::session::Session;
use keel_expr::frame::{Kept, once_cells};
use keel_expr::{EvalContext, Expr, Frame, RowSlot};
use keel_planner::bind::{BindContext, Binder, Clause, NamedTable, Notes};
use keel_sql::ast::SelectItem;
use keel_value::Value;

use super::through::{self, Changed};

/// A bound RETURNING.
pub struct Returning {
    pub columns: Arc<ResultColumns>,
    project: Vec<Expr>,
    once: u32,
    /// A subquery reads the table that changes.
    pub reads_target: bool,
}

/// Binds RETURNING; none where it was not said. With `by_values` subqueries may not read the table under its own name.
pub(crate) fn bind(
    cx: BindContext<'_>,
    items: &[SelectItem],
    changed: &Changed,
    alias: Option<&str>,
    by_values: bool,
    notes: &mut Notes,
) -> SqlResult<Option<Returning>> {
    if items.is_empty() {
        return Ok(None);
    }
    let mut binder = Binder::new(cx);
    binder.rows_change = true;
    through::bind_returned(&mut binder, changed, alias)?;
    let table = &changed.table;
    binder.pins_literals = true;
    let (columns, mut project) = keel_planner::select::bind_list(&mut binder, items, Clause::Returning)?;
    let reads = |named: &NamedTable| named.by_own_name && Arc::ptr_eq(&named.table, table);
    if by_values && binder.named.iter().any(reads) {
        return Err(errors::update_table_used(&table.name, "INSERT"));
    }
    project.iter_mut().for_each(|expr| binder.hoist(expr));
    notes.take(&binder);
    let (once, reads_target) = (binder.once_count(), binder.reads_table(table));
    Ok(Some(Returning { columns, project, once, reads_target }))
}

/// RETURNING while its statement runs.
pub(crate) struct Sender<'p> {
    plan: &'p Returning,
    sink: &'p mut dyn RowSink,
    params: &'p [Value],
    once: Vec<OnceCell<Kept>>,
    values: Vec<Value>,
    /// Rows sent.
    pub sent: u64,
}

impl<'p> Sender<'p> {
    /// Sends the columns; none where nothing is returned.
    pub fn begin(
        plan: Option<&'p Returning>,
        sink: &'p mut dyn RowSink,
        params: &'p [Value],
    ) -> SqlResult<Option<Sender<'p>>> {
        let Some(plan) = plan else { return Ok(None) };
        sink.columns(&plan.columns)?;
        Ok(Some(Sender { plan, sink, params, once: once_cells(plan.once), values: Vec::new(), sent: 0 }))
    }

    /// Sends what is asked for of a row. May wait for the client.
    pub fn row(&mut self, session: &mut Session, slots: &[RowSlot]) -> SqlResult<()> {
        let frame = Frame { slots, params: self.params, once: &self.once, outer: None };
        self.values.clear();
        for expr in &self.plan.project {
            let value = expr.eval(&mut EvalContext::new(session, frame))?.into_value();
            self.values.push(value);
        }
        self.sink.row(RowView::Values(&self.values))?;
        self.sent += 1;
        self.sink.breathe()
    }
}

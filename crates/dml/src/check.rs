//! CHECK constraints where rows are written: a row for which a condition is false is refused.
//!
//! Conditions are bound when the statement is planned, apart from its own expressions: they read one row, the one about to
//! be written, and neither wait nor have effects, so that they may be tested on a latched page.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::{Catalog, TableDef, View};
use keel_exec::session::Session;
use keel_expr::frame::once_cells;
use keel_expr::{EvalContext, Expr, Frame, RowSlot};
use keel_planner::bind::{BindContext, Binder, Clause, ParamSource};
use keel_sql::ast;

use super::assign::comes_first;

/// The bound conditions of a table.
pub struct Checks {
    list: Vec<Check>,
    once: u32,
    /// What a view asks through which rows are written.
    view: Option<ViewCheck>,
}

struct ViewCheck {
    view: Arc<View>,
    conditions: Vec<Expr>,
    once: u32,
}

struct Check {
    /// As messages name it: a column's with its table.
    name: String,
    condition: Expr,
}

impl Checks {
    /// Binds a table's conditions.
    pub fn bind(catalog: &Catalog, session: &Session, table: &Arc<TableDef>) -> SqlResult<Checks> {
        let mut checks = Checks { list: Vec::new(), once: 0, view: None };
        if table.all_checks().next().is_none() {
            return Ok(checks);
        }
        let params = ParamSource::default();
        let mut binder = Binder::new(BindContext { catalog, session, params, assigned: &[], counting: None });
        let entry = binder.scope_table(0, table.clone(), None)?;
        binder.scope_mut().add_table(entry)?;
        for (name, of_column, condition) in table.all_checks() {
            let text = format!("DO {condition}");
            let parsed = keel_sql::parse(text.as_bytes(), &keel_sql::ParseOptions::default())?;
            let ast::Statement::Do(list) = parsed.statement else { continue };
            let name = if of_column { format!("{}.{name}", table.name) } else { name.to_string() };
            for tree in &list {
                let mut condition = binder.bind(tree, Clause::Fields)?;
                binder.hoist(&mut condition);
                checks.list.push(Check { name: name.clone(), condition });
            }
        }
        checks.once = binder.once_count();
        Ok(checks)
    }

    /// Adds WITH CHECK OPTION of a view; `once` counts the cells of the statement that bound its conditions.
    pub fn through(mut self, view: Option<&Arc<View>>, conditions: Vec<Expr>, once: u32) -> Checks {
        if let Some(view) = view.filter(|_| !conditions.is_empty()) {
            self.view = Some(ViewCheck { view: view.clone(), conditions, once });
        }
        self
    }

    /// Whether a test must not run on a latched page.
    pub fn comes_first(&self) -> bool {
        let of_view = self.view.iter().flat_map(|check| &check.conditions);
        self.list.iter().map(|check| &check.condition).chain(of_view).any(comes_first)
    }

    /// Whether there is nothing to test.
    pub fn is_empty(&self, session: &Session) -> bool {
        self.view.is_none() && (self.list.is_empty() || !session.vars.check_constraint_checks)
    }

    /// Tests a row of the table: 4025 names the first condition that is false.
    pub fn test(&self, session: &mut Session, table: &TableDef, row: &RowSlot) -> SqlResult<()> {
        let once = once_cells(self.once);
        let slots = std::slice::from_ref(row);
        let tested = if session.vars.check_constraint_checks { &self.list[..] } else { &[] };
        for check in tested {
            let frame = Frame { slots, params: &[], once: &once, outer: None };
            if check.condition.truth(&mut EvalContext::new(session, frame))? == Some(false) {
                return Err(errors::constraint_failed(&check.name, &table.schema, &table.name));
            }
        }
        self.view.as_ref().map_or(Ok(()), |check| check.test(session, slots))
    }

    /// The same for a row as it is stored; its bytes are lent and come back.
    pub fn test_bytes(&self, session: &mut Session, table: &TableDef, row: &mut Vec<u8>) -> SqlResult<()> {
        if self.is_empty(session) {
            return Ok(());
        }
        let bytes = std::mem::take(row);
        let slot = RowSlot::Stored { layout: table.layout.clone(), map: None, bytes };
        let result = self.test(session, table, &slot);
        if let RowSlot::Stored { bytes, .. } = slot {
            *row = bytes;
        }
        result
    }
}

impl ViewCheck {
    /// 1369 where a condition does not hold.
    fn test(&self, session: &mut Session, slots: &[RowSlot]) -> SqlResult<()> {
        let once = once_cells(self.once);
        for condition in &self.conditions {
            let frame = Frame { slots, params: &[], once: &once, outer: None };
            if condition.truth(&mut EvalContext::new(session, frame))? != Some(true) {
                return Err(errors::view_check_failed(&self.view.schema, &self.view.name));
            }
        }
        Ok(())
    }
}

/// Whether IGNORE makes a warning of an error: then the row is passed over.
pub fn is_ignorable(error: &SqlError) -> bool {
    matches!(error.code, code::CONSTRAINT_FAILED | code::VIEW_CHECK_FAILED)
}

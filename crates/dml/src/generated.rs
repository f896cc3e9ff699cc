//! Generated columns where rows are written: those that rows hold are worked out last, in order, from the columns before
//! them and all others.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::{Catalog, TableDef};
use keel_exec::session::Session;
use keel_expr::frame::once_cells;
use keel_expr::{EvalContext, Expr, Frame, RowSlot, walk};
use keel_planner::bind::generated::parse;
use keel_planner::bind::{BindContext, Binder, Clause, ParamSource};
use keel_value::row::RowRef;
use keel_value::{SqlType, Value};

use super::assign::{Source, comes_first, default_source};
use super::convert::{Strictness, into_column};

/// The bound expressions of the generated columns that rows of a table hold.
pub struct Generated {
    list: Vec<(usize, Expr)>,
    once: u32,
}

impl Generated {
    /// Binds them.
    pub fn bind(catalog: &Catalog, session: &Session, table: &Arc<TableDef>) -> SqlResult<Generated> {
        let mut generated = Generated { list: Vec::new(), once: 0 };
        if table.generated_columns().next().is_none() {
            return Ok(generated);
        }
        let params = ParamSource::default();
        let mut binder = Binder::new(BindContext { catalog, session, params, assigned: &[], counting: None });
        let entry = binder.scope_table(0, table.clone(), None)?;
        binder.scope_mut().add_table(entry)?;
        for (column, def) in table.generated_columns().filter(|(column, _)| table.is_kept(*column)) {
            let bound = binder.bind(&parse(&def.expression)?, Clause::Fields)?;
            generated.list.push((column, bound));
        }
        generated.once = binder.once_count();
        Ok(generated)
    }

    /// Takes the defaults of columns that are expressions before those that it has: for rows that get these columns again.
    pub fn add_defaults(
        &mut self,
        catalog: &Catalog,
        session: &Session,
        table: &Arc<TableDef>,
        columns: impl Iterator<Item = usize>,
    ) -> SqlResult<()> {
        let params = ParamSource::default();
        let mut binder = Binder::new(BindContext { catalog, session, params, assigned: &[], counting: None });
        binder.scope_mut().once = self.once;
        let mut defaults = Vec::new();
        for column in columns {
            if let Source::Expr(bound) = default_source(&mut binder, table, column)? {
                defaults.push((column, bound));
            }
        }
        if !binder.sequences.is_empty() {
            return Err(errors::not_supported_yet("ADD COLUMN whose default asks a sequence"));
        }
        self.once = binder.once_count();
        self.list.splice(0..0, defaults);
        Ok(())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether working one out must not be done on a latched page.
    pub fn comes_first(&self) -> bool {
        self.list.iter().any(|(_, expr)| comes_first(expr))
    }

    /// Those that may change where others do.
    pub fn follow(&self, changes: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut following: Vec<usize> = Vec::new();
        for (column, expr) in &self.list {
            let mut reads = false;
            walk::for_each_column(expr, &mut |_, read| {
                let read = read as usize;
                reads |= changes(read) || following.contains(&read);
            });
            if reads {
                following.push(*column);
            }
        }
        following
    }

    /// Works out those of a new row, whose other columns are there.
    pub fn fill(
        &self,
        session: &mut Session,
        table: &TableDef,
        values: &mut Vec<Value>,
        strictness: Strictness,
    ) -> SqlResult<()> {
        self.fill_some(session, table, values, &|_| true, strictness)
    }

    fn fill_some(
        &self,
        session: &mut Session,
        table: &TableDef,
        values: &mut Vec<Value>,
        wanted: &dyn Fn(usize) -> bool,
        strictness: Strictness,
    ) -> SqlResult<()> {
        let once = once_cells(self.once);
        for (column, expr) in self.list.iter().filter(|(column, _)| wanted(*column)) {
            let mut slots = [RowSlot::Values(std::mem::take(values))];
            let frame = Frame { slots: &slots, params: &[], once: &once, outer: None };
            let value = expr.eval(&mut EvalContext::new(session, frame)).map(|value| value.into_value());
            if let RowSlot::Values(lent) = &mut slots[0] {
                *values = std::mem::take(lent);
            }
            values[*column] = into_column(session, table, *column, &expr.ty, value?, strictness)?;
        }
        Ok(())
    }

    /// Adds to the changes `new` of a row what they make of the generated columns `following`.
    pub fn change(
        &self,
        session: &mut Session,
        table: &TableDef,
        old: &RowRef<'_>,
        new: &mut Vec<(usize, Value)>,
        following: &[usize],
        strictness: Strictness,
    ) -> SqlResult<()> {
        if following.is_empty() || new.is_empty() {
            return Ok(());
        }
        let mut values: Vec<Value> = (0..table.columns.len()).map(|c| old.get(c).to_owned()).collect();
        for (column, value) in new.iter() {
            values[*column] = value.clone();
        }
        self.fill_some(session, table, &mut values, &|column| following.contains(&column), strictness)?;
        for column in following {
            let value = std::mem::replace(&mut values[*column], Value::Null);
            if old.get(*column) != value.as_ref() {
                new.push((*column, value));
            }
        }
        Ok(())
    }
}

/// What a statement gives a generated column is not taken: 1906, unless it is NULL.
pub(super) fn refuse_value(
    session: &mut Session,
    table: &TableDef,
    column: usize,
    (ty, value): (&SqlType, Value),
    strictness: Strictness,
) -> SqlResult<()> {
    if value.is_null() {
        return Ok(());
    }
    let error = errors::non_default_value_for_generated_column(&*table.columns[column].name, &*table.name);
    if strictness.strict {
        return Err(error);
    }
    session.warn(error);
    // It is converted all the same, with what there is to say of it.
    into_column(session, table, column, ty, value, strictness).map(|_| ())
}

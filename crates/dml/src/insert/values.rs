//! The values of a row to insert: those that are given, and those of the other columns.

use keel_base::SqlResult;
use keel_catalog::ColumnDefault;
use keel_context::result::RowView;
use keel_context::sort::RowList;
use keel_exec::join::Keeper;
use keel_exec::select::{self, RowOutput, RowPacker, result_layout};
use keel_exec::session::Session;
use keel_expr::frame::once_cells;
use keel_expr::{EvalContext, Expr, Frame, RowSlot};
use keel_planner::bind::literal::CellTypes;
use keel_sql::{LiteralCell, LiteralRows};
use keel_value::row::{self, Layout, RowRef};
use keel_value::{SqlType, Value};

use super::super::assign::{Source, check_default, default_value, value_of};
use super::super::convert::{Strictness, into_column};
use super::super::generated::refuse_value;
use super::{Rows, Work};

impl Work<'_> {
    /// Begins a row of LOAD DATA: columns that are not its fields hold their defaults.
    pub(crate) fn begin_row(&mut self, session: &mut Session) -> SqlResult<()> {
        match self.plan.reads_own_row {
            true => self.begin_with_defaults(session),
            false => self.fill_unsaid(session),
        }
    }

    /// Its fields are there: works out defaults that read them.
    pub(crate) fn finish_row(&mut self, session: &mut Session) -> SqlResult<()> {
        if self.plan.reads_own_row { self.unsaid_over_own_row(session) } else { Ok(()) }
    }

    pub(super) fn all(&mut self, session: &mut Session) -> SqlResult<()> {
        self.check_defaults(session)?;
        match &self.plan.rows {
            Rows::Values { rows, reads_target: true } => self.values_first(session, rows),
            Rows::Values { rows, reads_target: false } => {
                let count = if session.rows_come_in_batch { 0 } else { rows.len() as u64 };
                for (number, row) in rows.iter().enumerate() {
                    session.current_row = session.rows_before + number as u64 + 1;
                    self.values_of(session, row)?;
                    self.write(session, count)?;
                }
                Ok(())
            }
            Rows::Literals(rows) => self.all_literals(session, rows),
            Rows::File(_) => Ok(()),
            Rows::Query { plan, reads_target: false } => {
                let params = self.params;
                session.found_rows = select::run_each(plan, session, params, None, self)?;
                Ok(())
            }
            Rows::Query { plan, reads_target: true } => {
                let layout = result_layout(plan.types().iter().map(|(ty, _)| ty));
                let mut kept = Keeper::new(RowPacker::new(&layout), session);
                session.found_rows = select::run_each(plan, session, self.params, None, &mut kept)?;
                let mut rows = kept.finish()?;
                while let Some(row) = rows.next_row()? {
                    let row = RowRef::new(&layout, row);
                    let values = (0..plan.types().len()).map(|place| row.get(place).to_owned());
                    self.insert_selected(session, values.collect())?;
                }
                Ok(())
            }
        }
    }

    /// Works out all rows before the first one is written.
    pub(super) fn values_first(&mut self, session: &mut Session, rows: &[Vec<Source>]) -> SqlResult<()> {
        let columns = self.plan.table.columns.iter().map(|column| (column.ty.clone(), true));
        let layout = Layout::new(&columns.collect::<Vec<_>>());
        let mut kept = RowList::new(session.vars.tmp_room(), session.work());
        for (number, row) in rows.iter().enumerate() {
            session.current_row = session.rows_before + number as u64 + 1;
            self.values_of(session, row)?;
            kept.push(|out| row::encode_values(&layout, &self.values, out))?;
        }
        let mut kept = kept.finish()?;
        session.current_row = session.rows_before;
        while let Some(row) = kept.next_row()? {
            session.current_row += 1;
            let row = RowRef::new(&layout, row);
            self.values.clear();
            self.values.extend((0..layout.columns().len()).map(|place| row.get(place).to_owned()));
            self.write(session, rows.len() as u64)?;
        }
        Ok(())
    }

    /// Columns that the statement leaves out and that have no default, or one that is refused: an error or a warning, before any
    /// row is made.
    pub(super) fn check_defaults(&self, session: &mut Session) -> SqlResult<()> {
        for column in &self.plan.lacking {
            let error = self.no_default(*column);
            if self.strictness.strict {
                return Err(error);
            }
            session.warn(error);
        }
        let on_duplicate = self.plan.on_duplicate.as_ref();
        let is_assigned = |column| on_duplicate.is_some_and(|(list, _)| list.assigns(column));
        for (column, source) in &self.plan.unsaid {
            if matches!(source, Source::Default) && !is_assigned(*column) {
                check_default(session, &self.plan.table, *column, self.strictness)?;
            }
        }
        Ok(())
    }

    /// The same for DEFAULT as a value of a row.
    fn check_said(&self, session: &mut Session, column: usize, source: &Source) -> SqlResult<()> {
        match source {
            Source::Default => check_default(session, &self.plan.table, column, self.strictness),
            _ => Ok(()),
        }
    }

    pub(super) fn all_literals(&mut self, session: &mut Session, rows: &LiteralRows) -> SqlResult<()> {
        let mut types = CellTypes::new(session.literal_collation());
        let mut cells = rows.cells();
        let count = rows.row_count() as u64;
        for number in 1..=count {
            session.current_row = number;
            let cells = cells.by_ref().take(rows.width());
            if self.plan.reads_own_row {
                let constant = |cell| {
                    types.value(cell).map(|(value, ty)| Source::Expr(Expr::constant(value, ty.clone())))
                };
                let sources: SqlResult<Vec<Source>> = cells.map(constant).collect();
                self.values_of(session, &sources?)?;
            } else {
                self.values_of_literals(session, cells, &mut types)?;
            }
            self.write(session, count)?;
        }
        Ok(())
    }

    /// Works out a row of literals into `values`.
    pub(super) fn values_of_literals<'t>(
        &mut self,
        session: &mut Session,
        cells: impl Iterator<Item = LiteralCell<'t>>,
        types: &mut CellTypes,
    ) -> SqlResult<()> {
        self.fill_unsaid(session)?;
        for (column, cell) in self.plan.columns.iter().zip(cells) {
            let (value, ty) = types.value(cell)?;
            self.values[*column] = self.store(session, *column, ty, value)?;
        }
        Ok(())
    }

    /// Works out a row of VALUES into `values`.
    pub(super) fn values_of(&mut self, session: &mut Session, sources: &[Source]) -> SqlResult<()> {
        if self.plan.reads_own_row {
            return self.values_over_own_row(session, sources);
        }
        self.fill_unsaid(session)?;
        let frame = Frame { params: self.params, ..Frame::EMPTY };
        for (column, source) in self.plan.columns.iter().zip(sources) {
            self.check_said(session, *column, source)?;
            self.values[*column] = self.value(session, *column, source, frame)?;
        }
        Ok(())
    }

    /// Begins a row: only the columns that the statement leaves out have their values.
    pub(super) fn fill_unsaid(&mut self, session: &mut Session) -> SqlResult<()> {
        self.clear_values();
        let frame = Frame { params: self.params, ..Frame::EMPTY };
        for (column, source) in &self.plan.unsaid {
            self.values[*column] = self.value(session, *column, source, frame)?;
        }
        Ok(())
    }

    pub(super) fn clear_values(&mut self) {
        self.values.clear();
        self.values.resize(self.plan.table.columns.len(), Value::Null);
    }

    /// The same where values read columns of their own row: those said so far, else defaults.
    pub(super) fn values_over_own_row(&mut self, session: &mut Session, sources: &[Source]) -> SqlResult<()> {
        self.begin_with_defaults(session)?;
        let plan = self.plan;
        for (column, source) in plan.columns.iter().zip(sources) {
            self.check_said(session, *column, source)?;
            self.over_own_row(session, *column, source)?;
        }
        self.unsaid_over_own_row(session)
    }

    /// Fills `values` with what columns hold until they are said.
    pub(super) fn begin_with_defaults(&mut self, session: &mut Session) -> SqlResult<()> {
        self.clear_values();
        let table = &self.plan.table;
        let lenient = Strictness { strict: false, null_is_error: false };
        for column in 0..table.columns.len() {
            let warnings = session.diagnostics.clone();
            if !matches!(table.columns[column].default, ColumnDefault::Expression(_)) {
                self.values[column] = default_value(session, table, column, lenient)?;
            }
            session.diagnostics = warnings;
        }
        Ok(())
    }

    pub(super) fn unsaid_over_own_row(&mut self, session: &mut Session) -> SqlResult<()> {
        let plan = self.plan;
        for (column, source) in &plan.unsaid {
            self.over_own_row(session, *column, source)?;
        }
        Ok(())
    }

    /// Works out one value from those that are there.
    pub(super) fn over_own_row(
        &mut self,
        session: &mut Session,
        column: usize,
        source: &Source,
    ) -> SqlResult<()> {
        let once = once_cells(self.plan.once);
        let slots = [RowSlot::Values(std::mem::take(&mut self.values))];
        let frame = Frame { slots: &slots, params: self.params, once: &once, outer: None };
        let value = self.value(session, column, source, frame);
        if let [RowSlot::Values(values)] = slots {
            self.values = values;
        }
        self.values[column] = value?;
        Ok(())
    }

    /// Works out a column's value.
    pub(crate) fn value(
        &self,
        session: &mut Session,
        column: usize,
        source: &Source,
        frame: Frame<'_>,
    ) -> SqlResult<Value> {
        let Source::Expr(expr) = source else {
            return value_of(session, &self.plan.table, column, source, frame, self.strictness, None);
        };
        let value = expr.eval(&mut EvalContext::new(session, frame))?.into_value();
        self.store(session, column, &expr.ty, value)
    }

    /// A value as a column keeps it. Where the column counts, any NULL asks for the next number.
    pub(super) fn store(
        &self,
        session: &mut Session,
        column: usize,
        ty: &SqlType,
        value: Value,
    ) -> SqlResult<Value> {
        let table = &self.plan.table;
        if table.columns[column].auto_increment && value.is_null() {
            return Ok(value);
        }
        if table.columns[column].generated.is_some() {
            refuse_value(session, table, column, (ty, value), self.strictness)?;
            return Ok(Value::Null);
        }
        into_column(session, table, column, ty, value, self.strictness)
    }

    /// Takes a row of a query.
    pub(super) fn insert_selected(&mut self, session: &mut Session, row: Vec<Value>) -> SqlResult<()> {
        let plan = self.plan;
        let Rows::Query { plan: query, .. } = &plan.rows else { return Ok(()) };
        session.current_row = self.counts.records + 1;
        if plan.reads_own_row {
            self.begin_with_defaults(session)?;
        } else {
            self.fill_unsaid(session)?;
        }
        let mut row = row.into_iter();
        for ((column, (ty, _)), value) in plan.columns.iter().zip(query.types()).zip(&mut row) {
            self.values[*column] = self.store(session, *column, ty, value)?;
        }
        self.sources.clear();
        for width in &plan.sources {
            self.sources.push(RowSlot::Values(row.by_ref().take(*width).collect()));
        }
        if plan.reads_own_row {
            self.unsaid_over_own_row(session)?;
        }
        self.write(session, 0)
    }
}

impl RowOutput for Work<'_> {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        let mut values = Vec::with_capacity(row.len());
        row.for_each(|_, value| values.push(value.to_owned()));
        self.insert_selected(session, values)?;
        Ok(true)
    }
}

//! INSERT and REPLACE.

use std::cell::OnceCell;
use std::sync::Arc;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_sql::ast::{self, InsertSource};
use keel_sql::{LiteralCell, LiteralRows};
use keel_storage::OnDuplicate;
use keel_storage::runtime::fiber;
use keel_value::row::{self, Layout, RowRef};
use keel_value::{SqlMode, SqlType, Value, ValueRef};

use super::WriteScratch;
use super::assign::{Assignments, Source, default_source, default_value, lacks_default, value_of, write_row};
use super::auto::AutoValues;
use super::check::{Checks, is_ignorable};
use super::convert::{Strictness, into_column};
use super::foreign::{Doing, Family, Ties, is_of_foreign_key};
use super::load::{self, FileRows};
use super::returning::{self, Returning, Sender};
use super::rows::{self, RowBuffers, Touched, Written};
use super::through::{self, Filled};
use crate::bind::literal::CellTypes;
use crate::bind::{BindContext, Binder, Clause, NamedTable};
use crate::catalog::counter::Step;
use crate::catalog::{ColumnDefault, TableDef, View};
use crate::ddl::implicit_default;
use crate::engine_error;
use crate::expr::frame::{Kept, once_cells};
use crate::expr::{EvalContext, Expr, Frame, RowSlot, typing, walk};
use crate::join::Keeper;
use crate::plan::Notes;
use crate::result::{Completion, RowSink, RowView};
use crate::select::{self, RowOutput, RowPacker, SelectPlan, result_layout};
use crate::session::Session;
use crate::sort::RowList;

/// A planned INSERT or REPLACE.
pub(crate) struct InsertPlan {
    pub table: Arc<TableDef>,
    /// The view through which rows come.
    pub through: Option<Arc<View>>,
    /// That view does not show the column that counts, so LAST_INSERT_ID() does not tell its values.
    hides_auto: bool,
    checks: Checks,
    replace: bool,
    pub(super) ignore: bool,
    /// Columns that values are given for, in their order.
    columns: Vec<usize>,
    /// The other columns.
    unsaid: Vec<(usize, Source)>,
    /// Those of them that have no default and are not updated instead.
    lacking: Vec<usize>,
    rows: Rows,
    on_duplicate: Option<(Assignments, Touched)>,
    once: u32,
    /// Whether some value reads a column of the row it belongs to.
    reads_own_row: bool,
    pub family: Option<Arc<Family>>,
    pub returning: Option<Returning>,
}

enum Rows {
    /// LOAD DATA.
    File(Box<FileRows>),
    Values {
        rows: Vec<Vec<Source>>,
        /// A query within one of them reads the table that they go to: all are worked out before the first is written.
        reads_target: bool,
    },
    /// Plain literals, read from the statement's text row by row.
    Literals(LiteralRows),
    Query {
        plan: Box<SelectPlan>,
        reads_target: bool,
    },
}

impl InsertPlan {
    /// The columns that it gives values for.
    pub fn given(&self) -> impl Iterator<Item = u16> {
        self.columns.iter().map(|column| *column as u16)
    }

    /// The columns that it assigns to where a row is there already.
    pub fn updated(&self) -> impl Iterator<Item = u16> {
        self.on_duplicate.iter().flat_map(|(assignments, _)| assignments.assigned())
    }

    /// The query that its rows come from.
    pub fn query(&self) -> Option<&SelectPlan> {
        match &self.rows {
            Rows::Query { plan, .. } => Some(plan),
            Rows::File(_) | Rows::Values { .. } | Rows::Literals(_) => None,
        }
    }

    /// Whether nobody knows beforehand how many rows there are.
    fn is_bulk(&self) -> bool {
        matches!(self.rows, Rows::Query { .. } | Rows::File(_))
    }

    fn is_single(&self) -> bool {
        match &self.rows {
            Rows::Values { rows, .. } => rows.len() == 1,
            Rows::Literals(rows) => rows.row_count() == 1,
            Rows::Query { .. } | Rows::File(_) => false,
        }
    }
}

/// What columns get that are not said, and whether any of it reads the row itself.
fn unsaid_sources(
    binder: &mut Binder<'_>,
    table: &Arc<TableDef>,
    said: &[usize],
) -> SqlResult<(Vec<(usize, Source)>, bool)> {
    let mut reads_own_row = false;
    let mut unsaid = Vec::new();
    for column in (0..table.columns.len()).filter(|c| !said.contains(c)) {
        let source = unsaid_source(binder, table, column)?;
        note_reads(&source, &mut reads_own_row);
        unsaid.push((column, source));
    }
    Ok((unsaid, reads_own_row))
}

/// Binds an INSERT or REPLACE.
pub(crate) fn plan(
    cx: BindContext<'_>,
    insert: &ast::Insert,
    find: super::Find<'_>,
    notes: &mut Notes,
) -> SqlResult<InsertPlan> {
    let mut binder = Binder::new(cx);
    binder.rows_change = true;
    let Filled { changed, columns } = filled(&mut binder, insert, find)?;
    let table = changed.table;
    let hides_auto = changed.through.is_some() && !shows_auto(&binder, &table);
    let (unsaid, mut reads_own_row) = unsaid_sources(&mut binder, &table, &columns)?;
    let rows = match &insert.source {
        InsertSource::Values(lists) => {
            let mut rows = Vec::with_capacity(lists.len());
            for (number, list) in lists.iter().enumerate() {
                if list.is_empty() && !columns.is_empty() && changed.through.is_some() {
                    return Err(errors::wrong_value_count_on_row(number + 1));
                }
                rows.push(bind_row(&mut binder, &table, &columns, list, number, &mut reads_own_row)?);
            }
            // Under an alias MariaDB takes it for another table, whose rows may change meanwhile.
            let reads = |named: &NamedTable| named.by_own_name && Arc::ptr_eq(&named.table, &table);
            let reads_target = rows.len() > 1 && binder.named.iter().any(reads);
            Rows::Values { rows, reads_target }
        }
        InsertSource::Literals(rows) if rows.width() != columns.len() => {
            return Err(errors::wrong_value_count_on_row(1));
        }
        InsertSource::Literals(rows) => Rows::Literals(rows.clone()),
        InsertSource::Query(query) => {
            let mut inner = Binder::new(cx);
            inner.rows_change =
                insert.replace && !cx.catalog.references_to(&table.schema, &table.name).is_empty();
            let mut plan = select::plan_select(&mut inner, query)?;
            notes.take(&inner);
            if plan.types().len() != columns.len() {
                return Err(errors::wrong_value_count_on_row(1));
            }
            let reads_target = inner.reads_table(&table);
            plan.keep_digits(reads_target);
            Rows::Query { plan: Box::new(plan), reads_target }
        }
    };
    let on_duplicate = if insert.on_duplicate.is_empty() {
        None
    } else {
        binder.values_slot = Some(1);
        let assignments = Assignments::bind(
            &mut binder,
            &table,
            0,
            &insert.on_duplicate,
            (Clause::Update, Clause::Fields),
        )?;
        let touched = Touched::of(&table, |c| assignments.changes(c));
        Some((assignments, touched))
    };
    notes.take(&binder);
    let once = binder.once_count();
    let (replace, ignore) = (insert.replace, insert.ignore);
    let is_lacking = |column: &usize| {
        let is_assigned = on_duplicate.as_ref().is_some_and(|(list, _)| list.assigns(*column));
        lacks_default(&table.columns[*column]) && !is_assigned
    };
    let lacking = unsaid.iter().map(|(column, _)| *column).filter(is_lacking).collect();
    let changes = |column| on_duplicate.as_ref().is_some_and(|(list, _)| list.changes(column));
    let doing = Doing { inserts: true, deletes: replace, changes: &changes };
    let family = Family::of(cx.catalog, &table, doing);
    let checks = Checks::bind(cx.catalog, cx.session, &table)?;
    let checks = checks.through(changed.through.as_ref(), changed.checks, once);
    // A row that VALUES gives is not in yet when MariaDB looks at the table that a subquery of RETURNING reads.
    let by_values = !matches!(insert.source, InsertSource::Query(_));
    if changed.through.is_some() && !insert.returning.is_empty() {
        return Err(errors::not_supported_yet("RETURNING through a view"));
    }
    let returning = returning::bind(cx, &insert.returning, &table, None, by_values, notes)?;
    Ok(InsertPlan {
        through: changed.through,
        hides_auto,
        table,
        checks,
        replace,
        ignore,
        columns,
        unsaid,
        lacking,
        rows,
        on_duplicate,
        once,
        reads_own_row,
        family,
        returning,
    })
}

/// Makes the plan of a LOAD DATA; `binder` has bound what it names.
pub(super) fn plan_file(
    cx: BindContext<'_>,
    mut binder: Binder<'_>,
    filled: Filled,
    file: FileRows,
    (replace, ignore): (bool, bool),
    notes: &mut Notes,
) -> SqlResult<InsertPlan> {
    let Filled { changed, columns } = filled;
    let table = changed.table;
    let hides_auto = changed.through.is_some() && !shows_auto(&binder, &table);
    let (unsaid, reads_own_row) = unsaid_sources(&mut binder, &table, &columns)?;
    let is_lacking = |column: &usize| lacks_default(&table.columns[*column]) && !file.assigns(*column);
    let lacking = unsaid.iter().map(|(column, _)| *column).filter(is_lacking).collect();
    notes.take(&binder);
    let once = binder.once_count();
    let doing = Doing { inserts: true, deletes: replace, changes: &|_| false };
    let family = Family::of(cx.catalog, &table, doing);
    let checks = Checks::bind(cx.catalog, cx.session, &table)?;
    let checks = checks.through(changed.through.as_ref(), changed.checks, once);
    Ok(InsertPlan {
        through: changed.through,
        hides_auto,
        table,
        checks,
        replace,
        ignore,
        columns: file.given(),
        unsaid,
        lacking,
        rows: Rows::File(Box::new(file)),
        on_duplicate: None,
        once,
        reads_own_row,
        family,
        returning: None,
    })
}

/// What a column holds that the statement does not name. One that counts gets its value as for NULL, whatever 0 means.
fn unsaid_source(binder: &mut Binder<'_>, table: &Arc<TableDef>, column: usize) -> SqlResult<Source> {
    let def = &table.columns[column];
    if def.auto_increment {
        return Ok(Source::Stored(Value::Null));
    }
    match lacks_default(def) {
        true => Ok(Source::Stored(implicit_default(&def.ty))),
        false => default_source(binder, table, column),
    }
}

/// Whether a view in the binder's scope has the column that counts.
fn shows_auto(binder: &Binder<'_>, table: &TableDef) -> bool {
    let Some(auto) = table.auto_increment else { return false };
    let shown = crate::select::view::plain_columns(binder);
    shown.into_iter().flatten().any(|(_, column)| column as usize == auto.column)
}

/// What an INSERT fills, in the binder's scope.
fn filled(binder: &mut Binder<'_>, insert: &ast::Insert, find: super::Find<'_>) -> SqlResult<Filled> {
    if let Some(view) = binder.find_view(insert.table.db.as_deref(), &insert.table.name) {
        return through::bind_insert(binder, &view, insert);
    }
    let changed = through::bind(binder, &insert.table, None, find, "INSERT")?;
    let columns = target_columns(&changed.table, insert)?;
    Ok(Filled { changed, columns })
}

fn target_columns(table: &TableDef, insert: &ast::Insert) -> SqlResult<Vec<usize>> {
    if insert.columns.is_empty() {
        let empty = insert.has_column_list
            || matches!(&insert.source, InsertSource::Values(rows) if rows.iter().all(Vec::is_empty));
        if empty {
            return Ok(Vec::new());
        }
        return Ok((0..table.columns.len()).filter(|c| !table.columns[*c].invisible).collect());
    }
    let mut columns = Vec::with_capacity(insert.columns.len());
    for name in &insert.columns {
        let foreign = name.table.as_deref().is_some_and(|t| *t != *table.name);
        let column = table.column_index(&name.column).filter(|_| !foreign);
        let column = column.ok_or_else(|| errors::bad_field(qualified(name), "INSERT INTO"))?;
        if columns.contains(&column) {
            return Err(errors::field_specified_twice(&name.column));
        }
        columns.push(column);
    }
    Ok(columns)
}

fn bind_row(
    binder: &mut Binder<'_>,
    table: &Arc<TableDef>,
    columns: &[usize],
    list: &[ast::Expr],
    number: usize,
    reads_own_row: &mut bool,
) -> SqlResult<Vec<Source>> {
    if list.len() != columns.len() && !(list.is_empty() && columns.len() == visible(table)) {
        return Err(errors::wrong_value_count_on_row(number + 1));
    }
    let mut row = Vec::with_capacity(list.len());
    for tree in list {
        row.push(match tree {
            ast::Expr::Default(None) | ast::Expr::Ignore => {
                let source = default_source(binder, table, columns[row.len()])?;
                note_reads(&source, reads_own_row);
                source
            }
            tree => {
                let mut value = binder.bind(tree, Clause::Values)?;
                typing::keep_digits(&mut value);
                let source = Source::Expr(value);
                note_reads(&source, reads_own_row);
                source
            }
        });
    }
    if list.is_empty() {
        row.resize_with(columns.len(), || Source::Default);
    }
    Ok(row)
}

/// Notes whether a default is worked out from columns of its row.
fn note_reads(source: &Source, reads_own_row: &mut bool) {
    if let Source::Expr(expr) = source {
        walk::for_each_column(expr, &mut |_, _| *reads_own_row = true);
    }
}

fn visible(table: &TableDef) -> usize {
    table.columns.iter().filter(|c| !c.invisible).count()
}

/// Runs an INSERT or REPLACE.
pub(crate) fn run(
    plan: &InsertPlan,
    session: &mut Session,
    params: &[Value],
    sink: &mut dyn RowSink,
) -> SqlResult<Completion> {
    if let Rows::File(rows) = &plan.rows {
        return load::run(plan, rows, session, params, sink);
    }
    let returning = Sender::begin(plan.returning.as_ref(), sink, params)?;
    let single = plan.is_single();
    let strictness = Strictness::of(session, plan.ignore, single);
    session.abort_on_warning = strictness.strict;
    let mut work = Work::begin(plan, session, params, strictness, returning);
    let result = work.all(session);
    let returned = work.returning.take().map(|returning| returning.sent);
    let (counts, auto) = work.end(session);
    result?;
    // What LAST_INSERT_ID(value) said counts before a value that the statement gave itself.
    let said = Some(session.statement_insert_id).filter(|id| *id != 0);
    let info = (!single).then(|| {
        let duplicates = if plan.ignore { counts.records - counts.copied } else { counts.displaced };
        let (records, warnings) = (counts.records, session.diagnostics.warning_count);
        format!("Records: {records}  Duplicates: {duplicates}  Warnings: {warnings}")
    });
    if let Some(sent) = returned {
        return Ok(Completion { affected_rows: sent, had_rows: true, ..Completion::default() });
    }
    let found = if session.vars.found_rows_flag { counts.found_same } else { 0 };
    Ok(Completion {
        affected_rows: counts.copied + counts.displaced + found,
        last_insert_id: said.or(auto.explicit.filter(|_| counts.copied > 0)).unwrap_or(0),
        info,
        had_rows: false,
    })
}

#[derive(Default)]
pub(super) struct Counts {
    /// Rows given.
    pub records: u64,
    /// Rows that are new, or updated instead.
    pub copied: u64,
    /// Rows that were deleted or updated for them.
    pub displaced: u64,
    /// Rows that ON DUPLICATE KEY UPDATE left as they were.
    found_same: u64,
}

pub(super) struct Work<'p> {
    pub plan: &'p InsertPlan,
    pub strictness: Strictness,
    pub params: &'p [Value],
    pub values: Vec<Value>,
    row: Vec<u8>,
    old: Vec<u8>,
    buffers: RowBuffers,
    pub counts: Counts,
    auto: AutoValues,
    /// What ON DUPLICATE KEY UPDATE, and SET of LOAD DATA, keep for the execution.
    pub once: Vec<OnceCell<Kept>>,
    ties: Option<Ties<'p>>,
    returning: Option<Sender<'p>>,
}

impl<'p> Work<'p> {
    /// Begins, with buffers of the session.
    pub fn begin(
        plan: &'p InsertPlan,
        session: &mut Session,
        params: &'p [Value],
        strictness: Strictness,
        returning: Option<Sender<'p>>,
    ) -> Work<'p> {
        Work {
            plan,
            strictness,
            params,
            values: std::mem::take(&mut session.scratch.write.values),
            row: std::mem::take(&mut session.scratch.write.row),
            old: Vec::new(),
            buffers: std::mem::take(&mut session.scratch.write.buffers),
            counts: Counts::default(),
            auto: AutoValues::default(),
            once: once_cells(plan.once),
            ties: Family::ties(&plan.family, session),
            returning,
        }
    }

    /// Ends, whether all went well or not: gives back buffers and the counter, and tells the session what was done.
    pub fn end(mut self, session: &mut Session) -> (Counts, AutoValues) {
        self.auto.end(session);
        let kept =
            WriteScratch { buffers: self.buffers, row: self.row, new: Vec::new(), values: self.values };
        session.scratch.write = kept.cleared();
        session.handler.write += self.counts.records;
        session.handler.update += self.counts.displaced;
        // A value that a row got counts even if a later row fails.
        if let Some(first) = self.auto.first {
            session.statement_insert_id = first;
            if !self.plan.hides_auto {
                session.last_insert_id = first;
            }
        }
        (self.counts, self.auto)
    }

    /// LOAD DATA only warns of columns that it leaves out and that have no default.
    pub fn warn_of_defaults(&self, session: &mut Session) {
        for column in &self.plan.lacking {
            session.warn(self.no_default(*column));
        }
    }

    fn no_default(&self, column: usize) -> SqlError {
        match &self.plan.through {
            Some(view) => errors::no_default_for_view_field(&view.schema, &view.name),
            None => errors::no_default_for_field(&self.plan.table.columns[column].name),
        }
    }

    /// Begins a row of LOAD DATA: columns that are not its fields hold their defaults.
    pub fn begin_row(&mut self, session: &mut Session) -> SqlResult<()> {
        match self.plan.reads_own_row {
            true => self.begin_with_defaults(session),
            false => self.fill_unsaid(session),
        }
    }

    /// Its fields are there: works out defaults that read them.
    pub fn finish_row(&mut self, session: &mut Session) -> SqlResult<()> {
        if self.plan.reads_own_row { self.unsaid_over_own_row(session) } else { Ok(()) }
    }

    fn all(&mut self, session: &mut Session) -> SqlResult<()> {
        self.check_defaults(session)?;
        match &self.plan.rows {
            Rows::Values { rows, reads_target: true } => self.values_first(session, rows),
            Rows::Values { rows, reads_target: false } => {
                let count = rows.len() as u64;
                for (number, row) in rows.iter().enumerate() {
                    session.current_row = number as u64 + 1;
                    self.values_of(session, row)?;
                    self.write(session, count)?;
                }
                Ok(())
            }
            Rows::Literals(rows) => self.all_literals(session, rows),
            Rows::File(_) => Ok(()),
            Rows::Query { plan, reads_target: false } => {
                let params = self.params;
                select::run_each(plan, session, params, None, self)
            }
            Rows::Query { plan, reads_target: true } => {
                let layout = result_layout(plan.types().iter().map(|(ty, _)| ty));
                let mut kept = Keeper::new(RowPacker::new(&layout), session);
                select::run_each(plan, session, self.params, None, &mut kept)?;
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
    fn values_first(&mut self, session: &mut Session, rows: &[Vec<Source>]) -> SqlResult<()> {
        let columns = self.plan.table.columns.iter().map(|column| (column.ty.clone(), true));
        let layout = Layout::new(&columns.collect::<Vec<_>>());
        let mut kept = RowList::new(session.vars.tmp_memory_bytes, session.host.clone());
        for (number, row) in rows.iter().enumerate() {
            session.current_row = number as u64 + 1;
            self.values_of(session, row)?;
            kept.push(|out| row::encode_values(&layout, &self.values, out))?;
        }
        let mut kept = kept.finish()?;
        session.current_row = 0;
        while let Some(row) = kept.next_row()? {
            session.current_row += 1;
            let row = RowRef::new(&layout, row);
            self.values.clear();
            self.values.extend((0..layout.columns().len()).map(|place| row.get(place).to_owned()));
            self.write(session, rows.len() as u64)?;
        }
        Ok(())
    }

    /// Columns that the statement leaves out and that have no default: an error or a warning, before any row is made.
    fn check_defaults(&self, session: &mut Session) -> SqlResult<()> {
        for column in &self.plan.lacking {
            let error = self.no_default(*column);
            if self.strictness.strict {
                return Err(error);
            }
            session.warn(error);
        }
        Ok(())
    }

    fn all_literals(&mut self, session: &mut Session, rows: &LiteralRows) -> SqlResult<()> {
        let mut types = CellTypes::new(session.vars.connection_collation);
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
    fn values_of_literals<'t>(
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
    fn values_of(&mut self, session: &mut Session, sources: &[Source]) -> SqlResult<()> {
        if self.plan.reads_own_row {
            return self.values_over_own_row(session, sources);
        }
        self.fill_unsaid(session)?;
        let frame = Frame { params: self.params, ..Frame::EMPTY };
        for (column, source) in self.plan.columns.iter().zip(sources) {
            self.values[*column] = self.value(session, *column, source, frame)?;
        }
        Ok(())
    }

    /// Begins a row: only the columns that the statement leaves out have their values.
    fn fill_unsaid(&mut self, session: &mut Session) -> SqlResult<()> {
        self.clear_values();
        let frame = Frame { params: self.params, ..Frame::EMPTY };
        for (column, source) in &self.plan.unsaid {
            self.values[*column] = self.value(session, *column, source, frame)?;
        }
        Ok(())
    }

    fn clear_values(&mut self) {
        self.values.clear();
        self.values.resize(self.plan.table.columns.len(), Value::Null);
    }

    /// The same where values read columns of their own row: those said so far, else defaults.
    fn values_over_own_row(&mut self, session: &mut Session, sources: &[Source]) -> SqlResult<()> {
        self.begin_with_defaults(session)?;
        let plan = self.plan;
        for (column, source) in plan.columns.iter().zip(sources) {
            self.over_own_row(session, *column, source)?;
        }
        self.unsaid_over_own_row(session)
    }

    /// Fills `values` with what columns hold until they are said.
    fn begin_with_defaults(&mut self, session: &mut Session) -> SqlResult<()> {
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

    fn unsaid_over_own_row(&mut self, session: &mut Session) -> SqlResult<()> {
        let plan = self.plan;
        for (column, source) in &plan.unsaid {
            self.over_own_row(session, *column, source)?;
        }
        Ok(())
    }

    /// Works out one value from those that are there.
    fn over_own_row(&mut self, session: &mut Session, column: usize, source: &Source) -> SqlResult<()> {
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
    pub fn value(
        &self,
        session: &mut Session,
        column: usize,
        source: &Source,
        frame: Frame<'_>,
    ) -> SqlResult<Value> {
        let Source::Expr(expr) = source else {
            return value_of(session, &self.plan.table, column, source, frame, self.strictness);
        };
        let value = expr.eval(&mut EvalContext::new(session, frame))?.into_value();
        self.store(session, column, &expr.ty, value)
    }

    /// A value as a column keeps it. Where the column counts, any NULL asks for the next number.
    fn store(&self, session: &mut Session, column: usize, ty: &SqlType, value: Value) -> SqlResult<Value> {
        let table = &self.plan.table;
        if table.columns[column].auto_increment && value.is_null() {
            return Ok(value);
        }
        into_column(session, table, column, ty, value, self.strictness)
    }

    /// Takes a row of a query.
    fn insert_selected(&mut self, session: &mut Session, row: Vec<Value>) -> SqlResult<()> {
        let plan = self.plan;
        let Rows::Query { plan: query, .. } = &plan.rows else { return Ok(()) };
        session.current_row = self.counts.records + 1;
        if plan.reads_own_row {
            self.begin_with_defaults(session)?;
        } else {
            self.fill_unsaid(session)?;
        }
        for ((column, value), (ty, _)) in plan.columns.iter().zip(row).zip(query.types()) {
            self.values[*column] = self.store(session, *column, ty, value)?;
        }
        if plan.reads_own_row {
            self.unsaid_over_own_row(session)?;
        }
        self.write(session, 0)
    }

    /// Writes the row in `values`; the statement gives `expected` rows, 0 where that is not known.
    pub fn write(&mut self, session: &mut Session, expected: u64) -> SqlResult<()> {
        fiber::tick();
        session.check_interrupt()?;
        if !self.passes_checks(session)? {
            return Ok(());
        }
        self.counts.records += 1;
        self.make_auto_value(session, expected)?;
        let table = self.plan.table.clone();
        self.row.clear();
        row::encode_values(&table.layout, &self.values, &mut self.row);
        let goes_on = self.plan.ignore || self.plan.replace || self.plan.on_duplicate.is_some();
        if !goes_on {
            let txn = transaction(session);
            let (row, ties) = (&self.row, self.ties.as_ref());
            return match rows::insert(&table, txn, row, OnDuplicate::LockShared, &mut self.buffers, ties)? {
                Written::Done => self.stored(session, &table),
                Written::Duplicate(position) => Err(rows::duplicate_error(&table, position, &self.row)),
            };
        }
        self.write_or_displace(session, &table)
    }

    /// Whether the row in `values` may be written; with IGNORE one that may not is passed over.
    fn passes_checks(&mut self, session: &mut Session) -> SqlResult<bool> {
        if self.plan.checks.is_empty(session) {
            return Ok(true);
        }
        let slot = RowSlot::Values(std::mem::take(&mut self.values));
        let tested = self.plan.checks.test(session, &self.plan.table, &slot);
        if let RowSlot::Values(values) = slot {
            self.values = values;
        }
        match tested {
            Ok(()) => Ok(true),
            // As in MariaDB, IGNORE does not help a single row that a view refuses.
            Err(error) if error.code == code::VIEW_CHECK_FAILED && self.plan.is_single() => Err(error),
            Err(error) if self.plan.ignore && is_ignorable(&error) => {
                session.warn(error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn write_or_displace(&mut self, session: &mut Session, table: &Arc<TableDef>) -> SqlResult<()> {
        let displaces = self.plan.replace || self.plan.on_duplicate.is_some();
        let lock = if displaces { OnDuplicate::LockExclusive } else { OnDuplicate::LockShared };
        loop {
            session.check_interrupt()?;
            let txn = transaction(session);
            let savepoint = txn.savepoint();
            let ties = self.ties.as_ref();
            let position = match rows::insert(table, txn, &self.row, lock, &mut self.buffers, ties) {
                Ok(Written::Done) => return self.stored(session, table),
                Ok(Written::Duplicate(position)) => position,
                Err(error) if self.plan.ignore && is_of_foreign_key(&error) => {
                    txn.rollback_to(savepoint).map_err(engine_error)?;
                    self.give_back_auto_value();
                    session.warn(error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            txn.rollback_to(savepoint).map_err(engine_error)?;
            if !displaces {
                self.give_back_auto_value();
                session.warn(rows::duplicate_error(table, position, &self.row));
                return Ok(());
            }
            let primary = self.buffers.existing.clone();
            if !rows::lock_row(table, txn, &primary, &mut self.old)? {
                continue;
            }
            if self.plan.on_duplicate.is_some() {
                self.give_back_auto_value();
                return self.update_existing(session, table, &primary);
            }
            if self.old == self.row && is_last_unique(table, position) {
                self.counts.copied += 1;
                return self.give_back(session);
            }
            let old = std::mem::take(&mut self.old);
            rows::delete(table, txn, &primary, &old, &mut self.buffers, self.ties.as_ref())?;
            self.old = old;
            self.counts.displaced += 1;
        }
    }

    /// ON DUPLICATE KEY UPDATE of the row in `old`.
    fn update_existing(
        &mut self,
        session: &mut Session,
        table: &Arc<TableDef>,
        primary: &[u8],
    ) -> SqlResult<()> {
        let Some((assignments, touched)) = &self.plan.on_duplicate else { return Ok(()) };
        let layout = table.layout.clone();
        let slots = [
            RowSlot::Stored { layout, map: None, bytes: self.old.clone() },
            RowSlot::Values(std::mem::take(&mut self.values)),
        ];
        let frame = Frame { slots: &slots, params: self.params, once: &self.once, outer: None };
        let view = RowRef::new(&table.layout, &self.old);
        let mut new = Vec::new();
        // The made value was not stored: LAST_INSERT_ID() inside the assignments speaks of the existing row.
        assignments.changed(session, table, frame, &view, self.strictness, &mut new)?;
        if new.is_empty() {
            self.counts.found_same += 1;
            std::mem::swap(&mut self.row, &mut self.old);
            return self.give_back(session);
        }
        write_row(table, &view, &new, &mut self.row);
        match self.plan.checks.test_bytes(session, table, &mut self.row) {
            Err(error) if self.plan.ignore && is_ignorable(&error) => {
                session.warn(error);
                return Ok(());
            }
            tested => tested?,
        }
        let txn = transaction(session);
        let savepoint = txn.savepoint();
        let (old, row, ties) = (&self.old, &self.row, self.ties.as_ref());
        match rows::update(table, touched, txn, primary, old, row, &mut self.buffers, ties)? {
            Written::Done => {
                self.counts.copied += 1;
                self.counts.displaced += 1;
                if let Some(auto) = table.auto_increment {
                    let value = RowRef::new(&table.layout, &self.row).get(auto.column);
                    self.auto.explicit = rows::raise_auto_increment(table, value)?;
                }
                self.give_back(session)
            }
            Written::Duplicate(position) => {
                let error = rows::duplicate_error(table, position, &self.row);
                if self.plan.ignore && error.code == code::DUP_ENTRY {
                    txn.rollback_to(savepoint).map_err(engine_error)?;
                    session.warn(error);
                    return Ok(());
                }
                Err(error)
            }
        }
    }

    /// The row is in: counts it and keeps the AUTO_INCREMENT counter above its value.
    fn stored(&mut self, session: &mut Session, table: &Arc<TableDef>) -> SqlResult<()> {
        self.counts.copied += 1;
        self.count_on(session, table)?;
        self.give_back(session)
    }

    fn count_on(&mut self, session: &mut Session, table: &Arc<TableDef>) -> SqlResult<()> {
        let Some(auto) = table.auto_increment else { return Ok(()) };
        if let Some(made) = self.auto.made.take() {
            self.auto.first.get_or_insert(made);
            return Ok(());
        }
        self.auto.before_raise(session, table, self.plan.is_bulk())?;
        rows::raise_auto_increment(table, self.values[auto.column].as_ref())?;
        Ok(())
    }

    /// RETURNING of the row in `row`.
    fn give_back(&mut self, session: &mut Session) -> SqlResult<()> {
        let Some(returning) = &mut self.returning else { return Ok(()) };
        let layout = self.plan.table.layout.clone();
        let slots = [RowSlot::Stored { layout, map: None, bytes: std::mem::take(&mut self.row) }];
        let given = returning.row(session, &slots);
        if let [RowSlot::Stored { bytes, .. }] = slots {
            self.row = bytes;
        }
        given
    }

    /// The row that a value was made for is not stored: the next one takes it.
    fn give_back_auto_value(&mut self) {
        if let Some(made) = self.auto.made.take() {
            self.auto.reserved = (made, self.auto.reserved.1 + 1);
        }
    }

    /// Puts the next AUTO_INCREMENT value where NULL or, usually, 0 was given.
    fn make_auto_value(&mut self, session: &mut Session, expected: u64) -> SqlResult<()> {
        self.auto.made = None;
        let table = &self.plan.table;
        let Some(auto) = table.auto_increment else { return Ok(()) };
        let step = Step {
            increment: session.vars.auto_increment_increment,
            offset: session.vars.auto_increment_offset,
        };
        let asked = match self.values[auto.column].as_ref() {
            ValueRef::Null => true,
            ValueRef::Int(0) | ValueRef::UInt(0) => {
                !session.vars.sql_mode.has(SqlMode::NO_AUTO_VALUE_ON_ZERO)
            }
            ValueRef::Float(v) => v == 0.0 && !session.vars.sql_mode.has(SqlMode::NO_AUTO_VALUE_ON_ZERO),
            ValueRef::Double(v) => v == 0.0 && !session.vars.sql_mode.has(SqlMode::NO_AUTO_VALUE_ON_ZERO),
            _ => false,
        };
        if !asked {
            self.auto.explicit = given_number(self.values[auto.column].as_ref());
            if let Some(given) = self.auto.explicit.filter(|given| *given <= i64::MAX as u64) {
                self.auto.go_on_behind(given, step);
            }
            return Ok(());
        }
        let ty = &table.columns[auto.column].ty;
        let engine = table.engine.as_ref().expect("only real tables are written");
        let tree = table.indexes[auto.index].entries();
        let counter = &table.shared.auto_increment;
        if let Some(id) = session.vars.insert_id.take() {
            self.auto.reserved = (id, 1);
            self.auto.forced = true;
            counter.raise(engine, tree, id)?;
        }
        if self.auto.reserved.1 == 0 {
            let count = self.auto.next_interval(expected);
            let bulk = self.plan.is_bulk();
            let first = self.auto.reserve(session, table, bulk, count, step, auto_max(ty))?;
            let first = first.ok_or_else(|| exhausted(session, &table.columns[auto.column].name))?;
            self.auto.reserved = (first, count);
        }
        let (next, count) = self.auto.reserved;
        self.auto.reserved = (step.after(next).unwrap_or(u64::MAX), count - 1);
        self.auto.made = Some(next);
        if next > auto_max(ty) {
            return Err(exhausted(session, &table.columns[auto.column].name));
        }
        self.values[auto.column] = match ty.kind {
            keel_value::TypeKind::Double => Value::Double(next as f64),
            keel_value::TypeKind::Float => Value::Float(next as f32),
            _ if ty.unsigned => Value::UInt(next),
            _ => Value::Int(next as i64),
        };
        Ok(())
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

fn transaction(session: &mut Session) -> &mut keel_storage::Txn {
    session.txn.as_mut().expect("a plan runs within a transaction of the engine")
}

/// What a row says for the column that counts, as answers show it.
fn given_number(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::Int(v) => Some(v as u64),
        ValueRef::UInt(v) => Some(v),
        ValueRef::Double(v) => Some(v as i64 as u64),
        ValueRef::Float(v) => Some(v as i64 as u64),
        _ => None,
    }
}

#[cold]
fn exhausted(session: &Session, column: &str) -> keel_base::SqlError {
    errors::autoinc_out_of_range(column, session.current_row)
}

/// The greatest AUTO_INCREMENT value of a column type.
fn auto_max(ty: &SqlType) -> u64 {
    match ty.kind {
        keel_value::TypeKind::Double => 1 << 53,
        keel_value::TypeKind::Float => 1 << 24,
        _ => ty.integer_range().1.min(u64::MAX - 1),
    }
}

fn is_last_unique(table: &TableDef, position: usize) -> bool {
    table.indexes.iter().rposition(|i| i.is_unique()) == Some(position)
}

/// A column's name as it was written.
pub(super) fn qualified(name: &ast::ColumnName) -> String {
    let parts = [name.db.as_deref(), name.table.as_deref(), Some(name.column.as_str())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(".")
}

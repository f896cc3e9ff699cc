//! Binding an INSERT, a REPLACE, or what LOAD DATA fills: which columns get values, and what the others get.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::column_type::implicit_default;
use keel_catalog::{TableDef, View};
use keel_exec::select::SelectPlan;
use keel_expr::{typing, walk};
use keel_planner::bind::{BindContext, Binder, Clause, NamedTable, Notes};
use keel_sql::ast::{self, InsertSource};
use keel_storage::OnDuplicate;
use keel_value::Value;

use super::super::assign::{Assignments, Source, default_source, lacks_default};
use super::super::check::Checks;
use super::super::foreign::{Doing, Family};
use super::super::generated::Generated;
use super::super::load::FileRows;
use super::super::rows::Touched;
use super::super::through::{self, Filled};
use super::super::{Find, returning};
use super::sources::{Widened, reads_sources};
use super::{InsertPlan, Rows};

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

/// Plans the query that rows come from; whether it reads the table that they go to.
fn plan_source(
    cx: BindContext<'_>,
    replace: bool,
    table: &Arc<TableDef>,
    query: &ast::Query,
    notes: &mut Notes,
) -> SqlResult<(SelectPlan, bool)> {
    let mut inner = Binder::new(cx);
    inner.rows_change = replace && !cx.catalog.references_to(&table.schema, &table.name).is_empty();
    let mut plan = keel_planner::select::plan_select(&mut inner, query)?;
    notes.take(&inner);
    let reads_target = inner.reads_table(table);
    plan.keep_digits(reads_target);
    Ok((plan, reads_target))
}

/// Binds ON DUPLICATE KEY UPDATE.
fn bind_updates(
    binder: &mut Binder<'_>,
    table: &Arc<TableDef>,
    through: Option<&Arc<View>>,
    insert: &ast::Insert,
) -> SqlResult<(Assignments, Touched)> {
    binder.values_slot = Some(1);
    let of_values = match insert.source {
        InsertSource::Query(_) => Clause::Update,
        InsertSource::Values(_) | InsertSource::Literals(_) => Clause::Fields,
    };
    let clauses = (Clause::Update, of_values);
    let mut assignments = Assignments::bind(binder, table, 0, &insert.on_duplicate, clauses)?;
    if let (false, Some(view)) = (matches!(insert.source, InsertSource::Query(_)), through)
        && assignments.reads(&through::reads_other_table)
    {
        return Err(errors::view_multiupdate(&view.schema, &view.name));
    }
    assignments.read_worked_out(0);
    let touched = Touched::of(table, |c| assignments.changes(c));
    let touched = Touched { on_duplicate: OnDuplicate::LockExclusive, ..touched };
    Ok((assignments, touched))
}

/// Binds an INSERT or REPLACE.
pub fn plan(
    cx: BindContext<'_>,
    insert: &ast::Insert,
    find: Find<'_>,
    notes: &mut Notes,
) -> SqlResult<InsertPlan> {
    let mut binder = Binder::new(cx);
    binder.rows_change = true;
    let Filled { mut changed, columns } = filled(&mut binder, insert, find)?;
    let table = changed.table.clone();
    if !insert.partitions.is_empty() {
        return Err(errors::partition_clause_on_nonpartitioned());
    }
    if insert.priority == Some(ast::Priority::Delayed) {
        return Err(errors::delayed_not_supported(&table.name));
    }
    let hides_auto = changed.through.is_some() && !shows_auto(&binder, &table);
    let (unsaid, mut reads_own_row) = unsaid_sources(&mut binder, &table, &columns)?;
    let mut rows = match &insert.source {
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
            let (plan, reads_target) = plan_source(cx, insert.replace, &table, query, notes)?;
            if plan.types().len() != columns.len() {
                return Err(errors::wrong_value_count_on_row(1));
            }
            Rows::Query { plan: Box::new(plan), reads_target }
        }
    };
    let mut sources = Vec::new();
    let on_duplicate = match (insert.on_duplicate.is_empty(), &insert.source) {
        (true, _) => None,
        (false, InsertSource::Query(query)) => {
            let widened = Widened::of(&mut binder, query)?;
            let targets = binder.scope().tables.len();
            if let Some(widened) = &widened {
                binder.target_tables = Some(targets);
                widened.enter(&mut binder)?;
            }
            let bound = bind_updates(&mut binder, &table, changed.through.as_ref(), insert)?;
            if let Some(widened) = widened.filter(|_| bound.0.reads(&reads_sources)) {
                let wide = widened.query.as_ref();
                let wide =
                    wide.map(|query| plan_source(cx, insert.replace, &table, query, notes)).transpose()?;
                match wide.filter(|(plan, _)| !plan.is_grouped()) {
                    Some((plan, reads_target)) => {
                        sources = widened.widths();
                        rows = Rows::Query { plan: Box::new(plan), reads_target };
                    }
                    // The names of its tables are unknown then.
                    None => {
                        binder.scope_mut().tables.truncate(targets);
                        bind_updates(&mut binder, &table, changed.through.as_ref(), insert)?;
                    }
                }
            }
            Some(bound)
        }
        (false, _) => Some(bind_updates(&mut binder, &table, changed.through.as_ref(), insert)?),
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
    let Guards { family, checks, generated } = Guards::bind(cx, &table, doing)?;
    let checks = checks.through(changed.through.as_ref(), std::mem::take(&mut changed.checks), once);
    // A row that VALUES gives is not in yet when MariaDB looks at the table that a subquery of RETURNING reads.
    let by_values = !matches!(insert.source, InsertSource::Query(_));
    let returning = returning::bind(cx, &insert.returning, &changed, None, by_values, notes)?;
    Ok(InsertPlan {
        through: changed.through,
        hides_auto,
        table,
        checks,
        generated,
        replace,
        ignore,
        columns,
        unsaid,
        lacking,
        rows,
        on_duplicate,
        sources,
        once,
        reads_own_row,
        family,
        returning,
    })
}

/// What a row has to meet, and to bring with it.
struct Guards {
    family: Option<Arc<Family>>,
    checks: Checks,
    generated: Generated,
}

impl Guards {
    fn bind(cx: BindContext<'_>, table: &Arc<TableDef>, doing: Doing<'_>) -> SqlResult<Guards> {
        Ok(Guards {
            family: Family::of(cx.catalog, cx.session, table, doing)?,
            checks: Checks::bind(cx.catalog, cx.session, table)?,
            generated: Generated::bind(cx.catalog, cx.session, table)?,
        })
    }
}

/// Makes the plan of a LOAD DATA; `binder` has bound what it names.
pub(crate) fn plan_file(
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
    let Guards { family, checks, generated } = Guards::bind(cx, &table, doing)?;
    let checks = checks.through(changed.through.as_ref(), changed.checks, once);
    Ok(InsertPlan {
        through: changed.through,
        hides_auto,
        table,
        checks,
        generated,
        replace,
        ignore,
        columns: file.given(),
        unsaid,
        lacking,
        rows: Rows::File(Box::new(file)),
        on_duplicate: None,
        sources: Vec::new(),
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
    let shown = keel_planner::select::view::plain_columns(binder);
    shown.into_iter().flatten().any(|(_, column)| column as usize == auto.column)
}

/// What an INSERT fills, in the binder's scope.
fn filled(binder: &mut Binder<'_>, insert: &ast::Insert, find: Find<'_>) -> SqlResult<Filled> {
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
            let count = insert.columns.len();
            let differs = |row: &[ast::Expr]| row.len() != count && !row.is_empty();
            return Err(match &insert.source {
                InsertSource::Values(rows) if rows.first().is_some_and(|row| differs(row)) => {
                    errors::wrong_value_count_on_row(1)
                }
                _ => errors::field_specified_twice(&name.column),
            });
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
    if list.iter().any(|tree| matches!(tree, ast::Expr::Row(_))) {
        return Err(errors::operand_columns(1));
    }
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

/// A column's name as it was written.
pub(crate) fn qualified(name: &ast::ColumnName) -> String {
    let parts = [name.db.as_deref(), name.table.as_deref(), Some(name.column.as_str())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(".")
}

//! Changes of rows through a view: the view's columns are found to be columns of its tables, and what is changed are
//! those tables.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::{TableDef, View, names};
use keel_expr::{ColumnRef, Expr, Node, walk};
use keel_planner::bind::{BindContext, Binder, NO_SLOT, NamedTable, OUTSIDE, Scope, ScopeTable, ViewPart};
use keel_planner::select::view::{Target, plain_columns, target};
use keel_sql::ast::{self, IndexHint, ObjectName, TableRef};

/// The one table that a statement changes, by itself or through a view.
pub(super) struct Changed {
    pub table: Arc<TableDef>,
    pub through: Option<Arc<View>>,
    /// Which of the view's tables it is.
    pub slot: u16,
    /// What the view asks of its rows.
    pub conditions: Vec<Expr>,
    /// What it asks of new rows.
    pub checks: Vec<Expr>,
    /// Index hints within the view.
    pub hints: Vec<IndexHint>,
}

/// The view that a statement names.
pub(super) fn view_of(cx: BindContext<'_>, name: &ObjectName) -> Option<Arc<View>> {
    Binder::new(cx).find_view(name.db.as_deref(), &name.name)
}

/// Whether a table that a statement changes is a view of several tables.
pub fn is_join(cx: BindContext<'_>, name: &ObjectName) -> SqlResult<bool> {
    let Some(view) = view_of(cx, name) else { return Ok(false) };
    Ok(target(&mut Binder::new(cx), &view, None)?.is_some_and(|target| target.tables.len() > 1))
}

/// Puts the table of an UPDATE or DELETE into the binder's empty scope.
pub(super) fn bind(
    binder: &mut Binder<'_>,
    name: &ObjectName,
    alias: Option<&str>,
    find: super::Find<'_>,
    verb: &str,
) -> SqlResult<Changed> {
    let Some(view) = binder.find_view(name.db.as_deref(), &name.name) else {
        let table = find(name)?;
        refuse_server_rows(&table, verb)?;
        if table.is_virtual() && verb == "INSERT" {
            return Err(errors::non_insertable_table(&table.name, verb));
        }
        if table.is_virtual() {
            return Err(errors::non_updatable_table(&table.name, verb));
        }
        let entry = binder.scope_table(0, table.clone(), alias)?;
        binder.scope_mut().add_table(entry)?;
        return Ok(Changed {
            table,
            through: None,
            slot: 0,
            conditions: Vec::new(),
            checks: Vec::new(),
            hints: Vec::new(),
        });
    };
    let shown = alias.unwrap_or(&view.name).to_string();
    let refused = || errors::non_updatable_table(&shown, verb);
    let Target { tables, conditions, checks, hints } = target(binder, &view, alias)?.ok_or_else(refused)?;
    match &tables[..] {
        [Some(table)] => {
            refuse_server_rows(table, verb)?;
            forget(binder, table);
            Ok(Changed { table: table.clone(), through: Some(view), slot: 0, conditions, checks, hints })
        }
        [None] => Err(refused()),
        _ => Err(errors::view_delete_merge_view(&view.schema, &view.name)),
    }
}

/// 1031: a sequence's row is put in place by INSERT, and neither updated nor deleted; numbers that no table holds stay.
/// 1556: what the server wrote into its logs stays as well.
pub(super) fn refuse_server_rows(table: &TableDef, verb: &str) -> SqlResult<()> {
    if table.is_sequence() && verb != "INSERT" || table.series.is_some() {
        return Err(errors::illegal_ha("SEQUENCE", &table.schema, &table.name));
    }
    if table.is_log() { Err(errors::cant_lock_log_table()) } else { Ok(()) }
}

/// The view's table is what changes, not something that is read beside it.
fn forget(binder: &mut Binder<'_>, table: &Arc<TableDef>) {
    let is_target = |n: &NamedTable| n.in_view && !n.in_subquery && Arc::ptr_eq(&n.table, table);
    binder.named.retain(|named| !is_target(named));
    let rest: Vec<Arc<TableDef>> = binder.named.iter().map(|named| named.table.clone()).collect();
    binder.tables.retain(|known| rest.iter().any(|table| Arc::ptr_eq(table, known)));
}

/// The table that an INSERT through a view fills, and for each given value its column there.
pub(super) struct Filled {
    pub changed: Changed,
    pub columns: Vec<usize>,
}

/// Puts the table of an INSERT through a view into the binder's empty scope.
pub(super) fn bind_insert(
    binder: &mut Binder<'_>,
    view: &Arc<View>,
    insert: &ast::Insert,
) -> SqlResult<Filled> {
    let refused = || errors::non_insertable_table(&view.name, "INSERT");
    let Target { tables, conditions, checks, .. } = target(binder, view, None)?.ok_or_else(refused)?;
    let plain = plain_columns(binder);
    let wanted = wanted_columns(view, insert)?;
    if tables.len() > 1 && insert.columns.is_empty() {
        return Err(errors::view_no_insert_field_list(&view.schema, &view.name));
    }
    read_others(binder, &wanted);
    // Others of the view's columns may be anything.
    let wanted: Option<Vec<(u16, u16)>> =
        wanted.iter().map(|place| plain.get(*place).copied().flatten()).collect();
    let wanted = wanted.ok_or_else(refused)?;
    let slot = wanted.first().map_or(0, |(slot, _)| *slot);
    if wanted.iter().any(|column| column.0 != slot) {
        return Err(errors::view_multiupdate(&view.schema, &view.name));
    }
    let columns: Vec<usize> = wanted.iter().map(|(_, column)| *column as usize).collect();
    for (place, column) in columns.iter().enumerate() {
        if columns[..place].contains(column) {
            return Err(refused());
        }
    }
    let table = tables.get(slot as usize).cloned().flatten().ok_or_else(refused)?;
    if tables.len() > 1 {
        if !checks.is_empty() {
            return Err(errors::not_supported_yet("INSERT into a join view WITH CHECK OPTION"));
        }
        only_table(binder, slot, &table);
    }
    forget(binder, &table);
    let changed = Changed { table, through: Some(view.clone()), slot, conditions, checks, hints: Vec::new() };
    Ok(Filled { changed, columns })
}

/// Notes that an INSERT that gives some columns of a view reads the others.
fn read_others(binder: &mut Binder<'_>, given: &[usize]) {
    let whole = binder.scope().tables.iter().find_map(|table| match &table.view {
        ViewPart::Whole(meanings) => Some(meanings),
        _ => None,
    });
    let others = whole.into_iter().flat_map(|meanings| meanings.iter().enumerate());
    let others: Vec<Expr> =
        others.filter(|(place, _)| !given.contains(place)).map(|(_, meaning)| meaning.clone()).collect();
    others.iter().for_each(|meaning| binder.note_below(meaning));
}

/// Puts a changed table into the binder's empty scope as RETURNING names it: by itself or through the view of the statement.
pub(super) fn bind_returned(
    binder: &mut Binder<'_>,
    changed: &Changed,
    alias: Option<&str>,
) -> SqlResult<()> {
    let Some(view) = &changed.through else {
        let entry = binder.scope_table(0, changed.table.clone(), alias)?;
        return binder.scope_mut().add_table(entry);
    };
    let Target { tables, .. } =
        target(binder, view, alias)?.ok_or_else(|| errors::non_updatable_table(&view.name, "RETURNING"))?;
    if tables.len() > 1 {
        only_table(binder, changed.slot, &changed.table);
    }
    forget(binder, &changed.table);
    Ok(())
}

/// Puts the table of a LOAD DATA into a view into the binder's empty scope; other columns of the view than those that it
/// fills may be anything.
pub(super) fn bind_load(
    binder: &mut Binder<'_>,
    view: &Arc<View>,
    names: &[&ast::ColumnName],
    all: bool,
) -> SqlResult<Filled> {
    let refused = || errors::non_updatable_table(&view.name, "LOAD");
    let Target { tables, conditions, checks, .. } = target(binder, view, None)?.ok_or_else(refused)?;
    let [Some(table)] = &tables[..] else {
        return Err(match tables.len() {
            1 => refused(),
            _ => errors::wrong_usage("Multi-table VIEW", "LOAD"),
        });
    };
    let plain = plain_columns(binder);
    let wanted = match all {
        true => (0..view.columns.len()).collect(),
        false => names.iter().map(|name| view_column(view, name, "SELECT")).collect::<SqlResult<Vec<_>>>()?,
    };
    let column = |place: usize| {
        let column = plain.get(place).copied().flatten();
        column
            .map(|(_, column)| column as usize)
            .ok_or_else(|| errors::nonupdateable_column(&view.columns[place]))
    };
    let columns: SqlResult<Vec<usize>> = wanted.into_iter().map(column).collect();
    let (columns, table) = (columns?, table.clone());
    forget(binder, &table);
    let changed =
        Changed { table, through: Some(view.clone()), slot: 0, conditions, checks, hints: Vec::new() };
    Ok(Filled { changed, columns })
}

/// The place of a view's column; 1054 with the clause that names it.
fn view_column(view: &View, name: &ast::ColumnName, clause: &str) -> SqlResult<usize> {
    let foreign = name.table.as_deref().is_some_and(|table| *table != *view.name);
    let found = view.columns.iter().position(|column| names::same(column, &name.column));
    let parts = [name.db.as_deref(), name.table.as_deref(), Some(name.column.as_str())];
    let whole = || parts.into_iter().flatten().collect::<Vec<_>>().join(".");
    found.filter(|_| !foreign).ok_or_else(|| errors::bad_field(whole(), clause))
}

/// The places of the view's columns that values are given for.
fn wanted_columns(view: &View, insert: &ast::Insert) -> SqlResult<Vec<usize>> {
    if insert.columns.is_empty() {
        return Ok((0..view.columns.len()).collect());
    }
    insert.columns.iter().map(|name| view_column(view, name, "INSERT INTO")).collect()
}

/// Leaves of a join view's scope the table at `slot`, which gets the first slot. Columns of the others are NULL, and known by
/// the slot [`OUTSIDE`].
fn only_table(binder: &mut Binder<'_>, slot: u16, table: &Arc<TableDef>) {
    let mut tables = std::mem::take(&mut binder.scope_mut().tables);
    let hidden = ScopeTable { view: ViewPart::Hidden, ..ScopeTable::of(0, table.clone(), Some("\0")) };
    for entry in &mut tables {
        let ViewPart::Whole(meanings) = &entry.view else { continue };
        let moved = meanings.iter().map(|meaning| {
            let mut new = meaning.clone();
            walk::visit_mut(&mut new, &mut |e| match &mut e.node {
                Node::Column(column) | Node::Generated(_, column) if column.slot == slot => column.slot = 0,
                Node::Column(column) | Node::Generated(_, column) => {
                    let column = ColumnRef { slot: OUTSIDE, ..column.clone() };
                    e.node = Node::Generated(Box::new(Expr::null()), column);
                    e.nullable = true;
                }
                _ => {}
            });
            new
        });
        entry.view = ViewPart::Whole(moved.collect());
    }
    tables.retain(|entry| matches!(entry.view, ViewPart::Whole(_)));
    tables.insert(0, hidden);
    binder.scope_mut().tables = tables;
}

/// Whether an expression itself, not a subquery within it, reads another table of a join view than the one that is filled.
pub(super) fn reads_other_table(expr: &Expr) -> bool {
    let mut reads = false;
    walk::visit(expr, &mut |e| {
        reads |= matches!(&e.node, Node::Generated(_, column) if column.slot == OUTSIDE);
    });
    reads
}

/// A table in FROM of a statement over several tables: the name it has there, and its definition.
pub(super) struct Named {
    pub alias: String,
    pub table: Arc<TableDef>,
}

/// Which of the [`Named`], and the column there.
type Meaning = Option<(usize, usize)>;

/// A view in FROM, or a derived table, which has no schema.
pub struct NamedView {
    pub alias: String,
    pub schema: Arc<str>,
    pub name: Arc<str>,
    /// For each column its name, and what it is where it is one of a table.
    pub columns: Vec<(Arc<str>, Meaning)>,
    /// Whether it was merged, so that rows can change through it.
    pub merged: bool,
    /// How many tables it has.
    pub tables: usize,
    /// It asks something of new rows.
    pub checks: bool,
}

/// What FROM names, views as what they are made of.
pub(super) fn named_tables(
    cx: BindContext<'_>,
    with: Option<&ast::With>,
    from: &[TableRef],
    find: super::Find<'_>,
) -> SqlResult<(Vec<Named>, Vec<NamedView>)> {
    let mut tables = Vec::new();
    let mut stack: Vec<&TableRef> = from.iter().rev().collect();
    while let Some(reference) = stack.pop() {
        match reference {
            TableRef::Table { name, .. } if view_of(cx, name).is_some() => {
                return with_views(cx, with, from);
            }
            TableRef::Table { name, alias, .. } => {
                let table = find(name)?;
                let alias = alias.clone().unwrap_or_else(|| name.name.clone());
                let is_same = |other: &Named| other.alias == alias && other.table.schema == table.schema;
                if tables.iter().any(is_same) {
                    return Err(errors::nonuniq_table(&alias));
                }
                tables.push(Named { alias, table });
            }
            TableRef::Join { left, right, .. } => {
                stack.push(right);
                stack.push(left);
            }
            TableRef::Derived { .. } => return with_views(cx, with, from),
            TableRef::JsonTable(_) => {}
        }
    }
    Ok((tables, Vec::new()))
}

/// The names of the derived tables in FROM.
fn derived_tables(from: &[TableRef]) -> Vec<&str> {
    let mut found = Vec::new();
    let mut stack: Vec<&TableRef> = from.iter().collect();
    while let Some(reference) = stack.pop() {
        match reference {
            TableRef::Join { left, right, .. } => stack.extend([&**left, &**right]),
            TableRef::Derived { alias, .. } => found.extend(alias.as_deref()),
            TableRef::Table { .. } | TableRef::JsonTable(_) => {}
        }
    }
    found
}

/// The same from the scope that the whole FROM makes.
fn with_views(
    cx: BindContext<'_>,
    with: Option<&ast::With>,
    from: &[TableRef],
) -> SqlResult<(Vec<Named>, Vec<NamedView>)> {
    let mut binder = Binder::new(cx);
    let scope: Scope = keel_planner::select::view::scope_of(&mut binder, with, from)?;
    let checking: Vec<Arc<View>> =
        binder.views.iter().filter(|named| !named.in_view).map(|n| n.view.clone()).collect();
    let asks = |schema: &str, name: &str| {
        let view = checking.iter().find(|view| *view.schema == *schema && *view.name == *name);
        view.is_some_and(|view| view.check_option != keel_catalog::CheckOption::None)
    };
    // A derived table may be merged, and is its table then; it does not change for that.
    let derived = derived_tables(from);
    let mut tables = Vec::new();
    let mut slots = Vec::new();
    for entry in &scope.tables {
        if let Some(def) = entry.def.as_ref().filter(|_| entry.slot != NO_SLOT) {
            slots.push(entry.slot);
            let hidden = if derived.contains(&&*entry.alias) { "\0" } else { "" };
            tables.push(Named { alias: format!("{hidden}{}", entry.alias), table: def.clone() });
        }
    }
    let mut views = Vec::new();
    // A view stands behind its tables.
    let mut inner = 0;
    for entry in &scope.tables {
        if entry.is_hidden() {
            inner += 1;
            continue;
        }
        let own = std::mem::take(&mut inner);
        let place = |e: &Expr| {
            let column = e.as_any_column()?;
            Some((slots.iter().position(|slot| *slot == column.slot)?, column.column as usize))
        };
        let (places, merged): (Vec<_>, bool) = match &entry.view {
            ViewPart::Whole(meanings) if !entry.schema.is_empty() => {
                (meanings.iter().map(place).collect(), true)
            }
            ViewPart::Whole(_) => (vec![None; entry.columns.len()], false),
            ViewPart::None if entry.def.is_none() || derived.contains(&&*entry.alias) => {
                (vec![None; entry.columns.len()], false)
            }
            _ => continue,
        };
        views.push(NamedView {
            alias: entry.alias.to_string(),
            schema: entry.schema.clone(),
            name: entry.name.clone(),
            columns: entry.columns.iter().map(|c| c.name.clone()).zip(places).collect(),
            merged,
            tables: own,
            checks: asks(&entry.schema, &entry.name),
        });
    }
    Ok((tables, views))
}

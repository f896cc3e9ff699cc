//! Views in FROM: merged into the query that names them where their own is no more than a join with conditions, else read
//! as derived tables.
//!
//! A merged view brings its tables into the slots of the query around it, where indexes serve them, and one table without
//! a slot into the scope, whose columns stand for expressions over those slots. The view's own tables stay in the scope too,
//! under names that nobody can write, since changes of rows are made to them.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::{Catalog, CheckOption, TableDef, View, ViewAlgorithm, names};
use keel_context::stack::with_room;
use keel_exec::session::Session;
use keel_expr::{Derivation, Expr, Node, walk};
use keel_sql::ast::{OrderItem, Query, QueryBody, Select, SelectOptions, TableRef};

use crate::bind::{
    BindContext, Binder, Clause, NO_SLOT, NamedTable, NamedView, ParamSource, Scope, ScopeColumn, ScopeTable,
    SubqueryReads, ViewPart,
};
use crate::join::order::{FromTree, Leaf, LeafKind, TABLES_MAX};
use crate::select::build::{self, Item};
use crate::select::from::{self, From, Part, Title, add_derived};

/// Views within views.
const DEPTH_MAX: usize = 60;
/// Views that one statement reaches, each as often as it is bound.
const VIEWS_MAX: u32 = 1000;
/// Stack that binding one more view may take, its own subqueries and joins included.
const STACK_MIN: usize = 96 << 10;
/// Operators and functions of a merged view's column, and levels of them: each use of the column has them all.
const NODES_MAX: usize = 200;
const LEVELS_MAX: usize = 60;

/// Adds a view to FROM.
pub(super) fn add(
    binder: &mut Binder<'_>,
    from: &mut From,
    view: &Arc<View>,
    alias: Option<&str>,
) -> SqlResult<Part> {
    if binder.within_views.iter().any(|outer| outer.id == view.id) {
        return Err(errors::view_recursive(&view.schema, &view.name));
    }
    if binder.within_views.len() >= DEPTH_MAX {
        return Err(errors::not_supported_yet(format!("views nested more than {DEPTH_MAX} deep")));
    }
    binder.views_met += 1;
    if binder.views_met > VIEWS_MAX {
        return Err(errors::not_supported_yet(format!("more than {VIEWS_MAX} views in a statement")));
    }
    with_room(STACK_MIN, || add_new(binder, from, view, alias))
}

/// The same once it is known that it is not too deep.
fn add_new(
    binder: &mut Binder<'_>,
    from: &mut From,
    view: &Arc<View>,
    alias: Option<&str>,
) -> SqlResult<Part> {
    if from.leaves.len() >= TABLES_MAX {
        return Err(errors::too_many_tables(TABLES_MAX));
    }
    if !std::mem::take(&mut binder.changes_view) {
        binder.note_view(view)?;
    }
    let alias = alias.unwrap_or(&view.name);
    binder.views.push(NamedView {
        view: view.clone(),
        alias: alias.into(),
        locks: binder.updates_at == Some((binder.derived_depth, binder.subquery_depth)),
        is_own: binder.within_views.is_empty() && binder.derived_depth == 0 && binder.subquery_depth == 0,
        in_view: !binder.within_views.is_empty(),
    });
    let query = view.query()?;
    if let Some((shape, order)) = mergeable_shape(view, &query).filter(|_| binder.whole_names.is_none()) {
        let merged = merge(binder, from, view, alias, shape, order)?;
        if let Some(merged) = merged {
            from.order.extend(merged.order);
            return Ok((merged.tree, merged.conditions));
        }
    }
    gather(binder, from, view, alias, &query)
}

/// The view as a derived table.
fn gather(
    binder: &mut Binder<'_>,
    from: &mut From,
    view: &Arc<View>,
    alias: &str,
    query: &Query,
) -> SqlResult<Part> {
    let own = within(binder, view, |binder| {
        binder.derived_depth += 1;
        let plan = from::apart(binder, |binder| build::plan_query(binder, query));
        binder.derived_depth -= 1;
        plan
    });
    let title = Title { schema: &view.schema, name: &view.name, alias };
    let tree = add_derived(binder, from, Arc::new(own?), title, &view.columns);
    let tree = tree.map_err(|error| match error.code {
        code::WITH_COL_WRONG_LIST => view.broken(),
        _ => error,
    })?;
    Ok((tree, Vec::new()))
}

/// Runs `bind` where nothing of the statement around is seen: neither its tables of WITH nor its parameters.
fn within<T>(
    binder: &mut Binder<'_>,
    view: &Arc<View>,
    bind: impl FnOnce(&mut Binder<'_>) -> SqlResult<T>,
) -> SqlResult<T> {
    let params = std::mem::take(&mut binder.cx.params);
    let common = std::mem::take(&mut binder.common);
    let later_common = std::mem::take(&mut binder.later_common);
    let pinned = std::mem::take(&mut binder.pinned);
    let values_slot = binder.values_slot.take();
    let whole_names = binder.whole_names.take();
    let pins = (binder.pins_literals, binder.pins_decimals);
    binder.within_views.push(view.clone());
    let result = bind(binder);
    binder.within_views.pop();
    (binder.pins_literals, binder.pins_decimals) = pins;
    binder.cx.params = params;
    binder.common = common;
    binder.later_common = later_common;
    binder.pinned = pinned;
    binder.values_slot = values_slot;
    binder.whole_names = whole_names;
    result.map_err(|error| if is_hidden(&error) { view.broken().caused_by(error) } else { error })
}

/// Whether an error says something about what a view names, which is the view's own matter.
fn is_hidden(error: &SqlError) -> bool {
    matches!(
        error.code,
        code::NO_SUCH_TABLE
            | code::BAD_FIELD
            | code::BAD_DB
            | code::UNKNOWN_TABLE
            | code::SP_DOES_NOT_EXIST
            | code::KEY_DOES_NOT_EXIST
            | code::VIEW_INVALID
    )
}

/// The SELECT and the order of a view whose query has nothing that keeps it apart, as far as its tree tells.
fn mergeable_shape<'q>(view: &View, query: &'q Query) -> Option<(&'q Select, &'q [OrderItem])> {
    let QueryBody::Select(select) = &query.body else { return None };
    let options = SelectOptions { all: false, high_priority: false, cache: None, ..select.options };
    let is_join = view.algorithm != ViewAlgorithm::TempTable
        && query.with.is_none()
        && query.limit.is_none()
        && options == SelectOptions::default()
        && !select.from.is_empty()
        && select.group_by.is_empty()
        && select.having.is_none()
        && select.windows.is_empty();
    is_join.then_some((&**select, &query.order_by[..]))
}

/// Tables that a view takes in FROM: one where it is gathered, those that `count` finds in its query's FROM where it is
/// merged.
pub(super) fn tables(view: &View, count: impl FnOnce(&[TableRef]) -> usize) -> usize {
    let Ok(query) = view.query() else { return 1 };
    mergeable_shape(view, &query).map_or(1, |(select, _)| count(&select.from))
}

/// A view that was merged.
struct Merged {
    tree: FromTree,
    conditions: Vec<Expr>,
    order: Vec<(Expr, bool)>,
}

/// What a view's own SELECT is, bound.
struct Inner {
    tree: Option<FromTree>,
    /// Conditions of views and derived tables below.
    below: Vec<Expr>,
    own: Vec<Expr>,
    items: Vec<Item>,
    order: Vec<(Expr, bool)>,
}

fn merge(
    binder: &mut Binder<'_>,
    from: &mut From,
    view: &Arc<View>,
    alias: &str,
    select: &Select,
    order: &[OrderItem],
) -> SqlResult<Option<Merged>> {
    let before = (from.leaves.len(), binder.named.len(), binder.views.len(), from.order.len());
    let checks = from.checks.len();
    let once = binder.scope().once;
    let own = Scope { once, takes_aggregates: true, ..Scope::default() };
    let scopes = std::mem::replace(&mut binder.scopes, vec![own]);
    let reads: Vec<SubqueryReads> = std::mem::take(&mut binder.reads);
    let flags =
        (std::mem::take(&mut binder.in_aggregate), std::mem::take(&mut binder.in_window), binder.clause);
    let bound = within(binder, view, |binder| bind_inner(binder, from, select, order));
    let own = std::mem::replace(&mut binder.scopes, scopes);
    binder.reads = reads;
    (binder.in_aggregate, binder.in_window, binder.clause) = flags;
    from.checks.truncate(checks);
    let inner = bound?;
    binder.reads_changed_table |=
        reads_own_table(&from.leaves[before.0..], &select.from, &binder.named[before.1..]);
    let Some(scope) = own.into_iter().next() else { return Ok(None) };
    if inner.items.len() != view.columns.len() {
        return Err(view.broken());
    }
    if !fits(&scope, &inner, from.empty_sides > 0) {
        // It is bound again as a whole, and names its tables then.
        from.leaves.truncate(before.0);
        binder.named.truncate(before.1);
        binder.views.truncate(before.2);
        from.order.truncate(before.3);
        return Ok(None);
    }
    from.checks.extend(checks_of(view, &inner));
    binder.scope_mut().once = scope.once;
    for mut table in scope.tables {
        if !matches!(table.view, ViewPart::Whole(_)) {
            hide(&mut table);
            binder.scope_mut().add_table(table)?;
        }
    }
    let shown = shown(view, alias, &inner.items)?;
    binder.scope_mut().add_table(shown)?;
    let Some(tree) = inner.tree else { return Ok(None) };
    let mut conditions = inner.below;
    conditions.extend(inner.own);
    Ok(Some(Merged { tree, conditions, order: inner.order }))
}

/// Whether a view over one table reads that table again in a subquery.
fn reads_own_table(leaves: &[Leaf], written: &[TableRef], named: &[NamedTable]) -> bool {
    let [leaf] = leaves else { return false };
    let ([TableRef::Table { name, .. }], LeafKind::Table(table, _)) = (written, &leaf.kind) else {
        return false;
    };
    // Behind a view in FROM the table has another name, and MariaDB compares names.
    names::same(&name.name, &table.name)
        && named.iter().any(|n| n.in_subquery && Arc::ptr_eq(&n.table, table))
}

fn bind_inner(
    binder: &mut Binder<'_>,
    from: &mut From,
    select: &Select,
    order: &[OrderItem],
) -> SqlResult<Inner> {
    let orders = from.order.len();
    // One of the statement around is its own matter.
    let around = from.error.take();
    let (right_joins, hidden) = (std::mem::take(&mut from.right_joins), std::mem::take(&mut from.hidden));
    let pending = std::mem::take(&mut from.pending);
    let (tree, below) = from::bind_list(binder, from, &select.from)?;
    (from.right_joins, from.hidden, from.pending) = (right_joins, hidden, pending);
    if let Some(error) = std::mem::replace(&mut from.error, around) {
        return Err(error);
    }
    binder.scope_mut().group_slot = Some(from.leaves.len() as u16);
    // A statement that changes the view reads those of its columns that it names.
    let names_only = binder.names_only;
    binder.names_only |= binder.is_changed_part();
    let items = build::bind_items(binder, &select.items, Clause::Fields);
    binder.names_only = names_only;
    let items = items?;
    let own = match &select.filter {
        Some(filter) => binder.bind_condition(filter, Clause::Where)?,
        None => Vec::new(),
    };
    let mut keys = Vec::with_capacity(order.len());
    for item in order {
        let key = match build::ordinal(binder, &item.expr) {
            Some(n) => build::by_ordinal(&items, n, Clause::Order)?,
            None => binder.bind(&item.expr, Clause::Order)?,
        };
        keys.push((key, item.desc));
    }
    if !keys.is_empty() {
        // Its own order takes the place of those below.
        from.order.truncate(orders);
    }
    Ok(Inner { tree, below, own, items, order: keys })
}

/// Whether what was bound can be part of another query block.
fn fits(scope: &Scope, inner: &Inner, side_may_be_empty: bool) -> bool {
    let stays = |expr: &Expr| {
        let facts = walk::facts(expr);
        !facts.volatile && !facts.assigns && !facts.aggregates && !facts.windows
    };
    let simple = |expr: &Expr| {
        // On the side of an outer join that has no row a column is NULL, and so is nothing else.
        let is_column = expr.as_column().is_some();
        stays(expr)
            && !walk::facts(expr).subquery
            && (is_column || !side_may_be_empty)
            && walk::is_within(expr, NODES_MAX, LEVELS_MAX)
    };
    scope.aggregates.is_empty()
        && scope.windows.is_empty()
        && inner.items.iter().all(|item| simple(&item.expr))
        && inner.order.iter().all(|(key, _)| simple(key))
        && inner.own.iter().all(stays)
}

/// What WITH CHECK OPTION asks of new rows; what views below ask counts for those who name them.
fn checks_of(view: &View, inner: &Inner) -> Vec<Expr> {
    match view.check_option {
        CheckOption::None => Vec::new(),
        CheckOption::Local => inner.own.clone(),
        CheckOption::Cascaded => inner.below.iter().chain(&inner.own).cloned().collect(),
    }
}

/// Takes a view's table its names.
fn hide(table: &mut ScopeTable) {
    table.view = ViewPart::Hidden;
    table.alias = hidden_name(table.slot).into();
    table.schema = "".into();
}

/// The name of a view's table at a slot.
pub(crate) fn hidden_name(slot: u16) -> String {
    format!("\0{slot}")
}

/// The view as a table of the scope.
fn shown(view: &View, alias: &str, items: &[Item]) -> SqlResult<ScopeTable> {
    let mut columns: Vec<ScopeColumn> = Vec::with_capacity(items.len());
    for (item, name) in items.iter().zip(&view.columns) {
        if columns.iter().any(|c| names::same(&c.name, name)) {
            return Err(errors::dup_fieldname(name));
        }
        let text = item.expr.ty.is_string() || item.expr.ty.has_members();
        columns.push(ScopeColumn {
            name: name.as_str().into(),
            ty: item.expr.ty.clone(),
            nullable: item.expr.nullable,
            invisible: false,
            derivation: if text { item.expr.derivation } else { Derivation::Implicit },
        });
    }
    let mut title = String::new();
    for part in [&*view.schema, alias] {
        names::push_quoted(&mut title, part);
        title.push('.');
    }
    let meanings = items.iter().zip(&view.columns).map(|(item, name)| {
        let mut meaning = item.expr.clone();
        if let Node::Column(column) | Node::Generated(_, column) = &mut meaning.node {
            let mut whole = title.clone();
            names::push_quoted(&mut whole, name);
            column.name = whole.into();
        }
        meaning
    });
    Ok(ScopeTable {
        slot: NO_SLOT,
        schema: view.schema.clone(),
        name: view.name.clone(),
        alias: alias.into(),
        view: ViewPart::Whole(meanings.collect()),
        columns: columns.into(),
        def: None,
        outer_joined: false,
        worked_out: Vec::new(),
    })
}

/// A view whose rows can be changed, in a scope of its own: its tables and what bounds its rows.
pub struct Target {
    /// Its tables by slot: real ones, and those whose rows are gathered.
    pub tables: Vec<Option<Arc<TableDef>>>,
    /// Conditions of all its rows.
    pub conditions: Vec<Expr>,
    /// Conditions that new rows must meet.
    pub checks: Vec<Expr>,
    /// Index hints of its first table.
    pub hints: Vec<keel_sql::ast::IndexHint>,
}

/// Puts a view that a statement changes into the binder's empty scope. None where it cannot be merged, so that its rows
/// cannot be changed.
pub fn target(binder: &mut Binder<'_>, view: &Arc<View>, alias: Option<&str>) -> SqlResult<Option<Target>> {
    let mut from = From::default();
    binder.changes_view = true;
    binder.reads_changed_table = false;
    binder.in_changed_view = true;
    let added = add(binder, &mut from, view, alias);
    binder.in_changed_view = false;
    let (_, conditions) = added?;
    let is_merged = binder.scope().tables.iter().any(|t| matches!(t.view, ViewPart::Whole(_)));
    if !is_merged || binder.reads_changed_table {
        return Ok(None);
    }
    Ok(Some(target_of(from, conditions)))
}

/// For each column of the merged view in the binder's scope the slot and column of the table that it is.
pub fn plain_columns(binder: &Binder<'_>) -> Vec<Option<(u16, u16)>> {
    let meanings = binder.scope().tables.iter().find_map(|table| match &table.view {
        ViewPart::Whole(meanings) => Some(meanings),
        _ => None,
    });
    let column = |e: &Expr| e.as_any_column().map(|c| (c.slot, c.column));
    meanings.map_or_else(Vec::new, |meanings| meanings.iter().map(column).collect())
}

/// Plans a view's own query, as if it were a statement.
pub fn plan(binder: &mut Binder<'_>, view: &Arc<View>) -> SqlResult<keel_exec::select::SelectPlan> {
    let query = view.query()?;
    binder.within_views.push(view.clone());
    let plan = build::plan_query(binder, &query);
    binder.within_views.pop();
    plan
}

/// What a statement that changes rows of several tables sees of them.
pub fn scope_of(
    binder: &mut Binder<'_>,
    with: Option<&keel_sql::ast::With>,
    tables: &[keel_sql::ast::TableRef],
) -> SqlResult<Scope> {
    if let Some(with) = with {
        build::bind_with(binder, with)?;
    }
    binder.scopes.push(Scope::default());
    let bound = from::bind(binder, tables);
    let scope = binder.pop_scope();
    bound.map(|_| scope)
}

fn target_of(from: From, conditions: Vec<Expr>) -> Target {
    let table = |leaf: &Leaf| match &leaf.kind {
        LeafKind::Table(def, _) if !def.is_virtual() => Some(def.clone()),
        _ => None,
    };
    let hints = match from.leaves.first().map(|leaf| &leaf.kind) {
        Some(LeafKind::Table(_, hints)) => hints.clone(),
        _ => Vec::new(),
    };
    Target { tables: from.leaves.iter().map(table).collect(), conditions, checks: from.checks, hints }
}

/// Views and tables.
type Reached = (Vec<Arc<View>>, Vec<Arc<TableDef>>);

/// A view, the views below it, and the tables of all.
pub fn reach(catalog: &Catalog, session: &Session, view: &Arc<View>) -> SqlResult<Reached> {
    let params = ParamSource::default();
    let mut binder = Binder::new(BindContext { catalog, session, params, assigned: &[], counting: None });
    target(&mut binder, view, None)?;
    let views = binder.views.iter().map(|named| named.view.clone()).collect();
    let tables = binder.tables.iter().filter(|table| !table.is_virtual()).cloned().collect();
    Ok((views, tables))
}

//! Binding and planning of query expressions: WITH, the kinds of bodies, and single SELECTs.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::names;
use keel_context::result::{ColumnMeta, ResultColumns};
use keel_context::stack::with_room;
use keel_exec::access::KeyOrder;
use keel_exec::aggregate::AggregateKind;
use keel_exec::group::GroupPlan;
use keel_exec::join::Source;
use keel_exec::select::block::{Block, SortKey};
use keel_exec::select::carry::{Carry, result_layout, sort_part};
use keel_exec::select::frame::SortPart;
use keel_exec::select::nothing::of_nothing;
use keel_exec::select::{Body, ExplainFacts, SelectPlan, export};
use keel_exec::window;
use keel_expr::{ColumnRef, Expr, Node, walk};
use keel_sql::ast::{
    self, Expr as Tree, IntoTarget, Limit, LiteralValue, LockClause, LockWait, OrderItem, Query, QueryBody,
    Select, SelectInto, SelectItem, UnaryOp,
};
use keel_value::{SqlMode, Value};

use crate::bind::{Binder, Clause, Listed, Scope, ViewPart};
use crate::join::disjunct;
use crate::join::order::{self, JoinRequest, LeafKind};
use crate::select::from::{self, From};
use crate::select::group::{
    KeyPlace, carry_of, check_full_grouping, group_plan, is_order_of, mark_needed, ordering_index,
    place_aggregates, place_key_columns, place_keys, reads_from,
};
use crate::select::metadata::{
    Passage, describe, goes_out_plainly, item_name, kept_for_windows, of_view, shortened,
};
use crate::select::{CommonTable, natural, semi, union, with};
use crate::window::BoundWindow;

/// Stack that planning a query may take, without the queries within it.
const STACK_BYTES: usize = 64 << 10;

/// Plans a query expression in a new scope within the binder's.
pub(super) fn plan_query(binder: &mut Binder<'_>, query: &Query) -> SqlResult<SelectPlan> {
    let known = binder.common.len();
    if let Some(with) = &query.with {
        bind_with(binder, with)?;
    }
    let plan = with_room(STACK_BYTES, || plan_body(binder, query));
    binder.common.truncate(known);
    let mut plan = plan?;
    if let Some(into) = &query.into {
        plan.into = into_variables(into, plan.types.len())?;
        plan.export = export::plan(binder.cx.session, into, &plan.columns)?.map(Box::new);
    }
    Ok(plan)
}

pub(super) fn bind_with(binder: &mut Binder<'_>, with: &ast::With) -> SqlResult<()> {
    for (number, table) in with.tables.iter().enumerate() {
        if with.tables[..number].iter().any(|other| other.name.eq_ignore_ascii_case(&table.name)) {
            return Err(errors::dup_query_name(&table.name));
        }
    }
    if with.recursive {
        return with::bind_with(binder, with);
    }
    for table in &with.tables {
        binder.derived_depth += 1;
        let plan = from::bind_apart(binder, &table.query);
        binder.derived_depth -= 1;
        let plan = plan?;
        if !table.columns.is_empty() && table.columns.len() != plan.types.len() {
            return Err(errors::with_col_wrong_list());
        }
        let own = plan.columns().columns.iter().map(|column| &*column.name);
        let columns: Vec<&str> = match table.columns.is_empty() {
            true => own.collect(),
            false => table.columns.iter().map(String::as_str).collect(),
        };
        let twin =
            |place: &usize| columns[..*place].iter().any(|before| names::same(before, columns[*place]));
        if let Some(place) = (0..columns.len()).find(twin) {
            return Err(errors::dup_fieldname(columns[place]));
        }
        binder.common.push(CommonTable {
            name: table.name.clone(),
            plan: Arc::new(plan),
            columns: table.columns.clone(),
            round_of: None,
        });
    }
    Ok(())
}

fn plan_body(binder: &mut Binder<'_>, query: &Query) -> SqlResult<SelectPlan> {
    let (order, limit, lock) = (&query.order_by[..], query.limit.as_ref(), query.lock.as_ref());
    if let Some(most) = limit.and_then(|limit| limit.rows_examined.as_ref()) {
        binder.rows_examined = Some(binder.bind(most, Clause::Order)?);
    }
    match &query.body {
        QueryBody::Select(select) => plan_select(binder, select, order, limit, lock),
        QueryBody::Nested(inner) if order.is_empty() && limit.is_none() && lock.is_none() => {
            plan_query(binder, inner)
        }
        // What is tied is said by the order within the parentheses.
        QueryBody::Nested(inner) if order.is_empty() && limit.is_some_and(|limit| limit.with_ties) => {
            if inner.limit.is_some() {
                return Err(errors::with_ties_needs_order());
            }
            let lock = lock.or(inner.lock.as_ref()).cloned();
            plan_query(binder, &Query { limit: limit.cloned(), lock, ..Query::clone(inner) })
        }
        body => union::plan(binder, body, order, limit, lock),
    }
}

fn into_variables(into: &SelectInto, columns: usize) -> SqlResult<Vec<Arc<str>>> {
    match into {
        SelectInto::Variables(targets) => {
            if targets.len() != columns {
                return Err(errors::wrong_number_of_columns_in_select());
            }
            targets
                .iter()
                .map(|target| match target {
                    IntoTarget::UserVar(name) => Ok(name.to_lowercase().into()),
                    IntoTarget::Local(name) => Err(errors::sp_undeclared_var(name)),
                })
                .collect()
        }
        SelectInto::Dumpfile(_) | SelectInto::Outfile { .. } => Ok(Vec::new()),
    }
}

/// An item of a select list, bound.
pub(super) struct Item {
    pub expr: Expr,
    pub name: Arc<str>,
    /// The column of a merged view that it is: place of the view in the scope, column.
    pub of_view: Option<(usize, usize)>,
}

/// The parts of a SELECT, bound.
pub(super) struct Bound {
    pub from: From,
    pub items: Vec<Item>,
    pub conditions: Vec<Expr>,
    pub group_by: Vec<Expr>,
    /// For each key of WITH ROLLUP how it is found in the select list.
    pub rolled_items: Vec<RolledItem>,
    pub having: Vec<Expr>,
    pub windows: Vec<BoundWindow>,
    pub order: Vec<(Expr, bool)>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// FETCH ... WITH TIES.
    pub ties: bool,
}

/// Plans one SELECT.
pub(super) fn plan_select(
    binder: &mut Binder<'_>,
    select: &Select,
    order: &[OrderItem],
    limit: Option<&Limit>,
    lock: Option<&LockClause>,
) -> SqlResult<SelectPlan> {
    let waits = lock.and_then(|lock| lock.wait.as_ref());
    if binder.whole_names.is_some() && matches!(waits, Some(LockWait::NoWait | LockWait::Wait(_))) {
        return Err(errors::view_select_clause("[NO]WAIT"));
    }
    let takes_aggregates = binder.changing != Some(std::ptr::from_ref(select) as usize);
    binder.scopes.push(Scope {
        takes_aggregates,
        select: std::ptr::from_ref(select) as usize,
        ..Scope::default()
    });
    let around = (binder.locks_own, binder.updates_at);
    binder.locks_own = lock.is_some() && takes_aggregates;
    let updates = binder.locks_own && lock.is_some_and(|lock| lock.update);
    binder.updates_at = updates.then_some((binder.derived_depth, binder.subquery_depth));
    let bound = bind_parts(binder, select, order, limit, lock.is_none());
    (binder.locks_own, binder.updates_at) = around;
    let scope = binder.pop_scope();
    let plan = assemble(binder, select, bound?, scope, lock)?;
    Ok(plan)
}

/// Binds the parts of a SELECT; its subqueries may become joins, except where what it reads itself is locked.
pub(super) fn bind_parts(
    binder: &mut Binder<'_>,
    select: &Select,
    order: &[OrderItem],
    limit: Option<&Limit>,
    may_join: bool,
) -> SqlResult<Bound> {
    if select.rollup && !order.is_empty() {
        return Err(errors::wrong_usage("CUBE/ROLLUP", "ORDER BY"));
    }
    let ties = limit.is_some_and(|limit| limit.with_ties);
    if ties && order.is_empty() {
        return Err(errors::with_ties_needs_order());
    }
    let mut from = from::bind(binder, &select.from)?;
    let room = if may_join { semi::room(binder, select, &from) } else { 0 };
    let group_slot = from.leaves.len() as u16 + room;
    binder.scope_mut().group_slot = Some(group_slot);
    let pins = std::mem::replace(&mut binder.pins_literals, true);
    let items = bind_items(binder, &select.items, Clause::Fields);
    binder.pins_literals = pins;
    let items = items?;
    if let Some(error) = from.error.take() {
        return Err(error);
    }
    let mut conditions = std::mem::take(&mut from.conditions);
    if let Some(tree) = &select.filter {
        let tables = from.tree.take();
        let (tables, own) = semi::bind_filter(binder, &mut from, tables, tree, group_slot)?;
        from.tree = tables;
        conditions.extend(own);
    }
    binder.pins_literals = true;
    let rest = bind_grouping(binder, select, order, &items).and_then(|rest| {
        let windows = binder.bind_windows(&select.windows, window_slot(group_slot) + 1)?;
        Ok((rest, windows))
    });
    binder.pins_literals = pins;
    let ((group_by, having, mut order), windows) = rest?;
    let rolled_items =
        if select.rollup { rolled_items(binder, select, &items, &group_by) } else { Vec::new() };
    let is_plain = group_by.is_empty() && binder.scope().aggregates.is_empty() && !select.options.distinct;
    if order.is_empty() && is_plain && binder.reads.is_empty() {
        order = std::mem::take(&mut from.order);
    }
    with::check_use(&from, binder, !binder.scope().aggregates.is_empty() || !windows.is_empty())?;
    let (limit, offset) = bind_limit(binder, limit)?;
    Ok(Bound { ties, from, items, conditions, group_by, rolled_items, having, windows, order, limit, offset })
}

/// The slot of window functions' results, behind the groups'; the next one takes their keys.
fn window_slot(group_slot: u16) -> u16 {
    group_slot + 1
}

/// Binds a list of expressions over the binder's tables that is not a query's; describes them.
pub fn bind_list(
    binder: &mut Binder<'_>,
    items: &[SelectItem],
    clause: Clause,
) -> SqlResult<(Arc<ResultColumns>, Vec<Expr>)> {
    let items = bind_items(binder, items, clause)?;
    let tables = &binder.scope().tables;
    let columns = items.iter().map(|item| describe(&item.expr, item.name.clone(), tables)).collect();
    Ok((ResultColumns::new(columns), items.into_iter().map(|item| item.expr).collect()))
}

pub(super) fn bind_items(
    binder: &mut Binder<'_>,
    items: &[SelectItem],
    clause: Clause,
) -> SqlResult<Vec<Item>> {
    let mut out: Vec<Item> = Vec::with_capacity(items.len());
    let alias_of = |item: &SelectItem| match item {
        SelectItem::Expr { alias, .. } => alias.as_deref().map(Arc::from),
        SelectItem::Wildcard { .. } => None,
    };
    binder.scope_mut().later_aliases = items.iter().rev().filter_map(alias_of).collect();
    for item in items {
        let known = out.len();
        match item {
            SelectItem::Wildcard { db, table } => {
                let listed = natural::wildcard(binder, db.as_deref(), table.as_deref())?;
                if let Some(mut notes) = binder.whole_names.take() {
                    let scope = binder.scope();
                    let names = listed.iter().filter_map(|column| column.whole_name(scope)).collect();
                    notes.note_wildcard(item, names);
                    binder.whole_names = Some(notes);
                }
                let innermost = binder.scopes.len() - 1;
                for column in &listed {
                    if let Listed::Of(place, index) = column {
                        binder.note_column(innermost, *place, *index, true);
                    }
                }
                let scope = binder.scope();
                out.extend(listed.into_iter().map(|column| {
                    let of_view = match column {
                        Listed::Of(place, index) => {
                            let is_view = matches!(scope.tables[place].view, ViewPart::Whole(_));
                            is_view.then_some((place, index))
                        }
                        Listed::Merged(_) => None,
                    };
                    Item { expr: column.value(scope), name: column.name(scope).clone(), of_view }
                }));
            }
            SelectItem::Expr { expr, alias, text } => {
                let bound = binder.bind(expr, clause)?;
                let client = binder.cx.session.vars.client_collation;
                let of_view = match expr {
                    Tree::Column(column) => binder.scope().view_column(column),
                    _ => None,
                };
                // A column of what is merged is called as it is there, however it is spelled here.
                let tables = &binder.scope().tables;
                let place = match expr {
                    Tree::Column(_) => of_view.or_else(|| of_merged(tables, &bound)),
                    _ => None,
                };
                let inner = place.map(|(place, index)| tables[place].columns[index].name.to_string());
                let name = alias.clone().or(inner).unwrap_or_else(|| item_name(expr, text));
                let name = shortened(name, client);
                out.push(Item { expr: bound, name: name.into(), of_view });
            }
        }
        let named = out[known..].iter().map(|item| (item.name.clone(), item.expr.clone()));
        let scope = binder.scope_mut();
        scope.aliases.extend(named);
        if matches!(item, SelectItem::Expr { alias: Some(_), .. }) {
            scope.later_aliases.pop();
        }
    }
    Ok(out)
}

/// The place of a column of a derived table that was merged: its table answers to another name.
fn of_merged(tables: &[crate::bind::ScopeTable], bound: &Expr) -> Option<(usize, usize)> {
    let column = bound.as_any_column()?;
    let place = tables.iter().position(|table| table.slot == column.slot)?;
    let table = &tables[place];
    let renamed = table.def.as_ref().is_some_and(|def| def.name != table.name);
    let index = usize::from(column.column);
    (renamed && !table.is_hidden() && index < table.columns.len()).then_some((place, index))
}

type Grouping = (Vec<Expr>, Vec<Expr>, Vec<(Expr, bool)>);

fn bind_grouping(
    binder: &mut Binder<'_>,
    select: &Select,
    order: &[OrderItem],
    items: &[Item],
) -> SqlResult<Grouping> {
    let mut group_by = Vec::with_capacity(select.group_by.len());
    for item in &select.group_by {
        let bound = match ordinal(binder, &item.expr) {
            Some(n) => by_ordinal(items, n, Clause::Group)?,
            None => match binder.grouped_item(&item.expr, Clause::Group)? {
                Some(listed) => listed,
                None => binder.bind(&item.expr, Clause::Group)?,
            },
        };
        if walk::facts(&bound).windows {
            return Err(errors::wrong_placement_of_window_function());
        }
        if walk::facts(&bound).aggregates || reads_groups(binder, &bound) {
            let named = match (ordinal(binder, &item.expr), &item.expr) {
                (Some(n), _) => items.get(n as usize - 1),
                (None, Tree::Column(name)) => {
                    items.iter().find(|item| keel_catalog::names::same(&item.name, &name.column))
                }
                _ => None,
            };
            let listed = named.or_else(|| items.iter().find(|item| walk::same(&item.expr, &bound)));
            let name = listed.map_or_else(|| keel_expr::print::text(&bound), |item| item.name.to_string());
            return Err(errors::wrong_group_field(name));
        }
        group_by.push(bound);
    }
    binder.scope_mut().grouped = group_by.clone();
    let having = match &select.having {
        Some(tree) => binder.bind_condition(tree, Clause::Having)?,
        None => Vec::new(),
    };
    if having.iter().any(|condition| walk::facts(condition).windows) {
        return Err(errors::wrong_placement_of_window_function());
    }
    let mut keys = Vec::with_capacity(order.len());
    for item in order {
        let bound = match ordinal(binder, &item.expr) {
            Some(n) => by_ordinal(items, n, Clause::Order)?,
            None => binder.bind(&item.expr, Clause::Order)?,
        };
        keys.push((bound, item.desc));
    }
    Ok((group_by, having, keys))
}

/// A key of WITH ROLLUP.
pub(super) struct RolledItem {
    /// The select item that it names: by its place or name, else the first that is the same.
    item: Option<usize>,
    /// It is a column of a table or a view, which parts of other select items may be too.
    pub is_column: bool,
}

fn rolled_items(binder: &mut Binder<'_>, select: &Select, items: &[Item], keys: &[Expr]) -> Vec<RolledItem> {
    let mut named = Vec::with_capacity(keys.len());
    for (item, key) in select.group_by.iter().zip(keys) {
        if let Some(place) = ordinal(binder, &item.expr) {
            let item = usize::try_from(place - 1).ok();
            named.push(RolledItem { item, is_column: key.as_any_column().is_some() });
            continue;
        }
        let is_key = |item: &Item| walk::same(&item.expr, key);
        let by_name = match &item.expr {
            Tree::Column(name) if name.table.is_none() => {
                items.iter().position(|item| names::same(&item.name, &name.column) && is_key(item))
            }
            _ => None,
        };
        let of_view = |name| binder.scope().view_column(name).is_some();
        let is_column =
            key.as_any_column().is_some() || matches!(&item.expr, Tree::Column(name) if of_view(name));
        named.push(RolledItem { item: by_name.or_else(|| items.iter().position(is_key)), is_column });
    }
    named
}

/// Whether a subquery within it reads aggregates of this query's groups.
fn reads_groups(binder: &Binder<'_>, expr: &Expr) -> bool {
    let groups = binder.scope().group_slot;
    let mut reads = false;
    walk::for_each_column(expr, &mut |slot, _| reads |= groups == Some(slot));
    reads
}

/// A lone integer in ORDER BY or GROUP BY, or a parameter that has one: a place in the select list, where none stands
/// below 1.
pub fn ordinal(binder: &mut Binder<'_>, tree: &Tree) -> Option<i128> {
    let (literal, sign) = match tree {
        Tree::Param(index) => {
            let place = match binder.held_parameter(*index) {
                Value::Int(n) => i128::from(n),
                Value::UInt(n) => i128::from(n),
                _ => return None,
            };
            return Some(place);
        }
        Tree::Literal(literal) => (literal, 1),
        Tree::Unary { op: UnaryOp::Minus, expr } => match &**expr {
            Tree::Literal(literal) => (literal, -1),
            _ => return None,
        },
        _ => return None,
    };
    let LiteralValue::Int(n) = literal.value else { return None };
    binder.pin(literal);
    Some(i128::from(n) * sign)
}

pub(super) fn by_ordinal(items: &[Item], n: i128, clause: Clause) -> SqlResult<Expr> {
    let index = usize::try_from(n).ok().and_then(|n| n.checked_sub(1));
    match index.and_then(|i| items.get(i)) {
        Some(item) => Ok(item.expr.clone()),
        None => Err(errors::bad_field(n, clause.words())),
    }
}

/// LIMIT and OFFSET as expressions over parameters.
pub(super) fn bind_limit(
    binder: &mut Binder<'_>,
    limit: Option<&Limit>,
) -> SqlResult<(Option<Expr>, Option<Expr>)> {
    let Some(limit) = limit else { return Ok((None, None)) };
    let mut bind = |tree: &Option<Tree>| tree.as_ref().map(|t| binder.bind(t, Clause::Order)).transpose();
    let offset = bind(&limit.offset)?;
    // OFFSET alone takes all the rest.
    let count = bind(&limit.count)?;
    Ok((count, offset))
}

pub(super) fn assemble(
    binder: &mut Binder<'_>,
    select: &Select,
    bound: Bound,
    mut scope: Scope,
    lock: Option<&LockClause>,
) -> SqlResult<SelectPlan> {
    let Bound {
        mut from, items, conditions, group_by, having, mut windows, order, limit, offset, ties, ..
    } = bound;
    let rolled_items = bound.rolled_items;
    let aggregates = std::mem::take(&mut scope.aggregates);
    let table_count = from.leaves.len();
    let group_slot = scope.group_slot.unwrap_or(table_count as u16);
    debug_assert!(table_count <= group_slot as usize);
    let of_views: Vec<Option<(usize, usize)>> = items.iter().map(|item| item.of_view).collect();
    let (mut project, names): (Vec<Expr>, Vec<Arc<str>>) =
        items.into_iter().map(|item| (item.expr, item.name)).unzip();
    let is_grouped = !group_by.is_empty() || !aggregates.is_empty();
    if is_grouped && binder.cx.session.vars.sql_mode.has(SqlMode::ONLY_FULL_GROUP_BY) {
        check_full_grouping(&group_by, &project, &order, &scope)?;
    }
    let mut columns: Vec<ColumnMeta> =
        project.iter().zip(names).map(|(e, n)| describe(e, n, &scope.tables)).collect();
    let is_held = !windows.is_empty() || select.options.distinct && (!is_grouped || !group_by.is_empty());
    let by_keys = group_by.iter().any(|key| !key.is_constant()) && !select.rollup;
    let passage = Passage { holds_aggregates: by_keys || !windows.is_empty(), holds_items: is_held };
    for (meta, expr) in columns.iter_mut().zip(&project) {
        meta.is_plain = goes_out_plainly(expr, passage);
    }
    // Groups that come in an index's order need no temporary table.
    let aggregated: Vec<usize> = (0..project.len())
        .filter(|place| matches!(project[*place].node, Node::Aggregate(_)) && windows.is_empty())
        .filter(|place| goes_out_plainly(&project[*place], Passage { holds_aggregates: false, ..passage }))
        .collect();
    for (meta, of) in columns.iter_mut().zip(of_views) {
        of.into_iter().for_each(|(place, column)| of_view(meta, &scope.tables[place], column));
    }
    if !windows.is_empty() {
        let described = columns.iter_mut().zip(&mut project);
        described.for_each(|(meta, expr)| kept_for_windows(meta, expr, is_grouped));
    }
    // MariaDB takes a sequence for a constant too.
    let sorts = |key: &Expr| !key.is_constant() && !walk::facts(key).only_sequences();
    let mut order: Vec<(Expr, bool)> = order.into_iter().filter(|(key, _)| sorts(key)).collect();
    let (mut having, mut group_by) = (having, group_by);
    for expr in project.iter_mut().chain(&mut having).chain(order.iter_mut().map(|(e, _)| e)) {
        place_aggregates(expr, group_slot);
        window::place(expr, window_slot(group_slot));
    }
    let mut in_windows: Vec<&mut Expr> = windows.iter_mut().flat_map(BoundWindow::expressions_mut).collect();
    in_windows.iter_mut().for_each(|expr| place_aggregates(expr, group_slot));
    if table_count > 0 {
        let all = project
            .iter_mut()
            .chain(&mut having)
            .chain(&mut group_by)
            .chain(order.iter_mut().map(|(e, _)| e));
        all.for_each(|e| walk::hoist(e, &mut scope.once));
    }
    if group_by.iter().all(|key| walk::facts(key).only_sequences()) {
        group_by.iter_mut().for_each(|key| walk::keep_once(key, &mut scope.once));
    }
    // DISTINCT over plain rows is grouping by all that is selected.
    let groups_distinct = select.options.distinct && !is_grouped && windows.is_empty();
    if select.rollup {
        let place = KeyPlace { slot: group_slot, first: aggregates.len() };
        for (item, expr) in project.iter_mut().enumerate() {
            match rolled_items.iter().rposition(|key| key.item == Some(item)) {
                Some(key) => place.put(expr, key),
                None if expr.as_any_column().is_some() => {}
                None => place_key_columns(expr, &group_by, &rolled_items, place),
            }
        }
        let rolled = having.iter_mut().chain(windows.iter_mut().flat_map(BoundWindow::expressions_mut));
        rolled.for_each(|expr| place_keys(expr, &group_by, place));
        // What is computed from keys may be NULL; a key itself is described as its column.
        for (meta, expr) in columns.iter_mut().zip(&mut project) {
            if reads_from(expr, group_slot, aggregates.len()) {
                expr.nullable = true;
                meta.nullable |= meta.org_name.is_empty();
            }
        }
    }
    let keys = if groups_distinct { project.clone() } else { group_by };
    let after: Vec<&Expr> = project
        .iter()
        .chain(&having)
        .chain(order.iter().map(|(e, _)| e))
        .chain(windows.iter().flat_map(BoundWindow::expressions))
        .collect();
    mark_needed(&mut from, conditions.iter().chain(&keys).chain(after.iter().copied()), &aggregates);
    let rolled = if select.rollup { &keys[..] } else { &[] };
    let group_row = result_layout(aggregates.iter().map(|call| &call.ty).chain(rolled.iter().map(|k| &k.ty)));
    let group = (is_grouped || groups_distinct)
        .then(|| group_plan(&from, keys, aggregates, group_slot, groups_distinct, &after));
    let group = group.map(|plan| if select.rollup { plan.rolled_up(&select.group_by) } else { plan });
    let kept = (!windows.is_empty()).then(|| carry_of(&from, &after));
    let windows = kept.map(|tables| {
        let grouped = is_grouped.then_some((group_slot, group_row));
        crate::window::plan_windows(windows, tables, grouped, window_slot(group_slot))
    });
    // For a query without rows: see `Nothing`.
    let filter = if is_grouped && plan_has_subqueries(&project) { conditions.clone() } else { Vec::new() };
    let once_only = |c: &Expr| {
        let facts = walk::facts(c);
        walk::slots_read(c) == 0 && !facts.varies && !facts.assigns
    };
    let (mut constants, rest): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(once_only);
    let (mut row_filter, mut conditions): (Vec<Expr>, Vec<Expr>) =
        rest.into_iter().partition(|c| walk::slots_read(c) == 0);
    if binder.cx.params.literals.is_some() {
        for literal in disjunct::unify_literals(&mut conditions, binder.cx.params.values) {
            binder.pin_index(literal);
        }
    }
    let known_rows = if ties { None } else { known_limit(binder, limit.as_ref(), offset.as_ref()) };
    let request = JoinRequest {
        session: binder.cx.session,
        leaves: &from.leaves,
        limit: known_rows.filter(|_| !select.options.calc_found_rows && windows.is_none()),
        order: None,
        locking: lock.as_ref().is_some_and(|lock| lock.update),
        changing: binder.changing == Some(std::ptr::from_ref(select) as usize),
        straight: select.options.straight_join,
        sample: binder.cx.params.values,
        counting: binder.cx.counting,
    };
    let plain = constants.is_empty() && row_filter.is_empty() && conditions.is_empty() && lock.is_none();
    let extremes = match &group {
        Some(plan) if plain && walk::only_reads(&project, group_slot) => extremes_of(plan, &request)?,
        _ => Vec::new(),
    };
    // Ties are told by the keys of a sort.
    let wished = if windows.is_some() || ties { &[][..] } else { &order };
    let wishes = wishes(group.as_ref(), wished, &having, (&request, plain))?;
    let request = JoinRequest { order: wishes.order, limit: wishes.limit, ..request };
    conditions.extend(wishes.condition);
    let joined = match from.tree.take() {
        None => order::Joined {
            source: Source::One,
            ordered: order.is_empty(),
            rest: Vec::new(),
            unusable: Vec::new(),
        },
        Some(tree) => order::plan(&request, tree, conditions)?,
    };
    if !constants.iter().any(is_never) {
        binder.unusable.extend(joined.unusable.into_iter().map(Arc::new));
    }
    let (once, each): (Vec<Expr>, Vec<Expr>) = joined.rest.into_iter().partition(once_only);
    constants.extend(once);
    // A sequence is asked after what is false without it.
    constants.sort_by_key(|condition| walk::facts(condition).sequences);
    row_filter.extend(each);
    let wished = joined.ordered && !wishes.is_extreme && request.order.is_some() && group.is_some();
    let by_chance = group.as_ref().is_some_and(|plan| ordering_index(plan, &joined.source).is_some());
    let group = group.map(|plan| GroupPlan { streams: wished || by_chance, ..plan });
    if group.as_ref().is_some_and(|plan| plan.streams) {
        aggregated.iter().for_each(|place| columns[*place].is_plain = true);
    }
    let loose = group.as_ref().filter(|_| by_chance && row_filter.is_empty());
    let loose = loose.and_then(|plan| crate::select::group::loose(plan, &joined.source));
    let ordered = match &group {
        Some(plan) => joined.ordered && wished || by_chance && is_order_of(plan, &order),
        None => joined.ordered,
    };
    let sorted_already = ordered && !order.is_empty() && windows.is_none() && !ties;
    let first_row_of = match &group {
        Some(plan) if joined.ordered && wishes.is_extreme => Some(plan.aggregates[0].args[0].clone()),
        _ => None,
    };
    let explain = ExplainFacts {
        sorts: !order.is_empty() && !sorted_already,
        groups: is_grouped && group.as_ref().is_some_and(|g| !g.keys.is_empty()),
        distinct: select.options.distinct,
        windows: windows.is_some(),
    };
    let order = if sorted_already { Vec::new() } else { order };
    let assigns = |e: &Expr| {
        let facts = walk::facts(e);
        facts.assigns || facts.sequences
    };
    let counts = group.is_none()
        && windows.is_none()
        && project.iter().any(assigns)
        && !order.iter().any(|(e, _)| assigns(e));
    let unprojected = counts.then(|| Carry::new(from.lasting().map(order::Leaf::columns)));
    let is_one_group = group.as_ref().is_some_and(|plan| plan.keys.is_empty()) && windows.is_none();
    let nothing = is_one_group.then(|| of_nothing(&project, &filter, group_slot)).flatten();
    let block = Block {
        nothing,
        slot_count: group_slot as usize + if windows.is_some() { 3 } else { 1 },
        once: scope.once,
        constants,
        row_filter,
        source: joined.source,
        group,
        loose,
        first_row_of,
        extremes,
        having,
        direct: direct(&project, &scope),
        distinct: select.options.distinct && (is_grouped || windows.is_some()),
        windows,
        order: order.into_iter().map(|(e, descending)| counted_key(e, descending, &project)).collect(),
        unprojected,
        limit,
        offset,
        ties,
        layout: result_layout(project.iter().map(|e| &e.ty)),
        project,
        calc_found_rows: select.options.calc_found_rows,
        explain,
    };
    Ok(SelectPlan {
        types: block.types(),
        derivations: block.project.iter().map(|e| e.derivation).collect(),
        body: Body::Block(Box::new(block)),
        columns: ResultColumns::new(columns),
        tables: binder.tables.clone(),
        lock: lock.cloned(),
        into: Vec::new(),
        export: None,
        counts: binder.counts(),
    })
}

/// A key of ORDER BY, ready to encode.
pub(super) fn sort_key((expr, descending): (Expr, bool)) -> SortKey {
    SortKey { part: SortPart::new(sort_part(&expr, descending)), expr, item: None }
}

/// Whether a select list has subqueries.
fn plan_has_subqueries(project: &[Expr]) -> bool {
    project.iter().any(|item| walk::facts(item).subquery)
}

/// The same; a key that assigns a user variable, or has another value each time, is the select item that it names.
fn counted_key(expr: Expr, descending: bool, project: &[Expr]) -> SortKey {
    let is_volatile = walk::facts(&expr).volatile;
    let alike = |item: &Expr| match (&item.node, &expr.node) {
        (Node::AssignUserVar(x, p), Node::AssignUserVar(y, q)) => x == y && walk::same(p, q),
        _ => is_volatile && walk::same_parts(item, &expr),
    };
    let item = project.iter().position(alike);
    SortKey { item, ..sort_key((expr, descending)) }
}

/// What a query wishes of its source.
struct Wishes {
    /// Columns of one table that its rows would best come by.
    order: Option<(u16, Vec<KeyOrder>)>,
    /// Rows that are enough then.
    limit: Option<u64>,
    /// A condition that leaves out rows which do not count.
    condition: Option<Expr>,
    /// The first row has the value of the only aggregate, MIN or MAX.
    is_extreme: bool,
}

fn wishes(
    group: Option<&GroupPlan>,
    order: &[(Expr, bool)],
    having: &[Expr],
    (request, reads_all): (&JoinRequest<'_>, bool),
) -> SqlResult<Wishes> {
    let none = Wishes { order: None, limit: request.limit, condition: None, is_extreme: false };
    let Some(plan) = group else { return Ok(Wishes { order: wished_order(order), ..none }) };
    // An index has members in the order of their numbers: MariaDB takes that only where all rows count.
    let by_number = |plan: &GroupPlan| !reads_all && plan.aggregates[0].args[0].ty.has_members();
    let extreme = extreme_of(plan, request.only().is_some()).filter(|_| !by_number(plan));
    if let Some((column, descending)) = extreme {
        return Ok(Wishes {
            order: Some((column.slot, vec![(column.column, descending)])),
            limit: Some(1),
            condition: not_null(&plan.aggregates[0].args[0]),
            is_extreme: true,
        });
    }
    let groups = if having.is_empty() && !plan.rollup { wished_groups(plan, order, request)? } else { None };
    Ok(match groups {
        Some((wished, rows)) => Wishes { order: Some(wished), limit: Some(rows), ..none },
        None => none,
    })
}

/// `SELECT MIN(column)` or MAX over one table: an index's order answers it with one row.
fn extreme_of(group: &GroupPlan, of_one_table: bool) -> Option<(ColumnRef, bool)> {
    let [only] = &group.aggregates[..] else { return None };
    if !group.keys.is_empty() || !of_one_table {
        return None;
    }
    let descending = match only.kind {
        AggregateKind::Min => false,
        AggregateKind::Max => true,
        _ => return None,
    };
    only.args[0].as_column().map(|column| (column.clone(), descending))
}

/// What MIN and MAX need of a row's value, which an index then starts at.
fn not_null(argument: &Expr) -> Option<Expr> {
    let test = Node::IsNull { negated: true, value: Box::new(argument.clone()) };
    argument.nullable.then(|| Expr::boolean(test, false))
}

/// Whether a condition is never true, whatever the tables hold.
fn is_never(condition: &Expr) -> bool {
    matches!(&condition.node, Node::Constant(Value::Null | Value::Int(0)))
}

/// For several MINs and MAXs over a whole table, a source for each that has its value first; empty where an index lacks.
fn extremes_of(group: &GroupPlan, request: &JoinRequest<'_>) -> SqlResult<Vec<Source>> {
    let mut sources = Vec::new();
    if !group.keys.is_empty() || request.leaves.len() != 1 || group.aggregates.len() < 2 {
        return Ok(sources);
    }
    for call in &group.aggregates {
        let descending = match call.kind {
            AggregateKind::Min => false,
            AggregateKind::Max => true,
            _ => return Ok(Vec::new()),
        };
        let Some(column) = call.args[0].as_column() else { return Ok(Vec::new()) };
        let order = Some((column.slot, vec![(column.column, descending)]));
        let request = JoinRequest { order, limit: Some(1), ..*request };
        let conditions = not_null(&call.args[0]).into_iter().collect();
        let joined = order::plan(&request, order::FromTree::Leaf(column.slot), conditions)?;
        if !joined.ordered {
            return Ok(Vec::new());
        }
        sources.push(joined.source);
    }
    Ok(sources)
}

/// Where a query wants a few groups of one table in the order of their keys: that order, and the rows that they have.
#[expect(clippy::type_complexity, reason = "an order and a number")]
fn wished_groups(
    group: &GroupPlan,
    order: &[(Expr, bool)],
    request: &JoinRequest<'_>,
) -> SqlResult<Option<((u16, Vec<KeyOrder>), u64)>> {
    let (Some(leaf), Some(limit)) = (request.only(), request.limit) else { return Ok(None) };
    let LeafKind::Table(table, _) = &leaf.kind else { return Ok(None) };
    if table.is_virtual() || group.keys.is_empty() || order.len() > group.keys.len() {
        return Ok(None);
    }
    let mut wished: Vec<KeyOrder> = Vec::with_capacity(group.keys.len());
    let mut descending = false;
    for (place, key) in group.keys.iter().enumerate() {
        if let Some((expr, desc)) = order.get(place) {
            if !walk::same(expr, key) {
                return Ok(None);
            }
            descending = *desc;
        }
        let Some(column) = key.as_column().filter(|c| c.slot == leaf.slot) else { return Ok(None) };
        wished.push((column.column, descending));
    }
    let begins = |index: &&keel_catalog::IndexDef| {
        !index.options.ignored && !index.hashed && index.parts[0].column == wished[0].0 as usize
    };
    let Some(index) = table.indexes.iter().find(begins) else { return Ok(None) };
    let per_value = table.rows_per_value(index, crate::access::table_rows(table)?)?;
    let rows = limit as f64 * per_value[wished.len().min(per_value.len()) - 1];
    Ok(Some(((leaf.slot, wished), rows as u64)))
}

/// ORDER BY as columns of one table, where it is nothing else.
fn wished_order(order: &[(Expr, bool)]) -> Option<(u16, Vec<KeyOrder>)> {
    let (first, _) = order.first()?;
    let slot = first.as_column()?.slot;
    let keys: Option<Vec<KeyOrder>> = order
        .iter()
        .map(|(e, descending)| e.as_column().filter(|c| c.slot == slot).map(|c| (c.column, *descending)))
        .collect();
    Some((slot, keys?))
}

/// Rows that the query ends after, where the first execution's values tell.
fn known_limit(binder: &Binder<'_>, limit: Option<&Expr>, offset: Option<&Expr>) -> Option<u64> {
    let value = |expr: &Expr| match &expr.node {
        Node::Constant(value) => Some(value.clone()),
        Node::Param(index) => binder.cx.params.values.get(*index as usize).cloned(),
        _ => None,
    };
    let number = |expr: &Expr| match value(expr) {
        Some(keel_value::Value::Int(n)) => u64::try_from(n).ok(),
        Some(keel_value::Value::UInt(n)) => Some(n),
        _ => None,
    };
    let count = number(limit?)?;
    let skipped = offset.map_or(Some(0), number)?;
    count.checked_add(skipped)
}

/// The slot and columns, where nothing but stored columns of one table are selected.
fn direct(project: &[Expr], scope: &Scope) -> Option<(u16, Vec<usize>)> {
    let slot = project.first()?.as_column()?.slot;
    scope.tables.get(slot as usize)?;
    let columns: Option<Vec<usize>> = project
        .iter()
        .map(|e| {
            let plain = e.ty.kind != keel_value::TypeKind::Timestamp;
            e.as_column().filter(|c| c.slot == slot && plain).map(|c| c.column as usize)
        })
        .collect();
    Some((slot, columns?))
}

//! Correlated subqueries turned inside out: one query that answers for all values of what they read of their surroundings.
//!
//! `(SELECT SUM(b) FROM t WHERE t.a = outer.x AND ...)` becomes `SELECT SUM(b), t.a FROM t WHERE ... GROUP BY t.a`, and
//! EXISTS asks which values of `t.a` there are. The names are bound as in the subquery, so that nothing needs renaming; if
//! the surroundings are read anywhere else, there is no such query.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_exec::select::Keyed;
use keel_expr::compare::is_tolerant;
use keel_expr::{CompareOp, Comparison, Expr, Node, walk};
use keel_sql::ast::{Query, QueryBody, Select};
use keel_value::types::Class;
use keel_value::{SqlType, Value};

use crate::bind::{Binder, Scope};
use crate::join::order::{FromTree, Leaf, LeafKind};
use crate::select::build::{Bound, Item, assemble, bind_parts};

/// Pairs that a key may have.
const PAIRS_MAX: usize = 8;

/// Plans a subquery of EXISTS, or one that gives an aggregate, for all keys; none where it is not of that kind. To be
/// called with the surroundings in which it was bound already.
pub(crate) fn plan_keyed(binder: &mut Binder<'_>, query: &Query, exists: bool) -> SqlResult<Option<Keyed>> {
    let QueryBody::Select(select) = &query.body else { return Ok(None) };
    let is_bare = query.with.is_none()
        && query.limit.is_none()
        && query.lock.is_none()
        && query.into.is_none()
        && query.order_by.is_empty()
        && is_plain(select);
    if !is_bare {
        return Ok(None);
    }
    binder.scopes.push(Scope {
        takes_aggregates: true,
        select: std::ptr::from_ref(&**select) as usize,
        ..Scope::default()
    });
    let bound = bind_parts(binder, select, &[], None, true);
    let scope = binder.pop_scope();
    let Some((bound, pairs)) = turned(bound?, &scope, exists) else { return Ok(None) };
    let plan = assemble(binder, select, bound, scope, None)?;
    let (outer, by) = pairs;
    Ok(Some(Keyed { plan, outer, by, exists }))
}

fn is_plain(select: &Select) -> bool {
    select.group_by.is_empty()
        && select.having.is_none()
        && select.windows.is_empty()
        && !select.rollup
        && !select.options.distinct
        && !select.options.calc_found_rows
}

/// Outer sides, and how each is compared with its inner side.
type Pairs = (Vec<Expr>, Vec<Comparison>);

/// The parts of the query without what ties it to its surroundings.
fn turned(mut bound: Bound, scope: &Scope, exists: bool) -> Option<(Bound, Pairs)> {
    // A document that nobody asked for may be none, which is an error.
    let is_function = |leaf: &Leaf| matches!(leaf.kind, LeafKind::Function(_));
    if !bound.windows.is_empty() || bound.from.error.is_some() || bound.from.leaves.iter().any(is_function) {
        return None;
    }
    let mut inner = Vec::new();
    let (mut outer, mut by) = (Vec::new(), Vec::new());
    bound.conditions.retain(|condition| match pair(condition) {
        Some((own, around, comparison)) if inner.len() < PAIRS_MAX => {
            inner.push(own.clone());
            outer.push(around.clone());
            by.push(comparison);
            false
        }
        _ => true,
    });
    let aggregates = &scope.aggregates;
    let is_kind = match (exists, &bound.items[..]) {
        (true, _) => aggregates.is_empty(),
        (false, [item]) => !aggregates.is_empty() && !walk::facts(&item.expr).columns,
        _ => false,
    };
    if inner.is_empty() || !is_kind {
        return None;
    }
    if exists {
        bound.items = vec![Item::unnamed(Expr::constant(Value::Int(1), SqlType::int()))];
    }
    let in_aggregates =
        aggregates.iter().flat_map(|call| call.args.iter().chain(call.order.iter().map(|o| &o.0)));
    let rest = bound.conditions.iter().chain(bound.items.iter().map(|item| &item.expr)).chain(in_aggregates);
    let is_free = |expr: &Expr| {
        let facts = walk::facts(expr);
        !(facts.outer || facts.volatile || facts.assigns)
    };
    if !rest.into_iter().all(is_free)
        || !bound.from.tree.as_ref().is_none_or(|tree| is_tree_free(tree, &is_free))
    {
        return None;
    }
    bound.items.extend(inner.iter().cloned().map(Item::unnamed));
    bound.group_by = inner;
    Some((bound, (outer, by)))
}

/// An equality's side over this query's rows, that over the surroundings', and how they are compared.
fn pair(condition: &Expr) -> Option<(&Expr, &Expr, Comparison)> {
    let Node::Compare { op: CompareOp::Eq, by, left, right } = &condition.node else { return None };
    let is_simple = |expr: &Expr| {
        let facts = walk::facts(expr);
        let mut kept = false;
        walk::visit(expr, &mut |e| kept |= matches!(e.node, Node::Once(..)));
        !(facts.volatile || facts.assigns || facts.subquery || facts.aggregates || kept)
    };
    // Keys are local times.
    if is_tolerant(*by, &left.ty, &right.ty) || left.ty.is_instant() && right.ty.is_instant() {
        return None;
    }
    // Text that is compared as a number or a time warns, each time.
    let is_text = |expr: &Expr| expr.ty.class() == Class::String;
    if !matches!(by, Comparison::Text(_)) && (is_text(left) || is_text(right)) {
        return None;
    }
    // Rows are grouped as their own side compares: that must be no coarser than the comparison.
    let groups_alike = |expr: &Expr| match by {
        Comparison::Text(collation) => expr.ty.is_string() && expr.ty.collation == *collation,
        Comparison::Decimal => expr.as_column().is_some(),
        _ => true,
    };
    let is_own = |expr: &Expr| {
        let facts = walk::facts(expr);
        is_simple(expr) && facts.columns && !facts.outer && groups_alike(expr)
    };
    let is_around = |expr: &Expr| is_simple(expr) && walk::facts(expr).outer && !walk::facts(expr).columns;
    match () {
        () if is_own(left) && is_around(right) => Some((&**left, &**right, *by)),
        () if is_own(right) && is_around(left) => Some((&**right, &**left, *by)),
        () => None,
    }
}

/// Whether no ON of joins reads the surroundings.
fn is_tree_free(tree: &FromTree, is_free: &impl Fn(&Expr) -> bool) -> bool {
    match tree {
        FromTree::Leaf(_) => true,
        FromTree::Join { left, right, on, .. } => {
            on.iter().all(is_free) && is_tree_free(left, is_free) && is_tree_free(right, is_free)
        }
    }
}

impl Item {
    fn unnamed(expr: Expr) -> Item {
        Item { expr, name: Arc::from(""), of_view: None }
    }
}

//! Subqueries of WHERE that become joins: `a IN (SELECT b FROM ...)`, `EXISTS (SELECT ... WHERE b = a)` and their
//! negations, where they stand beside other conditions by AND.
//!
//! The subquery's tables take slots of the query around it, behind those of FROM, and its conditions become those of a
//! semi-join or anti-join ([`FromTree`]), whose place in the order of joins is chosen by cost. Its names are bound in a
//! scope of its own; what it reads of the query around it then stands for columns of the same row. Whatever does not fit
//! (groups, limits, NOT IN over what may be NULL, comparisons that convert) is taken back and bound as a subquery.

use keel_base::SqlResult;
use keel_exec::join::Matching;
use keel_expr::{CompareOp, Comparison, Expr, Node, typing, walk};
use keel_sql::ast::{BinaryOp, Expr as Tree, Query, QueryBody, Select, SelectOptions, TableRef, UnaryOp};
use keel_value::{SqlType, TypeKind};

use crate::bind::{Binder, Clause, Scope};
use crate::join::order::{FromTree, TABLES_MAX};
use crate::select::from::{self, From};
use crate::select::{build, view};

/// Subqueries of a statement that are tried; what does not fit is bound twice.
const TRIES_MAX: u32 = 32;
/// Views within views whose tables are counted before they are bound.
const VIEWS_DEEP_MAX: u32 = 3;

/// A subquery that may become a join.
struct Candidate<'q> {
    select: &'q Select,
    /// The left side of IN.
    left: Option<&'q Tree>,
    negated: bool,
}

/// What a subquery became.
struct Joined {
    kind: Matching,
    tree: FromTree,
    on: Vec<Expr>,
}

/// A subquery's parts, bound among the tables of the query around it.
struct Inner {
    tree: FromTree,
    items: Vec<Expr>,
    conditions: Vec<Expr>,
}

/// Slots that subqueries of WHERE may take.
pub(super) fn room(binder: &Binder<'_>, select: &Select, from: &From) -> u16 {
    let may = !select.from.is_empty()
        && !select.options.straight_join
        && binder.changing.is_none()
        && binder.whole_names.is_none()
        && !binder.rows_change
        && !binder.locks_rows
        && binder.recursions == 0
        && binder.later_common.is_empty();
    let room = match &select.filter {
        Some(filter) if may => room_in(binder, filter),
        _ => 0,
    };
    room.min(TABLES_MAX.saturating_sub(from.leaves.len())) as u16
}

fn room_in(binder: &Binder<'_>, filter: &Tree) -> usize {
    let of = |candidate: Candidate<'_>| {
        let within = candidate.select.filter.as_ref().map_or(0, |filter| room_in(binder, filter));
        tables_of(binder, &candidate.select.from, VIEWS_DEEP_MAX) + within
    };
    parts(filter).into_iter().filter_map(candidate).map(of).sum()
}

/// Tables that a list names, those of views that are merged included, down to some depth of views.
fn tables_of(binder: &Binder<'_>, tables: &[TableRef], depth: u32) -> usize {
    let mut count = 0;
    for table in tables {
        count += match table {
            TableRef::Join { left, right, .. } => {
                let of = |side| tables_of(binder, std::slice::from_ref(side), depth);
                of(&**left) + of(&**right)
            }
            TableRef::Table { name, .. } => match binder.find_view(name.db.as_deref(), &name.name) {
                Some(view) if depth > 0 => view::tables(&view, |from| tables_of(binder, from, depth - 1)),
                _ => 1,
            },
            TableRef::Derived { .. } | TableRef::JsonTable(_) => 1,
        };
        if count >= TABLES_MAX {
            return TABLES_MAX;
        }
    }
    count
}

/// What must all be true.
fn parts(filter: &Tree) -> Vec<&Tree> {
    let mut parts = Vec::new();
    let mut left = vec![filter];
    while let Some(tree) = left.pop() {
        match tree {
            Tree::Binary { op: BinaryOp::And, left: first, right: second } => {
                left.push(second);
                left.push(first);
            }
            other => parts.push(other),
        }
    }
    parts
}

fn candidate(tree: &Tree) -> Option<Candidate<'_>> {
    let (query, left, negated) = match tree {
        Tree::InSubquery { negated, expr, query } => (query, Some(&**expr), *negated),
        Tree::Exists(query) => (query, None, false),
        Tree::Unary { op: UnaryOp::Not, expr } => match &**expr {
            Tree::Exists(query) => (query, None, true),
            Tree::InSubquery { negated, expr, query } => (query, Some(&**expr), !negated),
            _ => return None,
        },
        _ => return None,
    };
    Some(Candidate { select: plain(query)?, left, negated })
}

/// The SELECT of a query that is no more than joined tables and a filter. DISTINCT says nothing to IN and EXISTS.
fn plain(query: &Query) -> Option<&Select> {
    let QueryBody::Select(select) = &query.body else { return None };
    let options = SelectOptions { all: false, distinct: false, ..select.options };
    let is_plain = query.with.is_none()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.into.is_none()
        && query.lock.is_none()
        && options == SelectOptions::default()
        && !select.from.is_empty()
        && select.group_by.is_empty()
        && select.having.is_none()
        && select.windows.is_empty()
        && !select.rollup
        && !select.from.iter().any(has_function);
    is_plain.then_some(&**select)
}

fn has_function(table: &TableRef) -> bool {
    match table {
        TableRef::JsonTable(_) => true,
        TableRef::Join { left, right, .. } => has_function(left) || has_function(right),
        TableRef::Table { .. } | TableRef::Derived { .. } => false,
    }
}

/// Binds WHERE; subqueries in it that become joins are added to FROM as long as there are slots below `end`.
pub(super) fn bind_filter(
    binder: &mut Binder<'_>,
    from: &mut From,
    mut tree: Option<FromTree>,
    filter: &Tree,
    end: u16,
) -> SqlResult<(Option<FromTree>, Vec<Expr>)> {
    let parts = parts(filter);
    if from.leaves.len() >= end as usize || !parts.iter().any(|part| candidate(part).is_some()) {
        return Ok((tree, binder.bind_condition(filter, Clause::Where)?));
    }
    let mut conditions = Vec::new();
    let is_one_of_several = parts.len() > 1;
    for part in parts {
        if let Some(candidate) = candidate(part)
            && let Some(Joined { kind, tree: right, on }) = try_join(binder, from, &candidate, end)
            && let Some(left) = tree.take()
        {
            let (left, right) = (Box::new(left), Box::new(right));
            tree = Some(FromTree::Join { kind, straight: false, left, right, on });
            continue;
        }
        let bound = binder.bind(part, Clause::Where)?;
        typing::refuse_condition(&bound, if is_one_of_several { "int" } else { "bigint" }, "<>")?;
        conditions.extend(binder.conditions_of(bound)?);
    }
    Ok((tree, conditions))
}

/// What a subquery becomes as a join; none where it is left as it is, and whatever was bound of it is forgotten.
fn try_join(binder: &mut Binder<'_>, from: &mut From, candidate: &Candidate<'_>, end: u16) -> Option<Joined> {
    if binder.joins_tried == TRIES_MAX {
        return None;
    }
    binder.joins_tried += 1;
    let before = (from.leaves.len(), binder.named.len(), binder.views.len(), binder.unusable.len());
    let (orders, checks) = (from.order.len(), from.checks.len());
    let once = binder.scope().once;
    let saw_volatile = std::mem::take(&mut binder.saw_volatile);
    // An error comes again where the subquery is bound as one.
    let joined = join(binder, from, candidate, end).ok().flatten();
    let is_volatile = std::mem::replace(&mut binder.saw_volatile, saw_volatile);
    from.order.truncate(orders);
    from.checks.truncate(checks);
    from.error = None;
    let joined = joined.filter(|_| !is_volatile);
    match &joined {
        Some(_) => from.leaves[before.0..].iter_mut().for_each(|leaf| leaf.merged = true),
        None => {
            from.leaves.truncate(before.0);
            binder.named.truncate(before.1);
            binder.views.truncate(before.2);
            binder.unusable.truncate(before.3);
            binder.scope_mut().once = once;
        }
    }
    joined
}

fn join(
    binder: &mut Binder<'_>,
    from: &mut From,
    candidate: &Candidate<'_>,
    end: u16,
) -> SqlResult<Option<Joined>> {
    let first = from.leaves.len();
    let mut operands = Vec::new();
    if let Some(left) = candidate.left {
        operands = binder.operands_in(left, Clause::Where)?;
        operands.iter_mut().for_each(|operand| binder.hoist(operand));
    }
    let clause = std::mem::replace(&mut binder.clause, Clause::Where);
    let (inner, _) = binder.within(|binder| bind_inner(binder, from, candidate.select, end));
    binder.clause = clause;
    let Some(Inner { tree, items, mut conditions }) = inner? else { return Ok(None) };
    if from.leaves.len() > end as usize {
        return Ok(None);
    }
    let kind = if candidate.negated { Matching::Anti } else { Matching::Semi };
    if candidate.left.is_some() {
        let Some(equalities) = equalities(binder, operands, items, candidate.negated)? else {
            return Ok(None);
        };
        conditions.extend(equalities);
    }
    let slots = (first..from.leaves.len()).fold(0u64, |slots, slot| slots | 1 << slot);
    let ties = |e: &Expr| crate::join::order::hash_key(e, slots, !slots).is_some() && stays(e);
    Ok(conditions.iter().any(ties).then_some(Joined { kind, tree, on: conditions }))
}

/// Whether an expression means the same as a part of the query around it.
fn stays(expr: &Expr) -> bool {
    let facts = walk::facts(expr);
    !(facts.volatile || facts.assigns || facts.aggregates || facts.windows)
}

/// Binds a subquery's parts in a scope of its own, its tables behind those of the query around it.
fn bind_inner(
    binder: &mut Binder<'_>,
    from: &mut From,
    select: &Select,
    end: u16,
) -> SqlResult<Option<Inner>> {
    let once = binder.scope().once;
    binder.scopes.push(Scope {
        once,
        takes_aggregates: true,
        group_slot: Some(end),
        select: std::ptr::from_ref(select) as usize,
        ..Scope::default()
    });
    let bound = bind_in_scope(binder, from, select, end);
    let scope = binder.scopes.pop().unwrap_or_default();
    binder.scope_mut().once = scope.once;
    let Some(mut inner) = bound? else { return Ok(None) };
    let mut fits = scope.aggregates.is_empty() && scope.windows.is_empty();
    let mut enter = |expr: &mut Expr| fits &= stays(expr) && inwards(expr);
    inner.items.iter_mut().chain(&mut inner.conditions).for_each(&mut enter);
    for_each_on(&mut inner.tree, &mut enter);
    Ok(fits.then_some(inner))
}

fn bind_in_scope(
    binder: &mut Binder<'_>,
    from: &mut From,
    select: &Select,
    end: u16,
) -> SqlResult<Option<Inner>> {
    let (mut tree, mut conditions) = from::bind_list(binder, from, &select.from)?;
    if let Some(error) = from.error.take() {
        return Err(error);
    }
    let pins = std::mem::replace(&mut binder.pins_literals, true);
    let items = build::bind_items(binder, &select.items, Clause::Fields);
    binder.pins_literals = pins;
    let items = items?.into_iter().map(|item| item.expr).collect();
    if let Some(filter) = &select.filter {
        let own;
        (tree, own) = bind_filter(binder, from, tree, filter, end)?;
        conditions.extend(own);
    }
    Ok(tree.map(|tree| Inner { tree, items, conditions }))
}

fn for_each_on(tree: &mut FromTree, f: &mut impl FnMut(&mut Expr)) {
    fn go(tree: &mut FromTree, f: &mut dyn FnMut(&mut Expr)) {
        if let FromTree::Join { left, right, on, .. } = tree {
            on.iter_mut().for_each(&mut *f);
            go(left, f);
            go(right, f);
        }
    }
    go(tree, f);
}

/// Makes what an expression reads of the query around the subquery columns of the same row. False where a query within
/// reads it: that says from where it stands how far outwards.
fn inwards(expr: &mut Expr) -> bool {
    let mut fits = true;
    walk::visit_mut(expr, &mut |e| match &mut e.node {
        Node::Outer { level: 1, column } => e.node = Node::Column(column.clone()),
        Node::Outer { level, .. } => *level -= 1,
        Node::Above { level: 1, expr } => *e = Expr::clone(expr),
        Node::Above { level, .. } => *level -= 1,
        Node::Routine(routine) => fits &= routine.reads().iter().all(|(level, ..)| *level == 1),
        _ => {}
    });
    fits
}

/// The operands of IN equal the subquery's columns; none where that is not as plain as among columns of one type.
fn equalities(
    binder: &mut Binder<'_>,
    operands: Vec<Expr>,
    items: Vec<Expr>,
    negated: bool,
) -> SqlResult<Option<Vec<Expr>>> {
    if operands.len() != items.len() {
        return Ok(None);
    }
    // NULL on either side makes NOT IN neither true nor false.
    if negated && operands.iter().chain(&items).any(|e| e.nullable) {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(operands.len());
    for (left, right) in operands.into_iter().zip(items) {
        let nullable = left.nullable || right.nullable;
        let mut sides = [left, right];
        let types = [sides[0].ty.clone(), sides[1].ty.clone()];
        let by = binder.common_domain(&mut sides, "=")?;
        if !types.iter().all(|ty| is_of(by, ty)) {
            return Ok(None);
        }
        let [left, right] = sides;
        let node = Node::Compare { op: CompareOp::Eq, by, left: Box::new(left), right: Box::new(right) };
        out.push(Expr::boolean(node, nullable));
    }
    Ok(Some(out))
}

/// Whether values of a type are compared as they are.
fn is_of(by: Comparison, ty: &SqlType) -> bool {
    match by {
        Comparison::Int => ty.is_integer(),
        Comparison::Decimal => ty.is_integer() || ty.kind == TypeKind::Decimal,
        Comparison::Real => ty.kind == TypeKind::Double,
        Comparison::Text(collation) => ty.is_string() && ty.collation == collation,
        Comparison::DateTime => matches!(ty.kind, TypeKind::DateTime | TypeKind::Timestamp),
        Comparison::Date => ty.kind == TypeKind::Date,
        Comparison::Time => ty.kind == TypeKind::Time,
        Comparison::Fixed(kind) => ty.kind == kind.type_kind(),
    }
}

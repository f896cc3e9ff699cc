//! Grouping of a SELECT: what GROUP BY allows, which columns its stages need, and where aggregates and keys stand.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog as catalog;
use keel_catalog::IndexDef;
use keel_exec::access::AccessPath;
use keel_exec::aggregate::{AggregateCall, AggregateKind};
use keel_exec::group::GroupPlan;
use keel_exec::join::Source;
use keel_exec::select::carry::{Carry, local_type, stored_type};
use keel_exec::select::loose::Loose;
use keel_exec::select::subquery::Subquery;
use keel_expr::print::AGGREGATE_NAME;
use keel_expr::{ColumnRef, Expr, Node, walk};
use keel_value::TypeKind;
use keel_value::key::KeyPart;

use crate::bind::{Scope, ScopeTable, ViewPart};
use crate::join::order;
use crate::select::build::RolledItem;
use crate::select::from::From;

/// ONLY_FULL_GROUP_BY: outside aggregates a selected expression is one of GROUP BY or reads columns of it alone, also in its
/// subqueries; without GROUP BY it reads none, nor does ORDER BY.
pub(super) fn check_full_grouping(
    group_by: &[Expr],
    project: &[Expr],
    order: &[(Expr, bool)],
    scope: &Scope,
) -> SqlResult<()> {
    let ungrouped = |expr: &Expr| ungrouped_column(expr, group_by, scope);
    if group_by.is_empty() {
        let mut all = project.iter().chain(order.iter().map(|(e, _)| e));
        let reads = all.any(|e| ungrouped(e).is_some());
        return if reads { Err(errors::mix_of_group_func_and_fields()) } else { Ok(()) };
    }
    let is_item = |key: &Expr, item: &Expr| match (Subquery::of(key), Subquery::of(item)) {
        (Some(key), Some(item)) => Arc::ptr_eq(&key.plan, &item.plan),
        _ => walk::same(key, item),
    };
    let listed = |item: &&Expr| !group_by.iter().any(|key| is_item(key, item));
    match project.iter().filter(listed).find_map(ungrouped) {
        Some(name) => Err(errors::wrong_field_with_group(name.replace('`', ""))),
        None => Ok(()),
    }
}

/// The name of the first column that an expression reads and that is not in GROUP BY itself.
fn ungrouped_column(expr: &Expr, group_by: &[Expr], scope: &Scope) -> Option<Arc<str>> {
    if let Some(column) = expr.as_any_column() {
        let is_key = group_by.iter().any(|key| walk::same(key, expr));
        return (!is_key).then(|| column.name.clone());
    }
    let mut found = None;
    if let Node::Routine(routine) = &expr.node {
        let own = routine.reads().iter().filter(|(level, ..)| *level == 1);
        found = own.copied().find_map(|(_, slot, column)| ungrouped_read((slot, column), group_by, scope));
    }
    walk::children(expr, &mut |child| {
        if found.is_none() {
            found = ungrouped_column(child, group_by, scope);
        }
    });
    found
}

/// The name of a column that a subquery reads and that is not in GROUP BY. Of a merged view also columns within keys count.
fn ungrouped_read((slot, column): (u16, u16), group_by: &[Expr], scope: &Scope) -> Option<Arc<str>> {
    let table = scope.tables.iter().find(|table| table.slot == slot)?;
    let is_key = |key: &Expr| {
        let mut reads = false;
        walk::for_each_column(key, &mut |s, c| reads |= (s, c) == (slot, column));
        reads && (table.is_hidden() || key.as_any_column().is_some())
    };
    if group_by.iter().any(is_key) {
        return None;
    }
    let name = table.column(usize::from(column)).as_any_column().map(|column| column.name.clone())?;
    // Of a merged view or derived table the name is its own.
    let means =
        |meaning: &Expr| meaning.as_any_column().is_some_and(|c| (c.slot, c.column) == (slot, column));
    let of_view = |table: &ScopeTable| {
        let ViewPart::Whole(meanings) = &table.view else { return None };
        let place = meanings.iter().position(means)?;
        Some(format!("{}.{}", table.alias, table.columns[place].name).into())
    };
    if table.is_hidden() {
        return scope.tables.iter().find_map(of_view).or(Some(name));
    }
    let renamed = table.def.as_ref().is_some_and(|def| def.name != table.name);
    let own = renamed.then(|| format!("{}.{}", table.alias, table.columns[usize::from(column)].name).into());
    Some(own.unwrap_or(name))
}

/// Aggregates become columns of the grouped row.
pub(crate) fn place_aggregates(expr: &mut Expr, slot: u16) {
    walk::visit_mut(expr, &mut |e| {
        if let Node::Aggregate(number) = e.node {
            e.node = Node::Column(ColumnRef { slot, column: number as u16, name: AGGREGATE_NAME.into() });
            e.ty = local_type(&e.ty);
        }
    });
}

/// Where the grouped row of WITH ROLLUP has its keys.
#[derive(Clone, Copy)]
pub(super) struct KeyPlace {
    pub slot: u16,
    /// The column of the first key.
    pub first: usize,
}

impl KeyPlace {
    /// Makes an expression the column of a key: NULL where it is rolled up.
    pub fn put(self, expr: &mut Expr, key: usize) {
        let name = expr.as_column().map_or_else(|| "key".into(), |column| column.name.clone());
        expr.node = Node::Column(ColumnRef { slot: self.slot, column: (self.first + key) as u16, name });
        (expr.ty, expr.nullable) = (local_type(&expr.ty), true);
    }
}

/// Makes keys columns of the grouped row.
pub(super) fn place_keys(expr: &mut Expr, keys: &[Expr], place: KeyPlace) {
    match keys.iter().position(|key| walk::same(key, expr)) {
        Some(key) => place.put(expr, key),
        None => walk::children_mut(expr, &mut |child| place_keys(child, keys, place)),
    }
}

/// Makes the columns within a select item that are keys columns of the grouped row. Of equal keys the last one counts. As in
/// MariaDB other expressions that are keys stay, as do the operands of AND and OR.
pub(super) fn place_key_columns(expr: &mut Expr, keys: &[Expr], named: &[RolledItem], place: KeyPlace) {
    let is_key = |(key, named): (&Expr, &RolledItem)| named.is_column && walk::same(key, expr);
    match keys.iter().zip(named).rposition(is_key) {
        Some(key) => place.put(expr, key),
        None if matches!(expr.node, Node::And(_) | Node::Or(_)) => {}
        None => walk::children_mut(expr, &mut |child| place_key_columns(child, keys, named, place)),
    }
}

/// Whether it reads columns of a slot from the given one on.
pub(super) fn reads_from(expr: &Expr, slot: u16, first: usize) -> bool {
    let mut reads = false;
    walk::for_each_column(expr, &mut |own, column| reads |= own == slot && column as usize >= first);
    reads
}

/// Notes which columns conditions, keys and results read, and aggregates.
pub(super) fn mark_needed<'e>(
    from: &mut From,
    exprs: impl Iterator<Item = &'e Expr>,
    aggregates: &'e [AggregateCall],
) {
    let mut documents = Vec::new();
    for leaf in &from.leaves {
        if let order::LeafKind::Function(table) = &leaf.kind {
            walk::for_each_column(&table.document, &mut |slot, column| documents.push((slot, column)));
        }
    }
    let leaves = &mut from.leaves;
    let mut mark = |slot: u16, column: u16| {
        if let Some(leaf) = leaves.get_mut(slot as usize) {
            leaf.needed[column as usize] = true;
        }
    };
    documents.into_iter().for_each(|(slot, column)| mark(slot, column));
    let arguments = aggregates.iter().flat_map(|a| a.args.iter().chain(a.order.iter().map(|(e, _)| e)));
    for expr in exprs.chain(arguments) {
        walk::for_each_column(expr, &mut mark);
    }
    if let Some(tree) = &from.tree {
        mark_joins(tree, &mut mark);
    }
}

fn mark_joins(tree: &order::FromTree, mark: &mut impl FnMut(u16, u16)) {
    fn go(tree: &order::FromTree, mark: &mut dyn FnMut(u16, u16)) {
        if let order::FromTree::Join { left, right, on, .. } = tree {
            for condition in on {
                walk::for_each_column(condition, &mut |slot, column| mark(slot, column));
            }
            go(left, mark);
            go(right, mark);
        }
    }
    go(tree, mark);
}

/// What rows keep of the tables for expressions that are computed later.
pub(super) fn carry_of(from: &From, exprs: &[&Expr]) -> Carry {
    let mut after: Vec<Vec<bool>> = from.leaves.iter().map(|l| vec![false; l.needed.len()]).collect();
    for expr in exprs {
        walk::for_each_column(expr, &mut |slot, column| {
            if let Some(columns) = after.get_mut(slot as usize) {
                columns[column as usize] = true;
            }
        });
    }
    let lasting = from.leaves.iter().zip(&after).filter(|(leaf, _)| !leaf.merged);
    Carry::new(lasting.map(|(leaf, wanted)| {
        let mut columns = leaf.columns();
        columns.wanted = wanted;
        columns
    }))
}

/// How rows are grouped; `after` is what is computed of groups.
pub(super) fn group_plan(
    from: &From,
    keys: Vec<Expr>,
    aggregates: Vec<AggregateCall>,
    slot: u16,
    distinct: bool,
    after: &[&Expr],
) -> GroupPlan {
    GroupPlan {
        parts: keys.iter().map(|k| KeyPart::new(stored_type(&k.ty), true)).collect(),
        keys,
        aggregates,
        carry: carry_of(from, after),
        spill: Carry::new(from.lasting().map(order::Leaf::columns)),
        slot,
        keeps_arrival: distinct,
        streams: false,
        rollup: false,
    }
}

/// The index in whose order rows come, all of one table, if that is the order of the groups' keys.
pub(super) fn ordering_index<'s>(plan: &GroupPlan, source: &'s Source) -> Option<&'s IndexDef> {
    let Source::Table(source) = source else { return None };
    let table = &source.table;
    let index = match &*source.path {
        AccessPath::Scan { index: None, reverse: false } => table.clustered_index(),
        AccessPath::Scan { index: Some(index), reverse: false }
        | AccessPath::Ranges { index, reverse: false, .. } => table.indexes.get(*index),
        _ => None,
    };
    let index = index.filter(|_| !plan.rollup)?;
    let matches = |(key, part): (&Expr, &catalog::KeyPart)| {
        // Times that are equal here may be others in UTC.
        let plain = key.ty.kind != TypeKind::Timestamp;
        let column = key.as_column().filter(|column| column.slot == source.slot && plain);
        column.is_some_and(|c| c.column as usize == part.column) && part.prefix.is_none() && !part.descending
    };
    let few = !plan.keys.is_empty() && plan.keys.len() <= index.parts.len();
    (few && plan.keys.iter().zip(&index.parts).all(matches)).then_some(index)
}

/// Whether groups in the order of their keys are in this order.
pub(super) fn is_order_of(plan: &GroupPlan, order: &[(Expr, bool)]) -> bool {
    let same = |((expr, descending), key): (&(Expr, bool), &Expr)| !descending && walk::same(expr, key);
    order.len() <= plan.keys.len() && order.iter().zip(&plan.keys).all(same)
}

/// What is needed of groups that come in the order of their keys; None where that is every row.
pub(super) fn loose(plan: &GroupPlan, source: &Source) -> Option<Loose> {
    let Source::Table(table) = source else { return None };
    let counts = |e: &Expr| {
        let facts = walk::facts(e);
        facts.volatile || facts.assigns || facts.sequences
    };
    if table.numbered || table.filter.iter().chain(&table.implied).any(counts) {
        return None;
    }
    let index = ordering_index(plan, source)?;
    // Behind the declared parts come those of the clustered key.
    let behind = table.table.clustered_index().filter(|clustered| clustered.name != index.name);
    let mut parts = index.parts.iter().chain(behind.iter().flat_map(|clustered| &clustered.parts));
    let next = parts.nth(plan.keys.len());
    let mut loose = Loose { first: None, last: false };
    for call in &plan.aggregates {
        let argument = call.args.first().filter(|argument| is_ordered(argument))?;
        let column = argument.as_column().filter(|column| column.slot == table.slot)?;
        next.filter(|part| {
            part.column == column.column as usize && part.prefix.is_none() && !part.descending
        })?;
        match call.kind {
            AggregateKind::Min => loose.first = Some(argument.clone()),
            AggregateKind::Max => loose.last = true,
            _ => return None,
        }
    }
    Some(loose)
}

/// Whether MIN and MAX compare values as an index does: members of ENUM and SET have names, and an hour is repeated where the
/// clock is set back.
fn is_ordered(argument: &Expr) -> bool {
    !argument.ty.has_members() && argument.ty.kind != TypeKind::Timestamp
}

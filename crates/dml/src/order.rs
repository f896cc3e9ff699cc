//! The order in which a DELETE from several tables deletes. Foreign keys show it: a parent's row that goes before its children's
//! is an error.
//!
//! MariaDB deletes in the order in which its join reads the tables. Tables of which it reads one row by constants come first, an
//! outer table comes before the inner ones, and STRAIGHT_JOIN says its order. Where costs decide, children come before their
//! parents here, so that no statement fails because its join is read in another order than MariaDB's.

use keel_catalog::TableDef;
use keel_exec::access::AccessPath;
use keel_exec::join::TableSource;
use keel_expr::Node;
use keel_sql::ast::{JoinKind, TableRef};

/// A table of the query's join.
pub(super) struct Read {
    /// Number of its target; none where its rows stay.
    target: Option<usize>,
    slot: u16,
    /// The tables before this place of the join are read before it.
    after: usize,
    /// The columns of a unique key by which one row is read, and what each equals.
    key: Option<Vec<(usize, Equal)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Equal {
    Constant,
    /// The column of a slot.
    Column(u16, usize),
    Other,
}

impl Read {
    pub fn new(source: &TableSource, target: Option<usize>, after: usize) -> Read {
        let key = match &*source.path {
            AccessPath::Point { index, key } => {
                let parts = source.table.indexes[*index].parts.iter().map(|part| part.column);
                let values = key.iter().map(|value| match &value.node {
                    Node::Column(column) => Equal::Column(column.slot, column.column as usize),
                    _ if value.is_constant() => Equal::Constant,
                    _ => Equal::Other,
                });
                Some(parts.zip(values).collect())
            }
            _ => None,
        };
        Read { target, slot: source.slot, after, key }
    }
}

/// Pairs of targets, the first of which a STRAIGHT_JOIN reads before the second. Targets are named by `aliases`.
pub(super) fn straight(from: &[TableRef], aliases: &[&str]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    from.iter().for_each(|tree| drop(straight_within(tree, aliases, &mut pairs)));
    pairs
}

/// The targets in a part of the join.
fn straight_within(tree: &TableRef, aliases: &[&str], pairs: &mut Vec<(usize, usize)>) -> Vec<usize> {
    match tree {
        TableRef::Join { kind, left, right, .. } => {
            let left = straight_within(left, aliases, pairs);
            let right = straight_within(right, aliases, pairs);
            if *kind == JoinKind::Straight {
                pairs.extend(left.iter().flat_map(|a| right.iter().map(move |b| (*a, *b))));
            }
            [left, right].concat()
        }
        TableRef::Table { name, alias, .. } => {
            let own = alias.as_deref().unwrap_or(&name.name);
            aliases.iter().position(|other| *other == own).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The targets in the order in which their rows go. `reads` are the tables of the join as they are read, `tables` those of the
/// targets.
pub(super) fn of(reads: &[Read], straight: &[(usize, usize)], tables: &[&TableDef]) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::with_capacity(tables.len());
    order.extend(constant(reads).into_iter().filter_map(|read| reads[read].target));
    let places: Vec<usize> = {
        let place = |target: usize| reads.iter().position(|read| read.target == Some(target));
        (0..tables.len()).map(|target| place(target).unwrap_or(reads.len())).collect()
    };
    let precedes = |a: usize, b: usize| {
        straight.contains(&(a, b)) || reads.get(places[b]).is_some_and(|read| places[a] < read.after)
    };
    let is_child = |a: usize, b: usize| {
        let keys = &tables[a].foreign_keys;
        a != b && keys.iter().any(|key| key.refers_to(&tables[b].schema, &tables[b].name))
    };
    let mut rest: Vec<usize> = (0..tables.len()).filter(|target| !order.contains(target)).collect();
    rest.sort_by_key(|target| places[*target]);
    while !rest.is_empty() {
        let free: Vec<usize> =
            rest.iter().copied().filter(|b| !rest.iter().any(|a| precedes(*a, *b))).collect();
        let childless = free.iter().find(|b| !free.iter().any(|a| is_child(*a, **b)));
        let next = childless.or(free.first()).copied().unwrap_or(rest[0]);
        order.push(next);
        rest.retain(|target| *target != next);
    }
    order
}

/// The tables of which one row is read by constants, in the order of the statement: those that follow from others of them come
/// when these are found.
fn constant(reads: &[Read]) -> Vec<usize> {
    // Columns that equal a literal.
    let mut literal: Vec<(u16, usize)> = Vec::new();
    let mut found: Vec<usize> = Vec::new();
    let mut by_slot: Vec<usize> = (0..reads.len()).filter(|read| reads[*read].after == 0).collect();
    by_slot.sort_by_key(|read| reads[*read].slot);
    loop {
        let before = literal.len();
        for read in reads {
            for (column, value) in read.key.iter().flatten() {
                let is_literal = match value {
                    Equal::Constant => true,
                    Equal::Column(slot, column) => literal.contains(&(*slot, *column)),
                    Equal::Other => false,
                };
                if is_literal && !literal.contains(&(read.slot, *column)) {
                    literal.push((read.slot, *column));
                }
            }
        }
        if literal.len() == before {
            break;
        }
    }
    loop {
        let before = found.len();
        for place in &by_slot {
            let Some(key) = reads[*place].key.as_ref().filter(|_| !found.contains(place)) else { continue };
            let is_known = |(column, value): &(usize, Equal)| match value {
                _ if literal.contains(&(reads[*place].slot, *column)) => true,
                Equal::Column(slot, _) => found.iter().any(|known| reads[*known].slot == *slot),
                _ => false,
            };
            if key.iter().all(is_known) {
                found.push(*place);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

//! What EXPLAIN's forms ask of a planned query.

use std::sync::Arc;

use keel_exec::access::{AccessKind, AccessPath, PartCondition};
use keel_exec::join::{JoinSource, Source, TableSource};
use keel_exec::select::{Block, Body, SelectPlan, Subquery};
use keel_expr::{Expr, Node, walk};
use keel_value::Value;

/// What EXPLAIN says where no table is read for the result.
pub(super) fn without_tables(block: &Block) -> Option<&'static str> {
    if matches!(block.source, Source::One) {
        return None;
    }
    let never = |e: &Expr| matches!(&e.node, Node::Constant(Value::Null | Value::Int(0) | Value::UInt(0)));
    if block.constants.iter().any(never) {
        return Some("Impossible WHERE");
    }
    let unconditional = match &block.source {
        Source::Table(table) => table
            .filter
            .iter()
            .chain(&table.implied)
            .all(|c| matches!(c.node, Node::IsNull { negated: true, .. })),
        _ => false,
    };
    let found_first = block.first_row_of.is_some() || !block.extremes.is_empty();
    (found_first && unconditional).then_some("Select tables optimized away")
}

/// Whether the groups are the leading columns of the index that the only table, beside those of tests, is read by.
pub(super) fn groups_by_index(block: &Block) -> bool {
    if block.group.as_ref().is_some_and(|group| group.streams) {
        return true;
    }
    let (Source::Table(source), Some(group)) = (&block.source, &block.group) else { return false };
    let Some(index) = keel_exec::access::path_index(&source.path) else { return false };
    let parts = &source.table.indexes[index].parts;
    !group.keys.is_empty()
        && group.keys.len() <= parts.len()
        && group
            .keys
            .iter()
            .zip(parts)
            .all(|(k, p)| k.as_column().is_some_and(|c| c.column as usize == p.column))
}

/// How a table is read, in a word: a whole unique key is `const` where its values are known before enclosing queries run.
pub(super) fn access_name(source: &TableSource) -> Option<&'static str> {
    let is_asked = || references(source).is_some_and(|values| values.iter().any(|value| value != "const"));
    match source.choice.kind {
        AccessKind::Const if is_asked() => AccessKind::EqRef.name(),
        kind => kind.name(),
    }
}

/// What each used part of the index is compared with: `const`, a column, or `func`.
pub(super) fn references(source: &TableSource) -> Option<Vec<String>> {
    if !matches!(source.choice.kind, AccessKind::Const | AccessKind::EqRef | AccessKind::Ref) {
        return None;
    }
    let values: Vec<&Expr> = match &*source.path {
        AccessPath::Point { key, .. } => key.iter().collect(),
        AccessPath::Ranges { alternatives, .. } => alternatives
            .first()?
            .iter()
            .map_while(|c| match c {
                PartCondition::Equal(value) | PartCondition::NullSafeEqual(value) => Some(value),
                _ => None,
            })
            .collect(),
        _ => return None,
    };
    let shown: Vec<String> = values
        .into_iter()
        .map(|value| match &value.node {
            _ if value.is_constant() => "const".to_string(),
            Node::Column(column) | Node::Outer { column, .. } => column.name.replace('`', ""),
            _ => "func".to_string(),
        })
        .collect();
    Some(shown)
}

/// A query within a query.
#[derive(Clone, Copy)]
pub(super) enum Child<'p> {
    Derived(u16, &'p SelectPlan),
    Subquery(&'p Subquery),
    /// A subquery whose only item stands for it. It has a number, and the queries within it follow.
    Reduced(&'p Subquery),
}

impl Child<'_> {
    /// How many numbers its SELECTs have beyond the first.
    pub fn further_numbers(&self) -> u64 {
        let plan = match self {
            Child::Derived(_, plan) => plan,
            Child::Subquery(subquery) | Child::Reduced(subquery) => &*subquery.plan,
        };
        match &plan.body {
            Body::Set(set) => set.queries().len() as u64 - 1,
            Body::Recursive(recursive) => recursive.queries().len() as u64 - 1,
            Body::Block(_) | Body::Working(_) => 0,
        }
    }
}

/// What a query's answers depend on beside its tables.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Nature {
    /// Columns of enclosing queries.
    pub dependent: bool,
    /// RAND() and its like, or user variables, also within its own queries.
    pub uncacheable: bool,
}

/// What a planned query depends on: all of its parts together.
pub(super) fn nature(plan: &SelectPlan) -> Nature {
    let block = match &plan.body {
        Body::Block(block) => block,
        Body::Set(set) => {
            let parts = set.queries().into_iter().map(nature);
            return parts.fold(Nature::default(), |all, one| Nature {
                dependent: all.dependent || one.dependent,
                uncacheable: all.uncacheable || one.uncacheable,
            });
        }
        Body::Recursive(_) | Body::Working(_) => return Nature::default(),
    };
    let (children, expressions) = parts(block);
    let mut found = Nature::default();
    for expr in expressions {
        let facts = walk::facts(expr);
        found.dependent |= facts.outer;
        found.uncacheable |= facts.volatile || facts.assigns;
        walk::visit(expr, &mut |e| found.uncacheable |= matches!(e.node, Node::UserVar(..)));
    }
    let within = |child: &Child<'_>| match child {
        Child::Derived(_, plan) => nature(plan).uncacheable,
        Child::Subquery(subquery) | Child::Reduced(subquery) => nature(&subquery.plan).uncacheable,
    };
    found.uncacheable |= children.iter().any(within);
    found
}

/// The queries within a block: derived tables, then subqueries in the select list, conditions and orders.
pub(super) fn children(block: &Block) -> Vec<Child<'_>> {
    parts(block).0
}

/// Whether no query within a block has a line of its own.
pub(super) fn is_simple(block: &Block) -> bool {
    children(block).iter().all(|child| matches!(child, Child::Reduced(_)))
}

/// The queries within a block, and its expressions.
fn parts(block: &Block) -> (Vec<Child<'_>>, Vec<&Expr>) {
    let mut out = Vec::new();
    let mut conditions: Vec<&Expr> = Vec::new();
    gather(&block.source, &mut out, &mut conditions);
    let keys = block.group.iter().flat_map(|g| g.keys.iter());
    let gathered = block.group.iter().flat_map(|g| g.aggregates.iter().flat_map(|call| &call.args));
    let all = block
        .project
        .iter()
        .chain(gathered)
        .chain(&block.constants)
        .chain(&block.row_filter)
        .chain(conditions)
        .chain(keys)
        .chain(&block.having)
        .chain(block.windows.iter().flat_map(|windows| windows.expressions()))
        .chain(block.order.iter().map(|k| &k.expr));
    let all: Vec<&Expr> = all.collect();
    for expr in &all {
        walk::visit(expr, &mut |e| {
            if let Some(subquery) = Subquery::of(e) {
                let is_same = |known: &Child<'_>| match known {
                    Child::Subquery(known) | Child::Reduced(known) => {
                        Arc::ptr_eq(&known.plan, &subquery.plan)
                    }
                    Child::Derived(..) => false,
                };
                if out.iter().any(is_same) {
                    return;
                }
                match &subquery.plan.body {
                    Body::Block(block) if subquery.reduced => {
                        out.push(Child::Reduced(subquery));
                        out.extend(children(block));
                    }
                    _ => out.push(Child::Subquery(subquery)),
                }
            }
        });
    }
    (out, all)
}

fn gather<'p>(source: &'p Source, out: &mut Vec<Child<'p>>, conditions: &mut Vec<&'p Expr>) {
    match source {
        Source::One => {}
        Source::Table(table) => conditions.extend(table.filter.iter().chain(&table.implied)),
        Source::Derived(derived) => {
            if !matches!(derived.plan.body, Body::Working(_)) {
                out.push(Child::Derived(derived.slot, &derived.plan));
            }
            conditions.extend(&derived.filter);
        }
        Source::Function(function) => {
            conditions.push(&function.table.document);
            conditions.extend(&function.filter);
        }
        Source::Join(join) => {
            gather(&join.left, out, conditions);
            gather(&join.right, out, conditions);
            conditions.extend(join.on.iter().chain(&join.filter));
        }
        Source::Distinct(distinct) => {
            gather(&distinct.source, out, conditions);
            conditions.extend(&distinct.filter);
        }
    }
}

/// The table that a test goes back to when it has found a match: the last one before it.
pub(super) fn last_alias(source: &Source) -> Option<&str> {
    match source {
        Source::One => None,
        Source::Table(table) => Some(&table.alias),
        Source::Derived(derived) => Some(&derived.alias),
        Source::Function(function) => Some(&function.alias),
        Source::Join(join) if join.kind.is_test() => last_alias(&join.left),
        Source::Join(join) => last_alias(&join.right),
        Source::Distinct(distinct) => last_alias(&distinct.source),
    }
}

/// Whether subqueries became joins of it.
pub(super) fn has_tests(source: &Source) -> bool {
    match source {
        Source::Distinct(_) => true,
        Source::Join(join) => join.kind.is_test() || has_tests(&join.left) || has_tests(&join.right),
        _ => false,
    }
}

/// Of a hash join that was counted: how many of a hundred pairs of its rows were joined.
pub(super) fn joined_share(join: &JoinSource) -> Option<f64> {
    let given = |source: &Source| source.counts().map(|counts| counts.figures());
    let (left, right, both) = (given(&join.left)?, given(&join.right)?, join.counts.as_ref()?.figures());
    let pairs = left.passed as f64 * right.passed as f64;
    Some(if pairs > 0.0 { both.passed as f64 * 100.0 / pairs } else { 100.0 })
}

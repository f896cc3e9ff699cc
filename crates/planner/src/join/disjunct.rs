//! Conditions with OR, taken apart before joins are planned.
//!
//! What all alternatives share stands beside them: `(a = b AND c) OR (a = b AND d)` is `a = b AND (c OR d)`, so that tables
//! are joined by it. And where each alternative says something of a table, that is asked when the table is read: the rows
//! of `t` in `(t.x = 1 AND u.y = 2) OR (t.x = 3 AND u.y = 4)` have `t.x = 1 OR t.x = 3`.

use keel_expr::{Comparison, Expr, Node, walk};
use keel_value::types::Class;
use keel_value::{SqlType, Value};

/// Alternatives that a condition may have, and conditions that each may have, to be taken apart.
pub(crate) const PARTS_MAX: usize = 64;

/// Makes one parameter of the literals that are equal in conditions which all alternatives share by that: 'x' in both halves
/// of `(a = b AND c = 'x') OR (a = b AND c = 'x' AND d)`. Gives the literals that the plan holds for alone from now on.
/// `values` are those of the literals, by their index.
pub(crate) fn unify_literals(conditions: &mut [Expr], values: &[Value]) -> Vec<u32> {
    let mut pinned = Vec::new();
    for condition in conditions.iter_mut().filter(|condition| matches!(condition.node, Node::Or(_))) {
        let mut unified = condition.clone();
        let merged = merge_params(&mut unified, values);
        if merged.is_empty() {
            continue;
        }
        let Some(parts) = alternatives(&unified) else { continue };
        let mut in_shared = Vec::new();
        for expr in shared(&parts).iter() {
            walk::visit(expr, &mut |e| {
                if let Node::Param(index) = e.node {
                    in_shared.push(index);
                }
            });
        }
        let used: Vec<(u32, u32)> = merged.into_iter().filter(|(to, _)| in_shared.contains(to)).collect();
        rename_params(condition, &used);
        pinned.extend(used.into_iter().flat_map(<[u32; 2]>::from));
    }
    pinned
}

/// Names each parameter by the first one of the same type and value; which by which, the first one before the other.
fn merge_params(condition: &mut Expr, values: &[Value]) -> Vec<(u32, u32)> {
    let mut known: Vec<(u32, SqlType)> = Vec::new();
    let mut merged = Vec::new();
    walk::visit(condition, &mut |e| {
        let Node::Param(index) = e.node else { return };
        let Some(value) = values.get(index as usize) else { return };
        let alike = |(first, ty): &&(u32, SqlType)| values[*first as usize] == *value && *ty == e.ty;
        match known.iter().find(alike) {
            Some((first, _)) if *first != index => merged.push((*first, index)),
            Some(_) => {}
            None if known.len() < PARTS_MAX => known.push((index, e.ty.clone())),
            None => {}
        }
    });
    rename_params(condition, &merged);
    merged
}

fn rename_params(condition: &mut Expr, names: &[(u32, u32)]) {
    walk::visit_mut(condition, &mut |e| {
        if let Node::Param(index) = &mut e.node
            && let Some((to, _)) = names.iter().find(|(_, from)| *from == *index)
        {
            *index = *to;
        }
    });
}

/// The same conditions, and what follows from those with OR.
pub(super) fn refine(conditions: Vec<Expr>) -> Vec<Expr> {
    if !conditions.iter().any(|condition| matches!(condition.node, Node::Or(_))) {
        return conditions;
    }
    let mut out = Vec::with_capacity(conditions.len());
    for condition in conditions {
        match alternatives(&condition) {
            Some(parts) => {
                let common = shared(&parts);
                match common.is_empty() {
                    true => with_implied(condition, &parts, &mut out),
                    false => factored(common, parts, &mut out),
                }
            }
            None => out.push(condition),
        }
    }
    out
}

/// The alternatives of a condition with OR, each taken apart at AND.
fn alternatives(condition: &Expr) -> Option<Vec<Vec<Expr>>> {
    let Node::Or(parts) = &condition.node else { return None };
    if parts.len() > PARTS_MAX || walk::slots_read(condition).count_ones() < 2 {
        return None;
    }
    let parts: Vec<Vec<Expr>> = parts
        .iter()
        .map(|part| match &part.node {
            Node::And(parts) => parts.clone(),
            _ => vec![part.clone()],
        })
        .collect();
    parts.iter().all(|part| part.len() <= PARTS_MAX).then_some(parts)
}

/// Conditions of the first alternative that all others have.
fn shared(parts: &[Vec<Expr>]) -> Vec<Expr> {
    let (first, others) = parts.split_first().expect("OR has two parts at least");
    let is_everywhere = |e: &&Expr| others.iter().all(|part| part.iter().any(|other| walk::same(e, other)));
    first.iter().filter(|e| is_plain(e)).filter(is_everywhere).cloned().collect()
}

/// The shared conditions, which few rows pass for little work, and behind them what is left of the alternatives, unless one of
/// them says nothing more.
fn factored(common: Vec<Expr>, parts: Vec<Vec<Expr>>, out: &mut Vec<Expr>) {
    let is_own = |e: &Expr| !common.iter().any(|shared| walk::same(shared, e));
    let rest: Vec<Vec<Expr>> =
        parts.into_iter().map(|part| part.into_iter().filter(is_own).collect()).collect();
    out.extend(common);
    if rest.iter().all(|part: &Vec<Expr>| !part.is_empty()) {
        with_implied(any(rest.iter().cloned().map(all)), &rest, out);
    }
}

/// The condition, and what its alternatives say together of single tables.
fn with_implied(condition: Expr, parts: &[Vec<Expr>], out: &mut Vec<Expr>) {
    let slots = walk::slots_read(&condition);
    if slots.count_ones() > 1 {
        for slot in (0..63).filter(|slot| slots & 1 << slot != 0) {
            let of_table = |part: &Vec<Expr>| -> Vec<Expr> {
                let says = |e: &&Expr| walk::slots_read(e) == 1 << slot && is_plain(e);
                part.iter().filter(says).cloned().collect()
            };
            let of_table: Vec<Vec<Expr>> = parts.iter().map(of_table).collect();
            if of_table.iter().all(|part| !part.is_empty()) {
                out.push(any(of_table.into_iter().map(all)));
            }
        }
    }
    out.push(condition);
}

fn all(mut parts: Vec<Expr>) -> Expr {
    match parts.len() {
        1 => parts.pop().expect("there is one"),
        _ => {
            let nullable = parts.iter().any(|part| part.nullable);
            Expr::boolean(Node::And(parts), nullable)
        }
    }
}

fn any(parts: impl Iterator<Item = Expr>) -> Expr {
    let parts: Vec<Expr> = parts.collect();
    let nullable = parts.iter().any(|part| part.nullable);
    Expr::boolean(Node::Or(parts), nullable)
}

/// Whether a condition may be asked once more, or once less: it compares columns with values, and warns of nothing.
fn is_plain(condition: &Expr) -> bool {
    let is_value = |e: &Expr| {
        matches!(
            e.node,
            Node::Column(_) | Node::Constant(_) | Node::Param(_) | Node::Once(..) | Node::Outer { .. }
        )
    };
    let fits = |by: &Comparison, e: &Expr| {
        is_value(e) && (matches!(by, Comparison::Text(_)) || e.ty.class() != Class::String || e.is_constant())
    };
    match &condition.node {
        Node::Compare { by, left, right, .. } => fits(by, left) && fits(by, right),
        Node::Between { by, value, low, high, .. } => fits(by, value) && fits(by, low) && fits(by, high),
        Node::In { by, value, list, .. } => fits(by, value) && list.iter().all(|e| fits(by, e)),
        Node::IsNull { value, .. } => is_value(value),
        Node::Like { value, pattern, .. } => is_value(value) && is_value(pattern),
        _ => false,
    }
}

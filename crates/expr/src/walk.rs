//! Walking and rewriting bound expressions.

use keel_storage::runtime::fiber;

use super::{Expr, Node, OUTSIDE};
use crate::func;

/// What an expression depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// Columns of the current rows.
    pub columns: bool,
    /// Columns of enclosing queries.
    pub outer: bool,
    /// Parameters.
    pub params: bool,
    /// RAND(), SLEEP(), UUID() and whatever gives another value at each call.
    pub volatile: bool,
    /// A subquery.
    pub subquery: bool,
    /// Aggregates.
    pub aggregates: bool,
    /// Window functions.
    pub windows: bool,
    /// Assigns a user variable, or reads one that the statement assigns.
    pub assigns: bool,
    /// Asks a sequence.
    pub sequences: bool,
    /// Is volatile for another reason than a sequence.
    pub varies: bool,
}

impl Facts {
    /// One value for the whole execution of this query block.
    pub fn is_constant(&self) -> bool {
        !(self.columns || self.outer || self.volatile || self.aggregates || self.windows || self.assigns)
    }

    /// A sequence decides its value, and nothing else that changes during an execution.
    pub fn only_sequences(&self) -> bool {
        let others = Facts { volatile: false, ..*self };
        self.sequences && !self.varies && !self.subquery && others.is_constant()
    }
}

/// A walk over a list with more elements lets others run meanwhile.
const LONG_LIST: usize = 1024;

/// Calls `$f` with each direct operand of a node: the one list of what a node holds, for readers and for writers.
macro_rules! each_operand {
    ($node:expr, $f:ident, $iter:ident, $operands:ident) => {
        match $node {
            Node::Constant(_)
            | Node::Param(_)
            | Node::Column(_)
            | Node::Outer { .. }
            | Node::Above { .. }
            | Node::UserVar(..)
            | Node::SysVar(..)
            | Node::Aggregate(_)
            | Node::Window(_) => {}
            Node::Once(_, a)
            | Node::OneOf(a, _)
            | Node::Not(a)
            | Node::Negate(a)
            | Node::BitNot(a)
            | Node::Cast(a)
            | Node::Convert(a)
            | Node::Generated(a, _)
            | Node::Default(a, _)
            | Node::Collate(a)
            | Node::AssignUserVar(_, a)
            | Node::IsNull { value: a, .. }
            | Node::IsTruth { value: a, .. } => $f(a),
            Node::Compare { left, right, .. } => {
                $f(left);
                $f(right);
            }
            Node::Xor(a, b) | Node::Arith(_, a, b) | Node::Bits(_, a, b) => {
                $f(a);
                $f(b);
            }
            Node::Like { value, pattern, .. } => {
                $f(value);
                $f(pattern);
            }
            Node::DateArith { date, amount, .. } => {
                $f(date);
                $f(amount);
            }
            Node::And(parts) | Node::Or(parts) | Node::Coalesce(parts) | Node::Row(parts) => {
                parts.$iter().for_each($f)
            }
            Node::Between { value, low, high, .. } => {
                $f(value);
                $f(low);
                $f(high);
            }
            Node::In { value, list, .. } => {
                $f(value);
                list.$iter().for_each($f);
            }
            Node::Case { whens, otherwise } => {
                for (condition, value) in whens {
                    $f(condition);
                    $f(value);
                }
                otherwise.$iter().for_each(|e| $f(e));
            }
            Node::Call(_, args) => args.$iter().for_each($f),
            Node::Routine(routine) => routine.$operands().$iter().for_each($f),
        }
    };
}

/// Calls `f` with each direct operand.
pub fn children<'e>(expr: &'e Expr, f: &mut impl FnMut(&'e Expr)) {
    each_operand!(&expr.node, f, iter, operands)
}

/// Calls `f` with each direct operand, to change it.
pub fn children_mut(expr: &mut Expr, f: &mut impl FnMut(&mut Expr)) {
    each_operand!(&mut expr.node, f, iter_mut, operands_mut)
}

/// Elements of the list of a node that may have a long one, else none.
fn list_len(node: &Node) -> usize {
    match node {
        Node::In { list, .. } => list.len(),
        Node::And(parts) | Node::Or(parts) | Node::Coalesce(parts) => parts.len(),
        Node::Case { whens, .. } => whens.len(),
        Node::Call(_, args) => args.len(),
        _ => 0,
    }
}

/// Calls `f` with the expression and everything in it, from the top.
pub fn visit<'e>(expr: &'e Expr, f: &mut impl FnMut(&'e Expr)) {
    fn go<'e>(expr: &'e Expr, f: &mut dyn FnMut(&'e Expr)) {
        f(expr);
        if list_len(&expr.node) > LONG_LIST {
            children(expr, &mut |child| {
                fiber::tick();
                go(child, f);
            });
        } else {
            children(expr, &mut |child| go(child, f));
        }
    }
    go(expr, f);
}

/// Whether the expression has no more than so many parts, and no more levels of them.
pub fn is_within(expr: &Expr, nodes: usize, levels: usize) -> bool {
    fn count(expr: &Expr, left: &mut usize, levels: usize) {
        if *left == 0 || levels == 0 {
            *left = 0;
            return;
        }
        *left -= 1;
        children(expr, &mut |child| count(child, left, levels - 1));
    }
    let mut left = nodes;
    count(expr, &mut left, levels);
    left > 0
}

/// Calls `f` with the expression and everything in it, operands first.
pub fn visit_mut(expr: &mut Expr, f: &mut impl FnMut(&mut Expr)) {
    fn go(expr: &mut Expr, f: &mut dyn FnMut(&mut Expr)) {
        children_mut(expr, &mut |child| go(child, f));
        f(expr);
    }
    go(expr, f);
}

/// What an expression depends on.
pub fn facts(expr: &Expr) -> Facts {
    let mut facts = Facts::default();
    visit(expr, &mut |e| match &e.node {
        Node::Column(_) => facts.columns = true,
        Node::Outer { .. } => facts.outer = true,
        Node::Above { expr, .. } => {
            let inner = self::facts(expr);
            (facts.outer, facts.subquery) = (true, true);
            facts.volatile |= inner.volatile || inner.assigns;
            facts.varies |= inner.varies || inner.assigns;
        }
        Node::Param(_) => facts.params = true,
        Node::Aggregate(_) => facts.aggregates = true,
        Node::Window(_) => facts.windows = true,
        Node::AssignUserVar(..) | Node::UserVar(_, true) => facts.assigns = true,
        Node::Call(function, _) if !function.pure => (facts.volatile, facts.varies) = (true, true),
        Node::Routine(routine) => {
            match routine.is_query() {
                true => {
                    facts.subquery = true;
                    facts.varies |= routine.is_volatile();
                }
                false => facts.sequences = true,
            }
            for column in routine.reads() {
                if column.0 == 1 { facts.columns = true } else { facts.outer = true }
            }
            facts.volatile |= routine.is_volatile();
        }
        _ => {}
    });
    facts
}

/// Bits of the slots whose columns an expression reads (slot 63 stands for all above).
pub fn slots_read(expr: &Expr) -> u64 {
    let mut slots = 0;
    for_each_column(expr, &mut |slot, _| slots |= 1 << slot.min(63));
    slots
}

/// Whether anything of it is kept per execution, in cells of its query block.
pub fn has_cells(expr: &Expr) -> bool {
    let mut found = false;
    visit(expr, &mut |e| {
        found |= match &e.node {
            Node::Once(..) | Node::OneOf(..) => true,
            Node::Routine(routine) => routine.is_query(),
            Node::In { sorted, .. } => sorted.is_some(),
            Node::Call(function, args) => func::kept_by(function, args).is_some(),
            _ => false,
        }
    });
    found
}

/// Calls `f` with the slot and place of each column of this query block that an expression reads, subqueries' included.
pub fn for_each_column(expr: &Expr, f: &mut impl FnMut(u16, u16)) {
    visit(expr, &mut |e| match &e.node {
        Node::Column(column) => f(column.slot, column.column),
        Node::Routine(routine) => {
            routine.reads().iter().filter(|r| r.0 == 1).for_each(|r| f(r.1, r.2));
        }
        _ => {}
    });
}

/// Calls `f` with the level, slot and place of each column that an expression reads; level 0 is this query block.
pub fn for_each_read(expr: &Expr, f: &mut impl FnMut(u16, u16, u16)) {
    fn go(expr: &Expr, f: &mut dyn FnMut(u16, u16, u16)) {
        visit(expr, &mut |e| match &e.node {
            Node::Column(column) => f(0, column.slot, column.column),
            Node::Outer { level, column } => f(*level, column.slot, column.column),
            Node::Above { level, expr } => {
                go(expr, &mut |inner, slot, column| f(inner + level, slot, column))
            }
            Node::Routine(routine) => routine.reads().iter().for_each(|r| f(r.0 - 1, r.1, r.2)),
            _ => {}
        });
    }
    go(expr, f);
}

/// Wraps an expression, which is then evaluated once in an execution.
pub fn keep_once(expr: &mut Expr, count: &mut u32) {
    let inner = std::mem::replace(expr, Expr::null());
    let (ty, nullable, derivation) = (inner.ty.clone(), inner.nullable, inner.derivation);
    *expr = Expr { node: Node::Once(*count, Box::new(inner)), ty, nullable, derivation };
    *count += 1;
}

/// Wraps the subqueries that are constant for an execution.
pub fn hoist_subqueries(expr: &mut Expr, count: &mut u32) {
    match &expr.node {
        Node::Once(..) => {}
        Node::Routine(routine) if routine.is_query() && facts(expr).is_constant() => keep_once(expr, count),
        _ => children_mut(expr, &mut |child| hoist_subqueries(child, count)),
    }
}

/// Wraps the greatest parts that are constant for an execution, unless they are values already.
pub fn hoist(expr: &mut Expr, count: &mut u32) {
    match &expr.node {
        Node::Constant(_)
        | Node::Param(_)
        | Node::Once(..)
        | Node::Column(_)
        | Node::Outer { .. }
        | Node::Above { .. }
        | Node::Row(_) => {
            return;
        }
        _ => {}
    }
    if facts(expr).is_constant() {
        return keep_once(expr, count);
    }
    children_mut(expr, &mut |child| hoist(child, count));
}

/// Whether expressions read no slot but one.
pub fn only_reads(exprs: &[Expr], slot: u16) -> bool {
    exprs.iter().all(|expr| slots_read(expr) & !(1 << slot) == 0)
}

/// Whether two expressions compute the same from the same row.
pub fn same(a: &Expr, b: &Expr) -> bool {
    alike(a, b, false)
}

/// Whether two expressions are made of the same parts, also where each would compute another value, as RAND() does.
pub fn same_parts(a: &Expr, b: &Expr) -> bool {
    alike(a, b, true)
}

fn alike(a: &Expr, b: &Expr, volatile: bool) -> bool {
    match (&a.node, &b.node) {
        (Node::Column(x), Node::Column(y)) => x.slot == y.slot && x.column == y.column,
        // The same column, also where its expression gives another value each time; under another name its parts tell.
        (Node::Generated(_, x), Node::Generated(_, y))
            if x.slot == y.slot && x.column == y.column && x.slot != OUTSIDE =>
        {
            true
        }
        (Node::Constant(x), Node::Constant(y)) => x == y && a.ty == b.ty,
        (Node::Param(x), Node::Param(y)) => x == y,
        (Node::Once(_, x), Node::Once(_, y)) => alike(x, y, volatile),
        (Node::Once(_, x), _) => alike(x, b, volatile),
        (_, Node::Once(_, y)) => alike(a, y, volatile),
        (Node::Outer { level: l, column: x }, Node::Outer { level: m, column: y }) => {
            l == m && x.slot == y.slot && x.column == y.column
        }
        (Node::Above { level: l, expr: x }, Node::Above { level: m, expr: y }) => {
            l == m && alike(x, y, volatile)
        }
        (Node::Routine(x), Node::Routine(y)) => volatile && x.asks_same(&**y),
        (Node::Routine(_), _) | (_, Node::Routine(_)) => false,
        _ => same_shape(a, b, volatile),
    }
}

fn same_shape(a: &Expr, b: &Expr, volatile: bool) -> bool {
    use std::mem::discriminant;
    if discriminant(&a.node) != discriminant(&b.node) || a.ty != b.ty {
        return false;
    }
    let is_alike = match (&a.node, &b.node) {
        (Node::Compare { op: x, by: p, .. }, Node::Compare { op: y, by: q, .. }) => x == y && p == q,
        (Node::Arith(x, ..), Node::Arith(y, ..)) => x == y,
        (Node::Bits(x, ..), Node::Bits(y, ..)) => x == y,
        (Node::Call(x, _), Node::Call(y, _)) => std::ptr::eq(*x, *y) && (x.pure || volatile),
        (Node::UserVar(x, _), Node::UserVar(y, _)) => x == y,
        (Node::SysVar(s, x), Node::SysVar(t, y)) => s == t && x == y,
        (Node::Aggregate(x), Node::Aggregate(y)) | (Node::Window(x), Node::Window(y)) => x == y,
        (Node::AssignUserVar(..), _) => false,
        (Node::Between { negated: x, .. }, Node::Between { negated: y, .. })
        | (Node::In { negated: x, .. }, Node::In { negated: y, .. })
        | (Node::IsNull { negated: x, .. }, Node::IsNull { negated: y, .. }) => x == y,
        (Node::Like { negated: x, escape: p, .. }, Node::Like { negated: y, escape: q, .. }) => {
            x == y && p == q
        }
        (Node::IsTruth { negated: x, test: p, .. }, Node::IsTruth { negated: y, test: q, .. }) => {
            x == y && p == q
        }
        (Node::DateArith { unit: x, subtract: p, .. }, Node::DateArith { unit: y, subtract: q, .. }) => {
            x == y && p == q
        }
        (Node::Case { otherwise: x, .. }, Node::Case { otherwise: y, .. }) => x.is_some() == y.is_some(),
        _ => true,
    };
    if !is_alike {
        return false;
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    children(a, &mut |e| left.push(e));
    children(b, &mut |e| right.push(e));
    left.len() == right.len() && left.into_iter().zip(right).all(|(x, y)| alike(x, y, volatile))
}

//! Conditions that are asked of rows where they stand, before a scan copies them out of their leaf.
//!
//! A condition that compares a column with a value which is known when the reader opens becomes a test of the stored
//! octets: ordinals ([`Layout::ordinal`]) or texts. Conditions are taken in their order up to the first of
//! another kind, so that what may warn or fail is asked of the rows that it was asked of before.

use keel_value::row::{Layout, Ordinal, RowRef};
use keel_value::{CollationId, TypeKind, ValueRef, collation};

use crate::expr::{CompareOp, Comparison, Expr, Frame, Node};

/// Tests of a row, all of which it must pass.
pub(super) struct Sieve {
    tests: Vec<Test>,
    /// Conditions that they stand for.
    pub conditions: usize,
}

enum Test {
    /// The column's ordinal lies between these, or it does not.
    Range { column: usize, low: i64, high: i64, inside: bool },
    /// The column's text compares so with this one.
    Text { column: usize, by: CollationId, op: CompareOp, text: Box<[u8]> },
    /// The column's ordinal is one of these, or it is none.
    Among { column: usize, ordinals: Box<[i64]>, inside: bool },
    /// The column's text is like a pattern, or it is not.
    Like { column: usize, by: CollationId, pattern: Box<[u8]>, escape: Option<char>, matches: bool },
}

impl Sieve {
    /// The tests that the first of `conditions` make on rows in `slot`; none where the first is of another kind.
    pub fn new(conditions: &[Expr], slot: u16, layout: &Layout, frame: &Frame<'_>) -> Option<Sieve> {
        let mut sieve = Sieve { tests: Vec::new(), conditions: 0 };
        for condition in conditions {
            if sieve.add(condition, slot, layout, frame).is_none() {
                break;
            }
            sieve.conditions += 1;
        }
        (sieve.conditions > 0).then_some(sieve)
    }

    /// Whether a row passes.
    #[inline]
    pub fn passes(&self, layout: &Layout, row: &[u8]) -> bool {
        let row = RowRef::new(layout, row);
        self.tests.iter().all(|test| match test {
            Test::Range { column, low, high, inside } => {
                row.ordinal(*column).is_some_and(|v| (*low <= v && v <= *high) == *inside)
            }
            Test::Text { column, by, op, text } => match row.get(*column) {
                ValueRef::Bytes(own) => op.holds(collation::compare(*by, own, text)),
                _ => false,
            },
            Test::Among { column, ordinals, inside } => {
                row.ordinal(*column).is_some_and(|v| ordinals.binary_search(&v).is_ok() == *inside)
            }
            Test::Like { column, by, pattern, escape, matches } => match row.get(*column) {
                ValueRef::Bytes(own) => collation::like_match(*by, own, pattern, *escape) == *matches,
                _ => false,
            },
        })
    }

    /// Adds the tests of a condition; none where it is of another kind.
    fn add(&mut self, condition: &Expr, slot: u16, layout: &Layout, frame: &Frame<'_>) -> Option<()> {
        match &condition.node {
            Node::Compare { op, by, left, right } => match column_of(left, slot) {
                Some(column) => self.compare(column, left, *op, *by, right, slot, layout, frame),
                None => {
                    let column = column_of(right, slot)?;
                    self.compare(column, right, mirrored(*op), *by, left, slot, layout, frame)
                }
            },
            Node::Between { negated: false, by, value, low, high } => {
                let column = column_of(value, slot)?;
                let before = self.tests.len();
                let both =
                    self.compare(column, value, CompareOp::Ge, *by, low, slot, layout, frame).and_then(
                        |()| self.compare(column, value, CompareOp::Le, *by, high, slot, layout, frame),
                    );
                if both.is_none() {
                    self.tests.truncate(before);
                }
                both
            }
            Node::In { negated, by, value, list, .. } => {
                let column = column_of(value, slot)?;
                let of = |element: &Expr| ordinal_of(*by, column, slot, element, layout, frame);
                let found: Option<Vec<Ordinal>> = list.iter().map(of).collect();
                // What lies between ordinals equals none.
                let exact = found?.into_iter().filter(|ordinal| ordinal.exact);
                let mut ordinals: Vec<i64> = exact.filter_map(|o| i64::try_from(o.floor).ok()).collect();
                ordinals.sort_unstable();
                self.tests.push(Test::Among { column, ordinals: ordinals.into(), inside: !negated });
                Some(())
            }
            Node::Like { negated, collation: by, value, pattern, escape } if value.ty.is_string() => {
                let column = column_of(value, slot)?;
                let pattern = known(pattern, slot, frame)?.as_bytes()?.into();
                self.tests.push(Test::Like { column, by: *by, pattern, escape: *escape, matches: !negated });
                Some(())
            }
            _ => None,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a comparison and where it stands")]
    fn compare(
        &mut self,
        column: usize,
        own: &Expr,
        op: CompareOp,
        by: Comparison,
        other: &Expr,
        slot: u16,
        layout: &Layout,
        frame: &Frame<'_>,
    ) -> Option<()> {
        if op == CompareOp::NullSafeEq {
            return None;
        }
        let test = match by {
            Comparison::Text(by) if own.ty.is_string() => {
                let text = known(other, slot, frame)?.as_bytes()?.into();
                Test::Text { column, by, op, text }
            }
            _ => range(column, op, ordinal_of(by, column, slot, other, layout, frame)?),
        };
        self.tests.push(test);
        Some(())
    }
}

/// The column of the rows in `slot` that an expression is, if its stored octets are its value.
fn column_of(expr: &Expr, slot: u16) -> Option<usize> {
    let column = expr.as_column().filter(|column| column.slot == slot)?;
    (expr.ty.kind != TypeKind::Timestamp).then_some(column.column as usize)
}

/// The value of an expression, where it is the same for all rows in `slot`.
fn known<'f>(expr: &'f Expr, slot: u16, frame: &Frame<'f>) -> Option<ValueRef<'f>> {
    let elsewhere = expr.as_column().is_none_or(|column| column.slot != slot);
    expr.at_hand(frame).filter(|_| elsewhere)
}

/// Where a known value that a column is compared with stands among the column's.
fn ordinal_of(
    by: Comparison,
    column: usize,
    slot: u16,
    other: &Expr,
    layout: &Layout,
    frame: &Frame<'_>,
) -> Option<Ordinal> {
    let value = known(other, slot, frame)?;
    let fits = match (by, value) {
        (Comparison::Int | Comparison::Decimal, ValueRef::Int(_)) => true,
        (Comparison::Int | Comparison::Decimal, ValueRef::UInt(_)) => other.ty.is_integer(),
        // `=` and its like round what has more digits than its type.
        (Comparison::Decimal, ValueRef::Decimal(v)) => {
            v.scale() <= other.ty.decimals || other.ty.kind != TypeKind::Decimal
        }
        (Comparison::Date | Comparison::DateTime, ValueRef::Date(_) | ValueRef::DateTime(_)) => true,
        _ => false,
    };
    layout.ordinal(column, value).filter(|_| fits)
}

/// The operator with its sides changed.
fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        CompareOp::Eq | CompareOp::NullSafeEq | CompareOp::Ne => op,
    }
}

/// Ordinals that compare so with a value.
fn range(column: usize, op: CompareOp, Ordinal { floor, exact }: Ordinal) -> Test {
    let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
    let (low, high, inside) = match op {
        CompareOp::Eq | CompareOp::NullSafeEq if exact => (floor, floor, true),
        CompareOp::Eq | CompareOp::NullSafeEq => (most, least, true),
        CompareOp::Ne if exact => (floor, floor, false),
        CompareOp::Ne => (most, least, false),
        CompareOp::Lt if exact => (least, floor - 1, true),
        CompareOp::Lt | CompareOp::Le => (least, floor, true),
        CompareOp::Ge if exact => (floor, most, true),
        CompareOp::Gt | CompareOp::Ge => (floor + 1, most, true),
    };
    match (i64::try_from(low.max(least)), i64::try_from(high.min(most))) {
        (Ok(low), Ok(high)) => Test::Range { column, low, high, inside },
        // Nothing lies there.
        _ => Test::Range { column, low: i64::MAX, high: i64::MIN, inside },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_their_operators() {
        use CompareOp::{Eq, Ge, Gt, Le, Lt, Ne};
        for (exact, at) in [(true, 0.0), (false, 0.5)] {
            for floor in [-3i64, 0, i64::MIN, i64::MAX] {
                for op in [Eq, Ne, Lt, Le, Gt, Ge] {
                    let test = range(0, op, Ordinal { floor: floor.into(), exact });
                    let Test::Range { low, high, inside, .. } = test else { panic!("no range") };
                    for step in [-2, -1, 0, 1, 2] {
                        let Some(v) = floor.checked_add(step) else { continue };
                        let wanted = op.holds((step as f64).total_cmp(&at));
                        assert_eq!((low <= v && v <= high) == inside, wanted, "{v} {op:?} {floor} {exact}");
                    }
                }
            }
        }
        let beyond = Ordinal { floor: i128::from(i64::MAX) + 5, exact: true };
        for (op, wanted) in [(Lt, true), (Gt, false), (Eq, false), (Ne, true)] {
            let Test::Range { low, high, inside, .. } = range(0, op, beyond) else { panic!("no range") };
            assert_eq!((low <= 7 && 7 <= high) == inside, wanted, "{op:?}");
        }
    }
}

//! What predicates say about single columns of one table: the raw material of index ranges.

use keel_catalog::TableDef;
use keel_exec::access::{PartCondition, bounds};
use keel_exec::select::{Subquery, SubqueryTest};
use keel_expr::{CompareOp, Comparison, Expr, Node, walk};
use keel_storage::runtime::fiber;
use keel_value::types::Class;
use keel_value::{SqlType, TypeKind};

/// A condition on a column.
#[derive(Clone)]
pub(super) struct Found {
    /// The column.
    pub column: usize,
    /// What it must fulfil.
    pub condition: PartCondition,
    /// The predicate it comes from.
    pub predicate: usize,
    /// It says all that the predicate says; else the predicate is asked as well.
    pub whole: bool,
}

/// The table whose rows are sought, and what is known when they are.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub table: &'a TableDef,
    pub slot: u16,
    pub known: &'a dyn Fn(u16) -> bool,
    /// The table is opened once: then a query may say which values are sought.
    pub once: bool,
    /// Columns of bits are sought by the bytes of a constant text, as MariaDB stores it in such a column.
    pub by_bytes: bool,
}

impl Target<'_> {
    /// The conditions that a predicate, true for every row wanted, puts on columns.
    pub fn conditions(&self, predicate: &Expr, number: usize, out: &mut Vec<Found>) {
        match &predicate.node {
            Node::And(parts) => parts.iter().for_each(|p| self.conditions(p, number, out)),
            Node::Compare { op, by, left, right } => self.comparison(*op, *by, left, right, number, out),
            Node::Between { negated: false, by, value, low, high } => {
                self.between(*by, value, low, high, number, out);
            }
            Node::In { negated: false, by, value, list, .. } => {
                if let ([only], Some(column)) = (&list[..], self.column(value, *by, true))
                    && self.bits_of(column, only).is_some()
                {
                    self.comparison(CompareOp::Eq, *by, value, only, number, out);
                } else if let Some(column) = self.column(value, *by, true)
                    && list.iter().inspect(|_| fiber::tick()).all(|e| self.is_known(e))
                {
                    out.push(Found {
                        column,
                        condition: PartCondition::In(list.as_slice().into()),
                        predicate: number,
                        whole: true,
                    });
                }
            }
            Node::Routine(routine) if self.once => {
                if let Some(subquery) = routine.downcast_ref::<Subquery>()
                    && let SubqueryTest::In { negated: false, operands, by } = &subquery.test
                    && let ([operand], [by]) = (&operands[..], &by[..])
                    && subquery.reads.is_empty()
                    && !subquery.volatile
                    && let Some(column) = self.column(operand, *by, true)
                {
                    let rows = subquery.plan.expected_rows();
                    let condition = PartCondition::InQuery(Box::new(subquery.clone()), rows);
                    out.push(Found { column, condition, predicate: number, whole: true });
                }
            }
            Node::IsNull { negated, value } => {
                if let Some(column) = self.own_column(value) {
                    let condition = if *negated {
                        PartCondition::Range { lower: None, upper: None }
                    } else {
                        PartCondition::IsNull
                    };
                    out.push(Found { column, condition, predicate: number, whole: true });
                }
            }
            Node::Like { negated: false, collation, value, pattern, escape }
                if !matches!(escape, Some('%' | '_')) =>
            {
                if let Some(column) = self.own_column(value)
                    && bounds::takes_like(&self.table.columns[column].ty)
                    && self.table.columns[column].ty.collation == *collation
                    && self.is_known(pattern)
                {
                    let condition = PartCondition::Like { pattern: (**pattern).clone(), escape: *escape };
                    out.push(Found { column, condition, predicate: number, whole: true });
                }
            }
            _ => {}
        }
    }

    fn comparison(
        &self,
        op: CompareOp,
        by: Comparison,
        left: &Expr,
        right: &Expr,
        predicate: usize,
        out: &mut Vec<Found>,
    ) {
        let equality = matches!(op, CompareOp::Eq | CompareOp::NullSafeEq);
        let sides = [(left, right, op), (right, left, op.swapped())];
        for (column, value, op) in sides {
            let Some(column) = self.column(column, by, equality) else { continue };
            if !self.is_known(value) {
                continue;
            }
            let text = self.bits_of(column, value);
            let (value, whole) = match text {
                Some(text) => (text.clone(), equality),
                None => (value.clone(), true),
            };
            let condition = match op {
                CompareOp::NullSafeEq if text.is_some() && !value.nullable => PartCondition::Equal(value),
                CompareOp::Eq => PartCondition::Equal(value),
                CompareOp::NullSafeEq => PartCondition::NullSafeEqual(value),
                CompareOp::Lt => PartCondition::Range { lower: None, upper: Some((value, false)) },
                CompareOp::Le => PartCondition::Range { lower: None, upper: Some((value, true)) },
                CompareOp::Gt => PartCondition::Range { lower: Some((value, false)), upper: None },
                CompareOp::Ge => PartCondition::Range { lower: Some((value, true)), upper: None },
                CompareOp::Ne => continue,
            };
            out.push(Found { column, condition, predicate, whole });
        }
    }

    /// The constant text that a column of bits is compared with. By an index its bytes are sought, although it is compared as a number.
    fn bits_of<'e>(&self, column: usize, value: &'e Expr) -> Option<&'e Expr> {
        let is_bits = self.table.columns[column].ty.kind == TypeKind::Bit;
        text_behind(value).filter(|text| self.by_bytes && is_bits && text.is_constant())
    }

    fn between(
        &self,
        by: Comparison,
        value: &Expr,
        low: &Expr,
        high: &Expr,
        predicate: usize,
        out: &mut Vec<Found>,
    ) {
        let Some(column) = self.column(value, by, false) else { return };
        let bits = [low, high].map(|e| self.bits_of(column, e));
        let bound =
            |e: &Expr, bits: Option<&Expr>| self.is_known(e).then(|| (bits.unwrap_or(e).clone(), true));
        let (lower, upper) = (bound(low, bits[0]), bound(high, bits[1]));
        if lower.is_some() || upper.is_some() {
            let whole = lower.is_some() && upper.is_some() && bits.iter().all(Option::is_none);
            out.push(Found { column, condition: PartCondition::Range { lower, upper }, predicate, whole });
        }
    }

    /// The column of this table that an operand is, if its index order agrees with the comparison.
    fn column(&self, operand: &Expr, by: Comparison, equality: bool) -> Option<usize> {
        let column = self.own_column(operand)?;
        agrees(&self.table.columns[column].ty, by, equality).then_some(column)
    }

    fn own_column(&self, operand: &Expr) -> Option<usize> {
        operand.as_column().filter(|c| c.slot == self.slot).map(|c| c.column as usize)
    }

    /// Whether an operand has its value when this table is read.
    fn is_known(&self, operand: &Expr) -> bool {
        if matches!(operand.node, Node::Row(_)) {
            return false;
        }
        if matches!(operand.node, Node::Constant(_) | Node::Param(_)) {
            return true;
        }
        let facts = walk::facts(operand);
        if facts.volatile || facts.assigns || facts.aggregates {
            return false;
        }
        let mut known = true;
        walk::for_each_column(operand, &mut |slot, _| known &= slot != self.slot && (self.known)(slot));
        known
    }
}

/// The text that an expression converts.
fn text_behind(expr: &Expr) -> Option<&Expr> {
    match &expr.node {
        _ if expr.ty.is_string() => Some(expr),
        Node::Once(_, inner) | Node::Convert(inner) => text_behind(inner),
        _ => None,
    }
}

/// Whether comparing a column of `ty` in a domain agrees with the order of its index.
fn agrees(ty: &SqlType, by: Comparison, equality: bool) -> bool {
    match ty.class() {
        _ if ty.has_members() => equality && by == Comparison::Text(ty.collation),
        Class::Int | Class::Decimal | Class::Real => {
            ty.kind != TypeKind::Year
                && matches!(by, Comparison::Int | Comparison::Decimal | Comparison::Real)
        }
        Class::String => by == Comparison::Text(ty.collation),
        Class::Date | Class::DateTime => matches!(by, Comparison::Date | Comparison::DateTime),
        Class::Time => by == Comparison::Time,
        Class::Fixed(kind) => by == Comparison::Fixed(kind),
        Class::Null => false,
    }
}

//! Expressions of generated columns that rows or indexes keep, and whose values would follow `sql_mode`: 1901.

use keel_catalog::{ColumnDef, names};
use keel_expr::{ArithOp, Expr, Node, walk};
use keel_sql::ast::walk::Part;
use keel_sql::ast::{self, BinaryOp, LiteralValue, TrimSide};
use keel_value::types::Class;
use keel_value::{CollationId, SqlType, TypeKind, Value};

/// The first mode that the value of a kept column depends on; `tree` is its expression and `bound` the same, bound.
pub(super) fn dependence(
    tree: &ast::Expr,
    bound: &Expr,
    column: &ColumnDef,
    columns: &[ColumnDef],
) -> Option<&'static str> {
    if shows_padding(tree, columns) {
        return Some("PAD_CHAR_TO_FULL_LENGTH");
    }
    let mut mode = rounds(&column.ty, bound).then_some("TIME_ROUND_FRACTIONAL");
    walk::visit(bound, &mut |expr| {
        let found = match &expr.node {
            Node::Arith(ArithOp::Sub, a, b)
                if expr.class() == Class::Int && (a.ty.unsigned || b.ty.unsigned) =>
            {
                Some("NO_UNSIGNED_SUBTRACTION")
            }
            Node::Cast(inner) if rounds(&expr.ty, inner) => Some("TIME_ROUND_FRACTIONAL"),
            _ => None,
        };
        mode = mode.or(found);
    });
    mode
}

/// Whether fractions of seconds get lost, cut off or rounded as the mode says, where a value becomes one of `ty`.
fn rounds(ty: &SqlType, value: &Expr) -> bool {
    let is_time = matches!(ty.kind, TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp);
    is_time && fraction_digits(value) > ty.decimals
}

/// Digits of the fraction of a second that a value may have.
fn fraction_digits(value: &Expr) -> u8 {
    const MOST: u8 = 6;
    match value.class() {
        Class::Int | Class::Null | Class::Date => 0,
        Class::String => match &value.node {
            Node::Constant(Value::Bytes(text)) => {
                let fraction = text.iter().rev().position(|byte| *byte == b'.');
                fraction.map_or(0, |digits| digits.min(usize::from(MOST)) as u8)
            }
            _ => MOST,
        },
        _ => value.ty.decimals.min(MOST),
    }
}

/// Whether the blanks that pad the CHAR columns of an expression show in its value.
fn shows_padding(tree: &ast::Expr, columns: &[ColumnDef]) -> bool {
    use ast::Expr as T;
    let hides = |expr: &ast::Expr| padded(expr, columns).is_some();
    let shows = |expr: &ast::Expr| shows_padding(expr, columns);
    match tree {
        T::Column(_) => hides(tree),
        T::Binary { op: BinaryOp::And | BinaryOp::Or, left, right } => {
            [left, right].into_iter().any(|side| !hides(truth_of(side)) && shows(side))
        }
        T::Binary {
            op:
                BinaryOp::Eq
                | BinaryOp::NullSafeEq
                | BinaryOp::Ne
                | BinaryOp::Lt
                | BinaryOp::Le
                | BinaryOp::Gt
                | BinaryOp::Ge,
            left,
            right,
        } => compared_shows(left, right, columns),
        T::InList { expr, list, .. } if list.len() == 1 => compared_shows(expr, &list[0], columns),
        T::Like { expr, pattern, .. } => !hides(expr) && shows(expr) || shows(pattern),
        T::Trim { side: TrimSide::Both | TrimSide::Trailing, what, expr, .. }
            if what.as_deref().is_none_or(is_blank) && hides(expr) =>
        {
            false
        }
        T::Function(call) if call.name == "rtrim" && call.args.first().is_some_and(hides) => false,
        T::Function(call) if call.name == "rpad" && fills(&call.args, columns) => false,
        _ => {
            let mut found = false;
            tree.each_part(&mut |part| match part {
                Part::Expr(expr) => found |= shows(expr),
                Part::Query(_) => {}
            });
            found
        }
    }
}

/// The same of a comparison: texts compare without their blanks, numbers are read from texts.
fn compared_shows(left: &ast::Expr, right: &ast::Expr, columns: &[ColumnDef]) -> bool {
    let hides = |expr, other| padded(expr, columns).is_some() && !is_number(other, columns);
    [(left, right), (right, left)]
        .into_iter()
        .any(|(side, other)| !hides(side, other) && shows_padding(side, columns))
}

/// The expression whose truth `a <> 0` is, as kept texts write it.
fn truth_of(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Binary { op: BinaryOp::Ne, left, right } if is_zero(right) => left,
        _ => expr,
    }
}

fn is_zero(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Literal(literal) if literal.value == LiteralValue::Int(0))
}

/// Whether an expression is a number, or a column of numbers.
fn is_number(expr: &ast::Expr, columns: &[ColumnDef]) -> bool {
    match expr {
        ast::Expr::Literal(literal) => {
            matches!(literal.value, LiteralValue::Int(_) | LiteralValue::Decimal(_) | LiteralValue::Float(_))
        }
        ast::Expr::Column(name) => {
            let column = columns.iter().find(|column| names::same(&column.name, &name.column));
            column
                .is_some_and(|column| matches!(column.ty.class(), Class::Int | Class::Decimal | Class::Real))
        }
        _ => false,
    }
}

/// The characters of a CHAR column that an expression is.
fn padded(expr: &ast::Expr, columns: &[ColumnDef]) -> Option<u32> {
    let ast::Expr::Column(name) = expr else { return None };
    let column = columns.iter().find(|column| names::same(&column.name, &name.column))?;
    (column.ty.kind == TypeKind::Char && column.ty.collation != CollationId::BINARY)
        .then_some(column.ty.length)
}

/// Whether RPAD() of a CHAR column gives it all the blanks that it can have.
fn fills(args: &[ast::Expr], columns: &[ColumnDef]) -> bool {
    let (Some(chars), Some(length)) = (args.first().and_then(|arg| padded(arg, columns)), args.get(1)) else {
        return false;
    };
    let ast::Expr::Literal(length) = length else { return false };
    let LiteralValue::Int(length) = &length.value else { return false };
    args.get(2).is_none_or(is_blank) && *length >= u64::from(chars)
}

fn is_blank(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Literal(literal)
        if matches!(&literal.value, LiteralValue::String { bytes, .. } if *bytes.0 == *b" "))
}

//! Arithmetic and operators over bits.
//!
//! Integers are computed in 128 bits and checked against 64 signed or unsigned ones; what does not fit is 1690 with the
//! expression's text. Division by zero is NULL, with 1365 where `sql_mode` asks for it.

use keel_base::{SqlError, SqlResult, errors};
use keel_value::types::Class;
use keel_value::{Cell, Decimal, SqlMode, Value, ValueRef};

use super::typing::WORD_DIGITS;
use super::{ArithOp, BitOp, EvalContext, Expr, print, typing};

const NULL: Cell<'static> = Cell::Ref(ValueRef::Null);

pub(super) fn binary<'f>(
    expr: &'f Expr,
    op: ArithOp,
    left: &'f Expr,
    right: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cell<'f>> {
    match expr.class() {
        Class::Int => integers(expr, op, left, right, cx),
        Class::Decimal => decimals(expr, op, left, right, cx),
        _ => reals(expr, op, left, right, cx),
    }
}

fn integers<'f>(
    expr: &'f Expr,
    op: ArithOp,
    left: &'f Expr,
    right: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cell<'f>> {
    if op == ArithOp::IntDiv && (left.class() != Class::Int || right.class() != Class::Int) {
        return divide_to_integer(expr, left, right, cx);
    }
    let Some(a) = left.integer(cx)? else { return Ok(NULL) };
    let Some(b) = right.integer(cx)? else { return Ok(NULL) };
    let result = match op {
        ArithOp::Add => a.checked_add(b),
        ArithOp::Sub => a.checked_sub(b),
        ArithOp::Mul => a.checked_mul(b),
        ArithOp::Div | ArithOp::IntDiv | ArithOp::Mod if b == 0 => return by_zero(cx),
        ArithOp::Div | ArithOp::IntDiv => a.checked_div(b),
        ArithOp::Mod => a.checked_rem(b),
    };
    match result.and_then(|v| fit(v, expr.ty.unsigned)) {
        Some(value) => Ok(Cell::Ref(value)),
        None => Err(out_of_range(expr, cx)),
    }
}

/// A result as BIGINT or BIGINT UNSIGNED.
fn fit(value: i128, unsigned: bool) -> Option<ValueRef<'static>> {
    if unsigned {
        u64::try_from(value).ok().map(ValueRef::UInt)
    } else {
        i64::try_from(value).ok().map(ValueRef::Int)
    }
}

fn divide_to_integer<'f>(
    expr: &'f Expr,
    left: &'f Expr,
    right: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cell<'f>> {
    let Some(a) = left.decimal(cx)? else { return Ok(NULL) };
    let Some(b) = right.decimal(cx)? else { return Ok(NULL) };
    let Some(quotient) = a.div_integer(&b) else { return by_zero(cx) };
    let whole = match quotient.to_i64() {
        Ok(v) if !expr.ty.unsigned || v >= 0 => Some(i128::from(v)),
        _ => quotient.to_u64().ok().map(i128::from),
    };
    whole.and_then(|v| fit(v, expr.ty.unsigned)).map(Cell::Ref).ok_or_else(|| out_of_range(expr, cx))
}

fn decimals<'f>(
    expr: &'f Expr,
    op: ArithOp,
    left: &'f Expr,
    right: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cell<'f>> {
    let Some(a) = left.decimal(cx)? else { return Ok(NULL) };
    let Some(b) = right.decimal(cx)? else { return Ok(NULL) };
    let result = match op {
        ArithOp::Add => a.add(&b),
        ArithOp::Sub => a.sub(&b),
        ArithOp::Mul => a.mul(&b),
        ArithOp::Div | ArithOp::IntDiv => {
            // All digits of the words that MariaDB computes: what is shown, stored or compared of them is rounded there.
            let increment = u32::from(cx.env().vars.div_precision_increment);
            let wanted = u32::from(a.scale()) + u32::from(b.scale()) + increment;
            let digits = wanted.div_ceil(WORD_DIGITS) * WORD_DIGITS - u32::from(a.scale());
            match a.div(&b, digits as u8) {
                Ok(Some(quotient)) => Ok(quotient),
                Ok(None) => return by_zero(cx),
                Err(overflow) => Err(overflow),
            }
        }
        ArithOp::Mod => match a.rem(&b) {
            Some(rest) => Ok(rest),
            None => return by_zero(cx),
        },
    };
    match result {
        Ok(value) => Ok(Cell::Ref(ValueRef::Decimal(value))),
        Err(_) => Err(out_of_range(expr, cx)),
    }
}

fn reals<'f>(
    expr: &'f Expr,
    op: ArithOp,
    left: &'f Expr,
    right: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cell<'f>> {
    let Some(a) = left.real(cx)? else { return Ok(NULL) };
    let Some(b) = right.real(cx)? else { return Ok(NULL) };
    let result = match op {
        ArithOp::Add => a + b,
        ArithOp::Sub => a - b,
        ArithOp::Mul => a * b,
        ArithOp::Div | ArithOp::IntDiv | ArithOp::Mod if b == 0.0 => return by_zero(cx),
        ArithOp::Div => a / b,
        ArithOp::IntDiv => (a / b).trunc(),
        ArithOp::Mod => a % b,
    };
    if result.is_finite() { Ok(Cell::Ref(ValueRef::Double(result))) } else { Err(out_of_range(expr, cx)) }
}

fn by_zero<'f>(cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
    division_by_zero(cx)?;
    Ok(NULL)
}

/// Reports 1365 where `sql_mode` asks for it.
pub(crate) fn division_by_zero(cx: &mut EvalContext<'_, '_>) -> SqlResult<()> {
    if cx.env().vars.sql_mode.has(SqlMode::ERROR_FOR_DIVISION_BY_ZERO) {
        cx.warn(errors::division_by_zero())?;
    }
    Ok(())
}

/// 1690 for an expression of numeric type.
#[cold]
pub(crate) fn out_of_range(expr: &Expr, cx: &EvalContext<'_, '_>) -> SqlError {
    let kind = match expr.class() {
        Class::Int if expr.ty.unsigned => "BIGINT UNSIGNED",
        Class::Int => "BIGINT",
        Class::Decimal => "DECIMAL",
        _ => "DOUBLE",
    };
    errors::data_out_of_range(kind, print::text_of_execution(expr, cx.frame.params))
}

pub(super) fn negate<'f>(
    expr: &'f Expr,
    value: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cell<'f>> {
    Ok(match expr.class() {
        Class::Int => match value.integer(cx)? {
            Some(v) => Cell::Ref(fit(-v, false).ok_or_else(|| out_of_range(expr, cx))?),
            None => NULL,
        },
        Class::Decimal => match value.decimal(cx)? {
            Some(v) => Cell::Ref(ValueRef::Decimal(v.neg())),
            None => NULL,
        },
        _ => match value.real(cx)? {
            // MariaDB prints the result without a sign for zero.
            Some(v) => Cell::Ref(ValueRef::Double(if v == 0.0 { 0.0 } else { -v })),
            None => NULL,
        },
    })
}

/// An operand of a bit operator: any number as 64 bits, what is no integer by way of a decimal.
pub(crate) fn to_bits<'f>(value: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<u64>> {
    if value.class() == Class::Int || typing::is_hex(value) {
        return Ok(value.integer(cx)?.map(|v| v as u64));
    }
    let Some(number) = value.decimal(cx)? else { return Ok(None) };
    let whole = number.round(0);
    let (bits, kind) = if whole.is_negative() {
        match whole.to_i64() {
            Ok(v) => return Ok(Some(v as u64)),
            Err(bound) => (bound as u64, "INT"),
        }
    } else {
        match whole.to_u64() {
            Ok(v) => return Ok(Some(v)),
            Err(bound) => (bound, "UNSIGNED INT"),
        }
    };
    cx.warn(errors::data_overflow(number, kind))?;
    Ok(Some(bits))
}

pub(super) fn bits<'f>(
    op: BitOp,
    left: &'f Expr,
    right: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cell<'f>> {
    let Some(a) = to_bits(left, cx)? else { return Ok(NULL) };
    let is_shift = matches!(op, BitOp::ShiftLeft | BitOp::ShiftRight);
    let b = if is_shift { right.integer(cx)?.map(|v| v as u64) } else { to_bits(right, cx)? };
    let Some(b) = b else { return Ok(NULL) };
    // MariaDB keeps the lower half of what is said.
    let shift = b as u32;
    Ok(Cell::Ref(ValueRef::UInt(match op {
        BitOp::Or => a | b,
        BitOp::And => a & b,
        BitOp::Xor => a ^ b,
        BitOp::ShiftLeft => a.checked_shl(shift).unwrap_or(0),
        BitOp::ShiftRight => a.checked_shr(shift).unwrap_or(0),
    })))
}

pub(super) fn bit_not<'f>(value: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
    Ok(match to_bits(value, cx)? {
        Some(v) => Cell::Ref(ValueRef::UInt(!v)),
        None => NULL,
    })
}

/// A decimal as a value of a whole-number type where it fits, as CEIL and FLOOR give it.
pub(crate) fn whole(value: Decimal, as_integer: bool) -> Value {
    if !as_integer {
        return Value::Decimal(value);
    }
    match value.to_i64() {
        Ok(v) => Value::Int(v),
        Err(_) => value.to_u64().map_or(Value::Decimal(value), Value::UInt),
    }
}

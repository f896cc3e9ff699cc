//! Values on their way into columns: conversion, NULL, and what is a warning instead of an error.

use keel_base::{SqlResult, errors};
use keel_catalog::TableDef;
use keel_catalog::column_type::implicit_default;
use keel_exec::session::Session;
use keel_expr::typing;
use keel_planner::bind::bytes_as_number;
use keel_value::convert::{self, Problem, Target};
use keel_value::{Cell, Date, SqlType, TypeKind, Value, ValueRef};

/// How a statement treats values that do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strictness {
    /// Bad values are errors.
    pub strict: bool,
    /// NULL for a NOT NULL column is an error even where other bad values are not.
    pub null_is_error: bool,
}

impl Strictness {
    /// Of a statement: `ignore` makes warnings of all errors; `single` says that one row is inserted.
    pub fn of(session: &Session, ignore: bool, single: bool) -> Strictness {
        let strict = session.is_strict() && !ignore;
        Strictness { strict, null_is_error: (strict || single) && !ignore }
    }
}

/// Converts a value to what column `column` holds.
pub fn into_column(
    session: &mut Session,
    table: &TableDef,
    column: usize,
    from: &SqlType,
    value: Value,
    strictness: Strictness,
) -> SqlResult<Value> {
    let def = &table.columns[column];
    if value.is_null() {
        return if def.nullable { Ok(value) } else { null_into(session, table, column, strictness) };
    }
    if let Value::Int(v) = value
        && def.ty.is_integer()
        && !def.ty.unsigned
    {
        let (min, max) = def.ty.integer_range();
        if v >= min && v <= max as i64 {
            return Ok(value);
        }
    }
    if typing::is_hex_type(from)
        && def.ty.is_numeric()
        && def.ty.kind != TypeKind::Bit
        && let Value::Bytes(bytes) = &value
    {
        let (number, is_cut) = number_of_bytes(bytes, &def.ty);
        let stored =
            into_column(session, table, column, &SqlType::bigint_unsigned(), number.clone(), strictness)?;
        if is_cut && fits(session, &def.ty, &number) {
            let problem = Problem::OutOfRange;
            if strictness.strict {
                return Err(problem.to_error(target(session, table, column)));
            }
            let warning = problem.to_warning(target(session, table, column));
            session.push_warning(warning);
        }
        return Ok(stored);
    }
    // A BIT is a number in a temporal column, although it is compared with one by its bytes.
    let bits = SqlType::bigint_unsigned();
    let from = if from.is_octets_of_bits() && def.ty.is_temporal() { &bits } else { from };
    let today = if def.ty.is_temporal() { session.base_day() } else { Date::default() };
    let context = session.store_context(strictness.strict, today);
    let stored = match convert::store(&def.ty, from, value.as_ref(), &context) {
        Ok((Cell::Owned(stored), None)) => return Ok(stored),
        Ok((Cell::Ref(stored), None)) => {
            return Ok(if stored_is(&value, stored) { value } else { stored.to_owned() });
        }
        Ok((cell, problem)) => Ok((cell.into_value(), problem)),
        Err(problem) => Err(problem),
    };
    told(session, table, column, stored)
}

/// The same for text that is not NULL, by the date of today.
pub(crate) fn text_into_column(
    session: &mut Session,
    table: &TableDef,
    column: usize,
    (from, text): (&SqlType, &[u8]),
    today: Date,
    strictness: Strictness,
) -> SqlResult<Value> {
    let ty = &table.columns[column].ty;
    if ty.is_integer()
        && let Some(value) = digits_into(ty, text)
    {
        return Ok(value);
    }
    let context = session.store_context(strictness.strict, today);
    let stored = convert::store(ty, from, ValueRef::Bytes(text), &context);
    let stored = stored.map(|(cell, problem)| (cell.into_value(), problem));
    told(session, table, column, stored)
}

/// Digits of a column's integer as its value, where nothing else is there and it is in range.
#[inline]
fn digits_into(ty: &SqlType, text: &[u8]) -> Option<Value> {
    const DIGITS_MAX: usize = 18;
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0i64, |number, digit| number * 10 + i64::from(digit - b'0'));
    let number = if negative { -number } else { number };
    let (min, max) = ty.integer_range();
    if number < min || number > 0 && number as u64 > max {
        return None;
    }
    Some(if ty.unsigned { Value::UInt(number as u64) } else { Value::Int(number) })
}

/// What became of an assignment: a value, perhaps with warnings, or an error.
fn told(
    session: &mut Session,
    table: &TableDef,
    column: usize,
    stored: Result<(Value, Option<Problem>), Problem>,
) -> SqlResult<Value> {
    let (stored, problem) = match stored {
        Ok((stored, None)) => return Ok(stored),
        Ok((stored, Some(problem))) => (stored, problem),
        Err(problem) => return Err(problem.to_error(target(session, table, column))),
    };
    let second = problem.second();
    for problem in std::iter::once(problem).chain(second) {
        let warning = problem.to_warning(target(session, table, column));
        if session.vars.takes_notes() || !problem.is_note() {
            session.push_warning(warning);
        }
    }
    let def = &table.columns[column];
    if stored.is_null() && !def.nullable {
        return Ok(implicit_default(&def.ty));
    }
    Ok(stored)
}

/// `0x..` and `b'..'` are unsigned numbers in numeric columns. More than eight bytes are cut to the largest BIGINT, by the sign of
/// the column; says whether they were.
fn number_of_bytes(bytes: &[u8], to: &SqlType) -> (Value, bool) {
    let is_cut = bytes.len() > 8;
    let number = match is_cut {
        true if to.unsigned => u64::MAX,
        true => i64::MAX as u64,
        false => bytes_as_number(bytes),
    };
    (Value::UInt(number), is_cut)
}

/// Whether a column of a type holds an unsigned number as it is.
fn fits(session: &Session, to: &SqlType, number: &Value) -> bool {
    let context = session.store_context(false, Date::default());
    matches!(convert::store(to, &SqlType::bigint_unsigned(), number.as_ref(), &context), Ok((_, None)))
}

/// Whether a conversion gave back the very value, so that it need not be copied.
fn stored_is(value: &Value, stored: ValueRef<'_>) -> bool {
    match (value, stored) {
        (Value::Bytes(a), ValueRef::Bytes(b)) => std::ptr::eq(a.as_ptr(), b.as_ptr()) && a.len() == b.len(),
        _ => false,
    }
}

/// NULL for a column that is NOT NULL: the time of the statement for a TIMESTAMP, as has always been so; 1048 for others.
fn null_into(
    session: &mut Session,
    table: &TableDef,
    column: usize,
    strictness: Strictness,
) -> SqlResult<Value> {
    let def = &table.columns[column];
    if def.ty.kind == TypeKind::Timestamp {
        return Ok(super::assign::now_value(session, &def.ty));
    }
    let error = errors::bad_null(&def.name);
    if strictness.null_is_error {
        return Err(error);
    }
    session.warn(error);
    Ok(implicit_default(&def.ty))
}

fn target<'t>(session: &Session, table: &'t TableDef, column: usize) -> Target<'t> {
    Target {
        db: &table.schema,
        table: &table.name,
        column: &table.columns[column].name,
        row: session.current_row,
    }
}

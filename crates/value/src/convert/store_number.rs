//! Assignment to numeric columns: integers, BIT, YEAR, DECIMAL, FLOAT and DOUBLE.

use super::number::{Number, Tail, decimal_of_float, exact_decimal, read_number};
use super::{Problem, Stored, bent, exact, printable};
use crate::decimal::Fit;
use crate::types::NOT_FIXED;
use crate::{Cell, Decimal, SqlType, TypeKind, Value, ValueRef, text};

/// A whole number, wide enough for both signed and unsigned 64 bits; texts and doubles beyond saturate to it.
type Whole = i128;

/// What a text that was read as a number leaves to be reported.
fn tail_problem(
    number: Number<'_>,
    kind: &'static str,
    value: ValueRef<'_>,
    from: &SqlType,
) -> Option<Problem> {
    if number.text.is_empty() {
        return Some(Problem::Incorrect { kind, value: printable(value, from) });
    }
    match number.tail() {
        Tail::Nothing => None,
        Tail::Spaces => Some(Problem::TruncatedNote),
        Tail::Garbage => Some(Problem::Truncated),
    }
}

/// TINYINT to BIGINT.
pub(super) fn integer<'a>(to: &SqlType, from: &SqlType, value: ValueRef<'a>) -> Stored<'a> {
    let (whole, problem) = match value {
        ValueRef::Int(v) if !from.unsigned => (Whole::from(v), None),
        ValueRef::Int(v) => (Whole::from(v as u64), None),
        ValueRef::UInt(v) => (Whole::from(v), None),
        ValueRef::Bytes(text) => {
            let number = read_number(text);
            (whole_of_text(number, to.unsigned), tail_problem(number, "integer", value, from))
        }
        ValueRef::Decimal(v) if to.unsigned && v.is_negative() => (-1, None),
        _ => (whole_of(value, from), None),
    };
    let (least, most) = to.integer_range();
    let most = Whole::from(most);
    let problem_of_range = || {
        let is_beyond = matches!(value, ValueRef::Decimal(_)) && is_beyond_any(whole, to.unsigned);
        if is_beyond && to.kind != TypeKind::BigInt { Problem::OutOfRangeTwice } else { Problem::OutOfRange }
    };
    if whole < Whole::from(least) {
        return bent(integer_value(to, Whole::from(least)), problem_of_range());
    }
    if whole > most {
        return bent(integer_value(to, most), problem_of_range());
    }
    (Cell::Owned(integer_value(to, whole)), problem)
}

/// Whether no integer of 64 bits holds a number; what is negative for an unsigned one becomes 0, which all of them hold.
fn is_beyond_any(whole: Whole, unsigned: bool) -> bool {
    if unsigned { whole > Whole::from(u64::MAX) } else { i64::try_from(whole).is_err() }
}

fn integer_value(to: &SqlType, whole: Whole) -> Value {
    if to.unsigned { Value::UInt(whole as u64) } else { Value::Int(whole as i64) }
}

/// Rounded half away from zero. More digits than 64 bits hold are the largest number in an unsigned column, whatever
/// their sign.
fn whole_of_text(number: Number<'_>, unsigned: bool) -> Whole {
    let (negative, size) = if number.is_integer {
        number.magnitude()
    } else {
        let parsed = Decimal::parse_prefix(number.text);
        let value = parsed.map_or(Decimal::ZERO, |p| p.value);
        let fits = parsed.is_none_or(|p| !p.overflow);
        (value.is_negative(), value.abs().to_u64().ok().filter(|_| fits))
    };
    match (negative, size) {
        (false, Some(size)) => Whole::from(size),
        (true, Some(size)) => -Whole::from(size),
        (true, None) if !unsigned => Whole::from(i64::MIN) - 1,
        (_, None) => Whole::from(u64::MAX) + 1,
    }
}

/// The whole number of a value that is no text: doubles to even, decimals away from zero, temporals cut.
fn whole_of(value: ValueRef<'_>, from: &SqlType) -> Whole {
    match value {
        ValueRef::Double(v) => v.round_ties_even() as Whole,
        ValueRef::Float(v) => f64::from(v).round_ties_even() as Whole,
        ValueRef::Decimal(v) => {
            let size = v.abs().to_u64().map_or(Whole::from(u64::MAX) + 1, Whole::from);
            if v.is_negative() { -size } else { size }
        }
        ValueRef::Int(v) if from.unsigned => Whole::from(v as u64),
        ValueRef::Int(v) => Whole::from(v),
        ValueRef::UInt(v) => Whole::from(v),
        ValueRef::Date(v) => Whole::from(v.to_number()),
        ValueRef::Time(v) => Whole::from(v.to_number()),
        ValueRef::DateTime(v) => Whole::from(v.to_number()),
        ValueRef::Bytes(text) => whole_of_text(read_number(text), false),
        ValueRef::Null | ValueRef::Fixed(_) => 0,
    }
}

/// YEAR: two digits are 1970-2069; a text `0` or `00` is 2000, the number 0 is 0000.
pub(super) fn year<'a>(from: &SqlType, value: ValueRef<'a>, strict: bool) -> Stored<'a> {
    let (whole, problem, zero_is_2000) = match value {
        ValueRef::Bytes(text) => {
            let number = read_number(text);
            let problem = tail_problem(number, "integer", value, from);
            if matches!(problem, Some(Problem::Incorrect { .. })) {
                return (Cell::Owned(Value::UInt(0)), problem);
            }
            (whole_of_text(number, false), problem, text.len() != 4)
        }
        ValueRef::Double(_) | ValueRef::Float(_) => {
            let v = double_of(value, from).trunc();
            (v as Whole, None, false)
        }
        ValueRef::Decimal(v) if v.is_negative() => (-1, None, false),
        ValueRef::Date(_) | ValueRef::Time(_) | ValueRef::DateTime(_) => {
            return year_of_temporal(from, value, strict);
        }
        _ => (whole_of(value, from), None, false),
    };
    let year = match whole {
        0 if !zero_is_2000 => 0,
        0..=69 => 2000 + whole as u64,
        70..=99 => 1900 + whole as u64,
        1901..=2155 => whole as u64,
        _ => return bent(Value::UInt(0), Problem::OutOfRange),
    };
    (Cell::Owned(Value::UInt(year)), problem)
}

fn year_of_temporal<'a>(from: &SqlType, value: ValueRef<'a>, strict: bool) -> Stored<'a> {
    let (year, kind) = match value {
        ValueRef::Date(v) => (v.year, "date"),
        ValueRef::DateTime(v) => (v.date.year, "datetime"),
        _ => (0, "time"),
    };
    if year != 0 && !(1901..=2155).contains(&year) {
        return bent(Value::UInt(0), Problem::OutOfRange);
    }
    if strict {
        let value = printable(value, from);
        return bent(
            Value::UInt(year.into()),
            Problem::IncorrectTemporal { kind, value, out_of_range: false },
        );
    }
    bent(Value::UInt(year.into()), Problem::Truncated)
}

/// BIT: numbers by their bits, text and temporals by their octets from the right.
pub(super) fn bit<'a>(to: &SqlType, from: &SqlType, value: ValueRef<'a>) -> Stored<'a> {
    let width = to.length.clamp(1, 64);
    let most = u64::MAX >> (64 - width);
    let bits = match value {
        ValueRef::Int(v) => Some(v as u64),
        ValueRef::UInt(v) => Some(v),
        ValueRef::Double(v) => Some(cast_double(v) as u64),
        ValueRef::Float(v) => Some(cast_double(f64::from(v)) as u64),
        ValueRef::Decimal(v) => match if v.is_negative() { Err(0) } else { v.to_u64() } {
            Ok(bits) => Some(bits),
            Err(bound) => return bent(Value::UInt(bound.min(most)), Problem::OutOfRange),
        },
        ValueRef::Bytes(octets) => bits_of(octets),
        _ => {
            let mut octets = Vec::new();
            text::append(&mut octets, from, value);
            bits_of(&octets)
        }
    };
    match bits {
        Some(bits) if bits <= most => exact(Value::UInt(bits)),
        _ => bent(Value::UInt(most), Problem::TooManyBits),
    }
}

fn bits_of(octets: &[u8]) -> Option<u64> {
    let zeros = octets.iter().take_while(|b| **b == 0).count();
    let octets = &octets[zeros..];
    (octets.len() <= 8).then(|| octets.iter().fold(0, |v, b| v << 8 | u64::from(*b)))
}

/// A double cut to 64 bits, as the processor does where it does not fit.
pub(super) fn cast_double(v: f64) -> i64 {
    if (-(2f64.powi(63))..2f64.powi(63)).contains(&v) { v as i64 } else { i64::MIN }
}

/// A text with garbage behind a number out of range is reported for both, the garbage first.
fn worse_than_range(problem: Option<Problem>) -> Option<Problem> {
    match problem {
        Some(Problem::Truncated) => Some(Problem::TruncatedOutOfRange),
        Some(problem) if !problem.is_note() => Some(problem),
        _ => Some(Problem::OutOfRange),
    }
}

/// Whether the number that a text begins with has a digit that is not zero before its exponent.
fn has_digits(text: &[u8]) -> bool {
    let number = text.trim_ascii_start().iter().take_while(|b| matches!(b, b'0'..=b'9' | b'.' | b'+' | b'-'));
    number.into_iter().any(|b| matches!(b, b'1'..=b'9'))
}

/// DECIMAL.
pub(super) fn decimal<'a>(to: &SqlType, from: &SqlType, value: ValueRef<'a>) -> Stored<'a> {
    // A number of more digits than the longest DECIMAL has comes as that one's bound.
    let (number, overflow, problem) = match value {
        ValueRef::Bytes(text) => {
            let number = read_number(text);
            let parsed = Decimal::parse_prefix(text);
            let (value_of, overflow) = parsed.map_or((Decimal::ZERO, false), |p| (p.value, p.overflow));
            let problem = tail_problem(number, "decimal", value, from);
            let vanishes = value_of.is_zero() && has_digits(text);
            (value_of, overflow, problem.or(vanishes.then_some(Problem::TruncatedNote)))
        }
        ValueRef::Double(v) => match Decimal::from_f64(v) {
            Ok(number) => {
                let vanishes = v != 0.0 && number.is_zero();
                (number, false, vanishes.then_some(Problem::TruncatedNote))
            }
            Err(bound) => (bound, true, None),
        },
        ValueRef::Float(v) => (decimal_of_float(v), false, None),
        _ => (exact_decimal(value, from), false, None),
    };
    if to.unsigned && number.is_negative() {
        let zero = Value::Decimal(Decimal::ZERO.round(i32::from(to.decimals)));
        return (Cell::Owned(zero), worse_than_range(problem));
    }
    let (stored, fit) = number.fit(to.length, to.decimals);
    let problem = match fit {
        _ if overflow => worse_than_range(problem),
        Fit::OutOfRange => worse_than_range(problem),
        Fit::Rounded => problem.or(Some(Problem::TruncatedNote)),
        Fit::Exact => problem,
    };
    (Cell::Owned(Value::Decimal(stored)), problem)
}

/// FLOAT and DOUBLE.
pub(super) fn real<'a>(to: &SqlType, from: &SqlType, value: ValueRef<'a>) -> Stored<'a> {
    let (number, mut problem) = match value {
        ValueRef::Bytes(text) => {
            let number = read_number(text);
            (number.to_f64(), tail_problem(number, "double", value, from))
        }
        _ => (double_of(value, from), None),
    };
    let (stored, fits) = fit_double(to, number);
    if !fits {
        problem = worse_than_range(problem);
    }
    let value = if to.kind == TypeKind::Float { Value::Float(stored as f32) } else { Value::Double(stored) };
    (Cell::Owned(value), problem)
}

/// A number with a FLOAT's or DOUBLE's digits, or its nearest bound, and whether it is within them.
pub fn fit_double(to: &SqlType, number: f64) -> (f64, bool) {
    let bound = if to.decimals < NOT_FIXED {
        let scale = 10f64.powi(i32::from(to.decimals));
        10f64.powi(to.length as i32 - i32::from(to.decimals)) - 1.0 / scale
    } else if to.kind == TypeKind::Float {
        f64::from(f32::MAX)
    } else {
        f64::MAX
    };
    let rounded =
        if to.decimals < NOT_FIXED && number.is_finite() { round_to(number, to.decimals) } else { number };
    if to.unsigned && rounded < 0.0 {
        (0.0, false)
    } else if rounded.abs() > bound {
        (bound.copysign(rounded), false)
    } else {
        (rounded, true)
    }
}

/// Rounded as MariaDB rounds FLOAT(M,D): the fraction alone is scaled and rounded to even.
pub fn round_to(v: f64, decimals: u8) -> f64 {
    let scale = 10f64.powi(i32::from(decimals));
    let whole = v.floor();
    whole + ((v - whole) * scale).round_ties_even() / scale
}

fn double_of(value: ValueRef<'_>, from: &SqlType) -> f64 {
    super::to_f64(value, from, &mut |_| {})
}

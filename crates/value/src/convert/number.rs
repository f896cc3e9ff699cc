//! Numbers out of anything: how text reads as a number, and the `to_` functions of expressions.

use super::{Problem, Report, printable};
use crate::{Decimal, SqlType, Time, ValueRef};

/// The number at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number<'a> {
    /// Sign, digits, point and exponent, without white space around; empty if there is no digit.
    pub text: &'a [u8],
    /// Whether it is only an optional sign and digits.
    pub is_integer: bool,
    /// What follows.
    pub rest: &'a [u8],
}

/// What follows a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    Nothing,
    Spaces,
    Garbage,
}

impl Number<'_> {
    pub(super) fn tail(&self) -> Tail {
        match self.rest {
            [] => Tail::Nothing,
            rest if rest.iter().all(u8::is_ascii_whitespace) => Tail::Spaces,
            _ => Tail::Garbage,
        }
    }

    /// The nearest double; infinite where it is too large for one.
    pub(super) fn to_f64(self) -> f64 {
        std::str::from_utf8(self.text).ok().and_then(|t| t.parse().ok()).unwrap_or(0.0)
    }

    /// Sign and digits of an integer; `None` for more than 64 bits.
    pub(super) fn magnitude(self) -> (bool, Option<u64>) {
        let negative = self.text.first() == Some(&b'-');
        let digits = self.text.iter().filter(|b| b.is_ascii_digit());
        let mut size = Some(0u64);
        for digit in digits {
            size = size.and_then(|v| v.checked_mul(10)).and_then(|v| v.checked_add(u64::from(digit - b'0')));
        }
        (negative, size)
    }
}

/// Finds the number that a text starts with, after white space.
pub fn read_number(text: &[u8]) -> Number<'_> {
    let start = text.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(text.len());
    let digits = |from: usize| text[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = start + usize::from(matches!(text.get(start), Some(b'-' | b'+')));
    let whole = digits(at);
    at += whole;
    let mut is_integer = true;
    let mut count = whole;
    if text.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        count += fraction;
        if count > 0 {
            at += 1 + fraction;
            is_integer = false;
        }
    }
    if count == 0 {
        return Number { text: &[], is_integer: false, rest: text };
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'-' | b'+')));
        let exponent = text.get(at + 1 + sign..).map_or(0, |_| digits(at + 1 + sign));
        if exponent > 0 {
            at += 1 + sign + exponent;
            is_integer = false;
        }
    }
    Number { text: &text[start..at], is_integer, rest: &text[at..] }
}

/// Reports a text that is not all number.
fn report_tail(
    number: Number<'_>,
    kind: &'static str,
    value: ValueRef<'_>,
    ty: &SqlType,
    report: Report<'_>,
) {
    match number.tail() {
        Tail::Nothing if !number.text.is_empty() => {}
        Tail::Spaces if !number.text.is_empty() => {
            report(Problem::TruncatedIncorrectNote { kind, value: printable(value, ty) });
        }
        _ => report(Problem::TruncatedIncorrect { kind, value: printable(value, ty) }),
    }
}

/// As an integer, rounded; unsigned values above `i64::MAX` keep their bits, so pass the type's `unsigned` on. NULL is 0.
/// Text is read up to the first character that is no digit, as CAST does.
pub fn to_i64(value: ValueRef<'_>, ty: &SqlType, report: Report<'_>) -> i64 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Int(v) => v,
        ValueRef::UInt(v) => v as i64,
        ValueRef::Double(v) => v.round_ties_even() as i64,
        ValueRef::Float(v) => f64::from(v).round_ties_even() as i64,
        ValueRef::Decimal(v) => v.to_i64().unwrap_or_else(|bound| bound),
        ValueRef::Bytes(text) => integer_of_text(text, value, ty, report),
        ValueRef::Date(v) => v.to_number() as i64,
        ValueRef::Time(v) => v.to_number(),
        ValueRef::DateTime(v) => v.to_number() as i64,
        ValueRef::Fixed(_) => 0,
    }
}

fn integer_of_text(text: &[u8], value: ValueRef<'_>, ty: &SqlType, report: Report<'_>) -> i64 {
    let start = text.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(text.len());
    let sign = usize::from(matches!(text.get(start), Some(b'-' | b'+')));
    let digits = text[start + sign..].iter().take_while(|b| b.is_ascii_digit()).count();
    let end = if digits == 0 { start } else { start + sign + digits };
    let number = Number { text: &text[start..end], is_integer: true, rest: &text[end..] };
    report_tail(number, "INTEGER", value, ty, report);
    match number.magnitude() {
        (true, Some(size)) if size <= 1 << 63 => (size as i64).wrapping_neg(),
        (false, Some(size)) => size as i64,
        (negative, _) => {
            report(Problem::TruncatedIncorrect { kind: "INTEGER", value: printable(value, ty) });
            if negative { i64::MIN } else { u64::MAX as i64 }
        }
    }
}

/// As a double; NULL is 0.
pub fn to_f64(value: ValueRef<'_>, ty: &SqlType, report: Report<'_>) -> f64 {
    match value {
        ValueRef::Null => 0.0,
        ValueRef::Int(v) if ty.unsigned => v as u64 as f64,
        ValueRef::Int(v) => v as f64,
        ValueRef::UInt(v) => v as f64,
        ValueRef::Double(v) => v,
        ValueRef::Float(v) => f64::from(v),
        ValueRef::Decimal(v) => v.to_f64(),
        ValueRef::Bytes(text) => {
            let number = read_number(text);
            report_tail(number, "DOUBLE", value, ty, report);
            let v = number.to_f64();
            if v.is_infinite() {
                report(Problem::TruncatedIncorrect { kind: "DOUBLE", value: printable(value, ty) });
            }
            v.clamp(f64::MIN, f64::MAX)
        }
        ValueRef::Date(v) => v.to_number() as f64,
        ValueRef::Time(v) => v.to_number() as f64 + fraction(v),
        ValueRef::DateTime(v) => v.to_number() as f64 + f64::from(v.micros) / 1e6,
        ValueRef::Fixed(_) => 0.0,
    }
}

fn fraction(v: Time) -> f64 {
    f64::from(v.fraction()) / 1e6 * v.micros.signum() as f64
}

/// As a decimal; NULL is 0.
pub fn to_decimal(value: ValueRef<'_>, ty: &SqlType, report: Report<'_>) -> Decimal {
    if let Some(text) = value.as_bytes() {
        report_tail(read_number(text), "DECIMAL", value, ty, report);
        return Decimal::parse_prefix(text).map_or(Decimal::ZERO, |parsed| parsed.value);
    }
    match value {
        ValueRef::Double(v) => Decimal::from_f64(v).unwrap_or_else(|bound| bound),
        ValueRef::Float(v) => decimal_of_float(v),
        _ => exact_decimal(value, ty),
    }
}

/// The decimal of a FLOAT: of all its digits, as of a DOUBLE.
pub(super) fn decimal_of_float(v: f32) -> Decimal {
    Decimal::from_f64(f64::from(v)).unwrap_or_else(|bound| bound)
}

/// The decimal of a value that is exact: integers, decimals and temporals; others are 0.
pub(super) fn exact_decimal(value: ValueRef<'_>, ty: &SqlType) -> Decimal {
    let with_fraction = |negative: bool, number: u64, micros: u32| {
        if micros == 0 {
            Decimal::from_parts(negative, u128::from(number), 0)
        } else {
            Decimal::from_parts(negative, u128::from(number) * 1_000_000 + u128::from(micros), 6)
        }
    };
    match value {
        ValueRef::Int(v) if ty.unsigned => Decimal::from_u64(v as u64),
        ValueRef::Int(v) => Decimal::from_i64(v),
        ValueRef::UInt(v) => Decimal::from_u64(v),
        ValueRef::Decimal(v) => v,
        ValueRef::Date(v) => Decimal::from_u64(v.to_number()),
        ValueRef::Time(v) => with_fraction(v.micros < 0, v.to_number().unsigned_abs(), v.fraction()),
        ValueRef::DateTime(v) => with_fraction(false, v.to_number(), v.micros),
        ValueRef::Null
        | ValueRef::Double(_)
        | ValueRef::Float(_)
        | ValueRef::Bytes(_)
        | ValueRef::Fixed(_) => Decimal::ZERO,
    }
}

/// As a condition; NULL is `None`.
pub fn to_bool(value: ValueRef<'_>, ty: &SqlType, report: Report<'_>) -> Option<bool> {
    Some(match value {
        ValueRef::Null => return None,
        ValueRef::Int(v) => v != 0,
        ValueRef::UInt(v) => v != 0,
        ValueRef::Double(v) => v != 0.0,
        ValueRef::Float(v) => v != 0.0,
        ValueRef::Decimal(v) => !v.is_zero(),
        ValueRef::Bytes(_) => to_f64(value, ty, report) != 0.0,
        ValueRef::Date(v) => !v.is_zero(),
        ValueRef::Time(v) => v.micros != 0,
        ValueRef::DateTime(v) => !v.is_zero(),
        ValueRef::Fixed(v) => !v.is_zero(),
    })
}

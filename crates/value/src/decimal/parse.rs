//! Decimals out of text.

use super::wide::Wide;
use super::{DIGITS_MAX, Decimal, MAX_PRECISION, Overflow, fraction_room};

/// What [`Decimal::parse_prefix`] found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parsed {
    /// The number, or the nearest bound.
    pub value: Decimal,
    /// Octets read, white space before the number included.
    pub used: usize,
    /// Whether it has more than 81 digits before the point.
    pub overflow: bool,
}

impl Decimal {
    /// Reads a whole literal such as `-12.50` or `1.5e3`; `None` if there is anything else or too many digits.
    pub fn parse(text: &[u8]) -> Option<Decimal> {
        let parsed = Decimal::parse_prefix(text)?;
        (parsed.used == text.len() && !parsed.overflow).then_some(parsed.value)
    }

    /// Reads the number at the start of a text after white space; `None` if there is no digit.
    pub fn parse_prefix(text: &[u8]) -> Option<Parsed> {
        let mut at = text.iter().position(|b| !b.is_ascii_whitespace())?;
        let negative = text[at] == b'-';
        if negative || text[at] == b'+' {
            at += 1;
        }
        let whole = digits_at(text, at);
        at += whole.len();
        let mut fraction: &[u8] = &[];
        if text.get(at) == Some(&b'.') {
            fraction = digits_at(text, at + 1);
            if whole.len() + fraction.len() > 0 {
                at += 1 + fraction.len();
            }
        }
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (exponent, used) = exponent_at(text, at);
        let (value, overflow) = assemble(negative, whole, fraction, exponent);
        Some(Parsed { value, used, overflow })
    }
}

fn digits_at(text: &[u8], from: usize) -> &[u8] {
    let rest = text.get(from..).unwrap_or(&[]);
    let len = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
    &rest[..len]
}

/// The exponent at `at` and where it ends; without digits it is none.
fn exponent_at(text: &[u8], at: usize) -> (i64, usize) {
    if !matches!(text.get(at), Some(b'e' | b'E')) {
        return (0, at);
    }
    let mut from = at + 1;
    let negative = text.get(from) == Some(&b'-');
    if negative || text.get(from) == Some(&b'+') {
        from += 1;
    }
    let digits = digits_at(text, from);
    if digits.is_empty() {
        return (0, at);
    }
    let size = digits.iter().fold(0i64, |sum, d| (sum * 10 + i64::from(d - b'0')).min(100_000));
    (if negative { -size } else { size }, from + digits.len())
}

/// Builds the number; digits far behind the point are cut off, those before it overflow.
fn assemble(negative: bool, whole: &[u8], fraction: &[u8], exponent: i64) -> (Decimal, bool) {
    let zeros = whole.iter().take_while(|d| **d == b'0').count();
    let whole = &whole[zeros..];
    let is_zero = whole.is_empty() && fraction.iter().all(|d| *d == b'0');
    let point = whole.len() as i64 + exponent;
    let leading =
        if whole.is_empty() { fraction.iter().take_while(|d| **d == b'0').count() as i64 } else { 0 };
    if !is_zero && point - leading > i64::from(DIGITS_MAX) {
        let bound = Decimal::max_value(MAX_PRECISION, 0).signed(negative);
        return (bound, true);
    }
    let scale = fraction.len() as i64 - exponent;
    let mut digits = Wide::ZERO;
    let mut kept = 0i64;
    let available = whole.len() as i64 + fraction.len() as i64;
    let before_point = (point - leading).clamp(0, i64::from(DIGITS_MAX)) as u32;
    let wanted = available.min(point + i64::from(fraction_room(before_point))).max(0);
    for digit in whole.iter().chain(fraction).take(wanted as usize) {
        digits.mul_small(10);
        digits.add_small(u32::from(digit - b'0'));
        kept += 1;
    }
    let mut scale = scale - (available - kept);
    if scale < 0 {
        digits.mul_pow10((-scale).min(i64::from(DIGITS_MAX)) as u32);
        scale = 0;
    }
    // A number below all digits.
    let scale = if digits.is_zero() { scale.min(i64::from(fraction_room(0))) } else { scale };
    match Decimal::from_wide(negative, digits, scale as u32) {
        Ok(value) => (value, false),
        Err(Overflow) => (Decimal::max_value(MAX_PRECISION, 0).signed(negative), true),
    }
}

//! DECIMAL: exact numbers of up to 65 digits, with the scales and roundings of MariaDB's decimal library. Columns have 65 digits
//! at most; values have nine words of nine digits, of which the digits before and behind the point share none.
//!
//! 1. A value is `digits / 10^scale` with a sign; zero is never negative. Equal numbers of different scale are equal.
//! 2. Types hold at most [`MAX_SCALE`] digits after the point; a quotient or product may carry more until its
//!    expression's type rounds it, as MariaDB's does (`1/3*3` is 1.0000 only after the last step).
//! 3. Numbers that fit 128 bits never touch the wide arithmetic.

mod parse;
mod small;
mod stored;
mod wide;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

pub use parse::Parsed;
pub use small::Small;
use wide::Wide;

/// The most digits of a DECIMAL.
pub const MAX_PRECISION: u32 = 65;
/// The most digits after the point that a DECIMAL type declares.
pub const MAX_SCALE: u8 = 38;

/// Words of a value.
const WORDS: u32 = 9;
/// Digits of a word.
const WORD_DIGITS: u32 = 9;
/// The most digits of a value.
const DIGITS_MAX: u32 = WORDS * WORD_DIGITS;

/// Limbs of the magnitude: 81 digits are 270 bits.
const LIMBS: usize = 9;

/// A decimal number of up to 81 digits: the magnitude is `low + (high << 128) + (top << 256)`. Packed, so that a [`Value`](crate::Value)
/// takes 40 bytes.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub struct Decimal {
    low: u128,
    high: u128,
    /// 14 bits are used.
    top: u16,
    scale: u8,
    /// 1 of a negative number, else 0. No bool: an enum would keep its tag in it, and a decimal within would be copied in
    /// pieces of odd sizes, each of which waits for the last one to be stored.
    sign: u8,
}

/// The result needs more words than a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow;

/// What [`Decimal::fit`] had to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Nothing was lost.
    Exact,
    /// Digits after the scale were rounded away.
    Rounded,
    /// Too many digits before the point: the nearest bound was taken.
    OutOfRange,
}

const POW10: [u128; 39] = {
    let mut table = [1u128; 39];
    let mut i = 1;
    while i < 39 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

impl Decimal {
    /// 0.
    pub const ZERO: Decimal = Decimal { low: 0, high: 0, top: 0, scale: 0, sign: 0 };

    fn of(limbs: &[u32; LIMBS], scale: u8, negative: bool) -> Decimal {
        let part = |from: usize| (0..4).fold(0, |all, at| all | u128::from(limbs[from + at]) << (32 * at));
        Decimal { low: part(0), high: part(4), top: limbs[8] as u16, scale, sign: u8::from(negative) }
    }

    fn limbs(&self) -> [u32; LIMBS] {
        let limb = |part: u128, at: usize| (part >> (32 * at)) as u32;
        std::array::from_fn(|at| match at {
            0..4 => limb(self.low, at),
            4..8 => limb(self.high, at - 4),
            _ => u32::from(self.top),
        })
    }

    /// The same magnitude with a sign.
    fn signed(self, negative: bool) -> Decimal {
        Decimal { sign: u8::from(negative), ..self }
    }

    /// An integer.
    pub fn from_i64(v: i64) -> Decimal {
        Decimal::from_parts(v < 0, u128::from(v.unsigned_abs()), 0)
    }

    /// An integer.
    pub fn from_u64(v: u64) -> Decimal {
        Decimal::from_parts(false, u128::from(v), 0)
    }

    /// `digits / 10^scale`.
    #[inline]
    pub fn from_parts(negative: bool, digits: u128, scale: u8) -> Decimal {
        Decimal { low: digits, high: 0, top: 0, scale, sign: u8::from(negative && digits != 0) }
    }

    /// Takes a wide magnitude; digits after the point for which there is no word are cut off.
    fn from_wide(negative: bool, mut digits: Wide, mut scale: u32) -> Result<Decimal, Overflow> {
        let whole = digits.digits().saturating_sub(scale);
        if whole > DIGITS_MAX {
            return Err(Overflow);
        }
        let room = fraction_room(whole);
        if scale > room {
            digits.div_pow10(scale - room);
            scale = room;
        }
        let mut mag = [0; LIMBS];
        mag.copy_from_slice(&digits.0[..LIMBS]);
        Ok(Decimal::of(&mag, scale as u8, negative && !digits.is_zero()))
    }

    fn wide(&self) -> Wide {
        Wide::from_limbs(&self.limbs())
    }

    /// The magnitude where it fits 128 bits.
    #[inline]
    fn small(&self) -> Option<u128> {
        (self.high == 0 && self.top == 0).then_some(self.low)
    }

    /// Digits after the point.
    #[inline]
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// Significant digits, at least the scale and at least 1.
    pub fn precision(&self) -> u32 {
        self.digit_count().max(u32::from(self.scale)).max(1)
    }

    fn digit_count(&self) -> u32 {
        match self.small() {
            Some(v) => v.checked_ilog10().map_or(0, |n| n + 1),
            None => self.wide().digits(),
        }
    }

    /// Whether the value is zero.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.low == 0 && self.high == 0 && self.top == 0
    }

    /// Whether the value is below zero.
    #[inline]
    pub fn is_negative(&self) -> bool {
        self.sign != 0
    }

    /// The largest value of DECIMAL(precision, scale).
    pub fn max_value(precision: u32, scale: u8) -> Decimal {
        let mut digits = Wide::from_u128(1);
        digits.mul_pow10(precision.clamp(1, MAX_PRECISION));
        let one = Wide::from_u128(1);
        Decimal::from_wide(false, digits.sub(&one), u32::from(scale)).unwrap_or(Decimal::ZERO)
    }

    /// Negated.
    pub fn neg(&self) -> Decimal {
        self.signed(!self.is_negative() && !self.is_zero())
    }

    /// Without its sign.
    pub fn abs(&self) -> Decimal {
        self.signed(false)
    }

    /// Sum; its scale is the larger of both.
    pub fn add(&self, other: &Decimal) -> Result<Decimal, Overflow> {
        let scale = self.scale.max(other.scale);
        if let (Some(a), Some(b)) = (self.small_at(scale), other.small_at(scale)) {
            let (negative, digits) = match (self.is_negative() == other.is_negative(), a >= b) {
                (true, _) => (self.is_negative(), a + b),
                (false, true) => (self.is_negative(), a - b),
                (false, false) => (other.is_negative(), b - a),
            };
            return Ok(Decimal::from_parts(negative, digits, scale));
        }
        if self.is_negative() == other.is_negative() && self.may_carry(other) {
            return Err(Overflow);
        }
        let (a, b) = (self.wide_at(scale), other.wide_at(scale));
        let (negative, digits) = match (self.is_negative() == other.is_negative(), a >= b) {
            (true, _) => (self.is_negative(), a.add(&b)),
            (false, true) => (self.is_negative(), a.sub(&b)),
            (false, false) => (other.is_negative(), b.sub(&a)),
        };
        Decimal::from_wide(negative, digits, u32::from(scale))
    }

    /// Digits before the point.
    fn whole_digits(&self) -> u32 {
        self.digit_count().saturating_sub(u32::from(self.scale))
    }

    /// Whether MariaDB keeps a word for the carry of a sum, and has none left.
    fn may_carry(&self, other: &Decimal) -> bool {
        const LAST: u32 = 10u32.pow(WORD_DIGITS) - 1;
        let first_word = |number: &Decimal| {
            if number.whole_digits() <= DIGITS_MAX - WORD_DIGITS {
                return 0;
            }
            let mut digits = number.wide();
            digits.div_pow10(DIGITS_MAX - WORD_DIGITS + u32::from(number.scale));
            digits.0[0]
        };
        first_word(self) + first_word(other) >= LAST
    }

    /// Difference; its scale is the larger of both.
    pub fn sub(&self, other: &Decimal) -> Result<Decimal, Overflow> {
        self.add(&other.neg())
    }

    /// The digits at a larger scale, where the result leaves room for one addition in 128 bits.
    #[inline]
    fn small_at(&self, scale: u8) -> Option<u128> {
        let digits = self.small()?;
        if scale == self.scale {
            return Some(digits).filter(|v| v >> 127 == 0);
        }
        let factor = POW10.get(usize::from(scale - self.scale))?;
        digits.checked_mul(*factor).filter(|v| v >> 127 == 0)
    }

    fn wide_at(&self, scale: u8) -> Wide {
        let mut digits = self.wide();
        digits.mul_pow10(u32::from(scale - self.scale));
        digits
    }

    /// Product; its scale is the sum of both.
    pub fn mul(&self, other: &Decimal) -> Result<Decimal, Overflow> {
        let scale = u32::from(self.scale) + u32::from(other.scale);
        let negative = self.is_negative() != other.is_negative();
        if let (Some(a), Some(b)) = (self.small(), other.small())
            && let Some(digits) = a.checked_mul(b)
            && scale <= MAX_PRECISION
        {
            return Ok(Decimal::from_parts(negative, digits, scale as u8));
        }
        // MariaDB keeps words for as many digits before the point as both factors have together.
        let whole = (self.whole_digits() + other.whole_digits()).div_ceil(WORD_DIGITS);
        let mut digits = self.wide().mul(&other.wide());
        let room = WORDS.saturating_sub(whole) * WORD_DIGITS;
        if scale > room {
            digits.div_pow10(scale - room);
        }
        Decimal::from_wide(negative, digits, scale.min(room))
    }

    /// Quotient with the digits MariaDB computes, cut off and not rounded: both scales are taken up to groups of nine,
    /// `increment` (`div_precision_increment`) is added and the sum taken up again. `None` for a zero divisor.
    pub fn div(&self, other: &Decimal, increment: u8) -> Result<Option<Decimal>, Overflow> {
        if other.is_zero() {
            return Ok(None);
        }
        let (grouped_a, grouped_b) = (grouped(self.scale), grouped(other.scale));
        let slack = (grouped_a - u32::from(self.scale)) + (grouped_b - u32::from(other.scale));
        let digits_after =
            (grouped_a + grouped_b + u32::from(increment).saturating_sub(slack)).div_ceil(9) * 9;
        let scale = digits_after.min(MAX_PRECISION);
        let shift = i64::from(scale) + i64::from(other.scale) - i64::from(self.scale);
        let negative = self.is_negative() != other.is_negative();
        if let (Some(a), Some(b)) = (self.small(), other.small())
            && let Ok(shift) = usize::try_from(shift)
            && let Some(dividend) = POW10.get(shift).and_then(|factor| a.checked_mul(*factor))
        {
            return Ok(Some(Decimal::from_parts(negative, dividend / b, scale as u8)));
        }
        let (mut dividend, mut divisor) = (self.wide(), other.wide());
        if shift >= 0 {
            dividend.mul_pow10((shift as u32).min(WIDE_SHIFT_MAX));
        } else {
            divisor.mul_pow10(shift.unsigned_abs() as u32);
        }
        let scale =
            if shift > i64::from(WIDE_SHIFT_MAX) { scale - (shift as u32 - WIDE_SHIFT_MAX) } else { scale };
        Decimal::from_wide(negative, dividend.div_rem(&divisor).0, scale).map(Some)
    }

    /// The whole part of the quotient, as DIV gives; `None` for a zero divisor.
    pub fn div_integer(&self, other: &Decimal) -> Option<Decimal> {
        if other.is_zero() {
            return None;
        }
        let scale = self.scale.max(other.scale);
        let (quotient, _) = self.wide_at(scale).div_rem(&other.wide_at(scale));
        Some(
            Decimal::from_wide(self.is_negative() != other.is_negative(), quotient, 0)
                .unwrap_or_else(|_| Decimal::max_value(MAX_PRECISION, 0)),
        )
    }

    /// Remainder with the sign of the dividend and the larger scale; `None` for a zero divisor.
    pub fn rem(&self, other: &Decimal) -> Option<Decimal> {
        if other.is_zero() {
            return None;
        }
        let scale = self.scale.max(other.scale);
        if let (Some(a), Some(b)) = (self.small_at(scale), other.small_at(scale)) {
            return Some(Decimal::from_parts(self.is_negative(), a % b, scale));
        }
        let (_, rest) = self.wide_at(scale).div_rem(&other.wide_at(scale));
        Decimal::from_wide(self.is_negative(), rest, u32::from(scale)).ok()
    }

    /// Rounded half away from zero to `scale` digits after the point, zeros added where there were fewer; a negative
    /// `scale` rounds left of the point. More digits than 65 leave no zeros to add.
    pub fn round(&self, scale: i32) -> Decimal {
        self.rescale(scale, true)
    }

    /// Cut off after `scale` digits, otherwise as [`Decimal::round`].
    pub fn truncate(&self, scale: i32) -> Decimal {
        self.rescale(scale, false)
    }

    fn rescale(&self, scale: i32, round: bool) -> Decimal {
        let current = i32::from(self.scale);
        if scale == current {
            return *self;
        }
        if scale > current {
            return self.extended(scale.min(DIGITS_MAX as i32) as u8);
        }
        let drop = (current - scale) as u32;
        if let (Some(digits), Some(divisor)) = (self.small(), POW10.get(drop as usize)) {
            let half = divisor / 2;
            let up = u128::from(round && digits % divisor >= half);
            let kept = digits / divisor + up;
            if scale >= 0 {
                return Decimal::from_parts(self.is_negative(), kept, scale as u8);
            }
            if let Some(back) = POW10.get(scale.unsigned_abs() as usize).and_then(|f| kept.checked_mul(*f)) {
                return Decimal::from_parts(self.is_negative(), back, 0);
            }
        }
        if drop > self.digit_count() {
            return Decimal { scale: scale.max(0) as u8, ..Decimal::ZERO };
        }
        let mut digits = self.wide();
        let (last, _) = digits.div_pow10(drop);
        if round && last >= 5 {
            digits.add_small(1);
        }
        if scale < 0 {
            digits.mul_pow10(scale.unsigned_abs());
        }
        Decimal::from_wide(self.is_negative(), digits, scale.max(0) as u32)
            .unwrap_or_else(|_| Decimal::max_value(MAX_PRECISION, 0).signed(self.is_negative()))
    }

    /// With zeros added behind the point, as many as there are words for.
    fn extended(&self, scale: u8) -> Decimal {
        if let Some(digits) = self.small_at(scale) {
            return Decimal::from_parts(self.is_negative(), digits, scale);
        }
        let scale = scale.min(fraction_room(self.whole_digits()) as u8).max(self.scale);
        Decimal::from_wide(self.is_negative(), self.wide_at(scale), u32::from(scale)).unwrap_or(*self)
    }

    /// The limbs and the scale without zeros at the end of the digits behind the point: equal numbers give the same.
    fn shortest(&self) -> ([u32; LIMBS], u8) {
        let mut scale = self.scale;
        if let Some(mut digits) = self.small() {
            while scale > 0 && digits.is_multiple_of(10) {
                digits /= 10;
                scale -= 1;
            }
            return (Decimal::from_parts(false, digits, scale).limbs(), scale);
        }
        let mut digits = self.wide();
        while scale > 0 {
            let mut shorter = digits;
            if shorter.div_small(10) != 0 {
                break;
            }
            digits = shorter;
            scale -= 1;
        }
        let mut mag = [0; LIMBS];
        mag.copy_from_slice(&digits.0[..LIMBS]);
        (mag, scale)
    }

    /// Appends octets that are the same for equal numbers whatever their scale, and other ones for all others; they tell
    /// where they end.
    pub fn append_identity(&self, out: &mut Vec<u8>) {
        let (mag, scale) = self.shortest();
        let used = LIMBS - mag.iter().rev().take_while(|limb| **limb == 0).count();
        let octets = used * 4 - mag[..used].last().map_or(0, |top| top.leading_zeros() as usize / 8);
        out.push(octets as u8 | self.sign << 7);
        out.push(scale);
        let start = out.len();
        mag[..used].iter().for_each(|limb| out.extend_from_slice(&limb.to_le_bytes()));
        out.truncate(start + octets);
    }

    /// The smallest integer that is not less.
    pub fn ceil(&self) -> Decimal {
        let whole = self.truncate(0);
        if whole < *self { whole.add(&Decimal::from_u64(1)).unwrap_or(whole) } else { whole }
    }

    /// The largest integer that is not more.
    pub fn floor(&self) -> Decimal {
        let whole = self.truncate(0);
        if whole > *self { whole.sub(&Decimal::from_u64(1)).unwrap_or(whole) } else { whole }
    }

    /// As DECIMAL(precision, scale) holds it.
    pub fn fit(&self, precision: u32, scale: u8) -> (Decimal, Fit) {
        let rounded = self.round(i32::from(scale));
        if rounded.scale < scale || rounded.digit_count() > precision {
            let bound = Decimal::max_value(precision, scale).signed(self.is_negative());
            return (bound, Fit::OutOfRange);
        }
        let fit = if self.scale > scale && rounded != *self { Fit::Rounded } else { Fit::Exact };
        (rounded, fit)
    }

    /// Rounded to an integer; the nearest bound as error where it does not fit.
    pub fn to_i64(&self) -> Result<i64, i64> {
        let whole = self.round(0);
        let bound = if self.is_negative() { i64::MIN } else { i64::MAX };
        let digits = whole.small().ok_or(bound)?;
        let signed = i128::try_from(digits).map_err(|_| bound)?;
        i64::try_from(if self.is_negative() { -signed } else { signed }).map_err(|_| bound)
    }

    /// Rounded to an integer; the nearest bound as error where it does not fit.
    pub fn to_u64(&self) -> Result<u64, u64> {
        let whole = self.round(0);
        if whole.is_negative() {
            return Err(0);
        }
        whole.small().and_then(|v| u64::try_from(v).ok()).ok_or(u64::MAX)
    }

    /// The nearest double.
    pub fn to_f64(&self) -> f64 {
        if let Some(digits) = self.small()
            && digits < 1 << 53
            && self.scale <= 22
        {
            // Both operands are exact, so that the quotient is rounded once.
            let v = digits as f64 / POW10[usize::from(self.scale)] as f64;
            return if self.is_negative() { -v } else { v };
        }
        let mut text = Vec::with_capacity(80);
        self.append_to(&mut text);
        std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok()).unwrap_or(0.0)
    }

    /// The decimal of a double's shortest text; the nearest bound as error where it does not fit.
    pub fn from_f64(v: f64) -> Result<Decimal, Decimal> {
        if !v.is_finite() {
            return Err(Decimal::max_value(MAX_PRECISION, 0).signed(v < 0.0));
        }
        let parsed = Decimal::parse_prefix(format!("{v:e}").as_bytes());
        match parsed {
            Some(p) if p.overflow => Err(p.value),
            Some(p) if p.value.whole_digits() > MAX_PRECISION => {
                Err(Decimal::max_value(MAX_PRECISION, 0).signed(v < 0.0))
            }
            Some(p) => Ok(p.value),
            None => Ok(Decimal::ZERO),
        }
    }

    /// Appends the digits, with exactly `scale` after the point.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let mut digits = [b'0'; TEXT_DIGITS];
        let first = self.write_digits(&mut digits);
        let point = digits.len() - usize::from(self.scale);
        if self.is_negative() {
            out.push(b'-');
        }
        if first >= point {
            out.push(b'0');
        } else {
            out.extend_from_slice(&digits[first..point]);
        }
        if self.scale > 0 {
            out.push(b'.');
            out.extend_from_slice(&digits[point..]);
        }
    }

    /// Writes the digits right-aligned and returns where they start.
    fn write_digits(&self, digits: &mut [u8; TEXT_DIGITS]) -> usize {
        let mut at = digits.len();
        let mut rest = match self.small() {
            Some(v) if v >> 64 == 0 => return write_u64(v as u64, digits),
            _ => self.wide(),
        };
        while rest.len() > 2 {
            let mut group = rest.div_small(1_000_000_000);
            for _ in 0..9 {
                at -= 1;
                digits[at] = b'0' + (group % 10) as u8;
                group /= 10;
            }
        }
        let low = u64::from(rest.0[0]) | u64::from(rest.0[1]) << 32;
        write_u64(low, &mut digits[..at])
    }
}

/// Room for the digits of a value and of a scale without digits.
const TEXT_DIGITS: usize = 2 * DIGITS_MAX as usize;

/// Digits behind the point that a value with so many digits before it has room for.
fn fraction_room(whole: u32) -> u32 {
    DIGITS_MAX - whole.div_ceil(WORD_DIGITS).max(1) * WORD_DIGITS
}

/// The most that an 81-digit dividend is shifted: 10^162 still fits 576 bits.
const WIDE_SHIFT_MAX: u32 = 81;

/// Writes digits right-aligned, none for 0, and returns where they start.
fn write_u64(mut v: u64, digits: &mut [u8]) -> usize {
    let mut at = digits.len();
    while v > 0 {
        at -= 1;
        digits[at] = b'0' + (v % 10) as u8;
        v /= 10;
    }
    at
}

fn grouped(scale: u8) -> u32 {
    u32::from(scale).div_ceil(9) * 9
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.is_negative() != other.is_negative() {
            return other.is_negative().cmp(&self.is_negative());
        }
        let scale = self.scale.max(other.scale);
        let order = match (self.small_at(scale), other.small_at(scale)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => self.wide_at(scale).cmp(&other.wide_at(scale)),
        };
        if self.is_negative() { order.reverse() } else { order }
    }
}

impl Hash for Decimal {
    /// Equal numbers hash alike whatever their scale: zeros behind the point do not count.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (digits, scale) = self.shortest();
        (digits, scale, self.is_negative()).hash(state);
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(80);
        self.append_to(&mut text);
        f.pad(std::str::from_utf8(&text).unwrap_or(""))
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decimal({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        Decimal::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is no decimal"))
    }

    #[test]
    fn text_survives_a_round_trip() {
        let nines = "9".repeat(81);
        for text in ["0", "-1", "1.50", "0.001", "-0.5", "123456789012345678901234567890.123456789", &nines] {
            assert_eq!(d(text).to_string(), text);
        }
        assert_eq!(d(".5").to_string(), "0.5");
        assert_eq!(d("1.5e3").to_string(), "1500");
        assert_eq!(d("1.5e-3").to_string(), "0.0015");
        assert_eq!(d("-0.00").to_string(), "0.00");
        assert_eq!(Decimal::parse(b"1e81"), None);
        assert_eq!(Decimal::parse(b"abc"), None);
        assert_eq!(Decimal::parse_prefix(b" 12abc").map(|p| (p.value, p.used)), Some((d("12"), 3)));
        assert!(Decimal::parse_prefix(b"1e100000000000000").unwrap().overflow);
        assert_eq!(d("1e-100000000000000"), Decimal::ZERO);
    }

    #[test]
    fn sums_and_products_keep_their_scale() {
        assert_eq!(d("1.10").add(&d("2.205")).unwrap().to_string(), "3.305");
        assert_eq!(d("1.10").sub(&d("2.205")).unwrap().to_string(), "-1.105");
        assert_eq!(d("1.10").mul(&d("-2.205")).unwrap().to_string(), "-2.42550");
        let big = Decimal::max_value(65, 0);
        assert_eq!(big.add(&d("1")).unwrap().to_string(), format!("1{}", "0".repeat(65)));
        assert_eq!(big.mul(&big), Err(Overflow));
        let most = d(&"9".repeat(81));
        assert_eq!(most.add(&d("1")), Err(Overflow));
        assert_eq!(most.add(&Decimal::ZERO), Err(Overflow), "there is no word for the carry");
        assert_eq!(most.sub(&d("1")).unwrap().to_string(), format!("{}8", "9".repeat(80)));
        assert_eq!(most.rem(&d("0.1")).unwrap().to_string(), "0.0");
        let digits = "123451234512345123451234512345123451234512345.678906789067890678906789067890678906";
        assert_eq!(d(digits).mul(&d("1")).unwrap().to_string(), &digits[..digits.len() - 9]);
        assert_eq!(big.sub(&big).unwrap().to_string(), "0");
    }

    #[test]
    fn quotients_have_groups_of_nine() {
        assert_eq!(d("1").div(&d("3"), 4).unwrap().unwrap().to_string(), "0.333333333");
        assert_eq!(d("1").div(&d("0"), 4), Ok(None));
        assert_eq!(d("10.5").rem(&d("-3")).unwrap().to_string(), "1.5");
        assert_eq!(d("-7").div_integer(&d("2")).unwrap().to_string(), "-3");
        let wide = d("12345678901234567890123456789012345678901234567890");
        assert_eq!(
            wide.div(&d("1000000000000000000000000000000"), 4).unwrap().unwrap().round(4).to_string(),
            "12345678901234567890.1235"
        );
    }

    #[test]
    fn rounding_goes_away_from_zero() {
        for (text, scale, rounded, cut) in [
            ("2.5", 0, "3", "2"),
            ("-2.5", 0, "-3", "-2"),
            ("1.005", 2, "1.01", "1.00"),
            ("155", -1, "160", "150"),
            ("1.5", 3, "1.500", "1.500"),
            ("44", -2, "0", "0"),
            ("55", -2, "100", "0"),
            (
                "9999999999999999999999999999999999999999999.95",
                1,
                "10000000000000000000000000000000000000000000.0",
                "9999999999999999999999999999999999999999999.9",
            ),
        ] {
            assert_eq!(d(text).round(scale).to_string(), rounded, "{text}");
            assert_eq!(d(text).truncate(scale).to_string(), cut, "{text}");
        }
        assert_eq!(d("-1.5").ceil().to_string(), "-1");
        assert_eq!(d("-1.5").floor().to_string(), "-2");
    }

    #[test]
    fn values_fit_their_type_or_say_so() {
        assert_eq!(d("123.456").fit(5, 2), (d("123.46"), Fit::Rounded));
        assert_eq!(d("123.40").fit(5, 1), (d("123.4"), Fit::Exact));
        assert_eq!(d("-1234.5").fit(5, 2), (d("-999.99"), Fit::OutOfRange));
        assert_eq!(d("999.995").fit(5, 2), (d("999.99"), Fit::OutOfRange));
        assert_eq!(d(&"9".repeat(60)).fit(65, 30).1, Fit::OutOfRange);
    }

    #[test]
    fn integers_and_doubles_convert() {
        assert_eq!(d("9223372036854775807.4").to_i64(), Ok(i64::MAX));
        assert_eq!(d("9223372036854775807.5").to_i64(), Err(i64::MAX));
        assert_eq!(d("-9223372036854775808").to_i64(), Ok(i64::MIN));
        assert_eq!(d("-0.6").to_u64(), Err(0));
        assert_eq!(d("18446744073709551615").to_u64(), Ok(u64::MAX));
        assert_eq!(Decimal::from_f64(0.1).unwrap().to_string(), "0.1");
        assert_eq!(Decimal::from_f64(1e20).unwrap().to_string(), "100000000000000000000");
        assert!(Decimal::from_f64(1e70).is_err());
        assert_eq!(d("0.1").to_f64(), 0.1);
        assert_eq!(d("123456789012345678901234567890.5").to_f64(), 123456789012345678901234567890.5);
    }

    #[test]
    fn equal_numbers_hash_alike() {
        let hash = |v: &str| {
            let mut hasher = std::hash::DefaultHasher::new();
            d(v).hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash("1.500"), hash("1.5"));
        assert_eq!(hash("100"), hash("100.00"));
        assert_eq!(d("1.500"), d("1.5"));
    }

    #[test]
    fn equal_numbers_have_one_identity() {
        let identity = |v: &str| {
            let mut out = Vec::new();
            d(v).append_identity(&mut out);
            out
        };
        let nines = "9".repeat(65);
        let small = format!("0.{}1", "0".repeat(37));
        let numbers = [
            "0",
            "1",
            "-1",
            "10",
            "0.1",
            "256",
            "65536.5",
            "1.5",
            "-1.5",
            "100",
            &nines,
            &nines[1..],
            &small,
        ];
        for (i, a) in numbers.iter().enumerate() {
            for (j, b) in numbers.iter().enumerate() {
                assert_eq!(identity(a) == identity(b), i == j, "{a} and {b}");
            }
        }
        assert_eq!(identity("1.500"), identity("1.5"));
        assert_eq!(identity("100"), identity("100.00"));
        assert_eq!(identity("-0.0"), identity("0"));
        let wide = "123456789012345678901234567890123456789012345";
        assert_eq!(identity(wide), identity(&format!("{wide}.000")));
    }
}

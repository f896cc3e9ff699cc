//! DECIMAL arithmetic.
use std::cmp::Ordering;

/// A decimal number of up to 65 digits.
#[derive(Debug, Clone, Copy)]
pub struct Decimal {
    mag: [u32; 7],
    scale: u8,
    negative: bool,
}

/// The result needs more than 65 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow;

/// The most digits of a DECIMAL.
pub const MAX_PRECISION: u32 = 65;
/// The most digits after the point that a DECIMAL type declares.
pub const MAX_SCALE: u8 = 38;

impl Decimal {
    /// 0.
    pub const ZERO: Decimal = Decimal { mag: [0; 7], scale: 0, negative: false };
    /// An integer.
    pub fn from_i64(_v: i64) -> Decimal {
        unimplemented!()
    }
    /// An integer.
    pub fn from_u64(_v: u64) -> Decimal {
        unimplemented!()
    }
    /// Digits over 10^scale.
    pub fn from_parts(_negative: bool, _digits: u128, _scale: u8) -> Decimal {
        unimplemented!()
    }
    /// Reads a whole literal such as `-12.50` or `1.5e3`.
    pub fn parse(_text: &[u8]) -> Option<Decimal> {
        unimplemented!()
    }
    /// Nearest decimal of the shortest text of a double; saturates.
    pub fn from_f64(_v: f64) -> Decimal {
        unimplemented!()
    }
    /// Nearest double.
    pub fn to_f64(&self) -> f64 {
        unimplemented!()
    }
    /// Rounded to an integer; the nearest bound and an error where it does not fit.
    pub fn to_i64(&self) -> Result<i64, i64> {
        unimplemented!()
    }
    /// Rounded to an integer; the nearest bound and an error where it does not fit.
    pub fn to_u64(&self) -> Result<u64, u64> {
        unimplemented!()
    }
    /// Sum.
    pub fn add(&self, _o: &Decimal) -> Result<Decimal, Overflow> {
        unimplemented!()
    }
    /// Difference.
    pub fn sub(&self, _o: &Decimal) -> Result<Decimal, Overflow> {
        unimplemented!()
    }
    /// Product.
    pub fn mul(&self, _o: &Decimal) -> Result<Decimal, Overflow> {
        unimplemented!()
    }
    /// Quotient with MariaDB's scale; None for a zero divisor.
    pub fn div(&self, _o: &Decimal, _div_precision_increment: u8) -> Result<Option<Decimal>, Overflow> {
        unimplemented!()
    }
    /// Remainder with the sign of the dividend; None for a zero divisor.
    pub fn rem(&self, _o: &Decimal) -> Option<Decimal> {
        unimplemented!()
    }
    /// Negated.
    pub fn neg(&self) -> Decimal {
        unimplemented!()
    }
    /// Rounded half away from zero to `scale` digits (negative: left of the point).
    pub fn round(&self, _scale: i32) -> Decimal {
        unimplemented!()
    }
    /// Cut to `scale` digits (negative: left of the point).
    pub fn truncate(&self, _scale: i32) -> Decimal {
        unimplemented!()
    }
    /// Digits after the point.
    pub fn scale(&self) -> u8 {
        self.scale
    }
    /// Significant digits, at least the scale and at least 1.
    pub fn precision(&self) -> u32 {
        unimplemented!()
    }
    /// Whether the value is zero.
    pub fn is_zero(&self) -> bool {
        self.mag == [0; 7]
    }
    /// Whether the value is below zero.
    pub fn is_negative(&self) -> bool {
        self.negative
    }
    /// The largest value of DECIMAL(precision, scale).
    pub fn max_value(_precision: u32, _scale: u8) -> Decimal {
        unimplemented!()
    }
    /// Appends the digits, with exactly `scale` after the point.
    pub fn append_to(&self, _out: &mut Vec<u8>) {
        unimplemented!()
    }
}
impl PartialEq for Decimal {
    fn eq(&self, o: &Self) -> bool {
        self.cmp(o) == Ordering::Equal
    }
}
impl Eq for Decimal {}
impl PartialOrd for Decimal {
    fn partial_cmp(&self, o: &Self) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}
impl Ord for Decimal {
    fn cmp(&self, _o: &Self) -> Ordering {
        unimplemented!()
    }
}
impl std::fmt::Display for Decimal {
    fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        unimplemented!()
    }
}

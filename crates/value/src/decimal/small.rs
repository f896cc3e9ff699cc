//! Decimals whose digits fit 64 bits, for arithmetic over many rows: two words where a [`Decimal`] is four.
//!
//! Sums and products have the scales that [`Decimal`]'s have. What leaves 64 bits gives none, and the caller computes it
//! with [`Decimal`] instead.

use super::Decimal;
use crate::ValueRef;

/// The largest scale of a product.
const SCALE_MAX: u8 = 30;

const POW10: [i64; 19] = {
    let mut table = [1i64; 19];
    let mut i = 1;
    while i < 19 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

/// `digits / 10^scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Small {
    /// All digits, signed.
    pub digits: i64,
    /// How many of them stand behind the point.
    pub scale: u8,
}

impl Small {
    /// An exact number; none for NULL, for others and for those of more digits.
    #[inline]
    pub fn of(value: ValueRef<'_>) -> Option<Small> {
        match value {
            ValueRef::Int(digits) => Some(Small { digits, scale: 0 }),
            ValueRef::UInt(v) => Some(Small { digits: i64::try_from(v).ok()?, scale: 0 }),
            ValueRef::Decimal(v) => v.to_small(),
            _ => None,
        }
    }

    /// The digits at a scale that is not smaller.
    #[inline]
    pub fn digits_at(self, scale: u8) -> Option<i64> {
        match scale - self.scale {
            0 => Some(self.digits),
            more => self.digits.checked_mul(*POW10.get(usize::from(more))?),
        }
    }

    /// Sum; its scale is the larger of both.
    #[inline]
    pub fn checked_add(self, other: Small) -> Option<Small> {
        let scale = self.scale.max(other.scale);
        let digits = self.digits_at(scale)?.checked_add(other.digits_at(scale)?)?;
        Some(Small { digits, scale })
    }

    /// Difference; its scale is the larger of both.
    #[inline]
    pub fn checked_sub(self, other: Small) -> Option<Small> {
        let scale = self.scale.max(other.scale);
        let digits = self.digits_at(scale)?.checked_sub(other.digits_at(scale)?)?;
        Some(Small { digits, scale })
    }

    /// Product; its scale is the sum of both.
    #[inline]
    pub fn checked_mul(self, other: Small) -> Option<Small> {
        let scale = self.scale + other.scale;
        let digits = self.digits.checked_mul(other.digits)?;
        (scale <= SCALE_MAX).then_some(Small { digits, scale })
    }
}

impl Decimal {
    /// The same in 64 bits, where it fits.
    #[inline]
    pub fn to_small(&self) -> Option<Small> {
        let digits = i64::try_from(self.small()?).ok()?;
        let digits = if self.is_negative() { -digits } else { digits };
        (self.scale <= SCALE_MAX).then_some(Small { digits, scale: self.scale })
    }

    /// `digits / 10^scale`.
    #[inline]
    pub fn from_digits(digits: i128, scale: u8) -> Decimal {
        Decimal::from_parts(digits < 0, digits.unsigned_abs(), scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_arithmetic_is_that_of_decimals() {
        let texts =
            ["0", "0.00", "-0.05", "1", "-1.50", "123456789.25", "9223372036854775807", "-3.000000001"];
        let decimals = texts.map(|text| Decimal::parse(text.as_bytes()).unwrap());
        for a in &decimals {
            for b in &decimals {
                let (x, y) = (a.to_small().unwrap(), b.to_small().unwrap());
                for (small, exact) in
                    [(x.checked_add(y), a.add(b)), (x.checked_sub(y), a.sub(b)), (x.checked_mul(y), a.mul(b))]
                {
                    let exact = exact.unwrap();
                    match small {
                        Some(small) => {
                            let back = Decimal::from_digits(small.digits.into(), small.scale);
                            assert_eq!((back, back.scale()), (exact, exact.scale()), "{a} and {b}");
                        }
                        None => assert!(exact.precision() > 10, "{a} and {b}"),
                    }
                }
            }
        }
    }

    #[test]
    fn what_has_more_digits_is_none() {
        for text in ["9223372036854775808", "99999999999999999999.5"] {
            assert_eq!(Decimal::parse(text.as_bytes()).unwrap().to_small(), None, "{text}");
        }
        let lowest = Decimal::from_i64(i64::MIN);
        assert_eq!(lowest.to_small(), None);
        assert_eq!(
            Small::of(ValueRef::Int(i64::MIN)).unwrap().checked_add(Small { digits: -1, scale: 0 }),
            None
        );
    }
}

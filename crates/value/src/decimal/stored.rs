//! The stored form of DECIMAL, the same in rows, keys and binary logs.
//!
//! Digits before and behind the point stand in groups of nine, four octets each and big-endian; the first and the last
//! group may have fewer of both. The sign bit is inverted, and for negative numbers all bits are, so that memcmp orders
//! values of one type.

use super::Decimal;
use super::wide::Wide;

/// Octets of a group of 0-9 digits in the stored form.
const GROUP_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

impl Decimal {
    /// Octets of a stored DECIMAL(precision, scale).
    pub const fn stored_bytes(precision: u32, scale: u8) -> usize {
        let (whole, fraction) = (precision as usize - scale as usize, scale as usize);
        whole / 9 * 4 + GROUP_BYTES[whole % 9] + fraction / 9 * 4 + GROUP_BYTES[fraction % 9]
    }

    /// Appends the form that rows, keys and binary logs share: groups of nine digits, big-endian, sign bit inverted, all
    /// bits inverted for negative numbers, so that memcmp orders it. The value must fit the type.
    pub fn store(&self, precision: u32, scale: u8, out: &mut Vec<u8>) {
        let value = if self.scale == scale { *self } else { self.fit(precision, scale).0 };
        let start = out.len();
        out.resize(start + Decimal::stored_bytes(precision, scale), 0);
        let bytes = &mut out[start..];
        let mut source = match value.small() {
            Some(v) if v >> 64 == 0 => Digits::Small(v as u64),
            _ => Digits::Wide(value.wide()),
        };
        let (whole, fraction) = (precision as usize - usize::from(scale), usize::from(scale));
        let mut end = bytes.len();
        let mut put = |digit_count: usize, end: &mut usize| {
            let group = source.take(digit_count);
            let len = GROUP_BYTES[digit_count];
            bytes[*end - len..*end].copy_from_slice(&group.to_be_bytes()[4 - len..]);
            *end -= len;
        };
        if !fraction.is_multiple_of(9) {
            put(fraction % 9, &mut end);
        }
        for _ in 0..fraction / 9 + whole / 9 {
            put(9, &mut end);
        }
        if !whole.is_multiple_of(9) {
            put(whole % 9, &mut end);
        }
        bytes[0] ^= 0x80;
        if value.is_negative() {
            bytes.iter_mut().for_each(|b| *b = !*b);
        }
    }

    /// Reads what [`Decimal::store`] wrote; octets that are missing count as zero.
    pub fn load(precision: u32, scale: u8, bytes: &[u8]) -> Decimal {
        let (whole, fraction) = (precision as usize - usize::from(scale), usize::from(scale));
        let negative = bytes.first().is_some_and(|b| b & 0x80 == 0);
        let mask = if negative { 0xFF } else { 0 };
        let mut at = 0;
        let mut read = |digit_count: usize| {
            let len = GROUP_BYTES[digit_count];
            let mut group = 0u32;
            for _ in 0..len {
                let byte = bytes.get(at).copied().unwrap_or(mask) ^ mask ^ if at == 0 { 0x80 } else { 0 };
                group = group << 8 | u32::from(byte);
                at += 1;
            }
            group
        };
        let head = std::iter::once(whole % 9);
        let middle = std::iter::repeat_n(9, whole / 9 + fraction / 9);
        let groups = head.chain(middle).chain(std::iter::once(fraction % 9)).filter(|n| *n > 0);
        if precision <= 18 {
            let digits = groups
                .fold(0u64, |sum, n| sum.wrapping_mul(10u64.pow(n as u32)).wrapping_add(u64::from(read(n))));
            return Decimal::from_parts(negative, u128::from(digits), scale);
        }
        let mut digits = Wide::ZERO;
        for n in groups {
            digits.mul_small(10u32.pow(n as u32));
            digits.add_small(read(n));
        }
        Decimal::from_wide(negative, digits, u32::from(scale)).unwrap_or(Decimal::ZERO)
    }
}

/// Takes groups of digits from the low end.
enum Digits {
    Small(u64),
    Wide(Wide),
}

impl Digits {
    fn take(&mut self, count: usize) -> u32 {
        let unit = 10u32.pow(count as u32);
        match self {
            Digits::Small(v) => {
                let rest = *v % u64::from(unit);
                *v /= u64::from(unit);
                rest as u32
            }
            Digits::Wide(v) => v.div_small(unit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        Decimal::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is no decimal"))
    }

    #[test]
    fn stored_form_orders_as_numbers_do() {
        let values = ["-999.99", "-1.10", "-1", "-0.01", "0", "0.01", "1", "1.1", "12.34", "999.99"];
        let stored: Vec<Vec<u8>> = values
            .iter()
            .map(|v| {
                let mut out = Vec::new();
                d(v).store(5, 2, &mut out);
                assert_eq!(Decimal::load(5, 2, &out), d(v));
                assert_eq!(out.len(), Decimal::stored_bytes(5, 2));
                out
            })
            .collect();
        assert!(stored.is_sorted());
        let long = d("-12345678901234567890123456789012345.123456789012345678901234567890");
        let mut out = Vec::new();
        long.store(65, 30, &mut out);
        assert_eq!(Decimal::load(65, 30, &out), long);
    }
}

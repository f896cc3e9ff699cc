//! The stored form of DECIMAL, the same in rows, keys and binary logs.
//!
//! Digits before and behind the point stand in groups of nine, four octets each and big-endian; the first and the last
//! group may have fewer of both. The sign bit is inverted, and for negative numbers all bits are, so that memcmp orders
//! values of one type.

use super::Decimal;
use super::wide::Wide;

/// Octets of a group of 0-9 digits in the stored form.
const GROUP_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// The most digits that are read at once.
const SMALL_DIGITS: usize = 18;

/// How a stored decimal of few digits is read: three groups at most, of which the first ones may be empty.
#[derive(Clone, Copy)]
struct Shape {
    /// Octets of all groups; 0 where they are more than a word.
    bytes: u8,
    /// Bits of the second and the third group.
    bits: [u8; 2],
    /// One more than the largest number of the second and of the third group.
    units: [u32; 2],
}

const fn shape(precision: usize, scale: usize) -> Shape {
    let none = Shape { bytes: 0, bits: [0; 2], units: [1; 2] };
    if scale > precision || precision == 0 {
        return none;
    }
    // From the end: what is left of the fraction, groups of nine, the head.
    let groups = [scale % 9, 9, 9, (precision - scale) % 9];
    let nines = scale / 9 + (precision - scale) / 9;
    let (mut used, mut bytes, mut digits) = (0, 0, [0; 3]);
    let mut i = 0;
    while i < groups.len() {
        let present = match i {
            0 | 3 => groups[i] > 0,
            nth => nth <= nines,
        };
        if present {
            if used == digits.len() {
                return none;
            }
            digits[used] = groups[i];
            bytes += GROUP_BYTES[groups[i]];
            used += 1;
        }
        i += 1;
    }
    if bytes > size_of::<u64>() || nines > 2 {
        return none;
    }
    Shape {
        bytes: bytes as u8,
        bits: [8 * GROUP_BYTES[digits[1]] as u8, 8 * GROUP_BYTES[digits[0]] as u8],
        units: [10u32.pow(digits[1] as u32), 10u32.pow(digits[0] as u32)],
    }
}

static SHAPES: [[Shape; SMALL_DIGITS + 1]; SMALL_DIGITS + 1] = {
    let mut shapes = [[shape(0, 0); SMALL_DIGITS + 1]; SMALL_DIGITS + 1];
    let mut precision = 1;
    while precision <= SMALL_DIGITS {
        let mut scale = 0;
        while scale <= precision {
            shapes[precision][scale] = shape(precision, scale);
            scale += 1;
        }
        precision += 1;
    }
    shapes
};

impl Shape {
    /// The signed digits of what stands at the begin of `bytes`, which hold it whole.
    #[inline]
    fn read(&self, bytes: &[u8]) -> i64 {
        let unused = 64 - 8 * u32::from(self.bytes);
        let word = match bytes.first_chunk() {
            Some(chunk) => u64::from_be_bytes(*chunk) >> unused,
            None => bytes[..usize::from(self.bytes)].iter().fold(0, |word, b| word << 8 | u64::from(*b)),
        };
        let sign = 1 << 63 >> unused;
        let negative = word & sign == 0;
        let all = u64::MAX >> unused;
        let word = if negative { !(word ^ sign) & all } else { word ^ sign };
        let [middle, last] = self.bits;
        let third = word & !(u64::MAX << last);
        let second = word >> last & !(u64::MAX << middle);
        let first = word >> last >> middle;
        let [second_unit, third_unit] = self.units.map(u64::from);
        // Damaged octets may hold larger groups.
        let digits = first.wrapping_mul(second_unit).wrapping_add(second).wrapping_mul(third_unit);
        let digits = digits.wrapping_add(third) as i64;
        if negative { digits.wrapping_neg() } else { digits }
    }
}

impl Decimal {
    /// Octets of a stored DECIMAL(precision, scale).
    pub const fn stored_bytes(precision: u32, scale: u8) -> usize {
        let (whole, fraction) = (precision as usize - scale as usize, scale as usize);
        whole / 9 * 4 + GROUP_BYTES[whole % 9] + fraction / 9 * 4 + GROUP_BYTES[fraction % 9]
    }

    /// Appends the form that rows, keys and binary logs share: groups of nine digits, big-endian, sign bit inverted, all
    /// bits inverted for negative numbers, so that memcmp orders it. The value must fit the type.
    pub fn store(&self, precision: u32, scale: u8, out: &mut Vec<u8>) {
        let fits = self.scale == scale && (self.small().is_some() || self.digit_count() <= precision);
        let value = if fits { *self } else { self.fit(precision, scale).0 };
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

    /// The signed digits of what [`Decimal::store`] wrote at the begin of `bytes`; none where they may be more than 18, or
    /// octets are missing.
    #[inline]
    pub fn load_digits(precision: u8, scale: u8, bytes: &[u8]) -> Option<i64> {
        let shape = SHAPES.get(usize::from(precision))?.get(usize::from(scale))?;
        if shape.bytes == 0 || bytes.len() < usize::from(shape.bytes) {
            return None;
        }
        Some(shape.read(bytes))
    }

    /// Reads what [`Decimal::store`] wrote; octets that are missing count as zero.
    pub fn load(precision: u32, scale: u8, bytes: &[u8]) -> Decimal {
        if let Some(digits) = Decimal::load_digits(precision as u8, scale, bytes) {
            return Decimal::from_parts(digits < 0, u128::from(digits.unsigned_abs()), scale);
        }
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
        for (bytes, value) in stored.iter().zip(values) {
            let digits = Decimal::load_digits(5, 2, bytes).unwrap();
            assert_eq!(Decimal::from_digits(digits.into(), 2), d(value));
        }
        let long = d("-12345678901234567890123456789012345.123456789012345678901234567890");
        let mut out = Vec::new();
        long.store(65, 30, &mut out);
        assert_eq!(Decimal::load(65, 30, &out), long);
    }

    #[test]
    fn few_digits_are_read_at_once() {
        let mut read = 0;
        for precision in 1..=20u8 {
            for scale in 0..=precision.min(20) {
                for digits in
                    [0i64, 1, 9, 123456789, 987654321012345678, 999999999999999999, 100000000000000000]
                {
                    let digits = digits % 10i64.pow(u32::from(precision.min(18)));
                    for digits in [digits, -digits] {
                        let value = Decimal::from_digits(digits.into(), scale);
                        let mut out = Vec::new();
                        value.store(u32::from(precision), scale, &mut out);
                        let exact = Decimal::load_digits(precision, scale, &out);
                        out.extend_from_slice(&[0xA5; 8]);
                        let ahead = Decimal::load_digits(precision, scale, &out);
                        assert_eq!(exact, ahead, "({precision}, {scale}) {digits}");
                        if let Some(found) = exact {
                            assert_eq!(found, digits, "({precision}, {scale})");
                            read += 1;
                        }
                    }
                }
            }
        }
        assert!(read > 1500, "{read} were read");
        assert_eq!(Decimal::load_digits(15, 2, &[0x80; 6]), None);
    }
}

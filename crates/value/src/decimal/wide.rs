//! Unsigned integers of 576 bits for decimal arithmetic that leaves 128 bits.
//!
//! Limbs are 32 bits, least significant first. Widest use: the product of two 81-digit numbers and an 81-digit dividend
//! scaled by up to 10^81 (539 bits), so nothing here overflows silently: the callers bound their operands.

use std::cmp::Ordering;

/// Limbs of a [`Wide`].
pub(crate) const LIMBS: usize = 18;

/// An unsigned integer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wide(pub(crate) [u32; LIMBS]);

impl Wide {
    pub(crate) const ZERO: Wide = Wide([0; LIMBS]);

    pub(crate) fn from_u128(v: u128) -> Wide {
        let mut limbs = [0; LIMBS];
        for (i, limb) in limbs.iter_mut().take(4).enumerate() {
            *limb = (v >> (32 * i)) as u32;
        }
        Wide(limbs)
    }

    pub(crate) fn from_limbs(source: &[u32]) -> Wide {
        let mut limbs = [0; LIMBS];
        limbs[..source.len()].copy_from_slice(source);
        Wide(limbs)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0 == [0; LIMBS]
    }

    /// Limbs up to the highest that is not zero.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().rposition(|&limb| limb != 0).map_or(0, |i| i + 1)
    }

    pub(crate) fn mul_small(&mut self, factor: u32) {
        let mut carry = 0u64;
        for limb in &mut self.0 {
            let v = u64::from(*limb) * u64::from(factor) + carry;
            *limb = v as u32;
            carry = v >> 32;
        }
        debug_assert_eq!(carry, 0, "callers bound their operands");
    }

    pub(crate) fn add_small(&mut self, addend: u32) {
        let mut carry = u64::from(addend);
        for limb in &mut self.0 {
            if carry == 0 {
                break;
            }
            let v = u64::from(*limb) + carry;
            *limb = v as u32;
            carry = v >> 32;
        }
    }

    /// Divides in place and returns the remainder.
    pub(crate) fn div_small(&mut self, divisor: u32) -> u32 {
        let mut rest = 0u64;
        let len = self.len();
        for limb in self.0[..len].iter_mut().rev() {
            let v = (rest << 32) | u64::from(*limb);
            *limb = (v / u64::from(divisor)) as u32;
            rest = v % u64::from(divisor);
        }
        rest as u32
    }

    pub(crate) fn mul_pow10(&mut self, mut exponent: u32) {
        while exponent > 0 {
            let step = exponent.min(9);
            self.mul_small(10u32.pow(step));
            exponent -= step;
        }
    }

    /// Divides by a power of ten; returns the last digit cut off and whether anything below it was not zero.
    pub(crate) fn div_pow10(&mut self, mut exponent: u32) -> (u32, bool) {
        let mut sticky = false;
        let mut last = 0;
        while exponent > 0 {
            let step = exponent.min(9);
            let rest = self.div_small(10u32.pow(step));
            sticky |= last != 0;
            let unit = 10u32.pow(step - 1);
            last = rest / unit;
            sticky |= !rest.is_multiple_of(unit);
            exponent -= step;
        }
        (last, sticky)
    }

    pub(crate) fn add(&self, other: &Wide) -> Wide {
        let mut out = [0; LIMBS];
        let mut carry = 0u64;
        for (i, limb) in out.iter_mut().enumerate() {
            let v = u64::from(self.0[i]) + u64::from(other.0[i]) + carry;
            *limb = v as u32;
            carry = v >> 32;
        }
        Wide(out)
    }

    /// `self - other`, which must not be larger.
    pub(crate) fn sub(&self, other: &Wide) -> Wide {
        let mut out = [0; LIMBS];
        let mut borrow = 0i64;
        for (i, limb) in out.iter_mut().enumerate() {
            let v = i64::from(self.0[i]) - i64::from(other.0[i]) - borrow;
            *limb = v as u32;
            borrow = i64::from(v < 0);
        }
        debug_assert_eq!(borrow, 0, "callers compare first");
        Wide(out)
    }

    /// The product, of factors that together have at most [`LIMBS`] limbs.
    pub(crate) fn mul(&self, other: &Wide) -> Wide {
        let mut out = [0u32; LIMBS];
        let (an, bn) = (self.len(), other.len());
        for i in 0..an {
            let mut carry = 0u64;
            for j in 0..bn {
                let v = u64::from(self.0[i]) * u64::from(other.0[j]) + u64::from(out[i + j]) + carry;
                out[i + j] = v as u32;
                carry = v >> 32;
            }
            if i + bn < LIMBS {
                out[i + bn] = carry as u32;
            }
        }
        Wide(out)
    }

    /// Quotient and remainder by a divisor that is not zero (Knuth, volume 2, algorithm D).
    pub(crate) fn div_rem(&self, divisor: &Wide) -> (Wide, Wide) {
        let n = divisor.len();
        if n == 1 {
            let mut quotient = *self;
            let rest = quotient.div_small(divisor.0[0]);
            return (quotient, Wide::from_u128(u128::from(rest)));
        }
        if (*self).cmp(divisor) == Ordering::Less {
            return (Wide::ZERO, *self);
        }
        let shift = divisor.0[n - 1].leading_zeros();
        let v = shl(&divisor.0, shift);
        let mut u = shl(&self.0, shift);
        let m = self.len() - n;
        let mut quotient = [0u32; LIMBS];
        for j in (0..=m).rev() {
            let head = (u64::from(u[j + n]) << 32) | u64::from(u[j + n - 1]);
            let mut digit = head / u64::from(v[n - 1]);
            let mut rest = head % u64::from(v[n - 1]);
            while digit >> 32 != 0 || digit * u64::from(v[n - 2]) > (rest << 32 | u64::from(u[j + n - 2])) {
                digit -= 1;
                rest += u64::from(v[n - 1]);
                if rest >> 32 != 0 {
                    break;
                }
            }
            if sub_multiple(&mut u[j..=j + n], &v[..n], digit as u32) {
                digit -= 1;
                add_back(&mut u[j..=j + n], &v[..n]);
            }
            quotient[j] = digit as u32;
        }
        (Wide(quotient), Wide(shr(&u, shift)))
    }

    /// Decimal digits; 0 has none.
    pub(crate) fn digits(&self) -> u32 {
        let mut rest = *self;
        let mut count = 0;
        while rest.len() > 1 {
            rest.div_small(1_000_000_000);
            count += 9;
        }
        count + rest.0[0].checked_ilog10().map_or(0, |n| n + 1)
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wide {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}

fn shl(limbs: &[u32; LIMBS], shift: u32) -> [u32; LIMBS + 1] {
    let mut out = [0; LIMBS + 1];
    let mut carry = 0u64;
    for (i, &limb) in limbs.iter().enumerate() {
        let v = (u64::from(limb) << shift) | carry;
        out[i] = v as u32;
        carry = v >> 32;
    }
    out[LIMBS] = carry as u32;
    out
}

fn shr(limbs: &[u32; LIMBS + 1], shift: u32) -> [u32; LIMBS] {
    let mut out = [0; LIMBS];
    for (i, limb) in out.iter_mut().enumerate() {
        let v = (u64::from(limbs[i + 1]) << 32) | u64::from(limbs[i]);
        *limb = (v >> shift) as u32;
    }
    out
}

/// `u -= v * digit`; whether it went below zero.
fn sub_multiple(u: &mut [u32], v: &[u32], digit: u32) -> bool {
    let mut carry = 0u64;
    let mut borrow = 0i64;
    for (i, &limb) in v.iter().enumerate() {
        let product = u64::from(limb) * u64::from(digit) + carry;
        carry = product >> 32;
        let v = i64::from(u[i]) - borrow - (product & 0xFFFF_FFFF) as i64;
        u[i] = v as u32;
        borrow = i64::from(v < 0);
    }
    let top = i64::from(u[v.len()]) - borrow - carry as i64;
    u[v.len()] = top as u32;
    top < 0
}

fn add_back(u: &mut [u32], v: &[u32]) {
    let mut carry = 0u64;
    for (i, &limb) in v.iter().enumerate() {
        let sum = u64::from(u[i]) + u64::from(limb) + carry;
        u[i] = sum as u32;
        carry = sum >> 32;
    }
    u[v.len()] = (u64::from(u[v.len()]) + carry) as u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_is_the_inverse_of_multiplication() {
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..2000 {
            let mut a = Wide::ZERO;
            let mut b = Wide::ZERO;
            for i in 0..(1 + round % 7) {
                a.0[i] = if next() % 3 == 0 { u32::MAX } else { next() as u32 };
            }
            for i in 0..(1 + next() as usize % 7) {
                b.0[i] = if next() % 3 == 0 { u32::MAX } else { next() as u32 };
            }
            b.0[0] |= 1;
            let rest = b.sub(&Wide::from_u128(1));
            let (q, r) = a.mul(&b).add(&rest).div_rem(&b);
            assert!(q == a && r == rest, "round {round}");
        }
    }

    #[test]
    fn powers_of_ten_count_their_digits() {
        let mut v = Wide::from_u128(1);
        for n in 1..=140 {
            assert_eq!(v.digits(), n);
            v.mul_small(10);
        }
        assert_eq!(v.div_pow10(140), (0, false));
        assert!(v == Wide::from_u128(1));
    }
}

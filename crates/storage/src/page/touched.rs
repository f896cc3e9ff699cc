//! Which parts of a page were changed: a bit for each unit of [`UNIT`] bytes, what a device writes whole or not at all.
//!
//! A page is written in place only where it changed since it was last written there, and the doublewrite file keeps only
//! those units ([`crate::doublewrite`]). So every change of a page's bytes goes through [`Canvas`], which notes it.

use std::ops::Range;

use crate::layout::PAGE;

/// Bytes of a unit: a sector.
pub const UNIT: usize = 512;

/// A set of units of one page.
#[must_use = "what is not noted is not written"]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Touched(pub u32);

const _: () = assert!(PAGE == UNIT * u32::BITS as usize);

impl Touched {
    /// No unit.
    pub const NONE: Touched = Touched(0);
    /// The whole page.
    pub const ALL: Touched = Touched(u32::MAX);

    /// The units of these bytes.
    #[inline]
    pub fn of(bytes: Range<usize>) -> Touched {
        if bytes.is_empty() {
            return Touched::NONE;
        }
        let (first, last) = (bytes.start / UNIT, (bytes.end - 1) / UNIT);
        Touched(u32::MAX << first & u32::MAX >> (u32::BITS as usize - 1 - last))
    }

    /// Both.
    #[inline]
    pub fn and(self, other: Touched) -> Touched {
        Touched(self.0 | other.0)
    }

    /// Number of units.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The units' places in the page, in order.
    pub fn units(self) -> impl Iterator<Item = Range<usize>> {
        (0..u32::BITS as usize).filter(move |n| self.0 & 1 << n != 0).map(|n| n * UNIT..(n + 1) * UNIT)
    }
}

/// The bytes of a page as they are changed.
pub(super) struct Canvas<'a> {
    bytes: &'a mut [u8],
    touched: Touched,
}

impl<'a> Canvas<'a> {
    pub fn new(bytes: &'a mut [u8]) -> Canvas<'a> {
        Canvas { bytes, touched: Touched::NONE }
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    pub fn touched(&self) -> Touched {
        self.touched
    }

    #[inline]
    fn touch(&mut self, range: Range<usize>) {
        self.touched = self.touched.and(Touched::of(range));
    }

    /// Writes `bytes` at `at`.
    #[inline]
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.touch(at..at + bytes.len());
    }

    /// Moves the bytes of `from` to `to`.
    #[inline]
    pub fn shift(&mut self, from: Range<usize>, to: usize) {
        let len = from.len();
        self.bytes.copy_within(from, to);
        self.touch(to..to + len);
    }

    /// Zeros.
    pub fn clear(&mut self, range: Range<usize>) {
        self.bytes[range.clone()].fill(0);
        self.touch(range);
    }

    /// All bytes, all of them to be changed.
    pub fn all(&mut self) -> &mut [u8] {
        self.touched = Touched::ALL;
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_units_of_a_range_are_those_it_meets() {
        assert_eq!(Touched::of(0..0), Touched::NONE);
        assert_eq!(Touched::of(700..700), Touched::NONE);
        assert_eq!(Touched::of(0..1), Touched(1));
        assert_eq!(Touched::of(511..513), Touched(0b11));
        assert_eq!(Touched::of(0..PAGE), Touched::ALL);
        assert_eq!(Touched::of(PAGE - 1..PAGE), Touched(1 << 31));
        let units: Vec<_> = Touched::of(512..1500).units().collect();
        assert_eq!(units, [512..1024, 1024..1536]);
    }
}

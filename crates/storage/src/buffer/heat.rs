//! How much a page is in use, as CLOCK remembers it.
//!
//! A page has a small count. The hand takes one off as it passes, and a page without any is given away. Accesses add to
//! it, but only once in half a turn of the hand: a statement comes to a page several times in a row, purge soon once more,
//! and none of that says that anybody will want it again. So a page that comes in has nothing, and those that are
//! wanted turn after turn outlive any number of those that were wanted once (after the correlated reference period of
//! O'Neil, O'Neil, Weikum: The LRU-K page replacement algorithm, 1993).

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Half turns that count.
pub(super) const COUNT_MAX: u16 = 3;
const COUNT: u16 = 0xff;

/// The count in the low byte; in the high byte the half turn in which it was last raised, modulo 256.
pub(super) struct Heat(AtomicU16);

impl Heat {
    pub(super) const fn new() -> Heat {
        Heat(AtomicU16::new(0))
    }

    /// A page comes in during half turn `now`: what is done with it at once does not count.
    pub(super) fn reset(&self, now: u8) {
        self.0.store(u16::from(now) << 8, Relaxed);
    }

    /// An access. An update that another one overwrites is no loss.
    #[inline]
    pub(super) fn touch(&self, now: u8) {
        let heat = self.0.load(Relaxed);
        if heat >> 8 != u16::from(now) {
            let count = ((heat & COUNT) + 1).min(COUNT_MAX);
            self.0.store(u16::from(now) << 8 | count, Relaxed);
        }
    }

    /// The hand passes; false if the page was cold already.
    pub(super) fn cool(&self) -> bool {
        let heat = self.0.load(Relaxed);
        let warm = heat & COUNT != 0;
        if warm {
            self.0.store(heat - 1, Relaxed);
        }
        warm
    }

    pub(super) fn is_cold(&self) -> bool {
        self.0.load(Relaxed) & COUNT == 0
    }

    pub(super) fn is_hottest(&self) -> bool {
        self.0.load(Relaxed) & COUNT == COUNT_MAX
    }

    /// The page moves to another frame.
    pub(super) fn copy_from(&self, other: &Heat) {
        self.0.store(other.0.load(Relaxed), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_of_one_half_turn_count_once() {
        let heat = Heat::new();
        heat.reset(7);
        heat.touch(7);
        assert!(heat.is_cold(), "what brings a page in says nothing of its future");
        for now in 8..20 {
            heat.touch(now);
            heat.touch(now);
        }
        assert!(heat.is_hottest());
        assert!((0..COUNT_MAX).all(|_| heat.cool()) && !heat.cool());
    }
}

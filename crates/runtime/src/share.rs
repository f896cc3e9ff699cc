//! When statements in the background run: short statements first.
//!
//! A statement that has used [`BACKGROUND_NANOS`] of its worker is in the *background*. Background statements stand in a queue
//! of their own. While short statements keep coming, that queue gets one part in [`PARTS`] of the worker's time, no more and
//! no less; between two slices the worker serves short statements or sleeps in its reactor, so that clients on the same
//! machine get the processor. Without short statements the background has all of the time (decision 54).
//!
//! **Rules.** 1. Only a short statement that ended, or waits, shows that short ones come: a long one that has just begun does
//! not. 2. A fiber in the background that is woken runs at once, as others may wait for what it holds; it gives the worker
//! back at its first look at the clock. 3. The time of a slice is processor time, so that a thread which loses the processor
//! to a client does not lose its share too.

use std::cell::Cell;

/// Processor time after which a statement is in the background.
pub(crate) const BACKGROUND_NANOS: u64 = 2_000_000;
/// How long a background slice lasts while short statements come.
pub(crate) const SLICE_NANOS_METERED: u64 = 150_000;
/// The background gets one part of so many while short statements come.
const PARTS: u64 = 5;
/// Short statements keep coming if the last one ended so long ago.
const SHORT_NANOS: u64 = 1_000_000;
/// Time in which the background could not run, and for which it may make up.
const ARREARS_NANOS_MAX: u64 = 5_000_000;

/// The background's share of one worker.
#[derive(Default)]
pub(crate) struct Share {
    /// A short statement has ended or parked since the last look.
    has_short: Cell<bool>,
    /// When such a statement was last seen; 0 for never.
    short_at: Cell<u64>,
    /// From when the background may run while short statements come.
    free_at: Cell<u64>,
}

impl Share {
    /// A short statement has ended, or waits.
    #[inline]
    pub fn note_short(&self) {
        self.has_short.set(true);
    }

    /// Whether short statements come, so that the background is held to its share.
    pub fn is_metered(&self, now: u64) -> bool {
        if self.has_short.take() {
            self.short_at.set(now);
        }
        self.short_at.get() != 0 && now.saturating_sub(self.short_at.get()) < SHORT_NANOS
    }

    /// From when the background may run; not later than `now` if it may at once.
    pub fn background_from(&self, now: u64) -> u64 {
        if !self.is_metered(now) {
            return now;
        }
        // Where no short statement comes any more, it need not wait that long.
        self.free_at.get().min(self.short_at.get() + SHORT_NANOS)
    }

    /// The background may have run long ago, and short statements have taken all of the time since.
    pub fn is_overdue(&self, now: u64) -> bool {
        now.saturating_sub(self.free_at.get()) > SLICE_NANOS_METERED * PARTS
    }

    /// The background has used so many nanoseconds up to `now`.
    pub fn note_background(&self, now: u64, nanos: u64) {
        let from = match self.is_metered(now) {
            true => self.free_at.get().max(now.saturating_sub(ARREARS_NANOS_MAX)),
            // What it used while nobody else wanted it is not held against it.
            false => return self.free_at.set(now),
        };
        self.free_at.set(from + nanos * PARTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_000_000_000;

    #[test]
    fn without_short_statements_the_background_runs_all_the_time() {
        let share = Share::default();
        let mut now = START;
        for _ in 0..100 {
            assert_eq!(share.background_from(now), now);
            now += 500_000;
            share.note_background(now, 500_000);
        }
    }

    #[test]
    fn beside_short_statements_the_background_gets_a_fifth() {
        let share = Share::default();
        let (mut now, mut used) = (START, 0);
        while now < START + 1_000_000_000 {
            share.note_short();
            if share.background_from(now) <= now {
                now += SLICE_NANOS_METERED;
                used += SLICE_NANOS_METERED;
                share.note_background(now, SLICE_NANOS_METERED);
            } else {
                now += 30_000;
            }
        }
        let part = used as f64 / (now - START) as f64;
        assert!((0.19..0.21).contains(&part), "{part}");
    }

    #[test]
    fn a_late_slice_does_not_reduce_the_share() {
        let share = Share::default();
        let (mut now, mut used) = (START, 0);
        while now < START + 1_000_000_000 {
            share.note_short();
            // The worker looks once in a millisecond only.
            now += 1_000_000;
            while share.background_from(now) <= now {
                share.note_short();
                now += SLICE_NANOS_METERED;
                used += SLICE_NANOS_METERED;
                share.note_background(now, SLICE_NANOS_METERED);
            }
        }
        let part = used as f64 / (now - START) as f64;
        assert!((0.19..0.21).contains(&part), "{part}");
    }

    #[test]
    fn the_background_runs_freely_a_millisecond_after_the_last_short_statement() {
        let share = Share::default();
        share.note_short();
        assert!(share.is_metered(START));
        share.note_background(START, 3_000_000);
        assert_eq!(share.background_from(START), START + SHORT_NANOS);
        assert!(share.is_metered(START + SHORT_NANOS - 1));
        let later = START + SHORT_NANOS;
        assert_eq!(share.background_from(later), later);
    }

    #[test]
    fn time_used_while_nobody_else_came_is_not_held_against_the_background() {
        let share = Share::default();
        share.note_background(START, 50_000_000);
        share.note_short();
        assert_eq!(share.background_from(START), START);
    }
}

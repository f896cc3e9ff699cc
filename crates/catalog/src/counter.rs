//! AUTO_INCREMENT values and hidden row numbers: handed out from memory, kept by a tree's counter.
//!
//! A statement that wants values without gaps holds the tree's counter to its end (InnoDB's AUTO-INC lock). Who only wants
//! values takes them without a lock while nobody holds it or waits for it. `claims` counts those; it is looked at after `last`
//! was read and before it is changed, so a value that a holder hands out in between makes the change fail.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use keel_base::SqlResult;
use keel_storage::{CountOf, Engine, TreeHandle};
use keel_value::ValueRef;
use keel_value::key::KeyPart;

use keel_context::SessionVars;
use keel_context::engine_error;

/// The greatest value handed out or stored so far, and in memory what InnoDB passes over behind it.
pub struct Counter {
    last: AtomicU64,
    /// Statements that hold the tree's counter or wait for it.
    claims: AtomicUsize,
    /// Values were handed out since the table was opened.
    hands_out: AtomicBool,
}

/// A counter and the tree that keeps it.
#[derive(Clone, Copy)]
pub struct Counting<'t> {
    /// What memory knows.
    pub counter: &'t Counter,
    /// The engine of the tree.
    pub engine: &'t Engine,
    /// The tree.
    pub tree: &'t TreeHandle,
    /// How the column that counts begins the tree's keys; none where nothing is known of it.
    pub key: Option<&'t KeyPart>,
}

/// The greatest value before it was read from the tree.
const UNREAD: u64 = u64::MAX;

impl Default for Counter {
    fn default() -> Self {
        Counter {
            last: AtomicU64::new(UNREAD),
            claims: AtomicUsize::new(0),
            hands_out: AtomicBool::new(false),
        }
    }
}

impl Counter {
    /// Whether somebody holds the counter or waits for it.
    #[inline]
    pub fn is_claimed(&self) -> bool {
        self.claims.load(Ordering::SeqCst) != 0
    }

    /// A statement is about to ask for the tree's counter.
    pub fn claim(&self) {
        self.claims.fetch_add(1, Ordering::SeqCst);
    }

    /// It has given it back.
    pub fn disclaim(&self) {
        self.claims.fetch_sub(1, Ordering::SeqCst);
    }

    /// Passes over what a stored value leaves out as InnoDB does: the next one is at the next step of the session that stored
    /// it, whoever asks. Forgotten with the server's memory.
    pub fn pass(&self, value: u64, step: Step) {
        if step.increment > 1 {
            self.last.fetch_max(step.passed(value, 1).min(UNREAD - 1), Ordering::AcqRel);
        }
    }

    /// Counts a stored value below 1 as InnoDB does: as 0, and only in a table that has handed out values since it was opened.
    /// Not kept on disk.
    pub fn pass_zero(&self, step: Step) {
        if self.hands_out.load(Ordering::Relaxed) {
            self.last.fetch_max(step.passed(0, 1).min(UNREAD - 1), Ordering::AcqRel);
        }
    }

    fn note_handing_out(&self) {
        if !self.hands_out.load(Ordering::Relaxed) {
            self.hands_out.store(true, Ordering::Relaxed);
        }
    }
}

impl Counting<'_> {
    /// The greatest value so far. Waits at its first use.
    pub fn last(&self) -> SqlResult<u64> {
        let last = &self.counter.last;
        match last.load(Ordering::Acquire) {
            UNREAD => {
                let part = self.key.filter(|part| !part.descending && part.width().is_some());
                let counted_in = part.map(|part| |key: &[u8]| counted(part.scalar(key)).unwrap_or(0));
                let count_of = counted_in.as_ref().map(|counted_in| counted_in as CountOf<'_>);
                let kept = self.engine.counter(self.tree, count_of).map_err(engine_error)?.min(UNREAD - 1);
                match last.compare_exchange(UNREAD, kept, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => Ok(kept),
                    Err(other) => Ok(other),
                }
            }
            last => Ok(last),
        }
    }

    /// As [`Counting::reserve`], unless the counter is claimed.
    pub fn try_reserve(&self, count: u64, step: Step, max: u64) -> SqlResult<Reserved> {
        self.reserve_if(count, step, max, || !self.counter.is_claimed())
    }

    /// Hands out `count` values, `increment` apart, each congruent to `offset`; gives the first, or none where `max` is passed.
    pub fn reserve(&self, count: u64, step: Step, max: u64) -> SqlResult<Option<u64>> {
        match self.reserve_if(count, step, max, || true)? {
            Reserved::First(first) => Ok(Some(first)),
            Reserved::Exhausted | Reserved::Claimed => Ok(None),
        }
    }

    fn reserve_if(&self, count: u64, step: Step, max: u64, may: impl Fn() -> bool) -> SqlResult<Reserved> {
        let mut last = self.last()?;
        self.counter.note_handing_out();
        loop {
            if !may() {
                return Ok(Reserved::Claimed);
            }
            let Some(first) = step.after(last).filter(|first| *first <= max) else {
                return Ok(Reserved::Exhausted);
            };
            let end = first.saturating_add((count - 1).saturating_mul(step.increment)).min(max);
            let passed = step.passed(last.saturating_add(1), count).clamp(end, max.max(end));
            match self.counter.last.compare_exchange_weak(last, passed, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.engine.raise_counter(self.tree, end).map_err(engine_error)?;
                    return Ok(Reserved::First(first));
                }
                Err(now) => last = now,
            }
        }
    }

    /// The first of the next values, for who holds the tree's counter and raises it by what it stores; none where `max` is passed.
    pub fn next(&self, step: Step, max: u64) -> SqlResult<Option<u64>> {
        let last = self.last()?;
        self.counter.note_handing_out();
        Ok(step.after(last).filter(|first| *first <= max))
    }

    /// Notes that a row with `value` is about to be stored.
    pub fn raise(&self, value: u64) -> SqlResult<()> {
        let value = value.min(UNREAD - 1);
        if self.last()? < value {
            // Who finds it here takes it for raised.
            self.engine.raise_counter(self.tree, value).map_err(engine_error)?;
            self.counter.last.fetch_max(value, Ordering::AcqRel);
        }
        Ok(())
    }

    /// As [`Counting::raise`], where no row may ever tell of `value`: a crash does not forget it.
    pub fn keep(&self, value: u64) -> SqlResult<()> {
        let value = value.min(UNREAD - 1);
        self.last()?;
        self.engine.keep_counter(self.tree, value).map_err(engine_error)?;
        self.counter.last.fetch_max(value, Ordering::AcqRel);
        Ok(())
    }
}

/// A value of an AUTO_INCREMENT column, where it is one that counts.
pub fn counted(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::Int(v) if v > 0 => Some(v as u64),
        ValueRef::UInt(v) => Some(v),
        ValueRef::Double(v) if v > 0.0 => Some(v as u64),
        ValueRef::Float(v) if v > 0.0 => Some(v as u64),
        _ => None,
    }
}

/// What asking for values came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// The first of them.
    First(u64),
    /// There are no more.
    Exhausted,
    /// The counter is claimed: lock it first.
    Claimed,
}

/// `auto_increment_increment` and `auto_increment_offset`.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Distance of two values.
    pub increment: u64,
    /// Where they begin.
    pub offset: u64,
}

impl Step {
    /// One by one.
    pub const ONE: Step = Step { increment: 1, offset: 1 };

    /// As the session says.
    pub fn of(vars: &SessionVars) -> Step {
        Step { increment: vars.auto_increment_increment, offset: vars.auto_increment_offset }
    }

    /// The next value after `last`: as MariaDB's `compute_next_insert_id`, which computes beyond zero where the offset is
    /// greater than the increment.
    pub fn after(self, last: u64) -> Option<u64> {
        if self.increment <= 1 {
            return last.checked_add(1);
        }
        let extents = last.wrapping_add(self.increment).wrapping_sub(self.offset) / self.increment;
        let next = extents.wrapping_mul(self.increment).wrapping_add(self.offset);
        (next > last).then_some(next)
    }

    /// The value before the one from which the next values are sought, once `count` values were asked for at `from`: as
    /// InnoDB's `innobase_next_autoinc`, for which an offset greater than the increment is none.
    fn passed(self, from: u64, count: u64) -> u64 {
        let increment = self.increment.max(1);
        let offset = if self.offset > increment { 0 } else { self.offset };
        let extents = (from.abs_diff(offset) / increment).saturating_add(count);
        extents.saturating_mul(increment).saturating_add(offset).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_meet_increment_and_offset() {
        let step = Step { increment: 10, offset: 5 };
        assert_eq!([0, 4, 5, 14, 15].map(|n| step.after(n)), [5, 5, 15, 15, 25].map(Some));
        assert_eq!(Step::ONE.after(7), Some(8));
        assert_eq!(Step::ONE.after(u64::MAX), None);
        let beyond = Step { increment: 3, offset: 9 };
        assert_eq!([0, 2, 5, 8, 9].map(|n| beyond.after(n)), [2, 5, 8, 9, 12].map(Some));
    }
}

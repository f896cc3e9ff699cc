//! The tree's counter (AUTO_INCREMENT): exact in memory, logged in strides on page 0.
//!
//! Page 0 keeps a bound that no value has passed, so that most values cost no log record and latch no page that all
//! inserts share. A clean shutdown makes the bound exact. Behind a crash the value is the greatest of three: a floor, which
//! is the last value that was logged as exact; the last entry of the tree; and the greatest key that went from the end of a
//! leaf, whose beginning page 0 keeps, since no value may come twice whose row was deleted or rolled back. What a key counts
//! only its owner knows: where it cannot say, the bound is the value, up to a stride too high.

use crate::fault::StoreResult;
use crate::layout::*;

use super::Tree;

/// How far ahead of the value the logged bound is put.
const STRIDE: u64 = 1000;

/// The beginning of a key, filled up with zeros; zeros only for none.
type KeyStart = [u8; GONE_BYTES];

/// What a key counts, told from its first bytes, filled up with zeros.
pub type CountOf<'f> = &'f dyn Fn(&[u8]) -> u64;

/// A tree's counter in memory. Bound, floor and `gone` are what the log has, and grow but by [`Tree::set_counter`].
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    /// The greatest value so far, where it `is_exact`; else the bound.
    value: u64,
    is_exact: bool,
    /// No value beyond it is handed out before a greater one is in the log.
    bound: u64,
    /// The value was that great when it was last logged as exact.
    floor: u64,
    /// The greatest key that went from the end of a leaf.
    gone: KeyStart,
}

impl Counter {
    fn exact(value: u64) -> Counter {
        Counter { value, is_exact: true, bound: value, floor: value, gone: KeyStart::default() }
    }

    fn read(header: &[u8]) -> Counter {
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let (bound, ahead) = (number(AT_COUNTER), number(AT_COUNTER_AHEAD));
        let gone = header[AT_GONE..AT_GONE + GONE_BYTES].try_into().expect("as many bytes");
        Counter { value: bound, is_exact: ahead == 0, bound, floor: bound.saturating_sub(ahead), gone }
    }

    fn bytes(&self) -> [u8; 16 + GONE_BYTES] {
        let mut bytes = [0; 16 + GONE_BYTES];
        bytes[..8].copy_from_slice(&self.bound.to_le_bytes());
        bytes[8..16].copy_from_slice(&(self.bound - self.floor).to_le_bytes());
        bytes[16..].copy_from_slice(&self.gone);
        bytes
    }
}

fn start_of(key: &[u8]) -> KeyStart {
    let mut start = KeyStart::default();
    let len = key.len().min(GONE_BYTES);
    start[..len].copy_from_slice(&key[..len]);
    start
}

impl Tree {
    /// The tree's persistent counter. At the first use behind a crash its keys tell it through `count_of`; without, it is the
    /// bound. Waits at its first use.
    pub fn counter(&self, count_of: Option<CountOf<'_>>) -> StoreResult<u64> {
        let known = self.known_counter()?;
        if known.is_exact {
            return Ok(known.value);
        }
        let told = match count_of {
            Some(count_of) => self.told(count_of)?,
            None => u64::MAX,
        };
        let mut counter = self.space.counter.lock();
        let counter = counter.as_mut().expect("it is known");
        if !counter.is_exact {
            counter.is_exact = true;
            counter.value = told.min(counter.bound);
        }
        Ok(counter.value)
    }

    /// What floor, entries and what is known of those that went tell of the value.
    fn told(&self, count_of: CountOf<'_>) -> StoreResult<u64> {
        // In this order: an entry that goes in between is noted before.
        let last = self.last_key()?;
        let known = self.known_counter()?;
        let gone = Some(known.gone).filter(|gone| *gone != KeyStart::default());
        let counted = [last, gone].into_iter().flatten().map(|key| count_of(&key));
        Ok(counted.fold(known.floor, u64::max))
    }

    /// Raises the counter, which was read before, to at least `to`; waits now and then. A crash forgets it unless an entry
    /// tells of it.
    pub fn raise_counter(&self, to: u64) -> StoreResult<()> {
        let known = self.known_counter()?;
        if known.value >= to {
            return Ok(());
        }
        if to > known.bound {
            // Logged before it is shown: who sees the value appends behind the record that covers it.
            self.log_counter(|counter| counter.bound = counter.bound.max(to.saturating_add(STRIDE)))?;
        }
        self.raise_value(to);
        Ok(())
    }

    /// As [`Tree::raise_counter`], for good: no crash forgets it, though there is no entry that tells of it. Waits.
    pub fn keep_counter(&self, to: u64) -> StoreResult<()> {
        self.known_counter()?;
        self.log_counter(|counter| {
            counter.floor = counter.floor.max(to);
            counter.bound = counter.bound.max(to);
        })?;
        self.raise_value(to);
        Ok(())
    }

    /// Sets the counter, downwards too (`TRUNCATE`, `ALTER TABLE ... AUTO_INCREMENT`); waits.
    pub fn set_counter(&self, to: u64) -> StoreResult<()> {
        self.log_counter(|counter| *counter = Counter::exact(to))?;
        *self.space.counter.lock() = Some(Counter::exact(to));
        Ok(())
    }

    /// Makes the logged value exact; at clean shutdown.
    pub(crate) fn settle_counter(&self) -> StoreResult<()> {
        let known = *self.space.counter.lock();
        match known {
            Some(counter) if counter.is_exact && counter.floor < counter.bound => {
                self.set_counter(counter.value)
            }
            _ => Ok(()),
        }
    }

    /// Whether the entry at `key`, the last one of its leaf, is to be [noted](Tree::note_gone) before it goes: whether the
    /// tree counts, and no greater one has gone. [The counter was looked at](Tree::look_at_counter) before.
    pub(crate) fn is_to_note(&self, key: &[u8]) -> bool {
        let counter = self.space.counter.lock();
        counter.is_some_and(|counter| counter.bound > 0 && start_of(key) > counter.gone)
    }

    /// Reads the counter into memory, if this is its first use; waits. One that cannot be read counts nothing any more.
    pub(crate) fn look_at_counter(&self) {
        if !self.id().is_temporary() {
            let _ = self.known_counter();
        }
    }

    /// Notes that the entry at `key`, the last one of its leaf, is about to go: it may have been the last one of the tree,
    /// and what it counted must not come again. Waits.
    pub(crate) fn note_gone(&self, key: &[u8]) -> StoreResult<()> {
        self.log_counter(|counter| counter.gone = counter.gone.max(start_of(key)))
    }

    /// The counter as memory has it. Waits at its first use.
    fn known_counter(&self) -> StoreResult<Counter> {
        if let Some(counter) = *self.space.counter.lock() {
            return Ok(counter);
        }
        let stored = Counter::read(self.core.pool.latch_shared(&self.space, 0)?.page().bytes());
        Ok(*self.space.counter.lock().get_or_insert(stored))
    }

    fn raise_value(&self, to: u64) {
        if let Some(counter) = self.space.counter.lock().as_mut() {
            counter.value = to.max(counter.value);
        }
    }

    /// Logs what `change` makes of what the log has, then shows it.
    fn log_counter(&self, change: impl FnOnce(&mut Counter)) -> StoreResult<()> {
        let mtr = self.core.begin()?;
        let mut header = mtr.latch(&self.space, 0)?;
        let mut new = Counter::read(header.page().bytes());
        change(&mut new);
        header.write(AT_COUNTER, &new.bytes());
        mtr.commit();
        if let Some(counter) = self.space.counter.lock().as_mut() {
            counter.bound = counter.bound.max(new.bound);
            counter.floor = counter.floor.max(new.floor);
            counter.gone = counter.gone.max(new.gone);
        }
        Ok(())
    }

    /// The beginning of the greatest key of the tree. Waits.
    fn last_key(&self) -> StoreResult<Option<KeyStart>> {
        let mut leaf = self.last_leaf()?;
        while leaf.is_empty() {
            let low = leaf.low_fence().to_vec();
            if low.is_empty() {
                return Ok(None);
            }
            drop(leaf);
            leaf = self.leaf_below(None, &low)?;
        }
        let mut key = Vec::new();
        leaf.key(leaf.len() - 1, &mut key);
        Ok(Some(start_of(&key)))
    }
}

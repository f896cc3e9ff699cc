//! Whether two sets of index entries are the same, without keeping them: sums of hashes, by class.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use foldhash::quality::FixedState;

/// Classes of entries.
pub(super) const CLASSES: usize = 1024;

#[derive(Default)]
struct Class {
    count: AtomicI64,
    first: AtomicU64,
    second: AtomicU64,
}

/// Entries that rows ask for, less those that the index holds.
pub(super) struct Sums {
    classes: Vec<Class>,
}

/// Two independent hashes of an entry.
pub(super) fn hashes(key: &[u8], value: &[u8]) -> (u64, u64) {
    let hash = |seed| FixedState::with_seed(seed).hash_one((key, value));
    (hash(0x6b65_656c_0001), hash(0x6b65_656c_0002))
}

/// The class of an entry: by its key alone, so that entries which differ in their values meet.
pub(super) fn class_of(key: &[u8]) -> usize {
    FixedState::with_seed(0x6b65_656c_0003).hash_one(key) as usize % CLASSES
}

impl Sums {
    pub(super) fn new() -> Sums {
        Sums { classes: (0..CLASSES).map(|_| Class::default()).collect() }
    }

    /// Adds an entry `count` times.
    pub(super) fn add(&self, key: &[u8], value: &[u8], count: i64) {
        let class = &self.classes[class_of(key)];
        let (first, second) = hashes(key, value);
        class.count.fetch_add(count, Relaxed);
        class.first.fetch_add(first.wrapping_mul(count as u64), Relaxed);
        class.second.fetch_add(second.wrapping_mul(count as u64), Relaxed);
    }

    /// Classes in which both sides differ.
    pub(super) fn unequal(&self) -> Vec<usize> {
        let differs = |class: &Class| {
            class.count.load(Relaxed) != 0
                || class.first.load(Relaxed) != 0
                || class.second.load(Relaxed) != 0
        };
        (0..CLASSES).filter(|at| differs(&self.classes[*at])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_cancel_out_in_any_order() {
        let sums = Sums::new();
        let entries: Vec<[u8; 4]> = (0..5000u32).map(u32::to_be_bytes).collect();
        entries.iter().for_each(|entry| sums.add(entry, b"value", 1));
        entries.iter().rev().for_each(|entry| sums.add(entry, b"value", -1));
        assert!(sums.unequal().is_empty());
        sums.add(b"key", b"this", 1);
        sums.add(b"key", b"that", -1);
        assert_eq!(sums.unequal(), [class_of(b"key")]);
    }
}

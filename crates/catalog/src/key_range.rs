//! Ranges of an index's keys.

use std::ops::Bound;

use keel_storage::ScanRange;

/// A range of encoded keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    /// First key in it; empty is the start of the tree.
    pub lower: Vec<u8>,
    /// First key beyond it; none is the end of the tree.
    pub upper: Option<Vec<u8>>,
    /// What keys it holds.
    pub holds: Holds,
    /// It begins behind a value, so that a locking read locks the gap before its first row whatever key that has: behind 3
    /// comes 4, but also what is not there in between.
    pub behind: bool,
}

/// What keys a range holds, which tells a locking read what to lock behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holds {
    /// Those between two values.
    #[default]
    Between,
    /// Those that begin with single values.
    Prefixes,
    /// Those of single values of all the index's parts.
    Points,
    /// At most one: the whole key of a unique index, without NULL.
    Row,
}

impl KeyRange {
    /// As the engine takes it.
    pub fn as_scan(&self, reverse: bool) -> ScanRange<'_> {
        let lower =
            if self.lower.is_empty() { Bound::Unbounded } else { Bound::Included(self.lower.as_slice()) };
        let upper = self.upper.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        ScanRange { lower, upper, reverse }
    }
}

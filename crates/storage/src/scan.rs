//! Scans: rows of a range in key order.
//!
//! A plain scan copies what it needs of a leaf into its own buffer, few rows at first and whole leaves later, and gives
//! rows from there: no latch is held between calls. Entries that the snapshot does not see are copied as they are and
//! turned into the older version when their turn comes. In an index that is not enough for a transaction that writes: it
//! may have changed a row whose newest version it did not see, and then the entry says nothing about that row. Such
//! entries are given as undecided ([`Scan::next_of_index`]), and the caller asks the row.
//!
//! A locking scan takes one row at a time, since each row taken is a row locked: it asks for the row's lock under the
//! leaf's latch, waits without it, and looks at the row again. Where gaps are locked, the range between the last row
//! and this one is locked first; ends of leaves are fences, so that each piece is locked under the latch of the leaf it
//! lies in. Deleted rows are part of the gap.

use std::ops::{Bound, Range};

use keel_base::PageNo;
use keel_runtime::fiber;

use crate::engine::{Engine, TreeHandle};
use crate::error::{Error, Result};
use crate::fault::StoreResult;
use crate::options::{LockMode, Read, ScanRange, Wait};
use crate::row::Header;
use crate::tree::LeafRead;
use crate::txn::{State, Txn};
use crate::txn_read::{RowLock, if_taken, load_overflow, successor};

const FIRST_BATCH: usize = 4;
const BATCH_MAX: usize = 1024;

/// A scan in progress; holds no latch between calls.
pub struct Scan {
    tree: TreeHandle,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    reverse: bool,
    read: Read,
    place: Place,
    /// The page where `place` probably lies.
    hint: Option<PageNo>,
    /// Rows of the last batch.
    items: Vec<Item>,
    next_item: usize,
    batch: usize,
    bytes: Vec<u8>,
    /// The row given last, if it is not in `bytes` as it was given.
    row: Vec<u8>,
    /// End of the locked gap on the side where the scan came from.
    gap: Option<Vec<u8>>,
    /// Key of the row given last, if its lock is this scan's.
    newly_locked: Option<Vec<u8>>,
    /// The tree's entries stand for rows of another tree.
    of_index: bool,
}

/// From where the scan goes on.
enum Place {
    /// The end of the range where it begins.
    Start,
    /// Upwards from this key, included.
    From(Vec<u8>),
    /// Downwards from this key, excluded.
    Before(Vec<u8>),
    /// There is nothing left.
    End,
}

struct Item {
    key: Range<usize>,
    row: Range<usize>,
    header: Header,
    /// Whether the row may be given as it is.
    ready: bool,
    /// It is open whether the entry exists for this transaction.
    undecided: bool,
}

/// What a locking scan found at its place.
enum Found {
    /// A row; whether its lock is new.
    Row(bool),
    /// Queued for the row.
    Wait,
    /// Look at the place again.
    Again,
    /// Nothing here; the place has moved.
    Moved,
}

impl Scan {
    pub(crate) fn new(tree: &TreeHandle, range: ScanRange<'_>, read: Read) -> Scan {
        Scan {
            tree: tree.clone(),
            lower: range.lower.map(<[u8]>::to_vec),
            upper: range.upper.map(<[u8]>::to_vec),
            reverse: range.reverse,
            read,
            place: Place::Start,
            hint: None,
            items: Vec::new(),
            next_item: 0,
            batch: FIRST_BATCH,
            bytes: Vec::new(),
            row: Vec::new(),
            gap: None,
            newly_locked: None,
            of_index: false,
        }
    }

    /// The next key and row. Waits for pages and, if it locks, for rows.
    #[allow(clippy::type_complexity)]
    pub fn next(&mut self, txn: &mut Txn) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.advance(txn)?.map(|(item, as_stored)| self.given(item, as_stored)))
    }

    /// The same in a tree that is an index of rows in another tree. The flag says that it is open whether the entry exists
    /// for this transaction: it does if the row that it names, as the transaction sees it, has this entry.
    #[allow(clippy::type_complexity)]
    pub fn next_of_index(&mut self, txn: &mut Txn) -> Result<Option<(&[u8], &[u8], bool)>> {
        self.of_index = true;
        Ok(self.advance(txn)?.map(|(item, as_stored)| {
            let (key, row) = self.given(item, as_stored);
            (key, row, self.items[item].undecided)
        }))
    }

    fn given(&self, item: usize, as_stored: bool) -> (&[u8], &[u8]) {
        let item = &self.items[item];
        let row = if as_stored { &self.bytes[item.row.clone()] } else { self.row.as_slice() };
        (&self.bytes[item.key.clone()], row)
    }

    /// Finds the next item that is to be given; whether its row stands in `bytes`, else it is in `row`.
    fn advance(&mut self, txn: &mut Txn) -> Result<Option<(usize, bool)>> {
        let (engine, state) = (&*txn.engine, &mut txn.state);
        loop {
            if self.next_item == self.items.len() && !self.fill(engine, state)? {
                return Ok(None);
            }
            let number = self.next_item;
            let item = &self.items[number];
            self.next_item += 1;
            if item.ready || item.undecided {
                state.counts.read += 1;
                return Ok(Some((number, true)));
            }
            self.row.clear();
            self.row.extend_from_slice(&self.bytes[item.row.clone()]);
            let header = match self.read {
                Read::Snapshot => state.version_for(engine, item.header, &mut self.row)?,
                Read::Lock(..) => Some(item.header),
            };
            if let Some(header) = header {
                load_overflow(&self.tree, header, &mut self.row)?;
                state.counts.read += 1;
                return Ok(Some((number, false)));
            }
        }
    }

    /// Gives back the lock on the row that [`Scan::next`] gave last, if this scan took it and READ COMMITTED allows:
    /// the row did not match.
    pub fn unlock_current(&mut self, txn: &mut Txn) {
        if let Some(key) = self.newly_locked.take() {
            txn.state.unlock_row(&txn.engine, &self.tree, &key);
        }
    }

    /// Gets more rows; false at the end. Waits.
    fn fill(&mut self, engine: &Engine, state: &mut State) -> Result<bool> {
        self.items.clear();
        self.bytes.clear();
        self.next_item = 0;
        while self.items.is_empty() && !matches!(self.place, Place::End) {
            fiber::tick();
            state.bound_locks(engine);
            if state.interrupt.is_raised() {
                return Err(Error::Interrupted);
            }
            match self.read {
                Read::Snapshot => self.fill_plain(engine, state)?,
                Read::Lock(mode, wait) => self.fill_locked(engine, state, mode, wait)?,
            }
        }
        Ok(!self.items.is_empty())
    }

    fn leaf<'t>(&self, tree: &'t TreeHandle) -> StoreResult<LeafRead<'t>> {
        let tree = tree.tree();
        match (&self.place, self.hint) {
            (Place::From(key), Some(hint)) => tree.leaf_by_page(hint, key),
            (Place::From(key), None) => tree.leaf_for_read(key),
            (Place::Before(key), _) => tree.leaf_before(key),
            (Place::Start | Place::End, _) if self.reverse => match &self.upper {
                Bound::Unbounded => tree.last_leaf(),
                Bound::Included(key) => tree.leaf_for_read(key),
                Bound::Excluded(key) => tree.leaf_before(key),
            },
            (Place::Start | Place::End, _) => match &self.lower {
                Bound::Unbounded => tree.first_leaf(),
                Bound::Included(key) | Bound::Excluded(key) => tree.leaf_for_read(key),
            },
        }
    }

    /// Slots of `leaf` that lie in the range and are still to come, and whether the range ends in this leaf.
    fn slots(&self, leaf: &LeafRead<'_>) -> (Range<usize>, bool) {
        let at = |key: &[u8]| leaf.search(key).unwrap_or_else(|slot| slot);
        let after = |key: &[u8]| leaf.search(key).map_or_else(|slot| slot, |slot| slot + 1);
        let mut first = match &self.lower {
            Bound::Unbounded => 0,
            Bound::Included(key) => at(key),
            Bound::Excluded(key) => after(key),
        };
        let mut end = match &self.upper {
            Bound::Unbounded => leaf.len(),
            Bound::Included(key) => after(key),
            Bound::Excluded(key) => at(key),
        };
        match &self.place {
            Place::From(key) => first = first.max(at(key)),
            Place::Before(key) => end = end.min(at(key)),
            Place::Start | Place::End => {}
        }
        let ends_here = if self.reverse {
            match &self.lower {
                Bound::Unbounded => leaf.low_fence().is_empty(),
                Bound::Included(key) | Bound::Excluded(key) => leaf.low_fence() <= key.as_slice(),
            }
        } else {
            match (leaf.high_fence(), &self.upper) {
                (None, _) => true,
                (Some(_), Bound::Unbounded) => false,
                (Some(fence), Bound::Included(key)) => fence > key.as_slice(),
                (Some(fence), Bound::Excluded(key)) => fence >= key.as_slice(),
            }
        };
        (first..end.max(first), ends_here)
    }

    fn fill_plain(&mut self, engine: &Engine, state: &mut State) -> Result<()> {
        let tree = self.tree.clone();
        let leaf = self.leaf(&tree)?;
        let (slots, ends_here) = self.slots(&leaf);
        let batch = self.batch;
        self.batch = (batch * 4).min(BATCH_MAX);
        let take = |slots: Range<usize>| slots.take(batch);
        let taken = slots.len().min(batch);
        if self.reverse {
            take(0..taken).for_each(|n| self.copy(engine, state, &leaf, slots.end - 1 - n));
        } else {
            take(slots.clone()).for_each(|slot| self.copy(engine, state, &leaf, slot));
        }
        match (taken == slots.len(), self.reverse) {
            (true, _) => self.leave(&leaf, ends_here),
            (false, false) => {
                self.hint = Some(leaf.page_no());
                self.place = Place::From(key_at(&leaf, slots.start + taken));
            }
            (false, true) => self.place = Place::Before(key_at(&leaf, slots.end - taken)),
        }
        Ok(())
    }

    /// Goes on to the neighbour of `leaf`, or to the end.
    fn leave(&mut self, leaf: &LeafRead<'_>, ends_here: bool) {
        self.place = if ends_here {
            Place::End
        } else if self.reverse {
            Place::Before(leaf.low_fence().to_vec())
        } else {
            self.hint = leaf.right();
            leaf.high_fence().map_or(Place::End, |fence| Place::From(fence.to_vec()))
        };
    }

    fn copy(&mut self, engine: &Engine, state: &State, leaf: &LeafRead<'_>, slot: usize) {
        let (header, row) = Header::split(leaf.value(slot));
        let seen = state.sees(engine, header.trx);
        if !seen && self.of_index && state.own_id().0 != 0 {
            self.push(leaf, slot, header, row, false);
            self.items.last_mut().expect("just pushed").undecided = true;
            return;
        }
        if (seen && header.is_deleted()) || (!seen && header.is_fresh()) {
            return;
        }
        self.push(leaf, slot, header, row, seen && !header.is_overflow());
    }

    fn push(&mut self, leaf: &LeafRead<'_>, slot: usize, header: Header, row: &[u8], ready: bool) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(leaf.prefix());
        self.bytes.extend_from_slice(leaf.key_suffix(slot));
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(row);
        self.items.push(Item {
            key: start..middle,
            row: middle..self.bytes.len(),
            header,
            ready,
            undecided: false,
        });
    }

    fn fill_locked(&mut self, engine: &Engine, state: &mut State, mode: LockMode, wait: Wait) -> Result<()> {
        let mut waited = false;
        self.newly_locked = None;
        loop {
            let tree = self.tree.clone();
            let leaf = self.leaf(&tree)?;
            let found = self.lock_next(engine, state, &leaf, mode, wait)?;
            drop(leaf);
            match found {
                Found::Row(new) => {
                    if new || waited {
                        self.newly_locked =
                            self.items.last().map(|item| self.bytes[item.key.clone()].to_vec());
                    }
                    return Ok(());
                }
                Found::Wait => {
                    waited = true;
                    state.wait(engine, wait)?;
                }
                Found::Again => {}
                Found::Moved => return Ok(()),
            }
        }
    }

    /// Takes the next row of `leaf` with its lock, or says why not.
    fn lock_next(
        &mut self,
        engine: &Engine,
        state: &mut State,
        leaf: &LeafRead<'_>,
        mode: LockMode,
        wait: Wait,
    ) -> Result<Found> {
        let (mut slots, ends_here) = self.slots(leaf);
        let gaps = state.isolation.locks_gaps();
        if gaps && self.gap.is_none() {
            self.gap = self.first_gap_end(leaf, &slots);
        }
        loop {
            let slot = if self.reverse { slots.next_back() } else { slots.next() };
            let Some(slot) = slot else {
                if gaps {
                    self.lock_rest(state, leaf, slots, ends_here);
                }
                self.leave(leaf, ends_here);
                return Ok(Found::Moved);
            };
            let (header, row) = Header::split(leaf.value(slot));
            let ended = header.trx == state.own_id() || !engine.table.is_active(header.trx);
            if header.is_deleted() && ended {
                continue;
            }
            let key = key_at(leaf, slot);
            match state.lock_row(engine, &self.tree, &key, header, mode, true, if_taken(wait))? {
                RowLock::Mine(new) => {
                    self.push(leaf, slot, header, row, !header.is_overflow());
                    self.pass(state, leaf, key, gaps);
                    return Ok(Found::Row(new));
                }
                RowLock::Wait => return Ok(Found::Wait),
                RowLock::Again => return Ok(Found::Again),
                RowLock::Taken if wait == Wait::SkipLocked => {}
                RowLock::Taken => return Err(Error::LockNotAvailable),
            }
        }
    }

    /// Goes past the row at `key`, locking the gap before it.
    fn pass(&mut self, state: &mut State, leaf: &LeafRead<'_>, key: Vec<u8>, gaps: bool) {
        let above = successor(&key);
        if gaps {
            let me = state.shared().clone();
            match (&self.gap, self.reverse) {
                (Some(low), false) => self.tree.gaps().lock(&me, low, Some(&key)),
                (high, true) => self.tree.gaps().lock(&me, &above, high.as_deref()),
                (None, false) => {}
            }
            self.gap = Some(if self.reverse { key.clone() } else { above.clone() });
        }
        self.hint = Some(leaf.page_no());
        self.place = if self.reverse { Place::Before(key) } else { Place::From(above) };
    }

    /// Where the gap begins that lies before the first row of the scan (behind it, if it goes down).
    fn first_gap_end(&self, leaf: &LeafRead<'_>, slots: &Range<usize>) -> Option<Vec<u8>> {
        if self.reverse {
            return match slots.end < leaf.len() {
                true => Some(key_at(leaf, slots.end)),
                false => leaf.high_fence().map(<[u8]>::to_vec),
            };
        }
        Some(match slots.start {
            0 => leaf.low_fence().to_vec(),
            first => successor(&key_at(leaf, first - 1)),
        })
    }

    /// Locks what is left of the range in this leaf: up to the next row beyond the range, or to the fence.
    fn lock_rest(&mut self, state: &mut State, leaf: &LeafRead<'_>, slots: Range<usize>, ends_here: bool) {
        let me = state.shared().clone();
        if self.reverse {
            let low = match slots.start {
                first if first > 0 && ends_here => successor(&key_at(leaf, first - 1)),
                _ => leaf.low_fence().to_vec(),
            };
            self.tree.gaps().lock(&me, &low, self.gap.as_deref());
            self.gap = Some(low);
        } else {
            let high = match ends_here && slots.end < leaf.len() {
                true => Some(key_at(leaf, slots.end)),
                false => leaf.high_fence().map(<[u8]>::to_vec),
            };
            let low = self.gap.take().unwrap_or_default();
            self.tree.gaps().lock(&me, &low, high.as_deref());
            self.gap = high;
        }
    }
}

fn key_at(leaf: &LeafRead<'_>, slot: usize) -> Vec<u8> {
    let mut key = Vec::new();
    leaf.key(slot, &mut key);
    key
}

//! Scans: rows of a range in key order.
//!
//! A plain scan copies what it needs of a leaf into its own buffer, few rows at first and whole leaves later, and gives
//! rows from there: no latch is held between calls. Entries that the snapshot does not see are copied as they are and
//! turned into the older version when their turn comes. In an index that is not enough for a transaction that writes: it
//! may have changed a row whose newest version it did not see, and then the entry says nothing about that row. Such
//! entries are given as undecided ([`Scan::next_of_index`]), and the caller asks the row.
//!
//! A plain scan can be given a sieve, a test of stored rows: those that fail it are not copied, only counted.
//!
//! A locking scan takes one row at a time, since each row taken is a row locked: it asks for the row's lock under the
//! leaf's latch, waits without it, and looks at the row again. Where gaps are locked, the range between the last row
//! and this one is locked with it; ends of leaves are fences, so that each piece is locked under the latch of the leaf it
//! lies in. Deleted rows are part of the gap. What is locked where the range ends is InnoDB's choice ([`RangeEnd`]): the
//! first row beyond an open range is locked as well, one beyond equal keys is not.

use std::ops::{Bound, Range};
use std::time::Duration;

use keel_base::PageNo;
use keel_runtime::fiber;

use crate::engine::{Engine, TreeHandle};
use crate::error::{Error, Result};
use crate::fault::StoreResult;
use crate::lock::IfTaken;
use crate::options::{LockMode, RangeEnd, Read, ScanRange, Wait};
use crate::row::Header;
use crate::tree::LeafRead;
use crate::txn::{State, Txn};
use crate::txn_read::{RowLock, if_taken, load_overflow, successor};

/// Entries of a leaf that a scan looks at in the time of a row that it hands out.
const SLOTS_PER_TICK: u32 = 4;
const FIRST_BATCH: usize = 4;
const BATCH_MAX: usize = 1024;
/// Leaves that a scan comes through before it reads ahead, and the fewest that it reads then.
const LEAVES_BEFORE_AHEAD: usize = 2;
const AHEAD_MIN: usize = 4;
/// Rows that a leaf or two are likely to hold.
const FEW_ROWS: u64 = 10;

/// A scan in progress; holds no latch between calls.
pub struct Scan {
    tree: TreeHandle,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    reverse: bool,
    read: Read,
    place: ScanPlace,
    /// The page where `place` probably lies.
    hint: Option<PageNo>,
    /// The scan has just come to another leaf.
    entered: bool,
    /// Leaves it has come through.
    leaves: usize,
    /// Rows that may be all that will be asked for.
    wanted: u64,
    /// Leaves that were read ahead last.
    window: usize,
    /// Rows of the last batch.
    items: Vec<Item>,
    next_item: usize,
    batch: usize,
    /// Entries of the last leaf that were looked at.
    passed: u32,
    bytes: Vec<u8>,
    /// The row given last, if it is not in `bytes` as it was given.
    row: Vec<u8>,
    /// End of the locked gap on the side where the scan came from.
    gap: Option<Vec<u8>>,
    /// Key of the row given last, if its lock is this scan's.
    newly_locked: Option<Vec<u8>>,
    /// The tree's entries stand for rows of another tree.
    of_index: bool,
    /// What a locking scan locks where its range ends.
    end: RangeEnd,
    /// The range begins behind a value.
    behind: bool,
    /// A locking scan has given a row.
    found: bool,
    /// The range is behind: the next row is locked and not given.
    beyond: bool,
    /// `place` lies behind a row, not behind a leaf.
    after_row: bool,
    /// Key of the row locked beyond the range.
    beyond_key: Option<Vec<u8>>,
    /// Rows that others have locked are given as last committed, and not locked.
    semi_consistent: bool,
    /// The row given last is such a row.
    unlocked: bool,
    /// The row at the place is to be locked, whatever it takes.
    insist: bool,
    /// Rows that the sieve has kept back since the last item.
    kept_back: u64,
    /// The same before the row given last, and not taken yet.
    passed_over: u64,
    /// The row given last has passed the sieve.
    sifted: bool,
}

/// A test of a stored row, under its leaf's latch: it must not wait.
pub type Sieve<'s> = &'s dyn Fn(&[u8]) -> bool;

/// From where the scan goes on.
enum ScanPlace {
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
    /// Rows that the sieve has kept back before it.
    kept_back: u64,
    /// It has passed a sieve.
    sifted: bool,
}

/// What a locking scan found at its place.
enum ScanFound {
    /// A row; whether its lock is new.
    Row(bool),
    /// The row beyond the range; whether its lock is new.
    Beyond(bool),
    /// A row that others have locked, in the range or beyond it, as it stands there, and whether its writer is in progress; the
    /// place has moved.
    Locked { key: Vec<u8>, header: Header, written: bool, row: Vec<u8> },
    /// Queued for the row of this key.
    Wait(Vec<u8>),
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
            place: ScanPlace::Start,
            hint: None,
            entered: false,
            leaves: 0,
            wanted: u64::MAX,
            window: 0,
            items: Vec::new(),
            next_item: 0,
            batch: FIRST_BATCH,
            passed: 0,
            bytes: Vec::new(),
            row: Vec::new(),
            gap: None,
            newly_locked: None,
            of_index: false,
            end: RangeEnd::Gap,
            behind: false,
            found: false,
            beyond: false,
            after_row: false,
            beyond_key: None,
            semi_consistent: false,
            unlocked: false,
            insist: false,
            kept_back: 0,
            passed_over: 0,
            sifted: false,
        }
    }

    /// Begins anew, in the buffers that are there.
    pub(crate) fn again(self, tree: &TreeHandle, range: ScanRange<'_>, read: Read) -> Scan {
        let Scan { lower, upper, mut items, mut bytes, mut row, .. } = self;
        items.clear();
        bytes.clear();
        row.clear();
        let (lower, upper) = (bound(lower, range.lower), bound(upper, range.upper));
        let whole = ScanRange { lower: Bound::Unbounded, upper: Bound::Unbounded, reverse: range.reverse };
        Scan { lower, upper, items, bytes, row, ..Scan::new(tree, whole, read) }
    }

    /// Says that so many rows may be all that will be asked for: for a few no more pages are read than they need.
    pub fn want(&mut self, rows: u64) {
        self.wanted = rows;
    }

    /// Says what a locking scan locks where its range ends; else it is the gap alone.
    pub fn set_end(&mut self, end: RangeEnd) {
        self.end = end;
    }

    /// Says whether the range begins behind a value, so that a locking scan locks the gap before the first row also if that has
    /// the very key where the range begins.
    pub fn set_behind(&mut self, behind: bool) {
        self.behind = behind;
    }

    /// Makes a scan that locks exclusively give a row that others have locked as it was last committed, and unlocked
    /// ([`Scan::is_unlocked`]): the caller passes over it, or wants it after all ([`Scan::insist`]). One beyond the range ends
    /// the scan without a wait. Only under isolation levels that lock no gaps, and only in the tree of the rows.
    pub fn set_semi_consistent(&mut self) {
        self.semi_consistent = true;
    }

    /// Keys of the rows that the scan holds already and will give next; there may be more.
    pub fn upcoming(&self) -> impl Iterator<Item = &[u8]> {
        self.items[self.next_item..].iter().map(|item| &self.bytes[item.key.clone()])
    }

    /// Whether the row given last is the committed version of a row that others have locked.
    pub fn is_unlocked(&self) -> bool {
        self.unlocked
    }

    /// Goes back to the row given last, which is unlocked: the next call locks it, after waiting, and gives its newest
    /// version; or the row after it, if it is gone.
    pub fn insist(&mut self) {
        let Some(item) = self.items.last() else { return };
        let key = self.bytes[item.key.clone()].to_vec();
        self.place = if self.reverse { ScanPlace::Before(successor(&key)) } else { ScanPlace::From(key) };
        self.next_item = self.items.len();
        self.insist = true;
    }

    /// Once: the key of the row beyond the range that a locking scan locked at its end, if it did and keeps it.
    pub fn take_beyond(&mut self) -> Option<Vec<u8>> {
        self.beyond_key.take()
    }

    /// The next key and row. Waits for pages and, if it locks, for rows.
    #[allow(clippy::type_complexity)]
    pub fn next(&mut self, txn: &mut Txn) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.advance(txn, None)?.map(|(item, as_stored)| self.given(item, as_stored)))
    }

    /// The same but for rows that fail the sieve ([`Scan::take_passed_over`]). Some rows come untested, such as those of
    /// which an older version is seen ([`Scan::is_sifted`]), and all that a locking scan gives.
    #[allow(clippy::type_complexity)]
    pub fn next_sifted(&mut self, txn: &mut Txn, sieve: Sieve<'_>) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.advance(txn, Some(sieve))?.map(|(item, as_stored)| self.given(item, as_stored)))
    }

    /// Whether the row given last has passed the sieve.
    #[inline]
    pub fn is_sifted(&self) -> bool {
        self.sifted
    }

    /// Rows kept back by the sieve before the one given last, or before the end; once.
    #[inline]
    pub fn take_passed_over(&mut self) -> u64 {
        std::mem::take(&mut self.passed_over)
    }

    /// The same in a tree that is an index of rows in another tree. The flag says that it is open whether the entry exists
    /// for this transaction: it does if the row that it names, as the transaction sees it, has this entry.
    #[allow(clippy::type_complexity)]
    pub fn next_of_index(&mut self, txn: &mut Txn) -> Result<Option<(&[u8], &[u8], bool)>> {
        self.of_index = true;
        Ok(self.advance(txn, None)?.map(|(item, as_stored)| {
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
    #[inline]
    fn advance(&mut self, txn: &mut Txn, sieve: Option<Sieve<'_>>) -> Result<Option<(usize, bool)>> {
        let (engine, state) = (&*txn.engine, &mut txn.state);
        loop {
            if self.next_item == self.items.len() && !self.fill(engine, state, sieve)? {
                let kept_back = std::mem::take(&mut self.kept_back);
                self.passed_over += kept_back;
                state.counts.read += kept_back;
                return Ok(None);
            }
            let number = self.next_item;
            let item = &self.items[number];
            self.next_item += 1;
            self.passed_over += item.kept_back;
            state.counts.read += item.kept_back;
            self.sifted = item.sifted;
            if item.ready || item.undecided {
                state.counts.read += 1;
                return Ok(Some((number, true)));
            }
            self.row.clear();
            self.row.extend_from_slice(&self.bytes[item.row.clone()]);
            let header = match self.read {
                Read::Snapshot if !self.tree.is_temporary() => {
                    state.version_for(engine, item.header, &mut self.row)?
                }
                _ => Some(item.header),
            };
            let Some(header) = header else { continue };
            let mut is_there = true;
            if let Err(error) = load_overflow(state, &self.tree, header, &mut self.row) {
                let key = &self.bytes[item.key.clone()];
                if self.read != Read::Snapshot || !state.is_outrun(&self.tree, key, header)? {
                    return Err(error);
                }
                let row = &mut self.row;
                row.clear();
                is_there = state.get(engine, &self.tree, key, |now| row.extend_from_slice(now))?.is_some();
            }
            if is_there {
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
    fn fill(&mut self, engine: &Engine, state: &mut State, sieve: Option<Sieve<'_>>) -> Result<bool> {
        self.items.clear();
        self.bytes.clear();
        self.next_item = 0;
        while self.items.is_empty() && !matches!(self.place, ScanPlace::End) {
            fiber::tick_by(1 + std::mem::take(&mut self.passed) / SLOTS_PER_TICK);
            state.bound_locks(engine);
            if state.interrupt.is_raised() {
                return Err(Error::Interrupted);
            }
            match self.read {
                Read::Snapshot => self.fill_plain(engine, state, sieve)?,
                Read::Lock(mode, wait) => self.fill_locked(engine, state, mode, wait)?,
            }
        }
        Ok(!self.items.is_empty())
    }

    /// Reads what comes next together, where that is not in memory: a short range at its beginning, the next leaves of a long one
    /// once the scan has come through some. Waits.
    fn read_ahead(&mut self) -> StoreResult<()> {
        let tree = self.tree.tree();
        let (lower, upper) = (self.lower.as_ref().map(Vec::as_slice), self.upper.as_ref().map(Vec::as_slice));
        if matches!(self.place, ScanPlace::Start) {
            if self.wanted <= FEW_ROWS {
                return Ok(());
            }
            self.hint = match (self.reverse, upper) {
                (false, _) => Some(tree.enter_range(self.lower_key(), upper)?),
                (true, Bound::Excluded(upper)) => Some(tree.enter_range_above(lower, upper)?),
                (true, _) => None,
            };
            return Ok(());
        }
        if !std::mem::take(&mut self.entered) || self.leaves < LEAVES_BEFORE_AHEAD {
            return Ok(());
        }
        if let ScanPlace::Before(key) = &self.place {
            self.hint = Some(tree.leaf_page_before(key)?);
        }
        if !self.hint.is_some_and(|next| tree.is_absent(next)) {
            return Ok(());
        }
        self.window = (2 * self.window).clamp(AHEAD_MIN, tree.read_ahead_max());
        match &self.place {
            ScanPlace::From(key) => tree.read_ahead(key, upper, self.window),
            ScanPlace::Before(key) => tree.read_ahead_down(key, lower, self.window),
            ScanPlace::Start | ScanPlace::End => Ok(()),
        }
    }

    /// The key whose leaf is the first of the range.
    fn lower_key(&self) -> &[u8] {
        match &self.lower {
            Bound::Unbounded => &[],
            Bound::Included(key) | Bound::Excluded(key) => key,
        }
    }

    fn leaf<'t>(&self, tree: &'t TreeHandle) -> StoreResult<LeafRead<'t>> {
        let tree = tree.tree();
        match (&self.place, self.hint) {
            (ScanPlace::From(key), Some(hint)) => tree.leaf_by_page(hint, key),
            (ScanPlace::From(key), None) => tree.leaf_for_read(key),
            // Also a leaf without a row of the range: what is locked of it must not be skipped.
            (ScanPlace::Before(key), hint) => tree.leaf_below(hint, key),
            (ScanPlace::Start | ScanPlace::End, hint) if self.reverse => match &self.upper {
                Bound::Unbounded => tree.last_leaf(),
                Bound::Included(key) => tree.leaf_for_read(key),
                Bound::Excluded(key) => tree.leaf_below(hint, key),
            },
            (ScanPlace::Start | ScanPlace::End, Some(hint)) => tree.leaf_by_page(hint, self.lower_key()),
            (ScanPlace::Start | ScanPlace::End, None) => tree.leaf_for_read(self.lower_key()),
        }
    }

    /// Slots of `leaf` that lie in the range and are still to come, and whether the range ends in this leaf.
    fn slots(&self, leaf: &LeafRead<'_>) -> (Range<usize>, bool) {
        let at = |key: &[u8]| leaf.search(key).unwrap_or_else(|slot| slot);
        let after = |key: &[u8]| leaf.search(key).map_or_else(|slot| slot, |slot| slot + 1);
        let (lower, upper) = match (self.beyond, self.reverse) {
            (false, _) => (&self.lower, &self.upper),
            (true, false) => (&self.lower, &Bound::Unbounded),
            (true, true) => (&Bound::Unbounded, &self.upper),
        };
        let mut first = match lower {
            Bound::Unbounded => 0,
            Bound::Included(key) => at(key),
            Bound::Excluded(key) => after(key),
        };
        let mut end = match upper {
            Bound::Unbounded => leaf.len(),
            Bound::Included(key) => after(key),
            Bound::Excluded(key) => at(key),
        };
        match &self.place {
            ScanPlace::From(key) => first = first.max(at(key)),
            ScanPlace::Before(key) => end = end.min(at(key)),
            ScanPlace::Start | ScanPlace::End => {}
        }
        let ends_here = if self.reverse {
            match lower {
                Bound::Unbounded => leaf.low_fence().is_empty(),
                Bound::Included(key) | Bound::Excluded(key) => leaf.low_fence() <= key.as_slice(),
            }
        } else {
            match (leaf.high_fence(), upper) {
                (None, _) => true,
                (Some(_), Bound::Unbounded) => false,
                (Some(fence), Bound::Included(key)) => fence > key.as_slice(),
                (Some(fence), Bound::Excluded(key)) => fence >= key.as_slice(),
            }
        };
        (first..end.max(first), ends_here)
    }

    fn fill_plain(&mut self, engine: &Engine, state: &mut State, sieve: Option<Sieve<'_>>) -> Result<()> {
        self.read_ahead()?;
        let tree = self.tree.clone();
        let leaf = self.leaf(&tree)?;
        let (slots, ends_here) = self.slots(&leaf);
        let batch = self.batch;
        self.batch = (batch * 4).min(BATCH_MAX);
        let taken = slots.len().min(batch);
        for n in 0..taken {
            let slot = if self.reverse { slots.end - 1 - n } else { slots.start + n };
            self.copy(engine, state, &leaf, slot, sieve);
        }
        self.passed = taken as u32;
        match (taken == slots.len(), self.reverse) {
            (true, _) => self.leave(&leaf, ends_here),
            (false, false) => {
                self.hint = Some(leaf.page_no());
                self.place = ScanPlace::From(key_at(&leaf, slots.start + taken));
            }
            (false, true) => {
                self.hint = Some(leaf.page_no());
                self.place = ScanPlace::Before(key_at(&leaf, slots.end - taken));
            }
        }
        Ok(())
    }

    /// Goes on to the neighbour of `leaf`, or to the end.
    fn leave(&mut self, leaf: &LeafRead<'_>, ends_here: bool) {
        self.after_row = false;
        self.entered = true;
        self.leaves += 1;
        self.place = if ends_here {
            ScanPlace::End
        } else if self.reverse {
            self.hint = None;
            ScanPlace::Before(leaf.low_fence().to_vec())
        } else {
            self.hint = leaf.right();
            leaf.high_fence().map_or(ScanPlace::End, |fence| ScanPlace::From(fence.to_vec()))
        };
    }

    #[inline]
    fn copy(
        &mut self,
        engine: &Engine,
        state: &State,
        leaf: &LeafRead<'_>,
        slot: usize,
        sieve: Option<Sieve<'_>>,
    ) {
        let (header, row) = Header::split(leaf.value(slot));
        let seen = self.tree.is_temporary() || state.sees(engine, header.trx);
        if !seen && self.of_index && state.own_id().0 != 0 {
            self.push(leaf, slot, header, row, false);
            self.items.last_mut().expect("just pushed").undecided = true;
            return;
        }
        if (seen && header.is_deleted()) || (!seen && header.is_fresh()) {
            return;
        }
        let ready = seen && !header.is_overflow();
        match sieve {
            Some(sieve) if ready => {
                if sieve(row) {
                    self.push(leaf, slot, header, row, true);
                    self.items.last_mut().expect("just pushed").sifted = true;
                } else {
                    self.kept_back += 1;
                }
            }
            _ => self.push(leaf, slot, header, row, ready),
        }
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
            kept_back: std::mem::take(&mut self.kept_back),
            sifted: false,
        });
    }

    fn fill_locked(&mut self, engine: &Engine, state: &mut State, mode: LockMode, wait: Wait) -> Result<()> {
        // The row that was waited for last.
        let mut waited: Option<Vec<u8>> = None;
        self.newly_locked = None;
        self.unlocked = false;
        if self.semi_consistent && !state.isolation.locks_gaps() {
            // It keeps the old versions that may be looked at, and their overflow pages.
            state.take_snapshot(engine);
        }
        self.read_ahead()?;
        loop {
            let tree = self.tree.clone();
            let leaf = self.leaf(&tree)?;
            let found = self.lock_next(engine, state, &leaf, mode, wait)?;
            drop(leaf);
            if let Some(key) = waited.take_if(|key| self.went_past(key, &found)) {
                state.unlock_row(engine, &self.tree, &key);
            }
            match found {
                ScanFound::Row(new) => {
                    self.insist = false;
                    // InnoDB keeps one that it has waited for.
                    if new {
                        self.newly_locked =
                            self.items.last().map(|item| self.bytes[item.key.clone()].to_vec());
                    }
                    return Ok(());
                }
                ScanFound::Wait(key) => {
                    waited = Some(key);
                    state.wait(engine, wait)?;
                }
                ScanFound::Beyond(new) => {
                    // InnoDB lets it go only where it came to it upwards and by the clustered key.
                    let goes = !self.of_index && !self.reverse && !state.isolation.locks_gaps();
                    if goes && new {
                        let key = self.beyond_key.take().expect("just found");
                        state.unlock_row(engine, &self.tree, &key);
                    }
                    return Ok(());
                }
                ScanFound::Locked { key, header, written, mut row } => {
                    match state.committed_version(engine, header, written, &mut row)? {
                        // Its key says that it is beyond.
                        Some(_) if self.beyond => self.place = ScanPlace::End,
                        Some(header) => {
                            load_overflow(state, &tree, header, &mut row)?;
                            self.push_unlocked(&key, header, &row);
                        }
                        None => {}
                    }
                    return Ok(());
                }
                ScanFound::Again => {}
                ScanFound::Moved => return Ok(()),
            }
        }
    }

    /// Whether the row at `key`, whose lock was waited for, is gone and `found` lies behind it. In an index its lock stays:
    /// InnoDB keeps it there, and in the tree of rows until purge.
    fn went_past(&self, key: &[u8], found: &ScanFound) -> bool {
        let here = match found {
            ScanFound::Row(_) => self.items.last().map(|item| &self.bytes[item.key.clone()]),
            ScanFound::Beyond(_) => self.beyond_key.as_deref(),
            ScanFound::Wait(key) => Some(key.as_slice()),
            ScanFound::Again => return false,
            ScanFound::Locked { .. } | ScanFound::Moved => None,
        };
        !self.of_index && here != Some(key)
    }

    /// Takes the next row of `leaf` with its lock, or says why not.
    fn lock_next(
        &mut self,
        engine: &Engine,
        state: &mut State,
        leaf: &LeafRead<'_>,
        mode: LockMode,
        wait: Wait,
    ) -> Result<ScanFound> {
        // After a wait there may be rows in the range that were not there before.
        self.beyond = false;
        let (mut slots, mut ends_here) = self.slots(leaf);
        let gaps = state.isolation.locks_gaps();
        if gaps && self.gap.is_none() {
            self.gap = self.first_gap_end(leaf, &slots);
            if self.reverse {
                // InnoDB locks the gap above before it comes to the first row.
                let me = state.shared().clone();
                self.tree.gaps().lock(&me, &leaf.gap_low(slots.end), self.gap.as_deref());
            }
        }
        loop {
            let slot = if self.reverse { slots.next_back() } else { slots.next() };
            let Some(slot) = slot else {
                let is_read = match self.end {
                    RangeEnd::NextKey => true,
                    RangeEnd::NextKeyIfFound => self.found,
                    RangeEnd::Gap | RangeEnd::Unique | RangeEnd::GapBehind => false,
                };
                if ends_here && !self.beyond && is_read {
                    self.beyond = true;
                    (slots, ends_here) = self.slots(leaf);
                    continue;
                }
                if gaps && !(ends_here && self.needs_no_gap_behind()) {
                    self.lock_rest(state, leaf, slots, ends_here);
                }
                self.leave(leaf, ends_here);
                return Ok(ScanFound::Moved);
            };
            let (header, row) = Header::split(leaf.value(slot));
            let ended = header.trx == state.own_id() || !engine.table.is_active(header.trx);
            if header.is_deleted() && ended {
                if header.trx != state.own_id() {
                    state.note_seen(engine, header.trx);
                } else if !self.beyond {
                    // It is a record like others until purge, and by the clustered key it ends a search for it alone.
                    self.pass(state, leaf, slot, key_at(leaf, slot), gaps);
                    self.after_row = !self.of_index;
                    continue;
                }
                if !self.of_index {
                    state.pass_deleted(engine, &self.tree, header)?;
                }
                continue;
            }
            let key = key_at(leaf, slot);
            // Whoever may not wait at all is told so also there, as in MariaDB.
            let may_wait = state.timeout != Some(Duration::ZERO);
            let semi = self.semi_consistent && !gaps && !self.insist && may_wait;
            let if_taken = if semi { IfTaken::Refuse } else { if_taken(wait) };
            match state.lock_row(engine, &self.tree, &key, header, mode, true, if_taken)? {
                // Who deleted it has ended since that was asked above.
                RowLock::Mine(new) if header.is_deleted() && !self.tree.is_temporary() => {
                    if new {
                        state.unlock_row(engine, &self.tree, &key);
                    }
                    return Ok(ScanFound::Again);
                }
                RowLock::Mine(new) if self.beyond => {
                    self.pass(state, leaf, slot, key.clone(), gaps);
                    self.place = ScanPlace::End;
                    self.beyond_key = Some(key);
                    return Ok(ScanFound::Beyond(new));
                }
                RowLock::Mine(new) => {
                    self.push(leaf, slot, header, row, !header.is_overflow());
                    self.pass(state, leaf, slot, key, gaps);
                    self.found = true;
                    return Ok(ScanFound::Row(new));
                }
                RowLock::Wait => return Ok(ScanFound::Wait(key)),
                RowLock::Again => return Ok(ScanFound::Again),
                RowLock::Taken if semi => {
                    let row = row.to_vec();
                    self.pass(state, leaf, slot, key.clone(), gaps);
                    return Ok(ScanFound::Locked { key, header, written: !ended, row });
                }
                RowLock::Taken if wait == Wait::SkipLocked => self.step_over(leaf, key, gaps),
                RowLock::Taken => return Err(Error::LockNotAvailable),
            }
        }
    }

    /// Takes a row that is not in a latched leaf.
    fn push_unlocked(&mut self, key: &[u8], header: Header, row: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(row);
        let (key, row) = (start..middle, middle..self.bytes.len());
        self.items.push(Item {
            key,
            row,
            header,
            ready: true,
            undecided: false,
            kept_back: 0,
            sifted: false,
        });
        self.unlocked = true;
    }

    /// Goes past the row at `key` in `slot`, locking the gap below it; a scan downwards came through the one above.
    fn pass(&mut self, state: &mut State, leaf: &LeafRead<'_>, slot: usize, key: Vec<u8>, gaps: bool) {
        let above = successor(&key);
        if gaps {
            let me = state.shared().clone();
            match (&self.gap, self.reverse) {
                // The first row of "this key or greater" is locked alone if it has that very key.
                (Some(_), false) if !self.behind && self.lower == Bound::Included(key.clone()) => {}
                (Some(_), false) if self.end == RangeEnd::GapBehind => {}
                (Some(low), false) => self.tree.gaps().lock(&me, low, Some(&key)),
                (high, true) => {
                    self.tree.gaps().lock(&me, &above, high.as_deref());
                    self.tree.gaps().lock(&me, &leaf.gap_low(slot), Some(&key));
                }
                (None, false) => {}
            }
            self.gap = Some(if self.reverse { key.clone() } else { above.clone() });
        }
        self.leave_behind(leaf, key, above);
    }

    /// Goes past a row that another one has locked: the gap next to it, which comes with its lock, stays free too.
    fn step_over(&mut self, leaf: &LeafRead<'_>, key: Vec<u8>, gaps: bool) {
        let above = successor(&key);
        if gaps {
            // Downwards the gap between it and the next row lies below it: none is locked until there is a row.
            self.gap = Some(if self.reverse { Vec::new() } else { above.clone() });
        }
        self.leave_behind(leaf, key, above);
    }

    /// Goes on behind the row at `key`, before `above` where it goes up.
    fn leave_behind(&mut self, leaf: &LeafRead<'_>, key: Vec<u8>, above: Vec<u8>) {
        self.hint = Some(leaf.page_no());
        self.after_row = true;
        self.place = if self.reverse { ScanPlace::Before(key) } else { ScanPlace::From(above) };
    }

    /// Whether equal keys were sought and the last row found is the last that there can be.
    fn needs_no_gap_behind(&self) -> bool {
        match (&self.place, self.end, &self.lower, &self.upper) {
            _ if !self.after_row => false,
            (ScanPlace::From(next), RangeEnd::Unique, Bound::Included(key), _) => next.starts_with(key),
            (ScanPlace::From(next), RangeEnd::Gap | RangeEnd::GapBehind, _, Bound::Excluded(end)) => {
                crate::txn_write::after_prefix(&next[..next.len() - 1]).as_deref() == Some(end.as_slice())
            }
            _ => false,
        }
    }

    /// Where the gap begins that lies before the first row of the scan (behind it, if it goes down).
    fn first_gap_end(&self, leaf: &LeafRead<'_>, slots: &Range<usize>) -> Option<Vec<u8>> {
        if self.reverse {
            return match slots.end < leaf.len() {
                true => Some(key_at(leaf, slots.end)),
                false => leaf.high_fence().map(<[u8]>::to_vec),
            };
        }
        Some(leaf.gap_low(slots.start))
    }

    /// Locks what is left of the range in this leaf: up to the next row beyond the range, or to the fence.
    fn lock_rest(&mut self, state: &mut State, leaf: &LeafRead<'_>, slots: Range<usize>, ends_here: bool) {
        let me = state.shared().clone();
        if self.reverse {
            let low = if ends_here { leaf.gap_low(slots.start) } else { leaf.low_fence().to_vec() };
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

/// A bound in the buffer of another one.
fn bound(old: Bound<Vec<u8>>, new: Bound<&[u8]>) -> Bound<Vec<u8>> {
    let (Bound::Included(mut buffer) | Bound::Excluded(mut buffer)) = old else {
        return new.map(<[u8]>::to_vec);
    };
    new.map(|key| {
        buffer.clear();
        buffer.extend_from_slice(key);
        buffer
    })
}

fn key_at(leaf: &LeafRead<'_>, slot: usize) -> Vec<u8> {
    let mut key = Vec::new();
    leaf.key(slot, &mut key);
    key
}

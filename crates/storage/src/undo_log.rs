//! The undo log: segments of undo pages, each a queue that transactions append to and purge shortens from its head.
//!
//! A transaction stays on the segment it began on. A page carries its number in the segment's order (`seq`) and `low`:
//! the `seq` at or after which every transaction began that was in progress when the page was made. So when purge
//! stands in a page, pages before that page's `low` hold nothing that a transaction still to be ended or purged wrote,
//! and are freed. The directory page names each segment's first page and where purge stands, and the transaction id
//! below which all ids may have been given.
//!
//! ```text
//! undo page:  segment u16 | seq u64 | low u64 | records ...
//! directory:  magic u32 | segments u16 | 0 u16 | trx limit u64 | { head u32 | purge page u32 | purge offset u16 | 0 u16 } ...
//! ```
//!
//! Order: leaf latch, segment mutex, undo page latch, directory latch. The mutex is never taken under an undo latch.
//! A crash between taking a page off the head and freeing it loses that page of the file; nothing else.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keel_base::PageNo;
use keel_runtime::sync::Mutex as FiberMutex;
use parking_lot::Mutex;

use crate::alloc::Need;
use crate::buffer::free::ForAll;
use crate::error::Result;
use crate::fault::{StoreError, StoreResult};
use crate::mtr::{Mtr, UndoWrite};
use crate::store::{PinnedPage, Store, UNDO_CAPACITY, UNDO_DIRECTORY};
use crate::undo::{Common, Kind, UndoPtr, decode_common, prepared_name};
use crate::undo_ahead::UndoAhead;
use layout::PAGE_HEADER_BYTES;

/// Longest undo record.
pub(crate) const RECORD_MAX: usize = UNDO_CAPACITY - PAGE_HEADER_BYTES;

const MAGIC: u32 = 0x3144_554b;
const LIMIT_OFFSET: usize = 8;
const ENTRIES_OFFSET: usize = 16;
const ENTRY_BYTES: usize = 12;
/// Segments of a new data folder; a transaction takes that of its worker.
const SEGMENTS: usize = 32;
/// Ids are persisted in strides of this many.
const TRX_STRIDE: u64 = 1 << 16;

/// The form of the directory and of the pages, for who reads them without a log.
pub(crate) mod layout {
    use super::{ENTRY_BYTES, LIMIT_OFFSET, MAGIC, SEGMENTS, UndoPtr, entry_offset, word32, word64};

    /// Bytes before the records of a page.
    pub(crate) const PAGE_HEADER_BYTES: usize = 18;

    /// What a page says of itself.
    pub(crate) struct PageHead {
        /// Its segment.
        pub(crate) segment: u16,
        /// Its number in the segment.
        pub(crate) seq: u64,
        /// See the module.
        pub(crate) low: u64,
    }

    impl PageHead {
        /// Reads it from the bytes in use.
        pub(crate) fn read(bytes: &[u8]) -> Option<PageHead> {
            let segment = u16::from_le_bytes(bytes.first_chunk().copied()?);
            Some(PageHead { segment, seq: word64(bytes, 2)?, low: word64(bytes, 10)? })
        }
    }

    /// A segment as the directory has it.
    #[derive(Clone, Copy)]
    pub(crate) struct DirectoryEntry {
        /// Its first page; 0 for none.
        pub(crate) head: u32,
        /// Where purge stood.
        pub(crate) at: UndoPtr,
    }

    /// The limit of transaction ids and the segments; none if this is no directory.
    pub(crate) fn read_directory(bytes: &[u8]) -> Option<(u64, Vec<DirectoryEntry>)> {
        let count = usize::from(u16::from_le_bytes(bytes.get(4..)?.first_chunk().copied()?));
        if word32(bytes, 0)? != MAGIC || count == 0 || count > 16 * SEGMENTS {
            return None;
        }
        let entry = |number: usize| -> Option<DirectoryEntry> {
            let entry = bytes.get(entry_offset(number)..entry_offset(number) + ENTRY_BYTES)?;
            let at = UndoPtr::from_bytes(entry[4..10].try_into().ok()?);
            Some(DirectoryEntry { head: word32(entry, 0)?, at })
        };
        Some((word64(bytes, LIMIT_OFFSET)?, (0..count).map(entry).collect::<Option<_>>()?))
    }
}

/// The undo log; see the module.
pub(crate) struct UndoLog {
    store: Arc<Store>,
    directory: PinnedPage,
    segments: Box<[Segment]>,
    /// Reads pages before purge comes to them.
    ahead: FiberMutex<UndoAhead>,
}

#[derive(Default)]
struct Segment {
    state: Mutex<UndoLogState>,
    /// Held by who adds a page.
    rolling: FiberMutex<()>,
    purge: Mutex<PurgeState>,
    passed: Mutex<Passed>,
    /// Ended transactions that purge has not passed.
    history: AtomicU64,
}

/// Pages that purge, or who goes ahead of it, has gone through and that are not freed, as far as they are known: their `seq`
/// from `first` on.
#[derive(Default)]
struct Passed {
    first: u64,
    pages: VecDeque<u32>,
}

impl Passed {
    /// Purge goes on behind a page, perhaps not for the first time.
    fn push(&mut self, seq: u64, page: u32) {
        if self.pages.is_empty() {
            self.first = seq;
        }
        if seq == self.first + self.pages.len() as u64 && self.pages.len() < PASSED_MAX {
            self.pages.push_back(page);
        }
    }

    /// Up to `max` pages from `from` on and before `to`, which are about to be freed; none where the first is not known.
    fn take(&mut self, from: u64, to: u64, max: usize) -> Vec<u32> {
        let older = from.saturating_sub(self.first).min(self.pages.len() as u64);
        self.pages.drain(..older as usize);
        self.first += older;
        if self.first != from {
            return Vec::new();
        }
        let count = (to - from).min(self.pages.len() as u64).min(max as u64);
        self.first += count;
        self.pages.drain(..count as usize).collect()
    }
}

#[derive(Default)]
struct UndoLogState {
    tail: Option<Tail>,
    /// Where transactions in progress began: `seq` and how many.
    starts: BTreeMap<u64, u32>,
}

struct Tail {
    page: PageNo,
    seq: u64,
    pin: PinnedPage,
    /// What it was made for: while the disk is full, nothing less may stand on a page of those that are kept.
    least: Need,
}

/// A segment that is being opened.
struct Opening {
    purge: PurgeState,
    /// Order of the page read last.
    last_seq: Option<u64>,
    /// Purge has passed what was read so far.
    purged: bool,
    /// Transactions that have not ended in what was read so far.
    open: BTreeMap<u64, Unfinished>,
}

/// How far a segment is purged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PurgeState {
    head: u32,
    head_seq: u64,
    at: UndoPtr,
    at_seq: u64,
    at_low: u64,
}

/// Pages without an end record that purge goes through to find more than it has.
const PAGES_AHEAD: usize = 64;

/// Pages of a segment that are remembered until they are freed.
const PASSED_MAX: usize = 1 << 16;

/// Pages that are freed at a time, or more in a large pool.
const FREED_TOGETHER: usize = 16;

/// What comes next in a segment.
enum Next {
    End(Common),
    Page,
    Nothing,
}

/// A transaction that has ended and is not purged.
pub(crate) struct Ended {
    /// Its end record.
    pub(crate) common: Common,
    /// Behind that record.
    pub(crate) place: PurgeState,
}

/// Room for one record at the end of a segment, its page latched.
pub(crate) struct UndoRoom<'m> {
    write: UndoWrite<'m>,
    ptr: UndoPtr,
}

impl UndoRoom<'_> {
    /// Where the record will stand.
    pub(crate) fn ptr(&self) -> UndoPtr {
        self.ptr
    }

    /// Appends the record.
    pub(crate) fn append(mut self, record: &[u8]) {
        let offset = self.write.append(record);
        assert_eq!(offset, self.ptr.offset as usize, "undo page moved under its latch");
    }
}

/// A transaction that the log knows as begun and not ended.
#[derive(Debug, Clone)]
pub(crate) struct Unfinished {
    /// Its id.
    pub(crate) trx: u64,
    /// Its segment.
    pub(crate) segment: usize,
    /// Where it began.
    pub(crate) start_seq: u64,
    /// Its newest record.
    pub(crate) last: UndoPtr,
    /// Number of its records.
    pub(crate) changes: u64,
    /// Flags of its commit and its name, if it is prepared.
    pub(crate) prepared: Option<(u8, Box<[u8]>)>,
}

fn corrupt(page: u32, what: &str) -> StoreError {
    StoreError::Corrupt { file: "undo".into(), page, what: what.into() }
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// `seq` and `low` of an undo page.
fn page_order(page: u32, bytes: &[u8]) -> StoreResult<(u64, u64)> {
    word64(bytes, 2).zip(word64(bytes, 10)).ok_or_else(|| corrupt(page, "undo page without header"))
}

fn entry_offset(segment: usize) -> usize {
    ENTRIES_OFFSET + segment * ENTRY_BYTES
}

fn entry_bytes(head: u32, at: UndoPtr) -> [u8; ENTRY_BYTES] {
    let mut out = [0; ENTRY_BYTES];
    out[..4].copy_from_slice(&head.to_le_bytes());
    out[4..10].copy_from_slice(&at.to_bytes());
    out
}

impl UndoLog {
    /// Opens the log of `store`, making the directory if there is none. Reads all undo pages there are. Waits.
    pub(crate) fn open(store: &Arc<Store>) -> StoreResult<(UndoLog, Vec<Unfinished>)> {
        let directory = store.undo_pin(UNDO_DIRECTORY)?;
        let mtr = store.begin()?;
        let mut write = mtr.undo_write(&directory);
        if write.used() == 0 {
            let mut bytes = vec![0; entry_offset(SEGMENTS)];
            bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
            bytes[4..6].copy_from_slice(&(SEGMENTS as u16).to_le_bytes());
            bytes[LIMIT_OFFSET..LIMIT_OFFSET + 8].copy_from_slice(&1u64.to_le_bytes());
            write.append(&bytes);
        }
        let bytes = write.bytes().to_vec();
        mtr.commit();
        if word32(&bytes, 0) != Some(MAGIC) {
            return Err(corrupt(UNDO_DIRECTORY.0, "no undo directory"));
        }
        let count = u16::from_le_bytes([bytes[4], bytes[5]]) as usize;
        let segments = (0..count).map(|_| Segment::default()).collect();
        let ahead = FiberMutex::new(store.undo_ahead()?.for_purge());
        let log = UndoLog { store: store.clone(), directory, segments, ahead };
        let unfinished = log.open_segments(&bytes)?;
        Ok((log, unfinished))
    }

    /// Reads all segments beside each other, in the order in which their pages stand in the file.
    fn open_segments(&self, directory: &[u8]) -> StoreResult<Vec<Unfinished>> {
        let mut ahead = self.store.undo_ahead()?;
        let mut openings = Vec::with_capacity(self.segments.len());
        let mut places = BinaryHeap::new();
        for index in 0..self.segments.len() {
            let offset = entry_offset(index);
            let Some(entry) = directory.get(offset..offset + ENTRY_BYTES) else {
                return Err(corrupt(UNDO_DIRECTORY.0, "undo directory cut short"));
            };
            let head = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let at = UndoPtr::from_bytes([entry[4], entry[5], entry[6], entry[7], entry[8], entry[9]]);
            let purge = PurgeState { head, at, ..PurgeState::default() };
            openings.push(Opening { purge, last_seq: None, purged: true, open: BTreeMap::new() });
            if head != 0 {
                places.push(Reverse((head, index)));
            }
        }
        let mut unfinished = Vec::new();
        while let Some(Reverse((page, index))) = places.pop() {
            ahead.come_to(page)?;
            let opening = &mut openings[index];
            let read = self.store.undo_read(PageNo(page))?;
            let (seq, low) = page_order(page, read.bytes())?;
            if opening.last_seq.is_some_and(|last| seq <= last) {
                return Err(corrupt(page, "undo pages do not follow each other"));
            }
            opening.last_seq = Some(seq);
            if page == opening.purge.head {
                opening.purge.head_seq = seq;
            }
            if page == opening.purge.at.page {
                (opening.purge.at_seq, opening.purge.at_low) = (seq, low);
            }
            self.scan_page(index, page, seq, read.bytes(), opening)?;
            let next = read.next();
            drop(read);
            match next {
                Some(next) => places.push(Reverse((next.0, index))),
                None => self.end_opening(index, opening, (page, seq), &mut unfinished)?,
            }
        }
        Ok(unfinished)
    }

    /// All of a segment was read, up to its tail.
    fn end_opening(
        &self,
        index: usize,
        opening: &mut Opening,
        (page, seq): (u32, u64),
        out: &mut Vec<Unfinished>,
    ) -> StoreResult<()> {
        let pin = self.store.undo_pin(PageNo(page))?;
        let segment = &self.segments[index];
        let mut state = segment.state.lock();
        for trx in std::mem::take(&mut opening.open).into_values() {
            *state.starts.entry(trx.start_seq).or_default() += 1;
            out.push(trx);
        }
        state.tail = Some(Tail { page: PageNo(page), seq, pin, least: Need::New });
        *segment.purge.lock() = opening.purge;
        Ok(())
    }

    fn scan_page(
        &self,
        segment: usize,
        page: u32,
        seq: u64,
        bytes: &[u8],
        opening: &mut Opening,
    ) -> StoreResult<()> {
        let Opening { purge: PurgeState { at: purge_at, .. }, purged, open, .. } = opening;
        let mut offset = PAGE_HEADER_BYTES;
        while offset < bytes.len() {
            let Some(common) = decode_common(&bytes[offset..]) else {
                return Err(corrupt(page, "undo record cut short"));
            };
            let ptr = UndoPtr { page, offset: offset as u16 };
            *purged &= !(page == purge_at.page && ptr.offset >= purge_at.offset);
            if common.kind.is_end() {
                open.remove(&common.trx.0);
                if !*purged {
                    self.segments[segment].history.fetch_add(1, Ordering::Relaxed);
                }
            } else if common.kind == Kind::Prepare {
                if let Some(trx) = open.get_mut(&common.trx.0) {
                    let name = prepared_name(&common, &bytes[offset..]);
                    trx.prepared = (!name.is_empty()).then(|| (common.flags, name.into()));
                    trx.last = common.before;
                }
            } else {
                let fresh = Unfinished {
                    trx: common.trx.0,
                    segment,
                    start_seq: seq,
                    last: ptr,
                    changes: 0,
                    prepared: None,
                };
                let trx = open.entry(common.trx.0).or_insert(fresh);
                trx.last = ptr;
                trx.changes += 1;
            }
            offset += common.len;
        }
        // Purge may stand at the very end of its page.
        *purged &= page != purge_at.page;
        Ok(())
    }

    /// Ids below it may have been given before; raises it by a stride, persistently. Waits.
    pub(crate) fn raise_trx_limit(&self) -> StoreResult<(u64, u64)> {
        let mtr = self.store.begin()?;
        let mut write = mtr.undo_write(&self.directory);
        let old = word64(write.bytes(), LIMIT_OFFSET);
        let old = old.ok_or_else(|| corrupt(UNDO_DIRECTORY.0, "no transaction id limit"))?;
        let new = (old / TRX_STRIDE + 1) * TRX_STRIDE;
        write.write(LIMIT_OFFSET, &new.to_le_bytes());
        mtr.commit();
        Ok((old, new))
    }

    /// Number of segments.
    pub(crate) fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Ended transactions that purge has not passed.
    pub(crate) fn history_len(&self) -> u64 {
        self.segments.iter().map(|segment| segment.history.load(Ordering::Relaxed)).sum()
    }

    /// Room for `len` bytes at the end of `segment`, in `mtr`; `Err` names the full tail for [`UndoLog::roll_over`].
    /// At a transaction's first record `start` is set; give it back with [`UndoLog::left`].
    pub(crate) fn room<'m>(
        &self,
        segment: usize,
        mtr: &'m Mtr<'_>,
        len: usize,
        start: &mut Option<u64>,
        need: Need,
    ) -> std::result::Result<UndoRoom<'m>, Option<PageNo>> {
        let mut state = self.segments[segment].state.lock();
        let Some(tail) = &state.tail else { return Err(None) };
        let (page, seq) = (tail.page, tail.seq);
        let write = mtr.undo_write(&tail.pin);
        if write.room() < len || need < tail.least {
            return Err(Some(page));
        }
        if start.is_none() {
            *start = Some(seq);
            *state.starts.entry(seq).or_default() += 1;
        }
        let ptr = UndoPtr { page: page.0, offset: write.used() as u16 };
        Ok(UndoRoom { write, ptr })
    }

    /// Adds a page to `segment` unless its tail is not `full` any more. Call with no latch; waits.
    pub(crate) fn roll_over(&self, segment: usize, full: Option<PageNo>, need: Need) -> StoreResult<()> {
        // One for all who find it full: each would take a frame, and give it back.
        let _one = self.segments[segment].rolling.lock();
        let _for_all = ForAll::begin();
        if self.segments[segment].state.lock().tail.as_ref().map(|tail| tail.page) != full {
            return Ok(());
        }
        let spare = self.store.undo_reserve(need)?;
        let mtr = self.store.begin()?;
        let mut guard = self.segments[segment].state.lock();
        let state = &mut *guard;
        let seq = state.tail.as_ref().map_or(1, |tail| tail.seq + 1);
        let low = state.starts.first_key_value().map_or(seq, |(first, _)| *first);
        let (mut write, pin) = mtr.undo_alloc(spare)?;
        let page = write.page_no();
        let mut header = [0; PAGE_HEADER_BYTES];
        header[..2].copy_from_slice(&(segment as u16).to_le_bytes());
        header[2..10].copy_from_slice(&seq.to_le_bytes());
        header[10..].copy_from_slice(&low.to_le_bytes());
        write.append(&header);
        match &state.tail {
            Some(tail) => mtr.undo_write(&tail.pin).set_next(Some(page)),
            None => {
                let at = UndoPtr { page: page.0, offset: PAGE_HEADER_BYTES as u16 };
                mtr.undo_write(&self.directory).write(entry_offset(segment), &entry_bytes(page.0, at));
                let purge = PurgeState { head: page.0, head_seq: seq, at, at_seq: seq, at_low: low };
                *self.segments[segment].purge.lock() = purge;
            }
        }
        mtr.commit();
        state.tail = Some(Tail { page, seq, pin, least: need });
        Ok(())
    }

    /// Counts a transaction whose end record is written: before anybody may see that it has ended.
    pub(crate) fn add_ended(&self, segment: usize) {
        self.segments[segment].history.fetch_add(1, Ordering::SeqCst);
    }

    /// Says that the transaction that began at `start` is in progress no more.
    pub(crate) fn left(&self, segment: usize, start: u64) {
        let mut state = self.segments[segment].state.lock();
        if let Some(count) = state.starts.get_mut(&start) {
            *count -= 1;
            if *count == 0 {
                state.starts.remove(&start);
            }
        }
    }

    /// Gives the record at `ptr` to `f`, its page latched. Waits for the page.
    pub(crate) fn read<R>(&self, ptr: UndoPtr, f: impl FnOnce(&[u8]) -> Option<R>) -> Result<R> {
        let read = self.store.undo_read(PageNo(ptr.page))?;
        let record = read.bytes().get(ptr.offset as usize..);
        let result = record.and_then(f);
        drop(read);
        Ok(result.ok_or_else(|| corrupt(ptr.page, &format!("no undo record at {}", ptr.offset)))?)
    }

    /// Gives what is at `ptr` to `f` if its page is in memory. It waits for nothing but that page's latch, so another may be
    /// held; where nothing keeps the record, `f` must look whether it still is the one meant.
    pub(crate) fn try_read<R>(&self, ptr: UndoPtr, f: impl FnOnce(&[u8]) -> Option<R>) -> Option<R> {
        let read = self.store.undo_try_read(PageNo(ptr.page))?;
        read.bytes().get(ptr.offset as usize..).and_then(f)
    }

    /// Up to `max` ended transactions of `segment`, from the first that purge has not passed on, as long as it may pass them.
    /// Purge stays before the first until [`UndoLog::pass`]. Waits for pages.
    pub(crate) fn next_ended(
        &self,
        segment: usize,
        max: usize,
        may_pass: impl Fn(&Common) -> bool,
    ) -> StoreResult<Vec<Ended>> {
        let place = *self.segments[segment].purge.lock();
        self.ended_from(segment, place, max, may_pass, |place| {
            *self.segments[segment].purge.lock() = *place;
        })
    }

    /// The same from where somebody stands who goes ahead of purge, `place`; it comes to stand before the first of them, and
    /// goes past them by [`Ended::place`]. For who purges.
    pub(crate) fn next_ended_ahead(
        &self,
        segment: usize,
        place: &mut PurgeState,
        max: usize,
        may_pass: impl Fn(&Common) -> bool,
    ) -> StoreResult<Vec<Ended>> {
        let purge = *self.segments[segment].purge.lock();
        if (place.at_seq, place.at.offset) < (purge.at_seq, purge.at.offset) {
            *place = purge;
        }
        self.ended_from(segment, *place, max, may_pass, |before| *place = *before)
    }

    /// Ended transactions from `place` on; `stand` is told the place before the first.
    fn ended_from(
        &self,
        segment: usize,
        mut place: PurgeState,
        max: usize,
        may_pass: impl Fn(&Common) -> bool,
        mut stand: impl FnMut(&PurgeState),
    ) -> StoreResult<Vec<Ended>> {
        let mut found = Vec::new();
        let mut pages = 0;
        if place.head != 0 {
            self.ahead.lock().come_to(place.at.page)?;
        }
        while place.head != 0 && found.len() < max && pages < PAGES_AHEAD {
            let end = match self.next_end(segment, &mut place) {
                // What was found before can be purged all the same.
                Err(_) if !found.is_empty() => break,
                end => end?,
            };
            if found.is_empty() {
                stand(&place);
            }
            match end {
                Next::End(common) if may_pass(&common) => {
                    place.at.offset += common.len as u16;
                    found.push(Ended { common, place });
                    pages = 0;
                }
                Next::Page => pages += usize::from(!found.is_empty()),
                Next::End(_) | Next::Nothing => break,
            }
        }
        Ok(found)
    }

    /// Moves `place` to the next end record of its page, or to the next page.
    fn next_end(&self, segment: usize, place: &mut PurgeState) -> StoreResult<Next> {
        let read = self.store.undo_read(PageNo(place.at.page))?;
        let (offset, end) = Self::skip_changes(place.at, read.bytes())?;
        place.at.offset = offset as u16;
        if let Some(common) = end {
            return Ok(Next::End(common));
        }
        let Some(next) = read.next() else { return Ok(Next::Nothing) };
        drop(read);
        self.segments[segment].passed.lock().push(place.at_seq, place.at.page);
        self.ahead.lock().come_to(next.0)?;
        let read = self.store.undo_read(next)?;
        (place.at_seq, place.at_low) = page_order(next.0, read.bytes())?;
        place.at = UndoPtr { page: next.0, offset: PAGE_HEADER_BYTES as u16 };
        Ok(Next::Page)
    }

    /// Goes past a transaction of [`UndoLog::next_ended`], which is purged; one after the other.
    pub(crate) fn pass(&self, segment: usize, ended: &Ended) {
        *self.segments[segment].purge.lock() = ended.place;
        self.segments[segment].history.fetch_sub(1, Ordering::Relaxed);
    }

    /// Offset and content of the first end record at or after `at`, or the end of the page.
    fn skip_changes(at: UndoPtr, bytes: &[u8]) -> StoreResult<(usize, Option<Common>)> {
        let mut offset = at.offset as usize;
        while offset < bytes.len() {
            match decode_common(&bytes[offset..]) {
                None => return Err(corrupt(at.page, "undo record cut short")),
                Some(common) if common.kind.is_end() => return Ok((offset, Some(common))),
                Some(common) => offset += common.len,
            }
        }
        Ok((offset, None))
    }

    /// Persists where purge stands in `segment`. Waits.
    pub(crate) fn save_purge(&self, segment: usize) -> StoreResult<()> {
        let state = *self.segments[segment].purge.lock();
        self.write_entry(segment, &state)
    }

    fn write_entry(&self, segment: usize, state: &PurgeState) -> StoreResult<()> {
        let mtr = self.store.begin()?;
        mtr.undo_write(&self.directory).write(entry_offset(segment), &entry_bytes(state.head, state.at));
        mtr.commit();
        Ok(())
    }

    /// Frees pages of `segment` that nobody needs any more; says how many. Waits.
    pub(crate) fn free_passed(&self, segment: usize) -> StoreResult<u64> {
        let mut state = *self.segments[segment].purge.lock();
        if state.head == 0 {
            return Ok(0);
        }
        let keep = self.needed_from(segment, &state);
        let mut count = 0;
        while state.head_seq < keep {
            let freed = self.free_some(segment, &mut state, keep)?;
            if freed == 0 {
                break;
            }
            count += freed;
        }
        Ok(count)
    }

    /// Frees a few pages from the head of `segment` on, before `keep`; says how many. Waits.
    fn free_some(&self, segment: usize, state: &mut PurgeState, keep: u64) -> StoreResult<u64> {
        let ahead = self.ahead.lock();
        let until = keep.min(state.head_seq + ahead.max().max(FREED_TOGETHER) as u64);
        let passed = self.segments[segment].passed.lock().take(state.head_seq, until, ahead.max());
        // They left memory since purge was there, where sessions need it for other pages.
        ahead.read(&passed)?;
        drop(ahead);
        let mut free = Vec::new();
        while state.head_seq < until {
            let read = self.store.undo_read(PageNo(state.head))?;
            let next = read.next();
            drop(read);
            let Some(next) = next else { break };
            free.push(PageNo(state.head));
            state.head = next.0;
            state.head_seq += 1;
        }
        self.write_entry(segment, state)?;
        *self.segments[segment].purge.lock() = *state;
        for page in &free {
            self.store.undo_free(*page)?;
        }
        Ok(free.len() as u64)
    }

    /// Gives segments whose last page stands behind `page` a new one, so that the old one can be freed. Waits.
    pub(crate) fn leave_behind(&self, page: u32) -> StoreResult<()> {
        for segment in 0..self.segments.len() {
            let tail = self.segments[segment].state.lock().tail.as_ref().map(|tail| tail.page);
            if let Some(tail) = tail.filter(|tail| tail.0 >= page) {
                self.roll_over(segment, Some(tail), Need::New)?;
            }
        }
        Ok(())
    }

    /// The first `seq` that somebody may still need.
    fn needed_from(&self, segment: usize, purge: &PurgeState) -> u64 {
        let state = self.segments[segment].state.lock();
        let at_tail = state.tail.as_ref().is_some_and(|tail| tail.seq == purge.at_seq);
        // In the tail the transactions in progress are known exactly; but ones that ended behind purge's place are
        // not among them, so `low` stands until purge has passed all.
        if !at_tail || self.segments[segment].history.load(Ordering::Relaxed) != 0 {
            return purge.at_low.min(purge.at_seq);
        }
        state.starts.first_key_value().map_or(purge.at_seq, |(first, _)| (*first).min(purge.at_seq))
    }

    /// Pages from head to tail, over all segments.
    pub(crate) fn page_count(&self) -> u64 {
        let pages = |segment: &Segment| {
            let tail = segment.state.lock().tail.as_ref().map_or(0, |tail| tail.seq + 1);
            let head = segment.purge.lock().head_seq;
            if tail == 0 { 0 } else { tail - head }
        };
        self.segments.iter().map(pages).sum()
    }
}

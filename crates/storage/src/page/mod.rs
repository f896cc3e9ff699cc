//! Slotted pages: [`PageRef`] reads, [`PageBuilder`] builds, [`PageMut`] changes in place.
//!
//! Invariants:
//! 1. Keys ascend strictly; each lies in `[low fence, high fence)` and begins with the page's prefix, which is what the
//!    two fences share. Slots hold only the suffix after it.
//! 2. Every change is a function of the page's logical content and its arguments, so that replaying the redo of a change
//!    gives the same content, if not the same bytes in the gap.
//! 3. `heap` to the end of the page is live cells, fences and `garbage` dead bytes.
//!
//! Inner pages use the same format: the value is the child's number (u32), the key the child's low fence; the first key of
//! an inner page is its own low fence. Callers hold the page's latch (shared to read, exclusive to change).

mod problem;
pub mod touched;

use std::cmp::Ordering;

use crate::layout::*;
use touched::{Canvas, Touched};

/// Bytes that are compared with zero together, with wide registers.
const ZEROS_TOGETHER: usize = 256;

/// The value does not fit into the page as it is; split and retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

/// Reads a page.
#[derive(Clone, Copy)]
pub struct PageRef<'a>(&'a [u8]);

#[inline]
fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

#[inline]
fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().expect("four bytes"))
}

#[inline]
fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"))
}

/// First four bytes of `suffix`, so that most comparisons are decided by an integer.
#[inline]
fn head_of(suffix: &[u8]) -> u32 {
    if suffix.len() >= 4 {
        return u32::from_be_bytes([suffix[0], suffix[1], suffix[2], suffix[3]]);
    }
    let mut four = [0; 4];
    four[..suffix.len()].copy_from_slice(suffix);
    u32::from_be_bytes(four)
}

/// First eight bytes of `key` as a number that orders as the bytes do, up to equality.
#[inline]
pub fn key_head(key: &[u8]) -> u64 {
    if let Some(eight) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*eight);
    }
    let mut eight = [0; 8];
    eight[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(eight)
}

/// Orders byte strings, deciding most pairs by their first eight bytes.
#[inline]
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    if let (Some(x), Some(y)) = (a.first_chunk::<8>(), b.first_chunk::<8>()) {
        let (x, y) = (u64::from_be_bytes(*x), u64::from_be_bytes(*y));
        if x != y {
            return x.cmp(&y);
        }
        if a.len() == 8 && b.len() == 8 {
            return Ordering::Equal;
        }
    }
    a.cmp(b)
}

#[derive(Clone, Copy)]
struct Slot {
    offset: usize,
    key_len: usize,
    head: u32,
}

/// How many leading bytes `a` and `b` share.
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0).take_while(|(x, y)| x == y).count() * 8;
    words + a[words..].iter().zip(&b[words..]).take_while(|(x, y)| x == y).count()
}

/// How many trailing bytes `a` and `b` share.
pub fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let (x, y) = (a.as_rchunks::<8>().1.iter().rev(), b.as_rchunks::<8>().1.iter().rev());
    let words = x.zip(y).take_while(|(x, y)| x == y).count() * 8;
    let (a, b) = (&a[..a.len() - words], &b[..b.len() - words]);
    words + a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count()
}

/// The shortest key above `left` and not above `right`.
pub fn separator<'k>(left: &[u8], right: &'k [u8]) -> &'k [u8] {
    debug_assert!(left < right);
    &right[..common_prefix(left, right) + 1]
}

impl<'a> PageRef<'a> {
    /// Reads `bytes`, a whole page.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> PageRef<'a> {
        assert_eq!(bytes.len(), PAGE);
        PageRef(bytes)
    }

    /// The whole page.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// One of `KIND_*`.
    #[inline]
    pub fn kind(self) -> u8 {
        self.0[AT_KIND]
    }

    /// 0 for leaves.
    #[inline]
    pub fn level(self) -> u8 {
        self.0[AT_LEVEL]
    }

    /// Whether the page is part of a tree's levels.
    #[inline]
    pub fn is_node(self) -> bool {
        matches!(self.kind(), KIND_LEAF | KIND_INNER)
    }

    /// The page's own number.
    pub fn page_no(self) -> u32 {
        u32_at(self.0, AT_PAGE)
    }

    /// The tree's id.
    pub fn tree(self) -> u32 {
        u32_at(self.0, AT_TREE)
    }

    /// End of the last mini-transaction that changed the page.
    #[inline]
    pub fn lsn(self) -> u64 {
        u64_at(self.0, AT_LSN)
    }

    /// Number of entries.
    #[inline]
    pub fn count(self) -> usize {
        u16_at(self.0, AT_COUNT) as usize
    }

    /// Right neighbour or next of a chain; 0 for none.
    #[inline]
    pub fn right(self) -> u32 {
        u32_at(self.0, AT_RIGHT)
    }

    /// Lowest byte of the cells (undo: end of the bytes).
    pub fn heap(self) -> usize {
        u16_at(self.0, AT_HEAP) as usize
    }

    /// The slot behind the newest entry (0 for none), and how many came in order before it: see [`AT_RUN`].
    pub fn insert_run(self) -> (usize, i16) {
        (u16_at(self.0, AT_LAST) as usize, u16_at(self.0, AT_RUN).cast_signed())
    }

    fn garbage(self) -> usize {
        u16_at(self.0, AT_GARBAGE) as usize
    }

    /// Bytes all keys share.
    #[inline]
    pub fn prefix_len(self) -> usize {
        u16_at(self.0, AT_PREFIX) as usize
    }

    /// What all keys begin with.
    #[inline]
    pub fn prefix(self) -> &'a [u8] {
        let off = u16_at(self.0, AT_LOW_OFF) as usize;
        &self.0[off..off + self.prefix_len()]
    }

    /// Least key the page may hold.
    #[inline]
    pub fn low(self) -> &'a [u8] {
        let off = u16_at(self.0, AT_LOW_OFF) as usize;
        &self.0[off..off + u16_at(self.0, AT_LOW_LEN) as usize]
    }

    /// Whether the first `keep` entries fit between the low fence and `high`.
    pub fn can_truncate(self, keep: usize, high: &[u8]) -> bool {
        let skip = common_prefix(self.low(), high);
        let cell = |index: usize| {
            let key = (self.prefix_len() + self.suffix(index).len()).checked_sub(skip)?;
            Some(SLOT + CELL_HEAD + key + self.value(index).len())
        };
        let cells: Option<usize> = (0..keep.min(self.count())).map(cell).sum();
        keep <= self.count()
            && cells.is_some_and(|cells| HEADER + self.low().len() + high.len() + cells <= PAGE)
    }

    /// Least key beyond the page.
    #[inline]
    pub fn high(self) -> Option<&'a [u8]> {
        if u16_at(self.0, AT_FLAGS) & FLAG_HIGH == 0 {
            return None;
        }
        let off = u16_at(self.0, AT_HIGH_OFF) as usize;
        Some(&self.0[off..off + u16_at(self.0, AT_HIGH_LEN) as usize])
    }

    /// Orders the low fence against `key`, whose [`key_head`] is `head`.
    #[inline]
    pub fn cmp_low(self, key: &[u8], head: u64) -> Ordering {
        match u64_at(self.0, AT_LOW_HEAD).cmp(&head) {
            Ordering::Equal => self.low().cmp(key),
            other => other,
        }
    }

    /// Orders the high fence against `key`; none is greater than all keys.
    #[inline]
    pub fn cmp_high(self, key: &[u8], head: u64) -> Ordering {
        if u16_at(self.0, AT_FLAGS) & FLAG_HIGH == 0 {
            return Ordering::Greater;
        }
        match u64_at(self.0, AT_HIGH_HEAD).cmp(&head) {
            Ordering::Equal => self.high().unwrap_or_default().cmp(key),
            other => other,
        }
    }

    #[inline]
    fn slot(self, index: usize) -> Slot {
        debug_assert!(index < self.count());
        let word = u64_at(self.0, HEADER + index * SLOT);
        Slot {
            offset: (word & 0xffff) as usize,
            key_len: (word >> 16 & 0xffff) as usize,
            head: (word >> 32) as u32,
        }
    }

    #[inline]
    fn slot_suffix(self, s: Slot) -> &'a [u8] {
        let at = s.offset + CELL_HEAD;
        &self.0[at..at + s.key_len]
    }

    /// The key of `index` after the prefix.
    #[inline]
    pub fn suffix(self, index: usize) -> &'a [u8] {
        self.slot_suffix(self.slot(index))
    }

    /// The value of `index`.
    #[inline]
    pub fn value(self, index: usize) -> &'a [u8] {
        let s = self.slot(index);
        let len = u16_at(self.0, s.offset) as usize;
        let at = s.offset + CELL_HEAD + s.key_len;
        &self.0[at..at + len]
    }

    /// The child of `index` on an inner page.
    #[inline]
    pub fn child(self, index: usize) -> u32 {
        u32_at(self.value(index), 0)
    }

    /// Replaces `out` by the whole key of `index`.
    pub fn key(self, index: usize, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.prefix());
        out.extend_from_slice(self.suffix(index));
    }

    /// Compares the key of `index` with `key`.
    pub fn cmp(self, index: usize, key: &[u8]) -> Ordering {
        let prefix = self.prefix();
        let shared = key.len().min(prefix.len());
        match prefix[..shared].cmp(&key[..shared]) {
            Ordering::Equal if key.len() < prefix.len() => Ordering::Greater,
            Ordering::Equal => self.suffix(index).cmp(&key[shared..]),
            other => other,
        }
    }

    /// Whether `key` begins with the page's prefix; short ones are decided in the header.
    #[inline]
    fn has_prefix(self, key: &[u8], len: usize) -> bool {
        match len {
            0 => true,
            1..=8 if key.len() >= len => (u64_at(self.0, AT_LOW_HEAD) ^ key_head(key)) >> (64 - 8 * len) == 0,
            _ => key.starts_with(self.prefix()),
        }
    }

    /// `Ok` with the slot of `key`, or `Err` with the slot before which it belongs.
    #[inline]
    pub fn search(self, key: &[u8]) -> Result<usize, usize> {
        let prefix_len = self.prefix_len();
        if !self.has_prefix(key, prefix_len) {
            return Err(if key < self.prefix() { 0 } else { self.count() });
        }
        let suffix = &key[prefix_len..];
        let head = head_of(suffix);
        let (mut low, mut len) = (0, self.count());
        while len > 0 {
            let half = len / 2;
            let slot = self.slot(low + half);
            let order = match slot.head.cmp(&head) {
                Ordering::Equal if slot.key_len <= 4 && suffix.len() <= 4 => slot.key_len.cmp(&suffix.len()),
                Ordering::Equal => compare(self.slot_suffix(slot), suffix),
                other => other,
            };
            match order {
                Ordering::Equal => return Ok(low + half),
                Ordering::Less => {
                    low += half + 1;
                    len -= half + 1;
                }
                Ordering::Greater => len = half,
            }
        }
        Err(low)
    }

    /// On an inner page, the slot whose child covers `key`.
    #[inline]
    pub fn child_slot(self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(slot) => slot,
            Err(slot) => slot.saturating_sub(1),
        }
    }

    /// On an inner page, the slot whose child covers what is just below `key`.
    pub fn child_slot_before(self, key: &[u8]) -> usize {
        self.search(key).unwrap_or_else(|slot| slot).saturating_sub(1)
    }

    fn gap(self) -> usize {
        self.heap() - (HEADER + self.count() * SLOT)
    }

    /// Bytes that inserts may still take, slots included.
    pub fn room(self) -> usize {
        self.gap() + self.garbage()
    }

    /// Bytes of live entries, slots included.
    pub fn used(self) -> usize {
        ROOM - self.room()
    }

    /// Bytes an entry takes.
    pub fn entry_bytes(self, index: usize) -> usize {
        let s = self.slot(index);
        SLOT + CELL_HEAD + s.key_len + u16_at(self.0, s.offset) as usize
    }

    /// Whether the stored checksum fits the bytes.
    pub fn crc_ok(self) -> bool {
        u32_at(self.0, AT_CRC) == keel_base::checksum::crc32c(&self.0[AT_PAGE..])
    }

    /// Whether every byte is zero: a page allocated in the file and never written.
    pub fn is_zero(self) -> bool {
        self.0.chunks(ZEROS_TOGETHER).all(|piece| piece.iter().fold(0, |any, byte| any | byte) == 0)
    }
}

/// What a node page says of itself, apart from its entries.
#[derive(Clone, Copy)]
pub struct NodeMeta<'k> {
    /// The tree's id.
    pub tree: u32,
    /// The page's number.
    pub page: u32,
    /// 0 for leaves.
    pub level: u8,
    /// Right neighbour.
    pub right: u32,
    /// Low fence.
    pub low: &'k [u8],
    /// High fence.
    pub high: Option<&'k [u8]>,
}

/// Writes a page's header for any kind, zeroing the rest but keeping its LSN.
pub fn format_page(bytes: &mut [u8], tree: u32, page: u32, kind: u8) {
    bytes[..AT_LSN].fill(0);
    bytes[AT_TREE..].fill(0);
    bytes[AT_PAGE..AT_PAGE + 4].copy_from_slice(&page.to_le_bytes());
    bytes[AT_TREE..AT_TREE + 4].copy_from_slice(&tree.to_le_bytes());
    bytes[AT_KIND] = kind;
}

/// Builds a node page from entries in order.
pub struct PageBuilder<'a> {
    page: PageMut<'a>,
}

impl<'a> PageBuilder<'a> {
    /// Formats `bytes` as an empty node; the LSN stays.
    pub fn new(bytes: &'a mut [u8], meta: NodeMeta<'_>) -> PageBuilder<'a> {
        format_page(bytes, meta.tree, meta.page, if meta.level == 0 { KIND_LEAF } else { KIND_INNER });
        let mut page = PageMut::new(bytes);
        page.0.put(AT_LEVEL, &[meta.level]);
        page.set_u16(AT_HEAP, PAGE);
        page.set_right(meta.right);
        let low = page.push_bytes(meta.low);
        page.set_u16(AT_LOW_OFF, low);
        page.set_u16(AT_LOW_LEN, meta.low.len());
        page.set_u64(AT_LOW_HEAD, key_head(meta.low));
        if let Some(high) = meta.high {
            let at = page.push_bytes(high);
            page.set_u16(AT_HIGH_OFF, at);
            page.set_u16(AT_HIGH_LEN, high.len());
            page.set_u64(AT_HIGH_HEAD, key_head(high));
            page.set_u16(AT_FLAGS, FLAG_HIGH as usize);
            page.set_u16(AT_PREFIX, common_prefix(meta.low, high));
        }
        PageBuilder { page }
    }

    /// Appends the entry whose key is `head` followed by `tail`.
    pub fn push(&mut self, head: &[u8], tail: &[u8], value: &[u8]) {
        let skip = self.page.as_ref().prefix_len();
        let count = self.page.as_ref().count();
        if skip >= head.len() {
            self.page.put(count, &[], &tail[skip - head.len()..], value);
        } else {
            self.page.put(count, &head[skip..], tail, value);
        }
    }

    /// Appends entries `range` of `from`.
    pub fn push_all(&mut self, from: PageRef<'_>, range: std::ops::Range<usize>) {
        for index in range {
            self.push(from.prefix(), from.suffix(index), from.value(index));
        }
    }
}

/// Changes a page in place.
pub struct PageMut<'a>(Canvas<'a>);

impl<'a> PageMut<'a> {
    /// Changes `bytes`, a whole page.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> PageMut<'a> {
        assert_eq!(bytes.len(), PAGE);
        PageMut(Canvas::new(bytes))
    }

    /// Reads the page.
    #[inline]
    pub fn as_ref(&self) -> PageRef<'_> {
        PageRef(self.0.bytes())
    }

    /// What was changed through `self`.
    #[inline]
    pub fn touched(&self) -> Touched {
        self.0.touched()
    }

    fn set_u16(&mut self, at: usize, value: usize) {
        debug_assert!(value <= u16::MAX as usize);
        self.0.put(at, &(value as u16).to_le_bytes());
    }

    fn set_u64(&mut self, at: usize, value: u64) {
        self.0.put(at, &value.to_le_bytes());
    }

    /// Sets the right neighbour or next of a chain.
    pub fn set_right(&mut self, right: u32) {
        self.0.put(AT_RIGHT, &right.to_le_bytes());
    }

    /// Stamps the page with the end of the mini-transaction.
    #[inline]
    pub fn set_lsn(&mut self, lsn: u64) {
        self.0.put(AT_LSN, &lsn.to_le_bytes());
    }

    /// Computes and stores the checksum; done on the copy that is written.
    pub fn seal(&mut self) {
        let crc = keel_base::checksum::crc32c(&self.0.bytes()[AT_PAGE..]);
        self.0.put(AT_CRC, &crc.to_le_bytes());
    }

    /// Writes the header of an empty page of that kind, zeroing the rest but keeping its LSN.
    pub fn format(&mut self, tree: u32, page: u32, kind: u8) {
        format_page(self.0.all(), tree, page, kind);
    }

    /// Lets `f` build the page anew.
    pub fn rebuild(&mut self, f: impl FnOnce(&mut [u8])) {
        f(self.0.all());
    }

    /// Sets the page's own number.
    pub fn set_page_no(&mut self, page: u32) {
        self.0.put(AT_PAGE, &page.to_le_bytes());
    }

    /// Overwrites bytes anywhere behind the LSN.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset >= AT_TREE);
        self.0.put(offset, bytes);
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> usize {
        let at = self.as_ref().heap() - bytes.len();
        self.0.put(at, bytes);
        self.set_u16(AT_HEAP, at);
        at
    }

    fn set_slot(&mut self, index: usize, offset: usize, key_len: usize, head: u32) {
        let word = offset as u64 | (key_len as u64) << 16 | u64::from(head) << 32;
        let at = HEADER + index * SLOT;
        self.0.put(at, &word.to_le_bytes());
    }

    /// Writes a cell into the gap and gives its offset; the gap must suffice.
    fn put_cell(&mut self, key_a: &[u8], key_b: &[u8], value: &[u8]) -> usize {
        let at = self.as_ref().heap() - (CELL_HEAD + key_a.len() + key_b.len() + value.len());
        self.set_u16(AT_HEAP, at);
        self.set_u16(at, value.len());
        let mut to = at + CELL_HEAD;
        for part in [key_a, key_b, value] {
            self.0.put(to, part);
            to += part.len();
        }
        at
    }

    /// Inserts a slot and its cell; the gap must suffice.
    fn put(&mut self, index: usize, key_a: &[u8], key_b: &[u8], value: &[u8]) {
        let count = self.as_ref().count();
        let at = self.put_cell(key_a, key_b, value);
        let (from, end) = (HEADER + index * SLOT, HEADER + count * SLOT);
        assert!(end + SLOT <= at, "page overrun: {count} slots, cell at {at}");
        self.0.shift(from..end, from + SLOT);
        let key_len = key_a.len() + key_b.len();
        let key = at + CELL_HEAD;
        let head = head_of(&self.0.bytes()[key..key + key_len]);
        self.set_slot(index, at, key_len, head);
        self.set_u16(AT_COUNT, count + 1);
    }

    fn add_garbage(&mut self, bytes: usize) {
        let garbage = self.as_ref().garbage() + bytes;
        self.set_u16(AT_GARBAGE, garbage);
    }

    /// Moves live cells together, dropping `skip`'s (whose slot is left without a cell).
    fn compact(&mut self, skip: Option<usize>) {
        let mut copy = [0; PAGE];
        copy.copy_from_slice(self.0.bytes());
        let old = PageRef(&copy);
        self.set_u16(AT_HEAP, PAGE);
        self.set_u16(AT_GARBAGE, 0);
        let low = self.push_bytes(old.low());
        self.set_u16(AT_LOW_OFF, low);
        if let Some(high) = old.high() {
            let at = self.push_bytes(high);
            self.set_u16(AT_HIGH_OFF, at);
        }
        for index in (0..old.count()).filter(|i| Some(*i) != skip) {
            let s = old.slot(index);
            let at = self.put_cell(old.slot_suffix(s), &[], old.value(index));
            self.set_slot(index, at, s.key_len, s.head);
        }
    }

    /// Inserts an entry before slot `index`; `suffix` is the key after the page's prefix.
    pub fn insert(&mut self, index: usize, suffix: &[u8], value: &[u8]) -> Result<(), NoRoom> {
        let need = SLOT + CELL_HEAD + suffix.len() + value.len();
        let page = self.as_ref();
        if page.gap() < need {
            if page.room() < need {
                return Err(NoRoom);
            }
            self.compact(None);
        }
        self.put(index, suffix, &[], value);
        let (last, run) = self.as_ref().insert_run();
        let run = match () {
            _ if last == 0 => 0,
            _ if index == last => run.max(0).saturating_add(1),
            _ if index + 1 == last => run.min(0).saturating_sub(1),
            _ => 0,
        };
        self.set_insert_run(index + 1, run);
        Ok(())
    }

    fn set_insert_run(&mut self, last: usize, run: i16) {
        self.set_u16(AT_LAST, last);
        self.set_u16(AT_RUN, usize::from(run.cast_unsigned()));
    }

    /// Removes an entry.
    pub fn remove(&mut self, index: usize) {
        let count = self.as_ref().count();
        assert!(index < count);
        let dead = self.as_ref().entry_bytes(index) - SLOT;
        self.add_garbage(dead);
        let from = HEADER + (index + 1) * SLOT;
        self.0.shift(from..HEADER + count * SLOT, from - SLOT);
        self.set_u16(AT_COUNT, count - 1);
        let (last, run) = self.as_ref().insert_run();
        match last {
            0 => {}
            _ if index + 1 == last => self.set_insert_run(0, 0),
            _ if index < last => self.set_insert_run(last - 1, run),
            _ => {}
        }
    }

    /// Replaces `old_len` bytes at `offset` of the value by `middle`.
    pub fn splice(
        &mut self,
        index: usize,
        offset: usize,
        old_len: usize,
        middle: &[u8],
    ) -> Result<(), NoRoom> {
        let page = self.as_ref();
        let slot = page.slot(index);
        let value_len = page.value(index).len();
        let new_len = value_len - old_len + middle.len();
        let value_at = slot.offset + CELL_HEAD + slot.key_len;
        if new_len <= value_len {
            let tail = value_at + offset + old_len..value_at + value_len;
            self.0.shift(tail, value_at + offset + middle.len());
            self.0.put(value_at + offset, middle);
            self.set_u16(slot.offset, new_len);
            self.add_garbage(value_len - new_len);
            return Ok(());
        }
        self.grow(index, offset, old_len, middle)
    }

    /// Replaces the first `old_len` bytes of each value whose bit is set in `slots` by `head`, which is no longer.
    pub fn shorten(&mut self, slots: &[u8], old_len: usize, head: &[u8]) -> Result<(), NoRoom> {
        slots_in(slots).try_for_each(|slot| self.splice(slot, 0, old_len, head))
    }

    /// [`PageMut::splice`] for a value that becomes longer: it gets a new cell.
    fn grow(&mut self, index: usize, offset: usize, old_len: usize, middle: &[u8]) -> Result<(), NoRoom> {
        let page = self.as_ref();
        let slot = page.slot(index);
        let old = page.value(index);
        let old_cell = CELL_HEAD + slot.key_len + old.len();
        let new_cell = old_cell - old_len + middle.len();
        if page.room() + old_cell < new_cell {
            return Err(NoRoom);
        }
        let mut scratch = [0; PAGE];
        let key_end = slot.key_len;
        scratch[..key_end].copy_from_slice(page.slot_suffix(slot));
        let mut end = key_end;
        for part in [&old[..offset], middle, &old[offset + old_len..]] {
            scratch[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        if page.gap() < new_cell {
            self.compact(Some(index));
        } else {
            self.add_garbage(old_cell);
        }
        let at = self.put_cell(&scratch[..key_end], &[], &scratch[key_end..end]);
        self.set_slot(index, at, slot.key_len, slot.head);
        Ok(())
    }

    /// Overwrites bytes within a value.
    pub fn patch(&mut self, index: usize, offset: usize, bytes: &[u8]) {
        let slot = self.as_ref().slot(index);
        assert!(offset + bytes.len() <= self.as_ref().value(index).len());
        let at = slot.offset + CELL_HEAD + slot.key_len + offset;
        self.0.put(at, bytes);
    }

    /// Keeps the first `keep` entries; `high` becomes the high fence and `right` the neighbour.
    pub fn truncate(&mut self, keep: usize, high: &[u8], right: u32) {
        let mut copy = [0; PAGE];
        copy.copy_from_slice(self.0.bytes());
        let old = PageRef(&copy);
        let meta = NodeMeta {
            tree: old.tree(),
            page: old.page_no(),
            level: old.level(),
            right,
            low: old.low(),
            high: Some(high),
        };
        let (last, run) = old.insert_run();
        PageBuilder::new(self.0.all(), meta).push_all(old, 0..keep);
        if last <= keep {
            self.set_insert_run(last, run);
        }
    }

    /// Replaces the page by another page's content, as [`image_parts`] gave it.
    pub fn load_image(&mut self, top: &[u8], bottom: &[u8]) {
        let end = PAGE - bottom.len();
        self.0.put(AT_TREE, top);
        self.0.clear(top.len() + AT_TREE..end);
        self.0.put(end, bottom);
    }
}

/// The slots whose bits are set, ascending.
pub fn slots_in(bits: &[u8]) -> impl Iterator<Item = usize> + '_ {
    (0..bits.len() * 8).filter(|slot| bits[slot / 8] >> (slot % 8) & 1 != 0)
}

/// The bytes of a page that matter: from behind the LSN to the end of the slots, and from the heap on.
pub fn image_parts(page: PageRef<'_>) -> (&[u8], &[u8]) {
    if !page.is_node() {
        return (&page.bytes()[AT_TREE..], &[]);
    }
    let slots_end = HEADER + page.count() * SLOT;
    (&page.bytes()[AT_TREE..slots_end], &page.bytes()[page.heap()..])
}

#[cfg(test)]
mod tests;

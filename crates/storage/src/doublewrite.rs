//! The doublewrite file: what is about to change of a batch of pages is written and synced here before it is written in
//! place, so that a page torn by a crash can be mended.
//!
//! A device writes a sector whole or not at all. A torn page therefore differs from what was meant only in units that
//! writes were to change: those, laid over it, give the whole page ([`Touched`]), and its checksum proves it. The file
//! holds a run of batches, each at the first block behind the one before:
//! ```text
//! | magic u64 | crc u32 | format u32 | length u32 | count u32 |
//! | tree u32 | page u32 | units u32 | ... once for each page | the units of the first page | those of the second | ...
//! ```
//! The checksum goes on from that of the batch before, so what is left of an older run ends the chain.
//!
//! Invariants:
//! 1. A run begins only when all pages of the one before are durable in place. A batch is durable before any of its pages is
//!    written. So a torn batch is needed by nobody: what is torn in place is of batches before it.
//! 2. After a failed write in place the same batch is tried until it is done ([`crate::flush_batch`]).
//! 3. The units of a page are all those in which it differs from what was last written in its place. Of what a run wrote
//!    there the device may have kept any sectors: the units of all its batches, the newest last, make the newest page.
//!
//! Restoring may itself be cut off: it writes what the batches say, and they stay until the next run.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use keel_base::checksum::crc32c_append;
use keel_runtime::console;
use keel_runtime::fs::{self, AlignedBuf, File, IoBatch, OpenOptions, Sync};
use keel_runtime::wait::WaitEvent;

use crate::core::Core;
use crate::fault::{StoreError, StoreResult};
use crate::flush_batch::Unsynced;
use crate::layout::{AT_LSN, PAGE};
use crate::own_trees::REGISTRY;
use crate::page::PageRef;
use crate::page::touched::{Touched, UNIT};
use crate::space::Space;

/// Pages of one batch.
pub const BATCH: usize = 128;
/// The file's name.
pub const NAME: &str = "doublewrite.kd";
const MAGIC: u64 = u64::from_le_bytes(*b"KeelDblW");
const FORMAT: u32 = 1;
const AT_CRC: usize = 8;
const AT_FORMAT: usize = 12;
const AT_LENGTH: usize = 16;
const AT_COUNT: usize = 20;
const HEAD: usize = 24;
/// Bytes of a page's entry.
const ENTRY: usize = 12;
/// Direct writes are whole blocks.
const BLOCK: usize = 4096;
const BATCH_BYTES: usize = (HEAD + BATCH * (ENTRY + PAGE)).next_multiple_of(BLOCK);
/// Bytes of a run: some twenty usual batches.
const FILE_BYTES: usize = 2 * BATCH_BYTES;

/// A page of a batch: what of its sealed bytes is about to be written in place.
#[derive(Clone, Copy)]
pub struct Copy<'a> {
    /// Its tree.
    pub tree: u32,
    /// Its number.
    pub page: u32,
    /// Where it differs from its place in the file.
    pub touched: Touched,
    /// The whole page.
    pub bytes: &'a [u8],
}

/// What [`Doublewrite::restore`] did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Restored {
    /// Torn pages that are whole now.
    pub mended: u64,
    /// LSN of the newest page of the run; 0 for none.
    pub newest: u64,
}

/// The open file.
pub struct Doublewrite {
    file: File,
    /// The batch being written.
    buffer: AlignedBuf,
    /// Where the next one goes.
    at: usize,
    /// Checksum of the one before; 0 if it is the first of its run.
    crc: u32,
}

fn fail(op: &'static str) -> impl Fn(std::io::Error) -> StoreError {
    move |e| StoreError::io(NAME, 0, op, e)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn set_number(bytes: &mut [u8], at: usize, value: usize) {
    let value = u32::try_from(value).expect("a batch is small");
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Bytes of a batch.
fn length<'a>(pages: impl Iterator<Item = Copy<'a>>) -> usize {
    HEAD + pages.map(|page| ENTRY + page.touched.count() * UNIT).sum::<usize>()
}

/// Writes a batch behind one with the checksum `before` into `out`; gives its length.
fn encode<'a>(pages: impl Iterator<Item = Copy<'a>> + Clone, before: u32, out: &mut [u8]) -> usize {
    let count = pages.clone().count();
    assert!(count <= BATCH, "{count} pages in a batch");
    let mut end = HEAD + count * ENTRY;
    for (index, page) in pages.enumerate() {
        let entry = HEAD + index * ENTRY;
        for (field, value) in [page.tree, page.page, page.touched.0].into_iter().enumerate() {
            set_number(out, entry + 4 * field, value as usize);
        }
        for unit in page.touched.units() {
            out[end..end + UNIT].copy_from_slice(&page.bytes[unit]);
            end += UNIT;
        }
    }
    out[..AT_CRC].copy_from_slice(&MAGIC.to_le_bytes());
    set_number(out, AT_FORMAT, FORMAT as usize);
    set_number(out, AT_LENGTH, end);
    set_number(out, AT_COUNT, count);
    let crc = crc32c_append(before, &out[AT_FORMAT..end]);
    set_number(out, AT_CRC, crc as usize);
    end
}

/// A page as a run has it.
pub struct Patch<'a> {
    /// Its tree.
    pub tree: u32,
    /// Its number.
    pub page: u32,
    /// What each batch was to change of it, the newest last.
    changes: Vec<Change<'a>>,
}

/// Of one page in one batch: which units, and these one behind the other.
#[derive(Clone, Copy)]
struct Change<'a> {
    touched: Touched,
    units: &'a [u8],
}

impl Patch<'_> {
    /// The page's LSN: its head is always among the units.
    fn lsn(&self) -> u64 {
        let newest = self.changes.last().filter(|change| change.touched.0 & 1 != 0);
        let head = newest.and_then(|change| change.units.get(AT_LSN..AT_LSN + 8));
        head.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    /// Lays the units over the torn page; whether that makes it whole.
    pub fn mend(&self, page: &mut [u8]) -> bool {
        for change in &self.changes {
            for (place, unit) in change.touched.units().zip(change.units.chunks_exact(UNIT)) {
                page[place].copy_from_slice(unit);
            }
        }
        PageRef::new(page).crc_ok()
    }
}

/// What is in the file, read and nothing else.
pub fn read_all(dir: &Path) -> StoreResult<AlignedBuf> {
    let file = File::open(&dir.join(NAME), &OpenOptions::reading()).map_err(fail("open"))?;
    let mut bytes = AlignedBuf::new(FILE_BYTES);
    file.read_some_at(&mut bytes, 0).map_err(fail("read"))?;
    Ok(bytes)
}

/// The pages of the run in the file's `bytes`, each once, in order.
pub fn patches(bytes: &[u8]) -> Vec<Patch<'_>> {
    let mut all = Vec::new();
    let (mut rest, mut before) = (bytes, 0);
    while let Some(batch) = decode(rest, before) {
        rest = rest.get(batch.length.next_multiple_of(BLOCK)..).unwrap_or_default();
        before = batch.crc;
        all.extend(batch.pages);
    }
    // Stable: what one page has stays in the order of the batches.
    all.sort_by_key(|(place, _)| *place);
    let pages = all.chunk_by(|(a, _), (b, _)| a == b);
    pages
        .map(|changes| {
            let (tree, page) = changes[0].0;
            Patch { tree, page, changes: changes.iter().map(|(_, change)| *change).collect() }
        })
        .collect()
}

/// A whole batch.
struct Batch<'a> {
    length: usize,
    crc: u32,
    /// Tree and page, and what is to change there.
    pages: Vec<((u32, u32), Change<'a>)>,
}

/// The batch that `bytes` begin with, if it is whole and follows one with the checksum `before`.
fn decode(bytes: &[u8], before: u32) -> Option<Batch<'_>> {
    let head = bytes.get(..HEAD)?;
    let (length, count) = (number(head, AT_LENGTH) as usize, number(head, AT_COUNT) as usize);
    let known = head[..AT_CRC] == MAGIC.to_le_bytes() && number(head, AT_FORMAT) == FORMAT;
    if !known || count > BATCH || length < HEAD + count * ENTRY {
        return None;
    }
    let whole = bytes.get(..length)?;
    let crc = number(head, AT_CRC);
    if crc32c_append(before, &whole[AT_FORMAT..]) != crc {
        return None;
    }
    let (entries, mut rest) = whole[HEAD..].split_at(count * ENTRY);
    let page = |entry: &[u8]| {
        let touched = Touched(number(entry, 8));
        let (units, behind) = rest.split_at_checked(touched.count() * UNIT)?;
        rest = behind;
        Some(((number(entry, 0), number(entry, 4)), Change { touched, units }))
    };
    let pages = entries.chunks_exact(ENTRY).map(page).collect::<Option<Vec<_>>>()?;
    Some(Batch { length, crc, pages })
}

impl Doublewrite {
    /// Opens the file, making it if missing.
    pub fn open(dir: &Path) -> StoreResult<Doublewrite> {
        let options = OpenOptions::creating().with_direct();
        let file =
            File::open(&dir.join(NAME), &options).map_err(fail("open"))?.with_event(WaitEvent::DataWrite);
        if file.len().map_err(fail("stat"))? < FILE_BYTES as u64 {
            file.allocate(0, FILE_BYTES as u64).map_err(fail("allocate"))?;
            file.sync_all().map_err(fail("sync"))?;
            // A copy in a file whose name a crash forgets is no copy.
            fs::sync_dir(dir).map_err(fail("sync"))?;
        }
        Ok(Doublewrite { file, buffer: AlignedBuf::new(BATCH_BYTES), at: 0, crc: 0 })
    }

    /// Begins a new run: all pages of the one before are durable in place.
    pub fn begin_run(&mut self) {
        (self.at, self.crc) = (0, 0);
    }

    /// Whether the run has room for this batch.
    pub fn has_room<'a>(&self, pages: impl Iterator<Item = Copy<'a>>) -> bool {
        self.at + length(pages) <= FILE_BYTES
    }

    /// Writes a batch that has room, durably; gives its bytes.
    pub fn write<'a>(&mut self, pages: impl Iterator<Item = Copy<'a>> + Clone) -> StoreResult<usize> {
        let end = encode(pages, self.crc, &mut self.buffer);
        let whole = end.next_multiple_of(BLOCK);
        assert!(self.at + whole <= FILE_BYTES, "a batch of {end} bytes at {} of a run", self.at);
        self.buffer[end..whole].fill(0);
        self.file.write_at(&self.buffer[..whole], self.at as u64, Sync::Data).map_err(fail("write"))?;
        self.at += whole;
        self.crc = number(&self.buffer, AT_CRC);
        Ok(whole)
    }

    /// Forgets the run, durably: what is written past this file would be older in it one day.
    pub fn clear(&mut self) -> StoreResult<()> {
        self.begin_run();
        self.buffer[..BLOCK].fill(0);
        self.file.write_at(&self.buffer[..BLOCK], 0, Sync::Data).map_err(fail("write"))
    }

    /// Mends torn pages. Before redo is applied.
    pub fn restore(&mut self, core: &Core) -> StoreResult<Restored> {
        let mut bytes = AlignedBuf::new(FILE_BYTES);
        let got = self.file.read_some_at(&mut bytes, 0).map_err(fail("read"))?;
        let patches = patches(&bytes[..got]);
        // After a kill neither the batches nor pages need be covered by a sync, though all look whole. The batches must
        // last before a page is written over from them, and the pages before the next run takes their place. Where there
        // is no batch, a life without this file may have written any page.
        let mut unsynced = Unsynced::default();
        if patches.is_empty() {
            core.spaces.read().values().filter(|space| !space.lost).for_each(|space| unsynced.note(space));
            unsynced.sync()?;
            return Ok(Restored::default());
        }
        self.file.sync_data().map_err(fail("sync"))?;
        let in_files = patches
            .iter()
            .filter_map(|patch| Some((core.space(patch.tree).filter(|space| !space.lost)?, patch)));
        let in_files: Vec<(Arc<Space>, &Patch<'_>)> = in_files.collect();
        let mut mended = 0;
        let at_once = in_files.first().map_or(1, |(space, _)| space.file.batch_max());
        for some in in_files.chunks(BATCH.min(at_once)) {
            mended += mend_in_place(some)?;
        }
        in_files.iter().for_each(|(space, _)| unsynced.note(space));
        unsynced.sync()?;
        Ok(Restored { mended, newest: patches.iter().map(Patch::lsn).max().unwrap_or(0) })
    }
}

/// Lays the units over those pages that are torn; says how many. A page that this does not make whole, or that the device does
/// not give, is left as it is: whoever reads it meets the error.
fn mend_in_place(patches: &[(Arc<Space>, &Patch<'_>)]) -> StoreResult<u64> {
    let offset = |patch: &Patch<'_>| u64::from(patch.page) * PAGE as u64;
    let mut pages = AlignedBuf::new(patches.len() * PAGE);
    let mut reads = IoBatch::new();
    for ((space, patch), page) in patches.iter().zip(pages.chunks_exact_mut(PAGE)) {
        space.file.push_read(&mut reads, page, offset(patch));
    }
    let results = reads.run();
    let mut mended = 0;
    for (((space, patch), page), result) in patches.iter().zip(pages.chunks_exact_mut(PAGE)).zip(results) {
        match result {
            Ok(()) if PageRef::new(page).crc_ok() => continue,
            Ok(()) => {}
            // The file ends within the page, or before it.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                let got = space.file.read_some_at(page, offset(patch));
                let got = got.map_err(|e| space.io_error(patch.page, "read", e))?;
                page[got..].fill(0);
            }
            Err(error) if space.id > REGISTRY => {
                console::warning(format_args!(
                    "a page may be torn: {}",
                    space.io_error(patch.page, "read", error)
                ));
                continue;
            }
            Err(error) => return Err(space.io_error(patch.page, "read", error)),
        }
        if patch.mend(page) {
            let written = space.file.write_at(page, offset(patch));
            written.map_err(|e| space.io_error(patch.page, "write", e))?;
            mended += 1;
        }
    }
    Ok(mended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageMut;

    fn page(byte: u8) -> Vec<u8> {
        (0..PAGE).map(|n| byte ^ (n / UNIT) as u8).collect()
    }

    fn copy<'a>(tree: u32, page: u32, units: u32, bytes: &'a [u8]) -> Copy<'a> {
        Copy { tree, page, touched: Touched(units), bytes }
    }

    /// Appends a batch to a file's bytes; gives where the next one goes and its checksum.
    fn append(file: &mut [u8], (at, before): (usize, u32), pages: &[Copy<'_>]) -> (usize, u32) {
        let end = at + encode(pages.iter().copied(), before, &mut file[at..]);
        assert_eq!(end, at + length(pages.iter().copied()));
        (end.next_multiple_of(BLOCK), number(file, at + AT_CRC))
    }

    fn names(file: &[u8]) -> Vec<(u32, u32)> {
        patches(file).iter().map(|patch| (patch.tree, patch.page)).collect()
    }

    #[test]
    fn a_batch_reads_back_and_a_torn_one_is_none() {
        let (a, b) = (page(1), page(2));
        let pages = [copy(3, 9, 0b101, &a), copy(4, 1, u32::MAX, &b)];
        let mut out = vec![0xee; FILE_BYTES];
        let end = encode(pages.iter().copied(), 0, &mut out);
        assert_eq!(end, HEAD + 2 * ENTRY + 2 * UNIT + PAGE);
        let back = patches(&out);
        assert_eq!(names(&out), [(3, 9), (4, 1)]);
        assert_eq!(back[0].changes[0].touched, Touched(0b101));
        assert_eq!(back[0].changes[0].units, [&a[..UNIT], &a[2 * UNIT..3 * UNIT]].concat());
        assert_eq!(back[1].changes[0].units, b);
        for torn in (0..end).step_by(UNIT) {
            let mut out = out.clone();
            out[torn] ^= 0x40;
            assert!(patches(&out).is_empty(), "torn at {torn}");
        }
        assert!(patches(&out[..end - 1]).is_empty());
        assert!(patches(&vec![0; FILE_BYTES]).is_empty());
    }

    #[test]
    fn a_run_is_read_up_to_what_an_older_one_left() {
        let bytes = page(1);
        let mut file = vec![0; FILE_BYTES];
        let mut at = (0, 0);
        for number in 0..4 {
            at = append(&mut file, at, &[copy(1, number, 0b11, &bytes)]);
        }
        assert_eq!(names(&file), [(1, 0), (1, 1), (1, 2), (1, 3)]);
        let first = append(&mut file, (0, 0), &[copy(2, 7, 0b11, &bytes)]);
        assert_eq!(names(&file), [(2, 7)]);
        let second = append(&mut file, first, &[copy(2, 5, 0b11, &bytes)]);
        assert_eq!(names(&file), [(2, 5), (2, 7)]);
        let third = append(&mut file, second, &[copy(2, 6, 0b11, &bytes)]);
        assert_eq!(names(&file), [(2, 5), (2, 6), (2, 7)]);
        file[second.0 + HEAD] ^= 1;
        assert_eq!(names(&file), [(2, 5), (2, 7)], "up to the torn one, {third:?}");
    }

    #[test]
    fn sectors_of_any_age_become_the_newest_page() {
        let sealed = |bytes: Vec<u8>| {
            let mut bytes = bytes;
            PageMut::new(&mut bytes).seal();
            bytes
        };
        let change = |bytes: &[u8], unit: usize, value: u8| {
            let mut bytes = bytes.to_vec();
            bytes[unit * UNIT..(unit + 1) * UNIT].fill(value);
            sealed(bytes)
        };
        let oldest = sealed(page(1));
        let middle = change(&oldest, 3, 7);
        let newest = change(&middle, 9, 8);
        let mut file = vec![0; FILE_BYTES];
        let at = append(&mut file, (0, 0), &[copy(1, 2, 1 | 1 << 3, &middle)]);
        append(&mut file, at, &[copy(1, 2, 1 | 1 << 9, &newest)]);
        let found = patches(&file);
        for mix in 0..27 {
            let from = |unit: usize, age: u32| {
                let source = [&oldest, &middle, &newest][(mix / 3u32.pow(age) % 3) as usize];
                source[unit * UNIT..(unit + 1) * UNIT].to_vec()
            };
            let mut torn = oldest.clone();
            for (unit, age) in [(0, 0), (3, 1), (9, 2)] {
                torn[unit * UNIT..(unit + 1) * UNIT].copy_from_slice(&from(unit, age));
            }
            assert!(found[0].mend(&mut torn));
            assert!(torn == newest, "mix {mix}");
        }
    }

    #[test]
    fn the_largest_batch_fits_a_run_and_no_run_is_larger_than_the_file() {
        let bytes = page(0);
        let pages = std::iter::repeat_n(copy(1, 1, u32::MAX, &bytes), BATCH);
        assert!(encode(pages.clone(), 0, &mut vec![0; BATCH_BYTES]) <= BATCH_BYTES);
        assert!(length(pages) <= FILE_BYTES);
    }
}

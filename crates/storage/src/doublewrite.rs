//! The doublewrite file: what is about to change of a batch of pages is written and synced here before it is written in
//! place, so that a page torn by a crash can be mended.
//!
//! A device writes a sector whole or not at all. A torn page therefore differs from what was meant only in units that the
//! write was to change: those, laid over it, give the whole page ([`Touched`]), and its checksum proves it. The file holds
//! one batch:
//! ```text
//! | magic u64 | crc u32 | format u32 | length u32 | count u32 |
//! | tree u32 | page u32 | units u32 | ... once for each page | the units of the first page | those of the second | ...
//! ```
//! Invariants:
//! 1. A batch is written only when all pages of the one before are durable in place. So a torn batch is needed by nobody:
//!    none of its pages was written yet.
//! 2. After a failed write in place the same batch is tried until it is done ([`crate::flush_batch`]).
//! 3. The units of a page are all those in which it differs from its place in the file.
//!
//! Restoring may itself be cut off: it writes what the batch says, and the batch stays until the next one.

use std::path::Path;
use std::sync::Arc;

use keel_base::checksum::crc32c;
use keel_runtime::fs::{self, AlignedBuf, File, OpenOptions, Sync};
use keel_runtime::wait::WaitEvent;

use crate::core::Core;
use crate::fault::{StoreError, StoreResult};
use crate::layout::{AT_LSN, PAGE};
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
const FILE_BYTES: usize = (HEAD + BATCH * (ENTRY + PAGE)).next_multiple_of(BLOCK);

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
    /// LSN of the newest page of the batch; 0 for none.
    pub newest: u64,
}

/// The open file.
pub struct Doublewrite {
    file: File,
    buffer: AlignedBuf,
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

/// Writes a batch into `out`; gives its length.
fn encode<'a>(pages: impl Iterator<Item = Copy<'a>> + Clone, out: &mut [u8]) -> usize {
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
    let crc = crc32c(&out[AT_FORMAT..end]);
    set_number(out, AT_CRC, crc as usize);
    end
}

/// A page of a batch as it is read back.
pub struct Patch<'a> {
    /// Its tree.
    pub tree: u32,
    /// Its number.
    pub page: u32,
    touched: Touched,
    /// Its units, one behind the other.
    units: &'a [u8],
}

impl Patch<'_> {
    /// The page's LSN: its head is always among the units.
    fn lsn(&self) -> u64 {
        let head = self.units.get(AT_LSN..AT_LSN + 8).filter(|_| self.touched.0 & 1 != 0);
        head.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    /// Lays the units over the torn page; whether that makes it whole.
    pub fn mend(&self, page: &mut [u8]) -> bool {
        for (place, unit) in self.touched.units().zip(self.units.chunks_exact(UNIT)) {
            page[place].copy_from_slice(unit);
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

/// The batch in the file's `bytes`; nothing if it is not whole.
pub fn patches(bytes: &[u8]) -> Vec<Patch<'_>> {
    decode(bytes).unwrap_or_default()
}

fn decode(bytes: &[u8]) -> Option<Vec<Patch<'_>>> {
    let head = bytes.get(..HEAD)?;
    let (length, count) = (number(head, AT_LENGTH) as usize, number(head, AT_COUNT) as usize);
    let known = head[..AT_CRC] == MAGIC.to_le_bytes() && number(head, AT_FORMAT) == FORMAT;
    if !known || count > BATCH || length < HEAD + count * ENTRY {
        return None;
    }
    let whole = bytes.get(..length)?;
    if crc32c(&whole[AT_FORMAT..]) != number(head, AT_CRC) {
        return None;
    }
    let (entries, mut rest) = whole[HEAD..].split_at(count * ENTRY);
    let patch = |entry: &[u8]| {
        let touched = Touched(number(entry, 8));
        let (units, behind) = rest.split_at_checked(touched.count() * UNIT)?;
        rest = behind;
        Some(Patch { tree: number(entry, 0), page: number(entry, 4), touched, units })
    };
    entries.chunks_exact(ENTRY).map(patch).collect()
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
        Ok(Doublewrite { file, buffer: AlignedBuf::new(FILE_BYTES) })
    }

    /// Writes a batch, durably; gives its bytes.
    pub fn write<'a>(&mut self, pages: impl Iterator<Item = Copy<'a>> + Clone) -> StoreResult<usize> {
        let end = encode(pages, &mut self.buffer);
        let whole = end.next_multiple_of(BLOCK);
        self.buffer[end..whole].fill(0);
        self.file.write_at(&self.buffer[..whole], 0, Sync::Data).map_err(fail("write"))?;
        Ok(whole)
    }

    /// Forgets the batch, durably: what is written past this file would be older in it one day.
    pub fn clear(&mut self) -> StoreResult<()> {
        self.buffer[..BLOCK].fill(0);
        self.file.write_at(&self.buffer[..BLOCK], 0, Sync::Data).map_err(fail("write"))
    }

    /// Mends torn pages. Before redo is applied.
    pub fn restore(&mut self, core: &Core) -> StoreResult<Restored> {
        let got = self.file.read_some_at(&mut self.buffer, 0).map_err(fail("read"))?;
        let patches = patches(&self.buffer[..got]);
        let mut done = Restored::default();
        if patches.is_empty() {
            return Ok(done);
        }
        // After a kill neither the batch nor its pages may be covered by a sync, though both look whole. The batch must
        // last before a page is written over from it, and the pages before the next batch takes its place.
        self.file.sync_data().map_err(fail("sync"))?;
        let mut touched: Vec<Arc<Space>> = Vec::new();
        for patch in patches {
            done.newest = done.newest.max(patch.lsn());
            let Some(space) = core.space(patch.tree).filter(|space| !space.lost) else { continue };
            done.mended += u64::from(mend_in_place(&space, &patch)?);
            if touched.iter().all(|known| known.id != space.id) {
                touched.push(space);
            }
        }
        for space in touched {
            space.file.sync_data().map_err(|e| space.io_error(0, "sync", e))?;
        }
        Ok(done)
    }
}

/// Lays the units over the page if it is torn; whether it was. A page that this does not make whole is left as it is: whoever
/// reads it meets the error.
fn mend_in_place(space: &Space, patch: &Patch<'_>) -> StoreResult<bool> {
    let mut bytes = AlignedBuf::new(PAGE);
    let offset = u64::from(patch.page) * PAGE as u64;
    let got =
        space.file.read_some_at(&mut bytes, offset).map_err(|e| space.io_error(patch.page, "read", e))?;
    if got == PAGE && PageRef::new(&bytes).crc_ok() {
        return Ok(false);
    }
    bytes[got..].fill(0);
    if !patch.mend(&mut bytes) {
        return Ok(false);
    }
    space.file.write_at(&bytes, offset, Sync::None).map_err(|e| space.io_error(patch.page, "write", e))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(byte: u8) -> Vec<u8> {
        (0..PAGE).map(|n| byte ^ (n / UNIT) as u8).collect()
    }

    #[test]
    fn a_batch_reads_back_and_a_torn_one_is_none() {
        let (a, b) = (page(1), page(2));
        let pages = [
            Copy { tree: 3, page: 9, touched: Touched(0b101), bytes: &a },
            Copy { tree: 4, page: 1, touched: Touched::ALL, bytes: &b },
        ];
        let mut out = vec![0xee; FILE_BYTES];
        let end = encode(pages.iter().copied(), &mut out);
        assert_eq!(end, HEAD + 2 * ENTRY + 2 * UNIT + PAGE);
        let back = decode(&out).expect("whole");
        assert_eq!((back[0].tree, back[0].page, back[0].touched), (3, 9, Touched(0b101)));
        assert_eq!(back[0].units, [&a[..UNIT], &a[2 * UNIT..3 * UNIT]].concat());
        assert_eq!(back[1].units, b);
        for torn in (0..end).step_by(UNIT) {
            let mut out = out.clone();
            out[torn] ^= 0x40;
            assert!(decode(&out).is_none(), "torn at {torn}");
        }
        assert!(decode(&out[..end - 1]).is_none());
        assert!(decode(&vec![0; FILE_BYTES]).is_none());
    }

    #[test]
    fn the_largest_batch_fits_the_file() {
        let bytes = page(0);
        let pages =
            std::iter::repeat_n(Copy { tree: 1, page: 1, touched: Touched::ALL, bytes: &bytes }, BATCH);
        assert!(encode(pages, &mut vec![0; FILE_BYTES]) <= FILE_BYTES);
    }
}

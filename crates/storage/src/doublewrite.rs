//! The doublewrite file: a batch of pages is written and synced here before it is written in place, so that a page torn by
//! a crash has a whole copy. The copies name themselves; those of earlier batches may linger and lose against newer ones.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use keel_runtime::fs::{self, AlignedBuf, File, OpenOptions, Sync};
use keel_runtime::wait::WaitEvent;

use crate::core::Core;
use crate::fault::{StoreError, StoreResult};
use crate::layout::PAGE;
use crate::page::PageRef;
use crate::space::Space;

/// Pages of one batch.
pub const BATCH: usize = 128;
const NAME: &str = "doublewrite.kd";

/// The open file.
pub struct Doublewrite {
    file: File,
}

fn fail(op: &'static str) -> impl Fn(std::io::Error) -> StoreError {
    move |e| StoreError::io(NAME, 0, op, e)
}

impl Doublewrite {
    /// Opens the file, making it if missing.
    pub fn open(dir: &Path) -> StoreResult<Doublewrite> {
        let options = OpenOptions::creating().with_direct();
        let file =
            File::open(&dir.join(NAME), &options).map_err(fail("open"))?.with_event(WaitEvent::DataWrite);
        let bytes = (BATCH * PAGE) as u64;
        if file.len().map_err(fail("stat"))? < bytes {
            file.allocate(0, bytes).map_err(fail("allocate"))?;
            file.sync_all().map_err(fail("sync"))?;
            // A copy in a file whose name a crash forgets is no copy.
            fs::sync_dir(dir).map_err(fail("sync"))?;
        }
        Ok(Doublewrite { file })
    }

    /// Writes sealed pages, durably.
    pub fn write(&self, pages: &[u8]) -> StoreResult<()> {
        self.file.write_at(pages, 0, Sync::Data).map_err(fail("write"))
    }

    /// Puts whole copies in place of torn pages; gives the LSN of the newest copy, 0 for none. Before redo is applied.
    pub fn restore(&self, core: &Core) -> StoreResult<u64> {
        let mut bytes = AlignedBuf::new(BATCH * PAGE);
        let got = self.file.read_some_at(&mut bytes, 0).map_err(fail("read"))?;
        let mut copies: BTreeMap<(u32, u32), PageRef<'_>> = BTreeMap::new();
        for page in bytes[..got].chunks_exact(PAGE).map(PageRef::new).filter(|p| p.crc_ok()) {
            let best = copies.entry((page.tree(), page.page_no())).or_insert(page);
            if best.lsn() < page.lsn() {
                *best = page;
            }
        }
        if copies.is_empty() {
            return Ok(0);
        }
        // After a kill neither the copies nor the pages may be covered by a sync, though both look whole. The copies must
        // last before a page is written over from them, and the pages before the next batch takes their copies away.
        self.file.sync_data().map_err(fail("sync"))?;
        let newest = copies.values().map(|copy| copy.lsn()).max().unwrap_or(0);
        let mut touched = BTreeMap::new();
        for ((tree, number), copy) in copies {
            let Some(space) = core.space(tree).filter(|space| !space.lost) else { continue };
            if is_torn(&space, number)? {
                put_in_place(&space, number, copy)?;
            }
            touched.insert(tree, space);
        }
        for space in touched.values() {
            space.file.sync_data().map_err(|e| space.io_error(0, "sync", e))?;
        }
        Ok(newest)
    }
}

fn is_torn(space: &Arc<Space>, number: u32) -> StoreResult<bool> {
    let mut bytes = AlignedBuf::new(PAGE);
    let offset = u64::from(number) * PAGE as u64;
    let got = space.file.read_some_at(&mut bytes, offset).map_err(|e| space.io_error(number, "read", e))?;
    Ok(got < PAGE || !PageRef::new(&bytes).crc_ok())
}

fn put_in_place(space: &Arc<Space>, number: u32, copy: PageRef<'_>) -> StoreResult<()> {
    let mut bytes = AlignedBuf::new(PAGE);
    bytes.copy_from_slice(copy.bytes());
    let offset = u64::from(number) * PAGE as u64;
    space.file.write_at(&bytes, offset, Sync::Data).map_err(|e| space.io_error(number, "write", e))
}

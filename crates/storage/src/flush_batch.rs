//! A batch of dirty pages on its way to the files: copied out, noted in the doublewrite file, written in place. The files
//! are synced once for several batches ([`Unsynced`]).
//!
//! In place a page is written in one piece, from the first block that changed since it was last written there to the last one;
//! without the doublewrite file always whole, which such a device writes at once. A write in place that fails is tried again
//! until it succeeds or the store ends: a failed write may have torn a page.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use keel_base::TreeId;
use keel_runtime::fs::{AlignedBuf, IoBatch};

use crate::buffer::Pin;
use crate::core::Core;
use crate::doublewrite::{BATCH, Copy};
use crate::fault::StoreResult;
use crate::layout::PAGE;
use crate::log::DirtyEntry;
use crate::open_files::SyncToken;
use crate::page::touched::{Touched, UNIT};
use crate::page::{PageMut, PageRef};
use crate::space::Space;

/// Bytes of a block in place: direct writes are whole blocks, and a device may be slow with less.
const BLOCK: usize = 4096;

/// Buffers and pages of the batch at work.
pub struct FlushBatch {
    buffer: AlignedBuf,
    items: Vec<Item>,
}

/// One page; its copy has the same index in the buffer.
struct Item {
    space: Arc<Space>,
    page: u32,
    entry: DirtyEntry,
    touched: Touched,
    _pin: Pin,
}

impl Item {
    fn lasts(&self) -> bool {
        !self.space.id.is_temporary()
    }
}

/// One write: bytes of the buffer, and where they belong.
struct Piece<'b> {
    space: &'b Space,
    offset: u64,
    bytes: Range<usize>,
}

/// What is written of a page, as bytes of it: whole blocks. Those between two that changed cost less than a second write.
fn span(touched: Touched) -> Range<usize> {
    let blocks = (0..PAGE / BLOCK).map(|block| block * BLOCK..(block + 1) * BLOCK);
    let mut changed = blocks.filter(|bytes| touched.0 & Touched::of(bytes.clone()).0 != 0);
    let Some(first) = changed.next() else { return 0..0 };
    first.start..changed.next_back().map_or(first.end, |last| last.end)
}

impl FlushBatch {
    /// An empty one.
    pub fn new() -> FlushBatch {
        FlushBatch { buffer: AlignedBuf::in_huge_pages(BATCH * PAGE), items: Vec::with_capacity(BATCH) }
    }

    /// Copies those of `frames` that are dirty into the buffer and marks them clean; whether there are any.
    pub fn copy_out(&mut self, core: &Core, frames: &[u32]) -> bool {
        self.items.clear();
        let pool = &core.pool;
        // A page that changes between two copies of it must not be in one batch twice.
        let mut frames = frames.to_vec();
        frames.sort_unstable();
        frames.dedup();
        // In file order, so that neighbours lie side by side in the buffer and go out in one write.
        let mut frames: Vec<_> = frames.into_iter().map(|f| (pool.frame(f).identity(), f)).collect();
        frames.sort_unstable();
        for (_, frame) in frames {
            let latch = pool.latch_frame(frame);
            let state = pool.frame(frame);
            let Some((tree, page)) = state.identity().filter(|_| state.is_dirty()) else { continue };
            let Some(space) = core.space(tree) else {
                state.first_redo.store(0, Relaxed);
                continue;
            };
            let copy = self.items.len() * PAGE;
            self.buffer[copy..copy + PAGE].copy_from_slice(latch.page().bytes());
            let entry = DirtyEntry { frame, first_redo: state.first_redo.swap(0, Relaxed) };
            // Checksum and LSN always change.
            let touched = state.take_touched().and(Touched::of(0..UNIT));
            self.items.push(Item { space, page, entry, touched, _pin: latch.pin(pool) });
        }
        for copy in self.buffer[..self.items.len() * PAGE].chunks_exact_mut(PAGE) {
            PageMut::new(copy).seal();
        }
        !self.items.is_empty()
    }

    /// Number of pages.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// The greatest LSN: the log must be durable up to it.
    pub fn newest_lsn(&self) -> u64 {
        self.pages().map(|copy| PageRef::new(copy.bytes).lsn()).max().unwrap_or(0)
    }

    /// Whether a crash would miss any of them.
    pub fn lasts(&self) -> bool {
        self.items.iter().any(Item::lasts)
    }

    /// The pages as the doublewrite file takes them: not those of temporary trees.
    pub fn pages(&self) -> impl Iterator<Item = Copy<'_>> + Clone {
        let lasting = self.items.iter().zip(self.buffer.chunks_exact(PAGE)).filter(|(item, _)| item.lasts());
        lasting.map(|(item, bytes)| Copy {
            tree: item.space.id.0,
            page: item.page,
            touched: item.touched,
            bytes,
        })
    }

    /// Makes every page count as changed all over.
    pub fn touch_all(&mut self) {
        self.items.iter_mut().for_each(|item| item.touched = Touched::ALL);
    }

    /// The writes, neighbours in one.
    fn pieces(&self) -> Vec<Piece<'_>> {
        let mut pieces: Vec<Piece<'_>> = Vec::with_capacity(self.items.len());
        for (index, item) in self.items.iter().enumerate() {
            let span = span(item.touched);
            let offset = u64::from(item.page) * PAGE as u64 + span.start as u64;
            let bytes = index * PAGE + span.start..index * PAGE + span.end;
            match pieces.last_mut() {
                Some(last)
                    if last.space.id == item.space.id
                        && last.bytes.end == bytes.start
                        && last.offset + last.bytes.len() as u64 == offset =>
                {
                    last.bytes.end = bytes.end;
                }
                _ => pieces.push(Piece { space: &item.space, offset, bytes }),
            }
        }
        pieces
    }

    /// Writes the pages in place; gives the bytes.
    pub fn write(&self) -> StoreResult<u64> {
        let pieces = self.pieces();
        let at_once = pieces.first().map_or(1, |piece| piece.space.file.batch_max());
        let mut bytes = 0;
        for some in pieces.chunks(at_once) {
            let mut batch = IoBatch::new();
            for piece in some {
                let content = &self.buffer[piece.bytes.clone()];
                piece.space.file.push_write(&mut batch, content, piece.offset);
            }
            for (result, piece) in batch.run().into_iter().zip(some) {
                let page = (piece.offset / PAGE as u64) as u32;
                // The file of a dropped tree is of no interest.
                if !piece.space.is_dropped() {
                    result.map_err(|e| piece.space.io_error(page, "write", e))?;
                }
                bytes += piece.bytes.len() as u64;
            }
        }
        Ok(bytes)
    }

    /// Whether a write in place may yet fail: some pages have only gone into the page cache.
    pub fn is_cached(&self) -> bool {
        self.items.iter().any(|item| item.lasts() && !item.space.file.is_direct())
    }

    /// The pages are written in place: their frames may go.
    pub fn done(&mut self) {
        self.items.clear();
    }

    /// The pages were not written: they are as dirty as before.
    pub fn give_up(&mut self, core: &Core) {
        for item in &self.items {
            // The pin keeps the frame's identity, the latch keeps writers from noting changes meanwhile.
            let _latch = core.pool.latch_frame(item.entry.frame);
            core.pool.frame(item.entry.frame).touch_bytes(item.touched);
            if !item.lasts() {
                core.pool.mark_unlogged(item.entry.frame);
            }
        }
        // The log's mutex keeps committing writers from marking them meanwhile.
        core.log.with_dirty(|queue, _| {
            for item in self.items.iter().filter(|item| item.lasts()) {
                core.pool.frame(item.entry.frame).first_redo.store(item.entry.first_redo, Relaxed);
                queue.push_front(item.entry);
            }
            queue.make_contiguous().sort_by_key(|e| (e.first_redo, e.frame));
            // Most have their entries still.
            let mut last = None;
            queue.retain(|e| last.replace((e.first_redo, e.frame)) != Some((e.first_redo, e.frame)));
        });
        self.items.clear();
    }
}

/// Files with pages that were written in place since the last sync.
#[derive(Default)]
pub struct Unsynced {
    files: BTreeMap<TreeId, Arc<Space>>,
    pages: usize,
}

impl Unsynced {
    /// The batch's pages are written in place.
    pub fn note_batch(&mut self, batch: &FlushBatch) {
        let lasting = batch.items.iter().filter(|item| item.lasts());
        lasting.for_each(|item| self.note(&item.space));
    }

    /// A page of this file is written in place.
    pub fn note(&mut self, file: &Arc<Space>) {
        self.pages += 1;
        self.files.entry(file.id).or_insert_with(|| file.clone());
    }

    /// Number of pages; one that was written twice counts twice.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Syncs the files, many at once; gives their number, or which failed.
    pub fn sync(&mut self) -> StoreResult<u64> {
        // The file of a dropped tree is of no interest.
        let files: Vec<&Arc<Space>> = self.files.values().filter(|space| !space.is_dropped()).collect();
        let at_once = files.first().map_or(1, |space| space.file.batch_max());
        for some in files.chunks(BATCH.min(at_once)) {
            let mut batch = IoBatch::new();
            let tokens: Vec<SyncToken> = some.iter().map(|space| space.file.push_sync(&mut batch)).collect();
            for ((result, space), token) in batch.run().into_iter().zip(some).zip(tokens) {
                // A tree may have been dropped meanwhile.
                match space.file.synced(token, result) {
                    Err(e) if !space.is_dropped() => return Err(space.io_error(0, "sync", e)),
                    _ => {}
                }
            }
        }
        let count = files.len() as u64;
        *self = Unsynced::default();
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_blocks_are_written_and_what_is_between_them() {
        let units = |places: &[usize]| {
            places.iter().fold(Touched::NONE, |all, at| all.and(Touched::of(*at..*at + 1)))
        };
        assert_eq!(span(units(&[0])), 0..BLOCK);
        assert_eq!(span(units(&[0, 5000])), 0..2 * BLOCK);
        assert_eq!(span(units(&[5000])), BLOCK..2 * BLOCK);
        assert_eq!(span(units(&[0, PAGE - 1])), 0..PAGE);
        assert_eq!(span(Touched::ALL), 0..PAGE);
    }
}

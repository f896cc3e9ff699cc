//! Reading many pages at once: those of recovery, and those that a statement is about to come to.
//!
//! Pages of scans go into a ring of frames, a quarter of them at most. When a scan reads further and free frames run short, those of
//! the ring's oldest pages are taken, if they were not used in a later half turn of the hand. So a scan of a table larger than
//! the pool passes through frames of its own and moves CLOCK's hand hardly at all: what others work with stays in memory. As
//! long as there are frames to spare, and of tables smaller than the ring, scanned pages stay as well.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::Ordering::*;

use keel_runtime::fs::IoBatch;
use keel_runtime::latch;

use super::translation::Entry;
use super::{Owned, Pool};
use crate::fault::StoreResult;
use crate::layout::PAGE;
use crate::space::Space;

/// One in so many frames may hold pages that scans brought, and so many in a tiny pool. InnoDB's scans go through the old three
/// eighths of its list.
const RING_SHARE: usize = 4;
const RING_MIN: usize = 16;
/// A ring that is too long, for the pool has shrunk, gives back so many frames for each one that comes.
const SHRINK_RATE: usize = 4;
/// Pages of one read-ahead at most.
const READ_AHEAD_MAX: usize = 32;
/// Where so many reads are open, more of them at once make a device no faster: each statement would only wait for those of others.
const DEVICE_FULL: usize = 64;

/// What pages are read ahead for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A scan over many, which enter the ring.
    Scan,
    /// Rows that a statement names: these pages are like any others, and count as those that somebody had to wait for.
    Rows,
}

/// A page that a scan brought: its frame, tree and number.
pub(super) type Scanned = (u32, u32, u32);

impl Pool {
    fn ring_max(&self) -> usize {
        (self.len() / RING_SHARE).max(RING_MIN)
    }

    /// Pages that one scan may read ahead: some scans at once find room in the ring.
    pub fn read_ahead_max(&self) -> usize {
        (self.ring_max() / 4).min(READ_AHEAD_MAX)
    }

    /// Reads that the device has not answered.
    pub fn reads_open(&self) -> u32 {
        self.reading.load(Relaxed)
    }

    /// Pages that a statement may read ahead of the one it needs next: few where the device is busy without.
    pub fn rows_ahead_max(&self) -> usize {
        self.read_ahead_max().min(DEVICE_FULL.saturating_sub(self.reads_open() as usize))
    }

    /// Reads those of `pages` that are absent, all at once, for who will come to them. Waits for the device, not for
    /// frames: what finds none is left out, as is a page that cannot be read; whoever needs it meets the error.
    pub fn read_ahead(&self, space: &Space, pages: &[u32], purpose: Purpose) {
        assert_eq!(latch::held(), 0, "a read-ahead with a latch held (tree {})", space.id);
        if purpose == Purpose::Scan {
            self.make_room_in_ring(pages.len());
        }
        let mut owned = Vec::with_capacity(pages.len());
        for &page in pages.iter().filter(|page| space.map.get(**page) == Entry::Absent) {
            let Some(frame) = self.take_frame_at_once() else { break };
            if space.map.claim(page) {
                owned.push((frame, space, page));
            }
        }
        let frames = self.read_claimed(owned);
        if purpose == Purpose::Scan {
            self.counters.reads_ahead.fetch_add(frames.len() as u64, Relaxed);
            let tree = space.id.0;
            self.scanned.lock().extend(frames.into_iter().map(|(frame, page)| (frame, tree, page)));
        }
    }

    /// A free frame, or that of a clean cold page.
    fn take_frame_at_once(&self) -> Option<Owned<'_>> {
        self.try_take_frame().or_else(|| {
            let spaces = self.spaces.get().and_then(Weak::upgrade)?;
            self.sweep_for_reader(&*spaces);
            self.try_take_frame()
        })
    }

    /// Lets the oldest pages go from the ring that `coming` ones find no room beside; takes their frames unless there are others.
    fn make_room_in_ring(&self, coming: usize) {
        let Some(spaces) = self.spaces.get().and_then(Weak::upgrade) else { return };
        let surplus = {
            let mut ring = self.scanned.lock();
            let count = (ring.len() + coming).saturating_sub(self.ring_max());
            let count = count.min(coming * SHRINK_RATE).min(ring.len());
            ring.drain(..count).collect::<Vec<Scanned>>()
        };
        if self.has_frames_to_spare() {
            return;
        }
        for (index, tree, page) in surplus {
            let frame = self.frame(index);
            let same = frame.identity() == Some((tree, page));
            if same && frame.heat.is_cold() && !frame.is_dirty() {
                self.try_evict(&*spaces, index, frame);
            }
        }
    }

    /// Reads those of the pages that are absent, all at once; waits, for frames too. For one caller at a time, and for less
    /// pages than the pool has frames.
    pub fn read_together<'w>(&self, wanted: impl Iterator<Item = &'w (Arc<Space>, u32)>) -> StoreResult<()> {
        let absent: Vec<_> = wanted.filter(|(s, page)| s.map.get(*page) == Entry::Absent).collect();
        let frames = self.take_frames(absent.len())?;
        let claimed = frames.into_iter().zip(absent).filter(|(_, (space, page))| space.map.claim(*page));
        self.read_claimed(claimed.map(|(frame, (space, page))| (frame, &**space, *page)).collect());
        Ok(())
    }

    /// Reads claimed pages into their frames; gives frame and number of those that came.
    fn read_claimed(&self, mut owned: Vec<(Owned<'_>, &Space, u32)>) -> Vec<(u32, u32)> {
        let offsets: Vec<u64> = owned.iter().map(|o| u64::from(o.2) * PAGE as u64).collect();
        let mut batch = IoBatch::new();
        for ((frame, space, _), offset) in owned.iter_mut().zip(&offsets) {
            space.file.push_read(&mut batch, frame.bytes(), *offset);
        }
        let count = batch.len() as u32;
        self.reading.fetch_add(count, Relaxed);
        let results = if batch.is_empty() { Vec::new() } else { batch.run() };
        self.reading.fetch_sub(count, Relaxed);
        let mut frames = Vec::with_capacity(owned.len());
        for ((mut frame, space, page), result) in owned.into_iter().zip(results) {
            let loaded = result.is_ok().then(|| self.check_loaded(space, page, frame.bytes()));
            if let Some(Ok(touched)) = loaded {
                self.counters.reads.fetch_add(1, Relaxed);
                frames.push((frame.publish(space, page, 0, touched), page));
            } else {
                // Whoever needs the page reads it alone and meets the error.
                space.map.clear(page);
            }
            self.wake_loaders(space, page);
        }
        frames
    }
}

//! From page number to frame: an array per file, so that finding a resident page is two loads and no hashing.
//!
//! The array grows by chunks that double in size; chunks never move, so readers need no lock. An entry is 0 (not
//! resident), [`LOADING`] (its loader is at work) or the frame's index plus one.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

/// A page on its way into a frame.
pub const LOADING: u32 = u32::MAX;
const FIRST_CHUNK_BITS: u32 = 6;
const CHUNKS: usize = (32 - FIRST_CHUNK_BITS + 1) as usize;

/// State of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Not in memory.
    Absent,
    /// Being read.
    Loading,
    /// In this frame (unless it was evicted since: check under the frame's latch).
    Resident(u32),
}

/// The array of one file.
#[derive(Default)]
pub struct Translation {
    chunks: [AtomicPtr<AtomicU32>; CHUNKS],
}

/// Chunk and index within it: chunk `c` holds `64 << c` entries.
#[inline]
fn place(page: u32) -> (usize, usize) {
    let n = page as u64 + (1 << FIRST_CHUNK_BITS);
    let chunk = 63 - n.leading_zeros() - FIRST_CHUNK_BITS;
    (chunk as usize, (n - (1 << (chunk + FIRST_CHUNK_BITS))) as usize)
}

fn chunk_len(chunk: usize) -> usize {
    1 << (chunk + FIRST_CHUNK_BITS as usize)
}

impl Translation {
    #[inline]
    fn entry(&self, page: u32) -> &AtomicU32 {
        let (chunk, index) = place(page);
        let mut base = self.chunks[chunk].load(Acquire);
        if base.is_null() {
            base = self.grow(chunk);
        }
        // SAFETY: a published chunk has `chunk_len` entries, lives as long as `self`, and `place` gives an index below.
        unsafe { &*base.add(index) }
    }

    #[cold]
    fn grow(&self, chunk: usize) -> *mut AtomicU32 {
        let fresh: Box<[AtomicU32]> = (0..chunk_len(chunk)).map(|_| AtomicU32::new(0)).collect();
        let fresh = Box::into_raw(fresh).cast::<AtomicU32>();
        match self.chunks[chunk].compare_exchange(std::ptr::null_mut(), fresh, AcqRel, Acquire) {
            Ok(_) => fresh,
            Err(winner) => {
                // SAFETY: `fresh` came from a box of exactly this length and was not published.
                drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(fresh, chunk_len(chunk))) });
                winner
            }
        }
    }

    /// Where the page is.
    #[inline]
    pub fn get(&self, page: u32) -> Entry {
        match self.entry(page).load(Acquire) {
            0 => Entry::Absent,
            LOADING => Entry::Loading,
            frame => Entry::Resident(frame - 1),
        }
    }

    /// Becomes the page's loader; false if it is not absent.
    pub fn claim(&self, page: u32) -> bool {
        self.entry(page).compare_exchange(0, LOADING, AcqRel, Acquire).is_ok()
    }

    /// Publishes a loaded page; only its loader.
    pub fn publish(&self, page: u32, frame: u32) {
        self.entry(page).store(frame + 1, Release);
    }

    /// Forgets the page: its loader after a failure, or who holds the frame's latch exclusively.
    pub fn clear(&self, page: u32) {
        self.entry(page).store(0, Release);
    }

    /// All resident frames, as of some moment each.
    pub fn resident(&self) -> Vec<u32> {
        let mut frames = Vec::new();
        for (chunk, base) in self.chunks.iter().enumerate() {
            let base = base.load(Acquire);
            if base.is_null() {
                continue;
            }
            // SAFETY: as in `entry`.
            let entries = unsafe { std::slice::from_raw_parts(base, chunk_len(chunk)) };
            frames.extend(entries.iter().map(|e| e.load(Acquire)).filter(|&e| e != 0 && e != LOADING));
        }
        frames.iter_mut().for_each(|f| *f -= 1);
        frames
    }
}

impl Drop for Translation {
    fn drop(&mut self) {
        for (chunk, base) in self.chunks.iter_mut().enumerate() {
            if !base.get_mut().is_null() {
                let slice = std::ptr::slice_from_raw_parts_mut(*base.get_mut(), chunk_len(chunk));
                // SAFETY: published chunks came from boxes of exactly this length, and nobody borrows `self`.
                drop(unsafe { Box::from_raw(slice) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_number_has_its_own_place() {
        assert_eq!(place(0), (0, 0));
        assert_eq!(place(63), (0, 63));
        assert_eq!(place(64), (1, 0));
        assert_eq!(place(191), (1, 127));
        assert_eq!(place(192), (2, 0));
        let (chunk, index) = place(u32::MAX);
        assert!(chunk < CHUNKS && index < chunk_len(chunk));
    }

    #[test]
    fn one_loader_wins() {
        let t = Translation::default();
        assert_eq!(t.get(1000), Entry::Absent);
        assert!(t.claim(1000));
        assert!(!t.claim(1000));
        assert_eq!(t.get(1000), Entry::Loading);
        t.publish(1000, 5);
        assert_eq!(t.get(1000), Entry::Resident(5));
        assert_eq!(t.resident(), [5]);
        t.clear(1000);
        assert_eq!(t.get(1000), Entry::Absent);
    }
}

//! Which frame is given away next: CLOCK with small use counters. Readers take free or clean cold frames themselves and
//! never write; the cleaner service keeps some ready and writes cold dirty pages out.

use std::sync::Weak;
use std::sync::atomic::Ordering::*;

use keel_runtime::fiber::Fiber;
use keel_runtime::latch;
use parking_lot::lock_api::RawRwLock as _;

use super::heat::COUNT_MAX;
use super::{Frame, NO_TREE, Pool};
use crate::doublewrite::BATCH;
use crate::space::Space;

/// Finds the space of a tree id, to clear its translation.
pub trait Spaces {
    /// Calls `f` with the space, if there is one.
    fn with_space(&self, tree: u32, f: &mut dyn FnMut(&Space)) -> bool;
}

/// Frames a reader without one frees, how far it looks for them, and how many cold dirty frames it passes. Where most are
/// dirty, only the cleaner makes room: readers that went on and on would turn the hand as fast as they can, and what is
/// wanted all the time, such as inner pages of trees, would be cold whenever it comes.
const READER_WANTS: usize = 4;
const READER_STEPS: usize = 4096;
const READER_PASSES: usize = 8;

/// What becomes of the cold dirty frames that the hand meets.
pub enum Met<'d> {
    /// They are gathered until the vector is full.
    Gather(&'d mut Vec<u32>),
    /// So many are passed.
    Pass(usize),
}

impl Met<'_> {
    fn is_enough(&self) -> bool {
        match self {
            Met::Gather(frames) => frames.len() == frames.capacity(),
            Met::Pass(left) => *left == 0,
        }
    }

    fn note(&mut self, frame: u32) {
        match self {
            Met::Gather(frames) if frames.contains(&frame) => {}
            Met::Gather(frames) => frames.push(frame),
            Met::Pass(left) => *left -= 1,
        }
    }
}

/// The cleaner looks ahead over one in so many frames, and over so many at most.
const AHEAD_SHARE: u32 = 8;
const AHEAD_MAX: u32 = 16384;

/// Frames the cleaner keeps ready, up to twice as many: about as many as are taken while it writes a batch, fewer of a small
/// pool, and one in a hundred of a large one.
pub(super) fn low_mark(frames: usize) -> usize {
    (frames / 100).max((frames / 32).min(BATCH)).clamp(4, 4096)
}

impl Pool {
    /// Lets readers find spaces to evict from.
    pub fn set_spaces(&self, spaces: Weak<dyn Spaces + Send + Sync>) {
        _ = self.spaces.set(spaces);
    }

    /// Frees a few clean cold frames; gives their number.
    pub(super) fn sweep_for_reader(&self, spaces: &dyn Spaces) -> usize {
        self.sweep(spaces, READER_WANTS, Met::Pass(READER_PASSES), READER_STEPS)
    }

    pub(super) fn ask_cleaner(&self) {
        if !self.cleaner_asked.swap(true, SeqCst)
            && let Some(fiber) = *self.cleaner.lock()
        {
            fiber.wake();
        }
    }

    /// Names the fiber that [`Pool::sweep`]s when frames run short.
    pub fn set_cleaner(&self, fiber: Fiber) {
        *self.cleaner.lock() = Some(fiber);
    }

    /// Whether frames were asked for since the cleaner looked.
    pub fn is_cleaning_asked(&self) -> bool {
        self.cleaner_asked.load(SeqCst)
    }

    /// Whether far more frames are free than the cleaner keeps ready.
    pub(super) fn has_frames_to_spare(&self) -> bool {
        self.free_count() >= 4 * low_mark(self.len())
    }

    /// Whether frames run short. Resets the request.
    pub fn needs_cleaning(&self) -> bool {
        let asked = self.cleaner_asked.swap(false, SeqCst);
        let short = self.free_count() < 2 * low_mark(self.len())
            && self.untouched.load(Relaxed) as usize >= self.len();
        (asked && short) || self.frames_awaited() > 0
    }

    /// Whether the pool holds all the pages that it can: only what the cleaner keeps free for the next reads is free.
    pub fn is_full(&self) -> bool {
        self.free_count() <= 2 * low_mark(self.len())
    }

    /// Frames that the cleaner should free now.
    pub fn frames_short(&self) -> usize {
        (2 * low_mark(self.len()) + self.frames_awaited()).saturating_sub(self.free_count())
    }

    /// Moves the clock's hand up to `steps` frames, until `want` were freed or enough cold dirty frames were met.
    pub fn sweep(&self, spaces: &dyn Spaces, want: usize, mut met: Met<'_>, steps: usize) -> usize {
        let mut freed = Vec::new();
        for _ in 0..steps.min(self.len() * (COUNT_MAX as usize + 1)) {
            if freed.len() >= want || met.is_enough() {
                break;
            }
            let index = self.hand.fetch_add(1, Relaxed) % self.len() as u32;
            self.mind_half_turn(index);
            let frame = self.frame(index);
            if frame.tree.load(Relaxed) == NO_TREE || frame.pins.load(Relaxed) > 0 {
                continue;
            }
            if frame.heat.cool() {
                continue;
            }
            if frame.is_dirty() {
                met.note(index);
            } else if self.try_empty(spaces, index, frame) {
                freed.push(index);
            }
        }
        self.give_back(&freed);
        freed.len()
    }

    /// Half turns of the hand so far, modulo 256.
    #[inline]
    pub(super) fn half_turn(&self) -> u8 {
        self.half_turns.0.load(Relaxed)
    }

    /// The hand comes to a frame, or the frame is taken for the first time.
    pub(super) fn mind_half_turn(&self, index: u32) {
        if index.is_multiple_of((self.len() as u32 / 2).max(1)) {
            self.half_turns.0.fetch_add(1, Relaxed);
        }
    }

    /// Cold dirty frames, up to `max`, that the hand will soon come to; each turn of the hand gives each of them once. For the
    /// cleaner: what is clean when the hand comes is given away without waiting for the device.
    pub fn cold_dirty_ahead(&self, max: usize) -> Vec<u32> {
        let len = self.len() as u32;
        let hand = self.hand.load(Relaxed);
        let reach = (len / AHEAD_SHARE).min(AHEAD_MAX);
        let mut at = self.looked.load(Relaxed);
        if at.wrapping_sub(hand) > reach {
            // The hand has overtaken it, or the pool has another size.
            at = hand;
        }
        let mut found = Vec::with_capacity(max);
        while found.len() < max && at != hand.wrapping_add(reach) {
            let index = at % len;
            let frame = self.frame(index);
            if frame.is_dirty() && frame.heat.is_cold() && frame.pins.load(Relaxed) == 0 {
                found.push(index);
            }
            at = at.wrapping_add(1);
        }
        self.looked.store(at, Relaxed);
        found
    }

    /// Frees those of `frames` that are clean and cold.
    pub fn evict(&self, spaces: &dyn Spaces, frames: &[u32]) {
        let is_quiet = |frame: &Frame| frame.heat.is_cold() && !frame.is_dirty();
        let mut freed = frames.to_vec();
        freed
            .retain(|&index| is_quiet(self.frame(index)) && self.try_empty(spaces, index, self.frame(index)));
        self.give_back(&freed);
    }

    pub(super) fn try_evict(&self, spaces: &dyn Spaces, index: u32, frame: &Frame) -> bool {
        let evicted = self.try_empty(spaces, index, frame);
        if evicted {
            self.give_back(&[index]);
        }
        evicted
    }

    /// Takes a clean page out of its frame, which is the caller's then, to be given back.
    fn try_empty(&self, spaces: &dyn Spaces, index: u32, frame: &Frame) -> bool {
        if !frame.latch.try_lock_exclusive() {
            return false;
        }
        latch::entered();
        let mut evicted = false;
        let quiet = frame.pins.load(Acquire) == 0 && !frame.is_dirty();
        if let Some((tree, _)) = frame.identity().filter(|_| quiet) {
            if !spaces.with_space(tree, &mut |space| self.forget(space, index)) {
                // The tree was dropped; who still finds the frame in its translation sees that it holds another page.
                frame.tree.store(NO_TREE, Relaxed);
            }
            evicted = true;
        }
        // SAFETY: latched above.
        unsafe { frame.unlock_exclusive() };
        if evicted {
            self.counters.evictions.fetch_add(1, Relaxed);
        }
        evicted
    }
}

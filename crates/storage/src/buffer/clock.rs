//! Which frame is given away next: CLOCK with small use counters. Readers take free or clean cold frames themselves and
//! never write; the cleaner service keeps some ready and writes cold dirty pages out.

use std::sync::Weak;
use std::sync::atomic::Ordering::*;

use keel_runtime::fiber::{self, Fiber};
use keel_runtime::latch;
use keel_runtime::wait::WaitEvent;
use parking_lot::lock_api::RawRwLock as _;

use super::heat::COUNT_MAX;
use super::{Frame, NO_TREE, Owned, Pool};
use crate::fault::{StoreError, StoreResult};
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

/// Frames the cleaner keeps ready: between one and two in a hundred, and a few in a tiny pool.
fn low_mark(frames: usize) -> usize {
    (frames / 100).max((frames / 32).min(128)).clamp(4, 4096)
}

impl Pool {
    /// Puts a frame without identity on the free list, or away where the pool has shrunk.
    pub(super) fn give_back(&self, frame: u32) {
        let mut free = self.free.lock();
        if frame as usize >= self.len() {
            self.frame(frame).away.store(true, Release);
            return;
        }
        free.push(frame);
        drop(free);
        self.wake_free_waiters();
    }

    /// Wakes who waits for a frame; after frames became free or clean.
    pub fn wake_free_waiters(&self) {
        let mut fibers = std::mem::take(&mut *self.free_waiters.lock());
        if !fibers.is_empty() {
            fiber::wake_many(&mut fibers);
        }
    }

    /// A frame that was never used, or from the free list.
    fn pop_free(&self) -> Option<u32> {
        let (popped, left) = {
            let mut free = self.free.lock();
            (free.pop(), free.len())
        };
        if popped.is_some() {
            if left < low_mark(self.len()) && self.untouched.load(Relaxed) as usize >= self.len() {
                self.ask_cleaner();
            }
            return popped;
        }
        let next = self.take_untouched();
        if next.is_none() {
            self.ask_cleaner();
        }
        next
    }

    fn take_untouched(&self) -> Option<u32> {
        let _one = self.free.lock();
        let next = self.untouched.load(Relaxed);
        let some = (next as usize) < self.len();
        some.then(|| {
            self.untouched.store(next + 1, Release);
            self.mind_half_turn(next);
            next
        })
    }

    pub(super) fn try_take_frame(&self) -> Option<Owned<'_>> {
        self.pop_free().map(|frame| Owned { pool: self, frame })
    }

    /// Lets readers find spaces to evict from.
    pub fn set_spaces(&self, spaces: Weak<dyn Spaces + Send + Sync>) {
        _ = self.spaces.set(spaces);
    }

    /// A free frame; takes a clean cold one from its page if there is none, and waits for the cleaner if need be.
    pub(super) fn take_frame(&self) -> StoreResult<Owned<'_>> {
        loop {
            if let Some(owned) = self.try_take_frame() {
                return Ok(owned);
            }
            if let Some(spaces) = self.spaces.get().and_then(Weak::upgrade)
                && self.sweep_for_reader(&*spaces) > 0
            {
                continue;
            }
            self.counters.free_waits.fetch_add(1, Relaxed);
            self.free_waiters.lock().push(fiber::current());
            if let Some(owned) = self.try_take_frame() {
                return Ok(owned);
            }
            if self.dead.load(SeqCst) {
                return Err(StoreError::LogFailed);
            }
            fiber::park(WaitEvent::FreeFrame);
        }
    }

    /// Frees a few clean cold frames; gives their number.
    pub(super) fn sweep_for_reader(&self, spaces: &dyn Spaces) -> usize {
        self.sweep(spaces, READER_WANTS, Met::Pass(READER_PASSES), READER_STEPS)
    }

    fn ask_cleaner(&self) {
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
        (asked && short) || !self.free_waiters.lock().is_empty()
    }

    /// Whether the pool holds all the pages that it can: only what the cleaner keeps free for the next reads is free.
    pub fn is_full(&self) -> bool {
        self.free_count() <= 2 * low_mark(self.len())
    }

    /// Frames that the cleaner should free now.
    pub fn frames_short(&self) -> usize {
        (2 * low_mark(self.len())).saturating_sub(self.free_count())
    }

    /// Moves the clock's hand up to `steps` frames, until `want` were freed or enough cold dirty frames were met.
    pub fn sweep(&self, spaces: &dyn Spaces, want: usize, mut met: Met<'_>, steps: usize) -> usize {
        let mut freed = 0;
        for _ in 0..steps.min(self.len() * (COUNT_MAX as usize + 1)) {
            if freed >= want || met.is_enough() {
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
            } else if self.try_evict(spaces, index, frame) {
                freed += 1;
            }
        }
        freed
    }

    /// Half turns of the hand so far, modulo 256.
    #[inline]
    pub(super) fn half_turn(&self) -> u8 {
        self.half_turns.0.load(Relaxed)
    }

    /// The hand comes to a frame, or the frame is taken for the first time.
    fn mind_half_turn(&self, index: u32) {
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
        for &index in frames {
            let frame = self.frame(index);
            if frame.heat.is_cold() && !frame.is_dirty() {
                self.try_evict(spaces, index, frame);
            }
        }
    }

    pub(super) fn try_evict(&self, spaces: &dyn Spaces, index: u32, frame: &Frame) -> bool {
        if !frame.latch.try_lock_exclusive() {
            return false;
        }
        latch::entered();
        let mut evicted = false;
        let quiet = frame.pins.load(Acquire) == 0 && !frame.is_dirty();
        if let Some((tree, _)) = frame.identity().filter(|_| quiet) {
            if !spaces.with_space(tree, &mut |space| self.forget(space, index)) {
                // The tree was dropped and its translation is gone with it.
                frame.tree.store(NO_TREE, Relaxed);
            }
            evicted = true;
        }
        // SAFETY: latched above.
        unsafe { frame.unlock_exclusive() };
        if evicted {
            self.counters.evictions.fetch_add(1, Relaxed);
            self.give_back(index);
        }
        evicted
    }
}

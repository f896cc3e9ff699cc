//! Changing the size of the buffer pool and of the redo log while both are in use.
//!
//! Growing is immediate. Shrinking empties the frames beyond the new end from a fiber of its caller, a chunk at a time: dirty
//! pages go through the flusher, which serves whoever needs frames in between. Nobody else waits: a page stays where it is,
//! readable and writable, until the moment it is evicted or moved. A crash at any point concerns memory alone.
//!
//! The redo capacity is a number that writers and the flusher look at each time; files are made ahead and removed behind the
//! checkpoint as they are anyway. A smaller capacity than what lies before the checkpoint is reached by flushing first.

use std::time::Duration;

use keel_runtime::{fiber, time};

use crate::buffer::resize::{CHUNK, Committed, Emptied};
use crate::core::Core;
use crate::doublewrite::BATCH;
use crate::fault::{StoreError, StoreResult};
use crate::flush::FlushState;

/// Pause between looks at frames that somebody is at.
const PAUSE: Duration = Duration::from_millis(1);
/// How long pinned pages are waited for before they are left behind.
const PINNED_WAIT_MAX: Duration = Duration::from_millis(300);
/// Looks at a page that is dirty each time before it is moved.
const LOOKS_BEFORE_MOVE: u32 = 2;
/// Largest steps in which a smaller redo capacity is reached.
const CAPACITY_STEPS: u64 = 16;

/// A change of size under way.
pub struct Resize<'a> {
    /// The pool and the log.
    pub core: &'a Core,
    /// The flusher.
    pub flush: &'a FlushState,
    /// Whether the change is to be given up.
    pub stopped: &'a dyn Fn() -> bool,
}

impl Resize<'_> {
    /// Makes the pool so many frames long; waits for whoever resizes, and for pages to be written. False if it was given up:
    /// then the size is as before.
    pub fn pool(&self, frames: u32) -> StoreResult<bool> {
        let pool = &self.core.pool;
        let mut size = pool.lock_size();
        let before = pool.len() as u32;
        if frames >= before {
            return pool.grow(&mut size, frames).map(|()| true);
        }
        let end = pool.cut(frames);
        match self.empty_all(&mut size, frames, end) {
            Ok(true) => Ok(true),
            undone => {
                pool.grow(&mut size, before)?;
                undone
            }
        }
    }

    fn empty_all(&self, size: &mut Committed, from: u32, end: u32) -> StoreResult<bool> {
        // Whole huge pages, but for the ends.
        let chunks = (from / CHUNK * CHUNK..end).step_by(CHUNK as usize).rev();
        let mut left: Vec<(u32, u32)> = chunks.map(|at| (at.max(from), (at + CHUNK).min(end))).collect();
        let mut looks = 0;
        let mut deadline = time::now() + PINNED_WAIT_MAX;
        let mut strays = Vec::new();
        while !left.is_empty() {
            let before = left.len();
            let mut pinned_only = true;
            strays.clear();
            let mut still = Vec::new();
            for (at, to) in std::mem::take(&mut left) {
                if (self.stopped)() {
                    return Ok(false);
                }
                if !self.empty_chunk(at, to, looks, &mut strays, &mut pinned_only)? {
                    still.push((at, to));
                } else if !self.core.pool.release(size, at, to) {
                    pinned_only = false;
                    still.push((at, to));
                }
                fiber::yield_now();
            }
            left = still;
            looks += 1;
            if left.len() < before || !pinned_only {
                deadline = time::now() + PINNED_WAIT_MAX;
            } else if time::now() >= deadline {
                break;
            }
            if !left.is_empty() {
                fiber::sleep(PAUSE);
            }
        }
        for &(at, to) in &left {
            (at..to).for_each(|frame| {
                self.core.pool.release(size, frame, frame + 1);
            });
        }
        self.core.pool.cut_done(size, from, if left.is_empty() { Vec::new() } else { strays });
        Ok(true)
    }

    /// Whether the frames are all away.
    fn empty_chunk(
        &self,
        from: u32,
        to: u32,
        looks: u32,
        strays: &mut Vec<u32>,
        pinned_only: &mut bool,
    ) -> StoreResult<bool> {
        let mut dirty = Vec::with_capacity(BATCH);
        let mut all = true;
        for index in from..to {
            match self.empty(index, looks >= LOOKS_BEFORE_MOVE)? {
                Emptied::Away => {}
                Emptied::Dirty => dirty.push(index),
                Emptied::Busy => (all, *pinned_only) = (false, false),
                Emptied::Pinned => {
                    all = false;
                    strays.push(index);
                }
            }
        }
        if !dirty.is_empty() {
            self.flush.write_frames(self.core, dirty.clone())?;
        }
        for index in dirty {
            if self.empty(index, false)? != Emptied::Away {
                (all, *pinned_only) = (false, false);
            }
        }
        Ok(all)
    }

    fn empty(&self, index: u32, dirty_before: bool) -> StoreResult<Emptied> {
        let pool = &self.core.pool;
        let must_move = dirty_before && pool.frame(index).is_dirty();
        pool.empty(self.core, &self.core.log, index, must_move)
    }

    /// Sets the redo capacity; a smaller one is come down to in steps, the flusher keeping up, so that no writer waits for
    /// all of it at once. False if it was given up on the way: then it is as it was, as after an error.
    pub fn redo(&self, bytes: u64) -> StoreResult<bool> {
        let log = &self.core.log;
        let _one = log.resizing.lock();
        let (before, bytes) = (log.capacity(), log.capacity_for(bytes));
        let step = (log.capacity().saturating_sub(bytes) / CAPACITY_STEPS).max(log.segments.bytes / 4);
        while log.capacity() > bytes {
            if (self.stopped)() {
                log.set_capacity(before);
                return Ok(false);
            }
            let next = log.capacity().saturating_sub(step).max(bytes);
            // Half of it is what the flusher steers to anyway: below that no writer feels the step.
            if log.age() > next / 2 {
                let flushed = self.flush.flush_to(self.core, log.appended().saturating_sub(next / 2));
                flushed.inspect_err(|_| log.set_capacity(before))?;
            }
            log.set_capacity(next);
        }
        log.set_capacity(bytes);
        log.housekeeper.request();
        Ok(true)
    }
}

/// Frames of so many bytes.
pub fn frames_of(bytes: u64, least: u64) -> StoreResult<u32> {
    let frames = (bytes / crate::layout::PAGE as u64).max(least);
    u32::try_from(frames).map_err(|_| StoreError::TooLarge)
}

//! Free frames, and who waits for one.
//!
//! A frame that comes free goes to who has waited longest, not where a newcomer would find it first. Fibers that work for all,
//! such as those of purge, come before sessions: among a thousand of these they would fall behind further and further, and
//! what they have not removed takes frames as well.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Arc, Weak};

use keel_runtime::fiber::{self, Fiber};
use keel_runtime::wait::WaitEvent;

use super::clock::low_mark;
use super::{Owned, Pool};
use crate::fault::{StoreError, StoreResult};

/// The fiber-local word of fibers that work for all.
const FOR_ALL: u64 = 1;

/// While it is there, its fiber works for all sessions: it waits for frames before any of them.
pub(crate) struct ForAll {
    before: u64,
}

impl ForAll {
    pub(crate) fn begin() -> ForAll {
        let before = fiber::get_local();
        fiber::set_local(FOR_ALL);
        ForAll { before }
    }
}

impl Drop for ForAll {
    fn drop(&mut self) {
        fiber::set_local(self.before);
    }
}

/// The frame of a waiter that has none yet.
const NO_FRAME: u32 = u32::MAX;

struct Waiter {
    fiber: Fiber,
    frame: AtomicU32,
}

impl Waiter {
    fn frame(&self) -> Option<u32> {
        Some(self.frame.load(Acquire)).filter(|frame| *frame != NO_FRAME)
    }
}

/// Frames without identity, and the fibers that wait for some; while the pool has its size, there are only the ones or the
/// others.
#[derive(Default)]
pub(super) struct FreeFrames {
    pub(super) frames: Vec<u32>,
    first: VecDeque<Arc<Waiter>>,
    sessions: VecDeque<Arc<Waiter>>,
}

impl FreeFrames {
    fn awaited(&self) -> usize {
        self.first.len() + self.sessions.len()
    }

    /// Gives the frame to who is next, whose fiber is to be woken, or keeps it.
    fn give(&mut self, frame: u32) -> Option<Fiber> {
        let Some(next) = self.first.pop_front().or_else(|| self.sessions.pop_front()) else {
            self.frames.push(frame);
            return None;
        };
        let fiber = next.fiber;
        next.frame.store(frame, Release);
        Some(fiber)
    }
}

impl Pool {
    /// Hands on frames without identity, or puts them away where the pool has shrunk.
    pub(super) fn give_back(&self, frames: &[u32]) {
        if frames.is_empty() {
            return;
        }
        let mut woken = Vec::new();
        let mut free = self.free.lock();
        for &frame in frames {
            match (frame as usize) < self.len() {
                true => woken.extend(free.give(frame)),
                false => self.frame(frame).away.store(true, Release),
            }
        }
        drop(free);
        fiber::wake_many(&mut woken);
    }

    /// Hands frames to those who wait; after the pool has grown.
    pub(super) fn serve_waiters(&self) {
        let mut woken = Vec::new();
        let mut free = self.free.lock();
        while free.awaited() > 0
            && let Some(frame) = self.next_free(&mut free)
        {
            woken.extend(free.give(frame));
        }
        drop(free);
        fiber::wake_many(&mut woken);
    }

    /// Sends all waiters away; after the pool is dead.
    pub fn dismiss_waiters(&self) {
        let mut woken = Vec::new();
        let mut free = self.free.lock();
        woken.extend(free.first.drain(..).map(|waiter| waiter.fiber));
        woken.extend(free.sessions.drain(..).map(|waiter| waiter.fiber));
        drop(free);
        fiber::wake_many(&mut woken);
    }

    /// Fibers that wait for a frame.
    pub(super) fn frames_awaited(&self) -> usize {
        self.free.lock().awaited()
    }

    /// A frame from the list, or one that was never used.
    fn next_free(&self, free: &mut FreeFrames) -> Option<u32> {
        free.frames.pop().or_else(|| {
            let next = self.untouched.load(Relaxed);
            ((next as usize) < self.len()).then(|| {
                self.untouched.store(next + 1, Release);
                self.mind_half_turn(next);
                next
            })
        })
    }

    /// A free frame, if there is one.
    pub(super) fn try_take_frame(&self) -> Option<Owned<'_>> {
        let (frame, left) = {
            let mut free = self.free.lock();
            (self.next_free(&mut free), free.frames.len())
        };
        if left < low_mark(self.len()) && self.untouched.load(Relaxed) as usize >= self.len() {
            self.ask_cleaner();
        }
        frame.map(|frame| Owned { pool: self, frame })
    }

    /// So many free frames, waiting for all of them at once: one after the other would be a turn in the worker's line for each.
    pub(super) fn take_frames(&self, count: usize) -> StoreResult<Vec<Owned<'_>>> {
        let mut owned: Vec<Owned<'_>> = Vec::with_capacity(count);
        let mut waiters = Vec::new();
        while owned.len() + waiters.len() < count {
            match self.try_take_frame() {
                Some(frame) => owned.push(frame),
                None => waiters.push(self.enter_line()),
            }
        }
        if !waiters.is_empty() {
            self.counters.free_waits.fetch_add(1, Relaxed);
            self.ask_cleaner();
        }
        for waiter in &waiters {
            owned.push(self.await_frame(waiter)?);
        }
        Ok(owned)
    }

    /// A free frame; takes a clean cold one from its page if there is none, and waits for the cleaner if need be.
    pub(super) fn take_frame(&self) -> StoreResult<Owned<'_>> {
        if let Some(owned) = self.try_take_frame() {
            return Ok(owned);
        }
        if let Some(spaces) = self.spaces.get().and_then(Weak::upgrade)
            && self.sweep_for_reader(&*spaces) > 0
            && let Some(owned) = self.try_take_frame()
        {
            return Ok(owned);
        }
        self.counters.free_waits.fetch_add(1, Relaxed);
        let waiter = self.enter_line();
        self.ask_cleaner();
        self.await_frame(&waiter)
    }

    /// Has the fiber wait for a frame, unless there is one.
    fn enter_line(&self) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter { fiber: fiber::current(), frame: AtomicU32::new(NO_FRAME) });
        let mut free = self.free.lock();
        if let Some(frame) = self.next_free(&mut free) {
            waiter.frame.store(frame, Release);
            return waiter;
        }
        let line = match fiber::get_local() {
            FOR_ALL => &mut free.first,
            _ => &mut free.sessions,
        };
        line.push_back(waiter.clone());
        waiter
    }

    fn await_frame(&self, waiter: &Arc<Waiter>) -> StoreResult<Owned<'_>> {
        loop {
            if let Some(frame) = waiter.frame() {
                return Ok(Owned { pool: self, frame });
            }
            if self.dead.load(SeqCst) {
                return self.leave_line(waiter);
            }
            fiber::park(WaitEvent::FreeFrame);
        }
    }

    /// For want of a cleaner nobody waits any longer; unless a frame came meanwhile.
    fn leave_line(&self, waiter: &Arc<Waiter>) -> StoreResult<Owned<'_>> {
        let mut free = self.free.lock();
        free.first.retain(|other| !Arc::ptr_eq(other, waiter));
        free.sessions.retain(|other| !Arc::ptr_eq(other, waiter));
        drop(free);
        let frame = waiter.frame().ok_or(StoreError::LogFailed)?;
        Ok(Owned { pool: self, frame })
    }
}

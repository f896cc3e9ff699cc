//! Steps of a change of the pool's size while it is in use; `crate::resize` takes them.
//!
//! 1. A pool that grows is given committed frames behind its end, and those that went away when it shrank.
//! 2. A pool that shrinks gives away no frame beyond its new end any more. Those there are emptied one by one: their page
//!    is evicted, or moved where it is in use or changes all the time. An emptied frame is *away*: in nobody's hands,
//!    its memory the system's.
//! 3. A page that stays pinned keeps its frame as a *stray* until it is let go.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;

use keel_runtime::latch;
use keel_runtime::sync::{Mutex as FiberMutex, MutexGuard};
use parking_lot::Mutex;
use parking_lot::lock_api::RawRwLock as _;

use super::clock::{Met, Spaces};
use super::{NO_TREE, Owned, Pool, UNLOGGED};
use crate::fault::{StoreError, StoreResult};
use crate::layout::PAGE;
use crate::log::{DirtyEntry, Log};
use crate::space::Space;

/// Frames whose memory is given back in one call: a huge page of them.
pub const CHUNK: u32 = 128;
/// Frames looked at for one that a page can move to.
const MOVE_STEPS: usize = 64;
/// Frames that come into use under one hold of the free list.
const GROW_STEP: u32 = 1024;

/// What resizing remembers.
#[derive(Default)]
pub struct Resizing {
    one: FiberMutex<Committed>,
    /// Frames beyond the end whose page was pinned.
    strays: Mutex<Vec<u32>>,
}

/// The end of the frames that may be touched; who has it resizes.
#[derive(Default)]
pub struct Committed(u32);

/// What a try to empty a frame came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emptied {
    /// It is away.
    Away,
    /// Its page must be written first.
    Dirty,
    /// Somebody is at it; soon to be tried again.
    Busy,
    /// Its page is pinned.
    Pinned,
}

impl Pool {
    /// Waits for whoever resizes.
    pub fn lock_size(&self) -> MutexGuard<'_, Committed> {
        let mut committed = self.resizing.one.lock();
        committed.0 = committed.0.max(self.len.load(Relaxed));
        committed
    }

    /// The largest number of frames there may be.
    pub fn len_max(&self) -> u32 {
        self.arena.reserved()
    }

    /// Makes the pool `to` frames long, which is no less than it has.
    pub fn grow(&self, committed: &mut Committed, to: u32) -> StoreResult<()> {
        let failed = |e| StoreError::io("buffer pool", u64::from(to) * PAGE as u64, "map", e);
        if to > self.len_max() {
            return Err(failed(std::io::ErrorKind::OutOfMemory.into()));
        }
        // Also what strays have kept committed: it was given back, and may lie in huge pages again.
        let from = self.len.load(Relaxed);
        self.arena.commit(from, to).map_err(failed)?;
        committed.0 = committed.0.max(to);
        let used = {
            let _one = self.free.lock();
            self.len.store(to, Release);
            to.min(self.untouched.load(Relaxed))
        };
        self.resizing.strays.lock().retain(|&frame| frame >= to);
        let mut at = from;
        while at < used {
            let end = used.min(at + GROW_STEP);
            let mut free = self.free.lock();
            free.frames.extend((at..end).filter(|&frame| self.frame(frame).away.swap(false, AcqRel)));
            at = end;
        }
        self.serve_waiters();
        Ok(())
    }

    /// Gives no frame from `to` on away any more; the end of those that are still to be emptied.
    pub fn cut(&self, to: u32) -> u32 {
        let mut free = self.free.lock();
        let end = self.len.load(Relaxed).min(self.untouched.load(Relaxed)).max(to);
        self.len.store(to, Release);
        free.frames.retain(|&frame| {
            let stays = frame < to;
            if !stays {
                self.frame(frame).away.store(true, Release);
            }
            stays
        });
        free.frames.shrink_to(to as usize);
        end
    }

    /// Tries to empty a frame beyond the end. `must_move` says that its page changes faster than it is written: then this
    /// waits for a frame to move it to.
    pub fn empty(&self, spaces: &dyn Spaces, log: &Log, index: u32, must_move: bool) -> StoreResult<Emptied> {
        let frame = self.frame(index);
        if frame.away.load(Acquire) {
            return Ok(Emptied::Away);
        }
        if frame.pins.load(Acquire) > 0 {
            return Ok(Emptied::Pinned);
        }
        let Some((tree, _)) = frame.identity() else { return Ok(Emptied::Busy) };
        let room = match (must_move, frame.heat.is_hottest()) {
            (true, _) => Some(self.take_frame()?),
            (false, true) => self.room_for_one(spaces),
            (false, false) => self.try_take_frame(),
        };
        if let Some(room) = room {
            let (mut room, mut moved) = (Some(room), false);
            let known = spaces.with_space(tree, &mut |space| {
                moved = room.take().is_some_and(|room| self.move_page(space, log, index, room));
            });
            if known {
                return Ok(if moved { Emptied::Away } else { Emptied::Busy });
            }
        }
        Ok(match frame.is_dirty() {
            true => Emptied::Dirty,
            false if self.try_evict(spaces, index, frame) => Emptied::Away,
            false => Emptied::Busy,
        })
    }

    /// A frame that is free, or easily freed.
    fn room_for_one(&self, spaces: &dyn Spaces) -> Option<Owned<'_>> {
        self.try_take_frame().or_else(|| {
            self.sweep(spaces, 1, Met::Pass(MOVE_STEPS), MOVE_STEPS);
            self.try_take_frame()
        })
    }

    /// Moves a page that nobody has pinned or latched to the frame `room`, with its dirt.
    fn move_page(&self, space: &Space, log: &Log, from: u32, room: Owned<'_>) -> bool {
        let old = self.frame(from);
        if !old.latch.try_lock_exclusive() {
            return false;
        }
        latch::entered();
        let moves = old.tree.load(Relaxed) == space.id.0 && old.pins.load(Acquire) == 0;
        if moves {
            self.move_latched(space, log, from, room);
        }
        // SAFETY: latched above.
        unsafe { old.unlock_exclusive() };
        if moves {
            self.give_back(&[from]);
        }
        moves
    }

    fn move_latched(&self, space: &Space, log: &Log, from: u32, mut room: Owned<'_>) {
        let (old, to) = (self.frame(from), room.frame);
        let new = self.frame(to);
        // SAFETY: the page is latched exclusively by the caller, so nobody changes it.
        room.bytes().copy_from_slice(unsafe { std::slice::from_raw_parts(self.arena.frame(from), PAGE) });
        // Late holders of a stale translation latch the frame only to look at its identity.
        new.lock_exclusive();
        // Under the log's mutex: a checkpoint meanwhile must find the page's dirt in one frame or the other.
        log.with_dirty(|queue, _| {
            let first_redo = old.first_redo.swap(0, Relaxed);
            new.first_redo.store(first_redo, Relaxed);
            new.touched.store(old.touched.load(Relaxed), Relaxed);
            if first_redo != 0 && first_redo != UNLOGGED {
                rename(queue, DirtyEntry { frame: from, first_redo }, to);
            }
        });
        let page = old.page.load(Relaxed);
        new.heat.copy_from(&old.heat);
        new.pins.store(0, Relaxed);
        new.page.store(page, Relaxed);
        new.tree.store(space.id.0, Relaxed);
        space.map.publish(page, to);
        old.tree.store(NO_TREE, Relaxed);
        // SAFETY: latched above.
        unsafe { new.unlock_exclusive() };
        std::mem::forget(room);
    }

    /// Gives the memory of a range beyond the end back where all of it is away.
    pub fn release(&self, _size: &Committed, from: u32, to: u32) -> bool {
        let away = (from..to).all(|frame| self.frame(frame).away.load(Acquire));
        if away {
            // SAFETY: frames that are away hold no page, and nobody gets one while the size is locked.
            unsafe { self.arena.discard(from, to) };
        }
        away
    }

    /// Ends the emptying of the frames `from..`: `strays` are left to [`Pool::reclaim_strays`].
    pub fn cut_done(&self, committed: &mut Committed, from: u32, strays: Vec<u32>) {
        let mut all = self.resizing.strays.lock();
        all.extend(strays);
        all.sort_unstable();
        all.dedup();
        if all.is_empty() && from < committed.0 {
            // SAFETY: all frames from here on are away or were never used, and the size is locked.
            unsafe { self.arena.decommit(from, committed.0) };
            committed.0 = from;
        }
    }

    /// Empties the strays that were let go and written meanwhile.
    pub fn reclaim_strays(&self, spaces: &dyn Spaces) {
        if self.resizing.strays.lock().is_empty() {
            return;
        }
        let Some(size) = self.resizing.one.try_lock() else { return };
        let strays = self.resizing.strays.lock().clone();
        for index in strays {
            let frame = self.frame(index);
            let idle = frame.pins.load(Acquire) == 0 && !frame.is_dirty();
            if idle && !frame.away.load(Acquire) {
                self.try_evict(spaces, index, frame);
            }
            if self.release(&size, index, index + 1) {
                self.resizing.strays.lock().retain(|&stray| stray != index);
            }
        }
    }

    /// Frames in use beyond the end.
    pub fn stray_count(&self) -> usize {
        self.resizing.strays.lock().len()
    }
}

/// The page of a dirty entry has another frame now. The queue is sorted by first redo.
fn rename(queue: &mut VecDeque<DirtyEntry>, entry: DirtyEntry, to: u32) {
    let first = queue.partition_point(|e| e.first_redo < entry.first_redo);
    let same = queue.iter_mut().skip(first).take_while(|e| e.first_redo == entry.first_redo);
    let found = same.filter(|e| e.frame == entry.frame).map(|e| e.frame = to).count();
    assert!(found > 0, "frame {} is dirty from {} and not queued", entry.frame, entry.first_redo);
}

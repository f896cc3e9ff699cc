//! The buffer pool: frames that hold pages, their latches, and who is evicted.
//!
//! Invariants:
//! 1. A frame's identity (`tree`, `page`) changes only under its exclusive latch, or while the frame is owned by one
//!    fiber (loading, free list). Whoever latched a frame found through a translation array checks its identity.
//! 2. Page bytes are read under the shared latch and changed under the exclusive one, which only a mini-transaction
//!    (or recovery) takes. Latches are held for copying only: never across I/O, never across a park.
//! 3. A frame with pins, a dirty frame and a latched frame are not evicted. Pins are taken under the latch.
//! 4. `first_redo` is 0 for a clean frame; otherwise the start of the first group since the page was last copied out, or
//!    [`UNLOGGED`].
//! 5. Where a page and its place in the file differ, and no copy is on its way there, `touched` says so.
//!
//! Latch order: within a tree from parent to child and from left to right; then undo pages; map pages and the pages they
//! give away last. Reads happen with no latch held: [`Pool::latch_shared`] and [`Pool::pin`] assert it when they must wait.

pub mod arena;
pub mod clock;
pub(crate) mod free;
mod heat;
pub(crate) mod read_ahead;
mod requests;
pub mod resize;
pub mod translation;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, OnceLock, Weak};

use keel_runtime::fiber::{self, Fiber};
use keel_runtime::latch;
use keel_runtime::wait::WaitEvent;
use parking_lot::lock_api::RawRwLock as _;
use parking_lot::{Mutex, RawRwLock};

use crate::fault::{StoreError, StoreResult};
use crate::layout::*;
use crate::log::DirtyEntry;
use crate::page::touched::Touched;
use crate::page::{PageRef, format_page};
use crate::space::Space;
use arena::Arena;
use heat::Heat;
use translation::Entry;

/// Identity of a frame that holds no page.
const NO_TREE: u32 = u32::MAX;

/// State of one frame, on a cache line of its own.
#[repr(align(64))]
pub struct Frame {
    latch: RawRwLock,
    tree: AtomicU32,
    page: AtomicU32,
    pins: AtomicU32,
    heat: Heat,
    /// Beyond the end of a pool that shrank, and in nobody's hands.
    away: AtomicBool,
    /// See invariant 4; changes under the exclusive latch, or under the shared one by the flusher.
    pub first_redo: AtomicU64,
    /// See invariant 5; changes as `first_redo` does.
    touched: AtomicU32,
}

/// [`Frame::first_redo`] of a dirty page that no redo describes; it is not in the dirty queue.
pub const UNLOGGED: u64 = u64::MAX;

impl Frame {
    fn new() -> Frame {
        Frame {
            latch: RawRwLock::INIT,
            tree: AtomicU32::new(NO_TREE),
            page: AtomicU32::new(0),
            pins: AtomicU32::new(0),
            heat: Heat::new(),
            away: AtomicBool::new(false),
            first_redo: AtomicU64::new(0),
            touched: AtomicU32::new(0),
        }
    }

    /// Notes changed bytes of the page; the exclusive latch is held, or by the flusher the shared one.
    #[inline]
    pub fn touch_bytes(&self, touched: Touched) {
        // One writer at a time: no read-modify-write is needed.
        self.touched.store(self.touched.load(Relaxed) | touched.0, Relaxed);
    }

    /// What was changed since the page was last copied out; nothing now. For the flusher.
    pub fn take_touched(&self) -> Touched {
        Touched(self.touched.swap(0, Relaxed))
    }

    #[inline]
    fn holds(&self, space: &Space, page: u32) -> bool {
        self.tree.load(Relaxed) == space.id.0 && self.page.load(Relaxed) == page
    }

    /// Tree and page; stable only under the latch.
    pub fn identity(&self) -> Option<(u32, u32)> {
        let tree = self.tree.load(Relaxed);
        (tree != NO_TREE).then(|| (tree, self.page.load(Relaxed)))
    }

    /// How often the page is pinned.
    pub fn pins(&self) -> u32 {
        self.pins.load(Relaxed)
    }

    /// Whether the next sweep may take the page.
    pub fn is_old(&self) -> bool {
        self.heat.is_cold()
    }

    /// Whether the page is newer than the file.
    pub fn is_dirty(&self) -> bool {
        self.first_redo.load(Relaxed) != 0
    }

    #[inline]
    fn lock_shared(&self) {
        latch::entered();
        self.latch.lock_shared();
    }

    /// # Safety
    /// The caller holds the shared latch and gives it up.
    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.latch.unlock_shared() };
        latch::left();
    }

    #[inline]
    fn lock_exclusive(&self) {
        latch::entered();
        self.latch.lock_exclusive();
    }

    /// # Safety
    /// The caller holds the exclusive latch and gives it up.
    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.latch.unlock_exclusive() };
        latch::left();
    }
}

/// What every access reads, on a cache line apart from what changes often.
#[repr(align(64))]
struct ReadOften<T>(T);

/// Counters.
#[derive(Default)]
pub struct Counters {
    /// Pages read from files.
    pub reads: AtomicU64,
    /// Those of them that were read ahead of a scan.
    pub reads_ahead: AtomicU64,
    /// Pages made anew.
    pub creates: AtomicU64,
    /// Pages evicted.
    pub evictions: AtomicU64,
    /// Waits for a free frame.
    pub free_waits: AtomicU64,
    /// Pages latched.
    pub requests: requests::Requests,
}

/// The pool.
pub struct Pool {
    arena: Arena,
    /// Frames from here on are not given away; changes under the mutex of `free`.
    len: AtomicU32,
    free: Mutex<free::FreeFrames>,
    /// Frames from here on were never used; changes under the mutex of `free`.
    untouched: AtomicU32,
    /// Held while the pool is resized.
    resizing: resize::Resizing,
    hand: AtomicU32,
    /// Half turns of the hand, modulo 256; while the pool fills, halves of it that are full.
    half_turns: ReadOften<AtomicU8>,
    /// How far the cleaner has looked ahead of the hand.
    looked: AtomicU32,
    /// Who waits for a page being loaded: tree, page, fiber.
    load_waiters: Mutex<Vec<(u32, u32, Fiber)>>,
    /// Reads that the device has not answered.
    reading: AtomicU32,
    /// Pages that scans brought, oldest first.
    scanned: Mutex<VecDeque<read_ahead::Scanned>>,
    cleaner: Mutex<Option<Fiber>>,
    spaces: OnceLock<Weak<dyn clock::Spaces + Send + Sync>>,
    cleaner_asked: AtomicBool,
    /// The cleaner is gone: a frame that is not free now never will be.
    pub dead: AtomicBool,
    /// During recovery a page that was never written reads as zeros.
    pub recovering: AtomicBool,
    /// Counters.
    pub counters: Counters,
}

/// A shared latch on a page.
pub struct Shared<'p> {
    pool: &'p Pool,
    frame: u32,
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Shared<'_> {
    /// The page.
    #[inline]
    pub fn page(&self) -> PageRef<'_> {
        // SAFETY: the shared latch is held as long as `self` lives, so nobody changes the bytes.
        PageRef::new(unsafe { std::slice::from_raw_parts(self.pool.arena.frame(self.frame), PAGE) })
    }

    /// Keeps the page resident beyond the latch.
    pub fn pin(&self, pool: &Arc<Pool>) -> Pin {
        self.pool.frame(self.frame).pins.fetch_add(1, AcqRel);
        Pin { pool: pool.clone(), frame: self.frame }
    }
}

impl Drop for Shared<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `self` stands for one shared latch.
        unsafe { self.pool.frame(self.frame).unlock_shared() };
    }
}

/// Keeps a page resident; holds no latch.
pub struct Pin {
    pool: Arc<Pool>,
    frame: u32,
}

impl Pin {
    /// The frame the page stays in.
    pub fn frame(&self) -> u32 {
        self.frame
    }

    /// Latches the page shared; never waits for I/O.
    pub fn latch_shared(&self) -> Shared<'_> {
        self.pool.frame(self.frame).lock_shared();
        Shared { pool: &self.pool, frame: self.frame, _not_send: std::marker::PhantomData }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.pool.frame(self.frame).pins.fetch_sub(1, AcqRel);
    }
}

/// A frame that one fiber owns: empty, or being filled. Goes back to the free list on drop.
struct Owned<'p> {
    pool: &'p Pool,
    frame: u32,
}

impl Owned<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the frame has no identity, so latch holders find out that it is not theirs and read no bytes; the free
        // list gave it to this owner alone.
        unsafe { std::slice::from_raw_parts_mut(self.pool.arena.frame(self.frame), PAGE) }
    }

    /// Gives the frame its identity and shows it to the world.
    fn publish(self, space: &Space, page: u32, pins: u32, touched: Touched) -> u32 {
        let frame = self.pool.frame(self.frame);
        // Late holders of a stale translation latch the frame only to look at its identity.
        frame.lock_exclusive();
        frame.first_redo.store(0, Relaxed);
        frame.touched.store(touched.0, Relaxed);
        frame.heat.reset(self.pool.half_turn());
        frame.pins.store(pins, Relaxed);
        frame.page.store(page, Relaxed);
        frame.tree.store(space.id.0, Relaxed);
        // Under the latch: an eviction right behind must find the entry that it clears.
        space.map.publish(page, self.frame);
        // SAFETY: latched above.
        unsafe { frame.unlock_exclusive() };
        let index = self.frame;
        std::mem::forget(self);
        index
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        self.pool.give_back(&[self.frame]);
    }
}

impl Pool {
    /// A pool of `count` frames that may grow to `reserved`.
    pub fn new(count: u32, reserved: u32) -> std::io::Result<Pool> {
        // Where address space is limited, the pool cannot grow.
        let arena = Arena::new(reserved.max(count)).or_else(|_| Arena::new(count))?;
        arena.commit(0, count)?;
        Ok(Pool {
            arena,
            len: AtomicU32::new(count),
            resizing: resize::Resizing::default(),
            free: Mutex::default(),
            untouched: AtomicU32::new(0),
            hand: AtomicU32::new(0),
            half_turns: ReadOften(AtomicU8::new(0)),
            looked: AtomicU32::new(0),
            load_waiters: Mutex::default(),
            reading: AtomicU32::new(0),
            scanned: Mutex::default(),
            cleaner: Mutex::new(None),
            spaces: OnceLock::new(),
            cleaner_asked: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            recovering: AtomicBool::new(false),
            counters: Counters::default(),
        })
    }

    /// Number of frames.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.load(Relaxed) as usize
    }

    /// State of a frame.
    #[inline]
    pub fn frame(&self, index: u32) -> &Frame {
        self.arena.state(index)
    }

    /// First byte of a frame's page.
    #[inline]
    pub fn bytes(&self, index: u32) -> *mut u8 {
        self.arena.frame(index)
    }

    /// Frames whose page is newer than the file.
    pub fn dirty_count(&self) -> usize {
        (0..self.untouched.load(Relaxed)).filter(|&f| self.frame(f).is_dirty()).count()
    }

    /// Frames that hold no page.
    pub fn free_count(&self) -> usize {
        let untouched = self.len().saturating_sub(self.untouched.load(Relaxed) as usize);
        self.free.lock().frames.len() + untouched
    }

    /// Latches a page shared; waits for its read if it is not resident.
    #[inline]
    pub fn latch_shared(&self, space: &Space, page: u32) -> StoreResult<Shared<'_>> {
        loop {
            if let Entry::Resident(index) = space.map.get(page) {
                let frame = self.frame(index);
                frame.lock_shared();
                if frame.holds(space, page) {
                    frame.heat.touch(self.half_turn());
                    self.counters.requests.count();
                    return Ok(Shared { pool: self, frame: index, _not_send: std::marker::PhantomData });
                }
                // SAFETY: latched above.
                unsafe { frame.unlock_shared() };
                self.refuse_dropped(space)?;
            } else {
                self.make_resident(space, page)?;
            }
        }
    }

    /// A frame that has come to hold another page may stay in the translation of a tree that was dropped meanwhile.
    #[cold]
    fn refuse_dropped(&self, space: &Space) -> StoreResult<()> {
        if space.is_dropped() { Err(StoreError::NoTree(space.id.0)) } else { Ok(()) }
    }

    /// Latches a page shared if it is resident; reads nothing.
    pub fn try_latch_shared(&self, space: &Space, page: u32) -> Option<Shared<'_>> {
        let Entry::Resident(index) = space.map.get(page) else { return None };
        let frame = self.frame(index);
        frame.lock_shared();
        if frame.holds(space, page) {
            frame.heat.touch(self.half_turn());
            return Some(Shared { pool: self, frame: index, _not_send: std::marker::PhantomData });
        }
        // SAFETY: latched above.
        unsafe { frame.unlock_shared() };
        None
    }

    /// Latches a page exclusively and gives its frame; waits for its read if it is not resident. The caller owes
    /// [`Pool::unlatch_exclusive`].
    #[inline]
    pub fn latch_exclusive(&self, space: &Space, page: u32) -> StoreResult<u32> {
        loop {
            if let Entry::Resident(index) = space.map.get(page) {
                let frame = self.frame(index);
                frame.lock_exclusive();
                if frame.holds(space, page) {
                    frame.heat.touch(self.half_turn());
                    self.counters.requests.count();
                    return Ok(index);
                }
                // SAFETY: latched above.
                unsafe { frame.unlock_exclusive() };
                self.refuse_dropped(space)?;
            } else {
                self.make_resident(space, page)?;
            }
        }
    }

    /// Latches a pinned page exclusively.
    pub fn latch_pinned(&self, pin: &Pin) -> u32 {
        self.frame(pin.frame).lock_exclusive();
        pin.frame
    }

    /// # Safety
    /// The caller holds the exclusive latch on `frame` and gives it up.
    #[inline]
    pub unsafe fn unlatch_exclusive(&self, frame: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.frame(frame).unlock_exclusive() };
    }

    /// Latches whatever page a frame holds, shared.
    pub fn latch_frame(&self, frame: u32) -> Shared<'_> {
        self.frame(frame).lock_shared();
        Shared { pool: self, frame, _not_send: std::marker::PhantomData }
    }

    /// Makes a page resident and keeps it so; waits for its read.
    pub fn pin(self: &Arc<Self>, space: &Space, page: u32) -> StoreResult<Pin> {
        Ok(self.latch_shared(space, page)?.pin(self))
    }

    /// As [`Pool::pin`], for a page whose content does not matter: it is not read.
    pub fn pin_fresh(self: &Arc<Self>, space: &Space, page: u32) -> StoreResult<Pin> {
        loop {
            if matches!(space.map.get(page), Entry::Absent) && space.map.claim(page) {
                let Ok(mut owned) = self.take_frame() else {
                    space.map.clear(page);
                    self.wake_loaders(space, page);
                    return Err(StoreError::LogFailed);
                };
                owned.bytes()[..AT_TREE].fill(0);
                format_page(owned.bytes(), space.id.0, page, KIND_FREE);
                let frame = owned.publish(space, page, 1, Touched::ALL);
                self.counters.creates.fetch_add(1, Relaxed);
                self.wake_loaders(space, page);
                return Ok(Pin { pool: self.clone(), frame });
            }
            // It may never have been written: nothing here may read it.
            match space.map.get(page) {
                Entry::Absent => {}
                Entry::Loading => self.wait_loaded(space, page),
                Entry::Resident(_) => match self.try_latch_shared(space, page) {
                    Some(latch) => return Ok(latch.pin(self)),
                    None => self.refuse_dropped(space)?,
                },
            }
        }
    }

    #[cold]
    fn make_resident(&self, space: &Space, page: u32) -> StoreResult<()> {
        assert_eq!(latch::held(), 0, "a page read with a latch held (tree {}, page {page})", space.id);
        self.refuse_dropped(space)?;
        if space.lost {
            return Err(space.corrupt(page, "the file is missing or cut off"));
        }
        if space.map.claim(page) {
            let mut result = self.load(space, page);
            if result.is_err() {
                space.map.clear(page);
                if space.is_dropped() {
                    // The file was cut to nothing under the read.
                    result = Err(StoreError::NoTree(space.id.0));
                }
            }
            self.wake_loaders(space, page);
            return result;
        }
        self.wait_loaded(space, page);
        Ok(())
    }

    /// Waits while somebody loads a page.
    fn wait_loaded(&self, space: &Space, page: u32) {
        let me = fiber::current();
        loop {
            // Entered anew each time: whoever was woken may find the page evicted and being loaded again.
            self.load_waiters.lock().push((space.id.0, page, me));
            let wait = space.map.get(page) == Entry::Loading;
            if wait {
                fiber::park(WaitEvent::PageRead);
            }
            self.load_waiters.lock().retain(|w| w.2 != me);
            if !wait {
                return;
            }
        }
    }

    fn wake_loaders(&self, space: &Space, page: u32) {
        let mut fibers = Vec::new();
        self.load_waiters.lock().retain(|&(t, p, fiber)| {
            let hit = t == space.id.0 && p == page;
            if hit {
                fibers.push(fiber);
            }
            !hit
        });
        if !fibers.is_empty() {
            fiber::wake_many(&mut fibers);
        }
    }

    fn load(&self, space: &Space, page: u32) -> StoreResult<()> {
        let mut owned = self.take_frame()?;
        let offset = u64::from(page) * PAGE as u64;
        self.reading.fetch_add(1, Relaxed);
        let read = if self.recovering.load(Relaxed) {
            read_or_zeros(space, owned.bytes(), offset)
        } else {
            space.file.read_at(owned.bytes(), offset)
        };
        self.reading.fetch_sub(1, Relaxed);
        read.map_err(|e| space.io_error(page, "read", e))?;
        self.counters.reads.fetch_add(1, Relaxed);
        let touched = self.check_loaded(space, page, owned.bytes())?;
        owned.publish(space, page, 0, touched);
        Ok(())
    }

    /// Refuses what is not that page; gives where it may differ from its place in the file.
    fn check_loaded(&self, space: &Space, page: u32, bytes: &[u8]) -> StoreResult<Touched> {
        let loaded = PageRef::new(bytes);
        if self.recovering.load(Relaxed) && loaded.is_zero() {
            // Perhaps the file ends before it.
            return Ok(Touched::ALL);
        }
        if !loaded.crc_ok() {
            return Err(space.corrupt(page, "checksum does not fit"));
        }
        if loaded.page_no() != page || loaded.tree() != space.id.0 {
            let what = format!("found page {} of tree {}", loaded.page_no(), loaded.tree());
            return Err(space.corrupt(page, what));
        }
        Ok(Touched::NONE)
    }

    /// Notes a change of a latched page; called under the log's mutex, which keeps the queue sorted.
    #[inline]
    pub fn mark_dirty(&self, index: u32, start: u64, queue: &mut VecDeque<DirtyEntry>) {
        let frame = self.frame(index);
        if frame.first_redo.load(Relaxed) == 0 {
            frame.first_redo.store(start, Relaxed);
            queue.push_back(DirtyEntry { frame: index, first_redo: start });
        }
    }

    /// The page of a temporary tree differs from the file: it is written only for want of frames. Latched exclusively.
    pub fn mark_unlogged(&self, index: u32) {
        self.frame(index).first_redo.store(UNLOGGED, Relaxed);
    }

    /// Forgets all pages of a dropped space.
    pub fn discard(&self, space: &Space) {
        for index in space.map.resident() {
            let frame = self.frame(index);
            frame.lock_exclusive();
            let ours = frame.tree.load(Relaxed) == space.id.0 && frame.pins.load(Acquire) == 0;
            if ours {
                self.forget(space, index);
            }
            // SAFETY: latched above.
            unsafe { frame.unlock_exclusive() };
            if ours {
                self.give_back(&[index]);
            }
        }
    }

    /// Gives the frame of a clean page that nobody pins up at once.
    pub fn forget_page(&self, space: &Space, page: u32) {
        let Entry::Resident(index) = space.map.get(page) else { return };
        let frame = self.frame(index);
        frame.lock_exclusive();
        let ours = frame.holds(space, page) && !frame.is_dirty() && frame.pins.load(Acquire) == 0;
        if ours {
            self.forget(space, index);
        }
        // SAFETY: latched above.
        unsafe { frame.unlock_exclusive() };
        if ours {
            self.give_back(&[index]);
        }
    }

    /// Forgets the pages of a space from `page` on; false if one of them is in use or newer than the file.
    pub fn discard_from(&self, space: &Space, page: u32) -> bool {
        let mut all = true;
        for index in space.map.resident() {
            let frame = self.frame(index);
            frame.lock_exclusive();
            let meant = frame.tree.load(Relaxed) == space.id.0 && frame.page.load(Relaxed) >= page;
            let idle = frame.pins.load(Acquire) == 0 && !frame.is_dirty();
            if meant && idle {
                self.forget(space, index);
            }
            // SAFETY: latched above.
            unsafe { frame.unlock_exclusive() };
            if meant && idle {
                self.give_back(&[index]);
            }
            all &= !meant || idle;
        }
        all
    }

    /// Takes a frame's identity away; its exclusive latch is held.
    fn forget(&self, space: &Space, index: u32) {
        let frame = self.frame(index);
        space.map.clear(frame.page.load(Relaxed));
        frame.tree.store(NO_TREE, Relaxed);
        frame.first_redo.store(0, Relaxed);
    }
}

/// A read beyond the end of the file gives zeros.
fn read_or_zeros(space: &Space, out: &mut [u8], offset: u64) -> std::io::Result<()> {
    let got = space.file.read_some_at(out, offset)?;
    out[got..].fill(0);
    Ok(())
}

//! The redo log: one stream of groups, each the redo of one mini-transaction, ordered by LSN.
//!
//! Words: *appended* is the end of the stream in memory, *written* what the operating system has, *durable* what survives
//! power loss. LSNs are byte positions in the stream.
//!
//! Invariants:
//! 1. Groups enter the buffer whole, in LSN order, under one short mutex (copying 300 bytes costs 30 ns); there are no
//!    holes, so the durable end always lies between two groups. This replaces reservation by one atomic with in-flight
//!    marks: completeness is trivial.
//! 2. A page that becomes dirty enters the dirty queue under the same mutex: the queue is sorted by first redo, and its
//!    head bounds the checkpoint.
//! 3. `written` moves only forward, and only by who holds the device; `durable` too, and by who holds `syncing`.
//! 4. Each batch of writes ends with a mark that says how far the log was durable before it: whatever is missing of the log
//!    before such a mark is damage, and no crash's doing.
//! 5. After a failed write or sync the log is dead for good: no waiter is ever told that its group is durable.
//!
//! Appending needs no fiber and may happen under latches; everything named `wait_` parks and needs none held. A crash
//! leaves a prefix of the appended groups that includes all of the durable ones.

pub mod behind;
pub mod head;
pub mod record;
pub mod scan;
pub mod segments;
mod writer;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::*};

use keel_runtime::fiber::{self, Fiber};
use keel_runtime::sync::Mutex as FiberMutex;
use keel_runtime::wait::WaitEvent;
use parking_lot::Mutex;

use crate::fault::{StoreError, StoreResult};
use crate::store::Durability;
use record::{durable_mark, records_crc, seal_group};
use segments::Segments;

use writer::Device;
pub use writer::run_writer;

/// The first LSN of a store; 0 means none.
pub const FIRST_LSN: u64 = segments::BLOCK as u64;
/// Bytes appended and not written beyond which [`Log::wait_room`] waits, unless somebody chose.
pub const BUFFERED_MAX: u64 = 8 << 20;
/// Share of the capacity, in percent, that the checkpoint age may reach before writers wait.
const AGE_MAX_PERCENT: u64 = 90;

/// A page that became dirty: frame, identity and the LSN of its first redo.
#[derive(Clone, Copy, Debug)]
pub struct DirtyEntry {
    /// Index of the frame.
    pub frame: u32,
    /// Start of the first group since the page was clean.
    pub first_redo: u64,
}

/// What appending changes.
struct Append {
    pending: Vec<u8>,
    pending_start: u64,
    last_crc: u32,
    /// Start of the last group.
    last_start: u64,
    dirty: VecDeque<DirtyEntry>,
}

impl Append {
    /// Puts a group at the end; `crc` is that of its records. Gives its start and end.
    fn push(&mut self, group: &mut [u8], crc: u32) -> (u64, u64) {
        let start = self.pending_start + self.pending.len() as u64;
        self.last_crc = seal_group(group, crc, start, self.last_crc);
        self.last_start = start;
        self.pending.extend_from_slice(group);
        (start, start + group.len() as u64)
    }
}

struct Waiter {
    lsn: u64,
    fiber: Fiber,
    /// Whether the waiter wants durability or is content with written.
    durable: bool,
}

/// How others call a service: a request outlives the wake, which I/O of the service may have used up.
#[derive(Default)]
pub struct Bell {
    asked: AtomicBool,
    fiber: Mutex<Option<Fiber>>,
}

impl Bell {
    /// The service runs on this fiber.
    pub fn serve(&self, fiber: Fiber) {
        *self.fiber.lock() = Some(fiber);
    }

    /// Asks the service to look around.
    pub fn request(&self) {
        if !self.asked.swap(true, SeqCst)
            && let Some(fiber) = *self.fiber.lock()
        {
            fiber.wake();
        }
    }

    /// Whether it was asked since the last look; the service asks before it sleeps.
    pub fn take_request(&self) -> bool {
        self.asked.swap(false, SeqCst)
    }
}

/// The log of a store.
pub struct Log {
    append: Mutex<Append>,
    appended: AtomicU64,
    written: AtomicU64,
    durable: AtomicU64,
    /// Start of the last durable group.
    durable_start: AtomicU64,
    checkpoint: AtomicU64,
    failed: AtomicBool,
    failure: Mutex<Option<String>>,
    /// Pages cannot be written for want of room on the disk: the checkpoint stays where it is.
    pages_stuck: AtomicBool,
    waiters: Mutex<Vec<Waiter>>,
    space_waiters: Mutex<Vec<Fiber>>,
    wanted_written: AtomicU64,
    wanted_durable: AtomicU64,
    writer_sleeps: AtomicBool,
    writer: Mutex<Option<Fiber>>,
    /// Held while the log is written; None until the service has begun.
    device: FiberMutex<Option<Device>>,
    /// Held while written log is made durable, behind `device` where both are. One at a time: of two syncs of a file the kernel
    /// tells only one that a write has failed.
    syncing: FiberMutex<()>,
    /// End of what is written, and where the last group before it begins.
    last_written: Mutex<(u64, u64)>,
    /// The page flusher.
    pub flusher: Bell,
    /// The housekeeper of the files.
    pub housekeeper: Bell,
    /// End of the files that are ready to be written.
    provided: AtomicU64,
    stop: AtomicBool,
    stopped: AtomicBool,
    durability: AtomicU8,
    capacity: AtomicU64,
    /// Bytes appended and not written beyond which writers wait.
    buffered_max: u64,
    /// Held while the capacity is changed.
    pub resizing: FiberMutex<()>,
    /// The files.
    pub segments: Segments,
    /// Writes done.
    pub write_count: AtomicU64,
    /// Groups appended.
    pub group_count: AtomicU64,
    /// Waits for space.
    pub space_wait_count: AtomicU64,
}

/// No less than what writers may usually have appended and not written, twice. Where more may wait in memory, the capacity ends it first.
fn capacity_for(bytes: u64, segments: &Segments) -> u64 {
    bytes.max(2 * segments.bytes.min(BUFFERED_MAX))
}

impl Log {
    /// A log that ends at its checkpoint; recovery moves it to where it truly ends.
    pub fn new(segments: Segments, checkpoint: u64, capacity: u64, buffered_max: u64) -> Log {
        let end = checkpoint;
        Log {
            append: Mutex::new(Append {
                pending: Vec::with_capacity(1 << 20),
                pending_start: end,
                last_crc: 0,
                last_start: end,
                dirty: VecDeque::new(),
            }),
            appended: AtomicU64::new(end),
            written: AtomicU64::new(end),
            durable: AtomicU64::new(end),
            durable_start: AtomicU64::new(end),
            checkpoint: AtomicU64::new(checkpoint),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            pages_stuck: AtomicBool::new(false),
            waiters: Mutex::default(),
            space_waiters: Mutex::default(),
            wanted_written: AtomicU64::new(0),
            wanted_durable: AtomicU64::new(0),
            writer_sleeps: AtomicBool::new(false),
            writer: Mutex::new(None),
            device: FiberMutex::new(None),
            syncing: FiberMutex::new(()),
            last_written: Mutex::new((end, end)),
            flusher: Bell::default(),
            housekeeper: Bell::default(),
            provided: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            durability: AtomicU8::new(0),
            capacity: AtomicU64::new(capacity_for(capacity, &segments)),
            buffered_max,
            resizing: FiberMutex::new(()),
            segments,
            write_count: AtomicU64::new(0),
            group_count: AtomicU64::new(0),
            space_wait_count: AtomicU64::new(0),
        }
    }

    /// During recovery: the stream is known to be durable up to `lsn`; its last group begins at `last_start`.
    pub fn recovered_to(&self, lsn: u64, last_crc: u32, last_start: u64) {
        let mut a = self.append.lock();
        a.pending_start = lsn;
        a.last_crc = last_crc;
        a.last_start = last_start;
        self.durable_start.store(last_start, SeqCst);
        *self.last_written.lock() = (lsn, last_start);
        for mark in [&self.appended, &self.written, &self.durable] {
            mark.store(lsn, SeqCst);
        }
    }

    /// End of the stream.
    #[inline]
    pub fn appended(&self) -> u64 {
        self.appended.load(Acquire)
    }

    /// End of the stream as the operating system has it.
    fn written(&self) -> u64 {
        self.written.load(Acquire)
    }

    /// Durable end of the stream.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.durable.load(Acquire)
    }

    /// Start of the last durable group: the furthest that a checkpoint may go. The chain of checksums begins with the group
    /// at the checkpoint, so one must be there: what a crash left behind the end might pass for it.
    pub fn durable_start(&self) -> u64 {
        self.durable_start.load(Acquire)
    }

    /// Where recovery would start.
    pub fn checkpoint(&self) -> u64 {
        self.checkpoint.load(Acquire)
    }

    /// Bytes recovery would read.
    pub fn age(&self) -> u64 {
        self.appended().saturating_sub(self.checkpoint())
    }

    /// Configured bytes between checkpoint and end.
    #[inline]
    pub fn capacity(&self) -> u64 {
        self.capacity.load(Relaxed)
    }

    /// Changes the bytes between checkpoint and end; for whoever holds `resizing`. A smaller capacity than there is age makes
    /// writers wait.
    pub fn set_capacity(&self, bytes: u64) {
        self.capacity.store(capacity_for(bytes, &self.segments), Relaxed);
        self.wake_space_waiters();
    }

    /// The capacity that is meant by `bytes`.
    pub fn capacity_for(&self, bytes: u64) -> u64 {
        capacity_for(bytes, &self.segments)
    }

    /// What commits wait for.
    pub fn durability(&self) -> Durability {
        match self.durability.load(Relaxed) {
            0 => Durability::Commit,
            1 => Durability::WriteEachCommit,
            _ => Durability::Lazy,
        }
    }

    /// Changes what later commits wait for.
    pub fn set_durability(&self, durability: Durability) {
        self.durability.store(durability as u8, Relaxed);
    }

    /// Whether the log is dead.
    #[inline]
    pub fn is_failed(&self) -> bool {
        self.failed.load(Acquire)
    }

    /// Why it is dead.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Why a start ends, where all it knows is that the log has failed.
    pub fn explain(&self, error: StoreError) -> StoreError {
        match (error, self.failure()) {
            (StoreError::LogFailed, Some(why)) => StoreError::Unusable(why),
            (error, _) => error,
        }
    }

    /// Declares the log dead: wakes every waiter with the error.
    pub fn fail(&self, why: String) {
        self.failure.lock().get_or_insert(why);
        self.failed.store(true, SeqCst);
        let mut fibers: Vec<Fiber> = self.waiters.lock().drain(..).map(|w| w.fiber).collect();
        fibers.append(&mut self.space_waiters.lock());
        fiber::wake_many(&mut fibers);
    }

    /// An error if waiting for pages to be written is in vain, for good or until there is room on the disk.
    pub fn check_health(&self) -> StoreResult<()> {
        if self.is_failed() {
            return Err(StoreError::LogFailed);
        }
        match self.pages_stuck.load(Acquire) {
            true => Err(StoreError::DiskFull { file: "pages".into() }),
            false => Ok(()),
        }
    }

    /// Says whether pages cannot be written for want of room on the disk; if so, wakes who waits for it.
    pub fn set_pages_stuck(&self, stuck: bool) {
        if stuck == self.pages_stuck.swap(stuck, AcqRel) || !stuck {
            return;
        }
        let mut fibers = std::mem::take(&mut *self.space_waiters.lock());
        fiber::wake_many(&mut fibers);
    }

    /// Appends a group. `dirtied` is called with the group's start and end under the log's mutex, and pushes onto the
    /// queue the pages that were clean. Gives the group's end.
    pub fn append(&self, group: &mut [u8], dirtied: impl FnOnce(u64, u64, &mut VecDeque<DirtyEntry>)) -> u64 {
        let crc = records_crc(group);
        let mut a = self.append.lock();
        let (start, end) = a.push(group, crc);
        dirtied(start, end, &mut a.dirty);
        self.appended.store(end, Release);
        self.group_count.fetch_add(1, Relaxed);
        end
    }

    /// Takes what is pending, and a mark behind it; who appends gets the emptied `batch`. Gives the end and the start of the
    /// last group.
    fn take_pending(&self, batch: &mut Vec<u8>) -> (u64, u64) {
        let mut mark = durable_mark(self.durable());
        let crc = records_crc(&mark);
        let mut a = self.append.lock();
        if !a.pending.is_empty() {
            let (_, end) = a.push(&mut mark, crc);
            self.appended.store(end, Release);
        }
        std::mem::swap(&mut a.pending, batch);
        a.pending_start += batch.len() as u64;
        (a.pending_start, a.last_start)
    }

    /// Runs `f` over the dirty queue with the end of the stream, under the log's mutex.
    pub fn with_dirty<R>(&self, f: impl FnOnce(&mut VecDeque<DirtyEntry>, u64) -> R) -> R {
        let mut a = self.append.lock();
        let end = a.pending_start + a.pending.len() as u64;
        f(&mut a.dirty, end)
    }

    /// Room kept in the files for groups of mini-transactions that already run.
    #[inline]
    fn margin(&self) -> u64 {
        BUFFERED_MAX.min(self.segments.bytes / 4)
    }

    /// Looks how far the files reach; after they were made or reused.
    pub fn note_files(&self) {
        self.provided.store(self.segments.end(self.appended()), Release);
        self.wake_space_waiters();
    }

    /// Whether a new mini-transaction may start at once.
    #[inline]
    pub fn has_room(&self) -> bool {
        // The others may have moved past this end by the time they are looked at: then there is room.
        let appended = self.appended.load(Acquire);
        appended + self.margin() < self.provided.load(Acquire)
            && appended.saturating_sub(self.written()) < self.buffered_max
            && appended.saturating_sub(self.checkpoint.load(Acquire))
                < self.capacity() / 100 * AGE_MAX_PERCENT
    }

    /// Waits until a new mini-transaction may start.
    #[inline]
    pub fn wait_room(&self) -> StoreResult<()> {
        if self.is_failed() {
            return Err(StoreError::LogFailed);
        }
        if self.has_room() { Ok(()) } else { self.wait_room_slow() }
    }

    #[cold]
    fn wait_room_slow(&self) -> StoreResult<()> {
        self.space_wait_count.fetch_add(1, Relaxed);
        loop {
            self.space_waiters.lock().push(fiber::current());
            if self.has_room() && !self.is_failed() {
                return Ok(());
            }
            self.check_health()?;
            self.want_written(self.appended());
            self.flusher.request();
            self.housekeeper.request();
            fiber::park(WaitEvent::LogSpace);
        }
    }

    /// Wakes who waits in [`Log::wait_room`].
    fn wake_space_waiters(&self) {
        if !self.has_room() {
            return;
        }
        let mut fibers = std::mem::take(&mut *self.space_waiters.lock());
        if !fibers.is_empty() {
            fiber::wake_many(&mut fibers);
        }
    }

    /// Records a durable checkpoint.
    pub fn set_checkpoint(&self, lsn: u64) {
        self.checkpoint.store(lsn, Release);
        self.wake_space_waiters();
    }

    fn want_written(&self, lsn: u64) {
        self.wanted_written.fetch_max(lsn, SeqCst);
        self.wake_writer();
    }

    fn want_durable(&self, lsn: u64) {
        self.wanted_durable.fetch_max(lsn, SeqCst);
        self.wake_writer();
    }

    fn wake_writer(&self) {
        if self.writer_sleeps.load(SeqCst)
            && self.writer_sleeps.swap(false, SeqCst)
            && let Some(writer) = *self.writer.lock()
        {
            writer.wake();
        }
    }

    /// Waits until the stream is durable up to `lsn`.
    pub fn wait_durable(&self, lsn: u64) -> StoreResult<()> {
        if self.durable() >= lsn {
            return Ok(());
        }
        self.wait(lsn, true)
    }

    /// Waits until the stream is handed to the operating system up to `lsn`.
    pub fn wait_written(&self, lsn: u64) -> StoreResult<()> {
        if self.written() >= lsn {
            return Ok(());
        }
        self.wait(lsn, false)
    }

    fn wait(&self, lsn: u64, durable: bool) -> StoreResult<()> {
        let reached = || if durable { self.durable() } else { self.written() } >= lsn;
        if self.write_alone(lsn, durable)? {
            return Ok(());
        }
        let mut waiters = self.waiters.lock();
        // The writer moves its mark before it looks for waiters under this mutex: no wake-up is lost.
        if reached() {
            return Ok(());
        }
        waiters.push(Waiter { lsn, fiber: fiber::current(), durable });
        drop(waiters);
        if durable {
            self.want_durable(lsn)
        } else {
            self.want_written(lsn)
        }
        while !reached() {
            if self.is_failed() {
                return Err(StoreError::LogFailed);
            }
            fiber::park(WaitEvent::LogFlush);
        }
        Ok(())
    }

    /// Writes up to `lsn` if nobody else writes; false if somebody does.
    fn write_alone(&self, lsn: u64, durable: bool) -> StoreResult<bool> {
        let Some(mut device) = self.device.try_lock() else { return Ok(false) };
        if self.is_failed() {
            return Err(StoreError::LogFailed);
        }
        let Some(writing) = &mut *device else { return Ok(false) };
        let relaxed = self.durability() != Durability::Commit;
        let mut done = writing.write_pending(self, durable && !relaxed);
        drop(device);
        if durable && done.is_ok() {
            done = self.sync_written(lsn);
        }
        done.map(|()| true).map_err(|error| {
            self.fail(error.to_string());
            StoreError::LogFailed
        })
    }

    /// Makes durable what is written, unless it is so up to `lsn`. What a failed sync has lost, nobody knows: it is the log's end,
    /// before somebody else may try. Waits.
    fn sync_written(&self, lsn: u64) -> StoreResult<()> {
        if self.durable() >= lsn {
            return Ok(());
        }
        let _one = self.syncing.lock_for(WaitEvent::LogFlush);
        let (end, last_start) = *self.last_written.lock();
        let mut at = self.durable();
        while at < end {
            let file = self.segments.cached(at)?;
            let synced = file.sync_data().map_err(|e| StoreError::io("redo", at, "sync", e));
            synced.inspect_err(|error| self.fail(error.to_string()))?;
            at = (at / self.segments.bytes + 1) * self.segments.bytes;
        }
        if self.is_failed() {
            return Err(StoreError::LogFailed);
        }
        self.advance(end, end, last_start);
        Ok(())
    }

    /// Whether somebody waits for more than there is.
    fn is_wanted(&self) -> bool {
        self.wanted_durable.load(SeqCst) > self.durable() || self.wanted_written.load(SeqCst) > self.written()
    }

    /// Moves the marks and wakes whom they satisfy. `last_start` is where the last group before `written` begins.
    fn advance(&self, written: u64, durable: u64, last_start: u64) {
        if durable == written {
            self.durable_start.fetch_max(last_start, SeqCst);
        }
        {
            let mut last = self.last_written.lock();
            *last = (written, last_start).max(*last);
        }
        self.written.fetch_max(written, SeqCst);
        self.durable.fetch_max(durable, SeqCst);
        let mut fibers = Vec::new();
        self.waiters.lock().retain(|w| {
            let reached = if w.durable { self.durable() } else { self.written() } >= w.lsn;
            if reached {
                fibers.push(w.fiber);
            }
            !reached
        });
        if !fibers.is_empty() {
            fiber::wake_many(&mut fibers);
        }
        self.wake_space_waiters();
    }

    /// Asks the writer to end after writing what is there, and waits for it.
    pub fn stop(&self) -> StoreResult<()> {
        let result = self.wait_durable(self.appended());
        self.stop.store(true, SeqCst);
        while !self.stopped.load(SeqCst) {
            self.writer_sleeps.store(true, SeqCst);
            self.wake_writer();
            fiber::yield_now();
        }
        result
    }
}

//! The flusher: writes dirty pages out, by age of their redo and by need for free frames, and advances the checkpoint.
//!
//! Invariants:
//! 1. A page is written only when the log is durable up to its LSN.
//! 2. A page is copied under its shared latch and marked clean at that moment; it stays pinned until the copy is written
//!    in place, or durable where the file goes through the page cache and is not temporary, so nobody reads an older version from the file.
//! 3. Files are synced once for several batches: before the doublewrite file begins anew, and before the checkpoint moves.
//! 4. Everything before the least first redo of all dirty pages, or before the durable end, is *clean* once the files are
//!    synced. The checkpoint lies there, or at the start of the last durable group if that comes first; only this service
//!    moves it, between batches, so no batch is in flight then.
//!
//! Pace: age is steered towards three eighths of the log's capacity by flushing redo at the rate at which it arrives, times
//! the share of those that is used up; above nine sixteenths, batch after batch, and pages ahead of the clock's hand wait. What
//! is left is for a device that stands still for a while. An idle store is cleaned in small steps.
//!
//! A failed write leaves its pages dirty and is tried again: on a full disk until there is room, while writers that find no
//! log space are told so; after any other error so many times without a step of the checkpoint, then the store ends. A
//! failed sync ends it at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

use keel_runtime::console;
use keel_runtime::fiber::{self, Fiber};
use keel_runtime::time::{self, Instant};
use keel_runtime::wait::WaitEvent;
use parking_lot::Mutex;

use crate::buffer::clock::Met;
use crate::core::Core;
use crate::doublewrite::{BATCH, Doublewrite};
use crate::fault::{StoreError, StoreResult};
use crate::flush_batch::{FlushBatch, Unsynced};
use crate::log::DirtyEntry;
use crate::log::head::Head;

/// Time between looks at the age while there is dirt.
const TICK: Duration = Duration::from_millis(100);
/// How many of these a second has.
const TICKS_PER_SECOND: u64 = 10;
/// Time between checkpoints of a quiet store.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);
/// Pages flushed per tick of an idle store.
const IDLE_PAGES: usize = 64;
/// Pages written in place after which the files are synced.
const UNSYNCED_MAX: usize = 1024;
/// Shortest sleep.
const REST_MIN: Duration = Duration::from_millis(1);
/// Wait after a failed write.
const RETRY: Duration = Duration::from_millis(100);
/// Failed writes without a step of the checkpoint after which the store ends.
const TRIES_MAX: u32 = 20;

/// What others share with the flusher.
#[derive(Default)]
pub struct FlushState {
    /// Everything dirtied before this LSN is to be flushed now.
    target: AtomicU64,
    /// Everything dirtied before this LSN is to be flushed in small steps.
    welcome: AtomicU64,
    /// Pages hold everything before this LSN.
    clean: AtomicU64,
    waiters: Mutex<Vec<Fiber>>,
    /// Frames to be written at once; one caller at a time.
    asked: Mutex<Vec<u32>>,
    stop: AtomicBool,
    stopped: AtomicBool,
    /// While set, in recovery, the checkpoint stays and pages leave only for want of frames.
    pub hold_checkpoint: AtomicBool,
    /// Pages that an idle store writes in a second; 0: as many as are found good.
    pub pages_per_second: AtomicU64,
    /// The most pages in a second while the log has room; 0: as many as are needed.
    pub pages_per_second_max: AtomicU64,
    /// Pages written in place.
    pub pages_written: AtomicU64,
    /// Those of them that were written for want of frames.
    pub pages_for_frames: AtomicU64,
    /// Pages that are being written.
    pub pages_open: AtomicU64,
    /// Bytes of all written: only what changed is.
    pub page_bytes: AtomicU64,
    /// Bytes written to the doublewrite file.
    pub doublewrite_bytes: AtomicU64,
    /// Batches through the doublewrite file.
    pub doublewrite_batches: AtomicU64,
    /// Pages of them.
    pub doublewrite_pages: AtomicU64,
    /// Syncs of data files.
    pub syncs: AtomicU64,
}

impl FlushState {
    /// Asks for a checkpoint that covers everything before `lsn`.
    pub fn request(&self, core: &Core, lsn: u64) {
        self.target.fetch_max(lsn, SeqCst);
        core.log.flusher.request();
    }

    /// Says that a checkpoint behind `lsn` would be of use: it comes some time, as if the store were idle.
    pub fn welcome(&self, lsn: u64) {
        self.welcome.fetch_max(lsn, SeqCst);
    }

    /// Pages hold everything before this LSN.
    pub fn clean(&self) -> u64 {
        self.clean.load(SeqCst)
    }

    /// Waits until pages hold everything before `lsn`, and the checkpoint says so.
    pub fn flush_to(&self, core: &Core, lsn: u64) -> StoreResult<()> {
        core.log.wait_durable(lsn)?;
        while self.clean.load(SeqCst) < lsn {
            core.log.check_health()?;
            self.waiters.lock().push(fiber::current());
            self.request(core, lsn);
            if self.clean.load(SeqCst) < lsn {
                fiber::park_until(WaitEvent::Checkpoint, time::now() + TICK);
            }
        }
        Ok(())
    }

    /// Has those of `frames` that are dirty written now and waits for it; for one caller at a time.
    pub fn write_frames(&self, core: &Core, frames: Vec<u32>) -> StoreResult<()> {
        *self.asked.lock() = frames;
        while !self.asked.lock().is_empty() {
            core.log.check_health()?;
            self.waiters.lock().push(fiber::current());
            core.log.flusher.request();
            if !self.asked.lock().is_empty() {
                fiber::park_until(WaitEvent::Checkpoint, time::now() + TICK);
            }
        }
        Ok(())
    }

    /// Ends the service and waits for it.
    pub fn stop(&self, core: &Core) {
        self.stop.store(true, SeqCst);
        while !self.stopped.load(SeqCst) {
            core.log.flusher.request();
            self.waiters.lock().push(fiber::current());
            if !self.stopped.load(SeqCst) {
                fiber::park_until(WaitEvent::Checkpoint, time::now() + TICK);
            }
        }
    }

    /// Pages that an idle store writes at each tick.
    fn idle_pages(&self) -> usize {
        match self.pages_per_second.load(Relaxed) {
            0 => IDLE_PAGES,
            pages => (pages / TICKS_PER_SECOND).max(1) as usize,
        }
    }

    /// The most pages that are written at a tick.
    fn pages_max(&self) -> usize {
        match self.pages_per_second_max.load(Relaxed) {
            0 => usize::MAX,
            pages => (pages / TICKS_PER_SECOND).max(1) as usize,
        }
    }

    fn wake_waiters(&self) {
        let mut fibers = std::mem::take(&mut *self.waiters.lock());
        if !fibers.is_empty() {
            fiber::wake_many(&mut fibers);
        }
    }
}

/// The service.
pub struct Flusher {
    core: Arc<Core>,
    state: Arc<FlushState>,
    doublewrite: Option<Doublewrite>,
    head: Head,
    batch: FlushBatch,
    unsynced: Unsynced,
    last_appended: Option<u64>,
    next_tick: Instant,
    next_checkpoint: Instant,
    /// What was last said to go wrong since the checkpoint last moved.
    last_complaint: String,
    /// Failed writes since the checkpoint last moved.
    failures: u32,
}

impl Flusher {
    /// A flusher that writes through `doublewrite`, if there is one.
    pub fn new(
        core: Arc<Core>,
        state: Arc<FlushState>,
        doublewrite: Option<Doublewrite>,
        head: Head,
    ) -> Flusher {
        Flusher {
            core,
            state,
            doublewrite,
            head,
            batch: FlushBatch::new(),
            unsynced: Unsynced::default(),
            last_appended: None,
            next_tick: time::now(),
            next_checkpoint: time::now(),
            last_complaint: String::new(),
            failures: 0,
        }
    }

    /// Runs until stopped or the store fails.
    pub fn run(mut self) {
        let me = fiber::current();
        self.core.log.flusher.serve(me);
        self.core.pool.set_cleaner(me);
        while !self.state.stop.load(SeqCst) && !self.core.log.is_failed() {
            match self.round() {
                Ok(true) => fiber::yield_now(),
                Ok(false) => self.rest(),
                Err(StoreError::LogFailed) => break,
                Err(e) => self.complain_and_wait(&e),
            }
        }
        self.core.pool.dead.store(true, SeqCst);
        self.state.stopped.store(true, SeqCst);
        self.state.wake_waiters();
        self.core.pool.dismiss_waiters();
    }

    /// Says once what goes wrong; the pages stay dirty and are tried again, if not too often.
    fn complain_and_wait(&mut self, e: &StoreError) {
        match e {
            StoreError::DiskFull { .. } => self.core.log.set_pages_stuck(true),
            _ => self.failures += 1,
        }
        if self.failures >= TRIES_MAX {
            return self.core.log.fail(format!("pages cannot be written: {e}"));
        }
        let complaint = e.to_string();
        if self.last_complaint != complaint {
            console::warning(format_args!("pages cannot be written, will retry: {complaint}"));
            self.last_complaint = complaint;
        }
        fiber::sleep(RETRY);
    }

    /// One round of work; whether there is likely more to do at once.
    fn round(&mut self) -> StoreResult<bool> {
        let mut busy = self.clean_frames()?;
        self.write_asked()?;
        busy |= self.flush_by_age()?;
        self.maybe_checkpoint()?;
        Ok(busy)
    }

    /// Sleeps until asked. A wake during I/O is spent there: so requests are looked at before sleeping.
    fn rest(&self) {
        if self.core.log.flusher.take_request() || self.core.pool.is_cleaning_asked() {
            return;
        }
        let dirty = self.core.log.with_dirty(|queue, _| !queue.is_empty());
        let now = time::now();
        // Ticks stand still while the checkpoint is held or asked for.
        let until = if dirty { self.next_tick.max(now + REST_MIN) } else { now + CHECKPOINT_INTERVAL };
        fiber::park_until(WaitEvent::Idle, until);
    }

    /// Frees frames if they run short, writing cold dirty pages where there are not enough clean ones.
    fn clean_frames(&mut self) -> StoreResult<bool> {
        if !self.core.pool.needs_cleaning() {
            return Ok(false);
        }
        let want = self.core.pool.frames_short();
        let mut dirty = Vec::with_capacity(BATCH);
        let freed = self.core.pool.sweep(&*self.core, want, Met::Gather(&mut dirty), usize::MAX);
        let met = dirty.len();
        if !self.is_urgent() {
            dirty.extend(self.core.pool.cold_dirty_ahead(BATCH - met));
        }
        if !dirty.is_empty() {
            if let Err(error) = self.flush(&dirty) {
                // Who only reads does not wait until pages can be written.
                self.core.pool.sweep(&*self.core, want, Met::Pass(usize::MAX), usize::MAX);
                return Err(error);
            }
            self.state.pages_for_frames.fetch_add(dirty.len() as u64, Relaxed);
            self.core.pool.evict(&*self.core, &dirty[..met]);
        }
        if freed == 0 && dirty.is_empty() {
            // Everything is pinned or in use for the moment.
            fiber::sleep(Duration::from_millis(1));
        }
        Ok(freed < want)
    }

    /// Writes the frames of [`FlushState::write_frames`]; asked again if it fails.
    fn write_asked(&mut self) -> StoreResult<()> {
        let frames = self.state.asked.lock().clone();
        if !frames.is_empty() {
            self.flush(&frames)?;
            self.state.asked.lock().clear();
            self.state.wake_waiters();
        }
        Ok(())
    }

    /// Up to a batch of the oldest dirty frames whose first redo lies before `limit`.
    fn oldest_frames(&self, limit: u64, max: usize) -> Vec<u32> {
        self.core.log.with_dirty(|queue, _| {
            self.drop_stale(queue);
            let current =
                |e: &&DirtyEntry| self.core.pool.frame(e.frame).first_redo.load(Relaxed) == e.first_redo;
            queue
                .iter()
                .take_while(|e| e.first_redo < limit)
                .filter(current)
                .take(max)
                .map(|e| e.frame)
                .collect()
        })
    }

    /// Removes entries of pages that were flushed since, at the front and, when they prevail, everywhere.
    fn drop_stale(&self, queue: &mut VecDeque<DirtyEntry>) {
        let pool = &self.core.pool;
        let stale = |e: &DirtyEntry| pool.frame(e.frame).first_redo.load(Relaxed) != e.first_redo;
        while queue.front().is_some_and(stale) {
            queue.pop_front();
        }
        if queue.len() > 2 * pool.len() {
            queue.retain(|e| !stale(e));
        }
    }

    /// The age that is aimed at.
    fn aim(&self) -> u64 {
        self.core.log.capacity() / 8 * 3
    }

    fn is_urgent(&self) -> bool {
        self.core.log.age() > self.aim() / 2 * 3
    }

    fn flush_by_age(&mut self) -> StoreResult<bool> {
        if self.state.hold_checkpoint.load(SeqCst) {
            // Recovery: pages leave for want of frames only.
            return Ok(false);
        }
        let log = &self.core.log;
        let (appended, age) = (log.appended(), log.age());
        let target = self.state.target.load(SeqCst);
        if target > self.state.clean.load(SeqCst) {
            let frames = self.oldest_frames(target, BATCH);
            self.flush(&frames)?;
            return Ok(!frames.is_empty());
        }
        if self.is_urgent() {
            let frames = self.oldest_frames(u64::MAX, BATCH);
            self.flush(&frames)?;
            return Ok(!frames.is_empty());
        }
        if time::now() < self.next_tick {
            return Ok(false);
        }
        self.next_tick = time::now() + TICK;
        // At the first look nothing is known of the pace.
        let growth = self.last_appended.replace(appended).map_or(0, |last| appended - last.min(appended));
        if growth == 0 {
            let pages = self.state.idle_pages().min(self.state.pages_max());
            let frames = self.oldest_frames(u64::MAX, pages);
            self.flush(&frames)?;
            return Ok(false);
        }
        let share = age as f64 / self.aim() as f64;
        // Not beyond what is dirty now, or this would go on for as long as others write.
        self.flush_before(log_position(self.core.log.checkpoint(), growth, share).min(appended))?;
        let welcome = self.state.welcome.load(SeqCst);
        if welcome > self.state.clean.load(SeqCst) {
            let frames = self.oldest_frames(welcome, self.state.idle_pages());
            self.flush(&frames)?;
        }
        Ok(false)
    }

    /// Flushes everything dirtied before `limit`, batch by batch, frames first; up to what a tick may write.
    fn flush_before(&mut self, limit: u64) -> StoreResult<()> {
        let mut left = self.state.pages_max();
        loop {
            let frames = self.oldest_frames(limit, BATCH.min(left));
            if frames.is_empty() || self.state.stop.load(SeqCst) {
                return Ok(());
            }
            self.flush(&frames)?;
            left -= frames.len();
            self.clean_frames()?;
            self.maybe_checkpoint()?;
        }
    }

    /// Writes out those of `frames` that are dirty.
    fn flush(&mut self, frames: &[u32]) -> StoreResult<()> {
        for chunk in frames.chunks(BATCH) {
            if !self.batch.copy_out(&self.core, chunk) {
                continue;
            }
            self.state.pages_open.store(self.batch.len() as u64, Relaxed);
            let written = self.write_out();
            self.state.pages_open.store(0, Relaxed);
            if let Err(e) = written {
                self.batch.give_up(&self.core);
                return Err(e);
            }
        }
        Ok(())
    }

    fn write_out(&mut self) -> StoreResult<()> {
        self.core.log.wait_durable(self.batch.newest_lsn())?;
        // The log is declared dead before an abandoned change is to be seen: none is in the batch after this.
        if self.core.log.is_failed() {
            return Err(StoreError::LogFailed);
        }
        let full = self.doublewrite.as_ref().is_some_and(|file| !file.has_room(self.batch.pages()));
        if full || self.unsynced.pages() >= UNSYNCED_MAX {
            self.sync_files()?;
        }
        let state = self.state.clone();
        match &mut self.doublewrite {
            Some(_) if !self.batch.lasts() => {}
            Some(doublewrite) => {
                let bytes = doublewrite.write(self.batch.pages())?;
                state.doublewrite_bytes.fetch_add(bytes as u64, Relaxed);
                state.doublewrite_batches.fetch_add(1, Relaxed);
                state.doublewrite_pages.fetch_add(self.batch.len() as u64, Relaxed);
            }
            None => self.batch.touch_all(),
        }
        let bytes = loop {
            match self.batch.write() {
                Ok(bytes) => break bytes,
                // Pages may be torn: nothing else is noted in the doublewrite file, which may begin anew then.
                Err(e) => self.complain_and_wait(&e),
            }
            // Who only reads does not wait until pages can be written.
            let want = self.core.pool.frames_short();
            self.core.pool.sweep(&*self.core, want, Met::Pass(usize::MAX), usize::MAX);
            if self.core.log.is_failed() || state.stop.load(SeqCst) {
                return Err(StoreError::LogFailed);
            }
        };
        self.core.log.set_pages_stuck(false);
        state.pages_written.fetch_add(self.batch.len() as u64, Relaxed);
        state.page_bytes.fetch_add(bytes, Relaxed);
        self.unsynced.note_batch(&self.batch);
        // What the page cache could not write shows at the sync alone, and the next read might not have it.
        if self.batch.is_cached() {
            self.sync_files()?;
        }
        self.batch.done();
        Ok(())
    }

    /// Makes durable what was written in place.
    fn sync_files(&mut self) -> StoreResult<()> {
        match self.unsynced.sync() {
            Ok(files) => self.state.syncs.fetch_add(files, Relaxed),
            // What a failed sync has lost, nobody knows: the store ends.
            Err(e) => {
                self.core.log.fail(e.to_string());
                return Err(StoreError::LogFailed);
            }
        };
        if let Some(doublewrite) = &mut self.doublewrite {
            doublewrite.begin_run();
        }
        Ok(())
    }

    fn maybe_checkpoint(&mut self) -> StoreResult<()> {
        if self.state.hold_checkpoint.load(SeqCst) {
            return Ok(());
        }
        let log = self.core.log.clone();
        let durable = log.durable();
        let oldest = log.with_dirty(|queue, end| {
            self.drop_stale(queue);
            queue.front().map_or(end, |e| e.first_redo)
        });
        let clean = oldest.min(durable);
        let new = clean.min(log.durable_start()).max(log.checkpoint());
        let (last, target) = (log.checkpoint(), self.state.target.load(SeqCst));
        let asked = self.state.clean.load(SeqCst) < target && clean >= target;
        let far = new - last.min(new) > log.capacity() / 32;
        let due = new > last && time::now() >= self.next_checkpoint;
        if !(asked || far || due) {
            return Ok(());
        }
        self.sync_files()?;
        self.head.advance(new)?;
        self.failures = 0;
        self.last_complaint.clear();
        log.set_checkpoint(new);
        self.state.clean.store(clean, SeqCst);
        if !log.has_room() {
            // Files behind the checkpoint may be what is missing.
            log.housekeeper.request();
        }
        self.next_checkpoint = time::now() + CHECKPOINT_INTERVAL;
        self.state.wake_waiters();
        Ok(())
    }
}

fn log_position(from: u64, growth: u64, share: f64) -> u64 {
    from + (growth as f64 * share) as u64
}

//! Who writes the log: whoever waits first for its own commit while nobody writes, or the service. While one batch is on its
//! way to the device, the next one forms in memory, which is the service's: group commit by arrival, without timers.
//!
//! A lone client so waits for its device alone, not for two changes of thread. Log that has to be durable goes around the
//! page cache in durable writes. Under relaxed durability it goes into the page cache, which costs a copy, and a sync follows
//! that keeps nobody else from writing. The two never mix: there are durable writes only while nothing is unsynced.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

use keel_runtime::fiber;
use keel_runtime::fs::{AlignedBuf, File, Sync};
use keel_runtime::time;
use keel_runtime::wait::WaitEvent;

use super::Log;
use super::segments::BLOCK;
use crate::fault::{StoreError, StoreResult};
use crate::store::Durability;

/// Bytes of one write.
const CHUNK: usize = 1 << 20;
/// How long log of relaxed durability may stay unsynced.
const LAZY_INTERVAL: Duration = Duration::from_secs(1);

/// The block-aligned end of the stream as it is on the device.
struct Tail {
    buffer: AlignedBuf,
    /// Stream position of the buffer's first byte; a whole number of blocks.
    start: u64,
    /// Bytes of the buffer that are in use: less than a block between writes.
    len: usize,
}

impl Tail {
    /// The tail at `lsn`; reads the bytes of its block that are already written.
    fn load(log: &Log, lsn: u64) -> StoreResult<Tail> {
        let mut buffer = AlignedBuf::new(CHUNK + BLOCK);
        let len = (lsn % BLOCK as u64) as usize;
        let start = lsn - len as u64;
        if len > 0 {
            log.segments.read(start, &mut buffer[..BLOCK])?;
        }
        buffer[len..].fill(0);
        Ok(Tail { buffer, start, len })
    }

    /// Writes `bytes` of the stream behind what is written: durably, or into the page cache.
    fn write(&mut self, log: &Log, mut bytes: &[u8], sync: Sync) -> StoreResult<()> {
        while !bytes.is_empty() {
            let in_segment = log.segments.bytes - self.start % log.segments.bytes;
            let space = (CHUNK.min(in_segment as usize)) - self.len;
            let (now, later) = bytes.split_at(bytes.len().min(space));
            self.buffer[self.len..self.len + now.len()].copy_from_slice(now);
            self.len += now.len();
            self.write_chunk(log, sync)?;
            bytes = later;
        }
        Ok(())
    }

    fn write_chunk(&mut self, log: &Log, sync: Sync) -> StoreResult<()> {
        let whole = self.len.next_multiple_of(BLOCK);
        self.buffer[self.len..whole].fill(0);
        let file = wait_for_segment(log, self.start, sync)?;
        let offset = self.start % log.segments.bytes;
        file.write_at(&self.buffer[..whole], offset, sync)
            .map_err(|e| StoreError::io("redo", self.start, "write", e))?;
        log.write_count.fetch_add(1, Relaxed);
        let keep_from = self.len / BLOCK * BLOCK;
        self.buffer.copy_within(keep_from..self.len, 0);
        let entered = (self.start + keep_from as u64) / log.segments.bytes > self.start / log.segments.bytes;
        self.start += keep_from as u64;
        self.len -= keep_from;
        if entered {
            log.housekeeper.request();
        }
        Ok(())
    }
}

/// The file for `lsn`; normally made ahead by the housekeeper, else made here while writers wait.
fn wait_for_segment(log: &Log, lsn: u64, sync: Sync) -> StoreResult<File> {
    if log.segments.file(lsn).is_none() {
        log.segments.provide(lsn, 0)?;
    }
    match sync {
        Sync::Data => log.segments.file(lsn).ok_or(StoreError::LogFailed),
        Sync::None => log.segments.cached(lsn),
    }
}

/// The end of the log on the device, for one fiber at a time.
pub(super) struct Device {
    tail: Tail,
    batch: Vec<u8>,
}

impl Device {
    fn at_end(log: &Log) -> StoreResult<Device> {
        Ok(Device { tail: Tail::load(log, log.durable())?, batch: Vec::with_capacity(CHUNK) })
    }

    /// Writes all that is pending; if `durable`, it is so on return. What fails is the log's end, before somebody else may write.
    pub(super) fn write_pending(&mut self, log: &Log, durable: bool) -> StoreResult<()> {
        let (end, last_start) = log.take_pending(&mut self.batch);
        let at_once = durable && log.written() == log.durable();
        let written = self.tail.write(log, &self.batch, if at_once { Sync::Data } else { Sync::None });
        written.inspect_err(|error| log.fail(error.to_string()))?;
        self.batch.clear();
        self.batch.shrink_to(2 * CHUNK);
        log.advance(end, if at_once { end } else { 0 }, last_start);
        if durable { log.sync_written(end) } else { Ok(()) }
    }
}

/// Runs until [`Log::stop`] or a failure, which it records.
pub fn run_writer(log: &Arc<Log>) {
    *log.writer.lock() = Some(fiber::current());
    if let Err(e) = write_loop(log) {
        log.fail(e.to_string());
    }
    *log.writer.lock() = None;
    log.stopped.store(true, SeqCst);
}

fn write_loop(log: &Log) -> StoreResult<()> {
    *log.device.lock() = Some(Device::at_end(log)?);
    let mut sync_at = None;
    loop {
        write_wanted(log, &mut sync_at)?;
        if log.stop.load(SeqCst) && !log.is_wanted() {
            return Ok(());
        }
        if log.durable() >= log.appended() {
            sync_at = None;
        } else if sync_at.is_none() {
            sync_at = Some(time::now() + LAZY_INTERVAL);
        }
        sleep(log, sync_at.unwrap_or(time::now() + LAZY_INTERVAL));
    }
}

/// Writes and syncs while somebody waits for it, or it is time.
fn write_wanted(log: &Log, sync_at: &mut Option<time::Instant>) -> StoreResult<()> {
    let is_due = |at: &Option<time::Instant>| at.is_some_and(|at| time::now() >= at);
    while log.is_wanted() || is_due(sync_at) {
        let mut device = log.device.lock_for(WaitEvent::LogWrite);
        if log.is_failed() {
            return Err(StoreError::LogFailed);
        }
        let due = is_due(sync_at);
        // Another fiber may have written meanwhile what was asked for.
        if !due && !log.is_wanted() {
            return Ok(());
        }
        let sync = due || log.wanted_durable.load(SeqCst) > log.durable();
        let relaxed = log.durability() != Durability::Commit;
        device.as_mut().expect("since the start").write_pending(log, sync && !relaxed)?;
        drop(device);
        if sync && relaxed {
            log.sync_written(log.written())?;
        }
        if sync {
            *sync_at = None;
        }
    }
    Ok(())
}

fn sleep(log: &Log, until: time::Instant) {
    log.writer_sleeps.store(true, SeqCst);
    let asked = log.is_wanted() || log.stop.load(SeqCst);
    if !asked {
        let event = if log.durability() == Durability::Commit { WaitEvent::Idle } else { WaitEvent::Sleep };
        fiber::park_until(event, until);
    }
    log.writer_sleeps.store(false, SeqCst);
}

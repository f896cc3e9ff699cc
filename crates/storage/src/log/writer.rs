//! The service that writes the log. While one batch is on its way to the device, the next one forms in memory: group
//! commit by arrival, without timers.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

use keel_runtime::fiber;
use keel_runtime::fs::{AlignedBuf, Sync};
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

    /// Writes `bytes` of the stream behind what is written.
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
        let file = wait_for_segment(log, self.start)?;
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
fn wait_for_segment(log: &Log, lsn: u64) -> StoreResult<keel_runtime::fs::File> {
    if log.segments.file(lsn).is_none() {
        log.segments.provide(lsn, 0)?;
    }
    log.segments.file(lsn).ok_or(StoreError::LogFailed)
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
    let mut tail = Tail::load(log, log.durable())?;
    let mut batch: Vec<u8> = Vec::with_capacity(CHUNK);
    let mut sync_at = None;
    loop {
        let due = sync_at.is_some_and(|t| time::now() >= t);
        let sync = due || log.wanted_durable.load(SeqCst) > log.durable();
        let write = sync || log.wanted_written.load(SeqCst) > log.written.load(SeqCst);
        if !write {
            if log.stop.load(SeqCst) {
                return Ok(());
            }
            if sync_at.is_none() && log.durable() < log.appended() {
                sync_at = Some(time::now() + LAZY_INTERVAL);
            }
            sleep(log, sync_at.unwrap_or(time::now() + LAZY_INTERVAL));
            continue;
        }
        let (end, last_start) = take_batch(log, &mut batch);
        write_batch(log, &mut tail, &batch, sync)?;
        log.advance(end, if sync { end } else { 0 }, last_start);
        batch.clear();
        batch.shrink_to(2 * CHUNK);
        sync_at = match sync {
            true => None,
            false => sync_at.or_else(|| Some(time::now() + LAZY_INTERVAL)),
        };
    }
}

/// Writes one batch; unsynced writes of before are covered by an explicit sync.
fn write_batch(log: &Log, tail: &mut Tail, batch: &[u8], sync: bool) -> StoreResult<()> {
    let behind = log.written.load(SeqCst) > log.durable();
    if !sync {
        return tail.write(log, batch, Sync::None);
    }
    let from = log.durable();
    tail.write(log, batch, Sync::Data)?;
    if !behind {
        return Ok(());
    }
    let mut at = from;
    while at < log.written.load(SeqCst) {
        let file = log.segments.file(at).ok_or(StoreError::LogFailed)?;
        file.sync_data().map_err(|e| StoreError::io("redo", at, "sync", e))?;
        at = (at / log.segments.bytes + 1) * log.segments.bytes;
    }
    Ok(())
}

/// Takes what is pending; the writers get the emptied buffer of the batch before. Gives its end and the start of its last group.
fn take_batch(log: &Log, batch: &mut Vec<u8>) -> (u64, u64) {
    let mut a = log.append.lock();
    std::mem::swap(&mut a.pending, batch);
    a.pending_start += batch.len() as u64;
    (a.pending_start, a.last_start)
}

fn sleep(log: &Log, until: time::Instant) {
    log.writer_sleeps.store(true, SeqCst);
    let asked = log.wanted_durable.load(SeqCst) > log.durable()
        || log.wanted_written.load(SeqCst) > log.written.load(SeqCst)
        || log.stop.load(SeqCst);
    if !asked {
        let event = if log.durability() == Durability::Commit { WaitEvent::Idle } else { WaitEvent::Sleep };
        fiber::park_until(event, until);
    }
    log.writer_sleeps.store(false, SeqCst);
}

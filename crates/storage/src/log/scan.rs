//! Reads the log at recovery: every whole group from the checkpoint on, until the chain of checksums breaks.

use std::sync::Arc;

use keel_runtime::fiber;
use keel_runtime::fs::AlignedBuf;
use keel_runtime::sync::{Receiver, Sender, channel};

use super::record::{GROUP_HEAD, check_group, group_len};
use super::segments::{BLOCK, Segments};
use crate::core::Core;
use crate::fault::{StoreError, StoreResult};
use crate::layout::PAGE;

const WINDOW: usize = 1 << 20;
/// Bytes that are read together ahead of the scan, less beside a small pool, and how often.
const AHEAD: usize = 8 << 20;
const AHEAD_MIN: usize = 1 << 20;
const AHEAD_SHARE: usize = 64;
const AHEAD_COUNT: usize = 2;

/// Where the bytes of the log come from.
enum Source<'s> {
    Files(&'s Segments, AlignedBuf),
    Ahead(Ahead),
}

/// Blocks that a service reads ahead.
pub struct Ahead {
    blocks: Receiver<StoreResult<(AlignedBuf, usize)>>,
    /// Takes buffers back.
    empty: Sender<AlignedBuf>,
    /// Bytes of a block.
    bytes: usize,
}

/// Starts reading the log from the block of `lsn` on, until nobody wants more.
pub fn read_ahead(core: &Arc<Core>, lsn: u64) -> Ahead {
    let (full, blocks) = channel(AHEAD_COUNT);
    let (empty, again) = channel(AHEAD_COUNT + 1);
    let share = core.pool.len() * PAGE / AHEAD_SHARE;
    let bytes = (share & !(AHEAD_MIN - 1)).clamp(AHEAD_MIN, AHEAD).min(core.log.segments.bytes as usize);
    let core = core.clone();
    fiber::spawn_service("redo reader", move || {
        let mut at = lsn / BLOCK as u64 * BLOCK as u64;
        loop {
            let mut buffer = again.try_recv().unwrap_or_else(|| AlignedBuf::new(bytes));
            let read = core.log.segments.read(at, &mut buffer);
            let got = *read.as_ref().unwrap_or(&0);
            at += got as u64;
            let last = got < bytes;
            if full.send(read.map(|got| (buffer, got))).is_err() || last {
                return;
            }
        }
    });
    Ahead { blocks, empty, bytes }
}

/// A reader of groups.
pub struct Scan<'s> {
    source: Source<'s>,
    /// Bytes of the stream from `start` on.
    bytes: Vec<u8>,
    start: u64,
    /// Offset in `bytes` of the next group.
    at: usize,
    /// Stream position up to which blocks were read.
    loaded: u64,
    last_crc: Option<u32>,
    last_start: u64,
    /// What the next batch will say: before it there were groups.
    failure: Option<StoreError>,
}

/// Groups read ahead, one behind the other.
pub struct Batch {
    bytes: Vec<u8>,
    /// Stream position of the first byte.
    start: u64,
    /// Offset of each group, and the end of the last.
    bounds: Vec<usize>,
}

impl Batch {
    /// Number of groups.
    pub fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Where the first group begins in the stream.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The memory of the groups.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// All groups.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Start in the stream and bytes of a group.
    pub fn group(&self, index: usize) -> (u64, &[u8]) {
        let (from, to) = (self.bounds[index], self.bounds[index + 1]);
        (self.start + from as u64, &self.bytes[from..to])
    }
}

impl<'s> Scan<'s> {
    /// Starts at `lsn`, a group's first byte (or the end of the stream).
    pub fn new(segments: &'s Segments, lsn: u64) -> Scan<'s> {
        Self::from(Source::Files(segments, AlignedBuf::new(WINDOW)), lsn)
    }

    /// The same from blocks that [`read_ahead`] reads from there on.
    pub fn ahead(lsn: u64, ahead: Ahead) -> Scan<'static> {
        Scan::from(Source::Ahead(ahead), lsn)
    }

    fn from(source: Source<'s>, lsn: u64) -> Scan<'s> {
        let start = lsn / BLOCK as u64 * BLOCK as u64;
        Scan {
            source,
            bytes: Vec::new(),
            start,
            at: (lsn - start) as usize,
            loaded: start,
            last_crc: None,
            last_start: lsn,
            failure: None,
        }
    }

    /// Position of the next group: the end of the stream once [`Scan::batch`] gave nothing.
    pub fn position(&self) -> u64 {
        self.start + self.at as u64
    }

    /// Checksum of the last group.
    pub fn last_crc(&self) -> u32 {
        self.last_crc.unwrap_or(0)
    }

    /// Start of the last group.
    pub fn last_start(&self) -> u64 {
        self.last_start
    }

    /// Bytes that are loaded together.
    fn block(&self) -> usize {
        match &self.source {
            Source::Files(_, read) => read.len(),
            Source::Ahead(ahead) => ahead.bytes,
        }
    }

    /// Loads more; false at the end of the files.
    fn load(&mut self) -> StoreResult<bool> {
        let got = match &mut self.source {
            Source::Files(segments, read) => {
                let got = segments.read(self.loaded, read)?;
                self.bytes.extend_from_slice(&read[..got]);
                got
            }
            Source::Ahead(ahead) => {
                let Some(block) = ahead.blocks.recv() else { return Ok(false) };
                let (buffer, got) = block?;
                self.bytes.extend_from_slice(&buffer[..got]);
                // Where nobody waits for it, it is not needed.
                let _ = ahead.empty.try_send(buffer);
                got
            }
        };
        self.loaded += got as u64;
        Ok(got > 0)
    }

    /// Makes `len` bytes at the position available.
    fn need(&mut self, len: usize) -> StoreResult<bool> {
        while self.bytes.len() < self.at + len {
            if !self.load()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes past one group; false at the end of the stream.
    fn pass(&mut self) -> StoreResult<bool> {
        if !self.need(GROUP_HEAD)? {
            return Ok(false);
        }
        let Some(len) = group_len(&self.bytes[self.at..]) else { return Ok(false) };
        if !self.need(len)? {
            return Ok(false);
        }
        let lsn = self.position();
        let Some((crc, before)) = check_group(&self.bytes[self.at..self.at + len], lsn) else {
            return Ok(false);
        };
        if self.last_crc.is_some_and(|last| last != before) {
            return Ok(false);
        }
        self.last_crc = Some(crc);
        self.last_start = lsn;
        self.at += len;
        Ok(true)
    }

    /// The next groups, up to about `bytes_max`; none at the end of the stream. `spare` is memory to go on with.
    pub fn batch(&mut self, bytes_max: usize, mut spare: Vec<u8>) -> StoreResult<Batch> {
        // To what is left of a block comes as much as was asked for, and another block. Nothing may grow later: all of the
        // memory would be copied, also what nobody has written, and so be touched.
        let most = bytes_max + 2 * self.block();
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(most);
        }
        let skipped = self.at;
        let mut bounds = vec![0];
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        while self.at - skipped < bytes_max {
            match self.pass() {
                Ok(true) => bounds.push(self.at - skipped),
                Ok(false) => break,
                Err(error) if bounds.len() > 1 => {
                    self.failure = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let end = self.at.min(self.bytes.len());
        spare.clear();
        if spare.capacity() < most {
            spare = Vec::with_capacity(most);
        }
        spare.extend_from_slice(&self.bytes[end..]);
        let mut bytes = std::mem::replace(&mut self.bytes, spare);
        bytes.truncate(end);
        bytes.drain(..skipped.min(bytes.len()));
        let start = self.start + skipped as u64;
        self.start += self.at as u64;
        self.at = 0;
        Ok(Batch { bytes, start, bounds })
    }
}

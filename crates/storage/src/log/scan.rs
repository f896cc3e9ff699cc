//! Reads the log at recovery: every whole group from the checkpoint on, until the chain of checksums breaks.

use keel_runtime::fs::AlignedBuf;

use super::record::{GROUP_HEAD, check_group, group_len};
use super::segments::{BLOCK, Segments};
use crate::fault::StoreResult;

const WINDOW: usize = 1 << 20;

/// A reader of groups.
pub struct Scan<'s> {
    segments: &'s Segments,
    read: AlignedBuf,
    /// Bytes of the stream from `start` on.
    bytes: Vec<u8>,
    start: u64,
    /// Offset in `bytes` of the next group.
    at: usize,
    /// Stream position up to which blocks were read.
    loaded: u64,
    last_crc: Option<u32>,
    last_start: u64,
}

/// Groups read ahead: each with its start in the stream and its bytes.
pub type Batch = Vec<(u64, Vec<u8>)>;

impl<'s> Scan<'s> {
    /// Starts at `lsn`, a group's first byte (or the end of the stream).
    pub fn new(segments: &'s Segments, lsn: u64) -> Scan<'s> {
        let start = lsn / BLOCK as u64 * BLOCK as u64;
        Scan {
            segments,
            read: AlignedBuf::new(WINDOW),
            bytes: Vec::new(),
            start,
            at: (lsn - start) as usize,
            loaded: start,
            last_crc: None,
            last_start: lsn,
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

    /// Loads one more window; false at the end of the files.
    fn load(&mut self) -> StoreResult<bool> {
        let got = self.segments.read(self.loaded, &mut self.read)?;
        self.bytes.extend_from_slice(&self.read[..got]);
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

    fn next(&mut self) -> StoreResult<Option<(u64, Vec<u8>)>> {
        if !self.need(GROUP_HEAD)? {
            return Ok(None);
        }
        let Some(len) = group_len(&self.bytes[self.at..]) else { return Ok(None) };
        if !self.need(len)? {
            return Ok(None);
        }
        let lsn = self.position();
        let group = &self.bytes[self.at..self.at + len];
        let Some((crc, before)) = check_group(group, lsn) else { return Ok(None) };
        if self.last_crc.is_some_and(|last| last != before) {
            return Ok(None);
        }
        let group = group.to_vec();
        self.last_crc = Some(crc);
        self.last_start = lsn;
        self.at += len;
        Ok(Some((lsn, group)))
    }

    /// The next groups, up to about `bytes_max`; empty at the end of the stream.
    pub fn batch(&mut self, bytes_max: usize) -> StoreResult<Batch> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while bytes < bytes_max {
            let Some((lsn, group)) = self.next()? else { break };
            bytes += group.len();
            batch.push((lsn, group));
        }
        let done = self.at / BLOCK * BLOCK;
        self.bytes.drain(..done);
        self.start += done as u64;
        self.at -= done;
        Ok(batch)
    }
}

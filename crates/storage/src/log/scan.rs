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

    /// Start in the stream and bytes of a group.
    pub fn group(&self, index: usize) -> (u64, &[u8]) {
        let (from, to) = (self.bounds[index], self.bounds[index + 1]);
        (self.start + from as u64, &self.bytes[from..to])
    }
}

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

    /// The next groups, up to about `bytes_max`; none at the end of the stream.
    pub fn batch(&mut self, bytes_max: usize) -> StoreResult<Batch> {
        let skipped = self.at;
        self.bytes.reserve(bytes_max + WINDOW);
        let mut bounds = vec![0];
        while self.at - skipped < bytes_max && self.pass()? {
            bounds.push(self.at - skipped);
        }
        let rest = self.bytes.split_off(self.at.min(self.bytes.len()));
        let mut bytes = std::mem::replace(&mut self.bytes, rest);
        bytes.drain(..skipped.min(bytes.len()));
        let start = self.start + skipped as u64;
        self.start += self.at as u64;
        self.at = 0;
        Ok(Batch { bytes, start, bounds })
    }
}

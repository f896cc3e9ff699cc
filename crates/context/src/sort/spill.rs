//! Sorted runs in temporary files, and their merge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use keel_base::SqlResult;

use crate::place::Place;
use crate::temp_file::TempFile;

/// Bytes of a list's rows written and read at once.
pub(super) const BUFFER_BYTES: usize = 64 << 10;
/// Bytes of a run written at once, by how much memory there is.
const WRITE_BYTES: std::ops::RangeInclusive<usize> = 16 << 10..=256 << 10;
/// Bytes that each reader of a merge reads at once.
const READ_BYTES: std::ops::RangeInclusive<usize> = READ_BYTES_MIN..=256 << 10;
/// The least of that.
pub(super) const READ_BYTES_MIN: usize = 4 << 10;
/// Octets of a record's two lengths.
const HEADER_BYTES: usize = 8;

/// Appends a record.
pub(super) fn append_record(out: &mut Vec<u8>, key: &[u8], payload: &[u8]) {
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(payload);
}

/// Appends a record without a key, whose payload `fill` appends.
pub(super) fn append_row(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    fill(out);
    let length = (out.len() - start - HEADER_BYTES) as u32;
    out[start + 4..start + HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
}

/// Where key and payload of the record at an offset stand.
pub(super) fn record(bytes: &[u8], at: usize) -> (Range<usize>, Range<usize>) {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four octets")) as usize;
    let start = at + HEADER_BYTES;
    let middle = start + number(at);
    (start..middle, middle..middle + number(at + 4))
}

/// Records on disk, one after the other.
pub(super) struct Run {
    file: TempFile,
    /// How often its records were merged.
    pub merges: u32,
}

impl Run {
    /// A run without records.
    pub fn create(host: &dyn Place) -> SqlResult<Run> {
        Ok(Run { file: TempFile::create(host)?, merges: 0 })
    }

    /// Its octets.
    pub fn len(&self) -> u64 {
        self.file.byte_count()
    }

    /// Fills a buffer from an offset.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> SqlResult<()> {
        self.file.read(buffer, offset)
    }

    /// Writes the buffer's records behind the others, and empties it.
    pub fn append(&mut self, buffer: &mut Vec<u8>) -> SqlResult<()> {
        self.file.append(buffer)?;
        buffer.clear();
        Ok(())
    }

    /// Writes records that are in order; a sort has `bytes` of memory.
    pub fn write<'a>(
        host: &dyn Place,
        rows: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        bytes: usize,
    ) -> SqlResult<Run> {
        let mut run = Run::create(host)?;
        let mut buffer = WriteBuffer::new(bytes);
        for (key, payload) in rows {
            buffer.push(&mut run, key, payload)?;
        }
        buffer.end(&mut run)?;
        Ok(run)
    }

    /// The first `most` records of several runs as one, read through `bytes` of buffers.
    pub fn merged(host: &dyn Place, runs: Vec<Run>, bytes: usize, most: usize) -> SqlResult<Run> {
        let merges = runs.iter().map(|run| run.merges).max().unwrap_or(0) + 1;
        let mut run = Run { merges, ..Run::create(host)? };
        let mut merge = Merge::new(runs, bytes)?;
        let mut buffer = WriteBuffer::new(bytes);
        let mut left = most;
        while left > 0
            && let Some((key, payload)) = merge.next()?
        {
            left -= 1;
            buffer.push(&mut run, key, payload)?;
        }
        buffer.end(&mut run)?;
        Ok(run)
    }
}

/// Records on their way to a run.
struct WriteBuffer {
    bytes: Vec<u8>,
    /// Octets written at once.
    length: usize,
}

impl WriteBuffer {
    /// For a sort that has `memory` octets.
    fn new(memory: usize) -> WriteBuffer {
        let length = (memory / 8).clamp(*WRITE_BYTES.start(), *WRITE_BYTES.end());
        WriteBuffer { bytes: Vec::with_capacity(length), length }
    }

    fn push(&mut self, run: &mut Run, key: &[u8], payload: &[u8]) -> SqlResult<()> {
        if self.bytes.len() + HEADER_BYTES + key.len() + payload.len() > self.length {
            run.append(&mut self.bytes)?;
        }
        append_record(&mut self.bytes, key, payload);
        Ok(())
    }

    fn end(mut self, run: &mut Run) -> SqlResult<()> {
        run.append(&mut self.bytes)
    }
}

/// Reads records from start to end: those of a run, or of memory.
pub(super) struct Reader {
    run: Option<Run>,
    /// Bytes read from the run at once.
    read_bytes: usize,
    /// File offset behind the buffer.
    offset: u64,
    buffer: Vec<u8>,
    /// Where the current record's key begins.
    at: usize,
    key_len: usize,
    payload_len: usize,
}

impl Reader {
    /// A reader of a run.
    pub fn of_run(run: Run, read_bytes: usize) -> Reader {
        Reader { run: Some(run), read_bytes, ..Reader::of_memory(Vec::new()) }
    }

    /// A reader of records in memory.
    pub fn of_memory(buffer: Vec<u8>) -> Reader {
        Reader { run: None, read_bytes: 0, offset: 0, buffer, at: 0, key_len: 0, payload_len: 0 }
    }

    fn key(&self) -> &[u8] {
        &self.buffer[self.at..self.at + self.key_len]
    }

    /// The current record's payload.
    pub fn payload(&self) -> &[u8] {
        let start = self.at + self.key_len;
        &self.buffer[start..start + self.payload_len]
    }

    /// Moves to the next record; false at the end.
    pub fn advance(&mut self) -> SqlResult<bool> {
        let start = self.at + self.key_len + self.payload_len;
        if !self.have(start, HEADER_BYTES)? {
            return Ok(false);
        }
        let (key, payload) = record(&self.buffer, self.at);
        self.have(key.start, payload.end - key.start)?;
        (self.key_len, self.payload_len) = (key.len(), payload.len());
        Ok(true)
    }

    /// Makes sure that `count` octets from `start` are in the buffer, and moves `at` there; false at the end.
    fn have(&mut self, start: usize, count: usize) -> SqlResult<bool> {
        self.at = start;
        (self.key_len, self.payload_len) = (0, 0);
        if start + count <= self.buffer.len() {
            return Ok(true);
        }
        let Some(run) = &self.run else { return Ok(false) };
        self.buffer.drain(..start);
        self.at = 0;
        while self.buffer.len() < count {
            let left = (run.len() - self.offset).min(self.read_bytes.max(count) as u64) as usize;
            if left == 0 {
                return Ok(false);
            }
            let filled = self.buffer.len();
            self.buffer.resize(filled + left, 0);
            run.file.read(&mut self.buffer[filled..], self.offset)?;
            self.offset += left as u64;
        }
        Ok(true)
    }

    /// Starts again.
    pub fn restart(&mut self) {
        if self.run.is_some() {
            self.offset = 0;
            self.buffer.clear();
        }
        (self.at, self.key_len, self.payload_len) = (0, 0, 0);
    }
}

/// Merges runs: the least key first, equal keys in the order of their runs.
pub(super) struct Merge {
    readers: Vec<Reader>,
    /// Keys of the readers' current records.
    heap: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    /// The reader whose record was given last.
    given: Option<usize>,
}

impl Merge {
    /// Opens all runs; `bytes` of buffers are for all of them.
    pub fn new(runs: Vec<Run>, bytes: usize) -> SqlResult<Merge> {
        let each = (bytes / runs.len().max(1)).clamp(*READ_BYTES.start(), *READ_BYTES.end());
        let readers = runs.into_iter().map(|run| Reader::of_run(run, each)).collect();
        let mut merge = Merge { readers, heap: BinaryHeap::new(), given: None };
        for index in 0..merge.readers.len() {
            merge.advance(index)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, index: usize) -> SqlResult<()> {
        let reader = &mut self.readers[index];
        if reader.advance()? {
            self.heap.push(Reverse((reader.key().to_vec(), index)));
        }
        Ok(())
    }

    /// The next record's key and payload.
    pub fn next(&mut self) -> SqlResult<Option<(&[u8], &[u8])>> {
        if let Some(index) = self.given.take() {
            self.advance(index)?;
        }
        let Some(Reverse((_, index))) = self.heap.pop() else { return Ok(None) };
        self.given = Some(index);
        let reader = &self.readers[index];
        Ok(Some((reader.key(), reader.payload())))
    }
}

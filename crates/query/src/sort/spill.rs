//! Sorted runs in temporary files, and their merge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::path::PathBuf;

use keel_base::{SqlError, SqlResult, errors};
use keel_storage::runtime::fs::{self, File, OpenOptions, Sync};
use keel_storage::runtime::rand;
use keel_storage::runtime::wait::WaitEvent;

use crate::host::Host;

/// Bytes written or read at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Octets of a record's two lengths.
const HEADER_BYTES: usize = 8;

/// A temporary file without a name.
pub(crate) struct TempFile {
    file: File,
    path: PathBuf,
}

impl TempFile {
    /// A new, empty one.
    pub fn create(host: &dyn Host) -> SqlResult<TempFile> {
        let folder = host.temporary_directory();
        let path = folder.join(format!("keel-sort-{:016x}", rand::u64()));
        let open = || -> io::Result<File> {
            fs::create_dir_all(&folder)?;
            let options = OpenOptions { create: true, truncate: true, ..OpenOptions::writing() };
            let file = File::open(&path, &options)?.with_event(WaitEvent::TempFile);
            fs::remove_file(&path)?;
            Ok(file)
        };
        let file = open().map_err(|e| write_error(&path, &e))?;
        Ok(TempFile { file, path })
    }

    /// Writes at an offset.
    pub fn write(&self, bytes: &[u8], offset: u64) -> SqlResult<()> {
        self.file.write_at(bytes, offset, Sync::None).map_err(|e| write_error(&self.path, &e))
    }

    /// Reads up to a whole buffer; gives how much there was.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> SqlResult<usize> {
        self.file.read_some_at(buffer, offset).map_err(|e| write_error(&self.path, &e))
    }
}

#[cold]
fn write_error(path: &std::path::Path, error: &io::Error) -> SqlError {
    if error.kind() == io::ErrorKind::StorageFull {
        return errors::disk_full(path.display(), "No space left on device");
    }
    errors::error_on_write(path.display(), error.raw_os_error().unwrap_or(0), error)
}

/// A sorted run on disk.
pub(super) struct Run {
    file: TempFile,
    length: u64,
}

impl Run {
    /// Writes records that are in order.
    pub fn write<'a>(host: &dyn Host, rows: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> SqlResult<Run> {
        let file = TempFile::create(host)?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES * 2);
        let mut length = 0;
        for (key, payload) in rows {
            buffer.extend_from_slice(&(key.len() as u32).to_le_bytes());
            buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            buffer.extend_from_slice(key);
            buffer.extend_from_slice(payload);
            if buffer.len() >= BUFFER_BYTES {
                file.write(&buffer, length)?;
                length += buffer.len() as u64;
                buffer.clear();
            }
        }
        file.write(&buffer, length)?;
        length += buffer.len() as u64;
        Ok(Run { file, length })
    }
}

/// Reads a run from start to end.
struct Reader {
    run: Run,
    /// File offset behind the buffer.
    offset: u64,
    buffer: Vec<u8>,
    /// Where the current record's key begins.
    at: usize,
    key_len: usize,
    payload_len: usize,
}

impl Reader {
    fn new(run: Run) -> Reader {
        Reader { run, offset: 0, buffer: Vec::new(), at: 0, key_len: 0, payload_len: 0 }
    }

    fn key(&self) -> &[u8] {
        &self.buffer[self.at..self.at + self.key_len]
    }

    fn payload(&self) -> &[u8] {
        let start = self.at + self.key_len;
        &self.buffer[start..start + self.payload_len]
    }

    /// Moves to the next record; false at the end.
    fn advance(&mut self) -> SqlResult<bool> {
        let start = self.at + self.key_len + self.payload_len;
        if !self.have(start, HEADER_BYTES)? {
            return Ok(false);
        }
        let lengths = &self.buffer[self.at..self.at + HEADER_BYTES];
        let number = |b: &[u8]| u32::from_le_bytes(b.try_into().expect("four octets")) as usize;
        let (key_len, payload_len) = (number(&lengths[..4]), number(&lengths[4..]));
        let start = self.at + HEADER_BYTES;
        self.have(start, key_len + payload_len)?;
        (self.key_len, self.payload_len) = (key_len, payload_len);
        Ok(true)
    }

    /// Makes sure that `count` octets from `start` are in the buffer, and moves `at` there; false at the end of the run.
    fn have(&mut self, start: usize, count: usize) -> SqlResult<bool> {
        self.at = start;
        (self.key_len, self.payload_len) = (0, 0);
        if start + count <= self.buffer.len() {
            return Ok(true);
        }
        self.buffer.drain(..start);
        self.at = 0;
        while self.buffer.len() < count {
            let left = (self.run.length - self.offset).min(BUFFER_BYTES.max(count) as u64) as usize;
            if left == 0 {
                return Ok(false);
            }
            let filled = self.buffer.len();
            self.buffer.resize(filled + left, 0);
            let read = self.run.file.read(&mut self.buffer[filled..], self.offset)?;
            self.buffer.truncate(filled + read);
            self.offset += read as u64;
            if read == 0 {
                return Ok(false);
            }
        }
        Ok(true)
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
    /// Opens all runs.
    pub fn new(runs: Vec<Run>) -> SqlResult<Merge> {
        let mut merge = Merge {
            readers: runs.into_iter().map(Reader::new).collect(),
            heap: BinaryHeap::new(),
            given: None,
        };
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

/// Rows in a temporary file, in the order in which they were written.
pub(crate) struct RowFile {
    file: TempFile,
    buffer: Vec<u8>,
    written: u64,
    count: u64,
}

impl RowFile {
    /// A file without rows.
    pub fn create(host: &dyn Host) -> SqlResult<RowFile> {
        Ok(RowFile { file: TempFile::create(host)?, buffer: Vec::new(), written: 0, count: 0 })
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a row that `fill` appends.
    pub fn push(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> SqlResult<()> {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; HEADER_BYTES]);
        fill(&mut self.buffer);
        let length = (self.buffer.len() - start - HEADER_BYTES) as u32;
        self.buffer[start + 4..start + HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
        self.count += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> SqlResult<()> {
        self.file.write(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the writing and reads from the start.
    pub fn rewind(mut self) -> SqlResult<RowReader> {
        self.flush()?;
        Ok(RowReader { reader: Reader::new(Run { file: self.file, length: self.written }) })
    }
}

/// Reads the rows of a [`RowFile`].
pub(crate) struct RowReader {
    reader: Reader,
}

impl RowReader {
    /// The next row.
    pub fn next(&mut self) -> SqlResult<Option<&[u8]>> {
        if self.reader.advance()? { Ok(Some(self.reader.payload())) } else { Ok(None) }
    }

    /// Starts again.
    pub fn restart(&mut self) {
        let reader = &mut self.reader;
        reader.offset = 0;
        reader.buffer.clear();
        (reader.at, reader.key_len, reader.payload_len) = (0, 0, 0);
    }
}

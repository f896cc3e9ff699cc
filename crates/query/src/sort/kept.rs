//! Rows kept in the order in which they came: in memory up to a bound, then in a file.

use keel_base::SqlResult;

use super::{RowFile, RowReader};
use crate::host::Host;

/// Octets before each row in memory: its length.
const HEADER_BYTES: usize = 4;

/// Rows that were written once and are read from the start, as often as wanted.
pub struct KeptRows {
    bytes: Vec<u8>,
    bytes_max: usize,
    at: usize,
    file: Option<RowFile>,
    reader: Option<RowReader>,
}

impl KeptRows {
    /// No rows; `bytes_max` of them stay in memory.
    pub fn new(bytes_max: u64) -> KeptRows {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        KeptRows { bytes: Vec::new(), bytes_max, at: 0, file: None, reader: None }
    }

    /// Adds a row that `fill` appends.
    pub fn push(&mut self, host: &dyn Host, fill: impl FnOnce(&mut Vec<u8>)) -> SqlResult<()> {
        if let Some(file) = &mut self.file {
            return file.push(fill);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEADER_BYTES]);
        fill(&mut self.bytes);
        let length = (self.bytes.len() - start - HEADER_BYTES) as u32;
        self.bytes[start..start + HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
        if self.bytes.len() > self.bytes_max { self.spill(host) } else { Ok(()) }
    }

    fn spill(&mut self, host: &dyn Host) -> SqlResult<()> {
        let mut file = RowFile::create(host)?;
        let mut at = 0;
        while let Some((row, next)) = record(&self.bytes, at) {
            file.push(|out| out.extend_from_slice(row))?;
            at = next;
        }
        self.bytes = Vec::new();
        self.file = Some(file);
        Ok(())
    }

    /// Ends the writing, or begins to read anew.
    pub fn rewind(&mut self) -> SqlResult<()> {
        self.at = 0;
        if let Some(file) = self.file.take() {
            self.reader = Some(file.rewind()?);
        } else if let Some(reader) = &mut self.reader {
            reader.restart();
        }
        Ok(())
    }

    /// The next row; to be called after [`KeptRows::rewind`].
    pub fn next_row(&mut self) -> SqlResult<Option<&[u8]>> {
        if let Some(reader) = &mut self.reader {
            return reader.next();
        }
        Ok(record(&self.bytes, self.at).map(|(row, next)| {
            self.at = next;
            row
        }))
    }
}

/// The record at an offset, and the offset of the next.
fn record(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let head = bytes.get(at..at + HEADER_BYTES)?;
    let length = u32::from_le_bytes(head.try_into().expect("four octets")) as usize;
    let start = at + HEADER_BYTES;
    Some((&bytes[start..start + length], start + length))
}

//! Rows kept in the order in which they came: in memory up to a bound, then in a file.

use std::sync::Arc;

use keel_base::SqlResult;

use super::{RowFile, RowReader};
use crate::host::Host;
use crate::memory::Allowance;

/// Rows being kept. A record in memory is `[length u32][row]`.
pub(crate) struct RowList {
    bytes: Vec<u8>,
    file: Option<RowFile>,
    memory: Allowance,
}

/// Kept rows being read.
pub(crate) enum RowCursor {
    /// From memory, and where the next one stands.
    Memory { bytes: Vec<u8>, at: usize, _memory: Allowance },
    /// From a file.
    File(RowReader),
}

impl RowList {
    /// A list without rows for `bytes_max` of memory.
    pub fn new(bytes_max: u64, host: Arc<dyn Host>) -> RowList {
        RowList { bytes: Vec::new(), file: None, memory: Allowance::new(bytes_max, host) }
    }

    /// Adds a row that `fill` appends.
    pub fn push(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> SqlResult<()> {
        if let Some(file) = &mut self.file {
            return file.push(fill);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        fill(&mut self.bytes);
        let length = (self.bytes.len() - start - 4) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        if !self.memory.allows(self.bytes.len()) {
            let mut file = RowFile::create(self.memory.host())?;
            let mut at = 0;
            while let Some((row, next)) = record(&self.bytes, at) {
                file.push(|out| out.extend_from_slice(row))?;
                at = next;
            }
            self.bytes = Vec::new();
            self.file = Some(file);
        }
        Ok(())
    }

    /// Ends the keeping; reads from the first row.
    pub fn finish(self) -> SqlResult<RowCursor> {
        Ok(match self.file {
            Some(file) => RowCursor::File(file.rewind()?),
            None => RowCursor::Memory { bytes: self.bytes, at: 0, _memory: self.memory },
        })
    }
}

/// The record at an offset, and the offset of the next.
fn record(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let head = bytes.get(at..at + 4)?;
    let length = u32::from_le_bytes(head.try_into().expect("four octets")) as usize;
    Some((&bytes[at + 4..at + 4 + length], at + 4 + length))
}

impl RowCursor {
    /// The next row.
    pub fn next(&mut self) -> SqlResult<Option<&[u8]>> {
        match self {
            RowCursor::File(reader) => reader.next(),
            RowCursor::Memory { bytes, at, .. } => Ok(record(bytes, *at).map(|(row, next)| {
                *at = next;
                row
            })),
        }
    }

    /// Starts again.
    pub fn restart(&mut self) {
        match self {
            RowCursor::File(reader) => reader.restart(),
            RowCursor::Memory { at, .. } => *at = 0,
        }
    }
}

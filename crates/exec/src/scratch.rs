//! Buffers that the statements of a session reuse, so that the point path allocates nothing.

use keel_value::Value;

use crate::catalog::row_entries::EntryBuffers;

/// Buffers reused from statement to statement.
#[derive(Default)]
pub struct Scratch {
    /// An encoded key.
    pub key: Vec<u8>,
    /// A row.
    pub row: Vec<u8>,
    /// What writing rows needs.
    pub write: WriteScratch,
}

/// Buffers of writing statements, kept by the session from one to the next.
#[derive(Default)]
pub struct WriteScratch {
    /// Keys and entries.
    pub buffers: RowBuffers,
    /// The new row.
    pub row: Vec<u8>,
    /// Assigned values, by column.
    pub new: Vec<(usize, Value)>,
    /// A row's values.
    pub values: Vec<Value>,
}

/// Bytes of buffers that a session keeps between statements.
const KEPT_BYTES_MAX: usize = 1 << 20;

impl WriteScratch {
    /// Empties what a statement leaves behind, and gives back memory where it left much.
    pub fn cleared(mut self) -> WriteScratch {
        if self.row.capacity() > KEPT_BYTES_MAX {
            return WriteScratch::default();
        }
        self.new.clear();
        self.values.clear();
        self
    }
}

/// Buffers for writing rows, kept through a statement.
#[derive(Default)]
pub struct RowBuffers {
    /// Clustered key of the row being written.
    pub key: Vec<u8>,
    /// Clustered key of a row in its way.
    pub existing: Vec<u8>,
    /// A new entry of an index.
    pub entry: EntryBuffers,
    /// The entry that goes.
    pub old_entry: EntryBuffers,
    /// A row that was found.
    pub found: Vec<u8>,
}

//! A derived table's rows, computed when first read and kept for every further reading.

use keel_base::SqlResult;

use super::DerivedSource;
use crate::expr::RowSlot;
use crate::result::RowView;
use crate::select::{self, FrameBuffer, RowOutput, RowPacker};
use crate::session::Session;
use crate::sort::{RowFile, RowReader};

/// Kept rows: in memory up to `tmp_memory_table_size`, then in a file.
enum Rows {
    None,
    Memory { bytes: Vec<u8>, at: usize },
    File(RowReader),
}

/// A derived table while it is read.
pub(crate) struct StoredRun<'p> {
    source: &'p DerivedSource,
    rows: Rows,
}

/// Takes the rows of the derived table's query.
struct Keeper<'p> {
    packer: RowPacker<'p>,
    bytes: Vec<u8>,
    file: Option<RowFile>,
    bytes_max: usize,
}

impl RowOutput for Keeper<'_> {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        if let Some(file) = &mut self.file {
            file.push(|out| self.packer.pack(row, out))?;
            return Ok(true);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.packer.pack(row, &mut self.bytes);
        let length = (self.bytes.len() - start - 4) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        if self.bytes.len() > self.bytes_max {
            let mut file = RowFile::create(&*session.host)?;
            let mut at = 0;
            while let Some((row, next)) = record(&self.bytes, at) {
                file.push(|out| out.extend_from_slice(row))?;
                at = next;
            }
            self.bytes = Vec::new();
            self.file = Some(file);
        }
        Ok(true)
    }
}

/// The record at an offset, and the offset of the next.
fn record(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let head = bytes.get(at..at + 4)?;
    let length = u32::from_le_bytes(head.try_into().expect("four octets")) as usize;
    Some((&bytes[at + 4..at + 4 + length], at + 4 + length))
}

impl<'p> StoredRun<'p> {
    pub fn new(source: &'p DerivedSource) -> StoredRun<'p> {
        StoredRun { source, rows: Rows::None }
    }

    /// Reads from the first row, computing the rows if that was not done yet.
    pub fn open(&mut self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        match &mut self.rows {
            Rows::Memory { at, .. } => *at = 0,
            Rows::File(reader) => reader.restart(),
            Rows::None => {
                let bytes_max = usize::try_from(session.vars.tmp_memory_bytes).unwrap_or(usize::MAX);
                let packer = RowPacker::new(&self.source.layout);
                let mut keeper = Keeper { packer, bytes: Vec::new(), file: None, bytes_max };
                select::run_each(&self.source.plan, session, frame.params, None, &mut keeper)?;
                self.rows = match keeper.file {
                    Some(file) => Rows::File(file.rewind()?),
                    None => Rows::Memory { bytes: keeper.bytes, at: 0 },
                };
            }
        }
        Ok(())
    }

    /// The next row, into a slot; false at the end.
    pub fn next(&mut self, slot: &mut RowSlot) -> SqlResult<bool> {
        let row = match &mut self.rows {
            Rows::None => None,
            Rows::Memory { bytes, at } => record(bytes, *at).map(|(row, next)| {
                *at = next;
                row
            }),
            Rows::File(reader) => reader.next()?,
        };
        let Some(row) = row else { return Ok(false) };
        if let RowSlot::Stored { layout, map: None, bytes } = slot
            && std::sync::Arc::ptr_eq(layout, &self.source.layout)
        {
            bytes.clear();
            bytes.extend_from_slice(row);
        } else {
            *slot = RowSlot::Stored { layout: self.source.layout.clone(), map: None, bytes: row.to_vec() };
        }
        Ok(true)
    }
}

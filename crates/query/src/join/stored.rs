//! A derived table's rows, computed when first read and kept for every further reading.

use keel_base::SqlResult;

use super::DerivedSource;
use crate::expr::RowSlot;
use crate::result::RowView;
use crate::select::{self, FrameBuffer, RowOutput, RowPacker};
use crate::session::Session;
use crate::sort::KeptRows;

/// A derived table while it is read.
pub(crate) struct StoredRun<'p> {
    source: &'p DerivedSource,
    rows: Option<KeptRows>,
}

/// Takes the rows of the derived table's query.
struct Keeper<'p> {
    packer: RowPacker<'p>,
    rows: KeptRows,
}

impl RowOutput for Keeper<'_> {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        self.rows.push(&*session.host, |out| self.packer.pack(row, out))?;
        Ok(true)
    }
}

impl<'p> StoredRun<'p> {
    pub fn new(source: &'p DerivedSource) -> StoredRun<'p> {
        StoredRun { source, rows: None }
    }

    /// Reads from the first row, computing the rows if that was not done yet.
    pub fn open(&mut self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        if let Some(rows) = &mut self.rows {
            return rows.rewind();
        }
        let packer = RowPacker::new(&self.source.layout);
        let mut keeper = Keeper { packer, rows: KeptRows::new(session.vars.tmp_memory_bytes) };
        select::run_each(&self.source.plan, session, frame.params, None, &mut keeper)?;
        keeper.rows.rewind()?;
        self.rows = Some(keeper.rows);
        Ok(())
    }

    /// The next row, into a slot; false at the end.
    pub fn next(&mut self, slot: &mut RowSlot) -> SqlResult<bool> {
        let row = match &mut self.rows {
            Some(rows) => rows.next_row()?,
            None => None,
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

//! A derived table's rows, computed when first read and kept for every further reading: by the run of its query, and, within a
//! subquery that runs again and again, by the session until the statement ends.

use std::sync::atomic::{AtomicU64, Ordering};

use keel_base::SqlResult;

use super::DerivedSource;
use crate::expr::RowSlot;
use crate::kept::Shelf;
use crate::result::RowView;
use crate::select::{self, FrameBuffer, RowOutput, RowPacker};
use crate::session::Session;
use crate::sort::{RowCursor, RowList};

/// A name for the rows of a derived table that no other one has.
pub fn new_kept_name() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A derived table while it is read.
pub struct StoredRun<'p> {
    source: &'p DerivedSource,
    /// Kept in memory up to `tmp_memory_table_size`, then in a file; none before the first reading.
    rows: Option<RowCursor>,
    /// Where they go at the end.
    home: Option<Shelf>,
}

/// Keeps the rows of a query.
pub struct Keeper<'p> {
    packer: RowPacker<'p>,
    rows: RowList,
    /// Rows kept.
    count: u64,
}

impl<'p> Keeper<'p> {
    /// A keeper of rows without any; `packer` gives them their form.
    pub fn new(packer: RowPacker<'p>, session: &Session) -> Keeper<'p> {
        Keeper { packer, rows: RowList::new(session.vars.tmp_room(), session.work()), count: 0 }
    }

    /// Reads what was kept.
    pub fn finish(self) -> SqlResult<RowCursor> {
        self.rows.finish()
    }
}

impl RowOutput for Keeper<'_> {
    fn row(&mut self, _session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        self.rows.push(|out| self.packer.pack(row, out))?;
        self.count += 1;
        Ok(true)
    }
}

impl<'p> StoredRun<'p> {
    pub fn new(source: &'p DerivedSource) -> StoredRun<'p> {
        StoredRun { source, rows: None, home: None }
    }

    /// Reads from the first row, computing the rows if that was not done yet.
    pub fn open(&mut self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        match &mut self.rows {
            Some(rows) => rows.restart(),
            None => {
                if let Some(name) = self.source.kept_as
                    && session.working.is_empty()
                {
                    let home = session.kept_rows.entry(name).or_default().clone();
                    self.rows = home.lock().take();
                    self.home = Some(home);
                    if let Some(rows) = &mut self.rows {
                        rows.restart();
                        return Ok(());
                    }
                }
                let mut keeper = Keeper::new(RowPacker::new(&self.source.layout), session);
                select::run_each(&self.source.plan, session, frame.params, None, &mut keeper)?;
                session.plan_counts.table(keeper.count, keeper.rows.is_on_disk());
                self.rows = Some(keeper.finish()?);
            }
        }
        Ok(())
    }

    /// The next row, into a slot; false at the end.
    pub fn next(&mut self, slot: &mut RowSlot) -> SqlResult<bool> {
        let Some(rows) = &mut self.rows else { return Ok(false) };
        let Some(row) = rows.next_row()? else { return Ok(false) };
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

impl Drop for StoredRun<'_> {
    fn drop(&mut self) {
        if let (Some(home), Some(rows)) = (&self.home, self.rows.take()) {
            *home.lock() = Some(rows);
        }
    }
}

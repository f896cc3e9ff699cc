//! One row for each key: what a semi-join's right side gives where it is read before the rows that it is asked of.
//!
//! The joins behind it find those rows by the key, each at most once. Keys are encoded as in a hash join; NULL is the key of
//! no row. Keys take memory up to `tmp_memory_table_size`; rows whose keys do not fit are set aside in files and come last,
//! with the columns of their keys alone.

use keel_base::SqlResult;

use super::hash::encode;
use super::{Runner, Source, all_hold};
use crate::expr::{Comparison, Expr};
use crate::select::{Carry, FrameBuffer};
use crate::session::Session;
use crate::sort::{Distinct, RowCursor, RowList};

/// A source of which each key comes once.
pub struct DistinctSource {
    /// The rows.
    pub source: Source,
    /// Conditions that read nothing of them.
    pub filter: Vec<Expr>,
    /// The key.
    pub keys: Vec<Expr>,
    /// How each part of it compares with what it is joined by.
    pub by: Vec<Comparison>,
    /// The columns of the keys.
    pub carry: Carry,
}

/// The same while it runs.
pub struct DistinctRun<'p> {
    plan: &'p DistinctSource,
    inner: Runner<'p>,
    /// None before the first row, and when all rows of the source have come.
    seen: Option<Distinct>,
    /// Rows that were set aside.
    aside: Option<RowCursor>,
    key: Vec<u8>,
}

impl<'p> DistinctRun<'p> {
    pub fn new(plan: &'p DistinctSource, inner: Runner<'p>) -> DistinctRun<'p> {
        DistinctRun { plan, inner, seen: None, aside: None, key: Vec::new() }
    }

    pub fn open(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        self.seen = Some(Distinct::new(session.vars.tmp_room(), session.work()));
        self.aside = None;
        self.inner.open(session, frame)
    }

    /// The next row whose key is new; false at the end.
    pub fn next(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        let DistinctRun { plan, inner, seen, key, .. } = self;
        if let Some(seen) = seen {
            while inner.next(session, frame)? {
                key.clear();
                let counts = all_hold(&plan.filter, session, frame)?
                    && encode(&plan.keys, &plan.by, session, frame, key)?;
                if counts && seen.is_new(key, |out| plan.carry.save(&frame.slots, out))? {
                    return Ok(true);
                }
            }
            self.end(session)?;
        }
        session.check_interrupt()?;
        let Some(aside) = &mut self.aside else { return Ok(false) };
        let Some(row) = aside.next_row()? else { return Ok(false) };
        self.plan.carry.load(row, &mut frame.slots);
        Ok(true)
    }

    /// All rows have come: what is left are those that were set aside.
    fn end(&mut self, session: &mut Session) -> SqlResult<()> {
        let Some(seen) = self.seen.take().filter(Distinct::has_rest) else { return Ok(()) };
        let mut kept = RowList::new(session.vars.tmp_room(), session.work());
        seen.rest(&mut |row| {
            session.check_interrupt()?;
            kept.push(|out| out.extend_from_slice(row))?;
            Ok(true)
        })?;
        self.aside = Some(kept.finish()?);
        Ok(())
    }
}

//! AUTO_INCREMENT values of one INSERT, and which statements keep others from taking some in between.
//!
//! As `innodb_autoinc_lock_mode` says: with 0 every INSERT holds the table's counter from its first value to its end, with 1
//! those of which nobody knows how many rows there are, with 2 none. Those that need not hold it take their values without a
//! lock, but wait where another holds it, and then hold it too. With 0 only values that are stored count as handed out, since
//! nobody else takes one before the statement's end; else all that are reserved.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::TableDef;
use keel_catalog::counter::{Reserved, Step};
use keel_context::engine_error;
use keel_exec::session::Session;

/// AUTO_INCREMENT values of one statement.
#[derive(Default)]
pub(super) struct AutoValues {
    /// The next reserved value and how many there are.
    pub reserved: (u64, u64),
    /// The same before the current row.
    pub reserved_before: (u64, u64),
    /// Intervals reserved so far.
    intervals: u32,
    /// Rows of the first interval, or of the last one that came after it, that are still to come.
    rows_left: u64,
    /// SET insert_id gave the first value; the others follow it, whatever the counter says.
    pub forced: bool,
    /// The first that was made and stored.
    pub first: Option<u64>,
    /// The last that was given.
    pub explicit: Option<u64>,
    /// The one made for the current row.
    pub made: Option<u64>,
    /// The counter, while the statement holds it.
    claim: Option<Claim>,
}

/// A statement's claim on the counter of a table.
struct Claim {
    table: Arc<TableDef>,
}

impl Claim {
    /// Takes the counter; waits.
    fn take(session: &mut Session, table: &Arc<TableDef>, index: usize) -> SqlResult<Claim> {
        table.shared.auto_increment.claim();
        let claim = Claim { table: table.clone() };
        let txn = session.txn.as_mut().expect("a plan runs within a transaction of the engine");
        txn.lock_counter(table.indexes[index].entries()).map_err(engine_error)?;
        Ok(claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.table.shared.auto_increment.disclaim();
    }
}

impl AutoValues {
    /// How many values to reserve, as MariaDB does: all expected rows at once, else twice as many each time; where a row gave
    /// a value itself and the rest of an interval was left out, for the rows that are left of it.
    pub fn next_interval(&mut self, expected: u64) -> u64 {
        let count = if self.intervals == 0 && expected > 0 { expected } else { 1 << self.intervals.min(16) };
        self.intervals += 1;
        if self.rows_left == 0 {
            self.rows_left = count.min(65_535);
        }
        self.rows_left
    }

    /// Whether the statement has asked for values.
    pub fn has_reserved(&self) -> bool {
        self.intervals > 0
    }

    /// The row before this one is done with.
    pub fn next_row(&mut self) {
        self.rows_left = self.rows_left.saturating_sub(1);
    }

    /// Whether the statement is to hold the counter before it asks for values.
    fn is_to_claim(&self, session: &Session, table: &TableDef, bulk: bool) -> bool {
        let always = match session.vars.auto_increment_lock_mode {
            0 => true,
            1 => bulk,
            _ => return false,
        };
        self.claim.is_none() && (always || table.shared.auto_increment.is_claimed())
    }

    fn claim(&mut self, session: &mut Session, table: &Arc<TableDef>) -> SqlResult<()> {
        if let (None, Some(auto)) = (&self.claim, table.auto_increment) {
            self.claim = Some(Claim::take(session, table, auto.index)?);
        }
        Ok(())
    }

    /// Before a value that a row gave itself raises the counter; waits where somebody holds it.
    pub fn before_raise(
        &mut self,
        session: &mut Session,
        table: &Arc<TableDef>,
        bulk: bool,
    ) -> SqlResult<()> {
        match self.is_to_claim(session, table, bulk) {
            true => self.claim(session, table),
            false => Ok(()),
        }
    }

    /// The first of the next `count` values; none where there are no more. Waits where somebody holds the counter.
    pub fn reserve(
        &mut self,
        session: &mut Session,
        table: &Arc<TableDef>,
        bulk: bool,
        count: u64,
        step: Step,
        max: u64,
    ) -> SqlResult<Option<u64>> {
        let Some(counting) = table.counting() else { return Ok(None) };
        if session.vars.auto_increment_lock_mode < 2 && self.claim.is_none() {
            if !self.is_to_claim(session, table, bulk) {
                match counting.try_reserve(count, step, max)? {
                    Reserved::First(first) => return Ok(Some(first)),
                    Reserved::Exhausted => return Ok(None),
                    Reserved::Claimed => {}
                }
            }
            self.claim(session, table)?;
        }
        match counts_stored(session) {
            true => counting.next(step, max),
            false => counting.reserve(count, step, max),
        }
    }

    /// Before the value `made` is forgotten or stored: where only stored ones count, it counts from now on.
    pub fn hand_out(session: &Session, table: &TableDef, made: u64) -> SqlResult<()> {
        table.counting().filter(|_| counts_stored(session)).map_or(Ok(()), |counting| counting.raise(made))
    }

    /// Gives back what the statement holds.
    pub fn end(&mut self, session: &mut Session) {
        if let Some(claim) = self.claim.take()
            && let (Some(txn), Some(auto)) = (&mut session.txn, claim.table.auto_increment)
        {
            txn.unlock_counter(claim.table.indexes[auto.index].entries());
        }
    }

    /// Leaves out the reserved values up to one that a row gave itself.
    pub fn go_on_behind(&mut self, given: u64, step: Step) {
        let (next, count) = self.reserved;
        if count == 0 || given < next {
            return;
        }
        let passed = (given - next) / step.increment.max(1) + 1;
        self.reserved = match step.after(given) {
            Some(behind) if passed < count => (behind, count - passed),
            _ => (0, 0),
        };
    }
}

/// Whether only values that are stored count as handed out.
fn counts_stored(session: &Session) -> bool {
    session.vars.auto_increment_lock_mode == 0
}

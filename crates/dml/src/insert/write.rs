//! Writing a row whose values are there: conditions, duplicates and what is done about them.

use std::sync::Arc;

use keel_base::{SqlResult, code};
use keel_catalog::TableDef;
use keel_catalog::counter::Step;
use keel_context::engine_error;
use keel_exec::sequence;
use keel_exec::session::Session;
use keel_expr::{Frame, RowSlot};
use keel_storage::OnDuplicate;
use keel_storage::runtime::fiber;
use keel_value::row::{self, RowRef};
use smallvec::SmallVec;

use super::super::assign::write_row;
use super::super::check::is_ignorable;
use super::super::convert::Strictness;
use super::super::foreign::{Ties, is_of_foreign_key};
use super::super::rows::{self, Written};
use super::{Rows, Work, transaction};

impl Work<'_> {
    /// Writes the row in `values`; the statement gives `expected` rows, 0 where that is not known.
    pub(crate) fn write(&mut self, session: &mut Session, expected: u64) -> SqlResult<()> {
        fiber::tick();
        session.check_interrupt()?;
        session.examined.count(1);
        if !self.plan.generated.is_empty() {
            self.plan.generated.fill(session, &self.plan.table, &mut self.values, self.strictness)?;
        }
        if !self.passes_checks(session)? {
            return Ok(());
        }
        self.counts.records += 1;
        self.make_auto_value(session, expected)?;
        let table = self.plan.table.clone();
        self.row.clear();
        row::encode_values(&table.layout, &self.values, &mut self.row);
        if table.is_sequence() {
            sequence::store(session, &table, &self.values)?;
            return self.stored(session, &table);
        }
        let goes_on = self.plan.ignore || self.plan.replace || self.plan.on_duplicate.is_some();
        if !goes_on {
            let txn = transaction(session);
            let (row, ties) = (&self.row, self.ties.as_ref());
            return match rows::insert(&table, txn, row, OnDuplicate::LockShared, &mut self.buffers, ties)? {
                Written::Done => self.stored(session, &table),
                Written::Duplicate(position) => {
                    self.lose_auto_value(session)?;
                    Err(rows::duplicate_error(&table, position, &self.row, &*session.vars.time_zone))
                }
            };
        }
        self.write_or_displace(session, &table)
    }

    /// Whether the row in `values` may be written; with IGNORE one that may not is passed over.
    pub(super) fn passes_checks(&mut self, session: &mut Session) -> SqlResult<bool> {
        if self.plan.checks.is_empty(session) {
            return Ok(true);
        }
        let slot = RowSlot::Values(std::mem::take(&mut self.values));
        let tested = self.plan.checks.test(session, &self.plan.table, &slot);
        if let RowSlot::Values(values) = slot {
            self.values = values;
        }
        match tested {
            Ok(()) => Ok(true),
            // As in MariaDB, IGNORE does not help a single row that is refused.
            Err(error) if is_ignorable(&error) && self.plan.is_single() => Err(error),
            Err(error) if self.plan.ignore && is_ignorable(&error) => {
                session.warn(error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn write_or_displace(
        &mut self,
        session: &mut Session,
        table: &Arc<TableDef>,
    ) -> SqlResult<()> {
        let displaces = self.plan.replace || self.plan.on_duplicate.is_some();
        let lock = if displaces { OnDuplicate::LockExclusive } else { OnDuplicate::LockShared };
        loop {
            session.check_interrupt()?;
            let txn = transaction(session);
            let savepoint = txn.savepoint();
            let ties = self.ties.as_ref();
            let position = match rows::insert(table, txn, &self.row, lock, &mut self.buffers, ties) {
                Ok(Written::Done) => return self.stored(session, table),
                Ok(Written::Duplicate(position)) => position,
                Err(error) if self.plan.ignore && is_of_foreign_key(&error) => {
                    txn.rollback_to(savepoint).map_err(engine_error)?;
                    self.give_back_auto_value(session)?;
                    session.warn(error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            txn.rollback_to(savepoint).map_err(engine_error)?;
            if !displaces {
                self.give_back_auto_value(session)?;
                let error = rows::duplicate_error(table, position, &self.row, &*session.vars.time_zone);
                session.warn(error);
                return Ok(());
            }
            let primary = self.buffers.existing.clone();
            if !rows::lock_row(table, txn, &primary, &mut self.old)? {
                continue;
            }
            if self.plan.on_duplicate.is_some() {
                self.give_back_auto_value(session)?;
                return self.update_existing(session, table, &primary);
            }
            // A row that others name goes and comes back, even where it stays the same: they go, or keep it, with it.
            let is_named = self.ties.as_ref().is_some_and(Ties::is_named);
            if self.old == self.row && is_last_unique(table, position) && !is_named {
                self.counts.copied += 1;
                return self.give_back(session);
            }
            let old = std::mem::take(&mut self.old);
            rows::delete(table, txn, &primary, &old, &mut self.buffers, self.ties.as_ref())?;
            self.old = old;
            self.counts.displaced += 1;
        }
    }

    /// ON DUPLICATE KEY UPDATE of the row in `old`.
    pub(super) fn update_existing(
        &mut self,
        session: &mut Session,
        table: &Arc<TableDef>,
        primary: &[u8],
    ) -> SqlResult<()> {
        let Some((assignments, touched)) = &self.plan.on_duplicate else { return Ok(()) };
        let layout = table.layout.clone();
        let mut slots: SmallVec<[RowSlot; 2]> = SmallVec::new();
        slots.push(RowSlot::Stored { layout, map: None, bytes: self.old.clone() });
        slots.push(RowSlot::Values(std::mem::take(&mut self.values)));
        slots.extend(self.sources.drain(..));
        let frame = Frame { slots: &slots, params: self.params, once: &self.once, outer: None };
        let view = RowRef::new(&table.layout, &self.old);
        let mut new = Vec::new();
        // The made value was not stored: LAST_INSERT_ID() inside the assignments speaks of the existing row.
        let is_query = matches!(self.plan.rows, Rows::Query { .. });
        let null_is_error = self.strictness.null_is_error || is_query && !self.plan.ignore;
        let strictness = Strictness { null_is_error, ..self.strictness };
        assignments.changed(session, table, frame, &view, strictness, &mut new)?;
        if new.is_empty() {
            self.counts.found_same += 1;
            std::mem::swap(&mut self.row, &mut self.old);
            return self.give_back(session);
        }
        write_row(table, &view, &new, &mut self.row);
        match self.plan.checks.test_bytes(session, table, &mut self.row) {
            Err(error) if self.plan.ignore && is_ignorable(&error) => {
                session.warn(error);
                return Ok(());
            }
            tested => tested?,
        }
        let zone = session.vars.time_zone.clone();
        let txn = transaction(session);
        let savepoint = txn.savepoint();
        let (old, row, ties) = (&self.old, &self.row, self.ties.as_ref());
        let written = match rows::update(table, touched, txn, primary, old, row, &mut self.buffers, ties) {
            Err(error) if self.plan.ignore && is_of_foreign_key(&error) => {
                txn.rollback_to(savepoint).map_err(engine_error)?;
                session.warn(error);
                return Ok(());
            }
            written => written?,
        };
        match written {
            Written::Done => {
                self.counts.copied += 1;
                self.counts.displaced += 1;
                if let Some(auto) = table.auto_increment {
                    let value = RowRef::new(&table.layout, &self.row).get(auto.column);
                    let raised = rows::raise_auto_increment(table, value, Step::of(&session.vars))?;
                    // Of a query's rows only those count that are new.
                    if !matches!(self.plan.rows, Rows::Query { .. }) {
                        self.auto.explicit = raised;
                    }
                }
                self.give_back(session)
            }
            Written::Duplicate(position) => {
                let error = rows::duplicate_error(table, position, &self.row, &*zone);
                if self.plan.ignore && error.code == code::DUP_ENTRY {
                    txn.rollback_to(savepoint).map_err(engine_error)?;
                    session.warn(error);
                    return Ok(());
                }
                Err(error)
            }
        }
    }

    /// The row is in: counts it and keeps the AUTO_INCREMENT counter above its value.
    pub(super) fn stored(&mut self, session: &mut Session, table: &Arc<TableDef>) -> SqlResult<()> {
        self.counts.copied += 1;
        self.count_on(session, table)?;
        self.give_back(session)
    }

    /// RETURNING of the row in `row`.
    pub(super) fn give_back(&mut self, session: &mut Session) -> SqlResult<()> {
        let Some(returning) = &mut self.returning else { return Ok(()) };
        let layout = self.plan.table.layout.clone();
        let slots = [RowSlot::Stored { layout, map: None, bytes: std::mem::take(&mut self.row) }];
        let given = returning.row(session, &slots);
        if let [RowSlot::Stored { bytes, .. }] = slots {
            self.row = bytes;
        }
        given
    }
}

fn is_last_unique(table: &TableDef, position: usize) -> bool {
    table.indexes.iter().rposition(|i| i.is_unique()) == Some(position)
}

//! The AUTO_INCREMENT value of a row to insert.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::TableDef;
use keel_catalog::counter::Step;
use keel_exec::session::Session;
use keel_value::{SqlMode, SqlType, Value, ValueRef};

use super::super::auto::AutoValues;
use super::super::rows;
use super::{Rows, Work};

impl Work<'_> {
    pub(super) fn count_on(&mut self, session: &mut Session, table: &Arc<TableDef>) -> SqlResult<()> {
        let Some(auto) = table.auto_increment else { return Ok(()) };
        let step = Step::of(&session.vars);
        if let Some(made) = self.auto.made.take() {
            self.auto.first.get_or_insert(made);
            AutoValues::hand_out(session, table, made)?;
            table.shared.auto_increment.pass(made, step);
            return Ok(());
        }
        self.auto.before_raise(session, table, self.plan.is_bulk())?;
        let value = self.values[auto.column].as_ref();
        let counts = rows::raise_auto_increment(table, value, step)?.is_some_and(|given| given > 0);
        if !counts && !value.is_null() && !self.auto.has_reserved() {
            table.shared.auto_increment.pass_zero(step);
        }
        Ok(())
    }

    /// The row is not stored: the next one takes the value that was made for it. A value that the row gave itself leaves out
    /// no reserved values.
    pub(super) fn give_back_auto_value(&mut self, session: &Session) -> SqlResult<()> {
        self.lose_auto_value(session)?;
        match self.auto.made.take() {
            Some(made) => self.auto.reserved = (made, self.auto.reserved.1 + 1),
            None if self.auto.explicit.is_some() => self.auto.reserved = self.auto.reserved_before,
            None => {}
        }
        Ok(())
    }

    /// The row that a value was made for is a duplicate: as in InnoDB the value is lost where a query gave the row, or a file of
    /// which duplicates are passed over, also where only stored ones count.
    pub(super) fn lose_auto_value(&self, session: &Session) -> SqlResult<()> {
        let loses = match &self.plan.rows {
            Rows::Query { .. } => true,
            Rows::File(_) => self.plan.ignore,
            _ => false,
        };
        match self.auto.made.filter(|_| loses) {
            Some(made) => AutoValues::hand_out(session, &self.plan.table, made),
            None => Ok(()),
        }
    }

    /// Puts the next AUTO_INCREMENT value where NULL or, usually, 0 was given.
    pub(super) fn make_auto_value(&mut self, session: &mut Session, expected: u64) -> SqlResult<()> {
        self.auto.made = None;
        self.auto.reserved_before = self.auto.reserved;
        let table = &self.plan.table;
        let Some(auto) = table.auto_increment else { return Ok(()) };
        self.auto.next_row();
        let step = Step::of(&session.vars);
        let asked = match self.values[auto.column].as_ref() {
            ValueRef::Null => true,
            ValueRef::Int(0) | ValueRef::UInt(0) => {
                !session.vars.sql_mode.has(SqlMode::NO_AUTO_VALUE_ON_ZERO)
            }
            ValueRef::Float(v) => v == 0.0 && !session.vars.sql_mode.has(SqlMode::NO_AUTO_VALUE_ON_ZERO),
            ValueRef::Double(v) => v == 0.0 && !session.vars.sql_mode.has(SqlMode::NO_AUTO_VALUE_ON_ZERO),
            _ => false,
        };
        if !asked {
            self.auto.explicit = given_number(self.values[auto.column].as_ref());
            if let Some(given) = self.auto.explicit.filter(|given| *given <= i64::MAX as u64) {
                self.auto.go_on_behind(given, step);
            }
            return Ok(());
        }
        let ty = &table.columns[auto.column].ty;
        if let Some(id) = session.vars.insert_id.take() {
            // It is where the statement begins to count, as far as it needs.
            self.auto.reserved = (id, u64::MAX);
            self.auto.forced = true;
        }
        if self.auto.reserved.1 == 0 {
            let count = self.auto.next_interval(expected);
            let bulk = self.plan.is_bulk();
            let first = self.auto.reserve(session, table, bulk, count, step, auto_max(ty))?;
            let first = first.ok_or_else(|| exhausted(session, &table.columns[auto.column].name))?;
            self.auto.reserved = (first, count);
        }
        let (next, count) = self.auto.reserved;
        self.auto.reserved = (step.after(next).unwrap_or(u64::MAX), count - 1);
        self.auto.made = Some(next);
        if next > auto_max(ty) {
            return Err(exhausted(session, &table.columns[auto.column].name));
        }
        if self.auto.forced {
            // Nothing was reserved: to the counter the row has given the value itself.
            self.auto.before_raise(session, table, self.plan.is_bulk())?;
            table.counting().map_or(Ok(()), |counting| counting.raise(next))?;
        }
        if self.values[auto.column].is_null() && table.columns[auto.column].nullable {
            // NULL stays NULL although it takes a number.
            return Ok(());
        }
        self.values[auto.column] = match ty.kind {
            keel_value::TypeKind::Double => Value::Double(next as f64),
            keel_value::TypeKind::Float => Value::Float(next as f32),
            _ if ty.unsigned => Value::UInt(next),
            _ => Value::Int(next as i64),
        };
        Ok(())
    }
}

/// What a row says for the column that counts, as answers show it.
fn given_number(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::Int(v) => Some(v as u64),
        ValueRef::UInt(v) => Some(v),
        ValueRef::Double(v) => Some(v as i64 as u64),
        ValueRef::Float(v) => Some(v as i64 as u64),
        _ => None,
    }
}

#[cold]
fn exhausted(session: &Session, column: &str) -> keel_base::SqlError {
    errors::autoinc_out_of_range(column, session.current_row)
}

/// The greatest AUTO_INCREMENT value of a column type.
fn auto_max(ty: &SqlType) -> u64 {
    match ty.kind {
        keel_value::TypeKind::Double => 1 << 53,
        keel_value::TypeKind::Float => 1 << 24,
        _ => ty.integer_range().1.min(u64::MAX - 1),
    }
}

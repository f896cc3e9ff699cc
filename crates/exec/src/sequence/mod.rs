//! Sequences: numbers that nobody gets twice.
//!
//! A sequence is a table with one row and [`TableOptions`](crate::catalog::TableOptions) that say `SEQUENCE=1`. The row says
//! where values begin that nobody has got yet (`next_not_cached_value`), and how they go on ([`Values`]). A session that finds no
//! value in memory moves that beginning on by CACHE values, in a transaction of its own that it waits for, and only then
//! gives the first of them; the others lie in memory for the next sessions (`SequenceState`).
//!
//! 1. A value is given only after a row beyond it is durable. A crash, a stop or a change of the definition loses what lay
//!    in memory, CACHE values at most, and gives none twice.
//! 2. No transaction of a session holds anything of a sequence, and none takes a value back.
//! 3. Who writes the row holds `Sequence::gate`, and has the state out of memory meanwhile: others wait for the gate.
//! 4. Where CACHE is small, who writes the row takes as many values as sessions wait for some, so that they share the log's write.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keel_base::{SqlError, SqlResult, errors};
use keel_sql::ast::{Expr, ObjectName, SequenceCall, SequenceOp, VarScope};
use keel_storage::{OnDuplicate, Read, ScanRange, Txn, TxnOptions};
use keel_value::row::{self, RowRef};
use keel_value::{Cell, SqlType, Value};

use crate::catalog::TableDef;
use crate::engine_error;
use crate::expr::EvalContext;
use crate::expr::print::Text;
use crate::expr::routine::Routine;
use crate::mdl::Owned;
use crate::session::{OfSession, Session};

pub use keel_catalog::sequence::Values;
pub use keel_catalog::sequence::{NextValue, OPTION, Sequence, SequenceState, Wanting, check_shape, columns};

/// The key of a sequence's row when it is made.
const FIRST_KEY: [u8; 8] = 1u64.to_be_bytes();
/// Most values that are taken from the row at once for sessions that wait.
const WAITERS_MAX: usize = 1000;

/// A call of a sequence in a bound expression.
#[derive(Clone)]
pub struct Call {
    /// The sequence.
    pub table: Arc<TableDef>,
    /// What is asked of it.
    pub op: SequenceOp,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {}.{}", self.op, self.table.schema, self.table.name)
    }
}

impl Call {
    /// As MariaDB prints it.
    pub fn text(&self) -> String {
        let name = ObjectName { db: Some(self.table.schema.to_string()), name: self.table.name.to_string() };
        keel_sql::printer::expr(&Expr::Sequence(Box::new(SequenceCall { name, op: self.op })))
    }

    /// The function's name.
    pub fn function(&self) -> &'static str {
        match self.op {
            SequenceOp::Next => "nextval",
            SequenceOp::Last => "lastval",
            SequenceOp::Set { .. } => "setval",
        }
    }

    /// The type of what it gives.
    pub fn ty() -> SqlType {
        SqlType::bigint().with_length(20)
    }

    /// Whether it may move the sequence on.
    pub fn writes(&self) -> bool {
        self.op != SequenceOp::Last
    }

    /// The value. Waits.
    fn ask(&self, session: &mut Session) -> SqlResult<Value> {
        match self.op {
            SequenceOp::Next => next(session, &self.table).map(Value::Int),
            SequenceOp::Last => Ok(session
                .last_values
                .get(&key_of(&self.table))
                .map_or(Value::Null, |last| Value::Int(*last))),
            SequenceOp::Set { value, used, round } => {
                let step = step_of_server(session)?;
                let set = change(session, &self.table, |state| {
                    state.set(value, used, round, step).ok_or_else(|| run_out(&self.table))
                })?;
                Ok(if set { Value::Int(value) } else { Value::Null })
            }
        }
    }
}

impl Routine for Call {
    fn eval<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
        self.ask(cx.session()).map(Cell::Owned)
    }

    fn is_volatile(&self) -> bool {
        true
    }

    fn asks_same(&self, other: &dyn Routine) -> bool {
        other.downcast_ref::<Call>().is_some_and(|other| self.text() == other.text())
    }

    fn print(&self, out: &mut Text<'_>) {
        out.push_str(&self.text());
    }

    fn boxed(&self) -> Box<dyn Routine> {
        Box::new(self.clone())
    }
}

/// What a session's last values are kept by.
fn key_of(table: &TableDef) -> (bool, u64) {
    (table.is_temporary(), table.id)
}

/// The next value. Waits where none lies in memory.
fn next(session: &mut Session, table: &TableDef) -> SqlResult<i64> {
    let sequence = table.sequence();
    let value = match sequence.take() {
        Some(value) => value,
        None => {
            let step = step_of_server(session)?;
            let _wanting = Wanting::among(&sequence.wanting);
            let reserved = change(session, table, |state| {
                if let Some(value) = state.take() {
                    return Ok((value, false));
                }
                let waiting = sequence.wanting.load(Ordering::Relaxed).min(WAITERS_MAX);
                match state.reserve(waiting as i64, step) {
                    NextValue::Value(value) => Ok((value, true)),
                    NextValue::RunOut => Err(run_out(table)),
                }
            });
            if reserved.is_err() {
                session.last_values.remove(&key_of(table));
            }
            reserved?
        }
    };
    session.keep_last_value(key_of(table), value);
    Ok(value)
}

/// What the row says. Waits.
pub fn values(session: &Session, table: &TableDef) -> SqlResult<Values> {
    let sequence = table.sequence();
    if let Some(state) = &*sequence.state.lock() {
        return Ok(state.values.clone());
    }
    let _gate = enter(session, sequence)?;
    let state = state_of(session, table)?;
    let values = state.values.clone();
    *sequence.state.lock() = Some(state);
    Ok(values)
}

/// Puts other values in the place of the row, as INSERT does; 4085 where they do not fit together.
pub fn store(session: &Session, table: &TableDef, row: &[Value]) -> SqlResult<()> {
    let step = step_of_server(session)?;
    let values = Values::of_row(|column| row[column].as_ref()).filter(|values| values.are_sound(step));
    let values = values.ok_or_else(|| errors::sequence_invalid_data(&table.schema, &table.name))?;
    change(session, table, |state| {
        state.replace(values, step);
        Ok(((), true))
    })
}

/// ALTER SEQUENCE.
pub fn alter(session: &Session, table: &TableDef, options: &keel_sql::ast::SequenceOptions) -> SqlResult<()> {
    let step = step_of_server(session)?;
    change(session, table, |state| {
        let values = state.values.altered(options);
        if !values.are_sound(step) {
            return Err(errors::sequence_invalid_data(&table.schema, &table.name));
        }
        state.replace(values, step);
        Ok(((), true))
    })
}

/// What CREATE SEQUENCE makes; 4085 where that does not fit together.
pub fn made(
    session: &Session,
    (schema, name): (&str, &str),
    options: &keel_sql::ast::SequenceOptions,
) -> SqlResult<Values> {
    let step = step_of_server(session)?;
    let made = Values::made(options, step);
    match made.are_sound(step) {
        true => Ok(made),
        false => Err(errors::sequence_invalid_data(schema, name)),
    }
}

/// Writes the row of a new sequence, in the transaction that makes it.
pub fn write_first(txn: &mut Txn, table: &TableDef, values: &Values) -> SqlResult<()> {
    let mut row = Vec::new();
    row::encode_values(&table.layout, &values.row(), &mut row);
    table.row_counting().raise(1)?;
    txn.insert(table.rows(), &FIRST_KEY, &row, OnDuplicate::LockShared).map_err(engine_error)?;
    Ok(())
}

/// Whether the one row of a table can be that of a sequence: 1815 where there is not one, 4085 where it does not fit.
pub fn check_rows(session: &Session, table: &TableDef) -> SqlResult<()> {
    let engine = table.engine.as_ref().expect("a sequence is a real table");
    let mut txn = engine.begin(TxnOptions::default());
    let mut scan = txn.scan(table.rows(), ScanRange::ALL, Read::FOR_SHARE).map_err(engine_error)?;
    let mut found = None;
    while let Some((_, row)) = scan.next(&mut txn).map_err(engine_error)? {
        let row = RowRef::new(&table.layout, row);
        if found.replace(Values::of_row(|column| row.get(column))).is_some() {
            return Err(errors::internal_error("More than one row in the table"));
        }
    }
    let values = found.ok_or_else(|| errors::internal_error("Fewer than one row in the table"))?;
    let step = step_of_server(session)?;
    match values.as_ref().filter(|values| values.are_sound(step)) {
        Some(_) => Ok(()),
        None => Err(errors::sequence_invalid_data(&table.schema, &table.name)),
    }
}

fn run_out(table: &TableDef) -> SqlError {
    errors::sequence_run_out(&table.schema, &table.name)
}

/// `auto_increment_increment` and `auto_increment_offset` of the server: what INCREMENT 0 takes.
fn step_of_server(session: &Session) -> SqlResult<(i64, i64)> {
    let read = |name: &str| -> SqlResult<i64> {
        Ok(match session.host.system_variable(session, VarScope::Global, name)? {
            Value::Int(v) => v,
            Value::UInt(v) => v as i64,
            _ => 1,
        })
    };
    Ok((read("auto_increment_increment")?, read("auto_increment_offset")?))
}

/// Takes the gate. Waits.
fn enter(session: &Session, sequence: &Sequence) -> SqlResult<Owned> {
    let mut owned = Owned::default();
    owned.take(&sequence.gate, session, Duration::from_secs(session.vars.lock_wait_timeout))?;
    Ok(owned)
}

/// Changes the state with the gate held; where `edit` says so the row is written, and durable, before anybody sees it. An
/// error of the write leaves all as it was. Waits.
fn change<T>(
    session: &Session,
    table: &TableDef,
    edit: impl FnOnce(&mut SequenceState) -> SqlResult<(T, bool)>,
) -> SqlResult<T> {
    let sequence = table.sequence();
    let _gate = enter(session, sequence)?;
    let before = state_of(session, table)?;
    let mut state = before.clone();
    let done = match edit(&mut state) {
        Ok((given, false)) => Ok((given, state)),
        Ok((given, true)) => write(table, &state).map(|()| (given, state)).map_err(|error| (error, before)),
        Err(error) => Err((error, state)),
    };
    let (result, state) = match done {
        Ok((given, state)) => (Ok(given), state),
        Err((error, state)) => (Err(error), state),
    };
    *sequence.state.lock() = Some(state);
    result
}

/// Takes the state out of memory, or reads it. Only with the gate held. Waits.
fn state_of(session: &Session, table: &TableDef) -> SqlResult<SequenceState> {
    if let Some(state) = table.sequence().state.lock().take() {
        return Ok(state);
    }
    let engine = table.engine.as_ref().expect("a sequence is a real table");
    let mut txn = engine.begin(TxnOptions::default());
    // The newest row, whether it is durable yet or not: values beyond an older one may have been given.
    let mut scan = txn.scan(table.rows(), ScanRange::ALL, Read::FOR_SHARE).map_err(engine_error)?;
    let found = scan.next(&mut txn).map_err(engine_error)?;
    let read = found.and_then(|(key, bytes)| {
        let row = RowRef::new(&table.layout, bytes);
        Some((key.to_vec(), Values::of_row(|column| row.get(column))?))
    });
    drop(scan);
    txn.rollback().map_err(engine_error)?;
    let (key, values) = read.ok_or_else(|| errors::sequence_access_error(&table.schema, &table.name))?;
    Ok(SequenceState::new(key, values, step_of_server(session)?))
}

/// Writes the row. Waits until it is durable.
fn write(table: &TableDef, state: &SequenceState) -> SqlResult<()> {
    let engine = table.engine.as_ref().expect("a sequence is a real table");
    let mut row = Vec::new();
    row::encode_values(&table.layout, &state.values.row(), &mut row);
    let mut txn = engine.begin(TxnOptions::default());
    txn.update(table.rows(), &state.key, &row).map_err(engine_error)?;
    txn.commit().map_err(engine_error)?;
    Ok(())
}

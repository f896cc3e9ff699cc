//! Conversions between types.
use crate::temporal::Zone;
use crate::{Cell, DateTime, Decimal, SqlMode, SqlType, Value, ValueRef};
use keel_base::SqlError;
use std::cmp::Ordering;

/// What a conversion depends on beside the types.
#[derive(Clone, Copy)]
pub struct StoreContext<'a> {
    /// `sql_mode`.
    pub mode: SqlMode,
    /// Whether problems are errors (strict mode and not IGNORE).
    pub strict: bool,
    /// The session's time zone.
    pub zone: &'a dyn Zone,
    /// Today in the session's time zone, for TIME to DATETIME.
    pub today: crate::Date,
}
/// What was wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// 1264.
    OutOfRange,
    /// 1265, a warning.
    Truncated,
    /// 1265, a note.
    TruncatedNote,
    /// 1406.
    TooLong,
    /// 1366: `Incorrect integer value: 'abc' for column ...`.
    Incorrect {
        /** integer, string ... */
        kind: &'static str,
        /** text */
        value: String,
    },
    /// 1292: `Incorrect date value: 'abc' for column ...`.
    IncorrectTemporal {
        /** date, time, datetime */
        kind: &'static str,
        /** text */
        value: String,
    },
    /// 1292: `Truncated incorrect INTEGER value: 'abc'`.
    TruncatedIncorrect {
        /** INTEGER ... */
        kind: &'static str,
        /** text */
        value: String,
    },
}
/// The column a problem is reported for.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Database.
    pub db: &'a str,
    /// Table.
    pub table: &'a str,
    /// Column.
    pub column: &'a str,
    /// Row of the statement, from 1.
    pub row: u64,
}
impl Problem {
    /// As the client sees it.
    pub fn to_error(&self, _target: Target<'_>) -> SqlError {
        unimplemented!()
    }
    /// Whether it stays a note in strict mode.
    pub fn is_note(&self) -> bool {
        unimplemented!()
    }
}
/// Where conversions in expressions report what they had to bend.
pub type Report<'a> = &'a mut dyn FnMut(Problem);

/// Converts `value` of type `from` to what a column of type `to` holds. NULL passes.
/// In strict mode a problem that MariaDB raises as an error is `Err`; otherwise it comes beside the bent value.
pub fn store<'a>(
    _to: &SqlType,
    _from: &SqlType,
    _value: ValueRef<'a>,
    _context: &StoreContext<'_>,
) -> Result<(Cell<'a>, Option<Problem>), Problem> {
    unimplemented!()
}
/// A TIMESTAMP read from a row in the session's zone.
pub fn timestamp_to_local(_value: DateTime, _zone: &dyn Zone) -> DateTime {
    unimplemented!()
}
/// Compares two values of any types as MariaDB does; None if one is NULL.
pub fn compare(
    _a: ValueRef<'_>,
    _at: &SqlType,
    _b: ValueRef<'_>,
    _bt: &SqlType,
    _report: Report<'_>,
) -> Option<Ordering> {
    unimplemented!()
}
/// As an integer; unsigned values above i64::MAX wrap, so pass the type's `unsigned` on.
pub fn to_i64(_v: ValueRef<'_>, _ty: &SqlType, _report: Report<'_>) -> i64 {
    unimplemented!()
}
/// As a double.
pub fn to_f64(_v: ValueRef<'_>, _ty: &SqlType, _report: Report<'_>) -> f64 {
    unimplemented!()
}
/// As a decimal.
pub fn to_decimal(_v: ValueRef<'_>, _ty: &SqlType, _report: Report<'_>) -> Decimal {
    unimplemented!()
}
/// As a condition; NULL is None.
pub fn to_bool(_v: ValueRef<'_>, _ty: &SqlType, _report: Report<'_>) -> Option<bool> {
    unimplemented!()
}
/// Appends as text in `ty`'s character set (ASCII for what is not text).
pub fn to_text(_v: ValueRef<'_>, _ty: &SqlType, _out: &mut Vec<u8>) {
    unimplemented!()
}
/// As a point in time; None where it is none.
pub fn to_datetime(
    _v: ValueRef<'_>,
    _ty: &SqlType,
    _context: &StoreContext<'_>,
    _report: Report<'_>,
) -> Option<DateTime> {
    unimplemented!()
}
/// The value a typed literal or parameter carries over to `to` for comparing with an index: None if the comparison must not use `to`'s order.
pub fn for_index(
    _to: &SqlType,
    _from: &SqlType,
    _value: ValueRef<'_>,
    _context: &StoreContext<'_>,
) -> Option<Value> {
    unimplemented!()
}

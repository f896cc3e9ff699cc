//! Conversions: what a column makes of a value, and how values of different types compare and compute.
//!
//! [`store`] is assignment (INSERT, UPDATE, DEFAULT): it answers what the column then holds and, where the value had to be
//! bent, a [`Problem`]. Whether that is an error, a warning or a note is MariaDB's table of `sql_mode`: in strict mode all
//! but notes are errors. The `to_` functions and [`compare()`] are expressions: they always have a result, and report what
//! they bent through a callback, as "Truncated incorrect DOUBLE value".
//!
//! 1. Text is in the character set of its type's collation. All sets here contain ASCII, so that numbers and dates are read
//!    from the bytes as they are.
//! 2. A TIMESTAMP is UTC in rows and keys, and the session's wall clock everywhere else: [`store`] and [`for_index`] take
//!    the wall clock and answer UTC, [`timestamp_to_local`] is for columns as they are read.

mod compare;
mod number;
mod store_number;
mod store_temporal;
mod store_text;

use keel_base::{Level, SqlError, Warning, code, errors};

use crate::collation::{self, Charset};
use crate::temporal::Zone;
use crate::types::{Class, Format};
use crate::{Cell, CollationId, Date, Fixed, FixedKind, SqlMode, SqlType, TypeKind, Value, ValueRef, text};

pub use compare::{compare, compare_datetimes, for_index};
pub use number::{Number, read_number, to_bool, to_decimal, to_f64, to_i64};
pub use store_number::{fit_double, round_to};
pub use store_temporal::{timestamp_to_local, to_date, to_datetime, to_moment, to_time, to_time_or_datetime};
pub use store_text::{first_lost, repaired};

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
    pub today: Date,
}

/// What was wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// 1264: the nearest bound was taken.
    OutOfRange,
    /// 1265: part of the value was lost.
    Truncated,
    /// 1265 and 1264: of a text that only begins with a number, that number was out of range.
    TruncatedOutOfRange,
    /// 1264 twice: beyond what any integer holds, and beyond the column's range.
    OutOfRangeTwice,
    /// 1265, never an error: spaces, fractions or a time of day were lost.
    TruncatedNote,
    /// Text or octets too long: 1406, or a warning 1265.
    TooLong,
    /// Too many bits: 1406, or a warning 1264.
    TooManyBits,
    /// 1366: `Incorrect integer value: 'abc' for column ...`.
    Incorrect {
        /// `integer`, `decimal`, `double` or `string`.
        kind: &'static str,
        /// The value, printable.
        value: String,
    },
    /// 1292: `Incorrect date value: 'abc' for column ...`, or a warning 1265 or 1264.
    IncorrectTemporal {
        /// `date`, `time` or `datetime`.
        kind: &'static str,
        /// The value, printable.
        value: String,
        /// Whether it is a value beyond the type's range.
        out_of_range: bool,
    },
    /// 1292: `Incorrect datetime value: '...' for column ...`, or a warning 1299: a time that the session's clock skips.
    SkippedTime {
        /// The value, printable.
        value: String,
    },
    /// 1292: `Truncated incorrect INTEGER value: 'abc'`.
    TruncatedIncorrect {
        /// `INTEGER`, `DECIMAL`, `DOUBLE`, `datetime` or `time`.
        kind: &'static str,
        /// The value, printable.
        value: String,
    },
    /// 1292: `Incorrect inet6 value: 'abc' for column ...`, also as a warning.
    IncorrectFixed {
        /// `inet4`, `inet6` or `uuid`.
        kind: &'static str,
        /// The value, printable.
        value: String,
    },
    /// 4078: `Cannot cast 'int' as 'inet6' in assignment of ...`.
    CannotCast {
        /// The value's type.
        from: String,
        /// The column's type.
        to: String,
    },
    /// The same as a note: only trailing spaces, or digits behind microseconds, were cut off.
    TruncatedIncorrectNote {
        /// As above.
        kind: &'static str,
        /// The value, printable.
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

/// Where conversions in expressions report what they had to bend.
pub type Report<'a> = &'a mut dyn FnMut(Problem);

impl Problem {
    /// The error it is in strict mode.
    #[cold]
    pub fn to_error(&self, target: Target<'_>) -> SqlError {
        let Target { db, table, column, row } = target;
        match self {
            Problem::OutOfRange | Problem::OutOfRangeTwice => errors::warn_data_out_of_range(column, row),
            Problem::Truncated | Problem::TruncatedNote | Problem::TruncatedOutOfRange => {
                errors::warn_data_truncated(column, row)
            }
            Problem::TooLong | Problem::TooManyBits => errors::data_too_long(column, row),
            Problem::CannotCast { from, to } => SqlError {
                message: format!(
                    "Cannot cast '{from}' as '{to}' in assignment of `{db}`.`{table}`.`{column}`"
                )
                .into(),
                ..errors::illegal_parameter_data_types2_for_operation(from, to, "")
            },
            Problem::Incorrect { kind, value } => {
                errors::truncated_wrong_value_for_field(kind, value, db, table, column, row)
            }
            Problem::IncorrectTemporal { kind, value, .. } | Problem::IncorrectFixed { kind, value } => {
                SqlError {
                    code: code::TRUNCATED_WRONG_VALUE,
                    ..errors::truncated_wrong_value_for_field(kind, value, db, table, column, row)
                }
            }
            Problem::SkippedTime { value } => SqlError {
                code: code::TRUNCATED_WRONG_VALUE,
                ..errors::truncated_wrong_value_for_field("datetime", value, db, table, column, row)
            },
            Problem::TruncatedIncorrect { kind, value } | Problem::TruncatedIncorrectNote { kind, value } => {
                errors::truncated_wrong_value(kind, value)
            }
        }
    }

    /// The warning or note it is where it is no error.
    #[cold]
    pub fn to_warning(&self, target: Target<'_>) -> Warning {
        let error = match self {
            Problem::TooLong => errors::warn_data_truncated(target.column, target.row),
            Problem::TooManyBits => errors::warn_data_out_of_range(target.column, target.row),
            Problem::SkippedTime { .. } => errors::warn_invalid_timestamp(target.column, target.row),
            Problem::IncorrectTemporal { out_of_range: true, .. } => {
                errors::warn_data_out_of_range(target.column, target.row)
            }
            Problem::IncorrectTemporal { .. } => errors::warn_data_truncated(target.column, target.row),
            _ => self.to_error(target),
        };
        let level = if self.is_note() { Level::Note } else { Level::Warning };
        Warning { level, ..Warning::from(error) }
    }

    /// What MariaDB reports beside it.
    pub fn second(&self) -> Option<Problem> {
        matches!(self, Problem::TruncatedOutOfRange | Problem::OutOfRangeTwice).then_some(Problem::OutOfRange)
    }

    /// Whether it stays a note in strict mode.
    pub fn is_note(&self) -> bool {
        matches!(self, Problem::TruncatedNote | Problem::TruncatedIncorrectNote { .. })
    }
}

/// What one of the store functions found: the column's value and what had to be bent.
type Stored<'a> = (Cell<'a>, Option<Problem>);

fn exact<'a>(value: Value) -> Stored<'a> {
    (Cell::Owned(value), None)
}

fn bent<'a>(value: Value, problem: Problem) -> Stored<'a> {
    (Cell::Owned(value), Some(problem))
}

/// Converts `value` of type `from` to what a column of type `to` holds; NULL passes. In strict mode a problem that MariaDB
/// raises as an error is `Err`; otherwise it comes beside the bent value.
pub fn store<'a>(
    to: &SqlType,
    from: &SqlType,
    value: ValueRef<'a>,
    context: &StoreContext<'_>,
) -> Result<(Cell<'a>, Option<Problem>), Problem> {
    if value.is_null() {
        return Ok((Cell::Ref(ValueRef::Null), None));
    }
    if is_foreign(to, from) {
        let problem = Problem::CannotCast { from: type_name(from), to: type_name(to) };
        return if context.strict { Err(problem) } else { Ok((Cell::Ref(ValueRef::Null), Some(problem))) };
    }
    let (cell, problem) = match to.class() {
        Class::Int if to.is_integer() => store_number::integer(to, from, value),
        Class::Int if to.kind == TypeKind::Year => store_number::year(from, value, context.strict),
        Class::Int => store_number::bit(to, from, value),
        Class::Decimal => store_number::decimal(to, from, value),
        Class::Real => store_number::real(to, from, value),
        Class::String if to.has_members() => store_text::members(to, from, value),
        Class::String => store_text::string(to, from, value),
        Class::Date | Class::Time | Class::DateTime => store_temporal::temporal(to, from, value, context),
        Class::Fixed(kind) => fixed(kind, from, value),
        Class::Null => (Cell::Ref(ValueRef::Null), None),
    };
    match problem {
        Some(problem) if context.strict && !problem.is_note() => Err(problem),
        problem => Ok((cell, problem)),
    }
}

/// INET4, INET6 and UUID take text, and octets that are as many as theirs.
fn fixed<'a>(kind: FixedKind, from: &SqlType, value: ValueRef<'a>) -> Stored<'a> {
    match value {
        ValueRef::Fixed(v) if v.kind() == kind => (Cell::Ref(value), None),
        _ => match to_fixed(kind, value, from) {
            Some(v) => exact(Value::Fixed(v)),
            None => bent(
                Value::Null,
                Problem::IncorrectFixed { kind: kind.name(), value: printable(value, from) },
            ),
        },
    }
}

/// The address or UUID that a text or as many octets as it has are; none for anything else.
pub fn to_fixed(kind: FixedKind, value: ValueRef<'_>, ty: &SqlType) -> Option<Fixed> {
    match value {
        ValueRef::Fixed(v) => (v.kind() == kind).then_some(v),
        ValueRef::Bytes(octets) if ty.is_string() && ty.collation == CollationId::BINARY => {
            Fixed::from_octets(kind, octets)
        }
        ValueRef::Bytes(text) => Fixed::parse(kind, text),
        _ => {
            let mut text = Vec::new();
            to_text(value, ty, &mut text);
            Fixed::parse(kind, &text)
        }
    }
}

/// Whether no value of `from` can be assigned to a column of type `to`: addresses and UUIDs meet text alone.
pub fn is_foreign(to: &SqlType, from: &SqlType) -> bool {
    if from.kind == TypeKind::Null || to.kind == from.kind {
        return false;
    }
    let takes = |ty: &SqlType| ty.is_string() || ty.has_members();
    to.is_fixed() && !takes(from) || from.is_fixed() && !takes(to)
}

/// The name of a type as messages about types that do not meet have it.
pub fn type_name(ty: &SqlType) -> String {
    if ty.format == Format::Boolean {
        return "boolean".to_string();
    }
    let name = ty.sql_name();
    let word = name.split(['(', ' ']).next().unwrap_or(&name);
    // TEXT has the name of BLOB there.
    let blob = if ty.is_blob() { word.replace("text", "blob") } else { String::new() };
    let word = if ty.is_blob() { &blob } else { word };
    if ty.format == Format::Json && ty.is_string() {
        return format!("{word}/json");
    }
    if ty.unsigned && ty.is_integer() { format!("{word} unsigned") } else { word.to_string() }
}

/// Appends a value as text in `ty`'s character set (ASCII for what is not text).
pub fn to_text(value: ValueRef<'_>, ty: &SqlType, out: &mut Vec<u8>) {
    text::append(out, ty, value);
}

/// A value as error messages show it: UTF-8, octets that are no character as `\xNN`, other planes as `?`.
pub fn printable(value: ValueRef<'_>, ty: &SqlType) -> String {
    let mut bytes = Vec::new();
    to_text(value, ty, &mut bytes);
    let id = if ty.is_text() { ty.collation } else { CollationId::BINARY };
    printable_text(id, &bytes)
}

/// Octets of a value that a message shows at most, with the dots that stand for the rest.
const SHOWN_BYTES_MAX: usize = 128;
const DOTS: &str = "...";

/// The beginning of a long text, as messages show it.
fn shortened(mut text: String) -> String {
    if text.len() > SHOWN_BYTES_MAX {
        text.truncate(text.floor_char_boundary(SHOWN_BYTES_MAX - DOTS.len()));
        text.push_str(DOTS);
    }
    text
}

/// A text of a collation as error messages show it.
pub fn printable_text(id: CollationId, bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().min(SHOWN_BYTES_MAX));
    let mut rest = bytes;
    let is_binary = id == CollationId::BINARY;
    while !rest.is_empty() && out.len() <= SHOWN_BYTES_MAX {
        let char_bytes = collation::substring(id, rest, 0, 1);
        let is_octet = is_binary && !(b' '..0x7F).contains(&char_bytes[0]);
        if is_octet || collation::well_formed_len(id, char_bytes) == 0 {
            out.push_str(&format!("\\x{:02X}", char_bytes[0]));
            rest = &rest[1..];
            continue;
        }
        let (utf8, _) = collation::convert(id.charset(), Charset::Utf8mb3, char_bytes);
        match &*utf8 {
            [0] => out.push_str("\\0000"),
            utf8 => out.push_str(std::str::from_utf8(utf8).unwrap_or("?")),
        }
        rest = &rest[char_bytes.len()..];
    }
    shortened(out)
}

//! Literals to values and types.

use std::borrow::Cow;

use keel_base::{SqlError, SqlResult, errors};
use keel_expr::typing::{STRING_DECIMALS, int_type};
use keel_expr::{Derivation, Expr, Node};
use keel_sql::ast::{ByteStr, Literal, LiteralValue};
use keel_sql::{LiteralCell, TemporalCheck, TemporalLiteral};
use keel_value::collation::{self, Charset};
use keel_value::decimal::MAX_PRECISION;
use keel_value::types::Format;
use keel_value::{Cell, CollationId, Decimal, SqlMode, SqlType, TypeKind, Value, ValueRef, convert};

use super::Binder;

/// A literal's value and type under the connection's collation.
pub fn literal_value(
    literal: &LiteralValue,
    connection: CollationId,
    mode: SqlMode,
) -> SqlResult<(Value, SqlType)> {
    Ok(match literal {
        LiteralValue::Null => (Value::Null, SqlType::null()),
        LiteralValue::Bool(truth) => {
            (Value::Int(i64::from(*truth)), int_type(1, false).with_format(Format::Boolean))
        }
        LiteralValue::Int(value) => integer(*value),
        LiteralValue::Decimal(text) => decimal(text)?,
        LiteralValue::Float(value) => {
            (Value::Double(*value), SqlType::double().with_length(float_length(*value)))
        }
        LiteralValue::String { bytes, charset } => string(bytes, charset.as_deref(), connection)?,
        LiteralValue::Hex { bytes, charset, quoted } => octets(bytes, charset.as_deref(), !quoted)?,
        LiteralValue::Bit { bytes, charset } => octets(bytes, charset.as_deref(), true)?,
        LiteralValue::Date(text) => temporal(TemporalLiteral::Date, text, mode)?,
        LiteralValue::Time(text) => temporal(TemporalLiteral::Time, text, mode)?,
        LiteralValue::Timestamp(text) => temporal(TemporalLiteral::Timestamp, text, mode)?,
    })
}

fn integer(value: u64) -> (Value, SqlType) {
    let length = value.checked_ilog10().unwrap_or(0) + 1;
    match i64::try_from(value) {
        Ok(v) => (Value::Int(v), int_type(length, false)),
        Err(_) => (Value::UInt(value), int_type(length, true)),
    }
}

/// A number with a point, or one too long for an integer. One that is too long for any decimal is the greatest of 65 digits.
fn decimal(text: &str) -> SqlResult<(Value, SqlType)> {
    let Some(value) = Decimal::parse(text.as_bytes()) else {
        if !is_overlong(text) {
            return Err(errors::illegal_value_for_type("DECIMAL", text));
        }
        let bound = Decimal::max_value(MAX_PRECISION, 0);
        return Ok((Value::Decimal(bound), SqlType::decimal(MAX_PRECISION, 0)));
    };
    let fraction = text.split_once('.').map_or(0, |(_, f)| f.len()).min(38) as u8;
    let whole = text.split('.').next().unwrap_or("").trim_start_matches('0').len() as u32;
    let written = text.split('.').next().unwrap_or("").len() as u32;
    // MariaDB counts a leading zero as a digit, but no digit where none was written.
    let digits = if whole == 0 { u32::from(written > 0) } else { whole };
    let precision = (digits + u32::from(fraction)).max(1);
    Ok((Value::Decimal(value), SqlType::decimal(precision, fraction)))
}

/// Whether the text of a decimal has more digits before the point than a value holds.
fn is_overlong(text: &str) -> bool {
    Decimal::parse_prefix(text.as_bytes()).is_some_and(|parsed| parsed.overflow)
}

fn float_length(value: f64) -> u32 {
    let mut text = Vec::new();
    keel_value::text::append_f64(&mut text, value);
    text.len() as u32
}

/// Values of plain literals on their way into columns. Their types say what storing asks: kind, sign and collation.
pub struct CellTypes {
    int: SqlType,
    uint: SqlType,
    double: SqlType,
    text: SqlType,
    decimal: SqlType,
    /// Strings need no conversion.
    is_utf8: bool,
}

impl CellTypes {
    /// Of a connection.
    pub fn new(connection: CollationId) -> CellTypes {
        CellTypes {
            int: SqlType::bigint(),
            uint: SqlType::bigint_unsigned(),
            double: SqlType::double(),
            text: string_literal_type(b"", connection),
            decimal: SqlType::decimal(1, 0),
            is_utf8: stays_as_sent(connection.charset()),
        }
    }

    /// A literal's value and type.
    #[inline]
    pub fn value(&mut self, cell: LiteralCell<'_>) -> SqlResult<(Value, &SqlType)> {
        Ok(match cell {
            LiteralCell::Null => (Value::Null, &self.int),
            LiteralCell::Int(value) => (Value::Int(value), &self.int),
            LiteralCell::UInt(value) => (Value::UInt(value), &self.uint),
            LiteralCell::Float(value) => (Value::Double(value), &self.double),
            LiteralCell::Decimal(text) => {
                let digits = text.strip_prefix('-');
                let (value, ty) = decimal(digits.unwrap_or(text))?;
                self.decimal = ty;
                let value = match value {
                    Value::Decimal(number) if digits.is_some() => Value::Decimal(number.neg()),
                    Value::Double(number) if digits.is_some() => Value::Double(-number),
                    other => other,
                };
                (value, &self.decimal)
            }
            LiteralCell::String(bytes) if self.is_utf8 => (Value::bytes(&bytes), &self.text),
            LiteralCell::String(bytes) => {
                let stored = collation::convert(Charset::Utf8mb4, self.text.collation.charset(), &bytes).0;
                (Value::bytes(&stored), &self.text)
            }
        })
    }
}

/// Whether a literal in UTF-8 is one of a connection's character set as it is. Characters of four bytes are no text of utf8mb3,
/// which is told where they are stored.
fn stays_as_sent(connection: Charset) -> bool {
    matches!(connection, Charset::Utf8mb4 | Charset::Utf8mb3 | Charset::Binary)
}

fn charset_by_name(name: &str) -> SqlResult<Charset> {
    Charset::in_expressions(name).ok_or_else(|| errors::unknown_character_set(name))
}

fn string(bytes: &ByteStr, charset: Option<&str>, connection: CollationId) -> SqlResult<(Value, SqlType)> {
    let collation = match charset {
        Some(name) => charset_by_name(name)?.default_collation(),
        None => connection,
    };
    let stored: Cow<'_, [u8]> = match charset {
        // An introducer says what the bytes mean that the client sent; whether they are text of that set nobody asks.
        Some(_) => collation.charset().padded(&bytes.0),
        None if stays_as_sent(collation.charset()) => Cow::Borrowed(&bytes.0),
        None => collation::convert(Charset::Utf8mb4, collation.charset(), &bytes.0).0,
    };
    Ok((Value::bytes(&stored), string_literal_type(&stored, collation)))
}

/// Bytes of a bad character that 1300 shows.
const BAD_OCTETS_SHOWN: usize = 3;

/// 1300 where an introducer names a set that bytes written as a number are no text of.
fn check_octets(octets: &[u8], collation: CollationId) -> SqlResult<()> {
    let good = collation::well_formed_len(collation, octets);
    if good == octets.len() {
        return Ok(());
    }
    let bad = octets[good..].iter().take(BAD_OCTETS_SHOWN);
    let shown: String = bad.map(|octet| format!("{octet:02X}")).collect();
    Err(errors::invalid_character_string(collation.charset().name(), shown))
}

/// The type of a string literal in its own character set.
pub(crate) fn string_literal_type(stored: &[u8], collation: CollationId) -> SqlType {
    let chars = collation::char_len(collation, stored) as u32;
    let ty = if collation == CollationId::BINARY {
        SqlType::varbinary(chars)
    } else {
        SqlType::varchar(chars, collation)
    };
    ty.with_decimals(STRING_DECIMALS)
}

/// `x'..'`, `0x..`, `b'..'`: octets; all but the first are numbers where a number is wanted, marked as unsigned.
fn octets(bytes: &ByteStr, charset: Option<&str>, number: bool) -> SqlResult<(Value, SqlType)> {
    if let Some(name) = charset {
        let collation = charset_by_name(name)?.default_collation();
        let padded = collation.charset().padded(&bytes.0);
        check_octets(&padded, collation)?;
        return Ok((Value::bytes(&padded), string_literal_type(&padded, collation)));
    }
    let ty = SqlType { unsigned: number, ..SqlType::varbinary(bytes.0.len() as u32) };
    Ok((Value::bytes(&bytes.0), ty))
}

fn fraction_digits(text: &ByteStr) -> u8 {
    let digits = text.0.iter().rposition(|b| *b == b'.').map_or(0, |point| text.0.len() - point - 1);
    digits.min(6) as u8
}

/// 1525 for a date with a time where a date is to stand alone, and for one without a time where both are to stand.
fn check_parts(text: &ByteStr, with_time: bool) -> SqlResult<()> {
    const DATE_PARTS: usize = 3;
    let mut runs = text.0.split(|byte| !byte.is_ascii_digit()).filter(|run| !run.is_empty());
    // Digits without marks between them: a year of two or four, then pairs.
    let first = runs.next().map_or(0, |run| match run.len() {
        0..=4 => 1,
        length @ (8 | 14..) => 1 + (length - 4).div_ceil(2),
        length => 1 + (length - 2).div_ceil(2),
    });
    let has_time = first + runs.count() > DATE_PARTS;
    match has_time == with_time {
        true => Ok(()),
        false => {
            let name = if with_time { "DATETIME" } else { "DATE" };
            Err(errors::wrong_value(name, String::from_utf8_lossy(&text.0)))
        }
    }
}

/// The value and type of a temporal literal.
fn temporal(kind: TemporalLiteral, text: &ByteStr, mode: SqlMode) -> SqlResult<(Value, SqlType)> {
    let (ty, name) = match kind {
        TemporalLiteral::Date => (SqlType::new(TypeKind::Date), "DATE"),
        TemporalLiteral::Time => (SqlType::temporal(TypeKind::Time, fraction_digits(text)), "TIME"),
        TemporalLiteral::Timestamp => {
            (SqlType::temporal(TypeKind::DateTime, fraction_digits(text)), "DATETIME")
        }
    };
    if kind != TemporalLiteral::Time {
        check_parts(text, kind == TemporalLiteral::Timestamp)?;
    }
    Ok((temporal_as(text, &ty, name, mode)?, ty))
}

/// Which strings in ODBC's braces are temporal literals under a `sql_mode`.
pub fn temporal_check(mode: SqlMode) -> TemporalCheck {
    TemporalCheck {
        sql_mode: mode.0,
        accepts: |kind, text, mode| temporal(kind, text, SqlMode(mode)).is_ok(),
    }
}

fn temporal_as(text: &ByteStr, ty: &SqlType, name: &str, mode: SqlMode) -> SqlResult<Value> {
    let wrong = || -> SqlError { errors::wrong_value(name, String::from_utf8_lossy(&text.0)) };
    let from = SqlType::varchar(text.0.len() as u32, CollationId::UTF8MB4_GENERAL_CI);
    let context = convert::StoreContext {
        mode,
        strict: true,
        zone: &keel_value::temporal::Utc,
        today: keel_value::Date::default(),
    };
    match convert::store(ty, &from, ValueRef::Bytes(&text.0), &context) {
        Ok((cell, None)) => Ok(Cell::into_value(cell)),
        _ => Err(wrong()),
    }
}

impl Binder<'_> {
    /// A literal: a parameter where the statement came as text and nothing but its value matters, else a constant.
    pub(super) fn literal(&mut self, literal: &Literal) -> SqlResult<Expr> {
        let vars = &self.cx.session.vars;
        let own = self.cx.session.literal_collation();
        let collation = self.within_views.last().map_or(own, |v| v.connection_collation);
        let (value, ty) = literal_value(&literal.value, collation, vars.sql_mode)?;
        if let (Some(index), Some(literals)) = (literal.index, self.cx.params.literals)
            && is_parameter(&literal.value)
            && !literals[index as usize].fixed
            && !self.pins_literals
            && !(self.pins_decimals && matches!(literal.value, LiteralValue::Decimal(_)))
            && !is_long(&value, &ty)
        {
            let derivation = if ty.is_string() { Derivation::Coercible } else { Derivation::Numeric };
            return Ok(Expr { node: Node::Param(index), ty, nullable: false, derivation });
        }
        self.pin(literal);
        if let LiteralValue::Decimal(text) = &literal.value
            && is_overlong(text)
        {
            self.odd_lengths.push(errors::data_overflow("", "DECIMAL"));
        }
        // MariaDB takes a date with zero parts for one that may be NULL.
        let is_zero = match &value {
            Value::Date(date) => !date.is_real(),
            Value::DateTime(at) => !at.date.is_real(),
            _ => false,
        };
        let constant = Expr::constant(value, ty);
        Ok(Expr { nullable: constant.nullable || is_zero, ..constant })
    }

    /// Remembers that the plan holds for this literal's text only.
    pub(crate) fn pin(&mut self, literal: &Literal) {
        if let Some(index) = literal.index {
            self.pin_index(index);
        }
    }

    /// The same, of a literal that is a parameter by now.
    pub(crate) fn pin_index(&mut self, index: u32) {
        if self.pinned.last() != Some(&index) {
            self.pinned.push(index);
        }
    }
}

/// Whether a decimal has more digits than a column, or more behind the point than its type: they count in types of expressions.
fn is_long(value: &Value, ty: &SqlType) -> bool {
    matches!(value, Value::Decimal(number) if number.scale() > ty.decimals || ty.length >= MAX_PRECISION)
}

/// Literals whose value alone, and not their form, makes the plan.
fn is_parameter(value: &LiteralValue) -> bool {
    match value {
        LiteralValue::Int(_) | LiteralValue::Decimal(_) | LiteralValue::Float(_) => true,
        LiteralValue::String { charset, .. } => charset.is_none(),
        _ => false,
    }
}

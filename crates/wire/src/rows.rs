//! Rows of result sets: as text for COM_QUERY, binary for prepared statements.
//!
//! ```text
//! text    per column: length-encoded bytes, or 0xfb for NULL
//! binary  0x00 | NULL bitmap, column i at bit i + 2 | values of the columns that are not NULL
//! ```
//! In binary rows, integers take their column's width, temporals drop trailing zero parts, everything else is
//! length-encoded text.

use keel_value::{Date, DateTime, SqlType, Time, TypeKind, Value, ValueRef, text};

use crate::capability::type_code;
use crate::codec::{Malformed, NULL_MARK, Reader, put_lenenc_bytes, put_measured};
use crate::reply::Column;

/// Bits of a binary row's NULL bitmap before the first column.
const NULL_BITMAP_OFFSET: usize = 2;

/// Appends one value of a text row.
#[inline]
pub fn put_text(out: &mut Vec<u8>, ty: &SqlType, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => out.push(NULL_MARK),
        ValueRef::Bytes(bytes) => put_lenenc_bytes(out, bytes),
        ValueRef::Int(v) if !ty.zerofill => put_measured(out, |out| text::append_i64(out, v)),
        other => put_measured(out, |out| text::append(out, ty, other)),
    }
}

/// Appends the beginning of a binary row of `columns` columns; gives where its NULL bitmap starts.
#[inline]
#[must_use]
pub fn begin_binary(out: &mut Vec<u8>, columns: usize) -> usize {
    out.push(0);
    let bitmap = out.len();
    out.resize(bitmap + (columns + NULL_BITMAP_OFFSET).div_ceil(8), 0);
    bitmap
}

/// Appends column `index` of the binary row whose NULL bitmap starts at `bitmap`.
#[inline]
pub fn put_binary(out: &mut Vec<u8>, bitmap: usize, index: usize, ty: &SqlType, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => {
            let bit = index + NULL_BITMAP_OFFSET;
            out[bitmap + bit / 8] |= 1 << (bit % 8);
        }
        ValueRef::Bytes(bytes) => put_lenenc_bytes(out, bytes),
        other => put_binary_value(out, ty, other),
    }
}

fn put_binary_value(out: &mut Vec<u8>, ty: &SqlType, value: ValueRef<'_>) {
    use TypeKind::*;
    match (ty.kind, value) {
        (TinyInt | SmallInt | MediumInt | Int | BigInt | Year, ValueRef::Int(v)) => {
            put_integer(out, ty.kind, v)
        }
        (TinyInt | SmallInt | MediumInt | Int | BigInt | Year, ValueRef::UInt(v)) => {
            put_integer(out, ty.kind, v as i64);
        }
        (Float, _) => out.extend_from_slice(&(real(value) as f32).to_le_bytes()),
        (Double, _) => out.extend_from_slice(&real(value).to_le_bytes()),
        (Date, ValueRef::Date(date)) => put_date(out, date),
        (DateTime | Timestamp, ValueRef::DateTime(datetime)) => put_datetime(out, datetime),
        (DateTime | Timestamp, ValueRef::Date(date)) => put_date(out, date),
        (Time, ValueRef::Time(time)) => put_time(out, time),
        _ => put_measured(out, |out| text::append(out, ty, value)),
    }
}

#[inline]
fn put_integer(out: &mut Vec<u8>, kind: TypeKind, value: i64) {
    let width = match kind {
        TypeKind::TinyInt => 1,
        TypeKind::SmallInt | TypeKind::Year => 2,
        TypeKind::MediumInt | TypeKind::Int => 4,
        _ => 8,
    };
    out.extend_from_slice(&value.to_le_bytes()[..width]);
}

fn real(value: ValueRef<'_>) -> f64 {
    match value {
        ValueRef::Int(v) => v as f64,
        ValueRef::UInt(v) => v as f64,
        ValueRef::Double(v) => v,
        ValueRef::Float(v) => f64::from(v),
        ValueRef::Decimal(v) => v.to_f64(),
        _ => 0.0,
    }
}

fn put_date(out: &mut Vec<u8>, date: Date) {
    if date == Date::default() {
        return out.push(0);
    }
    let [low, high] = date.year.to_le_bytes();
    out.extend_from_slice(&[4, low, high, date.month, date.day]);
}

fn put_datetime(out: &mut Vec<u8>, value: DateTime) {
    let length = match value {
        DateTime { micros: 1.., .. } => 11,
        DateTime { hour: 0, minute: 0, second: 0, .. } => return put_date(out, value.date),
        _ => 7,
    };
    let [low, high] = value.date.year.to_le_bytes();
    out.extend_from_slice(&[length, low, high, value.date.month, value.date.day]);
    out.extend_from_slice(&[value.hour, value.minute, value.second]);
    if length == 11 {
        out.extend_from_slice(&value.micros.to_le_bytes());
    }
}

const MICROS: u64 = 1_000_000;

fn put_time(out: &mut Vec<u8>, value: Time) {
    let magnitude = value.micros.unsigned_abs();
    if magnitude == 0 {
        return out.push(0);
    }
    let (seconds, micros) = (magnitude / MICROS, (magnitude % MICROS) as u32);
    let length = if micros == 0 { 8 } else { 12 };
    out.extend_from_slice(&[length, u8::from(value.micros < 0)]);
    out.extend_from_slice(&((seconds / 86_400) as u32).to_le_bytes());
    out.extend_from_slice(&[(seconds / 3600 % 24) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8]);
    if micros != 0 {
        out.extend_from_slice(&micros.to_le_bytes());
    }
}

/// Reads a DATE, DATETIME or TIMESTAMP in binary form.
pub(crate) fn read_datetime(reader: &mut Reader<'_>) -> Result<DateTime, Malformed> {
    let length = reader.u8()?;
    let mut parts = Reader::new(reader.take(usize::from(length))?);
    let mut value = DateTime::default();
    if length == 0 {
        return Ok(value);
    }
    value.date = Date { year: parts.u16()?, month: parts.u8()?, day: parts.u8()? };
    if length > 4 {
        (value.hour, value.minute, value.second) = (parts.u8()?, parts.u8()?, parts.u8()?);
    }
    if length > 7 {
        value.micros = parts.u32()?;
    }
    Ok(value)
}

/// Reads a TIME in binary form; what lies beyond any TIME becomes the largest.
pub(crate) fn read_time(reader: &mut Reader<'_>) -> Result<Time, Malformed> {
    const MICROS_MAX: i64 = ((838 * 60 + 59) * 60 + 59) * 1_000_000 + 999_999;
    let length = reader.u8()?;
    let mut parts = Reader::new(reader.take(usize::from(length))?);
    if length == 0 {
        return Ok(Time::default());
    }
    let negative = parts.u8()? != 0;
    let mut seconds = i64::from(parts.u32()?) * 86_400;
    for unit in [3600, 60, 1] {
        seconds += i64::from(parts.u8()?) * unit;
    }
    let micros = if length > 8 { i64::from(parts.u32()?) } else { 0 };
    let magnitude = seconds.saturating_mul(MICROS as i64).saturating_add(micros).min(MICROS_MAX);
    Ok(Time { micros: if negative { -magnitude } else { magnitude } })
}

/// Reads a text row: the bytes of each column, None for NULL.
pub fn decode_text(payload: &[u8], columns: usize) -> Result<Vec<Option<Vec<u8>>>, Malformed> {
    let mut reader = Reader::new(payload);
    let mut row = Vec::with_capacity(columns.min(payload.len()));
    for _ in 0..columns {
        row.push(reader.nullable_bytes()?.map(<[u8]>::to_vec));
    }
    if reader.is_empty() { Ok(row) } else { Err(Malformed) }
}

/// Reads a binary row.
pub fn decode_binary(payload: &[u8], columns: &[Column]) -> Result<Vec<Value>, Malformed> {
    let mut reader = Reader::new(payload);
    reader.u8()?;
    let bitmap = reader.take((columns.len() + NULL_BITMAP_OFFSET).div_ceil(8))?;
    let mut row = Vec::with_capacity(columns.len());
    for (index, column) in columns.iter().enumerate() {
        let bit = index + NULL_BITMAP_OFFSET;
        row.push(if bitmap[bit / 8] & 1 << (bit % 8) != 0 {
            Value::Null
        } else {
            let unsigned = column.flags & keel_value::types::flags::UNSIGNED != 0;
            read_binary(&mut reader, column.type_code, unsigned)?
        });
    }
    if reader.is_empty() { Ok(row) } else { Err(Malformed) }
}

/// Passes over one value in the binary form of a type code.
pub(crate) fn skip_binary(reader: &mut Reader<'_>, code: u8) -> Result<(), Malformed> {
    let bytes = match code {
        type_code::NULL => 0,
        type_code::TINY => 1,
        type_code::SHORT | type_code::YEAR => 2,
        type_code::LONG | type_code::INT24 | type_code::FLOAT => 4,
        type_code::LONGLONG | type_code::DOUBLE => 8,
        type_code::DATE
        | type_code::NEWDATE
        | type_code::DATETIME
        | type_code::TIMESTAMP
        | type_code::TIME => usize::from(reader.u8()?),
        _ => return reader.lenenc_bytes().map(|_| ()),
    };
    reader.take(bytes).map(|_| ())
}

/// Reads one value in the binary form of a type code, as both rows and parameters have it.
pub(crate) fn read_binary(reader: &mut Reader<'_>, code: u8, unsigned: bool) -> Result<Value, Malformed> {
    let integer = |signed: i64, raw: u64| if unsigned { Value::UInt(raw) } else { Value::Int(signed) };
    Ok(match code {
        type_code::TINY => {
            let raw = reader.u8()?;
            integer(i64::from(raw as i8), u64::from(raw))
        }
        type_code::SHORT | type_code::YEAR => {
            let raw = reader.u16()?;
            integer(i64::from(raw as i16), u64::from(raw))
        }
        type_code::LONG | type_code::INT24 => {
            let raw = reader.u32()?;
            integer(i64::from(raw as i32), u64::from(raw))
        }
        type_code::LONGLONG => {
            let raw = reader.u64()?;
            integer(raw as i64, raw)
        }
        type_code::FLOAT => Value::Float(f32::from_bits(reader.u32()?)),
        type_code::DOUBLE => Value::Double(f64::from_bits(reader.u64()?)),
        type_code::NULL => Value::Null,
        type_code::DATE | type_code::NEWDATE => Value::Date(read_datetime(reader)?.date),
        type_code::DATETIME | type_code::TIMESTAMP => Value::DateTime(read_datetime(reader)?),
        type_code::TIME => Value::Time(read_time(reader)?),
        type_code::DECIMAL | type_code::NEWDECIMAL => {
            let digits = reader.lenenc_bytes()?;
            keel_value::Decimal::parse(digits).map_or_else(|| Value::bytes(digits), Value::Decimal)
        }
        type_code::VARCHAR | type_code::BIT | type_code::JSON.. => Value::bytes(reader.lenenc_bytes()?),
        _ => return Err(Malformed),
    })
}

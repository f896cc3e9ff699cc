//! Values in the images of rows.

use keel_value::{Date, DateTime, Decimal, Time, ValueRef};

use crate::bytes::{Input, Output, bit, bitmap_bytes};
use crate::columns::{Column, ColumnKind};
use crate::error::{Error, Result};
use crate::old_temporal;

/// Reads an image: the columns whose bit in `present` is set.
pub(crate) fn read<'a>(
    input: &mut Input<'a>,
    columns: &[Column],
    present: &[u8],
    values: &mut Vec<Option<ValueRef<'a>>>,
) -> Result<()> {
    let count = (0..columns.len()).filter(|index| bit(present, *index)).count();
    let nulls = input.take(bitmap_bytes(count))?;
    let mut nth = 0;
    for (index, column) in columns.iter().enumerate() {
        if !bit(present, index) {
            values.push(None);
            continue;
        }
        let value = if bit(nulls, nth) { ValueRef::Null } else { read_value(input, column)? };
        values.push(Some(value));
        nth += 1;
    }
    Ok(())
}

/// Appends an image.
pub(crate) fn append<'v>(
    out: &mut Vec<u8>,
    columns: &[Column],
    present: &[u8],
    mut value: impl FnMut(usize) -> ValueRef<'v>,
) -> Result<()> {
    let count = (0..columns.len()).filter(|index| bit(present, *index)).count();
    let nulls = out.len();
    // MariaDB leaves unused bits set.
    out.resize(nulls + bitmap_bytes(count), 0xff);
    let mut nth = 0;
    for (index, column) in columns.iter().enumerate() {
        if !bit(present, index) {
            continue;
        }
        let value = value(index);
        if !value.is_null() {
            out[nulls + nth / 8] &= !(1 << (nth % 8));
            append_value(out, column, value)?;
        }
        nth += 1;
    }
    Ok(())
}

/// Reads a value that is not NULL.
pub(crate) fn read_value<'a>(input: &mut Input<'a>, column: &Column) -> Result<ValueRef<'a>> {
    let at = input.offset();
    Ok(match column.kind {
        ColumnKind::Int { bytes } => {
            let v = input.uint(bytes.into())?;
            let unused = 64 - 8 * u32::from(bytes);
            if column.unsigned { ValueRef::UInt(v) } else { ValueRef::Int((v << unused) as i64 >> unused) }
        }
        ColumnKind::Decimal { precision, scale } => {
            let bytes = input.take(Decimal::stored_bytes(precision.into(), scale))?;
            if !is_decimal(bytes, precision, scale) {
                return Err(Error::invalid(at, "DECIMAL"));
            }
            ValueRef::Decimal(Decimal::load(precision.into(), scale, bytes))
        }
        ColumnKind::Float => ValueRef::Float(f32::from_le_bytes(input.array()?)),
        ColumnKind::Double => ValueRef::Double(f64::from_le_bytes(input.array()?)),
        ColumnKind::Bit { bits } => ValueRef::UInt(input.uint_be(bits.div_ceil(8).into())?),
        ColumnKind::Year => match input.u8()? {
            0 => ValueRef::UInt(0),
            v => ValueRef::UInt(1900 + u64::from(v)),
        },
        ColumnKind::Date => {
            let date = Date::from_packed(input.uint(3)? as u32);
            ValueRef::Date(check_date(date).ok_or_else(|| Error::invalid(at, "DATE"))?)
        }
        ColumnKind::Time { digits } => {
            let bytes = input.take(Time::stored_bytes(digits))?;
            ValueRef::Time(load_time(bytes, digits).ok_or_else(|| Error::invalid(at, "TIME"))?)
        }
        ColumnKind::DateTime { digits } => {
            let bytes = input.take(DateTime::stored_bytes(digits))?;
            let value = DateTime::load(digits, bytes);
            let sound = bytes[0] & 0x80 != 0 && is_datetime(&value);
            if !sound {
                return Err(Error::invalid(at, "DATETIME"));
            }
            ValueRef::DateTime(value)
        }
        ColumnKind::Timestamp { digits } => {
            let bytes = input.take(DateTime::timestamp_bytes(digits))?;
            if fraction(&bytes[4..], digits) > 999_999 {
                return Err(Error::invalid(at, "TIMESTAMP"));
            }
            ValueRef::DateTime(DateTime::load_timestamp(digits, bytes))
        }
        ColumnKind::OldTime { digits } => ValueRef::Time(old_temporal::read_time(input, digits)?),
        ColumnKind::OldDateTime { digits } => ValueRef::DateTime(old_temporal::read_datetime(input, digits)?),
        ColumnKind::OldTimestamp { digits } => {
            ValueRef::DateTime(old_temporal::read_timestamp(input, digits)?)
        }
        ColumnKind::Enum { bytes } | ColumnKind::Set { bytes } => ValueRef::UInt(input.uint(bytes.into())?),
        ColumnKind::Null => return Err(Error::invalid(at, "value of a column that is always NULL")),
        kind => {
            let length = input.uint(length_bytes(kind))?;
            ValueRef::Bytes(input.take(length as usize)?)
        }
    })
}

/// Bytes of the length of a string.
fn length_bytes(kind: ColumnKind) -> usize {
    match kind {
        ColumnKind::Char { bytes } | ColumnKind::VarChar { bytes, .. } if bytes > 255 => 2,
        ColumnKind::Blob { length_bytes, .. }
        | ColumnKind::Geometry { length_bytes }
        | ColumnKind::MysqlJson { length_bytes } => length_bytes.into(),
        _ => 1,
    }
}

/// Whether all groups of digits of a stored DECIMAL are in range.
fn is_decimal(bytes: &[u8], precision: u8, scale: u8) -> bool {
    const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let mask = if bytes[0] & 0x80 == 0 { 0xff } else { 0 };
    let (whole, behind) = (usize::from(precision - scale), usize::from(scale));
    let groups =
        [whole % 9].into_iter().chain(std::iter::repeat_n(9, whole / 9 + behind / 9)).chain([behind % 9]);
    let mut at = 0;
    for digits in groups.filter(|digits| *digits > 0) {
        let mut group = 0u32;
        for _ in 0..BYTES[digits] {
            let sign = if at == 0 { 0x80 } else { 0 };
            group = group << 8 | u32::from(bytes[at] ^ mask ^ sign);
            at += 1;
        }
        if group >= 10u32.pow(digits as u32) {
            return false;
        }
    }
    true
}

fn check_date(date: Date) -> Option<Date> {
    (date.year <= 9999 && date.month <= 12).then_some(date)
}

pub(crate) fn is_datetime(value: &DateTime) -> bool {
    check_date(value.date).is_some()
        && value.hour < 24
        && value.minute < 60
        && value.second < 60
        && !value.repeated
        && value.micros < 1_000_000
}

/// A stored fraction in microseconds.
fn fraction(bytes: &[u8], digits: u8) -> u64 {
    let v = bytes.iter().fold(0, |v, b| v << 8 | u64::from(*b));
    v * [1, 10_000, 10_000, 100, 100, 1, 1][usize::from(digits)]
}

fn load_time(bytes: &[u8], digits: u8) -> Option<Time> {
    let bits = 8 * (bytes.len() - 3);
    let v = bytes.iter().fold(0i64, |v, b| v << 8 | i64::from(*b)) - (0x80_0000 << bits);
    let size = v.unsigned_abs();
    let clock = size >> bits;
    let micros = (size & ((1 << bits) - 1)) * [1, 10_000, 10_000, 100, 100, 1, 1][usize::from(digits)];
    let sound = clock >> 12 <= 838 && clock >> 6 & 63 < 60 && clock & 63 < 60 && micros < 1_000_000;
    sound.then(|| Time::load(digits, bytes))
}

/// Appends a value that is not NULL.
pub(crate) fn append_value(out: &mut Vec<u8>, column: &Column, value: ValueRef<'_>) -> Result<()> {
    let at = out.len();
    match (column.kind, value) {
        (ColumnKind::Int { bytes }, ValueRef::Int(v)) => {
            let unused = 64 - 8 * u32::from(bytes);
            let fits = if column.unsigned {
                v >= 0 && v as u64 <= u64::MAX >> unused
            } else {
                v << unused >> unused == v
            };
            append_int(out, bytes, v as u64, fits)?;
        }
        (ColumnKind::Int { bytes }, ValueRef::UInt(v)) => {
            let max = u64::MAX >> (64 - 8 * u32::from(bytes)) >> u32::from(!column.unsigned);
            append_int(out, bytes, v, v <= max)?;
        }
        (ColumnKind::Decimal { precision, scale }, ValueRef::Decimal(v)) => {
            let fits = v.scale() == scale && v.precision() <= precision.into();
            if !fits && v.fit(precision.into(), scale).1 != keel_value::decimal::Fit::Exact {
                return Err(Error::no_room(at, "a DECIMAL"));
            }
            v.store(precision.into(), scale, out);
        }
        (ColumnKind::Float, ValueRef::Float(v)) => out.put(&v.to_le_bytes()),
        (ColumnKind::Double, ValueRef::Double(v)) => out.put(&v.to_le_bytes()),
        (ColumnKind::Bit { bits }, ValueRef::UInt(v)) => {
            let count = usize::from(bits.div_ceil(8));
            if count < 8 && v >> (8 * count) != 0 {
                return Err(Error::no_room(at, "a BIT"));
            }
            out.put_uint_be(v, count);
        }
        (ColumnKind::Year, ValueRef::UInt(v)) => match v {
            0 => out.push(0),
            1901..=2155 => out.push((v - 1900) as u8),
            _ => return Err(Error::no_room(at, "a YEAR")),
        },
        (ColumnKind::Enum { bytes } | ColumnKind::Set { bytes }, ValueRef::UInt(v)) => {
            if bytes < 8 && v >> (8 * bytes) != 0 {
                return Err(Error::no_room(at, "a member of an ENUM or SET"));
            }
            out.put_uint(v, bytes.into());
        }
        (_, ValueRef::Date(_) | ValueRef::Time(_) | ValueRef::DateTime(_)) => {
            append_temporal(out, column.kind, value)?;
        }
        (ColumnKind::Char { .. }, ValueRef::Fixed(v)) => {
            append_string(out, column.kind, without_padding(v.octets(), &[0]))?;
        }
        (_, ValueRef::Bytes(bytes)) => append_string(out, column.kind, bytes)?,
        _ => return Err(Error::invalid(at, "value for the type of its column")),
    }
    Ok(())
}

/// A CHAR or BINARY value without the padding at its end. The padding is a space in the column's character
/// set, or a zero byte for BINARY.
pub fn without_padding<'a>(mut value: &'a [u8], padding: &[u8]) -> &'a [u8] {
    while let Some(shorter) = value.strip_suffix(padding).filter(|_| !padding.is_empty()) {
        value = shorter;
    }
    value
}

fn append_int(out: &mut Vec<u8>, bytes: u8, v: u64, fits: bool) -> Result<()> {
    if !fits {
        return Err(Error::no_room(out.len(), "an integer"));
    }
    out.put_uint(v, bytes.into());
    Ok(())
}

fn append_string(out: &mut Vec<u8>, kind: ColumnKind, bytes: &[u8]) -> Result<()> {
    let max = match kind {
        ColumnKind::Char { bytes } | ColumnKind::VarChar { bytes, .. } => bytes.into(),
        ColumnKind::Blob { length_bytes, .. }
        | ColumnKind::Geometry { length_bytes }
        | ColumnKind::MysqlJson { length_bytes } => (1 << (8 * length_bytes)) - 1,
        _ => return Err(Error::invalid(out.len(), "value for the type of its column")),
    };
    let count = length_bytes(kind);
    if bytes.len() as u64 > max || bytes.len() as u64 >> (8 * count) != 0 {
        return Err(Error::no_room(out.len(), "a string"));
    }
    out.put_uint(bytes.len() as u64, count);
    out.put(bytes);
    Ok(())
}

fn append_temporal(out: &mut Vec<u8>, kind: ColumnKind, value: ValueRef<'_>) -> Result<()> {
    let at = out.len();
    let fits = match (kind, value) {
        (ColumnKind::Date, ValueRef::Date(v)) => check_date(v).is_some() && v.day <= 31,
        (ColumnKind::Time { digits } | ColumnKind::OldTime { digits }, ValueRef::Time(v)) => {
            v.cut(digits) == v && v.micros.unsigned_abs() <= Time::MAX.micros.unsigned_abs()
        }
        (ColumnKind::DateTime { digits } | ColumnKind::OldDateTime { digits }, ValueRef::DateTime(v)) => {
            v.cut(digits) == v && is_datetime(&v) && v.date.day <= 31
        }
        (ColumnKind::Timestamp { digits } | ColumnKind::OldTimestamp { digits }, ValueRef::DateTime(v)) => {
            v.cut(digits) == v && is_instant(&v)
        }
        _ => return Err(Error::invalid(at, "value for the type of its column")),
    };
    if !fits {
        return Err(Error::no_room(at, "a date or time"));
    }
    match (kind, value) {
        (ColumnKind::Date, ValueRef::Date(v)) => out.put_uint(v.packed().into(), 3),
        (ColumnKind::Time { digits }, ValueRef::Time(v)) => v.store(digits, out),
        (ColumnKind::DateTime { digits }, ValueRef::DateTime(v)) => v.store(digits, out),
        (ColumnKind::Timestamp { digits }, ValueRef::DateTime(v)) => v.store_timestamp(digits, out),
        (ColumnKind::OldTime { digits }, ValueRef::Time(v)) => old_temporal::append_time(out, v, digits),
        (ColumnKind::OldDateTime { digits }, ValueRef::DateTime(v)) => {
            old_temporal::append_datetime(out, v, digits);
        }
        (ColumnKind::OldTimestamp { digits }, ValueRef::DateTime(v)) => {
            old_temporal::append_timestamp(out, v, digits);
        }
        _ => {}
    }
    Ok(())
}

/// Whether a TIMESTAMP can have this value, in UTC.
fn is_instant(value: &DateTime) -> bool {
    if value.is_zero() {
        return true;
    }
    is_datetime(value) && value.date.is_real() && (0..=i64::from(u32::MAX)).contains(&value.to_unix())
}

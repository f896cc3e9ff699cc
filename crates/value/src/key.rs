//! Memory-comparable keys: memcmp of two keys orders them as MariaDB orders their columns.
//!
//! | type | octets |
//! |---|---|
//! | integers | big-endian in the type's width, sign bit inverted |
//! | ENUM, SET, BIT, YEAR | big-endian in the stored width |
//! | FLOAT, DOUBLE | big-endian, sign bit inverted, negative numbers inverted whole; -0 as 0 |
//! | DECIMAL, TIME, DATETIME, TIMESTAMP | the stored form, which orders already |
//! | DATE | the packed number, 3 octets |
//! | INET4, INET6, UUID | their ordered octets, see [`crate::fixed`] |
//! | text and octets | sort weights that end themselves, see [`crate::collation::weights`] |
//!
//! 1. A column that may be NULL is led by 00 for NULL, alone, or 01. A descending column is inverted, its leading octet
//!    too.
//! 2. No encoded column is a prefix of another of its type, so that columns can simply follow each other.

use crate::collation;
use crate::temporal::{Date, DateTime, Time};
use crate::{Decimal, Fixed, FixedKind, SqlType, TypeKind, Value, ValueRef};

const NULL: u8 = 0;
const NOT_NULL: u8 = 1;
/// Octets of the longest key of fixed length, and more: DECIMAL(65) has 30.
const SCALAR_BYTES_MAX: usize = 64;

/// One column of a key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyPart {
    /// The column's type.
    pub ty: SqlType,
    /// Whether the column may be NULL: one more octet.
    pub nullable: bool,
    /// Whether the order is reversed.
    pub descending: bool,
    /// Only the first so many characters (octets of binary types) are part of the key.
    pub prefix: Option<u32>,
}

impl KeyPart {
    /// An ascending key part over the whole column.
    pub fn new(ty: SqlType, nullable: bool) -> KeyPart {
        KeyPart { ty, nullable, descending: false, prefix: None }
    }

    /// Appends the encoded value, which must be of the part's type (see [`crate::convert::store`]).
    #[inline]
    pub fn encode(&self, value: ValueRef<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        match (self.prefix, value) {
            (Some(chars), ValueRef::Bytes(bytes)) => {
                let cut = collation::substring(self.ty.collation, bytes, 0, chars as usize);
                encode(out, &self.ty, ValueRef::Bytes(cut), self.nullable);
            }
            _ => encode(out, &self.ty, value, self.nullable),
        }
        if self.descending {
            invert(&mut out[start..]);
        }
    }

    /// What the encodings of all texts that match `beginning` character by character and go on have in common.
    pub fn encode_beginning(&self, beginning: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        collation::prefix_weights(self.ty.collation, beginning, &mut out);
        if out.is_empty() {
            return out;
        }
        if self.nullable {
            out.insert(0, NOT_NULL);
        }
        if self.descending {
            invert(&mut out);
        }
        out
    }

    /// Octets of this part at the start of `key`; `None` if the key is cut short.
    pub fn skip(&self, key: &[u8]) -> Option<usize> {
        if self.descending {
            let mut inverted = key.to_vec();
            invert(&mut inverted);
            return skip(&inverted, &self.ty, self.nullable);
        }
        skip(key, &self.ty, self.nullable)
    }

    /// The value and its octets at the start of `key`; `None` if it is cut short or its part is not lossless.
    pub fn decode(&self, key: &[u8]) -> Option<(Value, usize)> {
        if !self.is_lossless() {
            return None;
        }
        if self.descending {
            let mut inverted = key.to_vec();
            invert(&mut inverted);
            return decode(&inverted, &self.ty, self.nullable);
        }
        decode(key, &self.ty, self.nullable)
    }

    /// Whether [`KeyPart::scalar`] gives back what was stored: numbers and times, but not those with a zero of either
    /// sign, which is one in a key.
    pub fn is_scalar(&self) -> bool {
        let floating = matches!(self.ty.kind, TypeKind::Float | TypeKind::Double);
        self.prefix.is_none() && !floating && fixed_bytes(&self.ty).is_some()
    }

    /// Octets of every key of this part, if they are always as many.
    pub fn width(&self) -> Option<usize> {
        fixed_bytes(&self.ty).filter(|_| !self.nullable)
    }

    /// The value at the start of `key`, of a part that [is a scalar](KeyPart::is_scalar); NULL if it is cut short.
    #[inline]
    pub fn scalar(&self, key: &[u8]) -> ValueRef<'static> {
        let lead = usize::from(self.nullable);
        let null = if self.descending { !NULL } else { NULL };
        if self.nullable && key.first().is_none_or(|first| *first == null) {
            return ValueRef::Null;
        }
        let len = fixed_bytes(&self.ty).unwrap_or(0);
        let Some(bytes) = key.get(lead..lead + len) else { return ValueRef::Null };
        if !self.descending {
            return decode_scalar(&self.ty, bytes);
        }
        let mut inverted = [0; SCALAR_BYTES_MAX];
        inverted[..len].copy_from_slice(bytes);
        invert(&mut inverted[..len]);
        decode_scalar(&self.ty, &inverted[..len])
    }

    /// Whether [`KeyPart::decode`] gives back what was stored.
    pub fn is_lossless(&self) -> bool {
        self.prefix.is_none() && is_lossless(&self.ty)
    }
}

fn invert(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|b| *b = !*b);
}

/// Appends the encoding of an ascending, whole column.
#[inline]
pub fn encode(out: &mut Vec<u8>, ty: &SqlType, value: ValueRef<'_>, nullable: bool) {
    if nullable {
        out.push(if value.is_null() { NULL } else { NOT_NULL });
    }
    match value {
        ValueRef::Int(v) => encode_integer(out, ty, v as u64),
        ValueRef::UInt(v) => encode_integer(out, ty, v),
        ValueRef::Bytes(v) => collation::weights(ty.collation, v, out),
        ValueRef::Double(v) => {
            let bits = (v + 0.0).to_bits();
            let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        ValueRef::Float(v) => {
            let bits = (v + 0.0).to_bits();
            let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        ValueRef::Decimal(v) => v.store(ty.length, ty.decimals, out),
        ValueRef::Date(v) => out.extend_from_slice(&v.packed().to_be_bytes()[1..]),
        ValueRef::Time(v) => v.store(ty.decimals, out),
        ValueRef::DateTime(v) if ty.kind == TypeKind::Timestamp => v.store_timestamp(ty.decimals, out),
        ValueRef::DateTime(v) => v.store(ty.decimals, out),
        ValueRef::Fixed(v) => v.append_ordered(out),
        ValueRef::Null => {}
    }
}

#[inline]
fn encode_integer(out: &mut Vec<u8>, ty: &SqlType, v: u64) {
    match (ty.kind, ty.unsigned) {
        (TypeKind::Int, false) => out.extend_from_slice(&(v as u32 ^ 1 << 31).to_be_bytes()),
        (TypeKind::BigInt, false) => out.extend_from_slice(&(v ^ 1 << 63).to_be_bytes()),
        (_, unsigned) => {
            let width = fixed_bytes(ty).unwrap_or(8);
            let sign = if unsigned || !ty.is_integer() { 0 } else { 1u64 << (8 * width - 1) };
            out.extend_from_slice(&(v ^ sign).to_be_bytes()[8 - width..]);
        }
    }
}

/// Octets of a type whose keys are all of one length.
fn fixed_bytes(ty: &SqlType) -> Option<usize> {
    use TypeKind as K;
    Some(match ty.kind {
        K::TinyInt | K::SmallInt | K::MediumInt | K::Int | K::BigInt => ty.integer_bytes(),
        K::Float => 4,
        K::Double => 8,
        K::Decimal => Decimal::stored_bytes(ty.length, ty.decimals),
        K::Bit => ty.length.div_ceil(8).clamp(1, 8) as usize,
        K::Year | K::Enum => 2,
        K::Set => 8,
        K::Date => 3,
        K::Time => Time::stored_bytes(ty.decimals),
        K::DateTime => DateTime::stored_bytes(ty.decimals),
        K::Timestamp => DateTime::timestamp_bytes(ty.decimals),
        K::Null => 0,
        K::Inet4 => 4,
        K::Inet6 | K::Uuid => 16,
        _ => return None,
    })
}

/// Whether keys of the type can be decoded. Text can where it compares by code and trailing spaces do not get lost:
/// `binary` and, since CHAR keeps no trailing spaces, CHAR of a `_bin` collation.
pub fn is_lossless(ty: &SqlType) -> bool {
    let keeps_spaces = !ty.collation.pads_spaces() || ty.kind == TypeKind::Char;
    !ty.is_string() || (collation::weights_are_lossless(ty.collation) && keeps_spaces)
}

fn skip(key: &[u8], ty: &SqlType, nullable: bool) -> Option<usize> {
    let lead = usize::from(nullable);
    if nullable && *key.first()? == NULL {
        return Some(1);
    }
    let len = match fixed_bytes(ty) {
        Some(len) => len,
        None => collation::weights_len(ty.collation, &key[lead..])?,
    };
    (lead + len <= key.len()).then_some(lead + len)
}

fn decode(key: &[u8], ty: &SqlType, nullable: bool) -> Option<(Value, usize)> {
    let len = skip(key, ty, nullable)?;
    let lead = usize::from(nullable);
    if len == lead {
        return Some((Value::Null, len));
    }
    let bytes = &key[lead..len];
    let value = if ty.is_string() {
        Value::Bytes(collation::from_weights(ty.collation, bytes)?.0.into())
    } else {
        decode_scalar(ty, bytes).to_owned()
    };
    Some((value, len))
}

/// The value of a key of fixed length that is not NULL.
#[inline]
fn decode_scalar(ty: &SqlType, bytes: &[u8]) -> ValueRef<'static> {
    use TypeKind as K;
    match ty.kind {
        K::TinyInt | K::SmallInt | K::MediumInt | K::Int | K::BigInt if !ty.unsigned => {
            let unused = 64 - 8 * bytes.len() as u32;
            let sign = 1u64 << (63 - unused);
            ValueRef::Int(((big_endian(bytes) ^ sign) << unused) as i64 >> unused)
        }
        K::Float => {
            let bits = big_endian(bytes) as u32;
            ValueRef::Float(f32::from_bits(if bits >> 31 == 1 { bits ^ 1 << 31 } else { !bits }))
        }
        K::Double => {
            let bits = big_endian(bytes);
            ValueRef::Double(f64::from_bits(if bits >> 63 == 1 { bits ^ 1 << 63 } else { !bits }))
        }
        K::Decimal => ValueRef::Decimal(Decimal::load(ty.length, ty.decimals, bytes)),
        K::Date => ValueRef::Date(Date::from_packed(big_endian(bytes) as u32)),
        K::Time => ValueRef::Time(Time::load(ty.decimals, bytes)),
        K::DateTime => ValueRef::DateTime(DateTime::load(ty.decimals, bytes)),
        K::Timestamp => ValueRef::DateTime(DateTime::load_timestamp(ty.decimals, bytes)),
        kind => match FixedKind::of(kind) {
            Some(kind) => ValueRef::Fixed(Fixed::from_ordered(kind, bytes)),
            None => ValueRef::UInt(big_endian(bytes)),
        },
    }
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |v, b| v << 8 | u64::from(*b))
}

/// Makes of a key prefix the least key that is greater than every key with that prefix; false if there is none.
pub fn successor(key: &mut Vec<u8>) -> bool {
    while let Some(last) = key.pop() {
        if last < u8::MAX {
            key.push(last + 1);
            return true;
        }
    }
    false
}

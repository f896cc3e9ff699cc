//! One SQL value, owned or borrowed.
//!
//! 1. Values are typed by class only: an ENUM or SET travels as `UInt` (member index, member mask), BIT as `UInt` (its
//!    bits), YEAR as `UInt` (0, 1901-2155); their `SqlType` turns them into text.
//! 2. `Bytes` holds text in the character set of its type's collation, or plain octets where that is `binary`.
//! 3. A TIMESTAMP read from a row is a `DateTime` in UTC until `convert::timestamp_to_local` has been applied.

use crate::{Date, DateTime, Decimal, Fixed, Time};

/// An owned SQL value of 32 bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// SQL NULL.
    #[default]
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer; also ENUM, SET, BIT and YEAR.
    UInt(u64),
    /// DOUBLE.
    Double(f64),
    /// FLOAT.
    Float(f32),
    /// DECIMAL.
    Decimal(Decimal),
    /// Text in its type's character set, or octets.
    Bytes(Box<[u8]>),
    /// DATE.
    Date(Date),
    /// TIME.
    Time(Time),
    /// DATETIME; TIMESTAMP.
    DateTime(DateTime),
    /// INET4, INET6, UUID.
    Fixed(Fixed),
}

/// A SQL value whose bytes live elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum ValueRef<'a> {
    /// SQL NULL.
    #[default]
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer; also ENUM, SET, BIT and YEAR.
    UInt(u64),
    /// DOUBLE.
    Double(f64),
    /// FLOAT.
    Float(f32),
    /// DECIMAL.
    Decimal(Decimal),
    /// Text in its type's character set, or octets.
    Bytes(&'a [u8]),
    /// DATE.
    Date(Date),
    /// TIME.
    Time(Time),
    /// DATETIME; TIMESTAMP.
    DateTime(DateTime),
    /// INET4, INET6, UUID.
    Fixed(Fixed),
}

const _: () = assert!(size_of::<Value>() <= 40 && size_of::<ValueRef>() <= 40);

impl Value {
    /// Text or octets, copied.
    pub fn bytes(bytes: &[u8]) -> Value {
        Value::Bytes(bytes.into())
    }

    /// The same value, borrowed.
    #[inline]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Int(v) => ValueRef::Int(*v),
            Value::UInt(v) => ValueRef::UInt(*v),
            Value::Double(v) => ValueRef::Double(*v),
            Value::Float(v) => ValueRef::Float(*v),
            Value::Decimal(v) => ValueRef::Decimal(*v),
            Value::Bytes(v) => ValueRef::Bytes(v),
            Value::Date(v) => ValueRef::Date(*v),
            Value::Time(v) => ValueRef::Time(*v),
            Value::DateTime(v) => ValueRef::DateTime(*v),
            Value::Fixed(v) => ValueRef::Fixed(*v),
        }
    }

    /// Whether this is SQL NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
}

impl<'a> ValueRef<'a> {
    /// The same value, owned; copies bytes.
    pub fn to_owned(&self) -> Value {
        match *self {
            ValueRef::Null => Value::Null,
            ValueRef::Int(v) => Value::Int(v),
            ValueRef::UInt(v) => Value::UInt(v),
            ValueRef::Double(v) => Value::Double(v),
            ValueRef::Float(v) => Value::Float(v),
            ValueRef::Decimal(v) => Value::Decimal(v),
            ValueRef::Bytes(v) => Value::Bytes(v.into()),
            ValueRef::Date(v) => Value::Date(v),
            ValueRef::Time(v) => Value::Time(v),
            ValueRef::DateTime(v) => Value::DateTime(v),
            ValueRef::Fixed(v) => Value::Fixed(v),
        }
    }

    /// Whether this is SQL NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, ValueRef::Null)
    }

    /// The bytes of a `Bytes` value.
    #[inline]
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        match *self {
            ValueRef::Bytes(b) => Some(b),
            _ => None,
        }
    }
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(value: &'a Value) -> Self {
        value.as_ref()
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        value.to_owned()
    }
}

/// A value that is borrowed where nothing had to change and owned where it had to.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// Borrowed from the source.
    Ref(ValueRef<'a>),
    /// Made by a conversion.
    Owned(Value),
}

impl<'a> Cell<'a> {
    /// The value, borrowed from this cell.
    #[inline]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Cell::Ref(v) => *v,
            Cell::Owned(v) => v.as_ref(),
        }
    }

    /// The value, owned; copies bytes only where they were borrowed.
    pub fn into_value(self) -> Value {
        match self {
            Cell::Ref(v) => v.to_owned(),
            Cell::Owned(v) => v,
        }
    }
}

impl<'a> From<ValueRef<'a>> for Cell<'a> {
    fn from(value: ValueRef<'a>) -> Self {
        Cell::Ref(value)
    }
}

impl From<Value> for Cell<'_> {
    fn from(value: Value) -> Self {
        Cell::Owned(value)
    }
}

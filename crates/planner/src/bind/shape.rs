//! Kinds of parameters.

use keel_value::{CollationId, FixedKind, SqlType, TypeKind, Value};

/// What kind of value a parameter has, as far as types of expressions depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// NULL, or not known when the plan was made.
    Unknown,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    UInt,
    /// A double.
    Real,
    /// With its digits and its scale.
    Decimal(u8, u8),
    /// Text or bytes.
    Bytes,
    /// An address or UUID.
    Fixed(FixedKind),
    /// A date.
    Date,
    /// With its fraction digits: none or all.
    Time(u8),
    /// The same.
    DateTime(u8),
}

impl Shape {
    /// Of a value.
    pub fn of(value: &Value) -> Shape {
        match value {
            Value::Null => Shape::Unknown,
            Value::Int(_) => Shape::Int,
            Value::UInt(_) => Shape::UInt,
            Value::Double(_) | Value::Float(_) => Shape::Real,
            Value::Decimal(v) => Shape::Decimal(v.precision() as u8, v.scale()),
            Value::Bytes(_) => Shape::Bytes,
            Value::Fixed(v) => Shape::Fixed(v.kind()),
            Value::Date(_) => Shape::Date,
            Value::Time(v) => Shape::Time(fraction_digits(v.fraction())),
            Value::DateTime(v) => Shape::DateTime(fraction_digits(v.micros)),
        }
    }

    /// The type that a parameter of this kind is bound with.
    pub fn ty(self, connection: CollationId) -> SqlType {
        match self {
            Shape::Unknown => SqlType::null(),
            Shape::Int => SqlType::bigint(),
            Shape::UInt => SqlType::bigint_unsigned(),
            Shape::Real => SqlType::double(),
            Shape::Decimal(precision, scale) => SqlType::decimal(u32::from(precision), scale),
            Shape::Bytes => SqlType::varchar(255, connection),
            Shape::Fixed(kind) => SqlType::new(kind.type_kind()),
            Shape::Date => SqlType::new(TypeKind::Date),
            Shape::Time(digits) => SqlType::temporal(TypeKind::Time, digits),
            Shape::DateTime(digits) => SqlType::temporal(TypeKind::DateTime, digits),
        }
    }
}

/// A parameter without a fraction shows none.
fn fraction_digits(micros: u32) -> u8 {
    if micros == 0 { 0 } else { 6 }
}

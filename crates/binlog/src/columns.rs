//! Types of columns as Table_map events describe them.
//!
//! Each column has a type number, and some types have one or two bytes of metadata. CHAR stores two bits of
//! its length in the first byte, inverted. ENUM and SET have the number of CHAR and their own number in the
//! first byte of metadata.

use keel_value::{SqlType, TypeKind};

use crate::bytes::{Input, Output};
use crate::error::{Error, Result};

/// Numbers of types in Table_map events.
mod code {
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const OLD_TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const OLD_TIME: u8 = 11;
    pub const OLD_DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const NEWDATE: u8 = 14;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const TIMESTAMP: u8 = 17;
    pub const DATETIME: u8 = 18;
    pub const TIME: u8 = 19;
    pub const BLOB_COMPRESSED: u8 = 140;
    pub const VARCHAR_COMPRESSED: u8 = 141;
    pub const JSON: u8 = 245;
    pub const DECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
    pub const GEOMETRY: u8 = 255;
}

/// The format of a column's values in row images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// An integer of 1, 2, 3, 4 or 8 bytes.
    Int {
        /// Length.
        bytes: u8,
    },
    /// DECIMAL.
    Decimal {
        /// Digits, 1 to 65.
        precision: u8,
        /// Digits behind the point, 30 and `precision` at most.
        scale: u8,
    },
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// BIT.
    Bit {
        /// 1 to 64.
        bits: u8,
    },
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME of the form of MySQL 5.6.
    Time {
        /// Fraction digits, 6 at most.
        digits: u8,
    },
    /// DATETIME of that form.
    DateTime {
        /// Fraction digits, 6 at most.
        digits: u8,
    },
    /// TIMESTAMP of that form.
    Timestamp {
        /// Fraction digits, 6 at most.
        digits: u8,
    },
    /// TIME of a table created with `mysql56_temporal_format=OFF`. Table_map events do not contain the
    /// digits: see [`Column::with_digits`].
    OldTime {
        /// Fraction digits, 6 at most.
        digits: u8,
    },
    /// DATETIME of such a table.
    OldDateTime {
        /// Fraction digits, 6 at most.
        digits: u8,
    },
    /// TIMESTAMP of such a table.
    OldTimestamp {
        /// Fraction digits, 6 at most.
        digits: u8,
    },
    /// CHAR and BINARY; INET4, INET6 and UUID.
    Char {
        /// Its length in bytes, 1023 at most.
        bytes: u16,
    },
    /// VARCHAR and VARBINARY.
    VarChar {
        /// Its length in bytes; of a COMPRESSED column one byte more than its declared length.
        bytes: u16,
        /// Whether it is COMPRESSED; see [`crate::compress::unpack_column`].
        compressed: bool,
    },
    /// TEXT and BLOB of all sizes.
    Blob {
        /// Bytes of a value's length, 1 to 4.
        length_bytes: u8,
        /// COMPRESSED.
        compressed: bool,
    },
    /// Geometries.
    Geometry {
        /// Bytes of a value's length, 1 to 4.
        length_bytes: u8,
    },
    /// JSON of MySQL, whose binary form is not read here. MariaDB's JSON is a `Blob`.
    MysqlJson {
        /// Bytes of a value's length, 1 to 4.
        length_bytes: u8,
    },
    /// ENUM.
    Enum {
        /// Bytes of a member's number, 1 or 2.
        bytes: u8,
    },
    /// SET.
    Set {
        /// Bytes of the members' mask, 1 to 8.
        bytes: u8,
    },
    /// A column that is always NULL.
    Null,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The form of its values.
    pub kind: ColumnKind,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Whether it is UNSIGNED. A Table_map event without optional metadata does not contain this.
    pub unsigned: bool,
}

impl Column {
    /// A column of a type of Keel.
    pub fn of(ty: &SqlType, nullable: bool) -> Column {
        Column { kind: ColumnKind::of(ty), nullable, unsigned: ty.unsigned }
    }

    /// This column with the fraction digits of the table's definition. Has an effect only on the `Old` kinds.
    pub fn with_digits(self, digits: u8) -> Column {
        let digits = digits.min(6);
        let kind = match self.kind {
            ColumnKind::OldTime { .. } => ColumnKind::OldTime { digits },
            ColumnKind::OldDateTime { .. } => ColumnKind::OldDateTime { digits },
            ColumnKind::OldTimestamp { .. } => ColumnKind::OldTimestamp { digits },
            other => other,
        };
        Column { kind, ..self }
    }

    /// Whether the signedness block of Table_map events has a bit for it.
    pub(crate) fn has_sign(&self) -> bool {
        use ColumnKind::*;
        matches!(self.kind, Int { .. } | Decimal { .. } | Float | Double | Year)
    }
}

/// The types, the metadata and the NULL bits of columns, as a Table_map event has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnBytes {
    /// The number of each type.
    pub types: Vec<u8>,
    /// Metadata of the types that have some.
    pub metadata: Vec<u8>,
    /// A bit for each column that may be NULL.
    pub nullable: Vec<u8>,
}

impl ColumnBytes {
    /// The bytes for `columns`.
    pub fn of(columns: &[Column]) -> ColumnBytes {
        let mut bytes = ColumnBytes::default();
        for (index, column) in columns.iter().enumerate() {
            if index % 8 == 0 {
                bytes.nullable.push(0);
            }
            if column.nullable {
                bytes.nullable[index / 8] |= 1 << (index % 8);
            }
            column.kind.encode(&mut bytes.types, &mut bytes.metadata);
        }
        bytes
    }
}

impl ColumnKind {
    /// The kind for a type of Keel.
    pub fn of(ty: &SqlType) -> ColumnKind {
        let text_bytes = (ty.length.saturating_mul(ty.collation.charset().max_bytes())).min(0xffff) as u16;
        let byte_length = ty.length.min(0xffff) as u16;
        let digits = ty.decimals.min(6);
        let blob = |length_bytes| ColumnKind::Blob { length_bytes, compressed: false };
        let members = ty.members.as_ref().map_or(0, |members| members.len());
        match ty.kind {
            TypeKind::Null => ColumnKind::Null,
            TypeKind::TinyInt => ColumnKind::Int { bytes: 1 },
            TypeKind::SmallInt => ColumnKind::Int { bytes: 2 },
            TypeKind::MediumInt => ColumnKind::Int { bytes: 3 },
            TypeKind::Int => ColumnKind::Int { bytes: 4 },
            TypeKind::BigInt => ColumnKind::Int { bytes: 8 },
            TypeKind::Decimal => {
                let precision = ty.length.clamp(1, 65) as u8;
                ColumnKind::Decimal { precision, scale: ty.decimals.min(30).min(precision) }
            }
            TypeKind::Float => ColumnKind::Float,
            TypeKind::Double => ColumnKind::Double,
            TypeKind::Bit => ColumnKind::Bit { bits: ty.length.clamp(1, 64) as u8 },
            TypeKind::Year => ColumnKind::Year,
            TypeKind::Date => ColumnKind::Date,
            TypeKind::Time => ColumnKind::Time { digits },
            TypeKind::DateTime => ColumnKind::DateTime { digits },
            TypeKind::Timestamp => ColumnKind::Timestamp { digits },
            TypeKind::Char => ColumnKind::Char { bytes: text_bytes.min(0x3ff) },
            TypeKind::Binary => ColumnKind::Char { bytes: byte_length.min(0x3ff) },
            TypeKind::VarChar => ColumnKind::VarChar { bytes: text_bytes, compressed: false },
            TypeKind::VarBinary => ColumnKind::VarChar { bytes: byte_length, compressed: false },
            TypeKind::TinyText | TypeKind::TinyBlob => blob(1),
            TypeKind::Text | TypeKind::Blob => blob(2),
            TypeKind::MediumText | TypeKind::MediumBlob => blob(3),
            TypeKind::LongText | TypeKind::LongBlob => blob(4),
            TypeKind::Enum => ColumnKind::Enum { bytes: if members < 256 { 1 } else { 2 } },
            TypeKind::Set => {
                let bytes = members.div_ceil(8).clamp(1, 8) as u8;
                ColumnKind::Set { bytes: if bytes > 4 { 8 } else { bytes } }
            }
            TypeKind::Inet4 => ColumnKind::Char { bytes: 4 },
            TypeKind::Inet6 | TypeKind::Uuid => ColumnKind::Char { bytes: 16 },
        }
    }

    /// Reads the metadata of a column whose type has the number `number`.
    pub(crate) fn decode(number: u8, input: &mut Input<'_>) -> Result<ColumnKind> {
        let at = input.offset();
        let kind = match number {
            code::TINY => ColumnKind::Int { bytes: 1 },
            code::SHORT => ColumnKind::Int { bytes: 2 },
            code::INT24 => ColumnKind::Int { bytes: 3 },
            code::LONG => ColumnKind::Int { bytes: 4 },
            code::LONGLONG => ColumnKind::Int { bytes: 8 },
            code::DECIMAL => ColumnKind::Decimal { precision: input.u8()?, scale: input.u8()? },
            code::FLOAT => return expect_byte(input, 4, ColumnKind::Float),
            code::DOUBLE => return expect_byte(input, 8, ColumnKind::Double),
            code::NULL => ColumnKind::Null,
            code::BIT => {
                let (bits, bytes) = (input.u8()?, input.u8()?);
                ColumnKind::Bit { bits: bytes.saturating_mul(8).saturating_add(bits) }
            }
            code::YEAR => ColumnKind::Year,
            code::DATE | code::NEWDATE => ColumnKind::Date,
            code::TIME => ColumnKind::Time { digits: input.u8()? },
            code::DATETIME => ColumnKind::DateTime { digits: input.u8()? },
            code::TIMESTAMP => ColumnKind::Timestamp { digits: input.u8()? },
            code::OLD_TIME => ColumnKind::OldTime { digits: 0 },
            code::OLD_DATETIME => ColumnKind::OldDateTime { digits: 0 },
            code::OLD_TIMESTAMP => ColumnKind::OldTimestamp { digits: 0 },
            code::VARCHAR | code::VAR_STRING => {
                ColumnKind::VarChar { bytes: input.u16()?, compressed: false }
            }
            code::VARCHAR_COMPRESSED => ColumnKind::VarChar { bytes: input.u16()?, compressed: true },
            code::BLOB => ColumnKind::Blob { length_bytes: input.u8()?, compressed: false },
            code::BLOB_COMPRESSED => ColumnKind::Blob { length_bytes: input.u8()?, compressed: true },
            code::GEOMETRY => ColumnKind::Geometry { length_bytes: input.u8()? },
            code::JSON => ColumnKind::MysqlJson { length_bytes: input.u8()? },
            code::STRING => return decode_string(input),
            _ => return Err(Error::invalid(at, "type of a column")),
        };
        if kind.is_sound() { Ok(kind) } else { Err(Error::invalid(at, "metadata of a column")) }
    }

    /// Whether the numbers in it are within their bounds.
    fn is_sound(&self) -> bool {
        use ColumnKind::*;
        match *self {
            Decimal { precision, scale } => (1..=65).contains(&precision) && scale <= 30.min(precision),
            Bit { bits } => (1..=64).contains(&bits),
            Time { digits } | DateTime { digits } | Timestamp { digits } => digits <= 6,
            Blob { length_bytes, .. } | Geometry { length_bytes } | MysqlJson { length_bytes } => {
                (1..=4).contains(&length_bytes)
            }
            Enum { bytes } => (1..=2).contains(&bytes),
            Set { bytes } => (1..=8).contains(&bytes),
            _ => true,
        }
    }

    fn encode(&self, types: &mut Vec<u8>, metadata: &mut Vec<u8>) {
        let mut bytes = |number: u8, bytes: &[u8]| {
            types.push(number);
            metadata.put(bytes);
        };
        match *self {
            ColumnKind::Int { bytes: 1 } => bytes(code::TINY, &[]),
            ColumnKind::Int { bytes: 2 } => bytes(code::SHORT, &[]),
            ColumnKind::Int { bytes: 3 } => bytes(code::INT24, &[]),
            ColumnKind::Int { bytes: 4 } => bytes(code::LONG, &[]),
            ColumnKind::Int { .. } => bytes(code::LONGLONG, &[]),
            ColumnKind::Decimal { precision, scale } => bytes(code::DECIMAL, &[precision, scale]),
            ColumnKind::Float => bytes(code::FLOAT, &[4]),
            ColumnKind::Double => bytes(code::DOUBLE, &[8]),
            ColumnKind::Bit { bits } => bytes(code::BIT, &[bits % 8, bits / 8]),
            ColumnKind::Year => bytes(code::YEAR, &[]),
            ColumnKind::Date => bytes(code::DATE, &[]),
            ColumnKind::Time { digits } => bytes(code::TIME, &[digits]),
            ColumnKind::DateTime { digits } => bytes(code::DATETIME, &[digits]),
            ColumnKind::Timestamp { digits } => bytes(code::TIMESTAMP, &[digits]),
            ColumnKind::OldTime { .. } => bytes(code::OLD_TIME, &[]),
            ColumnKind::OldDateTime { .. } => bytes(code::OLD_DATETIME, &[]),
            ColumnKind::OldTimestamp { .. } => bytes(code::OLD_TIMESTAMP, &[]),
            ColumnKind::Char { bytes: length } => {
                let high = (length >> 4 & 0x30) as u8;
                bytes(code::STRING, &[code::STRING ^ high, length as u8]);
            }
            ColumnKind::VarChar { bytes: length, compressed } => {
                let number = if compressed { code::VARCHAR_COMPRESSED } else { code::VARCHAR };
                bytes(number, &length.to_le_bytes());
            }
            ColumnKind::Blob { length_bytes, compressed } => {
                bytes(if compressed { code::BLOB_COMPRESSED } else { code::BLOB }, &[length_bytes]);
            }
            ColumnKind::Geometry { length_bytes } => bytes(code::GEOMETRY, &[length_bytes]),
            ColumnKind::MysqlJson { length_bytes } => bytes(code::JSON, &[length_bytes]),
            ColumnKind::Enum { bytes: count } => bytes(code::STRING, &[code::ENUM, count]),
            ColumnKind::Set { bytes: count } => bytes(code::STRING, &[code::SET, count]),
            ColumnKind::Null => bytes(code::NULL, &[]),
        }
    }
}

fn expect_byte(input: &mut Input<'_>, expected: u8, kind: ColumnKind) -> Result<ColumnKind> {
    let at = input.offset();
    if input.u8()? == expected { Ok(kind) } else { Err(Error::invalid(at, "metadata of a column")) }
}

/// CHAR, ENUM or SET.
fn decode_string(input: &mut Input<'_>) -> Result<ColumnKind> {
    let at = input.offset();
    let (first, second) = (input.u8()?, input.u8()?);
    let kind = match (first, first | 0x30) {
        (code::ENUM, _) => ColumnKind::Enum { bytes: second },
        (code::SET, _) => ColumnKind::Set { bytes: second },
        (_, code::STRING) => {
            let high = u16::from(!first & 0x30) << 4;
            ColumnKind::Char { bytes: high | u16::from(second) }
        }
        _ => return Err(Error::invalid(at, "metadata of a column")),
    };
    if kind.is_sound() { Ok(kind) } else { Err(Error::invalid(at, "metadata of a column")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_a_round_trip() {
        let mut kinds = vec![
            ColumnKind::Float,
            ColumnKind::Double,
            ColumnKind::Year,
            ColumnKind::Date,
            ColumnKind::Null,
            ColumnKind::OldTime { digits: 0 },
            ColumnKind::OldDateTime { digits: 0 },
            ColumnKind::OldTimestamp { digits: 0 },
        ];
        kinds.extend([1, 2, 3, 4, 8].map(|bytes| ColumnKind::Int { bytes }));
        kinds.extend((1..=64).map(|bits| ColumnKind::Bit { bits }));
        kinds.extend([0, 3, 6].map(|digits| ColumnKind::Time { digits }));
        kinds.extend([0, 3, 6].map(|digits| ColumnKind::DateTime { digits }));
        kinds.extend([0, 3, 6].map(|digits| ColumnKind::Timestamp { digits }));
        kinds.extend((0..1024).map(|bytes| ColumnKind::Char { bytes }));
        kinds.extend([false, true].map(|compressed| ColumnKind::VarChar { bytes: 300, compressed }));
        kinds.extend([false, true].map(|compressed| ColumnKind::Blob { length_bytes: 2, compressed }));
        kinds.extend([1, 2].map(|bytes| ColumnKind::Enum { bytes }));
        kinds.extend([1, 2, 3, 4, 8].map(|bytes| ColumnKind::Set { bytes }));
        kinds.push(ColumnKind::Geometry { length_bytes: 4 });
        kinds.push(ColumnKind::MysqlJson { length_bytes: 4 });
        kinds.push(ColumnKind::Decimal { precision: 65, scale: 30 });
        for kind in kinds {
            let (mut types, mut metadata) = (Vec::new(), Vec::new());
            kind.encode(&mut types, &mut metadata);
            let mut input = Input::new(&metadata, 0);
            assert_eq!(ColumnKind::decode(types[0], &mut input), Ok(kind));
            input.end().unwrap();
            for end in 0..metadata.len() {
                assert!(
                    ColumnKind::decode(types[0], &mut Input::new(&metadata[..end], 0)).is_err(),
                    "{kind:?}"
                );
            }
        }
    }

    #[test]
    fn metadata_out_of_bounds_is_refused() {
        for (number, metadata) in [
            (code::DECIMAL, [0, 0]),
            (code::DECIMAL, [66, 0]),
            (code::DECIMAL, [10, 11]),
            (code::DECIMAL, [65, 31]),
            (code::BIT, [0, 0]),
            (code::BIT, [1, 8]),
            (code::BIT, [255, 255]),
            (code::TIME, [7, 0]),
            (code::BLOB, [0, 0]),
            (code::BLOB, [5, 0]),
            (code::FLOAT, [8, 0]),
            (code::STRING, [code::ENUM, 3]),
            (code::STRING, [code::SET, 0]),
            (code::STRING, [code::SET, 9]),
            (code::STRING, [code::BLOB, 0]),
            (249, [0, 0]),
            (244, [0, 0]),
            (0, [0, 0]),
        ] {
            let mut input = Input::new(&metadata, 0);
            assert!(ColumnKind::decode(number, &mut input).is_err(), "{number} {metadata:?}");
        }
    }
}

//! Rows as bytes: any column is found in constant time, none is decoded that is not asked for.
//!
//! ```text
//!   +--------+-------------+------------------+------------------+----------------+
//!   | header | null bitmap | fixed columns    | ends of variable | variable bytes |
//!   | 2      | 1 bit each  | in column order  | 2 or 4 each      |                |
//!   +--------+-------------+------------------+------------------+----------------+
//! ```
//!
//! The header is the number of columns, with the top bit set where the ends are 4 octets wide (variable bytes of 64 KiB
//! and more). The bitmap has a bit for each column that may be NULL. Fixed columns are in the octets of a binary log's row
//! image (integers little-endian, DECIMAL, temporals, addresses and UUIDs big-endian), so that a row event copies them. A column that is NULL
//! keeps its place in the fixed part, zeroed, and is empty in the variable part.
//!
//! 1. A row with fewer columns than its [`Layout`] was written before the trailing ones were added; these read as their
//!    default. So adding a column touches no row.
//! 2. The order in a row is that in which columns were added, whatever the table's own is, and what dropped ones leave stays
//!    empty ([`Slot`]). So dropping and moving a column touches no row either.
//! 3. Rows come from pages that are checked by checksum; a row that is cut short all the same reads as NULL or empty where
//!    octets are missing, and never panics.

mod ordinal;

pub use ordinal::Ordinal;

use crate::decimal::Small;
use crate::temporal::{Date, DateTime, Time};
use crate::{Decimal, Fixed, FixedKind, SqlType, TypeKind, Value, ValueRef};

const HEADER_BYTES: usize = 2;
const WIDE_ENDS: u16 = 0x8000;
const NARROW_END: usize = 2;
const WIDE_END: usize = 4;

/// One column of a [`Layout`].
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its type.
    pub ty: SqlType,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// What rows show that were written before the column was added.
    pub default: Value,
}

/// What stands at one place of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Slot {
    /// The column of this number.
    Column(usize),
    /// A column that was dropped: of this type, and whether it could be NULL. New rows have nothing there.
    Gone(SqlType, bool),
}

/// How a column's octets become a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Int1,
    Int2,
    Int3,
    Int4,
    Int8,
    /// Little-endian, unsigned, so many octets: ENUM and SET.
    Unsigned(u8),
    /// Big-endian, so many octets.
    Bit(u8),
    Year,
    Float,
    Double,
    Decimal {
        precision: u8,
        scale: u8,
    },
    Date,
    Time(u8),
    DateTime(u8),
    Timestamp(u8),
    Fixed(FixedKind),
    Variable,
}

/// Where a column stands.
#[derive(Debug, Clone, Copy)]
struct ColumnPlace {
    codec: Codec,
    unsigned: bool,
    /// Bit in the null bitmap; `u16::MAX` if it is never NULL.
    null_bit: u16,
    /// Offset in the fixed part, or index among the variable columns.
    position: u32,
    width: u8,
    /// Its number in rows.
    slot: u16,
}

/// A place of rows, as they are written.
#[derive(Debug, Clone, Copy)]
struct Stored {
    codec: Codec,
    null_bit: u16,
    /// None for what is gone.
    column: Option<u16>,
}

const NEVER_NULL: u16 = u16::MAX;

/// Sizes of the parts of a row of so many columns.
#[derive(Debug, Clone, Copy)]
struct Extent {
    null_bytes: u16,
    fixed_bytes: u32,
    variable_count: u16,
}

/// Where the columns of a table's rows stand; made once per table version.
#[derive(Debug, Clone)]
pub struct Layout {
    columns: Vec<Column>,
    places: Vec<ColumnPlace>,
    /// The places of rows in their order.
    slots: Vec<Stored>,
    /// For rows of 0 to all places.
    extents: Vec<Extent>,
}

impl Layout {
    /// Columns whose rows are all whole.
    pub fn new(columns: &[(SqlType, bool)]) -> Layout {
        Layout::with_defaults(
            columns
                .iter()
                .map(|(ty, nullable)| Column { ty: ty.clone(), nullable: *nullable, default: Value::Null })
                .collect(),
        )
    }

    /// Columns with values for rows that were written before trailing columns were added.
    pub fn with_defaults(columns: Vec<Column>) -> Layout {
        let slots: Vec<Slot> = (0..columns.len()).map(Slot::Column).collect();
        Layout::with_slots(columns, &slots)
    }

    /// The same where rows have their places in another order, and some that no column has. Each column has one.
    pub fn with_slots(columns: Vec<Column>, order: &[Slot]) -> Layout {
        let mut places = vec![None; columns.len()];
        let mut slots = Vec::with_capacity(order.len());
        let mut extents = Vec::with_capacity(order.len() + 1);
        let (mut null_bits, mut fixed, mut variable) = (0u16, 0u32, 0u16);
        for slot in order {
            extents.push(Extent {
                null_bytes: null_bits.div_ceil(8),
                fixed_bytes: fixed,
                variable_count: variable,
            });
            let (ty, nullable) = match slot {
                Slot::Column(number) => (&columns[*number].ty, columns[*number].nullable),
                Slot::Gone(ty, nullable) => (ty, *nullable),
            };
            let codec = Codec::of(ty);
            let width = codec.width();
            let null_bit = if nullable { null_bits } else { NEVER_NULL };
            let mut column = None;
            if let Slot::Column(number) = slot {
                places[*number] = Some(ColumnPlace {
                    codec,
                    unsigned: ty.unsigned,
                    null_bit,
                    position: if codec == Codec::Variable { u32::from(variable) } else { fixed },
                    width: width as u8,
                    slot: slots.len() as u16,
                });
                column = Some(*number as u16);
            }
            slots.push(Stored { codec, null_bit, column });
            null_bits += u16::from(nullable);
            fixed += width as u32;
            variable += u16::from(codec == Codec::Variable);
        }
        extents.push(Extent {
            null_bytes: null_bits.div_ceil(8),
            fixed_bytes: fixed,
            variable_count: variable,
        });
        let places = places.into_iter().map(|place| place.expect("each column has a place")).collect();
        Layout { columns, places, slots, extents }
    }

    /// What is wrong with the form of a row of this layout, in words.
    pub fn problem(&self, bytes: &[u8]) -> Option<String> {
        let Some(header) = bytes.first_chunk().map(|b: &[u8; HEADER_BYTES]| u16::from_le_bytes(*b)) else {
            return Some(format!("a row of {} bytes", bytes.len()));
        };
        let count = usize::from(header & !WIDE_ENDS);
        if count > self.slots.len() {
            return Some(format!("a row of {count} columns, the table has {}", self.slots.len()));
        }
        let row = RowRef::new(self, bytes);
        let mut last = 0;
        for nth in 0..usize::from(self.extents[count].variable_count) {
            match row.end(nth) {
                Some(end) if end >= last => last = end,
                _ => return Some(format!("the ends of its texts do not ascend at number {nth}")),
            }
        }
        let expected = row.variable_start as usize + last;
        (bytes.len() != expected)
            .then(|| format!("a row of {} bytes, its columns make {expected}", bytes.len()))
    }

    /// Its columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
}

impl Codec {
    fn of(ty: &SqlType) -> Codec {
        use TypeKind as K;
        let fraction = ty.decimals.min(6);
        match ty.kind {
            K::TinyInt => Codec::Int1,
            K::SmallInt => Codec::Int2,
            K::MediumInt => Codec::Int3,
            K::Int => Codec::Int4,
            K::BigInt => Codec::Int8,
            K::Decimal => Codec::Decimal { precision: ty.length.min(65) as u8, scale: ty.decimals },
            K::Float => Codec::Float,
            K::Double => Codec::Double,
            K::Bit => Codec::Bit(ty.length.div_ceil(8).clamp(1, 8) as u8),
            K::Year => Codec::Year,
            K::Date => Codec::Date,
            K::Time => Codec::Time(fraction),
            K::DateTime => Codec::DateTime(fraction),
            K::Timestamp => Codec::Timestamp(fraction),
            K::Inet4 => Codec::Fixed(FixedKind::Inet4),
            K::Inet6 => Codec::Fixed(FixedKind::Inet6),
            K::Uuid => Codec::Fixed(FixedKind::Uuid),
            K::Enum => Codec::Unsigned(if ty.members().len() < 256 { 1 } else { 2 }),
            K::Set => Codec::Unsigned(match ty.members().len().div_ceil(8) {
                n @ 0..=4 => n.max(1) as u8,
                _ => 8,
            }),
            _ => Codec::Variable,
        }
    }

    fn width(self) -> usize {
        match self {
            Codec::Int1 | Codec::Year => 1,
            Codec::Int2 => 2,
            Codec::Int3 | Codec::Date => 3,
            Codec::Int4 | Codec::Float => 4,
            Codec::Int8 | Codec::Double => 8,
            Codec::Unsigned(n) | Codec::Bit(n) => usize::from(n),
            Codec::Decimal { precision, scale } => Decimal::stored_bytes(u32::from(precision), scale),
            Codec::Time(digits) => Time::stored_bytes(digits),
            Codec::DateTime(digits) => DateTime::stored_bytes(digits),
            Codec::Timestamp(digits) => DateTime::timestamp_bytes(digits),
            Codec::Fixed(kind) => kind.octets(),
            Codec::Variable => 0,
        }
    }

    /// Appends exactly `width` octets.
    fn write(self, value: ValueRef<'_>, out: &mut Vec<u8>) {
        match (self, value) {
            (Codec::Variable, _) => {}
            (Codec::Double, ValueRef::Double(v)) => out.extend_from_slice(&v.to_le_bytes()),
            (Codec::Float, ValueRef::Float(v)) => out.extend_from_slice(&v.to_le_bytes()),
            (Codec::Decimal { precision, scale }, ValueRef::Decimal(v)) => {
                v.store(u32::from(precision), scale, out)
            }
            (Codec::Date, ValueRef::Date(v)) => out.extend_from_slice(&v.packed().to_le_bytes()[..3]),
            (Codec::Time(digits), ValueRef::Time(v)) => v.store(digits, out),
            (Codec::DateTime(digits), ValueRef::DateTime(v)) => v.store(digits, out),
            (Codec::Timestamp(digits), ValueRef::DateTime(v)) => v.store_timestamp(digits, out),
            (Codec::Fixed(kind), ValueRef::Fixed(v)) if v.kind() == kind => v.append_ordered(out),
            (Codec::Year, ValueRef::UInt(v)) => out.push(v.saturating_sub(1900) as u8),
            (Codec::Bit(n), ValueRef::UInt(v)) => {
                out.extend_from_slice(&v.to_be_bytes()[8 - usize::from(n)..])
            }
            (_, ValueRef::Int(v)) if self.is_integer() => {
                out.extend_from_slice(&v.to_le_bytes()[..self.width()])
            }
            (_, ValueRef::UInt(v)) if self.is_integer() => {
                out.extend_from_slice(&v.to_le_bytes()[..self.width()])
            }
            _ => {
                debug_assert!(value.is_null(), "{value:?} was not converted for {self:?}");
                out.resize(out.len() + self.width(), 0);
            }
        }
    }

    fn is_integer(self) -> bool {
        use Codec::*;
        matches!(self, Int1 | Int2 | Int3 | Int4 | Int8 | Unsigned(_))
    }
}

/// Appends a row of already converted values (see [`crate::convert::store`]), one for each column.
pub fn encode(layout: &Layout, values: &[ValueRef<'_>], out: &mut Vec<u8>) {
    encode_with(layout, |i| values[i], out);
}

/// The same from owned values.
pub fn encode_values(layout: &Layout, values: &[Value], out: &mut Vec<u8>) {
    encode_with(layout, |i| values[i].as_ref(), out);
}

/// The same from any source of values.
pub fn encode_with<'v>(layout: &Layout, value: impl Fn(usize) -> ValueRef<'v>, out: &mut Vec<u8>) {
    let count = layout.slots.len();
    let extent = layout.extents[count];
    let start = out.len();
    let value = |slot: &Stored| slot.column.map_or(ValueRef::Null, |column| value(usize::from(column)));
    let variable = || layout.slots.iter().filter(|slot| slot.codec == Codec::Variable);
    let variable_bytes: usize = variable().filter_map(|slot| value(slot).as_bytes()).map(<[u8]>::len).sum();
    let wide = variable_bytes > usize::from(u16::MAX);
    out.extend_from_slice(&(count as u16 | if wide { WIDE_ENDS } else { 0 }).to_le_bytes());
    out.resize(out.len() + usize::from(extent.null_bytes), 0);
    for slot in &layout.slots {
        let value = value(slot);
        if value.is_null() && slot.null_bit != NEVER_NULL {
            out[start + HEADER_BYTES + usize::from(slot.null_bit / 8)] |= 1 << (slot.null_bit % 8);
        }
        slot.codec.write(value, out);
    }
    let mut end = 0u32;
    for slot in variable() {
        end += value(slot).as_bytes().map_or(0, <[u8]>::len) as u32;
        out.extend_from_slice(&end.to_le_bytes()[..if wide { WIDE_END } else { NARROW_END }]);
    }
    for bytes in variable().filter_map(|slot| value(slot).as_bytes()) {
        out.extend_from_slice(bytes);
    }
}

/// A row read in place.
#[derive(Debug, Clone, Copy)]
pub struct RowRef<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
    /// Columns that this row has.
    count: u16,
    wide: bool,
    fixed_start: u32,
    ends_start: u32,
    variable_start: u32,
}

impl<'a> RowRef<'a> {
    /// Reads the row's header.
    #[inline]
    pub fn new(layout: &'a Layout, bytes: &'a [u8]) -> RowRef<'a> {
        let header = bytes.first_chunk().map_or(0, |b: &[u8; HEADER_BYTES]| u16::from_le_bytes(*b));
        let wide = header & WIDE_ENDS != 0;
        let count = (header & !WIDE_ENDS).min(layout.slots.len() as u16);
        let extent = layout.extents[usize::from(count)];
        let fixed_start = HEADER_BYTES as u32 + u32::from(extent.null_bytes);
        let ends_start = fixed_start + extent.fixed_bytes;
        let end_width = if wide { WIDE_END } else { NARROW_END } as u32;
        let variable_start = ends_start + end_width * u32::from(extent.variable_count);
        RowRef { layout, bytes, count, wide, fixed_start, ends_start, variable_start }
    }

    /// The encoded row.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The row's layout.
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// Whether column `index` is NULL.
    #[inline]
    pub fn is_null(&self, index: usize) -> bool {
        let place = &self.layout.places[index];
        if place.slot >= self.count {
            return self.layout.columns[index].default.is_null();
        }
        self.null_bit_set(place)
    }

    #[inline]
    fn null_bit_set(&self, place: &ColumnPlace) -> bool {
        let bit = place.null_bit;
        bit != NEVER_NULL
            && self.bytes.get(HEADER_BYTES + usize::from(bit / 8)).is_none_or(|b| b >> (bit % 8) & 1 == 1)
    }

    /// Column `index`, without allocation.
    #[inline]
    pub fn get(&self, index: usize) -> ValueRef<'a> {
        let place = &self.layout.places[index];
        if place.slot >= self.count {
            return self.layout.columns[index].default.as_ref();
        }
        if self.null_bit_set(place) {
            return ValueRef::Null;
        }
        if place.codec == Codec::Variable {
            return ValueRef::Bytes(self.variable(place.position as usize).unwrap_or(&[]));
        }
        self.fixed(place).unwrap_or(ValueRef::Null)
    }

    /// Column `index` where it is an exact number of few digits; none also for NULL.
    #[inline]
    pub fn small(&self, index: usize) -> Option<Small> {
        let place = &self.layout.places[index];
        if let Codec::Decimal { precision, scale } = place.codec
            && place.slot < self.count
            && !self.null_bit_set(place)
        {
            let bytes = self.bytes.get((self.fixed_start + place.position) as usize..)?;
            if let Some(digits) = Decimal::load_digits(precision, scale, bytes) {
                return Some(Small { digits, scale });
            }
        }
        Small::of(self.get(index))
    }

    #[inline]
    fn variable(&self, nth: usize) -> Option<&'a [u8]> {
        let from = if nth == 0 { 0 } else { self.end(nth - 1)? };
        let start = self.variable_start as usize;
        self.bytes.get(start + from..start + self.end(nth)?)
    }

    #[inline]
    fn end(&self, nth: usize) -> Option<usize> {
        let ends = self.bytes.get(self.ends_start as usize..)?;
        if self.wide {
            let end = ends.get(nth * WIDE_END..)?.first_chunk()?;
            Some(u32::from_le_bytes(*end) as usize)
        } else {
            let end = ends.get(nth * NARROW_END..)?.first_chunk()?;
            Some(usize::from(u16::from_le_bytes(*end)))
        }
    }

    #[inline]
    fn fixed(&self, place: &ColumnPlace) -> Option<ValueRef<'a>> {
        let at = (self.fixed_start + place.position) as usize;
        let bytes = self.bytes.get(at..at + usize::from(place.width))?;
        let int = |signed: i64, unsigned: u64| {
            if place.unsigned { ValueRef::UInt(unsigned) } else { ValueRef::Int(signed) }
        };
        Some(match place.codec {
            Codec::Int4 => {
                let v = u32::from_le_bytes(*bytes.first_chunk()?);
                int(i64::from(v as i32), u64::from(v))
            }
            Codec::Int8 => {
                let v = u64::from_le_bytes(*bytes.first_chunk()?);
                int(v as i64, v)
            }
            Codec::Int1 => int(i64::from(bytes[0] as i8), u64::from(bytes[0])),
            Codec::Int2 => {
                let v = u16::from_le_bytes(*bytes.first_chunk()?);
                int(i64::from(v as i16), u64::from(v))
            }
            Codec::Int3 => {
                let v = little_endian(bytes);
                int((v as i64) << 40 >> 40, v)
            }
            Codec::Unsigned(_) => ValueRef::UInt(little_endian(bytes)),
            Codec::Bit(_) => ValueRef::UInt(bytes.iter().fold(0, |v, b| v << 8 | u64::from(*b))),
            Codec::Year => ValueRef::UInt(if bytes[0] == 0 { 0 } else { 1900 + u64::from(bytes[0]) }),
            Codec::Float => ValueRef::Float(f32::from_le_bytes(*bytes.first_chunk()?)),
            Codec::Double => ValueRef::Double(f64::from_le_bytes(*bytes.first_chunk()?)),
            Codec::Decimal { precision, scale } => {
                ValueRef::Decimal(Decimal::load(u32::from(precision), scale, bytes))
            }
            Codec::Date => ValueRef::Date(Date::from_packed(little_endian(bytes) as u32)),
            Codec::Time(digits) => ValueRef::Time(Time::load(digits, bytes)),
            Codec::DateTime(digits) => ValueRef::DateTime(DateTime::load(digits, bytes)),
            Codec::Timestamp(digits) => ValueRef::DateTime(DateTime::load_timestamp(digits, bytes)),
            Codec::Fixed(kind) => ValueRef::Fixed(Fixed::from_ordered(kind, bytes)),
            Codec::Variable => return None,
        })
    }
}

#[inline]
fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CollationId;

    fn column(ty: SqlType, nullable: bool, default: Value) -> Column {
        Column { ty, nullable, default }
    }

    #[test]
    fn rows_keep_their_places_when_columns_go_and_move() {
        let (int, text) = (SqlType::new(TypeKind::Int), SqlType::varchar(20, CollationId::UTF8MB4_BIN));
        let old = Layout::new(&[(int.clone(), true), (text.clone(), true), (int.clone(), false)]);
        let mut bytes = Vec::new();
        encode_values(&old, &[Value::Int(1), Value::bytes(b"gone"), Value::Int(3)], &mut bytes);
        // The text goes, the last column moves to the front, and two are added.
        let columns = vec![
            column(int.clone(), false, Value::Null),
            column(text.clone(), false, Value::bytes(b"new")),
            column(int.clone(), true, Value::Null),
            column(text.clone(), true, Value::Null),
        ];
        let slots =
            [Slot::Column(2), Slot::Gone(text, true), Slot::Column(0), Slot::Column(1), Slot::Column(3)];
        let layout = Layout::with_slots(columns, &slots);
        let row = RowRef::new(&layout, &bytes);
        assert_eq!(layout.problem(&bytes), None);
        assert_eq!([0, 2].map(|n| row.get(n)), [ValueRef::Int(3), ValueRef::Int(1)]);
        assert_eq!([1, 3].map(|n| row.get(n)), [ValueRef::Bytes(b"new"), ValueRef::Null]);
        assert_eq!([0, 1, 2, 3].map(|n| row.is_null(n)), [false, false, false, true]);
        assert_eq!([0, 2].map(|n| row.ordinal(n)), [Some(3), Some(1)]);
        assert_eq!(row.small(0), Some(Small { digits: 3, scale: 0 }));
        let mut newer = Vec::new();
        encode_values(
            &layout,
            &[Value::Int(7), Value::bytes(b"a"), Value::Null, Value::bytes(b"bc")],
            &mut newer,
        );
        let row = RowRef::new(&layout, &newer);
        assert_eq!(layout.problem(&newer), None);
        let values = [0, 1, 2, 3].map(|n| row.get(n));
        assert_eq!(values, [ValueRef::Int(7), ValueRef::Bytes(b"a"), ValueRef::Null, ValueRef::Bytes(b"bc")]);
    }
}

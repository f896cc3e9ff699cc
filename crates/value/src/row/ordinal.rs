//! Numbers that order as a column's values do: conditions on a row become comparisons of 64 bits.
//!
//! Integers, DATE, DATETIME and DECIMAL of up to 18 digits have them: the number itself, the digits, the stored octets.

use super::{Codec, ColumnPlace, Layout, RowRef, little_endian};
use crate::decimal::Small;
use crate::{DateTime, Decimal, ValueRef};

/// A value among a column's ordinals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ordinal {
    /// That of the value, or of the largest one below it. May be none that the column has.
    pub floor: i128,
    /// Whether the column could hold the very value.
    pub exact: bool,
}

/// Moves unsigned numbers of 64 bits to signed ones in their order.
const TOP: u64 = 1 << 63;

impl Layout {
    /// Where a value stands among the ordinals of column `index`; none where the column has none, or the value is of
    /// another kind.
    pub fn ordinal(&self, index: usize, value: ValueRef<'_>) -> Option<Ordinal> {
        let place = &self.places[index];
        match (place.codec, value) {
            (Codec::Int1 | Codec::Int2 | Codec::Int3 | Codec::Int4 | Codec::Int8, _) => {
                let wide = place.unsigned && place.codec == Codec::Int8;
                number(value, 0, if wide { i128::from(TOP) } else { 0 })
            }
            (Codec::Decimal { precision, scale }, _) => {
                // Whether so many digits are read at once.
                Decimal::load_digits(precision, scale, &[0x80, 0, 0, 0, 0, 0, 0, 0])?;
                number(value, scale, 0)
            }
            (Codec::Date, ValueRef::Date(v)) => Some(Ordinal { floor: v.packed().into(), exact: true }),
            (Codec::Date, ValueRef::DateTime(v)) => {
                Some(Ordinal { floor: v.date.packed().into(), exact: v == v.date.midnight() })
            }
            (Codec::DateTime(digits), ValueRef::Date(v)) => Some(stored(v.midnight(), digits)),
            (Codec::DateTime(digits), ValueRef::DateTime(v)) => Some(stored(v, digits)),
            _ => None,
        }
    }
}

/// An exact number at a scale, and moved down.
fn number(value: ValueRef<'_>, scale: u8, down: i128) -> Option<Ordinal> {
    let (digits, own) = match value {
        ValueRef::UInt(v) => (i128::from(v), 0),
        other => {
            let Small { digits, scale } = Small::of(other)?;
            (i128::from(digits), scale)
        }
    };
    let unit = 10i128.pow(u32::from(scale.abs_diff(own)));
    let (floor, exact) = match own <= scale {
        true => (digits.checked_mul(unit)?, true),
        false => (digits.div_euclid(unit), digits.rem_euclid(unit) == 0),
    };
    Some(Ordinal { floor: floor - down, exact })
}

/// A point in time as a DATETIME of so many digits.
fn stored(value: DateTime, digits: u8) -> Ordinal {
    let mut octets = Vec::with_capacity(size_of::<u64>());
    value.store(digits, &mut octets);
    Ordinal { floor: of_octets(&octets).into(), exact: value.cut(digits) == value }
}

/// Octets that order by memcmp.
#[inline]
fn of_octets(octets: &[u8]) -> i64 {
    let word = octets.iter().fold(0, |word, octet| word << 8 | u64::from(*octet));
    (word ^ TOP).cast_signed()
}

impl RowRef<'_> {
    /// The ordinal of column `index`, one of those for which [`Layout::ordinal`] gives some; none for NULL.
    #[inline]
    pub fn ordinal(&self, index: usize) -> Option<i64> {
        let place = &self.layout.places[index];
        if place.slot >= self.count {
            let default = self.layout.columns[index].default.as_ref();
            return self.layout.ordinal(index, default).and_then(|o| i64::try_from(o.floor).ok());
        }
        if self.null_bit_set(place) {
            return None;
        }
        self.stored_ordinal(place)
    }

    #[inline]
    fn stored_ordinal(&self, place: &ColumnPlace) -> Option<i64> {
        let rest = self.bytes.get((self.fixed_start + place.position) as usize..)?;
        if let Codec::Decimal { precision, scale } = place.codec {
            return Decimal::load_digits(precision, scale, rest);
        }
        let octets = rest.get(..usize::from(place.width))?;
        Some(match place.codec {
            Codec::Date => little_endian(octets).cast_signed(),
            Codec::DateTime(_) => of_octets(octets),
            Codec::Int8 if place.unsigned => (u64::from_le_bytes(*octets.first_chunk()?) ^ TOP).cast_signed(),
            Codec::Int8 => i64::from_le_bytes(*octets.first_chunk()?),
            Codec::Int4 if !place.unsigned => i64::from(i32::from_le_bytes(*octets.first_chunk()?)),
            Codec::Int1 | Codec::Int2 | Codec::Int3 | Codec::Int4 => {
                let unused = 64 - 8 * u32::from(place.width);
                let word = little_endian(octets);
                if place.unsigned { word.cast_signed() } else { (word << unused).cast_signed() >> unused }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode_values;
    use super::*;
    use crate::{Date, SqlType, TypeKind, Value};

    fn decimal(text: &str) -> Value {
        Value::Decimal(Decimal::parse(text.as_bytes()).unwrap())
    }

    /// Ordinals of values of one type, in order, and as rows give them.
    fn check(ty: SqlType, values: &[Value]) {
        let layout = Layout::new(&[(ty.clone(), true)]);
        let mut last = None;
        for value in values {
            let place = layout.ordinal(0, value.as_ref()).unwrap_or_else(|| panic!("{ty:?} {value:?}"));
            assert!(place.exact, "{value:?}");
            let mut bytes = Vec::new();
            encode_values(&layout, std::slice::from_ref(value), &mut bytes);
            let found = RowRef::new(&layout, &bytes).ordinal(0).map(i128::from);
            assert_eq!(found, Some(place.floor), "{value:?}");
            assert!(last < Some(place.floor), "{value:?}");
            last = Some(place.floor);
        }
        let mut bytes = Vec::new();
        encode_values(&layout, &[Value::Null], &mut bytes);
        assert_eq!(RowRef::new(&layout, &bytes).ordinal(0), None);
    }

    #[test]
    fn ordinals_order_as_values_do() {
        for (kind, bits) in [
            (TypeKind::TinyInt, 8),
            (TypeKind::SmallInt, 16),
            (TypeKind::MediumInt, 24),
            (TypeKind::Int, 32),
            (TypeKind::BigInt, 64),
        ] {
            let most = i64::MAX >> (64 - bits);
            check(SqlType::new(kind), &[-most - 1, -2, -1, 0, 1, most].map(Value::Int));
            let unsigned = SqlType { unsigned: true, ..SqlType::new(kind) };
            check(unsigned, &[0, 1, most as u64, most as u64 + 1, u64::MAX >> (64 - bits)].map(Value::UInt));
        }
        check(SqlType::decimal(15, 2), &["-10.01", "-0.05", "0", "0.07", "999"].map(decimal));
        let dates = [Date::ZERO, Date::new(1999, 12, 31), Date::new(2000, 0, 0), Date::new(2000, 1, 1)];
        check(SqlType::new(TypeKind::Date), &dates.map(Value::Date));
        for digits in [0, 3, 6] {
            let late =
                DateTime { hour: 23, micros: if digits > 0 { 500_000 } else { 0 }, ..dates[1].midnight() };
            let times = [DateTime::ZERO, dates[1].midnight(), late, dates[3].midnight()];
            check(SqlType::temporal(TypeKind::DateTime, digits), &times.map(Value::DateTime));
        }
    }

    #[test]
    fn values_between_ordinals_are_not_exact() {
        let layout = Layout::new(&[
            (SqlType::bigint(), false),
            (SqlType::decimal(5, 1), false),
            (SqlType::new(TypeKind::Date), false),
            (SqlType::double(), false),
            (SqlType::decimal(30, 2), false),
        ]);
        let between = |floor| Some(Ordinal { floor, exact: false });
        assert_eq!(layout.ordinal(0, decimal("-1.5").as_ref()), between(-2));
        assert_eq!(layout.ordinal(1, decimal("1.25").as_ref()), between(12));
        let noon = DateTime { hour: 12, ..Date::new(2000, 1, 1).midnight() };
        let day = i128::from(Date::new(2000, 1, 1).packed());
        assert_eq!(layout.ordinal(2, ValueRef::DateTime(noon)), between(day));
        assert_eq!(layout.ordinal(3, ValueRef::Int(1)), None);
        assert_eq!(layout.ordinal(4, ValueRef::Int(1)), None);
        assert_eq!(layout.ordinal(2, ValueRef::Int(1)), None);
    }
}

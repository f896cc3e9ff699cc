//! Tables of consecutive numbers, which nobody makes: `seq_1_to_10`, `seq_1_to_10_step_3`, `seq_10_to_1`.
//!
//! Such a name in any database stands for a table with one column, `seq`, where no other table has it. Its rows are worked out
//! as they are read; conditions on `seq` say where to begin and to end.

use keel_value::{SqlType, ValueRef, key};

use crate::key_range::KeyRange;
use crate::{ColumnDef, TableDef};

/// The numbers of such a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series {
    /// The least.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// Their distance.
    pub step: u64,
    /// They come from the greatest down.
    pub falls: bool,
}

/// The table that a name stands for.
pub fn table(schema: &str, name: &str) -> Option<TableDef> {
    let series = parse(name)?;
    let mut table = TableDef::virtual_table(schema, name, vec![("seq", SqlType::bigint_unsigned(), false)]);
    table.make_series(series, ColumnDef::plain("seq", SqlType::bigint_unsigned(), false));
    Some(table)
}

/// What a name says: `seq_FIRST_to_LAST` or `seq_FIRST_to_LAST_step_N`.
pub fn parse(name: &str) -> Option<Series> {
    let (first, rest) = number(name.strip_prefix("seq_")?)?;
    let (last, rest) = number(rest.strip_prefix("_to_")?)?;
    let step = match rest {
        "" => 1,
        rest => number(rest.strip_prefix("_step_")?).filter(|(_, rest)| rest.is_empty())?.0,
    };
    if step == 0 {
        return None;
    }
    let falls = first > last;
    let (low, high) = if falls { (last, first) } else { (first, last) };
    Some(Series { first: low, count: ((high - low) / step).saturating_add(1), step, falls })
}

fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// Numbers of a series that are still to come.
#[derive(Debug, Default)]
pub struct Rest {
    next: u64,
    count: u64,
    step: u64,
    falls: bool,
}

impl Series {
    /// How many numbers it has.
    pub fn rows(&self) -> u64 {
        self.count
    }

    /// Those within a range of keys, in the order of keys or against it.
    pub fn within(&self, range: &KeyRange, reverse: bool) -> Rest {
        let lower = place(&range.lower, self.falls);
        let upper = range.upper.as_deref().map_or(PLACES, |upper| place(upper, self.falls));
        if lower >= upper {
            return Rest::default();
        }
        let (low, high) = (at(lower, self.falls), at(upper - 1, self.falls));
        self.between(low.min(high), low.max(high), self.falls != reverse)
    }

    /// Those from `low` to `high`.
    fn between(&self, low: u64, high: u64, falls: bool) -> Rest {
        let last = self.first + (self.count - 1) * self.step;
        if low > last || high < self.first || low > high {
            return Rest::default();
        }
        let begin = low.saturating_sub(self.first).div_ceil(self.step);
        let end = (high.min(last) - self.first) / self.step;
        if begin > end {
            return Rest::default();
        }
        let place = if falls { end } else { begin };
        let count = (end - begin).saturating_add(1);
        Rest { next: self.first + place * self.step, count, step: self.step, falls }
    }
}

impl Rest {
    /// How many there are.
    pub fn rows(&self) -> u64 {
        self.count
    }
}

impl Iterator for Rest {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.count = self.count.checked_sub(1)?;
        let value = self.next;
        // Behind the last one it means nothing.
        self.next = match self.falls {
            true => value.wrapping_sub(self.step),
            false => value.wrapping_add(self.step),
        };
        Some(value)
    }
}

/// One place for each number, in the order of their keys.
const PLACES: u128 = 1 << 64;

/// The number at a place.
fn at(place: u128, falls: bool) -> u64 {
    let number = place as u64;
    if falls { u64::MAX - number } else { number }
}

/// The first place whose key does not lie before `octets`, a bound of a range: found by halving.
fn place(octets: &[u8], falls: bool) -> u128 {
    let part = key::KeyPart { descending: falls, ..key::KeyPart::new(SqlType::bigint_unsigned(), false) };
    let mut buffer = Vec::with_capacity(9);
    let mut lies_before = |place: u128| {
        buffer.clear();
        part.encode(ValueRef::UInt(at(place, falls)), &mut buffer);
        buffer.as_slice() < octets
    };
    let (mut low, mut high) = (0, PLACES);
    while low < high {
        let middle = low + (high - low) / 2;
        match lies_before(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_range::Holds;

    fn numbers(name: &str, range: &KeyRange, reverse: bool) -> Vec<u64> {
        parse(name).expect("a series").within(range, reverse).collect()
    }

    fn key_of(n: u64, falls: bool) -> Vec<u8> {
        let part = key::KeyPart { descending: falls, ..key::KeyPart::new(SqlType::bigint_unsigned(), false) };
        let mut out = Vec::new();
        part.encode(ValueRef::UInt(n), &mut out);
        out
    }

    #[test]
    fn names_say_first_last_and_step() {
        let series = |first, count, step, falls| Some(Series { first, count, step, falls });
        assert_eq!(parse("seq_1_to_10"), series(1, 10, 1, false));
        assert_eq!(parse("seq_10_to_1_step_3"), series(1, 4, 3, true));
        assert_eq!(parse("seq_9_to_1_step_3"), series(1, 3, 3, true));
        assert_eq!(parse("seq_01_to_03"), series(1, 3, 1, false));
        for name in ["seq_1_to_", "seq_1_to_3x", "seq_1_to_3_step_", "seq_1_to_3_step_0", "SEQ_1_TO_3"] {
            assert_eq!(parse(name), None);
        }
    }

    #[test]
    fn ranges_hold_the_numbers_between_their_keys() {
        let all = KeyRange::default();
        assert_eq!(numbers("seq_1_to_10_step_4", &all, false), [1, 5, 9]);
        assert_eq!(numbers("seq_1_to_10_step_4", &all, true), [9, 5, 1]);
        assert_eq!(numbers("seq_10_to_1_step_4", &all, false), [9, 5, 1]);
        let range = KeyRange {
            lower: key_of(2, false),
            upper: Some(key_of(9, false)),
            holds: Holds::Between,
            ..KeyRange::default()
        };
        assert_eq!(numbers("seq_1_to_10_step_4", &range, false), [5]);
        let range = KeyRange {
            lower: key_of(9, true),
            upper: Some(key_of(2, true)),
            holds: Holds::Between,
            ..KeyRange::default()
        };
        assert_eq!(numbers("seq_10_to_1_step_4", &range, false), [9, 5]);
        let last = "seq_18446744073709551614_to_18446744073709551615";
        assert_eq!(numbers(last, &all, false), [u64::MAX - 1, u64::MAX]);
    }
}

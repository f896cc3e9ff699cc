//! Points in time as microseconds, for the functions over dates; the calendar itself is `keel_value`'s.

use keel_value::{Date, DateTime, Time};

/// Microseconds of a day.
pub(crate) const DAY_MICROS: i64 = 86_400_000_000;

/// Microseconds since the calendar's day 0; a date with zero parts counts from the month or year before.
pub(crate) fn to_micros(v: DateTime) -> i64 {
    day_number(v.date) * DAY_MICROS + v.time().micros
}

/// TO_DAYS of any date; zero parts count as the first.
pub(crate) fn day_number(date: Date) -> i64 {
    Date { month: date.month.max(1), day: date.day.max(1), ..date }.day_number().unwrap_or(0)
}

/// The point of so many microseconds since day 0; None outside the calendar.
pub(crate) fn from_micros(micros: i64) -> Option<DateTime> {
    let date = Date::from_day_number(micros.div_euclid(DAY_MICROS))?;
    Some(date.at(Time { micros: micros.rem_euclid(DAY_MICROS) }))
}

/// A point in time so many microseconds later; None outside the calendar.
pub(crate) fn add_micros(v: DateTime, micros: i64) -> Option<DateTime> {
    from_micros(to_micros(v).checked_add(micros)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micros_round_trip() {
        let v = Date::new(2024, 2, 29).at(Time { micros: DAY_MICROS - 1 });
        assert_eq!(from_micros(to_micros(v)), Some(v));
        assert_eq!(add_micros(v, 1), Some(Date::new(2024, 3, 1).midnight()));
    }
}

//! Points in time as microseconds, for the functions over dates; the calendar itself is `keel_value`'s.

use keel_value::{Date, DateTime, Time};

/// Microseconds of a day.
pub(crate) const DAY_MICROS: i64 = 86_400_000_000;

/// Microseconds since the calendar's day 0; a date with zero parts counts from the month or year before.
pub(crate) fn to_micros(v: DateTime) -> i64 {
    day_number(v.date) * DAY_MICROS + v.time().micros
}

/// TO_DAYS of any date; a zero day is the one before the first, and so is a zero month, of 31 days.
pub(crate) fn day_number(date: Date) -> i64 {
    if date.year == 0 && date.month == 0 {
        return 0;
    }
    let first = Date { month: date.month.max(1), day: 1, ..date }.day_number().unwrap_or(0);
    let month_before = if date.month == 0 { 31 } else { 0 };
    first - month_before + i64::from(date.day) - 1
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

//! Calendar arithmetic of the functions over dates: day numbers as TO_DAYS counts them, months, weeks.

use keel_value::{Date, DateTime};

/// The last day that has a number.
pub(crate) const LAST_DAY_NUMBER: i64 = 3_652_424;
/// Microseconds of a day.
pub(crate) const DAY_MICROS: i64 = 86_400_000_000;

/// Days of the months before each month of a year that is no leap year.
const DAYS_BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Day number as TO_DAYS counts: 0000-01-01 is day 1, and year 0 is no leap year. Zero months and days count as one less
/// than the first.
pub(crate) fn day_number(date: Date) -> i64 {
    let (year, month, day) = (i64::from(date.year), date.month, i64::from(date.day));
    let before = if month == 0 { -31 } else { DAYS_BEFORE[usize::from(month - 1) % 12] };
    let leap_day = i64::from(month > 2 && is_leap(date.year));
    365 * year + leap_years_before(year) + before + leap_day + day
}

/// Leap years from year 1 up to the year before.
fn leap_years_before(year: i64) -> i64 {
    let last = (year - 1).max(0);
    last / 4 - last / 100 + last / 400
}

/// The date of a day number; 0000-00-00 outside the calendar.
pub(crate) fn date_of(number: i64) -> Date {
    if number <= 365 || number > LAST_DAY_NUMBER {
        return Date::default();
    }
    // The average year is a little longer than 365 days: the guess is at most one year too late.
    let mut year = (number * 400 / 146_097) as u16;
    while year_start(year) > number {
        year -= 1;
    }
    while year_start(year + 1) <= number {
        year += 1;
    }
    let mut day = number - year_start(year);
    let mut month = 1;
    while day >= i64::from(days_in_month(year, month)) {
        day -= i64::from(days_in_month(year, month));
        month += 1;
    }
    Date { year, month, day: day as u8 + 1 }
}

fn year_start(year: u16) -> i64 {
    day_number(Date { year, month: 1, day: 1 })
}

/// Whether a year has 366 days.
pub(crate) fn is_leap(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || (year.is_multiple_of(400) && year != 0))
}

/// Days of a month from 1 to 12; 31 for others.
pub(crate) fn days_in_month(year: u16, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// 0 = Monday.
pub(crate) fn weekday(date: Date) -> u8 {
    ((day_number(date) + 5) % 7) as u8
}

/// 1 = January 1st.
pub(crate) fn day_of_year(date: Date) -> i64 {
    day_number(date) - year_start(date.year) + 1
}

/// Microseconds since the calendar's day 0.
pub(crate) fn to_micros(v: DateTime) -> i64 {
    let seconds = i64::from(v.hour) * 3600 + i64::from(v.minute) * 60 + i64::from(v.second);
    day_number(v.date) * DAY_MICROS + seconds * 1_000_000 + i64::from(v.micros)
}

/// The point of so many microseconds since day 0; None outside the calendar.
pub(crate) fn from_micros(micros: i64) -> Option<DateTime> {
    let day = micros.div_euclid(DAY_MICROS);
    if day <= 365 || day > LAST_DAY_NUMBER {
        return None;
    }
    let rest = micros.rem_euclid(DAY_MICROS);
    let seconds = rest / 1_000_000;
    Some(DateTime {
        date: date_of(day),
        hour: (seconds / 3600) as u8,
        minute: (seconds / 60 % 60) as u8,
        second: (seconds % 60) as u8,
        micros: (rest % 1_000_000) as u32,
    })
}

/// A point in time so many microseconds later; None outside the calendar.
pub(crate) fn add_micros(v: DateTime, micros: i64) -> Option<DateTime> {
    from_micros(to_micros(v).checked_add(micros)?)
}

/// A date so many months later, its day cut to the month's length; None outside the calendar.
pub(crate) fn add_months(date: Date, months: i64) -> Option<Date> {
    let total = i64::from(date.year) * 12 + i64::from(date.month) - 1;
    let total = total.checked_add(months)?;
    let year = u16::try_from(total.div_euclid(12)).ok().filter(|y| *y <= 9999)?;
    let month = total.rem_euclid(12) as u8 + 1;
    Some(Date { year, month, day: date.day.min(days_in_month(year, month)) })
}

/// Week and its year under MariaDB's mode: bit 0 Monday first, bit 1 weeks 1-53 (never 0), bit 2 week 1 is the first that
/// lies wholly in the year (else the first with four days or more in it).
pub(crate) fn week(date: Date, mode: u8) -> (i64, u16) {
    let monday_first = mode & 1 != 0;
    let never_zero = mode & 2 != 0;
    let whole_weeks = mode & 4 != 0;
    let days_into_week = |number: i64| if monday_first { (number + 5) % 7 } else { (number + 6) % 7 };
    // Week 1 holds January 4th, or January 7th where it must lie wholly in the year.
    let first_week = |year: u16| {
        let inside = year_start(year) + if whole_weeks { 6 } else { 3 };
        inside - days_into_week(inside)
    };
    let number = day_number(date);
    let year = date.year;
    let start = first_week(year);
    if number < start {
        if !never_zero || year == 0 {
            return (0, year);
        }
        return ((number - first_week(year - 1)) / 7 + 1, year - 1);
    }
    if never_zero && number >= first_week(year + 1) {
        return (1, year + 1);
    }
    ((number - start) / 7 + 1, year)
}

/// The mode of `week` for MariaDB's mode argument of WEEK().
pub(crate) fn week_mode(mode: i64) -> u8 {
    let bits = (mode & 7) as u8;
    if bits & 1 == 0 { bits ^ 4 } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_numbers_round_trip() {
        for number in (366..LAST_DAY_NUMBER).step_by(97) {
            assert_eq!(day_number(date_of(number)), number);
        }
        assert_eq!(day_number(Date { year: 2024, month: 1, day: 1 }), 739_251);
        assert_eq!(date_of(LAST_DAY_NUMBER), Date { year: 9999, month: 12, day: 31 });
    }

    #[test]
    fn weeks_follow_the_mode() {
        let last = Date { year: 2024, month: 12, day: 31 };
        assert_eq!(week(last, week_mode(1)).0, 53);
        assert_eq!(week(last, week_mode(3)), (1, 2025));
        let first = Date { year: 2024, month: 1, day: 1 };
        assert_eq!(week(first, week_mode(0)).0, 0);
        assert_eq!(week(first, week_mode(2)), (53, 2023));
        assert_eq!(weekday(first), 0);
    }

    #[test]
    fn months_keep_to_their_length() {
        assert_eq!(add_months(Date { year: 2024, month: 1, day: 31 }, 1), Some(Date { year: 2024, month: 2, day: 29 }));
        assert_eq!(add_months(Date { year: 9999, month: 12, day: 1 }, 1), None);
    }
}

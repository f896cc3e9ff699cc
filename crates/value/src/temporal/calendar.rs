//! The proleptic Gregorian calendar: day numbers, weeks, and adding spans.

use super::{Date, DateTime, MICROS, Time};

/// Days from 0000-00-00 in MariaDB's TO_DAYS to 1970-01-01.
const DAYS_TO_1970: i64 = 719_528;
/// The largest year.
const YEAR_MAX: i64 = 9999;

/// Days of a month, 0 for month 0.
pub fn days_in_month(year: u16, month: u8) -> u8 {
    match month {
        0 => 0,
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || (year.is_multiple_of(400) && year != 0))
}

/// Days since 1970-01-01 of a date of the calendar (algorithm of H. Hinnant, days_from_civil).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u8, day)
}

/// A span to add to a date: months first, then days, then time. Fields may be of any sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interval {
    /// Years and quarters included.
    pub months: i64,
    /// Weeks included.
    pub days: i64,
    /// Hours and minutes included.
    pub seconds: i64,
    /// Fractions.
    pub micros: i64,
}

impl Interval {
    /// The opposite; saturates.
    pub fn neg(&self) -> Interval {
        Interval {
            months: self.months.saturating_neg(),
            days: self.days.saturating_neg(),
            seconds: self.seconds.saturating_neg(),
            micros: self.micros.saturating_neg(),
        }
    }

    /// Whether it has a part below a day.
    pub fn has_time(self) -> bool {
        self.seconds != 0 || self.micros != 0
    }
}

impl Date {
    /// Whether month and day exist.
    pub fn is_real(self) -> bool {
        self.month > 0 && self.month <= 12 && self.day > 0 && self.day <= days_in_month(self.year, self.month)
    }

    /// TO_DAYS; `None` where month or day is zero.
    pub fn day_number(self) -> Option<i64> {
        (self.month > 0 && self.day > 0).then(|| {
            let since = days_from_civil(i64::from(self.year), i64::from(self.month), i64::from(self.day));
            // MariaDB counts the year 0 as a common year.
            since + DAYS_TO_1970 + i64::from(self.year == 0 && self.month <= 2)
        })
    }

    /// FROM_DAYS; day numbers below 366 and past 9999-12-31 have no date.
    pub fn from_day_number(days: i64) -> Option<Date> {
        let (year, month, day) = civil_from_days(days.checked_sub(DAYS_TO_1970)?);
        (days > 365 && year <= YEAR_MAX).then_some(Date { year: year as u16, month, day })
    }

    /// 0 is Monday.
    pub fn weekday(self) -> Option<u8> {
        self.day_number().map(|days| ((days + 5) % 7) as u8)
    }

    /// From 1.
    pub fn day_of_year(self) -> Option<u16> {
        let first = Date::new(self.year, 1, 1).day_number()?;
        self.day_number().map(|days| (days - first + 1) as u16)
    }

    /// WEEK() of a mode (0-7) with the year that the week belongs to, as YEARWEEK() shows them.
    pub fn week(self, mode: u8) -> Option<(u16, u8)> {
        let monday_first = mode & 1 != 0;
        let mut counts_from_one = mode & 2 != 0;
        let first_weekday = (mode & 4 != 0) == monday_first;
        let today = self.day_number()?;
        let new_year = Date::new(self.year, 1, 1).day_number()?;
        let weekday_of = |days: i64| (days + if monday_first { 5 } else { 6 }) % 7;
        let mut weekday = weekday_of(new_year);
        let mut year = self.year;
        let starts_late = |weekday: i64| if first_weekday { weekday != 0 } else { weekday >= 4 };
        let mut start = new_year;
        if self.month == 1 && i64::from(self.day) <= 7 - weekday {
            if !counts_from_one && starts_late(weekday) {
                return Some((year, 0));
            }
            counts_from_one = true;
            year = year.checked_sub(1)?;
            let days = if is_leap(year) { 366 } else { 365 };
            start -= days;
            weekday = (weekday + 53 * 7 - days) % 7;
        }
        let days =
            if starts_late(weekday) { today - (start + 7 - weekday) } else { today - (start - weekday) };
        if counts_from_one && days >= 52 * 7 {
            let next = (weekday + if is_leap(year) { 366 } else { 365 }) % 7;
            if !starts_late(next) {
                return Some((year + 1, 1));
            }
        }
        Some((year, (days / 7 + 1) as u8))
    }
}

impl DateTime {
    /// The UTC wall clock of a Unix time; years outside 0-9999 give the nearest.
    pub fn from_unix(seconds: i64, micros: u32) -> DateTime {
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        let clock = seconds.rem_euclid(86_400);
        DateTime {
            date: Date { year: year.clamp(0, YEAR_MAX) as u16, month, day },
            hour: (clock / 3600) as u8,
            minute: (clock / 60 % 60) as u8,
            second: (clock % 60) as u8,
            micros,
            repeated: false,
        }
    }

    /// Seconds since 1970 of a UTC wall clock.
    pub fn to_unix(self) -> i64 {
        let date = self.date;
        let days =
            days_from_civil(i64::from(date.year), i64::from(date.month.max(1)), i64::from(date.day.max(1)));
        days * 86_400 + i64::from(self.hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second)
    }

    /// Adds a span; a day past the end of its month becomes the last one. `None` where the date has zero parts that the
    /// span needs, or the result leaves 0000-9999.
    pub fn add_interval(self, span: Interval) -> Option<DateTime> {
        let mut result = self;
        if span.months != 0 {
            let month = i64::from(self.date.year) * 12 + i64::from(self.date.month) - 1;
            let month = month.checked_add(span.months)?;
            let year = month.div_euclid(12);
            if !(0..=YEAR_MAX).contains(&year) || self.date.month == 0 {
                return None;
            }
            let (year, month) = (year as u16, (month.rem_euclid(12) + 1) as u8);
            result.date = Date::new(year, month, self.date.day.min(days_in_month(year, month)));
        }
        if span.days == 0 && !span.has_time() {
            return Some(result);
        }
        let clock = result.time().micros;
        let moved = span.seconds.checked_mul(MICROS)?.checked_add(span.micros)?.checked_add(clock)?;
        let days = result.date.day_number()?.checked_add(span.days)?;
        let days = days.checked_add(moved.div_euclid(86_400 * MICROS))?;
        let date = Date::from_day_number(days)?;
        Some(date.at(Time { micros: moved.rem_euclid(86_400 * MICROS) }))
    }
}

impl Date {
    /// The day at a time of day, whose hours are below 24.
    pub fn at(self, time: Time) -> DateTime {
        DateTime {
            date: self,
            hour: time.hours() as u8,
            minute: time.minutes(),
            second: time.seconds(),
            micros: time.fraction(),
            repeated: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_numbers_are_the_servers() {
        for (date, number) in [
            (Date::new(1, 1, 1), 366),
            (Date::new(1970, 1, 1), 719_528),
            (Date::new(2000, 2, 29), 730_544),
            (Date::new(9999, 12, 31), 3_652_424),
        ] {
            assert_eq!(date.day_number(), Some(number));
            assert_eq!(Date::from_day_number(number), Some(date));
        }
        assert_eq!(Date::new(0, 1, 1).day_number(), Some(1));
        assert_eq!(Date::new(0, 3, 1).day_number(), Some(60));
        assert_eq!(Date::new(0, 12, 31).day_number(), Some(365));
        assert_eq!(Date::new(2024, 0, 1).day_number(), None);
        assert_eq!(Date::from_day_number(365), None);
        assert_eq!(Date::new(2024, 2, 29).weekday(), Some(3));
        assert_eq!(Date::new(2024, 12, 31).day_of_year(), Some(366));
    }

    #[test]
    fn every_day_has_its_number() {
        for number in 366..3_652_425 {
            let date = Date::from_day_number(number).expect("in range");
            assert!(date.is_real());
            assert_eq!(date.day_number(), Some(number));
        }
    }

    #[test]
    fn spans_end_at_month_ends_and_stop_at_the_calendar() {
        let v = Date::new(2024, 1, 31).midnight();
        let month = Interval { months: 1, ..Interval::default() };
        assert_eq!(v.add_interval(month), Some(Date::new(2024, 2, 29).midnight()));
        assert_eq!(v.add_interval(month.neg()), Some(Date::new(2023, 12, 31).midnight()));
        let second = Interval { seconds: -1, ..Interval::default() };
        let before = v.add_interval(second).expect("in range");
        assert_eq!((before.date, before.hour, before.second), (Date::new(2024, 1, 30), 23, 59));
        assert_eq!(
            Date::new(9999, 12, 31).midnight().add_interval(Interval { days: 1, ..Interval::default() }),
            None
        );
        assert_eq!(v.add_interval(Interval { days: i64::MAX, ..Interval::default() }), None);
    }
}

//! DATE, TIME and DATETIME with MariaDB's ranges, zero dates included.
//!
//! 1. A [`Date`] may be all zero (`0000-00-00`), have a zero month or day, or a day that its month lacks (`sql_mode`
//!    decides who lets those in). Calendar arithmetic is asked only of dates for which [`Date::is_real`] holds, and says
//!    `None` otherwise.
//! 2. Fractions are microseconds and are cut off, not rounded, where a type has fewer digits, as MariaDB does unless
//!    `TIME_ROUND_FRACTIONAL` is set.
//! 3. The stored forms are those of binary logs since MySQL 5.6 and order by memcmp.

use crate::SqlMode;

mod calendar;
pub mod named;
mod parse;

pub use calendar::{Interval, days_in_month};
pub use parse::{
    BadTemporal, DateRules, Flaw, Moment, ParsedDateTime, ParsedSpan, ParsedTime, datetime_from_number,
    moment_from_number, parse_datetime, parse_moment, parse_span, parse_time, time_from_number,
};

/// A date. Orders by calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Date {
    /// 0-9999.
    pub year: u16,
    /// 0-12.
    pub month: u8,
    /// 0-31.
    pub day: u8,
}

/// A signed span of up to 838:59:59.999999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Microseconds, signed.
    pub micros: i64,
}

/// A date with a time of day. Orders by calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DateTime {
    /// The day.
    pub date: Date,
    /// 0-23.
    pub hour: u8,
    /// 0-59.
    pub minute: u8,
    /// 0-59.
    pub second: u8,
    /// The later of two instants that the session's clock shows alike, when it is set back. Only values of type TIMESTAMP
    /// have it.
    pub repeated: bool,
    /// 0-999999.
    pub micros: u32,
}

/// The last second of UTC that a TIMESTAMP holds.
pub const TIMESTAMP_MAX: i64 = 0x7FFF_FFFF;

/// A time zone, as sessions have.
pub trait Zone {
    /// The wall clock of a UTC instant; [`DateTime::repeated`] tells the later of two instants.
    fn to_local(&self, utc: DateTime) -> DateTime;
    /// The UTC instant of a wall clock, and whether the clock skips that time: then it is the instant at which it does.
    fn to_utc(&self, local: DateTime) -> (DateTime, bool);
}

/// A zone that is always so many seconds ahead of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedOffset(pub i32);

/// UTC as a session's zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc;

impl Zone for Utc {
    fn to_local(&self, utc: DateTime) -> DateTime {
        utc
    }

    fn to_utc(&self, local: DateTime) -> (DateTime, bool) {
        (local, false)
    }
}

impl Zone for FixedOffset {
    fn to_local(&self, utc: DateTime) -> DateTime {
        DateTime::from_unix(utc.to_unix() + i64::from(self.0), utc.micros)
    }

    fn to_utc(&self, local: DateTime) -> (DateTime, bool) {
        (DateTime::from_unix(local.to_unix() - i64::from(self.0), local.micros), false)
    }
}

const MICROS: i64 = 1_000_000;

/// Octets that hold a fraction of so many digits.
const fn fraction_bytes(digits: u8) -> usize {
    (digits as usize).div_ceil(2)
}

/// A fraction in the unit of its stored form.
const fn fraction_unit(digits: u8) -> u32 {
    match digits {
        0 => 1_000_000,
        1 | 2 => 10_000,
        3 | 4 => 100,
        _ => 1,
    }
}

/// Cuts microseconds to so many digits.
pub const fn cut_micros(micros: u32, digits: u8) -> u32 {
    let unit = 10u32.pow(6 - if digits > 6 { 6 } else { digits as u32 });
    micros / unit * unit
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |v, b| v << 8 | u64::from(*b))
}

impl Date {
    /// `0000-00-00`.
    pub const ZERO: Date = Date { year: 0, month: 0, day: 0 };

    /// A date, whatever its parts.
    pub const fn new(year: u16, month: u8, day: u8) -> Date {
        Date { year, month, day }
    }

    /// Whether all parts are zero.
    pub fn is_zero(self) -> bool {
        self == Date::ZERO
    }

    /// Three octets as a number that orders as dates do.
    pub fn packed(self) -> u32 {
        u32::from(self.year) << 9 | u32::from(self.month) << 5 | u32::from(self.day)
    }

    /// The date of [`Date::packed`].
    pub fn from_packed(v: u32) -> Date {
        Date { year: (v >> 9) as u16, month: (v >> 5 & 15) as u8, day: (v & 31) as u8 }
    }

    /// As the number YYYYMMDD.
    pub fn to_number(self) -> u64 {
        u64::from(self.year) * 10_000 + u64::from(self.month) * 100 + u64::from(self.day)
    }

    /// The start of the day.
    pub fn midnight(self) -> DateTime {
        DateTime { date: self, ..DateTime::default() }
    }
}

impl Time {
    /// 838:59:59.999999.
    pub const MAX: Time = Time { micros: ((838 * 60 + 59) * 60 + 59) * MICROS + 999_999 };

    /// A span; parts beyond the range give the nearest bound.
    pub fn from_parts(negative: bool, hours: u32, minutes: u8, seconds: u8, micros: u32) -> Time {
        let seconds = (i64::from(hours) * 60 + i64::from(minutes)) * 60 + i64::from(seconds);
        let span = (seconds * MICROS + i64::from(micros)).min(Time::MAX.micros);
        Time { micros: if negative { -span } else { span } }
    }

    /// Whole hours of its size.
    pub fn hours(self) -> u32 {
        (self.micros.unsigned_abs() / (3600 * MICROS as u64)) as u32
    }

    /// Minutes after the hours.
    pub fn minutes(self) -> u8 {
        (self.micros.unsigned_abs() / (60 * MICROS as u64) % 60) as u8
    }

    /// Seconds after the minutes.
    pub fn seconds(self) -> u8 {
        (self.micros.unsigned_abs() / MICROS as u64 % 60) as u8
    }

    /// Microseconds after the seconds.
    pub fn fraction(self) -> u32 {
        (self.micros.unsigned_abs() % MICROS as u64) as u32
    }

    /// Cut to so many fraction digits.
    pub fn cut(self, digits: u8) -> Time {
        let cut = i64::from(self.fraction() - cut_micros(self.fraction(), digits));
        Time { micros: self.micros - cut * self.micros.signum() }
    }

    /// Brought to so many fraction digits: cut, or rounded under TIME_ROUND_FRACTIONAL within the bounds of times.
    pub fn fit(self, digits: u8, mode: SqlMode) -> Time {
        if !mode.has(SqlMode::TIME_ROUND_FRACTIONAL) || digits >= 6 {
            return self.cut(digits);
        }
        let half = 5 * 10i64.pow(5 - u32::from(digits));
        let rounded = self.micros + self.micros.signum() * half;
        Time { micros: rounded.clamp(-Time::MAX.micros, Time::MAX.micros) }.cut(digits)
    }

    /// As the number HHMMSS, signed.
    pub fn to_number(self) -> i64 {
        let size =
            i64::from(self.hours()) * 10_000 + i64::from(self.minutes()) * 100 + i64::from(self.seconds());
        size * self.micros.signum()
    }

    /// Octets of the stored form.
    pub const fn stored_bytes(digits: u8) -> usize {
        3 + fraction_bytes(digits)
    }

    /// Appends the stored form: hours, minutes, seconds and fraction as one number around an offset.
    pub fn store(self, digits: u8, out: &mut Vec<u8>) {
        let clock =
            i64::from(self.hours()) << 12 | i64::from(self.minutes()) << 6 | i64::from(self.seconds());
        let bits = 8 * fraction_bytes(digits);
        let fraction = if digits == 0 { 0 } else { self.fraction() / fraction_unit(digits) };
        let size = clock << bits | i64::from(fraction);
        let v = (0x80_0000i64 << bits) + if self.micros < 0 { -size } else { size };
        out.extend_from_slice(&v.to_be_bytes()[8 - Time::stored_bytes(digits)..]);
    }

    /// Reads what [`Time::store`] wrote.
    pub fn load(digits: u8, bytes: &[u8]) -> Time {
        let bits = 8 * fraction_bytes(digits);
        let v = big_endian(bytes) as i64 - (0x80_0000i64 << bits);
        let size = v.unsigned_abs();
        let clock = size >> bits;
        let fraction =
            (size & ((1 << bits) - 1)) as u32 * if digits == 0 { 0 } else { fraction_unit(digits) };
        Time::from_parts(
            v < 0,
            (clock >> 12 & 1023) as u32,
            (clock >> 6 & 63) as u8,
            (clock & 63) as u8,
            fraction,
        )
    }
}

impl DateTime {
    /// `0000-00-00 00:00:00`.
    pub const ZERO: DateTime =
        DateTime { date: Date::ZERO, hour: 0, minute: 0, second: 0, micros: 0, repeated: false };

    /// Whether all parts are zero.
    pub fn is_zero(self) -> bool {
        self == DateTime::ZERO
    }

    /// The time that the clock shows, whichever instant it is.
    pub fn shown(self) -> DateTime {
        DateTime { repeated: false, ..self }
    }

    /// The time of day.
    pub fn time(self) -> Time {
        Time::from_parts(false, u32::from(self.hour), self.minute, self.second, self.micros)
    }

    /// Cut to so many fraction digits.
    pub fn cut(self, digits: u8) -> DateTime {
        DateTime { micros: cut_micros(self.micros, digits), ..self }
    }

    /// Brought to so many fraction digits: cut, or rounded under TIME_ROUND_FRACTIONAL within the calendar.
    pub fn fit(self, digits: u8, mode: SqlMode) -> DateTime {
        if !mode.has(SqlMode::TIME_ROUND_FRACTIONAL) || digits >= 6 {
            return self.cut(digits);
        }
        let half = 5 * 10i64.pow(5 - u32::from(digits));
        self.add_interval(Interval { micros: half, ..Default::default() }).unwrap_or(self).cut(digits)
    }

    /// As the number YYYYMMDDHHMMSS.
    pub fn to_number(self) -> u64 {
        let clock = u64::from(self.hour) * 10_000 + u64::from(self.minute) * 100 + u64::from(self.second);
        self.date.to_number() * 1_000_000 + clock
    }

    /// Octets of the stored form of DATETIME.
    pub const fn stored_bytes(digits: u8) -> usize {
        5 + fraction_bytes(digits)
    }

    /// Appends the stored form of DATETIME. A form with fraction digits also holds [`DateTime::repeated`], as a fraction of
    /// more than a second.
    pub fn store(self, digits: u8, out: &mut Vec<u8>) {
        let month = u64::from(self.date.year) * 13 + u64::from(self.date.month);
        let day = month << 5 | u64::from(self.date.day);
        let clock = u64::from(self.hour) << 12 | u64::from(self.minute) << 6 | u64::from(self.second);
        let v = 0x80_0000_0000 + (day << 17 | clock);
        out.extend_from_slice(&v.to_be_bytes()[3..]);
        store_fraction(self.micros + if self.repeated { MICROS as u32 } else { 0 }, digits, out);
    }

    /// Reads what [`DateTime::store`] wrote.
    pub fn load(digits: u8, bytes: &[u8]) -> DateTime {
        let (head, fraction) = bytes.split_at(bytes.len().min(5));
        let v = big_endian(head).wrapping_sub(0x80_0000_0000);
        let (day, clock) = (v >> 17, v & 0x1_FFFF);
        let month = day >> 5;
        let micros = load_fraction(digits, fraction);
        DateTime {
            date: Date::new((month / 13) as u16, (month % 13) as u8, (day & 31) as u8),
            hour: (clock >> 12) as u8,
            minute: (clock >> 6 & 63) as u8,
            second: (clock & 63) as u8,
            repeated: micros >= MICROS as u32,
            micros: micros % MICROS as u32,
        }
    }

    /// Octets of the stored form of TIMESTAMP.
    pub const fn timestamp_bytes(digits: u8) -> usize {
        4 + fraction_bytes(digits)
    }

    /// Appends the stored form of TIMESTAMP; the value is in UTC. The zero date is second 0.
    pub fn store_timestamp(self, digits: u8, out: &mut Vec<u8>) {
        let seconds = if self.is_zero() { 0 } else { self.to_unix().clamp(0, i64::from(u32::MAX)) as u32 };
        out.extend_from_slice(&seconds.to_be_bytes());
        store_fraction(self.micros, digits, out);
    }

    /// Reads what [`DateTime::store_timestamp`] wrote, in UTC.
    pub fn load_timestamp(digits: u8, bytes: &[u8]) -> DateTime {
        let (head, fraction) = bytes.split_at(bytes.len().min(4));
        match (big_endian(head), load_fraction(digits, fraction)) {
            (0, 0) => DateTime::ZERO,
            (seconds, micros) => DateTime::from_unix(seconds as i64, micros),
        }
    }
}

fn store_fraction(micros: u32, digits: u8, out: &mut Vec<u8>) {
    let v = micros / fraction_unit(digits);
    out.extend_from_slice(&v.to_be_bytes()[4 - fraction_bytes(digits)..]);
}

fn load_fraction(digits: u8, bytes: &[u8]) -> u32 {
    big_endian(bytes) as u32 * fraction_unit(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_times_order_and_come_back() {
        let spans = [
            Time { micros: -Time::MAX.micros },
            Time::from_parts(true, 1, 0, 0, 500_000),
            Time::from_parts(true, 0, 0, 1, 0),
            Time::from_parts(true, 0, 0, 0, 500_000),
            Time::default(),
            Time::from_parts(false, 0, 0, 0, 120_000),
            Time::from_parts(false, 23, 59, 59, 0),
            Time::MAX,
        ];
        for digits in 0..=6 {
            let stored: Vec<Vec<u8>> = spans
                .iter()
                .map(|span| {
                    let mut out = Vec::new();
                    let cut = span.cut(digits);
                    cut.store(digits, &mut out);
                    assert_eq!(out.len(), Time::stored_bytes(digits));
                    assert_eq!(Time::load(digits, &out), cut, "{span:?} with {digits}");
                    out
                })
                .collect();
            assert!(stored.is_sorted(), "{digits}");
        }
    }

    #[test]
    fn the_later_of_two_instants_comes_back_and_orders_behind_the_first() {
        let first = DateTime { hour: 2, micros: 120_000, ..Date::new(2025, 10, 26).midnight() };
        let later = DateTime { repeated: true, ..first };
        for digits in 2..=6 {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            first.store(digits, &mut a);
            later.store(digits, &mut b);
            assert!(a < b);
            assert_eq!((DateTime::load(digits, &a), DateTime::load(digits, &b)), (first, later));
        }
    }

    #[test]
    fn binary_log_form_is_the_published_one() {
        let mut out = Vec::new();
        Time::from_parts(true, 0, 0, 0, 500_000).store(1, &mut out);
        assert_eq!(out, [0x7F, 0xFF, 0xFF, 0xCE]);
        out.clear();
        DateTime {
            date: Date::new(2024, 2, 29),
            hour: 1,
            minute: 2,
            second: 3,
            micros: 450_000,
            repeated: false,
        }
        .store(2, &mut out);
        assert_eq!(out, [0x99, 0xB2, 0xBA, 0x10, 0x83, 45]);
    }

    #[test]
    fn stored_datetimes_order_and_come_back() {
        let values = [
            DateTime::ZERO,
            Date::new(0, 0, 5).midnight(),
            Date::new(1999, 12, 31).midnight(),
            DateTime {
                hour: 23,
                minute: 59,
                second: 59,
                micros: 999_999,
                ..Date::new(1999, 12, 31).midnight()
            },
            Date::new(2000, 0, 0).midnight(),
            Date::new(9999, 12, 31).midnight(),
        ];
        for digits in 0..=6 {
            let mut last = Vec::new();
            for v in values {
                let mut out = Vec::new();
                v.cut(digits).store(digits, &mut out);
                assert_eq!(DateTime::load(digits, &out), v.cut(digits));
                assert!(last <= out);
                last = out;
            }
        }
        for v in values {
            assert_eq!(Date::from_packed(v.date.packed()), v.date);
        }
    }

    #[test]
    fn timestamps_keep_their_instant() {
        let v = DateTime { micros: 120_000, ..DateTime::from_unix(1_700_000_000, 0) };
        let mut out = Vec::new();
        v.store_timestamp(2, &mut out);
        assert_eq!(DateTime::load_timestamp(2, &out), v);
        assert_eq!(DateTime::load_timestamp(0, &[0; 4]), DateTime::ZERO);
        let zone = FixedOffset(-3600);
        assert_eq!(zone.to_utc(zone.to_local(v)), (v, false));
    }
}

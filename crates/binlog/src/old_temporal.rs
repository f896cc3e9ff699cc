//! TIME, DATETIME and TIMESTAMP of tables created with `mysql56_temporal_format=OFF`.
//!
//! Without fraction digits the values are little-endian numbers: HHMMSS, YYYYMMDDHHMMSS, seconds since 1970.
//! With fraction digits the values are big-endian. TIME counts units of the last digit since -839:00:00,
//! DATETIME since year 0 with months of 32 days and years of 13 months. TIMESTAMP is seconds and fraction.

use keel_value::{Date, DateTime, Time};

use crate::bytes::{Input, Output};
use crate::error::{Error, Result};
use crate::image::is_datetime;

/// Length by number of digits.
const TIME_BYTES: [usize; 7] = [3, 4, 4, 5, 5, 5, 6];
const DATETIME_BYTES: [usize; 7] = [8, 6, 6, 7, 7, 7, 8];
const FRACTION_BYTES: [usize; 7] = [0, 1, 1, 2, 2, 3, 3];

/// Seconds of 839 hours.
const TIME_ZERO: i64 = 839 * 3600;

const MICROS: u64 = 1_000_000;

/// Microseconds of a unit of the last digit.
fn unit(digits: u8) -> u64 {
    10u64.pow(6 - u32::from(digits.min(6)))
}

pub(crate) fn read_time(input: &mut Input<'_>, digits: u8) -> Result<Time> {
    let at = input.offset();
    let flaw = || Error::invalid(at, "TIME");
    if digits == 0 {
        let v = (input.uint(3)? << 40) as i64 >> 40;
        let size = v.unsigned_abs() as u32;
        let (hours, minutes, seconds) = (size / 10_000, size / 100 % 100, size % 100);
        if hours > 838 || minutes > 59 || seconds > 59 {
            return Err(flaw());
        }
        return Ok(Time::from_parts(v < 0, hours, minutes as u8, seconds as u8, 0));
    }
    let v = input.uint_be(TIME_BYTES[usize::from(digits.min(6))])? as i64;
    let zero = TIME_ZERO * (MICROS / unit(digits)) as i64;
    let micros = (v - zero) * unit(digits) as i64;
    if micros.unsigned_abs() > Time::MAX.micros.unsigned_abs() {
        return Err(flaw());
    }
    Ok(Time { micros })
}

pub(crate) fn append_time(out: &mut Vec<u8>, value: Time, digits: u8) {
    if digits == 0 {
        out.put_uint(value.to_number() as u64, 3);
        return;
    }
    let v = value.micros / unit(digits) as i64 + TIME_ZERO * (MICROS / unit(digits)) as i64;
    out.put_uint_be(v as u64, TIME_BYTES[usize::from(digits.min(6))]);
}

pub(crate) fn read_datetime(input: &mut Input<'_>, digits: u8) -> Result<DateTime> {
    let at = input.offset();
    let count = DATETIME_BYTES[usize::from(digits.min(6))];
    let value =
        if digits == 0 { of_number(input.uint(count)?) } else { of_packed(input.uint_be(count)?, digits) };
    value.filter(is_datetime).ok_or_else(|| Error::invalid(at, "DATETIME"))
}

fn of_number(v: u64) -> Option<DateTime> {
    let (day, clock) = (v / 1_000_000, (v % 1_000_000) as u32);
    let year = u16::try_from(day / 10_000).ok()?;
    let date = Date::new(year, (day / 100 % 100) as u8, (day % 100) as u8);
    let (hour, minute, second) = (clock / 10_000, clock / 100 % 100, clock % 100);
    Some(DateTime { date, hour: hour as u8, minute: minute as u8, second: second as u8, ..DateTime::ZERO })
        .filter(|value| value.date.day <= 31)
}

fn of_packed(v: u64, digits: u8) -> Option<DateTime> {
    let per_second = MICROS / unit(digits);
    let micros = (v % per_second * unit(digits)) as u32;
    let seconds = v / per_second;
    let (second, minutes) = (seconds % 60, seconds / 60);
    let (minute, hours) = (minutes % 60, minutes / 60);
    let (hour, days) = (hours % 24, hours / 24);
    let (day, months) = (days % 32, days / 32);
    let (month, year) = (months % 13, u16::try_from(months / 13).ok()?);
    let date = Date::new(year, month as u8, day as u8);
    Some(DateTime {
        date,
        hour: hour as u8,
        minute: minute as u8,
        second: second as u8,
        micros,
        repeated: false,
    })
}

pub(crate) fn append_datetime(out: &mut Vec<u8>, value: DateTime, digits: u8) {
    let count = DATETIME_BYTES[usize::from(digits.min(6))];
    if digits == 0 {
        out.put_uint(value.to_number(), count);
        return;
    }
    let months = u64::from(value.date.year) * 13 + u64::from(value.date.month);
    let hours = (months * 32 + u64::from(value.date.day)) * 24 + u64::from(value.hour);
    let seconds = (hours * 60 + u64::from(value.minute)) * 60 + u64::from(value.second);
    let v = (seconds * MICROS + u64::from(value.micros)) / unit(digits);
    out.put_uint_be(v, count);
}

pub(crate) fn read_timestamp(input: &mut Input<'_>, digits: u8) -> Result<DateTime> {
    if digits == 0 {
        return Ok(of_instant(input.u32()?.into(), 0));
    }
    let seconds = input.uint_be(4)?;
    let at = input.offset();
    let micros = input.uint_be(FRACTION_BYTES[usize::from(digits.min(6))])? * unit(digits);
    if micros >= MICROS {
        return Err(Error::invalid(at, "TIMESTAMP"));
    }
    Ok(of_instant(seconds, micros as u32))
}

fn of_instant(seconds: u64, micros: u32) -> DateTime {
    if seconds == 0 && micros == 0 { DateTime::ZERO } else { DateTime::from_unix(seconds as i64, micros) }
}

pub(crate) fn append_timestamp(out: &mut Vec<u8>, value: DateTime, digits: u8) {
    let seconds = if value.is_zero() { 0 } else { value.to_unix() as u64 };
    if digits == 0 {
        out.put_uint(seconds, 4);
        return;
    }
    out.put_uint_be(seconds, 4);
    let fraction = u64::from(value.micros) / unit(digits);
    out.put_uint_be(fraction, FRACTION_BYTES[usize::from(digits.min(6))]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a Write_rows event of MariaDB 10.11 with `mysql56_temporal_format=0`.
    #[test]
    fn values_of_mariadb_are_read_and_written() {
        let day = Date::new(2024, 2, 29);
        let clock = DateTime { date: day, hour: 12, minute: 13, second: 14, ..DateTime::ZERO };
        let bytes = [0x08, 0x75, 0xfe, 0x00, 0xb6, 0x37, 0x38, 0xd9];
        let mut input = Input::new(&bytes, 0);
        let times = [Time::from_parts(true, 10, 11, 12, 0), Time::from_parts(false, 10, 11, 12, 345_000)];
        assert_eq!(read_time(&mut input, 0), Ok(times[0]));
        assert_eq!(read_time(&mut input, 3), Ok(times[1]));
        let mut out = Vec::new();
        append_time(&mut out, times[0], 0);
        append_time(&mut out, times[1], 3);
        assert_eq!(out, bytes);

        let bytes =
            [0x22, 0xbd, 0xaa, 0x8b, 0x68, 0x12, 0, 0, 0x01, 0x02, 0x7a, 0xbd, 0x25, 0xde, 0xec, 0xc0];
        let mut input = Input::new(&bytes, 0);
        assert_eq!(read_datetime(&mut input, 0), Ok(clock));
        assert_eq!(read_datetime(&mut input, 6), Ok(DateTime { micros: 123_456, ..clock }));
        let mut out = Vec::new();
        append_datetime(&mut out, clock, 0);
        append_datetime(&mut out, DateTime { micros: 123_456, ..clock }, 6);
        assert_eq!(out, bytes);

        let bytes = [0xda, 0x74, 0xe0, 0x65, 0x65, 0xe0, 0x74, 0xda, 0x0c];
        let mut input = Input::new(&bytes, 0);
        let instant = read_timestamp(&mut input, 0).unwrap();
        assert_eq!(instant.to_unix(), 0x65e0_74da);
        assert_eq!(read_timestamp(&mut input, 2), Ok(DateTime { micros: 120_000, ..instant }));
        let mut out = Vec::new();
        append_timestamp(&mut out, instant, 0);
        append_timestamp(&mut out, DateTime { micros: 120_000, ..instant }, 2);
        assert_eq!(out, bytes);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let number = |v: u64| v.to_le_bytes();
        for v in [20241301000000, 20240132000000, 20240101240000, 20240101006000, 20240101000060, u64::MAX] {
            assert!(read_datetime(&mut Input::new(&number(v), 0), 0).is_err(), "{v}");
        }
        for v in [8_390_000u64, 6_000, 60] {
            assert!(read_time(&mut Input::new(&number(v)[..3], 0), 0).is_err(), "{v}");
        }
        for digits in 1..=6 {
            assert!(read_datetime(&mut Input::new(&[0xff; 8], 0), digits).is_err(), "{digits}");
            assert!(read_time(&mut Input::new(&[0xff; 8], 0), digits).is_err(), "{digits}");
            assert!(read_time(&mut Input::new(&[0; 8], 0), digits).is_err(), "{digits}");
            assert!(read_timestamp(&mut Input::new(&[0xff; 8], 0), digits).is_err(), "{digits}");
        }
        assert_eq!(read_timestamp(&mut Input::new(&[0; 4], 0), 0), Ok(DateTime::ZERO));
    }
}

//! DATE, TIME and DATETIME.
/// A date; zero and partly zero dates can be represented. Orders by calendar.
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
    /// 0-999999.
    pub micros: u32,
}
/// A time zone, as sessions have.
pub trait Zone {
    /// The wall clock of a UTC instant.
    fn to_local(&self, utc: DateTime) -> DateTime;
    /// The UTC instant of a wall clock; None where the clock skips it.
    fn to_utc(&self, local: DateTime) -> Option<DateTime>;
}
/// UTC as a session's zone.
#[derive(Debug, Clone, Copy)]
pub struct Utc;
impl Zone for Utc {
    fn to_local(&self, utc: DateTime) -> DateTime {
        utc
    }
    fn to_utc(&self, local: DateTime) -> Option<DateTime> {
        Some(local)
    }
}
impl DateTime {
    /// The UTC wall clock of a Unix time.
    pub fn from_unix(_seconds: i64, _micros: u32) -> DateTime {
        unimplemented!()
    }
    /// Seconds since 1970 of a UTC wall clock.
    pub fn to_unix(&self) -> i64 {
        unimplemented!()
    }
}

//! MariaDB's lenient readers of dates and times, from text and from numbers.
//!
//! Dates: parts separated by any punctuation, or digits alone (YYMMDD, YYYYMMDD, with HHMMSS behind). A two-digit year
//! below 70 is in this century. What follows a readable date is cut off and reported. Times: `[D ]HH:MM:SS[.f]`, `HH:MM`,
//! `SS`, or digits alone (HHMMSS); twelve octets and more are tried as a date with time first.

use super::{Date, DateTime, Time, days_in_month};
use crate::SqlMode;

/// Years below this, given by two digits, are in this century.
const SHORT_YEAR_PIVOT: u32 = 70;
/// Digits before a point from which on it begins a fraction and does not separate year and month.
const COMPACT_WITH_FRACTION: usize = 12;
/// 838:59:59 as the number HHMMSS.
const TIME_NUMBER_MAX: u64 = 8_385_959;

/// Which dates `sql_mode` lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DateRules {
    /// Refuse 0000-00-00.
    pub no_zero_date: bool,
    /// Refuse a zero month or day.
    pub no_zero_in_date: bool,
    /// Let in days up to 31 of any month.
    pub allow_invalid: bool,
}

/// What a reader met that it could live with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// Text after the value was cut off.
    Truncated,
    /// Digits of a fraction were cut off.
    Fraction,
    /// The value was taken to the nearest bound.
    OutOfRange,
}

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadTemporal {
    /// It does not read as one.
    Syntax,
    /// It names a day or time that does not exist, or that `sql_mode` refuses.
    OutOfRange,
}

/// A date that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedDateTime {
    /// The value; midnight where only a date was given.
    pub value: DateTime,
    /// Whether a time of day was given.
    pub has_time: bool,
    /// Fraction digits given, at most 6.
    pub digits: u8,
    /// What was wrong with it.
    pub flaw: Option<Flaw>,
}

/// A time that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedTime {
    /// The value.
    pub value: Time,
    /// The date and time it came from, where the text had a date.
    pub datetime: Option<DateTime>,
    /// Fraction digits given, at most 6.
    pub digits: u8,
    /// What was wrong with it.
    pub flaw: Option<Flaw>,
}

impl DateRules {
    /// Real days only.
    pub const WHOLE: DateRules =
        DateRules { no_zero_date: true, no_zero_in_date: true, allow_invalid: false };

    /// Whatever has parts of dates: what dates are compared with.
    pub const COMPARED: DateRules =
        DateRules { no_zero_date: false, no_zero_in_date: false, allow_invalid: true };

    /// The rules of a `sql_mode`.
    pub fn of(mode: SqlMode) -> DateRules {
        DateRules {
            no_zero_date: mode.has(SqlMode::NO_ZERO_DATE),
            no_zero_in_date: mode.has(SqlMode::NO_ZERO_IN_DATE),
            allow_invalid: mode.has(SqlMode::ALLOW_INVALID_DATES),
        }
    }

    /// Whether the rules let a value in; its parts are within 12 months, 31 days.
    pub fn allows(self, value: DateTime) -> bool {
        let date = value.date;
        if value.is_zero() {
            return !self.no_zero_date;
        }
        if self.no_zero_in_date && (date.month == 0 || date.day == 0) {
            return false;
        }
        self.allow_invalid || date.month == 0 || date.day <= days_in_month(date.year, date.month)
    }
}

/// Reads from the front of a text.
struct Scanner<'a> {
    rest: &'a [u8],
    fields: [u32; 6],
    field_count: usize,
}

impl<'a> Scanner<'a> {
    fn new(rest: &'a [u8]) -> Scanner<'a> {
        Scanner { rest, fields: [0; 6], field_count: 0 }
    }

    fn digits_ahead(&self) -> usize {
        self.rest.iter().take_while(|b| b.is_ascii_digit()).count()
    }

    /// Takes a number of at most `max` digits as the next field. Nothing left is fine, something else is not.
    fn field(&mut self, max: usize) -> Result<(), ()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let len = self.digits_ahead().min(max);
        if len == 0 {
            return Err(());
        }
        let number = self.rest[..len]
            .iter()
            .fold(0u32, |v, b| v.saturating_mul(10).saturating_add(u32::from(b - b'0')));
        self.fields[self.field_count] = number;
        self.field_count += 1;
        self.rest = &self.rest[len..];
        Ok(())
    }

    fn punctuation(&mut self) -> Result<(), ()> {
        match self.rest.first() {
            None => Ok(()),
            Some(b) if b.is_ascii_punctuation() => {
                self.rest = &self.rest[1..];
                Ok(())
            }
            Some(_) => Err(()),
        }
    }

    /// Between date and time: a `T`, white space, or one punctuation character where `punctuation` is allowed.
    fn date_time_separator(&mut self, punctuation: bool) -> Result<(), ()> {
        match self.rest.first() {
            None => Ok(()),
            Some(b'T') => {
                self.rest = &self.rest[1..];
                Ok(())
            }
            Some(b) if b.is_ascii_punctuation() => {
                if punctuation {
                    self.punctuation()
                } else {
                    Err(())
                }
            }
            Some(b) if is_space(*b) => {
                self.skip_spaces();
                Ok(())
            }
            Some(_) => Err(()),
        }
    }

    fn skip_spaces(&mut self) {
        let spaces = self.rest.iter().take_while(|b| is_space(**b)).count();
        self.rest = &self.rest[spaces..];
    }

    /// Takes `.` and its digits: microseconds and how many digits. `None` if there is no digit behind the point.
    fn fraction(&mut self) -> Option<(u32, usize)> {
        if self.rest.first() != Some(&b'.') {
            return Some((0, 0));
        }
        self.rest = &self.rest[1..];
        let len = self.digits_ahead();
        if len == 0 {
            return None;
        }
        let kept = len.min(6);
        let micros = self.rest[..kept].iter().fold(0u32, |v, b| v * 10 + u32::from(b - b'0'));
        self.rest = &self.rest[len..];
        Some((micros * 10u32.pow(6 - kept as u32), len))
    }

    fn only_spaces_left(&self) -> bool {
        self.rest.iter().all(|b| is_space(*b))
    }
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t'..=b'\r')
}

/// Reads a date with or without a time of day.
pub fn parse_datetime(text: &[u8], rules: DateRules) -> Result<ParsedDateTime, BadTemporal> {
    read_datetime(text, rules, true).map_err(|failure| failure.why)
}

/// Why a date was not read, and whether the text had a time of day too.
struct Failure {
    why: BadTemporal,
    has_time: bool,
}

fn read_datetime(text: &[u8], rules: DateRules, punctuation: bool) -> Result<ParsedDateTime, Failure> {
    let mut scanner = Scanner::new(text);
    scanner.skip_spaces();
    let digits = scanner.digits_ahead();
    let syntax = Failure { why: BadTemporal::Syntax, has_time: false };
    if digits == 0 {
        return Err(syntax);
    }
    let is_compact = match scanner.rest.get(digits) {
        None | Some(b'T') => true,
        Some(b'.') => digits >= COMPACT_WITH_FRACTION,
        Some(_) => false,
    };
    let (clean, short_year) = match is_compact {
        true => {
            let long_year = match scanner.rest.get(digits) {
                Some(b'T') => digits == 8 || digits == 4,
                _ => digits == 4 || digits == 8 || digits >= 14,
            };
            (compact_fields(&mut scanner, if long_year { 4 } else { 2 }).is_ok(), !long_year)
        }
        false => (separated_fields(&mut scanner, punctuation).is_ok(), digits == 2),
    };
    if scanner.field_count < 3 {
        return Err(syntax);
    }
    let has_time = scanner.field_count > 3;
    let fraction = if clean { scanner.fraction() } else { Some((0, 0)) };
    let (micros, fraction_digits) = fraction.unwrap_or((0, 0));
    let mut fields = scanner.fields;
    if short_year && (fields.iter().any(|f| *f != 0) || micros != 0) {
        fields[0] += if fields[0] < SHORT_YEAR_PIVOT { 2000 } else { 1900 };
    }
    let value = from_fields(&fields, micros).filter(|v| rules.allows(*v));
    let value = value.ok_or(Failure { why: BadTemporal::OutOfRange, has_time })?;
    let is_whole = clean && fraction.is_some() && scanner.only_spaces_left();
    let flaw = flaw_of(is_whole, fraction_digits);
    Ok(ParsedDateTime {
        value,
        has_time: scanner.field_count > 3,
        digits: fraction_digits.min(6) as u8,
        flaw,
    })
}

fn flaw_of(is_whole: bool, fraction_digits: usize) -> Option<Flaw> {
    match (is_whole, fraction_digits > 6) {
        (false, _) => Some(Flaw::Truncated),
        (true, true) => Some(Flaw::Fraction),
        (true, false) => None,
    }
}

/// YYMMDD, YYYYMMDD, with HHMMSS behind, perhaps after a T.
fn compact_fields(scanner: &mut Scanner<'_>, year_digits: usize) -> Result<(), ()> {
    scanner.field(year_digits)?;
    scanner.field(2)?;
    scanner.field(2)?;
    if scanner.rest.first() == Some(&b'T') {
        scanner.rest = &scanner.rest[1..];
    }
    scanner.field(2)?;
    scanner.field(2)?;
    scanner.field(2)
}

/// YYYY-MM-DD hh:mm:ss with any punctuation.
fn separated_fields(scanner: &mut Scanner<'_>, punctuation: bool) -> Result<(), ()> {
    scanner.field(usize::MAX)?;
    scanner.punctuation()?;
    scanner.field(usize::MAX)?;
    scanner.punctuation()?;
    scanner.field(usize::MAX)?;
    scanner.date_time_separator(punctuation)?;
    scanner.field(usize::MAX)?;
    scanner.punctuation()?;
    scanner.field(usize::MAX)?;
    scanner.punctuation()?;
    scanner.field(usize::MAX)
}

fn from_fields(fields: &[u32; 6], micros: u32) -> Option<DateTime> {
    let [year, month, day, hour, minute, second] = *fields;
    let fits = year <= 9999 && month <= 12 && day <= 31 && hour <= 23 && minute <= 59 && second <= 59;
    fits.then(|| DateTime {
        date: Date::new(year as u16, month as u8, day as u8),
        hour: hour as u8,
        minute: minute as u8,
        second: second as u8,
        micros,
    })
}

/// Reads a number as YYMMDD, YYYYMMDD, YYMMDDHHMMSS or YYYYMMDDHHMMSS.
pub fn datetime_from_number(
    number: u64,
    micros: u32,
    rules: DateRules,
) -> Result<ParsedDateTime, BadTemporal> {
    const TIME: u64 = 1_000_000;
    let pivot = u64::from(SHORT_YEAR_PIVOT);
    let (digits, has_time) = match number {
        0 => (0, true),
        1..=100 => return Err(BadTemporal::OutOfRange),
        n if n <= (pivot - 1) * 10_000 + 1231 => ((n + 20_000_000) * TIME, false),
        n if n < pivot * 10_000 + 101 => return Err(BadTemporal::OutOfRange),
        n if n <= 991_231 => ((n + 19_000_000) * TIME, false),
        n if n < 10_000_101 => return Err(BadTemporal::OutOfRange),
        n if n <= 99_991_231 => (n * TIME, false),
        n if n < 101_000_000 => return Err(BadTemporal::OutOfRange),
        n if n <= (pivot - 1) * 10_000_000_000 + 1_231_235_959 => (n + 20_000_000_000_000, true),
        n if n < pivot * 10_000_000_000 + 101_000_000 => return Err(BadTemporal::OutOfRange),
        n if n <= 991_231_235_959 => (n + 19_000_000_000_000, true),
        n if n <= 99_999_999_999_999 => (n, true),
        _ => return Err(BadTemporal::OutOfRange),
    };
    let (date, clock) = (digits / TIME, digits % TIME);
    let fields =
        [date / 10_000, date / 100 % 100, date % 100, clock / 10_000, clock / 100 % 100, clock % 100];
    let value = from_fields(&fields.map(|f| f as u32), micros)
        .filter(|v| rules.allows(*v))
        .ok_or(BadTemporal::OutOfRange)?;
    Ok(ParsedDateTime { value, has_time, digits: if micros > 0 { 6 } else { 0 }, flaw: None })
}

/// Reads a time. Too large ones give the bound and a flaw.
pub fn parse_time(text: &[u8]) -> Result<ParsedTime, BadTemporal> {
    let mut scanner = Scanner::new(text);
    scanner.skip_spaces();
    let negative = scanner.rest.first() == Some(&b'-');
    if negative || scanner.rest.first() == Some(&b'+') {
        scanner.rest = &scanner.rest[1..];
    }
    if scanner.rest.is_empty() {
        return Err(BadTemporal::Syntax);
    }
    if scanner.rest.len() >= 12 {
        match read_datetime(scanner.rest, DateRules::default(), false) {
            Ok(ParsedDateTime { value, has_time: true, digits, flaw }) => {
                return Ok(ParsedTime { value: value.time(), datetime: Some(value), digits, flaw });
            }
            Err(Failure { why, has_time: true }) => return Err(why),
            _ => {}
        }
    }
    let span = read_span(&mut scanner, negative)?;
    let (value, flaw) = match span.micros.unsigned_abs() / 3_600_000_000 > u64::from(Time::MAX.hours()) {
        true => {
            let most = if negative { -Time::MAX.micros } else { Time::MAX.micros };
            (Time { micros: most }, Some(Flaw::OutOfRange))
        }
        false => (Time { micros: span.micros }, span.flaw),
    };
    Ok(ParsedTime { value, datetime: None, digits: span.digits, flaw })
}

/// A span of time that was read, as long as it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedSpan {
    /// Its microseconds.
    pub micros: i64,
    /// Fraction digits given, at most 6.
    pub digits: u8,
    /// What was wrong with it.
    pub flaw: Option<Flaw>,
}

/// Hours of the longest span, some ten thousand years.
const SPAN_HOURS_MAX: u64 = 10_000 * 366 * 24;

/// Reads a span of days, hours, minutes and seconds, which unlike a time has no bound worth mentioning.
pub fn parse_span(text: &[u8]) -> Result<ParsedSpan, BadTemporal> {
    let mut scanner = Scanner::new(text);
    scanner.skip_spaces();
    let negative = scanner.rest.first() == Some(&b'-');
    if negative || scanner.rest.first() == Some(&b'+') {
        scanner.rest = &scanner.rest[1..];
    }
    if scanner.rest.len() >= 12
        && let Ok(ParsedDateTime { has_time: true, .. }) =
            read_datetime(scanner.rest, DateRules::default(), false)
    {
        return Err(BadTemporal::Syntax);
    }
    read_span(&mut scanner, negative)
}

fn read_span(scanner: &mut Scanner<'_>, negative: bool) -> Result<ParsedSpan, BadTemporal> {
    let [days, hours, minutes, seconds] = clock_fields(scanner)?;
    let (micros, digits) = match scanner.rest {
        [b'.'] => {
            scanner.rest = &[];
            (0, 0)
        }
        [b'.', b'0'..=b'9', ..] => scanner.fraction().unwrap_or((0, 0)),
        _ => (0, 0),
    };
    // `1e2` is no time, although `1x` is one second and something cut off.
    let has_exponent =
        matches!(scanner.rest, [b'e' | b'E', b'0'..=b'9', ..] | [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..]);
    if minutes > 59 || seconds > 59 || has_exponent {
        return Err(BadTemporal::OutOfRange);
    }
    let hours = days.saturating_mul(24).saturating_add(hours);
    let mut flaw = flaw_of(scanner.only_spaces_left(), digits);
    if hours > SPAN_HOURS_MAX {
        flaw = Some(Flaw::OutOfRange);
    }
    let seconds = (hours.min(SPAN_HOURS_MAX) * 60 + minutes) * 60 + seconds;
    let whole = seconds as i64 * 1_000_000 + i64::from(micros);
    Ok(ParsedSpan { micros: if negative { -whole } else { whole }, digits: digits.min(6) as u8, flaw })
}

/// Days, hours, minutes and seconds.
fn clock_fields(scanner: &mut Scanner<'_>) -> Result<[u64; 4], BadTemporal> {
    let first = number(scanner).ok_or(BadTemporal::Syntax)?;
    let after_number = scanner.rest;
    scanner.skip_spaces();
    let has_days = scanner.rest.len() < after_number.len() && scanner.digits_ahead() > 0;
    if !has_days && !colon_digit(scanner.rest) {
        scanner.rest = after_number;
        return Ok([0, first / 10_000, first / 100 % 100, first % 100]);
    }
    let mut fields = [0; 4];
    let mut next = 2;
    if has_days {
        fields[0] = first;
        fields[1] = number(scanner).unwrap_or(0);
    } else {
        fields[1] = first;
    }
    while next < 4 && colon_digit(scanner.rest) {
        scanner.rest = &scanner.rest[1..];
        fields[next] = number(scanner).unwrap_or(0);
        next += 1;
    }
    Ok(fields)
}

fn colon_digit(rest: &[u8]) -> bool {
    matches!(rest, [b':', b'0'..=b'9', ..])
}

fn number(scanner: &mut Scanner<'_>) -> Option<u64> {
    let len = scanner.digits_ahead();
    let digits = &scanner.rest[..len];
    scanner.rest = &scanner.rest[len..];
    (len > 0)
        .then(|| digits.iter().fold(0u64, |v, b| v.saturating_mul(10).saturating_add(u64::from(b - b'0'))))
}

/// Reads a number as HHMMSS, or with eight digits and more as a date with or without time.
pub fn time_from_number(negative: bool, number: u64, micros: u32) -> Result<ParsedTime, BadTemporal> {
    let digits = if micros > 0 { 6 } else { 0 };
    if !negative && (10_000_000..=99_991_231_235_959).contains(&number) {
        let rules = DateRules { allow_invalid: true, ..DateRules::default() };
        let value = datetime_from_number(number, micros, rules)?.value;
        return Ok(ParsedTime { value: value.time(), datetime: Some(value), digits, flaw: None });
    }
    let (hours, minutes, seconds) = (number / 10_000, number / 100 % 100, number % 100);
    if minutes > 59 || seconds > 59 {
        return Err(BadTemporal::OutOfRange);
    }
    if number > TIME_NUMBER_MAX {
        let value = Time { micros: if negative { -Time::MAX.micros } else { Time::MAX.micros } };
        return Ok(ParsedTime { value, datetime: None, digits, flaw: Some(Flaw::OutOfRange) });
    }
    let value = Time::from_parts(negative, hours as u32, minutes as u8, seconds as u8, micros);
    Ok(ParsedTime { value, datetime: None, digits, flaw: None })
}

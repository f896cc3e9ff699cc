//! MariaDB's lenient readers of dates and times, from text and from numbers.
//!
//! White space and one sign before a value are passed over, and so is what follows the last digit or punctuation, which is
//! reported unless it is white space. Dates: parts separated by any punctuation, or digits alone (YYMMDD, YYYYMMDD, with
//! HHMMSS behind). A two-digit year below 70 is in this century. Times: `[D ]HH:MM:SS[.f]`, `HH:MM`, `SS`, or digits alone
//! (HHMMSS). A text that may be either is tried as a date first and taken as one unless its parts are tied by colons.

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
    /// Round digits behind microseconds, as TIME_ROUND_FRACTIONAL asks for.
    pub round: bool,
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
    /// Whether that date had no time of day.
    pub has_date_alone: bool,
    /// Fraction digits given, at most 6.
    pub digits: u8,
    /// What was wrong with it.
    pub flaw: Option<Flaw>,
}

impl ParsedDateTime {
    /// 0000-00-00.
    pub const ZERO: ParsedDateTime =
        ParsedDateTime { value: DateTime::ZERO, has_time: false, digits: 0, flaw: None };
}

impl DateRules {
    /// Real days only.
    pub const WHOLE: DateRules =
        DateRules { no_zero_date: true, no_zero_in_date: true, allow_invalid: false, round: false };

    /// Whatever has parts of dates: what dates are compared with.
    pub const COMPARED: DateRules =
        DateRules { no_zero_date: false, no_zero_in_date: false, allow_invalid: true, round: false };

    /// The rules of a `sql_mode`.
    pub fn of(mode: SqlMode) -> DateRules {
        DateRules {
            no_zero_date: mode.has(SqlMode::NO_ZERO_DATE),
            no_zero_in_date: mode.has(SqlMode::NO_ZERO_IN_DATE),
            allow_invalid: mode.has(SqlMode::ALLOW_INVALID_DATES),
            round: mode.has(SqlMode::TIME_ROUND_FRACTIONAL),
        }
    }

    /// The same rules, with digits behind microseconds rounded where `mode` says so.
    pub fn rounding_by(self, mode: SqlMode) -> DateRules {
        DateRules { round: mode.has(SqlMode::TIME_ROUND_FRACTIONAL), ..self }
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
                    // `11:11:11.12` is no date at all.
                    self.field_count = 0;
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

    /// Takes `.` and its digits, if that is what comes: microseconds, rounded to 1,000,000 at most, and how many digits.
    fn fraction(&mut self, round: bool) -> (u32, usize) {
        if self.rest.first() != Some(&b'.') {
            return (0, 0);
        }
        self.rest = &self.rest[1..];
        let len = self.digits_ahead();
        let kept = len.min(6);
        let micros = self.rest[..kept].iter().fold(0u32, |v, b| v * 10 + u32::from(b - b'0'));
        let is_up = round && len > 6 && self.rest[6] >= b'5';
        self.rest = &self.rest[len..];
        (micros * 10u32.pow(6 - kept as u32) + u32::from(is_up), len)
    }
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t'..=b'\r')
}

/// A text without what surrounds its value; it begins with a digit.
struct Body<'a> {
    negative: bool,
    text: &'a [u8],
    /// Whether anything but white space was cut off behind it.
    is_cut: bool,
}

fn body(text: &[u8]) -> Result<Body<'_>, BadTemporal> {
    let mut text = text.trim_ascii_start();
    let negative = text.first() == Some(&b'-');
    if negative || text.first() == Some(&b'+') {
        text = text[1..].trim_ascii_start();
    }
    let mut is_cut = false;
    while let [before @ .., last] = text {
        let ends_value = last.is_ascii_digit()
            || last.is_ascii_punctuation()
            || *last == b'T' && before.last().is_some_and(u8::is_ascii_digit);
        if ends_value {
            break;
        }
        is_cut |= !is_space(*last);
        text = before;
    }
    if text.first().is_some_and(u8::is_ascii_digit) {
        Ok(Body { negative, text, is_cut })
    } else {
        Err(BadTemporal::Syntax)
    }
}

/// Reads a date with or without a time of day.
pub fn parse_datetime(text: &[u8], rules: DateRules) -> Result<ParsedDateTime, BadTemporal> {
    let body = body(text)?;
    read_date(body.text, rules, true).of(&body)
}

/// What came of reading a body as a date.
struct ReadDate<'a> {
    value: Result<DateTime, BadTemporal>,
    /// Numbers found; fewer than three are no date.
    field_count: usize,
    fraction_digits: usize,
    /// The text up to where reading stopped.
    read: &'a [u8],
    /// Whether that is all of it, and all of it was understood.
    is_whole: bool,
}

impl ReadDate<'_> {
    /// Whether what was read can be nothing but a date: it has a time of day, or parts that no colons tie.
    fn is_surely_date(&self) -> bool {
        self.field_count > 3 || self.read.contains(&b'T') || !self.read.contains(&b':')
    }

    /// The date that `body` is; none has a sign.
    fn of(self, body: &Body<'_>) -> Result<ParsedDateTime, BadTemporal> {
        let value = self.value?;
        if body.negative {
            return Err(BadTemporal::OutOfRange);
        }
        Ok(ParsedDateTime {
            value,
            has_time: self.field_count > 3,
            digits: self.fraction_digits.min(6) as u8,
            flaw: flaw_of(self.is_whole && !body.is_cut, self.fraction_digits),
        })
    }
}

fn read_date(text: &[u8], rules: DateRules, punctuation: bool) -> ReadDate<'_> {
    let mut scanner = Scanner::new(text);
    let first = scanner.digits_ahead();
    let (clean, short_year) = match compact_digits(text) {
        Some(digits) => {
            let year_digits = if digits == 4 || digits == 8 || digits >= 14 { 4 } else { 2 };
            (compact_fields(&mut scanner, year_digits).is_ok(), year_digits == 2)
        }
        None => (separated_fields(&mut scanner, punctuation).is_ok(), first == 2),
    };
    let field_count = scanner.field_count;
    let (micros, fraction_digits) =
        if clean && field_count >= 3 { scanner.fraction(rules.round) } else { (0, 0) };
    let mut fields = scanner.fields;
    if short_year && (fields.iter().any(|f| *f != 0) || micros != 0) {
        fields[0] += if fields[0] < SHORT_YEAR_PIVOT { 2000 } else { 1900 };
    }
    let value = match field_count < 3 {
        true => Err(BadTemporal::Syntax),
        false => from_fields(&fields, micros)
            .filter(|v| rules.allows(*v))
            .and_then(carried)
            .ok_or(BadTemporal::OutOfRange),
    };
    let rest = scanner.rest;
    let read = &text[..text.len() - rest.len()];
    ReadDate { value, field_count, fraction_digits, read, is_whole: clean && rest.is_empty() }
}

/// How many digits a text has that consists of digits, perhaps with a T among them and a fraction behind.
fn compact_digits(text: &[u8]) -> Option<usize> {
    let mut scanner = Scanner::new(text);
    let mut digits = scanner.digits_ahead();
    let mut rest = &text[digits..];
    if let [b'T', behind @ ..] = rest {
        scanner.rest = behind;
        let more = scanner.digits_ahead();
        digits += more;
        rest = &behind[more..];
    }
    if let [b'.', behind @ ..] = rest
        && digits >= COMPACT_WITH_FRACTION
    {
        scanner.rest = behind;
        rest = &behind[scanner.digits_ahead()..];
    }
    rest.is_empty().then_some(digits)
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

/// A value whose microseconds were rounded up to a whole second, as the next second.
fn carried(value: DateTime) -> Option<DateTime> {
    match value.micros {
        1_000_000 => DateTime { micros: 999_999, ..value }
            .add_interval(super::Interval { micros: 1, ..Default::default() }),
        _ => Some(value),
    }
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
        repeated: false,
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

/// Reads a time, or a date as `rules` allow it. Too large times give the bound and a flaw.
pub fn parse_time(text: &[u8], rules: DateRules) -> Result<ParsedTime, BadTemporal> {
    let body = body(text)?;
    let moment = read_moment(&body, rules, Dates { delimited: false, compact: false }, HOURS_MAX)?;
    Ok(match moment {
        Moment::Date(date) => ParsedTime {
            value: date.value.time(),
            datetime: Some(date.value),
            has_date_alone: !date.has_time,
            digits: date.digits,
            flaw: date.flaw,
        },
        Moment::Span(span) => ParsedTime {
            value: Time { micros: span.micros },
            datetime: None,
            has_date_alone: false,
            digits: span.digits,
            flaw: span.flaw,
        },
    })
}

/// Which dates a reader of times looks for beside those with a time of day.
#[derive(Debug, Clone, Copy)]
struct Dates {
    /// Dates alone, with punctuation between their parts.
    delimited: bool,
    /// Dates alone, of digits.
    compact: bool,
}

/// A point in time or a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A date, perhaps with a time of day.
    Date(ParsedDateTime),
    /// Days, hours, minutes and seconds.
    Span(ParsedSpan),
}

/// What EXTRACT() takes parts of a day from: a date, or a span that may be longer than a TIME.
/// `is_day`: days are asked for, so that digits alone are a date too.
pub fn parse_moment(text: &[u8], rules: DateRules, is_day: bool) -> Result<Moment, BadTemporal> {
    read_moment(&body(text)?, rules, Dates { delimited: true, compact: is_day }, SPAN_HOURS_MAX)
}

fn read_moment(
    body: &Body<'_>,
    rules: DateRules,
    dates: Dates,
    hours_max: u64,
) -> Result<Moment, BadTemporal> {
    if may_be_date(body.text, dates) {
        let read = read_date(body.text, rules, false);
        match read.value {
            Err(BadTemporal::Syntax) if dates.compact && body.text.iter().all(u8::is_ascii_digit) => {
                return Err(BadTemporal::Syntax);
            }
            Err(BadTemporal::Syntax) => {}
            _ if read.is_surely_date() => return read.of(body).map(Moment::Date),
            _ => {}
        }
    }
    read_span(body, hours_max, rules.round).map(|(span, _)| Moment::Span(span))
}

/// Whether a text is worth reading as a date where a time is asked for.
fn may_be_date(text: &[u8], dates: Dates) -> bool {
    // `1-1-1`, and what separates it from a time of day.
    let len_min = if dates.delimited { 5 } else { 6 };
    if text.len() >= 12 {
        return true;
    }
    if text.len() < len_min && !dates.compact {
        return false;
    }
    let mut has_punctuation = false;
    for b in text {
        match b {
            b'T' => return true,
            b' ' => return has_punctuation,
            b if b.is_ascii_punctuation() => {
                if dates.delimited && *b != b':' {
                    return true;
                }
                has_punctuation = true;
            }
            _ => {}
        }
    }
    dates.compact && !has_punctuation
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

/// Hours of the longest TIME.
const HOURS_MAX: u64 = 838;
/// Hours of the longest span, from one end of the calendar to the other.
const SPAN_HOURS_MAX: u64 = 87_649_415;

/// Reads a span of days, hours, minutes and seconds, which unlike a time has no bound worth mentioning, and is no date.
pub fn parse_span(text: &[u8]) -> Result<ParsedSpan, BadTemporal> {
    let body = body(text)?;
    if may_be_date(body.text, Dates { delimited: false, compact: false })
        && read_date(body.text, DateRules::default(), false).value.is_ok()
    {
        return Err(BadTemporal::Syntax);
    }
    match read_span(&body, SPAN_HOURS_MAX, false)? {
        // `2020-01-01` would be 2020 otherwise.
        (_, [b'-', ..]) => Err(BadTemporal::Syntax),
        (span, _) => Ok(span),
    }
}

/// A span and what stands behind it.
fn read_span<'a>(
    body: &Body<'a>,
    hours_max: u64,
    round: bool,
) -> Result<(ParsedSpan, &'a [u8]), BadTemporal> {
    let mut scanner = Scanner::new(body.text);
    let [days, hours, minutes, seconds] = clock_fields(&mut scanner)?;
    let (micros, digits) = scanner.fraction(round);
    // `1e2` is no time, although `1x` is one second and something cut off.
    let has_exponent =
        matches!(scanner.rest, [b'e' | b'E', b'0'..=b'9', ..] | [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..]);
    if minutes > 59 || seconds > 59 || has_exponent {
        return Err(BadTemporal::OutOfRange);
    }
    let hours = days.saturating_mul(24).saturating_add(hours);
    if hours > u64::from(u32::MAX) {
        return Err(BadTemporal::OutOfRange);
    }
    if hours > SPAN_HOURS_MAX && hours_max == SPAN_HOURS_MAX {
        return Err(BadTemporal::OutOfRange);
    }
    let (whole, flaw) = match hours > hours_max {
        true => ((hours_max as i64 + 1) * 3_600_000_000 - 1, Some(Flaw::OutOfRange)),
        false => (
            ((hours * 60 + minutes) * 60 + seconds) as i64 * 1_000_000 + i64::from(micros),
            flaw_of(scanner.rest.is_empty() && !body.is_cut, digits),
        ),
    };
    let micros = if body.negative { -whole } else { whole };
    Ok((ParsedSpan { micros, digits: digits.min(6) as u8, flaw }, scanner.rest))
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
        return Ok(ParsedTime {
            value: value.time(),
            datetime: Some(value),
            has_date_alone: false,
            digits,
            flaw: None,
        });
    }
    let (hours, minutes, seconds) = (number / 10_000, number / 100 % 100, number % 100);
    if minutes > 59 || seconds > 59 {
        return Err(BadTemporal::OutOfRange);
    }
    if number > TIME_NUMBER_MAX {
        let value = Time { micros: if negative { -Time::MAX.micros } else { Time::MAX.micros } };
        return Ok(ParsedTime {
            value,
            datetime: None,
            has_date_alone: false,
            digits,
            flaw: Some(Flaw::OutOfRange),
        });
    }
    let value = Time::from_parts(negative, hours as u32, minutes as u8, seconds as u8, micros);
    Ok(ParsedTime { value, datetime: None, has_date_alone: false, digits, flaw: None })
}

/// Reads a number as [`parse_moment`] reads a text: HHMMSS of any length, or YYYYMMDDHHMMSS.
pub fn moment_from_number(negative: bool, number: u64, micros: u32) -> Result<Moment, BadTemporal> {
    const FIRST_DATE: u64 = 10_000_101_000_000;
    if number >= FIRST_DATE && !negative {
        return datetime_from_number(number, micros, DateRules::default()).map(Moment::Date);
    }
    let (hours, minutes, seconds) = (number / 10_000, number / 100 % 100, number % 100);
    if hours > SPAN_HOURS_MAX || minutes > 59 || seconds > 59 {
        return Err(BadTemporal::OutOfRange);
    }
    let whole = ((hours * 60 + minutes) * 60 + seconds) as i64 * 1_000_000 + i64::from(micros);
    let micros = if negative { -whole } else { whole };
    Ok(Moment::Span(ParsedSpan { micros, digits: if whole % 1_000_000 == 0 { 0 } else { 6 }, flaw: None }))
}

//! DATE_FORMAT, TIME_FORMAT and STR_TO_DATE: patterns of `%` and a letter.

use keel_base::{SqlResult, errors};
use keel_context::locale::Locale;
use keel_value::collation::{Charset, convert};
use keel_value::convert::printable_text;
use keel_value::types::Class;
use keel_value::{Date, DateTime, SqlMode, SqlType, Time, TypeKind, Value};

use super::calendar::{self, DAY_MICROS};
use super::locale;
use super::{Function, function, given, or_null, text_value};
use crate::typing::{self, string_type, text_chars};
use crate::{Env, EvalContext, Expr, Node};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("get_format", 2, 2, get_format_type, get_format),
    function!("date_format", 2, 3, format_type, date_format),
    function!("time_format", 2, 2, format_type, time_format),
    function!("str_to_date", 2, 2, str_to_date_type, str_to_date),
];

/// Most characters that a pattern gives.
pub(super) fn formatted_chars(pattern: &Expr) -> u64 {
    let Node::Constant(Value::Bytes(text)) = &pattern.node else {
        return u64::from(text_chars(pattern)) * 10;
    };
    let mut length = 0;
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        length += match byte {
            b'%' => match rest.next() {
                Some(b'M' | b'W') => 64,
                Some(b'D' | b'Y' | b'x' | b'X') => 4,
                Some(b'a' | b'b') => 32,
                Some(b'j') => 3,
                Some(b'k' | b'H') => 7,
                Some(b'r') => 11,
                Some(b'T') => 8,
                Some(b'f') => 6,
                Some(
                    b'U' | b'u' | b'V' | b'v' | b'y' | b'm' | b'd' | b'h' | b's' | b'S' | b'l' | b'c' | b'p'
                    | b'i' | b'I' | b'e',
                ) => 2,
                _ => 1,
            },
            _ => 1,
        };
    }
    length
}

fn format_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let chars = formatted_chars(&args[1]);
    Ok((string_type(chars, cx.vars.connection_collation).with_decimals(0), true))
}

fn date_format<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let names = match args.get(2) {
        Some(arg) => locale::of_argument(arg, cx)?,
        None => cx.env().vars.time_names,
    };
    // A TIME has no day: it keeps its sign and its hours above 23.
    let (v, time) = if args[0].class() == Class::Time {
        (DateTime::default(), given!(args[0].time(cx)?))
    } else {
        let v = given!(args[0].date_parts(cx)?);
        (v, v.time())
    };
    let pattern = given!(pattern_of(&args[1], ty, cx)?);
    if pattern.is_empty() {
        return Ok(Value::Null);
    }
    Ok(or_null(format(v, time, &pattern, (names, ty)), |t| Value::Bytes(t.into())))
}

/// A pattern in the character set of the result.
pub(super) fn pattern_of<'f>(
    arg: &'f Expr,
    ty: &SqlType,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Option<Vec<u8>>> {
    let Some(pattern) = arg.text(cx)? else { return Ok(None) };
    let (from, to) = (arg.ty.collation.charset(), ty.collation.charset());
    if !arg.ty.is_text() || from == to || from == Charset::Binary {
        return Ok(Some(pattern.into_owned()));
    }
    Ok(Some(convert(from, to, &pattern).0.into_owned()))
}

fn time_format<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let v = given!(args[0].time_of_real_day(cx)?).value;
    let pattern = given!(pattern_of(&args[1], ty, cx)?);
    if pattern.is_empty() || names_a_day(&pattern) {
        return Ok(Value::Null);
    }
    let names = cx.env().vars.time_names;
    Ok(or_null(format(DateTime::default(), v, &pattern, (names, ty)), |t| Value::Bytes(t.into())))
}

/// Whether a pattern asks for a part of a day, which TIME_FORMAT() does not have.
fn names_a_day(pattern: &[u8]) -> bool {
    let mut rest = pattern.iter();
    while rest.any(|byte| *byte == b'%') {
        if rest.next().is_some_and(|letter| b"MbWaDYymcdejUuVvXxw".contains(letter)) {
            return true;
        }
    }
    false
}

/// A date and a time of day (its hours may pass 24) by a pattern, with the names of a locale in the character set of a
/// type; None where the date lacks what the pattern asks for.
pub(super) fn format(
    v: DateTime,
    time: Time,
    pattern: &[u8],
    (names, ty): (&Locale, &SqlType),
) -> Option<Vec<u8>> {
    let month = || usize::from(v.date.month).checked_sub(1);
    let day = || v.date.weekday().map(usize::from);
    let mut out = String::new();
    let mut raw: Vec<u8> = Vec::with_capacity(pattern.len() * 2);
    if time.micros < 0 {
        raw.push(b'-');
    }
    let mut rest = pattern.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            raw.push(*byte);
            continue;
        }
        let Some(letter) = rest.next() else {
            raw.push(b'%');
            break;
        };
        let name = match letter {
            b'M' => Some(names.months[month()?]),
            b'b' => Some(names.months_short[month()?]),
            b'W' => Some(names.days[day()?]),
            b'a' => Some(names.days_short[day()?]),
            _ => None,
        };
        if let Some(name) = name {
            let (text, _) = convert(Charset::Utf8mb4, ty.collation.charset(), name.as_bytes());
            raw.extend_from_slice(&text);
            continue;
        }
        out.clear();
        field(v, time, *letter, &mut out)?;
        if out.is_empty() {
            raw.push(*letter);
        } else {
            raw.extend_from_slice(out.as_bytes());
        }
    }
    Some(raw)
}

/// One field of a pattern; leaves `out` empty for letters without meaning.
fn field(v: DateTime, time: Time, letter: u8, out: &mut String) -> Option<()> {
    use std::fmt::Write;
    let date = v.date;
    let hours = time.hours();
    let hours12 = (hours + 11) % 12 + 1;
    let week = |mode: u8| date.week(mode);
    let written = match letter {
        b'Y' => write!(out, "{:04}", date.year),
        b'y' => write!(out, "{:02}", date.year % 100),
        b'm' => write!(out, "{:02}", date.month),
        b'c' => write!(out, "{}", date.month),
        b'w' => write!(out, "{}", (date.weekday()? + 1) % 7),
        b'd' => write!(out, "{:02}", date.day),
        b'e' => write!(out, "{}", date.day),
        b'D' => write!(out, "{}{}", date.day, ordinal(date.day)),
        b'j' => write!(out, "{:03}", date.day_of_year()?),
        b'H' => write!(out, "{hours:02}"),
        b'k' => write!(out, "{hours}"),
        b'h' | b'I' => write!(out, "{hours12:02}"),
        b'l' => write!(out, "{hours12}"),
        b'i' => write!(out, "{:02}", time.minutes()),
        b's' | b'S' => write!(out, "{:02}", time.seconds()),
        b'f' => write!(out, "{:06}", time.fraction()),
        b'p' => write!(out, "{}", meridiem(hours)),
        b'r' => write!(out, "{hours12:02}:{:02}:{:02} {}", time.minutes(), time.seconds(), meridiem(hours)),
        b'T' => write!(out, "{hours:02}:{:02}:{:02}", time.minutes(), time.seconds()),
        b'U' => write!(out, "{:02}", week(0)?.1),
        b'u' => write!(out, "{:02}", week(1)?.1),
        b'V' => write!(out, "{:02}", week(2)?.1),
        b'v' => write!(out, "{:02}", week(3)?.1),
        b'X' => write!(out, "{:04}", week(2)?.0),
        b'x' => write!(out, "{:04}", week(3)?.0),
        _ => Ok(()),
    };
    written.ok()
}

fn ordinal(day: u8) -> &'static str {
    match (day % 10, day) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    }
}

fn meridiem(hours: u32) -> &'static str {
    if hours % 24 < 12 { "AM" } else { "PM" }
}

/// GET_FORMAT(): type, standard, pattern.
const STANDARD_FORMATS: &[(&str, &str, &str)] = &[
    ("DATE", "USA", "%m.%d.%Y"),
    ("DATE", "JIS", "%Y-%m-%d"),
    ("DATE", "ISO", "%Y-%m-%d"),
    ("DATE", "EUR", "%d.%m.%Y"),
    ("DATE", "INTERNAL", "%Y%m%d"),
    ("TIME", "USA", "%h:%i:%s %p"),
    ("TIME", "JIS", "%H:%i:%s"),
    ("TIME", "ISO", "%H:%i:%s"),
    ("TIME", "EUR", "%H.%i.%s"),
    ("TIME", "INTERNAL", "%H%i%s"),
    ("DATETIME", "USA", "%Y-%m-%d %H.%i.%s"),
    ("DATETIME", "JIS", "%Y-%m-%d %H:%i:%s"),
    ("DATETIME", "ISO", "%Y-%m-%d %H:%i:%s"),
    ("DATETIME", "EUR", "%Y-%m-%d %H.%i.%s"),
    ("DATETIME", "INTERNAL", "%Y%m%d%H%i%s"),
];

fn get_format_type(cx: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((string_type(17, cx.vars.connection_collation).with_decimals(0), true))
}

fn get_format<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let kind = given!(args[0].text(cx)?);
    let standard = given!(args[1].text(cx)?);
    let found = STANDARD_FORMATS
        .iter()
        .find(|(k, s, _)| k.as_bytes() == &*kind && s.as_bytes().eq_ignore_ascii_case(&standard));
    Ok(or_null(found, |(_, _, pattern)| text_value(pattern)))
}

/// Which parts a pattern of STR_TO_DATE has: date, time, fraction. A day alone may be one of a span of time.
fn parts_of(pattern: &[u8]) -> (bool, bool, bool) {
    let mut parts = (false, false, false);
    let mut rest = pattern.iter();
    while let Some(byte) = rest.next() {
        if *byte == b'%' {
            match rest.next() {
                Some(b'f') => parts = (parts.0, true, true),
                Some(b'H' | b'I' | b'S' | b'T' | b'h' | b'i' | b'k' | b'l' | b'r' | b's') => parts.1 = true,
                Some(letter) if b"MVUXYWabcjmvuxyw".contains(letter) => parts.0 = true,
                _ => {}
            }
        }
    }
    parts
}

fn str_to_date_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    typing::refuse_pair(&args[0], &args[1], "str_to_date")?;
    let ty = match &args[1].node {
        Node::Constant(Value::Bytes(pattern)) => match parts_of(pattern) {
            (_, false, _) => SqlType::new(TypeKind::Date),
            (false, true, fraction) => SqlType::temporal(TypeKind::Time, if fraction { 6 } else { 0 }),
            (_, _, fraction) => SqlType::temporal(TypeKind::DateTime, if fraction { 6 } else { 0 }),
        },
        _ => SqlType::temporal(TypeKind::DateTime, 6),
    };
    Ok((ty, true))
}

fn str_to_date<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let pattern = given!(args[1].text(cx)?);
    let mode = cx.env().vars.sql_mode;
    let whole = Mismatch { text: &text, kind: "datetime" };
    let parsed = parse(&text, &pattern).map_err(|mismatch| mismatch.unwrap_or(whole));
    let parsed = parsed.and_then(|p| if p.is_valid(ty.class(), mode) { Ok(p) } else { Err(whole) });
    let p = match parsed {
        Ok(p) => p,
        Err(Mismatch { text, kind }) => {
            let shown = printable_text(args[0].ty.collation, text);
            cx.warn(errors::wrong_value_for_type(kind, shown, "str_to_date"))?;
            return Ok(Value::Null);
        }
    };
    if p.leaves_text {
        let kind = match ty.class() {
            Class::Date => "date",
            Class::Time => "time",
            _ => "datetime",
        };
        cx.warn(errors::truncated_wrong_value(kind, printable_text(args[0].ty.collation, &text)))?;
    }
    let time = Time { micros: ((p.hour * 60 + p.minute) * 60 + p.second) * 1_000_000 + p.micros };
    Ok(match ty.class() {
        Class::Date => Value::Date(p.date),
        Class::Time => Value::Time(Time { micros: time.micros + i64::from(p.date.day) * DAY_MICROS }),
        _ => Value::DateTime(p.date.at(time)),
    })
}

/// What does not fit a pattern, and as what it is reported.
#[derive(Clone, Copy)]
struct Mismatch<'a> {
    text: &'a [u8],
    kind: &'static str,
}

/// What STR_TO_DATE has read.
#[derive(Default)]
struct Parsed {
    date: Date,
    day_of_year: i64,
    week: Option<Week>,
    /// The year that `%X` or `%x` gives, and whether its weeks begin on Sundays.
    week_year: Option<(i64, bool)>,
    /// 1 to 7 from Monday on.
    weekday: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    /// Hours are those of half a day.
    is_half_day: bool,
    is_afternoon: bool,
    /// Text was left behind what the pattern took.
    leaves_text: bool,
}

/// A week that a pattern names.
struct Week {
    number: i64,
    from_sunday: bool,
    /// It is counted in the year of `%X` or `%x`, not in that of `%Y`.
    has_own_year: bool,
}

impl Parsed {
    /// The date that a day of the year or of a week names.
    fn settle_date(&mut self) -> Option<()> {
        if self.day_of_year > 0 {
            let first = calendar::day_number(Date::new(self.date.year, 1, 1));
            self.date = Date::from_day_number(first + self.day_of_year - 1)?;
        }
        let (Some(week), Some(weekday)) = (&self.week, self.weekday) else { return Some(()) };
        let year = match (self.week_year, week.has_own_year) {
            (Some((year, from_sunday)), true) if from_sunday == week.from_sunday => {
                u16::try_from(year).ok()?
            }
            (None, false) => self.date.year,
            _ => return None,
        };
        let first = calendar::day_number(Date::new(year, 1, 1));
        let days = match week.from_sunday {
            true => {
                let first_weekday = (first + 6).rem_euclid(7);
                let lead = if first_weekday == 0 { 0 } else { 7 };
                lead - first_weekday + (week.number - 1) * 7 + weekday % 7
            }
            false => {
                let first_weekday = (first + 5).rem_euclid(7);
                let lead = if first_weekday <= 3 { 0 } else { 7 };
                lead - first_weekday + (week.number - 1) * 7 + weekday - 1
            }
        };
        self.date = Date::from_day_number(first + days)?;
        Some(())
    }

    /// Hours of the whole day.
    fn settle_hour(&mut self) -> Option<()> {
        if self.is_half_day {
            if !(1..=12).contains(&self.hour) {
                return None;
            }
            self.hour = self.hour % 12 + if self.is_afternoon { 12 } else { 0 };
            self.is_half_day = false;
        }
        Some(())
    }

    /// Whether parts that are zero are let in; the day may be any of a month of 31.
    fn is_valid(&self, class: Class, mode: SqlMode) -> bool {
        let is_zero = self.date.is_zero();
        let has_zero = !is_zero && (self.date.month == 0 || self.date.day == 0);
        let refused = class != Class::Time
            && (is_zero && mode.has(SqlMode::NO_ZERO_DATE) || has_zero && mode.has(SqlMode::NO_ZERO_IN_DATE));
        !refused && self.hour < 24 && self.minute < 60 && self.second < 60
    }
}

/// Takes a number of at most `max` digits.
fn number(rest: &mut &[u8], max: usize) -> Option<i64> {
    let count = rest.iter().take(max).take_while(|b| b.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let value = rest[..count].iter().fold(0, |n, b| n * 10 + i64::from(b - b'0'));
    *rest = &rest[count..];
    Some(value)
}

/// Takes the letters ahead, which are one of several names or begin only that one, case ignored; gives its place.
fn name<S: AsRef<str>>(rest: &mut &[u8], names: &[S]) -> Option<usize> {
    let count = rest.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    let word = &rest[..count];
    let begins = |name: &S| {
        name.as_ref().as_bytes().get(..count).is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let is_whole = |name: &S| name.as_ref().len() == count && begins(name);
    let found = names.iter().position(is_whole).or_else(|| {
        let mut found = names.iter().enumerate().filter(|(_, name)| begins(name));
        let (place, _) = found.next()?;
        found.next().is_none().then_some(place)
    })?;
    *rest = &rest[count..];
    Some(found)
}

/// The first three letters of names.
fn short<'n>(names: &[&'n str]) -> Vec<&'n str> {
    names.iter().map(|name| &name[..3]).collect()
}

/// Reads a text by a pattern; `Err(None)`: it does not fit.
fn parse<'t>(text: &'t [u8], pattern: &[u8]) -> Result<Parsed, Option<Mismatch<'t>>> {
    let mut p = Parsed::default();
    let mut rest = text;
    take_fields(&mut p, &mut rest, pattern)?;
    p.settle_date().ok_or(None)?;
    p.leaves_text = !rest.trim_ascii_start().is_empty();
    Ok(p)
}

/// Takes what a pattern says, as far as there is text.
fn take_fields<'t>(p: &mut Parsed, rest: &mut &'t [u8], pattern: &[u8]) -> Result<(), Option<Mismatch<'t>>> {
    let mut pattern = pattern.iter();
    while let Some(byte) = pattern.next() {
        *rest = rest.trim_ascii_start();
        if rest.is_empty() {
            break;
        }
        match (*byte, pattern.as_slice()) {
            (b'%', [letter, ..]) => {
                pattern.next();
                let parts: &[u8] = match letter {
                    b'T' => b"%H:%i:%S",
                    b'r' => b"%I:%i:%S %p",
                    _ => {
                        take_field(p, rest, *letter).ok_or(None)?;
                        continue;
                    }
                };
                let whole = Mismatch { text: rest, kind: "time" };
                take_fields(p, rest, parts).map_err(|_| Some(whole))?;
            }
            (byte, _) if byte.is_ascii_whitespace() => {}
            (byte, _) => *rest = rest.strip_prefix(&[byte]).ok_or(None)?,
        }
    }
    p.settle_hour().ok_or(None)
}

fn take_field(p: &mut Parsed, rest: &mut &[u8], letter: u8) -> Option<()> {
    // Whatever lc_time_names says.
    let english = Locale::english();
    let before = rest.len();
    match letter {
        b'Y' => {
            let year = number(rest, 4)?;
            p.date.year = if before - rest.len() <= 2 { two_digit_year(year) } else { year as u16 };
        }
        b'y' => p.date.year = two_digit_year(number(rest, 2)?),
        b'm' | b'c' => p.date.month = number(rest, 2).filter(|m| *m <= 12)? as u8,
        b'M' => p.date.month = name(rest, &english.months)? as u8 + 1,
        b'b' => p.date.month = name(rest, &short(&english.months))? as u8 + 1,
        b'd' | b'e' => p.date.day = number(rest, 2).filter(|d| *d <= 31)? as u8,
        b'D' => {
            p.date.day = number(rest, 2).filter(|d| *d <= 31)? as u8;
            *rest = &rest[rest.len().min(2)..];
        }
        b'j' => p.day_of_year = number(rest, 3)?,
        b'U' | b'u' | b'V' | b'v' => {
            let has_own_year = matches!(letter, b'V' | b'v');
            let weeks = i64::from(has_own_year)..=53;
            let number = number(rest, 2).filter(|week| weeks.contains(week))?;
            p.week = Some(Week { number, from_sunday: matches!(letter, b'U' | b'V'), has_own_year });
        }
        b'X' | b'x' => p.week_year = Some((number(rest, 4)?, letter == b'X')),
        b'W' => p.weekday = Some(name(rest, &english.days)? as i64 + 1),
        b'a' => p.weekday = Some(name(rest, &short(&english.days))? as i64 + 1),
        b'w' => p.weekday = Some(number(rest, 1).filter(|d| *d < 7).map(|d| if d == 0 { 7 } else { d })?),
        b'H' | b'k' => p.hour = number(rest, 2)?,
        b'h' | b'I' | b'l' => {
            p.hour = number(rest, 2)?;
            p.is_half_day = true;
        }
        b'i' => p.minute = number(rest, 2)?,
        b's' | b'S' => p.second = number(rest, 2)?,
        b'f' => p.micros = number(rest, 6)? * 10i64.pow(6 - (before - rest.len()) as u32),
        b'p' if p.is_half_day => {
            let (half, behind) = rest.split_at_checked(2)?;
            p.is_afternoon = half.eq_ignore_ascii_case(b"PM");
            if !p.is_afternoon && !half.eq_ignore_ascii_case(b"AM") {
                return None;
            }
            *rest = behind;
        }
        b'#' => *rest = &rest[rest.iter().take_while(|b| b.is_ascii_digit()).count()..],
        b'.' => *rest = &rest[rest.iter().take_while(|b| b.is_ascii_punctuation()).count()..],
        b'@' => *rest = &rest[rest.iter().take_while(|b| b.is_ascii_alphabetic()).count()..],
        _ => return None,
    }
    Some(())
}

fn two_digit_year(year: i64) -> u16 {
    if year < 70 { year as u16 + 2000 } else { year as u16 + 1900 }
}

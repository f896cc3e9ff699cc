//! DATE_FORMAT, TIME_FORMAT and STR_TO_DATE: patterns of `%` and a letter.

use keel_base::{SqlResult, errors};
use keel_value::collation::{Charset, convert};
use keel_value::convert::printable_text;
use keel_value::types::Class;
use keel_value::{Date, DateTime, SqlMode, SqlType, Time, TypeKind, Value};

use super::locale::{self, Locale};
use super::{Function, function, given, or_null, text_value};
use crate::bind::BindContext;
use crate::expr::typing::{string_type, text_chars};
use crate::expr::{EvalContext, Expr, Node};

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
                Some(b'w' | b'%') => 1,
                _ => 2,
            },
            _ => 1,
        };
    }
    length
}

fn format_type(cx: &BindContext<'_>, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let chars = formatted_chars(&args[1]);
    Ok((string_type(chars, cx.session.vars.connection_collation).with_decimals(0), true))
}

fn date_format<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let names = match args.get(2) {
        Some(arg) => locale::of_argument(arg, cx)?,
        None => cx.session.vars.time_names,
    };
    let v = given!(args[0].date_parts(cx)?);
    let pattern = given!(args[1].text(cx)?);
    if pattern.is_empty() {
        return Ok(Value::Null);
    }
    Ok(or_null(format(v, v.time(), &pattern, (names, ty)), |t| Value::Bytes(t.into())))
}

fn time_format<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let v = given!(args[0].time(cx)?);
    let pattern = given!(args[1].text(cx)?);
    if pattern.is_empty() {
        return Ok(Value::Null);
    }
    let names = cx.session.vars.time_names;
    Ok(or_null(format(DateTime::default(), v, &pattern, (names, ty)), |t| Value::Bytes(t.into())))
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

fn get_format_type(cx: &BindContext<'_>, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((string_type(17, cx.session.vars.connection_collation).with_decimals(0), true))
}

fn get_format<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let kind = given!(args[0].text(cx)?);
    let standard = given!(args[1].text(cx)?);
    let found = STANDARD_FORMATS
        .iter()
        .find(|(k, s, _)| k.as_bytes() == &*kind && s.as_bytes().eq_ignore_ascii_case(&standard));
    Ok(or_null(found, |(_, _, pattern)| text_value(pattern)))
}

/// Which parts a pattern of STR_TO_DATE has: date, time, fraction.
fn parts_of(pattern: &[u8]) -> (bool, bool, bool) {
    let mut parts = (false, false, false);
    let mut rest = pattern.iter();
    while let Some(byte) = rest.next() {
        if *byte == b'%' {
            match rest.next() {
                Some(b'f') => parts = (parts.0, true, true),
                Some(b'H' | b'S' | b'I' | b'T' | b'h' | b'i' | b'k' | b'l' | b'p' | b'r' | b's') => {
                    parts.1 = true
                }
                Some(b'%') | None => {}
                Some(_) => parts.0 = true,
            }
        }
    }
    parts
}

fn str_to_date_type(_: &BindContext<'_>, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
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
    let mode = cx.session.vars.sql_mode;
    let parsed = parse(&text, &pattern).filter(|p| p.is_valid(ty.class(), mode));
    let Some(p) = parsed else {
        let shown = printable_text(args[0].ty.collation, &text);
        cx.warn(errors::wrong_value_for_type("datetime", shown, "str_to_date"))?;
        return Ok(Value::Null);
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
        Class::Date => Value::Date(p.date()),
        Class::Time => Value::Time(time),
        _ => Value::DateTime(p.date().at(time)),
    })
}

/// What STR_TO_DATE has read.
#[derive(Default)]
struct Parsed {
    year: i64,
    month: i64,
    day: i64,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    afternoon: Option<bool>,
    /// Text was left behind what the pattern took.
    leaves_text: bool,
}

impl Parsed {
    fn date(&self) -> Date {
        match self.day_of_year {
            Some(day) if self.year > 0 => {
                let first = super::calendar::day_number(Date::new(self.year as u16, 1, 1));
                Date::from_day_number(first + day - 1).unwrap_or(Date::ZERO)
            }
            _ => Date::new(self.year as u16, self.month as u8, self.day as u8),
        }
    }

    /// Whether parts that are zero are let in; the day may be any of a month of 31.
    fn is_valid(&self, class: Class, mode: SqlMode) -> bool {
        let date = self.date();
        let is_zero = date.is_zero();
        let has_zero = !is_zero && (date.month == 0 || date.day == 0);
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

/// Takes one of several names, case ignored; gives its place.
fn name(rest: &mut &[u8], names: &[&str], short: bool) -> Option<usize> {
    names.iter().position(|name| {
        let wanted = if short { &name[..3] } else { name };
        let found =
            rest.len() >= wanted.len() && rest[..wanted.len()].eq_ignore_ascii_case(wanted.as_bytes());
        if found {
            *rest = &rest[wanted.len()..];
        }
        found
    })
}

fn parse(text: &[u8], pattern: &[u8]) -> Option<Parsed> {
    let mut p = Parsed::default();
    let mut rest = text;
    let mut pattern = pattern.iter();
    while let Some(byte) = pattern.next() {
        if byte.is_ascii_whitespace() {
            rest = rest.trim_ascii_start();
            continue;
        }
        if rest.trim_ascii_start().is_empty() {
            break;
        }
        if *byte != b'%' {
            rest = rest.trim_ascii_start().strip_prefix(&[*byte])?;
            continue;
        }
        let letter = *pattern.next()?;
        if letter != b'%' {
            rest = rest.trim_ascii_start();
        }
        take_field(&mut p, &mut rest, letter)?;
    }
    if let Some(afternoon) = p.afternoon {
        if !(1..=12).contains(&p.hour) {
            return None;
        }
        p.hour = p.hour % 12 + if afternoon { 12 } else { 0 };
    }
    p.leaves_text = !rest.trim_ascii_start().is_empty();
    Some(p)
}

fn take_field(p: &mut Parsed, rest: &mut &[u8], letter: u8) -> Option<()> {
    // Whatever lc_time_names says.
    let english = Locale::english();
    match letter {
        b'Y' => {
            let before = rest.len();
            p.year = number(rest, 4)?;
            if before - rest.len() <= 2 {
                p.year = two_digit_year(p.year);
            }
        }
        b'y' => p.year = two_digit_year(number(rest, 2)?),
        b'm' | b'c' => p.month = number(rest, 2).filter(|m| *m <= 12)?,
        b'M' => p.month = name(rest, &english.months, false)? as i64 + 1,
        b'b' => p.month = name(rest, &english.months, true)? as i64 + 1,
        b'd' | b'e' => p.day = number(rest, 2).filter(|d| *d <= 31)?,
        b'D' => {
            p.day = number(rest, 2).filter(|d| *d <= 31)?;
            *rest = &rest[rest.len().min(2)..];
        }
        b'j' => p.day_of_year = Some(number(rest, 3).filter(|d| (1..=366).contains(d))?),
        b'W' => drop(name(rest, &english.days, false)?),
        b'a' => drop(name(rest, &english.days, true)?),
        b'w' => drop(number(rest, 1)?),
        b'H' | b'k' => p.hour = number(rest, 2)?,
        b'h' | b'I' | b'l' => p.hour = number(rest, 2).filter(|h| (1..=12).contains(h))?,
        b'i' => p.minute = number(rest, 2)?,
        b's' | b'S' => p.second = number(rest, 2)?,
        b'f' => {
            let before = rest.len();
            let value = number(rest, 6)?;
            p.micros = value * 10i64.pow(6 - (before - rest.len()) as u32);
        }
        b'p' => p.afternoon = Some(name(rest, &["AM", "PM"], false)? == 1),
        b'T' | b'r' => {
            p.hour = number(rest, 2)?;
            *rest = rest.strip_prefix(b":")?;
            p.minute = number(rest, 2)?;
            *rest = rest.strip_prefix(b":")?;
            p.second = number(rest, 2)?;
            if letter == b'r' {
                *rest = rest.trim_ascii_start();
                p.afternoon = Some(name(rest, &["AM", "PM"], false)? == 1);
            }
        }
        b'%' => *rest = rest.strip_prefix(b"%")?,
        b'#' => *rest = &rest[rest.iter().take_while(|b| b.is_ascii_digit()).count()..],
        b'.' => *rest = &rest[rest.iter().take_while(|b| b.is_ascii_punctuation()).count()..],
        b'@' => *rest = &rest[rest.iter().take_while(|b| b.is_ascii_alphabetic()).count()..],
        _ => return None,
    }
    Some(())
}

fn two_digit_year(year: i64) -> i64 {
    if year < 70 { year + 2000 } else { year + 1900 }
}

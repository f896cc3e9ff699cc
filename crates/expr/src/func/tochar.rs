//! TO_CHAR: dates and times by a pattern of Oracle's.

use std::fmt::Write;

use keel_base::{SqlError, SqlResult, errors};
use keel_context::locale::Locale;
use keel_value::collation::{Charset, convert};
use keel_value::types::{Class, Format};
use keel_value::{DateTime, SqlType, Value, ValueRef};

use super::{Function, function, given, known_text, text_value};
use crate::typing::{self, string_type, text_chars};
use crate::{Env, EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[function!("to_char", 1, 2, to_char_type, to_char)];

const DEFAULT_PATTERN: &[u8] = b"YYYY-MM-DD HH24:MI:SS";
/// Characters of the longest names as MariaDB describes them.
const NAME_CHARS_MAX: u64 = 27;
/// Bytes of a pattern's rest that 3047 shows.
const SHOWN: usize = 8;

/// A part of a pattern.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Text(u8),
    /// AD, BC; with points.
    Era(bool),
    /// AM, PM; with points.
    Half(bool),
    /// So many digits.
    Year(usize),
    Month,
    MonthShort,
    MonthName,
    Day,
    DayShort,
    DayName,
    Hour12,
    Hour24,
    Minute,
    Second,
}

/// The words of patterns, longer ones before those that they begin with.
const WORDS: &[(&str, Part)] = &[
    ("A.D.", Part::Era(true)),
    ("B.C.", Part::Era(true)),
    ("AD", Part::Era(false)),
    ("BC", Part::Era(false)),
    ("A.M.", Part::Half(true)),
    ("P.M.", Part::Half(true)),
    ("AM", Part::Half(false)),
    ("PM", Part::Half(false)),
    ("YYYY", Part::Year(4)),
    ("YYY", Part::Year(3)),
    ("YY", Part::Year(2)),
    ("Y", Part::Year(1)),
    ("RRRR", Part::Year(4)),
    ("RR", Part::Year(2)),
    ("MONTH", Part::MonthName),
    ("MON", Part::MonthShort),
    ("MM", Part::Month),
    ("MI", Part::Minute),
    ("DAY", Part::DayName),
    ("DY", Part::DayShort),
    ("DD", Part::Day),
    ("HH12", Part::Hour12),
    ("HH24", Part::Hour24),
    ("HH", Part::Hour12),
    ("SS", Part::Second),
];

fn refused(what: String) -> SqlError {
    errors::std_invalid_argument(what, "to_char")
}

/// The parts of a pattern; 3047 at what is none.
fn parse(pattern: &[u8]) -> SqlResult<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some(&first) = rest.first() {
        if first == b'"' {
            let end = rest[1..].iter().position(|b| *b == b'"').unwrap_or(rest.len() - 1);
            parts.extend(rest[1..=end].iter().map(|b| Part::Text(*b)));
            rest = &rest[(end + 2).min(rest.len())..];
            continue;
        }
        if !first.is_ascii_alphanumeric() {
            parts.push(Part::Text(first));
            rest = &rest[1..];
            continue;
        }
        let begins =
            |word: &str| rest.get(..word.len()).is_some_and(|b| b.eq_ignore_ascii_case(word.as_bytes()));
        let is_odd = begins("RRR") && !begins("RRRR");
        match WORDS.iter().find(|(word, _)| begins(word)).filter(|_| !is_odd) {
            Some((word, part)) => {
                parts.push(*part);
                rest = &rest[word.len()..];
            }
            None => {
                let shown = String::from_utf8_lossy(&rest[..rest.len().min(SHOWN)]).into_owned();
                return Err(refused(format!("date format not recognized at {shown}")));
            }
        }
    }
    Ok(parts)
}

fn to_char_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    typing::refuse_fixed(&args[0], "to_char")?;
    let is_json = args[0].ty.is_string() && args[0].ty.format == Format::Json;
    if is_json || !matches!(args[0].class(), Class::String | Class::Date | Class::Time | Class::DateTime) {
        let what = "data type of first argument must be type date/datetime/time or string";
        return Err(refused(what.to_string()));
    }
    let chars = match args.get(1) {
        None => parse(DEFAULT_PATTERN)?.into_iter().map(chars_of).sum(),
        Some(arg) => match known_text(arg) {
            Some(pattern) => {
                let quotes = pattern.iter().filter(|b| **b == b'"').count() as u64;
                quotes + parse(pattern)?.into_iter().map(chars_of).sum::<u64>()
            }
            None => u64::from(text_chars(arg)) * NAME_CHARS_MAX / 3,
        },
    };
    Ok((string_type(chars, cx.vars.connection_collation), true))
}

/// Most characters of a part.
fn chars_of(part: Part) -> u64 {
    match part {
        Part::Text(_) => 1,
        Part::Era(points) | Part::Half(points) => {
            if points {
                4
            } else {
                2
            }
        }
        Part::Year(digits) => digits as u64,
        Part::MonthName | Part::DayName => NAME_CHARS_MAX,
        Part::MonthShort | Part::DayShort => 3,
        Part::Month | Part::Day | Part::Hour12 | Part::Hour24 | Part::Minute | Part::Second => 2,
    }
}

fn to_char<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let cell = args[0].eval(cx)?;
    let (at, hour) = match cell.as_ref() {
        ValueRef::Time(v) => {
            let at = DateTime { minute: v.minutes(), second: v.seconds(), ..DateTime::default() };
            (at, v.hours())
        }
        _ => {
            let at = given!(args[0].date_parts(cx)?);
            (at, u32::from(at.hour))
        }
    };
    let pattern = match args.get(1) {
        Some(arg) => given!(arg.text(cx)?),
        None => DEFAULT_PATTERN.into(),
    };
    let mut out = Vec::new();
    for part in parse(&pattern)? {
        match part {
            Part::Text(octet) => out.push(octet),
            part => {
                let text = shown(part, &at, hour, cx.env().vars.time_names);
                let (text, _) = convert(Charset::Utf8mb4, ty.collation.charset(), text.as_bytes());
                out.extend_from_slice(&text);
            }
        }
    }
    Ok(text_value(out))
}

/// A name filled up to the longest one's length, or what stands for none.
fn name(name: Option<&str>, chars: usize) -> String {
    name.map_or_else(|| "00".to_string(), |name| format!("{name:<chars$}"))
}

fn shown(part: Part, at: &DateTime, hour: u32, names: &Locale) -> String {
    let date = at.date;
    let month = usize::from(date.month).checked_sub(1);
    let day = date.weekday().map(usize::from);
    let mut out = String::new();
    let written = match part {
        Part::Text(_) => Ok(()),
        Part::Era(true) => write!(out, "A.D."),
        Part::Era(false) => write!(out, "AD"),
        Part::Half(points) => {
            let letter = if hour >= 12 { 'P' } else { 'A' };
            if points { write!(out, "{letter}.M.") } else { write!(out, "{letter}M") }
        }
        Part::Year(digits) => {
            let year = u32::from(date.year) % 10u32.pow(digits as u32);
            write!(out, "{year:0digits$}")
        }
        Part::Month => write!(out, "{:02}", date.month),
        Part::MonthShort => return name(month.map(|month| names.months_short[month]), 0),
        Part::MonthName => return name(month.map(|month| names.months[month]), names.month_chars),
        Part::Day => write!(out, "{:02}", date.day),
        Part::DayShort => return name(day.map(|day| names.days_short[day]), 0),
        Part::DayName => return name(day.map(|day| names.days[day]), names.day_chars),
        Part::Hour12 => write!(out, "{:02}", (hour + 11) % 12 + 1),
        Part::Hour24 => write!(out, "{hour:02}"),
        Part::Minute => write!(out, "{:02}", at.minute),
        Part::Second => write!(out, "{:02}", at.second),
    };
    written.expect("a String takes all text");
    out
}

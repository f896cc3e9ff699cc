//! Conversions of values: CAST with its warnings, and those that binding adds.

use std::borrow::Cow;

use keel_base::{SqlError, SqlResult, errors};
use keel_value::collation::Charset;
use keel_value::convert::{self, Problem, StoreContext};
use keel_value::decimal::Fit;
use keel_value::temporal::{DateRules, Moment, ParsedTime, days_in_month};
use keel_value::types::{Class, Format, NOT_FIXED};
use keel_value::{
    Cell, CollationId, Date, DateTime, Decimal, Fixed, FixedKind, SqlMode, SqlType, Time, TypeKind, Value,
    ValueRef, collation,
};

use super::eval::problem_error;
use super::typing::is_comparand;
use super::{EvalContext, Expr, print, typing};
use crate::typing::bytes_as_number;

/// CAST(value AS ty): converts and reports what was lost.
pub(super) fn cast<'f>(
    ty: &'f SqlType,
    value: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cell<'f>> {
    match ty.class() {
        Class::String => cast_text(ty, value, cx),
        Class::Decimal => {
            let Some(v) = value.decimal(cx)? else { return Ok(Cell::Ref(ValueRef::Null)) };
            let (fitted, fit) = v.fit(ty.length, ty.decimals);
            if fit == Fit::OutOfRange {
                cx.warn(out_of_range(ty, value, cx))?;
            }
            Ok(Cell::Ref(ValueRef::Decimal(fitted)))
        }
        Class::Real if ty.kind == TypeKind::Float => {
            let Some(v) = value.real(cx)? else { return Ok(Cell::Ref(ValueRef::Null)) };
            let fitted = (v as f32).clamp(f32::MIN, f32::MAX);
            if (v as f32).is_infinite() {
                let problem = out_of_range(ty, value, cx);
                cx.env_mut().note(problem);
            }
            Ok(Cell::Ref(ValueRef::Float(fitted)))
        }
        Class::Real if ty.kind == TypeKind::Double && ty.decimals < NOT_FIXED => {
            let Some(v) = value.real(cx)? else { return Ok(Cell::Ref(ValueRef::Null)) };
            let (fitted, fits) = convert::fit_double(ty, v);
            if !fits {
                let problem = out_of_range(ty, value, cx);
                cx.env_mut().note(problem);
            }
            Ok(Cell::Ref(ValueRef::Double(fitted)))
        }
        Class::Int => cast_integer(ty, value, cx),
        Class::Fixed(kind) => {
            let cell = value.eval(cx)?;
            let Some(found) = convert::to_fixed(kind, cell.as_ref(), &value.ty) else {
                if !cell.as_ref().is_null() {
                    let value = convert::printable(cell.as_ref(), &value.ty);
                    cx.warn(problem_error(Problem::IncorrectFixed { kind: kind.name(), value }))?;
                }
                return Ok(Cell::Ref(ValueRef::Null));
            };
            Ok(Cell::Ref(ValueRef::Fixed(found)))
        }
        _ => convert(ty, value, cx),
    }
}

/// 1264 of a CAST, by its text.
fn out_of_range(ty: &SqlType, value: &Expr, cx: &EvalContext<'_, '_>) -> SqlError {
    let written = print::text_of_execution(value, cx.frame.params);
    let text = format!("cast({written} as {})", ty.sql_name());
    errors::warn_data_out_of_range(text, cx.env().current_row)
}

fn cast_integer<'f>(ty: &'f SqlType, value: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
    let cell = value.eval(cx)?;
    let (low, high) = if ty.unsigned {
        (0i128, i128::from(u64::MAX))
    } else {
        (i128::from(i64::MIN), i128::from(i64::MAX))
    };
    let exact = match cell.as_ref() {
        ValueRef::Null => return Ok(Cell::Ref(ValueRef::Null)),
        ValueRef::Int(v) if ty.unsigned => {
            if v < 0 {
                note_negative(cx);
            }
            return Ok(Cell::Ref(ValueRef::UInt(v as u64)));
        }
        ValueRef::Int(v) => return Ok(Cell::Ref(ValueRef::Int(v))),
        ValueRef::UInt(v) => {
            return Ok(Cell::Ref(if ty.unsigned { ValueRef::UInt(v) } else { ValueRef::Int(v as i64) }));
        }
        ValueRef::Double(v) => v.round_ties_even() as i128,
        ValueRef::Float(v) => f64::from(v).round_ties_even() as i128,
        ValueRef::Decimal(d) => decimal_to_whole(&d),
        ValueRef::Bytes(bytes) if typing::is_hex(value) => i128::from(bytes_as_number(bytes)),
        ValueRef::Bytes(text) => {
            let bits = leading_integer(text, ty.unsigned, &value.ty, cx)?;
            return Ok(Cell::Ref(if ty.unsigned {
                ValueRef::UInt(bits)
            } else {
                ValueRef::Int(bits as i64)
            }));
        }
        other => i128::from(cx.reporting(|report| convert::to_i64(other, &value.ty, report))?),
    };
    let bent = exact.clamp(low, high);
    if bent != exact {
        let shown = convert::printable(cell.as_ref(), &value.ty);
        match (cell.as_ref(), ty.unsigned) {
            (ValueRef::Decimal(_), true) => cx.warn(errors::data_overflow(shown, "UNSIGNED INT"))?,
            (ValueRef::Decimal(_), false) => cx.warn(errors::data_overflow(shown, "INT"))?,
            (_, true) => cx.env_mut().note(errors::data_overflow(shown, "UNSIGNED BIGINT")),
            (_, false) => cx.env_mut().note(errors::data_overflow(shown, "SIGNED BIGINT")),
        }
    }
    Ok(Cell::Ref(if ty.unsigned { ValueRef::UInt(bent as u64) } else { ValueRef::Int(bent as i64) }))
}

fn note_negative(cx: &mut EvalContext<'_, '_>) {
    let text = "Cast to unsigned converted negative integer to it's positive complement";
    cx.env_mut().note(errors::unknown_error(text));
}

fn decimal_to_whole(d: &Decimal) -> i128 {
    match d.to_i64() {
        Ok(v) => i128::from(v),
        Err(bound) if bound < 0 => i128::from(bound) - 1,
        Err(_) => d.to_u64().map_or(i128::from(u64::MAX) + 1, i128::from),
    }
}

/// The 64 bits of the whole number that a text begins with, as CAST to integers reads it: no fraction, no exponent.
fn leading_integer(
    text: &[u8],
    unsigned: bool,
    from: &SqlType,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<u64> {
    let trimmed = text.trim_ascii_start();
    let (negative, digits) = match trimmed.first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let value = digits[..count]
        .iter()
        .fold(0i128, |value, digit| value.saturating_mul(10).saturating_add(i128::from(digit - b'0')));
    let exact = if negative { -value } else { value };
    let kept = exact.clamp(i128::from(i64::MIN), i128::from(u64::MAX));
    if count < digits.len() || count == 0 || kept != exact {
        let shown = convert::printable(ValueRef::Bytes(text), from);
        cx.warn(errors::truncated_wrong_value("INTEGER", shown))?;
    } else if unsigned && kept < 0 {
        note_negative(cx);
    } else if !unsigned && kept > i128::from(i64::MAX) {
        let text = "Cast to signed converted positive out-of-range integer to it's negative complement";
        cx.env_mut().note(errors::unknown_error(text));
    }
    Ok(kept as u64)
}

/// Characters, or bytes, that a CAST keeps: no more than a packet may have. One to as many as its argument has, which is one
/// that named no number, is not warned of, and keeps all of a number: some are longer than their type says.
fn kept_at_most(ty: &SqlType, value: &Expr, cx: &mut EvalContext<'_, '_>) -> SqlResult<usize> {
    let max = cx.env().vars.max_allowed_packet;
    let named_none = ty.kind != TypeKind::Binary && ty.length == typing::text_chars(value);
    if named_none && !value.ty.is_string() {
        return Ok(usize::MAX);
    }
    if u64::from(ty.length) <= max || named_none {
        return Ok(ty.length as usize);
    }
    let name = if ty.collation == CollationId::BINARY { "cast_as_binary" } else { "cast_as_char" };
    cx.warn(errors::warn_allowed_packet_overflowed(name, max))?;
    Ok(max as usize)
}

fn cast_text<'f>(ty: &'f SqlType, value: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
    let limit = kept_at_most(ty, value, cx)?;
    let text = match value.ty.is_fixed() && ty.collation == CollationId::BINARY {
        true => octets_of(value, cx)?,
        false => text_in(ty.collation, value, cx)?,
    };
    let Some(text) = text else { return Ok(Cell::Ref(ValueRef::Null)) };
    // JSON_ARRAY() and JSON_OBJECT() have a declared length of 0, and a CAST without a length keeps their text.
    let kept = match limit == 0 && value.ty.format == Format::Json && value.ty.length == 0 {
        true => text.len(),
        false => collation::substring(ty.collation, &text, 0, limit).len(),
    };
    if kept < text.len() && ty.is_string() && !ty.is_blob() {
        let name = if ty.collation == CollationId::BINARY { "BINARY" } else { "CHAR" };
        let shown = convert::printable_text(ty.collation, &text);
        // A warning even where the statement's warnings are errors.
        cx.env_mut().warn(errors::truncated_wrong_value(format!("{name}({limit})"), shown));
    }
    let pads = ty.kind == TypeKind::Binary && kept < limit;
    Ok(match text {
        Cow::Borrowed(bytes) if !pads => Cell::Ref(ValueRef::Bytes(&bytes[..kept])),
        other => {
            let mut bytes = other.into_owned();
            bytes.truncate(kept);
            if pads {
                bytes.resize(limit, 0);
            }
            Cell::Owned(Value::Bytes(bytes.into()))
        }
    })
}

/// The bytes of an address or UUID; None is NULL.
fn octets_of<'f>(value: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<Cow<'f, [u8]>>> {
    Ok(match value.eval(cx)?.as_ref() {
        ValueRef::Fixed(v) => Some(Cow::Owned(v.octets().to_vec())),
        _ => None,
    })
}

/// A value as an address or UUID; None is NULL, or what is none, of which a warning tells that is never an error.
pub fn value_to_fixed(
    kind: FixedKind,
    value: ValueRef<'_>,
    ty: &SqlType,
    cx: &mut EvalContext<'_, '_>,
) -> Option<Fixed> {
    if value.is_null() {
        return None;
    }
    let found = convert::to_fixed(kind, value, ty);
    if found.is_none() {
        let value = convert::printable(value, ty);
        cx.env_mut().warn(problem_error(Problem::IncorrectFixed { kind: kind.name(), value }));
    }
    found
}

/// An expression's text in the character set of a collation; None is NULL.
pub(crate) fn text_in<'f>(
    wanted: CollationId,
    value: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Option<Cow<'f, [u8]>>> {
    let Some(text) = value.text(cx)? else { return Ok(None) };
    let from = value.ty.collation.charset();
    let to = wanted.charset();
    if from == to || wanted == CollationId::BINARY {
        return Ok(Some(text));
    }
    if value.ty.is_string() && !value.ty.is_text() {
        return well_formed(wanted, text, cx).map(Some);
    }
    // Numbers and times print in ASCII.
    let from = if value.ty.is_text() { from } else { Charset::Ascii };
    if from == Charset::Ascii && !to.is_wide() {
        return Ok(Some(text));
    }
    let (converted, lost) = match collation::convert(from, to, &text) {
        (Cow::Owned(bytes), lost) => (Some(bytes), lost),
        (Cow::Borrowed(_), lost) => (None, lost),
    };
    if lost > 0 {
        report_lost(from, to, &text, cx)?;
    }
    Ok(Some(converted.map_or(text, Cow::Owned)))
}

/// Octets as text: what is no character becomes `?`, which is reported.
fn well_formed<'f>(
    wanted: CollationId,
    octets: Cow<'f, [u8]>,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cow<'f, [u8]>> {
    let octets = match wanted.charset().padded(&octets) {
        Cow::Owned(padded) => Cow::Owned(padded),
        Cow::Borrowed(_) => octets,
    };
    let good = collation::well_formed_len(wanted, &octets);
    if good == octets.len() {
        return Ok(octets);
    }
    let shown = convert::printable_text(CollationId::BINARY, &octets[good..]);
    cx.warn(errors::invalid_character_string(wanted.charset().name(), shown))?;
    Ok(Cow::Owned(convert::repaired(wanted, &octets)))
}

/// Reports the first character that another set lacks.
fn report_lost(from: Charset, to: Charset, text: &[u8], cx: &mut EvalContext<'_, '_>) -> SqlResult<()> {
    let rest = convert::first_lost(from, to, text);
    let character = collation::substring(from.binary_collation(), rest, 0, 1);
    let octets: String = character.iter().map(|octet| format!("{octet:02X}")).collect();
    cx.warn(errors::cannot_convert_character(from.name(), octets, to.name()))
}

/// The value in the type's own representation, without CAST's warnings about length.
pub(crate) fn convert<'f>(
    ty: &'f SqlType,
    value: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cell<'f>> {
    let null = Cell::Ref(ValueRef::Null);
    Ok(match ty.class() {
        Class::Null => value.eval(cx)?,
        Class::Int => match value.integer(cx)? {
            Some(v) if v < 0 => Cell::Ref(ValueRef::Int(v as i64)),
            Some(v) => Cell::Ref(i64::try_from(v).map_or(ValueRef::UInt(v as u64), ValueRef::Int)),
            None => null,
        },
        Class::Decimal if is_comparand(ty) => {
            value.decimal(cx)?.map_or(null, |v| Cell::Ref(ValueRef::Decimal(v)))
        }
        Class::Decimal => match value.decimal(cx)? {
            Some(v) => Cell::Ref(ValueRef::Decimal(v.round(i32::from(ty.decimals)))),
            None => null,
        },
        Class::Real => match value.real(cx)? {
            Some(v) if ty.kind == TypeKind::Float => Cell::Ref(ValueRef::Float(v as f32)),
            Some(v) => Cell::Ref(ValueRef::Double(v)),
            None => null,
        },
        Class::String => match text_in(ty.collation, value, cx)? {
            Some(Cow::Borrowed(bytes)) => Cell::Ref(ValueRef::Bytes(bytes)),
            Some(Cow::Owned(bytes)) => Cell::Owned(Value::Bytes(bytes.into())),
            None => null,
        },
        Class::Fixed(kind) => {
            let cell = value.eval(cx)?;
            let found = value_to_fixed(kind, cell.as_ref(), &value.ty, cx);
            found.map_or(null, |v| Cell::Ref(ValueRef::Fixed(v)))
        }
        Class::Date => day_of(value, cx)?.map_or(null, |v| Cell::Ref(ValueRef::Date(v))),
        Class::DateTime if is_comparand(ty) => {
            let cell = value.eval(cx)?;
            match cell.as_ref() {
                ValueRef::Null => null,
                other => Cell::Ref(ValueRef::DateTime(datetime_comparand(other, &value.ty, cx)?)),
            }
        }
        Class::Time if is_comparand(ty) => {
            let cell = value.eval(cx)?;
            match cell.as_ref() {
                ValueRef::Null => null,
                other => Cell::Ref(ValueRef::Time(time_comparand(other, &value.ty, cx)?)),
            }
        }
        Class::DateTime => {
            let (digits, mode) = (ty.decimals, cx.env().vars.sql_mode);
            value.datetime(cx)?.map_or(null, |v| Cell::Ref(ValueRef::DateTime(v.fit(digits, mode))))
        }
        Class::Time => {
            let (digits, mode) = (ty.decimals, cx.env().vars.sql_mode);
            value.time(cx)?.map_or(null, |v| Cell::Ref(ValueRef::Time(v.fit(digits, mode))))
        }
    })
}

/// The value's date. A time of day is cut off, whatever it would be rounded to.
pub(crate) fn day_of<'f>(value: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<Date>> {
    let cell = value.eval(cx)?;
    let found = match cell.as_ref() {
        v @ (ValueRef::Null | ValueRef::Time(_) | ValueRef::Date(_) | ValueRef::DateTime(_)) => {
            value_to_datetime(v, &value.ty, None, cx)?
        }
        v => {
            let rules = DateRules { round: false, ..DateRules::of(cx.env().vars.sql_mode) };
            datetime_by_rules(rules, v, &value.ty, value.column_name(), cx)?
        }
    };
    Ok(found.map(|v| v.date))
}

/// A constant that dates are compared with; what is none stands below all of them, and is reported as cut short.
pub(crate) fn datetime_comparand(
    value: ValueRef<'_>,
    ty: &SqlType,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<DateTime> {
    let zone = cx.env().vars.time_zone.clone();
    let mode = cx.env().vars.sql_mode;
    let context = StoreContext { mode, strict: false, zone: &*zone, today: cx.today() };
    let mut problem = None;
    let found = convert::to_datetime(value, ty, DateRules::COMPARED, &context, &mut |p| problem = Some(p));
    report_temporal(problem.map(as_truncated), None, cx)?;
    Ok(found.unwrap_or_default())
}

/// Whether a date may stand where one is a result; warns of one beyond its month's end, unless these are allowed.
pub(crate) fn is_possible(date: Date, cx: &mut EvalContext<'_, '_>) -> SqlResult<bool> {
    let is_within = date.month == 0 || date.day <= days_in_month(date.year, date.month);
    if is_within || cx.env().vars.sql_mode.has(SqlMode::ALLOW_INVALID_DATES) {
        return Ok(true);
    }
    let mut shown = Vec::new();
    keel_value::text::append_date(&mut shown, date);
    warn_of_date(String::from_utf8_lossy(&shown).into_owned(), cx)?;
    Ok(false)
}

/// Reports a date that is none of the calendar.
pub(crate) fn warn_of_date(value: String, cx: &mut EvalContext<'_, '_>) -> SqlResult<()> {
    let problem = Problem::IncorrectTemporal { kind: "datetime", value, out_of_range: false };
    report_temporal(Some(problem), None, cx)
}

/// The same for times.
fn time_comparand(value: ValueRef<'_>, ty: &SqlType, cx: &mut EvalContext<'_, '_>) -> SqlResult<Time> {
    let mut problem = None;
    let found = convert::to_time(value, ty, &mut |p| problem = Some(p));
    report_temporal(problem.map(as_truncated), None, cx)?;
    Ok(found.unwrap_or_default())
}

fn as_truncated(problem: Problem) -> Problem {
    match problem {
        Problem::IncorrectTemporal { kind, value, .. } => Problem::TruncatedIncorrect { kind, value },
        other => other,
    }
}

/// Whether a value of type `from` needs no conversion to stand where `to` is promised.
pub fn same_representation(to: &SqlType, from: &SqlType) -> bool {
    if from.class() == Class::Null {
        return true;
    }
    if to.class() != from.class() {
        return false;
    }
    match to.class() {
        Class::Decimal => to.decimals == from.decimals,
        Class::Real => to.kind == from.kind,
        Class::String => {
            to.has_members() == from.has_members()
                && (to.members == from.members)
                && to.collation.charset() == from.collation.charset()
        }
        Class::Int => !(from.kind == TypeKind::Bit || to.kind == TypeKind::Bit) || to.kind == from.kind,
        _ => true,
    }
}

/// Midnight of a day.
pub(super) fn midnight(date: Date) -> DateTime {
    DateTime { date, ..DateTime::default() }
}

/// A day with a time counted from its midnight; None beyond the calendar.
pub(crate) fn at_time(date: Date, time: Time) -> Option<DateTime> {
    crate::func::calendar::add_micros(midnight(date), time.micros)
}

/// A value as a point in time, by the rules of `sql_mode`; None is NULL or no date at all, which is reported, with the name
/// of the column that it was read from.
pub(crate) fn value_to_datetime(
    value: ValueRef<'_>,
    ty: &SqlType,
    column: Option<&str>,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<DateTime>> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::DateTime(v) => Ok(Some(v.shown())),
        ValueRef::Date(v) => Ok(Some(midnight(v))),
        ValueRef::Time(v) if !cx.env().vars.zero_date_time_cast => Ok(at_time(cx.today(), v)),
        other => {
            let rules = DateRules::of(cx.env().vars.sql_mode);
            value_to_datetime_by(rules, other, ty, column, cx)
        }
    }
}

/// The same for a comparison, where days that a month has not stand behind those that it has.
pub fn compared_datetime(
    value: ValueRef<'_>,
    ty: &SqlType,
    column: Option<&str>,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<DateTime> {
    let found = match value {
        ValueRef::DateTime(_) | ValueRef::Date(_) | ValueRef::Time(_) | ValueRef::Null => {
            value_to_datetime(value, ty, column, cx)
        }
        _ if column.is_none() => return datetime_comparand(value, ty, cx),
        _ => value_to_datetime_by(DateRules::COMPARED, value, ty, column, cx),
    };
    Ok(found?.unwrap_or_default())
}

/// The same by other rules, which dates must keep too.
pub(crate) fn value_to_datetime_by(
    rules: DateRules,
    value: ValueRef<'_>,
    ty: &SqlType,
    column: Option<&str>,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<DateTime>> {
    let rules = rules.rounding_by(cx.env().vars.sql_mode);
    datetime_by_rules(rules, value, ty, column, cx)
}

fn datetime_by_rules(
    rules: DateRules,
    value: ValueRef<'_>,
    ty: &SqlType,
    column: Option<&str>,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<DateTime>> {
    let is_temporal = matches!(value, ValueRef::Date(_) | ValueRef::Time(_) | ValueRef::DateTime(_));
    let column = if is_temporal { None } else { column };
    // The length of the month counts only where a text or number is read.
    let rules = DateRules { allow_invalid: rules.allow_invalid || is_temporal, ..rules };
    let zone = cx.env().vars.time_zone.clone();
    let context =
        StoreContext { mode: cx.env().vars.sql_mode, strict: false, zone: &*zone, today: cx.today() };
    let mut problem = None;
    let found = convert::to_datetime(value, ty, rules, &context, &mut |p| problem = Some(p));
    report_temporal(problem, column, cx)?;
    Ok(found)
}

/// A value as a time of day or span; None is NULL or no time at all, which is reported.
pub fn value_to_time(
    value: ValueRef<'_>,
    ty: &SqlType,
    column: Option<&str>,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<Time>> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Time(v) => Ok(Some(v)),
        ValueRef::DateTime(v) => Ok(Some(v.time())),
        ValueRef::Date(_) => Ok(Some(Time::default())),
        other => {
            let found = value_to_time_or_datetime(other, ty, DateRules::COMPARED, column, cx)?;
            Ok(found.map(|parsed| parsed.value))
        }
    }
}

/// A value as a time of day or span, with the point in time that it was written as, of a day that `days` allow.
pub(crate) fn value_to_time_or_datetime(
    value: ValueRef<'_>,
    ty: &SqlType,
    days: DateRules,
    column: Option<&str>,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<ParsedTime>> {
    let mut problem = None;
    let days = days.rounding_by(cx.env().vars.sql_mode);
    let found = convert::to_time_or_datetime(value, ty, days, &mut |p| problem = Some(p));
    report_temporal(problem, column, cx)?;
    Ok(found)
}

/// A value as what EXTRACT() takes parts of a day from; None is NULL or what is neither date nor span, which is reported.
pub(crate) fn value_to_moment(
    value: ValueRef<'_>,
    ty: &SqlType,
    is_day: bool,
    column: Option<&str>,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<Moment>> {
    let mut problem = None;
    let rules = DateRules::default().rounding_by(cx.env().vars.sql_mode);
    let found = convert::to_moment(value, ty, rules, is_day, &mut |p| problem = Some(p));
    report_temporal(problem, column, cx)?;
    Ok(found)
}

/// Reports what is no date or time; for a column with its name and row.
fn report_temporal(
    problem: Option<Problem>,
    column: Option<&str>,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<()> {
    let Some(problem) = problem else { return Ok(()) };
    let is_note = problem.is_note();
    let error = match (problem, column) {
        (
            Problem::TruncatedIncorrect { kind, value }
            | Problem::TruncatedIncorrectNote { kind, value }
            | Problem::IncorrectTemporal { kind, value, .. },
            Some(column),
        ) => {
            let row = cx.env().current_row;
            SqlError {
                message: format!("Incorrect {kind} value: '{value}' for column {column} at row {row}").into(),
                ..errors::truncated_wrong_value(kind, value)
            }
        }
        (problem, _) => problem_error(problem),
    };
    if is_note {
        cx.env_mut().note(error);
        return Ok(());
    }
    cx.warn(error)
}

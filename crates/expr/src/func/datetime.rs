//! Functions that make dates and times: the clock, arithmetic with intervals, conversions.

use keel_base::{SqlError, SqlResult, errors};
use keel_sql::ast::IntervalUnit;
use keel_value::temporal::{self, BadTemporal, DateRules, Flaw, Interval, named};
use keel_value::types::{Class, NOT_SPECIFIED};
use keel_value::{Cell, Date, DateTime, Decimal, SqlMode, SqlType, Time, TypeKind, Value, ValueRef, text};

use super::{Function, any_nullable, calendar, function, given, int, known_integer, known_text, or_null};
use crate::typing::{self, int_type, string_type};
use crate::{Env, EvalContext, Expr, Frame, Node, cast, walk};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("now", 0, 1, now_type, |ty, _, cx| {
        let now = if ty.kind == TypeKind::Timestamp {
            cx.env_mut().now_timestamp()
        } else {
            cx.env_mut().now_local()
        };
        Ok(Value::DateTime(now.cut(ty.decimals)))
    }),
    // Unlike NOW() it knows nothing of SET TIMESTAMP, and goes on within a statement.
    function!(volatile "sysdate", 0, 1, sysdate_type, |ty, _, cx| Ok(Value::DateTime(
        cx.env_mut().clock_local().cut(ty.decimals)
    ))),
    function!("utc_timestamp", 0, 1, now_type, |ty, _, cx| Ok(Value::DateTime(
        cx.env_mut().now_utc().cut(ty.decimals)
    ))),
    function!("curdate", 0, 0, date_type, |_, _, cx| Ok(Value::Date(cx.env_mut().now_local().date))),
    function!("utc_date", 0, 0, date_type, |_, _, cx| Ok(Value::Date(cx.env_mut().now_utc().date))),
    function!("curtime", 0, 1, curtime_type, |ty, _, cx| Ok(Value::Time(
        cx.env_mut().now_local().time().cut(ty.decimals)
    ))),
    function!("utc_time", 0, 1, curtime_type, |ty, _, cx| Ok(Value::Time(
        cx.env_mut().now_utc().time().cut(ty.decimals)
    ))),
    function!("unix_timestamp", 0, 1, unix_timestamp_type, unix_timestamp),
    function!("from_unixtime", 1, 2, from_unixtime_type, from_unixtime),
    function!("date", 1, 1, |_, _| Ok((SqlType::new(TypeKind::Date), true)), |_, a, cx| {
        Ok(or_null(cast::day_of(&a[0], cx)?, Value::Date))
    }),
    function!("time", 1, 1, time_type, |ty, a, cx| {
        Ok(or_null(a[0].time(cx)?, |v| Value::Time(v.cut(ty.decimals))))
    }),
    function!("timestamp", 1, 2, timestamp_type, timestamp),
    function!("last_day", 1, 1, |_, _| Ok((SqlType::new(TypeKind::Date), true)), last_day),
    function!("from_days", 1, 1, |_, _| Ok((SqlType::new(TypeKind::Date), true)), from_days),
    function!("makedate", 2, 2, |_, _| Ok((SqlType::new(TypeKind::Date), true)), makedate),
    function!("maketime", 3, 3, maketime_type, maketime),
    function!("sec_to_time", 1, 1, sec_to_time_type, sec_to_time),
    function!("addtime", 2, 2, |cx, a| addtime_type(cx, a, "addtime"), |ty, a, cx| addtime(ty, a, cx, 1)),
    function!("subtime", 2, 2, |cx, a| addtime_type(cx, a, "subtime"), |ty, a, cx| addtime(ty, a, cx, -1)),
    function!("timediff", 2, 2, timediff_type, timediff),
    function!("datediff", 2, 2, |_, _| Ok((int(8), true)), datediff),
    function!("timestampdiff", 3, 3, |_, _| Ok((SqlType::bigint().with_length(21), true)), timestampdiff),
    function!("convert_tz", 3, 3, convert_tz_type, convert_tz),
    function!("period_add", 2, 2, |_, a| Ok((int(6), any_nullable(a))), period_add),
    function!("period_diff", 2, 2, |_, a| Ok((int(6), any_nullable(a))), period_diff),
];

/// A unit as a constant argument of the functions that take one.
pub fn unit_constant(unit: IntervalUnit) -> Expr {
    Expr::constant(Value::Int(unit as i64), int_type(2, false))
}

/// The unit that an argument made by [`unit_constant`] stands for.
pub fn unit_of(arg: &Expr) -> IntervalUnit {
    let number = known_integer(arg).expect("units are bound as constants");
    *UNITS
        .iter()
        .find(|(unit, _)| *unit as i64 == number)
        .map(|(unit, _)| unit)
        .expect("every unit is listed")
}

const UNITS: &[(IntervalUnit, &str)] = &[
    (IntervalUnit::Microsecond, "microsecond"),
    (IntervalUnit::Second, "second"),
    (IntervalUnit::Minute, "minute"),
    (IntervalUnit::Hour, "hour"),
    (IntervalUnit::Day, "day"),
    (IntervalUnit::Week, "week"),
    (IntervalUnit::Month, "month"),
    (IntervalUnit::Quarter, "quarter"),
    (IntervalUnit::Year, "year"),
    (IntervalUnit::SecondMicrosecond, "second_microsecond"),
    (IntervalUnit::MinuteMicrosecond, "minute_microsecond"),
    (IntervalUnit::MinuteSecond, "minute_second"),
    (IntervalUnit::HourMicrosecond, "hour_microsecond"),
    (IntervalUnit::HourSecond, "hour_second"),
    (IntervalUnit::HourMinute, "hour_minute"),
    (IntervalUnit::DayMicrosecond, "day_microsecond"),
    (IntervalUnit::DaySecond, "day_second"),
    (IntervalUnit::DayMinute, "day_minute"),
    (IntervalUnit::DayHour, "day_hour"),
    (IntervalUnit::YearMonth, "year_month"),
];

/// The unit's name in lower case.
pub(crate) fn unit_name(unit: IntervalUnit) -> &'static str {
    UNITS.iter().find(|(u, _)| *u == unit).map_or("", |(_, name)| name)
}

fn fraction_argument(args: &[Expr], name: &str) -> SqlResult<u8> {
    match args.first() {
        None => Ok(0),
        Some(arg) => match known_integer(arg) {
            Some(digits) if (0..=6).contains(&digits) => Ok(digits as u8),
            Some(_) => Err(errors::too_big_precision(name, 6)),
            None => Err(errors::wrong_arguments(name)),
        },
    }
}

fn now_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((SqlType::temporal(TypeKind::DateTime, fraction_argument(args, "current_timestamp")?), false))
}

fn sysdate_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((SqlType::temporal(TypeKind::DateTime, fraction_argument(args, "sysdate")?), false))
}

fn curtime_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((SqlType::temporal(TypeKind::Time, fraction_argument(args, "curtime")?), false))
}

fn date_type(_: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((SqlType::new(TypeKind::Date), false))
}

/// Fraction digits that an argument brings along.
pub(crate) fn fraction_of(arg: &Expr) -> u8 {
    match arg.class() {
        // Of DOUBLE without digits any may come.
        Class::Time | Class::DateTime | Class::Decimal | Class::Real => arg.ty.decimals.min(6),
        Class::String if arg.ty.has_members() => 0,
        Class::String => match &arg.node {
            Node::Constant(Value::Bytes(text)) => fraction_of_text(text),
            _ => declared_fraction(arg),
        },
        _ => 0,
    }
}

/// Fraction digits of a text that is not known when bound. Functions such as DATE_FORMAT() and CAST declare none.
fn declared_fraction(arg: &Expr) -> u8 {
    match &arg.node {
        Node::Once(_, inner) => declared_fraction(inner),
        // NULLIF() gives its first argument.
        Node::Case { whens, otherwise: Some(value) }
            if whens.iter().all(|when| when.1.class() == Class::Null) =>
        {
            declared_fraction(value)
        }
        Node::Call(function, _) if matches!(function.name, "greatest" | "least") => 6,
        Node::Call(..) | Node::Cast(_) | Node::Aggregate(_) | Node::DateArith { .. } => {
            arg.ty.decimals.min(6)
        }
        _ => 6,
    }
}

/// Fraction digits of an argument that an interval is added to. The value of a constant text decides.
pub fn fraction_at_bind(cx: &Env, arg: &Expr) -> u8 {
    if arg.class() != Class::String || arg.ty.has_members() {
        return fraction_of(arg);
    }
    match &arg.node {
        Node::Constant(_) => fraction_of(arg),
        Node::UserVar(name, false) => match cx.user_variables.get(name).map(|v| &v.value) {
            Some(Value::Bytes(text)) => fraction_of_text(text),
            _ => 6,
        },
        _ => constant_text(cx, arg).map_or_else(|| fraction_of(arg), |text| fraction_of_text(&text)),
    }
}

/// The value of a text that depends on literals and session variables only.
fn constant_text(cx: &Env, arg: &Expr) -> Option<Box<[u8]>> {
    match constant_value(cx, arg)? {
        Value::Bytes(text) => Some(text),
        _ => None,
    }
}

/// The value of an expression that depends on literals and session variables only.
pub fn constant_value(cx: &Env, arg: &Expr) -> Option<Value> {
    let facts = walk::facts(arg);
    let mut reads_variables = false;
    walk::visit(arg, &mut |e| reads_variables |= matches!(e.node, Node::UserVar(..)));
    if !facts.is_constant() || facts.params || facts.subquery || reads_variables {
        return None;
    }
    // Warnings of this evaluation are dropped: the statement evaluates the expression again.
    let mut aside = cx.aside();
    Some(arg.eval(&mut EvalContext::new(&mut aside, Frame::EMPTY)).ok()?.into_value())
}

/// Fraction digits of a text that is a date.
fn fraction_of_text(text: &[u8]) -> u8 {
    temporal::parse_datetime(text, DateRules::default()).map_or(6, |parsed| parsed.digits)
}

/// Fraction digits that an argument brings along as a time.
pub(crate) fn time_fraction_of(arg: &Expr) -> u8 {
    match &arg.node {
        Node::Constant(Value::Bytes(text)) if arg.class() == Class::String => {
            temporal::parse_time(text, DateRules::COMPARED).map_or(6, |parsed| parsed.digits)
        }
        _ => fraction_of(arg),
    }
}

/// Fraction digits that an argument brings along as a span of time.
fn span_fraction_of(arg: &Expr) -> u8 {
    match &arg.node {
        Node::Constant(Value::Bytes(text)) if arg.class() == Class::String => {
            temporal::parse_span(text).map_or(6, |span| span.digits)
        }
        _ => fraction_of(arg),
    }
}

fn time_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((SqlType::temporal(TypeKind::Time, time_fraction_of(&args[0])), true))
}

fn timestamp_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let digits = args[1..].iter().map(span_fraction_of).fold(fraction_of(&args[0]), u8::max);
    Ok((SqlType::temporal(TypeKind::DateTime, digits), true))
}

fn timestamp<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let v = given!(args[0].datetime(cx)?);
    let Some(arg) = args.get(1) else { return Ok(Value::DateTime(v)) };
    let micros = given!(span(arg, cx)?);
    Ok(or_null(calendar::add_micros(v, micros), Value::DateTime))
}

/// Microseconds of an argument that is a span of time, longer than a TIME may be; None is NULL or what is none.
fn span<'f>(arg: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<i64>> {
    const KIND: &str = "INTERVAL DAY TO SECOND";
    if arg.class() == Class::Time {
        return Ok(arg.time(cx)?.map(|time| time.micros));
    }
    let Some(text) = arg.text(cx)? else { return Ok(None) };
    // Dates are shown with all digits that a fraction may have.
    let further = match arg.class() {
        Class::DateTime if arg.ty.decimals > 0 => 6 - usize::from(arg.ty.decimals.min(6)),
        _ => 0,
    };
    let shown = || format!("{}{}", String::from_utf8_lossy(&text), "0".repeat(further));
    let parsed = match arg.class() {
        Class::Date | Class::DateTime => Err(BadTemporal::Syntax),
        _ => temporal::parse_span(&text),
    };
    match parsed {
        Ok(span) if span.flaw.is_none() => Ok(Some(span.micros)),
        Ok(span) if span.flaw != Some(Flaw::OutOfRange) => {
            let error = errors::truncated_wrong_value(KIND, shown());
            if span.flaw == Some(Flaw::Fraction) {
                cx.env_mut().note(error)
            } else {
                cx.warn(error)?
            }
            Ok(Some(span.micros))
        }
        _ => {
            let message = format!("Incorrect {KIND} value: '{}'", shown()).into();
            cx.warn(SqlError { message, ..errors::truncated_wrong_value(KIND, "") })?;
            Ok(None)
        }
    }
}

fn unix_timestamp_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let digits = args.first().map_or(0, fraction_of);
    if digits == 0 {
        return Ok((SqlType::bigint().with_length(17), true));
    }
    Ok((SqlType::decimal(16 + u32::from(digits), digits), true))
}

/// Seconds of an argument. The fraction of a DOUBLE is cut to microseconds in binary, before it becomes a decimal.
fn seconds_of<'f>(arg: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<Decimal>> {
    if arg.class() != Class::Real {
        return arg.decimal(cx);
    }
    let Some(v) = arg.real(cx)? else { return Ok(None) };
    let size = v.abs();
    let whole = size.floor();
    let micros = ((size - whole) * 1e6) as u64;
    let fraction = Decimal::from_parts(false, u128::from(micros), 6);
    let whole = Decimal::from_f64(whole).unwrap_or_else(|bound| bound);
    let number = whole.add(&fraction).unwrap_or(whole);
    Ok(Some(if v < 0.0 { number.neg() } else { number }))
}

/// Unix times end with the year 2038 here, as in MariaDB 10.11.
const UNIX_TIME_MAX: i64 = i32::MAX as i64;

fn unix_timestamp<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let Some(arg) = args.first() else {
        return Ok(Value::Int(cx.env_mut().now_micros().div_euclid(1_000_000)));
    };
    let rules = DateRules { no_zero_date: false, ..DateRules::WHOLE };
    let local = match arg.ty.kind {
        // Groups and derived tables give a TIMESTAMP the type DATETIME, but keep its instant.
        TypeKind::Timestamp | TypeKind::DateTime => match arg.eval(cx)?.as_ref() {
            ValueRef::DateTime(local) if local.repeated || arg.ty.kind == TypeKind::Timestamp => local,
            value => given!(cast::value_to_datetime_by(rules, value, &arg.ty, arg.column_name(), cx)?),
        },
        _ => given!(arg.datetime_by(rules, cx)?),
    };
    // A zero TIMESTAMP is stored as the second 0.
    if local.is_zero() && arg.ty.kind == TypeKind::Timestamp {
        return Ok(if ty.decimals == 0 { Value::Int(0) } else { Value::Decimal(Decimal::ZERO) });
    }
    if !local.date.is_real() {
        return Ok(Value::Null);
    }
    let (utc, _) = cx.env().vars.time_zone.to_utc(local);
    let seconds = utc.to_unix();
    if !(0..=UNIX_TIME_MAX).contains(&seconds) {
        return Ok(Value::Null);
    }
    if ty.decimals == 0 {
        return Ok(Value::Int(seconds));
    }
    let micros = seconds as u128 * 1_000_000 + u128::from(utc.micros);
    Ok(Value::Decimal(Decimal::from_parts(false, micros, 6).truncate(i32::from(ty.decimals))))
}

fn from_unixtime_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    if let Some(pattern) = args.get(1) {
        let length = super::dateformat::formatted_chars(pattern);
        return Ok((string_type(length, cx.vars.connection_collation).with_decimals(0), true));
    }
    let digits = match args[0].class() {
        Class::Decimal | Class::Real => args[0].ty.decimals.min(6),
        Class::String if known_text(&args[0]).is_some_and(|text| !text.contains(&b'.')) => 0,
        Class::String => 6,
        _ => 0,
    };
    Ok((SqlType::temporal(TypeKind::DateTime, digits), true))
}

fn from_unixtime<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let v = given!(seconds_of(&args[0], cx)?);
    let micros =
        v.mul(&Decimal::from_i64(1_000_000)).map_or(i64::MAX, |m| m.truncate(0).to_i64().unwrap_or(i64::MAX));
    if micros < 0 {
        return Ok(Value::Null);
    }
    if micros > UNIX_TIME_MAX * 1_000_000 + 999_999 {
        cx.warn(errors::truncated_wrong_value("unixtime", v.truncate(0)))?;
        return Ok(Value::Null);
    }
    let utc = DateTime::from_unix(micros / 1_000_000, (micros % 1_000_000) as u32);
    let local = keel_value::convert::timestamp_to_local(utc, &*cx.env().vars.time_zone).shown();
    match args.get(1) {
        None => Ok(Value::DateTime(local.cut(ty.decimals))),
        Some(pattern) => {
            let pattern = given!(super::dateformat::pattern_of(pattern, ty, cx)?);
            let names = (cx.env().vars.time_names, ty);
            let text = super::dateformat::format(local, local.time(), &pattern, names);
            Ok(or_null(text, |text| Value::Bytes(text.into())))
        }
    }
}

fn last_day<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let date = given!(args[0].date_parts(cx)?).date;
    if date.month == 0 {
        return Ok(Value::Null);
    }
    Ok(Value::Date(Date { day: keel_value::temporal::days_in_month(date.year, date.month), ..date }))
}

fn from_days<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let number = given!(args[0].int64(cx)?);
    if number == 0 && cx.env().vars.sql_mode.has(SqlMode::NO_ZERO_DATE) {
        return Ok(Value::Null);
    }
    Ok(Value::Date(Date::from_day_number(number).unwrap_or(Date::ZERO)))
}

fn makedate<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let year = given!(args[0].int64(cx)?);
    let day = given!(args[1].int64(cx)?);
    let year = match year {
        0..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    };
    if !(0..=9999).contains(&year) || day <= 0 {
        return Ok(Value::Null);
    }
    let number = calendar::day_number(Date::new(year as u16, 1, 1)).saturating_add(day - 1);
    Ok(or_null(Date::from_day_number(number), Value::Date))
}

fn maketime_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((SqlType::temporal(TypeKind::Time, fraction_of(&args[2])), true))
}

/// The longest time: 838:59:59.999999.
pub(super) const TIME_MAX_MICROS: i64 = (838 * 3600 + 59 * 60 + 59) * 1_000_000 + 999_999;

/// A time cut to the longest, with MariaDB's warning.
fn bounded_time(
    micros: i128,
    kind: &str,
    shown: impl FnOnce() -> String,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Time> {
    let bound = i128::from(TIME_MAX_MICROS);
    if micros.abs() > bound {
        cx.warn(errors::truncated_wrong_value(kind, shown()))?;
    }
    Ok(Time { micros: micros.clamp(-bound, bound) as i64 })
}

fn maketime<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let hours = given!(args[0].int64(cx)?);
    let minutes = given!(args[1].int64(cx)?);
    let seconds = given!(args[2].decimal(cx)?);
    let micros =
        seconds.mul(&Decimal::from_i64(1_000_000)).map_or(-1, |m| m.truncate(0).to_i64().unwrap_or(-1));
    if !(0..60_000_000).contains(&micros) {
        cx.warn(errors::truncated_wrong_value("seconds", seconds))?;
        return Ok(Value::Null);
    }
    if !(0..60).contains(&minutes) {
        return Ok(Value::Null);
    }
    let total =
        (i128::from(hours.unsigned_abs()) * 3600 + i128::from(minutes) * 60) * 1_000_000 + i128::from(micros);
    let signed = if hours < 0 { -total } else { total };
    let shown = || format!("{hours}:{minutes:02}:{:02}", micros / 1_000_000);
    Ok(Value::Time(bounded_time(signed, "time", shown, cx)?.cut(ty.decimals)))
}

fn sec_to_time_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let digits = match args[0].class() {
        Class::String => 6,
        _ => fraction_of(&args[0]),
    };
    Ok((SqlType::temporal(TypeKind::Time, digits), true))
}

fn sec_to_time<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let seconds = given!(seconds_of(&args[0], cx)?);
    let micros = match seconds.mul(&Decimal::from_i64(1_000_000)).map(|m| m.truncate(0).to_i64()) {
        Ok(Ok(v)) => i128::from(v),
        _ if seconds.is_negative() => i128::from(i64::MIN),
        _ => i128::from(i64::MAX),
    };
    Ok(Value::Time(bounded_time(micros, "seconds", || seconds.to_string(), cx)?.cut(ty.decimals)))
}

fn addtime_type(cx: &Env, args: &mut [Expr], name: &str) -> SqlResult<(SqlType, bool)> {
    typing::refuse_pair(&args[0], &args[1], name)?;
    let digits = args.iter().map(time_fraction_of).max().unwrap_or(0);
    let ty = match args[0].class() {
        Class::Date | Class::DateTime => SqlType::temporal(TypeKind::DateTime, digits),
        Class::Time => SqlType::temporal(TypeKind::Time, digits),
        _ => {
            // Of texts and DOUBLE nobody knows the digits before the values.
            let is_open = |arg: &Expr| match arg.class() {
                Class::String => true,
                Class::Real => arg.ty.decimals > 6,
                _ => false,
            };
            let is_open = args.iter().any(is_open);
            let length = match digits {
                _ if is_open => 26,
                0 => 19,
                _ => 20 + u32::from(digits),
            };
            let decimals = if is_open { NOT_SPECIFIED } else { digits };
            SqlType::char(length, cx.vars.connection_collation).with_decimals(decimals)
        }
    };
    Ok((ty, true))
}

fn addtime<'f>(
    ty: &'f SqlType,
    args: &'f [Expr],
    cx: &mut EvalContext<'_, 'f>,
    sign: i64,
) -> SqlResult<Value> {
    let start = given!(args[0].time_of_real_day(cx)?);
    let moved = given!(span(&args[1], cx)?) * sign;
    if let Some(v) = start.datetime {
        let sum = given!(calendar::add_micros(v, moved));
        return Ok(as_result(ty, sum, true));
    }
    let total = i128::from(start.value.micros) + i128::from(moved);
    Ok(time_result(ty, bounded_time(total, "time", || long_time(total), cx)?))
}

/// A time that is longer than one may be, as warnings name it.
fn long_time(micros: i128) -> String {
    let (sign, size) = (if micros < 0 { "-" } else { "" }, micros.unsigned_abs());
    let (seconds, fraction) = (size / 1_000_000, size % 1_000_000);
    let clock = format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction == 0 { clock } else { format!("{clock}.{fraction:06}") }
}

/// A point in time in a call's own type: itself, its date, or text as long as it needs to be.
fn as_result(ty: &SqlType, v: DateTime, with_time: bool) -> Value {
    match ty.class() {
        Class::Date => Value::Date(v.date),
        Class::DateTime => Value::DateTime(v.cut(ty.decimals)),
        Class::Time => Value::Time(v.time()),
        _ => {
            let mut out = Vec::new();
            if with_time {
                let v = v.cut(ty.decimals);
                text::append_datetime(&mut out, v, text_digits(ty, v.micros));
            } else {
                text::append_date(&mut out, v.date);
            }
            Value::Bytes(out.into())
        }
    }
}

/// Whether a text is a date or time that a function wrote, which is that date where a number is asked for.
pub(crate) fn writes_date(expr: &Expr) -> bool {
    match &expr.node {
        Node::DateArith { .. } => true,
        Node::Call(function, _) => matches!(function.name, "addtime" | "subtime"),
        _ => false,
    }
}

/// The date or time that such a text is, and its type; the text itself, of type `ty`, where it is none.
pub(crate) fn written_date(text: &[u8], ty: &SqlType) -> (Value, SqlType) {
    if text.iter().filter(|b| **b == b'-').count() < 2 {
        return match temporal::parse_time(text, DateRules::COMPARED) {
            Ok(parsed) => (Value::Time(parsed.value), SqlType::temporal(TypeKind::Time, parsed.digits)),
            Err(_) => (Value::bytes(text), ty.clone()),
        };
    }
    match temporal::parse_datetime(text, DateRules::default()) {
        Ok(parsed) if !parsed.has_time => (Value::Date(parsed.value.date), SqlType::new(TypeKind::Date)),
        Ok(parsed) => (Value::DateTime(parsed.value), SqlType::temporal(TypeKind::DateTime, parsed.digits)),
        Err(_) => (Value::bytes(text), ty.clone()),
    }
}

/// Fraction digits of a result that is text.
fn text_digits(ty: &SqlType, micros: u32) -> u8 {
    if ty.decimals > 0 && ty.decimals <= 6 {
        ty.decimals
    } else if micros != 0 {
        6
    } else {
        0
    }
}

fn time_result(ty: &SqlType, v: Time) -> Value {
    if ty.class() == Class::Time {
        return Value::Time(v.cut(ty.decimals));
    }
    let mut out = Vec::new();
    text::append_time(&mut out, v, text_digits(ty, (v.micros % 1_000_000) as u32));
    Value::Bytes(out.into())
}

fn timediff_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let digits = args.iter().map(time_fraction_of).max().unwrap_or(0);
    Ok((SqlType::temporal(TypeKind::Time, digits), true))
}

fn timediff<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    // A date meets none but dates.
    let differs =
        |a: &Expr, b: &Expr| a.class() == Class::Date && matches!(b.class(), Class::DateTime | Class::String);
    if differs(&args[0], &args[1]) || differs(&args[1], &args[0]) {
        return Ok(Value::Null);
    }
    let a = given!(args[0].time_or_datetime(cx)?);
    let b = given!(args[1].time_or_datetime(cx)?);
    let micros = match (a.datetime, b.datetime) {
        (Some(a), Some(b)) => i128::from(calendar::to_micros(a)) - i128::from(calendar::to_micros(b)),
        (None, None) => i128::from(a.value.micros) - i128::from(b.value.micros),
        _ => return Ok(Value::Null),
    };
    Ok(Value::Time(bounded_time(micros, "time", || long_time(micros), cx)?.cut(ty.decimals)))
}

fn datediff<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    // Both are looked at: each has its warning.
    let (a, b) = (args[0].whole_date(cx)?, args[1].whole_date(cx)?);
    let a = given!(given!(a).date.day_number());
    let b = given!(given!(b).date.day_number());
    Ok(Value::Int(a - b))
}

fn timestampdiff<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let unit = unit_of(&args[0]);
    let from = given!(args[1].whole_date(cx)?);
    let to = given!(args[2].whole_date(cx)?);
    let micros = calendar::to_micros(to) - calendar::to_micros(from);
    let seconds = micros / 1_000_000;
    use IntervalUnit as U;
    Ok(Value::Int(match unit {
        U::Microsecond => micros,
        U::Second => seconds,
        U::Minute => seconds / 60,
        U::Hour => seconds / 3600,
        U::Day => seconds / 86_400,
        U::Week => seconds / 604_800,
        U::Month => whole_months(from, to),
        U::Quarter => whole_months(from, to) / 3,
        U::Year => whole_months(from, to) / 12,
        _ => return Ok(Value::Null),
    }))
}

/// Whole months from one point to another.
fn whole_months(from: DateTime, to: DateTime) -> i64 {
    if to < from {
        return -whole_months(to, from);
    }
    let count = |d: DateTime| i64::from(d.date.year) * 12 + i64::from(d.date.month);
    let months = count(to) - count(from);
    let rest = |d: DateTime| (d.date.day, d.time().micros);
    if rest(to) < rest(from) { months - 1 } else { months }
}

fn convert_tz_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((SqlType::temporal(TypeKind::DateTime, fraction_of(&args[0])), true))
}

fn convert_tz<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let from = given!(zone(&given!(args[1].text(cx)?)));
    let to = given!(zone(&given!(args[2].text(cx)?)));
    let v = given!(args[0].datetime(cx)?);
    if !v.date.is_real() {
        return Ok(Value::Null);
    }
    // What a TIMESTAMP could not hold stays as it is.
    let (utc, _) = from.to_utc(v);
    let is_held = (1..=UNIX_TIME_MAX).contains(&utc.to_unix());
    Ok(Value::DateTime(if is_held { to.to_local(utc).shown() } else { v }))
}

fn zone(name: &[u8]) -> Option<named::SharedZone> {
    Some(named::find(std::str::from_utf8(name).ok()?)?.1)
}

/// The last period that counts.
const PERIOD_MAX: i64 = 999_912;

/// A year of two digits in full.
fn full_year(year: u32) -> u32 {
    match year {
        0..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    }
}

/// Months since year 0 of a period YYMM or YYYYMM, whatever its month is; 0 where it is none.
fn period_months(period: i64) -> u32 {
    if !(1..=PERIOD_MAX).contains(&period) {
        return 0;
    }
    full_year(period as u32 / 100) * 12 + period as u32 % 100 - 1
}

fn period_add<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let period = given!(args[0].int64(cx)?);
    let months = given!(args[1].int64(cx)?);
    let total = period_months(period).wrapping_add(months as u32);
    if period == 0 || total == 0 {
        return Ok(Value::Int(0));
    }
    Ok(Value::Int(i64::from(full_year(total / 12)) * 100 + i64::from(total % 12) + 1))
}

fn period_diff<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let a = given!(args[0].int64(cx)?);
    let b = given!(args[1].int64(cx)?);
    Ok(Value::Int(i64::from(period_months(a)) - i64::from(period_months(b))))
}

/// The span of `INTERVAL amount unit`; None is NULL.
fn interval_of<'f>(
    amount: &'f Expr,
    unit: IntervalUnit,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Option<Interval>> {
    use IntervalUnit as U;
    let mut span = Interval::default();
    match unit {
        U::Second => {
            let Some(v) = amount.decimal(cx)? else { return Ok(None) };
            let micros = v
                .mul(&Decimal::from_i64(1_000_000))
                .map_or(i64::MAX, |m| m.truncate(0).to_i64().unwrap_or_else(|b| b));
            span.seconds = micros / 1_000_000;
            span.micros = micros % 1_000_000;
            return Ok(Some(span));
        }
        U::Microsecond | U::Minute | U::Hour | U::Day | U::Week | U::Month | U::Quarter | U::Year => {
            let Some(v) = amount.int64(cx)? else { return Ok(None) };
            match unit {
                U::Microsecond => span.micros = v,
                U::Minute => span.seconds = v.saturating_mul(60),
                U::Hour => span.seconds = v.saturating_mul(3600),
                U::Day => span.days = v,
                U::Week => span.days = v.saturating_mul(7),
                U::Month => span.months = v,
                U::Quarter => span.months = v.saturating_mul(3),
                _ => span.months = v.saturating_mul(12),
            }
            return Ok(Some(span));
        }
        _ => {}
    }
    let Some(text) = amount.text(cx)? else { return Ok(None) };
    let names: &[U] = match unit {
        U::YearMonth => &[U::Year, U::Month],
        U::DayHour => &[U::Day, U::Hour],
        U::DayMinute => &[U::Day, U::Hour, U::Minute],
        U::DaySecond => &[U::Day, U::Hour, U::Minute, U::Second],
        U::DayMicrosecond => &[U::Day, U::Hour, U::Minute, U::Second, U::Microsecond],
        U::HourMinute => &[U::Hour, U::Minute],
        U::HourSecond => &[U::Hour, U::Minute, U::Second],
        U::HourMicrosecond => &[U::Hour, U::Minute, U::Second, U::Microsecond],
        U::MinuteSecond => &[U::Minute, U::Second],
        U::MinuteMicrosecond => &[U::Minute, U::Second, U::Microsecond],
        _ => &[U::Second, U::Microsecond],
    };
    let (negative, numbers) = fields(&text, names.last() == Some(&U::Microsecond));
    if numbers.len() > names.len() {
        return Ok(None);
    }
    // Fewer numbers than units: the first units are missing.
    for (name, number) in names[names.len() - numbers.len()..].iter().zip(numbers) {
        match name {
            U::Year => span.months += number.saturating_mul(12),
            U::Month => span.months += number,
            U::Day => span.days += number,
            U::Hour => span.seconds = span.seconds.saturating_add(number.saturating_mul(3600)),
            U::Minute => span.seconds = span.seconds.saturating_add(number.saturating_mul(60)),
            U::Second => span.seconds = span.seconds.saturating_add(number),
            _ => span.micros += number,
        }
    }
    Ok(Some(if negative { span.neg() } else { span }))
}

/// The numbers of an interval's text, whatever stands between them; the last as microseconds if it is a fraction.
fn fields(text: &[u8], fraction_last: bool) -> (bool, Vec<i64>) {
    let text = text.trim_ascii();
    let negative = text.first() == Some(&b'-');
    let mut numbers = Vec::new();
    let groups: Vec<&[u8]> = text.split(|b| !b.is_ascii_digit()).filter(|g| !g.is_empty()).collect();
    for (index, group) in groups.iter().enumerate() {
        let mut number = 0i64;
        for digit in group.iter() {
            number = number.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
        }
        if fraction_last && index + 1 == groups.len() && group.len() < 6 {
            number = number.saturating_mul(10i64.pow(6 - group.len() as u32));
        }
        numbers.push(number);
    }
    (negative, numbers)
}

/// DATE_ADD and DATE_SUB.
pub(crate) fn add_interval<'f>(
    ty: &'f SqlType,
    date: &'f Expr,
    amount: &'f Expr,
    unit: IntervalUnit,
    subtract: bool,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Value> {
    // A time has no months; not even NULL has.
    if date.class() == Class::Time && ty.class() != Class::Time {
        cx.warn(errors::datetime_function_overflow("time"))?;
        return Ok(Value::Null);
    }
    let cell: Cell<'f> = date.eval(cx)?;
    if cell.as_ref().is_null() {
        return Ok(Value::Null);
    }
    let span = given!(interval_of(amount, unit, cx)?);
    let span = if subtract { span.neg() } else { span };
    if ty.class() == Class::Time {
        let v = given!(cast::value_to_time(cell.as_ref(), &date.ty, None, cx)?);
        let moved =
            (i128::from(span.days) * 86_400 + i128::from(span.seconds)) * 1_000_000 + i128::from(span.micros);
        let total = i128::from(v.micros) + moved;
        if span.months != 0 || total.abs() > i128::from(TIME_MAX_MICROS) {
            cx.warn(errors::datetime_function_overflow("time"))?;
            return Ok(Value::Null);
        }
        return Ok(Value::Time(Time { micros: total as i64 }.cut(ty.decimals)));
    }
    let column = date.as_column().map(|column| &*column.name);
    let v = given!(cast::value_to_datetime_by(DateRules::WHOLE, cell.as_ref(), &date.ty, column, cx)?);
    // Nothing is added to a day beyond its month's end, also where `sql_mode` lets it in.
    if !v.date.is_real() {
        let mut shown = Vec::new();
        keel_value::text::append(&mut shown, &date.ty, cell.as_ref());
        let shown = String::from_utf8_lossy(&shown).into_owned();
        cast::warn_of_date(shown, cx)?;
        return Ok(Value::Null);
    }
    let with_time = match cell.as_ref() {
        keel_value::ValueRef::Bytes(text) => {
            let has_time = temporal::parse_datetime(text, DateRules::WHOLE).is_ok_and(|read| read.has_time);
            has_time || span.has_time() || !is_day_unit(unit)
        }
        _ => v.time().micros != 0 || !is_day_unit(unit),
    };
    match v.add_interval(span) {
        Some(sum) => Ok(as_result(ty, sum, with_time)),
        None => {
            cx.warn(errors::datetime_function_overflow("datetime"))?;
            Ok(Value::Null)
        }
    }
}

fn is_day_unit(unit: IntervalUnit) -> bool {
    use IntervalUnit as U;
    matches!(unit, U::Day | U::Week | U::Month | U::Quarter | U::Year | U::YearMonth)
}

//! Functions that take dates and times apart.

use keel_base::SqlResult;
use keel_sql::ast::IntervalUnit;
use keel_value::temporal::{Moment, ParsedDateTime, ParsedSpan};
use keel_value::types::Class;
use keel_value::{DateTime, SqlType, Time, Value};

use super::datetime::{time_fraction_of, unit_name, unit_of};
use super::{Function, function, given, int, locale, or_null};
use crate::typing::{self, int_type, string_type};
use crate::{Env, EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("year", 1, 1, |_, _| Ok((int(4), true)), |_, a, cx| part(&a[0], cx, |v| i64::from(
        v.date.year
    ))),
    function!("month", 1, 1, |_, _| Ok((int(2), true)), |_, a, cx| part(&a[0], cx, |v| i64::from(
        v.date.month
    ))),
    function!("day", 1, 1, |_, _| Ok((int(2), true)), |_, a, cx| part(&a[0], cx, |v| i64::from(v.date.day))),
    function!("dayofmonth", 1, 1, |_, _| Ok((int(2), true)), |_, a, cx| part(&a[0], cx, |v| i64::from(
        v.date.day
    ))),
    function!("quarter", 1, 1, |_, _| Ok((int(1), true)), |_, a, cx| {
        part(&a[0], cx, |v| (i64::from(v.date.month) + 2) / 3)
    }),
    function!("hour", 1, 1, |_, _| Ok((int(2), true)), |_, a, cx| clock(&a[0], cx, |t| i64::from(t.hours()))),
    function!("minute", 1, 1, |_, _| Ok((int(2), true)), |_, a, cx| clock(&a[0], cx, |t| i64::from(
        t.minutes()
    ))),
    function!("second", 1, 1, |_, _| Ok((int(2), true)), |_, a, cx| clock(&a[0], cx, |t| i64::from(
        t.seconds()
    ))),
    function!("microsecond", 1, 1, |_, _| Ok((int(6), true)), |_, a, cx| {
        clock(&a[0], cx, |t| i64::from(t.fraction()))
    }),
    function!("week", 1, 2, |_, _| Ok((int(2), true)), week),
    function!("weekofyear", 1, 1, |_, _| Ok((int(2), true)), |_, a, cx| {
        let v = given!(a[0].whole_date(cx)?);
        Ok(or_null(v.date.week(3), |(_, week)| Value::Int(i64::from(week))))
    }),
    function!("yearweek", 1, 2, |_, _| Ok((int(6), true)), yearweek),
    function!("dayofweek", 1, 1, |_, _| Ok((int(1), true)), |_, a, cx| {
        let v = given!(a[0].whole_date(cx)?);
        Ok(or_null(v.date.weekday(), |d| Value::Int((i64::from(d) + 1) % 7 + 1)))
    }),
    function!("weekday", 1, 1, |_, _| Ok((int(1), true)), |_, a, cx| {
        let v = given!(a[0].whole_date(cx)?);
        Ok(or_null(v.date.weekday(), |d| Value::Int(i64::from(d))))
    }),
    function!("dayofyear", 1, 1, |_, _| Ok((int(3), true)), |_, a, cx| {
        let v = given!(a[0].whole_date(cx)?);
        Ok(or_null(v.date.day_of_year(), |d| Value::Int(i64::from(d))))
    }),
    function!("dayname", 1, 1, |cx, _| name_type(cx, cx.vars.time_names.day_chars), |ty, a, cx| {
        let v = given!(a[0].whole_date(cx)?);
        let names = &cx.env().vars.time_names.days;
        Ok(or_null(v.date.weekday(), |d| locale::named(names[usize::from(d)], ty)))
    }),
    function!("monthname", 1, 1, |cx, _| name_type(cx, cx.vars.time_names.month_chars), |ty, a, cx| {
        let month = given!(a[0].date_parts(cx)?).date.month;
        let names = &cx.env().vars.time_names.months;
        Ok(or_null(names.get(usize::from(month).wrapping_sub(1)), |name| locale::named(name, ty)))
    }),
    function!("to_days", 1, 1, |_, _| Ok((int(6), true)), |_, a, cx| {
        let v = given!(a[0].whole_date(cx)?);
        Ok(or_null(v.date.day_number(), Value::Int))
    }),
    function!("to_seconds", 1, 1, |_, _| Ok((SqlType::bigint().with_length(12), true)), |_, a, cx| {
        let v = given!(a[0].whole_date(cx)?);
        let days = given!(v.date.day_number());
        Ok(Value::Int(days * 86_400 + v.time().micros / 1_000_000))
    }),
    function!("time_to_sec", 1, 1, time_to_sec_type, time_to_sec),
    function!("extract", 2, 2, extract_type, extract),
];

fn part<'f>(arg: &'f Expr, cx: &mut EvalContext<'_, 'f>, take: fn(DateTime) -> i64) -> SqlResult<Value> {
    Ok(or_null(arg.date_parts(cx)?, |v| Value::Int(take(v))))
}

fn clock<'f>(arg: &'f Expr, cx: &mut EvalContext<'_, 'f>, take: fn(Time) -> i64) -> SqlResult<Value> {
    Ok(or_null(arg.time(cx)?, |v| Value::Int(take(v))))
}

fn name_type(cx: &Env, chars: usize) -> SqlResult<(SqlType, bool)> {
    Ok((string_type(chars as u64, cx.vars.connection_collation).with_decimals(0), true))
}

/// The mode of WEEK and YEARWEEK; NULL is 0.
fn mode_argument<'f>(args: &'f [Expr], default: u8, cx: &mut EvalContext<'_, 'f>) -> SqlResult<u8> {
    match args.get(1) {
        None => Ok(default),
        Some(arg) => Ok((arg.int64(cx)?.unwrap_or(0) & 7) as u8),
    }
}

fn week<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let v = given!(args[0].whole_date(cx)?);
    let default = cx.env().vars.default_week_format;
    let mode = mode_argument(args, default, cx)?;
    Ok(or_null(v.date.week(mode), |(_, week)| Value::Int(i64::from(week))))
}

fn yearweek<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let v = given!(args[0].whole_date(cx)?);
    let mode = mode_argument(args, 0, cx)?;
    Ok(or_null(v.date.week(mode | 2), |(year, week)| Value::Int(i64::from(year) * 100 + i64::from(week))))
}

fn time_to_sec_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let digits = time_fraction_of(&args[0]);
    if digits == 0 {
        return Ok((SqlType::bigint().with_length(17), true));
    }
    Ok((SqlType::decimal(16 + u32::from(digits), digits), true))
}

fn time_to_sec<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let v = given!(args[0].time(cx)?);
    if ty.decimals == 0 {
        return Ok(Value::Int(v.micros / 1_000_000));
    }
    let micros = keel_value::Decimal::from_parts(v.micros < 0, u128::from(v.micros.unsigned_abs()), 6);
    Ok(Value::Decimal(micros.truncate(i32::from(ty.decimals))))
}

fn extract_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    typing::refuse_no_date(&args[1], &format!("extract({})", unit_name(unit_of(&args[0]))))?;
    use IntervalUnit as U;
    // What is no date may be a span of ten thousand years.
    let days = if matches!(args[1].class(), Class::Date | Class::DateTime | Class::Time) { 2 } else { 7 };
    let length = match unit_of(&args[0]) {
        U::Year => 4,
        U::YearMonth => 6,
        U::Quarter => 1,
        U::Month | U::Week => 2,
        U::Day => days + 1,
        U::Hour | U::Minute | U::Second => 3,
        U::Microsecond => 7,
        U::HourMinute | U::MinuteSecond => 5,
        U::DayHour => days + 3,
        U::DayMinute => days + 5,
        U::HourSecond => 7,
        U::DaySecond => days + 7,
        U::DayMicrosecond => days + 13,
        U::HourMicrosecond => 13,
        U::MinuteMicrosecond => 11,
        U::SecondMicrosecond => 9,
    };
    // One of them is the sign.
    Ok((int_type(length - 1, false).with_length(length), true))
}

fn extract<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    use IntervalUnit as U;
    let unit = unit_of(&args[0]);
    let arg = &args[1];
    if matches!(unit, U::Year | U::YearMonth | U::Quarter | U::Month | U::Week) {
        if arg.class() == Class::Time {
            return Ok(arg.time(cx)?.map_or(Value::Null, |_| Value::Int(0)));
        }
        let v = given!(arg.date_parts(cx)?);
        let date = v.date;
        return Ok(Value::Int(match unit {
            U::Year => i64::from(date.year),
            U::YearMonth => i64::from(date.year) * 100 + i64::from(date.month),
            U::Quarter => (i64::from(date.month) + 2) / 3,
            U::Month => i64::from(date.month),
            _ => i64::from(given!(date.week(cx.env().vars.default_week_format)).1),
        }));
    }
    let is_day = matches!(unit, U::Day | U::DayHour | U::DayMinute | U::DaySecond | U::DayMicrosecond);
    // Days of a span are those that its hours make.
    let (day, time) = match given!(moment(arg, is_day, cx)?) {
        Moment::Date(date) => (i64::from(date.value.date.day), date.value.time()),
        Moment::Span(span) => {
            let time = Time { micros: span.micros };
            (i64::from(time.hours() / 24), time)
        }
    };
    let (hours, minutes, seconds, micros) = (
        i64::from(time.hours() % 24),
        i64::from(time.minutes()),
        i64::from(time.seconds()),
        i64::from(time.fraction()),
    );
    let value = match unit {
        U::Day => day,
        U::Hour => hours,
        U::Minute => minutes,
        U::Second => seconds,
        U::Microsecond => micros,
        U::DayHour => day * 100 + hours,
        U::DayMinute => day * 10_000 + hours * 100 + minutes,
        U::DaySecond => day * 1_000_000 + hours * 10_000 + minutes * 100 + seconds,
        U::DayMicrosecond => {
            (day * 1_000_000 + hours * 10_000 + minutes * 100 + seconds) * 1_000_000 + micros
        }
        U::HourMinute => hours * 100 + minutes,
        U::HourSecond => hours * 10_000 + minutes * 100 + seconds,
        U::HourMicrosecond => (hours * 10_000 + minutes * 100 + seconds) * 1_000_000 + micros,
        U::MinuteSecond => minutes * 100 + seconds,
        U::MinuteMicrosecond => (minutes * 100 + seconds) * 1_000_000 + micros,
        _ => seconds * 1_000_000 + micros,
    };
    Ok(Value::Int(if time.micros < 0 { -value } else { value }))
}

/// What parts of a day are taken from; None is NULL or what is neither date nor span.
fn moment<'f>(arg: &'f Expr, is_day: bool, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<Moment>> {
    match arg.class() {
        Class::Date | Class::DateTime => Ok(arg
            .date_parts(cx)?
            .map(|value| Moment::Date(ParsedDateTime { value, ..ParsedDateTime::ZERO }))),
        Class::Time => Ok(arg
            .time(cx)?
            .map(|time| Moment::Span(ParsedSpan { micros: time.micros, digits: 6, flaw: None }))),
        _ => arg.moment(is_day, cx),
    }
}

//! Functions of numbers.

use std::sync::LazyLock;

use keel_base::{SqlResult, errors};
use keel_context::locale::Locale;
use keel_value::temporal::Interval;
use keel_value::types::{Class, Format, NOT_FIXED};
use keel_value::{DateTime, Decimal, SqlMode, SqlType, Time, TypeKind, Value, ValueRef};

use super::away::{Pace, long};
use super::datetime::{fraction_of, time_fraction_of};
use super::locale;
use super::{Function, any_nullable, as_64_bits, cell_of, function, given, int, known_integer};
use crate::frame::Kept;
use crate::typing::{self, decimal_type, int_type, real_type};
use crate::{Comparison, Env, EvalContext, Expr, Node, arith, cast, compare};

const ANY: usize = usize::MAX;

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("abs", 1, 1, abs_type, abs),
    function!("ceil", 1, 1, whole_type, |ty, a, cx| whole(ty, a, cx, true)),
    function!("ceiling", 1, 1, whole_type, |ty, a, cx| whole(ty, a, cx, true)),
    function!("floor", 1, 1, whole_type, |ty, a, cx| whole(ty, a, cx, false)),
    function!("round", 1, 2, round_type, |ty, a, cx| round(ty, a, cx, true)),
    function!("truncate", 2, 2, truncate_type, |ty, a, cx| round(ty, a, cx, false)),
    function!("sign", 1, 1, |_, a| Ok((int(2), any_nullable(a))), sign),
    function!("pow", 2, 2, real_result, pow),
    function!("power", 2, 2, real_result, pow),
    function!("sqrt", 1, 1, real_result, |_, a, cx| partial(&a[0], cx, |v| (v >= 0.0).then(|| v.sqrt()))),
    function!("exp", 1, 1, real_result, exp),
    function!("ln", 1, 1, real_result, |_, a, cx| logarithm(&a[0], cx, f64::ln)),
    function!("log2", 1, 1, real_result, |_, a, cx| {
        logarithm(&a[0], cx, |v| v.ln() / std::f64::consts::LN_2)
    }),
    function!("log10", 1, 1, real_result, |_, a, cx| logarithm(&a[0], cx, f64::log10)),
    function!("log", 1, 2, real_result, log),
    function!("sin", 1, 1, real_result, |_, a, cx| partial(&a[0], cx, |v| Some(v.sin()))),
    function!("cos", 1, 1, real_result, |_, a, cx| partial(&a[0], cx, |v| Some(v.cos()))),
    function!("tan", 1, 1, real_result, |_, a, cx| partial(&a[0], cx, |v| Some(v.tan()))),
    function!("asin", 1, 1, real_result, |_, a, cx| partial(&a[0], cx, |v| (v.abs() <= 1.0)
        .then(|| v.asin()))),
    function!("acos", 1, 1, real_result, |_, a, cx| partial(&a[0], cx, |v| (v.abs() <= 1.0)
        .then(|| v.acos()))),
    function!("atan", 1, 2, real_result, atan),
    function!("atan2", 1, 2, real_result, atan),
    function!("cot", 1, 1, real_result, cot),
    function!("degrees", 1, 1, angle_type, |_, a, cx| finite(
        given!(a[0].real(cx)?).to_degrees(),
        "degrees",
        a
    )),
    function!("radians", 1, 1, angle_type, |_, a, cx| partial(&a[0], cx, |v| Some(v.to_radians()))),
    function!(
        "pi",
        0,
        0,
        |_, _| Ok((SqlType::double().with_length(8).with_decimals(6), false)),
        |_, _, _| { Ok(Value::Double(std::f64::consts::PI)) }
    ),
    function!(volatile "rand", 0, 1, |_, _| Ok((real_type(NOT_FIXED), false)), rand),
    function!("greatest", 2, ANY, |cx, a| extreme_type(cx, a, "greatest"), |ty, a, cx| extreme(
        ty,
        a,
        cx,
        std::cmp::Ordering::Greater
    )),
    function!("least", 2, ANY, |cx, a| extreme_type(cx, a, "least"), |ty, a, cx| extreme(
        ty,
        a,
        cx,
        std::cmp::Ordering::Less
    )),
    function!("interval", 2, ANY, |_, _| Ok((int(2), false)), interval),
    function!(
        "crc32",
        1,
        2,
        |_, a| Ok((SqlType::int().with_unsigned().with_length(10), any_nullable(a))),
        crc32
    ),
    function!(
        "crc32c",
        1,
        2,
        |_, a| Ok((SqlType::int().with_unsigned().with_length(10), any_nullable(a))),
        crc32c
    ),
    function!(text "format", 2, 3, format_type, format),
];

/// How an argument counts as a number: dates and text without digits behind the point are what their class says.
fn number_class(arg: &Expr) -> Class {
    match arg.class() {
        Class::String if typing::is_hex(arg) => Class::Int,
        Class::String | Class::Null => Class::Real,
        Class::Date => Class::Int,
        Class::Time | Class::DateTime if arg.ty.decimals == 0 => Class::Int,
        Class::Time | Class::DateTime => Class::Decimal,
        other => other,
    }
}

/// The type of an integer argument that keeps its digits, or has fewer: that of a column, however it is shown.
fn whole_number_type(arg: &Expr) -> SqlType {
    let of_bits = |bits: u32| int_type(bits * 30_103 / 100_000 + 1, true);
    match arg.ty.kind {
        TypeKind::Bit => of_bits(arg.ty.length),
        TypeKind::VarBinary => of_bits(arg.ty.length.saturating_mul(8).min(64)),
        TypeKind::Date => int_type(DATE_DIGITS, true),
        _ if arg.ty.is_integer() => typing::operand_type(arg).with_format(Format::Plain),
        _ => int_type(typing::display_length(arg).max(1), arg.ty.unsigned),
    }
}

/// Digits of a date as a number.
const DATE_DIGITS: u32 = 8;

/// The type of a time that is rounded to so many digits of its seconds; None for what is no time.
fn rounded_time_type(args: &[Expr], digits: Option<i64>) -> Option<(SqlType, bool)> {
    let arg = &args[0];
    let digits = digits.map_or(arg.ty.decimals, |digits| digits.clamp(0, 6) as u8);
    match arg.class() {
        Class::Time => Some((SqlType::temporal(TypeKind::Time, digits), any_nullable(args))),
        Class::DateTime => Some((SqlType::temporal(TypeKind::DateTime, digits), true)),
        _ => None,
    }
}

/// Which way ROUND() and its like go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    Nearest,
    Cut,
    Up,
    Down,
}

/// A time with fewer digits of its seconds, within the bounds of times.
fn round_time<'f>(
    arg: &'f Expr,
    digits: u8,
    how: Rounding,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Value> {
    let nearest = SqlMode::TIME_ROUND_FRACTIONAL;
    // Just less than the unit that is kept makes of any rest a whole one.
    let almost = 10i64.pow(6 - u32::from(digits)) - 1;
    if arg.class() == Class::Time {
        let v = given!(arg.time(cx)?);
        let outwards = if v.micros < 0 { Rounding::Down } else { Rounding::Up };
        return Ok(Value::Time(match how {
            Rounding::Nearest => v.fit(digits, nearest),
            _ if how == outwards => {
                let most = Time::MAX.micros;
                let micros = v.micros + v.micros.signum() * almost;
                Time { micros: micros.clamp(-most, most) }.cut(digits)
            }
            _ => v.cut(digits),
        }));
    }
    let v = given!(arg.datetime(cx)?);
    Ok(Value::DateTime(match how {
        Rounding::Nearest => v.fit(digits, nearest),
        Rounding::Up => {
            let span = Interval { micros: almost, ..Interval::default() };
            v.add_interval(span).unwrap_or(v).cut(digits)
        }
        Rounding::Cut | Rounding::Down => v.cut(digits),
    }))
}

fn real_result(_: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((real_type(NOT_FIXED), true))
}

fn angle_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((real_type(NOT_FIXED), any_nullable(args)))
}

fn abs_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let arg = &args[0];
    let ty = match number_class(arg) {
        Class::Int => int_type(typing::display_length(arg).max(1), typing::is_unsigned(&arg.ty)),
        Class::Decimal => decimal_type(typing::precision(arg), typing::scale(arg), arg.ty.unsigned),
        _ => match arg.class() {
            Class::Real => real_type(arg.ty.decimals),
            Class::Null => real_type(0),
            _ => real_type(NOT_FIXED),
        },
    };
    Ok((ty, any_nullable(args)))
}

fn abs<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    Ok(match ty.class() {
        Class::Int => {
            let v = given!(args[0].integer(cx)?).abs();
            match (i64::try_from(v), ty.unsigned) {
                (Ok(v), _) => Value::Int(v),
                (Err(_), true) => Value::UInt(v as u64),
                (Err(_), false) => {
                    let text = format!("abs({})", crate::print::text_of_execution(&args[0], cx.frame.params));
                    return Err(errors::data_out_of_range("BIGINT", text));
                }
            }
        }
        Class::Decimal => Value::Decimal(given!(args[0].decimal(cx)?).abs()),
        _ => Value::Double(given!(args[0].real(cx)?).abs()),
    })
}

fn whole_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    if let Some(found) = rounded_time_type(args, Some(0)) {
        return Ok(found);
    }
    let arg = &args[0];
    let ty = match number_class(arg) {
        Class::Int => whole_number_type(arg),
        Class::Decimal => {
            let digits = typing::whole_digits(arg) + 1;
            if digits < 19 {
                int_type(digits + 1, arg.ty.unsigned)
            } else {
                decimal_type(digits, 0, arg.ty.unsigned)
            }
        }
        _ => real_type(0),
    };
    Ok((ty, any_nullable(args)))
}

fn whole<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>, up: bool) -> SqlResult<Value> {
    if matches!(args[0].class(), Class::Time | Class::DateTime) {
        return round_time(&args[0], 0, if up { Rounding::Up } else { Rounding::Down }, cx);
    }
    Ok(match number_class(&args[0]) {
        Class::Int => same_integer(&args[0], cx)?,
        Class::Decimal => {
            let v = given!(args[0].decimal(cx)?);
            arith::whole(if up { v.ceil() } else { v.floor() }, ty.class() == Class::Int)
        }
        _ => {
            let v = given!(args[0].real(cx)?);
            Value::Double(if up { v.ceil() } else { v.floor() })
        }
    })
}

/// An integer argument as it is; a date as its number.
fn same_integer<'f>(arg: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    if arg.class() == Class::Int {
        return Ok(arg.eval(cx)?.into_value());
    }
    let v = given!(arg.integer(cx)?);
    Ok(i64::try_from(v).map_or(Value::UInt(v as u64), Value::Int))
}

fn round_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    rounding_type(args, true)
}

fn truncate_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    rounding_type(args, false)
}

fn rounding_type(args: &[Expr], rounds: bool) -> SqlResult<(SqlType, bool)> {
    let arg = &args[0];
    let digits = match args.get(1) {
        Some(digits) => known_integer(digits),
        None => Some(0),
    };
    if let Some(found) = rounded_time_type(args, digits) {
        return Ok(found);
    }
    let ty = match number_class(arg) {
        Class::Int => {
            let whole = whole_number_type(arg);
            let is_null = args.get(1).is_some_and(|digits| digits.class() == Class::Null);
            let carries = rounds && !is_null && digits.is_none_or(|d| d < 0) && arg.ty.kind != TypeKind::Bit;
            match arg.ty.kind {
                _ if !carries => whole,
                TypeKind::BigInt => decimal_type(whole.length + u32::from(whole.unsigned), 0, whole.unsigned),
                _ => int_type(whole.length + 1, whole.unsigned),
            }
        }
        Class::Decimal => {
            let scale = typing::scale(arg);
            let wanted = digits.map_or(scale, |d| d.clamp(0, 38) as u32);
            let whole = typing::whole_digits(arg);
            let grows = u32::from(rounds && wanted < scale);
            let kept = wanted.min(if rounds { 38 } else { scale.max(wanted) });
            decimal_type(whole + grows + kept, kept, arg.ty.unsigned)
        }
        _ => match digits {
            Some(d) => real_type(d.clamp(0, 31) as u8),
            None => real_type(NOT_FIXED),
        },
    };
    Ok((ty, any_nullable(args)))
}

/// Digits that ROUND() and TRUNCATE() look at: beyond any exponent of a DOUBLE.
const DIGITS_MAX: i64 = 400;

fn round<'f>(
    ty: &'f SqlType,
    args: &'f [Expr],
    cx: &mut EvalContext<'_, 'f>,
    rounds: bool,
) -> SqlResult<Value> {
    let digits = match args.get(1) {
        Some(arg) => given!(arg.int64(cx)?).clamp(-DIGITS_MAX, DIGITS_MAX) as i32,
        None => 0,
    };
    if matches!(args[0].class(), Class::Time | Class::DateTime) {
        let how = if rounds { Rounding::Nearest } else { Rounding::Cut };
        return round_time(&args[0], digits.clamp(0, 6) as u8, how, cx);
    }
    Ok(match number_class(&args[0]) {
        Class::Int if digits >= 0 && ty.class() == Class::Int => same_integer(&args[0], cx)?,
        Class::Int => {
            let v = given!(args[0].integer(cx)?);
            if digits >= 0 {
                return Ok(Value::Decimal(decimal_of(v)));
            }
            let unit = 10i128.checked_pow(digits.unsigned_abs()).unwrap_or(i128::MAX);
            let rest = v % unit;
            let mut result = v - rest;
            if rounds && rest.abs() >= unit - rest.abs() {
                result += unit * rest.signum();
            }
            if ty.class() == Class::Decimal {
                Value::Decimal(decimal_of(result))
            } else if ty.unsigned {
                Value::UInt(
                    u64::try_from(result)
                        .map_err(|_| errors::data_out_of_range("BIGINT UNSIGNED", "round"))?,
                )
            } else {
                Value::Int(i64::try_from(result).map_err(|_| errors::data_out_of_range("BIGINT", "round"))?)
            }
        }
        Class::Decimal => {
            let v = given!(args[0].decimal(cx)?);
            let digits = digits.clamp(-80, 38);
            let cut = if rounds { v.round(digits) } else { v.truncate(digits) };
            Value::Decimal(cut.round(i32::from(ty.decimals)))
        }
        _ => Value::Double(round_real(given!(args[0].real(cx)?), digits, rounds)),
    })
}

fn decimal_of(v: i128) -> Decimal {
    Decimal::from_parts(v < 0, v.unsigned_abs(), 0)
}

/// The double that is nearest to a power of ten; infinity beyond the largest.
fn power_of_ten(exponent: usize) -> f64 {
    static POWERS: LazyLock<Vec<f64>> = LazyLock::new(|| {
        (0..=f64::MAX_10_EXP).map(|n| format!("1e{n}").parse().expect("a number")).collect()
    });
    POWERS.get(exponent).copied().unwrap_or(f64::INFINITY)
}

/// A double at so many digits after the point, as MariaDB computes it: scaled, ties to even.
fn round_real(v: f64, digits: i32, rounds: bool) -> f64 {
    let unit = power_of_ten(digits.unsigned_abs() as usize);
    let scaled = if digits < 0 { v / unit } else { v * unit };
    if !scaled.is_finite() || !unit.is_finite() {
        return if digits < 0 { 0.0 } else { v };
    }
    let cut = if rounds { scaled.round_ties_even() } else { scaled.trunc() };
    let result = if digits < 0 { cut * unit } else { cut / unit };
    // MariaDB prints infinity as 0.
    if result.is_finite() { result } else { 0.0 }
}

fn sign<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let v = given!(args[0].real(cx)?);
    Ok(Value::Int(i64::from(v > 0.0) - i64::from(v < 0.0)))
}

/// A function that has no value for some arguments.
fn partial<'f>(
    arg: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
    compute: impl FnOnce(f64) -> Option<f64>,
) -> SqlResult<Value> {
    let v = given!(arg.real(cx)?);
    Ok(compute(v).map_or(Value::Null, Value::Double))
}

fn finite(v: f64, name: &str, args: &[Expr]) -> SqlResult<Value> {
    if v.is_finite() {
        return Ok(Value::Double(v));
    }
    let shown: Vec<String> = args.iter().map(crate::print::text).collect();
    Err(errors::data_out_of_range("DOUBLE", format!("{name}({})", shown.join(","))))
}

fn pow<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let base = given!(args[0].real(cx)?);
    let exponent = given!(args[1].real(cx)?);
    finite(base.powf(exponent), "pow", args)
}

fn exp<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    finite(given!(args[0].real(cx)?).exp(), "exp", args)
}

fn cot<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    finite(given!(args[0].real(cx)?).tan().recip(), "cot", args)
}

fn logarithm<'f>(arg: &'f Expr, cx: &mut EvalContext<'_, 'f>, compute: fn(f64) -> f64) -> SqlResult<Value> {
    let v = given!(arg.real(cx)?);
    if v <= 0.0 {
        arith::division_by_zero(cx)?;
        return Ok(Value::Null);
    }
    Ok(Value::Double(compute(v)))
}

fn log<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let Some(of) = args.get(1) else { return logarithm(&args[0], cx, f64::ln) };
    let base = given!(args[0].real(cx)?);
    let v = given!(of.real(cx)?);
    if base <= 0.0 || base == 1.0 || v <= 0.0 {
        arith::division_by_zero(cx)?;
        return Ok(Value::Null);
    }
    Ok(Value::Double(v.ln() / base.ln()))
}

fn atan<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let y = given!(args[0].real(cx)?);
    match args.get(1) {
        None => Ok(Value::Double(y.atan())),
        Some(x) => Ok(Value::Double(y.atan2(given!(x.real(cx)?)))),
    }
}

/// The modulus of MariaDB's pair of generators.
const RAND_MODULUS: u64 = 0x3FFF_FFFF;

/// The next number of a pair of seeds, in 0..1.
fn next_random(seeds: &mut (u32, u32)) -> f64 {
    let first = (u64::from(seeds.0) * 3 + u64::from(seeds.1)) % RAND_MODULUS;
    let second = (first + u64::from(seeds.1) + 33) % RAND_MODULUS;
    *seeds = (first as u32, second as u32);
    first as f64 / RAND_MODULUS as f64
}

fn rand<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let Some(seed) = args.first() else {
        let mut seeds = cx.env().rand;
        let value = next_random(&mut seeds);
        cx.env_mut().rand = seeds;
        return Ok(Value::Double(value));
    };
    // A seed that is the same for all rows begins a sequence, any other one with each row.
    if let Some(kept) = cell_of(args, cx) {
        if kept.get().is_none() {
            let _ = kept.set(Kept::Seeds(seeds_of(seed.int64(cx)?.unwrap_or(0)).into()));
        }
        if let Some(Kept::Seeds(state)) = kept.get() {
            let mut seeds = state.get();
            let value = next_random(&mut seeds);
            state.set(seeds);
            return Ok(Value::Double(value));
        }
    }
    Ok(Value::Double(next_random(&mut seeds_of(seed.int64(cx)?.unwrap_or(0)))))
}

fn seeds_of(seed: i64) -> (u32, u32) {
    let seed = seed as u32;
    let first = seed.wrapping_mul(0x10001).wrapping_add(55_555_555);
    let second = seed.wrapping_mul(0x1000_0001);
    ((u64::from(first) % RAND_MODULUS) as u32, (u64::from(second) % RAND_MODULUS) as u32)
}

fn extreme_type(cx: &Env, args: &mut [Expr], name: &str) -> SqlResult<(SqlType, bool)> {
    let nullable = any_nullable(args);
    if let Some(ty) = temporal_extreme(args) {
        return Ok((ty, true));
    }
    let numbers = args.iter().any(|a| matches!(a.class(), Class::Int | Class::Decimal | Class::Real));
    let text = args.iter().any(|a| a.class() == Class::String);
    if numbers && text {
        return Ok((real_type(NOT_FIXED), nullable));
    }
    if args.iter().any(|a| a.class() == Class::Null) && numbers {
        return Ok((real_type(0), true));
    }
    if text && args.iter().all(|a| matches!(a.class(), Class::String | Class::Null)) {
        let count = args.len();
        super::unify(cx, args, 0..count, name)?;
    }
    let all: Vec<&Expr> = args.iter().collect();
    let (ty, _) = typing::aggregate(&all, cx.vars.connection_collation, name)?;
    if ty.class() == Class::Real {
        let all_float = args.iter().all(|a| a.ty.kind == TypeKind::Float);
        let kind = if all_float { TypeKind::Float } else { TypeKind::Double };
        return Ok((SqlType { kind, ..real_type(ty.decimals) }, nullable));
    }
    Ok((ty, nullable))
}

/// The type of GREATEST and LEAST over dates or times and something else, which is taken for dates or times as well.
fn temporal_extreme(args: &[Expr]) -> Option<SqlType> {
    let dates = args.iter().filter(|a| a.ty.is_temporal());
    if dates.clone().count() == args.len() || args.iter().any(|a| matches!(a.class(), Class::Fixed(_))) {
        return None;
    }
    let class = dates.map(Expr::class).reduce(|a, b| if a == b { a } else { Class::DateTime })?;
    let digits = |a: &Expr| if class == Class::Time { time_fraction_of(a) } else { fraction_of(a) };
    let digits = args.iter().map(digits).max().unwrap_or(0);
    let is_loose = args.iter().any(|a| matches!(a.class(), Class::String | Class::Real));
    let (kind, widest) = match class {
        Class::Date => return Some(SqlType::new(TypeKind::Date)),
        Class::Time => (TypeKind::Time, 17),
        _ => (TypeKind::DateTime, 26),
    };
    let ty = SqlType::temporal(kind, digits);
    let point = u32::from(digits > 0);
    Some(if is_loose { ty.with_length(widest - point - u32::from(digits)) } else { ty })
}

/// One of GREATEST and LEAST over dates or times.
fn temporal_extreme_of<'f>(
    ty: &'f SqlType,
    args: &'f [Expr],
    cx: &mut EvalContext<'_, 'f>,
    wanted: std::cmp::Ordering,
) -> SqlResult<Value> {
    if ty.class() == Class::Time {
        let mut best: Option<Time> = None;
        for arg in args {
            let time = given!(arg.time(cx)?);
            best = Some(best.filter(|best| time.cmp(best) != wanted).unwrap_or(time));
        }
        return Ok(best.map_or(Value::Null, |time| Value::Time(time.cut(ty.decimals))));
    }
    let mut best: Option<DateTime> = None;
    for arg in args {
        let cell = arg.eval(cx)?;
        if cell.as_ref().is_null() {
            return Ok(Value::Null);
        }
        // TIMESTAMP values stay the instants that they are.
        if ty.kind == TypeKind::Timestamp
            && let ValueRef::DateTime(at) = cell.as_ref()
        {
            best = Some(best.filter(|best| at.cmp(best) != wanted).unwrap_or(at));
            continue;
        }
        let at = cast::datetime_comparand(cell.as_ref(), &arg.ty, cx)?;
        best = Some(best.filter(|best| at.cmp(best) != wanted).unwrap_or(at));
    }
    let best = best.unwrap_or_default();
    if !cast::is_possible(best.date, cx)? {
        return Ok(Value::Null);
    }
    Ok(if ty.class() == Class::Date {
        Value::Date(best.date)
    } else {
        Value::DateTime(best.cut(ty.decimals))
    })
}

/// Whether an expression is GREATEST or LEAST of texts. As a number it is that of the texts' numbers.
pub fn is_extreme_of_texts(expr: &Expr) -> bool {
    let named = |function: &Function| matches!(function.name, "greatest" | "least");
    matches!(&expr.node, Node::Call(function, _) if named(function)) && expr.class() == Class::String
}

/// The number that GREATEST or LEAST of texts is, each of them read by `number`.
pub(crate) fn extreme_of_numbers<'f, T: PartialOrd>(
    expr: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
    number: fn(&'f Expr, &mut EvalContext<'_, 'f>) -> SqlResult<Option<T>>,
) -> SqlResult<Option<T>> {
    let Node::Call(function, args) = &expr.node else { return Ok(None) };
    let mut best: Option<T> = None;
    for arg in args.iter() {
        let Some(found) = number(arg, cx)? else { return Ok(None) };
        let is_better = |best: &T| if function.name == "least" { found < *best } else { found > *best };
        if best.as_ref().is_none_or(is_better) {
            best = Some(found);
        }
    }
    Ok(best)
}

fn extreme<'f>(
    ty: &'f SqlType,
    args: &'f [Expr],
    cx: &mut EvalContext<'_, 'f>,
    wanted: std::cmp::Ordering,
) -> SqlResult<Value> {
    let by = match ty.class() {
        Class::Date | Class::DateTime | Class::Time => return temporal_extreme_of(ty, args, cx, wanted),
        Class::Int => Comparison::Int,
        Class::Decimal => Comparison::Decimal,
        Class::Real => Comparison::Real,
        Class::Fixed(kind) => Comparison::Fixed(kind),
        Class::String | Class::Null => Comparison::Text(ty.collation),
    };
    let mut best: Option<Value> = None;
    for arg in args {
        let cell =
            if cast::same_representation(ty, &arg.ty) { arg.eval(cx)? } else { cast::convert(ty, arg, cx)? };
        if cell.as_ref().is_null() {
            return Ok(Value::Null);
        }
        let better = match &best {
            None => true,
            Some(value) => compare::values(by, cell.as_ref(), ty, value.as_ref(), ty, cx)? == Some(wanted),
        };
        if better {
            best = Some(cell.into_value());
        }
    }
    Ok(best.unwrap_or(Value::Null))
}

/// CRC32(text), or CRC32(of what came before, text).
fn crc32<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let before = match args {
        [before, _] => as_64_bits(given!(before.integer(cx)?)) as u32,
        _ => 0,
    };
    let text = given!(args[args.len() - 1].text(cx)?);
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    long(Pace::Copy, text.len(), || hasher.update(&text));
    Ok(Value::UInt(u64::from(hasher.finalize())))
}

/// The same by Castagnoli's polynomial.
fn crc32c<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let before = match args {
        [before, _] => as_64_bits(given!(before.integer(cx)?)) as u32,
        _ => 0,
    };
    let text = given!(args[args.len() - 1].text(cx)?);
    Ok(Value::UInt(u64::from(long(Pace::Copy, text.len(), || crc32c::crc32c_append(before, &text)))))
}

fn interval<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let Some(v) = args[0].real(cx)? else { return Ok(Value::Int(-1)) };
    for (index, bound) in args.iter().enumerate().skip(1) {
        if bound.real(cx)?.is_some_and(|b| v < b) {
            return Ok(Value::Int(index as i64 - 1));
        }
    }
    Ok(Value::Int(args.len() as i64 - 1))
}

/// Most digits that FORMAT shows after the point.
const FORMAT_DIGITS_MAX: i64 = 38;

/// Digits before the point that values of an operand have at most, as FORMAT's length counts them.
fn whole_digits(arg: &Expr) -> u64 {
    match arg.ty.kind {
        TypeKind::TinyInt => 3,
        TypeKind::SmallInt => 5,
        TypeKind::MediumInt => 7 + u64::from(arg.ty.unsigned),
        TypeKind::Int => 10,
        TypeKind::BigInt => 19 + u64::from(arg.ty.unsigned),
        // A bit is the logarithm of two of a digit.
        TypeKind::Bit => u64::from(arg.ty.length) * 30_103 / 100_000 + 1,
        TypeKind::Year => 4,
        TypeKind::Decimal => u64::from(typing::whole_digits(arg)),
        TypeKind::Date => 8,
        TypeKind::Time => 7,
        TypeKind::DateTime | TypeKind::Timestamp => 14,
        TypeKind::Float => 39,
        _ => 309,
    }
}

fn format_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let shown = known_integer(&args[1]).unwrap_or(FORMAT_DIGITS_MAX).clamp(0, FORMAT_DIGITS_MAX) as u64;
    // Rounding may carry into one more.
    let carry = shown < u64::from(typing::float_decimals(&args[0]));
    let whole = whole_digits(&args[0]) + u64::from(carry);
    let (sign, point) = (1, u64::from(shown > 0));
    let length = sign + whole + whole / 3 + point + shown;
    Ok((typing::string_type(length, cx.vars.connection_collation), true))
}

/// Whole numbers up to this one are all numbers of DOUBLE.
const EXACT_WHOLE: f64 = (1u64 << 53) as f64;

fn format<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let digits = given!(args[1].int64(cx)?).clamp(0, FORMAT_DIGITS_MAX) as i32;
    let locale = match args.get(2) {
        Some(arg) => locale::of_argument(arg, cx)?,
        None => Locale::english(),
    };
    let mut plain = Vec::new();
    match args[0].class() {
        Class::Int | Class::Decimal => given!(args[0].decimal(cx)?).round(digits).append_to(&mut plain),
        _ => {
            let v = round_real(given!(args[0].real(cx)?), digits, true);
            let digits = digits as usize;
            // The digits of a larger number say more than it does: behind the shortest that tell it come zeros.
            let shown = match v.abs() >= EXACT_WHOLE {
                true if digits > 0 => format!("{v}.{:0<digits$}", ""),
                true => format!("{v}"),
                false => format!("{v:.digits$}"),
            };
            plain.extend_from_slice(shown.as_bytes());
        }
    }
    Ok(Value::Bytes(locale.grouped(&plain).into()))
}

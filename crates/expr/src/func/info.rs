//! Functions about the server, the session and the last statement.

use keel_base::SqlResult;
use keel_storage::runtime;
use keel_value::{CollationId, SqlType, TypeKind, Value};

use super::{Function, any_nullable, bits, function, given, int, or_null, text_value};
use crate::files;
use crate::typing::{STRING_DECIMALS, bits_type, int_type};
use crate::{Env, EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("database", 0, 0, |_, _| Ok((system_text(64), true)), |_, _, cx| {
        Ok(or_null(cx.env().database.clone(), |db| text_value(db.as_bytes())))
    }),
    function!(text "user", 0, 0, |_, _| Ok((system_text(384), true)), user),
    function!(text "current_user", 0, 0, |_, _| Ok((system_text(384), true)), current_user),
    function!("current_role", 0, 0, |_, _| Ok((system_text(128), true)), |_, _, cx| {
        Ok(or_null(cx.env().access.role.clone(), |role| text_value(role.as_bytes())))
    }),
    function!("version", 0, 0, version_type, |_, _, cx| Ok(text_value(cx.env().server.version()))),
    function!(
        "connection_id",
        0,
        0,
        |_, _| Ok((SqlType::int().with_unsigned().with_length(10), false)),
        |_, _, cx| { Ok(Value::UInt(cx.env().id)) }
    ),
    function!(volatile "last_insert_id", 0, 1, last_insert_id_type, last_insert_id),
    function!("row_count", 0, 0, |_, _| Ok((SqlType::bigint().with_length(21), false)), |_, _, cx| {
        Ok(Value::Int(cx.env().row_count))
    }),
    function!("found_rows", 0, 0, |_, _| Ok((SqlType::bigint().with_length(21), false)), |_, _, cx| {
        Ok(Value::Int(cx.env().found_rows as i64))
    }),
    function!(volatile "load_file", 1, 1, load_file_type, load_file),
    function!(volatile "sleep", 1, 1, |_, _| Ok((int(1), false)), sleep),
    function!(volatile "benchmark", 2, 2, |_, _| Ok((int(1), false)), benchmark),
];

/// Text of the server's own: utf8mb3, as MariaDB's system character set.
fn system_text(chars: u32) -> SqlType {
    SqlType::varchar(chars, CollationId::UTF8MB3_GENERAL_CI).with_decimals(STRING_DECIMALS)
}

fn version_type(cx: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((system_text(cx.server.version().len() as u32), false))
}

fn user<'f>(_: &'f SqlType, _: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    Ok(text_value(format!("{}@{}", cx.env().user, cx.env().client_host)))
}

fn current_user<'f>(_: &'f SqlType, _: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    Ok(text_value(format!("{}@{}", cx.env().access.user, cx.env().access.host)))
}

fn last_insert_id_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    match args.first() {
        None => Ok((bits_type(), false)),
        Some(arg) => {
            let length = crate::typing::display_length(arg).min(21);
            let ty = SqlType { kind: keel_value::TypeKind::BigInt, ..int_type(length, true) };
            Ok((ty, any_nullable(args)))
        }
    }
}

fn last_insert_id<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let Some(arg) = args.first() else { return Ok(Value::UInt(cx.env().last_insert_id)) };
    let new = given!(bits(arg, cx)?);
    cx.env_mut().last_insert_id = new;
    cx.env_mut().statement_insert_id = new;
    Ok(Value::UInt(new))
}

fn load_file_type(_: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((SqlType::new(TypeKind::LongBlob).with_length(16 << 20).with_decimals(STRING_DECIMALS), true))
}

/// LOAD_FILE(): what a file of the server holds; NULL where that is not to be had.
fn load_file<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let name = given!(args[0].text(cx)?).to_vec();
    Ok(or_null(files::content(cx.env_mut(), &name)?, |bytes| Value::Bytes(bytes.into())))
}

/// SLEEP(): 0 when the time has passed, at once if there is none; a kill ends it with the statement.
fn sleep<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let seconds = match args[0].real(cx)? {
        Some(seconds) if seconds >= 0.0 => seconds.min(31_536_000.0),
        _ => return Ok(Value::Int(0)),
    };
    let deadline = runtime::time::now() + std::time::Duration::from_secs_f64(seconds);
    let env = cx.env();
    env.interrupt.woken_during(|| {
        while runtime::time::now() < deadline && env.check_interrupt().is_ok() {
            runtime::fiber::park_until(runtime::wait::WaitEvent::Sleep, deadline);
        }
    });
    env.check_interrupt()?;
    Ok(Value::Int(0))
}

/// BENCHMARK(): computes an expression so many times.
fn benchmark<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let count = given!(args[0].int64(cx)?);
    if count < 0 && !args[0].ty.unsigned {
        cx.warn(keel_base::errors::wrong_value_for_type("count", count, "benchmark"))?;
        return Ok(Value::Null);
    }
    for _ in 0..count as u64 {
        args[1].eval(cx)?;
        runtime::fiber::tick();
        cx.env().check_interrupt()?;
    }
    Ok(Value::Int(0))
}

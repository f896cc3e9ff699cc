//! Functions as Oracle has them: an empty text is NULL.

use keel_base::SqlResult;
use keel_value::{SqlType, Value};

use super::string::{self, too_long};
use super::{Function, function, known_integer, text_value};
use crate::{Env, EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!(text "concat_operator_oracle", 1, usize::MAX, string::concat_type, concat),
    function!("lpad_oracle", 2, 3, |cx, a| nullable(string::pad_type(cx, a)), |ty, a, cx| string::pad(
        ty, a, cx, true
    )
    .map(or_null)),
    function!("rpad_oracle", 2, 3, |cx, a| nullable(string::pad_type(cx, a)), |ty, a, cx| string::pad(
        ty, a, cx, false
    )
    .map(or_null)),
    function!("trim_oracle", 1, 2, |cx, a| nullable(string::trim_type(cx, a)), |ty, a, cx| {
        string::trim(ty, a, cx, true, true).map(or_null)
    }),
    function!("ltrim_oracle", 1, 2, |cx, a| nullable(string::trim_type(cx, a)), |ty, a, cx| {
        string::trim(ty, a, cx, true, false).map(or_null)
    }),
    function!("rtrim_oracle", 1, 2, |cx, a| nullable(string::trim_type(cx, a)), |ty, a, cx| {
        string::trim(ty, a, cx, false, true).map(or_null)
    }),
    function!("substr_oracle", 2, 3, substring_type, |ty, a, cx| {
        string::substring_from(ty, a, cx, true).map(or_null)
    }),
    function!(text "replace_oracle", 3, 3, string::replace_type, replace),
];

/// Whatever the arguments, what comes out may be an empty text.
fn nullable(found: SqlResult<(SqlType, bool)>) -> SqlResult<(SqlType, bool)> {
    found.map(|(ty, _)| (ty, true))
}

/// A text begins at 0 as at 1.
fn substring_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let is_zero = args.get(1).is_some_and(|at| known_integer(at) == Some(0));
    let first = || Expr::constant(Value::Int(1), SqlType::bigint());
    let at = is_zero.then(|| std::mem::replace(&mut args[1], first()));
    let found = nullable(string::substring_type(cx, args));
    if let Some(at) = at {
        args[1] = at;
    }
    found
}

fn or_null(value: Value) -> Value {
    match value {
        Value::Bytes(text) if text.is_empty() => Value::Null,
        other => other,
    }
}

/// NULL adds nothing; NULL alone stays NULL.
fn concat<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let mut out: Option<Vec<u8>> = None;
    for arg in args {
        let Some(text) = arg.text(cx)? else { continue };
        let joined = out.get_or_insert_with(Vec::new);
        if too_long("concat", (joined.len() + text.len()) as u64, cx)? {
            return Ok(Value::Null);
        }
        joined.extend_from_slice(&text);
    }
    Ok(out.map_or(Value::Null, text_value))
}

/// What is sought may be NULL, which is nowhere, and so may what takes its place, which is nothing.
fn replace<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let Some(text) = args[0].text(cx)? else { return Ok(Value::Null) };
    let from = args[1].text(cx)?.unwrap_or_default();
    let to = args[2].text(cx)?.unwrap_or_default();
    string::replaced(&text, &from, &to, cx).map(or_null)
}

//! Functions that change a document.

use keel_base::{SqlResult, errors};
use keel_value::{SqlType, Value};

use super::super::{Function, function, given};
use super::*;
use crate::Env;
use keel_document::json::change::{self, Changed, Mode};
use keel_document::json::path::Target;

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("json_set", 3, usize::MAX, set_type, |_, a, cx| {
        set(a, "json_set", Mode { inserts: true, replaces: true }, cx)
    }),
    function!("json_insert", 3, usize::MAX, set_type, |_, a, cx| {
        set(a, "json_insert", Mode { inserts: true, replaces: false }, cx)
    }),
    function!("json_replace", 3, usize::MAX, set_type, |_, a, cx| {
        set(a, "json_replace", Mode { inserts: false, replaces: true }, cx)
    }),
    function!("json_remove", 2, usize::MAX, remove_type, remove),
    function!("json_array_append", 3, usize::MAX, append_type, array_append),
    function!("json_array_insert", 3, usize::MAX, append_type, array_insert),
];

/// MariaDB's length: of the n-th pair it counts the n-th argument and the one behind it.
fn set_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    const MORE: u64 = 10;
    let pairs = (args.len() - 1) / 2;
    let length = chars(&args[0])
        + (0..pairs).map(|pair| chars(&args[pair]) + chars(&args[pair + 1]) + MORE).sum::<u64>();
    let collation = like_document(cx, args);
    Ok((json_type(length, collation), true))
}

fn append_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    const MORE: u64 = 4;
    let values = args[1..].chunks_exact(2).map(|pair| &pair[1]);
    let length = chars(&args[0]) + values.map(|value| chars(value) + MORE).sum::<u64>();
    let collation = like_document(cx, args);
    Ok((json_type(length, collation), true))
}

fn remove_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    document_type(cx, args)
}

/// Applies `change` to the document for each pair of path and value, and writes what comes out again.
fn for_each_pair<'f>(
    args: &'f [Expr],
    name: &'static str,
    cx: &mut EvalContext<'_, 'f>,
    mut change: impl FnMut(&[u8], &Path<'_>, &[u8]) -> Result<Changed, Fault>,
) -> SqlResult<Value> {
    let mut document = given!(args[0].text(cx)?);
    let mut value = Vec::new();
    for (pair, arguments) in args[1..].chunks_exact(2).enumerate() {
        let path = given!(arguments[0].text(cx)?);
        let path = given!(single_path(&path, pair * 2 + 2, name, cx)?);
        value.clear();
        let to = args[0].ty.collation.charset();
        if !append_value(&arguments[1], Some(to), cx, &mut value)? {
            return Ok(Value::Null);
        }
        match change(&document, &path, &value) {
            Ok(Changed::Text(text)) => document = Cow::Owned(text),
            Ok(Changed::Nothing) => {}
            Ok(Changed::NotFound) => return Ok(Value::Null),
            Err(fault) => return bad_text(cx, fault, 1, name),
        }
        if document.len() as u64 > cx.env().vars.max_allowed_packet {
            break;
        }
    }
    loose_result(&document, name, cx)
}

fn set<'f>(
    args: &'f [Expr],
    name: &'static str,
    mode: Mode,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Value> {
    for_each_pair(args, name, cx, |document, path, value| change::set(document, path, value, mode))
}

fn array_append<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    for_each_pair(args, "json_array_append", cx, change::append)
}

fn array_insert<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    for_each_pair(args, "json_array_insert", cx, |document, path, value| match path.steps.split_last() {
        Some((last, parents)) => match last.target {
            Target::Index(index) => change::insert_element(document, parents, index, value),
            _ => Ok(Changed::NotFound),
        },
        None => Ok(Changed::NotFound),
    })
}

fn remove<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    const NAME: &str = "json_remove";
    let mut document = given!(args[0].text(cx)?);
    for (place, arg) in args[1..].iter().enumerate() {
        let path = given!(arg.text(cx)?);
        let path = given!(single_path(&path, place + 2, NAME, cx)?);
        let Some((last, parents)) = path.steps.split_last() else {
            cx.warn(errors::json_path_empty(place + 2, NAME))?;
            return Ok(Value::Null);
        };
        match change::remove(&document, parents, last) {
            Ok(Changed::Text(text)) => document = Cow::Owned(text),
            Ok(_) => {}
            Err(fault) => return bad_text(cx, fault, 1, NAME),
        }
    }
    loose_result(&document, NAME, cx)
}

//! JSON made of SQL values.

use keel_base::SqlResult;
use keel_value::types::{Class, Format};
use keel_value::{SqlType, Value};

use super::super::{Function, function, given, unify};
use super::*;
use crate::{Env, Node};
use keel_document::json::{merge, scan, text};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("json_array", 0, usize::MAX, |cx, a| list_type(cx, a, "json_array"), array),
    function!("json_object", 0, usize::MAX, |cx, a| list_type(cx, a, "json_object"), object),
    function!("json_merge", 2, usize::MAX, |cx, a| list_type(cx, a, "json_merge_preserve"), merge_preserve),
    function!(
        "json_merge_preserve",
        2,
        usize::MAX,
        |cx, a| list_type(cx, a, "json_merge_preserve"),
        merge_preserve
    ),
    function!("json_merge_patch", 2, usize::MAX, |cx, a| list_type(cx, a, "json_merge_patch"), merge_patch),
];

/// Fewest characters that MariaDB takes a member for, and how many it adds to each.
const MEMBER_CHARS_MIN: u64 = 4;
const MEMBER_CHARS_MORE: u64 = 4;

fn list_type(cx: &Env, args: &mut [Expr], name: &str) -> SqlResult<(SqlType, bool)> {
    if args.is_empty() {
        return Ok((json_type(0, cx.vars.connection_collation), true));
    }
    let count = args.len();
    let length = 2 + args.iter().map(member_chars).sum::<u64>();
    let collation = if args.iter().all(|arg| arg.class() == Class::Null) {
        CollationId::BINARY
    } else {
        unify(cx, args, 0..count, name)?
    };
    // Bytes beside text with a stronger collation are read as text of its character set.
    for arg in args.iter_mut().filter(|arg| arg.ty.is_string() && arg.ty.collation == CollationId::BINARY) {
        arg.ty.collation = collation;
    }
    Ok((json_type(length, collation), true))
}

fn member_chars(arg: &Expr) -> u64 {
    let length = match arg.class() {
        Class::Int if arg.ty.format == Format::Boolean => "false".len() as u64,
        Class::Int | Class::Decimal | Class::Real | Class::Null => chars(arg),
        _ if arg.ty.format == Format::Json => chars(arg),
        _ => chars(arg) * 2,
    };
    length.max(MEMBER_CHARS_MIN) + MEMBER_CHARS_MORE
}

/// What JSON_COMPACT() and its like write again: within other JSON it stays as it was.
fn as_written(arg: &Expr) -> &Expr {
    match &arg.node {
        Node::Once(_, inner) if is_rewrite(inner) => as_written(inner),
        Node::Call(_, args) if is_rewrite(arg) && args[0].ty.is_string() => as_written(&args[0]),
        _ => arg,
    }
}

/// Replaces what JSON_COMPACT() and its like write by their argument where a JSON function reads it as a document.
pub fn read_as_written(name: &str, args: &mut [Expr]) {
    let count = match name {
        "json_merge" | "json_merge_preserve" | "json_merge_patch" => args.len(),
        "json_contains" | "json_overlaps" => 2,
        "json_array" | "json_object" | "json_quote" => 0,
        _ if name.starts_with("json_") => 1,
        _ => 0,
    };
    for arg in args.iter_mut().take(count) {
        while is_rewrite(arg) {
            let inner = match &mut arg.node {
                Node::Once(_, inner) => std::mem::replace(&mut **inner, Expr::null()),
                Node::Call(_, args) => std::mem::replace(&mut args[0], Expr::null()),
                _ => break,
            };
            *arg = inner;
        }
    }
}

fn is_rewrite(arg: &Expr) -> bool {
    match &arg.node {
        Node::Call(function, _) => {
            matches!(function.name, "json_compact" | "json_loose" | "json_detailed" | "json_pretty")
        }
        Node::Once(_, inner) => is_rewrite(inner),
        _ => false,
    }
}

/// The character set of JSON that is made of values: `binary` if one of them is, else none, and each value has its own already.
pub fn charset_of_members(args: &[Expr]) -> Option<Charset> {
    let is_binary = |arg: &Expr| arg.ty.is_string() && arg.ty.collation == CollationId::BINARY;
    args.iter().any(is_binary).then_some(Charset::Binary)
}

/// Appends an SQL value as JSON in a character set, none for that of the value: NULL is null, truth values and numbers are
/// themselves, JSON stays, all else is quoted. False where a text is not valid in its character set.
pub fn append_value<'f>(
    arg: &'f Expr,
    to: Option<Charset>,
    cx: &mut EvalContext<'_, 'f>,
    out: &mut Vec<u8>,
) -> SqlResult<bool> {
    let is_json = arg.ty.format == Format::Json;
    let arg = as_written(arg);
    let Some(plain) = arg.text(cx)? else {
        out.extend_from_slice(b"null");
        return Ok(true);
    };
    match arg.class() {
        Class::Int if arg.ty.format == Format::Boolean && !matches!(arg.node, Node::AssignUserVar(..)) => {
            out.extend_from_slice(if *plain == *b"0" { b"false" } else { b"true" });
        }
        // Octets are written as they are, but for those that JSON has not, as in MariaDB.
        Class::Int if arg.ty.is_octets_of_bits() => {
            let mut quoted = Vec::new();
            text::quote(&plain, &mut quoted);
            out.extend_from_slice(&quoted[1..quoted.len() - 1]);
        }
        // What an assignment gives is a text whatever was assigned.
        Class::Int | Class::Decimal | Class::Real if !matches!(arg.node, Node::AssignUserVar(..)) => {
            out.extend_from_slice(&plain);
        }
        _ if is_json => out.extend_from_slice(&plain),
        Class::String => return Ok(append_text(&plain, arg, to, out)),
        _ => text::quote(&plain, out),
    }
    Ok(true)
}

fn append_text(plain: &[u8], arg: &Expr, to: Option<Charset>, out: &mut Vec<u8>) -> bool {
    let from = arg.ty.collation.charset();
    text::quote_converted(plain, from, to.unwrap_or(from), out)
}

fn array<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let to = charset_of_members(args);
    let mut out = vec![b'['];
    for (place, arg) in args.iter().enumerate() {
        if place > 0 {
            out.extend_from_slice(b", ");
        }
        if !append_value(arg, to, cx, &mut out)? {
            return Ok(Value::Null);
        }
        if out.len() > longest(cx) {
            break;
        }
    }
    out.push(b']');
    result(out, "json_array", cx)
}

/// A key is text whatever it is; NULL is empty. Else as [`append_value`].
pub fn append_key<'f>(
    arg: &'f Expr,
    to: Option<Charset>,
    cx: &mut EvalContext<'_, 'f>,
    out: &mut Vec<u8>,
) -> SqlResult<bool> {
    let key = arg.text(cx)?.unwrap_or_default();
    if arg.class() == Class::String {
        return Ok(append_text(&key, arg, to, out));
    }
    text::quote(&key, out);
    Ok(true)
}

fn object<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let to = charset_of_members(args);
    let mut out = vec![b'{'];
    for (place, member) in args.chunks_exact(2).enumerate() {
        if place > 0 {
            out.extend_from_slice(b", ");
        }
        let has_key = append_key(&member[0], to, cx, &mut out)?;
        out.extend_from_slice(b": ");
        if !has_key || !append_value(&member[1], to, cx, &mut out)? {
            return Ok(Value::Null);
        }
        if out.len() > longest(cx) {
            break;
        }
    }
    out.push(b'}');
    result(out, "json_object", cx)
}

fn merge_preserve<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    const NAME: &str = "json_merge_preserve";
    let texts = given!(texts(args, cx)?);
    let mut merged: Vec<u8> = Vec::new();
    for (place, next) in texts.iter().enumerate() {
        let mut out = Vec::new();
        let most = longest(cx);
        let done = scan::check(next).map_err(Stop::Fault).and_then(|_| {
            if place == 0 {
                out.extend_from_slice(next);
                return Ok(());
            }
            let mut go_on = going_on(cx.env());
            merge::preserve(&merged, next, &mut Bound::new(most, &mut go_on), &mut out)
        });
        match done {
            Ok(()) => {}
            Err(Stop::Fault(fault)) => return bad_text(cx, fault, place + 1, NAME),
            Err(Stop::Caller(error)) => return Err(error),
        }
        if out.len() > most {
            return result(out, NAME, cx);
        }
        merged = out;
    }
    loose_result(&merged, NAME, cx)
}

/// NULL patched, or patched with NULL, is NULL; but what is no object takes the place of anything.
fn merge_patch<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    const NAME: &str = "json_merge_patch";
    let mut merged: Option<Vec<u8>> = None;
    for (place, arg) in args.iter().enumerate() {
        let Some(next) = arg.text(cx)? else {
            merged = None;
            continue;
        };
        let mut out = Vec::new();
        let most = longest(cx);
        let done = scan::check(&next).map_err(Stop::Fault).and_then(|value| match &merged {
            _ if place == 0 || value.kind != scan::Kind::Object => {
                out.extend_from_slice(&next);
                Ok(true)
            }
            Some(target) => {
                let mut go_on = going_on(cx.env());
                let bound = &mut Bound::new(most, &mut go_on);
                merge::patch(target, &next, bound, &mut out).map(|()| true)
            }
            None => Ok(false),
        });
        match done {
            Ok(_) if out.len() > most => return result(out, NAME, cx),
            Ok(known) => merged = known.then_some(out),
            Err(Stop::Fault(fault)) => return bad_text(cx, fault, place + 1, NAME),
            Err(Stop::Caller(error)) => return Err(error),
        }
    }
    match merged {
        Some(merged) => loose_result(&merged, NAME, cx),
        None => Ok(Value::Null),
    }
}

//! Functions that read one document.

use std::collections::HashSet;

use keel_base::{SqlResult, errors};
use keel_value::types::{Class, Format};
use keel_value::{CollationId, SqlType, Value};

use super::super::{any_nullable, function, given, int, text_value};
use super::*;
use crate::Env;
use keel_document::json::find::{self, Search};
use keel_document::json::normal;
use keel_document::json::scan::{self, Kind, Scanner};
use keel_document::json::text;

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!(
        "json_valid",
        1,
        1,
        |_, a| Ok((boolean_type(), any_nullable(a) || a[0].class() != Class::Null)),
        valid
    ),
    function!("json_value", 2, 2, value_type, value),
    function!("json_query", 2, 2, document_type, query),
    function!("json_exists", 2, 2, truth_type, exists),
    function!("json_extract", 2, usize::MAX, extract_type, extract),
    function!("json_length", 1, 2, length_type, length),
    function!("json_depth", 1, 1, |_, a| Ok((int(10), any_nullable(a))), depth),
    function!("json_type", 1, 1, type_type, type_of),
    function!("json_keys", 1, 2, keys_type, keys),
    function!("json_unquote", 1, 1, unquote_type, unquote),
    function!("json_quote", 1, 1, quote_type, quote),
    function!("json_compact", 1, 1, |cx, a| rewrite_type(cx, a, 1), |_, a, cx| {
        rewrite(a, "json_compact", Style::Compact, cx)
    }),
    function!("json_loose", 1, 1, |cx, a| rewrite_type(cx, a, 2), |_, a, cx| {
        rewrite(a, "json_loose", Style::Loose, cx)
    }),
    function!("json_detailed", 1, 2, detailed_type, detailed),
    function!("json_pretty", 1, 2, detailed_type, detailed),
    function!("json_normalize", 1, 1, normalize_type, normalize),
];

fn valid<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let document = given!(args[0].text(cx)?);
    let checked = scan::check(&document);
    if let Err(fault) = checked {
        cx.env_mut().note(fault.of_text(1, "json_valid"));
    }
    Ok(Value::Int(i64::from(checked.is_ok())))
}

fn value_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = like_document(cx, args);
    Ok((same_length(&args[0], collation), true))
}

/// The first scalar that the path leads to, as text; faults of the document are not reported.
fn value<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let document = given!(args[0].text(cx)?);
    let path = given!(args[1].text(cx)?);
    let path = given!(single_path(&path, 2, "json_value", cx)?);
    let mut scalar = None;
    let search = find::find(&mut Scanner::new(&document), &path.steps, false, &mut |scanner, value| {
        if value.is_scalar() {
            scalar = Some(value);
            return Ok(Search::Break(()));
        }
        scanner.skip(&value)?;
        Ok(Search::Continue(()))
    });
    let (Some(scalar), Ok(_)) = (scalar, search) else { return Ok(Value::Null) };
    Ok(match scalar.kind {
        Kind::Null => Value::Null,
        Kind::True => text_value("1"),
        Kind::False => text_value("0"),
        Kind::String if scalar.marked => match text::unescape_in(scalar.inner(&document), ty.collation) {
            Some(text) => text_value(text),
            None => {
                cx.warn(errors::json_bad_chr(0, "st_append_json", 0))?;
                Value::Null
            }
        },
        Kind::String => text_value(scalar.inner(&document)),
        _ => text_value(scalar.raw(&document)),
    })
}

/// The first object or array that the path leads to, as it is written.
fn query<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let document = given!(args[0].text(cx)?);
    let path = given!(args[1].text(cx)?);
    let path = given!(super::path(&path, 2, "json_query", cx)?);
    let mut place = None;
    let search = find::find(&mut Scanner::new(&document), &path.steps, false, &mut |scanner, value| {
        let end = scanner.skip(&value)?;
        if value.is_scalar() {
            return Ok(Search::Continue(()));
        }
        place = Some((value.start, end));
        Ok(Search::Break(()))
    });
    Ok(match (place, search) {
        (Some((start, end)), Ok(_)) => text_value(&document[start..end]),
        _ => Value::Null,
    })
}

fn exists<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let document = given!(args[0].text(cx)?);
    let path = given!(args[1].text(cx)?);
    let Ok(path) = Path::parse(&path) else { return Ok(Value::Null) };
    if path.steps.is_empty() {
        // The document itself is not looked at.
        return Ok(Value::Int(1));
    }
    match find::first(&mut Scanner::new(&document), &path.steps, false) {
        Ok(found) => Ok(Value::Int(i64::from(found.is_some()))),
        Err(fault) => bad_text(cx, fault, 1, "json_exists"),
    }
}

fn extract_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = like_document(cx, args);
    let length = match args.len() {
        2 => chars(&args[0]) * 2,
        paths => (chars(&args[0]) + 1) * 2 * (paths as u64 - 1),
    };
    Ok((json_type(length, collation), true))
}

/// What the paths lead to: of one path without wildcards the value, otherwise an array of all values.
fn extract<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    const NAME: &str = "json_extract";
    let document = given!(args[0].text(cx)?);
    let texts = given!(texts(&args[1..], cx)?);
    let mut paths = Vec::with_capacity(texts.len());
    for (place, text) in texts.iter().enumerate() {
        paths.push(given!(super::path(text, place + 2, NAME, cx)?));
    }
    if let [path] = &paths[..]
        && !path.is_multiple()
    {
        return match extract_one(&document, path) {
            Ok(Some((start, end))) => loose_result(&document[start..end], NAME, cx),
            Ok(None) => Ok(Value::Null),
            Err(fault) => bad_text(cx, fault, 1, NAME),
        };
    }
    let most = longest(cx);
    let mut out = vec![b'['];
    let mut scanner = Scanner::new(&document);
    let visit = &mut |mut scanner: Scanner<'_>, value: scan::Value, _: &[_], leading| {
        let end = scanner.skip(&value)?;
        for _ in 0..leading {
            if out.len() > most {
                return Ok(Search::Break(()));
            }
            if out.len() > 1 {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(&document[value.start..end]);
        }
        Ok(Search::Continue(()))
    };
    let walked = {
        let mut go_on = going_on(cx.env());
        find::walk(&mut scanner, &paths, false, &mut Bound::new(most, &mut go_on), visit)
    };
    let finished = walked.and_then(|search| match search {
        Search::Break(()) => Ok(()),
        Search::Continue(()) => scanner.finish().map_err(Stop::Fault),
    });
    match finished {
        Ok(()) if out.len() == 1 => Ok(Value::Null),
        Ok(()) if out.len() > most => result(out, NAME, cx),
        Ok(()) => {
            out.push(b']');
            loose_result(&out, NAME, cx)
        }
        Err(Stop::Fault(fault)) => bad_text(cx, fault, 1, NAME),
        Err(Stop::Caller(error)) => Err(error),
    }
}

/// The text of a value that JSON_EXTRACT found, without its quotes if it is a string. Binding puts it around the call
/// where `=` and its like compare the call with a text; it has no name in SQL.
static UNQUOTED: Function =
    function!("json_extract_text", 1, 1, |_, a| Ok((a[0].ty.clone(), true)), |_, a, cx| {
        let found = given!(a[0].text(cx)?);
        Ok(match &found[..] {
            [b'"', inner @ .., b'"'] => text_value(text::unescape(inner)),
            _ => text_value(found),
        })
    });

/// The same where the call is compared with a number.
static NUMBER: Function =
    function!("json_extract_number", 1, 1, |_, _| Ok((SqlType::double(), true)), |_, a, cx| {
        Ok(Value::Double(given!(a[0].real(cx)?)))
    });

/// Whether this is a call of JSON_EXTRACT, whose value stands for what it holds in some comparisons.
pub fn is_extracted(expr: &Expr) -> bool {
    matches!(&expr.node, Node::Call(function, _) if function.name == "json_extract")
}

/// What a call of JSON_EXTRACT found as plain text, to be compared with one.
pub fn unquoted(call: Expr) -> Expr {
    let (ty, nullable, derivation) = (call.ty.clone(), call.nullable, call.derivation);
    Expr { node: Node::Call(&UNQUOTED, Box::new([call])), ty, nullable, derivation }
}

/// What a call of JSON_EXTRACT found as a number, to be compared with one.
pub fn numbered(call: Expr) -> Expr {
    let nullable = call.nullable;
    Expr::new(Node::Call(&NUMBER, Box::new([call])), SqlType::double(), nullable)
}

/// The text that a value found by JSON_EXTRACT is read from as a number: 1 for true, what is within the quotes of a
/// string, and 0 for what has no number.
pub fn number_text(value: &[u8]) -> &[u8] {
    match value {
        b"true" => b"1",
        [b'"', inner @ .., b'"'] => inner,
        [b'-' | b'0'..=b'9', ..] => value,
        _ => b"0",
    }
}

/// Where the value lies that a path leads to; the rest of the document is checked too.
fn extract_one(document: &[u8], path: &Path<'_>) -> Result<Option<(usize, usize)>, Fault> {
    let mut scanner = Scanner::new(document);
    let place = match find::first(&mut scanner, &path.steps, true)? {
        Some(value) => Some((value.start, scanner.skip(&value)?)),
        None => None,
    };
    scanner.finish()?;
    Ok(place)
}

fn length_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    if let Some(path) = args.get(1)
        && !matches!(path.class(), Class::String | Class::Null)
    {
        let found = keel_value::convert::type_name(&path.ty);
        return Err(errors::illegal_parameter_data_type_for_operation(found, "json_length"));
    }
    like_document(cx, args);
    Ok((int(10), true))
}

fn length<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let document = given!(args[0].text(cx)?);
    let path = match args.get(1) {
        Some(arg) => given!(arg.text(cx)?),
        None => Cow::Borrowed(&b"$"[..]),
    };
    let path = given!(single_path(&path, 2, "json_length", cx)?);
    let mut scanner = Scanner::new(&document);
    let mut count = || {
        let Some(value) = find::first(&mut scanner, &path.steps, false)? else { return Ok(None) };
        let members = if value.is_scalar() { 1 } else { find::count_members(&mut scanner)? };
        scanner.finish()?;
        Ok(Some(members))
    };
    match count() {
        Ok(members) => Ok(members.map_or(Value::Null, |n| Value::Int(n as i64))),
        Err(fault) => bad_text(cx, fault, 1, "json_length"),
    }
}

fn depth<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let document = given!(args[0].text(cx)?);
    let mut scanner = Scanner::new(&document);
    let mut deepest = 0;
    let mut measure = || {
        loop {
            let value = scanner.value()?;
            deepest = deepest.max(scanner.depth() + u32::from(value.is_scalar()));
            while scanner.depth() > 0 && !find::another(&mut scanner)? {}
            if scanner.depth() == 0 {
                return scanner.finish();
            }
        }
    };
    match measure() {
        Ok(()) => Ok(Value::Int(i64::from(deepest))),
        Err(fault) => bad_text(cx, fault, 1, "json_depth"),
    }
}

/// Characters that MariaDB gives the name of a type.
const TYPE_NAME_CHARS: u32 = 12;

fn type_type(_: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = CollationId::UTF8MB3_GENERAL_CI;
    Ok((string_type(u64::from(TYPE_NAME_CHARS), collation), true))
}

fn type_of<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let document = given!(args[0].text(cx)?);
    match scan::check(&document) {
        Ok(value) => Ok(text_value(match value.kind {
            Kind::Object => "OBJECT",
            Kind::Array => "ARRAY",
            Kind::String => "STRING",
            Kind::Number if value.marked => "DOUBLE",
            Kind::Number => "INTEGER",
            Kind::True | Kind::False => "BOOLEAN",
            Kind::Null => "NULL",
        })),
        Err(fault) => bad_text(cx, fault, 1, "json_type"),
    }
}

fn keys_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = like_document(cx, args);
    Ok((same_length(&args[0], collation), true))
}

fn keys<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let document = given!(args[0].text(cx)?);
    let path = match args.get(1) {
        Some(arg) => given!(arg.text(cx)?),
        None => Cow::Borrowed(&b"$"[..]),
    };
    let path = given!(single_path(&path, 2, "json_keys", cx)?);
    match keys_of(&document, &path) {
        Ok(Some(keys)) => result(keys, "json_keys", cx),
        Ok(None) => Ok(Value::Null),
        Err(fault) => bad_text(cx, fault, 1, "json_keys"),
    }
}

fn keys_of(document: &[u8], path: &Path<'_>) -> Result<Option<Vec<u8>>, Fault> {
    let mut scanner = Scanner::new(document);
    let found = find::first(&mut scanner, &path.steps, false)?;
    if !found.is_some_and(|value| value.kind == Kind::Object) {
        return Ok(None);
    }
    let mut seen = HashSet::new();
    let mut out = vec![b'['];
    while let Some(key) = scanner.key()? {
        if seen.insert(key.inner(document)) {
            if out.len() > 1 {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(&document[key.start..key.end]);
        }
        let value = scanner.value()?;
        scanner.skip(&value)?;
    }
    out.push(b']');
    Ok(Some(out))
}

/// JSON_QUOTE, JSON_UNQUOTE and JSON_NORMALIZE give utf8mb4.
fn to_utf8mb4(args: &mut [Expr]) {
    if args[0].ty.is_text() {
        args[0] = to_charset(std::mem::replace(&mut args[0], Expr::null()), CollationId::UTF8MB4_BIN);
    }
}

fn unquote_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let length = same_length(&args[0], CollationId::UTF8MB4_BIN);
    to_utf8mb4(args);
    Ok((length, true))
}

fn unquote<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let document = given!(args[0].text(cx)?);
    if document.trim_ascii_start().first() != Some(&b'"') {
        return Ok(text_value(document));
    }
    match Scanner::new(&document).value() {
        Ok(value) => Ok(text_value(text::unescape(value.inner(&document)))),
        Err(fault) => {
            bad_text(cx, fault, 1, "json_unquote")?;
            Ok(text_value(document))
        }
    }
}

/// Characters that one may become where it is escaped, as MariaDB counts.
const ESCAPED_CHARS: u64 = 12;

fn quote_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let length = chars(&args[0]) * ESCAPED_CHARS + 2;
    to_utf8mb4(args);
    Ok((text_type(length, CollationId::UTF8MB4_BIN), true))
}

/// Numbers are not quoted: they give NULL.
fn quote<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    if matches!(args[0].class(), Class::Int | Class::Decimal | Class::Real) {
        return Ok(Value::Null);
    }
    let plain = given!(args[0].text(cx)?);
    let mut out = Vec::with_capacity(plain.len() + 2);
    let from =
        if args[0].class() == Class::String { args[0].ty.collation.charset() } else { Charset::Utf8mb4 };
    if !text::quote_converted(&plain, from, Charset::Utf8mb4, &mut out) {
        return Ok(Value::Null);
    }
    result(out, "json_quote", cx)
}

fn rewrite_type(cx: &Env, args: &mut [Expr], times: u64) -> SqlResult<(SqlType, bool)> {
    let collation = collation_of(cx, &args[0]);
    let ty = if times == 1 {
        same_length(&args[0], collation)
    } else {
        string_type(chars(&args[0]) * times, collation)
    };
    Ok((ty.with_decimals(0).with_format(Format::Json), true))
}

fn rewrite<'f>(args: &'f [Expr], name: &str, style: Style, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let document = given!(args[0].text(cx)?);
    let mut out = Vec::new();
    match format::rewrite(&document, style, longest(cx), &mut out) {
        Ok(()) => result(out, name, cx),
        Err(fault) => bad_text(cx, fault, 1, name),
    }
}

fn detailed_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = collation_of(cx, &args[0]);
    Ok((json_type(OCTETS_MAX, collation).with_decimals(0), true))
}

/// Spaces of a level where none are asked for.
const INDENT: usize = 4;

fn detailed<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let indent = match args.get(1) {
        Some(arg) => given!(arg.int64(cx)?).clamp(0, format::INDENT_MAX as i64) as usize,
        None => INDENT,
    };
    rewrite(args, "json_detailed", Style::Detailed(indent), cx)
}

/// How many times longer MariaDB takes a normal form for.
const NORMAL_TIMES: u64 = 5;

fn normalize_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let length = chars(&args[0]) * NORMAL_TIMES;
    to_utf8mb4(args);
    Ok((json_type(length, CollationId::UTF8MB4_BIN), true))
}

fn normalize<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let document = given!(args[0].text(cx)?);
    let mut out = Vec::with_capacity(document.len());
    match normal::normalize(&document, &mut out) {
        Ok(()) => result(out, "json_normalize", cx),
        Err(fault) => bad_text(cx, fault, 1, "json_normalize"),
    }
}

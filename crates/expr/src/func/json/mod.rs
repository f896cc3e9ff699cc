//! JSON functions: arguments, types and warnings around [`keel_document::json`].
//!
//! Lengths of results are MariaDB's, which are guesses now and then: JSON_SET() counts its document twice and leaves out
//! its values. What cannot be read gives NULL and a warning that names argument and position.

mod change;
mod make;
mod read;
mod search;

use std::borrow::Cow;

use keel_base::{SqlResult, errors};
use keel_storage::runtime::{fiber, latch};
use keel_value::collation::Charset;
use keel_value::types::{Class, Format};
use keel_value::{CollationId, SqlType, TypeKind, Value};
use smallvec::SmallVec;

use super::Function;
use crate::typing::to_charset;
use crate::typing::{string_type, text_chars};
use crate::{Env, EvalContext, Expr, Node, boolean_type};
use keel_document::json::format::{self, Style};
use keel_document::json::{Bound, Fault, Path, Stop};

pub use change::FUNCTIONS as CHANGING;
pub use make::FUNCTIONS as MAKING;
pub use make::{append_key, append_value, charset_of_members, read_as_written};
pub use read::FUNCTIONS as READING;
pub use read::{is_extracted, number_text, numbered, unquoted};
pub use search::FUNCTIONS as SEARCHING;

/// Bytes of the longest result that MariaDB describes.
const OCTETS_MAX: u64 = 16_777_216;

fn chars(arg: &Expr) -> u64 {
    u64::from(text_chars(arg))
}

/// The collation of a document: of text its own, of anything else the connection's.
fn collation_of(cx: &Env, arg: &Expr) -> CollationId {
    match arg.class() {
        Class::String => arg.ty.collation,
        Class::Null => CollationId::BINARY,
        Class::Int if arg.ty.is_octets_of_bits() => CollationId::BINARY,
        _ => cx.vars.connection_collation,
    }
}

/// Text of so many characters, or as many as MariaDB describes.
fn text_type(chars: u64, collation: CollationId) -> SqlType {
    let most = OCTETS_MAX / u64::from(collation.charset().max_bytes());
    string_type(chars.min(most), collation)
}

/// JSON of so many characters.
fn json_type(chars: u64, collation: CollationId) -> SqlType {
    text_type(chars, collation).with_format(Format::Json)
}

/// Text as long as a document may be.
fn same_length(arg: &Expr, collation: CollationId) -> SqlType {
    if arg.ty.kind == TypeKind::LongText && arg.ty.length == u32::MAX {
        return string_type(u64::from(u32::MAX), collation);
    }
    text_type(chars(arg), collation)
}

/// Makes paths and other texts among the arguments comparable with the document before them.
fn like_document(cx: &Env, args: &mut [Expr]) -> CollationId {
    let collation = collation_of(cx, &args[0]);
    for arg in &mut args[1..] {
        if arg.class() == Class::String {
            *arg = to_charset(std::mem::replace(arg, Expr::null()), collation);
        }
    }
    collation
}

/// A truth value that may be NULL, whatever the arguments.
fn truth_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    like_document(cx, args);
    Ok((boolean_type(), true))
}

/// JSON as long as the document.
fn document_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = like_document(cx, args);
    Ok((same_length(&args[0], collation).with_format(Format::Json), true))
}

/// A fault of a document: a warning, and NULL; an error where the statement's warnings are errors.
fn bad_text(cx: &mut EvalContext<'_, '_>, fault: Fault, argument: usize, function: &str) -> SqlResult<Value> {
    cx.warn(fault.of_text(argument, function))?;
    Ok(Value::Null)
}

/// Reads a path of an argument, counted from 1; reports what is wrong with it.
fn path<'p>(
    text: &'p [u8],
    argument: usize,
    function: &str,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<Path<'p>>> {
    match Path::parse(text) {
        Ok(path) => Ok(Some(path)),
        Err(fault) => {
            cx.warn(fault.of_path(argument, function))?;
            Ok(None)
        }
    }
}

/// The same where one value alone may be meant.
fn single_path<'p>(
    text: &'p [u8],
    argument: usize,
    function: &str,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<Path<'p>>> {
    let path = path(text, argument, function, cx)?;
    if path.as_ref().is_some_and(Path::is_multiple) {
        cx.warn(errors::json_path_no_wildcard(argument, function))?;
        return Ok(None);
    }
    Ok(path)
}

/// Texts of arguments, few as a rule.
type Texts<'f> = SmallVec<[Cow<'f, [u8]>; 2]>;

/// The texts of arguments; None where one is NULL.
fn texts<'f>(args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<Texts<'f>>> {
    let mut texts = SmallVec::with_capacity(args.len());
    for arg in args {
        match arg.text(cx)? {
            Some(text) => texts.push(text),
            None => return Ok(None),
        }
    }
    Ok(Some(texts))
}

/// A result, unless it is longer than a packet: then NULL with 1301.
fn result(out: Vec<u8>, function: &str, cx: &mut EvalContext<'_, '_>) -> SqlResult<Value> {
    let max = cx.env().vars.max_allowed_packet;
    if out.len() as u64 > max {
        cx.warn(errors::warn_allowed_packet_overflowed(function, max))?;
        return Ok(Value::Null);
    }
    cx.executor.hold_long(out.len() as u64)?;
    Ok(Value::Bytes(out.into()))
}

/// Bytes of the longest result.
fn longest(cx: &EvalContext<'_, '_>) -> usize {
    usize::try_from(cx.env().vars.max_allowed_packet).unwrap_or(usize::MAX)
}

/// What a call that may take long asks now and then ([`MAY_TAKE_LONG`]): others run meanwhile, unless the row lies on a
/// latched page, and KILL ends it.
fn going_on(env: &Env) -> impl FnMut() -> SqlResult<()> + '_ {
    || {
        if latch::held() == 0 {
            fiber::tick();
        }
        env.check_interrupt()
    }
}

/// Functions that may take as long as the lengths of two of their arguments multiplied: they are kept from rows on latched
/// pages.
pub const MAY_TAKE_LONG: &[&str] = &[
    "json_contains",
    "json_contains_path",
    "json_merge",
    "json_merge_patch",
    "json_merge_preserve",
    "json_search",
];

/// A result written again, with a space behind commas and colons; faults are those of argument 1.
fn loose_result(text: &[u8], function: &str, cx: &mut EvalContext<'_, '_>) -> SqlResult<Value> {
    let mut out = Vec::new();
    match format::rewrite(text, Style::Loose, longest(cx), &mut out) {
        Ok(()) => result(out, function, cx),
        Err(fault) => bad_text(cx, fault, 1, function),
    }
}

/// Whether a function that takes pairs of arguments got one too few.
pub fn lacks_partner(function: &Function, count: usize) -> bool {
    match function.name {
        "json_object" => !count.is_multiple_of(2),
        "json_set" | "json_insert" | "json_replace" | "json_array_append" | "json_array_insert" => {
            count.is_multiple_of(2)
        }
        _ => false,
    }
}

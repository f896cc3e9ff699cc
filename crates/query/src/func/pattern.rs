//! REGEXP and its functions.
//!
//! Patterns compile once per execution where they are constant: the call's last argument, added when it is bound, is the
//! cell that keeps the compiled one, or -1. MariaDB's library is PCRE; this is the `regex` crate: no look-around, no back
//! references, linear time.

use keel_base::{SqlError, SqlResult, errors};
use keel_value::collation::Charset;
use keel_value::{CollationId, SqlType, TypeKind, Value, collation};
use regex::bytes::{Regex, RegexBuilder};

use super::string::too_long;
use super::{Function, any_nullable, cell_of, function, given, int, unify};
use crate::bind::BindContext;
use crate::expr::frame::Kept;
use crate::expr::typing::{string_type, text_chars};
use crate::expr::{EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("regexp", 2, 2, regexp_type, regexp),
    function!("regexp_instr", 2, 2, instr_type, regexp_instr),
    function!(text "regexp_substr", 2, 2, substr_type, regexp_substr),
    function!(text "regexp_replace", 3, 3, replace_type, regexp_replace),
];

/// Bytes that a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Gives the first `count` arguments one collation, and its name. Patterns and texts of sets that are not UTF-8 are converted to it.
fn unify_patterns(cx: &BindContext<'_>, args: &mut [Expr], count: usize, op: &str) -> SqlResult<CollationId> {
    let collation = unify(cx, args, 0..count, op)?;
    if !collation.charset().is_utf8() {
        let by = match collation::is_case_sensitive(collation) {
            true => CollationId::UTF8MB4_BIN,
            false => CollationId::UTF8MB4_GENERAL_CI,
        };
        for arg in &mut args[..count] {
            let taken = std::mem::replace(arg, Expr::null());
            *arg = crate::bind::to_charset(taken, by);
        }
    }
    Ok(collation)
}

/// A result that was found in UTF-8 in the character set of its type.
fn in_charset(ty: &SqlType, text: Vec<u8>) -> Value {
    let charset = ty.collation.charset();
    if charset.is_utf8() {
        return Value::Bytes(text.into());
    }
    Value::bytes(&collation::convert(Charset::Utf8mb4, charset, &text).0)
}

fn regexp_type(cx: &BindContext<'_>, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let nullable = any_nullable(&args[..2]);
    unify_patterns(cx, args, 2, "regexp")?;
    Ok((crate::expr::boolean_type(), nullable))
}

fn instr_type(cx: &BindContext<'_>, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let nullable = any_nullable(&args[..2]);
    unify_patterns(cx, args, 2, "regexp_instr")?;
    Ok((int(11), nullable))
}

fn substr_type(cx: &BindContext<'_>, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = unify_patterns(cx, args, 2, "regexp_substr")?;
    Ok((string_type(u64::from(text_chars(&args[0].ty)), collation), true))
}

fn replace_type(cx: &BindContext<'_>, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = unify_patterns(cx, args, 3, "regexp_replace")?;
    let kind = if collation == CollationId::BINARY { TypeKind::MediumBlob } else { TypeKind::MediumText };
    Ok((SqlType::new(kind).with_collation(collation), true))
}

fn compile(pattern: &[u8], by: CollationId) -> SqlResult<Regex> {
    let text = std::str::from_utf8(pattern).map_err(|_| bad_pattern("pattern is not UTF-8"))?;
    RegexBuilder::new(text)
        .case_insensitive(!collation::is_case_sensitive(by))
        .unicode(by != CollationId::BINARY)
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| bad_pattern(&error.to_string()))
}

fn bad_pattern(text: &str) -> SqlError {
    errors::regexp_error(text.lines().last().unwrap_or(text))
}

/// The compiled pattern of a call; None is NULL.
fn with_pattern<'f, T>(
    args: &'f [Expr],
    cx: &mut EvalContext<'_, 'f>,
    run: impl FnOnce(&Regex) -> T,
) -> SqlResult<Option<T>> {
    let by = super::search::common_collation(&args[0], &args[1]);
    let Some(kept) = cell_of(args, cx) else {
        let Some(pattern) = args[1].text(cx)? else { return Ok(None) };
        return Ok(Some(run(&compile(&pattern, by)?)));
    };
    if kept.get().is_none() {
        let compiled = match args[1].text(cx)? {
            Some(pattern) => Some(Box::new(compile(&pattern, by)?)),
            None => None,
        };
        let _ = kept.set(Kept::Regex(compiled));
    }
    match kept.get() {
        Some(Kept::Regex(compiled)) => Ok(compiled.as_deref().map(run)),
        _ => unreachable!("the cell holds a pattern"),
    }
}

fn regexp<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let found = given!(with_pattern(args, cx, |regex| regex.is_match(&text))?);
    Ok(Value::Int(i64::from(found)))
}

fn regexp_instr<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let by = args[0].ty.collation;
    let place = given!(with_pattern(args, cx, |regex| regex.find(&text).map(|m| m.start()))?);
    Ok(Value::Int(place.map_or(0, |at| collation::char_len(by, &text[..at]) as i64 + 1)))
}

fn regexp_substr<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let found = given!(with_pattern(args, cx, |regex| regex.find(&text).map(|m| m.range()))?);
    Ok(in_charset(ty, found.map_or(Vec::new(), |range| text[range].to_vec())))
}

fn regexp_replace<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let with = given!(args[2].text(cx)?);
    // MariaDB writes groups as \1; `$` has no meaning in its replacements.
    let mut template = Vec::with_capacity(with.len());
    let mut rest = with.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'$' => template.extend_from_slice(b"$$"),
            b'\\' => match rest.next() {
                Some(digit) if digit.is_ascii_digit() => {
                    template.extend_from_slice(&[b'$', b'{', *digit, b'}'])
                }
                Some(other) => template.push(*other),
                None => template.push(b'\\'),
            },
            other => template.push(*other),
        }
    }
    // Each place may bring as much as a packet: what is too long for one stops here.
    let max = cx.session.vars.max_allowed_packet;
    let replaced = given!(with_pattern(args, cx, |regex| {
        let (mut out, mut end) = (Vec::new(), 0);
        // A match of nothing ends the search, as in MariaDB.
        while let Some(found) = regex.captures_at(&text, end) {
            let place = found.get(0).map_or(end..end, |whole| whole.range());
            if place.is_empty() || out.len() as u64 > max {
                break;
            }
            out.extend_from_slice(&text[end..place.start]);
            found.expand(&template, &mut out);
            end = place.end;
        }
        out.extend_from_slice(&text[end..]);
        out
    })?);
    if too_long("regexp_replace", replaced.len() as u64, cx)? {
        return Ok(Value::Null);
    }
    Ok(in_charset(ty, replaced))
}

//! REGEXP and its functions.
//!
//! Patterns compile once per execution where they are constant: the call's last argument, added when it is bound, is the
//! cell that keeps the compiled one, or -1. The library is PCRE2, as MariaDB's; its limit of matches bounds the time that a
//! pattern takes.

use std::ops::Range;

use keel_base::{SqlResult, errors};
use keel_value::collation::Charset;
use keel_value::{CollationId, SqlMode, SqlType, Value, collation};
use pcre2::bytes::{Match, Regex, RegexBuilder};

use super::away::{Pace, long};
use super::string::too_long;
use super::{Function, any_nullable, cell_of, function, given, int, unify};
use crate::frame::Kept;
use crate::typing::{string_type, text_chars};
use crate::{Env, EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("regexp", 2, 2, regexp_type, regexp),
    function!("regexp_instr", 2, 2, instr_type, regexp_instr),
    function!(text "regexp_substr", 2, 2, substr_type, regexp_substr),
    function!(text "regexp_replace", 3, 3, replace_type, regexp_replace),
];

/// Gives the first `count` arguments one collation, and its name. Patterns and texts of sets that are not UTF-8 are converted to it.
fn unify_patterns(cx: &Env, args: &mut [Expr], count: usize, op: &str) -> SqlResult<CollationId> {
    let collation = unify(cx, args, 0..count, op)?;
    if !collation.charset().is_utf8() {
        let by = match collation::is_case_sensitive(collation) {
            true => CollationId::UTF8MB4_BIN,
            false => CollationId::UTF8MB4_GENERAL_CI,
        };
        for arg in &mut args[..count] {
            let taken = std::mem::replace(arg, Expr::null());
            *arg = super::typing::to_charset(taken, by);
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

fn regexp_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let nullable = any_nullable(&args[..2]);
    unify_patterns(cx, args, 2, "regexp")?;
    Ok((crate::boolean_type(), nullable))
}

fn instr_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let nullable = any_nullable(&args[..2]);
    unify_patterns(cx, args, 2, "regexp_instr")?;
    Ok((int(11), nullable))
}

fn substr_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = unify_patterns(cx, args, 2, "regexp_substr")?;
    Ok((string_type(u64::from(text_chars(&args[0])), collation), true))
}

/// Most bytes that MariaDB describes for a text with replacements.
const REPLACED_OCTETS: u64 = 16_777_216;

fn replace_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = unify_patterns(cx, args, 3, "regexp_replace")?;
    Ok((string_type(REPLACED_OCTETS / u64::from(collation.charset().max_bytes()), collation), true))
}

fn compile(pattern: &[u8], by: CollationId, flags: &str) -> SqlResult<Regex> {
    let text = std::str::from_utf8(pattern).map_err(|_| errors::regexp_error("pattern is not UTF-8"))?;
    // Verbs such as (*UCP) stand before anything else.
    let mut start = 0;
    while let Some(length) = text[start..].strip_prefix("(*").and_then(|rest| rest.find(')')) {
        start += length + "(*)".len();
    }
    let with_flags = format!("{}{flags}{}", &text[..start], &text[start..]);
    let is_text = by != CollationId::BINARY;
    RegexBuilder::new()
        .caseless(!collation::is_case_sensitive(by))
        .utf(is_text)
        .ucp(is_text)
        .jit_if_available(true)
        .build(&with_flags)
        .map_err(|error| {
            let shown = error.to_string();
            let offset = error.offset().unwrap_or(0);
            let prefix = format!("PCRE2: error compiling pattern at offset {offset}: ");
            let shown = shown.strip_prefix(&prefix).unwrap_or(&shown);
            let offset = if offset > start { offset.saturating_sub(flags.len()) } else { offset };
            errors::regexp_error(format!("{shown} at offset {offset}"))
        })
}

/// What a search found; one that had to be given up found nothing, with a warning.
fn found<T>(result: Result<T, pcre2::Error>, cx: &mut EvalContext<'_, '_>) -> Option<T> {
    let shown = |error: pcre2::Error| {
        let shown = error.to_string();
        let reason = shown.strip_prefix("PCRE2: error matching: ").unwrap_or(&shown);
        cx.env_mut().warn(errors::regexp_error(format!("pcre2_match: {reason}")));
    };
    result.map_err(shown).ok()
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
        return match compile(&pattern, by, &cx.env().vars.regex_flags) {
            // Of patterns that differ from row to row MariaDB takes a bad one for NULL.
            Err(_) if !args[1].is_constant() => Ok(None),
            compiled => Ok(Some(run(&compiled?))),
        };
    };
    if kept.get().is_none() {
        let compiled = match args[1].text(cx)? {
            Some(pattern) => Some(Box::new(compile(&pattern, by, &cx.env().vars.regex_flags)?)),
            None => None,
        };
        let _ = kept.set(Kept::Regex(compiled));
    }
    match kept.get() {
        Some(Kept::Regex(compiled)) => Ok(compiled.as_deref().map(run)),
        _ => unreachable!("the cell holds a pattern"),
    }
}

/// Runs a search of a text.
fn searched<T: Send>(text: &[u8], search: impl FnOnce() -> T + Send) -> T {
    long(Pace::Search, text.len(), search)
}

fn regexp<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let is_match = given!(with_pattern(args, cx, |regex| searched(&text, || regex.is_match(&text)))?);
    Ok(Value::Int(i64::from(found(is_match, cx).unwrap_or(false))))
}

fn regexp_instr<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let by = args[0].ty.collation;
    let place = given!(with_pattern(args, cx, |regex| {
        searched(&text, || regex.find(&text).map(|m| m.map(|m| m.start())))
    })?);
    let place = found(place, cx).flatten();
    Ok(Value::Int(place.map_or(0, |at| collation::char_len(by, &text[..at]) as i64 + 1)))
}

fn regexp_substr<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let place = given!(with_pattern(args, cx, |regex| {
        searched(&text, || regex.find(&text).map(|m| m.map(range_of)))
    })?);
    let place = found(place, cx).flatten();
    Ok(in_charset(ty, place.map_or(Vec::new(), |range| text[range].to_vec())))
}

fn range_of(found: Match<'_>) -> Range<usize> {
    found.start()..found.end()
}

/// A part of a replacement.
enum Piece {
    Text(Vec<u8>),
    Group(usize),
}

/// The parts of a replacement: groups are written as \1, a backslash otherwise takes the meaning of what follows away.
fn pieces_of(with: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut rest = with.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => match rest.next() {
                Some(digit) if digit.is_ascii_digit() => {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                    pieces.push(Piece::Group(usize::from(digit - b'0')));
                }
                Some(other) => text.push(*other),
                None => text.push(b'\\'),
            },
            other => text.push(*other),
        }
    }
    pieces.push(Piece::Text(text));
    pieces
}

fn regexp_replace<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let with = given!(args[2].text(cx)?);
    let pieces = pieces_of(&with);
    // Each place may bring as much as a packet: what is too long for one stops here.
    let max = cx.env().vars.max_allowed_packet;
    let replace = |regex: &Regex| -> Result<Vec<u8>, pcre2::Error> {
        let (mut out, mut end) = (Vec::new(), 0);
        let mut groups = regex.capture_locations();
        // A match of nothing ends the search, as in MariaDB.
        while let Some(place) = regex.captures_read_at(&mut groups, &text, end)?.map(range_of) {
            if place.is_empty() || out.len() as u64 > max {
                break;
            }
            out.extend_from_slice(&text[end..place.start]);
            for piece in &pieces {
                match piece {
                    Piece::Text(text) => out.extend_from_slice(text),
                    Piece::Group(group) => {
                        let (from, to) = groups.get(*group).unwrap_or_default();
                        out.extend_from_slice(&text[from..to]);
                    }
                }
            }
            end = place.end;
        }
        out.extend_from_slice(&text[end..]);
        Ok(out)
    };
    let replaced = given!(with_pattern(args, cx, |regex| searched(&text, || replace(regex)))?);
    let replaced = found(replaced, cx).unwrap_or_else(|| text.to_vec());
    if too_long("regexp_replace", replaced.len() as u64, cx)? {
        return Ok(Value::Null);
    }
    Ok(in_charset(ty, replaced))
}

/// LIKE with an escape character that the statement works out: the value, the pattern and the escape.
pub static LIKE_ESCAPE: Function = function!("like", 3, 3, |_, _| Ok((int(1), true)), like_escape);

/// The only character of ESCAPE; the backslash where it is empty, unless it is no escape in this mode. 1210 where there are
/// more.
pub fn escape_of(text: &[u8], mode: SqlMode) -> SqlResult<Option<char>> {
    let text = String::from_utf8_lossy(text);
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (None, _) if !mode.has(SqlMode::NO_BACKSLASH_ESCAPES) => Ok(Some('\\')),
        (Some(escape), None) => Ok(Some(escape)),
        _ => Err(errors::wrong_arguments("ESCAPE")),
    }
}

fn like_escape<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let mode = cx.env().vars.sql_mode;
    let escape = match args[2].text(cx)? {
        Some(text) => escape_of(&text, mode)?,
        None => Some('\\'),
    };
    let text = given!(args[0].text(cx)?);
    let pattern = given!(args[1].text(cx)?);
    let matches = collation::like_match(args[0].ty.collation, &text, &pattern, escape);
    Ok(Value::Int(i64::from(matches)))
}

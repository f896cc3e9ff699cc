//! Functions that make strings out of strings.

use std::borrow::Cow;

use keel_base::{SqlResult, errors};
use keel_storage::runtime::fiber;
use keel_value::types::Class;
use keel_value::{CollationId, SqlType, Value, collation};

use super::away::{Pace, long};
use super::{Function, any_nullable, function, given, int, known_integer, or_null, text_value, unify};
use crate::typing::{self, string_type, text_chars, text_octets};
use crate::{Env, EvalContext, Expr};

const ANY: usize = usize::MAX;

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!(text "concat", 1, ANY, concat_type, concat),
    function!(text "concat_ws", 2, ANY, concat_ws_type, concat_ws),
    function!("length", 1, 1, length_type, |_, a, cx| Ok(or_null(a[0].text(cx)?, |t| Value::Int(
        t.len() as i64
    )))),
    function!("lengthb", 1, 1, length_type, |_, a, cx| {
        Ok(or_null(a[0].text(cx)?, |t| Value::Int(t.len() as i64)))
    }),
    function!("octet_length", 1, 1, length_type, |_, a, cx| {
        Ok(or_null(a[0].text(cx)?, |t| Value::Int(t.len() as i64)))
    }),
    function!(
        "bit_length",
        1,
        1,
        |_, a| Ok((SqlType::bigint().with_length(11), any_nullable(a))),
        |_, a, cx| { Ok(or_null(a[0].text(cx)?, |t| Value::Int(t.len() as i64 * 8))) }
    ),
    function!("char_length", 1, 1, length_type, char_length),
    function!("character_length", 1, 1, length_type, char_length),
    function!(text "substring", 2, 3, substring_type, substring),
    function!(text "left", 2, 2, side_type, left),
    function!(text "right", 2, 2, side_type, right),
    function!(text "upper", 1, 1, case_type, upper),
    function!(text "ucase", 1, 1, case_type, upper),
    function!(text "lower", 1, 1, case_type, lower),
    function!(text "lcase", 1, 1, case_type, lower),
    function!(text "trim", 1, 2, trim_type, |ty, a, cx| trim(ty, a, cx, true, true)),
    function!(text "ltrim", 1, 2, trim_type, |ty, a, cx| trim(ty, a, cx, true, false)),
    function!(text "rtrim", 1, 2, trim_type, |ty, a, cx| trim(ty, a, cx, false, true)),
    function!(text "lpad", 2, 3, pad_type, |ty, a, cx| pad(ty, a, cx, true)),
    function!(text "rpad", 2, 3, pad_type, |ty, a, cx| pad(ty, a, cx, false)),
    function!(text "repeat", 2, 2, repeat_type, repeat),
    function!(text "space", 1, 1, space_type, space),
    function!(text "replace", 3, 3, replace_type, replace),
    function!(text "reverse", 1, 1, same_text, reverse),
    function!(text "insert", 4, 4, insert_type, insert),
    function!(text "substring_index", 3, 3, substring_index_type, substring_index),
    function!("elt", 2, ANY, elt_type, elt),
    function!(text "make_set", 2, ANY, make_set_type, make_set),
    function!(text "export_set", 3, 5, export_set_type, export_set),
    function!(text "quote", 1, 1, quote_type, quote),
    function!(text "soundex", 1, 1, soundex_type, soundex),
];

fn length_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((int(10), any_nullable(args)))
}

fn chars(arg: &Expr) -> u64 {
    u64::from(text_chars(arg))
}

/// A result longer than a packet is NULL with 1301. Asked while the result grows, so that it never takes much more than a packet.
pub(super) fn too_long(name: &str, octets: u64, cx: &mut EvalContext<'_, '_>) -> SqlResult<bool> {
    let max = cx.env().vars.max_allowed_packet;
    if octets <= max {
        cx.executor.hold_long(octets)?;
        return Ok(false);
    }
    cx.warn(errors::warn_allowed_packet_overflowed(name, max))?;
    Ok(true)
}

pub(super) fn concat_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let count = args.len();
    let collation = unify(cx, args, 0..count, "concat")?;
    Ok((string_type(args.iter().map(chars).sum(), collation), true))
}

fn concat<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let mut out = Vec::new();
    for arg in args {
        out.extend_from_slice(&given!(arg.text(cx)?));
        if too_long("concat", out.len() as u64, cx)? {
            return Ok(Value::Null);
        }
    }
    Ok(Value::Bytes(out.into()))
}

fn concat_ws_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let count = args.len();
    let collation = unify(cx, args, 0..count, "concat_ws")?;
    let separators = chars(&args[0]) * (count as u64 - 2);
    Ok((string_type(args[1..].iter().map(chars).sum::<u64>() + separators, collation), true))
}

fn concat_ws<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let separator = given!(args[0].text(cx)?);
    let mut out = Vec::new();
    let mut first = true;
    for arg in &args[1..] {
        if let Some(text) = arg.text(cx)? {
            if !first {
                out.extend_from_slice(&separator);
            }
            first = false;
            out.extend_from_slice(&text);
            if too_long("concat_ws", out.len() as u64, cx)? {
                return Ok(Value::Null);
            }
        }
    }
    Ok(Value::Bytes(out.into()))
}

fn char_length<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    Ok(Value::Int(collation::char_len(args[0].ty.collation, &text) as i64))
}

/// The collation of an argument as text: numbers print in ASCII, which every character set shares.
fn collation_of(cx: &Env, arg: &Expr) -> CollationId {
    match arg.class() {
        Class::String => arg.ty.collation,
        Class::Null => CollationId::BINARY,
        Class::Int if arg.ty.is_octets_of_bits() => CollationId::BINARY,
        _ => cx.vars.connection_collation,
    }
}

pub(super) fn substring_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = collation_of(cx, &args[0]);
    // MariaDB takes the bytes of its argument for characters here.
    let mut length = text_octets(&args[0]);
    match known_integer(&args[1]) {
        Some(0) => length = 0,
        Some(from) if from > 0 => length = length.saturating_sub(from as u64 - 1),
        Some(from) => length = length.min(from.unsigned_abs()),
        None => {}
    }
    if let Some(count) = args.get(2).and_then(known_integer) {
        length = length.min(count.max(0) as u64);
    }
    Ok((string_type(length, collation), true))
}

fn substring<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    substring_from(ty, args, cx, false)
}

/// SUBSTRING; with `zero_is_first` position 0 is the first.
pub(super) fn substring_from<'f>(
    ty: &'f SqlType,
    args: &'f [Expr],
    cx: &mut EvalContext<'_, 'f>,
    zero_is_first: bool,
) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let from = match given!(args[1].int64(cx)?) {
        0 if zero_is_first => 1,
        from => from,
    };
    let count = match args.get(2) {
        Some(arg) => given!(arg.int64(cx)?),
        None => i64::MAX,
    };
    if from == 0 || count <= 0 {
        return Ok(text_value(""));
    }
    let start = if from > 0 {
        from as usize - 1
    } else {
        let length = collation::char_len(ty.collation, &text);
        match length.checked_sub(from.unsigned_abs() as usize) {
            Some(start) => start,
            None => return Ok(text_value("")),
        }
    };
    Ok(text_value(collation::substring(ty.collation, &text, start, count as usize)))
}

fn side_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = collation_of(cx, &args[0]);
    let length = known_integer(&args[1]).map_or(chars(&args[0]), |n| chars(&args[0]).min(n.max(0) as u64));
    Ok((string_type(length, collation), true))
}

fn left<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let count = given!(args[1].int64(cx)?);
    Ok(text_value(collation::substring(ty.collation, &text, 0, count.max(0) as usize)))
}

fn right<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let count = given!(args[1].int64(cx)?).max(0) as usize;
    let length = collation::char_len(ty.collation, &text);
    Ok(text_value(collation::substring(ty.collation, &text, length.saturating_sub(count), count)))
}

fn same_text(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((string_type(chars(&args[0]), collation_of(cx, &args[0])), true))
}

/// Letters of other case may be longer in some collations.
fn case_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = collation_of(cx, &args[0]);
    Ok((string_type(chars(&args[0]) * collation::case_growth(collation), collation), true))
}

fn upper<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    Ok(Value::Bytes(long(Pace::Digest, text.len(), || collation::upper(ty.collation, &text)).into()))
}

fn lower<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    Ok(Value::Bytes(long(Pace::Digest, text.len(), || collation::lower(ty.collation, &text)).into()))
}

pub(super) fn trim_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    // Without a text to look for nothing is compared.
    let Some(what) = args.get(1) else { return same_text(cx, args) };
    let connection = cx.vars.connection_collation;
    typing::compared_collation(&[what, &args[0]], connection, "trim")?;
    let collation = unify(cx, args, 0..2, "trim")?;
    Ok((string_type(chars(&args[0]), collation), true))
}

pub(super) fn trim<'f>(
    _: &'f SqlType,
    args: &'f [Expr],
    cx: &mut EvalContext<'_, 'f>,
    leading: bool,
    trailing: bool,
) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let what = match args.get(1) {
        Some(arg) => given!(arg.text(cx)?),
        None => Cow::Borrowed(&b" "[..]),
    };
    let mut rest: &[u8] = &text;
    if what.is_empty() {
        return Ok(text_value(rest));
    }
    while leading && let Some(shorter) = rest.strip_prefix(&*what) {
        rest = shorter;
    }
    while trailing && let Some(shorter) = rest.strip_suffix(&*what) {
        rest = shorter;
    }
    Ok(text_value(rest))
}

pub(super) fn pad_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = if args.len() == 3 {
        args.swap(1, 2);
        let collation = unify(cx, args, 0..2, "lpad");
        args.swap(1, 2);
        collation?
    } else {
        collation_of(cx, &args[0])
    };
    let length = known_integer(&args[1]).map_or(16_777_216, |n| n.max(0) as u64);
    Ok((string_type(length, collation), true))
}

pub(super) fn pad<'f>(
    ty: &'f SqlType,
    args: &'f [Expr],
    cx: &mut EvalContext<'_, 'f>,
    before: bool,
) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let length = given!(args[1].int64(cx)?);
    let filler = match args.get(2) {
        Some(arg) => given!(arg.text(cx)?),
        None => Cow::Borrowed(&b" "[..]),
    };
    let Ok(length) = usize::try_from(length) else { return Ok(Value::Null) };
    let have = collation::char_len(ty.collation, &text);
    if length <= have {
        return Ok(text_value(collation::substring(ty.collation, &text, 0, length)));
    }
    let unit = collation::char_len(ty.collation, &filler);
    if unit == 0 {
        return Ok(Value::Null);
    }
    let missing = length - have;
    let bytes = text.len() as u64 + (missing as u64).div_ceil(unit as u64) * filler.len() as u64;
    if too_long(if before { "lpad" } else { "rpad" }, bytes, cx)? {
        return Ok(Value::Null);
    }
    let out = long(Pace::Copy, bytes as usize, || {
        let mut padding = filler.repeat(missing / unit);
        padding.extend_from_slice(collation::substring(ty.collation, &filler, 0, missing % unit));
        if before { [&padding, &*text].concat() } else { [&*text, &padding].concat() }
    });
    Ok(Value::Bytes(out.into()))
}

fn repeat_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = collation_of(cx, &args[0]);
    let length =
        known_integer(&args[1]).map_or(16_777_216, |n| chars(&args[0]).saturating_mul(n.max(0) as u64));
    Ok((string_type(length.min(u64::from(u32::MAX)), collation), true))
}

fn repeat<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let count = given!(args[1].int64(cx)?).max(0) as u64;
    if too_long("repeat", (text.len() as u64).saturating_mul(count), cx)? {
        return Ok(Value::Null);
    }
    let repeated = match text.len().saturating_mul(count as usize) {
        0 => Vec::new(),
        bytes => long(Pace::Copy, bytes, || text.repeat(count as usize)),
    };
    Ok(Value::Bytes(repeated.into()))
}

fn space_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let length = known_integer(&args[0]).map_or(16_777_216, |n| n.max(0) as u64);
    Ok((string_type(length, cx.vars.connection_collation), true))
}

fn space<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let count = given!(args[0].int64(cx)?).max(0) as u64;
    if too_long("space", count, cx)? {
        return Ok(Value::Null);
    }
    Ok(Value::Bytes(long(Pace::Copy, count as usize, || vec![b' '; count as usize]).into()))
}

pub(super) fn replace_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = unify(cx, args, 0..3, "replace")?;
    let growth = chars(&args[2]).saturating_sub(chars(&args[1]));
    let times = chars(&args[0]) / chars(&args[1]).max(1);
    let length = chars(&args[0]).saturating_add(times.saturating_mul(growth)).min(u64::from(u32::MAX));
    Ok((string_type(length, collation), true))
}

fn replace<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let from = given!(args[1].text(cx)?);
    // Where bytes are compared NULL counts only if there is something to replace.
    let by_octets = collation::is_binary(ty.collation) || ty.collation.charset().max_bytes() == 1;
    if from.is_empty() || by_octets && super::search::find(&text, &from).is_none() {
        return Ok(text_value(&text));
    }
    let to = given!(args[2].text(cx)?);
    replaced(&text, &from, &to, cx)
}

/// `text` with `to` in every place of `from`.
pub(super) fn replaced(
    text: &[u8],
    from: &[u8],
    to: &[u8],
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Value> {
    if from.is_empty() {
        return Ok(text_value(text));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest: &[u8] = text;
    while let Some(at) = super::search::find(rest, from) {
        fiber::tick();
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + from.len()..];
        if too_long("replace", out.len() as u64, cx)? {
            return Ok(Value::Null);
        }
    }
    out.extend_from_slice(rest);
    Ok(Value::Bytes(out.into()))
}

fn reverse<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let is_single = ty.collation.charset().max_bytes() == 1;
    let reversed = long(Pace::Digest, text.len(), || match is_single {
        true => text.iter().rev().copied().collect(),
        false => String::from_utf8_lossy(&text).chars().rev().collect::<String>().into_bytes(),
    });
    Ok(Value::Bytes(reversed.into()))
}

fn insert_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    args.swap(1, 3);
    let collation = unify(cx, args, 0..2, "insert");
    args.swap(1, 3);
    Ok((string_type(chars(&args[0]) + chars(&args[3]), collation?), true))
}

fn insert<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let from = given!(args[1].int64(cx)?);
    let count = given!(args[2].int64(cx)?);
    let new = given!(args[3].text(cx)?);
    let length = collation::char_len(ty.collation, &text) as i64;
    if from < 1 || from > length {
        return Ok(text_value(&text));
    }
    let start = from as usize - 1;
    let count =
        if count < 0 || count > length - from + 1 { (length - from + 1) as usize } else { count as usize };
    let before = collation::substring(ty.collation, &text, 0, start);
    let gone = collation::substring(ty.collation, &text, start, count);
    let after = &text[before.len() + gone.len()..];
    if too_long("insert", (before.len() + new.len() + after.len()) as u64, cx)? {
        return Ok(Value::Null);
    }
    Ok(Value::Bytes([before, &new, after].concat().into()))
}

fn substring_index_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = unify(cx, args, 0..2, "substring_index")?;
    Ok((string_type(chars(&args[0]), collation), true))
}

fn substring_index<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let delimiter = given!(args[1].text(cx)?);
    let count = given!(args[2].int64(cx)?);
    if count == 0 || delimiter.is_empty() {
        return Ok(text_value(""));
    }
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    // MariaDB looks for delimiters from the end only where characters have one octet.
    if count < 0 && args[0].ty.collation.charset().max_bytes() == 1 {
        let mut rest = &text[..];
        for _ in 0..wanted {
            match rest.windows(delimiter.len()).rposition(|window| window == &*delimiter) {
                Some(at) => rest = &rest[..at],
                None => return Ok(text_value(&text)),
            }
        }
        return Ok(text_value(&text[rest.len() + delimiter.len()..]));
    }
    let mut places = Vec::new();
    let mut at = 0;
    while let Some(found) = super::search::find(&text[at..], &delimiter) {
        places.push(at + found);
        at += found + delimiter.len();
    }
    if wanted > places.len() {
        return Ok(text_value(&text));
    }
    Ok(text_value(if count > 0 {
        &text[..places[wanted - 1]]
    } else {
        &text[places[places.len() - wanted] + delimiter.len()..]
    }))
}

fn elt_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let count = args.len();
    let collation = unify(cx, args, 1..count, "elt")?;
    Ok((string_type(args[1..].iter().map(chars).max().unwrap_or(0), collation), true))
}

fn elt<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let index = given!(args[0].int64(cx)?);
    let Some(chosen) = usize::try_from(index).ok().filter(|i| *i > 0).and_then(|i| args.get(i)) else {
        return Ok(Value::Null);
    };
    Ok(text_value(given!(chosen.text(cx)?)))
}

fn make_set_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let count = args.len();
    let collation = unify(cx, args, 1..count, "make_set")?;
    let total: u64 = args[1..].iter().map(chars).sum();
    Ok((string_type(total + count as u64 - 2, collation), true))
}

/// The bits of a number, or of the integer that a text begins with.
fn set_bits<'f>(arg: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<u64>> {
    match arg.class() {
        Class::Int => super::bits(arg, cx),
        _ => Ok(arg.int64(cx)?.map(|bits| bits as u64)),
    }
}

fn make_set<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let bits = given!(set_bits(&args[0], cx)?);
    let mut out = Vec::new();
    let mut first = true;
    for (bit, arg) in args[1..].iter().take(64).enumerate() {
        if bits & (1 << bit) == 0 {
            continue;
        }
        if let Some(text) = arg.text(cx)? {
            if !first {
                out.push(b',');
            }
            first = false;
            out.extend_from_slice(&text);
            if too_long("make_set", out.len() as u64, cx)? {
                return Ok(Value::Null);
            }
        }
    }
    Ok(Value::Bytes(out.into()))
}

fn export_set_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let last = args.len().min(4);
    let collation = unify(cx, args, 1..last, "export_set")?;
    let widest = chars(&args[1]).max(chars(&args[2]));
    let separator = args.get(3).map_or(1, chars);
    Ok((string_type(widest * 64 + separator * 63, collation), true))
}

fn export_set<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let bits = given!(set_bits(&args[0], cx)?);
    let on = given!(args[1].text(cx)?);
    let off = given!(args[2].text(cx)?);
    let separator = match args.get(3) {
        Some(arg) => given!(arg.text(cx)?),
        None => Cow::Borrowed(&b","[..]),
    };
    let count = match args.get(4) {
        Some(arg) => match given!(arg.int64(cx)?) {
            count @ 0..=64 => count,
            _ => 64,
        },
        None => 64,
    };
    let mut out = Vec::new();
    for bit in 0..count {
        if bit > 0 {
            out.extend_from_slice(&separator);
        }
        out.extend_from_slice(if bits & (1 << bit) != 0 { &on } else { &off });
        if too_long("export_set", out.len() as u64, cx)? {
            return Ok(Value::Null);
        }
    }
    Ok(Value::Bytes(out.into()))
}

fn quote_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    // NULL gives the word NULL, which may be longer than any text of the argument.
    let least = if args[0].nullable { 4 } else { 0 };
    Ok((string_type((chars(&args[0]) * 2 + 2).max(least), collation_of(cx, &args[0])), true))
}

fn quote<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let Some(text) = args[0].text(cx)? else { return Ok(text_value("NULL")) };
    let mut out = vec![b'\''];
    for byte in text.iter() {
        match byte {
            0 => out.extend_from_slice(b"\\0"),
            0x1a => out.extend_from_slice(b"\\Z"),
            b'\'' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            other => out.push(*other),
        }
    }
    out.push(b'\'');
    if too_long("quote", out.len() as u64, cx)? {
        return Ok(Value::Null);
    }
    Ok(Value::Bytes(out.into()))
}

fn soundex_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((string_type(chars(&args[0]).max(4), collation_of(cx, &args[0])), true))
}

fn soundex<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let letters: Vec<char> = String::from_utf8_lossy(&text).chars().filter(|c| c.is_alphabetic()).collect();
    let Some(first) = letters.first() else { return Ok(text_value("")) };
    let mut out = first.to_ascii_uppercase().to_string();
    let mut last = soundex_code(*first);
    // Vowels do not part two letters of the same code.
    for code in letters[1..].iter().filter_map(|letter| soundex_code(*letter)) {
        if last != Some(code) {
            out.push(code);
            last = Some(code);
        }
    }
    while out.chars().count() < 4 {
        out.push('0');
    }
    Ok(text_value(out))
}

fn soundex_code(letter: char) -> Option<char> {
    Some(match letter.to_ascii_uppercase() {
        'B' | 'F' | 'P' | 'V' => '1',
        'C' | 'G' | 'J' | 'K' | 'Q' | 'S' | 'X' | 'Z' => '2',
        'D' | 'T' => '3',
        'L' => '4',
        'M' | 'N' => '5',
        'R' => '6',
        _ => return None,
    })
}

//! Functions that look into strings, compare them, and turn them into codes and back.

use keel_base::{SqlResult, errors};
use keel_storage::runtime::fiber;
use keel_value::types::{Class, Format};
use keel_value::{CollationId, FixedKind, SqlType, TypeKind, Value, ValueRef, collation};
use memchr::memmem;

use super::away::{Pace, long};
use super::string::too_long;
use super::{Function, any_nullable, as_64_bits, function, given, int, or_null, text_value, unify};
use crate::arith::to_bits;
use crate::typing::{self, STRING_DECIMALS, string_type, text_chars, text_octets};
use crate::{Comparison, Env, EvalContext, Expr, compare};

const ANY: usize = usize::MAX;

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("locate", 2, 3, locate_type, locate),
    function!("position", 2, 2, locate_type, locate),
    function!("instr", 2, 2, instr_type, |ty, a, cx| position(ty, &a[1], &a[0], None, cx)),
    function!("strcmp", 2, 2, strcmp_type, strcmp),
    function!("field", 2, ANY, field_type, field),
    function!("find_in_set", 2, 2, find_in_set_type, find_in_set),
    function!("ascii", 1, 1, |_, a| Ok((int(3), any_nullable(a))), |_, a, cx| {
        Ok(or_null(a[0].text(cx)?, |t| Value::Int(t.first().map_or(0, |b| i64::from(*b)))))
    }),
    function!("ord", 1, 1, |_, a| Ok((int(7), any_nullable(a))), ord),
    function!(text "char", 1, ANY, char_type, char_of),
    function!(text "chr", 1, 1, chr_type, |ty, a, cx| {
        given!(a[0].integer(cx)?);
        char_of(ty, a, cx)
    }),
    function!(text "hex", 1, 1, hex_type, hex),
    function!("unhex", 1, 1, unhex_type, unhex),
    function!("bin", 1, 1, conv_type, |_, a, cx| radix(&a[0], 2, cx)),
    function!("oct", 1, 1, conv_type, |_, a, cx| radix(&a[0], 8, cx)),
    function!("conv", 3, 3, conv_type, conv),
    function!(text "to_base64", 1, 1, to_base64_type, to_base64),
    function!("from_base64", 1, 1, from_base64_type, from_base64),
    function!("bit_count", 1, 1, |_, a| Ok((int(2), any_nullable(a))), |_, a, cx| {
        Ok(or_null(to_bits(&a[0], cx)?, |v| Value::Int(i64::from(v.count_ones()))))
    }),
    function!("last_value", 1, ANY, |_, a| Ok((a[a.len() - 1].ty.clone(), true)), last_value),
];

/// The last argument's value, behind what the others do: MariaDB asks each of them for an integer.
fn last_value<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let Some((last, others)) = args.split_last() else { return Ok(Value::Null) };
    for other in others {
        other.integer(cx)?;
    }
    Ok(last.eval(cx)?.into_value())
}

/// The first place of one octet string in another.
pub(crate) fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    memmem::find(text, what)
}

fn locate_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let nullable = any_nullable(args);
    // The text comes first in messages.
    typing::compared_collation(&[&args[1], &args[0]], cx.vars.connection_collation, "locate")?;
    unify(cx, args, 0..2, "locate")?;
    Ok((int(11), nullable))
}

fn instr_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let nullable = any_nullable(args);
    unify(cx, args, 0..2, "locate")?;
    Ok((int(11), nullable))
}

fn locate<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    position(ty, &args[0], &args[1], args.get(2), cx)
}

/// The collation that two unified operands compare by.
pub(super) fn common_collation(a: &Expr, b: &Expr) -> CollationId {
    let text = |e: &Expr| e.class() == Class::String;
    match (text(a), text(b)) {
        (true, true) => crate::typing::agree((a.ty.collation, a.derivation), (b.ty.collation, b.derivation))
            .map_or(a.ty.collation, |(collation, _)| collation),
        (true, false) => a.ty.collation,
        (false, true) => b.ty.collation,
        (false, false) => CollationId::UTF8MB4_GENERAL_CI,
    }
}

fn position<'f>(
    _: &'f SqlType,
    what: &'f Expr,
    within: &'f Expr,
    from: Option<&'f Expr>,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Value> {
    let collation = common_collation(what, within);
    let what = given!(what.text(cx)?);
    let text = given!(within.text(cx)?);
    let from = match from {
        Some(arg) => given!(arg.int64(cx)?),
        None => 1,
    };
    let length = collation::char_len(collation, &text);
    if from < 1 || from as usize > length + 1 {
        return Ok(Value::Int(0));
    }
    let found = collation::find(collation, &text, &what, from as usize - 1);
    Ok(Value::Int(found.map_or(0, |at| at as i64 + 1)))
}

/// Whether a text has another within, as a collation sees it.
pub(crate) fn has(by: CollationId, text: &[u8], what: &[u8]) -> bool {
    collation::find(by, text, what, 0).is_some()
}

fn strcmp_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let nullable = any_nullable(args);
    unify(cx, args, 0..2, "strcmp")?;
    Ok((int(2), nullable))
}

fn strcmp<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let by = common_collation(&args[0], &args[1]);
    let a = given!(args[0].text(cx)?);
    let b = given!(args[1].text(cx)?);
    Ok(Value::Int(collation::compare(by, &a, &b) as i64))
}

/// Whether FIELD() compares texts, of which NULL is one.
fn are_texts(args: &[Expr]) -> bool {
    args.iter().all(|a| matches!(a.class(), Class::String | Class::Null))
}

fn field_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    if are_texts(args) {
        let count = args.len();
        unify(cx, args, 0..count, "field")?;
    }
    Ok((int(3), false))
}

/// Dates and times among texts count as texts.
fn has_dates_as_texts(args: &[Expr]) -> bool {
    let is_text = |arg: &Expr| matches!(arg.class(), Class::String | Class::Null) || arg.ty.is_temporal();
    args.iter().any(|arg| arg.ty.is_temporal()) && args.iter().all(is_text)
}

fn field_of_texts<'f>(args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let mut texts = args.iter().filter(|arg| arg.class() == Class::String);
    let by = texts.next().map_or(CollationId::UTF8MB4_GENERAL_CI, |arg| arg.ty.collation);
    let wanted = match args[0].text(cx)? {
        Some(text) => text.to_vec(),
        None => return Ok(Value::Int(0)),
    };
    for (index, arg) in args.iter().enumerate().skip(1) {
        let text = arg.text(cx)?;
        if text.is_some_and(|text| collation::compare(by, &wanted, &text).is_eq()) {
            return Ok(Value::Int(index as i64));
        }
    }
    Ok(Value::Int(0))
}

fn field<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    if has_dates_as_texts(args) {
        return field_of_texts(args, cx);
    }
    let by = if are_texts(args) {
        let before = args[0].ty.collation;
        let all = args[1..].iter().fold((before, args[0].derivation), |found, arg| {
            typing::agree(found, (arg.ty.collation, arg.derivation)).unwrap_or(found)
        });
        Comparison::Text(all.0)
    } else if args.iter().all(|a| a.class() == Class::Int) {
        Comparison::Int
    } else if args.iter().all(|a| matches!(a.class(), Class::Int | Class::Decimal)) {
        Comparison::Decimal
    } else {
        Comparison::Real
    };
    let by = args.iter().find_map(|a| FixedKind::of(a.ty.kind)).map_or(by, Comparison::Fixed);
    let wanted = args[0].eval(cx)?;
    for (index, arg) in args.iter().enumerate().skip(1) {
        let value = arg.eval(cx)?;
        let order = compare::values(by, wanted.as_ref(), &args[0].ty, value.as_ref(), &arg.ty, cx)?;
        if order.is_some_and(|o| o.is_eq()) {
            return Ok(Value::Int(index as i64));
        }
    }
    Ok(Value::Int(0))
}

fn find_in_set_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let nullable = any_nullable(args);
    unify(cx, args, 0..2, "find_in_set")?;
    Ok((int(3), nullable))
}

fn find_in_set<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let by = common_collation(&args[0], &args[1]);
    let what = given!(args[0].text(cx)?);
    let set = given!(args[1].text(cx)?);
    if set.is_empty() || what.contains(&b',') {
        return Ok(Value::Int(0));
    }
    let is_wanted = |member: &[u8]| collation::compare(by, member, &what).is_eq();
    let Some(place) = set.split(|b| *b == b',').position(is_wanted) else {
        return Ok(Value::Int(0));
    };
    // A constant in a column of type SET: the answer is its bit, that is its place in the column's definition.
    let of_type = if args[1].ty.kind == TypeKind::Set && args[0].is_constant() {
        args[1].ty.members().iter().position(|member| is_wanted(member.as_bytes()))
    } else {
        None
    };
    Ok(Value::Int(of_type.unwrap_or(place) as i64 + 1))
}

fn ord<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let first = if args[0].ty.is_text() {
        collation::substring(args[0].ty.collation, &text, 0, 1)
    } else {
        &text[..text.len().min(1)]
    };
    Ok(Value::Int(first.iter().fold(0, |code, b| code << 8 | i64::from(*b))))
}

fn char_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((SqlType::varbinary(args.len() as u32 * 4).with_decimals(STRING_DECIMALS), true))
}

/// Bytes of the longest character.
const CHR_OCTETS_MAX: u32 = 4;

fn chr_type(cx: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = cx.vars.database_collation;
    let chars = CHR_OCTETS_MAX / collation.charset().max_bytes();
    Ok((SqlType::varchar(chars, collation).with_decimals(STRING_DECIMALS), true))
}

/// Bytes of a bad character that 1300 shows.
const BAD_OCTETS_SHOWN: usize = 3;

fn char_of<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let mut out = Vec::new();
    for arg in args {
        if let Some(code) = arg.integer(cx)?.map(as_64_bits) {
            let bytes = (code as u32).to_be_bytes();
            let skip = bytes.iter().take_while(|b| **b == 0).count().min(3);
            out.extend_from_slice(&ty.collation.charset().padded(&bytes[skip..]));
        }
    }
    let is_checked = ty.is_text() && ty.collation.charset() != collation::Charset::Ascii;
    let good = if is_checked { collation::well_formed_len(ty.collation, &out) } else { out.len() };
    if good < out.len() {
        let bad = out[good..].iter().take(BAD_OCTETS_SHOWN);
        let shown: String = bad.map(|octet| format!("{octet:02X}")).collect();
        cx.warn(errors::invalid_character_string(ty.collation.charset().name(), shown))?;
        if cx.env().is_strict() {
            return Ok(Value::Null);
        }
        out.truncate(good);
    }
    Ok(Value::Bytes(out.into()))
}

fn hex_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let chars = match args[0].class() {
        Class::String => (text_octets(&args[0]) * 2).min(u64::from(u32::MAX)),
        Class::Date | Class::Time | Class::DateTime | Class::Fixed(_) => u64::from(text_chars(&args[0])) * 2,
        Class::Int if args[0].ty.unsigned || args[0].ty.kind == TypeKind::Bit => {
            u64::from(args[0].ty.length) * 2
        }
        _ => 16,
    };
    Ok((string_type(chars, cx.vars.connection_collation).with_decimals(0), true))
}

fn hex<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    if matches!(args[0].class(), Class::Real | Class::Decimal) {
        let number = given!(args[0].real(cx)?);
        return Ok(text_value(format!("{:X}", bits_of_rounded(number))));
    }
    if args[0].ty.is_numeric() {
        let number = given!(args[0].integer(cx)?);
        return Ok(text_value(format!("{:X}", number as u64)));
    }
    if args[0].ty.is_fixed() {
        return Ok(match args[0].eval(cx)?.as_ref() {
            ValueRef::Fixed(v) => text_value(hex_text(v.octets())),
            _ => Value::Null,
        });
    }
    let text = given!(args[0].text(cx)?);
    if too_long("hex", text.len() as u64 * 2, cx)? {
        return Ok(Value::Null);
    }
    Ok(text_value(long(Pace::Digest, text.len(), || hex_text(&text))))
}

/// The 64 bits of a number's nearest integer, halves away from zero; all set where 64 bits do not hold it.
fn bits_of_rounded(number: f64) -> u64 {
    if number <= i64::MIN as f64 || number >= u64::MAX as f64 {
        return u64::MAX;
    }
    let rounded = number.round();
    if rounded < 0.0 { rounded as i64 as u64 } else { rounded as u64 }
}

/// Octets as hexadecimal digits in upper case.
pub(crate) fn hex_text(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).collect()
}

fn unhex_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let octets = text_octets(&args[0]).div_ceil(2);
    Ok((string_type(octets, CollationId::BINARY).with_decimals(0), true))
}

fn unhex<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let digit = |b: &u8| (*b as char).to_digit(16).map(|d| d as u8);
    let digits: Option<Vec<u8>> = long(Pace::Digest, text.len(), || text.iter().map(digit).collect());
    let digits = given!(digits);
    let odd = digits.len() % 2;
    let mut out = Vec::with_capacity(digits.len() / 2 + 1);
    if odd == 1 {
        out.push(digits[0]);
    }
    out.extend(digits[odd..].chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
    Ok(Value::Bytes(out.into()))
}

fn conv_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    if args[0].ty.kind == TypeKind::Bit {
        args[0].ty.format = Format::Digits;
    }
    let collation = cx.vars.connection_collation;
    Ok((SqlType::varchar(65, collation).with_decimals(STRING_DECIMALS), true))
}

fn radix<'f>(arg: &'f Expr, base: u32, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    if arg.class() == Class::Int {
        let number = given!(arg.integer(cx)?);
        return Ok(text_value(in_base(number as u64, base)));
    }
    let text = given!(arg.text(cx)?);
    Ok(convert_base(&text, 10, base as i64))
}

fn in_base(mut number: u64, base: u32) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = (number % u64::from(base)) as u32;
        digits.push(char::from_digit(digit, base).expect("bases are 2 to 36").to_ascii_uppercase());
        number /= u64::from(base);
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

fn conv<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let from = given!(args[1].int64(cx)?);
    let to = given!(args[2].int64(cx)?);
    Ok(convert_base(&text, from, to))
}

/// CONV(): digits read in one base and written in another; negative bases mean signed numbers.
fn convert_base(text: &[u8], from: i64, to: i64) -> Value {
    let base_of = |base: i64| u32::try_from(base.unsigned_abs()).ok().filter(|b| (2..=36).contains(b));
    let (Some(read), Some(written)) = (base_of(from), base_of(to)) else { return Value::Null };
    if text.is_empty() {
        return Value::Null;
    }
    let text = text.trim_ascii_start();
    let (negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let mut magnitude: u64 = 0;
    for digit in digits.iter().map_while(|b| (*b as char).to_digit(read)) {
        let next = magnitude.checked_mul(u64::from(read)).and_then(|m| m.checked_add(u64::from(digit)));
        magnitude = next.unwrap_or(u64::MAX);
    }
    let number = if negative { magnitude.wrapping_neg() } else { magnitude };
    if to < 0 && (number as i64) < 0 {
        return text_value(format!("-{}", in_base((number as i64).unsigned_abs(), written)));
    }
    text_value(in_base(number, written))
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// TO_BASE64 breaks its lines after so many characters.
const BASE64_LINE: usize = 76;

fn to_base64_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let octets = if args[0].class() == Class::String {
        text_octets(&args[0])
    } else {
        u64::from(text_chars(&args[0]))
    };
    let length = octets.div_ceil(3) * 4;
    Ok((string_type(length + length / BASE64_LINE as u64, cx.vars.connection_collation), true))
}

fn to_base64<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let digits = text.len().div_ceil(3) * 4;
    if too_long("to_base64", (digits + digits.saturating_sub(1) / BASE64_LINE) as u64, cx)? {
        return Ok(Value::Null);
    }
    let mut out: Vec<u8> = Vec::new();
    let mut column = 0;
    for chunk in text.chunks(3) {
        fiber::tick();
        if column == BASE64_LINE {
            out.push(b'\n');
            column = 0;
        }
        let mut bits = [0; 3];
        bits[..chunk.len()].copy_from_slice(chunk);
        let number = u32::from(bits[0]) << 16 | u32::from(bits[1]) << 8 | u32::from(bits[2]);
        for place in 0..4 {
            let digit = (number >> (18 - 6 * place)) & 63;
            out.push(if place <= chunk.len() { BASE64[digit as usize] } else { b'=' });
        }
        column += 4;
    }
    Ok(Value::Bytes(out.into()))
}

fn from_base64_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let octets = text_octets(&args[0]).div_ceil(4) * 3;
    let ty = string_type(octets, CollationId::BINARY);
    Ok((SqlType { kind: if ty.is_blob() { ty.kind } else { TypeKind::VarBinary }, ..ty }, true))
}

/// The digits without their padding, or where what is no digit stands.
fn base64_digits(text: &[u8]) -> Result<Vec<u32>, usize> {
    let mut digits = Vec::new();
    let mut padding = 0;
    for (place, byte) in text.iter().enumerate().filter(|(_, byte)| !byte.is_ascii_whitespace()) {
        let in_group = (digits.len() + padding) % 4;
        let is_over = padding > 0 && in_group == 0;
        match BASE64.iter().position(|digit| digit == byte) {
            Some(digit) if padding == 0 => digits.push(digit as u32),
            None if *byte == b'=' && in_group >= 2 && !is_over => padding += 1,
            _ => return Err(place),
        }
    }
    if (digits.len() + padding) % 4 == 0 { Ok(digits) } else { Err(text.len()) }
}

fn from_base64<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let digits = match long(Pace::Digest, text.len(), || base64_digits(&text)) {
        Ok(digits) => digits,
        Err(place) => {
            cx.warn(errors::bad_base64_data(place))?;
            return Ok(Value::Null);
        }
    };
    let mut out = Vec::new();
    for chunk in digits.chunks(4) {
        fiber::tick();
        let number = chunk.iter().fold(0, |n, d| n << 6 | d) << (6 * (4 - chunk.len()));
        out.extend_from_slice(&number.to_be_bytes()[1..chunk.len()]);
    }
    Ok(Value::Bytes(out.into()))
}

//! Assignment to CHAR, VARCHAR, BINARY, TEXT and BLOB columns, and to ENUM and SET.

use std::borrow::Cow;

use super::store_number::cast_double;
use super::{Problem, Stored, bent, exact};
use crate::collation::{self, Charset};
use crate::types::NOT_FIXED;
use crate::{Cell, CollationId, SqlType, TypeKind, Value, ValueRef, text};

/// At most so many octets of a string that does not convert are shown.
const SHOWN_OCTETS: usize = 6;

/// CHAR to LONGTEXT, BINARY to LONGBLOB.
pub(super) fn string<'a>(to: &SqlType, from: &SqlType, value: ValueRef<'a>) -> Stored<'a> {
    let mut fits = true;
    let (source, id) = match value {
        ValueRef::Bytes(bytes) => (Cow::Borrowed(bytes), from.collation),
        ValueRef::Fixed(v) if to.collation == CollationId::BINARY => {
            (Cow::Owned(v.octets().to_vec()), CollationId::BINARY)
        }
        _ if to.is_blob() => (Cow::Owned(shown(to, from, value, &mut fits)), text_collation(from)),
        _ if from.has_members() => (Cow::Owned(shown(to, from, value, &mut fits)), from.collation),
        _ => (Cow::Owned(shown(to, from, value, &mut fits)), CollationId::ASCII_GENERAL_CI),
    };
    let (converted, mut problem) = to_charset(to.collation, id, &source);
    problem = problem.or((!fits).then_some(Problem::TooLong));
    let kept = length_in(to, &converted);
    if kept < converted.len() {
        let only_spaces = is_padded(to) && converted[kept..].iter().all(|b| *b == b' ');
        problem = problem.or(match (only_spaces, to.kind) {
            (true, TypeKind::Char) => None,
            (true, _) => Some(Problem::TruncatedNote),
            _ => Some(Problem::TooLong),
        });
    }
    let stored = match to.kind {
        TypeKind::Char => trimmed(&converted[..kept]),
        _ => &converted[..kept],
    };
    let is_short = to.kind == TypeKind::Binary && stored.len() < to.length as usize;
    if !is_short && let (ValueRef::Bytes(bytes), Cow::Borrowed(_)) = (value, &converted) {
        return (Cell::Ref(ValueRef::Bytes(&bytes[..stored.len()])), problem);
    }
    let mut owned = stored.to_vec();
    if is_short {
        owned.resize(to.length as usize, 0);
    }
    (Cell::Owned(Value::Bytes(owned.into())), problem)
}

/// The text of a value that is none; doubles take as many digits as the column has room for. CHAR, VARCHAR and their
/// binary kinds get the number itself: bits and years as integers, FLOAT as DOUBLE, no leading zeros. TEXT and BLOB get
/// the text that a query shows.
fn shown(to: &SqlType, from: &SqlType, value: ValueRef<'_>, fits: &mut bool) -> Vec<u8> {
    let mut out = Vec::new();
    let width = to.length.min(300) as usize;
    let plain = !to.is_blob();
    match value {
        ValueRef::UInt(v) if plain && from.is_numeric() => text::append_u64(&mut out, v),
        ValueRef::Int(v) if plain && from.zerofill => text::append_u64(&mut out, v as u64),
        ValueRef::Float(v) if plain => *fits = text::append_f64_within(&mut out, f64::from(v), width),
        ValueRef::Double(v) if plain => *fits = text::append_f64_within(&mut out, v, width),
        ValueRef::Decimal(v) if plain => v.append_to(&mut out),
        ValueRef::Double(v) if from.decimals >= NOT_FIXED => {
            *fits = text::append_f64_within(&mut out, v, width)
        }
        ValueRef::Float(v) if from.decimals >= NOT_FIXED => {
            *fits = text::append_f32_within(&mut out, v, width)
        }
        // A quotient has its own digits, which may be more or fewer than its type's.
        ValueRef::Decimal(v) if !from.zerofill => v.append_to(&mut out),
        _ => text::append(&mut out, from, value),
    }
    out
}

/// The character set of a value's text.
fn text_collation(from: &SqlType) -> CollationId {
    match from.kind {
        TypeKind::Enum | TypeKind::Set => from.collation,
        TypeKind::Bit if from.is_octets_of_bits() => CollationId::BINARY,
        _ => CollationId::ASCII_GENERAL_CI,
    }
}

fn is_padded(to: &SqlType) -> bool {
    to.collation != CollationId::BINARY
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().rposition(|b| *b != b' ').map_or(0, |last| last + 1);
    &bytes[..len]
}

/// In the column's character set, whatever does not exist there as `?`.
fn to_charset<'b>(to: CollationId, from: CollationId, bytes: &'b [u8]) -> (Cow<'b, [u8]>, Option<Problem>) {
    let target = to.charset();
    if target == Charset::Binary || bytes.is_ascii() {
        return (Cow::Borrowed(bytes), None);
    }
    if from.charset() == Charset::Binary || from.charset() == target {
        let good = collation::well_formed_len(to, bytes);
        if good == bytes.len() {
            return (Cow::Borrowed(bytes), None);
        }
        return (Cow::Owned(repaired(to, bytes)), Some(incorrect(&bytes[good..])));
    }
    let (converted, lost) = collation::convert(from.charset(), target, bytes);
    if lost == 0 {
        return (converted, None);
    }
    let bad = first_lost(from.charset(), target, bytes);
    (converted, Some(incorrect(bad)))
}

/// With `?` for each octet that is no character.
pub fn repaired(id: CollationId, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let good = collation::well_formed_len(id, rest);
        out.extend_from_slice(&rest[..good]);
        rest = &rest[good..];
        if !rest.is_empty() {
            out.push(b'?');
            rest = &rest[1..];
        }
    }
    out
}

/// From the first character on that does not convert.
pub fn first_lost(from: Charset, to: Charset, bytes: &[u8]) -> &[u8] {
    let id = from.binary_collation();
    let mut rest = bytes;
    while !rest.is_empty() {
        let next = collation::substring(id, rest, 0, 1);
        if collation::convert(from, to, next).1 > 0 {
            break;
        }
        rest = &rest[next.len()..];
    }
    rest
}

/// `Incorrect string value: '\xF0\x9F...'`.
fn incorrect(bad: &[u8]) -> Problem {
    let mut value = String::new();
    for &octet in bad.iter().take(SHOWN_OCTETS) {
        if (b' '..0x7F).contains(&octet) {
            value.push(char::from(octet));
        } else {
            value.push_str(&format!("\\x{octet:02X}"));
        }
    }
    if bad.len() > SHOWN_OCTETS {
        value.push_str("...");
    }
    Problem::Incorrect { kind: "string", value }
}

/// How many octets of a text the column has room for.
fn length_in(to: &SqlType, bytes: &[u8]) -> usize {
    let room = to.length as usize;
    if bytes.len() <= room {
        return bytes.len();
    }
    if to.is_blob() {
        let cut = &bytes[..room];
        return if to.is_text() { collation::well_formed_len(to.collation, cut) } else { room };
    }
    collation::substring(to.collation, bytes, 0, room).len()
}

/// ENUM and SET.
pub(super) fn members<'a>(to: &SqlType, from: &SqlType, value: ValueRef<'a>) -> Stored<'a> {
    let number = match value {
        // What stands for a value that was none stays so.
        ValueRef::UInt(0) if from.kind == TypeKind::Enum && to.kind == TypeKind::Enum => {
            return exact(Value::UInt(0));
        }
        _ if from.has_members() => return member_text(to, from, value),
        ValueRef::Int(v) => v as u64,
        ValueRef::UInt(v) => v,
        ValueRef::Double(v) => cast_double(v) as u64,
        ValueRef::Float(v) => cast_double(f64::from(v)) as u64,
        ValueRef::Decimal(v) => cast_double(v.to_f64()) as u64,
        _ => return member_text(to, from, value),
    };
    if to.kind == TypeKind::Enum { enum_index(to, number) } else { set_mask(to, number) }
}

fn enum_index<'a>(to: &SqlType, index: u64) -> Stored<'a> {
    if index == 0 || index > to.members().len() as u64 {
        return bent(Value::UInt(0), Problem::Truncated);
    }
    exact(Value::UInt(index))
}

fn set_mask<'a>(to: &SqlType, mask: u64) -> Stored<'a> {
    let all = all_members(to);
    if mask & !all != 0 {
        return bent(Value::UInt(mask & all), Problem::Truncated);
    }
    exact(Value::UInt(mask))
}

fn all_members(to: &SqlType) -> u64 {
    match to.members().len() {
        0 => 0,
        n => u64::MAX >> (64 - n.min(64)),
    }
}

fn member_text<'a>(to: &SqlType, from: &SqlType, value: ValueRef<'_>) -> Stored<'a> {
    let mut bytes = Vec::new();
    text::append(&mut bytes, from, value);
    let id = if matches!(value, ValueRef::Bytes(_)) { from.collation } else { text_collation(from) };
    let (utf8, _) = collation::convert(id.charset(), Charset::Utf8mb4, &bytes);
    if to.kind == TypeKind::Enum { enum_of(to, &utf8) } else { set_of(to, &utf8) }
}

/// The position of a member, from 1.
fn find_member(to: &SqlType, name: &[u8]) -> Option<u64> {
    // Members are kept in UTF-8 whatever the column's character set is; they compare as texts of that set.
    let charset = to.collation.charset();
    let name = member_in(charset, name);
    let is_named =
        |member: &[u8]| collation::compare(to.collation, &member_in(charset, member), &name).is_eq();
    let position = to.members().iter().position(|member| is_named(member.as_bytes()));
    position.map(|i| i as u64 + 1)
}

/// A member's name in a character set. ASCII is the same in each that is not wide.
fn member_in(charset: Charset, name: &[u8]) -> Cow<'_, [u8]> {
    match charset {
        Charset::Utf8mb3 | Charset::Utf8mb4 => Cow::Borrowed(name),
        _ if !charset.is_wide() && name.is_ascii() => Cow::Borrowed(name),
        _ => collation::convert(Charset::Utf8mb4, charset, name).0,
    }
}

fn enum_of<'a>(to: &SqlType, name: &[u8]) -> Stored<'a> {
    if let Some(index) = find_member(to, name) {
        return exact(Value::UInt(index));
    }
    match whole_text_number(trimmed(name)) {
        Some(index) if index <= to.members().len() as u64 && index > 0 => exact(Value::UInt(index)),
        _ => bent(Value::UInt(0), Problem::Truncated),
    }
}

fn set_of<'a>(to: &SqlType, names: &[u8]) -> Stored<'a> {
    if names.is_empty() {
        return exact(Value::UInt(0));
    }
    // Blanks at the end of the whole text do not count, those behind a single name do.
    let names = trimmed(names);
    let found = names.split(|b| *b == b',').map(|name| match name {
        [.., b' '] => None,
        name => find_member(to, name),
    });
    let (mut mask, mut unknown) = (0u64, false);
    for member in found {
        match member {
            Some(n) => mask |= 1 << (n - 1).min(63),
            None => unknown = true,
        }
    }
    if !unknown {
        return exact(Value::UInt(mask));
    }
    match whole_text_number(names) {
        Some(number) => set_mask(to, number),
        None => bent(Value::UInt(mask), Problem::Truncated),
    }
}

/// The number that a text is, with nothing behind it: a position or a mask in place of names.
fn whole_text_number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text.trim_ascii_start()).ok()?;
    text.parse::<u64>().ok().or_else(|| text.parse::<i64>().ok().map(|v| v as u64))
}

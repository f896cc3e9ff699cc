//! Strings of JSON: their escapes, what they mean, and text made into one.

use std::borrow::Cow;

use keel_value::CollationId;
use keel_value::collation::{self, Charset, convert};

/// The characters of what stands between quotes, as UTF-8; text without escapes is not copied.
///
/// The escapes must have been checked by a scanner, or may mean nothing: what is no escape stands for itself.
pub fn unescape(inner: &[u8]) -> Cow<'_, [u8]> {
    unescape_by(inner, |character, out| {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        true
    })
    .unwrap_or(Cow::Borrowed(inner))
}

/// The same in a collation's character set; None where that lacks a character.
pub fn unescape_in(inner: &[u8], collation: CollationId) -> Option<Cow<'_, [u8]>> {
    match collation.charset() {
        Charset::Utf8mb4 | Charset::Utf8mb3 => Some(unescape(inner)),
        Charset::Binary => unescape_by(inner, |character, out| match u8::try_from(character) {
            Ok(octet) => {
                out.push(octet);
                true
            }
            Err(_) => false,
        }),
        charset => unescape_by(inner, |character, out| {
            let mut utf8 = [0; 4];
            let utf8 = character.encode_utf8(&mut utf8).as_bytes();
            let (encoded, lost) = convert(Charset::Utf8mb4, charset, utf8);
            out.extend_from_slice(&encoded);
            lost == 0
        }),
    }
}

fn unescape_by(inner: &[u8], mut push: impl FnMut(char, &mut Vec<u8>) -> bool) -> Option<Cow<'_, [u8]>> {
    let Some(first) = inner.iter().position(|b| *b == b'\\') else { return Some(Cow::Borrowed(inner)) };
    let mut out = Vec::with_capacity(inner.len());
    out.extend_from_slice(&inner[..first]);
    let mut rest = &inner[first..];
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let Some((escape, behind)) = rest.split_first() else { break };
        rest = behind;
        match escape {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'u' => {
                let (character, behind) = unicode(rest);
                rest = behind;
                if !push(character, &mut out) {
                    return None;
                }
            }
            other => out.push(*other),
        }
    }
    Some(Cow::Owned(out))
}

/// The character of `\u`'s digits, or of a pair of surrogates, and what follows.
fn unicode(rest: &[u8]) -> (char, &[u8]) {
    let code = |digits: &[u8]| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let Some(high) = rest.get(..4).and_then(code) else { return ('u', rest) };
    let behind = &rest[4..];
    if !(0xd800..0xdc00).contains(&high) {
        return (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), behind);
    }
    let low = behind.strip_prefix(b"\\u").and_then(|b| b.get(..4)).and_then(code);
    let pair = low
        .and_then(|low| char::from_u32(0x10000 + ((high - 0xd800) << 10) + low.wrapping_sub(0xdc00) % 0x400));
    match pair {
        Some(pair) => (pair, &behind[6..]),
        None => (char::REPLACEMENT_CHARACTER, behind),
    }
}

/// Whether two texts between quotes mean the same.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    a == b || unescape(a) == unescape(b)
}

/// Appends text with what JSON does not take in strings escaped, without quotes.
pub fn escape(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len());
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            0..=31 => out.extend_from_slice(format!("\\u{byte:04X}").as_bytes()),
            other => out.push(*other),
        }
    }
}

/// Appends text of a character set as a string of JSON in another one. A character that `to` does not have is written by its code.
/// False where the text is not valid.
pub fn quote_converted(text: &[u8], from: Charset, to: Charset, out: &mut Vec<u8>) -> bool {
    let same = from == to && collation::well_formed_len(from.default_collation(), text) == text.len();
    if same || (text.is_ascii() && !from.is_wide() && !to.is_wide()) {
        quote(text, out);
        return true;
    }
    out.push(b'"');
    let mut rest = text;
    while !rest.is_empty() {
        let Some((code, len)) = collation::first_character(from, rest) else { return false };
        rest = &rest[len..];
        match u8::try_from(code) {
            Ok(byte) if byte < 0x80 => escape(&[byte], out),
            _ if collation::push_character(to, code, out) => {}
            _ => append_code(code, out),
        }
    }
    out.push(b'"');
    true
}

/// A character by its code. MariaDB writes `\\u` once before a pair of surrogates.
fn append_code(code: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\u");
    let mut units = [0; 2];
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    for unit in character.encode_utf16(&mut units) {
        out.extend_from_slice(format!("{unit:04X}").as_bytes());
    }
}

/// Appends text as a string of JSON.
pub fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    escape(text, out);
    out.push(b'"');
}

//! Comparing, hashing and sort keys, over one stream of weights per string.
//!
//! The form of a sort key
//! ======================
//! Weights are written so that memcmp orders them: one octet for single-octet sets, UTF-8's form of the number for the
//! others. A padding collation must order `"a"` behind `"a\t"` and before `"a!"`, as if endless spaces followed, and equal
//! to `"a "`. So a space is two octets: the weight and whether what follows its run is less than a space, nothing, or more:
//!
//! ```text
//!   "a"      41 | 20 02            "a\t"    41 | 09 | 20 02
//!   "a b"    41 | 20 03 | 42 | 20 02        "a \t"   41 | 20 01 | 09 | 20 02
//! ```
//!
//! `20 02` also ends the key. Collations that do not pad end with `00 01` and write an octet 00 as `00 FF`.

use std::cmp::Ordering;
use std::hash::Hasher;

use memchr::memmem;

use super::{Charset, Info, Weighing, uca, unicode_tables};

/// The weight of a space, tables of octets excepted.
const SPACE: u32 = 0x20;
const SPACE_BEFORE_LESS: u8 = 1;
const SPACE_AT_END: u8 = 2;
const SPACE_BEFORE_MORE: u8 = 3;
const NUL_AT_END: u8 = 0x01;
const NUL_INSIDE: u8 = 0xFF;
/// Added to an octet that is no character: behind all characters.
const BAD_OCTET: u32 = 0xFF_0000;
/// Introduces such an octet in a sort key; UTF-8 does not use it.
const BAD_MARK: u8 = 0xF8;

/// Weights of `ascii_general_ci`.
pub(super) static ASCII_GENERAL_CI: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = (i as u8).to_ascii_uppercase();
        i += 1;
    }
    table
};

/// For the high octet of a character: its page in the tables plus one, or 0.
static PAGE_OF: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut i = 0;
    while i < unicode_tables::PAGES.len() {
        table[unicode_tables::PAGES[i] as usize] = i as u8 + 1;
        i += 1;
    }
    table
};

/// ASCII that stands for itself.
static IDENTITY: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut i = 0;
    while i < 128 {
        table[i] = i as u8;
        i += 1;
    }
    table
};

/// Weights of `general_ci` for ASCII; all are ASCII again.
static ASCII_WEIGHTS: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut i = 0;
    while i < 128 {
        assert!(unicode_tables::WEIGHTS[0][i] < 0x80);
        table[i] = unicode_tables::WEIGHTS[0][i] as u8;
        i += 1;
    }
    table
};

/// Reads one weight after the other.
#[derive(Clone, Copy)]
pub(super) struct Weigher {
    charset: Charset,
    weighing: Weighing,
}

pub(super) fn weigher(info: &Info) -> Weigher {
    Weigher { charset: info.charset, weighing: info.weighing }
}

impl Weigher {
    /// The weight of the first character and its octets; `bytes` is not empty.
    #[inline]
    pub(super) fn next(self, bytes: &[u8]) -> (u32, usize) {
        match self.weighing {
            Weighing::Octets => (u32::from(bytes[0]), 1),
            Weighing::Table(table) => (u32::from(table[usize::from(bytes[0])]), 1),
            Weighing::CodePoints => match self.charset.decode(bytes) {
                Ok(found) => found,
                Err(octet) => (BAD_OCTET + u32::from(octet), 1),
            },
            Weighing::General => match self.charset.decode(bytes) {
                Ok((code, len)) => (general_weight(code), len),
                Err(octet) => (BAD_OCTET + u32::from(octet), 1),
            },
            // Not one weight for each character; what asks here goes by way of `uca`.
            Weighing::Uca(_) => (u32::from(bytes[0]), 1),
        }
    }

    /// Where the first character of that weight stands.
    pub(super) fn find_weight(self, bytes: &[u8], wanted: u32) -> Option<usize> {
        let table: &[u8; 256] = match self.weighing {
            Weighing::Table(table) => {
                return bytes.iter().position(|b| u32::from(table[usize::from(*b)]) == wanted);
            }
            Weighing::Octets => return bytes.iter().position(|b| u32::from(*b) == wanted),
            Weighing::General => &ASCII_WEIGHTS,
            Weighing::CodePoints | Weighing::Uca(_) => &IDENTITY,
        };
        let mut at = 0;
        while at < bytes.len() {
            let (weight, len) = match bytes[at] {
                octet @ 0..0x80 => (u32::from(table[usize::from(octet)]), 1),
                _ => self.next(&bytes[at..]),
            };
            if weight == wanted {
                return Some(at);
            }
            at += len;
        }
        None
    }

    /// The weights of leading octets that need no decoding, as they stand in a sort key: how many octets, and their table;
    /// without one they stand for themselves. Stops before what a sort key writes in another way.
    fn plain_run(self, bytes: &[u8], stop: u8) -> (usize, Option<&'static [u8; 256]>) {
        let run = |is_plain: fn(u8) -> bool| {
            bytes.iter().position(|b| *b == stop || !is_plain(*b)).unwrap_or(bytes.len())
        };
        match self.weighing {
            Weighing::Octets | Weighing::Uca(_) => (run(|_| true), None),
            Weighing::CodePoints => (run(|b| b < 0x80), None),
            Weighing::General => (run(|b| b < 0x80), Some(&ASCII_WEIGHTS)),
            // A table may give any octet the weight of `stop`.
            Weighing::Table(table) => {
                let weight = table[usize::from(stop)];
                let len = bytes.iter().position(|b| table[usize::from(*b)] == weight).unwrap_or(bytes.len());
                (len, Some(table))
            }
        }
    }

    /// The weights of octets that are characters of their own, and where these end.
    fn octet_weights(self) -> Option<(&'static [u8; 256], u16)> {
        match self.weighing {
            Weighing::General => Some((&ASCII_WEIGHTS, 0x80)),
            Weighing::CodePoints => Some((&IDENTITY, 0x80)),
            Weighing::Table(table) => Some((table, 0x100)),
            Weighing::Octets | Weighing::Uca(_) => None,
        }
    }

    /// The weight of a space.
    #[inline]
    pub(super) fn space(self) -> u32 {
        match self.weighing {
            Weighing::Table(table) => u32::from(table[usize::from(b' ')]),
            _ => SPACE,
        }
    }

    /// The length without what weighs as a space at the end; only tables have other octets than 0x20 that do.
    fn trimmed_len(self, bytes: &[u8]) -> usize {
        let is_space = |octet: &u8| match self.weighing {
            Weighing::Table(table) => table[usize::from(*octet)] == table[usize::from(b' ')],
            _ => *octet == b' ',
        };
        bytes.iter().rposition(|octet| !is_space(octet)).map_or(0, |last| last + 1)
    }

    fn writes_octets(self) -> bool {
        matches!(self.weighing, Weighing::Octets | Weighing::Table(_))
    }
}

#[inline]
fn general_weight(code: u32) -> u32 {
    if code > 0xFFFF {
        return 0xFFFD;
    }
    match PAGE_OF[(code >> 8) as usize] {
        0 => code,
        page => u32::from(unicode_tables::WEIGHTS[usize::from(page) - 1][(code & 0xFF) as usize]),
    }
}

/// Where `what` stands in `text`, if all its octets are characters of their own, which only their like are equal to; otherwise
/// None.
#[allow(clippy::option_option)]
pub(super) fn find_octets(info: &Info, text: &[u8], what: &[u8]) -> Option<Option<usize>> {
    let (table, end) = match info.weighing {
        Weighing::Octets if info.charset.max_bytes() == 1 => return Some(memmem::find(text, what)),
        _ => weigher(info).octet_weights()?,
    };
    // In a wide set an octet may be a part of any character.
    if info.charset.is_wide() || !(end == 0x100 || info.charset.is_utf8()) {
        return None;
    }
    let Some((first, others)) = what.split_first() else { return Some(Some(0)) };
    if what.iter().any(|octet| u16::from(*octet) >= end) {
        return None;
    }
    let Some(last_start) = text.len().checked_sub(what.len()) else { return Some(None) };
    let weight = |octet: &u8| table[usize::from(*octet)];
    let own = |octet: &u8| u16::from(*octet) < end;
    let wanted = weight(first);
    let mut at = 0;
    while at <= last_start {
        let Some(next) = text[at..=last_start].iter().position(|octet| weight(octet) == wanted) else {
            return Some(None);
        };
        at += next;
        let rest = &text[at + 1..at + what.len()];
        if own(&text[at]) && rest.iter().zip(others).all(|(x, y)| own(x) && weight(x) == weight(y)) {
            return Some(Some(at));
        }
        at += 1;
    }
    Some(None)
}

pub(super) fn compare(info: &Info, a: &[u8], b: &[u8]) -> Ordering {
    match info.weighing {
        Weighing::Octets if !info.pads => a.cmp(b),
        Weighing::Octets | Weighing::CodePoints => compare_octets(info, a, b),
        Weighing::Table(table) => {
            let same = a
                .iter()
                .zip(b)
                .take_while(|(x, y)| table[usize::from(**x)] == table[usize::from(**y)])
                .count();
            compare_weights(info, &a[same..], &b[same..])
        }
        Weighing::General => {
            let ascii = &unicode_tables::WEIGHTS[0];
            let alike = |x: u8, y: u8| x < 0x80 && y < 0x80 && ascii[usize::from(x)] == ascii[usize::from(y)];
            let same = a.iter().zip(b).take_while(|(x, y)| alike(**x, **y)).count();
            compare_weights(info, &a[same..], &b[same..])
        }
        Weighing::Uca(uca) => uca::compare(uca, info.charset, info.pads, a, b),
    }
}

/// UTF-8 orders as its code points do, so that only the end of the shorter string needs care.
fn compare_octets(info: &Info, a: &[u8], b: &[u8]) -> Ordering {
    let common = a.len().min(b.len());
    match a[..common].cmp(&b[..common]) {
        Ordering::Equal => compare_weights(info, &a[common..], &b[common..]),
        order => order,
    }
}

fn compare_weights(info: &Info, mut a: &[u8], mut b: &[u8]) -> Ordering {
    let weigher = weigher(info);
    loop {
        match (a.is_empty(), b.is_empty()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return against_end(info, b).reverse(),
            (false, true) => return against_end(info, a),
            (false, false) => {}
        }
        let ((wa, la), (wb, lb)) = (weigher.next(a), weigher.next(b));
        if wa != wb {
            return wa.cmp(&wb);
        }
        (a, b) = (&a[la..], &b[lb..]);
    }
}

/// How the rest of a longer string compares with the end of the shorter.
fn against_end(info: &Info, mut rest: &[u8]) -> Ordering {
    if !info.pads {
        return Ordering::Greater;
    }
    let weigher = weigher(info);
    while !rest.is_empty() {
        let (weight, len) = weigher.next(rest);
        if weight != weigher.space() {
            return weight.cmp(&weigher.space());
        }
        rest = &rest[len..];
    }
    Ordering::Equal
}

pub(super) fn hash(info: &Info, bytes: &[u8], hasher: &mut impl Hasher) {
    if let Weighing::Uca(uca) = info.weighing {
        return uca::hash(uca, info.charset, info.pads, bytes, hasher);
    }
    let bytes = if info.pads { &bytes[..weigher(info).trimmed_len(bytes)] } else { bytes };
    if matches!(info.weighing, Weighing::Octets | Weighing::CodePoints) {
        hasher.write(bytes);
        hasher.write_u8(0xFF);
        return;
    }
    let weigher = weigher(info);
    let mut buffer = [0u8; HASH_BUFFER];
    let mut used = 0;
    let mut rest = bytes;
    while !rest.is_empty() {
        if used + 4 > buffer.len() {
            hasher.write(&buffer[..used]);
            used = 0;
        }
        let (weight, len) = weigher.next(rest);
        // ASCII, nearly all text, takes one octet; other weights are led by one that no ASCII weight has.
        if weight < 0x80 {
            buffer[used] = weight as u8;
            used += 1;
        } else {
            buffer[used..used + 4].copy_from_slice(&(weight | 0xFF00_0000).to_be_bytes());
            used += 4;
        }
        rest = &rest[len..];
    }
    hasher.write(&buffer[..used]);
    hasher.write_u8(0xFF);
}

/// Weights are hashed in pieces of so many octets.
const HASH_BUFFER: usize = 128;

/// Without trailing spaces, for collations where only the octet 0x20 weighs as one: all but tables (checked by a test).
pub(super) fn trim_spaces(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().rposition(|b| *b != b' ').map_or(0, |last| last + 1);
    &bytes[..len]
}

pub(super) fn weights(info: &Info, bytes: &[u8], out: &mut Vec<u8>) {
    if let Weighing::Uca(uca) = info.weighing {
        return uca::weights(uca, info.charset, info.pads, bytes, out);
    }
    out.reserve(bytes.len() + 2);
    if info.pads {
        write_padded(info, bytes, out);
        out.extend_from_slice(&[weigher(info).space() as u8, SPACE_AT_END]);
    } else {
        write_plain(info, bytes, out);
        out.extend_from_slice(&[0, NUL_AT_END]);
    }
}

pub(super) fn prefix_weights(info: &Info, prefix: &[u8], out: &mut Vec<u8>) {
    if let Weighing::Uca(uca) = info.weighing {
        uca::prefix_weights(uca, info.charset, info.pads, prefix, out);
    } else if info.pads {
        write_padded(info, prefix, out);
    } else {
        write_plain(info, prefix, out);
    }
}

/// Writes the weights of a string without its trailing spaces.
fn write_padded(info: &Info, bytes: &[u8], out: &mut Vec<u8>) {
    let weigher = weigher(info);
    let space = weigher.space();
    let mut rest = &bytes[..weigher.trimmed_len(bytes)];
    loop {
        rest = match weigher.octet_weights() {
            Some((table, end)) => &rest[write_words(table, end, rest, out)..],
            None => &rest[write_run(weigher, rest, b' ', out)..],
        };
        if rest.is_empty() {
            break;
        }
        let (weight, len) = weigher.next(rest);
        if weight != space {
            write_weight(weigher, weight, out);
            rest = &rest[len..];
            continue;
        }
        let mut run = 0;
        let follows = loop {
            match rest.get(run..).filter(|rest| !rest.is_empty()).map(|rest| weigher.next(rest).0) {
                Some(weight) if weight == space => run += 1,
                other => break other.unwrap_or(space),
            }
        };
        rest = &rest[run..];
        let mark = if follows < space { SPACE_BEFORE_LESS } else { SPACE_BEFORE_MORE };
        out.extend(std::iter::repeat_n([space as u8, mark], run).flatten());
    }
}

/// Writes the leading octets below `end`, single spaces between them included, and returns how many octets these are: most
/// text is nothing else.
fn write_words(table: &[u8; 256], end: u16, bytes: &[u8], out: &mut Vec<u8>) -> usize {
    out.reserve(bytes.len());
    let space = table[usize::from(b' ')];
    let weight = |octet: &u8| (u16::from(*octet) < end).then(|| table[usize::from(*octet)]);
    for (place, octet) in bytes.iter().enumerate() {
        match weight(octet) {
            Some(own) if own != space => out.push(own),
            Some(_) => match bytes.get(place + 1).and_then(weight) {
                Some(next) if next != space => {
                    out.extend_from_slice(&[
                        space,
                        if next < space { SPACE_BEFORE_LESS } else { SPACE_BEFORE_MORE },
                    ]);
                }
                _ => return place,
            },
            None => return place,
        }
    }
    bytes.len()
}

/// Writes the leading octets that need no decoding and returns how many these are.
fn write_run(weigher: Weigher, bytes: &[u8], stop: u8, out: &mut Vec<u8>) -> usize {
    let (len, table) = weigher.plain_run(bytes, stop);
    match table {
        Some(table) => out.extend(bytes[..len].iter().map(|b| table[usize::from(*b)])),
        None => out.extend_from_slice(&bytes[..len]),
    }
    len
}

fn write_plain(info: &Info, bytes: &[u8], out: &mut Vec<u8>) {
    let weigher = weigher(info);
    let mut rest = bytes;
    loop {
        rest = &rest[write_run(weigher, rest, 0, out)..];
        if rest.is_empty() {
            break;
        }
        let (weight, len) = weigher.next(rest);
        write_weight(weigher, weight, out);
        if weight == 0 {
            out.push(NUL_INSIDE);
        }
        rest = &rest[len..];
    }
}

#[inline]
fn write_weight(weigher: Weigher, weight: u32, out: &mut Vec<u8>) {
    match weight {
        _ if weigher.writes_octets() => out.push(weight as u8),
        0..=0x7F => out.push(weight as u8),
        0x80..=0x7FF => out.extend_from_slice(&[0xC0 | (weight >> 6) as u8, tail(weight)]),
        0x800..=0xFFFF => {
            out.extend_from_slice(&[0xE0 | (weight >> 12) as u8, tail(weight >> 6), tail(weight)])
        }
        BAD_OCTET.. => out.extend_from_slice(&[BAD_MARK, weight as u8]),
        _ => out.extend_from_slice(&[
            0xF0 | (weight >> 18) as u8,
            tail(weight >> 12),
            tail(weight >> 6),
            tail(weight),
        ]),
    }
}

fn tail(bits: u32) -> u8 {
    0x80 | (bits & 0x3F) as u8
}

pub(super) fn weights_len(info: &Info, key: &[u8]) -> Option<usize> {
    if let Weighing::Uca(uca) = info.weighing {
        return uca::weights_len(uca, info.pads, key);
    }
    let (mark, end) = if info.pads { (weigher(info).space() as u8, SPACE_AT_END) } else { (0, NUL_AT_END) };
    let mut at = 0;
    loop {
        at += key.get(at..)?.iter().position(|b| *b == mark)? + 2;
        if *key.get(at - 1)? == end {
            return Some(at);
        }
    }
}

/// The bytes of a key of an `Octets` or `CodePoints` collation.
pub(super) fn decode(info: &Info, key: &[u8]) -> Option<(Vec<u8>, usize)> {
    let len = weights_len(info, key)?;
    let mark = if info.pads { SPACE as u8 } else { 0 };
    let mut out = Vec::with_capacity(len);
    let mut rest = key[..len - 2].iter();
    while let Some(&octet) = rest.next() {
        if octet == BAD_MARK && !weigher(info).writes_octets() {
            out.extend(rest.next());
            continue;
        }
        out.push(octet);
        if octet == mark {
            rest.next();
        }
    }
    Some((out, len))
}

#[cfg(test)]
mod tests {
    use super::super::{CollationId, all, compare, from_weights, hash, weights, weights_len};
    use super::*;

    fn key(id: CollationId, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        weights(id, bytes, &mut out);
        out
    }

    fn hashed(id: CollationId, bytes: &[u8]) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        hash(id, bytes, &mut hasher);
        hasher.finish()
    }

    const SAMPLES: &[&[u8]] = &[
        b"",
        b" ",
        b"  ",
        b"\t",
        b" \t",
        b"  \t",
        b"a",
        b"a ",
        b"a\t",
        b"a \t",
        b"a  \t",
        b"a!",
        b"a !",
        b"a  !",
        b"A",
        b"ab",
        b"a b",
        b"b",
        b"B  ",
        b"\0",
        b"a\0",
        b"a\0b",
        b" a",
        b"\xC3\xA9",
        b"e",
        b"\xC3\x89",
        b"\xF0\x9F\x98\x80",
        b"\xF0\x9F\x98\x81",
        b"\xFF",
        b"a\xFF",
        b"a\xFFb",
        b"\xE2\x82\xAC",
        b"\xC3\x9F",
        b"ss",
        b"\xF8 \x02",
        b"\xF8",
        b"\xEF\xBF\xBF",
    ];

    #[test]
    fn keys_order_and_hash_as_strings_compare() {
        for &id in all() {
            for a in SAMPLES {
                for b in SAMPLES {
                    let order = compare(id, a, b);
                    assert_eq!(key(id, a).cmp(&key(id, b)), order, "{} {a:x?} {b:x?}", id.name());
                    if order == Ordering::Equal {
                        assert_eq!(hashed(id, a), hashed(id, b), "{} {a:x?} {b:x?}", id.name());
                    }
                }
            }
        }
    }

    #[test]
    fn keys_tell_their_length_and_binary_ones_their_text() {
        for &id in all() {
            for text in SAMPLES {
                let own = key(id, text);
                let mut followed = own.clone();
                followed.extend_from_slice(b" \x02\0\x01xyz");
                assert_eq!(weights_len(id, &followed), Some(own.len()), "{} {text:x?}", id.name());
                assert_eq!(weights_len(id, &own[..own.len() - 1]), None, "{} {text:x?}", id.name());
                if let Some((decoded, len)) = from_weights(id, &followed) {
                    assert_eq!(len, own.len());
                    let expected = if id.pads_spaces() { trim_spaces(text) } else { text };
                    assert_eq!(decoded, expected, "{}", id.name());
                }
            }
        }
    }

    #[test]
    fn only_the_space_weighs_as_one() {
        let is_table = |id: &&CollationId| matches!(id.info().weighing, Weighing::Table(_));
        let by_character = all().iter().filter(|id| super::super::is_by_character(**id));
        for id in by_character.filter(|id| id.pads_spaces() && !is_table(id)) {
            let weigher = weigher(id.info());
            let mut buffer = [0; 4];
            for c in '\0'..=char::MAX {
                let text = match id.charset().max_bytes() {
                    1 if c > '\u{FF}' => break,
                    1 => std::slice::from_ref(&(c as u8)).to_vec(),
                    _ => c.encode_utf8(&mut buffer).as_bytes().to_vec(),
                };
                assert_eq!(weigher.next(&text).0 == SPACE, c == ' ', "{} {c:?}", id.name());
            }
        }
    }

    #[test]
    fn spaces_of_tables_are_what_weighs_as_one() {
        let find = |name| super::super::by_name(name).unwrap();
        let general = find("cp1250_general_ci");
        assert_eq!(compare(general, b"a\xA0", b"A"), Ordering::Equal);
        assert_eq!(key(general, b"a\xA0 "), key(general, b"A"));
        assert_eq!(hashed(general, b"a\xA0 "), hashed(general, b"A"));
        let baltic = find("latin7_general_ci");
        assert_eq!(compare(baltic, b"a", b"a\t"), Ordering::Greater);
        assert_eq!(compare(baltic, b"a", b"a  "), Ordering::Equal);
    }

    #[test]
    fn padding_follows_the_standard() {
        let ci = CollationId::UTF8MB4_GENERAL_CI;
        assert_eq!(compare(ci, b"a", b"A  "), Ordering::Equal);
        assert_eq!(compare(ci, b"a", b"a\t"), Ordering::Greater);
        assert_eq!(compare(CollationId::BINARY, b"a", b"a "), Ordering::Less);
        assert_eq!(compare(CollationId(1069), b"a", b"a "), Ordering::Less);
        assert_eq!(compare(ci, "Straße".as_bytes(), b"STRASE"), Ordering::Equal);
    }
}

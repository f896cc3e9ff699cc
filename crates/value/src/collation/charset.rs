//! Character sets: where characters end, what they are in Unicode, and their case.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::code_page::CodePage;
use super::{CollationId, latin1_tables, uca, unicode_tables};

/// A character set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Charset {
    /// Octets without a meaning.
    Binary,
    /// US-ASCII.
    Ascii,
    /// Windows code page 1252, which MariaDB calls latin1.
    Latin1,
    /// UTF-8 of the basic plane.
    Utf8mb3,
    /// UTF-8.
    Utf8mb4,
    /// Another set of one octet a character, ASCII among them.
    Page(CodePage),
    /// Unicode in units of two or four octets. Within expressions alone, not for columns or clients.
    Wide(Wide),
}

/// Forms of Unicode in which no character is one octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wide {
    /// The basic plane, the high octet first.
    Ucs2,
    /// UTF-16, the high octet first.
    Utf16,
    /// UTF-16, the low octet first.
    Utf16le,
    /// UTF-32, the high octet first.
    Utf32,
}

impl Wide {
    const ALL: [Wide; 4] = [Wide::Ucs2, Wide::Utf16, Wide::Utf16le, Wide::Utf32];

    const fn name(self) -> &'static str {
        match self {
            Wide::Ucs2 => "ucs2",
            Wide::Utf16 => "utf16",
            Wide::Utf16le => "utf16le",
            Wide::Utf32 => "utf32",
        }
    }

    /// Octets of the shortest character.
    const fn unit(self) -> usize {
        if matches!(self, Wide::Utf32) { 4 } else { 2 }
    }

    /// The unit of UTF-16 that starts `bytes`.
    fn half(self, bytes: &[u8]) -> Option<u32> {
        let pair = *bytes.first_chunk::<2>()?;
        let half = if self == Wide::Utf16le { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) };
        Some(u32::from(half))
    }

    fn decode(self, bytes: &[u8]) -> Option<(u32, usize)> {
        if self == Wide::Utf32 {
            let code = u32::from_be_bytes(*bytes.first_chunk::<4>()?);
            return char::from_u32(code).map(|_| (code, 4));
        }
        let first = self.half(bytes)?;
        match first {
            0xD800..=0xDBFF if self != Wide::Ucs2 => {
                let second = self.half(&bytes[2..]).filter(|half| (0xDC00..=0xDFFF).contains(half))?;
                Some((0x1_0000 + ((first - 0xD800) << 10 | (second - 0xDC00)), 4))
            }
            0xD800..=0xDFFF => None,
            _ => Some((first, 2)),
        }
    }

    fn encode(self, code: u32, out: &mut Vec<u8>) -> bool {
        let Some(c) = char::from_u32(code).filter(|_| self != Wide::Ucs2 || code <= 0xFFFF) else {
            return false;
        };
        if self == Wide::Utf32 {
            out.extend_from_slice(&code.to_be_bytes());
            return true;
        }
        for half in c.encode_utf16(&mut [0; 2]) {
            out.extend(if self == Wide::Utf16le { half.to_le_bytes() } else { half.to_be_bytes() });
        }
        true
    }
}

impl Charset {
    /// All, in the order of their default collations' numbers.
    pub fn all() -> &'static [Charset] {
        static ALL: LazyLock<Vec<Charset>> = LazyLock::new(|| {
            use Charset::*;
            let pages = CodePage::all().map(Page);
            let mut all: Vec<Charset> =
                [Ascii, Binary, Latin1, Utf8mb3, Utf8mb4].into_iter().chain(pages).collect();
            all.sort_by_key(|charset| charset.default_collation());
            all
        });
        &ALL
    }

    /// Whether its text is UTF-8 as it stands, or octets that are taken for that.
    pub fn is_utf8(self) -> bool {
        matches!(self, Charset::Binary | Charset::Ascii | Charset::Utf8mb3 | Charset::Utf8mb4)
    }

    /// Whether its characters are all of Unicode, or of its first plane.
    pub fn is_unicode(self) -> bool {
        matches!(self, Charset::Utf8mb3 | Charset::Utf8mb4) || self.is_wide()
    }

    /// The most octets of one character.
    #[inline]
    pub const fn max_bytes(self) -> u32 {
        match self {
            Charset::Binary | Charset::Ascii | Charset::Latin1 | Charset::Page(_) => 1,
            Charset::Utf8mb3 => 3,
            Charset::Wide(Wide::Ucs2) => 2,
            Charset::Utf8mb4 | Charset::Wide(_) => 4,
        }
    }

    /// MariaDB's name.
    pub fn name(self) -> &'static str {
        match self {
            Charset::Binary => "binary",
            Charset::Ascii => "ascii",
            Charset::Latin1 => "latin1",
            Charset::Utf8mb3 => "utf8mb3",
            Charset::Utf8mb4 => "utf8mb4",
            Charset::Page(page) => page.name(),
            Charset::Wide(wide) => wide.name(),
        }
    }

    /// What SHOW CHARACTER SET says of it.
    pub fn description(self) -> &'static str {
        match self {
            Charset::Binary => "Binary pseudo charset",
            Charset::Ascii => "US ASCII",
            Charset::Latin1 => "cp1252 West European",
            Charset::Utf8mb3 | Charset::Utf8mb4 => "UTF-8 Unicode",
            Charset::Page(page) => page.description(),
            Charset::Wide(_) => "Unicode in wide units",
        }
    }

    /// The collation where only the character set is named.
    pub fn default_collation(self) -> CollationId {
        match self {
            Charset::Binary => CollationId::BINARY,
            Charset::Ascii => CollationId::ASCII_GENERAL_CI,
            Charset::Latin1 => CollationId::LATIN1_SWEDISH_CI,
            Charset::Utf8mb3 => CollationId::UTF8MB3_GENERAL_CI,
            Charset::Utf8mb4 => CollationId::UTF8MB4_GENERAL_CI,
            Charset::Page(page) => page.default_collation(),
            Charset::Wide(Wide::Ucs2) => CollationId(35),
            Charset::Wide(Wide::Utf16) => CollationId(54),
            Charset::Wide(Wide::Utf16le) => CollationId(56),
            Charset::Wide(Wide::Utf32) => CollationId(60),
        }
    }

    /// The `_bin` collation.
    pub fn binary_collation(self) -> CollationId {
        match self {
            Charset::Binary => CollationId::BINARY,
            Charset::Ascii => CollationId::ASCII_BIN,
            Charset::Latin1 => CollationId::LATIN1_BIN,
            Charset::Utf8mb3 => CollationId::UTF8MB3_BIN,
            Charset::Utf8mb4 => CollationId::UTF8MB4_BIN,
            Charset::Page(page) => page.binary_collation(),
            Charset::Wide(_) => self.default_collation(),
        }
    }

    /// By name, letters of either case; `utf8` is utf8mb3.
    pub fn by_name(name: &str) -> Option<Charset> {
        if name.eq_ignore_ascii_case("utf8") {
            return Some(Charset::Utf8mb3);
        }
        Charset::all().iter().copied().find(|c| c.name().eq_ignore_ascii_case(name))
    }

    /// As [`Charset::by_name`], with those that only expressions know.
    pub fn in_expressions(name: &str) -> Option<Charset> {
        let wide = Wide::ALL.into_iter().find(|wide| wide.name().eq_ignore_ascii_case(name));
        wide.map(Charset::Wide).or_else(|| Charset::by_name(name))
    }

    /// Whether ASCII is not ASCII in it.
    pub fn is_wide(self) -> bool {
        matches!(self, Charset::Wide(_))
    }

    /// Octets with zeros before them, so that they are whole units of a wide set.
    pub fn padded(self, octets: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Charset::Wide(wide) if !octets.len().is_multiple_of(wide.unit()) => {
                let mut out = vec![0; wide.unit() - octets.len() % wide.unit()];
                out.extend_from_slice(octets);
                Cow::Owned(out)
            }
            _ => Cow::Borrowed(octets),
        }
    }

    /// Whether ASCII text is the same bytes in both sets, and all other text as well.
    fn contains(self, other: Charset) -> bool {
        use Charset::*;
        self == other || self == Binary || other == Binary || (self, other) == (Utf8mb4, Utf8mb3)
    }

    /// The first character and its octets; an octet that begins none is `Err`.
    #[inline]
    pub(super) fn decode(self, bytes: &[u8]) -> Result<(u32, usize), u8> {
        let first = bytes[0];
        match self {
            Charset::Binary => Ok((u32::from(first), 1)),
            Charset::Wide(wide) => wide.decode(bytes).ok_or(first),
            _ if first < 0x80 => Ok((u32::from(first), 1)),
            Charset::Latin1 => Ok((u32::from(latin1_tables::TO_UNICODE[usize::from(first)]), 1)),
            Charset::Page(page) => page.decode(first).map(|code| (u32::from(code), 1)).ok_or(first),
            Charset::Ascii => Err(first),
            Charset::Utf8mb3 => decode_utf8(bytes).filter(|(_, len)| *len < 4).ok_or(first),
            Charset::Utf8mb4 => decode_utf8(bytes).ok_or(first),
        }
    }

    /// Appends a character; false if the set does not have it.
    fn encode(self, code: u32, out: &mut Vec<u8>) -> bool {
        match self {
            Charset::Binary | Charset::Utf8mb4 => push_utf8(code, out),
            Charset::Utf8mb3 => code <= 0xFFFF && push_utf8(code, out),
            Charset::Ascii if code < 0x80 => {
                out.push(code as u8);
                true
            }
            Charset::Ascii => false,
            Charset::Latin1 => push_octet(latin1_octet(code), out),
            Charset::Page(page) => push_octet(page.encode(code), out),
            Charset::Wide(wide) => wide.encode(code, out),
        }
    }

    /// Octets of the first character; 1 where there is none.
    #[inline]
    pub(super) fn step(self, bytes: &[u8]) -> usize {
        match self {
            Charset::Wide(_) => self.decode(bytes).map_or(1, |(_, len)| len),
            Charset::Utf8mb3 | Charset::Utf8mb4 if bytes[0] >= 0x80 => {
                self.decode(bytes).map_or(1, |(_, len)| len)
            }
            _ => 1,
        }
    }
}

fn latin1_octet(code: u32) -> Option<u8> {
    if code < 0x80 || (0xA0..=0xFF).contains(&code) {
        return Some(code as u8);
    }
    (0x80..=0x9F).find(|octet: &u8| u32::from(latin1_tables::TO_UNICODE[usize::from(*octet)]) == code)
}

fn push_octet(octet: Option<u8>, out: &mut Vec<u8>) -> bool {
    out.extend(octet);
    octet.is_some()
}

fn push_utf8(code: u32, out: &mut Vec<u8>) -> bool {
    match char::from_u32(code) {
        Some(c) => {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            true
        }
        None => false,
    }
}

/// The character that starts `bytes`, whose first octet is not ASCII.
#[inline]
fn decode_utf8(bytes: &[u8]) -> Option<(u32, usize)> {
    let tail = |i: usize| bytes.get(i).filter(|b| **b & 0xC0 == 0x80).map(|b| u32::from(b & 0x3F));
    let first = u32::from(bytes[0]);
    match first {
        0xC2..=0xDF => Some(((first & 0x1F) << 6 | tail(1)?, 2)),
        0xE0..=0xEF => {
            let code = (first & 0x0F) << 12 | tail(1)? << 6 | tail(2)?;
            (code >= 0x800 && !(0xD800..=0xDFFF).contains(&code)).then_some((code, 3))
        }
        0xF0..=0xF4 => {
            let code = (first & 0x07) << 18 | tail(1)? << 12 | tail(2)? << 6 | tail(3)?;
            (0x1_0000..=0x10_FFFF).contains(&code).then_some((code, 4))
        }
        _ => None,
    }
}

/// Characters in a string.
pub fn char_len(id: CollationId, bytes: &[u8]) -> usize {
    let charset = id.charset();
    if charset.max_bytes() == 1 || (bytes.is_ascii() && !charset.is_wide()) {
        return bytes.len();
    }
    let mut rest = bytes;
    let mut count = 0;
    while !rest.is_empty() {
        rest = &rest[charset.step(rest)..];
        count += 1;
    }
    count
}

/// Octets of the first `count` characters, or of all if there are fewer.
pub(super) fn octets_of(charset: Charset, bytes: &[u8], count: usize) -> usize {
    if charset.max_bytes() == 1 || bytes.len() <= count {
        return bytes.len().min(count);
    }
    if !charset.is_wide() && bytes[..count].is_ascii() {
        return count;
    }
    let mut at = 0;
    for _ in 0..count {
        if at == bytes.len() {
            break;
        }
        at += charset.step(&bytes[at..]);
    }
    at
}

/// The octets of up to `count` characters from character `from` on; 0 is the first.
pub fn substring(id: CollationId, bytes: &[u8], from: usize, count: usize) -> &[u8] {
    let charset = id.charset();
    let rest = &bytes[octets_of(charset, bytes, from)..];
    &rest[..octets_of(charset, rest, count)]
}

/// The length of the longest prefix that is text of the collation's character set.
pub fn well_formed_len(id: CollationId, bytes: &[u8]) -> usize {
    let charset = id.charset();
    match charset {
        Charset::Binary | Charset::Latin1 | Charset::Page(_) => bytes.len(),
        Charset::Utf8mb4 => std::str::from_utf8(bytes).map_or_else(|e| e.valid_up_to(), str::len),
        Charset::Ascii => bytes.iter().position(|b| *b >= 0x80).unwrap_or(bytes.len()),
        Charset::Utf8mb3 | Charset::Wide(_) => {
            let mut at = 0;
            while at < bytes.len() {
                match charset.decode(&bytes[at..]) {
                    Ok((_, len)) => at += len,
                    Err(_) => break,
                }
            }
            at
        }
    }
}

/// Converts between character sets. Characters that the target lacks and octets that are none become `?` and are
/// counted. To and from `binary` octets stay as they are.
pub fn convert(from: Charset, to: Charset, bytes: &[u8]) -> (Cow<'_, [u8]>, usize) {
    let ascii_stays = bytes.is_ascii() && !from.is_wide() && !to.is_wide();
    // What a client sent as three octets at most may have characters of four.
    let is_longer = (from, to) == (Charset::Utf8mb3, Charset::Utf8mb4) && bytes.iter().any(|b| *b >= 0xF0);
    if ascii_stays || (to.contains(from) && !is_longer) {
        return (Cow::Borrowed(bytes), 0);
    }
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 2);
    let mut lost = 0;
    let mut rest = bytes;
    while !rest.is_empty() {
        let (known, len) = match from.decode(rest) {
            Ok((code, len)) => (to.encode(code, &mut out), len),
            Err(_) => (false, 1),
        };
        if !known {
            to.encode(u32::from(b'?'), &mut out);
            lost += 1;
        }
        rest = &rest[len..];
    }
    (Cow::Owned(out), lost)
}

/// The code of the first character and its length in bytes; none where the bytes do not begin with a character. A byte of `binary`
/// is the character with its number.
pub fn first_character(charset: Charset, bytes: &[u8]) -> Option<(u32, usize)> {
    charset.decode(bytes).ok()
}

/// Appends the character with a code; false if the character set does not have it. `binary` has those of one byte.
pub fn push_character(charset: Charset, code: u32, out: &mut Vec<u8>) -> bool {
    match charset {
        Charset::Binary => push_octet(u8::try_from(code).ok(), out),
        _ => charset.encode(code, out),
    }
}

/// How many times as long as a text UPPER() and LOWER() may be, as MariaDB describes them.
pub fn case_growth(id: CollationId) -> u64 {
    if id.uca().is_some_and(uca::has_other_case) { 2 } else { 1 }
}

/// UPPER(); `binary` has no case.
pub fn upper(id: CollationId, bytes: &[u8]) -> Vec<u8> {
    match id.charset() {
        Charset::Latin1 => by_octet(&latin1_tables::UPPER, bytes),
        Charset::Page(page) => by_octet(page.upper(), bytes),
        _ => change_case(id, bytes, u8::to_ascii_uppercase, (0, &unicode_tables::UPPER)),
    }
}

/// LOWER(); `binary` has no case.
pub fn lower(id: CollationId, bytes: &[u8]) -> Vec<u8> {
    match id.charset() {
        Charset::Latin1 => by_octet(&latin1_tables::LOWER, bytes),
        Charset::Page(page) => by_octet(page.lower(), bytes),
        _ => change_case(id, bytes, u8::to_ascii_lowercase, (1, &unicode_tables::LOWER)),
    }
}

fn by_octet(table: &[u8; 256], bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|octet| table[usize::from(*octet)]).collect()
}

fn change_case(
    id: CollationId,
    bytes: &[u8],
    ascii: fn(&u8) -> u8,
    (which, unicode): (usize, &[(u16, u16, u16, i32)]),
) -> Vec<u8> {
    let charset = id.charset();
    let own = id.uca().filter(|_| charset.max_bytes() > 1);
    let other = |code: u32| own.and_then(|uca| uca::other_case(uca, which, code));
    // The only letters of ASCII that a language may change.
    let plain = own.is_none() || other(u32::from(b'i')).or(other(u32::from(b'I'))).is_none();
    match charset {
        Charset::Binary => bytes.to_vec(),
        _ if (plain && bytes.is_ascii() && !charset.is_wide()) || charset == Charset::Ascii => {
            bytes.iter().map(ascii).collect()
        }
        _ => {
            let mut out = Vec::with_capacity(bytes.len());
            let mut rest = bytes;
            while !rest.is_empty() {
                let len = match charset.decode(rest) {
                    Ok((code, len)) => {
                        let changed = other(code).unwrap_or_else(|| mapped(unicode, code));
                        if !charset.encode(changed, &mut out) {
                            out.extend_from_slice(&rest[..len]);
                        }
                        len
                    }
                    Err(octet) => {
                        out.push(octet);
                        1
                    }
                };
                rest = &rest[len..];
            }
            out
        }
    }
}

/// The other case of a character: the last run that starts at or before it decides, or one before where runs of every
/// second character interleave.
fn mapped(runs: &[(u16, u16, u16, i32)], code: u32) -> u32 {
    let Ok(code16) = u16::try_from(code) else { return code };
    let end = runs.partition_point(|run| run.0 <= code16);
    let hit = runs[..end].iter().rev().find(|run| code16 <= run.1 && (code16 - run.0).is_multiple_of(run.2));
    hit.map_or(code, |run| code.wrapping_add_signed(run.3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_end_where_they_should() {
        let id = CollationId::UTF8MB4_GENERAL_CI;
        assert_eq!(char_len(id, "naïve 😀".as_bytes()), 7);
        assert_eq!(substring(id, "naïve 😀".as_bytes(), 2, 2), "ïv".as_bytes());
        assert_eq!(substring(id, b"abc", 5, 2), b"");
        assert_eq!(well_formed_len(id, b"ab\xFFc"), 2);
        assert_eq!(well_formed_len(CollationId::UTF8MB3_GENERAL_CI, "ab😀".as_bytes()), 2);
        assert_eq!(char_len(id, b"\xC3(\xF0\x9F"), 4);
    }

    #[test]
    fn text_moves_between_character_sets() {
        let euro = "€é".as_bytes();
        let (latin, lost) = convert(Charset::Utf8mb4, Charset::Latin1, euro);
        assert_eq!((&*latin, lost), (&b"\x80\xE9"[..], 0));
        assert_eq!(&*convert(Charset::Latin1, Charset::Utf8mb4, &latin).0, euro);
        assert_eq!(convert(Charset::Utf8mb4, Charset::Ascii, euro), (Cow::Owned(b"??".to_vec()), 2));
        assert_eq!(convert(Charset::Utf8mb4, Charset::Utf8mb3, "a😀".as_bytes()).1, 1);
        assert_eq!(convert(Charset::Binary, Charset::Latin1, b"\xFF").0, Cow::Borrowed(b"\xFF"));
    }

    #[test]
    fn code_pages_know_their_characters() {
        let koi8r = Charset::by_name("KOI8R").unwrap();
        let (text, lost) = convert(Charset::Utf8mb4, koi8r, "Мир ž".as_bytes());
        assert_eq!((&*text, lost), (&b"\xED\xC9\xD2 ?"[..], 1));
        assert_eq!(convert(koi8r, Charset::Utf8mb4, &text).0, "Мир ?".as_bytes());
        assert_eq!(upper(koi8r.default_collation(), b"\xC9z"), b"\xE9Z");
        for &charset in Charset::all().iter().filter(|charset| matches!(charset, Charset::Page(_))) {
            for octet in 0..=u8::MAX {
                let Ok((code, 1)) = charset.decode(&[octet]) else { continue };
                let mut again = Vec::new();
                assert!(charset.encode(code, &mut again), "{} {octet:x}", charset.name());
                assert_eq!(charset.decode(&again), Ok((code, 1)), "{} {octet:x}", charset.name());
                assert!(octet >= 0x80 || code == u32::from(octet), "{} {octet:x}", charset.name());
            }
        }
    }

    #[test]
    fn wide_sets_go_back_and_forth() {
        let find = |name| Charset::in_expressions(name).unwrap();
        for (name, octets) in [
            ("ucs2", &b"\0a\0\xE4\x20\xAC"[..]),
            ("utf16", b"\0a\0\xE4\x20\xAC"),
            ("UTF16LE", b"a\0\xE4\0\xAC\x20"),
            ("utf32", b"\0\0\0a\0\0\0\xE4\0\0\x20\xAC"),
        ] {
            let wide = find(name);
            assert_eq!(
                convert(Charset::Utf8mb4, wide, "aä€".as_bytes()),
                (Cow::Owned(octets.to_vec()), 0),
                "{name}"
            );
            assert_eq!(convert(wide, Charset::Utf8mb4, octets).0, "aä€".as_bytes(), "{name}");
            assert_eq!(char_len(wide.default_collation(), octets), 3, "{name}");
        }
        assert_eq!(&*convert(Charset::Utf8mb4, find("utf16"), "😀".as_bytes()).0, b"\xD8\x3D\xDE\0");
        assert_eq!(convert(Charset::Utf8mb4, find("ucs2"), "😀".as_bytes()).1, 1);
        assert_eq!(well_formed_len(find("utf16").default_collation(), b"\0a\xD8\x3D\0"), 2);
        assert_eq!(&*find("utf32").padded(b"a"), b"\0\0\0a");
        assert_eq!(Charset::by_name("utf16"), None);
    }

    #[test]
    fn case_follows_the_server() {
        let id = CollationId::UTF8MB4_GENERAL_CI;
        assert_eq!(upper(id, "aéß ж".as_bytes()), "AÉß Ж".as_bytes());
        assert_eq!(lower(id, "AÉŽ Ж".as_bytes()), "aéž ж".as_bytes());
        assert_eq!(upper(CollationId::LATIN1_SWEDISH_CI, b"a\xE9\xFF"), b"A\xC9\xFF");
        assert_eq!(upper(CollationId::BINARY, b"abc"), b"abc");
    }
}

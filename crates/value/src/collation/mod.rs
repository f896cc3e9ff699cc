//! Character sets and collations, under MariaDB's numbers and names.
//!
//! 1. Strings are bytes in their collation's character set. Octets that are no character of it are allowed anywhere: they
//!    count as one character each and sort behind all characters, as MariaDB has it.
//! 2. PAD SPACE collations compare as if the shorter string were padded with spaces; `_nopad_` ones and `binary` do not.
//! 3. [`weights`] gives sort keys whose memcmp order is [`compare`]'s, also when the keys of more columns follow, and no
//!    key is a prefix of another.
//!
//! A [`CollationId`] that is not in [`all`] behaves as `utf8mb4_general_ci`; ask [`CollationId::from_number`] first.
//! Unicode's own algorithm (`utf8mb4_unicode_ci` and its relatives) is in `uca`.

mod charset;
mod code_page;
mod latin1_tables;
mod like;
mod order;
mod uca;
mod unicode_tables;
mod weight_string;

use std::cmp::Ordering;
use std::hash::Hasher;

use keel_base::{SqlResult, errors};

pub use charset::{
    Charset, Wide, case_growth, char_len, convert, first_character, lower, push_character, substring, upper,
    well_formed_len,
};
pub use code_page::CodePage;
pub use like::like_match;

/// A collation by MariaDB's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollationId(pub u16);

/// How a collation orders characters.
#[derive(Clone, Copy)]
enum Weighing {
    /// By octet.
    Octets,
    /// By the weight of each octet.
    Table(&'static [u8; 256]),
    /// By code point of UTF-8.
    CodePoints,
    /// By the weights of `general_ci`.
    General,
    /// By Unicode's algorithm.
    Uca(Uca),
}

/// What is known of one collation.
#[derive(Clone, Copy)]
struct Info {
    number: u16,
    name: &'static str,
    charset: Charset,
    weighing: Weighing,
    pads: bool,
}

const fn info(number: u16, name: &'static str, charset: Charset, weighing: Weighing) -> Info {
    Info { number, name, charset, weighing, pads: true }
}

const fn nopad(number: u16, name: &'static str, charset: Charset, weighing: Weighing) -> Info {
    Info { number, name, charset, weighing, pads: false }
}

use Charset::{Ascii, Binary, Latin1, Utf8mb3, Utf8mb4};
use Weighing::{CodePoints, General, Octets, Table};
use code_page::list::COLLATIONS as PAGES;
use uca::Uca;
use uca::list::ORDERS;

/// Those that neither follow Unicode's algorithm ([`ORDERS`]) nor belong to a code page ([`PAGES`]).
static COLLATIONS: [Info; 22] = [
    info(5, "latin1_german1_ci", Latin1, Table(&latin1_tables::LATIN1_GERMAN1_CI)),
    info(8, "latin1_swedish_ci", Latin1, Table(&latin1_tables::LATIN1_SWEDISH_CI)),
    info(11, "ascii_general_ci", Ascii, Table(&order::ASCII_GENERAL_CI)),
    info(15, "latin1_danish_ci", Latin1, Table(&latin1_tables::LATIN1_DANISH_CI)),
    info(33, "utf8mb3_general_ci", Utf8mb3, General),
    info(45, "utf8mb4_general_ci", Utf8mb4, General),
    info(46, "utf8mb4_bin", Utf8mb4, CodePoints),
    info(47, "latin1_bin", Latin1, Octets),
    info(48, "latin1_general_ci", Latin1, Table(&latin1_tables::LATIN1_GENERAL_CI)),
    info(49, "latin1_general_cs", Latin1, Table(&latin1_tables::LATIN1_GENERAL_CS)),
    nopad(63, "binary", Binary, Octets),
    info(65, "ascii_bin", Ascii, Octets),
    info(83, "utf8mb3_bin", Utf8mb3, CodePoints),
    info(94, "latin1_spanish_ci", Latin1, Table(&latin1_tables::LATIN1_SPANISH_CI)),
    nopad(1032, "latin1_swedish_nopad_ci", Latin1, Table(&latin1_tables::LATIN1_SWEDISH_CI)),
    nopad(1035, "ascii_general_nopad_ci", Ascii, Table(&order::ASCII_GENERAL_CI)),
    nopad(1057, "utf8mb3_general_nopad_ci", Utf8mb3, General),
    nopad(1069, "utf8mb4_general_nopad_ci", Utf8mb4, General),
    nopad(1070, "utf8mb4_nopad_bin", Utf8mb4, CodePoints),
    nopad(1071, "latin1_nopad_bin", Latin1, Octets),
    nopad(1089, "ascii_nopad_bin", Ascii, Octets),
    nopad(1107, "utf8mb3_nopad_bin", Utf8mb3, CodePoints),
];

/// Those of sets that only expressions know: no list has them, and nothing is compared by them.
static WIDE: [Info; 4] = [
    info(35, "ucs2_general_ci", Charset::Wide(Wide::Ucs2), General),
    info(54, "utf16_general_ci", Charset::Wide(Wide::Utf16), General),
    info(56, "utf16le_general_ci", Charset::Wide(Wide::Utf16le), General),
    info(60, "utf32_general_ci", Charset::Wide(Wide::Utf32), General),
];

/// Position of `utf8mb4_general_ci` in [`COLLATIONS`], the answer for unknown numbers.
const FALLBACK: usize = 5;

/// How many collations there are.
const COUNT: usize = COLLATIONS.len() + ORDERS.len() + PAGES.len();
/// More than every number of a collation.
const NUMBER_END: usize = 2560;

/// The collation at a place of [`COLLATIONS`], [`ORDERS`], [`PAGES`] and [`WIDE`], one behind the other.
#[inline]
const fn info_at(place: usize) -> &'static Info {
    match place.checked_sub(COLLATIONS.len()) {
        None => &COLLATIONS[place],
        Some(order) if order < ORDERS.len() => &ORDERS[order],
        Some(order) if order < ORDERS.len() + PAGES.len() => &PAGES[order - ORDERS.len()],
        Some(order) => &WIDE[order - ORDERS.len() - PAGES.len()],
    }
}

/// For a number its place; [`FALLBACK`] where there is none.
static PLACES: [u16; NUMBER_END] = {
    let mut out = [FALLBACK as u16; NUMBER_END];
    let mut i = 0;
    while i < COUNT + WIDE.len() {
        out[info_at(i).number as usize] = i as u16;
        i += 1;
    }
    out
};

static NUMBERS: [CollationId; COUNT] = {
    let mut out = [CollationId(0); COUNT];
    let (mut number, mut count) = (0, 0);
    while number < NUMBER_END {
        let is_listed = PLACES[number] != FALLBACK as u16 && (PLACES[number] as usize) < COUNT;
        if is_listed || number == COLLATIONS[FALLBACK].number as usize {
            out[count] = CollationId(number as u16);
            count += 1;
        }
        number += 1;
    }
    out
};

impl CollationId {
    /// `latin1_swedish_ci`.
    pub const LATIN1_SWEDISH_CI: CollationId = CollationId(8);
    /// `ascii_general_ci`.
    pub const ASCII_GENERAL_CI: CollationId = CollationId(11);
    /// `utf8mb3_general_ci`.
    pub const UTF8MB3_GENERAL_CI: CollationId = CollationId(33);
    /// `utf8mb4_general_ci`.
    pub const UTF8MB4_GENERAL_CI: CollationId = CollationId(45);
    /// `utf8mb4_bin`.
    pub const UTF8MB4_BIN: CollationId = CollationId(46);
    /// `utf8mb4_unicode_ci`.
    pub const UTF8MB4_UNICODE_CI: CollationId = CollationId(224);
    /// `utf8mb3_unicode_ci`.
    pub const UTF8MB3_UNICODE_CI: CollationId = CollationId(192);
    /// `latin1_bin`.
    pub const LATIN1_BIN: CollationId = CollationId(47);
    /// `binary`: octets, not text.
    pub const BINARY: CollationId = CollationId(63);
    /// `ascii_bin`.
    pub const ASCII_BIN: CollationId = CollationId(65);
    /// `utf8mb3_bin`.
    pub const UTF8MB3_BIN: CollationId = CollationId(83);

    /// The collation of a number, if Keel has it.
    pub fn from_number(number: u16) -> Option<CollationId> {
        let id = CollationId(number);
        (id.info().number == number && !id.charset().is_wide()).then_some(id)
    }

    /// The collation to use for a client that names `number` when it connects: itself, or its character set's default for
    /// one whose order Keel does not have. None where the character set is not here either.
    pub fn for_client(number: u16) -> Option<CollationId> {
        Self::from_number(number).or_else(|| {
            let charset = match number {
                192..=215 | 223 | 576..=578 | 1216 | 1238 | 2048..=2303 => Utf8mb3,
                224..=247 | 608..=610 | 1248 | 1270 | 2304..=2559 => Utf8mb4,
                _ => return None,
            };
            Some(charset.default_collation())
        })
    }

    #[inline]
    fn info(self) -> &'static Info {
        info_at(PLACES.get(usize::from(self.0)).map_or(FALLBACK, |place| usize::from(*place)))
    }

    fn uca(self) -> Option<Uca> {
        match self.info().weighing {
            Weighing::Uca(uca) => Some(uca),
            _ => None,
        }
    }

    /// Its character set.
    #[inline]
    pub fn charset(self) -> Charset {
        self.info().charset
    }

    /// The collation that columns are described with for a client that has chosen this one: older clients do not know the
    /// numbers of `uca1400`.
    pub fn for_results(self) -> CollationId {
        match self.0 {
            2048..=2303 => Self::UTF8MB3_UNICODE_CI,
            2304.. => Self::UTF8MB4_UNICODE_CI,
            _ => self,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The name that collations of several character sets share, for those that have one: `uca1400_ai_ci`.
    pub fn shared_name(self) -> Option<&'static str> {
        let name = self.info().name;
        let (charset, rest) = name.split_once('_')?;
        (rest.starts_with("uca1400_") && charset.starts_with("utf8")).then_some(rest)
    }

    /// What SHOW COLLATION calls `Sortlen`.
    pub fn sort_length(self) -> u64 {
        match self.info().weighing {
            Weighing::Uca(_) if self.charset() == Latin1 => 2,
            Weighing::Uca(_) => 8,
            _ => 1,
        }
    }

    /// Whether it is its character set's default.
    pub fn is_default(self) -> bool {
        self.charset().default_collation() == self
    }

    /// Whether trailing spaces do not count in comparisons.
    pub fn pads_spaces(self) -> bool {
        self.info().pads
    }
}

/// The collation of a name, letters of either case; `utf8_` is `utf8mb3_`.
pub fn by_name(name: &str) -> Option<CollationId> {
    let name = name.to_ascii_lowercase();
    let name = match name.strip_prefix("utf8_") {
        Some(rest) => format!("utf8mb3_{rest}"),
        None => name,
    };
    COLLATIONS.iter().chain(&ORDERS).chain(&PAGES).find(|c| c.name == name).map(|c| CollationId(c.number))
}

/// The collation of a name for texts of a character set: `uca1400_ai_ci` is that of the set.
pub fn by_name_for(charset: Charset, name: &str) -> Option<CollationId> {
    by_name(name)
        .or_else(|| is_shared_name(name).then(|| by_name(&format!("{}_{name}", charset.name()))).flatten())
}

/// The collation of a name; one that is shared is that of `charset`.
pub fn named(name: &str, charset: Charset) -> SqlResult<CollationId> {
    match by_name_for(charset, name) {
        Some(id) => Ok(id),
        None if is_shared_name(name) => Err(errors::collation_charset_mismatch(name, charset.name())),
        None => Err(errors::unknown_collation(name)),
    }
}

/// The same, but it must be one of `charset`.
pub fn named_of(name: &str, charset: Charset) -> SqlResult<CollationId> {
    let id = named(name, charset)?;
    if id.charset() == charset {
        return Ok(id);
    }
    Err(errors::collation_charset_mismatch(id.name(), charset.name()))
}

/// Whether a name is that of collations of several character sets.
pub fn is_shared_name(name: &str) -> bool {
    let has_it =
        |info: &Info| CollationId(info.number).shared_name().is_some_and(|n| n.eq_ignore_ascii_case(name));
    ORDERS.iter().any(has_it)
}

/// All collations, by number.
pub fn all() -> &'static [CollationId] {
    &NUMBERS
}

/// Whether every character has one weight, whatever stands beside it, so that equal texts have as many characters.
pub fn is_by_character(id: CollationId) -> bool {
    !matches!(id.info().weighing, Weighing::Uca(_))
}

/// Whether regular expressions tell capitals from small letters.
pub fn is_case_sensitive(id: CollationId) -> bool {
    let info = id.info();
    is_binary(id) || matches!(info.weighing, Table(_)) && info.name.ends_with("_cs")
}

/// Whether a collation compares by code, not by weight (`binary` and `_bin`).
pub fn is_binary(id: CollationId) -> bool {
    matches!(id.info().weighing, Octets | CodePoints)
}

/// Compares two strings of one collation.
#[inline]
pub fn compare(id: CollationId, a: &[u8], b: &[u8]) -> Ordering {
    order::compare(id.info(), a, b)
}

/// Whether two strings are equal with all their trailing spaces.
pub fn matches(id: CollationId, a: &[u8], b: &[u8]) -> bool {
    a == b || !is_binary(id) && order::compare(&Info { pads: false, ..*id.info() }, a, b).is_eq()
}

/// The character of `text` at which as many octets as `what` has compare equal to it, trailing spaces included; none before
/// character `from`.
pub fn find(id: CollationId, text: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let mut rest = &text[substring(id, text, 0, from).len()..];
    if let Some(found) = order::find_octets(id.info(), rest, what) {
        return found.map(|at| from + char_len(id, &rest[..at]));
    }
    let mut at = from;
    while what.len() <= rest.len() {
        if matches(id, &rest[..what.len()], what) {
            return Some(at);
        }
        let step = substring(id, rest, 0, 1).len();
        if step == 0 {
            return None;
        }
        rest = &rest[step..];
        at += 1;
    }
    None
}

/// Feeds a hasher so that strings that compare equal hash alike.
pub fn hash(id: CollationId, bytes: &[u8], hasher: &mut impl Hasher) {
    order::hash(id.info(), bytes, hasher);
}

/// Appends the sort key of a string.
pub fn weights(id: CollationId, bytes: &[u8], out: &mut Vec<u8>) {
    order::weights(id.info(), bytes, out);
}

/// Appends what the sort keys of all strings that begin with `prefix` have in common. Trailing spaces of the prefix are
/// left out where the collation pads, since their form depends on what follows.
pub fn prefix_weights(id: CollationId, prefix: &[u8], out: &mut Vec<u8>) {
    order::prefix_weights(id.info(), prefix, out);
}

/// Octets of the sort key that starts `key`; `None` if it is cut short.
pub fn weights_len(id: CollationId, key: &[u8]) -> Option<usize> {
    order::weights_len(id.info(), key)
}

/// Appends what WEIGHT_STRING() gives: at most `count` weights on each level, all if it is 0. The flags are MariaDB's: 1, 2, 4,
/// ... for the levels (none for all), 40 (hexadecimal) to pad, 80 to pad up to `length` bytes, 100, 200, ... to turn a level's
/// bits round, 10000, 20000, ... its bytes.
pub fn weight_string(
    id: CollationId,
    bytes: &[u8],
    count: usize,
    length: usize,
    flags: u32,
    out: &mut Vec<u8>,
) {
    weight_string::append(id.info(), bytes, count, length, flags, out);
}

/// The most octets that WEIGHT_STRING() gives for so many characters, or weights if `count` is not 0.
pub fn weight_string_max(id: CollationId, chars: u64, count: u64) -> u64 {
    let info = id.info();
    let levels = u64::from(weight_string::level_count(info));
    let chars = if count == 0 { chars } else { count.saturating_mul(levels) };
    chars.saturating_mul(weight_string::character_max(info) as u64)
}

/// The string of the sort key that starts `key`, with the key's length; `None` if it is cut short or the collation's keys
/// do not tell (see [`weights_are_lossless`]).
pub fn from_weights(id: CollationId, key: &[u8]) -> Option<(Vec<u8>, usize)> {
    weights_are_lossless(id).then(|| order::decode(id.info(), key)).flatten()
}

/// Whether [`from_weights`] gives back the string, trailing spaces of a padding collation excepted.
pub fn weights_are_lossless(id: CollationId) -> bool {
    is_binary(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_a_collation_that_is_not_here_keep_their_character_set() {
        let taken = |number| CollationId::for_client(number).map(|c| c.name());
        assert_eq!(taken(46), Some("utf8mb4_bin"));
        assert_eq!(taken(224), Some("utf8mb4_unicode_ci"));
        assert_eq!(taken(192), Some("utf8mb3_unicode_ci"));
        assert_eq!(taken(609), Some("utf8mb4_general_ci"));
        assert_eq!(taken(2304), Some("utf8mb4_uca1400_ai_ci"));
        assert_eq!(taken(31), Some("latin1_german2_ci"));
        assert_eq!(taken(255), None);
    }

    #[test]
    fn names_are_those_of_a_character_set_or_shared() {
        let named = |name| by_name(name).map(|c| c.name());
        assert_eq!(named("UTF8MB4_unicode_ci"), Some("utf8mb4_unicode_ci"));
        assert_eq!(named("utf8_unicode_520_ci"), Some("utf8mb3_unicode_520_ci"));
        assert_eq!(named("uca1400_ai_ci"), None);
        assert!(is_shared_name("UCA1400_spanish_as_cs") && !is_shared_name("unicode_ci"));
        let shared = |charset| by_name_for(charset, "UCA1400_as_cs").map(|c| c.name());
        assert_eq!(shared(Charset::Utf8mb3), Some("utf8mb3_uca1400_as_cs"));
        assert_eq!(shared(Charset::Latin1), None);
    }

    #[test]
    fn the_list_is_sorted_and_its_shortcuts_hold() {
        assert!(all().is_sorted());
        assert_eq!(all().len(), COUNT);
        for id in all() {
            assert_eq!(id.info().number, id.0);
            assert_eq!(by_name(id.name()), Some(*id));
            assert_eq!(CollationId::from_number(id.0), Some(*id));
        }
        assert_eq!(by_name("UTF8_general_ci"), Some(CollationId::UTF8MB3_GENERAL_CI));
        assert_eq!(by_name("klingon_ci"), None);
        assert_eq!(CollationId::from_number(255), None);
    }
}

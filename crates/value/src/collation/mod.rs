//! Character sets and collations, under MariaDB's numbers and names.
//!
//! 1. Strings are bytes in their collation's character set. Octets that are no character of it are allowed anywhere: they
//!    count as one character each and sort behind all characters, as MariaDB has it.
//! 2. PAD SPACE collations compare as if the shorter string were padded with spaces; `_nopad_` ones and `binary` do not.
//! 3. [`weights`] gives sort keys whose memcmp order is [`compare`]'s, also when the keys of more columns follow, and no
//!    key is a prefix of another.
//!
//! A [`CollationId`] that is not in [`all`] behaves as `utf8mb4_general_ci`; ask [`CollationId::from_number`] first.
//! Unicode's own algorithm (`utf8mb4_unicode_ci` and its relatives) is not here.

mod charset;
mod latin1_tables;
mod like;
mod order;
mod unicode_tables;

use std::cmp::Ordering;
use std::hash::Hasher;

pub use charset::{Charset, char_len, convert, lower, substring, upper, well_formed_len};
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
}

/// What is known of one collation.
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

/// By number.
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

/// Position of `utf8mb4_general_ci` in [`COLLATIONS`], the answer for unknown numbers.
const FALLBACK: usize = 5;

const NUMBERS: [CollationId; COLLATIONS.len()] = {
    let mut out = [CollationId(0); COLLATIONS.len()];
    let mut i = 0;
    while i < out.len() {
        out[i] = CollationId(COLLATIONS[i].number);
        i += 1;
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
        COLLATIONS.iter().find(|c| c.number == number).map(|c| CollationId(c.number))
    }

    /// The collation to use for a client that names `number` when it connects: itself, or its character set's default for
    /// one whose order Keel does not have. None where the character set is not here either.
    pub fn for_client(number: u16) -> Option<CollationId> {
        Self::from_number(number).or_else(|| {
            let charset = match number {
                31 => Latin1,
                192..=215 | 223 | 576..=578 | 1216 | 1238 | 2048..=2303 => Utf8mb3,
                224..=247 | 608..=610 | 1248 | 1270 | 2304..=2559 => Utf8mb4,
                _ => return None,
            };
            Some(charset.default_collation())
        })
    }

    /// The same for a client that names its collation: orders by Unicode's algorithm are those of MariaDB that are not here.
    pub fn for_client_name(name: &str) -> Option<CollationId> {
        const MISSING: &[&str] =
            &["unicode_ci", "unicode_520_ci", "unicode_nopad_ci", "unicode_520_nopad_ci"];
        by_name(name).or_else(|| {
            let name = name.to_ascii_lowercase();
            let (charset, order) = name.split_once('_')?;
            let charset = Charset::by_name(charset).filter(|c| matches!(c, Utf8mb3 | Utf8mb4))?;
            MISSING.contains(&order).then(|| charset.default_collation())
        })
    }

    #[inline]
    fn info(self) -> &'static Info {
        let position = match self.0 {
            45 => FALLBACK,
            63 => 10,
            8 => 1,
            46 => 6,
            33 => 4,
            number => COLLATIONS.iter().position(|c| c.number == number).unwrap_or(FALLBACK),
        };
        &COLLATIONS[position]
    }

    /// Its character set.
    #[inline]
    pub fn charset(self) -> Charset {
        self.info().charset
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.info().name
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
    COLLATIONS.iter().find(|c| c.name == name).map(|c| CollationId(c.number))
}

/// All collations, by number.
pub fn all() -> &'static [CollationId] {
    &NUMBERS
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
        assert_eq!(taken(224), Some("utf8mb4_general_ci"));
        assert_eq!(taken(192), Some("utf8mb3_general_ci"));
        assert_eq!(taken(2304), Some("utf8mb4_general_ci"));
        assert_eq!(taken(31), Some("latin1_swedish_ci"));
        assert_eq!(taken(255), None);
        let named = |name| CollationId::for_client_name(name).map(|c| c.name());
        assert_eq!(named("utf8mb4_bin"), Some("utf8mb4_bin"));
        assert_eq!(named("UTF8MB4_unicode_ci"), Some("utf8mb4_general_ci"));
        assert_eq!(named("utf8_unicode_520_ci"), Some("utf8mb3_general_ci"));
        assert_eq!(named("latin1_unicode_ci"), None);
        assert_eq!(named("utf8mb4_0900_ai_ci"), None);
    }

    #[test]
    fn the_list_is_sorted_and_its_shortcuts_hold() {
        assert!(COLLATIONS.is_sorted_by_key(|c| c.number));
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

//! Character sets of one octet a character, other than `latin1` and `ascii`. All of them begin with ASCII.
//!
//! `tables.bin` and `list.rs` are written by `cargo x collations` from what MariaDB 10.11 answers. Left out are `swe7`, whose
//! first half is not ASCII, `tis620`, whose vowels are weighed behind the consonants that follow them, and the two Czech
//! collations of several levels.
//!
//! `tables.bin`: for each set the characters of its octets (256 little-endian u16, 0 where an octet is none), what UPPER() makes of
//! them and what LOWER() does (256 octets each); behind all sets the tables of weights, 256 octets each.

pub(super) mod list;

use super::{Charset, CollationId, Weighing};
use list::SETS;
use std::sync::LazyLock;

static TABLES: &[u8] = include_bytes!("tables.bin");

/// Octets that a set takes in the file.
const SET_OCTETS: usize = 256 * (2 + 1 + 1);

/// One of the sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodePage(u8);

/// What is known of a set beyond its tables.
pub(super) struct Set {
    name: &'static str,
    description: &'static str,
    default: CollationId,
    binary: CollationId,
}

const fn set(name: &'static str, description: &'static str, default: u16, binary: u16) -> Set {
    Set { name, description, default: CollationId(default), binary: CollationId(binary) }
}

const fn page(place: u8) -> Charset {
    Charset::Page(CodePage(place))
}

const fn table(at: usize) -> &'static [u8; 256] {
    match TABLES.split_at(at).1.first_chunk() {
        Some(table) => table,
        None => panic!("the file is too short"),
    }
}

const fn weights(number: usize) -> Weighing {
    Weighing::Table(table(SETS.len() * SET_OCTETS + number * 256))
}

/// For each set its characters that are not ASCII, sorted, with the least octet of each.
static OCTETS: LazyLock<Vec<Vec<(u16, u8)>>> =
    LazyLock::new(|| CodePage::all().map(CodePage::octets).collect());

impl CodePage {
    /// All sets.
    pub(super) fn all() -> impl Iterator<Item = CodePage> {
        (0..SETS.len()).map(|place| CodePage(place as u8))
    }

    fn set(self) -> &'static Set {
        &SETS[usize::from(self.0)]
    }

    pub(super) fn name(self) -> &'static str {
        self.set().name
    }

    pub(super) fn description(self) -> &'static str {
        self.set().description
    }

    pub(super) fn default_collation(self) -> CollationId {
        self.set().default
    }

    pub(super) fn binary_collation(self) -> CollationId {
        self.set().binary
    }

    /// The character of an octet.
    pub(super) fn decode(self, octet: u8) -> Option<u16> {
        let at = usize::from(self.0) * SET_OCTETS + 2 * usize::from(octet);
        let code = u16::from_le_bytes([TABLES[at], TABLES[at + 1]]);
        (code != 0 || octet == 0).then_some(code)
    }

    /// The octet of a character.
    pub(super) fn encode(self, code: u32) -> Option<u8> {
        match u16::try_from(code).ok()? {
            ascii @ 0..0x80 => Some(ascii as u8),
            code => {
                let octets = &OCTETS[usize::from(self.0)];
                octets.binary_search_by_key(&code, |octet| octet.0).ok().map(|found| octets[found].1)
            }
        }
    }

    fn octets(self) -> Vec<(u16, u8)> {
        let mut octets: Vec<(u16, u8)> = (0x80..=u8::MAX)
            .filter_map(|octet| Some((self.decode(octet).filter(|code| *code >= 0x80)?, octet)))
            .collect();
        octets.sort_unstable();
        octets.dedup_by_key(|octet| octet.0);
        octets
    }

    /// What UPPER() makes of each octet.
    pub(super) fn upper(self) -> &'static [u8; 256] {
        table(usize::from(self.0) * SET_OCTETS + 512)
    }

    /// What LOWER() makes of each octet.
    pub(super) fn lower(self) -> &'static [u8; 256] {
        table(usize::from(self.0) * SET_OCTETS + 768)
    }
}

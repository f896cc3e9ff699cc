//! The weights as the generated files hold them, read in place.
//!
//! A file (all numbers little-endian, `n` counts what follows)
//! ============================================================
//! ```text
//!   levels u16 | beyond u16 | n u16 | n * (first u32, last u32, delta u32)
//!   per level:     n u16 | n * page u8, padded to two | n u16 | n * page of 256 * value u16 | pool | contractions
//!   case
//!   tailorings u16, each, per level:    n u16 | n * (character u32, value u16) | pool | contractions
//!                   then:               case
//!   pool:          n u16 | n * u16
//!   contractions:  n u16 | n * (three characters u32, the third may be 0; offset in the pool u16)
//!   case:          twice, for UPPER() and LOWER():    n u16 | n * (character u32, what it becomes u32)
//! ```
//!
//! 1. A value below 8000 is the only weight of its character, 0 none (the level ignores it); FFFF says that the file does not
//!    tell; others are 8000 and the offset of a pool entry: the number of weights, with 8000 if a contraction may begin with
//!    the character, and the weights. The pool of a tailoring goes on where that of the level ends.
//! 2. The first level computes what is not told: character plus the delta of its range makes two weights. `beyond`, if
//!    not 0, weighs all characters outside the basic plane. The other levels have one weight for them.
//! 3. A tailoring tells what differs from the file's own order, `case` of the file what differs from `general_ci`; lists are
//!    sorted by character.

use std::sync::OnceLock;

use super::code::Code;

/// The files; their order is that of [`super::list::SLOTS`]'s first numbers.
static FILES: [&[u8]; 4] = [
    include_bytes!("uca0400.bin"),
    include_bytes!("uca0520.bin"),
    include_bytes!("uca1400.bin"),
    include_bytes!("german2.bin"),
];

/// A value that is not in the file.
const UNTOLD: u16 = 0xFFFF;
/// Marks a value as a place in the pool, and a pool entry as one that may begin a contraction.
const FLAG: u16 = 0x8000;
/// What is added to a character that no range names, shifted as ranges have it.
const DELTA: u32 = 0xFBC0 << 15;
/// The weight of octets that are no character.
const BAD: u16 = 0xFFFF;
/// The weights of the second and third level that are not told.
const COMMON: [u16; 3] = [0, 0x20, 0x02];

/// Reads a file from front to back.
#[derive(Clone, Copy)]
struct Reader(&'static [u8]);

impl Reader {
    fn octets(&mut self, count: usize) -> &'static [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn number(&mut self) -> u16 {
        u16_at(self.octets(2), 0)
    }

    /// A list whose entries have so many octets.
    fn list(&mut self, entry: usize) -> &'static [u8] {
        let count = usize::from(self.number());
        self.octets(count * entry)
    }

    fn case(&mut self) -> [&'static [u8]; 2] {
        [self.list(CASE), self.list(CASE)]
    }
}

/// Octets of a range.
const RANGE: usize = 12;
/// Octets of a page of values.
const PAGE: usize = 512;
/// Octets of a tailored character.
const CHANGE: usize = 6;
/// Octets of a letter and what it becomes.
const CASE: usize = 8;
/// Octets of a contraction.
const CONTRACTION: usize = 14;

/// The `index`th number of two octets.
#[inline]
fn u16_at(bytes: &[u8], index: usize) -> u16 {
    u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]])
}

fn u32_at(bytes: &[u8], octet: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[octet..octet + 4]);
    u32::from_le_bytes(number)
}

/// One level of an order.
pub(super) struct Level {
    number: usize,
    beyond: u16,
    ranges: &'static [u8],
    index: &'static [u8],
    pages: &'static [u8],
    pool: &'static [u8],
    contractions: &'static [u8],
    own_changes: &'static [u8],
    own_pool: &'static [u8],
    own_contractions: &'static [u8],
    /// For an octet of ASCII its only weight; 0 where there is more to know.
    pub(super) plain: [u16; 256],
    /// The same, but for characters that may begin a contraction too.
    pub(super) alone: [u16; 256],
    /// Which octets of ASCII may go on with a contraction.
    tails: u128,
    /// What [`Level::identity`] gives for such an octet.
    plain_identity: [u32; 128],
    /// The same by [`Level::fine_identity`].
    plain_fine: [u16; 128],
    /// The weight of a space.
    pub(super) space: u16,
    /// First weights of the characters that a contraction may begin with, sorted.
    heads: Vec<u16>,
    /// The same for the second characters of contractions.
    seconds: Vec<u16>,
}

/// The weights of a character or contraction.
#[derive(Clone, Copy)]
pub(super) enum Weights {
    /// Up to two.
    Few(u16, u16),
    /// As the pool has them.
    Many(&'static [u8]),
}

/// The levels of an order.
pub(super) struct Table {
    pub(super) levels: Vec<Level>,
    /// How weights of the first level are written in keys; the same for all orders of a file.
    pub(super) code: Code,
    /// For an octet of ASCII what it is written as if that is one octet; 0 for the space and where there is more to know.
    pub(super) plain_code: [u8; 256],
    /// What UPPER() and LOWER() make of characters otherwise than `general_ci`: the tailoring's, then the file's.
    case: [[&'static [u8]; 2]; 2],
}

impl Table {
    pub(super) fn has_other_case(&self) -> bool {
        self.case.iter().flatten().any(|list| !list.is_empty())
    }

    /// What UPPER() (0) or LOWER() (1) makes of a character, if that is not what `general_ci` makes of it.
    pub(super) fn other_case(&self, which: usize, code: u32) -> Option<u32> {
        let list = |list: &'static [u8]| search(list, CASE, |entry| u32_at(entry, 0).cmp(&code));
        let entry = list(self.case[0][which]).or_else(|| list(self.case[1][which]))?;
        Some(u32_at(entry, 4))
    }
}

/// The order of a slot. It is made at its first use: some KiB, the weights themselves stay where they are.
pub(super) fn table(slot: u8) -> &'static Table {
    static LOADED: [OnceLock<Table>; super::list::SLOTS.len()] =
        [const { OnceLock::new() }; super::list::SLOTS.len()];
    let slot = usize::from(slot).min(LOADED.len() - 1);
    LOADED[slot].get_or_init(|| {
        let (file, tailoring) = super::list::SLOTS[slot];
        load(FILES[usize::from(file)], usize::from(tailoring))
    })
}

/// Reads a file's own order (`tailoring` 0) or one of its tailorings, counted from 1.
fn load(file: &'static [u8], tailoring: usize) -> Table {
    let mut reader = Reader(file);
    let (count, beyond, ranges) = (usize::from(reader.number()), reader.number(), reader.list(RANGE));
    let mut levels: Vec<Level> = (0..count).map(|number| root(&mut reader, number, beyond, ranges)).collect();
    levels.iter_mut().for_each(Level::prepare);
    let code = Code::new(&levels[0]);
    let mut case = [[&[][..]; 2], reader.case()];
    if tailoring > 0 {
        let _tailorings = reader.number();
        for number in 1..=tailoring {
            for level in &mut levels {
                let own = (reader.list(CHANGE), reader.list(2), reader.list(CONTRACTION));
                if number == tailoring {
                    (level.own_changes, level.own_pool, level.own_contractions) = own;
                }
            }
            case[0] = reader.case();
        }
        levels.iter_mut().for_each(Level::prepare);
    }
    let plain_code = code.plain(&levels[0]);
    Table { levels, code, plain_code, case }
}

fn root(reader: &mut Reader, number: usize, beyond: u16, ranges: &'static [u8]) -> Level {
    let count = usize::from(reader.number());
    let index = &reader.octets(count.next_multiple_of(2))[..count];
    Level {
        number,
        beyond,
        ranges,
        index,
        pages: reader.list(PAGE),
        pool: reader.list(2),
        contractions: reader.list(CONTRACTION),
        own_changes: &[],
        own_pool: &[],
        own_contractions: &[],
        plain: [0; 256],
        alone: [0; 256],
        tails: 0,
        plain_identity: [0; 128],
        plain_fine: [0; 128],
        space: 0,
        heads: Vec::new(),
        seconds: Vec::new(),
    }
}

impl Level {
    /// Computes what is kept besides the file.
    fn prepare(&mut self) {
        for octet in 0..128u32 {
            let value = self.value(octet);
            let mut weights = self.of_character(octet);
            let (first, second) = (weights.pop(), weights.pop());
            self.alone[octet as usize] = if second == 0 { first } else { 0 };
            self.plain[octet as usize] =
                if value < FLAG || value == UNTOLD { self.alone[octet as usize] } else { 0 };
            self.plain_identity[octet as usize] = self.identity(octet);
            self.plain_fine[octet as usize] = self.fine_identity(octet);
        }
        self.space = self.plain[usize::from(b' ')];
        let both = [self.contractions, self.own_contractions];
        let entries = both.iter().flat_map(|list| list.chunks_exact(CONTRACTION));
        self.tails =
            entries.clone().fold(0, |tails, entry| tails | 1u128.checked_shl(u32_at(entry, 4)).unwrap_or(0));
        let weights = |octet: usize| {
            let mut list: Vec<u16> =
                entries.clone().map(|entry| self.of_character(u32_at(entry, octet)).first()).collect();
            list.sort_unstable();
            list.dedup();
            list
        };
        (self.heads, self.seconds) = (weights(0), weights(4));
    }

    /// Whether an octet of ASCII cannot go on with a contraction.
    #[inline]
    pub(super) fn ends_contraction(&self, octet: u8) -> bool {
        octet < 0x80 && self.tails & 1 << octet == 0
    }

    #[inline]
    fn value(&self, code: u32) -> u16 {
        if !self.own_changes.is_empty()
            && let Some(value) = self.tailored(code)
        {
            return value;
        }
        match self.index.get((code >> 8) as usize) {
            None | Some(0) => UNTOLD,
            Some(page) => u16_at(self.pages, (usize::from(*page) - 1) * 256 + (code & 0xFF) as usize),
        }
    }

    fn tailored(&self, code: u32) -> Option<u16> {
        let place = search(self.own_changes, CHANGE, |entry| u32_at(entry, 0).cmp(&code))?;
        Some(u16_at(&place[4..], 0))
    }

    /// The pool from an offset on.
    fn pool_from(&self, offset: usize) -> &'static [u8] {
        let own = 2 * offset;
        if own < self.pool.len() { &self.pool[own..] } else { &self.own_pool[own - self.pool.len()..] }
    }

    /// An entry of the pool, and whether a contraction may begin with its character.
    fn entry(&self, offset: usize) -> (&'static [u8], bool) {
        let pool = self.pool_from(offset);
        let head = u16_at(pool, 0);
        (&pool[2..2 + 2 * usize::from(head & !FLAG)], head & FLAG != 0)
    }

    /// The weights of a character that stands alone.
    fn of_character(&self, code: u32) -> Weights {
        match self.value(code) {
            UNTOLD => self.computed(code),
            value if value < FLAG => Weights::Few(value, 0),
            value => Weights::Many(self.entry(usize::from(value & !FLAG)).0),
        }
    }

    fn computed(&self, code: u32) -> Weights {
        if self.number > 0 {
            return Weights::Few(COMMON[self.number.min(2)], 0);
        }
        if self.beyond != 0 && code > 0xFFFF {
            return Weights::Few(self.beyond, 0);
        }
        let within = |entry: &[u8]| {
            let (first, last) = (u32_at(entry, 0), u32_at(entry, 4));
            if last < code {
                std::cmp::Ordering::Less
            } else if first > code {
                std::cmp::Ordering::Greater
            } else {
                std::cmp::Ordering::Equal
            }
        };
        let delta = search(self.ranges, RANGE, within).map_or(DELTA, |range| u32_at(range, 8));
        let both = code.wrapping_add(delta);
        Weights::Few((both >> 15) as u16, (both & 0x7FFF) as u16 | FLAG)
    }

    /// The weights of what begins a text, and its octets. `decode` gives a character and its octets.
    #[inline]
    pub(super) fn first(
        &self,
        bytes: &[u8],
        decode: impl Fn(&[u8]) -> Option<(u32, usize)>,
    ) -> (Weights, usize) {
        let Some((code, len)) = decode(bytes) else { return (Weights::Few(BAD, 0), 1) };
        let value = self.value(code);
        if value < FLAG {
            return (Weights::Few(value, 0), len);
        }
        if value == UNTOLD {
            return (self.computed(code), len);
        }
        let (weights, begins) = self.entry(usize::from(value & !FLAG));
        if begins && let Some((offset, tail)) = self.contraction(code, &bytes[len..], decode) {
            return (Weights::Many(self.entry(offset).0), len + tail);
        }
        (Weights::Many(weights), len)
    }

    /// The longest contraction that begins with `code` and goes on with `rest`: its place in the pool and the octets of
    /// `rest` that belong to it.
    fn contraction(
        &self,
        code: u32,
        rest: &[u8],
        decode: impl Fn(&[u8]) -> Option<(u32, usize)>,
    ) -> Option<(usize, usize)> {
        if rest.is_empty() {
            return None;
        }
        let (second, second_len) = decode(rest)?;
        let behind = &rest[second_len..];
        if !behind.is_empty()
            && let Some((third, third_len)) = decode(behind)
            && let Some(offset) = self.contracted([code, second, third])
        {
            return Some((offset, second_len + third_len));
        }
        Some((self.contracted([code, second, 0])?, second_len))
    }

    fn contracted(&self, wanted: [u32; 3]) -> Option<usize> {
        let order = |entry: &[u8]| [u32_at(entry, 0), u32_at(entry, 4), u32_at(entry, 8)].cmp(&wanted);
        let own = search(self.own_contractions, CONTRACTION, order);
        let entry = own.or_else(|| search(self.contractions, CONTRACTION, order))?;
        Some(usize::from(u16_at(&entry[12..], 0)))
    }

    /// Whether the level knows nothing of a character: LIKE then finds it equal to itself alone, as MariaDB has it.
    pub(super) fn is_alone(&self, code: u32) -> bool {
        self.index.get((code >> 8) as usize).is_none_or(|page| *page == 0) && self.tailored(code).is_none()
    }

    /// A number that two characters share if and only if they have the same weights. Pools hold each list of weights once, but
    /// for the marked ones, which are single weights.
    pub(super) fn identity(&self, code: u32) -> u32 {
        let value = self.value(code);
        let (first, second) = match self.of_character(code) {
            Weights::Few(first, second) => (first, second),
            Weights::Many(list) if list.len() <= 4 => (u16_at_or_zero(list, 0), u16_at_or_zero(list, 1)),
            Weights::Many(_) => return 0x1_0000 | u32::from(value),
        };
        if second == 0 { u32::from(first) } else { u32::from(first) << 16 | u32::from(second) }
    }

    /// The same for an octet of ASCII.
    #[inline]
    pub(super) fn identity_of_octet(&self, octet: u8) -> u32 {
        self.plain_identity[usize::from(octet & 0x7F)]
    }

    /// [`Level::fine_identity`] of an octet of ASCII.
    #[inline]
    pub(super) fn fine_identity_of_octet(&self, octet: u8) -> u16 {
        self.plain_fine[usize::from(octet & 0x7F)]
    }

    /// The same for the second and third level, whose numbers are smaller.
    pub(super) fn fine_identity(&self, code: u32) -> u16 {
        match (self.of_character(code), self.value(code)) {
            (Weights::Few(weight, _), _) => weight,
            (Weights::Many(list), _) if list.len() == 2 => u16_at(list, 0),
            (Weights::Many(_), value) => value,
        }
    }

    /// Whether a contraction may begin with a character that weighs as `weights`, if a character like `next`, or any, follows.
    pub(super) fn may_contract(&self, weights: Weights, next: Option<Weights>) -> bool {
        self.heads.binary_search(&weights.first()).is_ok()
            && next.is_none_or(|next| self.seconds.binary_search(&next.first()).is_ok())
    }
}

fn u16_at_or_zero(bytes: &[u8], index: usize) -> u16 {
    if bytes.len() >= 2 * index + 2 { u16_at(bytes, index) } else { 0 }
}

/// The entry of a sorted list for which `order` says so.
fn search(
    list: &'static [u8],
    entry: usize,
    order: impl Fn(&[u8]) -> std::cmp::Ordering,
) -> Option<&'static [u8]> {
    let (mut low, mut high) = (0, list.len() / entry);
    while low < high {
        let middle = (low + high) / 2;
        let found = &list[middle * entry..(middle + 1) * entry];
        match order(found) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => return Some(found),
        }
    }
    None
}

impl Weights {
    /// The first weight, 0 if there is none.
    #[inline]
    pub(super) fn first(self) -> u16 {
        match self {
            Weights::Few(first, _) => first,
            Weights::Many(list) => u16_at_or_zero(list, 0),
        }
    }

    /// Takes the first weight off; 0 if there is none.
    #[inline]
    pub(super) fn pop(&mut self) -> u16 {
        match self {
            Weights::Few(first, second) => {
                let taken = *first;
                (*first, *second) = (*second, 0);
                taken
            }
            Weights::Many([]) => 0,
            Weights::Many(list) => {
                let taken = u16_at(list, 0);
                *list = &list[2..];
                taken
            }
        }
    }
}

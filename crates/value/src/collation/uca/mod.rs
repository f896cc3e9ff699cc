//! Unicode's collation algorithm as MariaDB has it: `unicode_ci` (tables of Unicode 4.0.0), `unicode_520_ci`, the family
//! `uca1400`, their languages, and `latin1_german2_ci`, which knows expansions too.
//!
//! A character has no, one or several weights on each level; some sequences of characters (contractions) have weights of their
//! own. The first level tells letters apart, the second accents, the third capitals; a collation looks at some of
//! them, one after the other over the whole string. 0 is never a weight.
//!
//! Sort keys
//! =========
//! Level after level, each ended so that no key is a prefix of another. The first is written by [`code`]; where the collation pads,
//! a space is followed by a mark that says whether what follows its run is less than a space, nothing (which ends the level), or more, as
//! for other collations:
//!
//! ```text
//!   "a"    a | sp 02           "a b"    a | sp 03 | b | sp 02
//! ```
//!
//! Without padding 00 ends it. The other levels are octets, ended by 00: the weight less [`LEAST`], or FF and two octets. No
//! weight there is less than that of a space, so trailing weights of spaces are simply left out where the collation pads.

mod code;
pub(super) mod list;
mod table;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::hash::Hasher;

use self::table::{Level, Table, Weights, table};
use super::Charset;

/// An order and its levels.
#[derive(Clone, Copy)]
pub(super) struct Uca {
    /// Which of [`list::SLOTS`].
    pub(super) slot: u8,
    /// Bit 0 for the first level, 1 for accents, 2 for capitals.
    pub(super) levels: u8,
}

/// Marks behind a space in a key.
const BEFORE_LESS: u8 = 1;
const AT_END: u8 = 2;
const BEFORE_MORE: u8 = 3;
/// Ends a level.
const END: u8 = 0;
/// What is subtracted on the second and the third level.
const LEAST: [u16; 3] = [0, 0x1F, 0];
/// Introduces a weight of two octets there.
const WIDE: u8 = 0xFF;

/// Reads the weights of a text on one level.
struct Scanner<'a> {
    level: &'static Level,
    charset: Charset,
    rest: &'a [u8],
    pending: Weights,
}

const NOTHING: Weights = Weights::Few(0, 0);

impl<'a> Scanner<'a> {
    fn new(level: &'static Level, charset: Charset, rest: &'a [u8]) -> Scanner<'a> {
        Scanner { level, charset, rest, pending: NOTHING }
    }

    /// The next weight; 0 at the end.
    #[inline]
    fn next(&mut self) -> u16 {
        let pending = self.pending.pop();
        if pending != 0 {
            return pending;
        }
        if let Some((first, rest)) = self.rest.split_first() {
            let weight = self.level.plain[usize::from(*first)];
            if weight != 0 {
                self.rest = rest;
                return weight;
            }
        }
        self.next_slow()
    }

    fn next_slow(&mut self) -> u16 {
        while let Some(&first) = self.rest.first() {
            let alone = self.level.alone[usize::from(first)];
            if alone != 0 && self.rest.get(1).is_none_or(|next| self.level.ends_contraction(*next)) {
                self.rest = &self.rest[1..];
                return alone;
            }
            let charset = self.charset;
            let (mut weights, len) = self.level.first(self.rest, |bytes| charset.decode(bytes).ok());
            self.rest = &self.rest[len..];
            let weight = weights.pop();
            if weight != 0 {
                self.pending = weights;
                return weight;
            }
        }
        0
    }
}

impl Uca {
    fn levels(self, table: &'static Table) -> impl Iterator<Item = (usize, &'static Level)> {
        let wanted = move |(number, _): &(usize, _)| self.levels >> number & 1 == 1;
        table.levels.iter().enumerate().filter(wanted)
    }
}

/// Compares two strings.
pub(super) fn compare(uca: Uca, charset: Charset, pads: bool, a: &[u8], b: &[u8]) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let mut levels = uca.levels(table(uca.slot));
    levels
        .find_map(|(_, level)| {
            let order = compare_level(level, charset, pads, a, b);
            order.is_ne().then_some(order)
        })
        .unwrap_or(Ordering::Equal)
}

fn compare_level(level: &'static Level, charset: Charset, pads: bool, a: &[u8], b: &[u8]) -> Ordering {
    let plain = &level.plain;
    let alike = |x: u8, y: u8| plain[usize::from(x)] == plain[usize::from(y)] && plain[usize::from(x)] != 0;
    let same = a.iter().zip(b).take_while(|(x, y)| alike(**x, **y)).count();
    let mut a = Scanner::new(level, charset, &a[same..]);
    let mut b = Scanner::new(level, charset, &b[same..]);
    loop {
        match (a.next(), b.next()) {
            (0, 0) => return Ordering::Equal,
            (0, weight) => return against_end(pads, weight, b).reverse(),
            (weight, 0) => return against_end(pads, weight, a),
            (x, y) if x != y => return x.cmp(&y),
            _ => {}
        }
    }
}

/// How the rest of a longer string, which begins with `weight`, compares with the end of the shorter.
fn against_end(pads: bool, mut weight: u16, mut rest: Scanner<'_>) -> Ordering {
    if !pads {
        return Ordering::Greater;
    }
    let space = rest.level.space;
    while weight == space {
        weight = rest.next();
    }
    if weight == 0 { Ordering::Equal } else { weight.cmp(&space) }
}

/// Hashes the first level: what differs on others alone hashes alike.
pub(super) fn hash(uca: Uca, charset: Charset, pads: bool, bytes: &[u8], hasher: &mut impl Hasher) {
    let table = table(uca.slot);
    let mut small = [0u8; HASH_BUFFER];
    match plain_key(table, pads, bytes, &mut small) {
        Some(len) => hasher.write(&small[..len]),
        None => {
            let mut buffer = Vec::with_capacity(bytes.len() + 8);
            first_level(table, charset, pads, bytes, &mut buffer);
            hasher.write(&buffer);
        }
    }
    hasher.write_u8(END);
}

/// Texts up to so many octets of keys are hashed without memory of their own.
const HASH_BUFFER: usize = 128;

/// What [`first_level`] writes for letters and digits with single spaces between, nearly all text; None for other text.
fn plain_key(table: &Table, pads: bool, bytes: &[u8], out: &mut [u8; HASH_BUFFER]) -> Option<usize> {
    let bytes = if pads { super::order::trim_spaces(bytes) } else { bytes };
    let code = |at: usize| bytes.get(at).map_or(0, |octet| table.plain_code[usize::from(*octet)]);
    let mut len = 0;
    for (at, octet) in bytes.iter().enumerate() {
        if len + 2 > HASH_BUFFER {
            return None;
        }
        let plain = code(at);
        if plain != 0 {
            out[len] = plain;
            len += 1;
        } else if *octet == b' ' && code(at + 1) != 0 {
            (out[len], out[len + 1]) = (table.code.space(), BEFORE_MORE);
            len += if pads { 2 } else { 1 };
        } else {
            return None;
        }
    }
    Some(len)
}

/// Appends the sort key.
pub(super) fn weights(uca: Uca, charset: Charset, pads: bool, bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 4);
    let table = table(uca.slot);
    for (number, level) in uca.levels(table) {
        if number == 0 {
            first_level(table, charset, pads, bytes, out);
            match pads {
                true => out.extend_from_slice(&[table.code.space(), AT_END]),
                false => out.push(END),
            }
        } else {
            fine_level(number, Scanner::new(level, charset, bytes), pads, out);
        }
    }
}

/// The weights of the first level without its end; trailing spaces are left out where the collation pads.
fn first_level(table: &'static Table, charset: Charset, pads: bool, bytes: &[u8], out: &mut Vec<u8>) {
    let level = &table.levels[0];
    let mut scanner = Scanner::new(level, charset, bytes);
    let mut spaces = 0;
    loop {
        let run = scanner.plain_codes(&table.plain_code, &mut spaces, table.code.space(), out);
        scanner.rest = &scanner.rest[run..];
        let weight = scanner.next();
        if weight == 0 {
            return;
        }
        if pads && weight == level.space {
            spaces += 1;
            continue;
        }
        let mark = if weight < level.space { BEFORE_LESS } else { BEFORE_MORE };
        write_spaces(&mut spaces, [table.code.space(), mark], out);
        table.code.write(weight, || scanner.next(), out);
    }
}

fn write_spaces(spaces: &mut usize, space: [u8; 2], out: &mut Vec<u8>) {
    if *spaces > 0 {
        out.extend(std::iter::repeat_n(space, *spaces).flatten());
        *spaces = 0;
    }
}

impl Scanner<'_> {
    /// Writes leading letters and digits that are one octet each and says how many these are.
    #[inline]
    fn plain_codes(&self, codes: &[u8; 256], spaces: &mut usize, space: u8, out: &mut Vec<u8>) -> usize {
        if !matches!(self.pending, Weights::Few(0, _) | Weights::Many([])) {
            return 0;
        }
        let run =
            self.rest.iter().position(|octet| codes[usize::from(*octet)] == 0).unwrap_or(self.rest.len());
        if run > 0 {
            // What is written as one octet is more than a space.
            write_spaces(spaces, [space, BEFORE_MORE], out);
            out.extend(self.rest[..run].iter().map(|octet| codes[usize::from(*octet)]));
        }
        run
    }
}

/// The second or third level with its end.
fn fine_level(number: usize, mut scanner: Scanner<'_>, pads: bool, out: &mut Vec<u8>) {
    let space = scanner.level.space;
    let mut end = out.len();
    loop {
        let weight = scanner.next();
        if weight == 0 {
            break;
        }
        match u8::try_from(weight.saturating_sub(LEAST[number])) {
            Ok(octet) if octet != END && octet != WIDE => out.push(octet),
            _ => {
                let [high, low] = weight.to_be_bytes();
                out.extend_from_slice(&[WIDE, high, low]);
            }
        }
        if !pads || weight != space {
            end = out.len();
        }
    }
    out.truncate(end);
    out.push(END);
}

/// What the keys of all strings that match `prefix` character by character and go on have in common.
pub(super) fn prefix_weights(uca: Uca, charset: Charset, pads: bool, prefix: &[u8], out: &mut Vec<u8>) {
    let table = table(uca.slot);
    let level = &table.levels[0];
    let first = |at: usize| {
        let len = charset.step(&prefix[at..]);
        (level.first(&prefix[at..at + len], |bytes| charset.decode(bytes).ok()).0, at + len)
    };
    let mut at = 0;
    // Where a contraction may begin that goes beyond what is matched, the key is open.
    while at < prefix.len() {
        let (weights, behind) = first(at);
        if level.may_contract(weights, (behind < prefix.len()).then(|| first(behind).0)) {
            break;
        }
        at = behind;
    }
    first_level(table, charset, pads, &prefix[..at], out);
}

/// Octets of the key that starts `key`.
pub(super) fn weights_len(uca: Uca, pads: bool, key: &[u8]) -> Option<usize> {
    let table = table(uca.slot);
    let mut at = 0;
    for (number, _) in uca.levels(table) {
        at += match number {
            0 => first_level_len(table, pads, &key[at..])?,
            _ => fine_level_len(&key[at..])?,
        };
    }
    Some(at)
}

fn first_level_len(table: &Table, pads: bool, key: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let lead = *key.get(at)?;
        if lead == END {
            return Some(at + 1);
        }
        if pads && lead == table.code.space() {
            at += 2;
            if *key.get(at - 1)? == AT_END {
                return Some(at);
            }
            continue;
        }
        at += table.code.len(lead)?;
    }
}

fn fine_level_len(key: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += match *key.get(at)? {
            END => return Some(at + 1),
            WIDE => 3,
            _ => 1,
        };
    }
}

/// Calls `each` for the weights on a level, at most for so many, and says how many there were.
pub(super) fn each_weight(
    uca: Uca,
    charset: Charset,
    level: usize,
    bytes: &[u8],
    most: usize,
    mut each: impl FnMut(u16),
) -> usize {
    let Some(level) = table(uca.slot).levels.get(level) else { return 0 };
    let mut scanner = Scanner::new(level, charset, bytes);
    for count in 0..most {
        match scanner.next() {
            0 => return count,
            weight => each(weight),
        }
    }
    most
}

/// What UPPER() (0) or LOWER() (1) makes of a character, if that is not what `general_ci` makes of it.
pub(super) fn other_case(uca: Uca, which: usize, code: u32) -> Option<u32> {
    table(uca.slot).other_case(which, code)
}

/// Whether letters of other case are not all those of `general_ci`.
pub(super) fn has_other_case(uca: Uca) -> bool {
    table(uca.slot).has_other_case()
}

/// The weight of a space on a level.
pub(super) fn space(uca: Uca, level: usize) -> u16 {
    table(uca.slot).levels.get(level).map_or(0, |level| level.space)
}

/// What LIKE compares: characters one by one, by their weights on all levels of the collation.
#[derive(Clone, Copy)]
pub(super) struct Characters {
    table: &'static Table,
    levels: u8,
    charset: Charset,
}

/// Octets that are no character are told from others by numbers below those of characters that equal only themselves.
const OCTET: u64 = u64::MAX - 0x20_0000;

impl Characters {
    pub(super) fn new(uca: Uca, charset: Charset) -> Characters {
        Characters { table: table(uca.slot), levels: uca.levels, charset }
    }

    /// A number that equal characters share, and the octets of the first character.
    #[inline]
    pub(super) fn identity(self, bytes: &[u8]) -> (u64, usize) {
        let level = |number: usize| &self.table.levels[number];
        if bytes[0] < 0x80 {
            let mut identity = u64::from(level(0).identity_of_octet(bytes[0]));
            for number in (1..3).filter(|number| self.levels >> number & 1 == 1) {
                identity |= u64::from(level(number).fine_identity_of_octet(bytes[0])) << (16 + 16 * number);
            }
            return (identity, 1);
        }
        let Ok((code, len)) = self.charset.decode(bytes) else {
            return (OCTET - u64::from(bytes[0]), 1);
        };
        let mut wanted = (0..self.table.levels.len()).filter(|number| self.levels >> number & 1 == 1);
        if wanted.clone().any(|number| level(number).is_alone(code)) {
            return (!u64::from(code), len);
        }
        wanted.next();
        let mut identity = u64::from(level(0).identity(code));
        for number in wanted {
            identity |= u64::from(level(number).fine_identity(code)) << (16 + 16 * number);
        }
        (identity, len)
    }
}

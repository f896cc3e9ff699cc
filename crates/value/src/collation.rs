//! Character sets and collations.
use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::Hasher;

/// A collation by MariaDB's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollationId(pub u16);

#[allow(missing_docs)]
impl CollationId {
    pub const LATIN1_SWEDISH_CI: CollationId = CollationId(8);
    pub const ASCII_GENERAL_CI: CollationId = CollationId(11);
    pub const UTF8MB3_GENERAL_CI: CollationId = CollationId(33);
    pub const UTF8MB4_GENERAL_CI: CollationId = CollationId(45);
    pub const UTF8MB4_BIN: CollationId = CollationId(46);
    pub const LATIN1_BIN: CollationId = CollationId(47);
    pub const BINARY: CollationId = CollationId(63);
    pub const ASCII_BIN: CollationId = CollationId(65);
    pub const UTF8MB3_BIN: CollationId = CollationId(83);
    /// Its character set.
    pub fn charset(self) -> Charset {
        unimplemented!()
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        unimplemented!()
    }
}
/// A character set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Charset {
    Binary,
    Ascii,
    Latin1,
    Utf8mb3,
    Utf8mb4,
}
impl Charset {
    /// Most octets of one character.
    pub fn max_bytes(self) -> u32 {
        unimplemented!()
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        unimplemented!()
    }
    /// Collation used where only the character set is named.
    pub fn default_collation(self) -> CollationId {
        unimplemented!()
    }
    /// The `_bin` collation.
    pub fn binary_collation(self) -> CollationId {
        unimplemented!()
    }
    /// By name, `utf8` being utf8mb3.
    pub fn by_name(_name: &str) -> Option<Charset> {
        unimplemented!()
    }
}
/// The collation of a name.
pub fn by_name(_name: &str) -> Option<CollationId> {
    unimplemented!()
}
/// All collations, by number.
pub fn all() -> &'static [CollationId] {
    unimplemented!()
}
/// Whether a collation compares by code, not by weight (`binary` and `_bin`).
pub fn is_binary(_id: CollationId) -> bool {
    unimplemented!()
}
/// Compares as the collation says, PAD SPACE included.
pub fn compare(_id: CollationId, _a: &[u8], _b: &[u8]) -> Ordering {
    unimplemented!()
}
/// Feeds a hasher so that equal strings hash alike.
pub fn hash(_id: CollationId, _bytes: &[u8], _hasher: &mut impl Hasher) {
    unimplemented!()
}
/// Appends a sort key: comparing two with memcmp equals [`compare`], also when more columns follow.
pub fn weights(_id: CollationId, _bytes: &[u8], _out: &mut Vec<u8>) {
    unimplemented!()
}
/// Characters in a string.
pub fn char_len(_id: CollationId, _bytes: &[u8]) -> usize {
    unimplemented!()
}
/// SQL LIKE. `escape` is a character of the collation's character set.
pub fn like_match(_id: CollationId, _text: &[u8], _pattern: &[u8], _escape: Option<char>) -> bool {
    unimplemented!()
}
/// UPPER().
pub fn upper(_id: CollationId, _bytes: &[u8]) -> Vec<u8> {
    unimplemented!()
}
/// LOWER().
pub fn lower(_id: CollationId, _bytes: &[u8]) -> Vec<u8> {
    unimplemented!()
}
/// The bytes of up to `count` characters from character `from` (0 is the first).
pub fn substring(_id: CollationId, _bytes: &[u8], _from: usize, _count: usize) -> &[u8] {
    unimplemented!()
}
/// The length of the longest well-formed prefix.
pub fn well_formed_len(_id: CollationId, _bytes: &[u8]) -> usize {
    unimplemented!()
}
/// Converts between character sets; characters that do not exist become `?` and are counted.
pub fn convert<'a>(_from: Charset, _to: Charset, _bytes: &'a [u8]) -> (Cow<'a, [u8]>, usize) {
    unimplemented!()
}

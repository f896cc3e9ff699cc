//! Optional metadata of Table_map events, in blocks of a number, a packed length and that many bytes.
//!
//! `binlog_row_metadata=MINIMAL` writes signedness, charsets and geometry types. FULL adds names, members of
//! ENUM and SET and the primary key. Numbers in blocks are packed. Charset blocks index only columns that
//! have a charset: CHAR, VARCHAR, TEXT, their binary variants, and geometries. ENUM and SET columns have
//! separate charset blocks.

use crate::bytes::{Input, Output};
use crate::error::Result;

/// One block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionalBlock<'a> {
    /// A bit for each numeric column that is UNSIGNED, highest bit of the first byte first. YEAR is one.
    Signedness(&'a [u8]),
    /// Collations of columns with text.
    DefaultCharset(DefaultCharset),
    /// The collation of each column with text.
    ColumnCharset(Vec<u32>),
    /// The name of each column.
    Names(Vec<&'a [u8]>),
    /// Members of each SET.
    SetMembers(Vec<Vec<&'a [u8]>>),
    /// Members of each ENUM.
    EnumMembers(Vec<Vec<&'a [u8]>>),
    /// The type of each geometry.
    GeometryTypes(Vec<u32>),
    /// Columns of the primary key, from 0.
    SimplePrimaryKey(Vec<u32>),
    /// Columns of the primary key and characters of each that are in it, 0 for all.
    PrimaryKeyWithPrefix(Vec<(u32, u32)>),
    /// Collations of ENUM and SET columns.
    EnumSetDefaultCharset(DefaultCharset),
    /// The collation of each ENUM and SET column.
    EnumSetColumnCharset(Vec<u32>),
    /// A block that 10.11 does not know.
    Unknown {
        /// Its number.
        code: u8,
        /// Its bytes.
        bytes: &'a [u8],
    },
}

/// A default collation, and the columns that have another one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DefaultCharset {
    /// Number of the collation.
    pub default: u32,
    /// Index among the columns with a charset, and the number of the collation.
    pub others: Vec<(u32, u32)>,
}

/// Numbers of the blocks.
mod code {
    pub const SIGNEDNESS: u8 = 1;
    pub const DEFAULT_CHARSET: u8 = 2;
    pub const COLUMN_CHARSET: u8 = 3;
    pub const NAMES: u8 = 4;
    pub const SET_MEMBERS: u8 = 5;
    pub const ENUM_MEMBERS: u8 = 6;
    pub const GEOMETRY_TYPES: u8 = 7;
    pub const SIMPLE_PRIMARY_KEY: u8 = 8;
    pub const PRIMARY_KEY_WITH_PREFIX: u8 = 9;
    pub const ENUM_SET_DEFAULT_CHARSET: u8 = 10;
    pub const ENUM_SET_COLUMN_CHARSET: u8 = 11;
}

impl<'a> OptionalBlock<'a> {
    fn decode(input: &mut Input<'a>) -> Result<OptionalBlock<'a>> {
        let number = input.u8()?;
        let bytes = input.packed_bytes()?;
        let input = &mut Input::new(bytes, input.offset() - bytes.len());
        Ok(match number {
            code::SIGNEDNESS => OptionalBlock::Signedness(bytes),
            code::DEFAULT_CHARSET => OptionalBlock::DefaultCharset(DefaultCharset::decode(input)?),
            code::COLUMN_CHARSET => OptionalBlock::ColumnCharset(numbers(input)?),
            code::NAMES => OptionalBlock::Names(all(input, Input::packed_bytes)?),
            code::SET_MEMBERS => OptionalBlock::SetMembers(all(input, members)?),
            code::ENUM_MEMBERS => OptionalBlock::EnumMembers(all(input, members)?),
            code::GEOMETRY_TYPES => OptionalBlock::GeometryTypes(numbers(input)?),
            code::SIMPLE_PRIMARY_KEY => OptionalBlock::SimplePrimaryKey(numbers(input)?),
            code::PRIMARY_KEY_WITH_PREFIX => OptionalBlock::PrimaryKeyWithPrefix(all(input, pair)?),
            code::ENUM_SET_DEFAULT_CHARSET => {
                OptionalBlock::EnumSetDefaultCharset(DefaultCharset::decode(input)?)
            }
            code::ENUM_SET_COLUMN_CHARSET => OptionalBlock::EnumSetColumnCharset(numbers(input)?),
            code => OptionalBlock::Unknown { code, bytes },
        })
    }

    /// Appends the block.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        let number = match self {
            OptionalBlock::Signedness(bits) => {
                bytes.put(bits);
                code::SIGNEDNESS
            }
            OptionalBlock::DefaultCharset(charset) => {
                charset.encode(&mut bytes);
                code::DEFAULT_CHARSET
            }
            OptionalBlock::ColumnCharset(list) => put_numbers(&mut bytes, list, code::COLUMN_CHARSET),
            OptionalBlock::Names(names) => {
                names.iter().for_each(|name| bytes.put_packed_bytes(name));
                code::NAMES
            }
            OptionalBlock::SetMembers(lists) => put_members(&mut bytes, lists, code::SET_MEMBERS),
            OptionalBlock::EnumMembers(lists) => put_members(&mut bytes, lists, code::ENUM_MEMBERS),
            OptionalBlock::GeometryTypes(list) => put_numbers(&mut bytes, list, code::GEOMETRY_TYPES),
            OptionalBlock::SimplePrimaryKey(list) => put_numbers(&mut bytes, list, code::SIMPLE_PRIMARY_KEY),
            OptionalBlock::PrimaryKeyWithPrefix(list) => {
                put_pairs(&mut bytes, list);
                code::PRIMARY_KEY_WITH_PREFIX
            }
            OptionalBlock::EnumSetDefaultCharset(charset) => {
                charset.encode(&mut bytes);
                code::ENUM_SET_DEFAULT_CHARSET
            }
            OptionalBlock::EnumSetColumnCharset(list) => {
                put_numbers(&mut bytes, list, code::ENUM_SET_COLUMN_CHARSET)
            }
            OptionalBlock::Unknown { code, bytes: unknown } => {
                bytes.put(unknown);
                *code
            }
        };
        out.push(number);
        out.put_packed_bytes(&bytes);
    }
}

impl DefaultCharset {
    fn decode(input: &mut Input<'_>) -> Result<DefaultCharset> {
        Ok(DefaultCharset { default: input.packed_u32("number of a collation")?, others: all(input, pair)? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_packed(self.default.into());
        put_pairs(out, &self.others);
    }

    /// The collation of the column with this index among the columns with a charset.
    pub fn of(&self, index: u32) -> u32 {
        let other = self.others.iter().find(|(column, _)| *column == index);
        other.map_or(self.default, |(_, collation)| *collation)
    }
}

/// Reads items until the input ends. Each item takes at least one byte, so the input's length limits the
/// list.
fn all<'a, T>(input: &mut Input<'a>, read: impl Fn(&mut Input<'a>) -> Result<T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    while !input.is_empty() {
        list.push(read(input)?);
    }
    Ok(list)
}

fn numbers(input: &mut Input<'_>) -> Result<Vec<u32>> {
    all(input, |input| input.packed_u32("number in optional metadata"))
}

fn pair(input: &mut Input<'_>) -> Result<(u32, u32)> {
    let what = "number in optional metadata";
    Ok((input.packed_u32(what)?, input.packed_u32(what)?))
}

fn members<'a>(input: &mut Input<'a>) -> Result<Vec<&'a [u8]>> {
    let count = input.packed()?;
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(input.packed_bytes()?);
    }
    Ok(list)
}

fn put_numbers(out: &mut Vec<u8>, list: &[u32], code: u8) -> u8 {
    list.iter().for_each(|v| out.put_packed((*v).into()));
    code
}

fn put_pairs(out: &mut Vec<u8>, list: &[(u32, u32)]) {
    for (first, second) in list {
        out.put_packed((*first).into());
        out.put_packed((*second).into());
    }
}

fn put_members(out: &mut Vec<u8>, lists: &[Vec<&[u8]>], code: u8) -> u8 {
    for list in lists {
        out.put_packed(list.len() as u64);
        list.iter().for_each(|member| out.put_packed_bytes(member));
    }
    code
}

/// Decodes the blocks; ends after the first error.
#[derive(Debug, Clone)]
pub struct OptionalBlocks<'a> {
    input: Input<'a>,
    failed: bool,
}

impl<'a> OptionalBlocks<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: usize) -> OptionalBlocks<'a> {
        OptionalBlocks { input: Input::new(bytes, base), failed: false }
    }
}

impl<'a> Iterator for OptionalBlocks<'a> {
    type Item = Result<OptionalBlock<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.input.is_empty() {
            return None;
        }
        let block = OptionalBlock::decode(&mut self.input);
        self.failed = block.is_err();
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_blocks() -> Vec<OptionalBlock<'static>> {
        let charset = DefaultCharset { default: 45, others: vec![(1, 63), (300, 2047)] };
        vec![
            OptionalBlock::Signedness(&[0x40]),
            OptionalBlock::DefaultCharset(charset.clone()),
            OptionalBlock::ColumnCharset(vec![8, 45, 1216]),
            OptionalBlock::Names(vec![b"a", b"", b"long name"]),
            OptionalBlock::SetMembers(vec![vec![b"x", b"y"], vec![]]),
            OptionalBlock::EnumMembers(vec![vec![b"a"]]),
            OptionalBlock::GeometryTypes(vec![1, 3]),
            OptionalBlock::SimplePrimaryKey(vec![0]),
            OptionalBlock::PrimaryKeyWithPrefix(vec![(0, 10), (2, 0)]),
            OptionalBlock::EnumSetDefaultCharset(charset),
            OptionalBlock::EnumSetColumnCharset(vec![8]),
            OptionalBlock::Unknown { code: 12, bytes: &[1, 2] },
        ]
    }

    #[test]
    fn blocks_survive_a_round_trip() {
        let blocks = all_blocks();
        let mut out = Vec::new();
        blocks.iter().for_each(|block| block.encode(&mut out));
        let read: Result<Vec<_>> = OptionalBlocks::new(&out, 0).collect();
        assert_eq!(read.unwrap(), blocks);
    }

    #[test]
    fn a_truncated_block_is_an_error() {
        for block in all_blocks() {
            let mut out = Vec::new();
            block.encode(&mut out);
            for end in 1..out.len() {
                assert!(
                    OptionalBlocks::new(&out[..end], 0).any(|block| block.is_err()),
                    "{block:?} cut to {end}"
                );
            }
        }
    }

    #[test]
    fn a_count_of_members_takes_no_memory() {
        let bytes = [code::ENUM_MEMBERS, 9, 254, 255, 255, 255, 255, 255, 255, 255, 255];
        assert!(OptionalBlocks::new(&bytes, 0).any(|block| block.is_err()));
    }

    #[test]
    fn collations_are_found_by_column() {
        let charset = DefaultCharset { default: 45, others: vec![(1, 63)] };
        assert_eq!((charset.of(0), charset.of(1)), (45, 63));
    }
}

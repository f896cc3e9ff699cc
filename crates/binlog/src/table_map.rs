//! Table_map events.
//!
//! ```text
//! table id u48 | flags u16 | database: length u8, name, 0 | table: length u8, name, 0 | columns packed | types
//! | length of the metadata packed | metadata | NULL bits | optional metadata
//! ```

use crate::bytes::{Input, Output, bit, bitmap_bytes};
use crate::columns::{Column, ColumnKind};
use crate::error::{Error, Problem, Result};
use crate::header::HEADER_BYTES;
use crate::metadata::{OptionalBlock, OptionalBlocks};

/// The greatest id of a table: 48 bits.
pub const TABLE_ID_MAX: u64 = (1 << 48) - 1;

/// Bits of [`TableMap::flags`].
pub mod flags {
    /// Row images have no empty bits between their NULL bits: always set.
    pub const BIT_LEN_EXACT: u16 = 1;
    /// The source's table has triggers that already ran.
    pub const HAS_TRIGGERS: u16 = 1 << 14;
}

/// A Table_map event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableMap<'a> {
    /// The number by which row events name the table, 48 bits.
    pub table_id: u64,
    /// Bits of [`flags`].
    pub flags: u16,
    /// Its database.
    pub database: &'a [u8],
    /// Its name.
    pub table: &'a [u8],
    /// The number of each column's type.
    pub types: &'a [u8],
    /// Metadata of the types.
    pub metadata: &'a [u8],
    /// A bit for each column that may be NULL.
    pub nullable: &'a [u8],
    /// Optional metadata in blocks: see [`TableMap::blocks`].
    pub optional: &'a [u8],
}

impl<'a> TableMap<'a> {
    pub(crate) fn decode(input: &mut Input<'a>) -> Result<TableMap<'a>> {
        let table_id = input.uint(6)?;
        let flags = input.u16()?;
        let database = input.short_bytes()?;
        input.zero("end of the database's name")?;
        let table = input.short_bytes()?;
        input.zero("end of the table's name")?;
        let types = input.packed_bytes()?;
        let metadata = input.packed_bytes()?;
        let nullable = input.take(bitmap_bytes(types.len()))?;
        Ok(TableMap { table_id, flags, database, table, types, metadata, nullable, optional: input.rest() })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.table_id > TABLE_ID_MAX {
            return Err(Error::no_room(out.len(), "the id of a table"));
        }
        if self.nullable.len() != bitmap_bytes(self.types.len()) {
            return Err(Error::invalid(out.len(), "number of NULL bits"));
        }
        out.put_uint(self.table_id, 6);
        out.put_uint(self.flags.into(), 2);
        out.put_short_bytes(self.database, "the name of a database")?;
        out.push(0);
        out.put_short_bytes(self.table, "the name of a table")?;
        out.push(0);
        out.put_packed_bytes(self.types);
        out.put_packed_bytes(self.metadata);
        out.put(self.nullable);
        out.put(self.optional);
        Ok(())
    }

    /// Offset of the metadata in the event.
    fn metadata_offset(&self) -> usize {
        let packed = |v: usize| match v {
            0..=250 => 1,
            251..=0xffff => 3,
            0x1_0000..=0xff_ffff => 4,
            _ => 9,
        };
        let names = self.database.len() + self.table.len() + 4;
        let types = packed(self.types.len()) + self.types.len();
        HEADER_BYTES + 8 + names + types + packed(self.metadata.len())
    }

    /// Decodes the columns. `unsigned` is set only if the event has the signedness block.
    pub fn columns(&self) -> Result<Vec<Column>> {
        let mut input = Input::new(self.metadata, self.metadata_offset());
        let mut columns = Vec::with_capacity(self.types.len());
        for (index, number) in self.types.iter().enumerate() {
            let kind = ColumnKind::decode(*number, &mut input)?;
            columns.push(Column { kind, nullable: bit(self.nullable, index), unsigned: false });
        }
        input.end()?;
        for block in self.blocks() {
            if let OptionalBlock::Signedness(bits) = block? {
                let signed = columns.iter_mut().filter(|column| column.has_sign());
                for (index, column) in signed.enumerate() {
                    // The highest bit comes first.
                    column.unsigned = bits.get(index / 8).is_some_and(|byte| byte << (index % 8) & 0x80 != 0);
                }
            }
        }
        Ok(columns)
    }

    /// The blocks of optional metadata. `binlog_row_metadata` of the source decides which are there.
    pub fn blocks(&self) -> OptionalBlocks<'a> {
        let base = self.metadata_offset() + self.metadata.len() + self.nullable.len();
        OptionalBlocks::new(self.optional, base)
    }
}

/// Fails if a row event has another number of columns than its table.
pub(crate) fn check_width(width: u32, columns: &[Column]) -> Result<()> {
    if width as usize == columns.len() {
        return Ok(());
    }
    Err(Error::new(HEADER_BYTES, Problem::Invalid("number of columns")))
}

//! LOAD DATA in the STATEMENT format: pieces of the file, then the statement.

use crate::bytes::{Input, Output};
use crate::error::Result;
use crate::query::{Query, QueryHead};

/// A Begin_load_query or Append_block event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// The number of the file within its server.
    pub file_id: u32,
    /// A piece of the file.
    pub bytes: &'a [u8],
}

impl<'a> Block<'a> {
    pub(crate) fn decode(input: &mut Input<'a>) -> Result<Block<'a>> {
        Ok(Block { file_id: input.u32()?, bytes: input.rest() })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_uint(self.file_id.into(), 4);
        out.put(self.bytes);
    }
}

/// An Execute_load_query event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecuteLoadQuery<'a> {
    /// The statement; never compressed.
    pub query: Query<'a>,
    /// The number of the file.
    pub file_id: u32,
    /// Start of the file clause (LOCAL INFILE and the name) in the text.
    pub name_start: u32,
    /// End of the file clause.
    pub name_end: u32,
    /// 0: duplicates are errors; 1: IGNORE; 2: REPLACE.
    pub duplicates: u8,
}

impl<'a> ExecuteLoadQuery<'a> {
    pub(crate) fn decode(input: &mut Input<'a>) -> Result<ExecuteLoadQuery<'a>> {
        let head = QueryHead::decode(input)?;
        let (file_id, name_start, name_end) = (input.u32()?, input.u32()?, input.u32()?);
        let duplicates = input.u8()?;
        let query = Query::decode_rest(input, &head, false)?;
        Ok(ExecuteLoadQuery { query, file_id, name_start, name_end, duplicates })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        self.query.encode_head(out)?;
        out.put_uint(self.file_id.into(), 4);
        out.put_uint(self.name_start.into(), 4);
        out.put_uint(self.name_end.into(), 4);
        out.push(self.duplicates);
        self.query.encode_rest(out);
        Ok(())
    }
}

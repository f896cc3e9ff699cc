//! COM_STMT_BULK_EXECUTE: a prepared statement for several rows of parameters, as MariaDB's connectors send batches.
//!
//! ```text
//! statement u32 | flags u16 |
//!   [type code u8, unsigned 0x80 u8] for each parameter, if the flags say so |
//!   rows: for each parameter an indicator u8, and the value where that is 0
//! ```
//! Types hold until others come, as with COM_STMT_EXECUTE.

use keel_value::Value;

use crate::codec::{Malformed, Reader};
use crate::params::ParamType;
use crate::{command, rows};

/// The types of the parameters come with the packet.
pub const SEND_TYPES: u16 = 0x80;

/// What stands in the place of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mark {
    /// DEFAULT.
    Default,
    /// The column stays as it is; in a new row it has its default.
    Ignore,
}

/// The rows of a packet.
#[derive(Debug, Default, PartialEq)]
pub struct Rows {
    /// The values of all rows, one row behind the other; NULL where a mark stands.
    pub values: Vec<Value>,
    /// The places in `values` of marks, in order.
    pub marks: Vec<(usize, Mark)>,
}

/// The head of COM_STMT_BULK_EXECUTE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkExecute<'a> {
    /// The statement.
    pub statement: u32,
    /// [`SEND_TYPES`], and others that this server does not know.
    pub flags: u16,
    rest: &'a [u8],
}

impl<'a> BulkExecute<'a> {
    /// Reads what follows the command byte.
    pub fn decode(payload: &'a [u8]) -> Result<BulkExecute<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        let (statement, flags) = (reader.u32()?, reader.u16()?);
        Ok(BulkExecute { statement, flags, rest: reader.take_rest() })
    }

    /// Reads the rows of `count` parameters each; there is one at least. `types` holds what an earlier execution declared
    /// and is replaced where this one declares anew.
    pub fn rows(&self, count: usize, types: &mut Vec<ParamType>) -> Result<Rows, Malformed> {
        let mut reader = Reader::new(self.rest);
        if self.flags & SEND_TYPES != 0 {
            types.clear();
            for _ in 0..count {
                let (code, sign) = (reader.u8()?, reader.u8()?);
                types.push(ParamType { code, unsigned: sign & 0x80 != 0 });
            }
        }
        if count == 0 || types.len() != count || reader.is_empty() {
            return Err(Malformed);
        }
        let mut read = Rows::default();
        while !reader.is_empty() {
            for ty in types.iter() {
                let value = match reader.u8()? {
                    0 => rows::read_binary(&mut reader, ty.code, ty.unsigned)?,
                    1 => Value::Null,
                    mark @ (2 | 3) => {
                        let mark = if mark == 2 { Mark::Default } else { Mark::Ignore };
                        read.marks.push((read.values.len(), mark));
                        Value::Null
                    }
                    _ => return Err(Malformed),
                };
                read.values.push(value);
            }
        }
        Ok(read)
    }
}

/// Appends a whole COM_STMT_BULK_EXECUTE, its command byte included, of values that are NULL or text: for tests.
pub fn encode_texts(out: &mut Vec<u8>, statement: u32, rows: &[Vec<Result<Option<&str>, Mark>>]) {
    out.push(command::byte::STMT_BULK_EXECUTE);
    out.extend_from_slice(&statement.to_le_bytes());
    out.extend_from_slice(&SEND_TYPES.to_le_bytes());
    let count = rows.first().map_or(0, Vec::len);
    (0..count).for_each(|_| out.extend_from_slice(&[crate::capability::type_code::VAR_STRING, 0]));
    for cell in rows.iter().flatten() {
        match cell {
            Ok(Some(text)) => {
                out.push(0);
                crate::codec::put_lenenc_bytes(out, text.as_bytes());
            }
            Ok(None) => out.push(1),
            Err(Mark::Default) => out.push(2),
            Err(Mark::Ignore) => out.push(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(packet: &[u8], count: usize) -> Result<Rows, Malformed> {
        BulkExecute::decode(&packet[1..])?.rows(count, &mut Vec::new())
    }

    #[test]
    fn rows_are_values_and_marks() {
        let mut packet = Vec::new();
        let rows = [vec![Ok(Some("a")), Err(Mark::Default)], vec![Ok(None), Err(Mark::Ignore)]];
        encode_texts(&mut packet, 7, &rows);
        let got = read(&packet, 2).unwrap();
        assert_eq!(got.values, [Value::bytes(b"a"), Value::Null, Value::Null, Value::Null]);
        assert_eq!(got.marks, [(1, Mark::Default), (3, Mark::Ignore)]);
    }

    #[test]
    fn every_short_packet_is_malformed() {
        let mut packet = Vec::new();
        encode_texts(&mut packet, 7, &[vec![Ok(Some("abc")), Ok(Some("de"))]]);
        for len in 1..packet.len() {
            assert!(read(&packet[..len], 2).is_err(), "{len}");
        }
        assert!(read(&packet, 2).is_ok());
        *packet.last_mut().unwrap() = 0;
        packet.push(4);
        assert!(read(&packet, 2).is_err(), "no such indicator");
    }

    #[test]
    fn types_hold_until_others_come() {
        let mut types = vec![ParamType { code: crate::capability::type_code::TINY, unsigned: false }];
        let packet = [1, 0, 0, 0, 0, 0, 0, 5, 0, 6];
        let rows = BulkExecute::decode(&packet).unwrap().rows(1, &mut types).unwrap();
        assert_eq!(rows.values, [Value::Int(5), Value::Int(6)]);
        assert!(BulkExecute::decode(&packet).unwrap().rows(1, &mut Vec::new()).is_err());
    }
}

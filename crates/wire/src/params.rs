//! Parameters of prepared statements: COM_STMT_EXECUTE both ways.
//!
//! ```text
//! statement u32 | cursor flags u8 | iterations u32 |
//!   with parameters: NULL bitmap | types follow u8 | [type code u8, unsigned 0x80 u8] each, if they follow | values
//! ```
//! Types are sent with the first execution only and hold until others come. A parameter that came by
//! COM_STMT_SEND_LONG_DATA has no value here.

use keel_value::Value;

use crate::capability::type_code;
use crate::codec::{Malformed, Reader, put_lenenc_bytes};
use crate::{command, rows};

/// The bit of [`Execute::cursor`] that asks for a cursor to read from.
pub const CURSOR_READ_ONLY: u8 = 1;

/// The head of COM_STMT_EXECUTE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execute<'a> {
    /// The statement; `u32::MAX` stands for the last one prepared.
    pub statement: u32,
    /// What cursor to open; 0 for none.
    pub cursor: u8,
    params: &'a [u8],
}

/// The type of a parameter as its client declared it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParamType {
    /// One of [`type_code`].
    pub code: u8,
    /// Integers only.
    pub unsigned: bool,
}

impl<'a> Execute<'a> {
    /// Reads what follows the command byte.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Execute<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        let (statement, cursor, _iterations) = (reader.u32()?, reader.u8()?, reader.u32()?);
        Ok(Execute { statement, cursor, params: reader.take_rest() })
    }

    /// Reads `count` parameters into `values`. `types` holds what an earlier execution declared and is replaced where
    /// this one declares anew; `long` holds parameters that came before, by number.
    pub fn params(
        &self,
        count: usize,
        types: &mut Vec<ParamType>,
        long: &mut [Option<Vec<u8>>],
        values: &mut Vec<Value>,
    ) -> Result<(), Malformed> {
        values.clear();
        if count == 0 {
            return Ok(());
        }
        let mut reader = Reader::new(self.params);
        let nulls = reader.take(count.div_ceil(8))?;
        if reader.u8()? != 0 {
            types.clear();
            for _ in 0..count {
                let (code, sign) = (reader.u8()?, reader.u8()?);
                types.push(ParamType { code, unsigned: sign & 0x80 != 0 });
            }
        }
        if types.len() != count {
            return Err(Malformed);
        }
        for (index, ty) in types.iter().enumerate() {
            let value = if let Some(bytes) = long.get_mut(index).and_then(Option::take) {
                Value::Bytes(bytes.into())
            } else if nulls[index / 8] & 1 << (index % 8) != 0 {
                Value::Null
            } else {
                rows::read_binary(&mut reader, ty.code, ty.unsigned)?
            };
            values.push(value);
        }
        Ok(())
    }
}

/// Appends a whole COM_STMT_EXECUTE, its command byte included, that declares its types.
pub fn encode_execute(out: &mut Vec<u8>, statement: u32, cursor: u8, values: &[Value]) {
    out.push(command::byte::STMT_EXECUTE);
    out.extend_from_slice(&statement.to_le_bytes());
    out.push(cursor);
    out.extend_from_slice(&1u32.to_le_bytes());
    if values.is_empty() {
        return;
    }
    let nulls = out.len();
    out.resize(nulls + values.len().div_ceil(8), 0);
    for (index, value) in values.iter().enumerate() {
        out[nulls + index / 8] |= u8::from(value.is_null()) << (index % 8);
    }
    out.push(1);
    for value in values {
        let (code, unsigned) = declared_type(value);
        out.extend_from_slice(&[code, if unsigned { 0x80 } else { 0 }]);
    }
    values.iter().for_each(|value| put_value(out, value));
}

fn declared_type(value: &Value) -> (u8, bool) {
    match value {
        Value::Null => (type_code::NULL, false),
        Value::Int(_) => (type_code::LONGLONG, false),
        Value::UInt(_) => (type_code::LONGLONG, true),
        Value::Double(_) => (type_code::DOUBLE, false),
        Value::Float(_) => (type_code::FLOAT, false),
        Value::Decimal(_) => (type_code::NEWDECIMAL, false),
        Value::Bytes(_) | Value::Fixed(_) => (type_code::VAR_STRING, false),
        Value::Date(_) => (type_code::DATE, false),
        Value::Time(_) => (type_code::TIME, false),
        Value::DateTime(_) => (type_code::DATETIME, false),
    }
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    use keel_value::{SqlType, TypeKind};
    let kind = match value {
        Value::Null => return,
        Value::Bytes(bytes) => return put_lenenc_bytes(out, bytes),
        Value::Int(_) | Value::UInt(_) => TypeKind::BigInt,
        Value::Double(_) => TypeKind::Double,
        Value::Float(_) => TypeKind::Float,
        Value::Date(_) => TypeKind::Date,
        Value::Time(_) => TypeKind::Time,
        Value::DateTime(_) => TypeKind::DateTime,
        Value::Fixed(v) => return crate::codec::put_measured(out, |out| v.append_to(out)),
        Value::Decimal(v) => return crate::codec::put_measured(out, |out| v.append_to(out)),
    };
    rows::put_binary(out, 0, 0, &SqlType::new(kind), value.as_ref());
}

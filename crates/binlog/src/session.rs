//! Intvar, Rand and User_var events: inputs of the statement that follows.

use crate::bytes::{Input, Output};
use crate::error::{Error, Result};

/// An Intvar event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intvar {
    /// [`Intvar::LAST_INSERT_ID`] or [`Intvar::INSERT_ID`].
    pub which: u8,
    /// The value.
    pub value: u64,
}

impl Intvar {
    /// The result of LAST_INSERT_ID().
    pub const LAST_INSERT_ID: u8 = 1;
    /// The first AUTO_INCREMENT value.
    pub const INSERT_ID: u8 = 2;

    pub(crate) fn decode(input: &mut Input<'_>) -> Result<Intvar> {
        Ok(Intvar { which: input.u8()?, value: input.u64()? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.which);
        out.put_uint(self.value, 8);
    }
}

/// A Rand event: the two seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rand(pub u64, pub u64);

impl Rand {
    pub(crate) fn decode(input: &mut Input<'_>) -> Result<Rand> {
        Ok(Rand(input.u64()?, input.u64()?))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_uint(self.0, 8);
        out.put_uint(self.1, 8);
    }
}

/// A User_var event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserVar<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value; none is NULL.
    pub value: Option<UserValue<'a>>,
}

/// The value of a user variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserValue<'a> {
    /// Number of the result's type: 0 string, 1 real, 2 integer, 4 decimal.
    pub result_type: u8,
    /// Number of the collation.
    pub collation: u32,
    /// A string; eight bytes of a double or an integer; precision, scale and stored form of a decimal.
    pub bytes: &'a [u8],
    /// Bit 0: unsigned. MariaDB writes this byte for integers only.
    pub flags: Option<u8>,
}

impl UserValue<'_> {
    /// [`UserValue::result_type`] of a string.
    pub const STRING: u8 = 0;
    /// That of a double.
    pub const REAL: u8 = 1;
    /// That of an integer.
    pub const INTEGER: u8 = 2;
    /// That of a decimal.
    pub const DECIMAL: u8 = 4;
    /// Bit of [`UserValue::flags`]: the integer is unsigned.
    pub const UNSIGNED: u8 = 1;
}

impl<'a> UserVar<'a> {
    pub(crate) fn decode(input: &mut Input<'a>) -> Result<UserVar<'a>> {
        let name = input.long_bytes()?;
        let at = input.offset();
        let value = match input.u8()? {
            0 => Some(UserValue {
                result_type: input.u8()?,
                collation: input.u32()?,
                bytes: input.long_bytes()?,
                flags: if input.is_empty() { None } else { Some(input.u8()?) },
            }),
            1 => None,
            _ => return Err(Error::invalid(at, "mark of NULL")),
        };
        Ok(UserVar { name, value })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_long_bytes(self.name, "the name of a user variable")?;
        let Some(value) = &self.value else {
            out.push(1);
            return Ok(());
        };
        out.put(&[0, value.result_type]);
        out.put_uint(value.collation.into(), 4);
        out.put_long_bytes(value.bytes, "the value of a user variable")?;
        out.extend(value.flags);
        Ok(())
    }
}

//! Little-endian numbers and strings with their lengths, read with every length checked, and written.

use crate::error::{Error, Problem, Result};

/// A piece of an event that is read from front to back.
#[derive(Debug, Clone)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the piece in its event.
    base: usize,
}

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8], base: usize) -> Input<'a> {
        Input { bytes, at: 0, base }
    }

    /// Offset of the next byte in the event.
    pub fn offset(&self) -> usize {
        self.base + self.at
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let left = self.left();
        if count > left {
            let problem = Problem::Truncated { needed: count as u64, left: left as u64 };
            return Err(Error::new(self.offset(), problem));
        }
        let bytes = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(bytes)
    }

    /// Takes the remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        let bytes = &self.bytes[self.at..];
        self.at = self.bytes.len();
        bytes
    }

    /// The remaining bytes, without taking them.
    pub fn peek(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Fails if bytes are left.
    pub fn end(&self) -> Result<()> {
        match self.left() {
            0 => Ok(()),
            left => Err(Error::new(self.offset(), Problem::Trailing(left as u64))),
        }
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        Ok(array)
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A little-endian number of `count` bytes, 8 at most.
    pub fn uint(&mut self, count: usize) -> Result<u64> {
        Ok(little_endian(self.take(count)?))
    }

    /// A big-endian number of `count` bytes, 8 at most.
    pub fn uint_be(&mut self, count: usize) -> Result<u64> {
        Ok(self.take(count)?.iter().fold(0, |v, b| v << 8 | u64::from(*b)))
    }

    /// A number in MariaDB's packed form: one byte, or 252, 253, 254 and two, three, eight bytes.
    pub fn packed(&mut self) -> Result<u64> {
        let at = self.offset();
        match self.u8()? {
            first @ 0..=250 => Ok(u64::from(first)),
            252 => self.uint(2),
            253 => self.uint(3),
            254 => self.uint(8),
            _ => Err(Error::invalid(at, "packed number")),
        }
    }

    /// A packed number that must be below 2^32.
    pub fn packed_u32(&mut self, what: &'static str) -> Result<u32> {
        let at = self.offset();
        u32::try_from(self.packed()?).map_err(|_| Error::invalid(at, what))
    }

    /// A string behind its packed length.
    pub fn packed_bytes(&mut self) -> Result<&'a [u8]> {
        let count = self.packed()?;
        self.take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// A string behind a length of one byte.
    pub fn short_bytes(&mut self) -> Result<&'a [u8]> {
        let count = self.u8()?;
        self.take(count.into())
    }

    /// A string behind a length of four bytes.
    pub fn long_bytes(&mut self) -> Result<&'a [u8]> {
        let count = self.u32()?;
        self.take(count as usize)
    }

    /// A zero byte.
    pub fn zero(&mut self, what: &'static str) -> Result<()> {
        let at = self.offset();
        if self.u8()? == 0 { Ok(()) } else { Err(Error::invalid(at, what)) }
    }
}

/// A little-endian number of 8 bytes at most.
pub(crate) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
}

/// Writing the same forms.
pub(crate) trait Output {
    fn put(&mut self, bytes: &[u8]);
    fn put_uint(&mut self, v: u64, count: usize);
    fn put_uint_be(&mut self, v: u64, count: usize);
    fn put_packed(&mut self, v: u64);
    fn put_packed_bytes(&mut self, bytes: &[u8]);
    fn put_short_bytes(&mut self, bytes: &[u8], what: &'static str) -> Result<()>;
    fn put_long_bytes(&mut self, bytes: &[u8], what: &'static str) -> Result<()>;
}

impl Output for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn put_uint(&mut self, v: u64, count: usize) {
        // A copy of constant length is a single store.
        match count {
            1 => self.push(v as u8),
            2 => self.extend_from_slice(&(v as u16).to_le_bytes()),
            4 => self.extend_from_slice(&(v as u32).to_le_bytes()),
            8 => self.extend_from_slice(&v.to_le_bytes()),
            _ => self.extend_from_slice(&v.to_le_bytes()[..count]),
        }
    }

    fn put_uint_be(&mut self, v: u64, count: usize) {
        self.extend_from_slice(&v.to_be_bytes()[8 - count..]);
    }

    fn put_packed(&mut self, v: u64) {
        match v {
            0..=250 => self.push(v as u8),
            251..=0xffff => {
                self.push(252);
                self.put_uint(v, 2);
            }
            0x1_0000..=0xff_ffff => {
                self.push(253);
                self.put_uint(v, 3);
            }
            _ => {
                self.push(254);
                self.put_uint(v, 8);
            }
        }
    }

    fn put_packed_bytes(&mut self, bytes: &[u8]) {
        self.put_packed(bytes.len() as u64);
        self.put(bytes);
    }

    fn put_short_bytes(&mut self, bytes: &[u8], what: &'static str) -> Result<()> {
        let Ok(count) = u8::try_from(bytes.len()) else { return Err(Error::no_room(self.len(), what)) };
        self.push(count);
        self.put(bytes);
        Ok(())
    }

    fn put_long_bytes(&mut self, bytes: &[u8], what: &'static str) -> Result<()> {
        let Ok(count) = u32::try_from(bytes.len()) else { return Err(Error::no_room(self.len(), what)) };
        self.put_uint(count.into(), 4);
        self.put(bytes);
        Ok(())
    }
}

/// Length in bytes of a bitmap of `bits` bits.
pub(crate) fn bitmap_bytes(bits: usize) -> usize {
    bits.div_ceil(8)
}

/// Bit `index` of a bitmap, lowest bit of the first byte first; false beyond its end.
pub fn bit(bitmap: &[u8], index: usize) -> bool {
    bitmap.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_survive_a_round_trip() {
        for v in [0, 250, 251, 252, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, u64::MAX] {
            let mut out = Vec::new();
            out.put_packed(v);
            let mut input = Input::new(&out, 0);
            assert_eq!(input.packed(), Ok(v));
            input.end().unwrap();
            for end in 0..out.len() {
                assert!(Input::new(&out[..end], 0).packed().is_err(), "{v} cut to {end}");
            }
        }
        assert!(Input::new(&[251], 0).packed().is_err(), "251 stands for NULL elsewhere");
        assert!(Input::new(&[255], 0).packed().is_err());
    }

    #[test]
    fn errors_tell_the_offset_in_the_event() {
        let mut input = Input::new(&[1, 2, 3], 19);
        input.u16().unwrap();
        let error = input.u32().unwrap_err();
        assert_eq!(error.to_string(), "at byte 21: 4 bytes expected, 1 left");
        assert_eq!(error.in_file(100).offset, 121);
        let error = input.end().unwrap_err();
        assert_eq!(error.to_string(), "at byte 21: 1 bytes behind the last field");
    }

    #[test]
    fn lengths_beyond_the_address_space_are_refused() {
        let bytes = [254, 255, 255, 255, 255, 255, 255, 255, 255, 1];
        assert!(Input::new(&bytes, 0).packed_bytes().is_err());
    }
}

//! Integers and strings as the protocol writes them.
//!
//! A *length-encoded* integer takes one byte below 251, else a marker (252, 253, 254) and 2, 3 or 8 bytes; 251 stands for
//! NULL in text rows. All integers are little-endian.

use std::fmt;

/// A packet that does not hold what it must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed packet")
    }
}

impl std::error::Error for Malformed {}

/// The first byte of a NULL in a text row.
pub const NULL_MARK: u8 = 0xfb;

/// Appends a length-encoded integer.
#[inline]
pub fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    if value < 251 {
        out.push(value as u8);
    } else {
        put_long_lenenc(out, value);
    }
}

fn put_long_lenenc(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    if value < 1 << 16 {
        out.extend_from_slice(&[0xfc, bytes[0], bytes[1]]);
    } else if value < 1 << 24 {
        out.extend_from_slice(&[0xfd, bytes[0], bytes[1], bytes[2]]);
    } else {
        out.push(0xfe);
        out.extend_from_slice(&bytes);
    }
}

/// Appends bytes behind their length-encoded length.
#[inline]
pub fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends text and a zero byte; what follows a zero byte within the text is left out.
pub fn put_nul_terminated(out: &mut Vec<u8>, text: &[u8]) {
    let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
    out.extend_from_slice(&text[..end]);
    out.push(0);
}

/// Appends bytes whose length is known only once they are written; `write` gets `out`.
///
/// One byte is reserved for the length; longer contents are moved.
#[inline]
pub fn put_measured(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    if length < 251 {
        out[start] = length as u8;
    } else {
        widen_length(out, start, length);
    }
}

#[cold]
fn widen_length(out: &mut Vec<u8>, start: usize, length: usize) {
    let mut prefix = Vec::with_capacity(9);
    put_lenenc(&mut prefix, length as u64);
    out.splice(start..=start, prefix);
}

/// Reads a payload from front to back.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Over a whole payload.
    pub fn new(payload: &'a [u8]) -> Reader<'a> {
        Reader { rest: payload }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(head)
    }

    /// All that is left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Three bytes.
    #[inline]
    pub fn u24(&mut self) -> Result<u32, Malformed> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A length-encoded integer; the marks of NULL (251) and ERR (255) are malformed here.
    #[inline]
    pub fn lenenc(&mut self) -> Result<u64, Malformed> {
        match self.u8()? {
            0xfc => Ok(u64::from(self.u16()?)),
            0xfd => Ok(u64::from(self.u24()?)),
            0xfe => self.u64(),
            0xfb | 0xff => Err(Malformed),
            short => Ok(u64::from(short)),
        }
    }

    /// Bytes behind a length-encoded length.
    #[inline]
    pub fn lenenc_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.lenenc()?;
        self.take(usize::try_from(length).map_err(|_| Malformed)?)
    }

    /// Bytes behind a length-encoded length, or None for the mark of NULL.
    pub fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        if self.rest.first() == Some(&NULL_MARK) {
            self.rest = &self.rest[1..];
            return Ok(None);
        }
        self.lenenc_bytes().map(Some)
    }

    /// Bytes up to a zero byte, which is skipped.
    pub fn nul_terminated(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.rest.iter().position(|b| *b == 0).ok_or(Malformed)?;
        let text = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(text)
    }

    /// Bytes up to a zero byte or the end.
    pub fn nul_terminated_or_rest(&mut self) -> &'a [u8] {
        self.nul_terminated().unwrap_or_else(|_| self.take_rest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_encoded_integers_come_back() {
        for value in [0, 250, 251, 252, 65_535, 65_536, 16_777_215, 16_777_216, u64::MAX] {
            let mut out = Vec::new();
            put_lenenc(&mut out, value);
            assert_eq!(Reader::new(&out).lenenc(), Ok(value));
            assert_eq!(Reader::new(&out[..out.len() - 1]).lenenc(), Err(Malformed), "{value} cut short");
        }
    }

    #[test]
    fn measured_bytes_get_the_length_they_turn_out_to_have() {
        for length in [0, 1, 250, 251, 70_000, 17_000_000] {
            let mut out = b"x".to_vec();
            put_measured(&mut out, |out| out.resize(out.len() + length, b'y'));
            let mut expected = b"x".to_vec();
            put_lenenc_bytes(&mut expected, &vec![b'y'; length]);
            assert!(out == expected, "{length}");
        }
    }

    #[test]
    fn a_length_beyond_the_packet_is_malformed() {
        let mut reader = Reader::new(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        assert_eq!(reader.lenenc_bytes(), Err(Malformed));
        assert_eq!(Reader::new(b"abc").nul_terminated(), Err(Malformed));
        assert_eq!(Reader::new(b"abc").nul_terminated_or_rest(), b"abc");
    }
}

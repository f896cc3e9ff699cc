//! Compressed events and compressed columns.
//!
//! ```text
//! event:  0x80 | algorithm << 4 | bytes of the length, 1 to 4     length, big-endian     zlib
//! column: 0     bytes as they are
//!         0x80 | raw << 3 | bytes of the length, 1 to 4           length, big-endian     zlib, or deflate if raw
//! ```
//! The only algorithm of events is 0. An empty column has no byte at all.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};

use crate::bytes::{Input, Output};
use crate::error::{Error, Problem, Result};

/// The highest compression ratio of deflate.
const RATIO_MAX: usize = 1032;

/// Appends `bytes` compressed as events have them.
pub fn pack(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let Ok(length) = u32::try_from(bytes.len()) else {
        return Err(Error::no_room(out.len(), "the length of an event"));
    };
    let count = (4 - length.leading_zeros() as usize / 8).max(1);
    out.push(0x80 | count as u8);
    out.put_uint_be(length.into(), count);
    let failed = |_| Error::invalid(0, "compressed bytes");
    let mut encoder = ZlibEncoder::new(out, Compression::default());
    encoder.write_all(bytes).map_err(failed)?;
    encoder.finish().map_err(failed)?;
    Ok(())
}

/// Reverses [`pack`]. Fails if the uncompressed bytes are longer than `max`.
pub fn unpack(packed: &[u8], max: usize) -> Result<Vec<u8>> {
    let mut input = Input::new(packed, 0);
    let first = input.u8()?;
    let count = usize::from(first & 0x07);
    if first & 0xf8 != 0x80 || !(1..=4).contains(&count) {
        return Err(Error::invalid(0, "head of compressed bytes"));
    }
    let length = input.uint_be(count)? as usize;
    inflate(&input, length, max, true)
}

/// Uncompresses the value of a COMPRESSED column. Fails if the result is longer than `max`.
pub fn unpack_column(stored: &[u8], max: usize) -> Result<Vec<u8>> {
    let Some((first, rest)) = stored.split_first() else { return Ok(Vec::new()) };
    if *first == 0 {
        return if rest.len() <= max { Ok(rest.to_vec()) } else { Err(too_long(rest.len(), max)) };
    }
    let count = usize::from(first & 0x07);
    if first & 0xf0 != 0x80 || !(1..=4).contains(&count) {
        return Err(Error::invalid(0, "head of a compressed column"));
    }
    let mut input = Input::new(rest, 1);
    let length = input.uint_be(count)? as usize;
    inflate(&input, length, max, first & 0x08 == 0)
}

fn too_long(length: usize, max: usize) -> Error {
    Error::new(0, Problem::TooLong { length: length as u64, max: max as u64 })
}

fn inflate(input: &Input<'_>, length: usize, max: usize, with_header: bool) -> Result<Vec<u8>> {
    if length > max {
        return Err(too_long(length, max));
    }
    let (packed, at) = (input.peek(), input.offset());
    if length > packed.len().saturating_mul(RATIO_MAX) {
        return Err(Error::invalid(at, "length of compressed bytes"));
    }
    // The additional byte detects a stream that is longer than its stated length.
    let mut out = Vec::with_capacity(length + 1);
    let mut state = Decompress::new(with_header);
    let status = state.decompress_vec(packed, &mut out, FlushDecompress::Finish);
    let whole = matches!(status, Ok(Status::StreamEnd)) && out.len() == length;
    if whole && state.total_in() == packed.len() as u64 {
        return Ok(out);
    }
    Err(Error::invalid(at, "compressed bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_all_sizes_survive_a_round_trip() {
        for length in [0, 1, 255, 256, 65_535, 65_536, 1 << 24] {
            let bytes: Vec<u8> = (0..length).map(|i| (i / 7) as u8).collect();
            let mut packed = Vec::new();
            pack(&bytes, &mut packed).unwrap();
            assert_eq!(unpack(&packed, length).unwrap(), bytes, "{length}");
            if length > 0 {
                assert!(unpack(&packed, length - 1).is_err(), "{length}");
            }
        }
    }

    #[test]
    fn a_wrong_length_or_a_cut_is_refused() {
        let mut packed = Vec::new();
        pack(&[7; 1000], &mut packed).unwrap();
        for end in 0..packed.len() {
            assert!(unpack(&packed[..end], 1 << 20).is_err(), "cut to {end}");
        }
        assert_eq!(packed[..3], [0x82, 0x03, 0xe8]);
        for length in [999u16, 1001] {
            let mut other = packed.clone();
            other[1..3].copy_from_slice(&length.to_be_bytes());
            assert!(unpack(&other, 1 << 20).is_err(), "{length}");
        }
        packed.push(0);
        assert!(unpack(&packed, 1 << 20).is_err(), "bytes behind the end");
        assert!(unpack(&[0x84, 255, 255, 255, 255, 0x78, 0x9c], usize::MAX).is_err(), "takes no memory");
        assert!(unpack(&[0x91, 1, 0x78], 10).is_err(), "an unknown algorithm");
    }

    #[test]
    fn a_column_of_10_11_is_read() {
        // REPEAT('abc', 90) of a TEXT COMPRESSED column, as it stood in a Write_rows event.
        let stored = [0x8a, 0x01, 0x0e, 0x4b, 0x4c, 0x4a, 0x4e, 0x1c, 0x45, 0x30, 0x04, 0x00];
        assert_eq!(unpack_column(&stored, 270).unwrap(), b"abc".repeat(90));
        assert!(unpack_column(&stored, 269).is_err());
        assert_eq!(unpack_column(b"\0plain", 100).unwrap(), b"plain");
        assert_eq!(unpack_column(b"", 100).unwrap(), b"");
        assert!(unpack_column(b"\0plain", 4).is_err());
        assert!(unpack_column(&[0xff], 4).is_err());
    }
}

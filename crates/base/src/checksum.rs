//! CRC32C, by the processor's own instruction where it has one: pages and redo records carry it.

/// CRC32C (Castagnoli) of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Continues `crc`, a CRC32C of what stands before, over `bytes`.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// The CRC32C of two runs of bytes from those of each; `len` is the second's length.
pub fn crc32c_combine(first: u32, second: u32, len: usize) -> u32 {
    crc32c::crc32c_combine(first, second, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_check_value() {
        // RFC 3720, B.4: thirty-two bytes of zero.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c_append(crc32c(&[0; 10]), &[0; 22]), 0x8a91_36aa);
        assert_eq!(crc32c_combine(crc32c(b"first "), crc32c(b"second"), 6), crc32c(b"first second"));
    }
}

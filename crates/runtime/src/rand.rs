//! Randomness: the kernel's in the real world, the seed's in a simulated one.

/// A random number.
pub fn u64() -> u64 {
    let mut b = [0u8; 8];
    fill(&mut b);
    u64::from_le_bytes(b)
}
/// Fills `bytes` with random bytes; fit for keys and challenges in the real world.
pub fn fill(_bytes: &mut [u8]) {
    unimplemented!()
}

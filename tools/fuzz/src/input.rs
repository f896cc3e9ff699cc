//! Inputs: bytes read as choices, and damaged samples.

/// A small generator, so that a printed seed gives the same inputs everywhere (xorshift64).
pub struct Random(u64);

impl Random {
    /// A generator for `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound.max(1) as u64) as usize
    }
}

/// A sample with a few bytes changed, lost, doubled, or exchanged for pieces of another.
pub fn mutate(random: &mut Random, samples: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = samples[random.below(samples.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(7) {
            0 if at < bytes.len() => _ = bytes.remove(at),
            1 => bytes.insert(at, random.number() as u8),
            2 => {
                let symbols = b"()'\"`,;.*?@/*-+ #\\x0!=<>|&\x00\x01\x7f\x80\xfa\xfb\xfc\xfd\xfe\xff";
                bytes.insert(at, symbols[random.below(symbols.len())]);
            }
            3 => bytes.truncate(at),
            4 => {
                let end = at + random.below(bytes.len() - at + 1);
                let piece = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            5 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ => {
                let other = &samples[random.below(samples.len())];
                let start = random.below(other.len());
                bytes.splice(at..at, other[start..].iter().copied());
            }
        }
    }
    bytes
}

/// Reads an input as a row of choices; beyond its end all are 0.
pub(crate) struct Choices<'a>(pub &'a [u8]);

impl<'a> Choices<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn number(&mut self) -> usize {
        usize::from(self.byte()) << 8 | usize::from(self.byte())
    }
}

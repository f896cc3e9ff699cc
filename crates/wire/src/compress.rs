//! The compressed protocol: packets of zlib around the bytes of all other packets.
//!
//! ```text
//! length u24 | sequence u8 | length uncompressed u24 | bytes      uncompressed 0: the bytes are as they are
//! ```
//! Such a packet holds any stretch of the stream of other packets, which keep their own headers; its sequence numbers are its
//! own. Both sides begin with it behind the OK of the authentication.
//!
//! What unpacks into more than there is room for comes out in parts, so that a small packet never takes much memory.

use std::cell::RefCell;
use std::fmt;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Octets before each packet's bytes.
pub const HEADER_BYTES: usize = 7;

/// Fewer bytes are sent as they are.
pub const COMPRESSED_MIN: usize = 50;

/// The most bytes of one packet, compressed or not.
const PACKET_MAX: usize = 0xff_ffff;

/// A packet that no client sends: out of order, or not what zlib makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uncompressable;

impl fmt::Display for Uncompressable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Couldn't uncompress communication packet")
    }
}

impl std::error::Error for Uncompressable {}

/// The packet that is being read.
enum Reading {
    /// None.
    Nothing,
    /// One whose bytes are as they are.
    Plain { left: usize },
    /// One of zlib.
    Zlib { left: usize, plain_left: usize, inflate: Box<Decompress> },
}

/// One side's state.
pub struct Compressed {
    reading: Reading,
    /// The number of the next packet, either way.
    sequence: u8,
}

thread_local! {
    /// Its state is large and holds nothing between packets.
    static DEFLATE: RefCell<Compress> = RefCell::new(Compress::new(Compression::default(), true));
    /// The same, for the next packet that is read.
    static INFLATE: RefCell<Option<Box<Decompress>>> = const { RefCell::new(None) };
}

impl Default for Compressed {
    fn default() -> Self {
        Compressed::new()
    }
}

impl Compressed {
    /// Before the first packet.
    pub fn new() -> Compressed {
        Compressed { reading: Reading::Nothing, sequence: 0 }
    }

    /// Appends to `out` what the front of `input` unpacks to, no more than `room` bytes. Gives how much of the input is used
    /// up, and whether there is more for want of room.
    pub fn unpack(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<(usize, bool), Uncompressable> {
        let end = out.len() + room;
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            let room = end.saturating_sub(out.len());
            match &mut self.reading {
                Reading::Nothing => {
                    let Some(header) = rest.first_chunk() else { return Ok((taken, false)) };
                    self.begin(header)?;
                    taken += HEADER_BYTES;
                }
                _ if room == 0 => return Ok((taken, true)),
                Reading::Plain { left } => {
                    let n = rest.len().min(*left).min(room);
                    out.extend_from_slice(&rest[..n]);
                    taken += n;
                    *left -= n;
                    if *left == 0 {
                        self.reading = Reading::Nothing;
                    } else if n == rest.len() {
                        return Ok((taken, false));
                    }
                }
                Reading::Zlib { left, plain_left, inflate } => {
                    let given = &rest[..rest.len().min(*left)];
                    let step = inflate_some(inflate, given, out, room.min(*plain_left))?;
                    taken += step.taken;
                    *left -= step.taken;
                    *plain_left -= step.made;
                    if step.is_end {
                        if *left > 0 || *plain_left > 0 {
                            return Err(Uncompressable);
                        }
                        self.end_inflate();
                    } else if step.taken == 0 && step.made == 0 {
                        // All of it is here and leads nowhere, or the rest has not come.
                        return if given.len() == *left { Err(Uncompressable) } else { Ok((taken, false)) };
                    }
                }
            }
        }
    }

    fn begin(&mut self, header: &[u8; HEADER_BYTES]) -> Result<(), Uncompressable> {
        let number = |at: usize| {
            usize::from(header[at]) | usize::from(header[at + 1]) << 8 | usize::from(header[at + 2]) << 16
        };
        let (left, plain_left, sequence) = (number(0), number(4), header[3]);
        // Number 0 begins a command.
        if sequence != self.sequence && sequence != 0 {
            return Err(Uncompressable);
        }
        self.sequence = sequence.wrapping_add(1);
        self.reading = match (left, plain_left) {
            (0, 0) => Reading::Nothing,
            (left, 0) => Reading::Plain { left },
            _ => {
                let spare = INFLATE.with_borrow_mut(Option::take);
                let inflate = spare.unwrap_or_else(|| Box::new(Decompress::new(true)));
                Reading::Zlib { left, plain_left, inflate }
            }
        };
        Ok(())
    }

    fn end_inflate(&mut self) {
        if let Reading::Zlib { mut inflate, .. } = std::mem::replace(&mut self.reading, Reading::Nothing) {
            inflate.reset(true);
            INFLATE.set(Some(inflate));
        }
    }

    /// Appends `plain` as packets.
    pub fn pack(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        for part in plain.chunks(PACKET_MAX) {
            let start = out.len();
            out.extend_from_slice(&[0; HEADER_BYTES]);
            let compressed = part.len() >= COMPRESSED_MIN && deflate(part, out);
            if !compressed {
                out.truncate(start + HEADER_BYTES);
                out.extend_from_slice(part);
            }
            let length = out.len() - start - HEADER_BYTES;
            let header = &mut out[start..start + HEADER_BYTES];
            header[..3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
            header[3] = self.sequence;
            let plain_length = if compressed { part.len() as u32 } else { 0 };
            header[4..].copy_from_slice(&plain_length.to_le_bytes()[..3]);
            self.sequence = self.sequence.wrapping_add(1);
        }
    }
}

/// What one step of unpacking did.
struct Step {
    taken: usize,
    made: usize,
    is_end: bool,
}

/// Unpacks at most `most` bytes. One byte more is looked for: whether the stream ends there can only be told so.
fn inflate_some(
    inflate: &mut Decompress,
    given: &[u8],
    out: &mut Vec<u8>,
    most: usize,
) -> Result<Step, Uncompressable> {
    let (at, before) = (out.len(), (inflate.total_in(), inflate.total_out()));
    out.resize(at + most.max(1), 0);
    let status = inflate.decompress(given, &mut out[at..], FlushDecompress::None);
    let taken = (inflate.total_in() - before.0) as usize;
    let made = (inflate.total_out() - before.1) as usize;
    out.truncate(at + made.min(most));
    if made > most {
        return Err(Uncompressable);
    }
    let status = status.map_err(|_| Uncompressable)?;
    Ok(Step { taken, made, is_end: status == Status::StreamEnd })
}

/// Appends the zlib stream of `part`, if it is shorter.
fn deflate(part: &[u8], out: &mut Vec<u8>) -> bool {
    DEFLATE.with_borrow_mut(|deflate| {
        let at = out.len();
        out.resize(at + part.len() - 1, 0);
        deflate.reset();
        let status = deflate.compress(part, &mut out[at..], FlushCompress::Finish);
        out.truncate(at + deflate.total_out() as usize);
        matches!(status, Ok(Status::StreamEnd))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Compressed::new().pack(plain, &mut out);
        out
    }

    /// Unpacks what comes in pieces of `step` bytes, with so much room each time.
    fn unpacked(bytes: &[u8], step: usize, room: usize) -> Result<Vec<u8>, Uncompressable> {
        let mut side = Compressed::new();
        let (mut plain, mut held) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(step) {
            held.extend_from_slice(piece);
            loop {
                let had = plain.len();
                let (taken, more) = side.unpack(&held, &mut plain, room)?;
                assert!(plain.len() - had <= room);
                held.drain(..taken);
                if !more {
                    break;
                }
                assert!(plain.len() > had || taken > 0);
            }
        }
        assert!(held.is_empty());
        Ok(plain)
    }

    #[test]
    fn what_is_packed_comes_back() {
        let noise: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let even = b"the same again, ".repeat(5000);
        for plain in [&b"x"[..], &even[..49], &even[..50], &even, &noise] {
            let bytes = packed(plain);
            for (step, room) in [(bytes.len(), usize::MAX >> 1), (bytes.len(), 1000), (7, 1 << 16), (1, 3)] {
                if step > 1 || plain.len() < 1000 {
                    assert!(unpacked(&bytes, step, room).expect("good") == plain, "{} {step}", plain.len());
                }
            }
        }
        assert!(packed(&even).len() < even.len() / 50);
        assert_eq!(&packed(b"x"), b"\x01\0\0\0\0\0\0x");
    }

    #[test]
    fn more_than_a_packet_holds_is_divided() {
        let plain = vec![7; PACKET_MAX + 9];
        let bytes = packed(&plain);
        assert!(unpacked(&bytes, bytes.len(), 1 << 16).expect("good") == plain);
    }

    #[test]
    fn damaged_packets_are_refused_and_never_make_more_than_they_say() {
        let plain = b"the same again, ".repeat(50);
        let good = packed(&plain);
        for (at, by) in [(4, 255), (4, 1), (0, 255), (0, 1), (3, 5)] {
            let mut bad = good.clone();
            bad[at] = bad[at].wrapping_sub(by);
            let mut out = Vec::new();
            let mut side = Compressed::new();
            let outcome = side.unpack(&bad, &mut out, 1 << 20);
            let waits = matches!(outcome, Ok((_, false))) && out.len() <= plain.len();
            assert!(outcome.is_err() || waits, "{at}: {outcome:?}");
        }
        for at in HEADER_BYTES..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x55;
            let mut out = Vec::new();
            let _ = Compressed::new().unpack(&bad, &mut out, 1 << 20);
            assert!(out.len() <= plain.len());
        }
    }
}

//! Packets: framing of payloads, and their division and joining beyond 16 MiB.
//!
//! ```text
//! length u24 | sequence u8 | payload     a payload of exactly 0xffffff bytes continues in the next packet
//! ```
//! Sequence numbers start at 0 with each command and count on through its answer.

use std::borrow::Cow;
use std::ops::Range;

/// Octets before each payload.
pub const HEADER_BYTES: usize = 4;

/// The longest payload of one packet; one of this length is continued.
pub const PAYLOAD_MAX: usize = 0xff_ffff;

/// Why bytes cannot be taken as a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The payload is longer than the receiver allows (error 1153).
    TooLarge,
    /// The sequence number is not the next one (error 1156).
    OutOfOrder,
}

/// What stands at the front of received bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Framed {
    /// Not whole yet: at least this many bytes are needed in all.
    Need(usize),
    /// A whole payload.
    Whole(Frame),
}

/// Where a whole payload stands within received bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    first: Range<usize>,
    parts: usize,
    consumed: usize,
    next_sequence: u8,
}

impl Frame {
    /// Bytes to drop once the payload has been used.
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// The sequence number that follows.
    pub fn next_sequence(&self) -> u8 {
        self.next_sequence
    }

    /// The payload; copied only where it came in several packets.
    #[inline]
    pub fn payload<'a>(&self, input: &'a [u8]) -> Cow<'a, [u8]> {
        if self.parts == 1 {
            return Cow::Borrowed(&input[self.first.clone()]);
        }
        Cow::Owned(self.clone().into_payload(input[..self.consumed].to_vec()))
    }

    /// The payload, moved to the front of the packets it came in; these are all of `packets`.
    pub fn into_payload(self, mut packets: Vec<u8>) -> Vec<u8> {
        let (mut at, mut end) = (0, 0);
        for _ in 0..self.parts {
            let length = payload_length(&packets[at..]);
            let from = at + HEADER_BYTES;
            packets.copy_within(from..from + length, end);
            at = from + length;
            end += length;
        }
        packets.truncate(end);
        packets
    }
}

#[inline]
fn payload_length(header: &[u8]) -> usize {
    header[0] as usize | (header[1] as usize) << 8 | (header[2] as usize) << 16
}

/// Looks for a whole payload at the front of `input`. `sequence` is the number expected, `payload_max` the longest payload
/// allowed; a longer one is refused as soon as its header is seen.
#[inline]
pub fn frame(input: &[u8], sequence: u8, payload_max: usize) -> Result<Framed, FrameError> {
    frame_by::<true>(input, sequence, payload_max)
}

/// The same within the compressed protocol, whose packets are numbered themselves: numbers here mean nothing.
pub fn frame_unnumbered(input: &[u8], payload_max: usize) -> Result<Framed, FrameError> {
    frame_by::<false>(input, 0, payload_max)
}

#[inline]
fn frame_by<const NUMBERED: bool>(
    input: &[u8],
    sequence: u8,
    payload_max: usize,
) -> Result<Framed, FrameError> {
    let mut frame = Frame { first: 0..0, parts: 0, consumed: 0, next_sequence: sequence };
    let mut total = 0;
    loop {
        let at = frame.consumed;
        let Some(header) = input.get(at..at + HEADER_BYTES) else {
            return Ok(Framed::Need(at + HEADER_BYTES));
        };
        if NUMBERED && header[3] != frame.next_sequence {
            return Err(FrameError::OutOfOrder);
        }
        let length = payload_length(header);
        total += length;
        if total > payload_max {
            return Err(FrameError::TooLarge);
        }
        let end = at + HEADER_BYTES + length;
        if input.len() < end {
            return Ok(Framed::Need(end));
        }
        if frame.parts == 0 {
            frame.first = at + HEADER_BYTES..end;
        }
        frame.parts += 1;
        frame.consumed = end;
        frame.next_sequence = frame.next_sequence.wrapping_add(1);
        if length < PAYLOAD_MAX {
            return Ok(Framed::Whole(frame));
        }
    }
}

/// The sequence number of the last packet whose header is in `input`, where a long payload began: what answers a payload that
/// is refused before it is whole counts on from there.
pub fn last_sequence(input: &[u8]) -> Option<u8> {
    let mut last = None;
    let mut at = 0;
    while let Some(header) = input.get(at..at + HEADER_BYTES) {
        last = Some(header[3]);
        if payload_length(header) < PAYLOAD_MAX {
            break;
        }
        at += HEADER_BYTES + PAYLOAD_MAX;
    }
    last
}

/// Begins a packet at the end of `out`; gives the position that [`finish`] needs.
#[inline]
#[must_use]
pub fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    start
}

/// Ends the packet begun at `start`: all that was appended since is its payload. Counts `sequence` on.
#[inline]
pub fn finish(out: &mut Vec<u8>, start: usize, sequence: &mut u8) {
    let length = out.len() - start - HEADER_BYTES;
    if length < PAYLOAD_MAX {
        stamp(&mut out[start..start + HEADER_BYTES], length, *sequence);
        *sequence = sequence.wrapping_add(1);
    } else {
        divide(out, start, length, sequence);
    }
}

#[inline]
fn stamp(header: &mut [u8], length: usize, sequence: u8) {
    header[0] = length as u8;
    header[1] = (length >> 8) as u8;
    header[2] = (length >> 16) as u8;
    header[3] = sequence;
}

#[cold]
fn divide(out: &mut Vec<u8>, start: usize, length: usize, sequence: &mut u8) {
    let payload = out.split_off(start + HEADER_BYTES);
    out.truncate(start);
    out.reserve(length + (length / PAYLOAD_MAX + 1) * HEADER_BYTES);
    let mut rest = payload.as_slice();
    loop {
        let (part, later) = rest.split_at(rest.len().min(PAYLOAD_MAX));
        let header = begin(out);
        stamp(&mut out[header..], part.len(), *sequence);
        *sequence = sequence.wrapping_add(1);
        out.extend_from_slice(part);
        rest = later;
        if part.len() < PAYLOAD_MAX {
            return;
        }
    }
}

/// Appends one whole payload as a packet.
pub fn append(out: &mut Vec<u8>, payload: &[u8], sequence: &mut u8) {
    let start = begin(out);
    out.extend_from_slice(payload);
    finish(out, start, sequence);
}

/// Gives already framed packets new sequence numbers that start at `sequence`, which counts on.
pub fn restamp(packets: &mut [u8], sequence: &mut u8) {
    let mut at = 0;
    while at + HEADER_BYTES <= packets.len() {
        let length = payload_length(&packets[at..]);
        packets[at + 3] = *sequence;
        *sequence = sequence.wrapping_add(1);
        at += HEADER_BYTES + length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(input: &[u8]) -> Frame {
        match frame(input, 0, usize::MAX) {
            Ok(Framed::Whole(frame)) => frame,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn payloads_beyond_16_mib_are_divided_and_joined() {
        for length in
            [0, 1, PAYLOAD_MAX - 1, PAYLOAD_MAX, PAYLOAD_MAX + 1, 2 * PAYLOAD_MAX, 2 * PAYLOAD_MAX + 7]
        {
            let payload: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let mut out = Vec::new();
            let mut sequence = 0;
            append(&mut out, &payload, &mut sequence);
            assert_eq!(usize::from(sequence), length / PAYLOAD_MAX + 1);
            let frame = whole(&out);
            assert_eq!((frame.consumed(), frame.next_sequence()), (out.len(), sequence));
            assert!(frame.payload(&out) == payload.as_slice(), "{length}");
            assert!(frame.into_payload(out.clone()) == payload, "{length}");
            assert!(
                matches!(super::frame(&out[..out.len() - 1], 0, usize::MAX), Ok(Framed::Need(n)) if n <= out.len())
            );
        }
    }

    #[test]
    fn too_long_and_out_of_order_are_refused_at_the_header() {
        assert_eq!(frame(&[10, 0, 0, 0], 0, 9), Err(FrameError::TooLarge));
        assert_eq!(frame(&[10, 0, 0, 0], 0, 10), Ok(Framed::Need(14)));
        assert_eq!(frame(&[1, 0, 0, 3, 7], 2, 10), Err(FrameError::OutOfOrder));
        assert_eq!(frame(&[1, 0], 0, 10), Ok(Framed::Need(4)));
    }

    #[test]
    fn numbers_mean_nothing_within_the_compressed_protocol() {
        let mut out = Vec::new();
        append(&mut out, &vec![1; PAYLOAD_MAX + 5], &mut 0);
        out[PAYLOAD_MAX + HEADER_BYTES + 3] = 0;
        assert_eq!(frame(&out, 0, usize::MAX), Err(FrameError::OutOfOrder));
        assert!(matches!(frame_unnumbered(&out, usize::MAX), Ok(Framed::Whole(f)) if f.next_sequence() == 2));
    }

    #[test]
    fn restamping_numbers_every_packet() {
        let mut out = Vec::new();
        let mut sequence = 1;
        append(&mut out, b"ab", &mut sequence);
        append(&mut out, b"", &mut sequence);
        let mut from = 255;
        restamp(&mut out, &mut from);
        assert_eq!((out[3], out[9], from), (255, 0, 1));
    }
}

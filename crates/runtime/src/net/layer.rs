//! What stands between the network's bytes and a session's: encryption, compression.
//!
//! A connection starts without any. A session pushes layers while it is served ([`Connection::push_layer`]); the first is the
//! one next to the network. What arrives goes up through all of them into the input, what is flushed comes down through
//! them.
//!
//! 1. Layers run on the connection's own fiber and never wait; what arrives while no fiber serves the connection stays
//!    as it came.
//! 2. One call decodes no more than about [`ROOM_BYTES`] per layer. The rest waits undecoded, and behind that with the
//!    kernel, so that a few bytes that unpack into many take no more memory than many bytes.
//! 3. A layer that fails is not asked to decode again: the connection ends as if the peer had gone.
//!
//! [`Connection::push_layer`]: super::Connection::push_layer

use std::io;

/// About how many bytes a layer decodes at once.
const ROOM_BYTES: usize = 64 << 10;

/// Undecoded bytes beyond which no more are taken from the kernel.
const UNDECODED_BYTES_MAX: usize = 256 << 10;

/// What a layer made of what arrived.
#[derive(Debug, Clone, Copy, Default)]
pub struct Decoded {
    /// So many bytes at the front are used up.
    pub taken: usize,
    /// It stopped for want of room: more comes out without more coming in.
    pub more: bool,
}

/// Turns the bytes of the network into those of the session, and back.
pub trait Layer: Send {
    /// Appends to `input` what the front of `arrived` says, about `room` bytes of it; what is not whole yet stays. An error
    /// ends the connection.
    fn decode(&mut self, arrived: &[u8], input: &mut Vec<u8>, room: usize) -> io::Result<Decoded>;

    /// Appends to `out` what is to be sent for `plain`.
    fn encode(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()>;

    /// Appends what the layer itself has to say, if it is next to the network: its handshake, and why it failed.
    fn speak(&mut self, _out: &mut Vec<u8>) {}

    /// Appends what takes leave of the peer.
    fn take_leave(&mut self, _out: &mut Vec<u8>) {}
}

/// A layer with what it has not decoded yet.
struct Level {
    layer: Box<dyn Layer>,
    undecoded: Vec<u8>,
    more: bool,
}

/// The layers of a connection, the one next to the network first.
#[derive(Default)]
pub(super) struct Layers {
    levels: Vec<Level>,
    failed: bool,
}

impl Layers {
    /// Adds a layer on top; `undecoded` is what had arrived for it already.
    pub fn push(&mut self, layer: Box<dyn Layer>, undecoded: Vec<u8>) {
        self.levels.push(Level { layer, more: !undecoded.is_empty(), undecoded });
    }

    /// Whether there is room for more of what arrives.
    pub fn has_room(&self) -> bool {
        self.levels.first().is_none_or(|first| first.undecoded.len() <= UNDECODED_BYTES_MAX)
    }

    /// Takes what has arrived.
    pub fn take(&mut self, arrived: &mut Vec<u8>) {
        if let (false, Some(first)) = (arrived.is_empty(), self.levels.first_mut()) {
            first.more = true;
            if first.undecoded.is_empty() {
                std::mem::swap(&mut first.undecoded, arrived);
            } else {
                first.undecoded.append(arrived);
            }
        }
    }

    /// Whether [`Layers::decode`] has anything to do.
    pub fn has_more(&self) -> bool {
        !self.failed && self.levels.iter().any(|level| level.more)
    }

    /// Whether a layer has failed.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Decodes a part of what has arrived into the input.
    pub fn decode(&mut self, input: &mut Vec<u8>) {
        for index in 0..self.levels.len() {
            let (lower, upper) = self.levels.split_at_mut(index + 1);
            let Some(level) = lower.last_mut().filter(|level| level.more && !self.failed) else { continue };
            let above = upper.first_mut();
            if above.as_ref().is_some_and(|above| above.undecoded.len() > UNDECODED_BYTES_MAX) {
                continue;
            }
            let (target, wakes) = match above {
                Some(above) => (&mut above.undecoded, Some(&mut above.more)),
                None => (&mut *input, None),
            };
            let had = target.len();
            match level.layer.decode(&level.undecoded, target, ROOM_BYTES) {
                Ok(decoded) => {
                    level.drop_front(decoded.taken);
                    level.more = decoded.more;
                }
                Err(_) => self.failed = true,
            }
            if let (true, Some(more)) = (target.len() > had, wakes) {
                *more = true;
            }
        }
    }

    /// Appends to `out` what is to be sent for `plain`.
    pub fn encode(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let Some((last, upper)) = self.levels.split_first_mut() else { return Ok(()) };
        let mut between: Option<Vec<u8>> = None;
        for level in upper.iter_mut().rev() {
            let mut bytes = Vec::new();
            level.layer.encode(between.as_deref().unwrap_or(plain), &mut bytes)?;
            between = Some(bytes);
        }
        last.layer.encode(between.as_deref().unwrap_or(plain), out)
    }

    /// What the layer next to the network has to say.
    pub fn speak(&mut self, leaving: bool) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(first) = self.levels.first_mut() {
            if leaving && !self.failed {
                first.layer.take_leave(&mut out);
            }
            first.layer.speak(&mut out);
        }
        out
    }

    /// Gives memory back that holds nothing.
    pub fn release(&mut self) {
        for level in &mut self.levels {
            if level.undecoded.is_empty() {
                level.undecoded = Vec::new();
            }
        }
    }
}

impl Level {
    fn drop_front(&mut self, n: usize) {
        if n == self.undecoded.len() {
            self.undecoded.clear();
        } else {
            self.undecoded.drain(..n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte stands for so many of itself.
    struct Repeat(usize);

    impl Layer for Repeat {
        fn decode(&mut self, arrived: &[u8], input: &mut Vec<u8>, room: usize) -> io::Result<Decoded> {
            let taken = arrived.len().min(room / self.0);
            for byte in &arrived[..taken] {
                if *byte == 0 {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                input.extend(std::iter::repeat_n(*byte, self.0));
            }
            Ok(Decoded { taken, more: taken < arrived.len() })
        }
        fn encode(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
            out.extend(plain.iter().step_by(self.0));
            Ok(())
        }
    }

    #[test]
    fn little_that_unpacks_into_much_comes_in_parts() {
        let mut layers = Layers::default();
        layers.push(Box::new(Repeat(2)), Vec::new());
        layers.push(Box::new(Repeat(1000)), Vec::new());
        layers.take(&mut vec![7; 1000]);
        let mut input = Vec::new();
        while layers.has_more() {
            let had = input.len();
            layers.decode(&mut input);
            assert!(input.len() > had && input.len() - had <= ROOM_BYTES);
        }
        assert_eq!(input, vec![7; 2_000_000]);
        let mut out = Vec::new();
        layers.encode(&input, &mut out).unwrap();
        assert_eq!(out, vec![7; 1000]);
    }

    #[test]
    fn a_layer_that_failed_is_left_alone() {
        let mut layers = Layers::default();
        layers.push(Box::new(Repeat(1)), vec![1, 0, 1]);
        let mut input = Vec::new();
        layers.decode(&mut input);
        assert!(layers.has_failed() && !layers.has_more());
        assert_eq!(input, [1]);
    }
}

//! Long values: where a function's code cannot stop on its way, another thread runs it.

use keel_storage::runtime::wait::WaitEvent;
use keel_storage::runtime::{fiber, latch};

/// How many bytes a function takes in about a quarter of a millisecond.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// Bytes are copied, or taken one by one.
    Copy,
    /// Digests, ciphers, conversions of characters.
    Digest,
    /// Compression, regular expressions.
    Search,
}

impl Pace {
    fn bytes(self) -> usize {
        match self {
            Pace::Copy => 512 << 10,
            Pace::Digest => 64 << 10,
            Pace::Search => 8 << 10,
        }
    }
}

/// Runs `f`, which works on so many bytes: if these are many on a thread of the blocking pool, so that the worker serves others
/// meanwhile. A function of a row on a latched page runs in place.
pub(crate) fn long<T: Send>(pace: Pace, bytes: usize, f: impl FnOnce() -> T + Send) -> T {
    if bytes <= pace.bytes() || latch::held() != 0 {
        return f();
    }
    fiber::blocking(WaitEvent::Blocking, f)
}

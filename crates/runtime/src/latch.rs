//! The count of latches the running fiber holds: whoever takes a latch calls [`entered`], whoever gives it back [`left`].
//!
//! Invariant: 0 at every park, so one count per thread is enough: a fiber that holds a latch is the one that runs.

use std::cell::Cell;

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// A latch was taken.
#[inline]
pub fn entered() {
    HELD.with(|h| h.set(h.get() + 1));
}

/// A latch was given back.
#[inline]
pub fn left() {
    HELD.with(|h| {
        debug_assert!(h.get() > 0, "latch left that was never entered");
        h.set(h.get().wrapping_sub(1));
    });
}

/// Latches held by the caller.
#[inline]
pub fn held() -> u32 {
    HELD.with(|h| h.get())
}

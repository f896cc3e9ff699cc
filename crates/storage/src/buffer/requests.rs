//! Counts page accesses without a shared cache line: each thread has a cell of its own.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

const CELLS: usize = 64;

#[repr(align(64))]
#[derive(Default)]
struct Padded(AtomicU64);

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CELL: Cell<usize> = Cell::new(NEXT.fetch_add(1, Relaxed) % CELLS);
}

/// A counter for hot paths. Threads beyond the 64th share cells and may lose counts.
pub struct Requests([Padded; CELLS]);

impl Default for Requests {
    fn default() -> Requests {
        Requests(std::array::from_fn(|_| Padded::default()))
    }
}

impl Requests {
    /// Counts one.
    #[inline]
    pub fn count(&self) {
        let cell = &self.0[CELL.get()].0;
        cell.store(cell.load(Relaxed) + 1, Relaxed);
    }

    /// All counted.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|c| c.0.load(Relaxed)).sum()
    }
}

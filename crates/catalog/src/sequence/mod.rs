//! The state of sequences in memory: values that a session took from the row of a sequence and nobody has got yet, and the
//! number of sessions that wait for a value.

mod shape;
mod values;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use keel_context::mdl::TableLock;
use keel_storage::runtime::wait::WaitEvent;
use parking_lot::Mutex;

pub use shape::{OPTION, check_shape, columns};
pub use values::{NextValue, SequenceState, Values};

/// What memory knows of a sequence.
pub struct Sequence {
    /// The session that writes the row holds it.
    pub gate: Arc<TableLock>,
    /// None before its first use, and while somebody holds the gate.
    pub state: Mutex<Option<SequenceState>>,
    /// Sessions that want a value and found none.
    pub wanting: AtomicUsize,
}

impl Default for Sequence {
    fn default() -> Sequence {
        Sequence {
            gate: Arc::new(TableLock::new(WaitEvent::RowLock)),
            state: Mutex::default(),
            wanting: AtomicUsize::new(0),
        }
    }
}

/// A session at the gate, counted.
pub struct Wanting<'s>(&'s AtomicUsize);

impl<'s> Wanting<'s> {
    /// One more of those that `count` counts, as long as it lives.
    pub fn among(count: &'s AtomicUsize) -> Wanting<'s> {
        count.fetch_add(1, Ordering::Relaxed);
        Wanting(count)
    }
}

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Sequence {
    /// Forgets the values that lie in memory.
    pub fn forget(&self) {
        *self.state.lock() = None;
    }

    /// A value that lies in memory.
    pub fn take(&self) -> Option<i64> {
        self.state.lock().as_mut()?.take()
    }
}

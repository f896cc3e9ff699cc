//! A server with nothing around it, for tests of single operators.

use std::sync::Arc;

use crate::memory::WorkMemory;
use crate::place::Place;

/// A server that has this much memory to share.
struct Alone(WorkMemory);

impl Place for Alone {
    fn work_memory(&self) -> &WorkMemory {
        &self.0
    }
}

/// A server whose operators have what each has at the start.
pub(crate) fn host() -> Arc<dyn Place> {
    Arc::new(Alone(WorkMemory::new(0)))
}

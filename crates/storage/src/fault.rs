//! What can go wrong below transactions: the world broke. Carries file, page and operation for the operator.

use std::fmt;
use std::sync::Arc;

/// An error of the physical store.
#[derive(Debug, Clone)]
pub enum StoreError {
    /// A file operation failed.
    Io {
        /// File name within the data folder.
        file: String,
        /// Byte offset of the operation.
        offset: u64,
        /// What was tried: `read`, `write`, `sync`, ...
        op: &'static str,
        /// The operating system's answer.
        source: Arc<std::io::Error>,
    },
    /// Stored bytes are not what was written.
    Corrupt {
        /// File name within the data folder.
        file: String,
        /// Page number within the file.
        page: u32,
        /// What was expected and found.
        what: String,
    },
    /// No room on the device; the statement fails, the store lives.
    DiskFull {
        /// File name within the data folder.
        file: String,
    },
    /// The redo log could not be written: nothing is acknowledged any more.
    LogFailed,
    /// A key or value exceeds what a page takes.
    TooLarge,
    /// The data folder was written by another format version, or is in use.
    Unusable(String),
    /// The tree does not exist (any more).
    NoTree(u32),
}

/// Result of the physical store.
pub type StoreResult<T> = Result<T, StoreError>;

impl StoreError {
    /// Wraps a failed operation; ENOSPC becomes [`StoreError::DiskFull`].
    pub fn io(file: &str, offset: u64, op: &'static str, source: std::io::Error) -> StoreError {
        use std::io::ErrorKind;
        if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            return StoreError::DiskFull { file: file.to_owned() };
        }
        StoreError::Io { file: file.to_owned(), offset, op, source: Arc::new(source) }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Io { file, offset, op, source } => write!(f, "{op} of {file} at {offset}: {source}"),
            StoreError::Corrupt { file, page, what } => write!(f, "{file} page {page}: {what}"),
            StoreError::DiskFull { file } => write!(f, "no space left on the device for {file}"),
            StoreError::LogFailed => f.write_str("the redo log could not be written"),
            StoreError::TooLarge => f.write_str("key or value too large for a page"),
            StoreError::Unusable(why) => f.write_str(why),
            StoreError::NoTree(id) => write!(f, "tree {id} does not exist"),
        }
    }
}

impl std::error::Error for StoreError {}

//! What a call of the engine answers instead of a result: the caller's situation, or the world broke.

use std::fmt;

use crate::fault::StoreError;

/// An error of the engine.
#[derive(Debug, Clone)]
pub enum Error {
    /// The world broke below transactions.
    Store(StoreError),
    /// The transaction was chosen as a deadlock's victim and **is already rolled back**.
    Deadlock,
    /// A row lock was not granted in time; the caller rolls back the statement.
    LockWaitTimeout,
    /// A row lock was not free and the caller asked not to wait.
    LockNotAvailable,
    /// The statement was killed while it waited or scanned.
    Interrupted,
    /// The row to change is not there.
    NotFound,
    /// The tree came into use after the transaction's snapshot.
    TreeChanged,
    /// Under snapshot isolation: the row to lock is newer than the snapshot. The caller rolls back the transaction.
    RecordChanged,
    /// A write in a read-only transaction.
    ReadOnly,
    /// A key or row exceeds the engine's limits.
    TooLarge,
    /// The transaction has already ended, or the engine is stopping.
    Ended,
}

/// Result of the engine.
pub type Result<T> = std::result::Result<T, Error>;

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match error {
            StoreError::TooLarge => Error::TooLarge,
            other => Error::Store(other),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Store(error) => error.fmt(f),
            Error::Deadlock => f.write_str("deadlock found; transaction rolled back"),
            Error::LockWaitTimeout => f.write_str("lock wait timeout exceeded"),
            Error::LockNotAvailable => f.write_str("lock not available"),
            Error::Interrupted => f.write_str("interrupted"),
            Error::NotFound => f.write_str("row not found"),
            Error::TreeChanged => f.write_str("tree is newer than the snapshot"),
            Error::RecordChanged => f.write_str("row is newer than the snapshot"),
            Error::ReadOnly => f.write_str("transaction is read only"),
            Error::TooLarge => f.write_str("key or row too large"),
            Error::Ended => f.write_str("transaction has ended"),
        }
    }
}

impl std::error::Error for Error {}

//! Errors of the engine as clients see them.

use keel_base::{SqlError, errors};

/// What a client sees of an engine's error.
#[cold]
pub fn engine_error(error: keel_storage::Error) -> SqlError {
    use keel_storage::Error;
    use keel_storage::fault::StoreError;
    match error {
        Error::Deadlock => errors::lock_deadlock(),
        Error::LockWaitTimeout | Error::LockNotAvailable => errors::lock_wait_timeout(),
        Error::Interrupted => errors::query_interrupted(),
        Error::ReadOnly => errors::cant_execute_in_read_only_transaction(),
        Error::TooLarge => errors::too_big_rowsize(8126),
        Error::TreeChanged => errors::table_def_changed(),
        Error::NotFound | Error::RecordChanged => errors::checkread("?"),
        Error::Store(StoreError::DiskFull { file }) => errors::disk_full(file, "No space left on device"),
        Error::Store(_) | Error::Ended => errors::get_errno(168, error, "InnoDB"),
    }
}

//! What SQL knows of a session's transaction: savepoints, and the locks that are kept to its end.

use std::sync::Arc;

use keel_storage::{Isolation, Savepoint};

use crate::branch::Branch;
use crate::mdl::TableLock;

/// What SQL knows of a session's transaction beside the engine's [`Txn`](keel_storage::Txn).
#[derive(Default)]
pub struct TransactionState {
    /// BEGIN was said, or a statement ran under `autocommit=0`.
    pub(crate) open: bool,
    /// READ ONLY.
    pub read_only: bool,
    /// The level that was in force when it was opened: what SET SESSION says meanwhile is for the next one.
    pub(crate) isolation: Option<Isolation>,
    /// A temporary table was made or dropped, which nothing takes back.
    pub(crate) temporary: bool,
    /// A statement that changes rows of tables that last has run.
    pub writes_lasting: bool,
    pub(crate) savepoints: Vec<SavepointHere>,
    /// What XA START began.
    pub branch: Option<Box<Branch>>,
    /// Shared metadata locks, kept to the end, and whether they are a writer's.
    pub locks: Vec<(Arc<TableLock>, bool)>,
}

/// A savepoint of a session.
pub(crate) struct SavepointHere {
    pub name: String,
    pub place: UndoPoint,
}

/// A place within a transaction to which it can be undone.
#[derive(Clone, Copy)]
pub struct UndoPoint {
    pub(crate) point: Savepoint,
    /// Metadata locks kept when it was set.
    pub(crate) locks: usize,
}

/// Most savepoints of one transaction.
pub(crate) const SAVEPOINTS_MAX: usize = 10_000;

impl TransactionState {
    /// Whether a transaction is open beyond the running statement.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Notes that a temporary table was made or dropped.
    pub fn note_temporary(&mut self, autocommit: bool) {
        self.temporary |= self.open || !autocommit;
    }

    /// How the transaction keeps this lock already, if it does: whether as a writer.
    pub fn holds(&mut self, lock: &Arc<TableLock>) -> Option<&mut bool> {
        self.locks.iter_mut().find(|(held, _)| Arc::ptr_eq(held, lock)).map(|(_, writes)| writes)
    }

    /// Keeps a lock to the end of the transaction.
    pub fn keep(&mut self, lock: &Arc<TableLock>, writes: bool) {
        self.locks.push((lock.clone(), writes));
    }

    /// Takes the locks that it keeps as a writer.
    pub fn take_writers(&mut self) -> Vec<Arc<TableLock>> {
        self.locks.extract_if(.., |(_, writes)| *writes).map(|(lock, _)| lock).collect()
    }

    pub(crate) fn release_locks(&mut self) {
        self.release_from(0);
    }

    /// Gives back those that came after the first `count`.
    pub fn release_from(&mut self, count: usize) {
        self.locks.drain(count..).for_each(|(lock, writes)| lock.unshare(writes));
    }
}

impl Drop for TransactionState {
    fn drop(&mut self) {
        self.release_locks();
    }
}

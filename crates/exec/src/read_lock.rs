//! The global read lock: FLUSH TABLES WITH READ LOCK keeps writers out of all tables, and what was written from commit.
//!
//! A statement that writes or defines passes a gate for as long as it runs, LOCK TABLES ... WRITE until UNLOCK TABLES; the
//! commit of a transaction that has written passes another. The read lock closes the first gate, waits until nobody is
//! inside, and does the same with the second: an open transaction does not hinder it, and waits with its next write or its
//! COMMIT. Several sessions may have the read lock. As MariaDB's backup locks MDL_BACKUP_FTWRL1 and FTWRL2.
//!
//! 1. There is a pair of gates for each worker, so that writers of different workers share no memory; a session passes
//!    those of its own worker. The read lock closes all of them, one after the other.
//! 2. Who passes the gate of statements passes that of commits too: the read lock closes the second once nobody is inside
//!    the first.

use std::sync::Arc;

use keel_storage::runtime::wait::WaitEvent;
use keel_storage::runtime::{slot_count, worker_index};

use crate::mdl::{Kind, TableLock};

/// The gates of a server.
pub(crate) struct Gates {
    by_worker: Box<[Gate]>,
}

pub(crate) struct Gate {
    pub(crate) statements: Arc<TableLock>,
    pub(crate) commits: Arc<TableLock>,
}

impl Default for Gates {
    fn default() -> Gates {
        let lock = || Arc::new(TableLock::new(WaitEvent::BackupLock));
        let gate = |_| Gate { statements: lock(), commits: lock() };
        Gates { by_worker: (0..slot_count()).map(gate).collect() }
    }
}

impl Gates {
    pub(crate) fn own(&self) -> &Gate {
        &self.by_worker[worker_index()]
    }

    /// All of them, in the order in which they are closed.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<TableLock>> {
        let statements = self.by_worker.iter().map(|gate| &gate.statements);
        statements.chain(self.by_worker.iter().map(|gate| &gate.commits))
    }
}

/// A writer within a gate; leaves it when dropped.
pub struct Pass(Arc<TableLock>);

impl Pass {
    /// Through a gate that the session has shared as a writer.
    pub fn of(gate: Arc<TableLock>) -> Pass {
        Pass(gate)
    }

    /// The gate.
    pub fn gate(&self) -> &Arc<TableLock> {
        &self.0
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.unshare(true);
    }
}

/// The read lock of a session; given back when dropped.
#[derive(Default)]
pub struct ReadLock {
    pub(crate) closed: Vec<Arc<TableLock>>,
}

impl ReadLock {
    /// Whether the session has it.
    pub fn is_held(&self) -> bool {
        !self.closed.is_empty()
    }

    /// The gates that are closed.
    pub fn kept(&self) -> impl Iterator<Item = (Arc<TableLock>, Kind)> + '_ {
        self.closed.iter().map(|gate| (gate.clone(), Kind::Refuse))
    }

    /// Opens the gates again.
    pub fn release(&mut self) {
        self.closed.drain(..).for_each(|gate| gate.admit_writers());
    }
}

impl Drop for ReadLock {
    fn drop(&mut self) {
        self.release();
    }
}

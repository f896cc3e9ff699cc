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
use std::time::Duration;

use keel_base::{SqlResult, code, errors};
use keel_storage::runtime::time::{self, Instant};
use keel_storage::runtime::wait::WaitEvent;
use keel_storage::runtime::{slot_count, worker_index};

use crate::home::Home;
use crate::mdl::{Kind, TableLock};
use crate::session::Session;
use crate::waits::Contender;

/// The gates of a server.
pub(crate) struct Gates {
    by_worker: Box<[Gate]>,
}

struct Gate {
    statements: Arc<TableLock>,
    commits: Arc<TableLock>,
}

impl Default for Gates {
    fn default() -> Gates {
        let lock = || Arc::new(TableLock::new(WaitEvent::BackupLock));
        let gate = |_| Gate { statements: lock(), commits: lock() };
        Gates { by_worker: (0..slot_count()).map(gate).collect() }
    }
}

impl Gates {
    fn own(&self) -> &Gate {
        &self.by_worker[worker_index()]
    }

    /// All of them, in the order in which they are closed.
    fn all(&self) -> impl Iterator<Item = &Arc<TableLock>> {
        let statements = self.by_worker.iter().map(|gate| &gate.statements);
        statements.chain(self.by_worker.iter().map(|gate| &gate.commits))
    }
}

/// A writer within a gate; leaves it when dropped.
pub struct Pass(Arc<TableLock>);

impl Pass {
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
pub(crate) struct ReadLock {
    closed: Vec<Arc<TableLock>>,
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

impl Home {
    /// FLUSH TABLES WITH READ LOCK: commits what is open. Waits for the statements that write, and for the commits.
    pub fn lock_for_reading(&self, session: &mut Session) -> SqlResult<()> {
        if session.named_locks.is_in_force() {
            return Err(errors::lock_or_active_transaction());
        }
        self.commit(session)?;
        if session.read_lock.is_held() {
            return Ok(());
        }
        let deadline = time::now() + Duration::from_secs(session.vars.lock_wait_timeout);
        loop {
            let closed = self.close_gates(session, deadline);
            if closed.is_err() {
                session.read_lock.release();
            }
            match closed {
                // It was in the way of others and keeps nothing now: they go on, and it begins again.
                Err(error) if error.code == code::LOCK_DEADLOCK && session.user_locks.is_empty() => {}
                closed => return closed,
            }
        }
    }

    fn close_gates(&self, session: &mut Session, deadline: Instant) -> SqlResult<()> {
        for gate in self.gates().all() {
            session.wait_for(gate, Kind::Refuse, deadline.since(time::now()))?;
            session.read_lock.closed.push(gate.clone());
        }
        Ok(())
    }

    /// Has a statement that writes or defines wait for the read lock of others; 1223 where the session has it itself.
    pub(crate) fn pass_to_write(&self, session: &Session) -> SqlResult<Pass> {
        self.pass(session, &self.gates().own().statements)
    }

    /// Has the commit of what was written wait for the read lock of others.
    pub fn pass_to_commit(&self, session: &Session) -> SqlResult<Option<Pass>> {
        if session.read_lock.is_held() {
            return Ok(None);
        }
        self.pass(session, &self.gates().own().commits).map(Some)
    }

    fn pass(&self, session: &Session, gate: &Arc<TableLock>) -> SqlResult<Pass> {
        if session.read_lock.is_held() {
            return Err(errors::cant_update_with_readlock());
        }
        if !gate.try_share(true) {
            session.wait_for(gate, Kind::Write, Duration::from_secs(session.vars.lock_wait_timeout))?;
        }
        Ok(Pass(gate.clone()))
    }
}

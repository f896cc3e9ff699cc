//! FLUSH TABLES WITH READ LOCK: who waits for whom.

use std::sync::Arc;
use std::time::Duration;

use keel_base::{SqlResult, code, errors};
use keel_storage::runtime::time::{self, Instant};

use crate::home::Home;
use crate::mdl::{Kind, TableLock};
use crate::read_lock::Pass;
use crate::session::Session;
use crate::waits::Contender;

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
    pub fn pass_to_write(&self, session: &Session) -> SqlResult<Pass> {
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
        Ok(Pass::of(gate.clone()))
    }
}

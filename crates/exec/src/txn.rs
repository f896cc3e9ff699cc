//! Transactions: BEGIN, COMMIT, ROLLBACK, savepoints, and what becomes of a statement that fails.

use keel_base::{SqlError, SqlResult, code, errors};
use keel_sql::ast;
use keel_storage::{Isolation, TxnOptions};

use crate::engine_error;
use crate::home::Home;
use crate::result::Completion;
use crate::session::Session;
use crate::transaction::{SAVEPOINTS_MAX, SavepointHere, UndoPoint};

impl Home {
    /// START TRANSACTION: commits what was open.
    pub fn begin(&self, session: &mut Session, how: ast::StartTransaction) -> SqlResult<()> {
        self.commit(session)?;
        session.named_locks.release();
        self.open_now(session);
        session.transaction.read_only = how.read_only.unwrap_or(session.transaction.read_only);
        if how.consistent_snapshot && session.transaction.isolation == Some(Isolation::ReadUncommitted) {
            session.warn(snapshot_ignored());
        } else if how.consistent_snapshot {
            self.ensure_txn(session).take_snapshot();
        }
        Ok(())
    }

    /// Opens a transaction for several statements that are done together, where none is open; true where the caller is to
    /// end it. Unlike START TRANSACTION it leaves the locks of LOCK TABLES alone.
    pub fn open_for_statements(&self, session: &mut Session) -> bool {
        if session.in_transaction() {
            return false;
        }
        self.open_now(session);
        session.vars.autocommit
    }

    /// A place to which what follows can be undone, as by a savepoint without a name.
    pub fn place(&self, session: &mut Session) -> SqlResult<UndoPoint> {
        session.refuse_in_closed_branch()?;
        let point = self.ensure_txn(session).savepoint_of_session();
        Ok(UndoPoint { point, locks: session.transaction.locks.len() })
    }

    /// Undoes what came after a place, unless the transaction is gone: a failure may have ended it.
    pub fn undo_to(&self, session: &mut Session, place: UndoPoint) -> SqlResult<()> {
        let Some(txn) = &mut session.txn else { return Ok(()) };
        if let Err(error) = txn.rollback_to(place.point) {
            // What is half undone must never be committed: the whole transaction goes, in the background if need be.
            let _ = self.rollback(session);
            return Err(engine_error(error));
        }
        if !txn.holds_locks() {
            session.transaction.locks.drain(place.locks..).for_each(|(lock, writes)| lock.unshare(writes));
        }
        Ok(())
    }

    /// COMMIT: waits until it is durable. What the global read lock of another session does not let pass in time is rolled
    /// back, and so is what an account has written that `read_only` concerns.
    pub fn commit(&self, session: &mut Session) -> SqlResult<()> {
        if !session.txn.as_ref().is_some_and(keel_storage::Txn::has_writes) {
            return self.commit_within(session);
        }
        let passed = self.pass_to_commit(session).and_then(|pass| {
            // The switch to read_only=1 has closed the gate: it is read behind it.
            if session.transaction.writes_lasting {
                self.refuse_writes(session)?;
            }
            Ok(pass)
        });
        match passed {
            Ok(_pass) => self.commit_within(session),
            Err(error) => {
                // The reason says more than what may go wrong then.
                let _ = self.rollback(session);
                Err(session.failed_commit(error))
            }
        }
    }

    /// The commit of a statement that does not run within a transaction; what SET TRANSACTION said ends too.
    pub fn commit_implicitly(&self, session: &mut Session) -> SqlResult<()> {
        self.commit(session)?;
        (session.vars.next_isolation, session.vars.next_read_only) = (None, None);
        Ok(())
    }

    /// The same for a statement that the global read lock has let pass. A prepared transaction that cannot be committed stays.
    pub fn commit_within(&self, session: &mut Session) -> SqlResult<()> {
        let result = match &mut session.txn {
            Some(txn) => txn.commit().map(|_| ()).map_err(engine_error),
            None => Ok(()),
        };
        if session.txn.as_ref().is_some_and(keel_storage::Txn::is_prepared) {
            return result;
        }
        session.txn = None;
        end(session);
        result
    }

    /// ROLLBACK.
    pub fn rollback(&self, session: &mut Session) -> SqlResult<()> {
        self.rollback_because(session, 0)
    }

    /// The same where an error ends the whole transaction: a branch in which it happens remembers that. A prepared one of
    /// which nothing could be rolled back stays.
    pub(crate) fn rollback_because(&self, session: &mut Session, error: u16) -> SqlResult<()> {
        let result = match &mut session.txn {
            Some(txn) => txn.rollback().map_err(engine_error),
            None => Ok(()),
        };
        if session.txn.as_ref().is_some_and(keel_storage::Txn::is_prepared) {
            return result;
        }
        session.txn = None;
        if let Some(branch) = &mut session.transaction.branch {
            branch.rolled_back(error);
        }
        end(session);
        result
    }

    /// COMMIT or ROLLBACK with what follows it: AND CHAIN begins the next transaction with the same characteristics. RELEASE
    /// is the server's.
    pub fn end_transaction(
        &self,
        session: &mut Session,
        how: ast::Completion,
        commit: bool,
    ) -> SqlResult<()> {
        let chain = how.chain.unwrap_or(session.vars.completion_type == 1);
        let next = session.transaction.isolation.or(session.vars.next_isolation);
        let read_only = session.is_read_only();
        let had_work = u64::from(session.txn.is_some());
        if commit {
            session.handler.commit += had_work;
            self.commit(session)?
        } else {
            session.handler.rollback += had_work;
            self.rollback(session)?
        }
        // What SET TRANSACTION said ends here, also where no transaction was open.
        (session.vars.next_isolation, session.vars.next_read_only) = (None, None);
        if chain {
            session.vars.next_isolation = next;
            self.begin(
                session,
                ast::StartTransaction { consistent_snapshot: false, read_only: Some(read_only) },
            )?;
        }
        Ok(())
    }

    /// SAVEPOINT: one of the same name moves.
    pub fn savepoint(&self, session: &mut Session, name: &str) -> SqlResult<()> {
        self.open_if_needed(session);
        if !session.transaction.open {
            return Ok(());
        }
        if session.transaction.savepoints.len() >= SAVEPOINTS_MAX {
            return Err(errors::unknown_error("Too many savepoints"));
        }
        let place = self.place(session)?;
        let savepoints = &mut session.transaction.savepoints;
        savepoints.retain(|other| !crate::catalog::names::same(&other.name, name));
        savepoints.push(SavepointHere { name: name.to_string(), place });
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT: those set later are forgotten.
    pub fn rollback_to_savepoint(&self, session: &mut Session, name: &str) -> SqlResult<()> {
        let place = find(session, name)?;
        session.refuse_in_closed_branch()?;
        let here = session.transaction.savepoints[place].place;
        session.transaction.savepoints.truncate(place + 1);
        if session.transaction.temporary {
            session.warn(errors::warning_not_complete_rollback());
        }
        self.undo_to(session, here)
    }

    /// RELEASE SAVEPOINT: it and those set later are forgotten.
    pub fn release_savepoint(&self, session: &mut Session, name: &str) -> SqlResult<()> {
        let place = find(session, name)?;
        session.refuse_in_closed_branch()?;
        session.transaction.savepoints.truncate(place);
        Ok(())
    }

    /// The engine's transaction of the session, begun where there is none.
    pub fn ensure_txn<'s>(&self, session: &'s mut Session) -> &'s mut keel_storage::Txn {
        if session.txn.is_none() {
            let next = session.transaction.isolation.or(session.vars.next_isolation);
            let isolation = next.unwrap_or(session.vars.isolation);
            let options = TxnOptions {
                isolation,
                read_only: session.transaction.read_only,
                snapshot_isolation: session.vars.snapshot_isolation,
                lock_wait_timeout: Some(std::time::Duration::from_secs(session.vars.row_lock_wait_timeout)),
                interrupt: Some(session.interrupt.engine().clone()),
                owner: session.owner.clone(),
            };
            session.txn = Some(self.engine().begin(options));
            session.txns_begun += 1;
        }
        session.txn.as_mut().expect("begun above")
    }

    /// Opens a transaction for a statement under `autocommit=0`.
    pub fn open_if_needed(&self, session: &mut Session) {
        if !session.vars.autocommit && !session.transaction.open {
            self.open_now(session);
        }
    }

    fn open_now(&self, session: &mut Session) {
        session.transaction.open = true;
        let next = session.vars.next_read_only.take();
        session.transaction.read_only = next.unwrap_or(session.vars.read_only);
        let next = session.vars.next_isolation.take();
        session.transaction.isolation = Some(next.unwrap_or(session.vars.isolation));
    }

    /// Runs a statement; one that `writes` waits for the global read lock of others, and holds it off while it runs.
    pub fn within_gate(
        &self,
        session: &mut Session,
        writes: bool,
        run: impl FnOnce(&mut Session) -> SqlResult<Completion>,
    ) -> SqlResult<Completion> {
        // Tables that LOCK TABLES lets the session write have passed with it.
        if !writes || session.named_locks.is_in_force() {
            return run(session);
        }
        let pass = match self.pass_to_write(session) {
            Err(error) if error.code == code::LOCK_DEADLOCK => return Err(self.undo(session, error)),
            passed => passed?,
        };
        session.passes.push(pass);
        let result = run(session);
        session.passes.pop();
        result
    }

    /// Undoes a failed statement, or the transaction where that is its own or is gone.
    pub fn undo(&self, session: &mut Session, error: SqlError) -> SqlError {
        let ends_all = match error.code {
            // A ring of GET_LOCK() alone ends the statement, not the transaction.
            code::LOCK_DEADLOCK => !std::mem::take(&mut session.user_locks.closed_ring),
            code::CHECKREAD => true,
            code::LOCK_WAIT_TIMEOUT => session.vars.rollback_on_timeout,
            _ => false,
        };
        let undone = if ends_all || !session.in_transaction() {
            self.rollback_because(session, error.code)
        } else {
            match &mut session.txn {
                Some(txn) => txn.rollback_statement().map_err(engine_error),
                None => Ok(()),
            }
        };
        if undone.is_err() {
            // What could not be undone must never be committed: the whole transaction goes, in the background if need be.
            let _ = self.rollback(session);
        }
        // The statement's own error says more than one from a store that has failed meanwhile.
        error
    }
}

/// What InnoDB says of START TRANSACTION WITH CONSISTENT SNAPSHOT where nothing is read from one.
#[cold]
fn snapshot_ignored() -> SqlError {
    let text = "InnoDB: WITH CONSISTENT SNAPSHOT is ignored at READ UNCOMMITTED isolation level.";
    SqlError { code: 138, ..errors::unknown_error(text) }
}

fn find(session: &Session, name: &str) -> SqlResult<usize> {
    let savepoints = &session.transaction.savepoints;
    savepoints
        .iter()
        .position(|savepoint| crate::catalog::names::same(&savepoint.name, name))
        .ok_or_else(|| -> SqlError { errors::sp_does_not_exist("SAVEPOINT", name) })
}

fn end(session: &mut Session) {
    let state = &mut session.transaction;
    state.open = false;
    state.read_only = false;
    state.isolation = None;
    state.temporary = false;
    state.writes_lasting = false;
    state.savepoints.clear();
    state.release_locks();
}

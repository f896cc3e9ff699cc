//! XA: a session's transaction as a branch of a greater one, which somebody else decides about.
//!
//! XA START names the session's transaction, XA END closes it to statements, XA PREPARE makes it outlive whatever happens
//! ([`keel_storage::prepared`]), XA COMMIT or XA ROLLBACK ends it. While a branch is open, all else that would end a
//! transaction is refused (1399).
//!
//! 1. A branch is known to the whole server from XA START to its end (`Branches`): its name is nobody else's. As in MariaDB
//!    the format number is no part of the name.
//! 2. A prepared branch belongs to its session until that ends. Then, and after a restart, it is free: any session may end
//!    it. It keeps the metadata locks of the tables that it has changed, so nobody drops what its undo records name.
//! 3. A branch that has changed nothing leaves nothing to keep when its session ends. It is still listed, to be told 1402,
//!    until somebody asks for it or the server stops.

use std::collections::BTreeMap;
use std::sync::Arc;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::xid::Xid;
use keel_context::engine_error;
use keel_context::mdl::TableLock;
use keel_exec::branch::{Branch, BranchState};
use keel_exec::read_lock::Pass;
use keel_exec::session::Session;
use keel_sql::ast::{self, XaStart};
use keel_storage::Txn;
use parking_lot::Mutex;

use crate::Database;

/// Branches that there may be.
const BRANCHES_MAX: usize = 64 << 10;

/// A row of XA RECOVER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedBranch {
    /// Its format.
    pub format: u32,
    /// Its global part.
    pub gtrid: Box<[u8]>,
    /// Its branch.
    pub bqual: Box<[u8]>,
}

/// A prepared branch whose session has ended.
#[derive(Default)]
struct Free {
    /// None where nothing was changed.
    txn: Option<Txn>,
    locks: Vec<Arc<TableLock>>,
}

impl Drop for Free {
    fn drop(&mut self) {
        self.locks.drain(..).for_each(|lock| lock.unshare(true));
    }
}

enum Owner {
    /// A session has it, or just ends it.
    Session {
        prepared: bool,
    },
    Nobody(Box<Free>),
}

struct KnownBranch {
    format: u32,
    owner: Owner,
}

/// The branches of a server.
#[derive(Default)]
pub(crate) struct Branches {
    known: Mutex<BTreeMap<Box<[u8]>, KnownBranch>>,
}

impl Branches {
    fn add(&self, xid: &Xid) -> SqlResult<()> {
        let mut known = self.known.lock();
        if known.contains_key(&xid.name) {
            return Err(errors::xaer_dupid());
        }
        if known.len() >= BRANCHES_MAX {
            return Err(errors::out_of_resources());
        }
        let owner = Owner::Session { prepared: false };
        known.insert(xid.name.clone(), KnownBranch { format: xid.format, owner });
        Ok(())
    }

    fn set(&self, name: &[u8], owner: Owner) {
        if let Some(known) = self.known.lock().get_mut(name) {
            known.owner = owner;
        }
    }

    fn remove(&self, name: &[u8]) {
        self.known.lock().remove(name);
    }

    /// Takes over a branch that is nobody's; it stays known.
    fn take(&self, name: &[u8]) -> Option<Box<Free>> {
        let mut known = self.known.lock();
        let found = known.get_mut(name).filter(|known| matches!(known.owner, Owner::Nobody(_)))?;
        match std::mem::replace(&mut found.owner, Owner::Session { prepared: true }) {
            Owner::Nobody(free) => Some(free),
            Owner::Session { .. } => None,
        }
    }
}

impl Database {
    /// Takes over the branches that were prepared when the server stopped. Waits.
    pub(crate) fn recover_branches(&self) -> SqlResult<()> {
        let catalog = self.catalog();
        for (name, txn) in self.engine().take_prepared() {
            let Some(xid) = Xid::from_bytes(&name) else { continue };
            let trees = txn.changed_trees().map_err(engine_error)?;
            let tables = catalog.schemas().flat_map(|schema| schema.tables());
            // The tree of rows with hidden numbers is no index's.
            let changed = tables.filter(|t| t.record().trees().iter().any(|tree| trees.contains(tree)));
            let locks: Vec<_> = changed.map(|table| table.shared.lock.clone()).collect();
            let shared = locks.iter().all(|lock| lock.try_share(true));
            assert!(shared, "nobody uses a table before the server has started");
            let owner = Owner::Nobody(Box::new(Free { txn: Some(txn), locks }));
            self.branches().known.lock().insert(xid.name, KnownBranch { format: xid.format, owner });
        }
        Ok(())
    }

    /// XA START.
    pub fn xa_start(&self, session: &mut Session, xid: &ast::Xid, how: XaStart) -> SqlResult<()> {
        if how == XaStart::Resume
            && session.transaction.branch.as_ref().is_some_and(|b| b.state == BranchState::Idle)
        {
            session.branch_in(xid, BranchState::Idle)?.state = BranchState::Active;
            return Ok(());
        }
        if how != XaStart::New || xid.gtrid.is_empty() {
            return Err(errors::xaer_inval());
        }
        session.refuse_in_branch()?;
        if session.named_locks.is_in_force() || session.in_transaction() {
            return Err(errors::xaer_outside());
        }
        let xid = Xid::new(xid);
        self.branches().add(&xid)?;
        if let Err(error) = self.begin(session, ast::StartTransaction::default()) {
            self.branches().remove(&xid.name);
            return Err(error);
        }
        let branch = Branch { xid, state: BranchState::Active, lasting: false, reason: 0 };
        session.transaction.branch = Some(Box::new(branch));
        Ok(())
    }

    /// XA END.
    pub fn xa_end(&self, session: &mut Session, xid: &ast::Xid, suspend: bool) -> SqlResult<()> {
        if suspend {
            return Err(errors::xaer_inval());
        }
        session.branch_in(xid, BranchState::Active)?.state = BranchState::Idle;
        Ok(())
    }

    /// XA PREPARE: waits until it is durable.
    pub fn xa_prepare(&self, session: &mut Session, xid: &ast::Xid) -> SqlResult<()> {
        let xid = session.branch_in(xid, BranchState::Idle)?.xid.clone();
        let _pass = match self.pass_to_end(session, session.txn.as_ref(), false) {
            Ok(pass) => pass,
            Err(error) => {
                session.push_error(&error);
                session.push_error(&errors::xa_rbrollback());
                // The reason says more than what may go wrong then.
                let _ = self.end_branch(session, false);
                return Err(error);
            }
        };
        let lasting = match &mut session.txn {
            Some(txn) => txn.prepare(&xid.to_bytes()).map_err(engine_error)?,
            None => false,
        };
        if let Some(branch) = &mut session.transaction.branch {
            (branch.state, branch.lasting) = (BranchState::Prepared, lasting);
        }
        self.branches().set(&xid.name, Owner::Session { prepared: true });
        Ok(())
    }

    /// XA COMMIT: waits until it is durable.
    pub fn xa_commit(&self, session: &mut Session, xid: &ast::Xid, one_phase: bool) -> SqlResult<()> {
        if !session.is_in(xid) {
            return self.end_free(session, xid, one_phase, true);
        }
        match session.transaction.branch.as_ref().map(|branch| branch.state) {
            Some(BranchState::RollbackOnly) => {
                let reason = session.transaction.branch.as_ref().map_or(0, |branch| branch.reason);
                self.end_branch(session, false)?;
                Err(rollback_reason(reason))
            }
            Some(BranchState::Idle) if one_phase => self.end_branch(session, true),
            Some(BranchState::Prepared) if one_phase => Err(errors::xaer_inval()),
            Some(BranchState::Prepared) => self.end_prepared(session, true),
            _ => session.refuse_in_branch(),
        }
    }

    /// XA ROLLBACK.
    pub fn xa_rollback(&self, session: &mut Session, xid: &ast::Xid) -> SqlResult<()> {
        if !session.is_in(xid) {
            return self.end_free(session, xid, false, false);
        }
        if session.transaction.branch.as_ref().is_some_and(|branch| branch.state == BranchState::Active) {
            return session.refuse_in_branch();
        }
        match session.transaction.branch.as_ref().map(|branch| branch.state) {
            Some(BranchState::Prepared) => self.end_prepared(session, false),
            _ => self.end_branch(session, false),
        }
    }

    /// XA RECOVER: what is prepared, in order.
    pub fn xa_recover(&self) -> Vec<PreparedBranch> {
        let known = self.branches().known.lock();
        let prepared = known.iter().filter(|(_, known)| match known.owner {
            Owner::Session { prepared } => prepared,
            Owner::Nobody(_) => true,
        });
        let row = |(gtrid, bqual): (&[u8], &[u8]), format| PreparedBranch {
            format,
            gtrid: gtrid.into(),
            bqual: bqual.into(),
        };
        prepared.map(|(name, known)| row(name[2..].split_at(usize::from(name[0])), known.format)).collect()
    }

    /// The session ends, or starts over: its transaction is rolled back, but a prepared branch is set free.
    pub fn leave(&self, session: &mut Session) -> SqlResult<()> {
        let Some(mut branch) = session.transaction.branch.take() else {
            // A statement that was refused may have kept locks for a transaction that never began.
            let keeps_locks = !session.transaction.locks.is_empty();
            return if session.txn.is_some() || session.in_transaction() || keeps_locks {
                self.rollback(session)
            } else {
                Ok(())
            };
        };
        if branch.state != BranchState::Prepared {
            self.branches().remove(&branch.xid.name);
            return self.rollback(session);
        }
        let mut free = Free::default();
        if branch.lasting {
            free.txn = session.txn.take();
            free.txn.iter_mut().for_each(Txn::set_free);
            free.locks = session.transaction.take_writers();
        }
        let rolled_back = self.rollback(session);
        branch.lasting = false;
        self.branches().set(&branch.xid.name, Owner::Nobody(Box::new(free)));
        rolled_back
    }

    /// What the end of a prepared branch needs while others have the global read lock. Waits. `read_only` refuses a commit.
    fn pass_to_end(&self, session: &Session, txn: Option<&Txn>, commit: bool) -> SqlResult<Option<Pass>> {
        if !txn.is_some_and(Txn::has_writes) {
            return Ok(None);
        }
        let pass = self.pass_to_commit(session)?;
        if commit {
            self.refuse_writes(session)?;
        }
        Ok(pass)
    }

    /// Ends the session's branch that is prepared; where it cannot in time, it stays. Waits.
    fn end_prepared(&self, session: &mut Session, commit: bool) -> SqlResult<()> {
        match self.pass_to_end(session, session.txn.as_ref(), commit) {
            Ok(_pass) => self.end_branch(session, commit),
            Err(error) => Err(session.failed_end(error)),
        }
    }

    /// Ends the session's branch. What is prepared and cannot end stays. Waits.
    fn end_branch(&self, session: &mut Session, commit: bool) -> SqlResult<()> {
        let branch = session.transaction.branch.take();
        let result = match (commit, &branch) {
            (true, Some(branch)) if branch.state == BranchState::Prepared => self.commit_within(session),
            (true, _) => self.commit(session),
            (false, _) => self.rollback(session),
        };
        match branch {
            Some(branch) if session.txn.is_some() => session.transaction.branch = Some(branch),
            Some(branch) => self.branches().remove(&branch.xid.name),
            None => {}
        }
        result
    }

    /// Ends a prepared branch that is nobody's. One that cannot end stays, unless it has begun to roll back: then it goes in the
    /// background. Waits.
    fn end_free(
        &self,
        session: &mut Session,
        xid: &ast::Xid,
        one_phase: bool,
        commit: bool,
    ) -> SqlResult<()> {
        if !session.vars.autocommit || session.in_transaction() || session.transaction.branch.is_some() {
            return Err(errors::xaer_outside());
        }
        if one_phase {
            return Err(errors::xaer_inval());
        }
        let name = Xid::new(xid).name;
        let mut free = self.branches().take(&name).ok_or_else(errors::xaer_nota)?;
        let _pass = match self.pass_to_end(session, free.txn.as_ref(), commit) {
            Ok(pass) => pass,
            Err(error) => {
                self.branches().set(&name, Owner::Nobody(free));
                return Err(session.failed_end(error));
            }
        };
        let ended = match &mut free.txn {
            Some(txn) if commit => txn.commit().map(|_| ()).map_err(engine_error),
            Some(txn) => txn.rollback().map_err(engine_error),
            None => {
                self.branches().remove(&name);
                return Err(errors::xa_rbrollback());
            }
        };
        match free.txn.as_ref().is_some_and(Txn::is_prepared) {
            true => self.branches().set(&name, Owner::Nobody(free)),
            false => self.branches().remove(&name),
        }
        ended
    }
}

/// What XA COMMIT says of a branch that an error has rolled back.
fn rollback_reason(error: u16) -> SqlError {
    match error {
        code::LOCK_DEADLOCK => errors::xa_rbdeadlock(),
        code::LOCK_WAIT_TIMEOUT => errors::xa_rbtimeout(),
        _ => errors::xa_rbrollback(),
    }
}

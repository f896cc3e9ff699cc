//! The branch of a distributed transaction that a session is in (XA).

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::xid::Xid;
use keel_sql::ast;

use crate::session::Session;

/// How far a session's branch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchState {
    /// XA START.
    Active,
    /// XA END.
    Idle,
    /// XA PREPARE.
    Prepared,
    /// The engine has rolled it back, as a deadlock's victim for example.
    RollbackOnly,
}

impl BranchState {
    /// How 1399 names it.
    pub fn name(self) -> &'static str {
        match self {
            BranchState::Active => "ACTIVE",
            BranchState::Idle => "IDLE",
            BranchState::Prepared => "PREPARED",
            BranchState::RollbackOnly => "ROLLBACK ONLY",
        }
    }
}

/// The branch that a session is in.
pub struct Branch {
    /// Its name.
    pub xid: Xid,
    /// How far it is.
    pub state: BranchState,
    /// Prepared, with changes: it outlives the session.
    pub lasting: bool,
    /// What XA COMMIT says of one that was rolled back.
    pub reason: u16,
}

impl Branch {
    /// What a statement hears that does not fit.
    pub fn refusal(&self) -> SqlError {
        errors::xaer_rmfail(self.state.name())
    }

    /// Notes that its transaction is gone, for the reason that `because` gives.
    pub fn rolled_back(&mut self, because: u16) {
        if self.state != BranchState::RollbackOnly {
            self.state = BranchState::RollbackOnly;
            self.reason = because;
        }
    }
}

impl Session {
    /// 1399 where the session is in a branch: the statement would end its transaction.
    pub fn refuse_in_branch(&self) -> SqlResult<()> {
        match &self.transaction.branch {
            Some(branch) => Err(branch.refusal()),
            None => Ok(()),
        }
    }

    /// 1399 where the session is in a branch that is closed to statements with tables.
    #[inline]
    pub fn refuse_in_closed_branch(&self) -> SqlResult<()> {
        match &self.transaction.branch {
            Some(branch) if branch.state != BranchState::Active => Err(branch.refusal()),
            _ => Ok(()),
        }
    }

    /// What is said of a prepared branch that cannot end now because of `error`; SHOW WARNINGS shows both.
    pub fn failed_end(&mut self, error: SqlError) -> SqlError {
        self.push_error(&error);
        self.push_error(&errors::xaer_rmerr());
        error
    }

    /// The branch, if it is `xid` and that far.
    pub fn branch_in(&mut self, xid: &ast::Xid, state: BranchState) -> SqlResult<&mut Branch> {
        match &mut self.transaction.branch {
            None => Err(errors::xaer_rmfail("NON-EXISTING")),
            Some(branch) if branch.state != state => Err(branch.refusal()),
            Some(branch) if !branch.xid.is(xid) => Err(errors::xaer_nota()),
            Some(branch) => Ok(branch),
        }
    }

    /// Whether the session is in the branch `xid`.
    pub fn is_in(&self, xid: &ast::Xid) -> bool {
        self.transaction.branch.as_ref().is_some_and(|branch| branch.xid.is(xid))
    }
}

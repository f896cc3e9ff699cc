//! `read_only`: accounts without READ ONLY ADMIN change nothing that outlives their session.
//!
//! 1. A statement is refused by the names that it writes before it is bound, as MariaDB does. A plan is refused by the
//!    tables that it writes, after it has passed the gates of [`crate::read_lock`]. Both are asked where statements run.
//! 2. Switching `read_only` on closes those gates: no statement that writes and no commit runs at that moment. A
//!    transaction that has written before fails at its COMMIT and is rolled back.

use std::sync::atomic::{AtomicBool, Ordering};

use keel_base::{SqlResult, errors};
use keel_sql::ast::{self, MaintainOp};

use crate::home::Home;
use crate::session::Session;
use keel_catalog::account::Privileges;

/// Whether the server is read-only.
#[derive(Default)]
pub(crate) struct ReadOnly(AtomicBool);

impl Home {
    /// Sets `read_only` while the server starts and nobody is connected.
    pub fn start_read_only(&self, on: bool) {
        self.read_only().0.store(on, Ordering::Release);
    }

    /// 1192 where the session may not set `read_only`: SET would wait for the session itself.
    pub fn check_set_read_only(&self, session: &Session) -> SqlResult<()> {
        match session.named_locks.is_in_force() || session.in_transaction() {
            true => Err(errors::lock_or_active_transaction()),
            false => Ok(()),
        }
    }

    /// SET GLOBAL read_only. Waits for statements that write, for commits, and for LOCK TABLES ... WRITE.
    pub fn set_read_only(&self, session: &mut Session, on: bool) -> SqlResult<()> {
        self.check_set_read_only(session)?;
        let is_on = self.read_only().0.load(Ordering::Acquire);
        if !on || is_on || session.read_lock.is_held() {
            self.start_read_only(on);
            return Ok(());
        }
        self.lock_for_reading(session)?;
        self.start_read_only(true);
        session.read_lock.release();
        Ok(())
    }

    /// Whether the session may not write.
    #[inline]
    pub fn refuses_writes(&self, session: &Session) -> bool {
        self.read_only().0.load(Ordering::Acquire)
            && !session.access.global.has_any(Privileges::READ_ONLY_ADMIN)
    }

    /// 1290 where the session may not write.
    #[inline]
    pub fn refuse_writes(&self, session: &Session) -> SqlResult<()> {
        match self.refuses_writes(session) {
            true => Err(errors::option_prevents_statement("--read-only")),
            false => Ok(()),
        }
    }

    /// Whether ANALYZE TABLE names a table whose statistics it would write.
    pub fn analyzes_lasting(&self, session: &Session, what: &ast::Maintain) -> bool {
        let is_lasting = |name: &ast::ObjectName| {
            self.find_table(session, name).is_ok_and(|table| !table.is_temporary() && !table.is_virtual())
        };
        what.op == MaintainOp::Analyze && what.persistent.is_none() && what.tables.iter().any(is_lasting)
    }
}

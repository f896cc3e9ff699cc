//! `read_only`: accounts without READ ONLY ADMIN change nothing that outlives their session.
//!
//! 1. A statement is refused by the names that it writes before it is bound, as MariaDB does. A plan is refused by the
//!    tables that it writes, after it has passed the gates of [`crate::read_lock`].
//! 2. Switching `read_only` on closes those gates: no statement that writes and no commit runs at that moment. A
//!    transaction that has written before fails at its COMMIT and is rolled back.

use std::sync::atomic::{AtomicBool, Ordering};

use keel_base::{SqlResult, errors};
use keel_sql::ast::{self, MaintainOp, Statement, TableRef};

use crate::Database;
use crate::account::Privileges;
use crate::dml::single_table;
use crate::plan::{Plan, StatementKind};
use crate::session::Session;

/// Whether the server is read-only.
#[derive(Default)]
pub(crate) struct ReadOnly(AtomicBool);

impl Database {
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
    pub(crate) fn refuses_writes(&self, session: &Session) -> bool {
        self.read_only().0.load(Ordering::Acquire)
            && !session.access.global.has_any(Privileges::READ_ONLY_ADMIN)
    }

    /// 1290 where the session may not write.
    #[inline]
    pub(crate) fn refuse_writes(&self, session: &Session) -> SqlResult<()> {
        match self.refuses_writes(session) {
            true => Err(errors::option_prevents_statement("--read-only")),
            false => Ok(()),
        }
    }

    /// 1290 for a statement that writes tables by their names, before it is bound. What several tables of an UPDATE or
    /// DELETE are is known only afterwards.
    pub fn refuse_by_names(&self, session: &Session, statement: &Statement) -> SqlResult<()> {
        if self.refuses_writes(session) && self.names_lasting(session, statement) {
            return self.refuse_writes(session);
        }
        Ok(())
    }

    /// The same for a plan, by what it was bound to.
    #[inline]
    pub(crate) fn refuse_early(&self, session: &Session, plan: &Plan) -> SqlResult<()> {
        let by_names = plan.kind.changes_rows() && session.temporary.is_empty();
        match by_names && plan.kind != StatementKind::UpdateMulti && plan.needs_writes() {
            true => self.refuse_writes(session),
            false => Ok(()),
        }
    }

    /// Whether a statement writes a table that is none of the session's temporary ones.
    fn names_lasting(&self, session: &Session, statement: &Statement) -> bool {
        let written: &ast::ObjectName = match statement {
            Statement::Insert(insert) => &insert.table,
            Statement::Load(load) => &load.table,
            Statement::Update(update) => match single_table(&update.tables) {
                Some((name, ..)) => name,
                None => return false,
            },
            Statement::Delete(delete) if delete.targets.is_empty() => match single_table(&delete.from) {
                Some((name, ..)) => name,
                None => return false,
            },
            Statement::Delete(delete) => return self.deletes_lasting(session, delete),
            Statement::CreateTable(create) => return !create.temporary || create.sequence.is_some(),
            Statement::DropTable(drop) if drop.temporary => return drop.sequence,
            Statement::DropTable(_)
            | Statement::AlterTable(_)
            | Statement::AlterSequence(_)
            | Statement::Truncate { .. }
            | Statement::CreateIndex(_)
            | Statement::DropIndex(_) => return !self.concerns_temporary(session, statement),
            Statement::Maintain(what) if what.op == MaintainOp::Optimize => {
                return what.tables.iter().any(|name| !self.is_own(session, name));
            }
            Statement::CreateDatabase(_)
            | Statement::AlterDatabase { .. }
            | Statement::DropDatabase { .. }
            | Statement::RenameTable { .. }
            | Statement::CreateView(_) => return true,
            Statement::DropView { names, .. } => {
                return names.iter().any(|name| !self.is_own(session, name));
            }
            _ => return false,
        };
        self.writes_lasting(session, written)
    }

    /// Whether a DELETE of several tables has a target that is none of the session's temporary tables. False if FROM lacks
    /// a target, which is another error.
    fn deletes_lasting(&self, session: &Session, delete: &ast::Delete) -> bool {
        let mut stack: Vec<&TableRef> = delete.from.iter().collect();
        let mut from = Vec::new();
        while let Some(part) = stack.pop() {
            match part {
                TableRef::Join { left, right, .. } => stack.extend([&**left, &**right]),
                TableRef::Table { name, alias, .. } => {
                    from.push((alias.as_deref().unwrap_or(&name.name), name));
                }
                TableRef::Derived { .. } | TableRef::JsonTable(_) => {}
            }
        }
        let means = |target: &ast::ObjectName, (alias, name): (&str, &ast::ObjectName)| {
            let is_there = |db: &str| crate::ddl::schema_of(session, name).is_ok_and(|schema| *schema == *db);
            alias == target.name && target.db.as_deref().is_none_or(is_there)
        };
        let mut is_lasting = false;
        for target in &delete.targets {
            let Some((_, name)) = from.iter().find(|part| means(target, **part)) else { return false };
            is_lasting |= self.writes_lasting(session, name);
        }
        is_lasting
    }

    /// Whether a name is neither that of a temporary table nor in a database of the server's own tables.
    fn writes_lasting(&self, session: &Session, name: &ast::ObjectName) -> bool {
        let is_virtual = |schema: &str| {
            self.host().virtual_schemas().iter().any(|known| known.eq_ignore_ascii_case(schema))
        };
        crate::ddl::schema_of(session, name)
            .is_ok_and(|schema| !is_virtual(schema) && !self.is_own(session, name))
    }

    /// Whether a name is that of a temporary table.
    fn is_own(&self, session: &Session, name: &ast::ObjectName) -> bool {
        crate::ddl::schema_of(session, name)
            .is_ok_and(|schema| session.temporary.get(schema, &name.name).is_some())
    }

    /// Whether ANALYZE TABLE names a table whose statistics it would write.
    pub(crate) fn analyzes_lasting(&self, session: &Session, what: &ast::Maintain) -> bool {
        let is_lasting = |name: &ast::ObjectName| {
            self.find_table(session, name).is_ok_and(|table| !table.is_temporary() && !table.is_virtual())
        };
        what.op == MaintainOp::Analyze && what.persistent.is_none() && what.tables.iter().any(is_lasting)
    }
}

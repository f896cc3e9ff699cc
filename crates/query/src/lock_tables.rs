//! LOCK TABLES and UNLOCK TABLES: tables that a session keeps beyond its transactions.
//!
//! WRITE owns the table's metadata lock, READ keeps writers out. While a session has locked tables it reaches no others
//! (1100), and writes none that it locked for reading (1099). All tables of the statement are locked at once: where one is
//! busy it is waited for without holding the others, so nobody waits for a session that waits. Names are those of tables: an
//! alias gives no lock of its own.

use std::sync::Arc;
use std::time::Duration;

use keel_base::{SqlResult, errors};
use keel_sql::ast::{self, LockWait, Statement, TableLockKind};

use crate::Database;
use crate::catalog::TableDef;
use crate::interrupt::Interrupt;
use crate::mdl::TableLock;
use crate::plan::Plan;
use crate::session::Session;

/// The tables that a session has locked by name; given back when dropped.
#[derive(Default)]
pub(crate) struct NamedLocks {
    locks: Vec<NamedLock>,
}

struct NamedLock {
    lock: Arc<TableLock>,
    write: bool,
}

impl NamedLocks {
    /// Whether LOCK TABLES is in force.
    pub fn is_in_force(&self) -> bool {
        !self.locks.is_empty()
    }

    /// Whether the table is locked for writing.
    pub fn owns(&self, lock: &Arc<TableLock>) -> bool {
        self.locks.iter().any(|named| named.write && Arc::ptr_eq(&named.lock, lock))
    }

    /// 1100 or 1099 where the table may not be used so.
    pub fn check(&self, table: &TableDef, writes: bool) -> SqlResult<()> {
        match self.locks.iter().find(|named| Arc::ptr_eq(&named.lock, &table.shared.lock)) {
            None => Err(errors::table_not_locked(&table.name)),
            Some(named) if writes && !named.write => Err(errors::table_not_locked_for_write(&table.name)),
            Some(_) => Ok(()),
        }
    }

    /// The same for all tables of a plan.
    pub fn check_plan(&self, plan: &Plan) -> SqlResult<()> {
        let real = plan.dependencies.iter().filter(|dependency| !dependency.table.is_virtual());
        real.into_iter().try_for_each(|dependency| self.check(&dependency.table, dependency.written))
    }

    /// Locks a table if it is free, or locked already.
    fn try_lock(&mut self, wanted: &Wanted) -> bool {
        let lock = &wanted.table.shared.lock;
        if self.locks.iter().any(|named| Arc::ptr_eq(&named.lock, lock)) {
            return true;
        }
        let free = if wanted.write { lock.try_own() } else { lock.try_refuse_writers() };
        if free {
            self.locks.push(NamedLock { lock: lock.clone(), write: wanted.write });
        }
        free
    }

    /// Locks a table in its turn; waits, and has no other locked meanwhile.
    fn lock_alone(&mut self, wanted: &Wanted, interrupt: &Interrupt, timeout: Duration) -> SqlResult<()> {
        self.release();
        let lock = &wanted.table.shared.lock;
        match wanted.write {
            true => lock.own(interrupt, timeout)?,
            false => lock.refuse_writers(interrupt, timeout)?,
        }
        self.locks.push(NamedLock { lock: lock.clone(), write: wanted.write });
        Ok(())
    }

    /// Gives all of them back.
    pub fn release(&mut self) {
        self.locks.drain(..).for_each(|named| named.free());
    }

    /// Gives back what belongs to a dropped table.
    fn forget(&mut self, lock: &Arc<TableLock>) {
        if let Some(place) = self.locks.iter().position(|named| Arc::ptr_eq(&named.lock, lock)) {
            self.locks.swap_remove(place).free();
        }
    }
}

impl NamedLock {
    fn free(self) {
        if self.write { self.lock.disown() } else { self.lock.admit_writers() }
    }
}

impl Drop for NamedLocks {
    fn drop(&mut self) {
        self.release();
    }
}

/// A table of LOCK TABLES.
struct Wanted {
    table: Arc<TableDef>,
    write: bool,
}

impl Database {
    /// LOCK TABLES: commits what is open and gives back what was locked before. Waits.
    pub fn lock_named_tables(
        &self,
        session: &mut Session,
        tables: &[ast::TableLock],
        wait: Option<&LockWait>,
    ) -> SqlResult<()> {
        session.diagnostics.clear();
        session.refuse_in_branch()?;
        self.commit(session)?;
        session.named_locks.release();
        let timeout = match wait {
            Some(LockWait::NoWait | LockWait::SkipLocked) => Duration::ZERO,
            Some(LockWait::Wait(seconds)) => Duration::from_secs(*seconds),
            None => Duration::from_secs(session.vars.lock_wait_timeout),
        };
        let locked = self.take_named(session, tables, timeout);
        if locked.is_err() {
            session.named_locks.release();
        }
        locked
    }

    /// Locks all tables named, as the catalog has them once they are locked.
    fn take_named(
        &self,
        session: &mut Session,
        tables: &[ast::TableLock],
        timeout: Duration,
    ) -> SqlResult<()> {
        loop {
            let wanted = self.wanted(session, tables)?;
            let named = &mut session.named_locks;
            if let Some(busy) = wanted.iter().find(|wanted| !named.try_lock(wanted)) {
                named.lock_alone(busy, &session.interrupt, timeout)?;
                continue;
            }
            let catalog = self.catalog();
            let is_current = |w: &Wanted| {
                catalog.table(&w.table.schema, &w.table.name).is_some_and(|now| Arc::ptr_eq(now, &w.table))
            };
            if wanted.len() == named.locks.len() && wanted.iter().all(is_current) {
                return Ok(());
            }
            named.release();
        }
    }

    /// The tables named, each once.
    fn wanted(&self, session: &Session, tables: &[ast::TableLock]) -> SqlResult<Vec<Wanted>> {
        let mut wanted: Vec<Wanted> = Vec::with_capacity(tables.len());
        let mut names: Vec<(Arc<str>, &str)> = Vec::with_capacity(tables.len());
        for named in tables {
            let table = self.find_table(session, &named.table)?;
            let alias = named.alias.as_deref().unwrap_or(&named.table.name);
            let name = (table.schema.clone(), alias);
            if names.contains(&name) {
                return Err(errors::nonuniq_table(alias));
            }
            names.push(name);
            let write = !matches!(named.kind, TableLockKind::Read | TableLockKind::ReadLocal);
            match wanted.iter_mut().find(|other| Arc::ptr_eq(&other.table, &table)) {
                Some(other) => other.write |= write,
                None => wanted.push(Wanted { table, write }),
            }
        }
        Ok(wanted)
    }

    /// UNLOCK TABLES: commits what is open if tables were locked.
    pub fn unlock_named_tables(&self, session: &mut Session) -> SqlResult<()> {
        if session.named_locks.is_in_force() {
            self.commit(session)?;
            session.named_locks.release();
        }
        Ok(())
    }

    /// Refuses a definition of tables that LOCK TABLES does not let the session change. Gives what a DROP gives back.
    pub(crate) fn check_named(
        &self,
        session: &Session,
        statement: &Statement,
    ) -> SqlResult<Vec<Arc<TableLock>>> {
        let named = &session.named_locks;
        if !named.is_in_force() {
            return Ok(Vec::new());
        }
        let changed = match statement {
            Statement::CreateTable(create) => return Err(errors::table_not_locked(&create.name.name)),
            Statement::DropTable(drop) => &drop.tables[..],
            Statement::AlterTable(alter) => std::slice::from_ref(&alter.table),
            Statement::CreateIndex(create) => std::slice::from_ref(&create.table),
            Statement::DropIndex(drop) => std::slice::from_ref(&drop.table),
            Statement::Truncate { table, .. } => std::slice::from_ref(table),
            _ => return Err(errors::lock_or_active_transaction()),
        };
        let mut locks = Vec::with_capacity(changed.len());
        for name in changed {
            let table = self.find_table(session, name)?;
            named.check(&table, true)?;
            locks.push(table.shared.lock.clone());
        }
        Ok(locks)
    }

    /// A DROP has been done: its tables are locked no more.
    pub(crate) fn forget_dropped(session: &mut Session, locks: &[Arc<TableLock>]) {
        locks.iter().for_each(|lock| session.named_locks.forget(lock));
    }
}

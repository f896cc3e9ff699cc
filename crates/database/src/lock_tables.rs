//! LOCK TABLES, FLUSH TABLES and UNLOCK TABLES: tables that a session keeps beyond its transactions.
//!
//! WRITE owns the table's metadata lock, READ keeps writers out. While a session has locked tables it reaches no others
//! (1100), and writes none that it locked for reading (1099). All tables of the statement are locked at once: where one is
//! busy it is waited for without holding the others, so nobody waits for a session that waits.
//!
//! What a statement may use is a matter of names: a table is locked under each alias by itself, and a statement uses each
//! once. What others see is a matter of tables: one is locked once, for writing if any of its names is.

use std::sync::Arc;
use std::time::Duration;

use keel_base::{SqlResult, code, errors};
use keel_catalog::{Catalog, TableDef, View};
use keel_context::mdl::{Kind, Owned, TableLock};
use keel_context::waits::{Contender, Stake};
use keel_exec::home::WAIT_WHILE_OWNING;
use keel_exec::named_locks::LockedName;
use keel_exec::session::Session;
use keel_planner::check::{self, have_definers};
use keel_planner::select::view::reach;
use keel_sql::ast::{self, LockWait, Statement, TableLockKind};

use crate::database::Database;

/// A table of LOCK TABLES, or a view.
struct LockRequest {
    what: Lockable,
    write: bool,
}

impl LockRequest {
    fn is_view(&self) -> bool {
        matches!(self.what, Lockable::View(_))
    }

    fn kind(&self) -> Kind {
        if self.write { Kind::Own } else { Kind::Refuse }
    }
}

/// How often LOCK TABLES lets go of all its tables and waits for the one that was not free, before it takes them in order.
const ROUNDS_OF_TRYING: u32 = 3;

/// What LOCK TABLES locks.
enum Lockable {
    Table(Arc<TableDef>),
    View(Arc<View>),
}

impl Lockable {
    fn lock(&self) -> &Arc<TableLock> {
        match self {
            Lockable::Table(table) => &table.shared.lock,
            Lockable::View(view) => &view.lock,
        }
    }

    /// Whether the catalog has it as it is.
    fn is_current(&self, catalog: &Catalog) -> bool {
        match self {
            Lockable::Table(table) => {
                catalog.table(&table.schema, &table.name).is_some_and(|now| Arc::ptr_eq(now, table))
            }
            Lockable::View(view) => {
                catalog.view(&view.schema, &view.name).is_some_and(|now| Arc::ptr_eq(now, view))
            }
        }
    }
}

/// Adds something to what is locked, for writing if any of its names is.
fn want(wanted: &mut Vec<LockRequest>, what: Lockable, write: bool) {
    match wanted.iter_mut().find(|other| Arc::ptr_eq(other.what.lock(), what.lock())) {
        Some(other) => other.write |= write,
        None => wanted.push(LockRequest { what, write }),
    }
}

impl Database {
    /// LOCK TABLES: commits what is open and gives back what was locked before, also where a table is then not found or
    /// not locked in time. Under `autocommit=0` a transaction is open then. Waits.
    pub fn lock_named_tables(
        &self,
        session: &mut Session,
        tables: &[ast::TableLock],
        wait: Option<&LockWait>,
    ) -> SqlResult<()> {
        self.lock_listed(session, tables, wait, true)?;
        if session.named_locks.is_in_force() {
            self.open_if_needed(session);
        }
        Ok(())
    }

    /// Locks all of them, `firm` or not where that closes a ring.
    fn lock_listed(
        &self,
        session: &mut Session,
        tables: &[ast::TableLock],
        wait: Option<&LockWait>,
        firm: bool,
    ) -> SqlResult<()> {
        session.diagnostics.clear();
        session.refuse_same_name(tables.iter().map(|table| (&table.table, table.alias.as_deref())))?;
        session.refuse_in_branch()?;
        self.commit_implicitly(session)?;
        session.named_locks.release();
        check::lock_tables(session, &self.catalog_now(), tables)?;
        let reads =
            |table: &ast::TableLock| matches!(table.kind, TableLockKind::Read | TableLockKind::ReadLocal);
        if session.is_read_only() && !tables.iter().all(reads) {
            return Err(errors::cant_execute_in_read_only_transaction());
        }
        let timeout = match wait {
            Some(LockWait::NoWait | LockWait::SkipLocked) => Duration::ZERO,
            Some(LockWait::Wait(seconds)) => Duration::from_secs(*seconds),
            None => Duration::from_secs(session.vars.lock_wait_timeout),
        };
        let locked = self.take_named(session, tables, timeout, firm);
        if locked.is_err() {
            session.named_locks.release();
        }
        locked
    }

    /// FLUSH TABLES a, b WITH READ LOCK: LOCK TABLES ... READ that takes the place of no other. Waits.
    pub fn lock_tables_for_reading(
        &self,
        session: &mut Session,
        tables: &[ast::ObjectName],
    ) -> SqlResult<()> {
        if session.named_locks.is_in_force() {
            return Err(errors::lock_or_active_transaction());
        }
        let lock = |name: &ast::ObjectName| ast::TableLock {
            table: name.clone(),
            alias: None,
            kind: TableLockKind::Read,
        };
        let tables: Vec<ast::TableLock> = tables.iter().map(lock).collect();
        self.lock_listed(session, &tables, None, false)
    }

    /// FLUSH TABLES: waits until nobody uses those that are named. There is nothing to close.
    pub fn flush_tables(&self, session: &mut Session, tables: &[ast::ObjectName]) -> SqlResult<()> {
        let named = &session.named_locks;
        if tables.is_empty() {
            named.refuse_readers()?;
            self.forget_sequences();
            return Ok(());
        }
        for name in tables {
            let table = match self.find_table(session, name) {
                // Nothing is open of what is not there, and of views.
                Err(error)
                    if matches!(error.code, code::NO_SUCH_TABLE | code::WRONG_OBJECT)
                        && !named.is_in_force() =>
                {
                    continue;
                }
                found => found?,
            };
            if table.is_temporary() {
                continue;
            }
            if let Some(sequence) = &table.sequence {
                sequence.forget();
            }
            if named.is_in_force() {
                named.check_owned(&table)?;
            } else {
                let timeout = Duration::from_secs(session.vars.lock_wait_timeout);
                Owned::default().take(&table.shared.lock, session, timeout)?;
            }
        }
        Ok(())
    }

    /// Locks all tables named, as the catalog has them once they are locked.
    fn take_named(
        &self,
        session: &mut Session,
        tables: &[ast::TableLock],
        timeout: Duration,
        firm: bool,
    ) -> SqlResult<()> {
        let mut rounds = 0;
        loop {
            let (mut wanted, names) = self.wanted(session, tables)?;
            if session.named_locks.pass.is_none() && wanted.iter().any(|wanted| wanted.write) {
                session.named_locks.pass = Some(self.pass_to_write(session)?);
                self.refuse_writes(session)?;
            }
            // Where many want the same tables, trying alone may never find all of them free.
            let in_order = rounds >= ROUNDS_OF_TRYING;
            if in_order {
                wanted.sort_by_key(|wanted| Arc::as_ptr(wanted.what.lock()));
            }
            let mut busy = None;
            for one in &wanted {
                let waits = |session: &Session| {
                    in_order && session.wait_for(one.what.lock(), one.kind(), WAIT_WHILE_OWNING).is_ok()
                };
                if session.named_locks.try_lock(one.what.lock(), one.write, one.is_view()) {
                    continue;
                }
                if !waits(session) {
                    busy = Some(one);
                    break;
                }
                session.named_locks.add(one.what.lock(), one.write, one.is_view());
            }
            let named = &mut session.named_locks;
            if let Some(busy) = busy {
                named.free_all();
                let stake = || Stake { firm: firm && !busy.write, ..session.stake() };
                let waits = session.user_locks.registry().waits();
                waits.take(busy.what.lock(), busy.kind(), stake, &session.interrupt, timeout)?;
                session.named_locks.add(busy.what.lock(), busy.write, busy.is_view());
                if in_order {
                    session.named_locks.free_all();
                }
                session.check_interrupt()?;
                rounds += 1;
                continue;
            }
            let catalog = self.catalog();
            if wanted.len() == named.len() && wanted.iter().all(|w| w.what.is_current(&catalog)) {
                named.set_names(names);
                return Ok(());
            }
            named.release();
        }
    }

    /// The tables named, each once, and their names.
    fn wanted(
        &self,
        session: &Session,
        tables: &[ast::TableLock],
    ) -> SqlResult<(Vec<LockRequest>, Vec<LockedName>)> {
        let mut wanted: Vec<LockRequest> = Vec::with_capacity(tables.len());
        let mut names: Vec<LockedName> = Vec::with_capacity(tables.len());
        let mut below: Vec<(Arc<TableDef>, bool)> = Vec::new();
        for named in tables {
            let db = keel_expr::env::schema_of(session, &named.table)?;
            let view = self.catalog().view(db, &named.table.name).cloned();
            if let Some(view) = view {
                let alias = named.alias.as_deref().unwrap_or(&named.table.name);
                let write = !matches!(named.kind, TableLockKind::Read | TableLockKind::ReadLocal);
                names.push(LockedName { lock: view.lock.clone(), alias: alias.into(), write });
                let (views, tables) = reach(&self.catalog(), session, &view)?;
                have_definers(session, &self.catalog().accounts, &views)?;
                for view in views {
                    want(&mut wanted, Lockable::View(view), false);
                }
                for table in tables {
                    want(&mut wanted, Lockable::Table(table.clone()), write);
                    below.push((table, write));
                }
                continue;
            }
            if self.is_system_table(session, &named.table) || is_instrument(db) {
                continue;
            }
            let table = self.find_table(session, &named.table)?;
            if table.is_temporary() {
                continue;
            }
            let alias = named.alias.as_deref().unwrap_or(&named.table.name);
            let write = !matches!(named.kind, TableLockKind::Read | TableLockKind::ReadLocal);
            names.push(LockedName { lock: table.shared.lock.clone(), alias: alias.into(), write });
            want(&mut wanted, Lockable::Table(table), write);
        }
        // The tables of views can be used by their own names too.
        for (table, write) in below {
            let lock = &table.shared.lock;
            let is_own = |name: &&mut LockedName| Arc::ptr_eq(&name.lock, lock) && *name.alias == *table.name;
            match names.iter_mut().find(is_own) {
                Some(name) => name.write |= write,
                None => names.push(LockedName { lock: lock.clone(), alias: (&*table.name).into(), write }),
            }
        }
        Ok((wanted, names))
    }

    /// UNLOCK TABLES: commits what is open if tables were locked; gives back the global read lock too.
    pub fn unlock_named_tables(&self, session: &mut Session) -> SqlResult<()> {
        if session.named_locks.is_in_force() {
            self.commit_implicitly(session)?;
            session.named_locks.release();
        }
        session.read_lock.release();
        Ok(())
    }

    /// Refuses a definition of tables that LOCK TABLES does not let the session change. Gives what a DROP or a
    /// CREATE OR REPLACE gives back.
    pub fn check_named(&self, session: &Session, statement: &Statement) -> SqlResult<Vec<Arc<TableLock>>> {
        let named = &session.named_locks;
        if !named.is_in_force() {
            return Ok(Vec::new());
        }
        let changed = match statement {
            Statement::CreateTable(create) => return self.check_created(session, create),
            Statement::DropTable(drop) => &drop.tables[..],
            Statement::AlterTable(alter) => std::slice::from_ref(&alter.table),
            Statement::AlterSequence(alter) => std::slice::from_ref(&alter.name),
            Statement::CreateIndex(create) => std::slice::from_ref(&create.table),
            Statement::DropIndex(drop) => std::slice::from_ref(&drop.table),
            Statement::Truncate { table, .. } => std::slice::from_ref(table),
            _ => return Err(errors::lock_or_active_transaction()),
        };
        let mut locks = Vec::with_capacity(changed.len());
        for name in changed {
            let found = self.find_table(session, name);
            let table = found.map_err(|error| match error.code {
                code::NO_SUCH_TABLE | code::WRONG_OBJECT => named.unknown(&name.name, error),
                _ => error,
            })?;
            if table.is_temporary() {
                continue;
            }
            match statement {
                Statement::DropTable(_) => named.check_owned(&table)?,
                Statement::Truncate { .. } => named.check(&table, true)?,
                _ => {
                    named.check(&table, false)?;
                    named.check_owned(&table)?;
                }
            }
            locks.push(table.shared.lock.clone());
        }
        Ok(locks)
    }

    /// The same of CREATE TABLE, which may find or replace a table that is locked for writing. Gives what it may replace.
    fn check_created(&self, session: &Session, create: &ast::CreateTable) -> SqlResult<Vec<Arc<TableLock>>> {
        let named = &session.named_locks;
        // What a temporary table hides is what is made.
        let schema = keel_expr::env::schema_of(session, &create.name)?;
        let found = self.catalog().table(schema, &create.name.name).cloned();
        let table = found.ok_or_else(|| errors::table_not_locked(&create.name.name))?;
        named.check(&table, true)?;
        if let Some(like) = &create.like {
            let like = self.find_table(session, like).map_err(|error| named.unknown(&like.name, error))?;
            if !like.is_temporary() {
                named.check(&like, false)?;
            }
        }
        Ok(vec![table.shared.lock.clone()])
    }

    /// A DROP has been done: its tables are locked no more.
    pub fn forget_dropped(session: &mut Session, locks: &[Arc<TableLock>]) {
        locks.iter().for_each(|lock| session.named_locks.forget(lock));
    }

    /// A CREATE has been tried: what it put in another table's place is locked under its own name alone. Where it failed there
    /// may be neither.
    pub fn forget_replaced(&self, session: &mut Session, name: &ast::ObjectName, locks: &[Arc<TableLock>]) {
        let schema = keel_expr::env::schema_of(session, name).unwrap_or_default();
        let now = self.catalog().table(schema, &name.name).cloned();
        for lock in locks {
            match now.as_ref().filter(|now| Arc::ptr_eq(&now.shared.lock, lock)) {
                Some(table) => session.named_locks.keep_own_name(lock, &table.name),
                None => session.named_locks.forget(lock),
            }
        }
    }
}

/// Whether a database holds what is made up at each reading, and needs no lock.
fn is_instrument(db: &str) -> bool {
    ["performance_schema", "sys"].iter().any(|made_up| made_up.eq_ignore_ascii_case(db))
}

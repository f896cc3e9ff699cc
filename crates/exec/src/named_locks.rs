//! The tables that LOCK TABLES has locked in a session, and the names under which statements use them.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};

use crate::catalog::{TableDef, View};
use crate::mdl::{Kind, TableLock};
use crate::read_lock::Pass;

/// A table as a statement names it.
pub struct TableUse {
    /// The table's metadata lock, which stays with it whatever becomes of its definition.
    pub lock: Arc<TableLock>,
    /// Its alias, or its name.
    pub alias: Arc<str>,
    /// Whether it is changed, or locked for that.
    pub writes: bool,
    /// A view, of which LOCK TABLES asks no alias.
    pub is_view: bool,
    /// A table that a view names, changed or locked through it: it takes no name of its own from LOCK TABLES.
    pub in_view: bool,
}

impl TableUse {
    /// Under its own name.
    pub fn of(table: &TableDef, writes: bool) -> TableUse {
        let (lock, alias) = (table.shared.lock.clone(), table.name.clone());
        TableUse { lock, alias, writes, is_view: false, in_view: false }
    }

    /// Changed or locked through a view.
    pub fn through_view(table: &TableDef) -> TableUse {
        TableUse { in_view: true, ..TableUse::of(table, true) }
    }
}

/// The tables that a session has locked by name; given back when dropped.
#[derive(Default)]
pub struct NamedLocks {
    locks: Vec<NamedLock>,
    names: Vec<LockedName>,
    /// Through the gate of those who write, where a table is locked for writing.
    pub pass: Option<Pass>,
}

struct NamedLock {
    lock: Arc<TableLock>,
    write: bool,
    is_view: bool,
}

/// A table under one of its names.
pub struct LockedName {
    /// The table's lock.
    pub lock: Arc<TableLock>,
    /// The name.
    pub alias: Box<str>,
    /// For writing.
    pub write: bool,
}

impl NamedLocks {
    /// Whether LOCK TABLES is in force.
    pub fn is_in_force(&self) -> bool {
        !self.locks.is_empty()
    }

    /// Whether the table is locked, for reading or writing.
    pub fn keeps(&self, lock: &Arc<TableLock>) -> bool {
        self.locks.iter().any(|named| Arc::ptr_eq(&named.lock, lock))
    }

    /// Whether the table is locked for writing.
    pub fn owns(&self, lock: &Arc<TableLock>) -> bool {
        self.locks.iter().any(|named| named.write && Arc::ptr_eq(&named.lock, lock))
    }

    /// 1100 or 1099 where the table may not be used so under its own name.
    pub fn check(&self, table: &TableDef, writes: bool) -> SqlResult<()> {
        self.check_use(&TableUse::of(table, writes)).map(|_| ())
    }

    /// The place of the name under which a statement uses a table.
    fn check_use(&self, used: &TableUse) -> SqlResult<usize> {
        let fits = |name: &LockedName| {
            Arc::ptr_eq(&name.lock, &used.lock) && (used.is_view || *name.alias == *used.alias)
        };
        match self.names.iter().position(fits) {
            None => Err(errors::table_not_locked(&used.alias)),
            Some(place) if used.writes && !self.names[place].write => {
                Err(errors::table_not_locked_for_write(&used.alias))
            }
            Some(place) => Ok(place),
        }
    }

    /// The same for all that a plan uses; no name serves twice.
    pub fn check_uses(&self, uses: &[TableUse]) -> SqlResult<()> {
        let mut taken = Vec::with_capacity(uses.len());
        for used in uses {
            let place = self.check_use(used)?;
            if used.in_view {
                continue;
            }
            if taken.contains(&place) && !used.is_view {
                return Err(errors::table_not_locked(&used.alias));
            }
            taken.push(place);
        }
        Ok(())
    }

    /// 1100 where a view is not locked.
    pub fn check_view(&self, view: &View) -> SqlResult<()> {
        match self.names.iter().any(|name| Arc::ptr_eq(&name.lock, &view.lock)) {
            true => Ok(()),
            false => Err(errors::table_not_locked(&view.name)),
        }
    }

    /// What is said of a table that there is not: while tables are locked, that it is none of them.
    pub fn unknown(&self, alias: &str, error: SqlError) -> SqlError {
        if self.is_in_force() { errors::table_not_locked(alias) } else { error }
    }

    /// 1100 or 1099 where the table is not locked for writing, whatever its name.
    pub fn check_owned(&self, table: &TableDef) -> SqlResult<()> {
        if self.owns(&table.shared.lock) {
            return Ok(());
        }
        let is_locked = self.locks.iter().any(|named| Arc::ptr_eq(&named.lock, &table.shared.lock));
        Err(refusal(is_locked, &table.name))
    }

    /// Locks a table if it is free, or locked already.
    pub fn try_lock(&mut self, lock: &Arc<TableLock>, write: bool, is_view: bool) -> bool {
        if self.locks.iter().any(|named| Arc::ptr_eq(&named.lock, lock)) {
            return true;
        }
        let free = if write { lock.try_own() } else { lock.try_refuse_writers() };
        if free {
            self.add(lock, write, is_view);
        }
        free
    }

    /// Keeps a lock that the session has taken.
    pub fn add(&mut self, lock: &Arc<TableLock>, write: bool, is_view: bool) {
        self.locks.push(NamedLock { lock: lock.clone(), write, is_view });
    }

    /// How many tables and views are locked.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// Whether nothing is locked.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// The names under which statements may use what is locked.
    pub fn set_names(&mut self, names: Vec<LockedName>) {
        self.names = names;
    }

    /// Leaves a table no name but its own.
    pub fn keep_own_name(&mut self, lock: &Arc<TableLock>, own: &str) {
        self.names.retain(|name| !Arc::ptr_eq(&name.lock, lock) || *name.alias == *own);
    }

    /// 1099 where the last name that is not locked for writing is one.
    pub fn refuse_readers(&self) -> SqlResult<()> {
        match self.names.iter().rfind(|name| !self.owns(&name.lock)) {
            Some(name) => Err(refusal(true, &name.alias)),
            None => Ok(()),
        }
    }

    /// What it keeps, and how.
    pub fn kept(&self) -> impl Iterator<Item = (Arc<TableLock>, Kind)> + '_ {
        let kind = |write| if write { Kind::Own } else { Kind::Refuse };
        let tables = self.locks.iter().map(move |named| (named.lock.clone(), kind(named.write)));
        tables.chain(self.pass.iter().map(|pass| (pass.gate().clone(), Kind::Write)))
    }

    /// Gives all of them back.
    pub fn release(&mut self) {
        self.free_all();
        self.names.clear();
        self.pass = None;
    }

    /// Gives the locks back and keeps the names.
    pub fn free_all(&mut self) {
        self.locks.drain(..).for_each(|named| named.free());
    }

    /// Gives back what belongs to a dropped table; with the last one LOCK TABLES is over, whatever views are locked.
    pub fn forget(&mut self, lock: &Arc<TableLock>) {
        if let Some(place) = self.locks.iter().position(|named| Arc::ptr_eq(&named.lock, lock)) {
            self.locks.swap_remove(place).free();
            self.names.retain(|name| !Arc::ptr_eq(&name.lock, lock));
        }
        if self.locks.iter().all(|named| named.is_view) {
            self.release();
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

/// What is said of a table that is not locked, or not for writing.
fn refusal(is_locked: bool, name: &str) -> SqlError {
    if is_locked { errors::table_not_locked_for_write(name) } else { errors::table_not_locked(name) }
}

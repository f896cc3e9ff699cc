//! Definitions: databases, tables, indexes, views.
//!
//! Each definition commits what was open, waits for the metadata locks of the tables it changes, and then does everything
//! in one transaction of the engine: trees made and dropped, the catalog's records written. Building an index or a copy of
//! a table comes before that, in trees that nobody names yet; a crash leaves them to the next start, which drops them.
//!
//! 1. `Definition` is the window in which the catalog changes: one at a time, from reading the current version to
//!    publishing the next.
//! 2. A definition that needs several tables takes their locks without holding any while it waits, so it cannot deadlock.

mod algorithm;
mod alter;
mod checks;
mod columns;
mod conditional;
mod copy;
mod create;
mod database;
mod drop;
mod engine_options;
mod foreign;
mod generated;
mod index;
mod kept;
mod keys;
mod lost;
mod modes;
mod online;
mod renames;
mod row_size;
mod sequences;
mod system;
mod temporary;
mod types;
mod view;
mod view_expr;
mod view_text;
mod zero_dates;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use keel_base::{SqlError, SqlResult, TreeId, code, errors};
use keel_catalog::account::{Account, record};
use keel_catalog::{Catalog, Shared, TableDef, TableRecord, store};
use keel_context::engine_error;
use keel_context::mdl::{Owned, TableLock};
use keel_context::memory::TablePlace;
use keel_context::result::Completion;
use keel_exec::home::{Home, WAIT_WHILE_OWNING};
use keel_exec::sequence;
use keel_exec::session::Session;
use keel_sql::ast::{LockWait, ObjectName, Statement};
use keel_storage::runtime::{fiber, time};
use keel_storage::{Txn, TxnOptions};
use keel_value::Value;

pub use self::kept::check_parsed;
pub use self::types::check_types;

/// The statements that definitions run, and the plans that they end.
pub trait Statements {
    /// Runs a statement without rows as a part of a definition, in a transaction of its own.
    fn run_within(
        &self,
        session: &mut Session,
        statement: Arc<Statement>,
        params: &[Value],
    ) -> SqlResult<Completion>;

    /// Drops what cached plans keep of dropped tables and indexes.
    fn forget_stale_plans(&self);
}

/// Runs definitions, statements about accounts and maintenance.
#[derive(Clone, Copy)]
pub struct Definer<'a> {
    /// What they change.
    pub home: &'a Home,
    /// Runs statements within them.
    pub statements: &'a dyn Statements,
}

impl Deref for Definer<'_> {
    type Target = Home;

    fn deref(&self) -> &Home {
        self.home
    }
}

impl Definer<'_> {
    /// Runs a definition. What was open is committed already.
    pub fn define(
        &self,
        session: &mut Session,
        statement: &Statement,
        params: &[Value],
    ) -> SqlResult<Completion> {
        match statement {
            Statement::CreateDatabase(create) => self.create_database(session, create),
            Statement::AlterDatabase { name, options } => {
                self.alter_database(session, name.as_deref(), options)
            }
            Statement::DropDatabase { name, if_exists } => self.drop_database(session, name, *if_exists),
            Statement::CreateTable(create) => self.create_table(session, create, params),
            Statement::DropTable(drop) => self.drop_tables(session, drop),
            Statement::AlterSequence(alter) => self.alter_sequence(session, alter),
            Statement::AlterTable(alter) => self.alter_table(session, alter),
            Statement::CreateIndex(create) => self.create_index(session, create),
            Statement::DropIndex(drop) => self.drop_index(session, drop),
            Statement::RenameTable { renames, if_exists, wait } => {
                self.rename_tables(session, renames, *if_exists, wait.as_ref())
            }
            Statement::CreateView(create) => self.create_view(session, create),
            Statement::DropView { names, if_exists } => self.drop_views(session, names, *if_exists),
            Statement::Truncate { table, wait } => self.truncate(session, table, wait.as_ref()),
            _ => Err(errors::not_supported_yet("this statement")),
        }
    }

    /// Opens the window in which the catalog may change. Waits for other definitions.
    pub(crate) fn definition(&self, session: &Session) -> SqlResult<Definition<'_>> {
        let mut owned = Owned::default();
        owned.take(self.definition_lock(), session, lock_timeout(session, None))?;
        let catalog = Catalog::clone(&self.catalog());
        Ok(Definition {
            database: *self,
            txn: self.engine().begin(TxnOptions::default()),
            catalog,
            put: Vec::new(),
            drops: false,
            tables: Owned::default(),
            _owned: owned,
        })
    }

    /// The same for what must be done, however long others define: their definitions are short.
    pub(crate) fn next_definition(&self, session: &Session) -> SqlResult<Definition<'_>> {
        loop {
            match self.definition(session) {
                Err(error) if error.code == code::LOCK_WAIT_TIMEOUT => fiber::sleep(DEFINITION_LOOK),
                taken => return taken,
            }
        }
    }

    /// The table of that name and its exclusive lock. Waits for statements and transactions that use it.
    fn own_table(
        &self,
        session: &Session,
        name: &ObjectName,
        wait: Option<&LockWait>,
    ) -> SqlResult<(Arc<TableDef>, Owned)> {
        loop {
            let table = self.find_table(session, name)?;
            let mut owned = Owned::default();
            if session.named_locks.owns(&table.shared.lock) {
                return Ok((table, owned));
            }
            owned.take(&table.shared.lock, session, lock_timeout(session, wait))?;
            let now = self.find_table(session, name)?;
            if Arc::ptr_eq(&now, &table) {
                return Ok((table, owned));
            }
        }
    }

    /// The same together with the exclusive locks of others, as far as they are there.
    fn own_table_and(
        &self,
        session: &Session,
        name: &ObjectName,
        others: &dyn Fn(&Catalog, &TableDef) -> Vec<Arc<TableLock>>,
        wait: Option<&LockWait>,
    ) -> SqlResult<(Arc<TableDef>, Owned)> {
        loop {
            let table = self.find_table(session, name)?;
            let more = others(&self.catalog(), &table);
            if more.is_empty() {
                return self.own_table(session, name, wait);
            }
            let mut locks = vec![table.shared.lock.clone()];
            locks.extend(more);
            let owned = self.own_locks(session, &locks, wait)?;
            let now = others(&self.catalog(), &table);
            if Arc::ptr_eq(&self.find_table(session, name)?, &table) && are_same(&now, &locks[1..]) {
                return Ok((table, owned));
            }
        }
    }

    /// The exclusive locks of several tables, none of them held for long while another is waited for. All definitions take
    /// them in one order, so that no two wait for each other. What LOCK TABLES has locked in this session is not taken: others do
    /// not write there.
    fn own_locks(
        &self,
        session: &Session,
        locks: &[Arc<TableLock>],
        wait: Option<&LockWait>,
    ) -> SqlResult<Owned> {
        let timeout = lock_timeout(session, wait);
        let free = |lock: &&Arc<TableLock>| !session.named_locks.keeps(lock);
        let mut wanted: Vec<&Arc<TableLock>> = locks.iter().filter(free).collect();
        wanted.sort_by_key(|lock| Arc::as_ptr(lock));
        let deadline = time::now() + timeout;
        loop {
            session.check_interrupt()?;
            let timeout = deadline.since(time::now());
            let mut owned = Owned::default();
            let mut busy = None;
            for lock in &wanted {
                let first = owned.is_empty();
                let patience = if first { timeout } else { timeout.min(WAIT_WHILE_OWNING) };
                match owned.take(lock, session, patience) {
                    Ok(()) => {}
                    Err(error) if first || patience == timeout || !is_wait_over(&error) => return Err(error),
                    Err(_) => {
                        busy = Some(lock);
                        break;
                    }
                }
            }
            let Some(busy) = busy else { return Ok(owned) };
            drop(owned);
            Owned::default().take(busy, session, timeout)?;
        }
    }
}

/// Whether a wait ended because it took too long, or would have.
fn is_wait_over(error: &SqlError) -> bool {
    matches!(error.code, code::LOCK_WAIT_TIMEOUT | code::LOCK_DEADLOCK)
}

/// How long a metadata lock is waited for.
pub(crate) fn lock_timeout(session: &Session, wait: Option<&LockWait>) -> Duration {
    match wait {
        Some(LockWait::NoWait | LockWait::SkipLocked) => Duration::ZERO,
        Some(LockWait::Wait(seconds)) => Duration::from_secs(*seconds),
        None => Duration::from_secs(session.vars.lock_wait_timeout),
    }
}

fn are_same(some: &[Arc<TableLock>], others: &[Arc<TableLock>]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// How often who must define asks again whether others do.
const DEFINITION_LOOK: Duration = Duration::from_millis(10);

/// The next version of the catalog while it is made.
pub(crate) struct Definition<'d> {
    database: Definer<'d>,
    txn: Txn,
    /// What it becomes.
    pub(crate) catalog: Catalog,
    /// What was put into the catalog.
    put: Vec<Arc<TableDef>>,
    /// Whether trees go, and with them the plans that use them.
    drops: bool,
    /// Locks of tables that are kept until its end.
    tables: Owned,
    _owned: Owned,
}

impl Definition<'_> {
    /// A new tree for table `id`, there once the definition commits.
    fn create_tree(&mut self, id: u64) -> SqlResult<TreeId> {
        self.database.engine().create_tree(&mut self.txn, &store::table_note(id)).map_err(engine_error)
    }

    fn drop_trees(&mut self, trees: &[TreeId]) -> SqlResult<()> {
        self.drops |= !trees.is_empty();
        if self.drops {
            self.txn.releases();
        }
        trees
            .iter()
            .try_for_each(|tree| self.database.engine().drop_tree(&mut self.txn, *tree).map_err(engine_error))
    }

    /// Adds a table or puts it in the place of the one of the same name.
    fn put_table(&mut self, record: TableRecord, shared: Arc<Shared>) -> SqlResult<Arc<TableDef>> {
        self.database.catalog_tree().put_table(&mut self.txn, &record)?;
        let table = Arc::new(record.open(self.database.engine(), shared)?);
        self.catalog.put_table(table.clone());
        self.put.push(table.clone());
        Ok(table)
    }

    /// Whether a table can be made: its name is free, and keys fit, its own and those that refer to it.
    fn check_new(&self, session: &mut Session, record: &TableRecord) -> SqlResult<()> {
        if self.catalog.require_schema(&record.schema)?.has(&record.name) {
            return Err(errors::table_exists(&record.name));
        }
        self.check_foreign_keys(session, record, &[], &record.foreign_keys, foreign::Verb::Create)?;
        self.check_orphans(session, record)
    }

    /// Writes the row of a new sequence.
    fn write_sequence(&mut self, table: &TableDef, values: &sequence::Values) -> SqlResult<()> {
        sequence::write_first(&mut self.txn, table, values)
    }

    /// Writes a table's record where nothing changes that readers of its rows would notice.
    fn rewrite_table(&mut self, record: TableRecord, shared: Arc<Shared>) -> SqlResult<()> {
        self.database.catalog_tree().put_table(&mut self.txn, &record)?;
        self.catalog.put_table(Arc::new(record.open(self.database.engine(), shared)?));
        Ok(())
    }

    /// Has the next start drop a table, unless it is finished.
    fn begin_filling(&mut self, table: &TableDef) -> SqlResult<()> {
        self.database.catalog_tree().put_unfinished(&mut self.txn, table)
    }

    /// The table has its rows, or goes.
    fn finish(&mut self, table: &TableDef) -> SqlResult<()> {
        self.database.catalog_tree().remove_unfinished(&mut self.txn, &table.schema, &table.name)
    }

    fn remove_table(&mut self, table: &TableDef) -> SqlResult<()> {
        self.database.catalog_tree().remove_table(&mut self.txn, &table.schema, &table.name)?;
        self.catalog.remove_table(&table.schema, &table.name);
        Ok(())
    }

    /// Writes an account's record.
    pub(crate) fn put_account(&mut self, account: &Account) -> SqlResult<()> {
        let (key, record) = (record::key(account), record::encode(account));
        self.database.catalog_tree().put_raw(&mut self.txn, &key, &record)
    }

    /// Removes an account's record.
    pub(crate) fn remove_account(&mut self, account: &Account) -> SqlResult<()> {
        self.database.catalog_tree().remove_raw(&mut self.txn, &record::key(account))
    }

    /// Makes it durable and shows it to everybody.
    pub(crate) fn commit(mut self) -> SqlResult<()> {
        let commit = self.txn.commit().map_err(engine_error)?;
        for table in &self.put {
            table.rows().set_born(commit);
            table.indexes.iter().for_each(|index| index.entries().set_born(commit));
        }
        self.catalog.version += 1;
        self.database.publish(std::mem::take(&mut self.catalog));
        if self.drops {
            self.database.statements.forget_stale_plans();
        }
        Ok(())
    }
}

/// Trees that exist before a definition names them: they go again unless it succeeds.
struct PendingTrees<'d> {
    database: &'d Home,
    temporary: bool,
    trees: Vec<TreeId>,
    places: Vec<(TreeId, TablePlace)>,
}

impl PendingTrees<'_> {
    fn new(database: &Home, temporary: bool) -> PendingTrees<'_> {
        PendingTrees { database, temporary, trees: Vec::new(), places: Vec::new() }
    }

    /// Makes a tree for table `id` that exists at once.
    fn create(&mut self, session: &Session, id: u64) -> SqlResult<TreeId> {
        let engine = self.database.engine();
        if self.temporary {
            let (tree, place) = session.temporary.new_tree(engine)?;
            self.trees.push(tree);
            self.places.push((tree, place));
            return Ok(tree);
        }
        let mut txn = engine.begin(TxnOptions::default());
        let tree = engine.create_tree(&mut txn, &store::table_note(id)).map_err(engine_error)?;
        txn.commit().map_err(engine_error)?;
        self.trees.push(tree);
        Ok(tree)
    }

    /// The definition has named them. Gives the places of temporary ones.
    fn keep(mut self) -> Vec<(TreeId, TablePlace)> {
        self.trees.clear();
        std::mem::take(&mut self.places)
    }
}

impl Drop for PendingTrees<'_> {
    fn drop(&mut self) {
        if self.trees.is_empty() {
            return;
        }
        let engine = self.database.engine();
        if self.temporary {
            return self.trees.iter().for_each(|tree| engine.drop_temporary_tree(*tree));
        }
        engine.abandon_trees(&self.trees);
    }
}

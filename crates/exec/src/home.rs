//! What statements of all kinds share: the engine, the catalog as it is now, the gates of the global read lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use keel_base::{SqlResult, errors};
use keel_sql::ast::ObjectName;
use keel_storage::Engine;
use keel_value::temporal::Zone;

use crate::catalog::layout::Layout;
use crate::catalog::store::CatalogTree;
use crate::catalog::{Catalog, TableDef, show_create};
use crate::expr::env::schema_of;
use crate::host::Host;
use crate::mdl::TableLock;
use crate::read_lock::Gates;
use crate::read_only::ReadOnly;
use crate::session::Session;

/// Bytes that the keys may take which are written while a table is altered, unless somebody says otherwise.
const ONLINE_LOG_MAX: u64 = 128 << 20;

/// How long a definition, or LOCK TABLES, keeps tables to itself while it waits for another one.
pub const WAIT_WHILE_OWNING: Duration = Duration::from_millis(50);

/// The databases of a server, as statements find them.
pub struct Home {
    engine: Arc<Engine>,
    host: Arc<dyn Host>,
    catalog: ArcSwap<Catalog>,
    catalog_tree: CatalogTree,
    /// Owned by the definition that changes the catalog.
    definition_lock: Arc<TableLock>,
    gates: Gates,
    read_only: ReadOnly,
    /// `innodb_online_alter_log_max_size`.
    online_log_max: AtomicU64,
    force_primary_key: AtomicBool,
}

impl Home {
    /// Opens the catalog in `engine`, making it on the first start. Waits.
    pub fn open(engine: Arc<Engine>, host: Arc<dyn Host>) -> SqlResult<Home> {
        let catalog_tree = CatalogTree::open(&engine, host.server_collation())?;
        let catalog = ArcSwap::from_pointee(catalog_tree.load(&engine)?);
        Ok(Home {
            engine,
            host,
            catalog,
            catalog_tree,
            definition_lock: Arc::default(),
            gates: Gates::default(),
            read_only: ReadOnly::default(),
            online_log_max: AtomicU64::new(ONLINE_LOG_MAX),
            force_primary_key: AtomicBool::new(false),
        })
    }

    /// The engine below.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The server around.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// The catalog as it is now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// The same as a session sees it, with its temporary tables.
    pub fn catalog_of(&self, session: &Session) -> Arc<Catalog> {
        match session.temporary.is_empty() {
            true => self.catalog(),
            false => session.temporary.view(&self.catalog.load()),
        }
    }

    /// The same for a moment, without counting where there are no temporary tables.
    pub fn with_catalog_of<R>(&self, session: &Session, f: impl FnOnce(&Catalog) -> R) -> R {
        let catalog = self.catalog.load();
        match session.temporary.is_empty() {
            true => f(&catalog),
            false => f(&session.temporary.view(&catalog)),
        }
    }

    /// The same for a moment, without counting.
    pub fn catalog_now(&self) -> arc_swap::Guard<Arc<Catalog>> {
        self.catalog.load()
    }

    /// The tree that keeps the catalog.
    pub fn catalog_tree(&self) -> &CatalogTree {
        &self.catalog_tree
    }

    /// The lock that the definition owns which changes the catalog.
    pub fn definition_lock(&self) -> &Arc<TableLock> {
        &self.definition_lock
    }

    /// What the global read lock closes.
    pub(crate) fn gates(&self) -> &Gates {
        &self.gates
    }

    /// `read_only`.
    #[inline]
    pub(crate) fn read_only(&self) -> &ReadOnly {
        &self.read_only
    }

    /// Bytes that the keys may take which are written while a table is altered.
    pub fn online_log_max(&self) -> u64 {
        self.online_log_max.load(Ordering::Relaxed)
    }

    /// Sets `innodb_online_alter_log_max_size`.
    pub fn set_online_log_max(&self, bytes: u64) {
        self.online_log_max.store(bytes, Ordering::Relaxed);
    }

    /// `innodb_force_primary_key`.
    pub fn forces_primary_key(&self) -> bool {
        self.force_primary_key.load(Ordering::Relaxed)
    }

    /// Sets `innodb_force_primary_key`.
    pub fn set_force_primary_key(&self, on: bool) {
        self.force_primary_key.store(on, Ordering::Relaxed);
    }

    /// Shows the next version of the catalog to everybody.
    pub fn publish(&self, catalog: Catalog) {
        self.catalog.store(Arc::new(catalog));
    }

    /// SHOW CREATE TABLE's text, in full.
    pub fn show_create_table(&self, table: &TableDef) -> String {
        show_create::table(table, self.next_auto_increment(table))
    }

    /// SHOW CREATE TABLE's text as a session wants it.
    pub fn show_create_table_as(&self, table: &TableDef, layout: Layout, zone: &dyn Zone) -> String {
        show_create::table_as(table, self.next_auto_increment(table), layout, zone)
    }

    /// The next AUTO_INCREMENT value of a table; 0 where it has no such column.
    pub fn next_auto_increment(&self, table: &TableDef) -> u64 {
        table.counting().map_or(0, |counting| counting.last().map_or(1, |last| last + 1))
    }

    /// The table of that name, or 1146. Virtual tables cannot be defined.
    pub fn find_table(&self, session: &Session, name: &ObjectName) -> SqlResult<Arc<TableDef>> {
        let schema = schema_of(session, name)?;
        self.refuse_virtual(session, schema)?;
        let catalog = self.catalog_of(session);
        if catalog.view(schema, &name.name).is_some() {
            return Err(errors::wrong_object(schema, &name.name, "BASE TABLE"));
        }
        catalog.require_table(schema, &name.name).cloned()
    }

    /// 1044 for information_schema and its like.
    pub fn refuse_virtual(&self, session: &Session, schema: &str) -> SqlResult<()> {
        if self.host().virtual_schemas().iter().any(|v| v.eq_ignore_ascii_case(schema)) {
            return Err(errors::dbaccess_denied(&session.access.user, &session.access.host, schema));
        }
        Ok(())
    }

    /// Whether a name is that of one of the server's own tables, which no real one hides.
    pub fn is_system_table(&self, session: &Session, name: &ObjectName) -> bool {
        let Ok(schema) = schema_of(session, name) else { return false };
        let is_virtual = self.host().virtual_schemas().iter().any(|v| v.eq_ignore_ascii_case(schema));
        !is_virtual
            && !self.with_catalog_of(session, |catalog| {
                catalog.table(schema, &name.name).is_some() || catalog.view(schema, &name.name).is_some()
            })
            && self.host().virtual_table(schema, &name.name).is_some_and(|table| *table.schema == *schema)
    }

    /// Forgets what lies of sequences in memory, as FLUSH TABLES does.
    pub fn forget_sequences(&self) {
        let catalog = self.catalog();
        let tables = catalog.schemas().flat_map(|schema| schema.tables());
        tables.filter_map(|table| table.sequence.as_deref()).for_each(crate::sequence::Sequence::forget);
    }
}

//! The temporary tables of a session.
//!
//! They are in no catalog but the session's own view of it ([`TemporaryTables::view`]), in which they hide other tables of
//! their names. A view has a version that no other has, so that a plan that was seen to fit one is compared again under
//! any other. Plans that use temporary tables are kept with the session; others are shared, as ever.
//!
//! Each tree of such a table is a file, and has a place among the temporary files of the server: their number is bounded.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use keel_base::{SqlResult, TreeId, errors};
use keel_storage::Engine;
use parking_lot::Mutex;

use crate::catalog::{Catalog, TableDef, TableSet};
use crate::engine_error;
use crate::host::Host;
use crate::memory::TablePlace;

/// Temporary tables of one session.
const TABLES_MAX: usize = 4096;

/// The versions of views, and the numbers of temporary tables: apart from those that the catalog gives.
static NEXT: AtomicU64 = AtomicU64::new(1 << 63);

/// The temporary tables of a session.
pub struct TemporaryTables {
    tables: Arc<TableSet>,
    /// The view, and the version of the catalog below it.
    view: Mutex<Option<(u64, Arc<Catalog>)>>,
    /// Plans of texts that use temporary tables.
    plans: Option<Box<dyn Any + Send>>,
    places: HashMap<TreeId, TablePlace>,
    host: Arc<dyn Host>,
}

impl TemporaryTables {
    /// None.
    pub fn new(host: Arc<dyn Host>) -> TemporaryTables {
        let tables = Arc::default();
        TemporaryTables { tables, view: Mutex::default(), plans: None, places: HashMap::new(), host }
    }

    /// Whether the session sees what all see.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The table of that name.
    pub fn get(&self, schema: &str, name: &str) -> Option<&Arc<TableDef>> {
        self.tables.get(schema, name)
    }

    /// A number for a new table.
    pub fn next_id() -> u64 {
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// The catalog with the temporary tables.
    pub fn view(&self, below: &Catalog) -> Arc<Catalog> {
        let mut view = self.view.lock();
        match &*view {
            Some((version, made)) if *version == below.version => made.clone(),
            _ => {
                let made = Arc::new(below.with_temporary(self.tables.clone(), Self::next_id()));
                *view = Some((below.version, made.clone()));
                made
            }
        }
    }

    /// A copy of the set, to be changed and given to [`TemporaryTables::set`].
    pub fn set_copy(&self) -> TableSet {
        TableSet::clone(&self.tables)
    }

    /// Shows other tables from now on. Plans over temporary tables are forgotten with what they keep open.
    pub fn set(&mut self, tables: TableSet) {
        self.tables = Arc::new(tables);
        *self.view.get_mut() = None;
        self.plans = None;
    }

    /// Adds a table, or puts it in the place of the one of its name.
    pub fn put(&mut self, table: Arc<TableDef>) {
        let mut tables = self.set_copy();
        tables.put(table);
        self.set(tables);
    }

    /// Sets the table that is being filled while it is made, or that there is none.
    pub fn make(&mut self, table: Option<Arc<TableDef>>) {
        let mut tables = self.set_copy();
        tables.make(table);
        self.set(tables);
    }

    /// Where plans over temporary tables are kept: a cache that `make` makes. It goes when the tables change.
    pub fn plans<P: Any + Send>(&mut self, make: impl FnOnce() -> P) -> &P {
        let plans = self.plans.get_or_insert_with(|| Box::new(make()));
        plans.downcast_ref().expect("one type of cache keeps plans")
    }

    /// The same, where there are any.
    pub fn known_plans<P: Any + Send>(&self) -> Option<&P> {
        self.plans.as_deref().and_then(|plans| plans.downcast_ref())
    }

    /// 1041 where the session has as many tables as it may have.
    pub fn check_room(&self) -> SqlResult<()> {
        if self.tables.len() < TABLES_MAX { Ok(()) } else { Err(errors::out_of_resources()) }
    }

    /// A new tree that is nobody's yet; 1041 where there are too many on the server. Waits.
    pub fn new_tree(&self, engine: &Engine) -> SqlResult<(TreeId, TablePlace)> {
        let place = self.host.work_memory().place_table().ok_or_else(errors::out_of_resources)?;
        Ok((engine.create_temporary_tree().map_err(engine_error)?, place))
    }

    /// A new tree of this session. Waits.
    pub fn create_tree(&mut self, engine: &Engine) -> SqlResult<TreeId> {
        let (tree, place) = self.new_tree(engine)?;
        self.places.insert(tree, place);
        Ok(tree)
    }

    /// Trees are this session's from now on.
    pub fn adopt(&mut self, trees: Vec<(TreeId, TablePlace)>) {
        self.places.extend(trees);
    }

    /// Removes trees. Waits.
    pub fn drop_trees(&mut self, engine: &Engine, trees: &[TreeId]) {
        for tree in trees {
            engine.drop_temporary_tree(*tree);
            self.places.remove(tree);
        }
    }

    /// Drops a table. Waits.
    pub fn drop_table(&mut self, engine: &Engine, table: &TableDef) {
        let mut tables = self.set_copy();
        tables.remove(&table.schema, &table.name);
        self.set(tables);
        self.drop_trees(engine, &table.record().trees());
    }

    /// Drops everything. Waits.
    pub fn drop_all(&mut self, engine: &Engine) {
        self.set(TableSet::default());
        let trees: Vec<TreeId> = self.places.keys().copied().collect();
        self.drop_trees(engine, &trees);
    }
}

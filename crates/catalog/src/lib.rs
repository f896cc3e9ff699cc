//! What tables there are: schemas, tables, columns and indexes, as an immutable snapshot that readers hold without a lock.
//!
//! A [`Catalog`] is never changed: DDL builds the next one, whose version is greater by one, writes what changed into the
//! catalog's tree in the same transaction, and publishes it after the commit. Whoever holds an `Arc` of a [`TableDef`]
//! together with a metadata lock on its name may rely on its trees being there.
//!
//! 1. Rows live in the tree of the clustered key: the primary key, else the first unique key over NOT NULL columns without
//!    prefixes, else a hidden row number of eight big-endian bytes. The row bytes follow [`TableDef::layout`] over all columns.
//! 2. An entry of a secondary index has as key the encoded parts followed by the clustered key's bytes, and as value a row of
//!    those of its whole (not prefix) columns and the clustered key's that the key does not give back ([`EntryShape`]).
//! 3. AUTO_INCREMENT lives in the counter of the tree of the first index that begins with the column; hidden row numbers in
//!    the counter of the clustered tree.
//! 4. A foreign key stands with the child; a catalog knows by name who refers to whom ([`Catalog::references_to`]).

#![forbid(unsafe_code)]

pub mod account;
pub mod check;
pub mod codec;
pub mod column_type;
pub mod counter;
mod density;
mod digest;
mod entry;
mod foreign;
pub mod key_range;
pub mod layout;
pub mod names;
pub mod record;
pub mod row_entries;
pub mod sequence;
pub mod series;
pub mod show_create;
pub mod store;
mod table;
mod temporary;
pub mod view;
pub mod xid;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use keel_base::{SqlResult, errors};
use keel_value::CollationId;

use crate::account::Accounts;

pub use entry::EntryShape;
pub use foreign::{ForeignAction, ForeignKey};
pub use key_range::{Holds, KeyRange};
pub use record::{IndexRecord, TableRecord};
pub use table::Shared;
pub use table::{
    AutoIncrement, ColumnDef, ColumnDefault, Generated, IndexDef, IndexKind, IndexOptions, KeyPart, TableDef,
    TableOptions,
};
pub use temporary::{MAKING, TableSet};
pub use view::{CheckOption, View, ViewAlgorithm, ViewRecord};

/// One version of everything that DDL can change.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Grows by one with every change.
    pub version: u64,
    /// Who may do what.
    pub accounts: Arc<Accounts>,
    schemas: BTreeMap<Arc<str>, Arc<Schema>>,
    /// By the name of a table those whose foreign keys refer to it, each once.
    children: Arc<HashMap<TableName, Vec<TableName>>>,
    /// The temporary tables of the session that has this view of the catalog.
    temporary: Option<Arc<TableSet>>,
}

/// Database and table.
type TableName = (Arc<str>, Arc<str>);

/// A database.
#[derive(Clone)]
pub struct Schema {
    /// Its name, case kept.
    pub name: Arc<str>,
    /// Default collation of its tables.
    pub collation: CollationId,
    /// COMMENT.
    pub comment: Box<str>,
    tables: HashMap<Arc<str>, Arc<TableDef>>,
    /// Views share the names of tables.
    views: HashMap<Arc<str>, Arc<View>>,
}

impl Schema {
    /// An empty database.
    pub fn new(name: &str, collation: CollationId, comment: &str) -> Schema {
        Schema {
            name: name.into(),
            collation,
            comment: comment.into(),
            tables: HashMap::new(),
            views: HashMap::new(),
        }
    }

    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<&Arc<TableDef>> {
        self.tables.get(name)
    }

    /// The view of that name.
    pub fn view(&self, name: &str) -> Option<&Arc<View>> {
        self.views.get(name)
    }

    /// Whether a table or a view has that name.
    pub fn has(&self, name: &str) -> bool {
        self.tables.contains_key(name) || self.views.contains_key(name)
    }

    /// All views in order of their names.
    pub fn views(&self) -> Vec<&Arc<View>> {
        let mut views: Vec<_> = self.views.values().collect();
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    /// All tables in order of their names.
    pub fn tables(&self) -> Vec<&Arc<TableDef>> {
        let mut tables: Vec<_> = self.tables.values().collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        tables
    }
}

impl Catalog {
    /// The database of that name.
    pub fn schema(&self, name: &str) -> Option<&Arc<Schema>> {
        self.schemas.get(name)
    }

    /// All databases in order of their names.
    pub fn schemas(&self) -> impl Iterator<Item = &Arc<Schema>> {
        self.schemas.values()
    }

    /// The table of that name in that database; in a session's view a temporary one, if there is one.
    pub fn table(&self, schema: &str, name: &str) -> Option<&Arc<TableDef>> {
        let temporary = self.temporary.as_ref().and_then(|tables| tables.get(schema, name));
        temporary.or_else(|| self.lasting_table(schema, name))
    }

    /// The same without temporary tables.
    pub fn lasting_table(&self, schema: &str, name: &str) -> Option<&Arc<TableDef>> {
        self.schemas.get(schema)?.table(name)
    }

    /// The same, or MariaDB's 1146.
    pub fn require_lasting_table(&self, schema: &str, name: &str) -> SqlResult<&Arc<TableDef>> {
        self.lasting_table(schema, name).ok_or_else(|| names::missing_table(schema, name))
    }

    /// Whether this definition of a table is in force. One that the session's statement makes is nobody else's to change.
    pub fn has(&self, table: &Arc<TableDef>) -> bool {
        self.table(&table.schema, &table.name).is_some_and(|now| Arc::ptr_eq(now, table)) || self.makes(table)
    }

    /// Whether the session's statement makes this table.
    pub fn makes(&self, table: &Arc<TableDef>) -> bool {
        self.temporary.as_ref().is_some_and(|tables| tables.makes(table))
    }

    /// Whether it is as one session sees it.
    pub fn is_of_session(&self) -> bool {
        self.temporary.is_some()
    }

    /// Whether this definition of a table that is not temporary is in force.
    pub fn has_lasting(&self, table: &Arc<TableDef>) -> bool {
        self.lasting_table(&table.schema, &table.name).is_some_and(|now| Arc::ptr_eq(now, table))
    }

    /// As a session sees it that has temporary tables.
    pub fn with_temporary(&self, tables: Arc<TableSet>, version: u64) -> Catalog {
        Catalog { version, temporary: Some(tables), ..self.clone() }
    }

    /// The view of that name in that database, unless a temporary table hides it.
    pub fn view(&self, schema: &str, name: &str) -> Option<&Arc<View>> {
        if self.temporary.as_ref().is_some_and(|tables| tables.get(schema, name).is_some()) {
            return None;
        }
        self.schemas.get(schema)?.view(name)
    }

    /// Adds or replaces a view in its database, which must exist.
    pub fn put_view(&mut self, view: Arc<View>) {
        let schema = self.schemas.get_mut(&view.schema).expect("a view's database exists");
        Arc::make_mut(schema).views.insert(view.name.clone(), view);
    }

    /// Forgets a view.
    pub fn remove_view(&mut self, schema: &str, name: &str) {
        if let Some(schema) = self.schemas.get_mut(schema) {
            Arc::make_mut(schema).views.remove(name);
        }
    }

    /// The table of that name, or MariaDB's 1146.
    pub fn require_table(&self, schema: &str, name: &str) -> SqlResult<&Arc<TableDef>> {
        self.table(schema, name).ok_or_else(|| names::missing_table(schema, name))
    }

    /// The database, or MariaDB's 1049.
    pub fn require_schema(&self, name: &str) -> SqlResult<&Arc<Schema>> {
        self.schema(name).ok_or_else(|| errors::bad_db(name))
    }

    /// Adds or replaces a database with its tables.
    pub fn put_schema(&mut self, schema: Schema) {
        self.schemas.insert(schema.name.clone(), Arc::new(schema));
    }

    /// Forgets a database, whose tables are gone.
    pub fn remove_schema(&mut self, name: &str) -> Option<Arc<Schema>> {
        self.schemas.remove(name)
    }

    /// Adds or replaces a table in its database, which must exist.
    pub fn put_table(&mut self, table: Arc<TableDef>) {
        let child = (table.schema.clone(), table.name.clone());
        for key in &table.foreign_keys {
            let children = Arc::make_mut(&mut self.children)
                .entry((key.ref_schema.clone(), key.ref_table.clone()))
                .or_default();
            if !children.contains(&child) {
                children.push(child.clone());
            }
        }
        let schema = self.schemas.get_mut(&table.schema).expect("a table's database exists");
        let before = Arc::make_mut(schema).tables.insert(table.name.clone(), table.clone());
        before.into_iter().for_each(|before| self.forget_references(&before, &table.foreign_keys));
    }

    /// Forgets a table.
    pub fn remove_table(&mut self, schema: &str, name: &str) -> Option<Arc<TableDef>> {
        let table = Arc::make_mut(self.schemas.get_mut(schema)?).tables.remove(name)?;
        self.forget_references(&table, &[]);
        Some(table)
    }

    /// Forgets what a table referred to, but for the parents of foreign keys that it still has.
    fn forget_references(&mut self, table: &TableDef, kept: &[ForeignKey]) {
        for key in &table.foreign_keys {
            if kept.iter().any(|other| other.refers_to(&key.ref_schema, &key.ref_table)) {
                continue;
            }
            let parent = (key.ref_schema.clone(), key.ref_table.clone());
            let all = Arc::make_mut(&mut self.children);
            if let Some(children) = all.get_mut(&parent) {
                children.retain(|(schema, name)| (schema, name) != (&table.schema, &table.name));
                if children.is_empty() {
                    all.remove(&parent);
                }
            }
        }
    }

    /// The foreign keys that refer to a table, or to one that may get that name, with the tables that have them; the
    /// table's own are among them.
    pub fn references_to(&self, schema: &str, table: &str) -> Vec<(&Arc<TableDef>, &ForeignKey)> {
        if self.children.is_empty() {
            return Vec::new();
        }
        let children = self.children.get(&(Arc::from(schema), Arc::from(table)));
        let children =
            children.into_iter().flatten().filter_map(|(schema, name)| self.lasting_table(schema, name));
        let keys = |child| move |key| (child, key);
        let mut found: Vec<(&Arc<TableDef>, &ForeignKey)> = children
            .flat_map(|child| child.foreign_keys.iter().map(keys(child)))
            .filter(|(_, key)| key.refers_to(schema, table))
            .collect();
        found.sort_by(|(a, x), (b, y)| (&a.schema, &x.name).cmp(&(&b.schema, &y.name)));
        found
    }
}

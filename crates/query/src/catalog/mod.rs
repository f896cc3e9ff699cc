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

pub mod check;
pub mod codec;
pub mod counter;
mod density;
mod entry;
mod foreign;
pub mod names;
pub mod record;
pub mod show_create;
pub mod store;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use keel_base::{SqlResult, errors};
use keel_value::CollationId;

use crate::account::Accounts;

pub use entry::EntryShape;
pub use foreign::{ForeignAction, ForeignKey};
pub use record::{IndexRecord, TableRecord};
pub(crate) use table::Shared;
pub use table::{
    AutoIncrement, ColumnDef, ColumnDefault, IndexDef, IndexKind, KeyPart, TableDef, TableOptions,
};

/// One version of everything that DDL can change.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Grows by one with every change.
    pub version: u64,
    /// Who may do what.
    pub accounts: Arc<Accounts>,
    schemas: BTreeMap<Arc<str>, Arc<Schema>>,
    /// By the name of a table those whose foreign keys refer to it, each once.
    children: HashMap<TableName, Vec<TableName>>,
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
}

impl Schema {
    /// An empty database.
    pub fn new(name: &str, collation: CollationId, comment: &str) -> Schema {
        Schema { name: name.into(), collation, comment: comment.into(), tables: HashMap::new() }
    }

    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<&Arc<TableDef>> {
        self.tables.get(name)
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

    /// The table of that name in that database.
    pub fn table(&self, schema: &str, name: &str) -> Option<&Arc<TableDef>> {
        self.schemas.get(schema)?.table(name)
    }

    /// The same, or MariaDB's 1146.
    pub fn require_table(&self, schema: &str, name: &str) -> SqlResult<&Arc<TableDef>> {
        self.table(schema, name).ok_or_else(|| errors::no_such_table(schema, name))
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
            let children = self.children.entry((key.ref_schema.clone(), key.ref_table.clone())).or_default();
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
            if let Some(children) = self.children.get_mut(&parent) {
                children.retain(|(schema, name)| (schema, name) != (&table.schema, &table.name));
                if children.is_empty() {
                    self.children.remove(&parent);
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
        let children = children.into_iter().flatten().filter_map(|(schema, name)| self.table(schema, name));
        let keys = |child| move |key| (child, key);
        let mut found: Vec<(&Arc<TableDef>, &ForeignKey)> = children
            .flat_map(|child| child.foreign_keys.iter().map(keys(child)))
            .filter(|(_, key)| key.refers_to(schema, table))
            .collect();
        found.sort_by(|(a, x), (b, y)| (&a.schema, &x.name).cmp(&(&b.schema, &y.name)));
        found
    }
}

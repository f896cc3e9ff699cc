//! The catalog's tree: where schemas and tables are kept, and how they come back at start.
//!
//! Keys: `1 schema` holds a database, `2 schema 0 table` a table, `3 schema 0 view` a view (see [`codec`]), `4 ...` an account
//! (see [`record`]), `5 schema 0 table` says that the rows of the table with that number are still on their way: CREATE TABLE
//! ... SELECT keeps it until it is done, and a start that finds it drops the table. The tree's own counter numbers tables. A tree of rows that no
//! table names was left by a definition that a crash cut short; the next start drops it.

use std::sync::Arc;

use hashbrown::HashSet;
use keel_base::{SqlResult, TreeId, errors};
use keel_storage::runtime::sync::Mutex as FiberMutex;
use keel_storage::{Engine, OnDuplicate, Read, ScanRange, TreeHandle, Txn, TxnOptions};
use keel_value::CollationId;

use super::codec;
use super::record::TableRecord;
use super::table::Shared;
use super::view::{View, ViewRecord};
use super::{Catalog, Schema, TableDef};
use crate::account::{Accounts, record};
use keel_context::engine_error;

/// The note that the engine keeps with the catalog's tree.
pub const CATALOG_NOTE: &[u8] = b"catalog";

/// The first octet of keys that name tables whose rows are on their way.
pub const UNFINISHED: u8 = 5;

/// Databases that a new server has.
const FIRST_SCHEMAS: [&str; 2] = ["mysql", "test"];

/// The catalog's tree.
pub struct CatalogTree {
    tree: TreeHandle,
    /// Held by who takes a number for a table.
    numbering: FiberMutex<()>,
}

impl CatalogTree {
    /// Finds the tree, or makes it with the first databases, of that collation. Waits.
    pub fn open(engine: &Arc<Engine>, collation: CollationId) -> SqlResult<CatalogTree> {
        let trees = engine.trees().map_err(engine_error)?;
        if let Some((id, _)) = trees.iter().find(|(_, note)| note == CATALOG_NOTE) {
            return Ok(CatalogTree { tree: handle(engine, *id)?, numbering: FiberMutex::new(()) });
        }
        let mut txn = engine.begin(TxnOptions::default());
        let id = engine.create_tree(&mut txn, CATALOG_NOTE).map_err(engine_error)?;
        let catalog = CatalogTree { tree: handle(engine, id)?, numbering: FiberMutex::new(()) };
        for name in FIRST_SCHEMAS {
            catalog.put_schema(&mut txn, &Schema::new(name, collation, ""))?;
        }
        txn.commit().map_err(engine_error)?;
        Ok(catalog)
    }

    /// Reads everything and drops trees that nobody names. Waits.
    pub fn load(&self, engine: &Arc<Engine>) -> SqlResult<Catalog> {
        let mut catalog = Catalog { version: 1, ..Catalog::default() };
        let mut accounts = None;
        let mut used: HashSet<TreeId> = HashSet::from_iter([self.tree.id()]);
        let mut unfinished = Vec::new();
        let mut txn = engine.begin(TxnOptions::default());
        let mut scan = txn.scan(&self.tree, ScanRange::ALL, Read::Snapshot).map_err(engine_error)?;
        while let Some((key, row)) = scan.next(&mut txn).map_err(engine_error)? {
            match key.split_first() {
                Some((1, name)) => {
                    let name = std::str::from_utf8(name).map_err(|_| damaged())?;
                    let (collation, comment) = codec::decode_schema(row).ok_or_else(damaged)?;
                    catalog.put_schema(Schema::new(name, collation, &comment));
                }
                Some((2, names)) => {
                    let table = read_table(names, row)?;
                    used.extend(table.trees());
                    catalog.put_table(Arc::new(table.open(engine, Arc::new(Shared::default()))?));
                }
                Some((3, names)) => {
                    catalog.put_view(Arc::new(View::new(read_view(names, row)?, Arc::default())));
                }
                Some((&record::KEY, [])) => drop(accounts.get_or_insert_with(Accounts::first_version)),
                Some((&record::KEY, names)) => {
                    let account = record::decode(names, row).ok_or_else(damaged)?;
                    accounts.get_or_insert_with(Accounts::first_version).put(Arc::new(account));
                }
                Some((&UNFINISHED, names)) => {
                    let (schema, name) = read_names(names)?;
                    let id = u64::from_be_bytes(row.try_into().map_err(|_| damaged())?);
                    unfinished.push((schema.to_string(), name.to_string(), id));
                }
                _ => return Err(damaged()),
            }
        }
        txn.rollback().map_err(engine_error)?;
        if !unfinished.is_empty() {
            let mut txn = engine.begin(TxnOptions::default());
            for (schema, name, id) in unfinished {
                // Another table may have that name by now, if the disk was full when this one was to go.
                if let Some(table) = catalog.table(&schema, &name).filter(|table| table.id == id).cloned() {
                    catalog.remove_table(&schema, &name);
                    table.record().trees().iter().for_each(|tree| _ = used.remove(tree));
                    self.remove_table(&mut txn, &schema, &name)?;
                }
                self.remove_unfinished(&mut txn, &schema, &name)?;
            }
            txn.commit().map_err(engine_error)?;
        }
        // None yet in a new folder: its version is 0 then.
        catalog.accounts = Arc::new(accounts.unwrap_or_default());
        drop_unused(engine, &used)?;
        Ok(catalog)
    }

    /// A number for a new table.
    pub fn next_table_id(&self, engine: &Engine) -> SqlResult<u64> {
        let _one = self.numbering.lock();
        let next = engine.counter(&self.tree, None).map_err(engine_error)? + 1;
        engine.raise_counter(&self.tree, next).map_err(engine_error)?;
        Ok(next)
    }

    /// Writes a database's record.
    pub fn put_schema(&self, txn: &mut Txn, schema: &Schema) -> SqlResult<()> {
        self.put(txn, &schema_key(&schema.name), &codec::encode_schema(schema.collation, &schema.comment))
    }

    /// Removes a database's record.
    pub fn remove_schema(&self, txn: &mut Txn, name: &str) -> SqlResult<()> {
        txn.delete(&self.tree, &schema_key(name)).map_err(engine_error)
    }

    /// Writes a table's record.
    pub fn put_table(&self, txn: &mut Txn, table: &TableRecord) -> SqlResult<()> {
        self.put(txn, &table_key(&table.schema, &table.name), &codec::encode_table(table))
    }

    /// Removes a table's record.
    pub fn remove_table(&self, txn: &mut Txn, schema: &str, name: &str) -> SqlResult<()> {
        txn.delete(&self.tree, &table_key(schema, name)).map_err(engine_error)
    }

    /// Notes that a start is to drop a table.
    pub fn put_unfinished(&self, txn: &mut Txn, table: &TableDef) -> SqlResult<()> {
        self.put(txn, &unfinished_key(&table.schema, &table.name), &table.id.to_be_bytes())
    }

    /// Forgets that.
    pub fn remove_unfinished(&self, txn: &mut Txn, schema: &str, name: &str) -> SqlResult<()> {
        txn.delete(&self.tree, &unfinished_key(schema, name)).map_err(engine_error)
    }

    /// Writes a record of another kind.
    pub fn put_raw(&self, txn: &mut Txn, key: &[u8], record: &[u8]) -> SqlResult<()> {
        self.put(txn, key, record)
    }

    /// Removes one.
    pub fn remove_raw(&self, txn: &mut Txn, key: &[u8]) -> SqlResult<()> {
        txn.delete(&self.tree, key).map_err(engine_error)
    }

    /// Writes a view's record.
    pub fn put_view(&self, txn: &mut Txn, view: &ViewRecord) -> SqlResult<()> {
        self.put(txn, &view_key(&view.schema, &view.name), &codec::encode_view(view))
    }

    /// Removes a view's record.
    pub fn remove_view(&self, txn: &mut Txn, schema: &str, name: &str) -> SqlResult<()> {
        txn.delete(&self.tree, &view_key(schema, name)).map_err(engine_error)
    }

    fn put(&self, txn: &mut Txn, key: &[u8], record: &[u8]) -> SqlResult<()> {
        match txn.insert(&self.tree, key, record, OnDuplicate::LockExclusive).map_err(engine_error)? {
            keel_storage::Insert::Done => Ok(()),
            keel_storage::Insert::Duplicate => txn.update(&self.tree, key, record).map_err(engine_error),
        }
    }
}

fn handle(engine: &Engine, id: TreeId) -> SqlResult<TreeHandle> {
    engine.tree(id).ok_or_else(damaged)
}

fn schema_key(name: &str) -> Vec<u8> {
    [&[1], name.as_bytes()].concat()
}

fn table_key(schema: &str, name: &str) -> Vec<u8> {
    [&[2], schema.as_bytes(), &[0], name.as_bytes()].concat()
}

fn view_key(schema: &str, name: &str) -> Vec<u8> {
    [&[3], schema.as_bytes(), &[0], name.as_bytes()].concat()
}

fn unfinished_key(schema: &str, name: &str) -> Vec<u8> {
    [&[UNFINISHED], schema.as_bytes(), &[0], name.as_bytes()].concat()
}

/// The names in the key of what is in a database.
pub fn read_names(names: &[u8]) -> SqlResult<(&str, &str)> {
    let names = std::str::from_utf8(names).map_err(|_| damaged())?;
    names.split_once('\0').ok_or_else(damaged)
}

/// The view that a record describes; an error where the record is damaged.
pub fn read_view(names: &[u8], row: &[u8]) -> SqlResult<ViewRecord> {
    let (schema, name) = read_names(names)?;
    codec::decode_view(schema, name, row).ok_or_else(damaged)
}

/// The table that a record describes; an error where the record is damaged.
pub fn read_table(names: &[u8], row: &[u8]) -> SqlResult<TableRecord> {
    let (schema, name) = read_names(names)?;
    codec::decode_table(schema, name, row).ok_or_else(damaged)
}

#[cold]
fn damaged() -> keel_base::SqlError {
    errors::unknown_error("The catalog is damaged or was written by a newer version")
}

/// Drops trees that no table names: what a crash left of an unfinished definition.
fn drop_unused(engine: &Arc<Engine>, used: &HashSet<TreeId>) -> SqlResult<()> {
    let trees = engine.trees().map_err(engine_error)?;
    let unused: Vec<TreeId> = trees
        .iter()
        .filter(|(id, note)| is_of_table(note) && !used.contains(id))
        .map(|(id, _)| *id)
        .collect();
    if unused.is_empty() {
        return Ok(());
    }
    let mut txn = engine.begin(TxnOptions::default());
    for id in unused {
        engine.drop_tree(&mut txn, id).map_err(engine_error)?;
    }
    txn.commit().map_err(engine_error)?;
    Ok(())
}

/// The note of a tree that belongs to table `id`.
pub fn table_note(id: u64) -> Vec<u8> {
    format!("table {id}").into_bytes()
}

/// Whether a note is about a table.
pub fn is_of_table(note: &[u8]) -> bool {
    note.starts_with(b"table ")
}

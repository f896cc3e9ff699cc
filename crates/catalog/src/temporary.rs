//! The temporary tables of a session, which hide others of their names from it.

use std::sync::Arc;

use hashbrown::HashMap;

use super::TableDef;

/// Tables by name; few, so that a copy costs little.
#[derive(Clone, Default)]
pub struct TableSet {
    /// By the table's name those of all databases.
    tables: HashMap<Arc<str>, Vec<Arc<TableDef>>>,
    len: usize,
    /// The table that CREATE TABLE ... SELECT fills: not there yet for its query, and known to its INSERT as [`MAKING`].
    making: Option<Arc<TableDef>>,
}

/// The name of the table in the making, which no table can have.
pub const MAKING: &str = "\0";

impl TableSet {
    /// The table of that name in that database.
    pub fn get(&self, schema: &str, name: &str) -> Option<&Arc<TableDef>> {
        if name == MAKING {
            return self.making.as_ref();
        }
        self.tables.get(name)?.iter().find(|table| *table.schema == *schema)
    }

    /// Sets the table in the making, or that there is none.
    pub fn make(&mut self, table: Option<Arc<TableDef>>) {
        self.making = table;
    }

    /// Whether this is the table in the making.
    pub fn makes(&self, table: &Arc<TableDef>) -> bool {
        self.making.as_ref().is_some_and(|making| Arc::ptr_eq(making, table))
    }

    /// Whether there is nothing to see.
    pub fn is_empty(&self) -> bool {
        self.len == 0 && self.making.is_none()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a table, in the place of the one of its name.
    pub fn put(&mut self, table: Arc<TableDef>) {
        self.remove(&table.schema, &table.name);
        self.tables.entry(table.name.clone()).or_default().push(table);
        self.len += 1;
    }

    /// Forgets a table.
    pub fn remove(&mut self, schema: &str, name: &str) -> Option<Arc<TableDef>> {
        let same_name = self.tables.get_mut(name)?;
        let place = same_name.iter().position(|table| *table.schema == *schema)?;
        let gone = same_name.swap_remove(place);
        if same_name.is_empty() {
            self.tables.remove(name);
        }
        self.len -= 1;
        Some(gone)
    }
}

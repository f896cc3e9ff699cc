//! A table as it is kept on disk, and the making of a [`TableDef`] from it.

use std::sync::Arc;

use keel_base::{SqlResult, TreeId, errors};
use keel_storage::{Engine, TreeHandle};
use keel_value::key;
use keel_value::row::{Layout, Slot};

use super::check::CheckConstraint;
use super::digest;
use super::table::{Shared, layout_with};
use super::{
    AutoIncrement, ColumnDef, EntryShape, ForeignKey, IndexDef, IndexKind, IndexOptions, KeyPart, TableDef,
    TableOptions,
};

/// What of a table is kept on disk; what DDL edits.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRecord {
    /// Its database.
    pub schema: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// See [`TableDef::id`].
    pub id: u64,
    /// See [`TableDef::version`].
    pub version: u64,
    /// See [`TableDef::created`].
    pub created: i64,
    /// The tree of the rows.
    pub tree_id: TreeId,
    /// Options.
    pub options: TableOptions,
    /// Columns in order.
    pub columns: Vec<ColumnDef>,
    /// Indexes in MariaDB's order.
    pub indexes: Vec<IndexRecord>,
    /// Foreign keys in order of their names.
    pub foreign_keys: Vec<ForeignKey>,
    /// CHECK constraints that are not of columns.
    pub checks: Vec<CheckConstraint>,
    /// The places of rows; none where they are the columns in their order.
    pub slots: Vec<Slot>,
}

/// What of an index is kept on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexRecord {
    /// Its name.
    pub name: Arc<str>,
    /// Primary, unique or plain.
    pub kind: IndexKind,
    /// Its columns.
    pub parts: Vec<KeyPart>,
    /// COMMENT.
    pub comment: String,
    /// USING.
    pub using: Option<String>,
    /// What else was said of it.
    pub options: IndexOptions,
    /// Its tree; the tree of the rows for the clustered key.
    pub tree_id: TreeId,
    /// Whether its entries leave out of their value what their key gives back: so are all that are made today.
    pub lean: bool,
    /// Whether its keys are digests of its columns: a unique one whose columns are too long for a key.
    pub hashed: bool,
}

impl IndexRecord {
    /// Whether rows can be ordered by it: unique, every part whole and NOT NULL.
    pub fn can_cluster(&self, columns: &[ColumnDef]) -> bool {
        self.kind != IndexKind::Plain
            && !self.hashed
            && self.parts.iter().all(|p| p.prefix.is_none() && !columns[p.column].nullable)
    }
}

impl IndexRecord {
    /// Its entries will be made anew, in this tree.
    pub fn set_new_tree(&mut self, tree: TreeId) {
        self.tree_id = tree;
        self.lean = true;
    }
}

/// Places that dropped columns may leave in rows: with more the table is copied.
const GONE_MAX: usize = 64;

impl TableRecord {
    /// The places of rows, also where they are the columns in their order.
    pub fn all_slots(&self) -> Vec<Slot> {
        match self.slots.is_empty() {
            true => (0..self.columns.len()).map(Slot::Column).collect(),
            false => self.slots.clone(),
        }
    }

    /// Gives it the places of rows; false if these have become too many.
    pub fn set_slots(&mut self, slots: Vec<Slot>) -> bool {
        let in_order = slots.iter().enumerate().all(|(number, slot)| *slot == Slot::Column(number));
        let gone = slots.iter().filter(|slot| matches!(slot, Slot::Gone(..))).count();
        self.slots = if in_order { Vec::new() } else { slots };
        gone <= GONE_MAX
    }

    /// Position of the index that orders the rows: the primary key, else the first that can.
    pub fn clustered(&self) -> Option<usize> {
        let primary = self.indexes.iter().position(|i| i.kind == IndexKind::Primary);
        primary.or_else(|| self.indexes.iter().position(|i| i.can_cluster(&self.columns)))
    }

    /// Every tree it has.
    pub fn trees(&self) -> Vec<TreeId> {
        let mut trees = vec![self.tree_id];
        trees.extend(self.indexes.iter().map(|i| i.tree_id).filter(|t| *t != self.tree_id));
        trees
    }

    /// Gives it new trees, for new rows.
    pub fn make_trees(&mut self, mut make: impl FnMut() -> SqlResult<TreeId>) -> SqlResult<()> {
        self.tree_id = make()?;
        self.slots.clear();
        let clustered = self.clustered();
        for (position, index) in self.indexes.iter_mut().enumerate() {
            match clustered == Some(position) {
                true => index.tree_id = self.tree_id,
                false => index.set_new_tree(make()?),
            }
        }
        Ok(())
    }

    /// Opens its trees and works out what statements need.
    pub fn open(self, engine: &Arc<Engine>, shared: Arc<Shared>) -> SqlResult<TableDef> {
        let handle = |id: TreeId| -> SqlResult<Option<TreeHandle>> {
            let missing = || errors::get_errno(194, "Tablespace is missing for a table", "InnoDB");
            engine.tree(id).map(Some).ok_or_else(missing)
        };
        let table = self.describe(&handle, shared)?;
        Ok(TableDef { engine: Some(engine.clone()), ..table })
    }

    /// The definition without an engine: how rows and entries are read and made, and nothing that could run on them.
    pub fn offline(self) -> TableDef {
        self.describe(&|_| Ok(None), Arc::default()).expect("no tree is looked for")
    }

    fn describe(
        self,
        handle: &dyn Fn(TreeId) -> SqlResult<Option<TreeHandle>>,
        shared: Arc<Shared>,
    ) -> SqlResult<TableDef> {
        let layout = layout_with(&self.columns, &self.slots);
        let clustered = self.clustered();
        let clustered_parts: Vec<(key::KeyPart, usize)> = clustered.map_or_else(Vec::new, |c| {
            let parts = self.indexes[c].parts.iter();
            parts.map(|p| (encoder(p, &self.columns[p.column]), p.column)).collect()
        });
        let auto_increment = self.columns.iter().position(|c| c.auto_increment).and_then(|column| {
            let index = self.indexes.iter().position(|i| i.parts[0].column == column)?;
            Some(AutoIncrement { column, index })
        });
        let tree = handle(self.tree_id)?;
        // The option had no meaning once: other tables may have it.
        let is_sequence = self.options.is_sequence() && crate::sequence::check_shape(&self).is_ok();
        let sequence = is_sequence.then(Box::default);
        let mut indexes = Vec::with_capacity(self.indexes.len());
        for (position, index) in self.indexes.into_iter().enumerate() {
            let own = clustered == Some(position);
            let tree = handle(index.tree_id)?;
            if !own {
                tree.iter().for_each(TreeHandle::set_auxiliary);
            }
            indexes.push(open_index(index, tree, own, &self.columns, &layout, &clustered_parts));
        }
        Ok(TableDef {
            id: self.id,
            version: self.version,
            schema: self.schema,
            name: self.name,
            columns: self.columns,
            indexes,
            foreign_keys: self.foreign_keys,
            clustered,
            auto_increment,
            tree_id: self.tree_id,
            tree,
            layout,
            checks: self.checks,
            slots: self.slots,
            options: self.options,
            created: self.created,
            engine: None,
            shared,
            sequence,
            series: None,
        })
    }
}

fn open_index(
    record: IndexRecord,
    tree: Option<TreeHandle>,
    clustered: bool,
    columns: &[ColumnDef],
    layout: &Arc<Layout>,
    clustered_parts: &[(key::KeyPart, usize)],
) -> IndexDef {
    let mut encoders: Vec<key::KeyPart> =
        record.parts.iter().map(|p| encoder(p, &columns[p.column])).collect();
    let mut digested = Vec::new();
    if record.hashed {
        digested = std::mem::replace(&mut encoders, vec![digest::encoder()]);
    }
    let entry = if clustered {
        EntryShape::of_rows(layout)
    } else {
        let own = encoders.iter().cloned().zip(record.parts.iter().map(|p| p.column));
        let parts = own.chain(clustered_parts.iter().cloned()).collect();
        EntryShape::new(parts, encoders.len(), columns, record.lean)
    };
    IndexDef {
        name: record.name,
        kind: record.kind,
        parts: record.parts,
        comment: record.comment,
        using: record.using,
        options: record.options,
        tree_id: record.tree_id,
        tree,
        encoders,
        digested,
        entry: Arc::new(entry),
        lean: record.lean,
        hashed: record.hashed,
    }
}

fn encoder(part: &KeyPart, column: &ColumnDef) -> key::KeyPart {
    key::KeyPart {
        descending: part.descending,
        prefix: part.prefix,
        ..key::KeyPart::new(column.ty.clone(), column.nullable)
    }
}

impl TableDef {
    /// What of it is kept on disk, for a definition to edit.
    pub fn record(&self) -> TableRecord {
        TableRecord {
            schema: self.schema.clone(),
            name: self.name.clone(),
            id: self.id,
            version: self.version,
            created: self.created,
            tree_id: self.tree_id,
            options: self.options.clone(),
            columns: self.columns.clone(),
            indexes: self
                .indexes
                .iter()
                .map(|i| IndexRecord {
                    name: i.name.clone(),
                    kind: i.kind,
                    parts: i.parts.clone(),
                    comment: i.comment.clone(),
                    using: i.using.clone(),
                    options: i.options,
                    tree_id: i.tree_id,
                    lean: i.lean,
                    hashed: i.hashed,
                })
                .collect(),
            foreign_keys: self.foreign_keys.clone(),
            checks: self.checks.clone(),
            slots: self.slots.clone(),
        }
    }
}

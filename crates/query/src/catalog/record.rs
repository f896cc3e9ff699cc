//! A table as it is kept on disk, and the making of a [`TableDef`] from it.

use std::sync::Arc;

use keel_base::{SqlResult, TreeId, errors};
use keel_storage::{Engine, TreeHandle};
use keel_value::key;
use keel_value::row::{self, Layout};

use super::check::CheckConstraint;
use super::table::{Shared, layout_of};
use super::{AutoIncrement, ColumnDef, ForeignKey, IndexDef, IndexKind, KeyPart, TableDef, TableOptions};

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
    /// Its tree; the tree of the rows for the clustered key.
    pub tree_id: TreeId,
}

impl IndexRecord {
    /// Whether rows can be ordered by it: unique, every part whole and NOT NULL.
    pub fn can_cluster(&self, columns: &[ColumnDef]) -> bool {
        self.kind != IndexKind::Plain
            && self.parts.iter().all(|p| p.prefix.is_none() && !columns[p.column].nullable)
    }
}

impl TableRecord {
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

    /// Opens its trees and works out what statements need.
    pub(crate) fn open(self, engine: &Arc<Engine>, shared: Arc<Shared>) -> SqlResult<TableDef> {
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
        let layout = layout_of(&self.columns);
        let clustered = self.clustered();
        let clustered_columns: Vec<usize> =
            clustered.map(|c| self.indexes[c].parts.iter().map(|p| p.column).collect()).unwrap_or_default();
        let auto_increment = self.columns.iter().position(|c| c.auto_increment).and_then(|column| {
            let index = self.indexes.iter().position(|i| i.parts[0].column == column)?;
            Some(AutoIncrement { column, index })
        });
        let tree = handle(self.tree_id)?;
        let mut indexes = Vec::with_capacity(self.indexes.len());
        for (position, index) in self.indexes.into_iter().enumerate() {
            let own = clustered == Some(position);
            let tree = handle(index.tree_id)?;
            if !own {
                tree.iter().for_each(TreeHandle::set_auxiliary);
            }
            indexes.push(open_index(index, tree, own, &self.columns, &layout, &clustered_columns));
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
            options: self.options,
            created: self.created,
            engine: None,
            shared,
        })
    }
}

fn open_index(
    record: IndexRecord,
    tree: Option<TreeHandle>,
    clustered: bool,
    columns: &[ColumnDef],
    layout: &Arc<Layout>,
    clustered_columns: &[usize],
) -> IndexDef {
    let encoders = record.parts.iter().map(|p| encoder(p, &columns[p.column])).collect();
    let entry_columns: Vec<usize> = if clustered {
        (0..columns.len()).collect()
    } else {
        let whole = record.parts.iter().filter(|p| p.prefix.is_none()).map(|p| p.column);
        let mut held: Vec<usize> = Vec::new();
        for column in whole.chain(clustered_columns.iter().copied()) {
            if !held.contains(&column) {
                held.push(column);
            }
        }
        held
    };
    let entry_layout = if clustered { layout.clone() } else { entry_layout(&entry_columns, columns) };
    let mut entry_map = vec![u16::MAX; columns.len()];
    entry_columns.iter().enumerate().for_each(|(place, column)| entry_map[*column] = place as u16);
    IndexDef {
        name: record.name,
        kind: record.kind,
        parts: record.parts,
        comment: record.comment,
        using: record.using,
        tree_id: record.tree_id,
        tree,
        encoders,
        entry_layout,
        entry_columns,
        entry_map: entry_map.into(),
    }
}

fn encoder(part: &KeyPart, column: &ColumnDef) -> key::KeyPart {
    key::KeyPart {
        descending: part.descending,
        prefix: part.prefix,
        ..key::KeyPart::new(column.ty.clone(), column.nullable)
    }
}

fn entry_layout(entry_columns: &[usize], columns: &[ColumnDef]) -> Arc<Layout> {
    let held = entry_columns
        .iter()
        .map(|c| &columns[*c])
        .map(|c| row::Column { ty: c.ty.clone(), nullable: c.nullable, default: c.added_with.clone() })
        .collect();
    Arc::new(Layout::with_defaults(held))
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
                    tree_id: i.tree_id,
                })
                .collect(),
            foreign_keys: self.foreign_keys.clone(),
            checks: self.checks.clone(),
        }
    }
}

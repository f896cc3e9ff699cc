//! Describes locks in terms of SQL: table, index, mode and the values of the locked key.

use std::fmt::Write;
use std::sync::Arc;

use hashbrown::HashMap;
use keel_base::TreeId;
use keel_catalog::{IndexDef, TableDef};
use keel_context::waits::RingLock;
use keel_database::LockedThing;
use keel_storage::{LockInfo, LockKind, LockMode};
use keel_value::{SqlType, ValueRef, convert};
use parking_lot::Mutex;

use crate::Served;

/// The maximum number of cached names.
const NAMES_MAX: usize = 4096;
/// The maximum length of the shown values of a key, in bytes.
const DATA_BYTES_MAX: usize = 512;
/// The maximum length of one value, in bytes.
const VALUE_BYTES_MAX: usize = 128;

/// The table and index that a tree belongs to.
#[derive(Clone)]
pub struct TreeOwner {
    /// The table.
    pub table: Arc<TableDef>,
    /// Position of the index; `None` for rows whose key is the hidden row number.
    pub index: Option<usize>,
}

/// A cache of the owners of trees.
#[derive(Default)]
pub struct Names {
    known: Mutex<KnownTree>,
}

#[derive(Default)]
struct KnownTree {
    /// The version of the catalog that the cache belongs to.
    version: u64,
    owners: HashMap<TreeId, TreeOwner>,
}

impl Names {
    /// The owner of a tree; `None` for trees of the engine itself and of dropped tables.
    pub fn owner(&self, state: &Served, tree: TreeId) -> Option<TreeOwner> {
        let catalog = state.database().catalog();
        let mut known = self.known.lock();
        if known.version != catalog.version || known.owners.len() >= NAMES_MAX {
            *known = KnownTree { version: catalog.version, owners: HashMap::new() };
        }
        if let Some(owner) = known.owners.get(&tree) {
            return Some(owner.clone());
        }
        let tables = catalog.schemas().flat_map(|schema| schema.tables().into_iter().cloned());
        let owner = tables.into_iter().find_map(|table| owner_in(&table, tree))?;
        known.owners.insert(tree, owner.clone());
        Some(owner)
    }
}

fn owner_in(table: &Arc<TableDef>, tree: TreeId) -> Option<TreeOwner> {
    let index = table.indexes.iter().position(|index| index.tree_id == tree);
    (index.is_some() || table.tree_id == tree).then(|| TreeOwner { table: table.clone(), index })
}

impl TreeOwner {
    /// The name of the index; InnoDB's name for rows without a key.
    pub fn index_name(&self) -> &str {
        self.index.map_or("GEN_CLUST_INDEX", |index| &self.table.indexes[index].name)
    }

    /// `` `schema`.`table` ``.
    pub fn table_name(&self) -> String {
        quoted(&self.table)
    }

    fn index(&self) -> Option<&IndexDef> {
        self.index.map(|index| &self.table.indexes[index])
    }
}

/// `` `schema`.`table` ``.
pub fn quoted(table: &TableDef) -> String {
    format!("`{}`.`{}`", table.schema.replace('`', "``"), table.name.replace('`', "``"))
}

/// The description of a lock.
#[derive(Debug, Clone)]
pub struct LockText {
    /// `` `schema`.`table` ``, or the number of the tree if it has no owner.
    pub table: Box<str>,
    /// The index.
    pub index: Box<str>,
    /// The tree.
    pub tree: u32,
    /// The kind of its object.
    pub kind: LockKind,
    /// Its strength.
    pub mode: LockMode,
    /// Whether the transaction waits for it.
    pub waits: bool,
    /// The values of the key; for a gap, those of its upper end.
    pub data: Box<str>,
    /// The bytes of each column of the key, if it has any.
    pub fields: Box<[Box<[u8]>]>,
    /// The mode of a lock that is not on rows.
    pub other_mode: Option<&'static str>,
}

/// The name of the end of an index.
pub const SUPREMUM: &str = "supremum pseudo-record";

impl LockText {
    /// Describes a row lock. If the key does not contain its values, this reads the row and may wait for a page.
    pub fn of(state: &Served, lock: &LockInfo) -> LockText {
        let owner = state.names.owner(state, lock.tree);
        let (data, fields) = match &owner {
            _ if lock.kind == LockKind::Counter => (String::new(), Vec::new()),
            _ if lock.key.is_empty() => (SUPREMUM.to_string(), Vec::new()),
            Some(owner) => key_text(state, owner, &lock.key),
            None => (hex(&lock.key), vec![lock.key.clone()]),
        };
        let table = owner.as_ref().map_or_else(|| format!("tree {}", lock.tree), TreeOwner::table_name);
        LockText {
            table: table.into(),
            index: owner.as_ref().map_or("", TreeOwner::index_name).into(),
            tree: lock.tree.0,
            kind: lock.kind,
            mode: lock.mode,
            waits: !lock.granted,
            data: data.into(),
            fields: fields
                .into_iter()
                .map(|field| field[..field.len().min(VALUE_BYTES_MAX)].into())
                .collect(),
            other_mode: None,
        }
    }

    /// Describes a table's metadata lock, a lock of GET_LOCK() or the global read lock.
    pub fn of_thing(thing: &LockedThing, lock: &RingLock) -> LockText {
        let (table, data) = match thing {
            LockedThing::Table(table) => (quoted(table), String::new()),
            LockedThing::Name(name) => {
                (String::new(), format!("GET_LOCK('{}')", String::from_utf8_lossy(name).replace('\'', "''")))
            }
            LockedThing::ReadLock => (String::new(), "FLUSH TABLES WITH READ LOCK".to_string()),
        };
        LockText {
            table: table.into(),
            index: "".into(),
            tree: 0,
            kind: LockKind::Row,
            mode: LockMode::Exclusive,
            waits: false,
            data: data.into(),
            fields: Box::default(),
            other_mode: Some(lock.mode()),
        }
    }

    /// The mode, as INNODB_LOCKS shows it.
    pub fn mode_word(&self) -> &'static str {
        match (self.mode, self.kind) {
            (_, LockKind::Counter) => "AUTO_INC",
            (LockMode::Shared, LockKind::Gap | LockKind::Insert) => "S,GAP",
            (LockMode::Exclusive, LockKind::Gap | LockKind::Insert) => "X,GAP",
            (LockMode::Shared, _) => "S",
            (LockMode::Exclusive, _) => "X",
        }
    }

    /// The mode with its flags, as the report shows it.
    pub fn whole_mode(&self) -> &'static str {
        if let Some(mode) = self.other_mode {
            return mode;
        }
        match (self.mode, self.kind) {
            (_, LockKind::Counter) => "AUTO_INC",
            (LockMode::Shared, LockKind::Row) => "S,REC_NOT_GAP",
            (LockMode::Shared, LockKind::Gap) => "S,GAP",
            (LockMode::Shared, LockKind::NextKey) => "S",
            (LockMode::Shared, LockKind::Insert) => "S,GAP,INSERT_INTENTION",
            (LockMode::Exclusive, LockKind::Row) => "X,REC_NOT_GAP",
            (LockMode::Exclusive, LockKind::Gap) => "X,GAP",
            (LockMode::Exclusive, LockKind::NextKey) => "X",
            (LockMode::Exclusive, LockKind::Insert) => "X,GAP,INSERT_INTENTION",
        }
    }

    /// Its size in memory.
    pub fn bytes(&self) -> usize {
        let fields: usize = self.fields.iter().map(|field| field.len() + size_of::<Box<[u8]>>()).sum();
        size_of::<LockText>() + self.table.len() + self.index.len() + self.data.len() + fields
    }
}

/// Bytes as an SQL literal.
pub fn hex(octets: &[u8]) -> String {
    let mut text = String::from("0x");
    for octet in octets.iter().take(VALUE_BYTES_MAX) {
        // Writing into a String cannot fail.
        let _ = write!(text, "{octet:02x}");
    }
    text
}

/// The values of a key, and the bytes of its columns.
fn key_text(state: &Served, owner: &TreeOwner, key: &[u8]) -> (String, Vec<Vec<u8>>) {
    let table = &owner.table;
    let clustered = table.clustered_index();
    // An entry of a secondary index ends in the clustered key; of that, no column twice.
    let own = owner.index();
    let is_clustered = owner.index.is_none() || owner.index == table.clustered;
    let behind = if is_clustered { None } else { clustered };
    let parts = own.into_iter().chain(behind).flat_map(|index| index.encoders.iter().zip(&index.parts));
    let mut stored: Option<Option<Vec<u8>>> = None;
    let (mut text, mut fields, mut seen) = (String::new(), Vec::new(), Vec::new());
    let mut rest = key;
    for (encoder, part) in parts {
        let Some(length) = encoder.skip(rest) else { return (hex(key), vec![key.to_vec()]) };
        let (field, next) = rest.split_at(length.min(rest.len()));
        rest = next;
        if seen.contains(&part.column) {
            continue;
        }
        seen.push(part.column);
        fields.push(field.to_vec());
        if text.len() >= DATA_BYTES_MAX {
            continue;
        }
        if !text.is_empty() {
            text.push_str(", ");
        }
        match encoder.decode(field) {
            Some((value, _)) => append_value(&mut text, value.as_ref(), &encoder.ty),
            None => {
                let row = stored.get_or_insert_with(|| peek(state, owner, key));
                append_stored(&mut text, owner, (key, row.as_deref()), part.column, field);
            }
        }
    }
    if !rest.is_empty() {
        // A hidden row number.
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{separator}{}", hex(rest));
        fields.push(rest.to_vec());
    }
    (text, fields)
}

/// The row or entry of a key.
fn peek(state: &Served, owner: &TreeOwner, key: &[u8]) -> Option<Vec<u8>> {
    let tree = match owner.index() {
        Some(index) => index.entries(),
        None => owner.table.rows(),
    };
    // If the row cannot be read, the bytes of its key are shown.
    state.engine.peek(tree, key).ok().flatten()
}

/// A column whose key does not give its value back, from the row.
fn append_stored(
    text: &mut String,
    owner: &TreeOwner,
    (key, row): (&[u8], Option<&[u8]>),
    column: usize,
    field: &[u8],
) {
    let known = row
        .zip(owner.index())
        .and_then(|(row, index)| index.entry.holds(column).then(|| index.entry.get(column, key, row)));
    match known {
        Some(value) => append_value(text, value, &owner.table.columns[column].ty),
        None => text.push_str(&hex(field)),
    }
}

fn append_value(text: &mut String, value: ValueRef<'_>, ty: &SqlType) {
    if let ValueRef::Null = value {
        return text.push_str("NULL");
    }
    let mut shown = Vec::new();
    convert::to_text(value, ty, &mut shown);
    let kept = super::history::beginning(&shown, VALUE_BYTES_MAX);
    let is_quoted = ty.is_string()
        || matches!(
            value,
            ValueRef::Date(_) | ValueRef::Time(_) | ValueRef::DateTime(_) | ValueRef::Fixed(_)
        );
    if !is_quoted {
        return text.push_str(&String::from_utf8_lossy(kept));
    }
    match std::str::from_utf8(kept) {
        Ok(readable) => {
            text.push('\'');
            text.push_str(&readable.replace('\'', "''"));
            text.push('\'');
        }
        Err(_) => text.push_str(&hex(kept)),
    }
}

//! Locks in the words of SQL: table, index, mode and the values of the key that is locked.

use std::fmt::Write;
use std::sync::Arc;

use hashbrown::HashMap;
use keel_base::TreeId;
use keel_database::LockedThing;
use keel_query::waits::RingLock;
use keel_query::{catalog::IndexDef, catalog::TableDef};
use keel_storage::{LockInfo, LockKind, LockMode};
use keel_value::{SqlType, ValueRef, convert};
use parking_lot::Mutex;

use crate::Served;

/// Most trees whose names are remembered.
const NAMES_MAX: usize = 4096;
/// Octets of a key's values that are told.
const DATA_BYTES_MAX: usize = 512;
/// Octets of one value.
const VALUE_BYTES_MAX: usize = 128;

/// The table of a tree, and the position of its index if it is not the tree of the rows.
#[derive(Clone)]
pub struct Place {
    /// The table.
    pub table: Arc<TableDef>,
    /// Position of the index; none for a hidden row number.
    pub index: Option<usize>,
}

/// What trees are called, as far as somebody has asked.
#[derive(Default)]
pub struct Names {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The catalog's version.
    version: u64,
    places: HashMap<TreeId, Place>,
}

impl Names {
    /// Where a tree belongs; none for those of the engine itself and of tables that are gone.
    pub fn place(&self, state: &Served, tree: TreeId) -> Option<Place> {
        let catalog = state.database().catalog();
        let mut known = self.known.lock();
        if known.version != catalog.version || known.places.len() >= NAMES_MAX {
            *known = Known { version: catalog.version, places: HashMap::new() };
        }
        if let Some(place) = known.places.get(&tree) {
            return Some(place.clone());
        }
        let tables = catalog.schemas().flat_map(|schema| schema.tables().into_iter().cloned());
        let place = tables.into_iter().find_map(|table| place_in(&table, tree))?;
        known.places.insert(tree, place.clone());
        Some(place)
    }
}

fn place_in(table: &Arc<TableDef>, tree: TreeId) -> Option<Place> {
    let index = table.indexes.iter().position(|index| index.tree_id == tree);
    (index.is_some() || table.tree_id == tree).then(|| Place { table: table.clone(), index })
}

impl Place {
    /// The index, with rows of no key under the name that InnoDB gives it.
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

/// A lock in words.
#[derive(Debug, Clone)]
pub struct LockText {
    /// `` `schema`.`table` ``, or the tree where it has none.
    pub table: Box<str>,
    /// The index.
    pub index: Box<str>,
    /// The tree.
    pub tree: u32,
    /// What it is on.
    pub kind: LockKind,
    /// Its strength.
    pub mode: LockMode,
    /// Whether it is waited for, and so not held.
    pub waits: bool,
    /// The values of the key; of a gap those of its upper end.
    pub data: Box<str>,
    /// The octets of each column of the key, if it has any.
    pub fields: Box<[Box<[u8]>]>,
    /// The mode of a lock that is not on rows.
    pub other_mode: Option<&'static str>,
}

/// What stands for the end of an index.
pub const SUPREMUM: &str = "supremum pseudo-record";

impl LockText {
    /// Puts a lock into words. Waits for a page where keys do not give back the values they were made of.
    pub fn of(state: &Served, lock: &LockInfo) -> LockText {
        let place = state.names.place(state, lock.tree);
        let (data, fields) = match &place {
            _ if lock.kind == LockKind::Counter => (String::new(), Vec::new()),
            _ if lock.key.is_empty() => (SUPREMUM.to_string(), Vec::new()),
            Some(place) => key_text(state, place, &lock.key),
            None => (hex(&lock.key), vec![lock.key.clone()]),
        };
        let table = place.as_ref().map_or_else(|| format!("tree {}", lock.tree), Place::table_name);
        LockText {
            table: table.into(),
            index: place.as_ref().map_or("", Place::index_name).into(),
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

    /// The same for a table's metadata lock, a name of GET_LOCK() and the global read lock.
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

    /// The mode as INNODB_LOCKS has it.
    pub fn mode_word(&self) -> &'static str {
        match (self.mode, self.kind) {
            (_, LockKind::Counter) => "AUTO_INC",
            (LockMode::Shared, LockKind::Gap | LockKind::Insert) => "S,GAP",
            (LockMode::Exclusive, LockKind::Gap | LockKind::Insert) => "X,GAP",
            (LockMode::Shared, _) => "S",
            (LockMode::Exclusive, _) => "X",
        }
    }

    /// The mode with all that is to say about it.
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

    /// Octets that it takes.
    pub fn bytes(&self) -> usize {
        let fields: usize = self.fields.iter().map(|field| field.len() + size_of::<Box<[u8]>>()).sum();
        size_of::<LockText>() + self.table.len() + self.index.len() + self.data.len() + fields
    }
}

/// Octets as SQL writes them.
pub fn hex(octets: &[u8]) -> String {
    let mut text = String::from("0x");
    for octet in octets.iter().take(VALUE_BYTES_MAX) {
        // Writing into a String cannot fail.
        let _ = write!(text, "{octet:02x}");
    }
    text
}

/// The values of a key, and the octets of its columns.
fn key_text(state: &Served, place: &Place, key: &[u8]) -> (String, Vec<Vec<u8>>) {
    let table = &place.table;
    let clustered = table.clustered_index();
    // An entry of a secondary index ends in the clustered key; of that, no column twice.
    let own = place.index();
    let is_clustered = place.index.is_none() || place.index == table.clustered;
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
                let row = stored.get_or_insert_with(|| peek(state, place, key));
                append_stored(&mut text, place, (key, row.as_deref()), part.column, field);
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
fn peek(state: &Served, place: &Place, key: &[u8]) -> Option<Vec<u8>> {
    let tree = match place.index() {
        Some(index) => index.entries(),
        None => place.table.rows(),
    };
    // What cannot be read is shown by the octets of its key.
    state.engine.peek(tree, key).ok().flatten()
}

/// A column whose key does not give its value back, from the row.
fn append_stored(
    text: &mut String,
    place: &Place,
    (key, row): (&[u8], Option<&[u8]>),
    column: usize,
    field: &[u8],
) {
    let known = row
        .zip(place.index())
        .and_then(|(row, index)| index.entry.holds(column).then(|| index.entry.get(column, key, row)));
    match known {
        Some(value) => append_value(text, value, &place.table.columns[column].ty),
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

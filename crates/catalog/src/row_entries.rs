//! Keys and index entries that a row has.

use keel_value::row::{self, RowRef};

use crate::IndexDef;

/// The bytes of one index entry.
#[derive(Default)]
pub struct EntryBuffers {
    /// Its key: the parts, then the clustered key.
    pub key: Vec<u8>,
    /// Bytes of the parts.
    pub parts_len: usize,
    /// Its value.
    pub value: Vec<u8>,
    /// Whether a part is NULL: then it is never a duplicate.
    pub has_null: bool,
}

/// Makes the entry of a row in a secondary index. `primary` is the row's clustered key.
pub fn write_entry(index: &IndexDef, row: &RowRef<'_>, primary: &[u8], entry: &mut EntryBuffers) {
    entry.key.clear();
    entry.has_null = index.parts.iter().any(|part| row.get(part.column).is_null());
    index.encode_parts(|column| row.get(column), &mut entry.key);
    entry.parts_len = entry.key.len();
    entry.key.extend_from_slice(primary);
    entry.value.clear();
    let shape = &index.entry;
    if !shape.in_value.is_empty() {
        row::encode_with(&shape.layout, |place| row.get(shape.in_value[place]), &mut entry.value);
    }
}

/// Makes a row's clustered key; not for tables with hidden row numbers.
pub fn write_clustered_key(index: &IndexDef, row: &RowRef<'_>, key: &mut Vec<u8>) {
    key.clear();
    index.encode_parts(|column| row.get(column), key);
}

/// The clustered key at the end of an index entry's key.
pub fn clustered_key<'k>(index: &IndexDef, key: &'k [u8]) -> &'k [u8] {
    let mut rest = key;
    for encoder in &index.encoders {
        match encoder.skip(rest) {
            Some(len) => rest = &rest[len..],
            None => return &[],
        }
    }
    rest
}

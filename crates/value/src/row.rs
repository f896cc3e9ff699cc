//! Rows as bytes.
use crate::{SqlType, Value, ValueRef};

/// One column of a [`Layout`].
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its type.
    pub ty: SqlType,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// What rows show that were written before the column was added.
    pub default: Value,
}
/// Where columns stand in a row.
#[derive(Debug, Clone)]
pub struct Layout {
    columns: Vec<Column>,
}
impl Layout {
    /// Columns whose rows are all whole.
    pub fn new(_columns: &[(SqlType, bool)]) -> Layout {
        unimplemented!()
    }
    /// Columns with values for rows that were written before trailing columns were added.
    pub fn with_defaults(columns: Vec<Column>) -> Layout {
        Layout { columns }
    }
    /// Its columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
}
/// Appends a row of already converted values (see [`crate::convert::store`]), one for each column.
pub fn encode(_layout: &Layout, _values: &[ValueRef<'_>], _out: &mut Vec<u8>) {
    unimplemented!()
}
/// The same from owned values.
pub fn encode_values(_layout: &Layout, _values: &[Value], _out: &mut Vec<u8>) {
    unimplemented!()
}
/// A row read in place.
#[derive(Debug, Clone, Copy)]
pub struct RowRef<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
}
impl<'a> RowRef<'a> {
    /// Reads the row's header.
    pub fn new(layout: &'a Layout, bytes: &'a [u8]) -> RowRef<'a> {
        RowRef { layout, bytes }
    }
    /// Column `index`, without allocation.
    pub fn get(&self, _index: usize) -> ValueRef<'a> {
        let _ = (self.layout, self.bytes);
        unimplemented!()
    }
}

//! What a statement gives back: column descriptions, rows through a sink, and the figures of the OK packet.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use keel_base::{SqlResult, errors};
use keel_value::row::{Layout, RowRef};
use keel_value::{SqlType, Value, ValueRef};

/// One column of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnMeta {
    /// Database of the table it comes from; empty for expressions.
    pub schema: Arc<str>,
    /// Alias of that table.
    pub table: Arc<str>,
    /// Name of that table.
    pub org_table: Arc<str>,
    /// Alias of the column, or MariaDB's name for the expression.
    pub name: Arc<str>,
    /// Name of the column in its table; empty for expressions.
    pub org_name: Arc<str>,
    /// Its type; length, decimals and character set on the wire follow from it.
    pub ty: SqlType,
    /// Whether NULL can occur.
    pub nullable: bool,
    /// Bits of `keel_value::types::flags` beyond those that follow from the type and nullability.
    pub flags: u16,
    /// Length on the wire where it is not the type's own.
    pub length: Option<u32>,
    /// Values of ZEROFILL, YEAR and BIT go out as plain numbers and those of ENUM and SET as plain texts, without the form of their
    /// type.
    pub is_plain: bool,
}

/// The columns of a result, made once per plan.
#[derive(Default)]
pub struct ResultColumns {
    /// In order.
    pub columns: Vec<ColumnMeta>,
    /// Room for what a protocol makes of them, one place for each of the forms that it needs.
    pub encoded: [OnceLock<Box<dyn Any + Send + Sync>>; 10],
}

impl ResultColumns {
    /// Columns not yet encoded by any protocol.
    pub fn new(columns: Vec<ColumnMeta>) -> Arc<ResultColumns> {
        Arc::new(ResultColumns { columns, encoded: Default::default() })
    }
}

/// One row on its way out.
#[derive(Clone, Copy)]
pub enum RowView<'a> {
    /// Bytes of a stored row, of which the columns named by `projection` are wanted in that order.
    Stored {
        /// How to read `bytes`.
        layout: &'a Layout,
        /// The row.
        bytes: &'a [u8],
        /// Columns of `layout`.
        projection: &'a [usize],
    },
    /// Values, one for each result column.
    Values(&'a [Value]),
}

impl RowView<'_> {
    /// Number of columns.
    pub fn len(&self) -> usize {
        match self {
            RowView::Stored { projection, .. } => projection.len(),
            RowView::Values(values) => values.len(),
        }
    }

    /// Whether it has no columns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with each value in order.
    #[inline]
    pub fn for_each(&self, mut f: impl FnMut(usize, ValueRef<'_>)) {
        match *self {
            RowView::Stored { layout, bytes, projection } => {
                let row = RowRef::new(layout, bytes);
                projection.iter().enumerate().for_each(|(i, &column)| f(i, row.get(column)));
            }
            RowView::Values(values) => values.iter().enumerate().for_each(|(i, value)| f(i, value.as_ref())),
        }
    }
}

/// Takes a result as it is made.
pub trait RowSink {
    /// Once, before the first row.
    fn columns(&mut self, columns: &Arc<ResultColumns>) -> SqlResult<()>;
    /// Each row. Must not park: a page latch may be held.
    fn row(&mut self, row: RowView<'_>) -> SqlResult<()>;
    /// Between rows, with no latch held: may flush and park.
    fn breathe(&mut self) -> SqlResult<()> {
        Ok(())
    }
    /// Asks the client for a file of its own, where it may be asked: 4166.
    fn request_file(&mut self, _name: &[u8]) -> SqlResult<()> {
        Err(errors::load_infile_capability_disabled())
    }
    /// Appends the next octets of that file to `out`; false at its end. Waits.
    fn read_file(&mut self, _out: &mut Vec<u8>) -> SqlResult<bool> {
        Ok(false)
    }
}

/// A sink that keeps all rows, for tests and internal queries.
#[derive(Default)]
pub struct Collect {
    /// The columns, once known.
    pub columns: Option<Arc<ResultColumns>>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
}

impl RowSink for Collect {
    fn columns(&mut self, columns: &Arc<ResultColumns>) -> SqlResult<()> {
        self.columns = Some(columns.clone());
        Ok(())
    }

    fn row(&mut self, row: RowView<'_>) -> SqlResult<()> {
        let mut values = Vec::with_capacity(row.len());
        row.for_each(|_, value| values.push(value.to_owned()));
        self.rows.push(values);
        Ok(())
    }
}

/// What the OK packet says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// Rows changed (or matched, under CLIENT_FOUND_ROWS); for a result, the rows sent.
    pub affected_rows: u64,
    /// The first AUTO_INCREMENT value that the statement made.
    pub last_insert_id: u64,
    /// `Records: 3  Duplicates: 0  Warnings: 0`
    pub info: Option<String>,
    /// Rows that an INSERT was given, and how many of them were there already: also where `info` does not tell.
    pub given: [u64; 2],
    /// Whether a result was sent.
    pub had_rows: bool,
}

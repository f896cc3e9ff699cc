//! INSERT, REPLACE, UPDATE, DELETE, LOAD DATA.

use crate::rows::LiteralRows;

use super::{ByteStr, ColumnName, Expr, Limit, ObjectName, OrderItem, Query, SelectItem, TableRef, With};

/// INSERT or REPLACE.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// REPLACE.
    pub replace: bool,
    /// LOW_PRIORITY, DELAYED or HIGH_PRIORITY.
    pub priority: Option<Priority>,
    /// IGNORE.
    pub ignore: bool,
    /// The table.
    pub table: ObjectName,
    /// PARTITION (...).
    pub partitions: Vec<String>,
    /// The columns, as written; all where empty. `INSERT ... SET` gives them too.
    pub columns: Vec<ColumnName>,
    /// Whether a column list was written, if only `()`.
    pub has_column_list: bool,
    /// The rows.
    pub source: InsertSource,
    /// ON DUPLICATE KEY UPDATE.
    pub on_duplicate: Vec<Assignment>,
    /// RETURNING.
    pub returning: Vec<SelectItem>,
}

/// Where inserted rows come from.
#[derive(Debug, Clone, PartialEq)]
pub enum InsertSource {
    /// VALUES (..), (..), or SET: one row. A value may be [`Expr::Default`] or [`Expr::Ignore`]; `()` is an empty row.
    Values(Vec<Vec<Expr>>),
    /// VALUES with nothing but plain literals, in a long text.
    Literals(LiteralRows),
    /// SELECT.
    Query(Box<Query>),
}

/// How a file of rows is written: what FIELDS and LINES say, as far as they do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FileFormat {
    /// FIELDS TERMINATED BY.
    pub terminated: Option<ByteStr>,
    /// FIELDS ENCLOSED BY.
    pub enclosed: Option<ByteStr>,
    /// OPTIONALLY ENCLOSED.
    pub optionally: bool,
    /// FIELDS ESCAPED BY.
    pub escaped: Option<ByteStr>,
    /// LINES STARTING BY.
    pub line_start: Option<ByteStr>,
    /// LINES TERMINATED BY.
    pub line_end: Option<ByteStr>,
}

/// LOAD DATA INFILE.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadData {
    /// LOW_PRIORITY or CONCURRENT.
    pub priority: Option<LoadPriority>,
    /// LOCAL: the client sends the file.
    pub local: bool,
    /// The file.
    pub file: ByteStr,
    /// REPLACE or IGNORE.
    pub duplicates: Option<OnDuplicateRow>,
    /// The table.
    pub table: ObjectName,
    /// PARTITION (...).
    pub partitions: Vec<String>,
    /// CHARACTER SET.
    pub charset: Option<String>,
    /// FIELDS and LINES.
    pub format: FileFormat,
    /// IGNORE n LINES.
    pub skip: u64,
    /// What the fields of a line go to; all columns where empty.
    pub targets: Vec<LoadTarget>,
    /// SET.
    pub assignments: Vec<Assignment>,
}

/// When LOAD DATA may run beside others; without effect.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadPriority {
    Low,
    Concurrent,
}

/// What LOAD DATA does with a row whose key is there already.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDuplicateRow {
    Replace,
    Ignore,
}

/// What a field of a line goes to.
#[derive(Debug, Clone, PartialEq)]
pub enum LoadTarget {
    /// A column.
    Column(ColumnName),
    /// `@name`
    UserVar(String),
}

/// Old-time priorities.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    Low,
    High,
    Delayed,
}

/// `column = value`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The column.
    pub column: ColumnName,
    /// Its new value; may be [`Expr::Default`] or [`Expr::Ignore`].
    pub value: Expr,
}

/// UPDATE.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// WITH.
    pub with: Option<With>,
    /// LOW_PRIORITY.
    pub low_priority: bool,
    /// IGNORE.
    pub ignore: bool,
    /// One table, or joins of several.
    pub tables: Vec<TableRef>,
    /// SET.
    pub assignments: Vec<Assignment>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// ORDER BY.
    pub order_by: Vec<OrderItem>,
    /// LIMIT.
    pub limit: Option<Limit>,
}

/// DELETE.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// WITH.
    pub with: Option<With>,
    /// LOW_PRIORITY.
    pub low_priority: bool,
    /// QUICK.
    pub quick: bool,
    /// IGNORE.
    pub ignore: bool,
    /// Tables whose rows go, in the multi-table form (`DELETE a, b FROM ...`, `DELETE FROM a USING ...`); empty in the simple one.
    pub targets: Vec<ObjectName>,
    /// The one table, or what is joined.
    pub from: Vec<TableRef>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// ORDER BY.
    pub order_by: Vec<OrderItem>,
    /// LIMIT.
    pub limit: Option<Limit>,
    /// RETURNING.
    pub returning: Vec<SelectItem>,
}

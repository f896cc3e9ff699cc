//! JSON_TABLE: the parts of a document as rows of a table.
//!
//! A path leads to rows, paths of columns lead from there to their values, and NESTED PATH to more rows below: those of
//! several nested paths come one after the other, with the columns of the others NULL, and a row without any of them comes
//! once. The document may be an expression over the tables that stand before; it is read anew for each of their rows.
//!
//! 1. Faults of a document are errors, once the rows before them were given.
//! 2. Values are stored as into a table's column, but what is lost there is a warning at most.
//! 3. Columns that nobody reads are not looked for, unless they ask for errors.

mod bind;
mod run;
mod value;

use std::sync::Arc;

use keel_value::SqlType;
use keel_value::row::Layout;

use crate::expr::Expr;

pub(crate) use bind::bind;
pub(crate) use run::JsonRun;

/// The function's name in messages.
const NAME: &str = "JSON_TABLE";
/// The database that its columns have.
pub(crate) const DATABASE: &str = "*any*";
/// The table that its columns have.
pub const TABLE: &str = "json_table";

/// A JSON_TABLE, bound.
pub struct JsonTable {
    /// The document.
    pub document: Expr,
    /// What leads to rows: the first is the table's own, others stand below another one.
    nests: Vec<Nest>,
    /// Its columns in the order in which they are written.
    pub(crate) columns: Vec<Column>,
    /// How rows are kept.
    pub layout: Arc<Layout>,
    alias: Arc<str>,
}

/// A path to rows.
struct Nest {
    path: Box<[u8]>,
    /// The nested paths right below.
    children: Vec<usize>,
}

/// A column.
pub(crate) struct Column {
    /// Its name.
    pub name: Arc<str>,
    /// Its type.
    pub ty: SqlType,
    /// The path to rows that it belongs to.
    nest: usize,
    kind: Kind,
}

/// What a column holds.
enum Kind {
    /// Rows of its path so far.
    Ordinality,
    /// Whether something is there.
    Exists(Box<[u8]>),
    /// What the path leads to.
    Value { path: Box<[u8]>, as_json: bool, on_empty: Response, on_error: Response },
}

/// What a column holds where it has no value.
enum Response {
    Null,
    Error,
    Default(Box<[u8]>),
}

impl Column {
    /// Whether it may end the statement, so that it is looked for even if nobody reads it.
    fn may_fail(&self) -> bool {
        matches!(
            self.kind,
            Kind::Value { on_empty: Response::Error, .. } | Kind::Value { on_error: Response::Error, .. }
        )
    }
}

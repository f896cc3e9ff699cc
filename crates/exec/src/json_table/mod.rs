//! JSON_TABLE: the parts of a document as rows of a table.
//!
//! A path leads to rows, paths of columns lead from there to their values, and NESTED PATH to more rows below: those of
//! several nested paths come one after the other, with the columns of the others NULL, and a row without any of them comes
//! once. The document may be an expression over the tables that stand before; it is read again for each of their rows.
//!
//! 1. Faults of a document are errors, once the rows before them were given.
//! 2. Values are stored as into a table's column, but what is lost there is a warning at most.
//! 3. Columns that nobody reads are not looked for, unless they ask for errors.

mod run;
mod value;

use std::sync::Arc;

use keel_value::row::Layout;
use keel_value::{CollationId, SqlType};

use crate::expr::Expr;
use crate::expr::typing::to_charset;

pub(crate) use run::JsonRun;

/// The function's name in messages.
pub const NAME: &str = "JSON_TABLE";
/// The database that its columns have.
pub const DATABASE: &str = "*any*";
/// The table that its columns have.
pub const TABLE: &str = "json_table";

/// A JSON_TABLE, bound.
pub struct JsonTable {
    /// The document.
    pub document: Expr,
    /// What leads to rows: the first is the table's own, others stand below another one.
    pub nests: Vec<Nest>,
    /// Its columns in the order in which they are written.
    pub columns: Vec<Column>,
    /// How rows are kept.
    pub layout: Arc<Layout>,
    /// Its name in the query.
    pub alias: Arc<str>,
}

/// A path to rows.
pub struct Nest {
    /// The path.
    pub path: Box<[u8]>,
    /// The nested paths right below.
    pub children: Vec<usize>,
}

/// A column.
pub struct Column {
    /// Its name.
    pub name: Arc<str>,
    /// Its type.
    pub ty: SqlType,
    /// The path to rows that it belongs to.
    pub nest: usize,
    /// What it holds.
    pub kind: Kind,
}

/// What a column holds.
pub enum Kind {
    /// Rows of its path so far.
    Ordinality,
    /// Whether something is there.
    Exists(Box<[u8]>),
    /// What the path leads to.
    Value {
        /// The path.
        path: Box<[u8]>,
        /// The column is JSON: objects and arrays are values.
        as_json: bool,
        /// Where nothing is there.
        on_empty: Response,
        /// Where it is no value of the column.
        on_error: Response,
    },
}

/// What a column holds where it has no value.
pub enum Response {
    /// NULL.
    Null,
    /// An error.
    Error,
    /// A value.
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

impl JsonTable {
    /// Gives it its document.
    pub fn set_document(&mut self, document: Expr) {
        self.document = to_charset(document, CollationId::UTF8MB4_BIN);
    }
}

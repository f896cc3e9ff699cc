//! What the executor asks of the server around it.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_value::{CollationId, Value};

use crate::catalog::TableDef;
use crate::expr::Server;
use crate::session::Session;

/// The server, as seen by statements. Implemented once by the crate `server`, and by a small stand-in in tests.
pub trait Host: Server {
    /// A table of `information_schema` or `performance_schema`; names compare without case.
    fn virtual_table(&self, schema: &str, name: &str) -> Option<Arc<TableDef>>;

    /// The rows of such a table at this moment, in the order of its columns. Those whose columns have other values than
    /// `wanted` may be left out. Columns that are not marked in `read` are not read and may have any value.
    fn virtual_rows(
        &self,
        session: &Session,
        table: &TableDef,
        wanted: &[(usize, Value)],
        read: Option<&[bool]>,
    ) -> SqlResult<Vec<Vec<Value>>>;

    /// The engine that such a table is said to have; `VIEW` of one that is a view.
    fn virtual_engine(&self, _table: &TableDef) -> &'static str {
        "MEMORY"
    }

    /// The names of a virtual schema's tables; empty for other schemas.
    fn virtual_names(&self, schema: &str) -> Vec<String>;

    /// Virtual schemas, in lower case.
    fn virtual_schemas(&self) -> &'static [&'static str] {
        &["information_schema", "performance_schema", "sys"]
    }

    /// The collation of databases made on the first start.
    fn server_collation(&self) -> CollationId {
        CollationId::UTF8MB4_GENERAL_CI
    }
}

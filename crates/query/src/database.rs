//! The face to the server: one statement at a time, from plan to completion.

use std::sync::Arc;

use arc_swap::ArcSwap;
use keel_base::{SqlError, SqlResult, errors};
use keel_sql::ast::Statement;
use keel_storage::Engine;
use keel_value::Value;

use crate::catalog::{Catalog, TableDef};
use crate::host::Host;
use crate::plan::Plan;
use crate::result::{Completion, RowSink};
use crate::session::Session;

/// All databases of a server.
pub struct Database {
    engine: Arc<Engine>,
    host: Arc<dyn Host>,
    catalog: ArcSwap<Catalog>,
}

/// The parameters of one execution.
#[derive(Debug, Default, Clone)]
pub struct Params {
    /// In order.
    pub values: Vec<Value>,
}

impl Database {
    /// Opens the catalog in `engine`, making it on the first start. Waits.
    pub fn open(engine: Arc<Engine>, host: Arc<dyn Host>) -> SqlResult<Arc<Database>> {
        Ok(Arc::new(Database { engine, host, catalog: ArcSwap::default() }))
    }

    /// The engine below.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The server around.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// The catalog as it is now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// The plan of a statement that was seen before under the same database and modes. `params` receives its literals.
    pub fn cached(&self, _session: &mut Session, _sql: &[u8], params: &mut Params) -> Option<Arc<Plan>> {
        params.values.clear();
        None
    }

    /// Binds and optimises a parsed statement that is to be prepared: `?` are its parameters, literals are constants.
    pub fn prepare(
        &self,
        _session: &mut Session,
        _statement: Arc<Statement>,
        _params: u32,
    ) -> SqlResult<Arc<Plan>> {
        Err(errors::not_supported_yet("statements"))
    }

    /// Binds and optimises a statement that is to run once or again as text: literals become parameters where they can,
    /// and the plan goes to the cache. `params` receives this execution's values.
    pub fn plan_text(
        &self,
        _session: &mut Session,
        _sql: &[u8],
        _parsed: keel_sql::Parsed,
        params: &mut Params,
    ) -> SqlResult<Arc<Plan>> {
        params.values.clear();
        Err(errors::not_supported_yet("statements"))
    }

    /// Runs a plan. Rows go to `sink`; warnings to the session. On error the statement left nothing behind.
    pub fn execute(
        &self,
        _session: &mut Session,
        _plan: &Arc<Plan>,
        _params: &[Value],
        _sink: &mut dyn RowSink,
    ) -> SqlResult<Completion> {
        Err(errors::not_supported_yet("statements"))
    }

    /// SHOW CREATE TABLE's text.
    pub fn show_create_table(&self, table: &TableDef) -> String {
        table.name.to_string()
    }
}

/// What a client sees of an engine's error.
#[cold]
pub(crate) fn engine_error(error: keel_storage::Error) -> SqlError {
    use keel_storage::Error;
    match error {
        Error::Deadlock => errors::lock_deadlock(),
        Error::LockWaitTimeout | Error::LockNotAvailable => errors::lock_wait_timeout(),
        Error::Interrupted => errors::query_interrupted(),
        Error::ReadOnly => errors::cant_execute_in_read_only_transaction(),
        Error::TooLarge => errors::too_big_rowsize(8126),
        Error::NotFound => errors::checkread("?"),
        Error::Store(_) | Error::Ended => errors::get_errno(168, error, "InnoDB"),
    }
}

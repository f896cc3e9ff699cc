//! A server with nothing around it, for tests of single operators.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_context::Place;
use keel_sql::ast::VarScope;
use keel_value::Value;

use crate::catalog::TableDef;
use crate::expr::{Executor, Server};
use crate::host::Host;
use crate::memory::WorkMemory;
use crate::session::Session;
use crate::user_locks::UserLocks;

/// A server that has this much memory to share.
pub(crate) struct Alone(WorkMemory);

/// A server whose operators have what each has at the start.
pub(crate) fn host() -> Arc<dyn Host> {
    Arc::new(Alone(WorkMemory::new(0)))
}

impl Place for Alone {
    fn work_memory(&self) -> &WorkMemory {
        &self.0
    }
}

impl Server for Alone {
    fn system_variable(&self, _: &dyn Executor, _: VarScope, name: &str) -> SqlResult<Value> {
        Err(errors::unknown_system_variable(name))
    }

    fn user_locks(&self) -> Arc<UserLocks> {
        Arc::default()
    }

    fn version(&self) -> String {
        String::new()
    }
}

impl Host for Alone {
    fn virtual_table(&self, _: &str, _: &str) -> Option<Arc<TableDef>> {
        None
    }

    fn virtual_rows(
        &self,
        _: &Session,
        _: &TableDef,
        _: &[(usize, Value)],
        _: Option<&[bool]>,
    ) -> SqlResult<Vec<Vec<Value>>> {
        Ok(Vec::new())
    }

    fn virtual_names(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

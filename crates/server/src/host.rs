//! The server as the executor sees it: `@@x`, the tables of `information_schema`, the version.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use keel_base::{SqlResult, errors};
use keel_catalog::TableDef;
use keel_context::user_locks::UserLocks;
use keel_exec::{Executor, FileRules, Host, Place, Server, Session, WorkMemory};
use keel_settings::variables::{Scope, key_caches, table};
use keel_sql::ast::VarScope;
use keel_value::{CollationId, Value};
use keel_views::schema::{self, View};
use keel_views::session_variables;

use crate::show;
use crate::state::{ServerState, VERSION};

/// The server behind the executor's back. Made before the state, since the databases are opened in between.
#[derive(Default)]
pub struct ServerHost {
    memory: WorkMemory,
    state: OnceLock<Weak<ServerState>>,
    user_locks: Arc<UserLocks>,
}

impl ServerHost {
    /// Ties the host to its server, once.
    pub fn tie(&self, state: &Arc<ServerState>) {
        assert!(self.state.set(Arc::downgrade(state)).is_ok(), "a host has one server");
    }

    fn state(&self) -> SqlResult<Arc<ServerState>> {
        self.state.get().and_then(Weak::upgrade).ok_or_else(errors::server_shutdown)
    }
}

impl Place for ServerHost {
    fn work_memory(&self) -> &WorkMemory {
        &self.memory
    }

    fn temporary_directory(&self) -> PathBuf {
        let named = self.state().map(|state| state.globals.named("tmpdir").show()).unwrap_or_default();
        // MariaDB takes turns among several folders; one is enough.
        let first = named.split(':').next().filter(|folder| !folder.is_empty());
        PathBuf::from(first.unwrap_or("/tmp"))
    }
}

impl Server for ServerHost {
    fn system_variable(&self, executor: &dyn Executor, scope: VarScope, name: &str) -> SqlResult<Value> {
        let state = self.state()?;
        let (instance, name) = match name.rsplit_once('.') {
            Some((instance, name)) => (Some(instance), name),
            None => (None, name),
        };
        let id = table().find(name).ok_or_else(|| errors::unknown_system_variable(name))?;
        let variable = table().get(id);
        if let Some(instance) = instance {
            key_caches::require(variable)?;
            if !key_caches::is_default(instance) {
                return Ok(state.key_caches.read(instance, name).value());
            }
        }
        match (variable.scope, scope) {
            (Scope::SessionOnly, VarScope::Global) => {
                return Err(errors::incorrect_global_local_var(variable.name, "SESSION"));
            }
            (Scope::Global, VarScope::Session) => {
                return Err(errors::incorrect_global_local_var(variable.name, "GLOBAL"));
            }
            (Scope::Global, _) | (_, VarScope::Global) => return Ok(state.globals.get(id).value()),
            _ => {}
        }
        let Some(client) = state.registry.get(executor.env().id) else {
            return Ok(state.globals.get(id).value());
        };
        let settings = client.settings.lock();
        Ok(session_variables::read(client.id, executor, &settings, id).value())
    }

    fn user_locks(&self) -> Arc<UserLocks> {
        self.user_locks.clone()
    }

    fn file_rules(&self) -> FileRules {
        let Ok(state) = self.state() else { return FileRules::default() };
        let only = state.globals.named("secure_file_priv").show();
        FileRules {
            data_folder: PathBuf::from(state.globals.named("datadir").show()),
            only: Some(PathBuf::from(only)).filter(|folder| !folder.as_os_str().is_empty()),
            local_infile: state.globals.named("local_infile").is_on(),
        }
    }

    fn version(&self) -> String {
        VERSION.to_string()
    }
}

impl Host for ServerHost {
    fn virtual_table(&self, schema: &str, name: &str) -> Option<Arc<TableDef>> {
        if name.starts_with(show::STAGE_PREFIX) {
            return self.state().ok()?.stage.lock().get(name).map(|(table, _)| table.clone());
        }
        schema::find(schema, name)
    }

    fn virtual_rows(
        &self,
        session: &Session,
        table: &TableDef,
        wanted: &[(usize, Value)],
        read: Option<&[bool]>,
    ) -> SqlResult<Vec<Vec<Value>>> {
        let state = self.state()?;
        if let Some(owner) = table.name.strip_prefix(show::STAGE_PREFIX) {
            // What a session shows is its own.
            if owner.parse() != Ok(session.id) {
                return Ok(Vec::new());
            }
            let stage = state.stage.lock();
            return Ok(stage.get(&*table.name).map(|(_, rows)| rows.clone()).unwrap_or_default());
        }
        schema::rows(
            &View { served: &state, session },
            table,
            schema::Wanted { read, ..schema::Wanted::of(table, wanted) },
        )
    }

    fn virtual_engine(&self, table: &TableDef) -> &'static str {
        match schema::system::of(table) {
            Some(known) if known.is_view => "VIEW",
            Some(known) => known.engine(),
            None => "MEMORY",
        }
    }

    fn virtual_names(&self, schema: &str) -> Vec<String> {
        schema::names(schema)
    }

    fn server_collation(&self) -> CollationId {
        let name = self.state().map(|state| state.globals.named("collation_server").show());
        let found = name.ok().and_then(|name| keel_value::collation::by_name(&name));
        found.unwrap_or(CollationId::UTF8MB4_GENERAL_CI)
    }
}

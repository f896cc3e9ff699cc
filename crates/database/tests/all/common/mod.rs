//! A database in a simulated world, and clients that speak SQL to it.

use std::sync::Arc;

use keel_catalog::TableDef;
use keel_database::{Database, Params};
use keel_definitions::FirstAccounts;
use keel_exec::Collect;
use keel_exec::Completion;
use keel_exec::Executor;
use keel_exec::Host;
use keel_exec::RowSink;
use keel_exec::Server;
use keel_exec::Session;
use keel_exec::SqlError;
use keel_exec::SqlResult;
use keel_exec::WorkMemory;
use keel_runtime::sim::{self, Disk, Options, Outcome};
use keel_sql::ast::VarScope;
use keel_sql::{ParseOptions, parse};
use keel_storage::{Engine, EngineConfig};
use keel_value::{CollationId, Value, text};

/// A server without variables and virtual tables.
#[derive(Default)]
pub struct NoServer(WorkMemory, Arc<keel_context::user_locks::UserLocks>);

impl NoServer {
    /// One whose statements have no more memory for rows than what each operator has at the start.
    pub fn without_memory() -> NoServer {
        NoServer(WorkMemory::new(0), Arc::default())
    }
}

impl keel_exec::Place for NoServer {
    fn work_memory(&self) -> &WorkMemory {
        &self.0
    }
}

impl Server for NoServer {
    fn system_variable(&self, _: &dyn Executor, _scope: VarScope, name: &str) -> SqlResult<Value> {
        Err(keel_base::errors::unknown_system_variable(name))
    }

    fn user_locks(&self) -> Arc<keel_context::user_locks::UserLocks> {
        self.1.clone()
    }

    fn version(&self) -> String {
        "10.11.14-MariaDB".into()
    }
}

impl Host for NoServer {
    fn virtual_table(&self, _schema: &str, _name: &str) -> Option<Arc<TableDef>> {
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

    fn virtual_names(&self, _schema: &str) -> Vec<String> {
        Vec::new()
    }

    fn server_collation(&self) -> CollationId {
        CollationId::UTF8MB4_GENERAL_CI
    }
}

/// How an engine in a small world is set up.
pub fn config() -> EngineConfig {
    let mut config = EngineConfig::new("/data");
    config.store.pool_bytes = 8 << 20;
    config.store.segment_bytes = 1 << 20;
    config.store.redo_capacity_bytes = 8 << 20;
    // Fewer than there are trees, so that files are closed and opened again all the time.
    config.store.tree_files_max = 2;
    config
}

/// Runs `f` with a database in a world of its own.
pub fn world<T: Send>(f: impl FnOnce(&Arc<Database>) -> T + Send) -> T {
    seeded_world(1, f)
}

/// Runs `f` with a database in a world whose order of events is the seed's.
pub fn seeded_world<T: Send>(seed: u64, f: impl FnOnce(&Arc<Database>) -> T + Send) -> T {
    sim::run(Options::new(seed), || with_database(f)).done()
}

/// Runs `f` with a database on a disk, then stops it cleanly unless `f` crashes.
pub fn live<T: Send>(disk: &Disk, seed: u64, f: impl FnOnce(&Arc<Database>) -> T + Send) -> Outcome<T> {
    sim::run(Options::new(seed).with_disk(disk), || with_database(f))
}

fn with_database<T>(f: impl FnOnce(&Arc<Database>) -> T) -> T {
    let engine = Engine::open(config()).expect("open");
    let database = Database::open(engine.clone(), Arc::new(NoServer::default())).expect("catalog");
    if database.definer().lacks_accounts() {
        database.definer().make_accounts(&FirstAccounts::Insecure).expect("accounts");
    }
    let result = f(&database);
    drop(database);
    engine.shutdown().expect("shutdown");
    result
}

/// A small generator (xorshift). Its seed is not 0; tests print it where they fail.
pub struct Random(pub u64);

impl Random {
    /// A number under `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    /// One of the choices.
    pub fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// A connection.
pub struct Client {
    pub database: Arc<Database>,
    pub session: Session,
    params: Params,
}

impl Client {
    /// A new connection with `test` as its database.
    pub fn new(database: &Arc<Database>) -> Client {
        let mut session = Session::new(1, "root", "localhost", database.host().clone());
        session.database = Some("test".into());
        Client { database: database.clone(), session, params: Params::default() }
    }

    /// Runs a text statement as a server does: by the plan cache, or parsed.
    pub fn try_run(&mut self, sql: &str) -> Result<String, SqlError> {
        let mut rows = Collect::default();
        let completion = self.run_into(sql, &mut rows)?;
        if completion.had_rows {
            return Ok(print(&rows));
        }
        let mut out = completion.affected_rows.to_string();
        if completion.last_insert_id != 0 {
            out += &format!(" id={}", completion.last_insert_id);
        }
        if let Some(info) = completion.info {
            out += &format!(" ({info})");
        }
        Ok(out)
    }

    /// The same, with a sink of one's own.
    pub fn run_into(&mut self, sql: &str, sink: &mut dyn RowSink) -> Result<Completion, SqlError> {
        let database = self.database.clone();
        let text = sql.as_bytes();
        let plan = match database.cached(&mut self.session, text, &mut self.params) {
            Some(plan) => plan,
            None => {
                let parsed = parse(text, &ParseOptions::default())?;
                database.plan_text(&mut self.session, text, parsed, &mut self.params)?
            }
        };
        let params = std::mem::take(&mut self.params.values);
        let completion = database.execute(&mut self.session, &plan, &params, sink)?;
        self.params.values = params;
        Ok(completion)
    }

    /// The same, errors as text.
    pub fn run(&mut self, sql: &str) -> String {
        self.try_run(sql).unwrap_or_else(|error| error.to_string())
    }

    /// The warnings of the last statement.
    pub fn warnings(&self) -> String {
        let lines = self.session.diagnostics.warnings.iter();
        let lines = lines.map(|w| format!("{} {} {}", w.level.name(), w.code, w.message));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Runs each statement and compares its answer with what stands behind ` -> `; `ok` accepts any success.
    #[track_caller]
    pub fn script(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let (sql, expected) = match line.split_once(" -> ") {
                Some(parts) => parts,
                None => line.strip_suffix(" ->").map_or((line, "ok"), |sql| (sql, "")),
            };
            self.session.diagnostics.clear();
            let answer = self.try_run(sql);
            match (&answer, expected) {
                (Ok(_), "ok") => {}
                (Ok(text), _) => assert_eq!(text, expected, "{sql}"),
                (Err(error), _) => assert_eq!(error.to_string(), expected, "{sql}"),
            }
            let warnings = self.warnings();
            if answer.is_ok() && !warnings.is_empty() && !expected.contains("Warnings: ") {
                assert!(expected != "ok" || line.contains("/*w*/"), "{sql}\nwarns: {warnings}");
            }
        }
    }
}

/// Rows as text: columns by `|`, rows by `; `.
pub fn print(rows: &Collect) -> String {
    let columns = rows.columns.as_ref().expect("a result has columns");
    let row = |values: &Vec<Value>| {
        let cells = values.iter().zip(&columns.columns).map(|(value, column)| {
            if value.is_null() {
                return "NULL".to_string();
            }
            let mut out = Vec::new();
            text::append(&mut out, &column.ty, value.as_ref());
            String::from_utf8_lossy(&out).into_owned()
        });
        cells.collect::<Vec<_>>().join("|")
    };
    rows.rows.iter().map(row).collect::<Vec<_>>().join("; ")
}

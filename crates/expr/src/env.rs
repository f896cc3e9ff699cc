//! What expressions see of the session and the server around them.
//!
//! An [`Env`] holds what the value of an expression can depend on: variables, the default database, the clock, the
//! account, user variables, and where warnings go. The code that runs a statement is an [`Executor`]: it lends its `Env`
//! to expressions, and itself to the routines among them, which know what it is. An `Env` without anything around it is
//! an executor too, for constants.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use keel_base::{Level, SqlError, SqlResult, Warning, errors};
use keel_catalog::account::Access;
use keel_context::Place;
use keel_context::diagnostics::Diagnostics;
use keel_context::interrupt::{Interrupt, InterruptState, interrupted};
use keel_context::user_locks::{HeldLocks, UserLocks};
use keel_context::user_variables::UserVariables;
use keel_context::vars::SessionVars;
use keel_context::waits::Stake;
use keel_sql::ast::{ObjectName, VarScope};
use keel_storage::runtime::fiber;
use keel_value::convert::StoreContext;
use keel_value::{CollationId, Date, DateTime, Value};

/// Which files statements may use.
#[derive(Debug, Clone, Default)]
pub struct FileRules {
    /// The data folder.
    pub data_folder: PathBuf,
    /// `secure_file_priv`: the only folder whose files are used.
    pub only: Option<PathBuf>,
    /// `local_infile`: clients may be asked for their files.
    pub local_infile: bool,
}

/// The server, as expressions see it.
pub trait Server: Place {
    /// The value of `@@name`, or 1193.
    fn system_variable(&self, executor: &dyn Executor, scope: VarScope, name: &str) -> SqlResult<Value>;

    /// Which files of the server and of clients statements may use.
    fn file_rules(&self) -> FileRules {
        FileRules::default()
    }

    /// The names that GET_LOCK() locks on this server, and who waits for whom: the same at each call.
    fn user_locks(&self) -> Arc<UserLocks>;

    /// `VERSION()`.
    fn version(&self) -> String;
}

/// The code that runs a statement and evaluates expressions for it.
pub trait Executor {
    /// What expressions see.
    fn env(&self) -> &Env;

    /// The same, to change it.
    fn env_mut(&mut self) -> &mut Env;

    /// The executor itself, for routines.
    fn as_any(&self) -> &dyn Any;

    /// The same, to change it.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// Whether a transaction is open.
    fn in_transaction(&self) -> bool {
        false
    }

    /// What others wait for while GET_LOCK() waits.
    fn stake(&self) -> Stake {
        Stake { owner: None, kept: Vec::new(), firm: false }
    }

    /// Waits for room for a value of `bytes` bytes, if that is long. Called before memory is allocated for the value.
    fn hold_long(&self, _bytes: u64) -> SqlResult<()> {
        Ok(())
    }
}

/// What the value of an expression can depend on, beside rows and parameters.
pub struct Env {
    /// Connection id.
    pub id: u64,
    /// Account name.
    pub user: Arc<str>,
    /// Where the client comes from.
    pub client_host: Arc<str>,
    /// What the account may do.
    pub access: Access,
    /// The default database.
    pub database: Option<Arc<str>>,
    /// Variables.
    pub vars: SessionVars,
    /// Locks taken by GET_LOCK().
    pub user_locks: HeldLocks,
    /// Warnings of the last statement.
    pub diagnostics: Diagnostics,
    /// `ROW_COUNT()`.
    pub row_count: i64,
    /// `FOUND_ROWS()`.
    pub found_rows: u64,
    /// `LAST_INSERT_ID()`.
    pub last_insert_id: u64,
    /// The first AUTO_INCREMENT value of the running statement; 0 is none.
    pub statement_insert_id: u64,
    /// `@name`, names in lower case.
    pub user_variables: UserVariables,
    /// State of RAND().
    pub rand: (u32, u32),
    /// KILL QUERY and KILL CONNECTION.
    pub interrupt: Arc<Interrupt>,
    /// The server around.
    pub server: Arc<dyn Server>,
    /// Row of the running INSERT or UPDATE, from 1, for warnings.
    pub current_row: u64,
    /// The running statement turns warnings into errors: it changes rows in strict mode, without IGNORE.
    pub abort_on_warning: bool,
    /// The running statement says IGNORE: a scalar subquery of several rows is NULL, with a warning.
    pub ignores: bool,
    /// The collation of literals of the running prepared statement.
    pub literal_collation: Option<CollationId>,
    /// EXECUTE runs the statement: a negative number of rows is an error.
    pub by_execute: bool,
    /// When the running statement began, in microseconds since 1970; read from the clock at the first use.
    statement_clock: Option<i64>,
}

impl Env {
    /// The state of a new connection.
    pub fn new(id: u64, user: &str, client_host: &str, server: Arc<dyn Server>) -> Env {
        Env {
            id,
            user: user.into(),
            client_host: client_host.into(),
            access: Access::unlimited(user, client_host),
            database: None,
            vars: SessionVars::default(),
            user_locks: HeldLocks::new(server.user_locks()),
            diagnostics: Diagnostics::default(),
            row_count: 0,
            found_rows: 0,
            last_insert_id: 0,
            statement_insert_id: 0,
            user_variables: UserVariables::new(server.clone()),
            rand: (id as u32, (id >> 8) as u32 ^ 0x5555),
            interrupt: Arc::default(),
            server,
            current_row: 1,
            abort_on_warning: false,
            ignores: false,
            literal_collation: None,
            by_execute: false,
            statement_clock: None,
        }
    }

    /// A copy of the variables and the default database alone: what is evaluated in it has no effect on the session.
    pub fn aside(&self) -> Env {
        let mut aside = Env::new(self.id, &self.user, &self.client_host, self.server.clone());
        aside.vars = self.vars.clone();
        aside.database = self.database.clone();
        aside
    }

    /// Begins a statement: the clock stands still from its first use to the end of the statement.
    pub fn start_statement(&mut self) {
        self.statement_clock = None;
        self.statement_insert_id = 0;
        self.abort_on_warning = false;
        self.ignores = false;
    }

    /// User and host of the account.
    pub fn account(&self) -> (String, String) {
        (self.access.user.to_string(), self.access.host.to_string())
    }

    /// The collation of literals without an introducer: that of the connection when the statement was prepared.
    pub fn literal_collation(&self) -> CollationId {
        self.literal_collation.unwrap_or(self.vars.connection_collation)
    }

    /// The statement's time in microseconds since 1970: `NOW()` is the same all through a statement.
    pub fn now_micros(&mut self) -> i64 {
        match (self.vars.timestamp, self.statement_clock) {
            (Some(fixed), _) => fixed,
            (None, Some(now)) => now,
            (None, None) => {
                let now = keel_storage::runtime::time::unix_micros();
                self.statement_clock = Some(now);
                now
            }
        }
    }

    /// The statement's time in the session's zone.
    pub fn now_local(&mut self) -> DateTime {
        self.now_timestamp().shown()
    }

    /// The statement's time as a TIMESTAMP, which is an instant.
    pub fn now_timestamp(&mut self) -> DateTime {
        let utc = self.now_utc();
        keel_value::convert::timestamp_to_local(utc, &*self.vars.time_zone)
    }

    /// The day that a time is counted from where it becomes a date: today, or the zero day under ZERO_DATE_TIME_CAST.
    pub fn base_day(&mut self) -> Date {
        if self.vars.zero_date_time_cast { Date::ZERO } else { self.now_local().date }
    }

    /// What the clock shows while the statement runs, in the session's zone.
    pub fn clock_local(&mut self) -> DateTime {
        // What NOW() says must not come later.
        self.now_micros();
        let utc = from_micros(keel_storage::runtime::time::unix_micros());
        keel_value::convert::timestamp_to_local(utc, &*self.vars.time_zone).shown()
    }

    /// The statement's time in UTC.
    pub fn now_utc(&mut self) -> DateTime {
        from_micros(self.now_micros())
    }

    /// Adds a warning; in a strict statement that writes it is an error.
    pub fn warn_or_fail(&mut self, error: SqlError) -> SqlResult<()> {
        if self.abort_on_warning {
            return Err(error);
        }
        self.warn(error);
        Ok(())
    }

    /// Adds a warning.
    pub fn warn(&mut self, error: SqlError) {
        self.push_warning(Warning::from(error));
    }

    /// Adds a note.
    pub fn note(&mut self, error: SqlError) {
        if self.vars.takes_notes() {
            self.push_warning(Warning { level: Level::Note, ..Warning::from(error) });
        }
    }

    /// Adds an error to the diagnostics, once.
    pub fn push_error(&mut self, error: &SqlError) {
        if let Some(cause) = &error.cause {
            self.push_error(cause);
        }
        let same =
            |w: &Warning| w.level == Level::Error && w.code == error.code && w.message == error.message;
        if self.diagnostics.stale || !self.diagnostics.warnings.iter().any(same) {
            let warning = Warning { level: Level::Error, code: error.code, message: error.message.clone() };
            self.push_warning(warning);
        }
    }

    /// Adds an entry of any level.
    pub fn push_warning(&mut self, warning: Warning) {
        self.diagnostics.push(warning, self.vars.max_error_count);
    }

    /// Whether bad values are errors for a statement without IGNORE.
    pub fn is_strict(&self) -> bool {
        self.vars.sql_mode.is_strict()
    }

    /// What conversions into columns depend on.
    pub fn store_context(&self, strict: bool, today: Date) -> StoreContext<'_> {
        StoreContext { mode: self.vars.sql_mode, strict, zone: &*self.vars.time_zone, today }
    }

    /// 1317 or 1927 where somebody killed the query or the connection.
    #[inline]
    pub fn check_interrupt(&self) -> SqlResult<()> {
        match self.interrupt.state() {
            InterruptState::None => Ok(()),
            state => Err(interrupted(state)),
        }
    }

    /// The same in work that goes on for long without reading rows: others run meanwhile. No latch may be held.
    #[inline]
    pub fn let_others_run(&self) -> SqlResult<()> {
        fiber::tick();
        self.check_interrupt()
    }

    /// The default database, or 1046.
    pub fn require_database(&self) -> SqlResult<&Arc<str>> {
        self.database.as_ref().ok_or_else(errors::no_db)
    }
}

impl Executor for Env {
    fn env(&self) -> &Env {
        self
    }

    fn env_mut(&mut self) -> &mut Env {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A time in UTC from microseconds since 1970.
fn from_micros(micros: i64) -> DateTime {
    DateTime::from_unix(micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) as u32)
}

/// The database that a name means; 1046 where neither the name nor the session says one.
pub fn schema_of<'a>(env: &'a Env, name: &'a ObjectName) -> SqlResult<&'a str> {
    match &name.db {
        Some(db) => Ok(db),
        None => Ok(env.require_database()?),
    }
}

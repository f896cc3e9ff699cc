//! Statements that the server executes itself: SET, USE, SHOW, KILL, FLUSH, PREPARE, accounts, LOCK TABLES.
//!
//! The executor does not know them. Their result is an [`Outcome`], which the session encodes as packets.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::account::Privileges;
use keel_database::Plan;
use keel_exec::ResultColumns;
use keel_expr::rights as see;
use keel_logs::Which;
use keel_runtime::heap;
use keel_settings::variables::{SessionSettings, accept};
use keel_sql::ast::{ExplainTarget, Expr, FlushKind, InsertSource, SetItem, ShowKind, Statement, Xa};
use keel_sql::{AsSent, ParseOptions};
use keel_value::collation::{self, Charset, CollationId};
use keel_value::{SqlMode, Value};
use keel_views::counters::Counter;
use keel_views::show::{self as shown, Rows};
use keel_wire::bulk::Mark;
use keel_wire::capability::Capabilities;

use crate::core::{Core, Evaluated};
use crate::marks::with_marks;
use crate::prepared::{Prepared, Source};
use crate::show::explain::Asked;
use crate::{kill, privileges, set, show};

/// What a statement of the server comes to.
pub enum Outcome {
    /// Done; nothing to show but what the OK packet says.
    Ok(&'static str),
    /// Done to so many things.
    Affected(u64),
    /// A result.
    Rows(Rows),
    /// EXECUTE: another statement runs in its place.
    Run {
        /// The statement.
        source: Source,
        /// The values of its parameters.
        params: Vec<Value>,
    },
    /// SET STATEMENT: another statement runs with variables set.
    RunWith {
        /// The variables.
        items: Vec<SetItem>,
        /// The statement.
        statement: Arc<Statement>,
    },
}

/// How the session wants text to be read.
pub fn parse_options(core: &Core, prepare: bool) -> ParseOptions {
    let mode = core.sql.vars.sql_mode;
    ParseOptions {
        ansi_quotes: mode.has(SqlMode::ANSI_QUOTES),
        pipes_as_concat: mode.has(SqlMode::PIPES_AS_CONCAT),
        no_backslash_escapes: mode.has(SqlMode::NO_BACKSLASH_ESCAPES),
        ignore_space: mode.has(SqlMode::IGNORE_SPACE),
        high_not_precedence: mode.has(SqlMode::HIGH_NOT_PRECEDENCE),
        empty_string_is_null: mode.has(SqlMode::EMPTY_STRING_IS_NULL),
        real_as_float: mode.has(SqlMode::REAL_AS_FLOAT),
        types: keel_database::type_family(mode),
        multi_statements: !prepare && core.capabilities.has(Capabilities::MULTI_STATEMENTS),
        prepare,
        client_charset: core.sql.vars.client_collation.charset().name(),
        as_sent: as_sent(core.sql.vars.client_collation),
        temporal: Some(keel_planner::bind::temporal_check(mode)),
        ..ParseOptions::default()
    }
}

/// How a client of that collation sent what is UTF-8 here.
fn as_sent(client: CollationId) -> Option<AsSent> {
    let convert = |text: &[u8], client| {
        collation::convert(Charset::Utf8mb4, CollationId(client).charset(), text).0.into_owned()
    };
    (!client.charset().is_utf8()).then_some(AsSent { collation: client.0, convert })
}

/// Whether the server answers it, not the executor.
pub fn is_servers(statement: &Statement) -> bool {
    match statement {
        Statement::Set(_)
        | Statement::SetStatement { .. }
        | Statement::Show(_)
        | Statement::Describe { .. }
        | Statement::Use(_)
        | Statement::Kill(_)
        | Statement::LockTables { .. }
        | Statement::UnlockTables
        | Statement::Flush(_)
        | Statement::Prepare { .. }
        | Statement::Execute { .. }
        | Statement::ExecuteImmediate { .. }
        | Statement::Deallocate(_)
        | Statement::CreateUser(_)
        | Statement::DropUser { .. }
        | Statement::RenameUser(_)
        | Statement::CreateRole(_)
        | Statement::DropRole { .. }
        | Statement::Grant(_)
        | Statement::Revoke(_)
        | Statement::Xa(_)
        | Statement::Help(_)
        | Statement::Program(_)
        | Statement::Shutdown
        | Statement::Empty
        | Statement::Unsupported { .. } => true,
        Statement::Explain(explain) => matches!(explain.what, ExplainTarget::Connection(_)),
        _ => false,
    }
}

/// Whether it is SHOW STATUS, which does not count itself.
pub fn shows_status(statement: &Statement) -> bool {
    matches!(statement, Statement::Show(show) if matches!(show.what, ShowKind::Status(_)))
}

/// Runs a statement of the server.
pub fn run(core: &mut Core, statement: &Statement, params: &[Value]) -> SqlResult<Outcome> {
    let counters = |core: &Core, counter| core.count(counter, 1);
    privileges::check(core, statement)?;
    match statement {
        Statement::Set(items) => {
            counters(core, Counter::SetOption);
            set::run(core, items, params).map(|()| Outcome::Ok(""))
        }
        Statement::SetStatement { variables, statement } => {
            accept::check_for_statement(variables)?;
            Ok(Outcome::RunWith { items: variables.clone(), statement: Arc::new((**statement).clone()) })
        }
        Statement::Show(show) => show::run(core, show, params).map(Outcome::Rows),
        Statement::Describe { table, column } => {
            counters(core, Counter::ShowFields);
            shown::tables::describe(&core.caller(), table, column.as_deref()).map(Outcome::Rows)
        }
        Statement::Use(name) => {
            counters(core, Counter::ChangeDatabase);
            core.use_database(name)?;
            core.track_state();
            Ok(Outcome::Ok(""))
        }
        Statement::Kill(kill) => {
            counters(core, Counter::Kill);
            kill::run(core, kill, params).map(Outcome::Affected)
        }
        Statement::Flush(flush) => {
            counters(core, Counter::Flush);
            let tables = flush.what.iter().flat_map(|what| match what {
                FlushKind::Tables { tables, .. } => &tables[..],
                _ => &[],
            });
            core.sql.refuse_same_name(tables.map(|name| (name, None)))?;
            commit_before_flush(core)?;
            flush.what.iter().try_for_each(|what| run_flush(core, what)).map(|()| Outcome::Ok(""))
        }
        Statement::LockTables { tables, wait } => {
            counters(core, Counter::LockTables);
            let database = core.state.database().clone();
            database.lock_named_tables(&mut core.sql, tables, wait.as_ref()).map(|()| Outcome::Ok(""))
        }
        Statement::UnlockTables => {
            counters(core, Counter::UnlockTables);
            let database = core.state.database().clone();
            database.unlock_named_tables(&mut core.sql).map(|()| Outcome::Ok(""))
        }
        Statement::Xa(xa) => run_xa(core, xa),
        Statement::Empty => Ok(Outcome::Ok("")),
        Statement::Shutdown => {
            core.state.stop_requested.set();
            Ok(Outcome::Ok(""))
        }
        _ => run_more(core, statement, params),
    }
}

fn run_more(core: &mut Core, statement: &Statement, params: &[Value]) -> SqlResult<Outcome> {
    match statement {
        Statement::Prepare { name, source } => {
            core.count(Counter::PrepareSql, 1);
            core.count(Counter::StatementPrepare, 1);
            refuse_queries("PREPARE..FROM", source)?;
            // The one of that name is gone also where the new one cannot be prepared.
            let state = core.state.clone();
            core.statements.remove_named(&state, name);
            let text = text_of(core, "PREPARE..FROM", source, params)?;
            let prepared = prepare(core, &text)?;
            core.statements.add_named(&core.state.clone(), name, prepared)?;
            core.track_state();
            Ok(Outcome::Ok("Statement prepared"))
        }
        Statement::Execute { name, using } => {
            core.count(Counter::ExecuteSql, 1);
            core.count(Counter::StatementExecute, 1);
            using.iter().try_for_each(|expr| refuse_queries("EXECUTE..USING", expr))?;
            let Some(prepared) = core.statements.named(name) else {
                return Err(errors::unknown_stmt_handler(name, "EXECUTE"));
            };
            let run = (prepared.source.clone(), prepared.params, prepared.text.clone());
            execute_using(core, run, "SELECT", using, params)
        }
        Statement::ExecuteImmediate { source, using } => {
            refuse_queries("EXECUTE IMMEDIATE", source)?;
            let text = text_of(core, "EXECUTE IMMEDIATE", source, params)?;
            let prepared = prepare(core, &text)?;
            let run = (prepared.source, prepared.params, prepared.text);
            execute_using(core, run, "EXECUTE IMMEDIATE", using, params)
        }
        Statement::Deallocate(name) => {
            core.count(Counter::DeallocateSql, 1);
            core.count(Counter::StatementClose, 1);
            if core.statements.remove_named(&core.state.clone(), name) {
                core.track_state();
                Ok(Outcome::Ok(""))
            } else {
                Err(errors::unknown_stmt_handler(name, "DEALLOCATE PREPARE"))
            }
        }
        Statement::CreateUser(_)
        | Statement::DropUser { .. }
        | Statement::RenameUser(_)
        | Statement::CreateRole(_)
        | Statement::DropRole { .. }
        | Statement::Grant(_)
        | Statement::Revoke(_) => {
            let database = core.state.database().clone();
            database.definer().run_account_statement(&mut core.sql, statement).map(|()| Outcome::Ok(""))
        }
        Statement::Explain(explain) => match &explain.what {
            ExplainTarget::Connection(id) => {
                let asked = Asked { analyze: false, json: explain.json };
                show::explain::run(core, id, asked, params).map(Outcome::Rows)
            }
            ExplainTarget::Statement(_) => Err(errors::not_supported_yet("this statement")),
        },
        Statement::Program(of) => {
            let database = core.state.database().clone();
            database.definer().run_program_statement(&mut core.sql, of).map(|()| Outcome::Ok(""))
        }
        Statement::Help(_) => Ok(Outcome::Rows(shown::admin::help())),
        other => Err(errors::not_supported_yet(name_of(other))),
    }
}

/// How messages name a statement that is not supported.
fn name_of(statement: &Statement) -> String {
    let name = match statement {
        Statement::Unsupported { what, .. } => return what.clone(),
        _ => "this statement",
    };
    name.to_string()
}

fn run_xa(core: &mut Core, xa: &Xa) -> SqlResult<Outcome> {
    let database = core.state.database().clone();
    core.count(Counter::of_xa(xa), 1);
    let session = &mut core.sql;
    match xa {
        Xa::Start { xid, how } => database.xa_start(session, xid, *how)?,
        Xa::End { xid, suspend } => database.xa_end(session, xid, *suspend)?,
        Xa::Prepare(xid) => database.xa_prepare(session, xid)?,
        Xa::Commit { xid, one_phase } => database.xa_commit(session, xid, *one_phase)?,
        Xa::Rollback(xid) => database.xa_rollback(session, xid)?,
        Xa::Recover { sql } => {
            return Ok(Outcome::Rows(shown::admin::xa_recover(&database.xa_recover(), *sql)));
        }
    }
    Ok(Outcome::Ok(""))
}

/// 1970 where a value is to come from a query, or from a sequence.
fn refuse_queries(clause: &str, source: &Expr) -> SqlResult<()> {
    match source.has_query() || source.has_sequence() {
        true => Err(errors::subqueries_not_supported(clause)),
        false => Ok(()),
    }
}

/// 1970 instead of the error of a stored function, which no value here may come from.
fn refuse_functions(clause: &str, error: SqlError) -> SqlError {
    match error.code {
        code::SP_DOES_NOT_EXIST | code::PROCACCESS_DENIED => errors::subqueries_not_supported(clause),
        _ => error,
    }
}

fn text_of(core: &mut Core, clause: &str, source: &Expr, params: &[Value]) -> SqlResult<Vec<u8>> {
    let evaluated = core.evaluate_in(clause, source, params);
    let Evaluated { value, ty } = evaluated.map_err(|error| refuse_functions(clause, error))?;
    match value {
        Value::Bytes(bytes) if ty.is_text() && !ty.collation.charset().is_utf8() => {
            Ok(collation::convert(ty.collation.charset(), Charset::Utf8mb4, &bytes).0.into_owned())
        }
        Value::Bytes(bytes) => Ok(bytes.into_vec()),
        other => Ok(keel_settings::variables::value::shown(&other).into_bytes()),
    }
}

/// What EXECUTE runs, of a statement of so many parameters, with their values.
fn execute_using(
    core: &mut Core,
    (source, wanted, text): (Source, usize, Arc<[u8]>),
    clause: &str,
    using: &[Expr],
    params: &[Value],
) -> SqlResult<Outcome> {
    if using.len() != wanted {
        return Err(errors::wrong_arguments("EXECUTE"));
    }
    let (mut values, mut marks) = (Vec::with_capacity(wanted), Vec::new());
    for (place, expr) in using.iter().enumerate() {
        values.push(match expr {
            Expr::Default(None) => note(&mut marks, place, Mark::Default),
            Expr::Ignore => note(&mut marks, place, Mark::Ignore),
            expr => {
                refuse_queries("EXECUTE..USING", expr)?;
                let evaluated = core.evaluate_in(clause, expr, params);
                evaluated.map_err(|error| refuse_functions("EXECUTE..USING", error))?.value
            }
        });
    }
    let source = if marks.is_empty() { source } else { marked(core, source, wanted, &marks)? };
    // From here on the process list and the deadlocks show what runs, not the EXECUTE that says so.
    core.client.activity.lock().show_prepared(&text, source.changes_rows(), &values);
    Ok(Outcome::Run { source, params: values })
}

/// Keeps a mark; the parameter's value is asked for by nobody.
fn note(marks: &mut Vec<(usize, Mark)>, place: usize, mark: Mark) -> Value {
    marks.push((place, mark));
    Value::Null
}

/// What runs where parameters are DEFAULT or IGNORE.
fn marked(core: &mut Core, source: Source, wanted: usize, marks: &[(usize, Mark)]) -> SqlResult<Source> {
    let Source::Plan(plan) = source else { return Err(errors::invalid_default_param()) };
    let statement = Arc::new(with_marks(&plan.statement, marks)?);
    let database = core.state.database().clone();
    Ok(Source::Plan(database.prepare(&mut core.sql, statement, wanted as u32)?))
}

/// Warns of names of select items with blanks in front (1466, 1474), before all that the statement has to say.
pub fn warn_of_names(core: &mut Core, trimmed: &[String]) {
    for name in trimmed.iter().rev() {
        let warning = match name.trim_start_matches(|c: char| c <= ' ' || c == '\x7f') {
            "" => errors::name_becomes_empty(name),
            _ => errors::removed_spaces(name),
        };
        let max = core.sql.vars.max_error_count;
        core.sql.diagnostics.push_first(warning.into(), max);
    }
}

/// Warns of what is old in a statement's text (1287), before all that its execution has to say.
pub fn warn_of_text(core: &mut Core, statement: &Statement) {
    if !matches!(statement, Statement::Query(query) if query.late_into.0) {
        return;
    }
    let new = "'SELECT <select list> INTO <destination> FROM...'";
    let warning = errors::warn_deprecated(
        "<select expression> INTO <destination>;",
        format_args!(". Please use {new} instead"),
    );
    let max = core.sql.vars.max_error_count;
    core.sql.diagnostics.push_first(warning.into(), max);
}

/// Checks what MariaDB checks of SET and SHOW CREATE when they are prepared.
fn check_as_prepared(core: &mut Core, statement: &Statement) -> SqlResult<()> {
    match statement {
        Statement::Set(items) => accept::check_names(items).and_then(|()| accept::check_scopes(items)),
        Statement::SetStatement { variables, statement } => {
            accept::check_for_statement(variables)?;
            accept::check_scopes(variables)?;
            check_as_prepared(core, statement)
        }
        Statement::Show(what) => show::check(core, what),
        Statement::CreateTable(create) => core.state.database().definer().check_sequence(&core.sql, create),
        _ => Ok(()),
    }
}

/// Whether a statement without a plan reads tables, so that preparing it forgets earlier warnings.
fn names_tables(statement: &Statement) -> bool {
    match statement {
        Statement::Insert(_) | Statement::LockTables { .. } | Statement::Describe { .. } => true,
        Statement::Show(show) => shown::reads_tables(&show.what),
        _ => false,
    }
}

/// Whether PREPARE leaves an error of an INSERT from a query to the execution: of the columns that are filled, not of the
/// query.
fn is_for_execution(core: &mut Core, statement: &Statement, params: usize, error: &SqlError) -> bool {
    let Statement::Insert(insert) = statement else { return false };
    let InsertSource::Query(query) = &insert.source else { return false };
    let of_columns = [code::BAD_FIELD, code::FIELD_SPECIFIED_TWICE, code::WRONG_VALUE_COUNT_ON_ROW];
    let database = core.state.database().clone();
    let query = || Arc::new(Statement::Query(query.clone()));
    of_columns.contains(&error.code) && database.prepare(&mut core.sql, query(), params as u32).is_ok()
}

/// Prepares the one statement of a text.
pub fn prepare(core: &mut Core, text: &[u8]) -> SqlResult<Prepared> {
    let database = core.state.database().clone();
    if let Some(plan) = database.prepared(&core.sql, text) {
        check_plan(core, &plan)?;
        let params = plan.param_count();
        return Ok(Prepared::new(Source::Plan(plan), text, params));
    }
    core.admit_text(text, false)?;
    let options = parse_options(core, true);
    let heap_start = heap::of_fiber();
    let parsed = keel_sql::parse(text, &options)?;
    let params = parsed.param_count as usize;
    if u16::try_from(params).is_err() {
        return Err(errors::ps_many_param());
    }
    check_as_prepared(core, &parsed.statement)?;
    if matches!(
        parsed.statement,
        Statement::Prepare { .. }
            | Statement::Execute { .. }
            | Statement::ExecuteImmediate { .. }
            | Statement::Deallocate(_)
    ) {
        return Err(errors::unsupported_ps());
    }
    check_sources(core, &parsed.statement, params)?;
    if names_tables(&parsed.statement) {
        core.sql.diagnostics.clear();
    }
    let trimmed = parsed.trimmed;
    let statement = Arc::new(parsed.statement);
    let source = match source_of(core, statement.clone(), params) {
        Err(error) if is_for_execution(core, &statement, params, &error) => Source::Server(statement),
        source => source?,
    };
    if let Source::Plan(plan) = &source {
        plan.note_heap(heap_start);
        check_plan(core, plan)?;
        database.charge_prepared(text, plan, &core.sql.host)?;
        // Preparing the text again warns of its names again.
        if trimmed.is_empty() {
            database.share_prepared(&core.sql, text, plan);
        }
    }
    warn_of_names(core, &trimmed);
    Ok(Prepared::new(source, text, params))
}

/// Binds what CREATE TABLE and CREATE VIEW read: a table or column that is missing is an error when they are prepared.
fn check_sources(core: &mut Core, statement: &Statement, params: usize) -> SqlResult<()> {
    let database = core.state.database().clone();
    let query = match statement {
        Statement::CreateView(create) => &create.query,
        Statement::CreateTable(create) => match (&create.like, &create.select) {
            (Some(like), _) => return database.find_table(&core.sql, like).map(|_| ()),
            (None, Some(select)) => &select.query,
            (None, None) => return Ok(()),
        },
        _ => return Ok(()),
    };
    database.prepare(&mut core.sql, Arc::new(Statement::Query(query.clone())), params as u32).map(|_| ())
}

/// Whether a plan may be prepared now; says what its execution will warn of. One of tables forgets earlier warnings.
fn check_plan(core: &mut Core, plan: &Plan) -> SqlResult<()> {
    if plan.uses_tables() {
        core.sql.diagnostics.clear();
    }
    plan.check_prepare(&core.sql)?;
    warn_of_text(core, &plan.statement);
    plan.warn(&mut core.sql);
    Ok(())
}

/// What runs a statement: the server, or a plan of the executor.
pub fn source_of(core: &mut Core, statement: Arc<Statement>, params: usize) -> SqlResult<Source> {
    if is_servers(&statement) {
        return Ok(Source::Server(statement));
    }
    let database = core.state.database().clone();
    database.prepare(&mut core.sql, statement, params as u32).map(Source::Plan)
}

/// The columns that a prepared statement will give, where they are known before it runs.
pub fn columns_of(core: &mut Core, prepared: &Prepared) -> SqlResult<Option<Arc<ResultColumns>>> {
    match &prepared.source {
        Source::Plan(plan) => Ok(plan.columns().cloned()),
        Source::Server(statement) if prepared.params == 0 => match &**statement {
            Statement::Show(_) | Statement::Describe { .. } => match run(core, statement, &[])? {
                Outcome::Rows(rows) => Ok(Some(rows.columns)),
                _ => Ok(None),
            },
            _ => Ok(None),
        },
        Source::Server(_) => Ok(None),
    }
}

/// Begins SET STATEMENT: sets its variables and gives what they were.
pub fn begin_with(core: &mut Core, items: &[SetItem], params: &[Value]) -> SqlResult<SessionSettings> {
    let before = core.client.settings.lock().clone();
    set::run(core, items, params).map_err(|error| refuse_functions("SET STATEMENT", error))?;
    core.changes.clear();
    core.track_state();
    Ok(before)
}

/// Ends SET STATEMENT: the variables are again what they were.
pub fn end_with(core: &mut Core, before: SessionSettings) {
    keel_settings::variables::apply::all(&mut core.sql.vars, &before);
    *core.client.settings.lock() = before;
}

/// TRUNCATE of a log's table; false where it is another table.
pub fn truncate_log(core: &mut Core, statement: &Statement) -> SqlResult<bool> {
    let Statement::Truncate { table, .. } = statement else { return Ok(false) };
    let schema = table.db.as_deref().or(core.sql.database.as_deref());
    if schema != Some(keel_views::schema::MYSQL) || !keel_logs::tables::NAMES.contains(&&*table.name) {
        return Ok(false);
    }
    see::expired(&core.sql)?;
    core.sql.refuse_in_branch()?;
    let database = core.state.database().clone();
    database.commit_implicitly(&mut core.sql)?;
    see::require_mysql(&core.sql, &database.catalog().accounts, Privileges::DROP)?;
    core.sql.refuse_unlocked(&table.name)?;
    core.sql.diagnostics.clear();
    core.state.logs.tables.truncate(&table.name);
    Ok(true)
}

fn run_flush(core: &mut Core, what: &FlushKind) -> SqlResult<()> {
    let database = core.state.database().clone();
    match what {
        FlushKind::Tables { export: true, .. } => Err(errors::not_supported_yet("FLUSH TABLES FOR EXPORT")),
        FlushKind::Tables { tables, read_lock: true, .. } if tables.is_empty() => {
            database.lock_for_reading(&mut core.sql)
        }
        FlushKind::Tables { tables, read_lock: true, .. } => {
            database.lock_tables_for_reading(&mut core.sql, tables)
        }
        FlushKind::Tables { tables, .. } => {
            if !tables.is_empty() {
                core.sql.diagnostics.clear();
            }
            database.flush_tables(&mut core.sql, tables)
        }
        FlushKind::Privileges => {
            core.state.digests.forget();
            core.state.usage.forget_passwords();
            database.definer().check_grants(&core.sql)
        }
        FlushKind::Other(what) => {
            match what.as_str() {
                "HOSTS" => core.state.failed_hosts.clear(),
                "USER_RESOURCES" => core.state.usage.flush(),
                "LOGS" => flush_logs(core, &[Which::General, Which::Slow, Which::Error])?,
                "USER_VARIABLES" => core.sql.user_variables.clear(),
                "GENERAL LOGS" => flush_logs(core, &[Which::General])?,
                "SLOW LOGS" => flush_logs(core, &[Which::Slow])?,
                "ERROR LOGS" => flush_logs(core, &[Which::Error])?,
                "SSL" => core.state.tls.reload().map_err(|error| {
                    errors::unknown_error(format!("Failed to refresh SSL, error: {}", error.what))
                })?,
                _ => {}
            }
            Ok(())
        }
        FlushKind::Status => {
            flush_status(core);
            Ok(())
        }
    }
}

fn flush_logs(core: &Core, which: &[Which]) -> SqlResult<()> {
    let failed = || errors::unknown_error("The logs could not be written");
    core.state.logs.flush(which).then_some(()).ok_or_else(failed)
}

fn flush_status(core: &Core) {
    core.client.counters.clear();
    core.state.flush_status();
}

/// FLUSH commits, and is refused in a branch of XA.
fn commit_before_flush(core: &mut Core) -> SqlResult<()> {
    core.sql.refuse_in_branch()?;
    let database = core.state.database().clone();
    database.commit_implicitly(&mut core.sql)
}

/// Bits of COM_REFRESH: FLUSH LOGS, FLUSH TABLES, FLUSH HOSTS, FLUSH STATUS, RESET MASTER. All others flush what this server does not keep.
const REFRESH_LOG: u8 = 0x02;
const REFRESH_TABLES: u8 = 0x04;
const REFRESH_HOSTS: u8 = 0x08;
const REFRESH_STATUS: u8 = 0x10;
const REFRESH_MASTER: u8 = 0x80;

/// COM_REFRESH: FLUSH by a command.
pub fn refresh(core: &mut Core, what: u8) -> SqlResult<()> {
    see::expired(&core.sql)?;
    see::require_global(&core.sql, Privileges::RELOAD)?;
    commit_before_flush(core)?;
    if what & REFRESH_TABLES != 0 {
        let database = core.state.database().clone();
        database.flush_tables(&mut core.sql, &[])?;
    }
    if what & REFRESH_LOG != 0 {
        flush_logs(core, &[Which::General, Which::Slow, Which::Error])?;
    }
    if what & REFRESH_HOSTS != 0 {
        core.state.failed_hosts.clear();
    }
    if what & REFRESH_STATUS != 0 {
        flush_status(core);
    }
    if what & REFRESH_MASTER != 0 { Err(errors::flush_master_binlog_closed()) } else { Ok(()) }
}

/// After DROP DATABASE: a session with that default database has none.
pub fn forget_dropped_database(core: &mut Core) {
    core.database_dropped = true;
    let Some(current) = core.client.activity.lock().database.clone() else { return };
    let is_virtual = keel_views::schema::SCHEMAS.iter().any(|s| s.eq_ignore_ascii_case(&current));
    if is_virtual || core.state.database().catalog().schema(&current).is_some() {
        return;
    }
    core.sql.database = None;
    core.sql.access.choose_database(&core.state.database().catalog().accounts, None);
    core.client.activity.lock().database = None;
    core.sql.vars.database_collation = core.sql.vars.server_collation;
    core.track_schema("");
}

//! The state of a connection without its socket. The statements that the server executes itself (SET, SHOW, USE, KILL) use it.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_context::admission::Share;
use keel_exec::{Collect, InterruptState, Session, UserVariable};
use keel_expr::rights as see;
use keel_expr::rights::Denied;
use keel_runtime::time;
use keel_settings::budget;
use keel_settings::variables::{SessionSettings, Setting};
use keel_sql::ast::{Expr, LiteralValue, Query, QueryBody, SelectItem, Statement, UnaryOp};
use keel_value::collation::{self, Charset};
use keel_value::{SqlType, Value};
use keel_views::counters::Counter;
use keel_views::monitor::foreign;
use keel_views::registry::Client;
use keel_views::show::Caller;
use keel_wire::capability::{Capabilities, Status};
use keel_wire::reply::StateChange;

use crate::prepared::Statements;
use crate::session::Tally;
use crate::state::ServerState;
use crate::usage::Limited;

/// A connection's state.
pub struct Core {
    /// The server.
    pub state: Arc<ServerState>,
    /// What others see of this connection.
    pub client: Arc<Client>,
    /// What statements see of it.
    pub sql: Session,
    /// What both sides of the connection can do.
    pub capabilities: Capabilities,
    /// Names of the statement's text that it warns of: see [`keel_sql::Parsed::trimmed`].
    pub trimmed_names: Vec<String>,
    /// Session state changes for the next OK packet.
    pub changes: Vec<StateChange>,
    /// Prepared statements.
    pub statements: Statements,
    /// What the running command's texts take, where they are long.
    pub text_rooms: Vec<Share>,
    /// The limits of its account, where it has some.
    pub limited: Option<Limited>,
    /// What the running statement has done so far.
    pub tally: Tally,
    /// A database was dropped by the running statement.
    pub database_dropped: bool,
    /// The next statement keeps the warnings so far: those of the SET part of SET STATEMENT.
    pub keeps_warnings: bool,
}

/// Bytes of text beyond which a statement takes room before it is read: without a bound a thousand clients that each send
/// half a megabyte of rows would take twenty gigabytes.
const LONG_TEXT: usize = 2 << 10;
/// How much less a text takes whose rows stay text.
const ROWS_SHARE: u64 = 20;

/// What a parameter of a batch takes: its value, its node in the tree and what it is bound to.
const CELL_BYTES: u64 = 400;

/// What the tree and the plan of a text take, about: what stands between quotes is copied, all else becomes nodes.
fn tree_bytes(text: &[u8]) -> u64 {
    let (mut nodes, mut quote, mut skip) = (0u64, None, false);
    for byte in text {
        match (quote, byte) {
            _ if skip => skip = false,
            (Some(_), b'\\') => skip = true,
            (Some(open), byte) if open == *byte => quote = None,
            (None, b'\'' | b'"') => quote = Some(*byte),
            (None, _) => nodes += 1,
            _ => {}
        }
    }
    (text.len() as u64 - nodes) * 3 + nodes * budget::TEXT_FACTOR
}

/// The value of an expression with its type.
pub struct Evaluated {
    /// The value.
    pub value: Value,
    /// Its type.
    pub ty: SqlType,
}

impl Core {
    /// Waits for room for a text that is to be read, where it is long; `stays_text` says that its rows become no tree. The
    /// command gives it back when it ends.
    pub fn admit_text(&mut self, text: &[u8], stays_text: bool) -> SqlResult<()> {
        if text.len() <= LONG_TEXT {
            return Ok(());
        }
        let share = if stays_text { ROWS_SHARE } else { 1 };
        self.admit(text.len() as u64 / share, || tree_bytes(text) / share)
    }

    /// Waits for room for rows of parameters in a packet that become a tree.
    pub fn admit_rows(&mut self, cells: usize, packet_bytes: usize) -> SqlResult<()> {
        let needed = cells as u64 * CELL_BYTES + packet_bytes as u64;
        match needed / budget::TEXT_FACTOR {
            bytes if bytes <= LONG_TEXT as u64 => Ok(()),
            bytes => self.admit(bytes, || needed),
        }
    }

    /// Waits for room for `bytes` of text, whose tree takes `needed`.
    fn admit(&mut self, bytes: u64, needed: impl FnOnce() -> u64) -> SqlResult<()> {
        let most = self.state.budget().limit / 2;
        if bytes * budget::TEXT_FACTOR > most {
            let needed = needed();
            if needed > most {
                return Err(errors::outofmemory(needed));
            }
        }
        // A text within a text waits for nobody: others may wait for what the outer one has.
        let urgent = !self.text_rooms.is_empty() || self.sql.holds_locks();
        let mut share = self.state.long_texts.text_of(self.client.id);
        let taken = share.take(bytes, urgent, &self.sql.interrupt, |state| state != InterruptState::None);
        self.text_rooms.push(share);
        if taken {
            return Ok(());
        }
        self.sql.check_interrupt().and(Err(errors::query_interrupted()))
    }

    /// Gives back what the ended statement had of rooms.
    pub fn end_rooms(&mut self) {
        self.text_rooms.clear();
        self.sql.end_rooms();
    }

    /// The session as SHOW sees it.
    pub fn caller(&mut self) -> Caller<'_> {
        Caller { served: &self.state.served, session: &mut self.sql, client: &self.client }
    }

    /// One of the session's variables.
    pub fn setting(&self, name: &str) -> Setting {
        self.client.settings.lock().named(name).clone()
    }

    /// The status flags of an answer at this moment.
    #[inline]
    pub fn status(&self) -> Status {
        let mut status = Status::default();
        status.set(Status::AUTOCOMMIT, self.sql.vars.autocommit);
        if self.sql.in_transaction() {
            status.set(Status::IN_TRANS, true);
            status.set(Status::IN_TRANS_READONLY, self.sql.transaction.read_only);
        }
        let mode = self.sql.vars.sql_mode;
        status.set(Status::NO_BACKSLASH_ESCAPES, mode.has(keel_value::SqlMode::NO_BACKSLASH_ESCAPES));
        status.set(Status::ANSI_QUOTES, mode.has(keel_value::SqlMode::ANSI_QUOTES));
        status.set(Status::DB_DROPPED, self.database_dropped);
        status.set(Status::NO_INDEX_USED, self.sql.no_index_used);
        let took = time::recent().since(self.tally.began).as_micros() as u64;
        status.set(Status::QUERY_WAS_SLOW, took >= self.sql.vars.long_query_micros);
        status
    }

    /// Notes another default database for the next OK packet.
    pub fn track_schema(&mut self, name: &str) {
        if self.setting("session_track_schema").is_on() {
            self.track(StateChange::Schema(name.to_string()));
        }
    }

    /// Notes a changed system variable for the next OK packet.
    pub fn track_variable(&mut self, name: &str, value: &str) {
        let tracked = self.setting("session_track_system_variables");
        let names = |name: &str| tracked.as_text().split(',').any(|t| t.trim().eq_ignore_ascii_case(name));
        if names("*") || names(name) {
            self.track(StateChange::Variable(name.to_string(), value.to_string()));
        }
    }

    /// Notes for the next OK packet that the state of the session has changed.
    pub fn track_state(&mut self) {
        if self.setting("session_track_state_change").is_on() {
            self.track(StateChange::Changed);
        }
    }

    /// Puts a change in its place: variables in the order of their names, the database, the state, each once.
    fn track(&mut self, change: StateChange) {
        fn place(change: &StateChange) -> (u8, &str) {
            match change {
                StateChange::Variable(name, _) => (0, name),
                StateChange::Schema(_) => (1, ""),
                StateChange::Changed => (2, ""),
            }
        }
        self.changes.retain(|other| place(other) != place(&change));
        let at = self.changes.partition_point(|other| place(other) < place(&change));
        self.changes.insert(at, change);
    }

    /// Counts for the session and for the server.
    #[inline]
    pub fn count(&self, counter: Counter, amount: u64) {
        self.client.counters.add(counter, amount);
        self.state.counters.add(counter, amount);
    }

    /// Counts what the last statement did with rows.
    #[inline]
    pub fn count_handlers(&mut self) {
        let done = std::mem::take(&mut self.sql.handler);
        self.tally.rows_examined = done.rows_read;
        for (counter, amount) in [
            (Counter::RowsRead, done.rows_read),
            (Counter::HandlerCommit, done.commit),
            (Counter::HandlerRollback, done.rollback),
            (Counter::HandlerReadFirst, done.read_first),
            (Counter::HandlerReadKey, done.read_key),
            (Counter::HandlerReadLast, done.read_last),
            (Counter::HandlerReadNext, done.read_next),
            (Counter::HandlerReadPrev, done.read_prev),
            (Counter::HandlerIcpAttempts, done.icp_attempts),
            (Counter::HandlerIcpMatch, done.icp_match),
            (Counter::HandlerReadRndNext, done.read_rnd_next),
            (Counter::HandlerWrite, done.write),
            (Counter::HandlerUpdate, done.update),
            (Counter::HandlerDelete, done.delete),
        ] {
            if amount != 0 {
                self.count(counter, amount);
            }
        }
        if self.sql.plan_counts.any || self.tally.plan.any {
            self.count_plans();
        }
    }

    /// Counts how it went about them.
    fn count_plans(&mut self) {
        let done = std::mem::take(&mut self.sql.plan_counts);
        self.tally.plan = done;
        for (counter, amount) in [
            (Counter::HandlerTmpWrite, done.tmp_write),
            (Counter::CreatedTmpTables, done.tmp_tables),
            (Counter::CreatedTmpDiskTables, done.tmp_disk_tables),
            (Counter::SelectScan, done.select_scan),
            (Counter::SelectFullJoin, done.select_full_join),
            (Counter::SelectRange, done.select_range),
            (Counter::SelectFullRangeJoin, done.select_full_range_join),
            (Counter::SortScan, done.sort_scan),
            (Counter::SortRange, done.sort_range),
            (Counter::SortRows, done.sort_rows),
            (Counter::SortMergePasses, done.sort_merge_passes),
            (Counter::SortPriorityQueueSorts, done.sort_priority_queue_sorts),
        ] {
            if amount != 0 {
                self.count(counter, amount);
            }
        }
    }

    /// Warnings as packets count them.
    pub fn warning_count(&self) -> u16 {
        let diagnostics = &self.sql.diagnostics;
        if diagnostics.stale { 0 } else { diagnostics.warning_count.min(u64::from(u16::MAX)) as u16 }
    }

    /// Notes a failed statement where SHOW WARNINGS finds it.
    pub fn note_error(&mut self, error: &SqlError) {
        self.sql.row_count = -1;
        self.sql.push_error(error);
        foreign::note(&self.state, &self.client, error);
    }

    /// Makes `name` the default database.
    pub fn use_database(&mut self, name: &str) -> SqlResult<()> {
        if name.is_empty() {
            return Err(errors::no_db());
        }
        if !can_name_database(name) {
            return Err(errors::wrong_db_name(shortened(name)));
        }
        let catalog = self.state.database().catalog();
        see::require_database(&self.sql, &catalog.accounts, name, Denied::Account)?;
        let known = self.find_schema(name).ok_or_else(|| errors::bad_db(name))?;
        self.sql.access.choose_database(&catalog.accounts, Some(&known));
        self.client.activity.lock().database = Some(known.clone());
        self.sql.database = Some(known.clone());
        self.track_schema(&known);
        let collation = self.schema_collation(&known);
        self.sql.vars.database_collation = collation;
        Ok(())
    }

    fn find_schema(&self, name: &str) -> Option<Arc<str>> {
        if let Some(schema) = self.state.database().catalog().schema(name) {
            return Some(schema.name.clone());
        }
        let virtual_name = keel_views::schema::SCHEMAS.iter().find(|s| s.eq_ignore_ascii_case(name))?;
        Some((*virtual_name).into())
    }

    fn schema_collation(&self, name: &str) -> keel_value::CollationId {
        match self.state.database().catalog().schema(name) {
            Some(schema) => schema.collation,
            None => keel_value::CollationId::UTF8MB3_GENERAL_CI,
        }
    }

    /// The state of a new connection: variables, user variables, prepared statements and transaction are gone.
    pub fn reset(&mut self) -> SqlResult<()> {
        let database = self.state.database().clone();
        database.definer().drop_temporary_tables(&mut self.sql);
        database.leave(&mut self.sql)?;
        database.unlock_named_tables(&mut self.sql)?;
        self.sql.user_locks.release_all();
        let mut settings = SessionSettings::new(self.state.globals.all());
        let client_charset = self.setting("character_set_client");
        settings.set(keel_settings::variables::table().id("character_set_client"), client_charset);
        keel_settings::variables::apply::all(&mut self.sql.vars, &settings);
        *self.client.settings.lock() = settings;
        self.sql.user_variables.clear();
        self.sql.diagnostics.clear();
        self.sql.vars.timestamp = None;
        self.sql.vars.insert_id = None;
        self.sql.vars.next_isolation = None;
        self.sql.vars.next_read_only = None;
        self.sql.forget_last_values();
        self.sql.last_insert_id = 0;
        self.sql.row_count = 0;
        self.sql.found_rows = 0;
        self.statements.clear(&self.state);
        self.client.counters.clear();
        Ok(())
    }

    /// Ends the session.
    pub fn close(&mut self) {
        self.limited = None;
        let database = self.state.database().clone();
        // The client is gone: nobody reads an error.
        database.definer().drop_temporary_tables(&mut self.sql);
        let _ = database.leave(&mut self.sql);
        self.statements.clear(&self.state);
        self.state.registry.remove(self.client.id);
    }

    /// The value of an expression: literals at once, all else by a query.
    pub fn evaluate(&mut self, expr: &Expr, params: &[Value]) -> SqlResult<Evaluated> {
        match self.literal(expr, params) {
            Some(known) => Ok(known),
            None => self.evaluate_by_query(expr, params),
        }
    }

    /// The same where a clause names columns that are not there.
    pub fn evaluate_in(&mut self, clause: &str, expr: &Expr, params: &[Value]) -> SqlResult<Evaluated> {
        self.evaluate(expr, params).map_err(|error| self.in_clause(clause, expr, params.len(), error))
    }

    /// An error of a name in the words of the clause. Names in queries within keep the clause where they stand.
    #[cold]
    fn in_clause(&mut self, clause: &str, expr: &Expr, params: usize, error: SqlError) -> SqlError {
        if !matches!(error.code, code::BAD_FIELD | code::NON_UNIQ | code::UNKNOWN_TABLE) {
            return error;
        }
        // The clause of DO is the one of the expression itself.
        let database = self.state.database().clone();
        let statement = Arc::new(Statement::Do(vec![expr.clone()]));
        let error = match database.prepare(&mut self.sql, statement, params as u32) {
            Err(error) => error.in_clause("DO", clause),
            Ok(_) => error.in_clause("SELECT", clause),
        };
        match expr.first_qualified_column() {
            Some(name) if error.code == code::UNKNOWN_TABLE && clause != "SET" => {
                errors::bad_field(&name.column, clause)
            }
            _ => error,
        }
    }

    fn literal(&self, expr: &Expr, params: &[Value]) -> Option<Evaluated> {
        let connection = self.sql.vars.connection_collation;
        let converts = !matches!(connection.charset(), Charset::Binary | Charset::Utf8mb3 | Charset::Utf8mb4);
        let text = |bytes: &[u8]| Evaluated {
            value: Value::bytes(bytes),
            ty: SqlType::varchar(bytes.len() as u32, connection),
        };
        let integer = |value| Evaluated { value, ty: SqlType::bigint() };
        match expr {
            Expr::Literal(literal) => match &literal.value {
                LiteralValue::Null => Some(Evaluated { value: Value::Null, ty: SqlType::null() }),
                LiteralValue::Bool(v) => Some(integer(Value::Int(i64::from(*v)))),
                LiteralValue::Int(v) => Some(integer(match i64::try_from(*v) {
                    Ok(signed) => Value::Int(signed),
                    Err(_) => Value::UInt(*v),
                })),
                LiteralValue::String { bytes, charset: None } if converts => {
                    Some(text(&collation::convert(Charset::Utf8mb4, connection.charset(), bytes).0))
                }
                LiteralValue::String { bytes, charset: None } => Some(text(bytes)),
                _ => None,
            },
            Expr::Param(index) => match params.get(*index as usize)? {
                value @ (Value::Int(_) | Value::UInt(_)) => Some(integer(value.clone())),
                Value::Bytes(bytes) => Some(text(bytes)),
                _ => None,
            },
            Expr::Unary { op: UnaryOp::Minus, expr } => match self.literal(expr, params)?.value {
                Value::Int(v) => v.checked_neg().map(|negated| integer(Value::Int(negated))),
                _ => None,
            },
            _ => None,
        }
    }

    fn evaluate_by_query(&mut self, expr: &Expr, params: &[Value]) -> SqlResult<Evaluated> {
        if keel_planner::aggregate::has_aggregate(expr) {
            return Err(errors::invalid_group_func_use());
        }
        if expr.has_window_function() {
            return Err(errors::wrong_placement_of_window_function());
        }
        let statement = Arc::new(select_of(expr.clone())?);
        let database = self.state.database().clone();
        let plan = database.prepare(&mut self.sql, statement, params.len() as u32)?;
        let mut rows = Collect::default();
        // The limit is one of queries.
        let limit = std::mem::replace(&mut self.sql.vars.select_limit, u64::MAX);
        self.sql.sets = true;
        let executed = if self.sql.diagnostics.stale {
            database.execute(&mut self.sql, &plan, params, &mut rows)
        } else {
            // Warnings of earlier values of the statement stay.
            database.execute_next(&mut self.sql, &plan, params, &mut rows)
        };
        self.sql.sets = false;
        self.sql.vars.select_limit = limit;
        executed?;
        let ty = match rows.columns.as_ref().map(|c| c.columns.as_slice()) {
            Some([column]) => column.ty.clone(),
            _ => return Err(errors::operand_columns(1)),
        };
        let value = rows.rows.into_iter().next().and_then(|row| row.into_iter().next());
        Ok(Evaluated { value: value.unwrap_or(Value::Null), ty })
    }

    /// Sets `@name`.
    pub fn set_user_variable(&mut self, name: &str, evaluated: Evaluated) -> SqlResult<()> {
        let variable = UserVariable::new(evaluated.value, &evaluated.ty);
        self.sql.user_variables.set(&name.to_lowercase(), variable)
    }
}

/// Characters of a name.
const NAME_CHARS_MAX: usize = 64;

fn can_name_database(name: &str) -> bool {
    !name.is_empty() && !name.ends_with(' ') && !name.contains('\0') && name.chars().count() <= NAME_CHARS_MAX
}

/// Bytes of a name that messages show.
const NAME_SHOWN_MAX: usize = 100;

/// A name as messages show one that is too long.
fn shortened(name: &str) -> String {
    let name = name.split('\0').next().unwrap_or_default();
    match name.len() {
        0..=NAME_SHOWN_MAX => name.to_string(),
        _ => format!("{}...", &name[..name.floor_char_boundary(NAME_SHOWN_MAX - 3)]),
    }
}

/// `SELECT expr`.
fn select_of(expr: Expr) -> SqlResult<Statement> {
    let mut parsed = keel_sql::parse(b"SELECT 0", &keel_sql::ParseOptions::default())?;
    if let Statement::Query(query) = &mut parsed.statement {
        let Query { body: QueryBody::Select(select), .. } = &mut **query else {
            return Err(errors::not_supported_yet("this expression"));
        };
        if let Some(SelectItem::Expr { expr: item, .. }) = select.items.first_mut() {
            *item = expr;
        }
    }
    Ok(parsed.statement)
}

#[cfg(test)]
mod tests {
    use super::tree_bytes;

    #[test]
    fn a_long_literal_is_no_large_tree() {
        let literal = format!("SELECT '{}\\'{}'", "x".repeat(1000), "y".repeat(1000));
        assert!(tree_bytes(literal.as_bytes()) < 7000);
        assert_eq!(tree_bytes(&b"1,".repeat(1000)), 80_000);
    }
}

//! Commands of an authenticated client.

use std::sync::atomic::Ordering;

use keel_base::{SqlResult, errors};
use keel_catalog::account::Privileges;
use keel_expr::rights as see;
use keel_runtime::net::{After, Connection};
use keel_runtime::{fiber, time};
use keel_views::counters::Counter;
use keel_views::show;
use keel_wire::capability::Capabilities;
use keel_wire::command::Command;
use keel_wire::{packet, reply};

use super::ClientSession;
use crate::{kill, statement};

impl ClientSession {
    /// Takes one command and appends its answer to the output.
    pub(super) fn command(&mut self, conn: &mut Connection, payload: &[u8]) -> After {
        let Ok(command) = Command::decode(payload) else {
            self.send_error(conn, &errors::malformed_packet());
            return After::Idle;
        };
        fiber::begin_statement();
        let is_old = !self.core.capabilities.has(Capabilities::PROTOCOL_41);
        if is_old && !matches!(command, Command::Ping | Command::Quit) {
            self.send_error(conn, &errors::not_supported_yet("the protocol before 4.1"));
            return After::Idle;
        }
        let (name, text) = self.describe(&command);
        {
            let sql = &self.core.sql;
            let mut activity = self.core.client.activity.lock();
            let now = time::now();
            self.core.tally.began = now;
            activity.begin(name, text, now);
            activity.is_autocommit = sql.vars.autocommit && !sql.in_transaction();
        }
        if self.core.state.logs.on() != 0 {
            self.log_begin(conn, &command, text);
        }
        let is_statement =
            matches!(command, Command::Query(_) | Command::StmtExecute(_) | Command::StmtBulkExecute(_));
        self.core.client.interrupt.clear_query();
        self.core.sql.diagnostics.stale = true;
        self.core.sql.no_index_used = false;
        let state = self.core.state.clone();
        state.counters.add(Counter::Running, 1);
        self.count_command(&command);
        let after = match self.core.limited.as_ref().map_or(Ok(()), |limited| limited.count(false)) {
            Err(error) if is_statement => {
                self.send_error(conn, &error);
                After::Idle
            }
            _ => self.dispatch(conn, command),
        };
        self.core.end_rooms();
        state.counters.sub(Counter::Running, 1);
        self.end_activity(is_statement);
        if self.has_transaction_timeouts() {
            self.renew_timeouts(conn);
        }
        after
    }

    /// A command begins while something is logged.
    #[cold]
    fn log_begin(&mut self, conn: &Connection, command: &Command<'_>, text: &[u8]) {
        self.begin_tally();
        let (name, _) = self.describe(command);
        // Executions are logged once their parameters are read, another user once it is known.
        let is_late = matches!(
            command,
            Command::StmtExecute(_)
                | Command::StmtBulkExecute(_)
                | Command::ChangeUser(_)
                | Command::StmtPrepare(_)
        );
        if !is_late {
            self.log_command(conn, name, super::execute::trim_end(text));
        }
    }

    /// Notes that the command has ended, and what transaction stays open.
    #[inline]
    fn end_activity(&self, is_statement: bool) {
        let sql = &self.core.sql;
        let open = sql.txn.as_ref().map(|txn| (sql.txns_begun, txn.isolation(), sql.transaction.read_only));
        self.core.client.tables.store(0, Ordering::Relaxed);
        self.core.client.activity.lock().end_in(open, is_statement);
    }

    /// Counts what MariaDB counts as a query and, but for the handling of prepared statements, as a question.
    fn count_command(&self, command: &Command<'_>) {
        match command {
            Command::Ping | Command::Statistics => {}
            Command::StmtPrepare(_) | Command::StmtClose(_) | Command::StmtReset(_) => {
                self.core.count(Counter::Queries, 1);
            }
            _ => self.count_question(),
        }
    }

    fn describe<'a>(&self, command: &Command<'a>) -> (&'static str, &'a [u8]) {
        match command {
            Command::Query(text) => ("Query", text),
            Command::StmtExecute(_) => ("Execute", b""),
            Command::StmtBulkExecute(_) => ("Execute", b""),
            Command::StmtPrepare(text) => ("Prepare", text),
            Command::InitDb(name) => ("Init DB", name),
            Command::FieldList { table, .. } => ("Field List", table),
            Command::Refresh(_) => ("Refresh", b""),
            Command::BinlogDump => ("Binlog Dump", b""),
            Command::Statistics => ("Statistics", b""),
            Command::ProcessInfo => ("Processlist", b""),
            Command::ProcessKill(_) => ("Kill", b""),
            Command::Ping => ("Ping", b""),
            Command::ChangeUser(_) => ("Change user", b""),
            Command::StmtSendLongData { .. } => ("Long Data", b""),
            Command::StmtClose(_) => ("Close stmt", b""),
            Command::StmtReset(_) => ("Reset stmt", b""),
            Command::StmtFetch { .. } => ("Fetch", b""),
            Command::SetOption(_) => ("Set option", b""),
            Command::ResetConnection => ("Reset connection", b""),
            Command::Debug => ("Debug", b""),
            Command::Shutdown => ("Shutdown", b""),
            Command::Quit => ("Quit", b""),
            Command::Unknown(_) => ("Error", b""),
        }
    }

    fn dispatch(&mut self, conn: &mut Connection, command: Command<'_>) -> After {
        let state = self.core.state.clone();
        match command {
            Command::Query(text) => return self.query(conn, text),
            Command::StmtExecute(rest) => return self.stmt_execute(conn, rest),
            Command::StmtBulkExecute(rest) => return self.stmt_bulk_execute(conn, rest),
            Command::StmtPrepare(text) => self.stmt_prepare(conn, text),
            Command::StmtClose(number) => {
                self.core.count(Counter::StatementClose, 1);
                self.core.statements.close(&state, number);
            }
            Command::StmtSendLongData { statement, param, data } => {
                self.core.count(Counter::StatementSendLongData, 1);
                let max = self.core.sql.vars.max_allowed_packet;
                let host = self.core.sql.host.clone();
                if let Some(prepared) = self.core.statements.get(statement) {
                    prepared.add_long_data(usize::from(param), data, max, &host);
                }
            }
            Command::StmtReset(number) => self.stmt_reset(conn, number),
            Command::StmtFetch { statement, rows } => self.stmt_fetch(conn, statement, rows),
            Command::Quit => {
                self.dismissed = true;
                return After::Close;
            }
            Command::ChangeUser(rest) => return self.change_user(conn, rest),
            Command::Statistics => self.statistics(conn),
            Command::FieldList { table, wild } => self.field_list(conn, table, wild),
            Command::ProcessInfo => {
                self.core.count(Counter::ShowProcesslist, 1);
                let rows = show::admin::processlist(&self.core.caller(), false);
                self.send_table(conn, rows, false, false);
            }
            other => self.simple(conn, other),
        }
        After::Idle
    }

    /// Commands that are answered by OK or an error.
    fn simple(&mut self, conn: &mut Connection, command: Command<'_>) {
        let state = self.core.state.clone();
        let result = match command {
            Command::Ping => {
                self.core.count(Counter::Admin, 1);
                Ok(())
            }
            Command::Debug => {
                self.core.count(Counter::Admin, 1);
                self.send_eof(conn);
                return;
            }
            Command::Refresh(what) => {
                self.core.count(Counter::Flush, 1);
                statement::refresh(&mut self.core, what)
            }
            Command::BinlogDump => Err(errors::master_fatal_error_reading_binlog("Binary log is not open")),
            Command::InitDb(name) => {
                self.core.count(Counter::ChangeDatabase, 1);
                self.init_db(name)
            }
            Command::ProcessKill(id) => {
                self.core.count(Counter::Kill, 1);
                kill::connection(&mut self.core, u64::from(id), false)
            }
            Command::SetOption(option) => self.set_option(conn, option),
            Command::ResetConnection => self.core.reset(),
            Command::Shutdown => see::expired(&self.core.sql)
                .and_then(|()| see::require_global(&self.core.sql, Privileges::SHUTDOWN))
                .map(|()| state.stop_requested.set()),
            _ => Err(errors::unknown_com()),
        };
        match result {
            Ok(()) if matches!(command, Command::SetOption(_)) => {}
            Ok(()) => self.send_ok(conn, reply::Ok::default(), false),
            Err(error) => self.send_error(conn, &error),
        }
        self.renew_timeouts(conn);
    }

    fn init_db(&mut self, name: &[u8]) -> SqlResult<()> {
        let converted = self.in_utf8(name);
        match std::str::from_utf8(converted.as_deref().unwrap_or(name)) {
            Ok("") => Err(errors::no_db()),
            Ok(name) => {
                self.core.use_database(name)?;
                self.core.track_state();
                Ok(())
            }
            Err(_) => {
                let charset = self.core.sql.vars.client_collation.charset();
                Err(errors::invalid_character_string(charset.name(), shown_octets(name)))
            }
        }
    }

    /// Answers with EOF, as MariaDB does.
    fn set_option(&mut self, conn: &mut Connection, option: u16) -> SqlResult<()> {
        if option > 1 {
            return Err(errors::unknown_com());
        }
        self.core.count(Counter::SetOption, 1);
        self.core.capabilities.set(Capabilities::MULTI_STATEMENTS, option == 0);
        self.send_eof(conn);
        Ok(())
    }

    fn send_eof(&mut self, conn: &mut Connection) {
        let status = self.core.status();
        reply::append_eof(conn.output(), 0, status, &mut self.sequence);
    }

    fn statistics(&mut self, conn: &mut Connection) {
        self.core.count(Counter::ShowStatus, 1);
        let text = show::status::one_line(&self.core.state);
        packet::append(conn.output(), text.as_bytes(), &mut self.sequence);
    }

    fn field_list(&mut self, conn: &mut Connection, table: &[u8], wild: &[u8]) {
        self.core.count(Counter::ShowFields, 1);
        let converted = self.in_utf8(table);
        let table = String::from_utf8_lossy(converted.as_deref().unwrap_or(table));
        let wild = String::from_utf8_lossy(wild);
        match show::tables::fields(&self.core.caller(), &table, &wild) {
            Ok(fields) => {
                let results = self.core.sql.vars.results_collation;
                let extended = self.core.capabilities.has(Capabilities::EXTENDED_METADATA);
                for (meta, default) in &fields {
                    let column = crate::sink::wire_column(meta, results, extended);
                    let (out, sequence) = (conn.output(), &mut self.sequence);
                    crate::sink::append_field(out, &column, default.as_deref(), results, sequence);
                }
                let end = reply::Ok { status: self.core.status(), ..reply::Ok::default() };
                reply::append_end_of_rows(conn.output(), &end, self.core.capabilities, &mut self.sequence);
            }
            Err(error) => self.send_error(conn, &error),
        }
    }
}

/// The longest text that 1300 shows.
const SHOWN_BYTES_MAX: usize = 64;

/// Octets that are no text, as messages show them.
fn shown_octets(octets: &[u8]) -> String {
    let mut shown = String::new();
    for octet in octets.iter().take(SHOWN_BYTES_MAX + 1) {
        match octet {
            b' '..=b'~' => shown.push(char::from(*octet)),
            _ => shown.push_str(&format!("\\x{octet:02X}")),
        }
    }
    if shown.len() > SHOWN_BYTES_MAX {
        shown.truncate(SHOWN_BYTES_MAX - 3);
        shown.push_str("...");
    }
    shown
}

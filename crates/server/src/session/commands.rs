//! Commands of an authenticated client.

use keel_base::errors;
use keel_query::Session;
use keel_runtime::net::{After, Connection};
use keel_runtime::time;
use keel_wire::capability::Capabilities;
use keel_wire::command::Command;
use keel_wire::{packet, reply};

use super::ClientSession;
use crate::counters::Counter;
use crate::{show, statement};

impl ClientSession {
    /// Takes one command and appends its answer to the output.
    pub(super) fn command(&mut self, conn: &mut Connection, payload: &[u8]) -> After {
        let Ok(command) = Command::decode(payload) else {
            self.send_error(conn, &errors::malformed_packet());
            return After::Idle;
        };
        let (name, text) = self.describe(&command);
        self.core.client.activity.lock().begin(name, text, time::now());
        self.core.client.interrupt.clear_query();
        self.core.sql.diagnostics.stale = true;
        self.core.sql.no_index_used = false;
        let state = self.core.state.clone();
        state.counters.add(Counter::Running, 1);
        let after = self.dispatch(conn, command);
        self.core.text_room = None;
        state.counters.sub(Counter::Running, 1);
        self.core.client.activity.lock().end();
        after
    }

    fn describe<'a>(&self, command: &Command<'a>) -> (&'static str, &'a [u8]) {
        match command {
            Command::Query(text) => ("Query", text),
            Command::StmtExecute(_) => ("Execute", b""),
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
                let rows = show::admin::processlist(&self.core, false);
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
            Command::Refresh(_) => {
                self.core.count(Counter::Flush, 1);
                Ok(())
            }
            Command::BinlogDump => Err(errors::master_fatal_error_reading_binlog("Binary log is not open")),
            Command::InitDb(name) => {
                self.core.count(Counter::ChangeDatabase, 1);
                match std::str::from_utf8(name) {
                    Ok("") => Err(errors::no_db()),
                    Ok(name) => self.core.use_database(name),
                    Err(_) => Err(errors::bad_db(String::from_utf8_lossy(name))),
                }
            }
            Command::ProcessKill(id) => {
                self.core.count(Counter::Kill, 1);
                statement::kill(&mut self.core, u64::from(id), false)
            }
            Command::SetOption(option) => self.set_option(conn, option),
            Command::ResetConnection => self.core.reset(),
            Command::Shutdown => {
                state.stop_requested.set();
                Ok(())
            }
            _ => Err(errors::unknown_com()),
        };
        match result {
            Ok(()) if matches!(command, Command::SetOption(_)) => {}
            Ok(()) => self.send_ok(conn, reply::Ok::default(), false),
            Err(error) => self.send_error(conn, &error),
        }
        self.renew_timeouts(conn);
    }

    /// Answers with EOF, as MariaDB does.
    fn set_option(&mut self, conn: &mut Connection, option: u16) -> keel_base::SqlResult<()> {
        if option > 1 {
            return Err(errors::unknown_com());
        }
        self.core.capabilities.set(Capabilities::MULTI_STATEMENTS, option == 0);
        self.send_eof(conn);
        Ok(())
    }

    fn send_eof(&mut self, conn: &mut Connection) {
        let status = self.core.status();
        reply::append_eof(conn.output(), 0, status, &mut self.sequence);
    }

    fn statistics(&mut self, conn: &mut Connection) {
        let text = show::status::one_line(&self.core.state);
        packet::append(conn.output(), text.as_bytes(), &mut self.sequence);
    }

    fn field_list(&mut self, conn: &mut Connection, table: &[u8], wild: &[u8]) {
        let (table, wild) = (String::from_utf8_lossy(table), String::from_utf8_lossy(wild));
        match show::tables::fields(&self.core, &table, &wild) {
            Ok(fields) => {
                let results = self.core.sql.vars.results_collation;
                for (meta, default) in &fields {
                    let column = crate::sink::wire_column(meta, results);
                    crate::sink::append_field(conn.output(), &column, default.as_deref(), &mut self.sequence);
                }
                let end = reply::Ok { status: self.core.status(), ..reply::Ok::default() };
                reply::append_end_of_rows(conn.output(), &end, self.core.capabilities, &mut self.sequence);
            }
            Err(error) => self.send_error(conn, &error),
        }
    }

    /// The executor's session; for tests.
    pub fn sql(&self) -> &Session {
        &self.core.sql
    }
}

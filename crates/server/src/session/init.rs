//! `init_connect`: statements that run before the first command of a new connection.
//!
//! Their results are discarded. If one fails, the answer to the first command is error 1184 and the connection ends.

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::account::Privileges;
use keel_logs::Severity;
use keel_runtime::net::{After, Connection};
use keel_runtime::{fiber, time};
use keel_views::counters::Counter;
use keel_wire::capability::Capabilities;

use super::ClientSession;
use super::execute::trim_end;
use super::logging::Text;

/// The reason in error 1184.
const REASON: &str = "init_connect command failed";

impl ClientSession {
    /// Runs `init_connect` in a connection that has just been accepted. CONNECTION ADMIN exempts from it.
    pub(super) fn run_init_connect(&mut self, conn: &mut Connection) -> After {
        let setting = self.core.state.globals.named("init_connect");
        let text = setting.as_text();
        let exempting = Privileges::CONNECTION_ADMIN.and(Privileges::SUPER);
        if text.is_empty() || self.core.sql.access.global.has_any(exempting) {
            return After::Idle;
        }
        if self.flush(conn).is_err() {
            return After::Close;
        }
        let (capabilities, sequence) = (self.core.capabilities, self.sequence);
        let granted = capabilities.0 | Capabilities::MULTI_STATEMENTS.0;
        self.core.capabilities = Capabilities(granted & !Capabilities::LOCAL_FILES.0);
        self.core.sql.sends_files = false;
        conn.discard_output(true);
        let result = self.run_init_texts(conn, text.as_bytes());
        conn.output().clear();
        conn.discard_output(false);
        self.core.sql.sends_files = capabilities.has(Capabilities::LOCAL_FILES);
        (self.core.capabilities, self.sequence) = (capabilities, sequence);
        self.released = false;
        self.core.client.activity.lock().end();
        if let Err(error) = result {
            self.fail_init(&error);
        }
        After::Idle
    }

    fn run_init_texts(&mut self, conn: &mut Connection, text: &[u8]) -> SqlResult<()> {
        let converted = self.in_utf8(text);
        let mut rest = trim_end(converted.as_deref().unwrap_or(text));
        self.log_command(conn, "Query", rest);
        if rest.is_empty() {
            return Err(errors::empty_query());
        }
        loop {
            fiber::begin_statement();
            self.core.tally.began = time::now();
            self.core.sql.diagnostics.stale = true;
            self.count_question();
            let result = self.one_text(conn, rest);
            self.core.end_rooms();
            conn.output().clear();
            let end = result.as_ref().ok().copied().flatten().unwrap_or(rest.len());
            self.end_statement(conn, &Text::Plain(trim_end(&rest[..end])));
            if let Err(error) = &result {
                self.core.note_error(error);
            }
            let next = result?;
            if self.core.client.is_killed() {
                return Err(errors::connection_killed());
            }
            match next {
                Some(next) if !self.released => rest = &rest[next..],
                _ if self.released => return Err(errors::connection_killed()),
                _ => return Ok(()),
            }
        }
    }

    /// Logs the failure; the first command reports it.
    fn fail_init(&mut self, error: &SqlError) {
        let id = self.core.client.id;
        let aborting = self.aborting_error();
        let logs = &self.core.state.logs;
        for text in [&aborting.message, &error.message] {
            logs.error_above(0, Severity::Warning, id, &keel_logs::one_line(text));
        }
        self.core.count(Counter::AbortedClients, 1);
        self.dismissed = true;
        self.init_failed = true;
    }

    /// Answers the first command after a failure.
    pub(super) fn report_failed_init(&mut self, conn: &mut Connection) -> After {
        let error = self.aborting_error();
        self.send_error(conn, &error);
        After::Close
    }

    fn aborting_error(&self) -> SqlError {
        let sql = &self.core.sql;
        let database = sql.database.as_deref().unwrap_or("unconnected");
        errors::new_aborting_connection(self.core.client.id, database, &*sql.user, &*sql.client_host, REASON)
    }
}

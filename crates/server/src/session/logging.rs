//! What a session has logged: its commands, slow statements, and how it came and went.

use keel_base::{SqlError, code};
use keel_database::StatementKind;
use keel_exec::PlanCounts;
use keel_logs::{GENERAL, SLOW, Severity, SlowRecord, Who};
use keel_runtime::net::{Connection, Peer};
use keel_runtime::{time, wait};
use keel_value::Value;
use keel_views::counters::Counter;

use super::ClientSession;

/// What a statement that has ended leaves for the slow log.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Which statement; none of those that the server answers itself.
    pub kind: Option<StatementKind>,
    /// Rows of its result.
    pub rows_sent: u64,
    /// Rows that it changed.
    pub rows_affected: u64,
    /// Rows that it read.
    pub rows_examined: u64,
    /// How it went about them.
    pub plan: PlanCounts,
    /// When the command, or the statement before it, began and ended.
    pub began: time::Instant,
    /// What had been sent and waited for by then; only told while the slow log is on.
    bytes_before: u64,
    locked_before: u64,
}

/// A statement's text.
pub(super) enum Text<'a> {
    /// As it came.
    Plain(&'a [u8]),
    /// Prepared: its number and its parameters.
    Prepared(u32, &'a [Value]),
}

impl ClientSession {
    /// Begins to measure a command, where something is logged.
    #[cold]
    pub(super) fn begin_tally(&mut self) {
        let began = self.core.tally.began;
        self.core.tally = Tally {
            began,
            bytes_before: self.core.client.counters.get(Counter::BytesSent),
            locked_before: wait::on_locks_of_current_fiber(),
            ..Tally::default()
        };
    }

    /// A command in the general log, where that is on.
    #[cold]
    pub(super) fn log_command(&self, conn: &Connection, command: &str, text: &[u8]) {
        let logs = &self.core.state.logs;
        if logs.on() & GENERAL == 0 || self.core.setting("sql_log_off").is_on() {
            return;
        }
        let user_host = self.user_host(conn);
        logs.general(&Who { id: self.core.client.id, user_host: &user_host }, command, text);
    }

    /// An execution of a prepared statement in the general log.
    #[cold]
    pub(super) fn log_execution(&mut self, conn: &Connection, number: u32, values: &[Value]) {
        let text = self.text_of(&Text::Prepared(number, values));
        self.log_command(conn, "Execute", &text);
    }

    /// `user[user] @ host [address]`
    fn user_host(&self, conn: &Connection) -> String {
        let sql = &self.core.sql;
        let address = match conn.peer() {
            Peer::Unix => String::new(),
            Peer::Tcp(address) => address.ip().to_canonical().to_string(),
        };
        let text = format!("{}[{}] @ {} [{address}]", sql.access.user, sql.user, sql.client_host);
        keel_logs::one_line(&text).into_owned()
    }

    fn text_of(&mut self, text: &Text<'_>) -> Vec<u8> {
        match text {
            Text::Plain(text) => text.to_vec(),
            Text::Prepared(number, values) => match self.core.statements.get(*number) {
                Some(prepared) => keel_logs::expand(&prepared.text, values),
                None => Vec::new(),
            },
        }
    }

    /// A statement has ended: counts and logs it where it was slow.
    #[inline]
    pub(super) fn end_statement(&mut self, conn: &mut Connection, text: &Text<'_>) {
        let tally = &self.core.tally;
        let limit = self.core.sql.vars.long_query_micros;
        let now = time::recent();
        let may_be_slow = now.since(tally.began).as_micros() as u64 >= limit;
        if may_be_slow || self.core.state.logs.on() & SLOW != 0 {
            self.end_measured(conn, text);
        } else {
            // The next statement of the same text begins here.
            self.core.tally.began = now.max(tally.began);
        }
    }

    #[cold]
    fn end_measured(&mut self, conn: &mut Connection, text: &Text<'_>) {
        let tally = self.core.tally;
        let now = time::now();
        let nanos = now.since(tally.began).as_nanos() as u64;
        let is_on = self.core.state.logs.on() & SLOW != 0;
        let locked = wait::on_locks_of_current_fiber().saturating_sub(tally.locked_before);
        // Without the log nobody has noted what was waited for before.
        let lock_nanos = if is_on { locked.min(nanos) } else { 0 };
        if self.counts_as_slow(nanos - lock_nanos) {
            self.core.count(Counter::SlowQueries, 1);
            if is_on && self.is_logged_when_slow() {
                self.log_slow(conn, text, nanos, lock_nanos);
            }
        }
        // The next statement of the same text begins here.
        self.core.tally.began = now;
        self.begin_tally();
        self.core.tally.bytes_before += conn.output().len() as u64;
    }

    fn counts_as_slow(&self, nanos: u64) -> bool {
        let slow = nanos / 1000 >= self.core.sql.vars.long_query_micros;
        let unindexed =
            || self.core.sql.no_index_used && self.core.setting("log_queries_not_using_indexes").is_on();
        (slow || unindexed())
            && self.core.tally.rows_examined >= self.core.setting("min_examined_row_limit").as_u64()
    }

    /// What the session's variables say.
    fn is_logged_when_slow(&self) -> bool {
        if !self.core.setting("slow_query_log").is_on() {
            return false;
        }
        let rate = self.core.setting("log_slow_rate_limit").as_u64();
        if rate > 1 && !self.core.client.counters.get(Counter::SlowQueries).is_multiple_of(rate) {
            return false;
        }
        let is_admin = self.core.tally.kind.is_some_and(is_admin);
        if is_admin && !self.core.setting("log_slow_admin_statements").is_on() {
            return false;
        }
        let filter = self.core.setting("log_slow_filter");
        let unindexed = self.core.sql.no_index_used;
        filter.as_text().is_empty()
            || filter.as_text().split(',').any(|word| match word {
                // There is no query cache.
                "query_cache_miss" => true,
                "admin" => is_admin,
                "full_scan" | "not_using_index" => unindexed,
                _ => false,
            })
    }

    fn log_slow(&mut self, conn: &mut Connection, text: &Text<'_>, nanos: u64, lock_nanos: u64) {
        let text = self.text_of(text);
        let sent = self.core.client.counters.get(Counter::BytesSent) + conn.output().len() as u64;
        let user_host = self.user_host(conn);
        let sql = &self.core.sql;
        let began = time::unix_micros() - (nanos / 1000) as i64;
        let verbosity = self.core.setting("log_slow_verbosity");
        let tells = |word: &str| verbosity.as_text().split(',').any(|own| own == word || own == "full");
        let warnings = match sql.diagnostics.stale || !tells("warnings") {
            true => &[],
            false => sql.diagnostics.warnings.as_slice(),
        };
        let warnings_max = self.core.setting("log_slow_max_warnings").as_u64() as usize;
        let tally = &self.core.tally;
        let record = SlowRecord {
            time: sql.vars.timestamp.unwrap_or(began),
            nanos,
            lock_nanos,
            rows_sent: tally.rows_sent,
            rows_examined: tally.rows_examined,
            rows_affected: tally.rows_affected,
            bytes_sent: sent.saturating_sub(tally.bytes_before),
            database: sql.database.as_deref().unwrap_or(""),
            text: &keel_logs::secrets::hidden(&text),
            plan: tells("query_plan").then_some(tally.plan),
            warnings: &warnings[..warnings.len().min(warnings_max)],
        };
        let who = Who { id: self.core.client.id, user_host: &user_host };
        self.core.state.logs.slow(&who, &record);
    }

    /// A client that has been let in, in the general log.
    pub(super) fn log_connection(&self, conn: &Connection, command: &str) {
        if self.core.state.logs.on() & GENERAL == 0 {
            return;
        }
        let sql = &self.core.sql;
        let by = match conn.peer() {
            _ if self.core.client.encryption().is_some() => "SSL/TLS",
            Peer::Unix => "Socket",
            Peer::Tcp(_) => "TCP/IP",
        };
        let database = sql.database.as_deref().unwrap_or("");
        let text = format!("{}@{} on {database} using {by}", sql.user, sql.client_host);
        self.log_command(conn, command, keel_logs::one_line(&text).as_bytes());
    }

    /// A client that was refused, in the general log and the error log.
    pub(super) fn log_refusal(&self, conn: &Connection, error: &SqlError) {
        self.log_command(conn, "Connect", keel_logs::one_line(&error.message).as_bytes());
        if matches!(error.code, code::ACCESS_DENIED | code::ACCESS_DENIED_NO_PASSWORD) {
            let logs = &self.core.state.logs;
            logs.error_above(1, Severity::Warning, self.core.client.id, &keel_logs::one_line(&error.message));
        }
    }

    /// A client that went without leave, in the error log.
    pub(super) fn log_lost(&self) {
        let sql = &self.core.sql;
        let idle = self.core.client.activity.lock().since.elapsed();
        let (level, reason) = match self.core.client.is_killed() {
            true => (2, "KILLED"),
            false if idle >= self.idle_timeout => (1, "Got timeout reading communication packets"),
            false => (1, "Got an error reading communication packets"),
        };
        let (id, user, host) = (self.core.client.id, &sql.user, &sql.client_host);
        let database = sql.database.as_deref().unwrap_or("unconnected");
        let text =
            format!("Aborted connection {id} to db: '{database}' user: '{user}' host: '{host}' ({reason})");
        self.core.state.logs.error_above(level, Severity::Warning, id, &keel_logs::one_line(&text));
    }
}

/// Statements of administrators: `log_slow_admin_statements`.
fn is_admin(kind: StatementKind) -> bool {
    use StatementKind::*;
    matches!(kind, AlterTable | CreateIndex | DropIndex | Check | Analyze | Optimize | Repair)
}

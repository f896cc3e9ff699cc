//! Statements: as text, and prepared.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keel_base::{SqlError, SqlResult, errors};
use keel_database::{Params, Plan};
use keel_exec::{Completion, HandlerCounts, PlanCounts, ResultColumns, RowSink, RowView};
use keel_runtime::fiber;
use keel_runtime::net::{After, Connection};
use keel_runtime::wait::WaitEvent;
use keel_sql::ast::Statement;
use keel_sql::rows::RowsSpan;
use keel_sql::{LiteralRows, ParseOptions};
use keel_value::collation::{self, Charset};
use keel_value::types::flags;
use keel_value::{CollationId, Value};
use keel_views::counters::Counter;
use keel_views::show::Rows;
use keel_wire::capability::{Capabilities, Status, type_code};
use keel_wire::packet;
use keel_wire::params::{CURSOR_READ_ONLY, Execute};
use keel_wire::reply::{self, Column, Extended, PrepareOk, append_column};

use super::ClientSession;
use super::logging::Text;
use crate::core::Core;
use crate::prepared::Source;
use crate::sink::{self, Manner, ResultSink};
use crate::statement::{self, Outcome};

/// How a statement's answer is sent.
#[derive(Clone, Copy)]
pub(super) struct Form {
    binary: bool,
    /// Another statement follows in the same text.
    more: bool,
    /// The statement was not prepared: what its text deserves is told now.
    fresh: bool,
}

const TEXT: Form = Form { binary: false, more: false, fresh: true };
pub(super) const BINARY: Form = Form { binary: true, more: false, fresh: false };

/// `completion_type` of sessions that end with each transaction.
const RELEASES: u8 = 2;

/// Most statements that EXECUTE may nest.
pub(super) const NESTING_MAX: usize = 8;

/// Bytes of a text beyond which its buffers for literals are not kept for the next one.
const TEXT_BYTES_KEPT: usize = 16 << 10;

/// Bytes of a text whose tree is freed beside the worker: each part of it was allocated by itself.
const TREE_FREED_APART: usize = 64 << 10;

/// Lets go of the plan of a text.
fn release(plan: Arc<Plan>, text: &[u8]) {
    if text.len() > TREE_FREED_APART {
        fiber::blocking(WaitEvent::Blocking, move || drop(plan));
    }
}

impl ClientSession {
    /// COM_QUERY: one statement, or several where the client asked for that.
    pub(super) fn query(&mut self, conn: &mut Connection, text: &[u8]) -> After {
        let converted;
        let mut rest = match self.in_utf8(text) {
            Some(utf8) => {
                converted = utf8;
                converted.as_slice()
            }
            None => text,
        };
        rest = trim_end(rest);
        if rest.is_empty() {
            self.send_error(conn, &errors::empty_query());
            return After::Idle;
        }
        loop {
            self.core.sql.diagnostics.stale = true;
            let result = self.one_text(conn, rest);
            self.core.end_rooms();
            match result {
                Ok(Some(next)) if !self.released && !self.core.client.is_killed() => {
                    self.end_statement(conn, &Text::Plain(trim_end(&rest[..next])));
                    rest = &rest[next..];
                    self.count_question();
                    fiber::begin_statement();
                }
                Ok(_) => {
                    self.end_statement(conn, &Text::Plain(rest));
                    return self.after_statement();
                }
                Err(error) => {
                    self.send_error(conn, &error);
                    self.end_statement(conn, &Text::Plain(rest));
                    return self.after_statement();
                }
            }
        }
    }

    pub(super) fn count_question(&self) {
        self.core.count(Counter::Queries, 1);
        self.core.count(Counter::Questions, 1);
    }

    pub(super) fn after_statement(&self) -> After {
        if self.released || self.core.client.is_killed() { After::Close } else { After::Idle }
    }

    /// The text in UTF-8, where the client's character set is another.
    pub(super) fn in_utf8(&self, text: &[u8]) -> Option<Vec<u8>> {
        let from = self.core.sql.vars.client_collation.charset();
        let converts = !from.is_utf8() && !text.is_ascii();
        converts.then(|| collation::convert(from, Charset::Utf8mb4, text).0.into_owned())
    }

    /// Runs the first statement of a text; gives where the next one begins.
    pub(super) fn one_text(&mut self, conn: &mut Connection, text: &[u8]) -> SqlResult<Option<usize>> {
        let options = statement::parse_options(&self.core, false);
        let rows = LiteralRows::find(text, &options);
        self.core.admit_text(text, rows.is_some())?;
        if let Some(rows) = rows {
            return self.one_text_of_rows(conn, text, &options, rows);
        }
        let mut params = std::mem::take(&mut self.params);
        let result = self.one_text_with(conn, text, &options, &mut params);
        if text.len() <= TEXT_BYTES_KEPT {
            params.values.clear();
            self.params = params;
        }
        result
    }

    /// The same for an INSERT whose rows stay text. No plan of another text fits it.
    fn one_text_of_rows(
        &mut self,
        conn: &mut Connection,
        text: &[u8],
        options: &ParseOptions,
        rows: RowsSpan,
    ) -> SqlResult<Option<usize>> {
        let parsed = keel_sql::parse_with_rows(text, options, rows)?;
        let rest = parsed.rest_offset;
        let form = Form { more: rest.is_some(), ..TEXT };
        let database = self.core.state.database().clone();
        database.refuse_by_names(&self.core.sql, &parsed.statement)?;
        let plan = database.prepare(&mut self.core.sql, Arc::new(parsed.statement), parsed.param_count)?;
        let result = self.run_plan(conn, &plan, &[], form, None);
        release(plan, text);
        result.map(|_| rest)
    }

    fn one_text_with(
        &mut self,
        conn: &mut Connection,
        text: &[u8],
        options: &ParseOptions,
        params: &mut Params,
    ) -> SqlResult<Option<usize>> {
        let state = self.core.state.clone();
        if let Some(plan) = state.database().cached(&mut self.core.sql, text, params) {
            return self.run_plan(conn, &plan, &params.values, TEXT, None).map(|_| None);
        }
        let parsed = keel_sql::parse(text, options)?;
        self.core.trimmed_names.clone_from(&parsed.trimmed);
        let result = self.one_parsed(conn, text, parsed, params);
        let trimmed = std::mem::take(&mut self.core.trimmed_names);
        statement::warn_of_names(&mut self.core, &trimmed);
        result
    }

    fn one_parsed(
        &mut self,
        conn: &mut Connection,
        text: &[u8],
        parsed: keel_sql::Parsed,
        params: &mut Params,
    ) -> SqlResult<Option<usize>> {
        let state = self.core.state.clone();
        let rest = parsed.rest_offset;
        let form = Form { more: rest.is_some(), ..TEXT };
        if statement::is_servers(&parsed.statement) {
            let trimmed = std::mem::take(&mut self.core.trimmed_names);
            statement::warn_of_names(&mut self.core, &trimmed);
            let statement = Arc::new(parsed.statement);
            self.run_server_statement(conn, &statement, &[], form, 0)?;
            return Ok(rest);
        }
        let plan = state.database().plan_text(&mut self.core.sql, text, parsed, params)?;
        let result = self.run_plan(conn, &plan, &params.values, form, None);
        release(plan, text);
        result.map(|_| rest)
    }

    /// Runs a plan and appends its answer; gives the result's columns.
    pub(super) fn run_plan(
        &mut self,
        conn: &mut Connection,
        plan: &Arc<Plan>,
        params: &[Value],
        form: Form,
        known: Option<Arc<ResultColumns>>,
    ) -> SqlResult<Option<Arc<ResultColumns>>> {
        if let Some(counter) = Counter::of(plan.kind) {
            self.core.count(counter, 1);
        }
        if let Some(limited) = &self.core.limited
            && (plan.kind.changes_rows() || plan.kind.defines())
        {
            limited.count(true)?;
        }
        if plan.kind == keel_database::StatementKind::Truncate
            && statement::truncate_log(&mut self.core, &plan.statement)?
        {
            self.send_ok(conn, reply::Ok::default(), form.more);
            return Ok(None);
        }
        self.core.tally.kind = Some(plan.kind);
        self.core.client.tables.store(plan.table_count() as u32, Ordering::Relaxed);
        let manner = self.manner(form, known);
        let mut sequence = self.sequence;
        let mut sink = ResultSink::new(conn, &mut sequence, manner);
        let result = execute(&mut self.core, plan, params, &mut sink);
        let goes_on = sink.end_upload();
        self.core.count(Counter::BytesSent, sink.bytes_sent);
        let columns = sink.into_columns();
        self.sequence = sequence;
        self.released |= !goes_on;
        if form.fresh {
            statement::warn_of_text(&mut self.core, &plan.statement);
            let trimmed = std::mem::take(&mut self.core.trimmed_names);
            statement::warn_of_names(&mut self.core, &trimmed);
        }
        self.core.count_handlers();
        let completion = result?;
        self.finish_plan(conn, plan, &completion, columns.is_some(), form);
        Ok(columns)
    }

    pub(super) fn finish_plan(
        &mut self,
        conn: &mut Connection,
        plan: &Plan,
        completion: &Completion,
        had_rows: bool,
        form: Form,
    ) {
        if had_rows {
            self.core.tally.rows_sent = completion.affected_rows;
            self.count_rows(completion.affected_rows);
            return self.end_rows(conn, form);
        }
        self.core.tally.rows_affected = completion.affected_rows;
        if let Statement::Commit(how) | Statement::Rollback(how) = &*plan.statement {
            self.released = how.release.unwrap_or(self.core.sql.vars.completion_type == RELEASES);
        }
        if plan.kind == keel_database::StatementKind::DropDatabase {
            statement::forget_dropped_database(&mut self.core);
        }
        let ok = reply::Ok {
            affected_rows: completion.affected_rows,
            last_insert_id: completion.last_insert_id,
            info: completion.info.as_deref().unwrap_or(""),
            ..reply::Ok::default()
        };
        self.send_ok(conn, ok, form.more);
    }

    fn count_rows(&self, rows: u64) {
        match rows {
            0 => self.core.count(Counter::EmptyQueries, 1),
            rows => self.core.count(Counter::RowsSent, rows),
        }
    }

    fn end_rows(&mut self, conn: &mut Connection, form: Form) {
        let mut status = self.core.status();
        status.set(Status::MORE_RESULTS, form.more);
        let changes = std::mem::take(&mut self.core.changes);
        let warnings = self.core.warning_count();
        let end = reply::Ok { status, warnings, changes: &changes, ..reply::Ok::default() };
        reply::append_end_of_rows(conn.output(), &end, self.core.capabilities, &mut self.sequence);
    }

    pub(super) fn manner(&self, form: Form, known: Option<Arc<ResultColumns>>) -> Manner {
        let mut status = self.core.status();
        status.set(Status::MORE_RESULTS, form.more);
        Manner {
            capabilities: self.core.capabilities,
            binary: form.binary,
            results: self.core.sql.vars.results_collation,
            zone: self.core.sql.vars.time_zone.clone(),
            status,
            known,
        }
    }

    /// Runs a statement of the server itself and appends its answer.
    fn run_server_statement(
        &mut self,
        conn: &mut Connection,
        statement: &Arc<Statement>,
        params: &[Value],
        form: Form,
        depth: usize,
    ) -> SqlResult<()> {
        if !statement::is_servers(statement) {
            // Its errors were left to the execution.
            return self.run_tree(conn, statement.clone(), params, form, depth);
        }
        self.core.sql.no_index_used = false;
        let outcome = statement::run(&mut self.core, statement, params);
        let shows_status = statement::shows_status(statement);
        if shows_status {
            // SHOW STATUS does not count itself.
            self.core.sql.handler = HandlerCounts::default();
            self.core.sql.plan_counts = PlanCounts::default();
        }
        self.core.count_handlers();
        match outcome? {
            Outcome::Ok(info) => {
                self.core.sql.row_count = 0;
                self.send_ok(conn, reply::Ok { info, ..reply::Ok::default() }, form.more);
            }
            Outcome::Affected(affected_rows) => {
                self.core.sql.row_count = affected_rows as i64;
                self.send_ok(conn, reply::Ok { affected_rows, ..reply::Ok::default() }, form.more);
            }
            Outcome::Rows(rows) => {
                self.core.sql.row_count = -1;
                // Of those only that are tables of `information_schema`.
                if is_of_table(&rows) && !shows_status {
                    self.count_rows(rows.rows.len() as u64);
                }
                self.send_table(conn, rows, form.binary, form.more);
            }
            Outcome::Run { source, params } => {
                let outer = std::mem::replace(&mut self.core.sql.by_execute, true);
                let result = self.run_source(conn, &source, &params, form, depth + 1);
                self.core.sql.by_execute = outer;
                result?;
            }
            Outcome::RunWith { items, statement } => {
                let before = statement::begin_with(&mut self.core, &items, params)?;
                self.core.keeps_warnings = !self.core.sql.diagnostics.stale;
                let result = self.run_tree(conn, statement, params, form, depth + 1);
                self.core.keeps_warnings = false;
                statement::end_with(&mut self.core, before);
                result?;
            }
        }
        self.renew_timeouts(conn);
        Ok(())
    }

    fn run_tree(
        &mut self,
        conn: &mut Connection,
        tree: Arc<Statement>,
        params: &[Value],
        form: Form,
        depth: usize,
    ) -> SqlResult<()> {
        let source = statement::source_of(&mut self.core, tree, params.len())?;
        self.run_source(conn, &source, params, form, depth)
    }

    fn run_source(
        &mut self,
        conn: &mut Connection,
        source: &Source,
        params: &[Value],
        form: Form,
        depth: usize,
    ) -> SqlResult<()> {
        if depth > NESTING_MAX {
            return Err(errors::unsupported_ps());
        }
        match source {
            Source::Plan(plan) => {
                self.run_plan(conn, plan, params, Form { fresh: false, ..form }, None).map(|_| ())
            }
            Source::Server(statement) => self.run_server_statement(conn, statement, params, form, depth),
        }
    }

    /// Appends a made-up result.
    pub(super) fn send_table(&mut self, conn: &mut Connection, rows: Rows, binary: bool, more: bool) {
        let form = Form { binary, more, fresh: false };
        // Made from a table of `information_schema`, which has no index.
        self.core.sql.no_index_used = is_of_table(&rows);
        if self.core.sql.no_index_used {
            self.core.sql.found_rows = rows.rows.len() as u64;
        }
        if self.core.sql.no_index_used && self.core.sql.diagnostics.stale {
            self.core.sql.diagnostics.clear();
        }
        self.core.tally.rows_sent = rows.rows.len() as u64;
        let manner = self.manner(form, None);
        let mut sequence = self.sequence;
        let mut sink = ResultSink::new(conn, &mut sequence, manner);
        let result = send_rows(&mut sink, &rows);
        self.core.count(Counter::BytesSent, sink.bytes_sent);
        self.sequence = sequence;
        match result {
            Ok(()) => self.end_rows(conn, form),
            Err(error) => self.send_error(conn, &error),
        }
    }

    /// COM_STMT_PREPARE.
    pub(super) fn stmt_prepare(&mut self, conn: &mut Connection, text: &[u8]) {
        self.core.count(Counter::StatementPrepare, 1);
        let converted = self.in_utf8(text);
        let text = converted.as_deref().unwrap_or(text);
        let result = self.try_prepare(conn, text);
        match result {
            Ok(()) if self.core.state.logs.on() != 0 => self.log_command(conn, "Prepare", text),
            Ok(()) => {}
            Err(error) => {
                self.core.statements.note_failure();
                self.send_error(conn, &error);
            }
        }
    }

    fn try_prepare(&mut self, conn: &mut Connection, text: &[u8]) -> SqlResult<()> {
        let text = trim_end(text);
        if text.is_empty() {
            return Err(errors::empty_query());
        }
        let mut prepared = statement::prepare(&mut self.core, text)?;
        let columns = statement::columns_of(&mut self.core, &prepared)?;
        let params = u16::try_from(prepared.params).map_err(|_| errors::ps_many_param())?;
        prepared.sent = columns.clone();
        let number = self.core.statements.add(&self.core.state.clone(), prepared)?;
        let column_count = columns.as_ref().map_or(0, |c| c.columns.len());
        let ok = PrepareOk {
            statement: number,
            columns: column_count as u16,
            params,
            warnings: self.core.warning_count(),
        };
        let out = conn.output();
        let start = packet::begin(out);
        ok.encode(out);
        packet::finish(out, start, &mut self.sequence);
        self.send_definitions(conn, params, columns.as_deref());
        Ok(())
    }

    fn send_definitions(&mut self, conn: &mut Connection, params: u16, columns: Option<&ResultColumns>) {
        let has_eof = !self.core.capabilities.has(Capabilities::DEPRECATE_EOF);
        let status = self.core.status();
        for _ in 0..params {
            append_column(conn.output(), &param_column(self.core.capabilities), &mut self.sequence);
        }
        if params > 0 && has_eof {
            reply::append_eof(conn.output(), 0, status, &mut self.sequence);
        }
        let Some(columns) = columns else { return };
        let encoded = sink::encoded(columns, self.core.sql.vars.results_collation, self.core.capabilities);
        sink::append_definitions(conn.output(), &encoded, &mut self.sequence);
        if has_eof {
            reply::append_eof(conn.output(), 0, status, &mut self.sequence);
        }
    }

    /// COM_STMT_EXECUTE.
    pub(super) fn stmt_execute(&mut self, conn: &mut Connection, rest: &[u8]) -> After {
        self.core.count(Counter::StatementExecute, 1);
        if let Err(error) = self.try_execute(conn, rest) {
            self.send_error(conn, &error);
        }
        self.after_statement()
    }

    fn try_execute(&mut self, conn: &mut Connection, rest: &[u8]) -> SqlResult<()> {
        let execute = Execute::decode(rest).map_err(|_| errors::malformed_packet())?;
        let mut values = std::mem::take(&mut self.params.values);
        let Some(prepared) = self.core.statements.get(execute.statement) else {
            return Err(errors::unknown_stmt_handler(execute.statement, "mysqld_stmt_execute"));
        };
        if let Some(error) = &prepared.long_failed {
            return Err((**error).clone());
        }
        // Given back once the statement has run.
        let _long_memory = prepared.long_memory.take();
        let read = execute.params(prepared.params, &mut prepared.types, &mut prepared.long, &mut values);
        if read.is_err() {
            prepared.long.clear();
            return Err(errors::malformed_packet());
        }
        self.core.client.activity.lock().show_prepared(
            &prepared.text,
            prepared.source.changes_rows(),
            &values,
        );
        prepared.cursor = None;
        if self.core.state.logs.on() != 0 {
            self.log_execution(conn, execute.statement, &values);
        }
        let Some(prepared) = self.core.statements.get(execute.statement) else { return Ok(()) };
        let (source, known) = (prepared.source.clone(), prepared.sent.clone());
        let had_columns = known.clone();
        let reads = execute.cursor & CURSOR_READ_ONLY != 0;
        let result = match &source {
            Source::Plan(plan) if reads && plan.kind == keel_database::StatementKind::Select => {
                self.open_cursor(conn, execute.statement, plan, &values).map(|()| None)
            }
            Source::Plan(plan) => self.run_plan(conn, plan, &values, BINARY, known),
            Source::Server(statement) => {
                self.run_server_statement(conn, statement, &values, BINARY, 0).map(|()| None)
            }
        };
        self.end_statement(conn, &Text::Prepared(execute.statement, &values));
        values.clear();
        self.params.values = values;
        if let Some(columns) = result?
            && !had_columns.is_some_and(|known| Arc::ptr_eq(&known, &columns))
            && let Some(prepared) = self.core.statements.get(execute.statement)
        {
            prepared.sent = Some(columns);
        }
        Ok(())
    }

    /// COM_STMT_RESET.
    pub(super) fn stmt_reset(&mut self, conn: &mut Connection, number: u32) {
        self.core.count(Counter::StatementReset, 1);
        match self.core.statements.get(number) {
            Some(prepared) => {
                prepared.reset();
                self.send_ok(conn, reply::Ok::default(), false);
            }
            None => self.send_error(conn, &errors::unknown_stmt_handler(number, "mysqld_stmt_reset")),
        }
    }
}

/// Runs a plan, ended by `max_statement_time`.
pub(super) fn execute(
    core: &mut Core,
    plan: &Arc<Plan>,
    params: &[Value],
    sink: &mut dyn RowSink,
) -> SqlResult<Completion> {
    let state = core.state.clone();
    let limit = core.sql.vars.max_statement_time;
    let limits = || state.timeouts.limit(&core.client.interrupt, Duration::from_micros(limit));
    let _limit = (limit != 0).then(limits);
    if std::mem::take(&mut core.keeps_warnings) {
        core.sql.interrupt.clear_query();
        return state.database().execute_next(&mut core.sql, plan, params, sink);
    }
    state.database().execute(&mut core.sql, plan, params, sink)
}

fn send_rows(sink: &mut ResultSink<'_>, rows: &Rows) -> Result<(), SqlError> {
    sink.columns(&rows.columns)?;
    for row in &rows.rows {
        sink.row(RowView::Values(row))?;
        sink.breathe()?;
    }
    Ok(())
}

/// Whether a made-up result was made from a table.
fn is_of_table(rows: &Rows) -> bool {
    rows.columns.columns.first().is_some_and(|column| !column.org_table.is_empty())
}

/// What stands for a parameter in the answer to COM_STMT_PREPARE.
fn param_column(capabilities: Capabilities) -> Column {
    Column {
        name: "?".into(),
        charset: CollationId::BINARY.0,
        type_code: type_code::NULL,
        flags: flags::BINARY,
        extended: capabilities.has(Capabilities::EXTENDED_METADATA).then(Extended::default),
        ..Column::default()
    }
}

/// Without the blanks, semicolons and zero bytes that clients leave at the end.
pub(super) fn trim_end(text: &[u8]) -> &[u8] {
    let is_rest = |b: &u8| b.is_ascii_whitespace() || *b == b';' || *b == 0;
    let end = text.iter().rposition(|b| !is_rest(b)).map_or(0, |last| last + 1);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_before_blanks_and_semicolons() {
        assert_eq!(trim_end(b"SELECT 1 ; \n\0"), b"SELECT 1");
        assert_eq!(trim_end(b" ;; "), b"");
    }
}

//! Cursors: an execution that keeps its rows until COM_STMT_FETCH asks for them.
//!
//! The rows are computed at once, as MariaDB does it, and lie in memory up to `tmp_memory_table_size`, as far as the memory
//! that sessions share for rows goes, then in a temporary file. They stay with the statement until it is executed again, reset or closed.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_database::Plan;
use keel_exec::{Place, ResultColumns, RowList};
use keel_runtime::net::Connection;
use keel_value::Value;
use keel_views::counters::Counter;
use keel_wire::capability::{Capabilities, Status};
use keel_wire::codec::put_lenenc;
use keel_wire::{packet, reply};

use super::ClientSession;
use super::execute::{BINARY, execute};
use crate::sink::{self, CursorSink};

/// Output is handed to the kernel in pieces of about this size.
const FLUSH_BYTES: usize = 64 * 1024;

impl ClientSession {
    /// Runs a SELECT and answers with its columns alone.
    pub(super) fn open_cursor(
        &mut self,
        conn: &mut Connection,
        number: u32,
        plan: &Arc<Plan>,
        params: &[Value],
    ) -> SqlResult<()> {
        if let Some(counter) = Counter::of(plan.kind) {
            self.core.count(counter, 1);
        }
        let rows = RowList::new(self.core.sql.vars.tmp_room(), self.core.sql.host.clone() as Arc<dyn Place>);
        let mut sink = CursorSink::new(self.manner(BINARY, None), rows);
        let result = execute(&mut self.core, plan, params, &mut sink);
        self.core.count_handlers();
        let completion = result?;
        let Some((columns, rows)) = sink.into_result()? else {
            self.finish_plan(conn, plan, &completion, false, BINARY);
            return Ok(());
        };
        if let Some(prepared) = self.core.statements.get(number) {
            prepared.cursor = Some(Box::new(rows));
        }
        self.send_cursor_columns(conn, &columns);
        Ok(())
    }

    fn send_cursor_columns(&mut self, conn: &mut Connection, columns: &ResultColumns) {
        let encoded = sink::encoded(columns, self.core.sql.vars.results_collation, self.core.capabilities);
        let out = conn.output();
        let start = packet::begin(out);
        put_lenenc(out, columns.columns.len() as u64);
        if self.core.capabilities.has(Capabilities::CACHE_METADATA) {
            out.push(1);
        }
        packet::finish(out, start, &mut self.sequence);
        sink::append_definitions(out, &encoded, &mut self.sequence);
        self.end_of_fetch(conn, Status::CURSOR_EXISTS);
    }

    fn end_of_fetch(&mut self, conn: &mut Connection, flag: Status) {
        let mut status = self.core.status();
        status.set(flag, true);
        let end = reply::Ok { status, warnings: self.core.warning_count(), ..reply::Ok::default() };
        reply::append_end_of_rows(conn.output(), &end, self.core.capabilities, &mut self.sequence);
    }

    /// COM_STMT_FETCH.
    pub(super) fn stmt_fetch(&mut self, conn: &mut Connection, number: u32, count: u32) {
        self.core.count(Counter::StatementFetch, 1);
        match self.try_fetch(conn, number, count) {
            Ok(flag) => self.end_of_fetch(conn, flag),
            Err(error) => self.send_error(conn, &error),
        }
    }

    /// Sends up to `count` rows; the cursor closes where it has no more to give.
    fn try_fetch(&mut self, conn: &mut Connection, number: u32, count: u32) -> Result<Status, SqlError> {
        let Some(prepared) = self.core.statements.get(number) else {
            return Err(errors::unknown_stmt_handler(number, "mysqld_stmt_fetch"));
        };
        let Some(rows) = &mut prepared.cursor else { return Err(errors::stmt_has_no_open_cursor(number)) };
        for sent in 0..u64::from(count) {
            let Some(row) = rows.next_row()? else {
                prepared.cursor = None;
                self.core.count(Counter::RowsSent, sent);
                return Ok(Status::LAST_ROW_SENT);
            };
            packet::append(conn.output(), row, &mut self.sequence);
            let bytes = conn.output().len();
            if bytes >= FLUSH_BYTES {
                self.core.client.counters.add(Counter::BytesSent, bytes as u64);
                self.core.state.counters.add(Counter::BytesSent, bytes as u64);
                conn.flush().map_err(|_| errors::query_interrupted())?;
            }
        }
        self.core.count(Counter::RowsSent, u64::from(count));
        Ok(Status::CURSOR_EXISTS)
    }
}

//! COM_STMT_BULK_EXECUTE: a prepared INSERT, REPLACE, UPDATE or DELETE for several rows of parameters.
//!
//! An INSERT whose parameters are values of its rows becomes one statement with all the rows: it writes all of them or
//! none, and its errors tell the row. Everything else runs once for each row of parameters, as in MariaDB: what rows
//! before a failure did stays done, but for an INSERT, which is undone as a whole.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use keel_base::{SqlResult, errors};
use keel_database::{Plan, StatementKind};
use keel_exec::{Completion, ResultColumns, RowSink, RowView};
use keel_runtime::net::{After, Connection};
use keel_sql::ast::{Expr, InsertSource, Statement};
use keel_views::counters::Counter;
use keel_wire::bulk::{BulkExecute, Mark, Rows, SEND_TYPES};
use keel_wire::capability::Capabilities;

use super::ClientSession;
use super::execute::BINARY;
use super::logging::Text;
use crate::marks::with_marks;
use crate::prepared::Source;
use crate::sink::ResultSink;

/// How errors name the command.
const NAME: &str = "mysqld_stmt_bulk_execute";

/// Plans for rows of other marks that are kept while the command runs.
const PATTERNS_MAX: usize = 64;

impl ClientSession {
    pub(super) fn stmt_bulk_execute(&mut self, conn: &mut Connection, rest: &[u8]) -> After {
        self.core.count(Counter::StatementExecute, 1);
        if let Err(error) = self.try_bulk(conn, rest) {
            self.send_error(conn, &error);
        }
        self.core.end_rooms();
        self.after_statement()
    }

    fn try_bulk(&mut self, conn: &mut Connection, rest: &[u8]) -> SqlResult<()> {
        let bulk = BulkExecute::decode(rest).map_err(|_| errors::malformed_packet())?;
        if !self.core.capabilities.has(Capabilities::STMT_BULK) {
            return Err(errors::unsupported_ps());
        }
        let Some(prepared) = self.core.statements.get(bulk.statement) else {
            return Err(errors::unknown_stmt_handler(bulk.statement, "mysqld_stmt_execute"));
        };
        let plan = match &prepared.source {
            Source::Plan(plan) if can_be_bulk(plan.kind) && prepared.params > 0 => plan.clone(),
            _ => return Err(errors::unsupported_ps()),
        };
        if bulk.flags & !SEND_TYPES != 0 {
            return Err(errors::unsupported_ps());
        }
        let count = prepared.params;
        self.core.client.activity.lock().text.extend_from_slice(&prepared.text);
        let text = prepared.text.clone();
        if self.core.state.logs.on() != 0 {
            self.log_command(conn, "Execute", &text);
        }
        let Some(prepared) = self.core.statements.get(bulk.statement) else { return Ok(()) };
        prepared.reset();
        let mut types = std::mem::take(&mut prepared.types);
        let wrong = |_| errors::wrong_arguments(NAME);
        let rows = bulk
            .cells(count, &types)
            .map_err(wrong)
            .and_then(|cells| self.core.admit_rows(cells, rest.len()))
            .and_then(|()| bulk.rows(count, &mut types).map_err(wrong));
        if let Some(prepared) = self.core.statements.get(bulk.statement) {
            prepared.types = types;
        }
        let rows = rows?;
        let result = self.run_bulk(conn, &plan, count, &rows);
        self.end_statement(conn, &Text::Plain(&text));
        result
    }

    fn run_bulk(
        &mut self,
        conn: &mut Connection,
        plan: &Arc<Plan>,
        count: usize,
        rows: &Rows,
    ) -> SqlResult<()> {
        match with_all_rows(&plan.statement, count, rows) {
            Some(statement) => {
                let params = rows.values.len() as u32;
                let database = self.core.state.database().clone();
                let plan = database.prepare(&mut self.core.sql, Arc::new(statement), params)?;
                self.core.sql.rows_come_in_batch = true;
                let result = self.run_plan(conn, &plan, &rows.values, BINARY, None);
                self.core.sql.rows_come_in_batch = false;
                result.map(|_| ())
            }
            None => self.run_rows(conn, plan, count, rows),
        }
    }

    /// Runs the statement once for each row; the answer is one for all.
    fn run_rows(
        &mut self,
        conn: &mut Connection,
        plan: &Arc<Plan>,
        count: usize,
        rows: &Rows,
    ) -> SqlResult<()> {
        if let Some(counter) = Counter::of(plan.kind) {
            self.core.count(counter, 1);
        }
        if let Some(limited) = &self.core.limited {
            limited.count(true)?;
        }
        let manner = self.manner(BINARY, None);
        let mut sequence = self.sequence;
        let mut sink = ResultSink::new(conn, &mut sequence, manner);
        let mut once = ColumnsOnce { inner: &mut sink, are_sent: false };
        let is_insert = matches!(plan.kind, StatementKind::Insert | StatementKind::Replace);
        let result = match is_insert {
            true => self.all_or_none(|session| session.each_row(plan, count, rows, &mut once)),
            false => self.each_row(plan, count, rows, &mut once),
        };
        self.core.sql.rows_before = 0;
        self.core.count(Counter::BytesSent, sink.bytes_sent);
        let had_rows = sink.into_columns().is_some();
        self.sequence = sequence;
        self.core.count_handlers();
        let totals = result?;
        let done = Completion { info: self.info_of(plan, &totals), ..totals };
        self.finish_plan(conn, plan, &done, had_rows, BINARY);
        Ok(())
    }

    /// What the answer tells of all executions. MariaDB counts rows that a batch changes, not those that it matches.
    fn info_of(&self, plan: &Plan, totals: &Completion) -> Option<String> {
        let warnings = self.core.warning_count();
        match plan.kind {
            StatementKind::Insert | StatementKind::Replace => {
                let [records, duplicates] = totals.given;
                let one = records == 1;
                (!one).then(|| format!("Records: {records}  Duplicates: {duplicates}  Warnings: {warnings}"))
            }
            StatementKind::Update | StatementKind::UpdateMulti => {
                let rows = totals.affected_rows;
                Some(format!("Rows matched: {rows}  Changed: {rows}  Warnings: {warnings}"))
            }
            _ => None,
        }
    }

    /// Runs the statement for each row, under one limit of time; a kill ends it between rows too.
    fn each_row(
        &mut self,
        plan: &Arc<Plan>,
        count: usize,
        rows: &Rows,
        sink: &mut dyn RowSink,
    ) -> SqlResult<Completion> {
        let mut totals = Completion::default();
        let mut kept: HashMap<Vec<(usize, Mark)>, Arc<Plan>> = HashMap::new();
        let mut marks = rows.marks.iter().peekable();
        let state = self.core.state.clone();
        let database = state.database();
        let limit = self.core.sql.vars.max_statement_time;
        let interrupt = self.core.client.interrupt.clone();
        let _limit = (limit > 0).then(|| state.timeouts.limit(&interrupt, Duration::from_micros(limit)));
        self.core.sql.diagnostics.clear();
        for (number, values) in rows.values.chunks(count).enumerate() {
            let mut own = Vec::new();
            while let Some((place, mark)) = marks.next_if(|(place, _)| *place < (number + 1) * count) {
                own.push((place - number * count, *mark));
            }
            let plan = match kept.get(&own) {
                _ if own.is_empty() => plan.clone(),
                Some(plan) => plan.clone(),
                None => {
                    let statement = Arc::new(with_marks(&plan.statement, &own)?);
                    let made = database.prepare(&mut self.core.sql, statement, count as u32)?;
                    if kept.len() < PATTERNS_MAX {
                        kept.insert(own, made.clone());
                    }
                    made
                }
            };
            self.core.sql.rows_before = totals.given[0];
            add(&mut totals, &database.execute_next(&mut self.core.sql, &plan, values, sink)?);
        }
        Ok(totals)
    }

    /// Runs statements that are undone together where one fails.
    fn all_or_none(&mut self, run: impl FnOnce(&mut Self) -> SqlResult<Completion>) -> SqlResult<Completion> {
        let database = self.core.state.database().clone();
        if database.open_for_statements(&mut self.core.sql) {
            let result = run(self);
            let ended = match result {
                Ok(_) => database.commit(&mut self.core.sql),
                Err(_) => database.rollback(&mut self.core.sql),
            };
            return result.and_then(|done| ended.map(|()| done));
        }
        let before = database.place(&mut self.core.sql)?;
        run(self).or_else(|error| database.undo_to(&mut self.core.sql, before).and(Err(error)))
    }
}

/// Adds what one execution has done to what all have done.
fn add(totals: &mut Completion, one: &Completion) {
    totals.given = std::array::from_fn(|place| totals.given[place] + one.given[place]);
    totals.affected_rows += one.affected_rows;
    totals.had_rows |= one.had_rows;
    if one.last_insert_id != 0 {
        totals.last_insert_id = one.last_insert_id;
    }
}

/// A result of several executions: its columns come once.
struct ColumnsOnce<'a, 's> {
    inner: &'a mut ResultSink<'s>,
    are_sent: bool,
}

impl RowSink for ColumnsOnce<'_, '_> {
    fn columns(&mut self, columns: &Arc<ResultColumns>) -> SqlResult<()> {
        if std::mem::replace(&mut self.are_sent, true) {
            return Ok(());
        }
        self.inner.columns(columns)
    }

    fn row(&mut self, row: RowView<'_>) -> SqlResult<()> {
        self.inner.row(row)
    }

    fn breathe(&mut self) -> SqlResult<()> {
        self.inner.breathe()
    }
}

fn can_be_bulk(kind: StatementKind) -> bool {
    use StatementKind::*;
    matches!(kind, Insert | Replace | Update | UpdateMulti | Delete | DeleteMulti)
}

/// The INSERT with the rows of all executions. None where a parameter stands elsewhere than alone as a value of a row.
fn with_all_rows(statement: &Statement, count: usize, rows: &Rows) -> Option<Statement> {
    let Statement::Insert(insert) = statement else { return None };
    let InsertSource::Values(once) = &insert.source else { return None };
    let direct = once.iter().flatten().filter(|value| matches!(value, Expr::Param(_))).count();
    if direct != count {
        return None;
    }
    let mut marks = rows.marks.iter().peekable();
    let mut all = Vec::with_capacity(once.len() * (rows.values.len() / count));
    for first in (0..rows.values.len()).step_by(count) {
        let mut own = vec![false; count];
        while let Some((place, _)) = marks.next_if(|(place, _)| *place < first + count) {
            own[place - first] = true;
        }
        let value = |value: &Expr| match value {
            Expr::Param(index) if own[*index as usize] => Expr::Default(None),
            Expr::Param(index) => Expr::Param(first as u32 + index),
            other => other.clone(),
        };
        all.extend(once.iter().map(|row| row.iter().map(value).collect::<Vec<Expr>>()));
    }
    let mut insert = insert.clone();
    insert.source = InsertSource::Values(all);
    Some(Statement::Insert(insert))
}

#[cfg(test)]
mod tests {
    use keel_value::Value;

    use super::*;

    fn parse(text: &str) -> Statement {
        let options = keel_sql::ParseOptions { prepare: true, ..keel_sql::ParseOptions::default() };
        keel_sql::parse(text.as_bytes(), &options).unwrap().statement
    }

    fn rows(values: usize, marks: &[(usize, Mark)]) -> Rows {
        Rows { values: vec![Value::Null; values], marks: marks.to_vec() }
    }

    #[test]
    fn rows_become_one_insert() {
        let made = with_all_rows(&parse("INSERT INTO t VALUES (?, 1, ?)"), 2, &rows(4, &[(1, Mark::Ignore)]));
        let Some(Statement::Insert(insert)) = made else { panic!() };
        let InsertSource::Values(all) = insert.source else { panic!() };
        assert_eq!(all.len(), 2);
        assert_eq!((&all[0][0], &all[0][2]), (&Expr::Param(0), &Expr::Default(None)));
        assert_eq!((&all[1][0], &all[1][2]), (&Expr::Param(2), &Expr::Param(3)));
        for other in
            ["INSERT INTO t VALUES (?, ? + 1)", "INSERT INTO t VALUES (?) ON DUPLICATE KEY UPDATE a = ?"]
        {
            assert!(with_all_rows(&parse(other), 2, &rows(4, &[])).is_none(), "{other}");
        }
    }
}

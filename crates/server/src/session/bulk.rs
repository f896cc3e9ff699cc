//! COM_STMT_BULK_EXECUTE: a prepared INSERT, REPLACE, UPDATE or DELETE for several rows of parameters.
//!
//! An INSERT whose parameters are values of its rows becomes one statement with all the rows: it writes all of them or
//! none, and its errors tell the row. Everything else runs once for each row of parameters, as in MariaDB: what rows
//! before a failure did stays done, but for an INSERT, which is undone as a whole.

use std::sync::Arc;

use hashbrown::HashMap;
use keel_base::{SqlResult, errors};
use keel_query::{Completion, Plan, ResultColumns, RowSink, RowView, StatementKind};
use keel_runtime::net::{After, Connection};
use keel_sql::ast::{Assignment, Expr, InsertSource, StartTransaction, Statement};
use keel_wire::bulk::{BulkExecute, Mark, Rows, SEND_TYPES};
use keel_wire::capability::Capabilities;

use super::ClientSession;
use super::execute::{BINARY, execute};
use super::logging::Text;
use crate::counters::Counter;
use crate::prepared::Source;
use crate::sink::ResultSink;

/// How errors name the command.
const NAME: &str = "mysqld_stmt_bulk_execute";

/// The savepoint of an INSERT that runs row by row; no client can say this name.
const SAVEPOINT: &str = "\u{0}bulk";

/// Plans for rows of other marks that are kept while the command runs.
const PATTERNS_MAX: usize = 64;

impl ClientSession {
    pub(super) fn stmt_bulk_execute(&mut self, conn: &mut Connection, rest: &[u8]) -> After {
        self.core.count(Counter::StatementExecute, 1);
        if let Err(error) = self.try_bulk(conn, rest) {
            self.send_error(conn, &error);
        }
        self.core.text_room = None;
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
        // The rows become values and, as those of a text, nodes.
        let rows = self
            .core
            .admit_text(rest, false)
            .and_then(|()| bulk.rows(count, &mut types).map_err(|_| errors::wrong_arguments(NAME)));
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
        let manner = self.manner(BINARY, None);
        let mut sequence = self.sequence;
        let mut sink = ResultSink::new(conn, &mut sequence, manner);
        let mut once = ColumnsOnce { inner: &mut sink, are_sent: false };
        let is_insert = matches!(plan.kind, StatementKind::Insert | StatementKind::Replace);
        let result = match is_insert {
            true => self.all_or_none(|session| session.each_row(plan, count, rows, &mut once)),
            false => self.each_row(plan, count, rows, &mut once),
        };
        self.core.count(Counter::BytesSent, sink.bytes_sent);
        let had_rows = sink.into_columns().is_some();
        self.sequence = sequence;
        self.core.count_handlers();
        let mut totals = result?;
        if is_insert {
            let duplicates = totals.doubled;
            let (records, warnings) = (totals.records, self.core.sql.diagnostics.warning_count);
            totals.done.info =
                Some(format!("Records: {records}  Duplicates: {duplicates}  Warnings: {warnings}"));
        }
        self.finish_plan(conn, plan, &totals.done, had_rows, BINARY);
        Ok(())
    }

    fn each_row(
        &mut self,
        plan: &Arc<Plan>,
        count: usize,
        rows: &Rows,
        sink: &mut dyn RowSink,
    ) -> SqlResult<Totals> {
        let mut totals = Totals::default();
        let mut kept: HashMap<Vec<(usize, Mark)>, Arc<Plan>> = HashMap::new();
        let mut marks = rows.marks.iter().peekable();
        let database = self.core.state.database().clone();
        for (number, values) in rows.values.chunks(count).enumerate() {
            let mut own = Vec::new();
            while let Some((place, mark)) = marks.next_if(|(place, _)| *place < (number + 1) * count) {
                own.push((place - number * count, *mark));
            }
            if let Some(limited) = &self.core.limited {
                limited.count(true)?;
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
            totals.add(execute(&mut self.core, &plan, values, sink)?);
        }
        Ok(totals)
    }

    /// Runs statements that are undone together where one fails.
    fn all_or_none(&mut self, run: impl FnOnce(&mut Self) -> SqlResult<Totals>) -> SqlResult<Totals> {
        let database = self.core.state.database().clone();
        let within = self.core.sql.in_transaction() || !self.core.sql.vars.autocommit;
        match within {
            true => database.savepoint(&mut self.core.sql, SAVEPOINT)?,
            false => database.begin(&mut self.core.sql, StartTransaction::default())?,
        }
        let result = run(self);
        let sql = &mut self.core.sql;
        let ended = match (within, result.is_ok()) {
            (false, true) => database.commit(sql),
            (false, false) => database.rollback(sql),
            (true, true) => database.release_savepoint(sql, SAVEPOINT),
            // The failure may have ended the transaction, and the savepoint with it.
            (true, false) => {
                let _ = database.rollback_to_savepoint(sql, SAVEPOINT);
                let _ = database.release_savepoint(sql, SAVEPOINT);
                Ok(())
            }
        };
        result.and_then(|totals| ended.map(|()| totals))
    }
}

/// What the executions have done together.
#[derive(Default)]
struct Totals {
    done: Completion,
    records: u64,
    /// Rows that were there already.
    doubled: u64,
    matched: u64,
    changed: u64,
}

impl Totals {
    fn add(&mut self, one: Completion) {
        self.records += 1;
        self.doubled += u64::from(one.affected_rows > 1);
        self.done.affected_rows += one.affected_rows;
        self.done.had_rows |= one.had_rows;
        if one.last_insert_id != 0 {
            self.done.last_insert_id = one.last_insert_id;
        }
        // `Rows matched: 1  Changed: 1  Warnings: 0`
        let Some(info) = &one.info else { return };
        let mut numbers = info.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        self.matched += numbers.next().unwrap_or(0);
        self.changed += numbers.next().unwrap_or(0);
        let (matched, changed) = (self.matched, self.changed);
        self.done.info = Some(format!("Rows matched: {matched}  Changed: {changed}  Warnings: 0"));
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

/// The statement with DEFAULT, or the column itself, in place of parameters; 4032 where one does not stand alone as a
/// value.
fn with_marks(statement: &Statement, marks: &[(usize, Mark)]) -> SqlResult<Statement> {
    let mut statement = statement.clone();
    let mut left = marks.len();
    let mut replace = |value: &mut Expr, column: Option<&Expr>| {
        let Expr::Param(index) = value else { return };
        let Some((_, mark)) = marks.iter().find(|(place, _)| *place == *index as usize) else { return };
        left -= 1;
        *value = match (mark, column) {
            (Mark::Ignore, Some(column)) => column.clone(),
            _ => Expr::Default(None),
        };
    };
    let mut assign = |assignments: &mut Vec<Assignment>| {
        for Assignment { column, value } in assignments {
            replace(value, Some(&Expr::Column(column.clone())));
        }
    };
    match &mut statement {
        Statement::Insert(insert) => {
            assign(&mut insert.on_duplicate);
            if let InsertSource::Values(rows) = &mut insert.source {
                rows.iter_mut().flatten().for_each(|value| replace(value, None));
            }
        }
        Statement::Update(update) => assign(&mut update.assignments),
        _ => {}
    }
    if left == 0 { Ok(statement) } else { Err(errors::invalid_default_param()) }
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

    #[test]
    fn marks_stand_alone() {
        let update = parse("UPDATE t SET a = ?, b = ? + 1 WHERE c = ?");
        assert!(with_marks(&update, &[(0, Mark::Default)]).is_ok());
        assert_eq!(with_marks(&update, &[(1, Mark::Default)]).unwrap_err().code, 4032);
        assert_eq!(with_marks(&update, &[(0, Mark::Ignore), (2, Mark::Ignore)]).unwrap_err().code, 4032);
    }
}

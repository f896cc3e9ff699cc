//! INSERT and REPLACE: the plan and its run. Binding stands in `bind`, a row's values in `values`, what becomes of the row in `write`,
//! its AUTO_INCREMENT value in `counted`.

mod bind;
mod counted;
mod sources;
mod values;
mod write;

pub use bind::plan;
pub(super) use bind::{plan_file, qualified};

use std::cell::OnceCell;
use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::{TableDef, View};
use keel_context::result::{Completion, RowSink};
use keel_exec::scratch::RowBuffers;
use keel_exec::select::SelectPlan;
use keel_exec::session::Session;
use keel_expr::RowSlot;
use keel_expr::frame::{Kept, once_cells};
use keel_sql::LiteralRows;
use keel_value::Value;

use super::WriteScratch;
use super::assign::{Assignments, Source};
use super::auto::AutoValues;
use super::check::Checks;
use super::convert::Strictness;
use super::foreign::{Family, Ties};
use super::generated::Generated;
use super::load::{self, FileRows};
use super::returning::{Returning, Sender};
use super::rows::Touched;

/// A planned INSERT or REPLACE.
pub struct InsertPlan {
    /// The table.
    pub table: Arc<TableDef>,
    /// The view through which rows come.
    pub through: Option<Arc<View>>,
    /// That view does not show the column that counts, so LAST_INSERT_ID() does not tell its values.
    hides_auto: bool,
    checks: Checks,
    generated: Generated,
    replace: bool,
    pub(super) ignore: bool,
    /// Columns that values are given for, in their order.
    columns: Vec<usize>,
    /// The other columns.
    unsaid: Vec<(usize, Source)>,
    /// Those of them that have no default and are not updated instead.
    lacking: Vec<usize>,
    rows: Rows,
    on_duplicate: Option<(Assignments, Touched)>,
    /// Columns of each table of the query that ON DUPLICATE KEY UPDATE may read: they come behind those that go into the table.
    sources: Vec<usize>,
    once: u32,
    /// Whether some value reads a column of the row it belongs to.
    reads_own_row: bool,
    /// The tables that foreign keys tie to it.
    pub family: Option<Arc<Family>>,
    /// RETURNING.
    pub returning: Option<Returning>,
}

enum Rows {
    /// LOAD DATA.
    File(Box<FileRows>),
    Values {
        rows: Vec<Vec<Source>>,
        /// A query within one of them reads the table that they go to: all are worked out before the first is written.
        reads_target: bool,
    },
    /// Plain literals, read from the statement's text row by row.
    Literals(LiteralRows),
    Query {
        plan: Box<SelectPlan>,
        reads_target: bool,
    },
}

impl InsertPlan {
    /// The columns that it gives values for.
    pub fn given(&self) -> impl Iterator<Item = u16> {
        self.columns.iter().map(|column| *column as u16)
    }

    /// The columns that it assigns to where a row is there already.
    pub fn updated(&self) -> impl Iterator<Item = u16> {
        self.on_duplicate.iter().flat_map(|(assignments, _)| assignments.assigned())
    }

    /// The query that its rows come from.
    pub fn query(&self) -> Option<&SelectPlan> {
        match &self.rows {
            Rows::Query { plan, .. } => Some(plan),
            Rows::File(_) | Rows::Values { .. } | Rows::Literals(_) => None,
        }
    }

    /// Whether nobody knows beforehand how many rows there are.
    fn is_bulk(&self) -> bool {
        matches!(self.rows, Rows::Query { .. } | Rows::File(_))
    }

    fn is_single(&self) -> bool {
        match &self.rows {
            Rows::Values { rows, .. } => rows.len() == 1,
            Rows::Literals(rows) => rows.row_count() == 1,
            Rows::Query { .. } | Rows::File(_) => false,
        }
    }
}

/// Runs an INSERT or REPLACE.
pub fn run(
    plan: &InsertPlan,
    session: &mut Session,
    params: &[Value],
    sink: &mut dyn RowSink,
) -> SqlResult<Completion> {
    if let Rows::File(rows) = &plan.rows {
        return load::run(plan, rows, session, params, sink);
    }
    let returning = Sender::begin(plan.returning.as_ref(), sink, params)?;
    let single = plan.is_single();
    let strictness = Strictness::of(session, plan.ignore, single);
    session.abort_on_warning = strictness.strict;
    session.ignores = plan.ignore;
    session.ignores_in_query = plan.ignore && plan.query().is_some();
    let mut work = Work::begin(plan, session, params, strictness, returning);
    let result = work.all(session);
    let returned = work.returning.take().map(|returning| returning.sent);
    let (counts, auto) = work.end(session);
    // LIMIT ROWS EXAMINED ends it early, without an error.
    let early = match result {
        Err(error) if session.examined.ends(&error) => Some(error),
        result => result.map(|()| None)?,
    };
    // What LAST_INSERT_ID(value) said counts before a value that the statement gave itself.
    let said = Some(session.statement_insert_id).filter(|id| *id != 0);
    let found = if session.vars.found_rows_flag { counts.found_same } else { 0 };
    let duplicates = if plan.ignore { counts.records - counts.copied } else { counts.displaced + found };
    let info = (!single).then(|| {
        let (records, warnings) = (counts.records, session.diagnostics.warning_count);
        format!("Records: {records}  Duplicates: {duplicates}  Warnings: {warnings}")
    });
    if let Some(reason) = early {
        session.warn(reason);
    }
    let given = [counts.records, duplicates];
    if let Some(sent) = returned {
        return Ok(Completion { affected_rows: sent, had_rows: true, given, ..Completion::default() });
    }
    Ok(Completion {
        affected_rows: counts.copied + counts.displaced + found,
        last_insert_id: said.or(auto.explicit.filter(|_| counts.copied > 0)).unwrap_or(0),
        info,
        given,
        had_rows: false,
    })
}

#[derive(Default)]
pub(super) struct Counts {
    /// Rows given.
    pub records: u64,
    /// Rows that are new, or updated instead.
    pub copied: u64,
    /// Rows that were deleted or updated for them.
    pub displaced: u64,
    /// Rows that ON DUPLICATE KEY UPDATE left as they were.
    found_same: u64,
}

pub(super) struct Work<'p> {
    pub plan: &'p InsertPlan,
    pub strictness: Strictness,
    pub params: &'p [Value],
    pub values: Vec<Value>,
    row: Vec<u8>,
    old: Vec<u8>,
    buffers: RowBuffers,
    /// The rows of the query's tables that the row at hand was made of.
    sources: Vec<RowSlot>,
    pub counts: Counts,
    auto: AutoValues,
    /// What ON DUPLICATE KEY UPDATE, and SET of LOAD DATA, keep for the execution.
    pub once: Vec<OnceCell<Kept>>,
    ties: Option<Ties<'p>>,
    returning: Option<Sender<'p>>,
}

impl<'p> Work<'p> {
    /// Begins, with buffers of the session.
    pub fn begin(
        plan: &'p InsertPlan,
        session: &mut Session,
        params: &'p [Value],
        strictness: Strictness,
        returning: Option<Sender<'p>>,
    ) -> Work<'p> {
        Work {
            plan,
            strictness,
            params,
            values: std::mem::take(&mut session.scratch.write.values),
            row: std::mem::take(&mut session.scratch.write.row),
            old: Vec::new(),
            buffers: std::mem::take(&mut session.scratch.write.buffers),
            sources: Vec::new(),
            counts: Counts::default(),
            auto: AutoValues::default(),
            once: once_cells(plan.once),
            ties: Family::ties(&plan.family, session),
            returning,
        }
    }

    /// Ends, whether all went well or not: gives back buffers and the counter, and tells the session what was done.
    pub fn end(mut self, session: &mut Session) -> (Counts, AutoValues) {
        self.auto.end(session);
        let kept =
            WriteScratch { buffers: self.buffers, row: self.row, new: Vec::new(), values: self.values };
        session.scratch.write = kept.cleared();
        session.handler.write += self.counts.records;
        session.handler.update += self.counts.displaced;
        // A value that a row got counts even if a later row fails.
        if let Some(first) = self.auto.first {
            session.statement_insert_id = first;
            if !self.plan.hides_auto {
                session.last_insert_id = first;
            }
        }
        (self.counts, self.auto)
    }

    /// LOAD DATA only warns of columns that it leaves out and that have no default.
    pub fn warn_of_defaults(&self, session: &mut Session) {
        for column in &self.plan.lacking {
            session.warn(self.no_default(*column));
        }
    }

    fn no_default(&self, column: usize) -> SqlError {
        match &self.plan.through {
            Some(view) => errors::no_default_for_view_field(&view.schema, &view.name),
            None => errors::no_default_for_field(&self.plan.table.columns[column].name),
        }
    }
}

fn transaction(session: &mut Session) -> &mut keel_storage::Txn {
    session.txn.as_mut().expect("a plan runs within a transaction of the engine")
}

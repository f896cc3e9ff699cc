//! WITH RECURSIVE: a query whose later parts read the rows that the last round has found.
//!
//! The parts that do not name the table are its anchors: they give the columns' names and types and the first rows. Then
//! the other parts run in rounds, each over the rows that the round before has added, until one adds none or
//! `max_recursive_iterations` rounds have run. Rows go on as they are found; only those of two rounds are kept here, and
//! under UNION DISTINCT the keys of all.
//!
//! While a round runs its input stands in the session (`Session::working`) under the recursion's number, where the plan
//! that takes the table's place in the recursive parts ([`WorkingPlan`]) finds it.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_value::convert::Target;
use keel_value::key::KeyPart;
use keel_value::row::Layout;
use keel_value::types::Class;
use keel_value::{Date, SqlType, Value};

use super::carry::{local_type, stored_type};
use super::frame::{RowPacker, encode_key_part};
use super::{Body, RowOutput, SelectPlan, run};
use crate::expr::Frame;
use crate::kept::Working;
use crate::result::RowView;
use crate::session::Session;
use crate::sort::{RowCursor, RowList, Seen};

/// A recursive table.
pub struct RecursivePlan {
    /// Its number in the statement.
    pub number: u32,
    /// The parts that do not name the table.
    pub anchors: SelectPlan,
    /// The parts that do.
    pub steps: Vec<SelectPlan>,
    /// Names and types of its columns.
    pub columns: Vec<(Arc<str>, SqlType)>,
    /// How its rows are kept.
    pub layout: Arc<Layout>,
    /// Columns in which rows differ; none under UNION ALL.
    pub distinct: Option<Vec<usize>>,
    /// A part uses the table beyond what the standard allows: each round reads all rows found so far.
    pub reads_all: bool,
}

/// The rows of the last round, to a recursive part.
pub struct WorkingPlan {
    /// The number of the recursion.
    pub number: u32,
    /// The table's name.
    pub name: Arc<str>,
    /// How its rows are kept.
    pub layout: Arc<Layout>,
    /// How many columns it has.
    pub width: usize,
}

impl RecursivePlan {
    /// Its parts in order, for EXPLAIN.
    pub fn queries(&self) -> Vec<&SelectPlan> {
        match &self.anchors.body {
            Body::Set(set) => set.queries().into_iter().chain(&self.steps).collect(),
            _ => std::iter::once(&self.anchors).chain(&self.steps).collect(),
        }
    }

    /// How many of the parts are anchors.
    pub fn anchor_count(&self) -> usize {
        self.queries().len() - self.steps.len()
    }
}

/// What a recursion has found and where its rows go.
struct FoundRows<'r> {
    plan: &'r RecursivePlan,
    parts: Vec<KeyPart>,
    seen: Option<Seen>,
    /// The rows of this round.
    rows: RowList,
    count: u64,
    /// Types of the part that runs.
    types: Vec<SqlType>,
    values: Vec<Value>,
    key: Vec<u8>,
    packed: Vec<u8>,
    projection: Vec<usize>,
    output: &'r mut dyn RowOutput,
    wants_more: bool,
}

impl RowOutput for FoundRows<'_> {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        session.check_interrupt()?;
        self.values.clear();
        row.for_each(|_, value| self.values.push(value.to_owned()));
        for (place, value) in self.values.iter_mut().enumerate() {
            let taken = std::mem::replace(value, Value::Null);
            *value = convert(session, &self.plan.columns[place], &self.types[place], taken, self.count + 1)?;
        }
        if let (Some(seen), Some(columns)) = (&mut self.seen, &self.plan.distinct) {
            self.key.clear();
            for (part, column) in self.parts.iter().zip(columns) {
                encode_key_part(part, self.values[*column].as_ref(), &mut self.key);
            }
            if !seen.is_new(&self.key)? {
                return Ok(true);
            }
        }
        self.count += 1;
        self.packed.clear();
        RowPacker::new(&self.plan.layout).pack(RowView::Values(&self.values), &mut self.packed);
        self.rows.push(|out| out.extend_from_slice(&self.packed))?;
        let view =
            RowView::Stored { layout: &self.plan.layout, bytes: &self.packed, projection: &self.projection };
        self.wants_more = self.output.row(session, view)?;
        Ok(self.wants_more)
    }
}

/// Makes a value one of the column's type, as storing it there would.
fn convert(
    session: &mut Session,
    (name, ty): &(Arc<str>, SqlType),
    from: &SqlType,
    value: Value,
    row: u64,
) -> SqlResult<Value> {
    if value.is_null() || ty == from {
        return Ok(value);
    }
    if ty.class() == Class::Null {
        // A column that is NULL in the anchors is text without room.
        return Ok(Value::bytes(b""));
    }
    let today = if ty.is_temporal() { session.base_day() } else { Date::default() };
    let context = session.store_context(session.is_strict() && !session.ignores_in_query, today);
    let target = Target { db: "", table: "", column: name, row };
    match keel_value::convert::store(ty, from, value.as_ref(), &context) {
        Ok((cell, None)) => Ok(cell.into_value()),
        Ok((cell, Some(problem))) => {
            let stored = cell.into_value();
            if session.vars.takes_notes() || !problem.is_note() {
                session.push_warning(problem.to_warning(target));
            }
            Ok(stored)
        }
        Err(problem) => Err(problem.to_error(target)),
    }
}

impl RecursivePlan {
    /// Runs it; gives the rows found.
    pub fn run(
        &self,
        session: &mut Session,
        params: &[Value],
        outer: Option<&Frame<'_>>,
        output: &mut dyn RowOutput,
    ) -> SqlResult<u64> {
        let (memory, work) = (session.vars.tmp_room(), session.work());
        let distinct = self.distinct.iter().flatten();
        let mut found = FoundRows {
            plan: self,
            parts: distinct.map(|c| KeyPart::new(stored_type(&self.columns[*c].1), true)).collect(),
            seen: self.distinct.as_ref().map(|_| Seen::new(memory.memory, work.clone())),
            rows: RowList::new(memory, work.clone()),
            count: 0,
            types: types_of(&self.anchors),
            values: Vec::new(),
            key: Vec::new(),
            packed: Vec::new(),
            projection: (0..self.columns.len()).collect(),
            output,
            wants_more: true,
        };
        run::each(&self.anchors, session, params, outer, &mut found)?;
        let mut rounds = 0;
        let mut before: Option<RowCursor> = None;
        while found.wants_more && !found.rows.is_empty() {
            if rounds == session.vars.max_recursive_iterations {
                session.warn(errors::query_result_incomplete(format_args!(
                    "max_recursive_iterations = {rounds}"
                )));
                break;
            }
            rounds += 1;
            let rows = std::mem::replace(&mut found.rows, RowList::new(memory, work.clone()));
            let rows = match before.take() {
                Some(before) => joined(before, rows.finish()?, RowList::new(memory, work.clone()))?,
                None => rows.finish()?,
            };
            session.working.push(Working { number: self.number, rows: Some(rows) });
            let ran = self.round(session, params, outer, &mut found);
            let input = session.working.pop();
            ran?;
            if self.reads_all {
                before = input.and_then(|input| input.rows);
            }
        }
        Ok(found.count)
    }

    fn round(
        &self,
        session: &mut Session,
        params: &[Value],
        outer: Option<&Frame<'_>>,
        found: &mut FoundRows<'_>,
    ) -> SqlResult<()> {
        for step in &self.steps {
            found.types = types_of(step);
            if found.wants_more {
                run::each(step, session, params, outer, found)?;
            }
        }
        Ok(())
    }
}

/// The rows of two lists as one.
fn joined(first: RowCursor, second: RowCursor, mut all: RowList) -> SqlResult<RowCursor> {
    for mut rows in [first, second] {
        rows.restart();
        while let Some(row) = rows.next_row()? {
            all.push(|out| out.extend_from_slice(row))?;
        }
    }
    all.finish()
}

fn types_of(plan: &SelectPlan) -> Vec<SqlType> {
    plan.types.iter().map(|(ty, _)| local_type(ty)).collect()
}

impl WorkingPlan {
    /// Gives the rows of the last round.
    pub fn run(&self, session: &mut Session, output: &mut dyn RowOutput) -> SqlResult<u64> {
        let own = |working: &Working| working.number == self.number;
        let place =
            session.working.iter().rposition(own).expect("a recursive part runs within its recursion");
        // Only one place reads them, and it is not within itself.
        let rows = session.working[place].rows.take();
        let mut rows = rows.ok_or_else(|| errors::not_standard_compliant_recursive(&*self.name))?;
        rows.restart();
        let projection: Vec<usize> = (0..self.width).collect();
        let mut count = 0;
        while let Some(bytes) = rows.next_row()? {
            session.check_interrupt()?;
            count += 1;
            if !output
                .row(session, RowView::Stored { layout: &self.layout, bytes, projection: &projection })?
            {
                break;
            }
        }
        session.working[place].rows = Some(rows);
        Ok(count)
    }
}

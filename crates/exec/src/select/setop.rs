//! UNION, EXCEPT, INTERSECT and VALUES: rows of several parts under one result type.
//!
//! Rows stream from part to part. The DISTINCT forms keep the keys of rows seen; EXCEPT and INTERSECT first read their
//! right side as keys with counts.

use std::cell::RefCell;
use std::sync::Arc;

use keel_base::SqlResult;
use keel_sql::ast::SetOp;
use keel_storage::runtime::fiber;
use keel_value::key::KeyPart;
use keel_value::row::Layout;
use keel_value::{SqlType, Value};

use super::block::SortKey;
use super::carry::stored_type;
use super::difference::{Difference, give_rest};
use super::frame::{FrameBuffer, RowPacker, encode_key_part, encode_sort_part};
use super::{Limits, RowOutput, SelectPlan, run};
use crate::expr::{EvalContext, Expr, Frame, RowSlot};
use crate::result::RowView;
use crate::session::Session;
use crate::sort::{Distinct, Sorter};

/// A set operation, its result's order and limit.
pub struct SetPlan {
    /// The parts.
    pub root: Part,
    /// Types of the result.
    pub types: Vec<SqlType>,
    /// How rows of the result are kept.
    pub layout: Arc<Layout>,
    /// ORDER BY.
    pub order: Vec<SortKey>,
    /// LIMIT.
    pub limit: Option<Expr>,
    /// OFFSET.
    pub offset: Option<Expr>,
    /// FETCH ... WITH TIES, which asks for an order.
    pub ties: bool,
    /// SQL_CALC_FOUND_ROWS of the first SELECT: rows are counted beyond the limit.
    pub calc_found_rows: bool,
    /// Cells kept per execution.
    pub once: u32,
}

/// What gives rows.
pub enum Part {
    /// A query; its results already have the common types.
    Query(Box<SelectPlan>),
    /// Rows of VALUES.
    Rows(Vec<Vec<Expr>>),
    /// Parts together, from the left to the right.
    Chain {
        /// The first one.
        first: Box<Part>,
        /// The others.
        rest: Vec<Joined>,
    },
}

impl Part {
    /// Whether nothing but UNION ALL joins its parts.
    pub fn is_union_all(&self) -> bool {
        match self {
            Part::Query(_) | Part::Rows(_) => true,
            Part::Chain { first, rest } => {
                let passes =
                    |joined: &Joined| joined.op == SetOp::Union && joined.all && joined.part.is_union_all();
                first.is_union_all() && rest.iter().all(passes)
            }
        }
    }
}

/// A part of a chain, with what joins it to those before it.
pub struct Joined {
    /// What joins it.
    pub op: SetOp,
    /// ALL.
    pub all: bool,
    /// The part.
    pub part: Part,
}

impl SetPlan {
    /// Whether the result is sorted.
    pub fn is_sorted(&self) -> bool {
        !self.order.is_empty()
    }

    /// Whether nothing but UNION ALL joins the parts, so that rows pass through.
    pub fn is_union_all(&self) -> bool {
        self.root.is_union_all()
    }

    /// The parts in order, for EXPLAIN.
    pub fn queries(&self) -> Vec<&SelectPlan> {
        self.operations().into_iter().map(|(plan, _)| plan).collect()
    }

    /// The same, each with what joins it to those before it.
    pub fn operations(&self) -> Vec<(&SelectPlan, Option<&'static str>)> {
        type Parts<'p> = Vec<(&'p SelectPlan, Option<&'static str>)>;
        fn go<'p>(part: &'p Part, by: Option<&'static str>, out: &mut Parts<'p>) {
            match part {
                Part::Query(plan) => out.push((plan, by)),
                Part::Rows(_) => {}
                Part::Chain { first, rest } => {
                    go(first, by, out);
                    rest.iter().for_each(|joined| go(&joined.part, Some(word(joined.op)), out));
                }
            }
        }
        let mut out = Vec::new();
        go(&self.root, None, &mut out);
        out
    }

    /// The word for its result's rows: `unit` where several kinds of operations join the parts.
    pub fn word(&self) -> &'static str {
        let mut words = self.operations().into_iter().filter_map(|(_, word)| word);
        match words.next() {
            Some(first) if words.any(|word| word != first) => "unit",
            Some("EXCEPT") => "except",
            Some("INTERSECT") => "intersect",
            _ => "union",
        }
    }
}

fn word(op: SetOp) -> &'static str {
    match op {
        SetOp::Union => "UNION",
        SetOp::Except => "EXCEPT",
        SetOp::Intersect => "INTERSECT",
    }
}

/// A consumer made of a closure.
struct Each<F>(F);

impl<F: FnMut(&mut Session, RowView<'_>) -> SqlResult<bool>> RowOutput for Each<F> {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        (self.0)(session, row)
    }
}

/// What one run of a set operation carries along.
#[derive(Clone, Copy)]
struct Run<'r> {
    parts: &'r [KeyPart],
    layout: &'r Layout,
    params: &'r [Value],
    outer: Option<&'r Frame<'r>>,
}

impl Run<'_> {
    fn key(&self, row: RowView<'_>) -> Vec<u8> {
        let mut key = Vec::new();
        row.for_each(|index, value| encode_key_part(&self.parts[index], value, &mut key));
        key
    }
}

impl Part {
    /// Gives its rows; false where the consumer wants no more.
    fn run(&self, run: Run<'_>, session: &mut Session, output: &mut dyn RowOutput) -> SqlResult<bool> {
        match self {
            Part::Query(plan) => {
                let wants_more = RefCell::new(true);
                let mut each = Each(|session: &mut Session, row: RowView<'_>| {
                    let more = output.row(session, row)?;
                    *wants_more.borrow_mut() = more;
                    Ok(more)
                });
                run::each(plan, session, run.params, run.outer, &mut each)?;
                Ok(wants_more.into_inner())
            }
            Part::Rows(rows) => {
                let frame = FrameBuffer::new(0, 0, run.params, run.outer);
                for row in rows {
                    fiber::tick();
                    let mut values = Vec::with_capacity(row.len());
                    for expr in row {
                        let mut cx = EvalContext::new(session, frame.view());
                        values.push(expr.eval(&mut cx)?.into_value());
                    }
                    if !output.row(session, RowView::Values(&values))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Part::Chain { first, rest } => Chain { first, rest }.run(run, session, output),
        }
    }
}

/// A chain of parts up to some place.
#[derive(Clone, Copy)]
struct Chain<'p> {
    first: &'p Part,
    rest: &'p [Joined],
}

impl<'p> Chain<'p> {
    /// Gives its rows; false where the consumer wants no more. Runs of UNIONs are taken in a loop, everything else runs inside of
    /// what follows it.
    fn run(self, run: Run<'_>, session: &mut Session, output: &mut dyn RowOutput) -> SqlResult<bool> {
        match self.rest.last() {
            None => self.first.run(run, session, output),
            Some(Joined { op: SetOp::Union, all: true, .. }) => {
                self.members(|joined| joined.all).run(run, session, output)
            }
            // What keeps each row once makes those before it that do so needless.
            Some(Joined { op: SetOp::Union, .. }) => self.distinct(run, session, output),
            Some(Joined { op, all, part }) => {
                session.plan_counts.table(0, false);
                let mut rows = Difference::new(session, run.layout, *op == SetOp::Intersect, *all);
                let mut gather = Each(|session: &mut Session, row: RowView<'_>| {
                    rows.add_right(session, &run.key(row))?;
                    Ok(true)
                });
                part.run(run, session, &mut gather)?;
                let mut each =
                    Each(
                        |session: &mut Session, row: RowView<'_>| {
                            if rows.admits(&run.key(row), row)? { output.row(session, row) } else { Ok(true) }
                        },
                    );
                let more = self.up_to(self.rest.len() - 1).run(run, session, &mut each)?;
                Ok(more && rows.rest(session, output)?)
            }
        }
    }

    fn distinct(self, run: Run<'_>, session: &mut Session, output: &mut dyn RowOutput) -> SqlResult<bool> {
        let mut seen = Distinct::new(session.vars.tmp_room(), session.work());
        let mut each = Each(|session: &mut Session, row: RowView<'_>| {
            if seen.is_new(&run.key(row), |out| RowPacker::new(run.layout).pack(row, out))? {
                output.row(session, row)
            } else {
                Ok(true)
            }
        });
        let more = self.members(|_| true).run(run, session, &mut each)?;
        session.plan_counts.table(0, seen.is_full());
        Ok(more && give_rest(seen, run.layout, session, output)?)
    }

    fn up_to(self, len: usize) -> Chain<'p> {
        Chain { rest: &self.rest[..len], ..self }
    }

    /// The last UNIONs in a row of which all are `alike`, and the chain before them.
    fn members(self, alike: impl Fn(&Joined) -> bool) -> Members<'p> {
        let is_member = |joined: &Joined| joined.op == SetOp::Union && alike(joined);
        let before = self.rest.iter().rposition(|joined| !is_member(joined)).map_or(0, |place| place + 1);
        Members { before: self.up_to(before), rest: &self.rest[before..] }
    }
}

/// A chain, and parts whose rows follow its own.
struct Members<'p> {
    before: Chain<'p>,
    rest: &'p [Joined],
}

impl Members<'_> {
    fn run(self, run: Run<'_>, session: &mut Session, output: &mut dyn RowOutput) -> SqlResult<bool> {
        let mut more = self.before.run(run, session, output)?;
        for joined in self.rest {
            more = more && joined.part.run(run, session, output)?;
        }
        Ok(more)
    }
}

impl SetPlan {
    /// Runs it; gives the rows counted: those sent, or all under SQL_CALC_FOUND_ROWS.
    pub(crate) fn run(
        &self,
        session: &mut Session,
        params: &[Value],
        outer: Option<&Frame<'_>>,
        limits: Limits,
        output: &mut dyn RowOutput,
    ) -> SqlResult<u64> {
        let parts: Vec<KeyPart> = self.types.iter().map(|ty| KeyPart::new(stored_type(ty), true)).collect();
        let mut frame = FrameBuffer::new(1, self.once, params, outer);
        let count =
            self.number(&self.limit, session, &frame)?.unwrap_or(limits.default_count).min(limits.most);
        let offset = self.number(&self.offset, session, &frame)?.unwrap_or(0);
        let mut end = offset.saturating_add(count);
        let mut seen = 0;
        let emit = |session: &mut Session, row: RowView<'_>| {
            let is_within = seen < end;
            if !is_within && !self.calc_found_rows {
                return Ok(false);
            }
            seen += 1;
            let more = seen <= offset || !is_within || output.row(session, row)?;
            Ok(more && (seen < end || self.calc_found_rows))
        };
        let run = Run { parts: &parts, layout: &self.layout, params, outer };
        if count == 0 && !self.calc_found_rows {
            return Ok(0);
        }
        let counted = |seen: u64| if self.calc_found_rows { seen } else { seen.saturating_sub(offset) };
        if self.order.is_empty() {
            self.root.run(run, session, &mut Each(emit))?;
            return Ok(counted(seen));
        }
        let most = (!self.ties).then_some(end);
        let mut sorter = Sorter::new(most, session.vars.sort_room(), session.work());
        let mut packer = RowPacker::new(&self.layout);
        let mut packed = Vec::new();
        // FOUND_ROWS() of rows in an order counts all of them.
        let mut all = 0;
        self.root.run(
            run,
            session,
            &mut Each(|session: &mut Session, row: RowView<'_>| {
                all += 1;
                packed.clear();
                packer.pack(row, &mut packed);
                self.fill(&mut frame.slots[0], &packed);
                let append_key = |out: &mut Vec<u8>| {
                    let most = session.vars.max_sort_length;
                    let mut cx = EvalContext::new(session, frame.view());
                    for key in &self.order {
                        let cell = key.expr.eval(&mut cx)?;
                        let parts = self.order.iter().map(|key| &key.part);
                        encode_sort_part(&key.part, cell.as_ref(), most, parts, out);
                    }
                    Ok(())
                };
                sorter.push(append_key, |out| {
                    out.extend_from_slice(&packed);
                    Ok(())
                })?;
                Ok(true)
            }),
        )?;
        session.plan_counts.sort(sorter.done());
        session.plan_counts.add(|counts| counts.sort_scan += 1);
        let mut sorted = sorter.finish()?;
        let projection: Vec<usize> = (0..self.types.len()).collect();
        let mut last = Vec::new();
        while let Some((key, row)) = sorted.next_entry()? {
            session.check_interrupt()?;
            let is_tied = self.ties && seen == end && last == key;
            if seen >= end && !is_tied {
                break;
            }
            end += u64::from(is_tied);
            seen += 1;
            if self.ties && seen == end {
                last.clear();
                last.extend_from_slice(key);
            }
            let row = RowView::Stored { layout: &self.layout, bytes: row, projection: &projection };
            if seen > offset && !output.row(session, row)? {
                break;
            }
        }
        Ok(all)
    }

    fn fill(&self, slot: &mut RowSlot, row: &[u8]) {
        match slot {
            RowSlot::Stored { bytes, .. } => {
                bytes.clear();
                bytes.extend_from_slice(row);
            }
            _ => *slot = RowSlot::Stored { layout: self.layout.clone(), map: None, bytes: row.to_vec() },
        }
    }

    fn number(
        &self,
        expr: &Option<Expr>,
        session: &mut Session,
        frame: &FrameBuffer<'_>,
    ) -> SqlResult<Option<u64>> {
        let Some(expr) = expr else { return Ok(None) };
        expr.row_number(&mut EvalContext::new(session, frame.view())).map(Some)
    }
}

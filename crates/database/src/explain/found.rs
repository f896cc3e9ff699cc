//! What EXPLAIN finds out beyond the plan, with the values of the execution: queries that give nothing, and why.
//!
//! As in MariaDB, conditions without columns are worked out, tables of which a whole unique key is known are read, and so is
//! the end of an index that has MIN or MAX. ANALYZE, whose operators count, reads nothing.

use std::collections::{HashMap, HashSet};

use keel_base::SqlResult;
use keel_exec::access::{AccessPath, PartCondition, TableReader};
use keel_exec::join::{Matching, Runner, Source, TableSource, all_hold};
use keel_exec::select::{Block, Body, FrameBuffer, SelectPlan, Subquery};
use keel_exec::session::Session;
use keel_expr::{EvalContext, Expr, Node, walk};
use keel_storage::Read;
use keel_value::Value;

use super::Shown;
use super::query::{Child, children, is_simple, without_tables};

/// MariaDB's words.
const IMPOSSIBLE: &str = "Impossible WHERE";
const IMPOSSIBLE_LATER: &str = "Impossible WHERE noticed after reading const tables";
const IMPOSSIBLE_HAVING: &str = "Impossible HAVING";
const ZERO_LIMIT: &str = "Zero limit";
const OPTIMIZED_AWAY: &str = "Select tables optimized away";
const NO_ROW: &str = "No matching min/max row";

/// `expensive_subquery_limit`, as it is unless it was set.
const CHEAP_ROWS: f64 = 100.0;

/// What was found out about the blocks and tables of a plan, by where they are in memory.
#[derive(Default)]
pub(super) struct Findings {
    words: HashMap<*const Block, &'static str>,
    /// Tables of which an index is read as a whole, since a pattern has nothing before its wildcard.
    whole: HashSet<*const TableSource>,
}

impl Findings {
    /// Why no table is read for a block's result.
    pub fn of(&self, block: &Block) -> Option<&'static str> {
        self.words.get(&std::ptr::from_ref(block)).copied().or_else(|| without_tables(block))
    }

    /// Whether ranges of an index are all of it.
    pub fn reads_whole(&self, table: &TableSource) -> bool {
        self.whole.contains(&std::ptr::from_ref(table))
    }
}

/// Finds out what can be; `counts` says that the plan's operators count what is read.
pub(super) fn findings(
    shown: &Shown<'_>,
    session: &mut Session,
    params: &[Value],
    counts: bool,
) -> SqlResult<Findings> {
    let (plan, changes) = match shown {
        Shown::Query(plan) | Shown::Insert { query: Some(plan), .. } => (*plan, false),
        Shown::Change { finder, .. } => (*finder, true),
        Shown::Insert { query: None, .. } => return Ok(Findings::default()),
    };
    let warnings = session.diagnostics.clone();
    let mut finder = Finder {
        session: &mut *session,
        params,
        reads: !counts && !changes,
        changes,
        found: Findings::default(),
    };
    let done = finder.plan(plan);
    let found = finder.found;
    // What the values are worth the statement itself says, when it runs.
    session.diagnostics = warnings;
    done.map(|()| found)
}

struct Finder<'s> {
    session: &'s mut Session,
    params: &'s [Value],
    reads: bool,
    /// Of an UPDATE or DELETE.
    changes: bool,
    found: Findings,
}

impl Finder<'_> {
    fn plan(&mut self, plan: &SelectPlan) -> SqlResult<()> {
        match &plan.body {
            Body::Block(block) => self.block(block),
            Body::Set(set) => set.queries().into_iter().try_for_each(|part| self.plan(part)),
            Body::Recursive(_) | Body::Working(_) => Ok(()),
        }
    }

    fn block(&mut self, block: &Block) -> SqlResult<()> {
        let mut frame = FrameBuffer::new(block.slot_count, block.once, self.params, None);
        if let Some(words) = self.words(block, &mut frame)? {
            self.found.words.insert(block, words);
        }
        for child in children(block) {
            match child {
                Child::Derived(_, plan) => self.plan(plan)?,
                Child::Subquery(subquery) if subquery.reads.is_empty() => self.plan(&subquery.plan)?,
                // What it reads of others is not there.
                Child::Subquery(_) | Child::Reduced(_) => {}
            }
        }
        Ok(())
    }

    fn words(&mut self, block: &Block, frame: &mut FrameBuffer<'_>) -> SqlResult<Option<&'static str>> {
        if let Some(limit) = block.limit.as_ref().filter(|_| !block.calc_found_rows)
            && limit.integer(&mut EvalContext::new(self.session, frame.view()))? == Some(0)
        {
            return Ok(Some(ZERO_LIMIT));
        }
        if self.fails(&block.having, frame)? {
            return Ok(Some(IMPOSSIBLE_HAVING));
        }
        if self.fails(&block.constants, frame)? || has_empty(&block.source) {
            return Ok(Some(IMPOSSIBLE));
        }
        self.note_whole(&block.source, frame)?;
        if self.reads || self.changes {
            self.evaluate_queries(&block.source, frame)?;
        }
        if !self.reads {
            return Ok(None);
        }
        if let Some(words) = self.extremes(block, frame)? {
            return Ok(Some(words));
        }
        let mut known = 0;
        Ok(self.gives_nothing(&block.source, frame, &mut known)?.then_some(IMPOSSIBLE_LATER))
    }

    /// Whether a condition that names nothing does not hold.
    fn fails(&mut self, conditions: &[Expr], frame: &FrameBuffer<'_>) -> SqlResult<bool> {
        for condition in conditions.iter().filter(|condition| is_known(condition, 0)) {
            if !condition.holds(&mut EvalContext::new(self.session, frame.view()))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// MIN and MAX by an index: whether there is such a row.
    fn extremes(&mut self, block: &Block, frame: &mut FrameBuffer<'_>) -> SqlResult<Option<&'static str>> {
        if block.first_row_of.is_none() && block.extremes.is_empty() {
            return Ok(None);
        }
        let Source::Table(table) = &block.source else { return Ok(None) };
        let of_index = |e: &Expr| matches!(e.node, Node::IsNull { negated: true, .. });
        if !table.filter.iter().all(of_index) {
            return Ok(None);
        }
        if table.implied.is_empty() {
            return Ok(Some(OPTIMIZED_AWAY));
        }
        let mut runner = Runner::new(&block.source, Read::Snapshot);
        runner.open(self.session, frame)?;
        Ok(Some(if runner.next(self.session, frame)? { OPTIMIZED_AWAY } else { NO_ROW }))
    }

    /// Whether a table that rows must come from has none, by what is known before the query runs. The slots of tables that
    /// were read are `known` then.
    fn gives_nothing(
        &mut self,
        source: &Source,
        frame: &mut FrameBuffer<'_>,
        known: &mut u64,
    ) -> SqlResult<bool> {
        match source {
            Source::Table(table) => self.table_gives_nothing(table, frame, known),
            Source::Join(join) => {
                if self.gives_nothing(&join.left, frame, known)? {
                    return Ok(true);
                }
                Ok(join.kind == Matching::Inner && self.gives_nothing(&join.right, frame, known)?)
            }
            _ => Ok(false),
        }
    }

    fn table_gives_nothing(
        &mut self,
        source: &TableSource,
        frame: &mut FrameBuffer<'_>,
        known: &mut u64,
    ) -> SqlResult<bool> {
        let (is_point, parts) = match &*source.path {
            AccessPath::Point { key, .. } => (true, key.iter().collect()),
            AccessPath::Ranges { alternatives, .. } => (
                false,
                match operands(alternatives) {
                    Some(operands) => operands,
                    None => return Ok(false),
                },
            ),
            _ => return Ok(false),
        };
        if !parts.into_iter().all(|part| is_known(part, *known)) {
            return Ok(false);
        }
        let mut reader = TableReader::new(&source.table, &source.path, source.covering, Read::Snapshot);
        reader.open(self.session, frame.view())?;
        if reader.is_over() {
            return Ok(true);
        }
        if !is_point {
            return Ok(false);
        }
        if !reader.next(self.session, &mut frame.slots[source.slot as usize])? {
            return Ok(true);
        }
        *known |= 1 << source.slot.min(63);
        let conditions = source.filter.iter().chain(&source.implied);
        let own: Vec<Expr> = conditions.filter(|condition| is_known(condition, *known)).cloned().collect();
        Ok(!all_hold(&own, self.session, frame)?)
    }

    /// Evaluates subqueries that keys are compared with, as the search for ranges does: one that fails fails the statement.
    fn evaluate_queries(&mut self, source: &Source, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        let table = match source {
            Source::Table(table) => table,
            Source::Join(join) => {
                self.evaluate_queries(&join.left, frame)?;
                return self.evaluate_queries(&join.right, frame);
            }
            _ => return Ok(()),
        };
        let mut parts = match &*table.path {
            AccessPath::Point { key, .. } => key.iter().collect(),
            AccessPath::Ranges { alternatives, .. } => operands(alternatives).unwrap_or_default(),
            _ => Vec::new(),
        };
        let conditions: Vec<&Expr> = table.filter.iter().chain(&table.implied).collect();
        conditions.into_iter().for_each(|condition| compared_with_keys(table, condition, &mut parts));
        for part in parts.into_iter().filter(|part| walk::facts(part).subquery && is_known(part, 0)) {
            part.eval(&mut EvalContext::new(self.session, frame.view()))?;
        }
        Ok(())
    }

    /// Notes tables whose only condition on an index is a pattern that begins with a wildcard.
    fn note_whole(&mut self, source: &Source, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        match source {
            Source::Join(join) => {
                self.note_whole(&join.left, frame)?;
                self.note_whole(&join.right, frame)
            }
            Source::Table(table) => {
                let AccessPath::Ranges { alternatives, .. } = &*table.path else { return Ok(()) };
                let [conditions] = &alternatives[..] else { return Ok(()) };
                let [PartCondition::Like { pattern, escape }] = &conditions[..] else { return Ok(()) };
                if !is_known(pattern, 0) {
                    return Ok(());
                }
                let text = pattern.text(&mut EvalContext::new(self.session, frame.view()))?;
                let first = text.as_ref().and_then(|text| text.first().copied());
                if matches!(first, Some(b'%' | b'_')) && *escape != first.map(char::from) {
                    self.found.whole.insert(&raw const **table);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Whether an expression can be evaluated when tables with these slots have been read, by a query that examines few rows at most.
fn is_known(expr: &Expr, slots: u64) -> bool {
    let facts = walk::facts(expr);
    let reads = walk::slots_read(expr);
    let runs = facts.outer || facts.volatile || facts.aggregates || facts.windows || facts.assigns;
    !runs && reads & !slots == 0 && (!facts.subquery || has_cheap_queries(expr))
}

/// Whether MariaDB evaluates the subqueries of an expression while it plans: those that examine few rows and hold no others.
fn has_cheap_queries(expr: &Expr) -> bool {
    let mut cheap = true;
    walk::visit(expr, &mut |part| {
        if let Some(subquery) = Subquery::of(part) {
            cheap &= subquery.reads.is_empty() && !subquery.volatile;
            cheap &= examined(&subquery.plan).is_some_and(|rows| rows <= CHEAP_ROWS);
        }
    });
    cheap
}

/// The rows that a query without others within it is expected to examine.
fn examined(plan: &SelectPlan) -> Option<f64> {
    match &plan.body {
        Body::Block(block) => {
            let simple = plan.lock().is_none() && is_simple(block);
            simple.then(|| block.source.expected_rows())
        }
        Body::Set(set) => set.queries().into_iter().map(examined).sum(),
        Body::Recursive(_) | Body::Working(_) => None,
    }
}

/// Collects what a condition compares leading columns of indexes with.
fn compared_with_keys<'e>(table: &TableSource, condition: &'e Expr, out: &mut Vec<&'e Expr>) {
    let leads = |expr: &Expr| {
        let column = expr.as_column().filter(|column| column.slot == table.slot);
        column.is_some_and(|column| {
            let of = |index: &keel_catalog::IndexDef| {
                index.parts.first().is_some_and(|part| part.column == usize::from(column.column))
            };
            table.table.indexes.iter().any(of)
        })
    };
    let mut left = vec![condition];
    while let Some(part) = left.pop() {
        let mut operands = Vec::new();
        walk::children(part, &mut |child| operands.push(child));
        let compared = operands.iter().any(|operand| leads(operand));
        let others = operands.into_iter().filter(|operand| !leads(operand));
        if compared { out.extend(others) } else { left.extend(others) }
    }
}

/// Whether rows must come from a table that can have none.
fn has_empty(source: &Source) -> bool {
    match source {
        Source::Table(table) => matches!(*table.path, AccessPath::Empty),
        Source::Join(join) => has_empty(&join.left) || join.kind == Matching::Inner && has_empty(&join.right),
        _ => false,
    }
}

/// What the conditions on an index compare with; none where that is a query.
fn operands(alternatives: &[Vec<PartCondition>]) -> Option<Vec<&Expr>> {
    let mut all = Vec::new();
    for condition in alternatives.iter().flatten() {
        match condition {
            PartCondition::Equal(value) | PartCondition::NullSafeEqual(value) => all.push(value),
            PartCondition::In(list) => all.extend(list.iter()),
            PartCondition::Range { lower, upper } => {
                all.extend(lower.iter().chain(upper).map(|(value, _)| value));
            }
            PartCondition::Like { pattern, .. } => all.push(pattern),
            PartCondition::InQuery(..) => return None,
            PartCondition::IsNull => {}
        }
    }
    Some(all)
}

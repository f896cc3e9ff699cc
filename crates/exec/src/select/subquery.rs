//! Subqueries in expressions: one value, a row, EXISTS, IN, ANY and ALL.
//!
//! A subquery that reads nothing of its surroundings runs once per execution: scalars and EXISTS as any constant, IN as a
//! set of encoded keys (in memory up to `tmp_memory_table_size`, then in a file; where rows with NULL take more, it is run
//! again for each row). A correlated one runs for each row, no further than its answer needs, unless it has answered the
//! same before (`super::memo`).

use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_value::{Cell, Value};

use super::{Keyed, RowOutput, SelectPlan, run};
use crate::expr::compare::{self, shown};
use crate::expr::frame::Kept;
use crate::expr::print::Text;
use crate::expr::routine::{Memory, Routine};
use crate::expr::{CompareOp, Comparison, EvalContext, Expr, Node};
use crate::join::encode_in_domain;
use crate::memory::Allowance;
use crate::result::RowView;
use crate::session::{OfSession, Session};
use crate::sort::KeySet;

/// What a subquery is asked.
#[derive(Debug, Clone)]
pub enum SubqueryTest {
    /// The value in this column of its only row; 1242 if it has more than one.
    Scalar(usize),
    /// EXISTS.
    Exists,
    /// `operands [NOT] IN (subquery)`.
    In {
        /// NOT IN.
        negated: bool,
        /// The left side, one per column.
        operands: Vec<Expr>,
        /// How each is compared.
        by: Vec<Comparison>,
    },
    /// `operand op ANY | ALL (subquery)`.
    Quantified {
        /// The comparison.
        op: CompareOp,
        /// ALL; else ANY.
        all: bool,
        /// The left side, one expression.
        operands: Vec<Expr>,
        /// How it is compared.
        by: Vec<Comparison>,
    },
    /// `row = (subquery)`, or with another operator: the subquery has one row at most.
    Row {
        /// Which.
        op: CompareOp,
        /// The left side.
        operands: Vec<Expr>,
        /// How each is compared.
        by: Vec<Comparison>,
    },
}

impl SubqueryTest {
    /// The expressions of the enclosing query.
    pub fn operands(&self) -> &[Expr] {
        match self {
            SubqueryTest::In { operands, .. }
            | SubqueryTest::Quantified { operands, .. }
            | SubqueryTest::Row { operands, .. } => operands,
            SubqueryTest::Scalar(_) | SubqueryTest::Exists => &[],
        }
    }

    /// The same, to change them.
    pub fn operands_mut(&mut self) -> &mut [Expr] {
        match self {
            SubqueryTest::In { operands, .. }
            | SubqueryTest::Quantified { operands, .. }
            | SubqueryTest::Row { operands, .. } => operands,
            SubqueryTest::Scalar(_) | SubqueryTest::Exists => &mut [],
        }
    }
}

/// A subquery in an expression.
#[derive(Clone)]
pub struct Subquery {
    /// What is asked.
    pub test: SubqueryTest,
    /// The query.
    pub plan: Arc<SelectPlan>,
    /// Columns of enclosing queries that it reads: how many queries outwards, slot, column.
    pub reads: Vec<(u16, u16, u16)>,
    /// It gives another result each time.
    pub volatile: bool,
    /// Where an uncorrelated subquery's rows are kept for the execution.
    pub cell: u32,
    /// Where a correlated one's answers are kept, if they depend on what it reads outside and its operands alone, and its
    /// tables stay as they are meanwhile.
    pub memo: Option<u32>,
    /// How all of its answers are got at once.
    pub keyed: Option<Arc<Keyed>>,
    /// MariaDB puts its only item in its place: EXPLAIN has no line for it.
    pub reduced: bool,
}

impl std::fmt::Debug for Subquery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subquery")
            .field("test", &self.test)
            .field("reads", &self.reads)
            .finish_non_exhaustive()
    }
}

/// Takes the only row.
#[derive(Default)]
struct OnlyRow {
    values: Option<Vec<Value>>,
}

impl RowOutput for OnlyRow {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        if self.values.is_some() {
            let error = errors::subquery_no_1_row();
            if !session.ignores {
                return Err(error);
            }
            session.warn(error);
            self.values = None;
            return Ok(false);
        }
        let mut values = Vec::with_capacity(row.len());
        row.for_each(|_, value| values.push(value.to_owned()));
        self.values = Some(values);
        Ok(true)
    }
}

/// Gathers a column's values but NULL, so many at most.
struct Column {
    values: Vec<Value>,
    most: usize,
}

impl RowOutput for Column {
    fn row(&mut self, _: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        row.for_each(|_, value| {
            if !value.is_null() {
                self.values.push(value.to_owned());
            }
        });
        Ok(self.values.len() <= self.most)
    }
}

/// Notes that there is a row.
struct AnyRow(bool);

impl RowOutput for AnyRow {
    fn row(&mut self, _: &mut Session, _: RowView<'_>) -> SqlResult<bool> {
        self.0 = true;
        Ok(false)
    }
}

/// Looks for a row equal to given values.
struct Finder<'a> {
    subquery: &'a Subquery,
    wanted: &'a [Value],
    by: &'a [Comparison],
    found: bool,
    unknown: bool,
}

impl RowOutput for Finder<'_> {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        match self.subquery.equals(self.wanted, self.by, session, row)? {
            Some(true) => {
                self.found = true;
                return Ok(false);
            }
            Some(false) => {}
            None => self.unknown = true,
        }
        Ok(true)
    }
}

/// Compares one value with each row.
struct Comparer<'a> {
    subquery: &'a Subquery,
    value: &'a Value,
    op: CompareOp,
    by: Comparison,
    /// ALL ends with the first false, ANY with the first true.
    all: bool,
    decided: bool,
    unknown: bool,
}

impl RowOutput for Comparer<'_> {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        let order = self.subquery.order(0, self.value, self.by, session, row)?;
        match order.map(|o| self.op.holds(o)) {
            Some(holds) if holds != self.all => {
                self.decided = true;
                return Ok(false);
            }
            Some(_) => {}
            None => self.unknown = true,
        }
        Ok(true)
    }
}

/// The rows of an IN subquery.
pub struct RowSet {
    /// Those without NULL, encoded.
    keys: RefCell<KeySet>,
    /// Rows with a NULL; of single columns one is enough.
    partial: Vec<Vec<Value>>,
    has_rows: bool,
    partial_bytes: usize,
    /// For rows with a NULL.
    memory: Allowance,
}

impl std::fmt::Debug for RowSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowSet").field("partial", &self.partial).finish_non_exhaustive()
    }
}

impl RowSet {
    fn new(session: &Session) -> RowSet {
        let bytes = session.vars.tmp_memory_bytes;
        RowSet {
            keys: RefCell::new(KeySet::new(bytes, session.work())),
            partial: Vec::new(),
            has_rows: false,
            partial_bytes: 0,
            memory: Allowance::new(bytes, session.work()),
        }
    }
}

/// Gathers all rows as keys.
struct Gatherer<'a> {
    plan: &'a SelectPlan,
    by: &'a [Comparison],
    set: RowSet,
    /// Its rows with NULL do not fit into memory.
    too_large: bool,
    key: Vec<u8>,
}

impl RowOutput for Gatherer<'_> {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        let Gatherer { plan, by, set, key, .. } = self;
        set.has_rows = true;
        key.clear();
        let mut whole = Ok(true);
        let mut cx = EvalContext::new(session, crate::expr::Frame::EMPTY);
        row.for_each(|index, value| {
            if let Ok(true) = whole {
                whole = encode_in_domain(by[index], value, &plan.types[index].0, &mut cx, key);
            }
        });
        if whole? {
            set.keys.get_mut().add(key)?;
        } else if by.len() > 1 || set.partial.is_empty() {
            let mut values = Vec::with_capacity(by.len());
            row.for_each(|_, value| values.push(value.to_owned()));
            let octets = |v: &Value| size_of::<Value>() + v.as_ref().as_bytes().map_or(0, <[u8]>::len);
            set.partial_bytes += size_of::<Vec<Value>>() + values.iter().map(octets).sum::<usize>();
            set.partial.push(values);
            self.too_large = !set.memory.allows(set.partial_bytes);
        }
        Ok(!self.too_large)
    }
}

impl Routine for Subquery {
    /// The value of the test over the current rows.
    fn eval<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
        // The query counts rows of its own.
        let row = cx.env().current_row;
        let value = self.remembered(cx, |cx| self.answer(cx));
        cx.env_mut().current_row = row;
        value.map(Cell::Owned)
    }

    fn operands(&self) -> &[Expr] {
        self.test.operands()
    }

    fn operands_mut(&mut self) -> &mut [Expr] {
        self.test.operands_mut()
    }

    fn reads(&self) -> &[(u16, u16, u16)] {
        &self.reads
    }

    fn is_volatile(&self) -> bool {
        self.volatile
    }

    fn is_query(&self) -> bool {
        true
    }

    /// In plans with its number and what is asked of it.
    fn print(&self, out: &mut Text<'_>) {
        let Some(names) = out.plan() else { return out.push_str("(subquery)") };
        let address = Arc::as_ptr(&self.plan) as usize;
        let number = names.subqueries.iter().find(|(known, _)| *known == address).map(|(_, number)| *number);
        out.operands(self.test.operands());
        if let SubqueryTest::Quantified { op, .. } | SubqueryTest::Row { op, .. } = &self.test {
            out.push_str(" ");
            out.push_str(op.symbol());
        }
        out.push_str(match &self.test {
            SubqueryTest::Scalar(_) => "",
            SubqueryTest::Exists => "exists",
            SubqueryTest::In { negated: false, .. } => " in ",
            SubqueryTest::In { negated: true, .. } => " not in ",
            SubqueryTest::Row { .. } => " ",
            SubqueryTest::Quantified { all: true, .. } => " all ",
            SubqueryTest::Quantified { all: false, .. } => " any ",
        });
        match number {
            Some(number) => out.push_str(&format!("(subquery#{number})")),
            None => out.push_str("(subquery)"),
        }
    }

    fn boxed(&self) -> Box<dyn Routine> {
        Box::new(self.clone())
    }
}

impl Subquery {
    /// The subquery that an expression is, if it is one.
    pub fn of(expr: &Expr) -> Option<&Subquery> {
        match &expr.node {
            Node::Routine(routine) => routine.downcast_ref(),
            _ => None,
        }
    }

    /// The value of the test over the current rows, by running the query.
    fn answer<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
        let truth = match &self.test {
            SubqueryTest::Scalar(column) => {
                let mut only = OnlyRow::default();
                self.run(cx, u64::MAX, &mut only)?;
                return Ok(only.values.map_or(Value::Null, |mut row| row.swap_remove(*column)));
            }
            SubqueryTest::Exists => {
                let mut any = AnyRow(false);
                self.run(cx, 1, &mut any)?;
                Some(any.0)
            }
            SubqueryTest::In { negated, operands, by } => {
                self.contains(operands, by, cx)?.map(|t| t != *negated)
            }
            SubqueryTest::Quantified { op, all, operands, by } => {
                let value = operands[0].eval(cx)?.into_value();
                let mut comparer = Comparer {
                    subquery: self,
                    value: &value,
                    op: *op,
                    by: by[0],
                    all: *all,
                    decided: false,
                    unknown: false,
                };
                self.run(cx, u64::MAX, &mut comparer)?;
                if comparer.decided {
                    Some(!*all)
                } else if comparer.unknown {
                    None
                } else {
                    Some(*all)
                }
            }
            SubqueryTest::Row { op, operands, by } => {
                let wanted = values_of(operands, cx)?;
                let mut only = OnlyRow::default();
                self.run(cx, u64::MAX, &mut only)?;
                match only.values {
                    None if *op == CompareOp::NullSafeEq => Some(wanted.iter().all(Value::is_null)),
                    None => None,
                    Some(values) => self.compares(*op, &wanted, by, cx.session(), &values)?,
                }
            }
        };
        Ok(truth.map_or(Value::Null, |t| Value::Int(i64::from(t))))
    }

    /// The values of its only column without NULL; none where there are more than `most`.
    pub(crate) fn column(&self, cx: &mut EvalContext<'_, '_>, most: usize) -> SqlResult<Option<Vec<Value>>> {
        let mut column = Column { values: Vec::new(), most };
        self.run(cx, u64::MAX, &mut column)?;
        Ok((column.values.len() <= most).then_some(column.values))
    }

    fn run(&self, cx: &mut EvalContext<'_, '_>, most: u64, output: &mut dyn RowOutput) -> SqlResult<()> {
        let frame = cx.frame;
        run::first_rows(&self.plan, cx.session(), frame.params, Some(&frame), most, output)
    }

    fn contains<'f>(
        &'f self,
        operands: &'f [Expr],
        by: &'f [Comparison],
        cx: &mut EvalContext<'_, 'f>,
    ) -> SqlResult<Option<bool>> {
        if self.reads.is_empty()
            && !self.volatile
            && !self.is_tolerant(operands, by)
            && let Some(kept) = cx.frame.once.get(self.cell as usize)
        {
            if kept.get().is_none() {
                let gathered = self.gather(by, cx)?;
                let _ = kept.set(gathered);
            }
            if let Some(Kept::Routine(memory)) = kept.get()
                && let Some(set) = memory.0.downcast_ref::<RowSet>()
                && let Some(known) = self.look_up(set, operands, by, cx)?
            {
                return Ok(known);
            }
        }
        let wanted = values_of(operands, cx)?;
        let mut finder = Finder { subquery: self, wanted: &wanted, by, found: false, unknown: false };
        self.run(cx, u64::MAX, &mut finder)?;
        Ok(match (finder.found, finder.unknown) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        })
    }

    /// What the kept rows say; None where a row with a NULL is sought, which each of them may differ from.
    fn look_up<'f>(
        &self,
        set: &RowSet,
        operands: &'f [Expr],
        by: &[Comparison],
        cx: &mut EvalContext<'_, 'f>,
    ) -> SqlResult<Option<Option<bool>>> {
        let partial = &set.partial;
        if !set.has_rows {
            return Ok(Some(Some(false)));
        }
        let mut key = Vec::new();
        for (operand, by) in operands.iter().zip(by) {
            let cell = operand.eval(cx)?;
            if !encode_in_domain(*by, cell.as_ref(), &operand.ty, cx, &mut key)? {
                return Ok((operands.len() == 1).then_some(None));
            }
        }
        if set.keys.borrow_mut().contains(&key)? {
            return Ok(Some(Some(true)));
        }
        if operands.len() == 1 || partial.is_empty() {
            return Ok(Some(if partial.is_empty() { Some(false) } else { None }));
        }
        let wanted = values_of(operands, cx)?;
        for row in partial {
            if self.equals(&wanted, by, cx.session(), RowView::Values(row))?.is_none() {
                return Ok(Some(None));
            }
        }
        Ok(Some(Some(false)))
    }

    /// All rows as a set; where they are too many, an empty cell that says so.
    fn gather(&self, by: &[Comparison], cx: &mut EvalContext<'_, '_>) -> SqlResult<Kept> {
        let set = RowSet::new(cx.session());
        let mut gatherer = Gatherer { plan: &self.plan, by, set, too_large: false, key: Vec::new() };
        self.run(cx, u64::MAX, &mut gatherer)?;
        if gatherer.too_large {
            return Ok(Kept::Value(Value::Null));
        }
        gatherer.set.keys.get_mut().finish()?;
        Ok(Kept::Routine(Memory(Box::new(gatherer.set))))
    }

    /// How a value stands to a column of a row.
    fn order(
        &self,
        column: usize,
        value: &Value,
        by: Comparison,
        session: &mut Session,
        row: RowView<'_>,
    ) -> SqlResult<Option<Ordering>> {
        let mut other = Value::Null;
        row.for_each(|index, v| {
            if index == column {
                other = v.to_owned();
            }
        });
        let operand = &self.test.operands()[column].ty;
        let found = &self.plan.types[column].0;
        let mut cx = EvalContext::new(session, crate::expr::Frame::EMPTY);
        let (l, r) = match by {
            Comparison::Decimal => (shown(value.as_ref(), operand), shown(other.as_ref(), found)),
            _ => (value.as_ref(), other.as_ref()),
        };
        compare::tolerant(by, l, operand, r, found, &mut cx)
    }

    /// Whether a value may equal one of a row that is not the same ([`compare::is_tolerant`]).
    fn is_tolerant(&self, operands: &[Expr], by: &[Comparison]) -> bool {
        let mut pairs = operands.iter().zip(&self.plan.types).zip(by);
        pairs.any(|((operand, (found, _)), by)| compare::is_tolerant(*by, &operand.ty, found))
    }

    /// Whether all values equal those of a row.
    fn equals(
        &self,
        wanted: &[Value],
        by: &[Comparison],
        session: &mut Session,
        row: RowView<'_>,
    ) -> SqlResult<Option<bool>> {
        let mut unknown = false;
        for (column, (value, by)) in wanted.iter().zip(by).enumerate() {
            match self.order(column, value, *by, session, row)? {
                Some(Ordering::Equal) => {}
                Some(_) => return Ok(Some(false)),
                None => unknown = true,
            }
        }
        Ok(if unknown { None } else { Some(true) })
    }
}

impl Subquery {
    /// `wanted op found`, column by column.
    fn compares(
        &self,
        op: CompareOp,
        wanted: &[Value],
        by: &[Comparison],
        session: &mut Session,
        found: &[Value],
    ) -> SqlResult<Option<bool>> {
        let row = RowView::Values(found);
        if let CompareOp::Eq | CompareOp::Ne = op {
            return Ok(self.equals(wanted, by, session, row)?.map(|equal| equal == (op == CompareOp::Eq)));
        }
        for (column, (value, by)) in wanted.iter().zip(by).enumerate() {
            let order = match (op, value.is_null(), found[column].is_null()) {
                (CompareOp::NullSafeEq, true, true) => Some(Ordering::Equal),
                (CompareOp::NullSafeEq, true, false) | (CompareOp::NullSafeEq, false, true) => {
                    return Ok(Some(false));
                }
                _ => self.order(column, value, *by, session, row)?,
            };
            match order {
                Some(Ordering::Equal) => {}
                other => return Ok(other.map(|order| op.holds(order))),
            }
        }
        Ok(Some(op.holds(Ordering::Equal)))
    }
}

fn values_of<'f>(operands: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Vec<Value>> {
    operands.iter().map(|o| Ok(o.eval(cx)?.into_value())).collect()
}

//! The select list of a group where no row can match.
//!
//! Without GROUP BY there is one row of aggregates even where there are no rows. As in MariaDB a subquery in its select list
//! that reads columns of the query's tables is not run where the query is known to have no rows before any table is
//! scanned: a scalar one is NULL, EXISTS, IN and ANY find nothing. A subquery that reads only aggregates is run. The query
//! is known to have no rows where WHERE is false for all rows, its conditions contradict each other, a row that is looked
//! up by a unique key is not there, or a range of an index is empty.

use keel_base::SqlResult;
use keel_storage::Read;
use keel_value::types::Class;
use keel_value::{SqlType, Value};

use super::frame::FrameBuffer;
use super::subquery::{Subquery, SubqueryTest};
use crate::access;
use crate::expr::{CompareOp, EvalContext, Expr, Node, RowSlot, walk};
use crate::join::{Matching, Runner, Source, TableSource};
use crate::session::Session;

/// What a query without rows gives.
pub struct Nothing {
    /// The select list without the subqueries that are not run.
    pub project: Vec<Expr>,
    /// WHERE.
    conditions: Vec<Expr>,
}

/// A column whose value conditions say.
struct KnownColumn<'c> {
    slot: u16,
    column: u16,
    ty: &'c SqlType,
    value: Value,
}

/// What the query gives without rows; none where subqueries are run in any case. Aggregates are in place, in the slot `groups`,
/// behind those of the tables.
pub fn of_nothing(project: &[Expr], conditions: &[Expr], groups: u16) -> Option<Nothing> {
    let mut replaced = project.to_vec();
    let mut differs = false;
    replaced.iter_mut().for_each(|expr| differs |= leave_out(expr, groups));
    differs.then(|| Nothing { project: replaced, conditions: conditions.to_vec() })
}

impl Nothing {
    /// Whether it is known without a scan that the query, which gave no row, has none.
    pub fn is_known(
        &self,
        source: &Source,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
        read: Read,
    ) -> SqlResult<bool> {
        let empty = vec![RowSlot::Null; frame.slots.len()];
        let saved = std::mem::replace(&mut frame.slots, empty);
        let known = match self.contradict(source, session, frame) {
            Ok(false) => match self.excludes_all(source, session, frame) {
                Ok(false) => lacks_rows(source, true, session, frame, read),
                known => known,
            },
            known => known,
        };
        frame.slots = saved;
        known
    }

    /// Whether the conditions contradict each other.
    fn contradict(
        &self,
        source: &Source,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
    ) -> SqlResult<bool> {
        let mut known: Vec<KnownColumn<'_>> = Vec::new();
        for condition in &self.conditions {
            match &condition.node {
                Node::IsNull { negated: false, value } if value.as_column().is_some() && !value.nullable => {
                    return Ok(true);
                }
                Node::Compare { op: CompareOp::Ne | CompareOp::Lt | CompareOp::Gt, left, right, .. }
                    if left.as_column().is_some() && walk::same(left, right) =>
                {
                    return Ok(true);
                }
                Node::Compare { op, left, right, .. } if *op != CompareOp::NullSafeEq => {
                    for (column, other) in [(left, right), (right, left)] {
                        let Some(of) = column.as_column().filter(|_| other.is_constant()) else { continue };
                        let is_indexed = begins_index(source, (of.slot, of.column));
                        let value = other.eval(&mut EvalContext::new(session, frame.view()))?.into_value();
                        if value.is_null() && is_indexed {
                            return Ok(true);
                        }
                        if *op == CompareOp::Eq {
                            note(&mut known, column, &other.ty, value);
                        }
                    }
                }
                _ => {}
            }
        }
        self.follow(&mut known);
        for one in &known {
            put(frame, one);
        }
        for condition in &self.conditions {
            if depends_on(condition, &known)
                && !condition.holds(&mut EvalContext::new(session, frame.view()))?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a column that begins an index has no value that its constant bounds and lists allow.
    fn excludes_all(
        &self,
        source: &Source,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
    ) -> SqlResult<bool> {
        for condition in &self.conditions {
            let (column, values) = match &condition.node {
                Node::In { negated: false, value, list, .. } => (value, list.iter().collect()),
                Node::Compare { op: CompareOp::Gt | CompareOp::Ge, left, right, .. } => {
                    (left, vec![&**right])
                }
                Node::Compare { op: CompareOp::Lt | CompareOp::Le, left, right, .. } => {
                    (right, vec![&**left])
                }
                Node::Between { negated: false, value, low, .. } => (value, vec![&**low]),
                _ => continue,
            };
            let Some(of) = column.as_column() else { continue };
            let of = (of.slot, of.column);
            if !begins_index(source, of) || !values.iter().all(|value| value.is_constant()) {
                continue;
            }
            // A lower bound that another condition's upper bound is below is no value for the column, nor is more.
            let is_list = matches!(condition.node, Node::In { .. });
            let mut fits = false;
            for value in values {
                let given = value.eval(&mut EvalContext::new(session, frame.view()))?.into_value();
                let mut known = Vec::new();
                note(&mut known, column, &value.ty, given);
                let Some(one) = known.first() else {
                    fits = true;
                    break;
                };
                put(frame, one);
                let is_range = match matches!(condition.node, Node::Between { .. }) {
                    true => condition.holds(&mut EvalContext::new(session, frame.view()))?,
                    false => true,
                };
                fits |= is_range && self.allows(one, is_list, session, frame)?;
            }
            if !fits {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the conditions on a column alone allow its value in the frame: all of them, or those that bound it above.
    fn allows(
        &self,
        known: &KnownColumn<'_>,
        all: bool,
        session: &mut Session,
        frame: &FrameBuffer<'_>,
    ) -> SqlResult<bool> {
        let column =
            |expr: &Expr| expr.as_column().is_some_and(|c| (c.slot, c.column) == (known.slot, known.column));
        for condition in &self.conditions {
            let bounds_above = match &condition.node {
                Node::Compare { op: CompareOp::Lt | CompareOp::Le, left, .. } => column(left),
                Node::Compare { op: CompareOp::Gt | CompareOp::Ge, right, .. } => column(right),
                _ => false,
            };
            if (all || bounds_above)
                && depends_on(condition, std::slice::from_ref(known))
                && !condition.holds(&mut EvalContext::new(session, frame.view()))?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds columns that equal known ones.
    fn follow<'c>(&'c self, known: &mut Vec<KnownColumn<'c>>) {
        let mut before = usize::MAX;
        while before != known.len() {
            before = known.len();
            for condition in &self.conditions {
                let Node::Compare { op: CompareOp::Eq, left, right, .. } = &condition.node else { continue };
                for (column, other) in [(left, right), (right, left)] {
                    let Some(of) = other.as_column() else { continue };
                    let found = known.iter().find(|k| (k.slot, k.column) == (of.slot, of.column));
                    if let Some(value) = found.map(|k| k.value.clone()) {
                        note(known, column, &other.ty, value);
                    }
                }
            }
        }
    }
}

/// Whether a column of a table that every row needs is the first of an index.
fn begins_index(source: &Source, (slot, column): (u16, u16)) -> bool {
    match source {
        Source::Table(table) if table.slot == slot => table.table.indexes.iter().any(|index| {
            !index.options.ignored && !index.hashed && index.parts[0].column == usize::from(column)
        }),
        Source::Join(join) if join.kind == Matching::Inner => {
            begins_index(&join.left, (slot, column)) || begins_index(&join.right, (slot, column))
        }
        _ => false,
    }
}

/// Notes a column's value, where it is of the column's own class.
fn note<'c>(known: &mut Vec<KnownColumn<'c>>, column: &'c Expr, from: &SqlType, value: Value) {
    let Some(of) = column.as_column() else { return };
    let ty = &column.ty;
    let is_plain = match ty.class() {
        Class::Int => matches!(value, Value::Int(_) | Value::UInt(_)),
        Class::Date | Class::Time => ty.kind == from.kind,
        _ => false,
    };
    if is_plain && !known.iter().any(|k| (k.slot, k.column) == (of.slot, of.column)) {
        known.push(KnownColumn { slot: of.slot, column: of.column, ty, value });
    }
}

/// Puts a column's value into the frame.
fn put(frame: &mut FrameBuffer<'_>, known: &KnownColumn<'_>) {
    let value = match &known.value {
        Value::Int(n) if known.ty.unsigned && *n >= 0 => Value::UInt(n.unsigned_abs()),
        Value::UInt(n) if !known.ty.unsigned => i64::try_from(*n).map_or(Value::UInt(*n), Value::Int),
        value => value.clone(),
    };
    let slot = &mut frame.slots[usize::from(known.slot)];
    if !matches!(slot, RowSlot::Values(_)) {
        *slot = RowSlot::Values(Vec::new());
    }
    if let RowSlot::Values(values) = slot {
        let width = values.len().max(usize::from(known.column) + 1);
        values.resize(width, Value::Null);
        values[usize::from(known.column)] = value;
    }
}

/// Whether a condition reads known columns and nothing else.
fn depends_on(condition: &Expr, known: &[KnownColumn<'_>]) -> bool {
    let facts = walk::facts(condition);
    let mut all = facts.columns && !facts.outer && !facts.volatile && !facts.assigns && !facts.subquery;
    walk::for_each_column(condition, &mut |slot, column| {
        all &= known.iter().any(|k| (k.slot, k.column) == (slot, column));
    });
    all
}

/// Whether a table that every row needs has no row by a unique key or in a range of an index. `alone` is the only table: the
/// conditions on the row that its key finds are looked at too.
fn lacks_rows(
    source: &Source,
    alone: bool,
    session: &mut Session,
    frame: &mut FrameBuffer<'_>,
    read: Read,
) -> SqlResult<bool> {
    match source {
        Source::Table(table) if is_point(table) => match alone {
            true => Ok(true),
            false => {
                let mut runner = Runner::new(source, read);
                runner.open(session, frame)?;
                Ok(!runner.next(session, frame)?)
            }
        },
        Source::Table(table) => access::has_no_range(&table.table, &table.path, session, frame.view()),
        Source::Join(join) if join.kind == Matching::Inner => {
            Ok(lacks_rows(&join.left, false, session, frame, read)?
                || lacks_rows(&join.right, false, session, frame, read)?)
        }
        _ => Ok(false),
    }
}

/// Whether a table's row is looked up by a constant key.
fn is_point(table: &TableSource) -> bool {
    matches!(&*table.path, access::AccessPath::Point { key, .. } if key.iter().all(Expr::is_constant))
}

fn leave_out(expr: &mut Expr, groups: u16) -> bool {
    if let Some(subquery) = Subquery::of(expr) {
        let mut reads_tables = subquery.reads.iter().any(|(level, slot, _)| *level == 1 && *slot < groups);
        if matches!(subquery.test, SubqueryTest::In { .. } | SubqueryTest::Quantified { .. }) {
            for operand in subquery.test.operands() {
                walk::for_each_column(operand, &mut |slot, _| reads_tables |= slot < groups);
            }
        }
        let value = match &subquery.test {
            _ if !reads_tables => return false,
            SubqueryTest::Scalar(_) => Value::Null,
            SubqueryTest::Exists => Value::Int(0),
            SubqueryTest::In { negated, .. } => Value::Int(i64::from(*negated)),
            SubqueryTest::Quantified { all, .. } => Value::Int(i64::from(*all)),
            SubqueryTest::Row { .. } => return false,
        };
        expr.node = Node::Constant(value);
        return true;
    }
    let mut differs = false;
    walk::children_mut(expr, &mut |operand| differs |= leave_out(operand, groups));
    differs
}

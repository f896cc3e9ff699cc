//! Frames that move over a partition: where they begin and end, and the aggregates over them.

use std::cmp::Ordering;

use keel_base::SqlResult;
use keel_value::types::Class;
use keel_value::{SqlType, Value, ValueRef};

use super::run::View;
use super::{Bound, FrameGroup, WindowCall, WindowKind};
use crate::aggregate::{AggregateCall, AggregateKind, State, domain_of};
use crate::expr::{Comparison, EvalContext, Expr, RowSlot, compare};
use crate::select::FrameBuffer;
use crate::session::Session;

/// The frame of some functions at the current row.
pub(super) struct FrameRun<'p> {
    pub group: &'p FrameGroup,
    /// The rows equal to the current one in order.
    pub peers: std::ops::Range<u64>,
    peer_key: Vec<u8>,
    /// Sets of equal rows so far, this one included.
    pub dense_rank: u64,
    /// The frame; empty where it ends before it begins.
    pub rows: std::ops::Range<u64>,
    /// The rows that the aggregates have taken.
    taken: std::ops::Range<u64>,
    aggregates: Vec<Moving<'p>>,
}

/// An aggregate over a frame.
struct Moving<'p> {
    number: usize,
    call: &'p AggregateCall,
    sum: Sum,
    /// Its rows have to be taken again.
    stale: bool,
    /// The result, until rows come or go.
    value: Option<Value>,
}

enum Sum {
    /// Rows can be taken back, or never leave.
    State(State),
    /// Made again where rows leave.
    Renewed(State),
    /// MIN and MAX: the best value and its row, the last of several.
    Best(Option<(Value, u64)>),
    /// A sum of doubles that rows leave, in two parts, so that nothing of them stays as rounding error.
    Real { total: f64, rest: f64, count: i64 },
}

impl<'p> FrameRun<'p> {
    /// Before the first partition.
    pub fn new(group: &'p FrameGroup, calls: &'p [WindowCall], session: &Session) -> FrameRun<'p> {
        let leaves = !group.frame.start.is_unbounded();
        let moving = |number: &usize| match &calls[*number].kind {
            WindowKind::Aggregate(call) => {
                let sum = Sum::new(call, leaves, session);
                Some(Moving { number: *number, call, sum, stale: false, value: None })
            }
            _ => None,
        };
        FrameRun {
            group,
            peers: 0..0,
            peer_key: Vec::new(),
            dense_rank: 0,
            rows: 0..0,
            taken: 0..0,
            aggregates: group.calls.iter().filter_map(moving).collect(),
        }
    }

    /// Begins a partition.
    pub fn restart(&mut self, session: &Session) {
        (self.peers, self.rows, self.taken) = (0..0, 0..0, 0..0);
        self.dense_rank = 0;
        self.aggregates.iter_mut().for_each(|moving| moving.clear(session));
    }

    /// Goes to a row, the one behind the last.
    pub fn go_to(
        &mut self,
        row: u64,
        view: &mut View<'_>,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
    ) -> SqlResult<()> {
        let new_peers = row >= self.peers.end;
        if new_peers {
            self.find_peers(row, view, session)?;
            self.dense_rank += 1;
        }
        let by_value = self.group.frame.start.is_value() || self.group.frame.end.is_value();
        if by_value && new_peers {
            self.bound_by_value(row, view, session, frame)?;
        } else if !by_value {
            let length = view.len();
            let moved = |by: i64| row.saturating_add_signed(by).min(length);
            let range = self.group.frame.range;
            let start = match self.group.frame.start {
                Bound::Unbounded => 0,
                Bound::Current if range => self.peers.start,
                Bound::Current => row,
                Bound::Rows(by) => moved(by),
                Bound::Value(_) => self.rows.start,
            };
            let end = match self.group.frame.end {
                Bound::Unbounded => length,
                Bound::Current if range => self.peers.end,
                Bound::Current => row + 1,
                // Before the first row there is no row to end behind.
                Bound::Rows(by) if by < 0 && row < by.unsigned_abs() => 0,
                Bound::Rows(by) => moved(by.saturating_add(1)),
                Bound::Value(_) => self.rows.end,
            };
            self.rows = start..end;
        }
        self.move_aggregates(view, session, frame)
    }

    fn find_peers(&mut self, row: u64, view: &mut View<'_>, session: &Session) -> SqlResult<()> {
        let parts = self.group.peer_parts;
        if parts == view.partition_parts() {
            self.peers = 0..view.len();
            return Ok(());
        }
        self.peer_key.clear();
        self.peer_key.extend_from_slice(view.key(row, parts)?);
        let mut end = row + 1;
        while end < view.len() && view.key(end, parts)? == self.peer_key {
            session.let_others_run()?;
            end += 1;
        }
        self.peers = row..end;
        Ok(())
    }

    /// The frame by values of the order's key.
    fn bound_by_value(
        &mut self,
        row: u64,
        view: &mut View<'_>,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
    ) -> SqlResult<()> {
        let (key, descending) = self.group.range_key.as_ref().expect("a bound by value has a key");
        view.load(row, frame)?;
        let own = key.eval(&mut EvalContext::new(session, frame.view()))?.into_value();
        frame.slots[view.key_slot()] = RowSlot::Values(vec![own]);
        let mut value = |bound: &'p Bound| -> SqlResult<Option<(Value, &'p SqlType)>> {
            let Bound::Value(expr) = bound else { return Ok(None) };
            let value = expr.eval(&mut EvalContext::new(session, frame.view()))?.into_value();
            Ok(Some((value, &expr.ty)))
        };
        let (first, last) = (value(&self.group.frame.start)?, value(&self.group.frame.end)?);
        let start = match first {
            None if self.group.frame.start.is_unbounded() => 0,
            None => self.peers.start,
            Some(bound) => {
                let stop = |order: Ordering| order != Ordering::Less;
                let from = self.rows.start;
                seek(from, (key, *descending), &bound, stop, view, session, frame)?
            }
        };
        let end = match last {
            None if self.group.frame.end.is_unbounded() => view.len(),
            None => self.peers.end,
            Some(bound) => {
                let stop = |order: Ordering| order == Ordering::Greater;
                seek(self.rows.end, (key, *descending), &bound, stop, view, session, frame)?
            }
        };
        self.rows = start..end;
        Ok(())
    }

    /// Has the aggregates take what has come into the frame, and take back what has left it.
    fn move_aggregates(
        &mut self,
        view: &mut View<'_>,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
    ) -> SqlResult<()> {
        let std::ops::Range { start, end } = self.rows;
        if self.aggregates.is_empty() || (start == self.taken.start && end == self.taken.end) {
            return Ok(());
        }
        if start >= self.taken.end {
            if !self.taken.is_empty() {
                self.aggregates.iter_mut().for_each(|moving| moving.clear(session));
            }
            self.taken = start..start;
        }
        for row in self.taken.start..start {
            view.load(row, frame)?;
            session.let_others_run()?;
            for moving in &mut self.aggregates {
                moving.take_back(row, session, frame)?;
            }
        }
        self.taken.start = start;
        for moving in self.aggregates.iter_mut().filter(|moving| moving.stale) {
            moving.clear(session);
            for row in self.taken.clone() {
                view.load(row, frame)?;
                session.let_others_run()?;
                moving.take(row, session, frame)?;
            }
        }
        for row in self.taken.end..end {
            view.load(row, frame)?;
            session.let_others_run()?;
            for moving in &mut self.aggregates {
                moving.take(row, session, frame)?;
            }
        }
        self.taken.end = end.max(self.taken.end);
        Ok(())
    }

    /// The aggregates' results over the frame, by number.
    pub fn aggregates(&mut self, session: &mut Session, out: &mut [Option<Value>]) -> SqlResult<()> {
        for moving in &mut self.aggregates {
            out[moving.number] = Some(moving.result(session)?);
        }
        Ok(())
    }
}

/// The first row from `row` on whose key's order against the bound says stop; NULL is less than all.
fn seek(
    mut row: u64,
    (key, descending): (&Expr, bool),
    (bound, bound_ty): &(Value, &SqlType),
    stop: impl Fn(Ordering) -> bool,
    view: &mut View<'_>,
    session: &mut Session,
    frame: &mut FrameBuffer<'_>,
) -> SqlResult<u64> {
    let by = match (key.ty.class(), bound_ty.class()) {
        (Class::Int, Class::Int) => Comparison::Int,
        (Class::Real, _) | (_, Class::Real) => Comparison::Real,
        _ => Comparison::Decimal,
    };
    while row < view.len() {
        session.let_others_run()?;
        view.load(row, frame)?;
        let mut cx = EvalContext::new(session, frame.view());
        let cell = key.eval(&mut cx)?;
        let order = match (cell.as_ref(), bound.as_ref()) {
            (ValueRef::Null, ValueRef::Null) => Ordering::Equal,
            (ValueRef::Null, _) => Ordering::Less,
            (_, ValueRef::Null) => Ordering::Greater,
            (value, bound) => {
                let order = compare::values(by, value, &key.ty, bound, bound_ty, &mut cx)?;
                order.unwrap_or(Ordering::Equal)
            }
        };
        if stop(if descending { order.reverse() } else { order }) {
            break;
        }
        row += 1;
    }
    Ok(row)
}

impl Sum {
    fn new(call: &AggregateCall, leaves: bool, session: &Session) -> Sum {
        match call.kind {
            AggregateKind::Min | AggregateKind::Max => Sum::Best(None),
            _ if !leaves || State::removes(call) => Sum::State(State::new(call, session)),
            AggregateKind::Sum | AggregateKind::Avg => Sum::Real { total: 0.0, rest: 0.0, count: 0 },
            _ => Sum::Renewed(State::new(call, session)),
        }
    }
}

impl<'p> Moving<'p> {
    fn clear(&mut self, session: &Session) {
        self.stale = false;
        self.value = None;
        match &mut self.sum {
            Sum::State(state) | Sum::Renewed(state) => *state = State::new(self.call, session),
            Sum::Best(best) => *best = None,
            Sum::Real { total, rest, count } => (*total, *rest, *count) = (0.0, 0.0, 0),
        }
    }

    /// Takes the row that the frame holds, the `row`-th.
    fn take(&mut self, row: u64, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        self.value = None;
        let call = self.call;
        let mut cx = EvalContext::new(session, frame.view());
        match &mut self.sum {
            Sum::State(state) | Sum::Renewed(state) => state.add(call, &mut cx)?,
            Sum::Best(best) => {
                let cell = call.args[0].eval(&mut cx)?;
                if !cell.as_ref().is_null() && is_better(call, cell.as_ref(), best.as_ref(), &mut cx)? {
                    *best = Some((cell.into_value(), row));
                }
            }
            Sum::Real { total, rest, count } => {
                if let Some(value) = call.args[0].real(&mut cx)? {
                    add_exactly(total, rest, value);
                    *count += 1;
                }
            }
        }
        Ok(())
    }

    /// Takes it back, or notes that the rest has to be taken again.
    fn take_back(&mut self, row: u64, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        let call = self.call;
        let mut cx = EvalContext::new(session, frame.view());
        match &mut self.sum {
            Sum::State(state) => state.remove(call, &mut cx)?,
            Sum::Renewed(_) => self.stale = true,
            Sum::Best(best) => {
                self.stale |= best.as_ref().is_some_and(|(_, own)| *own <= row);
                return Ok(());
            }
            Sum::Real { total, rest, count } => {
                if let Some(value) = call.args[0].real(&mut cx)? {
                    add_exactly(total, rest, -value);
                    *count -= 1;
                    // What left an infinite sum does not come back.
                    self.stale |= !total.is_finite() || !rest.is_finite();
                }
            }
        }
        self.value = None;
        Ok(())
    }

    fn result(&mut self, session: &mut Session) -> SqlResult<Value> {
        if let Some(value) = &self.value {
            return Ok(value.clone());
        }
        let value = match &mut self.sum {
            Sum::State(state) | Sum::Renewed(state) => state.finish(self.call, session)?,
            Sum::Best(best) => best.as_ref().map_or(Value::Null, |(value, _)| value.clone()),
            Sum::Real { count: 0, .. } => Value::Null,
            Sum::Real { total, rest, count } => {
                // The rest of an infinite sum says nothing.
                let sum = if total.is_finite() { *total + *rest } else { *total };
                let sum = sum.clamp(f64::MIN, f64::MAX);
                Value::Double(if self.call.kind == AggregateKind::Avg { sum / *count as f64 } else { sum })
            }
        };
        self.value = Some(value.clone());
        Ok(value)
    }
}

/// Whether a value is at least as good as the best of MIN or MAX so far.
fn is_better(
    call: &AggregateCall,
    value: ValueRef<'_>,
    best: Option<&(Value, u64)>,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<bool> {
    let Some((best, _)) = best else { return Ok(true) };
    let order = compare::values(domain_of(&call.ty), value, &call.ty, best.as_ref(), &call.ty, cx)?;
    let worse = if call.kind == AggregateKind::Min { Ordering::Greater } else { Ordering::Less };
    Ok(order != Some(worse))
}

/// Adds to a sum in two parts what the first part alone would lose (Knuth's sum with its error).
fn add_exactly(total: &mut f64, rest: &mut f64, value: f64) {
    let sum = *total + value;
    let taken = sum - *total;
    *rest += (*total - (sum - taken)) + (value - taken);
    *total = sum;
}

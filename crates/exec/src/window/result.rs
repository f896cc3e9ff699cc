//! Functions that look at single rows or at places: numbers, ranks, values of other rows, percentiles.

use keel_base::{SqlResult, errors};
use keel_value::convert::round_to;
use keel_value::types::NOT_FIXED;
use keel_value::{SqlType, TypeKind, Value};

use super::frame::FrameRun;
use super::run::View;
use super::{FrameGroup, WindowCall, WindowKind};
use crate::expr::EvalContext;
use crate::select::FrameBuffer;
use crate::session::Session;

/// The functions of a frame that are no aggregates.
pub(super) struct RowFunctions<'p> {
    calls: Vec<RowFunction<'p>>,
}

struct RowFunction<'p> {
    number: usize,
    call: &'p WindowCall,
    /// The value of another row that was asked for last, and its row.
    found: Option<(u64, Value)>,
    percentile: Option<Percentile>,
}

/// A percentile of the partition at hand.
struct Percentile {
    fraction: f64,
    value: Value,
}

impl<'p> RowFunctions<'p> {
    pub fn new(group: &'p FrameGroup, calls: &'p [WindowCall]) -> RowFunctions<'p> {
        let own = |number: &usize| {
            let call = &calls[*number];
            let is_aggregate = matches!(call.kind, WindowKind::Aggregate(_));
            (!is_aggregate).then_some(RowFunction { number: *number, call, found: None, percentile: None })
        };
        RowFunctions { calls: group.calls.iter().filter_map(own).collect() }
    }

    /// Begins a partition.
    pub fn restart(&mut self) {
        for function in &mut self.calls {
            (function.found, function.percentile) = (None, None);
        }
    }

    /// The results at a row, by number.
    pub fn results(
        &mut self,
        row: u64,
        place: &FrameRun<'_>,
        view: &mut View<'_>,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
        out: &mut [Option<Value>],
    ) -> SqlResult<()> {
        for function in &mut self.calls {
            let value = function.result(row, place, view, session, frame)?;
            out[function.number] = Some(kept(&function.call.ty, value));
        }
        Ok(())
    }
}

/// A result as MariaDB's temporary table keeps it: a DOUBLE of fixed digits has no more of them.
fn kept(ty: &SqlType, value: Value) -> Value {
    match value {
        Value::Double(v) if ty.kind == TypeKind::Double && ty.decimals < NOT_FIXED && v.is_finite() => {
            Value::Double(round_to(v, ty.decimals))
        }
        other => other,
    }
}

impl RowFunction<'_> {
    fn result(
        &mut self,
        row: u64,
        place: &FrameRun<'_>,
        view: &mut View<'_>,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
    ) -> SqlResult<Value> {
        let whole = |n: u64| Value::Int(n as i64);
        let (length, rank) = (view.len(), place.peers.start);
        let rows = place.rows.clone();
        let other = match self.call.kind {
            WindowKind::RowNumber => return Ok(whole(row + 1)),
            WindowKind::Rank => return Ok(whole(rank + 1)),
            WindowKind::DenseRank => return Ok(whole(place.dense_rank)),
            WindowKind::PercentRank if length == 1 => return Ok(Value::Double(0.0)),
            WindowKind::PercentRank => return Ok(Value::Double(rank as f64 / (length - 1) as f64)),
            WindowKind::CumeDist => return Ok(Value::Double(place.peers.end as f64 / length as f64)),
            WindowKind::Ntile => {
                view.load(row, frame)?;
                let count = self.argument(0, session, frame)?.and_then(|n| u64::try_from(n).ok());
                let count = count.filter(|n| *n > 0).ok_or_else(errors::invalid_ntile_argument)?;
                return Ok(whole(bucket(row, length, count)));
            }
            WindowKind::Shift { ahead } => {
                view.load(row, frame)?;
                let by = if self.call.args.len() < 2 {
                    1
                } else {
                    // NULL is no row away, as in MariaDB.
                    self.argument(1, session, frame)?.unwrap_or(0)
                };
                let row = i128::from(row);
                let target = if ahead { row.saturating_add(by) } else { row.saturating_sub(by) };
                u64::try_from(target).ok().filter(|target| *target < length)
            }
            WindowKind::FirstValue => Some(rows.start).filter(|_| !rows.is_empty()),
            WindowKind::LastValue => rows.end.checked_sub(1).filter(|last| rows.contains(last)),
            WindowKind::NthValue => {
                view.load(row, frame)?;
                // NULL is the first row, as in MariaDB.
                let behind = self.argument(1, session, frame)?.map_or(0, |n| n.saturating_sub(1));
                u64::try_from(i128::from(rows.start).saturating_add(behind))
                    .ok()
                    .filter(|nth| rows.contains(nth))
            }
            WindowKind::PercentileCont | WindowKind::PercentileDisc => {
                return self.percentile(row, view, session, frame);
            }
            WindowKind::Aggregate(_) => unreachable!("aggregates are computed by the frame"),
        };
        match other {
            Some(other) => self.value_of(other, view, session, frame),
            None => Ok(Value::Null),
        }
    }

    /// An argument as a number, over the row that the frame holds.
    fn argument(
        &self,
        index: usize,
        session: &mut Session,
        frame: &FrameBuffer<'_>,
    ) -> SqlResult<Option<i128>> {
        self.call.args[index].integer(&mut EvalContext::new(session, frame.view()))
    }

    /// The first argument's value at another row.
    fn value_of(
        &mut self,
        row: u64,
        view: &mut View<'_>,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
    ) -> SqlResult<Value> {
        if let Some((found, value)) = &self.found
            && *found == row
        {
            return Ok(value.clone());
        }
        view.load(row, frame)?;
        let value = self.call.args[0].eval(&mut EvalContext::new(session, frame.view()))?.into_value();
        self.found = Some((row, value.clone()));
        Ok(value)
    }

    /// The fraction has to be the same for all rows of a partition.
    fn percentile(
        &mut self,
        row: u64,
        view: &mut View<'_>,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
    ) -> SqlResult<Value> {
        let continuous = matches!(self.call.kind, WindowKind::PercentileCont);
        let name = if continuous { "percentile_cont" } else { "percentile_disc" };
        if let Some(known) = &self.percentile
            && self.call.args[0].is_constant()
        {
            return Ok(known.value.clone());
        }
        view.load(row, frame)?;
        let fraction = self.call.args[0].real(&mut EvalContext::new(session, frame.view()))?.unwrap_or(0.0);
        if let Some(known) = &self.percentile {
            if known.fraction != fraction {
                return Err(errors::argument_not_constant(name));
            }
            return Ok(known.value.clone());
        }
        if !(0.0..=1.0).contains(&fraction) {
            return Err(errors::argument_out_of_range(name));
        }
        let value = self.find_percentile(fraction, continuous, view, session, frame)?;
        self.percentile = Some(Percentile { fraction, value: value.clone() });
        Ok(value)
    }

    fn find_percentile(
        &self,
        fraction: f64,
        continuous: bool,
        view: &mut View<'_>,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
    ) -> SqlResult<Value> {
        let ordered = &self.call.args[1];
        // NULL does not count; such rows stand together at one end.
        let (mut first, mut count) = (None, 0);
        for row in 0..view.len() {
            session.let_others_run()?;
            view.load(row, frame)?;
            if !ordered.eval(&mut EvalContext::new(session, frame.view()))?.as_ref().is_null() {
                first.get_or_insert(row);
                count += 1;
            }
        }
        let Some(first) = first else { return Ok(Value::Null) };
        if !continuous {
            let reaches = |number: u64| number as f64 / count as f64 >= fraction;
            let mut number = ((fraction * count as f64) as u64).clamp(1, count);
            while number > 1 && reaches(number - 1) {
                number -= 1;
            }
            while number < count && !reaches(number) {
                number += 1;
            }
            view.load(first + number - 1, frame)?;
            return Ok(ordered.eval(&mut EvalContext::new(session, frame.view()))?.into_value());
        }
        let mut real = |row: u64| -> SqlResult<f64> {
            view.load(first + row, frame)?;
            Ok(ordered.real(&mut EvalContext::new(session, frame.view()))?.unwrap_or(0.0))
        };
        let place = fraction * (count - 1) as f64;
        let (below, above) = (real(place.floor() as u64)?, real(place.ceil() as u64)?);
        if place.floor() == place.ceil() {
            return Ok(Value::Double(below));
        }
        Ok(Value::Double((place.ceil() - place) * below + (place - place.floor()) * above))
    }
}

/// The bucket, from 1, of a row where `length` rows go into `count` buckets, the first ones one row larger.
fn bucket(row: u64, length: u64, count: u64) -> u64 {
    let (size, larger) = (length / count, length % count);
    let in_larger = larger * (size + 1);
    if row < in_larger { row / (size + 1) + 1 } else { larger + (row - in_larger) / size.max(1) + 1 }
}

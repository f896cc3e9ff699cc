//! WITH ROLLUP: rows sorted by the keys, and one set of aggregates' states for each number of leading keys.
//!
//! A row goes into the states of all levels. Where a key changes, the group is given, then the groups of ever fewer keys
//! that end there too; of these the keys beyond are NULL, and columns that are no keys have the values of the last group.

use keel_base::SqlResult;
use keel_value::Value;

use super::GroupPlan;
use crate::aggregate::State;
use crate::expr::{EvalContext, RowSlot};
use crate::select::{FrameBuffer, encode_key_part};
use crate::session::Session;
use crate::sort::{Sorted, Sorter};

/// Bytes of the end of each of a key's parts.
const END_BYTES: usize = 4;

/// Groups and what they roll up to.
pub(crate) struct Rollup<'p> {
    plan: &'p GroupPlan,
    sorter: Option<Sorter>,
    sorted: Option<Sorted>,
    /// The row that begins the next group: ends of its key's parts, key, columns; empty where there is none.
    ahead: Vec<u8>,
    key: Vec<u8>,
    ends: Vec<u32>,
    /// The keys' values and the kept columns of the group at hand.
    values: Vec<Value>,
    carried: Vec<u8>,
    has_group: bool,
    /// States by level: how many keys count.
    levels: Vec<Vec<State>>,
    /// Levels to give, the first one downwards to the second.
    giving: Option<(usize, usize)>,
}

impl<'p> Rollup<'p> {
    /// Without rows.
    pub fn new(plan: &'p GroupPlan, session: &Session) -> Rollup<'p> {
        let states = || plan.aggregates.iter().map(|call| State::new(call, session)).collect();
        Rollup {
            plan,
            sorter: Some(Sorter::new(None, session.vars.sort_room(), session.work())),
            sorted: None,
            ahead: Vec::new(),
            key: Vec::new(),
            ends: Vec::new(),
            values: Vec::new(),
            carried: Vec::new(),
            has_group: false,
            levels: (0..=plan.keys.len()).map(|_| states()).collect(),
            giving: None,
        }
    }

    /// Takes the row that the frame holds.
    pub fn add(&mut self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        let (plan, ends) = (self.plan, &mut self.ends);
        let sorter = self.sorter.as_mut().expect("rows come before the end");
        ends.clear();
        sorter.push_key(|out| {
            let start = out.len();
            let mut cx = EvalContext::new(session, frame.view());
            for (key, part) in plan.keys.iter().zip(&plan.parts) {
                encode_key_part(part, key.eval(&mut cx)?.as_ref(), out);
                ends.push((out.len() - start) as u32);
            }
            Ok(())
        })?;
        sorter.push_payload(|out| {
            ends.iter().for_each(|end| out.extend_from_slice(&end.to_le_bytes()));
            plan.spill.save(&frame.slots, out);
            Ok(())
        })
    }

    /// Ends the gathering.
    pub fn finish(&mut self) -> SqlResult<()> {
        let sorter = self.sorter.take().expect("rows end once");
        self.sorted = Some(sorter.finish()?);
        Ok(())
    }

    /// Puts the next group into the frame; false after the last.
    pub fn next(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        loop {
            session.let_others_run()?;
            if let Some((level, last)) = self.giving {
                self.giving = (level > last).then(|| (level - 1, last));
                self.give(level, session, frame)?;
                return Ok(true);
            }
            if !self.ahead.is_empty() {
                self.begin_group(session, frame)?;
            }
            if !self.read(session, frame)? {
                return Ok(false);
            }
        }
    }

    /// Reads rows until a group ends, which is to be given then; false where there is none.
    fn read(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        let plan = self.plan;
        let sorted = self.sorted.as_mut().expect("the gathering has ended");
        while let Some((key, payload)) = sorted.next_entry()? {
            session.let_others_run()?;
            let (ends, row) = payload.split_at(plan.keys.len() * END_BYTES);
            let changed =
                if self.has_group { first_changed(ends, key, &self.ends, &self.key) } else { Some(0) };
            if let Some(changed) = changed {
                for part in [ends, key, row] {
                    self.ahead.extend_from_slice(part);
                }
                if self.has_group {
                    self.giving = Some((plan.keys.len(), changed + 1));
                }
                return Ok(true);
            }
            plan.spill.load(row, &mut frame.slots);
            take(plan, &mut self.levels, session, frame)?;
        }
        if std::mem::take(&mut self.has_group) {
            self.giving = Some((plan.keys.len(), 0));
        }
        Ok(self.giving.is_some())
    }

    /// Begins the group of the row ahead.
    fn begin_group(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        let plan = self.plan;
        let (ends, rest) = self.ahead.split_at(plan.keys.len() * END_BYTES);
        self.ends.clear();
        self.ends.extend((0..plan.keys.len()).map(|part| end_of(ends, part)));
        let (key, row) = rest.split_at(self.ends.last().map_or(0, |end| *end as usize));
        self.key.clear();
        self.key.extend_from_slice(key);
        plan.spill.load(row, &mut frame.slots);
        self.ahead.clear();
        self.carried.clear();
        plan.carry.save(&frame.slots, &mut self.carried);
        self.values.clear();
        let mut cx = EvalContext::new(session, frame.view());
        for key in &plan.keys {
            self.values.push(key.eval(&mut cx)?.into_value());
        }
        self.has_group = true;
        take(plan, &mut self.levels, session, frame)
    }

    /// Puts the group of so many keys into the frame, and forgets its rows.
    fn give(&mut self, level: usize, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        let plan = self.plan;
        plan.carry.load(&self.carried, &mut frame.slots);
        let mut values: Vec<Value> = Vec::with_capacity(plan.aggregates.len() + plan.keys.len());
        for (state, call) in self.levels[level].iter_mut().zip(&plan.aggregates) {
            values.push(state.finish(call, session)?);
            *state = State::new(call, session);
        }
        values.extend_from_slice(&self.values[..level]);
        values.resize(plan.aggregates.len() + plan.keys.len(), Value::Null);
        frame.slots[plan.slot as usize] = RowSlot::Values(values);
        Ok(())
    }
}

/// Has the states of all levels take the current row.
fn take(
    plan: &GroupPlan,
    levels: &mut [Vec<State>],
    session: &mut Session,
    frame: &FrameBuffer<'_>,
) -> SqlResult<()> {
    let mut cx = EvalContext::new(session, frame.view());
    for states in levels {
        for (state, call) in states.iter_mut().zip(&plan.aggregates) {
            state.add(call, &mut cx)?;
        }
    }
    Ok(())
}

fn end_of(ends: &[u8], part: usize) -> u32 {
    let at = part * END_BYTES;
    u32::from_le_bytes(ends[at..at + END_BYTES].try_into().expect("four octets"))
}

/// The first part in which a key differs from that of the group at hand.
fn first_changed(ends: &[u8], key: &[u8], own_ends: &[u32], own: &[u8]) -> Option<usize> {
    let mut start = 0;
    for (part, own_end) in own_ends.iter().enumerate() {
        let end = end_of(ends, part);
        if end != *own_end || key[start..end as usize] != own[start..end as usize] {
            return Some(part);
        }
        start = end as usize;
    }
    None
}

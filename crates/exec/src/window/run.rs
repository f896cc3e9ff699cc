//! Running the stages: rows are gathered and sorted, partitions are read one after the other, results join the rows.

use keel_base::SqlResult;
use keel_value::Value;
use smallvec::SmallVec;

use super::frame::FrameRun;
use super::plan::WindowPlan;
use super::result::RowFunctions;
use super::rows::Partition;
use super::{Bound, Stage};
use crate::expr::{EvalContext, RowSlot};
use crate::select::{FrameBuffer, encode_key_part};
use crate::session::Session;
use crate::sort::{Sorted, Sorter};

/// The windows of one execution.
pub(crate) struct WindowRun<'p> {
    plan: &'p WindowPlan,
    /// The place of the stage at hand.
    stage: usize,
    run: StageRun<'p>,
}

impl<'p> WindowRun<'p> {
    /// Without rows.
    pub fn new(plan: &'p WindowPlan, session: &Session) -> WindowRun<'p> {
        WindowRun { plan, stage: 0, run: StageRun::new(plan, &plan.stages[0], session) }
    }

    /// Takes the row that the frame holds.
    pub fn add(&mut self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        self.run.add(session, frame)
    }

    /// Ends the gathering: runs all stages but the last.
    pub fn finish(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        self.run.sort()?;
        while self.stage + 1 < self.plan.stages.len() {
            self.stage += 1;
            let mut next = StageRun::new(self.plan, &self.plan.stages[self.stage], session);
            while self.run.next(session, frame)? {
                next.add(session, frame)?;
            }
            self.run = next;
            self.run.sort()?;
        }
        Ok(())
    }

    /// Puts the next row with all results into the frame; false after the last.
    pub fn next(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        self.run.next(session, frame)
    }
}

/// The rows of a partition as functions see them.
pub(super) struct View<'a> {
    plan: &'a WindowPlan,
    stage: &'a Stage,
    partition: &'a mut Partition,
    /// The row that the frame holds.
    loaded: &'a mut Option<u64>,
}

/// Bytes of the end of each of a key's parts.
const END_BYTES: usize = 4;

impl View<'_> {
    /// How many rows there are.
    pub fn len(&self) -> u64 {
        self.partition.len()
    }

    /// Parts of the key that all rows have in common.
    pub fn partition_parts(&self) -> usize {
        self.stage.partition_parts
    }

    /// The slot for keys that bounds are computed from.
    pub fn key_slot(&self) -> usize {
        self.plan.key_slot as usize
    }

    /// The first parts of a row's key.
    pub fn key(&mut self, row: u64, parts: usize) -> SqlResult<&[u8]> {
        let row = self.partition.row(row)?;
        Ok(&row[key_start(self.stage)..key_start(self.stage) + end_of(row, parts)])
    }

    /// Puts a row into the frame.
    pub fn load(&mut self, row: u64, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        if *self.loaded == Some(row) {
            return Ok(());
        }
        let bytes = self.partition.row(row)?;
        let kept = key_start(self.stage) + end_of(bytes, self.stage.parts.len());
        self.plan.carry.load(&bytes[kept..], &mut frame.slots);
        *self.loaded = Some(row);
        Ok(())
    }
}

fn key_start(stage: &Stage) -> usize {
    stage.parts.len() * END_BYTES
}

/// Where so many parts of a row's key end, from the key's beginning.
fn end_of(row: &[u8], parts: usize) -> usize {
    let Some(last) = parts.checked_sub(1) else { return 0 };
    let at = last * END_BYTES;
    u32::from_le_bytes(row[at..at + END_BYTES].try_into().expect("four octets")) as usize
}

/// A stage while it runs.
struct StageRun<'p> {
    plan: &'p WindowPlan,
    stage: &'p Stage,
    sorter: Option<Sorter>,
    sorted: Option<Sorted>,
    partition: Partition,
    /// The first row of the next partition; empty where there is none.
    ahead: Vec<u8>,
    scratch: Vec<u8>,
    loaded: Option<u64>,
    next: u64,
    frames: Vec<FrameRun<'p>>,
    functions: Vec<RowFunctions<'p>>,
}

impl<'p> StageRun<'p> {
    fn new(plan: &'p WindowPlan, stage: &'p Stage, session: &Session) -> StageRun<'p> {
        let sorts = !stage.keys.is_empty();
        let places = stage.groups.iter().map(|group| 2 + group.calls.len()).sum();
        StageRun {
            plan,
            stage,
            sorter: sorts.then(|| Sorter::new(None, session.vars.sort_room(), session.work())),
            sorted: None,
            partition: Partition::new(places, session.vars.tmp_memory_bytes, session.work()),
            ahead: Vec::new(),
            scratch: Vec::new(),
            loaded: None,
            next: 0,
            frames: stage.groups.iter().map(|g| FrameRun::new(g, &plan.calls, session)).collect(),
            functions: stage.groups.iter().map(|g| RowFunctions::new(g, &plan.calls)).collect(),
        }
    }

    fn add(&mut self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        let StageRun { stage, plan, scratch, .. } = self;
        let Some(sorter) = &mut self.sorter else {
            scratch.clear();
            plan.carry.save(&frame.slots, scratch);
            return self.partition.push(&[scratch]);
        };
        let mut ends: SmallVec<[u32; 8]> = SmallVec::new();
        let fill_key = |out: &mut Vec<u8>| {
            let start = out.len();
            let mut cx = EvalContext::new(session, frame.view());
            for (key, part) in stage.keys.iter().zip(&stage.parts) {
                encode_key_part(part, key.eval(&mut cx)?.as_ref(), out);
                ends.push((out.len() - start) as u32);
            }
            Ok(())
        };
        sorter.push_key(fill_key)?;
        sorter.push_payload(|out| {
            ends.iter().for_each(|end| out.extend_from_slice(&end.to_le_bytes()));
            plan.carry.save(&frame.slots, out);
            Ok(())
        })
    }

    /// All rows have come.
    fn sort(&mut self) -> SqlResult<()> {
        if let Some(sorter) = self.sorter.take() {
            self.sorted = Some(sorter.finish()?);
        }
        Ok(())
    }

    fn next(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        if self.next == self.partition.len() {
            if self.sorted.is_none() {
                return Ok(false);
            }
            self.read_partition(session)?;
            if self.partition.len() == 0 {
                return Ok(false);
            }
        }
        if self.next == 0 {
            self.frames.iter_mut().for_each(|frame| frame.restart(session));
            self.functions.iter_mut().for_each(RowFunctions::restart);
        }
        session.let_others_run()?;
        let (plan, stage, row) = (self.plan, self.stage, self.next);
        let mut view = View { plan, stage, partition: &mut self.partition, loaded: &mut self.loaded };
        let mut results: Vec<Option<Value>> = vec![None; plan.calls.len()];
        for (place, functions) in self.frames.iter_mut().zip(&mut self.functions) {
            place.go_to(row, &mut view, session, frame)?;
            place.aggregates(session, &mut results)?;
            functions.results(row, place, &mut view, session, frame, &mut results)?;
        }
        view.load(row, frame)?;
        let slot = &mut frame.slots[plan.slot as usize];
        let value = |(column, own): (usize, Option<Value>)| match own {
            Some(value) => value,
            None => slot.get(column as u16).to_owned(),
        };
        *slot = RowSlot::Values(results.into_iter().enumerate().map(value).collect());
        self.loaded = None;
        self.next += 1;
        Ok(true)
    }

    /// Reads the rows of the next partition, none behind the last.
    fn read_partition(&mut self, session: &Session) -> SqlResult<()> {
        let stage = self.stage;
        let sorted = self.sorted.as_mut().expect("only stages that sort have several partitions");
        self.partition.clear();
        (self.next, self.loaded) = (0, None);
        if !self.ahead.is_empty() {
            self.partition.push(&[&self.ahead])?;
        }
        // The first row's PARTITION BY.
        let own = &mut self.scratch;
        own.clear();
        own.extend_from_slice(&self.ahead);
        self.ahead.clear();
        let ends_bytes = key_start(stage);
        while let Some((key, payload)) = sorted.next_entry()? {
            session.let_others_run()?;
            let (ends, kept) = payload.split_at(ends_bytes);
            let row = [ends, key, kept];
            if own.is_empty() {
                row.iter().for_each(|part| own.extend_from_slice(part));
            }
            let end = end_of(ends, stage.partition_parts);
            if own[ends_bytes..ends_bytes + end_of(own, stage.partition_parts)] != key[..end] {
                row.iter().for_each(|part| self.ahead.extend_from_slice(part));
                return Ok(());
            }
            self.partition.push(&row)?;
        }
        Ok(())
    }
}

impl Bound {
    /// Whether a frame that begins so keeps the rows that it has.
    pub(super) fn is_unbounded(&self) -> bool {
        matches!(self, Bound::Unbounded)
    }
}

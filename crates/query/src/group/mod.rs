//! Grouping by hash: one entry per combination of keys, its aggregates' states and the columns kept of its first row.
//!
//! Keys are encoded as sort keys, so that equal means equal in the collation, and groups come out in the order of their
//! keys, as MariaDB's do. Memory is bounded by `tmp_memory_table_size`: rows of groups that do not fit any more are
//! written to one of several temporary partitions by hash and grouped when the groups in memory have been given out.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use keel_base::SqlResult;
use keel_value::Value;
use keel_value::key::KeyPart;
use std::hash::BuildHasher;
use std::sync::Arc;

use crate::aggregate::{AggregateCall, State};
use crate::expr::{EvalContext, Expr, RowSlot};
use crate::host::Host;
use crate::select::{Carry, FrameBuffer, encode_key_part};
use crate::session::Session;
use crate::sort::RowFile;

/// How rows are grouped.
pub(crate) struct GroupPlan {
    /// GROUP BY; empty for one group over all rows.
    pub keys: Vec<Expr>,
    /// How each key is encoded.
    pub parts: Vec<KeyPart>,
    /// The aggregates.
    pub aggregates: Vec<AggregateCall>,
    /// What the grouped row keeps of its first row.
    pub carry: Carry,
    /// All that keys and aggregates and the kept columns need of a row, for rows that go to disk.
    pub spill: Carry,
    /// The slot for the aggregates' results.
    pub slot: u16,
    /// Groups come out as they came in (DISTINCT), not by their keys.
    pub keeps_arrival: bool,
    /// Rows come in the order of the keys: a group is whole when the next begins.
    pub streams: bool,
}

/// Partitions of one round of spilling.
const PARTITIONS: usize = 16;
/// Grouping is allowed this much memory whatever the variable says.
const BYTES_MIN: usize = 256 << 10;

struct Group {
    hash: u64,
    key: std::ops::Range<u32>,
    carried: std::ops::Range<u32>,
}

/// Groups while they are gathered.
struct Table {
    index: HashTable<u32>,
    groups: Vec<Group>,
    /// Keys and kept columns.
    arena: Vec<u8>,
    /// As many per group as there are aggregates.
    states: Vec<State>,
    held_bytes: usize,
}

impl Table {
    fn new() -> Table {
        Table {
            index: HashTable::new(),
            groups: Vec::new(),
            arena: Vec::new(),
            states: Vec::new(),
            held_bytes: 0,
        }
    }

    fn clear(&mut self) {
        self.index.clear();
        self.groups.clear();
        self.arena.clear();
        self.states.clear();
        self.held_bytes = 0;
    }

    fn bytes(&self) -> usize {
        self.arena.len()
            + self.groups.len() * (size_of::<Group>() + size_of::<u32>() * 2)
            + self.states.len() * size_of::<State>()
            + self.held_bytes
    }

    fn key(&self, group: &Group) -> &[u8] {
        &self.arena[group.key.start as usize..group.key.end as usize]
    }
}

/// Gathers rows into groups and gives the groups out.
pub(crate) struct Grouper<'p> {
    plan: &'p GroupPlan,
    table: Table,
    bytes_max: usize,
    scratch: Vec<u8>,
    /// Rows of groups that did not fit, by hash.
    partitions: Vec<RowFile>,
    /// Partitions of earlier rounds, with their depth.
    waiting: Vec<(RowFile, u32)>,
    depth: u32,
    /// Order in which groups leave, and how many have left.
    order: Vec<u32>,
    given: usize,
    /// Says where temporary files go.
    host: Arc<dyn Host>,
}

impl<'p> Grouper<'p> {
    /// A grouper without rows.
    pub fn new(plan: &'p GroupPlan, session: &Session) -> Grouper<'p> {
        let bytes_max = session.vars.tmp_memory_bytes;
        Grouper {
            plan,
            table: Table::new(),
            bytes_max: usize::try_from(bytes_max)
                .unwrap_or(usize::MAX)
                .clamp(BYTES_MIN, u32::MAX as usize / 2),
            scratch: Vec::new(),
            partitions: Vec::new(),
            waiting: Vec::new(),
            depth: 0,
            order: Vec::new(),
            given: 0,
            host: session.host.clone(),
        }
    }

    /// Takes the current row.
    pub fn add(&mut self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        let plan = self.plan;
        let mut cx = EvalContext::new(session, frame.view());
        let Some(group) = self.group_of(&mut cx, frame)? else { return Ok(()) };
        let count = plan.aggregates.len();
        let states = &mut self.table.states[group * count..(group + 1) * count];
        for (state, call) in states.iter_mut().zip(&plan.aggregates) {
            let before = state.held_bytes();
            state.add(call, &mut cx)?;
            self.table.held_bytes += state.held_bytes() - before;
        }
        Ok(())
    }

    /// The current row's group; None where the row was set aside for a later round.
    fn group_of<'f>(
        &mut self,
        cx: &mut EvalContext<'_, 'f>,
        frame: &FrameBuffer<'_>,
    ) -> SqlResult<Option<usize>>
    where
        'p: 'f,
    {
        if self.plan.keys.is_empty() && !self.table.groups.is_empty() {
            return Ok(Some(0));
        }
        let mut encoded = std::mem::take(&mut self.scratch);
        encoded.clear();
        for (expr, part) in self.plan.keys.iter().zip(&self.plan.parts) {
            let cell = expr.eval(cx)?;
            encode_key_part(part, cell.as_ref(), &mut encoded);
        }
        let hash = hash_of(&encoded, self.depth);
        let table = &self.table;
        let found = table.index.find(hash, |i| {
            let group = &table.groups[*i as usize];
            group.hash == hash && table.key(group) == encoded
        });
        let group = match found.copied() {
            Some(index) => Some(index as usize),
            None if self.is_full() => {
                self.set_aside(hash, frame)?;
                None
            }
            None => Some(self.new_group(hash, &encoded, frame)),
        };
        self.scratch = encoded;
        Ok(group)
    }

    /// Whether a further group would pass the bound. One group is always taken.
    fn is_full(&self) -> bool {
        !self.table.groups.is_empty() && !self.plan.keys.is_empty() && self.table.bytes() > self.bytes_max
    }

    fn new_group(&mut self, hash: u64, encoded: &[u8], frame: &FrameBuffer<'_>) -> usize {
        let table = &mut self.table;
        let start = table.arena.len() as u32;
        table.arena.extend_from_slice(encoded);
        let middle = table.arena.len() as u32;
        self.plan.carry.save(&frame.slots, &mut table.arena);
        let end = table.arena.len() as u32;
        table.groups.push(Group { hash, key: start..middle, carried: middle..end });
        table.states.extend(self.plan.aggregates.iter().map(State::new));
        let groups = &table.groups;
        let index = groups.len() as u32 - 1;
        table.index.insert_unique(hash, index, |i| groups[*i as usize].hash);
        index as usize
    }

    fn set_aside(&mut self, hash: u64, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        while self.partitions.len() < PARTITIONS {
            self.partitions.push(RowFile::create(&*self.host)?);
        }
        let partition = &mut self.partitions[(hash >> 48) as usize % PARTITIONS];
        partition.push(|out| self.plan.spill.save(&frame.slots, out))
    }

    /// Takes the current row if it belongs to the group at hand; the first row begins one.
    pub fn add_if_same(&mut self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<bool> {
        if let Some(group) = self.table.groups.first() {
            let mut encoded = std::mem::take(&mut self.scratch);
            encoded.clear();
            let mut cx = EvalContext::new(session, frame.view());
            for (expr, part) in self.plan.keys.iter().zip(&self.plan.parts) {
                let cell = expr.eval(&mut cx)?;
                encode_key_part(part, cell.as_ref(), &mut encoded);
            }
            let same = self.table.key(group) == encoded;
            self.scratch = encoded;
            if !same {
                return Ok(false);
            }
        }
        self.add(session, frame)?;
        Ok(true)
    }

    /// Puts the group at hand into the frame and forgets it.
    pub fn give(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        self.put_in_order();
        self.next(session, frame)?;
        self.table.clear();
        Ok(())
    }

    /// Takes the current row for one of the aggregates only.
    pub fn add_to(&mut self, number: usize, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        let plan = self.plan;
        let mut cx = EvalContext::new(session, frame.view());
        if self.group_of(&mut cx, frame)?.is_some() {
            self.table.states[number].add(&plan.aggregates[number], &mut cx)?;
        }
        Ok(())
    }

    /// Ends the gathering. Without GROUP BY there is one group even of no rows.
    pub fn finish(&mut self, frame: &mut FrameBuffer<'_>) {
        if self.plan.keys.is_empty() && self.table.groups.is_empty() {
            self.plan.carry.clear(&mut frame.slots);
            self.new_group(0, &[], frame);
        }
        self.put_in_order();
    }

    fn put_in_order(&mut self) {
        let table = &self.table;
        let mut order: Vec<u32> = (0..table.groups.len() as u32).collect();
        if !self.plan.keeps_arrival {
            order.sort_by(|a, b| {
                table.key(&table.groups[*a as usize]).cmp(table.key(&table.groups[*b as usize]))
            });
        }
        self.order = order;
        self.given = 0;
        let depth = self.depth + 1;
        self.waiting.extend(self.partitions.drain(..).filter(|p| !p.is_empty()).map(|p| (p, depth)));
    }

    /// Puts the next group into the frame; false after the last.
    pub fn next(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        while self.given == self.order.len() {
            let Some((file, depth)) = self.waiting.pop() else { return Ok(false) };
            self.table = Table::new();
            self.depth = depth;
            let mut rows = file.rewind()?;
            while let Some(row) = rows.next()? {
                self.plan.spill.load(row, &mut frame.slots);
                self.add(session, frame)?;
            }
            self.put_in_order();
        }
        let index = self.order[self.given] as usize;
        self.given += 1;
        let group = &self.table.groups[index];
        let carried = &self.table.arena[group.carried.start as usize..group.carried.end as usize];
        self.plan.carry.load(carried, &mut frame.slots);
        let count = self.plan.aggregates.len();
        let states = &self.table.states[index * count..(index + 1) * count];
        let mut values: Vec<Value> = Vec::with_capacity(count);
        for (state, call) in states.iter().zip(&self.plan.aggregates) {
            values.push(state.finish(call, session)?);
        }
        frame.slots[self.plan.slot as usize] = RowSlot::Values(values);
        Ok(true)
    }
}

/// Rounds of spilling hash differently, so that a partition does not fall into one partition again.
fn hash_of(key: &[u8], depth: u32) -> u64 {
    FixedState::with_seed(u64::from(depth)).hash_one(key)
}

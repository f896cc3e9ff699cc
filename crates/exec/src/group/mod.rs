//! Grouping by hash: one entry per combination of keys, its aggregates' states and the columns kept of its first row.
//!
//! Keys are encoded as sort keys, so that equal means equal in the collation, and groups come out in the order of their
//! keys, as MariaDB's do. Memory is bounded by `tmp_memory_table_size`: rows of groups that do not fit any more are
//! written to one of several temporary partitions by hash and grouped when the groups in memory have been given out. Where
//! the states of groups in memory grow too large, their further rows go the same way, and the states wait for them.

mod rollup;

pub(crate) use rollup::Rollup;

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use keel_base::{SqlResult, errors};
use keel_sql::ast::OrderItem;
use keel_value::decimal::Small;
use keel_value::key::KeyPart;
use keel_value::types::Class;
use keel_value::{Date, DateTime, SqlMode, Value, ValueRef};

use crate::aggregate::{AggregateCall, State};
use crate::expr::{EvalContext, Expr, RowSlot, Tape};
use crate::memory::{Allowance, Room};
use crate::select::{Carry, FrameBuffer, encode_key_part};
use crate::session::{OfSession, Session};
use crate::sort::RowList;

/// How rows are grouped.
pub struct GroupPlan {
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
    /// The slot for the aggregates' results, and behind them the keys' values under WITH ROLLUP.
    pub slot: u16,
    /// Groups come out as they came in (DISTINCT), not by their keys.
    pub keeps_arrival: bool,
    /// Rows come in the order of the keys: a group is whole when the next begins.
    pub streams: bool,
    /// WITH ROLLUP.
    pub rollup: bool,
}

/// Whether computed keys are checked as MariaDB's temporary tables check them: NO_ZERO_DATE under strict mode, in a statement that
/// changes rows.
fn refuses_zero_dates(plan: &GroupPlan, session: &Session) -> bool {
    let is_computed = |key: &Expr| key.ty.is_temporal() && key.as_any_column().is_none();
    session.abort_on_warning
        && session.vars.sql_mode.has(SqlMode::NO_ZERO_DATE)
        && !plan.keeps_arrival
        && plan.keys.iter().any(is_computed)
}

/// 1292 for a zero date.
fn check_zero_date(value: ValueRef<'_>) -> SqlResult<()> {
    let (kind, text) = match value {
        ValueRef::Date(date) if date == Date::ZERO => ("date", "0000-00-00"),
        ValueRef::DateTime(at) if at == DateTime::default() => ("datetime", "0000-00-00 00:00:00"),
        _ => return Ok(()),
    };
    Err(errors::truncated_wrong_value(kind, text))
}

impl GroupPlan {
    /// The same WITH ROLLUP, whose groups come in the order that GROUP BY says.
    pub fn rolled_up(mut self, items: &[OrderItem]) -> GroupPlan {
        self.rollup = true;
        for (part, item) in self.parts.iter_mut().zip(items) {
            part.descending = item.desc;
        }
        self
    }
}

/// Partitions of one round of spilling.
const PARTITIONS: usize = 16;
/// Arena offsets are 32 bits wide.
const BYTES_MAX: u64 = u32::MAX as u64 / 2;

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

/// Rows set aside, and the groups that they belong to as far as those were in memory.
struct Waiting {
    file: RowList,
    depth: u32,
    groups: Vec<Parted>,
}

/// A group on its way to a later round: its key, its kept columns, its states.
struct Parted {
    key: Box<[u8]>,
    carried: Box<[u8]>,
    states: Vec<State>,
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

    /// Adds a group whose kept columns `carry` appends; gives its place.
    fn add(
        &mut self,
        hash: u64,
        key: &[u8],
        carry: impl FnOnce(&mut Vec<u8>),
        states: impl Iterator<Item = State>,
    ) -> usize {
        let start = self.arena.len() as u32;
        self.arena.extend_from_slice(key);
        let middle = self.arena.len() as u32;
        carry(&mut self.arena);
        let end = self.arena.len() as u32;
        self.groups.push(Group { hash, key: start..middle, carried: middle..end });
        let first = self.states.len();
        self.states.extend(states);
        self.held_bytes += self.states[first..].iter().map(State::held_bytes).sum::<usize>();
        let groups = &self.groups;
        let index = groups.len() as u32 - 1;
        self.index.insert_unique(hash, index, |i| groups[*i as usize].hash);
        index as usize
    }

    /// Takes out the groups that belong to a partition, with so many states each; their places stay, empty.
    fn part(&mut self, partition: usize, states: usize) -> Vec<Parted> {
        let mut parted = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            if partition_of(group.hash) != partition {
                continue;
            }
            let bytes =
                |range: &std::ops::Range<u32>| self.arena[range.start as usize..range.end as usize].into();
            let own = &mut self.states[number * states..(number + 1) * states];
            let states = own.iter_mut().map(State::leave).collect();
            parted.push(Parted { key: bytes(&group.key), carried: bytes(&group.carried), states });
        }
        parted
    }

    fn key(&self, group: &Group) -> &[u8] {
        &self.arena[group.key.start as usize..group.key.end as usize]
    }
}

/// Gathers rows into groups and gives the groups out.
pub(crate) struct Grouper<'p> {
    plan: &'p GroupPlan,
    table: Table,
    memory: Allowance,
    scratch: Vec<u8>,
    /// Rows of groups that did not fit, by hash.
    partitions: Vec<RowList>,
    /// Partitions that hold rows of groups in memory.
    parted: [bool; PARTITIONS],
    /// Partitions of earlier rounds.
    waiting: Vec<Waiting>,
    depth: u32,
    /// Order in which groups leave, and how many have left.
    order: Vec<u32>,
    given: usize,
    /// Arguments of sums, worked out together; None before the first row.
    sums: Option<Sums>,
    /// A computed key that is a zero date is an error.
    refuses_zero_dates: bool,
}

/// Arguments of aggregates that are on a tape.
struct Sums {
    tape: Tape,
    /// For each aggregate its place there; empty where none has one.
    places: Vec<Option<u8>>,
}

impl Sums {
    fn new(aggregates: &[AggregateCall], params: &[Value]) -> Sums {
        let mut tape = Tape::default();
        let mut place = |call: &AggregateCall| {
            let adds = call.kind.adds() && !call.distinct && call.args[0].class() == Class::Decimal;
            if adds { tape.push(&call.args[0], params) } else { None }
        };
        let mut places: Vec<Option<u8>> = aggregates.iter().map(&mut place).collect();
        if places.iter().all(Option::is_none) {
            places.clear();
        }
        Sums { tape, places }
    }

    /// What an aggregate adds for the row at hand, where that is known.
    #[inline]
    fn value(&self, aggregate: usize) -> Option<Small> {
        self.tape.value((*self.places.get(aggregate)?)?)
    }
}

impl<'p> Grouper<'p> {
    /// A grouper without rows.
    pub fn new(plan: &'p GroupPlan, session: &Session) -> Grouper<'p> {
        let room = session.vars.tmp_room();
        let room = Room { memory: room.memory.min(BYTES_MAX), ..room };
        Grouper {
            plan,
            table: Table::new(),
            memory: Allowance::new(room, session.work()),
            scratch: Vec::new(),
            partitions: Vec::new(),
            parted: [false; PARTITIONS],
            waiting: Vec::new(),
            depth: 0,
            order: Vec::new(),
            given: 0,
            sums: None,
            refuses_zero_dates: refuses_zero_dates(plan, session),
        }
    }

    /// Takes the current row.
    pub fn add(&mut self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        let mut cx = EvalContext::new(session, frame.view());
        match self.group_of(&mut cx, frame)? {
            Some(group) => self.add_to_group(group, &mut cx, frame),
            None => Ok(()),
        }
    }

    #[inline]
    fn add_to_group<'f>(
        &mut self,
        group: usize,
        cx: &mut EvalContext<'_, 'f>,
        frame: &FrameBuffer<'_>,
    ) -> SqlResult<()>
    where
        'p: 'f,
    {
        let plan = self.plan;
        let count = plan.aggregates.len();
        let states = &mut self.table.states[group * count..(group + 1) * count];
        let sums = self.sums.get_or_insert_with(|| Sums::new(&plan.aggregates, frame.params));
        sums.tape.run(&frame.slots);
        let held_before = self.table.held_bytes;
        for (number, (state, call)) in states.iter_mut().zip(&plan.aggregates).enumerate() {
            if sums.value(number).is_some_and(|value| state.add_small(value)) {
                continue;
            }
            let before = state.held_bytes();
            state.add(call, cx)?;
            self.table.held_bytes = self.table.held_bytes + state.held_bytes() - before;
        }
        if self.table.held_bytes > held_before {
            // One group may outgrow its memory, but not before there is room for an operator.
            self.memory.allows(self.table.bytes());
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
            if self.refuses_zero_dates && expr.as_any_column().is_none() {
                check_zero_date(cell.as_ref())?;
            }
            encode_key_part(part, cell.as_ref(), &mut encoded);
        }
        let hash = hash_of(&encoded, self.depth);
        let table = &self.table;
        let found = table.index.find(hash, |i| {
            let group = &table.groups[*i as usize];
            group.hash == hash && table.key(group) == encoded
        });
        let found = found.copied();
        let group = match found {
            Some(_) if self.is_overfull() => {
                self.parted[partition_of(hash)] = true;
                self.set_aside(hash, frame)?;
                None
            }
            Some(index) => Some(index as usize),
            None if self.is_full() => {
                self.set_aside(hash, frame)?;
                None
            }
            None => Some(self.new_group(hash, &encoded, frame, cx.session())),
        };
        self.scratch = encoded;
        Ok(group)
    }

    /// Whether a further group would pass the bound. One group is always taken.
    fn is_full(&mut self) -> bool {
        !self.table.groups.is_empty() && !self.plan.keys.is_empty() && !self.memory.allows(self.table.bytes())
    }

    /// Whether the groups in memory have outgrown the bound by far. One alone may.
    fn is_overfull(&mut self) -> bool {
        let bytes = self.table.bytes();
        self.table.groups.len() > 1 && !self.memory.allows(bytes) && bytes > self.memory.granted() / 2 * 3
    }

    fn new_group(&mut self, hash: u64, encoded: &[u8], frame: &FrameBuffer<'_>, session: &Session) -> usize {
        let states = self.plan.aggregates.iter().map(|call| State::new(call, session));
        self.table.add(hash, encoded, |arena| self.plan.carry.save(&frame.slots, arena), states)
    }

    fn set_aside(&mut self, hash: u64, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        while self.partitions.len() < PARTITIONS {
            self.partitions.push(RowList::within(self.memory.of_file(PARTITIONS)));
        }
        let partition = &mut self.partitions[partition_of(hash)];
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
            if same {
                self.add_to_group(0, &mut cx, frame)?;
            }
            return Ok(same);
        }
        self.add(session, frame)?;
        Ok(true)
    }

    /// Puts the group at hand into the frame and forgets it.
    pub fn give(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        session.check_interrupt()?;
        self.put(0, session, frame)?;
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

    /// Whether no row was added.
    pub fn is_empty(&self) -> bool {
        self.table.groups.is_empty() && self.partitions.is_empty()
    }

    /// Ends the gathering. Without GROUP BY there is one group even of no rows.
    pub fn finish(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) {
        if self.partitions.iter().any(|rows| !rows.is_empty()) {
            session.plan_counts.add(|counts| counts.tmp_disk_tables += 1);
        }
        if self.plan.keys.is_empty() && self.table.groups.is_empty() {
            self.plan.carry.clear(&mut frame.slots);
            self.new_group(0, &[], frame, session);
        }
        self.put_in_order();
    }

    fn put_in_order(&mut self) {
        let depth = self.depth + 1;
        let parted = std::mem::take(&mut self.parted);
        for (number, file) in self.partitions.drain(..).enumerate().filter(|(_, file)| !file.is_empty()) {
            let mut waiting = Waiting { file, depth, groups: Vec::new() };
            if parted[number] {
                waiting.groups = self.table.part(number, self.plan.aggregates.len());
            }
            self.waiting.push(waiting);
        }
        let table = &self.table;
        let stays = |i: &u32| !parted[partition_of(table.groups[*i as usize].hash)];
        let mut order: Vec<u32> = (0..table.groups.len() as u32).filter(stays).collect();
        if !self.plan.keeps_arrival {
            order.sort_by(|a, b| {
                table.key(&table.groups[*a as usize]).cmp(table.key(&table.groups[*b as usize]))
            });
        }
        self.order = order;
        self.given = 0;
    }

    /// Puts the next group into the frame; false after the last.
    pub fn next(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        while self.given == self.order.len() {
            let Some(Waiting { file, depth, groups }) = self.waiting.pop() else { return Ok(false) };
            self.table = Table::new();
            self.depth = depth;
            for Parted { key, carried, states } in groups {
                let hash = hash_of(&key, depth);
                self.table.add(hash, &key, |arena| arena.extend_from_slice(&carried), states.into_iter());
            }
            let mut rows = file.finish()?;
            while let Some(row) = rows.next_row()? {
                session.check_interrupt()?;
                self.plan.spill.load(row, &mut frame.slots);
                self.add(session, frame)?;
            }
            self.put_in_order();
        }
        session.check_interrupt()?;
        let index = self.order[self.given] as usize;
        self.given += 1;
        self.put(index, session, frame)?;
        Ok(true)
    }

    /// Puts a group into the frame.
    fn put(&mut self, index: usize, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        let group = &self.table.groups[index];
        let carried = &self.table.arena[group.carried.start as usize..group.carried.end as usize];
        self.plan.carry.load(carried, &mut frame.slots);
        let count = self.plan.aggregates.len();
        let states = &mut self.table.states[index * count..(index + 1) * count];
        let slot = &mut frame.slots[self.plan.slot as usize];
        let mut values = match std::mem::replace(slot, RowSlot::Null) {
            RowSlot::Values(values) => values,
            _ => Vec::with_capacity(count),
        };
        values.clear();
        let is_held = !self.plan.streams && !self.plan.keys.is_empty();
        for (state, call) in states.iter_mut().zip(&self.plan.aggregates) {
            values.push(match is_held {
                true => state.finish_held(call, session)?,
                false => state.finish(call, session)?,
            });
        }
        frame.slots[self.plan.slot as usize] = RowSlot::Values(values);
        Ok(())
    }
}

fn partition_of(hash: u64) -> usize {
    (hash >> 48) as usize % PARTITIONS
}

/// Rounds of spilling hash differently, so that a partition does not fall into one partition again.
fn hash_of(key: &[u8], depth: u32) -> u64 {
    FixedState::with_seed(u64::from(depth)).hash_one(key)
}

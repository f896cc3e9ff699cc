//! The right side of a join, read once and found by its join columns.
//!
//! Keys are encoded in the domain of each comparison, so that equal keys are equal values. The rows are kept as bytes up to
//! `join_buffer_size` (at least a few megabytes); a larger right side is read anew for each left row instead, which is
//! slow but needs no memory.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use keel_base::SqlResult;
use keel_value::{SqlType, ValueRef, convert, key};

use super::Runner;
use crate::expr::compare::canonical_type;
use crate::expr::{Comparison, EvalContext, Expr, cast};
use crate::select::{Carry, FrameBuffer};
use crate::session::Session;

/// The keys of a hash join.
pub(crate) struct HashPlan {
    /// Of the left row.
    pub left: Vec<Expr>,
    /// Of the right row.
    pub right: Vec<Expr>,
    /// How each pair compares.
    pub by: Vec<Comparison>,
    /// What is kept of right rows.
    pub carry: Carry,
}

/// Memory that a hash table may take whatever the variable says.
const BYTES_MIN: usize = 8 << 20;
/// Marks the end of a chain.
const END: u32 = u32::MAX;

struct Entry {
    hash: u64,
    key: std::ops::Range<u32>,
    row_end: u32,
    /// The next entry with the same key.
    next: u32,
}

/// A hash join's right side while it runs.
pub(super) struct HashRun<'p> {
    plan: &'p HashPlan,
    source: Runner<'p>,
    slots: &'p [u16],
    index: HashTable<(u32, u32)>,
    entries: Vec<Entry>,
    arena: Vec<u8>,
    state: State,
    scratch: Vec<u8>,
    current: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Built,
    /// The right side did not fit: it is read anew for each left row and compared by key.
    TooLarge,
}

impl<'p> HashRun<'p> {
    pub fn new(plan: &'p HashPlan, source: Runner<'p>, slots: &'p [u16]) -> HashRun<'p> {
        HashRun {
            plan,
            source,
            slots,
            index: HashTable::new(),
            entries: Vec::new(),
            arena: Vec::new(),
            state: State::New,
            scratch: Vec::new(),
            current: END,
        }
    }

    /// Looks for the left row's key.
    pub fn open(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        if self.state == State::New {
            self.build(session, frame)?;
        }
        let mut wanted = std::mem::take(&mut self.scratch);
        wanted.clear();
        let is_key = encode(&self.plan.left, &self.plan.by, session, frame, &mut wanted)?;
        self.scratch = wanted;
        if self.state == State::TooLarge {
            self.current = if is_key { 0 } else { END };
            return self.source.open(session, frame);
        }
        self.current = END;
        if is_key {
            let hash = FixedState::default().hash_one(&self.scratch[..]);
            let found = self.index.find(hash, |(first, _)| {
                let entry = &self.entries[*first as usize];
                entry.hash == hash
                    && self.arena[entry.key.start as usize..entry.key.end as usize] == self.scratch
            });
            if let Some((first, _)) = found {
                self.current = *first;
            }
        }
        Ok(())
    }

    fn build(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        let bytes_max = usize::try_from(session.vars.join_buffer_bytes).unwrap_or(usize::MAX);
        let bytes_max = bytes_max.clamp(BYTES_MIN, u32::MAX as usize / 2);
        self.source.open(session, frame)?;
        while self.source.next(session, frame)? {
            let start = self.arena.len();
            if !encode(&self.plan.right, &self.plan.by, session, frame, &mut self.arena)? {
                self.arena.truncate(start);
                continue;
            }
            let middle = self.arena.len();
            self.plan.carry.save(&frame.slots, &mut self.arena);
            self.insert(start, middle);
            if self.arena.len() + self.entries.len() * size_of::<Entry>() > bytes_max {
                self.index = HashTable::new();
                self.entries = Vec::new();
                self.arena = Vec::new();
                self.state = State::TooLarge;
                return Ok(());
            }
        }
        self.state = State::Built;
        Ok(())
    }

    fn insert(&mut self, start: usize, middle: usize) {
        let number = self.entries.len() as u32;
        let key = &self.arena[start..middle];
        let hash = FixedState::default().hash_one(key);
        let (entries, arena) = (&mut self.entries, &self.arena);
        let found = self.index.find_mut(hash, |(first, _)| {
            let entry = &entries[*first as usize];
            entry.hash == hash && arena[entry.key.start as usize..entry.key.end as usize] == *key
        });
        match found {
            Some((_, last)) => {
                entries[*last as usize].next = number;
                *last = number;
            }
            None => {
                self.index.insert_unique(hash, (number, number), |(first, _)| entries[*first as usize].hash);
            }
        }
        entries.push(Entry {
            hash,
            key: start as u32..middle as u32,
            row_end: arena.len() as u32,
            next: END,
        });
    }

    /// The next right row with the left row's key; false after the last.
    pub fn next(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        if self.current == END {
            return Ok(false);
        }
        if self.state == State::TooLarge {
            return self.next_by_reading(session, frame);
        }
        let entry = &self.entries[self.current as usize];
        let row = &self.arena[entry.key.end as usize..entry.row_end as usize];
        self.plan.carry.load(row, &mut frame.slots);
        self.current = entry.next;
        debug_assert!(!self.slots.is_empty());
        Ok(true)
    }

    fn next_by_reading(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        while self.source.next(session, frame)? {
            let mut key = std::mem::take(&mut self.arena);
            key.clear();
            let is_key = encode(&self.plan.right, &self.plan.by, session, frame, &mut key)?;
            self.arena = key;
            if is_key && self.arena == self.scratch {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Appends the encoded key; false where a part is NULL, which equals nothing.
fn encode(
    exprs: &[Expr],
    by: &[Comparison],
    session: &mut Session,
    frame: &FrameBuffer<'_>,
    out: &mut Vec<u8>,
) -> SqlResult<bool> {
    let mut cx = EvalContext::new(session, frame.view());
    for (expr, by) in exprs.iter().zip(by) {
        let cell = expr.eval(&mut cx)?;
        if !encode_in_domain(*by, cell.as_ref(), &expr.ty, &mut cx, out)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Appends a value so that values equal in the domain give equal bytes; false for NULL.
pub(crate) fn encode_in_domain(
    by: Comparison,
    value: ValueRef<'_>,
    ty: &SqlType,
    cx: &mut EvalContext<'_, '_>,
    out: &mut Vec<u8>,
) -> SqlResult<bool> {
    if value.is_null() {
        return Ok(false);
    }
    match by {
        Comparison::Int => {
            let number = match value {
                ValueRef::Int(v) => i128::from(v),
                ValueRef::UInt(v) => i128::from(v),
                other => i128::from(cx.reporting(|report| convert::to_i64(other, ty, report))?),
            };
            out.extend_from_slice(&number.to_be_bytes());
        }
        Comparison::Decimal => {
            let number = cx.reporting(|report| convert::to_decimal(value, ty, report))?;
            key::encode(out, &canonical_type(by), ValueRef::Decimal(number.round(30)), false);
        }
        Comparison::Real => {
            let number = cx.reporting(|report| convert::to_f64(value, ty, report))?;
            // Zero has two signs and one value.
            out.extend_from_slice(&(number + 0.0).to_bits().to_be_bytes());
        }
        Comparison::Text(collation) => {
            let mut buffer = Vec::new();
            let text = match value {
                ValueRef::Bytes(bytes) => bytes,
                other => {
                    convert::to_text(other, ty, &mut buffer);
                    &buffer
                }
            };
            key::encode(out, &SqlType::varchar(u32::MAX, collation), ValueRef::Bytes(text), false);
        }
        // What is no date or time stands below all, as in comparisons.
        Comparison::DateTime | Comparison::Date => {
            let v = cast::value_to_datetime(value, ty, None, cx)?.unwrap_or_default();
            key::encode(out, &canonical_type(Comparison::DateTime), ValueRef::DateTime(v), false);
        }
        Comparison::Time => {
            let v = cast::value_to_time(value, ty, None, cx)?.unwrap_or_default();
            key::encode(out, &canonical_type(by), ValueRef::Time(v), false);
        }
    }
    Ok(true)
}

//! The right side of a join, read once and found by its join columns.
//!
//! Keys are encoded in the domain of each comparison, so that equal keys are equal values. The rows are kept as bytes up to
//! `join_buffer_size` (at least a few megabytes), beyond that in a temporary file; what finds them stays in memory, up to a
//! bound of its own. A still larger right side is read anew for each left row.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use keel_base::{SqlResult, errors};
use keel_value::{SqlType, ValueRef, convert, key};

use super::Runner;
use crate::expr::compare::canonical_type;
use crate::expr::{Comparison, EvalContext, Expr, cast};
use crate::host::Host;
use crate::select::{Carry, FrameBuffer};
use crate::session::Session;
use crate::sort::TempFile;

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

/// Memory that rows may take whatever the variable says.
const BYTES_MIN: usize = 8 << 20;
/// Memory that entries may take.
const ENTRY_BYTES_MAX: usize = 128 << 20;
/// Octets of an entry in the hash table.
const ENTRY_INDEX_BYTES: usize = 16;
/// Octets written to the temporary file at once.
const WRITE_BYTES: usize = 1 << 20;
/// Marks the end of a chain.
const END: u32 = u32::MAX;

struct Entry {
    hash: u64,
    /// Where key and row begin in the store.
    start: u64,
    key_len: u32,
    row_len: u32,
    /// The next entry of the same hash.
    next: u32,
}

/// Keys and rows one after the other: in memory, or in a file but for the end.
#[derive(Default)]
struct Store {
    /// What is not in the file.
    tail: Vec<u8>,
    /// Octets in the file.
    filed: u64,
    file: Option<TempFile>,
    bytes_max: usize,
    /// What was read from the file last.
    read: Vec<u8>,
}

impl Store {
    /// Writes to the file what memory should not hold.
    fn settle(&mut self, host: &dyn Host) -> SqlResult<()> {
        let most = if self.file.is_some() { WRITE_BYTES } else { self.bytes_max };
        if self.tail.len() <= most {
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(TempFile::create(host)?);
        }
        let file = self.file.as_ref().expect("made above");
        file.write(&self.tail, self.filed)?;
        self.filed += self.tail.len() as u64;
        self.tail = Vec::with_capacity(WRITE_BYTES * 2);
        Ok(())
    }

    fn get(&mut self, start: u64, length: usize) -> SqlResult<&[u8]> {
        if let Some(at) = start.checked_sub(self.filed) {
            return Ok(&self.tail[at as usize..at as usize + length]);
        }
        self.read.resize(length, 0);
        let file = self.file.as_ref().expect("what is filed has a file");
        let mut done = 0;
        while done < length {
            let count = file.read(&mut self.read[done..], start + done as u64)?;
            if count == 0 {
                return Err(errors::out_of_sortmemory());
            }
            done += count;
        }
        Ok(&self.read)
    }
}

/// A hash join's right side while it runs.
pub(super) struct HashRun<'p> {
    plan: &'p HashPlan,
    source: Runner<'p>,
    slots: &'p [u16],
    index: HashTable<(u32, u32)>,
    entries: Vec<Entry>,
    store: Store,
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
            store: Store::default(),
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
            let found = self.index.find(hash, |(first, _)| self.entries[*first as usize].hash == hash);
            if let Some((first, _)) = found {
                self.current = *first;
            }
        }
        Ok(())
    }

    fn build(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        let bytes_max = usize::try_from(session.vars.join_buffer_bytes).unwrap_or(usize::MAX);
        self.store.bytes_max = bytes_max.max(BYTES_MIN);
        self.source.open(session, frame)?;
        while self.source.next(session, frame)? {
            let tail = &mut self.store.tail;
            let start = tail.len();
            if !encode(&self.plan.right, &self.plan.by, session, frame, tail)? {
                tail.truncate(start);
                continue;
            }
            let middle = tail.len();
            self.plan.carry.save(&frame.slots, tail);
            self.insert(start, middle);
            if self.entries.len() * (size_of::<Entry>() + ENTRY_INDEX_BYTES) > ENTRY_BYTES_MAX {
                self.index = HashTable::new();
                self.entries = Vec::new();
                self.store = Store::default();
                self.state = State::TooLarge;
                return Ok(());
            }
            self.store.settle(&*session.host)?;
        }
        self.state = State::Built;
        Ok(())
    }

    fn insert(&mut self, start: usize, middle: usize) {
        let number = self.entries.len() as u32;
        let tail = &self.store.tail;
        let hash = FixedState::default().hash_one(&tail[start..middle]);
        let entries = &mut self.entries;
        match self.index.find_mut(hash, |(first, _)| entries[*first as usize].hash == hash) {
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
            start: self.store.filed + start as u64,
            key_len: (middle - start) as u32,
            row_len: (tail.len() - middle) as u32,
            next: END,
        });
    }

    /// The next right row with the left row's key; false after the last.
    pub fn next(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        if self.state == State::TooLarge && self.current != END {
            return self.next_by_reading(session, frame);
        }
        while self.current != END {
            let entry = &self.entries[self.current as usize];
            let (start, key_len, row_len) = (entry.start, entry.key_len as usize, entry.row_len as usize);
            self.current = entry.next;
            let (key, row) = self.store.get(start, key_len + row_len)?.split_at(key_len);
            // Different keys may share a hash.
            if key == self.scratch {
                self.plan.carry.load(row, &mut frame.slots);
                debug_assert!(!self.slots.is_empty());
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn next_by_reading(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        while self.source.next(session, frame)? {
            let key = &mut self.store.read;
            key.clear();
            if encode(&self.plan.right, &self.plan.by, session, frame, key)? && *key == self.scratch {
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

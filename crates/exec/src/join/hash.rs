//! The right side of a join, read once and found by its join columns.
//!
//! Keys are encoded in the domain of each comparison, so that equal keys are equal values. The rows are kept as bytes up to
//! `join_buffer_size` (at least a few megabytes), beyond that in a temporary file; what finds them stays in memory. Where
//! that takes more than is left of the memory that sessions share, the right side is read once more, into a file sorted by
//! key.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use keel_base::SqlResult;
use keel_value::{SqlType, ValueRef, convert, key};

use super::Runner;
use crate::expr::compare::{canonical_type, shown};
use crate::expr::{Comparison, EvalContext, Expr, cast};
use crate::memory::Allowance;
use crate::select::{Carry, FrameBuffer};
use crate::session::Session;
use crate::sort::{Lookup, Sorter};
use crate::temp_file::TempFile;

/// The keys of a hash join.
pub struct HashPlan {
    /// Of the left row.
    pub left: Vec<Expr>,
    /// Of the right row.
    pub right: Vec<Expr>,
    /// How each pair compares.
    pub by: Vec<Comparison>,
    /// What is kept of right rows.
    pub carry: Carry,
    /// One row of each key says all: nothing but the key makes a match of a semi-join or anti-join.
    pub once: bool,
}

/// Memory that rows may take whatever the variable says.
const BYTES_MIN: u64 = 8 << 20;
/// Bytes of an entry in the hash table.
const ENTRY_INDEX_BYTES: usize = 16;
/// Octets written to the temporary file at once.
const WRITE_BYTES: usize = 64 << 10;
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
struct Store {
    /// What is not in the file.
    tail: Vec<u8>,
    file: Option<TempFile>,
    memory: Allowance,
    /// What was read from the file last.
    read: Vec<u8>,
}

impl Store {
    /// Octets in the file.
    fn filed(&self) -> u64 {
        self.file.as_ref().map_or(0, TempFile::byte_count)
    }

    /// Writes to the file what memory should not hold.
    fn settle(&mut self) -> SqlResult<()> {
        let fits = match &self.file {
            Some(_) => self.tail.len() < WRITE_BYTES,
            None => self.memory.allows(self.tail.len()),
        };
        if fits {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(TempFile::create(self.memory.host())?),
        };
        file.append(&self.tail)?;
        self.tail = Vec::with_capacity(WRITE_BYTES * 2);
        self.memory.shrink();
        Ok(())
    }

    fn get(&mut self, start: u64, length: usize) -> SqlResult<&[u8]> {
        if let Some(at) = start.checked_sub(self.filed()) {
            return Ok(&self.tail[at as usize..at as usize + length]);
        }
        self.read.resize(length, 0);
        let file = self.file.as_ref().expect("what is filed has a file");
        file.read(&mut self.read, start)?;
        Ok(&self.read)
    }

    /// Whether the octets at `start` are those that stand at `key` of the tail, and end it.
    fn is_key(&mut self, start: u64, length: usize, key: usize) -> SqlResult<bool> {
        if self.tail.len() - key != length {
            return Ok(false);
        }
        if let Some(at) = start.checked_sub(self.filed()) {
            return Ok(self.tail[at as usize..at as usize + length] == self.tail[key..]);
        }
        self.get(start, length)?;
        Ok(self.read == self.tail[key..])
    }
}

/// The right side's rows and what finds them.
struct Table {
    /// The first and the last entry of each hash.
    index: HashTable<(u32, u32)>,
    entries: Vec<Entry>,
    /// For index and entries.
    memory: Allowance,
    store: Store,
}

impl Table {
    fn new(session: &Session) -> Table {
        let rows = Allowance::new(bytes_max(session), session.work());
        Table {
            index: HashTable::new(),
            entries: Vec::new(),
            memory: Allowance::new(u64::MAX, session.work()),
            store: Store { tail: Vec::new(), file: None, memory: rows, read: Vec::new() },
        }
    }

    /// Takes the row whose key begins at `start` of the store's tail, and its rest at `middle`; false where there is no
    /// memory for it.
    fn insert(&mut self, start: usize, middle: usize) -> bool {
        let number = self.entries.len() as u32;
        let tail = &self.store.tail;
        let hash = hash_of(&tail[start..middle]);
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
            start: self.store.filed() + start as u64,
            key_len: (middle - start) as u32,
            row_len: (tail.len() - middle) as u32,
            next: END,
        });
        self.memory.allows(entries.len() * (size_of::<Entry>() + ENTRY_INDEX_BYTES))
    }

    /// The first entry of a key's hash, or [`END`].
    fn first(&self, key: &[u8]) -> u32 {
        let hash = hash_of(key);
        let found = self.index.find(hash, |(first, _)| self.entries[*first as usize].hash == hash);
        found.map_or(END, |(first, _)| *first)
    }

    /// Whether the key that stands at `start` of the store's tail, and ends it, is there already.
    fn has(&mut self, start: usize) -> SqlResult<bool> {
        let mut entry = self.first(&self.store.tail[start..]);
        if entry == END {
            return Ok(false);
        }
        while entry != END {
            let Entry { start: known, key_len, next, .. } = self.entries[entry as usize];
            if self.store.is_key(known, key_len as usize, start)? {
                return Ok(true);
            }
            entry = next;
        }
        Ok(false)
    }

    /// The row of an entry if it has the key; and the next entry of the hash.
    fn row(&mut self, entry: u32, key: &[u8]) -> SqlResult<(Option<&[u8]>, u32)> {
        let entry = &self.entries[entry as usize];
        let (start, key_len, row_len) = (entry.start, entry.key_len as usize, entry.row_len as usize);
        let next = entry.next;
        let (found, row) = self.store.get(start, key_len + row_len)?.split_at(key_len);
        // Different keys may share a hash.
        Ok(((found == key).then_some(row), next))
    }
}

fn hash_of(key: &[u8]) -> u64 {
    FixedState::default().hash_one(key)
}

/// Bytes of rows that one hash table of the session may take.
pub fn bytes_max(session: &Session) -> u64 {
    session.vars.join_buffer_bytes.max(BYTES_MIN)
}

/// How the right side is kept.
enum Right {
    Hashed(Table),
    /// By key, where what finds its rows does not fit into memory.
    Sorted(Lookup),
}

/// A hash join's right side while it runs.
pub(super) struct HashRun<'p> {
    plan: &'p HashPlan,
    source: Runner<'p>,
    /// None before the first left row.
    right: Option<Right>,
    /// The left row's key.
    wanted: Vec<u8>,
    /// The entry to look at next; any but [`END`] where the right side is sorted and may have more rows.
    current: u32,
}

impl<'p> HashRun<'p> {
    pub fn new(plan: &'p HashPlan, source: Runner<'p>) -> HashRun<'p> {
        HashRun { plan, source, right: None, wanted: Vec::new(), current: END }
    }

    /// Looks for the left row's key.
    pub fn open(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        if self.right.is_none() {
            self.right = Some(self.build(session, frame)?);
        }
        self.wanted.clear();
        self.current = END;
        if !encode(&self.plan.left, &self.plan.by, session, frame, &mut self.wanted)? {
            return Ok(());
        }
        match &mut self.right {
            Some(Right::Hashed(table)) => self.current = table.first(&self.wanted),
            Some(Right::Sorted(lookup)) => {
                lookup.seek(&self.wanted)?;
                self.current = 0;
            }
            None => {}
        }
        Ok(())
    }

    fn build(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<Right> {
        let mut table = Table::new(session);
        self.source.open(session, frame)?;
        while self.source.next(session, frame)? {
            let tail = &mut table.store.tail;
            let start = tail.len();
            if !encode(&self.plan.right, &self.plan.by, session, frame, tail)? {
                tail.truncate(start);
                continue;
            }
            let middle = tail.len();
            if self.plan.once && table.has(start)? {
                table.store.tail.truncate(start);
                continue;
            }
            let tail = &mut table.store.tail;
            self.plan.carry.save(&frame.slots, tail);
            if !table.insert(start, middle) {
                drop(table);
                return self.sort(session, frame);
            }
            table.store.settle()?;
        }
        Ok(Right::Hashed(table))
    }

    /// Reads the right side again, into a file sorted by key.
    fn sort(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<Right> {
        let mut sorter = Sorter::new(None, bytes_max(session), session.work());
        let (mut key, mut row) = (Vec::new(), Vec::new());
        self.source.open(session, frame)?;
        while self.source.next(session, frame)? {
            key.clear();
            if encode(&self.plan.right, &self.plan.by, session, frame, &mut key)? {
                row.clear();
                self.plan.carry.save(&frame.slots, &mut row);
                sorter.push_bytes(&key, &row)?;
            }
        }
        Ok(Right::Sorted(Lookup::new(sorter.finish()?, &*session.host)?))
    }

    /// The next right row with the left row's key; false after the last.
    pub fn next(&mut self, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        while self.current != END {
            let row = match &mut self.right {
                Some(Right::Hashed(table)) => {
                    let (row, next) = table.row(self.current, &self.wanted)?;
                    self.current = next;
                    row
                }
                Some(Right::Sorted(lookup)) => {
                    let row = lookup.next(&self.wanted)?;
                    self.current = if row.is_some() { 0 } else { END };
                    row
                }
                None => None,
            };
            if let Some(row) = row {
                self.plan.carry.load(row, &mut frame.slots);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Appends the encoded key; false where a part is NULL, which equals nothing.
pub(super) fn encode(
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
pub fn encode_in_domain(
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
            let value = shown(value, ty);
            let number = cx.reporting(|report| convert::to_decimal(value, ty, report))?;
            number.append_identity(out);
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
            let v = cast::compared_datetime(value, ty, None, cx)?;
            key::encode(out, &canonical_type(Comparison::DateTime), ValueRef::DateTime(v), false);
        }
        Comparison::Time => {
            let v = cast::value_to_time(value, ty, None, cx)?.unwrap_or_default();
            key::encode(out, &canonical_type(by), ValueRef::Time(v), false);
        }
        Comparison::Fixed(kind) => match cast::value_to_fixed(kind, value, ty, cx) {
            Some(v) => v.append_ordered(out),
            None => return Ok(false),
        },
    }
    Ok(true)
}

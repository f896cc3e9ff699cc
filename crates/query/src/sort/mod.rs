//! Sorting: rows as encoded keys with a payload, in memory up to a bound, then in runs on disk that are merged.
//!
//! Keys compare as bytes (`keel_value::key`), descending parts inverted, so a sort never looks at a value. Equal keys keep
//! the order in which rows came. With a limit only the best rows are kept: whenever twice the limit has gathered, the
//! worse half goes.
//!
//! A run is a sequence of `[key length u32][payload length u32][key][payload]`. Runs live in temporary files, deleted
//! when opened; nothing of them survives a crash.

mod distinct;
mod kept;
mod list;
mod spill;

use std::sync::Arc;

use keel_base::SqlResult;

pub(crate) use distinct::Distinct;
pub use kept::KeptRows;
pub(crate) use list::{RowCursor, RowList};
use spill::{Merge, Run};
pub(crate) use spill::{RowFile, RowReader, TempFile};

use crate::host::Host;

/// Where a record stands in the arena.
#[derive(Clone, Copy)]
struct Entry {
    /// The key's first eight octets, so that most comparisons touch no arena.
    head: u64,
    offset: u32,
    key_len: u32,
    payload_len: u32,
    /// Order of arrival.
    number: u32,
}

/// Gathers rows and gives them back in order.
pub(crate) struct Sorter {
    arena: Vec<u8>,
    entries: Vec<Entry>,
    /// Rows wanted at most.
    limit: Option<usize>,
    bytes_max: usize,
    runs: Vec<Run>,
    /// The last of the rows kept when the worse half went: what does not come before it is not wanted.
    worst: Option<Entry>,
    /// Where the row that is being added begins, and where its key ends.
    pending: usize,
    key_end: usize,
    /// Says where temporary files go.
    host: Arc<dyn Host>,
}

/// Below this many rows the sorter of a limit does not bother to throw away.
const TOP_ROWS_MIN: usize = 256;
/// Sorting in memory is allowed this much whatever the variable says.
const BYTES_MIN: usize = 64 << 10;

impl Sorter {
    /// A sorter for `bytes_max` of memory.
    pub fn new(limit: Option<u64>, bytes_max: u64, host: Arc<dyn Host>) -> Sorter {
        Sorter {
            arena: Vec::new(),
            entries: Vec::new(),
            limit: limit.and_then(|n| usize::try_from(n).ok()),
            bytes_max: usize::try_from(bytes_max)
                .unwrap_or(usize::MAX)
                .clamp(BYTES_MIN, u32::MAX as usize / 2),
            runs: Vec::new(),
            worst: None,
            pending: 0,
            key_end: 0,
            host,
        }
    }

    /// Adds a row: the closures append its key and its payload to the buffer.
    pub fn push(
        &mut self,
        key: impl FnOnce(&mut Vec<u8>) -> SqlResult<()>,
        payload: impl FnOnce(&mut Vec<u8>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        if self.push_key(key)? { self.push_payload(payload) } else { Ok(()) }
    }

    /// Begins a row: `fill` appends its key to the buffer. False where so many rows come before it that it needs no payload;
    /// else [`Sorter::push_payload`] follows.
    pub fn push_key(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> SqlResult<()>) -> SqlResult<bool> {
        self.pending = self.arena.len();
        let filled = fill(&mut self.arena);
        self.key_end = self.arena.len();
        if filled.is_err() || self.is_beyond(&self.arena[self.pending..]) {
            self.arena.truncate(self.pending);
            return filled.map(|()| false);
        }
        Ok(true)
    }

    /// Whether a key comes behind as many as are wanted.
    fn is_beyond(&self, key: &[u8]) -> bool {
        let Some(worst) = &self.worst else { return false };
        let head = head_of(key);
        head > worst.head || head == worst.head && key >= self.key(worst)
    }

    /// Ends a row: `fill` appends its payload.
    pub fn push_payload(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> SqlResult<()>) -> SqlResult<()> {
        let (offset, key_len) = (self.pending, self.key_end - self.pending);
        if let Err(error) = fill(&mut self.arena) {
            self.arena.truncate(offset);
            return Err(error);
        }
        let key = &self.arena[offset..offset + key_len];
        self.entries.push(Entry {
            head: head_of(key),
            offset: offset as u32,
            key_len: key_len as u32,
            payload_len: (self.arena.len() - offset - key_len) as u32,
            number: self.entries.len() as u32,
        });
        if let Some(limit) = self.limit
            && self.entries.len() >= limit.saturating_mul(2).max(TOP_ROWS_MIN)
        {
            self.keep_best(limit);
            self.worst = self.entries.last().copied();
        }
        if self.arena.len() + self.entries.len() * size_of::<Entry>() > self.bytes_max {
            self.spill()?;
        }
        Ok(())
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        &self.arena[entry.offset as usize..(entry.offset + entry.key_len) as usize]
    }

    fn order(&mut self) {
        let arena = std::mem::take(&mut self.arena);
        let key = |e: &Entry| &arena[e.offset as usize..(e.offset + e.key_len) as usize];
        self.entries.sort_unstable_by(|a, b| {
            a.head.cmp(&b.head).then_with(|| key(a).cmp(key(b))).then(a.number.cmp(&b.number))
        });
        self.arena = arena;
    }

    fn keep_best(&mut self, limit: usize) {
        self.order();
        self.entries.truncate(limit);
        let mut kept = Vec::with_capacity(self.arena.len() / 2);
        for (number, entry) in self.entries.iter_mut().enumerate() {
            let start = entry.offset as usize;
            let end = start + (entry.key_len + entry.payload_len) as usize;
            entry.offset = kept.len() as u32;
            entry.number = number as u32;
            kept.extend_from_slice(&self.arena[start..end]);
        }
        self.arena = kept;
    }

    fn spill(&mut self) -> SqlResult<()> {
        self.order();
        let rows = self.entries.iter().map(|e| {
            let end = (e.offset + e.key_len + e.payload_len) as usize;
            (self.key(e), &self.arena[(e.offset + e.key_len) as usize..end])
        });
        let run = Run::write(&*self.host, rows)?;
        self.runs.push(run);
        self.worst = None;
        self.entries.clear();
        self.arena.clear();
        Ok(())
    }

    /// Ends the gathering.
    pub fn finish(mut self) -> SqlResult<Sorted> {
        if self.runs.is_empty() {
            self.order();
            return Ok(Sorted {
                next: 0,
                source: Source::Memory { arena: self.arena, entries: self.entries },
            });
        }
        if !self.entries.is_empty() {
            self.spill()?;
        }
        Ok(Sorted { next: 0, source: Source::Merge(Merge::new(self.runs)?) })
    }
}

fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let length = key.len().min(8);
    head[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(head)
}

enum Source {
    Memory { arena: Vec<u8>, entries: Vec<Entry> },
    Merge(Merge),
}

/// Sorted rows.
pub(crate) struct Sorted {
    next: usize,
    source: Source,
}

impl Sorted {
    /// The next row's key and payload.
    pub fn next(&mut self) -> SqlResult<Option<(&[u8], &[u8])>> {
        match &mut self.source {
            Source::Memory { arena, entries } => {
                let Some(entry) = entries.get(self.next) else { return Ok(None) };
                self.next += 1;
                let key = entry.offset as usize;
                let payload = key + entry.key_len as usize;
                let end = payload + entry.payload_len as usize;
                Ok(Some((&arena[key..payload], &arena[payload..end])))
            }
            Source::Merge(merge) => merge.next(),
        }
    }
}

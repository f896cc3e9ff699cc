//! Sorting: rows as encoded keys with a payload, in memory up to a bound, then in runs on disk that are merged.
//!
//! Keys compare as bytes (`keel_value::key`), descending parts inverted, so a sort never looks at a value. Equal keys keep
//! the order in which rows came. With a limit only the best rows are kept: whenever twice the limit has gathered, the
//! worse half goes.
//!
//! A run is a sequence of `[key length u32][payload length u32][key][payload]`. Runs live in temporary files; nothing
//! of them survives a crash. As soon as there are so many runs that were merged equally often
//! as memory has buffers for, they become one: so each row is written anew as often as the number of runs has digits.

mod distinct;
mod list;
mod lookup;
mod seen;
mod spill;

use keel_base::SqlResult;
use keel_storage::runtime::fiber;

pub use distinct::Distinct;
pub use list::{RowCursor, RowList};
pub use lookup::{KeySet, Lookup};
pub use seen::Seen;
use spill::{Merge, READ_BYTES_MIN, Run};

use crate::memory::{Allowance, Room, Work};

/// What a sort has come to.
pub struct Done {
    /// Rows that it gives.
    pub rows: u64,
    /// Merges of runs.
    pub merges: u64,
    /// Whether rows beyond a limit were thrown away as they came.
    pub kept_best: bool,
}

/// Where a record stands in the arena.
#[derive(Clone, Copy)]
struct Entry {
    /// The key's first eight octets, so that most comparisons touch no arena; others while entries that have these in common
    /// are sorted.
    head: u64,
    offset: u32,
    key_len: u32,
    payload_len: u32,
    /// Order of arrival.
    number: u32,
}

/// Gathers rows and gives them back in order.
pub struct Sorter {
    arena: Vec<u8>,
    entries: Vec<Entry>,
    /// Rows wanted at most.
    limit: Option<usize>,
    memory: Allowance,
    runs: Vec<Run>,
    /// Rows taken.
    taken: u64,
    /// Merges of runs so far.
    merges: u64,
    /// The last of the rows kept when the worse half went: what does not come before it is not wanted.
    worst: Option<Entry>,
    /// Where the row that is being added begins, and where its key ends.
    pending: usize,
    key_end: usize,
}

/// Below this many rows the sorter of a limit does not bother to throw away.
const TOP_ROWS_MIN: usize = 256;
/// Offsets in the arena are 32 bits wide.
const BYTES_MAX: u64 = u32::MAX as u64 / 2;
/// Runs that are merged at once, if there is memory for their buffers.
const MERGE: std::ops::RangeInclusive<usize> = 8..=64;

impl Sorter {
    /// A sorter for so much memory.
    pub fn new(limit: Option<u64>, room: impl Into<Room>, work: impl Into<Work>) -> Sorter {
        let room = room.into();
        Sorter {
            arena: Vec::new(),
            entries: Vec::new(),
            limit: limit.and_then(|n| usize::try_from(n).ok()),
            memory: Allowance::new(Room { memory: room.memory.min(BYTES_MAX), ..room }, work),
            runs: Vec::new(),
            taken: 0,
            merges: 0,
            worst: None,
            pending: 0,
            key_end: 0,
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

    /// Adds a row whose key and payload are there already.
    pub fn push_bytes(&mut self, key: &[u8], payload: &[u8]) -> SqlResult<()> {
        let append = |bytes: &[u8], out: &mut Vec<u8>| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        self.push(|out| append(key, out), |out| append(payload, out))
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
        self.taken += 1;
        if let Some(limit) = self.limit
            && self.entries.len() >= limit.saturating_mul(2).max(TOP_ROWS_MIN)
        {
            self.keep_best(limit);
            self.worst = self.entries.last().copied();
        }
        if !self.memory.allows(self.arena.len() + self.entries.len() * size_of::<Entry>()) {
            self.spill()?;
        }
        Ok(())
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        entry.key_from(&self.arena, 0)
    }

    fn order(&mut self) {
        put_in_order(&mut self.entries, &self.arena, 0);
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
        self.memory.check_session(self.arena.len() + self.entries.len() * size_of::<Entry>())?;
        self.order();
        let rows = self.entries.iter().map(|e| {
            let end = (e.offset + e.key_len + e.payload_len) as usize;
            (self.key(e), &self.arena[(e.offset + e.key_len) as usize..end])
        });
        let run = Run::write(self.memory.host(), rows, self.memory.granted())?;
        self.runs.push(run);
        self.worst = None;
        self.entries.clear();
        self.arena.clear();
        let most = self.merge_max();
        while let Some(first) = self.runs.len().checked_sub(most)
            && self.runs[first].merges == self.runs[self.runs.len() - 1].merges
        {
            self.merge_from(first)?;
        }
        Ok(())
    }

    /// Runs that are merged at once.
    fn merge_max(&self) -> usize {
        (self.memory.granted() / READ_BYTES_MIN).clamp(*MERGE.start(), *MERGE.end())
    }

    /// Makes one run of all from the given one.
    fn merge_from(&mut self, first: usize) -> SqlResult<()> {
        (self.arena, self.entries) = (Vec::new(), Vec::new());
        let runs = self.runs.split_off(first);
        self.merges += 1;
        let most = self.limit.unwrap_or(usize::MAX);
        self.runs.push(Run::merged(self.memory.host(), runs, self.memory.granted(), most)?);
        Ok(())
    }

    /// What it has come to, once all rows are there.
    pub fn done(&self) -> Done {
        let most = self.limit.map_or(u64::MAX, |limit| limit as u64);
        Done {
            rows: self.taken.min(most),
            merges: self.merges + u64::from(!self.runs.is_empty()),
            kept_best: self.limit.is_some_and(|limit| limit < usize::MAX) && self.runs.is_empty(),
        }
    }

    /// Ends the gathering.
    pub fn finish(mut self) -> SqlResult<Sorted> {
        if self.runs.is_empty() {
            self.order();
            return Ok(Sorted {
                next: 0,
                source: Source::Memory { arena: self.arena, entries: self.entries },
                _memory: self.memory,
            });
        }
        if !self.entries.is_empty() {
            self.spill()?;
        }
        let most = self.merge_max();
        while let Some(beyond) = self.runs.len().checked_sub(most).filter(|beyond| *beyond > 0) {
            // The last ones are the shortest.
            self.merge_from(self.runs.len() - (beyond + 1).min(most))?;
        }
        (self.arena, self.entries) = (Vec::new(), Vec::new());
        let merge = Merge::new(self.runs, self.memory.granted())?;
        Ok(Sorted { next: 0, source: Source::Merge(merge), _memory: self.memory })
    }
}

/// So few entries are compared by their keys.
const FEW: usize = 12;
/// Octets that keys may have in common before they are compared as a whole.
const COMMON_MAX: usize = 128;

impl Entry {
    /// The key, without so many octets.
    fn key_from<'a>(&self, arena: &'a [u8], depth: usize) -> &'a [u8] {
        let key = &arena[self.offset as usize..(self.offset + self.key_len) as usize];
        &key[depth.min(key.len())..]
    }
}

/// Entries that are sorted without a pause.
const SORTED_AT_ONCE: usize = 8 << 10;

/// Sorts by the heads. Many entries are parted around the middle until few are left: others run between the parts.
fn sort_by_head(entries: &mut [Entry]) {
    if entries.len() <= SORTED_AT_ONCE {
        return entries.sort_unstable_by_key(|entry| entry.head);
    }
    let middle = entries.len() / 2;
    entries.select_nth_unstable_by_key(middle, |entry| entry.head);
    fiber::offer();
    let (low, high) = entries.split_at_mut(middle);
    sort_by_head(low);
    sort_by_head(high);
}

/// Sorts entries whose keys have the first `depth` octets in common, and whose heads are the next eight: by these, then those
/// that are still alike by the eight that follow. So an octet of a key is read once for each entry, not for each comparison.
fn put_in_order(entries: &mut [Entry], arena: &[u8], depth: usize) {
    sort_by_head(entries);
    let depth = depth + 8;
    for alike in entries.chunk_by_mut(|a, b| a.head == b.head).filter(|alike| alike.len() > 1) {
        let length = alike[0].key_len;
        if length as usize <= depth && alike.iter().all(|entry| entry.key_len == length) {
            alike.sort_unstable_by_key(|entry| entry.number);
            continue;
        }
        // A head does not tell where a key ends.
        let ends = alike.iter().any(|entry| entry.key_len as usize <= depth);
        if ends || alike.len() <= FEW || depth >= COMMON_MAX {
            alike.sort_unstable_by(|a, b| {
                fiber::tick();
                let keys = a.key_from(arena, depth - 8).cmp(b.key_from(arena, depth - 8));
                keys.then(a.number.cmp(&b.number))
            });
            continue;
        }
        let head = alike[0].head;
        alike.iter_mut().for_each(|entry| entry.head = head_of(entry.key_from(arena, depth)));
        put_in_order(alike, arena, depth);
        alike.iter_mut().for_each(|entry| entry.head = head);
    }
}

/// The first eight octets of a key as a number, in whose order they are; zeros stand for those that it lacks.
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
pub struct Sorted {
    next: usize,
    source: Source,
    _memory: Allowance,
}

impl Sorted {
    /// The next row's key and payload.
    pub fn next_entry(&mut self) -> SqlResult<Option<(&[u8], &[u8])>> {
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

#[cfg(test)]
mod tests {
    use keel_runtime::sim::{self, Options};

    use super::*;
    use crate::testing::host;

    /// Sorts rows of 1 KiB in 64 KiB, by keys that come often; gives the rows' numbers in order.
    fn sort(rows: u32, limit: Option<u64>) -> Vec<u32> {
        sim::run(Options::new(1), || {
            let mut sorter = Sorter::new(limit, u64::MAX, host());
            for number in 0..rows {
                let mut payload = number.to_be_bytes().to_vec();
                payload.resize(1024, 0);
                sorter.push_bytes(&key(number).to_be_bytes(), &payload).expect("takes");
                assert!(sorter.runs.len() < 2 * MERGE.end(), "there are {} runs", sorter.runs.len());
            }
            let mut sorted = sorter.finish().expect("sorts");
            let mut numbers = Vec::new();
            while let Some((_, payload)) = sorted.next_entry().expect("reads") {
                numbers.push(u32::from_be_bytes(payload[..4].try_into().expect("four octets")));
            }
            numbers
        })
        .done()
    }

    fn key(number: u32) -> u32 {
        number.wrapping_mul(7919) % 997
    }

    /// Keys of any lengths over few octets: many have much in common, many are others' beginnings.
    #[test]
    fn keys_with_much_in_common_come_in_their_order() {
        let mut state = 20_261_124_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let keys: Vec<Vec<u8>> = (0..20_000)
            .map(|_| {
                let common = [0, 7, 8, 9, 40, COMMON_MAX as u64 + 3][below(6) as usize];
                let rest = (0..below(20)).map(|_| [0, 1, 255][below(3) as usize]);
                std::iter::repeat_n(7, common as usize).chain(rest).collect()
            })
            .collect();
        let mut expected: Vec<usize> = (0..keys.len()).collect();
        expected.sort_by_key(|number| &keys[*number]);
        let expected: Vec<Vec<u8>> =
            expected.into_iter().map(|number| (number as u32).to_be_bytes().to_vec()).collect();
        let sorted = sim::run(Options::new(1), move || {
            let mut sorter = Sorter::new(None, u64::MAX, host());
            for (number, key) in keys.iter().enumerate() {
                sorter.push_bytes(key, &(number as u32).to_be_bytes()).expect("takes");
            }
            let mut sorted = sorter.finish().expect("sorts");
            let mut payloads = Vec::new();
            while let Some((_, payload)) = sorted.next_entry().expect("reads") {
                payloads.push(payload.to_vec());
            }
            payloads
        });
        assert!(sorted.done() == expected);
    }

    #[test]
    fn many_runs_are_merged_in_passes_and_equal_keys_stay_in_order() {
        let mut expected: Vec<u32> = (0..9000).collect();
        expected.sort_by_key(|number| key(*number));
        assert!(sort(9000, None) == expected);
        let best = sort(9000, Some(4000));
        assert!(best[..4000] == expected[..4000]);
    }
}

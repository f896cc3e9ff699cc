//! Sorted records in a file, found by key: what a hash table is for, where one does not fit into memory.
//!
//! The records stand in blocks. Of each block the beginning of its first key stays in memory, so that one block is read for
//! a key, and none where the next key is in the same one.

use std::cmp::Ordering;
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use keel_base::SqlResult;

use super::spill::{Run, append_record, record};
use super::{Sorted, Sorter};
use crate::memory::{Allowance, Work};
use crate::place::Place;

/// Octets after which a block ends.
const BLOCK_BYTES: usize = 32 << 10;
/// Octets of a block's first key that are kept.
const HEAD_BYTES: usize = 64;

struct Block {
    offset: u64,
    head: Box<[u8]>,
}

/// Records by key.
pub struct Lookup {
    run: Run,
    blocks: Vec<Block>,
    /// The block that was read last, and where its next record begins.
    block: Option<usize>,
    buffer: Vec<u8>,
    at: usize,
}

impl Lookup {
    /// Writes what is sorted to a file of its own. Waits.
    pub fn new(mut sorted: Sorted, host: &dyn Place) -> SqlResult<Lookup> {
        let (mut run, mut blocks, mut buffer) = (Run::create(host)?, Vec::new(), Vec::new());
        while let Some((key, payload)) = sorted.next_entry()? {
            if buffer.is_empty() {
                blocks.push(Block { offset: run.len(), head: head_of(key).into() });
            }
            append_record(&mut buffer, key, payload);
            if buffer.len() >= BLOCK_BYTES {
                run.append(&mut buffer)?;
            }
        }
        run.append(&mut buffer)?;
        Ok(Lookup { run, blocks, block: None, buffer, at: 0 })
    }

    /// Goes to the first record of a key, if there is one. Waits.
    pub fn seek(&mut self, key: &[u8]) -> SqlResult<()> {
        let head = head_of(key);
        // The block before the first that begins with the key or behind it: it may end with the key.
        let behind = self.blocks.partition_point(|block| *block.head < *head);
        self.go_to(behind.saturating_sub(1))
    }

    /// The next record's payload, if it has the key that was sought. Waits.
    pub fn next(&mut self, key: &[u8]) -> SqlResult<Option<&[u8]>> {
        Ok(self.find(key)?.map(|payload| &self.buffer[payload]))
    }

    fn find(&mut self, key: &[u8]) -> SqlResult<Option<Range<usize>>> {
        loop {
            if self.at == self.buffer.len() {
                match self.block {
                    Some(block) if block + 1 < self.blocks.len() => self.go_to(block + 1)?,
                    _ => return Ok(None),
                }
            }
            let (found, payload) = record(&self.buffer, self.at);
            match self.buffer[found].cmp(key) {
                Ordering::Less => self.at = payload.end,
                Ordering::Equal => {
                    self.at = payload.end;
                    return Ok(Some(payload));
                }
                Ordering::Greater => return Ok(None),
            }
        }
    }

    fn go_to(&mut self, block: usize) -> SqlResult<()> {
        self.at = 0;
        if self.block == Some(block) || self.blocks.is_empty() {
            return Ok(());
        }
        let start = self.blocks[block].offset;
        let end = self.blocks.get(block + 1).map_or(self.run.len(), |next| next.offset);
        self.block = None;
        self.buffer.resize((end - start) as usize, 0);
        self.run.read(&mut self.buffer, start)?;
        self.block = Some(block);
        Ok(())
    }
}

fn head_of(key: &[u8]) -> &[u8] {
    &key[..key.len().min(HEAD_BYTES)]
}

/// Keys of which is asked whether they are there: in memory, or where they do not fit in a file.
pub struct KeySet {
    keys: HashSet<Box<[u8]>, RandomState>,
    bytes: usize,
    bytes_max: u64,
    memory: Allowance,
    sorter: Option<Sorter>,
    filed: Option<Lookup>,
}

/// What a key takes beside its octets.
const KEY_BYTES: usize = 32;

impl KeySet {
    /// No keys, and `bytes_max` of memory for them.
    pub fn new(bytes_max: u64, work: impl Into<Work>) -> KeySet {
        let memory = Allowance::new(bytes_max, work);
        KeySet { keys: HashSet::default(), bytes: 0, bytes_max, memory, sorter: None, filed: None }
    }

    /// Adds a key. Waits.
    pub fn add(&mut self, key: &[u8]) -> SqlResult<()> {
        if let Some(sorter) = &mut self.sorter {
            return sorter.push_bytes(key, &[]);
        }
        let known = self.keys.len();
        self.keys.get_or_insert_with(key, |key| key.into());
        if self.keys.len() == known {
            return Ok(());
        }
        self.bytes += key.len() + KEY_BYTES;
        if self.memory.allows(self.bytes) {
            return Ok(());
        }
        self.memory.shrink();
        let mut sorter = Sorter::new(None, self.bytes_max, self.memory.work().clone());
        for key in std::mem::take(&mut self.keys) {
            sorter.push_bytes(&key, &[])?;
        }
        self.sorter = Some(sorter);
        Ok(())
    }

    /// Ends the adding. Waits.
    pub fn finish(&mut self) -> SqlResult<()> {
        if let Some(sorter) = self.sorter.take() {
            self.filed = Some(Lookup::new(sorter.finish()?, self.memory.host())?);
        }
        Ok(())
    }

    /// Whether a key was added. Waits.
    pub fn contains(&mut self, key: &[u8]) -> SqlResult<bool> {
        match &mut self.filed {
            Some(filed) => {
                filed.seek(key)?;
                Ok(filed.next(key)?.is_some())
            }
            None => Ok(self.keys.contains(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use keel_runtime::sim::{self, Options};

    use super::*;
    use crate::testing::host;

    /// Keys that begin alike for longer than what is kept of them, and some of which come very often.
    fn key(number: u32) -> Vec<u8> {
        let value = if number.is_multiple_of(3) { 30 } else { number * 2 };
        format!("{}{value:08}", "x".repeat(100 * (value as usize % 2 + value as usize % 3))).into_bytes()
    }

    #[test]
    fn records_are_found_by_key() {
        sim::run(Options::new(1), || {
            let mut sorter = Sorter::new(None, 1, host());
            for number in 0..5000_u32 {
                sorter.push_bytes(&key(number), &number.to_be_bytes()).expect("takes");
            }
            let mut lookup = Lookup::new(sorter.finish().expect("sorts"), &*host()).expect("writes");
            assert!(lookup.blocks.len() > 10);
            let mut found = |key: &[u8]| {
                lookup.seek(key).expect("reads");
                let mut numbers = Vec::new();
                while let Some(payload) = lookup.next(key).expect("reads") {
                    numbers.push(u32::from_be_bytes(payload.try_into().expect("four octets")));
                }
                numbers
            };
            for number in (0..5000).step_by(7).chain([4999, 0, 15]) {
                let same: Vec<u32> = (0..5000).filter(|other| key(*other) == key(number)).collect();
                assert_eq!(found(&key(number)), same, "{number}");
                let mut other = key(number);
                other.push(b'5');
                assert_eq!(found(&other), [], "{number}");
            }
            assert!(found(b"").is_empty() && found(b"y").is_empty());
        })
        .done();
    }

    #[test]
    fn a_set_of_keys_answers_alike_in_memory_and_in_a_file() {
        sim::run(Options::new(1), || {
            for count in [0, 100, 5000] {
                let mut set = KeySet::new(1, host());
                (0..count).for_each(|number| set.add(&key(number)).expect("takes"));
                set.finish().expect("writes");
                assert_eq!(set.filed.is_some(), count == 5000);
                for number in (0..6000).step_by(11) {
                    let there = (0..count).any(|other| key(other) == key(number));
                    assert_eq!(set.contains(&key(number)).expect("reads"), there, "{number} of {count}");
                }
            }
        })
        .done();
    }
}

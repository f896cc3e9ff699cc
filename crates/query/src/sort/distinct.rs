//! Rows that came before are left out: by key, in memory up to a bound.
//!
//! Once the keys in memory have reached the bound, rows with other keys are set aside in temporary partitions by hash,
//! and looked at when all rows have come. So rows leave in the order of their arrival as long as they fit.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::{FixedState, RandomState};
use hashbrown::HashSet;
use keel_base::SqlResult;

use super::RowList;
use crate::host::Host;
use crate::memory::Allowance;

/// Partitions of one round.
const PARTITIONS: usize = 16;
/// What a key takes beside its octets.
const KEY_BYTES: usize = 32;

impl std::fmt::Debug for Distinct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Distinct({} keys)", self.keys.len())
    }
}

/// The keys seen so far.
pub(crate) struct Distinct {
    keys: HashSet<Box<[u8]>, RandomState>,
    bytes: usize,
    memory: Allowance,
    full: bool,
    partitions: Vec<RowList>,
    depth: u32,
}

impl Distinct {
    /// No keys, and `bytes_max` of memory for them.
    pub fn new(bytes_max: u64, host: Arc<dyn Host>) -> Distinct {
        Distinct::within(Allowance::new(bytes_max, host), 0)
    }

    fn within(memory: Allowance, depth: u32) -> Distinct {
        Distinct { keys: HashSet::default(), bytes: 0, memory, full: false, partitions: Vec::new(), depth }
    }

    /// Octets that the keys take in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether rows with further keys are set aside.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Whether some were.
    pub fn has_rest(&self) -> bool {
        !self.partitions.is_empty()
    }

    /// Whether the key is new. One that cannot be told yet is set aside, with the row that `fill` appends, and not new.
    pub fn is_new(&mut self, key: &[u8], fill: impl FnOnce(&mut Vec<u8>)) -> SqlResult<bool> {
        if self.keys.contains(key) {
            return Ok(false);
        }
        if !self.is_full() {
            self.bytes += key.len() + KEY_BYTES;
            self.full = !self.memory.allows(self.bytes);
            self.keys.insert(key.into());
            return Ok(true);
        }
        while self.partitions.len() < PARTITIONS {
            self.partitions.push(RowList::new(0, self.memory.host().clone()));
        }
        let hash = FixedState::with_seed(u64::from(self.depth)).hash_one(key);
        self.partitions[(hash >> 48) as usize % PARTITIONS].push(|out| {
            out.extend_from_slice(&(key.len() as u32).to_le_bytes());
            out.extend_from_slice(key);
            fill(out);
        })?;
        Ok(false)
    }

    /// Calls `f` with each row set aside whose key is new, until it says no; gives its last answer.
    pub fn rest(mut self, f: &mut dyn FnMut(&[u8]) -> SqlResult<bool>) -> SqlResult<bool> {
        self.keys = HashSet::default();
        let again = self.memory.again();
        drop(std::mem::replace(&mut self.memory, again));
        for file in self.partitions.drain(..).filter(|file| !file.is_empty()) {
            let mut inner = Distinct::within(self.memory.again(), self.depth + 1);
            let mut rows = file.finish()?;
            while let Some(record) = rows.next_row()? {
                let (head, rest) = record.split_at(4);
                let length = u32::from_le_bytes(head.try_into().expect("four octets")) as usize;
                let (key, row) = rest.split_at(length);
                if inner.is_new(key, |out| out.extend_from_slice(row))? && !f(row)? {
                    return Ok(false);
                }
            }
            if !inner.rest(f)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

//! Rows that came before are left out: by key, in memory up to a bound.
//!
//! Once the keys in memory have reached the bound, rows with other keys are set aside in temporary partitions by hash,
//! and looked at when all rows have come. So rows leave in the order of their arrival as long as they fit.

use std::hash::BuildHasher;

use foldhash::fast::{FixedState, RandomState};
use hashbrown::HashTable;
use keel_base::SqlResult;

use super::RowList;
use crate::memory::{Allowance, Room, Work};

/// Partitions of one round.
const PARTITIONS: usize = 16;
/// What a key takes beside its octets.
const KEY_BYTES: usize = 24;
/// So many keys are compared one by one: a group of COUNT(DISTINCT) has few as a rule.
const FEW: usize = 8;

impl std::fmt::Debug for Distinct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Distinct({} keys)", self.keys.count)
    }
}

/// The keys seen so far.
pub struct Distinct {
    keys: Keys,
    memory: Allowance,
    full: bool,
    partitions: Vec<RowList>,
    depth: u32,
}

/// Keys one behind the other, each as `[length u32][octets]`, and where they are by their hash once they are not few.
struct Keys {
    arena: Vec<u8>,
    count: usize,
    places: HashTable<usize>,
    state: RandomState,
}

/// The key at a place of the arena.
fn key_at(arena: &[u8], place: usize) -> &[u8] {
    let (head, rest) = arena[place..].split_first_chunk().expect("a key has its length");
    &rest[..u32::from_le_bytes(*head) as usize]
}

impl Keys {
    fn new() -> Keys {
        Keys { arena: Vec::new(), count: 0, places: HashTable::new(), state: RandomState::default() }
    }

    fn bytes(&self) -> usize {
        self.arena.len() + self.count * KEY_BYTES
    }

    /// Lets `encode` write a key behind the others, for [`Keys::has_last`] and [`Keys::keep_last`]; gives its place, or none where `encode` says that there is no key.
    fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> SqlResult<bool>) -> SqlResult<Option<usize>> {
        let place = self.arena.len();
        self.arena.extend_from_slice(&[0; 4]);
        match encode(&mut self.arena) {
            Ok(true) => {
                let length = (self.arena.len() - place - 4) as u32;
                self.arena[place..place + 4].copy_from_slice(&length.to_le_bytes());
                Ok(Some(place))
            }
            other => {
                self.arena.truncate(place);
                other.map(|_| None)
            }
        }
    }

    /// Whether the key at `place`, the last one, was there before.
    fn has_last(&self, place: usize) -> bool {
        let key = key_at(&self.arena, place);
        if self.places.is_empty() {
            let mut at = 0;
            while at < place {
                let other = key_at(&self.arena, at);
                if other == key {
                    return true;
                }
                at += 4 + other.len();
            }
            return false;
        }
        self.places.find(self.state.hash_one(key), |other| key_at(&self.arena, *other) == key).is_some()
    }

    fn keep_last(&mut self, place: usize) {
        self.count += 1;
        if self.count > FEW {
            if self.places.is_empty() {
                let mut at = 0;
                while at < place {
                    self.put_place(at);
                    at += 4 + key_at(&self.arena, at).len();
                }
            }
            self.put_place(place);
        }
    }

    fn put_place(&mut self, place: usize) {
        let hash = |place: &usize| self.state.hash_one(key_at(&self.arena, *place));
        self.places.insert_unique(hash(&place), place, hash);
    }
}

impl Distinct {
    /// No keys, and so much memory for them.
    pub fn new(room: impl Into<Room>, work: impl Into<Work>) -> Distinct {
        Distinct::within(Allowance::new(room, work), 0)
    }

    fn within(memory: Allowance, depth: u32) -> Distinct {
        Distinct { keys: Keys::new(), memory, full: false, partitions: Vec::new(), depth }
    }

    /// Octets that the keys take in memory.
    pub fn bytes(&self) -> usize {
        self.keys.bytes()
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
        let copy = |out: &mut Vec<u8>| {
            out.extend_from_slice(key);
            Ok(true)
        };
        self.is_new_by(copy, fill)
    }

    /// The same of the key that `encode` appends; false where it says that there is none.
    pub fn is_new_by(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> SqlResult<bool>,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> SqlResult<bool> {
        let Some(place) = self.keys.push(encode)? else { return Ok(false) };
        if self.keys.has_last(place) {
            self.keys.arena.truncate(place);
            return Ok(false);
        }
        if !self.is_full() {
            self.keys.keep_last(place);
            self.full = !self.memory.allows(self.keys.bytes());
            if self.full {
                self.memory.check_session(self.keys.bytes())?;
            }
            return Ok(true);
        }
        let aside = self.set_aside(place, fill);
        self.keys.arena.truncate(place);
        aside.map(|()| false)
    }

    /// Sets a row aside with its key, which is the one at `place`.
    fn set_aside(&mut self, place: usize, fill: impl FnOnce(&mut Vec<u8>)) -> SqlResult<()> {
        while self.partitions.len() < PARTITIONS {
            self.partitions.push(RowList::within(self.memory.of_file(PARTITIONS)));
        }
        let key = key_at(&self.keys.arena, place);
        let hash = FixedState::with_seed(u64::from(self.depth)).hash_one(key);
        self.partitions[(hash >> 48) as usize % PARTITIONS].push(|out| {
            out.extend_from_slice(&(key.len() as u32).to_le_bytes());
            out.extend_from_slice(key);
            fill(out);
        })?;
        Ok(())
    }

    /// Calls `f` with each row set aside whose key is new, until it says no; gives its last answer.
    pub fn rest(mut self, f: &mut dyn FnMut(&[u8]) -> SqlResult<bool>) -> SqlResult<bool> {
        self.keys = Keys::new();
        self.memory.shrink();
        for file in self.partitions.drain(..).filter(|file| !file.is_empty()) {
            let mut inner = Distinct::within(self.memory.within(), self.depth + 1);
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

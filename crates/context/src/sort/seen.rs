//! Keys of which is asked whether they are new while more of them come: in memory up to a bound, then in sorted files.
//!
//! Unlike [`super::Distinct`] it answers at once, which a recursion needs. When memory is full its keys become a file that
//! is looked into by key; there are a few dozen of these at most.

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use keel_base::{SqlResult, errors};

use super::{Lookup, Sorter};
use crate::memory::{Allowance, Work};

/// Files that are looked into for each key.
const FILES_MAX: usize = 32;
/// What a key takes beside its octets.
const KEY_BYTES: usize = 32;

/// The keys seen so far.
pub struct Seen {
    keys: HashSet<Box<[u8]>, RandomState>,
    bytes: usize,
    bytes_max: u64,
    memory: Allowance,
    files: Vec<Lookup>,
}

impl Seen {
    /// No keys, and `bytes_max` of memory for them.
    pub fn new(bytes_max: u64, work: impl Into<Work>) -> Seen {
        let memory = Allowance::new(bytes_max, work);
        Seen { keys: HashSet::default(), bytes: 0, bytes_max, memory, files: Vec::new() }
    }

    /// Whether a key was not seen before. 1037 where there are too many. Waits.
    pub fn is_new(&mut self, key: &[u8]) -> SqlResult<bool> {
        if self.keys.contains(key) {
            return Ok(false);
        }
        for file in &mut self.files {
            file.seek(key)?;
            if file.next(key)?.is_some() {
                return Ok(false);
            }
        }
        self.bytes += key.len() + KEY_BYTES;
        self.keys.insert(key.into());
        if !self.memory.allows(self.bytes) {
            self.file_keys()?;
        }
        Ok(true)
    }

    /// Moves the keys in memory to a file.
    fn file_keys(&mut self) -> SqlResult<()> {
        if self.files.len() == FILES_MAX {
            return Err(errors::outofmemory(self.bytes));
        }
        self.memory.shrink();
        let mut sorter = Sorter::new(None, self.bytes_max, self.memory.work().clone());
        for key in std::mem::take(&mut self.keys) {
            sorter.push_bytes(&key, &[])?;
        }
        self.bytes = 0;
        self.files.push(Lookup::new(sorter.finish()?, self.memory.host())?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use keel_runtime::sim::{self, Options};

    use super::*;
    use crate::testing::host;

    #[test]
    fn a_key_is_new_once_in_memory_and_in_files() {
        sim::run(Options::new(1), || {
            let mut seen = Seen::new(1, host());
            let key = |number: u32| format!("{:08}", number.wrapping_mul(7919) % 6007).into_bytes();
            for number in 0..6007 {
                assert!(seen.is_new(&key(number)).expect("looks"), "{number}");
            }
            assert!(seen.files.len() > 1);
            for number in 0..6007 {
                assert!(!seen.is_new(&key(number)).expect("looks"), "{number}");
            }
        })
        .done();
    }
}

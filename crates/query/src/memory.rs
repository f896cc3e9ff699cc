//! Memory that sessions share: for sorts, groups, joins, sets of keys, kept rows and cursors, for user variables and
//! parameters that come in pieces.
//!
//! Each of these starts with a little that it need not ask for. What it wants beyond that, up to the variable that bounds
//! it, it takes from the server's [`WorkMemory`] in steps, as long as its step is no more than half of what is free; then
//! rows and keys go to a file, and variables and parameters are refused. So a thousand sessions at once take little more
//! than one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keel_storage::runtime::system;

use crate::host::Host;

/// Octets that all statements may take together beside what each has at the start.
const TOTAL_BYTES: u64 = 64 << 20;
/// Octets that each operator has at the start.
const START_BYTES: u64 = 64 << 10;

/// The memory of a server for work on rows, and the places of its temporary files.
#[derive(Debug)]
pub struct WorkMemory {
    total: AtomicU64,
    taken: AtomicU64,
    most: AtomicU64,
    files: Arc<AtomicU64>,
    /// Temporary files that there have been.
    files_made: AtomicU64,
}

/// Temporary files that there may be at once in a process that may open so many files.
pub fn temporary_files_max(descriptors: u64) -> u64 {
    (descriptors / 8).min(10_000)
}

/// A temporary file's place among those that there may be; given back when dropped.
#[derive(Debug)]
pub struct FilePlace(Arc<AtomicU64>);

impl Drop for FilePlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for WorkMemory {
    fn default() -> WorkMemory {
        WorkMemory::new(TOTAL_BYTES)
    }
}

impl WorkMemory {
    /// So many octets for all, beside what each has at the start.
    pub fn new(total: u64) -> WorkMemory {
        WorkMemory {
            total: total.into(),
            taken: 0.into(),
            most: 0.into(),
            files: Arc::default(),
            files_made: 0.into(),
        }
    }

    fn take(&self, step: u64) -> bool {
        let total = self.total.load(Ordering::Relaxed);
        let take = |taken: u64| (step <= total.saturating_sub(taken) / 2).then_some(taken + step);
        let before = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if let Ok(before) = before {
            self.most.fetch_max(before + step, Ordering::Relaxed);
        }
        before.is_ok()
    }

    /// Changes how many octets there are for all; what is taken beyond stays until it is given back.
    pub fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Octets for all.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The most octets that were taken at once.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// A place for one more temporary file, if there is one.
    pub fn place_file(&self) -> Option<FilePlace> {
        let max = temporary_files_max(system::descriptors_max());
        let more = |files: u64| (files < max).then_some(files + 1);
        self.files.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        self.files_made.fetch_add(1, Ordering::Relaxed);
        Some(FilePlace(self.files.clone()))
    }

    /// Temporary files that there have been.
    pub fn files_made(&self) -> u64 {
        self.files_made.load(Ordering::Relaxed)
    }

    /// Octets taken now.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// What one operator or session may use; gives back what it took when dropped.
pub struct Allowance {
    host: Arc<dyn Host>,
    granted: u64,
    wanted: u64,
}

impl Allowance {
    /// An allowance that may grow to `wanted` octets.
    pub fn new(wanted: u64, host: Arc<dyn Host>) -> Allowance {
        Allowance { host, granted: START_BYTES, wanted }
    }

    /// All of `bytes` from what sessions share, with nothing at the start; none where there is not enough.
    pub fn of_all(bytes: u64, host: Arc<dyn Host>) -> Option<Allowance> {
        host.work_memory().take(bytes).then(|| Allowance { host, granted: START_BYTES + bytes, wanted: 0 })
    }

    /// Whether `used` octets may be used; takes more if that helps.
    #[inline]
    pub fn allows(&mut self, used: usize) -> bool {
        used as u64 <= self.granted || self.grow(used as u64)
    }

    #[cold]
    fn grow(&mut self, used: u64) -> bool {
        while self.granted < used && self.granted < self.wanted {
            let step = self.granted.min(self.wanted - self.granted);
            if !self.host.work_memory().take(step) {
                break;
            }
            self.granted += step;
        }
        used <= self.granted
    }

    /// Octets that may be used now.
    pub fn granted(&self) -> usize {
        usize::try_from(self.granted).unwrap_or(usize::MAX)
    }

    /// The server, which says where temporary files go.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// The same wish once more.
    pub fn again(&self) -> Allowance {
        Allowance::new(self.wanted, self.host.clone())
    }
}

impl std::fmt::Debug for Allowance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Allowance({} of {})", self.granted, self.wanted)
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        if self.granted > START_BYTES {
            self.host.work_memory().taken.fetch_sub(self.granted - START_BYTES, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_have_so_many_places() {
        let memory = WorkMemory::default();
        let max = temporary_files_max(system::descriptors_max());
        let places: Vec<_> = (0..max).map_while(|_| memory.place_file()).collect();
        assert_eq!(places.len() as u64, max);
        assert!(memory.place_file().is_none());
        drop(places);
        assert!(memory.place_file().is_some());
    }
}

//! Memory that sessions share: for sorts, groups, joins, sets of keys, kept rows and cursors, for user variables and
//! parameters that come in pieces.
//!
//! 1. An operator begins with `FREE_BYTES`, which most need no more than.
//! 2. To have `START_BYTES` and a file, its statement waits for room ([`Operators`]): a thousand sorts at once would take
//!    more than there is, and be slower than one after the other.
//! 3. What it wants beyond that, up to the variable that bounds it, it takes from the server's [`WorkMemory`] in steps, as long
//!    as its step is no more than half of what is free; then rows and keys go to a file, and variables and parameters are
//!    refused.
//!
//! So a thousand sessions at once take little more than one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keel_base::{SqlResult, errors};
use keel_storage::runtime::system;

use crate::admission::Operators;
use crate::place::Place;
use crate::temp_file::TempSpace;

/// Octets that all statements may take together beside what each has at the start.
const TOTAL_BYTES: u64 = 64 << 20;
/// Octets that each operator has from the beginning.
const FREE_BYTES: u64 = 16 << 10;
/// Octets that it has once there is room for it.
const START_BYTES: u64 = 64 << 10;

/// The memory of a server for work on rows, the space of its temporary files, and the places of temporary tables.
pub struct WorkMemory {
    total: AtomicU64,
    taken: AtomicU64,
    most: AtomicU64,
    files: TempSpace,
    tables: Arc<AtomicU64>,
}

/// Temporary tables that there may be at once in a process that may open so many files.
pub fn temporary_tables_max(descriptors: u64) -> u64 {
    (descriptors / 8).min(10_000)
}

/// A temporary table's place among those that there may be; given back when dropped.
#[derive(Debug)]
pub struct TablePlace(Arc<AtomicU64>);

impl Drop for TablePlace {
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
            files: TempSpace::default(),
            tables: Arc::default(),
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

    /// A place for one more temporary table, if there is one.
    pub fn place_table(&self) -> Option<TablePlace> {
        let max = temporary_tables_max(system::descriptors_max());
        let more = |tables: u64| (tables < max).then_some(tables + 1);
        self.tables.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(TablePlace(self.tables.clone()))
    }

    /// Where temporary files are.
    pub fn files(&self) -> &TempSpace {
        &self.files
    }

    /// Temporary files that there have been.
    pub fn files_made(&self) -> u64 {
        self.files.made()
    }

    /// Octets taken now.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// What bounds an operator.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Octets of memory; beyond them its rows go to a file.
    pub memory: u64,
    /// Octets of a file of rows; beyond them the table is full.
    pub file: u64,
    /// Octets of memory that the session allows itself; beyond them the statement fails.
    pub session: u64,
}

impl From<u64> for Room {
    /// So much memory, and nothing else that bounds it.
    fn from(memory: u64) -> Room {
        Room { memory, file: u64::MAX, session: u64::MAX }
    }
}

/// For whom an operator works.
#[derive(Clone)]
pub struct Work {
    host: Arc<dyn Place>,
    operators: Option<Arc<Operators>>,
}

impl Work {
    /// For a statement of `host`, which waits for room where `operators` says so.
    pub fn new(host: Arc<dyn Place>, operators: Option<Arc<Operators>>) -> Work {
        Work { host, operators }
    }
}

impl From<Arc<dyn Place>> for Work {
    /// For no statement: it waits for no room.
    fn from(host: Arc<dyn Place>) -> Work {
        Work { host, operators: None }
    }
}

/// What one operator or session may use; gives back what it took when dropped.
pub struct Allowance {
    work: Work,
    /// It has entered, and is to leave.
    entered: bool,
    /// What nothing was taken for.
    start: u64,
    granted: u64,
    wanted: u64,
    room: Room,
}

impl Allowance {
    /// An allowance that may grow to the room's memory.
    pub fn new(room: impl Into<Room>, work: impl Into<Work>) -> Allowance {
        let (room, work) = (room.into(), work.into());
        // Nothing is taken from others below the start.
        let free = if work.operators.is_some() { FREE_BYTES } else { START_BYTES };
        let start = free.min(room.session);
        Allowance { work, entered: false, start, granted: start, wanted: room.memory.min(room.session), room }
    }

    /// An allowance for the end of one of `parts` files that an operator writes side by side: all of them together start
    /// with what an operator has, and each may take as much as one.
    pub fn of_file(&self, parts: usize) -> Allowance {
        let start = START_BYTES / parts.max(1) as u64;
        let mut part = self.within();
        (part.start, part.granted, part.wanted) = (start, start, START_BYTES);
        part.room.memory = 0;
        part
    }

    /// The same wish for what comes in the place of this one while it lasts.
    pub fn within(&self) -> Allowance {
        let work = Work { operators: None, ..self.work.clone() };
        Allowance::new(Room { memory: self.wanted, ..self.room }, work)
    }

    /// All of `bytes` from what sessions share, with nothing at the start; none where there is not enough.
    pub fn of_all(bytes: u64, host: Arc<dyn Place>) -> Option<Allowance> {
        host.work_memory().take(bytes).then(|| Allowance {
            work: host.into(),
            entered: false,
            start: START_BYTES,
            granted: START_BYTES + bytes,
            wanted: 0,
            room: Room::from(0),
        })
    }

    /// Whether `used` octets may be used; takes more if that helps. Waits where it enters, unless a latch is held.
    #[inline]
    pub fn allows(&mut self, used: usize) -> bool {
        used as u64 <= self.granted || self.grow(used as u64)
    }

    #[cold]
    fn grow(&mut self, used: u64) -> bool {
        self.enter();
        while self.granted < used && self.granted < self.wanted {
            let step = self.granted.max(1).min(self.wanted - self.granted);
            if !self.work.host.work_memory().take(step) {
                break;
            }
            self.granted += step;
        }
        used <= self.granted
    }

    /// Has all that an operator starts with, once there is room for it.
    fn enter(&mut self) {
        if !self.entered
            && let Some(operators) = &self.work.operators
        {
            operators.enter();
            self.entered = true;
            self.start = START_BYTES.min(self.room.session);
            self.granted = self.start;
        }
    }

    /// Gives back all that it took from others.
    pub fn shrink(&mut self) {
        let taken = self.granted - self.start;
        if taken != 0 {
            self.work.host.work_memory().taken.fetch_sub(taken, Ordering::Relaxed);
            self.granted = self.start;
        }
    }

    /// Octets that may be used now.
    pub fn granted(&self) -> usize {
        usize::try_from(self.granted).unwrap_or(usize::MAX)
    }

    /// 1290 where `used` octets are more than the session allows itself.
    pub fn check_session(&self, used: usize) -> SqlResult<()> {
        match used as u64 > self.room.session {
            true => Err(errors::option_prevents_statement(format_args!(
                "--max-session-mem-used={}",
                self.room.session
            ))),
            false => Ok(()),
        }
    }

    /// 1114 where a file of `length` octets is more than a table may take.
    pub fn check_file(&self, length: u64) -> SqlResult<()> {
        match length > self.room.file {
            true => Err(errors::record_file_full("(temporary)")),
            false => Ok(()),
        }
    }

    /// Whether it is for what is kept in files alone.
    pub fn is_for_files(&self) -> bool {
        self.room.memory == 0
    }

    /// The server, which says where temporary files go.
    pub fn host(&self) -> &dyn Place {
        &*self.work.host
    }

    /// For whom it is.
    pub fn work(&self) -> &Work {
        &self.work
    }
}

impl std::fmt::Debug for Allowance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Allowance({} of {})", self.granted, self.wanted)
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.shrink();
        if let Some(operators) = self.work.operators.as_ref().filter(|_| self.entered) {
            operators.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_tables_have_so_many_places() {
        let memory = WorkMemory::default();
        let max = temporary_tables_max(system::descriptors_max());
        let places: Vec<_> = (0..max).map_while(|_| memory.place_table()).collect();
        assert_eq!(places.len() as u64, max);
        assert!(memory.place_table().is_none());
        drop(places);
        assert!(memory.place_table().is_some());
    }
}

//! Windows of the log: groups read together, and what they do to which pages.
//!
//! Changes are noted in parts, and a page always falls into the same part: whoever applies one part of each window, in their
//! order, sees all changes of its pages in the order of the log.

use hashbrown::HashMap;
use keel_base::Lsn;
use keel_runtime::fs::AlignedBuf;
use parking_lot::Mutex;

use crate::fault::{StoreError, StoreResult};
use crate::log::record::{Malformed, Record, Records};
use crate::log::scan::Batch;
use crate::page::touched::Touched;
use crate::store::UserRecord;

/// What a group does to one page.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    /// Tree and page.
    pub at: (u32, u32),
    /// Where in the batch its first record of the page begins, and where the last ends.
    pub from: u32,
    until: u32,
    /// Where the group begins and ends.
    group: u32,
    group_end: u32,
}

/// The changes of one page in a window, in the order of the log.
pub type Run<'c> = &'c [Change];

/// Groups of the log, and what they do to pages, in parts.
pub struct Window {
    /// The groups.
    pub batch: Batch,
    /// Changes by part, in the order of the log; each part is taken once.
    parts: Vec<Mutex<Vec<Change>>>,
    /// User records: end of their group, kind, first byte and length.
    users: Vec<(u32, u8, u32, u32)>,
    /// End of the last group in the stream.
    pub end: u64,
}

/// Pages of late changes whose numbers are at hand while changes are sorted.
const RECENT: usize = 4;

/// Bytes of a line of the processor's caches, and lines of a change that are fetched ahead.
const LINE: usize = 64;
const LINES_AHEAD: usize = 4;

#[inline]
fn prefetch(_address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(_address.cast())
    };
}

/// Memory of a window that is done, for one to come: it would be given back to the system and faulted in again.
pub struct Spare {
    /// For [`Scan::give_back`](crate::log::scan::Scan::give_back).
    pub memory: AlignedBuf,
    /// For [`Window::new`].
    pub changes: Vec<Vec<Change>>,
}

fn malformed(lsn: u64) -> StoreError {
    StoreError::Corrupt { file: "redo".into(), page: 0, what: format!("malformed group at {lsn}") }
}

impl Window {
    /// Finds the changes of a batch, in so many parts; `by_part` are empty vectors to use.
    pub fn new(batch: Batch, end: u64, parts: usize, mut by_part: Vec<Vec<Change>>) -> StoreResult<Window> {
        let mut window = Window { batch, parts: Vec::new(), users: Vec::new(), end };
        by_part.resize_with(parts, Vec::new);
        let mut of_group: Vec<Change> = Vec::new();
        for index in 0..window.batch.len() {
            window.note(index, &mut of_group)?;
            for change in of_group.drain(..) {
                by_part[part_of(change.at, parts)].push(change);
            }
        }
        window.parts = by_part.into_iter().map(Mutex::new).collect();
        Ok(window)
    }

    /// Notes which pages a group changes.
    fn note(&mut self, index: usize, of_group: &mut Vec<Change>) -> StoreResult<()> {
        let (lsn, bytes) = self.batch.group(index);
        let group = (lsn - self.batch.start()) as u32;
        let group_end = group + bytes.len() as u32;
        let mut records = Records::new(bytes);
        loop {
            let from = group + records.position() as u32;
            let Some(record) = records.next() else { return Ok(()) };
            let until = group + records.position() as u32;
            match record.map_err(|Malformed| malformed(lsn))? {
                Record::Page { at, .. } => match of_group.iter_mut().rev().find(|change| change.at == at) {
                    Some(change) => change.until = until,
                    None => of_group.push(Change { at, from, until, group, group_end }),
                },
                Record::User(kind, payload) => {
                    let len = payload.len() as u32;
                    self.users.push((group_end, kind, until - len, len));
                }
                Record::Start | Record::Durable(_) => {}
            }
        }
    }

    /// Hands user records on.
    pub fn replay(&self, replay: &mut dyn FnMut(&UserRecord<'_>)) {
        for (end, kind, at, len) in &self.users {
            let payload = &self.batch.bytes()[*at as usize..][..*len as usize];
            replay(&UserRecord { lsn: Lsn(self.batch.start() + u64::from(*end)), kind: *kind, payload });
        }
    }

    /// Takes the changes of a part into `sorted`: page by page in the order of files, those of a page in the order of the log.
    pub fn take_sorted(&self, part: usize, sorted: &mut Vec<Change>) {
        let mut changes = self.parts[part].lock();
        // A page changes many times in a window. So pages are sorted, not changes, which then have their places.
        let mut numbers: HashMap<(u32, u32), u32> = HashMap::new();
        let mut pages: Vec<((u32, u32), u32)> = Vec::new();
        let mut of_change: Vec<u32> = Vec::with_capacity(changes.len());
        // Those of one statement come to the same pages again and again: some numbers need not be looked up.
        let mut recent = [((u32::MAX, u32::MAX), 0); RECENT];
        for change in changes.iter() {
            let number = match recent.iter().find(|(at, _)| *at == change.at) {
                Some((_, number)) => *number,
                None => {
                    let number = *numbers.entry(change.at).or_insert_with(|| {
                        pages.push((change.at, 0));
                        pages.len() as u32 - 1
                    });
                    recent.rotate_right(1);
                    recent[0] = (change.at, number);
                    number
                }
            };
            pages[number as usize].1 += 1;
            of_change.push(number);
        }
        let mut order: Vec<u32> = (0..pages.len() as u32).collect();
        order.sort_unstable_by_key(|number| pages[*number as usize].0);
        let mut place = 0;
        for number in order {
            let count = &mut pages[number as usize].1;
            place += std::mem::replace(count, place);
        }
        sorted.clear();
        sorted.resize(changes.len(), Change::default());
        for (change, number) in changes.drain(..).zip(of_change) {
            let place = &mut pages[number as usize].1;
            sorted[*place as usize] = change;
            *place += 1;
        }
    }

    /// Its memory, once all parts are taken.
    pub fn into_spare(self) -> Spare {
        let changes = self.parts.into_iter().map(Mutex::into_inner).collect();
        Spare { memory: self.batch.into_memory(), changes }
    }

    /// End in the stream of the group of a change.
    pub fn end_of(&self, change: &Change) -> u64 {
        self.batch.start() + u64::from(change.group_end)
    }

    /// Start in the stream of the group of a change.
    pub fn start_of(&self, change: &Change) -> u64 {
        self.batch.start() + u64::from(change.group)
    }

    fn bytes_of(&self, change: &Change) -> &[u8] {
        &self.batch.bytes()[change.from as usize..change.until as usize]
    }

    fn records(&self, change: &Change) -> Records<'_> {
        Records::of_part(self.bytes_of(change))
    }

    /// Whether the first that the group does to the page is to write the whole of it.
    pub fn is_rewritten(&self, change: &Change) -> bool {
        matches!(self.records(change).next(), Some(Ok(Record::Page { change, .. })) if change.is_whole())
    }

    /// Has the processor fetch the records of a change, which lie anywhere in the window, while it works on others.
    pub fn prefetch(&self, change: &Change) {
        self.bytes_of(change).chunks(LINE).take(LINES_AHEAD).for_each(|line| prefetch(line.as_ptr()));
    }

    /// Does to the page what the group did to it; gives what that touched.
    pub fn apply(&self, change: &Change, bytes: &mut [u8]) -> StoreResult<Touched> {
        let mut touched = Touched::NONE;
        for record in self.records(change) {
            let record = record.map_err(|Malformed| malformed(self.start_of(change)))?;
            let Record::Page { at, change: what } = record else { continue };
            if at == change.at {
                let changed = what.apply(at, bytes).map_err(|_| StoreError::Corrupt {
                    file: crate::space::file_name(keel_base::TreeId(at.0)),
                    page: at.1,
                    what: format!("redo at {} does not fit: {what:?}", self.start_of(change)),
                })?;
                touched = touched.and(changed);
            }
        }
        Ok(touched)
    }
}

/// The part of a page: neighbours stay together.
fn part_of(at: (u32, u32), parts: usize) -> usize {
    (at.0.wrapping_mul(7).wrapping_add(at.1 >> 3)) as usize % parts
}

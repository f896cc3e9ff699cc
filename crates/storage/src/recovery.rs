//! Recovery: applies the log from the checkpoint on to pages that are older than it.
//!
//! The log is read window by window. The changes of a window are sorted by page, so that each page is read once in a window,
//! many at a time and in the order of the files; what is known to be newer than the window is not read at all. A page takes
//! a group if its LSN lies before the group's end. Pages are independent of each other here: one may leave memory with a
//! group whose other pages are still old. Files that are gone belong to dropped trees: their records are skipped. Applying
//! is idempotent, and the checkpoint stays until all is done: a crash in the middle only starts over.
//!
//! A page whose bytes are damaged is passed over and stays as it is: its table cannot be read there, others can. Only what
//! no tree can do without ends the start: undo pages and the registry.
//!
//! After a kill the kernel shows what no sync has covered, and a power cut may yet take it. So the log is synced before it is
//! read, and files whose pages were found to be as new as the log are synced before the checkpoint may pass it.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use keel_base::Lsn;

use crate::core::Core;
use crate::fault::{StoreError, StoreResult};
use crate::layout::PAGE;
use crate::log::record::{Malformed, Record, Records};
use crate::log::scan::{Batch, Scan};
use crate::page::touched::Touched;
use crate::page::{PageMut, PageRef};
use crate::registry::REGISTRY;
use crate::space::Space;
use crate::store::UserRecord;

/// Bytes of log whose changes are sorted together: a quarter of the pool within these bounds.
const WINDOW_MIN: usize = 1 << 20;
const WINDOW_MAX: usize = 64 << 20;
/// Pages read together at most.
const PREFETCH: usize = 256;
/// Damaged pages that are named one by one.
const DAMAGE_LINES_MAX: u64 = 20;
/// Pages whose LSN is remembered between windows.
const KNOWN_MAX: usize = 1 << 20;

/// What recovery did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recovered {
    /// Groups read.
    pub groups: u64,
    /// Bytes of log read.
    pub bytes: u64,
    /// Torn pages mended before.
    pub mended: u64,
}

/// A group that changes a page.
struct Change {
    /// Tree and page.
    at: (u32, u32),
    /// Index of the group in its batch.
    group: usize,
}

/// The changes of one page in a window, in the order of the log.
type Run<'c> = &'c [Change];

fn malformed(lsn: u64) -> impl Fn(Malformed) -> StoreError {
    move |_| StoreError::Corrupt { file: "redo".into(), page: 0, what: format!("malformed group at {lsn}") }
}

/// Applies the log from `checkpoint`; leaves `core.log` at its end.
pub fn recover(
    core: &Core,
    checkpoint: u64,
    replay: &mut dyn FnMut(&UserRecord<'_>),
) -> StoreResult<Recovered> {
    core.log.segments.sync()?;
    let window = (core.pool.len() * PAGE / 4).clamp(WINDOW_MIN, WINDOW_MAX);
    let mut scan = Scan::new(&core.log.segments, checkpoint);
    let mut recovery = Recovery { core, touched: BTreeMap::new(), known: HashMap::new(), damaged: 0 };
    let mut done = Recovered::default();
    loop {
        let batch = scan.batch(window)?;
        // What was read is on the device: pages that take it may be flushed.
        core.log.recovered_to(scan.position(), scan.last_crc(), scan.last_start());
        if batch.len() == 0 {
            recovery.sync_touched()?;
            return Ok(done);
        }
        recovery.apply(&batch, &changes(&batch, replay)?)?;
        done.groups += batch.len() as u64;
        done.bytes += scan.position() - batch.group(0).0;
    }
}

/// The changes of a window, sorted by page; hands user records to `replay`.
fn changes(batch: &Batch, replay: &mut dyn FnMut(&UserRecord<'_>)) -> StoreResult<Vec<Change>> {
    let mut all: Vec<Change> = Vec::with_capacity(batch.len() * 2);
    for index in 0..batch.len() {
        let (lsn, group) = batch.group(index);
        let first = all.len();
        for record in Records::new(group) {
            match record.map_err(malformed(lsn))? {
                Record::Page { at, .. } if all[first..].iter().all(|c| c.at != at) => {
                    all.push(Change { at, group: index });
                }
                Record::User(kind, payload) => {
                    replay(&UserRecord { lsn: Lsn(lsn + group.len() as u64), kind, payload });
                }
                _ => {}
            }
        }
    }
    all.sort_unstable_by_key(|c| (c.at, c.group));
    Ok(all)
}

struct Recovery<'c> {
    core: &'c Core,
    /// Files that the log names.
    touched: BTreeMap<u32, Arc<Space>>,
    /// LSNs of pages as they were last seen.
    known: HashMap<(u32, u32), u64>,
    /// Pages passed over.
    damaged: u64,
}

impl Recovery<'_> {
    /// Applies one window.
    fn apply(&mut self, batch: &Batch, changes: &[Change]) -> StoreResult<()> {
        let at_once = PREFETCH.min(self.core.pool.len() / 4);
        let mut wanted: Vec<(Arc<Space>, u32)> = Vec::with_capacity(at_once);
        let mut runs: Vec<Run<'_>> = Vec::with_capacity(at_once);
        for run in changes.chunk_by(|a, b| a.at == b.at) {
            let Some(space) = self.space_of(batch, run)? else { continue };
            wanted.push((space, run[0].at.1));
            runs.push(run);
            if wanted.len() == at_once {
                self.apply_runs(batch, &mut wanted, &mut runs)?;
            }
        }
        self.apply_runs(batch, &mut wanted, &mut runs)?;
        // Pages became dirty in their own order, not in the log's.
        self.core.log.with_dirty(|queue, _| queue.make_contiguous().sort_by_key(|e| e.first_redo));
        Ok(())
    }

    /// The file of a page that may be older than its changes.
    fn space_of(&mut self, batch: &Batch, run: Run<'_>) -> StoreResult<Option<Arc<Space>>> {
        let at = run[0].at;
        let Some(space) = self.core.space(at.0).filter(|space| !space.lost) else { return Ok(None) };
        if self.known.get(&at).is_some_and(|lsn| *lsn >= end_of(batch, &run[run.len() - 1])) {
            return Ok(None);
        }
        // The file's length may be lost where its pages' redo is not.
        space.grow_for(at.1)?;
        self.touched.entry(at.0).or_insert_with(|| space.clone());
        Ok(Some(space))
    }

    /// Reads these pages together and brings them up to the end of the window.
    fn apply_runs(
        &mut self,
        batch: &Batch,
        wanted: &mut Vec<(Arc<Space>, u32)>,
        runs: &mut Vec<Run<'_>>,
    ) -> StoreResult<()> {
        self.core.pool.read_together(wanted)?;
        for ((space, page), run) in wanted.drain(..).zip(runs.drain(..)) {
            let done = self.core.pool.latch_exclusive(&space, page).and_then(|frame| {
                let result = self.apply_run(batch, &space, frame, run);
                // SAFETY: latched above, and nobody else gives the latch up.
                unsafe { self.core.pool.unlatch_exclusive(frame) };
                result
            });
            let lsn = match done {
                Err(e @ StoreError::Corrupt { .. }) if space.id > REGISTRY => {
                    self.pass_over(&space, page, &e);
                    u64::MAX
                }
                done => done?,
            };
            if self.known.len() < KNOWN_MAX || self.known.contains_key(&run[0].at) {
                self.known.insert(run[0].at, lsn);
            }
        }
        Ok(())
    }

    /// Leaves a damaged page as it is on the device, where every reader meets the damage.
    fn pass_over(&mut self, space: &Space, page: u32, why: &StoreError) {
        self.core.pool.forget_page(space, page);
        self.damaged += 1;
        match self.damaged {
            ..=DAMAGE_LINES_MAX => eprintln!("keel: a damaged page is left out of recovery: {why}"),
            n if n == DAMAGE_LINES_MAX + 1 => eprintln!("keel: more damaged pages are left out of recovery"),
            _ => {}
        }
    }

    /// Applies what the latched page lacks; gives its LSN then.
    fn apply_run(&self, batch: &Batch, space: &Space, frame: u32, run: Run<'_>) -> StoreResult<u64> {
        // SAFETY: the caller holds the exclusive latch, and this is the only slice of the page meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.core.pool.bytes(frame), PAGE) };
        let before = PageRef::new(bytes).lsn();
        let lacking = &run[run.partition_point(|change| end_of(batch, change) <= before)..];
        if before == 0 && PageRef::new(bytes).is_zero() && !lacking.first().is_some_and(|c| begins(batch, c))
        {
            return Err(space.corrupt(run[0].at.1, "nothing is there"));
        }
        for change in lacking {
            let touched = apply_group(batch, change, bytes)?;
            self.core.pool.frame(frame).touch_bytes(touched);
        }
        let (Some(first), Some(last)) = (lacking.first(), lacking.last()) else { return Ok(before) };
        let (first_redo, end) = (batch.group(first.group).0, end_of(batch, last));
        self.core.log.with_dirty(|queue, _| {
            PageMut::new(bytes).set_lsn(end);
            self.core.pool.mark_dirty(frame, first_redo, queue);
        });
        Ok(end)
    }

    fn sync_touched(&self) -> StoreResult<()> {
        let mut spaces = self.touched.values().filter(|space| !space.is_dropped());
        spaces.try_for_each(|space| space.file.sync_data().map_err(|e| space.io_error(0, "sync", e)))
    }
}

/// End in the stream of the group of a change.
fn end_of(batch: &Batch, change: &Change) -> u64 {
    let (lsn, group) = batch.group(change.group);
    lsn + group.len() as u64
}

/// Whether the group gave the page all of its content.
fn begins(batch: &Batch, change: &Change) -> bool {
    let mut records = Records::new(batch.group(change.group).1);
    let first = records.find_map(|record| match record {
        Ok(Record::Page { at, change: what }) if at == change.at => Some(what.is_whole()),
        _ => None,
    });
    first == Some(true)
}

/// Does to the page what the group did to it; gives what that touched.
fn apply_group(batch: &Batch, change: &Change, bytes: &mut [u8]) -> StoreResult<Touched> {
    let (lsn, group) = batch.group(change.group);
    let mut touched = Touched::NONE;
    for record in Records::new(group) {
        let Record::Page { at, change: what } = record.map_err(malformed(lsn))? else { continue };
        if at == change.at {
            let changed = what.apply(at, bytes).map_err(|_| StoreError::Corrupt {
                file: crate::space::file_name(keel_base::TreeId(at.0)),
                page: at.1,
                what: format!("redo at {lsn} does not fit: {what:?}"),
            })?;
            touched = touched.and(changed);
        }
    }
    Ok(touched)
}

//! Recovery: applies the log from the checkpoint on to pages that are older than it.
//!
//! Groups are read window by window; the pages of a window that are not in memory are read together; then each group is
//! applied whole, under the latches of all its pages, so that no page leaves memory with half a group in it. A page takes
//! a group if its LSN lies before the group's end. Files that are gone belong to dropped trees: their records are skipped.
//! Applying is idempotent, and the checkpoint stays until all is done: a crash in the middle only starts over.
//!
//! After a kill the kernel shows what no sync has covered, and a power cut may yet take it. So the log is synced before it is
//! read, and files whose pages were found to be as new as the log are synced before the checkpoint may pass it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::buffer::Pin;
use crate::core::Core;
use crate::fault::{StoreError, StoreResult};
use crate::layout::PAGE;
use crate::log::record::{Malformed, Record, Records};
use crate::log::scan::Scan;
use crate::page::{PageMut, PageRef};
use crate::space::Space;
use crate::store::UserRecord;
use keel_base::Lsn;

/// Bytes of log whose pages are read together.
const WINDOW: usize = 1 << 20;
/// Pages read together at most.
const PREFETCH: usize = 256;

/// What recovery did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recovered {
    /// Groups read.
    pub groups: u64,
    /// Bytes of log read.
    pub bytes: u64,
}

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
    let mut done = Recovered::default();
    let mut touched = BTreeMap::new();
    let mut scan = Scan::new(&core.log.segments, checkpoint);
    loop {
        let batch = scan.batch(WINDOW)?;
        if batch.is_empty() {
            core.log.recovered_to(scan.position(), scan.last_crc(), scan.last_start());
            sync_touched(touched.values())?;
            return Ok(done);
        }
        // What was read is on the device: pages that take it may be flushed.
        core.log.recovered_to(scan.position(), scan.last_crc(), scan.last_start());
        read_ahead(core, &batch)?;
        for (lsn, group) in &batch {
            apply(core, *lsn, group, &mut touched, replay)?;
            done.groups += 1;
            done.bytes += group.len() as u64;
        }
    }
}

fn sync_touched<'s>(spaces: impl Iterator<Item = &'s Arc<Space>>) -> StoreResult<()> {
    spaces
        .filter(|space| !space.is_dropped())
        .try_for_each(|space| space.file.sync_data().map_err(|e| space.io_error(0, "sync", e)))
}

fn read_ahead(core: &Core, batch: &[(u64, Vec<u8>)]) -> StoreResult<()> {
    let limit = PREFETCH.min(core.pool.len() / 4);
    let mut wanted: Vec<(Arc<Space>, u32)> = Vec::new();
    for (lsn, group) in batch {
        for record in Records::new(group) {
            if let Record::Page { at, .. } = record.map_err(malformed(*lsn))?
                && !wanted.iter().any(|(s, p)| (s.id.0, *p) == at)
                && let Some(space) = core.space(at.0)
            {
                wanted.push((space, at.1));
            }
            if wanted.len() == limit {
                core.pool.prefetch(&wanted);
                return Ok(());
            }
        }
    }
    core.pool.prefetch(&wanted);
    Ok(())
}

/// A page of a group: where it is pinned, and whether it is older than the group.
struct Part {
    at: (u32, u32),
    pin: Pin,
    wants: bool,
}

fn apply(
    core: &Core,
    lsn: u64,
    group: &[u8],
    touched: &mut BTreeMap<u32, Arc<Space>>,
    replay: &mut dyn FnMut(&UserRecord<'_>),
) -> StoreResult<()> {
    let end = lsn + group.len() as u64;
    let mut parts: Vec<Part> = Vec::new();
    for record in Records::new(group) {
        match record.map_err(malformed(lsn))? {
            Record::Page { at, .. } if !parts.iter().any(|p| p.at == at) => {
                if let Some(space) = core.space(at.0) {
                    // The file's length may be lost where its pages' redo is not.
                    space.grow_for(at.1)?;
                    parts.push(Part { at, pin: core.pool.pin(&space, at.1)?, wants: false });
                    touched.entry(at.0).or_insert(space);
                }
            }
            Record::User(kind, payload) => replay(&UserRecord { lsn: Lsn(end), kind, payload }),
            _ => {}
        }
    }
    for part in &mut parts {
        core.pool.latch_pinned(&part.pin);
    }
    let result = apply_latched(core, lsn, end, group, &mut parts);
    for part in &parts {
        // SAFETY: latched above, and nobody else gives the latch up.
        unsafe { core.pool.unlatch_exclusive(part.pin.frame()) };
    }
    result
}

#[expect(clippy::mut_from_ref, reason = "the exclusive latch, not the borrow, is what excludes others")]
fn page_bytes<'a>(core: &'a Core, part: &'a Part) -> &'a mut [u8] {
    // SAFETY: `apply` holds the exclusive latch of each part, and the slices are used one at a time.
    unsafe { std::slice::from_raw_parts_mut(core.pool.bytes(part.pin.frame()), PAGE) }
}

fn apply_latched(core: &Core, lsn: u64, end: u64, group: &[u8], parts: &mut [Part]) -> StoreResult<()> {
    for part in parts.iter_mut() {
        part.wants = PageRef::new(page_bytes(core, part)).lsn() < end;
    }
    for record in Records::new(group) {
        let Record::Page { at, change } = record.map_err(malformed(lsn))? else { continue };
        if let Some(part) = parts.iter().find(|p| p.at == at && p.wants) {
            let refused = |_| StoreError::Corrupt {
                file: crate::space::file_name(keel_base::TreeId(at.0)),
                page: at.1,
                what: format!("redo at {lsn} does not fit: {change:?}"),
            };
            change.apply(at, page_bytes(core, part)).map_err(refused)?;
        }
    }
    core.log.with_dirty(|queue, _| {
        for part in parts.iter().filter(|p| p.wants) {
            PageMut::new(page_bytes(core, part)).set_lsn(end);
            core.pool.mark_dirty(part.pin.frame(), lsn, queue);
        }
    });
    Ok(())
}

//! Applying the log to copies of pages, as recovery does to pages.
//!
//! A window of the log is applied by several fibers, each to the pages of its part, many of which it reads and writes at
//! once; meanwhile the next window is read and taken apart. So there are two windows, and they fit into [`Limits::memory`].
//!
//! [`Limits::memory`]: super::Limits::memory

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use keel_base::TreeId;
use keel_runtime::fiber;
use keel_runtime::fs::AlignedBuf;
use keel_runtime::sync::Semaphore;
use keel_runtime::wait::WaitEvent;
use parking_lot::Mutex;

use super::files::{Wanted, identity_problem};
use super::log::{self, LogFacts};
use super::{Folder, Report};
use crate::doublewrite;
use crate::fault::{StoreError, StoreResult};
use crate::layout::PAGE;
use crate::log::FIRST_LSN;
use crate::log::scan::Scan;
use crate::log::segments::Segments;
use crate::page::{PageMut, PageRef};
use crate::redo_window::{Change, Window};
use crate::space::file_name;

/// Bytes of log applied at a time, at least and at most.
const WINDOW_MIN: usize = 1 << 20;
const WINDOW_MAX: usize = 256 << 20;
/// The part of the memory that a window takes; what is noted of its changes comes on top.
const WINDOW_SHARE: u64 = 3;
/// Pages that a fiber reads and writes at once.
const AT_ONCE: usize = 64;
/// Pages whose LSN a part remembers between windows.
const KNOWN_MAX: usize = 1 << 19;

/// The pages that one fiber at a time applies the log to.
#[derive(Default)]
struct Part {
    /// LSNs of pages as they were last seen; the highest of those to which nothing more can be applied.
    known: HashMap<(u32, u32), u64>,
    /// Changes of pages that cannot be read, by tree.
    lost: BTreeMap<u32, u64>,
}

/// What the fibers share.
struct Replay {
    folder: Folder,
    report: Arc<Report>,
    parts: Vec<Mutex<Part>>,
    failure: Mutex<Option<StoreError>>,
}

/// Brings pages up to the end of the log, in copies. Waits.
pub(super) fn replay(mut folder: Folder, report: &Arc<Report>) -> StoreResult<Folder> {
    let mended = take_mended(&folder, report)?;
    folder.log.mended = mended;
    let Some((checkpoint, segment_bytes)) = log::checkpoint(&folder.dir, report) else { return Ok(folder) };
    let segments = match Segments::open_for_reading(&folder.dir, segment_bytes) {
        Ok(segments) => segments,
        Err(e) => {
            report.damage("log", "redo", None, e.to_string());
            return Ok(folder);
        }
    };
    if let Err(e) = segments.check_row(checkpoint) {
        report.damage("log", "redo", None, e.to_string());
    }
    let count = folder.limits.readers.max(1);
    let window = (folder.limits.memory / WINDOW_SHARE) as usize;
    let window = window.clamp(WINDOW_MIN, WINDOW_MAX);
    let parts = (0..count).map(|_| Mutex::default()).collect();
    let replay = Arc::new(Replay { folder, report: report.clone(), parts, failure: Mutex::default() });
    let mut scan = Scan::new(&segments, checkpoint, window);
    let mut groups = 0;
    let mut applied = None;
    loop {
        let batch = scan.batch().inspect_err(|e| {
            report.damage("log", "redo", None, format!("{e}: what stands behind it is not applied"));
        });
        let batch = batch.ok().filter(|batch| batch.len() != 0);
        groups += batch.as_ref().map_or(0, |batch| batch.len() as u64);
        let next = batch.map(|batch| Window::new(batch, scan.position(), count, Vec::new()));
        if let Some(applied) = applied.take() {
            replay.wait(applied)?;
        }
        match next {
            None => break,
            Some(Ok(window)) => applied = Some(replay.start(window)),
            Some(Err(e)) => report.damage("log", "redo", None, e.to_string()),
        }
    }
    let replay = Arc::into_inner(replay).expect("all fibers have ended");
    replay.tell_lost();
    let mut folder = replay.folder;
    folder.log = LogFacts { present: true, checkpoint, end: scan.position(), groups, mended };
    // A crash may come before the first group of all.
    if groups == 0 && checkpoint != FIRST_LSN {
        let file = format!("redo.{}", checkpoint / segment_bytes);
        let why = match segments.file(checkpoint) {
            Some(_) => "no group begins there",
            None => "the file is missing",
        };
        let text = format!("the checkpoint is {checkpoint}, but {why}: changes may be lost");
        report.damage("log", &file, None, text);
    }
    if let Err(e) = log::look_behind(&segments, scan.position(), report) {
        report.note("log", "redo", None, format!("{e}: nobody knows what stands behind the end of the log"));
    }
    Ok(folder)
}

/// Lays pages that the doublewrite file makes whole over torn ones; says how many.
fn take_mended(folder: &Folder, report: &Report) -> StoreResult<u64> {
    let bytes = match doublewrite::read_all(&folder.dir) {
        Ok(bytes) => bytes,
        Err(e) => {
            let text = format!("{e}: the next start makes it anew");
            report.note("doublewrite", doublewrite::NAME, None, text);
            return Ok(0);
        }
    };
    let mut mended = 0;
    let mut page = AlignedBuf::new(PAGE);
    for patch in doublewrite::patches(&bytes) {
        let (tree, number) = (patch.tree, patch.page);
        if !folder.has(TreeId(tree)) {
            continue;
        }
        let error = folder.raw_page(tree, number, &mut page);
        if error.is_some() || PageRef::new(&page).crc_ok() || !patch.mend(&mut page) {
            continue;
        }
        folder.lay_over(&[((tree, number), &page)])?;
        let text = "torn; what the doublewrite file has of it makes it whole, as at the next start";
        report.note("torn", &file_name(TreeId(tree)), Some(number), text);
        mended += 1;
    }
    Ok(mended)
}

/// Lets go of what a fiber shares and says that it has ended; if it panicked, the replay has failed.
struct Ended {
    replay: Option<Arc<Replay>>,
    done: Arc<Semaphore>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(replay) = self.replay.take().filter(|_| std::thread::panicking()) {
            let why = "a page and its redo contradict each other; see the panic above".to_string();
            replay.failure.lock().get_or_insert(StoreError::Unusable(why));
        }
        self.done.release(1);
    }
}

impl Replay {
    /// Starts applying a window.
    fn start(self: &Arc<Self>, window: Window) -> Arc<Semaphore> {
        let (window, done) = (Arc::new(window), Arc::new(Semaphore::new(0)));
        for part in 0..self.parts.len() {
            let window = window.clone();
            let ended = Ended { replay: Some(self.clone()), done: done.clone() };
            fiber::spawn_on(part % keel_runtime::worker_count().max(1), move || {
                let Some(replay) = &ended.replay else { return };
                if let Err(e) = replay.apply_part(&window, part) {
                    replay.failure.lock().get_or_insert(e);
                }
            });
        }
        done
    }

    /// Waits until a window is applied.
    fn wait(&self, done: Arc<Semaphore>) -> StoreResult<()> {
        done.acquire(self.parts.len() as u64, WaitEvent::PageRead);
        self.failure.lock().take().map_or(Ok(()), Err)
    }

    fn apply_part(&self, window: &Window, number: usize) -> StoreResult<()> {
        let mut changes = Vec::new();
        window.take_sorted(number, &mut changes);
        let mut part = std::mem::take(&mut *self.parts[number].lock());
        let mut buffer = AlignedBuf::new(AT_ONCE * PAGE);
        let mut runs = Vec::with_capacity(AT_ONCE);
        let mut result = Ok(());
        for run in changes.chunk_by(|a, b| a.at == b.at) {
            let end = window.end_of(&run[run.len() - 1]);
            let is_known = part.known.get(&run[0].at).is_some_and(|lsn| *lsn >= end);
            if is_known || !self.folder.has(TreeId(run[0].at.0)) {
                continue;
            }
            runs.push(run);
            if runs.len() == AT_ONCE {
                result = result.and_then(|()| self.apply_runs(window, &mut part, &runs, &mut buffer));
                runs.clear();
            }
        }
        result = result.and_then(|()| self.apply_runs(window, &mut part, &runs, &mut buffer));
        *self.parts[number].lock() = part;
        result
    }

    /// Reads these pages together, brings them up to the end of the window and keeps those that changed.
    fn apply_runs(
        &self,
        window: &Window,
        part: &mut Part,
        runs: &[&[Change]],
        buffer: &mut AlignedBuf,
    ) -> StoreResult<()> {
        let pages = buffer.chunks_exact_mut(PAGE);
        let wanted = runs.iter().zip(pages);
        let mut wanted: Vec<Wanted<'_>> =
            wanted.map(|(run, bytes)| Wanted { at: run[0].at, bytes, error: None, is_copy: false }).collect();
        self.folder.read_scattered(&mut wanted);
        let mut changed = Vec::with_capacity(wanted.len());
        for (run, page) in runs.iter().zip(&mut wanted) {
            let at = page.at;
            let Some(lacking) = lacking(window, run, page) else {
                *part.lost.entry(at.0).or_default() += run.len() as u64;
                continue;
            };
            let lsn = match replay_page(window, lacking, page) {
                Ok(false) => PageRef::new(page.bytes).lsn(),
                Ok(true) => {
                    changed.push((at, &*page.bytes));
                    PageRef::new(page.bytes).lsn()
                }
                Err(e) => {
                    self.report.damage("log", &file_name(TreeId(at.0)), Some(at.1), e.to_string());
                    u64::MAX
                }
            };
            if part.known.len() < KNOWN_MAX || part.known.contains_key(&at) {
                part.known.insert(at, lsn);
            }
        }
        self.folder.lay_over(&changed)?;
        fiber::tick();
        Ok(())
    }

    fn tell_lost(&self) {
        let mut lost: BTreeMap<u32, u64> = BTreeMap::new();
        for part in &self.parts {
            for (tree, changes) in &part.lock().lost {
                *lost.entry(*tree).or_default() += changes;
            }
        }
        for (tree, changes) in lost {
            let text =
                format!("{changes} changes in the log belong to pages of this file that cannot be read");
            self.report.damage("log", &file_name(TreeId(tree)), None, text);
        }
    }
}

/// The changes that the page lacks; none where it cannot be read and none of them writes the whole of it.
fn lacking<'c>(window: &Window, run: &'c [Change], page: &mut Wanted<'_>) -> Option<&'c [Change]> {
    let whole = PageRef::new(page.bytes);
    let begins = || whole.is_zero() && run.first().is_some_and(|first| window.is_rewritten(first));
    let fine = page.error.is_none()
        && (page.is_copy || begins() || identity_problem(whole, page.at.0, page.at.1).is_none());
    if fine {
        let lsn = whole.lsn();
        return Some(&run[run.partition_point(|change| window.end_of(change) <= lsn)..]);
    }
    // A change that writes the whole page needs nothing of what was there.
    let first = run.iter().position(|change| window.is_rewritten(change))?;
    page.bytes.fill(0);
    Some(&run[first..])
}

/// Applies what the page lacks; false where it lacks nothing.
fn replay_page(window: &Window, lacking: &[Change], page: &mut Wanted<'_>) -> StoreResult<bool> {
    let Some(last) = lacking.last() else { return Ok(false) };
    let before = PageRef::new(page.bytes);
    if !page.is_copy
        && before.is_node()
        && let Some(what) = before.problem()
    {
        let what = format!("{what}: the log is not applied");
        return Err(StoreError::Corrupt { file: file_name(TreeId(last.at.0)), page: last.at.1, what });
    }
    lacking.iter().try_for_each(|change| window.apply(change, page.bytes).map(|_| ()))?;
    let mut sealed = PageMut::new(page.bytes);
    sealed.set_lsn(window.end_of(last));
    sealed.seal();
    Ok(true)
}

//! Recovery: applies the log from the checkpoint on to pages that are older than it.
//!
//! Three stages run beside each other. The *reader* reads the log ahead, a window at a time in several requests. The *parser*
//! checks the chain of groups where they lie and notes which bytes change which page, in as many parts as there are
//! appliers; a page always falls into the same part. Each *applier* sorts its part of a window by page, has pages read many
//! at a time and in the order of the files, and applies what they lack. What is known to be newer than the window is not
//! read, nor are pages that the log writes anew: what lay there does not matter. Between the stages lies one window at
//! most: two that are read, five with about as much again for their changes, and the changes of one that are being sorted.
//! With the memory of three windows that are done, which serves the next, this is what recovery takes beside the pool: eight
//! tenths of the pool at most.
//!
//! A page takes a group if its LSN lies before the group's end. Pages are independent of each other here: one may leave
//! memory with a group whose other pages are still old. Files that are gone belong to dropped trees: their records are
//! skipped. Applying is idempotent, and the checkpoint stays until all is done: a crash in the middle only starts over.
//!
//! A page whose bytes are damaged begins anew where a later change writes the whole of it. Else it is passed over and stays as
//! it is: its table cannot be read there, others can. Only what no tree can do without ends the start: undo pages and the registry.
//!
//! After a kill the kernel shows what no sync has covered, and a power cut may yet take it. So the log is synced before it is
//! read, and files whose pages were found to be as new as the log are synced before the checkpoint may pass it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hashbrown::HashMap;
use keel_runtime::console;
use keel_runtime::fiber;
use keel_runtime::sync::{Receiver, Semaphore, Sender, channel};
use keel_runtime::wait::WaitEvent;
use parking_lot::Mutex;

use crate::core::Core;
use crate::fault::{StoreError, StoreResult};
use crate::layout::PAGE;
use crate::log::scan::{Scan, read_ahead};
use crate::own_trees::REGISTRY;
use crate::page::{PageMut, PageRef};
use crate::redo_window::{Change, Run, Spare, Window};
use crate::space::Space;
use crate::store::UserRecord;

/// Bytes of log whose changes are sorted together: a part of the pool within these bounds.
const WINDOW_MIN: usize = 1 << 20;
const WINDOW_MAX: usize = 16 << 20;
/// The part of the pool that a window takes.
const WINDOW_SHARE: usize = 20;
/// Pages read together at most by one applier.
const PREFETCH: usize = 128;
/// Damaged pages that are named one by one.
const DAMAGE_LINES_MAX: u64 = 20;
/// Changes whose records are fetched ahead.
const CHANGES_AHEAD: usize = 12;
/// Pages whose LSN an applier remembers between windows, and the same of all appliers for each frame of the pool.
const KNOWN_MAX: usize = 1 << 19;
const KNOWN_FOR_FRAME: usize = 8;
/// What stands for the LSN of a page that was passed over.
const DAMAGED: u64 = u64::MAX;
/// Windows at most whose memory waits for the parser.
const SPARES: usize = 1;
/// Appliers: while one waits for pages another has work.
const APPLIERS_PER_WORKER: usize = 2;

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

/// Applies the log from `checkpoint`; leaves `core.log` at its end. Waits.
pub fn recover(
    core: &Arc<Core>,
    checkpoint: u64,
    replay: &mut dyn FnMut(&UserRecord<'_>),
) -> StoreResult<Recovered> {
    core.log.segments.sync()?;
    let workers = keel_runtime::worker_count().max(1);
    let (spares, again) = channel(SPARES);
    let appliers = Appliers::start(core, workers * APPLIERS_PER_WORKER, workers, &spares);
    let windows = start_parser(core, checkpoint, appliers.parts(), again);
    let mut done = Recovered::default();
    let mut result = Ok(());
    while let Some(window) = windows.recv() {
        result = window.and_then(|window| {
            done.groups += window.batch.len() as u64;
            done.bytes += window.end - window.batch.start();
            window.replay(replay);
            appliers.give(window)
        });
        if result.is_err() {
            break;
        }
    }
    drop(windows);
    let applied = appliers.finish();
    result.and(applied)?;
    // Pages became dirty in their own order, not in the log's.
    core.log.with_dirty(|queue, _| queue.make_contiguous().sort_by_key(|e| e.first_redo));
    Ok(done)
}

/// Starts the reader and the parser; gives windows until the end of the log.
fn start_parser(
    core: &Arc<Core>,
    checkpoint: u64,
    parts: usize,
    spares: Receiver<Spare>,
) -> Receiver<StoreResult<Window>> {
    let bytes = (core.pool.len() / WINDOW_SHARE * PAGE).clamp(WINDOW_MIN, WINDOW_MAX);
    let (sender, receiver) = channel(1);
    let core = core.clone();
    fiber::spawn_service("redo parser", move || {
        let mut scan = Scan::ahead(checkpoint, read_ahead(&core, checkpoint, bytes));
        loop {
            let window = next_window(&mut scan, parts, spares.try_recv());
            // What was read is on the device: pages that take it may be flushed.
            core.log.recovered_to(scan.position(), scan.last_crc(), scan.last_start());
            let last = match &window {
                Ok(window) if window.batch.len() == 0 => return,
                Ok(_) => false,
                Err(_) => true,
            };
            if sender.send(window).is_err() || last {
                return;
            }
        }
    });
    receiver
}

fn next_window(scan: &mut Scan<'_>, parts: usize, spare: Option<Spare>) -> StoreResult<Window> {
    let changes = spare.map(|Spare { memory, changes }| {
        scan.give_back(memory);
        changes
    });
    Window::new(scan.batch()?, scan.position(), parts, changes.unwrap_or_default())
}

/// The appliers, each with the windows that wait for it.
struct Appliers {
    windows: Vec<Sender<Arc<Window>>>,
    ended: Arc<Semaphore>,
    failure: Arc<Mutex<Option<StoreError>>>,
}

/// Pages that were passed over.
type Damaged = Arc<AtomicU64>;

impl Appliers {
    fn start(core: &Arc<Core>, parts: usize, workers: usize, spares: &Sender<Spare>) -> Appliers {
        let ended = Arc::new(Semaphore::new(0));
        let failure: Arc<Mutex<Option<StoreError>>> = Arc::default();
        let damaged = Damaged::default();
        let at_once = PREFETCH.min(core.pool.len() / 4 / parts).max(1);
        let known_max = KNOWN_MAX.min(core.pool.len() * KNOWN_FOR_FRAME / parts);
        let mut windows = Vec::with_capacity(parts);
        for part in 0..parts {
            let (sender, receiver) = channel::<Arc<Window>>(1);
            windows.push(sender);
            let (core, ended, failure) = (core.clone(), ended.clone(), failure.clone());
            let (damaged, spares) = (damaged.clone(), spares.clone());
            fiber::spawn_on(part % workers, move || {
                let _ended = Ended { ended: &ended, failure: &failure };
                let (touched, known) = (BTreeMap::new(), HashMap::new());
                let applier = Applier { core: &core, at_once, touched, known, known_max, damaged };
                if let Err(e) = applier.run(part, &receiver, &spares) {
                    failure.lock().get_or_insert(e);
                }
            });
        }
        Appliers { windows, ended, failure }
    }

    fn parts(&self) -> usize {
        self.windows.len()
    }

    /// Hands a window to all; waits where one is behind.
    fn give(&self, window: Window) -> StoreResult<()> {
        let window = Arc::new(window);
        for sender in &self.windows {
            if sender.send(window.clone()).is_err() {
                break;
            }
        }
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    /// Waits until all is applied and files are synced.
    fn finish(self) -> StoreResult<()> {
        let count = self.windows.len() as u64;
        drop(self.windows);
        self.ended.acquire(count, WaitEvent::PageRead);
        self.failure.lock().take().map_or(Ok(()), Err)
    }
}

/// Says that an applier has ended, and if it panicked, that recovery has failed.
struct Ended<'e> {
    ended: &'e Semaphore,
    failure: &'e Mutex<Option<StoreError>>,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = "a page and its redo contradict each other; see the panic above".to_string();
            self.failure.lock().get_or_insert(StoreError::Unusable(why));
        }
        self.ended.release(1);
    }
}

/// Applies one part of each window.
struct Applier<'c> {
    core: &'c Core,
    /// Pages read together.
    at_once: usize,
    /// Files that the log names.
    touched: BTreeMap<u32, Arc<Space>>,
    /// LSNs of pages as they were last seen.
    known: HashMap<(u32, u32), u64>,
    /// How many at most.
    known_max: usize,
    damaged: Damaged,
}

impl Applier<'_> {
    fn run(
        mut self,
        part: usize,
        windows: &Receiver<Arc<Window>>,
        spares: &Sender<Spare>,
    ) -> StoreResult<()> {
        let mut changes = Vec::new();
        while let Some(window) = windows.recv() {
            window.take_sorted(part, &mut changes);
            self.apply(&window, &changes)?;
            // Whoever is the last to need the window gives its memory on; where there is enough, it is freed.
            if let Some(window) = Arc::into_inner(window) {
                let _ = spares.try_send(window.into_spare());
            }
        }
        let mut spaces = self.touched.values().filter(|space| !space.is_dropped());
        spaces.try_for_each(|space| space.file.sync_data().map_err(|e| space.io_error(0, "sync", e)))
    }

    /// Applies its part of one window.
    fn apply(&mut self, window: &Window, changes: &[Change]) -> StoreResult<()> {
        let mut wanted: Vec<(Arc<Space>, u32)> = Vec::with_capacity(self.at_once);
        let mut runs: Vec<Run<'_>> = Vec::with_capacity(self.at_once);
        for run in changes.chunk_by(|a, b| a.at == b.at) {
            let Some(space) = self.space_of(window, run)? else { continue };
            wanted.push((space, run[0].at.1));
            runs.push(run);
            if wanted.len() == self.at_once {
                self.apply_runs(window, &mut wanted, &mut runs)?;
            }
        }
        self.apply_runs(window, &mut wanted, &mut runs)
    }

    /// The file of a page that may be older than its changes.
    fn space_of(&mut self, window: &Window, run: Run<'_>) -> StoreResult<Option<Arc<Space>>> {
        let at = run[0].at;
        if let Some(lsn) = self.known.get(&at)
            && *lsn >= window.end_of(&run[run.len() - 1])
            && (*lsn != DAMAGED || first_rewrite(window, run).is_none())
        {
            return Ok(None);
        }
        let space = match self.touched.get(&at.0) {
            Some(space) => space.clone(),
            None => {
                let Some(space) = self.core.space(at.0).filter(|space| !space.lost) else { return Ok(None) };
                // A process that was killed may have written pages that are not synced.
                space.file.note_unsynced();
                self.touched.insert(at.0, space.clone());
                space
            }
        };
        // The file's length may be lost where its pages' redo is not.
        space.grow_for(at.1)?;
        Ok(Some(space))
    }

    /// Reads these pages together and brings them up to the end of the window.
    fn apply_runs(
        &mut self,
        window: &Window,
        wanted: &mut Vec<(Arc<Space>, u32)>,
        runs: &mut Vec<Run<'_>>,
    ) -> StoreResult<()> {
        let read = wanted.iter().zip(runs.iter()).filter(|(_, run)| !window.is_rewritten(&run[0]));
        self.core.pool.read_together(read.map(|(page, _)| page))?;
        for (number, ((space, page), run)) in wanted.drain(..).zip(runs.iter()).enumerate() {
            if let Some(next) = runs.get(number + 1) {
                next.iter().take(CHANGES_AHEAD).for_each(|change| window.prefetch(change));
            }
            let done = self.bring_up(window, &space, page, run);
            let done = done.or_else(|e| match (&e, first_rewrite(window, run)) {
                (StoreError::Corrupt { .. }, Some(first)) => {
                    self.core.pool.forget_page(&space, page);
                    self.bring_up(window, &space, page, &run[first..])
                }
                _ => Err(e),
            });
            let lsn = match done {
                Err(e @ StoreError::Corrupt { .. }) if space.id > REGISTRY => {
                    self.pass_over(&space, page, &e);
                    DAMAGED
                }
                done => done?,
            };
            if self.known.len() < self.known_max || self.known.contains_key(&run[0].at) {
                self.known.insert(run[0].at, lsn);
            }
        }
        runs.clear();
        fiber::tick();
        Ok(())
    }

    /// Brings one page up to the end of the window; gives its LSN then. Where the first change writes the whole page, nothing of
    /// what is there is needed.
    fn bring_up(&self, window: &Window, space: &Space, page: u32, run: Run<'_>) -> StoreResult<u64> {
        let pool = &self.core.pool;
        let fresh = window.is_rewritten(&run[0]).then(|| pool.pin_fresh(space, page)).transpose()?;
        let frame = match &fresh {
            Some(pin) => pool.latch_pinned(pin),
            None => pool.latch_exclusive(space, page)?,
        };
        let result = self.apply_run(window, space, frame, run);
        // SAFETY: latched above, and nobody else gives the latch up.
        unsafe { pool.unlatch_exclusive(frame) };
        result
    }

    /// Leaves a damaged page as it is on the device, where every reader meets the damage.
    fn pass_over(&self, space: &Space, page: u32, why: &StoreError) {
        self.core.pool.forget_page(space, page);
        match self.damaged.fetch_add(1, Relaxed) {
            0..DAMAGE_LINES_MAX => console::error(format_args!("recovery skips a damaged page: {why}")),
            DAMAGE_LINES_MAX => console::error("recovery skips more damaged pages, which are not listed"),
            _ => {}
        }
    }

    /// Applies what the latched page lacks; gives its LSN then.
    fn apply_run(&self, window: &Window, space: &Space, frame: u32, run: Run<'_>) -> StoreResult<u64> {
        // SAFETY: the caller holds the exclusive latch, and this is the only slice of the page meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.core.pool.bytes(frame), PAGE) };
        let before = PageRef::new(bytes).lsn();
        let lacking = &run[run.partition_point(|change| window.end_of(change) <= before)..];
        let begins = |first: &Change| window.is_rewritten(first);
        if before == 0 && PageRef::new(bytes).is_zero() && !lacking.first().is_some_and(begins) {
            return Err(space.corrupt(run[0].at.1, "nothing is there"));
        }
        for (number, change) in lacking.iter().enumerate() {
            if let Some(ahead) = lacking.get(number + CHANGES_AHEAD) {
                window.prefetch(ahead);
            }
            let touched = window.apply(change, bytes)?;
            self.core.pool.frame(frame).touch_bytes(touched);
        }
        let (Some(first), Some(last)) = (lacking.first(), lacking.last()) else { return Ok(before) };
        let (first_redo, end) = (window.start_of(first), window.end_of(last));
        self.core.log.with_dirty(|queue, _| {
            PageMut::new(bytes).set_lsn(end);
            self.core.pool.mark_dirty(frame, first_redo, queue);
        });
        Ok(end)
    }
}

/// The first of these changes that writes the whole of the page.
fn first_rewrite(window: &Window, run: Run<'_>) -> Option<usize> {
    run.iter().position(|change| window.is_rewritten(change))
}

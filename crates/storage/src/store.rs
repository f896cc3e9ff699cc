//! The physical store: trees of pages over files, changed through mini-transactions, made durable by the redo log.
//!
//! The data folder: `keel.lock`, `redo.head` (the checkpoint; its existence makes the folder a store), `redo.<n>`,
//! `doublewrite.kd`, and in `trees/` one file per tree and `undo.kt`. Three services run beside the callers: the log's
//! writer, the flusher, and the housekeeper of log files.
//!
//! Methods that wait say so; call those with no latch held. A crash at any point leaves a folder that [`Store::open`]
//! brings to the state after some prefix of the appended mini-transactions, which includes every durable one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hashbrown::HashMap;
use keel_base::{Lsn, PageNo, TreeId};
use keel_runtime::fs::{self, FileLock};
use keel_runtime::wait::WaitEvent;
use keel_runtime::{fiber, rand, time};
use parking_lot::RwLock;

pub use crate::alloc::Need;
use crate::alloc::Spare;
use crate::buffer::{Pin, Pool, Shared};
use crate::core::Core;
use crate::doublewrite::Doublewrite;
use crate::fault::{StoreError, StoreResult};
use crate::flush::{FlushState, Flusher};
use crate::layout::{self, CHAIN_ROOM, HEADER, PAGE};
use crate::log::behind::look_behind;
use crate::log::head::{self, Head};
use crate::log::segments::{BLOCK, Segments};
use crate::log::{FIRST_LSN, Log, run_writer};
use crate::mtr::Mtr;
use crate::open_files::OpenFiles;
use crate::recovery::{Recovered, recover};
use crate::resize::{Resize, frames_of};
use crate::shrink::{Cut, CutDone};
use crate::space::{Space, is_temporary_file, tree_of};
use crate::tree::Tree;
use crate::undo_ahead::UndoAhead;

/// When a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After its log is durable.
    Commit,
    /// After its log is handed to the operating system; synced once a second.
    WriteEachCommit,
    /// At once; written and synced once a second.
    Lazy,
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// The data folder, created if missing.
    pub dir: PathBuf,
    /// Bytes of page frames.
    pub pool_bytes: u64,
    /// Bytes up to which the pool may grow while it is in use: address space, not memory.
    pub pool_bytes_max: u64,
    /// Bytes of redo log before writers wait for page flushing.
    pub redo_capacity_bytes: u64,
    /// Bytes of redo that may wait in memory to be written before writers wait.
    pub log_buffer_bytes: u64,
    /// Bytes of one redo segment file.
    pub segment_bytes: u64,
    /// Whether pages pass the doublewrite file.
    pub doublewrite: bool,
    /// When commits are acknowledged.
    pub durability: Durability,
    /// Whether data files bypass the page cache.
    pub direct_io: bool,
    /// Files of trees that are open at once.
    pub tree_files_max: usize,
}

impl StoreConfig {
    /// Log files that may be open at once: what the capacity holds, one that is written to and one made ahead.
    pub fn log_files_max(&self) -> u64 {
        self.redo_capacity_bytes / self.segment_bytes.max(1) + 2
    }

    /// Defaults for `dir`: 128 MiB pool, 1 GiB of redo, durable commits.
    pub fn new(dir: impl Into<PathBuf>) -> StoreConfig {
        StoreConfig {
            dir: dir.into(),
            pool_bytes: 128 << 20,
            pool_bytes_max: 0,
            redo_capacity_bytes: 1 << 30,
            log_buffer_bytes: crate::log::BUFFERED_MAX,
            segment_bytes: 64 << 20,
            doublewrite: true,
            durability: Durability::Commit,
            direct_io: true,
            tree_files_max: 400,
        }
    }
}

/// An opaque record of the layer above, found in the log at recovery.
#[derive(Debug)]
pub struct UserRecord<'a> {
    /// End of the mini-transaction that carried it.
    pub lsn: Lsn,
    /// The writer's kind.
    pub kind: u8,
    /// The writer's bytes.
    pub payload: &'a [u8],
}

/// Counters of a store; monotone unless said otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub struct StoreStatus {
    /// Frames of the pool (gauge).
    pub pages_total: u64,
    /// Frames never used or given back (gauge).
    pub pages_free: u64,
    /// Frames newer than the file (gauge).
    pub pages_dirty: u64,
    /// Frames beyond the end of a pool that shrank whose pages are still pinned (gauge).
    pub pages_beyond: u64,
    /// Page accesses.
    pub read_requests: u64,
    /// Pages read from files.
    pub reads: u64,
    /// Those of them that were read ahead of a scan.
    pub reads_ahead: u64,
    /// Reads that the device has not answered (gauge).
    pub reads_open: u64,
    /// Pages made anew.
    pub creates: u64,
    /// Pages written to files.
    pub writes: u64,
    /// Those of them that were written for want of frames.
    pub writes_for_frames: u64,
    /// Pages that are being written (gauge).
    pub writes_open: u64,
    /// Bytes written to files of pages.
    pub page_bytes: u64,
    /// Bytes written to the doublewrite file.
    pub doublewrite_bytes: u64,
    /// Waits for a free frame.
    pub free_waits: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Syncs of data files.
    pub data_syncs: u64,
    /// Writes of the log, each one sync under full durability.
    pub log_writes: u64,
    /// Bytes appended to the log.
    pub log_bytes: u64,
    /// Mini-transactions appended.
    pub log_requests: u64,
    /// Waits for log space.
    pub log_waits: u64,
    /// End of the log (gauge).
    pub lsn: u64,
    /// Durable end of the log (gauge).
    pub durable_lsn: u64,
    /// Pages hold everything before it (gauge).
    pub flushed_lsn: u64,
    /// Where recovery would start (gauge).
    pub checkpoint_lsn: u64,
    /// Bytes of redo that recovery may have to read at most (gauge).
    pub redo_capacity: u64,
    /// Batches through the doublewrite file.
    pub doublewrite_batches: u64,
    /// Pages through the doublewrite file.
    pub doublewrite_pages: u64,
    /// Files of trees that are open (gauge).
    pub files_open: u64,
    /// Files of trees that were opened.
    pub files_opened: u64,
}

/// A page kept resident while this lives; holds no latch.
pub struct PinnedPage(pub(crate) Pin);

/// An undo page, latched shared.
pub struct UndoRead<'s> {
    latch: Shared<'s>,
}

impl UndoRead<'_> {
    /// Bytes in use, from the start of the page's data area.
    pub fn bytes(&self) -> &[u8] {
        let page = self.latch.page();
        &page.bytes()[HEADER..HEADER + page.heap()]
    }

    /// The next page of the chain, as set by the owner.
    pub fn next(&self) -> Option<PageNo> {
        Some(self.latch.page().right()).filter(|&p| p != 0).map(PageNo)
    }
}

/// Room for one new undo page, got before any latch is taken.
pub struct UndoSpare(pub(crate) Spare);

/// First page of the undo file: formatted at creation, the owner's directory of segments.
pub const UNDO_DIRECTORY: PageNo = PageNo(layout::ROOT);
/// Bytes of an undo page's data area.
pub const UNDO_CAPACITY: usize = CHAIN_ROOM;
/// The undo file.
const UNDO: TreeId = TreeId(0);
/// Fewest frames a pool can work with.
const FRAMES_MIN: u64 = 64;
/// How often the housekeeper looks.
const HOUSEKEEPING: Duration = Duration::from_millis(500);
/// How often in a row it may fail.
const HOUSEKEEPING_TRIES_MAX: u32 = 20;
/// Its pause on a full disk, whoever asks.
const HOUSEKEEPING_FULL: Duration = Duration::from_millis(100);
/// How long a clean stop waits for room on the disk.
const SHUTDOWN_FULL_MAX: Duration = Duration::from_secs(20);

/// The store.
pub struct Store {
    core: Arc<Core>,
    trees: RwLock<HashMap<TreeId, Arc<Tree>>>,
    tree_dir: PathBuf,
    direct: bool,
    flush: Arc<FlushState>,
    housekeeper: Arc<Housekeeper>,
    /// What recovery did at open.
    pub recovered: Recovered,
    _locks: (FileLock, Option<FileLock>),
}

/// Makes log files ahead of the writer and reuses those behind the checkpoint.
#[derive(Default)]
struct Housekeeper {
    stop: AtomicBool,
    stopped: AtomicBool,
}

impl Housekeeper {
    fn run(&self, core: &Core, flush: &FlushState) {
        let log = &core.log;
        log.housekeeper.serve(fiber::current());
        let mut failures = 0;
        while !self.stop.load(SeqCst) && !log.is_failed() {
            let provided = provide_files(log);
            log.note_files();
            core.pool.reclaim_strays(core);
            match provided {
                Ok(()) => {
                    failures = 0;
                    if !log.housekeeper.take_request() {
                        fiber::park_until(WaitEvent::Idle, time::now() + HOUSEKEEPING);
                    }
                }
                // The files that are there must do: those behind a checkpoint are used again.
                Err(StoreError::DiskFull { .. }) => {
                    flush.request(core, log.appended());
                    fiber::sleep(HOUSEKEEPING_FULL);
                }
                Err(e) if failures == HOUSEKEEPING_TRIES_MAX => {
                    log.fail(format!("log files cannot be made: {e}"));
                }
                Err(_) => {
                    failures += 1;
                    fiber::sleep(HOUSEKEEPING);
                }
            }
        }
        self.stopped.store(true, SeqCst);
    }

    fn stop(&self, log: &Log) {
        self.stop.store(true, SeqCst);
        while !self.stopped.load(SeqCst) {
            log.housekeeper.request();
            fiber::sleep(Duration::from_millis(1));
        }
    }
}

/// Reuses log files behind the checkpoint, and makes one ahead if there is none.
fn provide_files(log: &Log) -> StoreResult<()> {
    let keep = (log.capacity() / log.segments.bytes) as usize + 2;
    let recycled = log.segments.recycle(log.checkpoint(), keep);
    let recycled = recycled.and_then(|()| log.segments.trim(|| log.appended(), keep));
    if log.segments.end(log.appended()) < log.appended() + log.segments.bytes {
        log.segments.provide(log.appended(), 1)?;
    }
    recycled
}

fn take_lock(dir: &Path) -> StoreResult<FileLock> {
    fs::lock_file(&dir.join("keel.lock")).map_err(|e| lock_error(dir, "keel.lock", e))
}

/// Locks `redo.head`, without which there is no store: removing `keel.lock` does not let a second server in.
fn take_head_lock(dir: &Path) -> StoreResult<Option<FileLock>> {
    fs::lock_existing(&dir.join(head::NAME)).map_err(|e| lock_error(dir, head::NAME, e))
}

fn lock_error(dir: &Path, name: &str, e: std::io::Error) -> StoreError {
    match e.kind() {
        std::io::ErrorKind::WouldBlock => {
            StoreError::Unusable(format!("{} is in use by another server", dir.display()))
        }
        _ => StoreError::io(name, 0, "lock", e),
    }
}

/// Whether names of the tree folder are those of trees that only a store has: the undo log is made before it is one.
pub(crate) fn name_trees(names: &[String]) -> bool {
    names.iter().filter_map(|name| tree_of(name)).any(|id| id != UNDO)
}

/// Makes the files of a new store; `redo.head` last, so that a crash leaves a folder that is made again.
fn create_store(config: &StoreConfig, files: &Arc<OpenFiles>, tree_dir: &Path) -> StoreResult<()> {
    fs::create_dir_all(tree_dir).map_err(|e| StoreError::io("trees", 0, "create", e))?;
    let there = fs::read_dir(tree_dir).map_err(|e| StoreError::io("trees", 0, "list", e))?;
    if name_trees(&there) {
        let why =
            format!("{} has lost redo.head, without which its trees cannot be read", config.dir.display());
        return Err(StoreError::Unusable(why));
    }
    fs::sync_dir(&config.dir).map_err(|e| StoreError::io("data folder", 0, "sync", e))?;
    let segment_bytes = config.segment_bytes.next_multiple_of(BLOCK as u64);
    Segments::open(&config.dir, segment_bytes, config.direct_io)?.provide(FIRST_LSN, 1)?;
    Space::create(files, tree_dir, UNDO, config.direct_io, FIRST_LSN)?;
    Head::create(&config.dir, FIRST_LSN, segment_bytes)
}

/// Opens every tree file; what a crash left unfinished is removed.
fn open_spaces(
    files: &Arc<OpenFiles>,
    tree_dir: &Path,
    direct: bool,
) -> StoreResult<HashMap<u32, Arc<Space>>> {
    // Names that a kill left unsynced may not vanish once more is built on them.
    fs::sync_dir(tree_dir).map_err(|e| StoreError::io("trees", 0, "sync", e))?;
    let mut spaces = HashMap::new();
    let entries = fs::read_dir(tree_dir).map_err(|e| StoreError::io("trees", 0, "list", e))?;
    for entry in entries {
        if let Some(id) = tree_of(&entry) {
            spaces.insert(id.0, Arc::new(Space::open(files, tree_dir, id, direct)?));
        } else if entry.ends_with(".new") || is_temporary_file(&entry) {
            fs::remove_file(&tree_dir.join(&entry)).map_err(|e| StoreError::io(&entry, 0, "remove", e))?;
        }
    }
    Ok(spaces)
}

impl StoreStatus {
    /// Pages that somebody needed who had to wait for them.
    pub fn misses(&self) -> u64 {
        self.reads.saturating_sub(self.reads_ahead)
    }
}

impl Store {
    /// Opens or creates the store; on return the redo pass is done. User records are handed to `replay` in log order.
    pub fn open(config: StoreConfig, replay: &mut dyn FnMut(&UserRecord<'_>)) -> StoreResult<Arc<Store>> {
        fs::create_dir_all(&config.dir).map_err(|e| StoreError::io("data folder", 0, "create", e))?;
        let lock = take_lock(&config.dir)?;
        let tree_dir = config.dir.join("trees");
        let files = OpenFiles::new(config.tree_files_max);
        if !Head::exists(&config.dir)? {
            create_store(&config, &files, &tree_dir)?;
        }
        let locks = (lock, take_head_lock(&config.dir)?);
        let head = Head::open(&config.dir)?;
        let checkpoint = head.last().lsn;
        let segments = Segments::open(&config.dir, head.last().segment_bytes, config.direct_io)?;
        segments.check_row(checkpoint)?;
        let frames = frames_of(config.pool_bytes, FRAMES_MIN)?;
        let frames_max = frames_of(config.pool_bytes_max, FRAMES_MIN)?;
        let core = Arc::new(Core {
            pool: Arc::new(
                Pool::new(frames, frames_max).map_err(|e| StoreError::io("buffer pool", 0, "map", e))?,
            ),
            log: Arc::new(Log::new(
                segments,
                checkpoint,
                config.redo_capacity_bytes,
                config.log_buffer_bytes,
            )),
            spaces: RwLock::new(open_spaces(&files, &tree_dir, config.direct_io)?),
            files,
        });
        let weak: Weak<Core> = Arc::downgrade(&core);
        core.pool.set_spaces(weak);
        core.log.set_durability(config.durability);
        if core.space(UNDO.0).is_none_or(|undo| undo.lost) {
            let why = "trees/undo.kt is missing or cut off, without which nothing can be rolled back";
            return Err(StoreError::Unusable(why.into()));
        }
        let mut doublewrite = Doublewrite::open(&config.dir)?;
        let restored = doublewrite.restore(&core)?;
        let flush = Arc::new(FlushState::default());
        if !config.doublewrite {
            doublewrite.clear()?;
        }
        let doublewrite = config.doublewrite.then_some(doublewrite);
        let recovered = start(&core, &flush, doublewrite, head, restored.newest, replay)?;
        let recovered = Recovered { mended: restored.mended, ..recovered };
        let trees =
            core.spaces.read().values().filter(|s| s.id != UNDO).map(|s| (s.id, tree(&core, s))).collect();
        let housekeeper = Arc::new(Housekeeper::default());
        let (keeper, shared, state) = (housekeeper.clone(), core.clone(), flush.clone());
        fiber::spawn_service("redo files", move || keeper.run(&shared, &state));
        let direct = config.direct_io;
        let trees = RwLock::new(trees);
        Ok(Arc::new(Store { core, trees, tree_dir, direct, flush, housekeeper, recovered, _locks: locks }))
    }

    /// Starts a mini-transaction; waits for log space.
    #[inline]
    pub fn begin(&self) -> StoreResult<Mtr<'_>> {
        self.core.begin()
    }

    /// End of the log as appended.
    pub fn current_lsn(&self) -> Lsn {
        Lsn(self.core.log.appended())
    }

    /// End of the log as durable.
    #[inline]
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.core.log.durable())
    }

    /// Log files that may be open at once: what the capacity holds, one that is written to and one made ahead.
    pub fn log_files_max(&self) -> u64 {
        self.core.log.capacity() / self.core.log.segments.bytes + 2
    }

    /// Files of trees that may be open at once.
    pub fn tree_files_max(&self) -> u64 {
        self.core.files.max() as u64
    }

    /// Waits until the log is durable up to `lsn`.
    pub fn wait_durable(&self, lsn: Lsn) -> StoreResult<()> {
        self.core.log.wait_durable(lsn.0)
    }

    /// Waits as the configured durability asks of a commit ending at `lsn`.
    pub fn wait_commit(&self, lsn: Lsn) -> StoreResult<()> {
        match self.durability() {
            Durability::Commit => self.core.log.wait_durable(lsn.0),
            Durability::WriteEachCommit => self.core.log.wait_written(lsn.0),
            Durability::Lazy if self.is_failed() => Err(StoreError::LogFailed),
            Durability::Lazy => Ok(()),
        }
    }

    /// What commits wait for (snapshots follow the durable end only if they wait for it).
    pub fn durability(&self) -> Durability {
        self.core.log.durability()
    }

    /// Changes what later commits wait for.
    pub fn set_durability(&self, durability: Durability) {
        self.core.log.set_durability(durability);
    }

    /// Bounds the pages that are written in a second: by an idle store, and at most while the log has room. 0: no bound.
    pub fn set_pages_per_second(&self, idle: u64, max: u64) {
        self.flush.pages_per_second.store(idle, Relaxed);
        self.flush.pages_per_second_max.store(max, Relaxed);
    }

    /// Bytes of the pool.
    pub fn pool_bytes(&self) -> u64 {
        (self.core.pool.len() * PAGE) as u64
    }

    /// Bytes of the pool that hold no page.
    pub fn pool_bytes_free(&self) -> u64 {
        (self.core.pool.free_count() * PAGE) as u64
    }

    /// Whether the pool holds all the pages that it can.
    pub fn is_pool_full(&self) -> bool {
        self.core.pool.is_full()
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.core.pool
    }

    /// Bytes up to which the pool may grow.
    pub fn pool_bytes_max(&self) -> u64 {
        u64::from(self.core.pool.len_max()) * PAGE as u64
    }

    /// Changes the size of the pool while it is in use; waits until the memory is there or given back. False if `stopped` said
    /// so before: then the size is as it was.
    pub fn resize_pool(&self, bytes: u64, stopped: &dyn Fn() -> bool) -> StoreResult<bool> {
        self.resize(stopped).pool(frames_of(bytes, FRAMES_MIN)?)
    }

    /// Changes the bytes of redo log before writers wait for page flushing; waits, for a smaller log until pages are written.
    /// False if `stopped` said so before.
    pub fn resize_redo(&self, bytes: u64, stopped: &dyn Fn() -> bool) -> StoreResult<bool> {
        self.resize(stopped).redo(bytes)
    }

    fn resize<'a>(&'a self, stopped: &'a dyn Fn() -> bool) -> Resize<'a> {
        Resize { core: &self.core, flush: &self.flush, stopped }
    }

    /// Bytes of redo log before writers wait for page flushing.
    pub fn redo_capacity(&self) -> u64 {
        self.core.log.capacity()
    }

    /// Whether the log has failed; nothing is acknowledged any more.
    pub fn is_failed(&self) -> bool {
        self.core.log.is_failed()
    }

    /// Why the log failed.
    pub fn failure(&self) -> Option<String> {
        self.core.log.failure()
    }

    /// Why a start ends, where all it knows is that the log has failed.
    pub(crate) fn explain(&self, error: StoreError) -> StoreError {
        self.core.log.explain(error)
    }

    /// Creates an empty tree, durable on return. Ids are never reused. Waits.
    pub fn create_tree(&self, id: TreeId) -> StoreResult<Arc<Tree>> {
        assert!(id != UNDO && self.tree(id).is_none(), "tree {id} exists");
        let space = Arc::new(self.make_space(id)?);
        let tree = tree(&self.core, &space);
        self.core.spaces.write().insert(id.0, space);
        self.trees.write().insert(id, tree.clone());
        Ok(tree)
    }

    fn make_space(&self, id: TreeId) -> StoreResult<Space> {
        let lsn = self.core.log.appended();
        Space::create(&self.core.files, &self.tree_dir, id, self.direct, lsn)
    }

    /// Creates an empty temporary tree: its pages are not logged, and leave memory only for want of frames. Waits.
    pub fn create_temporary_tree(&self, id: TreeId) -> StoreResult<Arc<Tree>> {
        assert!(id.is_temporary() && self.tree(id).is_none(), "tree {id} exists");
        let space = Arc::new(Space::create_temporary(&self.core.files, &self.tree_dir, id)?);
        let tree = tree(&self.core, &space);
        self.core.spaces.write().insert(id.0, space);
        self.trees.write().insert(id, tree.clone());
        Ok(tree)
    }

    /// In place of a tree whose file is gone: it can be dropped, and every read of it fails.
    pub(crate) fn stand_in(&self, id: TreeId) -> StoreResult<Arc<Tree>> {
        let space = Arc::new(Space::stand_in(&self.core.files, &self.tree_dir, id)?);
        let tree = tree(&self.core, &space);
        self.core.spaces.write().insert(id.0, space);
        self.trees.write().insert(id, tree.clone());
        Ok(tree)
    }

    /// Removes a tree and its file; readers that still hold it get errors. Waits.
    pub fn drop_tree(&self, id: TreeId) -> StoreResult<()> {
        let tree = self.trees.write().remove(&id).ok_or(StoreError::NoTree(id.0))?;
        let space = tree.space();
        // Before its frames may pass to others: see `Pool::refuse_dropped`.
        space.dropped.store(true, SeqCst);
        self.core.spaces.write().remove(&id.0);
        self.core.pool.discard(space);
        space.remove_file()
    }

    /// The tree of that id.
    pub fn tree(&self, id: TreeId) -> Option<Arc<Tree>> {
        self.trees.read().get(&id).cloned()
    }

    /// All trees that have a file, in order, but for temporary ones.
    pub fn tree_ids(&self) -> Vec<TreeId> {
        let trees = self.trees.read();
        let mut ids: Vec<TreeId> = trees.keys().filter(|id| !id.is_temporary()).copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Flushes what is dirty now and advances the checkpoint. Waits.
    pub fn checkpoint(&self) -> StoreResult<()> {
        self.flush.flush_to(&self.core, self.core.log.appended())
    }

    /// Flushes all, checkpoints, stops the services. Waits; for room on the disk, 20 s. Nothing may be
    /// changed any more. After an error the log holds what was not flushed, and the next start applies it.
    pub fn shutdown(&self) -> StoreResult<()> {
        let deadline = time::now() + SHUTDOWN_FULL_MAX;
        let flushed = loop {
            match self.settle() {
                Err(StoreError::DiskFull { .. }) if time::now() < deadline => fiber::sleep(HOUSEKEEPING_FULL),
                result => break result,
            }
        };
        self.housekeeper.stop(&self.core.log);
        self.flush.stop(&self.core);
        let stopped = self.core.log.stop();
        flushed.and(stopped)
    }

    /// Writes what a clean stop leaves behind: the counters of the trees as they are, and every page.
    fn settle(&self) -> StoreResult<()> {
        let lasting = |tree: &&Arc<Tree>| !tree.id().is_temporary();
        let trees: Vec<Arc<Tree>> = self.trees.read().values().filter(lasting).cloned().collect();
        trees.iter().try_for_each(|t| t.settle_counter())?;
        self.checkpoint()
    }

    /// Counters.
    pub fn status(&self) -> StoreStatus {
        let (pool, log) = (&self.core.pool, &self.core.log);
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
        StoreStatus {
            pages_total: pool.len() as u64,
            pages_free: pool.free_count() as u64,
            pages_dirty: pool.dirty_count() as u64,
            pages_beyond: pool.stray_count() as u64,
            read_requests: pool.counters.requests.total(),
            reads: load(&pool.counters.reads),
            reads_ahead: load(&pool.counters.reads_ahead),
            reads_open: u64::from(pool.reads_open()),
            creates: load(&pool.counters.creates),
            writes: load(&self.flush.pages_written),
            writes_for_frames: load(&self.flush.pages_for_frames),
            writes_open: load(&self.flush.pages_open),
            page_bytes: load(&self.flush.page_bytes),
            doublewrite_bytes: load(&self.flush.doublewrite_bytes),
            free_waits: load(&pool.counters.free_waits),
            evictions: load(&pool.counters.evictions),
            data_syncs: load(&self.flush.syncs),
            log_writes: load(&log.write_count),
            log_bytes: log.appended() - FIRST_LSN,
            log_requests: load(&log.group_count),
            log_waits: load(&log.space_wait_count),
            lsn: log.appended(),
            durable_lsn: log.durable(),
            flushed_lsn: self.flush.clean().max(log.checkpoint()),
            checkpoint_lsn: log.checkpoint(),
            redo_capacity: log.capacity(),
            doublewrite_batches: load(&self.flush.doublewrite_batches),
            doublewrite_pages: load(&self.flush.doublewrite_pages),
            files_open: self.core.files.open() as u64,
            files_opened: self.core.files.opened(),
        }
    }

    fn undo(&self) -> StoreResult<Arc<Space>> {
        self.core.space(UNDO.0).ok_or(StoreError::NoTree(UNDO.0))
    }

    /// Reads undo pages together, for the start.
    pub(crate) fn undo_ahead(&self) -> StoreResult<UndoAhead> {
        Ok(UndoAhead::new(&self.core, self.undo()?))
    }

    /// Makes room for one undo page; waits.
    pub fn undo_reserve(&self, need: Need) -> StoreResult<UndoSpare> {
        Ok(UndoSpare(self.core.reserve(&self.undo()?, need)?))
    }

    /// Keeps an undo page resident; waits.
    pub fn undo_pin(&self, page: PageNo) -> StoreResult<PinnedPage> {
        Ok(PinnedPage(self.core.pool.pin(&*self.undo()?, page.0)?))
    }

    /// Latches an undo page shared; waits for its read first.
    pub fn undo_read(&self, page: PageNo) -> StoreResult<UndoRead<'_>> {
        Ok(UndoRead { latch: self.core.pool.latch_shared(&*self.undo()?, page.0)? })
    }

    /// Pages that the undo file has room for.
    pub fn undo_file_pages(&self) -> u32 {
        self.undo().map_or(0, |space| space.pages())
    }

    /// Where the undo file could be cut, if that is worth while. Waits.
    pub(crate) fn undo_plan_cut(&self) -> StoreResult<Option<Cut>> {
        self.core.plan_cut(&self.undo()?)
    }

    /// Cuts the undo file as planned. Waits.
    pub(crate) fn undo_cut(&self, cut: Cut) -> StoreResult<CutDone> {
        self.core.cut(&self.undo()?, cut)
    }

    /// A checkpoint behind `lsn` would be of use; it is worked towards, without haste.
    pub(crate) fn welcome_checkpoint(&self, lsn: u64) {
        self.flush.welcome(lsn);
    }

    /// Latches an undo page shared if it is in memory. Waits for nothing but the latch, so another may be held.
    pub fn undo_try_read(&self, page: PageNo) -> Option<UndoRead<'_>> {
        let space = self.undo().ok()?;
        Some(UndoRead { latch: self.core.pool.try_latch_shared(&space, page.0)? })
    }

    /// Gives an undo page back, in a mini-transaction of its own; waits.
    pub fn undo_free(&self, page: PageNo) -> StoreResult<()> {
        let space = self.undo()?;
        let map = self.core.pin_map(&space, page.0)?;
        let mtr = self.core.begin()?;
        let latched = mtr.latch(&space, page.0)?;
        if latched.page().kind() != layout::KIND_UNDO {
            return Err(space.corrupt(page.0, "not an undo page"));
        }
        mtr.free(latched, &map);
        mtr.commit();
        space.free_hint.fetch_min(page.0, AcqRel);
        Ok(())
    }
}

fn tree(core: &Arc<Core>, space: &Arc<Space>) -> Arc<Tree> {
    Arc::new(Tree::new(core.clone(), space.clone()))
}

/// The log's file and the next. Where the disk is full, those behind a checkpoint are used again.
fn provide_first_files(core: &Core, flush: &FlushState) -> StoreResult<()> {
    let end = core.log.appended();
    match core.log.segments.provide(end, 1) {
        Err(StoreError::DiskFull { .. }) => {
            flush.flush_to(core, end)?;
            provide_files(&core.log)
        }
        result => result,
    }
}

/// Starts the flusher, applies the log, starts the log's writer, and marks the new life in the log.
fn start(
    core: &Arc<Core>,
    flush: &Arc<FlushState>,
    doublewrite: Option<Doublewrite>,
    head: Head,
    newest: u64,
    replay: &mut dyn FnMut(&UserRecord<'_>),
) -> StoreResult<Recovered> {
    let checkpoint = head.last().lsn;
    core.pool.recovering.store(true, SeqCst);
    flush.hold_checkpoint.store(true, SeqCst);
    let flusher = Flusher::new(core.clone(), flush.clone(), doublewrite, head);
    fiber::spawn_service("flusher", move || flusher.run());
    let started = recover(core, checkpoint, replay).and_then(|recovered| {
        check_log(core, checkpoint, &recovered, newest)?;
        core.pool.recovering.store(false, SeqCst);
        // The log may be fuller than a smaller capacity allows: then nothing begins before a checkpoint.
        flush.hold_checkpoint.store(false, SeqCst);
        provide_first_files(core, flush)?;
        start_log(core)?;
        Ok(recovered)
    });
    if let Err(e) = &started {
        core.log.fail(e.to_string());
        flush.stop(core);
    }
    started.map_err(|error| core.log.explain(error))
}

/// The log reaches as far as it must: what was lost of it is lost silently otherwise. There is a group at every checkpoint
/// but the first, no page is written before the log that leads to it, where `newest` is the newest copy of one, and what is
/// written behind a place of the log says how far it was durable by then.
fn check_log(core: &Core, checkpoint: u64, recovered: &Recovered, newest: u64) -> StoreResult<()> {
    let end = core.log.appended();
    let what = if recovered.groups == 0 && checkpoint != FIRST_LSN {
        format!("there is no log at the checkpoint, {checkpoint}")
    } else if newest > end {
        format!("the log ends at {end}, but pages of up to {newest} were written")
    } else {
        let behind = look_behind(&core.log.segments, end)?;
        let Some(lost) = behind.map(|behind| behind.durable).filter(|durable| *durable > end) else {
            return Ok(());
        };
        format!("the log breaks off at {end}, but was durable up to {lost}: `keel check` names what is wrong")
    };
    Err(StoreError::Corrupt { file: core.log.segments.name_at(end), page: 0, what })
}

/// Starts the log's writer and marks the new life in the log. On an error the writer has ended.
fn start_log(core: &Arc<Core>) -> StoreResult<()> {
    core.log.note_files();
    let log = core.log.clone();
    fiber::spawn_service("log", move || run_writer(&log));
    let marked = core.begin().and_then(|mtr| {
        mtr.start_record(rand::u64());
        core.log.wait_durable(mtr.commit().0)
    });
    if let Err(e) = &marked {
        core.log.fail(e.to_string());
        let _ = core.log.stop();
    }
    marked
}

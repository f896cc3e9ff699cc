//! The engine's face: opening, trees, counters, status. Transactions begin here.
//!
//! The parts below share one [`Engine`]: the store, the transaction table, snapshots, locks and the undo log. A
//! statement reaches them through [`Txn`].

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hashbrown::HashMap;
use keel_base::{Lsn, PageNo, TreeId};
use keel_runtime::sync::Event;
use keel_runtime::time::Instant;
use parking_lot::{Mutex, RwLock};

use crate::admission::Admission;
use crate::error::Result;
use crate::fault::StoreError;
use crate::lock::LockTable;
use crate::lock_gap::TreeGaps;
use crate::lock_wait::WaitStats;
use crate::options::{EngineConfig, ScanRange, TxnOptions};
use crate::report::DeadlockLog;
use crate::snapshot::SnapshotSet;
use crate::stats::RowStats;
use crate::store::{Durability, Store, StoreStatus};
use crate::tree::{CountOf, Tree};
use crate::trx::{ActiveSet, TrxTable};
use crate::txn::Txn;
use crate::undo_log::UndoLog;
use crate::views::Views;
use crate::watch::WatchedKeys;

/// Further looks at a tree that seems wrong, and the time between them.
const CHECKS_MORE: usize = 6;
const CHECK_PAUSE: Duration = Duration::from_millis(20);

/// The engine over one data folder.
pub struct Engine {
    pub(crate) store: Arc<Store>,
    pub(crate) table: TrxTable,
    pub(crate) active: ActiveSet,
    pub(crate) snapshots: SnapshotSet,
    pub(crate) views: Views,
    pub(crate) locks: LockTable,
    pub(crate) waits: WaitStats,
    /// Who waits for a lock looks for deadlocks.
    pub(crate) searches_deadlocks: AtomicBool,
    pub(crate) deadlock_log: OnceLock<Arc<dyn DeadlockLog>>,
    pub(crate) admission: Admission,
    pub(crate) undo: UndoLog,
    pub(crate) trees: RwLock<HashMap<TreeId, TreeHandle>>,
    /// For the ids of temporary trees.
    pub(crate) temporary_ids: AtomicU32,
    /// The first transaction of this life.
    pub(crate) first_trx: u64,
    pub(crate) registry: TreeHandle,
    /// Serialises giving out tree ids.
    pub(crate) tree_ids: keel_runtime::sync::Mutex<()>,
    /// Serialises raising the persisted transaction id limit.
    pub(crate) trx_ids: keel_runtime::sync::Mutex<()>,
    pub(crate) rows: RowStats,
    pub(crate) lock_wait_nanos_max: AtomicU64,
    /// Snapshots follow the appended, not the durable, end of the log.
    pub(crate) relaxed: AtomicBool,
    /// They are about to follow the durable end again.
    pub(crate) tightening: AtomicBool,
    pub(crate) purge: Background,
    /// Prepared transactions that recovery found, until somebody takes them.
    pub(crate) prepared: parking_lot::Mutex<Vec<crate::prepared::Recovered>>,
}

/// The fibers that purge and roll back what nobody owns.
#[derive(Default)]
pub(crate) struct Background {
    /// No further rounds.
    pub(crate) stop: Event,
    /// The last round of purge is over.
    pub(crate) stopped: Event,
    /// Nothing is rolled back any more.
    pub(crate) rollback_stopped: Event,
    /// Unfinished work of recovery and of lost sessions.
    pub(crate) orphans: parking_lot::Mutex<Vec<crate::rollback::Writes>>,
    /// Rounds in a row that failed.
    pub(crate) failures: AtomicU32,
    /// What was last said to go wrong.
    pub(crate) complaint: parking_lot::Mutex<String>,
    /// Trees whose files recovery found without a committed row in the registry.
    pub(crate) suspects: parking_lot::Mutex<Vec<TreeId>>,
    /// Trees that are to be dropped as soon as that is possible.
    pub(crate) abandoned: parking_lot::Mutex<Vec<TreeId>>,
    /// Long values that nobody refers to, and from which page on they are still to be freed.
    pub(crate) values: parking_lot::Mutex<Vec<(TreeId, PageNo)>>,
    /// Transactions purged at a time, at most; 0 where nobody chose.
    pub(crate) batch_max: AtomicU64,
    /// Fibers at work on a batch, at most; 0 where nobody chose.
    pub(crate) fibers_max: AtomicU64,
    /// Batches that had something to remove.
    pub(crate) batches: AtomicU64,
    /// Fibers of the last of them.
    pub(crate) fibers: AtomicU64,
    /// Entries removed ahead of an old reader.
    pub(crate) ahead: AtomicU64,
}

impl Background {
    /// What somebody chose, else the usual.
    pub(crate) fn chosen(&self, bound: &AtomicU64, usual: usize) -> usize {
        match bound.load(Ordering::Relaxed) {
            0 => usual,
            chosen => chosen as usize,
        }
    }
}

/// A tree, for as long as the caller likes; cheap to clone.
#[derive(Clone)]
pub struct TreeHandle {
    inner: Arc<TreeInner>,
}

struct TreeInner {
    tree: Arc<Tree>,
    gaps: Arc<TreeGaps>,
    /// Snapshots of before this LSN do not know what is in it; [`UNBORN`] until that is known, 0 for trees of old.
    born: AtomicU64,
    /// What is in it are no rows of their own.
    auxiliary: AtomicBool,
    /// Whether `watched` is there.
    is_watched: AtomicBool,
    /// Where writers note the keys that they have written.
    watched: Mutex<Option<Arc<WatchedKeys>>>,
}

const UNBORN: u64 = u64::MAX;

impl TreeHandle {
    pub(crate) fn new(tree: Arc<Tree>) -> TreeHandle {
        let gaps = TreeGaps::new(tree.id());
        TreeHandle {
            inner: Arc::new(TreeInner {
                tree,
                gaps,
                born: AtomicU64::new(0),
                auxiliary: AtomicBool::new(false),
                is_watched: AtomicBool::new(false),
                watched: Mutex::default(),
            }),
        }
    }

    /// A tree that has just been made.
    pub(crate) fn new_unborn(tree: Arc<Tree>) -> TreeHandle {
        let handle = TreeHandle::new(tree);
        handle.inner.born.store(UNBORN, Ordering::Relaxed);
        handle
    }

    /// Says with which commit the tree came into use, unless that was said before: older snapshots may not read it,
    /// since what they would see of it is not what was there then.
    pub fn set_born(&self, commit: Lsn) {
        let _ = self.inner.born.compare_exchange(UNBORN, commit.0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Reads pages of rows or places that will be wanted one after the other at once, if that of the first is not in memory, and as
    /// many as the pool and the device have room for; gives for how many of the keys that was done. Waits for the device.
    pub fn read_ahead<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) -> usize {
        self.tree().read_leaves(keys)
    }

    /// Says that what is in it are no rows of their own but entries of an index: changes of them count as changes of no rows.
    pub fn set_auxiliary(&self) {
        self.inner.auxiliary.store(true, Ordering::Relaxed);
    }

    /// Whether that was said.
    #[inline]
    pub(crate) fn is_auxiliary(&self) -> bool {
        self.inner.auxiliary.load(Ordering::Relaxed)
    }

    /// Notes the key of a row that was written, where somebody watches the tree.
    #[inline]
    pub(crate) fn note_written(&self, key: &[u8]) {
        if self.inner.is_watched.load(Ordering::Acquire) {
            self.note_watched(key);
        }
    }

    #[cold]
    fn note_watched(&self, key: &[u8]) {
        let watched = self.inner.watched.lock().clone();
        watched.iter().for_each(|keys| keys.note(key));
    }

    pub(crate) fn set_watched(&self, keys: Option<Arc<WatchedKeys>>) {
        let mut watched = self.inner.watched.lock();
        self.inner.is_watched.store(keys.is_some(), Ordering::Release);
        *watched = keys;
    }

    /// Whether a snapshot of `csn` may read it.
    #[inline]
    pub(crate) fn is_known_at(&self, csn: u64) -> bool {
        let born = self.inner.born.load(Ordering::Acquire);
        born <= csn || born == UNBORN
    }

    /// The tree's id.
    pub fn id(&self) -> TreeId {
        self.inner.gaps.tree()
    }

    /// Whether it is a temporary tree: its newest rows are what its session sees, and nobody locks them.
    #[inline]
    pub(crate) fn is_temporary(&self) -> bool {
        self.id().is_temporary()
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.inner.tree
    }

    pub(crate) fn gaps(&self) -> &Arc<TreeGaps> {
        &self.inner.gaps
    }
}

/// Counters of the engine; monotone unless said otherwise.
#[derive(Debug, Clone, Default)]
pub struct EngineStatus {
    /// Read-write transactions in progress (gauge).
    pub trx_active: u64,
    /// Snapshots in use (gauge).
    pub snapshots: u64,
    /// Files of rows and index entries (gauge).
    pub tree_files: u64,
    /// Ended transactions whose undo is not purged (gauge).
    pub history_len: u64,
    /// Pages of undo (gauge).
    pub undo_pages: u64,
    /// Pages that the undo file has room for (gauge).
    pub undo_file_pages: u64,
    /// Row lock waits so far.
    pub lock_waits: u64,
    /// Fibers waiting for a row lock (gauge).
    pub lock_waiting: u64,
    /// Nanoseconds spent waiting for row locks.
    pub lock_wait_nanos: u64,
    /// Nanoseconds of the longest of those waits.
    pub lock_wait_nanos_max: u64,
    /// Transactions that may take locks (gauge).
    pub trx_inside: u64,
    /// Transactions that wait until they may (gauge).
    pub trx_queued: u64,
    /// The id that the next transaction gets that writes (gauge).
    pub next_trx_id: u64,
    /// Batches of purge that had something to remove.
    pub purge_batches: u64,
    /// Fibers at work on the last of them (gauge).
    pub purge_fibers: u64,
    /// Deleted entries removed while an old reader kept the history of their deletion.
    pub purged_ahead: u64,
    /// Every snapshot knows the transactions below (gauge).
    pub purge_limit: u64,
    /// Deadlocks found.
    pub deadlocks: u64,
    /// Row lock waits that timed out.
    pub lock_timeouts: u64,
    /// Rows read.
    pub rows_read: u64,
    /// Undo records read to find older versions of rows.
    pub versions_read: u64,
    /// Rows inserted.
    pub rows_inserted: u64,
    /// Rows updated.
    pub rows_updated: u64,
    /// Rows deleted.
    pub rows_deleted: u64,
    /// Read-write transactions committed.
    pub commits: u64,
    /// Read-write transactions rolled back.
    pub rollbacks: u64,
    /// The store below.
    pub store: StoreStatus,
}

impl Engine {
    /// Opens or creates the data folder; on return committed work is there and unfinished transactions are being
    /// rolled back behind their locks. Call on a fiber; waits.
    pub fn open(config: EngineConfig) -> Result<Arc<Engine>> {
        crate::restart::open(config)
    }

    /// Begins a transaction. Costs next to nothing until it reads or writes.
    pub fn begin(self: &Arc<Self>, options: TxnOptions) -> Txn {
        Txn::new(self.clone(), options)
    }

    /// The tree of that id.
    pub fn tree(&self, id: TreeId) -> Option<TreeHandle> {
        self.trees.read().get(&id).cloned()
    }

    /// Files that may be open for the trees there are and for the log.
    pub fn files_max(&self) -> u64 {
        self.store.tree_files_max() + self.store.log_files_max()
    }

    /// Estimated rows in the range; 0 where the tree was dropped meanwhile, since who estimates holds no lock. Waits.
    pub fn row_estimate(&self, tree: &TreeHandle, range: ScanRange<'_>) -> Result<u64> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let after = |key: &[u8]| [key, &[0]].concat();
        let low = match range.lower {
            Unbounded => None,
            Included(key) => Some(key.to_vec()),
            Excluded(key) => Some(after(key)),
        };
        let high = match range.upper {
            Unbounded => None,
            Included(key) => Some(after(key)),
            Excluded(key) => Some(key.to_vec()),
        };
        match tree.tree().estimate_range(low.as_deref(), high.as_deref()) {
            Err(StoreError::NoTree(_)) => Ok(0),
            estimate => Ok(estimate?),
        }
    }

    /// A key about that share (0 to 1) of the way through the tree, for estimates; it may be of a removed row. None where
    /// the tree is empty, or was dropped meanwhile. Waits.
    pub fn key_near(&self, tree: &TreeHandle, share: f64) -> Result<Option<Vec<u8>>> {
        match tree.tree().key_near(share) {
            Err(StoreError::NoTree(_)) => Ok(None),
            key => Ok(key?),
        }
    }

    /// Pages of the tree's file.
    pub fn tree_pages(&self, tree: &TreeHandle) -> u64 {
        tree.tree().page_count()
    }

    /// The tree's persistent counter (AUTO_INCREMENT). Behind a crash it is what the greatest key counts, as `count_of` tells,
    /// or without that up to 1000 more. Waits.
    pub fn counter(&self, tree: &TreeHandle, count_of: Option<CountOf<'_>>) -> Result<u64> {
        Ok(tree.tree().counter(count_of)?)
    }

    /// Raises the counter, which was read before, to at least `to`; it holds behind a crash if an entry tells of it. Waits.
    pub fn raise_counter(&self, tree: &TreeHandle, to: u64) -> Result<()> {
        Ok(tree.tree().raise_counter(to)?)
    }

    /// As [`Engine::raise_counter`]; it holds behind a crash though no entry tells of it. Waits.
    pub fn keep_counter(&self, tree: &TreeHandle, to: u64) -> Result<()> {
        Ok(tree.tree().keep_counter(to)?)
    }

    /// Sets the counter, downwards too, while nobody takes values from it. Waits.
    pub fn set_counter(&self, tree: &TreeHandle, to: u64) -> Result<()> {
        Ok(tree.tree().set_counter(to)?)
    }

    /// Structural problems of the tree, in words; empty is good. What a look finds while pages are split and merged under
    /// it, the next look does not find. Waits.
    pub fn check_tree(&self, tree: &TreeHandle) -> Result<Vec<String>> {
        let mut problems = tree.tree().verify()?;
        for _ in 0..CHECKS_MORE {
            if problems.is_empty() {
                break;
            }
            keel_runtime::fiber::sleep(CHECK_PAUSE);
            let again = tree.tree().verify()?;
            problems.retain(|problem| again.contains(problem));
        }
        Ok(problems)
    }

    /// Counters.
    pub fn status(&self) -> EngineStatus {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (inside, queued) = self.admission.counts();
        let next_trx_id = self.table.next_id();
        let mut status = EngineStatus {
            trx_active: self.active.len() as u64,
            tree_files: self.trees.read().len() as u64,
            snapshots: self.snapshots.len() as u64,
            history_len: self.undo.history_len(),
            undo_pages: self.undo.page_count(),
            undo_file_pages: u64::from(self.store.undo_file_pages()),
            lock_waits: count(&self.waits.waits),
            lock_waiting: self.admission.waiting() as u64,
            lock_wait_nanos: count(&self.waits.nanos),
            lock_wait_nanos_max: count(&self.waits.nanos_max),
            trx_inside: inside as u64,
            trx_queued: queued as u64,
            purge_batches: count(&self.purge.batches),
            purge_fibers: count(&self.purge.fibers),
            purged_ahead: count(&self.purge.ahead),
            next_trx_id,
            purge_limit: self.snapshots.oldest_next().unwrap_or(next_trx_id).min(next_trx_id),
            deadlocks: count(&self.waits.deadlocks),
            lock_timeouts: count(&self.waits.timeouts),
            store: self.store.status(),
            ..EngineStatus::default()
        };
        self.rows.add_to(&mut status);
        status
    }

    /// Why the log has failed, if it has: nothing is acknowledged any more, the process should end with the reason.
    pub fn failure(&self) -> Option<String> {
        self.store.failure()
    }

    /// Changes what later commits wait for. Waits.
    pub fn set_durability(&self, durability: Durability) -> Result<()> {
        self.store.set_durability(durability);
        let waited = match durability {
            Durability::Commit => {
                self.tightening.store(true, Ordering::SeqCst);
                self.store.wait_durable(self.store.current_lsn())
            }
            _ => Ok(()),
        };
        if waited.is_ok() {
            self.relaxed.store(durability != Durability::Commit, Ordering::SeqCst);
        }
        self.tightening.store(false, Ordering::SeqCst);
        Ok(waited?)
    }

    /// Changes how long later row lock waits last by default.
    pub fn set_lock_wait_timeout(&self, timeout: Duration) {
        self.lock_wait_nanos_max.store(timeout.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Bounds the pages that are written in a second; see [`Store::set_pages_per_second`].
    pub fn set_pages_per_second(&self, idle: u64, max: u64) {
        self.store.set_pages_per_second(idle, max);
    }

    /// Bounds what purge takes on at a time: transactions, and fibers at work on them. 0: no bound but its own.
    pub fn set_purge(&self, batch: u64, fibers: u64) {
        self.purge.batch_max.store(batch, Ordering::Relaxed);
        self.purge.fibers_max.store(fibers, Ordering::Relaxed);
    }

    /// Whether who waits for a lock looks for deadlocks, as it does at first; if not, they end when a wait times out.
    pub fn set_deadlock_search(&self, on: bool) {
        self.searches_deadlocks.store(on, Ordering::Relaxed);
    }

    /// Bytes of the buffer pool.
    pub fn pool_bytes(&self) -> u64 {
        self.store.pool_bytes()
    }

    /// Bytes of the buffer pool that hold no page.
    pub fn pool_bytes_free(&self) -> u64 {
        self.store.pool_bytes_free()
    }

    /// Whether the buffer pool holds all the pages that it can.
    pub fn is_pool_full(&self) -> bool {
        self.store.is_pool_full()
    }

    /// Bytes up to which the pool may grow while the engine is open.
    pub fn pool_bytes_max(&self) -> u64 {
        self.store.pool_bytes_max()
    }

    /// Changes the size of the buffer pool; see [`Store::resize_pool`]. Waits.
    pub fn resize_pool(&self, bytes: u64, stopped: &dyn Fn() -> bool) -> Result<bool> {
        Ok(self.store.resize_pool(bytes, stopped)?)
    }

    /// Bytes of redo log before writers wait for page flushing.
    pub fn redo_capacity(&self) -> u64 {
        self.store.redo_capacity()
    }

    /// Changes the redo capacity; see [`Store::resize_redo`]. Waits.
    pub fn resize_redo(&self, bytes: u64, stopped: &dyn Fn() -> bool) -> Result<bool> {
        Ok(self.store.resize_redo(bytes, stopped)?)
    }

    /// Flushes and advances the checkpoint. Waits.
    pub fn checkpoint(&self) -> Result<()> {
        Ok(self.store.checkpoint()?)
    }

    /// Stops purge, flushes all, stops the services. Open transactions must have ended; prepared ones are
    /// there again at the next start. Waits.
    pub fn shutdown(&self) -> Result<()> {
        self.purge.stop.set();
        self.purge.stopped.wait(keel_runtime::wait::WaitEvent::Purge);
        self.purge.rollback_stopped.wait(keel_runtime::wait::WaitEvent::Purge);
        Ok(self.store.shutdown()?)
    }

    /// What snapshots taken now see: commits up to this LSN.
    #[inline]
    pub(crate) fn snapshot_lsn(&self) -> u64 {
        match self.relaxed.load(Ordering::Relaxed) {
            false => self.store.durable_lsn().0,
            true => self.store.current_lsn().0,
        }
    }

    /// No snapshot taken from now on sees less than this.
    pub(crate) fn snapshot_floor(&self) -> u64 {
        let appended = self.store.current_lsn().0;
        let relaxed = self.relaxed.load(Ordering::SeqCst);
        // Whoever tightens waits for all that was appended before the flag was set, and sets it before.
        match relaxed && !self.tightening.load(Ordering::SeqCst) {
            true => appended,
            false => self.store.durable_lsn().0,
        }
    }

    /// When a lock wait that begins now ends; `None` takes the engine's default.
    pub(crate) fn lock_deadline(&self, timeout: Option<Duration>) -> Instant {
        let default = || Duration::from_nanos(self.lock_wait_nanos_max.load(Ordering::Relaxed));
        keel_runtime::time::now() + timeout.unwrap_or_else(default)
    }

    /// Persists a higher limit of transaction ids. Waits.
    pub(crate) fn raise_trx_ids(&self) -> Result<()> {
        let seen = self.table.limit();
        let _one = self.trx_ids.lock();
        if self.table.limit() == seen {
            let (_, new) = self.undo.raise_trx_limit()?;
            self.table.raise_limit(new);
        }
        Ok(())
    }
}

//! The physical store: trees of pages over files, changed through mini-transactions, made durable by the redo log.

use std::path::PathBuf;
use std::sync::Arc;

use keel_base::{Lsn, PageNo, TreeId};

use crate::fault::{StoreError, StoreResult};
use crate::mtr::Mtr;
use crate::tree::Tree;

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
    /// Bytes of redo log before writers wait for page flushing.
    pub redo_capacity_bytes: u64,
    /// Bytes of one redo segment file.
    pub segment_bytes: u64,
    /// Whether pages pass the doublewrite file.
    pub doublewrite: bool,
    /// When commits are acknowledged.
    pub durability: Durability,
    /// Whether data files bypass the page cache.
    pub direct_io: bool,
}

impl StoreConfig {
    /// Defaults for `dir`: 128 MiB pool, 1 GiB of redo, durable commits.
    pub fn new(dir: impl Into<PathBuf>) -> StoreConfig {
        StoreConfig {
            dir: dir.into(),
            pool_bytes: 128 << 20,
            redo_capacity_bytes: 1 << 30,
            segment_bytes: 64 << 20,
            doublewrite: true,
            durability: Durability::Commit,
            direct_io: true,
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
    /// Page accesses.
    pub read_requests: u64,
    /// Pages read from files.
    pub reads: u64,
    /// Pages written to files.
    pub writes: u64,
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
    /// Where recovery would start (gauge).
    pub checkpoint_lsn: u64,
    /// Batches through the doublewrite file.
    pub doublewrite_batches: u64,
    /// Pages through the doublewrite file.
    pub doublewrite_pages: u64,
}

/// A page kept resident while this lives; holds no latch.
pub struct PinnedPage {
    _private: (),
}

/// An undo page, latched shared.
pub struct UndoRead<'s> {
    _store: &'s Store,
}

impl UndoRead<'_> {
    /// Bytes in use, from the start of the page's data area.
    pub fn bytes(&self) -> &[u8] {
        unimplemented!()
    }
    /// The next page of the chain, as set by the owner.
    pub fn next(&self) -> Option<PageNo> {
        unimplemented!()
    }
}

/// Room for one new undo page, got before any latch is taken.
pub struct UndoSpare {
    _private: (),
}

/// The store. All methods that may wait say so; call those with no latch held.
pub struct Store {
    _private: (),
}

/// First page of the undo file: formatted at creation, the owner's directory of segments.
pub const UNDO_DIRECTORY: PageNo = PageNo(1);
/// Bytes of an undo page's data area.
pub const UNDO_CAPACITY: usize = 16384 - 64;

impl Store {
    /// Opens or creates the store; on return the redo pass is done. User records are handed to `replay` in log order.
    pub fn open(_config: StoreConfig, _replay: &mut dyn FnMut(&UserRecord<'_>)) -> StoreResult<Arc<Store>> {
        Err(StoreError::LogFailed)
    }
    /// Starts a mini-transaction; waits for log space.
    pub fn begin(&self) -> StoreResult<Mtr<'_>> {
        unimplemented!()
    }
    /// End of the log as appended.
    pub fn current_lsn(&self) -> Lsn {
        unimplemented!()
    }
    /// End of the log as durable.
    pub fn durable_lsn(&self) -> Lsn {
        unimplemented!()
    }
    /// Waits until the log is durable up to `lsn`.
    pub fn wait_durable(&self, _lsn: Lsn) -> StoreResult<()> {
        unimplemented!()
    }
    /// Waits as the configured durability asks of a commit ending at `lsn`.
    pub fn wait_commit(&self, _lsn: Lsn) -> StoreResult<()> {
        unimplemented!()
    }
    /// Whether commits wait for their log (so that snapshots follow the durable end).
    pub fn durability(&self) -> Durability {
        unimplemented!()
    }
    /// Changes what later commits wait for.
    pub fn set_durability(&self, _durability: Durability) {
        unimplemented!()
    }
    /// Whether the log has failed; nothing is acknowledged any more.
    pub fn is_failed(&self) -> bool {
        unimplemented!()
    }
    /// Why the log failed.
    pub fn failure(&self) -> Option<String> {
        unimplemented!()
    }
    /// Creates an empty tree, durable on return. Ids are never reused. Waits.
    pub fn create_tree(&self, _id: TreeId) -> StoreResult<Arc<Tree>> {
        unimplemented!()
    }
    /// Removes a tree and its file. Waits.
    pub fn drop_tree(&self, _id: TreeId) -> StoreResult<()> {
        unimplemented!()
    }
    /// The tree of that id.
    pub fn tree(&self, _id: TreeId) -> Option<Arc<Tree>> {
        unimplemented!()
    }
    /// All trees that have a file.
    pub fn tree_ids(&self) -> Vec<TreeId> {
        unimplemented!()
    }
    /// Flushes what is dirty now and advances the checkpoint. Waits.
    pub fn checkpoint(&self) -> StoreResult<()> {
        unimplemented!()
    }
    /// Flushes all, checkpoints, stops the services. Waits.
    pub fn shutdown(&self) -> StoreResult<()> {
        unimplemented!()
    }
    /// Counters.
    pub fn status(&self) -> StoreStatus {
        unimplemented!()
    }
    /// Makes room for one undo page; waits.
    pub fn undo_reserve(&self) -> StoreResult<UndoSpare> {
        unimplemented!()
    }
    /// Keeps an undo page resident; waits.
    pub fn undo_pin(&self, _page: PageNo) -> StoreResult<PinnedPage> {
        unimplemented!()
    }
    /// Latches an undo page shared; waits for its read first.
    pub fn undo_read(&self, _page: PageNo) -> StoreResult<UndoRead<'_>> {
        unimplemented!()
    }
    /// Gives an undo page back, in a mini-transaction of its own; waits.
    pub fn undo_free(&self, _page: PageNo) -> StoreResult<()> {
        unimplemented!()
    }
}

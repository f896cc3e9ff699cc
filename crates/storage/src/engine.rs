//! The engine's face: opening, trees, counters, status. Transactions begin here.

use std::sync::Arc;

use keel_base::{TreeId, TrxId};

use crate::error::Result;
use crate::options::{EngineConfig, ScanRange, TxnOptions};
use crate::store::{Durability, StoreStatus};
use crate::txn::Txn;

/// The engine over one data folder.
pub struct Engine {
    _private: (),
}

/// A tree, for as long as the caller likes; cheap to clone.
#[derive(Clone)]
pub struct TreeHandle {
    _inner: Arc<()>,
}

impl TreeHandle {
    /// The tree's id.
    pub fn id(&self) -> TreeId {
        unimplemented!()
    }
}

/// Counters of the engine; monotone unless said otherwise.
#[derive(Debug, Clone, Default)]
pub struct EngineStatus {
    /// Read-write transactions in progress (gauge).
    pub trx_active: u64,
    /// Transactions whose undo is not purged (gauge).
    pub history_len: u64,
    /// Row lock waits so far.
    pub lock_waits: u64,
    /// Fibers waiting for a row lock (gauge).
    pub lock_waiting: u64,
    /// Nanoseconds spent waiting for row locks.
    pub lock_wait_nanos: u64,
    /// Deadlocks found.
    pub deadlocks: u64,
    /// Row lock waits that timed out.
    pub lock_timeouts: u64,
    /// Rows read.
    pub rows_read: u64,
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

/// One transaction in progress.
#[derive(Debug, Clone)]
pub struct TrxInfo {
    /// Its id; `None` if it has not written.
    pub id: Option<TrxId>,
    /// Rows changed.
    pub changes: u64,
    /// Row and gap locks held.
    pub locks: u64,
    /// The tree in which it waits for a lock.
    pub waits_in: Option<TreeId>,
    /// Whether recovery or a lost session left it to be rolled back.
    pub rolling_back: bool,
}

/// One lock held or waited for.
#[derive(Debug, Clone)]
pub struct LockInfo {
    /// The tree.
    pub tree: TreeId,
    /// Key of the record, or upper end of the gap (empty: end of the tree).
    pub key: Vec<u8>,
    /// `S`, `X`, `GAP`.
    pub mode: &'static str,
    /// Whether it is held.
    pub granted: bool,
    /// The owner's transaction id, if it has written.
    pub owner: Option<TrxId>,
}

impl Engine {
    /// Opens or creates the data folder; on return committed work is there and unfinished transactions are being
    /// rolled back behind their locks. Waits.
    pub fn open(_config: EngineConfig) -> Result<Arc<Engine>> {
        unimplemented!()
    }
    /// Begins a transaction. Costs next to nothing until it reads or writes.
    pub fn begin(self: &Arc<Self>, _options: TxnOptions) -> Txn {
        unimplemented!()
    }
    /// Creates a tree that exists once `txn` commits; `meta` is the caller's note kept with it. Waits.
    pub fn create_tree(&self, _txn: &mut Txn, _meta: &[u8]) -> Result<TreeId> {
        unimplemented!()
    }
    /// Drops a tree once `txn` commits. The caller makes sure that nobody uses it any more. Waits.
    pub fn drop_tree(&self, _txn: &mut Txn, _tree: TreeId) -> Result<()> {
        unimplemented!()
    }
    /// The tree of that id.
    pub fn tree(&self, _id: TreeId) -> Option<TreeHandle> {
        unimplemented!()
    }
    /// Committed trees with their notes. Waits.
    pub fn trees(&self) -> Result<Vec<(TreeId, Vec<u8>)>> {
        unimplemented!()
    }
    /// Estimated rows in the range. Waits.
    pub fn row_estimate(&self, _tree: &TreeHandle, _range: ScanRange<'_>) -> Result<u64> {
        unimplemented!()
    }
    /// Bytes of the tree's file.
    pub fn tree_bytes(&self, _tree: &TreeHandle) -> u64 {
        unimplemented!()
    }
    /// The tree's persistent counter (AUTO_INCREMENT). Waits.
    pub fn counter(&self, _tree: &TreeHandle) -> Result<u64> {
        unimplemented!()
    }
    /// Raises the counter to at least `to`; after a crash it may be a little higher. Waits.
    pub fn raise_counter(&self, _tree: &TreeHandle, _to: u64) -> Result<()> {
        unimplemented!()
    }
    /// Structural problems of the tree, in words; empty is good. Waits.
    pub fn check_tree(&self, _tree: &TreeHandle) -> Result<Vec<String>> {
        unimplemented!()
    }
    /// Counters.
    pub fn status(&self) -> EngineStatus {
        unimplemented!()
    }
    /// Transactions in progress that hold locks or have written.
    pub fn transactions(&self) -> Vec<TrxInfo> {
        unimplemented!()
    }
    /// Locks held and waited for, at most `limit`.
    pub fn locks(&self, _limit: usize) -> Vec<LockInfo> {
        unimplemented!()
    }
    /// Whether the log has failed: nothing is acknowledged any more, the process should end with the reason.
    pub fn failure(&self) -> Option<String> {
        unimplemented!()
    }
    /// Changes what later commits wait for.
    pub fn set_durability(&self, _durability: Durability) {
        unimplemented!()
    }
    /// Changes how long later transactions wait for row locks by default.
    pub fn set_lock_wait_timeout(&self, _timeout: std::time::Duration) {
        unimplemented!()
    }
    /// Flushes and advances the checkpoint. Waits.
    pub fn checkpoint(&self) -> Result<()> {
        unimplemented!()
    }
    /// Stops purge, flushes all, stops the services. Open transactions must have ended. Waits.
    pub fn shutdown(&self) -> Result<()> {
        unimplemented!()
    }
}

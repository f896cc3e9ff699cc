//! Keys that change in a tree while something is built from it.
//!
//! Who builds an index, or a copy of a table, reads one snapshot and lets others write. A [`Watch`] names the keys that they
//! wrote since, so that the builder can bring what it built up to a later snapshot: it compares both at these keys only.
//! The log of InnoDB's online DDL keeps whole changes in their order; keys are enough where versions are at hand, and a row
//! that changes a thousand times counts once.
//!
//! A key is noted after it was written and before its writer commits. So what a snapshot sees beyond an earlier one is named
//! by the keys taken **after** the snapshot; keys taken may also have changes that it does not see yet.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::engine::TreeHandle;
use crate::error::Result;
use crate::row::Header;
use crate::txn::Txn;

/// What a key costs beside its octets, about.
const KEY_OVERHEAD: usize = 48;

/// Keys of one tree that were written since they were taken last.
pub(crate) struct WatchedKeys {
    keys: Mutex<HashSet<Box<[u8]>>>,
    /// Octets that they take.
    bytes: AtomicUsize,
    /// Octets that they may take; more are lost.
    limit: usize,
}

impl WatchedKeys {
    /// Notes that a transaction has written the row at `key`.
    pub(crate) fn note(&self, key: &[u8]) {
        if self.bytes.load(Ordering::Relaxed) > self.limit {
            return;
        }
        let mut keys = self.keys.lock();
        if !keys.contains(key) {
            self.bytes.fetch_add(cost(key), Ordering::Relaxed);
            keys.insert(key.into());
        }
    }
}

/// What a key takes, about.
fn cost(key: &[u8]) -> usize {
    key.len() + KEY_OVERHEAD
}

/// Watches a tree as long as it lives; one at a time.
pub struct Watch {
    tree: TreeHandle,
    keys: Arc<WatchedKeys>,
}

impl Watch {
    /// Begins to note the keys that are written in `tree`, in up to `limit` octets. Nobody may be writing in it now.
    pub fn new(tree: &TreeHandle, limit: usize) -> Watch {
        let keys = Arc::new(WatchedKeys { keys: Mutex::default(), bytes: AtomicUsize::new(0), limit });
        tree.set_watched(Some(keys.clone()));
        Watch { tree: tree.clone(), keys }
    }

    /// Gives the keys that were written since the last call, in order; none if they were too many to keep.
    pub fn take(&self) -> Option<Vec<Box<[u8]>>> {
        let taken = {
            let mut keys = self.keys.keys.lock();
            // Under the lock: who found them too many has noted nothing.
            if self.keys.bytes.load(Ordering::Relaxed) > self.keys.limit {
                return None;
            }
            self.keys.bytes.store(0, Ordering::Relaxed);
            std::mem::take(&mut *keys)
        };
        let mut taken: Vec<_> = taken.into_iter().collect();
        taken.sort_unstable();
        Some(taken)
    }

    /// Whether a transaction's snapshot sees the newest version of the row at `key`, or that there is none. What a writer in
    /// progress has put there is not looked at: its long values may be gone before they are read. Waits.
    pub fn is_seen(&self, txn: &mut Txn, key: &[u8]) -> Result<bool> {
        txn.take_snapshot();
        let leaf = self.tree.tree().leaf_for_read(key)?;
        let Ok(slot) = leaf.search(key) else { return Ok(true) };
        let (header, _) = Header::split(leaf.value(slot));
        Ok(txn.state.sees(&txn.engine, header.trx))
    }

    /// Whether so many keys as were taken may be kept on beside those to come.
    pub fn bears<'k>(&self, mut kept: impl Iterator<Item = &'k [u8]>) -> bool {
        kept.try_fold(0, |bytes: usize, key| {
            Some(bytes + cost(key)).filter(|bytes| *bytes <= self.keys.limit)
        })
        .is_some()
    }

    /// How many keys there are to take.
    pub fn len(&self) -> usize {
        self.keys.keys.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tree.set_watched(None);
    }
}

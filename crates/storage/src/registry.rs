//! The registry of trees: tree 1, whose rows name all others, each with the note of the layer above; temporary trees are in none.
//!
//! A tree's file is made durable before its row is written, and removed after the removal of its row is durable. So
//! after a crash a file may be there without a row, never a row without a file; such files are removed at start.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keel_base::{TreeId, TrxId};
use keel_runtime::console;
use keel_runtime::fiber;

use crate::engine::{Engine, TreeHandle};
use crate::error::{Error, Result};
use crate::fault::StoreError;
use crate::options::{Insert, Isolation, OnDuplicate, Read, ScanRange, TxnOptions};
use crate::own_trees::REGISTRY;
use crate::row::Header;
use crate::txn::Txn;

/// Ids of temporary trees are used again after two thousand million of them; so many in a row are hardly all in use.
const TEMPORARY_TRIES_MAX: u32 = 1 << 16;

fn key_of(id: TreeId) -> [u8; 4] {
    id.0.to_be_bytes()
}

fn id_of(key: &[u8]) -> Option<TreeId> {
    Some(TreeId(u32::from_be_bytes(key.try_into().ok()?)))
}

impl Engine {
    /// Creates a tree that exists once `txn` commits; `meta` is the caller's note kept with it. The first is tree 2.
    /// Waits.
    pub fn create_tree(&self, txn: &mut Txn, meta: &[u8]) -> Result<TreeId> {
        let id = self.next_tree_id()?;
        let tree = self.store.create_tree(id)?;
        txn.created_tree(id);
        self.trees.write().insert(id, TreeHandle::new_unborn(tree));
        match txn.insert(&self.registry, &key_of(id), meta, OnDuplicate::LockShared)? {
            Insert::Done => Ok(id),
            Insert::Duplicate => {
                let what = format!("tree {id} registered twice");
                Err(Error::Store(StoreError::Corrupt { file: "t1.kt".into(), page: 0, what }))
            }
        }
    }

    /// Creates a temporary tree: only one transaction at a time uses it, nobody else sees it, and nothing of it outlives the
    /// engine. It is in no transaction: it stays until [`Engine::drop_temporary_tree`]. Waits.
    pub fn create_temporary_tree(&self) -> Result<TreeId> {
        for _ in 0..TEMPORARY_TRIES_MAX {
            let number = self.temporary_ids.fetch_add(1, Ordering::Relaxed);
            let id = TreeId(TreeId::TEMPORARY | number);
            if self.tree(id).is_some() {
                continue;
            }
            let tree = self.store.create_temporary_tree(id)?;
            self.trees.write().insert(id, TreeHandle::new(tree));
            return Ok(id);
        }
        Err(Error::TooLarge)
    }

    /// Removes a temporary tree; what a transaction in progress wrote in it is forgotten. Waits.
    pub fn drop_temporary_tree(&self, id: TreeId) {
        assert!(id.is_temporary(), "tree {id} is not temporary");
        self.remove_tree(id);
    }

    /// The tree that an undo record of `trx` speaks of, unless it is gone. Temporary trees of an earlier life are, though
    /// others have their ids by now.
    pub(crate) fn tree_of_change(&self, id: TreeId, trx: TrxId) -> Option<TreeHandle> {
        if id.is_temporary() && trx.0 < self.first_trx {
            return None;
        }
        self.any_tree(id)
    }

    fn next_tree_id(&self) -> Result<TreeId> {
        let _one = self.tree_ids.lock();
        let counter = self.registry.tree().counter(None)?;
        let highest = self.store.tree_ids().iter().map(|id| u64::from(id.0)).max().unwrap_or(0);
        let id = counter.max(highest).max(u64::from(REGISTRY.0)) + 1;
        self.registry.tree().raise_counter(id)?;
        u32::try_from(id).map(TreeId).map_err(|_| Error::TooLarge)
    }

    /// Replaces the note kept with a tree. Waits.
    pub fn set_tree_meta(&self, txn: &mut Txn, id: TreeId, meta: &[u8]) -> Result<()> {
        txn.update(&self.registry, &key_of(id), meta)
    }

    /// Drops a tree once `txn` commits. The caller makes sure that nobody uses it any more. Waits.
    pub fn drop_tree(&self, txn: &mut Txn, id: TreeId) -> Result<()> {
        txn.delete(&self.registry, &key_of(id))?;
        txn.dropped_tree(id);
        Ok(())
    }

    /// Drops trees that nobody uses or will name; what cannot be dropped now, for want of room or since a panic unwinds,
    /// goes when it can be. Waits.
    pub fn abandon_trees(self: &Arc<Self>, trees: &[TreeId]) {
        // A panic must not wait.
        let may_wait = !std::thread::panicking() && fiber::in_fiber();
        if !may_wait || self.drop_trees(trees).is_err() {
            self.purge.abandoned.lock().extend_from_slice(trees);
        }
    }

    fn drop_trees(self: &Arc<Self>, trees: &[TreeId]) -> Result<()> {
        let mut txn = self.begin(TxnOptions::default());
        txn.releases();
        for tree in trees {
            match self.drop_tree(&mut txn, *tree) {
                Ok(()) | Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        txn.commit().map(|_| ())
    }

    /// Tries again to drop what was abandoned.
    pub(crate) fn drop_abandoned(self: &Arc<Self>) -> Result<()> {
        let trees = std::mem::take(&mut *self.purge.abandoned.lock());
        if trees.is_empty() {
            return Ok(());
        }
        let dropped = self.drop_trees(&trees);
        if dropped.is_err() {
            self.purge.abandoned.lock().extend(trees);
        }
        dropped
    }

    /// Committed trees with their notes. Waits.
    pub fn trees(self: &Arc<Self>) -> Result<Vec<(TreeId, Vec<u8>)>> {
        let mut txn = self.begin(TxnOptions {
            isolation: Isolation::ReadCommitted,
            read_only: true,
            ..Default::default()
        });
        let mut scan = txn.scan(&self.registry, ScanRange::ALL, Read::Snapshot)?;
        let mut out = Vec::new();
        while let Some((key, row)) = scan.next(&mut txn)? {
            out.extend(id_of(key).map(|id| (id, row.to_vec())));
        }
        Ok(out)
    }

    /// The tree of that id, the registry included.
    pub(crate) fn any_tree(&self, id: TreeId) -> Option<TreeHandle> {
        if id == REGISTRY { Some(self.registry.clone()) } else { self.tree(id) }
    }

    /// Removes the file of a tree whose row is gone. One that cannot be removed is only in the way, until the next start: what
    /// its removal ends has happened. Waits.
    pub(crate) fn remove_tree(&self, id: TreeId) {
        self.trees.write().remove(&id);
        match self.store.drop_tree(id) {
            Ok(()) | Err(StoreError::NoTree(_)) => {}
            Err(error) => {
                console::warning(format_args!("the file of a dropped tree cannot be removed: {error}"))
            }
        }
    }

    /// Whether the registry has a row for `id` that is, or may yet become, committed. Waits.
    fn is_named(&self, id: TreeId) -> Result<bool> {
        let leaf = self.registry.tree().leaf_for_read(&key_of(id))?;
        let Ok(slot) = leaf.search(&key_of(id)) else { return Ok(false) };
        let (header, _) = Header::split(leaf.value(slot));
        Ok(!header.is_deleted() || self.table.is_active(header.trx))
    }

    /// Removes the files of `suspects` that no row names. Leaves those whose row is of a transaction in progress, and after an
    /// error those not looked at. For trees that nobody is about to name. Waits.
    pub(crate) fn remove_unnamed(&self, suspects: &mut Vec<TreeId>) -> Result<()> {
        let mut undecided = 0;
        while let Some(&id) = suspects.get(undecided) {
            let is_named = self.is_named(id)?;
            if is_named && self.is_undecided(id)? {
                undecided += 1;
                continue;
            }
            if !is_named {
                // What took the name away is to last as long as the file is gone.
                self.store.wait_durable(self.store.current_lsn())?;
                self.remove_tree(id);
            }
            suspects.swap_remove(undecided);
        }
        Ok(())
    }

    fn is_undecided(&self, id: TreeId) -> Result<bool> {
        let leaf = self.registry.tree().leaf_for_read(&key_of(id))?;
        let Ok(slot) = leaf.search(&key_of(id)) else { return Ok(false) };
        Ok(self.table.is_active(Header::split(leaf.value(slot)).0.trx))
    }
}

//! Prepared transactions: their work is done, and somebody else decides whether it counts.
//!
//! A prepare record in the undo log gives the transaction a name, opaque here, and makes it outlive its session, a stop
//! and a crash. From then on it only waits for [`Txn::commit`] or [`Txn::rollback`].
//!
//! 1. Whoever drops a prepared [`Txn`] leaves it to the next start; neither recovery nor the background rolls it back.
//! 2. A rollback takes the prepare record back before it undoes anything. So what recovery finds prepared is whole.
//! 3. The chain of undo records begins where the prepare record says, not at the newest record: what was rolled back to
//!    a savepoint before must not be walked by purge.
//! 4. Unless it is serializable, a transaction that has written gives back what InnoDB gives back: shared row locks, and
//!    gaps that do not end at a row that it holds exclusively. After a restart it holds the rows that it has changed.
//!
//! A transaction that has written nothing leaves no record: it is prepared in memory alone, as in InnoDB.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keel_base::TreeId;

use crate::engine::{Engine, TreeHandle};
use crate::error::Result;
use crate::fault::StoreResult;
use crate::lock_ranges::KeyRanges;
use crate::options::{Isolation, TxnOptions};
use crate::rollback::Writes;
use crate::row::Header;
use crate::tree::LeafRead;
use crate::trx::TrxShared;
use crate::txn::{State, Txn};

/// Longest name of a prepared transaction.
pub const NAME_BYTES_MAX: usize = 255;

/// What recovery found prepared.
pub(crate) struct Recovered {
    /// The name it was given.
    pub(crate) name: Box<[u8]>,
    /// What it has written.
    pub(crate) writes: Writes,
}

impl Txn {
    /// Prepares under `name`, which must be no other's: only commit or rollback may follow. False if nothing was written,
    /// so that nothing will be left of it when it is dropped. Waits until it is as durable as a commit.
    pub fn prepare(&mut self, name: &[u8]) -> Result<bool> {
        self.state.prepare(&self.engine, name)
    }

    /// Says that the session that has prepared it lets it go.
    pub fn set_free(&mut self) {
        if let Some(shared) = &self.state.shared {
            shared.set_free.store(true, Ordering::Relaxed);
        }
        if let Some(owner) = self.state.owner.take() {
            owner.set_transaction(None);
        }
    }

    /// Trees that it has changed. Waits for its undo records.
    pub fn changed_trees(&self) -> Result<Vec<TreeId>> {
        match &self.state.writes {
            Some(writes) => writes.changed_trees(&self.engine),
            None => Ok(Vec::new()),
        }
    }
}

impl Engine {
    /// Hands out the transactions that were prepared when the engine was opened, with their names; once.
    pub fn take_prepared(self: &Arc<Self>) -> Vec<(Box<[u8]>, Txn)> {
        let recovered = std::mem::take(&mut *self.prepared.lock());
        recovered.into_iter().map(|found| (found.name, self.prepared_txn(found.writes))).collect()
    }

    fn prepared_txn(self: &Arc<Self>, writes: Writes) -> Txn {
        let mut txn = Txn::new(self.clone(), TxnOptions::default());
        txn.state.shared = Some(writes.shared.clone());
        txn.state.writes = Some(writes);
        txn
    }
}

impl State {
    fn prepare(&mut self, engine: &Engine, name: &[u8]) -> Result<bool> {
        assert!(!name.is_empty() && name.len() <= NAME_BYTES_MAX, "name of {} bytes", name.len());
        self.release_snapshot(engine);
        self.leave(engine);
        let Some(writes) = self.writes.as_mut().filter(|writes| writes.start.is_some()) else {
            return Ok(false);
        };
        let lsn = writes.write_prepare(engine, name)?;
        writes.prepared = true;
        writes.shared.prepared.store(true, Ordering::Relaxed);
        engine.store.wait_commit(lsn)?;
        if self.isolation != Isolation::Serializable {
            engine.release_on_prepare(&writes.shared)?;
        }
        Ok(true)
    }
}

impl Engine {
    fn release_on_prepare(&self, me: &Arc<TrxShared>) -> Result<()> {
        self.locks.release_shared(me);
        let trees = me.held.lock().gaps();
        for gaps in trees {
            let mut kept = KeyRanges::default();
            if let Some(tree) = self.any_tree(gaps.tree()) {
                for range in gaps.ranges_of(me) {
                    if let Some(high) = self.last_own(me, &tree, &range.low, range.high.as_deref())? {
                        kept.add(&range.low, Some(&high));
                    }
                }
            }
            gaps.shrink(me, kept);
        }
        Ok(())
    }

    /// The last row at or below `high` if it lies above `low` and `me` holds it exclusively. Waits for pages.
    fn last_own(
        &self,
        me: &Arc<TrxShared>,
        tree: &TreeHandle,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> StoreResult<Option<Vec<u8>>> {
        let owns = |leaf: &LeafRead<'_>, slot: usize, key: &[u8]| {
            Header::split(leaf.value(slot)).0.trx == me.id() || self.locks.has_exclusive(me, tree.id(), key)
        };
        if let Some(high) = high {
            let leaf = tree.tree().leaf_for_read(high)?;
            if leaf.search(high).is_ok_and(|slot| owns(&leaf, slot, high)) {
                return Ok(Some(high.to_vec()));
            }
        }
        let leaf = match high {
            Some(high) => tree.tree().leaf_before(high)?,
            None => tree.tree().last_leaf()?,
        };
        let end = high.map_or(leaf.len(), |high| leaf.search(high).unwrap_or_else(|slot| slot));
        let Some(slot) = end.checked_sub(1) else { return Ok(None) };
        let mut key = Vec::new();
        leaf.key(slot, &mut key);
        Ok((*key > *low && owns(&leaf, slot, &key)).then_some(key))
    }
}

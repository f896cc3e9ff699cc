//! Point reads.
//!
//! A plain read looks at the newest entry under the leaf's latch; if its snapshot does not see that, it copies it and
//! follows the undo records back ([`crate::version`]), with no latch held but that of one undo page at a time. The
//! registered snapshot keeps those records. A locking read decides about the lock under the leaf's latch ([`crate::lock`]), waits without
//! it, and then looks at the row again.

use std::sync::Arc;

use keel_base::TrxId;

use crate::engine::{Engine, TreeHandle};
use crate::error::{Error, Result};
use crate::lock::{Ask, IfTaken};
use crate::options::{Isolation, LockMode, Wait};
use crate::rollback::overflow_ref;
use crate::row::Header;
use crate::tree::LeafRead;
use crate::txn::State;

/// What became of asking for a row under its leaf's latch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowLock {
    /// It may be read or written; whether a new entry in the lock table says so.
    Mine(bool),
    /// Queued: give up the latch and wait.
    Wait,
    /// Not free, and nobody waits for it.
    Taken,
    /// Look at the row again.
    Again,
}

/// A key that follows `key` at once: from an excluded bound to an included one.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl State {
    /// This transaction's id, 0 (nobody's) before its first write.
    #[inline]
    pub(crate) fn own_id(&self) -> TrxId {
        self.writes.as_ref().map_or(TrxId(0), |writes| writes.id)
    }

    /// Whether a plain read sees what `trx` wrote. The snapshot is taken.
    #[inline]
    pub(crate) fn sees(&self, engine: &Engine, trx: TrxId) -> bool {
        let Some(snapshot) = &self.snapshot else { return true };
        if trx == self.seen_writer.get() || trx == self.own_id() {
            return true;
        }
        let sees = engine.snapshots.sees(snapshot, &engine.table, trx);
        if sees {
            self.seen_writer.set(trx);
        }
        sees
    }

    pub(crate) fn get<R>(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        if self.isolation != Isolation::ReadUncommitted && !tree.is_temporary() {
            self.take_snapshot(engine);
            self.check_known(tree)?;
        }
        let leaf = tree.tree().leaf_for_read(key)?;
        let Ok(slot) = leaf.search(key) else { return Ok(None) };
        let (header, row) = Header::split(leaf.value(slot));
        if tree.is_temporary() || self.sees(engine, header.trx) {
            if header.is_deleted() {
                return Ok(None);
            }
            self.counts.read += 1;
            if !header.is_overflow() {
                return Ok(Some(f(row)));
            }
        } else if header.is_fresh() {
            return Ok(None);
        }
        let mut row = row.to_vec();
        drop(leaf);
        let header = match tree.is_temporary() {
            true => Some(header),
            false => self.version_for(engine, header, &mut row)?,
        };
        let Some(header) = header else { return Ok(None) };
        match load_overflow(self, tree, header, &mut row) {
            Err(_) if self.is_outrun(tree, key, header)? => self.get(engine, tree, key, f),
            loaded => loaded.map(|()| Some(f(&row))),
        }
    }

    /// Whether the entry with this header is not at `key` any more, so that its long value may be gone: READ UNCOMMITTED has
    /// no snapshot that keeps it. Who failed to read that looks again. Waits.
    pub(crate) fn is_outrun(&self, tree: &TreeHandle, key: &[u8], header: Header) -> Result<bool> {
        if self.isolation != Isolation::ReadUncommitted || tree.is_temporary() {
            return Ok(false);
        }
        let leaf = tree.tree().leaf_for_read(key)?;
        let Ok(slot) = leaf.search(key) else { return Ok(true) };
        let (now, _) = Header::split(leaf.value(slot));
        Ok((now.trx, now.undo) != (header.trx, header.undo))
    }

    /// Refuses a tree that came into use after the snapshot.
    #[inline]
    pub(crate) fn check_known(&self, tree: &TreeHandle) -> Result<()> {
        match &self.snapshot {
            Some(snapshot) if !tree.is_known_at(snapshot.csn) => Err(Error::TreeChanged),
            _ => Ok(()),
        }
    }

    /// Passes over a row whose deletion is over; under snapshot isolation that is an error if the snapshot does not see it.
    #[inline]
    pub(crate) fn pass_deleted(&self, engine: &Engine, tree: &TreeHandle, header: Header) -> Result<()> {
        match self.snapshot_isolation && !tree.is_temporary() && !self.sees(engine, header.trx) {
            true => Err(Error::RecordChanged),
            false => Ok(()),
        }
    }

    /// Asks for a row's lock under its leaf's latch. Without `entry` the row may be had without an entry in the lock
    /// table if nobody else is there: enough for a writer, whose id in the row will be the lock.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn lock_row(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        key: &[u8],
        header: Header,
        mode: LockMode,
        entry: bool,
        if_taken: IfTaken,
    ) -> Result<RowLock> {
        if tree.is_temporary() || header.trx == self.own_id() && header.trx.0 != 0 {
            return Ok(RowLock::Mine(false));
        }
        let is_active = engine.table.is_active(header.trx);
        if !is_active {
            self.note_seen(engine, header.trx);
        }
        let me = self.shared();
        let ask = if is_active {
            // Not in the set: it has just ended.
            let Some(writer) = engine.active.get(header.trx) else { return Ok(RowLock::Again) };
            engine.locks.ask(me, tree.id(), key, mode, Some(&writer), if_taken)
        } else if entry || engine.locks.is_contended(Some(me), tree.id(), key) {
            engine.locks.ask(me, tree.id(), key, mode, None, if_taken)
        } else if self.snapshot_isolation && !self.sees(engine, header.trx) {
            return Err(Error::RecordChanged);
        } else {
            return Ok(RowLock::Mine(false));
        };
        if self.snapshot_isolation
            && matches!(ask, Ask::Granted | Ask::Held)
            && !self.sees(engine, header.trx)
        {
            return Err(Error::RecordChanged);
        }
        Ok(match ask {
            Ask::Granted => RowLock::Mine(true),
            Ask::Held => RowLock::Mine(false),
            Ask::Queued => RowLock::Wait,
            Ask::Refused => RowLock::Taken,
            Ask::Changed => RowLock::Again,
        })
    }

    /// Keeps others from inserting around the place in `leaf` where `key` is not: between the entries below and at
    /// `slot`, or the leaf's fences.
    pub(crate) fn lock_gap_at(&mut self, tree: &TreeHandle, leaf: &LeafRead<'_>, slot: usize) {
        let mut high = Vec::new();
        let high = if slot < leaf.len() {
            leaf.key(slot, &mut high);
            Some(high.as_slice())
        } else {
            leaf.high_fence()
        };
        let me = self.shared().clone();
        tree.gaps().lock(&me, &leaf.gap_low(slot), high);
    }

    pub(crate) fn get_locked<R>(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        key: &[u8],
        mode: LockMode,
        wait: Wait,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let if_taken = if_taken(wait);
        let mut waited = false;
        loop {
            self.bound_locks(engine);
            let leaf = tree.tree().leaf_for_read(key)?;
            let slot = match leaf.search(key) {
                Ok(slot) => slot,
                Err(slot) => {
                    if self.isolation.locks_gaps() {
                        self.lock_gap_at(tree, &leaf, slot);
                    } else if waited {
                        self.unlock_row(engine, tree, key);
                    }
                    return Ok(None);
                }
            };
            let (header, row) = Header::split(leaf.value(slot));
            if header.is_deleted() && !engine.table.is_active(header.trx) && header.trx != self.own_id() {
                self.pass_deleted(engine, tree, header)?;
                self.note_seen(engine, header.trx);
                if self.isolation.locks_gaps() {
                    self.lock_gap_around(tree, &leaf, slot);
                } else if waited {
                    self.unlock_row(engine, tree, key);
                }
                return Ok(None);
            }
            match self.lock_row(engine, tree, key, header, mode, true, if_taken)? {
                RowLock::Mine(_) if header.is_deleted() => {
                    if tree.is_temporary() || header.trx == self.own_id() {
                        return Ok(None);
                    }
                    // Who deleted it has ended since that was asked above.
                    drop(leaf);
                }
                RowLock::Mine(_) => {
                    self.counts.read += 1;
                    if !header.is_overflow() {
                        return Ok(Some(f(row)));
                    }
                    let mut row = row.to_vec();
                    drop(leaf);
                    load_overflow(self, tree, header, &mut row)?;
                    return Ok(Some(f(&row)));
                }
                RowLock::Wait => {
                    drop(leaf);
                    waited = true;
                    self.wait(engine, wait)?;
                }
                RowLock::Taken if wait == Wait::SkipLocked => return Ok(None),
                RowLock::Taken => return Err(Error::LockNotAvailable),
                RowLock::Again => drop(leaf),
            }
        }
    }

    /// Keeps others from inserting around and at the deleted entry in `slot`.
    fn lock_gap_around(&mut self, tree: &TreeHandle, leaf: &LeafRead<'_>, slot: usize) {
        self.lock_gap_at(tree, leaf, slot);
        let me = self.shared().clone();
        let mut key = Vec::new();
        leaf.key(slot, &mut key);
        let mut next = Vec::new();
        if slot + 1 < leaf.len() {
            leaf.key(slot + 1, &mut next);
            tree.gaps().lock(&me, &key, Some(&next));
        } else {
            tree.gaps().lock(&me, &key, leaf.high_fence());
        }
    }

    /// Releases a lock just taken on a row that turned out not to matter, where the isolation level allows.
    pub(crate) fn unlock_row(&mut self, engine: &Engine, tree: &TreeHandle, key: &[u8]) {
        if !self.isolation.locks_gaps() {
            let me: Arc<_> = self.shared().clone();
            engine.locks.give_back(&me, tree.id(), key);
        }
    }
}

/// What to do about a taken row under this waiting policy.
pub(crate) fn if_taken(wait: Wait) -> IfTaken {
    match wait {
        Wait::NoWait | Wait::SkipLocked => IfTaken::Refuse,
        Wait::Default | Wait::Timeout(_) => IfTaken::Queue,
    }
}

/// Replaces an overflow reference in `row` by the row itself. Waits.
pub(crate) fn load_overflow(
    state: &State,
    tree: &TreeHandle,
    header: Header,
    row: &mut Vec<u8>,
) -> Result<()> {
    if header.is_overflow() {
        let at = overflow_ref(tree.id(), row)?;
        if state.owner.as_ref().is_some_and(|owner| !owner.admits(at.len.into())) {
            return Err(Error::Interrupted);
        }
        row.clear();
        tree.tree().read_overflow(at, row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use keel_runtime::sim::{self, Options};

    use super::*;
    use crate::options::{EngineConfig, OnDuplicate, Read, ScanRange, TxnOptions};

    #[test]
    fn what_was_taken_back_meanwhile_is_not_the_committed_version() {
        sim::run(Options::new(1), || {
            let engine = Engine::open(EngineConfig::new("/data")).unwrap();
            let options = TxnOptions { isolation: Isolation::ReadCommitted, ..TxnOptions::default() };
            let (mut writer, mut reader) = (engine.begin(options.clone()), engine.begin(options));
            let id = engine.create_tree(&mut writer, b"").unwrap();
            let tree = engine.tree(id).unwrap();
            for key in [b"a", b"b"] {
                writer.insert(&tree, key, b"committed", OnDuplicate::LockShared).unwrap();
            }
            writer.commit().unwrap();
            writer.update(&tree, b"a", b"first").unwrap();
            writer.update(&tree, b"a", b"second").unwrap();
            writer.delete(&tree, b"b").unwrap();
            writer.insert(&tree, b"c", b"new", OnDuplicate::LockShared).unwrap();
            reader.take_snapshot();
            let entries = [b"a", b"b", b"c"].map(|key| {
                let leaf = tree.tree().leaf_for_read(key).unwrap();
                let (header, row) = Header::split(leaf.value(leaf.search(key).unwrap()));
                assert!(engine.table.is_active(header.trx));
                (header, row.to_vec())
            });
            writer.rollback().unwrap();
            let found = entries.map(|(header, mut row)| {
                let committed = reader.state.committed_version(&engine, header, true, &mut row).unwrap();
                committed.map(|_| row)
            });
            assert_eq!(found, [Some(b"committed".to_vec()), Some(b"committed".to_vec()), None]);
            drop(reader);
            engine.shutdown().unwrap();
        })
        .done();
    }

    #[test]
    fn a_long_value_that_was_taken_back_meanwhile_is_not_read() {
        sim::run(Options::new(2), || {
            let engine = Engine::open(EngineConfig::new("/data")).unwrap();
            let dirty = TxnOptions { isolation: Isolation::ReadUncommitted, ..TxnOptions::default() };
            let (mut writer, mut reader) = (engine.begin(TxnOptions::default()), engine.begin(dirty));
            let id = engine.create_tree(&mut writer, b"").unwrap();
            let tree = engine.tree(id).unwrap();
            for key in [b"a", b"b", b"d"] {
                writer.insert(&tree, key, b"committed", OnDuplicate::LockShared).unwrap();
            }
            writer.commit().unwrap();
            writer.update(&tree, b"b", &[7; 100_000]).unwrap();
            writer.insert(&tree, b"c", &[8; 100_000], OnDuplicate::LockShared).unwrap();
            let mut scan = reader.scan(&tree, ScanRange::ALL, Read::Snapshot).unwrap();
            let mut next = || scan.next(&mut reader).unwrap().map(|(key, row)| (key.to_vec(), row.to_vec()));
            let row = |key: &[u8]| Some((key.to_vec(), b"committed".to_vec()));
            assert_eq!(next(), row(b"a"));
            writer.rollback().unwrap();
            assert_eq!([next(), next(), next()], [row(b"b"), row(b"d"), None]);
            drop(reader);
            engine.shutdown().unwrap();
        })
        .done();
    }
}

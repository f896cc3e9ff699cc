//! Gap locks: ranges of keys into which others must not insert.
//!
//! Where InnoDB hangs a gap on the record above it and moves it when records come and go, Keel keeps the range itself,
//! `[low, high)`, per tree. So an insert inside a locked gap by its owner, a split, or the purge of the record at its
//! end changes nothing and forgets nothing. A scan holds one range and lets it grow. Gap locks never wait and never
//! conflict with each other; only inserts wait for them. `low` comes from an excluded key by appending a zero byte.
//!
//! A range is entered while the leaf that holds it is latched, and an insert looks here while it latches that leaf
//! exclusively. Ranges end with their transaction. Of each transaction there is a bounded number in a tree: beyond it the
//! nearest become one ([`crate::lock_ranges`]), which keeps others from more places than was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use keel_base::TreeId;
use keel_runtime::fiber::Fiber;
use parking_lot::Mutex;

use crate::lock_ranges::{KeyRange, KeyRanges};
use crate::lock_wait::WaitTarget;
use crate::options::LockMode;
use crate::report::{LockInfo, LockKind};
use crate::trx::TrxShared;

/// The gap locks of one tree.
pub(crate) struct TreeGaps {
    tree: TreeId,
    /// Number of transactions with ranges, read without the mutex.
    count: AtomicUsize,
    inner: Mutex<Inner>,
}

/// Ranges in one tree, about, and those of one transaction at least and at most.
const RANGES_MAX: usize = 64 << 10;
const OWN_RANGES_MIN: usize = 32;
const OWN_RANGES_MAX: usize = 4 << 10;

#[derive(Default)]
struct Inner {
    owners: Vec<Owner>,
    waiters: Vec<Waiter>,
}

struct Owner {
    trx: Arc<TrxShared>,
    ranges: KeyRanges,
}

struct Waiter {
    trx: Arc<TrxShared>,
    key: Box<[u8]>,
}

impl Inner {
    fn is_blocked(&self, trx: &Arc<TrxShared>, key: &[u8]) -> bool {
        self.owners.iter().any(|owner| !Arc::ptr_eq(&owner.trx, trx) && owner.ranges.covers(key))
    }

    fn ranges_of(&mut self, me: &Arc<TrxShared>) -> Option<&mut KeyRanges> {
        self.owners.iter_mut().find(|owner| Arc::ptr_eq(&owner.trx, me)).map(|owner| &mut owner.ranges)
    }
}

impl TreeGaps {
    /// No gap locks.
    pub(crate) fn new(tree: TreeId) -> Arc<TreeGaps> {
        Arc::new(TreeGaps { tree, count: AtomicUsize::new(0), inner: Mutex::default() })
    }

    /// The tree.
    pub(crate) fn tree(&self) -> TreeId {
        self.tree
    }

    /// Locks `[low, high)` for `me`. Ranges of `me` that it touches become one with it; so do ranges parted by a
    /// single key, which is a row that `me` has locked. Call with the leaf latched.
    pub(crate) fn lock(self: &Arc<Self>, me: &Arc<TrxShared>, low: &[u8], high: Option<&[u8]>) {
        if high.is_some_and(|high| high <= low) {
            return;
        }
        let mut inner = self.inner.lock();
        let room = (RANGES_MAX / (inner.owners.len() + 1)).clamp(OWN_RANGES_MIN, OWN_RANGES_MAX);
        if inner.ranges_of(me).is_none() {
            inner.owners.push(Owner { trx: me.clone(), ranges: KeyRanges::default() });
            self.count.store(inner.owners.len(), Ordering::Release);
            me.held.lock().add_gaps(self);
        }
        if let Some(ranges) = inner.ranges_of(me) {
            ranges.add(low, high);
            if ranges.len() > room {
                ranges.coarsen(room / 2);
            }
        }
    }

    /// Whether `me` may insert `key` now; if not, it is entered as waiting. Call with the leaf latched exclusively.
    #[inline]
    pub(crate) fn may_insert(self: &Arc<Self>, me: &Arc<TrxShared>, key: &[u8]) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return true;
        }
        let mut inner = self.inner.lock();
        if !inner.is_blocked(me, key) {
            return true;
        }
        me.wait.start(WaitTarget::Gap { gaps: self.clone(), key: key.into() });
        inner.waiters.push(Waiter { trx: me.clone(), key: key.into() });
        false
    }

    /// Takes back an entry made by [`TreeGaps::may_insert`].
    pub(crate) fn withdraw(&self, me: &Arc<TrxShared>) {
        self.inner.lock().waiters.retain(|waiter| !Arc::ptr_eq(&waiter.trx, me));
    }

    /// The ranges of `me`.
    pub(crate) fn ranges_of(&self, me: &Arc<TrxShared>) -> Vec<KeyRange> {
        let mut inner = self.inner.lock();
        inner.ranges_of(me).map(|ranges| ranges.iter().cloned().collect()).unwrap_or_default()
    }

    /// Releases the ranges of `me`; inserts that nothing blocks any more go on.
    pub(crate) fn release(&self, me: &Arc<TrxShared>) {
        self.shrink(me, KeyRanges::default());
    }

    /// Leaves `me` no more than `kept`, which its ranges cover; inserts that nothing blocks any more go on.
    pub(crate) fn shrink(&self, me: &Arc<TrxShared>, kept: KeyRanges) {
        let mut wake: Vec<Fiber> = Vec::new();
        let mut inner = self.inner.lock();
        if kept.len() == 0 {
            inner.owners.retain(|owner| !Arc::ptr_eq(&owner.trx, me));
        } else if let Some(ranges) = inner.ranges_of(me) {
            *ranges = kept;
        }
        self.count.store(inner.owners.len(), Ordering::Release);
        let mut waiters = std::mem::take(&mut inner.waiters);
        waiters.retain(|waiter| {
            if inner.is_blocked(&waiter.trx, &waiter.key) {
                return true;
            }
            wake.extend(waiter.trx.wait.grant().flatten());
            false
        });
        inner.waiters = waiters;
        drop(inner);
        keel_runtime::fiber::wake_many(&mut wake);
    }

    /// The transactions that keep `me` from inserting `key`.
    pub(crate) fn blockers(&self, me: &Arc<TrxShared>, key: &[u8], out: &mut Vec<Arc<TrxShared>>) {
        let inner = self.inner.lock();
        let blocks = |owner: &&Owner| !Arc::ptr_eq(&owner.trx, me) && owner.ranges.covers(key);
        out.extend(inner.owners.iter().filter(blocks).map(|owner| owner.trx.clone()));
    }

    /// The upper end of the range of `owner` that keeps others from inserting `key`, empty at the end of the tree.
    pub(crate) fn end_of(&self, owner: &Arc<TrxShared>, key: &[u8]) -> Option<Vec<u8>> {
        let mut inner = self.inner.lock();
        let range = inner.ranges_of(owner)?.covering(key)?;
        Some(range.high.as_deref().unwrap_or_default().to_vec())
    }

    /// Ranges held and inserts waiting.
    pub(crate) fn list(&self, limit: usize, out: &mut Vec<LockInfo>) {
        let inner = self.inner.lock();
        let info = |trx: &Arc<TrxShared>, key: Vec<u8>, granted| LockInfo {
            tree: self.tree,
            key,
            kind: if granted { LockKind::Gap } else { LockKind::Insert },
            mode: LockMode::Exclusive,
            granted,
            owner: trx.number(),
        };
        let end = |high: &Option<Box<[u8]>>| high.as_deref().unwrap_or_default().to_vec();
        let all = inner.owners.iter().flat_map(|owner| owner.ranges.iter().map(|range| (&owner.trx, range)));
        let held = all.map(|(trx, range)| info(trx, end(&range.high), true));
        let waiting = inner.waiters.iter().map(|w| info(&w.trx, w.key.to_vec(), false));
        let room = limit.saturating_sub(out.len());
        out.extend(held.chain(waiting).take(room));
    }
}

//! Gap locks: ranges of keys into which others must not insert.
//!
//! Where InnoDB hangs a gap on the record above it and moves it when records come and go, Keel keeps the range itself,
//! `[low, high)`, per tree. So an insert inside a locked gap by its owner, a split, or the purge of the record at its
//! end changes nothing and forgets nothing. A scan holds one range and lets it grow. Gap locks never wait and never
//! conflict with each other; only inserts wait for them. `low` comes from an excluded key by appending a zero byte.
//!
//! A range is entered while the leaf that holds it is latched, and an insert looks here while it latches that leaf
//! exclusively. Ranges end with their transaction. The list is searched from end to end: it is as long as the ranges
//! held in this tree, of which transactions that touch neighbouring keys share one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use keel_base::TreeId;
use keel_runtime::fiber::Fiber;
use parking_lot::Mutex;

use crate::engine::LockInfo;
use crate::lock_wait::WaitTarget;
use crate::trx::TrxShared;

/// The gap locks of one tree.
pub(crate) struct TreeGaps {
    tree: TreeId,
    /// Number of ranges, read without the mutex.
    count: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    ranges: Vec<Range>,
    waiters: Vec<Waiter>,
}

struct Range {
    owner: Arc<TrxShared>,
    low: Vec<u8>,
    /// `None`: to the end of the tree.
    high: Option<Vec<u8>>,
}

struct Waiter {
    trx: Arc<TrxShared>,
    key: Box<[u8]>,
}

impl Range {
    fn contains(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.high.as_deref().is_none_or(|high| key < high)
    }

    /// Whether `[low, high)` lies within, touches, or follows after one key in between.
    fn joins(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        let reaches = |end: Option<&[u8]>, start: &[u8]| match end {
            None => true,
            Some(end) => {
                start <= end
                    || (start.len() == end.len() + 1 && start.ends_with(&[0]) && start.starts_with(end))
            }
        };
        reaches(self.high.as_deref(), low) && reaches(high, &self.low)
    }
}

impl Inner {
    fn is_blocked(&self, trx: &Arc<TrxShared>, key: &[u8]) -> bool {
        self.ranges.iter().any(|range| range.contains(key) && !Arc::ptr_eq(&range.owner, trx))
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
        let joined = inner.ranges.iter_mut().rev().find(|r| Arc::ptr_eq(&r.owner, me) && r.joins(low, high));
        match joined {
            Some(range) => range.widen(low, high),
            None => {
                let range = Range { owner: me.clone(), low: low.to_vec(), high: high.map(<[u8]>::to_vec) };
                inner.ranges.push(range);
                self.count.store(inner.ranges.len(), Ordering::Release);
                me.held.lock().add_gaps(self);
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

    /// Releases the ranges of `me`; inserts that nothing blocks any more go on.
    pub(crate) fn release(&self, me: &Arc<TrxShared>) {
        let mut wake: Vec<Fiber> = Vec::new();
        let mut inner = self.inner.lock();
        inner.ranges.retain(|range| !Arc::ptr_eq(&range.owner, me));
        self.count.store(inner.ranges.len(), Ordering::Release);
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
        let blocks = |range: &&Range| range.contains(key) && !Arc::ptr_eq(&range.owner, me);
        out.extend(inner.ranges.iter().filter(blocks).map(|range| range.owner.clone()));
    }

    /// Ranges held and inserts waiting.
    pub(crate) fn list(&self, limit: usize, out: &mut Vec<LockInfo>) {
        let inner = self.inner.lock();
        let info = |trx: &Arc<TrxShared>, key: Vec<u8>, granted| LockInfo {
            tree: self.tree,
            key,
            mode: "GAP",
            granted,
            owner: Some(trx.id()).filter(|id| id.0 != 0),
        };
        let held = inner.ranges.iter().map(|r| info(&r.owner, r.high.clone().unwrap_or_default(), true));
        let waiting = inner.waiters.iter().map(|w| info(&w.trx, w.key.to_vec(), false));
        let room = limit.saturating_sub(out.len());
        out.extend(held.chain(waiting).take(room));
    }
}

impl Range {
    fn widen(&mut self, low: &[u8], high: Option<&[u8]>) {
        if low < self.low.as_slice() {
            self.low = low.to_vec();
        }
        let further = match (&self.high, high) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(old), Some(new)) => new > old.as_slice(),
        };
        if further {
            match (&mut self.high, high) {
                (Some(old), Some(new)) => {
                    old.clear();
                    old.extend_from_slice(new);
                }
                (old, new) => *old = new.map(<[u8]>::to_vec),
            }
        }
    }
}

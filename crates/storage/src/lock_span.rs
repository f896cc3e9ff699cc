//! Spans: the row locks of a transaction that has very many, as ranges of keys.
//!
//! A transaction that holds more row locks than it may keep as entries folds those that nobody else asks for into
//! spans, few enough to be bounded. A span also covers keys between the rows that it was made from, so it claims more
//! than its owner holds. What makes that safe:
//!
//! 1. Whoever asks for a row looks here after its queue. A claim that stands in its way is entered into the queue as
//!    its owner's lock, as that of a writer is, and waited for there.
//! 2. A claim on a row of which another transaction holds a lock in conflict, or waits for one, is void: had the owner held
//!    the row, that lock would not have been granted, and whoever waits would have entered the owner's. So a claim never
//!    keeps anybody from what is theirs or comes in front of those who wait, nor does it give the owner anything.
//! 3. Spans of different owners that conflict do not overlap, so no two claims deny each other.
//! 4. The owner has a row by its span only if nobody stands in the row's queue; else it asks as everybody does.
//!
//! So what is wrong with a span is only that others wait for rows that its owner passed over. New keys may be inserted
//! into a span: that is for gap locks to say. Order of mutexes: partition, spans, `Held`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use keel_base::TreeId;
use parking_lot::RwLock;

use crate::lock_ranges::KeyRanges;
use crate::options::LockMode;
use crate::report::{LockInfo, LockKind};
use crate::trx::TrxShared;

/// Ranges of all transactions together, about.
const RANGES_MAX: usize = 32 << 10;
/// Ranges of one transaction in one tree where there are very many.
const OWN_RANGES_MIN: usize = 16;

/// The spans of all transactions.
pub(crate) struct Spans {
    /// Ranges of one transaction in one tree.
    own_ranges_max: usize,
    /// Number of entries in `list`, read without the mutex.
    count: AtomicUsize,
    list: RwLock<Vec<Span>>,
}

/// The rows that one transaction has locked in one tree and mode.
struct Span {
    owner: Arc<TrxShared>,
    tree: TreeId,
    mode: LockMode,
    ranges: KeyRanges,
}

/// Whether two locks on a row exclude each other.
pub(crate) fn conflict(a: LockMode, b: LockMode) -> bool {
    a == LockMode::Exclusive || b == LockMode::Exclusive
}

impl Spans {
    /// No spans.
    pub(crate) fn new(own_ranges_max: usize) -> Spans {
        Spans { own_ranges_max, count: AtomicUsize::new(0), list: RwLock::default() }
    }

    /// Whether there are none, so that nothing here need be looked at.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Calls `f` with owner and mode of each span that covers `key`, until it says no.
    pub(crate) fn each(
        &self,
        tree: TreeId,
        key: &[u8],
        mut f: impl FnMut(&Arc<TrxShared>, LockMode) -> bool,
    ) -> bool {
        let list = self.list.read();
        let mut covering = list.iter().filter(|span| span.tree == tree && span.ranges.covers(key));
        covering.all(|span| f(&span.owner, span.mode))
    }

    /// Whether a span of another covers `key`.
    pub(crate) fn others_cover(&self, me: Option<&Arc<TrxShared>>, tree: TreeId, key: &[u8]) -> bool {
        !self.each(tree, key, |owner, _| me.is_some_and(|me| Arc::ptr_eq(me, owner)))
    }

    /// Covers `keys`, which `me` holds in `mode` and which are in order. False if a span of another that conflicts lies
    /// among them, so that nothing is covered.
    pub(crate) fn cover(&self, me: &Arc<TrxShared>, tree: TreeId, mode: LockMode, keys: &[&[u8]]) -> bool {
        let mut list = self.list.write();
        let total: usize = list.iter().map(|span| span.ranges.len()).sum();
        let room = RANGES_MAX.saturating_sub(total).max(OWN_RANGES_MIN).min(self.own_ranges_max);
        let mut fresh = KeyRanges::default();
        let mut end = Vec::new();
        for key in keys {
            end.clear();
            end.extend_from_slice(key);
            end.push(0);
            fresh.add(key, Some(&end));
        }
        let mine = |span: &Span| Arc::ptr_eq(&span.owner, me) && span.tree == tree && span.mode == mode;
        let known = list.iter().position(mine);
        if let Some(known) = known {
            list[known].ranges.iter().for_each(|range| fresh.add(&range.low, range.high.as_deref()));
        }
        fresh.coarsen(room);
        let denies = |span: &Span| {
            span.tree == tree
                && !Arc::ptr_eq(&span.owner, me)
                && conflict(span.mode, mode)
                && fresh.iter().any(|range| span.ranges.overlaps(&range.low, range.high.as_deref()))
        };
        if list.iter().any(denies) {
            return false;
        }
        match known {
            Some(known) => list[known].ranges = fresh,
            None => list.push(Span { owner: me.clone(), tree, mode, ranges: fresh }),
        }
        self.count.store(list.len(), Ordering::Release);
        true
    }

    /// All of them, by their first keys, as far as `out` has no more than `limit`.
    pub(crate) fn list(&self, limit: usize, out: &mut Vec<LockInfo>) {
        for span in self.list.read().iter() {
            let room = limit.saturating_sub(out.len());
            out.extend(span.ranges.iter().take(room).map(|range| LockInfo {
                tree: span.tree,
                key: range.low.to_vec(),
                kind: LockKind::Row,
                mode: span.mode,
                granted: true,
                owner: span.owner.number(),
            }));
        }
    }

    /// Removes the spans of `me`.
    pub(crate) fn release(&self, me: &Arc<TrxShared>) {
        self.retain(|span| !Arc::ptr_eq(&span.owner, me));
    }

    /// Removes those of `me` that are shared.
    pub(crate) fn release_shared(&self, me: &Arc<TrxShared>) {
        self.retain(|span| span.mode == LockMode::Exclusive || !Arc::ptr_eq(&span.owner, me));
    }

    fn retain(&self, stays: impl Fn(&Span) -> bool) {
        if self.is_empty() {
            return;
        }
        let mut list = self.list.write();
        list.retain(stays);
        self.count.store(list.len(), Ordering::Release);
    }
}

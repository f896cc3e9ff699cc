//! Row locks: by key, in a partitioned table.
//!
//! A row that a transaction in progress has written is locked by the id in the row and has no entry here, until
//! somebody must wait for it and enters the lock on the writer's behalf. Entries exist for locking reads, for rows
//! found duplicate, and for waits. Gaps are in [`crate::lock_gap`], waiting and deadlocks in [`crate::lock_wait`]. A
//! transaction with very many entries folds them into [`crate::lock_span`]; the entry of a row that it then wrote goes.
//!
//! Invariants
//! 1. A request is entered while the leaf that holds (or would hold) the key is latched, and a writer looks here while
//!    it latches that leaf exclusively: so neither misses the other.
//! 2. A request waits only for granted locks and for requests before it that conflict. So does one whose owner holds the row
//!    shared and asks for exclusive: with who waits for that share it is a deadlock, as in InnoDB.
//! 3. Every entry of a transaction is listed in its [`Held`], so that the end of the transaction finds it. `ended` is
//!    set before the list is emptied: nobody enters a lock for a transaction that is gone.
//! 4. Order of mutexes: partition, spans, `Held`. An entry that goes before its owner ends is struck from `Held` under the
//!    partition's mutex: else a fold could make one note of it and of an entry made anew, and that would go.
//! 5. An entry made on behalf of its owner is derived from what else says so, a row's id or a span, and may go when
//!    nobody waits for it.
//!
//! Locks belong to keys, not to pages: splits, merges and purge move nothing. The empty key, which no row has, stands for
//! the tree's counter (AUTO_INCREMENT): its lock is held by statements that want it for themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use keel_base::TreeId;
use keel_runtime::fiber::Fiber;
use parking_lot::Mutex;

use crate::lock_gap::TreeGaps;
use crate::lock_ranges::KeyRange;
use crate::lock_span::{Spans, conflict};
use crate::lock_wait::WaitTarget;
use crate::options::LockMode;
use crate::report::{LockInfo, LockKind, TREES_MAX};
use crate::trx::TrxShared;

const PARTITIONS: usize = 256;
/// When there are so many entries, a transaction may have fewer than it otherwise might, and fewer yet.
const MANY: (usize, usize) = (128 << 10, 256);
const TOO_MANY: (usize, usize) = (256 << 10, 32);
/// A transaction may have one range of a span for so many entries that it may have.
const ENTRIES_PER_RANGE: usize = 8;

/// The key under which a tree's counter is locked.
const COUNTER: &[u8] = &[];

/// What a transaction has in the lock tables.
#[derive(Default)]
pub(crate) struct Held {
    ended: bool,
    /// Rows with an entry of this transaction, and some that had one.
    records: Vec<LockKey>,
    /// Entries folded into spans.
    folded: usize,
    gaps: Vec<Arc<TreeGaps>>,
}

/// What a transaction has in the lock tables, in numbers.
pub(crate) struct HeldSummary {
    pub(crate) rows: u64,
    /// Trees with gap locks.
    pub(crate) gaps: u64,
    /// Trees with locks, as far as they are told.
    pub(crate) trees: Vec<TreeId>,
    /// Bytes, about.
    pub(crate) bytes: u64,
}

impl Held {
    /// The first `limit` row locks, the trees with gap locks, and the number of row locks beyond.
    pub(crate) fn first(&self, limit: usize) -> (Vec<LockKey>, Vec<Arc<TreeGaps>>, u64) {
        let names = self.records.iter().take(limit).cloned().collect();
        let beyond = self.records.len().saturating_sub(limit) + self.folded;
        (names, self.gaps.clone(), beyond as u64)
    }

    /// Number of row locks and of trees with gap locks.
    pub(crate) fn len(&self) -> usize {
        self.records.len() + self.folded + self.gaps.len()
    }

    /// How many locks there are and where.
    pub(crate) fn summary(&self) -> HeldSummary {
        let mut trees: Vec<TreeId> = self.gaps.iter().map(|gaps| gaps.tree()).collect();
        trees.truncate(TREES_MAX);
        let mut last = None;
        for name in &self.records {
            if last != Some(name.tree) && trees.len() < TREES_MAX && !trees.contains(&name.tree) {
                trees.push(name.tree);
            }
            last = Some(name.tree);
        }
        let bytes = self.records.capacity() * size_of::<LockKey>()
            + self.records.iter().map(|name| name.key.len()).sum::<usize>()
            + self.records.len() * (size_of::<Queue>() + size_of::<Request>())
            + self.gaps.len() * size_of::<KeyRange>();
        HeldSummary {
            rows: (self.records.len() + self.folded) as u64,
            gaps: self.gaps.len() as u64,
            trees,
            bytes: bytes as u64,
        }
    }

    fn note(&mut self, owner: &TrxShared, name: &LockKey) {
        self.records.push(name.clone());
        owner.entries.store(self.records.len(), Ordering::Relaxed);
    }

    /// Trees in which the transaction has gap locks.
    pub(crate) fn gaps(&self) -> Vec<Arc<TreeGaps>> {
        self.gaps.clone()
    }

    /// Notes that the transaction has gap locks in this tree.
    pub(crate) fn add_gaps(&mut self, gaps: &Arc<TreeGaps>) {
        if !self.gaps.iter().any(|known| Arc::ptr_eq(known, gaps)) {
            self.gaps.push(gaps.clone());
        }
    }
}

/// Name of a row, with its hash.
#[derive(Clone)]
pub(crate) struct LockKey {
    hash: u64,
    tree: TreeId,
    key: Arc<[u8]>,
}

struct Request {
    owner: Arc<TrxShared>,
    mode: LockMode,
    granted: bool,
    /// Entered on the owner's behalf (invariant 5).
    derived: bool,
    /// Exclusive now, shared before that.
    raised: bool,
}

struct Queue {
    name: LockKey,
    requests: Vec<Request>,
}

#[repr(align(64))]
struct Partition {
    /// Number of queues, read without the mutex.
    count: AtomicU32,
    queues: Mutex<HashTable<Queue>>,
}

/// The table; see the module.
pub(crate) struct LockTable {
    partitions: Box<[Partition]>,
    hasher: foldhash::fast::FixedState,
    spans: Spans,
    /// Entries that a transaction may have before it folds them.
    own_entries_max: usize,
    /// Entries of all transactions that have many, as each had when it looked last.
    entries: AtomicUsize,
}

/// What a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Held now, and was not before, or more weakly.
    Granted,
    /// Was held already, as strongly.
    Held,
    /// In the queue: wait after giving up the latch.
    Queued,
    /// Not free, and not entered (the caller would not wait).
    Refused,
    /// The writer in whose name the lock was to be entered has just ended: look at the row again.
    Changed,
}

/// Why a request leaves its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Its owner ends; the list of what it holds is empty already.
    End,
    /// The lock is not wanted any more.
    Release,
    /// What the last request brought is not wanted any more.
    GiveBack,
    /// The lock is not wanted any more if it is shared.
    ReleaseShared,
    /// The wait is given up.
    GiveUp,
}

/// Whether to enter the queue if the lock is not free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfTaken {
    /// Enter the queue.
    Queue,
    /// Leave no trace.
    Refuse,
}

impl Queue {
    fn position(&self, owner: &Arc<TrxShared>, granted: bool) -> Option<usize> {
        self.requests.iter().position(|r| r.granted == granted && Arc::ptr_eq(&r.owner, owner))
    }

    /// Whether a request of `owner`, standing before position `end`, must wait.
    fn must_wait(&self, owner: &Arc<TrxShared>, mode: LockMode, end: usize) -> bool {
        self.requests.iter().enumerate().any(|(index, other)| {
            let before = other.granted || index < end;
            before && conflict(mode, other.mode) && !Arc::ptr_eq(&other.owner, owner)
        })
    }

    /// Grants what can be granted, in order.
    fn grant(&mut self, wake: &mut Vec<Fiber>) {
        let mut index = 0;
        while index < self.requests.len() {
            let request = &self.requests[index];
            let waits = request.granted || self.must_wait(&request.owner, request.mode, index);
            // A waiter that has given up removes its request itself, and grants anew then.
            let Some(fiber) = (!waits).then(|| request.owner.wait.grant()).flatten() else {
                index += 1;
                continue;
            };
            wake.extend(fiber);
            self.requests[index].granted = true;
            self.merge(index);
            index = 0;
        }
    }

    /// Folds the granted request at `index` into an older one of the same owner.
    fn merge(&mut self, index: usize) {
        let owner = self.requests[index].owner.clone();
        let older = self.requests.iter().position(|r| r.granted && Arc::ptr_eq(&r.owner, &owner));
        if let Some(older) = older.filter(|older| *older < index) {
            let granted = self.requests.remove(index);
            let older = &mut self.requests[older];
            older.raised |= older.mode < granted.mode;
            older.mode = older.mode.max(granted.mode);
            older.derived &= granted.derived;
        }
    }

    fn add(&mut self, owner: &Arc<TrxShared>, mode: LockMode, granted: bool) {
        self.requests.push(Request { owner: owner.clone(), mode, granted, derived: false, raised: false });
    }

    /// Enters a granted lock on behalf of `owner`, before all others; false if it has ended.
    fn enter(&mut self, owner: &Arc<TrxShared>, mode: LockMode, derived: bool) -> bool {
        let mut held = owner.held.lock();
        if held.ended {
            return false;
        }
        match self.position(owner, true) {
            Some(index) => {
                let request = &mut self.requests[index];
                request.mode = request.mode.max(mode);
                request.derived &= derived;
            }
            None => {
                let request = Request { owner: owner.clone(), mode, granted: true, derived, raised: false };
                self.requests.insert(0, request);
                held.note(owner, &self.name);
            }
        }
        true
    }

    /// Whether a lock that another than `owner` holds or waits for makes its claim to `mode` void.
    fn denies(&self, owner: &Arc<TrxShared>, mode: LockMode) -> bool {
        let denies = |r: &Request| conflict(mode, r.mode) && !Arc::ptr_eq(&r.owner, owner);
        self.requests.iter().any(denies)
    }

    /// The granted lock of `owner` in `mode`, if others have none that excludes it and nobody waits.
    fn foldable(&self, owner: &Arc<TrxShared>, mode: LockMode) -> Option<usize> {
        let own = self.position(owner, true).filter(|own| self.requests[*own].mode == mode)?;
        let agrees = |(index, r): (usize, &Request)| index == own || (r.granted && !conflict(r.mode, mode));
        self.requests.iter().enumerate().all(agrees).then_some(own)
    }

    /// Whether all that is left are locks that something else says too.
    fn is_derived(&self) -> bool {
        self.requests.iter().all(|r| r.granted && r.derived)
    }
}

impl LockTable {
    /// An empty table.
    pub(crate) fn new(own_entries_max: usize) -> LockTable {
        let partition = || Partition { count: AtomicU32::new(0), queues: Mutex::new(HashTable::new()) };
        LockTable {
            partitions: (0..PARTITIONS).map(|_| partition()).collect(),
            hasher: foldhash::fast::FixedState::default(),
            spans: Spans::new((own_entries_max / ENTRIES_PER_RANGE).max(1)),
            own_entries_max: own_entries_max.max(1),
            entries: AtomicUsize::new(0),
        }
    }

    fn hash(&self, tree: TreeId, key: &[u8]) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u32(tree.0);
        hasher.write(key);
        hasher.finish()
    }

    fn partition(&self, hash: u64) -> &Partition {
        &self.partitions[(hash >> 48) as usize % PARTITIONS]
    }

    /// Whether anybody but `me` may hold or want the row, so that a writer must ask. Call with the leaf latched.
    #[inline]
    pub(crate) fn is_contended(&self, me: Option<&Arc<TrxShared>>, tree: TreeId, key: &[u8]) -> bool {
        self.is_queued(me, tree, key) || (!self.spans.is_empty() && self.spans.others_cover(me, tree, key))
    }

    /// Whether anybody but `me` stands in the queue at `key`. Call with the leaf latched.
    #[inline]
    pub(crate) fn is_queued(&self, me: Option<&Arc<TrxShared>>, tree: TreeId, key: &[u8]) -> bool {
        let hash = self.hash(tree, key);
        let partition = self.partition(hash);
        if partition.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let queues = partition.queues.lock();
        queues.find(hash, |queue| queue.name.is(tree, key)).is_some_and(|queue| {
            queue.requests.iter().any(|r| !me.is_some_and(|me| Arc::ptr_eq(me, &r.owner)))
        })
    }

    /// Asks for the row at `key`. `writer` is the transaction in progress whose id stands in the row, if it is not
    /// `me`: its lock is entered first. Call with the leaf latched.
    pub(crate) fn ask(
        &self,
        me: &Arc<TrxShared>,
        tree: TreeId,
        key: &[u8],
        mode: LockMode,
        writer: Option<&Arc<TrxShared>>,
        if_taken: IfTaken,
    ) -> Ask {
        let hash = self.hash(tree, key);
        let partition = self.partition(hash);
        let mut queues = partition.queues.lock();
        let mut entry = match queues.entry(hash, |q| q.name.is(tree, key), |q| q.name.hash) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => {
                partition.count.fetch_add(1, Ordering::AcqRel);
                let name = LockKey { hash, tree, key: key.into() };
                entry.insert(Queue { name, requests: Vec::with_capacity(2) })
            }
        };
        let answer = self.ask_queue(entry.get_mut(), me, mode, writer, if_taken);
        if entry.get().requests.is_empty() {
            entry.remove();
            partition.count.fetch_sub(1, Ordering::AcqRel);
        }
        answer
    }

    fn ask_queue(
        &self,
        queue: &mut Queue,
        me: &Arc<TrxShared>,
        mode: LockMode,
        writer: Option<&Arc<TrxShared>>,
        if_taken: IfTaken,
    ) -> Ask {
        if let Some(writer) = writer {
            let own = Arc::ptr_eq(writer, me);
            if if_taken == IfTaken::Refuse && !own {
                return if writer.held.lock().ended { Ask::Changed } else { Ask::Refused };
            }
            if !queue.enter(writer, LockMode::Exclusive, !own) {
                return Ask::Changed;
            }
        }
        let held =
            |queue: &Queue| queue.position(me, true).filter(|index| queue.requests[*index].mode >= mode);
        if held(queue).is_some() {
            return Ask::Held;
        }
        if !self.spans.is_empty() {
            if let Some(answer) = self.meet_spans(queue, me, mode, if_taken) {
                return answer;
            }
            if held(queue).is_some() {
                return Ask::Held;
            }
        }
        if queue.must_wait(me, mode, usize::MAX) {
            if if_taken == IfTaken::Refuse {
                return Ask::Refused;
            }
            me.wait.start(WaitTarget::Row { name: queue.name.clone(), mode });
            queue.add(me, mode, false);
            me.held.lock().note(me, &queue.name);
            return Ask::Queued;
        }
        match queue.position(me, true) {
            Some(index) => {
                let request = &mut queue.requests[index];
                (request.mode, request.derived, request.raised) = (mode, false, true);
            }
            None => {
                queue.add(me, mode, true);
                me.held.lock().note(me, &queue.name);
            }
        }
        Ask::Granted
    }

    /// Enters the locks that others have on the row by a span and that stand in the way, and the one of `me` if it must
    /// be seen; an answer where no more need be asked.
    fn meet_spans(
        &self,
        queue: &mut Queue,
        me: &Arc<TrxShared>,
        mode: LockMode,
        if_taken: IfTaken,
    ) -> Option<Ask> {
        let mut answer = None;
        let name = queue.name.clone();
        self.spans.each(name.tree, &name.key, |owner, claim| {
            let own = Arc::ptr_eq(owner, me);
            if queue.denies(owner, claim) || !(own || conflict(claim, mode)) {
                return true;
            }
            answer = match (own, if_taken) {
                (true, _) if claim >= mode && queue.requests.is_empty() => Some(Ask::Held),
                (false, IfTaken::Refuse) => Some(Ask::Refused),
                _ if !queue.enter(owner, claim, true) => Some(Ask::Changed),
                _ => None,
            };
            answer.is_none()
        });
        answer
    }

    /// Asks for the tree's counter.
    pub(crate) fn ask_counter(&self, me: &Arc<TrxShared>, tree: TreeId) -> Ask {
        self.ask(me, tree, COUNTER, LockMode::Exclusive, None, IfTaken::Queue)
    }

    /// Releases the tree's counter.
    pub(crate) fn release_counter(&self, me: &Arc<TrxShared>, tree: TreeId) {
        self.release_one(me, tree, COUNTER);
    }

    /// Enters an exclusive lock for `me`, which has the row by its id in it, before that id goes away (the row is
    /// being rolled back while the transaction lives on). Call with the leaf latched.
    pub(crate) fn keep_own(&self, me: &Arc<TrxShared>, tree: TreeId, key: &[u8]) {
        let answer = self.ask(me, tree, key, LockMode::Exclusive, Some(me), IfTaken::Refuse);
        debug_assert!(matches!(answer, Ask::Held), "own row not lockable: {answer:?}");
    }

    /// Removes the entry of `me` on a row that it has just written, so that its id there is the lock, if nobody stands
    /// in the queue with it. Call with the leaf latched exclusively.
    pub(crate) fn drop_written(&self, me: &Arc<TrxShared>, tree: TreeId, key: &[u8]) {
        if me.entries.load(Ordering::Relaxed) == 0 {
            return;
        }
        let hash = self.hash(tree, key);
        let partition = self.partition(hash);
        let mut queues = partition.queues.lock();
        let Ok(entry) = queues.find_entry(hash, |queue| queue.name.is(tree, key)) else { return };
        let queue = entry.get();
        if queue.requests.len() != 1 || queue.position(me, true).is_none() {
            return;
        }
        let (queue, _) = entry.remove();
        partition.count.fetch_sub(1, Ordering::AcqRel);
        drop(queues);
        // Further back it stays until the list is folded.
        let mut held = me.held.lock();
        let newest = held.records.len().saturating_sub(2);
        if let Some(place) =
            held.records[newest..].iter().position(|known| Arc::ptr_eq(&known.key, &queue.name.key))
        {
            held.records.swap_remove(newest + place);
            me.entries.store(held.records.len(), Ordering::Relaxed);
        }
    }

    /// Removes the granted lock of `me` on a row, if there is one.
    pub(crate) fn release_one(&self, me: &Arc<TrxShared>, tree: TreeId, key: &[u8]) {
        self.release(me, tree, key, Why::Release);
    }

    /// Gives back what the last request of `me` for a row brought: the lock, or what made a shared one exclusive.
    pub(crate) fn give_back(&self, me: &Arc<TrxShared>, tree: TreeId, key: &[u8]) {
        self.release(me, tree, key, Why::GiveBack);
    }

    fn release(&self, me: &Arc<TrxShared>, tree: TreeId, key: &[u8], why: Why) {
        let hash = self.hash(tree, key);
        if self.partition(hash).count.load(Ordering::Acquire) == 0 {
            return;
        }
        self.remove(me, &LockKey { hash, tree, key: key.into() }, why);
    }

    /// Removes the request that `me` gave up waiting for.
    pub(crate) fn withdraw(&self, me: &Arc<TrxShared>, name: &LockKey) {
        self.remove(me, name, Why::GiveUp);
        self.drop_derived(name);
    }

    /// Removes entries that were made for those who waited, if nobody does any more.
    fn drop_derived(&self, name: &LockKey) {
        let partition = self.partition(name.hash);
        let mut queues = partition.queues.lock();
        let Ok(entry) = queues.find_entry(name.hash, |q| q.name.same(name)) else { return };
        if !entry.get().is_derived() {
            return;
        }
        let (queue, _) = entry.remove();
        partition.count.fetch_sub(1, Ordering::AcqRel);
        queue.requests.iter().for_each(|request| self.forget(&request.owner, name));
    }

    /// Strikes a row from the list of `me`. Call under the partition's mutex (invariant 4).
    fn forget(&self, me: &Arc<TrxShared>, name: &LockKey) {
        let mut held = me.held.lock();
        if let Some(index) = held.records.iter().rposition(|known| known.same(name)) {
            held.records.swap_remove(index);
            me.entries.store(held.records.len(), Ordering::Relaxed);
        }
    }

    /// Removes the request of `me` on a row, and strikes the row from its list if it is not held any more.
    fn remove(&self, me: &Arc<TrxShared>, name: &LockKey, why: Why) {
        let mut wake = Vec::new();
        let mut holds = false;
        let partition = self.partition(name.hash);
        let mut queues = partition.queues.lock();
        if let Ok(mut entry) = queues.find_entry(name.hash, |q| q.name.same(name)) {
            let queue = entry.get_mut();
            match queue.position(me, why != Why::GiveUp) {
                // Also what it waited for when a panic ended it.
                _ if why == Why::End => queue.requests.retain(|request| !Arc::ptr_eq(&request.owner, me)),
                Some(index) if why == Why::GiveBack && queue.requests[index].raised => {
                    let request = &mut queue.requests[index];
                    (request.mode, request.raised) = (LockMode::Shared, false);
                }
                Some(index)
                    if why == Why::ReleaseShared && queue.requests[index].mode == LockMode::Exclusive => {}
                Some(index) => drop(queue.requests.remove(index)),
                None => {}
            }
            queue.grant(&mut wake);
            holds = why != Why::End && queue.position(me, true).is_some();
            if queue.requests.is_empty() {
                entry.remove();
                partition.count.fetch_sub(1, Ordering::AcqRel);
            }
        }
        if why != Why::End && !holds {
            self.forget(me, name);
        }
        drop(queues);
        keel_runtime::fiber::wake_many(&mut wake);
    }

    /// Releases everything that `me` holds; after it nobody can enter a lock in its name.
    pub(crate) fn release_all(&self, me: &Arc<TrxShared>) {
        let (records, gaps) = {
            let mut held = me.held.lock();
            held.ended = true;
            (std::mem::take(&mut held.records), std::mem::take(&mut held.gaps))
        };
        self.spans.release(me);
        for name in &records {
            self.remove(me, name, Why::End);
        }
        if me.counted.load(Ordering::Relaxed) != 0 {
            self.count(me, 0);
        }
        for gaps in gaps {
            gaps.release(me);
        }
    }

    /// Releases the shared row locks of `me`, which waits for nothing and goes on holding the exclusive ones.
    pub(crate) fn release_shared(&self, me: &Arc<TrxShared>) {
        self.spans.release_shared(me);
        let records = me.held.lock().records.clone();
        for name in records.iter().rev() {
            self.remove(me, name, Why::ReleaseShared);
        }
    }

    /// Whether `me` holds the row exclusively, by an entry or a span.
    pub(crate) fn has_exclusive(&self, me: &Arc<TrxShared>, tree: TreeId, key: &[u8]) -> bool {
        let hash = self.hash(tree, key);
        let queues = self.partition(hash).queues.lock();
        if let Some(queue) = queues.find(hash, |queue| queue.name.is(tree, key)) {
            let own = queue.position(me, true);
            return own.is_some_and(|index| queue.requests[index].mode == LockMode::Exclusive);
        }
        drop(queues);
        let other = |owner: &Arc<TrxShared>, mode| !(Arc::ptr_eq(owner, me) && mode == LockMode::Exclusive);
        !self.spans.is_empty() && !self.spans.each(tree, key, other)
    }

    /// The transactions that keep the waiting `me` from the row.
    pub(crate) fn blockers(&self, me: &Arc<TrxShared>, name: &LockKey, out: &mut Vec<Arc<TrxShared>>) {
        let queues = self.partition(name.hash).queues.lock();
        let Some(queue) = queues.find(name.hash, |q| q.name.same(name)) else { return };
        let Some(place) = queue.position(me, false) else { return };
        let before = || queue.requests[..place].iter().filter(|r| !r.granted);
        // Those who wait before us wait for the granted ones of this very queue: following these is enough, unless one is ours.
        if let Some(own) = queue.position(me, true) {
            let waits_for_own = |r: &&Request| conflict(queue.requests[own].mode, r.mode);
            out.extend(before().rev().filter(waits_for_own).map(|r| r.owner.clone()));
        }
        let mut mode = queue.requests[place].mode;
        if before().any(|r| conflict(mode, r.mode)) {
            mode = LockMode::Exclusive;
        }
        let blocks = |r: &&Request| r.granted && conflict(mode, r.mode) && !Arc::ptr_eq(&r.owner, me);
        out.extend(queue.requests.iter().filter(blocks).map(|r| r.owner.clone()));
    }

    /// How `owner` has the row, else wants it, and whether it has it; none without an entry.
    pub(crate) fn request_of(&self, owner: &Arc<TrxShared>, name: &LockKey) -> Option<(LockMode, bool)> {
        let queues = self.partition(name.hash).queues.lock();
        let queue = queues.find(name.hash, |q| q.name.same(name))?;
        let place = queue.position(owner, true).or_else(|| queue.position(owner, false))?;
        Some((queue.requests[place].mode, queue.requests[place].granted))
    }

    /// The same for a row by tree and key.
    pub(crate) fn mode_at(&self, owner: &Arc<TrxShared>, tree: TreeId, key: &[u8]) -> Option<LockMode> {
        let hash = self.hash(tree, key);
        let queues = self.partition(hash).queues.lock();
        let queue = queues.find(hash, |q| q.name.is(tree, key))?;
        queue.position(owner, true).map(|index| queue.requests[index].mode)
    }

    /// Everything in the table, at most `limit`.
    pub(crate) fn list(&self, limit: usize) -> Vec<LockInfo> {
        let mut out = Vec::new();
        for partition in self.partitions.iter().filter(|p| p.count.load(Ordering::Acquire) != 0) {
            for queue in partition.queues.lock().iter() {
                for request in queue.requests.iter().take(limit.saturating_sub(out.len())) {
                    out.push(request.info(&queue.name));
                }
            }
        }
        self.spans.list(limit, &mut out);
        out
    }
}

impl LockTable {
    /// Keeps the entries of `me` from getting too many. Call with no latch.
    #[inline]
    pub(crate) fn bound(&self, me: &Arc<TrxShared>) {
        let first_look = TOO_MANY.1.min(self.own_entries_max);
        if me.entries.load(Ordering::Relaxed) >= me.fold_at.load(Ordering::Relaxed).max(first_look) {
            self.fold(me);
        }
    }

    /// Folds entries of `me` into spans if there are more than it may have.
    #[cold]
    fn fold(&self, me: &Arc<TrxShared>) {
        let rows: usize = self.partitions.iter().map(|p| p.count.load(Ordering::Relaxed) as usize).sum();
        let entries = me.entries.load(Ordering::Relaxed);
        self.count(me, entries);
        // Many rows with an entry each, or many entries on few rows.
        let total = rows.max(self.entries.load(Ordering::Relaxed));
        let scarce = [TOO_MANY, MANY].into_iter().find(|(many, _)| total >= *many);
        let allowed = scarce.map_or(self.own_entries_max, |(_, own)| own.min(self.own_entries_max));
        if entries < allowed {
            me.fold_at.store((entries * 2).min(allowed), Ordering::Relaxed);
            return;
        }
        let mut names = std::mem::take(&mut me.held.lock().records);
        names.sort_unstable_by(|a, b| (a.tree, &a.key).cmp(&(b.tree, &b.key)));
        names.dedup_by(|a, b| a.same(b));
        let mut folded = 0;
        for mode in [LockMode::Shared, LockMode::Exclusive] {
            let foldable: Vec<&LockKey> =
                names.iter().filter(|name| self.is_foldable(me, name, mode)).collect();
            for same_tree in foldable.chunk_by(|a, b| a.tree == b.tree) {
                let keys: Vec<&[u8]> = same_tree.iter().map(|name| &*name.key).collect();
                if self.spans.cover(me, same_tree[0].tree, mode, &keys) {
                    folded += same_tree.iter().filter(|name| self.drop_folded(me, name, mode)).count();
                }
            }
        }
        names.retain(|name| self.has_entry(me, name));
        let mut held = me.held.lock();
        held.folded += folded;
        held.records.append(&mut names);
        held.records.shrink_to(allowed);
        me.entries.store(held.records.len(), Ordering::Relaxed);
        self.count(me, held.records.len());
        me.fold_at.store(allowed.max(held.records.len() * 2), Ordering::Relaxed);
    }

    /// Counts that `me` has so many entries now.
    fn count(&self, me: &TrxShared, entries: usize) {
        let before = me.counted.swap(entries, Ordering::Relaxed);
        self.entries.fetch_add(entries.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Whether the entry can be folded: a counter's lock ends before its transaction, so it cannot.
    fn is_foldable(&self, me: &Arc<TrxShared>, name: &LockKey, mode: LockMode) -> bool {
        if *name.key == *COUNTER {
            return false;
        }
        let queues = self.partition(name.hash).queues.lock();
        queues.find(name.hash, |q| q.name.same(name)).is_some_and(|queue| queue.foldable(me, mode).is_some())
    }

    /// Removes the entry of `me` if it still can be folded; whether it could.
    fn drop_folded(&self, me: &Arc<TrxShared>, name: &LockKey, mode: LockMode) -> bool {
        let partition = self.partition(name.hash);
        let mut queues = partition.queues.lock();
        let Ok(mut entry) = queues.find_entry(name.hash, |q| q.name.same(name)) else { return false };
        let Some(own) = entry.get().foldable(me, mode) else { return false };
        if entry.get().requests.len() > 1 {
            entry.get_mut().requests.remove(own);
        } else {
            entry.remove();
            partition.count.fetch_sub(1, Ordering::AcqRel);
        }
        true
    }

    fn has_entry(&self, me: &Arc<TrxShared>, name: &LockKey) -> bool {
        let queues = self.partition(name.hash).queues.lock();
        let queue = queues.find(name.hash, |q| q.name.same(name));
        queue.is_some_and(|queue| queue.requests.iter().any(|r| Arc::ptr_eq(&r.owner, me)))
    }
}

impl Request {
    fn info(&self, name: &LockKey) -> LockInfo {
        LockInfo {
            tree: name.tree,
            key: name.key.to_vec(),
            kind: name.kind(),
            mode: self.mode,
            granted: self.granted,
            owner: self.owner.number(),
        }
    }
}

impl LockKey {
    /// The tree.
    pub(crate) fn tree(&self) -> TreeId {
        self.tree
    }

    /// What it names.
    pub(crate) fn kind(&self) -> LockKind {
        if *self.key == *COUNTER { LockKind::Counter } else { LockKind::Row }
    }

    /// The row's key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    fn is(&self, tree: TreeId, key: &[u8]) -> bool {
        self.tree == tree && *self.key == *key
    }

    fn same(&self, other: &LockKey) -> bool {
        self.is(other.tree, &other.key)
    }
}

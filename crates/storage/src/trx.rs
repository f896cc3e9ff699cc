//! The transaction table: which transaction ids are in progress, and when the others committed.
//!
//! Ids are given in order at a transaction's first write. A ring maps the newest ids to their state; what falls off
//! the ring goes to a small map if some reader may still need it, else it counts as committed before everything.
//!
//! Invariants
//! 1. A slot is set to ACTIVE before its id is published through `next`: an id below a reader's `next` is resolvable.
//! 2. COMMITTING stands in the slot before the commit record gets its LSN. So a reader that took its snapshot LSN and
//!    then finds ACTIVE knows that the commit will end beyond its snapshot; one that finds COMMITTING spins until the
//!    number is known (the committer neither waits nor parks in between).
//! 3. Before a slot is overwritten, its old content goes to `old` unless every snapshot that is not frozen sees it
//!    ([`crate::snapshot`]): the map holds long transactions and little else.
//!
//! In memory only. After a crash, ids below the persisted limit count as committed, but those that recovery finds
//! unfinished in the undo log, which it adds to `old`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use keel_base::{TreeId, TrxId};
use parking_lot::{Mutex, RwLock};

use crate::lock::Held;
use crate::lock_wait::WaitCell;
use crate::options::Isolation;
use crate::owner::Owner;
use crate::report::TREES_MAX;
use crate::snapshot::SnapshotSet;

const RING_BITS: u32 = 17;
/// Ids that the ring resolves.
pub(crate) const RING: u64 = 1 << RING_BITS;
/// Every so many ids, old snapshots are frozen and `old` is pruned.
const ROUND: u64 = RING / 4;
const STATE_BITS: u32 = 56;
const STATE_MASK: u64 = (1 << STATE_BITS) - 1;
const ACTIVE: u64 = STATE_MASK;
const COMMITTING: u64 = STATE_MASK - 1;

type IdMap = hashbrown::HashMap<u64, u64, foldhash::fast::RandomState>;

/// What is known of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrxState {
    /// In progress, or being rolled back.
    Active,
    /// Ended at this LSN; 0 is long ago.
    Ended(u64),
}

/// The table; see the module.
pub(crate) struct TrxTable {
    slots: Box<[AtomicU64]>,
    next: AtomicU64,
    /// Ids below this are persisted as given.
    limit: AtomicU64,
    allocation: Mutex<Allocation>,
    old: RwLock<IdMap>,
    old_count: AtomicUsize,
}

struct Allocation {
    /// Commits up to this LSN are seen by every snapshot that is not frozen.
    horizon: u64,
}

/// The turn of the ring to which `id` belongs, never 0: an empty slot belongs to none.
fn tag(id: u64) -> u64 {
    ((id >> RING_BITS) % 255 + 1) << STATE_BITS
}

impl TrxTable {
    /// A table whose next id is `next`, with ids given freely below `limit`.
    pub(crate) fn new(next: u64, limit: u64) -> TrxTable {
        TrxTable {
            slots: (0..RING).map(|_| AtomicU64::new(0)).collect(),
            next: AtomicU64::new(next),
            limit: AtomicU64::new(limit),
            allocation: Mutex::new(Allocation { horizon: 0 }),
            old: RwLock::new(IdMap::default()),
            old_count: AtomicUsize::new(0),
        }
    }

    fn slot(&self, id: u64) -> &AtomicU64 {
        &self.slots[(id & (RING - 1)) as usize]
    }

    /// The id that the next writer gets.
    pub(crate) fn next_id(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// Ids below it may be given without persisting more.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// Ids below `limit` are persisted as given.
    pub(crate) fn raise_limit(&self, limit: u64) {
        self.limit.fetch_max(limit, Ordering::AcqRel);
    }

    /// Gives the next id, in progress; `None` at the persisted limit.
    pub(crate) fn allocate(&self, snapshots: &SnapshotSet, lsn_now: impl Fn() -> u64) -> Option<TrxId> {
        let mut allocation = self.allocation.lock();
        let id = self.next.load(Ordering::Relaxed);
        if id >= self.limit.load(Ordering::Acquire) {
            return None;
        }
        if id.is_multiple_of(ROUND) {
            allocation.horizon = self.round(id, snapshots, lsn_now());
        }
        self.take_slot(id, allocation.horizon);
        self.next.store(id + 1, Ordering::SeqCst);
        Some(TrxId(id))
    }

    fn take_slot(&self, id: u64, horizon: u64) {
        let slot = self.slot(id);
        let mut before = slot.load(Ordering::Acquire);
        let mut moved = false;
        loop {
            let state = before & STATE_MASK;
            if id >= RING && (state > horizon || moved) {
                self.put_old(id - RING, state);
                moved = true;
            }
            match slot.compare_exchange(before, tag(id) | ACTIVE, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    fn put_old(&self, id: u64, state: u64) {
        let mut old = self.old.write();
        old.insert(id, state);
        self.old_count.store(old.len(), Ordering::Release);
    }

    /// Freezes snapshots that the ring is about to outrun and drops what no other snapshot needs from `old`.
    fn round(&self, next: u64, snapshots: &SnapshotSet, lsn_now: u64) -> u64 {
        snapshots.freeze_older_than(next.saturating_sub(RING / 2), |csn, below| self.unseen(csn, below));
        let horizon = snapshots.oldest_thawed_csn().unwrap_or(lsn_now).min(lsn_now);
        let mut old = self.old.write();
        old.retain(|_, state| *state > horizon);
        self.old_count.store(old.len(), Ordering::Release);
        horizon
    }

    /// Ids below `below` that a snapshot at `csn` does not see, sorted.
    fn unseen(&self, csn: u64, below: u64) -> Vec<u64> {
        let mut ids: Vec<u64> = self
            .old
            .read()
            .iter()
            .filter(|(id, state)| **id < below && **state > csn)
            .map(|(id, _)| *id)
            .collect();
        let first = self.next.load(Ordering::Relaxed).saturating_sub(RING);
        for id in first..below {
            let value = self.slot(id).load(Ordering::Acquire);
            if value & !STATE_MASK == tag(id) && value & STATE_MASK > csn {
                ids.push(id);
            }
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Number of states kept beside the ring.
    #[cfg(test)]
    pub(crate) fn old_len(&self) -> usize {
        self.old.read().len()
    }

    /// Adds a transaction that recovery found unfinished.
    pub(crate) fn adopt(&self, id: u64) {
        self.put_old(id, ACTIVE);
    }

    /// The content of the slot, if it is that of `id`.
    fn in_ring(&self, id: u64) -> Option<u64> {
        let value = self.slot(id).load(Ordering::Acquire);
        let is_its = value & !STATE_MASK == tag(id) && id + RING >= self.next.load(Ordering::Acquire);
        is_its.then_some(value)
    }

    fn set(&self, id: u64, state: u64) {
        while let Some(before) = self.in_ring(id) {
            let after = tag(id) | state;
            if self.slot(id).compare_exchange(before, after, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return;
            }
        }
        self.put_old(id, state);
    }

    /// Says that the commit (or the end of the rollback) of `id` is about to get its LSN.
    pub(crate) fn set_committing(&self, id: TrxId) {
        self.set(id.0, COMMITTING);
    }

    /// Says at which LSN `id` ended.
    pub(crate) fn set_ended(&self, id: TrxId, csn: u64) {
        debug_assert!(csn < COMMITTING);
        self.set(id.0, csn);
    }

    fn raw(&self, id: u64) -> Option<u64> {
        if let Some(value) = self.in_ring(id) {
            return Some(value & STATE_MASK);
        }
        if self.old_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.old.read().get(&id).copied()
    }

    /// The state of `id`; `None` if it ended before anything that the table still knows (or never was).
    /// Spins while the commit is getting its number.
    pub(crate) fn lookup(&self, id: TrxId) -> Option<TrxState> {
        let mut turns = 0u32;
        loop {
            match self.raw(id.0) {
                None => return None,
                Some(ACTIVE) => return Some(TrxState::Active),
                Some(COMMITTING) => {
                    turns += 1;
                    if turns.is_multiple_of(64) {
                        std::thread::yield_now();
                    }
                    std::hint::spin_loop();
                }
                Some(csn) => return Some(TrxState::Ended(csn)),
            }
        }
    }

    /// Whether `id` is still in progress (or just getting its commit number).
    #[inline]
    pub(crate) fn is_active(&self, id: TrxId) -> bool {
        id.0 != 0 && matches!(self.raw(id.0), Some(ACTIVE | COMMITTING))
    }
}

/// A tree in which a transaction has written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) tree: TreeId,
    /// Rows that were there before; else new ones, or entries of an index.
    pub(crate) changed: bool,
}

/// What other transactions may know of one: its locks, what it waits for, how much it changed.
/// Made at its first lock or write.
pub(crate) struct TrxShared {
    id: AtomicU64,
    /// Entries changed.
    pub(crate) changes: AtomicU64,
    /// Rows changed: the price of rolling it back.
    pub(crate) rows: AtomicU64,
    /// The first trees that it has written.
    pub(crate) written: Mutex<Vec<Written>>,
    /// The session that has it.
    pub(crate) owner: Option<Arc<Owner>>,
    /// Its isolation level.
    pub(crate) isolation: Isolation,
    /// Locks held.
    pub(crate) held: Mutex<Held>,
    /// Number of row locks listed there, to be read without the mutex.
    pub(crate) entries: AtomicUsize,
    /// At so many they are looked at, and perhaps folded.
    pub(crate) fold_at: AtomicUsize,
    /// Entries that the lock table has counted.
    pub(crate) counted: AtomicUsize,
    /// The one lock it may be waiting for.
    pub(crate) wait: WaitCell,
    /// Whether nobody but recovery owns it any more.
    pub(crate) rolling_back: AtomicBool,
    /// Whether it is prepared.
    pub(crate) prepared: AtomicBool,
    /// Whether the session that prepared it has let it go.
    pub(crate) set_free: AtomicBool,
}

impl TrxShared {
    /// A transaction without locks; `id` 0 until it writes.
    pub(crate) fn new(id: TrxId, owner: Option<Arc<Owner>>, isolation: Isolation) -> Arc<TrxShared> {
        Arc::new(TrxShared {
            id: AtomicU64::new(id.0),
            changes: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            written: Mutex::default(),
            owner,
            isolation,
            held: Mutex::new(Held::default()),
            entries: AtomicUsize::new(0),
            fold_at: AtomicUsize::new(0),
            counted: AtomicUsize::new(0),
            wait: WaitCell::default(),
            rolling_back: AtomicBool::new(false),
            prepared: AtomicBool::new(false),
            set_free: AtomicBool::new(false),
        })
    }

    /// Its id, 0 if it has not written.
    pub(crate) fn id(&self) -> TrxId {
        TrxId(self.id.load(Ordering::Acquire))
    }

    /// Its id, or, before it writes, a number above all ids that no other transaction has at the time.
    pub(crate) fn number(self: &Arc<Self>) -> u64 {
        match self.id().0 {
            0 => NUMBERS | Arc::as_ptr(self).addr() as u64,
            id => id,
        }
    }

    /// Notes what it has written.
    #[cold]
    pub(crate) fn note_written(&self, new: Written) {
        let mut written = self.written.lock();
        if written.len() < TREES_MAX && !written.contains(&new) {
            written.push(new);
        }
    }

    /// Whether no session has it.
    pub(crate) fn is_nobodys(&self) -> bool {
        self.rolling_back.load(Ordering::Relaxed) || self.set_free.load(Ordering::Relaxed)
    }

    /// Gives it its id.
    pub(crate) fn set_id(&self, id: TrxId) {
        self.id.store(id.0, Ordering::Release);
    }
}

/// Numbers of transactions that have no id begin here.
const NUMBERS: u64 = 1 << 48;

const ACTIVE_SHARDS: usize = 32;
type TrxMap = hashbrown::HashMap<u64, Arc<TrxShared>, foldhash::fast::RandomState>;

/// Read-write transactions in progress, by id: whoever meets an id in a row finds its owner here.
pub(crate) struct ActiveSet {
    shards: [Mutex<TrxMap>; ACTIVE_SHARDS],
}

impl ActiveSet {
    /// An empty set.
    pub(crate) fn new() -> ActiveSet {
        ActiveSet { shards: std::array::from_fn(|_| Mutex::new(TrxMap::default())) }
    }

    fn shard(&self, id: TrxId) -> &Mutex<TrxMap> {
        &self.shards[id.0 as usize % ACTIVE_SHARDS]
    }

    /// Adds a transaction that has its id.
    pub(crate) fn add(&self, trx: &Arc<TrxShared>) {
        self.shard(trx.id()).lock().insert(trx.id().0, trx.clone());
    }

    /// Removes an ended one.
    pub(crate) fn remove(&self, id: TrxId) {
        self.shard(id).lock().remove(&id.0);
    }

    /// The transaction of that id, if in progress.
    pub(crate) fn get(&self, id: TrxId) -> Option<Arc<TrxShared>> {
        self.shard(id).lock().get(&id.0).cloned()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<TrxShared>> {
        self.shards.iter().flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>()).collect()
    }
}

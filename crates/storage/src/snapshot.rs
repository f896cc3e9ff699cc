//! Snapshots: what a reader sees, and how old the oldest reader is.
//!
//! A snapshot is two numbers: the LSN up to which commits are seen, and the id that the next writer would have got,
//! read after it. It is kept in a per-worker shard so that purge and the transaction table know which old states are
//! still needed. When the table's ring is about to outrun a snapshot, the ids that it does not see, which are those in
//! progress when it was taken and hence few, are written down beside it ("frozen"), and the table may forget.
//!
//! A shard's mutex covers taking both numbers: whoever visits all shards after reading the durable LSN knows that
//! snapshots taken later are not older than that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keel_base::TrxId;
use parking_lot::Mutex;

use crate::row::EVERYBODY;
use crate::trx::{TrxState, TrxTable};

/// A reader's view. Registered; give it back with [`SnapshotSet::release`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    shard: u16,
    index: u32,
    /// Commits that ended at or before this LSN are seen.
    pub(crate) csn: u64,
    /// Ids from here on are not seen.
    pub(crate) next: u64,
}

#[derive(Default, Clone)]
struct Entry {
    taken: bool,
    csn: u64,
    next: u64,
    frozen: Option<Arc<[u64]>>,
    /// A reader's, not a copy that keeps purge back.
    reads: bool,
}

impl Entry {
    fn age(&self) -> (u64, u64) {
        (self.csn, self.next)
    }
}

#[derive(Default)]
struct Shard {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

/// All snapshots in use.
pub(crate) struct SnapshotSet {
    shards: Box<[Mutex<Shard>]>,
    /// How often snapshots were frozen: see [`SnapshotSet::freezes`].
    freezes: AtomicU64,
}

/// What a reader's snapshot sees, as it was known at some moment.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// Commits up to this LSN.
    pub(crate) csn: u64,
    /// Of ids that the table has forgotten, and that were given before, all but these; `None` is all.
    pub(crate) unseen: Option<Arc<[u64]>>,
    next: u64,
    shard: u16,
}

impl View {
    /// What orders snapshots; equal for those that see the same.
    pub(crate) fn age(&self) -> (u64, u64) {
        (self.csn, self.next)
    }

    /// Whether it sees the work of `id`, which the table has forgotten.
    pub(crate) fn sees_forgotten(&self, id: TrxId) -> bool {
        let unseen = self.unseen.as_ref();
        id.0 < self.next && unseen.is_none_or(|unseen| unseen.binary_search(&id.0).is_err())
    }
}

impl SnapshotSet {
    /// A set with one shard for each of `workers`.
    pub(crate) fn new(workers: usize) -> SnapshotSet {
        let shards = (0..workers.max(1)).map(|_| Mutex::new(Shard::default())).collect();
        SnapshotSet { shards, freezes: AtomicU64::new(0) }
    }

    /// Takes a snapshot of what `lsn` says is committed now.
    pub(crate) fn take(&self, worker: usize, table: &TrxTable, lsn: impl Fn() -> u64) -> Snapshot {
        let shard_index = worker % self.shards.len();
        let mut shard = self.shards[shard_index].lock();
        let csn = lsn();
        let next = table.next_id();
        Self::put(&mut shard, shard_index, Entry { taken: true, csn, next, frozen: None, reads: true })
    }

    fn put(shard: &mut Shard, shard_index: usize, entry: Entry) -> Snapshot {
        let (csn, next) = (entry.csn, entry.next);
        let index = match shard.free.pop() {
            Some(index) => {
                shard.entries[index as usize] = entry;
                index
            }
            None => {
                shard.entries.push(entry);
                shard.entries.len() as u32 - 1
            }
        };
        Snapshot { shard: shard_index as u16, index, csn, next }
    }

    /// Gives a snapshot back.
    pub(crate) fn release(&self, snapshot: Snapshot) {
        let mut shard = self.shards[snapshot.shard as usize].lock();
        let entry = &mut shard.entries[snapshot.index as usize];
        debug_assert!(entry.taken && entry.csn == snapshot.csn);
        *entry = Entry::default();
        shard.free.push(snapshot.index);
    }

    /// A registered copy of the oldest snapshot, or a new one at `lsn` if that is older: what it sees, all see.
    pub(crate) fn take_oldest(&self, table: &TrxTable, lsn: impl Fn() -> u64) -> Snapshot {
        let own = self.take(0, table, lsn);
        loop {
            let mut oldest = (own.csn, own.next);
            let mut place = None;
            for (index, shard) in self.shards.iter().enumerate() {
                let shard = shard.lock();
                let age = shard.entries.iter().filter(|entry| entry.taken).map(Entry::age).min();
                if let Some(age) = age.filter(|age| *age < oldest) {
                    (oldest, place) = (age, Some(index));
                }
            }
            let Some(place) = place else { return own };
            // If it has just ended, the next one is the oldest.
            if let Some(copy) = self.copy_of(place, oldest) {
                self.release(own);
                return copy;
            }
        }
    }

    /// A registered copy of a snapshot, in its shard, if it is still in use: who visits all shards, to purge or to freeze, meets at
    /// least one of both, and never a copy that was frozen otherwise.
    fn copy_of(&self, shard_index: usize, age: (u64, u64)) -> Option<Snapshot> {
        let mut shard = self.shards[shard_index].lock();
        let entry = shard.entries.iter().find(|entry| entry.taken && entry.age() == age)?.clone();
        Some(Self::put(&mut shard, shard_index, Entry { reads: false, ..entry }))
    }

    /// Whether all that read now or later see the work of `id`; `lsn` says what is committed now.
    pub(crate) fn all_see(&self, table: &TrxTable, lsn: impl Fn() -> u64, id: TrxId) -> bool {
        let oldest = self.take_oldest(table, lsn);
        let sees = self.sees(&oldest, table, id);
        self.release(oldest);
        sees
    }

    /// All readers' views, the oldest first, equal ones once.
    pub(crate) fn views(&self) -> Vec<View> {
        let mut all = Vec::new();
        for (index, shard) in self.shards.iter().enumerate() {
            let shard = shard.lock();
            all.extend(shard.entries.iter().filter(|entry| entry.taken && entry.reads).map(|entry| View {
                csn: entry.csn,
                unseen: entry.frozen.clone(),
                next: entry.next,
                shard: index as u16,
            }));
        }
        all.sort_unstable_by_key(View::age);
        all.dedup_by_key(|view| view.age());
        all
    }

    /// A registered copy of the snapshot with this view, if it is still in use.
    pub(crate) fn keep(&self, view: &View) -> Option<Snapshot> {
        self.copy_of(view.shard as usize, view.age())
    }

    /// How often snapshots were frozen. It is counted once they all are, and before the table forgets what they do not see: views that were
    /// read after this number tell what the table has forgotten as long as it stays the same.
    pub(crate) fn freezes(&self) -> u64 {
        self.freezes.load(Ordering::SeqCst)
    }

    /// Whether `snapshot` sees the work of `id`.
    #[inline]
    pub(crate) fn sees(&self, snapshot: &Snapshot, table: &TrxTable, id: TrxId) -> bool {
        if id == EVERYBODY {
            return true;
        }
        if id.0 >= snapshot.next {
            return false;
        }
        match table.lookup(id) {
            Some(TrxState::Active) => false,
            Some(TrxState::Ended(csn)) => csn <= snapshot.csn,
            None => self.sees_forgotten(snapshot, id),
        }
    }

    #[cold]
    fn sees_forgotten(&self, snapshot: &Snapshot, id: TrxId) -> bool {
        let shard = self.shards[snapshot.shard as usize].lock();
        match &shard.entries[snapshot.index as usize].frozen {
            Some(unseen) => unseen.binary_search(&id.0).is_err(),
            None => true,
        }
    }

    /// Freezes snapshots whose `next` is below `limit`; `unseen(csn, next)` lists what they do not see.
    pub(crate) fn freeze_older_than(&self, limit: u64, unseen: impl Fn(u64, u64) -> Vec<u64>) {
        let mut any = false;
        for shard in &self.shards {
            for entry in &mut shard.lock().entries {
                if entry.taken && entry.frozen.is_none() && entry.next < limit {
                    entry.frozen = Some(unseen(entry.csn, entry.next).into());
                    any = true;
                }
            }
        }
        if any {
            self.freezes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The oldest LSN among snapshots that are not frozen.
    pub(crate) fn oldest_thawed_csn(&self) -> Option<u64> {
        let oldest = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            shard.entries.iter().filter(|e| e.taken && e.frozen.is_none()).map(|e| e.csn).min()
        };
        self.shards.iter().filter_map(oldest).min()
    }

    /// The lowest id that one of them does not know to have begun.
    pub(crate) fn oldest_next(&self) -> Option<u64> {
        let oldest = |shard: &Mutex<Shard>| {
            shard.lock().entries.iter().filter(|e| e.taken && e.reads).map(|e| e.next).min()
        };
        self.shards.iter().filter_map(oldest).min()
    }

    /// How many readers use one.
    pub(crate) fn len(&self) -> usize {
        let count = |shard: &Mutex<Shard>| shard.lock().entries.iter().filter(|e| e.taken && e.reads).count();
        self.shards.iter().map(count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trx::RING;

    /// A table, its snapshots, and a log that ends where the last commit did.
    struct World {
        table: TrxTable,
        set: SnapshotSet,
        lsn: u64,
    }

    impl World {
        fn new() -> World {
            World { table: TrxTable::new(1, u64::MAX), set: SnapshotSet::new(2), lsn: 10 }
        }

        fn begin(&self) -> TrxId {
            self.table.allocate(&self.set, || self.lsn).unwrap()
        }

        fn commit(&mut self, id: TrxId) {
            self.lsn += 10;
            self.table.set_committing(id);
            self.table.set_ended(id, self.lsn);
        }

        fn snapshot(&self) -> Snapshot {
            self.set.take(1, &self.table, || self.lsn)
        }

        fn sees(&self, snapshot: &Snapshot, id: TrxId) -> bool {
            self.set.sees(snapshot, &self.table, id)
        }

        fn run(&mut self, count: u64) {
            for _ in 0..count {
                let id = self.begin();
                self.commit(id);
            }
        }
    }

    #[test]
    fn a_snapshot_sees_what_had_committed_and_nothing_else() {
        let mut world = World::new();
        let (before, during, running) = (world.begin(), world.begin(), world.begin());
        world.commit(before);
        let snapshot = world.snapshot();
        world.commit(during);
        let after = world.begin();
        world.commit(after);
        let seen = [before, during, running, after].map(|id| world.sees(&snapshot, id));
        assert_eq!(seen, [true, false, false, false]);
        assert!(world.sees(&world.snapshot(), after));
    }

    #[test]
    fn a_snapshot_older_than_the_ring_sees_the_same_as_before() {
        let mut world = World::new();
        world.run(1000);
        let before = world.begin();
        world.commit(before);
        let (during, running) = (world.begin(), world.begin());
        let snapshot = world.snapshot();
        let after = world.begin();
        world.commit(during);
        world.commit(after);
        for turn in 0..6 {
            let seen = [TrxId(5), before, during, running, after].map(|id| world.sees(&snapshot, id));
            assert_eq!(seen, [true, true, false, false, false], "turn {turn}");
            assert!(world.table.is_active(running) && !world.table.is_active(during));
            let fresh = world.snapshot();
            let seen = [before, during, running, after].map(|id| world.sees(&fresh, id));
            assert_eq!(seen, [true, true, false, true], "turn {turn}");
            world.set.release(fresh);
            world.run(RING / 2 + 77);
        }
        world.commit(running);
        assert!(!world.sees(&snapshot, running) && world.sees(&world.snapshot(), running));
        assert!(!world.table.is_active(running));
    }

    #[test]
    fn freezing_is_counted_once_all_are_frozen_and_only_then() {
        let mut world = World::new();
        let snapshots = [0, 1].map(|worker| world.set.take(worker, &world.table, || world.lsn));
        world.run(10);
        let before = world.set.freezes();
        world.set.freeze_older_than(world.table.next_id(), |_, _| {
            assert_eq!(world.set.freezes(), before);
            Vec::new()
        });
        assert_eq!(world.set.freezes(), before + 1);
        world.set.freeze_older_than(world.table.next_id(), |_, _| unreachable!("both are frozen"));
        assert_eq!(world.set.freezes(), before + 1);
        for snapshot in snapshots {
            world.set.release(snapshot);
        }
    }

    #[test]
    fn the_oldest_snapshot_is_copied_where_it_is_and_as_frozen_as_it_is() {
        let mut world = World::new();
        let running = world.begin();
        let old = world.snapshot();
        world.run(10);
        world.set.freeze_older_than(world.table.next_id(), |_, _| vec![running.0]);
        let oldest = world.set.take_oldest(&world.table, || world.lsn);
        assert_eq!((oldest.csn, oldest.next, oldest.shard), (old.csn, old.next, old.shard));
        world.set.release(old);
        assert!(!world.set.sees_forgotten(&oldest, running));
        world.set.release(oldest);
    }

    #[test]
    fn the_table_forgets_what_no_snapshot_needs() {
        let mut world = World::new();
        let old = world.snapshot();
        for _ in 0..5 {
            world.run(RING / 2);
        }
        assert!(world.table.old_len() < 10, "{} ids are kept", world.table.old_len());
        assert_eq!(world.set.oldest_thawed_csn(), None);
        world.set.release(old);
    }

    #[test]
    fn the_oldest_snapshot_is_found_and_stands_for_all() {
        let mut world = World::new();
        let first = world.begin();
        let old = world.snapshot();
        world.commit(first);
        let second = world.begin();
        let young = world.snapshot();
        world.commit(second);
        let oldest = world.set.take_oldest(&world.table, || world.lsn);
        assert_eq!((oldest.csn, oldest.next), (old.csn, old.next));
        world.set.release(oldest);
        world.set.release(old);
        let oldest = world.set.take_oldest(&world.table, || world.lsn);
        assert_eq!((oldest.csn, oldest.next), (young.csn, young.next));
        assert!(world.sees(&oldest, first) && !world.sees(&oldest, second));
        world.set.release(oldest);
        world.set.release(young);
        let now = world.set.take_oldest(&world.table, || world.lsn);
        assert_eq!(now.csn, world.lsn);
        world.set.release(now);
        assert_eq!(world.set.len(), 0);
    }

    #[test]
    fn an_unfinished_transaction_of_before_the_restart_stays_active_until_it_ends() {
        let mut world = World { table: TrxTable::new(3 * RING, u64::MAX), set: SnapshotSet::new(1), lsn: 10 };
        let unfinished = TrxId(RING + 5);
        world.table.adopt(unfinished.0);
        world.run(2 * RING);
        let snapshot = world.snapshot();
        assert!(world.table.is_active(unfinished) && !world.sees(&snapshot, unfinished));
        assert!(world.sees(&snapshot, TrxId(RING + 6)));
        world.commit(unfinished);
        assert!(!world.table.is_active(unfinished) && !world.sees(&snapshot, unfinished));
    }
}

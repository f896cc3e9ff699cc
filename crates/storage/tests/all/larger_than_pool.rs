//! Tables larger than the buffer pool: scans read ahead, and leave in memory what others work with.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use keel_runtime::sim::{self, Disk, Options};
use keel_runtime::sync::Semaphore;
use keel_runtime::wait::{self, WaitEvent};
use keel_runtime::{fiber, rand};
use keel_storage::{Engine, EngineConfig, Isolation, LockMode, Read, ScanRange, TreeHandle, Wait};

/// 256 frames.
fn small_pool() -> EngineConfig {
    let mut config = config();
    // Batches are as large as with any usual number of open files.
    config.store.tree_files_max = 400;
    config.store.pool_bytes = 4 << 20;
    config
}

/// About eight rows a leaf.
fn fill(engine: &Arc<Engine>, rows: u32) -> TreeHandle {
    let tree = new_tree(engine);
    for first in (0..rows).step_by(500) {
        let mut txn = begin(engine, Isolation::RepeatableRead);
        (first..rows.min(first + 500)).for_each(|n| put(&mut txn, &tree, n, &format!("{n:1800}")));
        txn.commit().unwrap();
    }
    tree
}

fn read_hot(engine: &Arc<Engine>, tree: &TreeHandle, rows: u32) {
    let mut txn = rr(engine);
    for n in 0..rows {
        assert!(txn.get(tree, &k(n), Read::Snapshot, |_| ()).unwrap().is_some());
    }
    txn.commit().unwrap();
}

fn reads(engine: &Arc<Engine>) -> u64 {
    engine.status().store.reads
}

/// Whether `f` finds nothing to say in most of seven worlds with a small pool: in one of ten or so a simulated device lets a
/// batch wait within, or the clock's hand stands where it is least wanted.
fn holds_mostly(seed: u64, f: impl Fn(&Arc<Engine>) -> Option<String> + Sync) {
    let told: Vec<String> =
        (0..7).filter_map(|world| world_of(small_pool(), seed + 100 * world, |engine| f(engine))).collect();
    assert!(told.len() < 4, "in {} of 7 worlds: {told:?}", told.len());
}

#[test]
fn a_scan_of_a_large_table_leaves_the_working_set_in_memory() {
    const HOT: u32 = 800;
    const LARGE: u32 = 8000;
    holds_mostly(1, |engine| {
        let (hot, large) = (fill(engine, HOT), fill(engine, LARGE));
        engine.checkpoint().unwrap();
        (0..4).for_each(|_| read_hot(engine, &hot, HOT));
        let before = reads(engine);
        read_hot(engine, &hot, HOT);
        assert!(reads(engine) - before < 10, "the working set does not fit the pool");
        let before = reads(engine);
        let rows = scan_range(&mut rr(engine), &large, ScanRange::ALL, Read::Snapshot).unwrap();
        assert_eq!(rows.len(), LARGE as usize);
        let scanned = reads(engine) - before;
        assert!(scanned > 800, "the table was in memory: {scanned} reads");
        let before = reads(engine);
        read_hot(engine, &hot, HOT);
        let lost = reads(engine) - before;
        (lost >= 20).then(|| format!("{lost} pages of the working set had to be read again"))
    });
}

#[test]
fn a_scanned_table_stays_in_memory_where_there_is_room() {
    const SMALL: u32 = 400;
    world_of(small_pool(), 4, |engine| {
        let (small, _) = (fill(engine, SMALL), fill(engine, 8000));
        engine.checkpoint().unwrap();
        let scan = || {
            let before = reads(engine);
            scan_range(&mut rr(engine), &small, ScanRange::ALL, Read::Snapshot).unwrap();
            reads(engine) - before
        };
        let first = scan();
        assert!(first > 40, "the table was in memory: {first} reads");
        let second = scan();
        assert!(second < 5, "{second} pages of a table of a fifth of the pool had to be read again");
    });
}

#[test]
fn a_scanned_table_stays_in_memory_where_frames_are_free() {
    let mut config = small_pool();
    config.store.pool_bytes = 24 << 20;
    let disk = Disk::new(5);
    let filling = || {
        let engine = Engine::open(config.clone()).unwrap();
        let tree = fill(&engine, 8000).id();
        engine.shutdown().unwrap();
        tree
    };
    let tree = sim::run(Options::new(5).with_disk(&disk), filling).done();
    let scanning = || {
        let engine = Engine::open(config.clone()).unwrap();
        let tree = engine.tree(tree).unwrap();
        let scan = || {
            let before = reads(&engine);
            scan_range(&mut rr(&engine), &tree, ScanRange::ALL, Read::Snapshot).unwrap();
            reads(&engine) - before
        };
        let first = scan();
        assert!(first > 800, "the table was in memory: {first} reads");
        let second = scan();
        assert!(second < 5, "{second} pages of a table of two thirds of the pool had to be read again");
        engine.shutdown().unwrap();
    };
    sim::run(Options::new(6).with_disk(&disk), scanning).done();
}

#[test]
fn rows_that_are_wanted_once_leave_the_working_set_in_memory() {
    const HOT: u32 = 800;
    const LARGE: u32 = 8000;
    holds_mostly(3, |engine| {
        let (hot, large) = (fill(engine, HOT), fill(engine, LARGE));
        engine.checkpoint().unwrap();
        (0..4).for_each(|_| read_hot(engine, &hot, HOT));
        let mut lost = 0;
        // About half of what the working set leaves of the pool, again and again, eight accesses to each leaf.
        for first in (0..LARGE).step_by(600) {
            let mut txn = rr(engine);
            for n in first..LARGE.min(first + 600) {
                let lock = Read::Lock(LockMode::Shared, Wait::Default);
                assert!(txn.get(&large, &k(n), lock, |_| ()).unwrap().is_some());
            }
            txn.commit().unwrap();
            let before = reads(engine);
            read_hot(engine, &hot, HOT);
            lost += reads(engine) - before;
        }
        (lost >= 20).then(|| format!("{lost} pages of the working set had to be read again"))
    });
}

#[test]
fn a_scan_reads_ahead_and_a_short_one_does_not() {
    world_of(small_pool(), 2, |engine| {
        let tree = fill(engine, 8000);
        engine.checkpoint().unwrap();
        let before = reads(engine);
        let bound = |n: u32| std::ops::Bound::Included(k(n));
        let (low, high) = (bound(100), bound(104));
        let range = ScanRange {
            lower: low.as_ref().map(|key| &key[..]),
            upper: high.as_ref().map(|key| &key[..]),
            reverse: false,
        };
        assert_eq!(scan_range(&mut rr(engine), &tree, range, Read::Snapshot).unwrap().len(), 5);
        assert!(reads(engine) - before < 6, "a range of five rows read {} pages", reads(engine) - before);
        for reverse in [false, true] {
            let mut txn = rr(engine);
            let mut scan = txn.scan(&tree, ScanRange { reverse, ..ScanRange::ALL }, Read::Snapshot).unwrap();
            let before = engine.status().store;
            let (mut rows, mut most, mut last) = (0, 0, before.reads);
            while scan.next(&mut txn).unwrap().is_some() {
                rows += 1;
                most = most.max(reads(engine) - last);
                last = reads(engine);
            }
            assert_eq!(rows, 8000);
            assert!(most >= 4, "no more than {most} pages were read at once");
            let status = engine.status().store;
            let read = status.reads - before.reads;
            assert!(read < 1100, "{read} reads for about 1000 leaves");
            let misses = status.misses() - before.misses();
            assert!(misses < 100, "the scan waited for {misses} pages by itself");
            let ahead = status.reads_ahead - before.reads_ahead;
            assert!(ahead > 600, "{ahead} pages were read ahead");
        }
    });
}

/// Times that somebody waited for pages to be read.
fn page_waits() -> u64 {
    wait::totals().iter().filter(|total| total.event == WaitEvent::PageRead).map(|total| total.count).sum()
}

/// A table of 1000 leaves, of which those before row 6000 have left the pool of 256.
fn cold(engine: &Arc<Engine>) -> TreeHandle {
    let tree = fill(engine, 8000);
    engine.checkpoint().unwrap();
    tree
}

#[test]
fn a_short_range_is_read_at_once() {
    holds_mostly(9, |engine| {
        let tree = cold(engine);
        let mut told = None;
        let read = |first: u32, count: u32, taken: usize, reverse: bool| {
            let (low, high) = (k(first), k(first + count));
            let range = ScanRange { lower: Bound::Included(&low), upper: Bound::Excluded(&high), reverse };
            let (pages, waits) = (reads(engine), page_waits());
            let mut txn = rr(engine);
            let mut scan = txn.scan(&tree, range, Read::Snapshot).unwrap();
            let mut rows = 0;
            while rows < taken && scan.next(&mut txn).unwrap().is_some() {
                rows += 1;
            }
            assert_eq!(rows, taken);
            (reads(engine) - pages, page_waits() - waits)
        };
        // What is above the leaves.
        read(3000, 1, 1, false);
        for (reverse, from) in [(false, 500), (true, 3500)] {
            let found: Vec<_> = (0..10).map(|n| read(from + 100 * n, 20, 20, reverse)).collect();
            let pages: u64 = found.iter().map(|(pages, _)| pages).sum();
            let waits: u64 = found.iter().map(|(_, waits)| waits).sum();
            if pages < 30 || 3 * waits > 2 * pages {
                told = Some(format!("{pages} pages of short ranges took {waits} waits"));
            }
            // It may be that nobody wants the rest of a long one.
            let (pages, _) = read(from + 1500, 200, 1, reverse);
            assert_eq!(pages, 1, "one row of a long range");
        }
        told
    });
}

#[test]
fn rows_that_are_named_are_read_at_once() {
    holds_mostly(10, |engine| {
        let tree = cold(engine);
        let keys: Vec<[u8; 4]> = (0..10).map(|n| k(n * 500 + 17)).collect();
        let mut txn = rr(engine);
        // What is above the leaves.
        (0..10).for_each(|n| assert!(get(&mut txn, &tree, n * 500 + 250).is_some()));
        let (pages, waits) = (reads(engine), page_waits());
        tree.read_ahead(keys.iter().map(|key| &key[..]));
        for key in &keys {
            assert!(txn.get(&tree, key, Read::FOR_UPDATE, |_| ()).unwrap().is_some());
        }
        let (pages, waits) = (reads(engine) - pages, page_waits() - waits);
        // The first of them is in memory now: nobody looks for the others.
        let before = reads(engine);
        tree.read_ahead([&k(17)[..], &k(5333)]);
        assert_eq!(reads(engine), before);
        (pages < 6 || 2 * waits > pages).then(|| format!("{pages} pages of ten rows took {waits} waits"))
    });
}

#[test]
fn purge_does_not_read_rows_that_came_back_in_their_transaction() {
    const ROWS: u32 = 4000;
    world_of(small_pool(), 7, |engine| {
        let (tree, other) = (fill(engine, ROWS), fill(engine, ROWS));
        let mut reader = rr(engine);
        assert!(get(&mut reader, &tree, 0).is_some());
        // A row of every second leaf, more leaves than the pool has frames.
        for n in (0..ROWS).step_by(14) {
            let mut txn = rr(engine);
            del(&mut txn, &tree, n).unwrap();
            put(&mut txn, &tree, n, &format!("{n:1800}"));
            txn.commit().unwrap();
        }
        engine.checkpoint().unwrap();
        read_hot(engine, &other, ROWS);
        let history = engine.status().history_len;
        assert!(history > 200, "purge was not held back: {history} transactions are left");
        let before = reads(engine);
        reader.commit().unwrap();
        while engine.status().history_len != 0 {
            fiber::sleep(Duration::from_millis(1));
        }
        // Those of undo pages.
        let read = reads(engine) - before;
        assert!(read < 100, "purge read {read} pages");
    });
}

#[test]
fn purge_reads_undo_pages_together() {
    const ROWS: u32 = 9000;
    let mut config = small_pool();
    config.store.pool_bytes = 16 << 20;
    world_of(config, 11, |engine| {
        let (tree, other) = (fill(engine, ROWS), fill(engine, ROWS));
        let mut reader = rr(engine);
        assert!(get(&mut reader, &tree, 0).is_some());
        for n in 0..1000 {
            let mut txn = rr(engine);
            set(&mut txn, &tree, n, &format!("{:1800}", n + 1)).unwrap();
            set(&mut txn, &tree, n, &"x".repeat(1800)).unwrap();
            txn.commit().unwrap();
        }
        engine.checkpoint().unwrap();
        read_hot(engine, &other, ROWS);
        let (history, undo) = (engine.status().history_len, engine.status().undo_pages);
        assert!(history > 900 && undo > 100, "{history} transactions are left in {undo} pages");
        let (pages, waits) = (reads(engine), page_waits());
        reader.commit().unwrap();
        while engine.status().history_len != 0 || engine.status().undo_pages > 40 {
            fiber::sleep(Duration::from_millis(1));
        }
        let (pages, waits) = (reads(engine) - pages, page_waits() - waits);
        // Each is wanted to be purged and to be freed.
        assert!(pages > 100 && 2 * waits <= pages, "{waits} waits for {pages} pages");
    });
}

#[test]
fn writers_that_wait_for_frames_do_not_drive_out_what_all_want() {
    const ROWS: u32 = 8000;
    const WRITERS: u64 = 200;
    const CHANGES: u64 = 80;
    world_of(small_pool(), 8, |engine| {
        let tree = fill(engine, ROWS);
        engine.checkpoint().unwrap();
        let before = reads(engine);
        let done = Arc::new(Semaphore::new(0));
        for writer in 0..WRITERS {
            let (engine, tree, done) = (engine.clone(), tree.clone(), done.clone());
            fiber::spawn(move || {
                // No two want the same row.
                for _ in 0..CHANGES {
                    let row = rand::u64() % (u64::from(ROWS) / WRITERS);
                    let n = (row * WRITERS + writer) as u32;
                    let mut txn = rr(&engine);
                    set(&mut txn, &tree, n, &format!("{n:1799}x")).unwrap();
                    txn.commit().unwrap();
                }
                done.release(1);
            });
        }
        done.acquire(WRITERS, WaitEvent::Idle);
        let (read, changes) = (reads(engine) - before, WRITERS * CHANGES);
        // The pool holds a quarter of the leaves; what is above those is wanted all the time.
        assert!(read * 100 < changes * 82, "{read} reads for {changes} changes, each in one leaf");
    });
}

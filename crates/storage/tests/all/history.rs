//! Undoing and forgetting: savepoints, rollback, purge, long rows, trees.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use keel_runtime::sim::{self, Disk, Options, Outcome};
use keel_runtime::sync::Event;
use keel_runtime::wait::WaitEvent;
use keel_runtime::{fiber, time};
use keel_storage::{
    Change, Changed, Engine, Error, Insert, Isolation, OnDuplicate, Read, ScanRange, TxnOptions,
};
use parking_lot::Mutex;

/// Waits until purge has nothing left to do.
fn purged(engine: &Arc<Engine>) {
    let limit = time::now() + Duration::from_secs(60);
    while engine.status().history_len != 0 {
        assert!(time::now() < limit, "history {} is not purged", engine.status().history_len);
        fiber::sleep(Duration::from_millis(20));
    }
    fiber::sleep(Duration::from_secs(1));
}

#[test]
fn a_savepoint_undoes_what_came_after_it_and_nothing_else() {
    with_rows(&[1, 2, 3], |engine, tree| {
        let mut txn = rr(engine);
        set(&mut txn, tree, 1, "before").unwrap();
        let savepoint = txn.savepoint();
        for round in 0..3 {
            set(&mut txn, tree, 1, &format!("after {round}")).unwrap();
            del(&mut txn, tree, 2).unwrap();
            put(&mut txn, tree, 2, "again, and much longer than before");
            put(&mut txn, tree, 4, "4");
            del(&mut txn, tree, 4).unwrap();
            put(&mut txn, tree, 5, "5");
            txn.rollback_to(savepoint).unwrap();
            assert_eq!(keys(&mut txn, tree), [1, 2, 3]);
            assert_eq!(get(&mut txn, tree, 1).as_deref(), Some("before"));
            assert_eq!(get(&mut txn, tree, 2).as_deref(), Some("2"));
        }
        txn.commit().unwrap();
        let mut reader = rr(engine);
        assert_eq!(keys(&mut reader, tree), [1, 2, 3]);
        assert_eq!(get(&mut reader, tree, 1).as_deref(), Some("before"));
    });
}

#[test]
fn a_failed_statement_is_undone_alone() {
    with_rows(&[1], |engine, tree| {
        let mut txn = rr(engine);
        txn.start_statement();
        put(&mut txn, tree, 2, "2");
        txn.start_statement();
        put(&mut txn, tree, 3, "3");
        assert_eq!(insert(&mut txn, tree, 1, "dup").unwrap(), Insert::Duplicate);
        txn.rollback_statement().unwrap();
        txn.commit().unwrap();
        assert_eq!(keys(&mut txn, tree), [1, 2]);
    });
}

#[test]
fn a_large_transaction_rolls_back() {
    with_rows(&[1, 500, 100_000], |engine, tree| {
        let mut txn = rr(engine);
        for n in 2..4000u32 {
            if n != 500 {
                put(&mut txn, tree, n, &format!("{n:0120}"));
            }
        }
        set(&mut txn, tree, 500, &"y".repeat(2000)).unwrap();
        del(&mut txn, tree, 1).unwrap();
        txn.rollback().unwrap();
        let mut reader = rr(engine);
        assert_eq!(keys(&mut reader, tree), [1, 500, 100_000]);
        assert_eq!(get(&mut reader, tree, 500).as_deref(), Some("500"));
        assert_eq!(engine.check_tree(tree).unwrap(), Vec::<String>::new());
        assert_eq!(engine.status().trx_active, 0);
        reader.commit().unwrap();
        purged(engine);
    });
}

#[test]
fn a_dropped_transaction_is_rolled_back() {
    with_rows(&[1], |engine, tree| {
        let mut txn = rr(engine);
        set(&mut txn, tree, 1, "lost").unwrap();
        drop(txn);
        let mut reader = rr(engine);
        assert_eq!(get(&mut reader, tree, 1).as_deref(), Some("1"));
        set(&mut reader, tree, 1, "free").unwrap();
        reader.commit().unwrap();
    });
}

#[test]
fn purge_removes_what_nobody_sees_and_undo_shrinks_to_its_tails() {
    with_rows(&[], |engine, tree| {
        let mut reader = rr(engine);
        for n in 0..2000u32 {
            let mut txn = rr(engine);
            put(&mut txn, tree, n, &"r".repeat(150));
            txn.commit().unwrap();
        }
        reader.take_snapshot();
        for n in 0..2000u32 {
            let mut txn = rr(engine);
            set(&mut txn, tree, n, &"s".repeat(150)).unwrap();
            del(&mut txn, tree, n).unwrap();
            txn.commit().unwrap();
        }
        fiber::sleep(Duration::from_secs(2));
        assert!(engine.status().history_len >= 2000, "purge went past a snapshot");
        assert_eq!(keys(&mut reader, tree).len(), 2000);
        let peak = engine.status().undo_pages;
        reader.commit().unwrap();
        purged(engine);
        assert_eq!(keys(&mut reader, tree), [0u32; 0]);
        let left = engine.row_estimate(tree, ScanRange::ALL).unwrap();
        assert!(left < 20, "{left} dead entries are left");
        let status = engine.status();
        assert!(status.undo_pages <= 64 && peak > status.undo_pages, "{peak} -> {}", status.undo_pages);
    });
}

#[test]
fn undo_of_who_is_quiet_is_freed_while_others_work() {
    with_rows(&[], |engine, tree| {
        let done = Arc::new(Event::default());
        let (own, tree, ended) = (engine.clone(), tree.clone(), done.clone());
        // The segment is the worker's.
        fiber::spawn_on(1, move || {
            let mut txn = rr(&own);
            (0..2000).for_each(|n| put(&mut txn, &tree, n, &"l".repeat(150)));
            (0..2000).for_each(|n| set(&mut txn, &tree, n, &"m".repeat(150)).unwrap());
            txn.commit().unwrap();
            ended.set();
        });
        done.wait(WaitEvent::Idle);
        let peak = engine.status().undo_pages;
        let other = new_tree(engine);
        let mut reader = rr(engine);
        reader.take_snapshot();
        for n in 0..10 {
            let mut txn = rr(engine);
            put(&mut txn, &other, n, "s");
            txn.commit().unwrap();
        }
        fiber::sleep(Duration::from_secs(10));
        let status = engine.status();
        assert!(status.history_len >= 10, "purge went past a snapshot");
        assert!(peak > 20 && status.undo_pages < 8, "{peak} -> {}", status.undo_pages);
    });
}

#[test]
fn a_deleted_key_that_came_back_survives_purge() {
    with_rows(&[1], |engine, tree| {
        let mut reader = rr(engine);
        reader.take_snapshot();
        let mut txn = rr(engine);
        del(&mut txn, tree, 1).unwrap();
        txn.commit().unwrap();
        put(&mut txn, tree, 1, "back");
        txn.commit().unwrap();
        assert_eq!(get(&mut reader, tree, 1).as_deref(), Some("1"));
        reader.commit().unwrap();
        purged(engine);
        assert_eq!(get(&mut reader, tree, 1).as_deref(), Some("back"));
    });
}

#[test]
fn a_queue_table_does_not_grow() {
    with_rows(&[], |engine, tree| {
        let mut pages = Vec::new();
        for round in 0..20u32 {
            for n in 0..100 {
                let mut txn = rr(engine);
                put(&mut txn, tree, round * 100 + n, &"q".repeat(1000));
                txn.commit().unwrap();
            }
            for n in 0..100 {
                let mut txn = rr(engine);
                del(&mut txn, tree, round * 100 + n).unwrap();
                txn.commit().unwrap();
            }
            purged(engine);
            pages.push(engine.tree_pages(tree));
        }
        assert!(pages[19] <= pages[4] + 8, "{pages:?}");
    });
}

#[test]
fn long_rows_live_die_and_come_back() {
    with_rows(&[1], |engine, tree| {
        let long = |c: &str, n: usize| c.repeat(n);
        let mut txn = rr(engine);
        put(&mut txn, tree, 2, &long("a", 100_000));
        set(&mut txn, tree, 1, &long("b", 20_000)).unwrap();
        txn.commit().unwrap();
        let mut reader = rr(engine);
        assert_eq!(get(&mut reader, tree, 2), Some(long("a", 100_000)));
        set(&mut txn, tree, 2, "short").unwrap();
        let savepoint = txn.savepoint();
        set(&mut txn, tree, 2, &long("c", 50_000)).unwrap();
        assert_eq!(get(&mut txn, tree, 2), Some(long("c", 50_000)));
        txn.rollback_to(savepoint).unwrap();
        let changed = txn
            .update_by(tree, &k(1), |old, new| -> Result<Change, ()> {
                assert_eq!(old.len(), 20_000);
                new.extend_from_slice(old);
                new.push(b'!');
                Ok(Change::Update)
            })
            .unwrap();
        assert_eq!(changed, Ok(Changed::Updated));
        txn.commit().unwrap();
        assert_eq!(get(&mut reader, tree, 2), Some(long("a", 100_000)));
        assert_eq!(get(&mut reader, tree, 1), Some(long("b", 20_000)));
        let all = scan_range(&mut reader, tree, ScanRange::ALL, Read::Snapshot).unwrap();
        assert_eq!(all.iter().map(|(_, row)| row.len()).collect::<Vec<_>>(), [20_000, 100_000]);
        reader.commit().unwrap();
        assert_eq!(get(&mut reader, tree, 2).as_deref(), Some("short"));
        del(&mut txn, tree, 1).unwrap();
        txn.commit().unwrap();
        reader.commit().unwrap();
        let before = engine.tree_pages(tree);
        for _ in 0..30 {
            purged(engine);
            put(&mut txn, tree, 9, &long("d", 60_000));
            txn.commit().unwrap();
            del(&mut txn, tree, 9).unwrap();
            txn.commit().unwrap();
        }
        purged(engine);
        assert!(engine.tree_pages(tree) <= before + 16, "long values are given back");
        assert_eq!(engine.check_tree(tree).unwrap(), Vec::<String>::new());
    });
}

#[test]
fn trees_come_and_go_with_their_transaction() {
    let disk = Disk::new(5);
    let first = Options::new(5).with_disk(&disk);
    let (kept, dropped) = sim::run(first, || {
        let engine = Engine::open(config()).unwrap();
        let mut txn = rr(&engine);
        let kept = engine.create_tree(&mut txn, b"kept").unwrap();
        assert_eq!(kept.0, 2);
        let dropped = engine.create_tree(&mut txn, b"dropped").unwrap();
        txn.commit().unwrap();
        let undone = engine.create_tree(&mut txn, b"undone").unwrap();
        txn.rollback().unwrap();
        assert!(engine.tree(undone).is_none());
        engine.drop_tree(&mut txn, dropped).unwrap();
        txn.rollback().unwrap();
        assert_eq!(engine.trees().unwrap(), [(kept, b"kept".to_vec()), (dropped, b"dropped".to_vec())]);
        let held = engine.tree(dropped).unwrap();
        engine.drop_tree(&mut txn, dropped).unwrap();
        txn.commit().unwrap();
        assert!(engine.tree(dropped).is_none());
        assert_eq!(engine.row_estimate(&held, ScanRange::ALL).unwrap(), 0, "a planner may still hold it");
        assert_eq!(engine.key_near(&held, 0.5).unwrap(), None);
        let tree = engine.tree(kept).unwrap();
        put(&mut txn, &tree, 1, "1");
        engine.raise_counter(&tree, 77).unwrap();
        txn.commit().unwrap();
        engine.shutdown().unwrap();
        (kept, dropped)
    })
    .done();
    sim::run(Options::new(6).with_disk(&disk), || {
        let engine = Engine::open(config()).unwrap();
        assert_eq!(engine.trees().unwrap(), [(kept, b"kept".to_vec())]);
        assert!(engine.tree(dropped).is_none());
        let tree = engine.tree(kept).unwrap();
        assert_eq!(engine.counter(&tree, None).unwrap(), 77);
        assert_eq!(keys(&mut rr(&engine), &tree), [1]);
        engine.shutdown().unwrap();
    })
    .done();
}

#[test]
fn a_tree_that_cannot_be_dropped_for_want_of_room_goes_as_soon_as_there_is_some() {
    world_of(small_log(), 1, |engine| {
        let (tree, half) = (new_tree(engine), new_tree(engine).id());
        fill_log(engine, &tree);
        engine.abandon_trees(&[half]);
        assert!(engine.tree(half).is_some(), "nothing can be logged");
        let limit = time::now() + Duration::from_secs(60);
        while engine.tree(half).is_some() {
            assert!(time::now() < limit, "the tree is still there");
            fiber::sleep(Duration::from_millis(100));
        }
        assert_eq!(engine.trees().unwrap(), [(tree.id(), b"test".to_vec())]);
    });
}

#[test]
fn a_full_disk_loses_no_page_of_a_long_value() {
    world_of(small_log(), 1, |engine| {
        let tree = new_tree(engine);
        let long = "l".repeat(400_000);
        let mut txn = rr(engine);
        put(&mut txn, &tree, 1, &long);
        txn.commit().unwrap();
        let mut reader = rr(engine);
        reader.take_snapshot();
        set(&mut txn, &tree, 1, "short").unwrap();
        txn.commit().unwrap();
        fill_log(engine, &tree);
        // Purge finds what it may remove while nothing can be logged.
        reader.commit().unwrap();
        fiber::sleep(Duration::from_secs(1));
        while engine.raise_counter(&tree, 1 << 41).is_err() {
            fiber::sleep(Duration::from_secs(1));
        }
        purged(engine);
        let before = engine.tree_pages(&tree);
        put(&mut txn, &tree, 2, &long);
        txn.commit().unwrap();
        assert_eq!(engine.tree_pages(&tree), before, "the pages of the old value are used again");
    });
}

#[test]
fn a_victim_that_cannot_be_rolled_back_at_once_is_never_committed() {
    with_rows(&[], |engine, tree| {
        let (mut a, mut b) = (rr(engine), rr(engine));
        let rows = 1500;
        (0..rows).for_each(|n| put(&mut a, tree, n, &"o".repeat(3000)));
        put(&mut a, tree, rows, "o");
        a.commit().unwrap();
        // Its undo is larger than the pool; the other one changes more, so that it is not the victim.
        (0..rows).for_each(|n| set(&mut b, tree, n, &"b".repeat(3000)).unwrap());
        (0..2 * rows).for_each(|n| set(&mut a, tree, rows, &format!("a{n}")).unwrap());
        let tree_b = tree.clone();
        let victim = blocked(engine, move || {
            let result = set(&mut b, &tree_b, rows, "b");
            assert!(!b.has_writes());
            b.commit().unwrap();
            result
        });
        sim::fail_times(sim::Op::Read, "undo.kt", 5, 0, 20);
        let (mut reader, tree_a) = (rr(engine), tree.clone());
        fiber::spawn(move || {
            set(&mut a, &tree_a, 0, "a").unwrap();
            a.rollback().unwrap();
        });
        assert!(is_deadlock(&victim.done()));
        while engine.status().trx_active != 0 {
            fiber::sleep(Duration::from_millis(100));
        }
        for (n, row) in scan_range(&mut reader, tree, ScanRange::ALL, Read::Snapshot).unwrap() {
            assert!(row.starts_with('o'), "row {n} is left as {row:.3}");
        }
    });
}

#[test]
fn a_read_only_transaction_refuses_writes() {
    with_rows(&[1], |engine, tree| {
        let mut txn = engine.begin(TxnOptions { read_only: true, ..TxnOptions::default() });
        assert!(matches!(insert(&mut txn, tree, 2, "2"), Err(Error::ReadOnly)));
        assert!(matches!(set(&mut txn, tree, 1, "2"), Err(Error::ReadOnly)));
        assert_eq!(get(&mut txn, tree, 1).as_deref(), Some("1"));
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    with_rows(&[1], |engine, tree| {
        let mut txn = begin(engine, Isolation::ReadCommitted);
        let key = vec![7; 4000];
        assert!(matches!(txn.insert(tree, &key, b"", OnDuplicate::LockShared), Err(Error::TooLarge)));
        assert!(matches!(del(&mut txn, tree, 2), Err(Error::NotFound)));
        txn.commit().unwrap();
    });
}

#[test]
fn a_long_history_is_opened_with_many_reads_at_a_time_and_in_the_smallest_pool() {
    let disk = Disk::new(5);
    let life = |pool_bytes: u64| {
        let mut config = config();
        config.store.pool_bytes = pool_bytes;
        config
    };
    let seen = Mutex::new((0, Duration::ZERO, 0));
    let first: Outcome<()> = sim::run(Options::new(5).with_disk(&disk), || {
        let engine = Engine::open(life(64 << 20)).expect("open");
        let tree = new_tree(&engine);
        let mut reader = rr(&engine);
        reader.take_snapshot();
        for n in 0..100 {
            put(&mut rr(&engine), &tree, n, "rolled back");
        }
        for round in 0..200 {
            let mut txn = rr(&engine);
            for n in 0..100 {
                match round {
                    0 => put(&mut txn, &tree, n, "first"),
                    // All of it differs from the version before, so that each undo record holds all of it.
                    _ => set(&mut txn, &tree, n, &format!("{round:04}").repeat(200)).unwrap(),
                }
            }
            txn.commit().unwrap();
        }
        engine.checkpoint().unwrap();
        seen.lock().0 = engine.status().undo_pages;
        sim::crash_now()
    });
    assert_eq!(first, Outcome::Crashed);
    for pool_bytes in [64 << 20, 1 << 20] {
        let again: Outcome<()> = sim::run(Options::new(6).with_disk(&disk), || {
            let before = time::now();
            let engine = Engine::open(life(pool_bytes)).expect("open");
            let (took, history) = (time::now() - before, engine.status().history_len);
            {
                let mut seen = seen.lock();
                (seen.1, seen.2) = (took, history);
            }
            sim::crash_now()
        });
        assert_eq!(again, Outcome::Crashed);
        let (pages, took, history) = *seen.lock();
        assert!(pages > 900 && history > 200, "{pages} pages of undo, {history} transactions");
        // What the world's device takes for one read, on average.
        let serial = Duration::from_micros(77) * pages as u32;
        assert!(took < serial / 2, "{pages} pages took {took:?} with a pool of {pool_bytes} bytes");
    }
}

//! Row and gap locks: who waits for whom, and how waits end.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use keel_runtime::{fiber, time};
use keel_storage::{
    Engine, EngineConfig, Error, Insert, Interrupt, Isolation, LockMode, OnDuplicate, RangeEnd, Read,
    ScanRange, TreeHandle, Txn, TxnOptions, Wait,
};

const X: LockMode = LockMode::Exclusive;
const S: LockMode = LockMode::Shared;

#[test]
fn two_transactions_that_cross_deadlock_and_the_cheaper_one_is_rolled_back() {
    with_rows(&[1, 2, 3], |engine, tree| {
        let (mut a, mut b) = (rr(engine), rr(engine));
        set(&mut a, tree, 1, "a").unwrap();
        set(&mut a, tree, 3, "a").unwrap();
        set(&mut b, tree, 2, "b").unwrap();
        let tree_b = tree.clone();
        let waiting = blocked(engine, move || {
            let result = set(&mut b, &tree_b, 1, "b");
            assert!(!b.has_writes(), "the victim is rolled back when it hears of it");
            result
        });
        set(&mut a, tree, 2, "a").unwrap();
        assert!(is_deadlock(&waiting.done()));
        a.commit().unwrap();
        assert_eq!(get(&mut rr(engine), tree, 2).as_deref(), Some("a"));
        assert_eq!(engine.status().deadlocks, 1);
    });
}

#[test]
fn a_cycle_of_three_is_found() {
    with_rows(&[1, 2, 3], |engine, tree| {
        let mut txns: Vec<_> = (0..3).map(|_| rr(engine)).collect();
        for (n, txn) in txns.iter_mut().enumerate() {
            set(txn, tree, n as u32 + 1, "own").unwrap();
        }
        let mut last = txns.pop().unwrap();
        let mut waiting = Vec::new();
        for (n, mut txn) in txns.into_iter().enumerate() {
            let tree = tree.clone();
            waiting.push(blocked(engine, move || {
                let result = set(&mut txn, &tree, n as u32 + 2, "next");
                let _ = txn.rollback();
                result
            }));
        }
        let result = set(&mut last, tree, 1, "next");
        let _ = last.rollback();
        let results: Vec<_> = waiting.into_iter().map(Blocked::done).chain([result]).collect();
        assert_eq!(results.iter().filter(|r| is_deadlock(r)).count(), 1, "{results:?}");
    });
}

#[test]
fn a_wait_ends_at_its_timeout_and_keeps_the_transaction() {
    with_rows(&[1, 2], |engine, tree| {
        let mut a = rr(engine);
        set(&mut a, tree, 1, "a").unwrap();
        let options = TxnOptions { lock_wait_timeout: Some(Duration::from_secs(7)), ..TxnOptions::default() };
        let mut b = engine.begin(options);
        set(&mut b, tree, 2, "b").unwrap();
        let began = time::now();
        assert!(matches!(set(&mut b, tree, 1, "b"), Err(Error::LockWaitTimeout)));
        let waited = time::now().since(began);
        assert!(waited >= Duration::from_secs(7) && waited < Duration::from_secs(8), "{waited:?}");
        b.commit().unwrap();
        a.commit().unwrap();
        let mut reader = rr(engine);
        assert_eq!(get(&mut reader, tree, 2).as_deref(), Some("b"));
        assert_eq!(engine.locks(10).len(), 0, "no lock is left behind");
    });
}

#[test]
fn nowait_and_skip_locked_do_not_wait() {
    with_rows(&[1, 2, 3], |engine, tree| {
        let (mut a, mut b) = (rr(engine), rr(engine));
        lock(&mut a, tree, 2, X, Wait::Default).unwrap();
        assert!(matches!(lock(&mut b, tree, 2, X, Wait::NoWait), Err(Error::LockNotAvailable)));
        let skipping = Read::Lock(X, Wait::SkipLocked);
        let rows = scan_range(&mut b, tree, ScanRange::ALL, skipping).unwrap();
        assert_eq!(rows.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 3]);
        assert!(matches!(lock(&mut a, tree, 3, S, Wait::NoWait), Err(Error::LockNotAvailable)));
        assert_eq!(engine.status().lock_waits, 0);
    });
}

#[test]
fn an_interrupt_ends_a_wait() {
    with_rows(&[1], |engine, tree| {
        let mut a = rr(engine);
        set(&mut a, tree, 1, "a").unwrap();
        let interrupt = Interrupt::new();
        let mut b = engine.begin(TxnOptions { interrupt: Some(interrupt.clone()), ..TxnOptions::default() });
        let tree_b = tree.clone();
        let waiting = blocked(engine, move || set(&mut b, &tree_b, 1, "b"));
        interrupt.raise();
        assert!(matches!(waiting.done(), Err(Error::Interrupted)));
        a.commit().unwrap();
    });
}

#[test]
fn waiters_are_served_in_order_of_arrival() {
    with_rows(&[1], |engine, tree| {
        let mut a = rr(engine);
        set(&mut a, tree, 1, "0").unwrap();
        let waiting: Vec<_> = (1..=3)
            .map(|n| {
                let (mut txn, tree) = (rr(engine), tree.clone());
                blocked(engine, move || {
                    let before = lock(&mut txn, &tree, 1, X, Wait::Default).unwrap().unwrap();
                    set(&mut txn, &tree, 1, &format!("{before}{n}")).unwrap();
                    txn.commit().unwrap();
                })
            })
            .collect();
        a.commit().unwrap();
        waiting.into_iter().for_each(Blocked::done);
        assert_eq!(get(&mut rr(engine), tree, 1).as_deref(), Some("0123"));
    });
}

#[test]
fn shared_locks_are_shared_and_an_upgrade_beside_who_waits_for_it_is_a_deadlock() {
    with_rows(&[1], |engine, tree| {
        let (mut a, mut b, mut c) = (rr(engine), rr(engine), rr(engine));
        lock(&mut a, tree, 1, S, Wait::Default).unwrap();
        lock(&mut b, tree, 1, S, Wait::Default).unwrap();
        b.commit().unwrap();
        let tree_c = tree.clone();
        let waiting = blocked(engine, move || set(&mut c, &tree_c, 1, "c"));
        assert!(matches!(lock(&mut a, tree, 1, X, Wait::NoWait), Err(Error::LockNotAvailable)));
        set(&mut a, tree, 1, "a").unwrap();
        assert!(matches!(waiting.done(), Err(Error::Deadlock)));
        a.commit().unwrap();
        assert_eq!(get(&mut rr(engine), tree, 1).as_deref(), Some("a"));
        assert_eq!(engine.locks(10).len(), 0);
    });
}

#[test]
fn an_upgrade_lets_those_who_only_share_the_row_go_first() {
    with_rows(&[1, 2], |engine, tree| {
        let (mut a, mut b, mut c) = (rr(engine), rr(engine), rr(engine));
        set(&mut a, tree, 2, "a").unwrap();
        lock(&mut a, tree, 1, S, Wait::Default).unwrap();
        let (tree_b, tree_c, tree_a) = (tree.clone(), tree.clone(), tree.clone());
        let exclusive = blocked(engine, move || lock(&mut b, &tree_b, 1, X, Wait::Default).map(drop));
        let shared = blocked(engine, move || lock(&mut c, &tree_c, 1, S, Wait::Default).map(|_| c));
        let upgrade = blocked(engine, move || set(&mut a, &tree_a, 1, "a").map(|()| a));
        assert!(matches!(exclusive.done(), Err(Error::Deadlock)));
        let mut c = shared.done().unwrap();
        assert!(upgrade.waits());
        c.commit().unwrap();
        upgrade.done().unwrap().commit().unwrap();
        assert_eq!(get(&mut rr(engine), tree, 1).as_deref(), Some("a"));
    });
}

#[test]
fn a_locked_range_keeps_phantoms_out_at_repeatable_read_only() {
    for (level, waits) in [(Isolation::RepeatableRead, true), (Isolation::ReadCommitted, false)] {
        with_rows(&[10, 20, 30], |engine, tree| {
            let mut a = begin(engine, level);
            let (low, high) = (k(15), k(25));
            let range =
                ScanRange { lower: Bound::Included(&low), upper: Bound::Included(&high), reverse: false };
            assert_eq!(scan_range(&mut a, tree, range, Read::FOR_UPDATE).unwrap().len(), 1);
            let mut b = rr(engine);
            put(&mut b, tree, 5, "5");
            put(&mut b, tree, 35, "35");
            b.commit().unwrap();
            for n in [15, 25, 12, 29] {
                let (mut b, tree_b) = (rr(engine), tree.clone());
                let mut write = move || {
                    put(&mut b, &tree_b, n, "phantom");
                    b.rollback().unwrap();
                };
                if waits {
                    let waiting = blocked(engine, write);
                    assert!(waiting.waits());
                    a.commit().unwrap();
                    waiting.done();
                    scan_range(&mut a, tree, range, Read::FOR_UPDATE).unwrap();
                } else {
                    write();
                }
            }
            a.commit().unwrap();
        });
    }
}

#[test]
fn a_missing_row_keeps_its_gap() {
    with_rows(&[10, 20], |engine, tree| {
        let mut a = rr(engine);
        assert_eq!(lock(&mut a, tree, 15, X, Wait::Default).unwrap(), None);
        let (mut b, tree_b) = (rr(engine), tree.clone());
        let waiting = blocked(engine, move || {
            put(&mut b, &tree_b, 17, "17");
            b.commit().unwrap();
        });
        // The owner may insert into its own gap; both halves stay locked.
        put(&mut a, tree, 15, "15");
        assert!(waiting.waits());
        let (mut c, tree_c) = (rr(engine), tree.clone());
        let second = blocked(engine, move || {
            put(&mut c, &tree_c, 12, "12");
            c.commit().unwrap();
        });
        a.commit().unwrap();
        waiting.done();
        second.done();
        assert_eq!(keys(&mut rr(engine), tree), [10, 12, 15, 17, 20]);
    });
}

#[test]
fn a_gap_outlives_the_purge_of_the_row_at_its_end() {
    with_rows(&[10, 20, 30], |engine, tree| {
        let mut d = rr(engine);
        del(&mut d, tree, 20).unwrap();
        d.commit().unwrap();
        let mut a = rr(engine);
        assert_eq!(lock(&mut a, tree, 15, X, Wait::Default).unwrap(), None);
        while engine.status().history_len != 0 {
            fiber::sleep(Duration::from_millis(10));
        }
        let (mut b, tree_b) = (rr(engine), tree.clone());
        let waiting = blocked(engine, move || {
            put(&mut b, &tree_b, 16, "16");
            b.commit().unwrap();
        });
        a.commit().unwrap();
        waiting.done();
    });
}

#[test]
fn two_gap_owners_that_insert_deadlock() {
    with_rows(&[10, 20], |engine, tree| {
        let (mut a, mut b) = (rr(engine), rr(engine));
        lock(&mut a, tree, 15, X, Wait::Default).unwrap();
        lock(&mut b, tree, 16, X, Wait::Default).unwrap();
        let tree_a = tree.clone();
        let waiting = blocked(engine, move || insert(&mut a, &tree_a, 15, "a").and_then(|_| a.commit()));
        let second = insert(&mut b, tree, 16, "b").and_then(|_| b.commit());
        let first = waiting.done();
        assert!(is_deadlock(&first) != is_deadlock(&second), "{first:?} {second:?}");
    });
}

#[test]
fn an_insert_waits_for_an_uncommitted_row_at_its_key() {
    for commit in [true, false] {
        with_rows(&[1], |engine, tree| {
            let mut a = rr(engine);
            put(&mut a, tree, 2, "a");
            let (mut b, tree_b) = (rr(engine), tree.clone());
            let waiting = blocked(engine, move || {
                let result = insert(&mut b, &tree_b, 2, "b").unwrap();
                b.commit().unwrap();
                result
            });
            let ended = if commit { a.commit().map(|_| ()) } else { a.rollback() };
            ended.unwrap();
            assert_eq!(waiting.done(), if commit { Insert::Duplicate } else { Insert::Done });
            let expected = if commit { "a" } else { "b" };
            assert_eq!(get(&mut rr(engine), tree, 2).as_deref(), Some(expected));
        });
    }
}

#[test]
fn a_duplicate_leaves_a_shared_lock_on_the_row_found() {
    with_rows(&[1], |engine, tree| {
        let (mut a, mut b) = (rr(engine), rr(engine));
        assert_eq!(insert(&mut a, tree, 1, "a").unwrap(), Insert::Duplicate);
        assert_eq!(insert(&mut b, tree, 1, "b").unwrap(), Insert::Duplicate);
        let tree_b = tree.clone();
        let waiting = blocked(engine, move || set(&mut b, &tree_b, 1, "b").and_then(|()| b.commit()));
        a.commit().unwrap();
        waiting.done().unwrap();
    });
}

#[test]
fn a_unique_value_stands_once_however_writers_interleave() {
    with_rows(&[], |engine, tree| {
        // Entries are (value, row id); the value is unique. Many dead entries of one value spread over leaves.
        let entry = |value: u32, row: u32| [k(value), k(row)].concat();
        let mut txn = rr(engine);
        let mut found = Vec::new();
        let filler = vec![b'x'; 300];
        for row in 0..200u32 {
            let key = entry(7, row);
            let done =
                txn.insert_unique(tree, &key, 4, &filler, OnDuplicate::LockShared, &mut found).unwrap();
            assert_eq!(done, Insert::Done);
            if row < 199 {
                txn.delete(tree, &key).unwrap();
            }
        }
        let result =
            txn.insert_unique(tree, &entry(7, 500), 4, b"", OnDuplicate::LockShared, &mut found).unwrap();
        assert_eq!((result, found.as_slice()), (Insert::Duplicate, entry(7, 199).as_slice()));
        txn.delete(tree, &entry(7, 199)).unwrap();
        txn.commit().unwrap();
        let (mut a, mut b) = (rr(engine), rr(engine));
        let first =
            a.insert_unique(tree, &entry(7, 1000), 4, b"a", OnDuplicate::LockShared, &mut found).unwrap();
        assert_eq!(first, Insert::Done);
        let tree_b = tree.clone();
        let waiting = blocked(engine, move || {
            let mut found = Vec::new();
            let key = [k(7), k(2000)].concat();
            let result = b.insert_unique(&tree_b, &key, 4, b"b", OnDuplicate::LockShared, &mut found);
            let _ = b.rollback();
            result
        });
        a.commit().unwrap();
        assert!(matches!(waiting.done(), Ok(Insert::Duplicate)));
    });
}

#[test]
fn read_committed_gives_back_the_lock_of_a_row_that_does_not_match() {
    with_rows(&[1, 2, 3], |engine, tree| {
        let mut a = rc(engine);
        let mut scan = a.scan(tree, ScanRange::ALL, Read::FOR_UPDATE).unwrap();
        while let Some((key, _)) = scan.next(&mut a).unwrap() {
            if key != k(2) {
                scan.unlock_current(&mut a);
            }
        }
        let mut b = rr(engine);
        set(&mut b, tree, 1, "b").unwrap();
        set(&mut b, tree, 3, "b").unwrap();
        assert!(matches!(lock(&mut b, tree, 2, S, Wait::NoWait), Err(Error::LockNotAvailable)));
        b.commit().unwrap();
        a.commit().unwrap();
    });
}

#[test]
fn read_committed_gives_back_no_more_than_the_scan_took_and_nothing_that_it_waited_for() {
    with_rows(&[1, 2], |engine, tree| {
        for waits in [false, true] {
            let (mut a, mut b) = (rc(engine), rc(engine));
            lock(&mut a, tree, 1, S, Wait::Default).unwrap();
            let tree_a = tree.clone();
            let passes_over = move || {
                let mut scan = a.scan(&tree_a, ScanRange::ALL, Read::FOR_UPDATE).unwrap();
                while scan.next(&mut a).unwrap().is_some() {
                    scan.unlock_current(&mut a);
                }
                a
            };
            let mut a = if waits {
                lock(&mut b, tree, 1, S, Wait::Default).unwrap();
                let waiting = blocked(engine, passes_over);
                b.commit().unwrap();
                waiting.done()
            } else {
                passes_over()
            };
            assert!(matches!(lock(&mut b, tree, 1, X, Wait::NoWait), Err(Error::LockNotAvailable)));
            assert_eq!(lock(&mut b, tree, 1, S, Wait::NoWait).is_err(), waits);
            lock(&mut b, tree, 2, X, Wait::NoWait).unwrap();
            b.commit().unwrap();
            a.commit().unwrap();
        }
    });
}

#[test]
fn read_committed_keeps_no_lock_on_a_row_that_was_gone_when_its_turn_came() {
    for point in [true, false] {
        with_rows(&[1, 2, 3], |engine, tree| {
            let (mut a, mut b) = (rr(engine), rc(engine));
            del(&mut a, tree, 2).unwrap();
            let tree_b = tree.clone();
            let waiting = blocked(engine, move || {
                if point {
                    assert_eq!(lock(&mut b, &tree_b, 2, X, Wait::Default).unwrap(), None);
                } else {
                    let rows = scan_range(&mut b, &tree_b, ScanRange::ALL, Read::FOR_UPDATE).unwrap();
                    assert_eq!(rows.len(), 2);
                }
                b
            });
            a.commit().unwrap();
            let mut b = waiting.done();
            put(&mut a, tree, 2, "again");
            a.commit().unwrap();
            b.commit().unwrap();
        });
    }
}

#[test]
fn a_limited_locking_scan_locks_what_it_gave() {
    with_rows(&[1, 2, 3], |engine, tree| {
        let mut a = rr(engine);
        let mut scan = a.scan(tree, ScanRange::ALL, Read::FOR_UPDATE).unwrap();
        scan.next(&mut a).unwrap();
        let mut b = rr(engine);
        set(&mut b, tree, 2, "b").unwrap();
        b.commit().unwrap();
        assert!(matches!(lock(&mut b, tree, 1, S, Wait::NoWait), Err(Error::LockNotAvailable)));
        a.commit().unwrap();
    });
}

#[test]
fn a_savepoint_before_anything_was_done_gives_all_locks_back() {
    with_rows(&[1], |engine, tree| {
        let mut a = rr(engine);
        let start = a.savepoint_of_session();
        set(&mut a, tree, 1, "a").unwrap();
        a.rollback_to(start).unwrap();
        let mut b = rr(engine);
        set(&mut b, tree, 1, "b").unwrap();
        b.commit().unwrap();
        assert_eq!(get(&mut a, tree, 1).as_deref(), Some("b"));
        a.commit().unwrap();
    });
}

#[test]
fn a_statements_own_savepoint_gives_no_lock_back() {
    with_rows(&[1], |engine, tree| {
        let mut a = rr(engine);
        let start = a.savepoint();
        assert_eq!(insert(&mut a, tree, 1, "a").unwrap(), Insert::Duplicate);
        put(&mut a, tree, 2, "a");
        let id = a.id();
        a.rollback_to(start).unwrap();
        assert_eq!(a.id(), id);
        let mut b = rr(engine);
        assert!(matches!(lock(&mut b, tree, 1, X, Wait::NoWait), Err(Error::LockNotAvailable)));
        put(&mut b, tree, 2, "b");
        b.commit().unwrap();
        a.commit().unwrap();
    });
}

#[test]
fn a_scan_locks_the_row_beyond_an_open_range_and_gives_it_back_where_no_gaps_are_locked() {
    use std::ops::Bound::{Excluded, Included};
    with_rows(&[1, 2, 3], |engine, tree| {
        for (isolation, locked) in [(Isolation::RepeatableRead, true), (Isolation::ReadCommitted, false)] {
            let mut a = begin(engine, isolation);
            let (low, high) = (k(1), k(2));
            let range = ScanRange { lower: Included(&low), upper: Excluded(&high), reverse: false };
            let mut scan = a.scan(tree, range, Read::FOR_UPDATE).unwrap();
            scan.set_end(RangeEnd::NextKey);
            assert!(scan.next(&mut a).unwrap().is_some());
            assert!(scan.next(&mut a).unwrap().is_none());
            assert_eq!(scan.take_beyond().is_some(), locked);
            let mut b = rr(engine);
            assert_eq!(lock(&mut b, tree, 2, S, Wait::NoWait).is_err(), locked);
            assert!(lock(&mut b, tree, 3, S, Wait::NoWait).is_ok());
            b.commit().unwrap();
            a.commit().unwrap();
        }
    });
}

#[test]
fn a_scan_downwards_locks_gaps_that_reach_over_the_edge_of_a_leaf() {
    use std::ops::Bound::{Excluded, Included};
    with_rows(&[], |engine, tree| {
        let rows = 1..800;
        let mut txn = rr(engine);
        rows.clone().for_each(|n| put(&mut txn, tree, n, &"r".repeat(200)));
        txn.commit().unwrap();
        // Some leaves begin with a row that is gone now.
        rows.clone().filter(|n| n % 2 == 1).for_each(|n| del(&mut txn, tree, n).unwrap());
        txn.commit().unwrap();
        while engine.status().history_len != 0 {
            fiber::sleep(Duration::from_millis(10));
        }
        let timeout = Some(Duration::from_millis(1));
        for gone in rows.filter(|n| n % 2 == 1 && *n > 4) {
            let (low, high) = (k(gone - 3), k(gone + 1));
            let range = ScanRange { lower: Included(&low), upper: Excluded(&high), reverse: true };
            let found = scan_range(&mut txn, tree, range, Read::FOR_UPDATE).unwrap();
            assert_eq!(found.len(), 2);
            let mut other = engine.begin(TxnOptions { lock_wait_timeout: timeout, ..TxnOptions::default() });
            let result = insert(&mut other, tree, gone, "phantom");
            assert!(matches!(result, Err(Error::LockWaitTimeout)), "{gone}: {result:?}");
            other.rollback().unwrap();
            txn.rollback().unwrap();
        }
    });
}

#[test]
fn a_semi_consistent_scan_gives_locked_rows_as_last_committed_and_locks_those_it_insists_on() {
    with_rows(&[1, 2], |engine, tree| {
        let mut a = rr(engine);
        set(&mut a, tree, 1, "a").unwrap();
        let mut b = rc(engine);
        let mut scan = b.scan(tree, ScanRange::ALL, Read::FOR_UPDATE).unwrap();
        scan.set_semi_consistent();
        assert_eq!(scan.next(&mut b).unwrap().map(|(_, row)| row.to_vec()), Some(b"1".to_vec()));
        assert!(scan.is_unlocked());
        a.commit().unwrap();
        scan.insist();
        assert_eq!(scan.next(&mut b).unwrap().map(|(_, row)| row.to_vec()), Some(b"a".to_vec()));
        assert!(!scan.is_unlocked());
        assert!(matches!(lock(&mut a, tree, 1, S, Wait::NoWait), Err(Error::LockNotAvailable)));
        b.commit().unwrap();
        a.commit().unwrap();
    });
}

#[test]
fn a_semi_consistent_scan_gives_long_rows_as_last_committed() {
    let long = |c: &str| c.repeat(20_000);
    with_rows(&[1, 2], |engine, tree| {
        for new in ["short".to_string(), long("n")] {
            let mut a = rr(engine);
            set(&mut a, tree, 1, &long("o")).unwrap();
            set(&mut a, tree, 2, &long("p")).unwrap();
            a.commit().unwrap();
            set(&mut a, tree, 1, &new).unwrap();
            lock(&mut a, tree, 2, X, Wait::Default).unwrap();
            let mut b = rc(engine);
            let mut scan = b.scan(tree, ScanRange::ALL, Read::FOR_UPDATE).unwrap();
            scan.set_semi_consistent();
            for old in ["o", "p"] {
                assert_eq!(scan.next(&mut b).unwrap().map(|(_, row)| text(row)), Some(long(old)));
                assert!(scan.is_unlocked());
            }
            assert!(scan.next(&mut b).unwrap().is_none());
            b.commit().unwrap();
            a.commit().unwrap();
        }
    });
}

#[test]
fn rows_rolled_back_to_a_savepoint_stay_locked() {
    with_rows(&[1, 2], |engine, tree| {
        let mut a = rr(engine);
        set(&mut a, tree, 2, "a").unwrap();
        let start = a.savepoint();
        set(&mut a, tree, 1, "a").unwrap();
        put(&mut a, tree, 5, "a");
        a.rollback_to(start).unwrap();
        assert_eq!(get(&mut a, tree, 1).as_deref(), Some("1"));
        let mut b = rr(engine);
        assert!(matches!(lock(&mut b, tree, 1, S, Wait::NoWait), Err(Error::LockNotAvailable)));
        put(&mut b, tree, 5, "the row that went took its lock along");
        b.commit().unwrap();
        a.commit().unwrap();
        assert_eq!(lock(&mut b, tree, 1, S, Wait::NoWait).unwrap().as_deref(), Some("1"));
        b.commit().unwrap();
        assert_eq!(engine.locks(10).len(), 0);
    });
}

/// A world in which transactions fold their row locks beyond `own`, with rows `0..count`.
fn with_folding<T: Send>(own: usize, count: u32, f: impl FnOnce(&Arc<Engine>, &TreeHandle) -> T + Send) -> T {
    world_of(EngineConfig { row_locks_max: own, ..config() }, 1, |engine| {
        let tree = new_tree(engine);
        let mut txn = rr(engine);
        (0..count).for_each(|n| put(&mut txn, &tree, n, "row"));
        txn.commit().unwrap();
        f(engine, &tree)
    })
}

/// Locks every second row of forty.
fn lock_spread(txn: &mut Txn, tree: &TreeHandle, mode: LockMode) {
    (0..40).step_by(2).for_each(|n| drop(lock(txn, tree, n, mode, Wait::Default).unwrap()));
}

#[test]
fn very_many_row_locks_are_few_entries_and_still_locks() {
    with_folding(64, 3000, |engine, tree| {
        let (mut a, mut b) = (rc(engine), rc(engine));
        for n in (0..3000).step_by(3) {
            lock(&mut a, tree, n, if n < 1500 { S } else { X }, Wait::Default).unwrap();
        }
        let entries = engine.locks(10_000).len();
        assert!(entries <= 64 + 2 * 1024, "{entries} entries for 1000 locks");
        for n in (0..3000).step_by(3) {
            let shared = lock(&mut b, tree, n, S, Wait::NoWait);
            assert_eq!(shared.is_ok(), n < 1500, "shared lock on {n}");
            assert!(matches!(lock(&mut b, tree, n, X, Wait::NoWait), Err(Error::LockNotAvailable)));
        }
        assert_eq!(lock(&mut a, tree, 3, S, Wait::NoWait).unwrap().as_deref(), Some("row"), "still its own");
        let tree_b = tree.clone();
        let waiting = blocked(engine, move || set(&mut b, &tree_b, 2997, "b"));
        a.commit().unwrap();
        waiting.done().unwrap();
        assert_eq!(engine.locks(10).len(), 0);
    });
}

#[test]
fn rows_that_many_share_are_few_entries_and_still_locks() {
    with_folding(64, 2000, |engine, tree| {
        let mut sharers: Vec<Txn> = (0..20).map(|_| rc(engine)).collect();
        for n in 0..2000 {
            sharers.iter_mut().for_each(|txn| drop(lock(txn, tree, n, S, Wait::Default).unwrap()));
        }
        let entries = engine.locks(100_000).len();
        assert!(entries <= 20 * (64 + 16), "{entries} entries for 40000 locks");
        let (mut last, mut writer) = (sharers.pop().unwrap(), rc(engine));
        assert!(matches!(lock(&mut last, tree, 700, X, Wait::NoWait), Err(Error::LockNotAvailable)));
        assert!(matches!(lock(&mut writer, tree, 700, X, Wait::NoWait), Err(Error::LockNotAvailable)));
        let tree_w = tree.clone();
        let waiting = blocked(engine, move || {
            set(&mut writer, &tree_w, 700, "written").unwrap();
            writer
        });
        // One who shares it goes on, one who does not waits behind the writer.
        assert_eq!(lock(&mut last, tree, 700, S, Wait::NoWait).unwrap().as_deref(), Some("row"));
        assert!(lock(&mut rc(engine), tree, 700, S, Wait::NoWait).is_err());
        for mut txn in sharers {
            txn.commit().unwrap();
        }
        assert_eq!(lock(&mut last, tree, 701, X, Wait::NoWait).unwrap().as_deref(), Some("row"));
        last.commit().unwrap();
        waiting.done().commit().unwrap();
        assert_eq!(engine.locks(10).len(), 0);
    });
}

#[test]
fn rows_between_folded_locks_stay_with_those_who_hold_them() {
    with_folding(4, 60, |engine, tree| {
        let (mut a, mut b, mut c) = (rc(engine), rc(engine), rc(engine));
        lock(&mut b, tree, 11, S, Wait::Default).unwrap();
        set(&mut b, tree, 13, "b").unwrap();
        lock_spread(&mut a, tree, X);
        assert!(matches!(lock(&mut c, tree, 15, S, Wait::NoWait), Err(Error::LockNotAvailable)), "no span");
        lock(&mut b, tree, 11, S, Wait::NoWait).unwrap();
        set(&mut b, tree, 13, "b again").unwrap();
        assert!(matches!(lock(&mut a, tree, 11, X, Wait::NoWait), Err(Error::LockNotAvailable)));
        assert!(matches!(lock(&mut a, tree, 13, S, Wait::NoWait), Err(Error::LockNotAvailable)));
        // The claim of `a` on 11 is void, for `b` has it; on 12 it is not.
        lock(&mut c, tree, 11, S, Wait::NoWait).unwrap();
        assert!(matches!(lock(&mut c, tree, 12, S, Wait::NoWait), Err(Error::LockNotAvailable)));
        b.commit().unwrap();
        c.commit().unwrap();
        assert_eq!(lock(&mut a, tree, 13, X, Wait::NoWait).unwrap().as_deref(), Some("b again"));
        a.commit().unwrap();
        assert_eq!(engine.locks(10).len(), 0);
    });
}

#[test]
fn a_row_shared_by_a_span_and_then_locked_alone_stays_so_when_waiters_give_up() {
    with_folding(4, 40, |engine, tree| {
        let (mut a, mut b, mut c) = (rc(engine), rc(engine), rc(engine));
        (0..40).for_each(|n| drop(lock(&mut a, tree, n, S, Wait::Default).unwrap()));
        lock(&mut c, tree, 10, S, Wait::NoWait).unwrap();
        let tree_a = tree.clone();
        let upgrades = blocked(engine, move || {
            lock(&mut a, &tree_a, 10, X, Wait::Default).unwrap();
            a
        });
        let tree_b = tree.clone();
        let impatient = Wait::Timeout(Duration::from_secs(1));
        let gives_up = blocked(engine, move || lock(&mut b, &tree_b, 10, X, impatient));
        c.commit().unwrap();
        let mut a = upgrades.done();
        assert!(matches!(gives_up.done(), Err(Error::LockWaitTimeout)));
        assert!(matches!(lock(&mut c, tree, 10, S, Wait::NoWait), Err(Error::LockNotAvailable)));
        a.commit().unwrap();
        assert_eq!(engine.locks(10).len(), 0);
    });
}

#[test]
fn a_span_over_a_row_that_its_owner_passed_over_does_not_come_before_those_who_wait() {
    with_folding(4, 60, |engine, tree| {
        let (mut a, mut b, mut c, mut d) = (rc(engine), rc(engine), rc(engine), rc(engine));
        lock(&mut d, tree, 11, S, Wait::Default).unwrap();
        set(&mut b, tree, 50, "b").unwrap();
        let tree_b = tree.clone();
        let first = blocked(engine, move || lock(&mut b, &tree_b, 11, X, Wait::Default));
        lock_spread(&mut a, tree, S);
        let tree_a = tree.clone();
        let last = blocked(engine, move || lock(&mut a, &tree_a, 50, X, Wait::Default));
        let tree_c = tree.clone();
        let second = blocked(engine, move || lock(&mut c, &tree_c, 11, X, Wait::Default));
        d.commit().unwrap();
        assert!(first.done().is_ok());
        assert!(last.done().is_ok() && second.done().is_ok());
        assert_eq!(engine.locks(10).len(), 0);
    });
}

#[test]
fn skipping_and_giving_up_leave_nothing_in_a_writers_name() {
    with_folding(64, 500, |engine, tree| {
        let mut a = rc(engine);
        (0..500).for_each(|n| set(&mut a, tree, n, "a").unwrap());
        let skipping = Read::Lock(X, Wait::SkipLocked);
        let mut b = rc(engine);
        assert!(scan_range(&mut b, tree, ScanRange::ALL, skipping).unwrap().is_empty());
        let at_once = Wait::Timeout(Duration::ZERO);
        (0..500).for_each(|n| assert!(lock(&mut b, tree, n, X, at_once).is_err()));
        assert_eq!(engine.locks(10).len(), 0);
        a.commit().unwrap();
    });
}

#[test]
fn a_row_locked_and_then_written_has_no_entry() {
    with_folding(1000, 100, |engine, tree| {
        let mut a = rr(engine);
        let mut scan = a.scan(tree, ScanRange::ALL, Read::FOR_UPDATE).unwrap();
        while let Some((key, _)) = scan.next(&mut a).unwrap() {
            let key = key.to_vec();
            a.update(tree, &key, b"new").unwrap();
        }
        let rows = engine.locks(1000).iter().filter(|lock| lock.kind == keel_storage::LockKind::Row).count();
        assert_eq!(rows, 0);
        assert!(matches!(lock(&mut rr(engine), tree, 50, S, Wait::NoWait), Err(Error::LockNotAvailable)));
        a.commit().unwrap();
    });
}

#[test]
fn very_many_gaps_become_few() {
    with_folding(64, 20_000, |engine, tree| {
        let (mut a, mut b) = (rr(engine), rr(engine));
        let mut txn = rr(engine);
        (0..20_000).step_by(2).for_each(|n| del(&mut txn, tree, n).unwrap());
        txn.commit().unwrap();
        (0..20_000).step_by(2).for_each(|n| assert!(set(&mut a, tree, n, "none").is_err()));
        assert!(engine.locks(100_000).len() <= 4 << 10);
        let tree_b = tree.clone();
        let waiting = blocked(engine, move || insert(&mut b, &tree_b, 10_000, "b"));
        a.commit().unwrap();
        waiting.done().unwrap();
    });
}

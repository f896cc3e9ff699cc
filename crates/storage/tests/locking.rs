//! Row and gap locks: who waits for whom, and how waits end.

mod common;

use std::time::Duration;

use common::*;
use keel_runtime::{fiber, time};
use keel_storage::{
    Error, Insert, Interrupt, Isolation, LockMode, OnDuplicate, Read, ScanRange, TxnOptions, Wait,
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
fn shared_locks_are_shared_and_an_upgrade_passes_those_who_wait_for_it() {
    with_rows(&[1], |engine, tree| {
        let (mut a, mut b, mut c) = (rr(engine), rr(engine), rr(engine));
        lock(&mut a, tree, 1, S, Wait::Default).unwrap();
        lock(&mut b, tree, 1, S, Wait::Default).unwrap();
        b.commit().unwrap();
        let tree_c = tree.clone();
        let waiting = blocked(engine, move || {
            set(&mut c, &tree_c, 1, "c").unwrap();
            c.commit().unwrap();
        });
        set(&mut a, tree, 1, "a").unwrap();
        assert!(waiting.waits());
        a.commit().unwrap();
        waiting.done();
        assert_eq!(get(&mut rr(engine), tree, 1).as_deref(), Some("c"));
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
fn rows_rolled_back_to_a_savepoint_stay_locked() {
    with_rows(&[1, 2], |engine, tree| {
        let mut a = rr(engine);
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

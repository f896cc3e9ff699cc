//! The anomalies that each isolation level keeps away, and those that it lets through, as InnoDB does (after the
//! Hermitage suite: G0, G1, OTV, PMP, P4, G-single, G2).

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use keel_runtime::fiber;
use keel_storage::{
    Engine, Error, Insert, Isolation, LockMode, Read, Result, ScanRange, TreeHandle, Txn, TxnOptions, Wait,
};

const LEVELS: [Isolation; 2] = [Isolation::ReadCommitted, Isolation::RepeatableRead];

#[test]
fn g0_dirty_writes_are_kept_away() {
    for level in LEVELS {
        with_rows(&[1, 2], |engine, tree| {
            let (mut a, mut b) = (begin(engine, level), begin(engine, level));
            set(&mut a, tree, 1, "11").unwrap();
            let tree_b = tree.clone();
            let waiting = blocked(engine, move || {
                set(&mut b, &tree_b, 1, "12").unwrap();
                b
            });
            set(&mut a, tree, 2, "21").unwrap();
            a.commit().unwrap();
            let mut b = waiting.done();
            set(&mut b, tree, 2, "22").unwrap();
            b.commit().unwrap();
            let mut reader = rr(engine);
            assert_eq!(get(&mut reader, tree, 1).as_deref(), Some("12"));
            assert_eq!(get(&mut reader, tree, 2).as_deref(), Some("22"));
        });
    }
}

#[test]
fn g1a_aborted_reads_are_kept_away() {
    for level in LEVELS {
        with_rows(&[1], |engine, tree| {
            let (mut a, mut b) = (begin(engine, level), begin(engine, level));
            set(&mut a, tree, 1, "101").unwrap();
            assert_eq!(get(&mut b, tree, 1).as_deref(), Some("1"));
            a.rollback().unwrap();
            assert_eq!(get(&mut b, tree, 1).as_deref(), Some("1"));
        });
    }
}

#[test]
fn g1b_intermediate_reads_are_kept_away() {
    for level in LEVELS {
        with_rows(&[1], |engine, tree| {
            let (mut a, mut b) = (begin(engine, level), begin(engine, level));
            set(&mut a, tree, 1, "101").unwrap();
            assert_eq!(get(&mut b, tree, 1).as_deref(), Some("1"));
            set(&mut a, tree, 1, "11").unwrap();
            a.commit().unwrap();
            let expected = if level == Isolation::ReadCommitted { "11" } else { "1" };
            assert_eq!(get(&mut b, tree, 1).as_deref(), Some(expected));
        });
    }
}

#[test]
fn g1c_circular_information_flow_is_kept_away() {
    for level in LEVELS {
        with_rows(&[1, 2], |engine, tree| {
            let (mut a, mut b) = (begin(engine, level), begin(engine, level));
            set(&mut a, tree, 1, "11").unwrap();
            set(&mut b, tree, 2, "22").unwrap();
            assert_eq!(get(&mut a, tree, 2).as_deref(), Some("2"));
            assert_eq!(get(&mut b, tree, 1).as_deref(), Some("1"));
            a.commit().unwrap();
            b.commit().unwrap();
        });
    }
}

#[test]
fn read_uncommitted_sees_what_others_have_not_committed() {
    with_rows(&[1], |engine, tree| {
        let (mut a, mut b) = (rr(engine), begin(engine, Isolation::ReadUncommitted));
        set(&mut a, tree, 1, "11").unwrap();
        assert_eq!(get(&mut b, tree, 1).as_deref(), Some("11"));
        a.rollback().unwrap();
        assert_eq!(get(&mut b, tree, 1).as_deref(), Some("1"));
    });
}

#[test]
fn pmp_a_repeatable_read_sees_no_phantom_that_read_committed_sees() {
    for level in LEVELS {
        with_rows(&[1, 2], |engine, tree| {
            let (mut a, mut b) = (begin(engine, level), begin(engine, level));
            assert_eq!(keys(&mut a, tree), [1, 2]);
            put(&mut b, tree, 3, "3");
            b.commit().unwrap();
            match level {
                Isolation::ReadCommitted => assert_eq!(keys(&mut a, tree), [1, 2, 3]),
                _ => assert_eq!(keys(&mut a, tree), [1, 2]),
            }
        });
    }
}

#[test]
fn p4_a_plain_read_then_write_loses_an_update_as_in_innodb() {
    with_rows(&[1], |engine, tree| {
        let (mut a, mut b) = (rr(engine), rr(engine));
        assert_eq!(get(&mut a, tree, 1), get(&mut b, tree, 1));
        set(&mut a, tree, 1, "11").unwrap();
        a.commit().unwrap();
        set(&mut b, tree, 1, "12").unwrap();
        assert_eq!(get(&mut b, tree, 1).as_deref(), Some("12"), "own writes are seen in an old snapshot");
        b.commit().unwrap();
    });
}

#[test]
fn p4_locking_reads_lose_no_update() {
    with_rows(&[1], |engine, tree| {
        let (mut a, mut b) = (rr(engine), rr(engine));
        lock(&mut a, tree, 1, LockMode::Exclusive, Wait::Default).unwrap();
        let tree_b = tree.clone();
        let waiting = blocked(engine, move || {
            let row = lock(&mut b, &tree_b, 1, LockMode::Exclusive, Wait::Default).unwrap();
            (b, row)
        });
        set(&mut a, tree, 1, "11").unwrap();
        a.commit().unwrap();
        let (mut b, row) = waiting.done();
        assert_eq!(row.as_deref(), Some("11"), "a locking read sees the newest row");
        b.commit().unwrap();
    });
}

#[test]
fn g_single_a_repeatable_read_sees_one_point_in_time() {
    with_rows(&[1, 2], |engine, tree| {
        let (mut a, mut b) = (rr(engine), rr(engine));
        assert_eq!(get(&mut a, tree, 1).as_deref(), Some("1"));
        set(&mut b, tree, 1, "12").unwrap();
        set(&mut b, tree, 2, "18").unwrap();
        b.commit().unwrap();
        assert_eq!(get(&mut a, tree, 2).as_deref(), Some("2"));
        a.commit().unwrap();
        assert_eq!(get(&mut a, tree, 2).as_deref(), Some("18"));
    });
}

#[test]
fn g2_item_write_skew_passes_at_repeatable_read_and_is_refused_with_shared_locks() {
    with_rows(&[1, 2], |engine, tree| {
        let (mut a, mut b) = (rr(engine), rr(engine));
        for txn in [&mut a, &mut b] {
            lock(txn, tree, 1, LockMode::Shared, Wait::Default).unwrap();
            lock(txn, tree, 2, LockMode::Shared, Wait::Default).unwrap();
        }
        let tree_a = tree.clone();
        let waiting = blocked(engine, move || set(&mut a, &tree_a, 1, "11").and_then(|()| a.commit()));
        let second = set(&mut b, tree, 2, "21").and_then(|()| b.commit());
        let first = waiting.done();
        assert!(is_deadlock(&first) != is_deadlock(&second), "{first:?} {second:?}");
    });
}

#[test]
fn snapshot_isolation_refuses_rows_that_are_newer_than_the_snapshot_or_gone_since() {
    for gone in [true, false] {
        let ways: [fn(&mut Txn, &TreeHandle) -> Result<()>; 4] = [
            |a, tree| lock(a, tree, 2, LockMode::Shared, Wait::Default).map(|_| ()),
            |a, tree| scan_range(a, tree, ScanRange::ALL, Read::FOR_UPDATE).map(|_| ()),
            |a, tree| set(a, tree, 2, "a"),
            |a, tree| insert(a, tree, 2, "a").map(|_| ()),
        ];
        for (number, way) in ways.into_iter().enumerate() {
            with_rows(&[1, 2, 3], |engine, tree| {
                let mut a = engine.begin(TxnOptions { snapshot_isolation: true, ..TxnOptions::default() });
                a.take_snapshot();
                let mut b = rr(engine);
                let changed = if gone { del(&mut b, tree, 2) } else { set(&mut b, tree, 2, "b") };
                changed.and_then(|()| b.commit()).unwrap();
                let result = way(&mut a, tree);
                assert!(matches!(result, Err(Error::RecordChanged)), "gone {gone}, way {number}: {result:?}");
                a.rollback().unwrap();
                way(&mut b, tree).unwrap_or_else(|e| assert!(matches!(e, Error::NotFound) && gone, "{e}"));
                b.commit().unwrap();
            });
        }
    }
}

#[test]
fn a_snapshot_is_taken_at_the_first_read_or_on_demand() {
    with_rows(&[1], |engine, tree| {
        let (mut lazy, mut eager) = (rr(engine), rr(engine));
        eager.take_snapshot();
        let mut writer = rr(engine);
        set(&mut writer, tree, 1, "2").unwrap();
        writer.commit().unwrap();
        assert_eq!(get(&mut lazy, tree, 1).as_deref(), Some("2"));
        assert_eq!(get(&mut eager, tree, 1).as_deref(), Some("1"));
    });
}

#[test]
fn old_versions_are_reached_through_many_updates_and_deletes() {
    with_rows(&[1, 2, 3], |engine, tree| {
        let mut old = Vec::new();
        for round in 0..40u32 {
            let mut reader = rr(engine);
            reader.take_snapshot();
            old.push((round, reader));
            let mut writer = rr(engine);
            match round % 4 {
                3 => del(&mut writer, tree, 2).unwrap(),
                0 if round > 0 => put(&mut writer, tree, 2, &format!("row {round}")),
                _ => {
                    set(&mut writer, tree, 2, &format!("row {round} {}", "x".repeat(round as usize))).unwrap()
                }
            }
            writer.commit().unwrap();
        }
        for (round, reader) in &mut old {
            let expected = match *round {
                0 => Some("2".to_string()),
                n if n % 4 == 0 => None,
                n if (n - 1) % 4 == 0 && n > 1 => Some(format!("row {}", n - 1)),
                n => Some(format!("row {} {}", n - 1, "x".repeat(n as usize - 1))),
            };
            assert_eq!(get(reader, tree, 2), expected, "round {round}");
            let seen = if expected.is_some() { vec![1, 2, 3] } else { vec![1, 3] };
            assert_eq!(keys(reader, tree), seen, "round {round}");
        }
    });
}

#[test]
fn scans_go_both_ways_over_many_leaves() {
    with_rows(&[], |engine, tree| {
        let mut txn = rr(engine);
        for n in 0..3000u32 {
            put(&mut txn, tree, (n * 7919) % 3000, &format!("{n:0100}"));
        }
        txn.commit().unwrap();
        let all: Vec<u32> = (0..3000).collect();
        assert_eq!(keys(&mut txn, tree), all);
        let bounds: [(Bound<u32>, Bound<u32>); 5] = [
            (Bound::Included(10), Bound::Excluded(2000)),
            (Bound::Excluded(10), Bound::Included(2000)),
            (Bound::Unbounded, Bound::Included(0)),
            (Bound::Excluded(2998), Bound::Unbounded),
            (Bound::Included(500), Bound::Excluded(500)),
        ];
        for (lower, upper) in bounds {
            let expected: Vec<u32> =
                all.iter().copied().filter(|n| std::ops::RangeBounds::contains(&(lower, upper), n)).collect();
            let (low, high) = (lower.map(k), upper.map(k));
            for reverse in [false, true] {
                for read in [Read::Snapshot, Read::FOR_SHARE] {
                    let range = ScanRange {
                        lower: low.as_ref().map(|k| k.as_slice()),
                        upper: high.as_ref().map(|k| k.as_slice()),
                        reverse,
                    };
                    let mut found: Vec<u32> = scan_range(&mut txn, tree, range, read)
                        .unwrap()
                        .into_iter()
                        .map(|(n, _)| n)
                        .collect();
                    if reverse {
                        found.reverse();
                    }
                    assert_eq!(found, expected, "{lower:?} {upper:?} reverse {reverse} {read:?}");
                }
            }
        }
        txn.commit().unwrap();
    });
}

#[test]
fn a_transaction_sees_its_own_writes() {
    with_rows(&[1, 2], |engine, tree| {
        let mut txn = rr(engine);
        txn.take_snapshot();
        put(&mut txn, tree, 3, "3");
        del(&mut txn, tree, 1).unwrap();
        set(&mut txn, tree, 2, "22").unwrap();
        assert_eq!(keys(&mut txn, tree), [2, 3]);
        assert_eq!(get(&mut txn, tree, 2).as_deref(), Some("22"));
        assert_eq!(insert(&mut txn, tree, 1, "again").unwrap(), Insert::Done);
        assert_eq!(get(&mut txn, tree, 1).as_deref(), Some("again"));
        let mut other = rr(engine);
        assert_eq!(keys(&mut other, tree), [1, 2]);
        assert_eq!(get(&mut other, tree, 1).as_deref(), Some("1"));
        txn.rollback().unwrap();
        assert_eq!(keys(&mut txn, tree), [1, 2]);
    });
}

/// One changes a row and commits; before that is durable, `look` gets the row's lock and the engine.
fn behind_a_commit_that_is_not_durable(look: impl Fn(&Arc<Engine>, &TreeHandle) + Sync) {
    with_rows(&[1], |engine, tree| {
        for _ in 0..20 {
            let mut writer = rr(engine);
            set(&mut writer, tree, 1, "old").unwrap();
            writer.commit().unwrap();
            let mut writer = rr(engine);
            set(&mut writer, tree, 1, "new").unwrap();
            fiber::spawn(move || _ = writer.commit().unwrap());
            look(engine, tree);
            fiber::sleep(Duration::from_secs(1));
        }
    });
}

#[test]
fn what_a_lock_has_shown_a_later_snapshot_of_the_transaction_sees() {
    behind_a_commit_that_is_not_durable(|engine, tree| {
        let mut reader = rc(engine);
        let locked = lock(&mut reader, tree, 1, LockMode::Shared, Wait::Default).unwrap();
        assert_eq!(locked.as_deref(), Some("new"));
        assert_eq!(get(&mut reader, tree, 1).as_deref(), Some("new"));
    });
}

#[test]
fn what_a_lock_has_shown_the_next_transaction_sees() {
    behind_a_commit_that_is_not_durable(|engine, tree| {
        let mut reader = rr(engine);
        let locked = lock(&mut reader, tree, 1, LockMode::Exclusive, Wait::Default).unwrap();
        assert_eq!(locked.as_deref(), Some("new"));
        reader.commit().unwrap();
        assert_eq!(get(&mut rr(engine), tree, 1).as_deref(), Some("new"));
    });
}

//! Temporary trees: rows as in any other tree, none of it in the log, nothing left of them after a start.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use keel_runtime::sim::{self, Disk, Options};
use keel_runtime::{fs, rand};
use keel_storage::{Engine, EngineConfig, OnDuplicate, Read, ScanRange, TreeHandle, Txn};

/// A pool that most rows do not fit in.
fn tiny() -> EngineConfig {
    let mut config = config();
    config.store.pool_bytes = 1 << 20;
    config.store.segment_bytes = 256 << 10;
    config.store.redo_capacity_bytes = 1 << 20;
    config
}

fn temporary(engine: &Arc<Engine>) -> TreeHandle {
    let id = engine.create_temporary_tree().unwrap();
    engine.tree(id).unwrap()
}

fn all(txn: &mut Txn, tree: &TreeHandle) -> BTreeMap<u32, String> {
    let mut scan = txn.scan(tree, ScanRange::ALL, Read::Snapshot).unwrap();
    let mut rows = BTreeMap::new();
    while let Some((key, row)) = scan.next(txn).unwrap() {
        let key = u32::from_be_bytes(key.try_into().unwrap());
        rows.insert(key, String::from_utf8(row.to_vec()).unwrap());
    }
    rows
}

/// Rows, some of them long.
fn value(n: u64) -> String {
    let len = match n % 17 {
        0 => 30_000,
        1..5 => 2000,
        _ => 40,
    };
    format!("{n:0len$}")
}

fn files() -> Vec<String> {
    let names = fs::read_dir(Path::new("/data/trees")).unwrap();
    names.into_iter().filter(|name| name.starts_with("tmp")).collect()
}

/// Random changes of both, some taken back; gives what is there.
fn changes(engine: &Arc<Engine>, tree: &TreeHandle, rounds: u64) -> BTreeMap<u32, String> {
    let mut rows = BTreeMap::new();
    for round in 0..rounds {
        let before = rows.clone();
        let mut txn = rr(engine);
        let mut at_savepoint = None;
        for _ in 0..rand::u64() % 30 {
            let key = (rand::u64() % 200) as u32;
            if rand::u64().is_multiple_of(8) {
                at_savepoint = Some((txn.savepoint(), rows.clone()));
            }
            let text = value(rand::u64() % 1000);
            match (rows.contains_key(&key), rand::u64() % 3) {
                (true, 0) => {
                    txn.delete(tree, &k(key)).unwrap();
                    rows.remove(&key);
                }
                (true, _) => {
                    txn.update(tree, &k(key), text.as_bytes()).unwrap();
                    rows.insert(key, text);
                }
                (false, _) => {
                    txn.insert(tree, &k(key), text.as_bytes(), OnDuplicate::LockShared).unwrap();
                    rows.insert(key, text);
                }
            }
        }
        if let Some((savepoint, then)) = at_savepoint.filter(|_| rand::u64().is_multiple_of(3)) {
            txn.rollback_to(savepoint).unwrap();
            rows = then;
        }
        assert_eq!(all(&mut txn, tree), rows, "round {round}");
        if rand::u64().is_multiple_of(3) {
            txn.rollback().unwrap();
            rows = before;
        } else {
            txn.commit().unwrap();
        }
        assert_eq!(all(&mut rr(engine), tree), rows, "round {round}");
    }
    rows
}

#[test]
fn rows_are_as_in_any_tree_though_the_pool_is_small() {
    for seed in 0..6 {
        world_of(tiny(), seed, |engine| {
            let trees: Vec<TreeHandle> = (0..4).map(|_| temporary(engine)).collect();
            let rows: Vec<_> = trees.iter().map(|tree| changes(engine, tree, 40)).collect();
            for (tree, rows) in trees.iter().zip(rows) {
                assert_eq!(all(&mut rr(engine), tree), rows);
                assert_eq!(engine.check_tree(tree).unwrap(), Vec::<String>::new());
            }
            assert_eq!(files().len(), 4);
            trees.iter().for_each(|tree| engine.drop_temporary_tree(tree.id()));
            assert!(files().is_empty());
        });
    }
}

#[test]
fn nobody_waits_for_the_log_and_little_goes_there() {
    world(1, |engine| {
        let tree = temporary(engine);
        let filled = engine.status().store;
        let mut txn = rr(engine);
        for key in 0..1000 {
            put(&mut txn, &tree, key, &"x".repeat(1000));
        }
        let pages = engine.status().store.log_bytes - filled.log_bytes;
        assert!(pages < 200_000, "{pages} bytes of log for a thousand rows");
        let durable = engine.status().store.durable_lsn;
        let end = txn.commit().unwrap();
        assert!(end.0 > durable && engine.status().store.durable_lsn < end.0, "the commit has waited");
        // Its own session sees it all the same.
        assert_eq!(all(&mut rr(engine), &tree).len(), 1000);
    });
}

#[test]
fn what_is_exempt_stays_when_the_transaction_goes() {
    world(1, |engine| {
        let tree = temporary(engine);
        let other = temporary(engine);
        let mut txn = rr(engine);
        put(&mut txn, &other, 1, "other");
        put(&mut txn, &tree, 1, "stays");
        put(&mut txn, &tree, 2, "stays too");
        txn.exempt(tree.id());
        let savepoint = txn.savepoint();
        put(&mut txn, &tree, 3, "goes");
        txn.update(&tree, &k(1), b"changed").unwrap();
        txn.rollback_to(savepoint).unwrap();
        put(&mut txn, &tree, 4, "goes too");
        txn.delete(&tree, &k(2)).unwrap();
        txn.rollback().unwrap();
        let rows = BTreeMap::from([(1, "stays".to_string()), (2, "stays too".to_string())]);
        assert_eq!(all(&mut rr(engine), &tree), rows);
        assert!(all(&mut rr(engine), &other).is_empty());
        // Nothing is exempt that comes behind a rollback past the point.
        let late = temporary(engine);
        let mut txn = rr(engine);
        let savepoint = txn.savepoint();
        put(&mut txn, &late, 1, "stays");
        put(&mut txn, &late, 2, "stays too");
        txn.exempt(late.id());
        txn.rollback_to(savepoint).unwrap();
        put(&mut txn, &late, 3, "goes");
        txn.rollback().unwrap();
        assert_eq!(all(&mut rr(engine), &late), rows);
        // Such rows change like others.
        let mut txn = rr(engine);
        txn.update(&tree, &k(1), b"new").unwrap();
        txn.delete(&tree, &k(2)).unwrap();
        txn.rollback().unwrap();
        assert_eq!(all(&mut rr(engine), &tree), rows);
    });
}

#[test]
fn a_read_only_transaction_writes_temporary_trees_alone() {
    world(1, |engine| {
        let (tree, lasting) = (temporary(engine), new_tree(engine));
        let mut txn = engine.begin(keel_storage::TxnOptions { read_only: true, ..Default::default() });
        put(&mut txn, &tree, 1, "written");
        let refused = txn.insert(&lasting, &k(1), b"refused", OnDuplicate::LockShared);
        assert!(matches!(refused, Err(keel_storage::Error::ReadOnly)));
        txn.commit().unwrap();
        assert_eq!(all(&mut rr(engine), &tree).len(), 1);
    });
}

#[test]
fn a_dropped_tree_is_nothing_to_a_rollback() {
    world(1, |engine| {
        let (tree, lasting) = (temporary(engine), new_tree(engine));
        let mut txn = rr(engine);
        put(&mut txn, &lasting, 1, "one");
        put(&mut txn, &tree, 1, "one");
        engine.drop_temporary_tree(tree.id());
        txn.rollback().unwrap();
        assert!(all(&mut rr(engine), &lasting).is_empty());
    });
}

#[test]
fn a_crash_leaves_no_file_and_no_row_of_another_life() {
    for seed in 0..40 {
        let disk = Disk::new(seed);
        let _ = sim::run(Options::new(seed).with_disk(&disk), || {
            let engine = Engine::open(tiny()).unwrap();
            sim::crash_after_syncs(seed * 3);
            let lasting = new_tree(&engine);
            let tree = temporary(&engine);
            for round in 0..1000 {
                let mut txn = rr(&engine);
                put(&mut txn, &lasting, round, "kept");
                put(&mut txn, &tree, round, &value(u64::from(round)));
                if round > 0 {
                    // Gone already where the one before was taken back.
                    let _ = txn.delete(&tree, &k(round - 1));
                }
                if round % 3 > 0 && txn.commit().is_err() {
                    return;
                }
            }
        });
        sim::run(Options::new(seed + 1000).with_disk(&disk), || {
            let engine = Engine::open(tiny()).unwrap();
            assert!(files().is_empty(), "seed {seed}");
            // The same ids again, over what the undo log still says of the others.
            let trees: Vec<TreeHandle> = (0..3).map(|_| temporary(&engine)).collect();
            let rows: Vec<_> = trees.iter().map(|tree| changes(&engine, tree, 10)).collect();
            for (tree, rows) in trees.iter().zip(&rows) {
                assert_eq!(all(&mut rr(&engine), tree), *rows, "seed {seed}");
            }
            engine.shutdown().unwrap();
        })
        .done();
    }
}

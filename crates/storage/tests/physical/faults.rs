//! Disks that fail: what is told is true, and the store ends where nothing else is honest.

use keel_runtime::sim::{self, Disk, DiskOptions, Op as Fault};
use keel_storage::fault::StoreError;
use keel_storage::store::Durability;

use crate::support::*;

const EIO: i32 = 5;

fn in_world(f: impl FnOnce() + Send) {
    world(1, &Disk::new(1), f).done();
}

fn put(n: u64) -> Op {
    Op::Put(n.to_be_bytes().to_vec(), vec![n as u8; 300])
}

#[test]
fn a_failed_log_write_ends_the_store() {
    for kind in [Fault::Write, Fault::Sync] {
        in_world(|| {
            let store = open(tiny());
            let tree = store.create_tree(TREE).expect("created");
            let end = put(1).run(&store, &tree).expect("done");
            store.wait_durable(keel_base::Lsn(end)).expect("durable");
            sim::fail_next(kind, "redo.", EIO, 0);
            let end = put(2).run(&store, &tree).expect("appended");
            assert!(matches!(store.wait_durable(keel_base::Lsn(end)), Err(StoreError::LogFailed)));
            assert!(store.is_failed());
            assert!(store.failure().is_some_and(|why| why.contains("redo")), "{:?}", store.failure());
            assert!(store.begin().is_err(), "a dead store takes changes");
            assert!(store.shutdown().is_err());
        });
    }
}

#[test]
fn a_failed_page_read_fails_the_reader_and_nothing_else() {
    let disk = Disk::new(1);
    world(1, &disk, || {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        for n in 0..2000 {
            put(n).run(&store, &tree).expect("done");
        }
        store.shutdown().expect("clean");
    })
    .done();
    world(2, &disk, || {
        let store = open(tiny());
        let tree = store.tree(TREE).expect("there");
        sim::fail_next(Fault::Read, "t5.kt", EIO, 1);
        let failed = (0..2000u64).filter(|n| get(&tree, &n.to_be_bytes()).is_err()).count();
        assert_eq!(failed, 1);
        assert_eq!(contents(&tree).expect("readable").len(), 2000);
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn a_failed_page_write_is_tried_again() {
    in_world(|| {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        for n in 0..300 {
            put(n).run(&store, &tree).expect("done");
        }
        sim::fail_next(Fault::Write, "t5.kt", EIO, 0);
        store.checkpoint().expect("tried again");
        assert!(!store.is_failed());
        store.shutdown().expect("clean");
    });
}

#[test]
fn a_failed_sync_of_pages_ends_the_store() {
    in_world(|| {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        for n in 0..300 {
            put(n).run(&store, &tree).expect("done");
        }
        sim::fail_next(Fault::Sync, "t5.kt", EIO, 0);
        assert!(matches!(store.checkpoint(), Err(StoreError::LogFailed)));
        assert!(store.is_failed());
    });
}

#[test]
fn a_full_disk_fails_the_writer_and_loses_nothing() {
    let disk = Disk::with_options(1, DiskOptions { space_bytes_max: 6 << 20, ..DiskOptions::default() });
    let count = world(1, &disk, || {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        let mut count = 0;
        let error = loop {
            match put(count).run(&store, &tree) {
                Ok(_) => count += 1,
                Err(e) => break e,
            }
            assert!(count < 100_000, "the disk is never full");
        };
        assert!(matches!(error, StoreError::DiskFull), "{error}");
        assert!(!store.is_failed());
        assert_eq!(contents(&tree).expect("readable").len() as u64, count);
        store.shutdown().expect("clean");
        count
    })
    .done();
    world(2, &disk, || {
        let store = open(tiny());
        assert_eq!(contents(&store.tree(TREE).expect("there")).expect("readable").len() as u64, count);
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn relaxed_durability_reaches_the_disk_within_a_second_or_so() {
    for durability in [Durability::WriteEachCommit, Durability::Lazy] {
        in_world(|| {
            let store = open(tiny());
            let tree = store.create_tree(TREE).expect("created");
            store.set_durability(durability);
            let end = keel_base::Lsn(put(1).run(&store, &tree).expect("done"));
            store.wait_commit(end).expect("acknowledged");
            assert!(store.durable_lsn() < end, "synced at once");
            keel_runtime::fiber::sleep(std::time::Duration::from_millis(2500));
            assert!(store.durable_lsn() >= end);
            store.shutdown().expect("clean");
        });
    }
}

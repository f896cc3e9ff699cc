//! Disks that fail: what is told is true, and the store ends where nothing else is honest.

use std::path::Path;

use keel_runtime::fs::{File, OpenOptions, Sync, exists};
use keel_runtime::sim::{self, Disk, DiskOptions, Op as Fault, Outcome};
use keel_storage::fault::StoreError;
use keel_storage::store::{Durability, Store, StoreConfig};

use super::support::*;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
/// A log file being made.
const UNFINISHED: &str = "/data/redo.new";

fn in_world(f: impl FnOnce() + Send) {
    world(1, &Disk::new(1), f).done();
}

fn put(n: u64) -> Op {
    Op::Put(n.to_be_bytes().to_vec(), vec![n as u8; 300])
}

/// One of a hundred keys, each time with another value.
fn set(n: u64) -> Op {
    Op::Put((n % 100).to_be_bytes().to_vec(), vec![(n / 100) as u8; 300])
}

#[test]
fn a_failed_log_write_ends_the_store() {
    let durabilities = [Durability::Commit, Durability::WriteEachCommit, Durability::Lazy];
    for (kind, durability) in [Fault::Write, Fault::Sync].iter().flat_map(|k| durabilities.map(|d| (*k, d))) {
        in_world(|| {
            let store = open(tiny());
            let tree = store.create_tree(TREE).expect("created");
            store.set_durability(durability);
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

/// A write that failed may have torn its page, and the doublewrite file holds what mends it: so it stays until the write is done.
#[test]
fn what_mends_a_page_stays_until_the_page_is_written() {
    let disk = Disk::new(1);
    let seen = disk.clone();
    world(1, &disk, move || {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        let other = store.create_tree(keel_base::TreeId(6)).expect("created");
        store.checkpoint().expect("clean");
        for n in 0..300 {
            put(n).run(&store, &tree).expect("done");
        }
        sim::fail_times(Fault::Write, "t5.kt", EIO, 0, 10);
        let copies = || seen.read(Path::new("/data/doublewrite.kd")).expect("there");
        let before = copies();
        while copies() == before {
            put(1).run(&store, &other).expect("done");
            keel_runtime::fiber::sleep(std::time::Duration::from_millis(5));
        }
        // The first try has failed; the next comes after a tenth of a second.
        let during = copies();
        for n in 0..60 {
            put(n).run(&store, &other).expect("done");
            keel_runtime::fiber::sleep(std::time::Duration::from_millis(5));
            assert!(copies() == during, "another batch after {n}");
        }
        store.checkpoint().expect("tried again");
        assert!(copies() != during);
        store.shutdown().expect("clean");
    })
    .done();
}

/// Batches of pages that left a small pool, and syncs of data files.
fn batches_and_syncs(direct_io: bool) -> (u64, u64) {
    let mut told = (0, 0);
    in_world(|| {
        let store = open(StoreConfig { direct_io, redo_capacity_bytes: 8 << 20, ..tiny() });
        let tree = store.create_tree(TREE).expect("created");
        let before = store.status();
        // In no order: pages leave the pool changed, again and again.
        for n in 0..10_000 {
            put(n * 7919 % 5000).run(&store, &tree).expect("done");
        }
        let after = store.status();
        told = (after.doublewrite_batches - before.doublewrite_batches, after.data_syncs - before.data_syncs);
        store.shutdown().expect("clean");
    });
    told
}

#[test]
fn files_are_synced_once_for_several_batches_unless_the_page_cache_may_fail_later() {
    let (batches, syncs) = batches_and_syncs(true);
    assert!(batches >= 10 && syncs < batches / 2, "{syncs} syncs for {batches} batches");
    let (batches, syncs) = batches_and_syncs(false);
    assert!(batches >= 10 && syncs >= batches, "{syncs} syncs for {batches} batches");
}

/// A life without copies may have left pages that no sync covers, and what is noted of their next change would not mend them.
#[test]
fn a_start_that_finds_no_copies_syncs_the_pages_there_are() {
    for (copies_before, refused) in [(true, false), (false, true)] {
        let disk = Disk::new(1);
        world(1, &disk, || {
            let store = open(StoreConfig { doublewrite: copies_before, ..tiny() });
            let (tree, other) = (store.create_tree(TREE), store.create_tree(keel_base::TreeId(6)));
            put(1).run(&store, &tree.expect("created")).expect("done");
            store.checkpoint().expect("clean");
            // The run that is left has nothing of the first tree.
            put(1).run(&store, &other.expect("created")).expect("done");
            store.shutdown().expect("clean");
        })
        .done();
        world(2, &disk, || {
            sim::fail_next(Fault::Sync, "t5.kt", EIO, 0);
            let opened = Store::open(tiny(), &mut |_| {});
            assert_eq!(opened.is_err(), refused, "copies before: {copies_before}");
        })
        .done();
    }
}

#[test]
fn pages_that_can_never_be_written_end_the_store_with_the_reason() {
    in_world(|| {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        for n in 0..100 {
            set(n).run(&store, &tree).expect("done");
        }
        sim::fail_times(Fault::Write, "t5.kt", EIO, 0, u64::MAX);
        let mut count = 0;
        while set(count).run(&store, &tree).is_ok() {
            count += 1;
            keel_runtime::fiber::sleep(std::time::Duration::from_millis(1));
            assert!(count < 100_000, "never ends");
        }
        assert!(store.failure().is_some_and(|why| why.contains("t5.kt")), "{:?}", store.failure());
        assert!(store.shutdown().is_err());
    });
}

#[test]
fn the_log_goes_round_in_the_files_it_has_where_the_disk_is_full() {
    let disk = Disk::new(4);
    let count = 3000;
    for life in 0..2 {
        let outcome = world(4 + life, &disk, || {
            // A file takes two: its room, and what is written there.
            sim::fail_times(Fault::Write, "redo.new", ENOSPC, if life == 0 { 4 } else { 0 }, u64::MAX);
            let store = open(tiny());
            let tree = store.tree(TREE).unwrap_or_else(|| store.create_tree(TREE).expect("created"));
            for n in 0..count {
                set(n).run(&store, &tree).expect("done");
            }
            assert!(store.current_lsn().0 > 512 << 10, "the script writes too little");
            let end = store.current_lsn();
            store.wait_durable(end).expect("durable");
            assert!(!exists(Path::new(UNFINISHED)), "takes room on a full disk");
            sim::crash_now();
        });
        assert_eq!(outcome, Outcome::<()>::Crashed);
        disk.crash(4 + life);
    }
    world(9, &disk, || {
        let store = open(tiny());
        assert_eq!(contents(&store.tree(TREE).expect("there")).expect("readable").len(), 100);
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn a_log_file_that_a_crash_left_unfinished_is_removed() {
    in_world(|| {
        open(tiny()).shutdown().expect("clean");
        let file = File::open(Path::new(UNFINISHED), &OpenOptions::creating()).expect("made");
        file.write_at(&[0; 4096], 0, Sync::Data).expect("written");
        let store = open(tiny());
        assert!(!exists(Path::new(UNFINISHED)));
        store.shutdown().expect("clean");
    });
}

#[test]
fn a_tree_is_gone_though_its_room_cannot_be_freed_at_once() {
    in_world(|| {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        put(1).run(&store, &tree).expect("done");
        store.checkpoint().expect("clean");
        sim::fail_next(Fault::Write, "t5.kt", EIO, 0);
        store.drop_tree(TREE).expect("dropped");
        assert!(!exists(Path::new("/data/trees/t5.kt")));
        store.shutdown().expect("clean");
    });
}

#[test]
fn a_store_opens_with_a_smaller_log_than_it_has_to_recover() {
    let disk = Disk::new(6);
    let outcome = world(6, &disk, || {
        let store = open(StoreConfig { redo_capacity_bytes: 4 << 20, ..tiny() });
        let tree = store.create_tree(TREE).expect("created");
        for n in 0..3000 {
            set(n).run(&store, &tree).expect("done");
        }
        let status = store.status();
        assert!(status.lsn - status.checkpoint_lsn > 2 * tiny().redo_capacity_bytes, "{status:?}");
        store.wait_durable(store.current_lsn()).expect("durable");
        sim::crash_now();
    });
    assert_eq!(outcome, Outcome::<()>::Crashed);
    disk.crash(6);
    world(7, &disk, || {
        let store = open(tiny());
        let tree = store.tree(TREE).expect("there");
        assert_eq!(contents(&tree).expect("readable").len(), 100);
        set(1).run(&store, &tree).expect("done");
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn where_pages_find_no_room_writers_are_told_and_go_on_when_there_is_some() {
    in_world(|| {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        for n in 0..100 {
            set(n).run(&store, &tree).expect("done");
        }
        sim::fail_times(Fault::Write, "doublewrite", ENOSPC, 0, 100);
        let (mut told, mut count) = (false, 0);
        while !told || count < 4000 {
            match set(count).run(&store, &tree) {
                Ok(_) => count += 1,
                Err(StoreError::DiskFull { .. }) => {
                    told = true;
                    keel_runtime::fiber::sleep(std::time::Duration::from_millis(50));
                }
                Err(e) => panic!("{e}"),
            }
            assert!(count < 100_000, "nobody was told");
        }
        assert_eq!(contents(&tree).expect("readable").len(), 100);
        store.shutdown().expect("clean");
    });
}

#[test]
fn a_store_without_its_checkpoint_is_not_made_anew() {
    let disk = Disk::new(1);
    world(1, &disk, || {
        let store = open(tiny());
        store.create_tree(TREE).expect("created");
        store.shutdown().expect("clean");
        drop(store);
        keel_runtime::fs::remove_file(std::path::Path::new("/data/redo.head")).expect("removed");
        match Store::open(tiny(), &mut |_| {}) {
            Err(StoreError::Unusable(why)) => assert!(why.contains("redo.head"), "{why}"),
            other => panic!("{:?}", other.map(|_| "opened")),
        }
    })
    .done();
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
    let room = disk.clone();
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
        assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
        assert!(!store.is_failed());
        assert_eq!(contents(&tree).expect("readable").len() as u64, count);
        let cut: Vec<_> = room
            .files()
            .into_iter()
            .filter(|(path, len)| path.ends_with("t5.kt") && len % (16 << 10) != 0)
            .collect();
        assert!(cut.is_empty(), "what could not be reserved whole is given back: {cut:?}");
        room.set_space(12 << 20);
        put(count).run(&store, &tree).expect("there is room again");
        store.shutdown().expect("clean");
        count + 1
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
fn a_stop_waits_a_while_for_room_and_loses_nothing_if_there_is_none() {
    for (seed, times, clean) in [(1, 50, true), (2, u64::MAX, false)] {
        let disk = Disk::new(seed);
        let count = world(seed, &disk, || {
            let store = open(tiny());
            let tree = store.create_tree(TREE).expect("created");
            for i in 0..200 {
                put(i).run(&store, &tree).expect("done");
            }
            sim::fail_times(Fault::Write, "t5.kt", ENOSPC, 0, times);
            match store.shutdown() {
                Ok(()) => assert!(clean, "nothing could be written"),
                Err(StoreError::DiskFull { .. }) => assert!(!clean, "given up early"),
                Err(e) => panic!("{e}"),
            }
            sim::clear_faults();
            200
        })
        .done();
        world(seed, &disk, || {
            let store = open(tiny());
            assert_eq!(contents(&store.tree(TREE).expect("there")).expect("readable").len(), count);
            store.shutdown().expect("clean");
        })
        .done();
    }
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

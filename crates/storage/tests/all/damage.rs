//! Damaged and lost files, and a disk with no room left: what is told, what goes on, and that nothing else is lost.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use keel_base::TreeId;
use keel_runtime::sim::{self, Disk, Options};
use keel_runtime::sync::Event;
use keel_runtime::wait::WaitEvent;
use keel_runtime::{fiber, fs};
use keel_storage::fault::StoreError;
use keel_storage::{Engine, Error, Read, ScanRange, TreeHandle, Txn};

const PAGE: u64 = 16 << 10;

/// Runs `f` in a world on this disk.
fn on<T: Send>(disk: &Disk, seed: u64, f: impl FnOnce() -> T + Send) -> T {
    sim::run(Options::new(seed).with_disk(disk), f).done()
}

fn open() -> Arc<Engine> {
    Engine::open(config()).expect("opens")
}

fn refusal() -> String {
    Engine::open(config()).err().expect("the engine opens").to_string()
}

fn fill(engine: &Arc<Engine>, tree: &TreeHandle, rows: std::ops::Range<u32>) {
    let mut txn = rr(engine);
    rows.for_each(|n| put(&mut txn, tree, n, &format!("{n:0600}")));
    txn.commit().expect("commits");
}

fn count(engine: &Arc<Engine>, id: u32) -> Result<usize, Error> {
    let tree = engine.tree(TreeId(id)).expect("named");
    let mut txn = rr(engine);
    scan_range(&mut txn, &tree, ScanRange::ALL, Read::Snapshot).map(|rows| rows.len())
}

/// Two trees, 2 and 3, of 400 rows each, stopped.
fn stopped(seed: u64) -> Disk {
    let disk = Disk::new(seed);
    on(&disk, seed, || {
        let engine = open();
        for _ in 0..2 {
            let tree = new_tree(&engine);
            fill(&engine, &tree, 0..400);
        }
        engine.shutdown().expect("stops");
    });
    disk
}

fn path(name: &str) -> String {
    format!("/data/{name}")
}

fn flip(disk: &Disk, name: &str, page: u64) {
    let path = path(name);
    let at = page * PAGE + 9000;
    let byte = disk.read(Path::new(&path)).expect("there")[at as usize];
    assert!(disk.damage(Path::new(&path), at, &[byte ^ 4]));
}

fn remove(disk: &Disk, name: &str) {
    on(disk, 99, || {
        fs::remove_file(Path::new(&path(name))).expect("removes");
        for folder in ["/data", "/data/trees"] {
            fs::sync_dir(Path::new(folder)).expect("syncs");
        }
    });
}

/// Without what doublewrite keeps of the last pages written.
fn forget_copies(disk: &Disk) {
    disk.damage(Path::new("/data/doublewrite.kd"), 0, &vec![0; 2 << 20]);
}

#[test]
fn a_file_that_everything_needs_is_named_when_it_is_missing() {
    for (name, told) in [
        ("trees/t1.kt", "trees/t1.kt is missing"),
        ("trees/undo.kt", "trees/undo.kt is missing"),
        ("redo.head", "has lost redo.head"),
    ] {
        let disk = stopped(1);
        remove(&disk, name);
        let before = disk.files();
        assert!(on(&disk, 2, refusal).contains(told), "{}", on(&disk, 2, refusal));
        assert_eq!(disk.files(), before, "a start that was refused changes nothing");
    }
    let disk = stopped(2);
    let redo: Vec<String> = disk
        .files()
        .iter()
        .filter_map(|(p, _)| p.to_str()?.strip_prefix("/data/").map(String::from))
        .collect();
    let mut redo: Vec<String> =
        redo.into_iter().filter(|n| n.starts_with("redo.") && n != "redo.head").collect();
    redo.sort();
    remove(&disk, &redo[0]);
    assert!(on(&disk, 3, refusal).contains(&redo[0]), "{}", on(&disk, 3, refusal));
}

#[test]
fn a_life_without_copies_of_pages_forgets_those_of_the_life_before() {
    let disk = stopped(8);
    let head = || disk.read(Path::new("/data/doublewrite.kd")).expect("there")[..4096].to_vec();
    assert!(head().iter().any(|byte| *byte != 0), "nothing was written through it");
    on(&disk, 9, || {
        let mut without = config();
        without.store.doublewrite = false;
        let engine = Engine::open(without).expect("opens");
        assert!(head().iter().all(|byte| *byte == 0), "an old batch would be laid over newer pages");
        assert_eq!(count(&engine, 2).expect("readable"), 400);
        engine.shutdown().expect("stops");
    });
}

#[test]
fn a_page_that_the_device_does_not_give_ends_no_start_that_needs_nothing_of_it() {
    let disk = stopped(10);
    on(&disk, 11, || {
        // All reads of the tree fail until the engine is open.
        sim::fail_times(sim::Op::Read, "t2.kt", 5, 0, u64::MAX);
        let engine = open();
        assert_eq!(count(&engine, 3).expect("readable"), 400);
        assert!(count(&engine, 2).expect_err("the device gives nothing").to_string().contains("t2.kt"));
        engine.shutdown().expect("stops");
    });
    on(&disk, 12, || assert_eq!(count(&open(), 2).expect("readable"), 400));
}

#[test]
fn a_log_that_lost_its_end_is_noticed() {
    let disk = stopped(4);
    // Zeros behind the first block of each file: the log would seem to end before its checkpoint.
    for (file, len) in disk.files() {
        if file.to_str().is_some_and(|p| p.starts_with("/data/redo.") && p != "/data/redo.head") {
            disk.damage(&file, 4096, &vec![0; len as usize - 4096]);
        }
    }
    let told = on(&disk, 5, refusal);
    assert!(told.contains("redo.") && told.contains("checkpoint"), "{told}");
}

#[test]
fn a_log_that_breaks_off_before_what_was_durable_is_noticed() {
    for (part, seed) in [(1, 40), (2, 41), (3, 42)] {
        let disk = Disk::new(seed);
        sim::run(Options::new(seed).with_disk(&disk), || {
            let engine = open();
            let tree = new_tree(&engine);
            (0..80).for_each(|n| fill(&engine, &tree, 3 * n..3 * n + 3));
            sim::crash_now();
        });
        let log = disk.read(Path::new("/data/redo.0")).expect("there");
        let end = log.iter().rposition(|byte| *byte != 0).expect("there is log");
        let at = end / 4 * part;
        assert!(disk.damage(Path::new("/data/redo.0"), at as u64, &[log[at] ^ 1]));
        let before = disk.files();
        let told = on(&disk, seed + 100, refusal);
        assert!(told.contains("redo.0") && told.contains("breaks off"), "{told}");
        let trees = |files: &[(std::path::PathBuf, u64)]| {
            files.iter().filter(|(path, _)| path.starts_with("/data/trees")).count()
        };
        assert_eq!(trees(&disk.files()), trees(&before), "a start that was refused removes nothing");
    }
}

#[test]
fn a_head_of_the_log_that_was_cut_short_serves_as_long_as_a_slot_of_it_is_whole() {
    let disk = stopped(6);
    on(&disk, 8, || {
        let file = fs::File::open(Path::new("/data/redo.head"), &fs::OpenOptions::writing()).expect("opens");
        file.set_len(8191).expect("cut");
        let engine = open();
        assert_eq!(count(&engine, 2).expect("readable"), 400);
        engine.shutdown().expect("stops");
    });
}

#[test]
fn a_damaged_page_that_the_log_writes_whole_is_as_it_was() {
    for seed in 50..54 {
        let disk = stopped(seed);
        sim::run(Options::new(seed).with_disk(&disk), || {
            let engine = open();
            let tree = new_tree(&engine);
            fill(&engine, &tree, 0..400);
            sim::crash_now();
        });
        let mut damaged = 0;
        for page in 1..30 {
            let name = Path::new("/data/trees/t4.kt");
            damaged += usize::from(disk.damage(name, page * PAGE + 9000, b"what no checksum fits"));
        }
        assert!(damaged > 3, "only {damaged} pages were there");
        on(&disk, seed + 100, || {
            let engine = open();
            assert_eq!(count(&engine, 4).expect("readable"), 400);
            engine.shutdown().expect("stops");
        });
    }
}

#[test]
fn a_lost_tree_can_be_dropped_and_others_go_on() {
    for truncated in [false, true] {
        let disk = stopped(6);
        match truncated {
            false => remove(&disk, "trees/t2.kt"),
            true => on(&disk, 99, || {
                let file = fs::File::open(Path::new("/data/trees/t2.kt"), &fs::OpenOptions::writing())
                    .expect("opens");
                file.set_len(0).expect("truncates");
                file.sync_all().expect("syncs");
            }),
        }
        forget_copies(&disk);
        on(&disk, 7, || {
            let engine = open();
            let told = count(&engine, 2).expect_err("nothing is there").to_string();
            assert!(told.contains("t2.kt") && told.contains("missing"), "{told}");
            assert_eq!(count(&engine, 3).expect("readable"), 400);
            let mut txn = rr(&engine);
            engine.drop_tree(&mut txn, TreeId(2)).expect("drops");
            txn.commit().expect("commits");
            engine.shutdown().expect("stops");
        });
        on(&disk, 8, || {
            let engine = open();
            assert!(engine.tree(TreeId(2)).is_none());
            assert_eq!(count(&engine, 3).expect("readable"), 400);
            engine.shutdown().expect("stops");
        });
    }
}

#[test]
fn a_flipped_bit_in_any_page_fails_its_readers_by_name_and_no_others() {
    let disk = stopped(9);
    forget_copies(&disk);
    let mut met = 0;
    for page in 0..disk.read(Path::new("/data/trees/t2.kt")).expect("there").len() as u64 / PAGE {
        flip(&disk, "trees/t2.kt", page);
        met += on(&disk, 10 + page, || {
            let engine = open();
            let read = count(&engine, 2);
            let mut txn = rr(&engine);
            let tree = engine.tree(TreeId(2)).expect("named");
            let wrote = (1000..1040).try_for_each(|n| insert(&mut txn, &tree, n, &"w".repeat(600)).map(drop));
            txn.rollback().expect("rolls back");
            let errors = [read.as_ref().err(), wrote.as_ref().err()];
            for error in errors.into_iter().flatten() {
                let Error::Store(StoreError::Corrupt { file, page: told, .. }) = error else {
                    panic!("{error}")
                };
                assert_eq!((file.as_str(), u64::from(*told)), ("t2.kt", page));
            }
            assert!(!read.as_ref().is_ok_and(|rows| *rows != 400), "rows are missing without an error");
            let (rows, more) = (400 + page as usize, 400 + page as u32);
            assert_eq!(count(&engine, 3).expect("readable"), rows);
            fill(&engine, &engine.tree(TreeId(3)).expect("named"), more..more + 1);
            engine.shutdown().expect("stops");
            usize::from(errors[0].is_some() || errors[1].is_some())
        });
        flip(&disk, "trees/t2.kt", page);
    }
    assert!(met > 10, "only {met} pages were met");
}

#[test]
fn recovery_passes_over_a_damaged_page_and_the_rest_is_there() {
    for seed in 30..36 {
        let disk = stopped(seed);
        sim::run(Options::new(seed).with_disk(&disk), || {
            let engine = open();
            for id in [2, 3] {
                let tree = engine.tree(TreeId(id)).expect("named");
                let mut txn = rr(&engine);
                (0..400).for_each(|n| set(&mut txn, &tree, n, &format!("{n:0300}")).expect("updates"));
                txn.commit().expect("commits");
                // Left for recovery to roll back, on damaged pages too.
                let mut open_end = rr(&engine);
                set(&mut open_end, &tree, 7, "unfinished").expect("updates");
                std::mem::forget(open_end);
            }
            let mut last = rr(&engine);
            put(&mut last, &engine.tree(TreeId(3)).expect("named"), 9000, "last");
            last.commit().expect("commits");
            sim::crash_now();
        });
        forget_copies(&disk);
        let page = 1 + seed % 6;
        let image = disk.read(Path::new("/data/trees/t2.kt")).expect("there");
        if image[(page * PAGE) as usize..][..64].iter().all(|byte| *byte == 0) {
            continue;
        }
        flip(&disk, "trees/t2.kt", page);
        on(&disk, seed + 100, || {
            let engine = open();
            assert_eq!(count(&engine, 3).expect("readable"), 401);
            let told = count(&engine, 2).expect_err("one page is damaged").to_string();
            assert!(told.contains(&format!("t2.kt page {page}")), "{told}");
            fill(&engine, &engine.tree(TreeId(3)).expect("named"), 2000..2100);
            fiber::sleep(Duration::from_secs(30));
            assert_eq!(engine.status().history_len, 0, "purge stands still");
            engine.shutdown().expect("stops");
        });
    }
}

#[test]
fn a_damaged_undo_page_keeps_the_history_of_its_own_segment_only() {
    const CHANGES: u32 = 1000;
    let disk = Disk::new(40);
    on(&disk, 40, || {
        let mut config = config();
        config.store.pool_bytes = 1 << 20;
        let engine = Engine::open(config).expect("opens");
        let tree = new_tree(&engine);
        fill(&engine, &tree, 0..400);
        let mut reader = rr(&engine);
        reader.take_snapshot();
        let mut ends = Vec::new();
        for worker in 0..2 {
            let (own, tree, done) = (engine.clone(), tree.clone(), Arc::new(Event::default()));
            let ended = done.clone();
            fiber::spawn_on(worker, move || {
                for n in 0..CHANGES {
                    let mut txn = rr(&own);
                    set(&mut txn, &tree, n % 400, &format!("{n:04}").repeat(150)).expect("updates");
                    txn.commit().expect("commits");
                }
                ended.set();
            });
            done.wait(WaitEvent::Idle);
            engine.checkpoint().expect("flushes");
            let undo = disk.read(Path::new("/data/trees/undo.kt")).expect("there");
            ends.push(undo.chunks(PAGE as usize).filter(|page| page.iter().any(|byte| *byte != 0)).count());
        }
        let (first, both) = (ends[0] as u64, ends[1] as u64);
        assert!(first > 30 && both > first + 30, "{first} and {both} pages");
        // Written by the first, read no more since then.
        (first / 3..first / 2).for_each(|page| flip(&disk, "trees/undo.kt", page));
        reader.commit().expect("ends");
        fiber::sleep(Duration::from_secs(20));
        let left = engine.status().history_len;
        assert!((1..=u64::from(CHANGES)).contains(&left), "{left} transactions are left");
        engine.shutdown().expect("stops");
    });
}

/// A world whose disk has no room left, with two trees in it: the transaction of `before` has not ended.
fn on_a_full_disk(seed: u64, f: impl FnOnce(&Arc<Engine>, &TreeHandle, &Disk) + Send) -> Disk {
    let disk = Disk::new(seed);
    sim::run(Options::new(seed).with_disk(&disk), || {
        let engine = open();
        let tree = new_tree(&engine);
        fill(&engine, &tree, 0..20);
        engine.checkpoint().expect("flushes");
        fiber::sleep(Duration::from_secs(3));
        let used = disk.files().iter().map(|(_, len)| len).sum::<u64>();
        disk.set_space(used / 2);
        f(&engine, &tree, &disk);
    });
    disk
}

/// Fills the pages and the undo log that there are.
fn use_up(engine: &Arc<Engine>, tree: &TreeHandle) -> u32 {
    let mut rows = 100;
    loop {
        let mut txn = rr(engine);
        match insert(&mut txn, tree, rows, &"f".repeat(900)).and_then(|_| txn.commit()) {
            Ok(_) => rows += 1,
            Err(error) => {
                assert!(matches!(error, Error::Store(StoreError::DiskFull { .. })), "{error}");
                return rows - 100;
            }
        }
    }
}

/// Transactions of a row each, from 50 on.
fn begin_many(engine: &Arc<Engine>, tree: &TreeHandle, count: u32) -> Vec<Txn> {
    let begin = |n| {
        let mut txn = rr(engine);
        put(&mut txn, tree, 50 + n, "open");
        txn
    };
    (0..count).map(begin).collect()
}

/// Commits every other one, and rolls the rest back.
fn end_all(open: Vec<Txn>) {
    for (n, mut txn) in open.into_iter().enumerate() {
        match n % 2 {
            0 => txn.commit().map(drop).expect("commits"),
            _ => txn.rollback().expect("rolls back"),
        }
    }
}

#[test]
fn what_has_begun_can_end_on_a_full_disk_and_writers_go_on_when_there_is_room() {
    let disk = on_a_full_disk(40, |engine, tree, disk| {
        // Rows that shrink leave room, which others take: to roll back is to split.
        let mut shrunk = rr(engine);
        (0..20).for_each(|n| set(&mut shrunk, tree, n, "s").expect("shrinks"));
        let open = begin_many(engine, tree, 30);
        let rows = use_up(engine, tree);
        shrunk.rollback().expect("rolls back");
        end_all(open);
        let mut txn = rr(engine);
        assert_eq!(keys(&mut txn, tree).len() as u32, 20 + 15 + rows);
        assert_eq!(get(&mut txn, tree, 3), Some(format!("{:0600}", 3)));
        drop(txn);
        // Deleting needs undo, for which there may be no room; reading goes on in any case.
        assert!(engine.failure().is_none());
        disk.set_space(u64::MAX);
        fill(engine, tree, 5000..5200);
        assert_eq!(engine.check_tree(tree).expect("readable"), Vec::<String>::new());
        engine.shutdown().expect("stops");
    });
    on(&disk, 41, || {
        let engine = open();
        assert!(count(&engine, 2).expect("readable") > 235);
        engine.shutdown().expect("stops");
    });
}

#[test]
fn trees_can_be_dropped_on_a_full_disk_though_an_old_reader_keeps_the_undo_log() {
    let disk = on_a_full_disk(43, |engine, tree, disk| {
        disk.set_space(u64::MAX);
        let doomed: Vec<_> = (0..40).map(|_| new_tree(engine).id()).collect();
        let mut reader = rr(engine);
        reader.take_snapshot();
        let open = begin_many(engine, tree, 20);
        disk.set_space(1);
        let (mut refused, mut round) = (0, 0);
        while refused < 500 {
            let mut txn = rr(engine);
            let row = "r".repeat(if refused == 0 { 800 } else { 1 + round % 2 });
            refused = match set(&mut txn, tree, 3, &row).and_then(|_| txn.commit()) {
                Ok(_) => 0,
                Err(error) => {
                    assert!(matches!(error, Error::Store(StoreError::DiskFull { .. })), "{error}");
                    refused + 1
                }
            };
            round += 1;
        }
        for id in doomed {
            let mut txn = rr(engine);
            txn.releases();
            engine.drop_tree(&mut txn, id).expect("is dropped");
            txn.commit().expect("commits");
            assert!(engine.tree(id).is_none());
        }
        end_all(open);
        let mut txn = rr(engine);
        assert!(set(&mut txn, tree, 3, "new").is_err(), "what is kept is not for others");
        drop((txn, reader));
        disk.set_space(u64::MAX);
        fill(engine, tree, 5000..5200);
        engine.shutdown().expect("stops");
    });
    on(&disk, 44, || {
        let engine = open();
        assert_eq!(engine.trees().expect("readable").len(), 1);
        engine.shutdown().expect("stops");
    });
}

#[test]
fn a_start_on_a_full_disk_succeeds() {
    for seed in 50..58 {
        let disk = on_a_full_disk(seed, |engine, tree, _| {
            let mut open: Vec<_> = (0..20).map(|_| rr(engine)).collect();
            for (n, txn) in open.iter_mut().enumerate() {
                put(txn, tree, 50 + n as u32, "unfinished");
            }
            set(&mut open[0], tree, 3, "unfinished").expect("updates");
            use_up(engine, tree);
            std::mem::forget(open);
            sim::crash_now();
        });
        on(&disk, seed + 100, || {
            let engine = open();
            assert!(count(&engine, 2).expect("readable") >= 20);
            let tree = engine.tree(TreeId(2)).expect("named");
            assert_eq!(get(&mut rr(&engine), &tree, 3), Some(format!("{:0600}", 3)));
            disk.set_space(u64::MAX);
            fill(&engine, &tree, 5000..5100);
            engine.shutdown().expect("stops");
        });
    }
}

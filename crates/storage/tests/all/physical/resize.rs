//! The pool and the redo capacity change while everything else goes on.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::Duration;

use keel_runtime::sim::{self, Disk};
use keel_runtime::sync::WaitQueue;
use keel_runtime::wait::WaitEvent;
use keel_runtime::{fiber, time};
use keel_storage::store::{Store, StoreConfig, UNDO_DIRECTORY};
use parking_lot::Mutex;

use super::crash::{Progress, cut_power_or_kill, verify, work_in};
use super::support::*;

const FRAME: u64 = 16 << 10;
/// Frames that the pool may grow to.
const FRAMES_MAX: u64 = 400;

fn elastic() -> StoreConfig {
    StoreConfig { pool_bytes_max: FRAMES_MAX * FRAME, ..tiny() }
}

/// Changes sizes at random moments until `stop`; gives how often.
fn resize_until(store: &Store, stop: &AtomicBool) -> usize {
    let mut done = 0;
    while !stop.load(SeqCst) {
        // A change that is given up leaves the size as it was.
        let patience = below(40);
        let looks = AtomicUsize::new(0);
        let given_up = || patience == 0 && looks.fetch_add(1, SeqCst) > 2;
        if below(3) == 0 {
            store.resize_redo((128 << 10) + below(1 << 20), &|| false).expect("resized");
        } else {
            let before = store.status().pages_total;
            let frames = 64 + below(FRAMES_MAX - 64);
            let resized = store.resize_pool(frames * FRAME, &given_up).expect("resized");
            let expected = if resized { frames } else { before };
            assert_eq!(store.status().pages_total, expected);
        }
        done += 1;
        fiber::sleep(Duration::from_micros(below(20_000)));
    }
    done
}

/// Eight writers of their own keys and readers of all, while sizes change.
fn resized_under_load(seed: u64) {
    let disk = Disk::new(seed);
    let model = world(seed, &disk, || {
        let store = open(elastic());
        let tree = store.create_tree(TREE).expect("created");
        let left = Arc::new(AtomicUsize::new(8));
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(WaitQueue::default());
        let models: Arc<Mutex<Model>> = Arc::default();
        for owner in 0..8u8 {
            let (store, tree, models) = (store.clone(), tree.clone(), models.clone());
            let (left, done) = (left.clone(), done.clone());
            fiber::spawn(move || {
                let mut model = Model::new();
                for _ in 0..300 {
                    let op = match Op::random(300, 3000) {
                        Op::Put(key, value) => Op::Put([key, vec![owner]].concat(), value),
                        Op::Remove(key) => Op::Remove([key, vec![owner]].concat()),
                    };
                    op.run(&store, &tree).expect("done");
                    op.model(&mut model);
                    fiber::sleep(Duration::from_micros(below(500)));
                }
                models.lock().append(&mut model);
                left.fetch_sub(1, SeqCst);
                done.wake_all();
            });
        }
        let resizes = Arc::new(AtomicUsize::new(usize::MAX));
        let (resized, stopped, counted, woken) = (store.clone(), stop.clone(), resizes.clone(), done.clone());
        fiber::spawn(move || {
            counted.store(resize_until(&resized, &stopped), SeqCst);
            woken.wake_all();
        });
        done.wait_while(WaitEvent::Queue, || left.load(SeqCst) > 0);
        stop.store(true, SeqCst);
        done.wait_while(WaitEvent::Queue, || resizes.load(SeqCst) == usize::MAX);
        assert!(resizes.load(SeqCst) > 1, "{resizes:?} changes of size");
        let model = models.lock().clone();
        check(&tree, &model);
        store.shutdown().expect("clean");
        model
    })
    .done();
    world(seed, &disk, || {
        let store = open(tiny());
        check(&store.tree(TREE).expect("there"), &model);
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn sizes_change_under_load() {
    for seed in seeds(6) {
        resized_under_load(seed);
    }
}

/// Lives that end in a crash at a random sync, while sizes change.
fn resized_and_crashed(seed: u64) {
    let disk = Disk::new(seed);
    let progress = Arc::new(Mutex::new(Progress::default()));
    for life in 0..3u64 {
        let seed = seed * 1000 + life * 10;
        let shared = progress.clone();
        world(seed, &disk, move || {
            sim::crash_after_syncs(1 + below(150));
            let store = open(elastic());
            let resized = store.clone();
            fiber::spawn(move || _ = resize_until(&resized, &AtomicBool::new(false)));
            work_in(&store, &shared, 200);
        });
        cut_power_or_kill(&disk, seed + 1);
        let after = progress.clone();
        world(seed + 4, &disk, move || verify(&mut after.lock())).done();
    }
}

#[test]
fn a_crash_while_sizes_change_keeps_what_was_durable() {
    for seed in seeds(8) {
        resized_and_crashed(seed);
    }
}

#[test]
fn a_page_that_is_dirty_all_the_time_is_moved() {
    let disk = Disk::new(1);
    world(1, &disk, || {
        let store = open(StoreConfig { pool_bytes: FRAMES_MAX * FRAME, ..elastic() });
        let tree = store.create_tree(TREE).expect("created");
        let key = |n: u64| n.to_be_bytes().to_vec();
        for n in 0..900 {
            Op::Put(key(n), vec![1; 3000]).run(&store, &tree).expect("done");
        }
        let stop = Arc::new(AtomicBool::new(false));
        for first in 0..4 {
            let (store, tree, stop) = (store.clone(), tree.clone(), stop.clone());
            fiber::spawn(move || {
                let mut n = first;
                while !stop.load(SeqCst) {
                    n = (n + 4) % 160;
                    Op::Put(key(700 + n), vec![2; 3000]).run(&store, &tree).expect("done");
                    fiber::sleep(Duration::from_micros(20));
                }
            });
        }
        let before = time::now();
        assert!(store.resize_pool(100 * FRAME, &|| false).expect("resized"));
        assert!(before.elapsed() < Duration::from_secs(20), "took {:?}", before.elapsed());
        assert_eq!((store.status().pages_total, store.status().pages_beyond), (100, 0));
        stop.store(true, SeqCst);
        fiber::sleep(Duration::from_secs(1));
        assert_eq!(tree.verify().expect("readable"), Vec::<String>::new());
        assert_eq!(contents(&tree).expect("readable").len(), 900);
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn a_pinned_page_stays_until_it_is_let_go() {
    let disk = Disk::new(1);
    world(1, &disk, || {
        let store = open(StoreConfig { pool_bytes: FRAMES_MAX * FRAME, ..elastic() });
        let tree = store.create_tree(TREE).expect("created");
        for n in 0..800u64 {
            Op::Put(n.to_be_bytes().to_vec(), vec![1; 3000]).run(&store, &tree).expect("done");
        }
        let pin = store.undo_pin(UNDO_DIRECTORY).expect("pinned");
        assert!(store.resize_pool(64 * FRAME, &|| false).expect("resized"));
        assert_eq!((store.status().pages_total, store.status().pages_beyond), (64, 1));
        assert_eq!(contents(&tree).expect("readable").len(), 800);
        drop(pin);
        fiber::sleep(Duration::from_secs(2));
        assert_eq!(store.status().pages_beyond, 0);
        assert!(store.resize_pool(FRAMES_MAX * FRAME, &|| false).expect("resized"));
        assert!(store.resize_pool((FRAMES_MAX + 1) * FRAME, &|| false).is_err());
        assert_eq!(contents(&tree).expect("readable").len(), 800);
        store.shutdown().expect("clean");
    })
    .done();
}

fn redo_files(disk: &Disk) -> usize {
    let is_redo = |path: &Path| path.to_string_lossy().starts_with("/data/redo.");
    disk.files().iter().filter(|(path, _)| is_redo(path) && !path.ends_with("redo.head")).count()
}

#[test]
fn a_smaller_log_gives_its_files_back() {
    let disk = Disk::new(1);
    world(1, &disk, || {
        let files = || redo_files(&disk);
        let store = open(StoreConfig { redo_capacity_bytes: 4 << 20, ..elastic() });
        let tree = store.create_tree(TREE).expect("created");
        let fill = |from: u64| {
            for n in from..from + 1000 {
                Op::Put((n % 300).to_be_bytes().to_vec(), vec![1; 3000]).run(&store, &tree).expect("done");
            }
        };
        fill(0);
        fiber::sleep(Duration::from_secs(5));
        let before = files();
        assert!(before > 12, "{before} files");
        assert!(store.resize_redo(256 << 10, &|| false).expect("resized"));
        assert_eq!(store.redo_capacity(), 256 << 10);
        fiber::sleep(Duration::from_secs(2));
        assert!(files() <= 8, "{} files", files());
        fill(1000);
        let status = store.status();
        assert!(status.lsn - status.checkpoint_lsn <= 256 << 10);
        store.shutdown().expect("clean");
    })
    .done();
}

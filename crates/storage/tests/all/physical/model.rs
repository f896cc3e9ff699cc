//! Random operations agree with a map, in a pool far smaller than the data.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::Duration;

use keel_runtime::sim::Disk;
use keel_runtime::sync::WaitQueue;
use keel_runtime::wait::WaitEvent;
use keel_runtime::{fiber, time};

use super::support::*;

fn random_operations(seed: u64, count: usize, keys: u64, value_max: u64) {
    let disk = Disk::new(seed);
    let model = world(seed, &disk, || {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        let mut model = Model::new();
        for _ in 0..count {
            let op = Op::random(keys, value_max);
            op.run(&store, &tree).expect("done");
            op.model(&mut model);
        }
        check(&tree, &model);
        store.shutdown().expect("clean");
        model
    })
    .done();
    world(seed, &disk, || {
        let store = open(tiny());
        let tree = store.tree(TREE).expect("there");
        check(&tree, &model);
        for (key, value) in &model {
            assert_eq!(get(&tree, key).expect("readable").as_ref(), Some(value));
        }
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn small_entries_agree_with_a_map() {
    for seed in seeds(3) {
        random_operations(seed, 6000, 3000, 60);
    }
}

#[test]
fn large_entries_agree_with_a_map_beyond_the_pool() {
    for seed in seeds(3) {
        random_operations(seed, 2500, 900, 4000);
    }
}

#[test]
fn a_tree_that_empties_gives_its_pages_back() {
    let disk = Disk::new(1);
    world(1, &disk, || {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        let key = |n: u64| n.to_be_bytes().to_vec();
        for n in 0..2000 {
            Op::Put(key(n), vec![1; 500]).run(&store, &tree).expect("done");
        }
        let grown = tree.page_count();
        for n in 0..2000 {
            Op::Remove(key(n)).run(&store, &tree).expect("done");
        }
        check(&tree, &Model::new());
        for n in 2000..4000 {
            Op::Put(key(n), vec![2; 500]).run(&store, &tree).expect("done");
        }
        assert!(tree.page_count() <= grown + 16, "{} pages after {grown}", tree.page_count());
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn a_queue_keeps_its_size() {
    let disk = Disk::new(1);
    world(1, &disk, || {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        let key = |n: u64| n.to_be_bytes().to_vec();
        for n in 0..6000u64 {
            Op::Put(key(n), vec![1; 300]).run(&store, &tree).expect("done");
            if let Some(old) = n.checked_sub(300) {
                Op::Remove(key(old)).run(&store, &tree).expect("done");
            }
        }
        assert!(tree.page_count() < 64, "{} pages", tree.page_count());
        assert_eq!(contents(&tree).expect("readable").len(), 300);
        store.shutdown().expect("clean");
    })
    .done();
}

/// Each of eight fibers owns every eighth key; pages are shared.
fn concurrent_fibers(seed: u64) {
    let disk = Disk::new(seed);
    world(seed, &disk, || {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        let left = Arc::new(AtomicUsize::new(8));
        let done = Arc::new(WaitQueue::default());
        let models: Arc<parking_lot::Mutex<Model>> = Arc::default();
        for owner in 0..8u64 {
            let (store, tree, left, done, models) =
                (store.clone(), tree.clone(), left.clone(), done.clone(), models.clone());
            fiber::spawn(move || {
                let mut model = Model::new();
                for _ in 0..400 {
                    let op = match Op::random(400, 1500) {
                        Op::Put(mut key, value) => {
                            key.push(b'a' + owner as u8);
                            Op::Put(key, value)
                        }
                        Op::Remove(mut key) => {
                            key.push(b'a' + owner as u8);
                            Op::Remove(key)
                        }
                    };
                    op.run(&store, &tree).expect("done");
                    op.model(&mut model);
                    if below(4) == 0 {
                        fiber::yield_now();
                    }
                }
                models.lock().append(&mut model);
                left.fetch_sub(1, SeqCst);
                done.wake_all();
            });
        }
        done.wait_while(WaitEvent::Queue, || left.load(SeqCst) > 0);
        check(&tree, &models.lock());
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn concurrent_writers_agree_with_their_maps() {
    for seed in seeds(4) {
        concurrent_fibers(seed);
    }
}

/// Forty readers and writers in 64 frames: pages are evicted and loaded again under the feet of who waits for them.
fn crowded_pool(seed: u64) {
    let disk = Disk::new(seed);
    world(seed, &disk, || {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        let key = |n: u64| n.to_be_bytes().to_vec();
        for n in 0..600 {
            Op::Put(key(n), vec![1; 3000]).run(&store, &tree).expect("done");
        }
        let left = Arc::new(AtomicUsize::new(40));
        let done = Arc::new(WaitQueue::default());
        for _ in 0..40 {
            let (store, tree, left, done) = (store.clone(), tree.clone(), left.clone(), done.clone());
            fiber::spawn(move || {
                for _ in 0..40 {
                    let n = below(600);
                    assert_eq!(get(&tree, &key(n)).expect("readable").map(|v| v.len()), Some(3000));
                    if below(3) == 0 {
                        Op::Put(key(n), vec![2; 3000]).run(&store, &tree).expect("done");
                    }
                }
                left.fetch_sub(1, SeqCst);
                done.wake_all();
            });
        }
        let deadline = time::now() + Duration::from_secs(60);
        let all = done.wait_while_until(WaitEvent::Queue, deadline, || left.load(SeqCst) > 0);
        assert!(all, "{} fibers wait for ever", left.load(SeqCst));
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn nobody_waits_for_ever_in_a_crowded_pool() {
    for seed in seeds(5) {
        crowded_pool(seed);
    }
}

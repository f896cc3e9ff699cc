//! Real threads in one tree: a queue that grows at the right edge and shrinks at the left, writers all over, and readers that
//! look keys up and walk the tree both ways meanwhile. Four entries fill a leaf and some twenty separators an inner page, so
//! that pages of all levels split and merge all the time.
//! KEEL_SEEDS says how often; a seed settles what is done, not how the threads meet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};

use keel_runtime::sync::WaitQueue;
use keel_runtime::wait::WaitEvent;
use keel_runtime::{Config, Runtime, fiber};
use keel_storage::store::{Store, StoreConfig};
use keel_storage::tree::Tree;

use super::real::Folder;
use super::support::*;

const QUEUES: u64 = 3;
const WRITERS: u64 = 3;
const READERS: u64 = 2;
/// Keys that each queue appends in a run.
const APPENDS: u64 = 900;
/// Keys that a queue holds; beyond, it takes them off at the left.
const KEPT: u64 = 250;

/// What a queue says of itself: its keys in `[from, to)` are there.
#[derive(Default)]
struct Queue {
    from: AtomicU64,
    to: AtomicU64,
}

struct Crowd {
    store: Arc<Store>,
    tree: Arc<Tree>,
    queues: [Queue; QUEUES as usize],
    working: AtomicUsize,
    stop: AtomicBool,
    /// Somebody has panicked: all others end soon.
    failed: AtomicBool,
    left: AtomicUsize,
    done: WaitQueue,
}

/// Says when a fiber of the crowd ends, however it does.
struct Leaving<'c>(&'c Crowd);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, SeqCst);
            self.0.stop.store(true, SeqCst);
        }
        self.0.left.fetch_sub(1, SeqCst);
        self.0.done.wake_all();
    }
}

/// Random numbers of a fiber (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }
}

/// Bytes that neighbours have in common, so that no short separator is between them.
const COMMON: usize = 600;

/// Behind all keys of the writers; those of the queues are mixed.
fn queue_key(queue: u64, number: u64) -> Vec<u8> {
    [b"q", (number / 4).to_be_bytes().as_slice(), &[7; COMMON], &[(number % 4) as u8, queue as u8]].concat()
}

fn queue_of(key: &[u8]) -> Option<(usize, u64)> {
    let (number, rest) = key.strip_prefix(b"q")?.split_first_chunk::<8>()?;
    Some((rest[COMMON + 1] as usize, u64::from_be_bytes(*number) * 4 + u64::from(rest[COMMON])))
}

impl Crowd {
    fn append(&self, queue: u64) {
        let me = &self.queues[queue as usize];
        for number in 0..APPENDS {
            if self.failed.load(SeqCst) {
                return;
            }
            Op::Put(queue_key(queue, number), vec![queue as u8; 3800])
                .run(&self.store, &self.tree)
                .expect("done");
            me.to.store(number + 1, SeqCst);
            if let Some(old) = number.checked_sub(KEPT) {
                me.from.store(old + 1, SeqCst);
                Op::Remove(queue_key(queue, old)).run(&self.store, &self.tree).expect("done");
            }
            fiber::yield_now();
        }
    }

    fn write(&self, writer: u64, mut dice: Dice, model: &mut Model) {
        while self.working.load(SeqCst) > 0 && !self.failed.load(SeqCst) {
            let key = [dice.below(300).to_be_bytes().as_slice(), &[writer as u8]].concat();
            let op = match dice.below(2) {
                0 => Op::Remove(key),
                _ => Op::Put(key, vec![dice.below(256) as u8; dice.below(3900) as usize]),
            };
            op.run(&self.store, &self.tree).expect("done");
            op.model(model);
            fiber::yield_now();
        }
    }

    fn look_up(&self, mut dice: Dice) {
        while !self.stop.load(SeqCst) {
            let queue = dice.below(QUEUES);
            let me = &self.queues[queue as usize];
            let (from, to) = (me.from.load(SeqCst), me.to.load(SeqCst));
            if from < to {
                let number = from + dice.below(to - from);
                let found = get(&self.tree, &queue_key(queue, number)).expect("readable").is_some();
                assert!(found || me.from.load(SeqCst) > number, "key {number} of queue {queue} is lost");
            }
            fiber::yield_now();
        }
    }

    /// Walks all leaves with `step`, which gives one's keys and where the next begins; all keys that were there all the time
    /// are met, in order.
    fn walk(&self, backwards: bool) {
        while !self.stop.load(SeqCst) {
            let before: Vec<u64> = self.queues.iter().map(|q| q.to.load(SeqCst)).collect();
            fiber::yield_now();
            let met = if backwards { self.keys_backwards() } else { self.keys_forwards() };
            for (queue, to) in before.iter().enumerate() {
                for number in self.queues[queue].from.load(SeqCst)..*to {
                    assert!(
                        met.contains(&(queue, number)),
                        "backwards {backwards}: {number} of {queue} not met"
                    );
                }
            }
        }
    }

    fn keys_forwards(&self) -> BTreeSet<(usize, u64)> {
        let (mut met, mut key, mut last) = (BTreeSet::new(), Vec::new(), Vec::new());
        let mut fence: Option<Vec<u8>> = Some(Vec::new());
        while let Some(low) = fence {
            let leaf = self.tree.leaf_for_read(&low).expect("readable");
            for slot in 0..leaf.len() {
                leaf.key(slot, &mut key);
                if key >= low {
                    assert!(last < key, "keys out of order");
                    last.clone_from(&key);
                    met.extend(queue_of(&key));
                }
            }
            fence = leaf.high_fence().map(<[u8]>::to_vec);
            drop(leaf);
            fiber::yield_now();
        }
        met
    }

    fn keys_backwards(&self) -> BTreeSet<(usize, u64)> {
        let (mut met, mut key) = (BTreeSet::new(), Vec::new());
        let mut limit: Option<Vec<u8>> = None;
        loop {
            let leaf = match &limit {
                None => self.tree.last_leaf(),
                Some(limit) => self.tree.leaf_before(limit),
            };
            let leaf = leaf.expect("readable");
            for slot in 0..leaf.len() {
                leaf.key(slot, &mut key);
                if limit.as_ref().is_none_or(|limit| key < *limit) {
                    met.extend(queue_of(&key));
                }
            }
            let low = leaf.low_fence().to_vec();
            if low.is_empty() {
                return met;
            }
            assert!(limit.as_ref().is_none_or(|limit| low < *limit), "no way to the left");
            drop(leaf);
            limit = Some(low);
            fiber::yield_now();
        }
    }
}

fn spawn(crowd: &Arc<Crowd>, worker: usize, f: impl FnOnce(&Crowd) + Send + 'static) {
    let crowd = crowd.clone();
    crowd.left.fetch_add(1, SeqCst);
    fiber::spawn_on(worker % keel_runtime::worker_count(), move || {
        let _leaving = Leaving(&crowd);
        f(&crowd);
    });
}

fn run(config: StoreConfig, seed: u64) {
    let store = open(config);
    let tree = store.create_tree(TREE).expect("created");
    let crowd = Arc::new(Crowd {
        store,
        tree,
        queues: Default::default(),
        working: AtomicUsize::new(QUEUES as usize),
        stop: AtomicBool::new(false),
        failed: AtomicBool::new(false),
        left: AtomicUsize::new(0),
        done: WaitQueue::default(),
    });
    let models: Arc<parking_lot::Mutex<Model>> = Arc::default();
    for queue in 0..QUEUES {
        spawn(&crowd, queue as usize, move |crowd| {
            crowd.append(queue);
            crowd.working.fetch_sub(1, SeqCst);
        });
    }
    for writer in 0..WRITERS {
        let models = models.clone();
        spawn(&crowd, writer as usize + 1, move |crowd| {
            let mut model = Model::new();
            crowd.write(writer, Dice(seed << 8 | writer), &mut model);
            models.lock().append(&mut model);
        });
    }
    for reader in 0..READERS {
        spawn(&crowd, reader as usize, move |crowd| crowd.look_up(Dice(seed << 8 | 128 | reader)));
        spawn(&crowd, reader as usize + 1, move |crowd| crowd.walk(reader == 0));
    }
    crowd.done.wait_while(WaitEvent::Queue, || crowd.left.load(SeqCst) > 2 * READERS as usize);
    crowd.stop.store(true, SeqCst);
    crowd.done.wait_while(WaitEvent::Queue, || crowd.left.load(SeqCst) > 0);
    assert!(!crowd.failed.load(SeqCst), "a fiber has panicked");
    let mut model = std::mem::take(&mut *models.lock());
    for queue in 0..QUEUES {
        for number in APPENDS - KEPT..APPENDS {
            model.insert(queue_key(queue, number), vec![queue as u8; 3800]);
        }
    }
    check(&crowd.tree, &model);
    crowd.store.shutdown().expect("clean");
}

#[test]
fn threads_that_split_and_merge_lose_no_key_and_no_reader() {
    for seed in seeds(1) {
        let folder = Folder::new(&format!("crowd-{seed}"));
        let runtime = Runtime::start(Config { workers: 4, ..Config::default() }).expect("the runtime starts");
        let config = StoreConfig {
            dir: folder.0.clone(),
            pool_bytes: 64 << 20,
            redo_capacity_bytes: 64 << 20,
            segment_bytes: 16 << 20,
            ..tiny()
        };
        runtime.block_on(move || run(config, seed));
        runtime.shutdown();
    }
}

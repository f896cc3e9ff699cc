//! The engine's formats and trees, by way of [`keel_storage::fuzz`], and trees against a map.

use std::collections::BTreeMap;
use std::sync::Arc;

use keel_base::TreeId;
use keel_runtime::sim::{self, Disk, Outcome};
use keel_storage::store::{Need, Store, StoreConfig};
use keel_storage::tree::{NoRoom, Tree};

use crate::input::{Choices, Random};

/// Changes of one page against a map.
pub fn page(data: &[u8]) {
    keel_storage::fuzz::page_changes(data);
    keel_storage::fuzz::page_decode(data);
}

/// Rows of choices, and pages.
pub fn page_samples() -> Vec<Vec<u8>> {
    let mut samples = noise(8, 1500);
    samples.extend(keel_storage::fuzz::sample_pages());
    samples
}

/// Groups of the log, read and applied.
pub fn redo(data: &[u8]) {
    keel_storage::fuzz::redo(data);
}

/// Sound groups.
pub fn redo_samples() -> Vec<Vec<u8>> {
    keel_storage::fuzz::sample_groups()
}

fn noise(count: u64, len: usize) -> Vec<Vec<u8>> {
    let bytes = |seed| {
        let mut random = Random::new(seed);
        (0..len).map(|_| random.number() as u8).collect()
    };
    (1..=count).map(bytes).collect()
}

/// Rows of choices.
pub fn tree_samples() -> Vec<Vec<u8>> {
    noise(12, 3000)
}

const TREE: TreeId = TreeId(5);

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// As small as a store can be.
fn open() -> Arc<Store> {
    let config = StoreConfig {
        pool_bytes: 1 << 20,
        redo_capacity_bytes: 256 << 10,
        segment_bytes: 64 << 10,
        ..StoreConfig::new("/data")
    };
    Store::open(config, &mut |_| {}).expect("the store opens")
}

/// What an input asks for.
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Checkpoint,
    Crash,
}

/// Keys of few different lengths with long shared parts, so that prefixes, separators and fences differ.
fn key(choices: &mut Choices<'_>) -> Vec<u8> {
    let shape = choices.byte();
    let number = choices.number() % 700;
    let mut key = vec![b'k'; usize::from(shape & 3) * 9];
    if shape & 0x80 != 0 {
        key.resize(key.len() + usize::from(shape & 0x7c) * 11, b'p');
    }
    key.extend_from_slice(number.to_string().as_bytes());
    key.extend_from_slice(&[0, 0xff][..usize::from(shape >> 4 & 1) * 2]);
    key
}

fn step(choices: &mut Choices<'_>) -> Step {
    match choices.byte() {
        0..=9 => Step::Checkpoint,
        10 => Step::Crash,
        11..=90 => Step::Remove(key(choices)),
        kind => {
            let len = if kind < 230 { usize::from(choices.byte()) } else { choices.number() % 4000 };
            Step::Put(key(choices), vec![kind; len])
        }
    }
}

fn put(store: &Store, tree: &Tree, key: &[u8], value: &[u8]) {
    loop {
        let mtr = store.begin().expect("begins");
        let mut leaf = tree.leaf_for_write(&mtr, key).expect("found");
        let done = match leaf.search(key) {
            Ok(slot) => leaf.replace(slot, value),
            Err(slot) => leaf.insert(slot, key, value),
        };
        match done {
            Ok(()) => {
                mtr.commit();
                return;
            }
            Err(NoRoom) => drop(mtr),
        }
        tree.split_for(key, key.len() + value.len(), Need::New).expect("splits");
    }
}

fn remove(store: &Store, tree: &Tree, key: &[u8]) {
    let mtr = store.begin().expect("begins");
    let mut leaf = tree.leaf_for_write(&mtr, key).expect("found");
    if let Ok(slot) = leaf.search(key) {
        leaf.remove(slot);
    }
    mtr.commit();
    tree.after_remove(key).expect("merges");
}

fn contents(tree: &Tree) -> Model {
    let mut all = Model::new();
    let mut key = Vec::new();
    let mut leaf = tree.first_leaf().expect("readable");
    loop {
        for slot in 0..leaf.len() {
            leaf.key(slot, &mut key);
            assert!(all.insert(key.clone(), leaf.value(slot).to_vec()).is_none(), "a key twice");
        }
        let (Some(high), Some(right)) = (leaf.high_fence().map(<[u8]>::to_vec), leaf.right()) else {
            return all;
        };
        drop(leaf);
        leaf = tree.leaf_by_page(right, &high).expect("readable");
    }
}

/// One life of the store, until the input ends or asks for a crash. Gives what is left of the input.
fn life<'a>(disk: &Disk, input: &'a [u8], model: &mut Model) -> Option<&'a [u8]> {
    let mut left = 0;
    let outcome = sim::run(sim::Options::new(1).with_disk(disk), || {
        let store = open();
        let tree = match store.tree(TREE) {
            Some(tree) => tree,
            None => store.create_tree(TREE).expect("created"),
        };
        assert_eq!(tree.verify().expect("readable"), Vec::<String>::new());
        assert!(contents(&tree) == *model, "contents differ from the model");
        let mut choices = Choices(input);
        while !choices.is_empty() {
            match step(&mut choices) {
                Step::Put(key, value) => {
                    put(&store, &tree, &key, &value);
                    model.insert(key, value);
                }
                Step::Remove(key) => {
                    remove(&store, &tree, &key);
                    model.remove(&key);
                }
                Step::Checkpoint => store.checkpoint().expect("done"),
                Step::Crash => {
                    store.wait_durable(store.current_lsn()).expect("durable");
                    left = choices.0.len();
                    sim::crash_now();
                }
            }
        }
        assert_eq!(tree.verify().expect("readable"), Vec::<String>::new());
        assert!(contents(&tree) == *model, "contents differ from the model");
        store.shutdown().expect("clean");
    });
    (outcome == Outcome::Crashed).then(|| &input[input.len() - left..])
}

/// Puts, removals, checkpoints and crashes.
pub fn tree(data: &[u8]) {
    let disk = Disk::new(1);
    let mut model = Model::new();
    let mut input = data;
    while let Some(rest) = life(&disk, input, &mut model) {
        disk.crash(1);
        input = rest;
    }
    life(&disk, &[], &mut model);
}

//! Opening small stores, and operations whose effect a map can predict.

use std::collections::BTreeMap;
use std::sync::Arc;

use keel_base::TreeId;
use keel_runtime::rand;
use keel_runtime::sim::{self, Disk, Options, Outcome};
use keel_storage::fault::StoreResult;
use keel_storage::store::{Need, Store, StoreConfig};
use keel_storage::tree::{NoRoom, Tree};

pub use crate::common::seeds;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The tree most tests use.
pub const TREE: TreeId = TreeId(5);

/// A store as small as it can be: 64 frames, 256 KiB of redo in segments of 64 KiB.
pub fn tiny() -> StoreConfig {
    StoreConfig {
        pool_bytes: 1 << 20,
        redo_capacity_bytes: 256 << 10,
        segment_bytes: 64 << 10,
        tree_files_max: 2,
        ..StoreConfig::new("/data")
    }
}

pub fn open(config: StoreConfig) -> Arc<Store> {
    Store::open(config, &mut |_| {}).expect("the store opens")
}

/// Runs `f` in a world of its own; a panic names the seed.
pub fn world<T: Send>(seed: u64, disk: &Disk, f: impl FnOnce() -> T + Send) -> Outcome<T> {
    let _named = NameSeed(seed);
    sim::run(Options::new(seed).with_disk(disk), f)
}

struct NameSeed(u64);

impl Drop for NameSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failing seed: {}", self.0);
        }
    }
}

pub fn below(n: u64) -> u64 {
    rand::u64() % n
}

/// Bytes that tell where they come from.
pub fn bytes(len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    rand::fill(&mut out);
    out
}

/// A change of one key.
#[derive(Clone, Debug)]
pub enum Op {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
}

impl Op {
    /// Over `keys` different keys with values up to `value_max` bytes; one in four removes.
    pub fn random(keys: u64, value_max: u64) -> Op {
        let key = format!("{:0>width$}", below(keys), width = 3 + below(2) as usize).into_bytes();
        if below(4) == 0 { Op::Remove(key) } else { Op::Put(key, bytes(below(value_max) as usize)) }
    }

    pub fn model(&self, model: &mut Model) {
        match self {
            Op::Put(k, v) => _ = model.insert(k.clone(), v.clone()),
            Op::Remove(k) => _ = model.remove(k),
        }
    }

    /// Does it, in one mini-transaction besides splits and merges. Gives its end in the log.
    pub fn run(&self, store: &Store, tree: &Tree) -> StoreResult<u64> {
        match self {
            Op::Put(key, value) => loop {
                if let Some(end) = try_put(store, tree, key, value)? {
                    return Ok(end);
                }
                tree.split_for(key, key.len() + value.len(), Need::New)?;
            },
            Op::Remove(key) => {
                let end = remove(store, tree, key)?;
                tree.after_remove(key)?;
                Ok(end)
            }
        }
    }
}

fn try_put(store: &Store, tree: &Tree, key: &[u8], value: &[u8]) -> StoreResult<Option<u64>> {
    let mtr = store.begin()?;
    let mut leaf = tree.leaf_for_write(&mtr, key)?;
    let done = match leaf.search(key) {
        Ok(slot) => leaf.replace(slot, value),
        Err(slot) => leaf.insert(slot, key, value),
    };
    match done {
        Ok(()) => Ok(Some(mtr.commit().0)),
        Err(NoRoom) => Ok(None),
    }
}

fn remove(store: &Store, tree: &Tree, key: &[u8]) -> StoreResult<u64> {
    let mtr = store.begin()?;
    let mut leaf = tree.leaf_for_write(&mtr, key)?;
    if let Ok(slot) = leaf.search(key) {
        leaf.remove(slot);
    }
    Ok(mtr.commit().0)
}

/// One key's value.
pub fn get(tree: &Tree, key: &[u8]) -> StoreResult<Option<Vec<u8>>> {
    let leaf = tree.leaf_for_read(key)?;
    Ok(leaf.search(key).ok().map(|slot| leaf.value(slot).to_vec()))
}

/// All entries, leaf by leaf from the left.
pub fn contents(tree: &Tree) -> StoreResult<Model> {
    let mut all = Model::new();
    let mut key = Vec::new();
    let mut leaf = tree.first_leaf()?;
    loop {
        for slot in 0..leaf.len() {
            leaf.key(slot, &mut key);
            assert!(all.insert(key.clone(), leaf.value(slot).to_vec()).is_none(), "a key twice");
        }
        let (Some(high), Some(right)) = (leaf.high_fence().map(<[u8]>::to_vec), leaf.right()) else {
            return Ok(all);
        };
        drop(leaf);
        leaf = tree.leaf_by_page(right, &high)?;
    }
}

/// All entries, leaf by leaf from the right.
pub fn contents_backwards(tree: &Tree) -> StoreResult<Model> {
    let mut all = Model::new();
    let mut key = Vec::new();
    let mut leaf = tree.last_leaf()?;
    loop {
        for slot in (0..leaf.len()).rev() {
            leaf.key(slot, &mut key);
            all.insert(key.clone(), leaf.value(slot).to_vec());
        }
        let low = leaf.low_fence().to_vec();
        if low.is_empty() {
            return Ok(all);
        }
        drop(leaf);
        leaf = tree.leaf_before(&low)?;
        if !leaf.is_empty() && leaf.cmp(0, &low).is_ge() {
            return Ok(all);
        }
        if leaf.is_empty() && leaf.low_fence().is_empty() {
            return Ok(all);
        }
    }
}

/// Structure and contents are what the model says.
pub fn check(tree: &Tree, model: &Model) {
    assert_eq!(tree.verify().expect("readable"), Vec::<String>::new());
    assert!(contents(tree).expect("readable") == *model, "contents differ from the model");
    assert!(contents_backwards(tree).expect("readable") == *model, "backward contents differ from the model");
}

//! A small engine in a simulated world, and words to write interleavings in.

use std::sync::Arc;
use std::time::Duration;

use keel_runtime::sim::{self, Options};
use keel_runtime::sync::{Receiver, channel};
use keel_runtime::{fiber, time};
use keel_storage::fault::StoreError;
use keel_storage::{
    Change, Changed, Engine, EngineConfig, Error, Insert, Isolation, LockMode, OnDuplicate, Read, Result,
    ScanRange, TreeHandle, Txn, TxnOptions, Wait,
};

pub use std::ops::Bound;

mod seeds;
pub use seeds::seeds;

/// How an engine in a small world is set up.
pub fn config() -> EngineConfig {
    let mut config = EngineConfig::new("/data");
    config.store.pool_bytes = 4 << 20;
    config.store.segment_bytes = 1 << 20;
    config.store.redo_capacity_bytes = 8 << 20;
    // Fewer than there are trees, so that files are closed and opened again all the time.
    config.store.tree_files_max = 2;
    config
}

/// The same with a log that a few pages fill.
pub fn small_log() -> EngineConfig {
    let mut config = config();
    (config.store.segment_bytes, config.store.redo_capacity_bytes) = (64 << 10, 256 << 10);
    config
}

/// Writes on `tree` while pages cannot be written for want of room, until the log is full.
pub fn fill_log(engine: &Arc<Engine>, tree: &TreeHandle) {
    sim::fail_times(sim::Op::Write, "doublewrite", 28, 0, 100);
    let full = (1..1 << 20).find_map(|raised| engine.raise_counter(tree, raised << 20).err());
    assert!(matches!(full, Some(Error::Store(StoreError::DiskFull { .. }))), "{full:?}");
}

/// Runs `f` with an engine in a world of its own.
pub fn world<T: Send>(seed: u64, f: impl FnOnce(&Arc<Engine>) -> T + Send) -> T {
    world_of(config(), seed, f)
}

/// Runs `f` with an engine so configured in a world of its own.
pub fn world_of<T: Send>(config: EngineConfig, seed: u64, f: impl FnOnce(&Arc<Engine>) -> T + Send) -> T {
    sim::run(Options::new(seed), || {
        let engine = Engine::open(config).expect("open");
        let result = f(&engine);
        engine.shutdown().expect("shutdown");
        result
    })
    .done()
}

/// Runs `f` with an engine and a tree that holds rows `n` = `"n"` for each of `keys`.
pub fn with_rows<T: Send>(keys: &[u32], f: impl FnOnce(&Arc<Engine>, &TreeHandle) -> T + Send) -> T {
    world(1, |engine| {
        let tree = new_tree(engine);
        let mut txn = begin(engine, Isolation::RepeatableRead);
        for n in keys {
            put(&mut txn, &tree, *n, &n.to_string());
        }
        txn.commit().unwrap();
        f(engine, &tree)
    })
}

/// Creates a tree and commits.
pub fn new_tree(engine: &Arc<Engine>) -> TreeHandle {
    let mut txn = begin(engine, Isolation::RepeatableRead);
    let id = engine.create_tree(&mut txn, b"test").unwrap();
    txn.commit().unwrap();
    engine.tree(id).unwrap()
}

pub fn begin(engine: &Arc<Engine>, isolation: Isolation) -> Txn {
    engine.begin(TxnOptions { isolation, ..TxnOptions::default() })
}

pub fn rr(engine: &Arc<Engine>) -> Txn {
    begin(engine, Isolation::RepeatableRead)
}

pub fn rc(engine: &Arc<Engine>) -> Txn {
    begin(engine, Isolation::ReadCommitted)
}

pub fn k(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

pub fn put(txn: &mut Txn, tree: &TreeHandle, n: u32, row: &str) {
    assert_eq!(insert(txn, tree, n, row).unwrap(), Insert::Done);
}

pub fn insert(txn: &mut Txn, tree: &TreeHandle, n: u32, row: &str) -> Result<Insert> {
    txn.insert(tree, &k(n), row.as_bytes(), OnDuplicate::LockShared)
}

/// True once in `n` times.
pub fn one_in(n: u64) -> bool {
    keel_runtime::rand::u64().is_multiple_of(n)
}

pub fn text(row: &[u8]) -> String {
    String::from_utf8_lossy(row).into_owned()
}

/// A plain read.
pub fn get(txn: &mut Txn, tree: &TreeHandle, n: u32) -> Option<String> {
    txn.start_statement();
    txn.get(tree, &k(n), Read::Snapshot, text).unwrap()
}

pub fn lock(txn: &mut Txn, tree: &TreeHandle, n: u32, mode: LockMode, wait: Wait) -> Result<Option<String>> {
    txn.start_statement();
    txn.get(tree, &k(n), Read::Lock(mode, wait), text)
}

pub fn set(txn: &mut Txn, tree: &TreeHandle, n: u32, row: &str) -> Result<()> {
    txn.start_statement();
    txn.update(tree, &k(n), row.as_bytes())
}

pub fn del(txn: &mut Txn, tree: &TreeHandle, n: u32) -> Result<()> {
    txn.start_statement();
    txn.delete(tree, &k(n))
}

/// Adds to a row that holds a number.
pub fn add(txn: &mut Txn, tree: &TreeHandle, n: u32, by: i64) -> Result<Changed> {
    let change = |old: &[u8], new: &mut Vec<u8>| -> std::result::Result<Change, ()> {
        let value: i64 = text(old).trim().parse().map_err(|_| ())?;
        new.extend_from_slice(format!("{:1$}", value + by, old.len()).as_bytes());
        Ok(Change::Update)
    };
    Ok(txn.update_by(tree, &k(n), change)?.expect("a number"))
}

/// All rows of a range of keys.
pub fn scan_range(
    txn: &mut Txn,
    tree: &TreeHandle,
    range: ScanRange<'_>,
    read: Read,
) -> Result<Vec<(u32, String)>> {
    let mut scan = txn.scan(tree, range, read)?;
    let mut out = Vec::new();
    while let Some((key, row)) = scan.next(txn)? {
        out.push((u32::from_be_bytes(key.try_into().unwrap()), text(row)));
    }
    Ok(out)
}

/// Keys that a plain scan sees.
pub fn keys(txn: &mut Txn, tree: &TreeHandle) -> Vec<u32> {
    txn.start_statement();
    scan_range(txn, tree, ScanRange::ALL, Read::Snapshot).unwrap().into_iter().map(|(n, _)| n).collect()
}

/// A call that is waiting for a lock on a fiber of its own.
pub struct Blocked<T> {
    result: Receiver<T>,
}

/// Starts `f` on a fiber and returns once it waits for a row lock.
pub fn blocked<T: Send + 'static>(
    engine: &Arc<Engine>,
    f: impl FnOnce() -> T + Send + 'static,
) -> Blocked<T> {
    let before = engine.status().lock_waits;
    let (send, result) = channel(1);
    fiber::spawn(move || {
        let _ = send.try_send(f());
    });
    let limit = time::now() + Duration::from_secs(1);
    while engine.status().lock_waits == before {
        assert!(result.is_empty(), "the call did not wait");
        assert!(time::now() < limit, "the call neither waits nor returns");
        fiber::sleep(Duration::from_micros(100));
    }
    assert!(result.is_empty(), "the call did not wait");
    Blocked { result }
}

impl<T: Send> Blocked<T> {
    /// Whether it still waits.
    pub fn waits(&self) -> bool {
        fiber::sleep(Duration::from_millis(5));
        self.result.is_empty()
    }

    /// Its result.
    pub fn done(self) -> T {
        self.result.recv().expect("the call ended without a result")
    }
}

pub fn is_deadlock<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Deadlock))
}

//! File operations that fail, one after the other: whichever it is, nothing acknowledged is lost, nobody panics, work goes on
//! once the fault is over, and no file stays that nobody names. KEEL_SEEDS set: every operation instead of a sample;
//! KEEL_SEED tries one number, as a failing case prints it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::*;
use keel_runtime::sim::{self, Disk, Op, Options, Outcome};
use keel_runtime::{fiber, fs, rand};
use keel_storage::fault::StoreError;
use keel_storage::{Engine, EngineConfig, Error, Insert, OnDuplicate, Result, TreeHandle, Txn};
use parking_lot::Mutex;

const CLIENTS: u32 = 4;
const KEYS: u32 = 40;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A pool that most rows do not fit in, and little log.
fn tiny() -> EngineConfig {
    let mut config = config();
    config.store.pool_bytes = 1 << 20;
    config.store.segment_bytes = 256 << 10;
    config.store.redo_capacity_bytes = 1 << 20;
    config
}

type Rows = BTreeMap<u32, String>;

/// What one client was told of its rows, and what else may be there: the outcome of a commit that failed is open.
#[derive(Default, Clone)]
struct Told {
    rows: Rows,
    doubt: Option<Rows>,
    /// Trees of its own that were acknowledged, and one whose fate is open.
    trees: BTreeSet<u32>,
    tree_doubt: Option<u32>,
}

type Ledger = Arc<Mutex<Vec<Told>>>;

fn below(n: u64) -> u64 {
    rand::u64() % n
}

fn value() -> String {
    let len = match below(12) {
        0 => 20_000,
        1..4 => 3000,
        4..8 => 700,
        _ => 20,
    };
    format!("{:0len$}", below(1_000_000))
}

/// The world broke, or somebody waits for a transaction that cannot be rolled back yet.
fn is_fault(error: &Error) -> bool {
    matches!(error, Error::Store(_) | Error::LockWaitTimeout)
}

/// Changes a few rows; the rows as they are then.
fn change_some(txn: &mut Txn, tree: &TreeHandle, client: u32, mut rows: Rows, n: u64) -> Result<Rows> {
    for _ in 0..n {
        txn.start_statement();
        let key = client * 1000 + below(u64::from(KEYS)) as u32;
        let new = value();
        match (rows.contains_key(&key), below(4)) {
            (true, 0) => {
                txn.delete(tree, &k(key))?;
                rows.remove(&key);
            }
            (true, _) => {
                txn.update(tree, &k(key), new.as_bytes())?;
                rows.insert(key, new);
            }
            (false, _) => {
                assert_eq!(txn.insert(tree, &k(key), new.as_bytes(), OnDuplicate::LockShared)?, Insert::Done);
                rows.insert(key, new);
            }
        }
    }
    Ok(rows)
}

/// One transaction on the rows; on an error it is rolled back, by hand or by its end.
fn transaction(engine: &Arc<Engine>, tree: &TreeHandle, client: u32, told: &mut Told) -> Result<()> {
    let mut txn = rr(engine);
    let n = if below(10) == 0 { 60 } else { 1 + below(6) };
    let mut rows = change_some(&mut txn, tree, client, told.rows.clone(), n)?;
    if below(4) == 0 {
        let savepoint = txn.savepoint();
        let changed = change_some(&mut txn, tree, client, rows.clone(), 3);
        if changed.is_err() || below(2) == 0 {
            txn.rollback_to(savepoint)?;
        } else {
            rows = changed?;
        }
    }
    if below(6) == 0 {
        return txn.rollback();
    }
    end(txn, told, |told| told.rows = rows.clone())
}

/// Makes a tree, or drops one.
fn define(engine: &Arc<Engine>, told: &mut Told) -> Result<()> {
    let mut txn = rr(engine);
    match told.trees.first().copied() {
        Some(id) if below(2) == 0 => {
            engine.drop_tree(&mut txn, keel_base::TreeId(id))?;
            end_definition(txn, told, id)
        }
        _ => {
            let id = engine.create_tree(&mut txn, b"extra")?;
            let tree = engine.tree(id).expect("just made");
            (0..below(40) as u32).try_for_each(|n| insert(&mut txn, &tree, n, &value()).map(drop))?;
            end_definition(txn, told, id.0)
        }
    }
}

fn end_definition(txn: Txn, told: &mut Told, id: u32) -> Result<()> {
    let toggle = |told: &mut Told| {
        if !told.trees.remove(&id) {
            told.trees.insert(id);
        }
    };
    let result = end(txn, told, toggle);
    if matches!(result, Err(Error::Store(StoreError::LogFailed))) {
        told.tree_doubt = Some(id);
        told.trees.remove(&id);
    }
    result
}

/// Commits. After an error the transaction did not happen, unless the log has failed: then that is open.
fn end(mut txn: Txn, told: &mut Told, done: impl Fn(&mut Told)) -> Result<()> {
    let result = txn.commit();
    match &result {
        Ok(_) => done(told),
        Err(Error::Store(StoreError::LogFailed)) => {
            let mut other = told.clone();
            done(&mut other);
            told.doubt = Some(other.rows);
        }
        Err(_) => {}
    }
    result.map(drop)
}

/// All clients work; a client stops once the log has failed.
fn work(engine: &Arc<Engine>, tree: &TreeHandle, ledger: &Ledger, rounds: usize, strict: bool) {
    let left = Arc::new(AtomicUsize::new(CLIENTS as usize));
    for client in 0..CLIENTS {
        let (engine, tree, ledger, left) = (engine.clone(), tree.clone(), ledger.clone(), left.clone());
        fiber::spawn(move || {
            let mut told = ledger.lock()[client as usize].clone();
            for _ in 0..rounds {
                let result = match below(5) {
                    0 => define(&engine, &mut told),
                    _ => transaction(&engine, &tree, client, &mut told),
                };
                match result {
                    Err(error) if strict => panic!("work does not go on: {error}"),
                    Err(error) => assert!(is_fault(&error), "{error}"),
                    Ok(()) => {}
                }
                // A crash must find what was told before.
                ledger.lock()[client as usize] = told.clone();
                if engine.failure().is_some() {
                    break;
                }
            }
            left.fetch_sub(1, Ordering::SeqCst);
        });
    }
    while left.load(Ordering::SeqCst) != 0 {
        fiber::sleep(Duration::from_millis(1));
    }
}

/// What is there is what was told; what was open is settled.
fn verify(engine: &Arc<Engine>, tree: &TreeHandle, ledger: &Ledger) {
    let mut txn = rr(engine);
    let all = scan_range(&mut txn, tree, keel_storage::ScanRange::ALL, keel_storage::Read::Snapshot)
        .expect("readable");
    let names: BTreeSet<u32> = engine.trees().expect("readable").iter().map(|(id, _)| id.0).collect();
    let mut expected = BTreeSet::from([tree.id().0]);
    for (client, told) in ledger.lock().iter_mut().enumerate() {
        let mine: Rows = all.iter().filter(|(key, _)| key / 1000 == client as u32).cloned().collect();
        let is_doubt = told.doubt.take().is_some_and(|doubt| doubt == mine);
        assert!(mine == told.rows || is_doubt, "client {client} was told otherwise");
        told.rows = mine;
        if let Some(id) = told.tree_doubt.take().filter(|id| names.contains(id)) {
            told.trees.insert(id);
        }
        expected.extend(&told.trees);
    }
    assert_eq!(names, expected, "trees");
    assert_eq!(engine.check_tree(tree).expect("readable"), Vec::<String>::new());
}

/// Every file of the folder belongs to a tree that is named.
fn check_files(engine: &Arc<Engine>) {
    let mut expected = BTreeSet::from(["undo.kt".to_string(), "t1.kt".to_string()]);
    expected.extend(engine.trees().expect("readable").iter().map(|(id, _)| format!("t{id}.kt")));
    let found: BTreeSet<String> =
        fs::read_dir(Path::new("/data/trees")).expect("lists").into_iter().collect();
    assert_eq!(found, expected, "files");
}

fn rows_tree(engine: &Arc<Engine>) -> Option<TreeHandle> {
    let trees = engine.trees().expect("readable");
    trees.iter().find(|(_, note)| note == b"test").and_then(|(id, _)| engine.tree(*id))
}

#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Op,
    path: &'static str,
    errno: i32,
    after: u64,
    times: u64,
}

/// Operations of the kind while clients work, as a life without faults has them.
fn operations(kind: Op, seed: u64) -> u64 {
    let ledger: Ledger = Arc::new(Mutex::new(vec![Told::default(); CLIENTS as usize]));
    sim::run(Options::new(seed), || {
        let engine = Engine::open(tiny()).expect("opens");
        let tree = new_tree(&engine);
        work(&engine, &tree, &ledger, 8, true);
        sim::operations(kind)
    })
    .done()
}

fn try_case(seed: u64, case: Case) {
    let disk = Disk::new(seed);
    let ledger: Ledger = Arc::new(Mutex::new(vec![Told::default(); CLIENTS as usize]));
    let first = sim::run(Options::new(seed).with_disk(&disk), || {
        let engine = Engine::open(tiny()).expect("opens");
        let tree = new_tree(&engine);
        sim::fail_times(case.kind, case.path, case.errno, case.after, case.times);
        work(&engine, &tree, &ledger, 8, false);
        sim::clear_faults();
        // Pages that could not be written are tried again by now.
        fiber::sleep(Duration::from_secs(1));
        if engine.failure().is_some() {
            assert!(may_end(case), "ended: {:?}", engine.failure());
            sim::crash_now();
        }
        // What is left to be rolled back is, once it can be.
        while engine.transactions(usize::MAX).iter().any(|trx| trx.rolling_back) {
            fiber::sleep(Duration::from_millis(100));
        }
        verify(&engine, &tree, &ledger);
        work(&engine, &tree, &ledger, 2, true);
        verify(&engine, &tree, &ledger);
        if case.after.is_multiple_of(2) {
            sim::crash_now();
        }
        engine.shutdown().expect("stops");
    });
    if first == Outcome::Crashed && !case.after.is_multiple_of(3) {
        disk.crash(seed);
    }
    let second = sim::run(Options::new(seed + 1).with_disk(&disk), || {
        let engine = Engine::open(tiny()).expect("opens again");
        let tree = rows_tree(&engine).expect("the tree was acknowledged");
        check_files(&engine);
        verify(&engine, &tree, &ledger);
        work(&engine, &tree, &ledger, 2, true);
        verify(&engine, &tree, &ledger);
        engine.shutdown().expect("stops");
    });
    second.done();
}

/// Faults after which the engine may give up: the log's, and syncs; what can be tried again is, if it ends in time.
fn may_end(case: Case) -> bool {
    let log = case.path.is_empty() || "redo".contains(case.path) || case.path.contains("redo");
    match case.kind {
        Op::Read => false,
        Op::Write => log || case.times > 10 && case.errno != ENOSPC,
        Op::Sync => true,
        Op::Name => case.times > 10,
    }
}

fn try_all(kind: Op, paths: &[&'static str]) {
    let long = std::env::var_os("KEEL_SEEDS").is_some();
    let count = operations(kind, 1);
    let step = if long { 1 } else { (count / 9).max(1) };
    let mut number = 0;
    for &path in paths {
        for (errno, times) in [(EIO, 1), (ENOSPC, 1), (ENOSPC, 40), (EIO, 5), (EIO, 1_000_000)] {
            // Samples of the cases lie between each other.
            let mut after = if long { 0 } else { number * 5 % step };
            while after < count {
                let case = Case { kind, path, errno, after, times };
                if std::panic::catch_unwind(|| try_case(1, case)).is_err() {
                    panic!("failed: {case:?}");
                }
                after += step;
            }
            number += 1;
        }
    }
}

#[test]
fn any_read_may_fail() {
    try_all(Op::Read, &[""]);
}

#[test]
fn any_write_may_fail() {
    try_all(Op::Write, &["", "trees/"]);
}

#[test]
fn any_sync_may_fail() {
    try_all(Op::Sync, &[""]);
}

#[test]
fn any_change_of_names_may_fail() {
    try_all(Op::Name, &[""]);
}

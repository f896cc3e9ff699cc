//! Prepared transactions: what they keep locked, and that no crash decides about them. KEEL_SEEDS says how many seeds to
//! try, or which; KEEL_SEED tries one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use keel_runtime::sim::{self, Disk, Options, Outcome};
use keel_runtime::{fiber, rand};
use keel_storage::fault::StoreError;
use keel_storage::{
    Engine, Error, Isolation, LockMode, OnDuplicate, Read, ScanRange, TreeHandle, Txn, TxnOptions, Wait,
};
use parking_lot::Mutex;

const X: LockMode = LockMode::Exclusive;
const S: LockMode = LockMode::Shared;

/// Whether a row can be had at once.
fn is_free(engine: &Arc<Engine>, tree: &TreeHandle, n: u32, mode: LockMode) -> bool {
    match lock(&mut rc(engine), tree, n, mode, Wait::NoWait) {
        Ok(_) => true,
        Err(Error::LockNotAvailable) => false,
        Err(error) => panic!("row {n}: {error}"),
    }
}

/// Whether a row can be inserted at once; it is taken back.
fn can_insert(engine: &Arc<Engine>, tree: &TreeHandle, n: u32) -> bool {
    let timeout = Some(Duration::from_millis(1));
    let mut txn = engine.begin(TxnOptions { lock_wait_timeout: timeout, ..TxnOptions::default() });
    let result = insert(&mut txn, tree, n, "probe");
    txn.rollback().unwrap();
    match result {
        Ok(_) => true,
        Err(Error::LockWaitTimeout) => false,
        Err(error) => panic!("insert {n}: {error}"),
    }
}

#[test]
fn preparing_gives_back_shared_rows_and_gaps_without_an_exclusive_row() {
    with_rows(&[10, 20, 30, 40], |engine, tree| {
        let mut txn = rr(engine);
        set(&mut txn, tree, 10, "new").unwrap();
        lock(&mut txn, tree, 20, S, Wait::Default).unwrap();
        lock(&mut txn, tree, 25, X, Wait::Default).unwrap();
        let from = ScanRange { lower: Bound::Included(&k(40)), ..ScanRange::ALL };
        scan_range(&mut txn, tree, from, Read::FOR_UPDATE).unwrap();
        let free = |n| is_free(engine, tree, n, X);
        assert_eq!([10, 20, 30, 40].map(free), [false, false, true, false]);
        assert_eq!([5, 25, 50].map(|n| can_insert(engine, tree, n)), [true, false, false]);
        let tree_b = tree.clone();
        let mut other = rr(engine);
        let waiting = blocked(engine, move || insert(&mut other, &tree_b, 50, "behind the last row"));
        assert!(txn.prepare(b"one").unwrap());
        waiting.done().unwrap();
        assert_eq!([10, 20, 30, 40].map(free), [false, true, true, false]);
        assert_eq!([5, 25, 35].map(|n| can_insert(engine, tree, n)), [true, true, true]);
        assert!(engine.transactions(10).iter().any(|trx| trx.prepared && trx.changes == 1));
        txn.rollback().unwrap();
        assert!([10, 20, 30, 40].map(free) == [true; 4]);
        assert_eq!(get(&mut rr(engine), tree, 10).as_deref(), Some("10"));
    });
}

#[test]
fn a_range_that_ends_at_an_exclusive_row_stays_closed() {
    with_rows(&[10, 20, 30], |engine, tree| {
        let mut txn = rr(engine);
        let all = scan_range(&mut txn, tree, ScanRange::ALL, Read::FOR_UPDATE).unwrap();
        assert_eq!(all.len(), 3);
        set(&mut txn, tree, 20, "new").unwrap();
        txn.prepare(b"one").unwrap();
        assert_eq!([5, 15, 25, 35].map(|n| can_insert(engine, tree, n)), [false, false, false, true]);
        txn.commit().unwrap();
        assert!(can_insert(engine, tree, 15));
    });
}

#[test]
fn serializable_transactions_and_those_that_wrote_nothing_give_nothing_back() {
    with_rows(&[10, 20], |engine, tree| {
        let mut serializable = begin(engine, Isolation::Serializable);
        lock(&mut serializable, tree, 10, S, Wait::Default).unwrap();
        put(&mut serializable, tree, 15, "new");
        assert!(serializable.prepare(b"one").unwrap());
        assert!(!is_free(engine, tree, 10, X));
        let mut reader = rr(engine);
        lock(&mut reader, tree, 20, S, Wait::Default).unwrap();
        assert!(!reader.prepare(b"two").unwrap(), "nothing would be left of it");
        assert!(!is_free(engine, tree, 20, X));
        drop(reader);
        assert!(is_free(engine, tree, 20, X));
        serializable.rollback().unwrap();
    });
}

#[test]
fn waiters_for_a_changed_row_wait_on() {
    with_rows(&[10], |engine, tree| {
        let mut txn = rr(engine);
        set(&mut txn, tree, 10, "new").unwrap();
        let (tree_b, mut other) = (tree.clone(), rr(engine));
        let waiting = blocked(engine, move || {
            let found = lock(&mut other, &tree_b, 10, X, Wait::Default);
            other.rollback().unwrap();
            found
        });
        txn.prepare(b"one").unwrap();
        assert!(waiting.waits());
        txn.commit().unwrap();
        assert_eq!(waiting.done().unwrap().as_deref(), Some("new"));
    });
}

#[test]
fn what_cannot_be_committed_for_want_of_room_stays_prepared() {
    world_of(small_log(), 1, |engine| {
        let tree = new_tree(engine);
        let mut txn = rr(engine);
        put(&mut txn, &tree, 1, "prepared");
        txn.prepare(b"one").unwrap();
        fill_log(engine, &tree);
        assert!(matches!(txn.commit(), Err(Error::Store(StoreError::DiskFull { .. }))));
        assert!(txn.is_prepared());
        assert!(matches!(txn.rollback(), Err(Error::Store(StoreError::DiskFull { .. }))));
        assert!(txn.is_prepared() && !is_free(engine, &tree, 1, X));
        sim::clear_faults();
        while txn.commit().is_err() {
            fiber::sleep(Duration::from_secs(1));
        }
        assert!(!txn.is_prepared());
        assert_eq!(get(&mut rr(engine), &tree, 1).as_deref(), Some("prepared"));
    });
}

#[test]
fn what_is_half_rolled_back_is_not_prepared_any_more() {
    with_rows(&[], |engine, tree| {
        let mut txn = rr(engine);
        let rows = 1500;
        (0..rows).for_each(|n| put(&mut txn, tree, n, &"o".repeat(3000)));
        txn.commit().unwrap();
        // Its undo is larger than the pool.
        (0..rows).for_each(|n| set(&mut txn, tree, n, &"n".repeat(3000)).unwrap());
        txn.prepare(b"one").unwrap();
        sim::fail_times(sim::Op::Read, "undo.kt", 5, 20, 20);
        assert!(txn.rollback().is_err());
        assert!(!txn.is_prepared(), "somebody could commit the half of it");
        drop(txn);
        while engine.status().trx_active != 0 {
            fiber::sleep(Duration::from_millis(100));
        }
        for (n, row) in scan_range(&mut rr(engine), tree, ScanRange::ALL, Read::Snapshot).unwrap() {
            assert!(row.starts_with('o'), "row {n} is left as {row:.3}");
        }
    });
}

#[test]
fn what_is_prepared_outlives_stops_and_is_purged_once_it_has_ended() {
    let disk = Disk::new(1);
    let life = |seed, f: &(dyn Fn(&Arc<Engine>, &TreeHandle) + Sync)| {
        sim::run(Options::new(seed).with_disk(&disk), || {
            let engine = Engine::open(config()).unwrap();
            let known = engine.trees().unwrap().first().map(|(id, _)| engine.tree(*id).unwrap());
            f(&engine, &known.unwrap_or_else(|| new_tree(&engine)));
            engine.shutdown().unwrap();
        })
        .done();
    };
    life(1, &|engine, tree| {
        let mut txn = rr(engine);
        (0..100).for_each(|n| put(&mut txn, tree, n, "old"));
        txn.commit().unwrap();
        for (name, first) in [(&b"kept"[..], 0), (b"dropped", 50)] {
            (first..first + 50).step_by(2).for_each(|n| del(&mut txn, tree, n).unwrap());
            txn.prepare(name).unwrap();
            txn = rr(engine);
        }
    });
    // Others work and purge meanwhile, in another life.
    life(2, &|engine, tree| {
        for n in 0..2000 {
            let mut txn = rr(engine);
            set(&mut txn, tree, 1, &format!("{n}")).unwrap();
            txn.commit().unwrap();
        }
        assert_eq!(keys(&mut rr(engine), tree).len(), 100);
    });
    life(3, &|engine, tree| {
        let mut found = engine.take_prepared();
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        assert_eq!(found.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), [&b"dropped"[..], b"kept"]);
        assert!(engine.take_prepared().is_empty());
        assert_eq!(found[0].1.changed_trees().unwrap(), [tree.id()]);
        assert!((0..100).all(|n| is_free(engine, tree, n, X) == (n % 2 == 1)));
        found[0].1.rollback().unwrap();
        found[1].1.commit().unwrap();
        assert!((0..100).all(|n| is_free(engine, tree, n, X)));
        assert_eq!(keys(&mut rr(engine), tree).len(), 75);
        while engine.status().history_len != 0 {
            fiber::sleep(Duration::from_millis(10));
        }
        assert_eq!(engine.check_tree(tree).unwrap(), Vec::<String>::new());
    });
    life(4, &|engine, tree| {
        assert!(engine.take_prepared().is_empty());
        assert_eq!(keys(&mut rr(engine), tree).len(), 75);
        assert_eq!(engine.status().trx_active, 0);
    });
}

/// What was said about a branch, in order; `Maybe` before, `Sure` after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    MaybePrepared,
    Prepared,
    MaybeCommitted,
    Committed,
    /// A rollback is not waited for: after a crash the branch may be prepared again.
    RolledBack,
}

/// Keys of a branch: two to change, one to delete, one to insert, and two whose change is taken back.
const KEYS: u32 = 8;
const BRANCHES: u32 = 12;

#[derive(Default)]
struct Ledger {
    said: BTreeMap<u32, Said>,
}

type SharedLedger = Arc<Mutex<Ledger>>;

fn say(ledger: &SharedLedger, branch: u32, what: Said) {
    ledger.lock().said.insert(branch, what);
}

fn work(txn: &mut Txn, tree: &TreeHandle, branch: u32) {
    let at = branch * KEYS;
    let long = format!("new {}", "p".repeat(9000));
    set(txn, tree, at, "new").unwrap();
    set(txn, tree, at + 1, &long).unwrap();
    let savepoint = txn.savepoint();
    set(txn, tree, at + 4, "taken back").unwrap();
    del(txn, tree, at + 5).unwrap();
    put(txn, tree, at + 6, "taken back");
    txn.rollback_to(savepoint).unwrap();
    del(txn, tree, at + 2).unwrap();
    put(txn, tree, at + 3, "new");
    set(txn, tree, at + 1, "new").unwrap();
}

/// The rows of a branch, as a plain read sees them.
fn rows(txn: &mut Txn, tree: &TreeHandle, branch: u32) -> Vec<Option<String>> {
    let head = |row: String| row.chars().take(3).collect();
    (0..7).map(|n| get(txn, tree, branch * KEYS + n).map(head)).collect()
}

fn expected(done: bool) -> Vec<Option<String>> {
    let texts = match done {
        false => ["old", "old", "old", "", "old", "old", ""],
        true => ["new", "new", "", "new", "old", "old", ""],
    };
    texts.iter().map(|text| Some(text.to_string()).filter(|text| !text.is_empty())).collect()
}

fn name_of(branch: u32) -> Vec<u8> {
    format!("branch {branch}").into_bytes()
}

/// Compares with what was said, and gives back the branches that are prepared now.
fn check(engine: &Arc<Engine>, tree: &TreeHandle, ledger: &SharedLedger) -> BTreeMap<u32, Txn> {
    let number = |name: &[u8]| text(name).rsplit(' ').next().unwrap().parse().unwrap();
    let found: BTreeMap<u32, Txn> =
        engine.take_prepared().into_iter().map(|(name, txn)| (number(&name), txn)).collect();
    let mut reader = rr(engine);
    for branch in 0..BRANCHES {
        let said = ledger.lock().said.get(&branch).copied().unwrap_or(Said::Nothing);
        let prepared = found.contains_key(&branch);
        let done = rows(&mut reader, tree, branch) == expected(true);
        assert!(done || rows(&mut reader, tree, branch) == expected(false), "branch {branch} is half done");
        let possible = match said {
            Said::Nothing => !prepared && !done,
            Said::MaybePrepared | Said::RolledBack => !done,
            Said::Prepared => prepared && !done,
            Said::MaybeCommitted => prepared != done,
            Said::Committed => !prepared && done,
        };
        assert!(possible, "branch {branch}: {said:?}, but prepared {prepared}, done {done}");
        let free = (0..4).map(|n| is_free(engine, tree, branch * KEYS + n, X));
        assert!(
            free.into_iter().all(|free| free != prepared),
            "branch {branch}: locks as prepared {prepared}"
        );
        say(
            ledger,
            branch,
            match (prepared, done) {
                (true, _) => Said::Prepared,
                (false, true) => Said::Committed,
                (false, false) => Said::Nothing,
            },
        );
    }
    found
}

fn decide(ledger: &SharedLedger, branch: u32, txn: &mut Txn) {
    if one_in(2) {
        say(ledger, branch, Said::MaybeCommitted);
        txn.commit().expect("commit");
        say(ledger, branch, Said::Committed);
    } else {
        say(ledger, branch, Said::RolledBack);
        txn.rollback().expect("rollback");
    }
}

fn life(disk: &Disk, seed: u64, syncs: Option<u64>, ledger: &SharedLedger) -> Outcome<()> {
    sim::run(Options::new(seed).with_disk(disk), || {
        if let Some(syncs) = syncs {
            sim::crash_after_syncs(syncs);
        }
        let engine = Engine::open(config()).expect("open");
        let tree = match engine.trees().unwrap().first() {
            Some((id, _)) => engine.tree(*id).unwrap(),
            None => {
                let mut txn = rr(&engine);
                let id = engine.create_tree(&mut txn, b"rows").unwrap();
                let tree = engine.tree(id).unwrap();
                for n in (0..BRANCHES * KEYS).filter(|n| n % KEYS < 6 && n % KEYS != 3) {
                    let row = if n % KEYS == 0 { format!("old {}", "p".repeat(9000)) } else { "old".into() };
                    txn.insert(&tree, &k(n), row.as_bytes(), OnDuplicate::LockShared).unwrap();
                }
                txn.commit().unwrap();
                tree
            }
        };
        let mut open = check(&engine, &tree, ledger);
        for _ in 0..30 {
            let branch = (rand::u64() % u64::from(BRANCHES)) as u32;
            let said = ledger.lock().said.get(&branch).copied().unwrap_or(Said::Nothing);
            if let Some(mut txn) = open.remove(&branch) {
                decide(ledger, branch, &mut txn);
            } else if matches!(said, Said::Nothing | Said::RolledBack) && one_in(2) {
                let mut txn = rr(&engine);
                work(&mut txn, &tree, branch);
                say(ledger, branch, Said::MaybePrepared);
                txn.prepare(&name_of(branch)).expect("prepare");
                say(ledger, branch, Said::Prepared);
                open.insert(branch, txn);
            }
            if one_in(9) {
                engine.checkpoint().expect("checkpoint");
            }
        }
        drop(open);
        engine.shutdown().expect("shutdown");
    })
}

struct OnPanic(u64);

impl Drop for OnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failing seed: KEEL_SEED={}", self.0);
        }
    }
}

#[test]
fn no_crash_decides_about_a_prepared_transaction() {
    for seed in seeds(40) {
        let _say = OnPanic(seed);
        let disk = Disk::new(seed);
        let ledger = SharedLedger::default();
        for turn in 0..5u64 {
            let syncs =
                1 + (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(turn as u32 * 12) >> 32) % 60;
            if life(&disk, seed * 8 + turn, Some(syncs), &ledger) == Outcome::Crashed {
                disk.crash(seed * 8 + turn);
            }
        }
        assert_eq!(life(&disk, seed * 8 + 6, None, &ledger), Outcome::Done(()));
        assert_eq!(life(&disk, seed * 8 + 7, None, &ledger), Outcome::Done(()));
    }
}

#[test]
fn a_crash_at_every_sync_decides_about_nothing() {
    for syncs in 1.. {
        let _say = OnPanic(syncs);
        let disk = Disk::new(syncs);
        let ledger = SharedLedger::default();
        let ended = life(&disk, 11, Some(syncs), &ledger);
        if ended == Outcome::Crashed {
            disk.crash(syncs);
        }
        // Once more where the first crash left off, then to the end.
        if life(&disk, 12, Some(1 + syncs % 17), &ledger) == Outcome::Crashed {
            disk.crash(syncs + 1);
        }
        assert_eq!(life(&disk, 13, None, &ledger), Outcome::Done(()), "after a crash at sync {syncs}");
        if ended != Outcome::Crashed {
            return;
        }
    }
}

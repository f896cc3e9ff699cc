//! Transactions that lock all they read are serializable: their results are those of running them one after the other
//! in the order of their commits. Random transactions under many schedules, each replayed on a plain map.
//! Plain readers beside them see the rows as of the durable end of the log when they began, again and again.
//! KEEL_SEEDS says how many schedules, or which; KEEL_SEED tries one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::*;
use keel_runtime::{fiber, rand};
use keel_storage::{
    Engine, EngineConfig, Error, Insert, LockMode, OnDuplicate, Read, Result, ScanRange, TreeHandle, Txn,
    TxnOptions, Wait,
};
use parking_lot::Mutex;

/// Few keys, so that transactions meet.
const KEYS: u32 = 12;
/// Values of the unique index, fewer still.
const VALUES: u32 = 4;

type Rows = Vec<(u32, String)>;

/// A row without its padding.
fn short(row: &str) -> String {
    row.trim_end_matches('r').into()
}

fn short_rows(rows: Vec<(u32, String)>) -> Vec<(u32, String)> {
    rows.into_iter().map(|(n, row)| (n, short(&row))).collect()
}

/// What a transaction did and what it was told; rows without their padding.
#[derive(Debug, Clone, PartialEq)]
enum Event {
    Get(u32, Option<String>),
    Scan(u32, u32, Vec<(u32, String)>),
    Insert(u32, String, bool),
    Update(u32, String, bool),
    Delete(u32, bool),
    /// A unique value for a row; whether it was free.
    Claim(u32, u32, bool),
    /// The claim of a row taken back; whether there was one.
    Unclaim(u32, u32, bool),
}

#[derive(Default, Clone)]
struct Model {
    rows: BTreeMap<u32, String>,
    claims: BTreeMap<u32, u32>,
}

impl Model {
    /// Does what `event` did; gives what it would have been told.
    fn apply(&mut self, event: &Event) -> Event {
        match event.clone() {
            Event::Get(n, _) => Event::Get(n, self.rows.get(&n).cloned()),
            Event::Scan(low, high, _) => Event::Scan(
                low,
                high,
                self.rows.range(low..=high).map(|(n, row)| (*n, row.clone())).collect(),
            ),
            Event::Insert(n, row, _) => {
                let done = !self.rows.contains_key(&n);
                self.rows.entry(n).or_insert(row.clone());
                Event::Insert(n, row, done)
            }
            Event::Update(n, row, _) => {
                let done = self.rows.get_mut(&n).map(|old| *old = row.clone()).is_some();
                Event::Update(n, row, done)
            }
            Event::Delete(n, _) => Event::Delete(n, self.rows.remove(&n).is_some()),
            Event::Claim(value, n, _) => {
                let done = !self.claims.contains_key(&value);
                self.claims.entry(value).or_insert(n);
                Event::Claim(value, n, done)
            }
            Event::Unclaim(value, n, _) => {
                let done = self.claims.get(&value) == Some(&n);
                if done {
                    self.claims.remove(&value);
                }
                Event::Unclaim(value, n, done)
            }
        }
    }
}

/// A transaction that committed.
struct Done {
    /// The end of the log at its commit; those that wrote nothing come after the writer that ended there.
    at: (u64, bool),
    events: Vec<Event>,
}

struct Shop {
    engine: Arc<Engine>,
    rows: TreeHandle,
    claims: TreeHandle,
    /// Waits end by locks being given or by deadlocks being found, and by nothing else.
    patient: bool,
    committed: Mutex<Vec<Done>>,
    /// Durable ends of the log, and the rows that a snapshot taken then saw.
    seen: Mutex<Vec<(u64, Rows)>>,
}

fn pick(n: u32) -> u32 {
    (rand::u64() % u64::from(n)) as u32
}

fn some_lock() -> Read {
    let mode = if pick(2) == 0 { LockMode::Shared } else { LockMode::Exclusive };
    Read::Lock(mode, Wait::Default)
}

impl Shop {
    fn event(&self, txn: &mut Txn) -> Result<Event> {
        let n = pick(KEYS);
        let row = || format!("{}{}", rand::u64() % 1000, "r".repeat(pick(3) as usize * 700));
        let missing_is_false = |result: Result<()>| match result {
            Ok(()) => Ok(true),
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(error),
        };
        Ok(match pick(9) {
            0 => Event::Get(n, txn.get(&self.rows, &k(n), some_lock(), text)?.as_deref().map(short)),
            1 | 2 => {
                let (low, high) = (n, (n + pick(6)).min(KEYS));
                let (from, to) = (k(low), k(high));
                let reverse = pick(2) == 0;
                let range = ScanRange { lower: Bound::Included(&from), upper: Bound::Included(&to), reverse };
                let mut rows = scan_range(txn, &self.rows, range, some_lock())?;
                if reverse {
                    rows.reverse();
                }
                Event::Scan(low, high, short_rows(rows))
            }
            3 | 4 => {
                let row = row();
                let done = insert(txn, &self.rows, n, &row)? == Insert::Done;
                Event::Insert(n, short(&row), done)
            }
            5 => {
                let row = row();
                let done = missing_is_false(txn.update(&self.rows, &k(n), row.as_bytes()))?;
                Event::Update(n, short(&row), done)
            }
            6 => Event::Delete(n, missing_is_false(txn.delete(&self.rows, &k(n)))?),
            7 => {
                let value = pick(VALUES);
                let key = [k(value), k(n)].concat();
                // Padded, so that dead entries of one value fill leaves.
                let row = vec![b'c'; 2500];
                let one = OnDuplicate::LockShared;
                let done = txn.insert_unique(&self.claims, &key, 4, &row, one, &mut Vec::new())?;
                Event::Claim(value, n, done == Insert::Done)
            }
            _ => {
                let value = pick(VALUES);
                let key = [k(value), k(n)].concat();
                Event::Unclaim(value, n, missing_is_false(txn.delete(&self.claims, &key))?)
            }
        })
    }

    fn transaction(&self) -> Result<()> {
        let timeout = (!self.patient).then(|| Duration::from_millis(u64::from(pick(50)) + 1));
        let mut txn = self.engine.begin(TxnOptions { lock_wait_timeout: timeout, ..TxnOptions::default() });
        let mut events = Vec::new();
        for _ in 0..1 + pick(5) {
            let savepoint = txn.savepoint();
            let event = self.event(&mut txn)?;
            // What was undone has been seen all the same: reads stay, writes that took place go.
            if pick(6) == 0 {
                txn.rollback_to(savepoint)?;
            } else {
                events.push(event);
            }
            match pick(3) {
                0 => fiber::yield_now(),
                1 => fiber::sleep(Duration::from_micros(u64::from(pick(300)))),
                _ => {}
            }
        }
        if pick(8) == 0 {
            return txn.rollback();
        }
        let reader_at = self.engine.status().store.lsn;
        let wrote = txn.rows_changed() != 0;
        let end = txn.commit()?.0;
        let at = if wrote { (end, false) } else { (reader_at, true) };
        self.committed.lock().push(Done { at, events });
        Ok(())
    }
}

impl Shop {
    /// Reads the same snapshot several times in several ways.
    fn read(&self) {
        let mut txn = rr(&self.engine);
        txn.take_snapshot();
        let at = self.engine.status().store.durable_lsn;
        let mut first = None;
        for turn in 0..4 {
            let range = ScanRange { reverse: turn % 2 == 1, ..ScanRange::ALL };
            let mut rows = scan_range(&mut txn, &self.rows, range, Read::Snapshot).unwrap();
            if range.reverse {
                rows.reverse();
            }
            let rows = short_rows(rows);
            let n = pick(KEYS);
            let one = get(&mut txn, &self.rows, n).as_deref().map(short);
            assert_eq!(one.as_ref(), rows.iter().find(|(m, _)| *m == n).map(|(_, row)| row));
            assert_eq!(first.get_or_insert_with(|| rows.clone()), &rows, "a snapshot changed");
            fiber::sleep(Duration::from_micros(u64::from(pick(2000))));
        }
        self.seen.lock().push((at, first.unwrap_or_default()));
    }
}

fn try_schedule(seed: u64) {
    // Every second world folds locks as soon as there are a few.
    let row_locks_max = if seed.is_multiple_of(2) { 1 + seed as usize / 2 % 4 } else { 8 << 10 };
    world_of(EngineConfig { row_locks_max, ..config() }, seed, |engine| {
        let (rows, claims) = (new_tree(engine), new_tree(engine));
        let shop = Arc::new(Shop {
            engine: engine.clone(),
            rows,
            claims,
            patient: seed.is_multiple_of(3),
            committed: Mutex::default(),
            seen: Mutex::default(),
        });
        let clients = 2 + pick(6) as usize;
        let left = Arc::new(AtomicUsize::new(clients + 1));
        let (reader, reader_left) = (shop.clone(), left.clone());
        fiber::spawn(move || {
            (0..8).for_each(|_| reader.read());
            reader_left.fetch_sub(1, Ordering::SeqCst);
        });
        for _ in 0..clients {
            let (shop, left) = (shop.clone(), left.clone());
            fiber::spawn(move || {
                for _ in 0..15 {
                    match shop.transaction() {
                        Ok(()) | Err(Error::Deadlock) => {}
                        Err(Error::LockWaitTimeout) if !shop.patient => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        while left.load(Ordering::SeqCst) != 0 {
            fiber::sleep(Duration::from_millis(1));
        }
        assert_eq!(engine.locks(10).len(), 0, "locks are left behind");
        replay(&shop);
    });
}

fn replay(shop: &Shop) {
    let mut committed = std::mem::take(&mut *shop.committed.lock());
    committed.sort_by_key(|done| done.at);
    let mut seen = std::mem::take(&mut *shop.seen.lock());
    seen.sort_by_key(|(at, _)| *at);
    let mut seen = seen.into_iter().peekable();
    let mut model = Model::default();
    for Done { at, events } in &committed {
        while let Some((seen_at, rows)) = seen.next_if(|(seen_at, _)| *seen_at < at.0) {
            assert_eq!(rows, model.rows.clone().into_iter().collect::<Vec<_>>(), "snapshot at {seen_at}");
        }
        for event in events {
            assert_eq!(&model.apply(event), event, "the transaction that committed at {at:?}: {events:?}");
        }
    }
    let mut txn = rr(&shop.engine);
    let left = short_rows(scan_range(&mut txn, &shop.rows, ScanRange::ALL, Read::Snapshot).unwrap());
    assert_eq!(left, model.rows.into_iter().collect::<Vec<_>>());
    let mut claims = Vec::new();
    let mut scan = txn.scan(&shop.claims, ScanRange::ALL, Read::Snapshot).unwrap();
    while let Some((key, _)) = scan.next(&mut txn).unwrap() {
        claims.push(key.to_vec());
    }
    let expected: Vec<_> = model.claims.iter().map(|(value, n)| [k(*value), k(*n)].concat()).collect();
    assert_eq!(claims, expected);
}

#[test]
fn locking_transactions_are_serializable_in_commit_order() {
    for seed in seeds(150) {
        if std::panic::catch_unwind(|| try_schedule(seed)).is_err() {
            panic!("failing seed: KEEL_SEED={seed}");
        }
    }
}

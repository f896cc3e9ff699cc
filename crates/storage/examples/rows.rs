//! What one row costs: nanoseconds of one worker for each kind of statement on a tree that fits the pool.
//! `cargo run --release -p keel-storage --example rows [rows] [part of a statement's name]`

use std::ops::Bound;
use std::sync::Arc;

use keel_runtime::{Config, Runtime, time};
use keel_storage::{
    Change, Durability, Engine, EngineConfig, OnDuplicate, Read, ScanRange, TreeHandle, TxnOptions,
};

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// A cheap walk over `0..rows` in no order.
fn spread(n: u64, rows: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % rows
}

fn measure(what: &str, count: u64, mut f: impl FnMut(u64)) {
    if std::env::args().nth(2).is_some_and(|part| !what.contains(&part) && !what.contains("1000")) {
        return;
    }
    let began = time::now();
    (0..count).for_each(&mut f);
    let nanos = time::now().since(began).as_nanos() as u64;
    println!("{what:<34}{:>8} ns", nanos / count);
}

fn fill(engine: &Arc<Engine>, rows: u64) -> TreeHandle {
    let mut txn = engine.begin(TxnOptions::default());
    let id = engine.create_tree(&mut txn, b"rows").unwrap();
    txn.commit().unwrap();
    let tree = engine.tree(id).unwrap();
    measure("insert in order, 1000 a commit", rows, |n| {
        txn.insert(&tree, &key(n), &[b'r'; 200], OnDuplicate::LockShared).unwrap();
        if n % 1000 == 999 {
            txn.commit().unwrap();
        }
    });
    txn.commit().unwrap();
    tree
}

fn reads(engine: &Arc<Engine>, tree: &TreeHandle, rows: u64) {
    measure("point read, autocommit", 1_000_000, |n| {
        let mut txn = engine.begin(TxnOptions::default());
        txn.start_statement();
        txn.get(tree, &key(spread(n, rows)), Read::Snapshot, |row| assert_eq!(row.len(), 200))
            .unwrap()
            .unwrap();
        txn.commit().unwrap();
    });
    let mut txn = engine.begin(TxnOptions::default());
    measure("point read in a transaction", 1_000_000, |n| {
        txn.get(tree, &key(spread(n, rows)), Read::Snapshot, |row| assert_eq!(row.len(), 200))
            .unwrap()
            .unwrap();
    });
    measure("scan of 100 rows", 20_000, |n| {
        let first = spread(n, rows - 100);
        let (low, high) = (key(first), key(first + 99));
        let range = ScanRange { lower: Bound::Included(&low), upper: Bound::Included(&high), reverse: false };
        let mut scan = txn.scan(tree, range, Read::Snapshot).unwrap();
        let mut count = 0;
        while let Some((_, row)) = scan.next(&mut txn).unwrap() {
            count += row.len() / 200;
        }
        assert_eq!(count, 100);
    });
}

fn writes(engine: &Arc<Engine>, tree: &TreeHandle, rows: u64) {
    measure("update, autocommit, not durable", 500_000, |n| {
        let mut txn = engine.begin(TxnOptions::default());
        txn.start_statement();
        txn.update_by(tree, &key(spread(n, rows)), |old, new| -> Result<Change, ()> {
            new.extend_from_slice(old);
            new[40..48].copy_from_slice(&n.to_le_bytes());
            Ok(Change::Update)
        })
        .unwrap()
        .unwrap();
        txn.commit().unwrap();
    });
    measure("delete and insert, not durable", 200_000, |n| {
        let mut txn = engine.begin(TxnOptions::default());
        let key = key(spread(n, rows));
        txn.delete(tree, &key).unwrap();
        txn.insert(tree, &key, &[b's'; 200], OnDuplicate::LockShared).unwrap();
        txn.commit().unwrap();
    });
    measure("locking read, commit", 200_000, |n| {
        let mut txn = engine.begin(TxnOptions::default());
        txn.get(tree, &key(spread(n, rows)), Read::FOR_UPDATE, |row| assert_eq!(row.len(), 200))
            .unwrap()
            .unwrap();
        txn.commit().unwrap();
    });
}

fn main() {
    let rows = std::env::args().nth(1).and_then(|rows| rows.parse().ok()).unwrap_or(100_000);
    let dir = std::env::temp_dir().join(format!("keel-rows-{}", std::process::id()));
    let runtime = Runtime::start(Config { workers: 1, ..Config::default() }).expect("runtime");
    let data = dir.clone();
    runtime.block_on(move || {
        let mut config = EngineConfig::new(&data).durability(Durability::Lazy);
        config.store.pool_bytes = 256 << 20;
        let engine = Engine::open(config).expect("open");
        let tree = fill(&engine, rows);
        reads(&engine, &tree, rows);
        writes(&engine, &tree, rows);
        let status = engine.status();
        println!(
            "history {}, undo pages {}, log {} bytes",
            status.history_len, status.undo_pages, status.store.log_bytes
        );
        engine.shutdown().expect("shutdown");
    });
    runtime.shutdown();
    std::fs::remove_dir_all(&dir).expect("remove");
}

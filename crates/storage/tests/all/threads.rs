//! The engine on real worker threads and real files: transfers between accounts from many fibers at once, a reader that
//! adds up all the time, and a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::*;
use keel_runtime::{Config, Runtime, fiber, rand, time};
use keel_storage::{Engine, EngineConfig, Error, Isolation, Read, Result, ScanRange, TreeHandle};

const ACCOUNTS: u32 = 2000;

fn sum(engine: &Arc<Engine>, tree: &TreeHandle) -> (i64, usize) {
    let rows = scan_range(&mut rr(engine), tree, ScanRange::ALL, Read::Snapshot).unwrap();
    (rows.iter().map(|(_, row)| row.trim().parse::<i64>().unwrap()).sum(), rows.len())
}

fn transfer(engine: &Arc<Engine>, tree: &TreeHandle, spare: u32) -> Result<()> {
    let level = if one_in(2) { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
    let mut txn = begin(engine, level);
    let hot = if one_in(4) { 4 } else { ACCOUNTS };
    let (from, to) = ((rand::u64() % u64::from(hot)) as u32, (rand::u64() % u64::from(ACCOUNTS)) as u32);
    if from == to {
        return Ok(());
    }
    add(&mut txn, tree, from, -7)?;
    add(&mut txn, tree, to, 7)?;
    // A row that comes and goes, so that purge has work beside.
    put(&mut txn, tree, spare, "0");
    txn.delete(tree, &k(spare))?;
    match rand::u64() % 8 {
        0 => txn.rollback(),
        _ => txn.commit().map(|_| ()),
    }
}

#[test]
fn money_is_neither_made_nor_lost_on_many_threads() {
    let dir = std::env::temp_dir().join(format!("keel-threads-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let config = {
        let mut config = EngineConfig::new(&dir);
        config.store.pool_bytes = 8 << 20;
        config.store.segment_bytes = 4 << 20;
        config.store.redo_capacity_bytes = 16 << 20;
        config.lock_wait_timeout = Duration::from_secs(20);
        config
    };
    let runtime = Runtime::start(Config { workers: 3, ..Config::default() }).unwrap();
    let config_again = config.clone();
    let id = runtime.block_on(move || {
        let engine = Engine::open(config).unwrap();
        let tree = new_tree(&engine);
        let mut txn = rr(&engine);
        (0..ACCOUNTS).for_each(|n| put(&mut txn, &tree, n, &format!("{:100}", 100)));
        txn.commit().unwrap();
        let left = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU64::new(0));
        let began = time::now();
        for client in 0..48usize {
            let (engine, tree, left, stop, done) =
                (engine.clone(), tree.clone(), left.clone(), stop.clone(), done.clone());
            left.fetch_add(1, Ordering::SeqCst);
            fiber::spawn_on(client % 3, move || {
                while !stop.load(Ordering::Relaxed) {
                    if client % 16 == 0 {
                        assert_eq!(sum(&engine, &tree), (i64::from(ACCOUNTS) * 100, ACCOUNTS as usize));
                        continue;
                    }
                    match transfer(&engine, &tree, 1_000_000 + client as u32) {
                        Ok(()) => _ = done.fetch_add(1, Ordering::Relaxed),
                        Err(Error::Deadlock) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        while time::now().since(began) < Duration::from_secs(3) {
            fiber::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::SeqCst);
        while left.load(Ordering::SeqCst) != 0 {
            assert!(
                time::now().since(began) < Duration::from_secs(60),
                "a client hangs: {:?}",
                engine.locks(20)
            );
            fiber::sleep(Duration::from_millis(10));
        }
        assert!(done.load(Ordering::SeqCst) > 100);
        while engine.status().history_len != 0 {
            assert!(time::now().since(began) < Duration::from_secs(90), "{:?}", engine.status());
            fiber::sleep(Duration::from_millis(10));
        }
        assert_eq!(sum(&engine, &tree), (i64::from(ACCOUNTS) * 100, ACCOUNTS as usize));
        assert_eq!((engine.locks(10).len(), engine.status().trx_active), (0, 0));
        assert_eq!(engine.check_tree(&tree).unwrap(), Vec::<String>::new());
        engine.shutdown().unwrap();
        tree.id()
    });
    runtime.block_on(move || {
        let engine = Engine::open(config_again).unwrap();
        let tree = engine.tree(id).unwrap();
        assert_eq!(sum(&engine, &tree), (i64::from(ACCOUNTS) * 100, ACCOUNTS as usize));
        engine.shutdown().unwrap();
    });
    runtime.shutdown();
    std::fs::remove_dir_all(&dir).unwrap();
}

//! Measures the physical store on this machine: lookups in memory and beyond it, durable commits.
//!
//! `cargo run --release -p keel-storage --example store_bench -- FOLDER [ROWS] [POOL_MIB]`; the folder must be new.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

use keel_base::TreeId;
use keel_runtime::sync::WaitQueue;
use keel_runtime::time::{self, Instant};
use keel_runtime::wait::WaitEvent;
use keel_runtime::{Config, Runtime, fiber, rand};
use keel_storage::store::{Need, Store, StoreConfig};
use keel_storage::tree::{NoRoom, Tree};

const ROW: usize = 200;

fn key(n: u64) -> [u8; 8] {
    (n | 1 << 63).to_be_bytes()
}

fn put(store: &Store, tree: &Tree, n: u64, row: &[u8]) -> u64 {
    let key = key(n);
    loop {
        {
            let mtr = store.begin().expect("open");
            let mut leaf = tree.leaf_for_write(&mtr, &key).expect("readable");
            let done = match leaf.search(&key) {
                Ok(slot) => leaf.replace(slot, row),
                Err(slot) => leaf.insert(slot, &key, row),
            };
            if done != Err(NoRoom) {
                return mtr.commit().0;
            }
        }
        tree.split_for(&key, key.len() + row.len(), Need::New).expect("splits");
    }
}

/// CPU time of this process.
fn cpu() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is ours and large enough.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let part = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    part(usage.ru_utime) + part(usage.ru_stime)
}

/// Runs `f(fiber, i)` on `fibers` fibers, together `count` times; prints time and CPU per call.
fn measure(what: &str, fibers: u64, count: u64, f: impl Fn(u64) + Send + Sync + 'static) {
    let f = Arc::new(f);
    let left = Arc::new(AtomicU64::new(fibers));
    let done = Arc::new(WaitQueue::default());
    let worst = Arc::new(AtomicU64::new(0));
    let waits = keel_runtime::wait::totals();
    let (start, cpu_start) = (time::now(), cpu());
    for n in 0..fibers {
        let (f, left, done, worst) = (f.clone(), left.clone(), done.clone(), worst.clone());
        fiber::spawn_on(n as usize % keel_runtime::worker_count(), move || {
            for i in 0..count / fibers {
                let at: Instant = time::now();
                f(n * (count / fibers) + i);
                worst.fetch_max(at.elapsed().as_nanos() as u64, Relaxed);
                if fibers > 1 {
                    fiber::tick();
                }
            }
            left.fetch_sub(1, SeqCst);
            done.wake_all();
        });
    }
    done.wait_while(WaitEvent::Queue, || left.load(SeqCst) > 0);
    let (wall, cpu) = (start.elapsed(), cpu() - cpu_start);
    let per = |d: Duration| d.as_nanos() as f64 / count as f64 / 1000.0;
    println!(
        "{what:44} {:10.0}/s {:8.2} us wall {:8.2} us cpu, worst {:.1} ms",
        count as f64 / wall.as_secs_f64(),
        per(wall),
        per(cpu),
        worst.load(Relaxed) as f64 / 1e6
    );
    for (before, after) in waits.iter().zip(keel_runtime::wait::totals()) {
        let (count, nanos) = (after.count - before.count, after.nanos - before.nanos);
        if count > 0 && after.event != WaitEvent::Idle {
            println!(
                "    {:12} {count:8} times, {:8.1} us each",
                after.event.name(),
                nanos as f64 / 1e3 / count as f64
            );
        }
    }
}

fn run(config: StoreConfig, rows: u64) {
    let store = Store::open(config, &mut |_| {}).expect("the store opens");
    let tree = store.create_tree(TreeId(1)).expect("created");
    let get = move |tree: &Tree| {
        let key = key(rand::u64() % rows);
        let leaf = tree.leaf_for_read(&key).expect("readable");
        let slot = leaf.search(&key).expect("there");
        assert_eq!(leaf.value(slot).len(), ROW);
    };
    let (s, t) = (store.clone(), tree.clone());
    measure("ascending inserts, 1 fiber", 1, rows, move |n| _ = put(&s, &t, n, &[n as u8; ROW]));
    println!("pages {} of {}", tree.page_count(), store.status().pages_total);
    let t = tree.clone();
    measure("lookups, 1 fiber", 1, 200_000.min(rows * 2), move |_| get(&t));
    let t = tree.clone();
    measure("lookups, 64 fibers", 64, 400_000.min(rows * 2), move |_| get(&t));
    for fibers in [1, 16, 128] {
        let (s, t) = (store.clone(), tree.clone());
        measure(&format!("durable updates, {fibers} fibers"), fibers, 500 * fibers.min(16), move |n| {
            let mut row = [7; ROW];
            row[100..108].copy_from_slice(&n.to_be_bytes());
            let end = put(&s, &t, rand::u64() % rows, &row);
            s.wait_durable(keel_base::Lsn(end)).expect("durable");
        });
    }
    let (s, t) = (store.clone(), tree.clone());
    measure("updates, not waited for, 64 fibers", 64, 400_000, move |n| {
        _ = put(&s, &t, rand::u64() % rows, &[n as u8; ROW])
    });
    println!("{:?}", store.status());
    let start = time::now();
    store.shutdown().expect("clean");
    println!("shutdown {:?}", start.elapsed());
}

fn main() {
    let mut args = std::env::args().skip(1);
    let folder = args.next().expect("a folder");
    let rows = args.next().map_or(200_000, |s| s.parse().expect("a number"));
    let pool = args.next().map_or(256, |s| s.parse().expect("a number"));
    let config = StoreConfig { pool_bytes: pool << 20, ..StoreConfig::new(folder) };
    let runtime = Runtime::start(Config::default()).expect("the runtime starts");
    println!("reactor {}", runtime.reactor_name());
    runtime.block_on(move || run(config, rows));
    runtime.shutdown();
}

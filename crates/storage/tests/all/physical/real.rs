//! The same store on a real disk, with real workers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};

use keel_runtime::sync::WaitQueue;
use keel_runtime::wait::WaitEvent;
use keel_runtime::{Config, Runtime, fiber};
use keel_storage::store::{StoreConfig, StoreStatus};

use super::support::*;

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("keel-{name}-{}", std::process::id()));
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left behind if it cannot be removed; the system's temporary folder is cleaned by others.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn write_with_fibers(config: StoreConfig) -> (Model, StoreStatus) {
    let store = open(config);
    let tree = store.create_tree(TREE).expect("created");
    let left = Arc::new(AtomicUsize::new(16));
    let done = Arc::new(WaitQueue::default());
    let models: Arc<parking_lot::Mutex<Model>> = Arc::default();
    for owner in 0..16usize {
        let (store, tree, left, done, models) =
            (store.clone(), tree.clone(), left.clone(), done.clone(), models.clone());
        fiber::spawn_on(owner % keel_runtime::worker_count(), move || {
            let mut model = Model::new();
            for n in 0..500u64 {
                let key = [(below(4000) * 16 + owner as u64).to_be_bytes().as_slice(), b"k"].concat();
                let op = Op::Put(key, bytes(n as usize % 700));
                let end = op.run(&store, &tree).expect("done");
                op.model(&mut model);
                if n % 20 == 0 {
                    store.wait_durable(keel_base::Lsn(end)).expect("durable");
                }
            }
            models.lock().append(&mut model);
            left.fetch_sub(1, SeqCst);
            done.wake_all();
        });
    }
    done.wait_while(WaitEvent::Queue, || left.load(SeqCst) > 0);
    let model = std::mem::take(&mut *models.lock());
    check(&tree, &model);
    let status = store.status();
    store.shutdown().expect("clean");
    (model, status)
}

#[test]
fn two_workers_write_and_a_second_start_finds_all() {
    let folder = Folder::new("storage");
    let runtime = Runtime::start(Config { workers: 2, ..Config::default() }).expect("the runtime starts");
    let config = StoreConfig { dir: folder.0.clone(), ..tiny() };
    let again = config.clone();
    let (model, status) = runtime.block_on(move || write_with_fibers(config));
    assert!(status.evictions > 0, "the pool was never too small");
    assert!(status.log_writes > 0 && status.writes > 0);
    runtime.block_on(move || {
        let store = open(again);
        check(&store.tree(TREE).expect("there"), &model);
        store.shutdown().expect("clean");
    });
    runtime.shutdown();
}

//! Purge frees long values, and no crash meanwhile loses pages to the file: each is part of the tree, named by the undo log, or
//! free. KEEL_SEEDS set: a crash at every sync instead of every fifth.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use keel_runtime::fiber;
use keel_runtime::sim::{self, Disk, Options, Outcome};
use keel_storage::inspect::{Finding, Folder, History, Leaf, Limits, Report, Severity, Visitor, tree};
use keel_storage::{Engine, TreeHandle};
use parking_lot::Mutex;

const ROWS: u32 = 24;

struct Nobody;

impl Visitor for Nobody {
    fn leaf(&self, _: &Leaf, _: i64) {}
}

/// Damage and lost pages in the folder on the disk.
fn findings(disk: &Disk) -> Vec<String> {
    sim::run(Options::new(9).with_disk(disk), || {
        let found = Arc::new(Mutex::new(Vec::new()));
        let kept = found.clone();
        let report = Arc::new(Report::new(move |f: &Finding| {
            // Notes of these kinds say that there was a crash.
            if f.severity == Severity::Damage || !["log", "log-gap", "torn"].contains(&f.kind) {
                kept.lock().push(format!("{} {} {:?}: {}", f.kind, f.file, f.page, f.text));
            }
        }));
        let folder = Folder::open(Path::new("/data"), Limits::new("/tmp".into()), &report).expect("a folder");
        let history = Arc::new(History::read(&folder, &report));
        let folder = Arc::new(folder);
        for id in folder.trees() {
            tree::pass(&folder, &history, &report, id, Arc::new(Nobody), &Arc::default());
        }
        found.lock().clone()
    })
    .done()
}

fn long(n: u32) -> String {
    format!("{n} ").repeat(6000 * (1 + n as usize % 5))
}

/// Long values that were replaced, deleted, and deleted and replaced, none of them purged when the world ends.
fn leave_history(disk: &Disk) {
    let outcome: Outcome<()> = sim::run(Options::new(1).with_disk(disk), || {
        let engine = Engine::open(config()).expect("open");
        let tree = new_tree(&engine);
        let mut txn = rr(&engine);
        (0..ROWS).for_each(|n| put(&mut txn, &tree, n, &long(n)));
        txn.commit().unwrap();
        let mut reader = rr(&engine);
        reader.take_snapshot();
        for n in 0..ROWS {
            match n % 4 {
                0 => set(&mut txn, &tree, n, "short").unwrap(),
                1 => set(&mut txn, &tree, n, &long(n + 1)).unwrap(),
                2 => del(&mut txn, &tree, n).unwrap(),
                _ => {
                    del(&mut txn, &tree, n).unwrap();
                    txn.commit().unwrap();
                    put(&mut txn, &tree, n, "again");
                }
            }
            txn.commit().unwrap();
        }
        new_tree(&engine);
        // The next life has to read every page that it frees, and others commit meanwhile.
        engine.checkpoint().unwrap();
        sim::crash_now()
    });
    assert_eq!(outcome, Outcome::Crashed);
}

fn trees(engine: &Arc<Engine>) -> Vec<TreeHandle> {
    let ids = engine.trees().unwrap();
    ids.iter().map(|(id, _)| engine.tree(*id).unwrap()).collect()
}

/// Waits until nothing is left to purge, while others commit, so that the log is synced again and again.
fn purge_under_commits(engine: &Arc<Engine>) {
    let other = trees(engine).pop().expect("a second tree");
    let mut n = 0;
    while n < 60 || engine.status().history_len > 2 {
        assert!(n < 20_000, "history {} is not purged", engine.status().history_len);
        let mut txn = rr(engine);
        let _ = insert(&mut txn, &other, n, "tick").unwrap();
        txn.commit().unwrap();
        n += 1;
    }
}

#[test]
fn a_crash_while_long_values_are_freed_loses_none_of_their_pages() {
    let step = if std::env::var("KEEL_SEEDS").is_ok() { 1 } else { 5 };
    let mut crashes = 0;
    for syncs in (1..).step_by(step) {
        let disk = Disk::new(syncs);
        leave_history(&disk);
        assert_eq!(findings(&disk), [""; 0], "{syncs}: before");
        let outcome = sim::run(Options::new(2 + syncs).with_disk(&disk), || {
            sim::crash_after_syncs(syncs);
            let engine = Engine::open(config()).expect("open");
            purge_under_commits(&engine);
            sim::crash_after_syncs(0);
            engine.shutdown().expect("shutdown");
        });
        let crashed = outcome == Outcome::Crashed;
        if crashed {
            disk.crash(syncs);
            crashes += 1;
            assert_eq!(findings(&disk), [""; 0], "{syncs}: after the crash");
        }
        sim::run(Options::new(3).with_disk(&disk), || {
            let engine = Engine::open(config()).expect("open");
            while engine.status().history_len != 0 {
                fiber::sleep(Duration::from_millis(20));
            }
            fiber::sleep(Duration::from_secs(1));
            let mut reader = rr(&engine);
            let tree = &trees(&engine)[0];
            assert_eq!(get(&mut reader, tree, 1), Some(long(2)), "{syncs}");
            assert_eq!(keys(&mut reader, tree).len() as u32, ROWS - ROWS / 4, "{syncs}");
            reader.commit().unwrap();
            engine.shutdown().expect("shutdown");
        })
        .done();
        assert_eq!(findings(&disk), [""; 0], "{syncs}: in the end");
        if !crashed {
            break;
        }
    }
    assert!(crashes > 10, "{crashes} crashes");
}

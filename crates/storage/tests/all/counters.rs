//! Counters behind crashes: what an entry ever counted does not come again, and nothing is left out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use keel_runtime::sim::{self, Disk, Options, Outcome};
use keel_runtime::{fiber, rand};
use keel_storage::{CountOf, Engine, TreeHandle};
use parking_lot::Mutex;

/// The keys of these tests count what they are.
fn count_of(key: &[u8]) -> u64 {
    u64::from(u32::from_be_bytes(*key.first_chunk().expect("four bytes")))
}

/// Inserts `count` more entries and commits them, or not.
fn insert_more(engine: &Arc<Engine>, tree: &TreeHandle, last: &mut u32, count: u32, commit: bool) {
    let mut txn = rr(engine);
    for _ in 0..count {
        *last += 1;
        engine.raise_counter(tree, u64::from(*last)).unwrap();
        put(&mut txn, tree, *last, &"row".repeat(1 + rand::u64() as usize % 300));
    }
    match commit {
        true => drop(txn.commit().unwrap()),
        false => txn.rollback().unwrap(),
    }
}

#[test]
fn a_counter_goes_on_behind_a_crash_where_its_last_entry_was() {
    for seed in seeds(20) {
        let disk = Disk::new(seed);
        let last = Mutex::new(0);
        for life in 0..4 {
            let outcome: Outcome<()> = sim::run(Options::new(seed * 10 + life).with_disk(&disk), || {
                let engine = Engine::open(config()).unwrap();
                let tree = match engine.trees().unwrap().first() {
                    Some((id, _)) => engine.tree(*id).unwrap(),
                    None => new_tree(&engine),
                };
                let mut first = rr(&engine);
                insert(&mut first, &tree, 0, "first").unwrap();
                first.commit().unwrap();
                let mut last = last.lock();
                let found = engine.counter(&tree, Some(&count_of)).unwrap();
                assert_eq!(found, u64::from(*last), "seed {seed}, life {life}");
                let mut there: BTreeSet<u32> = keys(&mut rr(&engine), &tree).into_iter().skip(1).collect();
                for _ in 0..40 {
                    let count = 1 + rand::u64() as u32 % 60;
                    match rand::u64() % 5 {
                        0 | 1 => {
                            there.extend(*last + 1..=*last + count);
                            insert_more(&engine, &tree, &mut last, count, true);
                        }
                        2 => insert_more(&engine, &tree, &mut last, count, false),
                        // From the end mostly, as what counts matters there.
                        3 => {
                            let mut txn = rr(&engine);
                            for _ in 0..count {
                                let Some(key) = there.pop_last() else { break };
                                del(&mut txn, &tree, key).unwrap();
                            }
                            txn.commit().unwrap();
                        }
                        _ => fiber::sleep(Duration::from_millis(500)),
                    }
                }
                // What is not committed is undone by the next life.
                let mut open = rr(&engine);
                if one_in(2) {
                    *last += 1;
                    engine.raise_counter(&tree, u64::from(*last)).unwrap();
                    put(&mut open, &tree, *last, "open");
                }
                // All before is as durable as this.
                set(&mut first, &tree, 0, "again").unwrap();
                first.commit().unwrap();
                drop(last);
                sim::crash_now()
            });
            assert_eq!(outcome, Outcome::Crashed, "seed {seed}, life {life}");
            disk.crash(seed * 10 + life);
        }
    }
}

#[test]
fn a_counter_that_was_kept_needs_no_entry_and_one_that_is_not_understood_goes_further() {
    let disk = Disk::new(1);
    let killed: Outcome<()> = sim::run(Options::new(1).with_disk(&disk), || {
        let engine = Engine::open(config()).unwrap();
        let tree = new_tree(&engine);
        engine.raise_counter(&tree, 5).unwrap();
        put(&mut rr(&engine), &tree, 5, "rolled back");
        engine.keep_counter(&tree, 70).unwrap();
        engine.raise_counter(&tree, 72).unwrap();
        let mut txn = rr(&engine);
        put(&mut txn, &tree, 71, "there");
        txn.commit().unwrap();
        sim::crash_now()
    });
    assert_eq!(killed, Outcome::Crashed);
    let in_next_life = |count_of: Option<fn(&[u8]) -> u64>| {
        let found = Mutex::new(0);
        let outcome: Outcome<()> = sim::run(Options::new(2).with_disk(&disk), || {
            let engine = Engine::open(config()).unwrap();
            let tree = engine.tree(engine.trees().unwrap()[0].0).unwrap();
            *found.lock() = engine.counter(&tree, count_of.as_ref().map(|f| f as CountOf<'_>)).unwrap();
            sim::crash_now()
        });
        assert_eq!(outcome, Outcome::Crashed);
        found.into_inner()
    };
    assert_eq!(in_next_life(Some(count_of)), 71);
    assert_eq!(in_next_life(Some(|_| 3)), 70);
    assert!((72..1100).contains(&in_next_life(None)));
}

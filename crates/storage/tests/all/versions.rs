//! Old snapshots: what they see stays, and finding it takes few steps however often rows change meanwhile.
//! KEEL_SEEDS says how many worlds, or which; KEEL_SEED tries one.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::*;
use keel_runtime::sim::{self, Disk, Options};
use keel_runtime::{fiber, rand, time};
use keel_storage::{Durability, Engine, Read, Savepoint, ScanRange, TreeHandle, Txn};
use parking_lot::Mutex;

type Rows = BTreeMap<u32, String>;

/// Undo records read by `f`.
fn steps<T>(engine: &Arc<Engine>, f: impl FnOnce() -> T) -> (T, u64) {
    let before = engine.status().versions_read;
    let result = f();
    (result, engine.status().versions_read - before)
}

/// Reads a row in a transaction's snapshot; undo records read for it.
fn steps_of_get(engine: &Arc<Engine>, reader: &mut Txn, tree: &TreeHandle, n: u32) -> (Option<String>, u64) {
    steps(engine, || {
        let row = get(reader, tree, n);
        // What a transaction counted is told when it ends; a savepoint that begins anew would end the snapshot.
        reader.report_counts();
        row
    })
}

fn rows_of(reader: &mut Txn, tree: &TreeHandle) -> Rows {
    reader.start_statement();
    scan_range(reader, tree, ScanRange::ALL, Read::Snapshot).unwrap().into_iter().collect()
}

/// Long enough for a snapshot to count as old.
fn grow_old() {
    fiber::sleep(Duration::from_secs(1));
}

#[test]
fn an_old_snapshot_finds_a_row_that_changed_a_thousand_times_in_few_steps() {
    with_rows(&[1, 2, 3], |engine, tree| {
        let mut first = rr(engine);
        first.take_snapshot();
        grow_old();
        let mut writer = rr(engine);
        let mut second = rr(engine);
        for round in 0..1000 {
            set(&mut writer, tree, 1, &format!("{round} {}", "x".repeat(round % 50))).unwrap();
            if round % 2 == 0 {
                del(&mut writer, tree, 2).unwrap();
            } else {
                put(&mut writer, tree, 2, &round.to_string());
            }
            writer.commit().unwrap();
            if round == 500 {
                second.take_snapshot();
                grow_old();
            }
        }
        for n in 1..=2 {
            let (row, steps) = steps_of_get(engine, &mut first, tree, n);
            assert_eq!(row.as_deref(), Some(n.to_string().as_str()));
            assert!(steps < 16, "{steps} steps to the oldest version of row {n}");
        }
        let (row, steps) = steps_of_get(engine, &mut second, tree, 1);
        assert_eq!(row, Some(format!("500 {}", "x".repeat(0))));
        assert!(steps < 8, "{steps} steps to the version between");
        assert_eq!(get(&mut second, tree, 2), None);
        assert_eq!(get(&mut rr(engine), tree, 2).as_deref(), Some("999"));
    });
}

#[test]
fn snapshots_that_come_and_go_do_not_make_the_way_longer() {
    with_rows(&[1], |engine, tree| {
        let mut old = rr(engine);
        old.take_snapshot();
        let mut writer = rr(engine);
        let mut passing: Vec<Txn> = Vec::new();
        for round in 0..3000 {
            set(&mut writer, tree, 1, &format!("{round}")).unwrap();
            writer.commit().unwrap();
            if round % 20 == 0 {
                let mut reader = rr(engine);
                reader.take_snapshot();
                passing.push(reader);
                fiber::sleep(Duration::from_millis(20));
            }
            if passing.len() > 10 {
                passing.remove(rand::u64() as usize % 10);
            }
        }
        let (row, steps) = steps_of_get(engine, &mut old, tree, 1);
        assert_eq!(row.as_deref(), Some("1"));
        assert!(steps <= 64, "{steps} steps past 11 readers");
        drop(passing);
    });
}

#[test]
fn a_row_that_one_transaction_changes_often_is_one_step_for_others() {
    with_rows(&[1], |engine, tree| {
        let mut writer = rr(engine);
        for round in 0..1000 {
            set(&mut writer, tree, 1, &format!("{round}")).unwrap();
        }
        put(&mut writer, tree, 2, "new");
        (0..100).for_each(|round| set(&mut writer, tree, 2, &format!("{round}")).unwrap());
        let mut reader = rr(engine);
        let (row, steps) = steps_of_get(engine, &mut reader, tree, 1);
        assert_eq!(row.as_deref(), Some("1"));
        assert!(steps <= 3, "{steps} steps");
        let (row, steps) = steps_of_get(engine, &mut reader, tree, 2);
        assert_eq!(row, None);
        assert!(steps <= 3, "{steps} steps to where no row was");
        writer.rollback().unwrap();
        assert_eq!(get(&mut reader, tree, 1).as_deref(), Some("1"));
    });
}

#[test]
fn commits_that_are_not_durable_yet_do_not_make_the_way_longer() {
    with_rows(&[1], |engine, tree| {
        let mut old = rr(engine);
        old.take_snapshot();
        grow_old();
        let running = Arc::new(AtomicUsize::new(12));
        for _ in 0..12 {
            let (engine, tree, running) = (engine.clone(), tree.clone(), running.clone());
            fiber::spawn(move || {
                let mut writer = rr(&engine);
                for _ in 0..200 {
                    writer.start_statement();
                    add(&mut writer, &tree, 1, 1).unwrap();
                    writer.commit().unwrap();
                }
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        while running.load(Ordering::SeqCst) != 0 {
            fiber::sleep(Duration::from_millis(1));
        }
        let (row, steps) = steps_of_get(engine, &mut old, tree, 1);
        assert_eq!(row.as_deref(), Some("1"));
        assert!(steps <= 64, "{steps} steps past 2400 changes");
    });
}

/// Puts a row and deletes it, each in a transaction.
fn come_and_go(engine: &Arc<Engine>, tree: &TreeHandle, n: u32, row: &str) {
    let mut txn = rr(engine);
    put(&mut txn, tree, n, row);
    txn.commit().unwrap();
    del(&mut txn, tree, n).unwrap();
    txn.commit().unwrap();
}

/// Whether an entry is there, deleted or not.
fn is_there(engine: &Arc<Engine>, tree: &TreeHandle, n: u32) -> bool {
    let key = k(n);
    let range = ScanRange { lower: Bound::Included(&key), upper: Bound::Included(&key), ..ScanRange::ALL };
    engine.row_estimate(tree, range).unwrap() != 0
}

#[test]
fn what_came_and_went_does_not_stay_for_an_old_reader() {
    with_rows(&[1, 2], |engine, tree| {
        let mut old = rr(engine);
        old.take_snapshot();
        let mut writer = rr(engine);
        for n in [1, 2] {
            del(&mut writer, tree, n).unwrap();
        }
        writer.commit().unwrap();
        for _ in 0..3 {
            come_and_go(engine, tree, 1, "back");
            come_and_go(engine, tree, 4, "a row of nobody");
        }
        put(&mut writer, tree, 3, "3");
        writer.commit().unwrap();
        let mut middle = rr(engine);
        middle.take_snapshot();
        del(&mut writer, tree, 3).unwrap();
        writer.commit().unwrap();
        come_and_go(engine, tree, 3, "again");
        come_and_go(engine, tree, 5, &"long".repeat(100_000));
        (10..2000).for_each(|n| come_and_go(engine, tree, n, "queued"));
        fiber::sleep(Duration::from_secs(4));
        assert!(engine.status().history_len > 2000, "purge went past a snapshot");
        let left: Vec<u32> = (1..2000).filter(|n| is_there(engine, tree, *n)).collect();
        assert_eq!(left, [1, 2, 3, 5], "needed by the old reader, by the middle one, and long");
        assert_eq!(rows_of(&mut old, tree), Rows::from([(1, "1".into()), (2, "2".into())]));
        assert_eq!(rows_of(&mut middle, tree), Rows::from([(3, "3".into())]));
        // The next go as they come, and what only the old reader needs as soon as it ends.
        (2000..3000).for_each(|n| come_and_go(engine, tree, n, "queued"));
        old.commit().unwrap();
        fiber::sleep(Duration::from_secs(2));
        let left: Vec<u32> = (1..3000).filter(|n| is_there(engine, tree, *n)).collect();
        assert_eq!(left, [3, 5]);
        middle.commit().unwrap();
        fiber::sleep(Duration::from_secs(2));
        assert_eq!(engine.status().history_len, 0);
        assert!(!(1..3000).any(|n| is_there(engine, tree, n)));
        assert_eq!(engine.check_tree(tree).unwrap(), Vec::<String>::new());
    });
}

#[test]
fn a_reader_that_the_ring_of_transactions_has_outrun_keeps_what_it_sees_and_no_more() {
    with_rows(&[1], |engine, tree| {
        let mut old = rr(engine);
        let mut writer = rr(engine);
        put(&mut writer, tree, 2, "not committed yet");
        old.take_snapshot();
        writer.commit().unwrap();
        for n in [1, 2] {
            del(&mut writer, tree, n).unwrap();
        }
        writer.commit().unwrap();
        // So many that they end before purge goes ahead, to find that nobody remembers when the first of them ended.
        engine.set_durability(Durability::Lazy).unwrap();
        let began = time::now();
        for round in 0..80_000 {
            come_and_go(engine, tree, 10 + round, "queued");
        }
        assert!(began.elapsed() < Duration::from_secs(1));
        fiber::sleep(Duration::from_secs(3));
        let left: Vec<u32> = (1..80_010).filter(|n| is_there(engine, tree, *n)).collect();
        assert_eq!(left, [1]);
        assert_eq!(rows_of(&mut old, tree), Rows::from([(1, "1".into())]));
    });
}

/// A writer and what it has changed and not committed.
struct Writer {
    txn: Txn,
    pending: BTreeMap<u32, Option<String>>,
    savepoint: Option<(Savepoint, BTreeMap<u32, Option<String>>)>,
}

/// What rows a world has.
#[derive(Clone, Copy)]
struct Shape {
    /// Their number at most.
    rows: u32,
    /// How long they may be.
    lengths: &'static [usize],
    /// Changes in a turn.
    changes: u32,
    /// Whether they are entries of an index, which are settled where a leaf is full.
    of_index: bool,
}

const FEW_ROWS: Shape = Shape { rows: 6, lengths: &[3, 40, 300, 3000, 6000], changes: 1, of_index: false };
const FULL_LEAVES: Shape = Shape { rows: 1200, lengths: &[0, 1, 6, 6, 120], changes: 40, of_index: true };

fn random(n: u64) -> u64 {
    rand::u64() % n
}

fn random_row(shape: Shape, round: u32) -> String {
    let len = shape.lengths[random(shape.lengths.len() as u64) as usize];
    format!("{round} {}", "abcdef".repeat(len / 6))
}

impl Writer {
    fn change(&mut self, shape: Shape, tree: &TreeHandle, committed: &Rows, n: u32, round: u32) {
        let now = self.pending.get(&n).cloned().unwrap_or_else(|| committed.get(&n).cloned());
        let new = match (now.is_some(), random(4)) {
            (true, 0) => {
                del(&mut self.txn, tree, n).unwrap();
                None
            }
            (there, _) => {
                let row = random_row(shape, round);
                self.txn.start_statement();
                if there {
                    set(&mut self.txn, tree, n, &row).unwrap()
                } else {
                    put(&mut self.txn, tree, n, &row)
                }
                Some(row)
            }
        };
        self.pending.insert(n, new);
    }

    fn end(&mut self, committed: &mut Rows) {
        let pending = std::mem::take(&mut self.pending);
        self.savepoint = None;
        if one_in(4) {
            return self.txn.rollback().unwrap();
        }
        self.txn.commit().unwrap();
        for (n, row) in pending {
            match row {
                Some(row) => committed.insert(n, row),
                None => committed.remove(&n),
            };
        }
    }
}

/// Writers that never meet, one after the other; readers that hold snapshots of all ages; a map for each.
fn one_world(engine: &Arc<Engine>, shape: Shape) {
    let tree = new_tree(engine);
    if shape.of_index {
        tree.set_auxiliary();
    }
    let mut committed = Rows::new();
    let mut writers: Vec<Writer> =
        (0..4).map(|_| Writer { txn: rr(engine), pending: BTreeMap::new(), savepoint: None }).collect();
    let mut readers: Vec<(Txn, Rows)> = Vec::new();
    for round in 0..400 {
        let turn = random(4) as usize;
        match random(12) {
            0 if readers.len() < 8 => {
                let mut reader = rr(engine);
                reader.take_snapshot();
                readers.push((reader, committed.clone()));
            }
            1 if !readers.is_empty() => drop(readers.swap_remove(random(readers.len() as u64) as usize)),
            // Now and then long enough for purge to go ahead of the oldest.
            2 => fiber::sleep(Duration::from_millis(if one_in(4) { 1500 } else { random(60) })),
            3 => writers[turn].end(&mut committed),
            4 => {
                writers[turn].savepoint = Some((writers[turn].txn.savepoint(), writers[turn].pending.clone()))
            }
            5 => {
                if let Some((savepoint, pending)) = writers[turn].savepoint.take() {
                    writers[turn].txn.rollback_to(savepoint).unwrap();
                    // Locks stay, and so does who may write the row.
                    let kept = std::mem::take(&mut writers[turn].pending).into_keys();
                    let before =
                        |n: u32| pending.get(&n).cloned().unwrap_or_else(|| committed.get(&n).cloned());
                    writers[turn].pending = kept.map(|n| (n, before(n))).collect();
                }
            }
            _ => {
                for _ in 0..shape.changes {
                    let n = random(u64::from(shape.rows)) as u32;
                    let free =
                        writers.iter().enumerate().all(|(i, w)| i == turn || !w.pending.contains_key(&n));
                    if free {
                        writers[turn].change(shape, &tree, &committed, n, round);
                    }
                }
            }
        }
        if let Some((reader, rows)) = readers.last_mut().filter(|_| one_in(4)) {
            let n = random(u64::from(shape.rows)) as u32;
            assert_eq!(get(reader, &tree, n).as_ref(), rows.get(&n), "row {n} in round {round}");
        }
        if one_in(16) {
            for (reader, rows) in &mut readers {
                assert_eq!(&rows_of(reader, &tree), rows, "in round {round}");
            }
        }
    }
    readers.clear();
    writers.iter_mut().for_each(|writer| writer.end(&mut committed));
    assert_eq!(rows_of(&mut rr(engine), &tree), committed);
    let limit = keel_runtime::time::now() + Duration::from_secs(60);
    while engine.status().history_len != 0 {
        assert!(keel_runtime::time::now() < limit, "history is not purged");
        fiber::sleep(Duration::from_millis(50));
    }
    fiber::sleep(Duration::from_secs(1));
    assert_eq!(rows_of(&mut rr(engine), &tree), committed);
    for n in (0..shape.rows).filter(|n| !committed.contains_key(n)) {
        assert_eq!(engine.peek(&tree, &k(n)).unwrap(), None, "entry {n}, deleted, is left");
    }
    assert_eq!(engine.check_tree(&tree).unwrap(), Vec::<String>::new());
}

#[test]
fn every_snapshot_sees_its_rows_as_long_as_it_lives() {
    for seed in seeds(60) {
        let result = std::panic::catch_unwind(|| world(seed, |engine| one_world(engine, FEW_ROWS)));
        assert!(result.is_ok(), "failed with KEEL_SEED={seed}");
    }
}

#[test]
fn every_snapshot_sees_its_entries_while_leaves_are_settled() {
    for seed in seeds(20) {
        let result = std::panic::catch_unwind(|| world(seed, |engine| one_world(engine, FULL_LEAVES)));
        assert!(result.is_ok(), "failed with KEEL_SEED={seed}");
    }
}

/// Pages in use of a tree of entries without values, which committed one by one in no order.
fn leaves_of_entries(engine: &Arc<Engine>, of_index: bool) -> u64 {
    let tree = new_tree(engine);
    if of_index {
        tree.set_auxiliary();
    }
    let mut txn = rr(engine);
    for n in 0..20_000u32 {
        put(&mut txn, &tree, n.wrapping_mul(0x9e37_79b1), "");
        if n % 10 == 0 {
            txn.commit().unwrap();
            txn = rr(engine);
        }
    }
    txn.commit().unwrap();
    assert_eq!(keys(&mut rr(engine), &tree).len(), 20_000);
    engine.tree_pages(&tree)
}

#[test]
fn entries_that_all_see_take_less_room() {
    world(1, |engine| {
        let (rows, entries) = (leaves_of_entries(engine, false), leaves_of_entries(engine, true));
        assert!(entries * 10 < rows * 7, "{entries} pages of entries, {rows} of rows");
    });
}

/// What committed, in the order of commits: the LSN and the rows written.
type Journal = Arc<Mutex<Vec<(u64, Vec<(u32, Option<String>)>)>>>;

fn crowd_writer(engine: &Arc<Engine>, tree: &TreeHandle, journal: &Journal) {
    let mut txn = rr(engine);
    for round in 0..40 {
        let mut rows: BTreeMap<u32, Option<String>> = BTreeMap::new();
        // In the order of keys, so that nobody is a victim.
        let mut picked: Vec<u32> = (0..3).map(|_| random(4) as u32).collect();
        picked.sort_unstable();
        for n in picked {
            txn.start_statement();
            let row = format!("{round} {}", random(1 << 40));
            if one_in(5) {
                rows.insert(n, del(&mut txn, tree, n).ok().map(|()| None).unwrap_or(None));
            } else if set(&mut txn, tree, n, &row).is_ok()
                || insert(&mut txn, tree, n, &row).is_ok_and(|done| done == keel_storage::Insert::Done)
            {
                rows.insert(n, Some(row));
            }
        }
        if one_in(6) {
            txn.rollback().unwrap();
        } else {
            let lsn = txn.commit().unwrap();
            journal.lock().push((lsn.0, rows.into_iter().collect()));
        }
        if one_in(4) {
            fiber::sleep(Duration::from_micros(random(3000)));
        }
    }
}

/// A snapshot at a known place in the order of commits.
fn snapshot_at(engine: &Arc<Engine>) -> (Txn, u64) {
    loop {
        let before = engine.status().store.durable_lsn;
        let mut reader = rr(engine);
        reader.take_snapshot();
        if engine.status().store.durable_lsn == before {
            return (reader, before);
        }
    }
}

fn crowd(engine: &Arc<Engine>) {
    let tree = new_tree(engine);
    let journal = Journal::default();
    let running = Arc::new(AtomicUsize::new(8));
    for _ in 0..8 {
        let (engine, tree, journal, running) =
            (engine.clone(), tree.clone(), journal.clone(), running.clone());
        fiber::spawn(move || {
            crowd_writer(&engine, &tree, &journal);
            running.fetch_sub(1, Ordering::SeqCst);
        });
    }
    let mut readers: Vec<(Txn, u64)> = Vec::new();
    let mut seen: Vec<(u64, Rows)> = Vec::new();
    while running.load(Ordering::SeqCst) != 0 {
        if readers.len() < 12 && one_in(3) {
            readers.push(snapshot_at(engine));
        }
        if readers.len() > 3 && one_in(6) {
            readers.swap_remove(random(readers.len() as u64) as usize);
        }
        for (reader, csn) in readers.iter_mut().filter(|_| one_in(3)) {
            seen.push((*csn, rows_of(reader, &tree)));
        }
        fiber::sleep(Duration::from_micros(random(20_000)));
    }
    for (reader, csn) in &mut readers {
        seen.push((*csn, rows_of(reader, &tree)));
    }
    let mut commits = std::mem::take(&mut *journal.lock());
    commits.sort();
    for (csn, rows) in seen {
        let mut expected = Rows::new();
        for (_, written) in commits.iter().take_while(|(lsn, _)| *lsn <= csn) {
            for (n, row) in written {
                match row {
                    Some(row) => expected.insert(*n, row.clone()),
                    None => expected.remove(n),
                };
            }
        }
        assert_eq!(rows, expected, "as of {csn}");
    }
}

#[test]
fn snapshots_beside_a_crowd_of_writers_see_a_prefix_of_the_commits() {
    for seed in seeds(25) {
        let result = std::panic::catch_unwind(|| world(seed, crowd));
        assert!(result.is_ok(), "failed with KEEL_SEED={seed}");
    }
}

/// A bank of rows whose undo fills many pages while a reader is old; gives how long the undo file was then.
fn grow_undo(engine: &Arc<Engine>, tree: &TreeHandle) -> u64 {
    let mut old = rr(engine);
    old.take_snapshot();
    let mut writer = rr(engine);
    for round in 0..2500 {
        let row = format!("{round} {}", ["x", "y"][round % 2].repeat(3500));
        (1..=3).for_each(|n| set(&mut writer, tree, n, &row).unwrap());
        writer.commit().unwrap();
    }
    engine.status().undo_file_pages
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let limit = keel_runtime::time::now() + Duration::from_secs(120);
    while !done() {
        assert!(keel_runtime::time::now() < limit, "{what}");
        fiber::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_undo_file_is_short_again_after_a_long_reader() {
    with_rows(&[1, 2, 3], |engine, tree| {
        let peak = grow_undo(engine, tree);
        assert!(peak > 1500, "only {peak} pages: too short to be cut");
        let short = || engine.status().undo_file_pages <= 1024;
        wait_until("the undo file stays long", short);
        assert!(engine.status().undo_pages <= 64);
        let again = grow_undo(engine, tree);
        assert!(again > 1500);
        wait_until("the undo file stays long the second time", short);
        assert!(get(&mut rr(engine), tree, 3).unwrap().starts_with("2499 "));
    });
}

#[test]
fn a_crash_around_the_cut_of_the_undo_file_loses_nothing() {
    for seed in seeds(3) {
        let disk = Disk::new(seed);
        let mut grown = false;
        let first = sim::run(Options::new(seed).with_disk(&disk), || {
            let engine = Engine::open(config()).unwrap();
            let tree = new_tree(&engine);
            let mut writer = rr(&engine);
            (1..=3).for_each(|n| put(&mut writer, &tree, n, "first"));
            writer.commit().unwrap();
            grow_undo(&engine, &tree);
            let long = engine.status().undo_file_pages;
            wait_until("the undo file stays long", || engine.status().undo_file_pages < long);
            grown = true;
            set(&mut writer, &tree, 1, "unfinished").unwrap();
            // Undo that lies where the cut was, and a crash at some moment of it.
            let mut second = rr(&engine);
            let rounds = random(400);
            for _ in 0..rounds {
                set(&mut second, &tree, 2, &random_row(FEW_ROWS, 1)).unwrap();
            }
            set(&mut second, &tree, 2, "second").unwrap();
            second.commit().unwrap();
            fiber::sleep(Duration::from_millis(random(3000)));
            sim::crash_now()
        });
        let _: sim::Outcome<()> = first;
        assert!(grown, "seed {seed}");
        disk.crash(seed);
        sim::run(Options::new(seed + 1000).with_disk(&disk), || {
            let engine = Engine::open(config()).unwrap();
            let tree = engine.tree(engine.trees().unwrap()[0].0).unwrap();
            let mut reader = rr(&engine);
            assert!(get(&mut reader, &tree, 1).unwrap().starts_with("2499 "), "seed {seed}");
            assert_eq!(get(&mut reader, &tree, 2).as_deref(), Some("second"), "seed {seed}");
            reader.commit().unwrap();
            grow_undo(&engine, &tree);
            assert_eq!(engine.check_tree(&tree).unwrap(), Vec::<String>::new());
            engine.shutdown().unwrap();
        })
        .done();
    }
}

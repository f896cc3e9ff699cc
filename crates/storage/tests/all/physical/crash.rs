//! Crashes: after any of them the trees hold the state after some prefix of the operations, which includes every
//! operation whose log was reported durable.

use std::path::Path;
use std::sync::Arc;

use keel_runtime::fs::{File, OpenOptions, Sync};
use keel_runtime::sim::{self, Disk, Outcome};
use keel_storage::store::{Durability, Store, StoreConfig};
use parking_lot::Mutex;

use super::support::*;

/// What the world outside remembers of a run.
#[derive(Default)]
pub struct Progress {
    /// Operations issued, in order.
    issued: Vec<Op>,
    /// How many of them are known to be durable.
    durable: usize,
    created: bool,
}

const DURABILITIES: [Durability; 3] = [Durability::Commit, Durability::WriteEachCommit, Durability::Lazy];

/// Runs `count` random operations on top of `progress`, waiting for durability now and then.
pub fn work(config: StoreConfig, progress: &Mutex<Progress>, count: usize) {
    work_in(&open(config), progress, count);
}

/// As [`work`], in a store that is open.
pub fn work_in(store: &Store, progress: &Mutex<Progress>, count: usize) {
    let tree = match store.tree(TREE) {
        Some(tree) => tree,
        None => store.create_tree(TREE).expect("created"),
    };
    progress.lock().created = true;
    for _ in 0..count {
        let op = Op::random(300, if below(8) == 0 { 3000 } else { 200 });
        progress.lock().issued.push(op.clone());
        let issued = progress.lock().issued.len();
        let end = op.run(store, &tree).expect("done");
        if below(3) == 0 {
            store.wait_durable(keel_base::Lsn(end)).expect("durable");
            progress.lock().durable = issued;
        }
        // What commits wait for changes under way; only the strictest keeps what it has acknowledged.
        if below(30) == 0 {
            store.set_durability(DURABILITIES[below(3) as usize]);
        }
        if below(3) == 0 {
            let kept = store.durability() == Durability::Commit;
            store.wait_commit(keel_base::Lsn(end)).expect("acknowledged");
            if kept {
                progress.lock().durable = issued;
            }
        }
        if below(200) == 0 {
            store.checkpoint().expect("checkpoint");
            progress.lock().durable = issued;
        }
    }
    store.shutdown().expect("clean");
    let mut progress = progress.lock();
    progress.durable = progress.issued.len();
}

/// Reopens after a crash: some prefix, at least the durable one, is there. Forgets what was lost. Gives how many torn pages
/// were mended.
pub fn verify(progress: &mut Progress) -> u64 {
    let store = open(tiny());
    match store.tree(TREE) {
        None => assert!(!progress.created, "the tree is lost"),
        Some(tree) => {
            assert_eq!(tree.verify().expect("readable"), Vec::<String>::new());
            let found = contents(&tree).expect("readable");
            let mut model = Model::new();
            progress.issued[..progress.durable].iter().for_each(|op| op.model(&mut model));
            let mut kept = progress.durable;
            while model != found {
                let op = progress.issued.get(kept).unwrap_or_else(|| {
                    panic!("no prefix of {} from {} on fits", progress.issued.len(), progress.durable)
                });
                op.model(&mut model);
                kept += 1;
            }
            progress.issued.truncate(kept);
            progress.durable = kept;
        }
    }
    store.shutdown().expect("clean");
    store.recovered.mended
}

#[test]
fn a_crash_at_every_sync_keeps_what_was_durable() {
    let mut crash_at = 1;
    loop {
        let seed = 77;
        let disk = Disk::new(seed);
        let progress = Arc::new(Mutex::new(Progress::default()));
        let shared = progress.clone();
        let outcome = world(seed, &disk, move || {
            sim::crash_after_syncs(crash_at);
            work(tiny(), &shared, 150);
        });
        disk.crash(seed + crash_at);
        let after = progress.clone();
        world(seed, &disk, move || verify(&mut after.lock())).done();
        if outcome == Outcome::Done(()) {
            assert!(crash_at > 50, "only {crash_at} syncs: the script does not exercise crashes");
            return;
        }
        // Early syncs are those of creation; later ones are much alike.
        crash_at += if crash_at < 40 { 1 } else { 3 };
    }
}

/// One crash in three is a kill: what no sync has covered is still there, until a later crash takes it.
pub fn cut_power_or_kill(disk: &Disk, seed: u64) {
    if !seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20).is_multiple_of(3) {
        disk.crash(seed);
    }
}

/// Several lives on one disk, each ended by a crash at a random sync, recovery included.
fn many_lives(seed: u64) {
    let disk = Disk::new(seed);
    let progress = Arc::new(Mutex::new(Progress::default()));
    for life in 0..4u64 {
        let seed = seed * 1000 + life * 10;
        let shared = progress.clone();
        world(seed, &disk, move || {
            sim::crash_after_syncs(1 + below(150));
            work(tiny(), &shared, 250);
        });
        cut_power_or_kill(&disk, seed + 1);
        // Recovery itself crashes, too.
        world(seed + 2, &disk, move || {
            sim::crash_after_syncs(1 + below(6));
            open(tiny()).shutdown().expect("clean");
        });
        cut_power_or_kill(&disk, seed + 3);
        let after = progress.clone();
        world(seed + 4, &disk, move || verify(&mut after.lock())).done();
    }
}

const PAGE: usize = 16 << 10;
const FILE: &str = "/data/trees/t5.kt";

/// Grows a tree, durably by its log, up to a clean end or a kill right behind; gives what was done.
fn grow(disk: &Disk, killed: bool) -> Vec<Op> {
    let ops: Vec<Op> = (0..20u8).map(|n| Op::Put(vec![n], vec![n; 3000])).collect();
    let done = ops.clone();
    world(1, disk, move || {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        store.checkpoint().expect("checkpoint");
        let ends: Vec<u64> = done.iter().map(|op| op.run(&store, &tree).expect("done")).collect();
        store.wait_durable(keel_base::Lsn(ends[ends.len() - 1])).expect("durable");
        if killed {
            sim::crash_now();
        }
        store.shutdown().expect("clean");
    });
    ops
}

/// Page `number` of the tree's file.
fn page(disk: &Disk, number: usize) -> Vec<u8> {
    let mut bytes = disk.read(Path::new(FILE)).expect("there");
    bytes.resize(bytes.len().max((number + 1) * PAGE), 0);
    bytes[number * PAGE..(number + 1) * PAGE].to_vec()
}

/// The doublewrite file with one page of that tree, all of it.
fn batch_of(tree: u32, page: &[u8]) -> Vec<u8> {
    let mut behind_crc = Vec::new();
    let length = 24 + 12 + PAGE as u32;
    for word in [1, length, 1, tree] {
        behind_crc.extend_from_slice(&u32::to_le_bytes(word));
    }
    behind_crc.extend_from_slice(&page[4..8]);
    behind_crc.extend_from_slice(&u32::MAX.to_le_bytes());
    behind_crc.extend_from_slice(page);
    let mut bytes = b"KeelDblW".to_vec();
    bytes.extend_from_slice(&keel_base::checksum::crc32c(&behind_crc).to_le_bytes());
    bytes.extend_from_slice(&behind_crc);
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    bytes
}

/// A kill left the only copy of a page where no sync covers it, and the page itself was never written. The power goes while the
/// next start puts it in place, and takes what it may of both.
#[test]
fn copies_last_before_a_page_is_written_over_from_them() {
    let whole = Disk::new(1);
    grow(&whole, false);
    for (syncs, seed) in (1..=8).flat_map(|syncs| (0..8).map(move |seed| (syncs, seed))) {
        let disk = Disk::new(1);
        let issued = grow(&disk, true);
        let blank = |number: &usize| page(&disk, *number) == [0; PAGE] && page(&whole, *number) != [0; PAGE];
        let copy = page(&whole, (2..20).find(blank).expect("a page was not written in place"));
        world(2, &disk, move || {
            let file = File::open(Path::new("/data/doublewrite.kd"), &OpenOptions::writing()).expect("there");
            file.write_at(&batch_of(TREE.0, &copy), 0, Sync::None).expect("written");
        })
        .done();
        world(3, &disk, move || {
            sim::crash_after_syncs(syncs);
            open(tiny()).shutdown().expect("clean");
        });
        disk.crash(seed);
        let mut progress = Progress { durable: issued.len(), issued, created: true };
        world(seed, &disk, move || verify(&mut progress)).done();
    }
}

/// What lies in the place of a page does not matter where the log begins it anew: the start after a kill reads the pages that
/// there were at the checkpoint, and no other.
#[test]
fn pages_made_since_the_checkpoint_are_not_read() {
    let disk = Disk::new(1);
    let issued = grow(&disk, true);
    let (reads, creates) = world(2, &disk, || {
        let status = open(tiny()).status();
        (status.reads, status.creates)
    })
    .done();
    let leaves = issued.len() as u64 / (PAGE as u64 / 3000);
    assert!(creates >= leaves, "{creates} pages were begun anew");
    assert!(reads < leaves, "{reads} pages were read");
    let mut progress = Progress { durable: issued.len(), issued, created: true };
    world(3, &disk, move || verify(&mut progress)).done();
}

/// The power goes while a batch of changed pages is written in place; what was written may be torn anywhere.
#[test]
fn torn_pages_are_mended_from_what_was_to_change() {
    let mut mended = 0;
    for (seed, syncs) in (0..20u64).flat_map(|seed| (1..=4).map(move |syncs| (seed, syncs))) {
        let disk = Disk::new(seed);
        let progress = Arc::new(Mutex::new(Progress::default()));
        let shared = progress.clone();
        world(seed, &disk, move || {
            work(tiny(), &shared, 60);
            let store = open(tiny());
            let tree = store.tree(TREE).expect("there");
            let ops: Vec<Op> = (0..1 + below(20)).map(|_| Op::random(300, 100)).collect();
            let end = ops.iter().map(|op| op.run(&store, &tree).expect("done")).max().expect("some");
            store.wait_durable(keel_base::Lsn(end)).expect("durable");
            let mut progress = shared.lock();
            progress.issued.extend(ops);
            progress.durable = progress.issued.len();
            drop(progress);
            sim::crash_after_syncs(syncs);
            store.checkpoint().expect("checkpoint");
            store.shutdown().expect("clean");
        });
        disk.crash(seed * 10 + syncs);
        mended += world(seed, &disk, move || verify(&mut progress.lock())).done();
    }
    assert!(mended > 2, "only {mended} pages were torn in place");
}

#[test]
fn many_lives_on_one_disk_lose_nothing_durable() {
    seeds(12).for_each(many_lives);
}

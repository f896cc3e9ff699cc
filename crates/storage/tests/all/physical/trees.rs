//! Single promises of trees and the store.

use keel_base::TreeId;
use keel_runtime::sim::Disk;
use keel_storage::fault::StoreError;
use keel_storage::store::{Need, Store, UNDO_CAPACITY, UNDO_DIRECTORY};

use super::support::*;

fn in_world(f: impl FnOnce() + Send) {
    world(1, &Disk::new(1), f).done();
}

#[test]
fn long_values_survive_and_their_pages_are_used_again() {
    in_world(|| {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        let mut pages = 0;
        for round in 0..6 {
            let values: Vec<Vec<u8>> = [0, 1, 16_000, 16_320, 16_321, 200_000].map(bytes).into();
            let refs: Vec<_> = values.iter().map(|v| tree.write_overflow(v).expect("written")).collect();
            for (value, at) in values.iter().zip(&refs) {
                let mut out = b"head".to_vec();
                tree.read_overflow(*at, &mut out).expect("readable");
                assert_eq!(&out[4..], value);
            }
            for at in refs {
                tree.free_overflow(at).expect("freed");
            }
            if round == 1 {
                pages = tree.page_count();
            }
        }
        assert_eq!(tree.page_count(), pages, "freed pages are not used again");
        store.shutdown().expect("clean");
    });
}

#[test]
fn estimates_are_near_the_truth() {
    in_world(|| {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        let key = |n: u64| n.to_be_bytes().to_vec();
        for n in 0..5000 {
            Op::Put(key(n), vec![1; 100]).run(&store, &tree).expect("done");
        }
        let estimate =
            |a: u64, b: u64| tree.estimate_range(Some(&key(a)), Some(&key(b))).expect("readable") as f64;
        assert_eq!(estimate(10, 20), 10.0);
        for (a, b) in [(0, 5000), (1000, 4000), (2500, 2700)] {
            let truth = (b - a) as f64;
            assert!((estimate(a, b) - truth).abs() < truth * 0.3 + 60.0, "{a}..{b}: {}", estimate(a, b));
        }
        let all = tree.estimate_range(None, None).expect("readable") as f64;
        assert!((all - 5000.0).abs() < 1500.0, "{all}");
        assert_eq!(estimate(20, 10), 0.0);
        store.shutdown().expect("clean");
    });
}

#[test]
fn a_counter_is_exact_after_shutdown_and_never_lower_after_a_crash() {
    let disk = Disk::new(3);
    world(3, &disk, || {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        assert_eq!(tree.counter(None).expect("readable"), 0);
        tree.raise_counter(41).expect("raised");
        tree.raise_counter(7).expect("raised");
        assert_eq!(tree.counter(None).expect("readable"), 41);
        store.shutdown().expect("clean");
    })
    .done();
    world(4, &disk, || {
        let store = open(tiny());
        let tree = store.tree(TREE).expect("there");
        assert_eq!(tree.counter(None).expect("readable"), 41);
        tree.raise_counter(50).expect("raised");
        store.wait_durable(store.current_lsn()).expect("durable");
        keel_runtime::sim::crash_now();
    });
    disk.crash(9);
    world(5, &disk, || {
        let store = open(tiny());
        let counter = store.tree(TREE).expect("there").counter(None).expect("readable");
        assert!((50..=1050).contains(&counter), "{counter}");
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn a_dropped_tree_is_gone_and_its_redo_is_skipped() {
    let disk = Disk::new(2);
    world(2, &disk, || {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        let other = store.create_tree(TreeId(6)).expect("created");
        for n in 0..500u64 {
            Op::Put(n.to_be_bytes().to_vec(), vec![1; 200]).run(&store, &tree).expect("done");
            Op::Put(n.to_be_bytes().to_vec(), vec![1; 20]).run(&store, &other).expect("done");
        }
        store.wait_durable(store.current_lsn()).expect("durable");
        store.drop_tree(TREE).expect("dropped");
        assert!(store.tree(TREE).is_none());
        assert!(matches!(store.drop_tree(TREE), Err(StoreError::NoTree(5))));
        assert!(tree.leaf_for_read(b"x").is_err(), "a dropped tree still answers");
        keel_runtime::sim::crash_now();
    });
    disk.crash(1);
    world(3, &disk, || {
        let store = open(tiny());
        assert_eq!(store.tree_ids(), [TreeId(6)]);
        assert_eq!(contents(&store.tree(TreeId(6)).expect("there")).expect("readable").len(), 500);
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn undo_pages_keep_what_was_appended() {
    let disk = Disk::new(2);
    let pages = world(2, &disk, || {
        let store = open(tiny());
        let mut pages = Vec::new();
        for n in 0..100u8 {
            let spare = store.undo_reserve(Need::New).expect("room");
            let mtr = store.begin().expect("open");
            let (mut page, pin) = mtr.undo_alloc(spare).expect("room");
            assert_eq!((page.used(), page.room(), page.next()), (0, UNDO_CAPACITY, None));
            assert_eq!(page.append(&[n; 100]), 0);
            assert_eq!(page.append(&[n; 50]), 100);
            page.set_next(pages.last().copied());
            pages.push(page.page_no());
            mtr.commit();
            let mtr = store.begin().expect("open");
            mtr.undo_write(&pin).write(100, &[n + 1; 50]);
            mtr.commit();
        }
        let directory = store.undo_pin(UNDO_DIRECTORY).expect("there");
        let mtr = store.begin().expect("open");
        mtr.undo_write(&directory).append(b"heads");
        store.wait_durable(mtr.commit()).expect("durable");
        pages
    })
    .done();
    disk.crash(5);
    world(3, &disk, || {
        let store = open(tiny());
        for (n, page) in pages.iter().enumerate() {
            let page = store.undo_read(*page).expect("readable");
            assert_eq!(page.bytes(), [[n as u8; 100].as_slice(), &[n as u8 + 1; 50]].concat());
            assert_eq!(page.next(), n.checked_sub(1).map(|i| pages[i]));
        }
        assert_eq!(store.undo_read(UNDO_DIRECTORY).expect("readable").bytes(), b"heads");
        for page in &pages {
            store.undo_free(*page).expect("freed");
        }
        assert!(matches!(store.undo_free(pages[0]), Err(StoreError::Corrupt { .. })), "freed twice");
        let spare = store.undo_reserve(Need::New).expect("room");
        let mtr = store.begin().expect("open");
        let reused = mtr.undo_alloc(spare).expect("room").0.page_no();
        mtr.commit();
        assert!(pages.contains(&reused));
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn one_folder_serves_one_store() {
    in_world(|| {
        let store = open(tiny());
        let second = Store::open(tiny(), &mut |_| {});
        assert!(matches!(second, Err(StoreError::Unusable(_))));
        store.shutdown().expect("clean");
        drop(store);
        open(tiny()).shutdown().expect("clean");
    });
}

#[test]
fn user_records_since_the_checkpoint_come_back_in_order() {
    let disk = Disk::new(2);
    world(2, &disk, || {
        let store = open(tiny());
        for n in 0..200u32 {
            let mtr = store.begin().expect("open");
            mtr.user_record(7, &n.to_le_bytes());
            mtr.commit();
        }
        store.wait_durable(store.current_lsn()).expect("durable");
        keel_runtime::sim::crash_now();
    });
    disk.crash(1);
    world(3, &disk, || {
        let mut seen = Vec::new();
        let store = Store::open(tiny(), &mut |r| {
            assert_eq!(r.kind, 7);
            seen.push(u32::from_le_bytes(r.payload.try_into().expect("four bytes")));
        })
        .expect("the store opens");
        assert_eq!(seen, (0..200).collect::<Vec<u32>>());
        store.shutdown().expect("clean");
    })
    .done();
}

#[test]
fn too_large_an_entry_is_refused() {
    in_world(|| {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        assert!(matches!(tree.split_for(&[1; 4000], 4001, Need::New), Err(StoreError::TooLarge)));
        assert!(matches!(tree.split_for(b"k", 9000, Need::New), Err(StoreError::TooLarge)));
        let largest = Op::Put(vec![7; 3072], vec![8; 4096]);
        for n in 0..20u8 {
            let Op::Put(mut key, value) = largest.clone() else { unreachable!() };
            key[3071] = n;
            Op::Put(key, value).run(&store, &tree).expect("fits");
        }
        assert_eq!(tree.verify().expect("readable"), Vec::<String>::new());
        store.shutdown().expect("clean");
    });
}

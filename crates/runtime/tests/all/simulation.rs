//! The simulated world: same code, one seed.

use crate::common::Echo;
use keel_runtime::fs::{self, AlignedBuf, File, IoBatch, OpenOptions, Sync};
use keel_runtime::net::{self, Address, Stream, connect, listen, serve};
use keel_runtime::sim::{self, Disk, DiskOptions, Op, Options, Outcome};
use keel_runtime::sync::{Event, Mutex, channel};
use keel_runtime::wait::WaitEvent;
use keel_runtime::{fiber, rand, slot_count, time, wait, worker_count, worker_index};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn world<T: Send>(seed: u64, f: impl FnOnce() -> T + Send) -> T {
    sim::run(Options::new(seed), f).done()
}

/// The message of the panic that `f` ends in.
fn panic_of(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("must panic");
    *panic.downcast::<String>().expect("a message")
}

#[test]
fn time_is_virtual_and_jumps() {
    let real = std::time::Instant::now();
    world(1, || {
        let (start, calendar) = (time::now(), time::unix_micros());
        fiber::sleep(Duration::from_secs(3600));
        assert!((3600..3601).contains(&start.elapsed().as_secs()));
        assert!((3_600_000_000..3_601_000_000).contains(&(time::unix_micros() - calendar)));
        assert!(sim::in_simulation());
    });
    assert!(real.elapsed() < Duration::from_secs(60));
    assert!(!sim::in_simulation());
}

#[test]
fn workers_and_services_have_their_slots() {
    world(2, || {
        assert_eq!((worker_count(), worker_index()), (2, 0));
        let (sender, receiver) = channel(10);
        for n in 0..2 {
            let sender = sender.clone();
            fiber::spawn_on(n, move || sender.send((n, worker_index())).unwrap());
        }
        fiber::spawn_service("s", move || sender.send((99, worker_index())).unwrap());
        while let Some((asked, got)) = receiver.recv() {
            assert!(if asked == 99 { (worker_count()..slot_count()).contains(&got) } else { asked == got });
        }
    });
}

#[test]
fn a_deadlock_is_found_and_names_the_seed_and_the_waits() {
    let message = panic_of(|| {
        world(77, || {
            fiber::spawn(|| fiber::park(WaitEvent::RowLock));
            Event::new().wait(WaitEvent::MetadataLock);
        })
    });
    for part in ["seed 77", "deadlock", "row_lock", "metadata_lock"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_panic_of_any_fiber_ends_the_world() {
    let message = panic_of(|| {
        world(5, || {
            fiber::spawn(|| panic!("broken promise"));
            fiber::sleep(Duration::from_secs(1));
        })
    });
    assert!(message.contains("seed 5") && message.contains("broken promise"), "{message}");
}

/// Some of everything; the trace and what was seen.
fn busy_world() -> (u64, Vec<usize>, u64) {
    let address = Address::Tcp("10.0.0.1:3306".parse().unwrap());
    let echo = Arc::new(Echo::default());
    let server = serve(vec![listen(&address, 10).unwrap()], echo);
    let order = Arc::new(Mutex::new(Vec::new()));
    let (sender, receiver) = channel::<()>(1);
    for n in 0..8 {
        let (address, order, sender) = (address.clone(), order.clone(), sender.clone());
        fiber::spawn_on(n % 2, move || {
            let file = File::open(Path::new(&format!("/f{n}")), &OpenOptions::creating()).unwrap();
            file.write_at(&[n as u8; 5000], n as u64 * 100, Sync::Data).unwrap();
            let mut stream = connect(&address).unwrap();
            expect(&mut stream, "hello\n");
            stream.write_all(format!("line {n}\n").as_bytes()).unwrap();
            expect(&mut stream, &format!("line {n}\n"));
            order.lock().push(n);
            drop(sender);
        });
    }
    drop(sender);
    assert!(receiver.recv().is_none());
    server.close_all();
    while server.connections() > 0 {
        fiber::sleep(Duration::from_millis(1));
    }
    let order = order.lock().clone();
    (sim::trace_hash(), order, rand::u64())
}

fn expect(stream: &mut Stream, text: &str) {
    let mut bytes = vec![0; text.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, text.as_bytes());
}

#[test]
fn equal_seeds_give_equal_worlds_and_other_seeds_other_ones() {
    let worlds: Vec<_> = (0..12).map(|seed| world(seed, busy_world)).collect();
    for (seed, seen) in worlds.iter().enumerate() {
        assert_eq!(*seen, world(seed as u64, busy_world), "seed {seed}");
    }
    assert_eq!(worlds.iter().map(|w| w.0).collect::<BTreeSet<_>>().len(), 12);
    assert!(worlds.iter().map(|w| &w.1).collect::<BTreeSet<_>>().len() > 3, "always the same order");
}

#[test]
fn waits_of_a_world_are_its_own() {
    let total =
        |event| wait::totals().into_iter().find(|t| t.event == event).map(|t| (t.count, t.nanos)).unwrap();
    world(3, || {
        assert_eq!(total(WaitEvent::UserLock), (0, 0));
        assert!(!fiber::park_until(WaitEvent::UserLock, time::now() + Duration::from_secs(5)));
        let (count, nanos) = total(WaitEvent::UserLock);
        assert!(count == 1 && nanos >= 5_000_000_000);
    });
}

#[test]
fn files_behave_as_files() {
    world(4, || {
        let folder = Path::new("/data");
        let path = folder.join("a");
        assert_eq!(File::open(&path, &OpenOptions::creating()).err().unwrap().kind(), ErrorKind::NotFound);
        fs::create_dir_all(folder).unwrap();
        let file = File::open(&path, &OpenOptions::creating()).unwrap();
        file.write_at(b"hello", 4094, Sync::None).unwrap();
        assert_eq!(file.len().unwrap(), 4099);
        let mut buf = [1; 8];
        file.read_at(&mut buf, 4090).unwrap();
        assert_eq!(&buf, b"\0\0\0\0hell");
        assert_eq!(file.read_at(&mut buf, 4095).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(file.read_some_at(&mut buf, 4095).unwrap(), 4);
        file.set_len(4095).unwrap();
        file.allocate(0, 5000).unwrap();
        file.read_at(&mut buf, 4092).unwrap();
        assert_eq!(&buf, b"\0\0h\0\0\0\0\0");
        fs::write_whole(&folder.join("b"), b"b").unwrap();
        fs::rename(&folder.join("b"), &folder.join("c")).unwrap();
        assert_eq!(fs::read_dir(folder).unwrap(), ["a", "c"]);
        assert_eq!(fs::read_to_end(&folder.join("c")).unwrap(), b"b");
        assert!(fs::is_dir(folder) && fs::exists(&path) && !fs::exists(&folder.join("b")));
        fs::remove_file(&path).unwrap();
        assert_eq!(fs::remove_file(&path).unwrap_err().kind(), ErrorKind::NotFound);
        let lock = fs::lock_file(&folder.join("lock")).unwrap();
        assert_eq!(fs::lock_file(&folder.join("lock")).err().unwrap().kind(), ErrorKind::WouldBlock);
        drop(lock);
        fs::lock_file(&folder.join("lock")).unwrap();
        let direct = File::open(&folder.join("d"), &OpenOptions::creating().with_direct()).unwrap();
        assert!(direct.is_direct());
        assert_eq!(direct.write_at(b"odd", 0, Sync::None).unwrap_err().kind(), ErrorKind::InvalidInput);
        let page = AlignedBuf::new(4096);
        direct.write_at(&page, 8192, Sync::Data).unwrap();
        let mut pages: Vec<AlignedBuf> = (0..4).map(|_| AlignedBuf::new(4096)).collect();
        let mut batch = IoBatch::new();
        pages.iter_mut().enumerate().for_each(|(n, page)| batch.push_read(&direct, page, n as u64 * 4096));
        let results = batch.run();
        assert!(results[..3].iter().all(Result::is_ok) && results[3].is_err());
    });
}

/// What a file holds after a crash, over many seeds.
fn after_crash(options: &DiskOptions, write: impl Fn(&File) + Send + std::marker::Sync) -> BTreeSet<Vec<u8>> {
    (0..60)
        .map(|seed| {
            let disk = Disk::with_options(seed, options.clone());
            let ended = sim::run(Options::new(seed).with_disk(&disk), || {
                let file = File::open(Path::new("/f"), &OpenOptions::creating()).unwrap();
                file.write_at(&[b'0'; 1024], 0, Sync::None).unwrap();
                file.sync_data().unwrap();
                fs::sync_dir(Path::new("/")).unwrap();
                write(&file);
                sim::crash_now();
            });
            assert_eq!(ended, Outcome::<()>::Crashed);
            disk.crash(seed);
            let bytes = disk.read(Path::new("/f")).expect("its name was synced");
            assert_eq!(bytes.len() % 512, 0);
            bytes.chunks(512).map(|sector| sector[0]).collect()
        })
        .collect()
}

fn set(items: &[&str]) -> BTreeSet<Vec<u8>> {
    items.iter().map(|s| s.as_bytes().to_vec()).collect()
}

#[test]
fn a_crash_keeps_tears_or_drops_what_was_not_synced() {
    let torn = after_crash(&DiskOptions::default(), |f| f.write_at(&[b'1'; 1024], 0, Sync::None).unwrap());
    assert_eq!(torn, set(&["00", "01", "10", "11"]));
    let whole = DiskOptions { torn_writes: false, ..DiskOptions::default() };
    assert_eq!(
        after_crash(&whole, |f| f.write_at(&[b'1'; 1024], 0, Sync::None).unwrap()),
        set(&["00", "11"])
    );
    let two = |f: &File| {
        f.write_at(&[b'1'; 512], 0, Sync::None).unwrap();
        f.write_at(&[b'2'; 512], 512, Sync::None).unwrap();
    };
    assert_eq!(after_crash(&whole, two), set(&["00", "10", "02", "12"]));
    let ordered = DiskOptions { reorder: false, ..whole };
    assert_eq!(after_crash(&ordered, two), set(&["00", "10", "12"]));
}

#[test]
fn a_crash_keeps_what_was_synced() {
    let options = DiskOptions::default();
    let durable = after_crash(&options, |f| f.write_at(&[b'1'; 1024], 0, Sync::Data).unwrap());
    assert_eq!(durable, set(&["11"]));
    let synced = after_crash(&options, |f| {
        f.write_at(&[b'1'; 1024], 0, Sync::None).unwrap();
        f.sync_data().unwrap();
    });
    assert_eq!(synced, set(&["11"]));
    // A durable write makes durable what it wrote, no more; and an earlier write cannot come back over it.
    let overtaken = after_crash(&options, |f| {
        f.write_at(&[b'1'; 1024], 0, Sync::None).unwrap();
        f.write_at(&[b'2'; 512], 0, Sync::Data).unwrap();
    });
    assert_eq!(overtaken, set(&["20", "21"]));
}

#[test]
fn names_need_a_sync_of_their_folder() {
    let mut seen = BTreeSet::new();
    for seed in 0..40 {
        let disk = Disk::new(seed);
        let ended = sim::run(Options::new(seed).with_disk(&disk), || {
            fs::write_whole(Path::new("/kept"), b"k").unwrap();
            File::open(Path::new("/new"), &OpenOptions::creating()).unwrap().sync_all().unwrap();
            fs::remove_file(Path::new("/kept")).unwrap();
            sim::crash_now()
        });
        assert_eq!(ended, Outcome::<()>::Crashed);
        disk.crash(seed);
        seen.insert(world_on(&disk, || fs::read_dir(Path::new("/")).unwrap()));
    }
    let names = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(seen, BTreeSet::from([names(&["kept"]), names(&["kept", "new"]), names(&["new"])]));
}

fn world_on<T: Send>(disk: &Disk, f: impl FnOnce() -> T + Send) -> T {
    sim::run(Options::new(99).with_disk(disk), f).done()
}

#[test]
fn write_whole_is_atomic_at_every_sync_point() {
    let path = Path::new("/conf");
    let old_or_new = |bytes: &[u8]| bytes == b"old content" || bytes == b"new";
    let mut crashes = 0;
    for n in 1.. {
        for seed in 0..10 {
            let disk = Disk::new(seed);
            world_on(&disk, || fs::write_whole(path, b"old content").unwrap());
            let ended = sim::run(Options::new(seed).with_disk(&disk), || {
                sim::crash_after_syncs(n);
                fs::write_whole(path, b"new").unwrap();
            });
            if ended == Outcome::Done(()) {
                assert_eq!(disk.read(path).unwrap(), b"new");
                assert_eq!((n, crashes), (3, 20), "a file sync and a folder sync");
                return;
            }
            crashes += 1;
            disk.crash(seed);
            let found = world_on(&disk, || fs::read_to_end(path).unwrap());
            assert!(old_or_new(&found), "sync {n} seed {seed}: {found:?}");
        }
    }
}

#[test]
fn faults_strike_where_and_when_told() {
    world(6, || {
        let file = File::open(Path::new("/data.log"), &OpenOptions::creating()).unwrap();
        let other = File::open(Path::new("/other"), &OpenOptions::creating()).unwrap();
        sim::fail_next(Op::Write, "log", 28, 1);
        sim::fail_next(Op::Sync, "log", 5, 0);
        other.write_at(b"x", 0, Sync::Data).unwrap();
        file.write_at(b"x", 0, Sync::None).unwrap();
        assert_eq!(file.write_at(b"x", 0, Sync::None).unwrap_err().raw_os_error(), Some(28));
        assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(5));
        file.sync_data().unwrap();
    });
    let full = DiskOptions { space_bytes_max: 10_000, ..DiskOptions::default() };
    let disk = Disk::with_options(1, full);
    world_on(&disk, || {
        let file = File::open(Path::new("/f"), &OpenOptions::creating()).unwrap();
        file.write_at(&[1; 8000], 0, Sync::None).unwrap();
        let refused = file.write_at(&[1; 8000], 8000, Sync::None).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
    });
}

#[test]
fn a_crash_gives_the_memory_of_abandoned_buffers_back() {
    fn resident_mb() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() / 256
    }
    let before = resident_mb();
    for seed in 0..40 {
        let ended: Outcome<()> = sim::run(Options::new(seed), || {
            let mut arena = AlignedBuf::new(16 << 20);
            arena.fill(1);
            sim::crash_now();
        });
        assert_eq!(ended, Outcome::Crashed);
    }
    let grown = resident_mb().saturating_sub(before);
    assert!(grown < 200, "{grown} MiB of 640 left behind");
}

#[test]
fn connections_can_be_cut_and_parted() {
    for seed in 0..20 {
        world(seed, || {
            let address = Address::Unix("/run/keel.sock".into());
            assert_eq!(connect(&address).err().unwrap().kind(), ErrorKind::ConnectionRefused);
            let echo = Arc::new(Echo::default());
            let closed = echo.closed.clone();
            let server = serve(vec![listen(&address, 10).unwrap()], echo);
            let mut stream = connect(&address).unwrap();
            expect(&mut stream, "hello\n");
            sim::partition(&address, true);
            stream.write_all(b"late\n").unwrap();
            stream.connection().set_read_timeout(Some(Duration::from_secs(3)));
            assert_eq!(stream.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::TimedOut);
            assert_eq!(connect(&address).err().unwrap().kind(), ErrorKind::TimedOut);
            sim::partition(&address, false);
            expect(&mut stream, "late\n");
            sim::cut_connections(&address);
            assert_eq!(stream.read(&mut [0; 9]).unwrap(), 0);
            while server.connections() > 0 {
                fiber::sleep(Duration::from_millis(1));
            }
            assert_eq!(closed.load(Ordering::SeqCst), 1);
            let again = listen(&address, 1).err().unwrap().kind();
            assert_eq!(again, ErrorKind::AddrInUse);
        });
    }
}

#[test]
fn much_data_flows_in_order_with_backpressure() {
    struct Sink(AtomicUsize);
    struct SinkSession(Arc<Sink>, u8);
    struct SinkService(Arc<Sink>);
    impl net::Service for SinkService {
        type Session = SinkSession;
        fn connected(&self, _: &mut net::Connection) -> Option<SinkSession> {
            Some(SinkSession(self.0.clone(), 0))
        }
    }
    impl net::Session for SinkSession {
        fn data(&mut self, conn: &mut net::Connection) -> net::After {
            for byte in conn.input() {
                assert_eq!(*byte, self.1);
                self.1 = self.1.wrapping_add(1);
            }
            let n = conn.input().len();
            self.0.0.fetch_add(n, Ordering::SeqCst);
            conn.consume(n);
            fiber::sleep(Duration::from_millis(1));
            net::After::Idle
        }
        fn closed(&mut self) {}
    }
    for seed in 0..5 {
        world(seed, || {
            let address = Address::Tcp("10.0.0.1:1".parse().unwrap());
            let sink = Arc::new(Sink(AtomicUsize::new(0)));
            let _server = serve(vec![listen(&address, 10).unwrap()], Arc::new(SinkService(sink.clone())));
            let mut stream = connect(&address).unwrap();
            let bytes: Vec<u8> = (0..3_000_000usize).map(|n| n as u8).collect();
            for chunk in bytes.chunks(70_000) {
                stream.write_all(chunk).unwrap();
            }
            stream.flush().unwrap();
            while sink.0.load(Ordering::SeqCst) < bytes.len() {
                fiber::sleep(Duration::from_millis(1));
            }
        });
    }
}

#[test]
fn a_short_write_goes_on_and_a_crash_may_come_between() {
    let (mut whole, mut half) = (0, 0);
    for seed in 0..2000 {
        let options = DiskOptions { torn_writes: false, reorder: false, ..DiskOptions::default() };
        let disk = Disk::with_options(seed, options);
        let _ = sim::run(Options::new(seed).with_disk(&disk), || {
            let file = File::open(Path::new("/f"), &OpenOptions::creating()).unwrap();
            fs::sync_dir(Path::new("/")).unwrap();
            if seed % 2 == 0 {
                fiber::spawn(|| {
                    fiber::sleep(Duration::from_micros(rand::u64() % 150));
                    sim::crash_now();
                });
            }
            file.write_at(&[7; 4096], 0, Sync::Data).unwrap();
            assert_eq!(fs::read_to_end(Path::new("/f")).unwrap(), [7; 4096]);
        });
        disk.crash(seed);
        match disk.read(Path::new("/f")).map_or(0, |bytes| bytes.len()) {
            4096 => whole += 1,
            0 => assert_eq!(seed % 2, 0, "a durable write was lost"),
            len => {
                assert!(len < 4096 && seed % 2 == 0, "a durable write was cut to {len} bytes");
                half += 1;
            }
        }
    }
    assert!(whole > 1000 && half > 0, "{whole} whole, {half} in part");
}

//! Files in the real world, on both reactors and outside of fibers.

use crate::common::on_each_reactor;
use keel_runtime::fs::{self, AlignedBuf, File, IoBatch, OpenOptions, Sync};
use keel_runtime::sync::channel;
use keel_runtime::{fiber, stats, time, worker_count};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed afterwards.
struct Folder(PathBuf);
impl Folder {
    fn new(base: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("keel-files-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = PathBuf::from(base).join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn temporary() -> Folder {
        Folder::new(std::env::temp_dir().to_str().expect("a name"))
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn exercise(folder: &Folder) {
    let path = folder.path("a");
    let file = File::open(&path, &OpenOptions::creating()).unwrap();
    assert!(file.is_empty().unwrap());
    file.write_at(b"hello world", 0, Sync::None).unwrap();
    file.write_at(b"WORLD", 6, Sync::Data).unwrap();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    let mut buf = [0; 11];
    file.read_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"hello WORLD");
    assert_eq!(file.read_at(&mut buf, 1).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(file.read_some_at(&mut buf, 6).unwrap(), 5);
    assert_eq!(file.read_some_at(&mut buf, 600).unwrap(), 0);
    file.set_len(5).unwrap();
    assert_eq!(file.len().unwrap(), 5);
    file.allocate(0, 1 << 20).unwrap();
    assert_eq!(file.len().unwrap(), 1 << 20);
    file.read_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"hello\0\0\0\0\0\0");

    assert_eq!(
        File::open(&folder.path("none"), &OpenOptions::reading()).err().unwrap().kind(),
        ErrorKind::NotFound
    );
    let fresh = OpenOptions { create_new: true, ..OpenOptions::writing() };
    assert_eq!(File::open(&path, &fresh).err().unwrap().kind(), ErrorKind::AlreadyExists);

    fs::write_whole(&folder.path("b"), b"first").unwrap();
    fs::write_whole(&folder.path("b"), b"second").unwrap();
    assert_eq!(fs::read_to_end(&folder.path("b")).unwrap(), b"second");
    fs::rename(&folder.path("b"), &folder.path("c")).unwrap();
    fs::create_dir_all(&folder.path("d/e")).unwrap();
    fs::sync_dir(&folder.0).unwrap();
    assert_eq!(fs::read_dir(&folder.0).unwrap(), ["a", "c", "d"]);
    assert!(fs::exists(&folder.path("c")) && !fs::exists(&folder.path("b")));
    assert!(fs::is_dir(&folder.path("d")) && !fs::is_dir(&folder.path("a")));
    fs::remove_file(&folder.path("c")).unwrap();
    fs::remove_dir(&folder.path("d/e")).unwrap();
    assert_eq!(fs::remove_file(&folder.path("c")).unwrap_err().kind(), ErrorKind::NotFound);

    let lock = fs::lock_file(&folder.path("lock")).unwrap();
    assert_eq!(fs::lock_file(&folder.path("lock")).err().unwrap().kind(), ErrorKind::WouldBlock);
    drop(lock);
    fs::lock_file(&folder.path("lock")).unwrap();
}

#[test]
fn files_work_on_both_reactors_and_outside_fibers() {
    exercise(&Folder::temporary());
    on_each_reactor(|rt| rt.block_on(|| exercise(&Folder::temporary())));
}

#[test]
fn files_work_in_services() {
    on_each_reactor(|rt| {
        rt.block_on(|| {
            let (sender, receiver) = channel(1);
            fiber::spawn_service("files", move || {
                exercise(&Folder::temporary());
                batch(&Folder::temporary(), &OpenOptions::creating());
                sender.send(()).expect("received below");
            });
            assert_eq!(receiver.recv(), Some(()));
        });
    });
}

fn batch(folder: &Folder, options: &OpenOptions) {
    const N: usize = 200;
    let file = File::open(&folder.path("pages"), options).unwrap();
    let pages: Vec<AlignedBuf> = (0..N).map(|n| page(n as u8)).collect();
    let mut writes = IoBatch::new();
    for (n, page) in pages.iter().enumerate() {
        writes.push_write(&file, page, n as u64 * 4096);
    }
    assert_eq!(writes.len(), N);
    assert!(writes.run().iter().all(Result::is_ok));
    file.sync_data().unwrap();
    let mut back: Vec<AlignedBuf> = (0..=N).map(|_| page(0)).collect();
    let mut reads = IoBatch::new();
    for (n, page) in back.iter_mut().enumerate() {
        reads.push_read(&file, page, n as u64 * 4096);
    }
    let results = reads.run();
    assert!(results[..N].iter().all(Result::is_ok));
    assert_eq!(results[N].as_ref().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert!(back[..N].iter().zip(&pages).all(|(a, b)| a[..] == b[..]));
}

fn page(fill: u8) -> AlignedBuf {
    let mut page = AlignedBuf::new(4096);
    page.fill(fill);
    page
}

#[test]
fn a_batch_does_all_and_reports_each() {
    batch(&Folder::temporary(), &OpenOptions::creating());
    on_each_reactor(|rt| {
        rt.block_on(|| {
            batch(&Folder::temporary(), &OpenOptions::creating());
            batch(&Folder::temporary(), &OpenOptions::creating().with_direct());
        })
    });
}

/// With so many readers some windows hold reads back (`reactor::trial`).
#[test]
fn reads_that_are_held_back_are_done() {
    const READERS: usize = 64;
    const PAGES: usize = 200;
    on_each_reactor(|rt| {
        let folder = Folder::temporary();
        let is_uring = rt.reactor_name() == "io_uring";
        let before = stats::totals().reads_held;
        rt.block_on(|| {
            let file = File::open(&folder.path("pages"), &OpenOptions::creating().with_direct()).unwrap();
            (0..PAGES).for_each(|n| file.write_at(&page(n as u8), n as u64 * 4096, Sync::None).unwrap());
            let file = Arc::new(file);
            let (sender, receiver) = channel(READERS);
            let began = time::now();
            for reader in 0..READERS {
                let (file, sender) = (file.clone(), sender.clone());
                fiber::spawn_on(reader % worker_count(), move || {
                    let mut buf = page(0);
                    let mut right = 0;
                    let goes_on = || match is_uring {
                        true => stats::totals().reads_held < before + 1000 && began.elapsed().as_secs() < 60,
                        false => began.elapsed().as_millis() < 50,
                    };
                    for n in (reader..).step_by(7) {
                        let n = n % PAGES;
                        file.read_at(&mut buf, n as u64 * 4096).unwrap();
                        assert!(buf.iter().all(|b| *b == n as u8), "page {n}");
                        right += 1;
                        if right % 100 == 0 && !goes_on() {
                            break;
                        }
                    }
                    sender.send(right).expect("received below");
                });
            }
            drop(sender);
            let ends: Vec<usize> = std::iter::from_fn(|| receiver.recv()).collect();
            assert!(ends.len() == READERS && ends.iter().all(|right| *right > 0), "{ends:?}");
        });
        assert!(!is_uring || stats::totals().reads_held >= before + 1000);
    });
}

#[test]
fn direct_is_taken_where_offered_and_given_up_quietly_elsewhere() {
    on_each_reactor(|rt| {
        rt.block_on(|| {
            for base in ["/dev/shm", std::env::temp_dir().to_str().expect("a name")] {
                let folder = Folder::new(base);
                let file = File::open(&folder.path("f"), &OpenOptions::creating().with_direct()).unwrap();
                file.write_at(&page(3), 4096, Sync::Data).unwrap();
                let mut back = page(0);
                file.read_at(&mut back, 4096).unwrap();
                assert!(back.iter().all(|b| *b == 3));
                let plain = File::open(&folder.path("f"), &OpenOptions::reading()).unwrap();
                assert!(!plain.is_direct());
            }
        })
    });
}

#[test]
fn aligned_buffers_are_aligned_and_zeroed() {
    for len in [0, 1, 4096, 300 << 10, 1 << 20] {
        let buf = AlignedBuf::new(len);
        assert_eq!(buf.len(), len);
        assert_eq!(buf.as_ptr() as usize % 4096, 0);
        assert!(buf.iter().all(|b| *b == 0));
    }
}

#[test]
fn a_fault_strikes_the_sync_of_a_folder() {
    let folder = Folder::temporary();
    let path = folder.0.to_str().expect("a name").to_string();
    fs::inject(fs::Fault { kind: fs::Op::Sync, path, errno: 5, after: 1, times: 1 });
    fs::sync_dir(&folder.0).unwrap();
    assert_eq!(fs::sync_dir(&folder.0).unwrap_err().raw_os_error(), Some(5));
    fs::sync_dir(&folder.0).unwrap();
}

/// Transfers under hindrances: everything arrives.
fn hindered(folder: &Folder) {
    let bytes: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
    let mut back = vec![0; bytes.len()];
    for errno in [0, libc::EINTR, libc::EAGAIN] {
        let name = format!("f{errno}");
        let path = folder.path(&name);
        for kind in [fs::Op::Read, fs::Op::Write, fs::Op::Sync] {
            let path = path.to_str().expect("a name").to_string();
            fs::inject(fs::Fault { kind, path, errno, after: 0, times: 100 });
        }
        let file = File::open(&path, &OpenOptions::creating()).unwrap();
        file.allocate(0, 1 << 20).unwrap();
        file.set_len(0).unwrap();
        file.write_at(&bytes, 0, Sync::Data).unwrap();
        file.write_at(&bytes, 100_000, Sync::None).unwrap();
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        for offset in [0, 100_000] {
            back.fill(0);
            file.read_at(&mut back, offset).unwrap();
            assert_eq!(back, bytes);
        }
        assert_eq!(file.read_some_at(&mut back, 150_000).unwrap(), 50_000);
        assert_eq!(std::fs::read(&path).unwrap().len(), 200_000);

        let direct = File::open(&path, &OpenOptions::writing().with_direct()).unwrap();
        let pages: Vec<AlignedBuf> = (0..8).map(page).collect();
        let mut writes = IoBatch::new();
        pages.iter().zip(0..).for_each(|(page, n)| writes.push_write(&direct, page, n * 4096));
        assert!(writes.run().iter().all(Result::is_ok));
        let mut read: Vec<AlignedBuf> = (0..8).map(|_| page(99)).collect();
        let mut reads = IoBatch::new();
        read.iter_mut().zip(0..).for_each(|(page, n)| reads.push_read(&direct, page, n * 4096));
        assert!(reads.run().iter().all(Result::is_ok));
        assert!(read.iter().zip(&pages).all(|(a, b)| a[..] == b[..]));
    }
}

#[test]
fn short_and_interrupted_transfers_go_on() {
    hindered(&Folder::temporary());
    on_each_reactor(|rt| {
        rt.block_on(|| {
            hindered(&Folder::temporary());
            let (sender, receiver) = channel(1);
            fiber::spawn_service("files", move || {
                hindered(&Folder::temporary());
                sender.send(()).expect("received below");
            });
            assert_eq!(receiver.recv(), Some(()));
        });
    });
}

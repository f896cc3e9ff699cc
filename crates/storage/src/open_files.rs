//! A bounded cache of open tree files.
//!
//! A [`TreeFile`] opens its file when it is used. [`OpenFiles`] bounds how many of them are open: where the bound is reached, a
//! file that was not used for long is closed first (second chance, in the order of opening).
//!
//! Invariants:
//! 1. An operation holds a [`File`] from submission to completion, so its descriptor stays open whatever the cache does. Such a
//!    file is no victim.
//! 2. A file with writes that no sync covers is *unsynced*. The kernel reports a failed write-back to descriptors that were
//!    open when it happened, so an unsynced file is synced before it is closed.
//! 3. If that sync fails, the file stays open and unsynced, and every later sync of it fails too. The flusher syncs each file
//!    that it has written before the checkpoint moves, so the store ends there as after any failed sync.
//! 4. The bound is soft: where every open file is in use, one more is opened. Batches are cut so that one alone does not
//!    exceed it ([`OpenFiles::batch_max`]).
//! 5. Locks: the queue's before a file's; neither is held during I/O.
//!
//! Temporary files promise nothing and are never unsynced. Contents, length and reserved room belong to the inode, so nothing
//! is lost when another descriptor of the same name takes over. A name stands for one inode while its tree lives.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Weak};

use keel_runtime::fs::{self, File, IoBatch, OpenOptions};
use parking_lot::Mutex;

/// Fewest files that may be open.
pub const FILES_MIN: usize = 2;
/// Unsynced files that are synced at once where no other can be closed.
const SYNCED_AT_ONCE: usize = 64;
/// Attempts to open a file while the process has no descriptor left; each closes another file first.
const ATTEMPTS_MAX: usize = 16;
/// Entries that one search for a victim looks at.
const LOOKS_MAX: usize = 4096;
/// Entries of files that are gone after which the queue is cleaned.
const STALE_MAX: usize = 64;

/// The open files of a store.
pub struct OpenFiles {
    max: usize,
    /// Open files and those being opened.
    open: AtomicUsize,
    /// Files opened since the start.
    opened: AtomicU64,
    /// Files that may be open, oldest first.
    queue: Mutex<VecDeque<Weak<TreeFile>>>,
}

/// What a search for a victim came to.
enum VictimSearch {
    /// A place is free, and taken.
    Place,
    /// Only these idle files could be closed, after a sync.
    Unsynced(Vec<Arc<TreeFile>>),
}

impl OpenFiles {
    /// A cache of up to `max` files.
    pub fn new(max: usize) -> Arc<OpenFiles> {
        Arc::new(OpenFiles {
            max: max.max(FILES_MIN),
            open: AtomicUsize::new(0),
            opened: AtomicU64::new(0),
            queue: Mutex::default(),
        })
    }

    /// Files that may be open.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Files that are open.
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Files opened since the start.
    pub fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    /// Files that one batch of operations may use.
    pub fn batch_max(&self) -> usize {
        (self.max / 4).max(1)
    }

    /// Takes a place for one more open file, closing another where the bound is reached. Waits where that one needs a sync.
    fn take_place(&self) {
        for _ in 0..2 {
            match self.find_place() {
                VictimSearch::Place => return,
                VictimSearch::Unsynced(files) if files.is_empty() => break,
                VictimSearch::Unsynced(files) => sync_idle(&files),
            }
        }
        self.open.fetch_add(1, Relaxed);
    }

    fn find_place(&self) -> VictimSearch {
        let mut queue = self.queue.lock();
        if self.open.load(Relaxed) < self.max {
            self.open.fetch_add(1, Relaxed);
            return VictimSearch::Place;
        }
        match self.close_oldest(&mut queue) {
            Ok(()) => {
                if self.open.load(Relaxed) > self.max && self.close_oldest(&mut queue).is_ok() {
                    self.give_place();
                }
                VictimSearch::Place
            }
            Err(unsynced) => VictimSearch::Unsynced(unsynced),
        }
    }

    /// Closes the oldest file that is idle and synced; its place belongs to the caller. Else gives idle ones that are not
    /// synced.
    fn close_oldest(&self, queue: &mut VecDeque<Weak<TreeFile>>) -> Result<(), Vec<Arc<TreeFile>>> {
        let mut unsynced = Vec::new();
        // The first round takes second chances away.
        for _ in 0..(2 * queue.len()).min(LOOKS_MAX) {
            let Some(oldest) = queue.pop_front() else { break };
            let Some(file) = oldest.upgrade() else { continue };
            if file.used.swap(false, Relaxed) {
                queue.push_back(oldest);
                continue;
            }
            let Some(mut slot) = file.slot.try_lock() else {
                queue.push_back(oldest);
                continue;
            };
            match slot.victim() {
                Victim::None => file.queued.store(false, Relaxed),
                Victim::Busy => queue.push_back(oldest),
                Victim::Unsynced => {
                    queue.push_back(oldest);
                    let is_known = unsynced.iter().any(|known| Arc::ptr_eq(known, &file));
                    if unsynced.len() < SYNCED_AT_ONCE && !is_known {
                        unsynced.push(file.clone());
                    }
                }
                Victim::Idle => {
                    file.queued.store(false, Relaxed);
                    slot.file = None;
                    return Ok(());
                }
            }
        }
        Err(unsynced)
    }

    /// Closes one file, if one can be closed without waiting.
    fn close_one(&self) -> bool {
        let is_closed = self.close_oldest(&mut self.queue.lock()).is_ok();
        if is_closed {
            self.give_place();
        }
        is_closed
    }

    fn give_place(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    /// Enters an open file.
    fn enter(&self, file: &Arc<TreeFile>) {
        if file.queued.swap(true, Relaxed) {
            return;
        }
        let mut queue = self.queue.lock();
        queue.push_back(Arc::downgrade(file));
        if queue.len() > 2 * self.open.load(Relaxed) + STALE_MAX {
            queue.retain(|entry| entry.strong_count() > 0);
        }
    }
}

/// Syncs files that are to be closed.
fn sync_idle(files: &[Arc<TreeFile>]) {
    let mut batch = IoBatch::new();
    let tokens: Vec<SyncToken> = files.iter().map(|file| file.push_sync(&mut batch)).collect();
    for ((result, file), token) in batch.run().into_iter().zip(files).zip(tokens) {
        // A failure stays with the file: invariant 3.
        let _ = file.synced(token, result);
    }
}

/// The file of a tree, open or not.
pub struct TreeFile {
    cache: Arc<OpenFiles>,
    path: PathBuf,
    /// How it is opened again.
    options: OpenOptions,
    /// It bypasses the page cache.
    direct: bool,
    /// Whether anything is promised of its contents.
    lasting: bool,
    /// Used since the cache last looked.
    used: AtomicBool,
    /// It has an entry in the cache's queue.
    queued: AtomicBool,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    file: Option<File>,
    /// Operations that may have written, counted when they began.
    writes: u64,
    /// Those of them that are synced.
    synced: u64,
    /// The error number of a sync that failed.
    failed: Option<i32>,
}

enum Victim {
    /// The file is not open.
    None,
    /// Operations are under way.
    Busy,
    /// It is to be synced first.
    Unsynced,
    /// It can be closed.
    Idle,
}

impl Slot {
    fn victim(&self) -> Victim {
        match &self.file {
            None => Victim::None,
            Some(file) if file.is_shared() || self.failed.is_some() => Victim::Busy,
            Some(_) if self.writes > self.synced => Victim::Unsynced,
            Some(_) => Victim::Idle,
        }
    }
}

/// What a sync covers.
#[derive(Clone, Copy, Debug)]
pub struct SyncToken(Option<u64>);

impl TreeFile {
    /// An existing file of that name, opened by `options`; gives its length too. Waits.
    pub fn open(
        cache: &Arc<OpenFiles>,
        path: &Path,
        options: OpenOptions,
    ) -> io::Result<(Arc<TreeFile>, u64)> {
        cache.take_place();
        let opened = open(cache, path, &options).and_then(|file| Ok((file.len()?, file)));
        let (len, file) = opened.inspect_err(|_| cache.give_place())?;
        Ok((TreeFile::adopt(cache, path, file, options, true), len))
    }

    /// A file that `make` makes, or opens, and that is found under `path` from then on. Waits. What `make` writes does not
    /// count as unsynced.
    pub fn create<E>(
        cache: &Arc<OpenFiles>,
        path: &Path,
        lasting: bool,
        make: impl FnOnce() -> Result<File, E>,
    ) -> Result<Arc<TreeFile>, E> {
        cache.take_place();
        let file = make().inspect_err(|_| cache.give_place())?;
        let options = OpenOptions { direct: file.is_direct(), ..OpenOptions::writing() };
        Ok(TreeFile::adopt(cache, path, file, options, lasting))
    }

    /// An open file, for which a place is taken.
    fn adopt(
        cache: &Arc<OpenFiles>,
        path: &Path,
        file: File,
        options: OpenOptions,
        lasting: bool,
    ) -> Arc<TreeFile> {
        cache.opened.fetch_add(1, Relaxed);
        let all = Arc::new(TreeFile {
            cache: cache.clone(),
            path: path.to_path_buf(),
            direct: file.is_direct(),
            options,
            lasting,
            used: AtomicBool::new(true),
            queued: AtomicBool::new(false),
            slot: Mutex::new(Slot { file: Some(file), ..Slot::default() }),
        });
        cache.enter(&all);
        all
    }

    /// The open file, to be held until the operation is done. Waits where it has to be opened.
    fn get(self: &Arc<Self>, writes: bool) -> io::Result<File> {
        if let Some(file) = self.held(&mut self.slot.lock(), writes) {
            return Ok(file);
        }
        self.cache.take_place();
        let opened = open(&self.cache, &self.path, &self.options).inspect_err(|_| self.cache.give_place())?;
        let file = {
            let mut slot = self.slot.lock();
            if let Some(file) = self.held(&mut slot, writes) {
                // Another fiber was faster.
                self.cache.give_place();
                return Ok(file);
            }
            slot.file = Some(opened);
            self.held(&mut slot, writes)
        };
        self.cache.opened.fetch_add(1, Relaxed);
        self.cache.enter(self);
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The file if it is open. A write is counted while the lock is held: until it is done the file is shared, and no sync
    /// covers it.
    fn held(&self, slot: &mut Slot, writes: bool) -> Option<File> {
        let file = slot.file.clone()?;
        slot.writes += u64::from(writes && self.lasting);
        self.used.store(true, Relaxed);
        Some(file)
    }

    /// Fills `buf` from `offset`, or fails with `UnexpectedEof`.
    pub fn read_at(self: &Arc<Self>, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.get(false)?.read_at(buf, offset)
    }

    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    pub fn read_some_at(self: &Arc<Self>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.get(false)?.read_some_at(buf, offset)
    }

    /// Writes all of `buf` at `offset`; durable after the next sync.
    pub fn write_at(self: &Arc<Self>, buf: &[u8], offset: u64) -> io::Result<()> {
        self.get(true)?.write_at(buf, offset, fs::Sync::None)
    }

    /// Makes the content durable.
    pub fn sync_data(self: &Arc<Self>) -> io::Result<()> {
        let token = self.begin_sync();
        let result = self.get(false).and_then(|file| file.sync_data());
        self.synced(token, result)
    }

    /// Reserves the space of a range, extending the file.
    pub fn allocate(self: &Arc<Self>, offset: u64, len: u64) -> io::Result<()> {
        self.get(true)?.allocate(offset, len)
    }

    /// Cuts or extends with zeros.
    pub fn set_len(self: &Arc<Self>, len: u64) -> io::Result<()> {
        self.get(true)?.set_len(len)
    }

    /// Does it bypass the page cache?
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Files that one batch of operations may use.
    pub fn batch_max(&self) -> usize {
        self.cache.batch_max()
    }

    /// Adds a read to a batch.
    pub fn push_read<'a>(self: &Arc<Self>, batch: &mut IoBatch<'a>, buf: &'a mut [u8], offset: u64) {
        match self.get(false) {
            Ok(file) => batch.push_read(&file, buf, offset),
            Err(error) => batch.push_failed(error),
        }
    }

    /// Adds a write to a batch.
    pub fn push_write<'a>(self: &Arc<Self>, batch: &mut IoBatch<'a>, buf: &'a [u8], offset: u64) {
        match self.get(true) {
            Ok(file) => batch.push_write(&file, buf, offset),
            Err(error) => batch.push_failed(error),
        }
    }

    /// Adds a sync to a batch; its result goes to [`TreeFile::synced`].
    pub fn push_sync(self: &Arc<Self>, batch: &mut IoBatch<'_>) -> SyncToken {
        let token = self.begin_sync();
        match self.get(false) {
            Ok(file) => batch.push_sync(&file),
            Err(error) => batch.push_failed(error),
        }
        token
    }

    /// What a sync that begins now covers: nothing for certain while other operations are under way.
    fn begin_sync(&self) -> SyncToken {
        let slot = self.slot.lock();
        let is_shared = slot.file.as_ref().is_some_and(File::is_shared);
        SyncToken((!is_shared).then_some(slot.writes))
    }

    /// A sync has ended so. Fails if this one or one before it did.
    pub fn synced(&self, token: SyncToken, result: io::Result<()>) -> io::Result<()> {
        let mut slot = self.slot.lock();
        if let Some(errno) = slot.failed {
            return Err(io::Error::from_raw_os_error(errno));
        }
        match (&result, token.0) {
            (Ok(()), Some(covered)) => slot.synced = slot.synced.max(covered),
            (Ok(()), None) => {}
            (Err(error), _) => slot.failed = Some(error.raw_os_error().unwrap_or(EIO)),
        }
        result
    }

    /// Has the file count as unsynced: an earlier process may have written it.
    pub fn note_unsynced(&self) {
        self.slot.lock().writes += u64::from(self.lasting);
    }

    /// Closes the file for good once it is removed, and gives its room on the disk back where operations hold it open.
    pub fn close_removed(&self) {
        let Some(file) = self.slot.lock().file.take() else { return };
        self.cache.give_place();
        // Where the room cannot be freed at once it is when the last operation ends.
        let _ = file.set_len(0);
    }
}

impl Drop for TreeFile {
    fn drop(&mut self) {
        if self.slot.get_mut().file.is_some() {
            self.cache.give_place();
        }
    }
}

const EIO: i32 = 5;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// Opens a file; where the process or the machine has no descriptor left, others are closed first.
fn open(cache: &OpenFiles, path: &Path, options: &OpenOptions) -> io::Result<File> {
    for _ in 0..ATTEMPTS_MAX {
        match File::open(path, options) {
            Err(error) if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) && cache.close_one() => {}
            result => return result,
        }
    }
    File::open(path, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_runtime::sim::{self, Disk, Options};

    const MAX: usize = 16;

    fn in_a_world(run: impl FnOnce(&Disk) + Send + 'static) {
        let disk = Disk::new(1);
        let inner = disk.clone();
        sim::run(Options::new(1).with_disk(&disk), move || {
            fs::create_dir_all(Path::new("/d")).unwrap();
            run(&inner);
        })
        .done();
    }

    fn make(cache: &Arc<OpenFiles>, number: usize) -> Arc<TreeFile> {
        let path = PathBuf::from(format!("/d/t{number}.kt"));
        TreeFile::create(cache, &path, true, || File::open(&path, &OpenOptions::creating())).unwrap()
    }

    #[test]
    fn open_files_stay_within_the_bound() {
        in_a_world(|_| {
            let cache = OpenFiles::new(MAX);
            let files: Vec<_> = (0..10 * MAX).map(|number| make(&cache, number)).collect();
            for (number, file) in files.iter().enumerate() {
                file.write_at(&[number as u8; 512], 0).unwrap();
                assert!(cache.open() <= MAX);
            }
            for (number, file) in files.iter().enumerate().rev() {
                let mut bytes = [0; 512];
                file.read_at(&mut bytes, 0).unwrap();
                assert_eq!(bytes, [number as u8; 512]);
            }
            assert!(cache.open() <= MAX && cache.opened() > 20 * MAX as u64);
            assert!(cache.queue.lock().len() <= 2 * MAX + STALE_MAX + 1);
            drop(files);
            assert_eq!(cache.open(), 0);
        });
    }

    #[test]
    fn unsynced_files_are_synced_before_they_are_closed() {
        in_a_world(|_| {
            let cache = OpenFiles::new(MAX);
            let files: Vec<_> = (0..MAX).map(|number| make(&cache, number)).collect();
            files.iter().for_each(|file| file.write_at(&[7; 512], 0).unwrap());
            assert!(files.iter().all(|file| matches!(file.slot.lock().victim(), Victim::Unsynced)));
            let _more: Vec<_> = (MAX..2 * MAX).map(|number| make(&cache, number)).collect();
            let is_settled = |file: &Arc<TreeFile>| !matches!(file.slot.lock().victim(), Victim::Unsynced);
            assert!(files.iter().all(is_settled), "none is closed with writes that are not durable");
            assert!(cache.open() <= MAX);
        });
    }

    #[test]
    fn a_failed_sync_of_a_victim_is_reported_at_the_next_sync() {
        in_a_world(|_| {
            let cache = OpenFiles::new(MAX);
            let files: Vec<_> = (0..MAX).map(|number| make(&cache, number)).collect();
            files.iter().for_each(|file| file.write_at(&[7; 512], 0).unwrap());
            sim::fail_next(fs::Op::Sync, "t3.kt", EIO, 0);
            let _more: Vec<_> = (MAX..2 * MAX).map(|number| make(&cache, number)).collect();
            assert!(files[3].slot.lock().file.is_some(), "a file that could not be synced stays open");
            assert_eq!(files[3].sync_data().unwrap_err().raw_os_error(), Some(EIO));
            assert_eq!(files[3].sync_data().unwrap_err().raw_os_error(), Some(EIO));
            files[4].sync_data().unwrap();
        });
    }

    #[test]
    fn files_in_use_are_not_closed() {
        in_a_world(|_| {
            let cache = OpenFiles::new(MAX);
            let files: Vec<_> = (0..MAX).map(|number| make(&cache, number)).collect();
            let held: Vec<File> = files.iter().map(|file| file.get(true).unwrap()).collect();
            assert_eq!(files[0].begin_sync().0, None, "a write under way is not covered");
            let more = make(&cache, MAX);
            assert_eq!(cache.open(), MAX + 1, "all others are in use");
            drop((held, more));
            assert_eq!(files[0].begin_sync().0, Some(1));
            let _more = make(&cache, MAX + 1);
            assert!(cache.open() <= MAX);
        });
    }
}

//! A disk in memory that forgets what was not synced.
//!
//! Each file has two contents: what programs see, and what would survive. Writes change the first and wait in a list; a sync
//! plays the list onto the second. A crash decides for each waiting write, by 512-byte sectors, whether it made it, and then
//! what would survive is what there is. Folder entries work the same way: changes wait until `sync_dir`. Folders themselves
//! are durable at once (a simplification: real ones want a sync of their parent).

use super::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAGE: u64 = 4096;
const SECTOR: u64 = 512;

/// How faithless the disk is.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Unsynced writes may survive in part, by sectors of 512 bytes.
    pub torn_writes: bool,
    /// A later unsynced write may survive where an earlier one is lost.
    pub reorder: bool,
    /// Share of reads and writes that fail with EIO.
    pub error_rate: f64,
    /// Bytes the disk holds; ENOSPC beyond.
    pub space_bytes_max: u64,
}

impl Default for DiskOptions {
    fn default() -> Self {
        DiskOptions { torn_writes: true, reorder: true, error_rate: 0.0, space_bytes_max: u64::MAX }
    }
}

/// A disk that outlives worlds; clones share it.
#[derive(Clone)]
pub struct Disk {
    state: Arc<parking_lot::Mutex<DiskState>>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Disk({} files)", self.state.lock().names.len())
    }
}

impl Disk {
    /// An empty disk.
    pub fn new(seed: u64) -> Disk {
        Self::with_options(seed, DiskOptions::default())
    }
    /// An empty disk with these habits.
    pub fn with_options(seed: u64, options: DiskOptions) -> Disk {
        let state = DiskState { seed, options, ..DiskState::default() };
        Disk { state: Arc::new(parking_lot::Mutex::new(state)) }
    }
    /// The power went off: decides, by this seed and the disk's own, which unsynced writes and folder entries are kept, torn or lost.
    pub fn crash(&self, seed: u64) {
        let mut state = self.state.lock();
        let mut rng = Rng::new(seed ^ state.seed.rotate_left(32));
        state.crash(&mut rng);
    }
    /// Syncs since the disk was made: `sync_data`, `sync_all`, `sync_dir` and durable writes.
    pub fn sync_count(&self) -> u64 {
        self.state.lock().sync_count
    }
    /// Paths of all files with their lengths.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let state = self.state.lock();
        state.names.iter().map(|(path, inode)| (path.clone(), state.inodes[inode].now.len)).collect()
    }
    /// The content of a file as programs see it.
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let file = &state.inodes[state.names.get(path)?];
        let mut bytes = vec![0; file.now.len as usize];
        file.now.read(&mut bytes, 0);
        Some(bytes)
    }
    /// Overwrites bytes behind everybody's back, durably: bit rot, or a meddling administrator. False if there is no such file.
    pub fn damage(&self, path: &Path, offset: u64, bytes: &[u8]) -> bool {
        let mut state = self.state.lock();
        let Some(inode) = state.names.get(path).copied() else { return false };
        let file = state.inodes.get_mut(&inode).expect("named files exist");
        file.now.write(bytes, offset);
        file.durable.write(bytes, offset);
        true
    }
    /// Frees what it holds. Fibers of crashed worlds are abandoned with their files open, so a disk never ends by itself.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.inodes.clear();
        state.names.clear();
        state.durable_names.clear();
        state.waiting_entries.clear();
    }
    /// Changes the space limit.
    pub fn set_space(&self, bytes_max: u64) {
        self.state.lock().options.space_bytes_max = bytes_max;
    }
    pub(super) fn lock(&self) -> parking_lot::MutexGuard<'_, DiskState> {
        self.state.lock()
    }
}

/// Bytes by page; a missing page is zeros.
#[derive(Clone, Default)]
pub(super) struct Content {
    pages: BTreeMap<u64, Arc<[u8; PAGE as usize]>>,
    pub len: u64,
}

impl Content {
    pub fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let n = buf.len().min(self.len.saturating_sub(offset) as usize);
        for_pages(offset, n, |page, within, at| {
            let len = at.len();
            match self.pages.get(&page) {
                Some(bytes) => buf[at].copy_from_slice(&bytes[within..within + len]),
                None => buf[at].fill(0),
            }
        });
        n
    }
    pub fn write(&mut self, bytes: &[u8], offset: u64) {
        for_pages(offset, bytes.len(), |page, within, at| {
            let target =
                Arc::make_mut(self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE as usize])));
            target[within..within + at.len()].copy_from_slice(&bytes[at]);
        });
        self.len = self.len.max(offset + bytes.len() as u64);
    }
    fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.pages.split_off(&len.div_ceil(PAGE));
            if let Some(page) = self.pages.get_mut(&(len / PAGE)) {
                Arc::make_mut(page)[(len % PAGE) as usize..].fill(0);
            }
        }
        self.len = len;
    }
    fn bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }
}

/// Calls `f(page, offset within it, range of the buffer)` for each page a range touches.
fn for_pages(offset: u64, len: usize, mut f: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let within = (at % PAGE) as usize;
        let n = (PAGE as usize - within).min(len - done);
        f(at / PAGE, within, done..done + n);
        done += n;
    }
}

/// A change that would not survive yet.
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

/// A file's contents.
#[derive(Default)]
pub(super) struct Inode {
    pub now: Content,
    durable: Content,
    /// By number, in the order made.
    waiting: BTreeMap<u64, Change>,
}

impl Inode {
    fn apply_durable(&mut self, change: &Change) {
        match change {
            Change::Write { offset, bytes } => self.durable.write(bytes, *offset),
            Change::SetLen(len) => self.durable.set_len(*len),
        }
    }

    /// A durable write overtakes earlier waiting writes of the same bytes: they must not come back over it.
    fn trim_waiting(&mut self, before: u64, start: u64, end: u64) {
        let earlier: Vec<u64> = self.waiting.range(..before).map(|(number, _)| *number).collect();
        for number in earlier {
            let Some(Change::Write { offset, bytes }) = self.waiting.get_mut(&number) else { continue };
            let (from, to) = (*offset, *offset + bytes.len() as u64);
            if to <= start || end <= from {
                continue;
            }
            let covered = (start.max(from) - from) as usize..(end.min(to) - from) as usize;
            if covered.len() == bytes.len() {
                self.waiting.remove(&number);
            } else {
                // What waits keeps its place; the covered part becomes what is durable by now.
                let covered_offset = from + covered.start as u64;
                let mut fresh = vec![0; covered.len()];
                self.durable.read(&mut fresh, covered_offset);
                bytes[covered].copy_from_slice(&fresh);
            }
        }
    }

    fn crash(&mut self, options: &DiskOptions, rng: &mut Rng) {
        let waiting = std::mem::take(&mut self.waiting);
        let kept_in_order = rng.below(waiting.len() as u64 + 1) as usize;
        for (index, change) in waiting.values().enumerate() {
            let (keep, tear) = match options.reorder {
                true => (rng.coin(), rng.coin()),
                false => (index < kept_in_order, index + 1 == kept_in_order),
            };
            match change {
                Change::Write { offset, bytes } if keep && tear && options.torn_writes => {
                    self.keep_sectors(*offset, bytes, rng);
                }
                _ if keep => self.apply_durable(change),
                _ => {}
            }
        }
        self.now = self.durable.clone();
    }

    /// Some sectors of a write made it.
    fn keep_sectors(&mut self, offset: u64, bytes: &[u8], rng: &mut Rng) {
        let mut from = 0;
        while from < bytes.len() {
            let to_boundary = SECTOR - (offset + from as u64) % SECTOR;
            let to = bytes.len().min(from + to_boundary as usize);
            if rng.coin() {
                self.durable.write(&bytes[from..to], offset + from as u64);
            }
            from = to;
        }
    }
}

/// A change of a folder that would not survive yet.
enum Entry {
    Link { path: PathBuf, inode: u64 },
    Unlink { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf, inode: u64 },
}

impl Entry {
    fn folder(&self) -> &Path {
        let (Entry::Link { path, .. } | Entry::Unlink { path } | Entry::Rename { to: path, .. }) = self;
        parent(path)
    }
    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Entry::Link { path, inode } => drop(names.insert(path.clone(), *inode)),
            Entry::Unlink { path } => drop(names.remove(path)),
            Entry::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Everything on the disk.
#[derive(Default)]
pub(super) struct DiskState {
    seed: u64,
    pub options: DiskOptions,
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    waiting_entries: Vec<Entry>,
    folders: BTreeSet<PathBuf>,
    next_number: u64,
    pub sync_count: u64,
}

fn error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl DiskState {
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
    fn is_folder(&self, path: &Path) -> bool {
        path.as_os_str().is_empty()
            || path == Path::new("/")
            || path == Path::new(".")
            || self.folders.contains(path)
    }

    // ---- names ----

    /// Finds or makes a file; its inode.
    pub fn open(&mut self, path: &Path, options: &crate::fs::OpenOptions) -> io::Result<u64> {
        if self.is_folder(path) {
            return Err(error(libc::EISDIR));
        }
        if let Some(&inode) = self.names.get(path) {
            if options.create_new {
                return Err(error(libc::EEXIST));
            }
            if options.truncate {
                self.set_len(inode, 0)?;
            }
            return Ok(inode);
        }
        if !(options.create || options.create_new) || !self.is_folder(parent(path)) {
            return Err(error(libc::ENOENT));
        }
        let inode = self.number();
        self.inodes.insert(inode, Inode::default());
        self.change_names(Entry::Link { path: path.to_path_buf(), inode });
        Ok(inode)
    }
    fn change_names(&mut self, entry: Entry) {
        entry.apply(&mut self.names);
        self.waiting_entries.push(entry);
    }
    pub fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        if path.ancestors().any(|a| self.names.contains_key(a)) {
            return Err(error(libc::ENOTDIR));
        }
        self.folders.extend(path.ancestors().map(Path::to_path_buf));
        Ok(())
    }
    pub fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        if !self.names.contains_key(path) {
            return Err(error(if self.is_folder(path) { libc::EISDIR } else { libc::ENOENT }));
        }
        self.change_names(Entry::Unlink { path: path.to_path_buf() });
        Ok(())
    }
    pub fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        if !self.folders.contains(path) {
            return Err(error(libc::ENOENT));
        }
        if !self.read_dir(path)?.is_empty() {
            return Err(error(libc::ENOTEMPTY));
        }
        self.folders.remove(path);
        Ok(())
    }
    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = *self.names.get(from).ok_or_else(|| error(libc::ENOENT))?;
        if !self.is_folder(parent(to)) {
            return Err(error(libc::ENOENT));
        }
        self.change_names(Entry::Rename { from: from.to_path_buf(), to: to.to_path_buf(), inode });
        Ok(())
    }
    pub fn read_dir(&self, path: &Path) -> io::Result<Vec<String>> {
        if !self.is_folder(path) {
            return Err(error(libc::ENOENT));
        }
        let all = self.names.keys().chain(&self.folders);
        let inside = all.filter(|p| parent(p) == path && !p.as_os_str().is_empty() && *p != path);
        Ok(inside.filter_map(|p| p.file_name()?.to_str().map(String::from)).collect())
    }
    pub fn exists(&self, path: &Path) -> bool {
        self.names.contains_key(path) || self.is_dir(path)
    }
    pub fn is_dir(&self, path: &Path) -> bool {
        self.is_folder(path)
    }
    pub fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        if !self.is_folder(path) {
            return Err(error(libc::ENOENT));
        }
        let (now, later) =
            std::mem::take(&mut self.waiting_entries).into_iter().partition(|e| e.folder() == path);
        self.waiting_entries = later;
        let now: Vec<Entry> = now;
        now.iter().for_each(|entry| entry.apply(&mut self.durable_names));
        Ok(())
    }

    // ---- contents ----

    pub fn inode(&self, inode: u64) -> &Inode {
        &self.inodes[&inode]
    }
    fn inode_mut(&mut self, inode: u64) -> &mut Inode {
        self.inodes.get_mut(&inode).expect("open files exist")
    }
    fn space_used(&self) -> u64 {
        self.names.values().map(|inode| self.inodes[inode].now.bytes()).sum()
    }
    /// Would `bytes` more fit? Looked at only when there is a limit.
    pub fn check_space(&self, bytes: u64) -> io::Result<()> {
        let max = self.options.space_bytes_max;
        if max != u64::MAX && self.space_used() + bytes > max { Err(error(libc::ENOSPC)) } else { Ok(()) }
    }
    /// Writes, not durably yet; the number of the waiting change.
    pub fn write(&mut self, inode: u64, offset: u64, bytes: &[u8]) -> io::Result<u64> {
        let growth = (offset + bytes.len() as u64).saturating_sub(self.inode(inode).now.len);
        if growth > 0 {
            self.check_space(growth)?;
        }
        let number = self.number();
        let file = self.inode_mut(inode);
        file.now.write(bytes, offset);
        file.waiting.insert(number, Change::Write { offset, bytes: bytes.to_vec() });
        Ok(number)
    }
    pub fn set_len(&mut self, inode: u64, len: u64) -> io::Result<()> {
        let number = self.number();
        let file = self.inode_mut(inode);
        file.now.set_len(len);
        file.waiting.insert(number, Change::SetLen(len));
        Ok(())
    }
    /// The last change made, for `sync` to know what it covers.
    pub fn last_number(&self) -> u64 {
        self.next_number
    }
    /// All changes of the file up to `number` survive from now on.
    pub fn sync(&mut self, inode: u64, number: u64) {
        let file = self.inode_mut(inode);
        let later = file.waiting.split_off(&(number + 1));
        let now = std::mem::replace(&mut file.waiting, later);
        now.values().for_each(|change| file.apply_durable(change));
    }
    /// This one write survives from now on.
    pub fn sync_write(&mut self, inode: u64, number: u64) {
        let file = self.inode_mut(inode);
        let Some(change) = file.waiting.remove(&number) else { return };
        file.apply_durable(&change);
        if let Change::Write { offset, bytes } = &change {
            file.trim_waiting(number, *offset, *offset + bytes.len() as u64);
        }
    }

    fn crash(&mut self, rng: &mut Rng) {
        let entries = std::mem::take(&mut self.waiting_entries);
        // Folder changes survive in order, as a journal keeps them, up to some point of each folder.
        let mut kept: BTreeMap<PathBuf, bool> = BTreeMap::new();
        for entry in &entries {
            let folder = kept.entry(entry.folder().to_path_buf()).or_insert(true);
            *folder = *folder && rng.coin();
            if *folder {
                entry.apply(&mut self.durable_names);
            }
        }
        self.names = self.durable_names.clone();
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        self.inodes.retain(|inode, _| named.contains(inode));
        let options = self.options.clone();
        self.inodes.values_mut().for_each(|file| file.crash(&options, rng));
    }
}

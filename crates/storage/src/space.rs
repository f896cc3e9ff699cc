//! A tree's file: its pages on the device, where they are in memory, and which of them are in use.
//!
//! Page 0 and every [`GROUP_PAGES`]th are map pages with a bit per page. Pages are found free outside of any latch and
//! *reserved* in memory ([`Space::reserve`]); the mini-transaction that takes them sets their bits. A crash therefore
//! loses no page: reservations are forgotten with the memory.
//!
//! [`GROUP_PAGES`]: crate::layout::GROUP_PAGES

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use keel_base::TreeId;
use keel_runtime::fs::{self, AlignedBuf, File, OpenOptions};
use keel_runtime::sync::Mutex as FiberMutex;
use parking_lot::Mutex;

use crate::buffer::translation::Translation;
use crate::fault::{StoreError, StoreResult};
use crate::layout::*;
use crate::open_files::{OpenFiles, TreeFile};
use crate::page::{NodeMeta, PageBuilder, PageMut, format_page};
use crate::tree::Counter;

/// Pages a file grows by at least and at most.
const GROW_MIN: u32 = 16;
const GROW_MAX: u32 = 2048;

/// Pages behind the last used one that are kept for [`Need::Finish`]: what splits of a rollback, and of the levels above
/// it, take; and in the undo file what the end records of all transactions take, 600 of them to a page. Half of them are
/// for [`Need::Release`] too.
///
/// [`Need::Finish`]: crate::alloc::Need::Finish
/// [`Need::Release`]: crate::alloc::Need::Release
const KEPT: u32 = 8;
const KEPT_UNDO: u32 = 32;
/// Pages of a new file: header and root, and what is kept behind them, enough for a rollback of what fits in the root.
const FIRST_PAGES: u32 = 6;

/// Pages by which a file of `pages` grows.
fn growth(pages: u32) -> u32 {
    (pages / 4).clamp(GROW_MIN, GROW_MAX)
}

/// One file of pages.
pub struct Space {
    /// The tree's id; 0 is the undo file.
    pub id: TreeId,
    path: PathBuf,
    /// The file, opened when it is used.
    pub file: Arc<TreeFile>,
    /// Its resident pages.
    pub map: Translation,
    /// The file is missing, or too short to be a tree: nothing of it can be read.
    pub lost: bool,
    /// Set once when the tree is dropped.
    pub dropped: AtomicBool,
    /// Pages the file has room for.
    pages: AtomicU32,
    growing: FiberMutex<()>,
    /// A fiber is about to make room before somebody needs it.
    growing_ahead: AtomicBool,
    /// No page below this is free, unless freed since.
    pub free_hint: AtomicU32,
    /// Pages found free and not yet taken.
    pub reserved: Mutex<Vec<u32>>,
    /// The page behind the last one found free since a cut was planned; see `shrink`.
    pub taken_end: AtomicU32,
    /// No page from here on may be found free: the file is being cut.
    pub ceiling: AtomicU32,
    /// The counter, once it was used.
    pub counter: Mutex<Option<Counter>>,
}

/// The file's name within the data folder.
pub fn file_name(id: TreeId) -> String {
    match id.0 {
        0 => "undo.kt".into(),
        temporary if id.is_temporary() => format!("{TEMPORARY_PREFIX}{}.kt", temporary & !TreeId::TEMPORARY),
        tree => format!("t{tree}.kt"),
    }
}

/// How the names of the files of temporary trees begin.
const TEMPORARY_PREFIX: &str = "tmp";

/// Whether the file is of a temporary tree, which the next start removes.
pub fn is_temporary_file(name: &str) -> bool {
    name.starts_with(TEMPORARY_PREFIX) && name.ends_with(".kt")
}

/// The tree a file name stands for.
pub fn tree_of(name: &str) -> Option<TreeId> {
    if name == "undo.kt" {
        return Some(TreeId(0));
    }
    name.strip_prefix('t')?.strip_suffix(".kt")?.parse().ok().map(TreeId)
}

/// The first two pages of a new file.
fn initial_pages(id: TreeId, lsn: u64) -> AlignedBuf {
    let mut bytes = AlignedBuf::new(2 * PAGE);
    let (header, root) = bytes.split_at_mut(PAGE);
    format_page(header, id.0, 0, KIND_MAP);
    header[AT_MAGIC..AT_MAGIC + 8].copy_from_slice(&MAGIC.to_le_bytes());
    header[AT_FORMAT..AT_FORMAT + 4].copy_from_slice(&FORMAT.to_le_bytes());
    header[AT_GROUPS..AT_GROUPS + 4].copy_from_slice(&1u32.to_le_bytes());
    header[MAP_AT] = 0b11;
    if id.0 == 0 {
        format_page(root, id.0, ROOT, KIND_UNDO);
    } else {
        let meta = NodeMeta { tree: id.0, page: ROOT, level: 0, right: 0, low: &[], high: None };
        PageBuilder::new(root, meta);
    }
    for page in [header, root] {
        let mut page = PageMut::new(page);
        page.set_lsn(lsn);
        page.seal();
    }
    bytes
}

impl Space {
    fn new(id: TreeId, path: PathBuf, file: Arc<TreeFile>, pages: u32) -> Space {
        Space {
            id,
            path,
            file,
            map: Translation::default(),
            lost: pages < 2,
            dropped: AtomicBool::new(false),
            pages: AtomicU32::new(pages),
            growing: FiberMutex::new(()),
            growing_ahead: AtomicBool::new(false),
            free_hint: AtomicU32::new(ROOT + 1),
            reserved: Mutex::default(),
            taken_end: AtomicU32::new(0),
            ceiling: AtomicU32::new(u32::MAX),
            counter: Mutex::new(None),
        }
    }

    /// Makes a file with an empty tree, durable on return. It appears under its name only once whole.
    pub fn create(
        files: &Arc<OpenFiles>,
        dir: &Path,
        id: TreeId,
        direct: bool,
        lsn: u64,
    ) -> StoreResult<Space> {
        let name = file_name(id);
        let fail = |op: &'static str| {
            let name = name.clone();
            move |e| StoreError::io(&name, 0, op, e)
        };
        let path = dir.join(&name);
        let raw = dir.join(format!("{name}.new"));
        let options = OpenOptions { truncate: true, ..OpenOptions::creating() };
        let options = if direct { options.with_direct() } else { options };
        let make = || {
            let file = File::open(&raw, &options).map_err(fail("create"))?;
            file.write_at(&initial_pages(id, lsn), 0, fs::Sync::None).map_err(fail("write"))?;
            file.allocate(0, u64::from(FIRST_PAGES) * PAGE as u64).map_err(fail("allocate"))?;
            file.sync_all().map_err(fail("sync"))?;
            fs::rename(&raw, &path).map_err(fail("rename"))?;
            fs::sync_dir(dir).map_err(fail("sync"))?;
            Ok(file)
        };
        let made = TreeFile::create(files, &path, true, make).inspect_err(|_| {
            // What cannot be removed is not named: the next start does it.
            let _ = fs::remove_file(&raw);
            let _ = fs::remove_file(&path);
        });
        Ok(Space::new(id, path.clone(), made?, FIRST_PAGES))
    }

    /// Makes the file of a temporary tree, which nothing is promised of.
    pub fn create_temporary(files: &Arc<OpenFiles>, dir: &Path, id: TreeId) -> StoreResult<Space> {
        let name = file_name(id);
        let path = dir.join(&name);
        // Through the page cache: most such files are gone before the device hears of them.
        let options = OpenOptions { truncate: true, ..OpenOptions::creating() };
        let make = || {
            let file = File::open(&path, &options).map_err(|e| StoreError::io(&name, 0, "create", e))?;
            file.write_at(&initial_pages(id, 0), 0, fs::Sync::None)
                .map_err(|e| StoreError::io(&name, 0, "write", e))?;
            file.allocate(0, u64::from(FIRST_PAGES) * PAGE as u64)
                .map_err(|e| StoreError::io(&name, 0, "allocate", e))?;
            Ok(file)
        };
        let made = TreeFile::create(files, &path, false, make);
        let made = made.inspect_err(|_| _ = fs::remove_file(&path));
        Ok(Space::new(id, path.clone(), made?, FIRST_PAGES))
    }

    /// In place of a file that is gone, an empty one, so that the tree can be dropped; whatever reads it is told.
    pub fn stand_in(files: &Arc<OpenFiles>, dir: &Path, id: TreeId) -> StoreResult<Space> {
        let name = file_name(id);
        let path = dir.join(&name);
        let make = || File::open(&path, &OpenOptions::creating());
        let file = TreeFile::create(files, &path, true, make);
        let file = file.map_err(|e| StoreError::io(&name, 0, "create", e))?;
        Ok(Space::new(id, path, file, 0))
    }

    /// Opens an existing file.
    pub fn open(files: &Arc<OpenFiles>, dir: &Path, id: TreeId, direct: bool) -> StoreResult<Space> {
        let name = file_name(id);
        let path = dir.join(&name);
        let options = OpenOptions::writing();
        let options = if direct { options.with_direct() } else { options };
        let opened = TreeFile::open(files, &path, options);
        let (file, len) = opened.map_err(|e| StoreError::io(&name, 0, "open", e))?;
        let pages = u32::try_from(len / PAGE as u64).unwrap_or(u32::MAX);
        Ok(Space::new(id, path, file, pages))
    }

    /// The file's name, for errors.
    pub fn name(&self) -> String {
        file_name(self.id)
    }

    /// Pages the file has room for.
    pub fn pages(&self) -> u32 {
        self.pages.load(Acquire)
    }

    /// Whether the tree was dropped.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Acquire)
    }

    /// An error of this file.
    pub fn io_error(&self, page: u32, op: &'static str, e: std::io::Error) -> StoreError {
        StoreError::io(&self.name(), u64::from(page) * PAGE as u64, op, e)
    }

    /// A page of this file that is not what it should be.
    pub fn corrupt(&self, page: u32, what: impl Into<String>) -> StoreError {
        StoreError::Corrupt { file: self.name(), page, what: what.into() }
    }

    /// Makes the file large enough for `page`, so that flushing it later cannot meet a full disk; waits.
    pub fn grow_for(&self, page: u32) -> StoreResult<()> {
        if page < self.pages() {
            return Ok(());
        }
        let _one = self.growing.lock();
        let now = self.pages();
        if page < now {
            return Ok(());
        }
        let target = (page + 1).max(now.saturating_add(growth(now)));
        self.extend(now, target).or_else(|_| self.extend(now, page + 1))?;
        self.growing_ahead.store(false, Release);
        Ok(())
    }

    /// As [`Space::grow_for`], for `page` and those kept behind it; where little room is left, a fiber makes more, so that
    /// a crowd of writers seldom has to wait for the file system.
    pub fn grow_ahead_of(self: &Arc<Space>, page: u32) -> StoreResult<()> {
        let page = page.saturating_add(self.kept());
        self.grow_for(page)?;
        let now = self.pages();
        if page.saturating_add(growth(now) / 2) >= now && !self.growing_ahead.swap(true, AcqRel) {
            let space = self.clone();
            keel_runtime::fiber::spawn(move || {
                // After a failure nothing more is tried until a caller has got its room, or the error.
                if space.grow_early(now).is_ok() {
                    space.growing_ahead.store(false, Release);
                }
            });
        }
        Ok(())
    }

    /// Pages behind the last used one that are kept.
    pub fn kept(&self) -> u32 {
        if self.id.0 == 0 { KEPT_UNDO } else { KEPT }
    }

    /// A step of growth, unless there was one since the file had `seen` pages.
    fn grow_early(&self, seen: u32) -> StoreResult<()> {
        let _one = self.growing.lock();
        if self.pages() == seen && !self.is_dropped() {
            self.extend(seen, seen.saturating_add(growth(seen)))?;
        }
        Ok(())
    }

    fn extend(&self, from: u32, to: u32) -> StoreResult<()> {
        let at = u64::from(from) * PAGE as u64;
        let len = u64::from(to - from) * PAGE as u64;
        if let Err(e) = self.file.allocate(at, len) {
            // Some file systems keep what they could reserve, down to a part of a page; others may need it.
            let _ = self.file.set_len(at);
            return Err(self.io_error(from, "allocate", e));
        }
        self.pages.fetch_max(to, AcqRel);
        Ok(())
    }

    /// Keeps the file's length as it is while held; waits.
    pub fn lock_growth(&self) -> impl Drop + '_ {
        self.growing.lock()
    }

    /// Cuts off everything from `page` on, which nobody uses or has in memory. Call with the growth locked.
    pub fn cut_to(&self, page: u32) -> StoreResult<()> {
        let len = u64::from(page) * PAGE as u64;
        self.pages.store(page, Release);
        self.file.set_len(len).map_err(|e| self.io_error(page, "truncate", e))
    }

    /// Gives back reservations.
    pub fn unreserve(&self, page: u32) {
        self.reserved.lock().retain(|&p| p != page);
    }

    /// Removes the file; the space must be marked dropped before. Its room on the disk is free at once, though reads
    /// that are under way hold the file open.
    pub fn remove_file(&self) -> StoreResult<()> {
        let _no_growth = self.growing.lock();
        fs::remove_file(&self.path).map_err(|e| self.io_error(0, "remove", e))?;
        if !self.id.is_temporary() {
            let dir = self.path.parent().unwrap_or(Path::new("."));
            fs::sync_dir(dir).map_err(|e| self.io_error(0, "sync", e))?;
        }
        self.file.close_removed();
        Ok(())
    }
}

/// The map page that records `page`, and where its bit is.
pub fn map_bit(page: u32) -> (u32, usize, u8) {
    let within = page % GROUP_PAGES;
    (page - within, MAP_AT + within as usize / 8, 1 << (within % 8))
}

/// The first clear bit at or behind `from` within one map page, as a page number, skipping `reserved`.
pub fn first_free(map: &[u8], group: u32, from: u32, reserved: &[u32]) -> Option<u32> {
    let mut within = from.saturating_sub(group);
    while within < GROUP_PAGES {
        let byte = map[MAP_AT + within as usize / 8];
        if byte == 0xff && within.is_multiple_of(8) {
            within += 8;
            continue;
        }
        let page = group + within;
        if byte & 1 << (within % 8) == 0 && !reserved.contains(&page) {
            return Some(page);
        }
        within += 1;
    }
    None
}

/// The last page in use of those that one map page records, counted from it.
pub fn last_used(map: &[u8]) -> u32 {
    let bits = &map[MAP_AT..MAP_AT + GROUP_PAGES as usize / 8];
    let last = bits.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |byte| byte as u32 * 8 + bits[byte].ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_runtime::fiber;
    use keel_runtime::sim::{self, Disk, Options};
    use std::time::Duration;

    #[test]
    fn file_names_and_trees_correspond() {
        for id in [0, 1, 77] {
            assert_eq!(tree_of(&file_name(TreeId(id))), Some(TreeId(id)));
        }
        assert_eq!(tree_of("t7.kt.new"), None);
        let temporary = file_name(TreeId(TreeId::TEMPORARY | 7));
        assert!(is_temporary_file(&temporary) && tree_of(&temporary).is_none());
        assert!(!is_temporary_file("t7.kt"));
        assert_eq!(tree_of("redo.1"), None);
    }

    #[test]
    fn the_first_free_page_is_found() {
        let mut map = vec![0; PAGE];
        map[MAP_AT..MAP_AT + 3].copy_from_slice(&[0xff, 0xff, 0b0100_0111]);
        assert_eq!(first_free(&map, 0, 2, &[]), Some(19));
        assert_eq!(first_free(&map, 0, 2, &[19]), Some(20));
        assert_eq!(first_free(&map, 0, 22, &[]), Some(23));
        assert_eq!(last_used(&map), 22);
        map[MAP_AT..].fill(0xff);
        assert_eq!(first_free(&map, GROUP_PAGES, GROUP_PAGES, &[]), None);
        assert_eq!(map_bit(GROUP_PAGES + 9), (GROUP_PAGES, MAP_AT + 1, 2));
    }

    #[test]
    fn room_is_made_before_the_file_is_full() {
        let disk = Disk::new(1);
        sim::run(Options::new(1).with_disk(&disk), || {
            fs::create_dir_all(Path::new("/data")).unwrap();
            let space = Arc::new(
                Space::create(&OpenFiles::new(64), Path::new("/data"), TreeId(7), false, 1).unwrap(),
            );
            space.grow_for(100).unwrap();
            let full_at = space.pages();
            space.grow_ahead_of(full_at - 1 - KEPT).unwrap();
            assert_eq!(space.pages(), full_at, "the caller does not wait for it");
            fiber::sleep(Duration::from_secs(1));
            assert_eq!(space.pages(), full_at + growth(full_at));
            space.grow_ahead_of(full_at).unwrap();
            fiber::sleep(Duration::from_secs(1));
            assert_eq!(space.pages(), full_at + growth(full_at), "there is enough room behind this page");
        });
    }
}

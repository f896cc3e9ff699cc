//! The files of a folder, and pages as the next start would find them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use keel_base::TreeId;
use keel_runtime::fs::{self, AlignedBuf, File, IoBatch, OpenOptions};
use keel_runtime::{rand, system};
use parking_lot::RwLock;

use super::cache::Cache;
use super::log::LogFacts;
use super::{Limits, Report, replay};
use crate::fault::{StoreError, StoreResult};
use crate::layout::PAGE;
use crate::log::head::Head;
use crate::open_files::{OpenFiles, TreeFile};
use crate::page::PageRef;
use crate::space::{file_name, tree_of};
use crate::store::name_trees;

/// Pages read by one request.
const RUN: usize = 16;
/// Names tried for a temporary file.
const NAMES_MAX: u32 = 100;

/// The file of a tree.
struct PageFile {
    file: Arc<TreeFile>,
    /// Whole pages in it.
    there: u32,
    /// The same, and those that the log puts behind its end.
    pages: AtomicU32,
    /// Bytes behind the last whole page.
    rest: u64,
}

/// Copies of pages that the log changes, in a temporary file without a name.
#[derive(Default)]
struct Overlay {
    file: OnceLock<File>,
    places: RwLock<HashMap<(u32, u32), u32>>,
}

/// A page to read, and where to.
pub(super) struct Wanted<'b> {
    /// Tree and number.
    pub(super) at: (u32, u32),
    /// Takes the page.
    pub(super) bytes: &'b mut [u8],
    /// Why it could not be read.
    pub(super) error: Option<String>,
    /// It came from the copies: nothing is wrong with it.
    pub(super) is_copy: bool,
}

/// A data folder, opened for reading.
pub struct Folder {
    pub(super) dir: PathBuf,
    pub(super) limits: Limits,
    files: BTreeMap<u32, PageFile>,
    overlay: Overlay,
    cache: Cache,
    /// What the log says.
    pub log: LogFacts,
}

impl Folder {
    /// Whether no start on the folder `dir` has come as far as to make a store of it: a kill within the first one leaves no
    /// `redo.head`, and no tree but the undo log. Waits.
    pub fn is_unfinished(dir: &Path) -> bool {
        matches!(Head::exists(dir), Ok(false))
            && !name_trees(&fs::read_dir(&dir.join("trees")).unwrap_or_default())
    }

    /// Opens the folder and applies its log to copies. An error means that nothing can be read here at all. Waits.
    pub fn open(dir: &Path, limits: Limits, report: &Arc<Report>) -> StoreResult<Folder> {
        let trees = dir.join("trees");
        let entries = fs::read_dir(&trees).map_err(|e| StoreError::io("trees", 0, "list", e))?;
        let open = OpenFiles::new((system::descriptors_max() / 4) as usize);
        let mut files = BTreeMap::new();
        for name in &entries {
            let Some(id) = tree_of(name) else {
                report.note("orphan", &format!("trees/{name}"), None, "a file that no tree owns");
                continue;
            };
            match open_pages(&open, &trees.join(name)) {
                Ok(file) => {
                    // So does a file that could not grow whole; pages in use behind the end are the map's matter.
                    if file.rest != 0 {
                        let text = format!("ends {} bytes into a page", file.rest);
                        report.note("length", name, Some(file.there), text);
                    }
                    files.insert(id.0, file);
                }
                Err(e) => report.damage("unreadable", name, None, e.to_string()),
            }
        }
        let cache = Cache::new(limits.memory);
        let folder = Folder {
            dir: dir.to_owned(),
            limits,
            files,
            overlay: Overlay::default(),
            cache,
            log: LogFacts::default(),
        };
        replay::replay(folder, report)
    }

    /// Trees that have a file, in order; 0 is the undo log.
    pub fn trees(&self) -> Vec<TreeId> {
        self.files.keys().map(|id| TreeId(*id)).collect()
    }

    /// Pages of a tree's file; 0 where there is none.
    pub fn pages(&self, tree: TreeId) -> u32 {
        self.files.get(&tree.0).map_or(0, |f| f.pages.load(Relaxed))
    }

    /// Name of a tree's file.
    pub fn file_name(tree: TreeId) -> String {
        file_name(tree)
    }

    /// Bytes of all trees' files.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|f| u64::from(f.pages.load(Relaxed)) * PAGE as u64).sum()
    }

    /// Pages that the log changes, or that came from the doublewrite file.
    pub fn pages_changed(&self) -> usize {
        self.overlay.places.read().len()
    }

    /// Fills `out` with pages from `first` on; zeros stand where the file has ended. For each page an error of its own.
    pub(super) fn read_run(&self, tree: u32, first: u32, out: &mut AlignedBuf) -> Vec<Option<String>> {
        let count = out.len() / PAGE;
        let Some(file) = self.files.get(&tree) else { return vec![Some("no such file".into()); count] };
        let mut errors = vec![None; count];
        read_pages(&file.file, first, &mut out[..], &mut errors);
        let places = self.overlay.places.read();
        let mut batch = IoBatch::new();
        let mut copies = Vec::new();
        for (index, page) in out.chunks_exact_mut(PAGE).enumerate() {
            let place = places.get(&(tree, first + index as u32));
            let (Some(place), Some(overlay)) = (place, self.overlay.file.get()) else { continue };
            batch.push_read(overlay, page, place_offset(*place));
            copies.push(index);
        }
        drop(places);
        let results = if batch.is_empty() { Vec::new() } else { batch.run() };
        for (index, result) in copies.into_iter().zip(results) {
            errors[index] = result.err().map(|e| e.to_string());
        }
        errors
    }

    /// Reads pages from here and there, all at once; zeros stand where a file has ended. Waits.
    pub(super) fn read_scattered(&self, wanted: &mut [Wanted<'_>]) {
        let mut batch = IoBatch::new();
        let mut read = Vec::with_capacity(wanted.len());
        // Opening a file may wait, which must not happen under the lock.
        let places: Vec<Option<u32>> = {
            let places = self.overlay.places.read();
            wanted.iter().map(|one| places.get(&one.at).copied()).collect()
        };
        for (index, (one, place)) in wanted.iter_mut().zip(places).enumerate() {
            let Some(file) = self.files.get(&one.at.0) else {
                one.error = Some("no such file".into());
                continue;
            };
            let place = place.zip(self.overlay.file.get());
            one.is_copy = place.is_some();
            match place {
                Some((place, overlay)) => batch.push_read(overlay, one.bytes, place_offset(place)),
                None if one.at.1 < file.there => {
                    file.file.push_read(&mut batch, one.bytes, place_offset(one.at.1))
                }
                None => {
                    one.bytes.fill(0);
                    continue;
                }
            }
            read.push(index);
        }
        let results = if batch.is_empty() { Vec::new() } else { batch.run() };
        for (index, result) in read.into_iter().zip(results) {
            wanted[index].error = result.err().map(|e| format!("cannot be read: {e}"));
        }
    }

    /// One page, checked: its checksum fits and it is the page it should be. Waits.
    pub(super) fn page(&self, tree: u32, page: u32) -> StoreResult<Arc<[u8]>> {
        if let Some(kept) = self.cache.get((tree, page)) {
            return Ok(kept);
        }
        let corrupt = |what: String| StoreError::Corrupt { file: file_name(TreeId(tree)), page, what };
        if page >= self.pages(TreeId(tree)) {
            return Err(corrupt("lies behind the end of the file".into()));
        }
        let mut bytes = AlignedBuf::new(PAGE);
        if let Some(Some(what)) = self.read_run(tree, page, &mut bytes).into_iter().next() {
            return Err(corrupt(what));
        }
        if let Some(what) = identity_problem(PageRef::new(&bytes), tree, page) {
            return Err(corrupt(what));
        }
        let kept: Arc<[u8]> = Arc::from(&bytes[..]);
        self.cache.put((tree, page), kept.clone());
        Ok(kept)
    }

    /// The page as it stands in its file, for replay; zeros behind its end.
    pub(super) fn raw_page(&self, tree: u32, page: u32, out: &mut AlignedBuf) -> Option<String> {
        self.read_run(tree, page, out).pop().flatten()
    }

    /// Whether a tree has a file.
    pub fn has(&self, tree: TreeId) -> bool {
        self.files.contains_key(&tree.0)
    }

    /// Keeps copies of pages that shall be read instead of the files'. Waits.
    pub(super) fn lay_over(&self, copies: &[((u32, u32), &[u8])]) -> StoreResult<()> {
        let fail = |op: &'static str| move |e| StoreError::io("temporary copies", 0, op, e);
        if copies.is_empty() {
            return Ok(());
        }
        if self.overlay.file.get().is_none() {
            let file = unnamed_file(&self.limits.temporary).map_err(fail("create"))?;
            // Whoever comes second lets go of his.
            let _ = self.overlay.file.set(file);
        }
        let Some(file) = self.overlay.file.get() else { return Ok(()) };
        let mut batch = IoBatch::new();
        {
            let mut places = self.overlay.places.write();
            for (at, bytes) in copies {
                let next = places.len() as u32;
                batch.push_write(file, bytes, place_offset(*places.entry(*at).or_insert(next)));
            }
        }
        batch.run().into_iter().collect::<std::io::Result<()>>().map_err(fail("write"))?;
        for ((tree, page), _) in copies {
            if let Some(file) = self.files.get(tree) {
                file.pages.fetch_max(page + 1, Relaxed);
            }
        }
        Ok(())
    }
}

fn place_offset(place: u32) -> u64 {
    u64::from(place) * PAGE as u64
}

fn open_pages(open: &Arc<OpenFiles>, path: &Path) -> std::io::Result<PageFile> {
    let (file, len) = TreeFile::open(open, path, OpenOptions::reading().with_direct())?;
    let pages = u32::try_from(len / PAGE as u64).unwrap_or(u32::MAX);
    Ok(PageFile { file, there: pages, pages: AtomicU32::new(pages), rest: len % PAGE as u64 })
}

/// A file that is gone when it is closed.
pub(super) fn unnamed_file(folder: &Path) -> std::io::Result<File> {
    fs::create_dir_all(folder)?;
    let mut tries = 0;
    loop {
        let path = folder.join(format!("keel-check-{:016x}", rand::u64()));
        match File::open(&path, &OpenOptions { create_new: true, private: true, ..OpenOptions::creating() }) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && tries < NAMES_MAX => tries += 1,
            file => {
                let file = file?;
                fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
}

/// Reads pages by runs, and where a run cannot be read, one by one.
fn read_pages(file: &Arc<TreeFile>, first: u32, out: &mut [u8], errors: &mut [Option<String>]) {
    let mut batch = IoBatch::new();
    for (index, run) in out.chunks_mut(RUN * PAGE).enumerate() {
        file.push_read(&mut batch, run, (u64::from(first) + (index * RUN) as u64) * PAGE as u64);
    }
    let results = batch.run();
    for (index, run) in out.chunks_mut(RUN * PAGE).enumerate() {
        if results[index].is_ok() {
            continue;
        }
        for (within, page) in run.chunks_exact_mut(PAGE).enumerate() {
            let number = index * RUN + within;
            let offset = (u64::from(first) + number as u64) * PAGE as u64;
            match file.read_some_at(page, offset) {
                Ok(got) => page[got..].fill(0),
                Err(e) => errors[number] = Some(format!("cannot be read: {e}")),
            }
        }
    }
}

/// What is wrong with the frame of a page, in words.
pub(super) fn identity_problem(page: PageRef<'_>, tree: u32, number: u32) -> Option<String> {
    if page.is_zero() {
        return Some("all zeros where a page should be".into());
    }
    if !page.crc_ok() {
        return Some(format!(
            "checksum does not fit (page says it is {} of tree {})",
            page.page_no(),
            page.tree()
        ));
    }
    if page.page_no() != number || page.tree() != tree {
        return Some(format!(
            "holds page {} of tree {}, expected page {number} of tree {tree}",
            page.page_no(),
            page.tree()
        ));
    }
    None
}

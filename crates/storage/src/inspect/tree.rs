//! One tree's file, read once from its first page to its last by several fibers: pages are checked by themselves, what is
//! needed of them for the structure is kept, and the entries of each leaf go to a [`Visitor`]. Then the structure is
//! checked (`shape`), and leaves that are no part of it are taken back from the visitor.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use hashbrown::HashMap;
use keel_base::checksum::{crc32c, crc32c_combine};
use keel_base::{PageNo, TreeId};
use keel_runtime::fiber;
use keel_runtime::fs::AlignedBuf;
use keel_runtime::sync::Semaphore;
use keel_runtime::wait::WaitEvent;
use parking_lot::Mutex;

use super::files::identity_problem;
use super::history::{History, Settled};
use super::shape::{self, hash_of};
use super::{Folder, Report};
use crate::fault::{StoreError, StoreResult};
use crate::layout::*;
use crate::page::PageRef;
use crate::row::{Header, has_header};
use crate::space::{file_name, map_bit};
use crate::tree::OverflowRef;

/// Pages a fiber reads at once.
const CHUNK: u32 = 64;

/// What is kept of a page.
#[derive(Clone, Copy, Default)]
pub(super) struct Info {
    /// One of `KIND_*`; [`LOST`] where the page cannot be used.
    pub(super) kind: u8,
    pub(super) level: u8,
    pub(super) allocated: bool,
    pub(super) has_high: bool,
    pub(super) right: u32,
    /// Of a node the hash of its low fence, of an overflow page the checksum of its bytes.
    pub(super) low: u64,
    /// Of a node the hash of its high fence, of an overflow page the number of its bytes.
    pub(super) high: u64,
}

/// Kind of a page that cannot be used.
pub(super) const LOST: u8 = u8::MAX;

/// One entry of a leaf as it will be once what is unfinished is rolled back.
#[derive(Debug, Clone)]
pub struct Entry<'l> {
    /// Its key.
    pub key: &'l [u8],
    /// Its row, whole; none where the entry is deleted or its long value cannot be read.
    pub row: Option<&'l [u8]>,
    /// Whether it is a row, readable or not.
    pub live: bool,
}

/// The entries of a leaf, in order.
#[derive(Default)]
pub struct Leaf {
    /// The leaf's page.
    pub page: u32,
    /// The LSN of its last change.
    pub lsn: u64,
    /// Low fence.
    pub low: Vec<u8>,
    /// High fence.
    pub high: Option<Vec<u8>>,
    bytes: Vec<u8>,
    entries: Vec<(Range<usize>, Option<Range<usize>>, bool)>,
}

impl Leaf {
    /// Its entries.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.entries.iter().map(|(key, row, live)| Entry {
            key: &self.bytes[key.clone()],
            row: row.clone().map(|r| &self.bytes[r]),
            live: *live,
        })
    }

    fn push(&mut self, key: &[u8], row: Option<&[u8]>, live: bool) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(row.unwrap_or_default());
        let row = row.map(|_| middle..self.bytes.len());
        self.entries.push((start..middle, row, live));
    }
}

/// Takes the leaves of a tree, in any order, from several fibers.
pub trait Visitor: Send + Sync {
    /// A leaf; `count` is 1, or -1 where it was given before and turned out to be no part of the tree.
    fn leaf(&self, leaf: &Leaf, count: i64);
}

/// What a pass over a tree found, beside what it reported.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Pages of the tree that cannot be used, or links that lead nowhere: entries are missing.
    pub has_lost: bool,
    /// Entries that are rows.
    pub rows: u64,
    /// Leaves.
    pub leaves: u64,
    /// The tree's counter.
    pub counter: u64,
    /// Leaves in the order of their keys, for who compares neighbours.
    pub order: Vec<u32>,
}

/// State of a pass.
pub(super) struct Pass {
    pub(super) folder: Arc<Folder>,
    pub(super) history: Arc<History>,
    pub(super) report: Arc<Report>,
    visitor: Arc<dyn Visitor>,
    pub(super) tree: TreeId,
    pub(super) file: String,
    pub(super) pages: u32,
    /// Groups that have a map page: the file grows ahead of them. As many as can be, where nobody knows.
    groups: AtomicU32,
    pub(super) infos: Mutex<Vec<Info>>,
    /// Of inner pages: hash of each separator and its child.
    pub(super) children: Mutex<HashMap<u32, Vec<(u64, u32)>>>,
    /// Long values that entries and their versions name, with the page of the entry.
    pub(super) values: Mutex<Vec<(OverflowRef, u32)>>,
    next: AtomicU32,
    rows: AtomicU64,
    progress: Arc<AtomicU64>,
    failed: AtomicUsize,
}

/// Reads a tree's file; counts the bytes read into `progress`. Waits.
pub fn pass(
    folder: &Arc<Folder>,
    history: &Arc<History>,
    report: &Arc<Report>,
    tree: TreeId,
    visitor: Arc<dyn Visitor>,
    progress: &Arc<AtomicU64>,
) -> Outcome {
    let pages = folder.pages(tree);
    let pass = Arc::new(Pass {
        folder: folder.clone(),
        history: history.clone(),
        report: report.clone(),
        visitor,
        tree,
        file: file_name(tree),
        pages,
        groups: AtomicU32::new(u32::MAX),
        infos: Mutex::new(vec![Info::default(); pages as usize]),
        children: Mutex::default(),
        values: Mutex::default(),
        next: AtomicU32::new(0),
        rows: AtomicU64::new(0),
        progress: progress.clone(),
        failed: AtomicUsize::new(0),
    });
    let (counter, maps) = pass.read_maps();
    let readers = folder.limits.readers.min(pages.div_ceil(CHUNK) as usize).max(1);
    let done = Arc::new(Semaphore::new(0));
    for reader in 0..readers {
        let (pass, maps, done) = (pass.clone(), maps.clone(), done.clone());
        fiber::spawn_on(reader % keel_runtime::worker_count().max(1), move || {
            let _done = Done(&done, &pass.failed, std::thread::panicking());
            pass.read(&maps);
        });
    }
    done.acquire(readers as u64, WaitEvent::PageRead);
    if pass.failed.load(SeqCst) > 0 {
        report.damage(
            "page",
            &pass.file,
            None,
            "a page cannot be decoded at all; the file was not read to its end",
        );
    }
    let mut outcome = if tree.0 == 0 { shape::check_undo(&pass) } else { shape::check_tree(&pass) };
    outcome.counter = counter;
    outcome.rows = pass.rows.load(SeqCst);
    outcome.has_lost |= pass.failed.load(SeqCst) > 0;
    outcome
}

/// Says that a reader has ended, well or not.
struct Done<'d>(&'d Semaphore, &'d AtomicUsize, bool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.2 {
            self.1.fetch_add(1, SeqCst);
        }
        self.0.release(1);
    }
}

/// The map pages of a file; none where one cannot be used.
type Maps = Arc<Vec<Option<Arc<[u8]>>>>;

impl Pass {
    /// The tree's counter and the map pages.
    fn read_maps(&self) -> (u64, Maps) {
        let mut maps = Vec::new();
        let mut counter = 0;
        for group in (0..self.pages).step_by(GROUP_PAGES as usize) {
            if !self.is_map(group) {
                break;
            }
            let map =
                self.folder.page(self.tree.0, group).ok().filter(|map| PageRef::new(map).kind() == KIND_MAP);
            if let (0, Some(map)) = (group, &map) {
                counter =
                    u64::from_le_bytes(map[AT_COUNTER..AT_COUNTER + 8].try_into().expect("eight bytes"));
                let groups =
                    u32::from_le_bytes(map[AT_GROUPS..AT_GROUPS + 4].try_into().expect("four bytes"));
                self.groups.store(groups.max(1), SeqCst);
                let magic = u64::from_le_bytes(map[AT_MAGIC..AT_MAGIC + 8].try_into().expect("eight bytes"));
                let format =
                    u32::from_le_bytes(map[AT_FORMAT..AT_FORMAT + 4].try_into().expect("four bytes"));
                if magic != MAGIC || format != FORMAT {
                    let text = format!(
                        "magic number {magic:#x} and format {format}, expected {MAGIC:#x} and {FORMAT}"
                    );
                    self.report.damage("page", &self.file, Some(0), text);
                }
            }
            let behind = map.as_ref().map_or(0, |map| self.bits_behind(group, map));
            if behind > 0 {
                let text = format!(
                    "{behind} pages are in use according to the map, but the file ends at page {}",
                    self.pages
                );
                self.report.damage("allocation", &self.file, Some(group), text);
            }
            maps.push(map);
        }
        (counter, Arc::new(maps))
    }

    /// Whether a page is one of those that say which others are in use.
    pub(super) fn is_map(&self, number: u32) -> bool {
        number.is_multiple_of(GROUP_PAGES) && number / GROUP_PAGES < self.groups.load(SeqCst)
    }

    /// Pages in use behind the end of the file.
    fn bits_behind(&self, group: u32, map: &[u8]) -> u32 {
        let bits = &map[MAP_AT..MAP_AT + GROUP_PAGES as usize / 8];
        let within = self.pages - group;
        if within >= GROUP_PAGES {
            return 0;
        }
        let first = bits[within as usize / 8] >> (within % 8);
        first.count_ones() + bits[within as usize / 8 + 1..].iter().map(|byte| byte.count_ones()).sum::<u32>()
    }

    fn read(&self, maps: &Maps) {
        let mut buffer = AlignedBuf::new(CHUNK as usize * PAGE);
        loop {
            let first = self.next.fetch_add(CHUNK, SeqCst);
            if first >= self.pages {
                return;
            }
            let errors = self.folder.read_run(self.tree.0, first, &mut buffer);
            for (index, page) in buffer.chunks_exact(PAGE).enumerate() {
                let number = first + index as u32;
                if number >= self.pages {
                    break;
                }
                let (group, offset, bit) = map_bit(number);
                // Where the map is lost, what a page says of itself decides.
                let allocated = match maps.get((group / GROUP_PAGES) as usize) {
                    Some(Some(map)) => map[offset] & bit != 0,
                    None => false,
                    Some(None) => page[AT_KIND] != KIND_FREE && PageRef::new(page).crc_ok(),
                };
                let info = self.look_at(number, PageRef::new(page), allocated, errors[index].clone());
                self.infos.lock()[number as usize] = info;
            }
            self.progress.fetch_add(u64::from(CHUNK.min(self.pages - first)) * PAGE as u64, Relaxed);
            fiber::yield_now();
        }
    }

    fn look_at(&self, number: u32, page: PageRef<'_>, allocated: bool, error: Option<String>) -> Info {
        let lost = Info { kind: LOST, allocated, ..Info::default() };
        let is_map = self.is_map(number);
        if !allocated && !is_map {
            return self.look_at_free(number, page, error);
        }
        if let Some(what) = error.or_else(|| identity_problem(page, self.tree.0, number)) {
            self.report.damage("checksum", &self.file, Some(number), what);
            return lost;
        }
        if self.folder.log.present && page.lsn() > self.folder.log.end {
            let text = format!(
                "was changed by the log at {}, but the log ends at {}: a part of the log is lost",
                page.lsn(),
                self.folder.log.end
            );
            self.report.damage("log", &self.file, Some(number), text);
        }
        let info = Info {
            kind: page.kind(),
            level: page.level(),
            allocated,
            right: page.right(),
            ..Info::default()
        };
        match page.kind() {
            KIND_LEAF | KIND_INNER => match self.look_at_node(number, page) {
                Ok(()) => Info {
                    has_high: page.high().is_some(),
                    low: hash_of(page.low()),
                    high: page.high().map_or(0, hash_of),
                    ..info
                },
                Err(what) => {
                    self.report.damage("page", &self.file, Some(number), what);
                    lost
                }
            },
            KIND_OVERFLOW if page.heap() <= CHAIN_ROOM => Info {
                low: u64::from(crc32c(&page.bytes()[HEADER..HEADER + page.heap()])),
                high: page.heap() as u64,
                ..info
            },
            KIND_MAP if is_map => info,
            KIND_UNDO if self.tree.0 == 0 => info,
            KIND_FREE => {
                self.report.note(
                    "leak",
                    &self.file,
                    Some(number),
                    "is in use according to the map, but free by itself",
                );
                info
            }
            kind => {
                self.report.damage(
                    "page",
                    &self.file,
                    Some(number),
                    format!("a page of kind {kind} in this place"),
                );
                lost
            }
        }
    }

    fn look_at_free(&self, number: u32, page: PageRef<'_>, error: Option<String>) -> Info {
        let what = match error {
            Some(what) => what,
            None if page.is_zero() => return Info::default(),
            None if !page.crc_ok() => "checksum does not fit".into(),
            None if page.is_node() && page.problem().is_none() => {
                return Info {
                    kind: page.kind(),
                    level: page.level(),
                    right: page.right(),
                    low: hash_of(page.low()),
                    high: page.high().map_or(0, hash_of),
                    has_high: page.high().is_some(),
                    allocated: false,
                };
            }
            None => return Info { kind: page.kind(), right: page.right(), ..Info::default() },
        };
        self.report.note("free-page", &self.file, Some(number), format!("{what}; the page is in no use"));
        Info { kind: LOST, ..Info::default() }
    }

    fn look_at_node(&self, number: u32, page: PageRef<'_>) -> Result<(), String> {
        if let Some(what) = page.problem() {
            return Err(what);
        }
        if page.level() > 0 {
            return self.look_at_inner(number, page);
        }
        if let Some(slot) = (0..page.count()).find(|slot| !has_header(page.value(*slot))) {
            return Err(format!("slot {slot} holds {} bytes, too few for an entry", page.value(slot).len()));
        }
        self.visit(page, 1);
        Ok(())
    }

    fn look_at_inner(&self, number: u32, page: PageRef<'_>) -> Result<(), String> {
        let mut children = Vec::with_capacity(page.count());
        let mut key = Vec::new();
        for slot in 0..page.count() {
            page.key(slot, &mut key);
            if slot == 0 && key != page.low() {
                return Err("the first separator is not the low fence".into());
            }
            children.push((hash_of(&key), page.child(slot)));
        }
        if children.is_empty() {
            return Err("an inner page without children".into());
        }
        self.children.lock().insert(number, children);
        Ok(())
    }

    /// Hands the entries of a leaf to the visitor.
    fn visit(&self, page: PageRef<'_>, count: i64) {
        let mut leaf = Leaf {
            page: page.page_no(),
            lsn: page.lsn(),
            low: page.low().to_vec(),
            high: page.high().map(<[u8]>::to_vec),
            ..Leaf::default()
        };
        leaf.bytes.reserve(2 * PAGE);
        let (mut key, mut row, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for slot in 0..page.count() {
            page.key(slot, &mut key);
            let value = page.value(slot);
            if self.history.is_plain(value) {
                leaf.push(&key, Some(Header::split(value).1), true);
                continue;
            }
            row.clear();
            row.extend_from_slice(value);
            values.clear();
            let settled = self.history.settle(&self.folder, self.tree, &key, &mut row, &mut values);
            if count > 0 {
                self.values.lock().extend(values.iter().map(|value| (*value, leaf.page)));
            }
            match settled {
                Err(what) => {
                    if count > 0 {
                        let text = format!("entry {} at slot {slot}: {what}", key.escape_ascii());
                        self.report.damage("version", &self.file, Some(leaf.page), text);
                    }
                    leaf.push(&key, None, true);
                }
                Ok(Settled::Gone) => {}
                Ok(Settled::Deleted) => {
                    if count > 0 && self.history.is_purged(value) {
                        let text = format!(
                            "entry {} at slot {slot} is deleted, and purge has passed it",
                            key.escape_ascii()
                        );
                        self.report.note("leak", &self.file, Some(leaf.page), text);
                    }
                    leaf.push(&key, None, false);
                }
                Ok(Settled::Row(false)) => leaf.push(&key, Some(&row), true),
                Ok(Settled::Row(true)) => match self.long_value(&row) {
                    Ok(whole) => leaf.push(&key, Some(&whole), true),
                    Err(what) => {
                        if count > 0 {
                            let text = format!("entry {} at slot {slot}: {what}", key.escape_ascii());
                            self.report.damage("overflow", &self.file, Some(leaf.page), text);
                        }
                        leaf.push(&key, None, true);
                    }
                },
            }
        }
        let rows = leaf.entries.iter().filter(|e| e.2).count() as u64;
        if count > 0 {
            self.rows.fetch_add(rows, SeqCst)
        } else {
            self.rows.fetch_sub(rows, SeqCst)
        };
        self.visitor.leaf(&leaf, count);
    }

    fn long_value(&self, reference: &[u8]) -> Result<Vec<u8>, String> {
        let at = reference.try_into().map_err(|_| format!("a reference of {} bytes", reference.len()))?;
        read_long(&self.folder, self.tree, OverflowRef::from_bytes(at)).map_err(|e| e.to_string())
    }

    /// Takes leaves back that are no part of the tree.
    pub(super) fn take_back(&self, leaves: &[u32]) {
        for page in leaves {
            if let Ok(bytes) = self.folder.page(self.tree.0, *page) {
                self.visit(PageRef::new(&bytes), -1);
            }
        }
    }

    /// Checks that long values are whole and nobody else's; gives the number of pages they use.
    pub(super) fn check_values(&self, infos: &[Info], seen: &mut [bool]) {
        let values = std::mem::take(&mut *self.values.lock());
        let mut done: HashMap<u32, (OverflowRef, u32)> = HashMap::new();
        for (value, owner) in values {
            let first = value.page.0;
            if value.is_rest() {
                mark(infos, seen, first);
                continue;
            }
            if let Some((other, page)) = done.get(&first) {
                if *other != value {
                    let text = format!(
                        "the long value at page {first} is {value:?} for page {owner}, {other:?} for page {page}"
                    );
                    self.report.damage("overflow", &self.file, Some(first), text);
                }
                continue;
            }
            done.insert(first, (value, owner));
            if let Err((page, what)) = follow(infos, seen, value) {
                self.report.damage(
                    "overflow",
                    &self.file,
                    Some(page),
                    format!("{what} (an entry on page {owner} refers to it)"),
                );
            }
        }
        for (tree, first) in self.history.kept_values.iter().filter(|(tree, _)| *tree == self.tree.0) {
            debug_assert_eq!(*tree, self.tree.0);
            if !done.contains_key(first) {
                mark(infos, seen, *first);
            }
        }
    }
}

/// Walks a long value's pages, marking them as seen.
fn follow(infos: &[Info], seen: &mut [bool], value: OverflowRef) -> Result<(), (u32, String)> {
    let (mut next, mut len, mut crc) = (value.page.0, 0u64, 0u32);
    while next != 0 {
        let Some(info) = infos.get(next as usize).filter(|i| i.kind == KIND_OVERFLOW) else {
            return Err((next, "not a page of a long value".into()));
        };
        if std::mem::replace(&mut seen[next as usize], true) {
            return Err((next, "belongs to two long values".into()));
        }
        if !info.allocated {
            return Err((next, "part of a long value, but free according to the map".into()));
        }
        crc = crc32c_combine(crc, info.low as u32, info.high as usize);
        len += info.high;
        next = info.right;
    }
    let found = (len, crc);
    let expected = (u64::from(value.len), value.crc);
    match found == expected {
        true => Ok(()),
        false => Err((
            value.page.0,
            format!(
                "a long value of {len} bytes with checksum {crc:#x}, expected {} bytes with {:#x}",
                expected.0, expected.1
            ),
        )),
    }
}

/// Marks the pages of a long value that only purge knows.
fn mark(infos: &[Info], seen: &mut [bool], first: u32) {
    let mut next = first;
    while let Some(info) = infos.get(next as usize).filter(|i| next != 0 && i.kind == KIND_OVERFLOW) {
        if std::mem::replace(&mut seen[next as usize], true) {
            return;
        }
        next = info.right;
    }
}

/// Reads a long value. Waits.
fn read_long(folder: &Folder, tree: TreeId, at: OverflowRef) -> StoreResult<Vec<u8>> {
    let mut out = Vec::with_capacity(at.len as usize);
    let corrupt =
        |page: u32, what: &str| StoreError::Corrupt { file: file_name(tree), page, what: what.into() };
    let mut next = at.page;
    while next.0 != 0 {
        let bytes = folder.page(tree.0, next.0)?;
        let page = PageRef::new(&bytes);
        let is_part = page.kind() == KIND_OVERFLOW && (1..=CHAIN_ROOM).contains(&page.heap());
        if !is_part || out.len() > at.len as usize {
            return Err(corrupt(next.0, "not part of the long value"));
        }
        out.extend_from_slice(&page.bytes()[HEADER..HEADER + page.heap()]);
        next = PageNo(page.right());
    }
    match out.len() == at.len as usize && crc32c(&out) == at.crc {
        true => Ok(out),
        false => Err(corrupt(at.page.0, "long value does not fit its checksum")),
    }
}

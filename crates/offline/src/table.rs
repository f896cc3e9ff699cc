//! One table: its rows, its counters, its indexes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hashbrown::{HashMap, HashSet};
use keel_base::TreeId;
use keel_storage::inspect::{Folder, Leaf, Report, Visitor, tree};
use keel_value::row::RowRef;
use parking_lot::Mutex;

use super::sums::{CLASSES, Sums, class_of, hashes};
use super::{Inspection, Summary};
use keel_catalog::counter::counted;
use keel_catalog::row_entries::clustered_key;
use keel_catalog::row_entries::{EntryBuffers, write_clustered_key, write_entry};
use keel_catalog::{IndexDef, TableDef};

/// Entries that are collected to name those that differ.
const COLLECTED_MAX: u64 = 200_000;
/// Entries named for one index.
const NAMED_MAX: usize = 20;

/// Entries that differ: by their hashes, how often rows ask for them less how often they are there, and their keys.
type Differences = Mutex<HashMap<(u64, u64), (i64, Vec<u8>)>>;

/// What rows say of one secondary index.
struct Expected {
    position: usize,
    sums: Sums,
}

/// Looks at the rows of a table.
struct Rows {
    table: Arc<TableDef>,
    report: Arc<Report>,
    file: String,
    expected: Vec<Arc<Expected>>,
    counter_max: AtomicU64,
    number_max: AtomicU64,
    unread: AtomicU64,
}

/// Looks at the entries of an index.
struct Entries {
    table: Arc<TableDef>,
    expected: Arc<Expected>,
    report: Arc<Report>,
    file: String,
    /// Of each leaf of a unique index the hashes of its first and last values.
    ends: Mutex<HashMap<u32, (u64, u64)>>,
    unread: AtomicBool,
}

/// Checks a table and its indexes; the trees looked at go to `seen`. Waits.
pub(super) fn check(
    inspection: &Inspection,
    table: &TableDef,
    seen: &mut HashSet<TreeId>,
    summary: &mut Summary,
) {
    let table = Arc::new(table.record().offline());
    let secondary = (0..table.indexes.len()).filter(|position| table.clustered != Some(*position));
    let expected: Vec<Arc<Expected>> =
        secondary.map(|position| Arc::new(Expected { position, sums: Sums::new() })).collect();
    let rows = Arc::new(Rows::new(&table, &inspection.report, expected.clone()));
    let mut counters = HashMap::new();
    let outcome = look(inspection, table.tree_id, rows.clone(), seen);
    counters.insert(table.tree_id, outcome.counter);
    summary.rows += outcome.rows;
    let rows_whole = !outcome.has_lost && rows.unread.load(Relaxed) == 0;
    for expected in expected {
        let index = &table.indexes[expected.position];
        let entries = Arc::new(Entries::new(&table, &inspection.report, expected.clone()));
        let found = look(inspection, index.tree_id, entries.clone(), seen);
        counters.insert(index.tree_id, found.counter);
        summary.entries += found.rows;
        entries.check_order(&found.order);
        let unequal = expected.sums.unequal();
        if unequal.is_empty() {
            continue;
        }
        let whole = rows_whole && !found.has_lost && !entries.unread.load(Relaxed);
        let counts = format!("{} entries for {} rows", found.rows, outcome.rows);
        if !whole {
            let text =
                format!("holds {counts}; entries and rows are not compared one by one where pages are lost");
            inspection.report.damage("index", &entries.file, None, text);
            continue;
        }
        inspection.report.damage(
            "index",
            &entries.file,
            None,
            format!("does not agree with the rows: {counts}"),
        );
        name_differences(inspection, &table, &expected, &unequal, outcome.rows.max(found.rows));
    }
    if rows_whole {
        rows.check_counters(&counters);
    }
}

fn look(
    inspection: &Inspection,
    id: TreeId,
    visitor: Arc<dyn Visitor>,
    seen: &mut HashSet<TreeId>,
) -> tree::Outcome {
    seen.insert(id);
    if !inspection.folder.has(id) {
        let text = "the file of a table or index is missing";
        inspection.report.damage("missing", &Folder::file_name(id), None, text);
        return tree::Outcome { has_lost: true, ..tree::Outcome::default() };
    }
    inspection.pass(id, visitor)
}

impl Rows {
    fn new(table: &Arc<TableDef>, report: &Arc<Report>, expected: Vec<Arc<Expected>>) -> Rows {
        Rows {
            table: table.clone(),
            report: report.clone(),
            file: Folder::file_name(table.tree_id),
            expected,
            counter_max: AtomicU64::new(0),
            number_max: AtomicU64::new(0),
            unread: AtomicU64::new(0),
        }
    }

    /// Looks at a row; false where it cannot be read.
    fn row(&self, page: u32, key: &[u8], row: &[u8], count: i64, buffers: &mut Buffers) -> bool {
        if let Some(what) = self.table.layout.problem(row) {
            self.report.damage("row", &self.file, Some(page), format!("row {}: {what}", key.escape_ascii()));
            return false;
        }
        let view = RowRef::new(&self.table.layout, row);
        match self.table.clustered_index() {
            Some(index) => {
                write_clustered_key(index, &view, &mut buffers.key);
                if buffers.key != key {
                    let text = format!(
                        "row {} has the columns of row {}",
                        key.escape_ascii(),
                        buffers.key.escape_ascii()
                    );
                    self.report.damage("row", &self.file, Some(page), text);
                }
            }
            None => match key.try_into() {
                Ok(number) => _ = self.number_max.fetch_max(u64::from_be_bytes(number), Relaxed),
                Err(_) => {
                    let text = format!("a hidden row number of {} bytes", key.len());
                    self.report.damage("row", &self.file, Some(page), text);
                }
            },
        }
        if let Some(auto) = self.table.auto_increment {
            let value = counted(view.get(auto.column)).unwrap_or(0).min(u64::MAX - 1);
            self.counter_max.fetch_max(value, Relaxed);
        }
        for expected in &self.expected {
            let index = &self.table.indexes[expected.position];
            write_entry(index, &view, key, &mut buffers.entry);
            expected.sums.add(&buffers.entry.key, &buffers.entry.value, count);
        }
        true
    }

    /// No stored value lies above the counter that gives the next.
    fn check_counters(&self, counters: &HashMap<TreeId, u64>) {
        let check = |tree: TreeId, found: u64, what: &str| {
            let counter = counters.get(&tree).copied().unwrap_or(0);
            if found > counter {
                let text = format!("the counter of {what} stands at {counter}, but there is {found}");
                self.report.damage("counter", &Folder::file_name(tree), Some(0), text);
            }
        };
        if let Some(auto) = self.table.auto_increment {
            check(self.table.indexes[auto.index].tree_id, self.counter_max.load(Relaxed), "AUTO_INCREMENT");
        }
        if self.table.clustered.is_none() {
            check(self.table.tree_id, self.number_max.load(Relaxed), "hidden row numbers");
        }
    }
}

#[derive(Default)]
struct Buffers {
    key: Vec<u8>,
    entry: EntryBuffers,
}

impl Visitor for Rows {
    fn leaf(&self, leaf: &Leaf, count: i64) {
        let mut buffers = Buffers::default();
        for entry in leaf.entries().filter(|entry| entry.live) {
            let read = entry.row.is_some_and(|row| self.row(leaf.page, entry.key, row, count, &mut buffers));
            if !read {
                self.unread.fetch_add(1, Relaxed);
            }
        }
    }
}

impl Entries {
    fn new(table: &Arc<TableDef>, report: &Arc<Report>, expected: Arc<Expected>) -> Entries {
        let file = Folder::file_name(table.indexes[expected.position].tree_id);
        Entries {
            table: table.clone(),
            expected,
            report: report.clone(),
            file,
            ends: Mutex::default(),
            unread: AtomicBool::new(false),
        }
    }

    fn index(&self) -> &IndexDef {
        &self.table.indexes[self.expected.position]
    }

    fn twice(&self, page: u32, key: &[u8]) {
        let text = format!("unique values stand twice: {}", key.escape_ascii());
        self.report.damage("unique", &self.file, Some(page), text);
    }

    /// Compares the values where leaves meet.
    fn check_order(&self, order: &[u32]) {
        let ends = self.ends.lock();
        let mut last = None;
        for page in order {
            let Some((first, end)) = ends.get(page) else { continue };
            if last == Some(*first) {
                self.report.damage(
                    "unique",
                    &self.file,
                    Some(*page),
                    "its first unique values are its left neighbour's last",
                );
            }
            last = Some(*end);
        }
    }
}

impl Visitor for Entries {
    fn leaf(&self, leaf: &Leaf, count: i64) {
        let index = self.index();
        let mut last: Option<&[u8]> = None;
        let mut ends = None;
        for entry in leaf.entries().filter(|entry| entry.live) {
            let Some(row) = entry.row else {
                self.unread.store(true, Relaxed);
                continue;
            };
            let Some((parts, has_null)) = parts_of(index, entry.key) else {
                let text =
                    format!("key {} is not made of the columns of the index", entry.key.escape_ascii());
                self.report.damage("row", &self.file, Some(leaf.page), text);
                self.unread.store(true, Relaxed);
                continue;
            };
            if let Some(what) = index.entry.problem(row) {
                let text = format!("entry {}: {what}", entry.key.escape_ascii());
                self.report.damage("row", &self.file, Some(leaf.page), text);
                self.unread.store(true, Relaxed);
                continue;
            }
            self.expected.sums.add(entry.key, row, -count);
            if !index.is_unique() || has_null || count < 0 {
                continue;
            }
            let parts = &entry.key[..parts];
            if last == Some(parts) {
                self.twice(leaf.page, parts);
            }
            last = Some(parts);
            let hash = hashes(parts, &[]).0;
            ends = Some((ends.map_or(hash, |(first, _)| first), hash));
        }
        if let Some(ends) = ends {
            self.ends.lock().insert(leaf.page, ends);
        }
    }
}

/// Bytes of an index key before the clustered key, and whether one of its columns is NULL.
fn parts_of(index: &IndexDef, key: &[u8]) -> Option<(usize, bool)> {
    let (mut at, mut has_null) = (0, false);
    for encoder in &index.encoders {
        if encoder.nullable {
            has_null |= *key.get(at)? == if encoder.descending { u8::MAX } else { 0 };
        }
        at += encoder.skip(&key[at..])?;
    }
    (at <= key.len()).then_some((at, has_null))
}

/// Collects the entries of some classes.
struct Collector {
    table: Arc<TableDef>,
    expected: Arc<Expected>,
    wanted: Vec<bool>,
    rows: bool,
    found: Arc<Differences>,
}

impl Visitor for Collector {
    fn leaf(&self, leaf: &Leaf, count: i64) {
        let index = &self.table.indexes[self.expected.position];
        let mut entry_buffers = EntryBuffers::default();
        for entry in leaf.entries().filter(|entry| entry.live) {
            let Some(row) = entry.row else { continue };
            let (key, value, count) = if self.rows {
                write_entry(index, &RowRef::new(&self.table.layout, row), entry.key, &mut entry_buffers);
                (&entry_buffers.key[..], &entry_buffers.value[..], count)
            } else {
                (entry.key, row, -count)
            };
            if self.wanted[class_of(key)] {
                let mut found = self.found.lock();
                found.entry(hashes(key, value)).or_insert_with(|| (0, key.to_vec())).0 += count;
            }
        }
    }
}

/// Reads rows and index again and names entries that differ.
fn name_differences(
    inspection: &Inspection,
    table: &Arc<TableDef>,
    expected: &Arc<Expected>,
    unequal: &[usize],
    entries: u64,
) {
    let index = &table.indexes[expected.position];
    let classes = (COLLECTED_MAX * CLASSES as u64 / entries.max(1)).max(1) as usize;
    let mut wanted = vec![false; CLASSES];
    unequal.iter().take(classes).for_each(|class| wanted[*class] = true);
    let found: Arc<Differences> = Arc::default();
    // What there is to say of the pages was said.
    let silent = Arc::new(Report::new(|_| {}));
    for (id, rows) in [(table.tree_id, true), (index.tree_id, false)] {
        let (table, expected, wanted) = (table.clone(), expected.clone(), wanted.clone());
        let collector = Arc::new(Collector { table, expected, wanted, rows, found: found.clone() });
        tree::pass(&inspection.folder, &inspection.history, &silent, id, collector, &Arc::default());
    }
    let found = found.lock();
    let mut differing: Vec<(&[u8], i64)> = found
        .values()
        .filter(|(count, _)| *count != 0)
        .map(|(count, key)| (key.as_slice(), *count))
        .collect();
    differing.sort_unstable();
    let file = Folder::file_name(index.tree_id);
    for same_key in differing.chunk_by(|a, b| a.0 == b.0).take(NAMED_MAX) {
        let (key, row) = (same_key[0].0.escape_ascii(), clustered_key(index, same_key[0].0).escape_ascii());
        let text = match same_key {
            [(_, 1..)] => format!("row {row} has no entry: {key} is missing"),
            [(_, _)] => format!("entry {key} has no row {row} with these values"),
            _ => format!("entry {key} holds other values than row {row}"),
        };
        inspection.report.damage("index", &file, None, text);
    }
}

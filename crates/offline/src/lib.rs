//! Inspecting a data folder that no server runs on: `keel check`, and `keel salvage` ([`Inspection::salvage`]).
//!
//! The storage engine reads the files and says what is wrong with pages, trees and versions
//! ([`keel_storage::inspect`]); here stands what only SQL knows: which tree belongs to which table, whether rows decode by
//! the table's columns, and whether every index says what the rows say. Rows and index entries are compared without
//! looking anything up: each row gives the entry that each index should hold, and the sums of the hashes of both sides must
//! agree, in each of a thousand classes. Only where they do not, the entries of a few classes are collected and named.

#![forbid(unsafe_code)]

mod catalog;
pub mod command;
mod literal;
mod salvage;
mod sums;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashSet;
use keel_base::TreeId;
use keel_storage::inspect::{Folder, History, Leaf, Report, Visitor, tree};

use keel_catalog::TableDef;
use keel_catalog::store::is_of_table;
use keel_catalog::xid::Xid;

pub use catalog::{Known, read_catalog};
pub use salvage::Salvaged;

/// Everything that a check needs at hand.
pub struct Inspection {
    /// The files.
    pub folder: Arc<Folder>,
    /// The undo log.
    pub history: Arc<History>,
    /// Where findings go.
    pub report: Arc<Report>,
    /// Bytes of files read so far; at the end about as many as [`Inspection::bytes`].
    pub progress: Arc<AtomicU64>,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    /// Tables.
    pub tables: u64,
    /// Files of trees.
    pub trees: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Index entries beside them.
    pub entries: u64,
}

/// Takes nothing.
struct Nobody;

impl Visitor for Nobody {
    fn leaf(&self, _: &Leaf, _: i64) {}
}

impl Inspection {
    /// Reads the undo log of `folder`. Waits.
    pub fn new(folder: Folder, report: Arc<Report>) -> Inspection {
        let history = Arc::new(History::read(&folder, &report));
        Inspection { folder: Arc::new(folder), history, report, progress: Arc::default() }
    }

    /// Bytes to read.
    pub fn bytes(&self) -> u64 {
        self.folder.bytes()
    }

    fn pass(&self, tree: TreeId, visitor: Arc<dyn Visitor>) -> tree::Outcome {
        tree::pass(&self.folder, &self.history, &self.report, tree, visitor, &self.progress)
    }

    /// Checks everything. Waits.
    pub fn check(&self) -> Summary {
        let known = read_catalog(self);
        for table in &known.tables {
            self.name(table);
        }
        self.tell_prepared();
        let mut summary = Summary::default();
        self.pass(TreeId(0), Arc::new(Nobody));
        let mut seen = HashSet::from([TreeId(0)]);
        seen.extend(known.system.iter().copied());
        for table in &known.tables {
            summary.tables += 1;
            table::check(self, table, &mut seen, &mut summary);
        }
        for id in self.folder.trees() {
            if seen.insert(id) {
                self.check_unowned(id, &known);
            }
        }
        for (id, note) in &known.registry {
            if !self.folder.has(*id) && !seen.contains(id) {
                let text = format!("registered as {:?}, but there is no file", String::from_utf8_lossy(note));
                self.report.damage("missing", &Folder::file_name(*id), None, text);
            }
        }
        summary.trees = self.folder.trees().len() as u64;
        self.report.finish();
        self.progress.store(self.bytes(), Ordering::Relaxed);
        summary
    }

    /// Names the branches that wait for their verdict.
    fn tell_prepared(&self) {
        for found in &self.history.prepared {
            let name = Xid::from_bytes(&found.name).map(|xid| xid.shown());
            let name = name.unwrap_or_else(|| format!("of unknown form, {}", found.name.escape_ascii()));
            let text = format!(
                "branch {name} is prepared, with {} changes: rows are as they are without them until XA COMMIT",
                found.changes
            );
            self.report.note("prepared", &Folder::file_name(TreeId(0)), None, text);
        }
    }

    /// A file that no table of the catalog names.
    fn check_unowned(&self, id: TreeId, known: &Known) {
        let file = Folder::file_name(id);
        match known.registry.iter().find(|(tree, _)| *tree == id) {
            _ if !known.complete => {}
            None => {
                let text = "no row of the registry names it: the next start removes it";
                self.report.note("orphan", &file, None, text);
                return;
            }
            Some((_, note)) if is_of_table(note) => {
                let text = "no table names it, as a definition leaves it that a crash cut short: the next start removes it";
                self.report.note("orphan", &file, None, text);
            }
            Some((_, note)) => {
                let text = format!("a tree of unknown use: {:?}", String::from_utf8_lossy(note));
                self.report.note("orphan", &file, None, text);
            }
        }
        self.pass(id, Arc::new(Nobody));
    }

    /// Tells the report which files are a table's.
    fn name(&self, table: &TableDef) {
        let name = format!("{}.{}", table.schema, table.name);
        self.report.name(&Folder::file_name(table.tree_id), &format!("table {name}"));
        for (position, index) in table.indexes.iter().enumerate() {
            if table.clustered != Some(position) {
                let object = format!("index {} of table {name}", index.name);
                self.report.name(&Folder::file_name(index.tree_id), &object);
            }
        }
    }
}

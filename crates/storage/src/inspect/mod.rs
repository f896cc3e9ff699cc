//! Looking at a data folder that no server runs on, without writing to it.
//!
//! [`Folder`] is the folder as the next start would see it: a page torn by a crash is taken from the doublewrite file, and
//! the log from the checkpoint on is applied to copies of the pages in a temporary file outside of the folder. What is
//! wrong goes to a [`Report`]; reading goes on with what is left. [`History`] is the undo log: which transactions have not
//! ended, which are not purged, and what an entry was before. [`tree::pass`] reads one tree's file from its first page to
//! its last, checks pages and structure, and hands out the entries as they are once what is unfinished is rolled back.
//!
//! 1. No file of the folder is opened for writing, none is made, renamed or removed.
//! 2. Nothing that was read is trusted: offsets are checked before they are followed, links before they are walked, and
//!    walks have bounds.
//! 3. Memory: read buffers and a cache of pages within [`Limits::memory`], and beside that 32 bytes for each page of the
//!    file at hand, 8 for each page that the log changes and 64 for each transaction that is not purged.

mod cache;
mod files;
mod history;
mod jumps;
mod log;
mod replay;
mod report;
mod shape;
pub mod tree;

use std::path::PathBuf;

pub use files::Folder;
pub use history::{History, Prepared, Settled};
pub use log::LogFacts;
pub use report::{Finding, Report, Severity};
pub use tree::{Entry, Leaf, Outcome, Visitor};

/// What an inspection may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes for cached pages.
    pub memory: u64,
    /// Files read at the same time, each by a fiber.
    pub readers: usize,
    /// Where copies of pages go that the log changes; outside of the data folder.
    pub temporary: PathBuf,
}

impl Limits {
    /// 128 MiB and two readers a worker.
    pub fn new(temporary: PathBuf) -> Limits {
        Limits { memory: 128 << 20, readers: 2 * keel_runtime::worker_count().max(1), temporary }
    }
}

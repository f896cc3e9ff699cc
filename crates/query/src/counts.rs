//! What operators do while a statement is analyzed: how often they began, rows they read and gave, time they took.
//!
//! A plan made for ANALYZE has counts at its operators; any other plan has none, and its rows pass no code that counts.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use keel_storage::runtime::time::{self, Instant};

/// The counts of one operator.
#[derive(Debug, Default)]
pub struct Counts {
    loops: AtomicU64,
    rows: AtomicU64,
    passed: AtomicU64,
    nanos: AtomicU64,
}

/// What was counted so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    /// Beginnings.
    pub loops: u64,
    /// Rows read.
    pub rows: u64,
    /// Rows that fulfilled all conditions.
    pub passed: u64,
    /// Time taken.
    pub nanos: u64,
}

/// Hands out the counts of a plan that is being made.
#[derive(Debug, Default)]
pub struct Counting(RefCell<Vec<Arc<Counts>>>);

impl Counting {
    /// Counts for one more operator.
    pub fn one_more(&self) -> Arc<Counts> {
        let counts = Arc::<Counts>::default();
        self.0.borrow_mut().push(counts.clone());
        counts
    }

    /// All that were handed out.
    pub fn into_all(self) -> Vec<Arc<Counts>> {
        self.0.into_inner()
    }
}

impl Counts {
    /// It begins anew.
    pub fn begin(&self) {
        self.loops.fetch_add(1, Relaxed);
    }

    /// It has read a row.
    pub fn read(&self) {
        self.rows.fetch_add(1, Relaxed);
    }

    /// It has read so many rows.
    pub fn read_all(&self, rows: u64) {
        self.rows.fetch_add(rows, Relaxed);
    }

    /// It gives a row.
    pub fn pass(&self) {
        self.passed.fetch_add(1, Relaxed);
    }

    /// It has worked since then.
    pub fn spend(&self, since: Instant) {
        self.nanos.fetch_add(time::now().since(since).as_nanos() as u64, Relaxed);
    }

    /// Nothing was done yet.
    pub fn clear(&self) {
        [&self.loops, &self.rows, &self.passed, &self.nanos].into_iter().for_each(|n| n.store(0, Relaxed));
    }

    /// What was counted.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            loops: self.loops.load(Relaxed),
            rows: self.rows.load(Relaxed),
            passed: self.passed.load(Relaxed),
            nanos: self.nanos.load(Relaxed),
        }
    }
}

impl Figures {
    /// Rows read each time; none where it never began.
    pub fn rows_each(&self) -> Option<f64> {
        (self.loops > 0).then(|| self.rows as f64 / self.loops as f64)
    }

    /// The share of rows that fulfilled all conditions, of a hundred; none where it never began.
    pub fn filtered(&self) -> Option<f64> {
        match (self.loops, self.rows) {
            (0, _) => None,
            (_, 0) => Some(100.0),
            (_, rows) => Some(self.passed as f64 * 100.0 / rows as f64),
        }
    }

    /// The time in milliseconds.
    pub fn millis(&self) -> f64 {
        self.nanos as f64 / 1e6
    }
}

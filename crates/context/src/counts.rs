//! What operators do while a statement is analyzed: how often they began, rows they read and gave, time they took.
//!
//! A plan made for ANALYZE has counts at its operators; any other plan has none, and its rows pass no code that counts.
//!
//! To look at the clock takes as long as to read a row. The first calls of an operator are timed, among them those that do
//! the work for others, as a hash join's; of later ones each `EVERY`th, which stands for the others.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use keel_storage::runtime::time::{self, Instant};

/// Calls that are all timed.
const TIMED: u64 = 1024;
/// Of later calls the one that is timed. No multiple of what operators do in turn: a row, then no more.
const EVERY: u64 = 13;

/// The counts of one operator. One fiber counts, others may look.
#[derive(Debug, Default)]
pub struct Counts {
    loops: AtomicU64,
    /// Calls for rows.
    calls: AtomicU64,
    rows: AtomicU64,
    passed: AtomicU64,
    nanos: AtomicU64,
}

/// A call that is timed.
pub struct Timed {
    began: Instant,
    /// The calls that it stands for.
    calls: u64,
}

impl Timed {
    /// The call of that number, if it is to be timed.
    #[inline]
    fn of(number: u64) -> Option<Timed> {
        let calls = match number {
            ..TIMED => 1,
            _ if number.is_multiple_of(EVERY) => EVERY,
            _ => return None,
        };
        Some(Timed { began: time::now(), calls })
    }
}

/// Adds to what nobody else adds to.
#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

/// What was counted so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
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
        add(&self.loops, 1);
    }

    /// The same, timed until [`Counts::end`].
    pub fn begin_timed(&self) -> Option<Timed> {
        self.begin();
        Timed::of(self.loops.load(Relaxed) - 1)
    }

    /// It is asked for a row, timed until [`Counts::end`].
    pub fn call(&self) -> Option<Timed> {
        add(&self.calls, 1);
        Timed::of(self.calls.load(Relaxed) - 1)
    }

    /// It has read a row.
    pub fn read(&self) {
        add(&self.rows, 1);
    }

    /// It has read so many rows.
    pub fn read_all(&self, rows: u64) {
        add(&self.rows, rows);
    }

    /// It gives a row.
    pub fn pass(&self) {
        add(&self.passed, 1);
    }

    /// It has worked since then.
    pub fn spend(&self, since: Instant) {
        add(&self.nanos, time::now().since(since).as_nanos() as u64);
    }

    /// A call is over.
    pub fn end(&self, timed: Option<Timed>) {
        if let Some(Timed { began, calls }) = timed {
            add(&self.nanos, time::now().since(began).as_nanos() as u64 * calls);
        }
    }

    /// Nothing was done yet.
    pub fn clear(&self) {
        let all = [&self.loops, &self.calls, &self.rows, &self.passed, &self.nanos];
        all.into_iter().for_each(|n| n.store(0, Relaxed));
    }

    /// What was counted.
    pub fn figures(&self) -> Figures {
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

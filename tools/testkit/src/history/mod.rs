//! Histories of transactions, and what they must not show: a checker in the manner of Elle (Kingsbury and Alvaro, VLDB 2020).
//!
//! Each key holds a list. Transactions append elements that nobody else appends and read lists, so a list that was read
//! tells which transactions it came from and in which order they wrote. From that follow the dependencies between
//! transactions (who wrote behind whom, who read from whom, who read what another overwrote), and a cycle of them is an
//! anomaly. A list that does not exist is empty: so a range read that misses a row has read something, too.
//!
//! [`session`] makes histories, through any client, of any server; [`check`] judges them.

pub mod check;
mod graph;
pub mod session;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// An isolation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// READ UNCOMMITTED.
    ReadUncommitted,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ, as InnoDB has it: plain reads from one snapshot, all else from what is newest.
    RepeatableRead,
    /// REPEATABLE READ with `innodb_snapshot_isolation`: what has changed since the snapshot cannot be locked.
    Snapshot,
    /// SERIALIZABLE.
    Serializable,
}

impl Level {
    /// All of them.
    pub const ALL: [Level; 5] = [
        Level::ReadUncommitted,
        Level::ReadCommitted,
        Level::RepeatableRead,
        Level::Snapshot,
        Level::Serializable,
    ];

    /// Statements that set it for a session.
    pub fn statements(self) -> [&'static str; 2] {
        let level = match self {
            Level::ReadUncommitted => "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
            Level::ReadCommitted => "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            Level::RepeatableRead | Level::Snapshot => {
                "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
            }
            Level::Serializable => "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        };
        let isolation = match self {
            Level::Snapshot => "SET SESSION innodb_snapshot_isolation = ON",
            _ => "SET SESSION innodb_snapshot_isolation = OFF",
        };
        [level, isolation]
    }
}

/// A key of a list.
pub type Key = u32;
/// An element; nobody appends it twice to one key.
pub type Element = u64;
/// Lists by key; a key that was looked for and not found has an empty one.
pub type Lists = BTreeMap<Key, Vec<Element>>;

/// What one statement did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Appended the element to the lists of these keys.
    Append(Vec<Key>, Element),
    /// Read lists by a plain SELECT.
    Read(Lists),
    /// Read lists and locked them; with `gaps` those that are missing too.
    Lock {
        /// What was read.
        lists: Lists,
        /// Whether nobody can make a missing one until the end.
        gaps: bool,
    },
    /// Took the snapshot, reading nothing.
    Snapshot,
    /// Took appends of before back: ROLLBACK TO SAVEPOINT.
    Undo(Vec<(Key, Element)>),
}

/// A statement: what it did, and when it was sent and answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it did.
    pub op: Op,
    /// When it was sent.
    pub sent: u64,
    /// When it was answered.
    pub answered: u64,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The commit was acknowledged.
    Committed,
    /// It was rolled back, by the client or by the server.
    Aborted,
    /// The connection was lost first.
    Unknown,
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Who ran it.
    pub session: usize,
    /// Its statements that succeeded.
    pub steps: Vec<Step>,
    /// When it began.
    pub began: u64,
    /// When its end was asked for.
    pub ending: u64,
    /// When its end was answered.
    pub ended: u64,
    /// How.
    pub end: End,
}

/// Transactions of one isolation level, and the lists as they were at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The level of all.
    pub level: Level,
    /// All, in any order.
    pub transactions: Vec<Transaction>,
    /// Read when nobody wrote any more.
    pub last: Lists,
}

/// Collects what sessions do, and gives out time and elements.
#[derive(Default)]
pub struct Recorder {
    clock: AtomicU64,
    elements: AtomicU64,
    transactions: Mutex<Vec<Transaction>>,
    /// By session, what is known of those on their way, should nothing more become known.
    open: Mutex<BTreeMap<usize, Transaction>>,
}

impl Recorder {
    /// A moment behind all others so far.
    pub fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// An element that was not given before.
    pub fn element(&self) -> Element {
        self.elements.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Elements given so far.
    pub fn element_count(&self) -> u64 {
        self.elements.load(Ordering::SeqCst)
    }

    /// Notes how a transaction stands that is on its way: `end` as it is to be counted if nothing more becomes known.
    pub fn note(&self, transaction: Transaction) {
        self.open.lock().expect("nobody panics with it").insert(transaction.session, transaction);
    }

    /// Keeps a transaction that is over.
    pub fn keep(&self, transaction: Transaction) {
        self.open.lock().expect("nobody panics with it").remove(&transaction.session);
        self.transactions.lock().expect("nobody panics with it").push(transaction);
    }

    /// Everybody is gone, clients too: what was on its way stays as it was last noted.
    pub fn after_crash(&self) {
        let open = std::mem::take(&mut *self.open.lock().expect("nobody panics with it"));
        self.transactions.lock().expect("nobody panics with it").extend(open.into_values());
    }

    /// Everything, with the lists as they are now.
    pub fn history(&self, level: Level, last: Lists) -> History {
        History {
            level,
            transactions: self.transactions.lock().expect("nobody panics with it").clone(),
            last,
        }
    }
}

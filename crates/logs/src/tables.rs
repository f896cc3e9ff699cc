//! The contents of `mysql.general_log` and `mysql.slow_log`: the latest entries of each log, in memory.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Bytes of a statement that a table keeps.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// The maximum size of all entries of a table in bytes; the oldest entries are removed first.
const TABLE_BYTES_MAX: usize = 8 << 20;
/// The approximate size of an entry without its text.
const ENTRY_BYTES: usize = 256;

/// The names of the tables.
pub const NAMES: [&str; 2] = ["general_log", "slow_log"];

/// A row of `mysql.general_log`.
#[derive(Clone)]
pub struct GeneralRow {
    /// Microseconds since 1970.
    pub time: i64,
    /// The account, as `user[user] @ host [address]`.
    pub user_host: Box<str>,
    /// The connection id.
    pub thread: u64,
    /// The name of the command.
    pub command: Box<str>,
    /// The text of the statement.
    pub argument: Box<[u8]>,
}

/// A row of `mysql.slow_log`.
#[derive(Clone)]
pub struct SlowRow {
    /// Start of the statement in microseconds since 1970.
    pub time: i64,
    /// The account, as `user[user] @ host [address]`.
    pub user_host: Box<str>,
    /// Duration of the statement.
    pub query_micros: i64,
    /// Time spent waiting for locks.
    pub lock_micros: i64,
    /// Rows of the result.
    pub rows_sent: u64,
    /// Rows that the statement read.
    pub rows_examined: u64,
    /// The default database.
    pub database: Box<str>,
    /// The text of the statement.
    pub text: Box<[u8]>,
    /// The connection id.
    pub thread: u64,
    /// Rows that the statement changed.
    pub rows_affected: u64,
}

/// An entry of a log table.
pub trait Entry {
    /// Its size in memory.
    fn bytes(&self) -> usize;
}

impl Entry for GeneralRow {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.argument.len()
    }
}

impl Entry for SlowRow {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.text.len()
    }
}

/// The latest entries of a log.
pub struct Ring<T> {
    inner: Mutex<(VecDeque<T>, usize)>,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Ring { inner: Mutex::new((VecDeque::new(), 0)) }
    }
}

impl<T: Entry + Clone> Ring<T> {
    /// Adds an entry, and removes the oldest ones if there are too many.
    pub fn push(&self, entry: T) {
        let mut inner = self.inner.lock();
        inner.1 += entry.bytes();
        inner.0.push_back(entry);
        while inner.1 > TABLE_BYTES_MAX
            && let Some(oldest) = inner.0.pop_front()
        {
            inner.1 -= oldest.bytes();
        }
    }

    /// Removes all entries (TRUNCATE TABLE).
    pub fn clear(&self) {
        *self.inner.lock() = (VecDeque::new(), 0);
    }

    /// A copy of all entries, the oldest first.
    pub fn all(&self) -> Vec<T> {
        self.inner.lock().0.iter().cloned().collect()
    }
}

/// The log tables of a server.
#[derive(Default)]
pub struct Tables {
    /// `mysql.general_log`.
    pub general: Ring<GeneralRow>,
    /// `mysql.slow_log`.
    pub slow: Ring<SlowRow>,
}

impl Tables {
    /// Empties the table of that name.
    pub fn truncate(&self, name: &str) {
        match name {
            "general_log" => self.general.clear(),
            _ => self.slow.clear(),
        }
    }
}

/// The part of a statement that a table keeps.
pub fn kept(text: &[u8]) -> Box<[u8]> {
    text[..text.len().min(TEXT_BYTES_MAX)].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room() {
        let ring = Ring::default();
        let text = vec![b'x'; TEXT_BYTES_MAX];
        for thread in 0..200 {
            let (user_host, command) = ("".into(), "Query".into());
            ring.push(GeneralRow { time: 0, user_host, thread, command, argument: kept(&text) });
        }
        let all = ring.all();
        assert!(all.len() < 130 && all.last().unwrap().thread == 199, "{}", all.len());
        ring.clear();
        assert!(ring.all().is_empty());
    }
}

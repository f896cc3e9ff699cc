//! `mysql.general_log` and `mysql.slow_log`: the last entries, in memory.

use std::collections::VecDeque;

use keel_value::{Time, Value};
use parking_lot::Mutex;

use crate::schema::{RowMaker, View, moment, number, text};

/// Octets of a statement that a table keeps.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Octets of all entries of a table; the oldest make room.
const TABLE_BYTES_MAX: usize = 8 << 20;
/// What an entry takes beside its texts, about.
const ENTRY_BYTES: usize = 256;

/// The names of the tables.
pub const NAMES: [&str; 2] = ["general_log", "slow_log"];

/// A row of `mysql.general_log`.
#[derive(Clone)]
pub struct GeneralRow {
    /// Microseconds since 1970.
    pub time: i64,
    /// Who.
    pub user_host: Box<str>,
    /// On which connection.
    pub thread: u64,
    /// Which command.
    pub command: Box<str>,
    /// Its statement.
    pub argument: Box<[u8]>,
}

/// A row of `mysql.slow_log`.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct SlowRow {
    pub time: i64,
    pub user_host: Box<str>,
    pub query_micros: i64,
    pub lock_micros: i64,
    pub rows_sent: u64,
    pub rows_examined: u64,
    pub database: Box<str>,
    pub last_insert_id: u64,
    pub text: Box<[u8]>,
    pub thread: u64,
    pub rows_affected: u64,
}

trait Entry {
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

/// The last entries of a log.
pub struct Ring<T> {
    inner: Mutex<(VecDeque<T>, usize)>,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Ring { inner: Mutex::new((VecDeque::new(), 0)) }
    }
}

#[allow(private_bounds)]
impl<T: Entry + Clone> Ring<T> {
    /// Adds an entry; the oldest go where there are too many.
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

    /// TRUNCATE.
    pub fn clear(&self) {
        *self.inner.lock() = (VecDeque::new(), 0);
    }

    /// All entries now, the oldest first.
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

/// What a table keeps of a statement.
pub fn kept(text: &[u8]) -> Box<[u8]> {
    text[..text.len().min(TEXT_BYTES_MAX)].into()
}

/// Makes the rows of a log table; false where it is none.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) -> bool {
    let server = view.state.globals.named("server_id").as_u64();
    let octets = |bytes: &[u8]| text(String::from_utf8_lossy(bytes));
    let time = |micros: i64| Value::Time(Time { micros });
    match rows.table() {
        "general_log" => {
            for row in view.state.logs.tables.general.all() {
                rows.row([
                    ("event_time", moment(view, row.time)),
                    ("user_host", text(&row.user_host)),
                    ("thread_id", number(row.thread)),
                    ("server_id", number(server)),
                    ("command_type", text(&row.command)),
                    ("argument", octets(&row.argument)),
                ]);
            }
        }
        "slow_log" => {
            for row in view.state.logs.tables.slow.all() {
                rows.row([
                    ("start_time", moment(view, row.time)),
                    ("user_host", text(&row.user_host)),
                    ("query_time", time(row.query_micros)),
                    ("lock_time", time(row.lock_micros)),
                    ("rows_sent", number(row.rows_sent)),
                    ("rows_examined", number(row.rows_examined)),
                    ("db", text(&row.database)),
                    ("last_insert_id", number(row.last_insert_id)),
                    ("insert_id", number(0)),
                    ("server_id", number(server)),
                    ("sql_text", octets(&row.text)),
                    ("thread_id", number(row.thread)),
                    ("rows_affected", number(row.rows_affected)),
                ]);
            }
        }
        _ => return false,
    }
    true
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

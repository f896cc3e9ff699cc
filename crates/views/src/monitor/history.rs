//! The statements of a session's open transaction, mainly for the record of deadlocks.
//!
//! A statement is added when it ends and its transaction stays open; the running statement is in the process list. The first
//! [`TEXT_BYTES_MAX`] bytes of each are kept, and [`PARAMETERS_BYTES_MAX`] bytes of its parameters. A transaction keeps at
//! most [`OWN_BYTES_MAX`] bytes with its entries, all sessions together what [`Room`] allows. The oldest statements are
//! removed first, and counted. The end of the transaction removes all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use keel_logs::secrets::{hidden, hidden_values};
use keel_runtime::time::Instant;
use keel_value::{SqlType, TypeKind, Value, convert};

/// The kept bytes of a statement's text.
pub const TEXT_BYTES_MAX: usize = 1024;
/// The kept bytes of a statement's parameters, as text.
pub const PARAMETERS_BYTES_MAX: usize = 256;
/// The kept bytes of one parameter.
const PARAMETER_BYTES_MAX: usize = 64;
/// The maximum size of the statements of one transaction.
pub const OWN_BYTES_MAX: usize = 64 << 10;
/// The bytes that each session may keep without taking from [`Room`].
const FREE_BYTES: usize = 2 << 10;
/// The bytes of [`Room`], for all sessions.
pub const ALL_BYTES_MAX: usize = 16 << 20;

/// The memory that all sessions share beyond their own bytes.
#[derive(Default)]
pub struct Room {
    taken: AtomicUsize,
}

impl Room {
    fn take(&self, bytes: usize) -> bool {
        let more = |taken: usize| Some(taken + bytes).filter(|taken| *taken <= ALL_BYTES_MAX);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// One statement in the log.
struct Entry {
    since: Instant,
    /// The length of the whole text in bytes.
    text_len: u32,
    kept: u16,
    parameters: u16,
}

/// A copy of a statement for views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// When it began.
    pub since: Instant,
    /// The text, or its beginning.
    pub text: Box<[u8]>,
    /// The length of the whole text in bytes.
    pub text_len: u64,
    /// Its parameters, if it was prepared, as SQL writes them.
    pub parameters: Box<[u8]>,
}

/// The ended statements of an open transaction.
pub struct History {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    lost: u64,
    /// The bytes that it may keep.
    allowed: usize,
    room: Arc<Room>,
}

/// The beginning of a text, without a part of a character at its end.
pub fn beginning(text: &[u8], max: usize) -> &[u8] {
    if text.len() <= max {
        return text;
    }
    let is_start = |index: &usize| text[*index] & 0xC0 != 0x80;
    let end = (max.saturating_sub(3)..=max).rev().find(is_start).unwrap_or(max);
    &text[..end]
}

impl History {
    /// No statements.
    pub fn new(room: Arc<Room>) -> History {
        History { bytes: Vec::new(), entries: Vec::new(), lost: 0, allowed: FREE_BYTES, room }
    }

    /// Adds a statement that has ended.
    #[inline]
    pub fn push(&mut self, since: Instant, text: &[u8], parameters: &[u8]) {
        let kept = beginning(text, TEXT_BYTES_MAX);
        let parameters = &parameters[..parameters.len().min(PARAMETERS_BYTES_MAX)];
        let need = kept.len() + parameters.len() + size_of::<Entry>();
        if self.taken() + need > self.allowed {
            self.make_room(need);
        }
        self.bytes.extend_from_slice(kept);
        self.bytes.extend_from_slice(parameters);
        self.entries.push(Entry {
            since,
            text_len: text.len() as u32,
            kept: kept.len() as u16,
            parameters: parameters.len() as u16,
        });
    }

    fn taken(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry>()
    }

    /// Doubles the bytes that it may keep, or removes the older half of the statements.
    #[cold]
    fn make_room(&mut self, need: usize) {
        while self.taken() + need > self.allowed {
            if self.allowed < OWN_BYTES_MAX && self.room.take(self.allowed) {
                self.allowed *= 2;
                continue;
            }
            let half = self.entries.len().div_ceil(2);
            let bytes: usize =
                self.entries[..half].iter().map(|e| usize::from(e.kept) + usize::from(e.parameters)).sum();
            self.entries.drain(..half);
            self.bytes.drain(..bytes);
            self.lost += half as u64;
            if half == 0 {
                return;
            }
        }
    }

    /// Removes all statements at the end of the transaction.
    #[inline]
    pub fn clear(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        self.bytes.clear();
        self.entries.clear();
        self.lost = 0;
        if self.allowed > FREE_BYTES {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&mut self) {
        self.room.give(self.allowed - FREE_BYTES);
        self.allowed = FREE_BYTES;
        self.bytes = Vec::new();
        self.entries = Vec::new();
    }

    /// The number of removed statements.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The kept statements, the oldest first.
    pub fn statements(&self) -> impl Iterator<Item = Statement> {
        let mut rest = self.bytes.as_slice();
        self.entries.iter().map(move |entry| {
            let (text, behind) = rest.split_at(usize::from(entry.kept));
            let (parameters, behind) = behind.split_at(usize::from(entry.parameters));
            rest = behind;
            Statement {
                since: entry.since,
                text: (*hidden(text)).into(),
                text_len: u64::from(entry.text_len),
                parameters: hidden_values(text, parameters).into(),
            }
        })
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.room.give(self.allowed - FREE_BYTES);
    }
}

/// Appends the values of a statement's parameters as SQL writes them, as far as they are kept.
pub fn append_parameters(values: &[Value], out: &mut Vec<u8>) {
    use std::io::Write;
    for (index, value) in values.iter().enumerate() {
        if out.len() + 2 >= PARAMETERS_BYTES_MAX {
            break;
        }
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        // Writing into a Vec cannot fail.
        let _ = match value {
            Value::Null => out.write_all(b"NULL"),
            Value::Int(v) => write!(out, "{v}"),
            Value::UInt(v) => write!(out, "{v}"),
            Value::Double(v) => write!(out, "{v}"),
            Value::Float(v) => write!(out, "{v}"),
            Value::Decimal(v) => write!(out, "{v}"),
            Value::Date(_) | Value::Time(_) | Value::DateTime(_) | Value::Fixed(_) => {
                append_time(value, out);
                Ok(())
            }
            Value::Bytes(bytes) => {
                append_text(bytes, out);
                Ok(())
            }
        };
    }
    out.truncate(PARAMETERS_BYTES_MAX);
}

fn append_time(value: &Value, out: &mut Vec<u8>) {
    let ty = match value {
        Value::Date(_) => SqlType::new(TypeKind::Date),
        Value::Time(_) => SqlType::temporal(TypeKind::Time, 6),
        Value::Fixed(v) => SqlType::new(v.kind().type_kind()),
        _ => SqlType::temporal(TypeKind::DateTime, 6),
    };
    out.push(b'\'');
    convert::to_text(value.as_ref(), &ty, out);
    out.push(b'\'');
}

/// Appends a text in quotes; dots stand for what is left out.
fn append_text(text: &[u8], out: &mut Vec<u8>) {
    let kept = beginning(text, PARAMETER_BYTES_MAX);
    out.push(b'\'');
    for byte in kept {
        match byte {
            b'\'' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0 => out.extend_from_slice(b"\\0"),
            _ => out.push(*byte),
        }
    }
    if kept.len() < text.len() {
        out.extend_from_slice(b"...");
    }
    out.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(history: &History) -> Vec<String> {
        history.statements().map(|s| String::from_utf8_lossy(&s.text).into_owned()).collect()
    }

    #[test]
    fn statements_are_kept_in_order_until_the_transaction_ends() {
        let mut history = History::new(Arc::default());
        history.push(Instant(1), b"SELECT 1", b"");
        history.push(Instant(2), b"UPDATE t SET a = ?", b"7");
        assert_eq!(texts(&history), ["SELECT 1", "UPDATE t SET a = ?"]);
        let last = history.statements().last().unwrap();
        assert_eq!((last.since, last.text_len, &*last.parameters), (Instant(2), 18, &b"7"[..]));
        history.clear();
        assert_eq!(texts(&history), [""; 0]);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut history = History::new(Arc::default());
        let text = "ä".repeat(600);
        history.push(Instant(1), format!("x{text}").as_bytes(), b"");
        let kept = history.statements().next().unwrap();
        assert_eq!((kept.text.len(), kept.text_len), (1023, 1201));
        assert!(std::str::from_utf8(&kept.text).is_ok());
    }

    #[test]
    fn the_oldest_leave_first_and_memory_is_bounded_and_given_back() {
        let room = Arc::new(Room::default());
        let mut history = History::new(room.clone());
        for number in 0..10_000 {
            history.push(Instant(number), format!("SELECT {number}").as_bytes(), b"");
        }
        assert!(history.taken() <= OWN_BYTES_MAX && history.bytes.capacity() <= OWN_BYTES_MAX);
        let kept = texts(&history);
        assert_eq!(kept.len() as u64 + history.lost(), 10_000);
        assert_eq!(kept.last().unwrap(), "SELECT 9999");
        assert_eq!(room.taken.load(Ordering::Relaxed), OWN_BYTES_MAX - FREE_BYTES);
        history.clear();
        assert_eq!((room.taken.load(Ordering::Relaxed), history.bytes.capacity(), history.lost()), (0, 0, 0));
    }

    #[test]
    fn all_sessions_share_what_is_not_free() {
        let room = Arc::new(Room::default());
        assert!(room.take(ALL_BYTES_MAX - 100));
        let mut history = History::new(room.clone());
        (0..1000).for_each(|n| history.push(Instant(n), b"SELECT 'a text of some length'", b""));
        assert!(history.taken() <= FREE_BYTES && history.lost() > 900, "{}", history.taken());
        drop(history);
        assert_eq!(room.taken.load(Ordering::Relaxed), ALL_BYTES_MAX - 100);
    }

    #[test]
    fn parameters_are_written_as_sql_and_cut() {
        let mut out = Vec::new();
        append_parameters(&[Value::Int(-3), Value::Null, Value::bytes(b"it's")], &mut out);
        assert_eq!(out, br"-3, NULL, 'it\'s'");
        out.clear();
        append_parameters(&[Value::bytes(&[b'a'; 100])], &mut out);
        assert_eq!(out.len(), 64 + 5);
        out.clear();
        append_parameters(&vec![Value::UInt(u64::MAX); 1000], &mut out);
        assert_eq!(out.len(), PARAMETERS_BYTES_MAX);
    }
}

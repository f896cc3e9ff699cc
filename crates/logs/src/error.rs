//! Lines of the error log, in MariaDB's format.

use keel_runtime::time;
use keel_value::DateTime;

use crate::local;

/// The severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Information.
    Note,
    /// A condition that may need attention.
    Warning,
    /// A failure.
    Error,
}

/// `2026-11-23  4:03:36 7 [Warning] text`
pub fn line(severity: Severity, thread: u64, text: &str) -> String {
    let word = match severity {
        Severity::Note => "Note",
        Severity::Warning => "Warning",
        Severity::Error => "ERROR",
    };
    let DateTime { date, hour, minute, second, .. } = local(time::unix_micros());
    let (year, month, day) = (date.year, date.month, date.day);
    format!("{year:04}-{month:02}-{day:02} {hour:2}:{minute:02}:{second:02} {thread} [{word}] {text}\n")
}

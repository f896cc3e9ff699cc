//! The general log, the slow log and the error log, in MariaDB's formats.
//!
//! While the general and the slow log are off, a statement costs one load of [`Logs::on`]. Entries go to buffers that a fiber
//! writes to the files, or to tables in memory ([`tables`]), as `log_output` says. A crash loses the buffers and the tables.
//! [`secrets`] removes passwords from statement texts for the logs and for all views.
//!
//! 1. The crate knows no sessions: callers pass the account and the measurements of a statement.
//! 2. A log never blocks a statement for longer than a second; see `writer.rs`.
#![forbid(unsafe_code)]

mod error;
mod expand;
pub mod secrets;
mod slow;
pub mod tables;
mod tokens;
mod writer;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use keel_runtime::fs::{self, File, OpenOptions};
use keel_runtime::sync::Mutex;
use keel_runtime::time;
use keel_value::DateTime;

use keel_settings::variables::{Globals, Setting};

pub use error::Severity;
pub use expand::expand;
pub use slow::SlowRecord;
pub use writer::Which;

use tables::{GeneralRow, Tables};
use writer::Writer;

/// Bit of [`Logs::on`]: the general log.
pub const GENERAL: u8 = 1;
/// Bit of [`Logs::on`]: the slow log.
pub const SLOW: u8 = 2;

/// Bits of `log_output`.
const FILE: u8 = 1;
const TABLE: u8 = 2;

/// The logs of a server.
pub struct Logs {
    on: AtomicU8,
    outputs: AtomicU8,
    /// `log_warnings`.
    level: AtomicU64,
    folder: PathBuf,
    has_error_file: bool,
    writer: Arc<Writer>,
    /// The contents of the log tables.
    pub tables: Tables,
    /// Held while a variable of the logs changes, so that the open files match the variables.
    pub changing: Mutex<()>,
}

/// The connection that an entry belongs to.
pub struct Who<'a> {
    /// The connection id.
    pub id: u64,
    /// `user[user] @ host [address]`
    pub user_host: &'a str,
}

impl Logs {
    /// The logs of a server with the data folder `folder`. No file is opened. `error_log` is the file of the error log;
    /// without one the error log goes to the standard error.
    pub fn new(folder: &Path, error_log: Option<PathBuf>) -> Logs {
        Logs {
            on: AtomicU8::new(0),
            outputs: AtomicU8::new(FILE),
            level: AtomicU64::new(2),
            folder: folder.to_path_buf(),
            has_error_file: error_log.is_some(),
            writer: Arc::new(Writer::new(error_log)),
            tables: Tables::default(),
            changing: Mutex::new(()),
        }
    }

    /// Starts the writing fiber and opens the logs that are on. `header` is the first text of the general and the slow
    /// log.
    pub fn start(&self, globals: &Globals, header: String) {
        self.writer.start(header);
        for name in [
            "log_output",
            "log_warnings",
            "general_log_file",
            "slow_query_log_file",
            "general_log",
            "slow_query_log",
        ] {
            self.changed(name, &globals.named(name));
        }
    }

    /// Writes pending texts and ends the fiber.
    pub fn stop(&self) {
        self.writer.stop();
    }

    /// The logs that are on, as bits.
    #[inline]
    pub fn on(&self) -> u8 {
        self.on.load(Ordering::Relaxed)
    }

    /// Applies a changed global variable; variables of other areas are ignored.
    pub fn changed(&self, name: &str, setting: &Setting) {
        match name {
            "log_output" => {
                let words = setting.show();
                let has = |word: &str| words.split(',').any(|own| own == word);
                let bit = |word, bit| if has(word) && !has("NONE") { bit } else { 0 };
                self.outputs.store(bit("FILE", FILE) | bit("TABLE", TABLE), Ordering::Relaxed);
                self.open_files();
            }
            "log_warnings" => self.level.store(setting.as_u64(), Ordering::Relaxed),
            "general_log_file" => self.writer.set_path(Which::General, &self.folder.join(setting.show())),
            "slow_query_log_file" => self.writer.set_path(Which::Slow, &self.folder.join(setting.show())),
            "general_log" => self.switch(GENERAL, setting.is_on()),
            "slow_query_log" => self.switch(SLOW, setting.is_on()),
            _ => {}
        }
    }

    fn switch(&self, bit: u8, on: bool) {
        match on {
            true => self.on.fetch_or(bit, Ordering::Relaxed),
            false => self.on.fetch_and(!bit, Ordering::Relaxed),
        };
        self.open_files();
    }

    /// Opens the files of the logs that are on, and closes the others.
    fn open_files(&self) {
        let has_files = self.outputs.load(Ordering::Relaxed) & FILE != 0;
        for (bit, which) in [(GENERAL, Which::General), (SLOW, Which::Slow)] {
            self.writer.set_open(which, has_files && self.on() & bit != 0);
        }
    }

    /// FLUSH LOGS: writes pending texts and reopens the files by name. Waits; false if the disk fails or takes too long.
    pub fn flush(&self, which: &[Which]) -> bool {
        self.writer.reopen(which)
    }

    /// Logs a command in the general log.
    pub fn general(&self, who: &Who<'_>, command: &str, text: &[u8]) {
        let outputs = self.outputs.load(Ordering::Relaxed);
        let now = time::unix_micros();
        // These have no statement text.
        let text = match command {
            "Connect" | "Change user" => Cow::Borrowed(text),
            _ => secrets::hidden(text),
        };
        if outputs & FILE != 0 {
            let second = now.div_euclid(1_000_000);
            self.writer.append(Which::General, |stamp| {
                let mut line = match std::mem::replace(&mut stamp.second, second) {
                    last if last == second => b"\t".to_vec(),
                    _ => short_time(now).into_bytes(),
                };
                line.extend_from_slice(format!("\t{:6} {command}\t", who.id).as_bytes());
                line.extend_from_slice(&text);
                line.push(b'\n');
                line
            });
        }
        if outputs & TABLE != 0 {
            self.tables.general.push(GeneralRow {
                time: now,
                user_host: who.user_host.into(),
                thread: who.id,
                command: command.into(),
                argument: tables::kept(&text),
            });
        }
    }

    /// Logs a statement in the slow log.
    pub fn slow(&self, who: &Who<'_>, record: &SlowRecord<'_>) {
        let outputs = self.outputs.load(Ordering::Relaxed);
        if outputs & FILE != 0 {
            self.writer.append(Which::Slow, |stamp| record.text(who, stamp));
        }
        if outputs & TABLE != 0 {
            self.tables.slow.push(record.row(who));
        }
    }

    /// Logs a line in the error log; `thread` is 0 for the server itself. Without a file the line goes to the standard
    /// error, except notes, which the `keel` command prints itself.
    pub fn error(&self, severity: Severity, thread: u64, text: &str) {
        if severity == Severity::Note && !self.has_error_file {
            return;
        }
        self.writer.append(Which::Error, |_| error::line(severity, thread, text).into_bytes());
    }

    /// Logs notes that a variable asks for, also without a file. `write` receives a function that makes a line of a text.
    pub fn asked(&self, thread: u64, write: impl FnOnce(&dyn Fn(&str) -> String) -> String) {
        let text = write(&|text| error::line(Severity::Note, thread, text));
        self.writer.append(Which::Error, |_| text.clone().into_bytes());
    }

    /// As [`Logs::error`], if `log_warnings` is above `level`.
    pub fn error_above(&self, level: u64, severity: Severity, thread: u64, text: &str) {
        if self.level.load(Ordering::Relaxed) > level {
            self.error(severity, thread, text);
        }
    }
}

/// The maximum length of client data in a line.
const LINE_CHARS_MAX: usize = 1000;

/// A text with client data as one line: control characters are replaced, so that a client cannot forge a line.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if text.len() <= LINE_CHARS_MAX && !text.contains(char::is_control) {
        return text.into();
    }
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().take(LINE_CHARS_MAX).map(shown).collect()
}

/// Whether the general log or the slow log may be written to a file of this name; if not, SET returns error 1231.
pub fn can_be_log(folder: &Path, name: &str) -> bool {
    let path = folder.join(name);
    if name.is_empty()
        || name.ends_with("my.cnf")
        || name.ends_with("my.ini")
        || is_of_engine(folder, &path)
        || is_no_log(&path)
    {
        return false;
    }
    path.parent().is_some_and(fs::is_dir)
}

/// Whether a path is one of the server's own files.
fn is_of_engine(folder: &Path, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let ends = [".kt", ".kd", ".pem", ".lock"].iter().any(|end| name.ends_with(end));
    path.starts_with(folder) && (ends || name.starts_with("redo.") || matches!(name, "FORMAT" | "LOCK"))
}

/// Whether a path is a folder, a device, a pipe or a socket, or is not writable.
fn is_no_log(path: &Path) -> bool {
    let writing = OpenOptions { write: true, ..OpenOptions::default() };
    match fs::status(path) {
        Ok(known) => !known.is_file || File::open(path, &writing).is_err(),
        Err(_) => false,
    }
}

/// A time in the zone of the server.
fn local(unix_micros: i64) -> DateTime {
    let utc =
        DateTime::from_unix(unix_micros.div_euclid(1_000_000), unix_micros.rem_euclid(1_000_000) as u32);
    keel_value::convert::timestamp_to_local(utc, &keel_value::temporal::Utc)
}

/// `261123  4:03:36`
fn short_time(unix_micros: i64) -> String {
    let DateTime { date, hour, minute, second, .. } = local(unix_micros);
    format!("{:02}{:02}{:02} {hour:2}:{minute:02}:{second:02}", date.year % 100, date.month, date.day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_short_as_mariadbs() {
        assert_eq!(short_time(1_795_406_616_000_000), "261123  4:03:36");
    }

    #[test]
    fn names_make_no_lines() {
        assert_eq!(one_line("a'b"), "a'b");
        assert_eq!(one_line("a\nb\u{1b}c"), "a?b?c");
        assert_eq!(one_line(&"x".repeat(70_000)).len(), LINE_CHARS_MAX);
    }

    #[test]
    fn option_files_are_no_logs() {
        let folder = std::env::temp_dir();
        assert!(can_be_log(&folder, "x.log"));
        for name in [
            "redo.0",
            "trees/t1.kt",
            "FORMAT",
            "",
            "my.cnf",
            "x/my.ini",
            "/nosuch/dir/x.log",
            "/dev/null",
            "/tmp",
        ] {
            assert!(!can_be_log(&folder, name), "{name}");
        }
    }
}

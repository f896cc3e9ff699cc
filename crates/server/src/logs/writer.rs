//! Log files: what sessions append is written by one fiber.
//!
//! 1. A file has [`PENDING_BYTES_MAX`] octets at most that are not written. Who has more to say waits for room, a second
//!    at most; then its text is left out, and the error log tells how many were.
//! 2. Octets go behind the end that the file has at that time, so that a file that was emptied is written from its
//!    beginning; one that was renamed is written until it is opened anew.
//! 3. A file that cannot be written loses what was pending for it, once told in the error log.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use keel_runtime::fs::{File, OpenOptions, Sync};
use keel_runtime::sync::Event;
use keel_runtime::wait::WaitEvent;
use keel_runtime::{fiber, time};
use parking_lot::Mutex;

use super::error::{self, Severity};

/// Octets of a log that wait to be written.
const PENDING_BYTES_MAX: usize = 4 << 20;
/// A longer buffer is given back once it is written.
const BUFFER_BYTES_KEPT: usize = 64 << 10;
/// How long somebody waits for room.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(1);
/// How long FLUSH LOGS and a stop wait for the disk.
const SETTLE_WAIT_MAX: Duration = Duration::from_secs(10);

/// One of the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The general log.
    General,
    /// The slow log.
    Slow,
    /// The error log.
    Error,
}

const ALL: [Which; 3] = [Which::General, Which::Slow, Which::Error];

/// One log's file, as sessions see it.
#[derive(Default)]
struct Target {
    path: Option<PathBuf>,
    is_open: bool,
    /// Goes up when the file is to be opened anew.
    generation: u64,
    pending: Vec<u8>,
    /// Texts left out for want of room.
    left_out: u64,
}

#[derive(Default)]
struct Inner {
    targets: [Target; 3],
    header: String,
    /// Rounds of the fiber that have begun, and that have ended.
    begun: u64,
    ended: u64,
    stopped: bool,
}

/// The files of all logs.
pub struct Writer {
    inner: Mutex<Inner>,
    /// There is something to do.
    work: Event,
    /// A round has ended.
    done: Event,
}

/// A file as the fiber has it.
#[derive(Default)]
struct Opened {
    file: Option<File>,
    generation: u64,
    has_failed: bool,
}

impl Writer {
    /// Files that are not open, but for the error log's, where it has one.
    pub fn new(error_log: Option<PathBuf>) -> Writer {
        let mut inner = Inner::default();
        inner.targets[Which::Error as usize] = Target { path: error_log, is_open: true, ..Target::default() };
        Writer { inner: Mutex::new(inner), work: Event::new(), done: Event::new() }
    }

    /// Starts the fiber.
    pub fn start(self: &Arc<Self>, header: String) {
        self.inner.lock().header = header;
        let writer = self.clone();
        fiber::spawn(move || writer.run());
    }

    /// Writes all that is pending and ends the fiber.
    pub fn stop(&self) {
        self.settle();
        self.inner.lock().stopped = true;
        self.work.set();
    }

    /// The file's name from now on.
    pub fn set_path(&self, which: Which, path: &Path) {
        if self.is_open(which) {
            // What was said before belongs to the old one.
            self.settle();
        }
        {
            let mut inner = self.inner.lock();
            let target = &mut inner.targets[which as usize];
            if target.path.as_deref() != Some(path) {
                target.path = Some(path.to_path_buf());
                target.generation += 1;
            }
        }
        self.work.set();
    }

    fn is_open(&self, which: Which) -> bool {
        self.inner.lock().targets[which as usize].is_open
    }

    /// Opens or closes a log, which is then told nothing more.
    pub fn set_open(&self, which: Which, open: bool) {
        if self.is_open(which) == open {
            return;
        }
        if !open {
            self.settle();
        }
        {
            let mut inner = self.inner.lock();
            let target = &mut inner.targets[which as usize];
            target.is_open = open;
            target.generation += 1;
        }
        self.work.set();
    }

    /// Writes what is pending and opens the files anew. Waits until that is done.
    pub fn reopen(&self, which: &[Which]) {
        self.settle();
        {
            let mut inner = self.inner.lock();
            which.iter().for_each(|which| inner.targets[*which as usize].generation += 1);
        }
        self.settle();
    }

    /// Waits for a round of the fiber that begins from now on.
    fn settle(&self) {
        let deadline = time::now() + SETTLE_WAIT_MAX;
        let wanted = self.inner.lock().begun + 1;
        while self.inner.lock().ended < wanted && time::now() < deadline {
            self.done.clear();
            self.work.set();
            if self.inner.lock().ended < wanted {
                self.done.wait_until(WaitEvent::FileSystem, deadline);
            }
        }
    }

    /// Appends to a log.
    pub fn append(&self, which: Which, text: &[u8]) {
        if !self.try_append(which, text) {
            self.done.clear();
            self.work.set();
            self.done.wait_until(WaitEvent::FileSystem, time::now() + ROOM_WAIT_MAX);
            if !self.try_append(which, text) {
                self.inner.lock().targets[which as usize].left_out += 1;
            }
        }
    }

    /// False where there is no room.
    fn try_append(&self, which: Which, text: &[u8]) -> bool {
        let was_empty = {
            let mut inner = self.inner.lock();
            let target = &mut inner.targets[which as usize];
            if !target.is_open {
                return true;
            }
            if !target.pending.is_empty() && target.pending.len() + text.len() > PENDING_BYTES_MAX {
                return false;
            }
            let was_empty = target.pending.is_empty();
            target.pending.extend_from_slice(text);
            was_empty
        };
        if was_empty {
            self.work.set();
        }
        true
    }

    fn run(&self) {
        let mut opened: [Opened; 3] = Default::default();
        let mut buffer = Vec::new();
        loop {
            self.work.wait(WaitEvent::Idle);
            self.work.clear();
            self.inner.lock().begun += 1;
            for which in ALL {
                self.write_out(which, &mut opened[which as usize], &mut buffer);
            }
            let mut inner = self.inner.lock();
            inner.ended = inner.begun;
            let stopped = inner.stopped;
            drop(inner);
            self.done.set();
            if stopped {
                return;
            }
        }
    }

    /// Writes one log's pending octets.
    fn write_out(&self, which: Which, opened: &mut Opened, buffer: &mut Vec<u8>) {
        buffer.clear();
        if buffer.capacity() > BUFFER_BYTES_KEPT {
            *buffer = Vec::new();
        }
        let (path, generation, left_out, header) = {
            let mut inner = self.inner.lock();
            let header = inner.header.clone();
            let target = &mut inner.targets[which as usize];
            std::mem::swap(&mut target.pending, buffer);
            let path = if target.is_open { target.path.clone() } else { None };
            (path, target.generation, std::mem::take(&mut target.left_out), header)
        };
        if left_out > 0 {
            let text = format!("{left_out} entries of a log were left out: its file is written too slowly");
            self.tell(&error::line(Severity::Warning, 0, &text));
        }
        let Some(path) = path else {
            if which == Which::Error && !buffer.is_empty() {
                eprint!("{}", String::from_utf8_lossy(buffer));
            }
            *opened = Opened { generation, ..Opened::default() };
            return;
        };
        if let Err(error) = write(which, opened, &path, generation, &header, buffer) {
            opened.file = None;
            if !std::mem::replace(&mut opened.has_failed, true) {
                let text = format!("Could not use {} for logging: {error}", path.display());
                match which {
                    Which::Error => eprint!("{}", error::line(Severity::Error, 0, &text)),
                    _ => self.tell(&error::line(Severity::Error, 0, &text)),
                }
            }
            return;
        }
        opened.has_failed = false;
    }

    /// A line of the fiber's own in the error log; it does not wait for itself.
    fn tell(&self, line: &str) {
        self.try_append(Which::Error, line.as_bytes());
        self.work.set();
    }
}

/// Writes behind the file's end, having opened it where it is not open.
fn write(
    which: Which,
    opened: &mut Opened,
    path: &Path,
    generation: u64,
    header: &str,
    text: &[u8],
) -> std::io::Result<()> {
    let file = match &opened.file {
        Some(file) if opened.generation == generation => file,
        _ => {
            opened.generation = generation;
            let file = File::open(path, &OpenOptions { private: true, ..OpenOptions::creating() })?
                .with_event(WaitEvent::FileSystem);
            if which != Which::Error {
                file.write_at(header.as_bytes(), file.len()?, Sync::None)?;
            }
            opened.file.insert(file)
        }
    };
    if text.is_empty() { Ok(()) } else { file.write_at(text, file.len()?, Sync::None) }
}

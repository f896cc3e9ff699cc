//! Log files. Sessions append to buffers; one fiber writes the buffers to the files.
//!
//! 1. A file has at most [`PENDING_BYTES_MAX`] unwritten bytes and one text. A session that appends more waits up to a
//!    second for space. After that its text is dropped, and so are all later ones until there is space. The error log
//!    reports the number of dropped texts.
//! 2. Bytes are written at the end that the file has at that time. A file that was truncated is written from its start; a
//!    file that was renamed is written until it is reopened.
//! 3. If a file cannot be written, its pending texts are lost and the error log reports it once. When the file can be written
//!    again, the error log reports the number of lost texts.
//! 4. Texts that were appended before a file is reopened go to the old file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use keel_runtime::fs::{File, OpenOptions, Sync};
use keel_runtime::sync::Event;
use keel_runtime::time::Instant;
use keel_runtime::wait::WaitEvent;
use keel_runtime::{fiber, time};
use parking_lot::Mutex;

use crate::error::{self, Severity};

/// The maximum of unwritten bytes of a log.
const PENDING_BYTES_MAX: usize = 4 << 20;
/// A longer buffer is freed once it is written.
const BUFFER_BYTES_KEPT: usize = 64 << 10;
/// The longest wait of a session for space.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(1);
/// The interval at which a waiting caller checks whether a round has ended.
const ROUND_WAIT_MAX: Duration = Duration::from_millis(50);
/// The longest wait of FLUSH LOGS and of a stop for the disk.
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

/// One log's file and its buffer.
#[derive(Default)]
struct Target {
    path: Option<PathBuf>,
    is_open: bool,
    /// Incremented when the file must be reopened.
    generation: u64,
    pending: Vec<u8>,
    /// The number of texts in `pending`.
    texts: u64,
    /// The bytes of `pending` that belong to the file before it is reopened.
    before: usize,
    /// Texts dropped for lack of space.
    left_out: u64,
    /// Sessions do not wait for space: a wait has failed.
    is_stuck: bool,
    /// Time and database of the last text.
    stamp: Stamp,
}

impl Target {
    /// Later texts go to the reopened file.
    fn reopen_next(&mut self) {
        self.generation += 1;
        self.before = self.pending.len();
        self.stamp = Stamp::default();
    }
}

/// Time and database of the last text of a file; the next text omits them if they are the same.
#[derive(Debug)]
pub struct Stamp {
    /// Its time.
    pub second: i64,
    /// Its database.
    pub database: String,
}

impl Default for Stamp {
    fn default() -> Self {
        Stamp { second: -1, database: String::new() }
    }
}

#[derive(Default)]
struct Inner {
    targets: [Target; 3],
    header: String,
    /// Rounds of the fiber that have begun, and that have ended.
    begun: u64,
    ended: u64,
    /// The logs that could not be written in the last round.
    has_failed: [bool; 3],
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
    /// Texts lost since it failed.
    lost: u64,
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

    /// The file's name from now on. That of an open log is opened by the time this returns.
    pub fn set_path(&self, which: Which, path: &Path) {
        let is_open = self.is_open(which);
        if is_open {
            // What was said before belongs to the old one.
            self.settle();
        }
        {
            let mut inner = self.inner.lock();
            let target = &mut inner.targets[which as usize];
            if target.path.as_deref() != Some(path) {
                target.path = Some(path.to_path_buf());
                target.reopen_next();
            }
        }
        if is_open {
            self.settle();
        }
    }

    fn is_open(&self, which: Which) -> bool {
        self.inner.lock().targets[which as usize].is_open
    }

    /// Opens or closes a log, which is then told nothing more. The file is there by the time this returns: who renames it
    /// next finds in it what is said from then on.
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
            target.reopen_next();
        }
        self.settle();
    }

    /// Writes what is pending and opens the files again. Waits until that is done; false where it is not.
    pub fn reopen(&self, which: &[Which]) -> bool {
        {
            let mut inner = self.inner.lock();
            which.iter().for_each(|which| inner.targets[*which as usize].reopen_next());
        }
        self.settle() && which.iter().all(|which| !self.inner.lock().has_failed[*which as usize])
    }

    /// Waits for a round of the fiber that begins from now on; false where the disk takes too long.
    fn settle(&self) -> bool {
        let deadline = time::now() + SETTLE_WAIT_MAX;
        let wanted = self.inner.lock().begun + 1;
        while self.inner.lock().ended < wanted {
            if time::now() >= deadline {
                return false;
            }
            self.wait_for_round(deadline);
        }
        true
    }

    /// Waits until a round has ended, or for a while.
    fn wait_for_round(&self, deadline: Instant) {
        let ended = self.inner.lock().ended;
        self.done.clear();
        self.work.set();
        if self.inner.lock().ended == ended {
            // Others clear it too: it is no more than a hint.
            self.done.wait_until(WaitEvent::FileSystem, deadline.min(time::now() + ROUND_WAIT_MAX));
        }
    }

    /// Appends to a log what `make` makes behind what the file's last text said of itself.
    pub fn append(&self, which: Which, make: impl Fn(&mut Stamp) -> Vec<u8>) {
        let deadline = time::now() + ROOM_WAIT_MAX;
        while !self.try_append(which, &make) {
            let is_stuck = self.inner.lock().targets[which as usize].is_stuck;
            if is_stuck || time::now() >= deadline {
                let target = &mut self.inner.lock().targets[which as usize];
                target.left_out += 1;
                target.is_stuck = true;
                return;
            }
            self.wait_for_round(deadline);
        }
    }

    /// False where there is no room.
    fn try_append(&self, which: Which, make: &impl Fn(&mut Stamp) -> Vec<u8>) -> bool {
        let was_empty = {
            let mut inner = self.inner.lock();
            let target = &mut inner.targets[which as usize];
            if !target.is_open {
                return true;
            }
            if target.pending.len() >= PENDING_BYTES_MAX {
                return false;
            }
            let was_empty = target.pending.is_empty();
            let text = make(&mut target.stamp);
            target.pending.extend_from_slice(&text);
            target.texts += 1;
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

    /// Writes one log's pending bytes.
    fn write_out(&self, which: Which, opened: &mut Opened, buffer: &mut Vec<u8>) {
        buffer.clear();
        if buffer.capacity() > BUFFER_BYTES_KEPT {
            *buffer = Vec::new();
        }
        let (path, generation, before, texts, left_out, header) = {
            let mut inner = self.inner.lock();
            let header = inner.header.clone();
            let target = &mut inner.targets[which as usize];
            std::mem::swap(&mut target.pending, buffer);
            target.is_stuck = false;
            let path = if target.is_open { target.path.clone() } else { None };
            let [before, texts] =
                [std::mem::take(&mut target.before), std::mem::take(&mut target.texts) as usize];
            (path, target.generation, before, texts as u64, std::mem::take(&mut target.left_out), header)
        };
        if left_out > 0 {
            self.tell(
                Severity::Warning,
                &format!("{left_out} entries of a log were left out: its file is written too slowly"),
            );
        }
        let mut result = Ok(());
        let mut now = &buffer[..];
        if opened.generation != generation
            && let Some(file) = opened.file.take()
        {
            result = append_to(&file, &buffer[..before]);
            now = &buffer[before..];
        }
        match &path {
            None => {
                if which == Which::Error {
                    to_stderr(now);
                }
                opened.generation = generation;
            }
            Some(path) => {
                result = result.and(write(which, opened, path, generation, &header, now));
            }
        }
        self.inner.lock().has_failed[which as usize] = result.is_err();
        match result {
            Err(error) => {
                opened.file = None;
                opened.lost += texts;
                if !std::mem::replace(&mut opened.has_failed, true) {
                    let name = path.unwrap_or_default();
                    let text = format!("Could not use {} for logging: {error}", name.display());
                    match which {
                        Which::Error => to_stderr(error::line(Severity::Error, 0, &text).as_bytes()),
                        _ => self.tell(Severity::Error, &text),
                    }
                }
            }
            Ok(()) if std::mem::take(&mut opened.has_failed) => {
                let lost = std::mem::take(&mut opened.lost);
                self.tell(
                    Severity::Warning,
                    &format!("{lost} entries of a log were lost: its file could not be written"),
                );
            }
            Ok(()) => {}
        }
    }

    /// A line of the fiber's own in the error log; it does not wait for itself.
    fn tell(&self, severity: Severity, text: &str) {
        self.try_append(Which::Error, &|_: &mut Stamp| error::line(severity, 0, text).into_bytes());
        self.work.set();
    }
}

/// Writes to the standard error, which may be a pipe that nobody reads, or a file on a full disk.
fn to_stderr(text: &[u8]) {
    if !text.is_empty() {
        // Nobody is left who could be told.
        fiber::blocking(WaitEvent::FileSystem, || drop(std::io::stderr().write_all(text)));
    }
}

fn append_to(file: &File, text: &[u8]) -> std::io::Result<()> {
    if text.is_empty() { Ok(()) } else { file.write_at(text, file.len()?, Sync::None) }
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
            let file = File::open(path, &OpenOptions::creating())?.with_event(WaitEvent::FileSystem);
            if which != Which::Error {
                file.write_at(header.as_bytes(), file.len()?, Sync::None)?;
            }
            opened.file.insert(file)
        }
    };
    append_to(file, text)
}

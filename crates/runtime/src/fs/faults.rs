//! Faults to come: file operations that are made to fail, in tests of what the layers above do then.
//!
//! A simulated world has a list of its own. In the real world there is one list for the process; files look there only if
//! their path was named by a fault when they were opened, so that a program without faults pays nothing.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Kind of file operation, for faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// `read_at` and batches.
    Read,
    /// `write_at`, `set_len`, `allocate` and batches.
    Write,
    /// Syncs of files and folders, and durable writes.
    Sync,
    /// Making, renaming and removing files.
    Name,
}

/// Operations of one kind on some files that fail, after some that do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which operations.
    pub kind: Op,
    /// Part of the paths of the files.
    pub path: String,
    /// What they answer. EINTR and EAGAIN are answers to a first attempt, 0 lets it transfer a part: what the caller of a file
    /// does not notice.
    pub errno: i32,
    /// How many go well before.
    pub after: u64,
    /// How many fail.
    pub times: u64,
}

impl std::str::FromStr for Fault {
    type Err = ();

    /// `write|read|sync|name:PATH:ERRNO:AFTER:TIMES`.
    fn from_str(text: &str) -> Result<Fault, ()> {
        let parts: Vec<&str> = text.split(':').collect();
        let [kind, path, errno, after, times] = parts[..] else { return Err(()) };
        let kind = match kind {
            "read" => Op::Read,
            "write" => Op::Write,
            "sync" => Op::Sync,
            "name" => Op::Name,
            _ => return Err(()),
        };
        let number = |text: &str| text.parse::<u64>().map_err(drop);
        Ok(Fault {
            kind,
            path: path.to_string(),
            errno: errno.parse().map_err(drop)?,
            after: number(after)?,
            times: number(times)?,
        })
    }
}

/// Whether an error only hinders transfers (see [`Fault::errno`]).
pub(crate) fn is_hindrance(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(0 | libc::EINTR | libc::EAGAIN))
}

/// A list of faults.
#[derive(Default, Debug)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    const NONE: Faults = Faults(Vec::new());

    pub fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }
    /// Counts this operation; the first fault of its kind and path decides.
    pub fn check(&mut self, kind: Op, path: &Path) -> io::Result<()> {
        let path = path.to_string_lossy();
        let Some(at) = self.0.iter().position(|f| f.kind == kind && path.contains(&f.path)) else {
            return Ok(());
        };
        let fault = &mut self.0[at];
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        let errno = fault.errno;
        fault.times = fault.times.saturating_sub(1);
        if fault.times == 0 {
            self.0.remove(at);
        }
        Err(io::Error::from_raw_os_error(errno))
    }
    fn names(&self, path: &Path) -> bool {
        let path = path.to_string_lossy();
        self.0.iter().any(|f| path.contains(&f.path))
    }
}

/// Whether any fault was ever set in the real world.
static ARMED: AtomicBool = AtomicBool::new(false);
static REAL: parking_lot::Mutex<Faults> = parking_lot::const_mutex(Faults::NONE);

/// Sets a fault of the real world; files that are open already do not meet it.
pub fn inject(fault: Fault) {
    REAL.lock().add(fault);
    ARMED.store(true, Ordering::Release);
}

/// Whether a file of that name has faults to come.
pub(super) fn is_watched(path: &Path) -> bool {
    ARMED.load(Ordering::Acquire) && REAL.lock().names(path)
}

/// Fails a change of names if a fault of the real world says so.
pub(super) fn check_name(path: &Path) -> io::Result<()> {
    if is_watched(path) { check_call(Op::Name, path) } else { Ok(()) }
}

/// Fails if a fault of the real world says so.
pub(super) fn check(kind: Op, path: &Path) -> io::Result<()> {
    REAL.lock().check(kind, path)
}

/// The same for calls that transfer nothing and are made again until they are done.
pub(super) fn check_call(kind: Op, path: &Path) -> io::Result<()> {
    check(kind, path).or_else(|error| if is_hindrance(&error) { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_waits_for_its_turn_and_ends() {
        let mut faults = Faults::default();
        faults.add("write:redo.:5:1:2".parse().unwrap());
        let mut write = |path: &str| faults.check(Op::Write, Path::new(path)).map_err(|e| e.raw_os_error());
        assert_eq!(write("/d/other"), Ok(()));
        assert_eq!(write("/d/redo.0"), Ok(()));
        assert_eq!(write("/d/redo.1"), Err(Some(5)));
        assert_eq!(write("/d/redo.1"), Err(Some(5)));
        assert_eq!(write("/d/redo.1"), Ok(()));
        assert!("write:redo.:5".parse::<Fault>().is_err() && "move:a:5:1:1".parse::<Fault>().is_err());
    }
}

//! The commands `keel check DIR` and `keel salvage DIR OUT`: their options, their output and their exit codes.
//!
//! The lock files of the folder are locked, so that no server starts on it during the inspection. Nothing in the folder is
//! written.

pub mod check;
mod json;
mod options;
pub mod salvage;

use std::fmt;
use std::path::Path;

use keel_runtime::fs::{self, FileLock};

use keel_storage::folder::LOCKED;

pub use check::check;
pub use options::{Format, InspectOptions, parse_bytes};
pub use salvage::salvage;

/// The result of an inspection, which is the exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No damage.
    Fine = 0,
    /// Damage was found.
    Damaged = 1,
}

/// The reason that an inspection is not possible, in one line.
#[derive(Debug)]
pub struct CannotInspect(pub String);

impl fmt::Display for CannotInspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotInspect {}

/// Checks that `folder` is a data folder and that no server runs on it. Returns its locks.
fn enter(folder: &Path) -> Result<Vec<FileLock>, CannotInspect> {
    let shown = folder.display();
    if !fs::is_dir(folder) {
        return Err(CannotInspect(format!("{shown} is not a folder")));
    }
    let mut locks = Vec::new();
    for name in LOCKED {
        match fs::lock_existing(&folder.join(name)) {
            Ok(lock) => locks.extend(lock),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err(CannotInspect(format!("a server runs on {shown}: stop it first")));
            }
            // Some network file systems cannot lock folders; the locks of the files suffice.
            Err(_) if name.is_empty() => {}
            Err(error) => return Err(CannotInspect(format!("{shown}/{name} cannot be locked: {error}"))),
        }
    }
    if !["trees", "keel.lock"].iter().any(|name| fs::exists(&folder.join(name))) {
        return Err(CannotInspect(format!("{shown} is not a data folder of Keel: it has no folder trees")));
    }
    Ok(locks)
}

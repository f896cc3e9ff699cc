//! `keel check DIR` and `keel salvage DIR OUT`: what a user sees of an inspection.
//!
//! The folder is locked where it has a lock file, so that no server starts on it meanwhile, and nothing in it is written.

pub mod check;
mod json;
mod options;
pub mod salvage;

use std::fmt;
use std::path::Path;

use keel_runtime::fs::{self, FileLock};

use crate::folder::LOCKED;

pub use check::check;
pub use options::{Format, InspectOptions, parse_bytes};
pub use salvage::salvage;

/// How an inspection ended, as the process's exit code says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Fine = 0,
    /// Something is damaged.
    Damaged = 1,
}

/// Why nothing can be inspected; one line.
#[derive(Debug)]
pub struct CannotInspect(pub String);

impl fmt::Display for CannotInspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotInspect {}

/// Makes sure that the folder is one of Keel's, of this format, and that no server runs on it; gives its locks.
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
            // Some network file systems have no locks on folders: the files must do.
            Err(_) if name.is_empty() => {}
            Err(error) => return Err(CannotInspect(format!("{shown}/{name} cannot be locked: {error}"))),
        }
    }
    if !["trees", "keel.lock"].iter().any(|name| fs::exists(&folder.join(name))) {
        return Err(CannotInspect(format!("{shown} is not a data folder of Keel: it has no folder trees")));
    }
    Ok(locks)
}

//! The data folder: making it, locking it, closing it to other users, and its format.
//!
//! 1. A server holds locks on the folder itself and on `LOCK`; the store below holds locks on `keel.lock` and `redo.head`. The
//!    locks belong to the inodes. A second server is kept out as long as one of the four is the file that the first one
//!    uses, so removing lock files under a running server is harmless.
//! 2. `LOCK` holds the state and the process number of the last server. They are for messages and for the length of the
//!    wait; the lock alone decides.
//! 3. `FORMAT` (the version of everything in the folder) is written before anything else, so a start that was cut short is
//!    repeated.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use keel_runtime::fs::{self, File, FileLock, OpenOptions, Sync};
use keel_runtime::{console, fiber, time};
use keel_storage::folder::{FORMAT, LOCK};

use crate::start::StartError;

/// How long a start waits for a server that stops.
const STOPPING_WAIT_MAX: Duration = Duration::from_secs(100);
/// How long a start waits for any other holder of the lock: a server that was killed and still returns its memory, or one
/// that has not yet seen the signal to stop.
const RUNNING_WAIT_MAX: Duration = Duration::from_secs(5);
/// Time between two attempts to get the lock.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(20);

/// Permissions that nobody but the owner has on a folder.
const FOLDER_BITS: u32 = 0o077;
/// Permissions that nobody but owner and group have on a file, and the ones to execute it.
const FILE_BITS: u32 = 0o117;

/// What `LOCK` begins with while a server stops.
const STOPPING: &str = "stopping";

/// The locks that a server has on its data folder.
pub struct FolderLock {
    path: PathBuf,
    _locks: Vec<FileLock>,
}

impl FolderLock {
    /// Says that the server stops, so that the next start waits for it.
    pub fn note_stopping(&self) {
        note_state(&self.path, STOPPING);
    }
}

/// Makes the folder where it is missing, locks it, and checks its format. Returns the lock and lines for the log of the
/// start.
pub fn prepare(folder: &Path) -> Result<(FolderLock, Vec<String>), StartError> {
    let failed = |source| StartError::Folder { path: folder.to_path_buf(), source };
    make_folder(folder).map_err(failed)?;
    let (lock, waited) = wait_for_lock(folder)?;
    let notes = waited.into_iter().chain(close_to_others(folder)).collect();
    let path = folder.join("FORMAT");
    if fs::try_exists(&path).map_err(failed)? {
        let text = fs::read_to_end(&path).map_err(failed)?;
        let found = String::from_utf8_lossy(&text).trim().to_string();
        if found != FORMAT.to_string() {
            return Err(StartError::Format { path: folder.to_path_buf(), found });
        }
        return Ok((lock, notes));
    }
    if let Some(file) = ["ibdata1", "aria_log_control"].into_iter().find(|f| fs::exists(&folder.join(f))) {
        let found = format!("of another server ({file})");
        return Err(StartError::Format { path: folder.to_path_buf(), found });
    }
    fs::write_whole(&path, format!("{FORMAT}\n").as_bytes()).map_err(failed)?;
    Ok((lock, notes))
}

/// Makes a folder, and those above it, durably.
fn make_folder(folder: &Path) -> io::Result<()> {
    let is_missing = |above: &&Path| !above.as_os_str().is_empty() && !fs::exists(above);
    let missing = folder.ancestors().take_while(is_missing).count();
    fs::create_dir_all(folder)?;
    folder.ancestors().skip(1).take(missing).try_for_each(|above| match above.as_os_str().is_empty() {
        true => fs::sync_dir(Path::new(".")),
        false => fs::sync_dir(above),
    })
}

/// Locks the folder; waits a bounded time for another holder to end. Returns a line about the wait, if there was one.
fn wait_for_lock(folder: &Path) -> Result<(FolderLock, Option<String>), StartError> {
    let begun = time::now();
    let (mut is_said, mut note) = (false, None);
    loop {
        match try_lock(folder) {
            Ok(lock) => {
                note_state(folder, "running");
                return Ok((lock, note));
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(source) => return Err(StartError::Folder { path: folder.to_path_buf(), source }),
        }
        let is_stopping = is_stopping(folder);
        let waited = time::now() - begun;
        if waited >= if is_stopping { STOPPING_WAIT_MAX } else { RUNNING_WAIT_MAX } {
            return Err(StartError::InUse(folder.to_path_buf()));
        }
        if is_stopping && !is_said {
            is_said = true;
            console::note(format_args!(
                "waiting for the server that uses the data folder {} to stop",
                folder.display()
            ));
        }
        fiber::sleep(ATTEMPT_INTERVAL);
        let waited = (time::now() - begun).as_millis();
        note = Some(format!("waited {waited} ms for the former server of the data folder to end"));
    }
}

fn try_lock(folder: &Path) -> io::Result<FolderLock> {
    let mut locks = Vec::new();
    match fs::lock_existing(folder) {
        Ok(lock) => locks.extend(lock),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(e),
        // Some network file systems have no locks on folders: the files must do.
        Err(_) => {}
    }
    locks.push(fs::lock_file(&folder.join(LOCK))?);
    Ok(FolderLock { path: folder.to_path_buf(), _locks: locks })
}

/// Writes the state into `LOCK`. Failures are ignored: the text is advice.
fn note_state(folder: &Path, state: &str) {
    let Ok(file) = File::open(&folder.join(LOCK), &OpenOptions::writing()) else { return };
    let text = format!("{state} {}\n", std::process::id());
    // Cut last: a reader never meets an empty file.
    if file.write_at(text.as_bytes(), 0, Sync::None).is_ok() {
        let _ = file.set_len(text.len() as u64);
    }
}

fn is_stopping(folder: &Path) -> bool {
    fs::read_to_end(&folder.join(LOCK)).is_ok_and(|text| text.starts_with(STOPPING.as_bytes()))
}

/// Takes permissions on an existing folder and the server's files in it away from other users. Returns a line that says so.
fn close_to_others(folder: &Path) -> Option<String> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap_or_default().iter().map(|name| folder.join(name)).collect()
    };
    let mut all = vec![(folder.to_path_buf(), FOLDER_BITS)];
    // Folders of databases hold results of SELECT ... INTO OUTFILE, which stay as they are.
    for path in below(folder).into_iter().chain(below(&folder.join("trees"))) {
        let bits = if fs::is_dir(&path) { FOLDER_BITS } else { FILE_BITS };
        all.push((path, bits));
    }
    let (mut closed, mut refused) = (0, None);
    for (path, bits) in all {
        match fs::restrict(&path, bits) {
            Ok(changed) => closed += u64::from(changed),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => _ = refused.get_or_insert((path, e)),
        }
    }
    if let Some((path, e)) = refused {
        return Some(format!("{} cannot be closed to other users: {e}", path.display()));
    }
    (closed > 0).then(|| {
        format!(
            "the data folder {} was open to other users: permissions of {closed} folders and files are \
             reduced to 0700 and 0660",
            folder.display()
        )
    })
}

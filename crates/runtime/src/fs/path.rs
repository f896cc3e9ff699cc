//! Names: folders, renames, locks, whole small files.

use super::faults;
use super::file::{File, OpenOptions, Sync};
use crate::fiber;
use crate::sim::{self, World};
use crate::wait::WaitEvent;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Does `real` on the blocking pool, or `simulated` in a world.
fn either<T: Send>(
    simulated: impl FnOnce(&World) -> io::Result<T>,
    real: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    match sim::world() {
        Some(world) => simulated(world),
        None => fiber::blocking(WaitEvent::FileSystem, real),
    }
}

/// Makes a folder and its parents, with the mode 0700.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let real = || std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    either(|w| w.create_dir_all(path), real)
}
/// Takes the permissions in `bits` away from a file or folder. Returns whether it had any of them. A simulated world has no
/// permissions. Symbolic links are left as they are.
pub fn restrict(path: &Path, bits: u32) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    let real = || {
        let found = std::fs::symlink_metadata(path)?;
        let mode = found.permissions().mode();
        if mode & bits == 0 || found.is_symlink() {
            return Ok(false);
        }
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & 0o7777 & !bits))?;
        Ok(true)
    };
    either(|_| Ok(false), real)
}
/// Removes a file; durable after [`sync_dir`].
pub fn remove_file(path: &Path) -> io::Result<()> {
    either(|w| w.remove_file(path), || faults::check_name(path).and_then(|()| std::fs::remove_file(path)))
}
/// Removes an empty folder; durable after [`sync_dir`] of its parent.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    either(|w| w.remove_dir(path), || std::fs::remove_dir(path))
}
/// Renames a file, replacing the target; durable after [`sync_dir`].
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    either(|w| w.rename(from, to), || faults::check_name(to).and_then(|()| std::fs::rename(from, to)))
}
/// Makes the entries of a folder durable.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    either(
        |w| w.sync_dir(path),
        || {
            if faults::is_watched(path) {
                faults::check_call(faults::Op::Sync, path)?;
            }
            std::fs::File::open(path)?.sync_all()
        },
    )
}
/// Names in a folder, sorted. Names that are not UTF-8 are left out.
pub fn read_dir(path: &Path) -> io::Result<Vec<String>> {
    let mut names = either(
        |w| w.read_dir(path),
        || {
            let entries = std::fs::read_dir(path)?;
            let names = entries.map(|e| Ok(e?.file_name().into_string().ok()));
            Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect::<Vec<_>>())
        },
    )?;
    names.sort();
    Ok(names)
}
/// Is there a file or folder? An error if that cannot be told.
pub fn try_exists(path: &Path) -> io::Result<bool> {
    either(|w| Ok(w.exists(path)), || path.try_exists())
}
/// Is there a file or folder?
pub fn exists(path: &Path) -> bool {
    either(|w| Ok(w.exists(path)), || Ok(path.exists())).unwrap_or(false)
}
/// Is it a folder?
pub fn is_dir(path: &Path) -> bool {
    either(|w| Ok(w.is_dir(path)), || Ok(path.is_dir())).unwrap_or(false)
}
/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStatus {
    /// A regular file: no folder, pipe or device.
    pub is_file: bool,
    /// Every user of the machine may read it.
    pub is_public: bool,
    /// Length in bytes.
    pub len: u64,
}
/// What a name stands for, links followed.
pub fn status(path: &Path) -> io::Result<FileStatus> {
    use std::os::unix::fs::PermissionsExt;
    let real = || {
        let found = std::fs::metadata(path)?;
        let is_public = found.permissions().mode() & 0o004 != 0;
        Ok(FileStatus { is_file: found.is_file(), is_public, len: found.len() })
    };
    let simulated = |w: &World| match (w.is_dir(path), w.exists(path)) {
        (true, _) => Ok(FileStatus { is_file: false, is_public: true, len: 0 }),
        (false, true) => {
            let len = w.open(path, &OpenOptions::reading())?.len();
            Ok(FileStatus { is_file: true, is_public: true, len })
        }
        (false, false) => Err(io::ErrorKind::NotFound.into()),
    };
    either(simulated, real)
}
/// The name without links and dots; an error where there is nothing of that name.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    let simulated = |w: &World| match w.exists(path) || w.is_dir(path) {
        true => Ok(path.to_path_buf()),
        false => Err(io::ErrorKind::NotFound.into()),
    };
    either(simulated, || std::fs::canonicalize(path))
}
/// The whole content.
pub fn read_to_end(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path, &OpenOptions::reading())?.with_event(WaitEvent::FileSystem);
    let mut bytes = vec![0; file.len()? as usize];
    let n = file.read_some_at(&mut bytes, 0)?;
    bytes.truncate(n);
    Ok(bytes)
}
/// Replaces the file by `bytes`, durably and atomically: temporary file, sync, rename, sync of the folder. A crash may leave
/// the temporary file, which the next call replaces.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_by(path, bytes, OpenOptions::creating())
}
/// The same for what only the file's owner may read.
pub fn write_whole_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_by(path, bytes, OpenOptions { private: true, ..OpenOptions::creating() })
}

fn write_by(path: &Path, bytes: &[u8], options: OpenOptions) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_os_string();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let file =
        File::open(&temporary, &OpenOptions { truncate: true, ..options })?.with_event(WaitEvent::FileSystem);
    file.write_at(bytes, 0, Sync::None)?;
    file.sync_all()?;
    drop(file);
    rename(&temporary, path)?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_dir(folder)
}

/// An exclusive lock on a path, given back on drop or when the process dies.
pub struct FileLock {
    held: Held,
}
enum Held {
    /// The lock ends with the descriptor.
    Real {
        _file: std::fs::File,
    },
    Sim(PathBuf),
}

/// Takes the lock, making the file if missing; `WouldBlock` when another holds it.
pub fn lock_file(path: &Path) -> io::Result<FileLock> {
    let simulated = |w: &World| w.lock_file(path).map(|()| Held::Sim(path.to_path_buf()));
    either(simulated, || lock_real(path)).map(|held| FileLock { held })
}

/// Takes the lock of a file or folder that is there, without writing anywhere; none if there is no such file, `WouldBlock`
/// when another holds it. The lock belongs to the inode, so it outlives the removal of the name.
pub fn lock_existing(path: &Path) -> io::Result<Option<FileLock>> {
    let simulated = |w: &World| match w.exists(path) {
        true => w.lock_file(path).map(|()| Some(Held::Sim(path.to_path_buf()))),
        false => Ok(None),
    };
    let real = || match std::fs::File::open(path) {
        Ok(file) => hold(file).map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    };
    Ok(either(simulated, real)?.map(|held| FileLock { held }))
}

fn lock_real(path: &Path) -> io::Result<Held> {
    hold(std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?)
}

fn hold(file: std::fs::File) -> io::Result<Held> {
    // SAFETY: plain system call.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Held::Real { _file: file })
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if let (Held::Sim(path), Some(world)) = (&self.held, sim::world()) {
            world.unlock_file(path);
        }
    }
}

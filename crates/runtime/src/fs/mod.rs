//! Files.
use crate::wait::WaitEvent;
use std::io;
use std::path::Path;

/// Whether a write is durable when it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// After the next `sync_data` or `sync_all`.
    None,
    /// On return, for the bytes written and the length they need (RWF_DSYNC).
    Data,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Made if missing.
    pub create: bool,
    /// Made; an error if it exists.
    pub create_new: bool,
    /// Emptied.
    pub truncate: bool,
    /// Past the page cache; falls back silently where refused, [`File::is_direct`] tells. Offsets, lengths and addresses
    /// are then multiples of 4096 (see [`AlignedBuf`]).
    pub direct: bool,
}
impl OpenOptions {
    /// An existing file, to be read.
    pub fn reading() -> Self {
        OpenOptions { read: true, ..Default::default() }
    }
    /// An existing file, to be read and written.
    pub fn writing() -> Self {
        OpenOptions { read: true, write: true, ..Default::default() }
    }
    /// Reads and writes; made if missing.
    pub fn creating() -> Self {
        OpenOptions { create: true, ..Self::writing() }
    }
    /// The same with `direct`.
    pub fn with_direct(self) -> Self {
        OpenOptions { direct: true, ..self }
    }
}

/// An open file; clones share it. All calls park the fiber; outside fibers they block the thread.
#[derive(Clone)]
pub struct File {}
#[allow(unused_variables)]
impl File {
    /// Opens a file.
    pub fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
        unimplemented!()
    }
    /// The same file, its reads and writes accounted as `event` instead of `PageRead` and `DataWrite`.
    pub fn with_event(self, event: WaitEvent) -> File {
        unimplemented!()
    }
    /// Fills `buf` from `offset`, or fails with `UnexpectedEof`.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        unimplemented!()
    }
    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    pub fn read_some_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        unimplemented!()
    }
    /// Writes all of `buf` at `offset`.
    pub fn write_at(&self, buf: &[u8], offset: u64, sync: Sync) -> io::Result<()> {
        unimplemented!()
    }
    /// Makes the content durable.
    pub fn sync_data(&self) -> io::Result<()> {
        unimplemented!()
    }
    /// Makes content and metadata durable.
    pub fn sync_all(&self) -> io::Result<()> {
        unimplemented!()
    }
    /// Length in bytes.
    pub fn len(&self) -> io::Result<u64> {
        unimplemented!()
    }
    /// Is it empty?
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts or extends with zeros.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        unimplemented!()
    }
    /// Reserves the space of a range, extending the file; zeros are written where the file system cannot reserve.
    pub fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        unimplemented!()
    }
    /// Does it bypass the page cache?
    pub fn is_direct(&self) -> bool {
        unimplemented!()
    }
}

/// Reads and writes that are submitted at once.
#[derive(Default)]
pub struct IoBatch<'a> {
    marker: std::marker::PhantomData<&'a mut [u8]>,
}
#[allow(unused_variables)]
impl<'a> IoBatch<'a> {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a read that fills `buf`.
    pub fn push_read(&mut self, file: &File, buf: &'a mut [u8], offset: u64) {
        unimplemented!()
    }
    /// Adds a write of all of `buf`.
    pub fn push_write(&mut self, file: &File, buf: &'a [u8], offset: u64) {
        unimplemented!()
    }
    /// Number of operations.
    pub fn len(&self) -> usize {
        unimplemented!()
    }
    /// Nothing in it?
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }
    /// Submits all, parks until all are done; results in the order pushed.
    pub fn run(self) -> Vec<io::Result<()>> {
        unimplemented!()
    }
}

/// Makes a folder and its parents.
pub fn create_dir_all(_path: &Path) -> io::Result<()> {
    unimplemented!()
}
/// Removes a file; durable after [`sync_dir`].
pub fn remove_file(_path: &Path) -> io::Result<()> {
    unimplemented!()
}
/// Removes an empty folder; durable after [`sync_dir`] of its parent.
pub fn remove_dir(_path: &Path) -> io::Result<()> {
    unimplemented!()
}
/// Renames a file, replacing the target; durable after [`sync_dir`].
pub fn rename(_from: &Path, _to: &Path) -> io::Result<()> {
    unimplemented!()
}
/// Makes the entries of a folder durable.
pub fn sync_dir(_path: &Path) -> io::Result<()> {
    unimplemented!()
}
/// Names in a folder, sorted.
pub fn read_dir(_path: &Path) -> io::Result<Vec<String>> {
    unimplemented!()
}
/// Is there a file or folder?
pub fn exists(_path: &Path) -> bool {
    unimplemented!()
}
/// Is it a folder?
pub fn is_dir(_path: &Path) -> bool {
    unimplemented!()
}
/// The whole content.
pub fn read_to_end(_path: &Path) -> io::Result<Vec<u8>> {
    unimplemented!()
}
/// Replaces the file by `bytes`, durably and atomically: temporary file, sync, rename, sync of the folder.
pub fn write_whole(_path: &Path, _bytes: &[u8]) -> io::Result<()> {
    unimplemented!()
}
/// An exclusive lock on a path, given back on drop or when the process dies.
pub struct FileLock {}
/// Takes the lock, making the file if missing; `WouldBlock` when another holds it.
pub fn lock_file(_path: &Path) -> io::Result<FileLock> {
    unimplemented!()
}
/// A zeroed heap buffer on a 4096-byte boundary, as direct files want it.
pub struct AlignedBuf {
    bytes: Vec<u8>,
}
impl AlignedBuf {
    /// `len` zero bytes.
    pub fn new(len: usize) -> Self {
        AlignedBuf { bytes: vec![0; len] }
    }
}
impl std::ops::Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}
impl std::ops::DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

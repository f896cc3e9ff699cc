//! An open file.

use super::faults::{self, Op};
use super::op::{self, FileOp, OpKind};
use crate::fiber;
use crate::sim::SimFile;
use crate::wait::WaitEvent;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// A new file gets the mode 0600. The default is 0660 less the umask.
    pub private: bool,
    /// A new file gets the mode 0644, whatever the umask.
    pub public: bool,
    /// Past the page cache; falls back silently where refused, [`File::is_direct`] tells. Offsets, lengths and addresses
    /// are then multiples of 4096 (see [`super::AlignedBuf`]).
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
pub struct File {
    inner: Arc<Inner>,
    read_event: WaitEvent,
    write_event: WaitEvent,
    sync_event: WaitEvent,
}

pub(super) enum Inner {
    Real {
        fd: OwnedFd,
        direct: bool,
        /// The file's path, if there were faults to come for it.
        watched: Option<PathBuf>,
    },
    Sim(SimFile),
}

impl File {
    /// Opens a file.
    pub fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
        let inner = match crate::sim::world() {
            Some(world) => Inner::Sim(world.open(path, options)?),
            None => {
                let (fd, direct) = fiber::blocking(WaitEvent::FileSystem, || open_real(path, options))?;
                let watched = faults::is_watched(path).then(|| path.to_path_buf());
                Inner::Real { fd, direct, watched }
            }
        };
        Ok(File {
            inner: Arc::new(inner),
            read_event: WaitEvent::PageRead,
            write_event: WaitEvent::DataWrite,
            sync_event: WaitEvent::DataSync,
        })
    }
    /// The same file, its operations accounted as `event` instead of `PageRead`, `DataWrite` and `DataSync`.
    pub fn with_event(self, event: WaitEvent) -> File {
        File { read_event: event, write_event: event, sync_event: event, ..self }
    }

    /// Fills `buf` from `offset`, or fails with `UnexpectedEof`.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let len = buf.len();
        match self.read_some_at(buf, offset)? {
            n if n == len => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    pub fn read_some_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match &*self.inner {
            Inner::Real { fd, .. } => {
                let len = buf.len();
                let mut op = FileOp::read(fd.as_raw_fd(), buf, offset).or_fault(self.check_fault(Op::Read));
                op::run(self.read_event, std::slice::from_mut(&mut op));
                let (left, result) = op.finish();
                result.map(|()| len - left)
            }
            Inner::Sim(file) => file.read(self.read_event, buf, offset),
        }
    }
    /// Writes all of `buf` at `offset`.
    pub fn write_at(&self, buf: &[u8], offset: u64, sync: Sync) -> io::Result<()> {
        let durable = sync == Sync::Data;
        match &*self.inner {
            Inner::Real { fd, .. } => {
                let mut op =
                    FileOp::write(fd.as_raw_fd(), buf, offset, durable).or_fault(self.check_fault(Op::Write));
                if durable {
                    op = op.or_fault(self.check_fault(Op::Sync));
                }
                self.run_one(op, self.write_event)
            }
            Inner::Sim(file) => file.write(self.write_event, buf, offset, durable),
        }
    }
    /// Makes the content durable.
    pub fn sync_data(&self) -> io::Result<()> {
        self.sync(OpKind::SyncData)
    }
    /// Makes content and metadata durable.
    pub fn sync_all(&self) -> io::Result<()> {
        self.sync(OpKind::SyncAll)
    }
    fn sync(&self, kind: OpKind) -> io::Result<()> {
        match &*self.inner {
            Inner::Real { fd, .. } => {
                let op = FileOp::sync(fd.as_raw_fd(), kind).or_fault(self.check_fault(Op::Sync));
                self.run_one(op, self.sync_event)
            }
            Inner::Sim(file) => file.sync(self.sync_event),
        }
    }
    /// Fails if a fault was set for this file.
    #[inline]
    pub(super) fn check_fault(&self, kind: Op) -> io::Result<()> {
        match &*self.inner {
            Inner::Real { watched: Some(path), .. } => faults::check(kind, path),
            _ => Ok(()),
        }
    }
    /// The same for calls that transfer nothing.
    fn check_call(&self) -> io::Result<()> {
        match &*self.inner {
            Inner::Real { watched: Some(path), .. } => faults::check_call(Op::Write, path),
            _ => Ok(()),
        }
    }
    fn run_one(&self, mut op: FileOp, event: WaitEvent) -> io::Result<()> {
        op::run(event, std::slice::from_mut(&mut op));
        op.finish().1
    }

    /// Length in bytes.
    pub fn len(&self) -> io::Result<u64> {
        match &*self.inner {
            Inner::Real { fd, .. } => length(fd),
            Inner::Sim(file) => Ok(file.len()),
        }
    }
    /// Is it empty?
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts or extends with zeros.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        match &*self.inner {
            Inner::Real { fd, .. } => {
                self.check_call()?;
                fiber::blocking(WaitEvent::FileSystem, || {
                    // SAFETY: plain system call.
                    call(|| unsafe { libc::ftruncate(fd.as_raw_fd(), len as i64) })
                })
            }
            Inner::Sim(file) => file.set_len(len),
        }
    }
    /// Reserves the space of a range, extending the file; zeros are written where the file system cannot reserve.
    pub fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        match &*self.inner {
            Inner::Real { fd, .. } => {
                self.check_call()?;
                fiber::blocking(WaitEvent::FileSystem, || {
                    // SAFETY: plain system call.
                    match call(|| unsafe { libc::fallocate(fd.as_raw_fd(), 0, offset as i64, len as i64) }) {
                        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => write_zeros(fd, offset + len),
                        result => result,
                    }
                })
            }
            Inner::Sim(file) => file.allocate(offset + len),
        }
    }
    /// Gives the blocks of a range back to the file system, if that is able to; nobody is to read the range before it is
    /// written again. Blocks the thread for as long as closing a removed file of that size does.
    pub fn discard(&self, offset: u64, len: u64) {
        if let Inner::Real { fd, .. } = &*self.inner {
            let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: plain system call. Where it is refused the blocks stay with the file.
            unsafe { libc::fallocate(fd.as_raw_fd(), hole, offset as i64, len as i64) };
        }
    }
    /// Whether there are clones of it, or operations under way.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.inner) > 1
    }
    /// Does it bypass the page cache?
    pub fn is_direct(&self) -> bool {
        match &*self.inner {
            Inner::Real { direct, .. } => *direct,
            Inner::Sim(file) => file.direct,
        }
    }
    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }
    /// Of reads, writes and syncs.
    pub(super) fn events(&self) -> (WaitEvent, WaitEvent, WaitEvent) {
        (self.read_event, self.write_event, self.sync_event)
    }
}

fn open_real(path: &Path, options: &OpenOptions) -> io::Result<(OwnedFd, bool)> {
    if (options.create || options.create_new) && !path.exists() {
        faults::check_name(path)?;
    }
    let file = std::fs::OpenOptions::new()
        .read(options.read)
        .write(options.write)
        .create(options.create)
        .create_new(options.create_new)
        .truncate(options.truncate)
        .mode(if options.private { 0o600 } else { 0o660 })
        .custom_flags(libc::O_CLOEXEC)
        .open(path)?;
    if options.public && options.create_new {
        // Some file systems have no modes; the file is usable without.
        let _ = file.set_permissions(Permissions::from_mode(0o644));
    }
    let fd = OwnedFd::from(file);
    let direct = options.direct && set_direct(&fd);
    Ok((fd, direct))
}

/// Asked for after opening: an open with O_DIRECT that is refused may already have made the file.
fn set_direct(fd: &OwnedFd) -> bool {
    // SAFETY: plain system calls on a descriptor of ours.
    unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_DIRECT) == 0
    }
}

fn call(mut f: impl FnMut() -> i32) -> io::Result<()> {
    loop {
        if f() == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn length(fd: &OwnedFd) -> io::Result<u64> {
    // SAFETY: all zeros is a valid stat buffer.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: writes one stat, ours.
    call(|| unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) })?;
    Ok(stat.st_size as u64)
}

/// Extends the file to `end` with written zeros.
fn write_zeros(fd: &OwnedFd, end: u64) -> io::Result<()> {
    let zeros = super::AlignedBuf::new(1 << 20);
    let mut offset = length(fd)?;
    while offset < end {
        let len = zeros.len().min((end - offset) as usize);
        let mut op = FileOp::write(fd.as_raw_fd(), &zeros[..len], offset, false);
        op::run(WaitEvent::DataWrite, std::slice::from_mut(&mut op));
        op.finish().1?;
        offset += len as u64;
    }
    Ok(())
}

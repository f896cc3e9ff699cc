//! One read, write or sync in the real world, from its submission to its completion.

use crate::fiber::{self, Fiber};
use crate::wait::WaitEvent;
use crate::worker;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpKind {
    Read,
    Write { durable: bool },
    SyncData,
    SyncAll,
}

/// An operation. It stays where it is from submission to completion; the bytes at `address` belong to it meanwhile.
pub(crate) struct FileOp {
    pub kind: OpKind,
    pub fd: RawFd,
    pub address: *mut u8,
    pub len: usize,
    pub offset: u64,
    result: AtomicI32,
    group: *const Group,
    /// What tests make of the next attempt.
    hindrance: Option<Hindrance>,
    /// How it ended; `Pending` until then.
    outcome: Outcome,
}

/// What the kernel may do to an attempt without anything being wrong.
#[derive(Clone, Copy)]
enum Hindrance {
    /// Answers with this error, which means: again.
    Again(i32),
    /// Transfers a part.
    Short,
}

enum Outcome {
    Pending,
    Done,
    /// The file ended before the buffer was full.
    Short,
    Failed(io::Error),
}

const ATTEMPT_BYTES_MAX: usize = 1 << 30;
/// Unit of direct transfers.
const SECTOR: usize = 512;

/// Operations submitted together.
struct Group {
    remaining: AtomicU32,
    fiber: Fiber,
}

impl FileOp {
    pub fn read(fd: RawFd, buf: &mut [u8], offset: u64) -> FileOp {
        Self::new(OpKind::Read, fd, buf.as_mut_ptr(), buf.len(), offset)
    }
    pub fn write(fd: RawFd, buf: &[u8], offset: u64, durable: bool) -> FileOp {
        Self::new(OpKind::Write { durable }, fd, buf.as_ptr().cast_mut(), buf.len(), offset)
    }
    pub fn sync(fd: RawFd, kind: OpKind) -> FileOp {
        Self::new(kind, fd, std::ptr::null_mut(), 0, 0)
    }
    fn new(kind: OpKind, fd: RawFd, address: *mut u8, len: usize, offset: u64) -> FileOp {
        let is_empty_transfer = len == 0 && matches!(kind, OpKind::Read | OpKind::Write { durable: false });
        let outcome = if is_empty_transfer { Outcome::Done } else { Outcome::Pending };
        let (result, group) = (AtomicI32::new(0), std::ptr::null());
        FileOp { kind, fd, address, len, offset, result, group, hindrance: None, outcome }
    }

    /// The same, but failed before it began, or hindered: see [`super::Fault::errno`].
    pub fn or_fault(mut self, fault: io::Result<()>) -> FileOp {
        let Err(error) = fault else { return self };
        match error.raw_os_error() {
            Some(0) => self.hindrance = Some(Hindrance::Short),
            Some(errno @ (libc::EINTR | libc::EAGAIN)) => self.hindrance = Some(Hindrance::Again(errno)),
            _ => self.outcome = Outcome::Failed(error),
        }
        self
    }

    /// Bytes that the next attempt asks for.
    pub fn attempt_len(&self) -> usize {
        let is_short = matches!(self.hindrance, Some(Hindrance::Short)) && self.len >= 2 * SECTOR;
        let len = if is_short { self.len / 2 / SECTOR * SECTOR } else { self.len };
        len.min(ATTEMPT_BYTES_MAX)
    }

    /// The answer to an attempt that the kernel does not get to see.
    fn refusal(&self) -> Option<i32> {
        match self.hindrance {
            Some(Hindrance::Again(errno)) => Some(-errno),
            _ => None,
        }
    }

    /// Bytes not transferred, and the error if there was one. A read that met the end of the file leaves bytes over.
    pub fn finish(self) -> (usize, io::Result<()>) {
        match self.outcome {
            Outcome::Failed(error) => (self.len, Err(error)),
            _ => (self.len, Ok(())),
        }
    }

    /// The kernel or a pool thread is done with one attempt. The operation may be gone when this returns.
    pub fn complete(op: *const FileOp, result: i32) {
        // SAFETY: the submitter waits until `remaining` is zero, so operation and group exist until the decrement below;
        // nothing of them is used after it.
        unsafe {
            (*op).result.store(result, Ordering::Relaxed);
            let group = &*(*op).group;
            let fiber = group.fiber;
            if group.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
                fiber.wake();
            }
        }
    }

    /// One attempt by a blocking system call: bytes or the negative error number.
    pub fn perform(&self) -> i32 {
        let len = self.attempt_len();
        // SAFETY: address and length describe memory the operation has exclusively (read) or shared (write).
        let n = unsafe {
            match self.kind {
                OpKind::Read => libc::pread(self.fd, self.address.cast(), len, self.offset as i64),
                OpKind::Write { durable } => {
                    let io = libc::iovec { iov_base: self.address.cast(), iov_len: len };
                    let flags = if durable { libc::RWF_DSYNC } else { 0 };
                    libc::pwritev2(self.fd, &io, 1, self.offset as i64, flags)
                }
                OpKind::SyncData => libc::fdatasync(self.fd) as isize,
                OpKind::SyncAll => libc::fsync(self.fd) as isize,
            }
        };
        if n < 0 { -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) } else { n as i32 }
    }

    fn is_pending(&self) -> bool {
        matches!(self.outcome, Outcome::Pending)
    }

    /// Takes the result of an attempt in; what is left over is tried again.
    fn advance(&mut self) {
        self.hindrance = None;
        let result = self.result.load(Ordering::Relaxed);
        if result == -libc::EINTR || result == -libc::EAGAIN {
            return;
        }
        if result < 0 {
            self.outcome = Outcome::Failed(io::Error::from_raw_os_error(-result));
            return;
        }
        let n = result as usize;
        match self.kind {
            OpKind::SyncData | OpKind::SyncAll => self.outcome = Outcome::Done,
            OpKind::Read if n == 0 => self.outcome = Outcome::Short,
            OpKind::Write { .. } if n == 0 && self.len > 0 => {
                self.outcome = Outcome::Failed(io::ErrorKind::WriteZero.into());
            }
            _ => {
                // SAFETY: the kernel transferred `n` bytes of the `len` at this address.
                self.address = unsafe { self.address.add(n) };
                self.len -= n;
                self.offset += n as u64;
                if self.len == 0 {
                    self.outcome = Outcome::Done;
                } else if self.kind == OpKind::Read && !n.is_multiple_of(SECTOR) {
                    // Only the end of a file cuts a read off between sectors; a direct read could not go on from here.
                    self.outcome = Outcome::Short;
                }
            }
        }
    }
}

/// Does all of them, submitted at once; the fiber parks until the last is done.
pub(crate) fn run(event: WaitEvent, ops: &mut [FileOp]) {
    let Some(w) = worker::own_real() else {
        return run_blocking(ops);
    };
    while ops.iter().any(FileOp::is_pending) {
        let pending = ops.iter().filter(|op| op.is_pending()).count() as u32;
        let group = Group { remaining: AtomicU32::new(pending), fiber: fiber::current() };
        for op in ops.iter_mut().filter(|op| op.is_pending()) {
            op.group = &group;
            match op.refusal() {
                Some(result) => FileOp::complete(op, result),
                None => w.reactor.submit_file(w, op),
            }
        }
        w.reactor.files_queued();
        while group.remaining.load(Ordering::Acquire) > 0 {
            fiber::park(event);
        }
        ops.iter_mut().filter(|op| op.is_pending()).for_each(FileOp::advance);
    }
}

fn run_blocking(ops: &mut [FileOp]) {
    for op in ops {
        while op.is_pending() {
            let result = op.refusal().unwrap_or_else(|| op.perform());
            op.result.store(result, Ordering::Relaxed);
            op.advance();
        }
    }
}

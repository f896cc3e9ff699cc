//! Stacks for fibers: slabs of equal stacks with a guard page under each, pooled.
//!
//! Guard pages are made by MADV_GUARD_INSTALL where the kernel has it (no extra mapping per stack), else by mprotect.
//! A stack goes back to its pool on drop; slabs are unmapped when the pool and all its stacks are gone.

use corosensei::stack::{Stack, StackPointer};
use std::io;
use std::sync::Arc;

const PAGE: usize = 4096;
const STACKS_PER_SLAB: usize = 16;
/// `MADV_GUARD_INSTALL` of Linux 6.13; not yet in the libc crate for every target.
const MADV_GUARD_INSTALL: i32 = 102;

/// Where stacks come from.
pub(crate) struct StackPool {
    stack_bytes: usize,
    inner: parking_lot::Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Address and length of each mapping.
    slabs: Vec<(usize, usize)>,
    /// Lowest addresses of free stacks, guard included.
    free: Vec<usize>,
}

impl StackPool {
    /// A pool of stacks with at least `stack_bytes` each.
    pub fn new(stack_bytes: usize) -> Arc<StackPool> {
        let stack_bytes = stack_bytes.max(4 * PAGE).next_multiple_of(PAGE) + PAGE;
        Arc::new(StackPool { stack_bytes, inner: parking_lot::Mutex::default() })
    }

    /// A free stack, or one of a new slab.
    pub fn take(self: &Arc<Self>) -> io::Result<FiberStack> {
        let mut inner = self.inner.lock();
        if inner.free.is_empty() {
            self.add_slab(&mut inner)?;
        }
        let limit = inner.free.pop().ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(FiberStack { limit, base: limit + self.stack_bytes, pool: self.clone() })
    }

    fn add_slab(&self, inner: &mut Inner) -> io::Result<()> {
        let len = self.stack_bytes * STACKS_PER_SLAB;
        let start = map_anonymous(len)?;
        inner.slabs.push((start, len));
        // SAFETY: the range was mapped above. A refusal only costs huge pages being used for stacks.
        unsafe { libc::madvise(start as *mut _, len, libc::MADV_NOHUGEPAGE) };
        for index in 0..STACKS_PER_SLAB {
            let limit = start + index * self.stack_bytes;
            guard(limit)?;
            inner.free.push(limit);
        }
        Ok(())
    }
}

impl Drop for StackPool {
    fn drop(&mut self) {
        for &(start, len) in &self.inner.get_mut().slabs {
            // SAFETY: every stack holds the pool, so none of this memory is in use.
            unsafe { libc::munmap(start as *mut _, len) };
        }
    }
}

/// Zeroed private memory, reserved but not committed.
pub(crate) fn map_anonymous(len: usize) -> io::Result<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start as usize) }
}

/// The same from a multiple of `alignment` on, which is one of 4096.
pub(crate) fn map_aligned(len: usize, alignment: usize) -> io::Result<usize> {
    let len = len.next_multiple_of(PAGE);
    let whole = map_anonymous(len + alignment)?;
    let start = whole.next_multiple_of(alignment);
    for (from, to) in [(whole, start), (start + len, whole + len + alignment)] {
        if from < to {
            // SAFETY: a part of the new mapping that nobody knows of.
            unsafe { libc::munmap(from as *mut _, to - from) };
        }
    }
    Ok(start)
}

fn guard(page: usize) -> io::Result<()> {
    // SAFETY: the page belongs to a slab under construction; nobody uses it yet.
    let done = unsafe {
        libc::madvise(page as *mut _, PAGE, MADV_GUARD_INSTALL) == 0
            || libc::mprotect(page as *mut _, PAGE, libc::PROT_NONE) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// One stack.
pub(crate) struct FiberStack {
    limit: usize,
    base: usize,
    pool: Arc<StackPool>,
}

impl FiberStack {
    /// Lowest usable address.
    pub fn lowest(&self) -> usize {
        self.limit + PAGE
    }
    /// Gives the memory it has touched back to the kernel; it reads as zeros again.
    pub fn discard(&mut self) {
        // SAFETY: nothing runs on the stack, and it has exclusive use of this range; the guard below stays.
        unsafe { libc::madvise(self.lowest() as *mut _, self.base - self.lowest(), libc::MADV_DONTNEED) };
    }
}

// SAFETY: base and limit are page-aligned ends of a mapping of at least five pages whose lowest page is a guard.
unsafe impl Stack for FiberStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.base).expect("a mapped stack has an address")
    }
    fn limit(&self) -> StackPointer {
        StackPointer::new(self.limit).expect("a mapped stack has an address")
    }
}

impl Drop for FiberStack {
    fn drop(&mut self) {
        self.pool.inner.lock().free.push(self.limit);
    }
}

//! The memory of all page frames: one anonymous mapping that grows in use as frames are touched.

use std::io;
use std::ptr::NonNull;

use crate::layout::PAGE;

/// `count` frames of [`PAGE`] bytes.
pub struct Arena {
    base: NonNull<u8>,
    count: usize,
}

// SAFETY: the arena is plain memory; who may touch which frame when is the pool's latch protocol.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps the frames; memory is taken when they are first written.
    pub fn new(count: usize) -> io::Result<Arena> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), count * PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range was just mapped. Huge pages would take memory for frames that nobody uses.
        unsafe { libc::madvise(base, count * PAGE, libc::MADV_NOHUGEPAGE) };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapping at address zero"))?;
        Ok(Arena { base, count })
    }

    /// First byte of a frame.
    #[inline]
    pub fn frame(&self, index: u32) -> *mut u8 {
        assert!((index as usize) < self.count);
        // SAFETY: within the mapping, by the assertion.
        unsafe { self.base.as_ptr().add(index as usize * PAGE) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and, with the pool gone, nobody holds a pointer into it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.count * PAGE) };
    }
}

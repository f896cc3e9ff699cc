//! Buffers for direct I/O.

use crate::stack::{map_aligned, map_anonymous};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const ALIGNMENT: usize = 4096;
/// From here on memory comes straight from the kernel: zeroed lazily, given back at once.
const MAPPED_BYTES_MIN: usize = 256 << 10;
/// Bytes of a huge page, on most machines.
pub const HUGE_PAGE: usize = 2 << 20;

/// A zeroed buffer on a 4096-byte boundary, as direct files want it. Large ones take memory only where they are touched.
///
/// A simulated world that crashes abandons its buffers; the memory of large ones is given back then, so that thousands of
/// crashes fit into one process.
pub struct AlignedBuf {
    address: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns its bytes, like a Vec.
unsafe impl Send for AlignedBuf {}
// SAFETY: shared access is read only.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// `len` zero bytes.
    pub fn new(len: usize) -> Self {
        let address = if len >= MAPPED_BYTES_MIN { mapped(len, map_anonymous(len)) } else { allocated(len) };
        AlignedBuf { address, len }
    }
    /// The same in huge pages, where the kernel has some: a device takes what lies in one piece of memory as one. For
    /// buffers of megabytes that are used all over.
    pub fn in_huge_pages(len: usize) -> Self {
        assert!(len >= MAPPED_BYTES_MIN, "{len} bytes need no huge pages");
        let address = mapped(len, map_aligned(len, HUGE_PAGE));
        // SAFETY: the mapping is ours; advice changes no content.
        unsafe { libc::madvise(address.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        AlignedBuf { address, len }
    }
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), ALIGNMENT).expect("a buffer fits into the address space")
    }
}

fn allocated(len: usize) -> NonNull<u8> {
    let layout = AlignedBuf::layout(len);
    // SAFETY: the layout's size is not zero.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

fn mapped(len: usize, address: io::Result<usize>) -> NonNull<u8> {
    let address = address.ok().and_then(|a| NonNull::new(a as *mut u8));
    let address = address.unwrap_or_else(|| handle_alloc_error(AlignedBuf::layout(len)));
    if let Some(world) = crate::sim::world() {
        world.note_mapping(address.as_ptr() as usize, len);
    }
    address
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.len < MAPPED_BYTES_MIN {
            // SAFETY: allocated in `new` with this layout.
            return unsafe { dealloc(self.address.as_ptr(), Self::layout(self.len)) };
        }
        if let Some(world) = crate::sim::world() {
            world.forget_mapping(self.address.as_ptr() as usize);
        }
        // SAFETY: mapped in `new` with this length.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.len) };
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: owned, initialised (zeroed), `len` bytes.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.len) }
    }
}
impl DerefMut for AlignedBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.len) }
    }
}

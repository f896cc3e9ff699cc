//! The memory of all page frames and of their states: address space reserved once, committed and given back in ranges.
//!
//! Pages lie in huge pages of the kernel where it has some: a page that is one piece of memory takes half the descriptors of
//! a read or write in a device's ring, and fewer entries of the processor's tables (decision 49).
//!
//! Frames never move, so an index stays good for as long as the pool lives. The states of frames that were given back stay:
//! whoever latches a frame found through a stale translation looks at its state alone.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::*};

use keel_runtime::fs::HUGE_PAGE;

use super::Frame;
use crate::layout::PAGE;

/// Address space of `reserved` frames of [`PAGE`] bytes, and their states.
pub struct Arena {
    pages: Mapping,
    states: Mapping,
    reserved: u32,
    /// States of frames from here on are not there yet.
    ready: AtomicU32,
}

/// Address space of our own.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// `MADV_HUGEPAGE`, or not.
    advice: i32,
}

// SAFETY: the arena is plain memory; who may touch which frame when is the pool's latch protocol.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Mapping {
    /// Reserves address space that cannot be touched yet and that no memory is set aside for, from a multiple of
    /// `alignment` on.
    fn reserve(bytes: usize, alignment: usize, advice: i32) -> io::Result<Mapping> {
        let whole = map(std::ptr::null_mut(), bytes + alignment, 0, advice)?;
        let before = (whole.as_ptr() as usize).wrapping_neg() % alignment;
        // SAFETY: the mapping is longer than both by what is left of the alignment.
        let (base, behind) = unsafe { (whole.add(before), whole.add(before + bytes)) };
        for (from, len) in [(whole, before), (behind, alignment - before)] {
            if len > 0 {
                // SAFETY: a part of the new mapping that nobody uses.
                unsafe { libc::munmap(from.as_ptr().cast(), len) };
            }
        }
        Ok(Mapping { base, bytes, advice })
    }

    /// Lets a range be used; its memory is taken when it is first written.
    fn commit(&self, from: usize, to: usize) -> io::Result<()> {
        if from == to {
            return Ok(());
        }
        let (at, len) = self.range(from, to);
        // SAFETY: the range lies within our mapping, and becoming accessible harms nobody.
        match unsafe { libc::mprotect(at.cast(), len, libc::PROT_READ | libc::PROT_WRITE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Says how a range is to be backed. A refusal costs nothing but that.
    fn advise(&self, from: usize, to: usize, advice: i32) {
        let (at, len) = self.range(from, to);
        // SAFETY: within our mapping; advice changes no content.
        unsafe { libc::madvise(at.cast(), len, advice) };
    }

    /// Gives the memory of a range back to the system; it reads as zeros.
    ///
    /// # Safety
    /// Nobody uses the range.
    unsafe fn discard(&self, from: usize, to: usize) {
        let (at, len) = self.range(from, to);
        // SAFETY: within our mapping; the caller's promise.
        unsafe { libc::madvise(at.cast(), len, libc::MADV_DONTNEED) };
    }

    /// Makes a range mere address space again, so that its page tables go too and the system need not stand in for it. A
    /// refusal leaves it accessible.
    ///
    /// # Safety
    /// Nobody uses the range.
    unsafe fn decommit(&self, from: usize, to: usize) {
        if from < to {
            let (at, len) = self.range(from, to);
            let _ = map(at.cast(), len, libc::MAP_FIXED, self.advice);
        }
    }

    fn range(&self, from: usize, to: usize) -> (*mut u8, usize) {
        assert!(from <= to && to <= self.bytes);
        // SAFETY: within the mapping, by the assertion.
        (unsafe { self.base.as_ptr().add(from) }, to - from)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and, with the pool gone, nobody holds a pointer into it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Maps inaccessible memory.
fn map(at: *mut libc::c_void, bytes: usize, more_flags: i32, advice: i32) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | more_flags;
    // SAFETY: either the kernel chooses the address, or the range is within a mapping of the caller that nobody uses.
    let base = unsafe { libc::mmap(at, bytes, libc::PROT_NONE, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range was just mapped. Advice may be refused.
    unsafe { libc::madvise(base, bytes, advice) };
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapping at address zero"))
}

/// What the kernel maps at once at least.
const GRAIN: usize = 4096;
/// What is given back at once is a huge page.
const _: () = assert!(super::resize::CHUNK as usize * PAGE == HUGE_PAGE);
const STATE: usize = size_of::<Frame>();

impl Arena {
    /// Reserves so many frames, none of which can be used yet.
    pub fn new(reserved: u32) -> io::Result<Arena> {
        let states = (reserved as usize * STATE).next_multiple_of(GRAIN);
        Ok(Arena {
            pages: Mapping::reserve(reserved as usize * PAGE, HUGE_PAGE, libc::MADV_HUGEPAGE)?,
            // Only those of frames in use take memory.
            states: Mapping::reserve(states, GRAIN, libc::MADV_NOHUGEPAGE)?,
            reserved,
            ready: AtomicU32::new(0),
        })
    }

    /// Frames that there may ever be.
    pub fn reserved(&self) -> u32 {
        self.reserved
    }

    /// Lets the frames `from..to` be used, which were not or were given back; for one caller at a time. States that are new
    /// are made.
    pub fn commit(&self, from: u32, to: u32) -> io::Result<()> {
        assert!(from <= to && to <= self.reserved);
        let ready = self.ready.load(Acquire);
        if to > ready {
            let end = (to as usize * STATE).next_multiple_of(GRAIN).min(self.states.bytes);
            self.states.commit(ready as usize * STATE / GRAIN * GRAIN, end)?;
        }
        self.pages.commit(from as usize * PAGE, to as usize * PAGE)?;
        self.pages.advise(from as usize * PAGE, to as usize * PAGE, self.pages.advice);
        for index in ready..to {
            let (at, _) = self.states.range(index as usize * STATE, (index + 1) as usize * STATE);
            // SAFETY: within the range committed above, aligned since states begin at a page and their size is their
            // alignment's multiple, and nobody reaches a state before `ready` passes it.
            unsafe { at.cast::<Frame>().write(Frame::new()) };
        }
        self.ready.fetch_max(to, Release);
        Ok(())
    }

    /// Gives the memory of frames back to the system.
    ///
    /// # Safety
    /// The frames hold no page and nobody owns them.
    pub unsafe fn discard(&self, from: u32, to: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.pages.discard(from as usize * PAGE, to as usize * PAGE) };
        // Else the kernel would fill it up again, for the sake of one frame of a huge page that is still in use.
        self.pages.advise(from as usize * PAGE, to as usize * PAGE, libc::MADV_NOHUGEPAGE);
    }

    /// As [`Arena::discard`]; the frames must be committed again before they are used.
    ///
    /// # Safety
    /// As for [`Arena::discard`].
    pub unsafe fn decommit(&self, from: u32, to: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.pages.decommit(from as usize * PAGE, to as usize * PAGE) };
    }

    /// State of a frame that was committed once.
    #[inline]
    pub fn state(&self, index: u32) -> &Frame {
        assert!(index < self.ready.load(Relaxed));
        // SAFETY: states below `ready` are initialized and live as long as the arena; who has an index got it behind the
        // commit that made the state.
        unsafe { &*self.states.base.as_ptr().cast::<Frame>().add(index as usize) }
    }

    /// First byte of a frame.
    #[inline]
    pub fn frame(&self, index: u32) -> *mut u8 {
        assert!(index < self.ready.load(Relaxed));
        // SAFETY: within the mapping, by the assertion.
        unsafe { self.pages.base.as_ptr().add(index as usize * PAGE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_fill_huge_pages_and_come_back_empty() {
        let frames = 2 * (HUGE_PAGE / PAGE) as u32;
        let arena = Arena::new(frames).expect("mapped");
        arena.commit(0, frames).expect("committed");
        assert_eq!(arena.frame(0) as usize % HUGE_PAGE, 0);
        let first = |index| arena.frame(index);
        for index in 0..frames {
            // SAFETY: committed above, and nobody else knows the arena.
            unsafe { first(index).write(1) };
        }
        // SAFETY: as above; nothing borrows the frames.
        unsafe { arena.discard(frames / 4, frames / 2) };
        // SAFETY: as above.
        unsafe { arena.decommit(frames / 2, frames) };
        arena.commit(frames / 4, frames).expect("committed");
        // SAFETY: committed.
        let bytes: Vec<u8> = (0..frames).map(|index| unsafe { first(index).read() }).collect();
        assert!(bytes[..frames as usize / 4].iter().all(|byte| *byte == 1));
        assert!(bytes[frames as usize / 4..].iter().all(|byte| *byte == 0));
    }
}

//! The heap: mimalloc, with counters of the bytes that the process has allocated.
//!
//! [`Heap`] is the allocator of a program that wants the counters; without it they stay 0. Each thread counts for itself
//! and adds to the total when it is 64 KiB away from it, so [`allocated_bytes`] is exact up to that much for each thread.
//! [`of_fiber`] counts for the running fiber: a caller that reads it twice knows what the code between kept, also if the
//! fiber was suspended in the meantime. Sizes are those that were asked for, not those of the allocator's classes.
//!
//! The allocator keeps freed memory for the next allocation. [`give_back`] makes every worker return it to the system.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use mimalloc::MiMalloc;

/// A thread's count may be this far from its share of the total.
const REPORT_BYTES: i64 = 64 << 10;

/// Bytes of the process, without what threads have not yet added.
static TOTAL: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static UNREPORTED: Cell<i64> = const { Cell::new(0) };
    static OF_FIBER: Cell<i64> = const { Cell::new(0) };
}

/// The allocator, to be declared as `#[global_allocator]`.
pub struct Heap(MiMalloc);

impl Heap {
    /// The allocator.
    #[expect(clippy::new_without_default, reason = "a static needs a const function")]
    pub const fn new() -> Heap {
        Heap(MiMalloc)
    }
}

#[inline]
fn count(bytes: i64) {
    OF_FIBER.set(OF_FIBER.get() + bytes);
    let unreported = UNREPORTED.get() + bytes;
    if unreported.abs() < REPORT_BYTES {
        UNREPORTED.set(unreported);
    } else {
        UNREPORTED.set(0);
        TOTAL.fetch_add(unreported, Relaxed);
    }
}

// SAFETY: every call goes to mimalloc as it is; counting touches only cells of this thread, which have no destructor, and
// an atomic, so it neither allocates nor fails.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { self.0.dealloc(at, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { self.0.realloc(at, layout, new_size) }
    }
}

/// Bytes that the process has allocated and not freed.
pub fn allocated_bytes() -> u64 {
    TOTAL.load(Relaxed).max(0) as u64
}

/// Bytes that this fiber has allocated since it began, less those that it has freed. Only differences mean anything: a
/// fiber also frees what others have allocated.
pub fn of_fiber() -> i64 {
    OF_FIBER.get()
}

/// Puts a fiber's count in the place of the one before, which it returns.
pub(crate) fn switch(to: i64) -> i64 {
    OF_FIBER.replace(to)
}

/// mimalloc's option `arena_eager_commit`, by its place in the list of options. With 0 the allocator commits memory as it
/// needs it. By default it commits an arena of 1 GiB at once, which the kernel then backs with huge pages: a heap of 4 MiB
/// had 20 MiB of memory.
const OPTION_ARENA_EAGER_COMMIT: libmimalloc_sys::mi_option_t = 4;
/// Option `minimal_purge_size`, in KiB. By default only runs of 2 MiB are returned to the system.
const OPTION_MINIMAL_PURGE_SIZE: libmimalloc_sys::mi_option_t = 44;

/// Sets the options before the first allocation: the loader calls it before `main`.
extern "C" fn configure() {
    // SAFETY: both options exist, see the list in mimalloc.h; they may be set at any time.
    unsafe {
        libmimalloc_sys::mi_option_set(OPTION_ARENA_EAGER_COMMIT, 0);
        libmimalloc_sys::mi_option_set(OPTION_MINIMAL_PURGE_SIZE, 64);
    }
}

#[used]
// SAFETY: the section holds pointers to functions without parameters, which run once, on one thread.
#[unsafe(link_section = ".init_array")]
static CONFIGURE: extern "C" fn() = configure;

/// Returns the memory that the allocator keeps for this thread to the system.
fn collect() {
    // SAFETY: may be called by any thread at any time; it frees nothing that is allocated.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

/// Makes every worker return the memory that the allocator keeps for it to the system, soon. Called on a worker.
pub fn give_back() {
    (0..crate::worker_count()).for_each(|worker| crate::fiber::spawn_on(worker, collect));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_allocations_of_a_thread() {
        let heap = Heap::new();
        let layout = Layout::from_size_align(1 << 20, 8).expect("a layout");
        let (fiber, total) = (of_fiber(), allocated_bytes());
        // SAFETY: the block is used as it was made and freed once.
        unsafe {
            let at = heap.alloc(layout);
            assert_eq!(of_fiber() - fiber, 1 << 20);
            assert!(allocated_bytes() >= total + (1 << 20) - REPORT_BYTES as u64);
            let at = heap.realloc(at, layout, 3 << 20);
            assert_eq!(of_fiber() - fiber, 3 << 20);
            heap.dealloc(at, Layout::from_size_align(3 << 20, 8).expect("a layout"));
        }
        assert_eq!(of_fiber(), fiber);
    }
}

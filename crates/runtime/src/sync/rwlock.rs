//! A reader-writer lock that parks the fiber. Fair: once somebody waits, new readers queue behind.

use super::queue::{List, Queue};
use crate::fiber::{self, Fiber};
use crate::time::Instant;
use crate::wait::WaitEvent;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

const WRITER: u32 = 1 << 31;
/// The queue is not empty. Set and cleared under the queue's lock; while set, nobody passes the queue.
const WAITERS: u32 = 1 << 30;
const READERS: u32 = WAITERS - 1;

const KIND_READ: u64 = 0;
const KIND_WRITE: u64 = 1;

/// Protects a value that many read and one changes.
pub struct RwLock<T: ?Sized> {
    state: AtomicU32,
    queue: Queue,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through guards, many shared or one exclusive.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        RwLock { state: AtomicU32::new(0), queue: Queue::new(), value: UnsafeCell::new(value) }
    }
    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits to read.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        if !self.try_acquire(KIND_READ) {
            self.acquire_slow(KIND_READ, WaitEvent::Mutex, Instant::FAR);
        }
        ReadGuard { lock: self, not_send: PhantomData }
    }
    /// Waits to write.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T> {
        if !self.try_acquire(KIND_WRITE) {
            self.acquire_slow(KIND_WRITE, WaitEvent::Mutex, Instant::FAR);
        }
        WriteGuard { lock: self, not_send: PhantomData }
    }
    /// Waits to read until `deadline`.
    pub fn read_until(&self, event: WaitEvent, deadline: Instant) -> Option<ReadGuard<'_, T>> {
        (self.try_acquire(KIND_READ) || self.acquire_slow(KIND_READ, event, deadline))
            .then(|| ReadGuard { lock: self, not_send: PhantomData })
    }
    /// Waits to write until `deadline`.
    pub fn write_until(&self, event: WaitEvent, deadline: Instant) -> Option<WriteGuard<'_, T>> {
        (self.try_acquire(KIND_WRITE) || self.acquire_slow(KIND_WRITE, event, deadline))
            .then(|| WriteGuard { lock: self, not_send: PhantomData })
    }
    /// Reads if nobody writes or waits.
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        self.try_acquire(KIND_READ).then(|| ReadGuard { lock: self, not_send: PhantomData })
    }
    /// Writes if the lock is free.
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        self.try_acquire(KIND_WRITE).then(|| WriteGuard { lock: self, not_send: PhantomData })
    }
    /// The value, the borrow being proof that nobody else has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[inline]
    fn try_acquire(&self, kind: u64) -> bool {
        if kind == KIND_WRITE {
            return self.state.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok();
        }
        let mut state = self.state.load(Ordering::Relaxed);
        while state & (WRITER | WAITERS) == 0 {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(seen) => state = seen,
            }
        }
        false
    }

    #[cold]
    fn acquire_slow(&self, kind: u64, event: WaitEvent, deadline: Instant) -> bool {
        let mut list = self.queue.lock();
        loop {
            if self.try_acquire(kind) {
                return true;
            }
            let state = self.state.load(Ordering::Relaxed);
            let may_pass = if kind == KIND_WRITE { state == 0 } else { state & (WRITER | WAITERS) == 0 };
            if !may_pass
                && self
                    .state
                    .compare_exchange(state, state | WAITERS, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                break;
            }
        }
        let ticket = list.push_current(kind);
        drop(list);
        if self.queue.park_for(ticket, event, deadline) {
            return true;
        }
        let mut list = self.queue.lock();
        if !self.queue.withdraw(&mut list, ticket) {
            return true;
        }
        // Readers behind a writer that gave up may pass now.
        self.grant_and_wake(list);
        false
    }

    #[inline]
    fn release_read(&self) {
        let was = self.state.fetch_sub(1, Ordering::Release);
        if was & READERS == 1 && was & WAITERS != 0 {
            self.grant_and_wake(self.queue.lock());
        }
    }
    #[inline]
    fn release_write(&self) {
        let was = self.state.fetch_and(!WRITER, Ordering::Release);
        if was & WAITERS != 0 {
            self.grant_and_wake(self.queue.lock());
        }
    }

    #[cold]
    fn grant_and_wake(&self, mut list: parking_lot::MutexGuard<'_, List>) {
        let mut served = self.grant(&mut list);
        drop(list);
        fiber::wake_many(&mut served);
    }

    /// Serves from the front whoever the state allows: one writer, or all readers up to the next writer.
    fn grant(&self, list: &mut List) -> Vec<Fiber> {
        let mut served = Vec::new();
        while let Some(front) = list.front() {
            let state = self.state.load(Ordering::Acquire);
            if front.kind == KIND_WRITE {
                if state & (WRITER | READERS) != 0 {
                    break;
                }
                self.state.fetch_or(WRITER, Ordering::Acquire);
            } else {
                if state & WRITER != 0 {
                    break;
                }
                self.state.fetch_add(1, Ordering::Acquire);
            }
            served.extend(self.queue.serve_front(list));
        }
        if list.is_empty() {
            self.state.fetch_and(!WAITERS, Ordering::Release);
        }
        served
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

/// The lock, held to read.
pub struct ReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    not_send: PhantomData<*mut ()>,
}
/// The lock, held to write.
pub struct WriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    not_send: PhantomData<*mut ()>,
}
// SAFETY: sharing the guard shares `&T` only.
unsafe impl<T: ?Sized + Sync> Sync for ReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for WriteGuard<'_, T> {}

impl<T: ?Sized> Deref for ReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: readers hold the lock, so no writer does.
        unsafe { &*self.lock.value.get() }
    }
}
impl<T: ?Sized> Deref for WriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the proof of exclusive access.
        unsafe { &*self.lock.value.get() }
    }
}
impl<T: ?Sized> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the proof of exclusive access.
        unsafe { &mut *self.lock.value.get() }
    }
}
impl<T: ?Sized> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.release_read();
    }
}
impl<T: ?Sized> Drop for WriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.release_write();
    }
}

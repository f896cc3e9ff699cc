//! A mutual exclusion that parks the fiber; handed over in order of arrival.

use super::queue::Queue;
use crate::time::Instant;
use crate::wait::WaitEvent;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and the queue is not empty. Set and cleared under the queue's lock.
const CONTENDED: u32 = 2;

/// Protects a value; `lock` parks.
pub struct Mutex<T: ?Sized> {
    state: AtomicU32,
    queue: Queue,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through the guard, which one fiber at a time holds.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// A free mutex.
    pub const fn new(value: T) -> Self {
        Mutex { state: AtomicU32::new(FREE), queue: Queue::new(), value: UnsafeCell::new(value) }
    }
    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.lock_for(WaitEvent::Mutex)
    }
    /// Waits for the mutex, accounted as `event`.
    #[inline]
    pub fn lock_for(&self, event: WaitEvent) -> MutexGuard<'_, T> {
        if !self.try_acquire() {
            self.acquire_slow(event, Instant::FAR);
        }
        self.guard()
    }
    /// Waits until `deadline`.
    pub fn lock_until(&self, event: WaitEvent, deadline: Instant) -> Option<MutexGuard<'_, T>> {
        (self.try_acquire() || self.acquire_slow(event, deadline)).then(|| self.guard())
    }
    /// Takes the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.try_acquire().then(|| self.guard())
    }
    /// The value, the borrow being proof that nobody else has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, not_send: PhantomData }
    }
    #[inline]
    fn try_acquire(&self) -> bool {
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
    #[cold]
    fn acquire_slow(&self, event: WaitEvent, deadline: Instant) -> bool {
        let mut list = self.queue.lock();
        loop {
            if self.try_acquire() {
                return true;
            }
            let was = self.state.compare_exchange(HELD, CONTENDED, Ordering::Relaxed, Ordering::Relaxed);
            if matches!(was, Ok(_) | Err(CONTENDED)) {
                break;
            }
        }
        let ticket = list.push_current(0);
        drop(list);
        if self.queue.park_for(ticket, event, deadline) {
            return true;
        }
        let mut list = self.queue.lock();
        if !self.queue.withdraw(&mut list, ticket) {
            return true; // handed over while we gave up
        }
        if list.is_empty() {
            self.state.store(HELD, Ordering::Relaxed);
        }
        false
    }
    #[inline]
    fn release(&self) {
        if self.state.compare_exchange(HELD, FREE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.hand_over();
        }
    }
    #[cold]
    fn hand_over(&self) {
        let mut list = self.queue.lock();
        match self.queue.serve_front(&mut list) {
            Some(next) => {
                if list.is_empty() {
                    self.state.store(HELD, Ordering::Relaxed);
                }
                drop(list);
                next.wake();
            }
            // The last waiter gave up between our attempt and the lock.
            None => self.state.store(FREE, Ordering::Release),
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

/// The mutex, held.
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    not_send: PhantomData<*mut ()>,
}
// SAFETY: sharing the guard shares `&T` only.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the proof of exclusive access.
        unsafe { &*self.mutex.value.get() }
    }
}
impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the proof of exclusive access.
        unsafe { &mut *self.mutex.value.get() }
    }
}
impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.release();
    }
}

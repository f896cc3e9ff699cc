//! A bounded queue from many fibers to one.

use super::wait_queue::WaitQueue;
use crate::time::Instant;
use crate::wait::WaitEvent;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Shared<T> {
    items: parking_lot::Mutex<Items<T>>,
    capacity: usize,
    senders: AtomicUsize,
    not_empty: WaitQueue,
    not_full: WaitQueue,
}
struct Items<T> {
    queue: VecDeque<T>,
    receiver_gone: bool,
}

/// A channel that holds up to `capacity` items (at least one).
pub fn channel<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        items: parking_lot::Mutex::new(Items { queue: VecDeque::new(), receiver_gone: false }),
        capacity: capacity.max(1),
        senders: AtomicUsize::new(1),
        not_empty: WaitQueue::new(),
        not_full: WaitQueue::new(),
    });
    (Sender { shared: shared.clone() }, Receiver { shared })
}

/// Why an item was not taken.
#[derive(Debug, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// No room now.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// Where items go in.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}
/// Where items come out.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Adds an item if there is room.
    pub fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        let mut items = self.shared.items.lock();
        if items.receiver_gone {
            return Err(TrySendError::Closed(item));
        }
        if items.queue.len() >= self.shared.capacity {
            return Err(TrySendError::Full(item));
        }
        items.queue.push_back(item);
        drop(items);
        self.shared.not_empty.wake_one();
        Ok(())
    }
    /// Adds an item, waiting for room; gives it back when the receiver is gone.
    pub fn send(&self, mut item: T) -> Result<(), T> {
        loop {
            match self.try_send(item) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(back)) => return Err(back),
                Err(TrySendError::Full(back)) => item = back,
            }
            self.shared.not_full.wait_while(WaitEvent::Queue, || {
                let items = self.shared.items.lock();
                !items.receiver_gone && items.queue.len() >= self.shared.capacity
            });
        }
    }
}
impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Sender { shared: self.shared.clone() }
    }
}
impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.not_empty.wake_all();
        }
    }
}

impl<T> Receiver<T> {
    /// Takes the first item if there is one.
    pub fn try_recv(&self) -> Option<T> {
        let item = self.shared.items.lock().queue.pop_front();
        if item.is_some() {
            self.shared.not_full.wake_one();
        }
        item
    }
    /// Waits for an item; `None` when all senders are gone and all is taken.
    pub fn recv(&self) -> Option<T> {
        self.recv_until(Instant::FAR)
    }
    /// The same until `deadline`.
    pub fn recv_until(&self, deadline: Instant) -> Option<T> {
        loop {
            if let Some(item) = self.try_recv() {
                return Some(item);
            }
            if self.is_closed() {
                return self.try_recv();
            }
            let must_wait = || self.is_empty() && !self.is_closed();
            if !self.shared.not_empty.wait_while_until(WaitEvent::Queue, deadline, must_wait) {
                return self.try_recv();
            }
        }
    }
    /// Are all senders gone?
    pub fn is_closed(&self) -> bool {
        self.shared.senders.load(Ordering::Acquire) == 0
    }
    /// Is there nothing to take?
    pub fn is_empty(&self) -> bool {
        self.shared.items.lock().queue.is_empty()
    }
    /// Items waiting.
    pub fn len(&self) -> usize {
        self.shared.items.lock().queue.len()
    }
}
impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut items = self.shared.items.lock();
        items.receiver_gone = true;
        let rest = std::mem::take(&mut items.queue);
        drop(items);
        drop(rest);
        self.shared.not_full.wake_all();
    }
}

//! What other threads may touch of a worker: its inbox, its signal, its counters.
//!
//! **Invariants.** 1. A sender pushes first and looks at `asleep` then; the worker sets `asleep` first and looks at the inbox
//! then: one of the two sees the other. 2. A `Shared` is never freed, so wakes may be late.

use crate::fiber::{Core, Job};
use crate::net::{Accepted, ConnId, ListenerCore};
use crate::stats::Counters;
use crossbeam_queue::SegQueue;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};

/// A worker that has not looked at its reactor for so long is passed over when connections are dealt. Long enough that a thread
/// which lost the processor is not meant.
const HELD_UP_NANOS: u64 = 200_000_000;

/// What other threads may touch of a worker. Never freed.
pub(crate) struct Shared {
    /// Woken fibers, newest first.
    inbox: AtomicPtr<Core>,
    pub messages: SegQueue<Message>,
    asleep: AtomicBool,
    /// When the worker last looked at its inbox and its reactor, about; 0 for never.
    looked_at: AtomicU64,
    /// Signalled to end a sleep; -1 in a simulated world. Never closed: a late wake must not hit another file.
    eventfd: RawFd,
    pub counters: Counters,
}

/// Word from other threads.
pub(crate) enum Message {
    Job(Job),
    Accepted(Accepted),
    Listen(ListenerCore),
    /// Close this listener.
    Unlisten(u64),
    /// Shut this connection down.
    Cut(ConnId),
    /// Look at the flags of the group.
    Poke,
}

/// Halves of finished worlds. Bounded by the worlds that ran at the same time.
static FREE_SHARED: parking_lot::Mutex<Vec<&'static Shared>> = parking_lot::const_mutex(Vec::new());
/// Halves of real workers, for the counters.
static ALL_SHARED: parking_lot::Mutex<Vec<&'static Shared>> = parking_lot::const_mutex(Vec::new());

impl Shared {
    pub fn new(eventfd: Option<OwnedFd>) -> &'static Shared {
        let free = if eventfd.is_none() { FREE_SHARED.lock().pop() } else { None };
        free.unwrap_or_else(|| {
            Box::leak(Box::new(Shared {
                inbox: AtomicPtr::new(null_mut()),
                messages: SegQueue::new(),
                asleep: AtomicBool::new(false),
                looked_at: AtomicU64::new(0),
                eventfd: eventfd.map_or(-1, IntoRawFd::into_raw_fd),
                counters: Counters::default(),
            }))
        })
    }
    /// Gives a finished world's half back for the next.
    pub fn recycle(&'static self) {
        self.inbox.store(null_mut(), Ordering::Relaxed);
        while let Some(message) = self.messages.pop() {
            std::mem::forget(message);
        }
        self.counters.reset();
        self.looked_at.store(0, Ordering::Relaxed);
        FREE_SHARED.lock().push(self);
    }
    /// With a signal of its own, listed for the counters.
    pub fn new_real() -> io::Result<&'static Shared> {
        // SAFETY: plain system call; the descriptor is ours.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, owned by nobody else.
        let shared = Shared::new(Some(unsafe { OwnedFd::from_raw_fd(fd) }));
        ALL_SHARED.lock().push(shared);
        Ok(shared)
    }

    /// Hands over a fiber whose state the caller has just moved from PARKED to NOTIFIED.
    pub fn push_wake(&self, core: &'static Core, signal: bool) {
        let mut head = self.inbox.load(Ordering::Relaxed);
        loop {
            core.next.store(head, Ordering::Relaxed);
            let new = std::ptr::from_ref(core).cast_mut();
            match self.inbox.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(seen) => head = seen,
            }
        }
        if signal {
            self.signal();
        }
    }
    pub fn send(&self, message: Message) {
        self.messages.push(message);
        self.signal();
    }
    /// Wakes the worker's thread if it sleeps or is about to.
    pub fn signal(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::SeqCst) {
            self.counters.signals.add_shared(1);
            // SAFETY: writes eight bytes to a descriptor that is never closed.
            unsafe { libc::eventfd_write(self.eventfd, 1) };
        }
    }
    /// Takes the woken fibers and gives them to `f`, the newest first.
    pub fn take_woken(&self, mut f: impl FnMut(&'static Core)) {
        if self.inbox.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut next = self.inbox.swap(null_mut(), Ordering::Acquire);
        // SAFETY: links of the inbox point at cores, which are never freed.
        while let Some(core) = unsafe { next.as_ref() } {
            next = core.next.load(Ordering::Relaxed);
            f(core);
        }
    }
    /// Begins to sleep; false if there is something to take after all. `wake_up` ends it in both cases.
    pub fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        !self.has_word()
    }
    pub fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
    /// The worker looks at its inbox and its reactor.
    pub fn note_look(&self, now: u64) {
        self.looked_at.store(now, Ordering::Relaxed);
    }
    /// Whether one fiber has kept the worker for long.
    pub fn is_held_up(&self, now: u64) -> bool {
        let looked_at = self.looked_at.load(Ordering::Relaxed);
        !self.asleep.load(Ordering::Relaxed)
            && looked_at != 0
            && now.saturating_sub(looked_at) > HELD_UP_NANOS
    }
    /// Is there anything to take?
    pub fn has_word(&self) -> bool {
        !self.inbox.load(Ordering::Relaxed).is_null() || !self.messages.is_empty()
    }
    /// The descriptor that ends a sleep when it becomes readable.
    pub fn eventfd(&self) -> RawFd {
        self.eventfd
    }
}

/// Calls `f` for the counters of every real worker there has been.
pub(crate) fn for_each_counters(f: impl FnMut(&Counters)) {
    ALL_SHARED.lock().iter().map(|s| &s.counters).for_each(f);
}

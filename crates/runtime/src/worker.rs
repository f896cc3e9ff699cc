//! Workers: a thread, its run queue, its timers, its reactor, its connections.
//!
//! **The loop**: take what others have sent, run a bounded pass of the run queue, fire timers, then let the reactor handle
//! one batch of completions, entering the kernel once; it sleeps there only if nothing is runnable.
//!
//! **Invariants.** 1. Before a worker sleeps it sets `asleep` and looks at its inbox once more; a sender pushes first and
//! then looks at `asleep`: one of the two sees the other. 2. A `Shared` is never freed, so wakes may be late. 3. A worker has
//! at most `fibers_max` fibers; jobs beyond wait in `waiting` and take the next fiber that finishes.
//!
//! A simulated world is one `Worker` too, with `Reactor::Sim` and a loop of its own (`sim::world`).

use crate::blocking::BlockingPool;
use crate::fiber::{self, Core, Job};
use crate::net::{self, Accepted, ConnId, Conns, ListenerCore};
use crate::reactor::Reactor;
use crate::stack::StackPool;
use crate::stats::Counters;
use crate::timer::{Target, Timers};
use crate::wait::WaitEvent;
use crate::{Config, ReactorChoice, time};
use crossbeam_queue::SegQueue;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Services that may run at once; more become plain fibers.
pub(crate) const SERVICES_MAX: usize = 30;
/// Queue items run between two looks at the reactor.
const PASS_MAX: usize = 64;
/// How long `shutdown` waits for fibers before it abandons them.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(10);

/// What other threads may touch of a worker. Never freed.
pub(crate) struct Shared {
    /// Woken fibers, newest first.
    inbox: AtomicPtr<Core>,
    pub messages: SegQueue<Message>,
    asleep: AtomicBool,
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
                eventfd: eventfd.map_or(-1, std::os::fd::IntoRawFd::into_raw_fd),
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
        FREE_SHARED.lock().push(self);
    }
    fn new_real() -> io::Result<&'static Shared> {
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
    fn has_word(&self) -> bool {
        !self.inbox.load(Ordering::Relaxed).is_null() || !self.messages.is_empty()
    }
    /// The descriptor that ends a sleep when it becomes readable.
    pub fn eventfd(&self) -> RawFd {
        self.eventfd
    }
}

/// An item of the run queue.
pub(crate) enum Run {
    Fiber(&'static Core),
    /// A job for a pooled fiber, with the slot it runs under.
    Job(Job, usize),
}

/// The workers that belong together: one real runtime, or one world.
pub(crate) struct Group {
    pub workers: usize,
    shared: Vec<&'static Shared>,
    services: parking_lot::Mutex<Vec<Option<&'static Shared>>>,
    choice: ReactorChoice,
    fibers_max_per_worker: usize,
    stacks: Arc<StackPool>,
    pub blocking: Arc<BlockingPool>,
    stopping: AtomicBool,
    abandoning: AtomicBool,
    threads: parking_lot::Mutex<usize>,
    thread_ended: parking_lot::Condvar,
    /// Next worker to be dealt a connection.
    pub deal: AtomicUsize,
}

impl Group {
    fn new(
        config: &Config,
        workers: usize,
        shared: Vec<&'static Shared>,
        stacks: Arc<StackPool>,
    ) -> Arc<Group> {
        Arc::new(Group {
            workers,
            shared,
            services: parking_lot::Mutex::new(vec![None; SERVICES_MAX]),
            choice: config.reactor,
            fibers_max_per_worker: (config.fibers_max / workers).max(16),
            stacks,
            blocking: Arc::default(),
            stopping: AtomicBool::new(false),
            abandoning: AtomicBool::new(false),
            threads: parking_lot::Mutex::new(0),
            thread_ended: parking_lot::Condvar::new(),
            deal: AtomicUsize::new(0),
        })
    }
    /// A world's: one worker that plays all of them.
    pub fn simulated(
        config: &Config,
        workers: usize,
        shared: &'static Shared,
        stacks: Arc<StackPool>,
    ) -> Arc<Group> {
        Self::new(config, workers, vec![shared; workers], stacks)
    }
    pub fn is_simulated(&self) -> bool {
        self.shared[0].eventfd < 0
    }
    pub fn worker(&self, index: usize) -> &'static Shared {
        self.shared[index]
    }
    /// Length of arrays by slot.
    pub fn slots(&self) -> usize {
        self.workers + SERVICES_MAX + 1
    }
    fn signal_all(&self) {
        for shared in &self.shared {
            shared.send(Message::Poke);
        }
        for shared in self.services.lock().iter().flatten() {
            shared.send(Message::Poke);
        }
    }
}

/// The group that threads outside of all workers mean: the last one started.
static DEFAULT: parking_lot::Mutex<Option<Arc<Group>>> = parking_lot::const_mutex(None);

thread_local! {
    static WORKER: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
}

/// What only the worker's own thread touches.
pub(crate) struct Worker {
    pub shared: &'static Shared,
    pub group: Arc<Group>,
    pub slot: usize,
    pub reactor: Reactor,
    pub queue: RefCell<VecDeque<Run>>,
    pub timers: RefCell<Timers>,
    pub conns: Conns,
    /// Clock of the last look, for what needs no exact time.
    pub now: Cell<u64>,
    idle: RefCell<Vec<&'static Core>>,
    waiting: RefCell<VecDeque<(Job, usize)>>,
    /// All fibers of this worker.
    fibers: RefCell<Vec<&'static Core>>,
    busy: Cell<usize>,
    stopped_net: Cell<bool>,
    sequence: Cell<u64>,
}

/// The worker of the calling thread. The borrow ends with the caller's call: nobody keeps it across a park.
#[inline]
pub(crate) fn own<'a>() -> Option<&'a Worker> {
    // SAFETY: set while the worker lives on this thread's stack, cleared before it goes.
    unsafe { WORKER.get().as_ref() }
}

/// Is this the calling thread's worker?
#[inline]
pub(crate) fn is_own(shared: &'static Shared) -> bool {
    own().is_some_and(|w| std::ptr::eq(w.shared, shared))
}

#[inline]
pub(crate) fn enqueue_local(run: Run) {
    own().expect("only called on a worker").enqueue(run);
}

#[inline]
pub(crate) fn count_wait(event: WaitEvent, nanos: u64) {
    if let Some(w) = own() {
        w.shared.counters.count_wait(event, nanos);
    }
}

pub(crate) fn arm_fiber(core: &'static Core, at: u64) {
    if core.timer_at.get() == 0 || at < core.timer_at.get() {
        core.timer_at.set(at);
        own().expect("fibers park on workers").arm(at, Target::Fiber(core));
    }
}

/// The pool of the calling fiber's runtime; none outside fibers and in simulation.
pub(crate) fn blocking_pool() -> Option<Arc<BlockingPool>> {
    let w = own().filter(|w| fiber::in_fiber() && !matches!(w.reactor, Reactor::Sim(_)))?;
    Some(w.group.blocking.clone())
}

/// The worker, if the caller is a fiber in the real world.
pub(crate) fn own_real<'a>() -> Option<&'a Worker> {
    own().filter(|w| fiber::in_fiber() && !matches!(w.reactor, Reactor::Sim(_)))
}

/// The caller's group, or the last one started.
pub(crate) fn group() -> Arc<Group> {
    match own() {
        Some(w) => w.group.clone(),
        None => DEFAULT.lock().clone().expect("no runtime has been started"),
    }
}

pub(crate) fn worker_count() -> usize {
    own().map_or_else(|| group().workers, |w| w.group.workers)
}
pub(crate) fn slot_count() -> usize {
    own().map_or_else(|| group().slots(), |w| w.group.slots())
}
#[inline]
pub(crate) fn worker_index() -> usize {
    match (fiber::current_core(), own()) {
        (Some(core), Some(_)) => core.slot.get(),
        (None, Some(w)) => w.slot,
        _ => slot_count() - 1,
    }
}

/// Calls `f` for the counters of every worker, or of the world the caller is in.
pub(crate) fn for_each_counters(mut f: impl FnMut(&Counters)) {
    match own() {
        Some(w) if matches!(w.reactor, Reactor::Sim(_)) => f(&w.shared.counters),
        _ => ALL_SHARED.lock().iter().for_each(|s| f(&s.counters)),
    }
}

/// A job has panicked; the message itself was printed by the panic hook.
pub(crate) fn report_panic(panic: &(dyn Any + Send)) {
    if let Some(w) = own() {
        w.shared.counters.panics.add(1);
        if let Reactor::Sim(world) = &w.reactor {
            return world.fiber_panicked(panic);
        }
    }
    eprintln!("keel: a fiber ended by a panic; the process goes on");
}

pub(crate) fn spawn(worker: Option<usize>, job: Job) {
    match own() {
        Some(w) if matches!(w.reactor, Reactor::Sim(_)) => {
            let slot = worker.unwrap_or_else(worker_index);
            assert!(slot < w.group.slots(), "no worker {slot}");
            w.enqueue(Run::Job(job, slot));
        }
        Some(w) if worker.is_none_or(|index| index == w.slot) => w.enqueue(Run::Job(job, w.slot)),
        _ => group().worker(worker.unwrap_or(0)).send(Message::Job(job)),
    }
}

pub(crate) fn spawn_service(name: &'static str, f: Box<dyn FnOnce() + Send>) {
    let group = group();
    let is_sim = own().is_some_and(|w| matches!(w.reactor, Reactor::Sim(_)));
    let shared = Shared::new_service(is_sim);
    let free = shared.and_then(|shared| {
        let mut services = group.services.lock();
        let free = services.iter().position(Option::is_none)?;
        services[free] = Some(shared);
        Some((free, shared))
    });
    let Some((index, shared)) = free else {
        return spawn(None, Job::Run(f));
    };
    let slot = group.workers + index;
    if is_sim {
        let done = ServiceSlot { group, index };
        let job = Job::Run(Box::new(move || {
            let _done = done;
            f();
        }));
        return enqueue_local(Run::Job(job, slot));
    }
    let start = Start { group: group.clone(), shared, slot, service: Some(Job::Run(f)), ready: None };
    if let Err(error) = start.spawn(name) {
        eprintln!("keel: no thread for service {name}: {error}");
        group.services.lock()[index] = None;
    }
}

/// A service's place, free again when the service ends.
struct ServiceSlot {
    group: Arc<Group>,
    index: usize,
}
impl Drop for ServiceSlot {
    fn drop(&mut self) {
        self.group.services.lock()[self.index] = None;
    }
}

impl Shared {
    fn new_service(is_sim: bool) -> Option<&'static Shared> {
        match is_sim {
            true => own().map(|w| w.shared),
            false => Shared::new_real().ok(),
        }
    }
}

/// What a worker's thread begins with.
struct Start {
    group: Arc<Group>,
    shared: &'static Shared,
    slot: usize,
    /// The one job of a service.
    service: Option<Job>,
    ready: Option<mpsc::Sender<io::Result<&'static str>>>,
}

impl Start {
    fn spawn(self, name: &str) -> io::Result<()> {
        let group = self.group.clone();
        *group.threads.lock() += 1;
        let started = std::thread::Builder::new().name(name.to_string()).spawn(move || self.run());
        if started.is_err() {
            *group.threads.lock() -= 1;
        }
        started.map(drop)
    }

    fn run(mut self) {
        let group = self.group.clone();
        let is_service = self.service.is_some();
        match Reactor::new(group.choice, self.shared, is_service) {
            Ok(reactor) => {
                if let Some(ready) = self.ready.take() {
                    let _ = ready.send(Ok(reactor.name()));
                }
                let worker = Worker::new(self.shared, group.clone(), self.slot, reactor);
                worker.enter(|w| {
                    if let Some(job) = self.service.take() {
                        w.enqueue(Run::Job(job, w.slot));
                    }
                    w.run_loop(is_service);
                });
            }
            Err(error) => match self.ready.take() {
                Some(ready) => drop(ready.send(Err(error))),
                None => eprintln!("keel: a service has no reactor: {error}"),
            },
        }
        if is_service {
            group.services.lock()[self.slot - group.workers] = None;
        }
        *group.threads.lock() -= 1;
        group.thread_ended.notify_all();
    }
}

impl Worker {
    pub fn new(shared: &'static Shared, group: Arc<Group>, slot: usize, reactor: Reactor) -> Worker {
        Worker {
            shared,
            group,
            slot,
            reactor,
            queue: RefCell::default(),
            timers: RefCell::default(),
            conns: Conns::default(),
            now: Cell::new(time::now().0),
            idle: RefCell::default(),
            waiting: RefCell::default(),
            fibers: RefCell::default(),
            busy: Cell::new(0),
            stopped_net: Cell::new(false),
            sequence: Cell::new(0),
        }
    }

    /// Makes this the calling thread's worker while `f` runs.
    pub fn enter<R>(&self, f: impl FnOnce(&Worker) -> R) -> R {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                WORKER.set(std::ptr::null());
            }
        }
        assert!(WORKER.get().is_null(), "a thread is one worker at a time");
        WORKER.set(self);
        let _leave = Leave;
        f(self)
    }

    #[inline]
    pub fn enqueue(&self, run: Run) {
        self.queue.borrow_mut().push_back(run);
    }

    /// Sets a timer.
    pub fn arm(&self, at: u64, target: Target) {
        self.timers.borrow_mut().arm(at, target, &self.conns);
    }

    /// Takes what other threads have sent.
    pub fn take_inbox(&self) {
        if !self.shared.inbox.load(Ordering::Relaxed).is_null() {
            let newest = self.shared.inbox.swap(null_mut(), Ordering::Acquire);
            let mut queue = self.queue.borrow_mut();
            let oldest_at = queue.len();
            let mut next = newest;
            // SAFETY: links of the inbox point at cores, which are never freed.
            while let Some(core) = unsafe { next.as_ref() } {
                next = core.next.load(Ordering::Relaxed);
                queue.push_back(Run::Fiber(core));
            }
            queue.make_contiguous()[oldest_at..].reverse();
        }
        while let Some(message) = self.shared.messages.pop() {
            self.handle(message);
        }
    }

    fn handle(&self, message: Message) {
        match message {
            Message::Job(job) => self.enqueue(Run::Job(job, self.slot)),
            Message::Accepted(accepted) => net::adopt(self, accepted),
            Message::Listen(listener) => net::start_listening(self, listener),
            Message::Unlisten(id) => net::stop_listening(self, id),
            Message::Cut(id) => net::cut(self, id),
            Message::Poke => {}
        }
    }

    /// Runs one item of the queue.
    pub fn run_one(&self, run: Run) {
        match run {
            Run::Fiber(core) => self.resume(core),
            Run::Job(job, slot) => match self.free_fiber() {
                Some(core) => {
                    core.slot.set(slot);
                    core.assign(job);
                    self.busy.set(self.busy.get() + 1);
                    self.resume(core);
                }
                None => self.waiting.borrow_mut().push_back((job, slot)),
            },
        }
    }

    fn resume(&self, core: &'static Core) {
        self.shared.counters.switches.add(1);
        if !core.resume(self) {
            return;
        }
        self.busy.set(self.busy.get() - 1);
        self.idle.borrow_mut().push(core);
        if let Some((job, slot)) = self.waiting.borrow_mut().pop_front() {
            self.enqueue(Run::Job(job, slot));
        }
    }

    fn free_fiber(&self) -> Option<&'static Core> {
        if let Some(core) = self.idle.borrow_mut().pop() {
            return Some(core);
        }
        let mut fibers = self.fibers.borrow_mut();
        if fibers.len() >= self.group.fibers_max_per_worker {
            return None;
        }
        match Core::new_fiber(self.shared, &self.group.stacks) {
            Ok(core) => {
                self.sequence.set(self.sequence.get() + 1);
                core.sequence.set(self.sequence.get());
                fibers.push(core);
                self.shared.counters.fibers.set(fibers.len() as u64);
                Some(core)
            }
            // No memory for a stack: the job waits for a fiber to finish, unless there is none that could.
            Err(error) => {
                assert!(!fibers.is_empty(), "no memory for the first fiber: {error}");
                None
            }
        }
    }

    fn run_pass(&self) {
        let n = self.queue.borrow().len().min(PASS_MAX);
        for _ in 0..n {
            let Some(run) = self.queue.borrow_mut().pop_front() else { break };
            self.run_one(run);
        }
    }

    /// Fires what is due; the time of the next timer.
    pub fn fire_timers(&self) -> Option<u64> {
        let next = self.timers.borrow().next()?;
        let now = time::now().0;
        self.now.set(now);
        if next > now {
            return Some(next);
        }
        loop {
            let due = self.timers.borrow_mut().pop_due(now);
            match due {
                Some((at, Target::Fiber(core))) => fiber::timer_fired(core, at, now),
                Some((_, Target::Conn(id))) => net::idle_timer_fired(self, id),
                Some((_, Target::Listener(index))) => net::resume_listening(self, index),
                Some((_, Target::Delivery(id))) => self.reactor.deliver(self, id),
                None => return self.timers.borrow().next(),
            }
        }
    }

    fn run_loop(&self, is_service: bool) {
        loop {
            self.take_inbox();
            self.run_pass();
            self.conns.bury();
            if self.must_end(is_service) {
                break;
            }
            let deadline = self.fire_timers();
            if !self.queue.borrow().is_empty() {
                self.reactor.poll(self);
                continue;
            }
            self.shared.asleep.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if self.shared.has_word() {
                self.reactor.poll(self);
            } else {
                self.reactor.wait(self, deadline);
            }
            self.shared.asleep.store(false, Ordering::SeqCst);
        }
        self.end();
    }

    fn must_end(&self, is_service: bool) -> bool {
        let stopping = self.group.stopping.load(Ordering::Acquire);
        if !stopping && !is_service {
            return false;
        }
        if stopping && !self.stopped_net.replace(true) {
            net::stop_all(self);
        }
        if self.group.abandoning.load(Ordering::Acquire) {
            return true;
        }
        self.busy.get() == 0
            && self.queue.borrow().is_empty()
            && self.waiting.borrow().is_empty()
            && self.conns.is_empty()
            && !self.shared.has_word()
    }

    /// Retires the fibers. Those that still run jobs are abandoned; what they own is leaked, as is what the kernel may yet write to.
    pub fn end(&self) {
        for core in self.fibers.borrow_mut().drain(..) {
            core.retire();
        }
        self.shared.counters.fibers.set(0);
        self.conns.leak();
    }

    /// A world has ended: what is still queued never runs and is leaked, as its destructors may need the world.
    pub fn abandon_queue(&self) {
        self.queue.borrow_mut().drain(..).for_each(std::mem::forget);
        self.waiting.borrow_mut().drain(..).for_each(std::mem::forget);
    }

    /// Names what each parked fiber waits for.
    pub fn describe_parked(&self) -> String {
        let idle = self.idle.borrow();
        let fibers = self.fibers.borrow();
        let parked = fibers.iter().filter(|f| !idle.iter().any(|i| std::ptr::eq(*i, **f)));
        parked.map(|f| format!("  fiber {} waits for {}\n", f.sequence.get(), f.event.get().name())).collect()
    }
}

/// The threads of a real runtime.
pub(crate) struct Threads {
    group: Arc<Group>,
    pub reactor_name: &'static str,
}

impl Threads {
    pub fn start(config: &Config) -> io::Result<Threads> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let workers = if config.workers == 0 { cores() } else { config.workers };
        let shared = (0..workers).map(|_| Shared::new_real()).collect::<io::Result<Vec<_>>>()?;
        let group = Group::new(config, workers, shared.clone(), StackPool::new(config.stack_bytes));
        let (sender, receiver) = mpsc::channel();
        let mut threads = Threads { group: group.clone(), reactor_name: "" };
        for (slot, shared) in shared.into_iter().enumerate() {
            let start =
                Start { group: group.clone(), shared, slot, service: None, ready: Some(sender.clone()) };
            if let Err(error) = start.spawn(&format!("keel-{slot}")) {
                threads.stop();
                return Err(error);
            }
        }
        for _ in 0..workers {
            match receiver.recv().unwrap_or_else(|_| Err(io::Error::other("a worker did not start"))) {
                Ok(name) => threads.reactor_name = name,
                Err(error) => {
                    threads.stop();
                    return Err(error);
                }
            }
        }
        *DEFAULT.lock() = Some(group);
        Ok(threads)
    }

    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Stops the workers; true if all fibers had ended by themselves.
    pub fn stop(&self) -> bool {
        self.group.stopping.store(true, Ordering::Release);
        self.group.signal_all();
        let orderly = self.wait_for_threads(SHUTDOWN_WAIT);
        if !orderly {
            self.group.abandoning.store(true, Ordering::Release);
            self.group.signal_all();
            self.wait_for_threads(Duration::from_secs(1));
        }
        self.group.blocking.stop();
        let mut default = DEFAULT.lock();
        if default.as_ref().is_some_and(|d| Arc::ptr_eq(d, &self.group)) {
            *default = None;
        }
        orderly
    }

    fn wait_for_threads(&self, patience: Duration) -> bool {
        let mut threads = self.group.threads.lock();
        let deadline = time::now() + patience;
        while *threads > 0 {
            let left = deadline.since(time::now());
            if left.is_zero() {
                return false;
            }
            self.group.thread_ended.wait_for(&mut threads, left);
        }
        true
    }
}

/// Runs `f` on worker 0 and waits. On a fiber it runs in place.
pub(crate) fn block_on<T: Send>(group: &Arc<Group>, f: impl FnOnce() -> T + Send) -> T {
    if fiber::in_fiber() {
        return f();
    }
    let mut result: Option<Result<T, Box<dyn Any + Send>>> = None;
    let done = AtomicBool::new(false);
    let caller = fiber::current();
    let (slot, flag) = (&mut result, &done);
    let job: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
        *slot = Some(catch_unwind(AssertUnwindSafe(f)));
        flag.store(true, Ordering::Release);
        caller.wake();
    });
    // SAFETY: the job borrows from this frame, which stays until `done` is set, the last borrow the job uses.
    let job = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Box<dyn FnOnce() + Send>>(job) };
    group.worker(0).send(Message::Job(Job::Run(job)));
    while !done.load(Ordering::Acquire) {
        fiber::park(WaitEvent::Other);
    }
    match result.expect("set before `done`") {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

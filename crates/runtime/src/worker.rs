//! Workers: a thread, its run queue, its timers, its reactor, its connections.
//!
//! **The loop**: take what others have sent, run a bounded pass of the run queue, fire timers, run one slice of a background
//! statement if the background's share allows it (`share`), then let the reactor handle one batch of completions, entering
//! the kernel once; it sleeps there only if nothing may run.
//!
//! **Invariants.** 1. A worker sleeps only after it has announced it and found its inbox empty (`shared`). 2. It has at most
//! `fibers_max` fibers; jobs beyond wait in `waiting` and take the next fiber that finishes. 3. Its cells are never borrowed
//! while a fiber runs.
//!
//! A simulated world is one `Worker` too, with `Reactor::Sim` and a loop of its own (`sim::world`).

use crate::blocking::BlockingPool;
use crate::fiber::{self, Core, Job};
use crate::net::{self, Conns};
use crate::reactor::{Reactor, ReadTurns};
use crate::share::{self, Share};
use crate::shared::{self, Message, Shared};
use crate::stack::StackPool;
use crate::stats::Counters;
use crate::timer::{Target, Timers};
use crate::wait::WaitEvent;
use crate::{Config, ReactorChoice, time};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Services that may run at once, the acceptor among them; more become plain fibers.
pub(crate) const SERVICES_MAX: usize = 31;
/// Queue items run between two looks at the reactor.
const PASS_MAX: usize = 64;
/// How long a background statement runs at a time while no short ones come.
const SLICE_NANOS_FREE: u64 = 500_000;
/// Idle fibers a worker keeps for good.
const IDLE_KEPT: usize = 64;
/// How often it looks whether it keeps too many.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);

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
    /// The thread that accepts connections, so that no statement keeps them waiting; none in a simulated world.
    pub acceptor: OnceLock<&'static Shared>,
    pub services: parking_lot::Mutex<Vec<Option<&'static Shared>>>,
    pub choice: ReactorChoice,
    fibers_max_per_worker: usize,
    pub shutdown_wait: Duration,
    stacks: Arc<StackPool>,
    pub blocking: Arc<BlockingPool>,
    pub stopping: AtomicBool,
    pub abandoning: AtomicBool,
    pub threads: parking_lot::Mutex<usize>,
    pub thread_ended: parking_lot::Condvar,
    /// Next worker to be dealt a connection.
    pub deal: AtomicUsize,
    /// The workers' reads of files.
    pub turns: ReadTurns,
}

impl Group {
    pub fn new(
        config: &Config,
        workers: usize,
        shared: Vec<&'static Shared>,
        stacks: Arc<StackPool>,
    ) -> Arc<Group> {
        Arc::new(Group {
            workers,
            shared,
            acceptor: OnceLock::new(),
            services: parking_lot::Mutex::new(vec![None; SERVICES_MAX]),
            choice: config.reactor,
            fibers_max_per_worker: (config.fibers_max / workers).max(16),
            shutdown_wait: config.shutdown_wait,
            stacks,
            blocking: Arc::default(),
            stopping: AtomicBool::new(false),
            abandoning: AtomicBool::new(false),
            threads: parking_lot::Mutex::new(0),
            thread_ended: parking_lot::Condvar::new(),
            deal: AtomicUsize::new(0),
            turns: ReadTurns::default(),
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
        self.shared[0].eventfd() < 0
    }
    /// Who accepts connections.
    pub fn acceptor(&self) -> &'static Shared {
        self.acceptor.get().copied().unwrap_or(self.shared[0])
    }
    pub fn worker(&self, index: usize) -> &'static Shared {
        self.shared[index]
    }
    /// Length of arrays by slot.
    pub fn slots(&self) -> usize {
        self.workers + SERVICES_MAX + 1
    }
    pub fn signal_all(&self) {
        for shared in &self.shared {
            shared.send(Message::Poke);
        }
        for shared in self.services.lock().iter().flatten() {
            shared.send(Message::Poke);
        }
    }
}

/// The group that threads outside of all workers mean: the last one started.
pub(crate) static DEFAULT: parking_lot::Mutex<Option<Arc<Group>>> = parking_lot::const_mutex(None);

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
    /// Fibers of long statements that are ready; in a simulated world these stand in `queue`.
    background: RefCell<VecDeque<&'static Core>>,
    pub share: Share,
    /// The worker runs a slice that it gave to the background.
    runs_background: Cell<bool>,
    pub timers: RefCell<Timers>,
    pub conns: Conns,
    /// Clock of the last look, for what needs no exact time.
    pub now: Cell<u64>,
    /// Pooled fibers, the last used last.
    idle: RefCell<Vec<&'static Core>>,
    /// The fewest that were idle since the last trim.
    idle_least: Cell<usize>,
    trim_armed: Cell<bool>,
    waiting: RefCell<VecDeque<(Job, usize)>>,
    /// Cores without a fiber. They stay here while the worker lives, as its timers may name them.
    spare: RefCell<Vec<&'static Core>>,
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
        _ => shared::for_each_counters(f),
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
    // It may be a pipe that nobody reads, or a file on a full disk.
    let _ = writeln!(std::io::stderr(), "keel: a fiber ended by a panic; the process goes on");
}

/// A fiber has looked at the clock: [`crate::time::recent`] is not earlier.
#[inline]
pub(crate) fn note_time(nanos: u64) {
    if let Some(worker) = own() {
        worker.now.set(nanos);
    }
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

impl Worker {
    pub fn new(shared: &'static Shared, group: Arc<Group>, slot: usize, reactor: Reactor) -> Worker {
        Worker {
            shared,
            group,
            slot,
            reactor,
            queue: RefCell::default(),
            background: RefCell::default(),
            share: Share::default(),
            runs_background: Cell::new(false),
            timers: RefCell::default(),
            conns: Conns::default(),
            now: Cell::new(time::now().0),
            idle: RefCell::default(),
            idle_least: Cell::new(0),
            trim_armed: Cell::new(false),
            waiting: RefCell::default(),
            spare: RefCell::default(),
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

    /// Queues a fiber of a long statement behind the others of its kind.
    pub fn enqueue_background(&self, core: &'static Core) {
        if self.group.is_simulated() {
            return self.enqueue(Run::Fiber(core));
        }
        self.background.borrow_mut().push_back(core);
    }

    /// Runs a slice of the background if its share allows it. The time from which it may run again; none if nothing stood in it.
    fn run_background(&self) -> Option<u64> {
        if self.background.borrow().is_empty() {
            return None;
        }
        let now = time::now().0;
        self.now.set(now);
        let from = self.share.background_from(now);
        if from > now {
            return Some(from);
        }
        // What is ready goes first, unless that has taken all of the time for long.
        if self.has_ready() && !self.share.is_overdue(now) {
            return Some(now);
        }
        let core = self.background.borrow_mut().pop_front()?;
        self.runs_background.set(true);
        self.resume_at(core, Some(now));
        self.runs_background.set(false);
        let now = self.now.get();
        // The last one may have ended what the worker waits for: its loop goes round once more.
        Some(if self.background.borrow().is_empty() { now } else { self.share.background_from(now) })
    }

    /// Whether a background statement that has run for so long gives the worker back.
    pub fn ends_background_slice(&self, now: u64, nanos: u64) -> bool {
        if self.has_ready() || nanos > SLICE_NANOS_FREE {
            return true;
        }
        let max = if self.runs_background.get() { share::SLICE_NANOS_METERED } else { 0 };
        nanos > max && self.share.is_metered(now)
    }

    /// Is there something to do beside the background?
    fn has_ready(&self) -> bool {
        !self.queue.borrow().is_empty() || self.shared.has_word() || self.reactor.has_news()
    }

    /// Sets a timer.
    pub fn arm(&self, at: u64, target: Target) {
        self.timers.borrow_mut().arm(at, target, &self.conns);
    }

    /// Takes what other threads have sent.
    pub fn take_inbox(&self) {
        {
            let mut queue = self.queue.borrow_mut();
            let oldest_at = queue.len();
            self.shared.take_woken(|core| queue.push_back(Run::Fiber(core)));
            if queue.len() - oldest_at > 1 {
                queue.make_contiguous()[oldest_at..].reverse();
            }
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
        self.resume_at(core, None);
    }

    /// Runs a fiber; in the background from the time that is given.
    fn resume_at(&self, core: &'static Core, background_from: Option<u64>) {
        self.shared.counters.switches.add(1);
        let slice = background_from.map(|now| (now, self.share.is_metered(now)));
        if !core.resume(self, slice) {
            return;
        }
        self.busy.set(self.busy.get() - 1);
        let mut idle = self.idle.borrow_mut();
        idle.push(core);
        if idle.len() > IDLE_KEPT && !self.trim_armed.get() && !self.group.is_simulated() {
            self.trim_armed.set(true);
            self.idle_least.set(idle.len());
            self.arm((time::now() + TRIM_INTERVAL).0, Target::Trim);
        }
        drop(idle);
        if let Some((job, slot)) = self.waiting.borrow_mut().pop_front() {
            self.enqueue(Run::Job(job, slot));
        }
    }

    /// Retires half of the fibers that were idle all the time since the last look, those unused for longest.
    fn trim(&self) {
        let mut idle = self.idle.borrow_mut();
        let spare = self.idle_least.get().min(idle.len().saturating_sub(IDLE_KEPT)).div_ceil(2);
        let mut fibers = self.fibers.borrow_mut();
        for core in idle.drain(..spare) {
            let place = core.place.get();
            fibers.swap_remove(place);
            if let Some(moved) = fibers.get(place) {
                moved.place.set(place);
            }
            core.retire(true);
            self.spare.borrow_mut().push(core);
        }
        self.shared.counters.fibers.set(fibers.len() as u64);
        self.idle_least.set(idle.len());
        self.trim_armed.set(idle.len() > IDLE_KEPT);
        if self.trim_armed.get() {
            self.arm((time::now() + TRIM_INTERVAL).0, Target::Trim);
        }
    }

    fn free_fiber(&self) -> Option<&'static Core> {
        let mut idle = self.idle.borrow_mut();
        if let Some(core) = idle.pop() {
            self.idle_least.set(self.idle_least.get().min(idle.len()));
            return Some(core);
        }
        let mut fibers = self.fibers.borrow_mut();
        if fibers.len() >= self.group.fibers_max_per_worker {
            return None;
        }
        let core = self.spare.borrow_mut().pop().unwrap_or_else(Core::take_fiber);
        match core.become_fiber(self.shared, &self.group.stacks) {
            Ok(()) => {
                self.sequence.set(self.sequence.get() + 1);
                core.sequence.set(self.sequence.get());
                core.place.set(fibers.len());
                fibers.push(core);
                self.shared.counters.fibers.set(fibers.len() as u64);
                Some(core)
            }
            // No memory for a stack: the job waits for a fiber to finish, unless there is none that could.
            Err(error) => {
                self.spare.borrow_mut().push(core);
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
            self.reactor.look_at_turns(self);
        }
    }

    /// Do its reads take part in turns? Those of services and worlds do not.
    pub fn takes_turns(&self) -> bool {
        self.slot < self.group.workers
    }

    /// Fires what is due; the time of the next timer.
    pub fn fire_timers(&self, now: u64) -> Option<u64> {
        self.now.set(now);
        let next = self.timers.borrow().next()?;
        if next > now {
            return Some(next);
        }
        loop {
            let due = self.timers.borrow_mut().pop_due(now);
            match due {
                Some((at, Target::Fiber(core))) => fiber::timer_fired(core, at, now),
                Some((_, Target::Conn(id))) => net::idle_timer_fired(self, id),
                Some((_, Target::Listener(index))) => net::resume_listening(self, index),
                Some((_, Target::Trim)) => self.trim(),
                Some((_, Target::Delivery(id))) => self.reactor.deliver(self, id),
                None => return self.timers.borrow().next(),
            }
        }
    }

    /// Until the group stops, or the service's job has ended.
    pub fn run_loop(&self, is_service: bool) {
        loop {
            self.take_inbox();
            self.run_pass();
            self.conns.bury();
            if self.must_end(is_service) {
                break;
            }
            let now = time::now().0;
            self.shared.note_look(now);
            let deadline = self.fire_timers(now);
            let background_from = self.run_background();
            let background_waits = background_from.is_none_or(|from| from > self.now.get());
            if !self.queue.borrow().is_empty() || !background_waits {
                self.reactor.poll(self);
                continue;
            }
            let deadline = [deadline, background_from].into_iter().flatten().min();
            if self.shared.fall_asleep() {
                self.reactor.wait(self, deadline);
            } else {
                self.reactor.poll(self);
            }
            self.shared.wake_up();
            self.now.set(time::now().0);
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
            && self.reactor.files_open() == 0
            && self.queue.borrow().is_empty()
            && self.background.borrow().is_empty()
            && self.waiting.borrow().is_empty()
            && self.conns.is_empty()
            && !self.shared.has_word()
    }

    /// Retires the fibers. Those that still run jobs are abandoned; what they own is leaked, as is what the kernel may yet write to.
    pub fn end(&self) {
        const IDLE: usize = usize::MAX;
        let idle = self.idle.take();
        idle.iter().for_each(|core| core.place.set(IDLE));
        for core in self.fibers.borrow_mut().drain(..) {
            core.retire(false);
            // Another thread may be waking a busy one at this moment; alone in a world, nobody does.
            if core.place.get() != IDLE && self.group.is_simulated() {
                core.give_back_fiber();
            }
        }
        idle.into_iter().for_each(Core::give_back_fiber);
        self.spare.borrow_mut().drain(..).for_each(Core::give_back_fiber);
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

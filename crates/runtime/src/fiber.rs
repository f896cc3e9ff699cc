//! Fibers: plain code on a stack of its own that can be parked and woken.
//!
//! **State.** RUNNING (has a job and is not parked, or is idle in the pool), NOTIFIED (a wake came), PARKED. A wake swaps in
//! NOTIFIED and puts the fiber into its worker's queue only if it was PARKED, so a fiber stands in at most one queue, once.
//! The token is taken when `park` returns; `yield_now` leaves it alone.
//!
//! **Invariants.** 1. Only its worker resumes a fiber. 2. A `Core` is never freed; it is reused, so a late wake is spurious
//! and nothing worse. 3. No latch is held and nothing unwinds at a park. 4. A panic of a job ends in `run_job`.
//!
//! Threads that are no fibers have a `Core` too: they park by `std::thread::park`, so every primitive works there.

use crate::latch;
use crate::net::ConnId;
use crate::share;
use crate::shared::Shared;
use crate::stack::{FiberStack, StackPool};
use crate::time::{self, Instant};
use crate::wait::WaitEvent;
use crate::worker::{self, Run, Worker};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const RUNNING: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;

/// How long a row loop runs before `tick` yields.
const SLICE_NANOS: u64 = 500_000;
/// `tick` looks at the clock once in so many calls; fewer where calls lie far apart.
const TICKS_PER_LOOK_MAX: u32 = 256;
const TICKS_PER_LOOK_FIRST: u32 = 64;
/// How far two looks at the clock should lie apart.
const LOOK_NANOS_MIN: u64 = 20_000;
const LOOK_NANOS_MAX: u64 = 50_000;
/// The most that one slice adds to what a statement has used: the thread may have lost the processor meanwhile.
const SLICE_COUNTED_NANOS_MAX: u64 = 2 * SLICE_NANOS;

/// What a fiber is given to run.
pub(crate) enum Job {
    /// A closure.
    Run(Box<dyn FnOnce() + Send>),
    /// A connection that has input, or has ended.
    Conn(ConnId),
}

/// Why a fiber gave its worker back.
enum Left {
    Parked,
    Yielded,
    Finished,
}

type Body = Coroutine<(), Left, (), FiberStack>;

/// A fiber, or the stand-in for a thread that is none.
pub(crate) struct Core {
    state: AtomicU32,
    /// Link of the worker's inbox.
    pub next: AtomicPtr<Core>,
    /// The worker it belongs to; null for threads.
    home: AtomicPtr<Shared>,
    thread: parking_lot::Mutex<Option<std::thread::Thread>>,
    /// Everything below belongs to the home worker's thread.
    body: UnsafeCell<Option<Body>>,
    yielder: Cell<*const Yielder<(), Left>>,
    job: Cell<Option<Job>>,
    stack_lowest: Cell<usize>,
    /// Slot that `worker_index` answers.
    pub slot: Cell<usize>,
    /// Until when it is parked, 0 for no deadline.
    pub deadline: Cell<u64>,
    /// Time of its live timer entry, 0 for none.
    pub timer_at: Cell<u64>,
    /// What it is parked for.
    pub event: Cell<WaitEvent>,
    /// The same for other threads, one more than its place among the events; 0 while it runs.
    shown_event: AtomicU8,
    /// First clock reading since it was resumed, 0 for none yet.
    slice_start: Cell<u64>,
    /// The thread's processor time then, where the slice is one of the background.
    cpu_start: Cell<u64>,
    /// The last clock reading of `tick`, and the calls of it between two readings.
    looked_at: Cell<u64>,
    ticks_per_look: Cell<u32>,
    /// Whether it runs a client's statement, and the time that this has used in slices that are over.
    is_statement: Cell<bool>,
    used_nanos: Cell<u64>,
    pub waited_nanos: Cell<u64>,
    /// The part of it that was spent on locks of others.
    pub locked_nanos: Cell<u64>,
    local: Cell<u64>,
    /// Its count of [`crate::heap`] while it does not run.
    heap_bytes: Cell<i64>,
    /// Its place in its worker's list.
    pub place: Cell<usize>,
    /// Number in its world, for traces.
    pub sequence: Cell<u64>,
}

// SAFETY: the atomics and the lock are for everyone; all other fields are touched by the home worker's thread only, or, for a
// stand-in, by its thread only. `Core`s change hands through the locked free lists.
unsafe impl Sync for Core {}
// SAFETY: as above; the job inside is Send.
unsafe impl Send for Core {}

/// Cores nobody uses. Bounded by the most that were ever in use at once.
type FreeList = parking_lot::Mutex<Vec<&'static Core>>;

static FREE_FIBERS: FreeList = parking_lot::const_mutex(Vec::new());
/// A stand-in never becomes a fiber: a late waker, which found it parked, may still ask where its home is.
static FREE_STAND_INS: FreeList = parking_lot::const_mutex(Vec::new());

thread_local! {
    static CURRENT: Cell<Option<&'static Core>> = const { Cell::new(None) };
    static STAND_IN: StandIn = StandIn(Core::take(&FREE_STAND_INS));
    /// Calls of `tick` until the next look at the clock.
    static TICKS_LEFT: Cell<u32> = const { Cell::new(TICKS_PER_LOOK_FIRST) };
}

/// The `Core` of a thread that is no fiber, given back when the thread ends.
struct StandIn(&'static Core);
impl Drop for StandIn {
    fn drop(&mut self) {
        *self.0.thread.lock() = None;
        self.0.give_back(&FREE_STAND_INS);
    }
}

impl Core {
    /// One to become a fiber.
    pub fn take_fiber() -> &'static Core {
        Core::take(&FREE_FIBERS)
    }

    fn take(free: &FreeList) -> &'static Core {
        if let Some(core) = free.lock().pop() {
            return core;
        }
        Box::leak(Box::new(Core {
            state: AtomicU32::new(RUNNING),
            next: AtomicPtr::new(null_mut()),
            home: AtomicPtr::new(null_mut()),
            thread: parking_lot::const_mutex(None),
            body: UnsafeCell::new(None),
            yielder: Cell::new(std::ptr::null()),
            job: Cell::new(None),
            stack_lowest: Cell::new(0),
            slot: Cell::new(0),
            deadline: Cell::new(0),
            timer_at: Cell::new(0),
            shown_event: AtomicU8::new(0),
            event: Cell::new(WaitEvent::Idle),
            slice_start: Cell::new(0),
            cpu_start: Cell::new(0),
            looked_at: Cell::new(0),
            ticks_per_look: Cell::new(TICKS_PER_LOOK_FIRST),
            is_statement: Cell::new(false),
            used_nanos: Cell::new(0),
            waited_nanos: Cell::new(0),
            locked_nanos: Cell::new(0),
            local: Cell::new(0),
            heap_bytes: Cell::new(0),
            place: Cell::new(0),
            sequence: Cell::new(0),
        }))
    }

    /// For any worker's use. No timer of a worker that goes on may still name it.
    pub fn give_back_fiber(&'static self) {
        self.give_back(&FREE_FIBERS);
    }

    fn give_back(&'static self, free: &FreeList) {
        self.state.store(RUNNING, Ordering::Release);
        self.home.store(null_mut(), Ordering::Release);
        free.lock().push(self);
    }

    /// Makes it a fiber of the calling worker, without a job.
    pub fn become_fiber(
        &'static self,
        shared: &'static Shared,
        stacks: &Arc<StackPool>,
    ) -> std::io::Result<()> {
        let stack = stacks.take()?;
        let core = self;
        core.home.store(std::ptr::from_ref(shared).cast_mut(), Ordering::Release);
        core.stack_lowest.set(stack.lowest());
        core.timer_at.set(0);
        let body = Body::with_stack(stack, move |yielder, ()| {
            core.yielder.set(yielder);
            loop {
                if let Some(job) = core.job.take() {
                    run_job(job);
                }
                yielder.suspend(Left::Finished);
            }
        });
        // SAFETY: a core that is no fiber has no body and no other user.
        unsafe { *core.body.get() = Some(body) };
        Ok(())
    }

    /// Is a fiber no longer. One that is parked is abandoned: what lives on its stack is leaked, not dropped. With `discard` the
    /// memory of the stack goes back to the kernel.
    pub fn retire(&'static self, discard: bool) {
        // Nobody may queue it any more.
        self.state.store(NOTIFIED, Ordering::SeqCst);
        // SAFETY: called by the home worker outside of the fiber, so the body is suspended. Abandoning its frames leaks
        // them: everything they own stays allocated, nobody resumes them.
        if let Some(mut body) = unsafe { (*self.body.get()).take() } {
            // SAFETY: see above; the frames are never entered again.
            unsafe { body.force_reset() };
            let mut stack = body.into_stack();
            if discard {
                stack.discard();
            }
        }
        self.job.take();
    }

    /// Gives an idle fiber its next job.
    pub fn assign(&self, job: Job) {
        self.state.swap(RUNNING, Ordering::AcqRel);
        self.waited_nanos.set(0);
        self.locked_nanos.set(0);
        self.local.set(0);
        self.ticks_per_look.set(TICKS_PER_LOOK_FIRST);
        self.is_statement.set(false);
        self.used_nanos.set(0);
        self.job.set(Some(job));
    }

    /// Runs the fiber until it parks, yields or finishes. Returns true when it is idle again.
    /// A slice of the background begins at the time that is given, metered or not.
    pub fn resume(&'static self, worker: &Worker, background: Option<(u64, bool)>) -> bool {
        self.slice_start.set(0);
        if let Some((now, is_metered)) = background {
            self.begin_background_slice(now, is_metered);
        }
        TICKS_LEFT.set(self.ticks_per_look.get());
        let outer = CURRENT.replace(Some(self));
        // SAFETY: only the home worker gets here, and the body is not running: it stands in one queue, once.
        let body = unsafe { (*self.body.get()).as_mut() }.expect("a queued fiber has a body");
        let outer_heap = crate::heap::switch(self.heap_bytes.get());
        let left = body.resume(());
        self.heap_bytes.set(crate::heap::switch(outer_heap));
        CURRENT.set(outer);
        match left {
            CoroutineResult::Yield(Left::Parked) => {
                self.note_left(worker);
                false
            }
            CoroutineResult::Yield(Left::Yielded) if self.is_background() => {
                worker.enqueue_background(self);
                false
            }
            CoroutineResult::Yield(Left::Yielded) => {
                worker.enqueue(Run::Fiber(self));
                false
            }
            CoroutineResult::Yield(Left::Finished) => {
                self.note_left(worker);
                true
            }
            CoroutineResult::Return(()) => unreachable!("a fiber's body loops"),
        }
    }

    /// A statement has ended or waits. A short one shows its worker that short ones come.
    #[inline]
    fn note_left(&self, worker: &Worker) {
        if !self.is_statement.get() {
            return;
        }
        if !self.is_background() {
            worker.share.note_short();
        } else if self.slice_start.get() != 0 {
            self.end_slice(worker, time::now().0);
        }
    }

    /// Whether its statement has used so much time that short ones go first.
    #[inline]
    pub fn is_background(&self) -> bool {
        self.used_nanos.get() > share::BACKGROUND_NANOS
    }

    /// The worker resumes it in the background at this time.
    pub fn begin_background_slice(&self, now: u64, is_metered: bool) {
        self.begin_slice(now);
        self.cpu_start.set(if is_metered { time::thread_cpu().max(1) } else { 0 });
    }

    fn begin_slice(&self, now: u64) {
        self.slice_start.set(now);
        self.looked_at.set(now);
        self.cpu_start.set(0);
    }

    /// Counts the time since the slice began.
    fn end_slice(&self, worker: &Worker, now: u64) {
        let start = self.slice_start.replace(0);
        if start == 0 || !self.is_statement.get() {
            return;
        }
        let mut nanos = now.saturating_sub(start);
        if self.is_background() {
            if let cpu @ 1.. = self.cpu_start.get() {
                nanos = nanos.min(time::thread_cpu().saturating_sub(cpu));
            }
            worker.share.note_background(now, nanos);
        }
        self.used_nanos.set(self.used_nanos.get() + nanos.min(SLICE_COUNTED_NANOS_MAX));
    }

    /// Brings the number of calls of `tick` between two looks at the clock nearer to what the looks' distance should be.
    fn adapt_ticks(&self, now: u64) {
        let gap = now.saturating_sub(self.looked_at.replace(now));
        let ticks = self.ticks_per_look.get();
        if gap > LOOK_NANOS_MAX {
            self.ticks_per_look.set((ticks / 2).max(1));
        } else if gap < LOOK_NANOS_MIN {
            self.ticks_per_look.set((ticks * 2).min(TICKS_PER_LOOK_MAX));
        }
        TICKS_LEFT.set(self.ticks_per_look.get());
    }

    fn suspend(&self, left: Left) {
        // SAFETY: set when the body began, on the stack of this very fiber, which is running.
        unsafe { (*self.yielder.get()).suspend(left) };
    }

    /// Leaves the fiber forever, because its world has ended.
    pub fn abandon(&self) -> ! {
        loop {
            self.state.swap(RUNNING, Ordering::AcqRel);
            self.suspend(Left::Parked);
        }
    }

    /// True if the caller must put the fiber into its worker's queue.
    #[inline]
    fn notify(&self) -> bool {
        self.state.swap(NOTIFIED, Ordering::AcqRel) == PARKED
    }

    fn home(&self) -> Option<&'static Shared> {
        // SAFETY: a `Shared` is never freed.
        unsafe { self.home.load(Ordering::Acquire).as_ref() }
    }
}

fn run_job(job: Job) {
    let ended = catch_unwind(AssertUnwindSafe(|| match job {
        Job::Run(f) => f(),
        Job::Conn(id) => crate::net::serve_ready(id),
    }));
    if let Err(panic) = ended {
        worker::report_panic(&*panic);
    }
}

/// A handle to a fiber. Never dangles; a handle to a finished fiber wakes nobody, or somebody spuriously.
#[derive(Clone, Copy)]
pub struct Fiber(pub(crate) &'static Core);

impl PartialEq for Fiber {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
impl Eq for Fiber {}
impl Hash for Fiber {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}
impl std::fmt::Debug for Fiber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fiber({:p})", self.0)
    }
}

impl Fiber {
    /// What the fiber waits for at this moment, from any thread; none while it runs or is ready to.
    pub fn waits_for(self) -> Option<WaitEvent> {
        let shown = self.0.shown_event.load(Ordering::Relaxed);
        WaitEvent::ALL.get(usize::from(shown).checked_sub(1)?).copied()
    }

    /// Makes the fiber runnable, from any thread. Sticky: a wake before the park makes that park return at once.
    #[inline]
    pub fn wake(self) {
        if !self.0.notify() {
            return;
        }
        match self.0.home() {
            Some(home) if worker::is_own(home) => worker::enqueue_local(Run::Fiber(self.0)),
            Some(home) => home.push_wake(self.0, true),
            None => self.unpark_thread(),
        }
    }

    #[cold]
    fn unpark_thread(self) {
        if let Some(thread) = &*self.0.thread.lock() {
            thread.unpark();
        }
    }
}

/// Wakes all of them with one signal per sleeping worker; empties the list.
pub fn wake_many(fibers: &mut Vec<Fiber>) {
    let mut remote = false;
    for fiber in fibers.iter() {
        if !fiber.0.notify() {
            continue;
        }
        match fiber.0.home() {
            Some(home) if worker::is_own(home) => worker::enqueue_local(Run::Fiber(fiber.0)),
            Some(home) => {
                home.push_wake(fiber.0, false);
                remote = true;
            }
            None => fiber.unpark_thread(),
        }
    }
    if remote {
        // `signal` does nothing for a worker that is awake or has been signalled already.
        let mut last: *const Shared = std::ptr::null();
        for fiber in fibers.iter() {
            if let Some(home) = fiber.0.home()
                && !std::ptr::eq(home, last)
            {
                home.signal();
                last = home;
            }
        }
    }
    fibers.clear();
}

/// Starts `f` on a pooled fiber of the caller's worker (worker 0 of the last runtime started, from outside).
pub fn spawn(f: impl FnOnce() + Send + 'static) {
    worker::spawn(None, Job::Run(Box::new(f)));
}

/// Starts `f` on a pooled fiber of the given worker.
pub fn spawn_on(worker: usize, f: impl FnOnce() + Send + 'static) {
    worker::spawn(Some(worker), Job::Run(Box::new(f)));
}

/// Starts `f` as a fiber on a worker thread of its own; in a simulated world as a plain fiber.
pub fn spawn_service(name: &'static str, f: impl FnOnce() + Send + 'static) {
    crate::threads::spawn_service(name, Box::new(f));
}

/// Runs `f`, which may block, on a thread of the blocking pool while the fiber is parked. Outside fibers and in a simulated
/// world it runs in place.
pub fn blocking<T: Send>(event: WaitEvent, f: impl FnOnce() -> T + Send) -> T {
    let Some(pool) = worker::blocking_pool() else {
        return f();
    };
    let mut result: Option<Result<T, Box<dyn Any + Send>>> = None;
    pool.run_and_park(event, || result = Some(catch_unwind(AssertUnwindSafe(f))));
    match result.expect("the pool ran the call") {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

pub(crate) fn current_core() -> Option<&'static Core> {
    CURRENT.get()
}

/// The caller. Outside fibers: a handle that stands for the thread.
#[inline]
pub fn current() -> Fiber {
    match CURRENT.get() {
        Some(core) => Fiber(core),
        None => stand_in(),
    }
}

#[cold]
fn stand_in() -> Fiber {
    STAND_IN.with(|s| {
        let mut thread = s.0.thread.lock();
        if thread.is_none() {
            *thread = Some(std::thread::current());
        }
        Fiber(s.0)
    })
}

/// Waits for a wake. May return without one: callers loop on their condition.
pub fn park(event: WaitEvent) {
    park_inner(event, None);
}

/// Waits for a wake until `deadline`; false if that has passed. Check the condition in both cases.
pub fn park_until(event: WaitEvent, deadline: Instant) -> bool {
    park_inner(event, (deadline != Instant::FAR).then_some(deadline))
}

fn park_inner(event: WaitEvent, deadline: Option<Instant>) -> bool {
    assert!(latch::held() == 0, "parked while holding {} latches", latch::held());
    assert!(!std::thread::panicking(), "parked while unwinding");
    let Some(core) = CURRENT.get() else {
        return park_thread(deadline);
    };
    let start = time::now();
    // Looked at before PARKED is published: from then on a waker may have queued us, and only the queue may resume us.
    if deadline.is_some_and(|d| start >= d) {
        return core.state.swap(RUNNING, Ordering::AcqRel) == NOTIFIED;
    }
    if core.state.compare_exchange(RUNNING, PARKED, Ordering::AcqRel, Ordering::Acquire).is_err() {
        core.state.swap(RUNNING, Ordering::AcqRel);
        return true;
    }
    if let Some(deadline) = deadline {
        core.deadline.set(deadline.0);
        worker::arm_fiber(core, deadline.0);
    }
    if let Some(worker) = worker::own() {
        core.end_slice(worker, start.0);
    }
    core.event.set(event);
    core.shown_event.store(event as u8 + 1, Ordering::Relaxed);
    core.suspend(Left::Parked);
    core.shown_event.store(0, Ordering::Relaxed);
    core.state.swap(RUNNING, Ordering::AcqRel);
    core.deadline.set(0);
    let end = time::now();
    worker::note_time(end.0);
    core.begin_slice(end.0);
    let nanos = end.0.saturating_sub(start.0);
    core.waited_nanos.set(core.waited_nanos.get() + nanos);
    if event.is_lock() {
        core.locked_nanos.set(core.locked_nanos.get() + nanos);
    }
    worker::count_wait(event, nanos);
    deadline.is_none_or(|d| end < d)
}

fn park_thread(deadline: Option<Instant>) -> bool {
    let core = current().0;
    if core.state.compare_exchange(RUNNING, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        while core.state.load(Ordering::Acquire) == PARKED {
            match deadline {
                None => std::thread::park(),
                Some(d) => {
                    let left = d.since(time::now());
                    if left.is_zero() {
                        break;
                    }
                    std::thread::park_timeout(left);
                }
            }
        }
    }
    core.state.swap(RUNNING, Ordering::AcqRel);
    deadline.is_none_or(|d| time::now() < d)
}

/// A timer of this fiber fired; called by its worker.
pub(crate) fn timer_fired(core: &'static Core, at: u64, now: u64) {
    if core.timer_at.get() != at {
        return; // replaced by an earlier one
    }
    core.timer_at.set(0);
    match core.deadline.get() {
        0 => {}
        deadline if deadline <= now => Fiber(core).wake(),
        deadline => worker::arm_fiber(core, deadline),
    }
}

/// Lets the other runnable fibers of this worker run.
pub fn yield_now() {
    assert!(latch::held() == 0, "yielded while holding {} latches", latch::held());
    let Some(core) = CURRENT.get() else { return std::thread::yield_now() };
    if core.slice_start.get() != 0
        && let Some(worker) = worker::own()
    {
        core.end_slice(worker, time::now().0);
    }
    core.suspend(Left::Yielded);
}

/// A client's statement begins on the calling fiber: what earlier ones have used does not count.
pub fn begin_statement() {
    let Some(core) = CURRENT.get() else { return };
    if core.is_background()
        && let Some(worker) = worker::own()
    {
        core.end_slice(worker, time::now().0);
    }
    core.is_statement.set(true);
    core.used_nanos.set(0);
}

/// For row loops: cheap, and yields when the fiber has run for more than half a millisecond, or in the background for less.
#[inline]
pub fn tick() {
    tick_by(1);
}

/// As [`tick`], after work that takes about as long as so many rows of a loop.
#[inline]
pub fn tick_by(rows: u32) {
    match TICKS_LEFT.get().checked_sub(rows) {
        Some(left) => TICKS_LEFT.set(left),
        None => look_at_slice(),
    }
}

/// As [`tick`], between pieces of work that take long: looks at the clock at once.
pub fn offer() {
    look_at_slice();
}

#[cold]
fn look_at_slice() {
    let (Some(core), Some(worker)) = (CURRENT.get(), worker::own()) else {
        return TICKS_LEFT.set(TICKS_PER_LOOK_MAX);
    };
    let now = time::now().0;
    worker.now.set(now);
    let start = core.slice_start.get();
    if start == 0 {
        core.begin_slice(now);
        return TICKS_LEFT.set(core.ticks_per_look.get());
    }
    core.adapt_ticks(now);
    // A fiber that holds a latch continues; it gives the worker back soon after it releases the latch.
    if latch::held() != 0 {
        return TICKS_LEFT.set(core.ticks_per_look.get() / 4);
    }
    let is_over = if core.is_background() {
        worker.ends_background_slice(now, now - start)
    } else {
        now - start > SLICE_NANOS
    };
    if is_over {
        yield_now();
    }
}

/// Waits for the time to pass.
pub fn sleep(duration: Duration) {
    sleep_for(WaitEvent::Sleep, duration);
}

pub(crate) fn sleep_for(event: WaitEvent, duration: Duration) {
    let deadline = time::now() + duration;
    while time::now() < deadline {
        park_until(event, deadline);
    }
}

/// Bytes of stack left to the caller; `usize::MAX` outside fibers.
#[inline]
pub fn stack_left() -> usize {
    match CURRENT.get() {
        Some(core) => {
            let here = 0u8;
            (&raw const here as usize).saturating_sub(core.stack_lowest.get())
        }
        None => usize::MAX,
    }
}

/// Stack that what goes deep may take beside that of its fiber, each time that it does.
const FURTHER_STACK_BYTES: usize = 1 << 20;
/// Most such stacks at once; those that are free keep the memory that was touched.
const FURTHER_STACKS_MAX: usize = 32;

static FURTHER_STACKS: LazyLock<Arc<StackPool>> = LazyLock::new(|| StackPool::new(FURTHER_STACK_BYTES));
static FURTHER_STACKS_USED: AtomicUsize = AtomicUsize::new(0);

/// Runs `f` where the stack has room for so many bytes: on the fiber's own, or on a further one. None where there is no
/// further one, too many being in use, or where none has that much room.
#[inline]
pub fn with_stack<R>(bytes: usize, f: impl FnOnce() -> R) -> Option<R> {
    if stack_left() >= bytes { Some(f()) } else { on_further_stack(bytes, f) }
}

#[cold]
#[inline(never)]
fn on_further_stack<R>(bytes: usize, f: impl FnOnce() -> R) -> Option<R> {
    /// Gives back what was taken, also when `f` panics.
    struct Taken {
        core: &'static Core,
        lowest: usize,
    }
    impl Drop for Taken {
        fn drop(&mut self) {
            self.core.stack_lowest.set(self.lowest);
            FURTHER_STACKS_USED.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let core = CURRENT.get()?;
    if bytes > FURTHER_STACK_BYTES {
        return None;
    }
    let used = FURTHER_STACKS_USED.fetch_add(1, Ordering::Relaxed);
    let taken = Taken { core, lowest: core.stack_lowest.get() };
    if used >= FURTHER_STACKS_MAX {
        return None;
    }
    let stack = FURTHER_STACKS.take().ok()?;
    core.stack_lowest.set(stack.lowest());
    let result = corosensei::on_stack(stack, f);
    drop(taken);
    Some(result)
}

/// Is the caller a fiber?
#[inline]
pub fn in_fiber() -> bool {
    CURRENT.get().is_some()
}

/// The caller's fiber-local word; 0 when its job began.
#[inline]
pub fn get_local() -> u64 {
    current().0.local.get()
}

/// Sets the caller's fiber-local word.
#[inline]
pub fn set_local(value: u64) {
    current().0.local.set(value);
}

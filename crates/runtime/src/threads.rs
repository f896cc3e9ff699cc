//! The threads of a runtime: how workers and services start, and how they end.

use crate::console;
use crate::fiber::{self, Job};
use crate::reactor::Reactor;
use crate::shared::{Message, Shared};
use crate::stack::StackPool;
use crate::wait::WaitEvent;
use crate::worker::{self, Group, Run, Worker};
use crate::{Config, time};
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How long an abandoned worker may take to notice.
const ABANDON_WAIT: Duration = Duration::from_secs(1);

pub(crate) fn spawn_service(name: &'static str, f: Box<dyn FnOnce() + Send>) {
    let group = worker::group();
    let is_sim = worker::own().is_some_and(|w| matches!(w.reactor, Reactor::Sim(_)));
    let shared = if is_sim { worker::own().map(|w| w.shared) } else { Shared::new_real().ok() };
    let free = shared.and_then(|shared| {
        let mut services = group.services.lock();
        let free = services.iter().position(Option::is_none)?;
        services[free] = Some(shared);
        Some((free, shared))
    });
    let Some((index, shared)) = free else {
        return worker::spawn(None, Job::Run(f));
    };
    let slot = group.workers + index;
    if is_sim {
        let done = ServiceSlot { group, index };
        let job = Job::Run(Box::new(move || {
            let _done = done;
            f();
        }));
        return worker::enqueue_local(Run::Job(job, slot));
    }
    let start = Start { group: group.clone(), shared, slot, role: Role::Service(Job::Run(f)), ready: None };
    if let Err(error) = start.spawn(name) {
        console::error(format_args!("no thread can be created for the service {name}: {error}"));
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

/// What a thread is for.
enum Role {
    Worker,
    /// Accepts connections; no fiber runs on it.
    Acceptor,
    /// A service, with its one job.
    Service(Job),
}

/// What a worker's thread begins with.
struct Start {
    group: Arc<Group>,
    shared: &'static Shared,
    slot: usize,
    role: Role,
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
        let is_service = matches!(self.role, Role::Service(_));
        let is_worker = matches!(self.role, Role::Worker);
        match Reactor::new(group.choice, self.shared, !is_worker) {
            Ok(reactor) => {
                if let Some(ready) = self.ready.take() {
                    let _ = ready.send(Ok(reactor.name()));
                }
                let worker = Worker::new(self.shared, group.clone(), self.slot, reactor);
                worker.enter(|w| {
                    if let Role::Service(job) = self.role {
                        w.enqueue(Run::Job(job, w.slot));
                    }
                    w.run_loop(is_service);
                });
            }
            Err(error) => match self.ready.take() {
                Some(ready) => drop(ready.send(Err(error))),
                None => console::error(format_args!("a reactor for a service cannot be created: {error}")),
            },
        }
        if !is_worker {
            group.services.lock()[self.slot - group.workers] = None;
        }
        *group.threads.lock() -= 1;
        group.thread_ended.notify_all();
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
                Start { group: group.clone(), shared, slot, role: Role::Worker, ready: Some(sender.clone()) };
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
        if let Err(error) = Self::start_acceptor(&group) {
            threads.stop();
            return Err(error);
        }
        *worker::DEFAULT.lock() = Some(group);
        Ok(threads)
    }

    /// The thread that accepts connections.
    fn start_acceptor(group: &Arc<Group>) -> io::Result<()> {
        let shared = Shared::new_real()?;
        group.services.lock()[0] = Some(shared);
        let (sender, receiver) = mpsc::channel();
        let (group, slot) = (group.clone(), group.workers);
        let start = Start { group: group.clone(), shared, slot, role: Role::Acceptor, ready: Some(sender) };
        start.spawn("keel-accept")?;
        receiver.recv().unwrap_or_else(|_| Err(io::Error::other("the acceptor did not start")))?;
        let _ = group.acceptor.set(shared);
        Ok(())
    }

    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Stops the workers; true if all fibers had ended by themselves.
    pub fn stop(&self) -> bool {
        self.group.stopping.store(true, Ordering::Release);
        self.group.signal_all();
        let orderly = self.wait_for_threads(self.group.shutdown_wait);
        if !orderly {
            self.group.abandoning.store(true, Ordering::Release);
            self.group.signal_all();
            self.wait_for_threads(ABANDON_WAIT);
        }
        self.group.blocking.stop();
        let mut default = worker::DEFAULT.lock();
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

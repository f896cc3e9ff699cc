//! The world: one thread, a random scheduler, a virtual clock.
//!
//! The loop picks any runnable fiber at random and lets the clock creep on; when nothing is runnable the clock jumps to the
//! next timer. Nothing runnable and no timer is a deadlock. Every choice comes from the seed, and goes into the trace hash.

use super::disk::Disk;
use super::network::Network;
use super::rng::Rng;
use super::{Options, Outcome};
use crate::fiber::{self, Job};
use crate::fs::faults::Faults;
use crate::reactor::Reactor;
use crate::shared::Shared;
use crate::stack::StackPool;
use crate::worker::{Group, Run, Worker};
use crate::{Config, time};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The clock when a world begins.
const CLOCK_START: u64 = 1_000_000_000;
/// How far the clock creeps while a fiber runs, at most.
const STEP_NANOS_MAX: u64 = 3_000;
const STACK_BYTES: usize = 512 << 10;
const FIBERS_MAX: usize = 8 << 10;

/// A simulated world, as the reactor of its one worker.
pub(crate) struct World {
    seed: u64,
    pub(super) rng: RefCell<Rng>,
    clock: Cell<u64>,
    pub(super) disk: Disk,
    pub(super) locks: RefCell<BTreeSet<PathBuf>>,
    pub(super) faults: RefCell<Faults>,
    /// File operations so far, by kind.
    pub(super) operations: RefCell<[u64; 4]>,
    /// Syncs until the crash, 0 for none.
    pub(super) crash_after: Cell<u64>,
    pub(super) network: RefCell<Network>,
    ended: Cell<bool>,
    crashed: Cell<bool>,
    panic: RefCell<Option<String>>,
    trace: Cell<u64>,
    /// Large buffers, by address.
    mappings: RefCell<BTreeMap<usize, usize>>,
}

impl World {
    pub fn new(options: &Options) -> World {
        World {
            seed: options.seed,
            rng: RefCell::new(Rng::new(options.seed)),
            clock: Cell::new(CLOCK_START),
            disk: options.disk.clone(),
            locks: RefCell::default(),
            faults: RefCell::default(),
            operations: RefCell::default(),
            crash_after: Cell::new(0),
            network: RefCell::default(),
            ended: Cell::new(false),
            crashed: Cell::new(false),
            panic: RefCell::new(None),
            trace: Cell::new(0xcbf2_9ce4_8422_2325),
            mappings: RefCell::default(),
        }
    }

    pub fn below(&self, n: u64) -> u64 {
        self.rng.borrow_mut().below(n)
    }
    pub fn fill_random(&self, bytes: &mut [u8]) {
        let mut rng = self.rng.borrow_mut();
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next().to_le_bytes()[..chunk.len()]));
    }
    pub fn trace_hash(&self) -> u64 {
        self.trace.get()
    }
    pub(super) fn note(&self, value: u64) {
        self.trace.set((self.trace.get() ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23));
    }
    fn set_clock(&self, nanos: u64) {
        self.clock.set(nanos);
        time::set_virtual(nanos);
    }

    /// The power goes off: the calling fiber never goes on.
    pub fn crash(&self) -> ! {
        self.crashed.set(true);
        self.ended.set(true);
        fiber::current_core().expect("worlds crash on a fiber").abandon()
    }
    /// A fiber has panicked: the world ends, and `run` panics.
    pub fn fiber_panicked(&self, panic: &(dyn Any + Send)) {
        let text =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        self.panic
            .borrow_mut()
            .get_or_insert_with(|| text.unwrap_or("a panic without a message").to_string());
        self.ended.set(true);
    }

    pub fn note_mapping(&self, address: usize, len: usize) {
        self.mappings.borrow_mut().insert(address, len);
    }
    pub fn forget_mapping(&self, address: usize) {
        self.mappings.borrow_mut().remove(&address);
    }
    /// Gives the memory of abandoned buffers back; their addresses stay valid and read as zeros.
    fn release_mappings(&self) {
        for (address, len) in self.mappings.take() {
            // SAFETY: a live private mapping of a buffer that nobody freed; its owners never run again.
            unsafe { libc::madvise(address as *mut _, len, libc::MADV_DONTNEED) };
        }
    }

    fn run_loop(&self, w: &Worker) {
        while !self.ended.get() {
            w.take_inbox();
            let runnable = w.queue.borrow().len() as u64;
            if runnable > 0 {
                let index = self.below(runnable) as usize;
                let run =
                    w.queue.borrow_mut().swap_remove_back(index).expect("the index is below the length");
                self.note(index as u64 ^ runnable << 32);
                w.run_one(run);
                self.set_clock(self.clock.get() + 1 + self.below(STEP_NANOS_MAX));
                w.fire_timers(self.clock.get());
                continue;
            }
            let next = w.timers.borrow().next();
            match next {
                Some(at) => {
                    self.set_clock(at.max(self.clock.get()));
                    self.note(at);
                    w.fire_timers(self.clock.get());
                }
                None => {
                    let parked = w.describe_parked();
                    let message = format!("deadlock: nothing runnable and no timer\n{parked}");
                    *self.panic.borrow_mut() = Some(message);
                    self.ended.set(true);
                }
            }
        }
    }
}

fn stacks() -> Arc<StackPool> {
    static STACKS: OnceLock<Arc<StackPool>> = OnceLock::new();
    STACKS.get_or_init(|| StackPool::new(STACK_BYTES)).clone()
}

/// Runs a world on the calling thread, which is its own.
pub(super) fn run<T: Send>(options: Options, f: impl FnOnce() -> T + Send) -> Outcome<T> {
    let world = World::new(&options);
    time::set_virtual_epoch(options.unix_micros - (CLOCK_START / 1000) as i64);
    world.set_clock(CLOCK_START);
    let shared = Shared::new(None);
    let config = Config { fibers_max: FIBERS_MAX * options.workers, ..Config::default() };
    let group = Group::simulated(&config, options.workers, shared, stacks());
    let worker = Worker::new(shared, group, 0, Reactor::Sim(Box::new(world)));

    let mut result: Option<T> = None;
    worker.enter(|w| {
        let Reactor::Sim(world) = &w.reactor else { unreachable!("made above") };
        let slot = &mut result;
        let main: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
            *slot = Some(f());
            super::world().expect("still the same world").ended.set(true);
        });
        // SAFETY: the closure borrows from this frame; the loop below ends before it, and fibers never run after the loop.
        let main =
            unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Box<dyn FnOnce() + Send>>(main) };
        w.enqueue(Run::Job(Job::Run(main), 0));
        world.run_loop(w);
        w.abandon_queue();
        w.end();
        world.release_mappings();
    });
    time::set_virtual(0);
    let Reactor::Sim(world) = &worker.reactor else { unreachable!("made above") };
    if let Some(panic) = world.panic.borrow().as_ref() {
        panic!("simulated world with seed {}: {panic}", world.seed);
    }
    let outcome = match result {
        Some(value) if !world.crashed.get() => Outcome::Done(value),
        _ => Outcome::Crashed,
    };
    shared.recycle();
    outcome
}

//! The simulated world: the whole of a program on one thread under one seed.
//!
//! [`run`] makes a world and runs a function as its first fiber. Fibers, sync, files, sockets, clock and randomness work as
//! ever; the scheduler picks any runnable fiber at random, I/O takes random virtual time, the clock jumps when nobody can
//! run. Equal seeds give equal worlds, [`trace_hash`] tells. A crash test is two worlds on one [`Disk`]:
//!
//! ```
//! use keel_runtime::{fs, sim};
//! use std::path::Path;
//! let disk = sim::Disk::new(1);
//! let outcome = sim::run(sim::Options::new(1).with_disk(&disk), || {
//!     fs::write_whole(Path::new("/a"), b"kept").unwrap();
//!     let file = fs::File::open(Path::new("/a"), &fs::OpenOptions::writing()).unwrap();
//!     file.write_at(b"lost", 0, fs::Sync::None).unwrap();
//!     sim::crash_now();
//! });
//! assert!(matches!(outcome, sim::Outcome::Crashed));
//! disk.crash(1);
//! let found = sim::run(sim::Options::new(2).with_disk(&disk), || fs::read_to_end(Path::new("/a")).unwrap()).done();
//! assert!(found == b"kept" || found == b"lost");
//! ```
//!
//! Limits: threads started without this crate are not simulated; `blocking` runs in place; one disk per world, so a crash
//! takes all servers of the world with it. Abandoned fibers leak what they own (large [`crate::fs::AlignedBuf`]s excepted).

mod disk;
mod files;
mod network;
mod rng;
#[cfg(test)]
pub(crate) use rng::Rng;
mod world;

use crate::fs::Fault;
pub use crate::fs::Op;
use crate::net::Address;
use crate::reactor::Reactor;
use crate::worker;
pub use disk::{Disk, DiskOptions};
pub(crate) use files::{SimFile, SimOp, run_batch};
pub(crate) use world::World;

/// A world's conditions.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides every choice of the world.
    pub seed: u64,
    /// The disk; one made by the caller outlives the world.
    pub disk: Disk,
    /// What `worker_count` answers.
    pub workers: usize,
    /// The clock at the start, in microseconds since 1970.
    pub unix_micros: i64,
}

impl Options {
    /// Ordinary conditions under this seed, with an empty disk.
    pub fn new(seed: u64) -> Options {
        Options { seed, disk: Disk::new(seed), workers: 2, unix_micros: 1_800_000_000_000_000 }
    }
    /// The same with this disk.
    pub fn with_disk(mut self, disk: &Disk) -> Options {
        self.disk = disk.clone();
        self
    }
}

/// How a world ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The first fiber returned.
    Done(T),
    /// The power went off.
    Crashed,
}

impl<T> Outcome<T> {
    /// The value of a world that was not to crash.
    pub fn done(self) -> T {
        match self {
            Outcome::Done(value) => value,
            Outcome::Crashed => panic!("the simulated world crashed"),
        }
    }
}

/// Runs `f` as the first fiber of a new world and returns when it does, or when the world crashes. Other fibers are
/// abandoned then, without unwinding. A panic in any fiber, and a deadlock, panic here with the seed.
pub fn run<T: Send>(options: Options, f: impl FnOnce() -> T + Send) -> Outcome<T> {
    // A thread of its own, so that thread-local state of other crates begins fresh in every world.
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name(format!("world-{}", options.seed));
        let world = builder.spawn_scoped(scope, || world::run(options, f)).expect("a thread for the world");
        world.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The world the caller lives in.
pub(crate) fn world<'a>() -> Option<&'a World> {
    match &worker::own()?.reactor {
        Reactor::Sim(world) => Some(world),
        _ => None,
    }
}

fn must_be_world<'a>() -> &'a World {
    world().expect("called in a simulated world")
}

/// Fills `bytes` from the seed; false in the real world.
pub(crate) fn fill_random(bytes: &mut [u8]) -> bool {
    world().map(|w| w.fill_random(bytes)).is_some()
}

/// Lets the operation after the next `after` ones of this kind, on a path that contains `path`, fail with `errno`.
pub fn fail_next(kind: Op, path: &str, errno: i32, after: u64) {
    fail_times(kind, path, errno, after, 1);
}
/// As [`fail_next`], for `times` operations in a row.
pub fn fail_times(kind: Op, path: &str, errno: i32, after: u64, times: u64) {
    let fault = Fault { kind, path: path.to_string(), errno, after, times };
    must_be_world().faults.borrow_mut().add(fault);
}
/// Forgets faults that are yet to come.
pub fn clear_faults() {
    *must_be_world().faults.borrow_mut() = Default::default();
}
/// File operations of a kind so far.
pub fn operations(kind: Op) -> u64 {
    must_be_world().operations.borrow()[kind as usize]
}
/// Moves the wall clock, forwards or backwards, as an administrator does; the clock that measures time spans goes on as ever.
pub fn jump_wall_clock(micros: i64) {
    must_be_world();
    crate::time::jump_virtual_epoch(micros);
}
/// Crashes this world at its `n`-th sync from now (1 is the next), before that sync takes effect.
pub fn crash_after_syncs(n: u64) {
    must_be_world().crash_after.set(n);
}
/// Crashes this world here.
pub fn crash_now() -> ! {
    must_be_world().crash()
}
/// Is the caller in a simulated world?
pub fn in_simulation() -> bool {
    world().is_some()
}
/// Cuts every connection of the listener at `address`.
pub fn cut_connections(address: &Address) {
    must_be_world().cut_connections(address);
}
/// While on, nothing is delivered to or from the listener at `address`, and connecting to it waits.
pub fn partition(address: &Address, on: bool) {
    must_be_world().partition(address, on);
}
/// A hash over every choice the world has made: equal seeds, equal traces.
pub fn trace_hash() -> u64 {
    must_be_world().trace_hash()
}

//! The simulated world.
#![allow(unused_variables)]
/// How faithless the disk is at a crash.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Unsynced writes may survive in part, by sectors of 512 bytes.
    pub torn_writes: bool,
    /// A later unsynced write may survive where an earlier one is lost.
    pub reorder: bool,
    /// Share of reads and writes that fail with EIO.
    pub error_rate: f64,
    /// Bytes the disk holds; ENOSPC beyond.
    pub space_bytes_max: u64,
}
impl Default for DiskOptions {
    fn default() -> Self {
        DiskOptions { torn_writes: true, reorder: true, error_rate: 0.0, space_bytes_max: u64::MAX }
    }
}
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
        unimplemented!()
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
    unimplemented!()
}
/// A disk that outlives worlds; clones share it.
#[derive(Clone, Debug)]
pub struct Disk {}
impl Disk {
    /// An empty disk.
    pub fn new(seed: u64) -> Disk {
        unimplemented!()
    }
    /// An empty disk with these habits.
    pub fn with_options(seed: u64, options: DiskOptions) -> Disk {
        unimplemented!()
    }
    /// The power went off: decides which unsynced writes and folder entries are kept, torn or lost.
    pub fn crash(&self, seed: u64) {}
    /// Syncs since the disk was made.
    pub fn sync_count(&self) -> u64 {
        unimplemented!()
    }
}
/// Kind of file operation, for faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// `read_at` and batches.
    Read,
    /// `write_at`, `set_len`, `allocate` and batches.
    Write,
    /// Syncs of files and folders, and durable writes.
    Sync,
}
/// Lets the operation after the next `after` ones of this kind, on a path that contains `path`, fail with `errno`.
pub fn fail_next(kind: Op, path: &str, errno: i32, after: u64) {}
/// Crashes this world at its `n`-th sync from now (1 is the next), before that sync takes effect.
pub fn crash_after_syncs(n: u64) {}
/// Crashes this world here.
pub fn crash_now() -> ! {
    unimplemented!()
}
/// Is the caller in a simulated world?
pub fn in_simulation() -> bool {
    unimplemented!()
}
/// Cuts every connection of the listener at `address`.
pub fn cut_connections(address: &crate::net::Address) {}
/// While on, nothing is delivered to or from the listener at `address`, and connecting to it waits.
pub fn partition(address: &crate::net::Address, on: bool) {}
/// A hash over every choice the world has made: equal seeds, equal traces.
pub fn trace_hash() -> u64 {
    unimplemented!()
}

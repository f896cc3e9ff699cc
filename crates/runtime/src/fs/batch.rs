//! Many reads, writes or syncs at once: the device's queue is what makes them cheap.

use super::faults::Op;
use super::file::{File, Inner};
use super::op::{self, FileOp, OpKind};
use crate::sim::SimOp;
use crate::wait::WaitEvent;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;

/// Reads, writes or syncs that are submitted at once. All files of a batch belong to the same world.
#[derive(Default)]
pub struct IoBatch<'a> {
    real: Vec<FileOp>,
    sim: Vec<SimOp>,
    /// Keeps files open while their operations run.
    files: Vec<File>,
    event: Option<WaitEvent>,
    /// Operations that failed before they began, and their places among the results.
    failed: Vec<(usize, io::Error)>,
    buffers: PhantomData<&'a mut [u8]>,
}

impl<'a> IoBatch<'a> {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a read that fills `buf`.
    pub fn push_read(&mut self, file: &File, buf: &'a mut [u8], offset: u64) {
        self.event.get_or_insert(file.events().0);
        match file.inner() {
            Inner::Real { fd, .. } => {
                let op = FileOp::read(fd.as_raw_fd(), buf, offset);
                self.real.push(op.or_fault(file.check_fault(Op::Read)));
            }
            Inner::Sim(sim) => self.sim.push(SimOp::read(sim, buf, offset)),
        }
        self.files.push(file.clone());
    }
    /// Adds a write of all of `buf`.
    pub fn push_write(&mut self, file: &File, buf: &'a [u8], offset: u64) {
        self.event.get_or_insert(file.events().1);
        match file.inner() {
            Inner::Real { fd, .. } => {
                let op = FileOp::write(fd.as_raw_fd(), buf, offset, false);
                self.real.push(op.or_fault(file.check_fault(Op::Write)));
            }
            Inner::Sim(sim) => self.sim.push(SimOp::write(sim, buf, offset)),
        }
        self.files.push(file.clone());
    }
    /// Adds a sync of the file's content. It covers writes that are done, not those of the same batch.
    pub fn push_sync(&mut self, file: &File) {
        self.event.get_or_insert(file.events().2);
        match file.inner() {
            Inner::Real { fd, .. } => {
                let op = FileOp::sync(fd.as_raw_fd(), OpKind::SyncData);
                self.real.push(op.or_fault(file.check_fault(Op::Sync)));
            }
            Inner::Sim(sim) => self.sim.push(SimOp::sync(sim)),
        }
        self.files.push(file.clone());
    }
    /// Adds an operation that has failed already: its file could not be opened.
    pub fn push_failed(&mut self, error: io::Error) {
        self.failed.push((self.len(), error));
    }
    /// Number of operations.
    pub fn len(&self) -> usize {
        self.files.len() + self.failed.len()
    }
    /// Nothing in it?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Submits all, parks until all are done; results in the order pushed. A read past the end is `UnexpectedEof`.
    pub fn run(mut self) -> Vec<io::Result<()>> {
        assert!(self.real.is_empty() || self.sim.is_empty(), "a batch belongs to one world");
        let event = self.event.unwrap_or(WaitEvent::PageRead);
        let mut results = if self.sim.is_empty() {
            op::run(event, &mut self.real);
            self.real.into_iter().map(whole).collect()
        } else {
            crate::sim::run_batch(event, self.sim)
        };
        // In ascending order, so that each lands at its place.
        self.failed.into_iter().for_each(|(at, error)| results.insert(at, Err(error)));
        results
    }
}

fn whole(op: FileOp) -> io::Result<()> {
    match op.finish() {
        (0, result) => result,
        (_, Err(error)) => Err(error),
        (_, Ok(())) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

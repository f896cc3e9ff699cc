//! The ways a worker talks to the outside: io_uring, epoll, or a simulated world.
//!
//! A reactor tells the connection what happened (`Conn::on_received`, `on_ended`, `on_sent`) and completes file operations.
//! It holds no borrow of its own while it does, since what it calls may call it again.

mod epoll;
mod trial;
mod turns;
mod uring;

pub(crate) use turns::ReadTurns;

use crate::ReactorChoice;
use crate::fs::FileOp;
use crate::net::{Conn, ConnId, ListenerCore, Peer};
use crate::shared::Shared;
use crate::sim::World;
use crate::worker::Worker;
use std::io;

/// One worker's reactor.
pub(crate) enum Reactor {
    Uring(Box<uring::Uring>),
    Epoll(Box<epoll::Epoll>),
    Sim(Box<World>),
}

/// Calls the same method of whichever reactor it is.
macro_rules! each {
    ($self:ident, $r:ident => $call:expr) => {
        match $self {
            Reactor::Uring($r) => $call,
            Reactor::Epoll($r) => $call,
            Reactor::Sim($r) => $call,
        }
    };
}

impl Reactor {
    /// Must be called on the worker's own thread. A service falls back to epoll even if io_uring was demanded.
    pub fn new(choice: ReactorChoice, shared: &'static Shared, is_service: bool) -> io::Result<Reactor> {
        let epoll = || epoll::Epoll::new(shared, is_service).map(|e| Reactor::Epoll(Box::new(e)));
        if choice == ReactorChoice::Epoll {
            return epoll();
        }
        match uring::Uring::new(shared, is_service) {
            Ok(ring) => Ok(Reactor::Uring(Box::new(ring))),
            Err(error) if choice == ReactorChoice::IoUring && !is_service => Err(error),
            Err(_) => epoll(),
        }
    }
    pub fn name(&self) -> &'static str {
        match self {
            Reactor::Uring(_) => "io_uring",
            Reactor::Epoll(_) => "epoll",
            Reactor::Sim(_) => "simulation",
        }
    }
    /// Must the sockets it is given be nonblocking?
    pub fn wants_nonblocking(&self) -> bool {
        matches!(self, Reactor::Epoll(_))
    }
    /// Submits and handles what has completed, without sleeping.
    pub fn poll(&self, w: &Worker) {
        match self {
            Reactor::Uring(r) => r.poll(w),
            Reactor::Epoll(r) => r.wait(w, Some(0)),
            Reactor::Sim(_) => {}
        }
    }
    /// Submits, sleeps until something completes, a signal comes or `deadline` passes, and handles what has completed.
    pub fn wait(&self, w: &Worker, deadline: Option<u64>) {
        match self {
            Reactor::Uring(r) => r.wait(w, deadline),
            Reactor::Epoll(r) => r.wait(w, deadline),
            Reactor::Sim(_) => {}
        }
    }
    /// Whether something has completed, as far as that can be seen without entering the kernel.
    pub fn has_news(&self) -> bool {
        if let Reactor::Uring(r) = self { r.has_news() } else { false }
    }
    /// Starts a file operation, which stays put until it is complete.
    pub fn submit_file(&self, w: &Worker, op: &FileOp) {
        match self {
            Reactor::Uring(r) => r.submit_file(w, op),
            Reactor::Epoll(r) => r.submit_file(w, op),
            Reactor::Sim(_) => unreachable!("simulated files need no reactor"),
        }
    }
    /// A fiber has started all of its file operations and is about to park.
    pub fn files_queued(&self) {
        if let Reactor::Uring(r) = self {
            r.files_queued();
        }
    }
    /// A fiber has run, and others are about to.
    pub fn look_at_turns(&self, w: &Worker) {
        if let Reactor::Uring(r) = self {
            r.look_at_turns(w);
        }
    }
    /// File operations that the kernel has not completed, of whichever worker's fibers.
    pub fn files_open(&self) -> u32 {
        if let Reactor::Uring(r) = self { r.files_open() } else { 0 }
    }
    /// Starts receiving.
    pub fn attach(&self, w: &Worker, conn: &Conn) -> io::Result<()> {
        each!(self, r => r.attach(w, conn))
    }
    /// Sends `conn.to_send()` and reports by `on_sent`.
    pub fn send(&self, w: &Worker, conn: &Conn) {
        each!(self, r => r.send(w, conn))
    }
    pub fn pause(&self, conn: &Conn) {
        each!(self, r => r.pause(conn))
    }
    pub fn resume(&self, w: &Worker, conn: &Conn) {
        each!(self, r => r.resume(w, conn))
    }
    /// Ends both directions; what is armed completes soon.
    pub fn cut(&self, w: &Worker, conn: &Conn) {
        each!(self, r => r.cut(w, conn))
    }
    /// Closes; nothing is armed any more.
    pub fn detach(&self, w: &Worker, conn: &Conn) {
        each!(self, r => r.detach(w, conn))
    }
    pub fn peer(&self, conn: &Conn) -> Peer {
        each!(self, r => r.peer(conn))
    }
    pub fn listen(&self, w: &Worker, listener: ListenerCore) {
        each!(self, r => r.listen(w, listener))
    }
    pub fn unlisten(&self, w: &Worker, number: u64) {
        each!(self, r => r.unlisten(w, number))
    }
    pub fn stop_listeners(&self, w: &Worker) {
        each!(self, r => r.stop_listeners(w))
    }
    pub fn resume_listener(&self, w: &Worker, index: usize) {
        each!(self, r => r.resume_listener(w, index))
    }
    /// Simulated bytes are due at this connection.
    pub fn deliver(&self, w: &Worker, id: ConnId) {
        if let Reactor::Sim(world) = self {
            world.deliver(w, id);
        }
    }
}

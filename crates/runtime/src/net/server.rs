//! Listening, accepting, dealing connections to workers.
//!
//! A thread of its own accepts for all and deals in turn, so that every worker gets an equal share whatever the kernel prefers. An
//! accept that fails for want of descriptors or memory pauses the listener for a moment; the clients wait in the backlog.

use super::conn::ConnId;
use super::{Address, Connection, Service, Session, conn, socket};
use crate::fiber::{self, Job};
use crate::shared::Message;
use crate::time;
use crate::timer::Target;
use crate::worker::{self, Group, Run, Worker};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The kernel takes a ring down, and closes the listener in it, some milliseconds after its process has died: a server that
/// is started again at once must not fail.
const BIND_PATIENCE: Duration = Duration::from_millis(500);
const BIND_PAUSE: Duration = Duration::from_millis(5);

/// A bound socket.
pub struct Listener {
    /// None in a simulated world.
    fd: Option<OwnedFd>,
    address: Address,
}

impl Listener {
    /// Where it listens, with the port that was picked.
    pub fn local_address(&self) -> Address {
        self.address.clone()
    }
}

/// Binds and listens. A stale unix socket file nobody listens on is replaced.
pub fn listen(address: &Address, backlog: u32) -> io::Result<Listener> {
    if let Some(world) = crate::sim::world() {
        return world.bind(address).map(|address| Listener { fd: None, address });
    }
    let deadline = time::now() + BIND_PATIENCE;
    loop {
        match socket::listen(address, backlog) {
            Ok((fd, address)) => return Ok(Listener { fd: Some(fd), address }),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && time::now() < deadline => {
                fiber::sleep(BIND_PAUSE)
            }
            Err(e) => return Err(e),
        }
    }
}

/// A service without its type.
pub(crate) trait AnyService: Send + Sync {
    fn connected(&self, conn: &mut Connection) -> Option<Box<dyn Session>>;
}
impl<S: Service> AnyService for S {
    fn connected(&self, conn: &mut Connection) -> Option<Box<dyn Session>> {
        Service::connected(self, conn).map(|s| Box::new(s) as Box<dyn Session>)
    }
}

/// What the connections of a server share.
pub(crate) struct ServerCore {
    pub service: Box<dyn AnyService>,
    pub open: AtomicUsize,
    pub stopped: AtomicBool,
    group: Arc<Group>,
    /// Listeners by number, for `stop_accepting`.
    listeners: parking_lot::Mutex<Vec<u64>>,
}

/// A listener at work.
pub(crate) struct ListenerCore {
    pub number: u64,
    pub fd: Option<OwnedFd>,
    pub address: Address,
    pub server: Arc<ServerCore>,
}

/// A connection on its way to its worker.
pub(crate) struct Accepted {
    pub fd: OwnedFd,
    pub server: Arc<ServerCore>,
}

static NEXT_LISTENER: AtomicU64 = AtomicU64::new(1);

struct Shared<S>(Arc<S>);
impl<S: Service> AnyService for Shared<S> {
    fn connected(&self, conn: &mut Connection) -> Option<Box<dyn Session>> {
        AnyService::connected(&*self.0, conn)
    }
}

/// Accepts on all listeners and deals the connections to the workers in turn. Call it on a fiber, or after a runtime was started.
pub fn serve<S: Service>(listeners: Vec<Listener>, service: Arc<S>) -> Server {
    let core = Arc::new(ServerCore {
        service: Box::new(Shared(service)),
        open: AtomicUsize::new(0),
        stopped: AtomicBool::new(false),
        group: worker::group(),
        listeners: parking_lot::Mutex::default(),
    });
    for listener in listeners {
        let number = NEXT_LISTENER.fetch_add(1, Ordering::Relaxed);
        core.listeners.lock().push(number);
        let at_work =
            ListenerCore { number, fd: listener.fd, address: listener.address, server: core.clone() };
        core.group.acceptor().send(Message::Listen(at_work));
    }
    Server { core }
}

/// A running service.
pub struct Server {
    core: Arc<ServerCore>,
}

impl Server {
    /// Closes the listeners.
    pub fn stop_accepting(&self) {
        self.core.stopped.store(true, Ordering::Release);
        for number in self.core.listeners.lock().drain(..) {
            self.core.group.acceptor().send(Message::Unlisten(number));
        }
    }
    /// Shuts every connection down; their sessions end as if the client had gone.
    pub fn close_all(&self) {
        let group = self.core.group.clone();
        for index in 0..group.workers {
            let core = self.core.clone();
            let job = Job::Run(Box::new(move || cut_all(Some(&core))));
            group.worker(index).send(Message::Job(job));
            if group.is_simulated() {
                break; // one worker has all slots
            }
        }
    }
    /// Connections not yet wholly closed.
    pub fn connections(&self) -> usize {
        self.core.open.load(Ordering::Acquire)
    }
}

/// Cuts the connections of the calling worker, of one server or all.
fn cut_all(server: Option<&Arc<ServerCore>>) {
    let Some(w) = worker::own() else { return };
    for id in w.conns.ids() {
        let is_meant =
            |c: &conn::Conn| server.is_none_or(|s| c.server.as_ref().is_some_and(|own| Arc::ptr_eq(own, s)));
        if w.conns.get(id).is_some_and(is_meant) {
            conn::cut(w, id);
        }
    }
}

/// The worker is stopping: nothing new comes, everything open ends.
pub(crate) fn stop_all(w: &Worker) {
    w.reactor.stop_listeners(w);
    cut_all(None);
}

pub(crate) fn start_listening(w: &Worker, listener: ListenerCore) {
    w.reactor.listen(w, listener);
}

pub(crate) fn stop_listening(w: &Worker, number: u64) {
    w.reactor.unlisten(w, number);
}

/// An accepting error that only time cures: the listener pauses.
pub(crate) fn pause_listener(w: &Worker, index: usize) {
    let at = time::now() + ACCEPT_PAUSE;
    w.arm(at.0, Target::Listener(index));
}

pub(crate) fn resume_listening(w: &Worker, index: usize) {
    w.reactor.resume_listener(w, index);
}

/// Gives a new connection to the next worker that no fiber holds up.
pub(crate) fn deal(w: &Worker, fd: OwnedFd, server: &Arc<ServerCore>) {
    if server.stopped.load(Ordering::Acquire) {
        return;
    }
    w.shared.counters.accepted.add(1);
    server.open.fetch_add(1, Ordering::AcqRel);
    let accepted = Accepted { fd, server: server.clone() };
    let next = w.group.deal.fetch_add(1, Ordering::Relaxed);
    let now = time::now().0;
    let in_turn = |ahead| (next + ahead) % w.group.workers;
    let is_free = |worker: &usize| !w.group.worker(*worker).is_held_up(now);
    let target = (0..w.group.workers).map(in_turn).find(is_free).unwrap_or(in_turn(0));
    if target == w.slot {
        adopt(w, accepted);
    } else {
        w.group.worker(target).send(Message::Accepted(accepted));
    }
}

/// Makes a connection of an accepted socket, on the worker that will keep it.
pub(crate) fn adopt(w: &Worker, accepted: Accepted) {
    let fd = accepted.fd.into_raw_fd();
    socket::prepare(fd, w.reactor.wants_nonblocking());
    let conn = w.conns.insert(fd, Some(accepted.server));
    attach_fresh(w, conn.id);
}

/// Starts receiving and queues the connection for its first turn.
pub(crate) fn attach_fresh(w: &Worker, id: ConnId) {
    let Some(conn) = w.conns.get(id) else { return };
    match w.reactor.attach(w, conn) {
        Ok(()) => w.enqueue(Run::Job(Job::Conn(id), conn.home_slot.get())),
        Err(_) => conn.close(w),
    }
}

impl ListenerCore {
    /// The descriptor, -1 in a simulated world.
    pub fn raw(&self) -> i32 {
        self.fd.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }
}

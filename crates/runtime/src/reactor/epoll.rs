//! epoll for sockets, a pool of blocking threads for files: for kernels and containers that refuse io_uring.
//!
//! Level-triggered. The user data of a registration is the connection's slot, or a listener's index, or the signal.

use crate::blocking::BlockingPool;
use crate::console;
use crate::fs::FileOp;
use crate::net::{self, Conn, ListenerCore, Peer};
use crate::shared::Shared;
use crate::time;
use crate::worker::Worker;
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

const SIGNAL: u64 = u64::MAX;
const LISTENER: u64 = 1 << 40;
const EVENTS_MAX: usize = 256;
const READ_BYTES: usize = 64 << 10;
/// Connections taken from one listener per look.
const ACCEPTS_MAX: usize = 64;

/// The epoll instance of a worker.
pub(crate) struct Epoll {
    fd: OwnedFd,
    listeners: RefCell<Vec<Option<ListenerCore>>>,
    events: RefCell<Vec<(u64, u32)>>,
    scratch: RefCell<Vec<u8>>,
    shared: &'static Shared,
    /// A service has its thread to itself and may as well block it: the log must not queue behind slow calls in the pool.
    is_service: bool,
}

impl Epoll {
    pub fn new(shared: &'static Shared, is_service: bool) -> io::Result<Epoll> {
        // SAFETY: plain system call.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let epoll = Epoll {
            fd,
            listeners: RefCell::default(),
            events: RefCell::default(),
            scratch: RefCell::new(vec![0; READ_BYTES]),
            shared,
            is_service,
        };
        epoll.control(libc::EPOLL_CTL_ADD, shared.eventfd(), libc::EPOLLIN, SIGNAL)?;
        Ok(epoll)
    }

    fn control(&self, operation: i32, fd: RawFd, events: i32, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: data };
        // SAFETY: the event lives through the call.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Handles what is ready, sleeping until `deadline`; `Some(0)` does not sleep.
    pub fn wait(&self, w: &Worker, deadline: Option<u64>) {
        let timeout = match deadline {
            None => -1,
            Some(at) => {
                i32::try_from(at.saturating_sub(time::now().0).div_ceil(1_000_000)).unwrap_or(i32::MAX)
            }
        };
        self.shared.counters.enters.add(1);
        let mut raw = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        // SAFETY: the kernel writes at most EVENTS_MAX events.
        let n =
            unsafe { libc::epoll_wait(self.fd.as_raw_fd(), raw.as_mut_ptr(), EVENTS_MAX as i32, timeout) };
        let mut events = self.events.take();
        events.extend(raw[..n.max(0) as usize].iter().map(|e| (e.u64, e.events)));
        if n > 0 {
            w.now.set(time::now().0);
        }
        for &(data, flags) in &events {
            match data {
                SIGNAL => self.take_signal(),
                LISTENER.. => self.accept(w, (data - LISTENER) as usize),
                slot => self.ready(w, slot as u32, flags),
            }
        }
        events.clear();
        *self.events.borrow_mut() = events;
    }

    fn take_signal(&self) {
        let mut count = 0;
        // SAFETY: reads eight bytes; the descriptor is readable, so it does not block.
        unsafe { libc::eventfd_read(self.shared.eventfd(), &mut count) };
    }

    // ---- files ----

    pub fn submit_file(&self, w: &Worker, op: &FileOp) {
        w.shared.counters.file_ops.add(1);
        if self.is_service {
            FileOp::complete(op, op.perform());
        } else {
            submit_to_pool(&w.group.blocking, op);
        }
    }

    // ---- connections ----

    pub fn attach(&self, _w: &Worker, conn: &Conn) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, conn.fd, libc::EPOLLIN, u64::from(conn.id.slot))?;
        conn.receiving.set(true);
        Ok(())
    }

    fn ready(&self, w: &Worker, slot: u32, flags: u32) {
        let Some(conn) = w.conns.by_slot(slot) else { return };
        let is_dead = flags & (libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0;
        if conn.is_sending() && (is_dead || flags & libc::EPOLLOUT as u32 != 0) {
            self.interest(conn, false);
            conn.on_sent(w, Ok(0)); // tries again
        }
        // Sending may have finished a closing connection.
        let Some(conn) = w.conns.by_slot(slot).filter(|c| c.receiving.get()) else { return };
        // A dead socket is read even in a pause, since the kernel would go on reporting it.
        if is_dead || (flags & libc::EPOLLIN as u32 != 0 && !conn.paused.get()) {
            self.receive(w, conn);
        }
    }

    fn receive(&self, w: &Worker, conn: &Conn) {
        let mut scratch = self.scratch.borrow_mut();
        // SAFETY: writes at most the buffer's length.
        let n = unsafe { libc::recv(conn.fd, scratch.as_mut_ptr().cast(), scratch.len(), 0) };
        match n {
            1.. => conn.on_received(w, &scratch[..n as usize]),
            _ if n < 0 && is_transient(errno()) => {}
            _ => {
                conn.receiving.set(false);
                let _ = self.control(libc::EPOLL_CTL_DEL, conn.fd, 0, 0);
                drop(scratch);
                conn.on_ended(w);
            }
        }
    }

    pub fn send(&self, w: &Worker, conn: &Conn) {
        let (address, len) = conn.to_send();
        // SAFETY: the connection keeps the bytes in place until `on_sent`.
        let n = unsafe { libc::send(conn.fd, address.cast(), len, libc::MSG_NOSIGNAL) };
        match n {
            0.. => conn.on_sent(w, Ok(n as usize)),
            _ if is_transient(errno()) => self.interest(conn, true),
            _ => conn.on_sent(w, Err(errno())),
        }
    }

    /// Sets what is listened for.
    fn interest(&self, conn: &Conn, writable: bool) {
        let readable = conn.receiving.get() && !conn.paused.get();
        let events = if readable { libc::EPOLLIN } else { 0 } | if writable { libc::EPOLLOUT } else { 0 };
        let slot = u64::from(conn.id.slot);
        if self.control(libc::EPOLL_CTL_MOD, conn.fd, events, slot).is_err() && writable {
            // The peer has ended already, and with it the registration.
            let _ = self.control(libc::EPOLL_CTL_ADD, conn.fd, events, slot);
        }
    }

    pub fn pause(&self, conn: &Conn) {
        self.interest(conn, conn.is_sending());
    }
    pub fn resume(&self, _w: &Worker, conn: &Conn) {
        self.interest(conn, conn.is_sending());
    }
    pub fn cut(&self, _w: &Worker, conn: &Conn) {
        net::shutdown(conn.fd);
    }
    pub fn detach(&self, _w: &Worker, conn: &Conn) {
        // SAFETY: the connection owned the descriptor and is being freed.
        drop(unsafe { OwnedFd::from_raw_fd(conn.fd) });
    }
    pub fn peer(&self, conn: &Conn) -> Peer {
        net::peer_of(conn.fd)
    }

    // ---- listeners ----

    pub fn listen(&self, w: &Worker, listener: ListenerCore) {
        let mut listeners = self.listeners.borrow_mut();
        let index = listeners.iter().position(Option::is_none).unwrap_or_else(|| {
            listeners.push(None);
            listeners.len() - 1
        });
        listeners[index] = Some(listener);
        drop(listeners);
        self.resume_listener(w, index);
    }

    pub fn resume_listener(&self, _w: &Worker, index: usize) {
        if let Some(Some(core)) = self.listeners.borrow().get(index)
            && let Err(error) =
                self.control(libc::EPOLL_CTL_ADD, core.raw(), libc::EPOLLIN, LISTENER + index as u64)
        {
            console::error(format_args!("a listener cannot accept connections: {error}"));
        }
    }

    fn accept(&self, w: &Worker, index: usize) {
        for _ in 0..ACCEPTS_MAX {
            let listeners = self.listeners.borrow();
            let Some(Some(core)) = listeners.get(index) else { return };
            match net::accept(core.raw()) {
                Ok(fd) => {
                    let server = core.server.clone();
                    drop(listeners);
                    net::deal(w, fd, &server);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if net::is_exhaustion(e.raw_os_error().unwrap_or(0)) => {
                    let _ = self.control(libc::EPOLL_CTL_DEL, core.raw(), 0, 0);
                    return net::pause_listener(w, index);
                }
                Err(_) => {}
            }
        }
    }

    pub fn unlisten(&self, _w: &Worker, number: u64) {
        for slot in self.listeners.borrow_mut().iter_mut() {
            if slot.as_ref().is_some_and(|c| c.number == number) {
                *slot = None;
            }
        }
    }

    pub fn stop_listeners(&self, _w: &Worker) {
        self.listeners.borrow_mut().iter_mut().for_each(|slot| *slot = None);
    }
}

/// Runs a file operation on the pool. It stays put until complete, so its address may travel.
fn submit_to_pool(pool: &Arc<BlockingPool>, op: &FileOp) {
    let address = std::ptr::from_ref(op) as usize;
    pool.submit(Box::new(move || {
        let op = address as *const FileOp;
        // SAFETY: the operation lives on the stack of a fiber that waits for its completion, which comes after this.
        let result = unsafe { (*op).perform() };
        FileOp::complete(op, result);
    }));
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn is_transient(errno: i32) -> bool {
    errno == libc::EAGAIN || errno == libc::EINTR
}

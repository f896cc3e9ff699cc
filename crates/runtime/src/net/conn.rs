//! One connection: what the reactor touches (`Conn`) and what its fiber touches (`Connection`), both on one worker.

use super::server::ServerCore;
use super::{After, Peer, Session, socket};
use crate::fiber::{self, Fiber, Job};
use crate::time::{self, Instant};
use crate::timer::Target;
use crate::wait::WaitEvent;
use crate::worker::{self, Message, Run, Shared, Worker};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::io;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Unsent bytes beyond which `flush` parks.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// Unread bytes beyond which receiving pauses.
const UNREAD_BYTES_MAX: usize = 1 << 20;
/// How long a closing connection may take to send its last bytes.
const LINGER: Duration = Duration::from_secs(5);

/// A connection of one worker. The generation tells it from an earlier one in the same slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct ConnId {
    pub slot: u32,
    pub generation: u32,
}

static NEXT_GENERATION: AtomicU32 = AtomicU32::new(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Queued for `Service::connected`.
    Fresh,
    /// Nothing to do, no stack, no buffers.
    Idle,
    /// Queued for a fiber.
    Ready,
    /// A fiber serves it, or a stream owns it.
    Busy,
    /// No session any more; lives until its last bytes are sent and the kernel lets go.
    Closing,
}

/// The reactor's side.
pub(crate) struct Conn {
    pub id: ConnId,
    /// -1 in a simulated world.
    pub fd: RawFd,
    /// Registered with the ring under its slot.
    pub fixed: Cell<bool>,
    /// A receive is armed in the kernel.
    pub receiving: Cell<bool>,
    pub paused: Cell<bool>,
    /// Slot its fibers run under.
    pub home_slot: Cell<usize>,
    pub server: Option<Arc<ServerCore>>,
    session: Cell<Option<Box<dyn Session>>>,
    phase: Cell<Phase>,
    face: UnsafeCell<Connection>,
    /// Input that came while a fiber was at work.
    arrived: RefCell<Vec<u8>>,
    grown: Cell<bool>,
    ended: Cell<bool>,
    broken: Cell<bool>,
    cut: Cell<bool>,
    /// What the kernel is sending; not touched while `in_flight`.
    sending: RefCell<Vec<u8>>,
    sent: Cell<usize>,
    in_flight: Cell<bool>,
    unsent: RefCell<Vec<u8>>,
    fiber: Cell<Option<Fiber>>,
    wants_input: Cell<bool>,
    wants_room: Cell<bool>,
    idle_timeout: Cell<Option<Duration>>,
    idle_since: Cell<u64>,
    timer_at: Cell<u64>,
}

/// Thousands of idle connections must cost little.
const _: () = assert!(size_of::<Conn>() <= 640);

/// The connections of a worker, by slot.
#[derive(Default)]
pub(crate) struct Conns {
    slots: RefCell<Vec<Option<Box<Conn>>>>,
    free: RefCell<Vec<u32>>,
    open: Cell<usize>,
    /// Removed, but perhaps still borrowed by whoever removed them; freed by `bury`.
    #[expect(clippy::vec_box, reason = "borrows point into the boxes")]
    dead: RefCell<Vec<Box<Conn>>>,
    pub buffers: Buffers,
}

/// Spare buffers, so that idle connections need none.
#[derive(Default)]
pub(crate) struct Buffers(RefCell<Vec<Vec<u8>>>);

impl Buffers {
    const KEPT_MAX: usize = 128;
    const BYTES_MIN: usize = 4096;
    const BYTES_MAX: usize = 64 << 10;

    pub fn take(&self) -> Vec<u8> {
        self.0.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(Self::BYTES_MIN))
    }
    pub fn give(&self, mut buffer: Vec<u8>) {
        let mut kept = self.0.borrow_mut();
        if (Self::BYTES_MIN..=Self::BYTES_MAX).contains(&buffer.capacity()) && kept.len() < Self::KEPT_MAX {
            buffer.clear();
            kept.push(buffer);
        }
    }
}

impl Conns {
    pub fn get<'a>(&self, id: ConnId) -> Option<&'a Conn> {
        self.by_slot(id.slot).filter(|c| c.id == id)
    }
    /// The borrow is good until the connection is removed, which only `finish` does.
    pub fn by_slot<'a>(&self, slot: u32) -> Option<&'a Conn> {
        let slots = self.slots.borrow();
        let conn: *const Conn = &**slots.get(slot as usize)?.as_ref()?;
        // SAFETY: boxed, so it stays put when the list grows; all users are on this thread and do not keep it past `finish`.
        Some(unsafe { &*conn })
    }
    pub fn is_empty(&self) -> bool {
        self.open.get() == 0
    }
    pub fn ids(&self) -> Vec<ConnId> {
        self.slots.borrow().iter().flatten().map(|c| c.id).collect()
    }

    pub fn insert<'a>(&self, fd: RawFd, server: Option<Arc<ServerCore>>) -> &'a Conn {
        let mut slots = self.slots.borrow_mut();
        let slot = self.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(None);
            (slots.len() - 1) as u32
        });
        let id = ConnId { slot, generation: NEXT_GENERATION.fetch_add(1, Ordering::Relaxed) };
        let phase = if server.is_some() { Phase::Fresh } else { Phase::Busy };
        slots[slot as usize] = Some(Box::new(Conn::new(id, fd, server, phase)));
        self.open.set(self.open.get() + 1);
        drop(slots);
        let conn = self.by_slot(slot).expect("just inserted");
        // SAFETY: nobody has the face yet.
        unsafe { (*conn.face.get()).conn = conn };
        conn
    }
    fn remove(&self, id: ConnId) {
        let conn = self.slots.borrow_mut()[id.slot as usize].take();
        self.free.borrow_mut().push(id.slot);
        self.open.set(self.open.get() - 1);
        self.dead.borrow_mut().extend(conn);
    }
    /// Frees what was removed; called by the worker's loop, where nobody borrows connections.
    pub fn bury(&self) {
        self.dead.borrow_mut().clear();
    }
    /// Lets go of everything without freeing what the kernel may still write to.
    pub fn leak(&self) {
        std::mem::take(&mut *self.slots.borrow_mut()).into_iter().for_each(std::mem::forget);
        self.open.set(0);
    }
}

impl Conn {
    fn new(id: ConnId, fd: RawFd, server: Option<Arc<ServerCore>>, phase: Phase) -> Conn {
        Conn {
            id,
            fd,
            fixed: Cell::new(false),
            receiving: Cell::new(false),
            paused: Cell::new(false),
            home_slot: Cell::new(crate::worker_index()),
            server,
            session: Cell::new(None),
            phase: Cell::new(phase),
            face: UnsafeCell::new(Connection {
                conn: std::ptr::null(),
                input: Vec::new(),
                start: 0,
                output: Vec::new(),
                read_timeout: None,
                write_timeout: None,
            }),
            arrived: RefCell::default(),
            grown: Cell::new(false),
            ended: Cell::new(false),
            broken: Cell::new(false),
            cut: Cell::new(false),
            sending: RefCell::default(),
            sent: Cell::new(0),
            in_flight: Cell::new(false),
            unsent: RefCell::default(),
            fiber: Cell::new(None),
            wants_input: Cell::new(false),
            wants_room: Cell::new(false),
            idle_timeout: Cell::new(None),
            idle_since: Cell::new(0),
            timer_at: Cell::new(0),
        }
    }

    /// The fiber's side, for the stream that owns this connection.
    pub fn face(&self) -> *mut Connection {
        self.face.get()
    }

    // ---- called by the reactor ----

    /// Bytes have arrived.
    pub fn on_received(&self, w: &Worker, bytes: &[u8]) {
        w.shared.counters.bytes_received.add(bytes.len() as u64);
        match self.phase.get() {
            Phase::Idle | Phase::Ready => {
                // SAFETY: no fiber serves the connection in these phases.
                let face = unsafe { &mut *self.face.get() };
                face.append_input(w, bytes);
                self.grown.set(true);
                self.make_ready(w);
            }
            Phase::Fresh | Phase::Busy => {
                let mut arrived = self.arrived.borrow_mut();
                if arrived.capacity() == 0 {
                    *arrived = w.conns.buffers.take();
                }
                arrived.extend_from_slice(bytes);
                if arrived.len() > UNREAD_BYTES_MAX && !self.paused.get() {
                    self.paused.set(true);
                    w.reactor.pause(self);
                }
                drop(arrived);
                self.wake_for_input();
            }
            Phase::Closing => {}
        }
    }

    /// No more bytes will arrive.
    pub fn on_ended(&self, w: &Worker) {
        self.ended.set(true);
        match self.phase.get() {
            Phase::Closing => self.finish(w),
            Phase::Idle => self.make_ready(w),
            _ => self.wake_for_input(),
        }
    }

    /// The kernel has taken `n` bytes of what was being sent, or refused.
    pub fn on_sent(&self, w: &Worker, result: Result<usize, i32>) {
        self.in_flight.set(false);
        match result {
            Ok(n) => {
                w.shared.counters.bytes_sent.add(n as u64);
                self.sent.set(self.sent.get() + n);
                if self.sent.get() < self.sending.borrow().len() {
                    return self.send(w);
                }
                w.conns.buffers.give(std::mem::take(&mut *self.sending.borrow_mut()));
                self.sent.set(0);
                if !self.unsent.borrow().is_empty() {
                    self.sending.swap(&self.unsent);
                    self.send(w);
                }
            }
            Err(_) => {
                self.broken.set(true);
                self.ended.set(true);
                *self.sending.borrow_mut() = Vec::new();
                *self.unsent.borrow_mut() = Vec::new();
                self.sent.set(0);
            }
        }
        if self.wants_room.get() {
            self.wants_room.set(false);
            self.wake_fiber();
        }
        match self.phase.get() {
            Phase::Closing => self.finish(w),
            Phase::Idle if self.ended.get() => self.make_ready(w),
            _ => {}
        }
    }

    /// What is to be sent next: address and length. Stays put until `on_sent`.
    pub fn to_send(&self) -> (*const u8, usize) {
        let sending = self.sending.borrow();
        let rest = &sending[self.sent.get()..];
        (rest.as_ptr(), rest.len())
    }

    /// Time of the live timer entry, 0 for none.
    pub fn timer_at(&self) -> u64 {
        self.timer_at.get()
    }
    pub fn is_cut(&self) -> bool {
        self.cut.get()
    }
    pub fn is_sending(&self) -> bool {
        self.in_flight.get()
    }

    // ---- turns ----

    fn make_ready(&self, w: &Worker) {
        if self.phase.get() == Phase::Idle {
            self.phase.set(Phase::Ready);
            w.enqueue(Run::Job(Job::Conn(self.id), self.home_slot.get()));
        }
    }

    fn wake_for_input(&self) {
        if self.wants_input.get() {
            self.wake_fiber();
        }
    }

    fn wake_fiber(&self) {
        if let Some(fiber) = self.fiber.get() {
            fiber.wake();
        }
    }

    fn send(&self, w: &Worker) {
        self.in_flight.set(true);
        w.reactor.send(w, self);
    }

    /// One stretch of service on the calling fiber.
    fn serve(&self, w: &Worker) {
        let is_fresh = self.phase.replace(Phase::Busy) == Phase::Fresh;
        self.fiber.set(Some(fiber::current()));
        // SAFETY: the phase was not Busy, so no other fiber has the face; the reactor leaves it alone from now on.
        let face = unsafe { &mut *self.face.get() };
        let mut session = self.session.take();
        if is_fresh {
            session = self.connect_session(face);
        }
        let after = match &mut session {
            Some(session) => self.turns(face, &mut **session),
            None => After::Close,
        };
        self.fiber.set(None);
        match after {
            After::Idle => {
                self.session.set(session);
                self.rest(w, face);
            }
            After::Close => {
                if let Some(mut session) = session {
                    self.fiber.set(Some(fiber::current()));
                    guarded(|| session.closed());
                    guarded(move || drop(session));
                    self.fiber.set(None);
                }
                self.close(w);
            }
        }
    }

    fn connect_session(&self, face: &mut Connection) -> Option<Box<dyn Session>> {
        let server = self.server.clone()?;
        let session = guarded(|| server.service.connected(face)).flatten();
        let _ = face.flush();
        session
    }

    /// Calls `data` as long as input grows.
    fn turns(&self, face: &mut Connection, session: &mut dyn Session) -> After {
        loop {
            let arrived = face.take_arrived();
            if !self.grown.replace(false) && !arrived {
                return if self.ended.get() { After::Close } else { After::Idle };
            }
            let after = guarded(|| session.data(face)).unwrap_or(After::Close);
            self.wants_input.set(false);
            let flushed = face.flush();
            if after == After::Close || flushed.is_err() {
                return After::Close;
            }
        }
    }

    /// Idle until input comes: gives the buffers back and starts the idle clock.
    fn rest(&self, w: &Worker, face: &mut Connection) {
        face.release_buffers(w);
        self.phase.set(Phase::Idle);
        if let Some(timeout) = self.idle_timeout.get() {
            self.idle_since.set(w.now.get());
            self.arm_timer(w, (Instant(w.now.get()) + timeout).0);
        }
    }

    fn arm_timer(&self, w: &Worker, at: u64) {
        if self.timer_at.get() == 0 || at < self.timer_at.get() {
            self.timer_at.set(at);
            w.arm(at, Target::Conn(self.id));
        }
    }

    /// The session is over.
    pub fn close(&self, w: &Worker) {
        self.phase.set(Phase::Closing);
        // SAFETY: the fiber or stream that had the face is done with it.
        unsafe { &mut *self.face.get() }.release_buffers(w);
        *self.arrived.borrow_mut() = Vec::new();
        if self.in_flight.get() {
            self.arm_timer(w, (time::now() + LINGER).0);
        }
        self.finish(w);
    }

    /// Frees the connection as soon as nothing refers to it.
    fn finish(&self, w: &Worker) {
        if self.in_flight.get() {
            return;
        }
        if self.receiving.get() {
            return self.cut_socket(w);
        }
        w.reactor.detach(w, self);
        if let Some(server) = &self.server {
            server.open.fetch_sub(1, Ordering::AcqRel);
        }
        w.conns.remove(self.id);
    }

    fn cut_socket(&self, w: &Worker) {
        if !self.cut.replace(true) {
            w.reactor.cut(w, self);
        }
    }
}

/// Runs a session's code; its panic ends the connection and nothing else.
fn guarded<T>(f: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(value) => Some(value),
        Err(panic) => {
            worker::report_panic(&*panic);
            None
        }
    }
}

/// The job of a fiber that was given a connection.
pub(crate) fn serve_ready(id: ConnId) {
    let w = worker::own().expect("fibers run on workers");
    if let Some(conn) = w.conns.get(id) {
        conn.serve(w);
    }
}

/// Ends a connection as if the peer had gone.
pub(crate) fn cut(w: &Worker, id: ConnId) {
    if let Some(conn) = w.conns.get(id)
        && conn.phase.get() != Phase::Closing
    {
        conn.broken.set(true);
        conn.cut_socket(w);
        // Cutting may have delivered the end already, and with it all there was to do.
        if let Some(conn) = w.conns.get(id) {
            if conn.wants_room.replace(false) {
                conn.wake_fiber();
            }
            conn.on_ended(w);
        }
    }
}

pub(crate) fn idle_timer_fired(w: &Worker, id: ConnId) {
    let Some(conn) = w.conns.get(id) else { return };
    conn.timer_at.set(0);
    if conn.phase.get() == Phase::Closing {
        return conn.cut_socket(w);
    }
    let Some(timeout) = conn.idle_timeout.get() else { return };
    let since = if conn.phase.get() == Phase::Idle { conn.idle_since.get() } else { w.now.get() };
    let deadline = (Instant(since) + timeout).0;
    if deadline <= w.now.get() {
        cut(w, id);
    } else {
        conn.arm_timer(w, deadline);
    }
}

/// A connection as its fiber sees it.
pub struct Connection {
    conn: *const Conn,
    input: Vec<u8>,
    /// Consumed bytes at the front of `input`.
    start: usize,
    output: Vec<u8>,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

impl Connection {
    #[inline]
    fn conn<'a>(&self) -> &'a Conn {
        // SAFETY: set at birth; the face lives inside the connection it points to.
        unsafe { &*self.conn }
    }

    /// Bytes received and not consumed; stable until `fill` or `poll_input` is called.
    #[inline]
    pub fn input(&self) -> &[u8] {
        &self.input[self.start..]
    }
    /// Drops the first `n` bytes of the input.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        self.start += n;
        assert!(self.start <= self.input.len(), "consumed more than there is");
        if self.start == self.input.len() {
            self.input.clear();
            self.start = 0;
        }
    }

    fn append_input(&mut self, w: &Worker, bytes: &[u8]) {
        if self.input.capacity() == 0 {
            self.input = w.conns.buffers.take();
        }
        if self.start > 0 && self.input.len() + bytes.len() > self.input.capacity() {
            self.input.drain(..self.start);
            self.start = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    /// Moves what has arrived behind the input; true if there was anything.
    fn take_arrived(&mut self) -> bool {
        let conn = self.conn();
        let mut arrived = conn.arrived.borrow_mut();
        if arrived.is_empty() {
            return false;
        }
        let w = worker::own().expect("connections live on workers");
        if self.input.is_empty() {
            std::mem::swap(&mut self.input, &mut *arrived);
            w.conns.buffers.give(std::mem::take(&mut *arrived));
        } else {
            self.append_input(w, &arrived);
            w.conns.buffers.give(std::mem::take(&mut *arrived));
        }
        drop(arrived);
        if conn.paused.get() && !conn.ended.get() {
            conn.paused.set(false);
            w.reactor.resume(w, conn);
        }
        true
    }

    fn release_buffers(&mut self, w: &Worker) {
        if self.start == self.input.len() && self.input.capacity() > 0 {
            self.start = 0;
            w.conns.buffers.give(std::mem::take(&mut self.input));
        }
        if self.output.is_empty() && self.output.capacity() > 0 {
            w.conns.buffers.give(std::mem::take(&mut self.output));
        }
    }

    /// Parks until the input has at least `min_total` bytes. `UnexpectedEof` when the peer is gone, `TimedOut` after the read timeout.
    pub fn fill(&mut self, min_total: usize) -> io::Result<()> {
        let conn = self.conn();
        let mut deadline = None;
        loop {
            self.take_arrived();
            if self.input().len() >= min_total {
                return Ok(());
            }
            if conn.ended.get() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let deadline = *deadline.get_or_insert_with(|| far_or(self.read_timeout));
            if time::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            conn.fiber.set(Some(fiber::current()));
            let wanted = conn.wants_input.replace(true);
            fiber::park_until(WaitEvent::NetRead, deadline);
            conn.wants_input.set(wanted);
        }
    }

    /// Takes in what has arrived, without waiting; the length of the input. `UnexpectedEof` when the peer is gone and all is consumed.
    pub fn poll_input(&mut self) -> io::Result<usize> {
        self.take_arrived();
        match self.input().len() {
            0 if self.conn().ended.get() => Err(io::ErrorKind::UnexpectedEof.into()),
            n => Ok(n),
        }
    }

    /// While on, arriving input (or the peer's end) wakes the fiber that serves this connection, wherever it is parked.
    pub fn wake_on_input(&mut self, on: bool) {
        self.conn().fiber.set(Some(fiber::current()));
        self.conn().wants_input.set(on);
    }

    /// Is the peer known to be gone?
    pub fn is_ended(&self) -> bool {
        self.conn().ended.get()
    }

    /// Where to write the answer.
    #[inline]
    pub fn output(&mut self) -> &mut Vec<u8> {
        if self.output.capacity() == 0 {
            self.output = worker::own().expect("connections live on workers").conns.buffers.take();
        }
        &mut self.output
    }

    /// Hands the output to the kernel; parks only while more than about 1 MiB is unsent.
    pub fn flush(&mut self) -> io::Result<()> {
        let conn = self.conn();
        if conn.broken.get() {
            self.output.clear();
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.output.is_empty() {
            return Ok(());
        }
        if conn.in_flight.get() {
            conn.unsent.borrow_mut().extend_from_slice(&self.output);
            self.output.clear();
        } else {
            let w = worker::own().expect("connections live on workers");
            *conn.sending.borrow_mut() = std::mem::take(&mut self.output);
            conn.send(w);
        }
        self.wait_for_room(UNSENT_BYTES_MAX)
    }

    /// Parks while more than `unsent_max` bytes wait to be sent.
    pub(super) fn wait_for_room(&mut self, unsent_max: usize) -> io::Result<()> {
        let conn = self.conn();
        let mut deadline = None;
        while conn.in_flight.get() {
            let unsent = conn.sending.borrow().len() - conn.sent.get() + conn.unsent.borrow().len();
            if unsent <= unsent_max {
                break;
            }
            let deadline = *deadline.get_or_insert_with(|| far_or(self.write_timeout));
            if time::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            conn.fiber.set(Some(fiber::current()));
            conn.wants_room.set(true);
            fiber::park_until(WaitEvent::NetWrite, deadline);
            conn.wants_room.set(false);
            if conn.broken.get() {
                break;
            }
        }
        if conn.broken.get() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> Peer {
        match worker::own() {
            Some(w) => w.reactor.peer(self.conn()),
            None => socket::peer(self.conn().fd),
        }
    }

    /// A handle by which others can shut this connection down.
    pub fn handle(&self) -> ConnHandle {
        let w = worker::own().expect("connections live on workers");
        ConnHandle { home: w.shared, id: self.conn().id }
    }

    /// Closes the connection when it has been idle that long.
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) {
        self.conn().idle_timeout.set(timeout);
    }
    /// Bound for each `fill`.
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.read_timeout = timeout;
    }
    /// Bound for each wait in `flush`.
    pub fn set_write_timeout(&mut self, timeout: Option<Duration>) {
        self.write_timeout = timeout;
    }
}

fn far_or(timeout: Option<Duration>) -> Instant {
    timeout.map_or(Instant::FAR, |t| time::now() + t)
}

/// Shuts a connection down from anywhere.
#[derive(Clone, Copy)]
pub struct ConnHandle {
    home: &'static Shared,
    id: ConnId,
}

impl ConnHandle {
    /// Ends the connection as if the peer had gone; nothing happens if it is closed already. A fiber that waits for the
    /// network on it gets an error; one that waits for something else goes on until it next uses the connection.
    pub fn shutdown(&self) {
        match worker::own() {
            Some(w) if std::ptr::eq(w.shared, self.home) => cut(w, self.id),
            _ => self.home.send(Message::Cut(self.id)),
        }
    }
}

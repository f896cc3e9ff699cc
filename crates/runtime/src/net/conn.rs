//! One connection as its worker keeps it: what the reactor touches, and the turns of its session.

use super::server::ServerCore;
use super::{After, Connection, Session};
use crate::fiber::{self, Fiber, Job};
use crate::time::{self, Instant};
use crate::timer::Target;
use crate::worker::{self, Run, Worker};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Bytes that came while a fiber is at work on earlier ones, beyond which receiving pauses: a thousand clients that all send
/// faster than they are served should not fill a small memory.
const UNREAD_BYTES_MAX: usize = 64 << 10;
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
    pub(super) arrived: RefCell<Vec<u8>>,
    grown: Cell<bool>,
    pub(super) ended: Cell<bool>,
    pub(super) broken: Cell<bool>,
    cut: Cell<bool>,
    /// What the kernel is sending; not touched while `in_flight`.
    pub(super) sending: RefCell<Vec<u8>>,
    pub(super) sent: Cell<usize>,
    pub(super) in_flight: Cell<bool>,
    pub(super) unsent: RefCell<Vec<u8>>,
    pub(super) fiber: Cell<Option<Fiber>>,
    pub(super) wants_input: Cell<bool>,
    pub(super) wants_room: Cell<bool>,
    pub(super) idle_timeout: Cell<Option<Duration>>,
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
        unsafe { (*conn.face.get()).belong_to(conn) };
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
            face: UnsafeCell::new(Connection::unborn()),
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
                face.append_unserved(w, bytes);
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

    /// Gives the kernel what `to_send` says.
    pub(super) fn send(&self, w: &Worker) {
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
            let Some(arrived) = guarded(|| face.take_arrived()) else { return After::Close };
            if !self.grown.replace(false) && !arrived {
                return if self.ended.get() { After::Close } else { After::Idle };
            }
            let after = guarded(|| session.data(face)).unwrap_or(After::Close);
            self.wants_input.set(false);
            let flushed = face.flush();
            if after == After::Close || flushed.is_err() {
                face.take_leave();
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

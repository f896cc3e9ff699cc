//! One io_uring per worker: SINGLE_ISSUER and DEFER_TASKRUN, multishot accept and receive with a ring of shared buffers,
//! sockets as fixed files, answers sent through the ring, file reads and writes in the same ring.
//!
//! DEFER_TASKRUN came with Linux 6.1, after everything else used here, so a ring that can be set up has all of it; memory
//! limits may still refuse the ring, and then the caller takes epoll.
//!
//! The user data of an entry is its kind in the low three bits and an address or slot above. A connection's slot is not
//! reused, and a file operation stays on its fiber's stack, until the kernel has completed every entry that names it.

use super::turns::{Admission, Due, HeldRead, RingReads};
use crate::fs::{FileOp, OpKind};
use crate::net::{self, Conn, ListenerCore, Peer};
use crate::shared::Shared;
use crate::stack::map_anonymous;
use crate::time;
use crate::worker::Worker;
use io_uring::types::{BufRingEntry, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};

const KIND_IGNORED: u64 = 0;
const KIND_FILE: u64 = 1;
const KIND_RECEIVE: u64 = 2;
const KIND_SEND: u64 = 3;
const KIND_ACCEPT: u64 = 4;
const KIND_SIGNAL: u64 = 5;
/// A file operation that takes part in turns (`turns`).
const KIND_READ: u64 = 6;
const KIND_MASK: u64 = 7;
const KIND_BITS: u32 = 3;

/// Entries of the rings; a service has little traffic.
const ENTRIES: u32 = 1024;
const ENTRIES_SERVICE: u32 = 128;
/// Receive buffers shared by all connections of a worker. They are given back right after each batch.
const BUFFERS: u16 = 1024;
const BUFFER_BYTES: usize = 4096;
const BUFFER_GROUP: u16 = 0;
/// Sockets that can be fixed files; more work as plain descriptors.
const FIXED_MAX: u32 = 16 << 10;
const SEND_BYTES_MAX: usize = 1 << 30;
/// Fibers whose file operations may wait until the worker's pass ends while the device has little to do. With more the operations
/// go to it at once: else it would idle while fibers run, and fibers while it works.
const FIBERS_QUEUED_MAX: u32 = 2;
/// A busy device is told of new operations once they are one for this many that are not done: to tell it costs as much as the rest
/// of a submission, and it does not idle meanwhile.
const OPEN_FOR_EACH_QUEUED: u32 = 2;
/// Of the reads that are handed over together the device is told of so many before the rest is prepared: it must not idle meanwhile.
const FIRST_READS: usize = 4;
/// How long a worker that has nothing to do watches for the end of a turn before it sleeps.
const WATCH_NANOS_MAX: u64 = 200_000;

/// Submits so many entries and lets the kernel run what it has deferred.
fn run_deferred(ring: &IoUring, to_submit: u32) {
    let flags = io_uring::EnterFlags::GETEVENTS.bits();
    // SAFETY: every queued entry's memory stays valid until its completion; no argument is passed.
    let _ = unsafe { ring.submitter().enter::<libc::sigset_t>(to_submit, 0, flags, None) };
}

/// The ring of a worker.
pub(crate) struct Uring {
    ring: RefCell<IoUring>,
    /// Made with the first connection.
    buffers: RefCell<Option<BufferRing>>,
    fixed: Cell<u32>,
    listeners: RefCell<Vec<Listening>>,
    /// Put aside by a push that met a full queue; else empty.
    completions: RefCell<Vec<(u64, i32, u32)>>,
    signal_armed: Cell<bool>,
    /// Fibers with file operations that the kernel has not been given.
    fibers_queued: Cell<u32>,
    /// These operations.
    files_queued: Cell<u32>,
    /// File operations that are not done, those in the queue included.
    files_open: Cell<u32>,
    /// Those of them that take part in turns and are not done.
    reads: RefCell<RingReads>,
    /// Reads that are being handed over; else empty.
    taken: RefCell<Vec<HeldRead>>,
    /// Where the kernel writes the signal's count. Leaked: the ring may outlive the worker for a moment.
    signal_count: *mut u64,
    shared: &'static Shared,
}

struct Listening {
    core: Option<ListenerCore>,
    armed: bool,
}

impl Uring {
    pub fn new(shared: &'static Shared, is_service: bool) -> io::Result<Uring> {
        let entries = if is_service { ENTRIES_SERVICE } else { ENTRIES };
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_clamp();
        builder.setup_cqsize(entries * 8);
        // Long chains of completions must not be lost, and waits need a timeout.
        let ring = builder.build(entries).or_else(|_| builder.build(entries / 8))?;
        let params = ring.params();
        if !params.is_feature_nodrop() || !params.is_feature_ext_arg() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        probe(&ring)?;
        Ok(Uring {
            ring: RefCell::new(ring),
            buffers: RefCell::new(None),
            fixed: Cell::new(0),
            listeners: RefCell::default(),
            completions: RefCell::default(),
            signal_armed: Cell::new(false),
            fibers_queued: Cell::new(0),
            files_queued: Cell::new(0),
            files_open: Cell::new(0),
            reads: RefCell::default(),
            taken: RefCell::default(),
            signal_count: Box::leak(Box::new(0)),
            shared,
        })
    }

    // ---- the loop ----

    /// Submits, lets the kernel run what it has deferred, and handles completions.
    pub fn poll(&self, w: &Worker) {
        let mut ring = self.ring.borrow_mut();
        let must_enter = {
            let sq = ring.submission();
            !sq.is_empty() || sq.taskrun() || sq.cq_overflow()
        };
        if must_enter {
            self.note_entered();
            let to_submit = ring.submission().len() as u32;
            run_deferred(&ring, to_submit);
        }
        drop(ring);
        self.handle_completions(w);
    }

    /// Whether the kernel has deferred work for this ring, or completions are there.
    pub fn has_news(&self) -> bool {
        let mut ring = self.ring.borrow_mut();
        ring.submission().taskrun() || !ring.completion().is_empty()
    }

    pub fn wait(&self, w: &Worker, deadline: Option<u64>) {
        if !self.completions.borrow().is_empty() {
            return self.poll(w);
        }
        if !self.signal_armed.replace(true) {
            let entry = opcode::Read::new(Fd(self.shared.eventfd()), self.signal_count.cast(), 8).build();
            self.push(entry, KIND_SIGNAL);
        }
        let deadline = [deadline, self.hand_over_if_due(w)].into_iter().flatten().min();
        if self.watch_turn(w, deadline) {
            return self.poll(w);
        }
        let ring = self.ring.borrow_mut();
        self.note_entered();
        // Errors (a timeout, a signal, a full completion queue) all mean: look at what there is.
        let _ = match deadline {
            None => ring.submit_and_wait(1),
            Some(at) => {
                let left = at.saturating_sub(time::now().0);
                let timeout = Timespec::new().sec(left / 1_000_000_000).nsec((left % 1_000_000_000) as u32);
                ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        drop(ring);
        self.handle_completions(w);
    }

    /// While reads are held, the device idles from the end of a turn until a worker sees it, and a processor that sleeps takes long to
    /// wake up. So the worker watches a while before it sleeps. Has something come?
    fn watch_turn(&self, w: &Worker, deadline: Option<u64>) -> bool {
        if !w.takes_turns() || !w.group.turns.is_deep() || self.reads.borrow().out == 0 {
            return false;
        }
        self.submit();
        let mut now = time::now().0;
        let until = deadline.unwrap_or(u64::MAX).min(now + WATCH_NANOS_MAX);
        while now < until {
            let mut ring = self.ring.borrow_mut();
            let has_come = ring.submission().taskrun() || !ring.completion().is_empty();
            drop(ring);
            if has_come || matches!(w.group.turns.due(now), Due::Now) {
                return true;
            }
            std::hint::spin_loop();
            now = time::now().0;
        }
        false
    }

    /// Between two fibers: has the turn of the held reads come?
    pub fn look_at_turns(&self, w: &Worker) {
        if self.hand_over_if_due(w).is_some()
            && self.reads.borrow().out > 0
            && self.ring.borrow_mut().submission().taskrun()
        {
            self.poll(w);
        }
    }

    /// Hands over held reads if their turn has come. Else the time until which they wait for it; none if there are none.
    fn hand_over_if_due(&self, w: &Worker) -> Option<u64> {
        if !w.takes_turns() || !w.group.turns.has_held() {
            return None;
        }
        match w.group.turns.due(time::now().0) {
            Due::Nothing => return None,
            Due::Later(until) => return Some(until),
            Due::Now => {}
        }
        let mut taken = self.taken.take();
        if let Some(turn) = w.group.turns.take_held(&mut taken) {
            self.note_turn(turn, time::now().0);
            self.reads.borrow_mut().out += taken.len() as u32;
            for (i, read) in taken.drain(..).enumerate() {
                // SAFETY: it stays where it is until it is complete.
                self.push_file(unsafe { &*read.0 }, KIND_READ);
                if i + 1 == FIRST_READS {
                    self.submit();
                }
            }
            self.submit();
        }
        *self.taken.borrow_mut() = taken;
        None
    }

    /// The whole batch. Handlers queue fibers and entries; they run no fiber.
    fn handle_completions(&self, w: &Worker) {
        let mut batch = self.completions.take();
        loop {
            let reads = self.gather(w, &mut batch);
            if batch.is_empty() {
                break;
            }
            w.now.set(time::now().0);
            self.note_reads_done(w, reads);
            for &(data, result, flags) in &batch {
                self.handle(w, data, result, flags);
            }
            if let Some(buffers) = &mut *self.buffers.borrow_mut() {
                buffers.publish();
            }
            batch.clear();
            // A push that met a full queue has put completions aside.
            batch.append(&mut self.completions.borrow_mut());
        }
        self.hand_over_if_due(w);
        *self.completions.borrow_mut() = batch;
    }

    /// Adds the completions there are to a batch; the number of reads in it that take part in turns. Where the device answers in
    /// batches the others of a batch follow within microseconds, and the kernel hands out 20 at a time: it is asked until no
    /// more of them come.
    fn gather(&self, w: &Worker, batch: &mut Vec<(u64, i32, u32)>) -> u32 {
        let mut ring = self.ring.borrow_mut();
        let mut seen = 0;
        let mut reads = 0;
        let expects_batch = w.takes_turns() && w.group.turns.is_holding();
        loop {
            batch.extend(ring.completion().map(|e| (e.user_data(), e.result(), e.flags())));
            let more = batch[seen..].iter().filter(|(data, ..)| data & KIND_MASK == KIND_READ).count() as u32;
            (seen, reads) = (batch.len(), reads + more);
            if !expects_batch || more == 0 || reads == self.reads.borrow().out {
                return reads;
            }
            self.shared.counters.enters.add(1);
            run_deferred(&ring, 0);
        }
    }

    fn handle(&self, w: &Worker, data: u64, result: i32, flags: u32) {
        match data & KIND_MASK {
            KIND_FILE | KIND_READ => {
                self.files_open.set(self.files_open.get() - 1);
                FileOp::complete((data & !KIND_MASK) as *const FileOp, result);
            }
            KIND_RECEIVE => self.received(w, (data >> KIND_BITS) as u32, result, flags),
            KIND_SEND => self.sent(w, (data >> KIND_BITS) as u32, result),
            KIND_ACCEPT => self.accepted(w, (data >> KIND_BITS) as usize, result, flags),
            KIND_SIGNAL => self.signal_armed.set(false),
            _ => {}
        }
    }

    fn push(&self, entry: squeue::Entry, user_data: u64) {
        let entry = entry.user_data(user_data);
        let mut ring = self.ring.borrow_mut();
        loop {
            // SAFETY: what the entry points at stays valid until its completion (module header).
            if unsafe { ring.submission().push(&entry) }.is_ok() {
                return;
            }
            self.note_entered();
            if ring.submit().is_err() {
                // Busy: completions must be taken before the kernel accepts more.
                let mut taken = self.completions.borrow_mut();
                taken.extend(ring.completion().map(|e| (e.user_data(), e.result(), e.flags())));
            }
        }
    }

    // ---- files ----

    pub fn submit_file(&self, w: &Worker, op: &FileOp) {
        w.shared.counters.file_ops.add(1);
        if op.kind != OpKind::Read || !w.takes_turns() {
            return self.push_file(op, KIND_FILE);
        }
        let turns = &w.group.turns;
        match turns.admit() {
            Admission::Free => {}
            Admission::InTurn(turn) => self.note_turn(turn, w.now.get()),
            Admission::Later => {
                w.shared.counters.reads_held.add(1);
                turns.hold(op, time::now().0);
                self.hand_over_if_due(w);
                return;
            }
        }
        self.reads.borrow_mut().out += 1;
        self.push_file(op, KIND_READ);
    }

    fn push_file(&self, op: &FileOp, kind: u64) {
        self.files_open.set(self.files_open.get() + 1);
        self.files_queued.set(self.files_queued.get() + 1);
        let fd = Fd(op.fd);
        let len = op.attempt_len() as u32;
        let entry = match op.kind {
            OpKind::Read => opcode::Read::new(fd, op.address, len).offset(op.offset).build(),
            OpKind::Write { durable } => {
                let flags = if durable { libc::RWF_DSYNC } else { 0 };
                opcode::Write::new(fd, op.address, len).offset(op.offset).rw_flags(flags).build()
            }
            OpKind::SyncData => opcode::Fsync::new(fd).flags(io_uring::types::FsyncFlags::DATASYNC).build(),
            OpKind::SyncAll => opcode::Fsync::new(fd).build(),
        };
        self.push(entry, std::ptr::from_ref(op) as u64 | kind);
    }

    /// The kernel is given the queue; what it does not take now stays there.
    fn submit(&self) {
        self.note_entered();
        let _ = self.ring.borrow().submit();
    }

    fn note_reads_done(&self, w: &Worker, reads: u32) {
        if reads == 0 {
            return;
        }
        let turns = &w.group.turns;
        let mut own = self.reads.borrow_mut();
        own.out -= reads;
        turns.note_done(reads, w.now.get());
        if own.out == 0 {
            turns.end(own.turn, own.began, w.now.get());
        }
        drop(own);
        self.hand_over_if_due(w);
    }

    /// The ring is given reads of this turn.
    fn note_turn(&self, turn: u64, now: u64) {
        let mut own = self.reads.borrow_mut();
        (own.turn, own.began) = (turn, now);
    }

    pub fn files_open(&self) -> u32 {
        self.files_open.get()
    }

    /// A fiber has queued all of its file operations and is about to park.
    pub fn files_queued(&self) {
        self.fibers_queued.set(self.fibers_queued.get() + 1);
        // All may be held.
        if self.files_queued.get() > 0
            && self.fibers_queued.get() >= FIBERS_QUEUED_MAX
            && self.files_queued.get() >= self.files_open.get() / OPEN_FOR_EACH_QUEUED
        {
            self.submit();
        }
    }

    /// The kernel is being given the queue.
    fn note_entered(&self) {
        self.shared.counters.enters.add(1);
        self.fibers_queued.set(0);
        self.files_queued.set(0);
    }

    // ---- connections ----

    pub fn attach(&self, _w: &Worker, conn: &Conn) -> io::Result<()> {
        self.prepare_network()?;
        if conn.id.slot < self.fixed.get() {
            let registered = self.ring.borrow().submitter().register_files_update(conn.id.slot, &[conn.fd]);
            conn.fixed.set(registered.is_ok());
        }
        self.arm_receive(conn);
        Ok(())
    }

    /// Registers buffers and the table of files, once.
    fn prepare_network(&self) -> io::Result<()> {
        let mut buffers = self.buffers.borrow_mut();
        if buffers.is_none() {
            let ring = self.ring.borrow();
            *buffers = Some(BufferRing::register(&ring)?);
            let wanted = FIXED_MAX.min(descriptors_max());
            if ring.submitter().register_files_sparse(wanted).is_ok() {
                self.fixed.set(wanted);
            }
        }
        Ok(())
    }

    fn arm_receive(&self, conn: &Conn) {
        let entry = if conn.fixed.get() {
            opcode::RecvMulti::new(Fixed(conn.id.slot), BUFFER_GROUP).build()
        } else {
            opcode::RecvMulti::new(Fd(conn.fd), BUFFER_GROUP).build()
        };
        conn.receiving.set(true);
        self.push(entry, receive_data(conn));
    }

    fn received(&self, w: &Worker, slot: u32, result: i32, flags: u32) {
        let conn = w.conns.by_slot(slot).expect("a connection outlives its receive");
        if !cqueue::more(flags) {
            conn.receiving.set(false);
        }
        if let Some(buffer) = cqueue::buffer_select(flags) {
            let mut buffers = self.buffers.borrow_mut();
            let buffers = buffers.as_mut().expect("receives use registered buffers");
            if result > 0 {
                conn.on_received(w, buffers.bytes(buffer, result as usize));
            }
            buffers.give(buffer);
        }
        match result {
            // Whatever stopped it, nobody will receive on it again.
            _ if conn.is_cut() && !conn.receiving.get() => conn.on_ended(w),
            1.. if conn.receiving.get() || conn.paused.get() => {}
            1.. => self.arm_receive(conn),
            // Out of buffers: this batch gives them back before the next submission.
            _ if result == -libc::ENOBUFS || result == -libc::EINTR || result == -libc::EAGAIN => {
                if !conn.receiving.get() && !conn.paused.get() {
                    self.arm_receive(conn);
                }
            }
            _ if result == -libc::ECANCELED && conn.paused.get() => {}
            // Cancelled for a pause that is over by now.
            _ if result == -libc::ECANCELED && !conn.receiving.get() && !conn.is_cut() => {
                self.arm_receive(conn)
            }
            _ => conn.on_ended(w),
        }
    }

    pub fn send(&self, _w: &Worker, conn: &Conn) {
        let (address, len) = conn.to_send();
        let len = len.min(SEND_BYTES_MAX) as u32;
        let entry = if conn.fixed.get() {
            opcode::Send::new(Fixed(conn.id.slot), address, len)
                .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
                .build()
        } else {
            opcode::Send::new(Fd(conn.fd), address, len).flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL).build()
        };
        self.push(entry, u64::from(conn.id.slot) << KIND_BITS | KIND_SEND);
    }

    fn sent(&self, w: &Worker, slot: u32, result: i32) {
        let conn = w.conns.by_slot(slot).expect("a connection outlives its send");
        match result {
            0.. => conn.on_sent(w, Ok(result as usize)),
            _ if result == -libc::EINTR || result == -libc::EAGAIN => conn.on_sent(w, Ok(0)),
            _ => conn.on_sent(w, Err(-result)),
        }
    }

    pub fn pause(&self, conn: &Conn) {
        self.push(opcode::AsyncCancel::new(receive_data(conn)).build(), KIND_IGNORED);
    }
    pub fn resume(&self, _w: &Worker, conn: &Conn) {
        if !conn.receiving.get() {
            self.arm_receive(conn);
        }
    }
    pub fn cut(&self, _w: &Worker, conn: &Conn) {
        net::shutdown(conn.fd);
    }
    pub fn detach(&self, _w: &Worker, conn: &Conn) {
        if conn.fixed.get() {
            let _ = self.ring.borrow().submitter().register_files_update(conn.id.slot, &[-1]);
        }
        // SAFETY: the connection owned the descriptor and is being freed.
        drop(unsafe { OwnedFd::from_raw_fd(conn.fd) });
    }
    pub fn peer(&self, conn: &Conn) -> Peer {
        net::peer_of(conn.fd)
    }

    // ---- listeners ----

    pub fn listen(&self, _w: &Worker, listener: ListenerCore) {
        let mut listeners = self.listeners.borrow_mut();
        let free = listeners.iter().position(|l| l.core.is_none() && !l.armed);
        let new = Listening { core: Some(listener), armed: false };
        let index = match free {
            Some(index) => {
                listeners[index] = new;
                index
            }
            None => {
                listeners.push(new);
                listeners.len() - 1
            }
        };
        drop(listeners);
        self.arm_accept(index);
    }

    fn arm_accept(&self, index: usize) {
        let mut listeners = self.listeners.borrow_mut();
        let listening = &mut listeners[index];
        let Some(core) = listening.core.as_ref().filter(|_| !listening.armed) else { return };
        let entry = opcode::AcceptMulti::new(Fd(core.raw())).flags(libc::SOCK_CLOEXEC).build();
        listening.armed = true;
        drop(listeners);
        self.push(entry, (index as u64) << KIND_BITS | KIND_ACCEPT);
    }

    fn accepted(&self, w: &Worker, index: usize, result: i32, flags: u32) {
        // SAFETY: a nonnegative result is a descriptor made for us.
        let fd = (result >= 0).then(|| unsafe { OwnedFd::from_raw_fd(result) });
        let mut listeners = self.listeners.borrow_mut();
        let listening = &mut listeners[index];
        if !cqueue::more(flags) {
            listening.armed = false;
        }
        let must_arm = !listening.armed && listening.core.is_some();
        let server = listening.core.as_ref().map(|l| l.server.clone());
        drop(listeners);
        if let (Some(fd), Some(server)) = (fd, server) {
            net::deal(w, fd, &server);
        }
        if must_arm && net::is_exhaustion(-result) {
            net::pause_listener(w, index);
        } else if must_arm {
            self.arm_accept(index);
        }
    }

    pub fn unlisten(&self, _w: &Worker, number: u64) {
        let mut listeners = self.listeners.borrow_mut();
        let found = listeners.iter().position(|l| l.core.as_ref().is_some_and(|c| c.number == number));
        let Some(index) = found else { return };
        let was_armed = listeners[index].armed;
        let core = listeners[index].core.take();
        drop(listeners);
        if let Some(core) = core {
            net::shutdown(core.raw());
        }
        if was_armed {
            let user_data = (index as u64) << KIND_BITS | KIND_ACCEPT;
            self.push(opcode::AsyncCancel::new(user_data).build(), KIND_IGNORED);
        }
    }

    pub fn stop_listeners(&self, w: &Worker) {
        let numbers: Vec<u64> =
            self.listeners.borrow().iter().flat_map(|l| &l.core).map(|c| c.number).collect();
        numbers.into_iter().for_each(|number| self.unlisten(w, number));
    }

    pub fn resume_listener(&self, _w: &Worker, index: usize) {
        self.arm_accept(index);
    }
}

fn receive_data(conn: &Conn) -> u64 {
    u64::from(conn.id.slot) << KIND_BITS | KIND_RECEIVE
}

/// Are all operations used here known to the kernel?
fn probe(ring: &IoUring) -> io::Result<()> {
    let mut probe = io_uring::Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::Fsync::CODE,
        opcode::RecvMulti::CODE,
        opcode::Send::CODE,
        opcode::AcceptMulti::CODE,
        opcode::AsyncCancel::CODE,
    ];
    if needed.iter().all(|&code| probe.is_supported(code)) {
        Ok(())
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn descriptors_max() -> u32 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one rlimit, ours.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    u32::try_from(limit.rlim_cur).unwrap_or(u32::MAX).max(1)
}

/// The receive buffers a ring chooses from.
struct BufferRing {
    ring: *mut BufRingEntry,
    memory: *mut u8,
    tail: u16,
}

impl BufferRing {
    /// Its memory is never unmapped: the kernel may write to it until the ring is wholly gone.
    fn register(ring: &IoUring) -> io::Result<BufferRing> {
        let entries = map_anonymous(usize::from(BUFFERS) * size_of::<BufRingEntry>())?;
        let memory = map_anonymous(usize::from(BUFFERS) * BUFFER_BYTES)?;
        // SAFETY: page-aligned, zeroed, long enough, and mapped for good.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries as u64, BUFFERS, BUFFER_GROUP, 0)? };
        let mut buffers = BufferRing { ring: entries as *mut _, memory: memory as *mut _, tail: 0 };
        (0..BUFFERS).for_each(|id| buffers.give(id));
        buffers.publish();
        Ok(buffers)
    }
    /// What the kernel has put into a buffer it gave us.
    fn bytes(&self, id: u16, len: usize) -> &[u8] {
        // SAFETY: the kernel filled `len` bytes and leaves the buffer alone until it is given back.
        unsafe { std::slice::from_raw_parts(self.memory.add(usize::from(id) * BUFFER_BYTES), len) }
    }
    /// Puts a buffer back; the kernel sees it after `publish`.
    fn give(&mut self, id: u16) {
        // SAFETY: the index is below the ring's length; the kernel reads entries only below the published tail.
        let entry = unsafe { &mut *self.ring.add(usize::from(self.tail & (BUFFERS - 1))) };
        // SAFETY: within the mapping.
        entry.set_addr(unsafe { self.memory.add(usize::from(id) * BUFFER_BYTES) } as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }
    fn publish(&mut self) {
        // SAFETY: the tail lives in the first entry's reserved field, as the kernel's interface defines; it is aligned for u16.
        let tail = unsafe { &*BufRingEntry::tail(self.ring).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }
}

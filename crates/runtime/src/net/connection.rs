//! A connection as its fiber sees it: buffers to read from and write to, and waits.

use super::conn::{Conn, ConnId, cut};
use super::layer::{Layer, Layers};
use super::{Peer, socket};
use crate::fiber;
use crate::shared::{Message, Shared};
use crate::time::{self, Instant};
use crate::wait::WaitEvent;
use crate::worker::{self, Worker};
use std::io;
use std::time::Duration;

/// Unsent bytes beyond which `flush` parks.
const UNSENT_BYTES_MAX: usize = 64 << 10;
/// Bytes that go through layers at once.
const ENCODED_BYTES_MAX: usize = 256 << 10;
/// An input buffer larger than this is given back as soon as it is consumed.
const INPUT_BYTES_KEPT: usize = 1 << 20;
/// Input that no fiber serves yet; what comes beyond it waits with the kernel.
const UNSERVED_BYTES_MAX: usize = 256 << 10;

/// A connection as its fiber sees it.
pub struct Connection {
    conn: *const Conn,
    input: Vec<u8>,
    /// Consumed bytes at the front of `input`.
    start: usize,
    output: Vec<u8>,
    /// `flush` drops the output.
    discards: bool,
    /// What stands between the network and both; most connections have none.
    layers: Option<Box<Layers>>,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

impl Connection {
    /// Without the connection it will be part of.
    pub(super) fn unborn() -> Connection {
        Connection {
            conn: std::ptr::null(),
            input: Vec::new(),
            start: 0,
            output: Vec::new(),
            discards: false,
            layers: None,
            read_timeout: None,
            write_timeout: None,
        }
    }
    pub(super) fn belong_to(&mut self, conn: &Conn) {
        self.conn = conn;
    }
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
            self.input.shrink_to(INPUT_BYTES_KEPT);
            self.start = 0;
        }
    }

    /// Takes in what came while no fiber serves the connection; receiving pauses where that is much.
    pub(super) fn append_unserved(&mut self, w: &Worker, bytes: &[u8]) {
        let unread = if self.layers.is_some() {
            let mut arrived = self.conn().arrived.borrow_mut();
            arrived.extend_from_slice(bytes);
            arrived.len()
        } else {
            self.append_input(w, bytes);
            self.input().len()
        };
        if unread > UNSERVED_BYTES_MAX {
            self.pause(w);
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

    /// Moves what has arrived behind the input and receives on; true if there was anything.
    pub(super) fn take_arrived(&mut self) -> bool {
        if self.layers.is_some() {
            return self.decode_arrived();
        }
        let conn = self.conn();
        if conn.paused.get() && !conn.ended.get() {
            self.resume();
        }
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
        true
    }

    /// The same through layers: what comes is at most a part of what has arrived.
    fn decode_arrived(&mut self) -> bool {
        let conn = self.conn();
        // They stay where they are: after a panic nothing goes out around them.
        let Some(layers) = &mut self.layers else { return false };
        let has_room = layers.has_room();
        if has_room {
            layers.take(&mut conn.arrived.borrow_mut());
        }
        let (mut grown, mut said) = (false, Vec::new());
        if layers.has_more() {
            if self.start > 0 {
                self.input.drain(..self.start);
                self.start = 0;
            }
            let had = self.input.len();
            layers.decode(&mut self.input);
            grown = self.input.len() > had;
            said = layers.speak(false);
            if layers.has_failed() {
                conn.ended.set(true);
            }
        }
        if has_room && conn.paused.get() && !conn.ended.get() {
            self.resume();
        }
        if !said.is_empty() {
            self.send(said);
        }
        grown
    }

    /// Whether more input comes without anything arriving.
    fn has_undecoded(&self) -> bool {
        self.layers.as_ref().is_some_and(|layers| {
            layers.has_more()
                || !layers.has_failed() && layers.has_room() && !self.conn().arrived.borrow().is_empty()
        })
    }

    /// Puts a layer between the network and the session, over those that are there. What has arrived and was not consumed
    /// is for the layer.
    pub fn push_layer(&mut self, layer: Box<dyn Layer>) {
        let undecoded = self.input.split_off(self.start);
        self.input = Vec::new();
        self.start = 0;
        self.layers.get_or_insert_default().push(layer, undecoded);
    }

    /// Lets the layers take leave of the peer.
    pub(super) fn take_leave(&mut self) {
        let said = self.layers.as_mut().map(|layers| layers.speak(true)).unwrap_or_default();
        if !said.is_empty() && !self.conn().broken.get() {
            self.send(said);
        }
    }

    #[cold]
    fn resume(&self) {
        let w = worker::own().expect("connections live on workers");
        self.conn().paused.set(false);
        w.reactor.resume(w, self.conn());
    }

    fn pause(&self, w: &Worker) {
        let conn = self.conn();
        if !conn.paused.replace(true) {
            w.reactor.pause(conn);
        }
    }

    /// Stops receiving until input is asked for again: what comes waits with the kernel, the peer's end too.
    pub fn hold_input(&mut self) {
        self.pause(worker::own().expect("connections live on workers"));
    }

    /// The first `n` bytes of the input as a buffer of their own, without a copy where nothing stands around them.
    pub fn take_input(&mut self, n: usize) -> Vec<u8> {
        let behind = self.input.split_off(self.start + n);
        let mut taken = std::mem::replace(&mut self.input, behind);
        taken.drain(..self.start);
        self.start = 0;
        taken
    }

    /// Gets address space for an input of `total` bytes at once: growing by doubling would take twice as much memory, this
    /// takes none before the bytes come.
    pub fn reserve_input(&mut self, total: usize) {
        self.input.reserve_exact(total.saturating_sub(self.input().len()));
    }

    pub(super) fn release_buffers(&mut self, w: &Worker) {
        if self.start == self.input.len() && self.input.capacity() > 0 {
            self.start = 0;
            w.conns.buffers.give(std::mem::take(&mut self.input));
        }
        if self.output.is_empty() && self.output.capacity() > 0 {
            w.conns.buffers.give(std::mem::take(&mut self.output));
        }
        if let Some(layers) = &mut self.layers {
            layers.release();
            let arrived = &mut *self.conn().arrived.borrow_mut();
            if arrived.is_empty() && arrived.capacity() > 0 {
                w.conns.buffers.give(std::mem::take(arrived));
            }
        }
    }

    /// Parks until the input has at least `min_total` bytes. `UnexpectedEof` when the peer is gone, `TimedOut` when nothing
    /// came for the read timeout.
    pub fn fill(&mut self, min_total: usize) -> io::Result<()> {
        self.fill_before(min_total, Instant::FAR)
    }

    /// The same, and `TimedOut` at `end` too, whatever has come.
    pub fn fill_before(&mut self, min_total: usize, end: Instant) -> io::Result<()> {
        let conn = self.conn();
        let mut deadline = None;
        let mut had = 0;
        loop {
            self.take_arrived();
            let have = self.input().len();
            if have >= min_total {
                return Ok(());
            }
            if self.has_undecoded() {
                continue;
            }
            if conn.ended.get() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if have > had {
                (had, deadline) = (have, None);
            }
            let deadline = *deadline.get_or_insert_with(|| far_or(self.read_timeout).min(end));
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

    /// Whether `flush` drops the output instead of sending it.
    pub fn discard_output(&mut self, on: bool) {
        self.discards = on;
    }

    /// Hands the output to the kernel; parks only while more than 64 KiB is unsent.
    pub fn flush(&mut self) -> io::Result<()> {
        let conn = self.conn();
        if conn.broken.get() {
            self.output.clear();
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.discards {
            self.output.clear();
        }
        if self.output.is_empty() {
            return Ok(());
        }
        if self.layers.is_some() {
            self.encode_output()?;
        } else if conn.in_flight.get() {
            conn.unsent.borrow_mut().extend_from_slice(&self.output);
            self.output.clear();
        } else {
            let output = std::mem::take(&mut self.output);
            self.send(output);
        }
        self.wait_for_room(UNSENT_BYTES_MAX)
    }

    /// Sends the output through the layers, a long one in parts, between which others run.
    fn encode_output(&mut self) -> io::Result<()> {
        let output = std::mem::take(&mut self.output);
        let mut parts = output.chunks(ENCODED_BYTES_MAX).peekable();
        while let Some(part) = parts.next() {
            let Some(layers) = &mut self.layers else { break };
            let mut bytes = worker::own().expect("connections live on workers").conns.buffers.take();
            layers.encode(part, &mut bytes)?;
            self.send(bytes);
            if parts.peek().is_some() {
                self.wait_for_room(UNSENT_BYTES_MAX)?;
                fiber::yield_now();
            }
        }
        worker::own().expect("connections live on workers").conns.buffers.give(output);
        Ok(())
    }

    /// Gives bytes to the kernel, or puts them behind those that it is sending.
    fn send(&self, bytes: Vec<u8>) {
        let conn = self.conn();
        if conn.in_flight.get() {
            conn.unsent.borrow_mut().extend_from_slice(&bytes);
        } else {
            let w = worker::own().expect("connections live on workers");
            *conn.sending.borrow_mut() = bytes;
            conn.send(w);
        }
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

    /// The user of the process at the other end, where the kernel knows it: on unix sockets of the real world.
    pub fn peer_uid(&self) -> Option<u32> {
        match self.peer() {
            Peer::Unix if !crate::sim::in_simulation() => socket::peer_uid(self.conn().fd),
            _ => None,
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
    /// Bound for each wait in `fill`.
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

/// A connection for those who do not serve it: shut down from anywhere.
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

    /// Whether the peer is known to be gone. Only the connection's own worker, where its session's fibers run, knows.
    pub fn is_ended(&self) -> bool {
        let own = worker::own().filter(|w| std::ptr::eq(w.shared, self.home));
        own.is_some_and(|w| w.conns.get(self.id).is_none_or(|conn| conn.ended.get()))
    }
}

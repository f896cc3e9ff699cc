//! The client's side of a socket, for a fiber that reads and writes as it likes.

use super::conn::Conn;
use super::{Address, Connection, socket};
use crate::fiber;
use crate::wait::WaitEvent;
use crate::worker;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::os::fd::IntoRawFd;

/// The client's side; belongs to the fiber that made it, or to another of the same worker.
pub struct Stream {
    conn: *const Conn,
    not_send: PhantomData<*mut ()>,
}

/// Connects; parks the fiber. `Unsupported` outside fibers.
pub fn connect(address: &Address) -> io::Result<Stream> {
    if let Some(world) = crate::sim::world() {
        return world.connect(address).map(|conn| Stream { conn, not_send: PhantomData });
    }
    let Some(w) = worker::own_real() else {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "streams belong to fibers"));
    };
    let fd = fiber::blocking(WaitEvent::NetConnect, || socket::connect(address))?.into_raw_fd();
    socket::prepare(fd, w.reactor.wants_nonblocking());
    let conn = w.conns.insert(fd, None);
    let stream = Stream { conn, not_send: PhantomData };
    w.reactor.attach(w, conn)?;
    Ok(stream)
}

impl Stream {
    /// The same socket as the server's side sees one: buffers, timeouts, handle.
    pub fn connection(&mut self) -> &mut Connection {
        // SAFETY: the connection lives until this stream is dropped; it is Busy, so the reactor leaves the face alone; the
        // exclusive borrow of the stream keeps the face's borrow exclusive.
        unsafe { &mut *(*self.conn).face() }
    }
    /// Closes, after sending what was written.
    pub fn close(self) {}
}

impl Read for Stream {
    /// Reads what is there, at least one byte; 0 at the end.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let conn = self.connection();
        match conn.fill(1) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            Err(e) => return Err(e),
        }
        let n = buf.len().min(conn.input().len());
        buf[..n].copy_from_slice(&conn.input()[..n]);
        conn.consume(n);
        Ok(n)
    }
}

impl Write for Stream {
    /// Sends all of `bytes`; returns when the kernel has them or will have them soon (see `Connection::flush`).
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let conn = self.connection();
        conn.output().extend_from_slice(bytes);
        conn.flush().map(|()| bytes.len())
    }
    /// Waits until all has left.
    fn flush(&mut self) -> io::Result<()> {
        let conn = self.connection();
        conn.flush()?;
        conn.wait_for_room(0)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(w) = worker::own() {
            // SAFETY: the connection lives until its `close`, which is here.
            let conn = unsafe { &*self.conn };
            conn.close(w);
        }
    }
}

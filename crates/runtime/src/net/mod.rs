//! Sockets.
#![allow(unused_variables)]
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where to listen or connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP address; port 0 picks one.
    Tcp(SocketAddr),
    /// A unix socket's path.
    Unix(PathBuf),
}
/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP client.
    Tcp(SocketAddr),
    /// A local client.
    Unix,
}
/// What becomes of a connection after `data`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// Wait for more input without a stack.
    Idle,
    /// Send what was flushed, then close.
    Close,
}
/// Makes sessions of connections.
pub trait Service: Send + Sync + 'static {
    /// The state of one connection.
    type Session: Session;
    /// A client has connected; runs on a fiber of the worker the connection belongs to. `None` closes after sending what was flushed.
    fn connected(&self, conn: &mut Connection) -> Option<Self::Session>;
}
/// One connection's state between and during commands.
pub trait Session: Send + 'static {
    /// The input has grown; runs on a pooled fiber and may park.
    fn data(&mut self, conn: &mut Connection) -> After;
    /// The connection is gone, for whatever reason; runs once, on a fiber, after the last `data`.
    fn closed(&mut self);
}
/// A bound socket.
pub struct Listener {}
impl Listener {
    /// Where it listens, with the port that was picked.
    pub fn local_address(&self) -> Address {
        unimplemented!()
    }
}
/// Binds and listens. A stale unix socket file nobody listens on is replaced.
pub fn listen(address: &Address, backlog: u32) -> io::Result<Listener> {
    unimplemented!()
}
/// Accepts on all listeners and deals the connections to the workers in turn.
pub fn serve<S: Service>(listeners: Vec<Listener>, service: Arc<S>) -> Server {
    unimplemented!()
}
/// A running service.
pub struct Server {}
impl Server {
    /// Closes the listeners.
    pub fn stop_accepting(&self) {}
    /// Shuts every connection down; their sessions end as if the client had gone.
    pub fn close_all(&self) {}
    /// Connections not yet wholly closed.
    pub fn connections(&self) -> usize {
        unimplemented!()
    }
}
/// A connection as its fiber sees it.
pub struct Connection {}
impl Connection {
    /// Bytes received and not consumed; stable until `fill` or `poll_input` is called.
    pub fn input(&self) -> &[u8] {
        unimplemented!()
    }
    /// Drops the first `n` bytes of the input.
    pub fn consume(&mut self, n: usize) {}
    /// Parks until the input has at least `min_total` bytes. `UnexpectedEof` when the peer is gone, `TimedOut` after the read timeout.
    pub fn fill(&mut self, min_total: usize) -> io::Result<()> {
        unimplemented!()
    }
    /// Takes in what has arrived, without waiting; the length of the input. `UnexpectedEof` when the peer is gone and all is consumed.
    pub fn poll_input(&mut self) -> io::Result<usize> {
        unimplemented!()
    }
    /// While on, arriving input (or the peer's end) wakes the fiber that serves this connection, wherever it is parked.
    pub fn wake_on_input(&mut self, on: bool) {}
    /// Where to write the answer.
    pub fn output(&mut self) -> &mut Vec<u8> {
        unimplemented!()
    }
    /// Hands the output to the kernel; parks only while more than about 1 MiB is unsent.
    pub fn flush(&mut self) -> io::Result<()> {
        unimplemented!()
    }
    /// Who is at the other end.
    pub fn peer(&self) -> Peer {
        unimplemented!()
    }
    /// A handle by which others can shut this connection down.
    pub fn handle(&self) -> ConnHandle {
        unimplemented!()
    }
    /// Closes the connection when it has been idle that long.
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) {}
    /// Bound for each `fill`.
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) {}
    /// Bound for each wait in `flush`.
    pub fn set_write_timeout(&mut self, timeout: Option<Duration>) {}
}
/// Shuts a connection down from anywhere.
#[derive(Clone)]
pub struct ConnHandle {}
impl ConnHandle {
    /// Ends the connection as if the peer had gone; nothing happens if it is closed already.
    pub fn shutdown(&self) {}
}
/// The client's side; belongs to the fiber that made it.
pub struct Stream {
    not_send: std::marker::PhantomData<*mut ()>,
}
/// Connects; parks the fiber.
pub fn connect(address: &Address) -> io::Result<Stream> {
    unimplemented!()
}
impl Stream {
    /// Reads what is there, at least one byte; 0 at the end.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        unimplemented!()
    }
    /// Fills `buf`.
    pub fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        unimplemented!()
    }
    /// Sends all of `bytes`.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        unimplemented!()
    }
    /// Waits until all has left.
    pub fn flush(&mut self) -> io::Result<()> {
        unimplemented!()
    }
    /// The same socket as the server's side sees one: buffers, timeouts, handle.
    pub fn connection(&mut self) -> &mut Connection {
        unimplemented!()
    }
    /// Closes.
    pub fn close(self) {}
}

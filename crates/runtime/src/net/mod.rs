//! Sockets: a service with sessions on the server's side, a stream on the client's.
//!
//! **Life of a connection.** Accepted by the acceptor, dealt in turn to a worker. There a fiber runs `Service::connected`; then the
//! connection is idle and holds no stack and no buffers. Input wakes it: it stands in the run queue like a fiber, is given a
//! pooled one, and `Session::data` runs until it returns. When the peer is gone, or `data` says so, or it was cut,
//! `Session::closed` runs once; what was flushed is sent; the socket is closed when the kernel has let go of it.
//!
//! **Invariants.** 1. While a fiber serves a connection, arriving bytes go to a buffer of their own, so a slice of `input()`
//! stays put across parks. 2. At most one send is under way; what is flushed meanwhile queues behind, and beyond 1 MiB
//! `flush` parks. 3. Receiving pauses at 1 MiB unread. 4. A connection's memory is freed only when no kernel operation refers to it.

mod conn;
mod connection;
mod layer;
mod server;
mod socket;
mod stream;

use std::net::SocketAddr;
use std::path::PathBuf;

pub(crate) use conn::{Conn, ConnId, Conns, cut, idle_timer_fired, serve_ready};
pub use connection::{ConnHandle, Connection};
pub use layer::{Decoded, Layer};
pub(crate) use server::{
    Accepted, ListenerCore, adopt, attach_fresh, deal, pause_listener, resume_listening, start_listening,
    stop_all, stop_listening,
};
pub use server::{Listener, Server, listen, serve};
pub(crate) use socket::{accept, is_exhaustion, peer as peer_of, shutdown};
pub use stream::{Stream, connect};

/// Where to listen or connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// Send what was written, then close.
    Close,
}

/// Makes sessions of connections.
pub trait Service: Send + Sync + 'static {
    /// The state of one connection.
    type Session: Session;
    /// A client has connected; runs on a fiber of the worker the connection belongs to. `None` closes it after sending what was
    /// written. Output is flushed on return.
    fn connected(&self, conn: &mut Connection) -> Option<Self::Session>;
}

/// One connection's state between and during commands.
pub trait Session: Send + 'static {
    /// The input has grown; runs on a pooled fiber and may park. Output is flushed on return.
    fn data(&mut self, conn: &mut Connection) -> After;
    /// The connection is gone, for whatever reason; runs once, on a fiber, after the last `data`.
    fn closed(&mut self);
}

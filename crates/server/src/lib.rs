//! The server: sessions over sockets, variables, SHOW, information_schema, status, and what starts and stops it all.
//!
//! `keel serve` parses its command line into [`Options`], starts a runtime and calls [`start()`]; it gets a [`Server`] to wait
//! on and to stop. Each connection is a [`session::ClientSession`]: its packets are commands, a statement goes to the
//! executor or, where it concerns the server itself (SET, SHOW, USE, KILL, ...), is run here, and the answer is written
//! straight into the connection's output.
//!
//! 1. Nothing is shared between sessions on a statement's way but the databases and what is per worker ([`keel_views::counters`]).
//! 2. What a session keeps while idle is small: no stack, no buffers beyond a few hundred octets.
//! 3. A client's mistakes end in an error packet or a closed connection, never in a panic or another session's wait.
#![forbid(unsafe_code)]

pub mod core;
pub mod folder;
pub mod host;
pub mod kill;
pub mod marks;
pub mod memory;
pub mod prepared;
pub mod privileges;
pub mod service;
pub mod session;
pub mod set;
pub mod show;
pub mod sink;
pub mod start;
pub mod state;
pub mod statement;
pub mod timeouts;
mod upload;
pub mod usage;

pub use keel_settings::{OptionError, Options};
pub use start::{Ended, Server, StartError, start, start_on_fiber};

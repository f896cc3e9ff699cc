//! The server: sessions over sockets, the statements that the server executes itself, start and stop.
//!
//! `keel serve` parses its command line into [`Options`], starts a runtime and calls [`start()`], which returns a [`Server`] to
//! wait for and to stop. Each connection has a `ClientSession`. Its packets are commands; a statement goes to the executor,
//! or is executed here if it concerns the server (SET, SHOW, USE, KILL and others). The result is written directly into the
//! output of the connection.
//!
//! 1. On the path of a statement, sessions share only the databases and the counters of their worker
//!    ([`keel_views::counters`]).
//! 2. An idle session is small: it has no stack, and buffers of a few hundred bytes.
//! 3. An error of a client ends in an error packet or a closed connection, never in a panic or in the wait of another session.
#![forbid(unsafe_code)]

mod core;
mod folder;
mod host;
mod hosts;
mod kill;
mod marks;
mod memory;
mod prepared;
mod privileges;
mod service;
mod session;
mod set;
mod show;
mod sink;
pub mod start;
mod state;
mod statement;
mod timeouts;
mod upload;
mod usage;

pub use keel_settings::{OptionError, Options};
pub use keel_views::VERSION;
pub use start::{Ended, Server, StartError, start, start_on_fiber};

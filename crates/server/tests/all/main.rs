//! Integration tests: the whole server, on real sockets and in a simulated world.

mod admission;
mod blocked_hosts;
mod common;
mod encrypted;
mod failing;
mod faulty;
mod histories;
mod literal_rows;
mod monitor;
mod sessions;
mod simulated;
mod statements;

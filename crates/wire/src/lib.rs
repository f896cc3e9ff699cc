//! MariaDB's client/server protocol as bytes: both sides of it, and no I/O of its own.
//!
//! A *packet* is a three-byte length, a one-byte sequence number and a payload; longer payloads continue in the next
//! packet ([`packet`]). A connection starts with the server's greeting and the client's answer ([`handshake`], [`auth`]),
//! then the client sends commands ([`command`]) and the server answers with OK, ERR or a result set ([`reply`], [`rows`],
//! [`params`]); where both sides wish so, all packets travel compressed ([`compress`]). [`client`] is the other side, for tests and tools, over any `Read + Write`.
//!
//! 1. Everything is appended to a `Vec<u8>` that the caller owns and sends; nothing is buffered here.
//! 2. Whatever a peer sends is read through [`codec::Reader`], which refuses what is cut short: malformed bytes give
//!    [`codec::Malformed`], never a panic and never an allocation larger than the packet itself.
//!
//! The formats follow MariaDB's documentation of its protocol and the bytes of a 10.11 server (goldens in `tests/`).
#![forbid(unsafe_code)]

pub mod auth;
pub mod bulk;
pub mod capability;
pub mod client;
pub mod codec;
pub mod command;
pub mod compress;
pub mod handshake;
pub mod packet;
pub mod params;
pub mod reply;
pub mod rows;

//! Integration tests: the protocol.

mod goldens;
mod malformed;

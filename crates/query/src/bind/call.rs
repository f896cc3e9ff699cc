//! Function calls.

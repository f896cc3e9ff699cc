//! from.

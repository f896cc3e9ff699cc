//! carry.

//! Keel: keel-wire.

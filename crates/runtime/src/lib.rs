//! Keel: keel-runtime.

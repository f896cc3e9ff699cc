//! Keel: keel-value.

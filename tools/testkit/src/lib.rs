//! Keel: keel-testkit.

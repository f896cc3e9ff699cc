//! Keel: keel-storage.

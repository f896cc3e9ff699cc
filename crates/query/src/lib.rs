//! Keel: keel-query.

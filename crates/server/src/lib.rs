//! Keel: keel-server.

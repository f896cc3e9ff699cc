//! Keel: keel-sql.

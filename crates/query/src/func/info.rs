//! info functions.

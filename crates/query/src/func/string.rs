//! string functions.

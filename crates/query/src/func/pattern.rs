//! pattern functions.

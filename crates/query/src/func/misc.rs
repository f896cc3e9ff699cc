//! misc functions.

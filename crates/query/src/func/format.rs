//! format functions.

//! numeric functions.

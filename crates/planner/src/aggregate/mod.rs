//! Aggregates from the tree of a statement, and which query each belongs to.

mod bind;
mod home;

pub use bind::{has_aggregate, is_aggregate, min_max_type};

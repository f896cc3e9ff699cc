//! The order of joins, and what of WHERE each of their steps asks.

pub(crate) mod disjunct;
pub mod order;
mod semi;

//! One SELECT.
pub(crate) struct Block;

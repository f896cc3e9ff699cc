//! From the tree of a statement to a plan: binder, access paths, order of joins.
//!
//! A [`Binder`](bind::Binder) gives names and types; [`select`] makes the plan of a query, which crate `exec` runs. Nothing
//! here reads rows, but for estimates and for constant conditions.
#![forbid(unsafe_code)]

pub mod access;
pub mod aggregate;
pub mod bind;
pub mod check;
pub mod join;
mod json_table;
pub mod select;
pub mod window;

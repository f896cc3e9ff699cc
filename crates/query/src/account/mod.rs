//! Which privileges statements need: [`keel_catalog::account`] has the data, [`keel_expr::rights`] what an account may do.
//!
//! Statements are asked for privileges in `check` alone: plans once for each version of the accounts, definitions by their tree.

pub mod check;

pub use keel_catalog::account::*;
pub use keel_expr::rights as see;

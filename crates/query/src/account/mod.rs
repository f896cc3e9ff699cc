//! Statements about accounts, and what they and all others may do: [`keel_catalog::account`] has the data.
//!
//! Statements are asked for privileges in `check` alone: plans once for each version of the accounts, definitions by their tree.

mod change;
pub(crate) mod check;
mod expand;
pub mod first;
mod grant;
mod role;
pub mod show;
mod statement;
mod user;

pub use crate::expr::rights as see;
pub use first::FirstAccounts;
pub use keel_catalog::account::*;

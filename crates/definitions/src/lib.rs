//! Definitions, statements about accounts, and maintenance: what changes the catalog.
//!
//! A [`Definer`] runs them over a [`Home`](keel_exec::Home). The statements that a definition runs itself, such as the
//! INSERT of CREATE TABLE ... SELECT, reach it as [`Statements`].
#![forbid(unsafe_code)]

pub mod account;
mod checksum;
pub mod ddl;
pub mod maintain;
mod programs;

pub use account::first::FirstAccounts;
pub use ddl::{Definer, Statements, check_parsed, check_types};

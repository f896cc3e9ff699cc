//! Statements about accounts: CREATE USER, GRANT, roles, passwords.

mod change;
mod expand;
pub mod first;
mod grant;
mod role;
pub mod show;
mod statement;
mod user;

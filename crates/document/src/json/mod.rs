//! JSON as MariaDB has it: text that is read anew wherever a function needs it.
//!
//! [`scan`] reads tokens and checks them, [`path`] reads paths, [`find`] follows them; [`change`], [`merge`], [`contain`],
//! [`mod@format`] and [`normal`] do what functions promise. No tree of values is ever made: results are put together from
//! pieces of the texts they come from, so that numbers, strings, duplicate keys and their order stay as they were written.
//!
//! 1. Text is octets of a character set that extends ASCII: escapes alone must know which.
//! 2. Recursion follows nesting, which [`scan::DEPTH_MAX`] bounds.
//! 3. What may take long or become long has a [`Bound`].
//! 4. What a function cannot read is no panic but a [`fault::Fault`], which becomes a warning and NULL.

pub mod bound;
pub mod change;
pub mod contain;
pub mod fault;
pub mod find;
pub mod format;
pub mod merge;
pub mod normal;
pub mod path;
pub mod scan;
#[cfg(test)]
mod tests;
pub mod text;

pub use bound::{Bound, Stop};
pub use fault::Fault;
pub use path::Path;
pub use scan::{Kind, Scanner, Value};

//! What statements need while they run, whatever they do: memory with a bound, sorting, temporary files, interrupts, locks of
//! names, variables, warnings, counts, and rows on their way to a client. The crate knows no catalog and no expression.
//!
//! [`admission`] shares memory between the operators of all statements and [`memory`] counts what each keeps; [`sort`] and
//! [`temp_file`] carry on in files where memory ends. [`mdl`] has the locks of tables, [`user_locks`] those of `GET_LOCK()`,
//! and [`waits`] finds rings among them. [`interrupt`] ends a statement from outside. [`vars`], [`user_variables`],
//! [`diagnostics`] and [`statement_counts`] are the plain data of a session; [`Place`] is the server as operators see it.

#![forbid(unsafe_code)]

pub mod admission;
pub mod counts;
pub mod diagnostics;
pub mod engine_error;
pub mod interrupt;
pub mod locale;
pub mod mdl;
pub mod memory;
pub mod place;
pub mod result;
pub mod sort;
pub mod stack;
pub mod statement_counts;
pub mod temp_file;
#[cfg(test)]
mod testing;
pub mod user_locks;
pub mod user_variables;
pub mod vars;
pub mod waits;

pub use diagnostics::Diagnostics;
pub use engine_error::engine_error;
pub use locale::Locale;
pub use place::Place;
pub use statement_counts::{HandlerCounts, PlanCounts};
pub use user_variables::{UserVariable, UserVariables};
pub use vars::{AlterAlgorithm, NoteVerbosity, SessionVars};

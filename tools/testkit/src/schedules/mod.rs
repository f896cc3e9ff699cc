//! Random schedules: which locks does each statement leave behind, on Keel and on MariaDB?
//!
//! A few sessions take random steps over a small table, and at times over a second one that refers to it. Nobody waits
//! (`innodb_lock_wait_timeout = 0`), so a schedule is as fast as its statements. After each step probes of another session,
//! each rolled back at once, ask of every key whether its row can be locked, exclusively and shared, and whether rows can
//! be inserted beside it, in every index. Answers and probes must be the same on both servers.
//!
//! Indexes are forced where a statement takes a hint, and hundreds of rows lie far away, so that both read alike.
//! Gaps that MariaDB widens when a row goes are told apart ([`run::Kind::Narrower`]).

mod generate;
pub mod run;

pub use generate::{Schedule, Step};

//! Integration tests: whole experiments.

mod common;
mod end_to_end;
mod failures;

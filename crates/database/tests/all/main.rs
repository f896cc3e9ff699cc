//! Integration tests: statements in a simulated world.

mod changes;
mod check;
mod collations;
mod common;
mod definitions;
mod expr;
mod inspect;
mod instant;
mod mutations;
mod online;
mod plans;
mod queries;
mod ranges;
mod reads;
mod restarts;
mod sessions;
mod spills;

//! Integration tests: both reactors and the simulated world.

mod common;
mod files;
mod net;
mod real;
mod simulation;

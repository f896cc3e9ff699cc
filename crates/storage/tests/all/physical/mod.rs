//! The physical store in the simulated world: trees against a model, crashes at every sync, failing disks.
//!
//! `KEEL_SEEDS` sets how many seeds the random tests try (default: few), KEEL_SEED one. A failing seed is printed.

mod crash;
mod crowd;
mod faults;
mod golden;
mod model;
mod real;
mod resize;
mod support;
mod trees;

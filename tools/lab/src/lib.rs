//! The lab: experiments with real servers and real clients, side by side, paired and repeatable.
//!
//! A scenario names arms (a server with its settings), cells (what else varies: clients, memory, a device) and a workload.
//! Its runs leave one [`record::Measurement`] each; reports are made of these alone, on any machine, at any time.

#![forbid(unsafe_code)]

pub mod found;
pub mod record;
pub mod report;
pub mod stats;

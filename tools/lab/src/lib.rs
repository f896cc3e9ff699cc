//! The lab: experiments with real servers and real clients, side by side, paired and repeatable.
//!
//! A scenario ([`plan::Scenario`]) names arms (a server with its settings), cells (what else varies: clients, memory, a device) and a
//! workload. The [`runner`] takes each arm through copied [`data`], a [`server`], a warm-up and a measured run of [`clients`], and looks at what it
//! costs ([`cost`]). Runs leave one [`record::Measurement`] each in a [`journal`]; reports are made of these alone, on any machine, at any time.

#![forbid(unsafe_code)]

pub mod cli;
pub mod clients;
pub mod cost;
pub mod data;
pub mod disk;
pub mod engines;
pub mod found;
pub mod journal;
pub mod limits;
pub mod machine;
pub mod parse;
pub mod plan;
pub mod progress;
pub mod record;
pub mod report;
pub mod runner;
pub mod scenarios;
pub mod search;
pub mod server;
pub mod stats;
pub mod storm;

//! What fuzzers run: each target takes any bytes, and panics where Keel breaks a promise.
//!
//! The same functions serve three callers: `tests/corpora.rs` beside this folder, in CI, over the committed corpora and some
//! thousand damaged samples; `cargo x fuzz`, which lets libFuzzer search by coverage for as long as it is given; and whoever
//! wants to look at one input again. A finding becomes a file in `fuzz/corpus`, so that CI runs it from then on.
#![forbid(unsafe_code)]

mod binlog;
mod input;
mod server;
mod sql;
mod storage;
mod wire;

pub use input::{Random, mutate};
pub use sql::check as check_sql;

/// A subject under search.
pub struct Target {
    /// Its name, and that of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Tries one input; panics where a promise is broken.
    pub run: fn(&[u8]),
    /// Sound inputs to begin from.
    pub samples: fn() -> Vec<Vec<u8>>,
    /// Damaged samples that CI tries.
    pub rounds: u64,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "sql", run: sql::run, samples: sql::samples, rounds: 20_000 },
    Target { name: "wire", run: wire::run, samples: wire::samples, rounds: 20_000 },
    Target { name: "binlog", run: binlog::run, samples: binlog::samples, rounds: 50_000 },
    Target { name: "page", run: storage::page, samples: storage::page_samples, rounds: 5_000 },
    Target { name: "redo", run: storage::redo, samples: storage::redo_samples, rounds: 5_000 },
    Target { name: "tree", run: storage::tree, samples: storage::tree_samples, rounds: 40 },
    Target { name: "server", run: server::run, samples: server::samples, rounds: 150 },
];

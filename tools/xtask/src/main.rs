//! Checks and chores of the repository: `cargo x tidy`, `cargo x bench`, `cargo x engine`, `cargo x fuzz`, `cargo x mtr`,
//! `cargo x queries`, `cargo x schedules`, `cargo x clients`, `cargo x collations`.

mod bench;
mod circles;
mod clients;
mod collations;
mod engine;
mod fairness;
mod fuzz;
mod mtr;
mod queries;
mod schedules;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo x tidy
       cargo x bench [--quick] [--seconds N] [--pairs N] [--clients A,B,C] [--tests A,B] [--tables N] [--rows N] [--only fairness]
       cargo x engine [--quick] [--only NAME] [--alone]
       cargo x fuzz [--targets A,B] [--seconds N] [--keep]
       cargo x mtr [--only NAME,NAME*,...] [--score]
       cargo x queries [--seed N] [--minutes M] [--only compare|partitions]
       cargo x schedules [--seed N] [--minutes M]
       cargo x clients [--only NAME,NAME,...]
       cargo x collations [code_page]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.split_first() {
        Some((command, rest)) if command == "tidy" && rest.is_empty() => tidy::run(),
        Some((command, rest)) if command == "bench" => bench::run(rest),
        Some((command, rest)) if command == "engine" => engine::run(rest),
        Some((command, rest)) if command == "fuzz" => fuzz::run(rest),
        Some((command, rest)) if command == "collations" && matches!(rest, [] | [_]) => {
            collations::run(rest.first().map(String::as_str))
        }
        Some((command, rest)) if command == "mtr" => mtr::run(rest),
        Some((command, rest)) if command == "queries" => queries::run(rest),
        Some((command, rest)) if command == "schedules" => schedules::run(rest),
        Some((command, rest)) if command == "clients" => clients::run(rest),
        _ => Err(USAGE.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// The repository that this command was built in.
fn repository() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("xtask lies in tools/xtask").to_path_buf()
}

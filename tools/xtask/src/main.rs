//! Checks and chores of the repository. `cargo x` lists the commands.

mod bench;
mod check;
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

/// Commands with their arguments, and what each does.
const COMMANDS: &[(&str, &str)] = &[
    (
        "check [--all]",
        "format, clippy, tidy and tests of the crates that differ from main; --all adds tests/sql",
    ),
    ("tidy", "the rules that no compiler checks: imports of crates, lengths of files, paths in docs"),
    (
        "bench [--quick] [--seconds N] [--pairs N] [--clients A,B] [--tests A,B] [--tables N] [--rows N] [--only fairness]",
        "sysbench on Keel and on MariaDB, and how evenly clients are served",
    ),
    ("engine [--quick] [--only NAME] [--alone]", "figures of the storage engine without SQL"),
    ("fuzz [--targets A,B] [--seconds N] [--keep] [--record]", "libFuzzer on the subjects of tools/fuzz"),
    ("mtr [--only NAME,NAME*] [--score]", "scripts of MariaDB's own test suite on both servers"),
    (
        "queries [--seed N] [--minutes M] [--only compare|partitions|changes]",
        "random queries, compared with MariaDB",
    ),
    (
        "schedules [--seed N] [--minutes M]",
        "random schedules of sessions, whose locks are compared with MariaDB's",
    ),
    (
        "clients [--only NAME,NAME]",
        "programs of other languages with their drivers on both servers; needs registries",
    ),
    ("collations [code_page]", "writes the generated tables of collations and character sets"),
    ("help", "this list"),
];

fn usage() -> String {
    COMMANDS.iter().map(|(words, what)| format!("cargo x {words}\n    {what}\n")).collect()
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.split_first() {
        Some((command, rest)) if command == "check" => check::run(rest),
        Some((command, [])) if command == "help" => {
            print!("{}", usage());
            Ok(())
        }
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
        _ => Err(usage()),
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

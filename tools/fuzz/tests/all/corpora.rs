//! Every committed input, and damaged samples, through every target.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use keel_fuzz::{Random, TARGETS, Target, mutate};

fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).expect("a target")
}

fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target.name);
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("listed").path()).collect();
    files.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("readable");
        (path, bytes)
    };
    files.into_iter().map(read).collect()
}

fn holds(target: &Target, bytes: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_ok()
}

fn search(name: &str) {
    let target = target(name);
    for (path, bytes) in corpus(target) {
        assert!(holds(target, &bytes), "{}", path.display());
    }
    let samples = (target.samples)();
    for (index, sample) in samples.iter().enumerate() {
        assert!(holds(target, sample), "sample {index} of {name}: {}", sample.escape_ascii());
    }
    let seed = std::env::var("KEEL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(1..=target.rounds, |seed| seed..=seed);
    for seed in seeds {
        let bytes = mutate(&mut Random::new(seed), &samples);
        assert!(holds(target, &bytes), "KEEL_SEED={seed} of {name}: {}", bytes.escape_ascii());
    }
}

#[test]
fn statements_parse_or_are_refused() {
    search("sql");
}

#[test]
fn packets_are_read_or_refused() {
    search("wire");
}

#[test]
fn logs_are_read_or_refused() {
    search("binlog");
}

#[test]
fn pages_agree_with_a_map_and_unsound_ones_are_found() {
    search("page");
}

#[test]
fn redo_is_applied_or_refused() {
    search("redo");
}

#[test]
fn trees_agree_with_a_map_across_crashes() {
    search("tree");
}

#[test]
fn servers_answer_any_statement_and_keep_their_tables() {
    search("server");
}

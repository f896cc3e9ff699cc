//! The runner of mysqltest's language, on scripts of our own; those of MariaDB are run by `cargo x mtr`.

use keel_testkit::mtr::pair::Pair;
use keel_testkit::mtr::run::{ScriptScore, run_script};
use keel_testkit::process::scratch_dir;
use std::path::Path;

fn run(name: &str) -> ScriptScore {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mtr");
    let scratch = scratch_dir("mtr-script");
    let mut pair = Pair::start().expect("both servers start");
    let score = run_script(&mut pair, &root, &root.join(name), &scratch).expect("the servers work");
    std::fs::remove_dir_all(&scratch).ok();
    score
}

#[test]
fn a_script_runs_on_both_servers_and_agrees() {
    let score = run("language.test");
    let told: Vec<_> = score.disagreements.iter().map(|found| format!("{found:#?}")).collect();
    assert_eq!(score.ended, None);
    assert_eq!((score.statements, score.agreed), (23, 23), "{}", told.join("\n"));
    assert_eq!((score.unsupported, score.unanswered), (2, 0));
    assert!(score.crashes.is_empty());
}

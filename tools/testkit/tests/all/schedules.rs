//! Random schedules of some seeds leave the same locks behind on Keel as on MariaDB. `cargo x schedules` goes on.

use keel_testkit::schedules::run::{Finding, Runner};

const SEEDS: std::ops::Range<u64> = 770_011..770_023;

#[test]
fn random_schedules_lock_what_they_lock_on_mariadb() {
    let mut runner = Runner::start().expect("both servers start");
    let mut findings: Vec<Finding> = Vec::new();
    for seed in SEEDS {
        findings.extend(runner.schedule(seed).expect("both answer"));
    }
    let texts: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "{}", texts.join("\n"));
    assert!(runner.steps > 60, "{} steps", runner.steps);
}

//! Every interleaving in `tests/isolation` has the same transcript on Keel as on MariaDB 10.11.

use keel_testkit::interleave::{parse, run};
use keel_testkit::process::{Engine, Server};
use std::fs;
use std::path::Path;

#[test]
fn sessions_block_and_fail_as_in_mariadb() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/isolation");
    let only = std::env::var("KEEL_SCRIPT").ok();
    let options = ["--innodb-lock-wait-timeout=5"];
    let keel = Server::start(Engine::Keel, &options).expect("keel starts");
    let maria = Server::start(Engine::MariaDb, &options).expect("mariadb starts");
    let mut specs: Vec<_> =
        fs::read_dir(folder).expect("tests/isolation").map(|entry| entry.expect("entry").path()).collect();
    specs.sort();
    let (mut total, mut different) = (0, Vec::new());
    for path in specs.iter().filter(|path| path.extension().is_some_and(|extension| extension == "spec")) {
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let spec = parse(&fs::read_to_string(path).expect("readable"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let theirs = run(&spec, &name, &maria).unwrap_or_else(|error| panic!("{name} on mariadb: {error}"));
        let ours =
            run(&spec, &name, &keel).unwrap_or_else(|error| format!("failed: {error}\n{}", keel.log_tail()));
        total += spec.runs.len();
        if ours != theirs {
            different.push(format!("{name}\n--- keel\n{ours}--- mariadb\n{theirs}"));
        }
    }
    assert!(total > 0, "no interleaving was run");
    assert!(
        different.is_empty(),
        "{} of {total} interleavings differ:\n{}",
        different.len(),
        different.join("\n")
    );
}

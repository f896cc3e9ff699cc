//! Every script in `tests/sql` answers on Keel as on MariaDB 10.11: rows, metadata, warnings, errors.
//!
//! A program of its own: it is the one that is run by name most often, `KEEL_SCRIPT=name` runs one script.

use keel_testkit::differential::{compare, parse};
use keel_testkit::process::{Engine, Server};
use std::fs;
use std::path::Path;

#[test]
fn keel_answers_as_mariadb_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let only = std::env::var("KEEL_SCRIPT").ok();
    let keel = Server::start(Engine::Keel, &[]).expect("keel starts");
    let options = ["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"];
    let maria = Server::start(Engine::MariaDb, &options).expect("mariadb starts");
    maria.load_zones().expect("mariadb takes time zones");
    let mut scripts: Vec<_> =
        fs::read_dir(folder).expect("tests/sql").map(|entry| entry.expect("entry").path()).collect();
    scripts.sort();
    let (mut total, mut different) = (0, Vec::new());
    for path in scripts.iter().filter(|path| path.extension().is_some_and(|extension| extension == "test")) {
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let steps = parse(&fs::read_to_string(path).expect("readable"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut ours = keel.client().expect("keel accepts");
        let mut theirs = maria.client().expect("mariadb accepts");
        ours.run("SET NAMES utf8mb4").expect("names");
        theirs.run("SET NAMES utf8mb4").expect("names");
        let result = compare(&name, &steps, &mut ours, &mut theirs);
        let (count, differences) =
            result.unwrap_or_else(|error| panic!("{name}: {error}\n{}", keel.log_tail()));
        total += count;
        different.extend(differences);
    }
    assert!(total > 0, "no statement was compared");
    assert!(
        different.is_empty(),
        "{} of {total} statements differ:\n{}",
        different.len(),
        different.join("\n")
    );
}

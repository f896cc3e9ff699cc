//! Every interleaving in `tests/isolation` has the same transcript on Keel as on MariaDB 10.11, and blocks where its stars
//! say so. `KEEL_SCRIPT=name` runs one spec, or those whose names begin with `name` if it ends with `*`; `KEEL_BLESS=1`
//! sets the stars as MariaDB blocks.
//!
//! A program of its own: time decides whether a statement counts as blocked, so no other suite may load the machine beside it.

use keel_testkit::interleave::{BLOCKED_AFTER, Outcome, Spec, parse, run, with_stars};
use keel_testkit::process::{Engine, Server};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Specs that run at the same time: they wait more than they compute.
const AT_ONCE: usize = 8;
/// A spec that differs runs again, alone and with this much more patience: the machine may have been busy.
const SECOND_PATIENCE: Duration = Duration::from_millis(500);

struct Pair {
    keel: Server,
    maria: Server,
}

impl Pair {
    fn start(options: &[String]) -> Pair {
        let mut all = vec!["--innodb-lock-wait-timeout=5"];
        all.extend(options.iter().map(String::as_str));
        Pair {
            keel: Server::start(Engine::Keel, &all).expect("keel starts"),
            maria: Server::start(Engine::MariaDb, &all).expect("mariadb starts"),
        }
    }

    /// What a spec comes to on both.
    fn run(&self, spec: &Spec, name: &str, patience: Duration) -> (Outcome, Outcome) {
        std::thread::scope(|scope| {
            let theirs = scope.spawn(|| run(spec, name, &self.maria, patience));
            let ours = run(spec, name, &self.keel, patience).unwrap_or_else(|error| Outcome {
                transcript: format!("failed: {error}\n{}", self.keel.log_tail()),
                blocked: Vec::new(),
            });
            let theirs = theirs.join().expect("no panic");
            (ours, theirs.unwrap_or_else(|error| panic!("{name} on mariadb: {error}")))
        })
    }
}

struct Case {
    name: String,
    path: PathBuf,
    text: String,
    spec: Spec,
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/isolation");
    let only = std::env::var("KEEL_SCRIPT").ok();
    let wanted = |name: &str| match only.as_deref() {
        None => true,
        Some(only) => only.strip_suffix('*').map_or(only == name, |start| name.starts_with(start)),
    };
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).expect("tests/isolation") {
        let path = entry.expect("entry").path();
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        if path.extension().is_none_or(|extension| extension != "spec") || !wanted(&name) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("readable");
        let spec = parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        cases.push(Case { name, path, text, spec });
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

/// Why a spec fails, if it does.
fn complaint(case: &Case, pair: &Pair, patience: Duration) -> Option<String> {
    let (ours, theirs) = pair.run(&case.spec, &case.name, patience);
    if std::env::var_os("KEEL_BLESS").is_some() {
        fs::write(&case.path, with_stars(&case.text, &theirs.blocked)).expect("writable");
    } else {
        let steps = case.spec.runs.iter().filter(|run| !run.permuted).flat_map(|run| &run.steps);
        let starred: Vec<usize> = steps.filter(|step| step.blocks).map(|step| step.line).collect();
        if starred != theirs.blocked {
            return Some(format!(
                "{}: stars at {starred:?}, mariadb blocks at {:?}",
                case.name, theirs.blocked
            ));
        }
    }
    let (ours, theirs) = (ours.transcript, theirs.transcript);
    (ours != theirs).then(|| format!("{}\n--- keel\n{ours}--- mariadb\n{theirs}", case.name))
}

#[test]
fn sessions_block_and_fail_as_in_mariadb() {
    let cases = cases();
    let pair = Pair::start(&[]);
    let (plain, own): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.spec.options.is_empty());
    let next = AtomicUsize::new(0);
    let again = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = plain.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(complaint) = complaint(case, &pair, BLOCKED_AFTER) {
                        again.lock().expect("no panic").push((*case, complaint));
                    }
                }
            });
        }
    });
    let mut again = again.into_inner().expect("no panic");
    again.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    let mut different = Vec::new();
    for (case, first) in again {
        match complaint(case, &pair, SECOND_PATIENCE) {
            Some(again) => different.push(again),
            None => println!("agrees alone, but not before:\n{first}"),
        }
    }
    for case in own {
        different.extend(complaint(case, &Pair::start(&case.spec.options), SECOND_PATIENCE));
    }
    assert!(cases.iter().any(|case| !case.spec.runs.is_empty()), "no interleaving was run");
    assert!(
        different.is_empty(),
        "{} of {} specs differ:\n{}",
        different.len(),
        cases.len(),
        different.join("\n")
    );
}

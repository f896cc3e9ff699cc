//! What tests of whole runs have in common: tiny plans, Keel as an engine, processes found by their words.

use std::fs;
use std::path::{Path, PathBuf};

use keel_lab::clients::{Bench, Workload};
use keel_lab::data::DataSet;
use keel_lab::engines::{Engine, Kind};
use keel_lab::plan::{Arm, Cell, Choice, Plan, Scenario, Work};
use keel_lab::record::Measurement;
use keel_lab::runner::{Folders, Runner};
use keel_testkit::process::{keel_binary, scratch_dir};

const SCENARIO: Scenario =
    Scenario { name: "tiny", report: "none", what: "nothing", found: "nothing", plan: nothing };

fn nothing(_: &Choice) -> Plan {
    Plan::default()
}

/// Keel as it was built.
pub fn keel() -> Engine {
    Engine {
        kind: Kind::Keel,
        name: "keel".into(),
        program: keel_binary(),
        version: "as built".into(),
        commit: None,
        remote: None,
    }
}

/// A cell whose workload changes the data.
pub fn cell(name: &str, work: Work, data: DataSet, arms: Vec<Arm>) -> Cell {
    Cell { name: name.into(), x: Some(1.0), data, work, writes: true, arms }
}

/// A plan of one pair of two seconds without a warm-up.
pub fn plan(cells: Vec<Cell>) -> Plan {
    Plan { cells, seconds: 2, warm_up_max: 0, pairs: 1, ..Plan::default() }
}

/// Runs a plan in `root` and gives what the journal has then.
pub fn run(root: &Path, plan: &Plan) -> Result<Vec<Measurement>, String> {
    let folders = Folders { out: root.join("out"), cache: root.join("data"), work: root.join("servers") };
    let bench = Bench::new(&root.join("scripts"), None)?;
    Runner::new(&SCENARIO, plan, true, plan.pairs, &folders, &bench, 7)?.run()?;
    assert!(!folders.work.exists(), "the servers' folders are gone");
    let text = fs::read_to_string(folders.out.join("results.jsonl")).map_err(|error| error.to_string())?;
    Ok(text.lines().map(|line| serde_json::from_str(line).expect("a measurement a line")).collect())
}

/// A folder of the test's own.
pub fn scratch(label: &str) -> PathBuf {
    scratch_dir(&format!("lab-{label}"))
}

/// A workload of `our_oltp` on two small tables.
pub fn rows(clients: u32) -> Work {
    Work::Sysbench(Workload::new("our_oltp.lua", &["--tables=2", "--table_size=1000"], clients))
}

/// What [`rows`] runs on.
pub fn small() -> DataSet {
    DataSet::tables(2, 1000)
}

/// A process by the words of its command.
pub fn process(is_it: impl Fn(&[String]) -> bool) -> Option<u32> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let words: Vec<String> = line.split('\0').map(str::to_string).collect();
        entry.file_name().to_str().filter(|_| is_it(&words))?.parse().ok()
    })
}

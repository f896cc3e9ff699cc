//! Whole runs of tiny scenarios with Keel alone: what is measured is in the journal, what goes wrong is said and the others go on.

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

fn keel() -> Engine {
    Engine {
        kind: Kind::Keel,
        name: "keel".into(),
        program: keel_binary(),
        version: "as built".into(),
        commit: None,
        remote: None,
    }
}

fn cell(name: &str, work: Work, data: DataSet, arms: Vec<Arm>) -> Cell {
    Cell { name: name.into(), x: Some(1.0), data, work, writes: true, arms }
}

fn plan(cells: Vec<Cell>) -> Plan {
    Plan { cells, seconds: 2, warm_up_max: 0, pairs: 1, ..Plan::default() }
}

/// Runs a plan in `root` and gives what the journal has then.
fn run(root: &Path, plan: &Plan) -> Result<Vec<Measurement>, String> {
    let folders = Folders { out: root.join("out"), cache: root.join("data"), work: root.join("servers") };
    let bench = Bench::new(&root.join("scripts"), None)?;
    Runner::new(&SCENARIO, plan, true, plan.pairs, &folders, &bench, 7)?.run()?;
    assert!(!folders.work.exists(), "the servers' folders are gone");
    let text = fs::read_to_string(folders.out.join("results.jsonl")).map_err(|error| error.to_string())?;
    Ok(text.lines().map(|line| serde_json::from_str(line).expect("a measurement a line")).collect())
}

fn scratch(label: &str) -> PathBuf {
    scratch_dir(&format!("lab-{label}"))
}

#[test]
fn a_tiny_scenario_from_end_to_end() {
    let root = scratch("tiny");
    let rows = Workload::new("our_oltp.lua", &["--tables=2", "--table_size=1000"], 4);
    let arms = vec![
        Arm::new("keel", &keel()),
        Arm::new("keel small", &keel()).set(["innodb_buffer_pool_size=16M"]),
        Arm::new("keel wrong", &keel()).set(["no_such_setting=1"]),
    ];
    let plan = plan(vec![cell("", Work::Sysbench(rows), DataSet::tables(2, 1000), arms)]);
    let all = run(&root, &plan).expect("runs");
    let arms: Vec<&str> = all.iter().map(|m| m.arm.as_str()).collect();
    assert_eq!(arms, ["keel", "keel small", "keel wrong"]);
    assert!(
        all[2].trouble.as_ref().is_some_and(|why| why.contains("no-such-setting")),
        "{:?}",
        all[2].trouble
    );
    for m in &all[..2] {
        assert_eq!(m.trouble, None, "{}", m.arm);
        let (result, cost) = (&m.result, &m.cost);
        assert!(result.tps > 0.0 && (result.qps / result.tps - 5.0).abs() < 0.1, "{result:?}");
        assert!(
            result.p50_ms > 0.0 && result.p50_ms <= result.p99_ms && result.p99_ms <= result.max_ms * 1.05
        );
        assert!((1..=3).contains(&result.series.len()), "{:?}", result.series);
        assert_eq!(result.latencies.last().map(|(_, share)| *share), Some(1.0));
        assert!(cost.cpu_us_per_query.is_some_and(|cpu| cpu > 0.0), "{cost:?}");
        assert!(cost.syncs_per_transaction.is_some_and(|syncs| syncs > 0.0), "{cost:?}");
        assert!(cost.bytes_written_per_transaction.is_some_and(|bytes| bytes > 0.0), "{cost:?}");
        assert!(cost.switches_per_transaction.is_some() && cost.threads.is_some(), "{cost:?}");
        assert!(m.server.variables.len() > 600 && m.machine.cores > 0 && m.seed == 8);
    }
    assert_eq!(all[1].server.variables["innodb_buffer_pool_size"], "16777216");
    // A second run makes only what is missing.
    let again = run(&root, &plan).expect("runs");
    assert_eq!(again[..2], all[..2]);
    assert_eq!((again.len(), again[2].arm.as_str()), (3, "keel wrong"));
    fs::remove_dir_all(&root).expect("is ours");
}

#[test]
fn every_workload_runs() {
    let root = scratch("workloads");
    let arms = || vec![Arm::new("keel", &keel())];
    let mut cells = Vec::new();
    for script in ["our_oltp.lua", "oltp_new.lua", "select.lua", "update_non_index.lua", "oltp_point_select"]
    {
        let rows = Workload::new(script, &["--tables=2", "--table_size=1000"], 8);
        cells.push(cell(script, Work::Sysbench(rows), DataSet::tables(2, 1000), arms()));
    }
    let warehouses = ["--warehouses=1", "--items=1000", "--customers=60"];
    let tpcc = Workload::new("tpcc.lua", &warehouses, 4);
    let data = DataSet { name: "tpcc-tiny".into(), load: Some(tpcc.clone()), bytes: 1 << 20 };
    cells.push(cell("tpcc", Work::Sysbench(tpcc), data, arms()));
    cells.push(cell("storm", Work::Storm { clients: 50 }, DataSet::tables(4, 25_000), arms()));
    let all = run(&root, &plan(cells)).expect("runs");
    for m in &all {
        assert_eq!((m.trouble.as_deref(), m.result.tps > 0.0), (None, true), "{}", m.cell);
    }
    assert!(all[5].result.new_orders_per_minute.is_some_and(|rate| rate > 0.0), "{:?}", all[5].result);
    assert_eq!(all[6].result.more["connections"], 50.0);
    fs::remove_dir_all(&root).expect("is ours");
}

#[test]
fn a_server_that_is_killed_in_a_run_is_said_and_leaves_nobody() {
    let root = scratch("killed");
    let rows = Workload::new("select.lua", &["--tables=1", "--table_size=1000"], 4);
    let arms = vec![Arm::new("keel", &keel()), Arm::new("keel again", &keel())];
    let mut plan = plan(vec![cell("", Work::Sysbench(rows), DataSet::tables(1, 1000), arms)]);
    plan.seconds = 4;
    let data = format!("--datadir={}", root.join("servers/keel-rows-1x1000/data").display());
    let script = root.join("scripts/select.lua").display().to_string();
    let killer = std::thread::spawn(move || {
        // Clients that measure have a checkpoint; there are such for some seconds.
        for _ in 0..6000 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let is_client =
                |words: &[String]| words.contains(&script) && words.contains(&CHECKPOINT.to_string());
            if process(is_client).is_none() {
                continue;
            }
            if let Some(server) = process(|words| words.contains(&data)) {
                keel_testkit::process::kill_process(server);
            }
            return;
        }
    });
    let all = run(&root, &plan).expect("the others go on");
    killer.join().expect("ends");
    let trouble = all[0].trouble.as_deref().unwrap_or_default();
    assert!(trouble.contains("the server ended in the run") || trouble.contains("FATAL"), "{trouble}");
    assert_eq!((all[1].trouble.as_deref(), all[1].result.tps > 0.0), (None, true));
    fs::remove_dir_all(&root).expect("is ours");
}

/// An option of the clients of the test above.
const CHECKPOINT: &str = "--report-checkpoints=1";

/// A process by the words of its command.
fn process(is_it: impl Fn(&[String]) -> bool) -> Option<u32> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let words: Vec<String> = line.split('\0').map(str::to_string).collect();
        entry.file_name().to_str().filter(|_| is_it(&words))?.parse().ok()
    })
}

//! Whole runs of tiny scenarios with Keel alone: what is measured is in the journal, what goes wrong is said and the others go on.

use std::fs;

use crate::common::{cell, keel, plan, process, rows, run, scratch, small};
use keel_lab::clients::Workload;
use keel_lab::data::DataSet;
use keel_lab::plan::{Arm, Work};
use keel_lab::progress::Lengths;
use keel_lab::runner::OFFERED;
use keel_lab::search::{Candidate, Knob, Search};

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

/// A server that stands still for a second is not asked meanwhile by clients that wait for it: a few of thousands of answers are slow. Where
/// transactions are due at a rate, all that fell due in that second are.
#[test]
fn time_counts_from_when_a_transaction_was_due() {
    let root = scratch("open");
    let Work::Sysbench(workload) = rows(4) else { panic!("rows are sysbench's") };
    let open = Work::Open { workload, percent: 25, of: "closed" };
    let arms = || vec![Arm::new("keel", &keel())];
    let cells = vec![cell("closed", rows(4), small(), arms()), cell("due", open, small(), arms())];
    let mut plan = plan(cells);
    plan.seconds = 5;
    let data = format!("--datadir={}", root.join("servers/keel-rows-2x1000/data").display());
    let script = root.join("scripts/our_oltp.lua").display().to_string();
    let stopper = std::thread::spawn(move || {
        for is_open in [false, true] {
            let is_client = |words: &[String]| {
                let rate = words.iter().any(|word| word.starts_with("--rate="));
                words.contains(&script) && words.contains(&CHECKPOINT.to_string()) && rate == is_open
            };
            while process(is_client).is_none() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            std::thread::sleep(std::time::Duration::from_millis(3000));
            let server = process(|words| words.contains(&data)).expect("a server").to_string();
            let signal = |name: &str| {
                assert!(
                    std::process::Command::new("kill")
                        .args([name, &server])
                        .status()
                        .expect("kill")
                        .success()
                );
            };
            signal("-STOP");
            std::thread::sleep(std::time::Duration::from_millis(1000));
            signal("-CONT");
        }
    });
    let all = run(&root, &plan).expect("runs");
    stopper.join().expect("ends");
    let (closed, open) = (&all[0].result, &all[1].result);
    assert_eq!((all[0].trouble.as_deref(), all[1].trouble.as_deref()), (None, None));
    assert!(closed.max_ms > 900.0 && closed.p95_ms < 100.0, "{} {}", closed.max_ms, closed.p95_ms);
    // A fifth of all fell due while it stood still; of these nine in ten waited longer than a tenth of a second.
    assert!(open.max_ms > 900.0 && open.p95_ms > 200.0, "{} {}", open.max_ms, open.p95_ms);
    let offered = open.more[OFFERED];
    assert!((offered / closed.tps - 0.25).abs() < 0.01, "{offered} of {}", closed.tps);
    // All that is offered, unless the machine has become slow.
    assert!((0.5..1.15).contains(&(open.tps / offered)), "{} of {offered}", open.tps);
    assert!(all[1].workload.contains(&format!("--rate={offered}")), "{}", all[1].workload);
    fs::remove_dir_all(&root).expect("is ours");
}

/// What a search finds is run beside its rival; another start takes both from the journals.
#[test]
fn a_search_finds_settings_and_they_are_measured_anew() {
    let root = scratch("search");
    let given = |name: &str, lines: &[&str]| Candidate {
        name: name.into(),
        lines: lines.iter().map(|line| line.to_string()).collect(),
    };
    let mut best = Arm::new("keel best", &keel());
    best.search = Some(Search {
        given: vec![
            given("wrong", &["no_such_setting=1"]),
            given("lazy", &["innodb_flush_log_at_trx_commit=0"]),
        ],
        knobs: vec![Knob::new("thread_pool_size", &["1", "2"])],
        trials: 3,
        finalists: 1,
        lengths: Lengths { seconds: 1, warm_up_max: 0 },
    });
    let mut hopeless = Arm::new("keel hopeless", &keel());
    hopeless.search = Some(Search {
        given: vec![given("wrong", &["no_such_setting=1"])],
        knobs: vec![Knob::new("no_such_setting", &["1"])],
        trials: 1,
        finalists: 0,
        lengths: Lengths { seconds: 1, warm_up_max: 0 },
    });
    let mut plan = plan(vec![cell("c", rows(4), small(), vec![Arm::new("keel", &keel()), best, hopeless])]);
    plan.pairs = 2;
    let all = run(&root, &plan).expect("runs");
    let arms: Vec<(u32, &str)> = all.iter().map(|m| (m.pair, m.arm.as_str())).collect();
    let both = [
        (1, "keel"),
        (1, "keel best"),
        (1, "keel hopeless"),
        (2, "keel hopeless"),
        (2, "keel best"),
        (2, "keel"),
    ];
    assert_eq!(arms, both);
    let trials = || fs::read_to_string(root.join("out/trials.jsonl")).expect("a journal").lines().count();
    // Three of one, the better one again; one of the other.
    assert_eq!(trials(), 5);
    for m in all.iter().filter(|m| m.arm == "keel best") {
        assert_eq!(m.trouble, None);
        assert_ne!(m.server.settings, ["no_such_setting=1"]);
        assert_eq!((m.result.more["search_trials"], m.result.more["search_failed"]), (3.0, 1.0));
    }
    let why = all[2].trouble.as_deref().unwrap_or_default();
    assert!(why.contains("none of 1 searched settings ran") && why.contains("no-such-setting"), "{why}");
    // What was found stays found.
    plan.pairs = 3;
    let again = run(&root, &plan).expect("runs");
    let settings = |pair: u32| {
        let of = |m: &&keel_lab::record::Measurement| (m.pair, m.arm.as_str()) == (pair, "keel best");
        again.iter().find(of).expect("a run").server.settings.clone()
    };
    assert_eq!(settings(1), settings(3));
    fs::remove_dir_all(&root).expect("is ours");
}

/// Of the settings that zero-tuning searches, Keel says of each that it acts.
#[test]
fn what_is_searched_for_keel_acts_there() {
    let engines = vec![keel()];
    let choice = keel_lab::plan::Choice { engines, quick: false };
    let scenario = keel_lab::scenarios::ALL.iter().find(|scenario| scenario.name == "zero-tuning");
    let plan = (scenario.expect("is there").plan)(&choice);
    let search = plan.cells[0].arms[1].search.clone().expect("a search");
    let values = |knob: &Knob| format!("{}={}", knob.name, knob.values[0]);
    let settings: Vec<String> = search.knobs.iter().map(values).collect();
    let root = scratch("acts");
    fs::create_dir_all(&root).expect("a folder");
    let setup = keel_lab::server::Setup { settings, ..Default::default() };
    let server = keel_lab::server::Server::start(&keel(), &root, &setup).expect("starts");
    let sql = "SELECT NAME FROM information_schema.KEEL_SETTINGS WHERE STATE <> 'acts' AND GIVEN IS NOT NULL";
    let rows = server.client().expect("connects").one(sql).expect("answers").strings();
    let known = |name: &str| search.knobs.iter().any(|knob| knob.name == name);
    let idle: Vec<&String> = rows.iter().map(|row| &row[0]).filter(|name| known(name)).collect();
    assert!(idle.is_empty(), "{idle:?}");
    drop(server);
    fs::remove_dir_all(&root).expect("is ours");
}

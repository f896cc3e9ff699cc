//! Results as a lab would leave them, made of seeds; for tests only.

use serde_json::{Value, json};

use crate::record::{FORMAT, Measurement};

/// Numbers that look random: SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Of mean 0 and deviation 1, by Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.unit(), self.unit());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

/// An arm to make up: its name, its engine, and its transactions per second in a cell.
pub(crate) struct Arm<'a> {
    pub(crate) name: &'a str,
    pub(crate) engine: &'a str,
    pub(crate) tps: &'a dyn Fn(usize) -> f64,
}

/// A scenario to make up.
pub(crate) struct Scenario<'a> {
    pub(crate) name: &'a str,
    pub(crate) quick: bool,
    pub(crate) cells: &'a [(&'a str, Option<f64>)],
    pub(crate) arms: &'a [Arm<'a>],
    pub(crate) pairs: u32,
    pub(crate) seconds: usize,
    pub(crate) noise: f64,
}

/// Runs of all arms in all cells, arms turning about in each pair.
pub(crate) fn runs(scenario: &Scenario, seed: u64) -> Vec<Measurement> {
    let mut random = Random::new(seed);
    let mut runs = Vec::new();
    for (cell, (name, x)) in scenario.cells.iter().enumerate() {
        for pair in 1..=scenario.pairs {
            // What the machine does to all of a pair.
            let weather = (scenario.noise * 2.0 * random.normal()).exp();
            let mut turn: Vec<&Arm> = scenario.arms.iter().collect();
            if pair % 2 == 0 {
                turn.reverse();
            }
            for arm in turn {
                let tps = (arm.tps)(cell) * weather * (scenario.noise * random.normal()).exp();
                let value = measurement(scenario, arm, (name, *x), pair, runs.len() + 1, tps, &mut random);
                runs.push(serde_json::from_value(value).expect("a measurement"));
            }
        }
    }
    runs
}

fn measurement(
    scenario: &Scenario,
    arm: &Arm,
    (cell, x): (&str, Option<f64>),
    pair: u32,
    order: usize,
    tps: f64,
    random: &mut Random,
) -> Value {
    let series: Vec<f64> = (0..scenario.seconds)
        .map(|second| {
            let furious = arm.engine == "mariadb" && second % 29 > 25;
            (tps * if furious { 0.4 } else { 1.0 } * (0.05 * random.normal()).exp()).round()
        })
        .collect();
    let mean = 64_000.0 / tps.max(1.0);
    let quantile = |rare: f64| mean * (0.25 + 0.75 * rare.powf(1.35));
    let latencies: Vec<(f64, f64)> = (0..90)
        .map(|step| f64::from(step) * 0.05)
        .map(|rare| (quantile(rare), 1.0 - 10f64.powf(-rare)))
        .collect();
    let latencies = if tps > 0.0 { latencies } else { Vec::new() };
    let tuned = arm.name.contains("tuned");
    json!({
        "format": FORMAT, "scenario": scenario.name, "quick": scenario.quick, "arm": arm.name, "cell": cell, "x": x,
        "pair": pair, "order": order, "started": format!("2026-11-23T08:{:02}:00Z", order % 60), "seed": 1000 + u64::from(pair),
        "workload": "sysbench tpcc.lua --tables=5 --scale=5 --time=60", "clients": 64,
        "server": {
            "engine": arm.engine,
            "version": if arm.engine == "keel" { "10.11.0-MariaDB-keel" } else { "10.11.19-MariaDB" },
            "commit": if arm.engine == "keel" { Some("9b72702a8d4e30fe3fe412b14442ba180b797c92") } else { None },
            "settings_hash": format!("{:016x}", arm.name.len() as u64 * 0x1234_5678_9abc),
            "settings": if tuned { vec!["innodb_buffer_pool_size=640M", "innodb_log_file_size=256M"] } else { vec![] },
            "variables": {
                "innodb_buffer_pool_size": if tuned { "671088640" } else { "67108864" },
                "innodb_log_file_size": if tuned { "268435456" } else { "50331648" },
                "query_cache_size": if tuned { "0" } else { "67108864" },
                "version_comment": if arm.engine == "keel" { "Keel" } else { "Debian 12" },
                "port": (4420 + order % 10).to_string(), "sql_mode": "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION",
            },
        },
        "machine": { "processor": "Example 2860QM", "cores": 2, "memory": 25_769_803_776u64, "kernel": "6.1.0", "file_system": "ext4" },
        "result": {
            "seconds": scenario.seconds, "tps": tps, "qps": tps * 28.76, "new_orders_per_minute": tps * 27.0,
            "p50_ms": quantile(0.3), "p95_ms": quantile(1.3), "p99_ms": quantile(2.0), "max_ms": quantile(4.5),
            "errors": pair, "series": series, "latencies": latencies, "more": {},
        },
        "cost": {
            "cpu_us_per_query": if arm.engine == "keel" { 9.0 } else { 31.0 } * (0.03 * random.normal()).exp(),
            "switches_per_transaction": if arm.engine == "keel" { 1.1 } else { 41.0 },
            "syncs_per_transaction": if arm.engine == "keel" { 0.05 } else { 0.4 },
            "bytes_written_per_transaction": 48_000.0 * (0.02 * random.normal()).exp(),
            "bytes_read_per_transaction": if tuned { 9_000.0 } else { 410_000.0 },
            "hit_rate": if tuned { 0.993 } else { 0.871 },
            "threads": 70, "resident_bytes": 900_000_000u64,
        },
        "trouble": null,
    })
}

/// A file's text: a line for each.
pub(crate) fn lines(runs: &[Measurement]) -> String {
    runs.iter().map(|run| format!("{}\n", serde_json::to_string(run).expect("a line"))).collect()
}

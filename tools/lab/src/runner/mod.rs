//! Runs a plan: pair after pair, cell after cell, arms forward and then backward (A B B A), so that a drift of the machine's speed hits all.
//! Where settings are searched for (`hunt.rs`), all pairs of a cell follow its search before the next cell has its turn.
//!
//! A run is a copy of the data, a start of the server, a warm-up, the measured time, an end. What goes wrong in a run is recorded and the
//! others go on; an arm that went wrong twice behind each other is given up.

mod hunt;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use keel_testkit::child::interrupted;

use crate::clients::{Bench, INTERRUPTED, Workload};
use crate::cost::{self, Watcher};
use crate::data::{Store, hash};
use crate::disk::{Disk, DiskKind};
use crate::engines::Kind;
use crate::found;
use crate::journal::Journal;
use crate::machine;
use crate::parse::Report;
use crate::plan::{Arm, Cell, Plan, Scenario, Work};
use crate::progress::{Lengths, Progress, load_seconds, run_seconds, search_seconds};
use crate::record::{FORMAT, Measurement, Outcome, ServerFacts};
use crate::server::{Server, Setup};
use crate::storm;

/// Failures of an arm behind each other after which it is given up.
const FAILURES_MAX: u32 = 2;

/// Where a scenario's run keeps what.
pub struct Folders {
    /// The journal and the reports.
    pub out: PathBuf,
    /// Loaded data.
    pub cache: PathBuf,
    /// Data of the running servers.
    pub work: PathBuf,
}

/// A scenario being run.
pub struct Runner<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    quick: bool,
    pairs: u32,
    seed: u64,
    folders: &'a Folders,
    bench: &'a Bench,
    store: Store<'a>,
    journal: Journal,
    hunts: hunt::Hunts,
    disks: HashMap<DiskKind, Disk>,
    failures: HashMap<String, u32>,
    progress: Progress,
}

/// The order of the arms in a pair: there, and in the next one back.
pub fn order(pair: u32, arms: usize) -> Vec<usize> {
    if pair % 2 == 1 { (0..arms).collect() } else { (0..arms).rev().collect() }
}

impl<'a> Runner<'a> {
    /// Makes ready; `seed` counts only where the journal is new.
    pub fn new(
        scenario: &'a Scenario,
        plan: &'a Plan,
        quick: bool,
        pairs: u32,
        folders: &'a Folders,
        bench: &'a Bench,
        seed: u64,
    ) -> Result<Runner<'a>, String> {
        let journal = Journal::open(&folders.out, scenario.name, quick)?;
        let hunts = hunt::Hunts::open(&folders.out, scenario.name, quick, plan)?;
        let seed = journal.seed.or(hunts.seed()).unwrap_or(seed);
        let store = Store::new(&folders.cache, bench);
        let (disks, failures) = (HashMap::new(), HashMap::new());
        let mut runner = Runner {
            scenario,
            plan,
            quick,
            pairs,
            seed,
            folders,
            bench,
            store,
            journal,
            hunts,
            disks,
            failures,
            progress: Progress::default(),
        };
        runner.expect();
        Ok(runner)
    }

    /// Adds up what is to come: loads, searches, runs.
    fn expect(&mut self) {
        let mut loads: Vec<(&str, &str)> = Vec::new();
        for cell in &self.plan.cells {
            for arm in &cell.arms {
                let missing = (1..=self.pairs).filter(|pair| !self.journal.has(&arm.name, &cell.name, *pair));
                let missing = missing.count() as u32;
                self.progress.expect(missing, f64::from(missing) * run_seconds(cell, self.lengths()));
                if missing > 0 && arm.search.is_some() {
                    let (seconds, runs) = search_seconds(cell, arm);
                    let made = self.hunts.made(arm, cell).min(runs);
                    let rest = f64::from(runs - made) / f64::from(runs.max(1));
                    self.progress.expect(runs - made, seconds * rest);
                }
                let load = (arm.engine.name.as_str(), cell.data.name.as_str());
                if missing > 0 && !loads.contains(&load) && !self.store.has(&arm.engine, &cell.data) {
                    loads.push(load);
                    self.progress.expect(0, load_seconds(cell));
                }
            }
        }
    }

    fn lengths(&self) -> Lengths {
        Lengths { seconds: self.plan.seconds, warm_up_max: self.plan.warm_up_max }
    }

    /// About how long all that is left takes, in words.
    pub fn rest(&self) -> String {
        self.progress.rest()
    }

    /// The seed of this run's random numbers.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Runs that are still to be made.
    pub fn left(&self) -> u32 {
        self.progress.left()
    }

    /// Runs all that is not in the journal. The error is what keeps the whole from going on.
    pub fn run(&mut self) -> Result<(), String> {
        let done = self.run_all();
        for cell in &self.plan.cells {
            for arm in cell.arms.iter().filter(|arm| arm.engine.kind == Kind::Remote) {
                if let Ok(server) = Server::start(&arm.engine, Path::new(""), &Setup::default()) {
                    self.store.clear_remote(&server);
                }
            }
        }
        self.disks.clear();
        fs::remove_dir_all(&self.folders.work).ok();
        done
    }

    fn run_all(&mut self) -> Result<(), String> {
        let plan = self.plan;
        let searched = plan.cells.iter().any(|cell| cell.arms.iter().any(|arm| arm.search.is_some()));
        let pairs = 1..=self.pairs;
        let places: Vec<(u32, &Cell)> = match searched {
            true => plan.cells.iter().flat_map(|cell| pairs.clone().map(move |pair| (pair, cell))).collect(),
            false => pairs.flat_map(|pair| plan.cells.iter().map(move |cell| (pair, cell))).collect(),
        };
        for (pair, cell) in places {
            let missing: Vec<&Arm> = order(pair, cell.arms.len())
                .into_iter()
                .map(|index| &cell.arms[index])
                .filter(|arm| !self.journal.has(&arm.name, &cell.name, pair))
                .collect();
            // Searches first: the arms of a pair are neighbours in time.
            for arm in &missing {
                self.search(cell, arm)?;
            }
            for arm in missing {
                self.run_one(cell, arm, pair)?;
            }
        }
        Ok(())
    }

    /// One run, with its line in the journal and on the terminal.
    fn run_one(&mut self, cell: &Cell, arm: &Arm, pair: u32) -> Result<(), String> {
        let planned = run_seconds(cell, self.lengths());
        let failures = self.failures.get(&arm.name).copied().unwrap_or(0);
        if failures >= FAILURES_MAX {
            self.progress.forget(1, planned);
            return Ok(());
        }
        let began = Instant::now();
        let settled = self.hunts.settled(cell, arm);
        let mut measurement = self.blank(cell, settled.as_ref().unwrap_or(arm), pair);
        let result = match &settled {
            Ok(arm) => self.measure(cell, arm, &arm.name, self.lengths(), &mut measurement),
            Err(why) => Err(why.clone()),
        };
        self.hunts.note(cell, arm, &mut measurement.result);
        if interrupted() {
            return Err(INTERRUPTED.into());
        }
        let failures = match &result {
            Ok(()) => 0,
            Err(why) => {
                measurement.trouble = Some(why.clone());
                failures + 1
            }
        };
        self.failures.insert(arm.name.clone(), failures);
        self.journal.add(&measurement)?;
        self.progress.done(planned, began.elapsed());
        self.tell(&measurement);
        if failures == FAILURES_MAX {
            println!("  {}: given up after {FAILURES_MAX} failures", arm.name);
        }
        Ok(())
    }

    fn blank(&self, cell: &Cell, arm: &Arm, pair: u32) -> Measurement {
        let lines = [arm.settings.as_slice(), arm.overrides.as_slice()].concat();
        let server = ServerFacts {
            engine: engine_word(arm.engine.kind).into(),
            version: arm.engine.version.clone(),
            commit: arm.engine.commit.clone(),
            settings_hash: format!("{:016x}", hash(&lines.join("\n"))),
            settings: arm.settings.clone(),
            overrides: arm.overrides.clone(),
            ..ServerFacts::default()
        };
        Measurement {
            format: FORMAT,
            scenario: self.scenario.name.into(),
            quick: self.quick,
            arm: arm.name.clone(),
            cell: cell.name.clone(),
            x: cell.x,
            pair,
            order: self.journal.next_order(),
            started: machine::now(),
            seed: self.seed.wrapping_add(u64::from(pair)),
            workload: cell.work.words(),
            clients: cell.work.clients(),
            server,
            machine: Default::default(),
            result: Outcome::default(),
            cost: Default::default(),
            trouble: None,
        }
    }

    /// Runs an arm in a folder of this label.
    fn measure(
        &mut self,
        cell: &Cell,
        arm: &Arm,
        label: &str,
        lengths: Lengths,
        m: &mut Measurement,
    ) -> Result<(), String> {
        let folder = self.folder(cell, arm, label)?;
        m.machine = machine::facts(&folder);
        let setup = Setup {
            settings: arm.settings.clone(),
            overrides: arm.overrides.clone(),
            limits: arm.limits,
            cores: machine::parted().map(|(servers, _)| servers),
        };
        let mut server = Server::start(&arm.engine, &folder, &setup)?;
        if arm.engine.kind == Kind::Remote {
            self.store.load_remote(&mut server, &cell.data)?;
        }
        m.server.limits = server.limits.clone();
        let mut client = server.client()?;
        // MariaDB's greeting begins with a version that old replicas understand.
        m.server.version = client.version.trim_start_matches("5.5.5-").to_string();
        m.server.variables = cost::pairs(&mut client, "SHOW GLOBAL VARIABLES");
        drop(client);
        let mut watcher = Watcher::new(server.pid());
        match &cell.work {
            Work::Sysbench(workload) => {
                self.sysbench(&mut server, &mut watcher, workload, lengths, m)?;
            }
            Work::Open { workload, percent, of } => {
                let rate = self.rate(arm, m.pair, *percent, of)?;
                let open = Workload { rate: Some(rate), ..workload.clone() };
                m.workload = open.words();
                self.sysbench(&mut server, &mut watcher, &open, lengths, m)?;
                m.result.more.insert(OFFERED.into(), f64::from(rate));
                m.result.more.insert(OFFERED_SHARE.into(), f64::from(*percent) / 100.0);
            }
            Work::Storm { clients } => {
                let rows = storm::Rows { tables: STORM_TABLES, size: STORM_ROWS };
                let stormed = storm::run(&server, &mut watcher, *clients, lengths.seconds, &rows, m.seed)?;
                let queries = stormed.outcome.tps * stormed.outcome.seconds;
                m.cost = watcher.cost(&stormed.before, &stormed.after, queries, queries);
                m.result = stormed.outcome;
            }
        }
        if arm.engine.kind != Kind::Remote && !cell.writes {
            server.stop()?;
        }
        Ok(())
    }

    fn sysbench(
        &self,
        server: &mut Server,
        watcher: &mut Watcher,
        workload: &Workload,
        lengths: Lengths,
        m: &mut Measurement,
    ) -> Result<(), String> {
        let warm_up = Duration::from_secs(u64::from(lengths.warm_up_max));
        // Other rows than those that are measured, or the pool would know them.
        self.bench.warm_up(server, workload, warm_up, !m.seed)?;
        let measured = self.bench.measure(server, watcher, workload, lengths.seconds, m.seed)?;
        let report = &measured.report;
        m.cost = watcher.cost(&measured.before, &measured.after, report.transactions, report.queries);
        m.result = outcome(report);
        m.result.new_orders_per_minute = measured
            .orders
            .filter(|(_, seconds)| *seconds > 0.0)
            .map(|(placed, seconds)| placed / seconds * 60.0);
        if workload.script == "tpcc.lua" && !self.quick {
            self.bench.whole(server, workload, 1, "check")?;
        }
        Ok(())
    }

    /// So many percent of the most transactions a second that the arm has done in cells whose names have these words.
    fn rate(&self, arm: &Arm, pair: u32, percent: u32, of: &str) -> Result<u32, String> {
        let peak = self.journal.peak(&arm.name, pair, |cell| found::holds(cell, of));
        let peak = peak.ok_or_else(|| format!("no run of {} says how much it can do ({of})", arm.name))?;
        Ok(((peak * f64::from(percent) / 100.0) as u32).max(1))
    }

    /// The folder that the arm's server runs on: a fresh copy, or what an earlier run of reads has left.
    fn folder(&mut self, cell: &Cell, arm: &Arm, label: &str) -> Result<PathBuf, String> {
        if arm.engine.kind == Kind::Remote {
            return Ok(self.folders.work.clone());
        }
        let loaded = self.store.loaded(&arm.engine, &cell.data, &|text| println!("  {text}"))?;
        let root = match &arm.disk {
            None => self.folders.work.clone(),
            Some(kind) => self.disk(kind)?,
        };
        let folder = root.join(slug(&format!("{label} {}", cell.data.name)));
        if cell.writes {
            self.make_room(&root, &folder);
        }
        if cell.writes || !folder.join("whole").exists() {
            self.store.copy(&loaded, &folder, &cell.data)?;
        }
        Ok(folder)
    }

    /// Folders of runs that are over go, so that the disk holds one of them at a time.
    fn make_room(&self, root: &Path, keep: &Path) {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let path = entry.path();
            if path != keep && path.join("whole").exists() {
                fs::remove_dir_all(path).ok();
            }
        }
    }

    fn disk(&mut self, kind: &DiskKind) -> Result<PathBuf, String> {
        if !self.disks.contains_key(kind) {
            let name = format!("disk-{}-{}", kind.file_system, kind.scheduler.unwrap_or("any"));
            let disk = Disk::new(&self.folders.work, &name, kind)?;
            self.disks.insert(*kind, disk);
        }
        Ok(self.disks[kind].mount.clone())
    }

    fn tell(&self, m: &Measurement) {
        let place = if m.cell.is_empty() { String::new() } else { format!(", {}", m.cell) };
        let head = format!("[{}] pair {}, {}{place}", self.progress.place(), m.pair, m.arm);
        if let Some(trouble) = &m.trouble {
            println!("{head}: {}", trouble.lines().collect::<Vec<_>>().join(" / "));
            return;
        }
        let mut figures = format!("{:.0} tps, p95 {:.1} ms", m.result.tps, m.result.p95_ms);
        if let Some(cpu) = m.cost.cpu_us_per_query {
            figures += &format!(", {cpu:.1} us CPU a query");
        }
        println!("{head}: {figures}; {}", self.progress.rest());
    }
}

/// Of an open run: the transactions that were due each second.
pub const OFFERED: &str = "offered_per_second";
/// The same as a share of the most that the arm did.
pub const OFFERED_SHARE: &str = "offered_share_of_peak";

/// The table that storms read.
pub const STORM_TABLES: u32 = 4;
/// Rows of each of its tables.
pub const STORM_ROWS: u32 = 25_000;

fn engine_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Keel => "keel",
        Kind::MariaDb => "mariadb",
        Kind::MySql => "mysql",
        Kind::Remote => "remote",
    }
}

fn outcome(report: &Report) -> Outcome {
    let mut more = BTreeMap::new();
    let mean = report.series.iter().sum::<f64>() / report.series.len().max(1) as f64;
    if mean > 0.0 {
        // How steady: the worst second as a share of the mean one.
        let least = report.series.iter().copied().fold(f64::INFINITY, f64::min);
        more.insert("worst_second_share".to_string(), least / mean);
    }
    Outcome {
        seconds: if report.tps > 0.0 { report.transactions / report.tps } else { 0.0 },
        tps: report.tps,
        qps: report.qps,
        new_orders_per_minute: None,
        p50_ms: report.percentile(0.50),
        p95_ms: report.percentile(0.95),
        p99_ms: report.percentile(0.99),
        max_ms: report.max_ms,
        errors: report.errors,
        series: report.series.clone(),
        latencies: report.distribution(),
        more,
    }
}

/// Letters, digits and hyphens of a name.
fn slug(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_go_there_and_back() {
        assert_eq!((order(1, 2), order(2, 2)), (vec![0, 1], vec![1, 0]));
        assert_eq!((order(3, 3), order(4, 3)), (vec![0, 1, 2], vec![2, 1, 0]));
    }
}

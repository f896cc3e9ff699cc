//! `keel lab`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use keel_testkit::child::catch_interrupts;
use serde::Serialize;

use crate::clients::{Bench, INTERRUPTED};
use crate::disk;
use crate::engines::{self, Engine, Kind, Skipped, in_path};
use crate::machine;
use crate::plan::{Choice, Plan, Scenario};
use crate::report;
use crate::runner::{Folders, Runner};
use crate::scenarios;

/// The commands of `keel lab`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the scenarios.
    List,
    /// Starts real servers in folders of its own and measures them with sysbench.
    ///
    /// Ctrl-C keeps the measurements; the same command continues. The lab logs in to a server at an address as
    /// KEEL_LAB_USER with KEEL_LAB_PASSWORD, and creates and drops the database keel_lab there.
    Run(RunOptions),
    /// Writes the reports of finished runs.
    Report {
        /// Write one page over all runs to this file instead of a report in each folder.
        #[arg(long, value_name = "FILE")]
        experiments: Option<PathBuf>,
        /// Folders of results.
        #[arg(required = true, value_name = "DIR")]
        dirs: Vec<PathBuf>,
    },
    /// Compares two folders of results.
    Compare {
        /// The first folder.
        a: PathBuf,
        /// The second folder.
        b: PathBuf,
    },
}

/// Runs a command.
pub fn run(command: &Command) -> Result<(), String> {
    match command {
        Command::List => {
            list();
            Ok(())
        }
        Command::Run(options) => run_scenario(options),
        Command::Report { experiments: Some(file), dirs } => {
            fs::write(file, report::experiments(dirs)).map_err(|error| format!("{}: {error}", file.display()))
        }
        Command::Report { experiments: None, dirs } => report::report(dirs),
        Command::Compare { a, b } => report::compare(a, b),
    }
}

fn list() {
    for scenario in scenarios::ALL {
        println!(
            "{}\n  report: {}\n  what:   {}\n  found:  {}",
            scenario.name, scenario.report, scenario.what, scenario.found
        );
    }
}

/// The options of `keel lab run`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct RunOptions {
    /// The scenario; `keel lab list` names them.
    #[arg(value_name = "NAME")]
    scenario: String,
    /// Servers to measure, with commas: keel, mariadb, mysql=PROGRAM, HOST:PORT.
    #[arg(long, value_name = "LIST")]
    engines: Option<String>,
    /// Minutes of measurement; the default.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Hours of measurement.
    #[arg(long)]
    full: bool,
    /// Alternating runs of each pair of servers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pairs: Option<u32>,
    /// Seed of the order of runs.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Folder of the results; keel-lab/NAME by default. Loaded data is kept in the folder `data` beside it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl RunOptions {
    fn folders(&self) -> Folders {
        let root = Path::new("keel-lab");
        let (out, cache) = match &self.out {
            Some(out) => (out.clone(), out.join("data")),
            None => (root.join(&self.scenario), root.join("data")),
        };
        let work = out.join("servers");
        Folders { out, cache, work }
    }
}

fn find_scenario(name: &str) -> Result<&'static Scenario, String> {
    let found = scenarios::ALL.iter().copied().find(|scenario| scenario.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = scenarios::ALL.iter().map(|scenario| scenario.name).collect();
        format!("no scenario {name}; there are {}", names.join(", "))
    })
}

fn run_scenario(options: &RunOptions) -> Result<(), String> {
    let scenario = find_scenario(&options.scenario)?;
    if in_path("sysbench").is_none() {
        return Err("sysbench is not installed (Debian's package sysbench); the lab measures with it".into());
    }
    catch_interrupts();
    let (engines, mut skipped) = engines::find(options.engines.as_deref())?;
    let choice = Choice { engines, quick: !options.full };
    let plan = (scenario.plan)(&choice);
    skipped.extend(plan.skipped.iter().cloned());
    skipped.extend(without_arms(&choice, &plan));
    skipped.iter().for_each(|skipped| println!("left out: {}: {}", skipped.what, skipped.why));
    if plan.cells.iter().all(|cell| cell.arms.is_empty()) {
        return Err("no arm is left to be measured".into());
    }
    let done = measure(scenario, &plan, options, &skipped);
    done.map_err(|why| match why.as_str() {
        INTERRUPTED => "interrupted; what was measured is kept, the same command goes on".into(),
        _ => why,
    })
}

/// Engines of which the scenario has no arm and says nothing.
fn without_arms(choice: &Choice, plan: &Plan) -> Vec<Skipped> {
    let is_used =
        |name: &str| plan.cells.iter().flat_map(|cell| &cell.arms).any(|arm| arm.engine.name == name);
    let is_told = |name: &str| plan.skipped.iter().any(|skipped| skipped.what == name);
    let unused = choice.engines.iter().filter(|engine| !is_told(&engine.name) && !is_used(&engine.name));
    let why = |engine: &Engine| match engine.kind {
        Kind::Remote => "this scenario sets its servers, and one at an address is measured as it is",
        _ => "this scenario has no arm for it",
    };
    unused.map(|engine| Skipped::new(&engine.name, why(engine))).collect()
}

fn measure(
    scenario: &Scenario,
    plan: &Plan,
    options: &RunOptions,
    skipped: &[Skipped],
) -> Result<(), String> {
    let folders = absolute(options.folders())?;
    fs::create_dir_all(&folders.out).map_err(|error| format!("{}: {error}", folders.out.display()))?;
    let _lock = Lock::take(&folders.out)?;
    // Of a run that was killed.
    disk::clear(&folders.work);
    fs::remove_dir_all(&folders.work).ok();
    let cores = machine::parted().filter(|_| in_path("taskset").is_some()).map(|(_, client)| client);
    let bench = Bench::new(&folders.out.join("scripts"), cores)?;
    let pairs = options.pairs.unwrap_or(plan.pairs);
    let seed = options.seed.unwrap_or_else(random_seed);
    let mut runner = Runner::new(scenario, plan, !options.full, pairs, &folders, &bench, seed)?;
    let facts =
        RunFacts { scenario: scenario.name, quick: !options.full, pairs, seed: runner.seed(), skipped };
    let text = serde_json::to_string_pretty(&facts).map_err(|error| error.to_string())?;
    fs::write(folders.out.join("lab.json"), text + "\n").map_err(|error| format!("lab.json: {error}"))?;
    println!("{}: {}", scenario.name, scenario.what);
    println!("the report found: {}", scenario.found);
    println!(
        "{} runs, of {} s where they count, {pairs} pairs, seed {}; about {}",
        runner.left(),
        plan.seconds,
        runner.seed(),
        runner.rest()
    );
    let began = Instant::now();
    let done = runner.run();
    println!("{} s; results: {}", began.elapsed().as_secs(), folders.out.display());
    // What there is deserves a report also where the end was not reached.
    if let Err(why) = report::report(std::slice::from_ref(&folders.out)) {
        println!("no report: {why}");
    }
    done
}

/// What a run leaves beside its measurements.
#[derive(Serialize)]
struct RunFacts<'a> {
    scenario: &'a str,
    quick: bool,
    pairs: u32,
    seed: u64,
    skipped: &'a [Skipped],
}

fn absolute(folders: Folders) -> Result<Folders, String> {
    let full =
        |path: PathBuf| std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()));
    Ok(Folders { out: full(folders.out)?, cache: full(folders.cache)?, work: full(folders.work)? })
}

fn random_seed() -> u64 {
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    nanoseconds & 0x3fff_ffff
}

/// One run at a time in a folder.
struct Lock {
    _file: fs::File,
}

impl Lock {
    fn take(folder: &Path) -> Result<Lock, String> {
        let path = folder.join("lock");
        let file = fs::File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(_) => Err(format!("{} is being used by another run", folder.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: RunOptions,
    }

    fn parse(words: &[&str]) -> Result<RunOptions, clap::Error> {
        Line::try_parse_from(std::iter::once(&"run").chain(words)).map(|line| line.options)
    }

    #[test]
    fn options_parse_and_bad_ones_are_refused() {
        let options = parse(&["xtradb", "--full", "--pairs=3", "--out", "x", "--engines=mysql=/m"]).unwrap();
        assert_eq!((options.scenario.as_str(), options.full, options.pairs), ("xtradb", true, Some(3)));
        assert_eq!((options.out, options.engines.as_deref()), (Some(PathBuf::from("x")), Some("mysql=/m")));
        for bad in [
            &["xtradb", "--pairs", "many"][..],
            &["xtradb", "--pairs", "0"],
            &["xtradb", "--quick", "--full"],
            &[],
            &["a", "b"],
            &["a", "--what"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_engine_without_an_arm_is_said() {
        let engine = |kind, name: &str| Engine {
            kind,
            name: name.into(),
            program: PathBuf::new(),
            version: String::new(),
            commit: None,
            remote: None,
        };
        let engines = vec![engine(Kind::Keel, "keel"), engine(Kind::Remote, "db1:3306")];
        let choice = Choice { engines, quick: true };
        let left_out = |name: &str| {
            let scenario = find_scenario(name).unwrap();
            let skipped = without_arms(&choice, &(scenario.plan)(&choice));
            skipped.into_iter().map(|skipped| skipped.what).collect::<Vec<_>>()
        };
        assert_eq!(left_out("memory-ladder"), ["db1:3306"]);
        assert_eq!((left_out("xtradb"), left_out("zero-tuning")), (vec![], vec![]));
    }

    #[test]
    fn an_unknown_scenario_is_told_which_there_are() {
        assert!(find_scenario("nothing").err().unwrap().contains("default-vs-tuned"));
    }
}

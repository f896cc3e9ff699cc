//! `keel lab`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

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

/// What the command takes.
pub const USAGE: &str = "\
usage: keel lab list
       keel lab run NAME [--engines keel,mariadb,mysql=PROGRAM,HOST:PORT] [--quick|--full] [--pairs N] [--seed N] [--out DIR]
       keel lab report [--experiments FILE] DIR...
       keel lab compare A B

`run` starts real servers in folders of its own and measures them with sysbench; results are in DIR (keel-lab/NAME if not said),
loaded data in the folder `data` beside it. --quick is minutes and the default, --full hours. Ctrl-C keeps what was measured; the same
command goes on. A server at an address is logged in to as KEEL_LAB_USER with KEEL_LAB_PASSWORD; a database keel_lab is made in it and dropped.";

/// Runs the command with the words behind `keel lab`.
pub fn run(args: &[String]) -> Result<(), String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.split_first() {
        None | Some((&("--help" | "-h" | "help"), _)) => {
            println!("{USAGE}");
            Ok(())
        }
        Some((&"list", [])) => {
            list();
            Ok(())
        }
        Some((&"run", rest)) => run_scenario(&RunOptions::parse(rest)?),
        Some((&"report", rest)) => make_reports(rest),
        Some((&"compare", [a, b])) => report::compare(Path::new(a), Path::new(b)),
        _ => Err(format!("no such command of the lab\n{USAGE}")),
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

fn make_reports(words: &[&str]) -> Result<(), String> {
    match words {
        ["--experiments", file, dirs @ ..] if !dirs.is_empty() => {
            let dirs: Vec<PathBuf> = dirs.iter().map(PathBuf::from).collect();
            fs::write(file, report::experiments(&dirs)).map_err(|error| format!("{file}: {error}"))
        }
        [] => Err("which folders?".into()),
        dirs => report::report(&dirs.iter().map(PathBuf::from).collect::<Vec<_>>()),
    }
}

/// What `run` was told.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RunOptions {
    scenario: String,
    engines: Option<String>,
    quick: bool,
    pairs: Option<u32>,
    seed: Option<u64>,
    out: Option<PathBuf>,
}

impl RunOptions {
    fn parse(words: &[&str]) -> Result<RunOptions, String> {
        let mut options = RunOptions {
            scenario: String::new(),
            engines: None,
            quick: true,
            pairs: None,
            seed: None,
            out: None,
        };
        let mut words = words.iter().flat_map(|word| match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => vec![name, value],
            _ => vec![*word],
        });
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            let number = |text: &str| text.parse().map_err(|_| format!("{word}: {text} is not a number"));
            match word {
                "--quick" => options.quick = true,
                "--full" => options.quick = false,
                "--engines" => options.engines = Some(value()?.to_string()),
                "--pairs" => options.pairs = Some(number(value()?)? as u32),
                "--seed" => options.seed = Some(number(value()?)?),
                "--out" => options.out = Some(PathBuf::from(value()?)),
                _ if word.starts_with('-') => return Err(format!("no such option: {word}")),
                _ if options.scenario.is_empty() => options.scenario = word.to_string(),
                _ => return Err(format!("one scenario at a time: {word}")),
            }
        }
        if options.scenario.is_empty() {
            return Err(format!("which scenario? keel lab list names them\n{USAGE}"));
        }
        if options.pairs == Some(0) {
            return Err("--pairs 0 measures nothing".into());
        }
        Ok(options)
    }

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
    let choice = Choice { engines, quick: options.quick };
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
    let mut runner = Runner::new(scenario, plan, options.quick, pairs, &folders, &bench, seed)?;
    let facts =
        RunFacts { scenario: scenario.name, quick: options.quick, pairs, seed: runner.seed(), skipped };
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
    use super::*;

    #[test]
    fn options_are_read_and_bad_ones_named() {
        let options =
            RunOptions::parse(&["xtradb", "--full", "--pairs=3", "--out", "x", "--engines=mysql=/m"])
                .unwrap();
        assert_eq!((options.scenario.as_str(), options.quick, options.pairs), ("xtradb", false, Some(3)));
        assert_eq!((options.out, options.engines.as_deref()), (Some(PathBuf::from("x")), Some("mysql=/m")));
        for bad in [
            &["xtradb", "--pairs", "many"][..],
            &["xtradb", "--pairs", "0"],
            &[],
            &["a", "b"],
            &["a", "--what"],
        ] {
            assert!(RunOptions::parse(bad).is_err(), "{bad:?}");
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

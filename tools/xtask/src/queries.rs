//! `cargo x queries`: random queries against MariaDB and Keel, partitions of them against Keel alone, and changes of tables.
//!
//! Each seed makes a world of tables and some hundred of each kind; seeds go up from the first one until the time is over.
//! A difference is printed once for each shape, with its seed, the smallest query found and what makes its tables.

use keel_testkit::queries::run::{Check, Finding, Runner};
use keel_testkit::queries::world::World;
use std::collections::HashSet;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: cargo x queries [--seed N] [--minutes M] [--only compare|partitions|changes]";

/// Queries over one world.
const QUERIES: u64 = 200;

struct Options {
    seed: u64,
    minutes: f64,
    checks: Vec<Check>,
}

/// Runs until the time is over.
pub fn run(args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let mut runner = Runner::start().map_err(|error| error.to_string())?;
    let (mut shapes, mut findings): (HashSet<String>, Vec<Finding>) = Default::default();
    let (mut seed, mut queries) = (options.seed, 0);
    while Instant::now() < end {
        let world = World::new(seed);
        runner.set_up(&world).map_err(|error| format!("seed {seed}: {error}"))?;
        for number in 0..QUERIES {
            for check in &options.checks {
                let found = runner.query(&world, seed, number, *check);
                queries += 1;
                let Some(found) = found.map_err(|error| format!("seed {seed}, query {number}: {error}"))?
                else {
                    continue;
                };
                if shapes.insert(found.shape()) {
                    show(&found);
                    findings.push(found);
                }
            }
            if Instant::now() > end {
                break;
            }
        }
        seed += 1;
    }
    findings.sort_by_key(|finding| finding.class);
    println!(
        "{queries} queries, seeds {} to {}: {} compared, {} refused by both, {} not comparable, {} findings",
        options.seed,
        seed - 1,
        runner.compared,
        runner.refused,
        runner.skipped,
        findings.len()
    );
    findings.iter().for_each(|found| {
        println!("{:?} seed {} query {}: {}", found.class, found.seed, found.number, found.sql)
    });
    match findings.is_empty() {
        true => Ok(()),
        false => Err(format!("{} findings", findings.len())),
    }
}

fn show(found: &Finding) {
    println!("--- {:?}: seed {}, query {}", found.class, found.seed, found.number);
    println!("{}\n{};\n{}\n", found.setup, found.sql, found.answers);
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut options =
        Options { seed: 1, minutes: 1.0, checks: vec![Check::Compare, Check::Partitions, Check::Changes] };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match (arg.as_str(), value.as_str()) {
            ("--seed", number) => options.seed = number.parse().map_err(|_| USAGE)?,
            ("--minutes", number) => {
                options.minutes =
                    number.parse().ok().filter(|minutes| (0.0..10_000.0).contains(minutes)).ok_or(USAGE)?;
            }
            ("--only", "compare") => options.checks = vec![Check::Compare],
            ("--only", "partitions") => options.checks = vec![Check::Partitions],
            ("--only", "changes") => options.checks = vec![Check::Changes],
            _ => return Err(USAGE.into()),
        }
    }
    Ok(options)
}

//! `cargo x schedules`: random schedules of a few sessions; which locks each statement leaves behind on MariaDB and on Keel.
//!
//! Seeds go up from the first one until the time is over. A difference is printed with its seed, as small as it gets. Gaps that only
//! MariaDB locks do not count as failures: some of them are its own (`docs/COMPAT.md`), and a reader has to tell which.

use keel_testkit::schedules::run::{Kind, Runner};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: cargo x schedules [--seed N] [--minutes M]";

/// Runs until the time is over.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut seed, mut minutes) = (1u64, 1.0f64);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match arg.as_str() {
            "--seed" => seed = value.parse().map_err(|_| USAGE)?,
            "--minutes" => {
                minutes = value.parse().ok().filter(|m| (0.0..10_000.0).contains(m)).ok_or(USAGE)?;
            }
            _ => return Err(USAGE.into()),
        }
    }
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let mut runner = Runner::start().map_err(|error| error.to_string())?;
    let (first, mut narrower, mut others) = (seed, 0, 0);
    while Instant::now() < end {
        if let Some(found) = runner.schedule(seed).map_err(|error| format!("seed {seed}: {error}"))? {
            println!("{found}");
            *(if found.kind == Kind::Narrower { &mut narrower } else { &mut others }) += 1;
        }
        seed += 1;
    }
    println!(
        "{} steps, seeds {first} to {}: {others} differences, and {narrower} where only MariaDB locks",
        runner.steps,
        seed - 1
    );
    if others == 0 { Ok(()) } else { Err(format!("{others} differences")) }
}

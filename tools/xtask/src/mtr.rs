//! `cargo x mtr`: the scripts of Debian's package `mariadb-test` against MariaDB and Keel, and the score of it.
//!
//! Without options the scripts of all groups run; `--only` takes names, or all of those that begin so with `*` behind it. What the
//! servers disagree on lies in `target/mtr/NAME.txt`. `--score` writes `docs/MTR.md` too.

use keel_testkit::mtr::groups::group_of;
use keel_testkit::mtr::pair::{Pair, suite_dir};
use keel_testkit::mtr::report;
use keel_testkit::mtr::run::{ScriptScore, run_script};
use keel_testkit::mtr::values::MARIA;
use keel_testkit::process::scratch_dir;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

const USAGE: &str = "usage: cargo x mtr [--only NAME,NAME*,...] [--score]";

/// Causes shown at the end of a run.
const CAUSES_SHOWN: usize = 40;

/// Runs the scripts.
pub fn run(args: &[String]) -> Result<(), String> {
    let (only, score) = options(args)?;
    let root = suite_dir();
    let scripts = scripts(root, &only)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let folder = target.unwrap_or_else(|| crate::repository().join("target")).join("mtr");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let scratch = scratch_dir("mtr");
    let mut pair = Pair::start().map_err(|error| error.to_string())?;
    let version = pair.server(MARIA).client().map_err(|error| error.to_string())?.version;
    let mut scores = Vec::new();
    for path in &scripts {
        let begun = Instant::now();
        let score = one(&mut pair, root, path, &scratch)?;
        println!(
            "{:32} {:6} of {:6} {:>8} {:5.1} s {}",
            score.name,
            score.agreed,
            score.statements,
            report::percent(score.agreed, score.statements),
            begun.elapsed().as_secs_f64(),
            score.ended.as_deref().unwrap_or("")
        );
        let listing = folder.join(format!("{}.txt", score.name));
        fs::write(&listing, report::listing(&score))
            .map_err(|error| format!("{}: {error}", listing.display()))?;
        scores.push(score);
    }
    fs::remove_dir_all(&scratch).ok();
    conclude(&scores, &version, score)
}

fn conclude(scores: &[ScriptScore], version: &str, score: bool) -> Result<(), String> {
    println!();
    for (cause, (alone, follow), first) in report::causes(scores).into_iter().take(CAUSES_SHOWN) {
        println!("{alone:6} +{follow:6}  {cause}  ({first})");
    }
    let (agreed, statements) = report::sums(scores.iter());
    println!("\n{agreed} of {statements} statements agree: {}", report::percent(agreed, statements));
    for crashed in scores.iter().filter(|score| !score.crashes.is_empty()) {
        println!("!!! Keel died in {}", crashed.name);
    }
    if score {
        let page = crate::repository().join("docs/MTR.md");
        fs::write(&page, report::page(scores, version))
            .map_err(|error| format!("{}: {error}", page.display()))?;
    }
    Ok(())
}

/// A script; where the servers themselves are in trouble they are replaced once.
fn one(pair: &mut Pair, root: &Path, path: &Path, scratch: &Path) -> Result<ScriptScore, String> {
    run_script(pair, root, path, scratch).or_else(|error| {
        eprintln!("!!! {}: {error}; both servers start anew", path.display());
        *pair = Pair::start().map_err(|error| error.to_string())?;
        run_script(pair, root, path, scratch).map_err(|error| format!("{}: {error}", path.display()))
    })
}

fn options(args: &[String]) -> Result<(Vec<String>, bool), String> {
    let (mut only, mut score) = (Vec::new(), false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--score" => score = true,
            "--only" => only = args.next().ok_or(USAGE)?.split(',').map(str::to_owned).collect(),
            _ => return Err(USAGE.into()),
        }
    }
    Ok((only, score))
}

/// The scripts of suite `main` that are wanted, in the order of their names.
fn scripts(root: &Path, only: &[String]) -> Result<Vec<PathBuf>, String> {
    let missing = |_| format!("{} is not there: apt-get install mariadb-test", root.join("main").display());
    let wanted = |name: &str| match only {
        [] => group_of(name).is_some(),
        _ => only.iter().any(|only| match only.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => only == name,
        }),
    };
    let mut found: Vec<PathBuf> = fs::read_dir(root.join("main"))
        .map_err(missing)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "test"))
        .filter(|path| path.file_stem().is_some_and(|stem| wanted(&stem.to_string_lossy())))
        .collect();
    found.sort();
    match found.is_empty() {
        true => Err("no such script".into()),
        false => Ok(found),
    }
}

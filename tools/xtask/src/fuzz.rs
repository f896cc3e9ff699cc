//! `cargo x fuzz`: lets libFuzzer search for inputs that break the targets of `tools/fuzz`, guided by coverage.
//!
//! What it finds on its way lies in `target/fuzz/NAME`, so that the next run goes on from there; an input that breaks a
//! promise is printed and lies in `target/fuzz/findings`. Put it into `fuzz/corpus/NAME`, where CI runs it, and mend it.
//! `--record` adds what was searched to the sums in `docs/engine.md`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use crate::engine::{DOCUMENT, replace};

const USAGE: &str =
    "usage: cargo x fuzz [--targets A,B] [--seconds N] (a target; 60 if not given) [--keep] [--record]";

/// Instruments for libFuzzer's coverage; what `cargo fuzz` gives without a sanitizer, which stable Rust has not.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=4";

/// The targets of `tools/fuzz`.
const TARGETS: [&str; 7] = ["sql", "wire", "binlog", "page", "redo", "tree", "server"];

/// Inputs that CI runs for each target at most, and their bytes together.
const KEPT_MAX: usize = 100;
const KEPT_BYTES_MAX: u64 = 64 << 10;

/// libFuzzer's exit status where a process takes more than `-rss_limit_mb`.
const OUT_OF_MEMORY: i32 = 71;
/// Targets whose inputs crash simulated worlds. These leave their memory behind, so that many fill a process.
const CRASHING: [&str; 2] = ["tree", "server"];

struct Search {
    targets: Vec<String>,
    seconds: u64,
    keep: bool,
    record: bool,
}

fn options(args: &[String]) -> Result<Search, String> {
    let mut search = Search { targets: Vec::new(), seconds: 60, keep: false, record: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--keep" => search.keep = true,
            "--record" => search.record = true,
            "--targets" => {
                let names = args.next().ok_or(USAGE)?;
                search.targets = names.split(',').map(str::to_owned).collect();
            }
            "--seconds" => search.seconds = args.next().and_then(|n| n.parse().ok()).ok_or(USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(search)
}

/// Searches each target in turn.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut search = options(args)?;
    let root = crate::repository();
    let scratch = target_dir(&root).join("fuzz");
    if search.targets.is_empty() {
        search.targets = TARGETS.map(str::to_owned).into();
    }
    if let Some(unknown) = search.targets.iter().find(|name| !TARGETS.contains(&name.as_str())) {
        return Err(format!("no target {unknown}; there are {}", TARGETS.join(", ")));
    }
    let binary = build(&root, &scratch)?;
    let mut broken = Vec::new();
    for target in &search.targets {
        if !search_one(&root, &scratch, &binary, target, &search)? {
            broken.push(target.as_str());
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(format!("promises broken: {}", broken.join(", "))) }
}

fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn build(root: &Path, scratch: &Path) -> Result<PathBuf, String> {
    let triple = host()?;
    let status = Command::new("cargo")
        .args(["build", "--release", "--manifest-path"])
        .arg(root.join("fuzz/Cargo.toml"))
        // With a target named, the flags spare build scripts and macros.
        .args(["--target", &triple, "--target-dir"])
        .arg(scratch.join("build"))
        .env("RUSTFLAGS", FLAGS)
        .env_remove("CARGO_TARGET_DIR")
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err("the fuzzers do not build".into());
    }
    Ok(scratch.join("build").join(triple).join("release/keel-fuzz-search"))
}

fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or("rustc names no host".into())
}

/// The folder that a target's search goes on from, with its sound samples and what CI knows.
fn corpus(root: &Path, scratch: &Path, binary: &Path, name: &str) -> Result<PathBuf, String> {
    let folder = scratch.join(name);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut writer = Command::new(binary);
    writer.env("KEEL_FUZZ_TARGET", name).env("KEEL_FUZZ_SAMPLES", &folder);
    if !writer.status().is_ok_and(|status| status.success()) {
        return Err(format!("{} writes no samples", binary.display()));
    }
    if let Ok(known) = fs::read_dir(root.join("fuzz/corpus").join(name)) {
        for entry in known.flatten() {
            fs::copy(entry.path(), folder.join(entry.file_name())).map_err(|error| error.to_string())?;
        }
    }
    Ok(folder)
}

/// One target; false if a promise was broken.
fn search_one(
    root: &Path,
    scratch: &Path,
    binary: &Path,
    name: &str,
    search: &Search,
) -> Result<bool, String> {
    let corpus = corpus(root, scratch, binary, name)?;
    let findings = scratch.join("findings");
    fs::create_dir_all(&findings).map_err(|error| error.to_string())?;
    println!("{name}: {} s", search.seconds);
    let before = children_seconds();
    let began = Instant::now();
    let mut searched = Searched::default();
    let sound = loop {
        let seconds = search.seconds.saturating_sub(began.elapsed().as_secs());
        let (status, one) = search_once(binary, name, &corpus, &findings, seconds)?;
        searched.inputs += one.inputs;
        searched.edges = searched.edges.max(one.edges);
        let full = CRASHING.contains(&name) && status.code() == Some(OUT_OF_MEMORY);
        if !full || began.elapsed().as_secs() >= search.seconds {
            break status.success() || full;
        }
    };
    searched.hours = (children_seconds() - before) / 3600.0;
    searched.findings = u64::from(!sound);
    if search.record {
        // Searches side by side add to the same sums.
        let lock = File::create(scratch.join("record.lock")).map_err(|error| error.to_string())?;
        lock.lock().map_err(|error| error.to_string())?;
        let path = root.join(DOCUMENT);
        let document = fs::read_to_string(&path).map_err(|error| format!("{DOCUMENT}: {error}"))?;
        fs::write(&path, recorded(&document, name, &searched)).map_err(|error| error.to_string())?;
    }
    if search.keep && sound {
        keep(root, binary, name, &corpus)?;
    }
    Ok(sound)
}

/// One process that searches for so long, unless it finds something or its memory is full.
fn search_once(
    binary: &Path,
    name: &str,
    corpus: &Path,
    findings: &Path,
    seconds: u64,
) -> Result<(ExitStatus, Searched), String> {
    let mut child = Command::new(binary)
        .arg(format!("-max_total_time={}", seconds.max(1)))
        .arg(format!("-artifact_prefix={}/{name}-", findings.display()))
        .args([
            "-rss_limit_mb=4096",
            "-timeout=300",
            "-max_len=16384",
            "-print_final_stats=1",
            "-verbosity=1",
        ])
        .arg(corpus)
        .env("KEEL_FUZZ_TARGET", name)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", binary.display()))?;
    let mut searched = Searched::default();
    for line in BufReader::new(child.stderr.take().expect("piped")).split(b'\n') {
        let line = line.map_err(|error| error.to_string())?;
        let line = String::from_utf8_lossy(&line);
        eprintln!("{line}");
        searched.read(&line);
    }
    Ok((child.wait().map_err(|error| error.to_string())?, searched))
}

/// CPU time of the programs that this one has waited for (`proc_pid_stat(5)`: cutime and cstime, in hundredths of a second).
fn children_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind_name.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// What searches of one target came to.
#[derive(Debug, Clone, Default, PartialEq)]
struct Searched {
    /// Of CPU time.
    hours: f64,
    /// Inputs that were run.
    inputs: u64,
    /// Edges of the program that inputs reached, of the last search.
    edges: u64,
    /// Inputs that broke a promise.
    findings: u64,
}

impl Searched {
    /// Takes what a line of libFuzzer's output tells: `#4096 pulse cov: 512 ft: ...`, `stat::number_of_executed_units: 4100`.
    fn read(&mut self, line: &str) {
        let number = |mark: &str| -> Option<u64> {
            let (_, rest) = line.split_once(mark)?;
            rest.split_whitespace().next()?.parse().ok()
        };
        if let Some(rest) = line.strip_prefix('#') {
            self.edges = number(" cov:").unwrap_or(self.edges);
            let run = rest.split_whitespace().next().and_then(|run| run.parse().ok());
            self.inputs = run.unwrap_or(self.inputs);
        }
        self.inputs = number("stat::number_of_executed_units:").unwrap_or(self.inputs);
    }
}

/// The document with `more` added to the sums of a target.
fn recorded(document: &str, target: &str, more: &Searched) -> String {
    let mut sums: Vec<(&str, Searched)> =
        TARGETS.iter().map(|name| (*name, before(document, name).unwrap_or_default())).collect();
    for (name, sum) in &mut sums {
        if *name == target {
            sum.hours += more.hours;
            sum.inputs += more.inputs;
            sum.edges = more.edges.max(sum.edges);
            sum.findings += more.findings;
        }
    }
    let hours: f64 = sums.iter().map(|(_, sum)| sum.hours).sum();
    let mut section = format!(
        "## Any bytes\n\nWhat `cargo x fuzz` has searched, over all runs so far: **{hours:.1} hours** of CPU time. Each finding is \
         mended and an input in `fuzz/corpus` or a test.\n\n| subject | hours | inputs | edges reached | findings |\n\
         |---|---|---|---|---|\n"
    );
    for (name, Searched { hours, inputs, edges, findings }) in sums {
        section.push_str(&format!("| {name} | {hours:.2} | {inputs} | {edges} | {findings} |\n"));
    }
    replace(document, "fuzz", &section)
}

/// The sums of a target that the document tells.
fn before(document: &str, target: &str) -> Option<Searched> {
    let (_, section) = document.split_once("<!-- fuzz -->")?;
    let (section, _) = section.split_once("<!-- /fuzz -->")?;
    let line = section.lines().find_map(|line| line.strip_prefix(&format!("| {target} |")))?;
    let mut cells = line.split('|').map(str::trim);
    let mut next = || cells.next();
    Some(Searched {
        hours: next()?.parse().ok()?,
        inputs: next()?.parse().ok()?,
        edges: next()?.parse().ok()?,
        findings: next()?.parse().ok()?,
    })
}

/// The least set of inputs that reaches all that was reached goes to where CI runs it, the shortest first.
fn keep(root: &Path, binary: &Path, name: &str, corpus: &Path) -> Result<(), String> {
    let least = corpus.with_extension("least");
    let _ = fs::remove_dir_all(&least);
    fs::create_dir_all(&least).map_err(|error| error.to_string())?;
    Command::new(binary)
        .arg("-merge=1")
        .args([&least, corpus])
        .env("KEEL_FUZZ_TARGET", name)
        .stdin(Stdio::null())
        .status()
        .map_err(|error| error.to_string())?;
    let entries = fs::read_dir(&least).map_err(|error| error.to_string())?;
    let mut files: Vec<(u64, PathBuf)> =
        entries.flatten().map(|e| (e.metadata().map_or(0, |m| m.len()), e.path())).collect();
    files.sort();
    let folder = root.join("fuzz/corpus").join(name);
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut bytes = 0;
    let small = files.iter().take(KEPT_MAX).take_while(|(len, _)| {
        bytes += len;
        bytes <= KEPT_BYTES_MAX
    });
    for (_, path) in small {
        let name = path.file_name().expect("a file");
        fs::copy(path, folder.join(name)).map_err(|error| error.to_string())?;
    }
    println!("{name}: {} inputs reach all, the smallest are kept", files.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_search_prints_is_read() {
        let mut searched = Searched::default();
        searched.read("#8192\tpulse  cov: 512 ft: 900 corp: 10/1Kb exec/s: 4096 rss: 60Mb");
        assert_eq!((searched.inputs, searched.edges), (8192, 512));
        searched.read("stat::number_of_executed_units: 9000");
        searched.read("INFO: seed corpus: files: 3");
        assert_eq!((searched.inputs, searched.edges), (9000, 512));
    }

    #[test]
    fn searches_add_up() {
        let first = Searched { hours: 1.5, inputs: 100, edges: 40, findings: 1 };
        let again = Searched { hours: 0.25, inputs: 11, edges: 39, findings: 0 };
        let document = recorded(&recorded("# Title\n", "tree", &first), "tree", &again);
        let sum = Searched { hours: 1.75, inputs: 111, edges: 40, findings: 1 };
        assert_eq!(before(&document, "tree"), Some(sum));
        assert_eq!(before(&document, "wire"), Some(Searched::default()));
        assert!(document.contains("**1.8 hours**"), "{document}");
    }
}

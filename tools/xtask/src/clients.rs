//! `cargo x clients`: programs over drivers of many languages (`tests/clients`), the same on MariaDB and on Keel, and what
//! differs between their outputs.
//!
//! Each folder of `tests/clients` with a file `drivers` is one program: `install` fetches the driver and builds, `run` runs it.
//! They work in a copy of the folder under the target folder, which stays, so that a second run installs nothing. What
//! `install` cannot have (no toolchain, no registry) it says by ending with 77, and the program is left out.

use keel_testkit::process::{Engine, Server};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const USAGE: &str = "usage: cargo x clients [--only NAME,NAME,...]";

/// What `install` ends with where something that it needs is not there.
const SKIPPED: i32 = 77;

/// The longest that a program may run, in seconds.
const RUN_SECONDS_MAX: &str = "300";

/// Runs the programs.
pub fn run(args: &[String]) -> Result<(), String> {
    let only = options(args)?;
    let source = crate::repository().join("tests/clients");
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let work = target.unwrap_or_else(|| crate::repository().join("target")).join("clients");
    fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    let certificate = make_certificate(&work)?;
    let pair = [start(Engine::MariaDb, &certificate)?, start(Engine::Keel, &certificate)?];
    let mut differing = 0;
    println!("{:24} {:>8} {:>8}  version", "driver", "checks", "differ");
    for folder in programs(&source, &only)? {
        differing += program(&source, &folder, &work, &pair)?;
    }
    match differing {
        0 => Ok(()),
        _ => Err(format!("{differing} checks differ; the outputs lie in {}", work.display())),
    }
}

fn options(args: &[String]) -> Result<Vec<String>, String> {
    match args {
        [] => Ok(Vec::new()),
        [flag, names] if flag == "--only" => Ok(names.split(',').map(str::to_owned).collect()),
        _ => Err(USAGE.into()),
    }
}

fn programs(source: &Path, only: &[String]) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(source).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut found: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("drivers").exists())
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .filter(|name| only.is_empty() || only.contains(name))
        .collect();
    found.sort();
    if found.is_empty() { Err("no such program".into()) } else { Ok(found) }
}

/// A certificate for 127.0.0.1 that both servers show and programs trust: the one that Keel makes for itself.
fn make_certificate(work: &Path) -> Result<[PathBuf; 2], String> {
    let keel = Server::start(Engine::Keel, &[]).map_err(|error| error.to_string())?;
    let files =
        ["server-cert.pem", "server-key.pem"].map(|name| (keel.dir.join("data").join(name), work.join(name)));
    for (from, to) in &files {
        fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    Ok(files.map(|(_, to)| to))
}

fn start(engine: Engine, [certificate, key]: &[PathBuf; 2]) -> Result<Server, String> {
    let options = [format!("--ssl-cert={}", certificate.display()), format!("--ssl-key={}", key.display())];
    // Keel never asks for the names of addresses.
    let mut all = vec![options[0].as_str(), options[1].as_str(), "--skip-name-resolve"];
    let authority = format!("--ssl-ca={}", certificate.display());
    if engine == Engine::MariaDb {
        all.push(&authority);
    }
    Server::start(engine, &all).map_err(|error| format!("{}: {error}", engine.name()))
}

/// Installs and runs one folder's programs; how many checks differ.
fn program(source: &Path, name: &str, work: &Path, pair: &[Server; 2]) -> Result<usize, String> {
    let here = work.join(name);
    copy(&source.join(name), &here)?;
    let drivers = fs::read_to_string(here.join("drivers")).map_err(|error| error.to_string())?;
    let installed = shell(&here, "install", &[], &[])?;
    if !installed.status.success() {
        let cause = match installed.status.code() {
            Some(SKIPPED) => "not to be had here",
            _ => "does not build",
        };
        println!("{name:24} {cause}\n{}", String::from_utf8_lossy(&installed.stderr).trim_end());
        return if installed.status.code() == Some(SKIPPED) {
            Ok(0)
        } else {
            Err(format!("{name}: {cause}"))
        };
    }
    let version = String::from_utf8_lossy(&installed.stdout).trim().replace('\n', ", ");
    let mut differing = 0;
    for driver in drivers.lines() {
        let (label, argument) = driver.split_once('|').unwrap_or((driver, ""));
        let [maria, keel] = outputs(source, &here, argument, pair, work)?;
        let (checks, differ) = compare(&maria, &keel);
        println!("{label:24} {checks:8} {differ:8}  {version}");
        differing += differ;
    }
    Ok(differing)
}

fn outputs(
    source: &Path,
    here: &Path,
    argument: &str,
    pair: &[Server; 2],
    work: &Path,
) -> Result<[String; 2], String> {
    let mut out = [String::new(), String::new()];
    for (server, out) in pair.iter().zip(&mut out) {
        prepare(server)?;
        let variables = [
            ("CLIENT_PORT", server.port.to_string().into()),
            ("CLIENT_CA", work.join("server-cert.pem").into_os_string()),
            ("CLIENT_SOURCE", source.as_os_str().to_owned()),
            ("CLIENT_TYPES", source.join("types.sql").into_os_string()),
            ("CLIENT_CHECKS", source.join("checks.js").into_os_string()),
        ];
        let ended = shell(here, "run", &[argument], &variables)?;
        *out =
            format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        let file = here.join(format!("{}{argument}.out", server.engine.name()));
        fs::write(&file, &*out).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(out)
}

/// An empty database and a user that may do everything.
fn prepare(server: &Server) -> Result<(), String> {
    let mut client = server.client().map_err(|error| error.to_string())?;
    for statement in [
        "DROP DATABASE IF EXISTS clients",
        "CREATE DATABASE clients CHARACTER SET utf8mb4",
        "CREATE OR REPLACE USER client@localhost IDENTIFIED BY 'secret ''x'''",
        "CREATE OR REPLACE USER client@'127.0.0.1' IDENTIFIED BY 'secret ''x'''",
        "GRANT ALL ON *.* TO client@localhost, client@'127.0.0.1'",
    ] {
        client.run(statement).map_err(|error| format!("{statement}: {error}"))?;
    }
    Ok(())
}

/// Lines of MariaDB's output that are checks, and those of all lines that are not the same.
fn compare(maria: &str, keel: &str) -> (usize, usize) {
    let (maria, keel): (Vec<&str>, Vec<&str>) = (maria.lines().collect(), keel.lines().collect());
    let differ = maria.iter().zip(&keel).filter(|(m, k)| m != k).count() + maria.len().abs_diff(keel.len());
    (maria.len(), differ)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    let entries = fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()) {
        let name = path.file_name().expect("a file has a name");
        fs::copy(&path, to.join(name)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn shell(
    here: &Path,
    script: &str,
    args: &[&str],
    variables: &[(&str, std::ffi::OsString)],
) -> Result<Output, String> {
    Command::new("timeout")
        .args([RUN_SECONDS_MAX, "bash", script])
        .args(args)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(here)
        .output()
        .map_err(|error| format!("{}: {error}", here.join(script).display()))
}

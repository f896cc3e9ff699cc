//! `cargo x check`: what to run before a commit. It tests only the crates that differ from `main`; CI tests all of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Crates whose integration tests start servers for minutes: of these only the unit tests run here.
const UNIT_TESTS_ONLY: &[&str] = &["keel-testkit", "keel-lab", "keel-fuzz"];

pub fn run(args: &[String]) -> Result<(), String> {
    let all = match args {
        [] => false,
        [word] if word == "--all" => true,
        _ => return Err("usage: cargo x check [--all]".into()),
    };
    let root = crate::repository();
    let started = Instant::now();
    let packages = packages(&root, &changed_files(&root)?);
    cargo(&root, &["fmt", "--all", "--", "--check"], &[])?;
    crate::tidy::run()?;
    if packages.is_empty() {
        println!("no crate differs from main");
    } else {
        test_packages(&root, &packages)?;
    }
    if all {
        cargo(&root, &["build", "--quiet", "--package", "keel"], &[])?;
        let keel = target(&root).join("debug/keel");
        let keel = keel.to_str().ok_or("the target folder's name is not UTF-8")?;
        let test = ["test", "--quiet", "--package", "keel-testkit", "--test", "differential"];
        cargo(&root, &test, &[("KEEL_BIN", keel)])?;
    }
    println!("check: passed in {} seconds", started.elapsed().as_secs());
    Ok(())
}

fn test_packages(root: &Path, packages: &BTreeSet<String>) -> Result<(), String> {
    let words = |names: &[&String]| -> Vec<String> {
        names.iter().flat_map(|name| ["--package".to_string(), (*name).clone()]).collect()
    };
    let lint = words(&packages.iter().collect::<Vec<_>>());
    let mut clippy = vec!["clippy", "--quiet", "--all-targets"];
    clippy.extend(lint.iter().map(String::as_str));
    clippy.extend(["--", "-D", "warnings"]);
    cargo(root, &clippy, &[])?;
    let (units, whole): (Vec<&String>, Vec<&String>) =
        packages.iter().partition(|name| UNIT_TESTS_ONLY.contains(&name.as_str()));
    for (names, kind) in [(whole, None), (units, Some("--lib"))] {
        if !names.is_empty() {
            let names = words(&names);
            let mut test = vec!["test", "--quiet"];
            test.extend(kind);
            test.extend(names.iter().map(String::as_str));
            cargo(root, &test, &[])?;
        }
    }
    Ok(())
}

/// Runs cargo, after a line that shows the command.
fn cargo(root: &Path, args: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    println!("cargo {}", args.join(" "));
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program).args(args).envs(variables.iter().copied()).current_dir(root).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("failed: cargo {}", args.join(" "))),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn git(root: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(args).current_dir(root).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Files that differ from where this branch left `main`, committed or not.
fn changed_files(root: &Path) -> Result<Vec<String>, String> {
    let base = git(root, &["merge-base", "HEAD", "main"])
        .or_else(|_| git(root, &["merge-base", "HEAD", "origin/main"]))
        .map_err(|error| format!("no branch main to compare with: {error}"))?;
    let changed = git(root, &["diff", "--name-only", base.trim()])?;
    let untracked = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    Ok(changed.lines().chain(untracked.lines()).map(String::from).collect())
}

/// Names of the packages that hold `files`.
fn packages(root: &Path, files: &[String]) -> BTreeSet<String> {
    files.iter().filter_map(|file| folder(file)).filter_map(|folder| package(&root.join(folder))).collect()
}

/// The folder of the crate that holds `file`.
fn folder(file: &str) -> Option<&str> {
    let rest = file.strip_prefix("crates/").or_else(|| file.strip_prefix("tools/"))?;
    let name = rest.find('/')?;
    Some(&file[..file.len() - rest.len() + name])
}

/// The package's name in the manifest of `folder`; none if the crate was removed.
fn package(folder: &Path) -> Option<String> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \""))?;
    Some(name.trim_end_matches('"').to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_packages() {
        let files = [
            "crates/storage/src/lib.rs",
            "crates/storage/tests/all/locking.rs",
            "crates/keel/Cargo.toml",
            "tools/xtask/src/check.rs",
            "tests/sql/dml.test",
            "crates/removed/src/lib.rs",
            "README.md",
        ];
        let found = packages(&crate::repository(), &files.map(String::from));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["keel", "keel-storage", "xtask"]);
    }
}

//! `cargo x tidy`: the rules of the house that no compiler checks. Each finding names its mend.
//!
//! 1. Crates import only what the arrows below allow, and `docs/ARCHITECTURE.md` shows the same arrows.
//! 2. Unsafe code only in the crates that own memory, system calls and fibers; all others forbid it.
//! 3. No file past [`LINES_MAX`] lines, no unfinished-work markers, no machine paths.
//! 4. Every path that a page of `docs/` or the README names exists, and so does every function named behind one.
//! 5. Storage and everything above reach the world only through `keel-runtime`.

use crate::circles;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINES_MAX: usize = 1200;

/// What each crate may import of the others.
const ARROWS: &[(&str, &str)] = &[
    ("base", ""),
    ("runtime", "base"),
    ("storage", "runtime base"),
    ("value", "base"),
    ("binlog", "value base"),
    ("sql", "base"),
    ("document", "value runtime base"),
    ("context", "storage value base"),
    ("catalog", "context storage sql value base"),
    ("expr", "catalog context document storage sql value base"),
    ("exec", "expr catalog context document storage sql value base"),
    ("planner", "exec expr catalog context document storage sql value base"),
    ("dml", "planner exec expr catalog context storage sql value base"),
    ("definitions", "dml planner exec expr catalog context storage sql value base"),
    ("database", "definitions dml planner exec expr catalog context document storage sql value base"),
    ("offline", "definitions catalog storage value runtime base"),
    ("wire", "value base"),
    ("tls", "runtime"),
    ("settings", "tls context storage sql value runtime base"),
    ("logs", "settings context value runtime base"),
    (
        "views",
        "database definitions exec expr catalog context logs settings tls storage sql value runtime base",
    ),
    (
        "server",
        "views database definitions planner exec expr catalog context logs settings tls wire storage sql value runtime base",
    ),
    ("keel", "server offline runtime base lab"),
];

/// Crates that may hold unsafe code.
const UNSAFE: &[&str] = &["base", "runtime", "storage"];

/// Crates in which the outside world is reached through `keel-runtime` only.
const SIMULATED: &str = "storage value binlog document context catalog sql expr exec planner dml definitions database \
                         offline tls settings logs views wire";

/// Marks of what is not finished. In two parts, so that the list does not find itself.
const UNFINISHED: [&str; 4] =
    [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("FIX", "ME"), concat!("XX", "X:")];
/// Where a machine's own paths begin.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ho", "me/")];

/// Uses of the standard library that the simulation could not see, with what to use instead.
const BANNED: &[(&str, &str)] = &[
    ("std::fs", "keel_runtime::fs"),
    ("TcpStream", "keel_runtime::net"),
    ("TcpListener", "keel_runtime::net"),
    ("UdpSocket", "keel_runtime::net"),
    ("UnixStream", "keel_runtime::net"),
    ("std::thread::spawn", "keel_runtime::fiber"),
    ("thread::sleep", "keel_runtime::fiber::sleep"),
    ("Instant::now()", "keel_runtime::time::now"),
    ("SystemTime::now()", "keel_runtime::time"),
];

/// Runs all checks over the files that git tracks.
pub fn run() -> Result<(), String> {
    let root = crate::repository();
    let files = tracked(&root)?;
    let mut findings = Vec::new();
    check_arrows(&root, &mut findings);
    check_architecture(&root, &mut findings);
    for file in &files {
        let path = file.to_string_lossy().into_owned();
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        if path.ends_with(".rs") {
            check_source(&path, &text, &mut findings);
        }
        if path.ends_with(".md") {
            check_links(&root, &path, &text, &mut findings);
            check_functions(&root, &path, &text, &mut findings);
        }
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing to mend", files.len());
        return Ok(());
    }
    Err(findings.join("\n"))
}

fn tracked(root: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("git")
        .args(["ls-files"])
        .current_dir(root)
        .output()
        .map_err(|error| error.to_string())?;
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(listing.lines().map(PathBuf::from).filter(|file| root.join(file).exists()).collect())
}

fn check_arrows(root: &Path, findings: &mut Vec<String>) {
    for (name, allowed) in ARROWS {
        circles::check(root, name, findings);
        let manifest = root.join("crates").join(name).join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&manifest) else {
            findings.push(format!(
                "crates/{name}: no Cargo.toml; ARROWS in tidy.rs names a crate that is not there"
            ));
            continue;
        };
        let regular = text.split("[dev-dependencies]").next().unwrap_or_default();
        for line in regular.lines() {
            let Some(import) = line.strip_prefix("keel-") else { continue };
            let import: String = import.chars().take_while(char::is_ascii_alphanumeric).collect();
            if !allowed.split(' ').any(|name| name == import) {
                findings.push(format!(
                    "crates/{name} imports keel-{import}: no such arrow; move the code or argue for the arrow"
                ));
            }
        }
    }
}

/// The page that explains the crates has a row for each, with its arrows in the last column.
fn check_architecture(root: &Path, findings: &mut Vec<String>) {
    let page = "docs/ARCHITECTURE.md";
    let text = fs::read_to_string(root.join(page)).unwrap_or_default();
    for (name, allowed) in ARROWS {
        let start = format!("| `{name}` |");
        let row = text.lines().find(|line| line.starts_with(&start));
        let last = row.and_then(|row| row.trim_end_matches('|').rsplit('|').next());
        let shown: Option<Vec<&str>> = last.map(|cell| cell.split('`').skip(1).step_by(2).collect());
        let allowed: Vec<&str> = allowed.split(' ').filter(|name| !name.is_empty()).collect();
        if shown.as_ref() != Some(&allowed) {
            findings
                .push(format!("{page}: the row of `{name}` is not what ARROWS in tidy.rs says: {allowed:?}"));
        }
    }
}

fn check_source(path: &str, text: &str, findings: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        findings.push(format!("{path}: {lines} lines; ask which second subject moved in and give it a file"));
    }
    let crate_name = path.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
    let in_source = path.contains("/src/");
    if let Some(name) = crate_name.filter(|_| in_source) {
        let is_root = path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
        if is_root && !UNSAFE.contains(&name) && !text.contains("#![forbid(unsafe_code)]") && name != "keel" {
            findings.push(format!("{path}: begin with #![forbid(unsafe_code)]"));
        }
        if is_root && !text.starts_with("//!") {
            findings.push(format!("{path}: say at the top what this crate is for"));
        }
        if SIMULATED.split(' ').any(|simulated| simulated == name) {
            for (ban, instead) in BANNED {
                for (number, _) in text.lines().enumerate().filter(|(_, line)| uses(line, ban)) {
                    findings.push(format!(
                        "{path}:{}: {ban} is invisible to the simulation: use {instead}",
                        number + 1
                    ));
                }
            }
        }
    }
    for (number, line) in text.lines().enumerate() {
        for marker in UNFINISHED {
            if line.contains(marker) {
                findings.push(format!(
                    "{path}:{}: {marker} stands here: finish it, or answer error 1235",
                    number + 1
                ));
            }
        }
        if MACHINE_PATHS.iter().any(|path| line.contains(path)) {
            findings.push(format!("{path}:{}: a path of somebody's machine", number + 1));
        }
    }
}

fn uses(line: &str, ban: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.contains(ban)
}

/// Back-quoted paths such as `crates/storage/src/lib.rs` and relative links must lead somewhere.
fn check_links(root: &Path, path: &str, text: &str, findings: &mut Vec<String>) {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    for (number, line) in text.lines().enumerate() {
        let quoted = line.split('`').skip(1).step_by(2).filter(|word| {
            ["crates/", "tools/", "tests/", "docs/", "bench/", "fuzz/"]
                .iter()
                .any(|start| word.starts_with(start))
                && !word.contains(['*', ' ', '<', '{'])
        });
        for word in quoted {
            let file = word.split([':', '#']).next().unwrap_or(word);
            if !root.join(file).exists() {
                findings.push(format!("{path}:{}: `{word}` does not exist", number + 1));
            }
        }
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or(target);
            if !file.is_empty() && !file.contains("://") && !root.join(folder).join(file).exists() {
                findings.push(format!("{path}:{}: the link to {target} leads nowhere", number + 1));
            }
        }
    }
}

/// Where a page says `a/file.rs`: `function`, the file has such a function.
fn check_functions(root: &Path, path: &str, text: &str, findings: &mut Vec<String>) {
    let parts: Vec<&str> = text.split('`').collect();
    for around in parts.windows(3).filter(|around| around[0].ends_with(".rs") && around[1].trim() == ":") {
        let (file, name) = (around[0], around[2].rsplit("::").next().unwrap_or_default());
        let Ok(source) = fs::read_to_string(root.join(file)) else { continue };
        let has = [format!("fn {name}("), format!("fn {name}<")].iter().any(|start| source.contains(start));
        if !has {
            findings.push(format!("{path}: `{file}` has no function {name}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banned_call_is_found_and_a_comment_is_not() {
        let mut findings = Vec::new();
        check_source("crates/storage/src/x.rs", "use std::fs;\n// a TcpStream is not used\n", &mut findings);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("keel_runtime::fs"));
    }

    #[test]
    fn a_function_that_is_gone_is_found() {
        let mut findings = Vec::new();
        let text = "`tools/xtask/src/tidy.rs`: `run`, then\n`tools/xtask/src/tidy.rs`:\n`Tidy::walk`";
        check_functions(&crate::repository(), "docs/x.md", text, &mut findings);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("walk"), "{findings:?}");
    }

    #[test]
    fn a_dead_path_in_a_page_is_found() {
        let mut findings = Vec::new();
        let root = crate::repository();
        check_links(
            &root,
            "README.md",
            "see `crates/nowhere/src/lib.rs` and `tools/xtask/src/tidy.rs`",
            &mut findings,
        );
        assert_eq!(findings.len(), 1);
    }
}

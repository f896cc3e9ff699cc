//! `cargo x engine`: measures what the engine promises beyond speed (pressure, long readers, recovery, memory), on Keel and,
//! where it can be compared, on MariaDB, and writes the figures into `docs/engine.md`.
//!
//! A claim is a [`Part`] in a file of its own. It measures and gives a section of Markdown, which replaces what stands
//! between the marks `<!-- NAME -->` and `<!-- /NAME -->`; where a part is run for the first time, they are put at the end.
//! `--quick` makes all of it small and short: it shows that the command works, and its figures are printed, not written.
//! `--alone` leaves MariaDB out where it takes most of the time and the claim is about Keel.

pub(crate) mod figures;
mod history;
mod memory;
mod pressure;
mod recovery;

use std::fs;
use std::process::Command;

/// How much is measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Small data and short runs.
    pub quick: bool,
    /// Keel alone where MariaDB takes long and is no part of the claim.
    pub alone: bool,
}

/// One claim.
struct Part {
    /// Its name on the command line and in the document's marks.
    name: &'static str,
    /// Measures; gives the section, headline included, or what failed.
    run: fn(&Options) -> Result<String, String>,
}

/// All claims, in the order of the document.
const PARTS: &[Part] = &[
    Part { name: "pressure", run: pressure::run },
    Part { name: "steady", run: pressure::steady },
    Part { name: "history", run: history::run },
    Part { name: "recovery", run: recovery::run },
    Part { name: "memory", run: memory::run },
];

/// The document.
pub const DOCUMENT: &str = "docs/engine.md";

/// Parses the command line and runs.
pub fn run(args: &[String]) -> Result<(), String> {
    let (options, parts) = parse(args)?;
    let path = crate::repository().join(DOCUMENT);
    for part in parts {
        let section = (part.run)(&options).map_err(|error| format!("{}: {error}", part.name))?;
        println!("{section}");
        if options.quick {
            continue;
        }
        // Read anew each time: a part takes minutes, in which others may write theirs.
        let document = fs::read_to_string(&path).map_err(|error| format!("{DOCUMENT}: {error}"))?;
        let section = format!("{}\n\n{}", section.trim(), provenance());
        fs::write(&path, replace(&document, part.name, &section)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn parse(args: &[String]) -> Result<(Options, Vec<&'static Part>), String> {
    let mut options = Options::default();
    let mut parts: Vec<&Part> = PARTS.iter().collect();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => options.quick = true,
            "--alone" => options.alone = true,
            "--only" => {
                let name = args.next().ok_or("--only needs a name")?;
                parts.retain(|part| part.name == name);
                if parts.is_empty() {
                    let all: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
                    return Err(format!("no part named {name}; there are {}", all.join(", ")));
                }
            }
            _ => return Err(format!("no such option: {arg}")),
        }
    }
    Ok((options, parts))
}

/// Where figures come from.
fn provenance() -> String {
    let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    format!("Commit {}, {cores} cores; the clients run on the same machine.", commit.unwrap_or_default())
}

/// The document with `section` between the marks of `name`.
pub fn replace(document: &str, name: &str, section: &str) -> String {
    let (open, close) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let body = format!("{open}\n{}\n{close}", section.trim());
    let found = document.find(&open).zip(document.find(&close));
    match found.filter(|(from, to)| from < to) {
        Some((from, to)) => format!("{}{body}{}", &document[..from], &document[to + close.len()..]),
        None => format!("{}\n\n{body}\n", document.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_or_added() {
        let first = replace("# Title\n", "a", "one");
        assert_eq!(first, "# Title\n\n<!-- a -->\none\n<!-- /a -->\n");
        let second = replace(&replace(&first, "b", "two"), "a", "three\n");
        assert_eq!(second, "# Title\n\n<!-- a -->\nthree\n<!-- /a -->\n\n<!-- b -->\ntwo\n<!-- /b -->\n");
    }

    #[test]
    fn options_are_read_and_bad_ones_named() {
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
        let (options, parts) = parse(&words("--quick --only pressure")).unwrap();
        assert!(options.quick && parts.len() == 1);
        assert!(parse(&words("--only nothing")).is_err());
        assert!(parse(&words("--what")).is_err());
    }
}

//! Reports of what runs left: Markdown, HTML, a comparison of two folders, the rows of `docs/experiments.md`.
//!
//! They are made of `results.jsonl` alone. `load` reads it, `study` orders the runs of a scenario and estimates ratios,
//! `verdict` asks the report's claims of them, `table` and `plots` show both. Names come from files and are escaped
//! where they are shown; nothing in a file can make a panic.

mod compare;
mod curves;
mod experiments;
#[cfg(test)]
pub(crate) mod fixture;
mod html;
mod load;
mod loads;
mod markdown;
mod plots;
mod ratios;
mod regret;
mod strips;
mod study;
mod svg;
mod table;
#[cfg(test)]
mod tests;
mod verdict;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

pub use experiments::experiments;

/// Writes `report.md` and `report.html` into each folder and prints its tables. A folder that cannot be read does not keep the
/// others from theirs; it is the error.
pub fn report(dirs: &[PathBuf]) -> Result<(), String> {
    if dirs.is_empty() {
        return Err("name the folders that `keel lab run` wrote".to_owned());
    }
    let errors: Vec<String> = dirs.iter().filter_map(|dir| report_one(dir).err()).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

fn report_one(dir: &Path) -> Result<(), String> {
    let loaded = load::load(dir)?;
    let mut studies = study::studies(loaded.runs);
    study::add_skipped(&mut studies, &loaded.skipped);
    let text = markdown::page(&studies, &loaded.notes);
    let (page, html) = (dir.join("report.md"), dir.join("report.html"));
    write(&page, &text)?;
    write(&html, &html::page(&studies, &loaded.notes))?;
    println!("{text}\nWritten: {} and {}", page.display(), html.display());
    Ok(())
}

/// Prints what changed from one folder to the other, and whether they agree within their intervals.
pub fn compare(a: &Path, b: &Path) -> Result<(), String> {
    print!("{}", compare::page(a, b)?);
    Ok(())
}

/// Whole or not at all: a report that was there stays until the new one is.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        format!("{}: {error}", path.display())
    })
}

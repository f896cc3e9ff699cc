//! Reports of what runs left: Markdown, HTML, a comparison of two folders, the rows of `docs/experiments.md`.
//!
//! They are made of `results.jsonl` alone. [`load`] reads it, [`study`] orders the runs of a scenario and estimates ratios,
//! [`verdict`] asks the report's claims of them, [`table`] and [`plots`] show both. Names come from files and are escaped
//! where they are shown; nothing in a file can make a panic.

mod compare;
mod experiments;
#[cfg(test)]
pub(crate) mod fixture;
mod html;
mod load;
mod markdown;
mod plots;
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

/// `keel lab report [--experiments FILE] DIR...`.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut dirs = Vec::new();
    let mut page = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--experiments" => page = Some(PathBuf::from(args.next().ok_or("--experiments needs a file")?)),
            option if option.starts_with("--experiments=") => {
                page = Some(PathBuf::from(option.trim_start_matches("--experiments=")));
            }
            option if option.starts_with('-') => return Err(format!("unknown option {option}")),
            dir => dirs.push(PathBuf::from(dir)),
        }
    }
    match page {
        Some(page) => write_experiments(&page, &dirs),
        None => report(&dirs),
    }
}

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
    let studies = study::studies(loaded.runs);
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

const BEGIN: &str = "<!-- The rows below are written by `keel lab report --experiments`. -->";
const END: &str = "<!-- End of the written rows. -->";

/// Writes the rows of [`experiments`] into a page: between its marks, or as a new page.
pub fn write_experiments(page: &Path, dirs: &[PathBuf]) -> Result<(), String> {
    if dirs.is_empty() {
        return Err("name the folders that `keel lab run` wrote".to_owned());
    }
    let rows = format!("{BEGIN}\n\n{}\n{END}", experiments(dirs));
    let text = match fs::read_to_string(page) {
        Ok(text) => match (text.find(BEGIN), text.find(END)) {
            (Some(begin), Some(end)) if begin < end => {
                format!("{}{rows}{}", &text[..begin], &text[end + END.len()..])
            }
            _ => return Err(format!("{} has no line `{BEGIN}` with `{END}` after it", page.display())),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => format!(
            "# Experiments\n\nThe five reports' experiments, measured again by `keel lab`. Ratios are medians over pairs with their 95 %\ninterval; the method is in [LAB.md](LAB.md).\n\n{rows}\n"
        ),
        Err(error) => return Err(format!("{}: {error}", page.display())),
    };
    write(page, &text)?;
    println!("Written: {}", page.display());
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

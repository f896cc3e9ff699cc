//! Reads what runs left in a folder.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::record::{FORMAT, Measurement};

/// What a folder holds.
#[derive(Debug)]
pub struct Loaded {
    /// In the order of the file.
    pub runs: Vec<Measurement>,
    /// What is to be said of the file: lines that were left out.
    pub notes: Vec<String>,
    /// What the lab could not run.
    pub skipped: Vec<Skipped>,
}

/// What the lab could not run, such as an arm whose server is not installed.
#[derive(Debug, Clone, PartialEq)]
pub struct Skipped {
    /// Of which scenario.
    pub scenario: String,
    /// Of the short form or the full one.
    pub quick: bool,
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

/// A line longer than this is no measurement: an hour of seconds and all variables are a few hundred KiB.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Reads `DIR/results.jsonl`. A line that was cut is left out and noted; one of another format is an error.
pub fn load(dir: &Path) -> Result<Loaded, String> {
    let path = dir.join("results.jsonl");
    let shown = path.display();
    let file = File::open(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("{shown} is not there: {} is no folder that `keel lab run` wrote", dir.display())
        }
        _ => format!("{shown}: {error}"),
    })?;
    let mut reader = BufReader::new(file);
    let mut loaded = Loaded { runs: Vec::new(), notes: Vec::new(), skipped: skipped(dir) };
    let mut number = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let limited = &mut std::io::Read::take(&mut reader, LINE_BYTES_MAX as u64);
        let read = limited.read_until(b'\n', &mut line).map_err(|error| format!("{shown}: {error}"))?;
        if read == 0 {
            break;
        }
        number += 1;
        if read == LINE_BYTES_MAX {
            return Err(format!(
                "{shown}, line {number}: longer than {LINE_BYTES_MAX} bytes: no measurement"
            ));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let whole = line.last() == Some(&b'\n');
        match parse(&line).map_err(|error| format!("{shown}, line {number}: {error}"))? {
            Ok(run) => loaded.runs.push(run),
            Err(_) if !whole => {
                loaded.notes.push(format!("The last line of {shown} was cut and is left out."))
            }
            Err(error) => {
                loaded.notes.push(format!("Line {number} of {shown} is damaged and left out: {error}."));
            }
        }
    }
    if loaded.runs.is_empty() {
        let lines = if number == 0 { "it is empty" } else { "no line of it can be read" };
        return Err(format!("{shown} has no measurement: {lines}"));
    }
    Ok(loaded)
}

/// A measurement; or why the line is damaged; or, outside, why all of the file must be refused.
fn parse(line: &[u8]) -> Result<Result<Measurement, String>, String> {
    let value: serde_json::Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    match format {
        Some(format) if format == u64::from(FORMAT) => {}
        Some(format) => {
            return Err(format!(
                "format {format}, and this keel reads format {FORMAT}: use the keel that wrote it, or measure again"
            ));
        }
        None => return Err("no measurement of the lab: it does not name its format".to_owned()),
    }
    Ok(serde_json::from_value(value).map_err(|error| error.to_string()))
}

/// What `lab.json` says beside the results; nothing where it is not there or not understood, for the results do not need it.
fn skipped(dir: &Path) -> Vec<Skipped> {
    let facts: Option<serde_json::Value> =
        std::fs::read(dir.join("lab.json")).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let Some(facts) = facts else { return Vec::new() };
    let scenario = facts["scenario"].as_str().unwrap_or_default();
    let quick = facts["quick"].as_bool().unwrap_or(false);
    let list = facts["skipped"].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .filter_map(|skipped| {
            let (what, why) = (skipped["what"].as_str()?.to_owned(), skipped["why"].as_str()?.to_owned());
            Some(Skipped { scenario: scenario.to_owned(), quick, what, why })
        })
        .collect()
}

//! The journal: `results.jsonl`, a [`Measurement`] a line, each on the disk before the next run begins. A run that was cut off goes on
//! behind what is there; runs that had trouble are made again, and their lines replaced.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::record::{FORMAT, Measurement};

/// Name of the journal in its folder.
pub const FILE: &str = "results.jsonl";
/// Name of the journal of a search's trials.
pub const TRIALS: &str = "trials.jsonl";

/// What is remembered of a run.
#[derive(Debug, Clone)]
struct Kept {
    tps: f64,
    settings: Vec<String>,
}

impl Kept {
    fn of(m: &Measurement) -> ((String, String, u32), Kept) {
        let kept = Kept { tps: m.result.tps, settings: m.server.settings.clone() };
        ((m.arm.clone(), m.cell.clone(), m.pair), kept)
    }
}

/// An open journal.
pub struct Journal {
    file: File,
    path: PathBuf,
    done: HashMap<(String, String, u32), Kept>,
    last_order: u32,
    /// The seed of what is there already.
    pub seed: Option<u64>,
}

impl Journal {
    /// Opens the journal of a folder for a scenario; measurements of anything else are refused.
    pub fn open(folder: &Path, scenario: &str, quick: bool) -> Result<Journal, String> {
        Journal::open_file(folder, FILE, scenario, quick)
    }

    /// Opens a journal of another name.
    pub fn open_file(folder: &Path, file: &str, scenario: &str, quick: bool) -> Result<Journal, String> {
        let path = folder.join(file);
        let text = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(folder).map_err(text)?;
        let before = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(text)?,
        };
        let (lines, kept) =
            kept(&before, scenario, quick).map_err(|why| format!("{}: {why}", path.display()))?;
        rewrite(&path, &lines).map_err(text)?;
        let file = File::options().append(true).open(&path).map_err(text)?;
        let done = kept.iter().map(Kept::of).collect();
        let last_order = kept.iter().map(|m| m.order).max().unwrap_or(0);
        // Each pair has a seed of its own, that of the run plus its number.
        let seed = kept.first().map(|m| m.seed.wrapping_sub(u64::from(m.pair)));
        Ok(Journal { file, path, done, last_order, seed })
    }

    /// Whether this run has been made.
    pub fn has(&self, arm: &str, cell: &str, pair: u32) -> bool {
        self.find(arm, cell, pair).is_some()
    }

    fn find(&self, arm: &str, cell: &str, pair: u32) -> Option<&Kept> {
        self.done.get(&(arm.to_string(), cell.to_string(), pair))
    }

    /// The transactions a second and the settings of a run that has been made.
    pub fn run(&self, arm: &str, cell: &str, pair: u32) -> Option<(f64, &[String])> {
        self.find(arm, cell, pair).map(|kept| (kept.tps, kept.settings.as_slice()))
    }

    /// The most transactions a second that an arm did in this pair in the cells of such names; of another pair where it has none in this.
    pub fn peak(&self, arm: &str, pair: u32, is_cell: impl Fn(&str) -> bool) -> Option<f64> {
        let of = |wanted: Option<u32>| {
            let runs = self.done.iter().filter(|((has, cell, pair), _)| {
                has == arm && is_cell(cell) && wanted.is_none_or(|wanted| wanted == *pair)
            });
            runs.map(|(_, kept)| kept.tps).max_by(f64::total_cmp)
        };
        of(Some(pair)).or_else(|| of(None))
    }

    /// The place of the next run in the order of all.
    pub fn next_order(&self) -> u32 {
        self.last_order + 1
    }

    /// Appends a measurement; it is on the disk when this returns.
    pub fn add(&mut self, measurement: &Measurement) -> Result<(), String> {
        let mut line = serde_json::to_string(measurement).map_err(|error| error.to_string())?;
        line.push('\n');
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.last_order = self.last_order.max(measurement.order);
        if measurement.trouble.is_none() {
            let (key, kept) = Kept::of(measurement);
            self.done.insert(key, kept);
        }
        Ok(())
    }
}

/// The lines that stay, and what they say; a last line that was cut off does not.
fn kept<'a>(text: &'a str, scenario: &str, quick: bool) -> Result<(Vec<&'a str>, Vec<Measurement>), String> {
    let (mut stay, mut kept) = (Vec::new(), Vec::new());
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let measurement: Measurement = match serde_json::from_str(line) {
            Ok(measurement) => measurement,
            Err(_) if index + 1 == lines.len() => break,
            Err(error) => return Err(format!("line {}: {error}", index + 1)),
        };
        if measurement.format != FORMAT {
            return Err(format!("format {} is not {FORMAT}", measurement.format));
        }
        if (measurement.scenario.as_str(), measurement.quick) != (scenario, quick) {
            let form = if measurement.quick { "--quick" } else { "--full" };
            return Err(format!("holds {} {form}; choose another --out", measurement.scenario));
        }
        if measurement.trouble.is_none() {
            stay.push(*line);
            kept.push(measurement);
        }
    }
    Ok((stay, kept))
}

/// Writes the journal anew, by a file beside it.
fn rewrite(path: &Path, kept: &[&str]) -> std::io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    for line in kept {
        writeln!(file, "{line}")?;
    }
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_testkit::process::scratch_dir;

    fn measurement(arm: &str, pair: u32, order: u32) -> Measurement {
        Measurement {
            format: FORMAT,
            scenario: "s".into(),
            quick: true,
            arm: arm.into(),
            cell: "c".into(),
            x: None,
            pair,
            order,
            started: String::new(),
            seed: 40 + u64::from(pair),
            workload: String::new(),
            clients: 1,
            server: Default::default(),
            machine: Default::default(),
            result: Default::default(),
            cost: Default::default(),
            trouble: None,
        }
    }

    #[test]
    fn a_rerun_goes_on_behind_what_is_there() {
        let folder = scratch_dir("journal");
        let mut journal = Journal::open(&folder, "s", true).unwrap();
        assert_eq!((journal.next_order(), journal.seed), (1, None));
        journal.add(&measurement("a", 1, 1)).unwrap();
        journal.add(&Measurement { trouble: Some("it ended".into()), ..measurement("b", 1, 2) }).unwrap();
        assert!(journal.has("a", "c", 1) && !journal.has("b", "c", 1));
        drop(journal);
        let path = folder.join(FILE);
        let mut text = fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap().to_string();
        text += "{\"format\":1,\"scena";
        fs::write(&path, text).unwrap();
        let journal = Journal::open(&folder, "s", true).unwrap();
        assert!(journal.has("a", "c", 1) && !journal.has("b", "c", 1) && !journal.has("a", "c", 2));
        assert_eq!((journal.next_order(), journal.seed), (2, Some(40)));
        assert_eq!(fs::read_to_string(&path).unwrap(), first + "\n", "a line stays as it was written");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_peak_is_of_the_same_pair_where_it_has_one() {
        let folder = scratch_dir("journal");
        let mut journal = Journal::open(&folder, "s", true).unwrap();
        for (cell, pair, tps) in [("few", 1, 10.0), ("many", 1, 30.0), ("many", 2, 20.0), ("others", 2, 90.0)]
        {
            let mut measured = measurement("a", pair, pair);
            (measured.cell, measured.result.tps) = (cell.into(), tps);
            journal.add(&measured).unwrap();
        }
        let is_cell = |cell: &str| cell != "others";
        let peak = |arm: &str, pair: u32| journal.peak(arm, pair, is_cell);
        assert_eq!(
            (peak("a", 1), peak("a", 2), peak("a", 3), peak("b", 1)),
            (Some(30.0), Some(20.0), Some(30.0), None)
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn another_scenario_is_refused() {
        let folder = scratch_dir("journal");
        Journal::open(&folder, "s", true).unwrap().add(&measurement("a", 1, 1)).unwrap();
        for (scenario, quick) in [("t", true), ("s", false)] {
            let error = Journal::open(&folder, scenario, quick).err().unwrap();
            assert!(error.contains("choose another --out"), "{error}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}

//! Runs of one scenario, ordered for reading: arms, cells, the runs of each, ratios to the reference arm.

use std::collections::BTreeMap;

use crate::found::{self, Figure, Found};
use crate::record::Measurement;
use crate::report::load::Skipped;
use crate::report::words;
use crate::stats::{self, Estimate};

/// An arm of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// The engine's.
    pub engine: String,
    /// Its name without the engine's.
    pub setting: String,
}

/// What else varied.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Its name; empty where nothing varied.
    pub name: String,
    /// Its place on an axis.
    pub x: Option<f64>,
}

/// The runs of an arm in a cell that can be trusted, by pair.
#[derive(Debug, Default)]
pub struct Group {
    /// One for each pair.
    pub runs: BTreeMap<u32, Measurement>,
    /// The scenario's figure with its interval.
    pub level: Option<Estimate>,
    /// What it is of the reference arm in the same pairs.
    pub ratio: Option<Estimate>,
}

impl Group {
    /// The median of a figure over the runs that have it.
    pub fn median(&self, of: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.runs.values().filter_map(of).collect();
        stats::median(&values)
    }

    /// Errors that clients saw, of all runs.
    pub fn errors(&self) -> u64 {
        self.runs.values().fold(0, |sum, run| sum.saturating_add(run.result.errors))
    }

    /// The run whose figure is the median, or the lower of the two in the middle.
    pub fn typical(&self, figure: Figure) -> Option<&Measurement> {
        let mut runs: Vec<&Measurement> = self.runs.values().collect();
        runs.sort_by(|a, b| figure.of(a).unwrap_or(0.0).total_cmp(&figure.of(b).unwrap_or(0.0)));
        runs.get(runs.len().saturating_sub(1) / 2).copied()
    }
}

/// A scenario's runs of one length, short or full.
#[derive(Debug)]
pub struct Study {
    /// The scenario's name.
    pub scenario: String,
    /// Whether runs were the short ones.
    pub quick: bool,
    /// What its report says.
    pub found: Option<Found>,
    /// What arms are compared by.
    pub figure: Figure,
    /// The arm that others are divided by, in [`Study::arms`].
    pub reference: usize,
    /// In the order in which they first ran.
    pub arms: Vec<Arm>,
    /// By their place on the axis, then by their first run.
    pub cells: Vec<Cell>,
    /// By arm and cell.
    pub groups: BTreeMap<(usize, usize), Group>,
    /// What is missing or not to be trusted.
    pub notes: Vec<String>,
    /// Arms that the lab could not run at all, and why.
    pub skipped: Vec<String>,
}

/// Gives what the lab left out to the study that it belongs to.
pub fn add_skipped(studies: &mut [Study], skipped: &[Skipped]) {
    for skipped in skipped {
        let of = |study: &&mut Study| study.scenario == skipped.scenario && study.quick == skipped.quick;
        let Some(study) = studies.iter_mut().find(of) else { continue };
        study.skipped.push(format!("{} was left out: {}.", skipped.what, skipped.why.trim_end_matches('.')));
    }
}

/// Splits runs by scenario and length, in the order of their first runs.
pub fn studies(runs: Vec<Measurement>) -> Vec<Study> {
    let mut parts: Vec<((String, bool), Vec<Measurement>)> = Vec::new();
    for run in runs {
        let key = (run.scenario.clone(), run.quick);
        match parts.iter_mut().find(|(of, _)| *of == key) {
            Some((_, part)) => part.push(run),
            None => parts.push((key, vec![run])),
        }
    }
    parts.into_iter().map(|(_, runs)| Study::new(runs)).collect()
}

impl Study {
    /// Of the runs of one scenario and length, at least one.
    fn new(mut runs: Vec<Measurement>) -> Study {
        runs.sort_by_key(|run| run.order);
        let scenario = runs.first().map(|run| run.scenario.clone()).unwrap_or_default();
        let found = found::of(&scenario);
        let mut study = Study {
            quick: runs.first().is_some_and(|run| run.quick),
            figure: figure(found.as_ref(), &runs),
            arms: arms(&runs),
            cells: cells(&runs),
            groups: BTreeMap::new(),
            notes: Vec::new(),
            skipped: Vec::new(),
            reference: 0,
            scenario,
            found,
        };
        study.reference = study.find_reference();
        study.sort_into_groups(runs);
        study.estimate();
        study.note_missing();
        study.note_differences();
        study
    }

    /// `default-vs-tuned, quick`.
    pub fn title(&self) -> String {
        format!("{}{}", self.scenario, if self.quick { ", quick" } else { "" })
    }

    /// The runs of an arm in a cell, where there are any that can be trusted.
    pub fn group(&self, arm: usize, cell: usize) -> Option<&Group> {
        self.groups.get(&(arm, cell)).filter(|group| !group.runs.is_empty())
    }

    /// All runs that can be trusted.
    pub fn runs(&self) -> impl Iterator<Item = &Measurement> {
        self.groups.values().flat_map(|group| group.runs.values())
    }

    /// Whether transactions came at a rate of their own in a cell.
    pub fn is_open(&self, cell: usize) -> bool {
        let open = |arm: usize| {
            self.group(arm, cell).is_some_and(|group| {
                group.runs.values().any(|run| run.result.more.contains_key(crate::runner::OFFERED))
            })
        };
        (0..self.arms.len()).any(open)
    }

    /// Any run of an arm.
    pub fn run_of(&self, arm: usize) -> Option<&Measurement> {
        (0..self.cells.len()).find_map(|cell| self.group(arm, cell)?.runs.values().next())
    }

    /// The most pairs that any arm ran in any cell.
    pub fn pairs(&self) -> usize {
        self.groups.values().map(|group| group.runs.len()).max().unwrap_or(0)
    }

    /// The reference by the report's settings, MariaDB's before others'; else the first arm that is no Keel, else the first.
    fn find_reference(&self) -> usize {
        let wanted = self.found.as_ref().map(|found| found.reference).unwrap_or_default();
        let place = |engine: Option<&str>, setting: &str| {
            self.arms.iter().position(|arm| {
                arm.setting == setting && engine.is_none_or(|engine| arm.engine.eq_ignore_ascii_case(engine))
            })
        };
        let by_engine = |engine| wanted.iter().find_map(|setting| place(engine, setting));
        let other = || self.arms.iter().position(|arm| !arm.engine.eq_ignore_ascii_case("keel"));
        let found =
            by_engine(Some("mariadb")).or_else(|| by_engine(Some("mysql"))).or_else(|| by_engine(None));
        found.or_else(other).unwrap_or(0)
    }

    fn sort_into_groups(&mut self, runs: Vec<Measurement>) {
        let mut troubles: Vec<(String, String, Vec<String>)> = Vec::new();
        for run in runs {
            let arm = self.arms.iter().position(|arm| arm.name == run.arm);
            let cell = self.cells.iter().position(|cell| cell.name == run.cell);
            let (Some(arm), Some(cell)) = (arm, cell) else { continue };
            let place = place(&run);
            if let Some(trouble) = &run.trouble {
                let same = |of: &&mut (String, String, Vec<String>)| of.0 == run.arm && of.1 == *trouble;
                match troubles.iter_mut().find(same) {
                    Some((_, _, places)) => places.push(place),
                    None => troubles.push((run.arm.clone(), trouble.clone(), vec![place])),
                }
                continue;
            }
            let group = self.groups.entry((arm, cell)).or_default();
            if group.runs.insert(run.pair, run).is_some() {
                self.notes.push(format!("{place} was measured twice; the later run counts."));
            }
        }
        for (arm, trouble, places) in troubles {
            let trouble = trouble.trim_end_matches('.');
            // Each place where they are few, else how many.
            self.notes.extend(match places.as_slice() {
                few if few.len() <= 3 => {
                    few.iter().map(|place| format!("{place} is left out: {trouble}.")).collect()
                }
                many => vec![format!("{arm}: {} runs are left out: {trouble}.", many.len())],
            });
        }
    }

    fn estimate(&mut self) {
        let figure = self.figure;
        let mut unusable = Vec::new();
        for cell in 0..self.cells.len() {
            let reference: BTreeMap<u32, f64> = self.values(self.reference, cell, figure);
            for arm in 0..self.arms.len() {
                let values = self.values(arm, cell, figure);
                let (ratios, left_out) = divide(&values, &reference);
                if left_out > 0 && arm != self.reference {
                    unusable.push((arm, cell, left_out));
                }
                let Some(group) = self.groups.get_mut(&(arm, cell)) else { continue };
                group.level = stats::estimate(&values.values().copied().collect::<Vec<_>>());
                group.ratio = if arm == self.reference { None } else { stats::estimate(&ratios) };
            }
        }
        for (arm, cell, left_out) in unusable {
            let (pairs, place) = (words::count(left_out, "pair"), self.place(arm, cell));
            let reference = &self.arms[self.reference].name;
            self.notes.push(format!("{place}: {pairs} without a figure of {reference} to divide by."));
        }
    }

    /// A figure of an arm in a cell by pair.
    pub fn values(&self, arm: usize, cell: usize, figure: Figure) -> BTreeMap<u32, f64> {
        let Some(group) = self.groups.get(&(arm, cell)) else { return BTreeMap::new() };
        group.runs.iter().filter_map(|(pair, run)| Some((*pair, figure.of(run)?))).collect()
    }

    fn place(&self, arm: usize, cell: usize) -> String {
        let (arm, cell) = (&self.arms[arm].name, &self.cells[cell].name);
        if cell.is_empty() { arm.clone() } else { format!("{arm}, {cell}") }
    }

    /// Arms that lack cells or pairs that others have.
    fn note_missing(&mut self) {
        let most = self.pairs();
        let mut notes = Vec::new();
        for arm in 0..self.arms.len() {
            let lacking: Vec<String> = (0..self.cells.len())
                .filter(|cell| self.group(arm, *cell).is_none())
                .map(|cell| self.cells[cell].name.clone())
                .collect();
            let name = &self.arms[arm].name;
            if lacking.len() == self.cells.len() {
                notes.push(format!("{name} is missing: no run of it can be used."));
            } else if !lacking.is_empty() {
                notes.push(format!("{name} is missing in {}.", words::list(&lacking)));
            }
            for cell in 0..self.cells.len() {
                let count = self.group(arm, cell).map_or(0, |group| group.runs.len());
                if count > 0 && count < most {
                    let (place, pairs) = (self.place(arm, cell), words::count(count, "pair"));
                    notes.push(format!("{place}: {pairs}, others have {most}."));
                }
            }
        }
        if most == 1 {
            notes.push(
                "Each arm ran once: ratios have no interval, and nothing here tells noise from difference."
                    .into(),
            );
        } else if (2..=3).contains(&most) {
            notes.push(format!("{most} pairs: intervals are wide; five pairs or more narrow them."));
        }
        self.notes.extend(notes);
    }

    /// What should be the same for all runs and is not.
    fn note_differences(&mut self) {
        let mut machines: Vec<String> = Vec::new();
        for run in self.runs() {
            // File system and scheduler are what some scenarios vary.
            let of = &run.machine;
            let machine = format!("{}, {} cores, Linux {}", of.processor, of.cores, of.kernel);
            if !machines.contains(&machine) {
                machines.push(machine);
            }
        }
        if machines.len() > 1 {
            let all = machines.join("; ");
            self.notes.push(format!("Runs of different machines stand side by side: {all}."));
        }
    }
}

/// A machine in a line.
pub fn machine(machine: &crate::record::Machine) -> String {
    format!(
        "{}, {}, {} of memory, Linux {}, {}{}{}",
        machine.processor,
        words::count(machine.cores as usize, "core"),
        words::bytes(machine.memory as f64),
        machine.kernel,
        machine.file_system,
        machine
            .scheduler
            .as_ref()
            .map(|scheduler| format!(", I/O scheduler {scheduler}"))
            .unwrap_or_default(),
        machine.client_cores.as_ref().map(|cores| format!(", clients on core {cores}")).unwrap_or_default(),
    )
}

fn place(run: &Measurement) -> String {
    let cell = if run.cell.is_empty() { String::new() } else { format!(", {}", run.cell) };
    format!("{}{cell}, pair {}", run.arm, run.pair)
}

/// Ratios pair by pair, and how many pairs had nothing to divide by.
pub fn divide(values: &BTreeMap<u32, f64>, by: &BTreeMap<u32, f64>) -> (Vec<f64>, usize) {
    let ratios: Vec<f64> = values
        .iter()
        .filter_map(|(pair, value)| by.get(pair).filter(|by| **by > 0.0).map(|by| value / by))
        .filter(|ratio| ratio.is_finite())
        .collect();
    let left_out = values.len() - ratios.len();
    (ratios, left_out)
}

/// The scenario's figure, or transactions where its runs do not have it.
fn figure(found: Option<&Found>, runs: &[Measurement]) -> Figure {
    let wanted = found.map_or(Figure::Transactions, |found| found.figure);
    let measured = runs.iter().filter(|run| run.trouble.is_none()).all(|run| wanted.of(run).is_some());
    if measured { wanted } else { Figure::Transactions }
}

fn arms(runs: &[Measurement]) -> Vec<Arm> {
    let mut arms: Vec<Arm> = Vec::new();
    for run in runs {
        if !arms.iter().any(|arm| arm.name == run.arm) {
            let engine = run.server.engine.clone();
            arms.push(Arm { name: run.arm.clone(), setting: found::setting(&run.arm, &engine), engine });
        }
    }
    arms
}

fn cells(runs: &[Measurement]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for run in runs {
        if !cells.iter().any(|cell| cell.name == run.cell) {
            cells.push(Cell { name: run.cell.clone(), x: run.x.filter(|x| x.is_finite()) });
        }
    }
    // Along one axis by place; cells of several axes, such as workloads, by axis first.
    let mut axes: Vec<String> = Vec::new();
    let mut places: Vec<Option<f64>> = cells.iter().map(|cell| cell.x).collect();
    places.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let one_axis = places.windows(2).all(|two| two[0] != two[1]);
    let axis = |cell: &Cell| cell.x.map(|x| without(&cell.name, x)).filter(|_| !one_axis).unwrap_or_default();
    for name in cells.iter().map(axis) {
        if !axes.contains(&name) {
            axes.push(name);
        }
    }
    let key = |cell: &Cell| axes.iter().position(|name| *name == axis(cell));
    cells.sort_by(|a, b| {
        let by_place = a.x.unwrap_or(f64::INFINITY).total_cmp(&b.x.unwrap_or(f64::INFINITY));
        key(a).cmp(&key(b)).then(by_place)
    });
    cells
}

/// A cell's name without the number that is its place.
pub fn without(name: &str, x: f64) -> String {
    let number = words::tick(x);
    let parts: Vec<&str> = name
        .split_whitespace()
        .filter(|part| part.trim_matches(|c: char| !c.is_alphanumeric() && c != '.') != number)
        .filter(|part| part.replace(',', "").parse::<f64>().ok() != Some(x))
        .collect();
    parts.join(" ").trim_matches([',', ' ']).to_owned()
}

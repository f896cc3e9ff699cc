//! What a scenario is, and what it wants to be run.

use crate::clients::Workload;
use crate::data::DataSet;
use crate::disk::{DiskKind, lacking};
use crate::engines::{Engine, Kind, Skipped};
use crate::limits::Limits;
use crate::search::Search;

/// An experiment.
pub struct Scenario {
    /// Its name: `default-vs-tuned`.
    pub name: &'static str,
    /// The report that it repeats.
    pub report: &'static str,
    /// What is compared.
    pub what: &'static str,
    /// What the report found.
    pub found: &'static str,
    /// What is to be run for the engines that there are.
    pub plan: fn(&Choice) -> Plan,
}

/// What somebody chose.
pub struct Choice {
    /// The engines that there are.
    pub engines: Vec<Engine>,
    /// The short form: small data, few pairs, no long warm-up.
    pub quick: bool,
}

impl Choice {
    /// One of two values: the short form's or the full one's.
    pub fn size<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The engines that the lab starts itself, which alone take settings.
    pub fn local(&self) -> impl Iterator<Item = &Engine> {
        self.engines.iter().filter(|engine| engine.kind != Kind::Remote)
    }

    /// Those at an address.
    pub fn remote(&self) -> impl Iterator<Item = &Engine> {
        self.engines.iter().filter(|engine| engine.kind == Kind::Remote)
    }

    /// The engines of a kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Engine> {
        self.engines.iter().filter(move |engine| engine.kind == kind)
    }
}

/// What is compared with what: a server with its settings.
#[derive(Debug, Clone)]
pub struct Arm {
    /// Its name: `mariadb tuned`.
    pub name: String,
    /// The server.
    pub engine: Engine,
    /// Its settings, as the report has them.
    pub settings: Vec<String>,
    /// What the lab's scale makes of some of them, and what must be alike for all arms.
    pub overrides: Vec<String>,
    /// What it may have of the machine.
    pub limits: Limits,
    /// A disk of its own, instead of a folder.
    pub disk: Option<DiskKind>,
    /// How its settings are found, where they are not known.
    pub search: Option<Search>,
}

impl Arm {
    /// A server without any setting.
    pub fn new(name: impl Into<String>, engine: &Engine) -> Arm {
        Arm {
            name: name.into(),
            engine: engine.clone(),
            settings: Vec::new(),
            overrides: Vec::new(),
            limits: Limits::default(),
            disk: None,
            search: None,
        }
    }

    /// With the settings of a file of the lab's.
    pub fn settings(mut self, file: &str) -> Arm {
        self.settings.extend(lines(file));
        self
    }

    /// With these lines behind them.
    pub fn set<S: Into<String>>(mut self, lines: impl IntoIterator<Item = S>) -> Arm {
        self.overrides.extend(lines.into_iter().map(Into::into));
        self
    }

    /// Within these limits.
    pub fn within(mut self, limits: Limits) -> Arm {
        self.limits = limits;
        self
    }
}

/// What clients do.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Sysbench, transactions coming at a rate of their own.
    Open {
        /// What they are.
        workload: Workload,
        /// The rate in percent of what the arm did at its best, in cells before this one.
        percent: u32,
        /// Words of the names of those cells.
        of: &'static str,
    },
    /// Sysbench.
    Sysbench(Workload),
    /// Very many connections at once, then reads by all of them.
    Storm {
        /// How many.
        clients: u32,
    },
}

impl Work {
    /// What a reader can repeat it by.
    pub fn words(&self) -> String {
        match self {
            Work::Sysbench(workload) => workload.words(),
            Work::Open { workload, percent, of } => {
                format!("{}, due at {percent} % of the most of {of}", workload.words())
            }
            Work::Storm { clients } => {
                format!("{clients} connections at once, then each reads rows by their keys")
            }
        }
    }

    /// Clients at once.
    pub fn clients(&self) -> u32 {
        match self {
            Work::Sysbench(workload) | Work::Open { workload, .. } => workload.clients,
            Work::Storm { clients } => *clients,
        }
    }
}

/// One place of the experiment: its arms are compared with each other.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Its name: `64 clients`; empty where it is the only one.
    pub name: String,
    /// Its place on an axis.
    pub x: Option<f64>,
    /// What servers hold.
    pub data: DataSet,
    /// What clients do.
    pub work: Work,
    /// Whether they change the data: then each run has a copy of its own.
    pub writes: bool,
    /// What is compared.
    pub arms: Vec<Arm>,
}

/// What is to be run.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Where.
    pub cells: Vec<Cell>,
    /// Arms that cannot be had here, and why.
    pub skipped: Vec<Skipped>,
    /// Seconds of a measured run.
    pub seconds: u32,
    /// Seconds of a warm-up at most.
    pub warm_up_max: u32,
    /// Pairs, if nobody says.
    pub pairs: u32,
}

impl Plan {
    /// A plan with the usual lengths.
    pub fn new(choice: &Choice) -> Plan {
        Plan {
            seconds: choice.size(15, 60),
            warm_up_max: choice.size(10, 120),
            pairs: choice.size(2, 5),
            ..Plan::default()
        }
    }

    /// Says that something is left out.
    pub fn skip(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let skipped = Skipped::new(what, why);
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }

    /// Takes out the arms whose disks cannot be made here.
    pub fn without_missing_disks(mut self) -> Plan {
        let mut missing = Vec::new();
        for cell in &mut self.cells {
            cell.arms.retain(|arm| match arm.disk.as_ref().and_then(lacking) {
                Some(why) => {
                    missing.push((arm.name.clone(), why));
                    false
                }
                None => true,
            });
        }
        missing.into_iter().for_each(|(what, why)| self.skip(what, why));
        self
    }
}

/// The settings of an option file: its lines without comments and groups.
pub fn lines(file: &str) -> Vec<String> {
    let lines = file.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let settings = lines.filter(|line| !line.is_empty() && !line.starts_with(['[', ';', '!']));
    // Spaces around `=` mean nothing.
    settings
        .map(|line| match line.split_once('=') {
            Some((name, value)) => format!("{}={}", name.trim(), value.trim()),
            None => line.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_file_has_lines() {
        let file = "# T2\n[mysqld]\n innodb_flush_method = O_DIRECT # yes\n\nskip-log-bin\n";
        assert_eq!(lines(file), ["innodb_flush_method=O_DIRECT", "skip-log-bin"]);
    }
}

//! The searches of a plan: trials run, kept in a journal of their own (`trials.jsonl`), and settled.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use keel_testkit::child::interrupted;

use super::Runner;
use crate::clients::INTERRUPTED;
use crate::journal::{Journal, TRIALS};
use crate::plan::{Arm, Cell, Plan};
use crate::progress::run_seconds;
use crate::record::Outcome;
use crate::search::{Search, Trial};
use crate::stats;

/// Trials that fail from the first on after which a search is given up.
const FAILURES_MAX: usize = 4;
/// The rounds of a search: all trials once, the best once more.
const ROUNDS: [u32; 2] = [1, 2];

/// The searches of a plan.
pub(super) struct Hunts {
    /// Of plans that have one.
    trials: Option<Journal>,
    /// By cell and arm.
    over: HashMap<(String, String), Over>,
}

/// A search that is over.
struct Over {
    /// The settings that were found, or why there are none.
    lines: Result<Vec<String>, String>,
    made: Vec<Trial>,
}

fn key(cell: &Cell, arm: &Arm) -> (String, String) {
    (cell.name.clone(), arm.name.clone())
}

/// A trial's arm has the name of the arm that is searched for and a number.
fn trial_name(arm: &Arm, number: usize) -> String {
    format!("{} trial {}", arm.name, number + 1)
}

impl Hunts {
    /// Of a plan; its journal is opened only where there is something to search for.
    pub(super) fn open(folder: &Path, scenario: &str, quick: bool, plan: &Plan) -> Result<Hunts, String> {
        let searched = plan.cells.iter().any(|cell| cell.arms.iter().any(|arm| arm.search.is_some()));
        let trials = match searched {
            true => Some(Journal::open_file(folder, TRIALS, scenario, quick)?),
            false => None,
        };
        Ok(Hunts { trials, over: HashMap::new() })
    }

    /// The seed of the trials that were made.
    pub(super) fn seed(&self) -> Option<u64> {
        self.trials.as_ref()?.seed
    }

    /// Trials that have been made, second runs among them.
    pub(super) fn made(&self, arm: &Arm, cell: &Cell) -> u32 {
        let (Some(search), Some(trials)) = (&arm.search, &self.trials) else { return 0 };
        let has = |number: usize, round: u32| trials.has(&trial_name(arm, number), &cell.name, round);
        let of = |round: u32| (0..search.trials as usize).filter(|number| has(*number, round)).count();
        ROUNDS.into_iter().map(of).sum::<usize>() as u32
    }

    /// The arm with the settings that were found for it.
    pub(super) fn settled(&self, cell: &Cell, arm: &Arm) -> Result<Arm, String> {
        match self.over.get(&key(cell, arm)) {
            None => Ok(arm.clone()),
            Some(over) => over.lines.clone().map(|settings| Arm { settings, ..arm.clone() }),
        }
    }

    /// Tells with a run's result what its settings were the best of.
    pub(super) fn note(&self, cell: &Cell, arm: &Arm, result: &mut Outcome) {
        let Some(over) = self.over.get(&key(cell, arm)) else { return };
        let levels: Vec<f64> = over.made.iter().filter_map(|trial| trial.levels.first().copied()).collect();
        // Of a search whose end an earlier start has seen, nothing is known any more.
        let Some(median) = stats::median(&levels) else { return };
        let figures = [
            ("search_trials", over.made.len() as f64),
            ("search_failed", (over.made.len() - levels.len()) as f64),
            ("search_median_tps", median),
            ("search_best_tps", levels.iter().copied().fold(0.0, f64::max)),
        ];
        result.more.extend(figures.map(|(name, value)| (name.to_string(), value)));
    }
}

impl Runner<'_> {
    /// Looks for the settings of an arm in a cell, where they are to be looked for and nobody has yet.
    pub(super) fn search(&mut self, cell: &Cell, arm: &Arm) -> Result<(), String> {
        let Some(search) = &arm.search else { return Ok(()) };
        if self.hunts.over.contains_key(&key(cell, arm)) {
            return Ok(());
        }
        let runs = search.trials + search.finalists;
        let known = self.hunts.made(arm, cell).min(runs);
        // What a run of an earlier start has had stays, whatever trials that failed would give now.
        let before = (1..=self.pairs).find_map(|pair| self.journal.run(&arm.name, &cell.name, pair));
        let lines = before.map(|(_, lines)| lines.to_vec());
        let mut made = Vec::new();
        let mut why = String::new();
        if lines.is_none() || known == runs {
            why = self.first_round(cell, arm, search, &mut made)?;
            self.second_round(cell, arm, search, &mut made)?;
        }
        let found = lines.or_else(|| search.winner(&made).map(|trial| trial.lines.clone()));
        let lines = found.ok_or(format!("none of {} searched settings ran: {why}", made.len()));
        if let Ok(lines) = &lines {
            println!("  {}, {}: found {}", arm.name, cell.name, words(lines));
        }
        // Trials that were not made after all are nothing to wait for.
        let left = runs.saturating_sub(known.max(self.hunts.made(arm, cell)));
        let lengths = search.lengths;
        self.progress.forget(left, f64::from(left) * run_seconds(cell, lengths));
        self.hunts.over.insert(key(cell, arm), Over { lines, made });
        Ok(())
    }

    /// All trials once; says why the last failed that did.
    fn first_round(
        &mut self,
        cell: &Cell,
        arm: &Arm,
        search: &Search,
        made: &mut Vec<Trial>,
    ) -> Result<String, String> {
        let place = format!("{} {}", arm.engine.name, cell.name);
        let mut why = String::new();
        while made.len() < search.trials as usize {
            let number = made.len();
            let name = trial_name(arm, number);
            if let Some((tps, lines)) = self.trial_made(&name, cell, ROUNDS[0]) {
                made.push(Trial { lines, levels: vec![tps] });
                continue;
            }
            let candidate = search.propose(self.seed, &place, made);
            let result = self.trial(cell, arm, &name, &candidate.lines, ROUNDS[0])?;
            self.tell_trial(cell, &name, &candidate.name, &result);
            let levels = result.as_ref().copied().into_iter().collect();
            made.push(Trial { lines: candidate.lines, levels });
            why = result.err().unwrap_or(why);
            if made.len() >= FAILURES_MAX && made.iter().all(|trial| trial.levels.is_empty()) {
                break;
            }
        }
        Ok(why)
    }

    /// The best trials once more, with other random numbers.
    fn second_round(
        &mut self,
        cell: &Cell,
        arm: &Arm,
        search: &Search,
        made: &mut [Trial],
    ) -> Result<(), String> {
        for number in search.finalists(made) {
            let name = trial_name(arm, number);
            let level = match self.trial_made(&name, cell, ROUNDS[1]) {
                Some((tps, _)) => Ok(tps),
                None => {
                    let lines = made[number].lines.clone();
                    let result = self.trial(cell, arm, &name, &lines, ROUNDS[1])?;
                    self.tell_trial(cell, &name, "once more", &result);
                    result
                }
            };
            made[number].levels.extend(level);
        }
        Ok(())
    }

    fn trial_made(&self, name: &str, cell: &Cell, round: u32) -> Option<(f64, Vec<String>)> {
        let (tps, lines) = self.hunts.trials.as_ref()?.run(name, &cell.name, round)?;
        Some((tps, lines.to_vec()))
    }

    /// A run of some settings: the transactions a second, or why there are none. The outer error ends all.
    fn trial(
        &mut self,
        cell: &Cell,
        arm: &Arm,
        name: &str,
        lines: &[String],
        round: u32,
    ) -> Result<Result<f64, String>, String> {
        let Some(search) = &arm.search else { return Err(format!("{name} is no trial")) };
        let lengths = search.lengths;
        let began = Instant::now();
        let trial = Arm { name: name.into(), settings: lines.to_vec(), search: None, ..arm.clone() };
        let mut measurement = self.blank(cell, &trial, round);
        let result = self.measure(cell, &trial, &arm.name, lengths, &mut measurement);
        if interrupted() {
            return Err(INTERRUPTED.into());
        }
        measurement.trouble = result.as_ref().err().cloned();
        if let Some(trials) = &mut self.hunts.trials {
            measurement.order = trials.next_order();
            trials.add(&measurement)?;
        }
        self.progress.done(run_seconds(cell, lengths), began.elapsed());
        Ok(result.map(|()| measurement.result.tps))
    }

    fn tell_trial(&self, cell: &Cell, name: &str, kind: &str, result: &Result<f64, String>) {
        let told = match result {
            Ok(tps) => format!("{tps:.0} tps"),
            Err(why) => why.lines().collect::<Vec<_>>().join(" / "),
        };
        let (place, rest) = (self.progress.place(), self.progress.rest());
        println!("[{place}] {name} ({kind}), {}: {told}; {rest}", cell.name);
    }
}

fn words(lines: &[String]) -> String {
    if lines.is_empty() { "nothing better than no settings".into() } else { lines.join(" ") }
}

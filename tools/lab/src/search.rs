//! A search for the settings of an arm: some that others have written, some drawn at random, and then what is like the best so far.
//!
//! Each trial is one short run in the cell whose settings are looked for, on fresh data, with the cell's limits. The best few are run once more
//! with other random numbers, and the best of their means is what was found. It won by its luck too; so what was found is then
//! measured anew, beside its rival, by the runs that count. What a trial draws depends on the seed, the cell, the engine and the trials before it,
//! so a search that was interrupted goes on where it was.

use keel_testkit::Random;

use crate::data::hash;
use crate::progress::Lengths;

/// How settings are searched for.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// Settings that others have written: tried first, as they are.
    pub given: Vec<Candidate>,
    /// What the others are made of.
    pub knobs: Vec<Knob>,
    /// Trials in all, those of the given settings among them.
    pub trials: u32,
    /// The best so many are run once more.
    pub finalists: u32,
    /// How long a trial is.
    pub lengths: Lengths,
}

/// Settings to be tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Where they come from.
    pub name: String,
    /// Lines of an option file.
    pub lines: Vec<String>,
}

impl Candidate {
    /// Of lines some of which may name a setting twice: the last one counts.
    pub fn new(name: impl Into<String>, all: impl IntoIterator<Item = String>) -> Candidate {
        let mut lines: Vec<String> = Vec::new();
        for line in all {
            lines.retain(|other| self::name(other) != self::name(&line));
            lines.push(line);
        }
        Candidate { name: name.into(), lines }
    }
}

/// A setting with the values that are tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Knob {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: Vec<String>,
}

impl Knob {
    /// A setting with some values.
    pub fn new(name: &'static str, values: &[&str]) -> Knob {
        Knob { name, values: values.iter().map(|value| value.to_string()).collect() }
    }
}

/// A trial that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Its settings.
    pub lines: Vec<String>,
    /// Transactions a second of its runs; none where it failed.
    pub levels: Vec<f64>,
}

impl Trial {
    /// The mean of its runs; none where one failed.
    fn level(&self) -> Option<f64> {
        let count = self.levels.len();
        (count > 0).then(|| self.levels.iter().sum::<f64>() / count as f64)
    }
}

/// Of the trials that are not given, this share is drawn at random; the rest are changes of the best.
const RANDOM_SHARE: f64 = 2.0 / 3.0;
/// Knobs that such a change turns.
const TURNED: usize = 2;

impl Search {
    /// The settings of the next trial, behind those that were made.
    pub fn propose(&self, seed: u64, place: &str, made: &[Trial]) -> Candidate {
        let number = made.len();
        if let Some(given) = self.given.get(number) {
            return given.clone();
        }
        let mut random = Random::new(seed ^ hash(place) ^ (number as u64).wrapping_mul(0x9e37_79b9));
        let free = (self.trials as usize).saturating_sub(self.given.len());
        let drawn = self.given.len() + (free as f64 * RANDOM_SHARE).ceil() as usize;
        match best(made, 1).filter(|_| number >= drawn) {
            Some(best) => {
                Candidate { name: "like the best".into(), lines: self.turn(&made[best].lines, &mut random) }
            }
            None => Candidate { name: "random".into(), lines: self.draw(&mut random) },
        }
    }

    /// Each knob stays as it is or is set to one of its values.
    fn draw(&self, random: &mut Random) -> Vec<String> {
        let mut lines = Vec::new();
        for knob in &self.knobs {
            if random.below(2) == 0 {
                lines.push(line(knob, random));
            }
        }
        lines
    }

    /// The same settings but for a few knobs.
    fn turn(&self, lines: &[String], random: &mut Random) -> Vec<String> {
        let mut lines = lines.to_vec();
        for _ in 0..TURNED.min(self.knobs.len()) {
            let knob = &self.knobs[random.below(self.knobs.len() as u64) as usize];
            let line = line(knob, random);
            let other = |other: &String| name(other) != knob.name;
            lines.retain(other);
            lines.push(line);
        }
        lines
    }

    /// The trials that are run once more, the best first.
    pub fn finalists(&self, made: &[Trial]) -> Vec<usize> {
        let mut places: Vec<usize> = (0..made.len()).filter(|place| made[*place].level().is_some()).collect();
        places.sort_by(|a, b| {
            let first = |place: &usize| made[*place].levels.first().copied().unwrap_or(0.0);
            first(b).total_cmp(&first(a))
        });
        places.truncate(self.finalists as usize);
        places
    }

    /// What was found: the best of those that ran twice, or of all where none did.
    pub fn winner<'a>(&self, made: &'a [Trial]) -> Option<&'a Trial> {
        let most = made.iter().map(|trial| trial.levels.len()).max().unwrap_or(0);
        best(made, most).map(|place| &made[place])
    }
}

fn line(knob: &Knob, random: &mut Random) -> String {
    let value = knob.values.get(random.below(knob.values.len().max(1) as u64) as usize);
    format!("{}={}", knob.name, value.map_or("", String::as_str))
}

/// A line's name, as all names are written.
fn name(line: &str) -> String {
    line.split('=').next().unwrap_or_default().trim().replace('-', "_")
}

/// The best of those that ran at least so often.
fn best(made: &[Trial], runs: usize) -> Option<usize> {
    let ran = made.iter().enumerate().filter(|(_, trial)| trial.levels.len() >= runs);
    let levels = ran.filter_map(|(place, trial)| Some((place, trial.level()?)));
    levels.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search() -> Search {
        Search {
            given: vec![Candidate { name: "theirs".into(), lines: vec!["a=1".into(), "b-c = 2".into()] }],
            knobs: vec![
                Knob::new("a", &["1", "2", "3"]),
                Knob::new("b_c", &["4", "5"]),
                Knob::new("d", &["6"]),
            ],
            trials: 13,
            finalists: 2,
            lengths: Lengths { seconds: 1, warm_up_max: 0 },
        }
    }

    fn trial(lines: &[&str], levels: &[f64]) -> Trial {
        Trial { lines: lines.iter().map(|line| line.to_string()).collect(), levels: levels.to_vec() }
    }

    #[test]
    fn the_same_seed_makes_the_same_trials_and_another_cell_others() {
        let all = |place: &str, seed: u64| {
            let mut made = Vec::new();
            for number in 0..13u32 {
                let candidate = search().propose(seed, place, &made);
                made.push(Trial { lines: candidate.lines, levels: vec![f64::from(number % 5)] });
            }
            made
        };
        assert_eq!(all("x", 7), all("x", 7));
        assert_ne!(all("x", 7), all("y", 7));
        assert_ne!(all("x", 7), all("x", 8));
    }

    #[test]
    fn given_settings_come_first_and_the_last_third_is_like_the_best() {
        let best = trial(&["d=6"], &[100.0]);
        let mut made = vec![best; 13];
        assert_eq!(search().propose(1, "x", &[]).name, "theirs");
        assert_eq!(search().propose(1, "x", &made[..8]).name, "random");
        let near = search().propose(1, "x", &made[..9]);
        assert_eq!(near.name, "like the best");
        // A knob that is turned stands there once, also where its line was written in another way.
        made[0] = trial(&["a=1", "b-c = 2"], &[500.0]);
        for number in 9..13 {
            let lines = search().propose(3, "x", &made[..number]).lines;
            let names: Vec<String> = lines.iter().map(|line| name(line)).collect();
            let mut once = names.clone();
            once.sort();
            once.dedup();
            assert_eq!(names.len(), once.len(), "{lines:?}");
        }
    }

    #[test]
    fn the_last_line_of_a_setting_counts() {
        let lines = ["a=1", "b-c=2", "b_c = 3"].map(str::to_string);
        assert_eq!(Candidate::new("x", lines).lines, ["a=1", "b_c = 3"]);
    }

    #[test]
    fn the_best_of_those_that_ran_twice_wins_and_failures_never() {
        let search = search();
        let mut made = vec![
            trial(&["a=1"], &[10.0]),
            trial(&["a=2"], &[]),
            trial(&["a=3"], &[30.0]),
            trial(&["d=6"], &[20.0]),
        ];
        assert_eq!(search.finalists(&made), [2, 3]);
        assert_eq!(search.winner(&made).unwrap().lines, ["a=3"]);
        // The first run of one was luck.
        made[2].levels.push(5.0);
        made[3].levels.push(22.0);
        assert_eq!(search.winner(&made).unwrap().lines, ["d=6"]);
        assert_eq!(search.winner(&[trial(&[], &[])]), None);
    }
}

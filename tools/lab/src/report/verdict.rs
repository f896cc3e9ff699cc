//! What the report says, asked of our runs.
//!
//! A claim agrees where our interval and the report's ratio with a tenth either way overlap, and the interval tells it from no effect.
//! It is contradicted where they do not overlap: a finding. Anything else cannot be told: one pair, or an interval that holds both
//! the report's ratio and 1.

use std::collections::BTreeMap;

use crate::found::{self, Claim, Place, Side};
use crate::report::study::{Cell, Study, divide};
use crate::report::words;
use crate::stats::{self, Estimate};

/// What another machine may differ from the report without contradicting it.
const TOLERANCE: f64 = 1.1;
/// Where a report says that two are equal, an interval wider than this says nothing.
const WIDTH_MAX: f64 = 1.5;

/// Whether ours and the report's are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Ours is the report's.
    Agrees,
    /// Ours is another; says which way.
    Contradicts(&'static str),
    /// The interval is too wide or missing; says which.
    CannotTell(&'static str),
}

impl Verdict {
    /// In one or two words.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Contradicts(_) => "contradicts",
            Verdict::CannotTell(_) => "cannot tell",
        }
    }

    /// With its reason.
    pub fn text(self) -> String {
        match self {
            Verdict::Agrees => "agrees".to_owned(),
            Verdict::Contradicts(how) => format!("contradicts (a finding): {how}"),
            Verdict::CannotTell(why) => format!("cannot tell: {why}"),
        }
    }
}

/// A claim and what our runs say of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The claim.
    pub claim: Claim,
    /// Its place among the scenario's claims.
    pub number: usize,
    /// The arm divided, and the one it is divided by; places in [`Study::arms`].
    pub arms: (usize, usize),
    /// Their cells.
    pub cells: (usize, usize),
    /// Our ratio.
    pub ours: Estimate,
    /// What follows.
    pub verdict: Verdict,
}

/// All claims that the runs can speak to, by claim, engine and cell; and what could not be asked.
pub fn check(study: &Study) -> (Vec<Checked>, Vec<String>) {
    let claims = study.found.as_ref().map(|found| found.claims.as_slice()).unwrap_or_default();
    let mut checked = Vec::new();
    let mut unasked = Vec::new();
    for (number, claim) in claims.iter().enumerate() {
        let before = checked.len();
        for arms in arms(study, claim) {
            for cells in cells(study, claim, arms) {
                checked.extend(ask(study, claim, number, arms, cells));
            }
        }
        if checked.len() == before {
            unasked.push(claim.says.clone());
        }
    }
    (checked, unasked)
}

fn ask(
    study: &Study,
    claim: &Claim,
    number: usize,
    arms: (usize, usize),
    cells: (usize, usize),
) -> Option<Checked> {
    let values: BTreeMap<u32, f64> = study.values(arms.0, cells.0, claim.figure);
    let by = study.values(arms.1, cells.1, claim.figure);
    let (ratios, _) = divide(&values, &by);
    let ours = stats::estimate(&ratios)?;
    let verdict = judge(&ours, claim.ratio);
    Some(Checked { claim: claim.clone(), number, arms, cells, ours, verdict })
}

/// Pairs of arms of one engine with the claim's settings; an arm with itself where the claim is of places.
fn arms(study: &Study, claim: &Claim) -> Vec<(usize, usize)> {
    let all = || 0..study.arms.len();
    if claim.of.setting.is_empty() {
        return all().map(|arm| (arm, arm)).collect();
    }
    let has = |arm: usize, side: &Side| side.setting.contains(&study.arms[arm].setting.as_str());
    all()
        .filter(|of| has(*of, &claim.of))
        .flat_map(|of| all().map(move |over| (of, over)))
        .filter(|(of, over)| of != over && has(*over, &claim.over))
        .filter(|(of, over)| study.arms[*of].engine == study.arms[*over].engine)
        .collect()
}

fn cells(study: &Study, claim: &Claim, arms: (usize, usize)) -> Vec<(usize, usize)> {
    let all: Vec<usize> = (0..study.cells.len()).collect();
    if claim.of.place == claim.over.place {
        let fits = |cell: &usize| fits(&study.cells[*cell], &claim.of.place);
        return all.into_iter().filter(fits).map(|cell| (cell, cell)).collect();
    }
    let find = |side: &Side, arm: usize| match &side.place {
        Place::Peak(word) => best(study, claim, arm, word),
        place => all.iter().copied().find(|cell| fits(&study.cells[*cell], place)),
    };
    let (of, over) = (find(&claim.of, arms.0), find(&claim.over, arms.1));
    of.zip(over)
        .filter(|(of, over)| of != over || matches!(claim.over.place, Place::Peak(_)))
        .into_iter()
        .collect()
}

fn fits(cell: &Cell, place: &Place) -> bool {
    let near = |wanted: f64| cell.x.is_some_and(|has| (has / wanted - 1.0).abs() < 0.05);
    match place {
        Place::Every | Place::Peak(_) => true,
        Place::Holding(words) => found::holds(&cell.name, words),
        Place::At(wanted) => near(*wanted),
        Place::Word(word) => found::holds(&cell.name, word),
    }
}

fn best(study: &Study, claim: &Claim, arm: usize, word: &str) -> Option<usize> {
    let level = |cell: &usize| study.group(arm, *cell)?.median(|run| claim.figure.of(run));
    let cells = (0..study.cells.len()).filter(|cell| found::holds(&study.cells[*cell].name, word));
    cells
        .filter_map(|cell| Some((cell, level(&cell)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(cell, _)| cell)
}

/// Ours against the report's ratio or range.
pub fn judge(ours: &Estimate, (least, most): (f64, f64)) -> Verdict {
    let Some((low, high)) = ours.interval else {
        return Verdict::CannotTell(if ours.samples == 1 {
            "one pair has no interval"
        } else {
            "there is no interval"
        });
    };
    let (least, most) = (least / TOLERANCE, most * TOLERANCE);
    let effect = least > 1.0 || most < 1.0;
    let none = low <= 1.0 && 1.0 <= high;
    if low <= most && high >= least {
        return match (effect, none) {
            (true, true) => Verdict::CannotTell("the interval holds the report's ratio and also 1"),
            (false, _) if high > low * WIDTH_MAX => Verdict::CannotTell("the interval is too wide"),
            _ => Verdict::Agrees,
        };
    }
    let above = low > most;
    Verdict::Contradicts(match (effect, none) {
        (true, true) if high > low * WIDTH_MAX => "a smaller difference, if any",
        (true, true) => "no difference here",
        (true, false) if (high < 1.0) == (least > 1.0) => "the other way round",
        // Further from 1 than the report, on the same side.
        (true, false) if above == (least > 1.0) => "a larger difference",
        (true, false) => "a smaller difference",
        (false, _) if above => "more, where the report has no difference",
        (false, _) => "less, where the report has no difference",
    })
}

/// The first claim's verdicts in one sentence, by engine.
pub fn sentence(study: &Study, checked: &[Checked]) -> String {
    let Some(found) = &study.found else {
        return "No report has figures for this scenario.".to_owned();
    };
    if found.claims.is_empty() {
        return format!("{} ({}).", found.why.agrees, found.report);
    }
    let Some(first) = checked.iter().map(|checked| checked.number).min() else {
        return format!("Cannot tell: nothing of what {} divides was measured here.", found.report);
    };
    let mut engines: Vec<&str> = Vec::new();
    // Claims of one kind, such as a ratio for each number of clients, are told together.
    let family = |checked: &&Checked| {
        let claim = &found.claims[first];
        checked.claim.of.setting == claim.of.setting && checked.claim.figure == claim.figure
    };
    let told: Vec<&Checked> = checked.iter().filter(family).collect();
    for checked in &told {
        let engine = study.arms[checked.arms.0].engine.as_str();
        if !engines.contains(&engine) {
            engines.push(engine);
        }
    }
    let parts: Vec<String> = engines
        .iter()
        .map(|engine| {
            let of_engine: Vec<&Checked> =
                told.iter().copied().filter(|checked| study.arms[checked.arms.0].engine == *engine).collect();
            of_one(engine, &of_engine)
        })
        .collect();
    format!("{}.", parts.join("; "))
}

fn of_one(engine: &str, checked: &[&Checked]) -> String {
    if let [one] = checked {
        let figures =
            format!("{} against the report's {}", words::estimate(&one.ours), words::range(one.claim.ratio));
        return format!("{engine} {} ({figures}, {})", one.verdict.text(), one.claim.says);
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for checked in checked {
        *counts.entry(checked.verdict.word()).or_default() += 1;
    }
    let told: Vec<String> = counts.iter().map(|(word, count)| format!("{word} in {count}")).collect();
    let first = checked.first().map(|checked| checked.verdict);
    if let Some(Verdict::CannotTell(why)) =
        first.filter(|first| checked.iter().all(|one| one.verdict == *first))
    {
        return format!("{engine}: cannot tell in {} comparisons with the report, {why}", checked.len());
    }
    let finding = if counts.contains_key("contradicts") { " (a finding)" } else { "" };
    format!("{engine}: of {} comparisons with the report, {}{finding}", checked.len(), words::list(&told))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(low: f64, high: f64) -> Estimate {
        Estimate { value: (low * high).sqrt(), interval: Some((low, high)), samples: 5 }
    }

    #[test]
    fn verdicts_of_known_intervals() {
        let known = [
            ((5.0, 6.0), (5.56, 5.56), "agrees"),
            ((5.1, 5.2), (5.56, 5.56), "agrees"),
            ((0.8, 7.0), (5.56, 5.56), "cannot tell"),
            ((0.98, 1.02), (5.56, 5.56), "contradicts"),
            ((0.99, 1.01), (1.0, 1.0), "agrees"),
            ((0.7, 1.4), (1.0, 1.0), "cannot tell"),
            ((1.3, 1.5), (1.0, 1.0), "contradicts"),
            ((0.10, 0.16), (0.148, 0.148), "agrees"),
            ((2.0, 3.0), (1.5, 5.56), "agrees"),
        ];
        for ((low, high), claim, word) in known {
            assert_eq!(judge(&ours(low, high), claim).word(), word, "{low} {high} {claim:?}");
        }
        let one = Estimate { value: 5.5, interval: None, samples: 1 };
        assert_eq!(judge(&one, (5.56, 5.56)), Verdict::CannotTell("one pair has no interval"));
    }

    #[test]
    fn contradictions_say_which_way() {
        let how = |low, high, claim| match judge(&ours(low, high), (claim, claim)) {
            Verdict::Contradicts(how) => how,
            other => panic!("{other:?}"),
        };
        assert_eq!(how(0.9, 1.1, 5.56), "no difference here");
        assert_eq!(how(0.22, 1.07, 0.148), "a smaller difference, if any");
        assert_eq!(how(1.5, 2.0, 5.56), "a smaller difference");
        assert_eq!(how(9.0, 9.9, 5.56), "a larger difference");
        assert_eq!(how(0.3, 0.5, 5.56), "the other way round");
        assert_eq!(how(0.4, 0.5, 0.148), "a smaller difference");
        assert_eq!(how(0.04, 0.05, 0.148), "a larger difference");
        assert_eq!(how(2.0, 3.0, 0.148), "the other way round");
        assert_eq!(how(2.0, 3.0, 1.0), "more, where the report has no difference");
    }
}

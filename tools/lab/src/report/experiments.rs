//! `docs/experiments.md`: a row for each scenario, ours beside the report's, and why.

use std::fmt::Write;
use std::path::PathBuf;

use crate::found;
use crate::record::Measurement;
use crate::report::load;
use crate::report::regret;
use crate::report::study::{self, Study};
use crate::report::table::Table;
use crate::report::verdict::{self, Checked, Verdict};
use crate::report::words;
use crate::stats;

const HEAD: &str = "# Experiments\n\nThe five reports' experiments, measured again by `keel lab`; `keel lab report --experiments FILE DIR...` writes this page. Ratios are\nmedians over pairs with their 95 % interval. A verdict of one pair is \"cannot tell\". Keel against MariaDB is Keel's first arm, without\nsettings where the scenario has such a one, over that of MariaDB's that did best in the same cell.\n\n";

/// The page of what the folders hold. Where a scenario was measured more than once, full runs go before quick ones, and
/// then later folders before earlier ones. Folders that cannot be read are said below the table.
pub fn experiments(dirs: &[PathBuf]) -> String {
    let mut studies: Vec<Study> = Vec::new();
    let mut notes = Vec::new();
    for dir in dirs {
        match load::load(dir) {
            Ok(loaded) => {
                notes.extend(loaded.notes);
                study::studies(loaded.runs).into_iter().for_each(|study| keep(&mut studies, study));
            }
            Err(error) => notes.push(error),
        }
    }
    let mut text = format!("{HEAD}{}", rows(&studies).markdown());
    let missing: Vec<String> = found::SCENARIOS
        .iter()
        .filter(|name| !studies.iter().any(|study| study.scenario == **name))
        .map(|name| (*name).to_owned())
        .collect();
    if !missing.is_empty() {
        let _ = write!(text, "\nNot measured here: {}.\n", words::list(&missing));
    }
    let mut machines: Vec<String> =
        studies.iter().flat_map(Study::runs).map(|run| study::machine(&run.machine)).collect();
    machines.sort_unstable();
    machines.dedup();
    for machine in machines {
        let _ = write!(text, "\nMachine: {}.\n", words::markdown(&machine));
    }
    for note in notes {
        let _ = write!(text, "\nNote: {}\n", words::markdown(&note));
    }
    text
}

fn keep(studies: &mut Vec<Study>, study: Study) {
    match studies.iter_mut().find(|kept| kept.scenario == study.scenario) {
        Some(kept) if kept.quick || !study.quick => *kept = study,
        Some(_) => {}
        None => studies.push(study),
    }
}

fn rows(studies: &[Study]) -> Table {
    let mut table = Table::new(&[
        "scenario",
        "report",
        "what is divided",
        "ours [95 %]",
        "the report's",
        "verdict",
        "why",
        "Keel over MariaDB [95 %]",
    ]);
    let place = |study: &&Study| {
        let place = found::SCENARIOS.iter().position(|name| *name == study.scenario);
        (place.unwrap_or(usize::MAX), study.scenario.clone())
    };
    let mut sorted: Vec<&Study> = studies.iter().collect();
    sorted.sort_by_key(place);
    table.rows = sorted.into_iter().map(row).collect();
    table
}

fn row(study: &Study) -> Vec<String> {
    let (checked, _) = verdict::check(study);
    let found = study.found.as_ref();
    let first = checked.iter().map(|checked| checked.number).min();
    let shown: Vec<&Checked> = checked.iter().filter(|checked| Some(checked.number) == first).collect();
    let claim = shown.first().map(|checked| &checked.claim);
    let divided = match claim {
        Some(claim) => format!("{}, {}", claim.says, claim.figure.name()),
        None => format!("each arm over {}, {}", study.arms[study.reference].name, study.figure.name()),
    };
    let ours = if shown.is_empty() { against_reference(study) } else { by_engine(study, &shown) };
    let told = if study.runs().next().is_none() {
        "no run can be used".to_owned()
    } else if shown.is_empty() {
        "no figure to compare".to_owned()
    } else {
        verdicts(study, &shown)
    };
    vec![
        study.title(),
        found.map_or("none", |found| found.report).to_owned(),
        divided,
        ours,
        claim.map_or_else(|| "–".to_owned(), |claim| words::range(claim.ratio)),
        told,
        why(study, &shown),
        between_engines(study),
    ]
}

fn by_engine(study: &Study, shown: &[&Checked]) -> String {
    let one = |checked: &&Checked| {
        let arm = &study.arms[checked.arms.0];
        let cell = &study.cells[checked.cells.0].name;
        let name = if checked.claim.of.setting.is_empty() { &arm.name } else { &arm.engine };
        // A claim that is not of every cell says its own.
        let every = checked.claim.of.place == found::Place::Every;
        let cell = if cell.is_empty() || study.cells.len() == 1 || !every {
            String::new()
        } else {
            format!(", {cell}")
        };
        format!("{name}{cell}: {}", words::estimate(&checked.ours))
    };
    capped(shown.iter().map(one).collect())
}

fn verdicts(study: &Study, shown: &[&Checked]) -> String {
    let one = |checked: &&Checked| {
        let arm = &study.arms[checked.arms.0];
        let name = if checked.claim.of.setting.is_empty() { &arm.name } else { &arm.engine };
        format!("{name} {}", checked.verdict.word())
    };
    let mut all: Vec<String> = shown.iter().map(one).collect();
    all.dedup();
    capped(all)
}

fn against_reference(study: &Study) -> String {
    let cells = study.cells.len();
    let mut parts = Vec::new();
    for (arm, of) in study.arms.iter().enumerate().filter(|(arm, _)| *arm != study.reference) {
        for cell in 0..cells {
            let ratio = study.group(arm, cell).and_then(|group| group.ratio.as_ref());
            let Some(ratio) = ratio else { continue };
            let name = &study.cells[cell].name;
            let place = if name.is_empty() || cells == 1 { String::new() } else { format!(", {name}") };
            parts.push(format!("{}{place}: {}", of.name, words::estimate(ratio)));
        }
    }
    if parts.is_empty() { "–".to_owned() } else { capped(parts) }
}

/// Keel without settings over the best of MariaDB's arms, by cell.
fn between_engines(study: &Study) -> String {
    let of_engine = |name: &'static str| {
        (0..study.arms.len()).filter(move |arm| study.arms[*arm].engine.eq_ignore_ascii_case(name))
    };
    let is_unset = |arm: &usize| study.run_of(*arm).is_some_and(|run| run.server.settings.is_empty());
    let Some(keel) = of_engine("keel").find(is_unset).or_else(|| of_engine("keel").next()) else {
        return "–".to_owned();
    };
    let one = |cell: usize| {
        let level = |arm: &usize| study.group(*arm, cell)?.level.as_ref().map(|level| level.value);
        let best = of_engine("mariadb")
            .filter(|arm| level(arm).is_some())
            .max_by(|a, b| level(a).partial_cmp(&level(b)).unwrap_or(std::cmp::Ordering::Equal))?;
        let (ratios, _) =
            study::divide(&study.values(keel, cell, study.figure), &study.values(best, cell, study.figure));
        let ratio = stats::estimate(&ratios)?;
        let names = (&study.cells[cell].name, &study.arms[best].setting);
        let place = match names {
            (cell, setting) if cell.is_empty() || study.cells.len() == 1 => setting.clone(),
            (cell, setting) if setting.is_empty() => cell.clone(),
            (cell, setting) => format!("{cell}, {setting}"),
        };
        let place = if place.is_empty() { place } else { format!("{place}: ") };
        Some(format!("{place}{}", words::estimate(&ratio)))
    };
    let parts: Vec<String> =
        (0..study.cells.len()).filter(|cell| !study.is_open(*cell)).filter_map(one).collect();
    if parts.is_empty() { "–".to_owned() } else { capped(parts) }
}

fn capped(parts: Vec<String>) -> String {
    const MOST: usize = 6;
    let more = parts.len().saturating_sub(MOST);
    let shown = parts[..parts.len() - more].join("; ");
    if more > 0 { format!("{shown}; {more} more in the report") } else { shown }
}

/// What the verdict calls for, MariaDB's where it is there: the report's reason, what sets our runs apart, or what is missing; and which
/// measured cost moved most between the two sides.
fn why(study: &Study, shown: &[&Checked]) -> String {
    let of_mariadb =
        shown.iter().find(|checked| study.arms[checked.arms.0].engine.eq_ignore_ascii_case("mariadb"));
    let told = of_mariadb.or(shown.first()).copied();
    let said = reason(study, told);
    let measured =
        match (regret::sentence(study, &shown.iter().map(|one| (*one).clone()).collect::<Vec<_>>()), told) {
            (Some(regret), _) => Some(regret),
            (None, Some(checked)) => cost(study, checked.arms, checked.cells),
            // Without a report's ratio, the row shows arms over the reference: the last of them in the last cell.
            (None, None) => {
                last(study).and_then(|(arm, cell)| cost(study, (arm, study.reference), (cell, cell)))
            }
        };
    match measured {
        Some(measured) if said.is_empty() => format!("{}.", words::capital(&measured)),
        Some(measured) => format!("{said}; {measured}."),
        None if said.is_empty() => "–".to_owned(),
        None => format!("{said}."),
    }
}

fn reason(study: &Study, told: Option<&Checked>) -> String {
    let Some(found) = &study.found else { return String::new() };
    match told.map(|checked| checked.verdict) {
        None | Some(Verdict::Agrees) => found.why.agrees.to_owned(),
        Some(Verdict::Contradicts(how)) => format!("A finding ({how}): {}", found.why.contradicts),
        Some(Verdict::CannotTell(why)) => format!("Cannot be told: {why}"),
    }
}

fn last(study: &Study) -> Option<(usize, usize)> {
    let has_ratio =
        |place: &(usize, usize)| study.groups.get(place).is_some_and(|group| group.ratio.is_some());
    let keel = |place: &&(usize, usize)| study.arms[place.0].engine.eq_ignore_ascii_case("keel");
    let places: Vec<(usize, usize)> = study.groups.keys().copied().filter(has_ratio).collect();
    places.iter().filter(keel).max_by_key(|place| place.1).or(places.last()).copied()
}

type Cost = (&'static str, fn(&Measurement) -> Option<f64>, f64, fn(f64) -> String);

/// Costs, the least of each that is worth a word, and how it is shown.
const COSTS: [Cost; 6] = [
    ("bytes read a transaction", |run| run.cost.bytes_read_per_transaction, 512.0, words::bytes),
    ("bytes written a transaction", |run| run.cost.bytes_written_per_transaction, 512.0, words::bytes),
    ("syncs a transaction", |run| run.cost.syncs_per_transaction, 0.02, words::figure),
    ("context switches a transaction", |run| run.cost.switches_per_transaction, 0.2, words::figure),
    ("us of CPU a query", |run| run.cost.cpu_us_per_query, 0.0, words::figure),
    ("page requests that missed", |run| run.cost.hit_rate.map(|rate| (1.0 - rate) * 100.0), 0.5, percent),
];

fn percent(share: f64) -> String {
    format!("{} %", words::figure(share))
}

/// The two costs that moved most from the divisor to the dividend.
fn cost(study: &Study, arms: (usize, usize), cells: (usize, usize)) -> Option<String> {
    let (of, over) = (study.group(arms.0, cells.0)?, study.group(arms.1, cells.1)?);
    let mut moved: Vec<(f64, String)> = Vec::new();
    let mut known = false;
    for (name, value, least, show) in COSTS {
        let (Some(of), Some(over)) = (of.median(value), over.median(value)) else { continue };
        known = true;
        if of > 0.0 && over > 0.0 && of.max(over) >= least {
            moved.push(((of / over).ln().abs(), format!("{name} {} to {}", show(over), show(of))));
        }
    }
    moved.sort_by(|a, b| b.0.total_cmp(&a.0));
    // A tenth is what such figures move by themselves.
    let told: Vec<String> =
        moved.into_iter().filter(|(by, _)| *by > 0.1).take(2).map(|(_, text)| text).collect();
    let names = (&study.arms[arms.0].name, &study.arms[arms.1].name);
    let who = if names.0 == names.1 {
        format!("on {}", names.0)
    } else {
        format!("from {} to {}", names.1, names.0)
    };
    match told.is_empty() {
        false => Some(format!("measured {who}: {}", told.join(", "))),
        true => known.then(|| format!("measured {who}: costs are the same")),
    }
}

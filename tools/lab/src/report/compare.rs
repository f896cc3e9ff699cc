//! One scenario measured twice: two builds, two settings, two evenings.
//!
//! Runs of two folders are not neighbours in time, so what an arm gained from one to the other is Welch's interval ([`stats::between`]), and a
//! slower evening is in it. Ratios to the reference arm do not have that fault: each was made within one run's pairs. Two runs agree
//! where the printed intervals of these ratios overlap; an arm that is the reference is judged by its own gain.

use std::fmt::Write;
use std::path::Path;

use crate::report::load::{self, Loaded};
use crate::report::study::{self, Study};
use crate::report::table::Table;
use crate::report::words;
use crate::stats::{self, Estimate};

/// The comparison as Markdown.
pub fn page(a: &Path, b: &Path) -> Result<String, String> {
    let (first, second) = (load::load(a)?, load::load(b)?);
    let mut text = format!(
        "# A and B\n\nA: {}\nB: {}\n",
        words::markdown(&a.display().to_string()),
        words::markdown(&b.display().to_string())
    );
    let notes: Vec<String> = first.notes.iter().chain(&second.notes).cloned().collect();
    for note in notes {
        let _ = write!(text, "\n> {}\n", words::markdown(&note));
    }
    text.push_str(&sections(first, second)?);
    Ok(text)
}

fn sections(first: Loaded, second: Loaded) -> Result<String, String> {
    let (of_a, of_b) = (study::studies(first.runs), study::studies(second.runs));
    let mut text = String::new();
    let mut common = false;
    for a in &of_a {
        match of_b.iter().find(|b| b.scenario == a.scenario && b.quick == a.quick) {
            Some(b) => {
                common = true;
                text.push_str(&section(a, b));
            }
            None => {
                let _ = write!(text, "\n{} is in A only.\n", words::markdown(&a.title()));
            }
        }
    }
    for b in &of_b {
        if !of_a.iter().any(|a| a.scenario == b.scenario && a.quick == b.quick) {
            let _ = write!(text, "\n{} is in B only.\n", words::markdown(&b.title()));
        }
    }
    if common {
        return Ok(text);
    }
    let names = |studies: &[Study]| words::list(&studies.iter().map(Study::title).collect::<Vec<_>>());
    Err(format!("nothing to compare: A has {}, B has {}", names(&of_a), names(&of_b)))
}

/// An arm in a cell of both.
struct Row {
    arm: String,
    cell: String,
    levels: (Option<Estimate>, Option<Estimate>),
    gain: Option<Estimate>,
    ratios: (Option<Estimate>, Option<Estimate>),
    reference: bool,
}

impl Row {
    /// Whether both are the same within their intervals; `None` where that cannot be told.
    fn agree(&self) -> Option<bool> {
        if self.reference {
            let (low, high) = self.gain.as_ref()?.interval?;
            return Some(low <= 1.0 && 1.0 <= high);
        }
        let (a, b) = (self.ratios.0.as_ref()?.interval?, self.ratios.1.as_ref()?.interval?);
        Some(a.0 <= b.1 && b.0 <= a.1)
    }
}

fn section(a: &Study, b: &Study) -> String {
    let mut text = format!("\n## {}\n", words::markdown(&a.title()));
    let differences = differences(a, b);
    if !differences.is_empty() {
        text.push_str("\nWhat differs between A and B:\n\n");
        for difference in differences {
            let _ = writeln!(text, "- {}", words::markdown(&difference));
        }
    }
    let same_reference = a.arms[a.reference].name == b.arms[b.reference].name;
    let rows = rows(a, b, same_reference);
    if rows.is_empty() {
        text.push_str("\nNo arm and cell is in both.\n");
        return text;
    }
    let figure = a.figure.name();
    let over = format!("to {}", a.arms[a.reference].name);
    let heads = [
        "arm".to_owned(),
        "cell".to_owned(),
        format!("#A, {figure}"),
        format!("#B, {figure}"),
        "#B over A [95 %]".to_owned(),
        format!("#A {over} [95 %]"),
        format!("#B {over} [95 %]"),
        "within intervals".to_owned(),
    ];
    let mut table = Table::new(&heads.each_ref().map(String::as_str));
    table.rows = rows.iter().map(shown).collect();
    let _ = write!(text, "\n{}", table.without_empty_columns().markdown());
    let _ = write!(text, "\n**Verdict:** {}\n", words::markdown(&verdict(&rows)));
    text
}

fn shown(row: &Row) -> Vec<String> {
    let dash = || "–".to_owned();
    let level =
        |level: &Option<Estimate>| level.as_ref().map_or_else(dash, |level| words::figure(level.value));
    let ratio = |ratio: &Option<Estimate>| ratio.as_ref().map_or_else(dash, words::estimate);
    let agree = match row.agree() {
        Some(true) => "yes",
        Some(false) => "no",
        None => "cannot tell",
    };
    vec![
        row.arm.clone(),
        row.cell.clone(),
        level(&row.levels.0),
        level(&row.levels.1),
        ratio(&row.gain),
        ratio(&row.ratios.0),
        ratio(&row.ratios.1),
        agree.to_owned(),
    ]
}

fn rows(a: &Study, b: &Study, same_reference: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for (cell_a, cell) in a.cells.iter().enumerate() {
        let Some(cell_b) = b.cells.iter().position(|other| other.name == cell.name) else { continue };
        for (arm_a, arm) in a.arms.iter().enumerate() {
            let Some(arm_b) = b.arms.iter().position(|other| other.name == arm.name) else { continue };
            let (Some(in_a), Some(in_b)) = (a.group(arm_a, cell_a), b.group(arm_b, cell_b)) else { continue };
            let values = |study: &Study, arm, cell| -> Vec<f64> {
                study.values(arm, cell, a.figure).into_values().collect()
            };
            let ratio = |ratio: &Option<Estimate>| ratio.clone().filter(|_| same_reference);
            rows.push(Row {
                arm: arm.name.clone(),
                cell: cell.name.clone(),
                gain: stats::between(&values(a, arm_a, cell_a), &values(b, arm_b, cell_b)),
                levels: (in_a.level.clone(), in_b.level.clone()),
                ratios: (ratio(&in_a.ratio), ratio(&in_b.ratio)),
                reference: arm_a == a.reference || !same_reference,
            });
        }
    }
    rows
}

fn verdict(rows: &[Row]) -> String {
    let told: Vec<bool> = rows.iter().filter_map(Row::agree).collect();
    let disagree: Vec<String> = rows
        .iter()
        .filter(|row| row.agree() == Some(false))
        .map(|row| if row.cell.is_empty() { row.arm.clone() } else { format!("{}, {}", row.arm, row.cell) })
        .collect();
    let untold = rows.len() - told.len();
    let rest =
        if untold > 0 { format!("; {untold} cannot be told for want of pairs") } else { String::new() };
    if told.is_empty() {
        return "whether the two agree cannot be told: there are no intervals.".to_owned();
    }
    if disagree.is_empty() {
        return format!(
            "the two agree within their intervals in all of {}{rest}.",
            words::count(told.len(), "comparison")
        );
    }
    // Intervals of 95 % miss by themselves now and then.
    let chance = told.len() as f64 * 0.05;
    let by_chance = if disagree.len() as f64 <= chance.max(0.5) { ", no more than chance gives" } else { "" };
    let of = words::count(told.len(), "comparison");
    format!("the two differ in {} of {of}{by_chance}: {}{rest}.", disagree.len(), disagree.join("; "))
}

/// What is not the same in both, so that a reader knows what he compares.
fn differences(a: &Study, b: &Study) -> Vec<String> {
    let mut differences = Vec::new();
    let machine =
        |study: &Study| study.runs().next().map(|run| study::machine(&run.machine)).unwrap_or_default();
    let mut differ = |what: &str, in_a: String, in_b: String| {
        if in_a != in_b {
            differences.push(format!("{what}: {} in A, {} in B", or_none(in_a), or_none(in_b)));
        }
    };
    differ("machine (ratios may be compared, figures not)", machine(a), machine(b));
    differ("most pairs", a.pairs().to_string(), b.pairs().to_string());
    for (in_a, arm) in a.arms.iter().enumerate() {
        let Some(in_b) = b.arms.iter().position(|other| other.name == arm.name) else { continue };
        let (Some(run_a), Some(run_b)) = (a.run_of(in_a), b.run_of(in_b)) else { continue };
        let (of_a, of_b) = (&run_a.server, &run_b.server);
        let name = &arm.name;
        differ(&format!("version of {name}"), of_a.version.clone(), of_b.version.clone());
        let commit = |commit: &Option<String>| words::cut(commit.as_deref().unwrap_or_default(), 12);
        differ(&format!("commit of {name}"), commit(&of_a.commit), commit(&of_b.commit));
        differ(&format!("settings of {name}"), of_a.settings.join("; "), of_b.settings.join("; "));
        differ(&format!("workload of {name}"), run_a.workload.clone(), run_b.workload.clone());
    }
    let only = |of: &Study, other: &Study| -> Vec<String> {
        let missing = |arm: &&study::Arm| !other.arms.iter().any(|has| has.name == arm.name);
        of.arms.iter().filter(missing).map(|arm| arm.name.clone()).collect()
    };
    for (name, arms) in [("A", only(a, b)), ("B", only(b, a))] {
        if !arms.is_empty() {
            differences.push(format!("in {name} only: {}", words::list(&arms)));
        }
    }
    differences
}

fn or_none(text: String) -> String {
    if text.is_empty() { "none".to_owned() } else { text }
}

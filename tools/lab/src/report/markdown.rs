//! `report.md`: a table for each scenario and what is to be said of it.

use std::fmt::Write;

use crate::report::study::{self, Study};
use crate::report::{regret, table, verdict, words};

/// The whole page.
pub fn page(studies: &[Study], notes: &[String]) -> String {
    let mut text = String::from("# What the lab measured\n");
    for note in notes {
        let _ = write!(text, "\n> {}\n", words::markdown(note));
    }
    for study in studies {
        text.push_str(&section(study));
    }
    text.push_str(FOOT);
    text
}

const FOOT: &str = "\nRatios are medians of the ratios of pairs, runs that were neighbours in time. Brackets hold the median with 95 %: \
by order statistics from six pairs on, by Student's distribution of the logarithms below. Other figures are medians of runs; errors \
are those of all runs together.\n";

/// A scenario.
pub fn section(study: &Study) -> String {
    let (checked, unasked) = verdict::check(study);
    let mut text = format!("\n## {}\n", words::markdown(&study.title()));
    if let Some(found) = &study.found {
        let _ = write!(
            text,
            "\n{} ({}).\n",
            words::markdown(&words::capital(found.asks)),
            words::markdown(found.report)
        );
    }
    let _ = write!(text, "\n**Verdict:** {}\n", words::markdown(&verdict::sentence(study, &checked)));
    let _ = write!(text, "\n{}", table::arms(study, &checked).markdown());
    if !checked.is_empty() {
        let _ = write!(text, "\n{}", table::claims(study, &checked).markdown());
    }
    if let Some(regret) = regret::table(study, &checked) {
        let told = regret::sentence(study, &checked).unwrap_or_default();
        let _ = write!(text, "\n{}.\n\n{}", words::markdown(&words::capital(&told)), regret.markdown());
    }
    if let Some(more) = table::more(study) {
        let _ = write!(text, "\n{}", more.markdown());
    }
    let notes = notes(study, &unasked);
    if !notes.is_empty() {
        text.push_str("\nMissing and doubtful:\n\n");
        for note in notes {
            let _ = writeln!(text, "- {}", words::markdown(&note));
        }
    }
    if let Some(run) = study.runs().next() {
        let _ = write!(text, "\nMachine: {}.\n", words::markdown(&study::machine(&run.machine)));
    }
    text
}

/// What is missing or doubtful, what could not be asked among it.
pub fn notes(study: &Study, unasked: &[String]) -> Vec<String> {
    let mut notes: Vec<String> = study.notes.iter().chain(&study.skipped).cloned().collect();
    if !unasked.is_empty() {
        let shown = unasked[..unasked.len().min(4)].join("; ");
        let more = unasked.len().saturating_sub(4);
        let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        notes.push(format!("Not measured here, though the report has it: {shown}{more}."));
    }
    notes
}

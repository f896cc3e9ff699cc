//! `report.html`: one file with everything in it, without script, for screens, phones and paper.

use std::fmt::Write;

use crate::report::plots::{self, Plots};
use crate::report::study::{self, Study};
use crate::report::{markdown, regret, svg, table, verdict, words};

const STYLE: &str = include_str!("style.css");

/// The whole page.
pub fn page(studies: &[Study], notes: &[String]) -> String {
    let title = words::html(&match studies {
        [one] => format!("{}: the lab's report", one.title()),
        _ => "The lab's report".to_owned(),
    });
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>The lab's report</h1>\n"
    );
    note_block(&mut text, notes);
    if studies.len() > 1 {
        text.push_str("<nav aria-label=\"Scenarios\"><ul>\n");
        for (index, study) in studies.iter().enumerate() {
            let _ = writeln!(text, "<li><a href=\"#s{index}\">{}</a></li>", words::html(&study.title()));
        }
        text.push_str("</ul></nav>\n");
    }
    text.push_str("<main>\n");
    for (index, study) in studies.iter().enumerate() {
        section(&mut text, study, index);
    }
    text.push_str("</main>\n</body>\n</html>\n");
    text
}

fn note_block(text: &mut String, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    text.push_str("<div class=\"notes\"><strong>Missing and doubtful</strong><ul>\n");
    for note in notes {
        let _ = writeln!(text, "<li>{}</li>", words::html(note));
    }
    text.push_str("</ul></div>\n");
}

fn section(text: &mut String, study: &Study, index: usize) {
    let (checked, unasked) = verdict::check(study);
    let first = if index == 0 { " class=\"first\"" } else { "" };
    let _ = writeln!(text, "<section>\n<h2 id=\"s{index}\"{first}>{}</h2>", words::html(&study.title()));
    let _ = writeln!(text, "<p class=\"lead\">{}</p>", words::html(&lead(study)));
    let sentence = verdict::sentence(study, &checked);
    let _ = writeln!(text, "<p class=\"verdict\"><strong>Verdict:</strong> {}</p>", words::html(&sentence));
    note_block(text, &markdown::notes(study, &unasked));
    for plots in plots::plots(study, &checked) {
        charts(text, study, &plots);
    }
    if !checked.is_empty() {
        text.push_str("<h3>The report's figures</h3>\n");
        text.push_str(&table::claims(study, &checked).cards("What the report says, and what is found here"));
    }
    if let Some(regret) = regret::table(study, &checked) {
        text.push_str("<h3>Regret</h3>\n");
        text.push_str(&regret.cards(
            "What no settings leave of the best that a search found, measured again beside each other",
        ));
    }
    text.push_str("<div class=\"wide\">\n<h3>Figures</h3>\n");
    text.push_str(&table::arms(study, &checked).html(
        "Medians of runs; ratios are medians over pairs with their 95 % interval; errors are those of all runs; tx is a transaction",
    ));
    text.push_str("</div>\n");
    if let Some(more) = table::more(study) {
        text.push_str(&more.html("Further figures of this scenario, medians of runs"));
    }
    conditions(text, study);
    text.push_str("</section>\n");
}

fn lead(study: &Study) -> String {
    let runs = words::count(study.runs().count(), "run");
    let pairs = words::count(study.pairs(), "pair");
    let arms =
        format!("{} in {}", words::count(study.arms.len(), "arm"), words::count(study.cells.len(), "cell"));
    let asks = study
        .found
        .as_ref()
        .map(|found| format!("{} (report {}). ", words::capital(found.asks), found.report));
    format!("{}{arms}, {pairs}, {runs}.", asks.unwrap_or_default())
}

fn charts(text: &mut String, study: &Study, plots: &Plots) {
    let _ = writeln!(text, "<h3>{}</h3>", plots.title);
    if plots.legend {
        text.push_str("<ul class=\"legend\">");
        for (arm, of) in study.arms.iter().enumerate() {
            let missing = if study.run_of(arm).is_none() { " (missing)" } else { "" };
            let _ =
                write!(text, "<li>{}<span>{}{missing}</span></li>", svg::swatch(arm), words::html(&of.name));
        }
        text.push_str("</ul>\n");
    }
    text.push_str("<div class=\"charts\">\n");
    for plot in &plots.plots {
        let _ = writeln!(
            text,
            "<figure><h4>{}</h4>\n{}<figcaption>{}</figcaption></figure>",
            words::html(&plot.title),
            plot.svg,
            words::html(&plot.caption)
        );
    }
    text.push_str("</div>\n");
}

/// Machine, settings, seeds, variables.
fn conditions(text: &mut String, study: &Study) {
    text.push_str("<h3>Machine, settings, seeds</h3>\n");
    let mut machines: Vec<String> = study.runs().map(|run| study::machine(&run.machine)).collect();
    machines.sort_unstable();
    machines.dedup();
    for machine in machines {
        let _ = writeln!(text, "<p>{}</p>", words::html(&machine));
    }
    let mut started: Vec<&str> = study.runs().map(|run| run.started.as_str()).collect();
    started.sort_unstable();
    if let (Some(first), Some(last)) = (started.first(), started.last()) {
        let _ =
            writeln!(text, "<p>First run {}, last run {} (UTC).</p>", words::html(first), words::html(last));
    }
    text.push_str(&table::settings(study).cards("Servers and the settings they were started with"));
    text.push_str(&table::workloads(study).cards("Workloads and the seeds of their random numbers"));
    let (within, across) = table::variables(study);
    for (table, what) in [(within, "between arms of one engine"), (across, "between engines only")] {
        if table.rows.is_empty() {
            continue;
        }
        let differ = if table.rows.len() == 1 { "differs" } else { "differ" };
        let summary = format!("{} that {differ} {what}", words::count(table.rows.len(), "variable"));
        let caption = format!("Variables that differ {what}; names of files, ports and moments are left out");
        let _ = writeln!(text, "<details><summary>{summary}</summary>\n{}</details>", table.html(&caption));
    }
}

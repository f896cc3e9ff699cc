//! Regret: what the default leaves of the best that a search found, one less the quotient of the two. Below zero no searched settings did
//! better than none.

use crate::report::plots::Plot;
use crate::report::strips::{self, Strip};
use crate::report::study::Study;
use crate::report::svg::Scale;
use crate::report::table::Table;
use crate::report::verdict::Checked;
use crate::report::words;
use crate::stats;

/// The scenario that has it.
const SCENARIO: &str = "zero-tuning";

/// An engine's regret in a cell.
struct Regret<'a> {
    checked: &'a Checked,
    engine: &'a str,
    cell: &'a str,
    /// In percent.
    value: f64,
    interval: Option<(f64, f64)>,
}

fn percent(ratio: f64) -> f64 {
    if ratio > 0.0 { (1.0 - 1.0 / ratio) * 100.0 } else { f64::NAN }
}

/// Of each engine in each cell where both arms ran.
fn all<'a>(study: &'a Study, checked: &'a [Checked]) -> Vec<Regret<'a>> {
    let one = |checked: &'a Checked| Regret {
        checked,
        engine: &study.arms[checked.arms.0].engine,
        cell: &study.cells[checked.cells.0].name,
        value: percent(checked.ours.value),
        interval: checked.ours.interval.map(|(low, high)| (percent(low), percent(high))),
    };
    if study.scenario == SCENARIO { checked.iter().map(one).collect() } else { Vec::new() }
}

fn engines<'a>(all: &[Regret<'a>]) -> Vec<&'a str> {
    let mut engines: Vec<&str> = Vec::new();
    for regret in all {
        if !engines.contains(&regret.engine) {
            engines.push(regret.engine);
        }
    }
    engines
}

fn shown(value: f64) -> String {
    format!("{value:.1} %")
}

/// A row for each engine in each cell, and what they come to.
pub fn table(study: &Study, checked: &[Checked]) -> Option<Table> {
    let all = all(study, checked);
    if all.is_empty() {
        return None;
    }
    let mut table =
        Table::new(&["engine", "cell", "#regret", "#95 %", "#p99, default over best", "best settings found"]);
    for engine in engines(&all) {
        let of_engine: Vec<&Regret> = all.iter().filter(|regret| regret.engine == engine).collect();
        table.rows.extend(of_engine.iter().map(|regret| row(study, regret)));
        let values: Vec<f64> = of_engine.iter().map(|regret| regret.value).collect();
        let (Some(median), Some(worst)) = (stats::median(&values), worst(&of_engine)) else { continue };
        let told = format!("median {}, worst {}", shown(median), shown(worst.value));
        let cells = words::count(of_engine.len(), "cell");
        table.rows.push([engine, &format!("all {cells}"), &told, "", "", ""].map(str::to_owned).to_vec());
    }
    Some(table)
}

fn row(study: &Study, regret: &Regret) -> Vec<String> {
    let ((best, default), (cell, _)) = (regret.checked.arms, regret.checked.cells);
    let p99 = |arm: usize| study.group(arm, cell)?.median(|run| Some(run.result.p99_ms));
    let slower = p99(default).zip(p99(best)).filter(|(_, best)| *best > 0.0).map(|(of, over)| of / over);
    let run = study.group(best, cell).and_then(|group| group.runs.values().next());
    let settings = run.map(|run| run.server.settings.join("; ")).unwrap_or_default();
    vec![
        regret.engine.to_owned(),
        regret.cell.to_owned(),
        shown(regret.value),
        regret.interval.map_or_else(
            || "one pair".to_owned(),
            |(low, high)| format!("[{}, {}]", shown(low), shown(high)),
        ),
        slower.map_or_else(|| "–".to_owned(), words::ratio),
        if settings.is_empty() { "none".to_owned() } else { settings },
    ]
}

fn worst<'a, 'b>(regrets: &[&'b Regret<'a>]) -> Option<&'b Regret<'a>> {
    regrets.iter().copied().max_by(|a, b| a.value.total_cmp(&b.value))
}

/// What was measured, in a sentence; `None` for other scenarios.
pub fn sentence(study: &Study, checked: &[Checked]) -> Option<String> {
    let all = all(study, checked);
    let of_engine = |engine: &str| -> Option<String> {
        let regrets: Vec<&Regret> = all.iter().filter(|regret| regret.engine == engine).collect();
        let median = stats::median(&regrets.iter().map(|regret| regret.value).collect::<Vec<_>>())?;
        let worst = worst(&regrets)?;
        let cells = words::count(regrets.len(), "cell");
        Some(format!(
            "the regret of {engine} is {} (median of {cells}), {} at worst ({})",
            shown(median),
            shown(worst.value),
            worst.cell
        ))
    };
    let told: Vec<String> = engines(&all).into_iter().filter_map(of_engine).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// A chart of all of them.
pub fn plot(study: &Study, checked: &[Checked]) -> Vec<Plot> {
    let all = all(study, checked);
    let rows: Vec<Strip> = all
        .iter()
        .map(|regret| Strip {
            label: format!("{}: {}", regret.engine, regret.cell),
            note: shown(regret.value),
            value: regret.value.max(0.0),
            interval: regret.interval,
            report: None,
            series: regret.checked.arms.0,
        })
        .collect();
    let title = "Regret: what no settings leave of the best found".to_owned();
    let caption = sentence(study, checked).unwrap_or_default();
    rows.chunks(strips::ROWS_MAX)
        .map(|rows| {
            let scale = Scale::Linear(0.0, 100.0);
            let svg = strips::draw(&title, &caption, rows, scale, None, "percent");
            Plot { title: title.clone(), svg, caption: format!("{}.", words::capital(&caption)) }
        })
        .collect()
}

//! Charts of ratios: ours beside the report's, and each arm over the reference.

use crate::found::Place;
use crate::report::plots::{CELLS_MAX, Plot, in_cell, of_cell};
use crate::report::strips::{self, Strip};
use crate::report::study::Study;
use crate::report::svg::Scale;
use crate::report::verdict::Checked;
use crate::report::{table, words};

/// Against the report first, then each arm against the reference.
pub fn plots(study: &Study, checked: &[Checked]) -> Vec<Plot> {
    let mut plots = Vec::new();
    let claims: Vec<Strip> = checked.iter().map(|checked| claim_strip(study, checked)).collect();
    let scale = strips::ratio_scale(&claims);
    for (part, rows) in claims.chunks(strips::ROWS_MAX).enumerate() {
        let checked = &checked[part * strips::ROWS_MAX..];
        plots.push(claims_plot(rows, &checked[..rows.len()], scale));
    }
    plots.extend(against_reference(study, checked));
    plots
}

/// A chart for each cell; or for each arm, where arms are few and cells are not.
fn against_reference(study: &Study, checked: &[Checked]) -> Vec<Plot> {
    let rows: Vec<(usize, usize, Strip)> = (0..study.cells.len())
        .flat_map(|cell| {
            reference_strips(study, checked, cell).into_iter().map(move |row| (cell, row.series, row))
        })
        .collect();
    let strips: Vec<Strip> = rows.iter().map(|(_, _, row)| row.clone()).collect();
    let scale = strips::ratio_scale(&strips);
    let by_arm = study.arms.len() <= 4 && study.cells.len() > 1;
    let (figure, reference) = (words::capital(study.figure.name()), &study.arms[study.reference].name);
    let parts = if by_arm { study.arms.len() } else { study.cells.len() };
    let mut plots = Vec::new();
    for part in 0..parts {
        let named = |(cell, arm, row): &(usize, usize, Strip)| {
            let label = if by_arm { study.cells[*cell].name.clone() } else { study.arms[*arm].name.clone() };
            Strip { label, ..row.clone() }
        };
        let of_part = rows.iter().filter(|(cell, arm, _)| part == if by_arm { *arm } else { *cell });
        let rows: Vec<Strip> = of_part.map(named).collect();
        for rows in rows.chunks(strips::ROWS_MAX) {
            let title = match by_arm {
                true => format!("{figure}, {} over {reference}", study.arms[part].name),
                false => format!("{figure} over {reference}{}", of_cell(study, part)),
            };
            let caption = ratio_caption(rows, if by_arm { "cell" } else { "arm" });
            let svg = strips::draw(&title, &caption, rows, scale, Some(1.0), "times as much");
            plots.push(Plot { title, svg, caption });
        }
    }
    plots.truncate(CELLS_MAX);
    plots
}

fn claim_strip(study: &Study, checked: &Checked) -> Strip {
    let claim = &checked.claim;
    let arm = &study.arms[checked.arms.0];
    let name = if claim.of.setting.is_empty() { &arm.name } else { &arm.engine };
    let cell = &study.cells[checked.cells.0].name;
    let every = claim.of.place == Place::Every && study.cells.len() > 1;
    let place = if every { format!(", {cell}") } else { String::new() };
    let figure = if claim.figure == study.figure { "" } else { claim.figure.name() };
    let figure = if figure.is_empty() { String::new() } else { format!(", {figure}") };
    Strip {
        label: format!("{name}{place}: {}{figure}", claim.says),
        note: words::ratio(checked.ours.value),
        value: checked.ours.value,
        interval: checked.ours.interval,
        report: Some(claim.ratio),
        series: checked.arms.0,
    }
}

fn claims_plot(rows: &[Strip], checked: &[Checked], scale: Scale) -> Plot {
    let count = |word: &str| checked.iter().filter(|checked| checked.verdict.word() == word).count();
    let told: Vec<String> = ["agrees", "contradicts", "cannot tell"]
        .into_iter()
        .filter(|word| count(word) > 0)
        .map(|word| format!("{word} in {}", count(word)))
        .collect();
    let caption = format!(
        "The open diamond is the report's ratio, the filled marker ours, the line its 95 % interval: {} of {}.",
        words::list(&told),
        checked.len()
    );
    let title = "Ours beside the report's".to_owned();
    let svg = strips::draw(&title, &caption, rows, scale, Some(1.0), "times as much");
    Plot { title, svg, caption }
}

fn reference_strips(study: &Study, checked: &[Checked], cell: usize) -> Vec<Strip> {
    in_cell(study, cell)
        .filter_map(|(arm, group)| {
            let ratio = group.ratio.as_ref()?;
            Some(Strip {
                label: study.arms[arm].name.clone(),
                note: words::estimate(ratio),
                value: ratio.value,
                interval: ratio.interval,
                report: table::reports_ratio(study, checked, arm, cell),
                series: arm,
            })
        })
        .collect()
}

fn ratio_caption(rows: &[Strip], noun: &str) -> String {
    let above = rows.iter().filter(|row| row.interval.is_some_and(|(low, _)| low > 1.0)).count();
    let below = rows.iter().filter(|row| row.interval.is_some_and(|(_, high)| high < 1.0)).count();
    let without = rows.iter().filter(|row| row.interval.is_none()).count();
    let across = rows.len() - above - below - without;
    let mut parts = Vec::new();
    for (count, what) in [
        (above, "above 1"),
        (below, "below 1"),
        (across, "not to be told from 1"),
        (without, "without an interval"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    let diamond =
        if rows.iter().any(|row| row.report.is_some()) { " The open diamond is the report's." } else { "" };
    format!("Of {}: {}.{diamond}", words::count(rows.len(), noun), words::list(&parts))
}

//! The charts of a scenario and what is seen in each.

use crate::found::Place;
use crate::report::strips::{self, Strip};
use crate::report::study::{Group, Study, without};
use crate::report::svg::{self, Drawing, Frame, Scale, Tick};
use crate::report::table;
use crate::report::verdict::Checked;
use crate::report::words;

/// A chart with its words.
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The drawing.
    pub svg: String,
    /// What is seen in it.
    pub caption: String,
}

/// Charts of one kind.
pub struct Plots {
    /// The kind.
    pub title: &'static str,
    /// Whether arms are told apart by colour, dash and marker, so that a legend is needed.
    pub legend: bool,
    /// Its charts.
    pub plots: Vec<Plot>,
}

/// As many charts as this stand together under one legend.
const TOGETHER_MAX: usize = 6;
/// Charts of a kind for single cells: no more than this.
const CELLS_MAX: usize = 24;
/// Bands of more arms than this hide each other; then intervals are whiskers.
const BANDS_MAX: usize = 4;
const HEIGHT: f64 = 300.0;

/// All charts of a scenario.
pub fn plots(study: &Study, checked: &[Checked]) -> Vec<Plots> {
    let all = [
        Plots { title: "Throughput", legend: true, plots: throughput(study) },
        Plots { title: "Ratios", legend: false, plots: ratios(study, checked) },
        Plots { title: "Latency", legend: true, plots: by_cell(study, latency) },
        Plots { title: "Over time", legend: true, plots: by_cell(study, series) },
    ];
    let mut all: Vec<Plots> = all.into_iter().filter(|plots| !plots.plots.is_empty()).collect();
    if all.iter().map(|plots| plots.plots.len()).sum::<usize>() <= TOGETHER_MAX {
        let plots = all.into_iter().flat_map(|plots| plots.plots).collect();
        return vec![Plots { title: "Charts", legend: true, plots }];
    }
    // Throughput by bars names each arm itself.
    if let Some(first) = all.first_mut().filter(|plots| plots.title == "Throughput") {
        first.legend = panels(study).iter().any(|panel| panel.cells.len() > 1);
    }
    all
}

fn by_cell(study: &Study, plot: fn(&Study, usize) -> Option<Plot>) -> Vec<Plot> {
    (0..study.cells.len()).take(CELLS_MAX).filter_map(|cell| plot(study, cell)).collect()
}

fn in_cell(study: &Study, cell: usize) -> impl Iterator<Item = (usize, &Group)> {
    (0..study.arms.len()).filter_map(move |arm| Some((arm, study.group(arm, cell)?)))
}

/// The cell's name as the end of a title.
fn of_cell(study: &Study, cell: usize) -> String {
    let name = &study.cells[cell].name;
    if name.is_empty() { String::new() } else { format!(": {name}") }
}

/// Cells along one axis.
struct Panel {
    name: String,
    cells: Vec<usize>,
}

/// Cells along one axis share a panel: all of them where no place comes twice, else those whose names differ by their place alone.
/// Those without a place stand alone.
fn panels(study: &Study) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for (index, cell) in study.cells.iter().enumerate() {
        let name = match cell.x {
            Some(x) => without(&cell.name, x),
            None => format!("\u{0}{}", cell.name),
        };
        match panels.iter_mut().find(|panel| panel.name == name) {
            Some(panel) => panel.cells.push(index),
            None => panels.push(Panel { name, cells: vec![index] }),
        }
    }
    let xs: Vec<f64> = study.cells.iter().filter_map(|cell| cell.x).collect();
    let along = xs.len() == study.cells.len() && xs.windows(2).all(|two| two[0] < two[1]);
    if panels.len() > 1 && along {
        return vec![Panel { name: String::new(), cells: (0..xs.len()).collect() }];
    }
    panels
}

fn throughput(study: &Study) -> Vec<Plot> {
    let mut plots = Vec::new();
    for panel in panels(study) {
        match panel.cells.as_slice() {
            [cell] => plots.extend(levels(study, *cell)),
            _ => plots.extend(lines(study, &panel)),
        }
    }
    plots.truncate(CELLS_MAX);
    plots
}

fn lines(study: &Study, panel: &Panel) -> Option<Plot> {
    let levels: Vec<(usize, Vec<(f64, f64, (f64, f64))>)> = (0..study.arms.len())
        .map(|arm| (arm, panel.cells.iter().filter_map(|cell| point(study, arm, *cell)).collect()))
        .filter(|(_, points): &(usize, Vec<_>)| !points.is_empty())
        .collect();
    let mut ticks: Vec<Tick> = panel.cells.iter().filter_map(|cell| tick(study, panel, *cell)).collect();
    let x = axis(ticks.iter().map(|tick| tick.0));
    if study.found.as_ref().is_some_and(|found| found.axis.is_some()) {
        ticks = x.ticks(7.0).into_iter().map(|tick| (tick, words::tick(tick))).collect();
    }
    let y = Scale::for_levels(levels.iter().flat_map(|(_, points)| points.iter().map(|p| (p.1, p.2.1))));
    let figure = study.figure.name();
    let axis_name = axis_name(study, panel);
    // What is left of a panel's name beside its axis: the workload.
    let name = panel.name.trim_end_matches(&axis_name).trim_matches([',', ' ']);
    let name = if name.is_empty() { String::new() } else { format!(": {name}") };
    let title = format!("{} by {axis_name}", words::capital(figure));
    let caption = lines_caption(study, panel, &levels);
    let mut drawing = Drawing::new(HEIGHT, &format!("{title}{name}"), &caption);
    let frame = Frame::new(&mut drawing, x, y, &ticks, (&axis_name, figure));
    for (arm, points) in &levels {
        let color = svg::colour(*arm);
        if levels.len() <= BANDS_MAX {
            let edge =
                |of: fn((f64, f64)) -> f64| points.iter().map(|p| frame.at(p.0, of(p.2))).collect::<Vec<_>>();
            drawing.area(&format!("band {color}"), &edge(|low| low.0), &edge(|high| high.1));
        }
    }
    for (place, (arm, points)) in levels.iter().enumerate() {
        if levels.len() > BANDS_MAX {
            // Whiskers of neighbours stand beside each other.
            let aside = (place as f64 - (levels.len() - 1) as f64 / 2.0) * 1.6;
            for (x, _, (low, high)) in points {
                let ((x, low), (_, high)) = (frame.at(*x, *low), frame.at(*x, *high));
                drawing.line(&format!("w thin {}", svg::colour(*arm)), (x + aside, low), (x + aside, high));
            }
        }
        let line: Vec<(f64, f64)> = points.iter().map(|(x, value, _)| frame.at(*x, *value)).collect();
        drawing.path(&format!("l {}", svg::classes(*arm)), &line);
        line.iter().for_each(|(x, y)| drawing.raw(&svg::marker(*arm, *x, *y)));
    }
    Some(Plot { title: format!("{title}{name}"), svg: drawing.finish(), caption })
}

fn point(study: &Study, arm: usize, cell: usize) -> Option<(f64, f64, (f64, f64))> {
    let level = study.group(arm, cell)?.level.as_ref()?;
    Some((study.cells[cell].x?, level.value, level.interval.unwrap_or((level.value, level.value))))
}

/// Linear where places are near each other, else logarithmic, with room at the ends.
fn axis(places: impl Iterator<Item = f64> + Clone) -> Scale {
    let (low, high) =
        places.clone().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
    if low > 0.0 && high > low * 5.0 {
        let room = (high / low).powf(0.04);
        return Scale::Log(low / room, high * room);
    }
    let room = if high > low { (high - low) * 0.05 } else { 1.0 };
    Scale::Linear(low - room, high + room)
}

fn tick(study: &Study, panel: &Panel, cell: usize) -> Option<Tick> {
    let cell = &study.cells[cell];
    let x = cell.x?;
    let text = if panel.name.is_empty() { words::cut(&cell.name, 12) } else { words::tick(x) };
    Some((x, if text.is_empty() { words::tick(x) } else { text }))
}

/// The axis' name: what the cells' names have beside their number.
fn axis_name(study: &Study, panel: &Panel) -> String {
    if let Some(axis) = study.found.as_ref().and_then(|found| found.axis) {
        return axis.to_owned();
    }
    match panel.name.rsplit([',', ' ']).next() {
        Some(last) if !last.is_empty() && !last.contains('\u{0}') => last.to_owned(),
        _ => "cell".to_owned(),
    }
}

type Levels = (usize, Vec<(f64, f64, (f64, f64))>);

fn lines_caption(study: &Study, panel: &Panel, levels: &[Levels]) -> String {
    let last = panel.cells.last().copied().unwrap_or_default();
    let name = &study.cells[last].name;
    let mut ends: Vec<(usize, f64)> = levels
        .iter()
        .filter_map(|(arm, _)| Some((*arm, study.group(*arm, last)?.level.as_ref()?.value)))
        .collect();
    ends.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut text = match ends.as_slice() {
        [] => format!("Nothing was measured at {name}. "),
        [(arm, value)] => format!("At {name}, {} has {}. ", study.arms[*arm].name, words::figure(*value)),
        [(best, most), .., (worst, least)] => format!(
            "At {name}, {} is highest with {}, {} lowest with {}. ",
            study.arms[*best].name,
            words::figure(*most),
            study.arms[*worst].name,
            words::figure(*least)
        ),
    };
    let kept: Vec<String> = levels
        .iter()
        .filter_map(|(arm, points)| {
            let peak = points.iter().map(|point| point.1).fold(0.0, f64::max);
            let end = study.group(*arm, last)?.level.as_ref()?.value;
            (peak > 0.0 && end < peak * 0.95).then(|| {
                format!("{} keeps {:.0} % of its best there", study.arms[*arm].name, end / peak * 100.0)
            })
        })
        .take(4)
        .collect();
    if !kept.is_empty() {
        text.push_str(&format!("{}. ", words::list(&kept)));
    }
    let shown = if levels.len() <= BANDS_MAX { "Bands" } else { "Whiskers" };
    text.push_str(&match study.pairs() {
        0 | 1 => "Points are single runs; there are no intervals.".to_owned(),
        _ => format!("Points are medians; {} are their 95 % intervals.", shown.to_lowercase()),
    });
    text
}

/// Bars, where nothing is along an axis.
fn levels(study: &Study, cell: usize) -> Option<Plot> {
    let rows: Vec<Strip> = in_cell(study, cell)
        .filter_map(|(arm, group)| {
            let level = group.level.as_ref()?;
            Some(Strip {
                label: study.arms[arm].name.clone(),
                note: words::figure(level.value),
                value: level.value,
                interval: level.interval,
                report: None,
                series: arm,
            })
        })
        .collect();
    let most = rows.iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
    let intervals = if study.pairs() > 1 {
        "Whiskers are 95 % intervals of the median."
    } else {
        "Single runs, no intervals."
    };
    let caption = format!("{} is highest with {}. {intervals}", most.label, most.note);
    let scale = Scale::for_levels(rows.iter().map(|row| (row.value, row.interval.map_or(0.0, |i| i.1))));
    let title = format!("{}{}", words::capital(study.figure.name()), of_cell(study, cell));
    let svg = strips::draw(&title, &caption, &rows, scale, None, study.figure.name());
    Some(Plot { title, svg, caption })
}

/// Against the report first, then each arm against the reference.
fn ratios(study: &Study, checked: &[Checked]) -> Vec<Plot> {
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

/// How far a curve of latencies is drawn, in powers of ten of rarity.
const RARITY_MAX: f64 = 6.0;

/// Milliseconds against the share of transactions, the tail stretched as in HdrHistogram's percentile plots.
fn latency(study: &Study, cell: usize) -> Option<Plot> {
    let curves: Vec<(usize, Vec<(f64, f64)>)> = in_cell(study, cell)
        .map(|(arm, group)| (arm, curve(group)))
        .filter(|(_, curve)| curve.len() > 1)
        .collect();
    if curves.is_empty() {
        return None;
    }
    let end =
        curves.iter().filter_map(|(_, curve)| curve.last()).map(|(rarity, _)| *rarity).fold(1.0, f64::max);
    let y = Scale::log(curves.iter().flat_map(|(_, curve)| curve.iter().map(|(_, ms)| *ms)), 10.0);
    let shares = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999];
    let ticks: Vec<Tick> = shares
        .into_iter()
        .map(|share| (rarity(share), format!("{} %", words::tick((share * 1e6f64).round() / 1e4))))
        .filter(|(rarity, _)| *rarity <= end + 1e-9)
        .collect();
    let title = format!("Latency{}", of_cell(study, cell));
    let caption = latency_caption(study, cell);
    let mut drawing = Drawing::new(HEIGHT, &title, &caption);
    let frame = Frame::new(
        &mut drawing,
        Scale::Linear(0.0, end),
        y,
        &ticks,
        ("share of transactions", "ms, no longer than"),
    );
    for (arm, curve) in &curves {
        let points: Vec<(f64, f64)> = curve.iter().map(|(rarity, ms)| frame.at(*rarity, *ms)).collect();
        drawing.path(&format!("l {}", svg::classes(*arm)), &points);
        for share in [0.5, 0.9, 0.99, 0.999] {
            let near = curve.iter().find(|(at, _)| *at >= rarity(share) - 1e-6);
            if let Some((at, ms)) = near {
                let (x, y) = frame.at(*at, *ms);
                drawing.raw(&svg::marker(*arm, x, y));
            }
        }
    }
    Some(Plot { title, svg: drawing.finish(), caption })
}

/// How rare what lies beyond a share is, in powers of ten.
fn rarity(share: f64) -> f64 {
    -(1.0 - share).max(1e-12).log10()
}

/// Medians over the runs of the latency at each share, up to the rarest that all but a few transactions show.
fn curve(group: &Group) -> Vec<(f64, f64)> {
    const STEP: f64 = 0.05;
    let transactions = group.median(|run| Some(run.result.tps * run.result.seconds)).unwrap_or(0.0);
    // Of ten transactions there is no distribution.
    if transactions < 10.0 {
        return Vec::new();
    }
    let end = transactions.log10().min(RARITY_MAX);
    let mut shares: Vec<f64> = (0..=(end / STEP) as usize).map(|index| index as f64 * STEP).collect();
    // The places of markers are points of their own.
    shares.extend([0.5, 0.9, 0.99, 0.999].into_iter().map(rarity).filter(|rarity| *rarity <= end));
    shares.sort_by(f64::total_cmp);
    shares
        .into_iter()
        .filter_map(|at| {
            let share = 1.0 - 10f64.powf(-at);
            Some((at, group.median(|run| at_share(&run.result, share)).filter(|ms| *ms > 0.0)?))
        })
        .collect()
}

fn at_share(result: &crate::record::Outcome, share: f64) -> Option<f64> {
    if result.latencies.is_empty() {
        let known =
            [(0.5, result.p50_ms), (0.95, result.p95_ms), (0.99, result.p99_ms), (1.0, result.max_ms)];
        return known.into_iter().find(|(known, _)| *known >= share - 1e-9).map(|(_, ms)| ms);
    }
    // Between two points of the distribution, in proportion.
    let place = result.latencies.partition_point(|(_, reached)| *reached < share - 1e-12);
    let Some((ms, reached)) = result.latencies.get(place) else {
        return result.latencies.last().map(|(ms, _)| *ms);
    };
    let (less, before) =
        place.checked_sub(1).and_then(|before| result.latencies.get(before)).copied().unwrap_or((*ms, 0.0));
    let part = if *reached > before { (share - before) / (*reached - before) } else { 1.0 };
    Some(less + (ms - less) * part.clamp(0.0, 1.0))
}

fn latency_caption(study: &Study, cell: usize) -> String {
    let mut tails: Vec<(f64, usize)> = in_cell(study, cell)
        .filter_map(|(arm, group)| Some((group.median(|run| Some(run.result.p99_ms))?, arm)))
        .filter(|(ms, _)| *ms > 0.0)
        .collect();
    tails.sort_by(|a, b| a.0.total_cmp(&b.0));
    match tails.as_slice() {
        [] => "No latencies were measured.".to_owned(),
        [(ms, arm)] => format!(
            "99 % of {}'s transactions take {} ms or less.",
            study.arms[*arm].name,
            words::figure(*ms)
        ),
        [(least, best), .., (most, worst)] => format!(
            "99 % take {} ms or less with {}, {} ms with {}; lower is better.",
            words::figure(*least),
            study.arms[*best].name,
            words::figure(*most),
            study.arms[*worst].name
        ),
    }
}

/// Points of a line over time; more seconds than half of it are drawn by their least and most.
const POINTS_MAX: usize = 240;

/// Lines of more arms than this hide each other; then each arm has a row of its own.
const LINES_MAX: usize = 5;

/// Transactions of each second, of each arm's typical run.
fn series(study: &Study, cell: usize) -> Option<Plot> {
    let runs: Vec<(usize, &[f64])> = in_cell(study, cell)
        .filter_map(|(arm, group)| Some((arm, group.typical(study.figure)?.result.series.as_slice())))
        .filter(|(_, series)| series.len() > 1)
        .collect();
    let seconds = runs.iter().map(|(_, series)| series.len()).max()?;
    let title = format!("Transactions of each second{}", of_cell(study, cell));
    let caption = series_caption(study, &runs);
    let x = Scale::Linear(0.0, seconds as f64);
    let svg = match runs.len() {
        1..=LINES_MAX => series_lines(&title, &caption, &runs, x),
        _ => {
            let rows = runs.iter().map(|(arm, series)| strips::Line {
                label: study.arms[*arm].name.clone(),
                note: format!("up to {}", words::figure(series.iter().copied().fold(0.0, f64::max))),
                points: thinned(series),
                series: *arm,
            });
            strips::lines(&title, &caption, &rows.collect::<Vec<_>>(), x, "seconds")
        }
    };
    Some(Plot { title, svg, caption })
}

fn series_lines(title: &str, caption: &str, runs: &[(usize, &[f64])], x: Scale) -> String {
    let y = Scale::from_zero(runs.iter().flat_map(|(_, series)| series.iter().copied()));
    let ticks: Vec<Tick> = x.ticks(6.0).into_iter().map(|tick| (tick, words::tick(tick))).collect();
    let mut drawing = Drawing::new(HEIGHT, title, caption);
    let frame = Frame::new(&mut drawing, x, y, &ticks, ("seconds", "transactions/s"));
    for (place, (arm, series)) in runs.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            thinned(series).into_iter().map(|(second, value)| frame.at(second, value)).collect();
        drawing.path(&format!("l thin {}", svg::classes(*arm)), &points);
        let every = (points.len() / 6).max(1);
        let first = (every * (place % 6)) / 6 + every / 4;
        points.iter().skip(first).step_by(every).for_each(|(x, y)| drawing.raw(&svg::marker(*arm, *x, *y)));
    }
    drawing.finish()
}

/// The middle of each second with its value; of long runs the least and the most of each stretch, so that no stall is lost.
fn thinned(series: &[f64]) -> Vec<(f64, f64)> {
    let middle = |second: usize| second as f64 + 0.5;
    if series.len() <= POINTS_MAX {
        return series.iter().enumerate().map(|(second, value)| (middle(second), *value)).collect();
    }
    let stretch = series.len().div_ceil(POINTS_MAX / 2);
    let mut points = Vec::new();
    for (index, part) in series.chunks(stretch).enumerate() {
        let by_value = |a: &usize, b: &usize| part[*a].total_cmp(&part[*b]);
        let (least, most) = ((0..part.len()).min_by(by_value), (0..part.len()).max_by(by_value));
        let mut ends: Vec<usize> = [least, most].into_iter().flatten().collect();
        ends.sort_unstable();
        points.extend(ends.into_iter().map(|at| (middle(index * stretch + at), part[at])));
    }
    points
}

fn series_caption(study: &Study, runs: &[(usize, &[f64])]) -> String {
    let halves: Vec<String> = runs
        .iter()
        .filter_map(|(arm, series)| {
            let mean = series.iter().sum::<f64>() / series.len() as f64;
            let below = series.iter().filter(|second| **second < mean / 2.0).count();
            (below > 0).then(|| format!("{} in {}", study.arms[*arm].name, words::count(below, "second")))
        })
        .collect();
    let fell = match halves.len() {
        0 => "No arm fell below half of its mean in any second.".to_owned(),
        1..=4 => format!("Below half of its mean fell {}.", words::list(&halves)),
        many => {
            format!("{many} arms fell below half of their mean, among them {}.", words::list(&halves[..2]))
        }
    };
    let scales = if runs.len() > LINES_MAX { " Each row has a scale of its own, from 0." } else { "" };
    let which = if study.pairs() > 1 { " Of each arm the run in the middle." } else { "" };
    format!("{fell}{which}{scales}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_keep_their_stalls() {
        let mut series = vec![100.0; 3600];
        series[1777] = 0.0;
        let points = thinned(&series);
        assert!(points.len() <= POINTS_MAX + 2, "{}", points.len());
        assert!(points.contains(&(1777.5, 0.0)));
        assert!(points.windows(2).all(|two| two[0].0 <= two[1].0));
    }

    #[test]
    fn an_axis_is_named_by_what_is_beside_the_number() {
        assert_eq!(without("read, 50 clients", 50.0), "read, clients");
        assert_eq!(without("64 clients", 64.0), "clients");
        assert_eq!(without("1,000 clients", 1000.0), "clients");
        assert_eq!(without("512 MB", 536_870_912.0), "512 MB");
    }
}

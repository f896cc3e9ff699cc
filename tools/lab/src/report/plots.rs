//! The charts of a scenario and what is seen in each.

use crate::report::strips::{self, Strip};
use crate::report::study::{Group, Study, without};
use crate::report::svg::{self, Drawing, Frame, Scale, Tick};
use crate::report::verdict::Checked;
use crate::report::{curves, loads, ratios, regret, words};

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
pub const CELLS_MAX: usize = 24;
/// Bands of more arms than this hide each other; then intervals are whiskers.
const BANDS_MAX: usize = 4;
/// Units down.
pub const HEIGHT: f64 = 300.0;

/// All charts of a scenario.
pub fn plots(study: &Study, checked: &[Checked]) -> Vec<Plots> {
    let all = [
        Plots { title: "Throughput", legend: true, plots: throughput(study) },
        Plots { title: "Regret", legend: false, plots: regret::plot(study, checked) },
        Plots { title: "Latency against load", legend: true, plots: loads::plots(study) },
        Plots { title: "Ratios", legend: false, plots: ratios::plots(study, checked) },
        Plots { title: "Latency", legend: true, plots: by_cell(study, curves::latency) },
        Plots { title: "Over time", legend: true, plots: by_cell(study, curves::series) },
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

/// Arms that ran in a cell.
pub fn in_cell(study: &Study, cell: usize) -> impl Iterator<Item = (usize, &Group)> {
    (0..study.arms.len()).filter_map(move |arm| Some((arm, study.group(arm, cell)?)))
}

/// The cell's name as the end of a title.
pub fn of_cell(study: &Study, cell: usize) -> String {
    let name = &study.cells[cell].name;
    if name.is_empty() { String::new() } else { format!(": {name}") }
}

/// An arm's points: place, value, interval.
type Levels = (usize, Vec<(f64, f64, (f64, f64))>);

/// Cells along one axis.
struct Panel {
    name: String,
    cells: Vec<usize>,
}

/// Cells along one axis share a panel: all of them where no place comes twice, else those whose names differ by their place alone.
/// Those without a place stand alone.
fn panels(study: &Study) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    // What comes at a rate of its own has a chart of its own.
    let closed = study.cells.iter().enumerate().filter(|(index, _)| !study.is_open(*index));
    for (index, cell) in closed {
        let name = match cell.x {
            Some(x) => without(&cell.name, x),
            None => format!("\u{0}{}", cell.name),
        };
        match panels.iter_mut().find(|panel| panel.name == name) {
            Some(panel) => panel.cells.push(index),
            None => panels.push(Panel { name, cells: vec![index] }),
        }
    }
    let shown: Vec<usize> = panels.iter().flat_map(|panel| panel.cells.iter().copied()).collect();
    let xs: Vec<f64> = shown.iter().filter_map(|cell| study.cells[*cell].x).collect();
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
    let levels: Vec<Levels> = (0..study.arms.len())
        .map(|arm| (arm, panel.cells.iter().filter_map(|cell| point(study, arm, *cell)).collect()))
        .filter(|(_, points): &Levels| !points.is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_named_by_what_is_beside_the_number() {
        assert_eq!(without("read, 50 clients", 50.0), "read, clients");
        assert_eq!(without("64 clients", 64.0), "clients");
        assert_eq!(without("1,000 clients", 1000.0), "clients");
        assert_eq!(without("512 MB", 536_870_912.0), "512 MB");
    }
}

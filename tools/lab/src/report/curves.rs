//! Charts of one cell: latencies by rarity, transactions over time.

use crate::report::plots::{HEIGHT, Plot, in_cell, of_cell};
use crate::report::study::{Group, Study};
use crate::report::svg::{self, Drawing, Frame, Scale, Tick};
use crate::report::{strips, words};

/// How far a curve of latencies is drawn, in powers of ten of rarity.
const RARITY_MAX: f64 = 6.0;

/// Milliseconds against the share of transactions, the tail stretched as in HdrHistogram's percentile plots.
pub fn latency(study: &Study, cell: usize) -> Option<Plot> {
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
pub fn series(study: &Study, cell: usize) -> Option<Plot> {
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
}

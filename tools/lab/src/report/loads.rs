//! Open runs: how long transactions took from the moment when they were due, against how many were due.

use crate::report::plots::{HEIGHT, Plot};
use crate::report::study::{Study, without};
use crate::report::svg::{self, Drawing, Frame, Scale, Tick};
use crate::report::words;
use crate::runner::{OFFERED, OFFERED_SHARE};

/// An arm's points: transactions due each second, milliseconds of the median one and of the 99th percentile.
type Points = (usize, Vec<(f64, f64, f64)>);

/// A chart for each workload that was run so.
pub fn plots(study: &Study) -> Vec<Plot> {
    let mut families: Vec<(String, Vec<usize>)> = Vec::new();
    for cell in (0..study.cells.len()).filter(|cell| study.is_open(*cell)) {
        let of = &study.cells[cell];
        let name = of.x.map_or_else(|| of.name.clone(), |x| without(&of.name, x));
        match families.iter_mut().find(|(family, _)| *family == name) {
            Some((_, cells)) => cells.push(cell),
            None => families.push((name, vec![cell])),
        }
    }
    families.iter().filter_map(|(name, cells)| plot(study, name, cells)).collect()
}

fn plot(study: &Study, name: &str, cells: &[usize]) -> Option<Plot> {
    let arms: Vec<Points> = (0..study.arms.len())
        .map(|arm| (arm, points(study, arm, cells)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let most = arms.iter().flat_map(|(_, points)| points.iter().map(|point| point.0));
    let x = Scale::from_zero(most);
    let y = Scale::log(arms.iter().flat_map(|(_, points)| points.iter().flat_map(|p| [p.1, p.2])), 10.0);
    let name = name.split(',').next().unwrap_or_default();
    let title = format!("Latency against load: {name}");
    let caption = caption(study, cells, &arms)?;
    let ticks: Vec<Tick> = x.ticks(6.0).into_iter().map(|tick| (tick, words::tick(tick))).collect();
    let mut drawing = Drawing::new(HEIGHT, &title, &caption);
    let frame = Frame::new(&mut drawing, x, y, &ticks, ("transactions due each second", "ms, p50 and p99"));
    for (arm, points) in &arms {
        let median: Vec<(f64, f64)> = points.iter().map(|p| frame.at(p.0, p.1)).collect();
        let tail: Vec<(f64, f64)> = points.iter().map(|p| frame.at(p.0, p.2)).collect();
        drawing.path(&format!("l thin {}", svg::classes(*arm)), &median);
        drawing.path(&format!("l {}", svg::classes(*arm)), &tail);
        tail.iter().for_each(|(x, y)| drawing.raw(&svg::marker(*arm, *x, *y)));
    }
    Some(Plot { title, svg: drawing.finish(), caption })
}

fn points(study: &Study, arm: usize, cells: &[usize]) -> Vec<(f64, f64, f64)> {
    let mut points: Vec<(f64, f64, f64)> = cells
        .iter()
        .filter_map(|cell| {
            let group = study.group(arm, *cell)?;
            let offered = group.median(|run| run.result.more.get(OFFERED).copied())?;
            let tail = group.median(|run| Some(run.result.p99_ms))?;
            Some((offered, group.median(|run| Some(run.result.p50_ms))?, tail))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// What is seen at the highest share.
fn caption(study: &Study, cells: &[usize], arms: &[Points]) -> Option<String> {
    let share = |cell: usize| {
        let shares = (0..study.arms.len()).filter_map(|arm| {
            study.group(arm, cell)?.median(|run| run.result.more.get(OFFERED_SHARE).copied())
        });
        shares.fold(0.0, f64::max)
    };
    let last = cells.iter().copied().max_by(|a, b| share(*a).total_cmp(&share(*b)))?;
    let told: Vec<String> = arms
        .iter()
        .filter_map(|(arm, _)| {
            let point = points(study, *arm, &[last]).pop()?;
            let (due, tail) = (words::figure(point.0), words::figure(point.2));
            Some(format!("{} {tail} ms with {due} due each second", study.arms[*arm].name))
        })
        .collect();
    Some(format!(
        "Thick lines and markers are the 99th percentile, thin ones the median; time counts from when a transaction was due, so those that \
         had to queue count in full. At {:.0} % of its own peak, 99 % take no longer than: {}.",
        share(last) * 100.0,
        told.join("; ")
    ))
}

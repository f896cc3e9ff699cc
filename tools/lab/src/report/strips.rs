//! Charts of one line a row: values with intervals along one axis, as in a forest plot. A row's name stands above its line, so that
//! long names and narrow screens go together.

use crate::report::svg::{self, Drawing, Scale, WIDTH};
use crate::report::words;

/// Rows of one chart; more are another chart.
pub const ROWS_MAX: usize = 16;
/// Ratios beyond this, and below one over it, are drawn at the edge.
const RATIO_MAX: f64 = 100.0;

const LEFT: f64 = 10.0;
const RIGHT: f64 = WIDTH - 10.0;
const ROW: f64 = 40.0;

/// A row.
#[derive(Debug, Clone)]
pub struct Strip {
    /// Its name.
    pub label: String,
    /// Its value in words.
    pub note: String,
    /// Its value.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// What the report has there.
    pub report: Option<(f64, f64)>,
    /// Which marker and colour.
    pub series: usize,
}

/// An axis for ratios that holds values, intervals and the report's.
pub fn ratio_scale(rows: &[Strip]) -> Scale {
    let of = |row: &Strip| {
        let interval = row.interval.unwrap_or((row.value, row.value));
        let report = row.report.unwrap_or((1.0, 1.0));
        [row.value, interval.0, interval.1, report.0, report.1]
    };
    let values = rows.iter().flat_map(of).chain([1.0]);
    let held = values.filter(|value| *value > 0.0).map(|value| value.clamp(1.0 / RATIO_MAX, RATIO_MAX));
    Scale::log(held, 1.6)
}

/// Draws rows along an axis; `zero` is a value to draw a line at.
pub fn draw(
    title: &str,
    caption: &str,
    rows: &[Strip],
    scale: Scale,
    zero: Option<f64>,
    unit: &str,
) -> String {
    let bottom = 8.0 + rows.len() as f64 * ROW;
    let mut drawing = Drawing::new(bottom + 42.0, title, caption);
    let at = |value: f64| LEFT + scale.place(value) * (RIGHT - LEFT);
    axis(&mut drawing, scale, bottom, unit);
    if let Some(value) = zero.filter(|value| scale.holds(*value)) {
        drawing.line("one", (at(value), 4.0), (at(value), bottom));
    }
    for (index, row) in rows.iter().enumerate() {
        let top = 4.0 + index as f64 * ROW;
        let note = svg::width(&row.note);
        drawing.text_within("", (LEFT, top + 13.0), &row.label, RIGHT - LEFT - note - 14.0);
        drawing.text("", "end", (RIGHT, top + 13.0), &row.note);
        strip(&mut drawing, row, scale, at, top + 25.0);
    }
    drawing.finish()
}

fn axis(drawing: &mut Drawing, scale: Scale, bottom: f64, unit: &str) {
    drawing.line("a", (LEFT, bottom), (RIGHT, bottom));
    let mut free = f64::NEG_INFINITY;
    for tick in scale.ticks(7.0) {
        let x = LEFT + scale.place(tick) * (RIGHT - LEFT);
        drawing.line("g", (x, 4.0), (x, bottom + 4.0));
        let text = words::tick(tick);
        let half = svg::width(&text) / 2.0;
        let middle = x.min(WIDTH - half).max(half);
        if middle - half >= free {
            drawing.text("t", "middle", (middle, bottom + 18.0), &text);
            free = middle + half + 8.0;
        }
    }
    drawing.text("t k", "end", (RIGHT, bottom + 36.0), unit);
}

fn strip(drawing: &mut Drawing, row: &Strip, scale: Scale, at: impl Fn(f64) -> f64, y: f64) {
    let colour = svg::colour(row.series);
    if let Some((low, high)) = row.report.filter(|(low, high)| low < high) {
        drawing.line("seedline", (at(low), y), (at(high), y));
    }
    if matches!(scale, Scale::Linear(..)) {
        drawing.line(&format!("l {}", svg::classes(row.series)), (at(0.0), y), (at(row.value), y));
    }
    if let Some((low, high)) = row.interval {
        let class = format!("w {colour}");
        drawing.line(&class, (at(low), y), (at(high), y));
        for (end, outward) in [(low, -1.0), (high, 1.0)] {
            let x = at(end);
            if scale.holds(end) {
                drawing.line(&class, (x, y - 4.0), (x, y + 4.0));
            } else {
                // Goes on beyond the edge.
                drawing.raw(&format!(
                    "<path class=\"w {colour}\" d=\"M{:.1} {:.1}L{x:.1} {y:.1}L{:.1} {:.1}\"/>",
                    x - outward * 5.0,
                    y - 4.0,
                    x - outward * 5.0,
                    y + 4.0
                ));
            }
        }
    }
    // The report's diamond is the larger one, so that both are seen where they agree.
    if let Some((low, high)) = row.report {
        for value in if low == high { vec![low] } else { vec![low, high] } {
            let x = at(value);
            drawing.raw(&format!("<path class=\"seed\" d=\"M{x:.1} {:.1}l8 8l-8 8l-8-8z\"/>", y - 8.0));
        }
    }
    drawing.raw(&svg::marker(row.series, at(row.value), y));
}

/// A row of a chart over time.
pub struct Line {
    /// Its name.
    pub label: String,
    /// Its greatest value in words.
    pub note: String,
    /// Places along the axis with values.
    pub points: Vec<(f64, f64)>,
    /// Which colour.
    pub series: usize,
}

/// Draws each row as a line over its own zero, all along one axis.
pub fn lines(title: &str, caption: &str, rows: &[Line], x: Scale, unit: &str) -> String {
    const LINE: f64 = 58.0;
    let bottom = 8.0 + rows.len() as f64 * LINE;
    let mut drawing = Drawing::new(bottom + 42.0, title, caption);
    axis(&mut drawing, x, bottom, unit);
    for (index, row) in rows.iter().enumerate() {
        let top = 4.0 + index as f64 * LINE;
        let base = top + LINE - 6.0;
        let scale = Scale::from_zero(row.points.iter().map(|(_, value)| *value));
        let at = |(along, value): &(f64, f64)| {
            (LEFT + x.place(*along) * (RIGHT - LEFT), base - scale.place(*value) * (LINE - 24.0))
        };
        let points: Vec<(f64, f64)> = row.points.iter().map(at).collect();
        drawing.line("g", (LEFT, base), (RIGHT, base));
        drawing.path(&format!("l fine {}", svg::colour(row.series)), &points);
        drawing.text_within("", (LEFT, top + 13.0), &row.label, RIGHT - LEFT - svg::width(&row.note) - 14.0);
        drawing.text("t", "end", (RIGHT, top + 13.0), &row.note);
    }
    drawing.finish()
}

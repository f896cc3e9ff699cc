//! A small writer of charts as SVG: scales with round ticks, lines, markers, intervals.
//!
//! A chart is drawn for a width of [`WIDTH`] units and letters of 13, so that it stays readable when a phone shrinks it to two thirds. What an
//! element looks like is said by classes that the page's style explains: `c0` to `c6` colours, `d0` to `d4` dashes. A
//! series has a colour, a dash pattern and a marker by its number, and any two differ in at least one that black and white shows.

use std::fmt::Write;

use crate::report::words;

/// Units across.
pub const WIDTH: f64 = 460.0;
const COLOURS: usize = 7;
const DASHES: usize = 5;
const MARKERS: usize = 6;
/// Width of a letter; of the wide ones of common fonts, so that nothing overlaps.
const LETTER: f64 = 7.8;

/// How values become places.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// From a least to a greatest value.
    Linear(f64, f64),
    /// The same by logarithms; both above zero.
    Log(f64, f64),
}

impl Scale {
    /// From zero to a round number above all values.
    pub fn from_zero(values: impl Iterator<Item = f64>) -> Scale {
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let step = step(most, 5.0);
        Scale::Linear(0.0, (most / step - 1e-9).ceil() * step)
    }

    /// From zero, for values and the upper ends of their intervals; an interval of few runs that is far longer than all values is cut.
    pub fn for_levels(levels: impl Iterator<Item = (f64, f64)> + Clone) -> Scale {
        let most =
            levels.clone().map(|(value, _)| value).filter(|value| value.is_finite()).fold(0.0, f64::max);
        Scale::from_zero(levels.map(|(value, end)| end.min(most * 2.0).max(value)))
    }

    /// Logarithmic around all values above zero, at least a factor of `least` wide.
    pub fn log(values: impl Iterator<Item = f64>, least: f64) -> Scale {
        let usable = values.filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = usable.fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
        if high == 0.0 {
            return Scale::Log(0.1, 10.0);
        }
        let widen = (least / (high / low)).max(1.0).sqrt() * 1.05;
        Scale::Log(low / widen, high * widen)
    }

    /// The place of a value, 0 to 1; values outside are held at the ends.
    pub fn place(self, value: f64) -> f64 {
        let place = match self {
            Scale::Linear(low, high) => (value - low) / (high - low),
            Scale::Log(low, high) if value > 0.0 => (value / low).ln() / (high / low).ln(),
            Scale::Log(..) => 0.0,
        };
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// Whether a value is within.
    pub fn holds(self, value: f64) -> bool {
        let (Scale::Linear(low, high) | Scale::Log(low, high)) = self;
        value >= low && value <= high
    }

    /// Round values for ticks, some `most` at the most.
    pub fn ticks(self, most: f64) -> Vec<f64> {
        match self {
            Scale::Linear(low, high) => round_between(low, high, most),
            Scale::Log(low, high) => logarithmic(low, high, most),
        }
    }
}

/// The round step, 1, 2 or 5 by a power of ten, that divides a span into at most so many parts.
fn step(span: f64, parts: f64) -> f64 {
    let raw = span / parts;
    let power = 10f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= raw * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

fn round_between(low: f64, high: f64, most: f64) -> Vec<f64> {
    let step = step((high - low).max(f64::MIN_POSITIVE), most);
    let first = (low / step - 1e-9).ceil();
    let mut ticks = Vec::new();
    let mut index = 0.0;
    while ticks.len() < 20 && (first + index) * step <= high + step * 1e-9 {
        ticks.push((first + index) * step);
        index += 1.0;
    }
    ticks
}

fn logarithmic(low: f64, high: f64, most: f64) -> Vec<f64> {
    let within = |value: &f64| *value >= low * (1.0 - 1e-9) && *value <= high * (1.0 + 1e-9);
    let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let series = |factors: &[f64], every: i32| -> Vec<f64> {
        let powers = (from..=to).filter(|power| power.rem_euclid(every) == 0);
        powers
            .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
            .filter(within)
            .collect()
    };
    let candidates = [
        series(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0], 1),
        series(&[1.0, 2.0, 5.0], 1),
        series(&[1.0, 3.0], 1),
        series(&[1.0], 1),
        series(&[1.0], 2),
        series(&[1.0], 3),
    ];
    let fitting = candidates.into_iter().find(|ticks| ticks.len() as f64 <= most + 1.0);
    match fitting {
        Some(ticks) if ticks.len() >= 3 || high > low * 10.0 => ticks,
        // Less than a step of the series: as on a linear axis.
        _ => round_between(low, high, most),
    }
}

/// Classes of a series' lines: colour and dashes.
pub fn classes(series: usize) -> String {
    format!("c{} d{}", series % COLOURS, series % DASHES)
}

/// The class of a series' colour.
pub fn colour(series: usize) -> String {
    format!("c{}", series % COLOURS)
}

/// The marker of a series; round, square, pointed, some open.
pub fn marker(series: usize, x: f64, y: f64) -> String {
    let class = colour(series);
    let path = |d: String, kind: &str| format!("<path class=\"{kind} {class}\" d=\"{d}\"/>");
    let ring =
        |r: f64| format!("M{:.1} {y:.1}a{r} {r} 0 1 0 {} 0a{r} {r} 0 1 0 -{} 0z", x - r, 2.0 * r, 2.0 * r);
    let square = || format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5);
    let up = || format!("M{x:.1} {:.1}l4.6 8h-9.2z", y - 5.0);
    let diamond = || format!("M{x:.1} {:.1}l5 5l-5 5l-5-5z", y - 5.0);
    match series % MARKERS {
        0 => path(ring(3.8), "m"),
        1 => path(square(), "m"),
        2 => path(up(), "m"),
        3 => path(diamond(), "o"),
        4 => path(ring(3.8), "o"),
        _ => path(square(), "o"),
    }
}

/// What a legend shows of a series.
pub fn swatch(series: usize) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 44 14\" width=\"44\" height=\"14\" aria-hidden=\"true\"><path class=\"l {}\" d=\"M1 7H43\"/>{}</svg>",
        classes(series),
        marker(series, 22.0, 7.0)
    )
}

/// An SVG element under construction.
pub struct Drawing {
    height: f64,
    title: String,
    description: String,
    body: String,
}

impl Drawing {
    /// An empty one; title and description are for those who cannot see it.
    pub fn new(height: f64, title: &str, description: &str) -> Drawing {
        Drawing { height, title: title.to_owned(), description: description.to_owned(), body: String::new() }
    }

    /// Adds what is SVG already.
    pub fn raw(&mut self, svg: &str) {
        self.body.push_str(svg);
        self.body.push('\n');
    }

    /// A straight line of a class.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>");
    }

    /// A line through points.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.is_empty() {
            return;
        }
        let _ = write!(self.body, "<path class=\"{class}\" d=\"");
        self.points(points);
        self.body.push_str("\"/>\n");
    }

    /// The area between two lines of the same direction.
    pub fn area(&mut self, class: &str, low: &[(f64, f64)], high: &[(f64, f64)]) {
        let mut outline = low.to_vec();
        outline.extend(high.iter().rev());
        let _ = write!(self.body, "<path class=\"{class}\" d=\"");
        self.points(&outline);
        self.body.push_str("Z\"/>\n");
    }

    fn points(&mut self, points: &[(f64, f64)]) {
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(self.body, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        }
    }

    /// Text of a class, `anchor` one of start, middle, end.
    pub fn text(&mut self, class: &str, anchor: &str, (x, y): (f64, f64), text: &str) {
        let text = words::html(text);
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
        );
    }

    /// Text cut to a width, whole in the title that a pointer shows.
    pub fn text_within(&mut self, class: &str, at: (f64, f64), text: &str, width: f64) {
        // Text has narrower letters than figures.
        let most = (width / 7.1).max(4.0) as usize;
        let cut = words::squeeze(text, most);
        if cut == text {
            return self.text(class, "start", at, text);
        }
        let (cut, whole) = (words::html(&cut), words::html(text));
        let (x, y) = at;
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" text-anchor=\"start\" x=\"{x:.1}\" y=\"{y:.1}\">{cut}<title>{whole}</title></text>"
        );
    }

    /// The element.
    pub fn finish(self) -> String {
        let (title, description) = (words::html(&self.title), words::html(&self.description));
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title><desc>{description}</desc>\n{}</svg>\n",
            self.height, self.body
        )
    }
}

/// Some units that a text takes.
pub fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// A frame with two axes.
pub struct Frame {
    x: Scale,
    y: Scale,
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

/// A tick: its value and what is written at it.
pub type Tick = (f64, String);

impl Frame {
    /// Draws axes, grid and ticks. The vertical axis' name stands above it, the horizontal one's below.
    pub fn new(drawing: &mut Drawing, x: Scale, y: Scale, x_ticks: &[Tick], names: (&str, &str)) -> Frame {
        let y_ticks: Vec<Tick> = y.ticks(6.0).into_iter().map(|tick| (tick, words::tick(tick))).collect();
        let widest = y_ticks.iter().map(|(_, text)| width(text)).fold(0.0, f64::max);
        let frame = Frame {
            x,
            y,
            left: widest + 12.0,
            top: 26.0,
            right: WIDTH - 14.0,
            bottom: drawing.height - 42.0,
        };
        frame.draw(drawing, x_ticks, &y_ticks, names);
        frame
    }

    fn draw(&self, drawing: &mut Drawing, x_ticks: &[Tick], y_ticks: &[Tick], names: (&str, &str)) {
        for (value, text) in y_ticks {
            let (_, y) = self.at(self.start(), *value);
            drawing.line("g", (self.left, y), (self.right, y));
            drawing.text("t", "end", (self.left - 6.0, y + 4.5), text);
        }
        let mut free = f64::NEG_INFINITY;
        for (value, text) in x_ticks {
            let (x, _) = self.at(*value, 0.0);
            let half = width(text) / 2.0;
            // A label may not touch its neighbour, nor the frame's ends.
            let middle = x.min(WIDTH - half).max(half);
            drawing.line("g", (x, self.bottom), (x, self.bottom + 5.0));
            if middle - half < free {
                continue;
            }
            drawing.text("t", "middle", (middle, self.bottom + 19.0), text);
            free = middle + half + 8.0;
        }
        drawing.line("a", (self.left, self.bottom), (self.right, self.bottom));
        drawing.text("t k", "start", (2.0, 13.0), names.1);
        drawing.text("t k", "end", (self.right, self.bottom + 37.0), names.0);
    }

    fn start(&self) -> f64 {
        let (Scale::Linear(low, _) | Scale::Log(low, _)) = self.x;
        low
    }

    /// The place of a point.
    pub fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let across = self.left + self.x.place(x) * (self.right - self.left);
        (across, self.bottom - self.y.place(y) * (self.bottom - self.top))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::from_zero([0.0, 87.0].into_iter()), Scale::Linear(0.0, 100.0));
        assert_eq!(Scale::from_zero([0.0].into_iter()), Scale::Linear(0.0, 1.0));
        assert_eq!(Scale::Linear(0.0, 100.0).ticks(5.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(Scale::Log(0.9, 1100.0).ticks(5.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(Scale::Log(0.4, 6.0).ticks(5.0), [0.5, 1.0, 2.0, 5.0]);
        assert_eq!(Scale::Log(2.0, 600.0).ticks(6.0), [3.0, 10.0, 30.0, 100.0, 300.0]);
        assert_eq!(Scale::Log(0.97, 1.04).ticks(5.0).len(), 4);
    }

    #[test]
    fn values_outside_stay_within_the_frame() {
        let scale = Scale::Log(0.1, 10.0);
        assert_eq!((scale.place(0.0), scale.place(1e9), scale.place(f64::NAN)), (0.0, 1.0, 0.0));
        assert!((scale.place(1.0) - 0.5).abs() < 1e-12);
        assert_eq!(Scale::log([].into_iter(), 2.0), Scale::Log(0.1, 10.0));
    }

    #[test]
    fn every_series_of_twenty_is_told_apart_without_colour() {
        let looks: std::collections::BTreeSet<(usize, usize)> =
            (0..20).map(|series| (series % DASHES, series % MARKERS)).collect();
        assert_eq!(looks.len(), 20);
    }
}

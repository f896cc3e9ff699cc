//! Figures and names as text: for people, for Markdown, for HTML.

use crate::stats::Estimate;

/// Three digits that matter, thousands set apart: `12,345`, `3.46`, `0.0512`.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_owned();
    }
    match size {
        _ if size == 0.0 => "0".to_owned(),
        _ if size >= 1e12 => format!("{value:.2e}"),
        _ if size >= 999.5 => thousands(value),
        _ if size >= 99.95 => format!("{value:.0}"),
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.9995 => format!("{value:.2}"),
        _ if size >= 0.0995 => format!("{value:.3}"),
        _ if size >= 0.0005 => format!("{value:.4}"),
        _ => format!("{value:.0e}"),
    }
}

/// [`figure`], or a dash where there is none.
pub fn figure_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), figure)
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

/// Two digits behind the point, fewer for large ones, three for small ones.
pub fn ratio(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "–".to_owned(),
        _ if !(0.0..1e6).contains(&value) => figure(value),
        _ if value >= 999.5 => thousands(value),
        _ if value >= 99.5 => format!("{value:.0}"),
        _ if value >= 9.95 => format!("{value:.1}"),
        _ if value >= 0.4995 || value == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// `4.92 [4.10, 5.88]`, or the ratio alone and why it stands alone.
pub fn estimate(estimate: &Estimate) -> String {
    match (estimate.interval, estimate.samples) {
        (Some((low, high)), _) => format!("{} [{}, {}]", ratio(estimate.value), ratio(low), ratio(high)),
        (None, 1) => format!("{} (one pair)", ratio(estimate.value)),
        (None, _) => format!("{} (no interval)", ratio(estimate.value)),
    }
}

/// A report's ratio or range of ratios.
pub fn range((low, high): (f64, f64)) -> String {
    if low == high { ratio(low) } else { format!("{} to {}", ratio(low), ratio(high)) }
}

/// `12.3 KiB`.
pub fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", figure(value), units[unit])
}

/// A number on an axis: `500`, `20k`, `1.5M`.
pub fn tick(value: f64) -> String {
    let size = value.abs();
    if size >= 1e13 {
        return format!("{value:.0e}");
    }
    let (scaled, suffix) = match size {
        _ if size >= 1e9 => (value / 1e9, "G"),
        _ if size >= 1e6 => (value / 1e6, "M"),
        _ if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{suffix}")
}

/// Text between tags and in quoted attributes.
pub fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Not allowed in HTML, and nothing that is to be seen.
            c if c.is_control() && c != '\n' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Text in a cell of a Markdown table or a line of a Markdown page.
pub fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let after = chars.peek().copied().unwrap_or(' ');
        // Brackets and underscores mean nothing where they stand in tables and names.
        let plain = match c {
            ']' => !matches!(after, '(' | '[' | ':'),
            '_' => before.is_alphanumeric() && after.is_alphanumeric(),
            c => !matches!(c, '\\' | '|' | '*' | '`' | '~'),
        };
        before = c;
        match c {
            _ if !plain => {
                escaped.push('\\');
                escaped.push(c);
            }
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// At most `most` characters, the last an ellipsis where some are left out.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// At most `most` characters, with an ellipsis in the middle: names often differ at their ends.
pub fn squeeze(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most || most < 5 {
        return cut(text, most);
    }
    let head = (most - 1) * 3 / 5;
    let tail = most - 1 - head;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{}…{}", start.trim_end(), end.trim_start())
}

/// `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// With a capital letter first.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// `one run`, `3 runs`.
pub fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("one {noun}"),
        number => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_that_matter() {
        let known = [
            (0.0, "0"),
            (0.01234, "0.0123"),
            (0.5, "0.500"),
            (3.456, "3.46"),
            (31.98, "32.0"),
            (177.8, "178"),
            (5062.91, "5,063"),
            (1_234_567.0, "1,234,567"),
            (999.7, "1,000"),
            (-1500.0, "-1,500"),
            (f64::NAN, "–"),
        ];
        for (value, text) in known {
            assert_eq!(figure(value), text);
        }
        assert_eq!(bytes(1536.0), "1.50 KiB");
        assert_eq!(tick(20_000.0), "20k");
        assert_eq!(tick(0.25), "0.25");
        assert_eq!(tick(1_500_000.0), "1.5M");
    }

    #[test]
    fn nothing_of_a_name_is_markup() {
        assert_eq!(html("<b a=\"1\">&'\u{7}"), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;\u{fffd}");
        assert_eq!(markdown("a|b\n*c*_`<"), "a\\|b \\*c\\*\\_\\`&lt;");
        assert_eq!(markdown("[a](b) [95 %] x_y"), "[a\\](b) [95 %] x_y");
        assert_eq!(squeeze("mariadb tuned without redo", 16), "mariadb t…t redo");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("äöü", 3), "äöü");
    }
}

//! JSON written anew: without spaces, with one behind each comma and colon, or on lines of their own.
//!
//! Strings, keys and numbers stay as they were written.

use super::fault::Fault;
use super::scan::{Kind, Scanner};

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// No spaces.
    Compact,
    /// A space behind commas and colons, as most functions write.
    Loose,
    /// Members on lines of their own, indented by so many spaces a level.
    Detailed(usize),
}

/// Most spaces of a level.
pub const INDENT_MAX: usize = 8;

/// Appends a whole text in a style.
pub fn rewrite(text: &[u8], style: Style, out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut scanner = Scanner::new(text);
    out.reserve(text.len() + text.len() / 8);
    write(&mut scanner, style, 0, out)?;
    scanner.finish()
}

fn write(scanner: &mut Scanner<'_>, style: Style, level: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let value = scanner.value()?;
    match value.kind {
        Kind::Object => write_object(scanner, style, level, out),
        Kind::Array => write_array(scanner, style, level, out),
        _ => {
            out.extend_from_slice(value.raw(scanner.text()));
            Ok(())
        }
    }
}

fn write_object(
    scanner: &mut Scanner<'_>,
    style: Style,
    level: usize,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    out.push(b'{');
    let mut first = true;
    while let Some(key) = scanner.key()? {
        separate(first, style, level + 1, out);
        first = false;
        out.extend_from_slice(&scanner.text()[key.start..key.end]);
        out.push(b':');
        if style != Style::Compact {
            out.push(b' ');
        }
        if matches!(style, Style::Detailed(_)) && !scanner_at_scalar(scanner) {
            new_line(style, level + 1, out);
        }
        write(scanner, style, level + 1, out)?;
    }
    new_line(style, level, out);
    out.push(b'}');
    Ok(())
}

fn write_array(
    scanner: &mut Scanner<'_>,
    style: Style,
    level: usize,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    out.push(b'[');
    let on_one_line = !matches!(style, Style::Detailed(_)) || is_short(*scanner)?;
    let style_inside = if on_one_line && style != Style::Compact { Style::Loose } else { style };
    let mut first = true;
    while scanner.element()? {
        separate(first, style_inside, level + 1, out);
        first = false;
        write(scanner, style, level + 1, out)?;
    }
    if !on_one_line {
        new_line(style, level, out);
    }
    out.push(b']');
    Ok(())
}

/// Whether an array just begun has no element, or a single scalar.
fn is_short(mut scanner: Scanner<'_>) -> Result<bool, Fault> {
    if !scanner.element()? {
        return Ok(true);
    }
    Ok(scanner.value()?.is_scalar() && !scanner.element()?)
}

/// Whether what follows is neither an object nor an array; what is no value is for the writer to report.
fn scanner_at_scalar(scanner: &Scanner<'_>) -> bool {
    let mut ahead = *scanner;
    ahead.value().is_ok_and(|value| value.is_scalar())
}

fn separate(first: bool, style: Style, level: usize, out: &mut Vec<u8>) {
    if !first {
        out.extend_from_slice(if style == Style::Loose { b", " } else { b"," });
    }
    new_line(style, level, out);
}

fn new_line(style: Style, level: usize, out: &mut Vec<u8>) {
    if let Style::Detailed(indent) = style {
        out.push(b'\n');
        out.resize(out.len() + indent * level, b' ');
    }
}

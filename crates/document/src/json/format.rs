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

/// Appends a whole text in a style. A result of more than `most` octets is left unfinished; the text is checked all the same.
pub fn rewrite(text: &[u8], style: Style, most: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut scanner = Scanner::new(text);
    out.reserve(text.len() + text.len() / 8);
    Writer { style, most, out }.value(&mut scanner, 0)?;
    scanner.finish()
}

struct Writer<'o> {
    style: Style,
    most: usize,
    out: &'o mut Vec<u8>,
}

impl Writer<'_> {
    fn value(&mut self, scanner: &mut Scanner<'_>, level: usize) -> Result<(), Fault> {
        let value = scanner.value()?;
        if self.out.len() > self.most {
            return scanner.skip(&value).map(|_| ());
        }
        match value.kind {
            Kind::Object => self.object(scanner, level),
            Kind::Array => self.array(scanner, level),
            _ => {
                self.out.extend_from_slice(value.raw(scanner.text()));
                Ok(())
            }
        }
    }

    fn object(&mut self, scanner: &mut Scanner<'_>, level: usize) -> Result<(), Fault> {
        self.out.push(b'{');
        let mut first = true;
        while let Some(key) = scanner.key()? {
            self.separate(first, self.style, level + 1);
            first = false;
            self.out.extend_from_slice(&scanner.text()[key.start..key.end]);
            self.out.push(b':');
            if self.style != Style::Compact {
                self.out.push(b' ');
            }
            if matches!(self.style, Style::Detailed(_)) && !scanner_at_scalar(scanner) {
                self.new_line(self.style, level + 1);
            }
            self.value(scanner, level + 1)?;
        }
        self.new_line(self.style, level);
        self.out.push(b'}');
        Ok(())
    }

    fn array(&mut self, scanner: &mut Scanner<'_>, level: usize) -> Result<(), Fault> {
        self.out.push(b'[');
        let on_one_line = !matches!(self.style, Style::Detailed(_)) || is_short(*scanner)?;
        let inside = if on_one_line && self.style != Style::Compact { Style::Loose } else { self.style };
        let mut first = true;
        while scanner.element()? {
            self.separate(first, inside, level + 1);
            first = false;
            self.value(scanner, level + 1)?;
        }
        if !on_one_line {
            self.new_line(self.style, level);
        }
        self.out.push(b']');
        Ok(())
    }

    fn separate(&mut self, first: bool, style: Style, level: usize) {
        if !first {
            self.out.extend_from_slice(if style == Style::Loose { b", " } else { b"," });
        }
        self.new_line(style, level);
    }

    fn new_line(&mut self, style: Style, level: usize) {
        if let Style::Detailed(indent) = style
            && self.out.len() <= self.most
        {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + indent * level, b' ');
        }
    }
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

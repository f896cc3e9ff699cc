//! VALUES lists of plain literals, which stay text until their rows are written.
//!
//! A list of half a megabyte would make some hundred thousand nodes of a tree that nobody looks at twice. So where every value of
//! every row is a number (with a sign or not), a string or NULL, and all rows are equally long, the list is one token to the
//! grammar and [`LiteralRows`] to the executor, which reads value after value. Whatever else stands in a list makes it an
//! ordinary one: this reader never raises an error, it only declines.

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memchr2;

use crate::keyword::Kw;
use crate::lexer::{Lexer, Tok, is_ident_byte, is_space};
use crate::parser::{ParseOptions, unquoted};

/// Octets of a statement from which on looking for such a list pays.
const TEXT_MIN: usize = 4 << 10;

/// Where a list of literal rows stands in a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsSpan {
    /// The first opening parenthesis.
    pub(crate) start: usize,
    /// Behind the last closing one.
    pub(crate) end: usize,
    rows: usize,
    width: usize,
}

/// Rows of plain literals as written behind VALUES, all of one width.
#[derive(Debug, Clone, PartialEq)]
pub struct LiteralRows {
    text: Arc<[u8]>,
    rows: usize,
    width: usize,
    backslash_escapes: bool,
}

/// A value of such a row.
#[derive(Debug, Clone, PartialEq)]
pub enum LiteralCell<'t> {
    /// NULL
    Null,
    /// Digits, a sign or none before them.
    Int(i64),
    /// Digits beyond the range of `Int`.
    UInt(u64),
    /// Digits with a point, or more than 64 bits of them; the sign included.
    Decimal(&'t str),
    /// With an exponent.
    Float(f64),
    /// A string, escapes resolved.
    String(Cow<'t, [u8]>),
}

/// Reads the values of [`LiteralRows`] in their order, row after row.
pub struct CellReader<'t> {
    text: &'t [u8],
    pos: usize,
    backslash_escapes: bool,
}

/// Rows found between two pauses.
const ROWS_PER_PAUSE: usize = 1024;

/// What a value looks like; its octets are `start..end`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Null,
    Int,
    Decimal,
    Float,
    String,
}

impl LiteralRows {
    /// The rows of an INSERT or REPLACE, if the statement is long and all its values are plain literals.
    pub fn find(sql: &[u8], options: &ParseOptions) -> Option<RowsSpan> {
        if sql.len() < TEXT_MIN || options.empty_string_is_null {
            return None;
        }
        let start = behind_values(sql, options)?;
        let mut pos = start;
        let (mut rows, mut width) = (0_usize, 0);
        loop {
            let (cells, end) = skip_row(sql, pos, options)?;
            if rows == 0 {
                width = cells;
            }
            if cells != width {
                return None;
            }
            rows += 1;
            if rows.is_multiple_of(ROWS_PER_PAUSE) {
                crate::pause::pause();
            }
            let next = skip_space(sql, end);
            if sql.get(next) != Some(&b',') {
                return Some(RowsSpan { start, end, rows, width });
            }
            pos = skip_space(sql, next + 1);
        }
    }

    pub(crate) fn new(sql: &[u8], span: RowsSpan, options: &ParseOptions) -> LiteralRows {
        LiteralRows {
            text: sql[span.start..span.end].into(),
            rows: span.rows,
            width: span.width,
            backslash_escapes: !options.no_backslash_escapes,
        }
    }

    /// How many rows; at least one.
    pub fn row_count(&self) -> usize {
        self.rows
    }

    /// Values of each row; at least one.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The list as written.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }

    /// Reads the values from the first.
    pub fn cells(&self) -> CellReader<'_> {
        CellReader { text: &self.text, pos: 0, backslash_escapes: self.backslash_escapes }
    }
}

impl<'t> Iterator for CellReader<'t> {
    type Item = LiteralCell<'t>;

    #[inline]
    fn next(&mut self) -> Option<LiteralCell<'t>> {
        while is_space(*self.text.get(self.pos)?) || matches!(self.text[self.pos], b'(' | b')' | b',') {
            self.pos += 1;
        }
        let (form, end) = cell(self.text, self.pos, self.backslash_escapes, true)?;
        let text = &self.text[self.pos..end];
        self.pos = end;
        Some(match form {
            Form::Null => LiteralCell::Null,
            Form::Int => integer(text),
            Form::Decimal => LiteralCell::Decimal(digits_of(text)),
            Form::Float => match digits_of(text).parse::<f64>() {
                Ok(value) => LiteralCell::Float(if value == 0.0 { 0.0 } else { value }),
                Err(_) => LiteralCell::Null,
            },
            Form::String => LiteralCell::String(unquoted(text, self.backslash_escapes)),
        })
    }
}

/// ASCII by the scan that found it.
fn digits_of(text: &[u8]) -> &str {
    std::str::from_utf8(text).unwrap_or("0")
}

#[inline]
fn integer(text: &[u8]) -> LiteralCell<'_> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    let mut sum = 0u64;
    for digit in digits {
        let more = sum.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit - b'0')));
        let Some(more) = more else { return LiteralCell::Decimal(digits_of(text)) };
        sum = more;
    }
    match i64::try_from(sum) {
        Ok(value) if negative => LiteralCell::Int(-value),
        Ok(value) => LiteralCell::Int(value),
        Err(_) => LiteralCell::UInt(sum),
    }
}

#[inline]
fn skip_space(text: &[u8], mut pos: usize) -> usize {
    while text.get(pos).is_some_and(|byte| is_space(*byte)) {
        pos += 1;
    }
    pos
}

/// Where the parenthesis behind VALUES stands, if the text begins as an INSERT or REPLACE with nothing but names before VALUES.
fn behind_values(sql: &[u8], options: &ParseOptions) -> Option<usize> {
    let mut lexer = Lexer::new(sql, options);
    let mut depth = 0;
    let mut first = true;
    loop {
        let token = lexer.next_token();
        let kw = if token.tok == Tok::Word { Kw::lookup(&sql[token.start..token.end]) } else { None };
        if std::mem::take(&mut first) {
            if !matches!(kw, Some(Kw::INSERT | Kw::REPLACE)) {
                return None;
            }
            continue;
        }
        match (token.tok, kw) {
            (_, Some(Kw::SELECT | Kw::SET | Kw::WITH)) => return None,
            (_, Some(Kw::VALUES | Kw::VALUE)) if depth == 0 => {
                let start = skip_space(sql, token.end);
                if sql.get(start) == Some(&b'(') {
                    return Some(start);
                }
            }
            (Tok::LParen, _) => depth += 1,
            (Tok::RParen, _) => depth -= 1,
            (Tok::Word | Tok::PlainWord | Tok::Quoted | Tok::Dot | Tok::Comma, _) => {}
            _ => return None,
        }
    }
}

/// At an opening parenthesis: how many values stand in it, and where the text goes on behind it.
fn skip_row(text: &[u8], open: usize, options: &ParseOptions) -> Option<(usize, usize)> {
    if text.get(open) != Some(&b'(') {
        return None;
    }
    let mut pos = open + 1;
    let mut cells = 0;
    loop {
        pos = skip_space(text, pos);
        let (_, end) = cell(text, pos, !options.no_backslash_escapes, !options.ansi_quotes)?;
        cells += 1;
        pos = skip_space(text, end);
        match text.get(pos) {
            Some(b',') => pos += 1,
            Some(b')') => return Some((cells, pos + 1)),
            _ => return None,
        }
    }
}

/// A value's form, and where it ends.
#[inline]
fn cell(text: &[u8], pos: usize, backslash_escapes: bool, double_quotes: bool) -> Option<(Form, usize)> {
    match *text.get(pos)? {
        b'0'..=b'9' => number(text, pos, pos),
        b'-' => number(text, pos, pos + 1),
        b'\'' => Some((Form::String, string_end(text, pos, b'\'', backslash_escapes)?)),
        b'"' if double_quotes => Some((Form::String, string_end(text, pos, b'"', backslash_escapes)?)),
        b'n' | b'N' => {
            let end = pos + 4;
            let is_null = text.get(pos..end)?.eq_ignore_ascii_case(b"NULL");
            (is_null && !text.get(end).is_some_and(|byte| is_ident_byte(*byte))).then_some((Form::Null, end))
        }
        _ => None,
    }
}

/// Digits that 64 bits hold whatever the sign.
const SIGNED_DIGITS_MAX: usize = 18;
/// Digits of a floating point number, exponent included, that is certainly in range.
const EXPONENT_DIGITS_MAX: usize = 2;

#[inline]
fn number(text: &[u8], start: usize, digits: usize) -> Option<(Form, usize)> {
    let mut end = digits_end(text, digits);
    if end == digits {
        return None;
    }
    let mut form = Form::Int;
    let mut next = text.get(end).copied().unwrap_or(0);
    if next == b'.' {
        let fraction = end + 1;
        end = digits_end(text, fraction);
        // What stands directly behind the point may make a name of it.
        if end == fraction {
            return None;
        }
        form = Form::Decimal;
        next = text.get(end).copied().unwrap_or(0);
    } else if digits > start && end - digits > SIGNED_DIGITS_MAX {
        return None;
    }
    if next | 0x20 == b'e' {
        let sign = matches!(text.get(end + 1), Some(b'+' | b'-'));
        let exponent = end + 1 + usize::from(sign);
        end = digits_end(text, exponent);
        if end == exponent || end - exponent > EXPONENT_DIGITS_MAX || exponent - digits > 40 {
            return None;
        }
        form = Form::Float;
        next = text.get(end).copied().unwrap_or(0);
    }
    // Too long for a DECIMAL: the binder says so.
    let fits = form != Form::Decimal || end - start <= 38;
    (fits && !is_ident_byte(next) && next != b'.').then_some((form, end))
}

#[inline]
fn digits_end(text: &[u8], mut pos: usize) -> usize {
    while text.get(pos).is_some_and(u8::is_ascii_digit) {
        pos += 1;
    }
    pos
}

/// At an opening quote: where the text goes on behind the closing one.
#[inline]
fn string_end(text: &[u8], open: usize, quote: u8, backslash_escapes: bool) -> Option<usize> {
    let escape = if backslash_escapes { b'\\' } else { quote };
    let mut pos = open + 1;
    loop {
        let at = pos + memchr2(quote, escape, text.get(pos..)?)?;
        if text[at] == quote && text.get(at + 1) != Some(&quote) {
            return Some(at + 1);
        }
        pos = at + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::{InsertSource, Statement};

    /// A statement that is long enough to be looked at.
    fn long(head: &str, rows: &str, tail: &str) -> String {
        format!("{head}{}{rows}{tail}", " ".repeat(TEXT_MIN))
    }

    fn found(sql: &str) -> Option<LiteralRows> {
        let options = ParseOptions::default();
        let span = LiteralRows::find(sql.as_bytes(), &options)?;
        let parsed = crate::parse_with_rows(sql.as_bytes(), &options, span).unwrap();
        match parsed.statement {
            Statement::Insert(insert) => match insert.source {
                InsertSource::Literals(rows) => Some(rows),
                other => panic!("not taken: {other:?}"),
            },
            other => panic!("not an INSERT: {other:?}"),
        }
    }

    #[test]
    fn all_plain_literals_are_read_in_order() {
        use LiteralCell::*;
        let sql = long(
            "INSERT INTO `t` (a, `b`, value) VALUES ",
            "(1,-2,NULL),\n( 'a''b\\n' , \"c\"\"d\\'\" , null ) ,(18446744073709551615,-1.50,99999999999999999999), (1e3,-0,1.5E-2)",
            " ON DUPLICATE KEY UPDATE a = VALUES(a);",
        );
        let rows = found(&sql).unwrap();
        assert_eq!((rows.row_count(), rows.width()), (4, 3));
        let cells: Vec<_> = rows.cells().collect();
        let text = |s: &'static str| String(Cow::Borrowed(s.as_bytes()));
        assert_eq!(
            cells,
            [
                Int(1),
                Int(-2),
                Null,
                text("a'b\n"),
                text("c\"d'"),
                Null,
                UInt(u64::MAX),
                Decimal("-1.50"),
                Decimal("99999999999999999999"),
                Float(1000.0),
                Int(0),
                Float(0.015)
            ]
        );
    }

    #[test]
    fn what_is_no_plain_literal_is_left_to_the_grammar() {
        for row in [
            "(1+1)",
            "(a)",
            "()",
            "(NULLS)",
            "(1,)",
            "(,1)",
            "(DEFAULT)",
            "('a' 'b')",
            "(x'41')",
            "(0x41)",
            "(N'a')",
            "(_utf8'a')",
            "(.5)",
            "(1.)",
            "(1.e2)",
            "(+1)",
            "(1e999)",
            "(1 -- c\n)",
            "(?)",
            "('a)",
            "(1a)",
            "(1.5a)",
            "(-9223372036854775808)",
            "((1))",
            "(1),(1,2)",
            "(1),",
            "(1),(b)",
            "(1e)",
            "(1.5.5)",
        ] {
            let sql = long("INSERT INTO t VALUES ", row, "");
            assert_eq!(LiteralRows::find(sql.as_bytes(), &ParseOptions::default()), None, "{row}");
        }
        for head in [
            "INSERT INTO t SELECT * FROM (VALUES ",
            "INSERT INTO t SET a = VALUES ",
            "UPDATE t SET a = VALUES ",
            "WITH c AS (SELECT 1) INSERT INTO t VALUES ",
        ] {
            let sql = long(head, "(1)", "");
            assert_eq!(LiteralRows::find(sql.as_bytes(), &ParseOptions::default()), None, "{head}");
        }
        let ansi = ParseOptions { ansi_quotes: true, ..ParseOptions::default() };
        let quoted = long("INSERT INTO t VALUES ", "(\"a\")", "");
        assert_eq!(LiteralRows::find(quoted.as_bytes(), &ansi), None);
        assert!(LiteralRows::find(quoted.as_bytes(), &ParseOptions::default()).is_some());
        assert_eq!(LiteralRows::find(b"INSERT INTO t VALUES (1)", &ParseOptions::default()), None, "short");
    }

    #[test]
    fn the_text_behind_the_rows_and_its_errors_are_the_grammars() {
        let options = ParseOptions { multi_statements: true, ..ParseOptions::default() };
        let sql = long("REPLACE t VALUES ", "(1),(2)", "; SELECT 1");
        let span = LiteralRows::find(sql.as_bytes(), &options).unwrap();
        let parsed = crate::parse_with_rows(sql.as_bytes(), &options, span).unwrap();
        assert_eq!(&sql[parsed.rest_offset.unwrap()..], "SELECT 1");
        let wrong = long("INSERT INTO t VALUES ", "(1),\n('a\n'),\n(2)", " ON DUPLICATE KEY");
        let span = LiteralRows::find(wrong.as_bytes(), &options).unwrap();
        let error = crate::parse_with_rows(wrong.as_bytes(), &options, span).unwrap_err();
        assert_eq!(error.message, crate::parse(wrong.as_bytes(), &options).unwrap_err().message);
    }
}

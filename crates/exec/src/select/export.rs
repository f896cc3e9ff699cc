//! SELECT ... INTO OUTFILE and INTO DUMPFILE: rows into a file of the server.
//!
//! What FIELDS and LINES say becomes an [`Export`] when the query is planned: which octets are escaped in a value that is
//! enclosed and in one that is not, and in rows of fixed size how wide each column is. Text is written in its own
//! character set unless the statement names another.

use keel_base::{SqlError, SqlResult, code, errors};
use keel_sql::ast::{ByteStr, FileFormat, SelectInto};
use keel_value::collation::{self, Charset};
use keel_value::types::Class;
use keel_value::{CollationId, SqlMode, SqlType, TypeKind, ValueRef, convert, text};

use super::RowOutput;
use crate::files::{self, OutputFile};
use crate::result::{ResultColumns, RowView};
use crate::session::Session;

/// A planned INTO OUTFILE or INTO DUMPFILE.
pub struct Export {
    file: Box<[u8]>,
    /// None for INTO DUMPFILE: values alone.
    format: Option<Format>,
    columns: Vec<Column>,
}

struct Column {
    ty: SqlType,
    name: String,
    /// Text, for OPTIONALLY ENCLOSED BY and for escaping.
    is_text: bool,
    /// Octets in a row of fixed size.
    width: usize,
}

/// What stands around values, and what is escaped in them.
struct Format {
    charset: Option<Charset>,
    field_end: Box<[u8]>,
    line_start: Box<[u8]>,
    line_end: Box<[u8]>,
    enclosed: Box<[u8]>,
    optionally: bool,
    escape: Option<u8>,
    /// Values are as wide as their columns, with nothing between them.
    fixed: bool,
    /// Values that are no text are escaped too.
    escapes_numbers: bool,
    /// Octets escaped in an enclosed value.
    escaped_inside: Octets,
    /// In one that is not.
    escaped_plain: Octets,
    /// This octet is escaped by itself.
    doubled: Option<u8>,
    /// Some of these bytes may be a part of a longer character.
    wide: bool,
    /// 1475: a value may look like the end of its field.
    ambiguous: bool,
    /// 1638.
    non_ascii: bool,
}

/// A set of bytes.
type Octets = Box<[bool; 256]>;

/// Letters that mean something behind an escape.
const ESCAPE_LETTERS: &[u8] = b"ntrb0ZN";
/// What numbers are written with.
const NUMBER_CHARS: &[u8] = b".0123456789e+-";
/// A column of that many bytes has no fixed size.
const WIDTH_MAX: u32 = 16 << 20;

/// Plans what INTO says; none for variables.
pub fn plan(session: &Session, into: &SelectInto, columns: &ResultColumns) -> SqlResult<Option<Export>> {
    let (file, format) = match into {
        SelectInto::Variables(_) => return Ok(None),
        SelectInto::Dumpfile(file) => (file, None),
        SelectInto::Outfile { file, charset, format } => (file, Some((charset, format))),
    };
    files::require_to_write(session)?;
    let columns: Vec<Column> = columns.columns.iter().map(Column::of).collect();
    let format = match format {
        None => None,
        Some((charset, format)) => Some(Format::of(session, charset.as_deref(), format, &columns)?),
    };
    Ok(Some(Export { file: file.0.clone(), format, columns }))
}

impl Column {
    fn of(meta: &crate::result::ColumnMeta) -> Column {
        let ty = meta.ty.clone();
        let is_text = !matches!(ty.class(), Class::Int | Class::Decimal | Class::Real);
        let width = meta.length.unwrap_or_else(|| ty.wire_length(CollationId::BINARY));
        Column { ty, name: meta.name.to_string(), is_text, width: width as usize }
    }
}

/// A clause's text, or what it is where nothing was said.
fn said(clause: &Option<ByteStr>, default: &[u8]) -> Box<[u8]> {
    clause.as_ref().map_or_else(|| default.into(), |text| text.0.clone())
}

fn chars(text: &[u8]) -> usize {
    String::from_utf8_lossy(text).chars().count()
}

impl Format {
    fn of(
        session: &Session,
        charset: Option<&str>,
        said_by: &FileFormat,
        columns: &[Column],
    ) -> SqlResult<Format> {
        let by_name = |name: &str| Charset::by_name(name).ok_or_else(|| errors::unknown_character_set(name));
        let charset = charset.map(by_name).transpose()?.filter(|charset| *charset != Charset::Binary);
        let field_end = said(&said_by.terminated, b"\t");
        let enclosed = said(&said_by.enclosed, b"");
        let escaped = said(&said_by.escaped, b"\\");
        let line_start = said(&said_by.line_start, b"");
        let line_end = Some(said(&said_by.line_end, b"\n")).filter(|end| !end.is_empty());
        let line_end = line_end.unwrap_or_else(|| field_end.clone());
        if chars(&enclosed) > 1 || chars(&escaped) > 1 {
            return Err(errors::wrong_field_terminators());
        }
        let texts = [&field_end, &enclosed, &escaped, &line_start, &line_end];
        let non_ascii = texts.iter().any(|text| !text.is_ascii());
        let backslash =
            said_by.escaped.is_some() || !session.vars.sql_mode.has(SqlMode::NO_BACKSLASH_ESCAPES);
        let escape = escaped.first().copied().filter(|_| backslash);
        let optionally = enclosed.is_empty() || said_by.optionally && !field_end.is_empty();
        let has_blobs = columns.iter().any(|column| column.width >= WIDTH_MAX as usize);
        let separator = enclosed.first().or(field_end.first()).copied();
        let is_letter = separator.is_some_and(|octet| ESCAPE_LETTERS.contains(&octet));
        let is_number = |octet: Option<u8>| octet.is_some_and(|octet| NUMBER_CHARS.contains(&octet));
        let until_blob = || columns.iter().take_while(|column| column.width < WIDTH_MAX as usize);
        let (has_text, has_numbers) = (until_blob().any(|c| c.is_text), until_blob().any(|c| !c.is_text));
        let looks_escaped = is_letter && enclosed.is_empty() && (has_text || is_number(separator));
        let looks_numeric = optionally && has_numbers && is_number(field_end.first().copied());
        let always = [escape, line_end.first().copied(), Some(0)];
        let ambiguous = looks_escaped || looks_numeric;
        // An octet that ends fields is never doubled: that is for enclosed values.
        let plain = field_end.first().copied().filter(|_| !ambiguous);
        let of_plain = always.into_iter().filter(|octet| !ambiguous || *octet != field_end.first().copied());
        Ok(Format {
            charset,
            fixed: field_end.is_empty() && enclosed.is_empty() && !has_blobs,
            escapes_numbers: is_number(separator),
            escaped_inside: octets(always.into_iter().chain([separator])),
            escaped_plain: octets(of_plain.chain([plain])),
            doubled: separator.filter(|_| is_letter),
            wide: non_ascii,
            field_end,
            line_start,
            line_end,
            enclosed,
            optionally,
            escape,
            ambiguous,
            non_ascii,
        })
    }

    fn encloses(&self, column: &Column) -> bool {
        !self.enclosed.is_empty() && (!self.optionally || column.is_text)
    }

    /// Appends a value with what stands around it.
    fn append(&self, out: &mut Vec<u8>, column: &Column, value: Option<&[u8]>, charset: Charset) {
        let encloses = self.encloses(column);
        let Some(value) = value else {
            match self.escape {
                _ if self.fixed => out.resize(out.len() + column.width, b' '),
                Some(escape) => out.extend_from_slice(&[escape, b'N']),
                None => out.extend_from_slice(b"NULL"),
            }
            return;
        };
        if encloses {
            out.extend_from_slice(&self.enclosed);
        }
        let kept = if self.fixed { &value[..value.len().min(column.width)] } else { value };
        match self.escape {
            Some(escape) if column.is_text || self.escapes_numbers => {
                self.append_escaped(out, kept, charset, encloses, escape);
            }
            _ => out.extend_from_slice(kept),
        }
        if self.fixed {
            out.resize(out.len() + column.width.saturating_sub(kept.len()), b' ');
        }
        if encloses {
            out.extend_from_slice(&self.enclosed);
        }
    }

    fn append_escaped(&self, out: &mut Vec<u8>, value: &[u8], charset: Charset, encloses: bool, escape: u8) {
        let stops = if encloses { &self.escaped_inside } else { &self.escaped_plain };
        let steps_over = self.wide && charset.max_bytes() > 1;
        let mut rest = value;
        while let Some(at) = rest.iter().position(|octet| stops[usize::from(*octet)]) {
            let whole = if steps_over { char_around(charset, rest, at) } else { at };
            if whole > at {
                out.extend_from_slice(&rest[..whole]);
                rest = &rest[whole..];
                continue;
            }
            let octet = rest[at];
            out.extend_from_slice(&rest[..at]);
            out.push(if self.doubled == Some(octet) { octet } else { escape });
            out.push(if octet == 0 { b'0' } else { octet });
            rest = &rest[at + 1..];
        }
        out.extend_from_slice(rest);
    }
}

/// Where the character ends that the octet at `at` is a part of, if it is one of several octets; else `at`.
fn char_around(charset: Charset, text: &[u8], at: usize) -> usize {
    let id = charset.default_collation();
    let mut from = 0;
    while from <= at {
        let length = collation::substring(id, &text[from..], 0, 1).len().max(1);
        if from + length > at {
            return if length > 1 { from + length } else { at };
        }
        from += length;
    }
    at
}

fn octets(list: impl IntoIterator<Item = Option<u8>>) -> Octets {
    let mut set = Box::new([false; 256]);
    list.into_iter().flatten().for_each(|octet| set[usize::from(octet)] = true);
    set
}

impl Export {
    /// Runs a query into its file; gives the rows that `body` counted, and those written.
    pub(super) fn run(
        &self,
        session: &mut Session,
        body: impl FnOnce(&mut Session, &mut dyn RowOutput) -> SqlResult<u64>,
    ) -> SqlResult<(u64, u64)> {
        let file = OutputFile::create(session, &self.file)?;
        if let Some(format) = &self.format {
            if format.non_ascii {
                session.warn(errors::non_ascii_separator());
            }
            if format.ambiguous {
                session.warn(errors::ambiguous_field_term());
            }
        }
        let mut writer = Writer { plan: self, file, rows: 0, text: Vec::new(), lost: Vec::new() };
        let counted = body(session, &mut writer);
        let rows = writer.rows;
        writer.file.finish(counted).map(|counted| (counted, rows))
    }
}

struct Writer<'p> {
    plan: &'p Export,
    file: OutputFile,
    rows: u64,
    /// A value as text.
    text: Vec<u8>,
    /// Columns whose text had characters that the file's character set lacks.
    lost: Vec<usize>,
}

/// Rows that INTO DUMPFILE takes: one more than its manual says.
const DUMPED_ROWS_MAX: u64 = 2;

impl RowOutput for Writer<'_> {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        self.rows += 1;
        if self.plan.format.is_none() && self.rows > DUMPED_ROWS_MAX {
            return Err(errors::too_many_rows());
        }
        let zone = matches!(row, RowView::Stored { .. }).then(|| session.vars.time_zone.clone());
        if let Some(format) = &self.plan.format {
            self.file.buffer.extend_from_slice(&format.line_start);
        }
        let last = self.plan.columns.len().saturating_sub(1);
        row.for_each(|place, value| {
            let value = match (value, &zone) {
                (ValueRef::DateTime(utc), Some(zone))
                    if self.plan.columns[place].ty.kind == TypeKind::Timestamp =>
                {
                    ValueRef::DateTime(convert::timestamp_to_local(utc, &**zone))
                }
                (value, _) => value,
            };
            self.value(place, value, place == last);
        });
        if let Some(format) = &self.plan.format {
            self.file.buffer.extend_from_slice(&format.line_end);
        }
        for column in std::mem::take(&mut self.lost) {
            let name = &self.plan.columns[column].name;
            let error = errors::warn_data_truncated(name, self.rows);
            session.warn(SqlError { code: code::TRUNCATED_WRONG_VALUE_FOR_FIELD, ..error });
        }
        self.file.settle()?;
        Ok(true)
    }
}

impl Writer<'_> {
    fn value(&mut self, place: usize, value: ValueRef<'_>, is_last: bool) {
        let column = &self.plan.columns[place];
        let charset = self.as_text(place, value);
        let out = &mut self.file.buffer;
        let shown = (!value.is_null()).then_some(&self.text[..]);
        let Some(format) = &self.plan.format else {
            out.extend_from_slice(shown.unwrap_or(b"\0"));
            return;
        };
        format.append(out, column, shown, charset);
        if !is_last {
            out.extend_from_slice(&format.field_end);
        }
    }

    /// Writes a value into `text`; gives its character set there.
    fn as_text(&mut self, place: usize, value: ValueRef<'_>) -> Charset {
        let ty = &self.plan.columns[place].ty;
        self.text.clear();
        if value.is_null() {
            return Charset::Binary;
        }
        text::append(&mut self.text, ty, value);
        if !ty.is_string() && !ty.has_members() {
            return Charset::Binary;
        }
        let own = ty.collation.charset();
        let to = self.plan.format.as_ref().and_then(|format| format.charset).unwrap_or(own);
        if own == to || self.text.is_ascii() {
            return to;
        }
        let id = to.default_collation();
        let (converted, lost) = match own {
            // Octets are taken as they are, but for those that are no characters.
            Charset::Binary if collation::well_formed_len(id, &self.text) == self.text.len() => return to,
            Charset::Binary => (convert::repaired(id, &self.text), 1),
            own => {
                let (converted, lost) = collation::convert(own, to, &self.text);
                (converted.into_owned(), lost)
            }
        };
        if lost > 0 {
            self.lost.push(place);
        }
        self.text = converted;
        to
    }
}

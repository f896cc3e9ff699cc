//! Answers: OK, ERR, EOF, column definitions.

use std::borrow::Cow;

use keel_base::SqlError;

use crate::capability::{Capabilities, Status};
use crate::codec::{Malformed, Reader, put_lenenc, put_lenenc_bytes};
use crate::packet;

/// First bytes of answers.
pub mod mark {
    /// OK.
    pub const OK: u8 = 0x00;
    /// EOF, or the OK that ends a result set.
    pub const EOF: u8 = 0xfe;
    /// ERR.
    pub const ERR: u8 = 0xff;
    /// A request for a local file.
    pub const LOCAL_INFILE: u8 = 0xfb;
}

/// The longest text of an ERR packet in octets, as MariaDB's buffer is.
const ERROR_TEXT_BYTES_MAX: usize = 511;

/// A change of session state that an OK packet reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateChange {
    /// The current database.
    Schema(String),
    /// A system variable.
    Variable(String, String),
    /// Something changed, not said what.
    Changed,
}

const TRACK_VARIABLE: u8 = 0;
const TRACK_SCHEMA: u8 = 1;
const TRACK_STATE: u8 = 2;

/// The contents of an OK packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ok<'a> {
    /// Rows changed (or matched).
    pub affected_rows: u64,
    /// The generated AUTO_INCREMENT value.
    pub last_insert_id: u64,
    /// Status flags; SESSION_STATE_CHANGED is set here where `changes` are sent.
    pub status: Status,
    /// Warnings of the statement.
    pub warnings: u16,
    /// Readable information.
    pub info: &'a str,
    /// Session state changes; sent only to clients that asked.
    pub changes: &'a [StateChange],
}

/// Appends an OK packet's payload that begins with `mark` ([`mark::OK`], or [`mark::EOF`] at the end of rows).
pub fn encode_ok(out: &mut Vec<u8>, mark: u8, ok: &Ok<'_>, capabilities: Capabilities) {
    out.push(mark);
    put_lenenc(out, ok.affected_rows);
    put_lenenc(out, ok.last_insert_id);
    let tracked = capabilities.has(Capabilities::SESSION_TRACK) && !ok.changes.is_empty();
    let mut status = ok.status;
    status.set(Status::SESSION_STATE_CHANGED, tracked);
    if capabilities.has(Capabilities::PROTOCOL_41) || capabilities.has(Capabilities::TRANSACTIONS) {
        out.extend_from_slice(&status.0.to_le_bytes());
    }
    if capabilities.has(Capabilities::PROTOCOL_41) {
        out.extend_from_slice(&ok.warnings.to_le_bytes());
    }
    if tracked || !ok.info.is_empty() {
        put_lenenc_bytes(out, ok.info.as_bytes());
    }
    if tracked {
        let mut changes = Vec::new();
        ok.changes.iter().for_each(|change| put_change(&mut changes, change));
        put_lenenc_bytes(out, &changes);
    }
}

fn put_change(out: &mut Vec<u8>, change: &StateChange) {
    let mut data = Vec::new();
    let kind = match change {
        StateChange::Schema(name) => {
            put_lenenc_bytes(&mut data, name.as_bytes());
            TRACK_SCHEMA
        }
        StateChange::Variable(name, value) => {
            put_lenenc_bytes(&mut data, name.as_bytes());
            put_lenenc_bytes(&mut data, value.as_bytes());
            TRACK_VARIABLE
        }
        StateChange::Changed => {
            data.push(b'1');
            TRACK_STATE
        }
    };
    out.push(kind);
    put_lenenc_bytes(out, &data);
}

/// An OK packet as a client reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OkReply {
    /// Rows changed (or matched).
    pub affected_rows: u64,
    /// The generated AUTO_INCREMENT value.
    pub last_insert_id: u64,
    /// Status flags.
    pub status: Status,
    /// Warnings of the statement.
    pub warnings: u16,
    /// Readable information.
    pub info: String,
    /// Session state changes.
    pub changes: Vec<StateChange>,
}

/// Reads an OK packet, its first byte included.
pub fn decode_ok(payload: &[u8], capabilities: Capabilities) -> Result<OkReply, Malformed> {
    let mut reader = Reader::new(payload);
    reader.u8()?;
    let mut reply = OkReply {
        affected_rows: reader.lenenc()?,
        last_insert_id: reader.lenenc()?,
        status: Status(reader.u16()?),
        warnings: reader.u16()?,
        ..OkReply::default()
    };
    if reader.is_empty() {
        return Ok(reply);
    }
    reply.info = lossy(reader.lenenc_bytes()?);
    if capabilities.has(Capabilities::SESSION_TRACK) && reply.status.has(Status::SESSION_STATE_CHANGED) {
        let mut changes = Reader::new(reader.lenenc_bytes()?);
        while !changes.is_empty() {
            reply.changes.push(read_change(&mut changes)?);
        }
    }
    Ok(reply)
}

fn read_change(reader: &mut Reader<'_>) -> Result<StateChange, Malformed> {
    let kind = reader.u8()?;
    let mut data = Reader::new(reader.lenenc_bytes()?);
    Ok(match kind {
        TRACK_VARIABLE => StateChange::Variable(lossy(data.lenenc_bytes()?), lossy(data.lenenc_bytes()?)),
        TRACK_SCHEMA => StateChange::Schema(lossy(data.lenenc_bytes()?)),
        _ => StateChange::Changed,
    })
}

/// Appends an ERR packet's payload. Before the client's capabilities are known it carries no SQLSTATE.
pub fn encode_err(out: &mut Vec<u8>, error: &SqlError, capabilities: Capabilities) {
    let text = &error.message;
    let end = text.floor_char_boundary(ERROR_TEXT_BYTES_MAX);
    encode_err_text(out, error, &text.as_bytes()[..end], capabilities);
}

fn encode_err_text(out: &mut Vec<u8>, error: &SqlError, text: &[u8], capabilities: Capabilities) {
    out.push(mark::ERR);
    out.extend_from_slice(&error.code.to_le_bytes());
    if capabilities.has(Capabilities::PROTOCOL_41) {
        out.push(b'#');
        out.extend_from_slice(error.sqlstate.as_bytes());
    }
    out.extend_from_slice(text);
}

/// An ERR packet as a client reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrReply {
    /// MariaDB's error number.
    pub code: u16,
    /// Five characters; `HY000` where the packet has none.
    pub sqlstate: String,
    /// Text.
    pub message: String,
}

/// Reads an ERR packet, its first byte included.
pub fn decode_err(payload: &[u8]) -> Result<ErrReply, Malformed> {
    let mut reader = Reader::new(payload);
    reader.u8()?;
    let code = reader.u16()?;
    let mut sqlstate = "HY000".to_string();
    if reader.rest().first() == Some(&b'#') {
        reader.u8()?;
        sqlstate = lossy(reader.take(5)?);
    }
    Ok(ErrReply { code, sqlstate, message: lossy(reader.take_rest()) })
}

/// Appends an EOF packet's payload.
#[inline]
pub fn encode_eof(out: &mut Vec<u8>, warnings: u16, status: Status) {
    out.push(mark::EOF);
    out.extend_from_slice(&warnings.to_le_bytes());
    out.extend_from_slice(&status.0.to_le_bytes());
}

/// One column of a result set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Column {
    /// Database.
    pub schema: String,
    /// Table or its alias.
    pub table: String,
    /// Table as stored.
    pub org_table: String,
    /// Name or alias.
    pub name: String,
    /// Name as stored.
    pub org_name: String,
    /// Character set and collation number.
    pub charset: u16,
    /// Longest printed form in octets.
    pub length: u32,
    /// One of [`crate::capability::type_code`].
    pub type_code: u8,
    /// Column flags.
    pub flags: u16,
    /// Digits after the point; 31 or 39 for not fixed.
    pub decimals: u8,
    /// What clients with EXTENDED_METADATA get beside that; for them it is never absent.
    pub extended: Option<Extended>,
}

/// What the type code of a column does not tell; empty where it tells all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extended {
    /// Name of the type: `inet4`, `inet6`, `uuid`.
    pub type_name: &'static str,
    /// What its text is: `json`.
    pub format: &'static str,
}

const EXTENDED_TYPE: u8 = 0;
const EXTENDED_FORMAT: u8 = 1;

impl Extended {
    fn encode(self, out: &mut Vec<u8>) {
        let mut parts = Vec::new();
        for (mark, text) in [(EXTENDED_TYPE, self.type_name), (EXTENDED_FORMAT, self.format)] {
            if !text.is_empty() {
                parts.push(mark);
                put_lenenc_bytes(&mut parts, text.as_bytes());
            }
        }
        put_lenenc_bytes(out, &parts);
    }
}

/// Octets of the fixed part of a column definition.
const FIXED_BYTES: u8 = 12;

impl Column {
    /// Appends the payload of a column definition.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_names(out, |name| Cow::Borrowed(name.as_bytes()));
    }

    /// The same with each name as `convert` gives it.
    pub fn encode_names<'a>(&'a self, out: &mut Vec<u8>, convert: impl Fn(&'a str) -> Cow<'a, [u8]>) {
        put_lenenc_bytes(out, b"def");
        for text in [&self.schema, &self.table, &self.org_table, &self.name, &self.org_name] {
            put_lenenc_bytes(out, &convert(text));
        }
        if let Some(extended) = self.extended {
            extended.encode(out);
        }
        out.push(FIXED_BYTES);
        out.extend_from_slice(&self.charset.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.push(self.type_code);
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.push(self.decimals);
        out.extend_from_slice(&[0, 0]);
    }

    /// Reads the payload of a column definition that has nothing extended.
    pub fn decode(payload: &[u8]) -> Result<Column, Malformed> {
        let mut reader = Reader::new(payload);
        reader.lenenc_bytes()?;
        let mut text = || reader.lenenc_bytes().map(lossy);
        let (schema, table, org_table, name, org_name) = (text()?, text()?, text()?, text()?, text()?);
        let mut fixed = Reader::new(reader.lenenc_bytes()?);
        Ok(Column {
            schema,
            table,
            org_table,
            name,
            org_name,
            charset: fixed.u16()?,
            length: fixed.u32()?,
            type_code: fixed.u8()?,
            flags: fixed.u16()?,
            decimals: fixed.u8()?,
            extended: None,
        })
    }
}

/// Appends the packets that begin a result set: the count, and the definitions unless the client knows them. The EOF that
/// may follow is the caller's, as it carries the status.
///
/// With CACHE_METADATA the count is followed by a byte that says whether definitions come.
pub fn append_columns<'a>(
    out: &mut Vec<u8>,
    columns: impl ExactSizeIterator<Item = &'a Column>,
    known: bool,
    capabilities: Capabilities,
    sequence: &mut u8,
) {
    let start = packet::begin(out);
    put_lenenc(out, columns.len() as u64);
    let cached = capabilities.has(Capabilities::CACHE_METADATA);
    if cached {
        out.push(u8::from(!known));
    }
    packet::finish(out, start, sequence);
    if cached && known {
        return;
    }
    for column in columns {
        append_column(out, column, sequence);
    }
}

/// Appends one column definition as a packet.
pub fn append_column(out: &mut Vec<u8>, column: &Column, sequence: &mut u8) {
    let start = packet::begin(out);
    column.encode(out);
    packet::finish(out, start, sequence);
}

/// Appends an EOF packet.
#[inline]
pub fn append_eof(out: &mut Vec<u8>, warnings: u16, status: Status, sequence: &mut u8) {
    let start = packet::begin(out);
    encode_eof(out, warnings, status);
    packet::finish(out, start, sequence);
}

/// Appends an OK packet.
#[inline]
pub fn append_ok(out: &mut Vec<u8>, ok: &Ok<'_>, capabilities: Capabilities, sequence: &mut u8) {
    let start = packet::begin(out);
    encode_ok(out, mark::OK, ok, capabilities);
    packet::finish(out, start, sequence);
}

/// Appends an ERR packet.
#[cold]
pub fn append_err(out: &mut Vec<u8>, error: &SqlError, capabilities: Capabilities, sequence: &mut u8) {
    let start = packet::begin(out);
    encode_err(out, error, capabilities);
    packet::finish(out, start, sequence);
}

/// The same with the error's message as `text` gives it in the client's character set, of single octets.
#[cold]
pub fn append_err_text(
    out: &mut Vec<u8>,
    error: &SqlError,
    text: &[u8],
    capabilities: Capabilities,
    sequence: &mut u8,
) {
    let start = packet::begin(out);
    encode_err_text(out, error, &text[..text.len().min(ERROR_TEXT_BYTES_MAX)], capabilities);
    packet::finish(out, start, sequence);
}

/// Appends the packet after the last row: EOF, or OK where the client deprecates EOF.
#[inline]
pub fn append_end_of_rows(out: &mut Vec<u8>, ok: &Ok<'_>, capabilities: Capabilities, sequence: &mut u8) {
    if !capabilities.has(Capabilities::DEPRECATE_EOF) {
        return append_eof(out, ok.warnings, ok.status, sequence);
    }
    let start = packet::begin(out);
    encode_ok(out, mark::EOF, ok, capabilities);
    packet::finish(out, start, sequence);
}

/// The answer to COM_STMT_PREPARE before its definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrepareOk {
    /// The statement's number.
    pub statement: u32,
    /// Columns of its result.
    pub columns: u16,
    /// Its parameters.
    pub params: u16,
    /// Warnings of the preparation.
    pub warnings: u16,
}

impl PrepareOk {
    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(mark::OK);
        out.extend_from_slice(&self.statement.to_le_bytes());
        out.extend_from_slice(&self.columns.to_le_bytes());
        out.extend_from_slice(&self.params.to_le_bytes());
        out.push(0);
        out.extend_from_slice(&self.warnings.to_le_bytes());
    }

    /// Reads the payload.
    pub fn decode(payload: &[u8]) -> Result<PrepareOk, Malformed> {
        let mut reader = Reader::new(payload);
        reader.u8()?;
        let (statement, columns, params) = (reader.u32()?, reader.u16()?, reader.u16()?);
        reader.u8()?;
        Ok(PrepareOk { statement, columns, params, warnings: reader.u16().unwrap_or(0) })
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

//! Results on their way to the client: column definitions, rows and the packet at the end, written straight into the
//! connection's output.
//!
//! What a result's columns look like on the wire is made once per plan and character set of results, and kept with the
//! plan ([`Encoded`]). A row is written value by value from the page into the output; only text in another character set
//! than the client's and TIMESTAMPs take a detour.

use std::borrow::Cow;
use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_exec::{ColumnMeta, ResultColumns, RowCursor, RowList, RowSink, RowView};
use keel_runtime::net::Connection;
use keel_value::collation::{self, Charset};
use keel_value::temporal::named::SharedZone;
use keel_value::types::{Format, flags};
use keel_value::{CollationId, FixedKind, SqlType, TypeKind, ValueRef};
use keel_wire::capability::{Capabilities, Status, type_code};
use keel_wire::codec::{put_lenenc, put_lenenc_bytes};
use keel_wire::reply::{self, Column, Extended};
use keel_wire::{packet, rows};

use crate::upload::Upload;

/// Output is handed to the kernel in pieces of about this size.
const FLUSH_BYTES: usize = 64 * 1024;

/// How one column's values are sent.
struct SendColumn {
    ty: SqlType,
    /// Whether the value goes out as it is.
    plain: bool,
    /// The character set of its text, where that is not the client's.
    from: Option<Charset>,
}

/// The columns of a result as one character set of results shows them.
pub struct Encoded {
    /// Definitions as packets, the first numbered 2.
    packets: Vec<u8>,
    columns: Vec<SendColumn>,
    to: Charset,
}

/// The sequence number of the first definition of a command's first result.
const FIRST_DEFINITION: u8 = 2;

impl Encoded {
    fn new(columns: &[ColumnMeta], results: CollationId, extended: bool) -> Encoded {
        let mut packets = Vec::new();
        let mut sequence = FIRST_DEFINITION;
        for column in columns {
            append_definition(&mut packets, &wire_column(column, results, extended), results, &mut sequence);
        }
        let to = results.charset();
        let columns = columns.iter().map(|column| send_column(&sent_type(column), to)).collect();
        Encoded { packets, columns, to }
    }
}

/// Appends a column's definition, its names in the character set of results.
fn append_definition(out: &mut Vec<u8>, column: &Column, results: CollationId, sequence: &mut u8) {
    let start = packet::begin(out);
    encode_definition(out, column, results);
    packet::finish(out, start, sequence);
}

fn encode_definition(out: &mut Vec<u8>, column: &Column, results: CollationId) {
    column.encode_names(out, |name| in_results(name.as_bytes(), results));
}

/// Text of the server's own in the character set of results.
fn in_results(text: &[u8], results: CollationId) -> Cow<'_, [u8]> {
    match results.charset() {
        Charset::Binary | Charset::Utf8mb3 | Charset::Utf8mb4 => Cow::Borrowed(text),
        to => collation::convert(Charset::Utf8mb4, to, text).0,
    }
}

/// An error's message in the character set of results; a character that it lacks is shown by its number. `None` where the
/// message goes out as it is.
pub fn message_in_results(message: &str, results: CollationId) -> Option<Vec<u8>> {
    let to = results.charset();
    if message.is_ascii() || matches!(to, Charset::Binary | Charset::Utf8mb3 | Charset::Utf8mb4) {
        return None;
    }
    let mut out = Vec::with_capacity(message.len());
    for ch in message.chars() {
        let mut utf8 = [0; 4];
        match collation::convert(Charset::Utf8mb4, to, ch.encode_utf8(&mut utf8).as_bytes()) {
            (bytes, 0) => out.extend_from_slice(&bytes),
            _ => out.extend_from_slice(format!("\\{:04X}", u32::from(ch)).as_bytes()),
        }
    }
    Some(out)
}

/// The type by which a column's values go out.
fn sent_type(column: &ColumnMeta) -> Cow<'_, SqlType> {
    let ty = &column.ty;
    match ty.kind {
        _ if !column.is_plain => Cow::Borrowed(ty),
        // As text in both protocols.
        TypeKind::Bit => Cow::Owned(SqlType::decimal(20, 0)),
        TypeKind::Year => Cow::Owned(SqlType { zerofill: false, ..SqlType::new(TypeKind::SmallInt) }),
        _ => Cow::Owned(SqlType { zerofill: false, ..ty.clone() }),
    }
}

fn send_column(ty: &SqlType, to: Charset) -> SendColumn {
    let from = ty.collation.charset();
    let is_text = ty.is_text() || ty.has_members();
    let converts = is_text && to != Charset::Binary && from != Charset::Binary && !holds(to, from);
    let from = converts.then_some(from);
    SendColumn { ty: ty.clone(), plain: from.is_none() && ty.kind != TypeKind::Timestamp, from }
}

/// Whether all text of `from` is the same bytes in `to`.
fn holds(to: Charset, from: Charset) -> bool {
    to == from || from == Charset::Ascii || (to, from) == (Charset::Utf8mb4, Charset::Utf8mb3)
}

/// A column's definition as results in the collation `results` show it.
pub fn wire_column(column: &ColumnMeta, results: CollationId, extended: bool) -> Column {
    let ty = &column.ty;
    let mut bits = column.flags | ty.wire_flags();
    if !column.nullable {
        bits |= flags::NOT_NULL;
    }
    let is_plain_text = column.is_plain && ty.has_members();
    if is_plain_text {
        bits &= !(flags::ENUM | flags::SET);
    }
    let computed = column.org_name.is_empty();
    if computed {
        bits &= !flags::BLOB;
    } else if ty.is_fixed() {
        bits |= flags::BINARY;
    }
    Column {
        schema: column.schema.to_string(),
        table: column.table.to_string(),
        org_table: column.org_table.to_string(),
        name: column.name.to_string(),
        org_name: column.org_name.to_string(),
        charset: ty.wire_charset(results),
        length: column.length.unwrap_or_else(|| ty.wire_length(results)),
        type_code: match computed {
            _ if is_plain_text => type_code::VAR_STRING,
            true => computed_type(ty),
            false => ty.wire_type(),
        },
        flags: bits,
        decimals: ty.wire_decimals(),
        extended: extended.then(|| extension(ty)),
    }
}

/// What the type code does not tell of a type.
fn extension(ty: &SqlType) -> Extended {
    Extended {
        type_name: FixedKind::of(ty.kind).map_or("", FixedKind::name),
        format: if ty.format == Format::Json { "json" } else { "" },
    }
}

/// The type of a computed column: unlike columns of tables they tell the sizes of the BLOB family apart.
fn computed_type(ty: &SqlType) -> u8 {
    match ty.kind {
        TypeKind::MediumText | TypeKind::MediumBlob => type_code::MEDIUM_BLOB,
        TypeKind::LongText | TypeKind::LongBlob => type_code::LONG_BLOB,
        _ => ty.wire_type(),
    }
}

/// The encoded form of `columns`, kept beside them for each character set's default collation, and for the first other one
/// that a client asks for, each with and without what is extended.
pub fn encoded(columns: &ResultColumns, results: CollationId, capabilities: Capabilities) -> Arc<Encoded> {
    let place = match results.charset() {
        Charset::Binary => 0,
        Charset::Latin1 if results.is_default() => 1,
        Charset::Utf8mb3 if results.is_default() => 2,
        Charset::Utf8mb4 if results.is_default() => 3,
        _ => 4,
    };
    let extended = capabilities.has(Capabilities::EXTENDED_METADATA);
    let make = || Arc::new(Encoded::new(&columns.columns, results, extended));
    let kept = columns.encoded[2 * place + usize::from(extended)].get_or_init(|| Box::new((results, make())));
    let (collation, encoded) =
        kept.downcast_ref::<(CollationId, Arc<Encoded>)>().expect("only this protocol keeps results here");
    if *collation == results { encoded.clone() } else { make() }
}

/// Appends the definitions of `columns`, as COM_STMT_PREPARE and results have them.
pub fn append_definitions(out: &mut Vec<u8>, encoded: &Encoded, sequence: &mut u8) {
    let start = out.len();
    out.extend_from_slice(&encoded.packets);
    if *sequence == FIRST_DEFINITION {
        *sequence = FIRST_DEFINITION.wrapping_add(encoded.columns.len() as u8);
    } else {
        packet::restamp(&mut out[start..], sequence);
    }
}

/// How results are sent to one client.
#[derive(Clone)]
pub struct Manner {
    /// What the client can do.
    pub capabilities: Capabilities,
    /// Binary rows.
    pub binary: bool,
    /// `character_set_results`.
    pub results: CollationId,
    /// `time_zone`.
    pub zone: SharedZone,
    /// Status of the packet after the columns.
    pub status: Status,
    /// The columns that the client knows already.
    pub known: Option<Arc<ResultColumns>>,
}

/// A result being sent.
pub struct ResultSink<'a> {
    conn: &'a mut Connection,
    sequence: &'a mut u8,
    manner: Manner,
    columns: Option<Arc<ResultColumns>>,
    encoded: Option<Arc<Encoded>>,
    /// Text on its way from one character set to another.
    scratch: Vec<u8>,
    upload: Upload,
    /// Octets that the kernel was given on the way.
    pub bytes_sent: u64,
}

impl<'a> ResultSink<'a> {
    /// A result that has not begun.
    pub fn new(conn: &'a mut Connection, sequence: &'a mut u8, manner: Manner) -> ResultSink<'a> {
        ResultSink {
            conn,
            sequence,
            manner,
            columns: None,
            encoded: None,
            scratch: Vec::new(),
            upload: Upload::default(),
            bytes_sent: 0,
        }
    }

    /// Takes in what is left of a file that the client sends, so that its next command is understood: piece by piece,
    /// and all of it away. False where the connection is of no more use.
    pub fn end_upload(&mut self) -> bool {
        let mut piece = Vec::new();
        loop {
            match self.upload.read(self.conn, self.sequence, &mut piece) {
                Ok(true) => piece.clear(),
                Ok(false) => return true,
                Err(_) => return false,
            }
        }
    }

    /// The columns, where the result has begun.
    pub fn into_columns(self) -> Option<Arc<ResultColumns>> {
        self.columns
    }
}

impl RowSink for ResultSink<'_> {
    fn columns(&mut self, columns: &Arc<ResultColumns>) -> SqlResult<()> {
        let encoded = encoded(columns, self.manner.results, self.manner.capabilities);
        let capabilities = self.manner.capabilities;
        let cached = capabilities.has(Capabilities::CACHE_METADATA);
        let known = cached && self.manner.known.as_ref().is_some_and(|known| Arc::ptr_eq(known, columns));
        let out = self.conn.output();
        let start = packet::begin(out);
        put_lenenc(out, encoded.columns.len() as u64);
        if cached {
            out.push(u8::from(!known));
        }
        packet::finish(out, start, self.sequence);
        if !known {
            append_definitions(out, &encoded, self.sequence);
        }
        if !capabilities.has(Capabilities::DEPRECATE_EOF) {
            reply::append_eof(out, 0, self.manner.status, self.sequence);
        }
        self.columns = Some(columns.clone());
        self.encoded = Some(encoded);
        Ok(())
    }

    #[inline]
    fn row(&mut self, row: RowView<'_>) -> SqlResult<()> {
        let Some(encoded) = &self.encoded else { return Err(no_columns()) };
        let out = self.conn.output();
        let start = packet::begin(out);
        encode_row(out, encoded, &self.manner, &mut self.scratch, row);
        packet::finish(out, start, self.sequence);
        Ok(())
    }

    fn breathe(&mut self) -> SqlResult<()> {
        if self.conn.output().len() < FLUSH_BYTES {
            return Ok(());
        }
        self.bytes_sent += self.conn.output().len() as u64;
        self.conn.flush().map_err(|_| client_gone())
    }

    fn request_file(&mut self, name: &[u8]) -> SqlResult<()> {
        if !self.manner.capabilities.has(Capabilities::LOCAL_FILES) {
            return Err(errors::load_infile_capability_disabled());
        }
        let out = self.conn.output();
        let start = packet::begin(out);
        out.push(reply::mark::LOCAL_INFILE);
        out.extend_from_slice(name);
        packet::finish(out, start, self.sequence);
        self.bytes_sent += out.len() as u64;
        self.upload.begin(!self.manner.capabilities.has(Capabilities::COMPRESS));
        self.conn.flush().map_err(|_| client_gone())
    }

    fn read_file(&mut self, out: &mut Vec<u8>) -> SqlResult<bool> {
        self.upload.read(self.conn, self.sequence, out)
    }
}

/// Appends a row's payload.
#[inline]
fn encode_row(
    out: &mut Vec<u8>,
    encoded: &Encoded,
    manner: &Manner,
    scratch: &mut Vec<u8>,
    row: RowView<'_>,
) {
    // The executor gives values in the session's zone; stored rows hold UTC.
    let zone = if matches!(row, RowView::Stored { .. }) { Some(&manner.zone) } else { None };
    if manner.binary {
        let bitmap = rows::begin_binary(out, encoded.columns.len());
        row.for_each(|index, value| {
            let column = &encoded.columns[index];
            if column.plain {
                return rows::put_binary(out, bitmap, index, &column.ty, value);
            }
            detour(column, encoded.to, zone, scratch, value, |ty, value| {
                rows::put_binary(out, bitmap, index, ty, value);
            });
        });
    } else {
        row.for_each(|index, value| {
            let column = &encoded.columns[index];
            if column.plain {
                return rows::put_text(out, &column.ty, value);
            }
            detour(column, encoded.to, zone, scratch, value, |ty, value| rows::put_text(out, ty, value));
        });
    }
}

/// A result that is kept for a cursor.
pub struct CursorSink {
    manner: Manner,
    columns: Option<(Arc<ResultColumns>, Arc<Encoded>)>,
    scratch: Vec<u8>,
    rows: RowList,
}

impl CursorSink {
    /// A result that has not begun; `rows` will hold its rows.
    pub fn new(manner: Manner, rows: RowList) -> CursorSink {
        CursorSink { manner, columns: None, scratch: Vec::new(), rows }
    }

    /// The columns and all rows, where the statement had a result.
    pub fn into_result(self) -> SqlResult<Option<(Arc<ResultColumns>, RowCursor)>> {
        let Some((columns, _)) = self.columns else { return Ok(None) };
        Ok(Some((columns, self.rows.finish()?)))
    }
}

impl RowSink for CursorSink {
    fn columns(&mut self, columns: &Arc<ResultColumns>) -> SqlResult<()> {
        self.columns =
            Some((columns.clone(), encoded(columns, self.manner.results, self.manner.capabilities)));
        Ok(())
    }

    fn row(&mut self, row: RowView<'_>) -> SqlResult<()> {
        let Some((_, encoded)) = &self.columns else { return Err(no_columns()) };
        let (manner, scratch) = (&self.manner, &mut self.scratch);
        self.rows.push_now(|out| encode_row(out, encoded, manner, scratch, row));
        Ok(())
    }

    fn breathe(&mut self) -> SqlResult<()> {
        self.rows.settle()
    }
}

/// Sends a value that does not go out as it is stored.
fn detour(
    column: &SendColumn,
    to: Charset,
    zone: Option<&SharedZone>,
    scratch: &mut Vec<u8>,
    value: ValueRef<'_>,
    send: impl FnOnce(&SqlType, ValueRef<'_>),
) {
    match (value, column.from) {
        (ValueRef::DateTime(utc), None) => {
            let Some(zone) = zone else { return send(&column.ty, value) };
            let local = keel_value::convert::timestamp_to_local(utc, &**zone);
            send(&column.ty, ValueRef::DateTime(local));
        }
        (ValueRef::Bytes(bytes), Some(from)) if !bytes.is_ascii() => {
            let (converted, _) = collation::convert(from, to, bytes);
            send(&column.ty, ValueRef::Bytes(&converted));
        }
        (ValueRef::UInt(_), Some(from)) if column.ty.has_members() => {
            scratch.clear();
            keel_value::text::append(scratch, &column.ty, value);
            let (converted, _) = collation::convert(from, to, scratch);
            send(&column.ty, ValueRef::Bytes(&converted));
        }
        _ => send(&column.ty, value),
    }
}

#[cold]
fn no_columns() -> SqlError {
    errors::unknown_error("a row came before its columns")
}

/// The client is gone; nobody will read this.
#[cold]
fn client_gone() -> SqlError {
    errors::query_interrupted()
}

/// A column definition of COM_FIELD_LIST: with the column's default behind it.
pub fn append_field(
    out: &mut Vec<u8>,
    column: &Column,
    default: Option<&[u8]>,
    results: CollationId,
    sequence: &mut u8,
) {
    let start = packet::begin(out);
    encode_definition(out, column, results);
    match default {
        Some(text) => put_lenenc_bytes(out, &in_results(text, results)),
        None => out.push(keel_wire::codec::NULL_MARK),
    }
    packet::finish(out, start, sequence);
}

//! One event of any kind.

use crate::bytes::{Input, Output};
use crate::control::{
    BinlogCheckpoint, Heartbeat, Incident, Rotate, StartEncryption, StartV3, XaPrepare, decode_checkpoint,
};
use crate::error::{Error, Result};
use crate::format::{Format, FormatDescription};
use crate::gtid::event::{GtidEvent, GtidListEvent};
use crate::header::{HEADER_BYTES, Header, kind};
use crate::load::{Block, ExecuteLoadQuery};
use crate::query::Query;
use crate::rows::Rows;
use crate::session::{Intvar, Rand, UserVar};
use crate::table_map::TableMap;

/// An event without its header. Text and rows are borrowed from the decoded bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// The first event of files before version 4.
    StartV3(StartV3<'a>),
    /// The first event of a file.
    FormatDescription(FormatDescription<'a>),
    /// A statement.
    Query(Query<'a>),
    /// The server stopped.
    Stop,
    /// The next file.
    Rotate(Rotate<'a>),
    /// A value of AUTO_INCREMENT or LAST_INSERT_ID for the next statement.
    Intvar(Intvar),
    /// Seeds of RAND() for the next statement.
    Rand(Rand),
    /// A user variable for the next statement.
    UserVar(UserVar<'a>),
    /// The end of a transaction.
    Xid(u64),
    /// A prepared transaction, or the end of a one-phase one.
    XaPrepare(XaPrepare<'a>),
    /// The table of the row events that follow.
    TableMap(TableMap<'a>),
    /// Changed rows.
    Rows(Rows<'a>),
    /// The text of the statement whose row events follow.
    AnnotateRows(&'a [u8]),
    /// The oldest file that crash recovery of the source needs.
    BinlogCheckpoint(BinlogCheckpoint<'a>),
    /// The start of a group.
    Gtid(GtidEvent<'a>),
    /// The state of the binary log at the start of this file.
    GtidList(GtidListEvent),
    /// The rest of the file is encrypted.
    StartEncryption(StartEncryption),
    /// The source is alive and has nothing to send.
    Heartbeat(Heartbeat<'a>),
    /// The log lacks something.
    Incident(Incident<'a>),
    /// The first piece of a file that LOAD DATA reads.
    BeginLoadQuery(Block<'a>),
    /// A further piece.
    AppendBlock(Block<'a>),
    /// The LOAD DATA of those pieces.
    ExecuteLoadQuery(ExecuteLoadQuery<'a>),
    /// The pieces of the file with this number are not needed.
    DeleteFile(u32),
    /// The LOAD DATA of servers before 5.0 with this number.
    ExecLoad(u32),
    /// Any other kind: the LOAD family of servers before 5.0, kinds that only MySQL writes, and unknown
    /// kinds.
    Other {
        /// Its number.
        kind: u8,
        /// Its bytes.
        body: &'a [u8],
    },
}

impl<'a> Event<'a> {
    /// Decodes the body of an event; `body` excludes the checksum.
    pub fn decode(header: &Header, body: &'a [u8], format: &Format) -> Result<Event<'a>> {
        if has_fixed_part(header.kind) {
            format.check_post_header(header.kind)?;
        }
        let mut input = Input::new(body, HEADER_BYTES);
        let event = Event::decode_kind(header, &mut input)?;
        input.end()?;
        Ok(event)
    }

    fn decode_kind(header: &Header, input: &mut Input<'a>) -> Result<Event<'a>> {
        Ok(match header.kind {
            kind::START_V3 => Event::StartV3(StartV3::decode(input)?),
            kind::FORMAT_DESCRIPTION => Event::FormatDescription(FormatDescription::decode(input)?),
            kind::QUERY => Event::Query(Query::decode(input, false)?),
            kind::QUERY_COMPRESSED => Event::Query(Query::decode(input, true)?),
            kind::STOP => Event::Stop,
            kind::ROTATE => Event::Rotate(Rotate::decode(input)?),
            kind::INTVAR => Event::Intvar(Intvar::decode(input)?),
            kind::RAND => Event::Rand(Rand::decode(input)?),
            kind::USER_VAR => Event::UserVar(UserVar::decode(input)?),
            kind::XID => Event::Xid(input.u64()?),
            kind::XA_PREPARE => Event::XaPrepare(XaPrepare::decode(input)?),
            kind::TABLE_MAP => Event::TableMap(TableMap::decode(input)?),
            kind::ANNOTATE_ROWS => Event::AnnotateRows(input.rest()),
            kind::BINLOG_CHECKPOINT => Event::BinlogCheckpoint(decode_checkpoint(input)?),
            kind::GTID => Event::Gtid(GtidEvent::decode(input)?),
            kind::GTID_LIST => Event::GtidList(GtidListEvent::decode(input)?),
            kind::START_ENCRYPTION => Event::StartEncryption(StartEncryption::decode(input)?),
            kind::HEARTBEAT => Event::Heartbeat(Heartbeat::decode(input, header.end_position)?),
            kind::INCIDENT => Event::Incident(Incident::decode(input)?),
            kind::BEGIN_LOAD_QUERY => Event::BeginLoadQuery(Block::decode(input)?),
            kind::APPEND_BLOCK => Event::AppendBlock(Block::decode(input)?),
            kind::EXECUTE_LOAD_QUERY => Event::ExecuteLoadQuery(ExecuteLoadQuery::decode(input)?),
            kind::DELETE_FILE => Event::DeleteFile(input.u32()?),
            kind::EXEC_LOAD => Event::ExecLoad(input.u32()?),
            number => match Rows::shape_of(number) {
                Some(shape) => Event::Rows(Rows::decode(input, shape)?),
                None => Event::Other { kind: number, body: input.rest() },
            },
        })
    }

    /// The number of its kind.
    pub fn kind(&self) -> u8 {
        match self {
            Event::StartV3(_) => kind::START_V3,
            Event::FormatDescription(_) => kind::FORMAT_DESCRIPTION,
            Event::Query(query) if query.compressed => kind::QUERY_COMPRESSED,
            Event::Query(_) => kind::QUERY,
            Event::Stop => kind::STOP,
            Event::Rotate(_) => kind::ROTATE,
            Event::Intvar(_) => kind::INTVAR,
            Event::Rand(_) => kind::RAND,
            Event::UserVar(_) => kind::USER_VAR,
            Event::Xid(_) => kind::XID,
            Event::XaPrepare(_) => kind::XA_PREPARE,
            Event::TableMap(_) => kind::TABLE_MAP,
            Event::Rows(rows) => rows.shape.kind(),
            Event::AnnotateRows(_) => kind::ANNOTATE_ROWS,
            Event::BinlogCheckpoint(_) => kind::BINLOG_CHECKPOINT,
            Event::Gtid(_) => kind::GTID,
            Event::GtidList(_) => kind::GTID_LIST,
            Event::StartEncryption(_) => kind::START_ENCRYPTION,
            Event::Heartbeat(_) => kind::HEARTBEAT,
            Event::Incident(_) => kind::INCIDENT,
            Event::BeginLoadQuery(_) => kind::BEGIN_LOAD_QUERY,
            Event::AppendBlock(_) => kind::APPEND_BLOCK,
            Event::ExecuteLoadQuery(_) => kind::EXECUTE_LOAD_QUERY,
            Event::DeleteFile(_) => kind::DELETE_FILE,
            Event::ExecLoad(_) => kind::EXEC_LOAD,
            Event::Other { kind, .. } => *kind,
        }
    }

    /// Appends the body as 10.11 writes it. Fails if a value does not fit its field. After an error `out` may
    /// hold a part of the body.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Event::StartV3(event) => event.encode(out),
            Event::FormatDescription(event) => event.encode(out),
            Event::Query(event) => event.encode(out)?,
            Event::Stop => {}
            Event::Rotate(event) => event.encode(out),
            Event::Intvar(event) => event.encode(out),
            Event::Rand(event) => event.encode(out),
            Event::UserVar(event) => event.encode(out)?,
            Event::Xid(xid) => out.put_uint(*xid, 8),
            Event::XaPrepare(event) => event.encode(out)?,
            Event::TableMap(event) => event.encode(out)?,
            Event::Rows(event) => event.encode(out)?,
            Event::AnnotateRows(text) => out.put(text),
            Event::BinlogCheckpoint(event) => out.put_long_bytes(event.file, "the name of a log file")?,
            Event::Gtid(event) => event.encode(out)?,
            Event::GtidList(event) => event.encode(out)?,
            Event::StartEncryption(event) => event.encode(out),
            Event::Heartbeat(event) => event.encode(out),
            Event::Incident(event) => event.encode(out)?,
            Event::BeginLoadQuery(event) | Event::AppendBlock(event) => event.encode(out),
            Event::ExecuteLoadQuery(event) => event.encode(out)?,
            Event::DeleteFile(number) | Event::ExecLoad(number) => out.put_uint((*number).into(), 4),
            Event::Other { kind, body } => {
                if is_known(*kind) {
                    return Err(Error::invalid(out.len(), "kind of an opaque event"));
                }
                out.put(body);
            }
        }
        Ok(())
    }
}

/// Whether an event of this kind has a form of its own here.
fn is_known(number: u8) -> bool {
    use kind::*;
    let opaque = matches!(number, 0 | LOAD | 7 | CREATE_FILE | NEW_LOAD | 20..=22 | IGNORABLE | ROWS_QUERY);
    !opaque
        && (number <= DELETE_ROWS
            || number == XA_PREPARE
            || (ANNOTATE_ROWS..=DELETE_ROWS_COMPRESSED).contains(&number))
}

/// Whether the reader of this kind depends on the length of its fixed part.
fn has_fixed_part(number: u8) -> bool {
    is_known(number) && !matches!(number, kind::START_V3 | kind::FORMAT_DESCRIPTION)
}

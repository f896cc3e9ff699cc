//! The 19-byte header of every event, and the checksum.
//!
//! ```text
//! timestamp u32 | kind u8 | server id u32 | length u32 | end position u32 | flags u16 | body | [crc32 u32]
//! ```
//! The length includes the checksum. The end position is that of the event in its file, modulo 2^32.
//! Artificial events, heartbeats and events in a transaction's cache may have another position or 0.

use crate::bytes::{Input, Output};
use crate::error::{Error, Problem, Result};
use crate::event::Event;
use crate::format::{Checksum, Format};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 19;

/// Bytes of a checksum.
pub const CHECKSUM_BYTES: usize = 4;

/// Bits of a header's flags.
pub mod flags {
    /// The file was not closed; only in the Format_description event, and not counted by its checksum.
    pub const IN_USE: u16 = 0x1;
    /// The statement depends on its session, for example because it uses a temporary table.
    pub const THREAD_SPECIFIC: u16 = 0x4;
    /// The default database does not matter to the statement.
    pub const SUPPRESS_USE: u16 = 0x8;
    /// A source made it for its replica; the source's files do not have it.
    pub const ARTIFICIAL: u16 = 0x20;
    /// A replica's I/O thread made it.
    pub const RELAY_LOG: u16 = 0x40;
    /// A reader that does not know the kind may skip the event.
    pub const IGNORABLE: u16 = 0x80;
    /// Filters do not apply.
    pub const NO_FILTER: u16 = 0x100;
    /// A parallel applier must run it alone.
    pub const MTS_ISOLATE: u16 = 0x200;
    /// Written under `skip_replication=1`.
    pub const SKIP_REPLICATION: u16 = 0x8000;
}

/// The kinds of events, by their numbers in a header.
pub mod kind {
    #![allow(missing_docs)]
    pub const START_V3: u8 = 1;
    pub const QUERY: u8 = 2;
    pub const STOP: u8 = 3;
    pub const ROTATE: u8 = 4;
    pub const INTVAR: u8 = 5;
    pub const LOAD: u8 = 6;
    pub const CREATE_FILE: u8 = 8;
    pub const APPEND_BLOCK: u8 = 9;
    pub const EXEC_LOAD: u8 = 10;
    pub const DELETE_FILE: u8 = 11;
    pub const NEW_LOAD: u8 = 12;
    pub const RAND: u8 = 13;
    pub const USER_VAR: u8 = 14;
    pub const FORMAT_DESCRIPTION: u8 = 15;
    pub const XID: u8 = 16;
    pub const BEGIN_LOAD_QUERY: u8 = 17;
    pub const EXECUTE_LOAD_QUERY: u8 = 18;
    pub const TABLE_MAP: u8 = 19;
    pub const WRITE_ROWS_V1: u8 = 23;
    pub const UPDATE_ROWS_V1: u8 = 24;
    pub const DELETE_ROWS_V1: u8 = 25;
    pub const INCIDENT: u8 = 26;
    pub const HEARTBEAT: u8 = 27;
    pub const IGNORABLE: u8 = 28;
    pub const ROWS_QUERY: u8 = 29;
    pub const WRITE_ROWS: u8 = 30;
    pub const UPDATE_ROWS: u8 = 31;
    pub const DELETE_ROWS: u8 = 32;
    pub const XA_PREPARE: u8 = 38;
    pub const ANNOTATE_ROWS: u8 = 160;
    pub const BINLOG_CHECKPOINT: u8 = 161;
    pub const GTID: u8 = 162;
    pub const GTID_LIST: u8 = 163;
    pub const START_ENCRYPTION: u8 = 164;
    pub const QUERY_COMPRESSED: u8 = 165;
    pub const WRITE_ROWS_COMPRESSED_V1: u8 = 166;
    pub const UPDATE_ROWS_COMPRESSED_V1: u8 = 167;
    pub const DELETE_ROWS_COMPRESSED_V1: u8 = 168;
    pub const WRITE_ROWS_COMPRESSED: u8 = 169;
    pub const UPDATE_ROWS_COMPRESSED: u8 = 170;
    pub const DELETE_ROWS_COMPRESSED: u8 = 171;
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// When the statement began, in seconds since 1970.
    pub timestamp: u32,
    /// One of [`kind`], or a number that is unknown here.
    pub kind: u8,
    /// The server on which the event arose.
    pub server_id: u32,
    /// Length of the whole event. [`append`] ignores it and computes the length.
    pub length: u32,
    /// End position of the event in its file.
    pub end_position: u32,
    /// Bits of [`flags`].
    pub flags: u16,
}

impl Header {
    /// Reads the header at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Header> {
        let mut input = Input::new(bytes, 0);
        Ok(Header {
            timestamp: input.u32()?,
            kind: input.u8()?,
            server_id: input.u32()?,
            length: input.u32()?,
            end_position: input.u32()?,
            flags: input.u16()?,
        })
    }

    /// Appends the 19 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_uint(self.timestamp.into(), 4);
        out.push(self.kind);
        out.put_uint(self.server_id.into(), 4);
        out.put_uint(self.length.into(), 4);
        out.put_uint(self.end_position.into(), 4);
        out.put_uint(self.flags.into(), 2);
    }
}

/// An event whose body is not decoded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The header.
    pub header: Header,
    /// Between header and checksum.
    pub body: &'a [u8],
    /// The checksum, if the event has one.
    pub checksum: Option<u32>,
}

impl<'a> Frame<'a> {
    /// Splits `bytes`, which must be one whole event, and verifies the checksum.
    pub fn decode(bytes: &'a [u8], format: &Format) -> Result<Frame<'a>> {
        let frame = Frame::split(bytes, format)?;
        if let Some(stored) = frame.checksum {
            let computed = checksum_of(&bytes[..bytes.len() - CHECKSUM_BYTES]);
            if stored != computed {
                let problem = Problem::Checksum { stored, computed };
                return Err(Error::new(bytes.len() - CHECKSUM_BYTES, problem));
            }
        }
        Ok(frame)
    }

    /// Splits `bytes`, which must be one whole event, without verifying the checksum.
    pub fn split(bytes: &'a [u8], format: &Format) -> Result<Frame<'a>> {
        let header = Header::decode(bytes)?;
        let length = header.length as usize;
        if length < HEADER_BYTES {
            return Err(Error::invalid(9, "event length"));
        }
        if length > bytes.len() {
            let problem = Problem::Truncated { needed: length as u64, left: bytes.len() as u64 };
            return Err(Error::new(0, problem));
        }
        if length < bytes.len() {
            return Err(Error::new(length, Problem::Trailing((bytes.len() - length) as u64)));
        }
        let body = &bytes[HEADER_BYTES..];
        if !format.has_checksum(header.kind, body) {
            return Ok(Frame { header, body, checksum: None });
        }
        let Some((body, stored)) = body.split_last_chunk::<CHECKSUM_BYTES>() else {
            let problem = Problem::Truncated { needed: CHECKSUM_BYTES as u64, left: body.len() as u64 };
            return Err(Error::new(HEADER_BYTES, problem));
        };
        Ok(Frame { header, body, checksum: Some(u32::from_le_bytes(*stored)) })
    }

    /// Reads the body.
    pub fn event(&self, format: &Format) -> Result<Event<'a>> {
        Event::decode(&self.header, self.body, format)
    }
}

/// Computes the checksum of an event; `event` excludes the checksum itself. The flag [`flags::IN_USE`] of a
/// Format_description event counts as unset.
pub fn checksum_of(event: &[u8]) -> u32 {
    const FLAGS_AT: usize = HEADER_BYTES - 2;
    let mut hasher = crc32fast::Hasher::new();
    let masked = event.len() > FLAGS_AT
        && event[4] == kind::FORMAT_DESCRIPTION
        && event[FLAGS_AT] & flags::IN_USE as u8 != 0;
    if masked {
        hasher.update(&event[..FLAGS_AT]);
        hasher.update(&[event[FLAGS_AT] & !(flags::IN_USE as u8)]);
        hasher.update(&event[FLAGS_AT + 1..]);
    } else {
        hasher.update(event);
    }
    hasher.finalize()
}

/// Appends a whole event. Kind and length come from `event`, the other header fields from `header`. A
/// Format_description event with a checksum field always gets a checksum.
pub fn append(out: &mut Vec<u8>, header: Header, event: &Event<'_>, checksum: Checksum) -> Result<()> {
    append_ending(out, header, event, checksum, End::At(header.end_position)).map(|_| ())
}

/// The end position that goes into a header.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// A given position.
    At(u32),
    /// The end of an event that starts at this position.
    From(u64),
}

/// [`append`] with an end position that may depend on the event's length. Returns the length.
pub(crate) fn append_ending(
    out: &mut Vec<u8>,
    header: Header,
    event: &Event<'_>,
    checksum: Checksum,
    end: End,
) -> Result<u32> {
    let start = out.len();
    Header { kind: event.kind(), ..header }.encode(out);
    let checked = match event {
        Event::FormatDescription(description) => description.checksum.is_some(),
        _ => checksum == Checksum::Crc32,
    };
    let written = event.encode(out).and_then(|()| finish(out, start, end, checked));
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// Appends an encoded event without checksum. Sets its length and position and adds the checksum. Returns its
/// length.
pub(crate) fn append_finished(out: &mut Vec<u8>, event: &[u8], checksum: Checksum, end: End) -> Result<u32> {
    let start = out.len();
    if event.len() < HEADER_BYTES {
        let problem = Problem::Truncated { needed: HEADER_BYTES as u64, left: event.len() as u64 };
        return Err(Error::new(0, problem));
    }
    out.put(event);
    let written = finish(out, start, end, checksum == Checksum::Crc32);
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// Writes length and position into the event that starts at `start`, and appends its checksum.
fn finish(out: &mut Vec<u8>, start: usize, end: End, checked: bool) -> Result<u32> {
    let length = out.len() - start + if checked { CHECKSUM_BYTES } else { 0 };
    let Ok(length) = u32::try_from(length) else {
        return Err(Error::no_room(start, "the length of an event"));
    };
    let end = match end {
        End::At(position) => position,
        End::From(position) => position.wrapping_add(length.into()) as u32,
    };
    out[start + 9..start + 13].copy_from_slice(&length.to_le_bytes());
    out[start + 13..start + 17].copy_from_slice(&end.to_le_bytes());
    if checked {
        let checksum = checksum_of(&out[start..]);
        out.put_uint(checksum.into(), CHECKSUM_BYTES);
    }
    Ok(length)
}

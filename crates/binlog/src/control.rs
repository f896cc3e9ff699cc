//! Events about the log itself, and XA_prepare events.

use crate::bytes::{Input, Output};
use crate::error::{Error, Problem, Result};
use crate::format::VERSION_BYTES;

/// The first event of a file before version 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartV3<'a> {
    /// Of the log, 1 to 3.
    pub log_version: u16,
    /// Of the server, 50 bytes.
    pub server_version: &'a [u8; VERSION_BYTES],
    /// When the server started.
    pub created: u32,
}

impl<'a> StartV3<'a> {
    pub(crate) fn decode(input: &mut Input<'a>) -> Result<StartV3<'a>> {
        let log_version = input.u16()?;
        let at = input.offset();
        let Some(server_version) = input.take(VERSION_BYTES)?.first_chunk() else {
            return Err(Error::invalid(at, "server version"));
        };
        Ok(StartV3 { log_version, server_version, created: input.u32()? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_uint(self.log_version.into(), 2);
        out.put(self.server_version);
        out.put_uint(self.created.into(), 4);
    }
}

/// A Rotate event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotate<'a> {
    /// Position in the next file, usually 4.
    pub position: u64,
    /// The name of the next file.
    pub file: &'a [u8],
}

impl<'a> Rotate<'a> {
    pub(crate) fn decode(input: &mut Input<'a>) -> Result<Rotate<'a>> {
        Ok(Rotate { position: input.u64()?, file: input.rest() })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_uint(self.position, 8);
        out.put(self.file);
    }
}

/// A Binlog_checkpoint event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinlogCheckpoint<'a> {
    /// The oldest file that recovery needs.
    pub file: &'a [u8],
}

pub(crate) fn decode_checkpoint<'a>(input: &mut Input<'a>) -> Result<BinlogCheckpoint<'a>> {
    Ok(BinlogCheckpoint { file: input.long_bytes()? })
}

/// A Start_encryption event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartEncryption {
    /// Always 1.
    pub scheme: u8,
    /// Version of the key.
    pub key_version: u32,
    /// Of the file.
    pub nonce: [u8; 12],
}

impl StartEncryption {
    pub(crate) fn decode(input: &mut Input<'_>) -> Result<StartEncryption> {
        Ok(StartEncryption { scheme: input.u8()?, key_version: input.u32()?, nonce: input.array()? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.scheme);
        out.put_uint(self.key_version.into(), 4);
        out.put(&self.nonce);
    }
}

/// A Heartbeat event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat<'a> {
    /// The source's position, if it has no room in the header: then the header has 0.
    pub position: Option<u64>,
    /// The source's file.
    pub file: &'a [u8],
}

impl<'a> Heartbeat<'a> {
    pub(crate) fn decode(input: &mut Input<'a>, end_position: u32) -> Result<Heartbeat<'a>> {
        let position = if end_position == 0 { Some(input.u64()?) } else { None };
        Ok(Heartbeat { position, file: input.rest() })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.position.iter().for_each(|v| out.put_uint(*v, 8));
        out.put(self.file);
    }
}

/// An Incident event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incident<'a> {
    /// 1: events are lost.
    pub incident: u16,
    /// Description by the source.
    pub message: &'a [u8],
}

impl<'a> Incident<'a> {
    pub(crate) fn decode(input: &mut Input<'a>) -> Result<Incident<'a>> {
        Ok(Incident { incident: input.u16()?, message: input.short_bytes()? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_uint(self.incident.into(), 2);
        out.put_short_bytes(self.message, "the message of an incident")
    }
}

/// The name of an XA transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xid<'a> {
    /// Number of the format.
    pub format_id: u32,
    /// The global part, 64 bytes at most.
    pub global: &'a [u8],
    /// The branch, 64 bytes at most.
    pub branch: &'a [u8],
}

/// The longest part of an XA transaction's name.
pub const XID_PART_MAX: usize = 64;

impl<'a> Xid<'a> {
    /// Reads both parts behind their lengths.
    pub(crate) fn decode_parts(
        input: &mut Input<'a>,
        format_id: u32,
        global: u32,
        branch: u32,
        at: usize,
    ) -> Result<Xid<'a>> {
        if global as usize > XID_PART_MAX || branch as usize > XID_PART_MAX {
            return Err(Error::invalid(at, "length of an XA name"));
        }
        Ok(Xid { format_id, global: input.take(global as usize)?, branch: input.take(branch as usize)? })
    }

    pub(crate) fn check(&self, at: usize) -> Result<()> {
        let fits = self.global.len() <= XID_PART_MAX && self.branch.len() <= XID_PART_MAX;
        if fits { Ok(()) } else { Err(Error::new(at, Problem::NoRoom("the name of an XA transaction"))) }
    }
}

/// An XA_prepare event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XaPrepare<'a> {
    /// Whether it is XA COMMIT ... ONE PHASE.
    pub one_phase: bool,
    /// The transaction.
    pub xid: Xid<'a>,
}

impl<'a> XaPrepare<'a> {
    pub(crate) fn decode(input: &mut Input<'a>) -> Result<XaPrepare<'a>> {
        let at = input.offset();
        let one_phase = match input.u8()? {
            0 => false,
            1 => true,
            _ => return Err(Error::invalid(at, "mark of one phase")),
        };
        let (format_id, at) = (input.u32()?, input.offset());
        let (global, branch) = (input.u32()?, input.u32()?);
        Ok(XaPrepare { one_phase, xid: Xid::decode_parts(input, format_id, global, branch, at)? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        self.xid.check(out.len())?;
        out.push(self.one_phase.into());
        out.put_uint(self.xid.format_id.into(), 4);
        out.put_uint(self.xid.global.len() as u64, 4);
        out.put_uint(self.xid.branch.len() as u64, 4);
        out.put(self.xid.global);
        out.put(self.xid.branch);
        Ok(())
    }
}

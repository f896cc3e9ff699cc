//! Gtid and Gtid_list events.
//!
//! ```text
//! Gtid:      seq u64 | domain u32 | flags u8 | [commit id u64] | [format u32 | lengths of the XA name u8 u8 | name]
//!            | [extra flags u8 | [engines u8] | [seq of START ALTER u64]] | zeros
//! Gtid_list: count, 28 bits, and flags, 4 bits | count times: domain u32 | server u32 | seq u64 | two zeros if count is 0
//! ```
//! The body of a Gtid event has at least 19 bytes. The header has the server id.

use super::Gtid;
use crate::bytes::{Input, Output};
use crate::control::Xid;
use crate::error::{Error, Problem, Result};
use crate::header::Header;

/// The least length of a Gtid event's body.
pub const GTID_BYTES: usize = 19;

/// Bits of [`GtidEvent::flags`].
pub mod flags {
    /// The group is a single statement without a COMMIT event.
    pub const STANDALONE: u8 = 0x01;
    /// The event has a commit id.
    pub const GROUP_COMMIT_ID: u8 = 0x02;
    /// The group can be rolled back.
    pub const TRANSACTIONAL: u8 = 0x04;
    /// The group may run in parallel with others.
    pub const ALLOW_PARALLEL: u8 = 0x08;
    /// The transaction waited for a row lock.
    pub const WAITED: u8 = 0x10;
    /// A definition.
    pub const DDL: u8 = 0x20;
    /// XA PREPARE; the event has the name.
    pub const PREPARED_XA: u8 = 0x40;
    /// XA COMMIT or ROLLBACK of a prepared one; the event has the name.
    pub const COMPLETED_XA: u8 = 0x80;
}

/// Bits of [`GtidEvent::extra`].
pub mod extra {
    /// More than one engine took part; a byte with their number less one follows.
    pub const MULTI_ENGINE: u8 = 0x01;
    /// The start of an ALTER in two phases.
    pub const START_ALTER: u8 = 0x02;
    /// The end of an ALTER in two phases; the number of its start follows.
    pub const COMMIT_ALTER: u8 = 0x04;
    /// The failure of an ALTER in two phases; the number of its start follows.
    pub const ROLLBACK_ALTER: u8 = 0x08;
}

/// A Gtid event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GtidEvent<'a> {
    /// The number within the domain.
    pub seq: u64,
    /// The domain.
    pub domain: u32,
    /// Bits of [`flags`]. The presence of a commit id and of an XA name must agree with them.
    pub flags: u8,
    /// Equal in groups that committed together.
    pub commit_id: Option<u64>,
    /// The XA transaction.
    pub xid: Option<Xid<'a>>,
    /// Bits of [`extra`]; 0 if the event has no such byte. `engines` and `start_alter` must agree with the
    /// bits.
    pub extra: u8,
    /// Engines that took part, less one.
    pub engines: Option<u8>,
    /// Number of the group that started the ALTER, if this group ends it.
    pub start_alter: Option<u64>,
    /// Bytes behind the last known field: padding zeros of 10.11, fields of later versions.
    pub rest: &'a [u8],
}

/// Padding of a short event.
const ZEROS: [u8; GTID_BYTES] = [0; GTID_BYTES];

const XA: u8 = flags::PREPARED_XA | flags::COMPLETED_XA;
const ENDS_ALTER: u8 = extra::COMMIT_ALTER | extra::ROLLBACK_ALTER;

impl<'a> GtidEvent<'a> {
    /// The id; the server id comes from the event's header.
    pub fn gtid(&self, header: &Header) -> Gtid {
        Gtid::new(self.domain, header.server_id, self.seq)
    }

    /// This event with the padding zeros that a short event needs.
    pub fn padded(mut self) -> GtidEvent<'a> {
        self.rest = &[];
        let mut length = 13 + if self.commit_id.is_some() { 8 } else { 0 };
        if let Some(xid) = &self.xid {
            length += 6 + xid.global.len() + xid.branch.len();
        }
        if self.extra != 0 {
            length +=
                1 + usize::from(self.engines.is_some()) + if self.start_alter.is_some() { 8 } else { 0 };
        }
        self.rest = &ZEROS[..GTID_BYTES.saturating_sub(length)];
        self
    }

    pub(crate) fn decode(input: &mut Input<'a>) -> Result<GtidEvent<'a>> {
        let (at, left) = (input.offset(), input.left());
        if left < GTID_BYTES {
            return Err(Error::new(at, Problem::Truncated { needed: GTID_BYTES as u64, left: left as u64 }));
        }
        let (seq, domain, flags) = (input.u64()?, input.u32()?, input.u8()?);
        let commit_id = if flags & flags::GROUP_COMMIT_ID != 0 { Some(input.u64()?) } else { None };
        let mut xid = None;
        if flags & XA != 0 {
            let (format_id, at) = (input.u32()?, input.offset());
            let (global, branch) = (input.u8()?, input.u8()?);
            xid = Some(Xid::decode_parts(input, format_id, global.into(), branch.into(), at)?);
        }
        let mut event = GtidEvent { seq, domain, flags, commit_id, xid, ..GtidEvent::default() };
        if let Some(extra @ 1..) = input.peek().first().copied() {
            event.extra = input.u8()?;
            event.engines = if extra & extra::MULTI_ENGINE != 0 { Some(input.u8()?) } else { None };
            event.start_alter = if extra & ENDS_ALTER != 0 { Some(input.u64()?) } else { None };
        }
        event.rest = input.rest();
        Ok(event)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let agrees = self.commit_id.is_some() == (self.flags & flags::GROUP_COMMIT_ID != 0)
            && self.xid.is_some() == (self.flags & XA != 0)
            && self.engines.is_some() == (self.extra & extra::MULTI_ENGINE != 0)
            && self.start_alter.is_some() == (self.extra & ENDS_ALTER != 0)
            && (self.extra != 0 || self.rest.first().is_none_or(|b| *b == 0));
        if !agrees {
            return Err(Error::invalid(start, "flags of a Gtid event"));
        }
        out.put_uint(self.seq, 8);
        out.put_uint(self.domain.into(), 4);
        out.push(self.flags);
        self.commit_id.iter().for_each(|id| out.put_uint(*id, 8));
        if let Some(xid) = &self.xid {
            xid.check(out.len())?;
            out.put_uint(xid.format_id.into(), 4);
            out.put(&[xid.global.len() as u8, xid.branch.len() as u8]);
            out.put(xid.global);
            out.put(xid.branch);
        }
        if self.extra != 0 {
            out.push(self.extra);
            out.extend(self.engines);
            self.start_alter.iter().for_each(|seq| out.put_uint(*seq, 8));
        }
        out.put(self.rest);
        if out.len() - start < GTID_BYTES {
            return Err(Error::invalid(out.len(), "length of a Gtid event"));
        }
        Ok(())
    }
}

/// A Gtid_list event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GtidListEvent {
    /// Bits of [`GtidListEvent::UNTIL_REACHED`] and [`GtidListEvent::IGN_GTIDS`], 4 at most.
    pub flags: u8,
    /// The ids. Within a domain the last id comes last.
    pub gtids: Vec<Gtid>,
}

impl GtidListEvent {
    /// The source has sent all that START SLAVE UNTIL asked for.
    pub const UNTIL_REACHED: u8 = 1;
    /// The replica's position moves to these ids.
    pub const IGN_GTIDS: u8 = 2;

    /// Bytes of an id.
    const ENTRY_BYTES: usize = 16;

    pub(crate) fn decode(input: &mut Input<'_>) -> Result<GtidListEvent> {
        let word = input.u32()?;
        let (count, flags) = ((word & 0x0fff_ffff) as usize, (word >> 28) as u8);
        let needed = count as u64 * Self::ENTRY_BYTES as u64;
        if needed > input.left() as u64 {
            let problem = Problem::Truncated { needed, left: input.left() as u64 };
            return Err(Error::new(input.offset(), problem));
        }
        let mut gtids = Vec::with_capacity(count);
        for _ in 0..count {
            gtids.push(Gtid { domain: input.u32()?, server: input.u32()?, seq: input.u64()? });
        }
        if count == 0 {
            let at = input.offset();
            if input.u16()? != 0 {
                return Err(Error::invalid(at, "end of an empty Gtid_list"));
            }
        }
        Ok(GtidListEvent { flags, gtids })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.gtids.len() >> 28 != 0 || self.flags >> 4 != 0 {
            return Err(Error::no_room(out.len(), "a list of GTIDs"));
        }
        out.put_uint(self.gtids.len() as u64 | u64::from(self.flags) << 28, 4);
        for gtid in &self.gtids {
            out.put_uint(gtid.domain.into(), 4);
            out.put_uint(gtid.server.into(), 4);
            out.put_uint(gtid.seq, 8);
        }
        if self.gtids.is_empty() {
            out.put(&[0, 0]);
        }
        Ok(())
    }
}

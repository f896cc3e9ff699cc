//! An entry of a leaf as transactions see it: a header that says who wrote it, and the row.
//!
//! ```text
//! 0       1             7                   13
//! flags | trx id (6) | page (4) offset (2) | row bytes, or a reference to overflow pages
//! ```
//!
//! Every tree is versioned alike, so an entry of a secondary index is visible or not by itself. `page` and `offset`
//! name the undo record that made the entry; it holds the version before. Together with the id they are the entry's
//! marker: rollback and purge touch an entry only if it still bears the marker of the record they follow.
//!
//! An entry that is settled has no marker: the one byte of flags, then the row. Everybody sees it, nobody needs a version before it.
//! In memory its writer is [`EVERYBODY`]. Entries of indexes are settled when they are built in one go ([`crate::load`])
//! and when their leaf is full ([`crate::settle`]); an entry that is changed gets a marker again.

use keel_base::TrxId;

use crate::undo::UndoPtr;

/// The row is deleted; the entry stays until purge.
pub(crate) const DELETED: u8 = 1;
/// The row lies in overflow pages, the entry holds the reference.
pub(crate) const OVERFLOW: u8 = 2;
/// There is no version before this one.
pub(crate) const FRESH: u8 = 4;

/// The entry has no marker. Never set in memory.
const SETTLED: u8 = 8;

/// Bytes before the row of an entry with a marker.
pub(crate) const HEADER_BYTES: usize = 13;
/// What stands before the row of a settled entry.
pub(crate) const SETTLED_HEAD: [u8; 1] = [SETTLED | FRESH];
/// Whoever wrote a settled entry. No transaction has this id.
pub(crate) const EVERYBODY: TrxId = TrxId(0);

/// The header of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// DELETED, OVERFLOW, FRESH.
    pub(crate) flags: u8,
    /// Who wrote it.
    pub(crate) trx: TrxId,
    /// The undo record of that write.
    pub(crate) undo: UndoPtr,
}

impl Header {
    /// Whether the row is deleted.
    pub(crate) fn is_deleted(self) -> bool {
        self.flags & DELETED != 0
    }

    /// Whether the row lies in overflow pages.
    pub(crate) fn is_overflow(self) -> bool {
        self.flags & OVERFLOW != 0
    }

    /// Whether there is no version before.
    pub(crate) fn is_fresh(self) -> bool {
        self.flags & FRESH != 0
    }

    /// Its stored form.
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0] = self.flags;
        out[1..7].copy_from_slice(&self.trx.0.to_le_bytes()[..6]);
        out[7..].copy_from_slice(&self.undo.to_bytes());
        out
    }

    /// Splits a leaf's value into header and row. Panics on a value shorter than its header: the page's checksum and the
    /// log vouch for what this engine wrote.
    #[inline]
    pub(crate) fn split(value: &[u8]) -> (Header, &[u8]) {
        if is_settled(value) {
            let flags = value[0] & !SETTLED;
            return (Header { flags, trx: EVERYBODY, undo: UndoPtr::NONE }, &value[SETTLED_HEAD.len()..]);
        }
        let (head, row) = value.split_at(HEADER_BYTES);
        let mut id = [0; 8];
        id[..6].copy_from_slice(&head[1..7]);
        let mut undo = [0; 6];
        undo.copy_from_slice(&head[7..]);
        let header =
            Header { flags: head[0], trx: TrxId(u64::from_le_bytes(id)), undo: UndoPtr::from_bytes(undo) };
        (header, row)
    }
}

/// Whether a leaf's value has no marker.
#[inline]
pub(crate) fn is_settled(value: &[u8]) -> bool {
    value.first().is_some_and(|flags| flags & SETTLED != 0)
}

/// Whether a leaf's value is long enough for its header.
pub(crate) fn has_header(value: &[u8]) -> bool {
    value.len() >= HEADER_BYTES || is_settled(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back() {
        let header = Header {
            flags: DELETED | FRESH,
            trx: TrxId(0x1234_5678_9abc),
            undo: UndoPtr { page: 77, offset: 16000 },
        };
        let mut value = header.to_bytes().to_vec();
        value.extend_from_slice(b"row");
        assert_eq!(Header::split(&value), (header, &b"row"[..]));
    }

    #[test]
    fn a_settled_entry_is_everybodys() {
        let value = [&SETTLED_HEAD, &b"row"[..]].concat();
        assert!(is_settled(&value) && has_header(&value));
        let header = Header { flags: FRESH, trx: EVERYBODY, undo: UndoPtr::NONE };
        assert_eq!(Header::split(&value), (header, &b"row"[..]));
        // With a marker again it is the same entry.
        let value = header.to_bytes();
        assert!(!is_settled(&value));
        assert_eq!(Header::split(&value), (header, &b""[..]));
    }
}

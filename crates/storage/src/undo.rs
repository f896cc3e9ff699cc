//! Undo records: what a change to an entry replaced, and where transactions end.
//!
//! ```text
//! change: len u16 | kind u8 | trx 6 | before 6 | tree u32 | key len u16 | key
//!         and for Update, Delete: version, and as often as the kind says: past 6 | version | len of these two u16
//! version: header 13 | prefix u16 | suffix u16 | middle
//! end:    len u16 | kind u8 | trx 6 | before 6 | flags u8
//! prepare: len u16 | kind u8 | trx 6 | before 6 | flags u8 | name
//! ```
//!
//! A prepare record says that a transaction outlives crashes under a name, or, without a name, that it does so no more
//! ([`crate::prepared`]). Its flags are those of the end record to come. It is no part of the chain.
//!
//! `before` names the transaction's record before this one, so that rollback and purge walk a transaction backwards.
//! The old row is the new row's first `prefix` bytes, the middle, and the new row's last `suffix` bytes. Further
//! versions are jumps ([`crate::version`]), the newest first: older than the first by any number of versions, and in terms
//! of the first as the first is in terms of the new row. Records are immutable, but for the reference to an old long value:
//! while purge frees it, the record names the rest of it.

use keel_base::{TreeId, TrxId};

use crate::page::{common_prefix, common_suffix};
use crate::row::{HEADER_BYTES, Header};

/// Where an undo record stands; page 0 is nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) struct UndoPtr {
    /// Page of the undo file.
    pub(crate) page: u32,
    /// Offset in its data area.
    pub(crate) offset: u16,
}

impl UndoPtr {
    /// Nowhere.
    pub(crate) const NONE: UndoPtr = UndoPtr { page: 0, offset: 0 };

    /// Whether it names no record.
    pub(crate) fn is_none(self) -> bool {
        self.page == 0
    }

    /// Its stored form.
    pub(crate) fn to_bytes(self) -> [u8; 6] {
        let mut out = [0; 6];
        out[..4].copy_from_slice(&self.page.to_le_bytes());
        out[4..].copy_from_slice(&self.offset.to_le_bytes());
        out
    }

    /// From its stored form.
    pub(crate) fn from_bytes(b: [u8; 6]) -> UndoPtr {
        UndoPtr {
            page: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            offset: u16::from_le_bytes([b[4], b[5]]),
        }
    }
}

/// What a record undoes, or which end it marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// An entry that was not there.
    Insert = 1,
    /// An entry that had another row or was deleted.
    Update = 2,
    /// An entry that was not deleted.
    Delete = 3,
    /// The transaction committed.
    Commit = 4,
    /// The transaction has been rolled back.
    Abort = 5,
    /// The transaction is prepared, or no more.
    Prepare = 6,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Insert,
            2 => Kind::Update,
            3 => Kind::Delete,
            4 => Kind::Commit,
            5 => Kind::Abort,
            6 => Kind::Prepare,
            _ => return None,
        })
    }

    /// Whether it ends a transaction.
    pub(crate) fn is_end(self) -> bool {
        matches!(self, Kind::Commit | Kind::Abort)
    }

    /// Whether it undoes something.
    pub(crate) fn is_change(self) -> bool {
        matches!(self, Kind::Insert | Kind::Update | Kind::Delete)
    }
}

/// The transaction deleted rows: purge must walk it.
pub(crate) const END_HAS_DELETES: u8 = 1;
/// The transaction replaced or deleted rows in overflow pages: purge must free them.
pub(crate) const END_HAS_OVERFLOW: u8 = 2;

/// Bytes of `len` to `before`.
pub(crate) const COMMON_BYTES: usize = 15;
const CHANGE_BYTES: usize = COMMON_BYTES + 6;
/// Jumps that a record may have.
pub(crate) const JUMPS_MAX: usize = 2;
/// The number of jumps in the byte of the kind.
const JUMPS_SHIFT: u32 = 6;
const KIND_MASK: u8 = (1 << JUMPS_SHIFT) - 1;
/// Bytes of an end record.
pub(crate) const END_BYTES: usize = COMMON_BYTES + 1;

/// The part that all records share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Common {
    /// Bytes of the record.
    pub(crate) len: usize,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Whose it is.
    pub(crate) trx: TrxId,
    /// That transaction's record before.
    pub(crate) before: UndoPtr,
    /// Flags of an end or prepare record, else 0.
    pub(crate) flags: u8,
}

/// An old version: header and what turns the newer row into the older.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OldVersion<'a> {
    /// The header that was replaced.
    pub(crate) header: Header,
    prefix: usize,
    suffix: usize,
    middle: &'a [u8],
}

/// A way past versions that nobody needs: who does not see what `past` wrote goes on at `version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Jump<'a> {
    /// A version no newer than the record's old one is this transaction's, or that one itself is.
    pub(crate) past: TrxId,
    /// Where to go on, in terms of the record's old version.
    pub(crate) version: OldVersion<'a>,
}

/// A change record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChangeRecord<'a> {
    /// Kind, transaction and the record before.
    pub(crate) common: Common,
    /// The tree changed.
    pub(crate) tree: TreeId,
    /// The key changed.
    pub(crate) key: &'a [u8],
    /// What was there; `None` for Insert.
    pub(crate) old: Option<OldVersion<'a>>,
    /// Past versions behind that, the newest first.
    pub(crate) jumps: [Option<Jump<'a>>; JUMPS_MAX],
}

fn begin(out: &mut Vec<u8>, kind: Kind, trx: TrxId, before: UndoPtr) {
    out.clear();
    out.extend_from_slice(&[0, 0, kind as u8]);
    out.extend_from_slice(&trx.0.to_le_bytes()[..6]);
    out.extend_from_slice(&before.to_bytes());
}

fn finish(out: &mut [u8]) {
    let len = u16::try_from(out.len()).expect("undo record fits a page");
    out[..2].copy_from_slice(&len.to_le_bytes());
}

/// Writes an end record into `out`.
pub(crate) fn encode_end(out: &mut Vec<u8>, kind: Kind, trx: TrxId, before: UndoPtr, flags: u8) {
    debug_assert!(kind.is_end());
    begin(out, kind, trx, before);
    out.push(flags);
    finish(out);
}

/// Writes a prepare record into `out`; `flags` are those of the commit to come.
pub(crate) fn encode_prepare(out: &mut Vec<u8>, trx: TrxId, before: UndoPtr, flags: u8, name: &[u8]) {
    begin(out, Kind::Prepare, trx, before);
    out.push(flags);
    out.extend_from_slice(name);
    finish(out);
}

/// The name in the prepare record at the start of `bytes`, which [`decode_common`] has read.
pub(crate) fn prepared_name<'a>(common: &Common, bytes: &'a [u8]) -> &'a [u8] {
    &bytes[END_BYTES..common.len]
}

/// Writes a change record into `out`. `old` is the replaced header and row, `new_row` what stands in its place.
#[allow(clippy::too_many_arguments)]
pub(crate) fn encode_change(
    out: &mut Vec<u8>,
    kind: Kind,
    trx: TrxId,
    before: UndoPtr,
    tree: TreeId,
    key: &[u8],
    old: Option<(Header, &[u8])>,
    new_row: &[u8],
) {
    begin(out, kind, trx, before);
    out.extend_from_slice(&tree.0.to_le_bytes());
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
    if let Some((header, old_row)) = old {
        push_version(out, header, old_row, new_row);
    }
    finish(out);
}

fn push_version(out: &mut Vec<u8>, header: Header, old_row: &[u8], new_row: &[u8]) {
    // Purge reads references to overflow pages from the record alone.
    let (prefix, suffix) = if header.is_overflow() { (0, 0) } else { common_ends(old_row, new_row) };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&(prefix as u16).to_le_bytes());
    out.extend_from_slice(&(suffix as u16).to_le_bytes());
    out.extend_from_slice(&old_row[prefix..old_row.len() - suffix]);
}

/// Adds a jump to the change record in `out`, whose old row is `old_row` and which has less than [`JUMPS_MAX`]: who does not
/// see `past` goes on at this version. Not if the record would be longer than `len_max`.
pub(crate) fn push_jump(
    out: &mut Vec<u8>,
    past: TrxId,
    (header, row): (Header, &[u8]),
    old_row: &[u8],
    len_max: usize,
) {
    let before = out.len();
    out.extend_from_slice(&past.0.to_le_bytes()[..6]);
    push_version(out, header, row, old_row);
    let len = out.len() - before;
    out.extend_from_slice(&(len as u16).to_le_bytes());
    if out.len() > len_max {
        return out.truncate(before);
    }
    out[2] += 1 << JUMPS_SHIFT;
    finish(out);
}

fn common_ends(a: &[u8], b: &[u8]) -> (usize, usize) {
    let prefix = common_prefix(a, b);
    (prefix, common_suffix(&a[prefix..], &b[prefix..]))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?) as usize)
}

/// Reads the shared part of the record at the start of `bytes`; `None` if there is no whole record.
pub(crate) fn decode_common(bytes: &[u8]) -> Option<Common> {
    let len = u16_at(bytes, 0)?;
    if len < END_BYTES || len > bytes.len() {
        return None;
    }
    let kind = Kind::from_byte(bytes[2] & KIND_MASK)?;
    let mut id = [0; 8];
    id[..6].copy_from_slice(&bytes[3..9]);
    let before = UndoPtr::from_bytes(bytes[9..15].try_into().ok()?);
    let flags = if kind.is_change() { 0 } else { bytes[COMMON_BYTES] };
    Some(Common { len, kind, trx: TrxId(u64::from_le_bytes(id)), before, flags })
}

/// Reads the change record at the start of `bytes`; `None` if there is no whole one.
pub(crate) fn decode_change(bytes: &[u8]) -> Option<ChangeRecord<'_>> {
    let common = decode_common(bytes)?;
    if !common.kind.is_change() || common.len < CHANGE_BYTES {
        return None;
    }
    let bytes = &bytes[..common.len];
    let tree = TreeId(u32::from_le_bytes(bytes[COMMON_BYTES..COMMON_BYTES + 4].try_into().ok()?));
    let key_end = CHANGE_BYTES + u16_at(bytes, COMMON_BYTES + 4)?;
    let key = bytes.get(CHANGE_BYTES..key_end)?;
    let mut jumps = [None; JUMPS_MAX];
    if common.kind == Kind::Insert {
        return Some(ChangeRecord { common, tree, key, old: None, jumps });
    }
    let mut rest = &bytes[key_end..];
    for jump in jumps.get_mut(..usize::from(bytes[2] >> JUMPS_SHIFT))?.iter_mut().rev() {
        let len_at = rest.len().checked_sub(2)?;
        let jump_at = len_at.checked_sub(u16_at(rest, len_at)?)?;
        *jump = Some(decode_jump(&rest[jump_at..len_at])?);
        rest = &rest[..jump_at];
    }
    Some(ChangeRecord { common, tree, key, old: Some(decode_old(rest)?), jumps })
}

fn decode_jump(bytes: &[u8]) -> Option<Jump<'_>> {
    let (past, version) = bytes.split_at_checked(6)?;
    let mut id = [0; 8];
    id[..6].copy_from_slice(past);
    Some(Jump { past: TrxId(u64::from_le_bytes(id)), version: decode_old(version)? })
}

fn decode_old(bytes: &[u8]) -> Option<OldVersion<'_>> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let (header, _) = Header::split(header);
    Some(OldVersion { header, prefix: u16_at(rest, 0)?, suffix: u16_at(rest, 2)?, middle: rest.get(4..)? })
}

/// Where in the record of a change to a key of so many bytes the middle of the old version begins.
pub(crate) fn middle_offset(key_len: usize) -> usize {
    CHANGE_BYTES + key_len + HEADER_BYTES + 4
}

impl OldVersion<'_> {
    /// What the old row has and the new one has not; the whole old row if that was an overflow reference.
    pub(crate) fn middle(&self) -> &[u8] {
        self.middle
    }

    /// Turns the newer row into the older one; `None` if they do not fit together.
    pub(crate) fn apply(&self, row: &mut Vec<u8>) -> Option<()> {
        let end = row.len().checked_sub(self.suffix)?;
        if self.prefix > end {
            return None;
        }
        // Whole parts are copied: Vec::splice would take the middle byte by byte in builds with few optimisations.
        let (old_end, old_len) =
            (self.prefix + self.middle.len(), self.prefix + self.middle.len() + self.suffix);
        if old_len > row.len() {
            let new_len = row.len();
            row.resize(old_len, 0);
            row.copy_within(end..new_len, old_end);
        } else {
            row.copy_within(end.., old_end);
            row.truncate(old_len);
        }
        row[self.prefix..old_end].copy_from_slice(self.middle);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(flags: u8) -> Header {
        Header { flags, trx: TrxId(41), undo: UndoPtr { page: 3, offset: 20 } }
    }

    #[test]
    fn an_old_row_comes_back_from_the_new_one() {
        let pairs: [(&[u8], &[u8]); 7] = [
            (b"", b""),
            (b"abc", b"abc"),
            (b"aaa", b"aa"),
            (b"aa", b"aaaa"),
            (b"abcdef", b"abXdef"),
            (b"short", b"something longer"),
            (b"left", b""),
        ];
        for (old, new) in pairs {
            let mut out = Vec::new();
            let before = UndoPtr { page: 9, offset: 1 };
            let replaced = Some((header(0), old));
            encode_change(&mut out, Kind::Update, TrxId(42), before, TreeId(7), b"key", replaced, new);
            out.extend_from_slice(b"the next record");
            let record = decode_change(&out).unwrap();
            assert_eq!((record.tree, record.key), (TreeId(7), &b"key"[..]));
            assert_eq!(&out[middle_offset(3)..record.common.len], record.old.unwrap().middle());
            assert_eq!((record.common.trx, record.common.before), (TrxId(42), before));
            let mut row = new.to_vec();
            let version = record.old.unwrap();
            version.apply(&mut row).unwrap();
            assert_eq!((version.header, row.as_slice()), (header(0), old));
        }
    }

    #[test]
    fn a_jump_gives_an_older_row_from_the_old_one() {
        let (new, old, older) = (&b"row 1003"[..], &b"row 1002"[..], &b"row 7"[..]);
        let mut out = Vec::new();
        let replaced = Some((header(0), old));
        encode_change(&mut out, Kind::Update, TrxId(42), UndoPtr::NONE, TreeId(7), b"key", replaced, new);
        let plain = out.clone();
        let target = Header { trx: TrxId(12), ..header(4) };
        push_jump(&mut out, TrxId(41), (target, older), old, plain.len() + 10);
        assert_eq!(out, plain, "no room for it");
        push_jump(&mut out, TrxId(41), (target, older), old, 1000);
        let record = decode_change(&out).unwrap();
        assert_eq!((record.common.kind, record.common.len), (Kind::Update, out.len()));
        let mut row = new.to_vec();
        record.old.unwrap().apply(&mut row).unwrap();
        assert_eq!(row, old);
        assert!(record.jumps[1].is_none());
        let jump = record.jumps[0].unwrap();
        jump.version.apply(&mut row).unwrap();
        assert_eq!((jump.past, jump.version.header, row.as_slice()), (TrxId(41), target, older));
        push_jump(&mut out, TrxId(30), (target, b"oldest"), old, 1000);
        let record = decode_change(&out).unwrap();
        let pasts = record.jumps.map(|jump| jump.unwrap().past);
        assert_eq!((record.common.kind, pasts), (Kind::Update, [TrxId(41), TrxId(30)]));
        for len in 0..out.len() {
            assert!(decode_change(&out[..len]).is_none(), "{len}");
        }
    }

    #[test]
    fn records_on_disk_keep_their_form() {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let before = UndoPtr { page: 0x0102_0304, offset: 0x0506 };
        let mut out = Vec::new();
        encode_change(&mut out, Kind::Insert, TrxId(0xa1), before, TreeId(7), b"key", None, b"row");
        assert_eq!(hex(&out), "180001a1000000000004030201060507000000 03006b6579".replace(' ', ""));
        let old = Some((header(1), &b"old row"[..]));
        encode_change(&mut out, Kind::Update, TrxId(0xa2), before, TreeId(7), b"key", old, b"old new row");
        let common = "290002a20000000000040302010605 07000000 0300 6b6579";
        assert_eq!(hex(&out), format!("{common} 01290000000000 030000001400 0400 0300").replace(' ', ""));
        push_jump(&mut out, TrxId(0xa0), (header(4), b"row"), b"old row", 1000);
        let jump = "a00000000000 04290000000000 030000001400 0000 0300 1700".replace(' ', "");
        let whole = format!("{common} 01290000000000 030000001400 0400 0300{jump}").replace(' ', "");
        assert_eq!(hex(&out), whole.replacen("290002", "420042", 1));
        encode_end(&mut out, Kind::Commit, TrxId(0xa3), before, END_HAS_DELETES);
        assert_eq!(hex(&out), "100004a30000000000040302010605 01".replace(' ', ""));
        encode_prepare(&mut out, TrxId(0xa4), before, END_HAS_OVERFLOW, b"xid");
        assert_eq!(hex(&out), "130006a40000000000040302010605 02 786964".replace(' ', ""));
        let common = decode_common(&out).unwrap();
        assert_eq!((common.flags, prepared_name(&common, &out)), (END_HAS_OVERFLOW, &b"xid"[..]));
        assert!(decode_change(&out).is_none());
    }

    #[test]
    fn a_cut_record_is_refused() {
        let mut out = Vec::new();
        encode_change(
            &mut out,
            Kind::Delete,
            TrxId(1),
            UndoPtr::NONE,
            TreeId(2),
            b"k",
            Some((header(1), b"r")),
            b"r",
        );
        for len in 0..out.len() {
            assert!(decode_change(&out[..len]).is_none(), "{len}");
        }
        encode_end(&mut out, Kind::Commit, TrxId(1), UndoPtr::NONE, END_HAS_DELETES);
        assert_eq!(decode_common(&out).unwrap().flags, END_HAS_DELETES);
        assert!(decode_change(&out).is_none());
    }
}

//! Redo records: what a mini-transaction did to pages, and how recovery does it again.
//!
//! A group is the redo of one mini-transaction, applied whole or not at all:
//! ```text
//! | length u32 | crc of the group before u32 | crc u32 | record | record | ...
//! record: | kind u8 | tree u32 | page u32 | body length u16 | body |     page records (SAME_PAGE: no tree and page)
//!         | KIND_USER u8 | user kind u8 | length u32 | payload |         opaque to this layer
//! ```
//! The crc covers the records, then the group's LSN, length and predecessor's crc: bytes of an earlier life of a recycled
//! segment never pass, neither do groups that a crash cut off from their predecessor.

use keel_base::checksum::{crc32c, crc32c_append};

use crate::layout::*;
use crate::page::touched::Touched;
use crate::page::{PageMut, image_parts, slots_in};

/// Bytes before the records of a group.
pub const GROUP_HEAD: usize = 12;
/// Longest group; the scan refuses longer ones.
pub const GROUP_MAX: usize = 64 << 20;

const INSERT: u8 = 1;
const REMOVE: u8 = 2;
const SPLICE: u8 = 3;
const PATCH: u8 = 4;
const IMAGE: u8 = 5;
const BYTES: u8 = 6;
const TRUNCATE: u8 = 7;
const FORMAT_PAGE: u8 = 8;
const USER: u8 = 9;
const START: u8 = 10;
const SHORTEN: u8 = 11;
const DURABLE: u8 = 12;
const SAME_PAGE: u8 = 0x80;

fn number16(value: usize) -> [u8; 2] {
    u16::try_from(value).expect("page offsets fit 16 bits").to_le_bytes()
}

/// Collects the records of one group.
#[derive(Default)]
pub struct Group {
    bytes: Vec<u8>,
    last: Option<(u32, u32)>,
}

impl Group {
    /// Empties the group, keeping its memory unless that grew large.
    pub fn reset(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(64 << 10);
        self.bytes.resize(GROUP_HEAD, 0);
        self.last = None;
    }

    /// Whether no record was added.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= GROUP_HEAD
    }

    /// The group's bytes; the head is filled by [`seal_group`].
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn page_record(&mut self, kind: u8, at: (u32, u32), parts: &[&[u8]]) {
        if self.last == Some(at) {
            self.bytes.push(kind | SAME_PAGE);
        } else {
            self.bytes.push(kind);
            self.bytes.extend_from_slice(&at.0.to_le_bytes());
            self.bytes.extend_from_slice(&at.1.to_le_bytes());
            self.last = Some(at);
        }
        let len = parts.iter().map(|p| p.len()).sum();
        self.bytes.extend_from_slice(&number16(len));
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
    }

    /// An entry inserted before `slot`.
    pub fn insert(&mut self, at: (u32, u32), slot: usize, suffix: &[u8], value: &[u8]) {
        self.page_record(INSERT, at, &[&number16(slot), &number16(suffix.len()), suffix, value]);
    }

    /// An entry removed.
    pub fn remove(&mut self, at: (u32, u32), slot: usize) {
        self.page_record(REMOVE, at, &[&number16(slot)]);
    }

    /// Part of a value replaced by bytes of another length.
    pub fn splice(&mut self, at: (u32, u32), slot: usize, offset: usize, old_len: usize, middle: &[u8]) {
        let head = [number16(slot), number16(offset), number16(old_len)];
        self.page_record(SPLICE, at, &[head.as_flattened(), middle]);
    }

    /// The first bytes of many values replaced by fewer.
    pub fn shorten(&mut self, at: (u32, u32), slots: &[u8], old_len: usize, head: &[u8]) {
        self.page_record(SHORTEN, at, &[&number16(old_len), &number16(head.len()), head, slots]);
    }

    /// Part of a value overwritten.
    pub fn patch(&mut self, at: (u32, u32), slot: usize, offset: usize, bytes: &[u8]) {
        self.page_record(PATCH, at, &[&number16(slot), &number16(offset), bytes]);
    }

    /// The whole content of a page.
    pub fn image(&mut self, at: (u32, u32), page: crate::page::PageRef<'_>) {
        let (top, bottom) = image_parts(page);
        self.page_record(IMAGE, at, &[&number16(top.len()), top, bottom]);
    }

    /// Bytes at a fixed place of a page.
    pub fn write(&mut self, at: (u32, u32), offset: usize, bytes: &[u8]) {
        self.page_record(BYTES, at, &[&number16(offset), bytes]);
    }

    /// The left half's part of a split.
    pub fn truncate(&mut self, at: (u32, u32), keep: usize, high: &[u8], right: u32) {
        self.page_record(TRUNCATE, at, &[&number16(keep), &right.to_le_bytes(), high]);
    }

    /// A page formatted without entries.
    pub fn format(&mut self, at: (u32, u32), kind: u8) {
        self.page_record(FORMAT_PAGE, at, &[&[kind]]);
    }

    /// An opaque record; its payload stays below half of [`GROUP_MAX`].
    pub fn user(&mut self, kind: u8, payload: &[u8]) {
        assert!(payload.len() < GROUP_MAX / 2, "a log record of {} bytes", payload.len());
        self.bytes.extend_from_slice(&[USER, kind]);
        let len = u32::try_from(payload.len()).expect("payload below 4 GiB");
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(payload);
        self.last = None;
    }

    /// The first record of each life of the store: its salt makes the chain of group checksums unique.
    pub fn start(&mut self, salt: u64) {
        self.bytes.push(START);
        self.bytes.extend_from_slice(&salt.to_le_bytes());
    }
}

/// A group that says how far the log was durable when it was written; its head is filled by [`seal_group`].
pub fn durable_mark(lsn: u64) -> [u8; GROUP_HEAD + 9] {
    let mut group = [0; GROUP_HEAD + 9];
    group[GROUP_HEAD] = DURABLE;
    group[GROUP_HEAD + 1..].copy_from_slice(&lsn.to_le_bytes());
    group
}

/// Checksum of a group's records, computed before its LSN is known.
pub fn records_crc(group: &[u8]) -> u32 {
    crc32c(&group[GROUP_HEAD..])
}

/// Fills a group's head; gives its checksum.
pub fn seal_group(group: &mut [u8], records_crc: u32, lsn: u64, before: u32) -> u32 {
    let len = u32::try_from(group.len()).expect("groups are bounded");
    let crc = chain(records_crc, lsn, len, before);
    group[..4].copy_from_slice(&len.to_le_bytes());
    group[4..8].copy_from_slice(&before.to_le_bytes());
    group[8..12].copy_from_slice(&crc.to_le_bytes());
    crc
}

fn chain(records_crc: u32, lsn: u64, len: u32, before: u32) -> u32 {
    let mut tail = [0; 16];
    tail[..8].copy_from_slice(&lsn.to_le_bytes());
    tail[8..12].copy_from_slice(&len.to_le_bytes());
    tail[12..].copy_from_slice(&before.to_le_bytes());
    crc32c_append(records_crc, &tail)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Length of the group at the start of `bytes`, if it can be one.
pub fn group_len(bytes: &[u8]) -> Option<usize> {
    let len = word(bytes, 0)? as usize;
    (GROUP_HEAD..=GROUP_MAX).contains(&len).then_some(len)
}

/// Whether a group's first record can begin with this byte.
pub fn begins_group(kind: u8) -> bool {
    (INSERT..=DURABLE).contains(&kind)
}

/// Checks a whole group; gives its checksum and its predecessor's.
pub fn check_group(group: &[u8], lsn: u64) -> Option<(u32, u32)> {
    let before = word(group, 4)?;
    let crc = word(group, 8)?;
    let len = u32::try_from(group.len()).ok()?;
    (chain(records_crc(group), lsn, len, before) == crc).then_some((crc, before))
}

/// One record as read.
#[derive(Debug)]
pub enum Record<'a> {
    /// A change of a page.
    Page {
        /// Tree and page.
        at: (u32, u32),
        /// What and how.
        change: Change<'a>,
    },
    /// An opaque record: kind and payload.
    User(u8, &'a [u8]),
    /// A life of the store begins.
    Start,
    /// Up to here the log was durable when this was written, so nothing before may ever be missing.
    Durable(u64),
}

/// A change of one page.
#[derive(Debug)]
pub struct Change<'a> {
    kind: u8,
    body: &'a [u8],
}

/// Reads the records of a checked group.
pub struct Records<'a> {
    rest: &'a [u8],
    last: (u32, u32),
    len: usize,
}

impl<'a> Records<'a> {
    /// Reads `group`, head included.
    pub fn new(group: &'a [u8]) -> Records<'a> {
        Records { rest: &group[GROUP_HEAD..], last: (0, 0), len: group.len() }
    }

    /// Reads a part of a group that begins with a record which names its page.
    pub fn of_part(bytes: &'a [u8]) -> Records<'a> {
        Records { rest: bytes, last: (0, 0), len: bytes.len() }
    }

    /// Offset of the next record in what is read.
    pub fn position(&self) -> usize {
        self.len - self.rest.len()
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    fn parse(&mut self) -> Option<Record<'a>> {
        let kind = self.take(1)?[0];
        match kind {
            USER => {
                let user_kind = self.take(1)?[0];
                let len = word(self.take(4)?, 0)? as usize;
                Some(Record::User(user_kind, self.take(len)?))
            }
            START => self.take(8).map(|_| Record::Start),
            DURABLE => {
                Some(Record::Durable(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes"))))
            }
            _ => {
                if kind & SAME_PAGE == 0 {
                    let at = self.take(8)?;
                    self.last = (word(at, 0)?, word(at, 4)?);
                }
                let len = self.take(2)?;
                let body = self.take(u16::from_le_bytes([len[0], len[1]]) as usize)?;
                Some(Record::Page { at: self.last, change: Change { kind: kind & !SAME_PAGE, body } })
            }
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        Some(self.parse().ok_or_else(|| {
            self.rest = &[];
            Malformed
        }))
    }
}

/// A record that a checksum vouches for and that still makes no sense: another version wrote it.
#[derive(Debug)]
pub struct Malformed;

impl Change<'_> {
    /// Does the change to `page`, whose content is what it was when the record was written; gives what it touched.
    pub fn apply(&self, at: (u32, u32), page: &mut [u8]) -> Result<Touched, Malformed> {
        let mut page = PageMut::new(page);
        self.try_apply(at, &mut page).ok_or(Malformed)?;
        Ok(page.touched())
    }

    /// Whether it says all of the page, whatever stood there.
    pub fn is_whole(&self) -> bool {
        matches!(self.kind, IMAGE | FORMAT_PAGE)
    }

    fn number(&self, index: usize) -> Option<usize> {
        let b = self.body.get(index * 2..index * 2 + 2)?;
        Some(u16::from_le_bytes([b[0], b[1]]) as usize)
    }

    fn try_apply(&self, at: (u32, u32), page: &mut PageMut<'_>) -> Option<()> {
        if matches!(self.kind, INSERT | REMOVE | SPLICE | SHORTEN | PATCH) {
            let there = page.as_ref();
            (there.is_node() && HEADER + there.count() * SLOT <= there.heap()).then_some(())?;
        }
        match self.kind {
            INSERT => {
                let (slot, key_len) = (self.number(0)?, self.number(1)?);
                let (suffix, value) = self.body[4..].split_at_checked(key_len)?;
                (slot <= page.as_ref().count()).then_some(())?;
                page.insert(slot, suffix, value).ok()
            }
            REMOVE => {
                let slot = self.number(0)?;
                (slot < page.as_ref().count()).then(|| page.remove(slot))
            }
            SPLICE => {
                let (slot, offset, old_len) = (self.number(0)?, self.number(1)?, self.number(2)?);
                (slot < page.as_ref().count()).then_some(())?;
                (offset + old_len <= page.as_ref().value(slot).len()).then_some(())?;
                page.splice(slot, offset, old_len, &self.body[6..]).ok()
            }
            SHORTEN => {
                let (old_len, head_len) = (self.number(0)?, self.number(1)?);
                let (head, slots) = self.body[4..].split_at_checked(head_len)?;
                let there = page.as_ref();
                let fits = |slot| slot < there.count() && old_len <= there.value(slot).len();
                (head_len <= old_len && slots_in(slots).all(fits)).then_some(())?;
                page.shorten(slots, old_len, head).ok()
            }
            PATCH => {
                let (slot, offset) = (self.number(0)?, self.number(1)?);
                (slot < page.as_ref().count()).then_some(())?;
                let bytes = &self.body[4..];
                (offset + bytes.len() <= page.as_ref().value(slot).len()).then_some(())?;
                page.patch(slot, offset, bytes);
                Some(())
            }
            IMAGE => {
                let top_len = self.number(0)?;
                let (top, bottom) = self.body[2..].split_at_checked(top_len)?;
                (AT_TREE + top.len() + bottom.len() <= PAGE).then_some(())?;
                page.load_image(top, bottom);
                // An image leaves out the page's own number.
                page.set_page_no(at.1);
                Some(())
            }
            BYTES => {
                let offset = self.number(0)?;
                let data = &self.body[2..];
                (offset >= AT_TREE && offset + data.len() <= PAGE).then(|| page.write(offset, data))
            }
            TRUNCATE => {
                let keep = self.number(0)?;
                let right = word(self.body, 2)?;
                let high = self.body.get(6..)?;
                page.as_ref().can_truncate(keep, high).then_some(())?;
                page.truncate(keep, high, right);
                Some(())
            }
            FORMAT_PAGE => {
                page.format(at.0, at.1, *self.body.first()?);
                Some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_reads_back_and_binds_its_place() {
        let mut group = Group::default();
        group.reset();
        assert!(group.is_empty());
        group.insert((3, 9), 1, b"key", b"value");
        group.remove((3, 9), 0);
        group.user(7, b"payload");
        group.write((3, 0), 20, b"x");
        let bytes = group.bytes_mut();
        let crc = records_crc(bytes);
        let sealed = seal_group(bytes, crc, 4096, 77);
        assert_eq!(group_len(bytes), Some(bytes.len()));
        assert_eq!(check_group(bytes, 4096), Some((sealed, 77)));
        assert_eq!(check_group(bytes, 8192), None);
        let kinds: Vec<String> = Records::new(bytes)
            .map(|r| match r.expect("well-formed") {
                Record::Page { at, change } => format!("{}.{} kind {}", at.0, at.1, change.kind),
                Record::User(kind, payload) => format!("user {kind} {}", payload.len()),
                Record::Start => "start".into(),
                Record::Durable(lsn) => format!("durable {lsn}"),
            })
            .collect();
        assert_eq!(kinds, ["3.9 kind 1", "3.9 kind 2", "user 7 7", "3.0 kind 6"]);
        let mark = durable_mark(77);
        let read: Vec<String> = Records::new(&mark).map(|r| line(&r.expect("well-formed"))).collect();
        assert_eq!(read, ["durable 77"]);
    }

    /// A record as a line: what recovery reads, then its bytes.
    fn line(record: &Record<'_>) -> String {
        match record {
            Record::Page { at, change } => {
                format!("page {}.{} kind {} body {}", at.0, at.1, change.kind, change.body.escape_ascii())
            }
            Record::User(kind, payload) => format!("user kind {kind} payload {}", payload.escape_ascii()),
            Record::Start => "start".into(),
            Record::Durable(lsn) => format!("durable {lsn}"),
        }
    }

    #[test]
    fn the_format_is_what_it_was() {
        let mut page = vec![0; PAGE];
        let meta = crate::page::NodeMeta { tree: 3, page: 9, level: 0, right: 0, low: b"", high: Some(b"m") };
        crate::page::PageBuilder::new(&mut page, meta).push(b"key", b"", b"value");
        let (top, _) = image_parts(crate::page::PageRef::new(&page));
        let image_bytes = top.len();
        let mut group = Group::default();
        group.reset();
        group.start(0x0102_0304_0506_0708);
        group.format((3, 9), 2);
        group.image((3, 9), crate::page::PageRef::new(&page));
        group.insert((3, 9), 1, b"kez", b"more");
        group.splice((3, 9), 0, 1, 3, b"ALUALU");
        group.patch((3, 9), 1, 2, b"RE");
        group.shorten((3, 9), &[0b11], 2, b"-");
        group.truncate((3, 9), 1, b"kez", 10);
        group.remove((3, 9), 0);
        group.write((3, 0), 20, b"x");
        group.user(7, b"payload");
        let bytes = group.bytes_mut();
        let crc = records_crc(bytes);
        seal_group(bytes, crc, 4096, 77);
        let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let mut out = format!("group {}\nimage top {image_bytes} bytes\n", hex.concat());
        for record in Records::new(bytes) {
            out += &line(&record.expect("well-formed"));
            out.push('\n');
        }
        assert_eq!(
            out,
            include_str!("../../golden/redo.txt"),
            "the redo format changed; the new dump:\n{out}"
        );
    }

    #[test]
    fn a_malformed_record_is_an_error_not_a_panic() {
        let mut page = vec![0; PAGE];
        let body = [0xff; 40];
        for kind in 0..=255 {
            for len in 0..body.len() {
                let change = Change { kind, body: &body[..len] };
                if !matches!(kind, FORMAT_PAGE) {
                    assert!(change.apply((1, 1), &mut page).is_err(), "kind {kind} length {len}");
                }
            }
        }
    }
}

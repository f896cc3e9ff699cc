//! The Format_description event, which is the first event of each file, and the format that it declares for
//! later events.
//!
//! ```text
//! version u16 = 4 | server version, 50 bytes | created u32 | header length u8 = 19 | fixed length of each kind, from 1
//! | checksum u8 | crc32 u32
//! ```
//! Servers before MariaDB 5.3 and MySQL 5.6.1 write no checksum field. All others write a checksum for this
//! event, even if the field says that later events have none.

use crate::bytes::{Input, Output};
use crate::error::{Error, Problem, Result};
use crate::header::{HEADER_BYTES, kind};

/// Bytes of a server's version.
pub const VERSION_BYTES: usize = 50;

/// The only version of logs since MySQL 5.0.
const LOG_VERSION: u16 = 4;

/// Kinds of events that 10.11 knows: their fixed lengths stand in its Format_description event.
const KINDS: usize = 171;

/// The fixed lengths of 10.11 that are not 0.
const POST_HEADERS: &[(u8, u8)] = &[
    (kind::START_V3, 56),
    (kind::QUERY, 13),
    (kind::ROTATE, 8),
    (kind::LOAD, 18),
    (kind::CREATE_FILE, 4),
    (kind::APPEND_BLOCK, 4),
    (kind::EXEC_LOAD, 4),
    (kind::DELETE_FILE, 4),
    (kind::NEW_LOAD, 18),
    (kind::FORMAT_DESCRIPTION, 228),
    (kind::BEGIN_LOAD_QUERY, 4),
    (kind::EXECUTE_LOAD_QUERY, 26),
    (kind::TABLE_MAP, 8),
    (kind::WRITE_ROWS_V1, 8),
    (kind::UPDATE_ROWS_V1, 8),
    (kind::DELETE_ROWS_V1, 8),
    (kind::INCIDENT, 2),
    (kind::WRITE_ROWS, 10),
    (kind::UPDATE_ROWS, 10),
    (kind::DELETE_ROWS, 10),
    // Numbers that no server writes.
    (39, 10),
    (40, 10),
    (41, 10),
    (kind::BINLOG_CHECKPOINT, 4),
    (kind::GTID, 19),
    (kind::GTID_LIST, 4),
    (kind::QUERY_COMPRESSED, 13),
    (kind::WRITE_ROWS_COMPRESSED_V1, 8),
    (kind::UPDATE_ROWS_COMPRESSED_V1, 8),
    (kind::DELETE_ROWS_COMPRESSED_V1, 8),
    (kind::WRITE_ROWS_COMPRESSED, 10),
    (kind::UPDATE_ROWS_COMPRESSED, 10),
    (kind::DELETE_ROWS_COMPRESSED, 10),
];

/// The fixed lengths of all kinds of 10.11, from kind 1.
pub const POST_HEADER_LENGTHS: [u8; KINDS] = {
    let mut lengths = [0; KINDS];
    let mut i = 0;
    while i < POST_HEADERS.len() {
        lengths[POST_HEADERS[i].0 as usize - 1] = POST_HEADERS[i].1;
        i += 1;
    }
    lengths
};

/// The checksum algorithm of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// No checksum.
    #[default]
    None,
    /// CRC32 as in zlib, behind the body.
    Crc32,
}

impl Checksum {
    /// The number in a Format_description event.
    pub const fn code(self) -> u8 {
        match self {
            Checksum::None => 0,
            Checksum::Crc32 => 1,
        }
    }
}

/// A Format_description event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatDescription<'a> {
    /// 50 bytes, filled up with zeros.
    pub server_version: &'a [u8; VERSION_BYTES],
    /// When the server started, if the file is its first; else 0.
    pub created: u32,
    /// The fixed length of each kind, from 1.
    pub post_header_lengths: &'a [u8],
    /// The number of the checksum; none if the server knows no checksums.
    pub checksum: Option<u8>,
}

impl<'a> FormatDescription<'a> {
    /// The event as 10.11 writes it.
    pub fn new(
        server_version: &'a [u8; VERSION_BYTES],
        created: u32,
        checksum: Checksum,
    ) -> FormatDescription<'a> {
        let post_header_lengths = &POST_HEADER_LENGTHS;
        FormatDescription { server_version, created, post_header_lengths, checksum: Some(checksum.code()) }
    }

    pub(crate) fn decode(input: &mut Input<'a>) -> Result<FormatDescription<'a>> {
        let at = input.offset();
        if input.u16()? != LOG_VERSION {
            return Err(Error::invalid(at, "version of the log"));
        }
        let at = input.offset();
        let version = input.take(VERSION_BYTES)?;
        let Some(server_version) = version.first_chunk() else {
            return Err(Error::invalid(at, "server version"));
        };
        let created = input.u32()?;
        let at = input.offset();
        if usize::from(input.u8()?) != HEADER_BYTES {
            return Err(Error::invalid(at, "length of headers"));
        }
        let at = input.offset();
        let rest = input.rest();
        let (post_header_lengths, checksum) = match rest.split_last() {
            Some((checksum, lengths)) if knows_checksums(version) => (lengths, Some(*checksum)),
            None if knows_checksums(version) => {
                return Err(Error::new(at, Problem::Truncated { needed: 1, left: 0 }));
            }
            _ => (rest, None),
        };
        Ok(FormatDescription { server_version, created, post_header_lengths, checksum })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_uint(LOG_VERSION.into(), 2);
        out.put(self.server_version);
        out.put_uint(self.created.into(), 4);
        out.push(HEADER_BYTES as u8);
        out.put(self.post_header_lengths);
        out.extend(self.checksum);
    }
}

/// The version field for a version string, truncated to 49 bytes.
pub fn server_version(text: &str) -> [u8; VERSION_BYTES] {
    let mut version = [0; VERSION_BYTES];
    let count = text.len().min(VERSION_BYTES - 1);
    version[..count].copy_from_slice(&text.as_bytes()[..count]);
    version
}

/// Whether a server of this version writes a checksum field.
fn knows_checksums(version: &[u8]) -> bool {
    let end = version.iter().position(|b| *b == 0).unwrap_or(version.len());
    let text = &version[..end];
    let mut numbers = text.split(|b| !b.is_ascii_digit()).take(3).map(|digits| {
        digits.iter().fold(0u32, |v, b| v.saturating_mul(10).saturating_add(u32::from(b - b'0')))
    });
    let mut next = || numbers.next().unwrap_or(0);
    let triple = (next(), next(), next());
    let is_mariadb = text.windows(7).any(|word| word == b"MariaDB");
    triple >= if is_mariadb { (5, 3, 0) } else { (5, 6, 1) }
}

/// The format that a Format_description event declares for later events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    post_header_lengths: Vec<u8>,
    checksum: Checksum,
}

impl Format {
    /// The format of files that 10.11 writes.
    pub fn current(checksum: Checksum) -> Format {
        Format { post_header_lengths: POST_HEADER_LENGTHS.to_vec(), checksum }
    }

    /// The format that `description` declares.
    pub fn of(description: &FormatDescription<'_>) -> Result<Format> {
        let checksum = match description.checksum {
            None | Some(0) => Checksum::None,
            Some(1) => Checksum::Crc32,
            Some(_) => {
                let lengths = description.post_header_lengths.len();
                let at = HEADER_BYTES + 2 + VERSION_BYTES + 4 + 1 + lengths;
                return Err(Error::invalid(at, "kind of checksum"));
            }
        };
        Ok(Format { post_header_lengths: description.post_header_lengths.to_vec(), checksum })
    }

    /// The checksum algorithm of events.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// This format with another checksum. A source that strips checksums for its replica sends such a stream.
    pub fn with_checksum(self, checksum: Checksum) -> Format {
        Format { checksum, ..self }
    }

    /// Whether an event has a checksum.
    pub(crate) fn has_checksum(&self, event_kind: u8, body: &[u8]) -> bool {
        if event_kind != kind::FORMAT_DESCRIPTION {
            return self.checksum == Checksum::Crc32;
        }
        body.get(2..2 + VERSION_BYTES).is_some_and(knows_checksums)
    }

    /// Fails if the fixed part of this kind has another length than in 10.11. Kinds beyond the end of the
    /// description's list are not checked.
    pub(crate) fn check_post_header(&self, event_kind: u8) -> Result<()> {
        let index = usize::from(event_kind).wrapping_sub(1);
        match (self.post_header_lengths.get(index), POST_HEADER_LENGTHS.get(index)) {
            (Some(length), Some(known)) if length != known => {
                Err(Error::new(4, Problem::PostHeader { kind: event_kind, length: *length }))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_a_file_of_10_11() {
        // From a file of 10.11.19.
        let first = [56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 228, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2];
        assert_eq!(POST_HEADER_LENGTHS[..26], first);
        assert_eq!(POST_HEADER_LENGTHS[26..42], [0, 0, 0, 10, 10, 10, 0, 0, 0, 0, 0, 0, 10, 10, 10, 0]);
        assert_eq!(POST_HEADER_LENGTHS[159..], [0, 4, 19, 4, 0, 13, 8, 8, 8, 10, 10, 10]);
    }

    #[test]
    fn checksums_are_known_by_version() {
        for (version, known) in [
            ("10.11.19-MariaDB-log", true),
            ("5.3.0-MariaDB", true),
            ("5.2.9-MariaDB", false),
            ("5.5.40-log", false),
            ("5.6.1", true),
            ("5.6.0", false),
            ("8.0.36", true),
            ("", false),
        ] {
            assert_eq!(knows_checksums(&server_version(version)), known, "{version}");
        }
    }
}

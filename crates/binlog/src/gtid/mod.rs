//! Global transaction ids, lists of them, and the two sets that servers keep.
//!
//! A [`Gtid`] is `domain-server-seq`. All servers number the transactions of a domain in one ascending
//! sequence. A [`SlavePosition`] has the last id of each domain; a [`BinlogState`] the last id of each server
//! in each domain, and which server's is the domain's last one. Parsing and printing follow `gtid_slave_pos`,
//! `gtid_binlog_pos` and `gtid_binlog_state` of MariaDB. Callers make its errors 1941 and 1943.

pub mod event;
mod set;

use std::fmt;

pub use set::{BinlogState, DuplicateDomain, PositionError, SlavePosition};

/// A global transaction id. Orders by domain, server and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Gtid {
    /// The stream of transactions.
    pub domain: u32,
    /// The server that made the transaction.
    pub server: u32,
    /// The transaction's number within the domain.
    pub seq: u64,
}

impl Gtid {
    /// An id from its parts.
    pub const fn new(domain: u32, server: u32, seq: u64) -> Gtid {
        Gtid { domain, server, seq }
    }

    /// Parses a text that is one id.
    pub fn parse(text: &[u8]) -> Option<Gtid> {
        let (gtid, rest) = Gtid::parse_front(text)?;
        rest.is_empty().then_some(gtid)
    }

    fn parse_front(text: &[u8]) -> Option<(Gtid, &[u8])> {
        let (domain, rest) = number(text)?;
        let (server, rest) = number(rest.strip_prefix(b"-")?)?;
        let (seq, rest) = number(rest.strip_prefix(b"-")?)?;
        let gtid = Gtid { domain: domain.try_into().ok()?, server: server.try_into().ok()?, seq };
        Some((gtid, rest))
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.seq)
    }
}

/// Parses a number as MariaDB does: spaces, tabs and a plus sign may precede it. Returns the number and the
/// rest of the text.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let blanks = text.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    let text = &text[blanks..];
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let (digits, rest) = text.split_at(digits);
    let value =
        digits.iter().try_fold(0u64, |v, digit| v.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    Some((value, rest))
}

/// Parses ids separated by commas. An empty text is an empty list. `None` is MariaDB's error 1941.
pub fn parse_list(text: &[u8]) -> Option<Vec<Gtid>> {
    parse_each(text).collect()
}

/// Parses ids separated by commas one by one. `None` as an item is a syntax error and ends the list.
fn parse_each(text: &[u8]) -> impl Iterator<Item = Option<Gtid>> {
    let mut rest = (!text.is_empty()).then_some(text);
    std::iter::from_fn(move || {
        let Some((gtid, behind)) = Gtid::parse_front(rest.take()?) else { return Some(None) };
        match behind.split_first() {
            None => {}
            Some((b',', next)) => rest = Some(next),
            Some(_) => return Some(None),
        }
        Some(Some(gtid))
    })
}

/// Prints ids as MariaDB does: commas without blanks.
pub(crate) fn print_list(gtids: impl Iterator<Item = Gtid>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, gtid) in gtids.enumerate() {
        if index > 0 {
            f.write_str(",")?;
        }
        write!(f, "{gtid}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts and the value that MariaDB 10.11 shows after SET gtid_slave_pos; none where it refuses the text.
    #[test]
    fn texts_are_read_as_mariadb_reads_them() {
        for (text, taken) in [
            (" 0-1-5, 1-2-7", Some("0-1-5,1-2-7")),
            ("0-1-5,\t1-1-1", Some("0-1-5,1-1-1")),
            ("+0-1-5", Some("0-1-5")),
            ("0-+1-5", Some("0-1-5")),
            ("00-01-05", Some("0-1-5")),
            ("0-1-0", Some("0-1-0")),
            ("0-1-18446744073709551615", Some("0-1-18446744073709551615")),
            ("", Some("")),
            ("0-1-5 ,1-2-7", None),
            ("0-1-5 ", None),
            (" ", None),
            ("0-1", None),
            ("0-1-", None),
            ("4294967296-1-1", None),
            ("0-4294967296-1", None),
            ("0-1-18446744073709551616", None),
            ("0--1-5", None),
            ("-0-1-1", None),
            ("0-1-5,", None),
            (",0-1-5", None),
            ("0 -1-1", None),
            ("x", None),
        ] {
            let list = parse_list(text.as_bytes());
            let printed = list.map(|list| list.iter().map(Gtid::to_string).collect::<Vec<_>>().join(","));
            assert_eq!(printed.as_deref(), taken, "{text:?}");
        }
    }

    #[test]
    fn one_id_is_the_whole_text() {
        assert_eq!(Gtid::parse(b"1-2-3"), Some(Gtid::new(1, 2, 3)));
        assert_eq!(Gtid::parse(b"1-2-3,"), None);
        assert_eq!(Gtid::parse(b""), None);
    }
}

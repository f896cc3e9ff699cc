//! The sets of global transaction ids that a server keeps.

use std::collections::BTreeMap;
use std::fmt;

use super::{Gtid, parse_each, print_list};

/// Two ids of one domain in a list that may have only one: MariaDB's error 1943, which names the later id
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateDomain {
    /// The id that came first.
    pub first: Gtid,
    /// The id of the same domain behind it.
    pub second: Gtid,
}

impl fmt::Display for DuplicateDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DuplicateDomain { first, second } = self;
        write!(f, "GTID {second} and {first} conflict (duplicate domain id {})", first.domain)
    }
}

impl std::error::Error for DuplicateDomain {}

/// Why a text is not a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionError {
    /// It is not a list of GTIDs: MariaDB's error 1941.
    Unparsable,
    /// Error 1943.
    Duplicate(DuplicateDomain),
}

/// The last id of each domain, as `gtid_slave_pos` and `gtid_binlog_pos` have it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlavePosition {
    domains: BTreeMap<u32, Gtid>,
}

impl SlavePosition {
    /// Builds a position from a list with one id per domain.
    pub fn from_list(list: &[Gtid]) -> Result<SlavePosition, DuplicateDomain> {
        let mut domains: BTreeMap<u32, Gtid> = BTreeMap::new();
        for gtid in list {
            if let Some(first) = domains.insert(gtid.domain, *gtid) {
                return Err(DuplicateDomain { first, second: *gtid });
            }
        }
        Ok(SlavePosition { domains })
    }

    /// Parses a text. The first flaw decides the error, as in MariaDB.
    pub fn parse(text: &[u8]) -> Result<SlavePosition, PositionError> {
        let mut domains: BTreeMap<u32, Gtid> = BTreeMap::new();
        for gtid in parse_each(text) {
            let second = gtid.ok_or(PositionError::Unparsable)?;
            if let Some(first) = domains.insert(second.domain, second) {
                return Err(PositionError::Duplicate(DuplicateDomain { first, second }));
            }
        }
        Ok(SlavePosition { domains })
    }

    /// Makes `gtid` the last id of its domain.
    pub fn set(&mut self, gtid: Gtid) {
        self.domains.insert(gtid.domain, gtid);
    }

    /// Forgets a domain.
    pub fn remove(&mut self, domain: u32) -> Option<Gtid> {
        self.domains.remove(&domain)
    }

    /// The last id of a domain.
    pub fn get(&self, domain: u32) -> Option<Gtid> {
        self.domains.get(&domain).copied()
    }

    /// Whether the position has reached `gtid`.
    pub fn contains(&self, gtid: Gtid) -> bool {
        self.get(gtid.domain).is_some_and(|last| last.seq >= gtid.seq)
    }

    /// Whether every id of `other` is contained.
    pub fn contains_all(&self, other: &SlavePosition) -> bool {
        other.iter().all(|gtid| self.contains(gtid))
    }

    /// All ids in order of domains.
    pub fn iter(&self) -> impl Iterator<Item = Gtid> {
        self.domains.values().copied()
    }

    /// Whether there is no id.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    /// Number of domains.
    pub fn len(&self) -> usize {
        self.domains.len()
    }
}

impl fmt::Display for SlavePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_list(self.iter(), f)
    }
}

/// One domain of a [`BinlogState`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct Domain {
    /// The last number of each server.
    servers: BTreeMap<u32, u64>,
    /// The server of the domain's last id.
    last: u32,
    /// The greatest number of all.
    greatest: u64,
}

/// The last id of each server in each domain, as `gtid_binlog_state` and Gtid_list events have it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BinlogState {
    domains: BTreeMap<u32, Domain>,
}

impl BinlogState {
    /// Builds a state from a list. Within a domain the last id of the list is the domain's last one. An id
    /// replaces an earlier one of its domain and server.
    pub fn from_list(list: &[Gtid]) -> BinlogState {
        let mut state = BinlogState::default();
        list.iter().for_each(|gtid| state.set(*gtid));
        state
    }

    /// Makes `gtid` the last id of its server and its domain.
    pub fn set(&mut self, gtid: Gtid) {
        let domain = self.domains.entry(gtid.domain).or_insert_with(|| Domain {
            servers: BTreeMap::new(),
            last: gtid.server,
            greatest: 0,
        });
        domain.servers.insert(gtid.server, gtid.seq);
        domain.last = gtid.server;
        domain.greatest = domain.greatest.max(gtid.seq);
    }

    /// Allocates the next id of a domain for `server` and makes it the last one.
    pub fn next(&mut self, domain: u32, server: u32) -> Gtid {
        let greatest = self.domains.get(&domain).map_or(0, |domain| domain.greatest);
        let gtid = Gtid::new(domain, server, greatest.saturating_add(1));
        self.set(gtid);
        gtid
    }

    /// Forgets a domain.
    pub fn remove(&mut self, domain: u32) -> bool {
        self.domains.remove(&domain).is_some()
    }

    /// The last id of a server in a domain.
    pub fn get(&self, domain: u32, server: u32) -> Option<Gtid> {
        let seq = self.domains.get(&domain)?.servers.get(&server)?;
        Some(Gtid::new(domain, server, *seq))
    }

    /// The last id of a domain.
    pub fn last(&self, domain: u32) -> Option<Gtid> {
        self.get(domain, self.domains.get(&domain)?.last)
    }

    /// The greatest number of a domain, which may be greater than that of its last id.
    pub fn greatest(&self, domain: u32) -> Option<u64> {
        Some(self.domains.get(&domain)?.greatest)
    }

    /// Whether the log has `gtid`: its server has reached its number.
    pub fn contains(&self, gtid: Gtid) -> bool {
        self.get(gtid.domain, gtid.server).is_some_and(|last| last.seq >= gtid.seq)
    }

    /// The last id of each domain.
    pub fn position(&self) -> SlavePosition {
        let lasts = self.domains.keys().filter_map(|domain| Some((*domain, self.last(*domain)?)));
        SlavePosition { domains: lasts.collect() }
    }

    /// All ids by domain. Within a domain the last id comes last and the others are ordered by server.
    /// MariaDB orders the others by a hash.
    pub fn iter(&self) -> impl Iterator<Item = Gtid> {
        self.domains.iter().flat_map(|(number, domain)| {
            let others = domain.servers.iter().filter(|(server, _)| **server != domain.last);
            let last = domain.servers.get_key_value(&domain.last);
            others.chain(last).map(|(server, seq)| Gtid::new(*number, *server, *seq))
        })
    }

    /// Whether there is no id.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }
}

impl fmt::Display for BinlogState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_list(self.iter(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_list;
    use super::*;

    fn position(text: &str) -> Result<SlavePosition, DuplicateDomain> {
        SlavePosition::from_list(&parse_list(text.as_bytes()).expect(text))
    }

    fn state(text: &str) -> BinlogState {
        BinlogState::from_list(&parse_list(text.as_bytes()).expect(text))
    }

    /// Values for SET gtid_slave_pos and the value that MariaDB 10.11 then shows.
    #[test]
    fn positions_print_as_mariadb_prints_them() {
        for (text, shown) in [("5-1-3,1-2-7,0-3-4", "0-3-4,1-2-7,5-1-3"), ("", ""), ("0-1-0", "0-1-0")] {
            assert_eq!(position(text).unwrap().to_string(), shown);
        }
        let duplicate = position("0-1-5,0-2-6").unwrap_err();
        assert_eq!(duplicate.to_string(), "GTID 0-2-6 and 0-1-5 conflict (duplicate domain id 0)");
        let duplicate = Err(PositionError::Duplicate(duplicate));
        assert_eq!(SlavePosition::parse(b"0-1-5,0-2-6,x"), duplicate, "the first flaw counts");
        assert_eq!(SlavePosition::parse(b"0-1-5,x,0-2-6"), Err(PositionError::Unparsable));
        assert_eq!(SlavePosition::parse(b"3-1-5,1-2-6").unwrap().to_string(), "1-2-6,3-1-5");
        let duplicate = position("0-1-5,0-1-6").unwrap_err();
        assert_eq!(duplicate.to_string(), "GTID 0-1-6 and 0-1-5 conflict (duplicate domain id 0)");
    }

    /// Values for SET gtid_binlog_state and the state and position that MariaDB 10.11 then shows.
    #[test]
    fn states_print_as_mariadb_prints_them() {
        for (text, shown, at) in [
            ("0-1-5,0-2-6,1-1-1", "0-1-5,0-2-6,1-1-1", "0-2-6,1-1-1"),
            ("1-1-1,0-2-6,0-1-5", "0-2-6,0-1-5,1-1-1", "0-1-5,1-1-1"),
            ("0-1-5,0-1-6", "0-1-6", "0-1-6"),
            ("0-3-1,0-2-2,0-1-3", "0-2-2,0-3-1,0-1-3", "0-1-3"),
            ("5-1-1,3-1-1,4-1-1,0-1-1", "0-1-1,3-1-1,4-1-1,5-1-1", "0-1-1,3-1-1,4-1-1,5-1-1"),
            ("", "", ""),
        ] {
            let state = state(text);
            assert_eq!(state.to_string(), shown);
            assert_eq!(state.position().to_string(), at);
        }
    }

    #[test]
    fn containment_is_by_domain_and_by_server() {
        let at = position("0-1-5,1-2-7").unwrap();
        assert!(at.contains(Gtid::new(0, 9, 5)) && !at.contains(Gtid::new(0, 1, 6)));
        assert!(!at.contains(Gtid::new(2, 1, 1)));
        assert!(
            at.contains_all(&position("1-1-7").unwrap()) && !at.contains_all(&position("2-1-1").unwrap())
        );
        assert!(position("").unwrap().is_empty() && at.contains_all(&position("").unwrap()));
        let log = state("0-1-5,0-2-6");
        assert!(log.contains(Gtid::new(0, 1, 5)) && log.contains(Gtid::new(0, 2, 1)));
        assert!(!log.contains(Gtid::new(0, 1, 6)) && !log.contains(Gtid::new(0, 3, 1)));
    }

    #[test]
    fn numbers_go_on_from_the_greatest_of_a_domain() {
        let mut log = state("0-1-9,0-2-6");
        assert_eq!(log.last(0), Some(Gtid::new(0, 2, 6)));
        assert_eq!(log.next(0, 3), Gtid::new(0, 3, 10));
        assert_eq!(log.next(7, 3), Gtid::new(7, 3, 1));
        assert_eq!(log.to_string(), "0-1-9,0-2-6,0-3-10,7-3-1");
        assert_eq!(log.greatest(0), Some(10));
        assert!(log.remove(0) && !log.remove(0));
        assert_eq!(log.to_string(), "7-3-1");
        let mut full = state("0-1-18446744073709551615");
        assert_eq!(full.next(0, 1).seq, u64::MAX);
    }
}

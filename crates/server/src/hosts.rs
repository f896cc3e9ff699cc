//! Client addresses with failed handshakes: `max_connect_errors` and `host_cache_size`.
//!
//! As in MariaDB, an address is blocked with error 1129 after `max_connect_errors` failed handshakes in a row. Loopback
//! addresses and the socket are exempt, and nothing is counted with `skip_name_resolve`. Only addresses with failures take an
//! entry. The table holds `host_cache_size` entries at most; the one that failed longest ago makes room for a new one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hashbrown::HashMap;
use keel_runtime::net::Peer;
use parking_lot::Mutex;

use crate::service::address_of;
use crate::state::ServerState;

#[derive(Clone, Copy)]
struct Failures {
    count: u64,
    /// The key in [`Table::by_age`].
    stamp: u64,
}

#[derive(Default)]
struct Table {
    failures: HashMap<IpAddr, Failures>,
    by_age: BTreeMap<u64, IpAddr>,
    next_stamp: u64,
}

/// The addresses with failed handshakes.
#[derive(Default)]
pub struct FailedHosts(Mutex<Table>);

impl FailedHosts {
    /// The number of failures since the last login from this address.
    pub fn count(&self, address: IpAddr) -> u64 {
        self.0.lock().failures.get(&address).map_or(0, |known| known.count)
    }

    /// Counts a failure; the table holds `max` addresses at most.
    pub fn add(&self, address: IpAddr, max: usize) {
        let mut table = self.0.lock();
        let known = table.failures.get(&address).copied();
        if let Some(known) = known {
            table.by_age.remove(&known.stamp);
        }
        while table.by_age.len() >= max {
            let Some((_, oldest)) = table.by_age.pop_first() else { return };
            table.failures.remove(&oldest);
        }
        let stamp = table.next_stamp;
        table.next_stamp += 1;
        table.by_age.insert(stamp, address);
        let count = known.map_or(0, |known| known.count).saturating_add(1);
        table.failures.insert(address, Failures { count, stamp });
    }

    /// Forgets the failures of an address.
    pub fn remove(&self, address: IpAddr) {
        let mut table = self.0.lock();
        if let Some(known) = table.failures.remove(&address) {
            table.by_age.remove(&known.stamp);
        }
    }

    /// FLUSH HOSTS, and a change of `host_cache_size`.
    pub fn clear(&self) {
        *self.0.lock() = Table::default();
    }
}

/// The address whose failures count, if those of this peer do.
pub fn counted(peer: &Peer, state: &ServerState) -> Option<IpAddr> {
    let address = address_of(peer).filter(|address| !address.is_loopback())?;
    let globals = &state.globals;
    let is_on = !globals.named("skip_name_resolve").is_on() && globals.named("host_cache_size").as_u64() > 0;
    is_on.then_some(address)
}

/// Whether handshakes with the address of a peer have failed.
pub fn has_failures(peer: &Peer, state: &ServerState) -> bool {
    counted(peer, state).is_some_and(|address| state.failed_hosts.count(address) > 0)
}

/// After a login.
pub fn forget_failures(peer: &Peer, state: &ServerState) {
    if let Some(address) = counted(peer, state) {
        state.failed_hosts.remove(address);
    }
}

/// Counts a failed handshake of a peer.
pub fn note_failure(peer: &Peer, state: &ServerState) {
    if let Some(address) = counted(peer, state) {
        let max = state.globals.named("host_cache_size").as_u64();
        state.failed_hosts.add(address, usize::try_from(max).unwrap_or(usize::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn failures_count_up_to_a_login() {
        let hosts = FailedHosts::default();
        hosts.add(address(1), 8);
        hosts.add(address(1), 8);
        hosts.add(address(2), 8);
        assert_eq!([hosts.count(address(1)), hosts.count(address(2)), hosts.count(address(3))], [2, 1, 0]);
        hosts.remove(address(1));
        assert_eq!([hosts.count(address(1)), hosts.count(address(2))], [0, 1]);
        hosts.clear();
        assert_eq!(hosts.count(address(2)), 0);
    }

    #[test]
    fn the_address_that_failed_longest_ago_makes_room() {
        let hosts = FailedHosts::default();
        for last in [1, 2, 1, 3, 1, 4] {
            hosts.add(address(last), 2);
        }
        assert_eq!([1, 2, 3, 4].map(|last| hosts.count(address(last))), [3, 0, 0, 1]);
        assert_eq!(hosts.0.lock().by_age.len(), 2);
        assert_eq!(hosts.0.lock().failures.len(), 2);
        hosts.add(address(5), 0);
        assert_eq!([1, 4, 5].map(|last| hosts.count(address(last))), [0, 0, 0]);
    }
}

//! The simulated network: bytes arrive late, in pieces, in order within a connection and in any order between them.

use super::World;
use crate::fiber;
use crate::net::{self, Address, Conn, ConnId, ListenerCore, Peer};
use crate::time;
use crate::timer::Target;
use crate::wait::WaitEvent;
use crate::worker::{self, Worker};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

const DELAY_MICROS: (u64, u64) = (10, 300);
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
const PARTITION_LOOK: Duration = Duration::from_millis(5);

/// Listeners and connections of a world.
#[derive(Default)]
pub(super) struct Network {
    bound: BTreeSet<Address>,
    listeners: BTreeMap<Address, ListenerCore>,
    partitioned: BTreeSet<Address>,
    ends: HashMap<ConnId, End>,
    next_port: u16,
}

/// One end of a connection.
struct End {
    other: ConnId,
    /// The listener's address.
    address: Address,
    peer: Peer,
    /// On its way to this end, by time of arrival.
    queue: VecDeque<(u64, Parcel)>,
    /// The other end has been told that this one is closed.
    said_goodbye: bool,
}

enum Parcel {
    Bytes(Vec<u8>),
    /// So many bytes of this end's own have been taken by the other.
    Sent(usize),
    /// The send that is under way has failed.
    SendFailed,
    End,
}

impl End {
    /// Queues a parcel, never before one that is queued already.
    fn push(&mut self, at: u64, parcel: Parcel) -> u64 {
        let at = self.queue.back().map_or(at, |last| at.max(last.0));
        self.queue.push_back((at, parcel));
        at
    }
}

impl World {
    pub fn bind(&self, address: &Address) -> io::Result<Address> {
        let mut network = self.network.borrow_mut();
        let address = match address {
            Address::Tcp(a) if a.port() == 0 => {
                network.next_port += 1;
                Address::Tcp(SocketAddr::new(a.ip(), 20_000 + network.next_port))
            }
            other => other.clone(),
        };
        match network.bound.insert(address.clone()) {
            true => Ok(address),
            false => Err(io::ErrorKind::AddrInUse.into()),
        }
    }

    pub fn listen(&self, _w: &Worker, listener: ListenerCore) {
        self.network.borrow_mut().listeners.insert(listener.address.clone(), listener);
    }
    pub fn unlisten(&self, _w: &Worker, number: u64) {
        let mut network = self.network.borrow_mut();
        let gone: Vec<Address> =
            network.listeners.iter().filter(|(_, l)| l.number == number).map(|(a, _)| a.clone()).collect();
        for address in gone {
            network.listeners.remove(&address);
            network.bound.remove(&address);
        }
    }
    pub fn stop_listeners(&self, _w: &Worker) {
        self.network.borrow_mut().listeners.clear();
    }
    pub fn resume_listener(&self, _w: &Worker, _index: usize) {}

    /// Makes both ends of a connection to a listener; the client's.
    pub fn connect<'a>(&self, address: &Address) -> io::Result<&'a Conn> {
        let deadline = time::now() + CONNECT_PATIENCE;
        loop {
            self.delay(WaitEvent::NetConnect, DELAY_MICROS);
            let network = self.network.borrow();
            // A bound address without a server yet is a backlog: the client waits in it.
            let waits = network.bound.contains(address) && !network.listeners.contains_key(address);
            if !waits && !network.partitioned.contains(address) {
                break;
            }
            drop(network);
            if time::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            fiber::sleep_for(WaitEvent::NetConnect, PARTITION_LOOK);
        }
        let w = worker::own().expect("worlds have a worker");
        let mut network = self.network.borrow_mut();
        let server = network.listeners.get(address).map(|l| l.server.clone());
        let server = server.ok_or(io::ErrorKind::ConnectionRefused)?;
        network.next_port += 1;
        let client_peer = match address {
            Address::Tcp(a) => Peer::Tcp(SocketAddr::new(a.ip(), 40_000 + network.next_port % 20_000)),
            Address::Unix(_) => Peer::Unix,
        };
        let server_peer = match address {
            Address::Tcp(a) => Peer::Tcp(*a),
            Address::Unix(_) => Peer::Unix,
        };
        let client = w.conns.insert(-1, None);
        server.open.fetch_add(1, Ordering::AcqRel);
        let served = w.conns.insert(-1, Some(server));
        served.home_slot.set(w.group.deal.fetch_add(1, Ordering::Relaxed) % w.group.workers);
        for (own, other, peer) in [(client.id, served.id, server_peer), (served.id, client.id, client_peer)] {
            let end =
                End { other, address: address.clone(), peer, queue: VecDeque::new(), said_goodbye: false };
            network.ends.insert(own, end);
        }
        drop(network);
        client.receiving.set(true);
        w.shared.counters.accepted.add(1);
        net::attach_fresh(w, served.id);
        Ok(client)
    }

    pub fn attach(&self, _w: &Worker, conn: &Conn) -> io::Result<()> {
        conn.receiving.set(true);
        Ok(())
    }

    fn arrival(&self) -> u64 {
        let (min, max) = DELAY_MICROS;
        time::now().0 + min * 1000 + self.below((max - min) * 1000)
    }

    /// Puts a parcel on its way to an end, if that still exists.
    fn post(&self, w: &Worker, to: ConnId, at: u64, parcel: Parcel) {
        if let Some(end) = self.network.borrow_mut().ends.get_mut(&to) {
            let at = end.push(at, parcel);
            w.arm(at, Target::Delivery(to));
        }
    }

    pub fn send(&self, w: &Worker, conn: &Conn) {
        let (address, len) = conn.to_send();
        // SAFETY: the connection keeps the bytes in place until `on_sent`.
        let bytes = unsafe { std::slice::from_raw_parts(address, len) };
        let other = self.network.borrow().ends.get(&conn.id).map(|e| e.other);
        let Some(other) = other.filter(|o| self.network.borrow().ends.contains_key(o)) else {
            return self.post(w, conn.id, self.arrival(), Parcel::SendFailed);
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = if self.below(2) == 0 { rest.len() } else { 1 + self.below(rest.len() as u64) as usize };
            self.post(w, other, self.arrival(), Parcel::Bytes(rest[..n].to_vec()));
            rest = &rest[n..];
        }
        self.post(w, conn.id, self.arrival(), Parcel::Sent(len));
    }

    /// Hands over what is due at an end.
    pub fn deliver(&self, w: &Worker, id: ConnId) {
        loop {
            let parcel = {
                let mut network = self.network.borrow_mut();
                let Network { ends, partitioned, .. } = &mut *network;
                let Some(end) = ends.get_mut(&id) else { return };
                let is_due = end.queue.front().is_some_and(|p| p.0 <= time::now().0);
                if !is_due {
                    return;
                }
                if partitioned.contains(&end.address) {
                    w.arm((time::now() + PARTITION_LOOK).0, Target::Delivery(id));
                    return;
                }
                if w.conns.get(id).is_some_and(|c| c.paused.get())
                    && matches!(end.queue[0].1, Parcel::Bytes(_))
                {
                    w.arm((time::now() + PARTITION_LOOK).0, Target::Delivery(id));
                    return;
                }
                end.queue.pop_front().map(|p| p.1)
            };
            let (Some(parcel), Some(conn)) = (parcel, w.conns.get(id)) else { return };
            match parcel {
                Parcel::Bytes(bytes) => {
                    self.note(bytes.len() as u64);
                    conn.on_received(w, &bytes);
                }
                Parcel::Sent(n) => conn.on_sent(w, Ok(n)),
                Parcel::SendFailed => conn.on_sent(w, Err(libc::EPIPE)),
                Parcel::End => {
                    conn.receiving.set(false);
                    conn.on_ended(w);
                }
            }
        }
    }

    pub fn pause(&self, _conn: &Conn) {}
    pub fn resume(&self, _w: &Worker, _conn: &Conn) {}

    /// Ends both directions: this end hears nothing more, the other gets what is on its way and then the end.
    pub fn cut(&self, w: &Worker, conn: &Conn) {
        if let Some(end) = self.network.borrow_mut().ends.get_mut(&conn.id) {
            end.queue.clear();
        }
        if conn.is_sending() {
            self.post(w, conn.id, time::now().0, Parcel::SendFailed);
        }
        self.post(w, conn.id, time::now().0, Parcel::End);
        self.say_goodbye(w, conn.id);
    }

    fn say_goodbye(&self, w: &Worker, id: ConnId) {
        let other = match self.network.borrow_mut().ends.get_mut(&id) {
            Some(end) if !end.said_goodbye => {
                end.said_goodbye = true;
                end.other
            }
            _ => return,
        };
        self.post(w, other, self.arrival(), Parcel::End);
    }

    pub fn detach(&self, w: &Worker, conn: &Conn) {
        self.say_goodbye(w, conn.id);
        self.network.borrow_mut().ends.remove(&conn.id);
    }

    pub fn peer(&self, conn: &Conn) -> Peer {
        self.network.borrow().ends.get(&conn.id).map_or(Peer::Unix, |e| e.peer.clone())
    }

    pub fn cut_connections(&self, address: &Address) {
        let mut ids: Vec<ConnId> = self
            .network
            .borrow()
            .ends
            .iter()
            .filter(|(_, e)| e.address == *address)
            .map(|(id, _)| *id)
            .collect();
        ids.sort_by_key(|id| id.generation);
        let w = worker::own().expect("worlds have a worker");
        ids.into_iter().for_each(|id| net::cut(w, id));
    }
    pub fn partition(&self, address: &Address, on: bool) {
        let mut network = self.network.borrow_mut();
        if on {
            network.partitioned.insert(address.clone());
        } else {
            network.partitioned.remove(address);
        }
    }
}

//! `max_connect_errors`: addresses with too many failed handshakes are blocked.
//!
//! Loopback is exempt, so the clients connect by another address of this machine. Without one there is nothing to test.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::common::{Running, eventually, options, scratch_dir, start_with};

/// An address of this machine other than loopback. Connecting a UDP socket sends nothing.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    Some(address).filter(|address| !address.is_loopback() && !address.is_unspecified())
}

fn start(more: &[(&str, &str)]) -> Running {
    let dir = scratch_dir();
    let mut options = options(&dir).with("bind-address", "0.0.0.0").with("max-connect-errors", "2");
    for (name, value) in more {
        options = options.with(name, value);
    }
    let running = start_with(dir, options);
    let mut root = running.client();
    root.query("CREATE USER known@'%'").unwrap();
    root.query("CREATE USER locked_out@'%' IDENTIFIED BY 'password'").unwrap();
    running
}

struct Clients<'a> {
    running: &'a Running,
    address: IpAddr,
}

impl Clients<'_> {
    fn packet(stream: &mut TcpStream) -> Vec<u8> {
        let mut head = [0; 4];
        stream.read_exact(&mut head).expect("a packet");
        let mut payload = vec![0; usize::from(head[0]) | usize::from(head[1]) << 8];
        stream.read_exact(&mut payload).expect("a whole packet");
        payload
    }

    fn connect(&self) -> (TcpStream, Vec<u8>) {
        let mut stream = TcpStream::connect((self.address, self.running.port())).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let first = Self::packet(&mut stream);
        (stream, first)
    }

    fn is_blocked(&self) -> bool {
        let (_, first) = self.connect();
        let text = format!(
            "Host '{}' is blocked because of many connection errors; unblock with 'mariadb-admin flush-hosts'",
            self.address
        );
        if first[0] == 0xff {
            assert_eq!(first[1..3], 1129u16.to_le_bytes());
            assert_eq!(&first[3..], text.as_bytes());
        }
        first[0] == 0xff
    }

    fn failures(&self) -> u64 {
        self.running.server.state().failed_hosts.count(self.address)
    }

    /// Closes a greeted connection.
    fn leave(&self, failures: u64) {
        drop(self.connect());
        eventually("the failure counts", || self.failures() == failures);
    }

    /// Answers the greeting; what comes then.
    fn answer(&self, payload: &[u8]) -> Vec<u8> {
        let (mut stream, _) = self.connect();
        let mut packet = (payload.len() as u32).to_le_bytes();
        packet[3] = 1;
        stream.write_all(&[&packet, payload].concat()).unwrap();
        Self::packet(&mut stream)
    }

    fn log_in(&self, user: &str, answer: &[u8]) -> Vec<u8> {
        // PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH.
        let mut payload = 0x0008_8200u32.to_le_bytes().to_vec();
        payload.extend([0, 0, 0, 1, 45]);
        payload.extend([0; 23]);
        payload.extend(user.as_bytes());
        payload.extend([0, answer.len() as u8]);
        payload.extend(answer);
        payload.extend(b"mysql_native_password\0");
        self.answer(&payload)
    }
}

#[test]
fn failed_handshakes_block_an_address() {
    let Some(address) = own_address() else { return };
    let running = start(&[]);
    let clients = Clients { running: &running, address };
    clients.leave(1);
    assert_eq!(clients.answer(&[0x00, 0x82, 0, 0, 0])[1..3], 1043u16.to_le_bytes());
    assert_eq!(clients.failures(), 2);
    assert!(clients.is_blocked());
    let mut root = running.client();
    root.query("FLUSH HOSTS").unwrap();
    assert!(!clients.is_blocked());
    eventually("the failure counts", || clients.failures() == 1);
    clients.leave(2);
    assert!(clients.is_blocked());
    root.query("SET GLOBAL max_connect_errors = 3").unwrap();
    assert!(!clients.is_blocked());
    running.stop();
}

#[test]
fn a_login_resets_the_count_and_a_wrong_password_does_not_count() {
    let Some(address) = own_address() else { return };
    let running = start(&[]);
    let clients = Clients { running: &running, address };
    clients.leave(1);
    for _ in 0..3 {
        assert_eq!(clients.log_in("locked_out", &[7; 20])[1..3], 1045u16.to_le_bytes());
    }
    assert_eq!(clients.failures(), 1);
    // An answer of the wrong length is no password.
    assert_eq!(clients.log_in("locked_out", &[7; 5])[1..3], 1043u16.to_le_bytes());
    assert_eq!(clients.failures(), 2);
    running.client().query("SET GLOBAL max_connect_errors = 5").unwrap();
    assert_eq!(clients.log_in("known", &[])[0], 0);
    assert_eq!(clients.failures(), 0);
    running.stop();
}

#[test]
fn nothing_counts_without_a_cache_or_names() {
    let Some(address) = own_address() else { return };
    for option in [("host-cache-size", "0"), ("skip-name-resolve", "1")] {
        let running = start(&[option]);
        let clients = Clients { running: &running, address };
        for _ in 0..4 {
            assert!(!clients.is_blocked());
        }
        assert_eq!(clients.failures(), 0);
        running.stop();
    }
}

#[test]
fn loopback_is_exempt() {
    let running = start(&[]);
    let clients = Clients { running: &running, address: IpAddr::from([127, 0, 0, 1]) };
    for _ in 0..4 {
        assert!(!clients.is_blocked());
    }
    assert_eq!(clients.failures(), 0);
    running.stop();
}

//! The whole server in a simulated world: seeded scheduler, virtual clock, a disk that crashes.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use keel_runtime::net::{self, Address, Stream};
use keel_runtime::sim::{self, Disk, Outcome};
use keel_runtime::{fiber, time};
use keel_server::{Options, Server, StartError, start_on_fiber};
use keel_wire::client::{ClientError, ConnectOptions, Connection};

/// A socket that may be slow.
struct Socket {
    stream: Stream,
    /// Bytes leave one by one, that long after each other.
    pause: Duration,
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buf)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.pause.is_zero() {
            return self.stream.write(bytes);
        }
        fiber::sleep(self.pause);
        self.stream.write(&bytes[..1])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn options() -> Options {
    crate::common::options(Path::new("/keel"))
        .with("port", "3306")
        .with("innodb-buffer-pool-size", "8M")
        .with("innodb-log-file-size", "16M")
}

fn client(server: &Server) -> Connection<Socket> {
    let address = server.addresses().iter().find(|a| matches!(a, Address::Tcp(_))).expect("TCP");
    let stream = net::connect(address).expect("connects");
    let socket = Socket { stream, pause: Duration::ZERO };
    Connection::connect(socket, &ConnectOptions::default()).expect("root is let in")
}

#[test]
fn a_client_that_never_ends_its_handshake_is_dropped() {
    let outcome = sim::run(sim::Options::new(9), || {
        let server =
            start_on_fiber(options().with("connect-timeout", "5")).unwrap_or_else(|error| panic!("{error}"));
        let address = server.addresses().iter().find(|a| matches!(a, Address::Tcp(_))).expect("TCP").clone();
        for part in [&b""[..], b"\x50\0", b"\x50\0\0\x01abc"] {
            let mut stream = net::connect(&address).expect("connects");
            stream.write_all(part).expect("sends");
            let before = time::now();
            let mut byte = [0; 256];
            while stream.read(&mut byte).is_ok_and(|n| n > 0) {}
            let waited = before.elapsed();
            assert!((5..8).contains(&waited.as_secs()), "after {part:?}: {waited:?}");
        }
        let mut stream = net::connect(&address).expect("connects");
        stream.write_all(b"\x50\0\0\x01").expect("sends");
        let before = time::now();
        while !stream.connection().is_ended() {
            // Refused once the server has closed.
            let _ = stream.write_all(b"x");
            fiber::sleep(Duration::from_secs(1));
        }
        assert!((5..8).contains(&before.elapsed().as_secs()), "byte by byte: {:?}", before.elapsed());
        server.stop().unwrap();
    });
    outcome.done();
}

#[test]
fn idle_sessions_end_when_the_virtual_clock_says_so() {
    let outcome = sim::run(sim::Options::new(7), || {
        let server = start_on_fiber(options()).unwrap_or_else(|error| panic!("{error}"));
        let mut client = client(&server);
        client.query("SET SESSION wait_timeout = 60").unwrap();
        fiber::sleep(Duration::from_secs(50));
        client.ping().unwrap();
        let before = time::now();
        fiber::sleep(Duration::from_secs(70));
        assert!(matches!(client.ping(), Err(ClientError::Io(_))));
        assert!(before.elapsed() >= Duration::from_secs(70));
        server.stop().unwrap();
    });
    outcome.done();
}

#[test]
fn a_slow_packet_is_waited_for_as_long_as_something_comes() {
    let outcome = sim::run(sim::Options::new(10), || {
        let server = start_on_fiber(options()).unwrap_or_else(|error| panic!("{error}"));
        let mut client = client(&server);
        client.query("SET net_read_timeout = 5").unwrap();
        client.stream().pause = Duration::from_secs(4);
        assert_eq!(client.rows("SELECT 1").unwrap(), [["1"]]);
        client.stream().pause = Duration::from_secs(7);
        assert!(matches!(client.query("SELECT 1"), Err(ClientError::Io(_))));
        server.stop().unwrap();
    });
    outcome.done();
}

#[test]
fn a_second_server_on_the_folder_is_refused() {
    let outcome = sim::run(sim::Options::new(8), || {
        let server = start_on_fiber(options()).unwrap_or_else(|error| panic!("{error}"));
        let second = start_on_fiber(options().with("port", "3307"));
        assert!(matches!(second.err(), Some(StartError::InUse(_))));
        server.stop().unwrap();
        start_on_fiber(options()).unwrap_or_else(|error| panic!("{error}")).stop().unwrap();
    });
    outcome.done();
}

#[test]
fn acknowledged_rows_survive_crashes() {
    for seed in 1..=12u64 {
        let disk = Disk::new(seed);
        let world = || sim::Options::new(seed).with_disk(&disk);
        let acknowledged = std::sync::Mutex::new(0);
        let outcome = sim::run(world(), || {
            let server = start_on_fiber(options()).unwrap_or_else(|error| panic!("{error}"));
            let mut client = client(&server);
            client.query("CREATE TABLE test.t (id INT PRIMARY KEY, v VARCHAR(100))").unwrap();
            sim::crash_after_syncs(5 + seed * 3);
            for id in 1..1000 {
                client.query(&format!("INSERT INTO test.t VALUES ({id}, 'value {id}')")).unwrap();
                *acknowledged.lock().unwrap() = id;
            }
        });
        assert_eq!(outcome, Outcome::Crashed, "seed {seed}");
        disk.crash(seed);
        let acknowledged = *acknowledged.lock().unwrap();
        let outcome = sim::run(world(), || {
            let server = start_on_fiber(options()).unwrap_or_else(|error| panic!("{error}"));
            let mut client = client(&server);
            let rows = client.rows("SELECT id, v FROM test.t ORDER BY id").unwrap();
            assert!((acknowledged..=acknowledged + 1).contains(&rows.len()), "seed {seed}: {}", rows.len());
            for (place, row) in rows.iter().enumerate() {
                let id = place + 1;
                assert_eq!(row[..], [id.to_string(), format!("value {id}")], "seed {seed}");
            }
            let check = client.rows("CHECK TABLE test.t").unwrap();
            assert_eq!(check[0][3], "OK", "seed {seed}: {check:?}");
            server.stop().unwrap();
        });
        outcome.done();
    }
}

//! Sockets on both reactors: a line echo service and streams against it.

use crate::common::{Echo, on_each_reactor};
use keel_runtime::net::{
    self, Address, After, Connection, Peer, Server, Service, Session, Stream, connect, listen, serve,
};
use keel_runtime::sync::{Event, Mutex};
use keel_runtime::wait::WaitEvent;
use keel_runtime::{Runtime, fiber, time, worker_index};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn loopback() -> Address {
    Address::Tcp("127.0.0.1:0".parse().unwrap())
}

fn start<S: Service>(rt: &Runtime, address: &Address, service: &Arc<S>) -> (Server, Address) {
    rt.block_on(|| {
        let listener = listen(address, 2048).unwrap();
        let bound = listener.local_address();
        (serve(vec![listener], service.clone()), bound)
    })
}

fn line(stream: &mut Stream) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// Parks until `condition`, at most half a minute.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = time::now() + Duration::from_secs(30);
    while !condition() {
        assert!(time::now() < deadline, "{what} did not happen");
        fiber::sleep(Duration::from_millis(1));
    }
}

fn finish(rt: &Runtime, server: &Server, echo: &Echo) {
    rt.block_on(|| {
        server.stop_accepting();
        server.close_all();
        eventually("closing all", || server.connections() == 0);
    });
    assert_eq!(echo.connected.load(Ordering::SeqCst), echo.closed.load(Ordering::SeqCst));
}

#[test]
fn lines_come_back_over_tcp_and_unix() {
    on_each_reactor(|rt| {
        let path =
            std::env::temp_dir().join(format!("keel-net-{}-{}.sock", std::process::id(), rt.reactor_name()));
        for address in [loopback(), Address::Unix(path.clone())] {
            let echo = Arc::new(Echo::default());
            let (server, bound) = start(rt, &address, &echo);
            rt.block_on(|| {
                let mut stream = connect(&bound).unwrap();
                assert_eq!(line(&mut stream), "hello");
                for n in 0..500 {
                    stream.write_all(format!("{n}\n").as_bytes()).unwrap();
                    assert_eq!(line(&mut stream), n.to_string());
                }
                stream.write_all(b"a\nb\nquit\n").unwrap();
                assert_eq!([line(&mut stream), line(&mut stream), line(&mut stream)], ["a", "b", "bye"]);
                assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
            });
            finish(rt, &server, &echo);
        }
        std::fs::remove_file(path).unwrap();
    });
}

#[test]
fn a_thousand_connections_are_served_and_shared_out_evenly() {
    struct Count(Echo, [AtomicUsize; 2]);
    impl Service for Count {
        type Session = crate::common::EchoSession;
        fn connected(&self, conn: &mut Connection) -> Option<crate::common::EchoSession> {
            self.1[worker_index()].fetch_add(1, Ordering::SeqCst);
            Service::connected(&self.0, conn)
        }
    }
    on_each_reactor(|rt| {
        const N: usize = 1000;
        let service = Arc::new(Count(Echo::default(), Default::default()));
        let (server, bound) = start(rt, &loopback(), &service);
        rt.block_on(|| {
            let done = Arc::new((AtomicUsize::new(0), Event::new()));
            for n in 0..N {
                let (bound, done) = (bound.clone(), done.clone());
                fiber::spawn_on(n % 2, move || {
                    let mut stream = connect(&bound).unwrap();
                    assert_eq!(line(&mut stream), "hello");
                    for turn in 0..5 {
                        stream.write_all(format!("{n} {turn}\n").as_bytes()).unwrap();
                        assert_eq!(line(&mut stream), format!("{n} {turn}"));
                    }
                    done.0.fetch_add(1, Ordering::SeqCst);
                    done.1.wait(WaitEvent::Other);
                });
            }
            eventually("all clients being served", || done.0.load(Ordering::SeqCst) == N);
            assert_eq!(server.connections(), N);
            done.1.set();
        });
        assert_eq!(service.1[0].load(Ordering::SeqCst), N / 2);
        finish(rt, &server, &service.0);
    });
}

#[test]
fn a_panic_ends_its_connection_only() {
    on_each_reactor(|rt| {
        let echo = Arc::new(Echo::default());
        let (server, bound) = start(rt, &loopback(), &echo);
        rt.block_on(|| {
            let (mut one, mut two) = (connect(&bound).unwrap(), connect(&bound).unwrap());
            assert_eq!([line(&mut one), line(&mut two)], ["hello", "hello"]);
            one.write_all(b"panic\n").unwrap();
            assert_eq!(one.read(&mut [0; 8]).unwrap_or(0), 0);
            two.write_all(b"alive\n").unwrap();
            assert_eq!(line(&mut two), "alive");
        });
        finish(rt, &server, &echo);
    });
}

/// Sends back as many kilobytes as the line says, and takes large input by `fill`.
struct Bulk;
struct BulkSession;
impl Service for Bulk {
    type Session = BulkSession;
    fn connected(&self, conn: &mut Connection) -> Option<BulkSession> {
        conn.set_write_timeout(Some(Duration::from_secs(20)));
        Some(BulkSession)
    }
}
impl Session for BulkSession {
    fn data(&mut self, conn: &mut Connection) -> After {
        // Four bytes of length, then that many bytes; they come back doubled.
        while conn.input().len() >= 4 {
            let len = u32::from_le_bytes(conn.input()[..4].try_into().unwrap()) as usize;
            if conn.fill(4 + len).is_err() {
                return After::Close;
            }
            let bytes = conn.input()[4..4 + len].to_vec();
            conn.consume(4 + len);
            for chunk in bytes.chunks(100_000) {
                for _ in 0..2 {
                    conn.output().extend_from_slice(chunk);
                    if conn.flush().is_err() {
                        return After::Close;
                    }
                }
            }
        }
        After::Idle
    }
    fn closed(&mut self) {}
}

#[test]
fn much_data_goes_both_ways_though_neither_side_hurries() {
    on_each_reactor(|rt| {
        let (server, bound) = start(rt, &loopback(), &Arc::new(Bulk));
        rt.block_on(|| {
            let len = 12 << 20;
            let sent: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            let mut stream = connect(&bound).unwrap();
            stream.write_all(&(len as u32).to_le_bytes()).unwrap();
            for chunk in sent.chunks(1 << 20) {
                stream.write_all(chunk).unwrap();
                fiber::yield_now();
            }
            let mut back = vec![0; 100_000];
            for chunk in sent.chunks(100_000) {
                for _ in 0..2 {
                    stream.read_exact(&mut back[..chunk.len()]).unwrap();
                    assert!(back[..chunk.len()] == *chunk);
                }
            }
            drop(stream);
            server.close_all();
            eventually("closing", || server.connections() == 0);
        });
    });
}

#[test]
fn a_handle_cuts_a_connection_that_waits_for_input() {
    struct Waits(Mutex<Vec<net::ConnHandle>>, Arc<Mutex<Vec<ErrorKind>>>);
    struct WaitsSession(Arc<Mutex<Vec<ErrorKind>>>);
    impl Service for Waits {
        type Session = WaitsSession;
        fn connected(&self, conn: &mut Connection) -> Option<WaitsSession> {
            self.0.lock().push(conn.handle());
            conn.output().push(b'!');
            conn.flush().ok()?;
            self.1.lock().push(conn.fill(1).unwrap_err().kind());
            Some(WaitsSession(self.1.clone()))
        }
    }
    impl Session for WaitsSession {
        fn data(&mut self, _: &mut Connection) -> After {
            After::Idle
        }
        fn closed(&mut self) {
            assert_eq!(*self.0.lock(), [ErrorKind::UnexpectedEof]);
        }
    }
    on_each_reactor(|rt| {
        let service = Arc::new(Waits(Mutex::default(), Arc::default()));
        let (server, bound) = start(rt, &loopback(), &service);
        rt.block_on(|| {
            let mut stream = connect(&bound).unwrap();
            stream.read_exact(&mut [0]).unwrap();
            let handle = service.0.lock()[0];
            handle.shutdown();
            assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0);
            eventually("the end", || server.connections() == 0);
            handle.shutdown(); // of what is gone: nothing happens
        });
        assert_eq!(*service.1.lock(), [ErrorKind::UnexpectedEof]);
    });
}

#[test]
fn timeouts_of_idleness_and_of_reading_end_the_wait() {
    struct Impatient;
    struct ImpatientSession;
    impl Service for Impatient {
        type Session = ImpatientSession;
        fn connected(&self, conn: &mut Connection) -> Option<ImpatientSession> {
            conn.set_idle_timeout(Some(Duration::from_millis(20)));
            conn.set_read_timeout(Some(Duration::from_millis(5)));
            Some(ImpatientSession)
        }
    }
    impl Session for ImpatientSession {
        fn data(&mut self, conn: &mut Connection) -> After {
            assert!(matches!(conn.peer(), Peer::Tcp(a) if a.ip().is_loopback()));
            let kind = conn.fill(100).unwrap_err().kind();
            conn.consume(conn.input().len());
            conn.output().extend_from_slice(format!("{kind:?}\n").as_bytes());
            After::Idle
        }
        fn closed(&mut self) {}
    }
    on_each_reactor(|rt| {
        let (server, bound) = start(rt, &loopback(), &Arc::new(Impatient));
        rt.block_on(|| {
            let mut stream = connect(&bound).unwrap();
            stream.write_all(b"x").unwrap();
            assert_eq!(line(&mut stream), "TimedOut");
            let start = time::now();
            assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0);
            assert!(start.elapsed() >= Duration::from_millis(10));
            eventually("the end", || server.connections() == 0);
        });
    });
}

#[test]
fn connecting_to_nobody_is_refused_and_listening_twice_too() {
    on_each_reactor(|rt| {
        rt.block_on(|| {
            let listener = listen(&loopback(), 16).unwrap();
            let bound = listener.local_address();
            assert_eq!(listen(&bound, 16).err().unwrap().kind(), ErrorKind::AddrInUse);
            drop(listener);
            assert_eq!(connect(&bound).err().unwrap().kind(), ErrorKind::ConnectionRefused);
        });
        assert_eq!(connect(&loopback()).err().unwrap().kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn input_can_wake_a_fiber_that_waits_for_something_else() {
    struct Pushy;
    struct PushySession;
    impl Service for Pushy {
        type Session = PushySession;
        fn connected(&self, conn: &mut Connection) -> Option<PushySession> {
            conn.output().push(b'!');
            Some(PushySession)
        }
    }
    impl Session for PushySession {
        fn data(&mut self, conn: &mut Connection) -> After {
            let had = conn.input().len();
            conn.output().push(b'?');
            conn.flush().unwrap();
            conn.wake_on_input(true);
            while conn.poll_input().unwrap() == had {
                fiber::park(WaitEvent::Replication);
            }
            conn.output().push(b'.');
            After::Close
        }
        fn closed(&mut self) {}
    }
    on_each_reactor(|rt| {
        let (server, bound) = start(rt, &loopback(), &Arc::new(Pushy));
        rt.block_on(|| {
            let mut stream = connect(&bound).unwrap();
            let mut answer = [0];
            for (send, expect) in [(&b""[..], b'!'), (b"a", b'?'), (b"b", b'.')] {
                stream.write_all(send).unwrap();
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(answer[0], expect);
            }
            eventually("the end", || server.connections() == 0);
        });
    });
}

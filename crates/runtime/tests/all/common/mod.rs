//! What the tests of this crate share.

use keel_runtime::net::{After, Connection, Service, Session};
use keel_runtime::{Config, ReactorChoice, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `test` on a runtime of each kind this machine offers; epoll always.
pub fn on_each_reactor(test: impl Fn(&Runtime)) {
    for reactor in [ReactorChoice::Epoll, ReactorChoice::IoUring] {
        let config = Config { workers: 2, reactor, ..Config::default() };
        match Runtime::start(config) {
            Ok(runtime) => {
                test(&runtime);
                assert!(runtime.shutdown(), "{reactor:?}: fibers left over");
            }
            Err(error) => assert_eq!(reactor, ReactorChoice::IoUring, "epoll must work: {error}"),
        }
    }
}

/// Runs `test` as a fiber of each kind of runtime.
pub fn in_each_reactor(test: impl Fn() + Sync) {
    on_each_reactor(|runtime| runtime.block_on(&test));
}

/// Answers every line with the same line; `quit` ends the connection, `panic` panics.
#[derive(Default)]
pub struct Echo {
    pub connected: AtomicUsize,
    pub closed: Arc<AtomicUsize>,
}

pub struct EchoSession {
    closed: Arc<AtomicUsize>,
}

impl Service for Echo {
    type Session = EchoSession;
    fn connected(&self, conn: &mut Connection) -> Option<EchoSession> {
        self.connected.fetch_add(1, Ordering::Relaxed);
        conn.output().extend_from_slice(b"hello\n");
        Some(EchoSession { closed: self.closed.clone() })
    }
}

impl Session for EchoSession {
    fn data(&mut self, conn: &mut Connection) -> After {
        while let Some(end) = conn.input().iter().position(|b| *b == b'\n') {
            let line = conn.input()[..=end].to_vec();
            conn.consume(line.len());
            match &line[..] {
                b"quit\n" => {
                    conn.output().extend_from_slice(b"bye\n");
                    return After::Close;
                }
                b"panic\n" => panic!("asked to"),
                _ => conn.output().extend_from_slice(&line),
            }
        }
        After::Idle
    }
    fn closed(&mut self) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

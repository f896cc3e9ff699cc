//! A server and its clients in one simulated world.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use keel_runtime::fiber;
use keel_runtime::net::{self, Address, Stream};
use keel_server::{Options, Server, start_on_fiber};
use keel_testkit::history::session::{Failure, Session};
use keel_wire::client::{ClientError, ConnectOptions, Connection, Reply};

/// How a small server is set up.
pub fn options() -> Options {
    crate::common::options(Path::new("/keel"))
        .with("port", "3306")
        .with("innodb-buffer-pool-size", "5M")
        .with("innodb-log-file-size", "16M")
        .with("innodb-lock-wait-timeout", "2")
}

/// Starts the server.
pub fn start() -> Server {
    start_on_fiber(options()).unwrap_or_else(|error| panic!("{error}"))
}

/// Where it listens.
pub fn address(server: &Server) -> Address {
    server.addresses().iter().find(|a| matches!(a, Address::Tcp(_))).expect("TCP").clone()
}

/// A client; none where the server lets nobody in.
pub struct Client(Connection<Stream>);

impl Client {
    /// Connects.
    pub fn connect(address: &Address) -> Option<Client> {
        let stream = net::connect(address).ok()?;
        Connection::connect(stream, &ConnectOptions::default()).ok().map(Client)
    }

    /// Connects, or panics.
    pub fn of(server: &Server) -> Client {
        Client::connect(&address(server)).expect("root is let in")
    }

    /// Rows as text, or why there are none.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>, ClientError> {
        let rows = |reply: Reply| reply.into_rows().map(|rows| rows.text_rows()).unwrap_or_default();
        self.0.query(sql).map(rows)
    }

    /// The same of a statement that must succeed.
    pub fn must(&mut self, sql: &str) -> Vec<Vec<String>> {
        self.rows(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}

impl Session for Client {
    fn run(&mut self, sql: &str) -> Result<Vec<Vec<String>>, Failure> {
        self.rows(sql).map_err(|error| match error {
            ClientError::Server(error) => Failure::Refused(error.code),
            _ => Failure::Lost,
        })
    }
}

/// Runs all of them on fibers of their own and waits for their ends.
pub fn all(jobs: Vec<Box<dyn FnOnce() + Send>>) {
    let left = Arc::new(AtomicUsize::new(jobs.len()));
    for job in jobs {
        let left = left.clone();
        fiber::spawn(move || {
            job();
            left.fetch_sub(1, Ordering::SeqCst);
        });
    }
    while left.load(Ordering::SeqCst) != 0 {
        fiber::sleep(Duration::from_millis(1));
    }
}

//! A server in a folder of its own, over the real runtime, and clients that connect to it.

pub mod simulated;

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use keel_runtime::net::Address;
use keel_runtime::{Config, Runtime};
use keel_server::{Options, Server};
use keel_wire::client::{ClientError, ClientResult, ConnectOptions, Connection};

/// A running server; stopped and its folder removed by [`Running::stop`].
pub struct Running {
    pub runtime: Runtime,
    pub server: Server,
    pub dir: PathBuf,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

pub fn scratch_dir() -> PathBuf {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("keel-server-{}-{number}", std::process::id()));
    std::fs::remove_dir_all(&dir).ok();
    dir
}

pub fn options(dir: &std::path::Path) -> Options {
    Options::new()
        .with("datadir", &dir.display().to_string())
        .with("port", "0")
        .with("initialize-insecure", "1")
        .with("innodb-buffer-pool-size", "32M")
        .with("innodb-log-file-size", "64M")
        .with("workers", "2")
}

pub fn start_with(dir: PathBuf, options: Options) -> Running {
    let config = Config { workers: options.workers(), reactor: options.reactor, ..Config::default() };
    let runtime = Runtime::start(config).expect("a runtime starts");
    let server = keel_server::start(options, &runtime).unwrap_or_else(|error| panic!("{error}"));
    Running { runtime, server, dir }
}

pub fn start() -> Running {
    let dir = scratch_dir();
    let options = options(&dir);
    start_with(dir, options)
}

impl Running {
    pub fn port(&self) -> u16 {
        let port = self.server.addresses().iter().find_map(|address| match address {
            Address::Tcp(address) => Some(address.port()),
            Address::Unix(_) => None,
        });
        port.expect("the server listens on TCP")
    }

    pub fn tcp(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port())).expect("connects")
    }

    pub fn connect_as(&self, options: &ConnectOptions) -> ClientResult<Connection<TcpStream>> {
        Connection::connect(self.tcp(), options)
    }

    pub fn client(&self) -> Connection<TcpStream> {
        self.connect_as(&ConnectOptions::default()).expect("root is let in")
    }

    pub fn socket_client(&self) -> Connection<UnixStream> {
        let stream = UnixStream::connect(self.dir.join("mysql.sock")).expect("the socket is there");
        Connection::connect(stream, &ConnectOptions::default()).expect("root is let in")
    }

    pub fn stop(self) {
        let Running { runtime, server, dir } = self;
        runtime.block_on(|| server.stop()).expect("stops");
        runtime.shutdown();
        std::fs::remove_dir_all(dir).ok();
    }
}

/// The number of the error that a request failed with.
pub fn code<T: std::fmt::Debug>(result: ClientResult<T>) -> u16 {
    match result {
        Err(ClientError::Server(error)) => error.code,
        other => panic!("no error from the server: {other:?}"),
    }
}

/// Waits until `holds`; panics where it does not in a minute.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
    }
}

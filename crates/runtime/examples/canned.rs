//! A server that answers every prepared statement with the same row: what the network path alone costs.
//!
//! `canned PORT [epoll|uring] [WORKERS]`, then for example
//! `sysbench oltp_point_select --mysql-host=127.0.0.1 --mysql-port=PORT --tables=1 --threads=16 --time=10 --mysql-ssl=off run`.
//! A line of statistics per second goes to standard error: queries, CPU microseconds a query, enters a query.

use keel_runtime::net::{Address, After, Connection, Service, Session, listen, serve};
use keel_runtime::{Config, ReactorChoice, Runtime, fiber, stats, system};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static QUERIES: AtomicU64 = AtomicU64::new(0);

struct Canned;
struct CannedSession {
    authenticated: bool,
}

fn packet(out: &mut Vec<u8>, sequence: &mut u8, payload: &[u8]) {
    let n = payload.len();
    out.extend_from_slice(&[n as u8, (n >> 8) as u8, (n >> 16) as u8, *sequence]);
    *sequence = sequence.wrapping_add(1);
    out.extend_from_slice(payload);
}

fn ok(out: &mut Vec<u8>, sequence: &mut u8) {
    packet(out, sequence, &[0, 0, 0, 2, 0, 0, 0]);
}

fn eof(out: &mut Vec<u8>, sequence: &mut u8) {
    packet(out, sequence, &[0xfe, 0, 0, 2, 0]);
}

/// Length and bytes of the definition of column `c`, 120 characters wide.
const COLUMN: &[u8] =
    b"\x03def\x06sbtest\x07sbtest1\x07sbtest1\x01c\x01c\x0c\x2d\x00\xe0\x01\x00\x00\xfe\x00\x00\x00\x00\x00";

fn prepared(out: &mut Vec<u8>, sequence: &mut u8, text: &[u8]) {
    let parameters = text.iter().filter(|c| **c == b'?').count() as u8;
    let columns = u8::from(text.first().is_some_and(|c| c | 32 == b's'));
    packet(out, sequence, &[0, 1, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0, 0]);
    for count in [parameters, columns] {
        (0..count).for_each(|_| packet(out, sequence, COLUMN));
        if count > 0 {
            eof(out, sequence);
        }
    }
}

fn row(out: &mut Vec<u8>, sequence: &mut u8) {
    let mut bytes = [b'x'; 122];
    (bytes[0], bytes[1], bytes[2]) = (0, 0, 119);
    packet(out, sequence, &[1]);
    packet(out, sequence, COLUMN);
    eof(out, sequence);
    packet(out, sequence, &bytes);
    eof(out, sequence);
}

impl Service for Canned {
    type Session = CannedSession;
    fn connected(&self, conn: &mut Connection) -> Option<CannedSession> {
        let mut greeting = b"\x0a5.7.0-canned\0\x01\x01\x01\x01aaaaaaaa\0".to_vec();
        let capabilities: u32 = 0x200 | 0x8000 | 0x80000 | 0x1 | 0x8 | 0x2000;
        let [a, b, c, d] = capabilities.to_le_bytes();
        greeting.extend_from_slice(&[a, b, 33, 2, 0, c, d, 21]);
        greeting.extend_from_slice(&[0; 10]);
        greeting.extend_from_slice(b"aaaaaaaaaaaa\0mysql_native_password\0");
        packet(conn.output(), &mut 0, &greeting);
        Some(CannedSession { authenticated: false })
    }
}

impl Session for CannedSession {
    fn data(&mut self, conn: &mut Connection) -> After {
        loop {
            let input = conn.input();
            let Some(head) = input.get(..4) else { return After::Idle };
            let len = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            let mut sequence = head[3].wrapping_add(1);
            let Some(payload) = input.get(4..4 + len) else { return After::Idle };
            let command = payload.first().copied().unwrap_or(0);
            let text = if command == 0x16 { payload[1..].to_vec() } else { Vec::new() };
            conn.consume(4 + len);
            let out = conn.output();
            match command {
                _ if !self.authenticated => {
                    self.authenticated = true;
                    ok(out, &mut sequence);
                }
                0x16 => prepared(out, &mut sequence, &text),
                0x17 => {
                    QUERIES.fetch_add(1, Ordering::Relaxed);
                    row(out, &mut sequence);
                }
                0x19 => {}
                1 => return After::Close,
                _ => ok(out, &mut sequence),
            }
        }
    }
    fn closed(&mut self) {}
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let port: u16 = arguments.get(1).and_then(|p| p.parse().ok()).unwrap_or(3307);
    let reactor = match arguments.get(2).map(String::as_str) {
        Some("epoll") => ReactorChoice::Epoll,
        Some("uring") => ReactorChoice::IoUring,
        _ => ReactorChoice::Auto,
    };
    let workers = arguments.get(3).and_then(|n| n.parse().ok()).unwrap_or(0);
    let runtime = Runtime::start(Config { workers, reactor, ..Config::default() }).expect("a runtime");
    eprintln!("{} on port {port}", runtime.reactor_name());
    runtime.block_on(|| {
        let listener = listen(&Address::Tcp(([127, 0, 0, 1], port).into()), 4096).expect("a free port");
        let _server = serve(vec![listener], Arc::new(Canned));
        loop {
            let before = (QUERIES.load(Ordering::Relaxed), system::cpu_micros(), stats::totals());
            fiber::sleep(Duration::from_secs(1));
            let after = (QUERIES.load(Ordering::Relaxed), system::cpu_micros(), stats::totals());
            let queries = after.0 - before.0;
            if queries > 0 {
                let each = |n: u64| n as f64 / queries as f64;
                let (cpu, enters) = (
                    each(after.1.0 + after.1.1 - before.1.0 - before.1.1),
                    each(after.2.enters - before.2.enters),
                );
                eprintln!("{queries} queries/s, {cpu:.2} us of CPU and {enters:.3} enters each");
            }
        }
    });
}

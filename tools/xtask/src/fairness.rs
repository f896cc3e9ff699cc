//! `cargo x bench --only fairness`: what short statements keep beside long ones, on Keel and on MariaDB in turns.
//!
//! Eight clients of `oltp_point_select` run alone, and beside 1, 3 and 10 connections that repeat a join or a LIKE scan. Reported
//! are their queries a second and p99, also as a part of what they have alone, and the scans' rate as a part of theirs alone. Then
//! one connection sends a large statement while another sends point selects: the longest of these waits is reported.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keel_testkit::client::{Client, Login};
use keel_testkit::process::{Engine, Server};

use crate::bench::{self, Options};

const CLIENTS: u32 = 8;
const SCANS: [usize; 3] = [1, 3, 10];
/// A scan of some tens of milliseconds, so that a few seconds count many.
const LONG: [(&str, &str); 2] = [
    (
        "join",
        "SELECT COUNT(*) FROM sbtest1 a JOIN sbtest2 b ON a.id = b.id JOIN sbtest3 c ON c.id = b.id \
         WHERE a.id <= 15000 AND a.c <> b.c",
    ),
    ("LIKE", "SELECT COUNT(*) FROM sbtest1 WHERE c LIKE '%12345678901%'"),
];

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let servers = [bench::start(Engine::Keel, CLIENTS)?, bench::start(Engine::MariaDb, CLIENTS)?];
    for server in &servers {
        let mut client = connect(server, None)?;
        client.run("CREATE DATABASE sbtest").map_err(|error| error.to_string())?;
        bench::sysbench(server, "oltp_point_select", "prepare", options, 2)?;
    }
    println!(
        "| beside | server | queries/s | of alone | p99 ms | scans of alone |\n|---|---|---|---|---|---|"
    );
    for _ in 0..options.pairs {
        for (name, sql) in LONG {
            for scans in SCANS {
                for server in &servers {
                    let line = beside(server, sql, scans, options)?;
                    println!("| {scans} {name} | {} | {line} |", server.engine.name());
                }
            }
        }
    }
    println!(
        "\n| statement | server | takes ms | longest wait of another connection ms |\n|---|---|---|---|"
    );
    for (name, sql) in large() {
        for server in &servers {
            let (takes, wait) = waits(server, &sql)?;
            println!("| {name} | {} | {:.0} | {:.1} |", server.engine.name(), ms(takes), ms(wait));
        }
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn connect(server: &Server, database: Option<&str>) -> Result<Client, String> {
    let login = Login { database: database.map(str::to_string), ..Login::default() };
    Client::connect(&server.unix(), &login).map_err(|error| error.to_string())
}

/// Point selects alone and beside so many connections that repeat `sql`: the cells of a line.
fn beside(server: &Server, sql: &str, scans: usize, options: &Options) -> Result<String, String> {
    let alone = bench::measure(server, "oltp_point_select", options, CLIENTS)?;
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut clients =
        (0..scans).map(|_| connect(server, Some("sbtest"))).collect::<Result<Vec<_>, String>>()?;
    let (both, scans_alone, scans_beside) = thread::scope(|scope| {
        for client in &mut clients {
            let (stop, done) = (&stop, &done);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) && client.run(sql).is_ok() {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let began = Instant::now();
        thread::sleep(Duration::from_secs(u64::from(options.seconds)));
        let scans_alone = done.swap(0, Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
        let began = Instant::now();
        let both = bench::measure(server, "oltp_point_select", options, CLIENTS);
        let scans_beside = done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        (both, scans_alone, scans_beside)
    });
    let both = both?;
    Ok(format!(
        "{:.0} | {:.2} | {:.2} : {:.2} | {:.2}",
        both.queries_per_second,
        both.queries_per_second / alone.queries_per_second.max(1e-9),
        both.p99_ms,
        alone.p99_ms,
        scans_beside / scans_alone.max(1e-9)
    ))
}

/// Statements that are large, or work on large values.
fn large() -> Vec<(&'static str, String)> {
    let list = |count: u32, item: fn(u32) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let numbers = list(200_000, |n| (n * 7).to_string());
    let rows = list(100_000, |n| format!("({n},'row {n}')"));
    vec![
        ("200,000 IN values", format!("SELECT COUNT(*) FROM sbtest1 WHERE k IN ({numbers})")),
        ("VALUES of 100,000 rows", format!("SELECT COUNT(*) FROM (VALUES {rows}) v")),
        ("REPLACE over 16 MB", "SELECT LENGTH(REPLACE(REPEAT('ab', 4000000), 'a', 'xy'))".to_string()),
    ]
}

/// How long the statement takes, and the longest that a point select of another connection takes meanwhile.
fn waits(server: &Server, sql: &str) -> Result<(Duration, Duration), String> {
    // Connections go to the workers in turn: some of these share the worker of the large statement.
    let mut others = (0..4).map(|_| connect(server, Some("sbtest"))).collect::<Result<Vec<_>, String>>()?;
    let mut client = connect(server, Some("sbtest"))?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                for other in &mut others {
                    let began = Instant::now();
                    other.run("SELECT c FROM sbtest1 WHERE id = 5").map_err(|error| error.to_string())?;
                    longest = longest.max(began.elapsed());
                }
            }
            Ok(longest)
        });
        let began = Instant::now();
        let result = client.run(sql);
        let takes = began.elapsed();
        stop.store(true, Ordering::Relaxed);
        let longest = waits.join().map_err(|_| "a client panicked".to_string())?;
        result.map_err(|error| error.to_string())?;
        longest.map(|longest| (takes, longest))
    })
}

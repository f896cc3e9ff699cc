//! Long readers, big writers and purge: what an old snapshot costs those who read, how soon the undo is as before, what a
//! transaction over all rows of a large table takes, and how soon the history is gone after a heavy load.

use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keel_testkit::client::Client;
use keel_testkit::process::{Engine, Server};

use super::Options;
use super::figures::{Sysbench, median, status, table};

/// Rows that the writers change again and again.
const HOT_ROWS: u32 = 1000;
/// Rows that one statement changes, and how often a second each of the writers does so.
const AT_ONCE: u32 = 25;
const STATEMENTS: f64 = 100.0;
const WRITERS: u32 = 4;
const POOL_MIB: u32 = 128;
/// The history counts as gone below this.
const HISTORY_GONE: f64 = 1000.0;

struct Sizes {
    /// Seconds that the old snapshot is held.
    held: f64,
    /// Point reads of one measurement.
    reads: usize,
    /// Rows of the large table.
    rows: u64,
    /// Seconds of the load before the purge is timed.
    load: u32,
}

/// Runs the part.
pub fn run(options: &Options) -> Result<String, String> {
    let sizes = match options.quick {
        true => Sizes { held: 6.0, reads: 500, rows: 20_000, load: 3 },
        false => Sizes { held: 600.0, reads: 5000, rows: 10_000_000, load: 60 },
    };
    let mut out = format!(
        "## Long readers, big writers, purge\n\nA pool of {POOL_MIB} MiB. A reader holds a snapshot for {:.0} s while {WRITERS} \
         writers change {HOT_ROWS} rows {:.0} times a second, and an index on them; reads are medians in microseconds.\n\n",
        sizes.held,
        f64::from(WRITERS * AT_ONCE) * STATEMENTS
    );
    let mut servers = vec![start(Engine::Keel)?];
    if !options.alone {
        servers.push(start(Engine::MariaDb)?);
    }
    out += &each(&servers, long_reader, &sizes)?;
    out +=
        &format!("\nOne transaction over {} rows; seconds, and the peak of resident memory.\n\n", sizes.rows);
    out += &each(&servers, big_writer, &sizes)?;
    out += &format!("\n64 clients update and delete for {} s, then all is quiet.\n\n", sizes.load);
    out += &each(&servers, purge, &sizes)?;
    Ok(out)
}

type Figures = Vec<(&'static str, String)>;

/// A table of what `measure` gives for each server.
fn each(
    servers: &[Server],
    measure: fn(&Server, &Sizes) -> Result<Figures, String>,
    sizes: &Sizes,
) -> Result<String, String> {
    let mut head = vec![""];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for server in servers {
        head.push(server.engine.name());
        let figures = measure(server, sizes)?;
        rows.resize(figures.len(), Vec::new());
        for (row, (name, figure)) in rows.iter_mut().zip(figures) {
            if row.is_empty() {
                row.push(name.to_string());
            }
            row.push(figure);
        }
    }
    Ok(table(&head, &rows))
}

fn start(engine: Engine) -> Result<Server, String> {
    let pool = format!("--innodb-buffer-pool-size={POOL_MIB}M");
    Server::start(engine, &[&pool]).map_err(|error| format!("{}: {error}", engine.name()))
}

fn client(server: &Server) -> Result<Client, String> {
    server.client().map_err(|error| error.to_string())
}

fn run_all(client: &mut Client, statements: &[&str]) -> Result<(), String> {
    statements.iter().try_for_each(|sql| client.run(sql).map(drop).map_err(|error| error.to_string()))
}

/// Median time of a point read, in microseconds.
fn point_reads(client: &mut Client, count: usize) -> Result<f64, String> {
    reads(client, count, |n| format!("SELECT n FROM readers.t WHERE id = {n}"))
}

/// The same of a count over a tenth of the index that the writers change.
fn index_reads(client: &mut Client, count: usize) -> Result<f64, String> {
    reads(client, count / 10, |n| {
        let last = n + HOT_ROWS / 10 - 1;
        format!("SELECT COUNT(*) FROM readers.t FORCE INDEX (k) WHERE k BETWEEN {n} AND {last}")
    })
}

/// Median time of a statement with a number below [`HOT_ROWS`], in microseconds.
fn reads(client: &mut Client, count: usize, statement: impl Fn(u32) -> String) -> Result<f64, String> {
    let mut times = Vec::with_capacity(count);
    for n in 0..count as u32 {
        let sql = statement(n * 7919 % HOT_ROWS);
        let start = Instant::now();
        client.run(&sql).map_err(|error| error.to_string())?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&times))
}

/// MiB of the files that hold undo.
fn undo_mib(server: &Server) -> f64 {
    let name = if server.engine == Engine::Keel { "data/trees/undo.kt" } else { "data/ibdata1" };
    std::fs::metadata(server.dir.join(name)).map_or(0.0, |file| file.blocks() as f64 / 2048.0)
}

/// Waits until `done`, at most two minutes; seconds it took.
fn seconds_until(mut done: impl FnMut() -> Result<bool, String>) -> Result<f64, String> {
    let start = Instant::now();
    while !done()? && start.elapsed() < Duration::from_secs(120) {
        thread::sleep(Duration::from_millis(50));
    }
    Ok(start.elapsed().as_secs_f64())
}

fn history(server: &Server) -> Result<f64, String> {
    status(server, "Innodb_history_list_length")
}

/// One of the writers of the hot rows, until told to stop.
fn write_hot(server: &Server, number: u32, stop: &AtomicBool, changed: &AtomicU64) -> Result<(), String> {
    let mut client = client(server)?;
    let mut turn = number;
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let first = turn * AT_ONCE % HOT_ROWS;
        turn += WRITERS;
        let last = first + AT_ONCE - 1;
        let sql = format!(
            "UPDATE readers.t SET n = n + 1, k = (n * 31 + id * 17) % {HOT_ROWS} WHERE id BETWEEN {first} AND {last}"
        );
        run_all(&mut client, &[&sql])?;
        changed.fetch_add(u64::from(AT_ONCE), Ordering::Relaxed);
        next += Duration::from_secs_f64(1.0 / STATEMENTS);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn long_reader(server: &Server, sizes: &Sizes) -> Result<Figures, String> {
    let mut other = client(server)?;
    let table = "CREATE TABLE readers.t (id INT PRIMARY KEY, n INT NOT NULL, k INT NOT NULL, pad CHAR(100) NOT NULL, KEY (k))";
    run_all(&mut other, &["CREATE DATABASE readers", table])?;
    let rows: Vec<String> = (0..HOT_ROWS).map(|id| format!("({id}, 0, {id}, 'x')")).collect();
    run_all(&mut other, &[&format!("INSERT INTO readers.t VALUES {}", rows.join(", "))])?;
    let (stop, changed) = (AtomicBool::new(false), AtomicU64::new(0));
    let failed = Mutex::new(None);
    let figures = thread::scope(|scope| {
        for number in 0..WRITERS {
            let (stop, changed, failed) = (&stop, &changed, &failed);
            scope.spawn(move || {
                if let Err(error) = write_hot(server, number, stop, changed) {
                    *failed.lock().expect("nobody panics") = Some(error);
                }
            });
        }
        let figures = beside_writers(server, sizes, &mut other, &changed);
        stop.store(true, Ordering::Relaxed);
        figures
    })?;
    match failed.into_inner().expect("nobody panics") {
        Some(error) => Err(error),
        None => Ok(figures),
    }
}

fn beside_writers(
    server: &Server,
    sizes: &Sizes,
    other: &mut Client,
    changed: &AtomicU64,
) -> Result<Figures, String> {
    thread::sleep(Duration::from_secs(1));
    let before = point_reads(other, sizes.reads)?;
    let index_before = index_reads(other, sizes.reads)?;
    let mut old = client(server)?;
    run_all(&mut old, &["START TRANSACTION WITH CONSISTENT SNAPSHOT"])?;
    let (start, changed_before) = (Instant::now(), changed.load(Ordering::Relaxed));
    let old_at_first = point_reads(&mut old, sizes.reads)?;
    thread::sleep(Duration::from_secs_f64(sizes.held).saturating_sub(start.elapsed()));
    let rate = (changed.load(Ordering::Relaxed) - changed_before) as f64 / start.elapsed().as_secs_f64();
    let during = point_reads(other, sizes.reads)?;
    let index_during = index_reads(other, sizes.reads)?;
    let old_at_last = point_reads(&mut old, sizes.reads)?;
    let (peak, longest) = (undo_mib(server), history(server)?);
    run_all(&mut old, &["COMMIT"])?;
    let gone = seconds_until(|| Ok(history(server)? < HISTORY_GONE))?;
    let floor = peak.min(32.0);
    let given_back = seconds_until(|| Ok(undo_mib(server) <= floor))?;
    let given_back =
        if undo_mib(server) <= floor { format!("{:.1} s", gone + given_back) } else { "never".into() };
    Ok(vec![
        ("changes per second", format!("{rate:.0}")),
        (
            "point reads of others, before and at the end",
            format!("{before:.0}, {during:.0}: **{:.2}**", during / before),
        ),
        (
            "counts over 100 values of the changed index, before and at the end",
            format!("{index_before:.0}, {index_during:.0}: **{:.2}**", index_during / index_before),
        ),
        (
            "point reads of the old reader, at first and at the end",
            format!("{old_at_first:.0}, {old_at_last:.0}: **{:.2}**", old_at_last / old_at_first),
        ),
        ("history at the end", format!("{longest:.0}")),
        ("history below 1000 after its end", format!("**{gone:.1} s**")),
        ("undo file at the end", format!("{peak:.0} MiB")),
        ("undo file at most 32 MiB after", given_back),
    ])
}

/// Seconds that a statement takes.
fn timed(client: &mut Client, sql: &str) -> Result<f64, String> {
    let start = Instant::now();
    run_all(client, &[sql])?;
    Ok(start.elapsed().as_secs_f64())
}

fn big_writer(server: &Server, sizes: &Sizes) -> Result<Figures, String> {
    let mut client = client(server)?;
    let columns = "(id BIGINT PRIMARY KEY, n INT NOT NULL, pad VARCHAR(60) NOT NULL)";
    let tables = ["source", "t"].map(|name| format!("CREATE TABLE large.{name} {columns}"));
    run_all(&mut client, &["CREATE DATABASE large", &tables[0], &tables[1]])?;
    run_all(&mut client, &["INSERT INTO large.source VALUES (0, 0, REPEAT('p', 50))"])?;
    let mut there = 1;
    while there < sizes.rows {
        let more = there.min(sizes.rows - there);
        let sql = format!(
            "INSERT INTO large.source SELECT id + {there}, n, pad FROM large.source WHERE id < {more}"
        );
        run_all(&mut client, &[&sql])?;
        there += more;
    }
    server.reset_peak();
    let mut figures = Figures::new();
    let steps = [
        ("INSERT ... SELECT, rolled back", "INSERT INTO large.t SELECT * FROM large.source", "ROLLBACK"),
        ("INSERT ... SELECT, committed", "INSERT INTO large.t SELECT * FROM large.source", "COMMIT"),
        ("UPDATE, rolled back", "UPDATE large.t SET n = n + 1, pad = REVERSE(pad)", "ROLLBACK"),
        ("UPDATE, committed", "UPDATE large.t SET n = n + 1, pad = REVERSE(pad)", "COMMIT"),
        ("DELETE, rolled back", "DELETE FROM large.t", "ROLLBACK"),
        ("DELETE, committed", "DELETE FROM large.t", "COMMIT"),
    ];
    for (name, sql, end) in steps {
        run_all(&mut client, &["BEGIN"])?;
        let (forth, ending) = (timed(&mut client, sql)?, timed(&mut client, end)?);
        figures.push((name, format!("{forth:.1}, then {ending:.1}")));
    }
    let gone = seconds_until(|| Ok(history(server)? < HISTORY_GONE))?;
    figures.push(("history below 1000 after that", format!("{gone:.1} s")));
    figures.push(("peak of memory", format!("**{} MiB**", server.peak_bytes() >> 20)));
    run_all(&mut client, &["DROP DATABASE large"])?;
    Ok(figures)
}

fn purge(server: &Server, sizes: &Sizes) -> Result<Figures, String> {
    let load = |test| Sysbench {
        test,
        tables: 4,
        rows: if sizes.load < 10 { 10_000 } else { 500_000 },
        clients: 64,
        seconds: sizes.load,
        more: vec!["--rand-type=uniform".into()],
    };
    load("oltp_write_only").prepare(server)?;
    let mut figures = Figures::new();
    for (name, test) in [
        (
            "oltp_write_only: transactions/s, history at the end, seconds until it is below 1000",
            "oltp_write_only",
        ),
        ("oltp_update_index: the same", "oltp_update_index"),
        ("oltp_delete: the same", "oltp_delete"),
    ] {
        let ran = load(test).run(server)?;
        let left = history(server)?;
        let gone = seconds_until(|| Ok(history(server)? < HISTORY_GONE))?;
        figures.push((name, format!("{:.0}, {left:.0}, **{gone:.1}**", ran.per_second)));
    }
    Ok(figures)
}

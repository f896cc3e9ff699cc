//! `cargo x bench`: all of sysbench's database tests on Keel without settings and on MariaDB with an expert's, side by side.
//!
//! Both servers are durable (a commit is on disk before it is acknowledged) and read and write around the page cache. For
//! each test and number of clients the servers take turns, A B B A, so that a drift of the machine's speed hits both; the
//! medians of their ratios are reported. The client runs on the same machine. CPU per query is the server process's user
//! and system time over the queries that it answered. One JSON line per measurement goes to `bench-out/bench.jsonl`.
//!
//! sysbench compiles its script anew in each of its threads. A trace that LuaJIT gives up unwinds the stack under a lock of
//! the whole process, and with a thousand threads these waits of the client for itself are most of the slow answers it counts
//! in its first seconds. The figures are therefore those after a warm-up ([`warm_up`]).

use keel_testkit::SYSBENCH_TESTS;
use keel_testkit::process::{Engine, Server};
use std::fs::{self, File};
use std::io::Write;
use std::process::Command;

use crate::engine::figures;

/// bulk_insert's tables have the names of the others but not their columns.
const BULK_DATABASE: &str = "bulk";

/// From this many clients on an expert gives MariaDB its thread pool.
const POOL_FROM_CLIENTS: u32 = 500;

pub(crate) struct Options {
    pub seconds: u32,
    pub pairs: u32,
    /// The only part to run, if it has a name of its own.
    only: Option<String>,
    clients: Vec<u32>,
    tests: Vec<String>,
    tables: u32,
    rows: u32,
}

pub(crate) struct Measured {
    pub queries_per_second: f64,
    pub p99_ms: f64,
    cpu_us: f64,
    errors: f64,
}

/// Seconds until so many threads of sysbench have compiled their scripts.
fn warm_up(clients: u32) -> u32 {
    (clients / 25).clamp(1, 10)
}

/// Parses the command line and runs.
pub fn run(args: &[String]) -> Result<(), String> {
    let options = parse(args)?;
    if options.only.is_some() {
        return crate::fairness::run(&options);
    }
    fs::create_dir_all("bench-out").map_err(|error| error.to_string())?;
    let mut journal =
        File::options().create(true).append(true).open("bench-out/bench.jsonl").map_err(|e| e.to_string())?;
    println!(
        "{} tables of {} rows, {} s a run, {} pairs; Keel without settings : MariaDB tuned\n",
        options.tables, options.rows, options.seconds, options.pairs
    );
    println!(
        "| test | clients | queries/s | ratio | p99 ms | CPU us/query | errors |\n|---|---|---|---|---|---|---|"
    );
    for clients in &options.clients {
        let keel = start(Engine::Keel, *clients)?;
        let maria = start(Engine::MariaDb, *clients)?;
        for server in [&keel, &maria] {
            let mut client = server.client().map_err(|error| error.to_string())?;
            for database in ["sbtest", BULK_DATABASE] {
                client.run(&format!("CREATE DATABASE {database}")).map_err(|error| error.to_string())?;
            }
            sysbench(server, "oltp_read_write", "prepare", &options, 2)?;
        }
        for test in &options.tests {
            let mut ours = Vec::new();
            let mut theirs = Vec::new();
            for pair in 0..options.pairs {
                let order = if pair % 2 == 0 { [&keel, &maria] } else { [&maria, &keel] };
                for server in order {
                    let measured = measure(server, test, &options, *clients)?;
                    record(&mut journal, server.engine, test, *clients, &measured, &options)?;
                    if server.engine == Engine::Keel { ours.push(measured) } else { theirs.push(measured) }
                }
            }
            report(test, *clients, &ours, &theirs);
        }
    }
    Ok(())
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        seconds: 20,
        pairs: 3,
        only: None,
        clients: vec![16, 128, 1000],
        tests: SYSBENCH_TESTS.iter().map(|test| test.to_string()).collect(),
        tables: 8,
        rows: 100_000,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--quick" {
            (options.seconds, options.pairs, options.rows) = (5, 1, 20_000);
            continue;
        }
        let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
        let number = || value.parse::<u32>().map_err(|_| format!("{arg}: {value} is not a number"));
        match arg.as_str() {
            "--seconds" => options.seconds = number()?,
            "--only" if value == "fairness" => options.only = Some(value.clone()),
            "--pairs" => options.pairs = number()?.max(1),
            "--rows" => options.rows = number()?,
            "--tables" => options.tables = number()?,
            "--tests" => options.tests = value.split(',').map(str::to_string).collect(),
            "--clients" => {
                let list: Result<Vec<u32>, _> = value.split(',').map(str::parse).collect();
                options.clients = list.map_err(|_| format!("--clients: {value} is not a list of numbers"))?;
            }
            _ => return Err(format!("no such option: {arg}")),
        }
    }
    Ok(options)
}

pub(crate) fn start(engine: Engine, clients: u32) -> Result<Server, String> {
    let expert = [
        "--innodb-buffer-pool-size=4G",
        "--innodb-log-file-size=2G",
        "--innodb-log-buffer-size=64M",
        "--innodb-flush-method=O_DIRECT",
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-io-capacity=10000",
        "--innodb-io-capacity-max=20000",
        "--innodb-flush-neighbors=0",
        "--query-cache-type=0",
        "--query-cache-size=0",
        "--table-open-cache=8000",
        "--max-connections=6000",
        "--max-prepared-stmt-count=1048576",
        "--back-log=4000",
        "--skip-log-bin",
    ];
    let mut options: Vec<&str> = match engine {
        Engine::Keel => vec![],
        Engine::MariaDb => expert.to_vec(),
    };
    if engine == Engine::MariaDb && clients >= POOL_FROM_CLIENTS {
        options.push("--thread-handling=pool-of-threads");
    }
    Server::start(engine, &options).map_err(|error| format!("{}: {error}", engine.name()))
}

pub(crate) fn sysbench(
    server: &Server,
    test: &str,
    command: &str,
    options: &Options,
    threads: u32,
) -> Result<String, String> {
    let warm_up = if command == "run" && test != "bulk_insert" { warm_up(threads) } else { 0 };
    let mut sysbench = Command::new("sysbench");
    if warm_up > 0 {
        sysbench.arg(format!("--report-checkpoints={warm_up}"));
    }
    let output = sysbench
        .arg(test)
        .arg(format!("--mysql-socket={}", server.socket().display()))
        .arg(format!("--mysql-db={}", if test == "bulk_insert" { BULK_DATABASE } else { "sbtest" }))
        .args(["--mysql-user=root", "--db-driver=mysql", "--percentile=99"])
        .args(["--mysql-ignore-errors=1213,1020,1205,1062", "--max-requests=0"])
        .arg(format!("--tables={}", if test == "bulk_insert" { threads } else { options.tables }))
        .arg(format!("--table-size={}", options.rows))
        .arg(format!("--time={}", warm_up + options.seconds))
        .arg(format!("--threads={threads}"))
        .arg(command)
        .output()
        .map_err(|error| format!("sysbench: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let tail = |text: &str| {
        text.lines()
            .rev()
            .take(12)
            .map(|line| line.chars().take(200).collect::<String>())
            .collect::<Vec<_>>()
            .join("\n")
    };
    Err(format!("{} {test} {command}:\n{}\n{}", server.engine.name(), tail(&text), server.log_tail()))
}

pub(crate) fn measure(
    server: &Server,
    test: &str,
    options: &Options,
    clients: u32,
) -> Result<Measured, String> {
    if test == "bulk_insert" {
        sysbench(server, test, "prepare", options, clients)?;
    }
    let before = server.cpu_time();
    let text = sysbench(server, test, "run", options, clients)?;
    let cpu = server.cpu_time() - before;
    if test == "bulk_insert" {
        sysbench(server, test, "cleanup", options, clients)?;
    }
    // One report at the end of the warm-up, one of what came after it.
    let reports: Vec<&str> = text.split("SQL statistics:").skip(1).collect();
    let last = reports.last().copied().unwrap_or(&text);
    let all_queries: f64 = reports.iter().map(|report| number(report, "queries:", 0)).sum();
    Ok(Measured {
        queries_per_second: number(last, "queries:", 1),
        p99_ms: number(last, "99th percentile", 0),
        cpu_us: cpu.as_secs_f64() * 1e6 / all_queries.max(1.0),
        errors: number(last, "ignored errors:", 0),
    })
}

/// The `field`th word behind the label, as a number; 0 if there is none.
fn number(report: &str, label: &str, field: usize) -> f64 {
    let line = report.lines().find(|line| line.trim_start().starts_with(label)).unwrap_or_default();
    let word = line.split(':').nth(1).unwrap_or_default().split_whitespace().nth(field).unwrap_or_default();
    word.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0.0)
}

fn record(
    journal: &mut File,
    engine: Engine,
    test: &str,
    clients: u32,
    m: &Measured,
    options: &Options,
) -> Result<(), String> {
    let commit =
        Command::new("git").args(["rev-parse", "--short", "HEAD"]).output().map(|output| output.stdout);
    let commit = String::from_utf8_lossy(&commit.unwrap_or_default()).trim().to_string();
    writeln!(
        journal,
        "{{\"commit\":\"{commit}\",\"engine\":\"{}\",\"test\":\"{test}\",\"clients\":{clients},\"tables\":{},\"rows\":{},\
         \"seconds\":{},\"qps\":{:.1},\"p99_ms\":{:.2},\"cpu_us\":{:.2},\"errors\":{}}}",
        engine.name(),
        options.tables,
        options.rows,
        options.seconds,
        m.queries_per_second,
        m.p99_ms,
        m.cpu_us,
        m.errors
    )
    .map_err(|error| error.to_string())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    figures::median(&values.collect::<Vec<_>>())
}

fn report(test: &str, clients: u32, ours: &[Measured], theirs: &[Measured]) {
    let ratio =
        median(ours.iter().zip(theirs).map(|(a, b)| a.queries_per_second / b.queries_per_second.max(1e-9)));
    let pair =
        |field: fn(&Measured) -> f64| (median(ours.iter().map(field)), median(theirs.iter().map(field)));
    let (queries, their_queries) = pair(|m| m.queries_per_second);
    let (p99, their_p99) = pair(|m| m.p99_ms);
    let (cpu, their_cpu) = pair(|m| m.cpu_us);
    let (errors, their_errors) = pair(|m| m.errors);
    println!(
        "| {test} | {clients} | {queries:.0} : {their_queries:.0} | **{ratio:.2}** | {p99:.1} : {their_p99:.1} | \
         {cpu:.1} : {their_cpu:.1} | {errors:.0} : {their_errors:.0} |"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_bad_ones_named() {
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
        let options = parse(&words("--quick --clients 4,8 --tests oltp_insert")).unwrap();
        assert_eq!((options.clients, options.tests), (vec![4, 8], vec!["oltp_insert".to_string()]));
        assert!(parse(&words("--seconds x")).is_err());
        assert!(parse(&words("--what 1")).is_err());
    }

    #[test]
    fn numbers_are_read_from_a_report() {
        let report = "    queries performed:\n    queries:   576035 (57596.98 per sec.)\n    99th percentile:  155.80\n";
        assert_eq!((number(report, "queries:", 0), number(report, "queries:", 1)), (576_035.0, 57_596.98));
        assert_eq!((number(report, "99th percentile", 0), number(report, "avg:", 0)), (155.8, 0.0));
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    }
}

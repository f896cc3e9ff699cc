//! Unmodified sysbench against Keel: every database test, over TCP and socket, prepared statements and text; and TPC-C.

use keel_testkit::SYSBENCH_TESTS;
use keel_testkit::process::{Engine, Server};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn sysbench(server: &Server, test: &str, command: &str, extra: &[&str]) {
    let mut args: Vec<String> =
        ["--mysql-user=root", "--mysql-db=sbtest", "--db-driver=mysql"].map(str::to_string).to_vec();
    if extra.contains(&"tcp") {
        args.extend(["--mysql-host=127.0.0.1".to_string(), format!("--mysql-port={}", server.port)]);
    } else {
        args.push(format!("--mysql-socket={}", server.socket().display()));
    }
    args.extend(extra.iter().filter(|option| **option != "tcp").map(|option| option.to_string()));
    let output =
        Command::new("sysbench").arg(test).args(&args).arg(command).output().expect("sysbench is installed");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !text.contains("FATAL"),
        "{test} {extra:?} {command}:\n{text}\n{}",
        server.log_tail()
    );
    if command == "run" {
        let transactions = text
            .lines()
            .find(|line| line.contains("transactions:") || line.contains("total number of events"));
        let count =
            transactions.and_then(|line| line.split_whitespace().find_map(|word| word.parse::<u64>().ok()));
        assert!(count.is_some_and(|count| count > 0), "{test} {extra:?} did nothing:\n{text}");
    }
}

fn all_tests(server: &Server, shape: &[&str]) {
    for test in SYSBENCH_TESTS {
        // sysbench itself refuses more than one table for the random selects.
        let tables = match *test {
            "bulk_insert" => "--tables=4",
            "select_random_points" | "select_random_ranges" => "--tables=1",
            _ => "--tables=2",
        };
        let common = [shape, &[tables, "--table-size=2000", "--threads=4"]].concat();
        sysbench(server, test, "prepare", &common);
        sysbench(server, test, "run", &[&common[..], &["--time=1"]].concat());
        sysbench(server, test, "cleanup", &common);
    }
}

fn server_with_database() -> Server {
    let server = Server::start(Engine::Keel, &[]).expect("keel starts");
    server.client().expect("connects").run("CREATE DATABASE sbtest").expect("database");
    server
}

#[test]
fn every_test_runs_prepared_over_the_socket() {
    all_tests(&server_with_database(), &[]);
}

#[test]
fn every_test_runs_as_text_over_tcp() {
    all_tests(&server_with_database(), &["tcp", "--db-ps-mode=disable"]);
}

#[test]
fn the_shapes_of_the_tables_and_transactions() {
    let server = server_with_database();
    for shape in ["--auto-inc=off", "--skip-trx=on", "--secondary=on", "--create-secondary=off"] {
        // Outside a transaction two clients may delete and insert the same row in turn: a duplicate, as in MariaDB.
        let common =
            [shape, "--tables=1", "--table-size=2000", "--threads=4", "--mysql-ignore-errors=1213,1205,1062"];
        for test in ["oltp_read_write", "oltp_insert"] {
            sysbench(&server, test, "prepare", &common);
            sysbench(&server, test, "run", &[&common[..], &["--time=1"]].concat());
            sysbench(&server, test, "cleanup", &common);
        }
    }
}

#[test]
fn a_thousand_clients_on_both_reactors() {
    for reactor in ["--reactor=auto", "--reactor=epoll"] {
        let server = Server::start(Engine::Keel, &[reactor, "--max-connections=2000"]).expect("keel starts");
        server.client().expect("connects").run("CREATE DATABASE sbtest").expect("database");
        let common = ["--tables=2", "--table-size=5000"];
        sysbench(&server, "oltp_read_write", "prepare", &common);
        for test in ["oltp_point_select", "oltp_update_non_index"] {
            sysbench(&server, test, "run", &[&common[..], &["--threads=1000", "--time=3"]].concat());
        }
    }
}

/// TPC-C (`tools/lab/tpcc.lua`), made small, as a running process.
fn tpcc(server: &Server, command: &str, extra: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/tpcc.lua");
    let mut sysbench = Command::new("sysbench");
    sysbench.arg(script).args(["--mysql-user=root", "--mysql-db=sbtest", "--db-driver=mysql"]);
    sysbench.arg(format!("--mysql-socket={}", server.socket().display()));
    sysbench.args(["--warehouses=2", "--items=2000", "--customers=90"]).args(extra).arg(command);
    sysbench.stdout(Stdio::piped()).stderr(Stdio::piped());
    sysbench
}

fn tpcc_done(server: &Server, command: &str, extra: &[&str]) -> String {
    let output = tpcc(server, command, extra).output().expect("sysbench is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}:\n{text}\n{errors}\n{}", server.log_tail());
    text
}

#[test]
fn tpcc_with_foreign_keys_stays_consistent_through_kill_9() {
    let mut server = server_with_database();
    tpcc_done(&server, "prepare", &["--threads=4"]);
    tpcc_done(&server, "check", &[]);
    for _ in 0..2 {
        let mut clients =
            tpcc(&server, "run", &["--threads=64", "--time=60"]).spawn().expect("sysbench runs");
        std::thread::sleep(Duration::from_secs(3));
        assert!(
            clients.try_wait().expect("its state").is_none(),
            "the clients gave up\n{}",
            server.log_tail()
        );
        server.kill();
        // sysbench may wait for ever for threads that have lost their server.
        clients.kill().expect("sysbench ends");
        clients.wait().expect("it has ended");
        server.launch().expect("recovers");
        tpcc_done(&server, "check", &[]);
    }
    let report = tpcc_done(&server, "run", &["--threads=64", "--time=2"]);
    let rate = report.lines().find_map(|line| line.trim().strip_prefix("new orders per minute:"));
    let rate: f64 = rate.and_then(|rate| rate.trim().parse().ok()).expect(&report);
    assert!(rate > 0.0, "{report}");
    assert_eq!(tpcc_done(&server, "check", &[]).matches("holds:").count(), 12);
}

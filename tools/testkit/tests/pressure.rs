//! Data larger than the pool: the server keeps its memory bound and never stands still.
//!
//! A program of its own: no second may pass without a transaction, so no other suite may load the machine beside it.

use keel_testkit::process::{Engine, Server};
use std::process::Command;

const POOL_MIB: u64 = 32;
/// What the server may use beside the pool.
const BESIDE_POOL_MIB: u64 = 200;

/// What a worker takes beside the pool does not depend on the machine's cores.
fn start() -> Server {
    Server::start(Engine::Keel, &["--innodb-buffer-pool-size=32M", "--workers=2"]).expect("keel starts")
}

#[test]
fn four_times_the_pool_in_read_write() {
    let server = start();
    server.client().expect("connects").run("CREATE DATABASE sbtest").expect("database");
    let socket = format!("--mysql-socket={}", server.socket().display());
    let common =
        [socket.as_str(), "--mysql-user=root", "--mysql-db=sbtest", "--db-driver=mysql", "--tables=4"];
    let shape = ["--table-size=140000", "--threads=4"];
    let prepare =
        Command::new("sysbench").arg("oltp_read_write").args(common).args(shape).arg("prepare").output();
    let prepare = prepare.expect("sysbench is installed");
    assert!(prepare.status.success(), "{}\n{}", String::from_utf8_lossy(&prepare.stdout), server.log_tail());
    server.reset_peak();
    let output = Command::new("sysbench")
        .arg("oltp_read_write")
        .args(common)
        .args(["--table-size=140000", "--threads=64", "--time=10", "--report-interval=1"])
        .arg("run")
        .output()
        .expect("sysbench runs");
    let peak = server.peak_bytes();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", server.log_tail());
    let limit = (POOL_MIB + BESIDE_POOL_MIB) << 20;
    assert!(peak < limit, "{} MiB resident with a pool of {POOL_MIB}", peak >> 20);
    let seconds: Vec<&str> = text.lines().filter(|line| line.starts_with("[ ")).collect();
    assert!(seconds.len() >= 8, "{text}");
    let still = seconds.iter().filter(|line| line.contains("tps: 0.00")).count();
    assert_eq!(still, 0, "a second without a transaction:\n{text}");
}

#[test]
fn large_transactions_take_bounded_memory() {
    let server = start();
    let mut client = server.client().expect("connects");
    for sql in [
        "CREATE DATABASE m",
        "USE m",
        "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, s VARCHAR(60) NOT NULL, KEY (k))",
        "INSERT INTO t VALUES (0, 0, REPEAT('x', 40))",
    ] {
        client.run(sql).expect(sql);
    }
    for power in 0..18 {
        let step = 1 << power;
        let sql =
            format!("INSERT INTO t SELECT id + {step}, (id * 7919 + {step}) % 10007, CONCAT(id, s) FROM t");
        client.run(&sql.replace("CONCAT(id, s)", "LEFT(CONCAT(id, s), 50)")).expect("doubles");
    }
    // Beside the pool there are some forty for the program and its threads, and what the allocator has not given back yet.
    let limit = POOL_MIB + 140;
    let undone = [
        "SELECT COUNT(s) FROM t FORCE INDEX (k) WHERE k >= 0 FOR UPDATE",
        "UPDATE t SET s = REVERSE(s) ORDER BY s, id",
        "INSERT IGNORE INTO t SELECT * FROM t",
        "UPDATE t a JOIN t b ON a.id = b.id SET a.s = REVERSE(b.s)",
        "DELETE FROM t",
    ];
    for sql in undone {
        server.reset_peak();
        for sql in ["BEGIN", sql, "ROLLBACK"] {
            client.run(sql).expect(sql);
        }
        let peak = server.peak_bytes() >> 20;
        assert!(peak < limit, "{sql}: {peak} MiB resident with a pool of {POOL_MIB}");
    }
}

/// A number that the server tells.
fn number(client: &mut keel_testkit::client::Client, sql: &str) -> u64 {
    let text = client.one(sql).expect(sql).scalar().expect(sql);
    text.parse().expect(sql)
}

#[test]
fn a_long_reader_sees_its_rows_and_its_undo_goes_with_it() {
    let server = start();
    let mut writer = server.client().expect("connects");
    for sql in [
        "CREATE DATABASE h",
        "USE h",
        "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, s VARCHAR(200) NOT NULL, KEY (k))",
    ] {
        writer.run(sql).expect(sql);
    }
    let rows: Vec<String> = (1..=1000).map(|n| format!("({n}, {n}, REPEAT('a', 200))")).collect();
    writer.run(&format!("INSERT INTO t VALUES {}", rows.join(", "))).expect("rows");
    let mut reader = server.client_in("h").expect("connects");
    reader.run("START TRANSACTION WITH CONSISTENT SNAPSHOT").expect("snapshot");
    let seen = ["SELECT SUM(k) FROM t", "SELECT COUNT(*) FROM t FORCE INDEX (k) WHERE k <= 1000"];
    let undo = server.dir.join("data/trees/undo.kt");
    let undo_mib = || std::fs::metadata(&undo).expect("undo").len() >> 20;
    for round in 0..120 {
        let letter = char::from(b'b' + round % 20);
        writer.run(&format!("UPDATE t SET k = k + 1, s = REPEAT('{letter}', 200)")).expect("update");
        if round % 40 == 39 {
            assert_eq!(seen.map(|sql| number(&mut reader, sql)), [500_500, 1000], "in round {round}");
        }
    }
    let peak = undo_mib();
    assert!(peak > 24, "{peak} MiB of undo are too few to tell anything");
    reader.run("COMMIT").expect("ends");
    let history = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
                   WHERE VARIABLE_NAME = 'Innodb_history_list_length'";
    let start = std::time::Instant::now();
    while number(&mut writer, history) != 0 || undo_mib() > 16 {
        assert!(start.elapsed().as_secs() < 60, "{} MiB of undo are left", undo_mib());
        std::thread::yield_now();
    }
    assert_eq!(seen.map(|sql| number(&mut reader, sql)), [620_500, 880]);
}

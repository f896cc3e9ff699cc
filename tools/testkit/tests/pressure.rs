//! Data larger than the pool: the server keeps its memory bound and never stands still.

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
    // Beside the pool there are some thirty for the program and its threads.
    let limit = POOL_MIB + 100;
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

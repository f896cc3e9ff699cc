//! Data larger than the pool: the server keeps its memory bound and never stands still.

use keel_testkit::process::{Engine, Server};
use std::process::{Command, Stdio};
use std::time::Duration;

const POOL_MIB: u64 = 32;
/// What the server may use beside the pool.
const BESIDE_POOL_MIB: u64 = 200;

#[test]
fn four_times_the_pool_in_read_write() {
    let server = Server::start(Engine::Keel, &["--innodb-buffer-pool-size=32M"]).expect("keel starts");
    server.client().expect("connects").run("CREATE DATABASE sbtest").expect("database");
    let socket = format!("--mysql-socket={}", server.socket().display());
    let common =
        [socket.as_str(), "--mysql-user=root", "--mysql-db=sbtest", "--db-driver=mysql", "--tables=4"];
    let shape = ["--table-size=140000", "--threads=4"];
    let prepare =
        Command::new("sysbench").arg("oltp_read_write").args(common).args(shape).arg("prepare").output();
    let prepare = prepare.expect("sysbench is installed");
    assert!(prepare.status.success(), "{}\n{}", String::from_utf8_lossy(&prepare.stdout), server.log_tail());
    let mut run = Command::new("sysbench")
        .arg("oltp_read_write")
        .args(common)
        .args(["--table-size=140000", "--threads=64", "--time=10", "--report-interval=1"])
        .arg("run")
        .stdout(Stdio::piped())
        .spawn()
        .expect("sysbench runs");
    let mut resident = 0;
    while run.try_wait().expect("waits").is_none() {
        resident = resident.max(server.resident_bytes());
        std::thread::sleep(Duration::from_millis(100));
    }
    let output = run.wait_with_output().expect("ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", server.log_tail());
    let limit = (POOL_MIB + BESIDE_POOL_MIB) << 20;
    assert!(resident < limit, "{} MiB resident with a pool of {POOL_MIB}", resident >> 20);
    let seconds: Vec<&str> = text.lines().filter(|line| line.starts_with("[ ")).collect();
    assert!(seconds.len() >= 8, "{text}");
    let still = seconds.iter().filter(|line| line.contains("tps: 0.00")).count();
    assert_eq!(still, 0, "a second without a transaction:\n{text}");
}

//! Little memory and many clients: the kernel never has to kill, and sizes change under load without a stall.
//!
//! A program of its own: it measures how long clients wait, so no other suite may load the machine beside it.

use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use keel_testkit::container::Container;
use keel_testkit::process::{Engine, Server};

const MIB: u64 = 1 << 20;
const ROWS: u32 = 100_000;

fn sysbench(server: &Server, clients: u32, seconds: u32, word: &str) -> Child {
    Command::new("sysbench")
        .arg("oltp_read_write")
        .arg(format!("--mysql-socket={}", server.socket().display()))
        .args(["--mysql-user=root", "--mysql-db=sbtest", "--db-driver=mysql", "--tables=2"])
        .args(["--mysql-ignore-errors=1213"])
        .arg(format!("--table-size={ROWS}"))
        .arg(format!("--threads={clients}"))
        .arg(format!("--time={seconds}"))
        .arg(word)
        .stdout(Stdio::piped())
        .spawn()
        .expect("sysbench is installed")
}

fn finish(child: Child, server: &Server) {
    let output = child.wait_with_output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", server.log_tail());
}

fn load(server: &Server) {
    server.client().expect("connects").run("CREATE DATABASE sbtest").expect("database");
    finish(sysbench(server, 2, 0, "prepare"), server);
}

/// A server with so much memory; none where no control group can be made.
fn contained(bytes: u64) -> Option<(Container, Server)> {
    let Some(container) = Container::new(bytes) else {
        eprintln!("no control group can be made here");
        return None;
    };
    let mut server = Server::start(Engine::Keel, &["--workers=2"]).expect("keel starts");
    server.stop().expect("stops");
    server.set_wrapper(container.wrapper());
    server.launch().expect("keel starts in the container");
    Some((container, server))
}

#[test]
fn a_small_container_serves_many_clients() {
    let Some((container, mut server)) = contained(256 * MIB) else { return };
    let mut client = server.client().expect("connects");
    let limit = client.one("SELECT @@keel_memory_limit").expect("known").scalar().expect("a number");
    let limit: u64 = limit.parse().expect("a number");
    assert!(limit < 256 * MIB && limit > 150 * MIB, "{limit}");
    load(&server);
    let run = sysbench(&server, 400, 8, "run");
    // Sorts, keys and long packets beside them.
    for size in [1, 2, 4, 8].iter().cycle().take(24) {
        let long = format!("SELECT LENGTH('{}')", "x".repeat(*size << 20));
        client.run(&long).expect("a long packet");
        client
            .run("SELECT c, pad FROM sbtest.sbtest1 ORDER BY pad, c LIMIT 90000, 1")
            .expect("a sort beyond its memory");
        client.run("SELECT COUNT(DISTINCT c) FROM sbtest.sbtest2").expect("a set beyond its memory");
    }
    finish(run, &server);
    assert_eq!(container.kills(), 0);
    let rows = client.one("SELECT * FROM information_schema.KEEL_MEMORY").expect("shown").strings();
    let process = rows.iter().find(|row| row[0] == "process").expect("the whole");
    assert_eq!(process[1], limit.to_string());
    assert!(process[3].parse::<u64>().expect("a number") < 256 * MIB, "{rows:?}");
    // Sizes beyond the container's are not given to anybody, whatever the machine has.
    let told =
        client.run("SET GLOBAL innodb_buffer_pool_size = 1073741824").expect_err("there is less").to_string();
    assert!(told.contains("Out of memory"), "{told}");
    client.run("SET GLOBAL keel_memory_limit = 1073741824").expect("as much as there is");
    let whole = client.one("SELECT @@keel_memory_limit").expect("known").scalar();
    assert_eq!(whole, Some((256 * MIB).to_string()));
    server.stop().expect("stops");
}

/// Statements of one client, as long as `go_on` says; the longest that it waited for an answer.
fn longest_wait(server: &Server, go_on: &AtomicBool) -> Duration {
    let mut client = server.client_in("sbtest").expect("connects");
    let mut longest = Duration::ZERO;
    let mut id = 1;
    while go_on.load(Ordering::SeqCst) {
        id = (id * 7919 + 13) % ROWS + 1;
        let sql = format!("UPDATE sbtest1 SET pad = REVERSE(pad) WHERE id = {id}");
        let start = Instant::now();
        client.run(&sql).expect("it is served");
        longest = longest.max(start.elapsed());
        std::thread::sleep(Duration::from_millis(1));
    }
    longest
}

#[test]
fn sizes_change_under_load_and_through_a_kill() {
    let mut server =
        Server::start(Engine::Keel, &["--workers=2", "--innodb-buffer-pool-size=128M"]).expect("starts");
    load(&server);
    let run = sysbench(&server, 32, 8, "run");
    let go_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| longest_wait(&server, &go_on));
        let mut client = server.client().expect("connects");
        for (pool, redo) in [(8, 64), (256, 256), (16, 32), (64, 1024), (6, 64), (128, 128)] {
            client.run(&format!("SET GLOBAL innodb_buffer_pool_size = {}", pool * MIB)).expect("resized");
            let size = client.one("SELECT @@innodb_buffer_pool_size").expect("known").scalar();
            assert_eq!(size, Some((pool * MIB).to_string()));
            client.run(&format!("SET GLOBAL innodb_log_file_size = {}", redo * MIB)).expect("resized");
        }
        go_on.store(false, Ordering::SeqCst);
        // How long depends on the machine; that it does not wait for the whole of a resize is the promise.
        let longest = waiting.join().expect("served");
        assert!(longest < Duration::from_secs(10), "{longest:?}");
    });
    finish(run, &server);
    let mut dying = server.client().expect("connects");
    let shrinks =
        std::thread::spawn(move || dying.run("SET GLOBAL innodb_buffer_pool_size = 6291456").is_ok());
    server.kill();
    let _ = shrinks.join();
    server.launch().expect("starts again");
    let mut client = server.client_in("sbtest").expect("connects");
    let checked = client.one("CHECK TABLE sbtest1").expect("checked").strings();
    assert_eq!(checked[0][3], "OK");
    let count = client.one("SELECT COUNT(*) FROM sbtest1").expect("counted").scalar();
    assert_eq!(count, Some(ROWS.to_string()));
    server.stop().expect("stops");
}

#[test]
fn many_clients_with_long_values_and_groups_fit() {
    let Some((container, mut server)) = contained(288 * MIB) else { return };
    let mut client = server.client().expect("connects");
    for sql in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE d.wide (id INT PRIMARY KEY, b LONGBLOB)",
        "INSERT INTO d.wide SELECT seq, REPEAT(CHAR(64 + seq), 6000000) FROM seq_1_to_3",
        "CREATE TABLE d.notes (id INT PRIMARY KEY, c VARCHAR(40))",
        "INSERT INTO d.notes SELECT seq, MD5(seq) FROM seq_1_to_50000",
    ] {
        client.run(sql).expect("made");
    }
    let statements = [
        "SELECT b FROM wide",
        "SELECT REPEAT('x', 6000000), REPEAT('y', 6000000)",
        "SELECT c, COUNT(*) FROM notes GROUP BY c ORDER BY 2 DESC LIMIT 1",
        "SELECT COUNT(DISTINCT c, id) FROM notes",
        "SELECT c FROM notes UNION SELECT CONCAT(c, id) FROM notes ORDER BY 1 LIMIT 1",
        "SELECT LENGTH(GROUP_CONCAT(c, c, c)) FROM notes",
        "SELECT LENGTH(JSON_ARRAYAGG(c)) FROM notes",
    ];
    std::thread::scope(|scope| {
        for statement in (0..140).map(|number| statements[number % statements.len()]) {
            let mut client = server.client_in("d").expect("connects");
            scope.spawn(move || {
                client.run("SET group_concat_max_len = 16000000").expect("set");
                client.run(statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
            });
        }
    });
    assert_eq!(container.kills(), 0);
    server.stop().expect("stops");
}

#[test]
fn many_clients_that_sort_join_list_and_lock_fit() {
    const LOCKERS: usize = 60;
    let Some((container, mut server)) = contained(288 * MIB) else { return };
    let mut client = server.client().expect("connects");
    for sql in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE d.notes (id INT PRIMARY KEY, c VARCHAR(40), p VARCHAR(200))",
        "INSERT INTO d.notes SELECT seq, MD5(seq), REPEAT(MD5(seq), 4) FROM seq_1_to_40000",
    ] {
        client.run(sql).expect("made");
    }
    let listed = |ids: Range<u32>| {
        let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
        format!("SELECT COUNT(*) FROM notes WHERE id IN ({})", ids.join(","))
    };
    let statements = [
        ("SELECT c FROM notes ORDER BY p, c LIMIT 39999, 1".to_string(), None),
        ("SELECT COUNT(DISTINCT c, p) FROM notes".to_string(), Some("40000")),
        (listed(30_000..38_000), Some("8000")),
        (listed(1..8_001), Some("8000")),
        (
            "SELECT COUNT(*) FROM notes a JOIN notes b ON a.p = b.p WHERE b.id < 5000".to_string(),
            Some("4999"),
        ),
    ];
    let locked = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (statement, answer) in (0..250).map(|number| &statements[number % statements.len()]) {
            let mut client = server.client_in("d").expect("connects");
            scope.spawn(move || {
                let found =
                    client.one(statement).unwrap_or_else(|error| panic!("{statement:.60}: {error:?}"));
                let found = found.scalar().expect("a value");
                assert!(answer.is_none_or(|answer| found == answer), "{statement:.60}: {found}");
            });
        }
        for _ in 0..LOCKERS {
            let mut client = server.client_in("d").expect("connects");
            let locked = &locked;
            scope.spawn(move || {
                client.run("BEGIN").expect("begun");
                client.run("SELECT MAX(p) FROM notes LOCK IN SHARE MODE").expect("locked");
                locked.fetch_add(1, Ordering::SeqCst);
                // All of them have all locks at once.
                let start = Instant::now();
                while locked.load(Ordering::SeqCst) < LOCKERS && start.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(10));
                }
                client.run("ROLLBACK").expect("ended");
            });
        }
    });
    assert_eq!(container.kills(), 0);
    server.stop().expect("stops");
}

#[test]
fn a_long_log_is_recovered_in_a_small_container() {
    let Some((container, mut server)) = contained(240 * MIB) else { return };
    let mut client = server.client().expect("connects");
    for sql in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b VARCHAR(40), KEY (a), KEY (b))",
        "INSERT INTO d.t VALUES (0, 0, 'kept')",
        "BEGIN",
        "INSERT INTO d.t SELECT seq, seq * 7 % 1000003, MD5(seq) FROM seq_1_to_500000",
        "UPDATE d.t SET b = CONCAT(b, 'x'), a = a + 1 WHERE id BETWEEN 1 AND 200000",
    ] {
        client.run(sql).expect("done");
    }
    // What others commit makes the log durable behind all that.
    server.client().expect("connects").run("CREATE TABLE d.later (id INT)").expect("made");
    server.kill();
    server.launch().expect("keel starts again in the container");
    // A pool of 37 MiB, and a few windows of the log.
    let peak = server.peak_bytes() / MIB;
    assert!(peak < 190, "recovery took {peak} MiB of 240");
    let mut client = server.client_in("d").expect("connects");
    client.run("INSERT INTO later VALUES (1)").expect("others work while the rest is taken back");
    let count = client.one("SELECT COUNT(*) FROM t").expect("counted").scalar();
    assert_eq!(count.as_deref(), Some("1"));
    assert_eq!(container.kills(), 0);
    server.stop().expect("stops");
}

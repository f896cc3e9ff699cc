//! Temporary tables: what is on the disk of them, and for how long; `kill -9` with many of them at work.

use keel_testkit::client::Client;
use keel_testkit::process::{Engine, Server};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The files of temporary trees.
fn files(server: &Server) -> Vec<String> {
    let names = std::fs::read_dir(server.dir.join("data/trees")).expect("the folder of trees");
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with("tmp")).collect()
}

/// Waits until there are so many: a connection's end is not waited for.
fn expect_files(server: &Server, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while files(server).len() != count && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(files(server).len(), count, "{:?}", files(server));
}

fn make(client: &mut Client) {
    client.run("CREATE TEMPORARY TABLE one (a INT PRIMARY KEY, b INT, KEY (b))").expect("made");
    client.run("CREATE TEMPORARY TABLE two SELECT 1 AS a").expect("made");
    client.run("INSERT INTO one VALUES (1, 1), (2, 2)").expect("rows");
}

#[test]
fn they_go_with_their_session() {
    let mut server = Server::start(Engine::Keel, &[]).expect("keel starts");
    let mut client = server.client_in("test").expect("connects");
    make(&mut client);
    expect_files(&server, 3);
    client.run("ALTER TABLE one ADD COLUMN c INT, ADD KEY (c)").expect("altered");
    expect_files(&server, 4);
    client.run("TRUNCATE two").expect("truncated");
    client.run("CREATE OR REPLACE TEMPORARY TABLE one (a INT)").expect("replaced");
    expect_files(&server, 2);
    client.run("BEGIN").expect("begun");
    client.run("INSERT INTO one VALUES (1)").expect("a row");
    client.reset().expect("reset");
    expect_files(&server, 0);
    client.run("USE test").expect("a database");
    assert_eq!(client.one("SELECT * FROM two").expect("an answer").error_code(), Some(1146));
    make(&mut client);
    expect_files(&server, 3);
    drop(client);
    expect_files(&server, 0);
    // One that is killed, in the middle of a transaction.
    let mut client = server.client_in("test").expect("connects");
    make(&mut client);
    client.run("BEGIN").expect("begun");
    client.run("UPDATE one SET b = b + 1").expect("updated");
    let id = client.one("SELECT CONNECTION_ID()").expect("an id").scalar().expect("an id");
    server.client().expect("connects").run(&format!("KILL {id}")).expect("killed");
    expect_files(&server, 0);
    // And a server that stops meanwhile.
    let mut client = server.client_in("test").expect("connects");
    make(&mut client);
    assert!(server.stop().expect("stops").success());
    server.check().expect("nothing is wrong");
    server.launch().expect("starts");
    expect_files(&server, 0);
}

/// Makes, fills, changes and drops temporary tables, with a row in a table that lasts for each round.
fn work(mut client: Client, number: u64, rounds: &AtomicU64, stop: &AtomicBool) -> Option<u64> {
    let mut acknowledged = None;
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return acknowledged;
        }
        let statements = [
            format!(
                "CREATE OR REPLACE TEMPORARY TABLE t{} (a INT PRIMARY KEY, b VARCHAR(2000), KEY (b)) CHARSET latin1",
                round % 5
            ),
            "BEGIN".to_string(),
            format!("INSERT INTO t{} SELECT n, REPEAT('x', n * 7) FROM lasting.numbers", round % 5),
            format!("UPDATE t{} SET b = CONCAT('y', b) WHERE a < 150", round % 5),
            format!("DELETE FROM t{} WHERE a > 100", round % 5),
            format!("INSERT INTO lasting.rounds VALUES ({number}, {round})"),
            if round % 4 == 3 { "ROLLBACK".to_string() } else { "COMMIT".to_string() },
        ];
        for sql in &statements {
            if client.run(sql).is_err() {
                return acknowledged;
            }
        }
        if round % 4 != 3 {
            acknowledged = Some(round);
        }
        rounds.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

#[test]
fn a_killed_server_leaves_none_and_loses_nothing_else() {
    let mut server = Server::start(Engine::Keel, &["--innodb-buffer-pool-size=16M"]).expect("keel starts");
    let mut client = server.client().expect("connects");
    client.run("CREATE DATABASE lasting").expect("a database");
    client.run("CREATE TABLE lasting.numbers (n INT PRIMARY KEY)").expect("a table");
    client.run("INSERT INTO lasting.numbers WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 200) SELECT n FROM r").expect("rows");
    client
        .run("CREATE TABLE lasting.rounds (client INT, round INT, PRIMARY KEY (client, round))")
        .expect("a table");
    for life in 0..3u64 {
        client.run("TRUNCATE lasting.rounds").expect("empty");
        let (rounds, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let workers: Vec<_> = (0..6)
            .map(|number| {
                let client = server.client_in("test").expect("connects");
                let (rounds, stop) = (rounds.clone(), stop.clone());
                std::thread::spawn(move || work(client, number, &rounds, &stop))
            })
            .collect();
        let deadline = Instant::now() + Duration::from_secs(60);
        while rounds.load(Ordering::Relaxed) < 60 + life * 17 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!files(&server).is_empty());
        server.kill();
        stop.store(true, Ordering::Relaxed);
        let acknowledged: Vec<_> =
            workers.into_iter().map(|worker| worker.join().expect("a worker")).collect();
        server.check().unwrap_or_else(|what| panic!("life {life}: {what}"));
        server.launch().expect("starts");
        expect_files(&server, 0);
        client = server.client().expect("connects");
        for (number, round) in acknowledged.into_iter().enumerate() {
            let Some(round) = round else { continue };
            let sql =
                format!("SELECT COUNT(*) FROM lasting.rounds WHERE client = {number} AND round <= {round}");
            let kept = client.one(&sql).expect("a count").scalar().expect("a count");
            assert_eq!(kept, (0..=round).filter(|round| round % 4 != 3).count().to_string(), "life {life}");
        }
    }
    drop(client);
    assert!(server.stop().expect("stops").success());
    server.check().expect("nothing is wrong after a clean stop");
}

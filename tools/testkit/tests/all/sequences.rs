//! Sequences under many sessions and `kill -9`: no value is given twice, and no more than CACHE of them are lost.

use keel_testkit::Random;
use keel_testkit::client::Client;
use keel_testkit::process::{self, Engine, Server};
use std::collections::HashSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SEQUENCES: [(&str, i64); 3] = [("many", 1000), ("few", 3), ("single", 1)];
const SESSIONS: u64 = 8;

/// Values that a session was given, by sequence.
type Given = [Vec<i64>; SEQUENCES.len()];

fn value(client: &mut Client, sql: &str) -> Option<i64> {
    client.one(sql).ok()?.scalar()?.parse().ok()
}

/// Takes values until the server is gone or `stop` is set; some in transactions that are rolled back.
fn take(mut client: Client, seed: u64, taken: &AtomicU64, stop: &AtomicBool) -> Given {
    let mut random = Random::new(seed);
    let mut given = Given::default();
    while !stop.load(Ordering::Relaxed) {
        let which = random.below(SEQUENCES.len() as u64) as usize;
        let rolled_back = random.below(4) == 0;
        if rolled_back && client.run("BEGIN").is_err() {
            break;
        }
        let Some(value) = value(&mut client, &format!("SELECT NEXTVAL({})", SEQUENCES[which].0)) else {
            break;
        };
        given[which].push(value);
        taken.fetch_add(1, Ordering::Relaxed);
        if rolled_back && client.run("ROLLBACK").is_err() {
            break;
        }
    }
    given
}

/// Lets sessions take values until so many were taken, then does `end`; gives what they got.
fn load(server: &mut Server, seed: u64, target: u64, end: impl FnOnce(&mut Server)) -> Given {
    let (taken, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let client = server.client_in("test").expect("connects");
            let (taken, stop) = (taken.clone(), stop.clone());
            std::thread::spawn(move || take(client, seed + number, &taken, &stop))
        })
        .collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    while taken.load(Ordering::Relaxed) < target && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(taken.load(Ordering::Relaxed) >= target, "sessions stand still\n{}", server.log_tail());
    end(server);
    stop.store(true, Ordering::Relaxed);
    let mut all = Given::default();
    for session in sessions {
        let given = session.join().expect("a session ends");
        all.iter_mut().zip(given).for_each(|(all, given)| all.extend(given));
    }
    all
}

#[test]
fn no_value_is_given_twice_whenever_the_server_is_killed() {
    let seed: u64 = std::env::var("KEEL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20261123);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut server = Server::start(Engine::Keel, &["--innodb-buffer-pool-size=16M"]).expect("keel starts");
    let mut client = server.client_in("test").expect("connects");
    for (name, cache) in SEQUENCES {
        let cache = if cache == 1 { "NOCACHE".to_string() } else { format!("CACHE {cache}") };
        client.run(&format!("CREATE SEQUENCE {name} {cache}")).expect("a sequence");
    }
    drop(client);
    let mut seen: [HashSet<i64>; SEQUENCES.len()] = Default::default();
    let mut lives = 0;
    for round in 0..4 {
        let target = 200 + random.below(600);
        let given = load(&mut server, seed + 100 * round, target, |server| match round % 2 {
            0 => server.kill(),
            _ => drop(server.stop().expect("stops")),
        });
        lives += 1;
        for (which, given) in given.iter().enumerate() {
            for value in given {
                let (name, _) = SEQUENCES[which];
                assert!(seen[which].insert(*value), "seed {seed}, round {round}: {name} gave {value} twice");
            }
        }
        server.check().unwrap_or_else(|what| panic!("seed {seed}, round {round}: {what}"));
        server.launch().expect("starts");
    }
    let mut client = server.client_in("test").expect("connects");
    for (which, (name, cache)) in SEQUENCES.into_iter().enumerate() {
        let next = value(&mut client, &format!("SELECT NEXTVAL({name})")).expect("a value");
        assert!(seen[which].iter().all(|value| *value < next), "{name} goes back to {next}");
        // What was reserved at each end, and one answer for each session that the kill cut off. Where CACHE is small those
        // that wait share a reservation.
        let lost = next - 1 - seen[which].len() as i64;
        let most = lives * (cache.max(SESSIONS as i64) + SESSIONS as i64);
        assert!((0..=most).contains(&lost), "{name} lost {lost} values, {most} at most were to be");
    }
}

#[test]
fn sessions_share_a_sequence_without_gaps() {
    let mut server = Server::start(Engine::Keel, &[]).expect("keel starts");
    let mut client = server.client_in("test").expect("connects");
    for (name, cache) in SEQUENCES {
        client.run(&format!("CREATE SEQUENCE {name} CACHE {}", cache - cache % 2)).expect("a sequence");
    }
    let given = load(&mut server, 1, 3000, |_| {});
    for (given, (name, _)) in given.iter().zip(SEQUENCES) {
        let all: HashSet<i64> = given.iter().copied().collect();
        assert_eq!(all.len(), given.len(), "{name} gave a value twice");
        // Each answer was waited for, so nothing lies between them.
        assert_eq!(all.iter().max().copied(), Some(given.len() as i64), "{name} left values out");
    }
    // Who has taken a value holds nothing that others wait for.
    client.run("BEGIN").expect("begun");
    client.run("SELECT NEXTVAL(single)").expect("a value");
    let mut other = server.client_in("test").expect("connects");
    other.run("SET lock_wait_timeout = 1, innodb_lock_wait_timeout = 1").expect("set");
    other.run("SELECT NEXTVAL(single)").expect("another value");
    assert_eq!(value(&mut client, "SELECT NEXTVAL(single) - LASTVAL(single)"), Some(0));
}

/// What `mariadb-dump` says of database `test`.
fn dump(server: &Server) -> String {
    let socket = format!("--socket={}", server.socket().display());
    let words = ["--no-defaults", "--user=root", "--skip-dump-date", &socket, "test"];
    let output = Command::new("mariadb-dump").args(words).output().expect("mariadb-dump runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a dump is text")
}

/// Gives statements to the `mariadb` client.
fn restore(server: &Server, statements: &str) {
    let socket = format!("--socket={}", server.socket().display());
    let mut child = Command::new("mariadb")
        .args(["--no-defaults", "--user=root", &socket, "test"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mariadb runs");
    process::feed(&mut child, statements.as_bytes());
    let output = child.wait_with_output().expect("mariadb ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_dump_of_mariadb_comes_in_and_goes_back() {
    let maria = Server::start(Engine::MariaDb, &[]).expect("mariadb starts");
    let keel = Server::start(Engine::Keel, &[]).expect("keel starts");
    maria.client().expect("connects").run("CREATE DATABASE IF NOT EXISTS test").expect("a database");
    let mut source = maria.client_in("test").expect("connects");
    for sql in [
        "CREATE SEQUENCE up START WITH 5 INCREMENT BY 3 CACHE 7 CYCLE MAXVALUE 1000",
        "CREATE SEQUENCE down INCREMENT BY -1 NOCACHE COMMENT='goes down'",
        "SELECT NEXTVAL(up), NEXTVAL(down)",
        "CREATE TABLE t (a INT NOT NULL DEFAULT NEXTVAL(up) PRIMARY KEY, b INT)",
        "INSERT INTO t (b) VALUES (1), (2)",
    ] {
        source.run(sql).expect("a definition");
    }
    let dumped = dump(&maria);
    restore(&keel, &dumped);
    let again = dump(&keel);
    let statements = |dump: &str| -> Vec<String> {
        let plain = dump.lines().filter(|line| !line.starts_with("--") && !line.starts_with("/*"));
        plain.map(str::to_string).collect()
    };
    assert_eq!(statements(&dumped), statements(&again));
    let mut client = keel.client_in("test").expect("connects");
    let row = |client: &mut Client, name: &str| {
        client.one(&format!("SELECT * FROM {name}")).expect("a row").strings()
    };
    for name in ["up", "down"] {
        assert_eq!(row(&mut client, name), row(&mut source, name), "{name}");
    }
}

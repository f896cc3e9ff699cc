//! kill -9 in the middle of writing, and again while the server recovers and rolls back: what was acknowledged is there, whole,
//! and nothing else is; and what lies in the folder in between has nothing wrong with it.

use keel_testkit::Random;
use keel_testkit::client::Client;
use keel_testkit::ledger::{self, Load};
use keel_testkit::process::{Engine, Server};
use std::fs;
use std::time::{Duration, Instant};

/// Rows of a table all of which one transaction changes that never ends: its rollback takes a while.
const BULK: u32 = 12_000;

/// Rounds of load and kill; `KEEL_CRASH_ROUNDS=200` is the long form.
fn rounds() -> u64 {
    std::env::var("KEEL_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

/// `KEEL_SEED`, or always the same; printed.
fn seed() -> u64 {
    let seed = std::env::var("KEEL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20261121);
    println!("seed {seed}");
    seed
}

fn create_bulk(client: &mut Client) {
    client
        .run("CREATE TABLE ledger.bulk (id INT PRIMARY KEY, v INT NOT NULL, pad VARCHAR(100), KEY (v))")
        .expect("created");
    for first in (0..BULK).step_by(2000) {
        let rows: Vec<String> =
            (first..first + 2000).map(|id| format!("({id}, 7, REPEAT('x', {}))", id % 90)).collect();
        client.run(&format!("INSERT INTO ledger.bulk VALUES {}", rows.join(","))).expect("filled");
    }
}

/// Begins what will be unfinished when the server dies.
fn begin_bulk(server: &Server) -> Client {
    let mut client = server.client_in("ledger").expect("connects");
    client.run("BEGIN").expect("begun");
    client.run("UPDATE bulk SET v = v + 1, pad = 'unfinished'").expect("updated");
    client.run("DELETE FROM bulk WHERE id % 5 = 0").expect("deleted");
    client
}

/// Nothing of what was unfinished is left once it is rolled back.
fn verify_bulk(client: &mut Client) -> Result<(), String> {
    let fail = |error: std::io::Error| error.to_string();
    let found =
        client.run("SELECT COUNT(*), MIN(v), MAX(v), SUM(LENGTH(pad)) FROM ledger.bulk").map_err(fail)?;
    let length: u32 = (0..BULK).map(|id| id % 90).sum();
    let expected = [BULK.to_string(), "7".into(), "7".into(), length.to_string()];
    if found.strings()[0] != expected {
        return Err(format!("{:?} of the bulk rows, expected {expected:?}", found.strings()[0]));
    }
    // Waits until all rows are given back.
    client.run("SELECT COUNT(*) FROM ledger.bulk FOR UPDATE").map_err(fail)?;
    for row in client.run("CHECK TABLE ledger.bulk").map_err(fail)?.strings() {
        if row[3] != "OK" {
            return Err(format!("CHECK TABLE: {row:?}"));
        }
    }
    Ok(())
}

#[test]
fn acknowledged_transactions_survive_kill_9_and_further_ones_during_recovery_and_rollback() {
    const CLIENTS: usize = 64;
    let seed = seed();
    let mut random = Random::new(seed);
    let mut server = Server::start(Engine::Keel, &["--innodb-buffer-pool-size=64M"]).expect("keel starts");
    let mut client = server.client().expect("connects");
    ledger::create(&mut client).expect("tables");
    create_bulk(&mut client);
    drop(client);
    let mut acknowledged = vec![0; CLIENTS];
    for round in 0..rounds() {
        let load =
            Load::start(&server, CLIENTS, seed + 1000 * round, acknowledged.clone()).expect("load starts");
        let target = load.total() + 300 + 400 * (round % 3);
        let open = begin_bulk(&server);
        let deadline = Instant::now() + Duration::from_secs(60);
        while load.total() < target {
            assert!(Instant::now() < deadline, "round {round}: the load stands still\n{}", server.log_tail());
            std::thread::sleep(Duration::from_millis(5));
        }
        server.kill();
        drop(open);
        let told = load.finish();
        let dir = server.dir.display().to_string();
        let wrong = |what: String| -> ! { panic!("seed {seed}, round {round}: {what}; data kept in {dir}") };
        server.check().unwrap_or_else(|what| wrong(what));
        for kill in 0..random.below(5) {
            if kill % 2 == 0 {
                server.launch_and_kill(Duration::from_micros(random.below(200_000))).expect("starts");
            } else {
                // It answers, and takes back what was unfinished.
                server.launch().unwrap_or_else(|error| wrong(error.to_string()));
                std::thread::sleep(Duration::from_micros(random.below(100_000)));
                server.kill();
            }
            server.check().unwrap_or_else(|what| wrong(format!("killed again, {kill}: {what}")));
        }
        server.launch().unwrap_or_else(|error| wrong(error.to_string()));
        let mut client = server.client().expect("connects");
        acknowledged = ledger::verify(&mut client, &told).unwrap_or_else(|what| wrong(what));
        verify_bulk(&mut client).unwrap_or_else(|what| wrong(what));
    }
    assert!(server.stop().expect("stops").success());
    server.check().expect("nothing is wrong after a clean stop");
    server.launch().expect("starts after a clean stop");
    ledger::verify(&mut server.client().expect("connects"), &acknowledged)
        .expect("the same after a clean stop");
}

#[test]
fn nothing_is_wrong_with_a_folder_whose_first_start_was_killed_and_the_next_one_makes_it_anew() {
    let seed = seed();
    let mut random = Random::new(seed);
    let mut server = Server::start(Engine::Keel, &["--innodb-buffer-pool-size=16M"]).expect("keel starts");
    server.kill();
    let data = server.dir.join("data");
    for round in 0..4 * rounds() {
        let wrong = |what: String| -> ! { panic!("seed {seed}, round {round}: {what}") };
        fs::remove_dir_all(&data).expect("removed");
        server.launch_and_kill(Duration::from_micros(random.below(300_000))).expect("starts");
        // Before that lock nothing tells the folder from any other.
        if data.join("keel.lock").exists() {
            server.check().unwrap_or_else(|what| wrong(what));
        }
        server.launch().unwrap_or_else(|error| wrong(error.to_string()));
        server.client().and_then(|mut client| client.run("CREATE DATABASE first")).expect("a definition");
        server.kill();
        server.check().unwrap_or_else(|what| wrong(what));
    }
}

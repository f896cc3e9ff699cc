//! kill -9 in the middle of writing: what was acknowledged is there, whole, and nothing else is.

use keel_testkit::ledger::{self, Load};
use keel_testkit::process::{Engine, Server};
use std::time::{Duration, Instant};

/// Rounds of load and kill; `KEEL_CRASH_ROUNDS=20` is the long form.
fn rounds() -> u64 {
    std::env::var("KEEL_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

#[test]
fn acknowledged_transactions_survive_kill_9() {
    const CLIENTS: usize = 64;
    let seed = std::env::var("KEEL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20261121);
    println!("seed {seed}");
    let mut server = Server::start(Engine::Keel, &["--innodb-buffer-pool-size=64M"]).expect("keel starts");
    ledger::create(&mut server.client().expect("connects")).expect("tables");
    let mut acknowledged = vec![0; CLIENTS];
    for round in 0..rounds() {
        let load =
            Load::start(&server, CLIENTS, seed + 1000 * round, acknowledged.clone()).expect("load starts");
        let target = load.total() + 300 + 400 * (round % 3);
        let deadline = Instant::now() + Duration::from_secs(30);
        while load.total() < target {
            assert!(Instant::now() < deadline, "round {round}: the load stands still\n{}", server.log_tail());
            std::thread::sleep(Duration::from_millis(5));
        }
        server.kill();
        let told = load.finish();
        server.check().unwrap_or_else(|what| {
            panic!("seed {seed}, round {round}: {what}; data kept in {}", server.dir.display())
        });
        server.launch().unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
        let mut client = server.client().expect("connects");
        acknowledged = ledger::verify(&mut client, &told).unwrap_or_else(|what| {
            panic!("seed {seed}, round {round}: {what}; data kept in {}", server.dir.display())
        });
    }
    assert!(server.stop().expect("stops").success());
    server.check().expect("nothing is wrong after a clean stop");
    server.launch().expect("starts after a clean stop");
    ledger::verify(&mut server.client().expect("connects"), &acknowledged)
        .expect("the same after a clean stop");
}

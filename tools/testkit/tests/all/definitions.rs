//! `kill -9` under transfers, definitions, also of the tables that are written, and bulk loads, and again while the server recovers: all of each is there or nothing, and no
//! file is left that nobody names.

use keel_testkit::Random;
use keel_testkit::definitions;
use keel_testkit::ledger;
use keel_testkit::process::{Engine, Server};
use std::time::{Duration, Instant};

/// Rounds of load and kill; `KEEL_CRASH_ROUNDS=200` is the long form.
fn rounds() -> u64 {
    std::env::var("KEEL_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

#[test]
fn definitions_and_loads_are_done_or_not_whenever_the_server_is_killed() {
    const BANK: usize = 8;
    const DEFINERS: usize = 6;
    let seed: u64 = std::env::var("KEEL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20261122);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let options = |round: u64| {
        let reactor = if round.is_multiple_of(2) { "--reactor=auto" } else { "--reactor=epoll" };
        [reactor, "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=64M"]
    };
    let mut server = Server::start(Engine::Keel, &options(0)).expect("keel starts");
    let mut client = server.client().expect("connects");
    ledger::create(&mut client).expect("tables");
    let definitions = definitions::create(&mut client, DEFINERS).expect("a database");
    drop(client);
    let mut acknowledged = vec![0; BANK];
    let mut altered = 0;
    for round in 0..rounds() {
        let dir = server.dir.display().to_string();
        let told = |what: String| format!("seed {seed}, round {round}: {what}; data in {dir}");
        let bank = ledger::Load::start(&server, BANK, seed + 1000 * round, acknowledged.clone())
            .expect("load starts");
        let alterer = ledger::Alterer::start(&server, seed + 1000 * round).expect("alterer starts");
        let load = definitions::Load::start(&server, &definitions, seed + 1000 * round).expect("load starts");
        let target = 20 + random.below(100);
        let deadline = Instant::now() + Duration::from_secs(60);
        while load.total() < target && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(load.total() >= target, "{}\n{}", told("the load stands still".into()), server.log_tail());
        // In the middle of whatever comes next.
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        server.kill();
        let acked = bank.finish();
        altered += alterer.finish();
        load.finish();
        server.set_options(&options(round));
        server.check().unwrap_or_else(|what| panic!("{}", told(what)));
        let kills = random.below(3);
        for _ in 0..kills {
            server.launch_and_kill(Duration::from_micros(random.below(150_000))).expect("starts");
        }
        if kills > 0 {
            server.check().unwrap_or_else(|what| panic!("{}", told(format!("killed again: {what}"))));
        }
        server.launch().unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
        let mut client = server.client().expect("connects");
        acknowledged = ledger::verify(&mut client, &acked).unwrap_or_else(|what| panic!("{}", told(what)));
        definitions.verify(&mut client).unwrap_or_else(|what| panic!("{}", told(what)));
        definitions::check_files(&server).unwrap_or_else(|what| panic!("{}", told(what)));
    }
    assert!(server.stop().expect("stops").success());
    server.check().expect("nothing is wrong after a clean stop");
    assert!(altered > 0, "seed {seed}: no table that others write was altered");
    println!("{altered} alterations of tables that others write");
}

//! Random transactions of many clients on the whole simulated server, whose connections are cut and whose power goes off: at
//! each isolation level the history shows nothing that the level forbids. KEEL_SEEDS says how many schedules, or which
//! (`400..800`); KEEL_SEED tries one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::simulated::{Client, address, all, start};
use keel_runtime::sim::{self, Disk, Outcome};
use keel_runtime::{fiber, rand};
use keel_server::Server;
use keel_testkit::history::session::{self, Plan};
use keel_testkit::history::{Level, Recorder, check};

const SESSIONS: usize = 6;
/// Lives that end in a crash, before one that does not.
const CRASHES: u64 = 3;
/// Plans of a session in a life, and transactions of each.
const PLANS: u64 = 3;
const TRANSACTIONS: usize = 6;

/// Which schedules to try.
fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |text: &str| text.parse::<u64>().expect("a number");
    if let Ok(seed) = std::env::var("KEEL_SEED") {
        return number(&seed)..number(&seed) + 1;
    }
    match std::env::var("KEEL_SEEDS") {
        Err(_) => 0..default,
        Ok(text) => match text.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => 0..number(&text),
        },
    }
}

/// Cuts all connections now and then until told to stop.
fn spawn_cutter(server: &Server, stop: &Arc<AtomicBool>) {
    let (address, stop) = (address(server), stop.clone());
    fiber::spawn(move || {
        while !stop.load(Ordering::SeqCst) {
            sim::cut_connections(&address);
            fiber::sleep(Duration::from_micros(rand::u64() % 300_000));
        }
    });
}

/// All sessions work; those whose connection is cut connect again.
fn work(server: &Server, recorder: &Arc<Recorder>, level: Level, seed: u64) {
    let job = |session: usize| -> Box<dyn FnOnce() + Send> {
        let (address, recorder) = (address(server), recorder.clone());
        Box::new(move || {
            for turn in 0..PLANS {
                let seed = seed * 1000 + turn * 100 + session as u64;
                let plan = Plan { session, level, transactions: TRANSACTIONS, seed };
                let Some(mut client) = Client::connect(&address) else { continue };
                if client.rows("USE test").is_ok() {
                    session::run(&mut client, &recorder, plan);
                }
            }
        })
    };
    let stop = Arc::new(AtomicBool::new(false));
    if seed.is_multiple_of(2) {
        spawn_cutter(server, &stop);
    }
    all((0..SESSIONS).map(job).collect());
    stop.store(true, Ordering::SeqCst);
}

/// Waits until nobody else is connected: commits of connections that were cut are over.
fn alone(server: &Server) -> Client {
    loop {
        fiber::sleep(Duration::from_millis(500));
        let mut client = Client::of(server);
        if client.must("SHOW PROCESSLIST").len() == 1 {
            client.must("USE test");
            return client;
        }
    }
}

fn try_schedule(seed: u64) {
    let level = Level::ALL[(seed % 5) as usize];
    let disk = Disk::new(seed);
    let recorder = Arc::new(Recorder::default());
    sim::run(sim::Options::new(seed).with_disk(&disk), || {
        let server = start();
        let mut client = Client::of(&server);
        client.must("USE test");
        client.must(session::TABLE);
        drop(client);
        server.stop().expect("stops");
    })
    .done();
    for life in 0..CRASHES {
        let seed = seed * 10 + life + 1;
        let outcome = sim::run(sim::Options::new(seed).with_disk(&disk), || {
            let server = start();
            sim::crash_after_syncs(1 + rand::u64() % 120);
            work(&server, &recorder, level, seed);
            sim::crash_now();
        });
        assert_eq!(outcome, Outcome::<()>::Crashed);
        recorder.after_crash();
        // One crash in three is a kill: what no sync has covered is still there.
        if !seed.is_multiple_of(3) {
            disk.crash(seed);
        }
    }
    let last = sim::run(sim::Options::new(seed * 10).with_disk(&disk), || {
        let server = start();
        work(&server, &recorder, level, seed * 10);
        let mut client = alone(&server);
        let last = session::last(&mut client).expect("readable");
        assert_eq!(client.must("CHECK TABLE list")[0][3], "OK");
        server.stop().expect("stops");
        last
    })
    .done();
    disk.clear();
    let history = recorder.history(level, last);
    if let Err(anomaly) = check::check(&history) {
        panic!("{level:?}: {}: {}", anomaly.name, anomaly.what);
    }
}

#[test]
fn histories_show_what_their_level_allows_and_nothing_else() {
    for seed in seeds(20) {
        if std::panic::catch_unwind(|| try_schedule(seed)).is_err() {
            panic!("failing seed: KEEL_SEED={seed}");
        }
    }
}

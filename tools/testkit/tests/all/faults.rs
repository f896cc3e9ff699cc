//! Disks that fail under a real server: what was acknowledged is there after the next start, and the reason is told.

use keel_testkit::client::{Client, Reply};
use keel_testkit::ledger::{self, Load};
use keel_testkit::process::{Engine, Server};
use std::time::{Duration, Instant};

const CLIENTS: usize = 16;

/// A server whose tables were made before the faults came, and are known to be sound after its restart.
fn prepared() -> Server {
    let mut server = Server::start(Engine::Keel, &[]).expect("starts");
    ledger::create(&mut server.client().expect("connects")).expect("tables");
    assert!(server.stop().expect("stops").success());
    server
}

/// Runs the load until the server ends by itself; it must say `reason`, and the next start must find what was acknowledged.
fn ends_with(server: &mut Server, options: &[&str], reason: &str) {
    server.set_options(options);
    server.launch().expect("starts with faults to come");
    let load = Load::start(server, CLIENTS, 7, vec![0; CLIENTS]).expect("load starts");
    let status = server.wait_ended(Duration::from_secs(60)).expect("ends by itself");
    let told = load.finish();
    let log = server.log_tail();
    assert_eq!(status.code(), Some(1), "{log}");
    // A connection that ends meanwhile may have the last word.
    let mut lines = log.lines();
    assert!(lines.any(|line| line.contains("[ERROR] keel: stopped: ") && line.contains(reason)), "{log}");
    server.set_options(&[]);
    server.launch().expect("starts again");
    let found = ledger::verify(&mut server.client().expect("connects"), &told)
        .unwrap_or_else(|what| panic!("{what}; data kept in {}", server.dir.display()));
    assert!(found.iter().sum::<u64>() > 0, "the fault came before any work");
}

#[test]
fn a_failed_log_write_or_sync_stops_the_server_and_loses_nothing_acknowledged() {
    for reactor in ["--reactor=auto", "--reactor=epoll"] {
        for fault in ["--fail-next=write:redo.0:5:300:1", "--fail-next=sync:redo.0:5:300:1"] {
            ends_with(&mut prepared(), &[reactor, fault], "of redo at ");
        }
    }
}

#[test]
fn short_and_interrupted_transfers_lose_nothing() {
    for (reactor, errno) in [("auto", 0), ("auto", 4), ("epoll", 0), ("epoll", 11)] {
        let mut server = prepared();
        let mut options = vec![format!("--reactor={reactor}"), "--innodb-buffer-pool-size=5M".to_string()];
        options.extend(
            ["read", "write", "sync"].map(|kind| format!("--fail-next={kind}:/:{errno}:0:1000000000")),
        );
        server.set_options(&options.iter().map(String::as_str).collect::<Vec<_>>());
        server.launch().expect("starts with transfers in parts");
        let load = Load::start(&server, CLIENTS, 7, vec![0; CLIENTS]).expect("load starts");
        let deadline = Instant::now() + Duration::from_secs(60);
        while load.total() < 500 {
            assert!(Instant::now() < deadline, "the load stands still\n{}", server.log_tail());
            std::thread::sleep(Duration::from_millis(5));
        }
        server.kill();
        let told = load.finish();
        server.check().unwrap_or_else(|what| panic!("{what}; data kept in {}", server.dir.display()));
        server.launch().expect("starts again, in parts");
        ledger::verify(&mut server.client().expect("connects"), &told).expect("all is there");
        assert!(server.stop().expect("stops").success());
        server.check().expect("nothing is wrong after a clean stop");
    }
}

#[test]
fn pages_that_can_never_be_written_stop_the_server_with_the_reason() {
    let options = ["--fail-next=write:/trees/:5:20:1000000", "--innodb-buffer-pool-size=8M"];
    ends_with(&mut prepared(), &options, "pages cannot be written");
}

#[test]
fn a_full_disk_fails_the_writer_alone_and_later_all_goes_on() {
    let mut server = Server::start(Engine::Keel, &[]).expect("starts");
    let mut client = server.client().expect("connects");
    client.run("CREATE DATABASE d").expect("create");
    client
        .run("CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(2000), KEY (v(100)))")
        .expect("create");
    drop(client);
    assert!(server.stop().expect("stops").success());
    server.set_options(&["--fail-next=write:/trees/t:28:40:60"]);
    server.launch().expect("starts with faults to come");
    let mut client = server.client_in("d").expect("connects");
    let mut other = server.client_in("d").expect("connects");
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut rows, mut refused) = (0u64, 0);
    // Some statements fail while there is no room; behind the last failure one in a row of many succeeds.
    let mut since = 0;
    while refused == 0 || since < 50 {
        assert!(Instant::now() < deadline, "{rows} rows, {refused} refused");
        match insert(&mut client) {
            Ok(()) => (rows, since) = (rows + 20, since + 1),
            Err(code) => {
                assert!(matches!(code, 1114 | 1021), "error {code}");
                (refused, since) = (refused + 1, 0);
                let count = other.run("SELECT COUNT(*) FROM t").expect("readers go on").scalar();
                assert_eq!(count, Some(rows.to_string()), "a refused statement left rows");
            }
        }
    }
    let check = client.run("CHECK TABLE t").expect("check").strings();
    assert_eq!(check[0][3], "OK");
    drop((client, other));
    assert!(server.stop().expect("stops").success(), "{}", server.log_tail());
    server.launch().expect("starts again");
    let count =
        server.client_in("d").expect("connects").run("SELECT COUNT(*) FROM t").expect("count").scalar();
    assert_eq!(count, Some(rows.to_string()));
}

/// Twenty rows in one statement, or the number of the error.
fn insert(client: &mut Client) -> Result<(), u16> {
    let values = ["(REPEAT(UUID(), 40))"; 20].join(",");
    match client.one(&format!("INSERT INTO t (v) VALUES {values}")).expect("the connection lives") {
        Reply::Error { code, .. } => Err(code),
        _ => Ok(()),
    }
}

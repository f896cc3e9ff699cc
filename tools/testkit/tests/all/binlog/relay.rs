//! Relay logs: Format_description events of replica and source, and artificial events, in one file.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use keel_binlog::{Event, flags, kind};
use keel_testkit::client::Client;
use keel_testkit::process::{Engine, Server};

use super::{files, for_each_event, log_files, script, start};

fn wait_for(client: &mut Client, position: &str) {
    let sql = format!("select master_gtid_wait('{position}', 60)");
    assert_eq!(client.run(&sql).expect("answers").scalar().as_deref(), Some("0"), "the replica is behind");
}

#[test]
fn relay_logs_of_a_replica_are_read() {
    let source =
        start(&["--binlog-checksum=CRC32", "--log-bin-trust-function-creators=1", "--binlog-format=ROW"]);
    let options = [
        "--server-id=8",
        "--relay-log=relay",
        "--skip-slave-start",
        "--relay-log-purge=0",
        "--innodb-buffer-pool-size=16M",
    ];
    let replica = Server::start(Engine::MariaDb, &options).expect("mariadb starts");
    let (mut there, mut here) = (source.client().expect("connects"), replica.client().expect("connects"));
    let change = format!(
        "change master to master_host='127.0.0.1', master_port={}, master_user='repl', master_password='secret', \
         master_use_gtid=slave_pos, master_heartbeat_period=0.2",
        source.port
    );
    there.run("create user repl@'127.0.0.1' identified by 'secret'").expect("created");
    there.run("grant replication slave on *.* to repl@'127.0.0.1'").expect("granted");
    here.run(&change).expect("is set");
    here.run("start slave").expect("starts");
    script::run(&mut source.client().expect("connects"), &source.dir);
    there.run("flush binary logs").expect("a new file");
    there.run("set global binlog_checksum = NONE").expect("another file");
    script::run(&mut source.client().expect("connects"), &source.dir);
    let position = there.run("select @@gtid_binlog_pos").expect("shows").scalar().expect("a value");
    let domain = position.split(',').find(|gtid| gtid.starts_with("0-")).expect("domain 0");
    wait_for(&mut here, domain);
    let deadline = Instant::now() + Duration::from_secs(10);
    here.run("stop slave").expect("stops");
    while Instant::now() < deadline && here.one("stop slave").is_err() {}
    let mut met = files::Met::default();
    let (mut artificial, mut descriptions) = (0, 0);
    let mut servers = BTreeSet::new();
    for file in log_files(&replica, "relay.") {
        let bytes = fs::read(&file).expect("readable");
        files::check(&bytes, &mut met);
        for_each_event(&bytes, |frame, format| {
            artificial += usize::from(frame.header.flags & flags::ARTIFICIAL != 0);
            servers.insert(frame.header.server_id);
            if let Ok(Event::FormatDescription(_)) = frame.event(format) {
                descriptions += 1;
            }
        });
    }
    assert!(
        artificial > 0 && descriptions > 2,
        "{artificial} artificial events, {descriptions} descriptions"
    );
    assert!(servers.contains(&7) && servers.contains(&8), "{servers:?}");
    assert!(met.kinds.contains(&kind::WRITE_ROWS_V1) && met.kinds.contains(&kind::GTID_LIST));
}

//! Parsing and printing of GTID lists compared with MariaDB.

use keel_binlog::gtid::{PositionError, parse_list};
use keel_binlog::{BinlogState, Gtid, SlavePosition};
use keel_testkit::Random;
use keel_testkit::client::Client;

use super::start;

/// A random list, valid or not, of few domains and servers.
fn text(random: &mut Random) -> String {
    let mut gtid = || {
        let sign = ["", "", "", "", "", "+", "-", " ", "\t", "0"][random.below(10) as usize];
        let domain =
            [0, 1, 2, u64::from(u32::MAX), 1 << 32][random.below(5).min(random.below(6)).min(4) as usize];
        let server =
            [1, 2, u64::from(u32::MAX), 1 << 32][random.below(4).min(random.below(5)).min(3) as usize];
        let seq = ["1", "2", "300", "18446744073709551615", "18446744073709551616", ""]
            [random.below(6).min(random.below(6)) as usize];
        format!("{sign}{domain}-{server}-{seq}")
    };
    let list: Vec<String> = (0..4).map(|_| gtid()).collect();
    let count = random.below(5) as usize;
    let comma = [",", ",", ",", ",", ", ", " ,", ",,", ";"][random.below(8) as usize];
    list[..count].join(comma)
}

/// Sets a variable. Returns its new value or the error.
fn answer(client: &mut Client, name: &str, text: &str) -> Result<String, (u16, String)> {
    let reply = client.one(&format!("set global {name} = '{text}'")).expect("answers");
    if let keel_testkit::client::Reply::Error { code, message, .. } = reply {
        return Err((code, message));
    }
    Ok(client.run(&format!("select @@global.{name}")).expect("shows").scalar().expect("a value"))
}

#[test]
fn positions_are_taken_and_shown_as_mariadb_does() {
    let server = start(&[]);
    let mut client = server.client().expect("connects");
    let mut taken = 0;
    for seed in 1..=1500 {
        let text = text(&mut Random::of_neighbours(seed));
        let theirs = answer(&mut client, "gtid_slave_pos", &text);
        let ours = match SlavePosition::parse(text.as_bytes()) {
            Err(PositionError::Unparsable) => Err((1941, "Could not parse GTID list".to_string())),
            Err(PositionError::Duplicate(duplicate)) => Err((1943, duplicate.to_string())),
            Ok(position) => Ok(position.to_string()),
        };
        taken += usize::from(ours.is_ok());
        assert_eq!(ours, theirs, "seed {seed}: {text:?}");
    }
    assert!(taken > 300, "{taken}");
}

#[test]
fn states_are_taken_and_shown_as_mariadb_does() {
    let server = start(&[]);
    let mut client = server.client().expect("connects");
    for seed in 1..=500 {
        let text = text(&mut Random::of_neighbours(seed));
        client.run("reset master").expect("is reset");
        let theirs = answer(&mut client, "gtid_binlog_state", &text);
        let Some(list) = parse_list(text.as_bytes()) else {
            assert_eq!(theirs.unwrap_err().0, 1941, "seed {seed}: {text:?}");
            continue;
        };
        let ours = BinlogState::from_list(&list);
        let position =
            client.run("select @@global.gtid_binlog_pos").expect("shows").scalar().expect("a value");
        assert_eq!(ours.position().to_string(), position, "seed {seed}: {text:?}");
        // MariaDB orders a domain's servers by a hash, except the last one.
        let theirs = parse_list(theirs.expect("a state").as_bytes()).expect("a list");
        assert_eq!(BinlogState::from_list(&theirs).to_string(), ours.to_string(), "seed {seed}: {text:?}");
        let sorted = |mut list: Vec<Gtid>| {
            list.sort();
            list
        };
        assert_eq!(sorted(ours.iter().collect()), sorted(theirs.clone()), "seed {seed}: {text:?}");
        let domains = |list: &[Gtid]| list.iter().map(|gtid| gtid.domain).collect::<Vec<_>>();
        assert_eq!(domains(&ours.iter().collect::<Vec<_>>()), domains(&theirs), "seed {seed}: {text:?}");
    }
}

#[test]
fn the_next_number_is_mariadbs() {
    let server = start(&[]);
    let mut client = server.client().expect("connects");
    client.run("reset master").expect("is reset");
    client.run("set global gtid_binlog_state = '0-1-90,0-7-5,3-2-8'").expect("is set");
    client.run("set sql_log_bin = 0").expect("is set");
    client.run("create database numbered").expect("created");
    client.run("set sql_log_bin = 1").expect("is set");
    let mut ours = BinlogState::from_list(&parse_list(b"0-1-90,0-7-5,3-2-8").expect("a list"));
    for domain in [0, 3, 0, 9] {
        client.run(&format!("set gtid_domain_id = {domain}")).expect("is set");
        client.run("create or replace table numbered.t (a int)").expect("created");
        let theirs = client.run("select @@last_gtid").expect("shows").scalar().expect("a value");
        assert_eq!(ours.next(domain, 7).to_string(), theirs);
    }
    let theirs = client.run("select @@gtid_binlog_state").expect("shows").scalar().expect("a value");
    assert_eq!(ours.to_string(), theirs);
}

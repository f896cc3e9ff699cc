//! What definitions have promised holds behind a crash that follows at once, and behind a restart.

use crate::common::*;
use keel_runtime::sim::{self, Disk, Outcome};
use keel_sql::ast::{ByteStr, XaStart, Xid};

/// Runs the script, crashes at its end, and gives the first number that the table counts behind a restart.
fn counted_behind_a_crash(seed: u64, script: &str) -> u64 {
    let disk = Disk::new(seed);
    let killed: Outcome<()> = live(&disk, seed, |database| {
        Client::new(database).script(script);
        sim::crash_now()
    });
    assert_eq!(killed, Outcome::Crashed);
    disk.crash(seed);
    live(&disk, seed + 100, |database| {
        let mut client = Client::new(database);
        let answer = client.run("insert into t (v) values (9)");
        assert!(!answer.starts_with("ERROR"), "{script}: {answer}");
        client.run("select id from t where v = 9").parse().expect("a number")
    })
    .done()
}

#[test]
fn a_table_counts_on_behind_a_crash_that_follows_its_definition() {
    let filled = "create table t (id int auto_increment primary key, v int)
                  insert into t (v) values (1),(2),(3) -> 3 id=1 (Records: 3  Duplicates: 0  Warnings: 0)
                  delete from t where id = 3 -> 1\n";
    let alterations = [
        ("alter table t engine=innodb", 4),
        ("alter table t modify v bigint", 4),
        ("alter table t add column w int first, force", 4),
        ("alter table t drop primary key, add key (id)", 4),
        ("alter table t add key (id, v)", 4),
        ("alter table t auto_increment = 5000", 5000),
        ("alter table t auto_increment = 5000, force", 5000),
    ];
    for (seed, (alter, expected)) in alterations.into_iter().enumerate() {
        let next = counted_behind_a_crash(seed as u64 + 1, &format!("{filled}{alter}"));
        assert_eq!(next, expected, "{alter}");
    }
    let next = counted_behind_a_crash(
        20,
        "create table t (id int auto_increment primary key, v int) auto_increment = 700",
    );
    assert_eq!(next, 700);
}

#[test]
fn a_table_counts_on_behind_a_crash_as_if_there_had_been_none() {
    let filled = "insert into t (v) values (1),(2),(3) -> 3 id=1 (Records: 3  Duplicates: 0  Warnings: 0)\n";
    let (three, none) = (filled, "");
    let cases = [
        ("id int auto_increment primary key, v int", three, none, 4),
        ("id int auto_increment primary key, v int", three, "delete from t -> 3", 4),
        ("id int auto_increment primary key, v int", three, "insert into t values (500, 1) -> 1 id=500", 501),
        (
            "id int auto_increment primary key, v int",
            three,
            "update t set id = 60 where id = 3 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)",
            61,
        ),
        ("id tinyint unsigned auto_increment primary key, v int", three, "delete from t -> 3", 4),
        (
            "id bigint auto_increment primary key, v int",
            "",
            "insert into t values (-9, 1) -> 1 id=18446744073709551607",
            1,
        ),
        ("id bigint unsigned auto_increment, v int, key (id, v)", three, "delete from t -> 3", 4),
        ("id int auto_increment, v int primary key, unique (id)", three, "delete from t where v = 3 -> 1", 4),
        ("id double auto_increment primary key, v int", three, "delete from t where v = 3 -> 1", 4),
        ("id int auto_increment primary key, v int", three, "truncate t", 1),
        (
            "id int auto_increment primary key, v int",
            three,
            "begin\ninsert into t (v) values (7) -> 1 id=4",
            4,
        ),
        (
            "id int auto_increment primary key, v int",
            three,
            "begin\ninsert into t (v) values (7) -> 1 id=4\nrollback\ninsert into u values (1) -> 1",
            5,
        ),
    ];
    for (seed, (columns, before, then, expected)) in cases.into_iter().enumerate() {
        let script = format!("create table u (a int)\ncreate table t ({columns})\n{before}{then}");
        let next = counted_behind_a_crash(seed as u64 + 1, &script);
        assert_eq!(next, expected, "{columns}: {then}");
    }
}

fn branch() -> Xid {
    Xid { gtrid: ByteStr(b"pay"[..].into()), bqual: ByteStr(b""[..].into()), format: 1 }
}

#[test]
fn a_prepared_branch_keeps_tables_without_an_index_behind_a_restart() {
    let disk = Disk::new(31);
    live(&disk, 31, |database| {
        let mut client = Client::new(database);
        client.script("create table t (a int)\n insert into t values (1) -> 1");
        database.xa_start(&mut client.session, &branch(), XaStart::New).expect("started");
        client.script("insert into t values (2) -> 1");
        database.xa_end(&mut client.session, &branch(), false).expect("ended");
        database.xa_prepare(&mut client.session, &branch()).expect("prepared");
        database.leave(&mut client.session).expect("left");
    })
    .done();
    live(&disk, 32, |database| {
        let mut client = Client::new(database);
        for sql in ["alter table t nowait force", "drop table t nowait", "truncate table t nowait"] {
            let answer = client.run(sql);
            assert!(answer.starts_with("ERROR 1205"), "{sql}: {answer}");
        }
        database.xa_commit(&mut client.session, &branch(), false).expect("committed");
        client.script("alter table t nowait force\n select * from t -> 1; 2");
    })
    .done();
}

#[test]
fn a_crash_leaves_what_was_to_be_replaced_or_what_replaces_it() {
    let statements = [
        ("create or replace table d.t (a int)", "select count(*) from d.t", "ERROR 1054"),
        ("create or replace table d.t like d.s", "select count(*) from d.t", "ERROR 1054"),
        ("create or replace table d.t (key (v)) select * from d.s", "select count(*) from d.t", "ERROR 1054"),
        ("create or replace database d comment 'new'", "create table d.other (a int)", "ERROR 1146"),
    ];
    for (seed, (statement, there, replaced)) in (60..).zip(statements) {
        let (mut before, mut after) = (0, 0);
        for syncs in 1.. {
            let disk = Disk::new(seed);
            let mut answered = false;
            let outcome = live(&disk, seed, |database| {
                let mut client = Client::new(database);
                client.run("create database d");
                client.script("create table d.s (id int primary key, v varchar(200))");
                client.run("insert into d.s values (1, 'x'), (2, 'y')");
                client.script("create table d.t (old int)");
                client.run("insert into d.t values (7)");
                sim::crash_after_syncs(syncs);
                client.script(statement);
                answered = true;
            });
            disk.crash(seed);
            live(&disk, seed + 1, |database| {
                let mut client = Client::new(database);
                let (old, found) = (client.run("select old from d.t"), client.run(there));
                let is_new = old.starts_with(replaced) && !found.starts_with("ERROR");
                assert!(is_new || old == "7" && !answered, "{statement}, {syncs} syncs: {old}, {found}");
                *if is_new { &mut after } else { &mut before } += 1;
            })
            .done();
            if outcome == Outcome::Done(()) {
                break;
            }
        }
        assert!(before > 0 && after > 0, "{statement}: {before}, {after}");
    }
}

#[test]
fn a_crash_leaves_nothing_of_a_table_that_a_query_was_filling() {
    let rows: Vec<String> = (0..600).map(|n| format!("({n}, '{}')", "v".repeat(200))).collect();
    let rows = format!("insert into s values {}", rows.join(","));
    let creates = [
        "create table t (key (v)) select * from s",
        "create or replace table t select * from s",
        "create temporary table other (a int)\n create table t (primary key (id)) select id from s",
    ];
    for (seed, create) in creates.into_iter().enumerate().map(|(n, create)| (n as u64 + 40, create)) {
        let mut gone = 0;
        for syncs in 1.. {
            let disk = Disk::new(seed);
            let mut answered = false;
            let outcome = live(&disk, seed, |database| {
                let mut client = Client::new(database);
                client.script("create table s (id int primary key, v varchar(200))");
                client.run(&rows);
                sim::crash_after_syncs(syncs);
                client.script(create);
                answered = true;
            });
            disk.crash(seed);
            let made = live(&disk, seed + 1, |database| {
                let mut client = Client::new(database);
                let made = client.run("select count(*) from t");
                client.script("create or replace table t (a int)\n insert into t values (1) -> 1");
                made
            });
            let made = made.done();
            let is_gone = made.starts_with("ERROR 1146");
            assert!(made == "600" || is_gone && !answered, "{create}, {syncs} syncs: {made}");
            gone += u32::from(is_gone);
            if outcome == Outcome::Done(()) {
                break;
            }
        }
        assert!(gone > 1, "{create}");
    }
}

//! Several sessions and restarts: metadata locks, plans over changed tables, KILL, and what is there after a crash.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use keel_context::result::{ResultColumns, RowSink, RowView};
use keel_database::Database;
use keel_definitions::FirstAccounts;
use keel_exec::InterruptState;
use keel_exec::SqlResult;
use keel_runtime::sim::{self, Disk, Options};
use keel_runtime::sync::{Receiver, channel};
use keel_runtime::{fiber, time};
use keel_sql::ast::Statement;
use keel_sql::{ParseOptions, parse};
use keel_storage::Engine;

/// Runs a statement on a fiber and a connection of its own.
fn apart(database: &Arc<Database>, sql: &str) -> Receiver<String> {
    let (sender, receiver) = channel(1);
    let mut client = Client::new(database);
    let sql = sql.to_string();
    fiber::spawn(move || {
        let answer = client.run(&sql);
        let _ = sender.send(answer);
    });
    receiver
}

/// Lets other fibers run for some virtual time.
fn pause() {
    fiber::sleep(Duration::from_millis(50));
}

#[test]
fn definitions_wait_for_transactions_and_transactions_for_definitions() {
    world(|database| {
        let mut a = Client::new(database);
        a.script(
            "create table t (id int primary key, v int)
             begin
             insert into t values (1,1) -> 1",
        );
        let altered = apart(database, "alter table t add column w int default 5");
        pause();
        assert!(altered.try_recv().is_none(), "ALTER waits for the open transaction");
        let inserted = apart(database, "insert into t (id, v) values (2,2)");
        pause();
        assert!(inserted.try_recv().is_none(), "newcomers queue behind the waiting ALTER");
        a.script("insert into t values (3,3) -> 1");
        a.script("commit");
        assert_eq!(altered.recv().unwrap(), "0 (Records: 0  Duplicates: 0  Warnings: 0)");
        assert_eq!(inserted.recv().unwrap(), "1");
        a.script("update t set v = 9 where w = 5 -> 3 (Rows matched: 3  Changed: 3  Warnings: 0)");
    });
}

#[test]
fn metadata_lock_waits_end_by_time_out_and_kill() {
    world(|database| {
        let mut a = Client::new(database);
        a.script("create table t (id int primary key)\nbegin\ninsert into t values (1) -> 1");
        let mut b = Client::new(database);
        b.session.vars.lock_wait_timeout = 2;
        let began = time::now();
        assert_eq!(
            b.run("drop table t"),
            "ERROR 1205 (HY000): Lock wait timeout exceeded; try restarting transaction"
        );
        assert!(time::now() - began >= Duration::from_secs(2));
        assert!(b.run("truncate table t nowait").starts_with("ERROR 1205"));
        let interrupt = b.session.interrupt.clone();
        fiber::spawn(move || {
            pause();
            interrupt.raise(InterruptState::Query);
        });
        b.session.vars.lock_wait_timeout = 1000;
        assert_eq!(b.run("drop table t"), "ERROR 1317 (70100): Query execution was interrupted");
        a.script("rollback");
        b.script("drop table t -> 0");
    });
}

#[test]
fn a_changed_wait_for_rows_counts_within_the_transaction() {
    world(|database| {
        let (mut a, mut b) = (Client::new(database), Client::new(database));
        a.run("create table t (id int primary key, v int)");
        a.run("insert into t values (1, 1), (2, 2)");
        a.script("begin\nupdate t set v = 3 where id = 1 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)");
        b.script("begin\nupdate t set v = 4 where id = 2 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)");
        for seconds in [1, 3] {
            b.session.vars.row_lock_wait_timeout = seconds;
            let began = time::now();
            assert!(b.run("update t set v = 4 where id = 1").starts_with("ERROR 1205"));
            let waited = time::now() - began;
            assert!((seconds..seconds + 1).contains(&waited.as_secs()), "{waited:?}");
        }
    });
}

#[test]
fn rings_of_transactions_and_definitions_are_broken() {
    world(|database| {
        let (mut a, mut b) = (Client::new(database), Client::new(database));
        a.script("create table t (id int primary key)\ncreate table u (id int primary key)");
        a.script("begin\ninsert into t values (1) -> 1");
        b.script("begin\ninsert into u values (1) -> 1");
        let (t, u) = (apart(database, "alter table t add column v int"), apart(database, "drop table u"));
        pause();
        let (sender, inserted) = channel(1);
        fiber::spawn(move || {
            let _ = sender.send(b.run("insert into t values (2)"));
            let _ = sender.send(b.run("rollback"));
        });
        pause();
        assert!(inserted.try_recv().is_none(), "one transaction may wait for the other");
        assert_eq!(
            a.run("insert into u values (2)"),
            "ERROR 1213 (40001): Deadlock found when trying to get lock; try restarting transaction"
        );
        assert!(!a.session.in_transaction(), "the whole transaction is rolled back");
        assert_eq!(t.recv().unwrap(), "0 (Records: 0  Duplicates: 0  Warnings: 0)");
        assert!(u.try_recv().is_none());
        assert_eq!(
            inserted.recv().unwrap(),
            "ERROR 1136 (21S01): Column count doesn't match value count at row 1"
        );
        assert_eq!((inserted.recv().unwrap(), u.recv().unwrap()), ("0".into(), "0".into()));
    });
}

#[test]
fn rings_through_row_locks_are_broken() {
    world(|database| {
        let (mut a, mut b) = (Client::new(database), Client::new(database));
        a.script("create table t (id int primary key)\ncreate table u (id int primary key)");
        a.script("begin\ninsert into t values (1) -> 1");
        let began = time::now();
        let (sender, inserted) = channel(1);
        fiber::spawn(move || {
            b.script("begin\ninsert into u values (1) -> 1");
            let _ = sender.send(b.run("insert into t values (1)"));
            b.script("rollback");
        });
        pause();
        let altered = apart(database, "alter table u add column v int");
        pause();
        a.script("insert into u (id) values (2) -> 1\nrollback");
        assert_eq!(inserted.recv().unwrap(), "1");
        assert_eq!(altered.recv().unwrap(), "0 (Records: 0  Duplicates: 0  Warnings: 0)");
        assert!(time::now() - began < Duration::from_secs(2));
    });
}

#[test]
fn a_forgotten_transaction_does_not_block_a_table_that_a_definition_awaits() {
    world(|database| {
        let (mut a, mut b) = (Client::new(database), Client::new(database));
        a.script("create table t (id int primary key)\nbegin\nselect * from t ->");
        let altered = apart(database, "alter table t add column v int");
        pause();
        b.script("insert into t values (1) -> 1\nselect * from t -> 1");
        assert!(altered.try_recv().is_none());
        a.script("commit");
        assert_eq!(altered.recv().unwrap(), "0 (Records: 0  Duplicates: 0  Warnings: 0)");
    });
}

/// LOCK TABLES as the server hands it on.
fn lock_tables(client: &mut Client, sql: &str) -> String {
    let parsed = parse(sql.as_bytes(), &ParseOptions::default()).expect("parses");
    let Statement::LockTables { tables, wait } = parsed.statement else {
        panic!("{sql} is another statement")
    };
    let database = client.database.clone();
    let locked = database.lock_named_tables(&mut client.session, &tables, wait.as_ref());
    locked.map_or_else(|error| error.to_string(), |()| "locked".to_string())
}

#[test]
fn lock_tables_holds_no_table_while_it_waits_for_another() {
    for sql in ["lock tables t write, u write", "lock tables t read, u read", "lock tables u write, t read"] {
        world(|database| {
            let (mut a, mut b) = (Client::new(database), Client::new(database));
            a.script("create table t (id int primary key)\ncreate table u (id int primary key)");
            a.script("begin\ninsert into u values (1) -> 1");
            let (sender, locked) = channel(1);
            fiber::spawn(move || {
                let answer = lock_tables(&mut b, sql);
                let _ = sender.send(answer + " " + &b.run("select count(*) from t"));
            });
            pause();
            assert!(locked.try_recv().is_none(), "{sql} waits for the transaction");
            a.script("insert into t values (1) -> 1");
            pause();
            assert!(locked.try_recv().is_none(), "{sql} waits for the transaction still");
            a.script("commit");
            assert_eq!(locked.recv().unwrap(), "locked 1", "{sql}");
        });
    }
}

#[test]
fn check_table_does_not_wait_for_its_own_sessions_lock() {
    world(|database| {
        let mut a = Client::new(database);
        a.script("create table t (id int primary key)\ncreate table u (id int primary key)");
        for sql in ["lock tables t write", "lock tables t read"] {
            assert_eq!(lock_tables(&mut a, sql), "locked");
            a.script("check table t -> test.t|check|status|OK");
        }
    });
}

#[test]
fn an_insert_of_many_rows_ends_when_it_is_killed() {
    let values = |from: usize| (from..from + 5000).map(|id| format!("({id}, repeat('x', 200))"));
    let insert = |from| format!("insert into t values {}", values(from).collect::<Vec<_>>().join(","));
    world(|database| {
        let mut a = Client::new(database);
        a.script("create table t (id int primary key, v varchar(200))");
        assert_eq!(a.run(&insert(0)), "5000 (Records: 5000  Duplicates: 0  Warnings: 0)");
        for sql in [insert(5000), "insert into t select id + 5000, v from t".into()] {
            let requests = database.engine().status().store.log_requests;
            let (engine, interrupt) = (database.engine().clone(), a.session.interrupt.clone());
            fiber::spawn(move || {
                while engine.status().store.log_requests < requests + 2500 {
                    fiber::sleep(Duration::from_micros(1));
                }
                interrupt.raise(InterruptState::Query);
            });
            assert_eq!(a.run(&sql), "ERROR 1317 (70100): Query execution was interrupted", "{sql:.40}");
        }
        a.script("select count(*) from t -> 5000\ncheck table t -> test.t|check|status|OK");
    });
}

#[test]
fn cached_plans_keep_no_dropped_table() {
    world(|database| {
        let mut a = Client::new(database);
        a.script("create table t (id int primary key, v int, key (v))\ncreate table u (id int primary key)");
        a.script("insert into t values (1,1) -> 1\nselect v from t where id = 1 -> 1\nselect id from u ->");
        let table = |name: &str| Arc::downgrade(database.catalog().table("test", name).expect(name));
        for change in
            ["drop index v on t", "truncate table t", "alter table t modify v bigint", "drop table t"]
        {
            a.script("select id + v from t where id = 2 ->");
            let (changed, other) = (table("t"), table("u"));
            a.script(change);
            assert_eq!((changed.strong_count(), other.strong_count() > 1), (0, true), "after {change}");
        }
    });
}

#[test]
fn prepared_plans_follow_their_tables() {
    world(|database| {
        let mut c = Client::new(database);
        c.script("create table t (id int primary key, v varchar(10))");
        for round in 0..3 {
            c.script(&format!("insert into t values ({round}, 'x') -> 1"));
            c.script(&format!("update t set v = 'y{round}' where id = {round} -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)"));
            c.run(if round == 1 { "drop table t" } else { "alter table t add key (v)" });
            c.run("create table if not exists t (id int primary key, v varchar(10))");
        }
        c.script("check table t -> test.t|check|status|OK");
    });
}

#[test]
fn deadlocks_roll_the_cheaper_transaction_back() {
    world(|database| {
        let mut a = Client::new(database);
        a.script(
            "create table t (id int primary key, v int)
             insert into t values (1,0),(2,0),(3,0) -> 3 (Records: 3  Duplicates: 0  Warnings: 0)
             begin
             update t set v = 1 where id = 1 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)
             update t set v = 1 where id = 3 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)",
        );
        let (sender, receiver) = channel(4);
        let mut b = Client::new(database);
        fiber::spawn(move || {
            b.run("begin");
            b.run("update t set v = 2 where id = 2");
            let _ = sender.send(b.run("update t set v = 2 where id = 1"));
            let _ = sender.send(format!("{}", b.session.in_transaction()));
        });
        pause();
        let mine = a.run("update t set v = 1 where id = 2");
        let theirs = receiver.recv().unwrap();
        assert_eq!(
            theirs,
            "ERROR 1213 (40001): Deadlock found when trying to get lock; try restarting transaction"
        );
        assert_eq!(receiver.recv().unwrap(), "false");
        assert_eq!(mine, "1 (Rows matched: 1  Changed: 1  Warnings: 0)");
        a.script("commit");
    });
}

#[test]
fn a_rollback_to_a_savepoint_that_fails_takes_all_back() {
    world(|database| {
        let mut a = Client::new(database);
        a.script("create table t (id int auto_increment primary key, v varchar(3000))");
        a.run("insert into t (v) values (repeat('o', 2500)), (repeat('o', 2500))");
        for _ in 0..11 {
            a.run("insert into t (v) select v from t");
        }
        a.run("begin");
        a.run("insert into t (v) values ('before')");
        a.run("savepoint s");
        // Its undo is larger than the pool.
        a.run("update t set v = repeat('b', 2500)");
        sim::fail_times(sim::Op::Read, "undo.kt", 5, 0, 20);
        let answer = a.run("rollback to s");
        assert!(answer.starts_with("ERROR 1030"), "{answer}");
        a.run("commit");
        while database.engine().status().trx_active != 0 {
            pause();
        }
        a.script("select count(*), max(v) = min(v), left(max(v), 1) from t -> 4096|1|o");
    });
}

#[test]
fn the_catalog_is_there_after_a_restart_and_a_crash() {
    let disk = Disk::new(7);
    let open = || {
        let engine = Engine::open(config()).expect("open");
        let database = Database::open(engine.clone(), Arc::new(NoServer::default())).expect("catalog");
        if database.definer().lacks_accounts() {
            database.definer().make_accounts(&FirstAccounts::Insecure).expect("accounts");
        }
        (engine, database)
    };
    sim::run(Options { disk: disk.clone(), ..Options::new(7) }, || {
        let (engine, database) = open();
        let mut c = Client::new(&database);
        c.script(
            "create database d charset latin1
             create table d.t (id int auto_increment primary key, v varchar(10), key (v))
             insert into d.t (v) values ('a'),('b') -> 2 id=1 (Records: 2  Duplicates: 0  Warnings: 0)
             create table gone (a int)
             drop table gone",
        );
        drop(c);
        drop(database);
        engine.shutdown().expect("shutdown");
    })
    .done();
    sim::run(Options { disk: disk.clone(), ..Options::new(8) }, || {
        let (_engine, database) = open();
        let mut c = Client::new(&database);
        c.script(
            "insert into d.t (v) values ('c') -> 1 id=3
             create table d.u (a int)
             insert into d.u values (1) -> 1",
        );
        sim::crash_now();
    });
    disk.crash(9);
    sim::run(Options { disk, ..Options::new(10) }, || {
        let (engine, database) = open();
        let mut c = Client::new(&database);
        c.script(
            "check table d.t, d.u -> d.t|check|status|OK; d.u|check|status|OK
             delete from d.t where v = 'c' -> 1
             delete from d.u -> 1
             drop table gone -> ERROR 1051 (42S02): Unknown table 'test.gone'",
        );
        assert!(c.run("insert into d.t (v) values ('d')").starts_with("1 id="));
        drop(c);
        drop(database);
        engine.shutdown().expect("shutdown");
    })
    .done();
}

/// A client's connection that breaks in the worst way.
struct Panics;

impl RowSink for Panics {
    fn columns(&mut self, _: &Arc<ResultColumns>) -> SqlResult<()> {
        Ok(())
    }

    fn row(&mut self, _: RowView<'_>) -> SqlResult<()> {
        panic!("a bug in a statement")
    }
}

#[test]
fn a_panic_leaves_no_table_locked() {
    world(|database| {
        let mut a = Client::new(database);
        a.script(
            "create table t (id int primary key, v int)
             insert into t values (1,1),(2,2) -> 2 (Records: 2  Duplicates: 0  Warnings: 0)",
        );
        let broken = catch_unwind(AssertUnwindSafe(|| {
            let mut client = Client::new(database);
            client.run_into("select * from t order by v", &mut Panics).map(drop)
        }));
        assert!(broken.is_err(), "the sink panics");
        a.script("drop table t nowait");
    });
}

#[test]
fn definitions_of_several_tables_do_not_run_in_circles() {
    world(|database| {
        let mut a = Client::new(database);
        a.script("create table p (id int primary key)\ncreate table q (id int primary key)");
        for round in 0..20 {
            let create = format!(
                "create table if not exists c{round} (a int, b int, foreign key (a) references p (id), foreign key (b) \
                 references q (id))"
            );
            let answers: Vec<_> = (0..6).map(|_| apart(database, &create)).collect();
            for answer in answers {
                assert_eq!(answer.recv().unwrap(), "0");
            }
        }
    });
}

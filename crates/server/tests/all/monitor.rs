//! What is told of transactions, waits and deadlocks: real ones are made and read back in SQL.

use std::net::TcpStream;

use crate::common::{Running, code, eventually, start};
use keel_wire::client::{ClientResult, Connection};

type Client = Connection<TcpStream>;

fn prepare(running: &Running, rows: u32) -> Client {
    let mut client = running.client();
    client
        .query("CREATE TABLE test.t (id INT PRIMARY KEY, k INT, name VARCHAR(20), KEY (k), UNIQUE (name))")
        .unwrap();
    for id in 1..=rows {
        client.query(&format!("INSERT INTO test.t VALUES ({id}, {}, 'name {id}')", id * 10)).unwrap();
    }
    client
}

fn begin(running: &Running, statements: &[&str]) -> Client {
    let mut client = running.client();
    client.simple(keel_wire::command::byte::INIT_DB, b"test").unwrap();
    client.query("BEGIN").unwrap();
    statements.iter().for_each(|sql| drop(client.query(sql).unwrap()));
    client
}

fn waiting(watcher: &mut Client) -> u32 {
    let sql = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'";
    watcher.rows(sql).unwrap()[0][0].parse().unwrap()
}

/// Each client runs its statement, the next once the one before waits; how each ended.
fn cross(watcher: &mut Client, steps: Vec<(Client, String)>) -> Vec<(Client, u16)> {
    let before = waiting(watcher);
    let last = steps.len() - 1;
    let mut threads = Vec::new();
    for (place, (mut client, sql)) in steps.into_iter().enumerate() {
        threads.push(std::thread::spawn(move || {
            let result = client.query(&sql).map(|_| ());
            (client, result.map_or_else(|error| code::<()>(Err(error)), |()| 0))
        }));
        if place < last {
            eventually("a statement waits", || waiting(watcher) == before + place as u32 + 1);
        }
    }
    // The victim's locks let the others go on one after the other, as they commit.
    let mut ended = Vec::new();
    let mut left = threads;
    while !left.is_empty() {
        let at = left.iter().position(|thread| thread.is_finished());
        let Some(at) = at else {
            std::thread::yield_now();
            continue;
        };
        let (mut client, result) = left.remove(at).join().unwrap();
        client.query("ROLLBACK").unwrap();
        ended.push((client, result));
    }
    ended
}

#[test]
fn rings_over_tables_and_names_are_kept_too() {
    let running = start();
    let mut watcher = prepare(&running, 1);
    let mut a = begin(&running, &["SELECT GET_LOCK('it''s', 10)", "UPDATE t SET k = 11 WHERE id = 1"]);
    let mut b = running.client();
    let (a_id, b_id) = (a.greeting().connection_id, b.greeting().connection_id);
    a.query("COMMIT").unwrap();
    b.query("LOCK TABLES test.t WRITE").unwrap();
    let reader = std::thread::spawn(move || code(a.query("SELECT * FROM t")));
    let waits =
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'Waiting for table metadata lock'";
    eventually("a statement waits", || rows(&mut watcher, waits) == [["1"]]);
    let named = std::thread::spawn(move || {
        let got = b.rows("SELECT GET_LOCK('it''s', 20)").unwrap();
        b.query("UNLOCK TABLES").unwrap();
        got
    });
    assert_eq!(reader.join().unwrap(), 1213, "who uses a table is the victim");
    assert_eq!(named.join().unwrap(), [["1"]], "the victim's connection has ended");
    let found = rows(
        &mut watcher,
        "SELECT TRANSACTIONS, VICTIM_POSITION, VICTIM_THREAD_ID FROM information_schema.KEEL_DEADLOCKS",
    );
    assert_eq!(found, [["2", "2", &a_id.to_string()]]);
    let parties = rows(
        &mut watcher,
        "SELECT POSITION, THREAD_ID, WAITS_FOR_TABLE, WAITS_FOR_MODE, WAITS_FOR_DATA, HOLDS_TABLE, HOLDS_MODE, HOLDS_DATA FROM information_schema.KEEL_DEADLOCK_TRANSACTIONS ORDER BY POSITION",
    );
    let name = "GET_LOCK('it''s')";
    assert_eq!(
        parties,
        [
            ["1", &b_id.to_string(), "", "EXCLUSIVE", name, "`test`.`t`", "EXCLUSIVE", ""],
            ["2", &a_id.to_string(), "`test`.`t`", "SHARED_READ", "", "", "EXCLUSIVE", name],
        ]
    );
    let statements = rows(
        &mut watcher,
        "SELECT POSITION, IS_WAITING, STATEMENT FROM information_schema.KEEL_DEADLOCK_STATEMENTS ORDER BY POSITION",
    );
    assert_eq!(statements, [["1", "1", "SELECT GET_LOCK('it''s', 20)"], ["2", "1", "SELECT * FROM t"]]);
    let status = rows(&mut watcher, "SHOW ENGINE INNODB STATUS").remove(0).remove(2);
    assert!(!status.contains("LATEST DETECTED DEADLOCK"), "InnoDB tells those over rows: {status}");
    running.stop();
}

#[test]
fn a_prepared_branch_is_shown_as_such() {
    let running = start();
    let mut client = prepare(&running, 1);
    for sql in ["XA START 'x'", "UPDATE test.t SET k = 0 WHERE id = 1", "XA END 'x'", "XA PREPARE 'x'"] {
        client.query(sql).unwrap();
    }
    let shown = rows(&mut client, "SHOW ENGINE INNODB STATUS").remove(0).remove(2);
    assert!(shown.contains(", ACTIVE (PREPARED) 0 sec"), "{shown}");
    assert_eq!(rows(&mut client, "SELECT trx_state FROM information_schema.INNODB_TRX"), [["RUNNING"]]);
    client.quit().unwrap();
    let mut client = running.client();
    eventually("the branch is nobody's", || {
        let shown = rows(&mut client, "SHOW ENGINE INNODB STATUS").remove(0).remove(2);
        shown.contains(", ACTIVE (PREPARED) 0 sec recovered trx")
    });
    client.query("XA ROLLBACK 'x'").unwrap();
    running.stop();
}

fn rows(watcher: &mut Client, sql: &str) -> Vec<Vec<String>> {
    let result: ClientResult<Vec<Vec<String>>> = watcher.rows(sql);
    result.unwrap()
}

#[test]
fn a_deadlock_is_kept_with_every_statement_of_every_party() {
    let running = start();
    let mut watcher = prepare(&running, 3);
    let a = begin(&running, &["UPDATE t SET k = 11 WHERE id = 1", "SELECT 'between'"]);
    let b = begin(&running, &["UPDATE t SET k = 21 WHERE id = 2", "UPDATE t SET k = 31 WHERE id = 3"]);
    let (a_id, b_id) = (a.greeting().connection_id, b.greeting().connection_id);
    let long = format!("UPDATE t SET k = 12 WHERE id = 2 /* {} */", "x".repeat(2000));
    let ended =
        cross(&mut watcher, vec![(a, long.clone()), (b, "UPDATE t SET name = 'other' WHERE id = 1".into())]);
    let victims: Vec<u32> =
        ended.iter().filter(|(_, code)| *code == 1213).map(|(c, _)| c.greeting().connection_id).collect();
    assert_eq!(victims, [a_id], "who changed less is the victim");

    let found = rows(
        &mut watcher,
        "SELECT DEADLOCK_ID, TRANSACTIONS, VICTIM_POSITION, VICTIM_THREAD_ID, ABS(TIMESTAMPDIFF(SECOND, DETECTED, NOW())) < 60 FROM information_schema.KEEL_DEADLOCKS",
    );
    assert_eq!(found, [["1", "2", "2", &a_id.to_string(), "1"]]);
    let parties = rows(
        &mut watcher,
        "SELECT POSITION, THREAD_ID, IS_VICTIM, USER, DB, ISOLATION_LEVEL, ROWS_CHANGED, WAITS_FOR_TABLE, WAITS_FOR_INDEX, WAITS_FOR_MODE, WAITS_FOR_DATA, HOLDS_INDEX, HOLDS_DATA, STATEMENTS, STATEMENTS_LOST FROM information_schema.KEEL_DEADLOCK_TRANSACTIONS ORDER BY POSITION",
    );
    let (a_id, b_id) = (a_id.to_string(), b_id.to_string());
    assert_eq!(
        parties,
        [
            [
                "1",
                &b_id,
                "0",
                "root",
                "test",
                "REPEATABLE READ",
                "2",
                "`test`.`t`",
                "PRIMARY",
                "X,REC_NOT_GAP",
                "1",
                "PRIMARY",
                "2",
                "3",
                "0"
            ],
            [
                "2",
                &a_id,
                "1",
                "root",
                "test",
                "REPEATABLE READ",
                "1",
                "`test`.`t`",
                "PRIMARY",
                "X,REC_NOT_GAP",
                "2",
                "PRIMARY",
                "1",
                "3",
                "0"
            ],
        ]
    );
    let told = rows(
        &mut watcher,
        "SELECT POSITION, STATEMENT_NUMBER, IS_WAITING, LEFT(STATEMENT, 34), IS_CUT, STATEMENT_LENGTH FROM information_schema.KEEL_DEADLOCK_STATEMENTS ORDER BY 1, 2",
    );
    let cut = long.len().to_string();
    assert_eq!(
        told,
        [
            ["1", "1", "0", "UPDATE t SET k = 21 WHERE id = 2", "0", "32"],
            ["1", "2", "0", "UPDATE t SET k = 31 WHERE id = 3", "0", "32"],
            ["1", "3", "1", "UPDATE t SET name = 'other' WHERE ", "0", "40"],
            ["2", "1", "0", "UPDATE t SET k = 11 WHERE id = 1", "0", "32"],
            ["2", "2", "0", "SELECT 'between'", "0", "16"],
            ["2", "3", "1", "UPDATE t SET k = 12 WHERE id = 2 /", "1", &cut],
        ]
    );
    assert_eq!(rows(&mut watcher, "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'"), [["Innodb_deadlocks", "1"]]);
    running.stop();
}

#[test]
fn rings_of_many_are_told_in_the_order_of_their_waits() {
    let running = start();
    let count = 7;
    let mut watcher = prepare(&running, count);
    let update = |id: u32| format!("UPDATE t SET k = k + 1 WHERE id = {id}");
    let steps = (1..=count)
        .map(|id| {
            // The fourth changes one row, the others two.
            let more = format!("INSERT INTO t VALUES ({}, 0, NULL)", 100 + id);
            let first = update(id);
            let own: &[&str] = if id == 4 { &[&first] } else { &[&first, &more] };
            (begin(&running, own), update(id % count + 1))
        })
        .collect();
    let ended = cross(&mut watcher, steps);
    assert_eq!(ended.iter().filter(|(_, code)| *code == 1213).count(), 1);
    let found = rows(
        &mut watcher,
        "SELECT POSITION, WAITS_FOR_DATA, HOLDS_DATA, IS_VICTIM FROM information_schema.KEEL_DEADLOCK_TRANSACTIONS ORDER BY POSITION",
    );
    // The seventh closed the ring.
    let expected: Vec<[String; 4]> = (0..count)
        .map(|place| {
            let own = (count - 1 + place) % count + 1;
            [place + 1, own % count + 1, own, u32::from(own == 4)].map(|n| n.to_string())
        })
        .collect();
    assert_eq!(found, expected);
    running.stop();
}

#[test]
fn who_only_waits_in_the_way_of_another_is_told_as_waiting() {
    let running = start();
    let mut watcher = prepare(&running, 2);
    let shares = begin(&running, &["SELECT * FROM t WHERE id = 1 LOCK IN SHARE MODE"]);
    let delete = || "DELETE FROM t WHERE id = 1".to_string();
    let ended = cross(&mut watcher, vec![(begin(&running, &[]), delete()), (shares, delete())]);
    assert_eq!(ended.iter().filter(|(_, code)| *code == 1213).count(), 1);
    let victim = rows(
        &mut watcher,
        "SELECT POSITION, HOLDS_MODE FROM information_schema.KEEL_DEADLOCK_TRANSACTIONS ORDER BY POSITION",
    );
    assert_eq!(victim, [["1", "S,REC_NOT_GAP"], ["2", "X,REC_NOT_GAP"]]);
    let status = status_text(&mut watcher, "");
    let parts = status.split("CONFLICTING WITH:").skip(1);
    let lines: Vec<&str> = parts.filter_map(|part| part.lines().nth(1)).collect();
    assert!(lines[0].ends_with("lock_mode X locks rec but not gap waiting"), "{status}");
    assert!(lines[1].ends_with("lock mode S locks rec but not gap"), "{status}");
    assert!(status.contains("WE ROLL BACK TRANSACTION (2)"), "{status}");
    running.stop();
}

#[test]
fn gaps_text_keys_and_prepared_statements_are_told() {
    let running = start();
    let mut watcher = prepare(&running, 3);
    let lock = "SELECT * FROM t WHERE id > 10 FOR UPDATE";
    let (a, b) = (begin(&running, &[lock]), begin(&running, &[lock]));
    let insert = |id: u32| format!("INSERT INTO t VALUES ({id}, 1, 'n{id}')");
    cross(&mut watcher, vec![(a, insert(11)), (b, insert(12))]);
    let gap = rows(
        &mut watcher,
        "SELECT WAITS_FOR_MODE, WAITS_FOR_DATA, HOLDS_MODE, HOLDS_DATA FROM information_schema.KEEL_DEADLOCK_TRANSACTIONS WHERE DEADLOCK_ID = 1 ORDER BY POSITION",
    );
    let expected = |id: &'static str| ["X,GAP,INSERT_INTENTION", id, "X,GAP", "supremum pseudo-record"];
    assert_eq!(gap, [expected("12"), expected("11")]);

    let by_name = |n: u32| format!("UPDATE t SET k = k + 1 WHERE name = 'name {n}'");
    let (mut c, d) = (begin(&running, &[]), begin(&running, &[&by_name(2)]));
    let statement = c.prepare("UPDATE t SET k = ? WHERE name = ?").unwrap();
    c.execute(&statement, &[keel_value::Value::Int(5), keel_value::Value::bytes(b"name 1")]).unwrap();
    let mut d = d;
    for sql in ["PREPARE again FROM 'UPDATE t SET k = ? WHERE name = ?'", "SET @k = 6, @name = 'name 2'"] {
        d.query(sql).unwrap();
    }
    d.query("EXECUTE again USING @k, @name").unwrap();
    cross(&mut watcher, vec![(c, by_name(2)), (d, by_name(1))]);
    let told = rows(
        &mut watcher,
        "SELECT WAITS_FOR_INDEX, WAITS_FOR_DATA FROM information_schema.KEEL_DEADLOCK_TRANSACTIONS WHERE DEADLOCK_ID = 2 ORDER BY POSITION",
    );
    assert_eq!(told, [["name", "'name 1', 1"], ["name", "'name 2', 2"]]);
    let prepared = rows(
        &mut watcher,
        "SELECT STATEMENT, PARAMETERS FROM information_schema.KEEL_DEADLOCK_STATEMENTS WHERE DEADLOCK_ID = 2 AND PARAMETERS IS NOT NULL ORDER BY PARAMETERS",
    );
    let update = "UPDATE t SET k = ? WHERE name = ?";
    assert_eq!(prepared, [[update, "5, 'name 1'"], [update, "6, 'name 2'"]]);
    running.stop();
}

#[test]
fn a_transaction_shows_its_own_statements_and_no_secrets() {
    let running = start();
    let mut watcher = prepare(&running, 2);
    let again = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
    let update = "UPDATE t SET k = 2 WHERE id = 2";
    let mut client = begin(&running, &["UPDATE t SET k = 1 WHERE id = 1", again, update]);
    let secret = "SELECT k FROM t WHERE name = PASSWORD(?) AND id = ? FOR UPDATE";
    let statement = client.prepare(secret).unwrap();
    client.execute(&statement, &[keel_value::Value::bytes(b"hush"), keel_value::Value::Int(1)]).unwrap();
    let told = rows(
        &mut watcher,
        "SELECT STATEMENT, IFNULL(PARAMETERS, '') FROM information_schema.KEEL_TRX_STATEMENTS ORDER BY STATEMENT_NUMBER",
    );
    assert_eq!(told, [[again, ""], [update, ""], [secret, "<secret>"]]);
    running.stop();
}

#[test]
fn waits_are_shown_while_they_last() {
    let running = start();
    let mut watcher = prepare(&running, 3);
    let holder = begin(&running, &["SELECT * FROM t WHERE id = 1 FOR UPDATE"]);
    let reader = begin(&running, &["SELECT * FROM t"]);
    let mut waiter = begin(&running, &["UPDATE t SET k = 21 WHERE id = 2", "DELETE FROM t WHERE id = 3"]);
    let ids = [&holder, &reader, &waiter].map(|c| c.greeting().connection_id.to_string());
    let thread = std::thread::spawn(move || waiter.query("UPDATE t SET name = 'x' WHERE id = 1").map(|_| ()));
    eventually("a statement waits", || waiting(&mut watcher) == 1);

    let trx = rows(
        &mut watcher,
        "SELECT trx_mysql_thread_id, trx_state, IFNULL(trx_query, ''), trx_rows_modified, trx_tables_in_use, trx_tables_locked, trx_id = 0, trx_requested_lock_id IS NULL, trx_wait_started IS NULL, ABS(TIMESTAMPDIFF(SECOND, trx_started, NOW())) < 60, trx_isolation_level FROM information_schema.INNODB_TRX ORDER BY 1",
    );
    let level = "REPEATABLE READ";
    let update = "UPDATE t SET name = 'x' WHERE id = 1";
    assert_eq!(
        trx,
        [
            [&ids[0], "RUNNING", "", "0", "0", "1", "0", "1", "1", "1", level],
            [&ids[1], "RUNNING", "", "0", "0", "0", "1", "1", "1", "1", level],
            [&ids[2], "LOCK WAIT", update, "2", "1", "1", "0", "0", "0", "1", level],
        ]
    );
    let joined = "SELECT w.trx_mysql_thread_id, b.trx_mysql_thread_id, wl.lock_mode, bl.lock_mode, wl.lock_table, wl.lock_index, \
                  wl.lock_data, bl.lock_data, wl.lock_id = w.trx_requested_lock_id \
                  FROM information_schema.INNODB_LOCK_WAITS l \
                  JOIN information_schema.INNODB_TRX w ON w.trx_id = l.requesting_trx_id \
                  JOIN information_schema.INNODB_TRX b ON b.trx_id = l.blocking_trx_id \
                  JOIN information_schema.INNODB_LOCKS wl ON wl.lock_id = l.requested_lock_id \
                  JOIN information_schema.INNODB_LOCKS bl ON bl.lock_id = l.blocking_lock_id";
    assert_eq!(
        rows(&mut watcher, joined),
        [[&ids[2], &ids[0], "X", "X", "`test`.`t`", "PRIMARY", "1", "1", "1"]]
    );
    let told = rows(
        &mut watcher,
        &format!(
            "SELECT STATEMENT_NUMBER, IS_RUNNING, STATEMENT FROM information_schema.KEEL_TRX_STATEMENTS WHERE THREAD_ID = {} ORDER BY 1",
            ids[2]
        ),
    );
    assert_eq!(
        told,
        [
            ["1", "0", "UPDATE t SET k = 21 WHERE id = 2"],
            ["2", "0", "DELETE FROM t WHERE id = 3"],
            ["3", "1", update],
        ]
    );
    watcher.query(&format!("KILL {}", ids[2])).unwrap();
    assert!(thread.join().unwrap().is_err());
    drop((holder, reader));
    eventually("nothing is left", || {
        rows(&mut watcher, "SELECT * FROM information_schema.INNODB_TRX").is_empty()
    });
    running.stop();
}

#[test]
fn an_insert_that_waits_has_the_lock_that_it_waits_for() {
    let running = start();
    let mut watcher = prepare(&running, 3);
    let holder = begin(&running, &["SELECT * FROM t WHERE id > 100 FOR UPDATE"]);
    let mut waiter = begin(&running, &[]);
    let thread = std::thread::spawn(move || waiter.query("INSERT INTO t (id) VALUES (150)").map(|_| ()));
    eventually("the insert waits", || waiting(&mut watcher) == 1);
    let counts = "SELECT trx_tables_locked, trx_lock_structs, trx_rows_locked, trx_rows_modified, trx_weight \
                  FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'";
    assert_eq!(rows(&mut watcher, counts), [["1", "2", "1", "0", "2"]]);
    drop(holder);
    thread.join().unwrap().unwrap();
    running.stop();
}

/// A deadlock behind it, and a row lock, a gap lock and a snapshot that somebody holds; two sessions wait.
fn busy(running: &Running) -> (Client, Vec<Client>, Vec<std::thread::JoinHandle<()>>) {
    let mut watcher = prepare(running, 3);
    let update = |id: u32| format!("UPDATE t SET k = k + 1 WHERE id = {id}");
    let (a, b) = (begin(running, &[&update(1)]), begin(running, &[&update(2)]));
    cross(&mut watcher, vec![(a, update(2)), (b, update(1))]);
    let holder = begin(
        running,
        &["SELECT * FROM t WHERE id = 1 FOR UPDATE", "SELECT * FROM t WHERE id > 10 FOR UPDATE"],
    );
    let reader = begin(running, &["SELECT * FROM t"]);
    let threads = [update(1), "INSERT INTO t VALUES (11, 1, 'x')".to_string()].into_iter().map(|sql| {
        let mut waiter = begin(running, &[&update(2 + u32::from(sql.starts_with('I')))]);
        std::thread::spawn(move || drop(waiter.query(&sql)))
    });
    let threads: Vec<_> = threads.collect();
    eventually("both wait", || waiting(&mut watcher) == 2);
    (watcher, vec![holder, reader], threads)
}

fn end(mut holders: Vec<Client>, threads: Vec<std::thread::JoinHandle<()>>) {
    holders.iter_mut().for_each(|holder| drop(holder.query("ROLLBACK").unwrap()));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn status_text(watcher: &mut Client, form: &str) -> String {
    let found = rows(watcher, &format!("SHOW ENGINE INNODB STATUS{form}"));
    assert_eq!((found.len(), &*found[0][0], &*found[0][1]), (1, "InnoDB", ""));
    found[0][2].clone()
}

#[test]
fn the_report_reads_as_innodbs_to_what_reads_those() {
    let running = start();
    let (mut watcher, holders, threads) = busy(&running);
    let text = status_text(&mut watcher, "");
    let headings = [
        "BACKGROUND THREAD",
        "SEMAPHORES",
        "LATEST DETECTED DEADLOCK",
        "TRANSACTIONS",
        "FILE I/O",
        "LOG",
        "BUFFER POOL AND MEMORY",
        "ROW OPERATIONS",
    ];
    let mut place = 0;
    for heading in headings {
        let rule = "-".repeat(heading.len());
        let at = text[place..].find(&format!("\n{rule}\n{heading}\n{rule}\n"));
        place += at.unwrap_or_else(|| panic!("no {heading} behind octet {place} of\n{text}"));
    }
    // What innotop, pt-deadlock-logger, and exporters look for, as their expressions do.
    for expression in [
        r"^\d{4}-\d\d-\d\d +\d+:\d\d:\d\d 0x[0-9a-f]+ INNODB MONITOR OUTPUT$",
        r"^Per second averages calculated from the last (\d+) seconds$",
        r"^\d{4}-\d\d-\d\d +\d+:\d\d:\d\d 0x[0-9a-f]+$",
        r"^\*\*\* \(1\) TRANSACTION:$",
        r"^TRANSACTION (\d+), ACTIVE (\d+) sec updating or deleting$",
        r"^mysql tables in use (\d+), locked (\d+)$",
        r"^LOCK WAIT (\d+) lock struct\(s\), heap size (\d+), (\d+) row lock\(s\), undo log entries (\d+)$",
        r"^(?:MySQL|MariaDB) thread id (\d+), OS thread handle (\S+), query id (\d+) localhost 127\.0\.0\.1 root Updating$",
        r"^\*\*\* WAITING FOR THIS LOCK TO BE GRANTED:$",
        r"^RECORD LOCKS space id (\d+) page no (\d+) n bits (\d+) index PRIMARY of table `test`\.`t` trx id (\d+) lock_mode X locks rec but not gap waiting$",
        r"^\*\*\* CONFLICTING WITH:$",
        r"^\*\*\* WE ROLL BACK TRANSACTION \(1\)$",
        r"^Trx id counter (\d+)$",
        r"^Purge done for trx's n:o < (\d+) undo n:o < (\d+)",
        r"^History list length (\d+)$",
        r"^---TRANSACTION (\d+), ACTIVE (\d+) sec inserting$",
        r"^---TRANSACTION \(0x[0-9a-f]+\), ACTIVE (\d+) sec$",
        r"^------- TRX HAS BEEN WAITING (\d+) us FOR THIS LOCK TO BE GRANTED:$",
        r"lock_mode X locks gap before rec insert intention waiting$",
        r"^ 0: len 4; hex 80000001; asc +;;$",
        r"^(\d+) OS file reads, (\d+) OS file writes, (\d+) OS fsyncs$",
        r"^(\d+\.\d+) reads/s, (\d+) avg bytes/read, (\d+\.\d+) writes/s, (\d+\.\d+) fsyncs/s$",
        r"^Log sequence number +(\d+)$",
        r"^Log flushed up to +(\d+)$",
        r"^Pages flushed up to +(\d+)$",
        r"^Last checkpoint at +(\d+)$",
        r"^Total large memory allocated (\d+)",
        r"^Buffer pool size +(\d+)$",
        r"^Free buffers +(\d+)$",
        r"^Database pages +(\d+)$",
        r"^Modified db pages +(\d+)$",
        r"^Pages read (\d+), created (\d+), written (\d+)$",
        r"^Buffer pool hit rate (\d+) / (\d+)",
        r"^(\d+) queries inside InnoDB, (\d+) queries in queue$",
        r"^(\d+) read views open inside InnoDB$",
        r"^Number of rows inserted (\d+), updated (\d+), deleted (\d+), read (\d+)$",
        r"^(\d+\.\d+) inserts/s, (\d+\.\d+) updates/s, (\d+\.\d+) deletes/s, (\d+\.\d+) reads/s$",
        r"^END OF INNODB MONITOR OUTPUT$",
    ] {
        let found = regex::Regex::new(&format!("(?m){expression}")).unwrap().is_match(&text);
        assert!(found, "nothing fits {expression} in\n{text}");
    }
    let inserted = regex::Regex::new(r"rows inserted (\d+)").unwrap().captures(&text).unwrap()[1].to_string();
    // Four records of the first accounts among them.
    assert_eq!(inserted, "14");
    end(holders, threads);
    running.stop();
}

/// A table whose rows name those of another, and the statement that cannot.
fn fail_for_a_foreign_key(client: &mut Client) -> &'static str {
    for sql in [
        "CREATE TABLE test.parent (id INT PRIMARY KEY)",
        "CREATE TABLE test.child (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id))",
    ] {
        client.query(sql).unwrap();
    }
    let sql = "INSERT INTO test.child VALUES (1, 9)";
    assert_eq!(code(client.query(sql)), 1452);
    sql
}

#[test]
fn the_last_foreign_key_that_failed_has_a_section() {
    let running = start();
    let mut client = running.client();
    assert!(!status_text(&mut client, "").contains("LATEST FOREIGN KEY ERROR"));
    let sql = regex::escape(fail_for_a_foreign_key(&mut client));
    let begins =
        r"\n-+\nLATEST FOREIGN KEY ERROR\n-+\n[0-9-]+ [0-9:]+ 0x[0-9a-f]+ Transaction:\nTRANSACTION .*";
    let constraint = r"  CONSTRAINT `fk` FOREIGN KEY \(`p`\) REFERENCES `parent` \(`id`\)";
    let told = format!(
        r"(?s){begins}\nMariaDB thread id \d+, [^\n]*\n{sql}\nForeign key constraint fails for table `test`.`child`:\n,\n{constraint}"
    );
    let text = status_text(&mut client, "");
    assert!(regex::Regex::new(&format!("{told} in parent table\n")).unwrap().is_match(&text), "{text}");
    client.query("INSERT INTO test.parent VALUES (9)").unwrap();
    client.query("INSERT INTO test.child VALUES (1, 9)").unwrap();
    assert_eq!(code(client.query("DELETE FROM test.parent")), 1451);
    let text = status_text(&mut client, "");
    let told = told.replace(&sql, "DELETE FROM test\\.parent");
    let told = format!("{told}\nTrying to delete or update in parent table\n");
    assert!(regex::Regex::new(&told).unwrap().is_match(&text), "{text}");
    running.stop();
}

#[test]
fn the_json_form_has_the_fields_that_are_described() {
    let running = start();
    let (mut watcher, holders, threads) = busy(&running);
    watcher.query("USE test").unwrap();
    fail_for_a_foreign_key(&mut watcher);
    let text = status_text(&mut watcher, " FORMAT=JSON");
    let parsed: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let mut found = std::collections::BTreeSet::new();
    fields(&parsed, "", &mut found);
    let page = include_str!("../../../../docs/STATUS.md");
    let described = page.split("\n### JSON").nth(1).unwrap().split("\n## ").next().unwrap();
    let described: std::collections::BTreeSet<String> = described
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_string()))
        .collect();
    assert_eq!(found, described);
    let list = parsed["transactions"]["list"].as_array().unwrap();
    assert_eq!(list.iter().filter(|trx| trx["state"] == "LOCK WAIT").count(), 2);
    assert_eq!(
        (parsed["locks"]["waiting"].as_u64(), parsed["latest_deadlock"]["deadlock_id"].as_u64()),
        (Some(2), Some(1))
    );
    assert_eq!(code(watcher.query("SHOW ENGINE INNODB STATUS FORMAT=XML")), 1791);
    end(holders, threads);
    running.stop();
}

/// The paths of all fields; what is null in one place is not in others.
fn fields(value: &serde_json::Value, path: &str, out: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (name, value) in map {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                fields(value, &path, out);
                out.insert(path);
            }
        }
        serde_json::Value::Array(items) => {
            items.iter().for_each(|item| fields(item, &format!("{path}[]"), out))
        }
        _ => {}
    }
}

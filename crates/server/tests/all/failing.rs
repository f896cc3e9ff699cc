//! A short script of definitions and changes, again and again, each time with another file operation that fails: every
//! statement succeeds or is refused with an error that tells of the fault, the server lives, and what was acknowledged is
//! there, also after a crash or a stop. A second server, to which nothing happens, says what the tables must hold.
//! KEEL_SEEDS set: every operation instead of a sample, or those of a range (`0..100`).

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::simulated::{Client, options, start};
use keel_runtime::sim::{self, Disk, Op, Outcome};
use keel_runtime::{fiber, fs};
use keel_server::{Server, start_on_fiber};
use keel_testkit::history::session::{Failure, Session};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Makes tables that are there before anything fails, larger than the pool.
fn before() -> Vec<String> {
    let insert = |table: &str, count: u32, row: &dyn Fn(u32) -> String| {
        let rows: Vec<String> = (1..=count).map(|id| format!("({id}, {})", row(id))).collect();
        format!("INSERT INTO {table} VALUES {}", rows.join(","))
    };
    vec![
        "CREATE TABLE a (id INT PRIMARY KEY, n INT, v VARCHAR(3000), KEY (n))".into(),
        "CREATE TABLE b (id INT PRIMARY KEY, v MEDIUMTEXT, KEY (v(50)))".into(),
        "CREATE TABLE other (id INT PRIMARY KEY, v VARCHAR(100), UNIQUE KEY (v))".into(),
        insert("a", 800, &|id| format!("{}, REPEAT('{}', 1500)", id % 17, id % 9)),
        insert("b", 60, &|id| format!("REPEAT('long{id}', 10000)")),
        insert("other", 50, &|id| format!("'other {id}'")),
    ]
}

/// What fails somewhere.
const SCRIPT: &[&str] = &[
    "INSERT INTO a SELECT id + 1000, n % 5, REPEAT('x', id * 29) FROM a WHERE id <= 100",
    "UPDATE a SET n = n + 100 WHERE id BETWEEN 100 AND 300",
    "CREATE TABLE c (id INT PRIMARY KEY, v VARCHAR(200), KEY (v))",
    "INSERT INTO c VALUES (1, 'one'), (2, 'two'), (3, REPEAT('three', 30))",
    "UPDATE b SET v = CONCAT(v, ' and more') WHERE id % 7 = 0",
    "SELECT id FROM a ORDER BY v, id LIMIT 3",
    "BEGIN",
    "DELETE FROM a WHERE n = 3",
    "UPDATE other SET v = CONCAT('changed ', id) WHERE id < 9",
    "SAVEPOINT s",
    "INSERT INTO b VALUES (900, REPEAT('gone', 9000))",
    "ROLLBACK TO SAVEPOINT s",
    "INSERT INTO b VALUES (901, REPEAT('kept', 9000))",
    "COMMIT",
    "ALTER TABLE a ADD INDEX nv (n, v(20))",
    "ALTER TABLE c ADD COLUMN w INT DEFAULT 7",
    "REPLACE INTO c (id, v) VALUES (2, 'new'), (4, 'four')",
    "BEGIN",
    "DELETE FROM b WHERE id < 20",
    "ROLLBACK",
    "RENAME TABLE c TO d",
    "CREATE TABLE e LIKE a",
    "INSERT INTO e SELECT * FROM a WHERE id <= 120",
    "TRUNCATE TABLE e",
    "DROP INDEX n ON a",
    "DELETE FROM b WHERE id % 2 = 1",
    "DROP TABLE e",
    "INSERT INTO d (id, v) VALUES (5, 'five')",
    "OPTIMIZE TABLE d",
    "SELECT COUNT(*), SUM(LENGTH(v)) FROM b",
];

/// Errors that tell of a fault; 1205 where what is to be rolled back waits for the fault to end.
const FAULTS: [u16; 7] = [1005, 1021, 1025, 1026, 1030, 1114, 1205];

type Answer = Result<Vec<Vec<String>>, Failure>;

/// The server to which nothing happens, in a world of its own.
struct Reference {
    ask: Option<Sender<String>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
    disk: Disk,
}

impl Reference {
    fn new() -> Reference {
        let disk = Disk::new(1);
        let ((ask, asked), (answer, answers)) = (channel::<String>(), channel());
        let serve = move || {
            let server = start();
            let mut client = client_of(&server);
            while let Ok(sql) = asked.recv() {
                answer.send(client.run(&sql)).expect("somebody waits for it");
            }
            drop(client);
            server.stop().expect("stops");
        };
        let options = sim::Options::new(1).with_disk(&disk);
        let thread = std::thread::spawn(move || sim::run(options, serve).done());
        Reference { ask: Some(ask), answers, thread: Some(thread), disk }
    }

    /// With the tables as they are before anything fails.
    fn reset(&mut self) {
        let anew = ["DROP DATABASE test", "CREATE DATABASE test", "USE test"].map(String::from);
        for sql in anew.into_iter().chain(before()) {
            self.run(&sql).unwrap_or_else(|failure| panic!("{sql}: {failure:?}"));
        }
    }
}

impl Session for Reference {
    fn run(&mut self, sql: &str) -> Answer {
        self.ask.as_ref().expect("open").send(sql.into()).expect("the reference lives");
        self.answers.recv().expect("the reference lives")
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        self.ask = None;
        let _ = self.thread.take().map(JoinHandle::join);
        self.disk.clear();
    }
}

/// Definitions and rows of all tables.
fn tables(session: &mut impl Session) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut rows = |sql: &str| session.run(sql).unwrap_or_else(|failure| panic!("{sql}: {failure:?}"));
    let names = rows("SHOW TABLES FROM test");
    let table = |name: String| {
        let mut all = rows(&format!("SHOW CREATE TABLE test.{name}"));
        all.extend(rows(&format!("SELECT * FROM test.{name} ORDER BY id")));
        (name, all)
    };
    names.into_iter().map(|row| row[0].clone()).map(table).collect()
}

/// How the script ended.
#[derive(Debug, PartialEq)]
enum Ended {
    /// All of it was answered.
    Through,
    /// The server gave up; the statement, if there is one, may have been done.
    GaveUp(Option<&'static str>),
}

/// Whether maintenance of a table says that it met the fault: it does so in rows.
fn has_failed(rows: &[Vec<String>]) -> bool {
    rows.iter().flatten().any(|text| text.contains("(os error "))
}

/// Runs the script on both; what is refused here for a fault does not happen there, nor what comes after it in a transaction.
fn play(server: &Server, client: &mut Client, reference: &mut Reference) -> Ended {
    let (mut in_transaction, mut is_given_up) = (false, false);
    for &sql in SCRIPT {
        in_transaction |= sql == "BEGIN";
        let ends = matches!(sql, "COMMIT" | "ROLLBACK");
        if !is_given_up {
            let answer = client.run(sql);
            let is_fault = match &answer {
                Ok(rows) => has_failed(rows),
                Err(Failure::Refused(code)) => FAULTS.contains(code),
                Err(Failure::Lost) => true,
            };
            if !is_fault {
                // Errors, too, that follow from what was refused before.
                assert_eq!(answer, reference.run(sql), "{sql}");
            } else if server.ended().is_some() {
                return gave_up(sql, in_transaction, reference);
            } else if in_transaction {
                assert_ne!(answer, Err(Failure::Lost), "{sql}");
                client.must("ROLLBACK");
                reference.run("ROLLBACK").expect("rolls back");
                is_given_up = true;
            }
        }
        if ends {
            (in_transaction, is_given_up) = (false, false);
        }
    }
    Ended::Through
}

fn gave_up(sql: &'static str, in_transaction: bool, reference: &mut Reference) -> Ended {
    if in_transaction && sql != "COMMIT" {
        reference.run("ROLLBACK").expect("rolls back");
        return Ended::GaveUp(None);
    }
    Ended::GaveUp(Some(sql))
}

/// The tables are those of the reference, and sound.
fn verify(server: &Server, reference: &mut Reference) {
    let mut client = Client::of(server);
    let (found, expected) = (tables(&mut client), tables(reference));
    for (name, rows) in &expected {
        let found = found.get(name).unwrap_or_else(|| panic!("table {name} is missing"));
        assert!(found == rows, "table {name} differs: {} rows, expected {}", found.len(), rows.len());
        assert_eq!(client.must(&format!("CHECK TABLE test.{name}"))[0][3], "OK");
    }
    assert_eq!(found.len(), expected.len());
}

/// Every file belongs to a tree that is named.
fn verify_files(server: &Server) {
    let indexes = "SELECT COUNT(DISTINCT table_name, index_name) FROM information_schema.statistics \
                   WHERE table_schema = 'test'";
    let count: usize = Client::of(server).must(indexes)[0][0].parse().expect("a count");
    let files = fs::read_dir(Path::new("/keel/trees")).expect("lists");
    assert_eq!(files.len(), 3 + count, "files: {files:?}");
}

#[derive(Debug, Clone, Copy)]
struct Case {
    kind: Op,
    errno: i32,
    after: u64,
    times: u64,
}

impl Case {
    /// Whether the server may give up: what the log cannot write, nobody can acknowledge.
    fn may_end(self) -> bool {
        matches!(self.kind, Op::Write | Op::Sync)
    }
}

/// A disk with the tables, of a server that was stopped.
fn prepared(seed: u64) -> Disk {
    let disk = Disk::new(seed);
    sim::run(sim::Options::new(seed).with_disk(&disk), || {
        let server = start();
        let mut client = Client::of(&server);
        client.must("USE test");
        before().iter().for_each(|sql| drop(client.must(sql)));
        drop(client);
        server.stop().expect("stops");
    })
    .done();
    disk
}

fn client_of(server: &Server) -> Client {
    let mut client = Client::of(server);
    client.must("USE test");
    client
}

/// Operations of each kind that the script makes.
fn operations(reference: &mut Reference) -> impl Fn(Op) -> u64 {
    reference.reset();
    let disk = prepared(1);
    let kinds = [Op::Read, Op::Write, Op::Sync, Op::Name];
    let counts = sim::run(sim::Options::new(2).with_disk(&disk), || {
        let server = start();
        let before = kinds.map(sim::operations);
        assert_eq!(play(&server, &mut client_of(&server), reference), Ended::Through);
        let counts = kinds.map(sim::operations);
        verify(&server, reference);
        server.stop().expect("stops");
        std::array::from_fn::<u64, 4, _>(|kind| counts[kind] - before[kind])
    })
    .done();
    disk.clear();
    move |kind| counts[kinds.iter().position(|k| *k == kind).expect("one of them")]
}

fn try_case(case: Case, reference: &mut Reference) {
    reference.reset();
    let disk = prepared(1);
    let mut doubt = None;
    let outcome = sim::run(sim::Options::new(2).with_disk(&disk), || {
        let server = start();
        sim::fail_times(case.kind, "", case.errno, case.after, case.times);
        let mut client = client_of(&server);
        let ended = play(&server, &mut client, reference);
        sim::clear_faults();
        if server.ended().is_some() {
            assert!(case.may_end(), "gave up: {:?}", server.ended());
            if let Ended::GaveUp(sql) = ended {
                doubt = sql;
            }
            sim::crash_now();
        }
        // The room is there again, the device answers: all goes on.
        fiber::sleep(Duration::from_secs(2));
        verify(&server, reference);
        for sql in ["UPDATE other SET v = CONCAT('last ', id)", "INSERT INTO a VALUES (5000, 1, 'last')"] {
            assert_eq!(client.run(sql), reference.run(sql), "{sql}");
        }
        drop(client);
        if case.after.is_multiple_of(2) {
            sim::crash_now();
        }
        server.stop().expect("stops");
    });
    if outcome == Outcome::Crashed && !case.after.is_multiple_of(3) {
        disk.crash(case.after);
    }
    sim::run(sim::Options::new(3).with_disk(&disk), || {
        let server = start();
        settle(&server, doubt, reference);
        verify(&server, reference);
        verify_files(&server);
        server.stop().expect("stops");
    })
    .done();
    disk.clear();
}

/// What the server gave up at is done there too, or is not.
fn settle(server: &Server, doubt: Option<&str>, reference: &mut Reference) {
    let Some(sql) = doubt else { return };
    let is_equal = tables(&mut Client::of(server)) == tables(reference);
    // The reference sees what it has not committed yet.
    let (then, is_done) = if sql == "COMMIT" { ("ROLLBACK", is_equal) } else { ("DO 0", !is_equal) };
    let sql = if is_done { sql } else { then };
    reference.run(sql).unwrap_or_else(|failure| panic!("{sql}: {failure:?}"));
}

/// Starts after a crash with a fault: it succeeds or is refused, and the next start finds all.
fn try_start(case: Case, reference: &mut Reference) {
    reference.reset();
    let disk = prepared(1);
    sim::run(sim::Options::new(2).with_disk(&disk), || {
        let server = start();
        assert_eq!(play(&server, &mut client_of(&server), reference), Ended::Through);
        sim::crash_now();
    });
    disk.crash(case.after);
    let outcome = sim::run(sim::Options::new(3).with_disk(&disk), || {
        sim::fail_times(case.kind, "", case.errno, case.after, case.times);
        let started = start_on_fiber(options());
        sim::clear_faults();
        match started {
            Ok(server) if server.ended().is_none() => verify(&server, reference),
            Ok(_) => {}
            Err(error) => {
                let told = error.to_string();
                let names = [" at ", "/keel", "no space left on the device for "];
                assert!(names.iter().any(|part| told.contains(part)), "what fails is not named: {told}");
            }
        }
        sim::crash_now();
    });
    assert_eq!(outcome, Outcome::<()>::Crashed);
    disk.crash(case.after);
    sim::run(sim::Options::new(4).with_disk(&disk), || {
        let server = start();
        verify(&server, reference);
        verify_files(&server);
        server.stop().expect("stops");
    })
    .done();
    disk.clear();
}

#[test]
fn any_operation_of_a_start_may_fail() {
    let mut reference = Reference::new();
    for (kind, errno) in
        [(Op::Read, EIO), (Op::Write, EIO), (Op::Write, ENOSPC), (Op::Sync, EIO), (Op::Name, EIO)]
    {
        for after in samples(40, 2) {
            let case = Case { kind, errno, after, times: 1 };
            if catch_unwind(AssertUnwindSafe(|| try_start(case, &mut reference))).is_err() {
                panic!("failed: a start with {case:?}");
            }
        }
    }
}

/// A sample of `0..count`; with KEEL_SEEDS all of it, or those of a range.
fn samples(count: u64, size: u64) -> impl Iterator<Item = u64> {
    let wanted = std::env::var("KEEL_SEEDS").ok();
    let step = if wanted.is_some() { 1 } else { (count / size).max(1) };
    let wanted = wanted.and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().expect("a number")..to.parse().expect("a number"))
    });
    (0..count).step_by(step as usize).filter(move |n| wanted.as_ref().is_none_or(|wanted| wanted.contains(n)))
}

fn try_all(kind: Op, faults: &[(i32, u64)]) {
    let mut reference = Reference::new();
    let count = operations(&mut reference)(kind);
    assert!(count > 20, "nothing to fail");
    for &(errno, times) in faults {
        for after in samples(count, 2) {
            let case = Case { kind, errno, after, times };
            if catch_unwind(AssertUnwindSafe(|| try_case(case, &mut reference))).is_err() {
                panic!("failed: {case:?}, of {count}");
            }
        }
    }
}

#[test]
fn any_read_may_fail() {
    try_all(Op::Read, &[(EIO, 1), (EIO, 20)]);
}

#[test]
fn any_write_may_fail() {
    try_all(Op::Write, &[(EIO, 1), (ENOSPC, 1), (ENOSPC, 100)]);
}

#[test]
fn any_sync_may_fail() {
    try_all(Op::Sync, &[(EIO, 1), (ENOSPC, 1)]);
}

#[test]
fn any_change_of_names_may_fail() {
    try_all(Op::Name, &[(EIO, 1), (ENOSPC, 1), (ENOSPC, 5)]);
}

//! Variables whose effect several sessions show, or a figure of the server: each of these compares two values.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use keel_testkit::client::{Client, Login};

use super::{World, run};

/// Names of the same meaning, and what shows that they act.
type Proof = (&'static str, fn(&mut World, &str));

const PROOFS: &[Proof] = &[
    ("connect_timeout", |world, _| {
        let waits = |world: &mut World, seconds: u32| {
            run(&mut world.root, &format!("SET GLOBAL connect_timeout={seconds}"));
            let mut stranger = TcpStream::connect(("127.0.0.1", world.server.port)).expect("connects");
            stranger.set_read_timeout(Some(Duration::from_millis(3500))).expect("a time");
            let started = Instant::now();
            let mut greeting = [0; 4096];
            while matches!(stranger.read(&mut greeting), Ok(length) if length > 0) {}
            started.elapsed()
        };
        assert!(waits(world, 2) < Duration::from_millis(3300));
        assert!(waits(world, 60) > Duration::from_millis(3300));
    }),
    ("disconnect_on_expired_password", |world, _| {
        run(&mut world.root, "CREATE USER expired@'%' IDENTIFIED BY 'x' PASSWORD EXPIRE");
        let login = || Login { user: "expired".into(), password: "x".into(), ..Login::default() };
        run(&mut world.root, "SET GLOBAL disconnect_on_expired_password=1");
        assert!(Client::connect(&world.server.unix(), &login()).is_err());
        run(&mut world.root, "SET GLOBAL disconnect_on_expired_password=0");
        assert!(Client::connect(&world.server.unix(), &login()).is_ok());
    }),
    ("general_log_file", |world, name| named_log(world, name, "general_log")),
    ("slow_query_log_file log_slow_query_file", |world, name| named_log(world, name, "slow_query_log")),
    ("log_slow_verbosity", |world, _| {
        let texts =
            ["''", "'query_plan'"].map(|words| slow_text(world, &format!("SET log_slow_verbosity={words}")));
        assert!(!texts[0].contains("Full_scan") && texts[1].contains("Full_scan"), "{texts:?}");
    }),
    ("log_slow_max_warnings", |world, _| {
        let texts = [0, 10].map(|most| {
            slow_text(world, &format!("SET log_slow_verbosity='warnings', log_slow_max_warnings={most}"))
        });
        assert!(!texts[0].contains("Truncated") && texts[1].contains("Truncated"), "{texts:?}");
    }),
    ("log_warnings", |world, _| {
        let logged = |world: &mut World, level: u32| {
            run(&mut world.root, &format!("SET GLOBAL log_warnings={level}"));
            let user = format!("stranger{level}");
            let login = Login { user: user.clone(), password: "x".into(), ..Login::default() };
            assert!(Client::connect(&world.server.unix(), &login).is_err());
            std::thread::sleep(Duration::from_millis(300));
            server_log(world).contains(&user)
        };
        assert_eq!([logged(world, 0), logged(world, 2)], [false, true]);
    }),
    ("innodb_deadlock_report", |world, _| {
        let latest = ["full", "basic"].map(|report| {
            run(&mut world.root, &format!("SET GLOBAL innodb_deadlock_report={report}"));
            meet_in_a_deadlock(world);
            latest_deadlock(world)
        });
        let parts =
            ["*** (2) TRANSACTION:", "*** WAITING FOR", "*** CONFLICTING WITH:", "UPDATE met SET a = 2"];
        assert_eq!(parts.map(|part| latest[0].contains(part)), [true, true, true, true], "{}", latest[0]);
        assert_eq!(parts.map(|part| latest[1].contains(part)), [true, true, false, true], "{}", latest[1]);
        run(&mut world.root, "SET GLOBAL innodb_deadlock_report=off, innodb_print_all_deadlocks=1");
        meet_in_a_deadlock(world);
        assert_eq!(latest_deadlock(world), latest[1]);
        assert!(!server_log(world).contains("deadlock"));
        run(&mut world.root, "SET GLOBAL innodb_deadlock_report=DEFAULT, innodb_print_all_deadlocks=0");
    }),
    ("innodb_print_all_deadlocks", |world, _| {
        let logged = |world: &mut World, value: u32| {
            run(&mut world.root, &format!("SET GLOBAL innodb_print_all_deadlocks={value}"));
            meet_in_a_deadlock(world);
            std::thread::sleep(Duration::from_millis(300));
            server_log(world)
        };
        assert!(!logged(world, 0).contains("deadlock"));
        let told = logged(world, 1);
        let rest = told.split_once("[Note] InnoDB: Transactions deadlock detected").expect("a deadlock").1;
        for part in
            ["InnoDB: \n*** (1) TRANSACTION:\n\nTRANSACTION ", "\nUPDATE met SET a = 2", "WE ROLL BACK"]
        {
            assert!(rest.contains(part), "{part}: {told}");
        }
        run(&mut world.root, "SET GLOBAL innodb_print_all_deadlocks=0");
    }),
    ("innodb_buffer_pool_size", |world, _| {
        let pages = [32, 48].map(|size| {
            run(&mut world.root, &format!("SET GLOBAL innodb_buffer_pool_size={}", size << 20));
            world.status("Innodb_buffer_pool_pages_total")
        });
        assert_eq!(pages, [32 << 6, 48 << 6]);
        run(&mut world.root, "SET GLOBAL innodb_buffer_pool_size=DEFAULT");
        until("the pool grows by itself", || world.status("Innodb_buffer_pool_pages_total") > 48 << 6);
        assert_eq!(run(&mut world.root, &state_of("innodb_buffer_pool_size")), "automatic");
        run(&mut world.root, "SET GLOBAL innodb_buffer_pool_size=67108864");
        assert_eq!(run(&mut world.root, &state_of("innodb_buffer_pool_size")), "acts");
    }),
    ("innodb_flush_log_at_trx_commit", |world, _| {
        run(&mut world.root, "CREATE OR REPLACE TABLE d.flushed (a INT)");
        let syncs = [1, 0].map(|value| {
            run(&mut world.root, &format!("SET GLOBAL innodb_flush_log_at_trx_commit={value}"));
            let before = world.status("Innodb_data_fsyncs");
            (0..200).for_each(|_| drop(run(&mut world.root, "INSERT INTO d.flushed VALUES (1)")));
            world.status("Innodb_data_fsyncs") - before
        });
        run(&mut world.root, "SET GLOBAL innodb_flush_log_at_trx_commit=DEFAULT");
        assert!(syncs[0] >= 200 && syncs[1] < 100, "{syncs:?}");
    }),
    ("innodb_io_capacity", |world, _| {
        let written = |world: &mut World, pages: u32| {
            run(&mut world.root, &format!("SET GLOBAL innodb_io_capacity_max={pages}"));
            written_in_a_second(world, &format!("SET GLOBAL innodb_io_capacity={pages}"))
        };
        paces_differ(world, written);
    }),
    ("innodb_io_capacity_max", |world, _| {
        // The other one is never above it.
        paces_differ(world, |world, pages| {
            run(&mut world.root, "SET GLOBAL innodb_io_capacity=20000");
            written_in_a_second(world, &format!("SET GLOBAL innodb_io_capacity_max={pages}"))
        });
    }),
    ("innodb_lock_wait_timeout", |world, name| {
        waits_for_a_lock(world, name, "UPDATE d.held SET a = 2", "UPDATE d.held SET a = 3");
    }),
    ("lock_wait_timeout", |world, name| {
        waits_for_a_lock(world, name, "SELECT * FROM d.held", "ALTER TABLE d.held ADD b INT");
    }),
    ("innodb_online_alter_log_max_size", |world, name| {
        let ends = |world: &mut World, octets: u32| {
            run(&mut world.root, &format!("SET GLOBAL {name}={octets}"));
            (0..5).any(|_| alter_meets_writers(world) == Some(1799))
        };
        assert!(ends(world, 65_536));
        assert!(!ends(world, 134_217_728));
    }),
    ("innodb_log_file_size", |world, _| {
        let ages = [64, 512].map(|size| {
            run(&mut world.root, &format!("SET GLOBAL innodb_log_file_size={}", size << 20));
            world.status("Innodb_checkpoint_max_age")
        });
        run(&mut world.root, "SET GLOBAL innodb_log_file_size=DEFAULT");
        assert!(ages[0] <= 64 << 20 && ages[1] > ages[0], "{ages:?}");
    }),
    ("innodb_purge_batch_size", |world, name| {
        let batches = [1, 5000].map(|most| purge(world, name, most).0);
        assert!(batches[0] >= PURGED && batches[1] < PURGED / 4, "{batches:?}");
    }),
    ("innodb_purge_threads", |world, name| {
        let fibers = [1, 8].map(|most| purge(world, name, most).1);
        assert!(fibers[0] == 1 && (2..=8).contains(&fibers[1]), "{fibers:?}");
    }),
    ("innodb_snapshot_isolation", |world, _| {
        let seen = [0, 1].map(|value| {
            run(&mut world.root, "CREATE OR REPLACE TABLE d.snap (a INT)");
            run(&mut world.root, "INSERT INTO d.snap VALUES (1)");
            let mut session = world.session();
            run(&mut session, &format!("SET innodb_snapshot_isolation={value}"));
            run(&mut session, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
            run(&mut world.root, "UPDATE d.snap SET a = 2");
            session.one("UPDATE snap SET a = a + 1").expect("answers").error_code()
        });
        assert_eq!(seen, [None, Some(1020)]);
    }),
    ("interactive_timeout", |world, _| {
        let alive = [1, 60].map(|seconds| {
            let login = Login { interactive: true, ..Login::default() };
            let mut session = Client::connect(&world.server.unix(), &login).expect("connects");
            run(&mut session, &format!("SET interactive_timeout={seconds}"));
            std::thread::sleep(Duration::from_millis(1500));
            session.one("SELECT 1").is_ok_and(|reply| reply.error_code().is_none())
        });
        assert_eq!(alive, [false, true]);
    }),
    ("join_buffer_size", |world, name| {
        spills(
            world,
            name,
            "SELECT COUNT(*), MAX(CONCAT(x.b, y.b)) FROM rows_here x JOIN rows_here y ON x.b = y.b",
        );
    }),
    ("keel_memory_limit", |world, _| {
        let most = "SELECT BYTES_MAX FROM information_schema.KEEL_MEMORY WHERE CONSUMER = 'process'";
        let limits = [1_u64, 2].map(|size| {
            run(&mut world.root, &format!("SET GLOBAL keel_memory_limit={}", size << 30));
            run(&mut world.root, most)
        });
        assert_eq!(limits, ["1073741824", "2147483648"]);
        run(&mut world.root, "SET GLOBAL keel_memory_limit=DEFAULT");
        assert_eq!(run(&mut world.root, &state_of("keel_memory_limit")), "automatic");
        let automatic = run(&mut world.root, most);
        assert!(!limits.contains(&automatic), "{automatic}");
    }),
    ("max_connections", |world, _| {
        let let_in = [10, 100].map(|most| {
            run(&mut world.root, &format!("SET GLOBAL max_connections={most}"));
            let clients: Vec<Client> = (0..30).map_while(|_| world.server.client().ok()).collect();
            clients.len()
        });
        run(&mut world.root, "SET GLOBAL max_connections=DEFAULT");
        assert!(let_in[0] < 12 && let_in[1] == 30, "{let_in:?}");
    }),
    ("max_password_errors", |world, _| {
        run(&mut world.root, "CREATE USER forgetful@'%' IDENTIFIED BY 'x'");
        let login = |password: &str| Login {
            user: "forgetful".into(),
            password: password.into(),
            ..Login::default()
        };
        let let_in = [2, 1000].map(|most| {
            run(&mut world.root, &format!("SET GLOBAL max_password_errors={most}"));
            run(&mut world.root, "FLUSH PRIVILEGES");
            (0..3).for_each(|_| assert!(Client::connect(&world.server.unix(), &login("y")).is_err()));
            Client::connect(&world.server.unix(), &login("x")).is_ok()
        });
        assert_eq!(let_in, [false, true]);
    }),
    ("max_user_connections", |world, _| {
        run(&mut world.root, "CREATE USER twice@'%'");
        let let_in = [1, 5].map(|most| {
            run(&mut world.root, &format!("SET GLOBAL max_user_connections={most}"));
            let login = Login { user: "twice".into(), ..Login::default() };
            let both: Vec<_> =
                (0..2).map_while(|_| Client::connect(&world.server.unix(), &login).ok()).collect();
            both.len()
        });
        run(&mut world.root, "SET GLOBAL max_user_connections=1000");
        assert_eq!(let_in, [1, 2]);
    }),
    ("net_read_timeout", |world, name| {
        run(&mut world.root, "SET GLOBAL local_infile=1");
        run(&mut world.root, "CREATE OR REPLACE TABLE d.loaded (a INT)");
        is_cut_off(world, name, "LOAD DATA LOCAL INFILE '/none' INTO TABLE d.loaded");
    }),
    ("net_write_timeout", |world, name| {
        is_cut_off(world, name, "SELECT REPEAT('a', 1000000) FROM seq_1_to_1000");
    }),
    ("keel_note_without_effect", |world, name| {
        let note = |world: &mut World, sql: &str| {
            run(&mut world.root, sql);
            let shown = world.root.one("SHOW WARNINGS").expect("rows").strings();
            shown.into_iter().map(|row| (row[1].clone(), row[2].clone())).collect::<Vec<_>>()
        };
        assert!(note(world, "SET GLOBAL key_buffer_size=8388608").is_empty());
        run(&mut world.root, &format!("SET GLOBAL {name}=1"));
        for (sql, variable) in [
            ("SET GLOBAL key_buffer_size=8388608", "key_buffer_size"),
            ("SET SESSION unique_checks=0", "unique_checks"),
            ("SET GLOBAL sync_binlog=1", "sync_binlog"),
            ("SET GLOBAL query_cache_size=0, key_buffer_size=DEFAULT", "query_cache_size"),
        ] {
            let notes = note(world, sql);
            assert_eq!((notes.len(), notes[0].0.as_str()), (1, "1105"), "{sql}: {notes:?}");
            assert!(notes[0].1.contains(&format!("'{variable}' has no effect")), "{sql}: {notes:?}");
        }
        let notes = note(world, "SET SESSION sort_buffer_size=65536");
        assert!(notes.iter().all(|(_, text)| !text.contains("sort_buffer_size")), "{notes:?}");
        assert_eq!(run(&mut world.root, "SELECT @@GLOBAL.sync_binlog"), "0");
        run(&mut world.root, "SET SESSION unique_checks=1, sort_buffer_size=DEFAULT");
        run(&mut world.root, &format!("SET GLOBAL {name}=0"));
    }),
    ("read_only", |world, name| {
        let login = Login { user: "reader".into(), database: Some("d".into()), ..Login::default() };
        run(&mut world.root, "CREATE USER reader@'%'");
        run(&mut world.root, "GRANT ALL ON d.* TO reader@'%'");
        run(&mut world.root, "CREATE OR REPLACE TABLE d.read_alone (a INT)");
        let mut reader = Client::connect(&world.server.unix(), &login).expect("connects");
        run(&mut reader, "START TRANSACTION");
        run(&mut reader, "INSERT INTO read_alone VALUES (1)");
        run(&mut world.root, &format!("SET GLOBAL {name}=1"));
        for refused in ["COMMIT", "INSERT INTO read_alone VALUES (2)", "CREATE TABLE read_more (a INT)"] {
            assert_eq!(reader.one(refused).expect("answers").error_code(), Some(1290), "{refused}");
        }
        assert_eq!(run(&mut reader, "SELECT COUNT(*) FROM read_alone"), "0");
        run(&mut world.root, "INSERT INTO d.read_alone VALUES (3)");
        run(&mut world.root, &format!("SET GLOBAL {name}=0"));
        // A session that has locked a table for writing holds the switch up.
        run(&mut reader, "LOCK TABLES read_alone WRITE");
        run(&mut world.root, "SET lock_wait_timeout=1");
        let switched = world.root.one(&format!("SET GLOBAL {name}=1")).expect("answers");
        assert_eq!(switched.error_code(), Some(1205));
        assert_eq!(run(&mut world.root, "SELECT @@GLOBAL.read_only"), "0");
        run(&mut world.root, "SET lock_wait_timeout=DEFAULT");
        run(&mut reader, "UNLOCK TABLES");
        run(&mut world.root, "DROP USER reader@'%'");
    }),
    ("require_secure_transport", |world, _| {
        let plain = |world: &World| Client::connect(&world.server.tcp(), &Login::default()).is_ok();
        assert!(plain(world));
        run(&mut world.root, "SET GLOBAL require_secure_transport=1");
        assert!(!plain(world));
        run(&mut world.root, "SET GLOBAL require_secure_transport=0");
    }),
    ("sort_buffer_size", |world, name| {
        spills(world, name, "SELECT b FROM rows_here ORDER BY b, a DESC LIMIT 49000, 1");
    }),
    ("tmp_memory_table_size tmp_table_size", |world, name| {
        spills(world, name, "SELECT COUNT(*) FROM (SELECT a, b, COUNT(*) FROM rows_here GROUP BY a, b) x");
    }),
    ("tx_isolation", |world, _| {
        let seen = ["READ-COMMITTED", "REPEATABLE-READ"].map(|level| {
            run(&mut world.root, "CREATE OR REPLACE TABLE d.level (a INT)");
            let mut session = world.session();
            run(&mut session, &format!("SET tx_isolation='{level}'"));
            run(&mut session, "START TRANSACTION");
            run(&mut session, "SELECT COUNT(*) FROM level");
            run(&mut world.root, "INSERT INTO d.level VALUES (1)");
            run(&mut session, "SELECT COUNT(*) FROM level")
        });
        assert_eq!(seen, ["1", "0"]);
    }),
];

/// Transactions whose deleted rows [`purge`] lets wait.
const PURGED: u64 = 200;

/// Lets purge come upon so many transactions at once while a variable has a value: in how many batches it went through them, and
/// how many fibers the last of these had.
fn purge(world: &mut World, name: &str, value: u64) -> (u64, u64) {
    run(&mut world.root, &format!("SET GLOBAL {name}={value}"));
    run(&mut world.root, "CREATE OR REPLACE TABLE d.purged (a INT PRIMARY KEY)");
    run(&mut world.root, &format!("INSERT INTO d.purged SELECT seq FROM seq_1_to_{PURGED}"));
    let metric = |world: &mut World, name: &str| -> u64 {
        let sql = format!("SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME='{name}'");
        run(&mut world.root, &sql).parse().expect("a figure")
    };
    until("purge is through", || metric(world, "trx_rseg_history_len") == 0);
    let mut holder = world.session();
    run(&mut holder, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    for key in 1..=PURGED {
        run(&mut world.root, &format!("DELETE FROM d.purged WHERE a = {key}"));
    }
    let before = metric(world, "purge_invoked");
    run(&mut holder, "COMMIT");
    until("purge is through", || metric(world, "trx_rseg_history_len") == 0);
    let purged = (metric(world, "purge_invoked") - before, metric(world, "purge_fibers"));
    run(&mut world.root, &format!("SET GLOBAL {name}=DEFAULT"));
    purged
}

/// The variables that are shown here to act.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROOFS.iter().flat_map(|(names, _)| names.split(' '))
}

/// Runs all of them.
pub fn check(world: &mut World) {
    let mut failed = Vec::new();
    for (names, proof) in PROOFS {
        for name in names.split(' ') {
            let shown = std::panic::catch_unwind(AssertUnwindSafe(|| proof(world, name)));
            failed.extend(shown.is_err().then_some(name));
        }
    }
    assert!(failed.is_empty(), "not shown to act: {failed:?}");
}

/// What does not find room in what the variable grants goes to temporary files.
fn spills(world: &mut World, name: &str, sql: &str) {
    run(&mut world.root, "CREATE OR REPLACE TABLE d.rows_here (a INT PRIMARY KEY, b VARCHAR(200))");
    let rows = "SELECT seq, CONCAT(seq, REPEAT('b', 190)) FROM seq_1_to_50000";
    run(&mut world.root, &format!("INSERT INTO d.rows_here {rows}"));
    let files = [16_384, 67_108_864].map(|bytes| {
        let mut session = world.session();
        run(&mut session, &format!("SET {name}={bytes}"));
        let before = world.status("Created_tmp_files");
        run(&mut session, sql);
        world.status("Created_tmp_files") - before
    });
    assert!(files[0] > 0 && files[1] == 0, "{name}: {files:?}");
}

fn state_of(name: &str) -> String {
    format!("SELECT STATE FROM information_schema.KEEL_SETTINGS WHERE NAME = '{name}'")
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A log goes where its variable says.
fn named_log(world: &mut World, name: &str, switch: &str) {
    for number in 0..2 {
        let path = world.server.dir.join(format!("{name}{number}.log"));
        run(
            &mut world.root,
            &format!("SET GLOBAL {name}='{}', {switch}=1, log_output='FILE'", path.display()),
        );
        let mut session = world.session();
        run(&mut session, "SET long_query_time=0");
        run(&mut session, "SELECT 'in a log'");
        until("the log is written", || fs::read_to_string(&path).is_ok_and(|log| log.contains("in a log")));
    }
    run(&mut world.root, &format!("SET GLOBAL {switch}=0, log_output='TABLE'"));
}

/// What the slow log says of a statement that scans a table and warns, after `set`.
fn slow_text(world: &mut World, set: &str) -> String {
    let path = world.server.dir.join("slow-text.log");
    fs::remove_file(&path).ok();
    run(&mut world.root, "CREATE OR REPLACE TABLE d.slow (a VARCHAR(9))");
    run(&mut world.root, "INSERT INTO d.slow VALUES ('x1'), ('x2')");
    let file = path.display();
    run(
        &mut world.root,
        &format!("SET GLOBAL slow_query_log_file='{file}', slow_query_log=1, log_output='FILE'"),
    );
    run(&mut world.root, "FLUSH SLOW LOGS");
    let mut session = world.session();
    run(&mut session, set);
    run(&mut session, "SET long_query_time=0, log_slow_filter=''");
    run(&mut session, "SELECT COUNT(*) FROM slow WHERE a = 5");
    run(&mut session, "SELECT 'the end'");
    until("the log is written", || fs::read_to_string(&path).is_ok_and(|log| log.contains("the end")));
    run(&mut world.root, "SET GLOBAL slow_query_log=0, log_output='TABLE'");
    fs::read_to_string(&path).expect("a log")
}

/// Pages that the server writes in a second of rest after much was changed, under a setting.
fn written_in_a_second(world: &mut World, set: &str) -> u64 {
    run(&mut world.root, "CREATE OR REPLACE TABLE d.dirty (a INT PRIMARY KEY, b CHAR(250))");
    run(&mut world.root, set);
    run(&mut world.root, "INSERT INTO d.dirty SELECT seq, REPEAT('b', 250) FROM seq_1_to_120000");
    // What grows is written by the age of the log; then comes rest.
    std::thread::sleep(Duration::from_millis(250));
    let before = world.status("Innodb_buffer_pool_pages_flushed");
    std::thread::sleep(Duration::from_millis(1000));
    world.status("Innodb_buffer_pool_pages_flushed") - before
}

/// 100 pages a second are not passed, 20,000 are more; where the machine is busy, not at once.
fn paces_differ(world: &mut World, written: impl Fn(&mut World, u32) -> u64) {
    let slow = written(world, 100);
    let fast = (0..20).map(|_| written(world, 20_000)).find(|fast| *fast > 2 * slow);
    pace_is_automatic_again(world);
    assert!(slow <= 200 && fast.is_some(), "{slow}, {fast:?}");
}

fn pace_is_automatic_again(world: &mut World) {
    for name in ["innodb_io_capacity", "innodb_io_capacity_max"] {
        assert_eq!(run(&mut world.root, &state_of(name)), "acts");
        run(&mut world.root, &format!("SET GLOBAL {name}=DEFAULT"));
        assert_eq!(run(&mut world.root, &state_of(name)), "automatic");
    }
}

/// Alters a table of 3,000 rows while others write all of them; gives the error of that. Whoever writes waits until the
/// definition leaves the table to others, so it cannot end before; unless the machine is very slow.
fn alter_meets_writers(world: &mut World) -> Option<u16> {
    run(&mut world.root, "CREATE OR REPLACE TABLE d.altered (id INT PRIMARY KEY, a INT)");
    run(&mut world.root, "INSERT INTO d.altered SELECT seq, seq FROM seq_1_to_3000");
    let mut holder = world.session();
    run(&mut holder, "START TRANSACTION");
    run(&mut holder, "SELECT COUNT(*) FROM altered");
    let spawn = |mut session: Client, sql: &'static str| {
        std::thread::spawn(move || session.one(sql).expect("answers").error_code())
    };
    let wait_for = |world: &mut World, waiting: &str| {
        let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                     WHERE INFO LIKE '%altered%' AND STATE LIKE 'Waiting for table metadata lock%'";
        let until = Instant::now() + Duration::from_secs(2);
        while run(&mut world.root, waits) < waiting.into() && Instant::now() < until {}
    };
    let altered = spawn(world.session(), "ALTER TABLE altered ADD KEY (a)");
    wait_for(world, "1");
    let written = spawn(world.session(), "UPDATE altered SET a = a + 1");
    wait_for(world, "2");
    run(&mut holder, "COMMIT");
    assert_eq!(written.join().expect("ends"), None);
    altered.join().expect("ends")
}

/// Two sessions wait for each other, and one of them is the victim.
fn meet_in_a_deadlock(world: &mut World) {
    run(&mut world.root, "CREATE OR REPLACE TABLE d.met (id INT PRIMARY KEY, a INT)");
    run(&mut world.root, "INSERT INTO d.met VALUES (1, 1), (2, 1)");
    let sessions = [1, 2].map(|own| {
        let mut session = world.session();
        run(&mut session, "START TRANSACTION");
        run(&mut session, &format!("UPDATE met SET a = 1 + 1 WHERE id = {own}"));
        (session, 3 - own)
    });
    let meet = |(mut session, other): (Client, u32)| {
        let sql = format!("UPDATE met SET a = 2 WHERE id = {other}");
        std::thread::spawn(move || session.one(&sql).expect("answers").error_code())
    };
    let mut met = sessions.map(meet).map(|session| session.join().expect("ends"));
    met.sort();
    assert_eq!(met, [None, Some(1213)]);
}

/// The section of the report, without what stands before and behind it.
fn latest_deadlock(world: &mut World) -> String {
    let report = world.root.one("SHOW ENGINE INNODB STATUS").expect("a report").strings();
    let section = report[0][2].split_once("LATEST DETECTED DEADLOCK").expect("a deadlock").1;
    section.split_once("\nTRANSACTIONS\n").expect("transactions").0.to_string()
}

/// What the server has written to its standard error.
fn server_log(world: &World) -> String {
    fs::read_to_string(world.server.dir.join("server.log")).expect("a log")
}

/// A session waits for what another one holds as long as the variable says: not at all, or a second.
fn waits_for_a_lock(world: &mut World, name: &str, hold: &str, ask: &str) {
    run(&mut world.root, "CREATE OR REPLACE TABLE d.held (a INT)");
    run(&mut world.root, "INSERT INTO d.held VALUES (1)");
    let mut holder = world.session();
    run(&mut holder, "START TRANSACTION");
    run(&mut holder, hold);
    let waited = [0, 1].map(|seconds| {
        let mut session = world.session();
        run(&mut session, &format!("SET {name}={seconds}"));
        let started = Instant::now();
        assert_eq!(session.one(ask).expect("answers").error_code(), Some(1205));
        started.elapsed().as_millis()
    });
    assert!(waited[0] < 800 && waited[1] >= 950, "{waited:?}");
}

/// A client that neither sends nor takes what a statement needs is left after as many seconds as the variable says.
fn is_cut_off(world: &mut World, name: &str, statement: &str) {
    let mut kept = Vec::new();
    for seconds in [60, 1] {
        let mut session = world.session();
        run(&mut session, &format!("SET {name}={seconds}"));
        session.post(&format!("/* left {seconds} */ {statement}")).expect("is sent");
        kept.push(session);
    }
    let mut running = |seconds: u32| {
        let is_it = format!("INFO LIKE '/* left {seconds} *%'");
        run(&mut world.root, &format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE {is_it}"))
    };
    until("who waited longer than a second is cut off", || running(1) == "0");
    assert_eq!(running(60), "1");
}

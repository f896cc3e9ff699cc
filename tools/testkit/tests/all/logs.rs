//! The general log, the slow log and the error log; time-outs of idle transactions; wrong passwords in a row.

use keel_testkit::client::{Client, Login};
use keel_testkit::process::{Engine, Server};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// Waits until a file says something: the server writes its logs behind the statements' backs.
fn wait_for(path: &Path, text: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let said = read(path);
        if said.contains(text) {
            return said;
        }
        assert!(Instant::now() < deadline, "no {text:?} in {}:\n{said}", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn run(client: &mut Client, statements: &[&str]) {
    for sql in statements {
        client.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[test]
fn the_general_log_tells_commands() {
    let options = ["--general-log", "--general-log-file=general.log", "--log-error=errors"];
    let mut server = Server::start(Engine::Keel, &options).expect("starts");
    let data = server.dir.join("data");
    let mut client = server.client().expect("connects");
    run(&mut client, &["CREATE DATABASE d", "USE d", "CREATE TABLE t (i INT PRIMARY KEY, v TEXT)"]);
    run(&mut client, &["CREATE USER u IDENTIFIED BY 'unheard'"]);
    run(&mut client, &["/* it's me */ ALTER USER u IDENTIFIED BY 'unheard'"]);
    run(&mut client, &["CREATE USER `o'brien` IDENTIFIED BY 'unheard'"]);
    let insert = client.prepare("INSERT INTO t VALUES (?, ?)").expect("prepares").expect("no error");
    client.execute(&insert, &[Some("1"), Some("it's")]).expect("executes");
    run(
        &mut client,
        &["SET sql_log_off = 1", "SELECT 'unlogged'", "SET sql_log_off = 0", "FLUSH GENERAL LOGS"],
    );
    let said = read(&data.join("general.log"));
    assert!(said.starts_with("/") && said.contains("keel, Version: 10.11"), "{said}");
    assert!(said.contains("\nTime\t\t    Id Command\tArgument\n"), "{said}");
    for line in [
        " Connect\troot@localhost on  using Socket\n",
        " Query\tCREATE TABLE t (i INT PRIMARY KEY, v TEXT)\n",
        " Query\tCREATE USER u IDENTIFIED BY '<secret>'\n",
        " Prepare\tINSERT INTO t VALUES (?, ?)\n",
        " Execute\tINSERT INTO t VALUES ('1', 'it\\'s')\n",
        " Query\tFLUSH GENERAL LOGS\n",
    ] {
        assert!(said.contains(line), "no {line:?} in:\n{said}");
    }
    assert!(!said.contains("unlogged") && !said.contains("unheard"), "{said}");
    // Rotation: the old file keeps its name's new owner, a new one begins with the header.
    fs::rename(data.join("general.log"), data.join("general.old")).expect("renames");
    run(&mut client, &["SELECT 'to the old one'", "FLUSH LOGS", "SELECT 'to the new one'"]);
    let new = wait_for(&data.join("general.log"), "to the new one");
    assert!(new.starts_with("/") && !new.contains("to the old one"), "{new}");
    assert!(read(&data.join("general.old")).contains("to the old one"));
    run(&mut client, &["SET GLOBAL general_log_file = 'second.log'", "SELECT 'in the second'"]);
    wait_for(&data.join("second.log"), "in the second");
    run(&mut client, &["SET GLOBAL general_log = 0", "SELECT 'off'", "FLUSH LOGS"]);
    assert!(!read(&data.join("second.log")).contains("'off'"));
    let wrong = Login { user: "u".into(), password: "wrong".into(), ..Login::default() };
    assert!(Client::connect(&server.unix(), &wrong).is_err());
    let said =
        wait_for(&data.join("errors.err"), "Access denied for user 'u'@'localhost' (using password: YES)");
    assert!(said.contains("0 [Note] keel: ready for connections.\nVersion: '10.11"), "{said}");
    assert!(server.stop().expect("stops").success());
    assert!(read(&data.join("errors.err")).contains("Shutdown complete"));
}

#[test]
fn the_slow_log_is_what_tools_read() {
    let options = ["--slow-query-log", "--log-slow-query-file=slow.log", "--long-query-time=0.3"];
    let server = Server::start(Engine::Keel, &options).expect("starts");
    let path = server.dir.join("data").join("slow.log");
    let mut client = server.client().expect("connects");
    run(&mut client, &["CREATE DATABASE d", "USE d", "CREATE TABLE t (i INT PRIMARY KEY, v INT)"]);
    run(&mut client, &["INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)", "SELECT SLEEP(0.4), 'slow'"]);
    let slow = |client: &mut Client| {
        let reply = client.run("SHOW SESSION STATUS LIKE 'Slow_queries'").expect("status");
        reply.strings()[0][1].clone()
    };
    assert_eq!(slow(&mut client), "1");
    run(&mut client, &["SET timestamp = 1000, long_query_time = 0", "SELECT * FROM t WHERE v = 2"]);
    run(&mut client, &["SET timestamp = DEFAULT", "UPDATE t SET v = 5 WHERE i = 1"]);
    run(&mut client, &["SET log_slow_verbosity = 'query_plan,warnings'", "SELECT 1 / 0"]);
    run(&mut client, &["SELECT * FROM t ORDER BY v LIMIT 1"]);
    run(&mut client, &["SET long_query_time = 10, log_queries_not_using_indexes = 1"]);
    run(&mut client, &["SELECT v FROM t", "SELECT v FROM t WHERE i = 3", "SET min_examined_row_limit = 100"]);
    run(&mut client, &["SELECT v + 1 FROM t", "SET GLOBAL slow_query_log = 0", "FLUSH SLOW LOGS"]);
    let said = read(&path);
    assert!(said.starts_with("/") && said.contains("keel, Version: 10.11"), "{said}");
    for text in [
        "# User@Host: root[root] @ localhost []\n# Thread_id: ",
        "  Schema: d  QC_hit: No\n# Query_time: 0.4",
        "use `d`;\nSET timestamp=",
        "SELECT SLEEP(0.4), 'slow';\n",
        "# Time: 700101  0:16:40\n",
        "  Rows_sent: 1  Rows_examined: 3\n# Rows_affected: 0  Bytes_sent: ",
        "SET timestamp=1000;\nSELECT * FROM t WHERE v = 2;\n",
        "# Rows_affected: 1  Bytes_sent: ",
        "\n# Warnings\n# Warning 1365 Division by 0\n",
        "# Full_scan: Yes  Full_join: No  Tmp_table: No  Tmp_table_on_disk: No\n# Filesort: Yes  Filesort_on_disk: No  Merge_passes: 0  Priority_queue: Yes\n",
        "\nSELECT v FROM t;\n",
    ] {
        assert!(said.contains(text), "no {text:?} in:\n{said}");
    }
    for text in ["INSERT INTO t", "WHERE i = 3", "SELECT v + 1"] {
        assert!(!said.contains(text), "{text:?} in:\n{said}");
    }
    // A new file tells everything anew.
    run(
        &mut client,
        &["SET GLOBAL slow_query_log = 1", "SET long_query_time = 0, min_examined_row_limit = 0"],
    );
    run(&mut client, &["SELECT 'old'"]);
    fs::rename(&path, path.with_extension("old")).expect("renames");
    run(
        &mut client,
        &["SELECT 'old too'", "FLUSH SLOW LOGS", "SELECT 'new'", "SET GLOBAL slow_query_log = 0"],
    );
    let new = wait_for(&path, "SELECT 'new'");
    assert!(!new.contains("old") && new.contains("\n# Time: ") && new.contains("\nuse `d`;\n"), "{new}");
    assert!(read(&path.with_extension("old")).contains("SELECT 'old too'"));
    let path = path.with_extension("old");
    let summary = Command::new("mariadb-dumpslow").arg(&path).output().expect("mariadb-dumpslow runs");
    let summary = String::from_utf8_lossy(&summary.stdout).into_owned();
    assert!(summary.contains("SELECT * FROM t WHERE v = N"), "{summary}");
    assert!(summary.contains("Count: 1  Time=0.4"), "{summary}");
}

#[test]
fn waits_for_others_count_while_the_log_is_off() {
    let server = Server::start(Engine::Keel, &["--long-query-time=0.3"]).expect("starts");
    let mut client = server.client().expect("connects");
    run(&mut client, &["CREATE DATABASE d", "CREATE TABLE d.t (i INT PRIMARY KEY, v INT)"]);
    run(&mut client, &["INSERT INTO d.t VALUES (1, 0), (2, 0)"]);
    for round in 1..=4 {
        let mut other = server.client().expect("connects");
        run(&mut client, &["BEGIN", "UPDATE d.t SET v = v + 1 WHERE i = 1"]);
        let waits = std::thread::spawn(move || {
            run(
                &mut other,
                &["UPDATE d.t SET v = v + 1 WHERE i = 2", "UPDATE d.t SET v = v + 1 WHERE i = 1"],
            );
            other.run("SHOW SESSION STATUS LIKE 'Slow_queries'").expect("status").strings()[0][1].clone()
        });
        std::thread::sleep(Duration::from_millis(700));
        run(&mut client, &["COMMIT"]);
        assert_eq!(waits.join().expect("ends"), "1", "round {round}");
    }
}

#[test]
fn logs_are_tables_too() {
    let options = ["--log-output=TABLE", "--general-log", "--slow-query-log", "--long-query-time=0"];
    let server = Server::start(Engine::Keel, &options).expect("starts");
    let mut client = server.client().expect("connects");
    run(&mut client, &["SELECT 'seen'"]);
    let count = |client: &mut Client, sql: &str| client.run(sql).expect("counts").scalar();
    let general = "SELECT COUNT(*) FROM mysql.general_log WHERE command_type = 'Query' AND argument LIKE '%seen''' \
                   AND user_host = 'root[root] @ localhost []' AND event_time > NOW() - INTERVAL 1 DAY";
    let slow = "SELECT COUNT(*) FROM mysql.slow_log WHERE sql_text LIKE '%seen''' AND rows_sent = 1 \
                AND query_time < '00:10:00'";
    assert_eq!(count(&mut client, general).as_deref(), Some("1"));
    assert_eq!(count(&mut client, slow).as_deref(), Some("1"));
    run(&mut client, &["TRUNCATE mysql.general_log", "TRUNCATE TABLE mysql.slow_log"]);
    assert_eq!(count(&mut client, general).as_deref(), Some("0"));
    assert_eq!(count(&mut client, slow).as_deref(), Some("0"));
    let refused = client.run("INSERT INTO mysql.general_log VALUES (NOW(), 'a', 1, 1, 'x', 'x')");
    assert!(refused.is_err_and(|error| !error.to_string().contains("1146")));
    // It would commit, which a branch of XA does not allow.
    run(&mut client, &["CREATE DATABASE d", "CREATE TABLE d.t (i INT PRIMARY KEY)"]);
    run(&mut client, &["XA START 'a'", "INSERT INTO d.t VALUES (1)"]);
    let refused = client.run("TRUNCATE mysql.slow_log");
    assert!(refused.is_err_and(|error| error.to_string().contains("1399")));
    run(&mut client, &["XA END 'a'", "XA ROLLBACK 'a'"]);
    assert_eq!(count(&mut client, "SELECT COUNT(*) FROM d.t").as_deref(), Some("0"));
    // A user without rights on `mysql` may not.
    run(&mut client, &["CREATE USER u"]);
    let mut other =
        Client::connect(&server.unix(), &Login { user: "u".into(), ..Login::default() }).expect("connects");
    for sql in [
        "TRUNCATE mysql.slow_log",
        "SET GLOBAL general_log = 0",
        "SET GLOBAL log_output = 'FILE'",
        "FLUSH LOGS",
    ] {
        assert!(other.run(sql).is_err(), "{sql}");
    }
}

/// Whether the server has cut the connection by then.
fn is_cut(client: &mut Client, after: Duration) -> bool {
    std::thread::sleep(after);
    client.run("SELECT 1").is_err()
}

#[test]
fn idle_transactions_end() {
    for engine in [Engine::Keel, Engine::MariaDb] {
        let server = Server::start(engine, &[]).expect("starts");
        let setup = &mut server.client().expect("connects");
        run(setup, &["CREATE DATABASE d", "CREATE TABLE d.t (i INT PRIMARY KEY) ENGINE=InnoDB"]);
        let wait = Duration::from_millis(2500);
        let lost = |client: &mut Client| -> u64 {
            let reply = client.run("SHOW GLOBAL STATUS LIKE 'Aborted_clients'").expect("status");
            reply.strings()[0][1].parse().expect("a number")
        };
        let lost_before = lost(setup);
        let mut clients: Vec<(bool, Client)> = [
            (true, vec!["SET idle_transaction_timeout = 1", "BEGIN", "SELECT * FROM t"]),
            (false, vec!["SET idle_transaction_timeout = 1", "SELECT * FROM t"]),
            (
                false,
                vec!["SET idle_transaction_timeout = 1", "BEGIN", "INSERT INTO t VALUES (1)", "ROLLBACK"],
            ),
            (true, vec!["SET idle_write_transaction_timeout = 1", "BEGIN", "INSERT INTO t VALUES (2)"]),
            (false, vec!["SET idle_write_transaction_timeout = 1", "BEGIN", "SELECT * FROM t"]),
            (true, vec!["SET idle_readonly_transaction_timeout = 1", "BEGIN", "SELECT * FROM t"]),
            (false, vec!["SET idle_readonly_transaction_timeout = 1", "BEGIN", "INSERT INTO t VALUES (3)"]),
            (true, vec!["SET wait_timeout = 1"]),
        ]
        .into_iter()
        .map(|(ends, statements)| {
            let mut client = server.client_in("d").expect("connects");
            run(&mut client, &statements);
            (ends, client)
        })
        .collect();
        std::thread::sleep(wait);
        for (number, (ends, client)) in clients.iter_mut().enumerate() {
            assert_eq!(is_cut(client, Duration::ZERO), *ends, "{} {number}", engine.name());
        }
        // What the transaction had changed is gone.
        run(setup, &["SET innodb_lock_wait_timeout = 5", "INSERT INTO d.t VALUES (2)"]);
        assert_eq!(lost(setup) - lost_before, 4, "{}", engine.name());
    }
}

#[test]
fn wrong_passwords_in_a_row_shut_an_account_out() {
    for engine in [Engine::Keel, Engine::MariaDb] {
        let server = Server::start(engine, &[]).expect("starts");
        let mut root = server.client().expect("connects");
        run(&mut root, &["CREATE USER u IDENTIFIED BY 'right'", "SET GLOBAL max_password_errors = 2"]);
        let login = |password: &str| {
            let login = Login { user: "u".into(), password: password.into(), ..Login::default() };
            Client::connect(&server.unix(), &login).map(|_| ()).map_err(|error| error.to_string())
        };
        let is = |result: Result<(), String>, code: &str| result.is_err_and(|text| text.contains(code));
        assert!(is(login("wrong"), "1045") && login("right").is_ok(), "{}", engine.name());
        assert!(is(login("wrong"), "1045") && is(login("wrong"), "1045"), "{}", engine.name());
        assert!(is(login("right"), "4150"), "{}", engine.name());
        run(&mut root, &["FLUSH PRIVILEGES"]);
        assert!(login("right").is_ok(), "{}", engine.name());
        // A change of the account, and another account of its name, begin anew; rights do not help from elsewhere.
        for (change, password) in [
            ("ALTER USER u IDENTIFIED BY 'new'", "new"),
            ("GRANT SUPER ON *.* TO u", "new"),
            ("DROP USER u", ""),
        ] {
            assert!(is(login("wrong"), "1045") && is(login("wrong"), "1045"), "{} {change}", engine.name());
            assert!(is(login(password), "4150"), "{} {change}", engine.name());
            run(&mut root, &[change]);
            if change.starts_with("DROP") {
                run(&mut root, &["CREATE USER u"]);
            }
            assert!(login(password).is_ok(), "{} {change}", engine.name());
        }
        run(
            &mut root,
            &["CREATE USER s@localhost IDENTIFIED BY 'right'", "GRANT SUPER ON *.* TO s@localhost"],
        );
        let near = |password: &str| {
            let login = Login { user: "s".into(), password: password.into(), ..Login::default() };
            Client::connect(&server.unix(), &login).is_ok()
        };
        assert!(!near("wrong") && !near("wrong") && near("right"), "{}", engine.name());
    }
}

//! Variables that only the start takes: servers with two values of each.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use keel_testkit::client::{Address, Client, Login};
use keel_testkit::process::{Engine, Server};

use super::run;

/// Names, and what shows that they act.
type Proof = (&'static str, fn());

const PROOFS: &[Proof] = &[
    ("bind_address", || {
        let there = |options: &[&str]| {
            let server = start(options);
            Client::connect(&Address::Tcp("127.0.0.2".into(), server.port), &Login::default()).is_ok()
        };
        assert_eq!([there(&[]), there(&["--bind-address=127.0.0.2"])], [false, true]);
    }),
    ("datadir port socket", || {
        let servers = [start(&[]), start(&[])];
        assert_ne!(servers[0].port, servers[1].port);
        for server in &servers {
            assert!(Client::connect(&server.tcp(), &Login::default()).is_ok());
            assert!(server.client().is_ok() && server.dir.join("data/FORMAT").exists());
        }
    }),
    ("skip_networking", || {
        let reached = |options: &[&str]| Client::connect(&start(options).tcp(), &Login::default()).is_ok();
        assert_eq!([reached(&[]), reached(&["--skip-networking"])], [true, false]);
    }),
    ("innodb_autoinc_lock_mode", || {
        let waited = ["1", "2"].map(|mode| {
            let server = start(&[&format!("--innodb-autoinc-lock-mode={mode}")]);
            let mut root = session(&server);
            run(&mut root, "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)");
            let mut slow = session(&server);
            slow.post("INSERT INTO t (b) SELECT SLEEP(0.3) FROM seq_1_to_5").expect("is sent");
            std::thread::sleep(Duration::from_millis(500));
            let started = Instant::now();
            run(&mut root, "INSERT INTO t (b) VALUES (1)");
            started.elapsed().as_millis()
        });
        assert!(waited[0] > 400 && waited[1] < 400, "{waited:?}");
    }),
    ("innodb_buffer_pool_size_max", || {
        let errors = ["32M", "64M"].map(|most| {
            let server =
                start(&["--innodb-buffer-pool-size=16M", &format!("--innodb-buffer-pool-size-max={most}")]);
            let sql = "SET GLOBAL innodb_buffer_pool_size=50331648";
            session(&server).one(sql).expect("answers").error_code().is_some()
        });
        assert_eq!(errors, [true, false]);
    }),
    ("innodb_doublewrite", || {
        let written = ["0", "1"].map(|on| {
            let server = start(&[&format!("--innodb-doublewrite={on}"), "--innodb-buffer-pool-size=16M"]);
            let mut root = session(&server);
            run(&mut root, "CREATE TABLE t (a INT PRIMARY KEY, b CHAR(250))");
            for _ in 0..2 {
                run(&mut root, "REPLACE INTO t SELECT seq, REPEAT('b', 250) FROM seq_1_to_100000");
            }
            assert!(super::status(&mut root, "GLOBAL", "Innodb_buffer_pool_pages_flushed") > 0);
            super::status(&mut root, "GLOBAL", "Innodb_dblwr_writes") > 0
        });
        assert_eq!(written, [false, true]);
    }),
    ("innodb_flush_method", || {
        let direct = ["fsync", "O_DIRECT"].map(|method| {
            let server = start(&[&format!("--innodb-flush-method={method}")]);
            run(&mut session(&server), "CREATE TABLE t (a INT PRIMARY KEY)");
            files_with_flags(&server, 0o40000)
        });
        // The log is written past the cache in any case.
        assert!(direct[0] < direct[1], "{direct:?}");
    }),
    ("innodb_log_buffer_size", || {
        let waits = ["2M", "512M"].map(|size| {
            let options = [&format!("--innodb-log-buffer-size={size}"), "--innodb-flush-log-at-trx-commit=0"];
            let server = start(&options);
            let mut root = session(&server);
            run(&mut root, "CREATE TABLE t (a INT PRIMARY KEY, b CHAR(250))");
            let before = super::status(&mut root, "GLOBAL", "Innodb_log_waits");
            run(&mut root, "INSERT INTO t SELECT seq, REPEAT('b', 250) FROM seq_1_to_100000");
            super::status(&mut root, "GLOBAL", "Innodb_log_waits") - before
        });
        assert!(waits[0] > 3 && waits[1] < waits[0], "{waits:?}");
    }),
    ("innodb_rollback_on_timeout", || {
        let left = ["0", "1"].map(|on| {
            let server =
                start(&[&format!("--innodb-rollback-on-timeout={on}"), "--innodb-lock-wait-timeout=0"]);
            let (mut holder, mut other) = (session(&server), session(&server));
            run(&mut holder, "CREATE TABLE t (a INT)");
            run(&mut holder, "CREATE TABLE u (a INT)");
            run(&mut holder, "INSERT INTO t VALUES (1)");
            run(&mut holder, "START TRANSACTION");
            run(&mut holder, "UPDATE t SET a = 2");
            run(&mut other, "START TRANSACTION");
            run(&mut other, "INSERT INTO u VALUES (1)");
            assert_eq!(other.one("UPDATE t SET a = 3").expect("answers").error_code(), Some(1205));
            run(&mut other, "SELECT COUNT(*) FROM u")
        });
        assert_eq!(left, ["1", "0"]);
    }),
    ("log_error", || {
        let server = start(&["--log-error=said.err"]);
        let path = server.dir.join("data/said.err");
        let is_said = || fs::read_to_string(&path).is_ok_and(|log| log.contains("ready for connections"));
        super::sessions::until("the log is written", is_said);
        assert!(!start(&[]).dir.join("data/said.err").exists());
    }),
    ("pid_file", || {
        let mut server = start(&["--pid-file=keel.pid"]);
        let path = server.dir.join("data/keel.pid");
        let pid = fs::read_to_string(&path).expect("a file");
        assert_eq!(pid.trim().parse(), Ok(server.pid().expect("runs")));
        assert!(server.stop().expect("stops").success() && !path.exists());
        assert!(!start(&[]).dir.join("data/keel.pid").exists());
    }),
    ("secure_file_priv", || {
        let written = |options: &[&str]| {
            let server = start(options);
            let file = server.dir.join("out");
            let sql = format!("SELECT 1 INTO OUTFILE '{}'", file.display());
            session(&server).one(&sql).expect("answers").error_code()
        };
        assert_eq!([written(&[]), written(&["--secure-file-priv=/var"])], [None, Some(1290)]);
    }),
    ("skip_grant_tables", || {
        let login = Login { user: "nobody".into(), password: "x".into(), ..Login::default() };
        let let_in = |options: &[&str]| Client::connect(&start(options).unix(), &login).is_ok();
        assert_eq!([let_in(&[]), let_in(&["--skip-grant-tables"])], [false, true]);
    }),
    ("skip_name_resolve", || {
        let host = |options: &[&str]| {
            let server = start(options);
            let mut client = Command::new("mariadb");
            client.args(["--no-defaults", "-uroot", "-h127.0.0.1", "-Ne", "SELECT USER()"]);
            let output = client.arg(format!("-P{}", server.port)).output().expect("the client runs");
            String::from_utf8_lossy(&output.stdout).trim().to_string()
        };
        assert_eq!(host(&[]), "root@localhost");
        assert_eq!(host(&["--skip-name-resolve"]), "root@127.0.0.1");
    }),
    ("skip_show_database", || {
        let shown = |options: &[&str]| {
            let server = start(options);
            run(&mut session(&server), "CREATE USER u@'%'");
            let login = Login { user: "u".into(), ..Login::default() };
            let mut user = Client::connect(&server.unix(), &login).expect("connects");
            user.one("SHOW DATABASES").expect("answers").error_code()
        };
        assert_eq!([shown(&[]), shown(&["--skip-show-database"])], [None, Some(1227)]);
    }),
    ("thread_pool_size", || {
        let threads = ["1", "8"].map(|size| {
            let server = start(&[&format!("--thread-pool-size={size}")]);
            let tasks = fs::read_dir(format!("/proc/{}/task", server.pid().expect("runs"))).expect("tasks");
            tasks.count()
        });
        assert!(threads[1] >= threads[0] + 4, "{threads:?}");
    }),
    ("tls_version", || {
        let reached = |options: &[&str]| {
            let server = start(options);
            let old = ["--no-defaults", "--ssl", "--disable-ssl-verify-server-cert", "--tls-version=TLSv1.2"];
            let mut client = Command::new("mariadb");
            client.args(old).args(["-uroot", "-h127.0.0.1", "-eSELECT 1"]).arg(format!("-P{}", server.port));
            client.output().expect("the client runs").status.success()
        };
        assert_eq!([reached(&[]), reached(&["--tls-version=TLSv1.3"])], [true, false]);
    }),
    ("tmpdir", || {
        let sorted = |options: &[&str]| {
            let server = start(options);
            let mut root = session(&server);
            run(&mut root, "SET sort_buffer_size=1024");
            let sql = "SELECT seq FROM seq_1_to_20000 ORDER BY MD5(seq) LIMIT 19000, 1";
            root.one(sql).expect("answers").error_code().is_none()
        };
        assert_eq!([sorted(&[]), sorted(&["--tmpdir=/dev/null/folder"])], [true, false]);
    }),
];

/// The variables that are shown here to act.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROOFS.iter().flat_map(|(names, _)| names.split(' '))
}

/// Runs all of them.
pub fn check() {
    let is_not_shown = |(_, proof): &&Proof| std::panic::catch_unwind(proof).is_err();
    let failed: Vec<&str> = PROOFS.iter().filter(is_not_shown).map(|(names, _)| *names).collect();
    assert!(failed.is_empty(), "not shown to act: {failed:?}");
}

fn start(options: &[&str]) -> Server {
    Server::start(Engine::Keel, options).expect("starts")
}

/// A session of root in a database of its own.
fn session(server: &Server) -> Client {
    let mut client = server.client().expect("connects");
    run(&mut client, "CREATE DATABASE IF NOT EXISTS d");
    run(&mut client, "USE d");
    client
}

/// Files of the data folder that the server has open with some flags of open(2).
fn files_with_flags(server: &Server, flags: u32) -> usize {
    let pid = server.pid().expect("runs");
    let data = server.dir.join("data");
    let has_flags = |number: &str| {
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
        let line =
            info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("0").trim().to_string();
        u32::from_str_radix(&line, 8).unwrap_or(0) & flags != 0
    };
    let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors");
    let is_data = |path: &Path| fs::read_link(path).is_ok_and(|file| file.starts_with(&data));
    open.flatten()
        .filter(|entry| is_data(&entry.path()) && has_flags(&entry.file_name().to_string_lossy()))
        .count()
}

//! The settings files of the reports, as they stand in `tools/lab/settings`: the server starts with each, and says one line of
//! each setting.

use std::fs;
use std::path::PathBuf;

use keel_testkit::process::{Engine, Server};

use super::run;
use super::sessions::until;

/// Lines that a file has the server say.
const SAID: &[(&str, &[&str])] = &[
    (
        "s0-t1-package.cnf",
        &[
            "user=mysql: no effect because the server runs as who starts it",
            "skip_external_locking: no effect because one server has its data folder locked, always",
            "query_cache_size=64M: no effect because there is no query cache",
            "max_connections=100: acts, 100",
            "innodb_buffer_pool_size=256M: acts, 268435456",
            "innodb_io_capacity=400: acts, 400",
            "table_open_cache=400: automatic, the given value is not used: all definitions stay in memory, \
             and a table has no handle to be opened for each session",
            "log_bin=/var/log/mysql/mariadb-bin: no effect because there is no binary log yet",
        ],
    ),
    (
        "s0-t2-tuned.cnf",
        &[
            "innodb_buffer_pool_instances=8: obsolete since MariaDB 10.5: one pool whose parts have latches of their own",
            "innodb_log_file_size=256M: acts, 268435456",
            "innodb_flush_method=O_DIRECT: acts, O_DIRECT",
        ],
    ),
    (
        "s1-thirty-k.cnf",
        &[
            "innodb_change_buffer_size=5: misspelt, taken as innodb_change_buffer_max_size: \
             no effect because there is no change buffer",
            "innodb_log_file_size=32g: acts, 34359738368",
            "optimizer_search_depth=0: acts, 0",
        ],
    ),
    (
        "s2-strong-sync.cnf",
        &["sqlasyn=ON: no effect because there is no replication yet (a name of TencentDB for MariaDB 10.1)"],
    ),
    (
        "s4-innodb.cnf",
        &[
            "innodb_additional_mem_pool_size=16M: obsolete since MySQL 5.7, MariaDB 10.3: memory comes from one budget",
        ],
    ),
    (
        "s4-xtradb.cnf",
        &[
            "innodb_adaptive_checkpoint=1: obsolete since XtraDB 5.6, MariaDB 10.0: \
             pages are written by the age of their redo, always",
            "innodb_io_capacity=10000: acts, 10000",
        ],
    ),
];

fn folder() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.ancestors().nth(2).expect("the repository").join("tools/lab/settings")
}

/// Names and values of a settings file, as it writes them.
fn settings_of(text: &str) -> Vec<(String, Option<String>)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('['));
    lines
        .map(|line| match line.split_once('=') {
            Some((name, value)) => (name.trim().to_string(), Some(value.trim().to_string())),
            None => (line.to_string(), None),
        })
        .collect()
}

#[test]
fn the_reports_files_start_it_and_each_setting_has_a_line() {
    let files: Vec<String> = fs::read_dir(folder())
        .expect("settings")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(files.len(), SAID.len(), "{files:?}");
    for (file, lines) in SAID {
        let path = folder().join(file);
        let option = format!("--defaults-file={}", path.display());
        let ours = ["--pid-file=keel.pid", "--slow-query-log-file=slow.log"];
        let server = Server::start(Engine::Keel, &[&option, ours[0], ours[1]]).expect(file);
        let mut root = server.client().expect("connects");
        // It answers a moment before it says so.
        let read = || fs::read_to_string(server.dir.join("server.log")).expect("a log");
        until("the server says where it listens", || read().contains("listening on"));
        let log = read();
        let said: Vec<&str> = log.lines().filter_map(|line| Some(line.split_once("] keel: ")?.1)).collect();
        for line in *lines {
            assert!(said.contains(line), "{file}: no line\n{line}\nin\n{log}");
        }
        for (name, value) in settings_of(&fs::read_to_string(&path).expect("a file")) {
            let name = name.replace('-', "_").to_lowercase();
            let lines = said.iter().filter(|line| begins(line, &name));
            assert_eq!(lines.count(), 1, "{file}: lines for {name} in\n{log}");
            if ["datadir", "port", "socket", "pid_file", "slow_query_log_file"].contains(&&*name) {
                continue;
            }
            let given = format!(
                "SELECT GIVEN FROM information_schema.KEEL_SETTINGS WHERE GIVEN_IN LIKE '%{file}, line%'"
            );
            let rows = root.one(&given).expect("rows").strings();
            let value = value.unwrap_or_default();
            assert!(rows.iter().any(|row| row[0] == value), "{file}: {name}={value} in {rows:?}");
        }
        run(&mut root, "CREATE DATABASE d");
    }
}

/// Whether a line is about a setting of that name.
fn begins(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', '=']))
}

//! What the server says of its settings is so: the reports' files start it, each setting has its line, and whatever is said to act
//! changes something that is measured here between two values.
//!
//! A program of its own: some settings show only in how long statements take.
//!
//! [`results`] holds the variables whose effect one session sees, as a table; [`sessions`] those that take several, or figures;
//! [`starts`] those that are given at the start. What no test here can show stands in [`ELSEWHERE`] or [`UNPROVEN`].

mod files;
mod results;
mod sessions;
mod starts;

use std::collections::BTreeSet;
use std::path::Path;

use keel_testkit::client::Client;
use keel_testkit::process::{Engine, Server};

/// Variables that another test shows to act: the file names them.
const ELSEWHERE: &[(&str, &[&str])] = &[
    ("tools/testkit/tests/all/init_file.rs", &["init_file"]),
    ("tools/testkit/tests/all/tls.rs", &["ssl_ca", "ssl_cert", "ssl_cipher", "ssl_crl", "ssl_key"]),
    ("crates/server/tests/all/sessions.rs", &["session_track_schema", "session_track_state_change"]),
    ("crates/server/tests/all/sessions.rs", &["session_track_system_variables"]),
    ("tests/isolation/deadlock_detect_off.spec", &["innodb_deadlock_detect"]),
    ("tests/accounts/init_connect.steps", &["init_connect"]),
    ("tests/sql/syntax_corners.test", &["innodb_force_primary_key"]),
    ("tests/sql/values_of_columns.test", &["old_mode"]),
    ("tests/sql/unusable_keys.test", &["note_verbosity"]),
    ("crates/server/tests/all/blocked_hosts.rs", &["host_cache_size", "max_connect_errors"]),
];

/// Variables that no test shows to act. It may only get shorter.
const UNPROVEN: &[&str] = &["back_log", "default_password_lifetime", "ssl_capath", "ssl_crlpath"];

/// A server that probes share, and a session of root.
struct World {
    server: Server,
    root: Client,
}

impl World {
    fn new() -> World {
        let options = [
            "--log-output=TABLE",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=256M",
            "--max-user-connections=1000",
        ];
        let server = Server::start(Engine::Keel, &options).expect("starts");
        let mut root = server.client().expect("connects");
        run(&mut root, "CREATE DATABASE d");
        run(&mut root, "USE d");
        World { server, root }
    }

    /// A new session of root in a database for tests.
    fn session(&self) -> Client {
        self.server.client_in("d").expect("connects")
    }

    /// A status variable of the whole server.
    fn status(&mut self, name: &str) -> u64 {
        status(&mut self.root, "GLOBAL", name)
    }
}

fn status(client: &mut Client, scope: &str, name: &str) -> u64 {
    let reply = client.run(&format!("SHOW {scope} STATUS LIKE '{name}'")).expect("status");
    reply.strings()[0][1].parse().unwrap_or_else(|_| panic!("{name}: {reply:?}"))
}

/// Runs a statement that must succeed.
fn run(client: &mut Client, sql: &str) -> String {
    let reply = client.one(sql).expect("answers");
    assert_eq!(reply.error_code(), None, "{sql}: {reply:?}");
    reply.scalar().unwrap_or_default()
}

/// The names of variables that are said to act, at least where a value is chosen.
fn said_to_act(client: &mut Client) -> BTreeSet<String> {
    let acts =
        "SELECT VARIABLE_NAME FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_COMMENT LIKE 'Acts%'";
    let rows = client.one(acts).expect("rows").strings();
    rows.into_iter().map(|row| row[0].to_lowercase()).collect()
}

#[test]
fn every_variable_that_is_said_to_act_is_shown_to_act() {
    let mut world = World::new();
    let acts = said_to_act(&mut world.root);
    let elsewhere = ELSEWHERE.iter().flat_map(|(_, names)| names.iter().copied());
    let proven: Vec<&str> =
        results::names().chain(sessions::names()).chain(starts::names()).chain(elsewhere).collect();
    for name in &proven {
        assert!(acts.contains(*name), "{name} is not said to act any more");
        assert!(!UNPROVEN.contains(name), "{name} is proven: take it from the list");
    }
    for name in UNPROVEN {
        assert!(acts.contains(*name), "{name} is not said to act any more: take it from the list");
    }
    let known = |name: &str| proven.contains(&name) || UNPROVEN.contains(&name);
    let missing: Vec<&String> = acts.iter().filter(|name| !known(name)).collect();
    assert!(missing.is_empty(), "said to act, but no test shows it: {missing:?}");
}

#[test]
fn what_another_test_shows_is_named_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the repository");
    for (file, names) in ELSEWHERE {
        let text = std::fs::read_to_string(root.join(file)).expect("a file of the repository");
        let text = text.replace('-', "_");
        for name in *names {
            assert!(text.contains(name), "{file} does not name {name}");
        }
    }
}

#[test]
fn one_session_sees_it() {
    results::check(&World::new().server);
}

#[test]
fn several_sessions_or_figures_show_it() {
    sessions::check(&mut World::new());
}

#[test]
fn the_start_takes_it() {
    starts::check();
}

#[test]
fn default_is_the_same_as_mariadbs_whatever_the_start_said() {
    let given = [
        ("autocommit", "0"),
        ("character_set_server", "latin1"),
        ("collation_server", "latin1_bin"),
        ("innodb_flush_log_at_trx_commit", "2"),
        ("innodb_io_capacity", "700"),
        ("innodb_lock_wait_timeout", "5"),
        ("log_output", "NONE"),
        ("long_query_time", "3"),
        ("max_statement_time", "9"),
        ("sort_buffer_size", "65536"),
        ("sql_mode", "ANSI"),
        ("transaction_isolation", "READ-COMMITTED"),
        ("wait_timeout", "77"),
    ];
    let options: Vec<String> = given.iter().map(|(name, value)| format!("--{name}={value}")).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let answers = [Engine::Keel, Engine::MariaDb].map(|engine| {
        let server = Server::start(engine, &options).expect("starts");
        let mut root = server.client().expect("connects");
        let mut after = |name: &str| {
            let name = name.replace("transaction_", "tx_");
            let before = run(&mut root, &format!("SELECT @@GLOBAL.{name}"));
            run(&mut root, &format!("SET GLOBAL {name} = DEFAULT"));
            (before, run(&mut root, &format!("SELECT @@GLOBAL.{name}")))
        };
        given.map(|(name, _)| (name, after(name)))
    });
    assert_eq!(answers[0], answers[1]);
}

//! `keel serve` as a user meets it: what it prints, how it refuses, how it stops.

use keel_testkit::client::{Address, Client, Login};
use keel_testkit::process::{Engine, Server, free_port, keel_binary, scratch_dir};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs a server that is expected to refuse, and returns what it said.
fn refused(dir: &Path, extra: &[&str]) -> Output {
    let mut command = Command::new(keel_binary());
    command.arg("serve").arg(format!("--datadir={}", dir.display())).args(extra);
    if !extra.iter().any(|option| option.starts_with("--port")) {
        command.arg(format!("--port={}", free_port()));
    }
    command.arg(format!("--socket={}", dir.with_extension("sock").display()));
    let output = command.output().expect("keel runs");
    assert!(!output.status.success(), "{extra:?} was accepted");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.trim().lines().count(), 1, "one clear line, not:\n{text}");
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_server_says_where_it_listens_and_stops_cleanly() {
    let mut server = Server::start(Engine::Keel, &[]).expect("starts");
    // It answers a moment before it says so.
    let said = |log: &str| log.contains(&server.port.to_string()) && log.contains("s.sock");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !said(&server.log_tail()) {
        assert!(Instant::now() < deadline, "{}", server.log_tail());
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut client = server.client().expect("connects");
    client.run("CREATE DATABASE d").expect("create");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))").expect("create");
    client.run("INSERT INTO d.t VALUES (1, 'kept')").expect("insert");
    drop(client);
    assert!(server.stop().expect("stops").success());
    let started = Instant::now();
    server.launch().expect("starts again");
    assert!(started.elapsed() < Duration::from_secs(5), "the next start took {:?}", started.elapsed());
    let mut client = server.client().expect("connects");
    assert_eq!(client.run("SELECT v FROM d.t").expect("select").scalar().as_deref(), Some("kept"));
}

#[test]
fn a_second_server_on_the_same_folder_or_port_is_refused() {
    let server = Server::start(Engine::Keel, &[]).expect("starts");
    let text = said(&refused(&server.dir.join("data"), &[]));
    assert!(text.contains("in use") || text.contains("another"), "{text}");
    let other = scratch_dir("other");
    let text = said(&refused(&other.join("data"), &[&format!("--port={}", server.port)]));
    assert!(text.contains(&server.port.to_string()), "{text}");
    fs::remove_dir_all(other).ok();
    server.client().expect("the first one still answers");
}

#[test]
fn bad_options_and_folders_are_named() {
    let dir = scratch_dir("bad");
    let text = said(&refused(&dir.join("data"), &["--no-such-option=1"]));
    assert!(text.contains("no-such-option"), "{text}");
    let text = said(&refused(&dir.join("data"), &["--innodb-buffer-pool-size=lots"]));
    assert!(text.contains("innodb") && text.contains("lots"), "{text}");
    fs::write(dir.join("file"), "x").expect("write");
    let text = said(&refused(&dir.join("file/data"), &[]));
    assert!(text.contains("file"), "{text}");
    fs::remove_dir_all(dir).ok();
}

#[test]
fn a_folder_of_a_newer_format_is_left_alone() {
    let mut server = Server::start(Engine::Keel, &[]).expect("starts");
    assert!(server.stop().expect("stops").success());
    let version = server.dir.join("data/FORMAT");
    let before = fs::read_to_string(&version).expect("the folder says its format");
    fs::write(&version, "999999\n").expect("write");
    let text = said(&refused(&server.dir.join("data"), &[]));
    assert!(text.contains("format"), "{text}");
    fs::write(&version, before).expect("write");
    server.launch().expect("the old format still starts");
}

#[test]
fn strangers_are_refused_with_mariadbs_error() {
    let server = Server::start(Engine::Keel, &[]).expect("starts");
    let login = Login { user: "nobody".into(), password: "x".into(), ..Login::default() };
    let error = keel_testkit::client::Client::connect(&server.tcp(), &login).err().expect("refused");
    assert!(error.to_string().contains("1045 (28000) Access denied for user 'nobody'@"), "{error}");
    assert!(error.to_string().contains("(using password: YES)"), "{error}");
}

#[test]
fn few_descriptors_lower_the_number_of_connections() {
    let dir = scratch_dir("descriptors");
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -n 300 && exec \"$0\" \"$@\""])
        .arg(keel_binary())
        .args(["serve", "--innodb-log-file-size=2G", "--initialize-insecure"])
        .arg(format!("--port={}", free_port()))
        .arg(format!("--datadir={}", dir.join("data").display()))
        .arg(format!("--socket={}", dir.join("s.sock").display()))
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let said: Vec<String> = lines.take_while(|line| !line.contains("listening")).collect();
    let note = said.iter().find(|line| line.contains("max_connections is")).expect("a note");
    let address = Address::Unix(dir.join("s.sock"));
    let connect = || Client::connect(&address, &Login::default());
    let mut first = connect().expect("connects");
    let max = first.run("SELECT @@max_connections").expect("select").scalar().expect("a row");
    assert!(note.contains(&format!("max_connections is {max}, not 10000")), "{note}");
    let max: usize = max.parse().expect("a number");
    let clients: Vec<Client> = (0..max + 1).map_while(|_| connect().ok()).collect();
    assert!((max - 1..=max).contains(&clients.len()), "{} of {max}", clients.len());
    let refused = connect().err().expect("refused").to_string();
    assert!(refused.contains("1040"), "{refused}");
    first.run("CREATE DATABASE d").expect("a new tree");
    drop((first, clients));
    child.kill().expect("ends");
    child.wait().expect("has ended");
    fs::remove_dir_all(dir).ok();
}

/// Debian's files of `mariadb-server` and its recommended plugins, as they are installed.
const DEBIAN: &[(&str, &str)] = &[
    ("my.cnf", "[client-server]\nsocket = s.sock\n!includedir conf.d/\n!includedir mariadb.conf.d/\n"),
    (
        "mariadb.conf.d/50-server.cnf",
        "[server]\n[mysqld]\npid-file = /run/mysqld/mysqld.pid\nbasedir = /usr\n#datadir = /var/lib/mysql\n\
         bind-address = 127.0.0.1\n#key_buffer_size = 128M\nexpire_logs_days = 10\n\
         character-set-server  = utf8mb4\ncollation-server      = utf8mb4_general_ci\n\
         [embedded]\n[mariadb]\n[mariadb-10.11]\n",
    ),
    ("mariadb.conf.d/50-client.cnf", "[client]\n[client-mariadb]\n"),
    ("mariadb.conf.d/50-mysqld_safe.cnf", "[mysqld_safe]\nnice = 0\nskip_log_error\nsyslog\n"),
    ("mariadb.conf.d/60-galera.cnf", "[galera]\n#wsrep_on = ON\n"),
    (
        "mariadb.conf.d/provider_bzip2.cnf",
        "[server]\nplugin_load_add=provider_bzip2\nprovider_bzip2=force_plus_permanent\n",
    ),
    (
        "mariadb.conf.d/provider_snappy.cnf",
        "[server]\nplugin_load_add=provider_snappy\nprovider_snappy=force_plus_permanent\n",
    ),
    ("mariadb.conf.d/rocksdb.cnf", "[mariadb]\nplugin-load-add=ha_rocksdb.so\n"),
    ("mariadb.conf.d/auth_gssapi.cnf", "[mariadb]\nplugin-load-add=auth_gssapi.so\n"),
];

#[test]
fn debians_configuration_starts_it_as_it_is() {
    let etc = scratch_dir("debian").join("etc");
    for folder in ["conf.d", "mariadb.conf.d"] {
        fs::create_dir_all(etc.join(folder)).expect("a folder");
    }
    for (name, text) in DEBIAN {
        fs::write(etc.join(name), text).expect("a file");
    }
    let file = format!("--defaults-file={}", etc.join("my.cnf").display());
    let server = Server::start(Engine::Keel, &[&file, "--pid-file=keel.pid"]).expect("starts");
    let mut client = server.client().expect("connects");
    let said = |client: &mut Client, name: &str| {
        let sql = format!(
            "SELECT CONCAT(STATE, ' ', WHY) FROM information_schema.KEEL_SETTINGS WHERE NAME='{name}'"
        );
        client.run(&sql).expect("a row").scalar().unwrap_or_default()
    };
    assert_eq!(said(&mut client, "provider_bzip2"), "no effect there is no page compression");
    assert_eq!(
        client.run("SELECT @@collation_server").expect("row").scalar().as_deref(),
        Some("utf8mb4_general_ci")
    );
    assert!(server.log_tail().contains("plugin_load_add"), "{}", server.log_tail());
}

#[test]
fn options_that_ask_for_what_is_missing_stop_the_start() {
    let dir = scratch_dir("missing");
    for (option, why) in [
        ("--innodb-read-only=1", "a server that only reads"),
        ("--innodb-encrypt-tables=ON", "no encryption"),
        ("--encrypt-tmp-files", "no encryption"),
        ("--rpl-semi-sync-master-enabled=1", "no replication"),
        ("--wsrep-on=1", "no Galera"),
        ("--secure-timestamp=YES", "its timestamp"),
        ("--super-read-only=1", "READ ONLY ADMIN"),
        ("--simple-password-check-minimal-length=12", "passwords are not checked"),
        ("--plugin-load-add=server_audit", "no audit log"),
        ("--early-plugin-load=keyring_file.so", "no encryption"),
        ("--skip-unix-socket", "unix_socket"),
        ("--innodb-force-recovery=3", "keel salvage"),
    ] {
        let text = said(&refused(&dir.join("data"), &[option]));
        assert!(text.contains(why), "{option}: {text}");
    }
    let file = dir.join("bad.cnf");
    fs::write(&file, "[mysqld]\n\nmax-conections=5\n").expect("a file");
    let text = said(&refused(&dir.join("data"), &[&format!("--defaults-file={}", file.display())]));
    assert!(
        text.contains(
            "bad.cnf, line 3: unknown option '--max-conections', did you mean '--max-connections'?"
        ),
        "{text}"
    );
}

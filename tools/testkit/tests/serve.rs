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
        .args(["serve", "--innodb-log-file-size=2G"])
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

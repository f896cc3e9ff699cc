//! The data folder: who may read it, and that one server at a time uses it.

use keel_testkit::client::{Address, Client, Login};
use keel_testkit::process::{Engine, Server, free_port, keel_binary};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).permissions().mode()
        & 0o777
}

/// The folder and what is below it.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_path_buf()];
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { all.extend(all_below(&path)) } else { all.push(path) }
    }
    all
}

fn assert_closed(folder: &Path) {
    for path in all_below(folder) {
        let wanted = match (path.is_dir(), path.extension().and_then(|e| e.to_str())) {
            (true, _) => 0o700,
            _ if path.ends_with("server-key.pem") => 0o600,
            _ => 0o660,
        };
        assert_eq!(format!("{:o}", mode(&path)), format!("{wanted:o}"), "{}", path.display());
    }
}

/// `keel serve` on the folder, until it ends.
fn serve(folder: &Path) -> Output {
    Command::new(keel_binary())
        .args(["serve", &format!("--datadir={}", folder.display()), &format!("--port={}", free_port())])
        .arg(format!("--socket={}", folder.with_extension("other").display()))
        .output()
        .expect("runs")
}

#[test]
fn the_data_folder_is_closed_to_other_users() {
    let options = ["--general-log=1", "--slow-query-log=1", "--log-error=e.err", "--pid-file=p.pid"];
    let mut server = Server::start(Engine::Keel, &options).expect("starts");
    let data = server.dir.join("data");
    let mut client = server.client().expect("connects");
    client.run("CREATE DATABASE d").expect("a database");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY, b LONGTEXT)").expect("a table");
    client.run("CREATE TEMPORARY TABLE d.u (a INT PRIMARY KEY)").expect("a temporary table");
    assert_closed(&data);
    assert_eq!(mode(&server.socket()), 0o777);
    client.run("USE d").expect("a database");
    client.run("SELECT 1 INTO OUTFILE 'o.txt'").expect("a file");
    let result = data.join("d/o.txt");
    assert_eq!(mode(&result), 0o644);
    drop(client);
    assert!(server.stop().expect("stops").success());
    for path in all_below(&data) {
        let wanted = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).expect("changed");
    }
    server.launch().expect("starts");
    assert!(server.log_tail().contains("was open to other users"), "{}", server.log_tail());
    assert_eq!(mode(&result), 0o644, "results stay readable");
    fs::remove_file(result).expect("removed");
    for path in all_below(&data) {
        assert_eq!(mode(&path) & 0o007, 0, "{}", path.display());
    }
}

#[test]
fn removed_lock_files_let_nobody_else_in() {
    let mut server = Server::start(Engine::Keel, &[]).expect("starts");
    let data = server.dir.join("data");
    server.client().and_then(|mut client| client.run("CREATE DATABASE d")).expect("a database");
    for name in ["LOCK", "keel.lock"] {
        fs::remove_file(data.join(name)).expect("removed");
    }
    let refused = serve(&data);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("in use by another server"), "{said}");
    for command in ["check", "salvage"] {
        let mut checked = Command::new(keel_binary());
        checked.arg(command).arg(&data);
        if command == "salvage" {
            checked.arg(server.dir.join("out"));
        }
        let checked = checked.output().expect("runs");
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(checked.status.code() == Some(2) && said.contains("a server runs on"), "{said}");
    }
    let mut client = server.client().expect("connects");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY)").expect("the server still works");
    drop(client);
    server.kill();
    server.check().expect("nothing is wrong");
    server.launch().expect("starts again");
}

#[test]
fn a_start_waits_for_the_former_server_to_stop() {
    let mut server = Server::start(Engine::Keel, &[]).expect("starts");
    let data = server.dir.join("data");
    let (port, socket) = (free_port(), data.with_extension("next"));
    // The mark of a stop and the lock, held for longer than a start waits for a server that runs.
    fs::write(data.join("LOCK"), "stopping 1\n").expect("written");
    let mut next = Command::new(keel_binary())
        .args(["serve", &format!("--datadir={}", data.display()), &format!("--port={port}")])
        .arg(format!("--socket={}", socket.display()))
        .stdout(fs::File::create(server.dir.join("next.log")).expect("a log"))
        .stderr(fs::File::create(server.dir.join("next.err")).expect("a log"))
        .spawn()
        .expect("runs");
    std::thread::sleep(Duration::from_secs(6));
    assert!(next.try_wait().expect("known").is_none(), "the start still waits");
    assert!(server.stop().expect("stops").success());
    let text = |name: &str| fs::read_to_string(server.dir.join(name)).expect("a log");
    let deadline = Instant::now() + Duration::from_secs(60);
    while Client::connect(&Address::Unix(socket.clone()), &Login::default()).is_err() {
        let has_ended = next.try_wait().expect("known");
        assert!(Instant::now() < deadline && has_ended.is_none(), "{}", text("next.err"));
        std::thread::sleep(Duration::from_millis(20));
    }
    keel_testkit::process::kill_process(next.id());
    let _ = next.wait();
    assert!(text("next.log").contains("[Note] keel: waiting for the server"), "{}", text("next.log"));
    assert!(text("next.log").contains("ms for the former server"), "{}", text("next.log"));
}

/// More than twice the descriptors that the process may have.
const TABLES: usize = 3000;

fn open_descriptors(server: &Server) -> u64 {
    let folder = format!("/proc/{}/fd", server.pid().expect("the server runs"));
    fs::read_dir(folder).expect("a process").count() as u64
}

fn status(client: &mut Client, name: &str) -> u64 {
    let reply = client.run(&format!("SHOW GLOBAL STATUS LIKE '{name}'")).expect("a status");
    reply.strings()[0][1].parse().expect("a number")
}

/// Reads and writes each table, several times in another order.
fn use_tables(client: &mut Client, value: usize) {
    for number in (0..TABLES).rev() {
        let found = client.run(&format!("SELECT MAX(a) FROM t{number}")).expect("a row").scalar();
        assert_eq!(found, Some((value - 1).to_string()), "t{number}");
        client.run(&format!("INSERT INTO t{number} VALUES ({value})")).expect("a row");
    }
}

#[test]
fn more_tables_than_descriptors_are_made_used_and_found_again() {
    let mut server = Server::start(Engine::Keel, &["--innodb-flush-log-at-trx-commit=2"]).expect("starts");
    assert!(server.stop().expect("stops").success());
    server.set_wrapper(["sh", "-c", "ulimit -n 1024 && exec \"$0\" \"$@\""].map(String::from).to_vec());
    server.launch().expect("starts");
    let mut client = server.client().expect("connects");
    client.run("CREATE DATABASE d").expect("a database");
    let mut client = server.client_in("d").expect("connects");
    for number in 0..TABLES {
        client.run(&format!("CREATE TABLE t{number} (a INT PRIMARY KEY)")).expect("a table");
        client.run(&format!("INSERT INTO t{number} VALUES (0)")).expect("a row");
    }
    use_tables(&mut client, 1);
    let open = status(&mut client, "Open_files");
    assert!(open > 100 && open < 600, "{open}");
    assert!(status(&mut client, "Opened_files") > TABLES as u64);
    assert!(open_descriptors(&server) < 1024);
    let begun = Instant::now();
    let shown = client.run("SHOW TABLE STATUS").expect("a list").strings().len();
    assert_eq!(shown, TABLES);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // Connections keep their share.
    let connections: usize = client
        .run("SELECT @@max_connections")
        .expect("a number")
        .scalar()
        .expect("a row")
        .parse()
        .expect("a number");
    let clients: Vec<Client> = (0..connections).map_while(|_| server.client().ok()).collect();
    assert!(connections >= 151 && clients.len() + 2 >= connections, "{} of {connections}", clients.len());
    use_tables(&mut client, 2);
    drop((client, clients));
    assert!(server.stop().expect("stops").success());
    server.launch().expect("starts after a clean stop");
    let mut client = server.client_in("d").expect("connects");
    use_tables(&mut client, 3);
    drop(client);
    server.kill();
    server.launch().expect("starts after a kill");
    let mut client = server.client_in("d").expect("connects");
    use_tables(&mut client, 4);
    drop(client);
    assert!(server.stop().expect("stops").success());
    let mut check = Command::new("sh");
    check
        .args(["-c", "ulimit -n 1024 && exec \"$0\" check \"$1\""])
        .arg(keel_binary())
        .arg(server.dir.join("data"));
    let checked = check.output().expect("runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

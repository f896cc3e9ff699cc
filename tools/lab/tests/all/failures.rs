//! What goes wrong around a run: disks that fill up, engines that die or hang about, clients that are killed, Ctrl-C, tools and passwords
//! that are not there. Each is a clear line, the other arms go on, and nobody is left behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{cell, keel, plan, process, rows, run, scratch, small};
use keel_lab::clients::Workload;
use keel_lab::data::DataSet;
use keel_lab::disk::{DiskKind, lacking};
use keel_lab::engines::{Engine, Kind};
use keel_lab::plan::{Arm, Work};
use keel_testkit::client::Client;
use keel_testkit::process::{Engine as Brand, Server, keel_binary};

/// A script that stands for a program.
fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    fs::create_dir_all(folder).expect("a folder");
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("runs");
    path
}

/// Whether a process has this word anywhere in its command.
fn is_there(word: &str) -> bool {
    process(|words| words.iter().any(|has| has.contains(word))).is_some()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_disk_that_fills_up_in_a_run_is_said_and_the_others_go_on() {
    let disk = DiskKind { file_system: "ext4", scheduler: None, bytes: 400 << 20 };
    if let Some(why) = lacking(&disk) {
        eprintln!("not tried: {why}");
        return;
    }
    let root = scratch("full");
    let mut small_disk = Arm::new("keel on a small disk", &keel()).set(["innodb_log_file_size=64M"]);
    small_disk.disk = Some(disk);
    let arms = vec![small_disk, Arm::new("keel", &keel())];
    // Sixteen clients insert until there is no room.
    let insert = Workload::new("oltp_insert", &["--tables=1", "--table_size=1000", "--auto_inc=off"], 16);
    let load = Workload::new("oltp_insert", &["--tables=1", "--table_size=1000"], 1);
    let data = DataSet { name: "inserted".into(), load: Some(load), bytes: 1 << 20 };
    let mut plan = plan(vec![cell("", Work::Sysbench(insert), data, arms)]);
    let filler = thread::spawn({
        let root = root.clone();
        move || {
            // The server does not have to write 300 MiB itself.
            let mount = root.join("servers/disk-ext4-any");
            until("clients run", || {
                is_there(&format!("{}/servers/disk-ext4-any", root.display())) && is_there(CHECKPOINT)
            });
            thread::sleep(Duration::from_secs(2));
            Command::new("dd")
                .args(["if=/dev/zero", "bs=1M", &format!("of={}", mount.join("filler").display())])
                .stderr(Stdio::null())
                .status()
                .expect("dd runs");
        }
    });
    plan.seconds = 12;
    let all = run(&root, &plan).expect("the others go on");
    filler.join().expect("ends");
    let trouble = all[0].trouble.as_deref().unwrap_or_default();
    assert!(!trouble.is_empty(), "{:?}", all[0].result);
    assert!(all[0].result.tps == 0.0, "{:?}", all[0].result);
    assert_eq!((all[1].trouble.as_deref(), all[1].result.tps > 0.0), (None, true));
    fs::remove_dir_all(&root).expect("nothing is mounted any more");
}

/// An option of clients that measure.
const CHECKPOINT: &str = "--report-checkpoints=1";

#[test]
fn too_small_a_disk_is_said_before_anything_is_copied() {
    let disk = DiskKind { file_system: "ext4", scheduler: None, bytes: 64 << 20 };
    if let Some(why) = lacking(&disk) {
        eprintln!("not tried: {why}");
        return;
    }
    let root = scratch("small");
    let mut small_disk = Arm::new("keel on a small disk", &keel());
    small_disk.disk = Some(disk);
    let data = DataSet { bytes: 100 << 20, ..small() };
    let all = run(&root, &plan(vec![cell("", rows(4), data, vec![small_disk, Arm::new("keel", &keel())])]));
    let all = all.expect("the others go on");
    assert!(all[0].trouble.as_ref().is_some_and(|why| why.contains("MiB free")), "{:?}", all[0].trouble);
    assert_eq!(all[1].trouble, None);
    fs::remove_dir_all(&root).expect("is ours");
}

#[test]
fn an_engine_that_dies_in_every_run_is_given_up_and_the_others_go_on() {
    let root = scratch("dies");
    let (keel_program, folder) = (keel_binary().display().to_string(), root.join("fake"));
    // Whole while data are loaded, and killed a second after a start on a copy of them.
    let text = format!(
        "case \"$*\" in *servers*) \"{keel_program}\" \"$@\" & server=$!; sleep 1.5; kill -9 $server; exit 3;; esac\nexec \"{keel_program}\" \"$@\""
    );
    let fake = Engine { program: script(&folder, "keel", &text), name: "fake".into(), ..keel() };
    let arms = vec![Arm::new("fake", &fake), Arm::new("keel", &keel())];
    let mut plan = plan(vec![cell("", rows(4), small(), arms)]);
    (plan.pairs, plan.seconds) = (3, 4);
    let all = run(&root, &plan).expect("the others go on");
    let of = |arm: &str| all.iter().filter(|m| m.arm == arm).collect::<Vec<_>>();
    assert_eq!((of("fake").len(), of("keel").len()), (2, 3), "given up after two failures");
    for m in of("fake") {
        let trouble = m.trouble.as_deref().unwrap_or_default();
        assert!(trouble.contains("ended in the run") || trouble.contains("FATAL"), "{trouble}");
    }
    assert!(of("keel").iter().all(|m| m.trouble.is_none()));
    assert!(!is_there(&root.display().to_string()), "nobody is left");
    fs::remove_dir_all(&root).expect("is ours");
}

#[test]
fn a_script_that_does_not_make_way_for_its_server_leaves_nobody() {
    let root = scratch("wrapped");
    let text = format!("\"{}\" \"$@\"\nexit $?", keel_binary().display());
    let program = script(&root.join("fake"), "keel", &text);
    let setup = keel_lab::server::Setup::default();
    let wrapped = Engine { program, ..keel() };
    let server = keel_lab::server::Server::start(&wrapped, &root, &setup).expect("starts");
    let data = format!("--datadir={}", root.join("data").display());
    assert!(is_there(&data));
    drop(server);
    until("nobody is left", || !is_there(&data));
    fs::remove_dir_all(&root).expect("is ours");
}

#[test]
fn clients_that_are_killed_are_said_and_the_next_run_is_whole() {
    let root = scratch("clients");
    let arms = vec![Arm::new("keel", &keel()), Arm::new("keel again", &keel())];
    let mut plan = plan(vec![cell("", rows(4), small(), arms)]);
    plan.seconds = 4;
    let client = root.join("scripts/our_oltp.lua").display().to_string();
    let killer = thread::spawn(move || {
        let is_client = |words: &[String]| words.contains(&client) && words.contains(&CHECKPOINT.to_string());
        until("clients run", || process(is_client).is_some());
        thread::sleep(Duration::from_millis(500));
        process(is_client).into_iter().for_each(keel_testkit::process::kill_process);
    });
    let all = run(&root, &plan).expect("the others go on");
    killer.join().expect("ends");
    assert!(
        all[0].trouble.as_ref().is_some_and(|why| why.contains("without a report")),
        "{:?}",
        all[0].trouble
    );
    assert_eq!((all[1].trouble.as_deref(), all[1].result.tps > 0.0), (None, true));
    fs::remove_dir_all(&root).expect("is ours");
}

/// `keel lab` with its standard output.
fn lab(words: &[&str], path: Option<&Path>, password: &str) -> Command {
    let mut command = Command::new(keel_binary());
    command.arg("lab").args(words).env("KEEL_LAB_USER", "root").env("KEEL_LAB_PASSWORD", password);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_missing_tool_is_named_with_its_package() {
    let root = scratch("tools");
    fs::create_dir_all(&root).expect("a folder");
    let output = lab(&["run", "xtradb", "--out", "out"], Some(&root), "").current_dir(&root).output();
    let output = output.expect("runs");
    assert!(!output.status.success());
    assert!(
        said(&output).contains("sysbench is not installed (Debian's package sysbench)"),
        "{}",
        said(&output)
    );
    // With sysbench alone nothing can be compared by a program that is not there.
    script(&root, "sysbench", "exit 1");
    let words = ["run", "xtradb", "--engines", "mysql=/nowhere/mysqld", "--out", "out"];
    let output = lab(&words, Some(&root), "").current_dir(&root).output().expect("runs");
    assert!(!output.status.success());
    let said = said(&output);
    assert!(said.contains("left out: mysql: /nowhere/mysqld") && said.contains("no arm is left"), "{said}");
    fs::remove_dir_all(&root).expect("is ours");
}

#[test]
fn a_wrong_password_is_said_and_leaves_the_engine_out() {
    let root = scratch("password");
    fs::create_dir_all(&root).expect("a folder");
    let server = Server::start(Brand::Keel, &[]).expect("starts");
    let mut client = server.client().expect("connects");
    client.one("ALTER USER root@localhost IDENTIFIED BY 'right'").expect("answers");
    client.one("CREATE USER root@'127.0.0.1' IDENTIFIED BY 'right'").expect("answers");
    let address = format!("127.0.0.1:{}", server.port);
    let words = ["run", "default-vs-tuned", "--engines", address.as_str(), "--out", "out"];
    let output = lab(&words, None, "wrong").current_dir(&root).output().expect("runs");
    assert!(!output.status.success());
    let said = said(&output);
    assert!(
        said.contains(&format!("left out: {address}: root cannot log in")) && said.contains("1045"),
        "{said}"
    );
    assert!(said.contains("KEEL_LAB_PASSWORD") && !said.contains("wrong"), "{said}");
    fs::remove_dir_all(&root).expect("is ours");
}

#[test]
fn ctrl_c_stops_all_keeps_what_was_measured_and_the_same_command_goes_on() {
    let root = scratch("ctrl-c");
    fs::create_dir_all(&root).expect("a folder");
    let out = root.join("out").display().to_string();
    let words = ["run", "connection-storm", "--engines", "keel", "--pairs", "1", "--out", &out];
    let start = || lab(&words, None, "").spawn().expect("starts");
    let mut child = start();
    let mut lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
    // The first run is over, the second one has begun.
    let first =
        lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("[1/2]")).expect("a run ends");
    assert!(first.contains("keel, 1000 clients") && !first.contains("FATAL"), "{first}");
    until("a server runs", || is_there(&format!("--datadir={out}")));
    keel_testkit::child::interrupt(&mut child);
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let status = child.wait().expect("ends");
    let mut error = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("is piped"), &mut error).expect("text");
    assert!(
        !status.success() && error.contains("interrupted; what was measured is kept"),
        "{error} {rest:?}"
    );
    assert!(!is_there(&out), "no server and no client is left");
    let journal = || fs::read_to_string(root.join("out/results.jsonl")).expect("a journal");
    let kept = journal();
    assert_eq!(kept.lines().count(), 1);
    let output = start().wait_with_output().expect("ends");
    assert!(output.status.success(), "{}", said(&output));
    assert!(journal().starts_with(&kept) && journal().lines().count() == 2, "{}", said(&output));
    assert!(root.join("out/report.html").exists());
    fs::remove_dir_all(&root).expect("is ours");
}

/// What `--version` of a MySQL says, around a MariaDB.
const MYSQL: &str = r#"
words=""
for word in "$@"; do
  case "$word" in
    --version) echo "/opt/mysql/bin/mysqld  Ver 8.0.36 for Linux on x86_64 (MySQL Community Server - GPL)"; exit 0;;
    --initialize-insecure) install=yes;;
    --mysqlx=OFF) ;;
    *) words="$words $word";;
  esac
done
if [ -n "$install" ]; then
  exec mariadb-install-db $words --auth-root-authentication-method=normal --skip-test-db
fi
exec mariadbd $words
"#;

#[test]
fn a_mysql_is_measured_by_its_path() {
    let root = scratch("mysql");
    let program = script(&root.join("bin"), "mysqld", MYSQL);
    let named = format!("mysql={}", program.display());
    let (engines, skipped) = keel_lab::engines::find(Some(&named)).expect("is understood");
    assert!(skipped.is_empty(), "{skipped:?}");
    assert_eq!((engines[0].kind, engines[0].name.as_str()), (Kind::MySql, "mysql"));
    let arm = Arm::new("mysql", &engines[0]).settings("query_cache_size=64M\nno_such_setting=1\n");
    let all = run(&root, &plan(vec![cell("", rows(4), small(), vec![arm.set(["skip_log_bin"])])]));
    let all = all.expect("runs");
    assert_eq!((all[0].trouble.as_deref(), all[0].result.tps > 0.0), (None, true));
    assert_eq!(all[0].server.engine, "mysql");
    fs::remove_dir_all(&root).expect("is ours");
}

#[test]
fn a_mariadb_is_no_mysql() {
    let (engines, skipped) =
        keel_lab::engines::find(Some("mysql=/usr/sbin/mariadbd")).expect("is understood");
    assert!(engines.is_empty() && skipped[0].why.contains("is a MariaDB"), "{skipped:?}");
}

/// A server at an address is measured in a database of the lab's, which is gone then; with a password, as who was said.
#[test]
fn a_server_at_an_address_is_measured_and_left_as_it_was() {
    for brand in [Brand::Keel, Brand::MariaDb] {
        let root = scratch(&format!("address-{}", brand.name()));
        let server = Server::start(brand, &[]).expect("starts");
        let mut client = server.client().expect("connects");
        // MariaDB's nobody at localhost goes before somebody from anywhere.
        for host in ["localhost", "127.0.0.1"] {
            client.one(&format!("CREATE USER lab@'{host}' IDENTIFIED BY 'let-me#in'")).expect("answers");
            client.one(&format!("GRANT ALL ON keel_lab.* TO lab@'{host}'")).expect("answers");
        }
        let login = keel_testkit::client::Login {
            user: "lab".into(),
            password: "let-me#in".into(),
            ..Default::default()
        };
        let remote = Engine {
            kind: Kind::Remote,
            name: format!("127.0.0.1:{}", server.port),
            program: PathBuf::new(),
            version: String::new(),
            commit: None,
            remote: Some((server.tcp(), login)),
        };
        let arms = vec![Arm::new("there", &remote)];
        let mut plan = plan(vec![
            cell("a", rows(4), small(), arms.clone()),
            cell("b", rows(4), DataSet::tables(2, 1100), arms),
        ]);
        plan.pairs = 2;
        let all = run(&root, &plan).expect("runs");
        assert_eq!(all.len(), 4);
        for m in &all {
            assert_eq!(
                (m.trouble.as_deref(), m.result.tps > 0.0),
                (None, true),
                "{} {}",
                brand.name(),
                m.cell
            );
            assert!(m.cost.cpu_us_per_query.is_none() && m.server.variables.len() > 100);
        }
        assert!(!databases(&mut client).contains(&"keel_lab".to_string()));
        // What somebody else has under this name is not touched.
        client.one("CREATE DATABASE keel_lab").expect("answers");
        let again = root.join("again");
        let all = run(&again, &plan).expect("runs");
        assert!(
            all[0].trouble.as_ref().is_some_and(|why| why.contains("dropped by hand")),
            "{:?}",
            all[0].trouble
        );
        assert!(databases(&mut client).contains(&"keel_lab".to_string()));
        fs::remove_dir_all(&root).expect("is ours");
    }
}

fn databases(client: &mut Client) -> Vec<String> {
    client.one("SHOW DATABASES").expect("answers").strings().into_iter().flatten().collect()
}

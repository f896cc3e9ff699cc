//! Files of rows, in and out: what clients send for LOAD DATA LOCAL, kills, the rules about the server's files, and the
//! programs that use all that.

use keel_testkit::client::{Client, Login, Reply};
use keel_testkit::process::{Engine, Server, scratch_dir};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        Folder(scratch_dir("load"))
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("writes");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn server(options: &[&str]) -> (Server, Client) {
    let server = Server::start(Engine::Keel, options).expect("keel starts");
    let mut client = server.client().expect("connects");
    client.run("CREATE DATABASE d").expect("database");
    client.run("USE d").expect("use");
    (server, client)
}

fn lines(count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| format!("{i}\tline number {i}\n").into_bytes()).collect()
}

#[test]
fn a_client_sends_its_file_in_packets_of_any_size() {
    let (_server, mut client) = server(&[]);
    let folder = Folder::new();
    let few = folder.file("few", &lines(300));
    client.run("CREATE TABLE t (i INT PRIMARY KEY, s VARCHAR(40))").expect("table");
    for piece in [1, 3, 17, 4096] {
        client.file_packet_bytes = piece;
        let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE t", few.display());
        let Reply::Ok { affected: 300, info, .. } = client.run(&load).expect("loads") else {
            panic!("{piece}")
        };
        assert!(info.ends_with("Records: 300  Deleted: 0  Skipped: 0  Warnings: 0"), "{info}");
        let sum = client.run("SELECT SUM(i), SUM(s = CONCAT('line number ', i)) FROM t").expect("reads");
        assert_eq!(sum.strings()[0], ["44850", "300"]);
        client.run("DELETE FROM t").expect("deletes");
    }
    // Packets of the greatest length go on in the next.
    client.run("CREATE TABLE b (b LONGTEXT)").expect("table");
    let long = folder.file("long", &b"0123456789abcde\n".repeat(1 << 21));
    client.file_packet_bytes = 0xff_ffff;
    let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE b", long.display());
    let Reply::Ok { affected, .. } = client.run(&load).expect("loads") else { panic!("no OK") };
    assert_eq!(affected, 1 << 21);
    let odd = client.run("SELECT COUNT(*) FROM b WHERE b <> '0123456789abcde'").expect("reads");
    assert_eq!(odd.scalar().as_deref(), Some("0"));
}

#[test]
fn marks_may_lie_across_packets() {
    let (_server, mut client) = server(&[]);
    let folder = Folder::new();
    let text = "junk>>1<|>'a''b<|>c'<|>x\\<|>y--->>2<|>\\N<|>NULL--more>>3<|>'käse-<'<|>'un'closed-- >>4<|>''<|>q--\\--\
        >>5<|>'--'<|>tail--->>6<|>'open-- ";
    let file = folder.file("marks", text.as_bytes()).display().to_string();
    client.run("CREATE TABLE t (n INT AUTO_INCREMENT PRIMARY KEY, a TEXT, b TEXT, c TEXT)").expect("table");
    let load = |local: &str| {
        format!(
            "LOAD DATA {local}INFILE '{file}' IGNORE INTO TABLE t CHARACTER SET utf8mb4 FIELDS TERMINATED BY '<|>' \
             ENCLOSED BY '\\'' LINES STARTING BY '>>' TERMINATED BY '--' (a, b, c)"
        )
    };
    let rows = |client: &mut Client| client.run("SELECT a, b, c FROM t ORDER BY n").expect("reads").strings();
    client.run(&load("")).expect("loads");
    let whole = rows(&mut client);
    assert_eq!(whole[0], ["1", "a'b<|>c", "x<|>y"]);
    assert_eq!(whole[1], ["2", "NULL", "NULL"]);
    assert_eq!(whole.len(), 4, "{whole:?}");
    for piece in [1, 2, 3, 5, 7] {
        client.run("TRUNCATE t").expect("truncates");
        client.file_packet_bytes = piece;
        client.run(&load("LOCAL ")).expect("loads");
        assert_eq!(rows(&mut client), whole, "{piece}");
    }
}

#[test]
fn a_refused_file_does_not_disturb_what_follows() {
    let (_server, mut client) = server(&[]);
    let folder = Folder::new();
    let many = folder.file("many", &lines(300_000));
    client.run("CREATE TABLE t (i INT PRIMARY KEY, s VARCHAR(40))").expect("table");
    let load = |rest: &str| format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE {rest}", many.display());
    let failing = client.one(&load("t SET i = (SELECT 1 UNION SELECT 2)")).expect("answers");
    assert_eq!(failing.error_code(), Some(1242), "{failing:?}");
    assert_eq!(client.run("SELECT COUNT(*) FROM t").expect("reads").scalar().as_deref(), Some("0"));
    let unknown = client.one(&load("nothing")).expect("answers");
    assert_eq!(unknown.error_code(), Some(1146), "{unknown:?}");
    client.run("SET GLOBAL local_infile = 0").expect("sets");
    assert_eq!(client.one(&load("t")).expect("answers").error_code(), Some(4166));
    client.run("SET GLOBAL local_infile = 1").expect("sets");
    let replies = client.query(&format!("{}; SELECT COUNT(*) FROM t", load("t"))).expect("answers");
    assert_eq!(replies.last().and_then(Reply::scalar).as_deref(), Some("300000"));
}

#[test]
fn a_client_that_goes_away_leaves_nothing() {
    let (server, mut client) = server(&[]);
    client.run("CREATE TABLE t (i INT PRIMARY KEY)").expect("table");
    let mut other = server.client_in("d").expect("connects");
    other.post("LOAD DATA LOCAL INFILE 'x' INTO TABLE t").expect("sends");
    drop(other);
    client.run("SET SESSION lock_wait_timeout = 20").expect("sets");
    client.run("DROP TABLE t").expect("nobody uses it");
}

#[test]
fn kill_ends_a_load_and_takes_it_back() {
    let (server, mut client) = server(&[]);
    let folder = Folder::new();
    let many = folder.file("many", &lines(2_000_000));
    client.run("CREATE TABLE t (i INT PRIMARY KEY, s VARCHAR(40))").expect("table");
    for local in ["", "LOCAL "] {
        let mut victim = server.client_in("d").expect("connects");
        let id = victim.connection_id;
        let load = format!("LOAD DATA {local}INFILE '{}' INTO TABLE t", many.display());
        let done = AtomicBool::new(false);
        let reply = std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let reply = victim.one(&load).expect("answers");
                done.store(true, Ordering::Relaxed);
                (reply, victim.one("SELECT 1").expect("goes on"))
            });
            let begun = format!(
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND INFO LIKE 'LOAD%'"
            );
            while client.run(&begun).expect("reads").scalar().as_deref() != Some("1") {}
            while !done.load(Ordering::Relaxed) {
                client.run(&format!("KILL QUERY {id}")).expect("kills");
                std::thread::sleep(Duration::from_millis(5));
            }
            running.join().expect("ends")
        });
        assert_eq!(reply.0.error_code(), Some(1317), "{local}{reply:?}");
        assert_eq!(client.run("SELECT COUNT(*) FROM t").expect("reads").scalar().as_deref(), Some("0"));
    }
}

#[test]
fn a_long_file_takes_little_memory() {
    let (server, mut client) = server(&["--innodb-buffer-pool-size=32M"]);
    let folder = Folder::new();
    // One line, and no end of it: nothing of it is kept.
    let long = folder.file("long", &vec![b'x'; 200 << 20]);
    client.run("CREATE TABLE t (i INT DEFAULT 1, s VARCHAR(40))").expect("table");
    server.reset_peak();
    let load =
        format!("LOAD DATA INFILE '{}' IGNORE INTO TABLE t FIELDS TERMINATED BY 'x' (i)", long.display());
    let Reply::Ok { affected: 1, .. } = client.run(&load).expect("loads") else { panic!("no row") };
    let load = load.replace(" IGNORE", "").replace("INFILE", "LOCAL INFILE");
    client.run(&load).expect("loads");
    assert!(server.peak_bytes() < 160 << 20, "{} MiB", server.peak_bytes() >> 20);
}

#[test]
fn only_permitted_files_are_used() {
    let folder = Folder::new();
    let inside = folder.0.join("inside");
    fs::create_dir(&inside).expect("folder");
    let option = format!("--secure-file-priv={}", inside.display());
    let (_server, mut client) = server(&[&option]);
    client.run("CREATE TABLE t (i INT)").expect("table");
    let outside = folder.file("outside", b"1\n");
    std::os::unix::fs::symlink(&outside, inside.join("link")).expect("link");
    fs::write(inside.join("in"), b"1\n").expect("writes");
    let (outside, inside) = (outside.display(), inside.display());
    for (sql, wanted) in [
        (format!("LOAD DATA INFILE '{outside}' INTO TABLE t"), Some(1290)),
        (format!("LOAD DATA INFILE '{inside}/../outside' INTO TABLE t"), Some(1290)),
        (format!("LOAD DATA INFILE '{inside}/link' INTO TABLE t"), Some(1290)),
        (format!("LOAD DATA INFILE '{inside}/in' INTO TABLE t"), None),
        (format!("LOAD DATA LOCAL INFILE '{outside}' INTO TABLE t"), None),
        (format!("SELECT 1 INTO OUTFILE '{outside}2'"), Some(1290)),
        (format!("SELECT 1 INTO OUTFILE '{inside}/../out'"), Some(1290)),
        ("SELECT 1 INTO OUTFILE 'out'".to_string(), Some(1290)),
        (format!("SELECT 1 INTO OUTFILE '{inside}/out'"), None),
    ] {
        assert_eq!(client.one(&sql).expect("answers").error_code(), wanted, "{sql}");
    }
    let read =
        format!("SELECT LOAD_FILE('{outside}'), LOAD_FILE('{inside}/link'), LOAD_FILE('{inside}/out')");
    assert_eq!(client.run(&read).expect("reads").strings()[0], ["NULL", "NULL", "1\n"]);
    let shown = client.run("SELECT @@secure_file_priv").expect("reads").scalar();
    assert_eq!(shown.as_deref().map(|s| s.trim_end_matches('/').to_string()), Some(inside.to_string()));
}

#[test]
fn files_of_databases_lie_in_the_data_folder_and_its_own_are_safe() {
    let (mut server, mut client) = server(&[]);
    client.run("CREATE TABLE t (i INT)").expect("table");
    client.run("SELECT 7 INTO OUTFILE 'out.txt'").expect("writes");
    assert_eq!(client.one("SELECT 7 INTO OUTFILE 'out.txt'").expect("answers").error_code(), Some(1086));
    client.run("LOAD DATA INFILE 'out.txt' INTO TABLE t").expect("reads");
    client.run("LOAD DATA INFILE 'd/out.txt' INTO TABLE t").expect("reads");
    let read = client
        .run("SELECT LOAD_FILE('d/out.txt'), LOAD_FILE('out.txt'), LOAD_FILE('FORMAT')")
        .expect("reads");
    assert_eq!(read.strings()[0], ["7\n", "NULL", "NULL"]);
    for sql in [
        "LOAD DATA INFILE './redo.head' INTO TABLE t",
        "LOAD DATA INFILE 'trees/undo.kt' INTO TABLE t",
        "LOAD DATA INFILE 'd/../trees/undo.kt' INTO TABLE t",
        "SELECT 1 INTO OUTFILE './redo.9'",
        "SELECT 1 INTO OUTFILE 'trees/t999.kt'",
        "SELECT 1 INTO DUMPFILE 'd/../redo.9'",
    ] {
        assert_eq!(client.one(sql).expect("answers").error_code(), Some(1290), "{sql}");
    }
    client.run("CREATE DATABASE trees").expect("database");
    client.run("USE trees").expect("use");
    assert_eq!(client.one("SELECT 1 INTO OUTFILE 't999.kt'").expect("answers").error_code(), Some(1290));
    server.stop().expect("stops");
    server.launch().expect("starts with such a folder");
    let count = server.client_in("d").expect("connects").run("SELECT COUNT(*) FROM t").expect("reads");
    assert_eq!(count.scalar().as_deref(), Some("2"));
}

#[test]
fn who_may_not_use_files_cannot() {
    let (server, mut client) = server(&[]);
    let folder = Folder::new();
    let few = folder.file("few", b"1\n").display().to_string();
    client.run("CREATE TABLE t (i INT)").expect("table");
    client.run("CREATE USER u@localhost").expect("user");
    client.run("GRANT SELECT ON d.* TO u@localhost").expect("grant");
    let login = Login { user: "u".into(), database: Some("d".into()), ..Login::default() };
    let mut other = Client::connect(&server.unix(), &login).expect("connects");
    let code = |client: &mut Client, sql: &str| client.one(sql).expect("answers").error_code();
    let load = format!("LOAD DATA INFILE '{few}' INTO TABLE t");
    let local = format!("LOAD DATA LOCAL INFILE '{few}' INTO TABLE t");
    let replace = format!("LOAD DATA LOCAL INFILE '{few}' REPLACE INTO TABLE t");
    let out = format!("SELECT 1 INTO OUTFILE '{few}2'");
    assert_eq!(code(&mut other, &load), Some(1045));
    assert_eq!(code(&mut other, &local), Some(1142));
    assert_eq!(code(&mut other, &out), Some(1227));
    // A plan that others may share asks again.
    client.run(&out).expect("writes");
    assert_eq!(code(&mut other, &out), Some(1227));
    let read = other.run(&format!("SELECT LOAD_FILE('{few}')")).expect("reads");
    assert_eq!(read.scalar().as_deref(), Some("NULL"));
    client.run("GRANT INSERT ON d.t TO u@localhost").expect("grant");
    assert_eq!(code(&mut other, &local), None);
    assert_eq!(code(&mut other, &replace), Some(1142));
    assert_eq!(code(&mut other, &load), Some(1045));
    client.run("GRANT FILE ON *.* TO u@localhost").expect("grant");
    let mut other = Client::connect(&server.unix(), &login).expect("connects");
    assert_eq!(code(&mut other, &load), None);
}

fn run(program: &str, server: &Server, args: &[&str]) -> Output {
    let output = Command::new(program)
        .args(["--no-defaults", "-h127.0.0.1", "-uroot", "--protocol=tcp"])
        .arg(format!("-P{}", server.port))
        .args(args)
        .output()
        .expect("the mariadb clients are installed");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn dumps_by_table_are_made_and_imported() {
    let (server, mut client) = server(&[]);
    let folder = Folder::new();
    client.run("CREATE TABLE t (i INT PRIMARY KEY, s VARCHAR(40), b BLOB)").expect("table");
    client
        .run("INSERT INTO t VALUES (1, 'a\\tb\\nc\\\\', x'0001ff'), (2, NULL, NULL), (3, 'käse', '')")
        .expect("rows");
    let sum = |client: &mut Client| client.run("CHECKSUM TABLE t").expect("sums").strings();
    let before = sum(&mut client);
    let tab = format!("--tab={}", folder.0.display());
    run("mariadb-dump", &server, &[&tab, "d"]);
    assert!(read(&folder.0.join("t.sql")).contains("CREATE TABLE `t`"));
    assert!(folder.0.join("t.txt").exists());
    for local in [&["--local"][..], &[]] {
        client.run("DELETE FROM t").expect("deletes");
        let file = folder.0.join("t.txt").display().to_string();
        let mut args = vec!["--default-character-set=binary"];
        args.extend_from_slice(local);
        args.extend_from_slice(&["d", &file]);
        let output = run("mariadb-import", &server, &args);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains("Records: 3  Deleted: 0  Skipped: 0  Warnings: 0"), "{told}");
        assert_eq!(sum(&mut client), before);
    }
    let csv = folder.file("t.csv", b"head\n1;'x;y'\n2;z\n").display().to_string();
    client.run("DELETE FROM t").expect("deletes");
    let args =
        ["--local", "--ignore-lines=1", "--fields-terminated-by=;", "--fields-optionally-enclosed-by='"];
    run("mariadb-import", &server, &[&args[..], &["--columns=i,s", "--replace", "d", &csv]].concat());
    let rows = client.run("SELECT i, s FROM t ORDER BY i").expect("reads").strings();
    assert_eq!(rows, [["1", "x;y"], ["2", "z"]]);
}

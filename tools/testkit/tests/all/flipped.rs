//! Bits that flip on disk under a running server: whoever reads the page is told its file and number, everybody else goes on.

use keel_testkit::client::{Client, Reply};
use keel_testkit::process::{Engine, Server};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const PAGE_BYTES: u64 = 16 << 10;
const ROWS: u64 = 4000;

/// A table, and the files that came with it: rows first, then its index.
fn make(server: &Server, client: &mut Client, name: &str) -> Vec<PathBuf> {
    let before = tree_files(server);
    let run =
        |client: &mut Client, sql: &str| client.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    run(
        client,
        &format!(
            "CREATE TABLE {name} (id INT PRIMARY KEY, n INT NOT NULL, v VARCHAR(3000), KEY n (n, v(400)))"
        ),
    );
    for from in (1..=ROWS).step_by(500) {
        let rows: Vec<String> = (from..from + 500)
            .map(|id| format!("({id}, {}, REPEAT('v{id} ', 300))", id * 7 % ROWS))
            .collect();
        run(client, &format!("INSERT INTO {name} VALUES {}", rows.join(",")));
    }
    let mut files: Vec<PathBuf> = tree_files(server).difference(&before).cloned().collect();
    files.sort_by_key(|path| path.file_stem().map(|stem| (stem.len(), stem.to_owned())));
    files
}

fn tree_files(server: &Server) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(server.dir.join("data/trees")).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Flips a bit of a page on disk; again, and it is as before.
fn flip(path: &PathBuf, page: u64) {
    let file = File::options().read(true).write(true).open(path).expect("a file");
    let (at, mut byte) = (page * PAGE_BYTES + 9000, [0]);
    file.read_exact_at(&mut byte, at).expect("reads");
    file.write_all_at(&[byte[0] ^ 0x10], at).expect("writes");
    file.sync_all().expect("syncs");
}

/// The error's number and text.
fn refused(client: &mut Client, sql: &str) -> (u16, String) {
    match client.one(sql).expect("the connection lives") {
        Reply::Error { code, message, .. } => (code, message),
        other => panic!("{sql}: {other:?}"),
    }
}

/// Reads a table's rows and its index.
fn read_all(client: &mut Client, table: &str) {
    let sum = client.run(&format!("SELECT SUM(LENGTH(v)), COUNT(*) FROM {table} FORCE INDEX (PRIMARY)"));
    assert_eq!(sum.expect("readable").strings()[0][1], ROWS.to_string());
    client.run(&format!("SELECT COUNT(*) FROM {table} FORCE INDEX (n) WHERE n >= 0")).expect("readable");
}

fn check(client: &mut Client, table: &str) -> Vec<Vec<String>> {
    client.run(&format!("CHECK TABLE {table}")).expect("an answer").strings()
}

#[test]
fn a_page_damaged_under_a_running_server_is_named_and_other_tables_go_on() {
    let mut server = Server::start(Engine::Keel, &["--innodb-buffer-pool-size=5M"]).expect("starts");
    let mut client = server.client().expect("connects");
    client.run("CREATE DATABASE d").expect("a database");
    let mut client = server.client_in("d").expect("connects");
    let files = make(&server, &mut client, "a");
    make(&server, &mut client, "b");
    assert_eq!(files.len(), 2, "{files:?}");
    drop(client);
    // What is on disk is all there is from here on.
    assert!(server.stop().expect("stops").success());
    server.launch().expect("starts again");
    let mut client = server.client_in("d").expect("connects");

    for (path, index, other) in [(&files[0], "PRIMARY", "n"), (&files[1], "n", "PRIMARY")] {
        let name = path.file_name().expect("a name").to_str().expect("text").to_string();
        let page = fs::metadata(path).expect("a file").len() / PAGE_BYTES / 2;
        let told = format!("{name} page {page}");
        // Anew, so that the page is on disk alone.
        drop(client);
        assert!(server.stop().expect("stops").success(), "{}", server.log_tail());
        server.launch().expect("starts again");
        client = server.client_in("d").expect("connects");
        flip(path, page);

        let all = format!("SELECT MAX(n), COUNT(*) FROM a FORCE INDEX ({index}) WHERE n >= 0");
        let (code, message) = refused(&mut client, &all);
        assert!(code == 1030 && message.contains(&told), "{code} {message}");
        client.run("BEGIN").expect("begins");
        client.run("UPDATE b SET n = n + 1 WHERE id = 1").expect("another table");
        let (code, message) = refused(&mut client, "DELETE FROM a WHERE n >= 0");
        assert!(code == 1030 && message.contains(&told), "{code} {message}");
        client.run("COMMIT").expect("the transaction goes on");
        let answer = check(&mut client, "a");
        assert!(answer.iter().any(|row| row[3].contains(&told)), "{answer:?}");
        assert_eq!(answer.last().expect("a row")[2..], ["error", "Corrupt"]);
        // Other rows, the other index, other tables.
        for id in [1, ROWS] {
            let row = client.run(&format!("SELECT COUNT(*) FROM a WHERE id = {id}")).expect("another page");
            assert_eq!(row.scalar().as_deref(), Some("1"));
        }
        if index == "n" {
            let count = client
                .run(&format!("SELECT COUNT(*) FROM a FORCE INDEX ({other})"))
                .expect("the rows are whole");
            assert_eq!(count.scalar(), Some(ROWS.to_string()));
        }
        read_all(&mut client, "b");
        assert_eq!(check(&mut client, "b")[0][3], "OK");

        flip(path, page);
        assert_eq!(check(&mut client, "a")[0][3], "OK", "the disk is as before");
        read_all(&mut client, "a");
    }

    // A table of which nothing can be read says so in its own line.
    drop(client);
    assert!(server.stop().expect("stops").success(), "{}", server.log_tail());
    server.launch().expect("starts again");
    client = server.client_in("d").expect("connects");
    flip(&files[0], 1);
    let tables = client.run("SHOW TABLE STATUS").expect("of the others too").strings();
    let told = format!("{} page 1", files[0].file_name().expect("a name").to_string_lossy());
    assert!(tables[0][0] == "a" && tables[0][4] == "NULL" && tables[0][17].contains(&told), "{tables:?}");
    assert!(tables[1][0] == "b" && tables[1][4] != "NULL" && tables[1][17].is_empty(), "{tables:?}");
    for table in ["information_schema.STATISTICS", "mysql.innodb_table_stats", "mysql.innodb_index_stats"] {
        client.run(&format!("SELECT COUNT(*) FROM {table}")).expect(table);
    }
    client.run("SELECT COUNT(*) FROM information_schema.INNODB_SYS_TABLESTATS").expect("the same");
    flip(&files[0], 1);

    read_all(&mut client, "b");
    flip(&files[0], 7);
    client.run("DROP TABLE a").expect("what is damaged can be dropped");
    drop(client);
    assert!(server.stop().expect("stops").success(), "{}", server.log_tail());
    server.check().expect("nothing is damaged any more");
}

//! `keel check`: nothing is found in folders that crashes left, and everything that is damaged is found and named.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::*;
use keel_base::checksum::crc32c;
use keel_offline::{Inspection, Salvaged, Summary};
use keel_runtime::sim::{self, Disk, Options, Outcome};
use keel_sql::ast::{ByteStr, XaStart, Xid};
use keel_storage::inspect::{Finding, Folder, Limits, Report, Severity};
use keel_storage::{OnDuplicate, Read, ScanRange, TreeHandle, Txn, TxnOptions};
use parking_lot::Mutex;

const PAGE: usize = 16 << 10;

/// Checks what is on the disk; gives the findings.
fn inspect(disk: &Disk) -> (Vec<Finding>, Summary) {
    sim::run(Options::new(99).with_disk(disk), || {
        let findings = Arc::new(Mutex::new(Vec::new()));
        let kept = findings.clone();
        let report = Arc::new(Report::new(move |finding: &Finding| kept.lock().push(finding.clone())));
        let folder =
            Folder::open(Path::new("/data"), Limits::new("/tmp".into()), &report).expect("a data folder");
        let summary = Inspection::new(folder, report).check();
        let found = findings.lock().clone();
        (found, summary)
    })
    .done()
}

fn damage_of(findings: &[Finding]) -> Vec<String> {
    let all = findings.iter().filter(|f| f.severity == Severity::Damage);
    all.map(|f| format!("{} {} {:?} {:?}: {}", f.kind, f.file, f.page, f.object, f.text)).collect()
}

/// Salvages what is on the disk; gives what became of each table, and the SQL.
fn salvage(disk: &Disk) -> Vec<(Salvaged, String)> {
    sim::run(Options::new(98).with_disk(disk), || {
        let report = Arc::new(Report::new(|_: &Finding| {}));
        let folder =
            Folder::open(Path::new("/data"), Limits::new("/tmp".into()), &report).expect("a data folder");
        let out = PathBuf::from(format!("/out{}", keel_runtime::rand::u64() ^ disk.sync_count()));
        let tables = Inspection::new(folder, report).salvage(&out).expect("written");
        let sql = |table: &Salvaged| {
            let bytes = keel_runtime::fs::read_to_end(&out.join(&table.file)).expect("the file");
            String::from_utf8(bytes).expect("UTF-8")
        };
        tables.into_iter().map(|table| (table.clone(), sql(&table))).collect()
    })
    .done()
}

/// Loads what was salvaged into a new server; gives all rows of `query`.
fn reload(tables: &[(Salvaged, String)], query: &str) -> String {
    let disk = Disk::new(1);
    live(&disk, 1, |database| {
        let mut client = Client::new(database);
        client.run("CREATE DATABASE IF NOT EXISTS test");
        for statement in tables.iter().flat_map(|(_, sql)| sql.split(";\n")) {
            let statement: String =
                statement.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
            if statement.starts_with("CREATE TABLE") || statement.starts_with("INSERT") {
                client.try_run(&statement).expect(&statement);
            }
        }
        client.run(query)
    })
    .done()
}

const TABLES: &str = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, u INT, v VARCHAR(300), KEY ka (a, v), UNIQUE KEY ku (u)) -> ok
    CREATE TABLE big (id INT PRIMARY KEY, body MEDIUMTEXT) -> ok
    CREATE TABLE hidden (x INT, y VARCHAR(50), KEY kx (x)) -> ok";

fn fill(client: &mut Client, rows: u64) {
    client.run("CREATE DATABASE IF NOT EXISTS test");
    client.script(TABLES);
    for n in 0..rows {
        client.run(&format!("INSERT INTO t (a, u, v) VALUES ({}, {n}, REPEAT('v{n}', {}))", n % 7, n % 60));
        client.run(&format!("INSERT INTO hidden VALUES ({}, 'y{n}')", n % 5));
        if n % 20 == 0 {
            client.run(&format!("INSERT INTO big VALUES ({n}, REPEAT('x{n}', {}))", 3000 * (n % 9)));
        }
    }
}

/// A small random workload: rows come, change and go, in transactions that commit, roll back or stay open.
fn work(client: &mut Client, random: &mut u64, statements: usize) {
    let mut below = |n: u64| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) % n
    };
    for _ in 0..statements {
        let (n, m) = (below(300), below(300));
        let sql = match below(14) {
            0 => "BEGIN".to_string(),
            1 => "COMMIT".to_string(),
            2 => "ROLLBACK".to_string(),
            3 => "SAVEPOINT s".to_string(),
            4 => "ROLLBACK TO s".to_string(),
            5 | 6 => format!("INSERT IGNORE INTO t (a, u, v) VALUES ({n}, {m}, REPEAT('w', {n}))"),
            7 => format!("UPDATE t SET a = a + 1, v = REPEAT('z', {m}) WHERE id BETWEEN {n} AND {}", n + 5),
            8 => format!("DELETE FROM t WHERE id = {n}"),
            9 => format!("REPLACE INTO big VALUES ({}, REPEAT('b', {}))", n % 30, m * 200),
            10 => format!("DELETE FROM big WHERE id = {}", n % 30),
            11 => format!("UPDATE hidden SET x = {m} WHERE x = {}", n % 50),
            12 => format!("UPDATE t SET u = u + 1000 WHERE u = {m}"),
            _ => format!("DELETE FROM hidden WHERE x = {}", n % 50),
        };
        let _ = client.try_run(&sql);
    }
}

#[test]
fn nothing_is_found_where_a_server_was_killed() {
    let seeds = std::env::var("KEEL_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12u64);
    for seed in 0..seeds {
        let disk = Disk::new(seed);
        let mut random = seed;
        live(&disk, seed, |database| fill(&mut Client::new(database), 60)).done();
        for turn in 0..3 {
            let syncs = 5 + (seed * 37 + turn * 101) % 170;
            let outcome = live(&disk, seed * 10 + turn, |database| {
                sim::crash_after_syncs(syncs);
                work(&mut Client::new(database), &mut random, 400);
                sim::crash_now();
            });
            let _: Outcome<()> = outcome;
            if turn != 1 {
                disk.crash(seed + turn);
            }
            let (findings, summary) = inspect(&disk);
            assert_eq!(damage_of(&findings), [""; 0], "seed {seed}, turn {turn}, {syncs} syncs");
            assert!(summary.tables == 3 && summary.rows > 0, "seed {seed}: {summary:?}");
        }
        live(&disk, seed, |_| ()).done();
        let (findings, _) = inspect(&disk);
        assert_eq!(damage_of(&findings), [""; 0], "seed {seed}, after a clean stop");
    }
}

/// A disk with a stopped server's folder.
fn stopped(seed: u64) -> Disk {
    let disk = Disk::new(seed);
    live(&disk, seed, |database| fill(&mut Client::new(database), 400)).done();
    assert_eq!(damage_of(&inspect(&disk).0), [""; 0]);
    disk
}

fn trees(disk: &Disk) -> Vec<(PathBuf, u64)> {
    disk.files().into_iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "kt")).collect()
}

#[test]
fn a_flipped_bit_in_any_page_is_found_and_named() {
    let disk = stopped(5);
    for (path, len) in trees(&disk) {
        let bytes = disk.read(&path).expect("the file");
        for page in 0..len as usize / PAGE {
            let at = page * PAGE + 16 + page * 7 % (PAGE - 16);
            if bytes[page * PAGE..][..PAGE].iter().all(|b| *b == 0) {
                continue;
            }
            disk.damage(&path, at as u64, &[bytes[at] ^ 1 << (page % 8)]);
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let (findings, _) = inspect(&disk);
            let named = findings.iter().any(|f| f.file == name && f.page == Some(page as u32));
            assert!(named, "{name} page {page}: {findings:?}");
            assert!(findings.len() < 100, "{} findings for one bit", findings.len());
            disk.damage(&path, at as u64, &bytes[at..=at]);
        }
    }
    assert_eq!(damage_of(&inspect(&disk).0), [""; 0]);
}

/// Changes bytes of a page and gives it the right checksum again.
fn forge(disk: &Disk, path: &Path, page: usize, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let bytes = disk.read(path).expect("the file");
    let before = bytes[page * PAGE..][..PAGE].to_vec();
    let mut forged = before.clone();
    change(&mut forged);
    let crc = crc32c(&forged[4..]);
    forged[..4].copy_from_slice(&crc.to_le_bytes());
    disk.damage(path, (page * PAGE) as u64, &forged);
    before
}

/// The first page of a file that is of that kind and has a right neighbour or next page.
fn page_of_kind(disk: &Disk, path: &Path, kind: u8) -> Option<usize> {
    let bytes = disk.read(path)?;
    (2..bytes.len() / PAGE).find(|page| bytes[page * PAGE + 20] == kind && bytes[page * PAGE + 24] != 0)
}

#[test]
fn pages_that_lie_with_the_right_checksum_are_found() {
    let disk = stopped(6);
    let leaves = 1;
    let path = trees(&disk)
        .into_iter()
        .map(|(path, _)| path)
        .find(|path| page_of_kind(&disk, path, leaves).is_some());
    let path = path.expect("a tree of several leaves");
    let page = page_of_kind(&disk, &path, leaves).expect("a leaf");
    type Lie<'a> = (&'a str, &'a dyn Fn(&mut [u8]));
    let lies: [Lie<'_>; 6] = [
        ("another right neighbour", &|page| page[24] ^= 3),
        ("no right neighbour", &|page| page[24..28].fill(0)),
        ("another page's number", &|page| page[4] ^= 1),
        ("a level", &|page| page[21] = 1),
        ("a slot that leads out of the page", &|page| page[64..66].copy_from_slice(&0xfff0u16.to_le_bytes())),
        ("slots in another order", &|page| page[64..80].rotate_left(8)),
    ];
    for (what, lie) in lies {
        let before = forge(&disk, &path, page, lie);
        let found = damage_of(&inspect(&disk).0);
        assert!(!found.is_empty(), "{what} is not found");
        assert!(found.iter().any(|f| f.contains(&format!("Some({page})"))), "{what}: {found:?}");
        disk.damage(&path, (page * PAGE) as u64, &before);
    }
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    let before = forge(&disk, &path, 0, |map| map[PAGE / 2] &= !(1 << (page % 8)));
    let found = damage_of(&inspect(&disk).0);
    assert!(
        found.iter().any(|f| f.starts_with(&format!("allocation {file}"))),
        "a page in use is free: {found:?}"
    );
    disk.damage(&path, 0, &before);
    let before = forge(&disk, &path, 0, |map| map[PAGE / 2 + 40] |= 0x80);
    assert!(!inspect(&disk).0.is_empty(), "a page that nobody uses is taken");
    disk.damage(&path, 0, &before);
    assert_eq!(damage_of(&inspect(&disk).0), [""; 0]);
}

#[test]
fn missing_files_are_named() {
    for (victim, expected) in
        [("t1.kt", "registry"), ("undo.kt", "undo file"), ("t3.kt", "missing"), ("redo.head", "redo.head")]
    {
        let disk = stopped(7);
        let path = disk
            .files()
            .into_iter()
            .map(|(path, _)| path)
            .find(|path| path.ends_with(victim))
            .expect("the file");
        sim::run(Options::new(1).with_disk(&disk), || keel_runtime::fs::remove_file(&path).expect("removed"))
            .done();
        let found = damage_of(&inspect(&disk).0);
        assert!(found.iter().any(|f| f.contains(expected)), "{victim}: {found:?}");
        assert!(found.len() < 60, "{victim}: {} findings", found.len());
    }
}

#[test]
fn a_file_that_could_not_grow_whole_is_no_damage() {
    let disk = Disk::new(61);
    live(&disk, 61, |database| {
        fill(&mut Client::new(database), 20);
        database.engine().shutdown().expect("clean");
    })
    .done();
    for (path, len) in disk.files().into_iter().filter(|(path, _)| path.starts_with("/data/trees")) {
        disk.damage(&path, len, &[0; 4096]);
    }
    let (findings, _) = inspect(&disk);
    assert_eq!(damage_of(&findings), Vec::<String>::new());
    assert!(findings.iter().any(|f| f.kind == "length" && f.text == "ends 4096 bytes into a page"));
}

#[test]
fn a_lost_part_of_the_log_is_found() {
    let disk = Disk::new(8);
    let outcome: Outcome<()> = live(&disk, 8, |database| {
        fill(&mut Client::new(database), 200);
        database.engine().checkpoint().expect("checkpoint");
        fill_more(&mut Client::new(database));
        sim::crash_now()
    });
    assert_eq!(outcome, Outcome::Crashed);
    assert_eq!(damage_of(&inspect(&disk).0), [""; 0]);
    let head = disk.read(Path::new("/data/redo.head")).expect("the head");
    let slot = |at: usize| (u64::from_le_bytes(head[at + 16..at + 24].try_into().unwrap()), at);
    let at = slot(0).max(slot(4096)).1;
    let checkpoint = u64::from_le_bytes(head[at + 24..at + 32].try_into().unwrap());
    let (number, offset) = (checkpoint >> 20, checkpoint & 0xf_ffff);
    let path = PathBuf::from(format!("/data/redo.{number}"));
    let bytes = disk.read(&path).expect("the log");
    let damaged = (offset as usize + 20_000).min(bytes.len() - 1);
    disk.damage(&path, damaged as u64, &[bytes[damaged] ^ 1]);
    let (findings, _) = inspect(&disk);
    assert!(findings.iter().any(|f| f.kind == "log-gap"), "{findings:?}");
}

fn fill_more(client: &mut Client) {
    for n in 1000..1200 {
        client.run(&format!("INSERT INTO t (a, u, v) VALUES ({n}, {n}, 'more')"));
    }
}

fn first_entry(txn: &mut Txn, tree: &TreeHandle) -> (Vec<u8>, Vec<u8>) {
    let mut scan = txn.scan(tree, ScanRange::ALL, Read::Snapshot).expect("scan");
    let (key, row) = scan.next(txn).expect("scan").expect("an entry");
    (key.to_vec(), row.to_vec())
}

/// Changes a tree behind the table's back and checks; the change must be named with that index.
fn against(seed: u64, index: &str, expected: &str, change: impl Fn(&mut Txn, &TreeHandle) + Send + Sync) {
    let disk = Disk::new(seed);
    live(&disk, seed, |database| {
        fill(&mut Client::new(database), 300);
        let table = database.catalog().table("test", "t").expect("the table").clone();
        let position = table.indexes.iter().position(|i| &*i.name == index).expect("the index");
        let tree = table.indexes[position].entries().clone();
        let mut txn = database.engine().begin(TxnOptions::default());
        change(&mut txn, &tree);
        txn.commit().expect("commit");
    })
    .done();
    let found = damage_of(&inspect(&disk).0);
    assert!(found.iter().any(|f| f.contains(expected)), "{index}: {found:?}");
    assert!(found.len() < 40, "{} findings", found.len());
}

#[test]
fn rows_and_entries_that_disagree_are_named() {
    against(11, "ka", "has no entry", |txn, tree| {
        let (key, _) = first_entry(txn, tree);
        txn.delete(tree, &key).expect("deleted");
    });
    against(12, "ka", "has no row", |txn, tree| {
        let (mut key, row) = first_entry(txn, tree);
        key[1] ^= 0x40;
        txn.insert(tree, &key, &row, OnDuplicate::LockShared).expect("inserted");
    });
    against(13, "ku", "unique values stand twice", |txn, tree| {
        let (mut key, row) = first_entry(txn, tree);
        *key.last_mut().expect("a key") ^= 0x10;
        txn.insert(tree, &key, &row, OnDuplicate::LockShared).expect("inserted");
    });
    against(14, "PRIMARY", "\"index ka of table test.t\"", |txn, tree| {
        let (key, _) = first_entry(txn, tree);
        txn.delete(tree, &key).expect("deleted");
    });
    against(15, "PRIMARY", "bytes, its columns make", |txn, tree| {
        let (key, mut row) = first_entry(txn, tree);
        row.push(0);
        txn.update(tree, &key, &row).expect("updated");
    });
}

const ALL_ROWS: &str = "SELECT 't', id, a, u, v FROM t UNION ALL SELECT 'b', id, LENGTH(body), 0, MD5(body) FROM big \
     UNION ALL SELECT 'h', 0, x, 0, y FROM hidden ORDER BY 1, 2, 3, 5";

#[test]
fn a_salvage_of_a_healthy_folder_has_every_row_and_no_other() {
    let disk = Disk::new(21);
    let mut random = 21;
    live(&disk, 21, |database| fill(&mut Client::new(database), 100)).done();
    let killed: Outcome<()> = live(&disk, 22, |database| {
        work(&mut Client::new(database), &mut random, 300);
        // A transaction that never ends.
        let mut client = Client::new(database);
        client.run("BEGIN");
        client.run("UPDATE t SET v = 'unfinished'");
        client.run("DELETE FROM hidden");
        database.engine().checkpoint().expect("checkpoint");
        sim::crash_now()
    });
    assert_eq!(killed, Outcome::Crashed);
    let tables = salvage(&disk);
    assert!(tables.iter().all(|(table, _)| table.lost.is_empty()), "{tables:?}");
    let expected = live(&disk, 23, |database| Client::new(database).run(ALL_ROWS)).done();
    assert!(expected.len() > 1000);
    assert_eq!(reload(&tables, ALL_ROWS), expected);
}

#[test]
fn rows_come_back_without_inner_pages_and_from_an_index_that_holds_all_columns() {
    let disk = Disk::new(31);
    let (rows, tree) = live(&disk, 31, |database| {
        let mut client = Client::new(database);
        client.run("CREATE DATABASE IF NOT EXISTS test");
        client.script("CREATE TABLE c (id INT PRIMARY KEY, a VARCHAR(100), KEY (a)) -> ok");
        for first in (0..2000).step_by(100) {
            let values: Vec<String> =
                (first..first + 100).map(|n| format!("({n}, REPEAT('{n}', 10))")).collect();
            client.run(&format!("INSERT INTO c VALUES {}", values.join(",")));
        }
        let table = database.catalog().table("test", "c").expect("the table").clone();
        (client.run("SELECT * FROM c ORDER BY id"), table.tree_id)
    })
    .done();
    let path = PathBuf::from(format!("/data/trees/{}", Folder::file_name(tree)));
    disk.damage(&path, PAGE as u64, &[0; PAGE]);
    let tables = salvage(&disk);
    assert_eq!((tables[0].0.rows, tables[0].0.lost.len()), (2000, 0), "without the root: {:?}", tables[0].0);
    let leaf = page_of_kind(&disk, &path, 1).expect("a leaf");
    disk.damage(Path::new("/data/doublewrite.kd"), 0, &[0; 128 * PAGE]);
    disk.damage(&path, (leaf * PAGE + 5000) as u64, &[0xaa; 100]);
    let tables = salvage(&disk);
    let found = &tables[0].0;
    assert!(found.rows < 2000 && found.rows + found.rows_of_index == 2000, "{found:?}");
    assert!(found.lost.len() == 1 && found.lost[0].contains("rows from"), "{found:?}");
    assert_eq!(reload(&tables, "SELECT * FROM c ORDER BY id"), rows);
}

/// The name of a branch.
fn pay() -> Xid {
    Xid { gtrid: ByteStr(b"pay"[..].into()), bqual: ByteStr(b"left"[..].into()), format: 1 }
}

#[test]
fn prepared_branches_are_named_and_their_changes_are_neither_rows_nor_damage() {
    let disk = Disk::new(41);
    let killed: Outcome<()> = live(&disk, 41, |database| {
        let mut client = Client::new(database);
        fill(&mut client, 40);
        let mut branch = Client::new(database);
        database.xa_start(&mut branch.session, &pay(), XaStart::New).expect("started");
        branch.run("UPDATE t SET v = 'prepared', u = u + 500 WHERE id < 20");
        branch.run("DELETE FROM hidden WHERE x = 1");
        branch.run("INSERT INTO big VALUES (1000, REPEAT('long', 20000))");
        database.xa_end(&mut branch.session, &pay(), false).expect("ended");
        database.xa_prepare(&mut branch.session, &pay()).expect("prepared");
        let mut open = Client::new(database);
        open.run("BEGIN");
        open.run("UPDATE t SET v = 'unfinished' WHERE id > 30");
        database.engine().checkpoint().expect("checkpoint");
        sim::crash_now()
    });
    assert_eq!(killed, Outcome::Crashed);
    let (findings, summary) = inspect(&disk);
    assert_eq!(damage_of(&findings), [""; 0]);
    assert_eq!(summary.rows, 40 + 40 + 2, "{summary:?}");
    let named = findings.iter().filter(|f| f.kind == "prepared").collect::<Vec<_>>();
    assert!(named.len() == 1 && named[0].text.contains("'pay','left',1"), "{findings:?}");
    let tables = salvage(&disk);
    assert!(tables.iter().all(|(_, sql)| sql.contains("1 prepared branches") && !sql.contains("'prepared'")));
    live(&disk, 42, |database| {
        database.xa_commit(&mut Client::new(database).session, &pay(), false).expect("committed");
    })
    .done();
    let (findings, summary) = inspect(&disk);
    assert_eq!((damage_of(&findings), summary.rows), (vec![], 40 + 32 + 3));
    assert!(findings.iter().all(|f| f.kind != "prepared"), "{findings:?}");
}

/// Where jumps between rows stand in the undo file: their pages, and where on the page each begins behind the other parts of its record.
/// Jumps of the index are left out: purge takes its entries ahead of the readers, and nobody follows what is behind those.
fn jumps_on(disk: &Disk) -> Vec<(usize, usize)> {
    let bytes = disk.read(Path::new("/data/trees/undo.kt")).expect("the file");
    let word = |page: usize, at: usize| {
        u16::from_le_bytes(bytes[page * PAGE + at..][..2].try_into().unwrap()) as usize
    };
    let mut found = Vec::new();
    for page in (2..bytes.len() / PAGE).filter(|page| bytes[page * PAGE + 20] == 4) {
        let (mut at, end) = (64 + 18, 64 + word(page, 28));
        while at < end {
            let len = word(page, at);
            if bytes[page * PAGE + at + 2] >> 6 != 0 {
                let tree = u32::from_le_bytes(bytes[page * PAGE + at + 15..][..4].try_into().unwrap());
                found.push((tree, page, at + len - 2 - word(page, at + len - 2)));
            }
            at += len;
        }
    }
    // The tree of the rows is made first.
    let rows = found.iter().map(|(tree, ..)| *tree).min();
    found.iter().filter(|(tree, ..)| Some(*tree) == rows).map(|(_, page, jump)| (*page, *jump)).collect()
}

#[test]
fn jumps_between_versions_are_followed_and_those_that_lead_elsewhere_are_found() {
    let disk = Disk::new(51);
    let killed: Outcome<()> = live(&disk, 51, |database| {
        let mut client = Client::new(database);
        client.run("CREATE DATABASE IF NOT EXISTS test");
        client.script("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(300), body MEDIUMTEXT, KEY (v)) -> ok");
        for id in 0..4 {
            client.run(&format!("INSERT INTO t VALUES ({id}, 'first', REPEAT('x', {}))", 9000 * id));
        }
        let mut readers = Vec::new();
        for round in 0..60 {
            if round % 20 == 0 {
                let mut reader = Client::new(database);
                reader.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
                reader.run("SELECT COUNT(*) FROM t");
                readers.push(reader);
                keel_runtime::fiber::sleep(std::time::Duration::from_secs(1));
            }
            client.run(&format!("UPDATE t SET v = 'round {round}' WHERE id <> {}", round % 7));
            if round % 5 == 0 {
                client.run("DELETE FROM t WHERE id = 3");
                client.run(&format!("INSERT INTO t VALUES (3, 'again', REPEAT('y', {}))", 200 * round));
            }
        }
        // One changes the same rows again and again and never ends.
        client.run("BEGIN");
        for round in 0..5 {
            client.run(&format!("UPDATE t SET v = 'unfinished {round}'"));
        }
        database.engine().checkpoint().expect("checkpoint");
        sim::crash_now()
    });
    assert_eq!(killed, Outcome::Crashed);
    let (findings, summary) = inspect(&disk);
    assert_eq!((damage_of(&findings), summary.rows), (vec![], 4));
    let jumps = jumps_on(&disk);
    assert!(jumps.len() > 50, "{} jumps", jumps.len());
    let path = PathBuf::from("/data/trees/undo.kt");
    type Lie<'a> = (&'a str, &'a dyn Fn(&mut [u8]));
    let lies: [Lie<'_>; 4] = [
        ("past somebody who never wrote the row", &|jump| jump[0] ^= 0x40),
        ("to a version of another transaction", &|jump| jump[7] ^= 0x40),
        ("to a record that there is not", &|jump| jump[17] ^= 0x01),
        ("to another row", &|jump| jump[23] ^= 0xff),
    ];
    for (page, jump) in jumps.iter().step_by(7) {
        for (what, lie) in lies {
            let before = forge(&disk, &path, *page, |page| lie(&mut page[*jump..]));
            let found = damage_of(&inspect(&disk).0);
            let named = |f: &String| f.contains("jump") || f.contains("undo record");
            assert!(found.iter().any(named), "{what}: page {page} at {jump}: {found:?}");
            disk.damage(&path, (page * PAGE) as u64, &before);
        }
    }
    assert_eq!(damage_of(&inspect(&disk).0), [""; 0]);
}

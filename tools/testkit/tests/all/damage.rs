//! Damage done to the files of a server that was killed: `keel check` names it, `keel salvage` reads all else.
//!
//! Each row has a mark of its own, which stands in the bytes of the page that holds it. So the file itself says which rows a
//! damaged page takes along; all others must come back from a salvage as they were.

use keel_testkit::Random;
use keel_testkit::client::Client;
use keel_testkit::process::{Engine, Server, keel_binary, scratch_dir};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const PAGE: usize = 16 << 10;
/// Places on a page (`crates/storage/src/layout.rs`).
const AT_KIND: usize = 20;
const MAP_AT: usize = PAGE / 2;
const KIND_OVERFLOW: u8 = 3;

/// Damages done; `KEEL_DAMAGE_ROUNDS=1000` is the long form.
fn rounds() -> u64 {
    std::env::var("KEEL_DAMAGE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(48)
}

/// Rows by their marks, as a salvage writes them.
type Rows = BTreeMap<String, String>;

/// What the inspections of a folder say.
struct Seen {
    code: Option<i32>,
    text: String,
    rows: Rows,
}

fn fill(client: &mut Client) {
    let mut run = |sql: &str| drop(client.run(sql).unwrap_or_else(|error| panic!("{error}: {sql}")));
    run("CREATE DATABASE d");
    run("USE d");
    run(
        "CREATE TABLE plain (id INT PRIMARY KEY AUTO_INCREMENT, n INT, mark VARCHAR(60), pad VARCHAR(400), KEY (n), UNIQUE KEY (mark))",
    );
    run("CREATE TABLE covered (id INT PRIMARY KEY, n INT, mark VARCHAR(60), KEY (n, mark))");
    run("CREATE TABLE hidden (n INT, mark VARCHAR(60), KEY (n))");
    run("CREATE TABLE lengthy (id INT PRIMARY KEY, n INT, body MEDIUMTEXT, KEY (n))");
    for first in (0..2400).step_by(200) {
        let rows =
            |form: &dyn Fn(u32) -> String| (first..first + 200).map(form).collect::<Vec<_>>().join(",");
        run(&format!(
            "INSERT INTO plain (n, mark, pad) VALUES {}",
            rows(&|n| format!("({}, '<p{n}>', REPEAT('{n} ', {}))", n % 97, n % 70))
        ));
        run(&format!("INSERT INTO covered VALUES {}", rows(&|n| format!("({n}, {}, '<c{n}>')", n % 31))));
        run(&format!("INSERT INTO hidden VALUES {}", rows(&|n| format!("({}, '<h{n}>')", n % 11))));
    }
    for n in 0..60 {
        run(&format!("INSERT INTO lengthy VALUES ({n}, {n}, REPEAT('<l{n}>', {}))", 500 + 200 * (n % 40)));
    }
}

/// Changes what indexes hold, so that no page of before goes with those of after.
fn change(client: &mut Client) {
    for sql in [
        "USE d",
        "UPDATE plain SET n = n + 1000",
        "UPDATE covered SET n = n + 1000",
        "UPDATE hidden SET n = n + 1000",
        "UPDATE lengthy SET n = n + 1000, body = CONCAT(body, ' changed')",
    ] {
        client.run(sql).expect(sql);
    }
}

/// Waits until no old version is kept any more, so that no page becomes free later.
fn purged(client: &mut Client) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut history =
        || client.run("SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'").expect("status").strings();
    while history()[0][1] != "0" {
        assert!(Instant::now() < deadline, "purge does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills the server with history, an unfinished transaction and a prepared branch.
fn kill_at_work(server: &mut Server) {
    let mut client = server.client_in("d").expect("connects");
    let mut reader = server.client_in("d").expect("connects");
    reader.run("START TRANSACTION WITH CONSISTENT SNAPSHOT").expect("a snapshot");
    let mut branch = server.client_in("d").expect("connects");
    for sql in [
        "XA START 'half'",
        "UPDATE plain SET n = n + 1 WHERE id BETWEEN 100 AND 140",
        "DELETE FROM lengthy WHERE id = 7",
        "XA END 'half'",
        "XA PREPARE 'half'",
    ] {
        branch.run(sql).expect(sql);
    }
    let mut open = server.client_in("d").expect("connects");
    open.run("BEGIN").expect("begun");
    open.run("UPDATE covered SET n = n + 1 WHERE id < 300").expect("updated");
    open.run("DELETE FROM lengthy WHERE id = 9").expect("deleted");
    for round in 0..5 {
        for sql in [
            format!("UPDATE plain SET pad = 'round {round}' WHERE id > 2000"),
            format!("UPDATE hidden SET n = n + 1 WHERE n = {}", 1003 + round),
            format!("DELETE FROM plain WHERE id BETWEEN {0} AND {0} + 9", 500 + 20 * round),
            format!("UPDATE lengthy SET n = n + 1, body = REPEAT('<l{0}>', 900) WHERE id = {0}", 20 + round),
        ] {
            client.run(&sql).expect(&sql);
        }
    }
    server.kill();
}

fn keel(words: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(keel_binary()).args(words).output().expect("keel runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

/// The mark in a line of SQL.
fn mark_of(line: &str) -> Option<String> {
    let start = line.find("'<")? + 1;
    let end = start + line[start..].find('>')? + 1;
    Some(line[start..end].to_string())
}

fn inspect(data: &Path, out: &Path) -> Seen {
    fs::remove_dir_all(out).ok();
    let (code, text) = keel(&["check", "--silent", &data.display().to_string()]);
    let (salvaged, said) = keel(&["salvage", &data.display().to_string(), &out.display().to_string()]);
    assert!(matches!(salvaged, Some(0 | 1)) && !said.contains("panicked"), "salvage: {salvaged:?}\n{said}");
    let mut rows = Rows::new();
    for sql in dumps(out) {
        let text = String::from_utf8(fs::read(&sql).expect("a file of SQL")).expect("UTF-8");
        let lines = text.lines().filter(|line| line.starts_with('('));
        for line in lines {
            let mark = mark_of(line).unwrap_or_else(|| panic!("a row without a mark: {line:.200}"));
            let row = line.trim_end_matches([',', ';']).to_string();
            let before = rows.insert(mark, row.clone());
            assert!(
                before.as_ref().is_none_or(|before| *before == row),
                "two rows: {before:?} and {row:.200}"
            );
        }
    }
    Seen { code, text, rows }
}

fn dumps(out: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.path());
    // Whoever loads the data need not be allowed to make its accounts.
    let is_data = |path: &PathBuf| {
        path.extension().is_some_and(|e| e == "sql") && path.file_name().is_some_and(|n| n != "accounts.sql")
    };
    let mut files: Vec<PathBuf> = entries.filter(is_data).collect();
    files.sort();
    files
}

/// A file of the folder with its bytes.
struct Victim {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Victim {
    fn name(&self) -> String {
        self.path.file_name().expect("a name").to_string_lossy().into_owned()
    }

    fn pages(&self) -> usize {
        self.bytes.len() / PAGE
    }

    fn page(&self, page: usize) -> &[u8] {
        &self.bytes[page * PAGE..][..PAGE]
    }

    /// Whether the file's map says that the page is in use.
    fn is_used(&self, page: usize) -> bool {
        self.bytes[MAP_AT + page / 8] & 1 << (page % 8) != 0
    }

    /// Marks of rows that stand on the page, or did.
    fn marks(&self, page: usize) -> BTreeSet<String> {
        let text = String::from_utf8_lossy(self.page(page)).into_owned();
        let starts = text.match_indices('<').map(|(at, _)| &text[at..]);
        starts.filter_map(|rest| Some(rest[..=rest.find('>')?].to_string())).collect()
    }
}

fn trees(data: &Path) -> Vec<Victim> {
    let entries = fs::read_dir(data.join("trees")).expect("the folder").flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().map(|path| Victim { bytes: fs::read(&path).expect("a file"), path }).collect()
}

/// What was done to a file.
struct Damage {
    what: String,
    /// Pages that are not what they were.
    pages: BTreeSet<usize>,
    bytes: Vec<u8>,
}

/// Damages a file at random; `old` is what the file was some time ago.
fn damage(victim: &Victim, old: Option<&Victim>, random: &mut Random) -> Damage {
    let mut bytes = victim.bytes.clone();
    let mut page = random.below(victim.pages() as u64) as usize;
    // Of pages in no use there is little to say.
    for _ in 0..4 {
        if !victim.is_used(page) {
            page = random.below(victim.pages() as u64) as usize;
        }
    }
    let other = random.below(victim.pages() as u64) as usize;
    let mut pages = BTreeSet::from([page]);
    let here = page * PAGE..(page + 1) * PAGE;
    let what = match random.below(7) {
        0 => {
            let at = here.start + random.below(PAGE as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
            format!("a bit at {at}")
        }
        1 => {
            bytes[here].fill(0);
            "zeros".into()
        }
        2 => {
            let from = random.below(PAGE as u64 - 1) as usize;
            let len = 1 + random.below((PAGE - from) as u64) as usize;
            let part = &mut bytes[here.start + from..][..len];
            part.iter_mut().for_each(|byte| *byte = random.next_u64() as u8);
            format!("{len} bytes of noise from {from} on")
        }
        3 => {
            bytes[here].copy_from_slice(victim.page(other));
            format!("a copy of page {other}")
        }
        4 => {
            bytes[here].copy_from_slice(victim.page(other));
            bytes[other * PAGE..][..PAGE].copy_from_slice(victim.page(page));
            pages.insert(other);
            format!("swapped with page {other}")
        }
        5 => {
            let len = here.start + random.below(PAGE as u64) as usize;
            bytes.truncate(len);
            pages.extend(page..victim.pages());
            format!("cut at {len}")
        }
        _ => match old.filter(|old| page < old.pages()) {
            Some(old) => {
                bytes[here].copy_from_slice(old.page(page));
                "as it was some time ago".into()
            }
            None => {
                bytes[here.start + PAGE / 2..here.end].fill(0xa5);
                "its second half".into()
            }
        },
    };
    pages.retain(|page| bytes.get(page * PAGE..(page + 1) * PAGE) != Some(victim.page(*page)));
    Damage { what: format!("{} page {page}: {what}", victim.name()), pages, bytes }
}

#[test]
fn damage_anywhere_is_named_and_everything_else_is_salvaged() {
    let seed = std::env::var("KEEL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20261123);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let options = ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=64M"];
    let mut server = Server::start(Engine::Keel, &options).expect("keel starts");
    fill(&mut server.client().expect("connects"));
    assert!(server.stop().expect("stops").success());
    let data = server.dir.join("data");
    let old = trees(&data);
    server.launch().expect("starts");
    change(&mut server.client().expect("connects"));
    purged(&mut server.client().expect("connects"));
    assert!(server.stop().expect("stops").success());
    server.launch().expect("starts");
    kill_at_work(&mut server);
    let out = scratch_dir("salvage");
    let healthy = inspect(&data, &out);
    assert_eq!(healthy.code, Some(0), "before any damage: {}", healthy.text);
    let mut loader = Server::start(Engine::Keel, &options).expect("keel starts");
    let reload = |loader: &Server, rows: &Rows| load(&mut loader.client().expect("connects"), &out, rows);
    reload(&loader, &healthy.rows);
    let victims = trees(&data);
    grown_ahead(&data, victims.last().expect("files"));
    let (mut named, mut harmless) = (0, 0);
    for round in 0..rounds() {
        let victim = &victims[random.below(victims.len() as u64) as usize];
        let before = old.iter().find(|old| old.path == victim.path);
        let damage = damage(victim, before, &mut random);
        let told = |what: &str, seen: &Seen| {
            panic!(
                "seed {seed}, round {round}, {}: {what}\n{}\ndata in {}",
                damage.what,
                seen.text,
                data.display()
            )
        };
        if damage.pages.is_empty() {
            continue;
        }
        fs::write(&victim.path, &damage.bytes).expect("damaged");
        let seen = inspect(&data, &out);
        if seen.text.contains("panicked") || !matches!(seen.code, Some(0 | 1)) {
            told("the check did not end well", &seen);
        }
        match seen.code {
            Some(0) => {
                harmless += 1;
                if seen.rows != healthy.rows {
                    told("rows are lost, and nothing is said to be wrong", &seen);
                }
                let mended = seen.text.contains("torn") || damage.what.ends_with("time ago");
                if damage.pages.iter().any(|page| victim.is_used(*page)) && !mended {
                    told("pages in use are harmed, and nothing is said to be wrong", &seen);
                }
            }
            _ => {
                named += 1;
                if !seen.text.contains(&victim.name()) && !damage.what.ends_with("time ago") {
                    told("another file is named", &seen);
                }
            }
        }
        compare(victim, &damage, &healthy, &seen).unwrap_or_else(|what| told(&what, &seen));
        if round % 8 == 0 {
            reload(&loader, &seen.rows);
        }
        fs::write(&victim.path, &victim.bytes).expect("mended");
    }
    println!("{named} damages named, {harmless} of bytes that nothing uses");
    assert!(named > harmless / 2, "{named} damages were named, {harmless} were harmless");
    let again = inspect(&data, &out);
    assert!(again.code == Some(0) && again.rows == healthy.rows, "mended again: {}", again.text);
    server.launch().expect("the check has written nothing");
    assert!(server.stop().expect("stops").success());
    assert!(loader.stop().expect("stops").success());
    fs::remove_dir_all(&out).ok();
}

/// A file that has grown over a map page that it does not need yet is as good as before.
fn grown_ahead(data: &Path, victim: &Victim) {
    const GROUP_PAGES: u64 = 65_536;
    let file = fs::OpenOptions::new().write(true).open(&victim.path).expect("a file");
    file.set_len((GROUP_PAGES + 100) * PAGE as u64).expect("grown");
    let (code, text) = keel(&["check", "--silent", &data.display().to_string()]);
    assert_eq!(code, Some(0), "{}: {text}", victim.name());
    file.set_len(victim.bytes.len() as u64).expect("as before");
}

/// What the next test salvages: a child with a name before its parent's, a row that fails a CHECK made later, a database
/// without tables, accounts with a role.
const OF_ALL_KINDS: [&str; 19] = [
    "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci COMMENT 'it''s'",
    "CREATE DATABASE empty CHARACTER SET latin2",
    "USE d",
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id))",
    "INSERT INTO parent VALUES (1), (2)",
    "INSERT INTO child VALUES (1, 2), (2, NULL)",
    "CREATE TABLE checked (id INT PRIMARY KEY, CHECK (id > 0))",
    "SET check_constraint_checks = 0",
    "INSERT INTO checked VALUES (-1), (1)",
    "CREATE VIEW a AS SELECT id FROM child",
    "CREATE ROLE r",
    "CREATE USER u@localhost IDENTIFIED BY 'secret' WITH MAX_QUERIES_PER_HOUR 70",
    "CREATE USER only_passes_on@localhost",
    "GRANT r TO u@localhost",
    "GRANT SELECT ON d.* TO r",
    "GRANT INSERT ON d.child TO u@localhost WITH GRANT OPTION",
    "GRANT USAGE ON *.* TO only_passes_on@localhost WITH GRANT OPTION",
    "SET DEFAULT ROLE r FOR u@localhost",
];

/// What must be as it was.
const ASKED: [&str; 9] = [
    "SHOW CREATE DATABASE d",
    "SHOW CREATE DATABASE empty",
    "SELECT * FROM d.child ORDER BY id",
    "SELECT * FROM d.checked ORDER BY id",
    "SELECT * FROM d.a ORDER BY id",
    "SHOW CREATE USER u@localhost",
    "SHOW GRANTS FOR u@localhost",
    "SHOW GRANTS FOR only_passes_on@localhost",
    "SHOW GRANTS FOR r",
];

#[test]
fn a_salvage_loads_in_the_order_of_its_files_by_an_account_that_is_in_it() {
    let mut server = Server::start(Engine::Keel, &[]).expect("keel starts");
    let mut client = server.client().expect("connects");
    for sql in OF_ALL_KINDS {
        client.run(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    }
    let answers = |client: &mut Client| ASKED.map(|sql| client.run(sql).expect(sql).strings());
    let before = answers(&mut client);
    drop(client);
    assert!(server.stop().expect("stops").success());
    let (data, out) = (server.dir.join("data"), scratch_dir("salvage"));
    let (code, said) = keel(&["salvage", &data.display().to_string(), &out.display().to_string()]);
    assert_eq!(code, Some(0), "{said}");
    for engine in [Engine::Keel, Engine::MariaDb] {
        let mut loader = Server::start(engine, &[]).expect("starts");
        let mut client = loader.client().expect("connects");
        let accounts = out.join("accounts.sql");
        for file in dumps(&out).into_iter().chain([accounts]) {
            let sql = fs::read_to_string(&file).expect("a file of SQL");
            for statement in sql.split(";\n").filter(|text| !text.trim().is_empty()) {
                let done = client.run(statement);
                done.unwrap_or_else(|error| panic!("{}: {error}: {statement}", engine.name()));
            }
        }
        client.run("CREATE DATABASE later").expect("who has loaded it may do what he could");
        assert_eq!(answers(&mut client), before, "{}", engine.name());
        drop(client);
        assert!(loader.stop().expect("stops").success());
    }
    fs::remove_dir_all(&out).ok();
}

/// Rows are lost only with pages that were harmed, and none are invented.
fn compare(victim: &Victim, damage: &Damage, healthy: &Seen, seen: &Seen) -> Result<(), String> {
    let is_old = damage.what.ends_with("time ago");
    // Without the names of tables nothing can be read.
    if ["t1.kt", "t2.kt"].contains(&victim.name().as_str()) {
        return Ok(());
    }
    // Without the undo log what was not committed may be there, as a change or because it deletes; nothing else is lost.
    if victim.name() == "undo.kt" {
        let is_lost = |mark: &&String| {
            !seen.rows.contains_key(*mark) && !is_old && !["<l7>", "<l9>"].contains(&mark.as_str())
        };
        let lost = healthy.rows.keys().find(is_lost);
        return lost
            .map_or(Ok(()), |mark| Err(format!("{mark} is not salvaged, though only undo is harmed")));
    }
    for (mark, row) in &seen.rows {
        match healthy.rows.get(mark) {
            Some(before) if before == row || is_old => {}
            None if is_old => {}
            before => return Err(format!("a row that was not there: {row:.200}, before {before:.200?}")),
        }
    }
    let lost: BTreeSet<String> = damage.pages.iter().flat_map(|page| victim.marks(*page)).collect();
    let kinds = damage.pages.iter().map(|page| victim.page(*page)[AT_KIND]);
    // A long row stands in pages of its own, its leaf has the key alone.
    let leaves = kinds.filter(|kind| *kind != KIND_OVERFLOW).count();
    let may_be_lost = |mark: &str| lost.contains(mark) || (mark.starts_with("<l") && leaves > 0);
    match healthy.rows.keys().find(|mark| !seen.rows.contains_key(*mark) && !may_be_lost(mark)) {
        Some(mark) => Err(format!("{mark} is not on a harmed page and not salvaged")),
        None => Ok(()),
    }
}

/// The SQL loads, and gives these rows.
fn load(client: &mut Client, out: &Path, rows: &Rows) {
    client.run("DROP DATABASE IF EXISTS d").expect("dropped");
    for file in dumps(out) {
        let sql = String::from_utf8(fs::read(&file).expect("a file of SQL")).expect("UTF-8");
        for statement in sql.split(";\n").filter(|text| !text.trim().is_empty()) {
            client
                .run(statement)
                .unwrap_or_else(|error| panic!("{}: {error}: {statement:.200}", file.display()));
        }
    }
    for (table, letter, column) in
        [("plain", 'p', "mark"), ("covered", 'c', "mark"), ("hidden", 'h', "mark"), ("lengthy", 'l', "body")]
    {
        let begin = format!("<{letter}");
        let expected = rows.keys().filter(|mark| mark.starts_with(&begin)).count();
        let Ok(reply) =
            client.run(&format!("SELECT COUNT(DISTINCT SUBSTRING_INDEX({column}, '>', 1)) FROM d.{table}"))
        else {
            assert_eq!(expected, 0, "{table} is not there");
            continue;
        };
        assert_eq!(reply.scalar(), Some(expected.to_string()), "rows of {table}");
    }
}

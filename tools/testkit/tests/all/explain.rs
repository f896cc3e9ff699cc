//! EXPLAIN FORMAT=JSON has the members that MariaDB's has, for queries that both read alike; ANALYZE counts what was read.

use keel_testkit::client::{Client, Reply};
use keel_testkit::process::{Engine, Server};
use std::collections::BTreeSet;

const TABLES: &[&str] = &[
    "CREATE DATABASE plans",
    "USE plans",
    "CREATE TABLE a (id INT PRIMARY KEY, b INT, c VARCHAR(10), KEY (b))",
    "CREATE TABLE d (id INT PRIMARY KEY, a_id INT, v INT)",
    "INSERT INTO a SELECT seq, seq % 10, 'x' FROM (WITH RECURSIVE r AS (SELECT 1 seq UNION ALL SELECT seq + 1 FROM r \
     WHERE seq < 200) SELECT * FROM r) s",
    "INSERT INTO d SELECT id, id % 50, id % 7 FROM a",
    "ANALYZE TABLE a, d",
];

/// Statements whose plans have the same members on both servers.
const ALIKE: &[&str] = &[
    "SELECT * FROM a WHERE id = 1",
    "SELECT * FROM a WHERE c = 'x'",
    "SELECT * FROM a ORDER BY c",
    "SELECT DISTINCT v FROM d",
    "SELECT v, COUNT(*) FROM d GROUP BY v",
    "SELECT v, COUNT(*) n FROM d GROUP BY v HAVING n > 1 ORDER BY n",
    "SELECT 1",
    "SELECT MAX(id) FROM a",
    "SELECT id FROM a UNION SELECT v FROM d",
    "SELECT c FROM a UNION ALL SELECT v FROM d",
    "SELECT c FROM a EXCEPT SELECT v FROM d",
    "SELECT * FROM (SELECT v, COUNT(*) n FROM d GROUP BY v) x",
    "SELECT c, (SELECT MAX(v) FROM d) FROM a",
    "SELECT c FROM a WHERE c = (SELECT MAX(v) FROM d)",
    "SELECT *, ROW_NUMBER() OVER (ORDER BY c) FROM a",
    "SELECT * FROM d JOIN a ON a.id = d.a_id WHERE d.v > 5 ORDER BY a.c",
    "SELECT * FROM d, JSON_TABLE(d.v, '$' COLUMNS (x INT PATH '$')) j WHERE x > 1",
    "INSERT INTO a VALUES (5, 5, 'r')",
    "REPLACE INTO a VALUES (5, 5, 'r')",
    "INSERT INTO d SELECT id + 1000, 1, 1 FROM a WHERE c = 'y'",
    "DELETE FROM a WHERE id BETWEEN 1 AND 2",
    "UPDATE d JOIN a ON a.id = d.a_id SET d.v = 1 WHERE d.v > 5",
    "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
];

/// Statements whose subqueries name what belongs to the queries around them.
const CORRELATED: &[&str] = &[
    "SELECT * FROM a WHERE b IN (SELECT v FROM d WHERE d.a_id = a.id)",
    "SELECT (SELECT MAX(v) FROM d WHERE d.a_id = a.id AND d.v = a.b) FROM a",
    "SELECT (SELECT MAX(x.v) FROM d x WHERE x.id = y.b AND x.v = (SELECT MAX(b) FROM a WHERE a.id = x.id AND a.b = y.b)) \
     FROM a y",
    "SELECT * FROM a WHERE EXISTS (SELECT 1 FROM d WHERE d.a_id = a.id)",
    "SELECT id k, (SELECT MAX(v) FROM d WHERE d.id = k) FROM a",
    "SELECT * FROM a, (SELECT * FROM d WHERE EXISTS (SELECT 1 FROM a i WHERE i.id = d.a_id)) x",
    "SELECT id FROM a ORDER BY (SELECT MAX(v) FROM d WHERE d.a_id = a.id)",
    "SELECT SUM(id), (SELECT SUM(a.b) FROM d) FROM a",
    "SELECT id FROM a WHERE b > ALL (SELECT v FROM d WHERE d.a_id = a.id)",
    "SELECT 1 FROM a WHERE (SELECT 1 FROM d WHERE v = a.b LIMIT 1) UNION SELECT 2 FROM d WHERE (SELECT 1 FROM a WHERE b = d.v LIMIT 1)",
    "DELETE FROM a WHERE id = (SELECT MAX(v) FROM d WHERE d.a_id = a.b)",
    "SELECT 1",
];

/// Members that tell of MariaDB's own ways, or of what it knows of conditions beforehand.
const THEIRS: &[&str] =
    &["attached_condition", "index_condition", "const_condition", "using_index", "r_other_time_ms"];

fn text(client: &mut Client, sql: &str) -> String {
    let replies = client.query(sql).expect("answers");
    match replies.first() {
        Some(Reply::Rows { rows, .. }) => rows
            .iter()
            .map(|row| {
                let cells = row.iter().map(|cell| match cell {
                    Some(octets) => String::from_utf8_lossy(octets).into_owned(),
                    None => "NULL".into(),
                });
                cells.collect::<Vec<_>>().join("|")
            })
            .collect::<Vec<_>>()
            .join("\n"),
        other => panic!("{sql}: {other:?}"),
    }
}

/// The ways to all members of a JSON text, elements of lists not told apart.
fn members(json: &str) -> BTreeSet<String> {
    let (mut found, mut way, mut chars) = (BTreeSet::new(), Vec::<String>::new(), json.chars().peekable());
    let mut last = String::new();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                last.clear();
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    if c == '\\' {
                        chars.next();
                    }
                    last.push(c);
                }
                if chars.peek() == Some(&':') {
                    found.insert(format!("{}.{last}", way.join(".")));
                }
            }
            '{' | '[' => way.push(std::mem::take(&mut last)),
            '}' | ']' => drop(way.pop()),
            ',' => last.clear(),
            _ => {}
        }
    }
    found.retain(|way| !THEIRS.iter().any(|theirs| way.ends_with(theirs)));
    found
}

fn prepared(engine: Engine) -> (Server, Client) {
    let server = Server::start(engine, &[]).expect("starts");
    let mut client = server.client().expect("accepts");
    TABLES.iter().for_each(|sql| drop(client.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))));
    (server, client)
}

#[test]
fn plans_have_the_members_that_mariadb_writes() {
    let (_keel, mut ours) = prepared(Engine::Keel);
    let (_maria, mut theirs) = prepared(Engine::MariaDb);
    let mut different = Vec::new();
    for sql in ALIKE {
        let explain = format!("EXPLAIN FORMAT=JSON {sql}");
        let (a, b) = (text(&mut ours, &explain), text(&mut theirs, &explain));
        if members(&a) != members(&b) {
            different.push(format!("{sql}\nkeel: {a}\nmariadb: {b}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}

#[test]
fn explain_extended_notes_names_of_outer_queries() {
    let (_ours, mut ours) = prepared(Engine::Keel);
    let (_theirs, mut theirs) = prepared(Engine::MariaDb);
    let notes = |client: &mut Client, sql: &str| {
        text(client, &format!("EXPLAIN EXTENDED {sql}"));
        let shown = text(client, "SHOW WARNINGS");
        let kept: Vec<String> =
            shown.lines().filter(|line| !line.starts_with("Note|1003")).map(String::from).collect();
        kept
    };
    for sql in CORRELATED {
        assert_eq!(notes(&mut ours, sql), notes(&mut theirs, sql), "{sql}");
    }
}

#[test]
fn analyze_counts_what_was_read() {
    let (_keel, mut client) = prepared(Engine::Keel);
    // r_rows, r_filtered of each line.
    let mut counted = |sql: &str| -> Vec<(String, String)> {
        let lines = text(&mut client, &format!("ANALYZE {sql}"));
        let cell = |line: &str, place: usize| line.split('|').nth(place).unwrap_or("").to_string();
        lines.lines().map(|line| (cell(line, 9), cell(line, 11))).collect()
    };
    let pair = |rows: &str, share: &str| (rows.to_string(), share.to_string());
    assert_eq!(counted("SELECT * FROM a WHERE c = 'x'"), [pair("200.00", "100.00")]);
    assert_eq!(counted("SELECT * FROM a IGNORE INDEX (b) WHERE b = 3"), [pair("200.00", "10.00")]);
    assert_eq!(counted("SELECT * FROM a WHERE b = 3"), [pair("20.00", "100.00")]);
    assert_eq!(counted("SELECT * FROM a WHERE id = 1000"), [pair("0.00", "100.00")]);
    assert_eq!(counted("SELECT * FROM a LIMIT 7"), [pair("7.00", "100.00")]);
    // 28 rows of d have v = 6; the rows of a that have a_id are found by key, 0 is not there.
    let joined = counted("SELECT STRAIGHT_JOIN * FROM d JOIN a ON a.id = d.a_id WHERE d.v = 6");
    assert_eq!(joined, [pair("200.00", "14.00"), pair("1.00", "100.00")]);
    assert_eq!(counted("SELECT id FROM a UNION SELECT v FROM d").len(), 3);
    assert_eq!(counted("UPDATE d SET v = 100 WHERE v = 6"), [pair("200.00", "14.00")]);
    assert_eq!(counted("DELETE FROM d WHERE v = 100 AND id > 100"), [pair("100.00", "14.00")]);
    assert_eq!(text(&mut client, "SELECT COUNT(*) FROM d WHERE v = 100"), "14");
    assert_eq!(text(&mut client, "SELECT COUNT(*) FROM d"), "186");
    let json = text(&mut client, "ANALYZE FORMAT=JSON SELECT * FROM a WHERE b < 5 ORDER BY c");
    for member in
        ["\"r_rows\": ", "\"r_loops\": 1", "\"r_filtered\": ", "\"r_total_time_ms\": ", "query_optimization"]
    {
        assert!(json.contains(member), "{member} in {json}");
    }
}

#[test]
fn analyze_runs_again_from_nothing() {
    let (_keel, mut client) = prepared(Engine::Keel);
    client.run("PREPARE s FROM 'ANALYZE SELECT * FROM a WHERE id <= ?'").expect("prepares");
    for rows in [3, 150, 3] {
        let told = text(&mut client, &format!("EXECUTE s USING {rows}"));
        assert_eq!(told.split('|').nth(9), Some(format!("{rows}.00").as_str()), "{told}");
    }
}

//! Queries answer as MariaDB 10.11 did: `data/queries.txt` holds statements over three small tables and its rows, most of
//! them made at random (joins of all kinds, conditions, groups, subqueries, set operations).

use crate::common::{Client, world};

/// A statement and the lines of its answer.
fn blocks(text: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    text.split("\n\n").filter_map(|block| {
        let mut lines = block.lines().filter(|l| !l.starts_with('#') && !l.starts_with('>'));
        let sql = lines.next().filter(|l| !l.is_empty())?;
        Some((sql, lines.collect()))
    })
}

fn answer(client: &mut Client, sql: &str) -> Vec<String> {
    match client.try_run(sql) {
        Ok(text) if text.is_empty() => Vec::new(),
        Ok(text) => {
            let mut rows: Vec<String> = text.split("; ").map(String::from).collect();
            if !sql.contains(" order by ") {
                rows.sort();
            }
            rows
        }
        Err(error) => vec![format!("! {} {}", error.code, error.message)],
    }
}

#[test]
fn queries_answer_as_mariadb_does() {
    let golden = include_str!("../data/queries.txt");
    let wrong = world(|database| {
        let mut client = Client::new(database);
        client.run("create database test");
        for sql in golden.lines().filter_map(|l| l.strip_prefix("> ")) {
            client.try_run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let mut wrong = Vec::new();
        assert!(blocks(golden).count() > 350, "the golden file was read");
        for (sql, expected) in blocks(golden) {
            let given = answer(&mut client, sql);
            if given != expected {
                wrong.push(format!("{sql}\n   MariaDB {expected:?}\n   Keel    {given:?}"));
            }
        }
        wrong
    });
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

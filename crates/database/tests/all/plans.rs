//! Plans: `data/plans.txt` holds tables, statements and what EXPLAIN says of them: which index, how much of it, in which order.
//!
//! `KEEL_UPDATE_GOLDENS=1` writes the plans anew; review the difference as code.

use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{Client, world};

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/plans.txt")
}

/// `rows` of the table, whatever the statement: the estimate is storage's, and its tests' business.
const ROWS_COLUMN: usize = 8;

fn plan(client: &mut Client, sql: &str) -> String {
    let text = client.run(&format!("explain {sql}"));
    let line = |row: &str| {
        let cells = row.split('|').enumerate().filter(|(column, _)| *column != ROWS_COLUMN);
        cells.map(|(_, cell)| cell).collect::<Vec<_>>().join("|") + "\n"
    };
    // Rows are told apart by `; ` as well as the notes of the last column.
    let notes = ["Using", "FirstMatch", "LooseScan", "Not exists"];
    let text = notes.iter().fold(text, |text, note| text.replace(&format!("; {note}"), &format!(", {note}")));
    text.split("; ").map(line).collect()
}

#[test]
fn plans_are_those_of_the_golden_file() {
    let golden = std::fs::read_to_string(path()).expect("the golden file");
    let given = world(|database| {
        let mut client = Client::new(database);
        client.run("create database test");
        let mut out = String::new();
        for line in golden.lines().filter(|line| line.starts_with(['#', '>', '?'])) {
            out += &format!("{line}\n");
            if let Some(sql) = line.strip_prefix("> ") {
                client.try_run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            } else if let Some(sql) = line.strip_prefix("? ") {
                out += &plan(&mut client, sql);
            }
        }
        out
    });
    if std::env::var_os("KEEL_UPDATE_GOLDENS").is_some() {
        std::fs::write(path(), given).expect("written");
        return;
    }
    assert!(golden.matches("\n? ").count() > 30, "the golden file was read");
    assert!(given == golden, "plans changed; now:\n{given}");
}

#[test]
fn plans_of_prepared_statements_are_counted_once() {
    world(|database| {
        let mut client = Client::new(database);
        client.run("create database test");
        client.run("create table t (a int primary key)");
        let text = b"select a from t where a = ?";
        let options = keel_sql::ParseOptions { prepare: true, ..Default::default() };
        let parsed = keel_sql::parse(text, &options).expect("it parses");
        let plan = database.prepare(&mut client.session, Arc::new(parsed.statement), 1).expect("it binds");
        let (plans, taken) = (database.plan_bytes(), database.host().work_memory().taken());
        database.charge_prepared(text, &plan, &client.session.host).expect("there is memory");
        database.share_prepared(&client.session, text, &plan);
        assert!(database.host().work_memory().taken() > taken);
        assert_eq!(database.plan_bytes(), plans);
    });
}

//! Expressions and views that nest deeply: whatever the answer is, the server goes on.

use keel_testkit::process::{Engine, Server};

/// `open` and `close` so many times around `middle`.
fn around(open: &str, middle: &str, close: &str, times: usize) -> String {
    format!("{}{middle}{}", open.repeat(times), close.repeat(times))
}

#[test]
fn no_nesting_overflows_the_stack() {
    let server = Server::start(Engine::Keel, &[]).expect("starts");
    let mut client = server.client().expect("connects");
    for statement in [
        "CREATE DATABASE n",
        "USE n",
        "SET sql_mode = ''",
        "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(10))",
    ] {
        client.query(statement).expect(statement);
    }
    client.query("INSERT INTO t VALUES (1, 'x'), (2, 'y')").expect("rows");
    for times in [60, 100, 126, 400] {
        let forms = [
            around("", "a", "+1", times),
            around("", "a", " AND a", times),
            around("", "a", " OR a=3", times),
            around("", "a", "=a", times),
            around("", "a", "|1", times),
            around("", "b", " + INTERVAL 1 DAY", times),
            around("", "b", " COLLATE utf8mb4_bin", times),
            around("(", "a", "+1+1+1+1)", times / 4),
            around("(", "a", &format!("{})", "+1".repeat(100)), times),
            around("ABS(", "a", &format!("{})", "=1".repeat(100)), times),
            around("(", "a", ")", times),
            around("- ", "a", "", times),
            around("NOT ", "a", "", times),
            around("ABS(", "a", ")", times / 2),
            around("CONCAT(", "b", ",'x')", times / 2),
            around("CASE WHEN a THEN ", "1", " END", times / 2),
            around("CAST(", "a", " AS CHAR)", times / 2),
            around("(SELECT ", "a", ")", times / 4),
            around("EXISTS(SELECT 1 FROM t WHERE a=", "a", ")", times / 6),
        ];
        for form in &forms {
            for statement in [
                format!("SELECT {form} FROM t"),
                format!("SELECT COUNT(*) FROM t WHERE {form}"),
                format!("UPDATE t SET b={form}"),
                format!("SELECT {form} FROM t GROUP BY 1 ORDER BY 1"),
                format!("SELECT DISTINCT MAX({form}) OVER (ORDER BY a) FROM t"),
            ] {
                client
                    .query(&statement)
                    .unwrap_or_else(|e| panic!("{e} after {statement}\n{}", server.log_tail()));
            }
        }
    }
    // Each view has what one text may have, and stands on the one before.
    for (name, form, depth) in [
        ("p", around("", "a", "+1", 60), 16),
        ("m", "MAX(a)+1".into(), 16),
        ("s", around("", "a", "+a", 60), 9),
    ] {
        for level in 1..=depth {
            let below = if level == 1 { "t".to_string() } else { format!("{name}{}", level - 1) };
            client
                .query(&format!("CREATE VIEW {name}{level} AS SELECT {form} a FROM {below}"))
                .expect("an answer");
            client.query(&format!("SELECT * FROM {name}{level}")).expect("an answer");
            client.query(&format!("DESCRIBE {name}{level}")).expect("an answer");
        }
    }
    client.query("CREATE VIEW j1 AS SELECT x.a FROM t x JOIN t y").expect("an answer");
    for level in 2..=12 {
        let below = level - 1;
        client
            .query(&format!("CREATE VIEW j{level} AS SELECT x.a FROM j{below} x JOIN j{below} y"))
            .expect("an answer");
        client.query(&format!("EXPLAIN SELECT COUNT(*) FROM j{level}")).expect("an answer");
    }
}

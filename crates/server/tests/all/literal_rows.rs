//! INSERT of plain literals in a long text comes to the same as in a short one, which takes the ordinary way.

use crate::common::start;
use keel_wire::client::{ClientError, Connection, Reply};

/// Blanks that make a text long.
const BLANKS: usize = 5000;

/// What a statement answers: affected rows, insert id, message and warnings, or the error.
fn answer(client: &mut Connection<std::net::TcpStream>, sql: &str) -> String {
    let answer = match client.query(sql) {
        Ok(Reply::Ok(ok)) => {
            format!("{} {} {}", ok.affected_rows, ok.last_insert_id, ok.info)
        }
        Ok(Reply::Rows(_)) => panic!("rows from an INSERT"),
        Err(ClientError::Server(error)) => format!("{} {}", error.code, error.message),
        Err(other) => panic!("{other:?}"),
    };
    format!("{answer} {:?}", client.rows("SHOW WARNINGS").unwrap())
}

#[test]
fn long_lists_insert_what_short_ones_do() {
    let running = start();
    let mut client = running.client();
    let columns = "id INT AUTO_INCREMENT PRIMARY KEY, i TINYINT, u BIGINT UNSIGNED, n INT NOT NULL DEFAULT 7, \
        d DECIMAL(6,2), f DOUBLE, c CHAR(5), v VARCHAR(5) CHARACTER SET latin1, b VARBINARY(4), e ENUM('a','b'), \
        t DATE, s TIME, UNIQUE KEY (u)";
    client.query("USE test").unwrap();
    for table in ["w0", "w1"] {
        client.query(&format!("CREATE TABLE {table} ({columns})")).unwrap();
    }
    let heads = [
        "INSERT INTO @ (id, i, u, d) VALUES",
        "INSERT IGNORE INTO @ (id, i, u, n) VALUES",
        "REPLACE INTO @ (u, i, d, f) VALUES",
        "INSERT INTO @ (i, c, v, b) VALUES",
        "INSERT INTO @ (i, t, s, e) VALUES",
        "INSERT INTO @ (i, u) VALUES",
        "INSERT INTO @ VALUES",
    ];
    let lists = [
        "(NULL,1,2,3)",
        "(0,-5,18446744073709551615,-1.255),(NULL,5,17,1e2)",
        "(NULL,300,-1,99999.9)",
        "('12','x',4,' 7 '),(14,'6',NULL,NULL)",
        "(1,'it''s','b\\\\c\\n',\"q\"),(2,'\u{e4}\u{1f600}','\u{e4}','toolong')",
        "(1,'2024-02-30','25:00:00','b'),(2,20240229,'x',3)",
        "(1,2),(1,2),(3,4)",
        "(1,2,3,NULL),(5,6,7,'')",
        "(-0.0,1,0.5,-1e-3)",
        "(18446744073709551616,1,99999999999999999999.5,1)",
    ];
    let tails = ["", " ON DUPLICATE KEY UPDATE i = VALUES(i) + 1, n = 9"];
    for mode in ["", "STRICT_TRANS_TABLES,NO_ZERO_DATE", "NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES"] {
        client.query(&format!("SET sql_mode = '{mode}'")).unwrap();
        let pairs = heads.iter().flat_map(|head| lists.iter().map(move |list| (head, list)));
        for (head, list) in pairs {
            if *list == lists[0] {
                // The last list uses up the AUTO_INCREMENT values.
                for table in ["w0", "w1"] {
                    client.query(&format!("TRUNCATE {table}")).unwrap();
                }
            }
            let tails = if head.starts_with("INSERT INTO") { &tails[..] } else { &tails[..1] };
            for tail in tails {
                let results = [("w0", " ".repeat(BLANKS)), ("w1", String::new())].map(|(table, blanks)| {
                    client.query(&format!("DELETE FROM {table}")).unwrap();
                    client.query(&format!("INSERT INTO {table} (id, i, u) VALUES (1, 1, 17)")).unwrap();
                    let sql = format!("{}{blanks}{list}{tail}", head.replace('@', table));
                    let answer = answer(&mut client, &sql).replace(table, "w");
                    let all = format!("SELECT *, HEX(c), HEX(v), HEX(b) FROM {table}");
                    (answer, client.rows(&all).unwrap())
                });
                assert_eq!(results[0], results[1], "{mode}: {head} {list} {tail}");
            }
        }
    }
    running.stop();
}

#[test]
fn columns_that_read_their_row_see_literals() {
    let running = start();
    let mut client = running.client();
    client.query("CREATE TABLE test.r (a INT, b INT DEFAULT (a + 1), c INT)").unwrap();
    let sql = format!("INSERT INTO test.r (a, c) VALUES {}(1,2),(-3,NULL)", " ".repeat(BLANKS));
    client.query(&sql).unwrap();
    assert_eq!(client.rows("SELECT * FROM test.r").unwrap(), [["1", "2", "2"], ["-3", "-2", "NULL"]]);
    running.stop();
}

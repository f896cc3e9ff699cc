//! mysql_async and sqlx, as the first argument says: what a Rust program asks of a database.

use std::fmt::Debug;

const TYPES_IN: &str = "INSERT INTO types (id, ti, biu, d, db, vc, vb, e, tx) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
const ERRORS: [&str; 5] = [
    "SELECT * FROM nothing",
    "SELEC 1",
    "INSERT INTO types (id) VALUES (1)",
    "INSERT INTO types (id, ti) VALUES (20, 1000)",
    "INSERT INTO types (id, c) VALUES (20, 'longer than ten')",
];
const STREAM: &str = "SELECT a.id FROM batch a JOIN batch b WHERE b.id < ? ORDER BY a.id";

fn url(password: &str, database: &str) -> String {
    let port = std::env::var("CLIENT_PORT").expect("a port");
    format!("mysql://client:{password}@127.0.0.1:{port}/{database}")
}

fn good() -> String {
    url("secret%20%27x%27", "clients")
}

fn types() -> Vec<String> {
    let path = std::env::var("CLIENT_TYPES").expect("a path");
    let text = std::fs::read_to_string(path).expect("statements");
    text.split(";\n").map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect()
}

fn check(name: &str, outcome: impl Debug) {
    println!("{name}: {outcome:?}");
}

#[tokio::main]
async fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("sqlx") => over_sqlx().await.expect("sqlx goes on"),
        _ => over_mysql_async().await.expect("mysql_async goes on"),
    }
}

async fn over_mysql_async() -> Result<(), mysql_async::Error> {
    use mysql_async::prelude::*;
    use mysql_async::{Conn, Opts, Row, TxOpts};
    let opts = |url: String| Opts::from_url(&url).expect("an address");
    let mut con = Conn::new(opts(good())).await?;
    check("login", con.query_first::<(String, String), _>("SELECT CURRENT_USER(), DATABASE()").await?);
    check("wrong_password", Conn::new(opts(url("wrong", "clients"))).await.err());
    check("unknown_database", Conn::new(opts(url("secret%20%27x%27", "no_such_database"))).await.err());
    for statement in types() {
        con.query_drop(statement).await?;
        check("types_made", (con.affected_rows(), con.info().into_owned()));
    }
    let show = |rows: Vec<Row>| rows.into_iter().map(|row| row.unwrap()).collect::<Vec<_>>();
    check("types_text", show(con.query("SELECT * FROM types ORDER BY id").await?));
    check("types_prepared", show(con.exec("SELECT * FROM types WHERE id > ? ORDER BY id", (0,)).await?));
    let statement = con.prep("SELECT t.*, ? + 1 AS n FROM types t").await?;
    for column in statement.columns() {
        check("column", (column.name_str(), column.org_name_str(), column.column_type(), column.column_length(), column.flags(), column.decimals(), column.character_set()));
    }
    con.exec_drop(TYPES_IN, (10, -5, u64::MAX, "-12.345600", 0.1, "naïve 'q' \\ 😀", vec![0u8, 39, 92, 255], "large", None::<String>)).await?;
    check("types_back", show(con.exec("SELECT * FROM types WHERE id = ?", (10,)).await?));
    for sql in ERRORS {
        check(sql, (con.query_drop(sql).await.err(), con.exec_drop(sql, ()).await.err()));
    }
    con.query_drop("CREATE TABLE batch (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))").await?;
    let mut tx = con.start_transaction(TxOpts::default()).await?;
    tx.exec_drop("INSERT INTO batch (v) VALUES (?)", ("gone",)).await?;
    check("insert_id", (tx.last_insert_id(), tx.affected_rows()));
    tx.rollback().await?;
    con.exec_batch("INSERT INTO batch (v) VALUES (?)", (0..2000).map(|n| (format!("value {n}"),))).await?;
    check("batch", con.query_first::<(i64, String), _>("SELECT COUNT(*), SUM(CRC32(v)) FROM batch").await?);
    let mut result = con.exec_iter(STREAM, (20,)).await?;
    let (mut count, mut sum) = (0, 0);
    while let Some(row) = result.next().await? {
        (count, sum) = (count + 1, sum + row.get::<i64, _>(0).unwrap_or(0));
    }
    drop(result);
    check("streaming", (count, sum));
    let mut several = con.query_iter("SELECT 1; SET @a = 5; SELECT @a, 'x'").await?;
    let mut found = Vec::new();
    while !several.is_empty() {
        found.push(several.collect::<Row>().await?.into_iter().map(Row::unwrap).collect::<Vec<_>>());
    }
    drop(several);
    check("several", found);
    let blob = b"big\0 blob".repeat(500_000);
    let back: Option<Vec<u8>> = con.exec_first("SELECT ?", (&blob,)).await?;
    check("big_blob", back.as_deref() == Some(&blob));
    let mut other = Conn::new(opts(good())).await?;
    other.query_drop("SET innodb_lock_wait_timeout = 1").await?;
    let mut tx = con.start_transaction(TxOpts::default()).await?;
    tx.query_drop("UPDATE batch SET v = 'x' WHERE id = 100").await?;
    check("lock_wait", other.query_drop("UPDATE batch SET v = 'y' WHERE id = 100").await.err());
    tx.rollback().await?;
    con.query_drop(format!("KILL {}", other.id())).await?;
    check("dropped", other.query_drop("SELECT 1").await.is_err());
    con.disconnect().await
}

async fn over_sqlx() -> Result<(), sqlx::Error> {
    use sqlx::mysql::{MySqlConnection, MySqlPoolOptions};
    use sqlx::{Column, Connection, Executor, Row, TypeInfo, ValueRef};
    let mut con = MySqlConnection::connect(&good()).await?;
    check("login", sqlx::query_as::<_, (String, String)>("SELECT CURRENT_USER(), DATABASE()").fetch_one(&mut con).await?);
    check("wrong_password", MySqlConnection::connect(&url("wrong", "clients")).await.err());
    check("unknown_database", MySqlConnection::connect(&url("secret%20%27x%27", "no_such_database")).await.err());
    for statement in types() {
        check("types_made", con.execute(&*statement).await?.rows_affected());
    }
    for prepared in [false, true] {
        let rows = match prepared {
            true => sqlx::query("SELECT * FROM types WHERE id > ? ORDER BY id").bind(0).fetch_all(&mut con).await?,
            false => con.fetch_all("SELECT * FROM types ORDER BY id").await?,
        };
        for row in rows {
            let told: Vec<_> = row
                .columns()
                .iter()
                .map(|column| {
                    let raw = row.try_get_raw(column.ordinal()).expect("a value");
                    let text = if raw.is_null() { None } else { row.try_get_unchecked::<Vec<u8>, _>(column.ordinal()).ok() };
                    (column.name().to_owned(), column.type_info().name().to_owned(), text)
                })
                .collect();
            check("row", told);
        }
    }
    let insert = sqlx::query(TYPES_IN).bind(10).bind(-5).bind(u64::MAX).bind("-12.345600").bind(0.1).bind("naïve 'q' \\ 😀").bind(vec![0u8, 39, 92, 255]).bind("large").bind(None::<String>);
    let done = insert.execute(&mut con).await?;
    check("types_in", (done.rows_affected(), done.last_insert_id()));
    check("types_back", sqlx::query_as::<_, (i32, Option<i8>, Option<u64>, Option<f64>, Option<String>, Option<Vec<u8>>)>("SELECT id, ti, biu, db, vc, vb FROM types WHERE id IN (1, 4, 10) ORDER BY id").fetch_all(&mut con).await?);
    for sql in ERRORS {
        check(sql, (con.execute(sql).await.err(), sqlx::query(sql).execute(&mut con).await.err()));
    }
    con.execute("CREATE TABLE batch (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))").await?;
    let pool = MySqlPoolOptions::new().max_connections(3).connect(&good()).await?;
    let mut tx = pool.begin().await?;
    let done = sqlx::query("INSERT INTO batch (v) VALUES (?)").bind("gone").execute(&mut *tx).await?;
    check("insert_id", done.last_insert_id());
    let mut inner = tx.begin().await?;
    inner.execute("INSERT INTO batch (v) VALUES ('also')").await?;
    inner.rollback().await?;
    check("nested", sqlx::query_as::<_, (i64,)>("SELECT COUNT(*) FROM batch").fetch_one(&mut *tx).await?);
    tx.rollback().await?;
    for n in 0..1000 {
        sqlx::query("INSERT INTO batch (v) VALUES (?)").bind(format!("value {n}")).execute(&mut con).await?;
    }
    check("batch", sqlx::query_as::<_, (i64,)>("SELECT COUNT(*) FROM batch").fetch_one(&pool).await?);
    check("described", con.describe("SELECT t.*, id + 1 AS n FROM types t WHERE id = ?").await.map(|told| format!("{:?}", told.columns())).ok());
    check("ping", con.ping().await.is_ok());
    con.close().await
}

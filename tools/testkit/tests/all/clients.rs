//! Real clients: the `mariadb` command line and PyMySQL, as a person or a program uses them.

use keel_testkit::process::{Engine, Server, feed};
use std::process::{Command, Output, Stdio};

fn server() -> Server {
    let server = Server::start(Engine::Keel, &[]).expect("keel starts");
    let mut client = server.client().expect("connects");
    client.run("CREATE DATABASE shop").expect("database");
    client.run("CREATE TABLE shop.item (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40), price DECIMAL(8,2))").expect("table");
    client.run("INSERT INTO shop.item (name, price) VALUES ('tea', 3.50), ('bread', 2.25)").expect("rows");
    server
}

fn mariadb(server: &Server, args: &[&str], input: &str) -> Output {
    let mut child = Command::new("mariadb")
        .args(["--no-defaults", "-h127.0.0.1", "-uroot", "--protocol=tcp"])
        .arg(format!("-P{}", server.port))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the mariadb client is installed");
    feed(&mut child, input.as_bytes());
    child.wait_with_output().expect("ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_command_line_client_shows_status_tables_and_errors() {
    let server = server();
    let output = mariadb(&server, &["-t", "shop"], "\\s\nSHOW TABLES;\nSELECT * FROM item;\n");
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}{}", text(&output.stderr));
    for part in
        ["Connection id:", "Current database:\tshop", "10.11", "Tables_in_shop", "| tea ", "|  2.25 |"]
    {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    let output = mariadb(&server, &["shop"], "SELECT * FROM nothing;\n");
    assert!(
        text(&output.stderr).contains("ERROR 1146 (42S02) at line 1: Table 'shop.nothing' doesn't exist")
    );
    let output = mariadb(&server, &[], "SELECT * FROM item;\n");
    assert!(text(&output.stderr).contains("ERROR 1046 (3D000)"), "{}", text(&output.stderr));
}

#[test]
fn the_command_line_client_completes_names() {
    let server = server();
    let output = mariadb(&server, &["--auto-rehash", "-v", "shop"], "rehash\nSELECT COUNT(*) FROM item;\n");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains('2'));
}

#[test]
fn kill_ends_a_query_and_a_connection() {
    let server = server();
    let mut victim = server.client().expect("connects");
    let mut killer = server.client().expect("connects");
    victim.post("SELECT SLEEP(30)").expect("sends");
    let id = victim.connection_id;
    let running = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND INFO LIKE 'SELECT SLEEP%'"
    );
    while killer.run(&running).expect("process list").scalar().as_deref() != Some("1") {}
    killer.run(&format!("KILL QUERY {id}")).expect("kill query");
    let reply = victim.receive().expect("answers").remove(0);
    assert!(reply.error_code() == Some(1317) || reply.scalar().as_deref() == Some("1"), "{reply:?}");
    victim.run("SELECT 1").expect("the connection goes on");
    killer.run(&format!("KILL {id}")).expect("kill");
    assert!(victim.run("SELECT 1").is_err(), "the connection was killed");
    killer.run("SELECT 1").expect("the killer goes on");
}

#[test]
fn a_python_program_works() {
    let server = server();
    let program = format!(
        r#"
import pymysql, decimal
c = pymysql.connect(host="127.0.0.1", port={port}, user="root", database="shop", autocommit=False)
with c.cursor() as cur:
    cur.execute("INSERT INTO item (name, price) VALUES (%s, %s)", ("käse", decimal.Decimal("7.10")))
    assert cur.lastrowid == 3, cur.lastrowid
    cur.executemany("INSERT INTO item (name, price) VALUES (%s, %s)", [("a", 1), ("b", None)])
    c.commit()
    cur.execute("SELECT id, name, price FROM item WHERE id >= %s ORDER BY id", (3,))
    rows = cur.fetchall()
    assert rows == ((3, "käse", decimal.Decimal("7.10")), (4, "a", decimal.Decimal("1.00")), (5, "b", None)), rows
    try:
        cur.execute("INSERT INTO item (id) VALUES (1)")
        raise SystemExit("a duplicate was accepted")
    except pymysql.err.IntegrityError as e:
        assert e.args == (1062, "Duplicate entry '1' for key 'PRIMARY'"), e.args
    cur.execute("UPDATE item SET price = price + 1")
    c.rollback()
    cur.execute("SELECT SUM(price) FROM item")
    assert cur.fetchone() == (decimal.Decimal("13.85"),)
    c.ping(); c.select_db("shop"); assert c.get_server_info().count("10.11")
c.close()
print("done")
"#,
        port = server.port
    );
    let output = Command::new("/usr/bin/python3").args(["-c", &program]).output().expect("python3 runs");
    assert_eq!(text(&output.stdout).trim(), "done", "{}{}", text(&output.stderr), server.log_tail());
}

#[test]
fn sessions_that_prepare_the_same_text_see_a_changed_table_alike() {
    let server = server();
    let text = "SELECT * FROM item WHERE id = ?";
    let mut first = server.client_in("shop").expect("connects");
    let mut second = server.client_in("shop").expect("connects");
    let one = first.prepare(text).expect("prepares").expect("is accepted");
    let two = second.prepare(text).expect("prepares").expect("is accepted");
    assert_eq!((one.columns.len(), two.columns.len()), (3, 3));
    assert_eq!(first.execute(&one, &[Some("1")]).expect("runs")[0].strings()[0][1], "tea");
    second.run("ALTER TABLE item ADD COLUMN stock INT NOT NULL DEFAULT 5").expect("alters");
    let row = |reply: &keel_testkit::client::Reply| reply.strings()[0].clone();
    assert_eq!(row(&first.execute(&one, &[Some("2")]).expect("runs")[0]), ["2", "bread", "2.25", "5"]);
    assert_eq!(row(&second.execute(&two, &[Some("2")]).expect("runs")[0]), ["2", "bread", "2.25", "5"]);
    let again = second.prepare(text).expect("prepares").expect("is accepted");
    assert_eq!(again.columns.len(), 4);
    second.run("CREATE DATABASE other").expect("database");
    second.run("USE other").expect("use");
    let missing = second.prepare(text).expect("prepares").expect_err("there is no such table here");
    assert_eq!(missing.error_code(), Some(1146));
}

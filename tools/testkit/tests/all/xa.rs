//! Branches of XA through kill -9 and clean stops, on Keel and on MariaDB: each says the same.

use keel_testkit::client::{Client, Reply};
use keel_testkit::process::{Engine, Server};
use std::fmt::Write as _;

/// Whoever meets a lock hears of it at once.
const OPTIONS: &[&str] = &["--innodb-lock-wait-timeout=0", "--lock-wait-timeout=0"];

/// What a server answered, as text.
struct Story {
    text: String,
}

impl Story {
    fn say(&mut self, client: &mut Client, sql: &str) {
        let reply = client.one(sql).expect("an answer");
        let answer = match reply.error_code() {
            Some(code) => format!("error {code}"),
            None => {
                let mut rows = rows_of(&reply);
                rows.sort();
                format!("{rows:?}")
            }
        };
        writeln!(self.text, "{sql} -> {answer}").expect("text");
    }
}

fn rows_of(reply: &Reply) -> Vec<Vec<String>> {
    match reply.error_code() {
        None => reply.strings(),
        Some(_) => Vec::new(),
    }
}

fn prepare(server: &Server, name: &str, statements: &[&str]) -> Client {
    let mut client = server.client_in("shop").expect("connects");
    client.run(&format!("XA START '{name}'")).expect("started");
    statements.iter().for_each(|sql| drop(client.run(sql).expect(sql)));
    client.run(&format!("XA END '{name}'")).expect("ended");
    client.run(&format!("XA PREPARE '{name}'")).expect("prepared");
    client
}

const LOOKS: &[&str] = &[
    "XA RECOVER",
    "SELECT * FROM item",
    "SELECT id FROM item WHERE id = 5 FOR UPDATE NOWAIT",
    "UPDATE item SET n = 0 WHERE id = 1",
    "UPDATE item SET n = 0 WHERE id = 2",
    "DELETE FROM item WHERE id = 3",
    "INSERT INTO item VALUES (10, 'again', 1)",
    "INSERT INTO item VALUES (11, 'one', 1)",
    "SELECT name FROM item WHERE name = 'taken' FOR UPDATE NOWAIT",
    "ALTER TABLE item ADD COLUMN more INT",
    "DROP TABLE item",
    "TRUNCATE item",
    "XA START 'moves'",
];

fn tell(engine: Engine) -> String {
    let mut server = Server::start(engine, OPTIONS).expect("starts");
    let mut story = Story { text: String::new() };
    let mut client = server.client().expect("connects");
    for sql in [
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(20), n INT, UNIQUE KEY (name))",
        "INSERT INTO item VALUES (1,'one',1),(2,'two',2),(3,'three',3),(4,'four',4),(5,'five',5)",
    ] {
        client.run(sql).expect(sql);
    }
    let moves = ["UPDATE item SET name = 'taken' WHERE id = 1", "INSERT INTO item VALUES (10,'ten',10)"];
    let _kept = prepare(&server, "moves", &moves);
    let _lost = prepare(&server, "drops", &["DELETE FROM item WHERE id = 3"]);
    let _read = prepare(&server, "reads", &["SELECT * FROM item"]);
    let mut open = server.client_in("shop").expect("connects");
    open.run("XA START 'open'").expect("started");
    open.run("UPDATE item SET n = 50 WHERE id = 5").expect("updated");
    let mut idle = server.client_in("shop").expect("connects");
    idle.run("XA START 'idle'").expect("started");
    idle.run("UPDATE item SET n = 40 WHERE id = 4").expect("updated");
    idle.run("XA END 'idle'").expect("ended");
    // Another commit takes along what the open branches have written, so that recovery has to roll them back.
    client.run("UPDATE item SET n = 20 WHERE id = 2").expect("updated");
    story.say(&mut client, "XA RECOVER");
    for kill in [true, false, true] {
        if kill {
            server.kill();
        } else {
            assert!(server.stop().expect("stops").success(), "prepared branches do not hold up a stop");
        }
        server.launch().expect("starts");
        let mut client = server.client_in("shop").expect("connects");
        LOOKS.iter().for_each(|sql| story.say(&mut client, sql));
        // What is locked is so still.
        client.run("BEGIN").expect("begun");
        client.run("UPDATE item SET n = n + 1 WHERE id = 5").expect("a row of nobody");
        client.run("COMMIT").expect("committed");
    }
    let mut client = server.client_in("shop").expect("connects");
    story.say(&mut client, "XA COMMIT 'moves'");
    story.say(&mut client, "XA ROLLBACK 'drops'");
    story.say(&mut client, "XA COMMIT 'reads'");
    client.run("UPDATE item SET n = n + 1 WHERE id = 5").expect("takes the rollback to the disk");
    server.kill();
    server.launch().expect("starts");
    let mut client = server.client_in("shop").expect("connects");
    for sql in
        ["XA RECOVER", "SELECT * FROM item", "CHECK TABLE item", "UPDATE item SET n = 7", "DROP TABLE item"]
    {
        story.say(&mut client, sql);
    }
    assert!(server.stop().expect("stops").success());
    story.text
}

#[test]
fn prepared_branches_survive_kill_9_as_in_mariadb() {
    let (keel, maria) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| tell(Engine::MariaDb));
        (tell(Engine::Keel), theirs.join().expect("mariadb's story"))
    });
    assert_eq!(keel, maria, "--- keel\n{keel}\n--- mariadb\n{maria}");
}

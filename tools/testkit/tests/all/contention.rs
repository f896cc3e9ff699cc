//! Many sessions that want several tables to themselves at once: all of them go on. Clients that vanish while they wait.

use keel_testkit::client::Client;
use keel_testkit::process::{Engine, Server};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

const SESSIONS: usize = 8;
const ROUNDS: usize = 25;

/// Runs the statements that `script` gives for each round, in each of the sessions; they end within a minute.
fn all_at_once(server: &Server, script: fn(usize) -> Vec<String>) {
    let (done, ends) = channel();
    for _ in 0..SESSIONS {
        let mut client = server.client_in("test").expect("connects");
        let done = done.clone();
        thread::spawn(move || {
            for round in 0..ROUNDS {
                for statement in script(round) {
                    let answer = client.run(&statement).map(drop).map_err(|error| error.to_string());
                    done.send(answer).expect("is awaited");
                }
            }
        });
    }
    let statements = SESSIONS * (0..ROUNDS).map(|round| script(round).len()).sum::<usize>();
    for number in 0..statements {
        let answer = ends.recv_timeout(Duration::from_secs(60));
        let answer = answer.unwrap_or_else(|_| panic!("only {number} of {statements} were answered"));
        assert_eq!(answer, Ok(()));
    }
}

fn server() -> Server {
    let server = Server::start(Engine::Keel, &[]).expect("keel starts");
    let mut client = server.client().expect("connects");
    for statement in [
        "CREATE DATABASE IF NOT EXISTS test",
        "CREATE TABLE test.p (id INT PRIMARY KEY)",
        "CREATE TABLE test.q (id INT PRIMARY KEY)",
        "CREATE TABLE test.r (id INT PRIMARY KEY)",
    ] {
        client.run(statement).expect(statement);
    }
    server
}

#[test]
fn create_table_if_not_exists_under_several_parents() {
    all_at_once(&server(), |round| {
        vec![format!(
            "CREATE TABLE IF NOT EXISTS c{round} (a INT REFERENCES p (id), b INT REFERENCES q (id), c INT REFERENCES r (id))"
        )]
    });
}

#[test]
fn create_or_replace() {
    all_at_once(&server(), |round| vec![format!("CREATE OR REPLACE TABLE c{} (a INT, b INT)", round % 3)]);
}

#[test]
fn lock_tables_of_several() {
    all_at_once(&server(), |_| vec!["LOCK TABLES p WRITE, q WRITE, r WRITE".into(), "UNLOCK TABLES".into()]);
}

/// Waits until so many sessions are at work on a statement.
fn await_running(client: &mut Client, statement: &str, count: u32) {
    let running = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = \"{statement}\"");
    let deadline = Instant::now() + Duration::from_secs(20);
    while client.run(&running).expect("answers").scalar() != Some(count.to_string()) {
        assert!(Instant::now() < deadline, "{statement}: not {count} at work on it");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_client_waited_for_that_is_gone_is_given_up() {
    let server = server();
    let mut owner = server.client_in("test").expect("connects");
    let mut other = server.client_in("test").expect("connects");
    owner.run("INSERT INTO p VALUES (1)").expect("inserts");
    owner.run("SELECT GET_LOCK('name', 0)").expect("locks");
    owner.run("LOCK TABLES q WRITE").expect("locks");
    let waits =
        ["SELECT GET_LOCK('name', 1000)", "SELECT * FROM q", "ALTER TABLE q ADD v INT", "LOCK TABLES q READ"];
    for wait in waits {
        let mut gone = server.client_in("test").expect("connects");
        gone.run("BEGIN").expect("begins");
        gone.run("SELECT * FROM p FOR UPDATE").expect("locks");
        gone.post(wait).expect("sends");
        await_running(&mut other, wait, 1);
        drop(gone);
        await_running(&mut other, wait, 0);
        other.run("SELECT * FROM p FOR UPDATE").expect("nobody has locked it");
    }
}

#[test]
fn tables_that_are_made_of_each_other() {
    let server = server();
    let (done, ends) = channel();
    for (made, from) in [("p", "q"), ("q", "p")] {
        let mut client = server.client_in("test").expect("connects");
        let done = done.clone();
        thread::spawn(move || {
            for _ in 0..ROUNDS {
                let reply = client.one(&format!("CREATE OR REPLACE TABLE {made} SELECT * FROM {from}"));
                done.send(reply.expect("answers").error_code()).expect("is awaited");
            }
        });
    }
    for number in 0..2 * ROUNDS {
        let error = ends.recv_timeout(Duration::from_secs(60));
        let error = error.unwrap_or_else(|_| panic!("only {number} were answered"));
        assert!(error.is_none_or(|code| code == 1213), "{error:?}");
    }
}

//! Long packets and texts: who waits for whom.

use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

use crate::common::{Running, eventually, start};
use keel_wire::command::byte;

/// Longer than anything here takes, shorter than what ends a wait by itself.
const PATIENCE: Duration = Duration::from_secs(20);

fn padded(sql: &str, bytes: usize) -> String {
    format!("{sql} /*{}*/", "x".repeat(bytes))
}

fn packets_in_work(running: &Running) -> u64 {
    running.server.state().long_packets.used_bytes()
}

#[test]
fn who_holds_a_lock_goes_before_those_who_wait_for_it() {
    let running = start();
    let mut holder = running.client();
    holder.query("CREATE TABLE test.a (id INT PRIMARY KEY, v INT)").unwrap();
    holder.query("INSERT INTO test.a VALUES (1, 0)").unwrap();
    holder.query("BEGIN").unwrap();
    holder.query("UPDATE test.a SET v = 1 WHERE id = 1").unwrap();
    let update = padded("UPDATE test.a SET v = v + 1 WHERE id = 1", 15 << 20);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| running.client().query(&update).unwrap());
        }
        eventually("the room is full", || packets_in_work(&running) > 32 << 20);
        holder.stream().set_read_timeout(Some(PATIENCE)).unwrap();
        holder.query(&padded("INSERT INTO test.a VALUES (2, 0)", 300 << 10)).unwrap();
        holder.query("COMMIT").unwrap();
    });
    assert_eq!(holder.rows("SELECT v FROM test.a WHERE id = 1").unwrap(), [["5"]]);
    eventually("all is given back", || packets_in_work(&running) == 0);
    running.stop();
}

#[test]
fn announced_bytes_take_no_room() {
    let running = start();
    let mut liars: Vec<_> = (0..3).map(|_| running.client()).collect();
    for liar in &mut liars {
        liar.stream().write_all(&[0xfe, 0xff, 0xff, 0, byte::QUERY]).unwrap();
    }
    let mut client = running.client();
    client.stream().set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(client.rows(&padded("SELECT 1", 1 << 20)).unwrap(), [["1"]]);
    running.stop();
}

#[test]
fn a_text_within_a_text_does_not_wait_for_it() {
    let running = start();
    let mut client = running.client();
    client.stream().set_read_timeout(Some(PATIENCE)).unwrap();
    let inner = padded("SELECT 1", 5 << 20);
    assert_eq!(client.rows(&format!("EXECUTE IMMEDIATE '{inner}'")).unwrap(), [["1"]]);
    let statement = client.prepare(&inner).unwrap();
    assert_eq!(client.execute(&statement, &[]).unwrap().into_rows().unwrap().text_rows(), [["1"]]);
    assert_eq!(running.server.state().long_texts.used_bytes(), 0);
    running.stop();
}

#[test]
fn who_waits_for_room_can_be_killed() {
    let running = start();
    let (mut holder, mut killer) = (running.client(), running.client());
    holder.query("CREATE TABLE test.k (id INT PRIMARY KEY)").unwrap();
    holder.query("LOCK TABLES test.k WRITE").unwrap();
    let select = padded("SELECT * FROM test.k", 15 << 20);
    std::thread::scope(|scope| {
        let ends: Vec<_> = (0..4)
            .map(|_| {
                let mut client = running.client();
                let id = client.greeting().connection_id;
                let stream = client.stream().try_clone().unwrap();
                let select = &select;
                (id, stream, scope.spawn(move || client.query(select)))
            })
            .collect();
        eventually("the room is full", || packets_in_work(&running) > 32 << 20);
        for (id, ..) in &ends {
            killer.query(&format!("KILL {id}")).unwrap();
        }
        eventually("they are gone", || running.server.state().registry.len() == 2);
        eventually("all is given back", || packets_in_work(&running) == 0);
        for (_, stream, end) in ends {
            // TCP may go on for minutes to offer what a client has not sent yet.
            let _ = stream.shutdown(Shutdown::Both);
            assert!(end.join().unwrap().is_err());
        }
    });
    running.stop();
}

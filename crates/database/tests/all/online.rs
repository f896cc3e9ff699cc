//! ALTER TABLE beside others that read and write the table: what it builds has their changes too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::*;
use keel_database::Database;
use keel_runtime::fiber;
use keel_runtime::sync::channel;

/// Rows at the start; writers add others.
const ROWS: usize = 8000;
/// Sessions that write meanwhile.
const WRITERS: usize = 8;

/// Fills `t` and its twin with rows of `(id, id2, u, a, v)`.
fn fill(client: &mut Client, key: &str) {
    fill_both(client, key, "primary key (id)");
}

fn fill_both(client: &mut Client, key: &str, key_of_twin: &str) {
    let row = |id: usize| format!("({id},{},{},{},'v{}')", id + 100_000, id * 10, id % 97, id % 13);
    let rows: Vec<String> = (0..ROWS).map(row).collect();
    for (table, key) in [("t", key), ("twin", key_of_twin)] {
        client.script(&format!(
            "create table {table} (id int not null, id2 int not null, u int not null, a int, v varchar(200), {key})"
        ));
        for part in rows.chunks(500) {
            client.run(&format!("insert into {table} values {}", part.join(",")));
        }
    }
}

/// Statements of one random change, each of which is made in `#`: in `t` and in its twin.
type Change = fn(&mut Random, &mut usize) -> Vec<String>;

/// One random change of a row.
fn change(r: &mut Random, fresh: &mut usize) -> Vec<String> {
    let id = r.below(ROWS);
    let text = "x".repeat(r.below(150));
    vec![match r.below(8) {
        0 => {
            *fresh += 1;
            let id = *fresh;
            format!("insert into # values ({id},{},{},{},'{text}')", id + 100_000, id * 10, r.below(97))
        }
        1 => format!("delete from # where id = {id}"),
        2 => {
            *fresh += 1;
            let to = *fresh;
            format!("update # set id = {to}, id2 = {} where id = {id}", to + 100_000)
        }
        3 => format!("update # set u = u + 1 where id = {id}"),
        4 => format!("update # set v = '{text}' where id between {id} and {}", id + r.below(200)),
        5 => format!("update # set a = null where id = {id}"),
        _ => format!("update # set a = {}, v = '{text}' where id = {id}", r.below(1000)),
    }]
}

/// One random change of rows that have a primary and a unique key: it takes them from each other.
fn exchange(r: &mut Random, fresh: &mut usize) -> Vec<String> {
    let (id, u, other) = (r.below(ROWS), r.below(ROWS) * 10, r.below(ROWS) * 10);
    let text = "x".repeat(r.below(150));
    *fresh += 1;
    let row = format!("({id},{},{u},{},'{text}')", *fresh + 100_000, r.below(97));
    match r.below(7) {
        0 => vec![format!("replace into # values {row}")],
        1 => vec![format!("insert into # values {row} on duplicate key update a = a + 1, v = '{text}'")],
        2 => vec![format!("insert ignore into # values {row}")],
        3 => vec![format!("update ignore # set u = {other} where id = {id}")],
        4 => vec![format!("delete from # where u = {u}")],
        5 => vec![
            format!("delete from # where id = {id}"),
            format!("insert ignore into # values ({id}, 1, {u}, 1, 'again')"),
        ],
        _ => vec![
            format!("update # set u = -1 - {u} where u = {u}"),
            format!("update # set u = {u} where u = {other}"),
            format!("update # set u = {other} where u = -1 - {u}"),
        ],
    }
}

/// Runs transactions over both tables until told to stop; gives how many it committed while `building`.
fn write(
    mut client: Client,
    seed: u64,
    number: usize,
    change: Change,
    building: &AtomicBool,
    stop: &AtomicBool,
) -> usize {
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + number as u64 + 1);
    let mut fresh = 10_000 * (number + 1);
    let mut meanwhile = 0;
    while !stop.load(Ordering::Relaxed) {
        let began = building.load(Ordering::Relaxed);
        client.run("begin");
        let changes = 1 + r.below(6);
        let ran = (0..changes).all(|_| {
            let kept = r.below(10) > 0;
            if !kept {
                client.run("savepoint s");
            }
            let both = |sql: &String| ["t", "twin"].map(|table| sql.replace('#', table));
            let done =
                change(&mut r, &mut fresh).iter().flat_map(both).all(|sql| client.try_run(&sql).is_ok());
            kept && done || !kept && client.try_run("rollback to s").is_ok()
        });
        let end = if ran && r.below(6) > 0 { "commit" } else { "rollback" };
        client.run(end);
        meanwhile += usize::from(began && end == "commit" && building.load(Ordering::Relaxed));
        if r.below(3) == 0 {
            fiber::yield_now();
        }
    }
    meanwhile
}

/// Alters `t` while others write; gives the answer and how many transactions were committed meanwhile.
fn alter_beside_writers(database: &Arc<Database>, seed: u64, key: &str, alter: &str) -> (String, usize) {
    let mut client = Client::new(database);
    fill(&mut client, key);
    alter_filled(client, seed, change, alter)
}

/// The same with other changes of tables that are filled.
fn alter_filled(mut client: Client, seed: u64, change: Change, alter: &str) -> (String, usize) {
    let database = &client.database.clone();
    let (building, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let meanwhile = Arc::new(AtomicUsize::new(0));
    let (sender, done) = channel(WRITERS);
    for number in 0..WRITERS {
        let writer = Client::new(database);
        let (building, stop, meanwhile) = (building.clone(), stop.clone(), meanwhile.clone());
        let sender = sender.clone();
        fiber::spawn(move || {
            let count = write(writer, seed, number, change, &building, &stop);
            meanwhile.fetch_add(count, Ordering::Relaxed);
            let _ = sender.send(());
        });
    }
    building.store(true, Ordering::Relaxed);
    let answer = client.run(alter);
    building.store(false, Ordering::Relaxed);
    stop.store(true, Ordering::Relaxed);
    for _ in 0..WRITERS {
        done.recv().expect("a writer ends");
    }
    (answer, meanwhile.load(Ordering::Relaxed))
}

/// `t` is sound and has the rows of its twin, in the columns that it still has.
fn assert_same_rows(database: &Arc<Database>, columns: &[&str], context: &str) {
    let mut client = Client::new(database);
    assert_eq!(client.run("check table t"), "test.t|check|status|OK", "{context}");
    let list = columns.join(",");
    for (one, other) in [("t", "twin"), ("twin", "t")] {
        let missing = client.run(&format!("select {list} from {one} except all select {list} from {other}"));
        assert_eq!(missing, "", "{context}: rows of {one} that {other} has not");
    }
}

#[test]
fn what_is_built_has_what_others_wrote_meanwhile() {
    let primary = "primary key (id)";
    let all: &[&str] = &["id", "id2", "u", "a", "v"];
    let cases: &[(&str, &str, &[&str])] = &[
        (primary, "alter table t add key (a, v)", all),
        (primary, "alter table t add key ku (u), add key (v(3)), lock=none", all),
        ("key (id), key (v)", "create index ka on t (a)", all),
        ("primary key (id), key (a)", "alter table t modify a bigint, add key (v)", all),
        ("key (id), key (a)", "alter table t drop column v, modify u bigint", &["id", "id2", "u", "a"]),
        ("key (id)", "alter table t add primary key (id2)", all),
        ("primary key (id), key (a, v)", "alter table t drop primary key, add primary key (id2)", all),
        (primary, "alter table t add column z varchar(50) default (concat('q', rand())) first, force", all),
        ("primary key (id), key (u)", "alter table t add column g int as (a + 1) stored, add key (g)", all),
        (primary, "alter table t engine=innodb, algorithm=inplace, lock=none", all),
        ("primary key (id, v)", "alter table t modify v varchar(200) character set latin1", all),
        (primary, "alter table t add unique key (u)", all),
        ("primary key (id), unique key (u)", "alter table t add key (v), modify a bigint", all),
        (primary, "alter table t modify v text, add unique key (v, u)", all),
        (
            primary,
            "alter table t add column z int default 5 first, drop column v, add key (z, a)",
            &["id", "id2", "u", "a"],
        ),
        ("primary key (id), key (a, v)", "alter table t modify v varchar(700) first, add key (v, a)", all),
    ];
    let seeds: usize = std::env::var("KEEL_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut meanwhile = 0;
    for (seed, (key, alter, columns)) in cases.iter().cycle().take(seeds * cases.len()).enumerate() {
        let seed = seed as u64 + 7;
        seeded_world(seed, |database| {
            let (answer, written) = alter_beside_writers(database, seed, key, alter);
            assert!(!answer.starts_with("ERROR"), "seed {seed}: {alter}: {answer}");
            assert_same_rows(database, columns, &format!("seed {seed}: {alter}"));
            assert!(written > 0, "seed {seed}: {alter}: nobody wrote meanwhile");
            meanwhile += written;
        });
    }
    assert!(meanwhile > 100, "only {meanwhile} transactions were committed while tables were altered");
}

/// Alters filled tables beside writers, each in a world of its own: all that is written is there.
fn assert_followed(
    alterations: &[&str],
    first_seed: u64,
    fill: impl Fn(&mut Client) + Sync,
    change: Change,
    columns: &[&str],
) {
    for (number, alter) in alterations.iter().enumerate() {
        let seed = first_seed + number as u64;
        seeded_world(seed, |database| {
            let mut client = Client::new(database);
            fill(&mut client);
            let (answer, written) = alter_filled(client, seed, change, alter);
            assert!(!answer.starts_with("ERROR"), "seed {seed}: {alter}: {answer}");
            assert_same_rows(database, columns, &format!("seed {seed}: {alter}"));
            assert!(written > 0, "seed {seed}: {alter}: nobody wrote meanwhile");
        });
    }
}

#[test]
fn rows_that_take_keys_from_each_other_are_followed() {
    let keys = "primary key (id), unique key uu (u)";
    let cases = [
        "alter table t add key (a, v)",
        "alter table t modify a bigint, add key (v)",
        "alter table t add column g int as (u + 1) stored, add key (g)",
        "alter table t add column z int default 5 first, add key (z, u)",
        "alter table t drop key uu, add unique key vv (u)",
        "alter table t force",
    ];
    assert_followed(
        &cases,
        80,
        |client| fill_both(client, keys, keys),
        exchange,
        &["id", "id2", "u", "a", "v"],
    );
}

/// A random change of parents, with which their children in `t` and its twin go and change, or of a child.
fn change_parent(r: &mut Random, fresh: &mut usize) -> Vec<String> {
    let id = r.below(ROWS);
    *fresh += 1;
    match r.below(5) {
        0 => vec![format!("delete from p where id = {id}")],
        1 => vec![format!("update p set id = {fresh} where id = {id}")],
        2 => vec![format!("update p set k = {fresh} where id = {id}")],
        3 => vec![format!("insert into # values ({fresh}, {id}, null, 'new')")],
        _ => vec![format!("update # set v = 'x' where id = {id}")],
    }
}

/// Fills `p`, and `t` and its twin, whose rows are children of it twice.
fn fill_family(client: &mut Client) {
    client.script("create table p (id int primary key, k int, unique key (k))");
    let rows: Vec<String> = (0..ROWS).map(|id| format!("({id},{id})")).collect();
    for part in rows.chunks(500) {
        client.run(&format!("insert into p values {}", part.join(",")));
    }
    for table in ["t", "twin"] {
        client.script(&format!(
            "create table {table} (id int primary key, pid int, k int, v varchar(50), key (pid), key (k), \
             constraint {table}1 foreign key (pid) references p (id) on delete cascade on update cascade, \
             constraint {table}2 foreign key (k) references p (k) on delete set null on update set null)"
        ));
        let rows: Vec<String> = (0..ROWS).map(|id| format!("({id},{id},{id},'v')")).collect();
        for part in rows.chunks(500) {
            client.run(&format!("insert into {table} values {}", part.join(",")));
        }
    }
}

#[test]
fn what_foreign_keys_change_is_followed() {
    let cases = [
        "alter table t add key (pid, v)",
        "alter table t modify v varchar(100) character set latin1, add key (v)",
        "alter table t add column z int default 5 first, add key (z, k)",
    ];
    assert_followed(&cases, 90, fill_family, change_parent, &["id", "pid", "k", "v"]);
}

#[test]
fn words_that_keep_writers_out_do() {
    for (seed, words) in ["lock=shared", "lock=exclusive", "algorithm=copy"].iter().enumerate() {
        let seed = seed as u64 + 40;
        seeded_world(seed, |database| {
            let alter = format!("alter table t add key (a, v), {words}");
            let (answer, written) = alter_beside_writers(database, seed, "primary key (id)", &alter);
            assert!(!answer.starts_with("ERROR"), "seed {seed}: {alter}: {answer}");
            // Those that began before the table was taken and ended behind it.
            assert!(
                written <= WRITERS,
                "seed {seed}: {alter}: {written} transactions were committed meanwhile"
            );
            assert_same_rows(database, &["id", "id2", "u", "a", "v"], &alter);
        });
    }
}

#[test]
fn duplicates_that_others_make_end_it() {
    seeded_world(60, |database| {
        let mut client = Client::new(database);
        fill(&mut client, "primary key (id)");
        let (sender, done) = channel(2);
        let mut other = Client::new(database);
        fiber::spawn(move || {
            let _ = sender.send(other.run("alter table t add unique key uu (u)"));
        });
        // It has begun when a row can be written again; and it waits for who has.
        fiber::sleep(std::time::Duration::from_micros(10));
        client.run("begin");
        assert_eq!(
            client.run("update t set u = 70 where id = 8"),
            "1 (Rows matched: 1  Changed: 1  Warnings: 0)"
        );
        assert!(done.try_recv().is_none(), "the index is not built yet");
        client.run("commit");
        assert_eq!(done.recv().unwrap(), "ERROR 1062 (23000): Duplicate entry '70' for key 'uu'");
        client.script(
            "check table t -> test.t|check|status|OK
             select count(*) from t where u = 70 -> 2
             insert into t values (20000, 1, 70, 1, 'x') -> 1",
        );
        let catalog = database.catalog();
        assert_eq!(catalog.table("test", "t").expect("the table").indexes.len(), 1);
    });
}

#[test]
fn a_definition_that_is_killed_leaves_the_table_to_others() {
    seeded_world(61, |database| {
        let mut client = Client::new(database);
        fill(&mut client, "primary key (id)");
        let files = database.engine().trees().expect("trees").len();
        let mut other = Client::new(database);
        let interrupt = other.session.interrupt.clone();
        let (sender, done) = channel(2);
        fiber::spawn(move || {
            let _ = sender.send(other.run("alter table t modify a bigint, add key (v)"));
        });
        fiber::sleep(std::time::Duration::from_micros(10));
        client.run("begin");
        client.run("update t set a = 1 where id = 5");
        assert!(done.try_recv().is_none());
        interrupt.raise(keel_exec::InterruptState::Query);
        assert_eq!(done.recv().unwrap(), "ERROR 1317 (70100): Query execution was interrupted");
        client.run("commit");
        client.script(
            "check table t -> test.t|check|status|OK
             alter table t add key (a) -> 0 (Records: 0  Duplicates: 0  Warnings: 0)",
        );
        assert_eq!(database.engine().trees().expect("trees").len(), files + 1);
    });
}

#[test]
fn more_changes_than_may_be_kept_end_it() {
    seeded_world(62, |database| {
        database.set_online_log_max(65_536);
        let mut client = Client::new(database);
        fill(&mut client, "primary key (id)");
        let mut other = Client::new(database);
        let (sender, done) = channel(2);
        fiber::spawn(move || {
            let _ = sender.send(other.run("alter table t add key ka (a)"));
        });
        fiber::sleep(std::time::Duration::from_micros(10));
        client.run("begin");
        client.run("update t set a = a + 1");
        assert!(done.try_recv().is_none());
        client.run("commit");
        assert_eq!(
            done.recv().unwrap(),
            "ERROR 1799 (HY000): Creating index 'ka' required more than 'innodb_online_alter_log_max_size' bytes of \
             modification log. Please try again"
        );
        client.script("check table t -> test.t|check|status|OK");
    });
}

#[test]
fn a_reader_that_wants_to_write_gives_way_to_who_keeps_writers_out() {
    seeded_world(63, |database| {
        let mut client = Client::new(database);
        fill(&mut client, "primary key (id)");
        let mut other = Client::new(database);
        let (sender, done) = channel(2);
        fiber::spawn(move || {
            let _ = sender.send(other.run("alter table t modify a bigint, lock=shared"));
        });
        fiber::sleep(std::time::Duration::from_micros(10));
        client.run("begin");
        client.script("select count(*) from t -> 8000");
        assert_eq!(
            client.run("update t set a = 1 where id = 5"),
            "ERROR 1213 (40001): Deadlock found when trying to get lock; try restarting transaction"
        );
        assert!(!done.recv().unwrap().starts_with("ERROR"));
    });
}

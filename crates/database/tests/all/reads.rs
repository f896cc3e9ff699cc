//! SELECT along its paths: by key, by cached plans, and what other statements read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::*;
use keel_database::Database;
use keel_runtime::wait::{self, WaitEvent};

#[test]
fn rows_are_read_by_key_and_by_range() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (id int primary key, k int, c varchar(10), key (k))
             insert into t values (1,10,'a'),(2,20,'b'),(3,20,null) -> 3 (Records: 3  Duplicates: 0  Warnings: 0)
             select * from t where id = 2 -> 2|20|b
             select c, id from t where id = 3 -> NULL|3
             select * from t where id = 9 -> 
             select * from t where id = '2' -> 2|20|b
             select * from t where id = 2.0 -> 2|20|b
             select * from t where id = 2.5 -> 
             select * from t where id = null -> 
             select id from t where id = 1 for update -> 1
             select id from t where k = 20 -> 2; 3
             select k from t where k between 5 and 15 -> 10
             select id from t order by id desc limit 2 -> 3; 2
             select id from t where k in (10, 20) and c is null -> 3
             select count(*), sum(k) from t -> 3|50
             select id + 1 from t where id = 1 -> 2
             select id + 1 from t where id = 2 -> 3",
        );
    });
}

#[test]
fn an_index_that_covers_wins_where_nothing_is_found() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (id int primary key, k int, c varchar(10), v int, key k (k), key kc (k, c))",
        );
        for id in 0..100 {
            c.script(&format!("insert into t values ({id}, {id}, 'c{id}', 1) -> 1"));
        }
        for k in [5, 1000] {
            let plan = c.run(&format!("explain select k, c from t where k = {k}"));
            assert!(plan.contains("|kc|"), "{plan}");
            let plan = c.run(&format!("explain select v from t where k = {k} and c = 'c5'"));
            assert!(plan.contains("|ref|"), "{plan}");
        }
    });
}

/// Pages that were read, and times that somebody waited for pages.
fn page_reads(database: &Arc<Database>) -> (u64, u64) {
    let waits =
        wait::totals().iter().filter(|total| total.event == WaitEvent::PageRead).map(|t| t.count).sum();
    (database.engine().status().store.reads, waits)
}

#[test]
fn rows_that_a_statement_names_are_read_together() {
    const ROWS: u64 = 12_000;
    // A simulated device now and then lets a batch wait within: all worlds together are judged.
    let mut seen: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut in_world = |database: &Arc<Database>| {
        let mut c = Client::new(database);
        c.script("create table t (id int primary key, k int, c varchar(2000), key (k))");
        for first in (0..ROWS).step_by(500) {
            let rows: Vec<String> = (first..first + 500)
                .map(|id| format!("({id}, {}, repeat('{}', 1800))", id * 7919 % ROWS, id % 10))
                .collect();
            c.run(&format!("insert into t values {}", rows.join(",")));
        }
        database.engine().checkpoint().unwrap();
        // Three times the pool; what is above the leaves is wanted again and again.
        let warm = |c: &mut Client| {
            (0..ROWS).step_by(97).for_each(|id| drop(c.run(&format!("select c from t where id = {id}"))))
        };
        warm(&mut c);
        let mut check = |what: &str, rows: usize, least: u64| {
            warm(&mut c);
            let before = page_reads(database);
            assert_eq!(c.run(what).split("; ").count(), rows, "{what}");
            let (pages, waits) = page_reads(database);
            let (pages, waits) = (pages - before.0, waits - before.1);
            assert!(pages >= least, "{what}: {pages} pages");
            let sums = seen.entry(what.to_string()).or_default();
            *sums = (sums.0 + pages, sums.1 + waits);
        };
        let ids = |from: u64| (0..15).map(|n| (n * 700 + from).to_string()).collect::<Vec<_>>().join(",");
        check(&format!("select left(c, 1) from t where id in ({})", ids(50)), 15, 9);
        check(&format!("select left(c, 1) from t where id in ({}) for update", ids(250)), 15, 9);
        check("select left(c, 1) from t force index (k) where k between 1000 and 1019", 20, 14);
        check("select left(c, 1) from t where id between 3030 and 3120", 91, 11);
        // Nothing is read for rows that nobody will ask for.
        let mut read = |what: &str| {
            warm(&mut c);
            let what = format!("select left(c, 1) from t where {what} limit 1");
            c.run(&format!("explain {what}"));
            let (before, _) = page_reads(database);
            assert_eq!(c.run(&what).split("; ").count(), 1, "{what}");
            page_reads(database).0 - before
        };
        let pages = read("id in (1050, 4050, 8050, 9050)");
        assert!(pages <= 1, "{pages} pages for one row by key");
        // That of the entry comes with it.
        let pages = read("k between 5000 and 5400 order by k");
        assert!(pages <= 2, "{pages} pages for one row by index");
    };
    (1..=6).for_each(|seed| seeded_world(seed, &mut in_world));
    for (what, (pages, waits)) in seen {
        assert!(3 * waits <= 2 * pages, "{what}: {waits} waits for {pages} pages");
    }
}

#[test]
fn one_plan_serves_all_values_of_a_text() {
    world(|database| {
        let mut c = Client::new(database);
        c.script("create table t (id int primary key, c varchar(10), n decimal(8,3))");
        for id in 0u64..50 {
            c.script(&format!("insert into t values ({id}, 'v{id}', {id}.5) -> 1"));
        }
        for id in 0u64..50 {
            c.script(&format!("select c, n from t where id = {id} -> v{id}|{id}.500"));
            c.script(&format!("select {id}, c from t where id = {id} -> {id}|v{id}"));
            c.script(&format!("select id from t where c = 'v{id}' -> {id}"));
            c.script(&format!(
                "select n * {id}.25 from t where id = 1 -> {}",
                decimal(1500 * (id * 100 + 25))
            ));
        }
    });
}

#[test]
fn transactions_read_their_snapshot_and_their_own_writes() {
    world(|database| {
        let mut a = Client::new(database);
        let mut b = Client::new(database);
        a.script("create table t (id int primary key, v int)\ninsert into t values (1,1),(2,2)\nbegin\nselect v from t where id = 1 -> 1");
        b.script("update t set v = 9 where id = 1 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)\nselect v from t where id = 1 -> 9");
        a.script(
            "select v from t where id = 1 -> 1
             update t set v = v + 1 where id = 1 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)
             select v from t where id = 1 -> 10
             commit
             select sum(v) from t -> 12",
        );
    });
}

#[test]
fn queries_feed_tables() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (id int primary key auto_increment, k int default 5, c varchar(10) not null default 'x')
             insert into t (k) values (1),(2),(3) -> 3 id=1 (Records: 3  Duplicates: 0  Warnings: 0)
             insert into t (k, c) select k * 10, concat(c, id) from t -> 3 id=4 (Records: 3  Duplicates: 0  Warnings: 0)
             select id, k, c from t order by id -> 1|1|x; 2|2|x; 3|3|x; 4|10|x1; 5|20|x2; 6|30|x3
             create table s select id, c, k + 1 as kk from t where id > 3 -> 3 (Records: 3  Duplicates: 0  Warnings: 0)
             select * from s order by id -> 4|x1|11; 5|x2|21; 6|x3|31
             create table u (z int, primary key (id)) select id, k from t where id < 3 -> 2 (Records: 2  Duplicates: 0  Warnings: 0)
             select * from u order by id -> NULL|1|1; NULL|2|2",
        );
        let shown = database.show_create_table(database.catalog().table("test", "s").unwrap());
        assert_eq!(
            shown,
            "CREATE TABLE `s` (\n  `id` int(11) NOT NULL DEFAULT 0,\n  `c` varchar(10) NOT NULL DEFAULT 'x',\n  \
             `kk` bigint(12) DEFAULT NULL\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci"
        );
    });
}

#[test]
fn joins_choose_the_rows_of_changes() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table a (id int primary key, v int)
             create table b (id int primary key, a_id int, w int, key (a_id))
             insert into a values (1,1),(2,2),(3,3)
             insert into b values (1,1,10),(2,1,20),(3,2,30),(4,9,40)
             update a join b on b.a_id = a.id set a.v = a.v + 100, b.w = b.w + 1 -> 5 (Rows matched: 5  Changed: 5  Warnings: 0)
             select id, v from a -> 1|101; 2|102; 3|3
             select id, w from b -> 1|11; 2|21; 3|31; 4|40
             delete a from a left join b on b.a_id = a.id where b.id is null -> 1
             select id from a -> 1; 2
             delete from a, b using a join b on b.a_id = a.id where a.id = 1 -> 3
             select id from a -> 2
             select id from b -> 3; 4
             update a, b set v = nosuch -> ERROR 1054 (42S22): Unknown column 'nosuch' in 'SELECT'
             update a, b set id = 3 -> ERROR 1052 (23000): Column 'id' in SET is ambiguous
             delete z from a join b -> ERROR 1109 (42S02): Unknown table 'z' in MULTI DELETE
             check table a, b -> test.a|check|status|OK; test.b|check|status|OK",
        );
    });
}

/// A number of hundred-thousandths as DECIMAL(.., 5) prints it.
fn decimal(n: u64) -> String {
    format!("{}.{:05}", n / 100_000, n % 100_000)
}

#[test]
fn a_group_that_is_enough_is_the_last_one_read() {
    world(|database| {
        let mut c = Client::new(database);
        c.script("create table t (id int primary key, g int, key (g))");
        for id in 0..200 {
            c.script(&format!("insert into t values ({id}, {}) -> 1", id / 50));
        }
        c.session.handler = Default::default();
        c.script("select g, count(*) from t group by g limit 1 -> 0|50");
        assert_eq!(c.session.handler.rows_read, 51, "the group, and the row that ends it");
    });
}

#[test]
fn a_correlated_subquery_without_an_index_reads_its_table_a_few_times() {
    world(|database| {
        let mut c = Client::new(database);
        c.script("create table o (id int primary key, a int)");
        c.script("create table q (id int primary key, a int, b int)");
        for id in 0..100 {
            c.script(&format!("insert into o values ({id}, {}) -> 1", id % 40));
            c.script(&format!("insert into q values ({id}, {}, 1) -> 1", id % 50));
        }
        let mut rows_read = |sql: &str| {
            c.session.handler = Default::default();
            c.script(sql);
            c.session.handler.rows_read
        };
        // Two are asked for one by one, then all at once.
        let few = 100 + 3 * 100;
        let sum = "select sum((select count(*) from q where q.a = o.a)) from o -> 200";
        assert_eq!(rows_read(sum), few);
        let exists = "select count(*) from o where not exists (select * from q where q.a = o.a + 45) -> 85";
        assert!(rows_read(exists) <= few);
        // Not by an equality alone: each of the forty values once.
        let less = "select count((select max(b) from q where q.a < o.a)) from o -> 97";
        assert_eq!(rows_read(less), 100 + 40 * 100);
    });
}

//! Sorts, groups, joins, sets and derived tables that do not fit into their memory go to temporary files and answer alike.

use std::sync::Arc;

use crate::common::{Client, NoServer, world};
use keel_exec::{Interrupt, InterruptState, ResultColumns, RowSink, RowView, SqlResult};

/// A table of `count` rows: a mixed number, one of few values, text.
fn fill(client: &mut Client, count: u32) {
    client.run("create database test");
    client.run("create table t (id int primary key, a int, b int, s varchar(60))");
    for start in (0..count).step_by(500) {
        let rows: Vec<String> = (start..start + 500)
            .map(|i| {
                let mixed = i.wrapping_mul(2_654_435_761) >> 8;
                format!("({i}, {mixed}, {}, 'some text that fills the row {i}')", i % 1000)
            })
            .collect();
        client.try_run(&format!("insert into t values {}", rows.join(","))).expect("inserts");
    }
}

fn both(client: &mut Client, sql: &str) -> String {
    client.session.vars.sort_buffer_bytes = 64 << 20;
    client.session.vars.tmp_memory_bytes = 64 << 20;
    let in_memory = client.try_run(sql).expect("in memory");
    client.session.vars.sort_buffer_bytes = 1;
    client.session.vars.tmp_memory_bytes = 1;
    let host = std::mem::replace(&mut client.session.host, Arc::new(NoServer::without_memory()));
    let spilled = client.try_run(sql).expect("spilled");
    client.session.host = host;
    assert!(in_memory == spilled, "{sql} differs when it spills");
    spilled
}

#[test]
fn joins_by_hash_that_do_not_fit_into_memory_answer_alike() {
    world(|database| {
        let mut client = Client::new(database);
        fill(&mut client, 4_000);
        let sums = "count(*), count(y.id), sum(x.a), sum(y.a), sum(y.id)";
        let hashed = client.run("explain select * from t x join t y on x.s = y.s");
        assert!(hashed.contains("Using join buffer"), "{hashed}");
        // Rows alone are too many for memory, then also what finds them, then those of one key are several blocks.
        for (left, right, on) in [
            ("1=1", "y.id % 5 = 0", "x.s = y.s"),
            ("1=1", "1=1", "x.s = y.s"),
            ("1=1", "1=1", "x.s = y.s and x.b = y.b"),
            ("x.id < 20", "1=1", "x.id % 4 = y.a % 3"),
        ] {
            both(&mut client, &format!("select {sums} from t x join t y on {on} where {left} and {right}"));
            both(
                &mut client,
                &format!("select {sums} from t x left join t y on {on} and {right} where {left}"),
            );
        }
        let none =
            "select x.id, y.id from t x left join t y on concat(x.s, '!') = y.s order by 1 desc limit 1";
        assert_eq!(both(&mut client, none), "3999|NULL");
    });
}

#[test]
fn sets_that_do_not_fit_into_memory_answer_alike() {
    world(|database| {
        let mut client = Client::new(database);
        fill(&mut client, 4_000);
        let queries = [
            ("select count(*), sum(id) from t where s in (select s from t where b < 500)", "2000|3499000"),
            ("select count(*) from t where concat(s, id % 2) not in (select concat(s, '1') from t)", "2000"),
            ("select count(*) from t where (a, s) in (select a, s from t where b >= 300)", "2800"),
            (
                "select count(*) from t where (b, s) not in (select nullif(b, 300), s from t where b >= 300)",
                "1200",
            ),
            (
                "select count(*), sum(a) > 0 from (select a, s from t union select a, s from t where b < 500) u",
                "4000|1",
            ),
            ("select count(*) from (select s from t except select s from t where b < 500) u", "2000"),
            ("select count(*) from (select s from t intersect select s from t where b < 500) u", "2000"),
            (
                "select count(*) from (select s from t union all select s from t except all select s from t) u",
                "4000",
            ),
            (
                "select count(*), sum(c) from (select distinct s, count(*) c from t group by s, id) u",
                "4000|4000",
            ),
            (
                "select distinct b, s, count(*) from t group by s, b order by s limit 1 offset 77",
                "67|some text that fills the row 1067|1",
            ),
        ];
        for (sql, expected) in queries {
            assert_eq!(both(&mut client, sql), expected, "{sql}");
        }
        both(&mut client, "select distinct s, count(*) from t group by s order by s desc");
    });
}

#[test]
fn what_does_not_fit_into_memory_answers_alike() {
    world(|database| {
        let mut client = Client::new(database);
        fill(&mut client, 10_000);
        let sorted = both(&mut client, "select a, s from t order by a");
        let numbers: Vec<u32> =
            sorted.split("; ").map(|row| row.split('|').next().unwrap().parse().unwrap()).collect();
        assert_eq!(numbers.len(), 10_000);
        assert!(numbers.is_sorted());
        let grouped =
            "select count(*), sum(n), min(x) from (select s, count(*) n, min(a) x from t group by s) g";
        assert!(both(&mut client, grouped).starts_with("10000|10000|0"));
        both(&mut client, "select b, count(*), max(s) from t group by b order by b");
        both(&mut client, "select distinct s from t order by s desc");
        both(&mut client, "select count(*) from (select id, s from t) x join t on t.id = x.id");
        both(&mut client, "select a, repeat(s, 30) from t order by a");
        both(&mut client, "select a from t where id < 5000 union all select b from t order by a limit 100");
    });
}

/// Kills its statement when the first row comes.
struct KillAtFirstRow {
    interrupt: Arc<Interrupt>,
    rows: u32,
}

impl RowSink for KillAtFirstRow {
    fn columns(&mut self, _: &Arc<ResultColumns>) -> SqlResult<()> {
        Ok(())
    }

    fn row(&mut self, _: RowView<'_>) -> SqlResult<()> {
        self.rows += 1;
        self.interrupt.raise(InterruptState::Query);
        Ok(())
    }
}

#[test]
fn a_kill_ends_what_gives_out_kept_rows() {
    world(|database| {
        let mut client = Client::new(database);
        fill(&mut client, 3_000);
        for memory in [true, false] {
            let host = if memory { NoServer::default() } else { NoServer::without_memory() };
            client.session.host = Arc::new(host);
            for sql in [
                "select s from t order by s",
                "select s, count(*) from t group by s",
                "select distinct s, count(*) from t group by s, a",
                "select distinct s, count(*) from t group by s order by s",
                "select s from t union select s from t",
                "select s from t union all select s from t order by s",
                "select s from t except all select s from t where b = 1",
                "select s from (select s, a from t limit 9999) d",
                "select x.s from t x join t y on x.s = y.s",
                "select s, sum(a) over (order by s rows 5 preceding) from t",
                "select s, count(*) from t group by s with rollup",
            ] {
                let mut sink = KillAtFirstRow { interrupt: client.session.interrupt.clone(), rows: 0 };
                let ended = client.run_into(sql, &mut sink).map(|_| ());
                let ended = ended.expect_err(sql).to_string();
                assert_eq!(ended, "ERROR 1317 (70100): Query execution was interrupted", "{sql}");
                assert!(sink.rows < 200, "{sql} goes on for {} rows", sink.rows);
            }
        }
    });
}

#[test]
fn a_limit_keeps_the_best_rows_only() {
    world(|database| {
        let mut client = Client::new(database);
        fill(&mut client, 3_000);
        let all = client.run("select a from t order by a");
        let first: Vec<&str> = all.split("; ").take(25).collect();
        assert_eq!(client.run("select a from t order by a limit 25"), first.join("; "));
        assert_eq!(client.run("select a from t order by a limit 5 offset 20"), first[20..].join("; "));
    });
}

#[test]
fn changes_that_collect_more_than_fits_change_alike() {
    let scripts = [
        "update t set a = a + 1 order by s limit 6000",
        "delete from t order by a desc limit 3000",
        "insert into t select id + 20000, a, b, s from t",
        "update t x join t y on x.id = y.id set x.a = y.b, x.s = concat(y.s, '!')",
        "delete x from t x join t y on x.b = y.b where y.id < 300",
        "update t set id = id + 1 order by id desc",
    ];
    let answers: Vec<String> = [64 << 20, 1]
        .iter()
        .map(|bytes| {
            world(|database| {
                let mut client = Client::new(database);
                fill(&mut client, 10_000);
                client.session.vars.sort_buffer_bytes = *bytes;
                client.session.vars.tmp_memory_bytes = *bytes;
                let sum = "select count(*), sum(id), sum(a), sum(b), md5(group_concat(s order by id)) from t";
                let mut each = |sql: &&str| {
                    let done = client.run(sql);
                    format!("{done} {}", client.run(sum))
                };
                scripts.iter().map(&mut each).collect::<Vec<_>>().join("\n")
            })
        })
        .collect();
    assert!(!answers[0].contains("ERROR"), "{}", answers[0]);
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn aggregates_that_do_not_fit_into_memory_answer_alike() {
    world(|database| {
        let mut client = Client::new(database);
        fill(&mut client, 10_000);
        let all = "select count(distinct s), count(distinct a, b), sum(distinct b), avg(distinct a), max(distinct s) from t";
        assert!(both(&mut client, all).starts_with("10000|10000|499500|"));
        both(
            &mut client,
            "select b % 7 g, count(distinct s), sum(distinct a), max(s) from t group by g order by g",
        );
        both(
            &mut client,
            "select b % 30 g, count(*), group_concat(distinct s order by s) from t group by g order by g",
        );
        let concat =
            "select md5(group_concat(s order by a desc)), md5(group_concat(distinct s order by s)) from t";
        both(&mut client, concat);
        both(
            &mut client,
            "select b % 900 g, md5(group_concat(s order by a)), count(*), min(s) from t group by g order by g",
        );
        client.session.vars.group_concat_max_len = 1000;
        assert_eq!(both(&mut client, "select length(group_concat(s order by a)) from t"), "1000");
        // Texts too short to be cut, so that every row may count: their sort keys are too many for memory.
        let few = "select group_concat(if(b = 7, id, '') order by s separator '') from t";
        assert_eq!(both(&mut client, few), "1007200730074007500760077700780079007");
        let some =
            "select group_concat(if(b = 7, id, '') order by a desc, s separator '' limit 100, 9000) from t";
        both(&mut client, some);
    });
}

#[test]
fn changes_that_keep_more_than_fits_change_each_row_once() {
    world(|database| {
        let mut client = Client::new(database);
        fill(&mut client, 12_000);
        client.run("create table u (id int primary key, a int, b int, c int, key (a), key (b))");
        client.run("insert into u select id, id % 4, id % 5, 0 from t");
        let plan = client.run("explain update u set c = c + 1 where a = 1 or b = 1");
        assert!(plan.contains("Using union(a,b)"), "{plan}");
        both(&mut client, "select id from u where a = 1 or b = 1 order by id for update");
        client.session.vars.sort_buffer_bytes = 1;
        client.session.vars.tmp_memory_bytes = 1;
        client.session.host = Arc::new(NoServer::without_memory());
        client.script(
            "update u set c = c + 1 where a = 1 or b = 1 -> 4800 (Rows matched: 4800  Changed: 4800  Warnings: 0)
             select count(*), sum(c), max(c) from u where c > 0 -> 4800|4800|1
             update u set a = a + 1 where a = 1 or b = 1 -> 4800 (Rows matched: 4800  Changed: 4800  Warnings: 0)
             select sum(a) from u -> 22800
             update u set c = (select max(x.id) + 5 from u x where x.id <= u.id) -> 12000 (Rows matched: 12000  Changed: 12000  Warnings: 0)
             select count(*) from u where c = id + 5 -> 12000
             delete from u where exists (select 1 from u x where x.id = u.id - 1) -> 11999
             select id from u -> 0",
        );
    });
}

#[test]
fn indexes_that_are_built_with_a_sort_on_disk_are_sound_and_dense() {
    world(|database| {
        let mut client = Client::new(database);
        fill(&mut client, 20_000);
        client.run("alter table t add column o int");
        client.run("update t set o = id");
        let mut pages = |sql: &str| {
            let created = |client: &Client| client.database.engine().status().store.creates;
            let before = created(&client);
            client.run(sql);
            created(&client) - before
        };
        // As dense, then, as if rows came in order.
        let (mixed, in_order) = (pages("create index a on t (a)"), pages("create index o on t (o)"));
        assert!(mixed.abs_diff(in_order) < 5, "{mixed} pages, and {in_order} for rows in order");
        client.session.vars.tmp_memory_bytes = 1;
        let host = std::mem::replace(&mut client.session.host, Arc::new(NoServer::without_memory()));
        client.run("alter table t drop index a, add index a (a), add unique key u (s, b), add key (b)");
        let refused = client.run("alter table t add unique key (b)");
        assert!(refused.contains("1062") && refused.contains("'0' for key"), "{refused}");
        client.run("insert into t (id) values (20000), (20001)");
        client.run("alter table t add unique key n (a, id), add unique key nulls (s)");
        client.session.host = host;
        assert_eq!(client.run("check table t"), "test.t|check|status|OK");
        assert_eq!(client.run("select count(*) from t force index (u) where s is null"), "2");
    });
}

#[test]
fn windows_rollups_and_recursions_that_do_not_fit_into_memory_answer_alike() {
    world(|database| {
        let mut client = Client::new(database);
        fill(&mut client, 4_000);
        for (window, functions) in [
            ("order by s, id", "row_number() over w, lag(s, 700) over w, sum(a) over w"),
            ("partition by b % 3 order by s, id", "rank() over w, ntile(7) over w, last_value(s) over w"),
            ("order by id rows between 900 preceding and 40 following", "sum(a) over w, max(s) over w"),
            ("order by b range between 20 preceding and 20 following", "count(*) over w, min(a) over w"),
            ("partition by b % 2", "sum(a) over w, max(s) over w, row_number() over (order by a, id)"),
        ] {
            both(&mut client, &format!("select id, {functions} from t window w as ({window}) order by id"));
        }
        both(&mut client, "select distinct median(a) over (partition by b % 7) m from t order by m");
        both(&mut client, "select b % 9 x, s, count(*), sum(a) from t group by x, s with rollup");
        let path = "with recursive c as (select id, s from t where id < 900 union \
                    select (c.id * 7) % 4000, t.s from c join t on t.id = (c.id * 7) % 4000) \
                    select count(*), sum(id), max(s) from c";
        both(&mut client, path);
    });
}

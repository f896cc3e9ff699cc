//! Statements with words lost, doubled and exchanged never do worse than fail: no panic, and indexes still agree with rows.

use crate::common::*;

const CORPUS: &[&str] = &[
    "insert into t (id, k, c) values (1, 2, 'x'), (null, default, 'y')",
    "insert into t set k = 5, c = concat('a', 1), n = 1.5",
    "insert ignore into t values (1, 1, 'a', '2020-01-01', 2.5, 'x')",
    "insert into t (id, k) values (1, 1) on duplicate key update k = k + values(k), c = 'd'",
    "insert into t (k, c) select k + 1, c from t where id < 10 order by id desc limit 3",
    "replace into t values (2, 2, 'b', null, 1, 'y')",
    "update t set k = k + 1, c = upper(c) where id between 1 and 5 order by k desc limit 2",
    "update t set id = id + 100 where k in (1, 2, 3) or c like 'a%'",
    "update t, u set t.k = u.v, u.v = 7 where t.id = u.id",
    "update ignore t set c = 'x', d = now() where n > 1.5 and e = 'x'",
    "delete from t where c is null or n <=> 2.5 limit 3",
    "delete t, u from t left join u on t.id = u.id where u.v is null",
    "select * from t where id = 3",
    "select t.k, count(*), sum(n), max(c) from t join u on u.id = t.id group by t.k having count(*) > 0 order by 2 desc, k limit 5",
    "select distinct c, k from t where d >= '2020-01-01' and d < '2021-01-01' order by c desc limit 2, 3",
    "select id, (select v from u where u.id = t.id) as v, case when k > 1 then 'a' else c end from t where exists (select 1 from u)",
    "select 1 union select k from t union all (select id from u order by id limit 1) order by 1",
    "select * from t where k in (select v from u where v > 0) for update",
    "select id from t use index (k) where k = 1 lock in share mode",
    "alter table t add column z int default 3 after k, add key zk (z, c(2))",
    "alter table t drop column n, modify c varchar(30) not null default 'q'",
    "alter table t add unique u (c, k), drop key k, rename column d to dd",
    "alter table u add primary key (v), comment 'x', auto_increment = 50",
    "create table w (a int primary key auto_increment, b enum('x','y') default 'x', c decimal(5,2), key (b, c desc)) engine=innodb",
    "create table if not exists w like t",
    "create table w select id, c from t where k > 0",
    "create index ki on t (n, e)",
    "create unique index ku on u (v)",
    "drop index k on t",
    "drop table if exists w, x",
    "rename table u to x, x to u",
    "truncate table u",
    "begin",
    "commit",
    "rollback",
    "savepoint s",
    "rollback to savepoint s",
    "explain select * from t where k = 1 order by id",
    "check table t, u",
    "do 1 + 1, concat('a', null)",
];

fn mutated(r: &mut Random) -> String {
    let mut words: Vec<&str> = CORPUS[r.below(CORPUS.len())].split(' ').collect();
    for _ in 0..r.below(3) {
        let at = r.below(words.len());
        match r.below(4) {
            0 if words.len() > 1 => {
                words.remove(at);
            }
            1 => words.insert(at, words[r.below(words.len())]),
            2 => {
                let other: Vec<&str> = CORPUS[r.below(CORPUS.len())].split(' ').collect();
                words[at] = other[r.below(other.len())];
            }
            _ => {
                let odd = [
                    "null",
                    "-1",
                    "''",
                    "99999999999999999999",
                    "1e400",
                    "(select 1)",
                    "'2020-02-30'",
                    "x'ff'",
                    "*",
                ];
                words[at] = odd[r.below(odd.len())];
            }
        }
    }
    words.join(" ")
}

#[test]
fn no_statement_panics_and_indexes_agree_afterwards() {
    for seed in [0x1234_5678_u64, 0x9e37_79b9, 0xdead_beef, 0x0bad_cafe] {
        world(|database| {
            let mut r = Random(seed);
            let mut succeeded = 0;
            let mut c = Client::new(database);
            let setup = [
                "drop table if exists t, u, w, x",
                "create table t (id int primary key auto_increment, k int default 1, c varchar(20), d datetime, n decimal(8,2), e enum('x','y'), key k (k), key c (c, k))",
                "create table u (id int not null, v int, key (id))",
                "insert into t (k, c, n) values (1,'a',1.5),(2,'b',2.5),(3,'c',3.5)",
                "insert into u values (1,1),(2,2)",
            ];
            for round in 0..4000 {
                if round % 40 == 0 {
                    c.run("commit");
                    setup.iter().for_each(|sql| {
                        c.run(sql);
                    });
                }
                let sql = mutated(&mut r);
                succeeded += u32::from(c.try_run(&sql).is_ok());
                if round % 50 == 49 {
                    c.run("commit");
                    for table in database.catalog().schema("test").unwrap().tables() {
                        let checked = c.run(&format!("check table `{}`", table.name));
                        assert!(
                            checked.ends_with("|status|OK"),
                            "seed {seed:#x} round {round}: {sql}: {checked}"
                        );
                    }
                }
            }
            assert!(succeeded > 1000, "seed {seed:#x}: only {succeeded} of 4000 statements ran");
        });
    }
}

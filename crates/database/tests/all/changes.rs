//! INSERT, REPLACE, UPDATE, DELETE: counts, messages, warnings, AUTO_INCREMENT, and rows that agree with their indexes.

use crate::common::*;

#[test]
fn counts_and_messages_are_mariadbs() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (id int primary key auto_increment, k int not null default 0, c varchar(10), unique key (c), key (k))
             insert into t (c) values ('a') -> 1 id=1
             insert into t (k, c) values (1,'b'),(2,'c') -> 2 id=2 (Records: 2  Duplicates: 0  Warnings: 0)
             insert into t values (10,5,'d') -> 1 id=10
             insert into t values (null,5,'e'),(0,6,'f') -> 2 id=11 (Records: 2  Duplicates: 0  Warnings: 0)
             insert into t values (1,1,'x') -> ERROR 1062 (23000): Duplicate entry '1' for key 'PRIMARY'
             insert into t (c) values ('A') -> ERROR 1062 (23000): Duplicate entry 'A' for key 'c'
             insert ignore into t (c) values ('a'),('z') -> 1 id=14 (Records: 2  Duplicates: 1  Warnings: 1)
             insert into t values (1,2) -> ERROR 1136 (21S01): Column count doesn't match value count at row 1
             insert into t (nosuch) values (1) -> ERROR 1054 (42S22): Unknown column 'nosuch' in 'INSERT INTO'
             insert into t (k,k) values (1,1) -> ERROR 1110 (42000): Column 'k' specified twice
             insert into t (k) values (null) -> ERROR 1048 (23000): Column 'k' cannot be null
             insert into t (k) values ('abc') -> ERROR 1366 (22007): Incorrect integer value: 'abc' for column `test`.`t`.`k` at row 1
             insert into t (k,c) values (1,'q'),(2,'way too long for it') -> ERROR 1406 (22001): Data too long for column 'c' at row 2
             insert into t (k) values (3000000000) -> ERROR 1264 (22003): Out of range value for column 'k' at row 1
             update t set k = k + 1 where id = 1 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)
             update t set k = 1 where id = 1 -> 0 (Rows matched: 1  Changed: 0  Warnings: 0)
             update t set k = 7 where id = 999 -> 0 (Rows matched: 0  Changed: 0  Warnings: 0)
             update t set k = 100 where k = 5 -> 2 (Rows matched: 2  Changed: 2  Warnings: 0)
             update t set c = 'a' where id = 2 -> ERROR 1062 (23000): Duplicate entry 'a' for key 'c'
             update t set id = 1 where id = 2 -> ERROR 1062 (23000): Duplicate entry '1' for key 'PRIMARY'
             update t set id = 20, k = 8 where id = 2 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)
             delete from t where id = 3 -> 1
             delete from t where id = 3 -> 0
             delete from t where k = 100 -> 2
             delete from t order by id desc limit 1 -> 1
             delete from t -> 3",
        );
    });
}

#[test]
fn duplicates_displace_rows_as_asked() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (id int primary key auto_increment, a int unique, b int)
             insert into t values (1,1,1),(2,2,2),(3,3,3) -> 3 id=3 (Records: 3  Duplicates: 0  Warnings: 0)
             replace into t values (1,1,10) -> 2 id=1
             replace into t values (1,2,12) -> 3 id=1
             replace into t (a,b) values (9,9) -> 1 id=4
             insert into t values (3,3,3) on duplicate key update b = b + 1 -> 2 id=3
             insert into t values (3,3,3) on duplicate key update b = 4 -> 0
             insert into t (a,b) values (3,77) on duplicate key update b = values(b) + b -> 2 id=3
             update t set b = 0 where b = 81 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)
             insert into t (a,b) values (3,1),(50,2) on duplicate key update b = b + values(b) -> 3 id=6 (Records: 2  Duplicates: 1  Warnings: 0)
             insert into t (a) values (50) on duplicate key update a = 3 -> ERROR 1062 (23000): Duplicate entry '3' for key 'a'",
        );
    });
}

#[test]
fn strictness_decides_between_error_and_warning() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (a tinyint, b varchar(3) not null, c datetime, d decimal(4,1), e enum('x','y'))",
        );
        c.session.vars.sql_mode = keel_value::SqlMode::EMPTY;
        c.run("insert into t values (300,'abcdef','nonsense',12345.67,'zz')");
        assert_eq!(
            c.warnings(),
            "Warning 1264 Out of range value for column 'a' at row 1\n\
             Warning 1265 Data truncated for column 'b' at row 1\n\
             Warning 1265 Data truncated for column 'c' at row 1\n\
             Warning 1264 Out of range value for column 'd' at row 1\n\
             Warning 1265 Data truncated for column 'e' at row 1"
        );
        c.run("insert into t (a) values (1)");
        assert_eq!(c.warnings(), "Warning 1364 Field 'b' doesn't have a default value");
        c.session.vars.sql_mode = keel_value::SqlMode::DEFAULT;
        c.script(
            "insert into t (a) values (1) -> ERROR 1364 (HY000): Field 'b' doesn't have a default value
             insert ignore into t (a,b) values (300,'x') /*w*/",
        );
        assert_eq!(c.warnings(), "Warning 1264 Out of range value for column 'a' at row 1");
    });
}

#[test]
fn a_failed_statement_leaves_nothing_and_the_transaction_goes_on() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (id int primary key, k int, key (k))
             begin
             insert into t values (1,1) -> 1
             insert into t values (2,2),(1,1) -> ERROR 1062 (23000): Duplicate entry '1' for key 'PRIMARY'
             insert into t values (3,3) -> 1
             savepoint s
             delete from t -> 2
             rollback to s
             update t set k = 5 -> 2 (Rows matched: 2  Changed: 2  Warnings: 0)
             rollback to nosuch -> ERROR 1305 (42000): SAVEPOINT nosuch does not exist
             commit
             delete from t where id = 2 -> 0
             delete from t where k = 5 -> 2
             begin
             insert into t values (9,9) -> 1
             rollback
             delete from t -> 0",
        );
    });
}

#[test]
fn auto_increment_follows_increment_offset_and_given_values() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (id tinyint unsigned primary key auto_increment, v int)
             insert into t (v) values (1) -> 1 id=1
             insert into t values (100,1) -> 1 id=100
             insert into t (v) values (2) -> 1 id=101",
        );
        c.session.vars.auto_increment_increment = 10;
        c.session.vars.auto_increment_offset = 5;
        c.script("insert into t (v) values (3),(4) -> 2 id=105 (Records: 2  Duplicates: 0  Warnings: 0)");
        c.session.vars.auto_increment_increment = 1;
        c.session.vars.auto_increment_offset = 1;
        c.script(
            "insert into t values (255,1) -> 1 id=255
             insert into t (v) values (1) -> ERROR 167 (22003): Out of range value for column 'id' at row 1
             truncate table t -> 0
             insert into t (v) values (1) -> 1 id=1
             update t set id = 30 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)
             insert into t (v) values (1) -> 1 id=31
             truncate table t -> 0
             insert into t (v) values (1) -> 1 id=1",
        );
        assert_eq!(c.session.last_insert_id, 1);
        c.script(
            "create table a (id int primary key auto_increment, v int)
             insert into a (v) values (1),(2),(3) -> 3 id=1 (Records: 3  Duplicates: 0  Warnings: 0)
             insert into a (v) select v from a -> 3 id=4 (Records: 3  Duplicates: 0  Warnings: 0)
             insert into a (v) values (9) -> 1 id=7
             insert into a values (50,1),(null,2),(null,3) -> 3 id=51 (Records: 3  Duplicates: 0  Warnings: 0)
             insert into a (v) values (1) -> 1 id=54",
        );
        c.session.vars.insert_id = Some(1000);
        c.script(
            "insert into a (v) values (1),(2) -> 2 id=1000 (Records: 2  Duplicates: 0  Warnings: 0)
             insert into a (v) values (1) -> 1 id=1002",
        );
    });
}

#[test]
fn answers_name_the_row_that_a_duplicate_changed_and_the_id_that_a_function_said() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (id int primary key auto_increment, v int unique, b int)
             insert into t values (5,1,1) -> 1 id=5
             insert into t (v) values (1) on duplicate key update b=9 -> 2 id=5
             insert into t (v) values (1) on duplicate key update id=last_insert_id(id) -> 0 id=5
             update t set b=last_insert_id(77) -> 1 id=77 (Rows matched: 1  Changed: 1  Warnings: 0)
             update t set b=1 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)",
        );
    });
}

#[test]
fn index_entries_agree_with_rows_after_any_change() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (a varchar(20) not null, b int, c varchar(30), d datetime, primary key (a), unique key (b, c), key (c(3)), key (d desc, b))",
        );
        for n in 0..300 {
            c.run(&format!(
                "insert into t values ('r{n}', {}, 'text {}', '2020-01-{:02}')",
                n % 50,
                n,
                n % 28 + 1
            ));
        }
        c.script(
            "update t set b = b + 1000 where b < 10 order by a limit 30
             update t set c = concat(c, '!'), d = null where a like 'r1%'
             update t set a = concat(a, 'x') where b between 20 and 30
             delete from t where b in (1, 2, 3, 40, 41) or c = 'text 7'
             replace into t values ('r77', 5, 'replaced', null), ('new', 5, 'replaced', null)
             insert into t values ('r100', 1, 'dup', null) on duplicate key update c = 'changed', b = null",
        );
        assert_eq!(c.run("check table t"), "test.t|check|status|OK");
    });
}

#[test]
fn altered_tables_keep_their_rows() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (id int primary key auto_increment, k int, c varchar(10))
             insert into t (k, c) values (1,'a'),(2,'b'),(2,'c') -> 3 id=1 (Records: 3  Duplicates: 0  Warnings: 0)
             create unique index u on t (k) -> ERROR 1062 (23000): Duplicate entry '2' for key 'u'
             create index i on t (k) -> 0 (Records: 0  Duplicates: 0  Warnings: 0)
             create index i on t (c) -> ERROR 1061 (42000): Duplicate key name 'i'
             alter table t add column d int not null default 7, add key (d) -> 0 (Records: 0  Duplicates: 0  Warnings: 0)
             update t set d = 8 where k = 1 -> 1 (Rows matched: 1  Changed: 1  Warnings: 0)
             delete from t where d = 7 and c = 'c' -> 1
             alter table t add column e varchar(5) default 'x' first -> 0 (Records: 0  Duplicates: 0  Warnings: 0)
             delete from t where e = 'x' and d = 8 -> 1
             alter table t drop column k, modify c varchar(20) charset latin1 -> 1 (Records: 1  Duplicates: 0  Warnings: 0)
             alter table t drop primary key, add primary key (c), add unique (id) -> 0 (Records: 0  Duplicates: 0  Warnings: 0)
             insert into t (c) values ('n') -> 1 id=4
             rename table t to s
             insert into s (c) values ('m') -> 1 id=5
             drop index d on s -> 0 (Records: 0  Duplicates: 0  Warnings: 0)
             check table s -> test.s|check|status|OK
             create table r (id int primary key, v int)
             insert into r values (1,1) -> 1
             alter table r modify id int, drop primary key -> 1 (Records: 1  Duplicates: 0  Warnings: 0)
             insert into r values (null,1),(1,1) -> 2 (Records: 2  Duplicates: 0  Warnings: 0)
             delete r from r where id = 1 -> 2
             delete from x using r as x -> 1
             alter table r modify v bigint not null, add primary key (v) -> 0 (Records: 0  Duplicates: 0  Warnings: 0)",
        );
        let shown = database.show_create_table(database.catalog().table("test", "s").unwrap());
        assert_eq!(
            shown,
            "CREATE TABLE `s` (\n  `e` varchar(5) DEFAULT 'x',\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `c` varchar(20) \
             CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL,\n  `d` int(11) NOT NULL DEFAULT 7,\n  PRIMARY KEY \
             (`c`),\n  UNIQUE KEY `id` (`id`)\n) ENGINE=InnoDB AUTO_INCREMENT=6 DEFAULT CHARSET=utf8mb4 \
             COLLATE=utf8mb4_general_ci"
        );
    });
}

#[test]
fn defaults_may_be_expressions() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (a int default (1 + 2), b varchar(20) default (concat('x', a)), c int default 7)
             insert into t (c) values (1) -> 1
             insert into t values (5, default, default) -> 1
             delete from t where a = 3 and b = 'x3' -> 1
             delete from t where a = 5 and b = 'x5' and c = 7 -> 1",
        );
    });
}

#[test]
fn warnings_of_expressions_are_errors_of_strict_changes() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (id int primary key, s varchar(10), v int)
             insert into t values (1,'abc',1),(2,'5',2) -> 2 (Records: 2  Duplicates: 0  Warnings: 0)
             update t set v=9 where s + 0 = 5 -> ERROR 1292 (22007): Truncated incorrect DOUBLE value: 'abc'
             insert into t values (11,'x',1/0) -> ERROR 1365 (22012): Division by 0
             insert into t values (12,'x','12abc'+1) -> ERROR 1292 (22007): Truncated incorrect DOUBLE value: '12abc'
             update t set v = 1/0 -> ERROR 1365 (22012): Division by 0
             update ignore t set v = 1/0 -> 2 (Rows matched: 2  Changed: 2  Warnings: 2)
             delete from t where s + 0 = 6 /*w*/ -> 0",
        );
        assert_eq!(c.warnings(), "Warning 1292 Truncated incorrect DOUBLE value: 'abc'");
    });
}

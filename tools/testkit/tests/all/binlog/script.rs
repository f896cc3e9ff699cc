//! Statements that write every kind of event.

use keel_testkit::client::Client;
use std::path::Path;

/// Tables with every type of column.
pub const TABLES: &[&str] = &[
    "create table ints (id int primary key auto_increment, a tinyint, b smallint unsigned, c mediumint, d int unsigned, e bigint)",
    "create table numbers (id int primary key, a decimal(10,2), b decimal(65,30) unsigned, c float, d double unsigned, e bit(1), f bit(17), g year)",
    "create table times (id int primary key, a date, b time, c time(3), d datetime, e datetime(6), f timestamp null, g timestamp(2) null)",
    "create table texts (id int primary key, a char(10) character set latin1, b char(200), c varchar(10), d varchar(300), \
     e binary(5), f varbinary(300), g tinytext, h text character set latin1, i mediumblob, j longblob, k json)",
    "create table others (id int primary key, a enum('x','y') character set latin1, b set('p','q','r'), c inet4, d inet6, e uuid, \
     f point, g polygon, h varchar(200) compressed, i text compressed)",
    "create table members (id int primary key, a enum('x'), b set('y'))",
    "create table prefixed (a varchar(100), b text, c int, primary key (a(10), b(20), c))",
    "create table keyless (a int, b varchar(20))",
    "create table generated (id int primary key, a int, b int as (a + 1) stored, c int as (a * 2) virtual)",
    "create table moved (a int, b int) engine=myisam",
    "create table log_of_user (a text, b text, c double, d decimal(20,5), e text, f bigint unsigned)",
];

/// Statements of one session on those tables.
pub const CHANGES: &[&str] = &[
    "insert into ints (a, b, c, d, e) values (-128, 65535, -8388608, 4294967295, -9223372036854775808), (null, null, null, null, null)",
    "insert into ints (a) values (last_insert_id())",
    "insert into numbers values (1, -12345678.91, 1.5, -1.25, 1e300, 1, 131071, 2155), (2, null, null, null, null, null, null, 0)",
    "insert into times values (1, '2024-02-29', '-838:59:59', '12:00:00.123', '9999-12-31 23:59:59', '1000-01-01 00:00:00.000001', \
     '2038-01-19 03:14:07', '1970-01-01 00:00:01.99'), (2, '0000-00-00', 0, 0, '0000-00-00', '2024-00-00', '0000-00-00', null)",
    "insert into texts values (1, 'a', repeat('ü', 200), 'b', repeat('c', 300), 'd', repeat('e', 300), 'f', 'g', repeat('h', 70000), 'i', '{\"a\": 1}')",
    "insert into texts values (2, '', '', '', '', '', '', '', '', '', '', '1'), (3, null, null, null, null, null, null, null, null, null, null, null)",
    "insert into others values (1, 'y', 'p,r', '1.2.3.4', '::1', '123e4567-e89b-12d3-a456-426614174000', point(1, 2), null, repeat('x', 200), repeat('y', 9000)), \
     (2, null, null, null, null, null, null, null, null, null), (3, 1, '', '0.0.0.0', '::', '00000000-0000-0000-0000-000000000000', point(0, 0), null, '', '')",
    "insert into members values (1, 'x', 'y')",
    "insert into prefixed values ('a', 'b', 1), ('a', 'b', 2)",
    "insert into keyless values (1, 'x'), (1, 'x'), (null, null)",
    "insert into generated (id, a) values (1, 5)",
    "update ints set a = 1, e = null where id = 1",
    "update texts set c = 'changed', j = null where id = 1",
    "update others set i = 'short', b = 'q'",
    "update generated set a = 6",
    "update ints, keyless set ints.b = 4, keyless.b = 'y' where keyless.a = 1",
    "update prefixed set b = 'c' where c = 2",
    "replace into ints (id, a) values (1, 7), (50, 8)",
    "insert into ints (id, a) values (1, 1) on duplicate key update a = a + 1",
    "delete from keyless limit 1",
    "delete ints, keyless from ints, keyless where ints.id = 2",
    "delete from texts where id = 2",
    "set @s = 'text', @e = '', @r = 1.5e0, @d = 12.345, @n = null, @u = 18446744073709551615",
    "insert into log_of_user values (@s, @e, @r, @d, @n, @u)",
    "set @s = _latin1 x'e4', @u = -1, @d = -0.00001",
    "insert into log_of_user values (@s, @e, @r, @d, @n, 1)",
    "insert into keyless values (rand() * 100, 'rand')",
    "insert into keyless values (3, now(6))",
    "insert into keyless values (4, uuid())",
    "begin",
    "insert into keyless values (5, 'begin')",
    "savepoint s",
    "insert into keyless values (6, 'gone')",
    "rollback to s",
    "insert into moved values (1, 1)",
    "commit",
    "begin",
    "insert into moved values (2, 2)",
    "insert into keyless values (7, 'rolled back')",
    "rollback",
    "xa start 'global','branch',7",
    "insert into keyless values (8, 'xa')",
    "xa end 'global','branch',7",
    "xa prepare 'global','branch',7",
    "xa commit 'global','branch',7",
    "xa start 'one'",
    "insert into keyless values (9, 'one phase')",
    "xa end 'one'",
    "xa commit 'one' one phase",
    "xa start 'back'",
    "insert into keyless values (9, 'back')",
    "xa end 'back'",
    "xa prepare 'back'",
    "xa rollback 'back'",
    "truncate table moved",
    "create table copy as select * from ints",
    "drop table copy",
    "analyze table ints",
    "flush tables",
    "create temporary table passing (a int)",
    "insert into passing values (1), (2)",
    "insert into keyless select a, 'temporary' from passing",
    "drop temporary table passing",
    "create sequence steps",
    "select nextval(steps)",
    "insert into keyless values (nextval(steps), 'sequence')",
    "drop sequence steps",
    "create definer=root@localhost view seen as select * from keyless",
    "drop view seen",
    "create definer=root@localhost procedure put() insert into keyless values (10, 'called')",
    "call put()",
    "create function twice(a int) returns int deterministic return a * 2",
    "insert into keyless values (twice(4), 'function')",
    "create trigger follow after insert on prefixed for each row insert into keyless values (new.c, 'trigger')",
    "insert into prefixed values ('t', 't', 5)",
    "create event later on schedule every 1 day disable do delete from keyless",
    "drop event later",
    "drop trigger follow",
    "drop function twice",
    "drop procedure put",
    "set binlog_alter_two_phase = 1",
    "alter table keyless add column c int default 3, algorithm=copy",
    "alter table keyless drop column c",
    "alter table keyless add unique key (a), algorithm=copy",
    "set binlog_alter_two_phase = 0",
    "set time_zone = 'SYSTEM', sql_mode = 'ansi', auto_increment_increment = 3, auto_increment_offset = 2, lc_time_names = 'de_DE'",
    "set foreign_key_checks = 0, unique_checks = 0, check_constraint_checks = 0, sql_auto_is_null = 1",
    "insert into keyless values (11, date_format(now(), '%M'))",
    "insert into ints (a) values (5)",
    "set time_zone = '+02:00', collation_connection = 'utf8mb4_unicode_ci'",
    "insert into keyless values (12, from_unixtime(0))",
    "set timestamp = 1700000000.5, insert_id = 77",
    "insert into ints (a) values (6)",
    "set timestamp = default, gtid_domain_id = 3",
    "insert into keyless values (13, 'domain 3')",
    "set gtid_domain_id = 4294967295, server_id = 4294967295",
    "insert into keyless values (14, 'another server')",
    "set gtid_seq_no = 1000000000000",
    "insert into keyless values (15, 'a number')",
    "set gtid_domain_id = 0, server_id = 7, skip_replication = 1",
    "insert into keyless values (16, 'skipped')",
    "set skip_replication = 0, sql_log_bin = 0",
    "insert into keyless values (17, 'not logged')",
    "set sql_log_bin = 1",
    "set statement max_statement_time = 100 for insert into keyless values (18, 'statement')",
];

/// Runs all statements in a new database. Some statements fail by design or under some settings.
pub fn run(client: &mut Client, folder: &Path) {
    for sql in ["drop database if exists script", "create database script", "use script", "set sql_mode = ''"]
    {
        client.run(sql).expect(sql);
    }
    for sql in TABLES {
        client.run(sql).expect(sql);
    }
    let mut refused = 0;
    for sql in CHANGES {
        let reply = client.one(sql).expect(sql);
        refused += usize::from(reply.error_code().is_some());
    }
    assert!(refused <= 5, "{refused} statements were refused");
    let small = folder.join("small.txt");
    std::fs::write(&small, "1,one\n2,two\n").expect("written");
    let large = folder.join("large.txt");
    std::fs::write(&large, "3,three is a line\n".repeat(20_000)).expect("written");
    for (file, more) in [(&small, ""), (&large, ""), (&small, "ignore 1 lines")] {
        let name = file.display();
        let all = ["", "replace", "ignore"];
        for how in if file == &large { &all[..1] } else { &all } {
            let sql = format!(
                "load data local infile '{name}' {how} into table keyless fields terminated by ',' {more} (a, b)"
            );
            client.run(&sql).expect("loads");
        }
    }
    // Fails at the second line, so the pieces are deleted.
    client.run("create table unique_key (a int primary key, b text)").expect("created");
    client.run("insert into unique_key values (2, 'there')").expect("inserted");
    let file = small.display();
    let sql = format!("load data infile '{file}' into table unique_key fields terminated by ','");
    assert!(client.one(&sql).expect("answers").error_code().is_some());
    client.run("drop database script").expect("dropped");
    client.reset().expect("a new session");
}

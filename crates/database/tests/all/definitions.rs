//! CREATE, ALTER, DROP: what MariaDB 10.11 answers, and what SHOW CREATE TABLE prints afterwards.

use crate::common::*;
use keel_database::Database;
use std::sync::Arc;

fn shown(database: &Arc<Database>, name: &str) -> String {
    let catalog = database.catalog();
    let table = catalog.table("test", name).expect("the table");
    database.show_create_table(table)
}

/// Creates `t`, compares its SHOW CREATE TABLE, drops it.
#[track_caller]
fn creates(client: &mut Client, sql: &str, expected: &str) {
    client.run("drop table if exists t");
    assert_eq!(client.run(sql), "0", "{sql}");
    assert_eq!(shown(&client.database, "t"), expected, "{sql}");
}

#[test]
fn tables_show_as_mariadb_shows_them() {
    world(|database| {
        let mut client = Client::new(database);
        creates(
            &mut client,
            "create table t (id int not null auto_increment, k int default 0 not null, c char(120) default '' not null, \
             pad varchar(60), primary key(id)) engine=innodb auto_increment=7",
            "CREATE TABLE `t` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `k` int(11) NOT NULL DEFAULT 0,\n  \
             `c` char(120) NOT NULL DEFAULT '',\n  `pad` varchar(60) DEFAULT NULL,\n  PRIMARY KEY (`id`)\n) \
             ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci",
        );
        creates(
            &mut client,
            "CREATE TABLE t (a varchar(10) character set latin1, b varchar(10) collate utf8mb4_bin, c text, d blob, \
             e enum('x','y''z') default 'x', f set('a','b'), g bit(8) default b'101', h year default 2020, \
             i timestamp null, j timestamp default current_timestamp on update current_timestamp, \
             k datetime(3) default '2020-01-01', l decimal(10,2) unsigned default 1.5, m float(5,2), \
             n double default 1e100, o int(5) zerofill comment 'it''s', p date default '2020-02-03', q time(2), \
             r bigint unsigned default 5, s binary(3) default 'ab', t varbinary(3), u int invisible, \
             v datetime default now(), w timestamp(6) not null default current_timestamp(6) on update \
             current_timestamp(6), x longtext character set latin1) charset latin1",
            "CREATE TABLE `t` (\n  `a` varchar(10) DEFAULT NULL,\n  `b` varchar(10) CHARACTER SET utf8mb4 COLLATE \
             utf8mb4_bin DEFAULT NULL,\n  `c` text DEFAULT NULL,\n  `d` blob DEFAULT NULL,\n  `e` enum('x','y''z') \
             DEFAULT 'x',\n  `f` set('a','b') DEFAULT NULL,\n  `g` bit(8) DEFAULT b'101',\n  `h` year(4) DEFAULT \
             2020,\n  `i` timestamp NULL DEFAULT NULL,\n  `j` timestamp NULL DEFAULT current_timestamp() ON UPDATE \
             current_timestamp(),\n  `k` datetime(3) DEFAULT '2020-01-01 00:00:00.000',\n  `l` decimal(10,2) unsigned \
             DEFAULT 1.50,\n  `m` float(5,2) DEFAULT NULL,\n  `n` double DEFAULT 1e100,\n  `o` int(5) unsigned \
             zerofill DEFAULT NULL COMMENT 'it''s',\n  `p` date DEFAULT '2020-02-03',\n  `q` time(2) DEFAULT NULL,\n  \
             `r` bigint(20) unsigned DEFAULT 5,\n  `s` binary(3) DEFAULT 'ab\\0',\n  `t` varbinary(3) DEFAULT NULL,\n  \
             `u` int(11) INVISIBLE DEFAULT NULL,\n  `v` datetime DEFAULT current_timestamp(),\n  `w` timestamp(6) NOT \
             NULL DEFAULT current_timestamp(6) ON UPDATE current_timestamp(6),\n  `x` longtext DEFAULT NULL\n) \
             ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci",
        );
        creates(
            &mut client,
            "create table t (a int, b int, c varchar(300), d text, unique key (b), unique u2(a,b), \
             key kk (c(10) desc, a) comment 'idx', key (d(5)), key nn (a) using btree) comment 'tab' \
             row_format=compact auto_increment=100 charset latin1 max_rows=10 min_rows=5 avg_row_length=10 \
             pack_keys=1 checksum=1 stats_persistent=1 key_block_size=0 stats_auto_recalc=1 delay_key_write=1",
            "CREATE TABLE `t` (\n  `a` int(11) DEFAULT NULL,\n  `b` int(11) DEFAULT NULL,\n  `c` varchar(300) DEFAULT \
             NULL,\n  `d` text DEFAULT NULL,\n  UNIQUE KEY `b` (`b`),\n  UNIQUE KEY `u2` (`a`,`b`),\n  KEY `kk` \
             (`c`(10) DESC,`a`) COMMENT 'idx',\n  KEY `d` (`d`(5)),\n  KEY `nn` (`a`) USING BTREE\n) ENGINE=InnoDB \
             DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci MIN_ROWS=5 MAX_ROWS=10 AVG_ROW_LENGTH=10 PACK_KEYS=1 \
             STATS_PERSISTENT=1 STATS_AUTO_RECALC=1 CHECKSUM=1 DELAY_KEY_WRITE=1 ROW_FORMAT=COMPACT COMMENT='tab'",
        );
        creates(
            &mut client,
            "create table t (a int not null, b int not null, c int, unique u1(c), unique u2(b), key k1(a), unique u3(a))",
            "CREATE TABLE `t` (\n  `a` int(11) NOT NULL,\n  `b` int(11) NOT NULL,\n  `c` int(11) DEFAULT NULL,\n  \
             UNIQUE KEY `u2` (`b`),\n  UNIQUE KEY `u3` (`a`),\n  UNIQUE KEY `u1` (`c`),\n  KEY `k1` (`a`)\n) \
             ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci",
        );
        creates(
            &mut client,
            "create table t (a serial, b bool, d char(3) byte, e nchar(5), f int primary key, g double(10,3) unsigned, \
             h real, i numeric, j dec(5), k int default 1.5, l char(3) default 123, m float(24), n float(25)) charset latin1",
            "CREATE TABLE `t` (\n  `a` bigint(20) unsigned NOT NULL AUTO_INCREMENT,\n  `b` tinyint(1) DEFAULT NULL,\n  \
             `d` binary(3) DEFAULT NULL,\n  `e` char(5) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci DEFAULT NULL,\n  \
             `f` int(11) NOT NULL,\n  `g` double(10,3) unsigned DEFAULT NULL,\n  `h` double DEFAULT NULL,\n  `i` \
             decimal(10,0) DEFAULT NULL,\n  `j` decimal(5,0) DEFAULT NULL,\n  `k` int(11) DEFAULT 2,\n  `l` char(3) \
             DEFAULT '123',\n  `m` float DEFAULT NULL,\n  `n` double DEFAULT NULL,\n  PRIMARY KEY (`f`),\n  UNIQUE KEY \
             `a` (`a`)\n) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci",
        );
        creates(
            &mut client,
            "create table t (a int, b int, unique a_2(a), unique(a), key(a), key(b,a), key(b))",
            "CREATE TABLE `t` (\n  `a` int(11) DEFAULT NULL,\n  `b` int(11) DEFAULT NULL,\n  UNIQUE KEY `a_2` (`a`),\n  \
             UNIQUE KEY `a` (`a`),\n  KEY `a_3` (`a`),\n  KEY `b` (`b`,`a`),\n  KEY `b_2` (`b`)\n) ENGINE=InnoDB \
             DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci",
        );
    });
}

#[test]
fn wrong_definitions_are_refused_as_mariadb_refuses_them() {
    world(|database| {
        let mut client = Client::new(database);
        client.script(
            "create table e (a int, a int) -> ERROR 1060 (42S21): Duplicate column name 'a'
             create table e (a int, key k(a), key k(a)) -> ERROR 1061 (42000): Duplicate key name 'k'
             create table e (a int primary key, b int primary key) -> ERROR 1068 (42000): Multiple primary key defined
             create table e (a int auto_increment) -> ERROR 1075 (42000): Incorrect table definition; there can be only one auto column and it must be defined as a key
             create table e (a varchar(10) auto_increment key) -> ERROR 1063 (42000): Incorrect column specifier for column 'a'
             create table e (a text, primary key(a)) -> ERROR 1170 (42000): BLOB/TEXT column 'a' used in key specification without a key length
             create table e (a int, key(a(3))) -> ERROR 1089 (HY000): Incorrect prefix key; the used key part isn't a string, the used length is longer than the key part, or the storage engine doesn't support unique prefix keys
             create table e (a varchar(10), key(a(30))) -> ERROR 1089 (HY000): Incorrect prefix key; the used key part isn't a string, the used length is longer than the key part, or the storage engine doesn't support unique prefix keys
             create table e (a varchar(10), key(b)) -> ERROR 1072 (42000): Key column 'b' doesn't exist in table
             create table e (a int, key(a,a)) -> ERROR 1060 (42S21): Duplicate column name 'a'
             create table e (a int default 'x') -> ERROR 1067 (42000): Invalid default value for 'a'
             create table e (a int not null default null) -> ERROR 1067 (42000): Invalid default value for 'a'
             create table e (a varchar(20000)) -> ERROR 1074 (42000): Column length too big for column 'a' (max = 16383); use BLOB or TEXT instead
             create table e (a char(256)) -> ERROR 1074 (42000): Column length too big for column 'a' (max = 255); use BLOB or TEXT instead
             create table e (a varchar(16383), b varchar(10)) -> ERROR 1118 (42000): Row size too large. The maximum row size for the used table type, not counting BLOBs, is 65535. This includes storage overhead, check the manual. You have to change some columns to TEXT or BLOBs
             create table e (a varchar(800) primary key) -> ERROR 1071 (42000): Specified key was too long; max key length is 3072 bytes
             create table e (a decimal(66,2)) -> ERROR 1426 (42000): Too big precision specified for 'a'. Maximum is 65
             create table e (a decimal(10,39)) -> ERROR 1425 (42000): Too big scale specified for 'a'. Maximum is 38
             create table e (a decimal(3,5)) -> ERROR 1427 (42000): For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column 'a')
             create table e (a float(256,2)) -> ERROR 1439 (42000): Display width out of range for 'a' (max = 255)
             create table e (a float(60)) -> ERROR 1063 (42000): Incorrect column specifier for column 'a'
             create table e (a bit(65)) -> ERROR 1439 (42000): Display width out of range for 'a' (max = 64)
             create table e (a int(256)) -> ERROR 1439 (42000): Display width out of range for 'a' (max = 255)
             create table e (a time(7)) -> ERROR 1426 (42000): Too big precision specified for 'a'. Maximum is 6
             create table e (a enum('a','a')) -> ERROR 1291 (HY000): Column 'a' has duplicated value 'a' in ENUM
             create table e (a enum('a','b') default 'c') -> ERROR 1067 (42000): Invalid default value for 'a'
             create table e (a set('a,b')) -> ERROR 1367 (22007): Illegal set 'a,b' value found during parsing
             create table e (a datetime default '2020-13-01') -> ERROR 1067 (42000): Invalid default value for 'a'
             create table e (a int on update current_timestamp) -> ERROR 1294 (HY000): Invalid ON UPDATE clause for 'a' column
             create table e (`` int) -> ERROR 1166 (42000): Incorrect column name ''
             create table `e ` (a int) -> ERROR 1103 (42000): Incorrect table name 'e '
             create table e (a int, key `PRIMARY` (a)) -> ERROR 1280 (42000): Incorrect index name 'PRIMARY'
             create table nosuch.e (a int) -> ERROR 1049 (42000): Unknown database 'nosuch'
             create table e (a int) engine=nosuch -> ERROR 1286 (42000): Unknown storage engine 'nosuch'
             create table e (a int) engine=merge -> ERROR 1286 (42000): Unknown storage engine 'merge'
             create table m (a int) engine=myisam /*w*/
             drop table m
             create table e (a int) charset nosuch -> ERROR 1115 (42000): Unknown character set: 'nosuch'
             create table e (a int) collate nosuch -> ERROR 1273 (HY000): Unknown collation: 'nosuch'
             create table e (a int) charset latin1 collate utf8mb4_bin -> ERROR 1253 (42000): COLLATION 'utf8mb4_bin' is not valid for CHARACTER SET 'latin1'
             create table e (a int)
             create table e (a int) -> ERROR 1050 (42S01): Table 'e' already exists
             create table if not exists e (a int) /*w*/
             drop table n1, n2 -> ERROR 1051 (42S02): Unknown table 'test.n1,test.n2'
             drop table if exists n1, n2 /*w*/
             truncate table nosuch -> ERROR 1146 (42S02): Table 'test.nosuch' doesn't exist
             rename table nosuch to b -> ERROR 1146 (42S02): Table 'test.nosuch' doesn't exist
             create index i on e(nosuch) -> ERROR 1072 (42000): Key column 'nosuch' doesn't exist in table
             drop index k on e -> ERROR 1091 (42000): Can't DROP INDEX `k`; check that it exists
             alter table e drop column zzz -> ERROR 1091 (42000): Can't DROP COLUMN `zzz`; check that it exists
             alter table e drop primary key -> ERROR 1091 (42000): Can't DROP INDEX `PRIMARY`; check that it exists
             alter table e add column a int -> ERROR 1060 (42S21): Duplicate column name 'a'
             create database test -> ERROR 1007 (HY000): Can't create database 'test'; database exists
             drop database nosuch -> ERROR 1008 (HY000): Can't drop database 'nosuch'; database doesn't exist
             create database `x ` -> ERROR 1102 (42000): Incorrect database name 'x '",
        );
        client.run("create table if not exists e (a int)");
        assert_eq!(client.warnings(), "Note 1050 Table 'e' already exists");
        client.run("drop table if exists n1, n2");
        assert_eq!(client.warnings(), "Note 1051 Unknown table 'test.n1,test.n2'");
        client.run("create table k (a varchar(800), key(a))");
        assert_eq!(client.warnings(), "Note 1071 Specified key was too long; max key length is 3072 bytes");
    });
}

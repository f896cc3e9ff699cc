//! `--init-file`: the same files on Keel and on MariaDB, and what they leave behind.

use keel_testkit::client::{Client, Login};
use keel_testkit::process::{Engine, Server, scratch_dir};

/// Files, each with a statement that shows what it did.
const FILES: &[(&str, &str)] = &[
    // Statements over several lines, comments, blank lines, and no semicolon at the end of the file.
    (
        "create database i;\n  use i;  \ncreate table t (a int,\n b int); \ninsert into t values (1,2);\n-- c ; d\n  \
         \n# e;\ninsert into t values (9,\n# inner\n-- inner\n\n10);\nselect 1;\n/* c ; d\n */ insert into t values (7,8);\n\
         insert into t values (99,0)",
        "select * from i.t",
    ),
    // Two statements in a line are one that is wrong.
    ("create database i;\ncreate table i.t (a int); insert into i.t values (1);\n", "show tables from i"),
    // What follows an error does not run.
    (
        "create database i;\ncreate table i.t (a int);\ninsert into i.t values (1);\nnosuch;\ninsert into i.t values (2);\n",
        "select * from i.t",
    ),
    (
        "create database i;\ncreate table i.t (a int);\ninsert into i.nosuch values (1);\ndrop table i.t;\n",
        "show tables from i",
    ),
    // An open transaction is rolled back.
    (
        "create database i;\ncreate table i.t (a int);\ninsert into i.t values (1);\nbegin;\ninsert into i.t values (2);\n",
        "select * from i.t",
    ),
    // Prepared statements, accounts, global variables, definers.
    (
        "create database i;\ncreate table i.t (a int);\nprepare s from 'insert into i.t values (?)';\nexecute s using 4;\n\
         set statement sort_buffer_size=100000 for execute s using 5;\nset global max_join_size=77777;\n\
         create user x1@localhost;\ngrant select on i.* to x1@localhost;\nshow databases;\nlock tables i.t write;\n\
         create temporary table i.u (a int);\ninsert into i.t select count(*) from i.nosuch;\n",
        "select group_concat(a), @@global.max_join_size, (select count(*) from mysql.user where user='x1') from i.t",
    ),
    (
        "create database i;\ncreate table i.t (a text);\ninsert into i.t values (user());\ninsert into i.t values \
         (current_user());\ninsert into i.t values (database());\ncreate view i.v as select 1 as a;\n",
        "select a from i.t union all select definer from information_schema.views where table_schema='i'",
    ),
    (";\ncreate database i;\n", "show databases like 'i'"),
    (
        "create database i;\nload data local infile '/x' into table i.t;\ncreate table i.u (a int);\n",
        "show tables from i",
    ),
    ("", "show databases like 'i'"),
];

fn answer(engine: Engine, name: &str, file: &str, sql: &str) -> String {
    let folder = scratch_dir(name);
    let path = folder.join("init.sql");
    std::fs::write(&path, file).expect("written");
    let server = Server::start(engine, &[&format!("--init-file={}", path.display())]).expect("starts");
    let mut client = Client::connect(&server.unix(), &Login::default()).expect("connects");
    client.run(sql).map_or_else(|error| error.to_string(), |reply| format!("{:?}", reply.strings()))
}

#[test]
fn init_file_does_what_it_does_in_mariadb() {
    let mut different = Vec::new();
    for (place, (file, sql)) in FILES.iter().enumerate() {
        let ours = answer(Engine::Keel, &format!("init-keel-{place}"), file, sql);
        let theirs = answer(Engine::MariaDb, &format!("init-maria-{place}"), file, sql);
        if ours != theirs {
            different.push(format!("{file}\n  Keel:    {ours}\n  MariaDB: {theirs}"));
        }
    }
    assert!(different.is_empty(), "{} files differ:\n{}", different.len(), different.join("\n"));
}

#[test]
fn a_statement_has_a_bound_and_its_error_is_logged() {
    let folder = scratch_dir("init-long");
    let path = folder.join("init.sql");
    let rows = vec!["(1)"; 30_000].join(",");
    std::fs::write(&path, format!("create database i;\nselect 1 in ({rows});\ncreate database j;\n"))
        .expect("written");
    let server = Server::start(Engine::Keel, &[&format!("--init-file={}", path.display())]).expect("starts");
    let mut client = Client::connect(&server.unix(), &Login::default()).expect("connects");
    let found = client.run("show databases where `Database` in ('i', 'j')").expect("rows").strings();
    assert_eq!(found, [["i"]]);
    assert!(server.log_tail().contains("Query size exceeded 60000 bytes"), "{}", server.log_tail());
}

#[test]
fn a_missing_file_stops_the_start() {
    let error =
        Server::start(Engine::Keel, &["--init-file=/nonexistent/init.sql"]).err().expect("does not start");
    assert!(error.to_string().contains("the init file /nonexistent/init.sql cannot be opened"), "{error}");
}

//! Statements of the server and results of the executor, over real sockets.

use crate::common::{code, start};
use keel_wire::client::{ConnectOptions, Reply};

#[test]
fn show_and_information_schema_tell_the_same() {
    let running = start();
    let mut client = running.client();
    client
        .query("CREATE TABLE test.t (id INT PRIMARY KEY, v VARCHAR(9) DEFAULT 'x', UNIQUE KEY u (v))")
        .unwrap();
    assert_eq!(client.rows("SHOW TABLES FROM test LIKE 't%'").unwrap(), [["t"]]);
    assert_eq!(client.rows("SHOW DATABASES WHERE `Database` = 'test'").unwrap(), [["test"]]);
    assert_eq!(
        client.rows("DESCRIBE test.t").unwrap(),
        [["id", "int(11)", "NO", "PRI", "NULL", ""], ["v", "varchar(9)", "YES", "UNI", "x", ""]]
    );
    assert_eq!(
        client
            .rows("SELECT COLUMN_NAME, COLUMN_DEFAULT FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'test'")
            .unwrap(),
        [["id", "NULL"], ["v", "'x'"]]
    );
    assert_eq!(
        client.rows("SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_NAME = 't'").unwrap(),
        [["PRIMARY"], ["u"]]
    );
    assert_eq!(
        client.rows("SHOW VARIABLES WHERE Variable_name = 'version_comment'").unwrap(),
        [["version_comment", "Keel"]]
    );
    let id = client.greeting().connection_id.to_string();
    assert_eq!(
        client.rows("SELECT ID, USER, COMMAND FROM information_schema.PROCESSLIST").unwrap(),
        [[id.as_str(), "root", "Query"]]
    );
    assert_eq!(
        client.rows("SHOW GLOBAL STATUS LIKE 'Com_create_table'").unwrap(),
        [["Com_create_table", "1"]]
    );
    assert_eq!(code(client.query("SHOW TABLES FROM nosuch")), 1049);
    assert_eq!(code(client.query("SHOW CREATE TABLE test.nosuch")), 1146);
    running.stop();
}

#[test]
fn variables_are_read_by_expressions() {
    let running = start();
    let mut client = running.client();
    client.query("SET @a = 2, @b = 'x'").unwrap();
    client.query("SET @a = @a + 40").unwrap();
    assert_eq!(client.rows("SELECT @a, @b, @@autocommit").unwrap(), [["42", "x", "1"]]);
    client.query("SET sql_select_limit = (SELECT 1)").unwrap();
    assert_eq!(client.rows("SELECT 1 UNION SELECT 2").unwrap().len(), 1);
    client.query("SET sql_select_limit = DEFAULT").unwrap();
    assert_eq!(code(client.query("SELECT @@nosuch")), 1193);
    assert_eq!(code(client.query("SELECT @@session.port")), 1238);
    client.query("SET timestamp = 100, time_zone = '+00:00'").unwrap();
    assert_eq!(client.rows("SELECT NOW()").unwrap(), [["1970-01-01 00:01:40"]]);
    let by_limit = client.rows("SET STATEMENT sql_mode = 'ANSI_QUOTES' FOR SELECT @@sql_mode").unwrap();
    assert_eq!(by_limit, [["ANSI_QUOTES"]]);
    assert!(client.rows("SELECT @@sql_mode").unwrap()[0][0].contains("STRICT_TRANS_TABLES"));
    running.stop();
}

#[test]
fn statements_are_prepared_by_name() {
    let running = start();
    let mut client = running.client();
    client.query("PREPARE s FROM 'SELECT ? + 1'").unwrap();
    client.query("SET @one = 1").unwrap();
    assert_eq!(client.rows("EXECUTE s USING @one").unwrap(), [["2"]]);
    assert_eq!(code(client.query("EXECUTE s")), 1210);
    client.query("DEALLOCATE PREPARE s").unwrap();
    assert_eq!(code(client.query("EXECUTE s")), 1243);
    assert_eq!(client.rows("EXECUTE IMMEDIATE 'SHOW WARNINGS'").unwrap()[0][1], "1243");
    assert_eq!(code(client.query("PREPARE s FROM 'EXECUTE x'")), 1295);
    running.stop();
}

#[test]
fn warnings_stay_until_a_later_statement_has_its_own() {
    let running = start();
    let mut client = running.client();
    assert_eq!(code(client.query("SELECT nosuch")), 1054);
    assert_eq!(client.rows("SELECT @@error_count").unwrap(), [["1"]]);
    client.query("SET @a = 1").unwrap();
    assert_eq!(client.warnings().unwrap()[0][1], "1054");
    client.query("CREATE TABLE test.w (id INT)").unwrap();
    assert_eq!(client.warnings().unwrap(), Vec::<Vec<String>>::new());
    running.stop();
}

#[test]
fn text_comes_in_the_clients_character_set() {
    let running = start();
    let mut client = running.client();
    client.query("CREATE TABLE test.c (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1)").unwrap();
    client.query("INSERT INTO test.c VALUES (1, 'ä')").unwrap();
    assert_eq!(client.rows("SELECT v, HEX(v) FROM test.c").unwrap(), [["ä", "E4"]]);
    let options = ConnectOptions { collation: 8, ..ConnectOptions::default() };
    let mut latin = running.connect_as(&options).unwrap();
    let Reply::Rows(rows) = latin.query("SELECT v FROM test.c WHERE id = 1").unwrap() else {
        panic!("no rows")
    };
    let keel_wire::client::Rows::Text(rows) = rows.rows else { panic!("binary") };
    assert_eq!(rows, [[Some(vec![0xe4])]]);
    running.stop();
}

#[test]
fn long_results_and_long_packets_arrive_whole() {
    let dir = crate::common::scratch_dir();
    let options = crate::common::options(&dir).with("max-allowed-packet", "64M");
    let running = crate::common::start_with(dir, options);
    let mut client = running.client();
    let long = client.rows("SELECT REPEAT('x', 17000000)").unwrap();
    assert_eq!(long[0][0].len(), 17_000_000);
    let text = "y".repeat(17_000_000);
    assert_eq!(client.rows(&format!("SELECT LENGTH('{text}')")).unwrap(), [["17000000"]]);
    client.query("CREATE TABLE test.n (id INT PRIMARY KEY, v VARCHAR(200))").unwrap();
    let values: Vec<String> = (0..2000).map(|id| format!("({id}, REPEAT('z', 200))")).collect();
    client.query(&format!("INSERT INTO test.n VALUES {}", values.join(","))).unwrap();
    let rows = client.rows("SELECT id, v FROM test.n").unwrap();
    assert_eq!(rows.len(), 2000);
    assert!(rows.iter().all(|row| row[1].len() == 200));
    running.stop();
}

#[test]
fn running_statements_are_killed_and_timed_out() {
    let running = start();
    let (mut killer, mut victim) = (running.client(), running.client());
    let id = victim.greeting().connection_id;
    killer.query("CREATE TABLE test.k (id INT PRIMARY KEY)").unwrap();
    let values: Vec<String> = (0..1000).map(|id| format!("({id})")).collect();
    killer.query(&format!("INSERT INTO test.k VALUES {}", values.join(","))).unwrap();
    victim.query("SET max_statement_time = 0.2").unwrap();
    assert_eq!(
        code(victim.query("SELECT COUNT(*) FROM test.k a, test.k b, test.k c WHERE a.id + b.id < c.id")),
        1969
    );
    victim.query("SET max_statement_time = 0").unwrap();
    let waiting = std::thread::spawn(move || {
        code(victim.query("SELECT COUNT(*) FROM test.k a, test.k b, test.k c WHERE a.id + b.id < c.id"))
    });
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND INFO LIKE 'SELECT COUNT%'"
    );
    while killer.rows(&sql).unwrap() != [["1"]] {}
    killer.query(&format!("KILL QUERY {id}")).unwrap();
    assert_eq!(waiting.join().unwrap(), 1317);
    running.stop();
}

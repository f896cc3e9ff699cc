//! Sessions over real sockets, by the client of `keel-wire`.

use std::io::Read;
use std::net::TcpStream;

use crate::common::{code, eventually, start};
use keel_value::Value;
use keel_wire::bulk::Mark;
use keel_wire::capability::{Capabilities, Status};
use keel_wire::client::{ClientError, ClientResult, ConnectOptions, Connection, Reply};
use keel_wire::command::byte;
use keel_wire::packet;
use keel_wire::reply::{OkReply, StateChange};

#[test]
fn simple_commands_are_answered() {
    let running = start();
    let mut client = running.client();
    assert_eq!(client.greeting().version, "5.5.5-10.11.19-MariaDB-keel");
    assert!(client.ping().unwrap().status.has(Status::AUTOCOMMIT));
    assert!(client.statistics().unwrap().starts_with("Uptime: "));
    assert_eq!(client.simple(byte::INIT_DB, b"test").unwrap().changes, [StateChange::Schema("test".into())]);
    assert_eq!(code(client.simple(byte::INIT_DB, b"nosuch")), 1049);
    assert_eq!(code(client.simple(0x55, b"")), 1047);
    assert_eq!(code(client.simple(byte::STMT_CLOSE, b"\x01")), 1835);
    assert_eq!(code(client.simple(byte::STMT_RESET, b"\x09\0\0\0")), 1243);
    assert_eq!(code(client.simple(byte::STMT_EXECUTE, b"\x09\0\0\0\0\x01\0\0\0")), 1243);
    assert_eq!(code(client.query(" ; ")), 1065);
    client.simple(byte::SET_OPTION, b"\x01\0").unwrap();
    client.simple(byte::RESET_CONNECTION, b"").unwrap();
    client.change_user(&ConnectOptions { database: "test".into(), ..ConnectOptions::default() }).unwrap();
    client.ping().unwrap();
    let mut local = running.socket_client();
    local.ping().unwrap();
    local.quit().unwrap();
    running.stop();
}

#[test]
fn strangers_are_refused() {
    let running = start();
    let login = |user: &str, password: &str, database: &str| {
        let options = ConnectOptions {
            user: user.into(),
            password: password.into(),
            database: database.into(),
            ..ConnectOptions::default()
        };
        match running.connect_as(&options) {
            Err(ClientError::Server(error)) => (error.code, error.message),
            other => panic!("let in: {}", other.is_ok()),
        }
    };
    let denied = |user: &str, using: &str| {
        (1045, format!("Access denied for user '{user}'@'localhost' (using password: {using})"))
    };
    assert_eq!(login("nobody", "", ""), denied("nobody", "NO"));
    assert_eq!(login("root", "x", ""), denied("root", "YES"));
    assert_eq!(login("root", "", "nosuch"), (1049, "Unknown database 'nosuch'".into()));
    running.stop();
}

/// What MariaDB 10.11 answers to the same statements, one after the other.
#[test]
fn changes_of_the_session_are_tracked() {
    let running = start();
    let mut client = running.client();
    let variable = |name: &str, value: &str| StateChange::Variable(name.into(), value.into());
    let schema = |name: &str| StateChange::Schema(name.into());
    let changed = StateChange::Changed;
    let names = |value: &str| {
        ["character_set_client", "character_set_connection", "character_set_results"]
            .map(|name| variable(name, value))
            .to_vec()
    };
    let steps: Vec<(&str, Vec<StateChange>)> = vec![
        ("SET autocommit = 1", vec![variable("autocommit", "ON")]),
        ("SET NAMES latin1", names("latin1")),
        ("SET NAMES utf8mb4", names("utf8mb4")),
        ("SET time_zone = '+01:00'", vec![variable("time_zone", "+01:00")]),
        ("SET sql_mode = ''", vec![]),
        ("SET @x = 1", vec![]),
        ("USE test", vec![schema("test")]),
        ("USE test", vec![schema("test")]),
        ("SET session_track_schema = 0", vec![]),
        ("USE test", vec![]),
        ("SET session_track_schema = 1", vec![]),
        ("SET session_track_state_change = 1", vec![changed.clone()]),
        ("SET @x = 2", vec![changed.clone()]),
        ("USE test", vec![schema("test"), changed.clone()]),
        ("PREPARE s FROM 'SELECT 1'", vec![changed.clone()]),
        ("DEALLOCATE PREPARE s", vec![changed.clone()]),
        ("BEGIN", vec![]),
        ("COMMIT", vec![]),
        ("CREATE DATABASE tracked", vec![]),
        ("USE tracked", vec![schema("tracked"), changed.clone()]),
        ("DROP DATABASE tracked", vec![schema("")]),
        (
            "SET session_track_system_variables = '*'",
            vec![variable("session_track_system_variables", "*"), changed.clone()],
        ),
        ("SET sort_buffer_size = 1000000", vec![variable("sort_buffer_size", "1000000"), changed.clone()]),
        ("SET GLOBAL max_connections = 151", vec![]),
        ("SET session_track_system_variables = ''", vec![changed.clone()]),
        ("SET autocommit = 1", vec![changed.clone()]),
        ("SET session_track_system_variables = 'sql_mode, autocommit'", vec![changed.clone()]),
        (
            "SET sql_mode = '', autocommit = 1",
            vec![variable("autocommit", "ON"), variable("sql_mode", ""), changed.clone()],
        ),
        ("SET STATEMENT sort_buffer_size = 100000 FOR DO 1", vec![changed.clone()]),
    ];
    for (sql, expected) in steps {
        let Reply::Ok(ok) = client.query(sql).unwrap() else { panic!("{sql} gave rows") };
        assert_eq!(ok.changes, expected, "{sql}");
        assert_eq!(ok.status.has(Status::SESSION_STATE_CHANGED), !expected.is_empty(), "{sql}");
    }
    assert_eq!(code(client.query("SET session_track_system_variables = 'autocommit,nosuch'")), 1193);
    running.stop();
}

#[test]
fn the_default_size_of_the_pool_is_the_servers_choice() {
    let running = start();
    let mut client = running.client();
    let size = "SELECT @@innodb_buffer_pool_size";
    assert_eq!(client.rows(size).unwrap(), [["33554432"]], "chosen on the command line");
    client.query("SET GLOBAL innodb_buffer_pool_size = DEFAULT").unwrap();
    eventually("the pool follows the budget", || client.rows(size).unwrap() != [["33554432"]]);
    running.stop();
}

#[test]
fn variables_are_set_and_shown() {
    let running = start();
    let mut client = running.client();
    let Reply::Ok(ok) = client.query("SET autocommit = 0").unwrap() else { panic!("rows") };
    assert_eq!(ok.changes, [StateChange::Variable("autocommit".into(), "OFF".into())]);
    assert!(!ok.status.has(Status::AUTOCOMMIT));
    assert_eq!(client.rows("SHOW VARIABLES LIKE 'autocommit'").unwrap(), [["autocommit", "OFF"]]);
    assert_eq!(client.rows("SHOW GLOBAL VARIABLES LIKE 'autocommit'").unwrap(), [["autocommit", "ON"]]);
    for (sql, expected) in [
        ("SET nosuch = 1", 1193),
        ("SET max_connections = 5", 1229),
        ("SET GLOBAL timestamp = 1", 1228),
        ("SET port = 1", 1238),
        ("SET autocommit = 'maybe'", 1231),
        ("SET GLOBAL max_connections = 'x'", 1232),
        ("SET NAMES nosuch", 1115),
        ("SET NAMES utf8mb4 COLLATE latin1_bin", 1253),
        ("SET time_zone = '+25:00'", 1298),
        ("SET default_storage_engine = 'nosuch'", 1286),
        ("SET SESSION max_allowed_packet = 1024", 1621),
        ("SET GLOBAL innodb_buffer_pool_size = 99999999999999", 5),
        ("SET GLOBAL innodb_log_file_size = 1", 1210),
    ] {
        assert_eq!(code(client.query(sql)), expected, "{sql}");
    }
    client.query("SET SESSION wait_timeout = 99999999999").unwrap();
    assert_eq!(
        client.warnings().unwrap(),
        [["Warning", "1292", "Truncated incorrect wait_timeout value: '99999999999'"]]
    );
    client.query("SET NAMES latin1").unwrap();
    let charset = "SHOW VARIABLES LIKE 'character_set_results'";
    assert_eq!(client.rows(charset).unwrap(), [["character_set_results", "latin1"]]);
    assert_eq!(code(client.query("SET autocommit = 1, nosuch = 1")), 1193);
    assert_eq!(client.rows("SHOW VARIABLES LIKE 'autocommit'").unwrap(), [["autocommit", "OFF"]]);
    running.stop();
}

/// A fresh server and a client that names no character set.
#[test]
fn a_fresh_database_stores_emoji() {
    let running = start();
    let options = ConnectOptions { collation: 0, ..ConnectOptions::default() };
    let mut client = running.connect_as(&options).unwrap();
    assert_eq!(client.greeting().collation, 45);
    for sql in [
        "CREATE DATABASE fresh",
        "USE fresh",
        "CREATE TABLE t (a VARCHAR(3) PRIMARY KEY, b TEXT, c CHAR(2), d ENUM('\u{1f418}', 'b'))",
        "INSERT INTO t VALUES ('\u{1f600}\u{1f980}x', '\u{1f680}', '\u{1f40d}\u{1f40d}', '\u{1f418}')",
    ] {
        client.query(sql).unwrap();
        assert!(client.warnings().unwrap().is_empty(), "{sql}");
    }
    assert_eq!(
        client
            .rows("SELECT *, HEX(b), CHARSET(a), COLLATION(d) FROM t WHERE a = '\u{1f600}\u{1f980}x'")
            .unwrap(),
        [[
            "\u{1f600}\u{1f980}x",
            "\u{1f680}",
            "\u{1f40d}\u{1f40d}",
            "\u{1f418}",
            "F09F9A80",
            "utf8mb4",
            "utf8mb4_general_ci"
        ]]
    );
    let settings = "SELECT VARIABLE_NAME, SESSION_VALUE, GLOBAL_VALUE, DEFAULT_VALUE \
                    FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME IN ('CHARACTER_SET_CLIENT', \
                    'CHARACTER_SET_CONNECTION', 'CHARACTER_SET_RESULTS', 'CHARACTER_SET_SERVER', 'CHARACTER_SET_DATABASE')";
    for row in client.rows(settings).unwrap() {
        assert_eq!(row[1..], ["utf8mb4"; 3], "{}", row[0]);
    }
    // An index has 3072 bytes at most, and a row 65535: 768 and 16383 characters.
    assert_eq!(code(client.query("CREATE TABLE k (a VARCHAR(769), PRIMARY KEY (a))")), 1071);
    client.query("CREATE TABLE k (a VARCHAR(768), PRIMARY KEY (a))").unwrap();
    assert_eq!(code(client.query("CREATE TABLE r (a VARCHAR(16384) NOT NULL)")), 1074);
    client.query("CREATE TABLE r (a VARCHAR(16383) NOT NULL)").unwrap();
    client.query("SET NAMES latin1").unwrap();
    client.query("SET NAMES DEFAULT").unwrap();
    client.query("SET character_set_server = latin1").unwrap();
    client.query("SET character_set_server = DEFAULT").unwrap();
    let now = "SELECT @@character_set_client, @@collation_connection, @@collation_server, \
               (SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'mysql')";
    let collation = "utf8mb4_general_ci";
    assert_eq!(client.rows(now).unwrap(), [["utf8mb4", collation, collation, collation]]);
    running.stop();
}

#[test]
fn several_statements_give_several_results() {
    let running = start();
    let mut client = running.client();
    let replies = client.query_all("SET @a = 1; SHOW WARNINGS; SET NAMES utf8mb4;").unwrap();
    let kinds: Vec<bool> = replies.iter().map(|reply| matches!(reply, Reply::Rows(_))).collect();
    assert_eq!(kinds, [false, true, false]);
    assert_eq!(client.query_all("SET @a = 1; /* a statement too */").unwrap().len(), 2);
    assert_eq!(code(client.query_all("SET @a = 1;; SET @a = 2")), 1064);
    assert_eq!(code(client.query_all("SET @a = 1; SET nosuch = 1; SET @a = 2")), 1193);
    let single = ConnectOptions::default();
    let without = single.capabilities.without(Capabilities::MULTI_STATEMENTS);
    let mut single = running.connect_as(&ConnectOptions { capabilities: without, ..single }).unwrap();
    assert_eq!(code(single.query_all("SET @a = 1; SET @a = 2")), 1064);
    assert_eq!(code(single.query_all("/* nothing */; SET @a = 2")), 1064);
    assert_eq!(single.rows("SELECT @a").unwrap(), [["NULL"]]);
    single.query("SET @a = 3; -- the end").unwrap();
    running.stop();
}

#[test]
fn eof_is_left_out_for_clients_that_deprecate_it() {
    let running = start();
    let options = ConnectOptions::default();
    let capabilities = options.capabilities.with(Capabilities::DEPRECATE_EOF);
    let mut client = running.connect_as(&ConnectOptions { capabilities, ..options }).unwrap();
    assert_eq!(client.rows("SHOW VARIABLES LIKE 'license'").unwrap(), [["license", "Apache-2.0"]]);
    let statement = client.prepare("SHOW VARIABLES LIKE 'license'").unwrap();
    assert_eq!(statement.columns.len(), 2);
    let rows = client.execute(&statement, &[]).unwrap().into_rows().unwrap();
    assert_eq!(rows.text_rows(), [["license", "Apache-2.0"]]);
    running.stop();
}

#[test]
fn rows_go_in_and_out_by_prepared_statements() {
    let running = start();
    let mut client = running.client();
    client.query("CREATE TABLE test.t (id INT PRIMARY KEY, v VARCHAR(20), n BIGINT UNSIGNED)").unwrap();
    let insert = client.prepare("INSERT INTO test.t VALUES (?, ?, ?)").unwrap();
    assert_eq!((insert.params, insert.columns.len()), (3, 0));
    for id in 1..=3 {
        let values = [Value::Int(id), Value::bytes(format!("v{id}").as_bytes()), Value::UInt(u64::MAX)];
        let Reply::Ok(ok) = client.execute(&insert, &values).unwrap() else { panic!("rows") };
        assert_eq!(ok.affected_rows, 1);
    }
    let select = client.prepare("SELECT v, n FROM test.t WHERE id = ?").unwrap();
    let names: Vec<&str> = select.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["v", "n"]);
    let rows = client.execute(&select, &[Value::Int(2)]).unwrap().into_rows().unwrap();
    assert_eq!(rows.text_rows(), [["v2", "18446744073709551615"]]);
    assert_eq!(client.rows("SELECT v FROM test.t WHERE id = 3").unwrap(), [["v3"]]);
    client.close_statement(&select).unwrap();
    assert_eq!(code(client.execute(&select, &[Value::Int(2)])), 1243);
    assert_eq!(code(client.execute(&insert, &[Value::Int(1), Value::Null, Value::Null])), 1062);
    running.stop();
}

#[test]
fn killed_sessions_end() {
    let running = start();
    let (mut killer, mut victim) = (running.client(), running.client());
    let id = victim.greeting().connection_id;
    killer.query(&format!("KILL QUERY {id}")).unwrap();
    victim.ping().unwrap();
    killer.query(&format!("KILL {id}")).unwrap();
    assert!(victim.ping().is_err());
    assert_eq!(code(killer.query("KILL 4000000")), 1094);
    let own = killer.greeting().connection_id;
    assert_eq!(code(killer.query(&format!("KILL {own}"))), 1927);
    assert!(killer.ping().is_err());
    running.stop();
}

#[test]
fn too_many_connections_and_too_long_packets_are_refused() {
    let dir = crate::common::scratch_dir();
    let options = crate::common::options(&dir).with("max-connections", "10").with("max-allowed-packet", "1M");
    let running = crate::common::start_with(dir, options);
    let mut clients: Vec<_> = (0..11).map(|_| running.client()).collect();
    match running.connect_as(&ConnectOptions::default()) {
        Err(ClientError::Server(error)) => {
            assert_eq!((error.code, error.message.as_str()), (1040, "Too many connections"));
        }
        other => panic!("let in: {}", other.is_ok()),
    }
    let long = format!("SET @a = '{}'", "x".repeat(1 << 20));
    match clients[0].query(&long) {
        Err(ClientError::Server(error)) => assert_eq!(error.code, 1153),
        Err(ClientError::Io(_)) => {}
        other => panic!("{other:?}"),
    }
    assert!(clients[0].ping().is_err());
    clients[1].ping().unwrap();
    running.stop();
}

#[test]
fn half_packets_and_noise_hurt_nobody_else() {
    use std::io::Write;
    let running = start();
    let mut noisy: Vec<_> = (0..8u8)
        .map(|seed| {
            let mut stream = running.tcp();
            let noise: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(37).wrapping_add(seed * 31)).collect();
            // The server may close at any byte.
            let _ = stream.write_all(&noise);
            stream
        })
        .collect();
    let mut half = running.client();
    half.stream().write_all(&[20, 0, 0, 0, 3, b'S']).unwrap();
    let mut client = running.client();
    client.ping().unwrap();
    noisy.clear();
    drop(half);
    client.ping().unwrap();
    running.stop();
}

/// Status and rows of a COM_STMT_FETCH.
fn fetch(client: &mut Connection<TcpStream>, statement: u32, count: u32) -> (Status, usize) {
    let rest = [statement.to_le_bytes(), count.to_le_bytes()].concat();
    client.command(byte::STMT_FETCH, &rest).unwrap();
    let mut rows = 0;
    loop {
        let payload = client.receive().unwrap();
        if payload[0] == 0xfe {
            return (Status(u16::from_le_bytes([payload[3], payload[4]])), rows);
        }
        assert_eq!(payload[0], 0, "a binary row: {payload:?}");
        rows += 1;
    }
}

#[test]
fn a_cursor_gives_its_rows_in_pieces() {
    let running = start();
    let mut client = running.client();
    client.query("CREATE TABLE test.c (id INT PRIMARY KEY, v VARCHAR(600))").unwrap();
    client.query("INSERT INTO test.c VALUES (1, REPEAT('a', 600)), (2, 'b'), (3, NULL)").unwrap();
    client.query("SET tmp_memory_table_size = 1024").unwrap();
    let select = client.prepare("SELECT id, v FROM test.c ORDER BY id").unwrap();
    let execute = [&select.id.to_le_bytes()[..], &[1, 1, 0, 0, 0]].concat();
    for _ in 0..2 {
        client.command(byte::STMT_EXECUTE, &execute).unwrap();
        assert_eq!(client.receive().unwrap(), [2]);
        assert!((0..2).all(|_| client.receive().unwrap().starts_with(b"\x03def")));
        let end = client.receive().unwrap();
        assert!(Status(u16::from_le_bytes([end[3], end[4]])).has(Status::CURSOR_EXISTS));
        let (status, rows) = fetch(&mut client, select.id, 2);
        assert!(status.has(Status::CURSOR_EXISTS) && rows == 2);
        // Other statements do not disturb it.
        client.query("DELETE FROM test.c WHERE id = 9").unwrap();
    }
    let (status, rows) = fetch(&mut client, select.id, 2);
    assert!(status.has(Status::LAST_ROW_SENT) && rows == 1);
    let again = [select.id.to_le_bytes(), 1u32.to_le_bytes()].concat();
    assert_eq!(code(client.simple(byte::STMT_FETCH, &again)), 1421);
    client.command(byte::STMT_EXECUTE, &execute).unwrap();
    (0..4).for_each(|_| drop(client.receive().unwrap()));
    client.simple(byte::STMT_RESET, &select.id.to_le_bytes()).unwrap();
    assert_eq!(code(client.simple(byte::STMT_FETCH, &again)), 1421);
    client.close_statement(&select).unwrap();
    assert_eq!(code(client.simple(byte::STMT_FETCH, &again)), 1243);
    running.stop();
}

#[test]
fn rows_of_cursors_that_do_not_fit_into_memory_go_to_a_file() {
    let running = start();
    let mut client = running.client();
    client.query("CREATE TABLE test.c (id INT PRIMARY KEY, v LONGTEXT)").unwrap();
    for id in 1..=9 {
        client.query(&format!("INSERT INTO test.c VALUES ({id}, REPEAT('{id}', {id} * 20000))")).unwrap();
    }
    for (sql, count) in [
        ("SELECT id, v FROM test.c", 9),
        ("SELECT id, v FROM test.c WHERE id = 9", 1),
        ("SELECT v, id FROM test.c ORDER BY id DESC", 9),
    ] {
        client.query("SET tmp_memory_table_size = 0").unwrap();
        let select = client.prepare(sql).unwrap();
        let execute = [&select.id.to_le_bytes()[..], &[1, 1, 0, 0, 0]].concat();
        client.command(byte::STMT_EXECUTE, &execute).unwrap();
        (0..4).for_each(|_| drop(client.receive().unwrap()));
        let (status, rows) = fetch(&mut client, select.id, 100);
        assert!(status.has(Status::LAST_ROW_SENT) && rows == count, "{sql}");
    }
    running.stop();
}

/// A status variable as the session or the server counts it.
fn status_of(client: &mut Connection<TcpStream>, scope: &str, name: &str) -> u64 {
    let rows = client.rows(&format!("SHOW {scope} STATUS LIKE '{name}'")).unwrap();
    rows[0][1].parse().unwrap()
}

#[test]
fn status_counts_are_the_sessions_own() {
    let running = start();
    let (mut one, mut other) = (running.client(), running.client());
    one.query("CREATE TABLE test.s (id INT PRIMARY KEY, k INT, v INT, KEY (k))").unwrap();
    one.query("INSERT INTO test.s (id, k) VALUES (1, 1), (2, 1), (3, 2)").unwrap();
    for (sql, name, expected) in [
        ("SELECT * FROM test.s WHERE id = 2", "Handler_read_key", 1),
        ("SELECT * FROM test.s WHERE id = 2", "Handler_commit", 1),
        ("SELECT * FROM test.s", "Handler_read_rnd_next", 4),
        ("SELECT k FROM test.s WHERE k = 1", "Handler_read_next", 2),
        ("INSERT INTO test.s (id) VALUES (7), (8)", "Handler_write", 2),
        ("UPDATE test.s SET k = 5 WHERE id = 1", "Handler_update", 1),
        ("UPDATE test.s SET k = 5 WHERE id = 1", "Handler_update", 0),
        ("DELETE FROM test.s WHERE id = 7", "Handler_delete", 1),
        ("SELECT 1", "Com_select", 1),
    ] {
        one.query("FLUSH STATUS").unwrap();
        one.query(sql).unwrap();
        assert_eq!(status_of(&mut one, "SESSION", name), expected, "{sql}: {name}");
    }
    let select = one.prepare("SELECT ?").unwrap();
    one.query("FLUSH STATUS").unwrap();
    one.prepare("SELECT 1, ?").unwrap();
    one.execute(&select, &[Value::Int(1)]).unwrap();
    one.simple(byte::INIT_DB, b"test").unwrap();
    one.query("SET @a = (SELECT k FROM test.s WHERE id = 2)").unwrap();
    one.query("SHOW VARIABLES LIKE 'port'").unwrap();
    one.query("SHOW WARNINGS").unwrap();
    // FLUSH itself is counted before it clears; the first of these asks counts itself.
    assert_eq!(status_of(&mut one, "SESSION", "Questions"), 6);
    assert_eq!(status_of(&mut one, "SESSION", "Handler_read_key"), 1);
    assert_eq!(status_of(&mut one, "SESSION", "Rows_sent"), 2);
    one.query("SELECT REPEAT('x', 100000) FROM test.s").unwrap();
    assert!(status_of(&mut one, "SESSION", "Bytes_sent") > 300_000);
    one.simple(byte::REFRESH, &[0x10]).unwrap();
    assert!(status_of(&mut one, "SESSION", "Bytes_sent") < 10_000);
    assert_eq!(code(one.simple(byte::REFRESH, &[0x80])), 1186);
    one.query("SELECT 1").unwrap();
    one.simple(byte::RESET_CONNECTION, b"").unwrap();
    assert_eq!(status_of(&mut one, "SESSION", "Com_select"), 0);
    assert_eq!(status_of(&mut other, "SESSION", "Com_select"), 0);
    assert!(status_of(&mut other, "GLOBAL", "Com_select") >= 5);
    assert_eq!(status_of(&mut other, "", "Com_insert"), 0);
    assert_eq!(status_of(&mut other, "GLOBAL", "Com_insert"), 2);
    running.stop();
}

#[test]
fn the_process_list_says_what_a_session_waits_for() {
    let running = start();
    let (mut holder, mut watcher) = (running.client(), running.client());
    holder.query("CREATE TABLE test.p (id INT PRIMARY KEY)").unwrap();
    holder.query("INSERT INTO test.p VALUES (1)").unwrap();
    holder.query("BEGIN").unwrap();
    holder.query("SELECT * FROM test.p WHERE id = 1 FOR UPDATE").unwrap();
    for (sql, state) in [
        ("UPDATE test.p SET id = 2 WHERE id = 1", "Updating"),
        ("ALTER TABLE test.p ADD COLUMN k INT", "Waiting for table metadata lock"),
        ("SELECT SLEEP(100)", "User sleep"),
    ] {
        let mut waiter = running.client();
        let id = waiter.greeting().connection_id;
        waiter.command(byte::QUERY, sql.as_bytes()).unwrap();
        let shown = format!("SELECT STATE FROM information_schema.PROCESSLIST WHERE ID = {id}");
        eventually(state, || watcher.rows(&shown).unwrap() == [[state]]);
        watcher.query(&format!("KILL {id}")).unwrap();
    }
    running.stop();
}

#[test]
fn a_refused_long_packet_is_answered_in_sequence() {
    use std::io::Write;
    let running = start();
    let mut client = running.client();
    let mut first = vec![0xff, 0xff, 0xff, 0, byte::QUERY];
    first.resize(4 + packet::PAYLOAD_MAX, b' ');
    client.stream().write_all(&first).unwrap();
    client.stream().write_all(&[2, 0, 0, 1, b' ', b' ']).unwrap();
    let mut answer = [0; 7];
    client.stream().read_exact(&mut answer).unwrap();
    assert_eq!((answer[3], answer[4]), (2, 0xff));
    assert_eq!(u16::from_le_bytes([answer[5], answer[6]]), 1153);
    running.stop();
}

#[test]
fn names_are_in_the_clients_character_set() {
    let running = start();
    let mut client = running.client();
    client.query("CREATE DATABASE `\u{e4}`").unwrap();
    client.query("CREATE TABLE `\u{e4}`.`\u{f6}` (`\u{fc}` VARCHAR(9) DEFAULT '\u{e9}')").unwrap();
    match client.simple(byte::INIT_DB, b"a\xe4") {
        Err(ClientError::Server(error)) => {
            assert_eq!((error.code, &*error.message), (1300, "Invalid utf8mb4 character string: 'a\\xE4'"));
        }
        other => panic!("{other:?}"),
    }
    client.query("SET NAMES latin1").unwrap();
    client.simple(byte::INIT_DB, b"\xe4").unwrap();
    client.command(byte::FIELD_LIST, b"\xf6\0").unwrap();
    let field = client.receive().unwrap();
    assert!(field.starts_with(b"\x03def\x01\xe4\x01\xf6\x01\xf6\x01\xfc\x01\xfc"), "{field:?}");
    assert!(field.ends_with(b"\x01\xe9"), "{field:?}");
    client.receive().unwrap();
    client.command(byte::QUERY, b"SELECT `\xfc` + x FROM `\xf6`, `\x80`").unwrap();
    assert!(client.receive().unwrap().ends_with(b"Table '\xe4.\x80' doesn't exist"));
    client.query("SET character_set_results = ascii").unwrap();
    client.command(byte::QUERY, b"SELECT `\xfc`").unwrap();
    assert!(client.receive().unwrap().ends_with(b"Unknown column '\\00FC' in 'SELECT'"));
    client.query("SET NAMES latin1").unwrap();
    client.command(byte::QUERY, b"SELECT 1 AS `\xe4`").unwrap();
    client.receive().unwrap();
    assert!(client.receive().unwrap().starts_with(b"\x03def\0\0\0\x01\xe4\0"));
    running.stop();
}

#[test]
fn lost_connections_are_counted() {
    let running = start();
    let mut watcher = running.client();
    running.client().quit().unwrap();
    drop(running.client());
    drop(running.tcp());
    for name in ["Aborted_clients", "Aborted_connects"] {
        eventually(name, || status_of(&mut watcher, "GLOBAL", name) == 1);
    }
    running.stop();
}

#[test]
fn parameters_in_pieces_fail_until_the_statement_is_reset() {
    let running = start();
    let mut client = running.client();
    let statement = client.prepare("SELECT LENGTH(?), ?").unwrap();
    let id = statement.id.to_le_bytes();
    let piece = |client: &mut Connection<TcpStream>, param: u16, data: &[u8]| {
        let rest = [&id[..], &param.to_le_bytes(), data].concat();
        client.command(byte::STMT_SEND_LONG_DATA, &rest).unwrap();
    };
    let values = [Value::bytes(b"ab"), Value::Int(1)];
    let length = |client: &mut Connection<TcpStream>| {
        client.execute(&statement, &values).unwrap().into_rows().unwrap().text_rows()[0][0].clone()
    };
    let text = |result: ClientResult<Reply>| match result {
        Err(ClientError::Server(error)) => (error.code, error.message),
        other => panic!("no error from the server: {other:?}"),
    };
    piece(&mut client, 2, b"x");
    piece(&mut client, 0, b"abc");
    let wrong = (1210, "Incorrect arguments to mysqld_stmt_send_long_data".to_string());
    assert_eq!(text(client.execute(&statement, &values)), wrong);
    assert_eq!(text(client.execute(&statement, &values)), wrong);
    client.simple(byte::STMT_RESET, &id).unwrap();
    assert_eq!(length(&mut client), "2");
    piece(&mut client, 0, b"abc");
    client.command(byte::STMT_EXECUTE, &[&id[..], &[0, 1, 0, 0, 0]].concat()).unwrap();
    assert!(client.receive().unwrap().starts_with(&[0xff]), "a packet without its parameters");
    assert_eq!(length(&mut client), "2", "the piece is gone");
    for _ in 0..17 {
        piece(&mut client, 0, &[b'x'; 1 << 20]);
    }
    let (code, message) = text(client.execute(&statement, &values));
    assert!(code == 1105 && message.ends_with("longer than 'max_allowed_packet' bytes"), "{code} {message}");
    running.stop();
}

/// What the packet is answered by.
fn bulk(
    client: &mut Connection<TcpStream>,
    statement: u32,
    rows: &[Vec<Result<Option<&str>, Mark>>],
) -> ClientResult<OkReply> {
    let mut packet = Vec::new();
    keel_wire::bulk::encode_texts(&mut packet, statement, rows);
    client.simple(packet[0], &packet[1..])
}

#[test]
fn a_batch_of_rows_is_one_command() {
    let running = start();
    let mut client = running.client();
    let table = "CREATE TABLE test.b (i INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(10) DEFAULT 'dflt', \
                 n INT NOT NULL DEFAULT 7)";
    client.query(table).unwrap();
    let insert = client.prepare("INSERT INTO test.b (v, n) VALUES (?, ?)").unwrap();
    let rows = [
        vec![Ok(Some("a")), Ok(Some("1"))],
        vec![Ok(None), Ok(Some("2"))],
        vec![Err(Mark::Default), Err(Mark::Default)],
        vec![Err(Mark::Ignore), Err(Mark::Ignore)],
    ];
    let ok = bulk(&mut client, insert.id, &rows).unwrap();
    assert_eq!((ok.affected_rows, ok.last_insert_id), (4, 1));
    assert_eq!(ok.info, "Records: 4  Duplicates: 0  Warnings: 0");
    let all = "SELECT COALESCE(v, 'NULL'), n FROM test.b ORDER BY i";
    let before = client.rows(all).unwrap();
    assert_eq!(before, [["a", "1"], ["NULL", "2"], ["dflt", "7"], ["dflt", "7"]]);
    // All rows or none.
    let too_long = [vec![Ok(Some("b")), Ok(Some("1"))], vec![Ok(Some("12345678901")), Ok(Some("2"))]];
    assert_eq!(code(bulk(&mut client, insert.id, &too_long)), 1406);
    client.query("BEGIN").unwrap();
    assert_eq!(code(bulk(&mut client, insert.id, &too_long)), 1406);
    client.query("COMMIT").unwrap();
    assert_eq!(client.rows(all).unwrap(), before);
    // Row by row: the counts are those of all.
    let update = client.prepare("UPDATE test.b SET v = ?, n = ? WHERE i = ?").unwrap();
    let rows = [
        vec![Ok(Some("u")), Ok(Some("5")), Ok(Some("1"))],
        vec![Err(Mark::Default), Err(Mark::Ignore), Ok(Some("2"))],
        vec![Err(Mark::Ignore), Ok(Some("9")), Ok(Some("3"))],
        vec![Ok(Some("q")), Ok(Some("1")), Ok(Some("99"))],
    ];
    let ok = bulk(&mut client, update.id, &rows).unwrap();
    assert_eq!((ok.affected_rows, &*ok.info), (3, "Rows matched: 3  Changed: 3  Warnings: 0"));
    let after = client.rows(all).unwrap();
    assert_eq!(after, [["u", "5"], ["dflt", "2"], ["dflt", "9"], ["dflt", "7"]]);
    assert_eq!(code(bulk(&mut client, update.id, &[vec![Ok(None), Ok(None), Err(Mark::Default)]])), 4032);
    // MariaDB tells the rows that a batch changes, also where it matches more.
    let same = [
        vec![Ok(Some("u")), Ok(Some("6")), Ok(Some("1"))],
        vec![Ok(Some("u")), Ok(Some("6")), Ok(Some("1"))],
    ];
    assert_eq!(bulk(&mut client, update.id, &same).unwrap().info, "Rows matched: 1  Changed: 1  Warnings: 0");
    let delete = client.prepare("DELETE FROM test.b WHERE i = ?").unwrap();
    let rows = [vec![Ok(Some("1"))], vec![Ok(Some("99"))], vec![Ok(Some("2"))]];
    assert_eq!(bulk(&mut client, delete.id, &rows).unwrap().affected_rows, 2);
    running.stop();
}

/// What MariaDB 10.11 answers to the same batches.
#[test]
fn a_batch_that_runs_row_by_row_tells_of_all_its_rows() {
    let running = start();
    let mut client = running.client();
    client.query("CREATE TABLE test.b (k INT PRIMARY KEY, v TINYINT)").unwrap();
    let mut told = |sql: &str, rows: &[&[&str]]| {
        let statement = client.prepare(sql).unwrap();
        let rows: Vec<Vec<_>> =
            rows.iter().map(|row| row.iter().map(|cell| Ok(Some(*cell))).collect()).collect();
        match bulk(&mut client, statement.id, &rows) {
            Ok(ok) => (ok.affected_rows, ok.warnings, ok.info),
            Err(ClientError::Server(error)) => (0, error.code, error.message),
            Err(other) => panic!("{other:?}"),
        }
    };
    let info = |text: &str| text.to_string();
    let two = "INSERT INTO test.b VALUES (? + 0, 1), (? + 0, 1)";
    assert_eq!(told(two, &[&["4", "5"]]), (2, 0, info("Records: 2  Duplicates: 0  Warnings: 0")));
    assert_eq!(told(two, &[&["6", "7"], &["8", "9"]]).2, "Records: 4  Duplicates: 0  Warnings: 0");
    let one = "INSERT INTO test.b VALUES (? + 0, ?)";
    assert_eq!(told(one, &[&["10", "1"]]), (1, 0, info("")));
    let ignore = "INSERT IGNORE INTO test.b VALUES (? + 0, 1)";
    let said = told(ignore, &[&["10"], &["11"], &["10"]]);
    assert_eq!(said, (1, 2, info("Records: 3  Duplicates: 2  Warnings: 2")));
    let upsert = "INSERT INTO test.b VALUES (?, 1) ON DUPLICATE KEY UPDATE v = v + ?";
    let said = told(upsert, &[&["10", "1"], &["11", "1"], &["13", "1"]]);
    assert_eq!(said, (5, 0, info("Records: 3  Duplicates: 2  Warnings: 0")));
    let said = told(one, &[&["41", "1"], &["42", "300"]]);
    assert_eq!(said, (0, 1264, info("Out of range value for column 'v' at row 2")));
    let said =
        told("INSERT IGNORE INTO test.b VALUES (? + 0, ?)", &[&["21", "300"], &["22", "300"], &["23", "1"]]);
    assert_eq!(said, (3, 2, info("Records: 3  Duplicates: 0  Warnings: 2")));
    let warnings = client.rows("SHOW WARNINGS").unwrap();
    assert_eq!(warnings.len(), 2);
    assert!(warnings[1][2].ends_with("at row 2"), "{warnings:?}");
    running.stop();
}

#[test]
fn a_batch_leaves_locks_and_transactions_as_they_were() {
    let running = start();
    let mut client = running.client();
    client.query("CREATE TABLE test.b (k INT PRIMARY KEY, v INT)").unwrap();
    let upsert = "INSERT INTO test.b VALUES (?, 1) ON DUPLICATE KEY UPDATE v = v + ?";
    let upsert = client.prepare(upsert).unwrap();
    let good = [vec![Ok(Some("1")), Ok(Some("1"))], vec![Ok(Some("2")), Ok(Some("1"))]];
    let bad = [vec![Ok(Some("3")), Ok(Some("1"))], vec![Ok(Some("1")), Ok(Some("x"))]];
    client.query("LOCK TABLES test.b WRITE").unwrap();
    bulk(&mut client, upsert.id, &good).unwrap();
    let mut other = running.client();
    other.query("SET lock_wait_timeout = 1").unwrap();
    assert_eq!(code(other.query("INSERT INTO test.b VALUES (9, 9)")), 1205);
    client.query("UNLOCK TABLES").unwrap();
    other.query("INSERT INTO test.b VALUES (9, 9)").unwrap();
    // Within a transaction a batch that fails undoes itself alone.
    client.query("SET autocommit = 0").unwrap();
    client.query("INSERT INTO test.b VALUES (5, 5)").unwrap();
    assert_eq!(code(bulk(&mut client, upsert.id, &bad)), 1292);
    client.query("COMMIT").unwrap();
    let keys = client.rows("SELECT k FROM test.b ORDER BY k").unwrap();
    assert_eq!(keys, [["1"], ["2"], ["5"], ["9"]]);
    client.query("COMMIT").unwrap();
    // READ ONLY holds for the first statement too.
    client.query("SET SESSION TRANSACTION READ ONLY").unwrap();
    assert_eq!(code(bulk(&mut client, upsert.id, &good)), 1792);
    client.query("ROLLBACK").unwrap();
    client.query("SAVEPOINT a").unwrap();
    assert_eq!(code(client.query("INSERT INTO test.b VALUES (6, 6)")), 1792);
    running.stop();
}

#[test]
fn a_batch_ends_by_kill_and_by_time() {
    let running = start();
    let mut client = running.client();
    client.query("CREATE TABLE test.b (k INT PRIMARY KEY, v INT)").unwrap();
    client.query("INSERT INTO test.b VALUES (1, 0)").unwrap();
    let update = client.prepare("UPDATE test.b SET v = v + 1 WHERE k = ? + SLEEP(0.05)").unwrap();
    let rows: Vec<_> = (0..200).map(|_| vec![Ok(Some("1"))]).collect();
    client.query("SET max_statement_time = 0.5").unwrap();
    assert_eq!(code(bulk(&mut client, update.id, &rows)), 1969);
    client.query("SET max_statement_time = 0").unwrap();
    let id = client.rows("SELECT CONNECTION_ID()").unwrap()[0][0].clone();
    let mut other = running.client();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        other.query(&format!("KILL QUERY {id}")).unwrap();
    });
    assert_eq!(code(bulk(&mut client, update.id, &rows)), 1317);
    killer.join().unwrap();
    running.stop();
}

#[test]
fn a_batch_that_cannot_be_one_is_refused() {
    let running = start();
    let mut client = running.client();
    client.query("CREATE TABLE test.b (i INT PRIMARY KEY, v INT)").unwrap();
    let row = [vec![Ok(Some("1"))]];
    for sql in ["SELECT ?", "SET @a = ?", "INSERT INTO test.b SELECT ?, 1"] {
        let statement = client.prepare(sql).unwrap();
        assert_eq!(code(bulk(&mut client, statement.id, &row)), 1295, "{sql}");
    }
    assert_eq!(code(bulk(&mut client, 999, &row)), 1243);
    let insert = client.prepare("INSERT INTO test.b VALUES (?, 1)").unwrap();
    assert_eq!(code(bulk(&mut client, insert.id, &[])), 1210);
    assert_eq!(code(client.simple(byte::STMT_BULK_EXECUTE, &[1, 0])), 1835);
    let head = [&insert.id.to_le_bytes()[..], &[0xc0, 0, 253, 0, 0, 1, b'1']].concat();
    assert_eq!(code(client.simple(byte::STMT_BULK_EXECUTE, &head)), 1295);
    // Values that differ by row keep their own duplicates apart, and fail together.
    let upsert = "INSERT INTO test.b VALUES (?, 1) ON DUPLICATE KEY UPDATE v = ?";
    let upsert = client.prepare(upsert).unwrap();
    let rows = [vec![Ok(Some("1")), Ok(Some("8"))], vec![Ok(Some("1")), Ok(Some("9"))]];
    let ok = bulk(&mut client, upsert.id, &rows).unwrap();
    assert_eq!((ok.affected_rows, &*ok.info), (3, "Records: 2  Duplicates: 1  Warnings: 0"));
    let fails = [vec![Ok(Some("2")), Ok(Some("8"))], vec![Ok(Some("1")), Ok(Some("x"))]];
    assert_eq!(code(bulk(&mut client, upsert.id, &fails)), 1366);
    assert_eq!(client.rows("SELECT i, v FROM test.b").unwrap(), [["1", "9"]]);
    running.stop();
}

#[test]
fn the_last_statement_is_none_after_one_that_could_not_be_prepared() {
    let running = start();
    let mut client = running.client();
    client.prepare("DO 1").unwrap();
    let last = [&u32::MAX.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat();
    client.simple(byte::STMT_EXECUTE, &last).unwrap();
    assert_eq!(code(client.prepare("SELECT nothing")), 1054);
    assert_eq!(code(client.simple(byte::STMT_EXECUTE, &last)), 1243);
    client.prepare("DO 2").unwrap();
    client.simple(byte::STMT_EXECUTE, &last).unwrap();
    running.stop();
}

//! Variables whose effect one session sees: the last answer of a script differs between two values.

use std::time::Duration;

use keel_testkit::client::{Client, Reply};
use keel_testkit::process::Server;

use super::run;

/// Names of the same meaning, two values, and statements in which `{name}` and `{}` stand for them. `PAUSE n` waits so many
/// milliseconds; `GLOBAL` before the names: the value is set for the server, and the script runs in a new session.
type Probe = (&'static str, [&'static str; 2], &'static str);

/// What most of the others take apart.
const ROWS: &str = "CREATE OR REPLACE TABLE $ (a INT PRIMARY KEY, b VARCHAR(200)); \
                    INSERT INTO $ SELECT seq, REPEAT(CHAR(97 + seq % 26), 100) FROM seq_1_to_4000; ";

const PROBES: &[Probe] = &[
    (
        "alter_algorithm",
        ["COPY", "INSTANT"],
        "CREATE OR REPLACE TABLE $ (a INT); SET {name}={}; ALTER TABLE $ MODIFY a VARCHAR(10)",
    ),
    (
        "auto_increment_increment",
        ["1", "10"],
        "SET {name}={}; CREATE OR REPLACE TABLE $ (a INT AUTO_INCREMENT PRIMARY KEY); \
         INSERT INTO $ VALUES (), (); SELECT GROUP_CONCAT(a) FROM $",
    ),
    (
        "auto_increment_offset",
        ["1", "3"],
        "SET {name}={}, auto_increment_increment=10; CREATE OR REPLACE TABLE $ (a INT AUTO_INCREMENT PRIMARY KEY); \
         INSERT INTO $ VALUES (), (); SELECT GROUP_CONCAT(a) FROM $",
    ),
    (
        "autocommit",
        ["0", "1"],
        "CREATE OR REPLACE TABLE $ (a INT); SET {name}={}; INSERT INTO $ VALUES (1); ROLLBACK; SELECT COUNT(*) FROM $",
    ),
    ("character_set_client", ["latin1", "utf8mb4"], "SET {name}={}; SELECT CHAR_LENGTH('\u{e9}')"),
    ("character_set_connection", ["latin1", "utf8mb4"], "SET {name}={}; SELECT CHARSET('a')"),
    (
        "character_set_database",
        ["latin1", "utf8mb4"],
        "SET {name}={}; SELECT '\u{e9}' INTO OUTFILE '#' CHARACTER SET binary; \
         CREATE OR REPLACE TABLE $ (a VARCHAR(9) CHARACTER SET utf8mb4); LOAD DATA INFILE '#' INTO TABLE $; SELECT HEX(a) FROM $",
    ),
    ("character_set_results", ["latin1", "utf8mb4"], "SET {name}={}; SELECT _utf8mb4 x'c3a9'"),
    (
        "character_set_server",
        ["latin1", "utf8mb4"],
        "SET {name}={}; CREATE OR REPLACE DATABASE $; SHOW CREATE DATABASE $",
    ),
    (
        "check_constraint_checks",
        ["0", "1"],
        "CREATE OR REPLACE TABLE $ (a INT CHECK (a > 5)); SET {name}={}; INSERT INTO $ VALUES (1)",
    ),
    ("collation_connection", ["utf8mb4_general_ci", "utf8mb4_bin"], "SET {name}={}; SELECT 'a' = 'A'"),
    (
        "collation_database",
        ["latin1_bin", "utf8mb4_bin"],
        "SET {name}={}; SELECT '\u{e9}' INTO OUTFILE '#' CHARACTER SET binary; \
         CREATE OR REPLACE TABLE $ (a VARCHAR(9) CHARACTER SET utf8mb4); LOAD DATA INFILE '#' INTO TABLE $; SELECT HEX(a) FROM $",
    ),
    (
        "collation_server",
        ["latin1_bin", "utf8mb4_bin"],
        "SET {name}={}; CREATE OR REPLACE DATABASE $; SHOW CREATE DATABASE $",
    ),
    (
        "completion_type",
        ["NO_CHAIN", "CHAIN"],
        "SET {name}={}; START TRANSACTION; COMMIT; SELECT @@in_transaction",
    ),
    (
        "default_regex_flags",
        ["''", "'DOTALL'"],
        "SET {name}={}; SELECT CONCAT('a', CHAR(10), 'b') REGEXP 'a.b'",
    ),
    ("default_week_format", ["0", "1"], "SET {name}={}; SELECT WEEK('2023-01-01')"),
    ("lc_time_names", ["'en_US'", "'de_DE'"], "SET {name}={}; SELECT DAYNAME('2020-03-01')"),
    ("div_precision_increment", ["4", "9"], "SET {name}={}; SELECT 1 / 3"),
    (
        "foreign_key_checks",
        ["0", "1"],
        "DROP TABLE IF EXISTS $c; CREATE OR REPLACE TABLE $ (a INT PRIMARY KEY); \
         CREATE TABLE $c (a INT, FOREIGN KEY (a) REFERENCES $ (a)); SET {name}={}; INSERT INTO $c VALUES (1)",
    ),
    ("group_concat_max_len", ["4", "1000"], "SET {name}={}; SELECT GROUP_CONCAT(seq) FROM seq_1_to_9"),
    ("identity", ["5", "7"], "SET {name}={}; SELECT LAST_INSERT_ID()"),
    (
        "idle_readonly_transaction_timeout",
        ["0", "1"],
        "SET {name}={}; START TRANSACTION READ ONLY; PAUSE 1500; SELECT 1",
    ),
    ("idle_transaction_timeout", ["0", "1"], "SET {name}={}; START TRANSACTION; PAUSE 1500; SELECT 1"),
    (
        "idle_write_transaction_timeout",
        ["0", "1"],
        "CREATE OR REPLACE TABLE $ (a INT); SET {name}={}; START TRANSACTION; INSERT INTO $ VALUES (1); PAUSE 1500; SELECT 1",
    ),
    (
        "insert_id",
        ["50", "60"],
        "CREATE OR REPLACE TABLE $ (a INT AUTO_INCREMENT PRIMARY KEY); SET {name}={}; INSERT INTO $ VALUES (); SELECT a FROM $",
    ),
    ("last_insert_id", ["5", "7"], "SET {name}={}; SELECT LAST_INSERT_ID()"),
    (
        "log_queries_not_using_indexes",
        ["0", "1"],
        "ROWS LOGGED SET {name}={}, long_query_time=100; SELECT COUNT(*) FROM $ WHERE b = '$'; COUNT_LOGGED",
    ),
    (
        "log_slow_admin_statements",
        ["0", "1"],
        "ROWS LOGGED SET {name}={}, long_query_time=0; ANALYZE TABLE $; COUNT_LOGGED",
    ),
    (
        "log_slow_disabled_statements",
        ["''", "'admin'"],
        "ROWS LOGGED SET {name}={}, long_query_time=0; ANALYZE TABLE $; COUNT_LOGGED",
    ),
    (
        "log_slow_filter",
        ["'filesort'", "''"],
        "ROWS LOGGED SET {name}={}, long_query_time=0; SELECT COUNT(*) FROM $ WHERE b = '$'; COUNT_LOGGED",
    ),
    (
        "log_slow_query slow_query_log",
        ["0", "1"],
        "ROWS LOGGED SET {name}={}, long_query_time=0; SELECT COUNT(*) FROM $ WHERE b = '$'; COUNT_LOGGED",
    ),
    (
        "log_slow_query_time long_query_time",
        ["0", "100"],
        "ROWS LOGGED SET {name}={}; SELECT COUNT(*) FROM $ WHERE b = '$'; COUNT_LOGGED",
    ),
    (
        "log_slow_min_examined_row_limit min_examined_row_limit",
        ["0", "1000000"],
        "ROWS LOGGED SET {name}={}, long_query_time=0; SELECT COUNT(*) FROM $ WHERE b = '$'; COUNT_LOGGED",
    ),
    (
        "log_slow_rate_limit",
        ["1", "1000000"],
        "ROWS LOGGED SET {name}={}, long_query_time=0; SELECT COUNT(*) FROM $ WHERE b = '$'; COUNT_LOGGED",
    ),
    (
        "GLOBAL log_output",
        ["'NONE'", "'TABLE'"],
        "ROWS LOGGED SET long_query_time=0; SELECT COUNT(*) FROM $ WHERE b = '$'; COUNT_LOGGED",
    ),
    (
        "GLOBAL general_log",
        ["0", "1"],
        "SELECT '$'; SELECT COUNT(*) > 0 FROM mysql.general_log WHERE argument LIKE '%''$''%' AND argument NOT LIKE '%LIKE%'",
    ),
    (
        "max_sort_length",
        ["64", "1024"],
        "CREATE OR REPLACE TABLE $ (a INT, b TEXT); INSERT INTO $ VALUES (1, CONCAT(REPEAT('x', 64), 'b')), \
         (2, CONCAT(REPEAT('x', 64), 'a')); SET {name}={}; SELECT a FROM $ ORDER BY b, a",
    ),
    (
        "sql_log_off",
        ["0", "1"],
        "SET GLOBAL general_log=1; SET {name}={}; SELECT '${}'; \
         SELECT COUNT(*) > 0 FROM mysql.general_log WHERE argument LIKE '%''${}''%' AND argument NOT LIKE '%LIKE%'",
    ),
    (
        "GLOBAL local_infile",
        ["0", "1"],
        "CREATE OR REPLACE TABLE $ (a INT); LOAD DATA LOCAL INFILE '/dev/null' INTO TABLE $",
    ),
    ("GLOBAL max_allowed_packet", ["1048576", "16777216"], "SELECT LENGTH(REPEAT('a', 2000000))"),
    (
        "max_error_count",
        ["1", "64"],
        "SET {name}={}; SELECT CAST('a' AS INT), CAST('b' AS INT); SHOW WARNINGS",
    ),
    ("GLOBAL max_prepared_stmt_count", ["0", "100"], "PREPARE p FROM 'SELECT 1'"),
    (
        "max_join_size",
        ["10", "100000"],
        "CREATE OR REPLACE TABLE $ (a INT); INSERT INTO $ SELECT seq FROM seq_1_to_500; SET {name}={}; \
         SELECT COUNT(*) FROM $",
    ),
    (
        "max_session_mem_used",
        ["8192", "1000000000"],
        "SET {name}={}; SELECT seq FROM seq_1_to_20000 ORDER BY -seq LIMIT 10000, 1",
    ),
    (
        "sql_big_selects",
        ["0", "1"],
        "CREATE OR REPLACE TABLE $ (a INT); INSERT INTO $ SELECT seq FROM seq_1_to_500; \
         SET max_join_size=10, {name}={}; SELECT COUNT(*) FROM $",
    ),
    (
        "tmp_disk_table_size",
        ["1024", "1000000000"],
        "SET {name}={}, tmp_memory_table_size=0; \
         SELECT COUNT(*) FROM (SELECT DISTINCT CONCAT(seq, REPEAT('x', 100)) FROM seq_1_to_10000) x",
    ),
    (
        "max_recursive_iterations",
        ["3", "1000"],
        "SET {name}={}; WITH RECURSIVE r AS (SELECT 1 AS a UNION SELECT a + 1 FROM r WHERE a < 50) SELECT COUNT(*) FROM r",
    ),
    ("max_statement_time", ["0.1", "0"], "SET {name}={}; SELECT SLEEP(0.3)"),
    (
        "optimizer_search_depth",
        ["1", "62"],
        "CREATE OR REPLACE TABLE $x (i INT PRIMARY KEY, j INT, k INT, l INT); \
         INSERT INTO $x SELECT seq, seq, seq, seq FROM seq_1_to_10; \
         CREATE OR REPLACE TABLE $y (i INT, KEY (i)); INSERT INTO $y SELECT seq % 20 FROM seq_1_to_1000; \
         CREATE OR REPLACE TABLE $z (i INT, j INT, k INT, l INT); \
         INSERT INTO $z SELECT seq, seq, seq, seq FROM seq_1_to_1500; \
         SET {name}={}; EXPLAIN SELECT COUNT(*) FROM $x x, $y y, $z z \
         WHERE x.i = y.i AND x.i = z.i AND x.j = z.j AND x.k = z.k AND x.l = z.l",
    ),
    ("rand_seed1", ["1", "2"], "SET {name}={}, rand_seed2=5; SELECT RAND()"),
    ("rand_seed2", ["1", "2"], "SET {name}={}, rand_seed1=5; SELECT RAND()"),
    ("sql_mode", ["''", "'ANSI_QUOTES'"], "SET {name}={}; SELECT \"a\""),
    (
        "explicit_defaults_for_timestamp",
        ["0", "1"],
        "SET {name}={}; CREATE OR REPLACE TABLE $ (a TIMESTAMP); SHOW CREATE TABLE $",
    ),
    ("innodb_strict_mode", ["0", "1"], "SET {name}={}; CREATE OR REPLACE TABLE $ (a INT) ROW_FORMAT=FIXED"),
    ("sql_notes", ["0", "1"], "SET {name}={}; DROP TABLE IF EXISTS no_such_table; SHOW WARNINGS"),
    (
        "standard_compliant_cte",
        ["0", "1"],
        "SET {name}={}; WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT 2 FROM DUAL WHERE 2 > (SELECT MAX(n) FROM r)) \
         SELECT n FROM r",
    ),
    ("sql_safe_updates", ["0", "1"], "ROWS SET {name}={}; UPDATE $ SET b = 'x'"),
    (
        "sql_quote_show_create",
        ["0", "1"],
        "CREATE OR REPLACE TABLE $ (a INT); SET {name}={}; SHOW CREATE TABLE $",
    ),
    ("sql_select_limit", ["1", "10"], "ROWS SET {name}={}; SELECT a FROM $"),
    ("time_zone", ["'+00:00'", "'+01:00'"], "SET {name}={}; SELECT FROM_UNIXTIME(0)"),
    ("timestamp", ["1", "2"], "SET {name}={}; SELECT NOW()"),
    (
        "tx_read_only",
        ["0", "1"],
        "CREATE OR REPLACE TABLE $ (a INT); SET {name}={}; INSERT INTO $ VALUES (1)",
    ),
    ("wait_timeout", ["1", "60"], "SET {name}={}; PAUSE 1500; SELECT 1"),
];

fn names_of(probe: &Probe) -> impl Iterator<Item = &'static str> + use<> {
    probe.0.trim_start_matches("GLOBAL ").split(' ')
}

/// The variables that are shown here to act.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROBES.iter().flat_map(names_of)
}

/// Runs all of them, those that wait beside each other.
pub fn check(server: &Server) {
    let (waiting, others): (Vec<&Probe>, Vec<&Probe>) = PROBES.iter().partition(|p| p.2.contains("PAUSE"));
    let failed: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = waiting.iter().map(|probe| scope.spawn(|| compare(server, probe))).collect();
        let mut failed: Vec<String> = others.iter().flat_map(|probe| compare(server, probe)).collect();
        failed.extend(threads.into_iter().flat_map(|thread| thread.join().expect("no panic")));
        failed
    });
    assert!(failed.is_empty(), "these change nothing:\n{}", failed.join("\n"));
}

/// What is the same for both values, a line for each name.
fn compare(server: &Server, probe: &Probe) -> Vec<String> {
    let mut same = Vec::new();
    for name in names_of(probe) {
        let answers = probe.1.map(|value| answer(server, probe, name, value));
        if answers[0] == answers[1] {
            same.push(format!("{name}: {} for {} and {}", answers[0], probe.1[0], probe.1[1]));
        }
    }
    same
}

fn answer(server: &Server, probe: &Probe, name: &str, value: &str) -> String {
    let global = probe.0.starts_with("GLOBAL ");
    let mut root = session(server);
    if global {
        run(&mut root, &format!("SET GLOBAL {name} = {value}"));
    }
    let logged = "SET GLOBAL slow_query_log=1; SET log_slow_filter=''; TRUNCATE mysql.slow_log; ";
    let count = "SELECT COUNT(*) > 0 FROM mysql.slow_log WHERE sql_text LIKE '%$%' AND sql_text NOT LIKE '%slow_log%'";
    let file = server.dir.join(format!("{name}-{}", value.replace('\'', "")));
    let script = probe.2.replace("COUNT_LOGGED", count).replace("LOGGED ", logged).replace("ROWS ", ROWS);
    let script = script.replace("{name}", name).replace("{}", value).replace('$', &format!("p_{name}"));
    let script = script.replace('#', &file.display().to_string());
    let mut client = session(server);
    let mut last = String::new();
    for statement in script.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        last = step(&mut client, statement);
    }
    if global {
        run(&mut root, &format!("SET GLOBAL {name} = DEFAULT"));
        run(&mut root, "SET GLOBAL log_output = 'TABLE'");
    }
    last
}

fn session(server: &Server) -> Client {
    server.client_in("d").expect("connects")
}

fn step(client: &mut Client, statement: &str) -> String {
    if let Some(millis) = statement.strip_prefix("PAUSE ") {
        std::thread::sleep(Duration::from_millis(millis.parse().expect("a number")));
        return String::new();
    }
    match client.one(statement) {
        Ok(Reply::Error { code, .. }) => format!("error {code}"),
        Ok(Reply::Ok { .. }) => "done".into(),
        Ok(reply) => format!("{:?}", reply.strings()),
        Err(_) => "cut off".into(),
    }
}

<?php
// mysqli and PDO, both over mysqlnd: what a PHP program asks of a database.
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
const USER = 'client', PASSWORD = "secret 'x'", DATABASE = 'clients';
$port = (int) getenv('CLIENT_PORT');
$types = file_get_contents(getenv('CLIENT_TYPES'));

function show($value): string
{
    if (is_string($value)) {
        $text = preg_match('//u', $value) ? json_encode($value, JSON_UNESCAPED_UNICODE) : bin2hex($value);
        return strlen($value) > 200 ? 'text[' . strlen($value) . '] ' . md5($value) : $text;
    }
    if (is_array($value)) {
        $parts = [];
        foreach ($value as $key => $item) {
            $parts[] = (is_int($key) ? '' : "$key: ") . show($item);
        }
        return '[' . implode(', ', $parts) . ']';
    }
    return var_export($value, true);
}

function check(string $name, callable ...$runs): void
{
    $out = [];
    foreach ($runs as $run) {
        try {
            $out[] = show($run());
        } catch (mysqli_sql_exception $e) {
            $out[] = 'error ' . $e->getCode() . ' ' . $e->getSqlState() . ' ' . $e->getMessage();
        } catch (PDOException $e) {
            $out[] = 'error ' . json_encode($e->errorInfo, JSON_UNESCAPED_UNICODE) . ' ' . $e->getMessage();
        }
    }
    echo "$name: ", implode('; ', $out), "\n";
}

function mysqli(string $password = PASSWORD, string $database = DATABASE, int $flags = 0, bool $tls = false): mysqli
{
    global $port;
    $db = mysqli_init();
    $db->options(MYSQLI_OPT_INT_AND_FLOAT_NATIVE, 1);
    if ($tls) {
        $db->ssl_set(null, null, getenv('CLIENT_CA'), null, null);
        $flags |= MYSQLI_CLIENT_SSL;
    }
    $db->real_connect('127.0.0.1', USER, $password, $database, $port, null, $flags);
    $db->set_charset('utf8mb4');
    return $db;
}

function pdo(array $options = []): PDO
{
    global $port;
    return new PDO("mysql:host=127.0.0.1;port=$port;dbname=clients;charset=utf8mb4", USER, PASSWORD, $options + [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
}

$db = mysqli();
$all = fn (string $sql) => $db->query($sql)->fetch_all(MYSQLI_NUM);
$changed = function (string $sql) use ($db) { $db->query($sql); return [$db->affected_rows, $db->insert_id, $db->info, $db->warning_count]; };
check('mysqli login', fn () => $all('SELECT CURRENT_USER(), DATABASE(), @@character_set_client'), fn () => $db->server_info === $all('SELECT VERSION()')[0][0], fn () => $db->character_set_name());
check('mysqli wrong_password', fn () => mysqli('wrong'));
check('mysqli unknown_database', fn () => mysqli(PASSWORD, 'no_such_database'));
check('mysqli tls', fn () => mysqli(tls: true)->query("SHOW STATUS LIKE 'Ssl_version'")->fetch_all());
foreach (explode(";\n", $types) as $sql) {
    if (trim($sql) !== '') {
        check('mysqli types_made', fn () => $changed($sql));
    }
}
check('mysqli types_text', fn () => $all('SELECT * FROM types ORDER BY id'));
check('mysqli types_prepared', function () use ($db) {
    $s = $db->prepare('SELECT * FROM types WHERE id > ? ORDER BY id');
    $zero = 0;
    $s->bind_param('i', $zero);
    $s->execute();
    return $s->get_result()->fetch_all(MYSQLI_NUM);
});
check('mysqli fields', fn () => array_map(fn ($f) => [$f->name, $f->orgname, $f->table, $f->orgtable, $f->length, $f->charsetnr, $f->flags, $f->type, $f->decimals], $db->query('SELECT t.*, id + 1 n FROM types t WHERE id = 0')->fetch_fields()));
check('mysqli types_in', function () use ($db) {
    $s = $db->prepare('INSERT INTO types (id, ti, d, db, da, dt6, vc, vb, e, tx) VALUES (?,?,?,?,?,?,?,?,?,?)');
    $blob = "\0'\\\xff";
    $values = [10, -5, '-12.345600', 0.1, '2001-02-03', '2001-02-03 04:05:06.789012', "naïve 'q' \\ 😀", $blob, 'large', null];
    $s->bind_param('iisdssssss', ...$values);
    $s->execute();
    return [$s->affected_rows, $db->query('SELECT id, ti, d, db, da, dt6, vc, HEX(vb), e, tx FROM types WHERE id = 10')->fetch_row()];
});
check('mysqli transactions', fn () => $changed('CREATE TABLE tx (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB'), function () use ($db, $all) {
    $db->begin_transaction();
    $db->query('INSERT INTO tx (v) VALUES (1)');
    $db->commit();
    $db->begin_transaction(MYSQLI_TRANS_START_WITH_CONSISTENT_SNAPSHOT);
    $db->query('INSERT INTO tx (v) VALUES (2)');
    $db->savepoint('a');
    $db->query('INSERT INTO tx (v) VALUES (3)');
    $db->query('ROLLBACK TO a');
    $inside = $all('SELECT v FROM tx');
    $db->rollback();
    return [$inside, $all('SELECT v FROM tx')];
});
check('mysqli insert_id', fn () => $changed('INSERT INTO tx (v) VALUES (10), (11), (12)'), fn () => $changed('INSERT INTO tx (id, v) VALUES (100, 1) ON DUPLICATE KEY UPDATE v = v + 1'), fn () => $changed('INSERT INTO tx (id, v) VALUES (100, 1) ON DUPLICATE KEY UPDATE v = v + 1'));
check('mysqli affected', fn () => $changed('UPDATE tx SET v = 10 WHERE v = 10'), function () {
    $found = mysqli(flags: MYSQLI_CLIENT_FOUND_ROWS);
    $found->query('UPDATE tx SET v = 10 WHERE v = 10');
    return [$found->affected_rows, $found->info];
});
foreach (['SELECT * FROM nothing', 'SELEC 1', 'INSERT INTO tx (id, v) VALUES (100, 1)', 'INSERT INTO types (id, ti) VALUES (20, 1000)', "INSERT INTO types (id, c) VALUES (20, 'longer than ten')"] as $sql) {
    check("mysqli error $sql", fn () => $db->query($sql), fn () => $db->prepare($sql)->execute());
}
check('mysqli multi', function () use ($db) {
    $out = [];
    $db->multi_query("SELECT 1; SET @a = 5; SELECT @a, 'x' UNION SELECT 6, 'y'");
    do {
        $out[] = ($set = $db->store_result()) ? $set->fetch_all() : $db->affected_rows;
    } while ($db->more_results() && $db->next_result());
    return $out;
});
check('mysqli lock_wait', function () use ($db) {
    $other = mysqli();
    $other->query('SET innodb_lock_wait_timeout = 1');
    $db->begin_transaction();
    $db->query('UPDATE tx SET v = 5 WHERE id = 100');
    try {
        return $other->query('UPDATE tx SET v = 6 WHERE id = 100');
    } finally {
        $db->rollback();
    }
});
check('mysqli dropped', function () use ($db) {
    $other = mysqli();
    $db->query("KILL {$other->thread_id}");
    usleep(100000);
    try {
        @$other->query('SELECT 1');
    } catch (mysqli_sql_exception $e) {
        return in_array($e->getCode(), [2006, 2013, 1927]);
    }
});
$blob = str_repeat("big\0 blob", 500000);
check('mysqli big_blob', fn () => $changed('CREATE TABLE big (id INT PRIMARY KEY, data LONGBLOB)'), function () use ($db, $blob, $all) {
    $s = $db->prepare('INSERT INTO big VALUES (1, ?)');
    $null = null;
    $s->bind_param('b', $null);
    foreach (str_split($blob, 1 << 20) as $piece) {
        $s->send_long_data(0, $piece);
    }
    $s->execute();
    return $all('SELECT LENGTH(data), MD5(data), data FROM big');
});
check('mysqli batch', fn () => $changed('CREATE TABLE batch (id INT PRIMARY KEY, v VARCHAR(20))'), function () use ($db, $all) {
    $db->begin_transaction();
    $s = $db->prepare('INSERT INTO batch VALUES (?, ?)');
    for ($n = 0; $n < 3000; $n++) {
        $s->execute([$n, "value $n"]);
    }
    $db->commit();
    return $all('SELECT COUNT(*), SUM(CRC32(v)) FROM batch');
});
check('mysqli streaming', function () use ($db) {
    $set = $db->query('SELECT a.id, b.v FROM batch a JOIN batch b WHERE b.id < 20 ORDER BY a.id, b.id', MYSQLI_USE_RESULT);
    for ($count = $sum = 0; $row = $set->fetch_row(); $count++) {
        $sum += $row[0];
    }
    $set->free();
    return [$count, $sum];
}, function () use ($db) {
    $s = $db->prepare('SELECT a.id, b.v FROM batch a JOIN batch b WHERE b.id < ? ORDER BY a.id, b.id');
    $s->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
    $s->execute([20]);
    $s->bind_result($id, $v);
    for ($count = $sum = 0; $s->fetch(); $count++) {
        $sum += $id;
    }
    $s->close();
    return [$count, $sum];
});
check('mysqli compressed', fn () => mysqli(flags: MYSQLI_CLIENT_COMPRESS)->query("SELECT REPEAT('y', 100000)")->fetch_row());
check('mysqli change_user', fn () => $db->change_user(USER, PASSWORD, DATABASE), fn () => $all('SELECT DATABASE()'));

foreach (['emulated' => true, 'native' => false] as $name => $emulate) {
    $pdo = pdo([PDO::ATTR_EMULATE_PREPARES => $emulate]);
    $rows = function (string $sql, array $args = []) use ($pdo) {
        $s = $pdo->prepare($sql);
        $s->execute($args);
        return $s->columnCount() ? $s->fetchAll(PDO::FETCH_NUM) : [$s->rowCount(), $pdo->lastInsertId()];
    };
    check("pdo $name types", fn () => $rows('SELECT * FROM types WHERE id > ? ORDER BY id', [0]));
    check("pdo $name types_in", fn () => $rows('INSERT INTO types (id, ti, d, db, da, vc, e, tx, b) VALUES (:id, :ti, :d, :db, :da, :vc, :e, :tx, :b)', ['id' => $emulate ? 11 : 12, 'ti' => -5, 'd' => '-1.5', 'db' => 0.1, 'da' => '2001-02-03', 'vc' => "naïve 'q' \\ 😀", 'e' => 'large', 'tx' => null, 'b' => true]),
        fn () => $rows('SELECT id, ti, d, db, da, vc, e, tx, b FROM types WHERE id >= 11'));
    check("pdo $name errors", fn () => $rows('SELECT * FROM nothing'), fn () => $rows('SELEC 1'), fn () => $rows('INSERT INTO tx (id, v) VALUES (?, 1)', [100]), fn () => $rows('INSERT INTO types (id, ti) VALUES (20, ?)', [1000]));
    check("pdo $name transaction", function () use ($pdo, $rows) {
        $pdo->beginTransaction();
        $told = [$pdo->inTransaction(), $rows('INSERT INTO tx (v) VALUES (?)', [50])];
        $pdo->rollBack();
        return [...$told, $rows('SELECT COUNT(*) FROM tx WHERE v = ?', [50])];
    });
    check("pdo $name columns", function () use ($pdo) {
        $s = $pdo->query('SELECT * FROM types WHERE id = 0');
        return array_map(fn ($i) => $s->getColumnMeta($i), range(0, $s->columnCount() - 1));
    });
    check("pdo $name rowsets", function () use ($pdo) {
        $s = $pdo->query('SELECT 1; SELECT 2, 3');
        $out = [$s->fetchAll(PDO::FETCH_NUM)];
        while ($s->nextRowset()) {
            $out[] = $s->fetchAll(PDO::FETCH_NUM);
        }
        return $out;
    });
    check("pdo $name unbuffered", function () use ($emulate) {
        $stream = pdo([PDO::MYSQL_ATTR_USE_BUFFERED_QUERY => false, PDO::ATTR_EMULATE_PREPARES => $emulate, PDO::ATTR_STRINGIFY_FETCHES => true]);
        $s = $stream->prepare('SELECT a.id FROM batch a JOIN batch b WHERE b.id < ?');
        $s->execute([20]);
        for ($count = $sum = 0; $row = $s->fetch(PDO::FETCH_NUM); $count++) {
            $sum += $row[0];
        }
        return [$count, $sum];
    });
}
check('pdo found rows', function () {
    $s = pdo([PDO::MYSQL_ATTR_FOUND_ROWS => true])->query('UPDATE tx SET v = v');
    return $s->rowCount();
});

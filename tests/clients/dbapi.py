"""What a program asks of a database through Python's DB-API. Each driver's program makes a `Driver` and calls `run`.

Every check prints one line: its name, a colon, what came out. An exception is an outcome like any other.
"""

import datetime
import decimal
import hashlib
import os
import pathlib

HOST = "127.0.0.1"
PORT = int(os.environ["CLIENT_PORT"])
CA = os.environ["CLIENT_CA"]
USER, PASSWORD, DATABASE = "client", "secret 'x'", "clients"
TYPES = (pathlib.Path(__file__).parent / "types.sql").read_text(encoding="utf-8")


class Driver:
    """A module of DB-API, and where drivers differ."""

    def __init__(self, module, connect, streaming, kill_errors=(2006, 2013, 2055, 4031, 1927)):
        self.module, self.connect, self.streaming, self.kill_errors = module, connect, streaming, kill_errors


def show(value):
    """A value as text that does not depend on where it was made; long ones by their digest."""
    if isinstance(value, (bytes, bytearray, str)) and len(value) > 200:
        data = value.encode() if isinstance(value, str) else bytes(value)
        return f"{type(value).__name__}[{len(value)}] {hashlib.md5(data).hexdigest()}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(show(item) for item in value) + ")"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(show(item) for item in value)) + "}"
    return repr(value)


class Checks:
    """The checks, over one connection of `self.con` and others as they need them."""

    def __init__(self, driver):
        self.driver = driver
        self.con = driver.connect()

    def rows(self, sql, args=None, con=None):
        cursor = (con or self.con).cursor()
        cursor.execute(sql, args) if args is not None else cursor.execute(sql)
        found = cursor.fetchall() if cursor.description else cursor.rowcount
        cursor.close()
        return found

    def check_login(self):
        return self.rows("SELECT CURRENT_USER(), DATABASE(), @@character_set_client, @@character_set_results")

    def check_wrong_password(self):
        self.driver.connect(password="wrong")

    def check_unknown_database(self):
        self.driver.connect(database="no_such_database")

    def check_tls(self):
        con = self.driver.connect(tls=True)
        version = self.rows("SHOW STATUS LIKE 'Ssl_version'", con=con)[0][1]
        con.close()
        return version

    def check_types_made(self):
        for statement in TYPES.split(";\n"):
            if statement.strip():
                self.rows(statement)
        self.con.commit()
        return self.rows("SELECT COUNT(*) FROM types")

    def check_types_out(self):
        for row in self.rows("SELECT * FROM types ORDER BY id"):
            print(f"  row {row[0]}: {show(row)}")
        return "done"

    def check_description(self):
        cursor = self.con.cursor()
        cursor.execute("SELECT * FROM types WHERE id = 0")
        told = [(d[0], d[1], d[3], d[4], d[5], d[6]) for d in cursor.description]
        cursor.fetchall()
        cursor.close()
        return told

    def check_types_in(self):
        values = {
            "ti": -5, "biu": 2**64 - 1, "b": True, "d": decimal.Decimal("-12.345600"), "db": 0.1, "f": 2.25,
            "da": datetime.date(2001, 2, 3), "dt6": datetime.datetime(2001, 2, 3, 4, 5, 6, 789012),
            "ti6": datetime.timedelta(hours=-30, microseconds=5), "vc": "naïve 'quoted' \\ 😀", "vb": bytes([0, 39, 92, 255]),
            "e": "large", "y": 1999, "tx": None,
        }
        names = ", ".join(values)
        marks = ", ".join(["%s"] * len(values))
        self.rows(f"INSERT INTO types (id, {names}) VALUES (10, {marks})", tuple(values.values()))
        back = self.rows(f"SELECT {names} FROM types WHERE id = %s", (10,))
        self.con.commit()
        return back

    def check_transactions(self):
        self.rows("CREATE TABLE tx (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB")
        self.rows("INSERT INTO tx (v) VALUES (1)")
        self.con.commit()
        self.rows("INSERT INTO tx (v) VALUES (2)")
        self.rows("SAVEPOINT a")
        self.rows("INSERT INTO tx (v) VALUES (3)")
        self.rows("ROLLBACK TO a")
        inside = self.rows("SELECT v FROM tx ORDER BY id")
        self.con.rollback()
        return inside, self.rows("SELECT v FROM tx ORDER BY id")

    def check_insert_id(self):
        cursor = self.con.cursor()
        cursor.execute("INSERT INTO tx (v) VALUES (10), (11), (12)")
        told = (cursor.lastrowid, cursor.rowcount)
        cursor.execute("INSERT INTO tx (id, v) VALUES (100, 1) ON DUPLICATE KEY UPDATE v = v + 1")
        told += (cursor.lastrowid, cursor.rowcount)
        cursor.execute("INSERT INTO tx (id, v) VALUES (100, 1) ON DUPLICATE KEY UPDATE v = v + 1")
        told += (cursor.lastrowid, cursor.rowcount)
        cursor.close()
        self.con.commit()
        return told

    def check_affected(self):
        same = self.rows("UPDATE tx SET v = 10 WHERE v = 10")
        other = self.rows("UPDATE tx SET v = 20 WHERE v > 10")
        gone = self.rows("DELETE FROM tx WHERE v = 20")
        self.con.rollback()
        return same, other, gone

    def check_errors(self):
        for sql in [
            "SELECT * FROM nothing", "SELEC 1", "SELECT nothing FROM tx", "INSERT INTO tx (id, v) VALUES (100, 1)",
            "INSERT INTO types (id, ti) VALUES (20, 1000)", "INSERT INTO types (id, c) VALUES (20, 'longer than ten')",
            "INSERT INTO types (id) VALUES (NULL)", "INSERT INTO types (id, da) VALUES (20, '2023-02-30')", "SELECT 1 FROM",
            "INSERT INTO types (id, e) VALUES (20, 'huge')", "INSERT INTO types (id, j) VALUES (20, '{')", "USE nowhere",
            "CREATE TABLE tx (i INT)", "DROP TABLE nothing", "SELECT 1 + (SELECT 1 UNION SELECT 2)",
        ]:
            try:
                print(f"  {sql}: {show(self.rows(sql))}")
            except self.driver.module.Error as error:
                print(f"  {sql}: {type(error).__name__} {show(error.args)} {getattr(error, 'sqlstate', '')}")
        self.con.rollback()
        return "done"

    def check_lock_wait(self):
        other = self.driver.connect()
        self.rows("SET innodb_lock_wait_timeout = 1", con=other)
        self.rows("UPDATE tx SET v = 5 WHERE id = 100")
        try:
            return self.rows("UPDATE tx SET v = 6 WHERE id = 100", con=other)
        finally:
            self.con.rollback()
            other.close()

    def check_dropped(self):
        other = self.driver.connect()
        number = self.rows("SELECT CONNECTION_ID()", con=other)[0][0]
        self.rows(f"KILL {number}")
        try:
            return self.rows("SELECT 1", con=other)
        except self.driver.module.Error as error:
            return type(error).__name__, error.args[0] in self.driver.kill_errors

    def check_unicode(self):
        texts = ["ascii", "ümläut", "日本語テキスト", "😀👩‍👩‍👧", "e\u0301 \u00e9", "\u0000nul", "'\"\\\n\r\t\x1a%_"]
        self.rows("CREATE TABLE words (id INT PRIMARY KEY AUTO_INCREMENT, w VARCHAR(50)) CHARACTER SET utf8mb4")
        for text in texts:
            self.rows("INSERT INTO words (w) VALUES (%s)", (text,))
        self.con.commit()
        back = [row[0] for row in self.rows("SELECT w FROM words ORDER BY id")]
        return back == texts, self.rows("SELECT CHAR_LENGTH(w), HEX(w) FROM words ORDER BY id")

    def check_big_blob(self):
        data = bytes(range(256)) * 4 * 4000
        self.rows("CREATE TABLE big (id INT PRIMARY KEY, data LONGBLOB)")
        self.rows("INSERT INTO big VALUES (1, %s)", (data,))
        self.con.commit()
        back = self.rows("SELECT data, LENGTH(data), MD5(data) FROM big")
        return bytes(back[0][0]) == data, show(back)

    def check_batch(self):
        cursor = self.con.cursor()
        cursor.execute("CREATE TABLE batch (id INT PRIMARY KEY, v VARCHAR(20))")
        cursor.executemany("INSERT INTO batch (id, v) VALUES (%s, %s)", [(n, f"value {n}") for n in range(5000)])
        self.con.commit()
        count = cursor.rowcount
        cursor.close()
        return count, self.rows("SELECT COUNT(*), SUM(CRC32(v)) FROM batch")

    def check_streaming(self):
        cursor = self.driver.streaming(self.con)
        cursor.execute("SELECT a.id, b.v FROM batch a JOIN batch b WHERE b.id < 20 ORDER BY a.id, b.id")
        count = total = 0
        while True:
            rows = cursor.fetchmany(1000)
            if not rows:
                break
            count += len(rows)
            total += sum(row[0] for row in rows)
        cursor.close()
        return count, total

    def check_warnings(self):
        self.rows("SET sql_mode = ''")
        changed = self.rows("INSERT INTO types (id, ti, c) VALUES (30, 1000, 'longer than ten')")
        told = self.rows("SHOW WARNINGS")
        self.con.rollback()
        self.rows("SET sql_mode = DEFAULT")
        return changed, told


def run(driver, **more):
    """All checks in the order they are written, then those of the driver alone, called with the checks."""
    checks = Checks(driver)
    own = [name for name in vars(Checks) if name.startswith("check_")]
    for name, check in [(name[6:], getattr(checks, name)) for name in own] + list(more.items()):
        try:
            outcome = show(check() if name not in more else check(checks))
        except Exception as error:
            outcome = f"{type(error).__name__} {show(error.args)}"
        print(f"{name}: {outcome}", flush=True)
    checks.con.close()

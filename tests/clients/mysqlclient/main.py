"""mysqlclient (MySQLdb): MariaDB's own C library under Python."""

import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import dbapi
import MySQLdb
import MySQLdb.constants
import MySQLdb.cursors


def connect(password=dbapi.PASSWORD, database=dbapi.DATABASE, tls=False, **more):
    if tls:
        more["ssl"] = {"ca": dbapi.CA}
    return MySQLdb.connect(
        host=dbapi.HOST, port=dbapi.PORT, user=dbapi.USER, password=password, database=database, charset="utf8mb4", **more
    )


def several_results(checks):
    con = connect(client_flag=MySQLdb.constants.CLIENT.MULTI_STATEMENTS)
    cursor = con.cursor()
    cursor.execute("SELECT 1; SET @a = 5; SELECT @a, 'x' UNION SELECT 6, 'y'; SELECT * FROM nothing; SELECT 9")
    found = [cursor.fetchall()]
    try:
        while cursor.nextset():
            found.append(cursor.fetchall())
    except MySQLdb.Error as error:
        found.append(error.args)
    con.close()
    return found


def compressed(checks):
    con = connect(compress=True)
    found = checks.rows("SELECT LENGTH(REPEAT('x', 100000)), REPEAT('y', 100000)", con=con)
    con.close()
    return found


def library(checks):
    con = checks.con
    con.ping()
    cursor = con.cursor()
    cursor.execute("UPDATE tx SET v = 7 WHERE id = 100")
    told = con.info(), con.thread_id() > 0, con.warning_count(), con.field_count(), con.sqlstate()
    con.rollback()
    return told


def field_flags(checks):
    checks.con.query("SELECT * FROM types WHERE id = 1")
    result = checks.con.store_result()
    return result.describe(), result.field_flags()


def conversions(checks):
    cursor = checks.con.cursor(MySQLdb.cursors.DictCursor)
    cursor.execute("SELECT id, v, id AS same FROM tx ORDER BY id LIMIT 2")
    return [sorted(row.items()) for row in cursor.fetchall()]


driver = dbapi.Driver(MySQLdb, connect, lambda con: con.cursor(MySQLdb.cursors.SSCursor))
dbapi.run(
    driver, several_results=several_results, compressed=compressed, library=library, field_flags=field_flags, conversions=conversions
)

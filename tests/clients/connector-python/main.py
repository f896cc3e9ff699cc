"""MySQL Connector/Python in its pure form, with prepared statements."""

import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import datetime
import decimal
import dbapi
import mysql.connector


def connect(password=dbapi.PASSWORD, database=dbapi.DATABASE, tls=False, **more):
    if tls:
        more.update(ssl_ca=dbapi.CA, ssl_verify_cert=True)
    else:
        more["ssl_disabled"] = True
    return mysql.connector.connect(
        host=dbapi.HOST, port=dbapi.PORT, user=dbapi.USER, password=password, database=database, use_pure=True,
        charset="utf8mb4", collation="utf8mb4_general_ci", **more,
    )


# The driver itself stumbles over some of the other columns side by side, whatever the server.
COLUMNS = "id, ti, tiu, si, i, iu, bi, biu, d, f, db, da, dt, dt6, ts, vc, tx, vb, bl, e, s, j"


def prepared(checks):
    cursor = checks.con.cursor(prepared=True)
    for number in (1, 2, 3, 4):
        cursor.execute(f"SELECT {COLUMNS} FROM types WHERE id = %s", (number,))
        for row in cursor.fetchall():
            print(f"  prepared row {number}: {dbapi.show(row)}")
    values = (11, -5, decimal.Decimal("1.500000"), 0.5, datetime.date(2001, 2, 3), datetime.datetime(2001, 2, 3, 4, 5, 6, 7), "tëxt", b"\0\xff", None)
    cursor.execute("INSERT INTO types (id, ti, d, db, da, dt6, vc, vb, tx) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", values)
    cursor.execute("SELECT id, ti, d, db, da, dt6, vc, vb, tx FROM types WHERE id = %s", (11,))
    found = cursor.fetchall()
    cursor.close()
    checks.con.rollback()
    return found


def prepared_errors(checks):
    found = []
    cursor = checks.con.cursor(prepared=True)
    for sql, args in [
        ("SELECT * FROM nothing WHERE id = %s", (1,)), ("INSERT INTO tx (id, v) VALUES (%s, 1)", (100,)), ("SELEC %s", (1,)),
        ("INSERT INTO types (id, ti) VALUES (20, %s)", (1000,)),
    ]:
        try:
            cursor.execute(sql, args)
        except mysql.connector.Error as error:
            found.append((error.errno, error.sqlstate, error.msg))
    return found


def session(checks):
    con = checks.con
    con.rollback()
    told = con.is_connected(), con.autocommit, con.time_zone, con.sql_mode, con.database, con.in_transaction
    con.start_transaction(isolation_level="READ COMMITTED")
    told += (con.in_transaction,)
    con.rollback()
    con.cmd_reset_connection()
    con.cmd_change_user(dbapi.USER, dbapi.PASSWORD, dbapi.DATABASE)
    return told, checks.rows("SELECT CURRENT_USER(), DATABASE()")


class Names:
    Error = mysql.connector.Error


driver = dbapi.Driver(Names, connect, lambda con: con.cursor())
dbapi.run(driver, prepared=prepared, prepared_errors=prepared_errors, session=session)

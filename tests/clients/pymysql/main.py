"""PyMySQL, whose connections speak the text protocol only."""

import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import dbapi
import pymysql
import pymysql.cursors


def connect(password=dbapi.PASSWORD, database=dbapi.DATABASE, tls=False, **more):
    ssl = {"ca": dbapi.CA} if tls else None
    return pymysql.connect(host=dbapi.HOST, port=dbapi.PORT, user=dbapi.USER, password=password, database=database, ssl=ssl, **more)


def several_results(checks):
    con = connect(client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS)
    cursor = con.cursor()
    cursor.execute("SELECT 1; SET @a = 5; SELECT @a, 'x' UNION SELECT 6, 'y'; SELECT * FROM nothing; SELECT 9")
    found = [cursor.fetchall()]
    try:
        while cursor.nextset():
            found.append(cursor.fetchall())
    except pymysql.Error as error:
        found.append(error.args)
    con.close()
    return found


def found_rows(checks):
    con = connect(client_flag=pymysql.constants.CLIENT.FOUND_ROWS)
    count = checks.rows("UPDATE tx SET v = v WHERE id = 100", con=con)
    con.rollback()
    con.close()
    return count


def dictionaries(checks):
    cursor = checks.con.cursor(pymysql.cursors.DictCursor)
    cursor.execute("SELECT id, v, id AS same FROM tx ORDER BY id LIMIT 2")
    return [sorted(row.items()) for row in cursor.fetchall()]


def ping(checks):
    checks.con.ping(reconnect=False)
    checks.con.select_db("clients")
    return checks.con.server_status, checks.con.get_autocommit()


driver = dbapi.Driver(pymysql, connect, lambda con: con.cursor(pymysql.cursors.SSCursor))
dbapi.run(driver, several_results=several_results, found_rows=found_rows, dictionaries=dictionaries, ping=ping)

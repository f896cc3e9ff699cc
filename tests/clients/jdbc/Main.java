import java.io.ByteArrayInputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.sql.*;
import java.util.*;

/** JDBC through the driver that the first argument names: MariaDB Connector/J or MySQL Connector/J. */
public class Main {
    static final String PORT = System.getenv("CLIENT_PORT");
    static boolean mariadb;

    interface Check { String run() throws Exception; }

    static Connection open(String database, String password, String more) throws SQLException {
        String scheme = mariadb ? "jdbc:mariadb" : "jdbc:mysql";
        // Connector/J of MySQL asks for TLS by itself.
        String tls = more.contains("ssl") || mariadb ? "" : "&sslMode=DISABLED&allowPublicKeyRetrieval=true";
        Properties who = new Properties();
        who.put("user", "client");
        who.put("password", password);
        return DriverManager.getConnection(scheme + "://127.0.0.1:" + PORT + "/" + database + "?" + more + tls, who);
    }

    static Connection open(String more) throws SQLException { return open("clients", "secret 'x'", more); }

    static String show(Object value) throws Exception {
        if (value instanceof byte[] bytes) {
            String hex = HexFormat.of().formatHex(bytes.length > 60 ? MessageDigest.getInstance("MD5").digest(bytes) : bytes);
            return "bytes[" + bytes.length + "] " + hex;
        }
        if (value instanceof Blob blob) return "blob " + show(blob.getBytes(1, (int) blob.length()));
        if (value instanceof Clob clob) return "clob " + clob.getSubString(1, (int) clob.length());
        String text = String.valueOf(value);
        if (text.length() > 300) text = "text[" + text.length() + "] " + text.hashCode();
        return value == null ? "null" : value.getClass().getSimpleName() + " " + text;
    }

    static String rows(ResultSet set) throws Exception {
        StringJoiner out = new StringJoiner(" ");
        int columns = set.getMetaData().getColumnCount();
        while (set.next()) {
            StringJoiner row = new StringJoiner(", ", "(", ")");
            for (int i = 1; i <= columns; i++) row.add(show(set.getObject(i)));
            out.add(row.toString());
        }
        return out.toString();
    }

    static String run(Connection con, String sql, Object... args) throws Exception {
        try (PreparedStatement statement = con.prepareStatement(sql, Statement.RETURN_GENERATED_KEYS)) {
            for (int i = 0; i < args.length; i++) statement.setObject(i + 1, args[i]);
            boolean rows = statement.execute();
            StringJoiner out = new StringJoiner(" | ");
            while (true) {
                if (rows) out.add(rows(statement.getResultSet()));
                else if (statement.getUpdateCount() >= 0) out.add(statement.getUpdateCount() + " rows, keys " + rows(statement.getGeneratedKeys()));
                else break;
                rows = statement.getMoreResults();
            }
            return out.toString();
        }
    }

    static void check(String name, Check... checks) {
        StringJoiner out = new StringJoiner("; ");
        for (Check one : checks) out.add(attempt(one));
        System.out.println(name + ": " + out);
    }

    static String attempt(Check check) {
        try {
            return check.run();
        } catch (SQLException error) {
            String text = String.valueOf(error.getMessage()).replaceAll("\\(conn=\\d+\\) ", "").replaceAll("\\s+", " ");
            return error.getClass().getSimpleName() + " " + error.getErrorCode() + " " + error.getSQLState() + " " + text;
        } catch (Exception error) {
            return "" + error;
        }
    }

    public static void main(String[] args) throws Exception {
        mariadb = args[0].equals("mariadb");
        Connection con = open("");
        check("login", () -> run(con, "SELECT CURRENT_USER(), DATABASE(), @@character_set_client"));
        check("wrong_password", () -> "" + open("clients", "wrong", ""));
        check("unknown_database", () -> "" + open("no_such_database", "secret 'x'", ""));
        String ca = System.getenv("CLIENT_CA");
        check("tls", () -> run(open(mariadb ? "sslMode=verify-ca&serverSslCert=" + ca : "sslMode=REQUIRED"), "SHOW STATUS LIKE 'Ssl_version'"));
        for (String sql : Files.readString(Path.of(System.getenv("CLIENT_TYPES"))).split(";\n")) if (!sql.isBlank()) check("types_made", () -> run(con, sql));
        for (String more : List.of("", "useServerPrepStmts=true")) {
            Connection one = open(more);
            for (int id = 1; id <= 4; id++) {
                int row = id;
                check("types " + more + " " + id, () -> run(one, "SELECT * FROM types WHERE id = ?", row));
            }
            check("types_in " + more, () -> insertTypes(one, more.isEmpty() ? 10 : 11), () -> run(one, "SELECT * FROM types WHERE id > ?", 9));
            check("errors " + more, () -> run(one, "SELECT * FROM nothing WHERE id = ?", 1), () -> run(one, "SELEC ?", 1),
                () -> run(one, "INSERT INTO types (id) VALUES (?)", 1), () -> run(one, "INSERT INTO types (id, ti) VALUES (20, ?)", 1000),
                () -> run(one, "INSERT INTO types (id, c) VALUES (20, ?)", "longer than ten"), () -> run(one, "INSERT INTO types (id, da) VALUES (20, ?)", "2023-02-30"));
            one.close();
        }
        check("columns", () -> columns(con));
        transactions(con);
        check("insert_id", () -> run(con, "INSERT INTO tx (v) VALUES (10), (11), (12)"), () -> run(con, "INSERT INTO tx (id, v) VALUES (100, 1) ON DUPLICATE KEY UPDATE v = v + 1"),
            () -> run(con, "INSERT INTO tx (id, v) VALUES (100, 1) ON DUPLICATE KEY UPDATE v = v + 1"));
        check("affected", () -> run(con, "UPDATE tx SET v = 10 WHERE v = 10"), () -> run(open("useAffectedRows=true"), "UPDATE tx SET v = 10 WHERE v = 10"), () -> run(con, "DELETE FROM tx WHERE v = 12"));
        check("multi", () -> run(open("allowMultiQueries=true"), "SELECT 1; SET @a = 5; SELECT @a, 'x' UNION SELECT 6, 'y'"), () -> run(open("allowMultiQueries=true"), "SELECT 1; SELECT * FROM nothing"));
        check("lock_wait", () -> lockWait(con));
        check("dropped", () -> dropped(con));
        byte[] blob = "big\0 blob".repeat(500_000).getBytes();
        check("big_blob", () -> run(con, "CREATE TABLE big (id INT PRIMARY KEY, data LONGBLOB)"), () -> run(con, "INSERT INTO big VALUES (1, ?)", (Object) blob),
            () -> run(open("useServerPrepStmts=true"), "INSERT INTO big VALUES (2, ?)", new ByteArrayInputStream(blob)), () -> run(con, "SELECT id, LENGTH(data), data FROM big"));
        check("batch", () -> run(con, "CREATE TABLE batch (id INT PRIMARY KEY, v VARCHAR(20))"), () -> batch(open("rewriteBatchedStatements=true&useServerPrepStmts=false"), 0),
            () -> batch(open("useServerPrepStmts=true"), 2500), () -> run(con, "SELECT COUNT(*), SUM(CRC32(v)) FROM batch"));
        check("batch_errors", () -> batchErrors(con), () -> batchErrors(open("useServerPrepStmts=true")));
        check("streaming", () -> streaming(con, mariadb ? 100 : Integer.MIN_VALUE), () -> streaming(open(mariadb ? "useServerPrepStmts=true" : "useServerPrepStmts=true&useCursorFetch=true&defaultFetchSize=100"), 100));
        check("database", () -> metadata(con));
        check("time_zone", () -> run(open(mariadb ? "timezone=+05:00&forceConnectionTimeZoneToSession=true" : "connectionTimeZone=%2B05:00&forceConnectionTimeZoneToSession=true"), "SELECT @@time_zone, FROM_UNIXTIME(0), ?", Timestamp.valueOf("2020-01-01 10:00:00")));
        check("compressed", () -> run(open("useCompression=true"), "SELECT REPEAT('y', 100000), ?", 1));
        check("query_timeout", () -> timeout(con));
        check("updatable", () -> updatable(con));
        con.close();
    }

    static String insertTypes(Connection con, int id) throws Exception {
        return run(con, "INSERT INTO types (id, ti, biu, b, d, db, f, da, dt6, ti0, vc, vb, e, y, tx, bi) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            id, -5, new BigInteger("18446744073709551615"), true, new BigDecimal("-12.345600"), 0.1, 2.25f, java.sql.Date.valueOf("2001-02-03"),
            Timestamp.valueOf("2001-02-03 04:05:06.789012"), Time.valueOf("10:11:12"), "naïve 'quoted' \\ 😀", new byte[] {0, 39, 92, -1}, "large", 1999, null, Long.MAX_VALUE);
    }

    static String columns(Connection con) throws Exception {
        try (ResultSet set = con.createStatement().executeQuery("SELECT t.*, id + 1 AS next, vc AS other FROM types t WHERE id = 0")) {
            ResultSetMetaData told = set.getMetaData();
            StringJoiner out = new StringJoiner("; ");
            for (int i = 1; i <= told.getColumnCount(); i++)
                out.add(told.getColumnLabel(i) + " " + told.getColumnName(i) + " " + told.getTableName(i) + " " + told.getColumnTypeName(i) + " " + told.getColumnType(i) + " "
                    + told.getPrecision(i) + " " + told.getScale(i) + " " + told.isNullable(i) + " " + told.isAutoIncrement(i) + " " + told.isSigned(i) + " " + told.getColumnClassName(i));
            return out.toString();
        }
    }

    static void transactions(Connection con) {
        check("transactions", () -> run(con, "CREATE TABLE tx (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB"), () -> {
            con.setAutoCommit(false);
            run(con, "INSERT INTO tx (v) VALUES (1)");
            con.commit();
            run(con, "INSERT INTO tx (v) VALUES (2)");
            Savepoint a = con.setSavepoint("a");
            run(con, "INSERT INTO tx (v) VALUES (3)");
            con.rollback(a);
            String inside = run(con, "SELECT v FROM tx");
            con.rollback();
            con.setAutoCommit(true);
            return inside + " then " + run(con, "SELECT v FROM tx");
        }, () -> {
            con.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            int level = con.getTransactionIsolation();
            con.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            return level + " " + con.getTransactionIsolation() + " " + con.isValid(1) + " " + con.getCatalog();
        }, () -> {
            con.setReadOnly(true);
            con.setAutoCommit(false);
            String told = attempt(() -> run(con, "INSERT INTO tx (v) VALUES (9)"));
            con.rollback();
            con.setAutoCommit(true);
            con.setReadOnly(false);
            return told;
        });
    }

    static String lockWait(Connection con) throws Exception {
        Connection other = open("");
        run(other, "SET innodb_lock_wait_timeout = 1");
        con.setAutoCommit(false);
        run(con, "UPDATE tx SET v = 5 WHERE id = 100");
        String told = attempt(() -> run(other, "UPDATE tx SET v = 6 WHERE id = ?", 100));
        con.rollback();
        con.setAutoCommit(true);
        other.close();
        return told;
    }

    static String dropped(Connection con) throws Exception {
        Connection other = open("");
        ResultSet id = other.createStatement().executeQuery("SELECT CONNECTION_ID()");
        id.next();
        run(con, "KILL " + id.getInt(1));
        try {
            return run(other, "SELECT 1");
        } catch (SQLException error) {
            return error.getSQLState() + " " + other.isValid(1);
        }
    }

    static String batch(Connection con, int from) throws Exception {
        try (PreparedStatement statement = con.prepareStatement("INSERT INTO batch (id, v) VALUES (?, ?)")) {
            for (int n = from; n < from + 2500; n++) {
                statement.setInt(1, n);
                statement.setString(2, n % 7 == 0 ? null : "value " + n);
                statement.addBatch();
            }
            int[] counts = statement.executeBatch();
            return counts.length + " " + counts[0];
        }
    }

    static String batchErrors(Connection con) throws Exception {
        try (PreparedStatement statement = con.prepareStatement("INSERT INTO batch (id, v) VALUES (?, ?)")) {
            for (int n : new int[] {100000, 3, 100001}) {
                statement.setInt(1, n);
                statement.setString(2, "x");
                statement.addBatch();
            }
            statement.executeBatch();
            return "all";
        } catch (BatchUpdateException error) {
            String told = error.getErrorCode() + " " + Arrays.toString(error.getUpdateCounts());
            return told + " " + run(con, "DELETE FROM batch WHERE id >= 100000");
        }
    }

    static String streaming(Connection con, int fetch) throws Exception {
        try (Statement statement = con.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
            statement.setFetchSize(fetch);
            ResultSet set = statement.executeQuery("SELECT a.id, b.v FROM batch a JOIN batch b WHERE b.id < 20 ORDER BY a.id, b.id");
            long count = 0, sum = 0;
            while (set.next()) { count++; sum += set.getInt(1); }
            return count + " " + sum;
        }
    }

    static String metadata(Connection con) throws Exception {
        DatabaseMetaData told = con.getMetaData();
        StringJoiner out = new StringJoiner(" # ");
        run(con, "CREATE TABLE child (id INT PRIMARY KEY, parent INT, KEY parent_i (parent), CONSTRAINT fk FOREIGN KEY (parent) REFERENCES tx (id) ON DELETE CASCADE)");
        run(con, "CREATE VIEW seen AS SELECT id, vc FROM types");
        out.add(told.getDatabaseProductName() + " " + told.getDatabaseMajorVersion() + " " + told.getDatabaseMinorVersion());
        out.add(attempt(() -> rows(told.getTables("clients", null, "%", null))));
        out.add(attempt(() -> rows(told.getColumns("clients", null, "types", "%"))));
        out.add(attempt(() -> rows(told.getPrimaryKeys("clients", null, "child"))));
        out.add(attempt(() -> rows(told.getImportedKeys("clients", null, "child"))));
        out.add(attempt(() -> rows(told.getExportedKeys("clients", null, "tx"))));
        out.add(attempt(() -> rows(told.getIndexInfo("clients", null, "child", false, true)).replaceAll("Long \\d+, null, null\\)", "n)").replaceAll("Integer \\d+, null, null\\)", "n)")));
        out.add(attempt(() -> rows(told.getProcedures("clients", null, "%"))));
        out.add(attempt(() -> rows(told.getTypeInfo())));
        out.add(attempt(() -> rows(told.getTablePrivileges("clients", null, "%"))));
        return out.toString().replace(" # ", "\n  ");
    }

    static String timeout(Connection con) throws Exception {
        try (Statement statement = con.createStatement()) {
            statement.setQueryTimeout(1);
            return rows(statement.executeQuery("SELECT 1, SLEEP(3)"));
        } catch (SQLException error) {
            return error.getClass().getSimpleName() + " " + error.getErrorCode() + " " + run(con, "SELECT 2");
        }
    }

    static String updatable(Connection con) throws Exception {
        try (Statement statement = con.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
            ResultSet set = statement.executeQuery("SELECT id, v FROM tx WHERE id = 100");
            set.next();
            set.updateInt("v", 77);
            set.updateRow();
            set.moveToInsertRow();
            set.updateInt("id", 101);
            set.updateInt("v", 78);
            set.insertRow();
            return run(con, "SELECT id, v FROM tx WHERE id >= 100 ORDER BY id");
        }
    }
}

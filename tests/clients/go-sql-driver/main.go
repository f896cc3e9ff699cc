// go-sql-driver/mysql under database/sql: prepared statements by default, text where it interpolates.
package main

import (
	"context"
	"crypto/md5"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const table = "SELECT * FROM types ORDER BY id"

func config() *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName = "client", "secret 'x'", "clients"
	c.Net, c.Addr = "tcp", "127.0.0.1:"+os.Getenv("CLIENT_PORT")
	c.Apply(mysql.Charset("utf8mb4", ""))
	c.Logger = &mysql.NopLogger{}
	return c
}

func open(change func(*mysql.Config)) *sql.DB {
	c := config()
	change(c)
	connector, err := mysql.NewConnector(c)
	if err != nil {
		panic(err)
	}
	return sql.OpenDB(connector)
}

func show(value any) string {
	switch v := value.(type) {
	case []byte:
		return shorten(fmt.Sprintf("%q", v))
	case string:
		return shorten(fmt.Sprintf("%q", v))
	case time.Time:
		return v.Format("2006-01-02T15:04:05.999999 MST")
	case error:
		var told *mysql.MySQLError
		if errors.As(v, &told) {
			return fmt.Sprintf("error %d (%s): %s", told.Number, string(told.SQLState[:]), told.Message)
		}
		return "error " + v.Error()
	}
	return fmt.Sprintf("%T %v", value, value)
}

func shorten(text string) string {
	if len(text) > 200 {
		return fmt.Sprintf("[%d] %x", len(text), md5.Sum([]byte(text)))
	}
	return text
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// rows reads all rows of all results, as text.
func rows(db querier, query string, args ...any) string {
	found, err := db.QueryContext(context.Background(), query, args...)
	if err != nil {
		return show(err)
	}
	defer found.Close()
	var out []string
	for {
		columns, _ := found.Columns()
		for found.Next() {
			values, places := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				places[i] = &values[i]
			}
			if err := found.Scan(places...); err != nil {
				return show(err)
			}
			var row []string
			for _, value := range values {
				row = append(row, show(value))
			}
			out = append(out, "("+strings.Join(row, ", ")+")")
		}
		if !found.NextResultSet() {
			break
		}
		out = append(out, "|")
	}
	if err := found.Err(); err != nil {
		out = append(out, show(err))
	}
	return strings.Join(out, " ")
}

func exec(db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, query string, args ...any) string {
	result, err := db.ExecContext(context.Background(), query, args...)
	if err != nil {
		return show(err)
	}
	id, _ := result.LastInsertId()
	affected, _ := result.RowsAffected()
	return fmt.Sprintf("id %d, %d rows", id, affected)
}

func main() {
	db := open(func(*mysql.Config) {})
	text := open(func(c *mysql.Config) { c.InterpolateParams, c.MultiStatements, c.ParseTime = true, true, true })
	check := func(name string, outcome ...string) { fmt.Printf("%s: %s\n", name, strings.Join(outcome, "; ")) }
	check("login", rows(db, "SELECT CURRENT_USER(), DATABASE(), @@character_set_client"))
	check("wrong_password", show(open(func(c *mysql.Config) { c.Passwd = "wrong" }).Ping()))
	check("unknown_database", show(open(func(c *mysql.Config) { c.DBName = "no_such_database" }).Ping()))
	pool := x509.NewCertPool()
	pem, _ := os.ReadFile(os.Getenv("CLIENT_CA"))
	pool.AppendCertsFromPEM(pem)
	mysql.RegisterTLSConfig("own", &tls.Config{RootCAs: pool, ServerName: "localhost"})
	check("tls", rows(open(func(c *mysql.Config) { c.TLSConfig = "own" }), "SHOW STATUS LIKE 'Ssl_version'"))
	types, err := os.ReadFile(os.Getenv("CLIENT_TYPES"))
	if err != nil {
		panic(err)
	}
	check("types_made", exec(text, string(types)), rows(db, "SELECT COUNT(*) FROM types"))
	check("types_text", rows(text, table))
	check("types_prepared", rows(db, "SELECT * FROM types WHERE id > ? ORDER BY id", 0))
	checkColumns(db, check)
	in := "INSERT INTO types (id, ti, biu, b, d, db, f, da, dt6, ti6, vc, vb, e, y, tx) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
	when := time.Date(2001, 2, 3, 4, 5, 6, 789012000, time.UTC)
	values := []any{-5, uint64(1<<64 - 1), true, "-12.345600", 0.1, float32(2.25), when, when, "-30:00:00.000005", "naïve 'quoted' \\ 😀", []byte{0, 39, 92, 255}, "large", 1999, nil}
	check("types_in_prepared", exec(db, in, append([]any{10}, values...)...))
	check("types_in_text", exec(text, in, append([]any{11}, values...)...))
	check("types_back", rows(db, "SELECT * FROM types WHERE id IN (?, ?) ORDER BY id", 10, 11))
	checkTransactions(db, check)
	check("several", rows(text, "SELECT 1; SET @a = 5; SELECT @a, 'x' UNION SELECT 6, 'y'; SELECT * FROM nothing; SELECT 9"))
	check("insert_id", exec(db, "INSERT INTO tx (v) VALUES (10), (11), (12)"), exec(db, "INSERT INTO tx (id, v) VALUES (100, 1) ON DUPLICATE KEY UPDATE v = v + 1"), exec(db, "INSERT INTO tx (id, v) VALUES (?, 1) ON DUPLICATE KEY UPDATE v = v + 1", 100))
	found := open(func(c *mysql.Config) { c.ClientFoundRows = true })
	check("affected", exec(db, "UPDATE tx SET v = 10 WHERE v = ?", 10), exec(found, "UPDATE tx SET v = 10 WHERE v = ?", 10), exec(db, "DELETE FROM tx WHERE v = 12"))
	for _, query := range []string{
		"SELECT * FROM nothing", "SELEC 1", "INSERT INTO tx (id, v) VALUES (100, 1)", "INSERT INTO types (id, ti) VALUES (20, 1000)",
		"INSERT INTO types (id, c) VALUES (20, 'longer than ten')", "INSERT INTO types (id, da) VALUES (20, '2023-02-30')",
	} {
		check("error "+query, exec(db, query), exec(text, query))
	}
	check("error in value", exec(db, "INSERT INTO types (id, ti) VALUES (20, ?)", 1000), exec(db, "INSERT INTO types (id, da) VALUES (20, ?)", "2023-02-30"))
	check("wrong count", rows(db, "SELECT ?", 1, 2), rows(db, "SELECT ?, ?", 1))
	checkLocks(db, check)
	checkDropped(db, check)
	blob := []byte(strings.Repeat("0123456789abcdef", 256*1024))
	check("big_blob", exec(db, "CREATE TABLE big (id INT PRIMARY KEY, data LONGBLOB)"), exec(db, "INSERT INTO big VALUES (1, ?)", blob), rows(db, "SELECT LENGTH(data), MD5(data), data FROM big WHERE id = ?", 1))
	checkBatch(db, check)
	compressed := open(func(c *mysql.Config) { c.Apply(mysql.EnableCompression(true)) })
	check("compressed", rows(compressed, "SELECT REPEAT('y', 100000), ?", 1))
	checkCancelled(db, check)
}

func checkColumns(db *sql.DB, check func(string, ...string)) {
	found, err := db.Query("SELECT * FROM types WHERE id = ?", 0)
	if err != nil {
		check("columns", show(err))
		return
	}
	defer found.Close()
	types, _ := found.ColumnTypes()
	var out []string
	for _, t := range types {
		length, _ := t.Length()
		precision, scale, _ := t.DecimalSize()
		nullable, _ := t.Nullable()
		out = append(out, fmt.Sprintf("%s %s %v %d %d %d %v", t.Name(), t.DatabaseTypeName(), t.ScanType(), length, precision, scale, nullable))
	}
	check("columns", out...)
}

func checkTransactions(db *sql.DB, check func(string, ...string)) {
	check("tx_table", exec(db, "CREATE TABLE tx (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB"))
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelSerializable} {
		tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
		if err != nil {
			check("begin", show(err))
			continue
		}
		inside := exec(tx, "INSERT INTO tx (v) VALUES (?)", int(level))
		tx.Rollback()
		check("rollback at "+level.String(), inside, rows(db, "SELECT COUNT(*) FROM tx"))
	}
	tx, _ := db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	check("read_only", exec(tx, "INSERT INTO tx (v) VALUES (?)", 1))
	tx.Rollback()
	tx, _ = db.Begin()
	statement, err := tx.Prepare("INSERT INTO tx (v) VALUES (?)")
	if err == nil {
		statement.Exec(7)
		statement.Exec(nil)
	}
	check("commit", show(tx.Commit() == nil), rows(db, "SELECT v FROM tx ORDER BY id"))
}

func checkLocks(db *sql.DB, check func(string, ...string)) {
	first, _ := db.Begin()
	exec(first, "UPDATE tx SET v = 5 WHERE id = 100")
	second, _ := db.Begin()
	exec(second, "SET innodb_lock_wait_timeout = 1")
	check("lock_wait", exec(second, "UPDATE tx SET v = 6 WHERE id = ?", 100))
	first.Rollback()
	second.Rollback()
}

func checkDropped(db *sql.DB, check func(string, ...string)) {
	one, _ := db.Conn(context.Background())
	var id int64
	one.QueryRowContext(context.Background(), "SELECT CONNECTION_ID()").Scan(&id)
	exec(db, fmt.Sprintf("KILL %d", id))
	_, err := one.ExecContext(context.Background(), "SELECT 1")
	check("dropped", fmt.Sprint(errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)))
	one.Close()
	check("pool goes on", rows(db, "SELECT 1"))
}

func checkBatch(db *sql.DB, check func(string, ...string)) {
	exec(db, "CREATE TABLE batch (id INT PRIMARY KEY, v VARCHAR(20))")
	tx, _ := db.Begin()
	statement, _ := tx.Prepare("INSERT INTO batch VALUES (?, ?)")
	for n := 0; n < 5000; n++ {
		if _, err := statement.Exec(n, fmt.Sprintf("value %d", n)); err != nil {
			check("batch", show(err))
			return
		}
	}
	tx.Commit()
	check("batch", rows(db, "SELECT COUNT(*), SUM(CRC32(v)) FROM batch"))
	found, err := db.Query("SELECT a.id FROM batch a JOIN batch b WHERE b.id < ? ORDER BY a.id", 20)
	if err != nil {
		check("streaming", show(err))
		return
	}
	count, sum, id := 0, 0, 0
	for found.Next() {
		found.Scan(&id)
		count, sum = count+1, sum+id
	}
	check("streaming", fmt.Sprint(count, " ", sum))
}

func checkCancelled(db *sql.DB, check func(string, ...string)) {
	cx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := db.ExecContext(cx, "SELECT SLEEP(5)")
	check("cancelled", show(err), rows(db, "SELECT 1"))
}

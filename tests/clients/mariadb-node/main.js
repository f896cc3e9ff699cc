// MariaDB's own connector for Node; execute() uses prepared statements, batch() the bulk protocol where a server has it.
'use strict';
const mariadb = require('mariadb');
const { options, run } = require(process.env.CLIENT_CHECKS);

// Rows without the description of columns that hangs on them.
const rows = (found) => (Array.isArray(found) ? [...found] : found);
const driver = {
  connect: (more) => mariadb.createConnection({ ...options, ...more }),
  query: async (con, sql, args) => { return rows(await con.query(sql, args)); },
  execute: async (con, sql, args) => { return rows(await con.execute(sql, args)); },
  batch: (con, rows) => con.batch('INSERT INTO batch (id, v) VALUES (?, ?)', rows),
  stream: (con, sql) => con.queryStream(sql),
  fields: async (con, sql) => (await con.query({ sql, rowsAsArray: true, metaAsArray: true }))[1].map((f) => [f.name(), f.orgName(), f.table(), f.orgTable(), f.type, f.columnLength, f.flags, f.scale, f.collation && f.collation.name]),
  end: (con) => con.end(),
};
run(driver, {
  bulk: async () => {
    const con = await driver.connect({ bulk: true });
    await con.query('CREATE TABLE bulk (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20), d DOUBLE, t DATETIME(3))');
    const values = [['a', 1.5, new Date(0)], [null, 2.5, null], ['ü', null, new Date(86400000)]];
    const found = [await con.batch('INSERT INTO bulk (v, d, t) VALUES (?, ?, ?)', values), await driver.query(con, 'SELECT * FROM bulk')];
    await con.end();
    return found;
  },
  metadata: async (con) => {
    const statement = await con.prepare('SELECT id, v, ? + 1 AS p FROM tx WHERE id = ?');
    const found = [statement.parameterCount, statement.columns.map((c) => [c.name(), c.type, c.columnLength])];
    const told = rows(await statement.execute([1, 100]));
    statement.close();
    return [...found, told];
  },
  options: async () => {
    const con = await driver.connect({ dateStrings: true, bigIntAsNumber: true, decimalAsNumber: true, insertIdAsNumber: true, sessionVariables: { wait_timeout: 1000 }, initSql: 'SET @x = 1' });
    const found = [await driver.query(con, 'SELECT * FROM types ORDER BY id'), await driver.query(con, 'SELECT @@wait_timeout w, @x x')];
    await con.end();
    return found;
  },
  pool: async () => {
    const pool = mariadb.createPool({ ...options, connectionLimit: 3 });
    const found = await Promise.all(Array.from({ length: 20 }, (_, n) => pool.query('SELECT ? + 1 AS n, SLEEP(0.01) AS s', [n])));
    await pool.end();
    return found.map((one) => one[0].n);
  },
  reset: async (con) => { await con.query('SET @y = 5'); await con.reset(); await con.ping(); return driver.query(con, 'SELECT @y y, DATABASE() d'); },
}).catch((error) => { console.log('stopped', error); process.exitCode = 1; });

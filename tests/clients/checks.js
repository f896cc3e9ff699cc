// What a program asks of a database from Node. Each driver's program makes `driver` and calls `run`.
'use strict';
const crypto = require('crypto');
const fs = require('fs');

exports.options = {
  host: '127.0.0.1', port: Number(process.env.CLIENT_PORT), user: 'client', password: "secret 'x'", database: 'clients', timezone: 'Z',
};
exports.ca = () => fs.readFileSync(process.env.CLIENT_CA);

function show(value) {
  if (Buffer.isBuffer(value)) return `Buffer[${value.length}] ${value.length > 60 ? crypto.createHash('md5').update(value).digest('hex') : value.toString('hex')}`;
  if (value instanceof Date) return `Date ${isNaN(value) ? 'invalid' : value.toISOString()}`;
  if (typeof value === 'bigint') return `${value}n`;
  if (Array.isArray(value)) return `[${value.map(show).join(', ')}]`;
  if (value && typeof value === 'object') return `{${Object.entries(value).map(([k, v]) => `${k}: ${show(v)}`).join(', ')}}`;
  const text = JSON.stringify(value);
  return text && text.length > 300 ? `text[${text.length}] ${crypto.createHash('md5').update(text).digest('hex')}` : String(text);
}
exports.show = show;

function failed(error) {
  return `error ${error.errno} ${error.code} ${error.sqlState}: ${(error.sqlMessage || error.message).replace(/conn:\d+/, 'conn')}`;
}

// driver: connect(more), query(con, sql, args), execute(con, sql, args), stream(con, sql), fields(con, sql), end(con)
exports.run = async (driver, more) => {
  const con = await driver.connect({});
  const query = (sql, args) => driver.query(con, sql, args);
  const execute = (sql, args) => driver.execute(con, sql, args);
  const attempt = async (run) => { try { return show(await run()); } catch (error) { return failed(error); } };
  const check = async (name, ...runs) => {
    const out = [];
    for (const run of runs) out.push(await attempt(run));
    console.log(`${name}: ${out.join('; ')}`);
  };
  await check('login', () => query('SELECT CURRENT_USER() u, DATABASE() d, @@character_set_client c'));
  await check('wrong_password', () => driver.connect({ password: 'wrong' }));
  await check('unknown_database', () => driver.connect({ database: 'no_such_database' }));
  await check('tls', async () => {
    const tls = await driver.connect({ ssl: { ca: exports.ca() } });
    const found = await driver.query(tls, "SHOW STATUS LIKE 'Ssl_version'");
    await driver.end(tls);
    return found;
  });
  for (const sql of fs.readFileSync(process.env.CLIENT_TYPES, 'utf8').split(/;\n/)) if (sql.trim()) await check('types_made', () => query(sql));
  for (const id of [1, 2, 3, 4]) {
    await check(`types_text ${id}`, () => query('SELECT * FROM types WHERE id = ?', [id]));
    await check(`types_prepared ${id}`, () => execute('SELECT * FROM types WHERE id = ?', [id]));
  }
  await check('columns', () => driver.fields(con, 'SELECT t.*, id + 1 AS next, vc AS other FROM types t WHERE id = 0'));
  const when = new Date(Date.UTC(2001, 1, 3, 4, 5, 6, 789));
  const values = [-5, '18446744073709551615', true, '-12.345600', 0.1, 2.25, '2001-02-03', when, '-30:00:00.000005', "naïve 'quoted' \\ 😀", Buffer.from([0, 39, 92, 255]), 'large', 1999, null, 9007199254740991];
  const insert = 'INSERT INTO types (id, ti, biu, b, d, db, f, da, dt6, ti6, vc, vb, e, y, tx, bi) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)';
  await check('types_in', () => query(insert, [10, ...values]), () => execute(insert, [11, ...values]));
  await check('types_back', () => query('SELECT * FROM types WHERE id IN (10, 11) ORDER BY id'));
  await check('transactions', () => query('CREATE TABLE tx (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB'),
    () => con.beginTransaction(), () => query('INSERT INTO tx (v) VALUES (1)'), () => con.commit(), () => con.beginTransaction(),
    () => execute('INSERT INTO tx (v) VALUES (?)', [2]), () => query('SAVEPOINT a'), () => query('INSERT INTO tx (v) VALUES (3)'),
    () => query('ROLLBACK TO a'), () => query('SELECT v FROM tx ORDER BY id'), () => con.rollback(), () => query('SELECT v FROM tx'));
  await check('insert_id', () => query('INSERT INTO tx (v) VALUES (10), (11), (12)'), () => execute('INSERT INTO tx (id, v) VALUES (?, 1) ON DUPLICATE KEY UPDATE v = v + 1', [100]),
    () => execute('INSERT INTO tx (id, v) VALUES (?, 1) ON DUPLICATE KEY UPDATE v = v + 1', [100]));
  await check('affected', () => query('UPDATE tx SET v = 10 WHERE v = 10'), () => execute('UPDATE tx SET v = 20 WHERE v > ?', [10]), () => query('DELETE FROM tx WHERE v = 20'));
  for (const sql of ['SELECT * FROM nothing', 'SELEC 1', 'INSERT INTO tx (id, v) VALUES (100, 1)', 'INSERT INTO types (id, ti) VALUES (20, 1000)',
    "INSERT INTO types (id, c) VALUES (20, 'longer than ten')", "INSERT INTO types (id, da) VALUES (20, '2023-02-30')"]) {
    await check(`error ${sql}`, () => query(sql), () => execute(sql));
  }
  await check('multi', async () => {
    const several = await driver.connect({ multipleStatements: true });
    const found = await driver.query(several, "SELECT 1; SET @a = 5; SELECT @a, 'x' AS w UNION SELECT 6, 'y'");
    const bad = await attempt(() => driver.query(several, 'SELECT 1; SELECT * FROM nothing; SELECT 2'));
    await driver.end(several);
    return [found, bad];
  });
  await check('lock_wait', async () => {
    const other = await driver.connect({});
    await driver.query(other, 'SET innodb_lock_wait_timeout = 1');
    await con.beginTransaction();
    await query('UPDATE tx SET v = 5 WHERE id = 100');
    const told = await attempt(() => driver.execute(other, 'UPDATE tx SET v = 6 WHERE id = ?', [100]));
    await con.rollback();
    await driver.end(other);
    return told;
  });
  await check('dropped', async () => {
    const other = await driver.connect({});
    other.on && other.on('error', () => {});
    const [{ id }] = await driver.query(other, 'SELECT CONNECTION_ID() id');
    await query(`KILL ${id}`);
    try { await driver.query(other, 'SELECT 1'); return 'goes on'; } catch (error) { return ['PROTOCOL_CONNECTION_LOST', 'ER_CONNECTION_KILLED', 'ECONNRESET', 'EPIPE', 'ER_CMD_CONNECTION_CLOSED', 'ER_SOCKET_UNEXPECTED_CLOSE'].includes(error.code) || error.message; }
  });
  const blob = Buffer.alloc(4 << 20, 'big\0 blob');
  await check('big_blob', () => query('CREATE TABLE big (id INT PRIMARY KEY, data LONGBLOB)'), () => query('INSERT INTO big VALUES (1, ?)', [blob]),
    () => execute('INSERT INTO big VALUES (2, ?)', [blob]), () => query('SELECT id, LENGTH(data), MD5(data), data FROM big'));
  await check('batch', () => query('CREATE TABLE batch (id INT PRIMARY KEY, v VARCHAR(20))'),
    () => driver.batch(con, Array.from({ length: 5000 }, (_, n) => [n, `value ${n}`])), () => query('SELECT COUNT(*) n, SUM(CRC32(v)) s FROM batch'));
  await check('streaming', async () => {
    let count = 0, sum = 0;
    for await (const row of driver.stream(con, 'SELECT a.id, b.v FROM batch a JOIN batch b WHERE b.id < 20 ORDER BY a.id, b.id')) { count += 1; sum += row.id; }
    return [count, sum];
  });
  await check('compressed', async () => {
    const small = await driver.connect({ compress: true });
    const found = await driver.query(small, "SELECT LENGTH(REPEAT('y', 100000)) l, REPEAT('y', 100000) y");
    await driver.end(small);
    return found;
  });
  for (const [name, run] of Object.entries(more)) await check(name, () => run(con, attempt));
  await driver.end(con);
};

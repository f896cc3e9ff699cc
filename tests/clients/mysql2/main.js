// mysql2's promises; execute() uses prepared statements.
'use strict';
const mysql = require('mysql2/promise');
const { options, run } = require(process.env.CLIENT_CHECKS);

const plain = ({ info, ...rest }) => ({ info, ...rest });
const driver = {
  connect: (more) => mysql.createConnection({ ...options, ...more }),
  query: async (con, sql, args) => { const [found] = await con.query(sql, args); return Array.isArray(found) ? found : plain(found); },
  execute: async (con, sql, args) => { const [found] = await con.execute(sql, args); return Array.isArray(found) ? found : plain(found); },
  batch: async (con, rows) => { const [told] = await con.query('INSERT INTO batch (id, v) VALUES ?', [rows]); return plain(told); },
  stream: (con, sql) => con.connection.query(sql).stream(),
  fields: async (con, sql) => { const [, fields] = await con.query(sql); return fields.map((f) => [f.name, f.orgName, f.table, f.orgTable, f.columnType, f.columnLength, f.flags, f.decimals, f.characterSet]); },
  end: (con) => con.end(),
};
run(driver, {
  big_numbers: async () => {
    const con = await driver.connect({ supportBigNumbers: true, bigNumberStrings: true, dateStrings: true, decimalNumbers: true });
    const found = [await driver.query(con, 'SELECT * FROM types ORDER BY id'), await driver.execute(con, 'SELECT * FROM types ORDER BY id')];
    await con.end();
    return found;
  },
  named: async () => {
    const con = await driver.connect({ namedPlaceholders: true, rowsAsArray: true });
    const found = await driver.execute(con, 'SELECT :a + 1, :b, id FROM tx WHERE id = :id', { a: 4, b: 'text', id: 100 });
    await con.end();
    return found;
  },
  change_user: async (con) => { await con.changeUser({ database: 'clients' }); await con.ping(); return driver.query(con, 'SELECT DATABASE() d'); },
  prepared: async (con) => {
    const statement = await con.prepare('SELECT v FROM tx WHERE id = ?');
    const found = [(await statement.execute([100]))[0], (await statement.execute([1]))[0]];
    await statement.close();
    return found;
  },
}).catch((error) => { console.log('stopped', error); process.exitCode = 1; });

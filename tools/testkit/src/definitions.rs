//! Definitions and bulk loads under which the server is killed: afterwards each is done, or it is not.
//!
//! Each client has tables of its own and knows what they are like, and what they will be like once the statement in flight
//! is done. After a restart they must be like the one or the other.

use crate::Random;
use crate::client::{Client, Reply};
use crate::process::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// Tables of one client at most.
const TABLES_MAX: usize = 3;
/// Rows beyond which a table is emptied.
const ROWS_MAX: u64 = 3000;
/// Rows of one INSERT.
const BULK: u64 = 150;

/// A table: its rows are numbered from one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Table {
    columns: Vec<String>,
    indexes: BTreeSet<String>,
    rows: u64,
}

/// The tables of one client by name.
type Tables = BTreeMap<String, Table>;

/// What a client knows.
#[derive(Debug, Default)]
struct Known {
    now: Tables,
    /// What it will be like if the statement in flight is done.
    then: Option<Tables>,
    /// Counts names.
    names: u64,
}

/// The clients' knowledge, which outlives the server's lives.
pub struct Definitions {
    clients: Vec<Arc<Mutex<Known>>>,
}

/// Clients at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().expect("clients do not panic")
}

/// Creates the database `definitions`, and nothing in it.
pub fn create(client: &mut Client, clients: usize) -> io::Result<Definitions> {
    client.run("CREATE DATABASE definitions")?;
    Ok(Definitions { clients: (0..clients).map(|_| Arc::default()).collect() })
}

impl Load {
    /// Starts a session for each client.
    pub fn start(server: &Server, definitions: &Definitions, seed: u64) -> io::Result<Load> {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut threads = Vec::new();
        for (number, known) in definitions.clients.iter().enumerate() {
            let mut client = server.client_in("definitions")?;
            let (known, stop, done) = (known.clone(), stop.clone(), done.clone());
            let mut random = Random::new(seed.wrapping_mul(31).wrapping_add(number as u64));
            threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) && change(&mut client, number, &known, &mut random) {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        Ok(Load { stop, done, threads })
    }

    /// Statements done so far.
    pub fn total(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits for the clients, which end when the server dies.
    pub fn finish(self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().expect("a client of the definitions panicked");
        }
    }
}

/// One statement, or one transaction of loads; false once the connection is lost.
fn change(client: &mut Client, number: usize, known: &Mutex<Known>, random: &mut Random) -> bool {
    let (statements, then) = {
        let mut known = lock(known);
        let (statements, then) = some_change(number, &mut known, random);
        known.then = Some(then.clone());
        (statements, then)
    };
    for sql in &statements {
        match client.one(sql) {
            Err(_) => return false,
            Ok(Reply::Error { code, message, .. }) => panic!("{code} {message}: {sql}"),
            Ok(_) => {}
        }
    }
    let mut known = lock(known);
    known.now = then;
    known.then = None;
    true
}

fn insert(name: &str, from: u64) -> String {
    let rows: Vec<String> =
        (from + 1..=from + BULK).map(|id| format!("({id}, {}, REPEAT('p', {}))", id % 17, id % 90)).collect();
    format!("INSERT INTO {name} (id, v, pad) VALUES {}", rows.join(","))
}

/// Statements, and what the tables are like after them.
fn some_change(number: usize, known: &mut Known, random: &mut Random) -> (Vec<String>, Tables) {
    let mut then = known.now.clone();
    let pick = random.below(TABLES_MAX as u64 + 1) as usize;
    let Some(name) = known.now.keys().nth(pick).cloned() else {
        return create_or_drop(number, known, then);
    };
    let table = then.get_mut(&name).expect("a name of the map");
    let sql = match random.below(9) {
        0 => {
            then.remove(&name);
            format!("DROP TABLE {name}")
        }
        1 => {
            table.rows = 0;
            format!("TRUNCATE TABLE {name}")
        }
        2 if table.indexes.remove("by_v") => format!("ALTER TABLE {name} DROP INDEX by_v"),
        2 | 3 if !table.indexes.contains("by_v") => {
            table.indexes.insert("by_v".into());
            format!("CREATE INDEX by_v ON {name} (v, pad)")
        }
        4 if table.columns.len() < 8 => {
            let column = format!("c{}", table.columns.len());
            let (definition, _) = added(table.columns.len());
            table.columns.push(column.clone());
            format!("ALTER TABLE {name} ADD COLUMN {column} INT {definition}")
        }
        5 => {
            known.names += 1;
            let new = format!("d{number}_{}", known.names);
            let table = then.remove(&name).expect("a name of the map");
            then.insert(new.clone(), table);
            format!("RENAME TABLE {name} TO {new}")
        }
        _ if table.rows > ROWS_MAX => {
            table.rows = 0;
            format!("DELETE FROM {name}")
        }
        6 if table.rows > 0 => {
            let before = table.rows;
            table.rows *= 2;
            format!("INSERT INTO {name} (id, v, pad) SELECT id + {before}, v, pad FROM {name}")
        }
        7 => {
            let statements = vec![
                "BEGIN".to_string(),
                insert(&name, table.rows),
                insert(&name, table.rows + BULK),
                "COMMIT".to_string(),
            ];
            table.rows += 2 * BULK;
            return (statements, then);
        }
        _ => {
            let sql = insert(&name, table.rows);
            table.rows += BULK;
            sql
        }
    };
    (vec![sql], then)
}

/// What a column that is added at a place is defined as, and what its values are.
fn added(place: usize) -> (&'static str, &'static str) {
    match place % 3 {
        0 => ("DEFAULT 7", "7"),
        1 => ("AS (v * 2) STORED", "v * 2"),
        _ => ("AS (id + v) VIRTUAL", "id + v"),
    }
}

fn create_or_drop(number: usize, known: &mut Known, mut then: Tables) -> (Vec<String>, Tables) {
    if let Some(name) = known.now.keys().next().filter(|_| known.now.len() >= TABLES_MAX) {
        then.remove(name);
        return (vec![format!("DROP TABLE {name}")], then);
    }
    known.names += 1;
    let name = format!("d{number}_{}", known.names);
    let columns = ["id", "v", "pad"].map(String::from).to_vec();
    let indexes = ["PRIMARY", "by_pad"].map(String::from).into();
    then.insert(name.clone(), Table { columns, indexes, rows: 0 });
    let sql = format!(
        "CREATE TABLE {name} (id INT PRIMARY KEY, v INT NOT NULL, pad VARCHAR(100) NOT NULL, KEY by_pad (pad, v))"
    );
    (vec![sql], then)
}

impl Definitions {
    /// Compares the tables with what each client knows; the text says what is wrong. Then that is what it knows.
    pub fn verify(&self, client: &mut Client) -> Result<(), String> {
        let mut all = Tables::new();
        let query = |client: &mut Client, sql: String| {
            client.run(&sql).map(|reply| reply.strings()).map_err(|error| format!("{sql}: {error}"))
        };
        for row in query(client, "SHOW TABLES FROM definitions".into())? {
            let name = row[0].clone();
            let full = format!("definitions.{name}");
            let columns = query(client, format!("SHOW COLUMNS FROM {full}"))?;
            let indexes = query(client, format!("SHOW INDEX FROM {full}"))?;
            for (place, row) in columns.iter().enumerate().skip(3) {
                let (column, (_, value)) = (&row[0], added(place));
                let wrong = format!("SELECT COUNT(*) FROM {full} WHERE NOT {column} <=> {value}");
                let wrong = query(client, wrong)?;
                if wrong[0][0] != "0" {
                    return Err(format!("{full}: {wrong:?} values of {column} are wrong"));
                }
            }
            let counts = query(
                client,
                format!("SELECT COUNT(*), COALESCE(MIN(id), 1), COALESCE(MAX(id), 0) FROM {full}"),
            )?;
            if counts[0][1] != "1" || counts[0][0] != counts[0][2] {
                return Err(format!("{full}: rows {counts:?}"));
            }
            for row in query(client, format!("CHECK TABLE {full}"))? {
                if row[3] != "OK" {
                    return Err(format!("CHECK TABLE: {row:?}"));
                }
            }
            let table = Table {
                columns: columns.into_iter().map(|row| row[0].clone()).collect(),
                indexes: indexes.into_iter().map(|row| row[2].clone()).collect(),
                rows: counts[0][0].parse().map_err(|_| format!("{full}: {counts:?}"))?,
            };
            all.insert(name, table);
        }
        for (number, known) in self.clients.iter().enumerate() {
            let mut known = lock(known);
            let prefix = format!("d{number}_");
            let found: Tables = all
                .iter()
                .filter(|(name, _)| name.starts_with(&prefix))
                .map(|(n, t)| (n.clone(), t.clone()))
                .collect();
            let then = known.then.take();
            if found != known.now && Some(&found) != then.as_ref() {
                return Err(format!(
                    "client {number} knows {:?} or {then:?}, but there is {found:?}",
                    known.now
                ));
            }
            known.now = found;
        }
        Ok(())
    }
}

/// Files of trees that the tables' definitions ask for: one for the rows of each and one for each further index. With the
/// undo log, the registry and the catalog.
fn files_expected(client: &mut Client) -> io::Result<usize> {
    let sql = "SELECT COUNT(*) FROM (SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME \
               FROM information_schema.STATISTICS \
               WHERE TABLE_SCHEMA NOT IN ('mysql', 'performance_schema', 'sys')) AS i";
    let count = client.run(sql)?.scalar().and_then(|text| text.parse::<usize>().ok());
    Ok(3 + count.ok_or_else(|| io::Error::other("no count"))?)
}

/// Nothing is in the server's folder that nobody names; the text says what is. Every table must have a primary key.
pub fn check_files(server: &Server) -> Result<(), String> {
    let fail = |error: io::Error| error.to_string();
    let mut client = server.client().map_err(fail)?;
    let expected = files_expected(&mut client).map_err(fail)?;
    let names = |dir: &str| -> Result<Vec<String>, String> {
        let entries = std::fs::read_dir(server.dir.join(dir)).map_err(fail)?;
        entries.map(|e| Ok(e.map_err(fail)?.file_name().to_string_lossy().into_owned())).collect()
    };
    let trees = names("data/trees")?;
    let strange = |name: &&String| *name != "undo.kt" && !(name.starts_with('t') && name.ends_with(".kt"));
    if trees.len() != expected || trees.iter().any(|name| strange(&name)) {
        return Err(format!("{expected} files of trees expected, found {}: {trees:?}", trees.len()));
    }
    let known = [
        "FORMAT",
        "LOCK",
        "keel.lock",
        "redo.head",
        "doublewrite.kd",
        "trees",
        "server-cert.pem",
        "server-key.pem",
    ];
    let folder = names("data")?;
    let redo = folder.iter().filter(|name| name.starts_with("redo.") && *name != "redo.head").count();
    let strange: Vec<_> =
        folder.iter().filter(|n| !known.contains(&n.as_str()) && !n.starts_with("redo.")).collect();
    if redo > REDO_FILES_MAX || !strange.is_empty() {
        return Err(format!("{redo} files of the log; strange: {strange:?}"));
    }
    Ok(())
}

/// Files of the redo log with the capacity of the default settings.
const REDO_FILES_MAX: usize = 20;

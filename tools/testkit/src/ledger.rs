//! A workload whose every acknowledged transaction can be checked after a crash.
//!
//! Each client appends rows `(client, seq)` to a ledger and moves money between accounts in the same transaction. After a
//! restart the ledger must hold, for each client, every acknowledged `seq` and at most the one that was in flight; and the
//! balances must equal what the ledger says, so no transaction is there by half. CHECK TABLE compares rows with indexes.

use crate::Random;
use crate::client::{Client, Reply};
use crate::process::Server;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Number of accounts; few enough that transfers meet.
const ACCOUNTS: u64 = 200;

/// Creates the tables in database `ledger`.
pub fn create(client: &mut Client) -> io::Result<()> {
    client.run("CREATE DATABASE ledger")?;
    client.run("USE ledger")?;
    client.run("CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL, note VARCHAR(120), KEY (balance))")?;
    client.run(
        "CREATE TABLE entry (client INT, seq INT, source INT NOT NULL, target INT NOT NULL, amount INT NOT NULL, \
         pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (client, seq), KEY by_source (source, amount), KEY by_target (target))",
    )?;
    let rows: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, 1000, 'account {id}')")).collect();
    client.run(&format!("INSERT INTO account VALUES {}", rows.join(",")))?;
    Ok(())
}

/// Clients at work, and what each was told.
pub struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Vec<Arc<AtomicU64>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts `clients` sessions on `server`; each goes on from its last acknowledged entry.
    pub fn start(server: &Server, clients: usize, seed: u64, acknowledged: Vec<u64>) -> io::Result<Load> {
        let stop = Arc::new(AtomicBool::new(false));
        let counters: Vec<_> = acknowledged.iter().map(|last| Arc::new(AtomicU64::new(*last))).collect();
        let mut threads = Vec::new();
        for (number, counter) in counters.iter().enumerate().take(clients) {
            let client = server.client_in("ledger")?;
            let (stop, counter) = (stop.clone(), counter.clone());
            let random = Random::new(seed.wrapping_add(number as u64));
            threads.push(std::thread::spawn(move || work(client, number as u64, random, &counter, &stop)));
        }
        Ok(Load { stop, acknowledged: counters, threads })
    }

    /// Transactions acknowledged so far.
    pub fn total(&self) -> u64 {
        self.acknowledged.iter().map(|counter| counter.load(Ordering::SeqCst)).sum()
    }

    /// Waits for the clients, which end when the server dies, and returns the last acknowledged entry of each.
    pub fn finish(self) -> Vec<u64> {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().expect("a client of the ledger panicked");
        }
        self.acknowledged.iter().map(|counter| counter.load(Ordering::SeqCst)).collect()
    }
}

fn work(mut client: Client, number: u64, mut random: Random, acknowledged: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let seq = acknowledged.load(Ordering::SeqCst) + 1;
        match transfer(&mut client, number, seq, &mut random) {
            Ok(true) => acknowledged.store(seq, Ordering::SeqCst),
            Ok(false) => {}
            Err(_) => return,
        }
    }
}

/// One transaction; `Ok(false)` when the server rolled it back for a deadlock or a timeout.
fn transfer(client: &mut Client, number: u64, seq: u64, random: &mut Random) -> io::Result<bool> {
    let (source, target) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
    let amount = 1 + random.below(9);
    let statements = [
        "BEGIN".to_string(),
        format!("UPDATE account SET balance = balance - {amount} WHERE id = {source}"),
        format!(
            "INSERT INTO entry (client, seq, source, target, amount) VALUES ({number}, {seq}, {source}, {target}, {amount})"
        ),
        format!(
            "UPDATE account SET balance = balance + {amount}, note = 'entry {number}/{seq}' WHERE id = {target}"
        ),
        "COMMIT".to_string(),
    ];
    for sql in &statements {
        match client.one(sql)? {
            // 1412: a table was altered since the transaction's snapshot.
            Reply::Error { code: 1213 | 1205 | 1412, .. } => {
                client.one("ROLLBACK")?;
                return Ok(false);
            }
            Reply::Error { code, message, .. } => {
                return Err(io::Error::other(format!("{code} {message}: {sql}")));
            }
            _ => {}
        }
    }
    Ok(true)
}

/// Alters the tables of the ledger while the clients write them; what the ledger says stays the same.
pub struct Alterer {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

/// Alterations in pairs that undo each other, indexes and copies.
const ALTERATIONS: [&str; 10] = [
    "ALTER TABLE entry ADD KEY extra (amount, pad)",
    "ALTER TABLE entry DROP KEY extra",
    "ALTER TABLE entry MODIFY amount BIGINT NOT NULL, ADD UNIQUE KEY twice (seq, client)",
    "ALTER TABLE entry MODIFY amount INT NOT NULL, DROP KEY twice",
    "ALTER TABLE entry DROP PRIMARY KEY, ADD PRIMARY KEY (seq, client)",
    "ALTER TABLE entry DROP PRIMARY KEY, ADD PRIMARY KEY (client, seq), LOCK=NONE",
    "ALTER TABLE account ADD COLUMN more INT NOT NULL DEFAULT 7 FIRST, ADD KEY (note)",
    "ALTER TABLE account DROP COLUMN more, DROP KEY note",
    "ALTER TABLE entry FORCE",
    "OPTIMIZE TABLE account",
];

impl Alterer {
    /// Starts a session on `server`. A statement that the end of an earlier life has kept from its turn, or that was done then
    /// already, is an error and passed over.
    pub fn start(server: &Server, seed: u64) -> io::Result<Alterer> {
        let mut client = server.client_in("ledger")?;
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (stop.clone(), done.clone());
        let mut random = Random::new(seed);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let sql = ALTERATIONS[random.below(ALTERATIONS.len() as u64) as usize];
                match client.one(sql) {
                    // Duplicate names, names that are not there, 1205 and 1213 of metadata locks.
                    Ok(Reply::Error { code: 1060 | 1061 | 1091 | 1205 | 1213, .. }) => {}
                    Ok(Reply::Error { code, message, .. }) => panic!("{code} {message}: {sql}"),
                    Ok(_) => _ = count.fetch_add(1, Ordering::Relaxed),
                    Err(_) => return,
                }
            }
        });
        Ok(Alterer { stop, done, thread })
    }

    /// Waits for its end; gives how many alterations were done.
    pub fn finish(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("who alters the ledger panicked");
        self.done.load(Ordering::Relaxed)
    }
}

/// Compares the tables with what the clients were told; the text says what is wrong. On success each client's last entry is
/// returned, from which the next load goes on.
pub fn verify(client: &mut Client, acknowledged: &[u64]) -> Result<Vec<u64>, String> {
    let mut query = |sql: &str| client.run(sql).map_err(|error| format!("{sql}: {error}"));
    query("USE ledger")?;
    let mut last = vec![0; acknowledged.len()];
    for row in query("SELECT client, COUNT(*), MAX(seq) FROM entry GROUP BY client")?.strings() {
        let number: Vec<u64> = row.iter().map(|cell| cell.parse().unwrap_or(u64::MAX)).collect();
        if number[1] != number[2] {
            return Err(format!(
                "client {} has {} entries but its last is {}",
                number[0], number[1], number[2]
            ));
        }
        last[number[0] as usize] = number[2];
    }
    for (number, (told, found)) in acknowledged.iter().zip(&last).enumerate() {
        if found < told || *found > told + 1 {
            return Err(format!("client {number} was told {told} but {found} is there"));
        }
    }
    let mut expected = vec![1000i64; ACCOUNTS as usize];
    for (column, sign) in [("source", -1), ("target", 1)] {
        for row in query(&format!("SELECT {column}, SUM(amount) FROM entry GROUP BY {column}"))?.strings() {
            let (id, sum) = (row[0].parse::<usize>(), row[1].parse::<i64>());
            let (Ok(id), Ok(sum)) = (id, sum) else { return Err(format!("not a sum: {row:?}")) };
            expected[id] += sign * sum;
        }
    }
    let rows = query("SELECT id, balance FROM account ORDER BY id")?.strings();
    if rows.len() as u64 != ACCOUNTS {
        return Err(format!("{} accounts instead of {ACCOUNTS}", rows.len()));
    }
    for (row, expected) in rows.iter().zip(&expected) {
        if row[1] != expected.to_string() {
            return Err(format!("account {} holds {} but its entries say {expected}", row[0], row[1]));
        }
    }
    for row in query("CHECK TABLE account, entry")?.strings() {
        if row[3] != "OK" {
            return Err(format!("CHECK TABLE: {row:?}"));
        }
    }
    Ok(last)
}

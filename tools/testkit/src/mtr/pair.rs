//! The two servers, and connections that lead to both.

use super::compare::Outcome;
use super::script::narrow;
use super::values::{Both, KEEL, MARIA, both};
use crate::client::{Client, Login, Reply};
use crate::process::{Engine, Server, kill_process};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long a server may take to answer one statement.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);

/// latin1_swedish_ci: what mysqltest speaks until a script says otherwise.
const LATIN1_SWEDISH_CI: u8 = 8;

/// Databases that a server cannot do without.
const SYSTEM: &[&str] = &["information_schema", "mysql", "performance_schema", "sys"];

/// Memory that Keel may have before it is killed: a statement that eats all of the machine would take others with it.
const RESIDENT_MAX_BYTES: u64 = 6 << 30;

/// Both servers.
pub struct Pair {
    servers: [Server; 2],
    /// Keel's process id, for the thread that watches its memory; 0 ends the thread.
    watched: Arc<AtomicU32>,
    globals: [BTreeMap<String, String>; 2],
}

impl Pair {
    /// Starts both with folders of their own. Commits are not flushed: this is about answers.
    pub fn start() -> io::Result<Pair> {
        let options = [
            "--character-set-server=latin1",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-lock-wait-timeout=4",
        ];
        let maria =
            [&options[..], &["--default-storage-engine=InnoDB", "--innodb-buffer-pool-size=256M"]].concat();
        let servers = [Server::start(Engine::MariaDb, &maria)?, Server::start(Engine::Keel, &options)?];
        let watched = Arc::new(AtomicU32::new(0));
        let mut pair = Pair { servers, watched, globals: Default::default() };
        pair.watch();
        pair.globals = [pair.read_globals(MARIA)?, pair.read_globals(KEEL)?];
        Ok(pair)
    }

    fn watch(&mut self) {
        let pid = self.servers[KEEL].pid().unwrap_or(0);
        if self.watched.swap(pid, Ordering::Relaxed) != 0 {
            return;
        }
        let watched = Arc::clone(&self.watched);
        std::thread::spawn(move || {
            loop {
                let pid = watched.load(Ordering::Relaxed);
                if pid == 0 {
                    return;
                }
                if resident_bytes(pid) > RESIDENT_MAX_BYTES {
                    eprintln!("!!! keel has more than {} GiB and is killed", RESIDENT_MAX_BYTES >> 30);
                    kill_process(pid);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
    }

    /// A server of the pair.
    pub fn server(&self, server: usize) -> &Server {
        &self.servers[server]
    }

    /// A connection as mysqltest makes one.
    pub fn connect(
        &self,
        server: usize,
        user: &str,
        password: &str,
        database: Option<&str>,
    ) -> io::Result<Client> {
        let login = Login {
            user: user.into(),
            password: password.into(),
            database: database.map(str::to_owned),
            collation: LATIN1_SWEDISH_CI,
            ..Login::default()
        };
        let client = Client::connect(&self.servers[server].unix(), &login)?;
        client.set_timeout(Some(ANSWER_MAX))?;
        Ok(client)
    }

    /// A connection of root in `test` to both.
    pub fn session(&self) -> io::Result<Session> {
        let connect = |server| self.connect(server, "root", "", Some("test"));
        Ok(Session { clients: [Some(connect(MARIA)?), Some(connect(KEEL)?)], sent: None })
    }

    /// Ends the work of a connection that does not answer.
    fn end(&self, server: usize, id: u32) {
        if let Ok(mut client) = self.connect(server, "root", "", None) {
            client.one(&format!("KILL CONNECTION {id}")).ok();
        }
    }

    /// Starts a server again that has died; what it said last, if it had.
    pub fn revive(&mut self, server: usize) -> io::Result<Option<String>> {
        // A process that aborts needs a moment to be gone.
        std::thread::sleep(Duration::from_millis(100));
        if !self.servers[server].has_ended() {
            return Ok(None);
        }
        let tail = self.servers[server].log_tail();
        self.servers[server].kill();
        self.servers[server].launch()?;
        self.watch();
        Ok(Some(tail))
    }

    /// Before a script: its folder for files, and an empty database `test` alone.
    pub fn clean(&mut self) -> io::Result<()> {
        for server in [MARIA, KEEL] {
            let name = self.servers[server].engine.name();
            self.clean_one(server)
                .map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
        }
        Ok(())
    }

    fn clean_one(&mut self, server: usize) -> io::Result<()> {
        self.revive(server)?;
        let mut client = self.connect(server, "root", "", None)?;
        client.one("SET foreign_key_checks = 0")?;
        for name in client.one("SHOW DATABASES")?.strings().into_iter().flatten() {
            if !SYSTEM.contains(&name.as_str()) {
                client.run(&format!("DROP DATABASE `{}`", name.replace('`', "``")))?;
            }
        }
        client.run("CREATE DATABASE test")?;
        self.restore_globals(server, &mut client)?;
        let users =
            "SELECT user, host FROM mysql.user WHERE user NOT IN ('root', 'mariadb.sys') OR host = ''";
        for user in client.one(users)?.strings() {
            let quoted: Vec<String> =
                user.iter().map(|part| format!("'{}'", part.replace('\'', "''"))).collect();
            let kind = if user[1].is_empty() { "ROLE" } else { "USER" };
            client.one(&format!("DROP {kind} {}", quoted[..if kind == "ROLE" { 1 } else { 2 }].join("@")))?;
        }
        Ok(())
    }

    fn read_globals(&self, server: usize) -> io::Result<BTreeMap<String, String>> {
        let reply = self.connect(server, "root", "", None)?.one("SHOW GLOBAL VARIABLES")?;
        Ok(reply
            .strings()
            .into_iter()
            .map(|mut row| (row.swap_remove(0), row.pop().unwrap_or_default()))
            .collect())
    }

    fn restore_globals(&self, server: usize, client: &mut Client) -> io::Result<()> {
        let now = self.read_globals(server)?;
        for (name, value) in &self.globals[server] {
            if now.get(name).is_some_and(|now| now != value) {
                let number = value.parse::<f64>().is_ok();
                let value = if number { value.clone() } else { format!("'{}'", value.replace('\'', "''")) };
                client.one(&format!("SET GLOBAL {name} = {value}"))?;
            }
        }
        Ok(())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.watched.store(0, Ordering::Relaxed);
    }
}

fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// A connection of a script: one to each server. A side may be missing where a server refused it.
pub struct Session {
    /// The clients.
    pub clients: [Option<Client>; 2],
    /// Posted statements whose answers nobody has read, and what is known of them already.
    sent: Option<[Option<Outcome>; 2]>,
}

impl Session {
    /// A session over connections that stand.
    pub fn new(clients: [Option<Client>; 2]) -> Session {
        Session { clients, sent: None }
    }

    /// Whether an answer waits to be read.
    pub fn is_busy(&self) -> bool {
        self.sent.is_some()
    }

    /// Sends a statement to both.
    pub fn post(&mut self, sql: &Both) {
        let mut known = [None, None];
        for server in [MARIA, KEEL] {
            known[server] = match &mut self.clients[server] {
                None => Some(Outcome::Absent),
                Some(client) => client.post_bytes(&narrow(&sql[server])).err().map(lost),
            };
        }
        self.sent = Some(known);
    }

    /// Reads both answers, each within [`ANSWER_MAX`]; a connection that gave none is given up.
    pub fn receive(&mut self, pair: &Pair) -> [Outcome; 2] {
        let mut known = self.sent.take().unwrap_or([Some(Outcome::Absent), Some(Outcome::Absent)]);
        [MARIA, KEEL].map(|server| {
            if let Some(outcome) = known[server].take() {
                return outcome;
            }
            let Some(client) = &mut self.clients[server] else { return Outcome::Absent };
            match client.receive() {
                Ok(replies) => Outcome::Replies(replies),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    let id = client.connection_id;
                    self.clients[server] = None;
                    pair.end(server, id);
                    Outcome::TimedOut
                }
                Err(error) => {
                    self.clients[server] = None;
                    lost(error)
                }
            }
        })
    }

    /// Both answers to a statement; reads those to an earlier one first.
    pub fn ask(&mut self, pair: &Pair, sql: &Both) -> [Outcome; 2] {
        if self.is_busy() {
            self.receive(pair);
        }
        self.post(sql);
        self.receive(pair)
    }

    /// Makes sides that were given up anew, in database `test`.
    pub fn renew(&mut self, pair: &Pair) {
        for server in [MARIA, KEEL] {
            if self.clients[server].is_none() {
                self.clients[server] = pair.connect(server, "root", "", Some("test")).ok();
            }
        }
    }

    /// The warnings of the last statement on each server, as `CODE` in order.
    pub fn warnings(&mut self, pair: &Pair) -> [Vec<String>; 2] {
        self.ask(pair, &both("SHOW WARNINGS")).map(|outcome| match outcome {
            Outcome::Replies(replies) => {
                let rows = replies.first().map(Reply::strings).unwrap_or_default();
                rows.into_iter().filter_map(|row| row.into_iter().nth(1)).collect()
            }
            _ => Vec::new(),
        })
    }
}

fn lost(error: io::Error) -> Outcome {
    Outcome::Lost(error.to_string())
}

/// Where the scripts lie that Debian's package `mariadb-test` brings.
pub fn suite_dir() -> &'static Path {
    Path::new("/usr/share/mysql/mysql-test")
}

//! Both servers, the queries put to them, and what becomes of a difference.

use super::expressions::Generator;
use super::judge::{Class, Verdict, adds_up, judge, judge_change, shown};
use super::tree::{Keep, Node};
use super::world::{DATABASE, TABLES, World};
use crate::client::{Client, Reply};
use crate::mtr::values::{KEEL, MARIA};
use crate::process::{Engine, Server};
use std::io;
use std::time::{Duration, Instant};

/// How long a statement may take on either server.
const STATEMENT_SECONDS: u32 = 4;
/// How long the client waits: the server should have given up by itself.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Attempts to make one finding smaller.
const ATTEMPTS_MAX: usize = 3000;
/// Time for them.
const REDUCTION_MAX: Duration = Duration::from_secs(20);

/// What is asked of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// That both servers answer alike.
    Compare,
    /// That its parts add up on Keel.
    Partitions,
    /// That a change leaves the same rows in both.
    Changes,
}

/// A difference made small.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What differs.
    pub class: Class,
    /// The world's seed.
    pub seed: u64,
    /// The query's number in it.
    pub number: u64,
    /// The smallest query that differs; for partitions the first of its parts.
    pub sql: String,
    /// Both answers.
    pub answers: String,
    /// Definitions and rows of the tables that it names.
    pub setup: String,
}

impl Finding {
    /// Equal for queries that differ in names and constants alone.
    pub fn shape(&self) -> String {
        let mut out = format!("{:?} ", self.class);
        // Errors that say the same have one cause.
        let text = match self.class {
            Class::Error(..) => &self.answers,
            _ => &self.sql,
        };
        for char in text.chars() {
            let char = if char.is_ascii_digit() { '0' } else { char };
            if char != '0' || !out.ends_with('0') {
                out.push(char);
            }
        }
        out
    }
}

/// Both servers with a world on them.
pub struct Runner {
    servers: [Server; 2],
    clients: [Client; 2],
    /// Answers that could be compared.
    pub compared: u64,
    /// Those that could not.
    pub skipped: u64,
    /// Those that were errors on both sides.
    pub refused: u64,
}

impl Runner {
    /// Starts both.
    pub fn start() -> io::Result<Runner> {
        let options = ["--character-set-server=utf8mb4", "--innodb-flush-log-at-trx-commit=0"];
        let maria = [&options[..], &["--collation-server=utf8mb4_general_ci"]].concat();
        let servers = [Server::start(Engine::MariaDb, &maria)?, Server::start(Engine::Keel, &options)?];
        let clients = [servers[MARIA].client()?, servers[KEEL].client()?];
        Ok(Runner { servers, clients, compared: 0, skipped: 0, refused: 0 })
    }

    /// Makes the tables of a world anew on both.
    pub fn set_up(&mut self, world: &World) -> io::Result<()> {
        for server in [MARIA, KEEL] {
            self.connect(server)?;
            let client = &mut self.clients[server];
            // A busy machine takes its time.
            client.run("SET max_statement_time = 0")?;
            client.run(&format!("DROP DATABASE IF EXISTS {DATABASE}"))?;
            client.run(&format!("CREATE DATABASE {DATABASE}"))?;
            client.run(&format!("USE {DATABASE}"))?;
            client.run(&format!("SET NAMES utf8mb4 COLLATE {}", world.collation))?;
            for statement in &world.setup {
                client.run(statement)?;
            }
            client.run(&format!("SET max_statement_time = {STATEMENT_SECONDS}"))?;
        }
        Ok(())
    }

    fn connect(&mut self, server: usize) -> io::Result<()> {
        if self.servers[server].has_ended() {
            self.servers[server].kill();
            self.servers[server].launch()?;
        }
        let mut client = self.servers[server].client()?;
        client.set_timeout(Some(ANSWER_MAX))?;
        client.run("SET NAMES utf8mb4")?;
        client
            .run(&format!("SET max_statement_time = {STATEMENT_SECONDS}, group_concat_max_len = 100000"))?;
        // The first world has not been made yet.
        client.one(&format!("USE {DATABASE}"))?;
        self.clients[server] = client;
        Ok(())
    }

    /// An answer, or `None` where there was none and the connection is new.
    fn ask(&mut self, server: usize, sql: &str) -> io::Result<Option<Reply>> {
        match self.clients[server].one(sql) {
            Ok(reply) => Ok(Some(reply)),
            Err(_) => {
                self.connect(server)?;
                Ok(None)
            }
        }
    }

    /// Judges a query, with both answers.
    fn judge(&mut self, check: Check, query: &Node) -> io::Result<(Verdict, Vec<String>)> {
        match check {
            Check::Compare => {
                let sql = query.sql();
                let Some(maria) = self.ask(MARIA, &sql)? else { return Ok((Verdict::Skipped, Vec::new())) };
                let Some(keel) = self.ask(KEEL, &sql)? else {
                    return Ok((Verdict::Differs(Class::Lost), vec![shown(&maria), "no answer".into()]));
                };
                let verdict = judge(&maria, &keel, query.is_ordered());
                Ok((verdict, vec![shown(&maria), shown(&keel)]))
            }
            Check::Changes => self.judge_change(&query.sql()),
            Check::Partitions => {
                let mut replies = Vec::new();
                for keep in [Keep::All, Keep::True, Keep::False, Keep::Null] {
                    let Some(reply) = self.ask(KEEL, &query.part_sql(keep))? else {
                        return Ok((Verdict::Differs(Class::Lost), vec![query.part_sql(keep)]));
                    };
                    replies.push(reply);
                }
                let verdict = adds_up(&replies[0], &replies[1..]);
                Ok((verdict, replies.iter().map(shown).collect()))
            }
        }
    }

    /// Judges a change by the rows that it leaves, and takes it back.
    fn judge_change(&mut self, sql: &str) -> io::Result<(Verdict, Vec<String>)> {
        let table = (0..TABLES).map(|number| format!("t{number}")).find(|t| sql.contains(&format!("{t} AS")));
        let rows = format!("SELECT * FROM {} ORDER BY id, b", table.unwrap_or_default());
        let mut replies = Vec::new();
        for server in [MARIA, KEEL] {
            self.ask(server, "START TRANSACTION")?;
            let Some(changed) = self.ask(server, sql)? else {
                let verdict = if server == KEEL { Verdict::Differs(Class::Lost) } else { Verdict::Skipped };
                return Ok((verdict, replies.iter().map(shown).collect()));
            };
            let left = if changed.error_code().is_some() { Some(changed) } else { self.ask(server, &rows)? };
            self.ask(server, "ROLLBACK")?;
            replies.extend(left);
        }
        let [maria, keel] = &replies[..] else { return Ok((Verdict::Skipped, Vec::new())) };
        Ok((judge_change(maria, keel), replies.iter().map(shown).collect()))
    }

    /// Puts one query; a difference is made as small as it gets.
    pub fn query(
        &mut self,
        world: &World,
        seed: u64,
        number: u64,
        check: Check,
    ) -> io::Result<Option<Finding>> {
        let mut generator = Generator::new(world, seed, number);
        let query = match check {
            Check::Compare => generator.statement(),
            Check::Partitions => generator.parted(),
            Check::Changes => generator.change(),
        };
        let (verdict, answers) = self.judge(check, &query)?;
        self.refused += answers.iter().any(|answer| answer.starts_with("error")) as u64;
        match verdict {
            Verdict::Same => self.compared += 1,
            Verdict::Skipped => self.skipped += 1,
            Verdict::Differs(class) => {
                self.compared += 1;
                return Ok(Some(self.reduce(world, (seed, number), check, query, class)?));
            }
        }
        Ok(None)
    }

    fn reduce(
        &mut self,
        world: &World,
        (seed, number): (u64, u64),
        check: Check,
        query: Node,
        class: Class,
    ) -> io::Result<Finding> {
        let (mut best, mut attempts, begun) = (query, 0, Instant::now());
        'smaller: loop {
            for candidate in best.smaller() {
                attempts += 1;
                if attempts > ATTEMPTS_MAX || begun.elapsed() > REDUCTION_MAX {
                    break 'smaller;
                }
                if self.judge(check, &candidate)?.0 == Verdict::Differs(class) {
                    best = candidate;
                    continue 'smaller;
                }
            }
            break;
        }
        let sql = best.sql();
        let setup = self.fewer_rows(world, check, &best, class)?;
        let (_, answers) = self.judge(check, &best)?;
        let labels: &[&str] = match check {
            Check::Compare | Check::Changes => &["MariaDB", "Keel"],
            Check::Partitions => &["all", "true", "false", "null"],
        };
        let answers: Vec<String> =
            labels.iter().zip(&answers).map(|(label, answer)| format!("{label}: {answer}")).collect();
        self.both("ROLLBACK")?;
        Ok(Finding { class, seed, number, sql, answers: answers.join("\n"), setup })
    }

    fn both(&mut self, sql: &str) -> io::Result<()> {
        self.ask(MARIA, sql)?;
        self.ask(KEEL, sql)?;
        Ok(())
    }

    /// Deletes rows, in a transaction, without which the query still differs; what is left as statements.
    fn fewer_rows(&mut self, world: &World, check: Check, query: &Node, class: Class) -> io::Result<String> {
        let sql = query.sql();
        let named: Vec<&String> =
            world.tables.iter().filter(|table| sql.contains(&format!("{table} "))).collect();
        let definitions = |table: &&String| {
            let start = format!("CREATE TABLE {table} ");
            world.setup.iter().find(|statement| statement.starts_with(&start)).cloned().unwrap_or_default()
        };
        let mut lines: Vec<String> = named.iter().map(definitions).map(|text| format!("{text};")).collect();
        self.both("START TRANSACTION")?;
        if check != Check::Changes
            && class != Class::Lost
            && self.judge(check, query)?.0 == Verdict::Differs(class)
        {
            for table in &named {
                let Some(ids) = self.ask(KEEL, &format!("SELECT id FROM {table} ORDER BY id"))? else {
                    continue;
                };
                for id in ids.strings().concat() {
                    self.both("SAVEPOINT s")?;
                    self.both(&format!("DELETE FROM {table} WHERE id = {id}"))?;
                    if self.judge(check, query)?.0 != Verdict::Differs(class) {
                        self.both("ROLLBACK TO SAVEPOINT s")?;
                    }
                }
            }
        }
        for table in &named {
            let Some(rows) = self.ask(KEEL, &format!("SELECT * FROM {table} ORDER BY id"))? else { continue };
            let quoted = |cell: &String| match cell.as_str() {
                "NULL" => "NULL".to_string(),
                text => format!("'{text}'"),
            };
            let row =
                |row: &Vec<String>| format!("({})", row.iter().map(quoted).collect::<Vec<_>>().join(", "));
            let rows: Vec<String> = rows.strings().iter().map(row).collect();
            if !rows.is_empty() {
                lines.push(format!("INSERT INTO {table} VALUES {};", rows.join(",\n ")));
            }
        }
        Ok(lines.join("\n"))
    }
}

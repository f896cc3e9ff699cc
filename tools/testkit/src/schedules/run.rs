//! Both servers, the schedules played on them, and what becomes of a difference.

use super::Schedule;
use crate::client::{Client, Reply};
use crate::mtr::values::{KEEL, MARIA};
use crate::process::{Engine, Server};
use std::fmt::{self, Write as _};
use std::io;
use std::time::Duration;

const DATABASE: &str = "schedules";
/// How long MariaDB gets to purge what was deleted, in seconds: old snapshots may keep it from that.
const PURGE_SECONDS: f64 = 0.15;
/// How often Keel is asked whether it has, and the pause in between.
const PURGE_LOOKS: usize = 75;
const PURGE_PAUSE: Duration = Duration::from_millis(2);
const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// Differing probes that are printed.
const SHOWN: usize = 8;

/// What differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A statement's answer.
    Answer,
    /// Keel keeps others out where MariaDB lets them in.
    Wider,
    /// MariaDB keeps others out where Keel lets them in.
    Narrower,
}

/// The first difference of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Difference {
    kind: Kind,
    /// Steps up to it, its own included.
    steps: usize,
    /// Answers or probes with what both say.
    lines: Vec<String>,
}

/// A difference made small.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Its seed.
    pub seed: u64,
    /// What differs.
    pub kind: Kind,
    schedule: Schedule,
    lines: Vec<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { seed, kind, schedule, lines } = self;
        writeln!(f, "{kind:?}: seed {seed}\n{};", schedule.table)?;
        writeln!(f, "INSERT INTO t VALUES {};", schedule.rows.join(", "))?;
        if !schedule.child.is_empty() {
            writeln!(f, "{};\nINSERT INTO c VALUES {};", schedule.child, schedule.child_rows.join(", "))?;
        }
        for (number, level) in schedule.levels.iter().enumerate() {
            writeln!(f, "{} is at {level}", name(number))?;
        }
        for step in &schedule.steps {
            writeln!(f, "{} {}", name(step.session), step.sql)?;
        }
        lines.iter().take(SHOWN).try_for_each(|line| writeln!(f, "   {line}"))?;
        writeln!(f, "   {} in all", lines.len())
    }
}

fn name(session: usize) -> char {
    char::from(b'a' + session as u8)
}

/// One server and its connections.
struct Side {
    server: Server,
    control: Client,
    probe: Client,
    sessions: Vec<Client>,
}

/// Both.
pub struct Runner {
    sides: [Side; 2],
    /// Steps that could be compared.
    pub steps: u64,
}

impl Runner {
    /// Starts both.
    pub fn start() -> io::Result<Runner> {
        // History is cut after each batch, so that its length says whether purge is through.
        let maria = [
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-purge-rseg-truncate-frequency=1",
            "--innodb-stats-persistent=0",
            "--innodb-lock-wait-timeout=0",
        ];
        let keel = ["--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=0"];
        let side = |engine, options: &[&str]| -> io::Result<Side> {
            let server = Server::start(engine, options)?;
            let (control, probe) = (server.client()?, server.client()?);
            Ok(Side { server, control, probe, sessions: Vec::new() })
        };
        Ok(Runner { sides: [side(Engine::MariaDb, &maria)?, side(Engine::Keel, &keel)?], steps: 0 })
    }

    /// Plays the schedule of a seed; a difference that comes twice is made as small as it gets.
    pub fn schedule(&mut self, seed: u64) -> io::Result<Option<Finding>> {
        let mut schedule = Schedule::new(seed);
        if self.play(&schedule)?.is_none() {
            return Ok(None);
        }
        // MariaDB's purge may have been late.
        let Some(mut found) = self.play(&schedule)? else { return Ok(None) };
        schedule.steps.truncate(found.steps);
        for place in (0..schedule.steps.len().saturating_sub(1)).rev() {
            let mut smaller = schedule.clone();
            if place + 1 < smaller.steps.len() {
                smaller.steps.remove(place);
                self.take_if(smaller, &mut schedule, &mut found)?;
            }
        }
        for place in (0..schedule.rows.len()).rev() {
            let mut smaller = schedule.clone();
            if smaller.rows.len() > 1 {
                smaller.rows.remove(place);
                self.take_if(smaller, &mut schedule, &mut found)?;
            }
        }
        Ok(Some(Finding { seed, kind: found.kind, schedule, lines: found.lines }))
    }

    /// Takes a smaller schedule that differs in the same way.
    fn take_if(
        &mut self,
        mut smaller: Schedule,
        schedule: &mut Schedule,
        found: &mut Difference,
    ) -> io::Result<()> {
        if let Some(now) = self.play(&smaller)?.filter(|now| now.kind == found.kind) {
            smaller.steps.truncate(now.steps);
            (*schedule, *found) = (smaller, now);
        }
        Ok(())
    }

    fn play(&mut self, schedule: &Schedule) -> io::Result<Option<Difference>> {
        for side in &mut self.sides {
            side.set_up(schedule)?;
        }
        for (number, step) in schedule.steps.iter().enumerate() {
            let mut answers = Vec::new();
            for side in &mut self.sides {
                answers.push(answer(&side.sessions[step.session].one(&step.sql)?));
                side.purge()?;
            }
            self.steps += 1;
            let steps = number + 1;
            if answers[MARIA] != answers[KEEL] {
                let lines = vec![format!("MariaDB: {}; Keel: {}", answers[MARIA], answers[KEEL])];
                return Ok(Some(Difference { kind: Kind::Answer, steps, lines }));
            }
            let mut kind = Kind::Narrower;
            let mut lines = Vec::new();
            for probe in &schedule.probes {
                let maria = self.sides[MARIA].try_out(probe)?;
                let keel = self.sides[KEEL].try_out(probe)?;
                if maria != keel {
                    if keel {
                        kind = Kind::Wider;
                    }
                    let who = if keel { "Keel" } else { "MariaDB" };
                    lines.push(format!("only {who} keeps out: {probe}"));
                }
            }
            if !lines.is_empty() {
                return Ok(Some(Difference { kind, steps, lines }));
            }
            for side in &mut self.sides {
                side.purge()?;
            }
        }
        Ok(None)
    }
}

impl Side {
    fn set_up(&mut self, schedule: &Schedule) -> io::Result<()> {
        for session in &mut self.sessions {
            session.run("ROLLBACK")?;
        }
        self.control.run(&format!("DROP DATABASE IF EXISTS {DATABASE}"))?;
        self.control.run(&format!("CREATE DATABASE {DATABASE}"))?;
        self.control.run(&format!("USE {DATABASE}"))?;
        for statement in schedule.setup() {
            self.control.run(&statement)?;
        }
        self.probe.run(&format!("USE {DATABASE}"))?;
        // Probes ask of one row, or of one gap.
        self.probe.run("SET foreign_key_checks = 0")?;
        while self.sessions.len() < schedule.levels.len() {
            self.sessions.push(self.server.client()?);
        }
        for (session, level) in self.sessions.iter_mut().zip(&schedule.levels) {
            session.run(&format!("USE {DATABASE}"))?;
            session.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"))?;
        }
        self.purge()
    }

    /// Lets the server remove what was deleted.
    fn purge(&mut self) -> io::Result<()> {
        if self.server.engine == Engine::MariaDb {
            self.control.run(&format!("SET max_statement_time = {PURGE_SECONDS}"))?;
            self.control.one("SET GLOBAL innodb_max_purge_lag_wait = 0")?;
            self.control.run("SET max_statement_time = 0")?;
            return Ok(());
        }
        for _ in 0..PURGE_LOOKS {
            let length = self.control.one("SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'")?;
            if length.strings().first().is_some_and(|row| row[1] == "0") {
                break;
            }
            std::thread::sleep(PURGE_PAUSE);
        }
        Ok(())
    }

    /// Whether a statement is kept out by somebody's lock.
    fn try_out(&mut self, probe: &str) -> io::Result<bool> {
        self.probe.run("BEGIN")?;
        let reply = self.probe.one(probe)?;
        self.probe.run("ROLLBACK")?;
        Ok(reply.error_code() == Some(LOCK_WAIT_TIMEOUT))
    }
}

/// An answer, rows in the order of their texts.
fn answer(reply: &Reply) -> String {
    let mut out = String::new();
    let _ = match reply {
        Reply::Ok { affected, .. } => write!(out, "ok {affected}"),
        Reply::Error { code, message, .. } => write!(out, "error {code} {message}"),
        Reply::Rows { .. } => {
            let mut rows: Vec<String> = reply.strings().iter().map(|row| row.join(",")).collect();
            rows.sort_unstable();
            write!(out, "rows [{}]", rows.join("; "))
        }
    };
    out
}

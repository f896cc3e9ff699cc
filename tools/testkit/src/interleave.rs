//! Interleavings: named sessions take steps in a written order; who blocks, who gets what, and which error.
//!
//! A spec (`tests/isolation/*.spec`):
//!
//! ```text
//! setup  CREATE TABLE t (id INT PRIMARY KEY, v INT)
//! setup  INSERT INTO t VALUES (1, 10)
//! a      BEGIN
//! a      UPDATE t SET v = 11 WHERE id = 1
//! b*     SELECT v FROM t WHERE id = 1 FOR UPDATE
//! a      COMMIT
//! ```
//!
//! Each line is a session's name and a statement; a star says that it blocks. A step that does not answer within the
//! runner's patience is written down as blocked, and the script goes on; its answer is written where it arrives. On a busy
//! machine patience grows: it ends only after a connection of its own has been answered several times. The transcript of
//! Keel must equal MariaDB's, and the stars must be right.
//!
//! - `/` alone starts another interleaving over a fresh setup.
//! - `permute` alone starts one whose steps run in every order that keeps each session's own: a step of a session that
//!   is blocked waits for it. Stars do not count there.
//! - `option --name=value` starts servers of the spec's own with that option.
//! - `{a}` in a statement is the connection id of session `a`.

use crate::client::{Client, Reply};
use crate::process::Server;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A statement that takes longer waits for somebody. Nothing in a spec computes for as long as this.
pub const BLOCKED_AFTER: Duration = Duration::from_millis(200);
/// A blocked statement that is still not answered this long after the last step is an error of the spec.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Most orders that a `permute` block runs in; of more, these many are taken at equal distances.
const ORDERS_MAX: usize = 24;
/// Statements of another connection that are answered before a step counts as blocked.
const PROBES: usize = 3;
/// Such a statement: it wants the processor and the disk.
const PROBE: &str = "UPDATE probe_of_time SET n = n + 1";
/// The same where the spec's global read lock keeps writers out.
const READING_PROBE: &str = "SELECT COUNT(*) FROM probe_of_time";
/// What they need.
const PROBE_SETUP: [&str; 2] = ["CREATE TABLE probe_of_time (n INT)", "INSERT INTO probe_of_time VALUES (0)"];
/// What a step gets beyond that.
const AFTER_PROBES: Duration = Duration::from_millis(20);

/// One statement of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The session.
    pub session: String,
    /// Its statement.
    pub sql: String,
    /// Whether the spec says that it blocks.
    pub blocks: bool,
    /// Its line in the spec, from 1.
    pub line: usize,
}

/// Steps over a fresh setup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interleaving {
    /// In order.
    pub steps: Vec<Step>,
    /// Whether it is one of many orders, so that stars say nothing.
    pub permuted: bool,
}

/// A parsed spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spec {
    /// Options of the servers.
    pub options: Vec<String>,
    /// Statements run before each interleaving.
    pub setup: Vec<String>,
    /// Interleavings.
    pub runs: Vec<Interleaving>,
}

/// What a spec came to on one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Every answer where it arrived.
    pub transcript: String,
    /// Lines of steps that blocked, permuted ones aside.
    pub blocked: Vec<usize>,
}

/// Reads a spec.
pub fn parse(text: &str) -> Result<Spec, String> {
    let mut spec = Spec::default();
    let mut blocks = vec![Interleaving::default()];
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line == "/" || line == "permute" {
            blocks.push(Interleaving { steps: Vec::new(), permuted: line == "permute" });
            continue;
        }
        let (name, sql) =
            line.split_once(char::is_whitespace).ok_or(format!("line {}: no statement", index + 1))?;
        let sql = sql.trim().to_string();
        match name {
            "setup" => spec.setup.push(sql),
            "option" => spec.options.push(sql),
            _ => {
                let session = name.trim_end_matches('*').to_string();
                let step = Step { session, sql, blocks: name.ends_with('*'), line: index + 1 };
                blocks.last_mut().expect("never empty").steps.push(step);
            }
        }
    }
    for block in blocks.into_iter().filter(|block| !block.steps.is_empty()) {
        match block.permuted {
            true => spec.runs.extend(orders(&block.steps)),
            false => spec.runs.push(block),
        }
    }
    Ok(spec)
}

/// The orders of `steps` that keep each session's own.
fn orders(steps: &[Step]) -> Vec<Interleaving> {
    let mut queues: Vec<(String, VecDeque<Step>)> = Vec::new();
    for step in steps {
        match queues.iter_mut().find(|(name, _)| *name == step.session) {
            Some((_, queue)) => queue.push_back(step.clone()),
            None => queues.push((step.session.clone(), VecDeque::from([step.clone()]))),
        }
    }
    let mut queues: Vec<VecDeque<Step>> = queues.into_iter().map(|(_, queue)| queue).collect();
    let mut found = Vec::new();
    choose(&mut queues, &mut Vec::new(), &mut found);
    let stride = found.len().div_ceil(ORDERS_MAX).max(1);
    found.into_iter().step_by(stride).map(|steps| Interleaving { steps, permuted: true }).collect()
}

fn choose(queues: &mut [VecDeque<Step>], taken: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
    let mut ended = true;
    for index in 0..queues.len() {
        if let Some(step) = queues[index].pop_front() {
            ended = false;
            taken.push(step);
            choose(queues, taken, found);
            let step = taken.pop().expect("just pushed");
            queues[index].push_front(step);
        }
    }
    if ended {
        found.push(taken.clone());
    }
}

struct Session {
    name: String,
    id: u32,
    statements: Sender<String>,
    replies: Receiver<io::Result<Reply>>,
    waiting_for: Option<String>,
    /// Steps that came while it was blocked.
    later: VecDeque<Step>,
}

impl Session {
    fn start(name: &str, mut client: Client) -> Session {
        let (statements, inbox) = channel::<String>();
        let (outbox, replies) = channel();
        let id = client.connection_id;
        std::thread::spawn(move || {
            for sql in inbox {
                if outbox.send(client.one(&sql)).is_err() {
                    return;
                }
            }
        });
        Session { name: name.to_string(), id, statements, replies, waiting_for: None, later: VecDeque::new() }
    }

    fn collect(&mut self, wait: Duration, transcript: &mut String) {
        let Some(sql) = self.waiting_for.take() else { return };
        let answer = match self.replies.recv_timeout(wait) {
            Ok(Ok(reply)) => outcome(&reply),
            Err(RecvTimeoutError::Timeout) => {
                self.waiting_for = Some(sql);
                return;
            }
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => "connection lost".to_string(),
        };
        let _ = writeln!(transcript, "{} {sql}\n    -> {answer}", self.name);
    }
}

/// Runs every interleaving on `server` in database `name`. A statement that takes longer than `patience` is blocked.
pub fn run(spec: &Spec, name: &str, server: &Server, patience: Duration) -> io::Result<Outcome> {
    let mut all = Outcome::default();
    for (number, interleaving) in spec.runs.iter().enumerate() {
        let _ = writeln!(all.transcript, "interleaving {}", number + 1);
        let mut control = server.client()?;
        control.run(&format!("DROP DATABASE IF EXISTS `{name}`"))?;
        control.run(&format!("CREATE DATABASE `{name}`"))?;
        control.run(&format!("USE `{name}`"))?;
        for sql in spec.setup.iter().map(String::as_str).chain(PROBE_SETUP) {
            control.run(sql)?;
        }
        let sessions = Vec::new();
        let keeps_writers_out =
            interleaving.steps.iter().any(|step| step.sql.starts_with("FLUSH TABLES WITH READ LOCK"));
        let mut play = Play {
            database: name,
            server,
            control: &mut control,
            patience,
            keeps_writers_out,
            sessions,
            out: &mut all,
        };
        play.steps(interleaving)?;
        // A transaction that a session left open would keep its tables.
        drop(play);
        control.run(&format!("DROP DATABASE `{name}`"))?;
    }
    Ok(all)
}

/// One interleaving being run.
struct Play<'p> {
    database: &'p str,
    server: &'p Server,
    control: &'p mut Client,
    patience: Duration,
    keeps_writers_out: bool,
    sessions: Vec<Session>,
    out: &'p mut Outcome,
}

impl Play<'_> {
    fn steps(&mut self, interleaving: &Interleaving) -> io::Result<()> {
        // All connect first, so that each may name the others.
        for step in &interleaving.steps {
            self.session(&step.session)?;
        }
        for step in &interleaving.steps {
            let index = self.session(&step.session)?;
            if !interleaving.permuted {
                let session = &mut self.sessions[index];
                session.collect(ANSWER_MAX, &mut self.out.transcript);
                if session.waiting_for.is_some() {
                    let text = format!("line {}: {} still waits", step.line, session.name);
                    return Err(io::Error::other(text));
                }
            }
            self.sessions[index].later.push_back(step.clone());
            self.go_on(interleaving.permuted)?;
        }
        self.finish(interleaving.permuted)
    }

    fn session(&mut self, name: &str) -> io::Result<usize> {
        if let Some(index) = self.sessions.iter().position(|session| session.name == *name) {
            return Ok(index);
        }
        self.sessions.push(Session::start(name, self.server.client_in(self.database)?));
        Ok(self.sessions.len() - 1)
    }

    /// Runs the steps whose sessions can take them.
    fn go_on(&mut self, permuted: bool) -> io::Result<()> {
        let ready = |s: &Session| s.waiting_for.is_none() && !s.later.is_empty();
        while let Some(index) = self.sessions.iter().position(ready) {
            let step = self.sessions[index].later.pop_front().expect("not empty");
            self.step(index, &step, permuted)?;
        }
        Ok(())
    }

    fn step(&mut self, index: usize, step: &Step, permuted: bool) -> io::Result<()> {
        let mut sql = step.sql.clone();
        for session in &self.sessions {
            sql = sql.replace(&format!("{{{}}}", session.name), &session.id.to_string());
        }
        let session = &mut self.sessions[index];
        session.statements.send(sql).map_err(|_| io::Error::other("session ended"))?;
        session.waiting_for = Some(step.sql.clone());
        self.await_answer(index)?;
        let session = &self.sessions[index];
        if session.waiting_for.is_some() {
            let _ = writeln!(self.out.transcript, "{} {}\n    -> blocked", session.name, step.sql);
            if !permuted {
                self.out.blocked.push(step.line);
            }
        }
        (0..self.sessions.len())
            .filter(|other| *other != index)
            .try_for_each(|other| self.await_answer(other))
    }

    /// Takes the answer of a session if it comes in time.
    fn await_answer(&mut self, index: usize) -> io::Result<()> {
        let session = &mut self.sessions[index];
        session.collect(self.patience, &mut self.out.transcript);
        if session.waiting_for.is_some() {
            for _ in 0..PROBES {
                self.control.run(if self.keeps_writers_out { READING_PROBE } else { PROBE })?;
            }
            session.collect(AFTER_PROBES, &mut self.out.transcript);
        }
        Ok(())
    }

    fn finish(&mut self, permuted: bool) -> io::Result<()> {
        while let Some(index) = self.sessions.iter().position(|session| session.waiting_for.is_some()) {
            let session = &mut self.sessions[index];
            session.collect(ANSWER_MAX, &mut self.out.transcript);
            if let Some(sql) = &session.waiting_for {
                return Err(io::Error::other(format!("{} never answered: {sql}", session.name)));
            }
            self.go_on(permuted)?;
        }
        Ok(())
    }
}

fn outcome(reply: &Reply) -> String {
    match reply {
        Reply::Ok { affected, .. } => format!("ok {affected}"),
        Reply::Error { code, state, message } => format!("error {code} ({state}) {message}"),
        Reply::Rows { .. } => {
            let rows: Vec<String> = reply.strings().iter().map(|row| row.join(",")).collect();
            format!("rows [{}]", rows.join("; "))
        }
    }
}

/// The spec's text with a star at each step of `blocked` and at no other.
pub fn with_stars(text: &str, blocked: &[usize]) -> String {
    let spec = parse(text).expect("it was read before");
    let steps: Vec<&Step> = spec.runs.iter().filter(|run| !run.permuted).flat_map(|run| &run.steps).collect();
    let mut out = String::new();
    for (index, line) in text.lines().enumerate() {
        match steps.iter().find(|step| step.line == index + 1) {
            Some(step) => {
                let star = if blocked.contains(&step.line) { "*" } else { "" };
                let _ = writeln!(out, "{}{star} {}", step.session, step.sql);
            }
            None => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_has_setup_sessions_and_interleavings() {
        let text = "# about\noption --x=1\nsetup CREATE TABLE t (a INT)\na BEGIN\nb* SELECT 1\n/\nb BEGIN\n";
        let spec = parse(text).unwrap();
        assert_eq!((spec.setup.len(), spec.options.len(), spec.runs.len()), (1, 1, 2));
        let step = &spec.runs[0].steps[1];
        assert_eq!(
            (step.session.as_str(), step.sql.as_str(), step.blocks, step.line),
            ("b", "SELECT 1", true, 5)
        );
    }

    #[test]
    fn a_permuted_block_runs_in_every_order_that_keeps_each_sessions_own() {
        let spec = parse("permute\na 1\na 2\nb 3\nb 4\n").unwrap();
        assert_eq!(spec.runs.len(), 6);
        for run in &spec.runs {
            let place = |sql: &str| run.steps.iter().position(|step| step.sql == sql).unwrap();
            assert!(place("1") < place("2") && place("3") < place("4") && run.permuted);
        }
    }

    #[test]
    fn stars_are_set_where_steps_blocked() {
        let text = "setup s\na 1\nb* 2\n# note\nb 3\n";
        assert_eq!(with_stars(text, &[5]), "setup s\na 1\nb 2\n# note\nb* 3\n");
    }
}

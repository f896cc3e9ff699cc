//! Interleavings: named sessions take steps in a written order; who blocks, who gets what, and which error.
//!
//! A spec (`tests/isolation/*.spec`):
//!
//! ```text
//! setup  CREATE TABLE t (id INT PRIMARY KEY, v INT)
//! setup  INSERT INTO t VALUES (1, 10)
//! a      BEGIN
//! a      UPDATE t SET v = 11 WHERE id = 1
//! b      SELECT v FROM t WHERE id = 1 FOR UPDATE
//! a      COMMIT
//! ```
//!
//! Each line is a session's name and a statement. A step that does not answer within [`BLOCKED_AFTER`] is written down as
//! blocked, and the script goes on; its answer is written where it arrives. The transcript of Keel must equal MariaDB's.
//! A line that is a single `/` starts another interleaving over a fresh setup.

use crate::client::{Client, Reply};
use crate::process::Server;
use std::fmt::Write as _;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A statement that takes longer waits for somebody. Nothing in a spec computes for as long as this.
pub const BLOCKED_AFTER: Duration = Duration::from_millis(250);
/// A blocked statement that is still not answered this long after the last step is an error of the spec.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A parsed spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Statements run before each interleaving.
    pub setup: Vec<String>,
    /// Interleavings: session and statement, in order.
    pub runs: Vec<Vec<(String, String)>>,
}

/// Reads a spec.
pub fn parse(text: &str) -> Result<Spec, String> {
    let mut spec = Spec { setup: Vec::new(), runs: vec![Vec::new()] };
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line == "/" {
            spec.runs.push(Vec::new());
            continue;
        }
        let (name, sql) =
            line.split_once(char::is_whitespace).ok_or(format!("line {}: no statement", index + 1))?;
        match name {
            "setup" => spec.setup.push(sql.trim().to_string()),
            _ => spec.runs.last_mut().expect("never empty").push((name.to_string(), sql.trim().to_string())),
        }
    }
    Ok(spec)
}

struct Session {
    name: String,
    statements: Sender<String>,
    replies: Receiver<io::Result<Reply>>,
    waiting_for: Option<String>,
}

impl Session {
    fn start(name: &str, mut client: Client) -> Session {
        let (statements, inbox) = channel::<String>();
        let (outbox, replies) = channel();
        std::thread::spawn(move || {
            for sql in inbox {
                if outbox.send(client.one(&sql)).is_err() {
                    return;
                }
            }
        });
        Session { name: name.to_string(), statements, replies, waiting_for: None }
    }

    fn collect(&mut self, wait: Duration, transcript: &mut String) -> io::Result<()> {
        let Some(sql) = self.waiting_for.take() else { return Ok(()) };
        match self.replies.recv_timeout(wait) {
            Ok(reply) => {
                let _ = writeln!(transcript, "{} {sql}\n    -> {}", self.name, outcome(&reply?));
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => {
                self.waiting_for = Some(sql);
                Ok(())
            }
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("session ended")),
        }
    }
}

/// Runs every interleaving on `server` in database `name` and returns the transcript.
pub fn run(spec: &Spec, name: &str, server: &Server) -> io::Result<String> {
    let mut transcript = String::new();
    for (number, steps) in spec.runs.iter().enumerate() {
        let _ = writeln!(transcript, "interleaving {}", number + 1);
        let mut control = server.client()?;
        control.run(&format!("DROP DATABASE IF EXISTS `{name}`"))?;
        control.run(&format!("CREATE DATABASE `{name}`"))?;
        control.run(&format!("USE `{name}`"))?;
        for sql in &spec.setup {
            control.run(sql)?;
        }
        run_one(steps, name, server, &mut transcript)?;
        control.run(&format!("DROP DATABASE `{name}`"))?;
    }
    Ok(transcript)
}

fn run_one(
    steps: &[(String, String)],
    database: &str,
    server: &Server,
    transcript: &mut String,
) -> io::Result<()> {
    let mut sessions: Vec<Session> = Vec::new();
    for (name, sql) in steps {
        let index = match sessions.iter().position(|session| session.name == *name) {
            Some(index) => index,
            None => {
                sessions.push(Session::start(name, server.client_in(database)?));
                sessions.len() - 1
            }
        };
        if sessions[index].waiting_for.is_some() {
            sessions[index].collect(ANSWER_MAX, transcript)?;
        }
        if sessions[index].waiting_for.is_some() {
            return Err(io::Error::other(format!("{name} still waits when its next step comes: {sql}")));
        }
        sessions[index].statements.send(sql.clone()).map_err(|_| io::Error::other("session ended"))?;
        sessions[index].waiting_for = Some(sql.clone());
        sessions[index].collect(BLOCKED_AFTER, transcript)?;
        if sessions[index].waiting_for.is_some() {
            let _ = writeln!(transcript, "{name} {sql}\n    -> blocked");
        }
        for session in sessions.iter_mut().filter(|session| session.name != *name) {
            session.collect(BLOCKED_AFTER, transcript)?;
        }
    }
    for session in &mut sessions {
        session.collect(ANSWER_MAX, transcript)?;
        if let Some(sql) = &session.waiting_for {
            return Err(io::Error::other(format!("{} never answered: {sql}", session.name)));
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_has_setup_sessions_and_interleavings() {
        let spec = parse("# about\nsetup CREATE TABLE t (a INT)\na BEGIN\nb SELECT 1\n/\nb BEGIN\n").unwrap();
        assert_eq!(spec.setup.len(), 1);
        assert_eq!(spec.runs.len(), 2);
        assert_eq!(spec.runs[0][1], ("b".to_string(), "SELECT 1".to_string()));
    }
}

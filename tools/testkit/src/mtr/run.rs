//! Runs a script against both servers and keeps what they disagree on.
//!
//! Each statement is judged by itself and the script goes on, whatever came out: `--error` says what MariaDB is expected to do, and
//! MariaDB is here to be asked. Control follows MariaDB's answers ([`super::values`]).

use super::compare::{Difference, How, Outcome, comparable, describe, judge, shown};
use super::follow::{Hurt, portable};
use super::pair::{Pair, Session};
use super::script::{Command, Kind, parse, readable, widen};
use super::values::{Asker, Both, KEEL, MARIA, Variables, both, fields};
use crate::client::{Client, Reply};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Commands that a script may run, loops counted each time.
const COMMANDS_MAX: usize = 40_000;
/// How long a script may run.
const SCRIPT_MAX: Duration = Duration::from_secs(150);
/// Files that include each other at most.
const INCLUDES_MAX: usize = 16;
/// Disagreements kept with all that was said; further ones are only counted.
const KEPT_MAX: usize = 2000;
/// How long a script may wait for a condition.
const CONDITION_MAX: Duration = Duration::from_secs(3);
/// Includes that prepare or look after a test; their statements are not part of it.
const HARNESS: &[&str] =
    &["have_", "not_", "no_", "wait_", "count_", "is_", "default_", "big_", "maybe_", "check_"];

/// A statement on which the servers disagree.
#[derive(Debug, Clone)]
pub struct Disagreement {
    /// File and line.
    pub place: String,
    /// The statement.
    pub sql: String,
    /// Why, in words that can be counted.
    pub cause: String,
    /// It only follows from an earlier one.
    pub follows: bool,
    /// What MariaDB answered.
    pub maria: String,
    /// What Keel answered.
    pub keel: String,
}

/// What a script came to.
#[derive(Debug, Clone, Default)]
pub struct ScriptScore {
    /// Name of the script.
    pub name: String,
    /// Statements compared.
    pub statements: usize,
    /// Of these, on which both agree.
    pub agreed: usize,
    /// Commands that this runner does not do (programs, files, restarts).
    pub unsupported: usize,
    /// Statements that MariaDB itself did not answer in time.
    pub unanswered: usize,
    /// Why it ended before its end, if it did.
    pub ended: Option<String>,
    /// What Keel said last each time it died.
    pub crashes: Vec<String>,
    /// Causes with how often they stand on their own and how often they only follow.
    pub causes: HashMap<String, (usize, usize)>,
    /// The first disagreements in full.
    pub disagreements: Vec<Disagreement>,
}

/// Why a script stops.
enum Stop {
    /// Its own end.
    Exit,
    /// Something that is worth a word.
    Because(String),
}

type Step = Result<(), Stop>;

struct Run<'a> {
    pair: &'a mut Pair,
    root: PathBuf,
    variables: Variables,
    sessions: HashMap<String, Session>,
    current: String,
    how: How,
    switches: How,
    /// How a statement of `send` will be compared, by session.
    sent: HashMap<String, (Both, How, String)>,
    send_next: bool,
    hurt: Hurt,
    file: String,
    depth: usize,
    /// Within includes that are not part of the test.
    harness: usize,
    commands: usize,
    deadline: Instant,
    score: ScriptScore,
}

/// Runs `path`, whose includes are found from `root`, on a clean pair.
pub fn run_script(pair: &mut Pair, root: &Path, path: &Path, scratch: &Path) -> io::Result<ScriptScore> {
    pair.clean()?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let sessions = HashMap::from([("default".to_string(), pair.session()?)]);
    let mut run = Run {
        root: root.to_path_buf(),
        variables: environment(pair, root, scratch),
        sessions,
        current: "default".into(),
        how: How::default(),
        switches: How::default(),
        sent: HashMap::new(),
        send_next: false,
        hurt: Hurt::default(),
        file: String::new(),
        depth: 0,
        harness: 0,
        commands: 0,
        deadline: Instant::now() + SCRIPT_MAX,
        score: ScriptScore { name, ..ScriptScore::default() },
        pair,
    };
    if let Err(Stop::Because(why)) = run.file(path) {
        run.score.ended = Some(why);
    }
    Ok(run.score)
}

/// Variables that scripts expect from outside.
fn environment(pair: &Pair, root: &Path, scratch: &Path) -> Variables {
    let mut variables = Variables::default();
    let scratch = scratch.display().to_string();
    for name in ["MYSQLTEST_VARDIR", "MYSQL_TMP_DIR"] {
        variables.set(name, both(&scratch));
    }
    variables.set("MYSQL_TEST_DIR", both(&root.display().to_string()));
    variables.set("MASTER_MYPORT", [MARIA, KEEL].map(|server| pair.server(server).port.to_string()));
    variables
        .set("MASTER_MYSOCK", [MARIA, KEEL].map(|server| pair.server(server).socket().display().to_string()));
    variables
}

impl Run<'_> {
    fn file(&mut self, path: &Path) -> Step {
        let stop = |text: String| Stop::Because(text);
        if self.depth >= INCLUDES_MAX {
            return Err(stop("files include each other without end".into()));
        }
        let shown = path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        let bytes = fs::read(path).map_err(|error| stop(format!("{shown}: {error}")))?;
        let commands = parse(&bytes).map_err(|error| stop(format!("{shown}: {error}")))?;
        let outer = std::mem::replace(&mut self.file, shown);
        self.depth += 1;
        let result = self.all(&commands);
        self.depth -= 1;
        self.file = outer;
        match (result, self.depth) {
            // `exit` of an include ends the whole, as in mysqltest; at the end of the script it is nothing to tell.
            (Err(Stop::Exit), 0) => Ok(()),
            (result, _) => result,
        }
    }

    fn all(&mut self, commands: &[Command]) -> Step {
        commands.iter().try_for_each(|command| self.one(command))
    }

    fn one(&mut self, command: &Command) -> Step {
        self.commands += 1;
        if self.commands > COMMANDS_MAX || Instant::now() > self.deadline {
            return Err(Stop::Because(format!("cut at {}:{}", self.file, command.line)));
        }
        match &command.kind {
            Kind::Sql(text) => match std::mem::take(&mut self.send_next) {
                true => self.send(command.line, both(text)),
                false => self.statement(command.line, both(text)),
            },
            Kind::Word(word, text) => self.word(command.line, word, text),
            Kind::If(condition, body) => match self.holds(condition)? {
                true => self.all(body),
                false => Ok(()),
            },
            Kind::While(condition, body) => {
                while self.holds(condition)? {
                    self.all(body)?;
                    self.commands += 1;
                    if self.commands > COMMANDS_MAX || Instant::now() > self.deadline {
                        return Err(Stop::Because(format!("cut at {}:{}", self.file, command.line)));
                    }
                }
                Ok(())
            }
        }
    }

    fn holds(&mut self, condition: &str) -> Result<bool, Stop> {
        let variables = std::mem::take(&mut self.variables);
        let result = variables.holds(condition, self);
        self.variables = variables;
        result.map_err(|why| self.not_understood(&why))
    }

    fn not_understood(&self, why: &str) -> Stop {
        Stop::Because(format!("{}: {why}", self.file))
    }

    fn word(&mut self, line: usize, word: &str, text: &str) -> Step {
        match word {
            "let" => {
                let mut variables = std::mem::take(&mut self.variables);
                let result = variables.assign(text, self);
                self.variables = variables;
                return result.map_err(|why| self.not_understood(&why));
            }
            "inc" => self.variables.add(text.trim_start_matches('$'), 1),
            "dec" => self.variables.add(text.trim_start_matches('$'), -1),
            "eval" | "evalp" | "query" | "query_vertical" | "query_horizontal" => {
                let sql = self.variables.expand(text);
                return self.statement(line, sql);
            }
            "send" | "send_eval" if text.is_empty() => self.send_next = true,
            "send" => return self.send(line, both(text)),
            "send_eval" => {
                let sql = self.variables.expand(text);
                return self.send(line, sql);
            }
            "reap" => return self.reap(line),
            "source" => return self.source(text),
            "connect" => self.connect(line, text),
            "connection" => self.current = self.variables.expand(text)[MARIA].trim().to_string(),
            "disconnect" | "dirty_close" => {
                let name = self.variables.expand(text)[MARIA].trim().to_string();
                self.sessions.remove(&name);
                self.sent.remove(&name);
            }
            "reset_connection" => self.reset(),
            "change_user" => self.change_user(text),
            "sleep" | "real_sleep" => {
                let seconds = self.variables.expand(text)[MARIA].trim().parse::<f64>().unwrap_or(0.0);
                std::thread::sleep(Duration::from_secs_f64(seconds.clamp(0.0, 1.0)));
            }
            "exit" => return Err(Stop::Exit),
            "die" | "skip" => {
                let why = readable(&self.variables.expand(text)[MARIA]);
                return Err(Stop::Because(format!("{word}: {why}")));
            }
            "require" if text.contains("big_test") => {
                return Err(Stop::Because("skip: needs --big-test".into()));
            }
            "disable_warnings" => self.switches.warnings_hidden = true,
            "enable_warnings" => self.switches.warnings_hidden = false,
            "disable_result_log" => self.switches.rows_hidden = true,
            "enable_result_log" => self.switches.rows_hidden = false,
            "disable_metadata" => self.switches.metadata_shown = false,
            "enable_metadata" => self.switches.metadata_shown = true,
            "echo" | "error" | "end_timer" | "start_timer" | "character_set" | "ping" | "result_format" => {}
            _ if word.starts_with("disable_") || word.starts_with("enable_") => {}
            _ => {
                let arguments = self.variables.expand(text);
                if !self.how.masks.add(word, &arguments) {
                    self.score.unsupported += 1;
                }
            }
        }
        Ok(())
    }

    fn source(&mut self, text: &str) -> Step {
        let name = readable(&self.variables.expand(text)[MARIA]).trim().to_string();
        let file = name.rsplit('/').next().unwrap_or_default();
        match file {
            "have_debug.inc" | "have_debug_sync.inc" => {
                return Err(Stop::Because("skip: needs a debug build".into()));
            }
            "wait_condition.inc" | "wait_condition_sp.inc" | "wait_condition_with_debug.inc" => {
                return self.wait_condition();
            }
            _ => {}
        }
        let restarts = [
            "restart_mysqld",
            "start_mysqld",
            "shutdown_mysqld",
            "kill_mysqld",
            "crash_mysqld",
            "kill_and_restart",
        ];
        let reads_files = ["search_pattern", "grep", "assert_grep", "write_result", "diff_"];
        if restarts.iter().chain(&reads_files).any(|prefix| file.starts_with(prefix)) {
            self.score.unsupported += 1;
            return Ok(());
        }
        let beside = self.root.join(&self.file).parent().map(|folder| folder.join(&name));
        let path = beside.filter(|path| path.is_file()).unwrap_or_else(|| self.root.join(&name));
        if !path.is_file() {
            self.score.unsupported += 1;
            return Ok(());
        }
        let harness = HARNESS.iter().any(|prefix| file.starts_with(prefix)) as usize;
        self.harness += harness;
        let result = self.file(&path);
        self.harness -= harness;
        result
    }

    /// Until the condition holds on both servers; a script that waits longer goes on without.
    fn wait_condition(&mut self) -> Step {
        let sql = self.variables.get("wait_condition");
        let deadline = Instant::now() + CONDITION_MAX;
        while Instant::now() < deadline {
            let rows = self.ask_apart(&sql);
            if rows.iter().all(|row| !matches!(row.as_deref(), Some("" | "0" | "NULL"))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn connect(&mut self, line: usize, text: &str) {
        let expanded = self.variables.expand(text.trim().trim_start_matches('(').trim_end_matches(')'));
        let arguments = fields(&expanded[MARIA]);
        let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
        let (name, user, password, database) = (argument(0), argument(2), argument(3), argument(4));
        let user = if user.is_empty() { "root" } else { user };
        let database = match database {
            "" => Some("test"),
            "*NO-ONE*" => None,
            name => Some(name),
        };
        let results = [MARIA, KEEL].map(|server| self.pair.connect(server, user, password, database));
        let said = |result: &io::Result<Client>| match result {
            Ok(_) => Outcome::Replies(Vec::new()),
            Err(error) => Outcome::Replies(vec![login_error(&error.to_string())]),
        };
        let outcomes = [said(&results[MARIA]), said(&results[KEEL])];
        let cause = match &outcomes {
            [Outcome::Replies(maria), Outcome::Replies(keel)] => {
                let code = |replies: &[Reply]| replies.first().and_then(Reply::error_code);
                (code(maria) != code(keel)).then(|| match code(keel) {
                    Some(code) => format!("{code} for a login"),
                    None => "a login that MariaDB refuses".to_string(),
                })
            }
            _ => None,
        };
        self.count(line, &format!("connect {text}"), &outcomes, cause, false);
        self.how = How::default();
        if results[MARIA].is_ok() {
            self.sessions.insert(name.to_string(), Session::new(results.map(Result::ok)));
            self.current = name.to_string();
        }
    }

    fn reset(&mut self) {
        if let Some(session) = self.sessions.get_mut(&self.current) {
            for client in session.clients.iter_mut() {
                if client.as_mut().is_some_and(|client| client.reset().is_err()) {
                    *client = None;
                }
            }
            session.renew(self.pair);
        }
    }

    /// A fresh connection has what COM_CHANGE_USER leaves.
    fn change_user(&mut self, text: &str) {
        let expanded = self.variables.expand(text);
        let arguments = fields(&expanded[MARIA]);
        let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
        let user = if argument(0).is_empty() { "root" } else { argument(0) };
        let database = Some(argument(2)).filter(|name| !name.is_empty());
        let clients = [MARIA, KEEL].map(|server| self.pair.connect(server, user, argument(1), database).ok());
        self.sessions.insert(self.current.clone(), Session::new(clients));
    }

    fn send(&mut self, line: usize, sql: Both) -> Step {
        let sql = sql.map(|text| portable(&text).into_owned());
        if let Some(session) = self.sessions.get_mut(&self.current) {
            session.post(&sql);
            let how = self.take_how();
            self.sent.insert(self.current.clone(), (sql, how, format!("{}:{line}", self.file)));
        }
        Ok(())
    }

    fn reap(&mut self, line: usize) -> Step {
        let Some((sql, _, _)) = self.sent.remove(&self.current) else { return Ok(()) };
        let Some(session) = self.sessions.get_mut(&self.current) else { return Ok(()) };
        let outcomes = session.receive(self.pair);
        // What the script says right before `reap` concerns its rows.
        let how = self.take_how();
        self.finish(line, &sql[MARIA], outcomes, &how)
    }

    fn take_how(&mut self) -> How {
        let taken = std::mem::take(&mut self.how);
        How {
            masks: taken.masks,
            rows_hidden: self.switches.rows_hidden,
            warnings_hidden: self.switches.warnings_hidden,
            metadata_shown: self.switches.metadata_shown,
        }
    }

    fn statement(&mut self, line: usize, sql: Both) -> Step {
        if compares_nothing(&sql[MARIA]) {
            return Ok(());
        }
        if self.sent.contains_key(&self.current) {
            self.reap(line)?;
        }
        let sql = sql.map(|text| portable(&text).into_owned());
        let how = self.take_how();
        let Some(session) = self.sessions.get_mut(&self.current) else {
            self.score.unsupported += 1;
            return Ok(());
        };
        let outcomes = session.ask(self.pair, &sql);
        self.finish(line, &sql[MARIA], outcomes, &how)
    }

    fn finish(&mut self, line: usize, sql: &str, outcomes: [Outcome; 2], how: &How) -> Step {
        let code = outcomes.each_ref().map(|outcome| match outcome {
            Outcome::Replies(replies) => replies.iter().find_map(Reply::error_code).unwrap_or(0).to_string(),
            _ => "2013".to_string(),
        });
        self.variables.set("mysql_errno", code);
        let changed = !matches!(judge(sql, &outcomes, how), Some(Difference::Warnings) | None);
        let cause = judge(sql, &outcomes, how).map(|difference| match difference {
            Difference::Cause(text) => text,
            Difference::Warnings => self.warning_cause(),
        });
        self.count(line, sql, &outcomes, cause, changed);
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::TimedOut | Outcome::Lost(_))) {
            self.mourn()?;
            if let Some(session) = self.sessions.get_mut(&self.current) {
                session.renew(self.pair);
            }
        }
        Ok(())
    }

    /// Restarts what died, and says so.
    fn mourn(&mut self) -> Step {
        for server in [MARIA, KEEL] {
            let dead =
                self.pair.revive(server).map_err(|error| Stop::Because(format!("no restart: {error}")))?;
            let Some(tail) = dead else { continue };
            let name = self.pair.server(server).engine.name();
            eprintln!("!!! {name} DIED in {}:\n{tail}", self.file);
            if server == KEEL {
                self.score.crashes.push(tail);
            }
            return Err(Stop::Because(format!("{name} died")));
        }
        Ok(())
    }

    fn warning_cause(&mut self) -> String {
        let Some(session) = self.sessions.get_mut(&self.current) else { return "warnings differ".into() };
        let [maria, keel] = session.warnings(self.pair);
        let only = |some: &[String], others: &[String]| {
            let mut left = others.to_vec();
            let mut found: Vec<String> = some.to_vec();
            found.retain(|code| match left.iter().position(|other| other == code) {
                Some(at) => {
                    left.swap_remove(at);
                    false
                }
                None => true,
            });
            found.sort();
            found.dedup();
            found.join(",")
        };
        match (only(&maria, &keel), only(&keel, &maria)) {
            (missing, extra) if !missing.is_empty() && !extra.is_empty() => {
                format!("warning {extra} in the place of {missing}")
            }
            (missing, _) if !missing.is_empty() => format!("warning {missing} missing"),
            (_, extra) if !extra.is_empty() => format!("warning {extra} too many"),
            _ => "number of warnings differs".into(),
        }
    }

    /// Puts a statement into the score.
    fn count(
        &mut self,
        line: usize,
        sql: &str,
        outcomes: &[Outcome; 2],
        cause: Option<String>,
        changed: bool,
    ) {
        if self.harness > 0 {
            return;
        }
        if !comparable(outcomes) {
            self.score.unanswered += 1;
            return;
        }
        self.score.statements += 1;
        let Some(cause) = cause else {
            self.score.agreed += 1;
            self.hurt.heal(sql);
            return;
        };
        let inherited = self.hurt.cause(sql).map(str::to_owned).filter(|_| !cause.starts_with("1235"));
        let follows = inherited.is_some();
        let cause = inherited.unwrap_or(cause);
        if changed {
            self.hurt.hurt(sql, &cause);
        }
        let counts = self.score.causes.entry(cause.clone()).or_default();
        if follows {
            counts.1 += 1
        } else {
            counts.0 += 1
        }
        if self.score.disagreements.len() < KEPT_MAX {
            self.score.disagreements.push(Disagreement {
                place: format!("{}:{line}", self.file),
                sql: shown(sql),
                cause,
                follows,
                maria: describe(&outcomes[MARIA]),
                keel: describe(&outcomes[KEEL]),
            });
        }
    }

    /// The first rows of a query that is not part of the test, or nothing where it failed.
    fn ask_apart(&mut self, sql: &Both) -> [Option<String>; 2] {
        self.rows_apart(sql).map(|reply| {
            let Reply::Rows { rows, .. } = reply? else { return None };
            let first = rows.into_iter().next().unwrap_or_default();
            let cells = first.iter().map(|cell| cell.as_deref().map(widen).unwrap_or_default());
            Some(cells.collect::<Vec<_>>().join("\t"))
        })
    }

    fn rows_apart(&mut self, sql: &Both) -> [Option<Reply>; 2] {
        let Some(session) = self.sessions.get_mut(&self.current) else { return [None, None] };
        let outcomes = session.ask(self.pair, sql);
        session.renew(self.pair);
        outcomes.map(|outcome| match outcome {
            Outcome::Replies(replies) => {
                replies.into_iter().find(|reply| matches!(reply, Reply::Rows { .. }))
            }
            _ => None,
        })
    }
}

impl Asker for Run<'_> {
    fn first_row(&mut self, sql: &Both) -> Both {
        let [maria, keel] = self.ask_apart(sql);
        let maria = maria.unwrap_or_default();
        [maria.clone(), keel.unwrap_or(maria)]
    }

    fn cell(&mut self, sql: &Both, column: &str, row: usize) -> Both {
        let [maria, keel] = self.rows_apart(sql).map(|reply| {
            let Reply::Rows { columns, rows, .. } = reply? else { return None };
            let at = columns.iter().position(|found| found.name.eq_ignore_ascii_case(column))?;
            let cell = rows.get(row.checked_sub(1)?)?.get(at)?.as_deref();
            Some(cell.map_or("NULL".to_string(), widen))
        });
        let maria = maria.unwrap_or("No such row".into());
        [maria.clone(), keel.unwrap_or(maria)]
    }
}

/// Calls of procedures that only the suite's own servers have, and statements that would end a server.
fn compares_nothing(sql: &str) -> bool {
    let start: String = sql.trim_start().chars().take(40).collect::<String>().to_ascii_lowercase();
    start.starts_with("call mtr.") || start.starts_with("shutdown")
}

/// `1045 (28000) Access denied ...`, as the client says it, as a reply again.
fn login_error(text: &str) -> Reply {
    let code = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(2002);
    Reply::Error { code, state: String::new(), message: text.to_string() }
}

//! Sessions that make a history: random transactions over lists, through any client.

use super::{Element, End, Key, Level, Lists, Op, Recorder, Step, Transaction};
use crate::Random;
use crate::client::{Client, Reply};

/// Why a statement gave no rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The server answered with this error.
    Refused(u16),
    /// The connection is lost.
    Lost,
}

/// A session of any server.
pub trait Session {
    /// Runs a statement; its rows as text, none for those that return none.
    fn run(&mut self, sql: &str) -> Result<Vec<Vec<String>>, Failure>;
}

impl Session for Client {
    fn run(&mut self, sql: &str) -> Result<Vec<Vec<String>>, Failure> {
        match self.one(sql) {
            Ok(Reply::Error { code, .. }) => Err(Failure::Refused(code)),
            Ok(reply) => Ok(reply.strings()),
            Err(_) => Err(Failure::Lost),
        }
    }
}

/// Statements that make the table, in the session's database.
pub const TABLE: &str =
    "CREATE TABLE list (k INT PRIMARY KEY, part INT NOT NULL, v MEDIUMTEXT NOT NULL, KEY (part))";

/// Keys in use at a time.
const KEYS: u64 = 8;
/// Elements after which the next key comes into use.
const ELEMENTS_PER_KEY: u64 = 24;
/// Values of `part`.
const PARTS: u32 = 3;
/// Digits of an element that makes its list too long for a row.
const LONG: usize = 3000;

/// Lock wait timeout, after which only the statement is rolled back.
const TIMEOUT: u16 = 1205;
/// What a server may answer while nothing is wrong with it: the record has changed since the snapshot, timeout, deadlock.
const USUAL: [u16; 3] = [1020, TIMEOUT, 1213];

/// What a session does.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Its number.
    pub session: usize,
    /// The level of its transactions.
    pub level: Level,
    /// How many transactions.
    pub transactions: usize,
    /// Decides everything.
    pub seed: u64,
}

/// Why a transaction ends before its time.
enum Stop {
    /// The server refused a statement; with `all` the transaction cannot go on without it.
    Refused {
        all: bool,
    },
    Lost,
}

/// One transaction on its way.
struct Running<'r, S> {
    session: &'r mut S,
    recorder: &'r Recorder,
    random: &'r mut Random,
    plan: &'r Plan,
    began: u64,
    /// One statement without BEGIN.
    alone: bool,
    /// The engine has seen a statement of it.
    worked: bool,
    steps: Vec<Step>,
}

/// Runs the plan; false if the connection was lost.
pub fn run<S: Session>(session: &mut S, recorder: &Recorder, plan: Plan) -> bool {
    let mut random = Random::new(plan.seed);
    if plan.level.statements().iter().any(|sql| session.run(sql).is_err()) {
        return false;
    }
    for _ in 0..plan.transactions {
        if !transaction(session, recorder, &plan, &mut random) {
            return false;
        }
    }
    true
}

/// All lists as they are; nobody may write meanwhile.
pub fn last<S: Session>(session: &mut S) -> Result<Lists, Failure> {
    session.run("SELECT k, v FROM list").map(lists_of)
}

fn transaction<S: Session>(session: &mut S, recorder: &Recorder, plan: &Plan, random: &mut Random) -> bool {
    let began = recorder.now();
    let alone = random.below(6) == 0;
    let mut running =
        Running { session, recorder, random, plan, began, alone, worked: false, steps: Vec::new() };
    let result = if alone { running.step() } else { running.several() };
    let ending = recorder.now();
    let (end, goes_on) = match result {
        // Whose commit was not asked for is not committed.
        Err(Stop::Lost) => (if alone { End::Unknown } else { End::Aborted }, false),
        // Of a statement alone nothing is left.
        Err(Stop::Refused { .. }) if alone => (End::Aborted, true),
        Err(Stop::Refused { .. }) => running.finish("ROLLBACK"),
        Ok(()) if alone => (End::Committed, true),
        Ok(()) if running.random.below(8) == 0 => running.finish("ROLLBACK"),
        Ok(()) => running.finish("COMMIT"),
    };
    let (steps, began) = (running.steps, running.began);
    // A statement alone asks for its end with its beginning.
    let ending = if alone { steps.first().map_or(began, |step| step.sent) } else { ending };
    let ended = recorder.now();
    recorder.keep(Transaction { session: plan.session, steps, began, ending, ended, end });
    goes_on
}

impl<S: Session> Running<'_, S> {
    fn several(&mut self) -> Result<(), Stop> {
        let takes_snapshot = matches!(self.plan.level, Level::RepeatableRead | Level::Snapshot);
        if takes_snapshot && self.random.below(5) == 0 {
            self.note(Op::Snapshot, "START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
            self.worked = true;
        } else {
            self.rows("BEGIN")?;
        }
        for _ in 0..1 + self.random.below(5) {
            let result = match self.random.below(12) {
                0 => self.undone(),
                1 => self.rewrite(),
                _ => self.step(),
            };
            match result {
                Err(Stop::Refused { all: false }) if self.random.below(2) == 0 => {}
                result => result?,
            }
        }
        Ok(())
    }

    /// Ends the transaction; how, and whether the session goes on. An error of COMMIT leaves its outcome open.
    fn finish(&mut self, sql: &str) -> (End, bool) {
        self.tell(if sql == "COMMIT" { End::Unknown } else { End::Aborted });
        match (self.session.run(sql), sql) {
            (Ok(_), "COMMIT") => (End::Committed, true),
            (Ok(_), _) => (End::Aborted, true),
            (Err(failure), "COMMIT") => (End::Unknown, failure != Failure::Lost),
            (Err(failure), _) => (End::Aborted, failure != Failure::Lost),
        }
    }

    /// Tells the recorder what to think of this if nothing more is heard of it.
    fn tell(&self, end: End) {
        let ending = if self.alone { self.began } else { self.recorder.now() };
        self.recorder.note(Transaction {
            session: self.plan.session,
            steps: self.steps.clone(),
            began: self.began,
            ending,
            ended: u64::MAX,
            end,
        });
    }

    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>, Stop> {
        self.session.run(sql).map_err(|failure| match failure {
            Failure::Refused(code) if USUAL.contains(&code) => Stop::Refused { all: code != TIMEOUT },
            Failure::Refused(code) => panic!("error {code}: {sql}"),
            Failure::Lost => Stop::Lost,
        })
    }

    fn note(&mut self, op: Op, sql: &str) -> Result<(), Stop> {
        let sent = self.recorder.now();
        // Appends of a statement whose answer is lost may be there: they are kept before it is known.
        let appends = matches!(op, Op::Append(..));
        if appends {
            self.worked = true;
            self.steps.push(Step { op: op.clone(), sent, answered: u64::MAX });
            self.tell(if self.alone { End::Unknown } else { End::Aborted });
        }
        let result = self.rows(sql);
        let answered = self.recorder.now();
        if let Op::Append(keys, element) = &op {
            self.steps.last_mut().expect("just pushed").answered = answered;
            if let Err(Stop::Refused { .. }) = &result {
                // Others may have seen it before it was taken back.
                let undone = keys.iter().map(|key| (*key, *element)).collect();
                self.steps.push(Step { op: Op::Undo(undone), sent, answered });
            }
        } else if result.is_ok() {
            self.steps.push(Step { op, sent, answered });
        }
        result.map(drop)
    }

    /// A key in use: they change in the course of time, so that lists stay short.
    fn key(&mut self) -> Key {
        let first = self.recorder.element_count() / ELEMENTS_PER_KEY;
        (first + self.random.below(KEYS)) as Key
    }

    fn step(&mut self) -> Result<(), Stop> {
        match self.random.below(10) {
            0..4 => self.append().map(drop),
            4..7 => self.read(),
            7 => self.read_part(),
            _ => self.lock(),
        }
    }

    fn append(&mut self) -> Result<(Vec<Key>, Element), Stop> {
        let mut keys = vec![self.key()];
        if self.random.below(4) == 0 {
            let other = self.key();
            if other != keys[0] {
                keys.push(other);
            }
        }
        let (element, text) = self.element();
        let values: Vec<String> =
            keys.iter().map(|key| format!("({key}, {}, '{text},')", key % PARTS)).collect();
        let sql = format!(
            "INSERT INTO list VALUES {} ON DUPLICATE KEY UPDATE v = CONCAT(v, '{text},')",
            values.join(", ")
        );
        self.note(Op::Append(keys.clone(), element), &sql)?;
        Ok((keys, element))
    }

    /// A new element and how it is written: now and then so long that the list gets pages of its own.
    fn element(&mut self) -> (Element, String) {
        let element = self.recorder.element();
        let width = if self.random.below(16) == 0 { LONG } else { 1 };
        (element, format!("{element:0width$}"))
    }

    /// Locks a list and appends to it by an UPDATE, or writes it anew.
    fn rewrite(&mut self) -> Result<(), Stop> {
        let key = self.key();
        let old =
            self.lock_keys(&format!("k = {key}"), &[key], "FOR UPDATE")?.remove(&key).unwrap_or_default();
        if old.is_empty() {
            return Ok(());
        }
        let (element, text) = self.element();
        let old: String = old.iter().map(|element| format!("{element},")).collect();
        let row = format!("list VALUES ({key}, {}, '{old}{text},')", key % PARTS);
        let sql = match self.random.below(3) {
            0 => format!("UPDATE list SET v = CONCAT(v, '{text},') WHERE k = {key}"),
            1 => format!("REPLACE INTO {row}"),
            _ => {
                self.rows(&format!("DELETE FROM list WHERE k = {key}"))?;
                format!("INSERT INTO {row}")
            }
        };
        let is_deleted = sql.starts_with("INSERT");
        self.note(Op::Append(vec![key], element), &sql).map_err(|stop| match stop {
            Stop::Refused { .. } if is_deleted => Stop::Refused { all: true },
            stop => stop,
        })
    }

    /// Appends and takes it back.
    fn undone(&mut self) -> Result<(), Stop> {
        self.rows("SAVEPOINT s")?;
        let worked = self.worked;
        let (keys, element) = self.append()?;
        if self.random.below(2) == 0 {
            self.read()?;
        }
        let undone = keys.into_iter().map(|key| (key, element)).collect();
        self.note(Op::Undo(undone), "ROLLBACK TO SAVEPOINT s")?;
        if !worked {
            self.begin_anew();
        }
        Ok(())
    }

    /// What returned to where nothing was done has given up its locks and its snapshot, as if it had been rolled back.
    fn begin_anew(&mut self) {
        let now = self.recorder.now();
        self.recorder.keep(Transaction {
            session: self.plan.session,
            steps: std::mem::take(&mut self.steps),
            began: self.began,
            ending: now,
            ended: now,
            end: End::Aborted,
        });
        self.began = self.recorder.now();
        self.worked = false;
    }

    /// A key, or a range of them; the condition and what it asks for.
    fn range(&mut self) -> (String, Vec<Key>) {
        let low = self.key();
        match self.random.below(3) {
            0 => (format!("k = {low}"), vec![low]),
            _ => {
                let high = low + self.random.below(4) as Key;
                (format!("k BETWEEN {low} AND {high}"), (low..=high).collect())
            }
        }
    }

    fn select(&mut self, sql: &str, keys: &[Key]) -> Result<(Lists, u64, u64), Stop> {
        self.worked = true;
        let sent = self.recorder.now();
        let rows = self.rows(sql)?;
        let answered = self.recorder.now();
        let mut lists: Lists = keys.iter().map(|key| (*key, Vec::new())).collect();
        lists.extend(lists_of(rows));
        Ok((lists, sent, answered))
    }

    fn read(&mut self) -> Result<(), Stop> {
        let (condition, keys) = self.range();
        let (lists, sent, answered) =
            self.select(&format!("SELECT k, v FROM list WHERE {condition}"), &keys)?;
        self.steps.push(Step { op: Op::Read(lists), sent, answered });
        Ok(())
    }

    /// All keys of a part, by the other index.
    fn read_part(&mut self) -> Result<(), Stop> {
        let part = self.random.below(u64::from(PARTS)) as u32;
        let first = (self.recorder.element_count() / ELEMENTS_PER_KEY) as Key;
        let keys: Vec<Key> = (0..first + KEYS as Key).filter(|key| key % PARTS == part).collect();
        let sql = format!("SELECT k, v FROM list FORCE INDEX (part) WHERE part = {part}");
        let (lists, sent, answered) = self.select(&sql, &keys)?;
        self.steps.push(Step { op: Op::Read(lists), sent, answered });
        Ok(())
    }

    fn lock(&mut self) -> Result<(), Stop> {
        let (condition, keys) = self.range();
        let how = if self.random.below(2) == 0 { "FOR UPDATE" } else { "LOCK IN SHARE MODE" };
        self.lock_keys(&condition, &keys, how).map(drop)
    }

    fn lock_keys(&mut self, condition: &str, keys: &[Key], how: &str) -> Result<Lists, Stop> {
        let sql = format!("SELECT k, v FROM list WHERE {condition} {how}");
        let (lists, sent, answered) = self.select(&sql, keys)?;
        let gaps = !matches!(self.plan.level, Level::ReadUncommitted | Level::ReadCommitted);
        self.steps.push(Step { op: Op::Lock { lists: lists.clone(), gaps }, sent, answered });
        Ok(lists)
    }
}

fn lists_of(rows: Vec<Vec<String>>) -> Lists {
    let list = |row: &Vec<String>| {
        let [key, text] = &row[..] else { return None };
        let elements = text.split_terminator(',').map(str::parse).collect::<Result<_, _>>().ok()?;
        Some((key.parse().ok()?, elements))
    };
    rows.iter().map(|row| list(row).unwrap_or_else(|| panic!("not a list: {row:?}"))).collect()
}
